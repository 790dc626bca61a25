//! Sources: from bytes to decoded blocks of records.
//!
//! A source is a set of **lanes**. A lane is a sequence of blocks that must be read in order: one file (then the lane is
//! a partition of its own), or, when a column names the partition, all files of the table one after another in bytewise
//! order of their paths (a recorded trace). Blocks of a lane can be decoded by several workers at once; what depends on
//! order (stamps, line numbers, the arrival clock) is added later by [`crate::watermark::blocks`]. What a block holds
//! depends on the bytes alone, never on who decodes it.

pub mod generator;

use crate::error::Result;
use crate::record::RejectReason;
use crate::types::Column;
use std::sync::Arc;

/// A record that is a reject of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct RejectedRecord {
    /// Line of the record, counted from 0 at the block's first line.
    pub line: u32,
    /// Why.
    pub reason: RejectReason,
    /// What was expected and found: `expected a timestamp in column "event_time", found "2026-13-01"`.
    pub detail: String,
    /// The record's bytes within [`DecodedBlock::bytes`], without line end.
    pub span: (u32, u32),
    /// Its arrival time, if that could be read: it moves the arrival clock.
    pub arrived_us: Option<i64>,
    /// Its partition (index into [`DecodedBlock::partition_names`]), if that could be read.
    pub partition: Option<u32>,
    /// Number of accepted rows of the block before it.
    pub rows_before: u32,
}

/// The records of one block. Vectors "per row" are as long as `rows`.
#[derive(Clone, Debug, Default)]
pub struct DecodedBlock {
    /// Lane of the source.
    pub lane: u32,
    /// Place of the block in its lane, from 0 without holes.
    pub index: u64,
    /// Whether the block is the first of a file (line numbers in messages start anew).
    pub starts_file: bool,
    /// Index of the file within the lane.
    pub file: u32,
    /// Whether it is the last block of its lane.
    pub last: bool,
    /// Lines (positions) in the block, blank ones, headers and rejects included.
    pub lines: u64,
    /// Bytes of input it stands for (compressed bytes if compressed), for progress.
    pub input_bytes: u64,
    /// The text, for rejects; may be empty for sources without text (the generator, Parquet).
    pub bytes: Arc<Vec<u8>>,
    /// Accepted records.
    pub rows: usize,
    /// By table column; `None` if not asked for.
    pub columns: Vec<Option<Column>>,
    /// Values that do not fit their column (NULL there), by (row, table column) ascending, with a message.
    pub errors: Vec<(u32, u32, String)>,
    /// Per row: line of the record's first byte, from 0 at the block's first line.
    pub line: Vec<u32>,
    /// Per row: its bytes within `bytes`, without line end. Empty if there is no text.
    pub span: Vec<(u32, u32)>,
    /// Per row: event time. Empty if the table has no event-time column.
    pub event_time_us: Vec<i64>,
    /// Per row: arrival time, if the table has an arrival column.
    pub arrived_us: Option<Vec<i64>>,
    /// Per row: index into `partition_names`, if a column names the partition.
    pub partition: Option<Vec<u32>>,
    /// The block's own dictionary of partition names, in order of first appearance.
    pub partition_names: Vec<String>,
    /// Rejects of the table, in order.
    pub rejects: Vec<RejectedRecord>,
}

/// What a reader has to give.
#[derive(Debug)]
pub enum Next {
    /// The next block of this reader's share.
    Block(Box<DecodedBlock>),
    /// Nothing yet (live inputs).
    Pending,
    /// No further block in this share.
    End,
}

/// Reads the blocks of one lane that fall to one worker, in ascending order of their index.
pub trait LaneReader {
    /// The next block.
    ///
    /// # Errors
    /// When the input cannot be read; the message names the file.
    fn next_block(&mut self) -> Result<Next>;
    /// Closes the file until the next call of `next_block` (thousands of files must not all be open).
    fn suspend(&mut self) {}
}

/// What is known of a lane before it is read.
#[derive(Clone, Debug)]
pub struct LaneInfo {
    /// Its name: the file's path, `stdin`, or for traces the table's path as written.
    pub name: String,
    /// Files of the lane, in order (empty for the generator).
    pub files: Vec<String>,
    /// Input bytes, if known.
    pub bytes: Option<u64>,
    /// Whether several workers may decode blocks of it.
    pub splittable: bool,
}

/// A source ready to be read: its lanes and a way to open each. Shared by all workers.
pub trait Source: Send + Sync {
    /// The lanes, in partition order.
    fn lanes(&self) -> &[LaneInfo];
    /// The reader of worker `share` of `shares` over lane `lane`: blocks with `index % shares == share`.
    /// Lanes that are not splittable are opened with `(0, 1)` by their owner only.
    fn open(&self, lane: usize, share: u64, shares: u64) -> Box<dyn LaneReader>;
}
