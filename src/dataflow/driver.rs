//! The loop of one worker: read, sum up, stamp, contribute, advance, step.

use super::deal::{Crew, Share, as_dealt};
use super::lab::build_lab;
use super::notes::{Notes, Stage};
use super::operators::{Cutoff, by_worker, forward};
use super::refusal::Bound;
use super::side::{Side, ViewCounts};
use super::table::{Input, OUTSTANDING_CLUSTER_MAX, TableDriver, timed};
use super::tee::{Tee, TeeReader};
use super::view::{How, InputOf, View, ViewChanges, ViewInput, build_view};
use super::writer::Writer;
use super::{Outlets, RunOptions, Shared};
use crate::engine::ingest::ViewIngest;
use crate::engine::output::TableEnding;
use crate::lab::ingest::IngestMeter;
use crate::plan::Program;
use crate::source::{LaneReader, Source, Turns};
use crate::time::Instant;
use crate::watermark::AFTER_ALL;
use crate::window::Assigner;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::Probe;
use timely::dataflow::operators::core::input::Handle;
use timely::dataflow::operators::generic::operator::Operator;
use timely::worker::Worker;

/// Changes that may be on their way to where they are gathered before readers wait.
const ROWS_UNDER_WAY_MAX: u64 = 1 << 16;

/// One worker of a run.
pub(super) struct Work<'a> {
    pub program: &'a Program,
    pub sources: &'a [Arc<dyn Source>],
    pub options: &'a RunOptions,
    pub shared: &'a Arc<Shared>,
    pub crew: Crew,
}

/// What one worker has built.
struct Built {
    tables: Vec<TableDriver>,
    side: Option<InputOf<Side>>,
    writers: Vec<Writer>,
    /// Follows the results to their end, on all workers.
    results: ProbeHandle<Instant>,
}

impl Work<'_> {
    /// Everything one worker does in a run. Returns whether the whole input was read. Returns early, its dataflows not run
    /// out, when another worker has panicked or a peer was lost.
    pub fn run(&self, worker: &mut Worker, outlets: Outlets) -> bool {
        let bound = Bound::default();
        let mut notes = Notes::new(worker, self.crew, bound.clone(), self.shared);
        let mut built = self.build(worker, outlets, &bound);
        let leader = self.crew.thread == 0;
        loop {
            let turn = self.options.schedule.as_ref().map(|schedule| schedule.turn(self.crew.index()));
            if self.shared.broken() {
                return false;
            }
            let mut busy = false;
            if turn.is_none_or(|turn| turn.read) {
                busy |= self.read(&mut built.tables, &mut notes);
            }
            let stopping = self.shared.stopping();
            // First why, then that: with the last reader's end the others take no more notes.
            notes.report(self.shared);
            if stopping || !built.tables.iter().any(TableDriver::reading) {
                notes.done(self.shared);
            }
            for (table, read) in notes.take(self.shared) {
                busy = true;
                if let Some(table) = built.tables.get_mut(table) {
                    table.hear(read, false);
                }
            }
            if let Some(side) = &mut built.side {
                for table in &mut built.tables {
                    busy |= table.settle(self.shared, side);
                    table.advance();
                }
                side.flush();
            }
            if leader {
                report(&built.tables, self.options);
            }
            if notes.finished() {
                break;
            }
            self.step(worker, busy);
            built.writers.iter_mut().for_each(|writer| writer.write(self.shared));
        }
        self.finish(worker, built, notes)
    }

    /// Reads from every table, if few enough messages are under way.
    fn read(&self, tables: &mut [TableDriver], notes: &mut Notes) -> bool {
        let mut busy = false;
        let limit = (self.options.in_flight.max(1) * self.crew.workers()) as u64;
        for table in tables {
            if self.shared.stopping() {
                break;
            }
            if self.shared.in_flight.load(Ordering::Relaxed) >= limit
                || self.shared.rows_under_way.load(Ordering::Relaxed) >= ROWS_UNDER_WAY_MAX
            {
                continue;
            }
            for _ in 0..self.reads_a_turn() {
                match table.read(&self.options.progress) {
                    Ok(Some(read)) => {
                        busy = true;
                        notes.tell(table.index, &read);
                        table.hear(read, true);
                    }
                    Ok(None) => break,
                    Err(error) => {
                        self.shared.fail(error);
                        break;
                    }
                }
            }
        }
        busy
    }

    /// Blocks of a table read between two steps. A step sends what it has, and every sending wakes threads here and there:
    /// with single blocks, two processes spent a tenth of their time on that.
    fn reads_a_turn(&self) -> usize {
        if self.crew.processes > 1 { OUTSTANDING_CLUSTER_MAX } else { 1 }
    }

    fn build(&self, worker: &mut Worker, outlets: Outlets, bound: &Bound) -> Built {
        let cutoffs: Vec<Cutoff> = self.program.tables.iter().map(|_| Cutoff::default()).collect();
        let received: Rc<RefCell<Vec<Side>>> = Rc::default();
        let sink = Rc::clone(&received);
        let mut side: InputOf<Side> = Handle::new();
        let results = ProbeHandle::new();
        let mut changes: Vec<ViewChanges> = Vec::new();
        let mut inputs: Vec<Option<ViewInput>> = Vec::new();
        let mut measured = Vec::new();
        worker.dataflow_named::<Instant, _, _>("Results", |scope| {
            let to_writer = by_worker(|_: &Side| 0);
            let shared = Arc::clone(self.shared);
            let stream = forward(side.to_stream(scope));
            let sides = stream.unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(to_writer, "Side", move |_, _| {
                move |input, _output| {
                    input.for_each(|_, data| {
                        shared.check(data);
                        sink.borrow_mut().extend(data.drain());
                    });
                }
            });
            sides.probe_with(&results);
            for (v, view) in self.program.views.iter().enumerate() {
                let cutoff = cutoffs.get(view.table).cloned().unwrap_or_default();
                let how = How {
                    partitioned: self.options.partitioned.contains(&v),
                    timed: self.program.tables.get(view.table).is_some_and(timed),
                };
                if let Some((lab, plan)) = self.options.lab.get(v).and_then(|lab| Some((lab, lab.view()?))) {
                    let (input, gathered) = build_lab(scope, lab, plan, &cutoff, &results, self.shared);
                    inputs.push(Some(input));
                    measured.push(gathered);
                    continue;
                }
                let (input, gathered) = build_view(scope, view, how, &cutoff, (self.crew, &results), self.shared);
                inputs.push(Some(input));
                changes.push(gathered);
            }
        });
        let mut tables: Vec<TableDriver> = Vec::new();
        let mut tees = HashMap::new();
        for (t, plan) in self.program.tables.iter().enumerate() {
            let Some(source) = self.sources.get(if self.shares_source() { 0 } else { t }) else { continue };
            let mut views = Vec::new();
            for (v, view) in self.program.views.iter().enumerate().filter(|(_, view)| view.table == t) {
                let mut ingest = ViewIngest::new(view, plan);
                if self.options.keep_too_late {
                    ingest = ingest.keeping_too_late();
                }
                let lab = self.options.lab.get(v).and_then(|lab| {
                    let (_, windowed) = lab.view()?;
                    Some(IngestMeter::new(lab, Assigner::new(windowed.window)))
                });
                if lab.is_some() {
                    ingest = ingest.keeping_late();
                }
                if self.options.lab.get(v).is_some_and(|lab| lab.recommend.is_some()) {
                    ingest = ingest.keeping_judged();
                }
                if let Some(input) = inputs.get_mut(v).and_then(Option::take) {
                    views.push(View { index: v, ingest, input, counts: ViewCounts::default(), lab });
                }
            }
            let cutoff = cutoffs.get(t).cloned().unwrap_or_default();
            let round_us = self.options.lab.get(t).map_or(1, |lab| lab.grid.pass_granularity_us());
            let lanes = as_dealt(plan, source.lanes(), self.shares_source());
            let mut open = |part: Share| self.open(t, source, part, &mut tees);
            let input = Input { lanes: &lanes, open: &mut open, counted: t == 0 || !self.shares_source() };
            tables.push(TableDriver::new(t, plan, input, self.crew, views, (cutoff, bound.clone(), round_us)));
        }
        let mut writers = Vec::new();
        // Files of their own are completed first: the summary is that of a run whose files are there.
        if let Some(output) = outlets.own {
            let gathered = changes.iter().map(|c| c.own.clone()).collect();
            writers.push(Writer::new(output, gathered, None, self.program, bound));
        }
        if let Some(output) = outlets.all {
            let gathered = changes.iter().map(|c| Some(Rc::clone(&c.all))).collect();
            writers.push(Writer::new(output, gathered, Some(received), self.program, bound).measuring(measured));
        }
        Built { tables, side: Some(side), writers, results }
    }

    /// Whether all tables read the first one's source: a lateness lab that holds several settings side by side.
    fn shares_source(&self) -> bool {
        self.options.lab.len() > 1
    }

    /// Opens a part of a lane for a table, or what was opened already for another one.
    fn open(
        &self,
        table: usize,
        source: &Arc<dyn Source>,
        part: Share,
        tees: &mut HashMap<usize, Rc<RefCell<Tee>>>,
    ) -> Box<dyn LaneReader> {
        let open = |turns: Turns| source.open(part.lane, turns.for_reader(part.reader));
        if !self.shares_source() {
            return open(self.shared.turns(table, part));
        }
        let tables = self.program.tables.len();
        let tee = tees.entry(part.lane).or_insert_with(|| Tee::new(open(Turns::all()), tables));
        Box::new(TeeReader::new(tee, table))
    }

    fn step(&self, worker: &mut Worker, busy: bool) {
        if busy || self.options.schedule.is_some() {
            worker.step();
        } else {
            worker.step_or_park(Some(Duration::from_millis(1)));
        }
    }

    /// All summaries are in: settle what can be settled, close the inputs and let the dataflow run out.
    fn finish(&self, worker: &mut Worker, built: Built, mut notes: Notes) -> bool {
        let Built { tables, mut side, mut writers, results } = built;
        let mut complete = true;
        let mut endings = Vec::new();
        for mut table in tables {
            if let Some(side) = &mut side {
                table.settle(self.shared, side);
                table.advance();
                if !self.shared.stopping() {
                    table.search_rest(side);
                }
                for view in &mut table.views {
                    if let Some(lab) = view.lab.take() {
                        side.send(Side::Lab(view.index as u32, lab.into_sums()));
                    }
                    side.send(Side::View(view.index as u32, std::mem::take(&mut view.counts)));
                }
                side.send(Side::Table(table.index as u32, table.take_counts()));
            }
            let bound = table.final_before();
            if bound != AFTER_ALL {
                complete = false;
                table.cutoff.set(Instant::of_stamp(bound));
            }
            endings.push(TableEnding {
                partitions: table.coordinator.partitions().to_vec(),
                partition_watermarks_us: table.coordinator.partition_watermarks(),
                watermark_us: table.coordinator.watermark(),
                holder: table.coordinator.holder(),
                ..TableEnding::default()
            });
            drop(table);
        }
        drop(side);
        while !results.done() {
            self.take_turn();
            if self.shared.broken() {
                return false;
            }
            self.step(worker, false);
            writers.iter_mut().for_each(|writer| writer.write(self.shared));
        }
        // All must have concluded before any writes its end, and all ends must be written before any file gets its name.
        writers.iter_mut().for_each(|writer| writer.conclude(self.shared));
        for writer in &mut writers {
            let ending = writer.ending(self.program, endings.clone(), complete, self.shared);
            writer.prepare(ending, self.shared);
        }
        let alone = self.crew.processes == 1 || self.crew.thread > 0;
        let ended = alone || self.pass(worker, &mut notes, Stage::Prepared, None);
        // The others' files first: what process 0 completes is the run.
        let ended =
            ended && (alone || self.crew.process > 0 || self.wait(worker, &mut notes, Stage::Completed, Some(0)));
        if ended {
            writers.into_iter().for_each(|writer| writer.complete(self.shared));
        }
        let ended = ended && (alone || self.pass(worker, &mut notes, Stage::Completed, None));
        notes.close();
        while ended && worker.has_dataflows() && !self.shared.broken() {
            self.take_turn();
            self.step(worker, false);
        }
        complete && ended
    }

    fn take_turn(&self) {
        if let Some(schedule) = &self.options.schedule {
            schedule.turn(self.crew.index());
        }
    }

    /// Passes a stage with the other processes; says whether all are still there.
    fn pass(&self, worker: &mut Worker, notes: &mut Notes, stage: Stage, but: Option<usize>) -> bool {
        notes.pass(stage, self.shared);
        self.wait(worker, notes, stage, but)
    }

    /// Waits for the other processes to pass a stage; says whether all are still there.
    fn wait(&self, worker: &mut Worker, notes: &mut Notes, stage: Stage, but: Option<usize>) -> bool {
        loop {
            // What was read before the end may still be in there; it was heard by all that needed it.
            let _ = notes.take(self.shared);
            if notes.passed(stage, but) {
                return true;
            }
            if self.shared.broken() {
                return false;
            }
            self.step(worker, false);
        }
    }
}

fn report(tables: &[TableDriver], options: &RunOptions) {
    if let Some(table) = tables.first() {
        options.progress.watermark_us.store(table.frontier, Ordering::Relaxed);
        if let Ok(mut holder) = options.progress.holder.try_lock() {
            let name = table.coordinator.holder().and_then(|h| table.coordinator.partitions().get(h).cloned());
            if *holder != name {
                *holder = name;
            }
        }
    }
}
