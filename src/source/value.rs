//! From a field of a record to a value of its column's type.
//!
//! One set of rules for both text formats; a JSON string is read as the same text in a CSV field would be.
//!
//! | type | JSON number | JSON string, CSV field | other JSON |
//! | --- | --- | --- | --- |
//! | BOOLEAN | misfit | CSV: `true`, `false` in any case; JSON strings are misfits | `true`, `false` |
//! | BIGINT | if whole (`1.0`, `1e3` are) and of 64 bits | a number, as on the left | misfit |
//! | DOUBLE | nearest; beyond the largest double: misfit | a number, `NaN`, `Infinity`, `inf` with a sign | misfit |
//! | DECIMAL(p,s) | exact: more than `s` digits after the point (zeros aside) or `p` in all: misfit | a number | misfit |
//! | TEXT | its text | itself | `true`, `false`, arrays and objects: JSON text without spaces |
//! | TIMESTAMP | in `time_unit`, floored to µs | RFC 3339, or a number as on the left | misfit |
//! | DATE | misfit | `YYYY-MM-DD` | misfit |
//! | INTERVAL | misfit | a duration (`1h30m`, `3 minutes`) | misfit |
//!
//! JSON `null`, a missing key and CSV's null text are NULL. Spaces around CSV fields and JSON strings are ignored but for
//! TEXT. Nothing is rounded silently but DOUBLEs and the floor of times.

use super::number::{self, Number, Scaled};
use crate::time::{self, TimestampParser};
use crate::types::{Column, ColumnData, DataType};
use std::borrow::Cow;

/// A field as it stands in the record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RawField<'a> {
    /// Not there.
    Missing,
    /// CSV: the null text.
    Null,
    /// The JSON text of a value.
    Json(&'a str),
    /// The text of a CSV field.
    Text(&'a str),
    /// The inside of a quoted CSV field with doubled quotes in it.
    TextWithQuotes(&'a str),
    /// JSON that was accepted as a whole but whose inside cannot be read (half a surrogate pair in a key).
    Broken(&'a str),
    /// A value that has its type already, or does not fit it.
    #[cfg(feature = "parquet")]
    Value(Result<Cell<'a>, Misfit>),
}

/// A value on its way into a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cell<'a> {
    Null,
    Boolean(bool),
    I64(i64),
    F64(f64),
    I128(i128),
    Text(&'a str),
}

/// Why a field gives no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// It is of another type.
    Type,
    /// A time beyond 64 bits of microseconds.
    Range,
}

/// What a value of the type is called in messages.
pub(super) fn describe(dtype: &DataType) -> String {
    match dtype {
        DataType::Boolean => "true or false".to_owned(),
        DataType::Text => "a text".to_owned(),
        DataType::Timestamp => "a timestamp".to_owned(),
        DataType::Date => "a date (YYYY-MM-DD)".to_owned(),
        DataType::Interval => "an interval such as 1h30m".to_owned(),
        other => format!("a value of {other}"),
    }
}

/// The longest piece of a field that is shown.
const SHOWN_CHARS: usize = 80;

/// A field as messages show it: JSON as written, CSV in quotes, long ones cut.
pub(super) fn show(field: RawField<'_>) -> String {
    let (text, quoted) = match field {
        RawField::Missing => return "nothing".to_owned(),
        RawField::Null => return "null".to_owned(),
        RawField::Json(text) | RawField::Broken(text) => (text, false),
        RawField::Text(text) | RawField::TextWithQuotes(text) => (text, true),
        #[cfg(feature = "parquet")]
        RawField::Value(_) => return "a value that does not fit".to_owned(),
    };
    let cut: String = text.chars().take(SHOWN_CHARS).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let more = if text.chars().nth(SHOWN_CHARS).is_some() { "…" } else { "" };
    if quoted { format!("\"{cut}{more}\"") } else { format!("{cut}{more}") }
}

/// What a conversion needs besides the field: the type, the unit of numeric times, and memory to reuse.
#[derive(Debug)]
pub(super) struct Converter {
    pub(super) dtype: DataType,
    pub(super) time_unit_us: i64,
    pub(super) times: TimestampParser,
}

impl Converter {
    pub(super) fn new(dtype: DataType, time_unit_us: i64) -> Self {
        Converter { dtype, time_unit_us, times: TimestampParser::default() }
    }

    /// The value of a field. `scratch` is where text is put that does not stand in the record as it is.
    ///
    /// # Errors
    /// When the field is not of the type.
    pub(super) fn convert<'a>(&mut self, field: RawField<'a>, scratch: &'a mut String) -> Result<Cell<'a>, Misfit> {
        match field {
            RawField::Missing | RawField::Null | RawField::Json("null") => Ok(Cell::Null),
            RawField::Text(text) => self.text(text, true),
            RawField::TextWithQuotes(text) => {
                scratch.clear();
                let mut parts = text.split("\"\"");
                scratch.push_str(parts.next().unwrap_or_default());
                for part in parts {
                    scratch.push('"');
                    scratch.push_str(part);
                }
                self.text(scratch, true)
            }
            RawField::Json(json) => match json.as_bytes() {
                [b'"', inside @ .., b'"'] => {
                    if memchr::memchr(b'\\', inside).is_none() {
                        // One byte shorter at both ends of a text that starts and ends with an ASCII quote.
                        return self.text(json.get(1..json.len() - 1).unwrap_or_default(), false);
                    }
                    unescape(json, scratch)?;
                    self.text(scratch, false)
                }
                [b't' | b'f', ..] => self.boolean(json),
                [b'{' | b'[', ..] => match self.dtype {
                    DataType::Text => Ok(Cell::Text(compact(json, scratch))),
                    _ => Err(Misfit::Type),
                },
                _ => self.number(json),
            },
            RawField::Broken(_) => Err(Misfit::Type),
            #[cfg(feature = "parquet")]
            RawField::Value(value) => value,
        }
    }

    fn boolean<'a>(&self, json: &'a str) -> Result<Cell<'a>, Misfit> {
        match self.dtype {
            DataType::Boolean => Ok(Cell::Boolean(json == "true")),
            DataType::Text => Ok(Cell::Text(json)),
            _ => Err(Misfit::Type),
        }
    }

    /// A number, its syntax checked by the caller or here.
    fn number<'a>(&self, text: &'a str) -> Result<Cell<'a>, Misfit> {
        let bytes = text.as_bytes();
        let parse = || Number::parse(bytes).ok_or(Misfit::Type);
        match &self.dtype {
            DataType::BigInt => match number::short_integer(bytes) {
                Some(value) => Ok(Cell::I64(value)),
                None => parse()?.to_i64().map(Cell::I64).ok_or(Misfit::Type),
            },
            DataType::Timestamp => match number::short_integer(bytes).and_then(|n| n.checked_mul(self.time_unit_us)) {
                Some(us) => Ok(Cell::I64(us)),
                None => match parse()?.to_us(self.time_unit_us) {
                    Scaled::Us(us) => Ok(Cell::I64(us)),
                    Scaled::TooLarge => Err(Misfit::Range),
                },
            },
            DataType::Double => {
                parse()?;
                text.parse().ok().filter(|x: &f64| x.is_finite()).map(Cell::F64).ok_or(Misfit::Type)
            }
            DataType::Decimal { precision, scale } => match number::short_decimal(bytes, *precision, *scale) {
                Some(value) => Ok(Cell::I128(value)),
                None => parse()?.to_decimal(*precision, *scale).map(Cell::I128).ok_or(Misfit::Type),
            },
            DataType::Text => Ok(Cell::Text(text)),
            _ => Err(Misfit::Type),
        }
    }

    /// The inside of a JSON string, or a CSV field.
    fn text<'a>(&mut self, text: &'a str, csv: bool) -> Result<Cell<'a>, Misfit> {
        if self.dtype == DataType::Text {
            return Ok(Cell::Text(text));
        }
        let text = text.trim_ascii();
        match &self.dtype {
            DataType::Boolean if csv && text.eq_ignore_ascii_case("true") => Ok(Cell::Boolean(true)),
            DataType::Boolean if csv && text.eq_ignore_ascii_case("false") => Ok(Cell::Boolean(false)),
            DataType::Timestamp => match self.times.parse(text.as_bytes()) {
                Some(us) => Ok(Cell::I64(us)),
                None => self.number(text),
            },
            DataType::Date => time::parse_date(text.as_bytes()).map(Cell::I64).ok_or(Misfit::Type),
            DataType::Interval => time::parse_duration(text).map(Cell::I64).map_err(|_| Misfit::Type),
            DataType::Double => self.number(text).or_else(|misfit| special_double(text).map(Cell::F64).ok_or(misfit)),
            DataType::BigInt | DataType::Decimal { .. } => self.number(text),
            _ => Err(Misfit::Type),
        }
    }
}

/// The doubles that are not numbers of digits.
fn special_double(text: &str) -> Option<f64> {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if is("nan") {
        Some(f64::NAN)
    } else if is("inf") || is("infinity") || is("+inf") || is("+infinity") {
        Some(f64::INFINITY)
    } else if is("-inf") || is("-infinity") {
        Some(f64::NEG_INFINITY)
    } else {
        None
    }
}

/// The text of a JSON string with escapes.
fn unescape(json: &str, scratch: &mut String) -> Result<(), Misfit> {
    // Half a surrogate pair passes as syntax, but is no text.
    let text: Cow<'_, str> = serde_json::from_str(json).map(Cow::Owned::<str>).map_err(|_| Misfit::Type)?;
    scratch.clear();
    scratch.push_str(&text);
    Ok(())
}

/// JSON without the spaces between its tokens.
fn compact<'a>(json: &'a str, scratch: &'a mut String) -> &'a str {
    let (mut in_string, mut escaped) = (false, false);
    scratch.clear();
    for c in json.chars() {
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if matches!(c, ' ' | '\t' | '\n' | '\r') {
            continue;
        } else {
            in_string = c == '"';
        }
        scratch.push(c);
    }
    scratch
}

/// Appends a value to the column; a NULL takes a default's place.
#[inline]
pub(super) fn push(column: &mut Column, cell: Cell<'_>) {
    let fits = match (&mut column.data, cell) {
        (ColumnData::Boolean(values), Cell::Boolean(value)) => {
            values.push(value);
            true
        }
        (ColumnData::I64(values), Cell::I64(value)) => {
            values.push(value);
            true
        }
        (ColumnData::F64(values), Cell::F64(value)) => {
            values.push(value);
            true
        }
        (ColumnData::I128(values), Cell::I128(value)) => {
            values.push(value);
            true
        }
        (ColumnData::Text(values), Cell::Text(value)) => {
            values.push(value);
            true
        }
        (ColumnData::Boolean(values), _) => {
            values.push(false);
            false
        }
        (ColumnData::I64(values), _) => {
            values.push(0);
            false
        }
        (ColumnData::F64(values), _) => {
            values.push(0.0);
            false
        }
        (ColumnData::I128(values), _) => {
            values.push(0);
            false
        }
        (ColumnData::Text(values), _) => {
            values.push("");
            false
        }
        (ColumnData::List(values), _) => {
            values.push([].into());
            false
        }
    };
    match &mut column.nulls {
        Some(nulls) => nulls.push(!fits),
        None if fits => {}
        None => {
            let mut nulls = vec![false; column.len()];
            if let Some(last) = nulls.last_mut() {
                *last = true;
            }
            column.nulls = Some(nulls);
        }
    }
}

/// The value of a column of scalars at a row.
pub(super) fn cell(column: &Column, row: usize) -> Option<Cell<'_>> {
    if column.is_null(row) {
        return Some(Cell::Null);
    }
    match &column.data {
        ColumnData::Boolean(values) => values.get(row).copied().map(Cell::Boolean),
        ColumnData::I64(values) => values.get(row).copied().map(Cell::I64),
        ColumnData::F64(values) => values.get(row).copied().map(Cell::F64),
        ColumnData::I128(values) => values.get(row).copied().map(Cell::I128),
        ColumnData::Text(values) => (row < values.len()).then(|| Cell::Text(values.get(row))),
        ColumnData::List(_) => None,
    }
}

/// The value as the name of a partition; `None` for NULL.
pub(super) fn partition_name<'a>(cell: Cell<'a>, dtype: &DataType, out: &'a mut String) -> Option<&'a str> {
    out.clear();
    match (cell, dtype) {
        (Cell::Null, _) => return None,
        (Cell::Text(text), _) => return Some(text),
        (Cell::Boolean(value), _) => out.push_str(if value { "true" } else { "false" }),
        (Cell::I64(us), DataType::Timestamp) => time::format_timestamp(us, out),
        (Cell::I64(days), DataType::Date) => time::format_date(days, out),
        (Cell::I64(us), DataType::Interval) => out.push_str(&time::format_duration(us)),
        (Cell::I64(value), _) => out.push_str(itoa::Buffer::new().format(value)),
        (Cell::F64(value), _) if value.is_nan() => out.push_str("NaN"),
        (Cell::F64(value), _) => out.push_str(&crate::types::canonical_double(value).to_string()),
        (Cell::I128(value), dtype) => {
            let scale = if let DataType::Decimal { scale, .. } = dtype { usize::from(*scale) } else { 0 };
            let digits = format!("{:0width$}", value.unsigned_abs(), width = scale + 1);
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            let sign = if value < 0 { "-" } else { "" };
            let point = if scale > 0 { "." } else { "" };
            out.push_str(&format!("{sign}{whole}{point}{fraction}"));
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Value;

    fn read(dtype: DataType, field: RawField<'_>) -> Result<Value, Misfit> {
        let mut scratch = String::new();
        let mut column = Column::new(dtype.clone());
        push(&mut column, Converter::new(dtype, 1_000).convert(field, &mut scratch)?);
        Ok(column.value(0))
    }

    fn json(dtype: DataType, text: &str) -> Result<Value, Misfit> {
        serde_json::from_str::<serde::de::IgnoredAny>(text).expect("valid JSON");
        read(dtype, RawField::Json(text))
    }

    fn csv(dtype: DataType, text: &str) -> Result<Value, Misfit> {
        read(dtype, RawField::Text(text))
    }

    const MISFIT: Result<Value, Misfit> = Err(Misfit::Type);
    const MONEY: DataType = DataType::Decimal { precision: 5, scale: 2 };

    #[test]
    fn json_values_by_type() {
        use DataType::*;
        let text = |s: &str| Ok(Value::Text(s.into()));
        assert_eq!(json(Boolean, "true"), Ok(Value::Boolean(true)));
        assert_eq!(json(Boolean, "\"true\""), MISFIT);
        assert_eq!(json(Boolean, "1"), MISFIT);
        assert_eq!(json(BigInt, "9007199254740993"), Ok(Value::BigInt(9_007_199_254_740_993)));
        assert_eq!(json(BigInt, "1.0"), Ok(Value::BigInt(1)));
        assert_eq!(json(BigInt, "1.5"), MISFIT);
        assert_eq!(json(BigInt, "9223372036854775808"), MISFIT);
        assert_eq!(json(BigInt, "\"12\""), Ok(Value::BigInt(12)));
        assert_eq!(json(BigInt, "\"x\""), MISFIT);
        assert_eq!(json(BigInt, "null"), Ok(Value::Null));
        assert_eq!(json(BigInt, "[1]"), MISFIT);
        assert_eq!(json(Double, "1e308"), Ok(Value::Double(1e308)));
        assert_eq!(json(Double, "1e309"), MISFIT);
        assert_eq!(json(Double, "\"NaN\""), Ok(Value::Double(f64::NAN)));
        assert_eq!(json(Double, "\"-Infinity\""), Ok(Value::Double(f64::NEG_INFINITY)));
        assert_eq!(json(Double, "\"1_0\""), MISFIT);
        assert_eq!(json(MONEY, "0.1"), Ok(Value::Decimal(10, 2)));
        assert_eq!(json(MONEY, "1.005"), MISFIT);
        assert_eq!(json(MONEY, "1.000"), Ok(Value::Decimal(100, 2)));
        assert_eq!(json(MONEY, "1000"), MISFIT);
        assert_eq!(json(Text, "\"a\\n\\u00e9\\ud83d\\ude00\""), text("a\né😀"));
        assert_eq!(json(Text, "\" as is \""), text(" as is "));
        assert_eq!(json(Text, "\"\\ud83d\""), MISFIT);
        assert_eq!(json(Text, "1.50"), text("1.50"));
        assert_eq!(json(Text, "false"), text("false"));
        assert_eq!(json(Text, "{ \"a b\" : [ 1, \"\\\" x\" ] }"), text("{\"a b\":[1,\"\\\" x\"]}"));
        assert_eq!(json(Timestamp, "1500"), Ok(Value::Timestamp(1_500_000)));
        assert_eq!(json(Timestamp, "-0.0001"), Ok(Value::Timestamp(-1)));
        assert_eq!(json(Timestamp, "9223372036854775807"), Err(Misfit::Range));
        assert_eq!(json(Timestamp, "\"1970-01-01T00:00:01Z\""), Ok(Value::Timestamp(1_000_000)));
        assert_eq!(json(Timestamp, "\"soon\""), MISFIT);
        assert_eq!(json(Timestamp, "true"), MISFIT);
        assert_eq!(json(Date, "\"1970-01-02\""), Ok(Value::Date(1)));
        assert_eq!(json(Date, "1"), MISFIT);
        assert_eq!(json(Interval, "\"1h30m\""), Ok(Value::Interval(5_400_000_000)));
        assert_eq!(json(Interval, "\"1 month\""), MISFIT);
    }

    #[test]
    fn csv_values_by_type() {
        use DataType::*;
        assert_eq!(csv(Boolean, "TRUE"), Ok(Value::Boolean(true)));
        assert_eq!(csv(Boolean, "yes"), MISFIT);
        assert_eq!(csv(BigInt, " 5 "), Ok(Value::BigInt(5)));
        assert_eq!(csv(BigInt, ""), MISFIT);
        assert_eq!(csv(Double, "NaN"), Ok(Value::Double(f64::NAN)));
        assert_eq!(csv(Timestamp, "15"), Ok(Value::Timestamp(15_000)));
        assert_eq!(csv(Timestamp, "2019-03-01 00:03:29-05:00"), Ok(Value::Timestamp(1_551_416_609_000_000)));
        assert_eq!(read(Text, RawField::TextWithQuotes("say \"\"hi\"\"")), Ok(Value::Text("say \"hi\"".into())));
        assert_eq!(read(Text, RawField::Null), Ok(Value::Null));
        assert_eq!(read(Text, RawField::Missing), Ok(Value::Null));
    }

    #[test]
    fn partition_names_are_the_text_of_the_value() {
        let mut out = String::new();
        let mut name = |cell, dtype: &DataType| partition_name(cell, dtype, &mut out).map(str::to_owned);
        assert_eq!(name(Cell::Text("a"), &DataType::Text).as_deref(), Some("a"));
        assert_eq!(name(Cell::I64(7), &DataType::BigInt).as_deref(), Some("7"));
        assert_eq!(name(Cell::I128(-5), &MONEY).as_deref(), Some("-0.05"));
        assert_eq!(name(Cell::I64(0), &DataType::Date).as_deref(), Some("1970-01-01"));
        assert_eq!(name(Cell::Null, &DataType::Text), None);
    }

    #[test]
    fn long_fields_are_cut_in_messages() {
        assert_eq!(show(RawField::Text("a\tb")), "\"a\u{fffd}b\"");
        assert_eq!(show(RawField::Json(&"9".repeat(100))), format!("{}…", "9".repeat(80)));
        assert_eq!(show(RawField::Missing), "nothing");
    }
}
