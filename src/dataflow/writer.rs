//! The end of the run where changes are gathered: they are given to the output as they become complete.

use super::lab::LabGathered;
use super::operators::Gathered;
use super::refusal::{Bound, Place};
use super::side::{Side, TableCounts, ViewCounts};
use super::table::timed;
use super::{Shared, Stopped};
use crate::engine::output::{Ending, Flow, Reject, RunOutput, TableEnding};
use crate::error::{Error, Result};
use crate::lab::ingest::IngestSums;
use crate::lab::outcome::Outcome;
use crate::plan::{OnError, Program, ViewPlan};
use crate::record::Ledger;
use crate::sink::block::{ChangeBlock, ChangeRun};
use crate::time::Instant;
use crate::watermark::BEFORE_ALL;
use std::cell::RefCell;
use std::rc::Rc;

/// Takes what is gathered on one worker.
pub(super) struct Writer {
    output: Box<dyn RunOutput + Send>,
    /// By view; a view without is not this writer's.
    gathered: Vec<Option<Rc<RefCell<Gathered>>>>,
    /// The table of each view.
    table_of: Vec<usize>,
    /// Each view in words.
    names: Vec<String>,
    /// Whether a view's instants are times.
    timed: Vec<bool>,
    /// What workers tell beside rows; the writer that has it is the one that takes everything.
    side: Option<Rc<RefCell<Vec<Side>>>>,
    views: Vec<ViewCounts>,
    /// What was measured of the records read, and of the windows, by view.
    ingest: Vec<IngestSums>,
    measured: Vec<Rc<RefCell<LabGathered>>>,
    pub tables: Vec<TableCounts>,
    advanced: Vec<i64>,
    upto: Vec<Instant>,
    /// The output failed: nothing more is given to it.
    broken: bool,
    /// The first change that cannot be published: its instant and view, and why.
    unpublished: Option<(Instant, usize, Error)>,
    /// By table, whether a reject ends the run.
    fails: Vec<bool>,
    /// The least reject that the output refused, and why.
    refused: Option<(Place, Error)>,
    bound: Bound,
}

impl Writer {
    /// Gives to `output` what comes together in `gathered` (by view) and `side`.
    pub fn new(
        output: Box<dyn RunOutput + Send>,
        gathered: Vec<Option<Rc<RefCell<Gathered>>>>,
        side: Option<Rc<RefCell<Vec<Side>>>>,
        program: &Program,
        bound: &Bound,
    ) -> Self {
        let views = program.views.len();
        Writer {
            output,
            gathered,
            timed: program.views.iter().map(|v| program.tables.get(v.table).is_some_and(timed)).collect(),
            table_of: program.views.iter().map(|v| v.table).collect(),
            names: (1..).zip(&program.views).map(|(n, v)| in_words(n, v)).collect(),
            side,
            views: vec![ViewCounts::default(); views],
            ingest: vec![IngestSums::default(); views],
            measured: Vec::new(),
            tables: vec![TableCounts::default(); program.tables.len()],
            advanced: vec![BEFORE_ALL; views],
            upto: vec![Instant(i64::MIN); views],
            broken: false,
            unpublished: None,
            fails: program.tables.iter().map(|t| t.on_error == OnError::Fail).collect(),
            refused: None,
            bound: bound.clone(),
        }
    }

    /// Gives at the end what was measured.
    pub fn measuring(mut self, measured: Vec<Rc<RefCell<LabGathered>>>) -> Self {
        self.measured = measured;
        self
    }

    /// Hands on what has become complete. The first error is the run's; nothing is written after it.
    pub fn write(&mut self, shared: &Shared) {
        if self.broken {
            self.side.iter().for_each(|side| side.borrow_mut().clear());
            self.gathered.iter().flatten().for_each(|g| g.borrow_mut().blocks.clear());
        } else if let Err(error) = self.try_write(shared) {
            self.broken = true;
            shared.fail(error);
        }
    }

    /// Rejects of one block. One that is refused does not end the reading at once: a lesser one may still be found.
    fn rejects(&mut self, table: u32, rejects: Vec<Reject>) -> Result<()> {
        let place = rejects.first().map(|r| Place { position: r.position, table, lane: r.lane });
        let Err(error) = self.output.rejects(table as usize, rejects) else { return Ok(()) };
        let Some(place) = place.filter(|_| self.fails.get(table as usize).is_some_and(|fails| *fails)) else {
            return Err(error);
        };
        if self.refused.as_ref().is_none_or(|(least, _)| place < *least) {
            self.refused = Some((place, error));
            self.bound.lower(place);
        }
        Ok(())
    }

    fn try_write(&mut self, shared: &Shared) -> Result<()> {
        let sides = self.side.as_ref().map(|side| std::mem::take(&mut *side.borrow_mut())).unwrap_or_default();
        for side in sides {
            match side {
                Side::Lags(view, lags) => self.output.lags(view as usize, &lags),
                Side::TooLate(view, rows) => self.output.too_late(view as usize, rows)?,
                Side::Rejects(table, rejects) => self.rejects(table, rejects)?,
                Side::View(view, counts) => self.views.get_mut(view as usize).into_iter().for_each(|v| v.add(&counts)),
                Side::Lab(view, sums) => self.ingest.get_mut(view as usize).into_iter().for_each(|i| i.merge(&sums)),
                Side::Table(table, counts) => {
                    self.tables.get_mut(table as usize).into_iter().for_each(|t| t.add(&counts))
                }
            }
        }
        for view in 0..self.gathered.len() {
            let Some(gathered) = self.gathered.get(view).and_then(Option::as_ref) else { continue };
            let (blocks, upto) = {
                let mut gathered = gathered.borrow_mut();
                (std::mem::take(&mut gathered.blocks), gathered.upto)
            };
            if !blocks.is_empty() {
                let changes = self.publishable(view, ChangeRun::new(blocks));
                if !changes.is_empty() && self.output.publish(view, changes)? == Flow::Closed {
                    shared.stop_for(Stopped::Closed);
                }
            }
            if let Some(upto) = upto {
                self.advance(view, upto)?;
            }
        }
        self.fail_if_known()
    }

    /// The view has been given everything before `upto`.
    fn advance(&mut self, view: usize, upto: Instant) -> Result<()> {
        self.upto.get_mut(view).into_iter().for_each(|u| *u = upto);
        if !self.timed.get(view).is_some_and(|timed| *timed) {
            return Ok(());
        }
        // Up to `t⁻`, the windows that close at `t` are still to come.
        let (time, closing) = upto.time();
        let watermark = if closing { time.saturating_sub(1) } else { time };
        let Some(advanced) = self.advanced.get_mut(view).filter(|advanced| watermark > **advanced) else {
            return Ok(());
        };
        *advanced = watermark;
        self.output.advance(view, watermark)
    }

    /// The steps before the first that cannot be published whole, and before what is known not to be.
    fn publishable(&mut self, view: usize, mut changes: ChangeRun) -> ChangeRun {
        let name = self.names.get(view).map_or("", String::as_str);
        let failed = changes.first_error().map(|(block, row)| (block.at.get(row), unpublishable(name, block, row)));
        if let Some((at, error)) = failed {
            changes.keep_while(|own| own < at);
            if self.unpublished.as_ref().is_none_or(|(first, failed, _)| *failed != view && *first >= at) {
                self.fail_at(at, view, error);
            }
        }
        if let Some((first, failed, _)) = &self.unpublished {
            changes.keep_while(|own| if *failed == view { own < *first } else { own <= *first });
        }
        changes
    }

    /// Notes a change that cannot be published; of several, the first by instant and view.
    fn fail_at(&mut self, at: Instant, view: usize, error: Error) {
        if self.unpublished.as_ref().is_none_or(|(first, other, _)| (at, view) < (*first, *other)) {
            self.unpublished = Some((at, view, error));
        }
    }

    /// Gives the error of a change that could not be published once no view of the table can have had one before it.
    fn fail_if_known(&mut self) -> Result<()> {
        let Some((at, failed, _)) = &self.unpublished else { return Ok(()) };
        let table = self.table_of.get(*failed);
        let mut siblings = self.table_of.iter().zip(&self.upto).zip(&self.gathered);
        if siblings.any(|((of, upto), gathered)| gathered.is_some() && Some(of) == table && upto <= at) {
            return Ok(());
        }
        let Some((_, _, error)) = self.unpublished.take() else { return Ok(()) };
        if self.side.is_some() {
            return Err(error);
        }
        // The writer that takes everything will come to it, or to an earlier one of other keys.
        self.broken = true;
        Ok(())
    }

    /// The dataflow has run out: hands on the rest, and fails the run if this writer has reasons to. Every writer of the
    /// process must have done so before one of them prepares its end.
    pub fn conclude(&mut self, shared: &Shared) {
        self.write(shared);
        if let Some((_, error)) = self.refused.take() {
            shared.fail(error);
        }
        if let Some((_, _, error)) = self.unpublished.take() {
            self.broken = true;
            if self.side.is_some() {
                shared.fail(error);
            }
        }
    }

    /// Has the output write all that is left, unless the run has failed.
    pub fn prepare(&mut self, ending: Ending, shared: &Shared) {
        if !shared.failed() && !self.broken {
            self.output.prepare(ending).unwrap_or_else(|error| shared.fail(error));
        }
    }

    /// Has the output complete what it has prepared, unless the run has failed.
    pub fn complete(mut self, shared: &Shared) {
        if !shared.failed() && !self.broken {
            self.output.complete().unwrap_or_else(|error| shared.fail(error));
        }
    }

    /// What the run has come to, from what every worker has told and what this worker's coordinators know.
    pub fn ending(&self, program: &Program, endings: Vec<TableEnding>, complete: bool, shared: &Shared) -> Ending {
        let tables: Vec<TableEnding> = endings
            .into_iter()
            .zip(&self.tables)
            .map(|(ending, counts)| TableEnding {
                newest_event_us: counts.newest_event_us,
                bytes: counts.bytes,
                records: counts.records,
                delays: counts.delays,
                ..ending
            })
            .collect();
        let names = |view: &ViewPlan| tables.get(view.table).map_or(&[][..], |t| t.partitions.as_slice());
        let ledgers = program.views.iter().zip(&self.views).map(|(view, counts)| ledger(counts, names(view))).collect();
        let outcome = |(measured, ingest): (&Rc<RefCell<LabGathered>>, &IngestSums)| Outcome {
            ingest: ingest.clone(),
            ..measured.borrow_mut().take()
        };
        let lab = self.measured.iter().zip(&self.ingest).map(outcome).collect();
        Ending { complete, ledgers, tables, exchanged_bytes: shared.exchanged_bytes(), lab }
    }
}

/// A view in words; those without a name are counted.
fn in_words(number: usize, view: &ViewPlan) -> String {
    view.name.as_ref().map_or_else(|| format!("query {number}"), |name| format!("view {name}"))
}

/// The error of a result that cannot be published: of which view, window and group, and what to do about it.
fn unpublishable(view: &str, block: &ChangeBlock, row: usize) -> Error {
    let change = block.change(row);
    let message = block.error(row).unwrap_or_default();
    let mut place = view.to_owned();
    if let Some((start, end)) = change.window_us {
        place.push_str(", window [");
        crate::time::format_timestamp(start, &mut place);
        place.push_str(", ");
        crate::time::format_timestamp(end, &mut place);
        place.push(')');
    }
    if !change.group.is_empty() {
        place.push_str(", group ");
    }
    for (at, value) in change.group.iter().enumerate() {
        place.push_str(if at == 0 { "" } else { ", " });
        crate::sink::text::write_json(value, &mut place);
    }
    let hint = if message.contains("does not fit BIGINT") {
        "a sum of CAST(x AS DECIMAL(38,0)) or of DOUBLE holds more"
    } else if message.contains("out of range") {
        "compute it in a wider type (CAST to DECIMAL or DOUBLE), or leave such results out: CASE, HAVING"
    } else {
        "a result that cannot be computed ends the run; leave it out: CASE, HAVING"
    };
    Error::output(message).at(place).with_hint(hint)
}

/// The ledger of a view with its partitions named.
fn ledger(counts: &ViewCounts, partitions: &[String]) -> Ledger {
    let mut ledger = Ledger { contributions: counts.contributions.clone(), ..Ledger::default() };
    for (partition, counts) in &counts.records {
        ledger.count(partition.and_then(|p| partitions.get(p as usize)).map(String::as_str), counts);
    }
    ledger
}
