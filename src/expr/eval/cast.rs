//! `CAST` over columns; the rules are those of [`convert`].

use super::no_such_call;
use super::operand::{Done, Nulls, Operand, Vals, each, each_text, scale_of, zip};
use crate::expr::convert::{self, Message};
use crate::expr::decimal;
use crate::time;
use crate::types::DataType;

/// From one type to a different one.
pub fn cast(a: &Operand<'_>, from: &DataType, to: &DataType, nulls: Nulls, rows: usize) -> Done {
    use DataType::{BigInt, Boolean, Date, Decimal, Double, Text, Timestamp};
    match (from, to) {
        (from, Text) => to_text(a, from, nulls, rows),
        (Text, to) => from_text(a, to, nulls, rows),
        (Boolean, BigInt) => Done::plain(map(a.bools(), rows, i64::from), nulls),
        (BigInt, Boolean) => Done::plain(map(a.i64s(), rows, |v| v != 0), nulls),
        (BigInt, Double) => Done::plain(map(a.i64s(), rows, |v| v as f64), nulls),
        (BigInt, Decimal { precision, scale }) => {
            // Every BIGINT has at most 19 digits.
            if *scale == 0 && *precision >= 19 {
                return Done::plain(map(a.i64s(), rows, i128::from), nulls);
            }
            each_of(a.i64s(), nulls, rows, |v| convert::decimal_to_decimal(i128::from(v), 0, *precision, *scale))
        }
        (Double, BigInt) => each_of(a.f64s(), nulls, rows, convert::double_to_bigint),
        (Double, Decimal { precision, scale }) => {
            each_of(a.f64s(), nulls, rows, |v| convert::double_to_decimal(v, *precision, *scale))
        }
        (Decimal { scale, .. }, BigInt) => each_of(a.i128s(), nulls, rows, |v| convert::decimal_to_bigint(v, *scale)),
        (Decimal { scale, .. }, Double) => Done::plain(map(a.i128s(), rows, |v| decimal::to_f64(v, *scale)), nulls),
        (Decimal { scale: s, .. }, Decimal { precision, scale }) => {
            each_of(a.i128s(), nulls, rows, |v| convert::decimal_to_decimal(v, *s, *precision, *scale))
        }
        (Timestamp, Date) => Done::plain(map(a.i64s(), rows, convert::timestamp_to_date), nulls),
        (Date, Timestamp) => each_of(a.i64s(), nulls, rows, convert::date_to_timestamp),
        (_, to) => no_such_call(rows, to),
    }
}

fn map<T: Copy, R>(a: Vals<T>, rows: usize, f: impl Fn(T) -> R) -> Vec<R> {
    zip(a, Vals::One(()), rows, |v, ()| f(v))
}

fn each_of<T: Copy, R: super::operand::Native>(
    a: Vals<T>,
    nulls: Nulls,
    rows: usize,
    f: impl Fn(T) -> Result<R, Message>,
) -> Done {
    each(rows, nulls, |row| f(a.get(row)).map(Some))
}

fn from_text(a: &Operand<'_>, to: &DataType, nulls: Nulls, rows: usize) -> Done {
    let a = a.texts();
    match to {
        DataType::Boolean => each(rows, nulls, |row| convert::text_to_boolean(a.get(row)).map(Some)),
        DataType::BigInt => each(rows, nulls, |row| convert::text_to_bigint(a.get(row)).map(Some)),
        DataType::Double => each(rows, nulls, |row| convert::text_to_double(a.get(row)).map(Some)),
        DataType::Decimal { precision, scale } => {
            each(rows, nulls, |row| convert::text_to_decimal(a.get(row), *precision, *scale).map(Some))
        }
        DataType::Timestamp => each(rows, nulls, |row| convert::text_to_timestamp(a.get(row)).map(Some)),
        DataType::Date => each(rows, nulls, |row| convert::text_to_date(a.get(row)).map(Some)),
        DataType::Interval => each(rows, nulls, |row| convert::text_to_interval(a.get(row)).map(Some)),
        to => no_such_call(rows, to),
    }
}

fn to_text(a: &Operand<'_>, from: &DataType, nulls: Nulls, rows: usize) -> Done {
    let written = |nulls, f: &dyn Fn(usize, &mut String)| {
        each_text(rows, nulls, |row, out| {
            f(row, out);
            Ok(())
        })
    };
    match from {
        DataType::Boolean => {
            let a = a.bools();
            written(nulls, &|row, out| out.push_str(if a.get(row) { "true" } else { "false" }))
        }
        DataType::BigInt => {
            let a = a.i64s();
            written(nulls, &|row, out| out.push_str(itoa::Buffer::new().format(a.get(row))))
        }
        DataType::Double => {
            let a = a.f64s();
            written(nulls, &|row, out| convert::write_double(a.get(row), out))
        }
        DataType::Decimal { .. } => {
            let (a, scale) = (a.i128s(), scale_of(from));
            written(nulls, &|row, out| decimal::write(a.get(row), scale, out))
        }
        DataType::Timestamp => {
            let a = a.i64s();
            written(nulls, &|row, out| time::format_timestamp(a.get(row), out))
        }
        DataType::Date => {
            let a = a.i64s();
            written(nulls, &|row, out| time::format_date(a.get(row), out))
        }
        DataType::Interval => {
            let a = a.i64s();
            written(nulls, &|row, out| out.push_str(&time::format_duration(a.get(row))))
        }
        DataType::Text | DataType::List(_) => no_such_call(rows, &DataType::Text),
    }
}
