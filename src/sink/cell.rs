//! One cell of a row on its way out: a value, or a place in a column.
//!
//! Rows of results stay in columns until they are written; the columns that a sink adds are numbers, times and words.
//! Cells bring both together without copying.

use super::text::{write_csv, write_json, write_number};
use crate::types::{Column, ColumnData, DataType, Value};
use crate::watermark::{AFTER_ALL, BEFORE_ALL};

/// What stands in one column of a row.
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    /// NULL.
    Null,
    /// A value.
    Value(&'a Value),
    /// The value of a column in a row.
    Row(&'a Column, usize),
    /// A `BIGINT`.
    Number(i64),
    /// A `TIMESTAMP` in microseconds.
    Time(i64),
    /// A `TEXT`.
    Word(&'a str),
}

impl<'a> Cell<'a> {
    /// A count; those beyond 2^63 − 1 do not occur.
    pub fn count(n: u64) -> Self {
        Cell::Number(i64::try_from(n).unwrap_or(i64::MAX))
    }

    /// A time; ±∞ have no date and are NULL.
    pub fn time_or_null(us: i64) -> Self {
        if us == BEFORE_ALL || us == AFTER_ALL { Cell::Null } else { Cell::Time(us) }
    }

    /// The cells of a row of columns.
    pub fn row(columns: &'a [Column], row: usize) -> impl Iterator<Item = Cell<'a>> + Clone {
        columns.iter().map(move |column| Cell::Row(column, row))
    }

    /// The value.
    pub fn value(self) -> Value {
        match self {
            Cell::Null => Value::Null,
            Cell::Value(value) => value.clone(),
            Cell::Row(column, row) => column.value(row),
            Cell::Number(n) => Value::BigInt(n),
            Cell::Time(us) => Value::Timestamp(us),
            Cell::Word(word) => Value::Text(word.into()),
        }
    }

    /// The time, if it is one.
    #[inline]
    pub(super) fn time(self) -> Option<i64> {
        match self {
            Cell::Time(us) => Some(us),
            Cell::Row(Column { dtype: DataType::Timestamp, data: ColumnData::I64(values), nulls: None }, row) => {
                values.get(row).copied()
            }
            Cell::Value(Value::Timestamp(us)) => Some(*us),
            _ => None,
        }
    }

    /// The number, if it is a `BIGINT`.
    #[inline]
    fn number(self) -> Option<i64> {
        match self {
            Cell::Number(n) => Some(n),
            Cell::Row(Column { dtype: DataType::BigInt, data: ColumnData::I64(values), nulls: None }, row) => {
                values.get(row).copied()
            }
            _ => None,
        }
    }

    /// Appends the cell as JSON.
    #[inline]
    pub fn write_json(self, out: &mut String) {
        match self.number() {
            Some(n) => write_number(n, out),
            None => self.with(|value| write_json(value, out)),
        }
    }

    /// Appends the cell as a CSV field.
    #[inline]
    pub fn write_csv(self, out: &mut String) {
        match self.number() {
            Some(n) => write_number(n, out),
            None => self.with(|value| write_csv(value, out)),
        }
    }

    /// Does something with the value; texts of columns are copied for it.
    pub fn with<R>(self, act: impl FnOnce(&Value) -> R) -> R {
        match self {
            Cell::Value(value) => act(value),
            other => act(&other.value()),
        }
    }
}
