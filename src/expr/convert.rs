//! Conversions of single values: what `CAST` means, and the text of values.
//!
//! | from \ to | rule |
//! | --- | --- |
//! | TEXT → any but lists | spaces at both ends (ASCII white space) are ignored |
//! | TEXT → BOOLEAN | `true t yes y on 1` and `false f no n off 0`, any case |
//! | TEXT → BIGINT | sign and digits only |
//! | TEXT → DOUBLE | decimal or scientific, `NaN`, `Infinity`, `inf` in any case; a finite number beyond the range fails |
//! | TEXT → DECIMAL(p,s) | exact, an exponent is allowed; digits beyond `s` round half away from zero; over `p` digits fails |
//! | TEXT → TIMESTAMP, INTERVAL | as [`crate::time`] reads them |
//! | TEXT → DATE | a date, or the UTC date of a timestamp |
//! | BIGINT → DOUBLE | nearest, ties to even |
//! | BIGINT → DECIMAL, DECIMAL → DECIMAL | exact, or half away from zero; over `p` digits fails |
//! | DOUBLE → BIGINT | half to even; NaN and beyond 64 bits fail |
//! | DOUBLE → DECIMAL(p,s) | the shortest text that reads back, rounded half away from zero; NaN, infinities, over `p` digits fail |
//! | DECIMAL → BIGINT | half away from zero; beyond 64 bits fails |
//! | DECIMAL → DOUBLE | nearest, ties to even |
//! | BOOLEAN ↔ BIGINT | 0 and 1; not 0 is true |
//! | TIMESTAMP → DATE | its UTC date |
//! | DATE → TIMESTAMP | its midnight; beyond 64 bits fails |
//! | any but lists → TEXT | as outputs print it: `true`, whole numbers, decimals at their scale, doubles shortest (`1.0`, `1e16`; −0.0 as `0.0`; `NaN`, `Infinity`, `-Infinity`), RFC 3339 with `Z`, `1h30m` |
//! | any → itself | unchanged |

use super::calendar::{DAY_US, MAX_DAYS};
use super::decimal::{self, ParseError};
use crate::time;
use crate::types::{DataType, Value, canonical_double};
use std::borrow::Cow;

/// What went wrong for a row: short, lower case, no full stop.
pub type Message = Cow<'static, str>;

/// `BIGINT out of range`.
pub fn out_of_range(dtype: &DataType) -> Message {
    match dtype {
        DataType::BigInt => Cow::Borrowed("BIGINT out of range"),
        DataType::Double => Cow::Borrowed("DOUBLE out of range"),
        DataType::Timestamp => Cow::Borrowed("TIMESTAMP out of range"),
        DataType::Date => Cow::Borrowed("DATE out of range"),
        DataType::Interval => Cow::Borrowed("INTERVAL out of range"),
        other => Cow::Owned(format!("{other} out of range")),
    }
}

/// `cannot read "abc" as BIGINT`, long text cut.
fn unreadable(text: &str, dtype: &DataType) -> Message {
    let mut shown: String = text.chars().take(40).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    Cow::Owned(format!("cannot read {shown:?} as {dtype}"))
}

/// Whether `CAST` from one type to the other is offered.
pub fn castable(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    match (from, to) {
        (List(_), _) | (_, List(_)) => from == to,
        (Text, _) | (_, Text) => true,
        (BigInt, Boolean) | (Boolean, BigInt) | (Timestamp, Date) | (Date, Timestamp) => true,
        (from, to) => from == to || (from.is_numeric() && to.is_numeric()),
    }
}

/// TEXT as BOOLEAN.
pub fn text_to_boolean(text: &str) -> Result<bool, Message> {
    let word = text.trim_ascii();
    let is = |words: &[&str]| words.iter().any(|w| w.eq_ignore_ascii_case(word));
    if is(&["true", "t", "yes", "y", "on", "1"]) {
        Ok(true)
    } else if is(&["false", "f", "no", "n", "off", "0"]) {
        Ok(false)
    } else {
        Err(unreadable(text, &DataType::Boolean))
    }
}

/// TEXT as BIGINT.
pub fn text_to_bigint(text: &str) -> Result<i64, Message> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    text.trim_ascii().parse().map_err(|e: std::num::ParseIntError| match e.kind() {
        PosOverflow | NegOverflow => out_of_range(&DataType::BigInt),
        _ => unreadable(text, &DataType::BigInt),
    })
}

/// TEXT as DOUBLE.
pub fn text_to_double(text: &str) -> Result<f64, Message> {
    let word = text.trim_ascii();
    let x: f64 = word.parse().map_err(|_| unreadable(text, &DataType::Double))?;
    if x.is_infinite() && word.bytes().any(|c| c.is_ascii_digit()) {
        return Err(out_of_range(&DataType::Double));
    }
    Ok(if x.is_nan() { f64::NAN } else { x })
}

/// TEXT as the unscaled digits of a DECIMAL.
pub fn text_to_decimal(text: &str, precision: u8, scale: u8) -> Result<i128, Message> {
    let dtype = DataType::Decimal { precision, scale };
    match decimal::parse(text.trim_ascii(), scale) {
        Ok(v) if decimal::fits(v, precision) => Ok(v),
        Ok(_) | Err(ParseError::Range) => Err(out_of_range(&dtype)),
        Err(ParseError::Syntax) => Err(unreadable(text, &dtype)),
    }
}

/// TEXT as TIMESTAMP.
pub fn text_to_timestamp(text: &str) -> Result<i64, Message> {
    time::parse_timestamp(text.trim_ascii().as_bytes()).ok_or_else(|| unreadable(text, &DataType::Timestamp))
}

/// TEXT as DATE.
pub fn text_to_date(text: &str) -> Result<i64, Message> {
    let word = text.trim_ascii().as_bytes();
    time::parse_date(word)
        .or_else(|| time::parse_timestamp(word).map(timestamp_to_date))
        .ok_or_else(|| unreadable(text, &DataType::Date))
}

/// TEXT as INTERVAL.
pub fn text_to_interval(text: &str) -> Result<i64, Message> {
    time::parse_duration(text.trim_ascii())
        .map_err(|why| format!("{}: {why}", unreadable(text, &DataType::Interval)).into())
}

/// DOUBLE as BIGINT, half to even.
pub fn double_to_bigint(x: f64) -> Result<i64, Message> {
    let rounded = x.round_ties_even();
    // Both bounds are exact doubles; the upper one is the first that does not fit.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
        Ok(rounded as i64)
    } else {
        Err(out_of_range(&DataType::BigInt))
    }
}

/// DOUBLE as the unscaled digits of a DECIMAL.
pub fn double_to_decimal(x: f64, precision: u8, scale: u8) -> Result<i128, Message> {
    decimal::from_f64(x, scale)
        .filter(|v| decimal::fits(*v, precision))
        .ok_or_else(|| out_of_range(&DataType::Decimal { precision, scale }))
}

/// DECIMAL as BIGINT, half away from zero.
pub fn decimal_to_bigint(v: i128, scale: u8) -> Result<i64, Message> {
    decimal::rescale(v, scale, 0).and_then(|v| i64::try_from(v).ok()).ok_or_else(|| out_of_range(&DataType::BigInt))
}

/// DECIMAL (or, with scale 0, BIGINT) as the unscaled digits of another DECIMAL.
pub fn decimal_to_decimal(v: i128, from: u8, precision: u8, scale: u8) -> Result<i128, Message> {
    decimal::rescale(v, from, scale)
        .filter(|v| decimal::fits(*v, precision))
        .ok_or_else(|| out_of_range(&DataType::Decimal { precision, scale }))
}

/// The UTC date of a time.
pub fn timestamp_to_date(us: i64) -> i64 {
    us.div_euclid(DAY_US)
}

/// The midnight at which a date starts.
pub fn date_to_timestamp(days: i64) -> Result<i64, Message> {
    days.checked_mul(DAY_US).ok_or_else(|| out_of_range(&DataType::Timestamp))
}

/// A day number as DATE, if its midnight is a TIMESTAMP.
pub fn date_in_range(days: i64) -> Option<i64> {
    (-MAX_DAYS..=MAX_DAYS).contains(&days).then_some(days)
}

/// Appends a double as outputs print it.
pub fn write_double(x: f64, out: &mut String) {
    let x = canonical_double(x);
    if x.is_finite() {
        out.push_str(ryu::Buffer::new().format_finite(x));
    } else if x.is_nan() {
        out.push_str("NaN");
    } else {
        out.push_str(if x > 0.0 { "Infinity" } else { "-Infinity" });
    }
}

/// Appends a value as outputs print it; nothing for NULL, a list as `[a, b]`.
pub fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => {}
        Value::Boolean(v) => out.push_str(if *v { "true" } else { "false" }),
        Value::BigInt(v) => out.push_str(itoa::Buffer::new().format(*v)),
        Value::Double(v) => write_double(*v, out),
        Value::Decimal(v, scale) => decimal::write(*v, *scale, out),
        Value::Text(v) => out.push_str(v),
        Value::Timestamp(v) => time::format_timestamp(*v, out),
        Value::Date(v) => time::format_date(*v, out),
        Value::Interval(v) => out.push_str(&time::format_duration(*v)),
        Value::List(items) => {
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i == 0 { "[" } else { ", " });
                write_value(item, out);
            }
            out.push_str(if items.is_empty() { "[]" } else { "]" });
        }
    }
}

/// One value as another type: `CAST` of a single value. NULL stays NULL.
///
/// # Errors
/// When the value does not fit, or the types have no conversion.
pub fn convert(value: &Value, to: &DataType) -> Result<Value, Message> {
    use DataType as T;
    Ok(match (value, to) {
        (Value::Null, _) => Value::Null,
        (Value::List(_), T::List(_)) => value.clone(),
        (Value::List(_), _) => return Err(format!("cannot convert a list to {to}").into()),
        (Value::Text(v), to) => text_to(v, to)?,
        (_, T::Text) => {
            let mut out = String::new();
            write_value(value, &mut out);
            Value::Text(out.into())
        }
        (Value::Boolean(v), T::Boolean) => Value::Boolean(*v),
        (Value::Boolean(v), T::BigInt) => Value::BigInt(i64::from(*v)),
        (Value::BigInt(v), T::Boolean) => Value::Boolean(*v != 0),
        (Value::BigInt(v), T::BigInt) => Value::BigInt(*v),
        (Value::BigInt(v), T::Double) => Value::Double(*v as f64),
        (Value::BigInt(v), T::Decimal { precision, scale }) => {
            Value::Decimal(decimal_to_decimal(i128::from(*v), 0, *precision, *scale)?, *scale)
        }
        (Value::Double(v), T::BigInt) => Value::BigInt(double_to_bigint(*v)?),
        (Value::Double(v), T::Double) => Value::Double(*v),
        (Value::Double(v), T::Decimal { precision, scale }) => {
            Value::Decimal(double_to_decimal(*v, *precision, *scale)?, *scale)
        }
        (Value::Decimal(v, from), T::BigInt) => Value::BigInt(decimal_to_bigint(*v, *from)?),
        (Value::Decimal(v, from), T::Double) => Value::Double(decimal::to_f64(*v, *from)),
        (Value::Decimal(v, from), T::Decimal { precision, scale }) => {
            Value::Decimal(decimal_to_decimal(*v, *from, *precision, *scale)?, *scale)
        }
        (Value::Timestamp(v), T::Timestamp) => Value::Timestamp(*v),
        (Value::Timestamp(v), T::Date) => Value::Date(timestamp_to_date(*v)),
        (Value::Date(v), T::Date) => Value::Date(*v),
        (Value::Date(v), T::Timestamp) => Value::Timestamp(date_to_timestamp(*v)?),
        (Value::Interval(v), T::Interval) => Value::Interval(*v),
        _ => return Err(format!("no conversion to {to}").into()),
    })
}

fn text_to(text: &str, to: &DataType) -> Result<Value, Message> {
    Ok(match to {
        DataType::Boolean => Value::Boolean(text_to_boolean(text)?),
        DataType::BigInt => Value::BigInt(text_to_bigint(text)?),
        DataType::Double => Value::Double(text_to_double(text)?),
        DataType::Decimal { precision, scale } => Value::Decimal(text_to_decimal(text, *precision, *scale)?, *scale),
        DataType::Text => Value::Text(text.into()),
        DataType::Timestamp => Value::Timestamp(text_to_timestamp(text)?),
        DataType::Date => Value::Date(text_to_date(text)?),
        DataType::Interval => Value::Interval(text_to_interval(text)?),
        DataType::List(_) => return Err(format!("no conversion from text to {to}").into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_to_numbers() {
        assert_eq!(text_to_bigint(" -42\n"), Ok(-42));
        assert_eq!(text_to_bigint("+7"), Ok(7));
        assert_eq!(text_to_bigint("9223372036854775808").unwrap_err(), "BIGINT out of range");
        assert_eq!(text_to_bigint("1.0").unwrap_err(), "cannot read \"1.0\" as BIGINT");
        assert_eq!(text_to_double("1e400").unwrap_err(), "DOUBLE out of range");
        assert_eq!(text_to_double("-infinity"), Ok(f64::NEG_INFINITY));
        assert!(text_to_double("-nan").is_ok_and(|x| x.is_nan() && x.is_sign_positive()));
        assert_eq!(text_to_decimal("99.995", 4, 2).unwrap_err(), "DECIMAL(4,2) out of range");
        assert_eq!(text_to_decimal(" 99.994 ", 4, 2), Ok(9999));
        assert_eq!(text_to_boolean("Yes"), Ok(true));
        assert!(text_to_boolean("2").is_err());
        let long = "x".repeat(100);
        assert_eq!(text_to_bigint(&long).unwrap_err(), format!("cannot read \"{}…\" as BIGINT", "x".repeat(40)));
    }

    #[test]
    fn numbers_to_numbers() {
        assert_eq!(double_to_bigint(2.5), Ok(2));
        assert_eq!(double_to_bigint(-3.5), Ok(-4));
        assert_eq!(double_to_bigint(-9_223_372_036_854_775_808.0), Ok(i64::MIN));
        assert!(double_to_bigint(9_223_372_036_854_775_808.0).is_err());
        assert!(double_to_bigint(f64::NAN).is_err());
        assert_eq!(decimal_to_bigint(25, 1), Ok(3));
        assert_eq!(decimal_to_bigint(-25, 1), Ok(-3));
        assert_eq!(double_to_decimal(0.285, 10, 2), Ok(29));
        assert!(double_to_decimal(f64::INFINITY, 10, 2).is_err());
        assert!(decimal_to_decimal(100, 0, 2, 0).is_err());
    }

    #[test]
    fn doubles_as_text() {
        let text = |x| {
            let mut out = String::new();
            write_double(x, &mut out);
            out
        };
        assert_eq!(text(-0.0), "0.0");
        assert_eq!(text(1e16), "1e16");
        assert_eq!(text(0.1), "0.1");
        assert_eq!(text(-f64::NAN), "NaN");
        assert_eq!(text(f64::NEG_INFINITY), "-Infinity");
    }
}
