//! The SQL engine without its dataflow: from stamped blocks to contributions, and from tables to published rows. Pure.

pub mod changelog;
pub mod ingest;
pub mod output;
pub mod publish;
pub mod update;
mod wire;

use crate::types::Value;
use serde::{Deserialize, Serialize};

/// One row of a view's collection of results.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResultRow {
    /// `[start, end)` in microseconds; pass-through rows have none.
    pub window_us: Option<(i64, i64)>,
    /// Group values; for pass-through rows partition order and position.
    pub group: Box<[Value]>,
    /// Late records in the result.
    pub late_count: u64,
    /// The published columns, or why they cannot be published (a sum that does not fit its type).
    pub values: Result<Box<[Value]>, Box<str>>,
}
