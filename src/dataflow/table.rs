//! One table on one worker: reads, sums up, stamps, and hands blocks to its views.

mod search;

use super::deal::{Crew, Share, deal, sharers};
use super::notes::Read;
use super::operators::Cutoff;
use super::refusal::Bound;
use super::side::{Side, TableCounts};
use super::view::{InputOf, View, ViewInput};
use super::{Progress, Shared};
use crate::aggregate::number_at;
use crate::engine::ingest::{Keepers, StampedBlock};
use crate::engine::output::Reject;
use crate::error::Result;
use crate::expr::eval::evaluate;
use crate::plan::{LatenessScope, OnError, TablePlan};
use crate::source::{DecodedBlock, LaneInfo, LaneReader, Next};
use crate::time::Instant;
use crate::types::ColumnData;
use crate::watermark::blocks::{BlockContext, BlockSummary, Coordinator, LanePartitions, SummaryBuilder};
use crate::watermark::policy::Policies;
use crate::watermark::{AFTER_ALL, BEFORE_ALL, WatermarkSettings, round_down};
use search::Search;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::Ordering;

/// Undecided blocks a lane may have on one worker.
const OUTSTANDING_MAX: usize = 2;

/// As many in a cluster: others' summaries are longer under way, and blocks read together travel together.
pub(super) const OUTSTANDING_CLUSTER_MAX: usize = 4;

/// Blocks that a worker may have read beyond the frontier, those whose place is not known yet among them, unless it has more
/// lanes: then two a lane.
const AHEAD_MIN: usize = 16;

struct Lane {
    index: usize,
    /// The delays of its partitions, if they follow the lane's disorder.
    policies: Option<Policies>,
    reader: Box<dyn LaneReader>,
    outstanding: usize,
    /// The last block that was read here.
    last: Option<u64>,
    ended: bool,
}

struct Pending {
    block: Box<DecodedBlock>,
    watermarks_us: Vec<i64>,
}

/// One table on one worker.
pub(super) struct TableDriver {
    pub index: usize,
    plan: TablePlan,
    settings: WatermarkSettings,
    pub coordinator: Coordinator,
    lanes: Vec<Lane>,
    pending: HashMap<(u32, u64), Pending>,
    pub views: Vec<View>,
    pub counts: TableCounts,
    pub cutoff: Cutoff,
    /// The watermark reached, µs.
    pub frontier: i64,
    /// What the inputs were advanced to.
    advanced: i64,
    /// Up to where the blocks reach that were read beyond the frontier.
    ahead: BinaryHeap<Reverse<i64>>,
    /// Workers that read each lane, and how many of them have come to the end.
    sharers: Vec<usize>,
    outstanding_max: usize,
    ends: HashMap<u32, usize>,
    keepers: Keepers,
    bound: Bound,
    /// Stamps are rounded down to this after they are measured; 1 is not at all.
    round_us: i64,
    /// If a reject of the table fails the run.
    search: Option<Search>,
    /// Whether what is read counts towards the progress that is shown.
    counted: bool,
}

/// Whether a table has a watermark. The records of one that has none pass in the order in which they stand.
pub(super) fn timed(plan: &TablePlan) -> bool {
    plan.event_time.is_some()
}

/// The pseudo-time of a block of a table without watermark.
fn place_of(lane: usize, block: u64) -> i64 {
    (lane as i64) << 40 | i64::try_from(block).unwrap_or(i64::MAX).min((1 << 40) - 1)
}

/// Stamps rounded down; most are in the granule of the one before them.
fn round_all(stamps_us: &[i64], granularity_us: i64) -> Vec<i64> {
    let (mut granule_us, mut end_us) = (0, 0);
    let round = |stamp_us: &i64| {
        if !(granule_us..end_us).contains(stamp_us) {
            granule_us = round_down(*stamp_us, granularity_us);
            end_us = granule_us.saturating_add(granularity_us);
        }
        granule_us
    };
    stamps_us.iter().map(round).collect()
}

/// The watermark that each row brings. The lane's blocks come in order, and all of them here.
fn by_policy(policies: &mut Policies, column: Option<usize>, block: &DecodedBlock) -> Vec<i64> {
    let column = column.and_then(|at| block.columns.get(at)).and_then(Option::as_ref);
    let value = |row: usize| column.and_then(|column| number_at(column, row));
    let rows = block.event_time_us.iter().copied().enumerate();
    let Some(partitions) = &block.partition else {
        // The lane is the partition.
        let policy = policies.of("");
        return rows.map(|(row, event_time_us)| policy.record(event_time_us, value(row))).collect();
    };
    let mut out = Vec::with_capacity(block.rows);
    let mut rows = rows.zip(partitions).peekable();
    while let Some((_, partition)) = rows.peek().copied() {
        let name = block.partition_names.get(*partition as usize).map_or("", String::as_str);
        let policy = policies.of(name);
        while let Some(((row, event_time_us), _)) = rows.next_if(|(_, next)| *next == partition) {
            out.push(policy.record(event_time_us, value(row)));
        }
    }
    out
}

/// What a table reads.
pub(super) struct Input<'a> {
    /// The lanes, as they are dealt.
    pub lanes: &'a [LaneInfo],
    /// Opens the worker's share of a lane.
    pub open: &'a mut dyn FnMut(Share) -> Box<dyn LaneReader>,
    /// Whether what is read counts towards the progress that is shown.
    pub counted: bool,
}

fn lane_reader(plan: &TablePlan, part: Share, reader: Box<dyn LaneReader>) -> Lane {
    let policies = plan.policy.as_ref().map(|policy| Policies::new(&policy.plan, plan.delay_us.unwrap_or(0)));
    Lane { index: part.lane, policies, reader, outstanding: 0, last: None, ended: false }
}

impl TableDriver {
    pub fn new(
        index: usize,
        plan: &TablePlan,
        input: Input<'_>,
        crew: Crew,
        views: Vec<View>,
        (cutoff, bound, round_us): (Cutoff, Bound, i64),
    ) -> Self {
        let Input { lanes: dealt, open, counted } = input;
        let reader = |part: Share| lane_reader(plan, part, open(part));
        let settings = WatermarkSettings {
            // Without watermarks the arrival clock has nothing to decide.
            scope: if timed(plan) { plan.scope } else { LatenessScope::Partition },
            idle_timeout_us: plan.idle_timeout_us,
            granularity_us: plan.granularity_us,
            tick_us: plan.tick_us,
        };
        let lane = |info: &LaneInfo| match plan.partition {
            Some(_) => LanePartitions::ByColumn,
            None => LanePartitions::One(info.name.clone()),
        };
        let lanes: Vec<_> = dealt.iter().map(lane).collect();
        let declared = if plan.partition.is_some() { plan.partitions.clone() } else { Vec::new() };
        let coordinator = Coordinator::new(settings.clone(), lanes, declared);
        TableDriver {
            index,
            plan: plan.clone(),
            coordinator: if timed(plan) { coordinator } else { coordinator.in_turn() },
            settings,
            lanes: deal(dealt, crew).into_iter().map(reader).collect(),
            pending: HashMap::new(),
            views,
            counts: TableCounts::default(),
            cutoff,
            frontier: BEFORE_ALL,
            advanced: BEFORE_ALL,
            ahead: BinaryHeap::new(),
            sharers: (0..dealt.len()).map(|lane| sharers(dealt, lane, crew.processes, crew.threads)).collect(),
            outstanding_max: if crew.processes > 1 { OUTSTANDING_CLUSTER_MAX } else { OUTSTANDING_MAX },
            ends: HashMap::new(),
            keepers: crew.keepers(),
            bound,
            round_us,
            search: (plan.on_error == OnError::Fail).then(|| Search::new(index, dealt.len())),
            counted,
        }
    }

    /// Whether anything is left to read.
    pub fn reading(&self) -> bool {
        self.lanes.iter().any(|l| !l.ended && self.wanted(l.index))
    }

    /// The lane furthest behind of those that may be read, if any may. `silent` are lanes that have nothing to give now.
    fn choose(&self, silent: &[usize]) -> Option<usize> {
        let open = |l: &&Lane| !l.ended && l.outstanding < self.outstanding_max && !silent.contains(&l.index);
        // Lanes of which nothing is outstanding hold everything back; they come first.
        let starved: Vec<usize> =
            self.lanes.iter().filter(open).filter(|l| l.outstanding == 0).map(|l| l.index).collect();
        let candidates =
            if starved.is_empty() { self.lanes.iter().filter(open).map(|l| l.index).collect() } else { starved };
        // Of lanes that have ended for the coordinator a reader may still owe its own end.
        let Some(chosen) = self.coordinator.furthest_behind(&candidates) else { return candidates.first().copied() };
        // If another lane holds everything back, what is read now only waits for it.
        let waiting: usize = self.lanes.iter().map(|l| l.outstanding).sum();
        let full = !self.ahead.is_empty() && self.ahead.len() + waiting >= AHEAD_MIN.max(2 * self.lanes.len());
        (!full || self.coordinator.is_behind_all(chosen)).then_some(chosen)
    }

    /// Reads one block, if memory allows and one is there; gives its summary, or the news that a reader has come to its end.
    pub fn read(&mut self, progress: &Progress) -> Result<Option<Read>> {
        if let Some(least) = self.bound.get() {
            return self.search_on(least, progress);
        }
        let many = self.lanes.len() > 64;
        let mut silent = Vec::new();
        while let Some(chosen) = self.choose(&silent) {
            let Some(lane) = self.lanes.iter_mut().find(|l| l.index == chosen) else { return Ok(None) };
            let next = lane.reader.next_block()?;
            if many {
                lane.reader.suspend();
            }
            match next {
                Next::Pending => silent.push(chosen),
                Next::End => {
                    lane.ended = true;
                    return Ok(Some(Read::End(chosen as u32)));
                }
                Next::Block(block) => {
                    lane.outstanding += 1;
                    lane.last = Some(block.index);
                    if self.counted {
                        progress.bytes.fetch_add(block.input_bytes, Ordering::Relaxed);
                        progress.records.fetch_add((block.rows + block.rejects.len()) as u64, Ordering::Relaxed);
                    }
                    return Ok(Some(Read::Block(self.sum_up(block))));
                }
            }
        }
        Ok(None)
    }

    /// The sums of this worker, at its end.
    pub fn take_counts(&mut self) -> TableCounts {
        let mut counts = std::mem::take(&mut self.counts);
        self.lanes.iter().flat_map(|lane| &lane.policies).for_each(|policies| counts.delays.add(&policies.delays()));
        counts
    }

    /// What was read, here (`mine`) or by another worker.
    pub fn hear(&mut self, read: Read, mine: bool) {
        match read {
            Read::Block(summary) => {
                self.search.iter_mut().for_each(|search| search.hear((&summary).into(), mine));
                self.coordinator.offer(summary, mine);
            }
            Read::Searched(extent) => self.search.iter_mut().for_each(|search| search.hear(extent, mine)),
            Read::End(lane) => {
                let sharers = self.sharers.get(lane as usize).copied().unwrap_or(1);
                let ends = self.ends.entry(lane).or_default();
                *ends += 1;
                if *ends >= sharers {
                    self.coordinator.halt(lane as usize);
                }
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

    /// The watermark of every row by the table's policy, else by the declared expression; where that is NULL or fails it
    /// promises nothing.
    fn watermarks(&mut self, block: &DecodedBlock) -> Vec<i64> {
        let lane = self.lanes.iter_mut().find(|lane| lane.index == block.lane as usize);
        if let (Some(policy), Some(policies)) = (&self.plan.policy, lane.and_then(|lane| lane.policies.as_mut())) {
            return by_policy(policies, policy.column, block);
        }
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
    pub fn settle(&mut self, shared: &Shared, side: &mut InputOf<Side>) -> bool {
        let contexts = self.coordinator.take_contexts();
        let any = !contexts.is_empty();
        for (summary, context) in contexts {
            let Some(pending) = self.pending.remove(&(context.lane, context.index)) else { continue };
            if let Some(lane) = self.lanes.iter_mut().find(|l| l.index == context.lane as usize) {
                lane.outstanding -= 1;
            }
            let lane = context.lane as usize;
            let reached =
                if timed(&self.plan) { self.coordinator.reached(lane) } else { Some(place_of(lane, context.index)) };
            self.ahead.extend(reached.filter(|r| *r > self.advanced).map(Reverse));
            self.search.iter_mut().for_each(|search| search.forget(context.lane, context.index));
            self.contribute(&summary, &context, &pending, shared, side);
        }
        self.give_found(side);
        any
    }

    fn contribute(
        &mut self,
        summary: &BlockSummary,
        context: &BlockContext,
        pending: &Pending,
        shared: &Shared,
        side: &mut InputOf<Side>,
    ) {
        let block = &*pending.block;
        let stamps = if timed(&self.plan) {
            context.stamps(summary, block.partition.as_deref(), &pending.watermarks_us)
        } else {
            vec![place_of(block.lane as usize, block.index); block.rows]
        };
        let rounded = (self.round_us > 1).then(|| round_all(&stamps, self.round_us));
        let unrounded_us = stamps.as_slice();
        let stamped = StampedBlock {
            block,
            stamps_us: rounded.as_deref().unwrap_or(unrounded_us),
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
            let ingested = view.ingest.process(&stamped, &self.keepers);
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
            view.measure(&StampedBlock { stamps_us: unrounded_us, ..stamped }, &ingested, self.keepers.workers);
            view.send(ingested, shared, side);
        }
        if !rejects.is_empty() {
            rejects.sort_by_key(|r| (r.position, r.view));
            side.send(Side::Rejects(self.index as u32, rejects));
        }
    }

    /// What the table's inputs may be advanced to: every record still to be sent has this stamp or a later one.
    pub fn final_before(&self) -> i64 {
        let frontier = self.coordinator.frontier();
        if timed(&self.plan) || frontier == AFTER_ALL {
            return round_down(frontier, self.round_us);
        }
        self.coordinator.next_place().map_or(self.advanced, |(lane, block)| place_of(lane, block))
    }

    /// Moves the inputs of all views to the source's frontier.
    pub fn advance(&mut self) {
        self.frontier = self.coordinator.frontier();
        let bound = self.final_before();
        if bound == AFTER_ALL {
            // Its last windows close now, though another table may go on.
            self.advanced = bound;
            self.views.iter_mut().for_each(|view| view.input = ViewInput::Closed);
        } else if bound > self.advanced {
            self.advanced = bound;
            self.views.iter_mut().for_each(|view| view.input.advance_to(Instant::of_stamp(bound)));
            while self.ahead.peek().is_some_and(|reached| reached.0 <= bound) {
                self.ahead.pop();
            }
        }
        self.views.iter_mut().for_each(|view| view.input.flush());
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
