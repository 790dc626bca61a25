//! `CAST` of single values, by the table documented with the expressions.

use super::big::{Big, Rounding, double_units, units_per_one};
use crate::time;
use crate::types::{DataType, Value};

/// A decimal has at most 38 digits.
const DIGITS_MAX: u32 = 38;
const DAY_US: i64 = 86_400_000_000;

/// The value as a `dtype`.
///
/// # Errors
/// When it does not fit or cannot be read (lower case, no full stop).
pub fn cast(value: &Value, dtype: &DataType) -> Result<Value, String> {
    use DataType as T;
    use Value as V;
    let unfit = || format!("{dtype} out of range");
    match (value, dtype) {
        (V::Null, _) => Ok(V::Null),
        (V::Text(text), _) => from_text(text, dtype),
        (_, T::Text) => Ok(V::Text(to_text(value).into())),
        (V::Boolean(b), T::BigInt) => Ok(V::BigInt(i64::from(*b))),
        (V::BigInt(v), T::Boolean) => Ok(V::Boolean(*v != 0)),
        (V::BigInt(v), T::Double) => Ok(V::Double(Big::from(*v).ratio(&Big::from(1i64)))),
        (V::BigInt(v), T::Decimal { precision, scale }) => decimal(&Big::from(*v), 0, *precision, *scale),
        (V::Double(x), T::BigInt) if x.is_finite() => {
            let whole = double_units(*x).divided_rounding(&units_per_one(), Rounding::HalfEven);
            bigint(whole).ok_or_else(unfit)
        }
        (V::Double(x), T::Decimal { precision, scale }) if x.is_finite() => {
            let (digits, places) = digits_of(&format!("{x:e}")).ok_or_else(unfit)?;
            decimal(&digits, places, *precision, *scale)
        }
        (V::Double(_), T::BigInt | T::Decimal { .. }) => Err(unfit()),
        (V::Decimal(v, scale), T::BigInt) => {
            let whole = Big::from(*v).divided_rounding(&Big::ten_to(u32::from(*scale)), Rounding::HalfAway);
            bigint(whole).ok_or_else(unfit)
        }
        (V::Decimal(v, scale), T::Double) => Ok(V::Double(Big::from(*v).ratio(&Big::ten_to(u32::from(*scale))))),
        (V::Decimal(v, from), T::Decimal { precision, scale }) => {
            decimal(&Big::from(*v), i64::from(*from), *precision, *scale)
        }
        (V::Timestamp(us), T::Date) => Ok(V::Date(us.div_euclid(DAY_US))),
        (V::Date(days), T::Timestamp) => days.checked_mul(DAY_US).map(V::Timestamp).ok_or_else(unfit),
        (V::Boolean(_), T::Boolean)
        | (V::BigInt(_), T::BigInt)
        | (V::Double(_), T::Double)
        | (V::Timestamp(_), T::Timestamp)
        | (V::Date(_), T::Date)
        | (V::Interval(_), T::Interval)
        | (V::List(_), T::List(_)) => Ok(value.clone()),
        _ => Err(format!("no conversion to {dtype}")),
    }
}

fn bigint(whole: Option<Big>) -> Option<Value> {
    whole.and_then(|w| w.to_i128()).and_then(|w| i64::try_from(w).ok()).map(Value::BigInt)
}

/// `digits × 10^−places` at a scale, rounded half away from zero; `None` beyond `precision` digits.
pub fn at_scale(digits: &Big, places: i64, precision: u32, scale: u32, rounding: Rounding) -> Option<i128> {
    let shift = i64::from(scale) - places;
    // Powers of ten are made one by one; nothing below 10^-700 or of more than 700 digits matters to 38 digits.
    let power = Big::ten_to(u32::try_from(shift.unsigned_abs().min(2_000)).ok()?);
    let whole = if shift >= 0 { digits.times(&power) } else { digits.divided_rounding(&power, rounding)? };
    (whole.size() < Big::ten_to(precision.min(DIGITS_MAX))).then(|| whole.to_i128()).flatten()
}

fn decimal(digits: &Big, places: i64, precision: u8, scale: u8) -> Result<Value, String> {
    at_scale(digits, places, u32::from(precision), u32::from(scale), Rounding::HalfAway)
        .map(|v| Value::Decimal(v, scale))
        .ok_or_else(|| format!("DECIMAL({precision},{scale}) out of range"))
}

/// A number as written, as all its digits and how many of them stand after the point; `None` if it is none.
fn digits_of(text: &str) -> Option<(Big, i64)> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent),
        None => (text, "0"),
    };
    let (negative, unsigned) = match mantissa.strip_prefix(['-', '+']) {
        Some(rest) => (mantissa.starts_with('-'), rest),
        None => (false, mantissa),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = || whole.chars().chain(fraction.chars());
    if digits().next().is_none() || !digits().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let bare = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if bare.is_empty() || !bare.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let ten = Big::from(10i64);
    let number = digits().fold(Big::default(), |n, c| n.times(&ten).plus(&Big::from(i64::from(c as u8 - b'0'))));
    // An exponent beyond 64 bits is beyond any number: clamped so far out that only 0 stays what it is.
    let size = bare.parse::<i64>().unwrap_or(1_000_000).min(1_000_000);
    let exponent = if exponent.starts_with('-') { -size } else { size };
    Some((if negative { number.negated() } else { number }, fraction.len() as i64 - exponent))
}

fn from_text(text: &str, dtype: &DataType) -> Result<Value, String> {
    let word = text.trim_ascii();
    let unread = || format!("cannot read {text:?} as {dtype}");
    Ok(match dtype {
        DataType::Text => Value::Text(text.into()),
        DataType::Boolean => match word.to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "on" | "1" => Value::Boolean(true),
            "false" | "f" | "no" | "n" | "off" | "0" => Value::Boolean(false),
            _ => return Err(unread()),
        },
        DataType::BigInt => Value::BigInt(word.parse().map_err(|_| unread())?),
        DataType::Double => {
            let x: f64 = word.parse().map_err(|_| unread())?;
            if x.is_infinite() && word.contains(|c: char| c.is_ascii_digit()) {
                return Err(unread());
            }
            Value::Double(x)
        }
        DataType::Decimal { precision, scale } => {
            let (digits, places) = digits_of(word).ok_or_else(unread)?;
            decimal(&digits, places, *precision, *scale)?
        }
        DataType::Timestamp => Value::Timestamp(time::parse_timestamp(word.as_bytes()).ok_or_else(unread)?),
        DataType::Date => {
            let day = |us: i64| us.div_euclid(DAY_US);
            let read = time::parse_date(word.as_bytes()).or_else(|| time::parse_timestamp(word.as_bytes()).map(day));
            Value::Date(read.ok_or_else(unread)?)
        }
        DataType::Interval => Value::Interval(time::parse_duration(word).map_err(|_| unread())?),
        DataType::List(_) => return Err(unread()),
    })
}

/// A value as outputs print it; nothing for NULL.
pub fn to_text(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Null => {}
        Value::Boolean(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::BigInt(v) => out = v.to_string(),
        Value::Double(x) => out = double_text(*x),
        Value::Decimal(v, scale) => out = decimal_text(*v, usize::from(*scale)),
        Value::Text(text) => out.push_str(text),
        Value::Timestamp(us) => time::format_timestamp(*us, &mut out),
        Value::Date(days) => time::format_date(*days, &mut out),
        Value::Interval(us) => out = time::format_duration(*us),
        Value::List(items) => out = format!("[{}]", items.iter().map(to_text).collect::<Vec<_>>().join(", ")),
    }
    out
}

/// The shortest text that reads back: plain from 1e-5 up to below 1e16, else with an exponent.
fn double_text(x: f64) -> String {
    let size = x.abs();
    if x == 0.0 {
        "0.0".into()
    } else if x.is_nan() {
        "NaN".into()
    } else if x.is_infinite() {
        if x > 0.0 { "Infinity".into() } else { "-Infinity".into() }
    } else if (1e-5..1e16).contains(&size) {
        format!("{x}{}", if x.trunc() == x { ".0" } else { "" })
    } else {
        format!("{x:e}")
    }
}

fn decimal_text(v: i128, scale: usize) -> String {
    let digits = format!("{:0>width$}", v.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if v < 0 { "-" } else { "" };
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(s: &str) -> Value {
        Value::Text(s.into())
    }
    const D: fn(u8, u8) -> DataType = |precision, scale| DataType::Decimal { precision, scale };

    #[test]
    fn numbers() {
        let ok = |v: Value, t: DataType| cast(&v, &t).unwrap();
        assert_eq!(ok(Value::Double(2.5), DataType::BigInt), Value::BigInt(2));
        assert_eq!(ok(Value::Double(-3.5), DataType::BigInt), Value::BigInt(-4));
        assert_eq!(ok(Value::Decimal(-25, 1), DataType::BigInt), Value::BigInt(-3));
        assert_eq!(ok(Value::Double(0.285), D(10, 2)), Value::Decimal(29, 2));
        assert_eq!(ok(text(" 99.994 "), D(4, 2)), Value::Decimal(9999, 2));
        assert_eq!(ok(text("-12e-1"), D(4, 2)), Value::Decimal(-120, 2));
        assert_eq!(ok(text("0e99999999999999999999"), D(4, 2)), Value::Decimal(0, 2));
        assert_eq!(ok(text("1e-99999999999999999999"), D(4, 2)), Value::Decimal(0, 2));
        assert_eq!(ok(Value::Decimal(1, 1), DataType::Double), Value::Double(0.1));
        assert_eq!(ok(text("Yes"), DataType::Boolean), Value::Boolean(true));
        for (bad, t) in [("99.995", D(4, 2)), ("1e9", D(4, 2)), ("", D(4, 2)), ("1.0", DataType::BigInt)] {
            assert!(cast(&text(bad), &t).is_err(), "{bad}");
        }
        assert!(cast(&text("1e400"), &DataType::Double).is_err());
        assert!(cast(&Value::Double(9_223_372_036_854_775_808.0), &DataType::BigInt).is_err());
        assert!(cast(&Value::Double(f64::NAN), &D(38, 0)).is_err());
    }

    #[test]
    fn texts() {
        let all = [
            (Value::Double(-0.0), "0.0"),
            (Value::Double(1e16), "1e16"),
            (Value::Double(1e15), "1000000000000000.0"),
            (Value::Double(0.00001), "0.00001"),
            (Value::Double(1.5e-6), "1.5e-6"),
            (Value::Double(f64::NEG_INFINITY), "-Infinity"),
            (Value::Decimal(-5, 2), "-0.05"),
            (Value::Decimal(7, 0), "7"),
            (Value::Decimal(12345, 3), "12.345"),
            (Value::List([Value::BigInt(1), Value::Boolean(false)].into()), "[1, false]"),
        ];
        for (value, expected) in all {
            assert_eq!(to_text(&value), expected);
        }
    }
}
