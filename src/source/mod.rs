//! Sources: from bytes to decoded blocks of records.
//!
//! A source is a set of **lanes**. A lane is a sequence of blocks that must be read in order: one file (then the lane is
//! a partition of its own), or, when a column names the partition, all files of the table one after another in bytewise
//! order of their paths (a recorded trace). Blocks of a lane can be decoded by several workers at once; what depends on
//! order (stamps, line numbers, the arrival clock) is added later by [`crate::watermark::blocks`]. What a block holds
//! depends on the bytes alone, never on who decodes it.

pub mod generator;
pub(crate) mod gzip;
pub mod trace;

#[cfg(feature = "parquet")]
mod arrow;
mod csv;
mod decode;
mod files;
mod flat;
mod frame;
mod json;
mod number;
#[cfg(feature = "parquet")]
mod parquet;
mod plain;
mod shape;
mod short;
mod stdin;
mod stream;
#[cfg(test)]
mod tests;
mod value;

use crate::error::{Error, Result};
use crate::plan::{Format, SourcePlan, TablePlan};
use crate::record::RejectReason;
use crate::types::Column;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// The lane's arrival clock is known to have reached this after the block (live sources), beyond its records.
    pub clock_us: Option<i64>,
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
    /// Its files, in the order of the lanes; none if it has none.
    fn files(&self) -> Vec<ListedFile> {
        Vec::new()
    }
    /// A reader over lane `lane`, of the blocks that `turns` gives it.
    /// Lanes that are not splittable are opened with [`Turns::all`] by their owner only.
    fn open(&self, lane: usize, turns: Turns) -> Box<dyn LaneReader>;
}

/// Which blocks of a lane a reader takes: of those with `index % step == first`, in ascending order, each that no other
/// reader with the same turns has taken. So whoever is ready takes the next one, and nobody waits for a busy reader.
#[derive(Clone, Debug)]
pub struct Turns {
    reader: u64,
    first: u64,
    step: u64,
    taken: Arc<AtomicU64>,
}

impl Turns {
    /// All blocks.
    pub fn all() -> Self {
        Turns::of(0, 1)
    }

    /// The blocks with `index % step == first`. The reader's number is `first`; others come in by [`Self::for_reader`].
    pub fn of(first: u64, step: u64) -> Self {
        Turns { reader: first, first, step: step.max(1), taken: Arc::default() }
    }

    /// The same turns for another reader; `reader` is its number among all readers of the lane.
    #[must_use]
    pub fn for_reader(&self, reader: u64) -> Self {
        Turns { reader, ..self.clone() }
    }

    /// The reader's number among all readers of the lane.
    pub fn reader(&self) -> u64 {
        self.reader
    }

    /// Takes the next block; gives its index, which may be beyond the last.
    pub fn take(&self) -> u64 {
        let turn = self.taken.fetch_add(1, Ordering::Relaxed);
        self.first.saturating_add(turn.saturating_mul(self.step))
    }
}

/// How a source is read; no result depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceOptions {
    /// Bytes of text in a block, at most 1 GiB. Default 1 MiB.
    pub block_bytes: usize,
    /// Workers that will read: small files are cut finer for more of them. Default 1.
    pub workers: usize,
}

impl Default for SourceOptions {
    fn default() -> Self {
        SourceOptions { block_bytes: 1 << 20, workers: 1 }
    }
}

/// A file that process 0 of a cluster has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedFile {
    /// Its path.
    pub path: String,
    /// Its size; `None` if it is no regular file.
    pub bytes: Option<u64>,
}

/// [`open`] on a process of a cluster that takes the list of files from process 0. Of the files only those are looked at
/// whose lane `reads` picks, given all lanes and one's number.
///
/// # Errors
/// As [`open`], and when a file has another size than in the list.
pub fn open_listed(
    table: &TablePlan,
    wanted: &BTreeSet<usize>,
    options: &SourceOptions,
    listed: &[ListedFile],
    reads: &dyn Fn(&[LaneInfo], usize) -> bool,
) -> Result<Arc<dyn Source>> {
    match &table.source {
        SourcePlan::File { path, format } if *format != Format::Parquet || cfg!(feature = "parquet") => {
            let plan = decode::DecodePlan::new(table, wanted);
            Ok(Arc::new(files::FileSource::listed(listed, table, (path, format), plan, options, reads)?))
        }
        _ => open(table, wanted, options),
    }
}

/// Opens the source of a table. `wanted` are the table's columns that any view uses, by index; the table's own (event time,
/// arrival time, partition) are read in any case.
///
/// # Errors
/// When a file is missing or is a directory, when a CSV header lacks a declared column, or when the format needs a cargo
/// feature that is not built in.
pub fn open(table: &TablePlan, wanted: &BTreeSet<usize>, options: &SourceOptions) -> Result<Arc<dyn Source>> {
    let plan = decode::DecodePlan::new(table, wanted);
    match &table.source {
        SourcePlan::File { format: Format::Parquet, .. } | SourcePlan::Stdin { format: Format::Parquet }
            if cfg!(not(feature = "parquet")) =>
        {
            Err(no_parquet())
        }
        SourcePlan::File { path, format } => {
            Ok(Arc::new(files::FileSource::open(table, (path, format), plan, options)?))
        }
        SourcePlan::Stdin { format } => {
            Ok(Arc::new(stdin::LiveSource::new(Box::new(std::io::stdin()), format, plan, options)?))
        }
        SourcePlan::Generator(plan) => {
            generator::check_plan(plan)?;
            generator::check_table(plan.workload, table)?;
            Ok(generator::open(plan, table, wanted))
        }
    }
}

/// Opens a table of text records whose input is any reader, read ahead by a thread of its own as standard input is.
///
/// # Errors
/// When the format is Parquet, which must be a file.
pub fn open_reader(
    table: &TablePlan,
    format: &Format,
    input: Box<dyn std::io::Read + Send>,
    wanted: &BTreeSet<usize>,
    options: &SourceOptions,
) -> Result<Arc<dyn Source>> {
    Ok(Arc::new(stdin::LiveSource::new(input, format, decode::DecodePlan::new(table, wanted), options)?))
}

fn no_parquet() -> Error {
    Error::usage("this build cannot read Parquet").with_hint("build with the cargo feature `parquet`")
}

/// A reader that gives an error and nothing else.
fn failing(error: Error) -> Box<dyn LaneReader> {
    struct Failing(Option<Error>);
    impl LaneReader for Failing {
        fn next_block(&mut self) -> Result<Next> {
            self.0.take().map_or(Ok(Next::End), Err)
        }
    }
    Box::new(Failing(Some(error)))
}
