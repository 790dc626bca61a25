//! Sinks: changelog, metrics and backfills tables, the late and the reject output, the summary.
//!
//! Everything here runs on one thread and is given changes that are complete and sorted per watermark step; it decides
//! bytes, never results. [`block`] holds changes in columns, [`cell`] what stands in one place of a row; [`text`] writes
//! values, [`rows`] rows in a format, [`target`] bytes to standard output or to a [`mod@file`] that appears whole or not at all.
//! [`view`] drives the sinks of one view and holds the tables of its correctable windows; [`spool`] puts rows that come in
//! any order into the order of their records; [`late`] and [`rejects`] are those rows; [`summary`] is what a run says of itself.

pub mod block;
pub mod cell;
pub mod file;
pub mod late;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod rejects;
pub mod rows;
pub mod spool;
pub mod summary;
pub mod table;
mod tables;
pub mod target;
pub mod text;
pub mod view;

use crate::types::Value;
use serde::{Deserialize, Serialize};

/// Whether anybody still reads what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a closed output ends the run"]
pub enum Flow {
    /// Go on.
    Open,
    /// The reader has closed the pipe: nothing more is wanted. The run stops and ends with success.
    Closed,
}

impl Flow {
    /// `Closed` if either is.
    pub fn and(self, other: Flow) -> Flow {
        if self == Flow::Closed { self } else { other }
    }
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Op {
    /// `-D`: retraction with no replacement.
    Delete,
    /// `-U`: retraction of the old row of an update.
    UpdateBefore,
    /// `+I`: a first result.
    #[default]
    Insert,
    /// `+U`: the replacement.
    UpdateAfter,
}

impl Op {
    /// The two letters used in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Op::Delete => "-D",
            Op::UpdateBefore => "-U",
            Op::Insert => "+I",
            Op::UpdateAfter => "+U",
        }
    }
    /// Whether the row leaves (`-D`, `-U`).
    pub fn is_retraction(self) -> bool {
        matches!(self, Op::Delete | Op::UpdateBefore)
    }
}

/// One row of a changelog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What happens.
    pub op: Op,
    /// Logical time: `window_end` on closing, the stamp for a correction; microseconds.
    pub watermark_us: i64,
    /// Whether it is a closing (instant `watermark⁻`) rather than a correction (instant `watermark`).
    pub closing: bool,
    /// 0 for the first result of a window and key.
    pub revision: u64,
    /// Late records in the result.
    pub late_count: u64,
    /// `[start, end)` in microseconds; pass-through rows have none.
    pub window_us: Option<(i64, i64)>,
    /// Group values, for the order (not all are published). For pass-through rows: partition order and position as BIGINTs.
    pub group: Box<[Value]>,
    /// The published columns, as in `ViewPlan::output`.
    pub values: Box<[Value]>,
}

impl Change {
    /// The documented order of a changelog file: watermark, closings first, window end, window start, group columns, retraction first.
    pub fn compare(&self, other: &Change) -> std::cmp::Ordering {
        let place = |c: &Change| (c.watermark_us, !c.closing, c.window_us.map(|(s, e)| (e, s)));
        place(self).cmp(&place(other)).then_with(|| self.group.cmp(&other.group)).then_with(|| self.op.cmp(&other.op))
    }
}
