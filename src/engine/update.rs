//! Blocks of the collection of results: updates `(row, instant, ±1)` in columns.
//!
//! A view's results are a differential collection. Its container holds blocks rather than rows one by one, because a window
//! that closes publishes all its keys at once, at one instant, and rows with boxes of their own cost more than
//! computing them.
//!
//! Invariant: all columns are as long as the block. Blocks of windows hold whole instants in ascending order, the rows of
//! an instant in the order of (window end, window start, group columns, retraction first).

use crate::per_row::{PerRow, take_errors};
use crate::time::Instant;
use crate::types::Column;

/// Updates of a collection of results.
#[derive(Clone, Debug)]
pub struct UpdateBlock {
    /// Number of rows.
    pub len: usize,
    /// When the row comes or goes.
    pub at: PerRow<Instant>,
    /// Whether it comes (`1`) or goes (`-1`).
    pub diff: PerRow<i64>,
    /// `[start, end)` in microseconds; pass-through rows have none.
    pub window_us: PerRow<Option<(i64, i64)>>,
    /// Late records in the result.
    pub late_count: PerRow<u64>,
    /// Group columns; for pass-through rows partition order and position.
    pub group: Vec<Column>,
    /// The published columns.
    pub values: Vec<Column>,
    /// Rows that cannot be published, ascending, and why.
    pub errors: Vec<(u32, Box<str>)>,
}

impl UpdateBlock {
    /// The block of the rows named, in that order.
    #[must_use]
    pub fn take(&self, rows: &[u32]) -> UpdateBlock {
        UpdateBlock {
            len: rows.len(),
            at: self.at.take(rows),
            diff: self.diff.take(rows),
            window_us: self.window_us.take(rows),
            late_count: self.late_count.take(rows),
            group: self.group.iter().map(|column| column.take(rows)).collect(),
            values: self.values.iter().map(|column| column.take(rows)).collect(),
            errors: take_errors(&self.errors, rows),
        }
    }
}
