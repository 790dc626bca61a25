//! The late output: one row per dropped contribution.
//!
//! Columns: `partition`, `position`, `event_time`, `stamp`, `window_start`, `window_end`, `lag_us`, then those columns of
//! the record that the query references. The window is NULL under `late_records = 'drop'`; the lag is in whole
//! microseconds and never negative (SEMANTICS §4); a stamp of ±∞ is NULL. A column of the record that bears one of the
//! names above is written as `record_` and its name. Rows go to a [`super::spool::Spool`], which puts them in order.

use super::cell::Cell;
use super::rows::RowEncoder;
use crate::types::{DataType, Value};
use std::path::Path;

/// A dropped contribution. Times in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct LateRow<'a> {
    /// The partition's name.
    pub partition: &'a str,
    /// Line number or offset in the partition.
    pub position: u64,
    /// Event time.
    pub event_time_us: i64,
    /// Stamp.
    pub stamp_us: i64,
    /// The window it was dropped from; `None` if it was dropped for all of them.
    pub window_us: Option<(i64, i64)>,
    /// `stamp − end`, or `stamp − event time` if there is no window.
    pub lag_us: i64,
    /// The columns given to [`LateEncoder::new`].
    pub values: &'a [Value],
}

/// Writes late rows as NDJSON or CSV.
#[derive(Clone, Debug)]
pub struct LateEncoder(RowEncoder);

/// Whether a file of rows is CSV: by its suffix, else it is NDJSON.
pub(super) fn is_csv(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("csv"))
}

pub(super) fn encoder(path: &str, columns: &[(String, DataType)]) -> RowEncoder {
    if is_csv(path) { RowEncoder::csv(columns) } else { RowEncoder::ndjson(columns) }
}

impl LateEncoder {
    /// For a file of this name; `columns` of the record stand last. The event-time column need not be among them.
    pub fn new(path: &str, columns: &[(String, DataType)]) -> LateEncoder {
        let own = [
            ("partition", DataType::Text),
            ("position", DataType::BigInt),
            ("event_time", DataType::Timestamp),
            ("stamp", DataType::Timestamp),
            ("window_start", DataType::Timestamp),
            ("window_end", DataType::Timestamp),
            ("lag_us", DataType::BigInt),
        ];
        let mut all: Vec<(String, DataType)> = own.map(|(name, dtype)| (name.to_string(), dtype)).into();
        for (name, dtype) in columns {
            let mut name = name.clone();
            while all.iter().any(|(taken, _)| *taken == name) {
                name.insert_str(0, "record_");
            }
            all.push((name, dtype.clone()));
        }
        LateEncoder(encoder(path, &all))
    }

    /// What stands before the first row.
    pub fn header(&self) -> String {
        let mut out = String::new();
        self.0.write_header(&mut out);
        out
    }

    /// Appends a row.
    pub fn encode(&self, row: &LateRow<'_>, out: &mut String) {
        let window = |us: Option<i64>| us.map_or(Value::Null, |us| Cell::time_or_null(us).value());
        let own = [
            Value::Text(row.partition.into()),
            Cell::count(row.position).value(),
            Cell::time_or_null(row.event_time_us).value(),
            Cell::time_or_null(row.stamp_us).value(),
            window(row.window_us.map(|w| w.0)),
            window(row.window_us.map(|w| w.1)),
            Value::BigInt(row.lag_us),
        ];
        self.0.write_row(&[&own, row.values], out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[Value]) -> LateRow<'_> {
        LateRow {
            partition: "a,b.ndjson",
            position: 7,
            event_time_us: 50_000_000,
            stamp_us: 70_000_000,
            window_us: Some((0, 60_000_000)),
            lag_us: 10_000_000,
            values,
        }
    }

    #[test]
    fn ndjson_unless_the_suffix_is_csv() {
        let columns = [("amount".to_string(), DataType::Decimal { precision: 12, scale: 2 })];
        let values = [Value::Decimal(999, 2)];
        let encoder = LateEncoder::new("out/late.ndjson", &columns);
        let mut out = encoder.header();
        encoder.encode(&row(&values), &mut out);
        assert_eq!(
            out,
            concat!(
                r#"{"partition":"a,b.ndjson","position":7,"event_time":"1970-01-01T00:00:50Z","#,
                r#""stamp":"1970-01-01T00:01:10Z","window_start":"1970-01-01T00:00:00Z","#,
                r#""window_end":"1970-01-01T00:01:00Z","lag_us":10000000,"amount":9.99}"#,
                "\n"
            )
        );
        let encoder = LateEncoder::new("late.CSV", &columns);
        let mut out = encoder.header();
        encoder.encode(&LateRow { window_us: None, lag_us: 0, ..row(&values) }, &mut out);
        assert_eq!(
            out,
            "partition,position,event_time,stamp,window_start,window_end,lag_us,amount\n\
             \"a,b.ndjson\",7,1970-01-01T00:00:50Z,1970-01-01T00:01:10Z,,,0,9.99\n"
        );
    }

    #[test]
    fn names_of_the_record_give_way() {
        let columns = ["event_time", "record_event_time", "x"].map(|name| (name.to_string(), DataType::Text));
        let header = LateEncoder::new("late.csv", &columns).header();
        assert_eq!(
            header,
            "partition,position,event_time,stamp,window_start,window_end,lag_us,\
             record_event_time,record_record_event_time,x\n"
        );
    }
}
