//! Aggregates as commutative monoids, and tables of them by key.
//!
//! Every aggregate has *lift* (a record becomes a state), *combine* (associative, commutative, with an empty state) and
//! *lower* (a state becomes a value). That is why neither order, nor batching, nor the number of workers can change a result.

mod accumulator;
mod codec;
mod distinct;
pub mod exact;
pub mod fixed;
mod keys;
#[cfg(test)]
mod laws;
mod moments;
pub mod monoid;
mod ordered;
mod sketch;
mod state;
pub mod table;
mod wire;

pub(crate) use codec::{encode_cell, encode_group};
pub use codec::{hashes, route};
pub(crate) use wire::{get_tables, put_tables, size_tables};

use crate::types::{Column, DataType, Value};
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

impl AggregateFunc {
    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            AggregateFunc::CountAll => "count(*)",
            AggregateFunc::Count | AggregateFunc::CountDistinct => "count",
            AggregateFunc::Sum => "sum",
            AggregateFunc::Avg => "avg",
            AggregateFunc::Min => "min",
            AggregateFunc::Max => "max",
            AggregateFunc::BoolAnd => "bool_and",
            AggregateFunc::BoolOr => "bool_or",
            AggregateFunc::VarSamp => "var_samp",
            AggregateFunc::VarPop => "var_pop",
            AggregateFunc::StddevSamp => "stddev_samp",
            AggregateFunc::StddevPop => "stddev_pop",
            AggregateFunc::ArrayAgg => "array_agg",
            AggregateFunc::FirstValue => "first_value",
            AggregateFunc::LastValue => "last_value",
            AggregateFunc::ApproxCountDistinct => "approx_count_distinct",
            AggregateFunc::ApproxPercentile(_) => "approx_percentile",
        }
    }
}

/// A number of a column as the nearest double; `None` if it is NULL or no number.
pub(crate) fn number_at(column: &Column, row: usize) -> Option<f64> {
    if column.is_null(row) { None } else { sketch::number(column, row) }
}

/// A number as the nearest double.
pub(crate) fn as_double(value: &Value) -> Option<f64> {
    match value {
        Value::BigInt(x) => Some(*x as f64),
        Value::Double(x) => Some(*x),
        Value::Decimal(x, scale) => Some(exact::decimal_to_f64(*x, *scale)),
        _ => None,
    }
}

/// Digits after the point of a type's values.
fn scale_of(dtype: &DataType) -> u8 {
    if let DataType::Decimal { scale, .. } = dtype { *scale } else { 0 }
}

/// Digits after the point of an average of decimals.
fn avg_scale(scale: u8) -> u8 {
    scale.max(6)
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
        use AggregateFunc as F;
        use DataType as T;
        let name = self.func.name();
        let Some(arg) = &self.arg else {
            return match self.func {
                F::CountAll => Ok(T::BigInt),
                _ => Err(format!("{name} needs an argument")),
            };
        };
        let wrong = |expected: &str| Err(format!("{name} takes {expected}, found {arg}"));
        if let (T::List(_), false) = (arg, matches!(self.func, F::Count | F::ArrayAgg | F::FirstValue | F::LastValue)) {
            return wrong("no lists");
        }
        match (self.func, arg) {
            (F::CountAll, _) => Err("count(*) takes no argument".to_string()),
            (F::Count | F::CountDistinct | F::ApproxCountDistinct, _) => Ok(T::BigInt),
            (F::Sum | F::Avg, T::Interval) => Ok(T::Interval),
            (F::Sum, T::BigInt | T::Double) => Ok(arg.clone()),
            (F::Sum, T::Decimal { scale, .. }) => Ok(T::Decimal { precision: 38, scale: *scale }),
            (F::Avg, T::BigInt | T::Double) => Ok(T::Double),
            (F::Avg, T::Decimal { scale, .. }) => Ok(T::Decimal { precision: 38, scale: avg_scale(*scale) }),
            (F::Sum | F::Avg, _) => wrong("a number or an INTERVAL"),
            (F::Min | F::Max | F::FirstValue | F::LastValue, _) => Ok(arg.clone()),
            (F::ArrayAgg, _) => Ok(T::List(Box::new(arg.clone()))),
            (F::BoolAnd | F::BoolOr, T::Boolean) => Ok(T::Boolean),
            (F::BoolAnd | F::BoolOr, _) => wrong("a BOOLEAN"),
            (F::ApproxPercentile(q), _) if !(0.0..=1.0).contains(&q) => {
                Err(format!("{name} takes a fraction from 0 to 1, found {q}"))
            }
            (F::VarSamp | F::VarPop | F::StddevSamp | F::StddevPop | F::ApproxPercentile(_), arg) => {
                if arg.is_numeric() { Ok(T::Double) } else { wrong("a number") }
            }
        }
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
