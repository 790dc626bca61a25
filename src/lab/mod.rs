//! The lateness lab: what every delay and every horizon of a grid would have given, from one pass over the input. Pure.
//!
//! All delays share one sequence of stamps. Delays move a watermark without changing its order: with the delay `d` a
//! record's stamp is that of the least delay of the grid, moved back by the difference and rounded down to the table's
//! granularity. So the view's rows come through the usual readers, filters and exchange once, with the stamps of the least
//! delay, exact to the microsecond ([`Setting::program`]), and [`core::LabCore`] stands where the windows would. For a
//! window and key the rows in the order of their stamps are one sequence of results, and what a run with some delay and
//! horizon publishes is read off it: the first result is a prefix, each correction a longer one.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`grid`] | delays and horizons: the text, the check, a stamp under a delay |
//! | [`setting`] | which view, whether it can be asked, and the program that is run |
//! | [`tallies`] | counts of cells as sums, which add up in any order |
//! | [`accuracy`] | relative errors of first results against final ones |
//! | [`core`] | from contributions to counts |
//! | [`report`] | the figures, and their text, CSV and JSON |
//!
//! Invariant: every figure of a cell is that of a run with its delay and horizon, for any number of workers.
//! Memory: the windows between the frontier, less the greatest delay and horizon of the grid, and the newest event.

pub mod accuracy;
pub mod core;
pub mod grid;
pub mod report;
pub mod setting;
pub mod tallies;

use crate::engine::ingest::TooLate;
use crate::engine::output::{Ending, Flow, Reject, RunOutput};
use crate::error::{Error, Result};
use crate::record::Ledger;
use crate::sink::block::ChangeRun;
use grid::Grid;
use report::Report;
use setting::Setting;
use std::sync::{Arc, Mutex, PoisonError};
use tallies::Tallies;

/// One question to the lab, shared by the workers of the run that answers it.
#[derive(Debug)]
pub struct Lab {
    setting: Setting,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    tallies: Option<Tallies>,
    failure: Option<Failure>,
    /// Of the view, once the run has ended.
    ledger: Option<Ledger>,
    complete: bool,
}

/// A result that some cell publishes and that cannot be computed. The least of a run is reported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    /// End of its window, µs.
    pub end_us: i64,
    /// Start of its window, µs.
    pub start_us: i64,
    /// Its group values, as JSON, with commas between.
    pub group: String,
    /// What cannot be computed.
    pub message: String,
}

impl Failure {
    fn error(&self, setting: &Setting) -> Error {
        let mut place = setting.called();
        place.push_str(", window [");
        crate::time::format_timestamp(self.start_us, &mut place);
        place.push_str(", ");
        crate::time::format_timestamp(self.end_us, &mut place);
        place.push(')');
        if !self.group.is_empty() {
            place.push_str(", group ");
            place.push_str(&self.group);
        }
        Error::output(self.message.clone()).at(place).with_hint(
            "a run with one of the delays and horizons of the grid ends with this; change the expression or its type",
        )
    }
}

impl Lab {
    /// Asks what the setting says.
    pub fn new(setting: Setting) -> Arc<Lab> {
        Arc::new(Lab { setting, state: Mutex::default() })
    }

    /// The question.
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// The grid.
    pub fn grid(&self) -> &Grid {
        &self.setting.grid
    }

    /// Adds what one worker has counted.
    pub fn add(&self, tallies: &Tallies, failure: Option<Failure>) {
        let mut state = self.lock();
        state.tallies.get_or_insert_with(|| self.setting.tallies()).merge(tallies);
        state.failure = state.failure.take().into_iter().chain(failure).min();
    }

    /// Takes what the run gives beside the counts: pass it to the run.
    pub fn output(self: &Arc<Self>) -> Box<dyn RunOutput + Send> {
        Box::new(Taker(Arc::clone(self)))
    }

    /// The answer, once the run has ended; `None` if it has not read its whole input.
    ///
    /// # Errors
    /// When a result that one of the cells publishes cannot be computed: a run with its settings would fail.
    pub fn report(&self) -> Result<Option<Report>> {
        let state = self.lock();
        let (Some(ledger), true) = (&state.ledger, state.complete) else { return Ok(None) };
        if let Some(failure) = &state.failure {
            return Err(failure.error(&self.setting));
        }
        let none = self.setting.tallies();
        Ok(Some(Report::new(&self.setting, state.tallies.as_ref().unwrap_or(&none), ledger)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the ledger; nothing is published.
struct Taker(Arc<Lab>);

impl RunOutput for Taker {
    fn publish(&mut self, _view: usize, _changes: ChangeRun) -> Result<Flow> {
        Ok(Flow::Open)
    }
    fn advance(&mut self, _view: usize, _watermark_us: i64) -> Result<()> {
        Ok(())
    }
    fn too_late(&mut self, _view: usize, _rows: Vec<TooLate>) -> Result<()> {
        Ok(())
    }
    fn rejects(&mut self, _table: usize, _rejects: Vec<Reject>) -> Result<()> {
        Ok(())
    }
    fn prepare(&mut self, ending: Ending) -> Result<()> {
        let mut state = self.0.lock();
        state.complete = ending.complete;
        state.ledger = ending.ledgers.into_iter().next();
        Ok(())
    }
}
