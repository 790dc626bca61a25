//! What a run of the engine gives, collected in memory, so that it can be compared.
//!
//! The collector also holds the run to what [`RunOutput`] promises: steps in order, none below a watermark that was said
//! to be reached.

use crate::dataflow::{RunOptions, run};
use crate::engine::ingest::TooLate;
use crate::engine::output::{Ending, Flow, Reject, RunOutput};
use crate::error::{Error, Result};
use crate::plan::Program;
use crate::sink::Change;
use crate::sink::block::ChangeRun;
use crate::source::Source;
use std::sync::{Arc, Mutex, PoisonError};

/// Everything a run gave.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    /// Changes by view, in the order they were given.
    pub changes: Vec<Vec<Change>>,
    /// Dropped contributions by view, by (partition, position, window).
    pub too_late: Vec<Vec<TooLate>>,
    /// Rejects by table, by (partition, position, view).
    pub rejects: Vec<Vec<Reject>>,
    /// The end.
    pub ending: Ending,
}

/// Takes the results of a run; clones share what is collected.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    collected: Collected,
    /// By view: the watermark below which nothing may come any more.
    advanced_us: Vec<Option<i64>>,
}

fn at<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    // Just made long enough.
    #[expect(clippy::indexing_slicing, reason = "just made long enough")]
    &mut list[index]
}

impl Collector {
    /// What was collected so far, the lists in their documented order and one for every view and table.
    pub fn take(&self, program: &Program) -> Collected {
        let mut collected = std::mem::take(&mut self.with(|state| std::mem::take(&mut state.collected)));
        for view in 0..program.views.len() {
            at(&mut collected.changes, view);
            let window = |row: &TooLate| row.window_us.map(|(start, end)| (end, start));
            at(&mut collected.too_late, view).sort_by_key(|row| (row.partition, row.position, window(row)));
        }
        for table in 0..program.tables.len() {
            at(&mut collected.rejects, table).sort_by_key(|r| (r.partition, r.position, r.view));
        }
        collected
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn broken(promise: String) -> Error {
    Error::output(promise).with_hint("this is a bug; please report it")
}

impl RunOutput for Collector {
    fn publish(&mut self, view: usize, changes: ChangeRun) -> Result<Flow> {
        self.with(|state| {
            let step: Vec<Change> = changes.into_steps().concat();
            if !step.is_sorted_by(|a, b| a.compare(b).is_lt()) {
                return Err(broken(format!("a step of view {view} is out of order")));
            }
            let advanced_us = *at(&mut state.advanced_us, view);
            if step.first().is_some_and(|change| advanced_us.is_some_and(|w| change.watermark_us < w)) {
                return Err(broken(format!("a change of view {view} comes after its watermark was passed")));
            }
            at(&mut state.collected.changes, view).extend(step);
            Ok(Flow::Open)
        })
    }
    fn advance(&mut self, view: usize, watermark_us: i64) -> Result<()> {
        self.with(|state| *at(&mut state.advanced_us, view) = Some(watermark_us));
        Ok(())
    }
    fn too_late(&mut self, view: usize, rows: Vec<TooLate>) -> Result<()> {
        self.with(|state| at(&mut state.collected.too_late, view).extend(rows));
        Ok(())
    }
    fn rejects(&mut self, table: usize, rejects: Vec<Reject>) -> Result<()> {
        self.with(|state| at(&mut state.collected.rejects, table).extend(rejects));
        Ok(())
    }
    fn prepare(&mut self, ending: Ending) -> Result<()> {
        self.with(|state| state.collected.ending = ending);
        Ok(())
    }
}

/// Runs a program and collects. Sinks, and the files for late records and rejects, are not written.
///
/// # Errors
/// As [`run`].
pub fn collect(program: &Arc<Program>, sources: Vec<Arc<dyn Source>>, workers: usize) -> Result<Collected> {
    let collector = Collector::default();
    let options = RunOptions { workers, keep_too_late: true, ..RunOptions::default() };
    run(Arc::clone(program), sources, &options, Box::new(collector.clone()))?;
    Ok(collector.take(program))
}
