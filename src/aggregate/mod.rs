//! Aggregates as commutative monoids, and tables of them by key. (Owner: aggregate)
//!
//! Every aggregate has *lift* (a record becomes a state), *combine* (associative, commutative, with an empty state) and
//! *lower* (a state becomes a value). That is why neither order, nor batching, nor the number of workers can change a result.

pub mod table;

use crate::types::DataType;
use serde::{Deserialize, Serialize};

/// Which aggregate, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum AggregateFunc {
    /// `count(*)`: records.
    CountAll,
    /// `count(x)`: values that are not NULL.
    Count,
    /// `count(DISTINCT x)`.
    CountDistinct,
    /// `sum(x)`.
    Sum,
    /// `avg(x)`.
    Avg,
    /// `min(x)`.
    Min,
    /// `max(x)`.
    Max,
    /// `bool_and(x)`.
    BoolAnd,
    /// `bool_or(x)`.
    BoolOr,
    /// `var_samp(x)`, `variance(x)`.
    VarSamp,
    /// `var_pop(x)`.
    VarPop,
    /// `stddev_samp(x)`, `stddev(x)`.
    StddevSamp,
    /// `stddev_pop(x)`.
    StddevPop,
    /// `array_agg(x)`: in event-time order, NULLs included.
    ArrayAgg,
    /// `first_value(x)` by event time, NULLs included.
    FirstValue,
    /// `last_value(x)` by event time, NULLs included.
    LastValue,
    /// `approx_count_distinct(x)`: HyperLogLog.
    ApproxCountDistinct,
    /// `approx_percentile(x, q)`: DDSketch.
    ApproxPercentile(f64),
}

/// An aggregate with the type of its argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AggregateSpec {
    /// The function.
    pub func: AggregateFunc,
    /// The type of the argument; `None` for `count(*)`.
    pub arg: Option<DataType>,
}

impl AggregateSpec {
    /// The type of the result.
    ///
    /// # Errors
    /// When the function does not take the argument's type (lower case, no full stop).
    pub fn output(&self) -> Result<DataType, String> {
        todo!()
    }
    /// Whether states depend on the event-time order of records (`array_agg`, `first_value`, `last_value`).
    pub fn is_ordered(&self) -> bool {
        matches!(self.func, AggregateFunc::ArrayAgg | AggregateFunc::FirstValue | AggregateFunc::LastValue)
    }
}

/// The place of a record in event-time order: event time, then partition order, then position in the partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordOrder {
    /// Event time in microseconds.
    pub event_time_us: i64,
    /// Order of the partition in its source.
    pub partition: u32,
    /// Position in the partition.
    pub position: u64,
}
