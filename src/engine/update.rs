//! Blocks of the collection of results: updates `(row, instant, ±1)` in columns.
//!
//! A view's results are a differential collection. Its container holds blocks rather than rows one by one, because a window
//! that closes publishes all its keys at once, at one instant, and rows with boxes of their own cost more than
//! computing them.
//!
//! Invariant: all columns are as long as the block. Blocks of windows hold whole instants in ascending order, the rows of
//! an instant in the order of (window end, window start, group columns, retraction first).

use super::ResultRow;
use crate::per_row::PerRow;
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

    /// The rows one by one.
    pub fn rows(&self) -> impl Iterator<Item = (ResultRow, Instant, isize)> + '_ {
        (0..self.len).map(|row| {
            let cells = |columns: &[Column]| columns.iter().map(|column| column.value(row)).collect();
            let result = ResultRow {
                window_us: self.window_us.get(row),
                group: cells(&self.group),
                late_count: self.late_count.get(row),
                values: match error_of(&self.errors, row) {
                    Some(error) => Err(error.into()),
                    None => Ok(cells(&self.values)),
                },
            };
            (result, self.at.get(row), self.diff.get(row) as isize)
        })
    }
}

/// Why a row cannot be published, if it cannot.
pub fn error_of(errors: &[(u32, Box<str>)], row: usize) -> Option<&str> {
    if errors.is_empty() {
        return None;
    }
    let at = errors.binary_search_by_key(&(row as u32), |(row, _)| *row).ok()?;
    errors.get(at).map(|(_, error)| &**error)
}

/// The errors of the rows named, under their new numbers.
pub fn take_errors(errors: &[(u32, Box<str>)], rows: &[u32]) -> Vec<(u32, Box<str>)> {
    if errors.is_empty() {
        return Vec::new();
    }
    let of = |(new, old): (u32, &u32)| error_of(errors, *old as usize).map(|error| (new, error.into()));
    (0..).zip(rows).filter_map(of).collect()
}
