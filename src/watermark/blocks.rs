//! Stamps for blocks decoded in parallel. (Owner: blocks)
//!
//! Every worker keeps an equal [`Coordinator`] and feeds it the [`BlockSummary`] of every block of the source, its own
//! and those it is told of, in any order. From the summaries alone each works out the same [`BlockContext`]s: what a
//! block must know of everything before it. Rows never travel for this, and no result depends on timing.

use super::WatermarkSettings;
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
    /// Names of the partitions met in it, in order of first appearance; empty if the lane is one partition.
    pub partition_names: Vec<String>,
    /// Runs of records, in order.
    pub segments: Vec<Segment>,
}

/// A run of records of one tick (by the block's own running maximum of arrival times), begun anew where a partition
/// first appears in the block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Index of its first accepted row in the block.
    pub first_row: u32,
    /// The greatest arrival time from the block's start to the segment's end, rejects included; `None`: none was seen.
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

/// Makes a summary while a block is walked in order.
#[derive(Debug)]
pub struct SummaryBuilder {
    _settings: WatermarkSettings,
}

impl SummaryBuilder {
    /// For a block of the lane; `column_partitions` if a column names the partition.
    pub fn new(_settings: &WatermarkSettings, _lane: u32, _index: u64) -> Self {
        todo!()
    }
    /// The next accepted record.
    pub fn record(&mut self, _partition: u32, _watermark_us: i64, _arrived_us: Option<i64>) {
        todo!()
    }
    /// A reject in between: moves the arrival clock if its arrival time is known.
    pub fn reject(&mut self, _arrived_us: Option<i64>) {
        todo!()
    }
    /// All records of a block at once, for a lane that is one partition and has no arrival times.
    pub fn records(&mut self, _watermarks_us: &[i64]) {
        todo!()
    }
    /// The summary.
    pub fn finish(self, _starts_file: bool, _lines: u64, _last: bool, _partition_names: Vec<String>) -> BlockSummary {
        todo!()
    }
}

/// A lane as the coordinator sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum LanePartitions {
    /// The lane is one partition, with this name.
    One(String),
    /// A column names the partitions.
    ByColumn,
}

/// What a block must know of everything before it.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockContext {
    /// Lane and index of the block.
    pub lane: u32,
    /// Place in the lane.
    pub index: u64,
    /// Position of its first line in the partition or trace, from 1.
    pub first_position: u64,
    /// Number of its first line in its file, from 1.
    pub first_line: u64,
    /// Partition order (index into [`Coordinator::partitions`]) of each of the block's partition names; one entry if the lane is one partition.
    pub partitions: Vec<u32>,
    // … what stamps need; owner: blocks
}

impl BlockContext {
    /// Stamps of the block's rows, rounded to the granularity. `partition` is the row's index into the block's partition names
    /// (`None`: the lane is one partition); `watermarks_us` the watermark expression of each row.
    pub fn stamps(&self, _summary: &BlockSummary, _partition: Option<&[u32]>, _watermarks_us: &[i64]) -> Vec<i64> {
        todo!()
    }
}

/// Turns summaries into contexts; equal on every worker.
#[derive(Debug)]
pub struct Coordinator {
    _settings: WatermarkSettings,
}

impl Coordinator {
    /// For lanes in partition order; `declared` are the listed values of the partition column, in order.
    pub fn new(_settings: WatermarkSettings, _lanes: Vec<LanePartitions>, _declared: Vec<String>) -> Self {
        todo!()
    }
    /// Takes a summary, in any order over lanes and blocks, each once. `mine`: a context is wanted.
    pub fn offer(&mut self, _summary: BlockSummary, _mine: bool) {
        todo!()
    }
    /// Contexts that have become known since the last call, for blocks offered as `mine`, in no promised order.
    pub fn take_contexts(&mut self) -> Vec<(BlockSummary, BlockContext)> {
        todo!()
    }
    /// Live sources and tests: the arrival clock of every lane that has not ended reaches `clock_us` with no record.
    pub fn advance_clock(&mut self, _clock_us: i64) {
        todo!()
    }
    /// The source's frontier (SEMANTICS §3): no record still to be stamped gets less. `AFTER_ALL` when every lane has ended.
    pub fn frontier(&self) -> i64 {
        todo!()
    }
    /// The source's watermark at the end of the last finished tick (partition scope: the frontier).
    pub fn watermark(&self) -> i64 {
        todo!()
    }
    /// The partition that holds the watermark back, if one does.
    pub fn holder(&self) -> Option<usize> {
        todo!()
    }
    /// Partitions known so far, in partition order: files or declared values first, then those discovered, in order of discovery.
    pub fn partitions(&self) -> &[String] {
        todo!()
    }
    /// Watermark of each partition known.
    pub fn partition_watermarks(&self) -> Vec<i64> {
        todo!()
    }
    /// The lane to read next so that memory stays bounded: among `lanes` the one furthest behind (by tick, in partition scope by watermark).
    pub fn furthest_behind(&self, _lanes: &[usize]) -> Option<usize> {
        todo!()
    }
}
