//! A table of aggregate states by group key: what one slice of a window holds. (Owner: aggregate)

use super::{AggregateSpec, RecordOrder};
use crate::types::{Column, DataType};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The layout of a [`Table`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableSpec {
    /// Types of the group columns.
    pub keys: Vec<DataType>,
    /// The aggregates.
    pub aggregates: Vec<AggregateSpec>,
}

/// One batch of rows to be inserted; columns as long as the batch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Rows {
    /// Number of rows.
    pub len: usize,
    /// Group columns.
    pub keys: Vec<Column>,
    /// The argument of each aggregate (`None`: `count(*)`).
    pub args: Vec<Option<Column>>,
    /// `FILTER` of each aggregate: rows that count (`None`: all).
    pub filters: Vec<Option<Vec<bool>>>,
    /// Present iff an aggregate is ordered.
    pub order: Option<Vec<RecordOrder>>,
}

/// Results of groups, as columns of equal length.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// Group columns.
    pub keys: Vec<Column>,
    /// Aggregate columns.
    pub values: Vec<Column>,
    /// Groups whose aggregate cannot be published (a sum that does not fit): row, aggregate index, message. Ascending by row.
    pub errors: Vec<(u32, usize, String)>,
}

/// Groups and their states.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    spec: Arc<TableSpec>,
}
