//! The loop of one worker: read, sum up, stamp, contribute, advance, step.

use super::operators::{Cutoff, Gathered, Published, changelog, forward, gather, windows};
use super::side::{Side, TableCounts, ViewCounts};
use super::{RunOptions, Shared};
use crate::aggregate::table::Table;
use crate::engine::ResultRow;
use crate::engine::ingest::{Contributions, Ingested, StampedBlock, ViewIngest, table_spec};
use crate::engine::output::{Ending, Flow, Reject, RunOutput, TableEnding};
use crate::engine::publish::{Collector, Publisher};
use crate::error::{Error, Result};
use crate::expr::eval::evaluate;
use crate::plan::{Program, TablePlan, ViewKind, ViewPlan};
use crate::record::Ledger;
use crate::sink::Change;
use crate::source::{DecodedBlock, LaneReader, Next, Source};
use crate::time::Instant;
use crate::types::ColumnData;
use crate::watermark::blocks::{BlockContext, BlockSummary, Coordinator, LanePartitions, SummaryBuilder};
use crate::watermark::{AFTER_ALL, BEFORE_ALL, WatermarkSettings};
use crate::window::Assigner;
use crate::window::core::WindowCore;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::core::input::Handle;
use timely::dataflow::operators::generic::operator::Operator;
use timely::dataflow::operators::vec::Broadcast;
use timely::worker::Worker;

/// Undecided blocks a lane may have on one worker.
const OUTSTANDING_MAX: usize = 2;

type InputOf<T, M> = Handle<T, CapacityContainerBuilder<Vec<M>>>;

/// A message on the summaries dataflow.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Note {
    /// A block of a table was decoded by the worker named.
    Summary(u32, u32, BlockSummary),
    /// The worker named reads nothing more.
    Done(u32),
}

/// Contributions on their way to the worker that keeps their keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Routed {
    to: u64,
    contributions: Contributions,
}

enum ViewInput {
    Windowed(InputOf<Instant, Routed>),
    PassThrough(InputOf<Instant, (ResultRow, Instant, isize)>),
}

struct View {
    index: usize,
    ingest: ViewIngest,
    input: ViewInput,
    counts: ViewCounts,
}

struct Lane {
    index: usize,
    reader: Box<dyn LaneReader>,
    outstanding: usize,
    ended: bool,
}

struct Pending {
    block: Box<DecodedBlock>,
    watermarks_us: Vec<i64>,
}

/// One table on one worker.
struct TableDriver {
    index: usize,
    plan: TablePlan,
    settings: WatermarkSettings,
    coordinator: Coordinator,
    lanes: Vec<Lane>,
    pending: HashMap<(u32, u64), Pending>,
    views: Vec<View>,
    counts: TableCounts,
    cutoff: Cutoff,
    frontier: i64,
}

/// Which lanes a worker reads, and its share of each: `(lane, share, shares)`. Whole lanes are dealt in turn; if there are
/// fewer lanes than workers, all workers share the blocks of every lane that can be split.
pub fn deal(lanes: &[crate::source::LaneInfo], worker: usize, workers: usize) -> Vec<(usize, u64, u64)> {
    let split = lanes.len() < workers;
    let share = |(lane, info): (usize, &crate::source::LaneInfo)| {
        if split && info.splittable {
            Some((lane, worker as u64, workers as u64))
        } else {
            (lane % workers == worker).then_some((lane, 0, 1))
        }
    };
    lanes.iter().enumerate().filter_map(share).collect()
}

fn lane_reader(source: &Arc<dyn Source>, (lane, share, shares): (usize, u64, u64)) -> Lane {
    Lane { index: lane, reader: source.open(lane, share, shares), outstanding: 0, ended: false }
}

impl TableDriver {
    fn new(
        index: usize,
        plan: &TablePlan,
        source: &Arc<dyn Source>,
        worker: usize,
        workers: usize,
        views: Vec<View>,
        cutoff: Cutoff,
    ) -> Self {
        let settings = WatermarkSettings {
            scope: plan.scope,
            idle_timeout_us: plan.idle_timeout_us,
            granularity_us: plan.granularity_us,
            tick_us: plan.tick_us,
        };
        let lane = |info: &crate::source::LaneInfo| match plan.partition {
            Some(_) => LanePartitions::ByColumn,
            None => LanePartitions::One(info.name.clone()),
        };
        let lanes: Vec<_> = source.lanes().iter().map(lane).collect();
        let declared = if plan.partition.is_some() { plan.partitions.clone() } else { Vec::new() };
        TableDriver {
            index,
            plan: plan.clone(),
            coordinator: Coordinator::new(settings.clone(), lanes, declared),
            settings,
            lanes: deal(source.lanes(), worker, workers).into_iter().map(|l| lane_reader(source, l)).collect(),
            pending: HashMap::new(),
            views,
            counts: TableCounts::default(),
            cutoff,
            frontier: BEFORE_ALL,
        }
    }

    /// Reads one block of the lane furthest behind, if memory allows; gives its summary.
    fn read(&mut self, progress: &super::Progress) -> Result<Option<BlockSummary>> {
        let open: Vec<usize> =
            self.lanes.iter().filter(|l| !l.ended && l.outstanding < OUTSTANDING_MAX).map(|l| l.index).collect();
        // Lanes of which nothing is outstanding hold everything back; they come first.
        let starved: Vec<usize> =
            self.lanes.iter().filter(|l| !l.ended && l.outstanding == 0).map(|l| l.index).collect();
        let candidates = if starved.is_empty() { &open } else { &starved };
        // Of lanes that have ended for the coordinator a reader may still owe its own end.
        let Some(chosen) = self.coordinator.furthest_behind(candidates).or_else(|| candidates.first().copied()) else {
            return Ok(None);
        };
        let many = self.lanes.len() > 64;
        let Some(lane) = self.lanes.iter_mut().find(|l| l.index == chosen) else { return Ok(None) };
        let next = lane.reader.next_block()?;
        if many {
            lane.reader.suspend();
        }
        match next {
            Next::Pending => Ok(None),
            Next::End => {
                lane.ended = true;
                Ok(None)
            }
            Next::Block(block) => {
                lane.outstanding += 1;
                progress.bytes.fetch_add(block.input_bytes, Ordering::Relaxed);
                progress.records.fetch_add((block.rows + block.rejects.len()) as u64, Ordering::Relaxed);
                Ok(Some(self.sum_up(block)))
            }
        }
    }

    fn sum_up(&mut self, mut block: Box<DecodedBlock>) -> BlockSummary {
        let watermarks_us = self.watermarks(&block);
        let mut builder = SummaryBuilder::new(&self.settings, block.lane, block.index);
        if block.arrived_us.is_none() && block.partition.is_none() {
            builder.records(&watermarks_us);
        } else {
            let mut rejects = block.rejects.iter().peekable();
            for (row, watermark) in watermarks_us.iter().enumerate() {
                while let Some(reject) = rejects.next_if(|r| r.rows_before as usize <= row) {
                    builder.reject(reject.arrived_us);
                }
                let at = |v: &Vec<i64>| v.get(row).copied();
                let partition = block.partition.as_ref().and_then(|p| p.get(row)).copied().unwrap_or(0);
                builder.record(partition, *watermark, block.arrived_us.as_ref().and_then(at));
            }
            rejects.for_each(|reject| builder.reject(reject.arrived_us));
        }
        if block.clock_us.is_some() {
            builder.reject(block.clock_us);
        }
        let names = std::mem::take(&mut block.partition_names);
        let summary = builder.finish(block.starts_file, block.lines, block.last, names);
        self.pending.insert((block.lane, block.index), Pending { block, watermarks_us });
        summary
    }

    /// The declared watermark expression of every row; where it is NULL or fails it promises nothing.
    fn watermarks(&self, block: &DecodedBlock) -> Vec<i64> {
        match (self.plan.delay_us, &self.plan.watermark) {
            (Some(delay), _) => block.event_time_us.iter().map(|et| et.saturating_sub(delay)).collect(),
            (None, Some(expr)) => {
                let empty = crate::types::Column::new(crate::types::DataType::Boolean);
                let columns: Vec<_> = block.columns.iter().map(|c| c.as_ref().unwrap_or(&empty)).collect();
                let column = evaluate(expr, &columns, block.rows).column;
                let ColumnData::I64(values) = &column.data else { return vec![BEFORE_ALL; block.rows] };
                values.iter().enumerate().map(|(row, w)| if column.is_null(row) { BEFORE_ALL } else { *w }).collect()
            }
            (None, None) => vec![BEFORE_ALL; block.rows],
        }
    }

    /// Stamps the blocks whose place has become known and sends what follows from them.
    fn settle(&mut self, workers: usize, shared: &Shared, side: &mut InputOf<Instant, Side>) -> bool {
        let contexts = self.coordinator.take_contexts();
        let any = !contexts.is_empty();
        for (summary, context) in contexts {
            let Some(pending) = self.pending.remove(&(context.lane, context.index)) else { continue };
            if let Some(lane) = self.lanes.iter_mut().find(|l| l.index == context.lane as usize) {
                lane.outstanding -= 1;
            }
            self.contribute(&summary, &context, &pending, workers, shared, side);
        }
        any
    }

    fn contribute(
        &mut self,
        summary: &BlockSummary,
        context: &BlockContext,
        pending: &Pending,
        workers: usize,
        shared: &Shared,
        side: &mut InputOf<Instant, Side>,
    ) {
        let block = &*pending.block;
        let stamps = if self.plan.event_time.is_some() {
            context.stamps(summary, block.partition.as_deref(), &pending.watermarks_us)
        } else {
            Vec::new()
        };
        let stamped = StampedBlock {
            block,
            stamps_us: &stamps,
            partitions: &context.partitions,
            names: self.coordinator.partitions(),
            first_position: context.first_position,
        };
        self.counts.bytes += block.input_bytes;
        self.counts.records += (block.rows + block.rejects.len()) as u64;
        self.counts.newest_event_us = self.counts.newest_event_us.max(block.event_time_us.iter().copied().max());
        let mut rejects: Vec<Reject> = Vec::new();
        for reject in &block.rejects {
            let partition = match block.partition {
                None => context.partitions.first().copied(),
                Some(_) => reject.partition.and_then(|p| context.partitions.get(p as usize).copied()),
            };
            for view in &mut self.views {
                let counts = view.counts.records.entry(partition).or_default();
                counts.read += 1;
                *counts.rejected.entry(reject.reason).or_default() += 1;
            }
            let place = Place { block, context, line: reject.line, partition, names: self.coordinator.partitions() };
            rejects.push(place.reject(None, reject.reason, reject.detail.clone(), Some(reject.span)));
        }
        for view in &mut self.views {
            let ingested = view.ingest.process(&stamped, workers);
            for reject in &ingested.rejects {
                let row = reject.row as usize;
                let line = block.line.get(row).copied().unwrap_or(0);
                let place =
                    Place { block, context, line, partition: Some(stamped.partition(row)), names: stamped.names };
                let reason = crate::record::RejectReason::Value;
                rejects.push(place.reject(
                    Some(view.index as u32),
                    reason,
                    reject.detail.clone(),
                    block.span.get(row).copied(),
                ));
            }
            view.send(ingested, shared, side);
        }
        if !rejects.is_empty() {
            rejects.sort_by_key(|r| (r.position, r.view));
            side.send(Side::Rejects(self.index as u32, rejects));
        }
    }

    /// Moves the inputs of all views to the source's frontier.
    fn advance(&mut self) {
        let bound = self.coordinator.frontier();
        if bound > self.frontier && bound != AFTER_ALL {
            self.frontier = bound;
            for view in &mut self.views {
                match &mut view.input {
                    ViewInput::Windowed(input) => input.advance_to(Instant::of_stamp(bound)),
                    ViewInput::PassThrough(input) => input.advance_to(Instant::of_stamp(bound)),
                }
            }
        }
        for view in &mut self.views {
            match &mut view.input {
                ViewInput::Windowed(input) => input.flush(),
                ViewInput::PassThrough(input) => input.flush(),
            }
        }
    }
}

/// Where a record stands.
struct Place<'a> {
    block: &'a DecodedBlock,
    context: &'a BlockContext,
    line: u32,
    partition: Option<u32>,
    names: &'a [String],
}

impl Place<'_> {
    fn reject(
        &self,
        view: Option<u32>,
        reason: crate::record::RejectReason,
        detail: String,
        span: Option<(u32, u32)>,
    ) -> Reject {
        let raw = span.and_then(|(start, end)| self.block.bytes.get(start as usize..end as usize)).unwrap_or_default();
        Reject {
            view,
            partition: self.partition,
            partition_name: self.partition.and_then(|p| self.names.get(p as usize).cloned()),
            lane: self.block.lane,
            file: self.block.file,
            line: self.context.first_line + u64::from(self.line),
            position: self.context.first_position + u64::from(self.line),
            reason,
            detail,
            raw: raw.to_vec(),
        }
    }
}

impl View {
    fn send(&mut self, ingested: Ingested, shared: &Shared, side: &mut InputOf<Instant, Side>) {
        for (partition, counts) in &ingested.records {
            self.counts.records.entry(Some(*partition)).or_default().add(counts);
        }
        self.counts.contributions.on_time += ingested.counts.on_time;
        self.counts.contributions.late += ingested.counts.late;
        self.counts.contributions.too_late += ingested.counts.too_late;
        if !ingested.lags_us.is_empty() {
            side.send(Side::Lags(self.index as u32, ingested.lags_us));
        }
        if !ingested.too_late.is_empty() {
            side.send(Side::TooLate(self.index as u32, ingested.too_late));
        }
        match &mut self.input {
            ViewInput::Windowed(input) => {
                for (to, contributions) in ingested.contributions {
                    shared.in_flight.fetch_add(1, Ordering::Relaxed);
                    input.send(Routed { to: to as u64, contributions });
                }
            }
            ViewInput::PassThrough(input) => {
                for (row, at) in ingested.passed {
                    input.send((row, at, 1));
                }
            }
        }
    }
}

/// Adds one message to the windows it belongs to.
fn absorb(core: &mut WindowCore<Table>, contributions: &Contributions) {
    for run in &contributions.runs {
        let end = run.start as usize + run.len as usize;
        let Some(selected) = contributions.selected.get(run.start as usize..end) else { continue };
        let table = match run.late_stamp_us {
            None => core.on_time(run.slice),
            Some(stamp) => core.late(stamp, run.slice),
        };
        table.insert(&contributions.rows, selected);
    }
    for (slice, table) in &contributions.combined {
        core.on_time(*slice).merge(table);
    }
}

/// Builds the results dataflow of one view; returns its input and, on every worker, what is gathered for worker 0.
fn build_view(
    scope: timely::dataflow::Scope<'_, Instant>,
    view: &ViewPlan,
    cutoff: &Cutoff,
    shared: &Arc<Shared>,
) -> (ViewInput, Rc<RefCell<Gathered>>) {
    let (input, results) = match &view.kind {
        ViewKind::PassThrough(_) => {
            let mut input = Handle::new();
            let stream = input.to_stream(scope);
            (ViewInput::PassThrough(input), stream)
        }
        ViewKind::Windowed(plan) => {
            let mut input: InputOf<Instant, Routed> = Handle::new();
            let stream = forward(input.to_stream(scope));
            let (spec, count) = table_spec(plan);
            let core = WindowCore::new(Assigner::new(plan.window), view.horizon_us, Table::new(spec));
            let publisher = Publisher::new(plan, count);
            let shared = Arc::clone(shared);
            let results = windows(
                stream,
                Exchange::new(|routed: &Routed| routed.to),
                core,
                cutoff.clone(),
                move |core, routed: Routed, _at| {
                    absorb(core, &routed.contributions);
                    shared.in_flight.fetch_sub(1, Ordering::Relaxed);
                },
                move |core, upto, give| core.advance(upto, &mut Collector::new(&publisher, give)),
            );
            (ViewInput::Windowed(input), results)
        }
    };
    // A differential collection of results from here on: what follows may join, reduce or arrange it.
    let results = differential_dataflow::AsCollection::as_collection(results);
    let changes = changelog(results.inner, view.horizon_us, cutoff.clone());
    (input, gather(changes, cutoff.clone()))
}

/// Worker 0's end of the run.
struct Writer {
    output: Box<dyn RunOutput + Send>,
    gathered: Vec<Rc<RefCell<Gathered>>>,
    side: Rc<RefCell<Vec<Side>>>,
    views: Vec<ViewCounts>,
    tables: Vec<TableCounts>,
    advanced: Vec<i64>,
    /// The output failed: nothing more is given to it.
    broken: bool,
    /// The output refused a reject: the first in the input of those that were read, and why.
    refused: Option<(Option<RejectPlace>, Error)>,
}

/// Table, partition order and position.
type RejectPlace = (u32, Option<u32>, u64);

impl Writer {
    /// Hands on what has become complete. The first error is the run's; nothing is written after it.
    fn write(&mut self, shared: &Shared) {
        if self.broken {
            self.side.borrow_mut().clear();
            self.gathered.iter().for_each(|g| g.borrow_mut().steps.clear());
        } else if let Err(error) = self.try_write(shared) {
            self.broken = true;
            shared.fail(error);
        }
    }

    /// Ends the reading. By the time all workers have stopped, every earlier block of the lane has been heard of, so that
    /// the run's error is the lane's first, whoever found another one sooner.
    fn refuse(&mut self, place: Option<RejectPlace>, error: Error, shared: &Shared) {
        shared.stop.store(true, Ordering::SeqCst);
        if self.refused.as_ref().is_none_or(|(at, _)| place < *at) {
            self.refused = Some((place, error));
        }
    }

    fn try_write(&mut self, shared: &Shared) -> Result<()> {
        let sides = std::mem::take(&mut *self.side.borrow_mut());
        for side in sides {
            match side {
                Side::Lags(view, lags) => self.output.lags(view as usize, &lags),
                Side::TooLate(view, rows) => self.output.too_late(view as usize, rows)?,
                Side::Rejects(table, rejects) => {
                    let place = rejects.first().map(|r| (table, r.partition, r.position));
                    if let Err(error) = self.output.rejects(table as usize, rejects) {
                        self.refuse(place, error, shared);
                    }
                }
                Side::View(view, counts) => self.views.get_mut(view as usize).into_iter().for_each(|v| v.add(&counts)),
                Side::Table(table, counts) => {
                    self.tables.get_mut(table as usize).into_iter().for_each(|t| t.add(&counts))
                }
            }
        }
        for (view, gathered) in self.gathered.iter().enumerate() {
            let (steps, upto) = {
                let mut gathered = gathered.borrow_mut();
                (std::mem::take(&mut gathered.steps), gathered.upto)
            };
            for step in steps {
                if self.output.changes(view, sound(step)?)? == Flow::Closed {
                    shared.stop.store(true, Ordering::SeqCst);
                }
            }
            if let (Some(upto), Some(advanced)) = (upto, self.advanced.get_mut(view)) {
                // Up to `t⁻`, the windows that close at `t` are still to come.
                let (time, closing) = upto.time();
                let watermark = if closing { time.saturating_sub(1) } else { time };
                if watermark > *advanced {
                    *advanced = watermark;
                    self.output.advance(view, watermark)?;
                }
            }
        }
        Ok(())
    }
}

/// The changes of a step, or the error of the first that cannot be published.
fn sound(step: Vec<Published>) -> Result<Vec<Change>> {
    let mut changes = Vec::with_capacity(step.len());
    for published in step {
        if let Some(error) = published.error {
            let change = published.change;
            let mut place = String::new();
            if let Some((start, end)) = change.window_us {
                place.push_str("window [");
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
            let failed = Error::output(error.into_string()).at(place);
            let sum = failed.message().ends_with("does not fit BIGINT");
            return Err(if sum {
                failed.with_hint("a sum of CAST(x AS DECIMAL(38,0)) or of DOUBLE holds more")
            } else {
                failed
            });
        }
        changes.push(published.change);
    }
    Ok(changes)
}

/// Everything one worker does in a run. Returns whether the whole input was read. Returns early, its dataflows not run
/// out, when another worker has panicked.
pub fn work(
    worker: &mut Worker,
    program: &Program,
    sources: &[Arc<dyn Source>],
    options: &RunOptions,
    shared: &Arc<Shared>,
    output: Option<Box<dyn RunOutput + Send>>,
) -> bool {
    let (index, workers) = (worker.index(), worker.peers());
    let notes: Rc<RefCell<Vec<Note>>> = Rc::default();
    let sink = Rc::clone(&notes);
    let mut note_input: Option<InputOf<u64, Note>> = Some(Handle::new());
    worker.dataflow_named::<u64, _, _>("Summaries", |scope| {
        if let Some(input) = &mut note_input {
            let stream = input.to_stream(scope);
            stream.broadcast().unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(Pipeline, "Notes", move |_, _| {
                move |input, _output| input.for_each(|_, data| sink.borrow_mut().append(data))
            });
        }
    });
    let cutoffs: Vec<Cutoff> = program.tables.iter().map(|_| Cutoff::default()).collect();
    let side: Rc<RefCell<Vec<Side>>> = Rc::default();
    let side_sink = Rc::clone(&side);
    let mut side_input: Option<InputOf<Instant, Side>> = Some(Handle::new());
    let mut gathered = Vec::new();
    let mut inputs = Vec::new();
    worker.dataflow_named::<Instant, _, _>("Results", |scope| {
        if let Some(input) = &mut side_input {
            let to_writer = Exchange::new(|_: &Side| 0);
            let stream = forward(input.to_stream(scope));
            stream.unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(to_writer, "Side", move |_, _| {
                move |input, _output| input.for_each(|_, data| side_sink.borrow_mut().append(data))
            });
        }
        for view in &program.views {
            let cutoff = cutoffs.get(view.table).cloned().unwrap_or_default();
            let (input, rows) = build_view(scope, view, &cutoff, shared);
            inputs.push(Some(input));
            gathered.push(rows);
        }
    });
    let mut tables: Vec<TableDriver> = Vec::new();
    for (t, (plan, source)) in program.tables.iter().zip(sources).enumerate() {
        let mut views = Vec::new();
        for (v, view) in program.views.iter().enumerate().filter(|(_, view)| view.table == t) {
            let mut ingest = ViewIngest::new(view, plan);
            if options.keep_too_late {
                ingest = ingest.keeping_too_late();
            }
            if let Some(input) = inputs.get_mut(v).and_then(Option::take) {
                views.push(View { index: v, ingest, input, counts: ViewCounts::default() });
            }
        }
        let cutoff = cutoffs.get(t).cloned().unwrap_or_default();
        tables.push(TableDriver::new(t, plan, source, index, workers, views, cutoff));
    }
    let mut writer = output.map(|output| Writer {
        output,
        gathered,
        side,
        views: vec![ViewCounts::default(); program.views.len()],
        tables: vec![TableCounts::default(); program.tables.len()],
        advanced: vec![BEFORE_ALL; program.views.len()],
        broken: false,
        refused: None,
    });

    let limit = (options.in_flight.max(1) * workers) as u64;
    let mut done = vec![false; workers];
    loop {
        let mut busy = false;
        let mut reading = false;
        if !shared.stopping() {
            for table in &mut tables {
                reading |= table.lanes.iter().any(|l| !l.ended);
                if shared.in_flight.load(Ordering::Relaxed) >= limit {
                    continue;
                }
                match table.read(&options.progress) {
                    Ok(Some(summary)) => {
                        busy = true;
                        if workers > 1
                            && let Some(input) = &mut note_input
                        {
                            input.send(Note::Summary(table.index as u32, index as u32, summary.clone()));
                        }
                        table.coordinator.offer(summary, true);
                    }
                    Ok(None) => {}
                    Err(error) => shared.fail(error),
                }
            }
        }
        if !reading
            && note_input.is_some()
            && let Some(mut input) = note_input.take()
        {
            input.send(Note::Done(index as u32));
        }
        if let Some(input) = &mut note_input {
            input.flush();
        }
        for note in std::mem::take(&mut *notes.borrow_mut()) {
            busy = true;
            match note {
                Note::Done(from) => done.get_mut(from as usize).into_iter().for_each(|d| *d = true),
                Note::Summary(table, from, summary) if from as usize != index => {
                    if let Some(table) = tables.get_mut(table as usize) {
                        table.coordinator.offer(summary, false);
                    }
                }
                Note::Summary(..) => {}
            }
        }
        if let Some(side) = &mut side_input {
            for table in &mut tables {
                busy |= table.settle(workers, shared, side);
                table.advance();
            }
            side.flush();
        }
        if index == 0 {
            report(&tables, options);
        }
        let finished = note_input.is_none() && done.iter().all(|d| *d);
        if finished {
            break;
        }
        if shared.broken.load(Ordering::SeqCst) {
            return false;
        }
        step(worker, busy);
        if let Some(writer) = &mut writer {
            writer.write(shared);
        }
    }
    finish(worker, program, tables, side_input, writer, shared)
}

fn step(worker: &mut Worker, busy: bool) {
    if busy {
        worker.step();
    } else {
        worker.step_or_park(Some(Duration::from_millis(1)));
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

/// All summaries are in: settle what can be settled, close the inputs and let the dataflow run out.
fn finish(
    worker: &mut Worker,
    program: &Program,
    tables: Vec<TableDriver>,
    side_input: Option<InputOf<Instant, Side>>,
    mut writer: Option<Writer>,
    shared: &Arc<Shared>,
) -> bool {
    let mut complete = true;
    let mut endings = Vec::new();
    let mut side_input = side_input;
    for mut table in tables {
        if let Some(side) = &mut side_input {
            table.settle(worker.peers(), shared, side);
            table.advance();
            for view in &mut table.views {
                side.send(Side::View(view.index as u32, std::mem::take(&mut view.counts)));
            }
            side.send(Side::Table(table.index as u32, std::mem::take(&mut table.counts)));
        }
        let frontier = table.coordinator.frontier();
        if frontier != AFTER_ALL {
            complete = false;
            table.cutoff.set(Instant::of_stamp(frontier));
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
    drop(side_input);
    while worker.has_dataflows() {
        if shared.broken.load(Ordering::SeqCst) {
            return false;
        }
        worker.step_or_park(Some(Duration::from_millis(1)));
        if let Some(writer) = &mut writer {
            writer.write(shared);
        }
    }
    if let Some(mut writer) = writer {
        writer.write(shared);
        if let Some((_, error)) = writer.refused.take() {
            shared.fail(error);
        }
        if !shared.failed.load(Ordering::SeqCst) {
            let ending = ending(&writer, program, endings, complete);
            if let Err(error) = writer.output.finish(ending) {
                shared.fail(error);
            }
        }
    }
    complete
}

fn ending(writer: &Writer, program: &Program, endings: Vec<TableEnding>, complete: bool) -> Ending {
    let tables: Vec<TableEnding> = endings
        .into_iter()
        .zip(&writer.tables)
        .map(|(ending, counts)| TableEnding {
            newest_event_us: counts.newest_event_us,
            bytes: counts.bytes,
            records: counts.records,
            ..ending
        })
        .collect();
    let names = |view: &ViewPlan| tables.get(view.table).map_or(&[][..], |t| t.partitions.as_slice());
    let ledgers = program.views.iter().zip(&writer.views).map(|(view, counts)| ledger(counts, names(view))).collect();
    Ending { complete, ledgers, tables }
}

/// The ledger of a view with its partitions named.
fn ledger(counts: &ViewCounts, partitions: &[String]) -> Ledger {
    let mut ledger = Ledger { contributions: counts.contributions.clone(), ..Ledger::default() };
    for (partition, counts) in &counts.records {
        ledger.count(partition.and_then(|p| partitions.get(p as usize)).map(String::as_str), counts);
    }
    ledger
}
