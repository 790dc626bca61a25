//! What a block tells of itself, gathered in one walk over its records.

use super::super::{BEFORE_ALL, WatermarkSettings};
use crate::plan::LatenessScope;
use serde::{Deserialize, Serialize};

/// What a block tells the others about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockSummary {
    /// Lane of the source.
    pub lane: u32,
    /// Place in the lane, from 0.
    pub index: u64,
    /// Whether it starts a new file of the lane.
    pub starts_file: bool,
    /// Positions (lines) in it.
    pub lines: u64,
    /// Whether the lane ends with it.
    pub last: bool,
    /// The block's own arrival clock at its first accepted row (source scope; the idleness of a silent partition counts
    /// from the source's first arrival).
    pub first_arrival_us: Option<i64>,
    /// Names of the partitions met in it, in order of first appearance; empty if the lane is one partition.
    pub partition_names: Vec<String>,
    /// Runs of records, in order.
    pub segments: Vec<Segment>,
}

/// A run of records. In source scope: of one tick (by the block's own running maximum of arrival times); in partition
/// scope: begun anew where a partition first appears in the block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Index of its first accepted row in the block.
    pub first_row: u32,
    /// The greatest arrival time from the block's start to the segment's end, rejects included; `None`: none was seen,
    /// or it does not matter (partition scope).
    pub clock_us: Option<i64>,
    /// Partitions with accepted rows in the segment.
    pub entries: Vec<SegmentEntry>,
}

/// One partition within a segment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SegmentEntry {
    /// Index into `partition_names`; 0 if the lane is one partition.
    pub partition: u32,
    /// The greatest watermark expression of its rows.
    pub watermark_us: i64,
    /// The block's own arrival clock at its last row (`None` without arrival times).
    pub last_clock_us: Option<i64>,
    /// Rows.
    pub rows: u32,
}

/// Where a partition's latest entry is.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Number of the segment, from 1; 0: not met in the block yet.
    segment: usize,
    /// Index of the entry within it.
    entry: usize,
}

/// Makes a summary while a block is walked in order.
#[derive(Debug)]
pub struct SummaryBuilder {
    lane: u32,
    index: u64,
    /// `None` in partition scope, where arrival times do not matter.
    tick_us: Option<i64>,
    /// Greatest arrival time so far.
    clock_us: Option<i64>,
    /// The last microsecond of the clock's tick.
    tick_last_us: i64,
    first_arrival_us: Option<i64>,
    rows: u32,
    segments: Vec<Segment>,
    open: Segment,
    slots: Vec<Slot>,
}

impl SummaryBuilder {
    /// For block `index` of lane `lane`.
    pub fn new(settings: &WatermarkSettings, lane: u32, index: u64) -> Self {
        SummaryBuilder {
            lane,
            index,
            tick_us: (settings.scope == LatenessScope::Source).then(|| settings.tick_us.max(1)),
            clock_us: None,
            tick_last_us: BEFORE_ALL,
            first_arrival_us: None,
            rows: 0,
            segments: Vec::new(),
            open: Segment { first_row: 0, clock_us: None, entries: Vec::new() },
            slots: Vec::new(),
        }
    }

    /// The next accepted record: its partition (0 if the lane is one), watermark expression and arrival time.
    #[inline]
    pub fn record(&mut self, partition: u32, watermark_us: i64, arrived_us: Option<i64>) {
        if let Some(arrived_us) = arrived_us {
            self.arrive(arrived_us);
        }
        self.add(partition, watermark_us, 1);
    }

    /// A reject in between: moves the arrival clock if its arrival time is known.
    pub fn reject(&mut self, arrived_us: Option<i64>) {
        if let Some(arrived_us) = arrived_us {
            self.arrive(arrived_us);
        }
    }

    /// The next accepted records at once, for a lane that is one partition and has no arrival times.
    pub fn records(&mut self, watermarks_us: &[i64]) {
        if let Some(&watermark_us) = watermarks_us.iter().max() {
            self.add(0, watermark_us, u32::try_from(watermarks_us.len()).unwrap_or(u32::MAX));
        }
    }

    /// The next accepted records at once, with no reject among them, for a lane that is one partition with arrival
    /// times. The slices are equally long.
    pub fn records_arrived(&mut self, watermarks_us: &[i64], arrived_us: &[i64]) {
        if self.tick_us.is_none() {
            return self.records(watermarks_us);
        }
        let (mut watermarks_us, mut arrived_us) = (watermarks_us, arrived_us);
        while let Some(&first_us) = arrived_us.first() {
            self.arrive(first_us);
            self.note_first();
            let tick_last_us = self.tick_last_us;
            let run = arrived_us.iter().position(|&a| a > tick_last_us).unwrap_or(arrived_us.len());
            let (arrived_now, arrived_later) = arrived_us.split_at(run);
            let (now, later) = watermarks_us.split_at(run.min(watermarks_us.len()));
            self.clock_us = self.clock_us.max(arrived_now.iter().max().copied());
            self.records(now);
            (watermarks_us, arrived_us) = (later, arrived_later);
        }
    }

    /// The summary. `partition_names` is the block's dictionary, empty if the lane is one partition.
    pub fn finish(mut self, starts_file: bool, lines: u64, last: bool, partition_names: Vec<String>) -> BlockSummary {
        self.close_segment();
        BlockSummary {
            lane: self.lane,
            index: self.index,
            starts_file,
            lines,
            last,
            first_arrival_us: self.first_arrival_us,
            partition_names,
            segments: self.segments,
        }
    }

    #[inline]
    fn arrive(&mut self, arrived_us: i64) {
        if self.clock_us.is_some_and(|clock_us| arrived_us <= clock_us) {
            return;
        }
        if self.clock_us.is_none() || arrived_us > self.tick_last_us {
            let Some(tick_us) = self.tick_us else { return };
            self.turn(arrived_us, tick_us);
        }
        self.clock_us = Some(arrived_us);
    }

    /// The clock enters another tick.
    #[cold]
    fn turn(&mut self, arrived_us: i64, tick_us: i64) {
        self.close_segment();
        let to_last_us = tick_us.saturating_sub(1).saturating_sub(arrived_us.rem_euclid(tick_us));
        self.tick_last_us = arrived_us.saturating_add(to_last_us);
    }

    /// Ends the open segment, unless there is nothing in it to tell.
    fn close_segment(&mut self) {
        let next = Segment { first_row: self.rows, clock_us: None, entries: Vec::new() };
        let mut done = std::mem::replace(&mut self.open, next);
        if self.clock_us.is_some() || !done.entries.is_empty() {
            done.clock_us = self.clock_us;
            self.segments.push(done);
        }
    }

    #[inline]
    fn add(&mut self, partition: u32, watermark_us: i64, rows: u32) {
        let clock_us = self.clock_us;
        let slot = self.slots.get(partition as usize).copied().unwrap_or_default();
        if slot.segment == self.segments.len().saturating_add(1) {
            if let Some(entry) = self.open.entries.get_mut(slot.entry) {
                entry.watermark_us = entry.watermark_us.max(watermark_us);
                entry.last_clock_us = clock_us;
                entry.rows = entry.rows.saturating_add(rows);
            }
        } else {
            self.enter(partition, watermark_us, rows, slot.segment == 0);
        }
        self.rows = self.rows.saturating_add(rows);
    }

    /// Notes the clock at the block's first row.
    fn note_first(&mut self) {
        if self.rows == 0 {
            self.first_arrival_us = self.first_arrival_us.or(self.clock_us);
        }
    }

    /// The partition's first row in the segment; `new`: in the block.
    #[cold]
    fn enter(&mut self, partition: u32, watermark_us: i64, rows: u32, new: bool) {
        self.note_first();
        if new && self.tick_us.is_none() && !self.open.entries.is_empty() {
            self.close_segment();
        }
        let slot = Slot { segment: self.segments.len().saturating_add(1), entry: self.open.entries.len() };
        let place = partition as usize;
        if self.slots.len() <= place {
            self.slots.resize(place.saturating_add(1), Slot::default());
        }
        if let Some(kept) = self.slots.get_mut(place) {
            *kept = slot;
        }
        self.open.entries.push(SegmentEntry { partition, watermark_us, last_clock_us: self.clock_us, rows });
    }
}
