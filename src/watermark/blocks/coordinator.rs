//! From summaries in any order to contexts: puts each lane's blocks in order, names partitions, counts lines, and leaves
//! what depends on the lateness scope to [`PartitionScope`] or [`SourceScope`].

use super::super::{AFTER_ALL, BEFORE_ALL, WatermarkSettings, round_down};
use super::context::BlockContext;
use super::partition_scope::PartitionScope;
use super::source_scope::SourceScope;
use super::summary::BlockSummary;
use crate::plan::LatenessScope;
use std::collections::{BTreeMap, HashMap};

/// A lane as the coordinator sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum LanePartitions {
    /// The lane is one partition, with this name.
    One(String),
    /// A column names the partitions. There is then one lane: all files of the table, read as one trace.
    ByColumn,
}

/// A block that stands in order in its lane and whose context is being put together.
#[derive(Debug)]
pub(super) struct Pending {
    pub summary: BlockSummary,
    pub context: BlockContext,
    /// Whether the context is wanted.
    pub mine: bool,
    /// A lower bound of its stamps, once that is known. `None`: it has no rows so far.
    pub least_us: Option<i64>,
}

#[derive(Debug)]
struct Lane {
    /// `None`: a column names the partitions.
    partition: Option<u32>,
    /// The block that is next in order.
    next: u64,
    /// Blocks offered before their turn.
    early: BTreeMap<u64, (BlockSummary, bool)>,
    position: u64,
    line: u64,
    ended: bool,
    halted: bool,
}

#[derive(Debug)]
enum Scope {
    Partition(PartitionScope),
    Source(Box<SourceScope>),
}

/// Turns summaries into contexts; equal on every worker.
#[derive(Debug)]
pub struct Coordinator {
    granularity_us: i64,
    /// Lanes are wanted one after another, whatever they hold.
    in_turn: bool,
    lanes: Vec<Lane>,
    names: Vec<String>,
    /// Places of the names that a column can hold.
    by_name: HashMap<String, u32>,
    scope: Scope,
    ready: Vec<(BlockSummary, BlockContext)>,
    /// The least stamp in `ready`.
    ready_least_us: i64,
    /// The frontier before rounding.
    frontier_us: i64,
}

impl Coordinator {
    /// For lanes in partition order; `declared` are the listed values of the partition column, in order.
    pub fn new(settings: WatermarkSettings, lanes: Vec<LanePartitions>, declared: Vec<String>) -> Self {
        let by_column = lanes.contains(&LanePartitions::ByColumn);
        let mut names = Vec::new();
        let mut by_name = HashMap::new();
        let lanes: Vec<Lane> = lanes
            .into_iter()
            .map(|lane| {
                let partition = match lane {
                    LanePartitions::One(name) => Some(push_name(&mut names, name)),
                    LanePartitions::ByColumn => None,
                };
                Lane { partition, next: 0, early: BTreeMap::new(), position: 1, line: 1, ended: false, halted: false }
            })
            .collect();
        for name in declared {
            if by_column && !by_name.contains_key(&name) {
                by_name.insert(name.clone(), push_name(&mut names, name));
            }
        }
        let known = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let scope = match settings.scope {
            LatenessScope::Partition => Scope::Partition(PartitionScope::new(known, lanes.len(), by_column)),
            LatenessScope::Source => {
                Scope::Source(Box::new(SourceScope::new(&settings, known, lanes.len(), by_column)))
            }
        };
        let mut coordinator = Coordinator {
            granularity_us: settings.granularity_us.max(1),
            in_turn: false,
            lanes,
            names,
            by_name,
            scope,
            ready: Vec::new(),
            ready_least_us: AFTER_ALL,
            frontier_us: BEFORE_ALL,
        };
        coordinator.settle();
        coordinator
    }

    /// Lanes are wanted one after another: there is no watermark, and nothing but the place of a record counts.
    #[must_use]
    pub fn in_turn(mut self) -> Self {
        self.in_turn = true;
        self
    }

    /// The first place from which on something is still to be read: a lane that has not ended, and its next block. `None`
    /// if all lanes have ended.
    pub fn next_place(&self) -> Option<(usize, u64)> {
        self.lanes.iter().position(|lane| !lane.ended).and_then(|at| self.lanes.get(at).map(|lane| (at, lane.next)))
    }

    /// Takes a summary, in any order over lanes and blocks, each once. `mine`: a context is wanted.
    pub fn offer(&mut self, summary: BlockSummary, mine: bool) {
        let number = summary.lane as usize;
        let Some(lane) = self.lanes.get_mut(number) else {
            debug_assert!(false, "a block of lane {number}, which is not there");
            return;
        };
        if lane.ended || summary.index < lane.next {
            debug_assert!(false, "a block is offered once, and none after the last");
            return;
        }
        lane.early.insert(summary.index, (summary, mine));
        while let Some(block) = self.next_in_order(number) {
            match &mut self.scope {
                Scope::Partition(scope) => {
                    let mut block = block;
                    scope.name(self.names.len());
                    scope.accept(&mut block);
                    self.complete(block);
                }
                Scope::Source(scope) => {
                    scope.name(self.names.len());
                    scope.accept(block);
                }
            }
        }
        self.settle();
    }

    /// Contexts that have become known since the last call, for blocks offered as `mine`, in no promised order.
    pub fn take_contexts(&mut self) -> Vec<(BlockSummary, BlockContext)> {
        let ready = std::mem::take(&mut self.ready);
        self.ready_least_us = AFTER_ALL;
        self.settle();
        ready
    }

    /// Live sources and tests: the arrival clock of every lane that has not ended reaches `clock_us` with no record.
    pub fn advance_clock(&mut self, clock_us: i64) {
        if let Scope::Source(scope) = &mut self.scope {
            scope.advance_clock(clock_us);
        }
        self.settle();
    }

    /// The source's frontier (SEMANTICS §3): no record still to be stamped, contexts not taken included, gets less.
    /// Never falls. `AFTER_ALL` when every lane has ended and every context is taken, and only then.
    pub fn frontier(&self) -> i64 {
        round_down(self.frontier_us, self.granularity_us)
    }

    /// The source's watermark at the end of the last finished tick (partition scope: the frontier, contexts not taken
    /// aside). `AFTER_ALL` when every lane has ended.
    pub fn watermark(&self) -> i64 {
        let watermark_us = match &self.scope {
            Scope::Partition(scope) => scope.frontier_us(),
            Scope::Source(scope) => scope.watermark_us(),
        };
        round_down(watermark_us, self.granularity_us)
    }

    /// The partition that holds the watermark back: the one with the least watermark (at the end of the last finished
    /// tick) of those that have not ended and are not idle.
    pub fn holder(&self) -> Option<usize> {
        let partition = match &self.scope {
            Scope::Partition(scope) => scope.holder(),
            Scope::Source(scope) => scope.holder(),
        };
        partition.map(|p| p as usize)
    }

    /// Partitions named so far, in partition order: files or declared values first, then the others in the order in
    /// which the trace names them. (One that has only rejects has a place, but is not known and holds nothing back.)
    pub fn partitions(&self) -> &[String] {
        &self.names
    }

    /// Watermark of each of [`Coordinator::partitions`].
    pub fn partition_watermarks(&self) -> Vec<i64> {
        let mut watermarks_us = match &self.scope {
            Scope::Partition(scope) => scope.watermarks_us(),
            Scope::Source(scope) => scope.watermarks_us(),
        };
        watermarks_us.resize(self.names.len(), BEFORE_ALL);
        watermarks_us.iter_mut().for_each(|w| *w = round_down(*w, self.granularity_us));
        watermarks_us
    }

    /// The lane to read next so that memory stays bounded: of those in `lanes` that have not ended, the one whose known
    /// end is furthest behind, by arrival clock or (partition scope) by watermark. One of which nothing is known yet
    /// comes first; ties: the lowest.
    pub fn furthest_behind(&self, lanes: &[usize]) -> Option<usize> {
        lanes.iter().filter_map(|&number| self.progress(number)).min().map(|(_, number)| number)
    }

    /// Nothing more will be read of a lane, though it may not have come to its end: nobody need wait for it.
    pub fn halt(&mut self, lane: usize) {
        self.lanes.get_mut(lane).into_iter().for_each(|lane| lane.halted = true);
    }

    /// Whether no lane that has not ended, of whatever worker, is further behind than this one.
    pub fn is_behind_all(&self, lane: usize) -> bool {
        let all = (0..self.lanes.len()).filter_map(|number| self.progress(number)).min();
        all.is_none_or(|(_, number)| number == lane)
    }

    /// How far a lane that has not ended is known to have come (`None` first: nothing is known), and its number.
    fn progress(&self, number: usize) -> Option<(Option<i64>, usize)> {
        let lane = self.lanes.get(number).filter(|lane| !lane.ended && !lane.halted)?;
        let reached_us = match &self.scope {
            _ if self.in_turn => None,
            Scope::Partition(scope) => (lane.next > 0).then(|| scope.progress_us(lane.partition)),
            Scope::Source(scope) => scope.clock_us(number),
        };
        Some((reached_us, number))
    }

    /// Partition scope: the watermark that a lane has reached. What was read of it waits for the frontier to come there.
    pub fn reached(&self, lane: usize) -> Option<i64> {
        match &self.scope {
            Scope::Partition(scope) => self.lanes.get(lane).map(|l| scope.progress_us(l.partition)),
            Scope::Source(_) => None,
        }
    }

    /// The lane's next block if it has been offered, with its names and places resolved.
    fn next_in_order(&mut self, number: usize) -> Option<Pending> {
        let lane = self.lanes.get_mut(number)?;
        let (mut summary, mine) = lane.early.remove(&lane.next)?;
        lane.next = lane.next.saturating_add(1);
        lane.ended = summary.last;
        if summary.starts_file {
            lane.line = 1;
        }
        let (first_position, first_line) = (lane.position, lane.line);
        lane.position = lane.position.saturating_add(summary.lines);
        lane.line = lane.line.saturating_add(summary.lines);
        let partitions = match lane.partition {
            Some(partition) => vec![partition],
            None => summary.partition_names.iter().map(|name| self.place(name)).collect(),
        };
        if !mine {
            summary.partition_names = Vec::new();
        }
        let context = BlockContext {
            lane: summary.lane,
            index: summary.index,
            first_position,
            first_line,
            partitions,
            bounds: Vec::new(),
            granularity_us: self.granularity_us,
        };
        Some(Pending { summary, context, mine, least_us: None })
    }

    /// The place of a value of the partition column, a new one if it was not met before.
    fn place(&mut self, name: &str) -> u32 {
        if let Some(&place) = self.by_name.get(name) {
            return place;
        }
        let place = push_name(&mut self.names, name.to_owned());
        self.by_name.insert(name.to_owned(), place);
        place
    }

    fn complete(&mut self, block: Pending) {
        if block.mine {
            self.ready_least_us = self.ready_least_us.min(block.least_us.unwrap_or(AFTER_ALL));
            self.ready.push((block.summary, block.context));
        }
    }

    /// Collects what has become complete and moves the frontier.
    fn settle(&mut self) {
        if let Scope::Source(scope) = &mut self.scope {
            scope.run();
            for block in scope.take_complete() {
                self.complete(block);
            }
        }
        let unread_us = match &self.scope {
            Scope::Partition(scope) => scope.frontier_us(),
            Scope::Source(scope) => scope.frontier_us(),
        };
        let ended = unread_us == AFTER_ALL && self.ready.is_empty() && self.lanes.iter().all(|lane| lane.ended);
        let bound_us = if ended { AFTER_ALL } else { unread_us.min(self.ready_least_us).min(AFTER_ALL - 1) };
        // What was once promised holds for everything that was not taken then, so it holds on.
        self.frontier_us = self.frontier_us.max(bound_us);
    }
}

fn push_name(names: &mut Vec<String>, name: String) -> u32 {
    let place = u32::try_from(names.len()).unwrap_or(u32::MAX);
    names.push(name);
    place
}
