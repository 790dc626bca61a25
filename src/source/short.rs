//! The short way from a field to its value: usual shapes are read straight from the bytes of the record.
//!
//! Usual are numbers of up to 18 digits without exponent, timestamps of the date last seen in UTC, plain texts, booleans
//! and null. A field of any other shape is left to [`Converter::convert`], which alone knows what does not fit and says
//! so: nothing is refused here. The tests check that what is read here is what is read there.
//!
//! Cost: one pass of a few words; the end of the field is found while its value is read.

use super::flat::{string_end, value_end};
use super::value::{self, Cell, Converter};
use crate::types::{Column, ColumnData, DataType};
use crate::words::{self, Plain, before_mark, equal_bytes};

/// After so many records in a row that were left to the long way,
const MISSES_MAX: u32 = 16;
/// so many are not tried.
const PAUSE_RECORDS: u32 = 256;

/// Whether the short way is worth trying: not for a while after it has failed often.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    misses: u32,
    pause: u32,
    #[cfg(test)]
    pub(super) hits: u64,
}

impl Pace {
    /// For tests: never.
    #[cfg(test)]
    pub(super) fn never() -> Self {
        Pace { pause: u32::MAX, ..Pace::default() }
    }

    /// Whether to try the next record.
    #[inline]
    pub(super) fn tries(&mut self) -> bool {
        let tries = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        tries
    }

    /// Notes that a record was taken.
    #[inline]
    pub(super) fn hit(&mut self) {
        self.misses = 0;
        #[cfg(test)]
        {
            self.hits += 1;
        }
    }

    /// Notes that a record was tried in vain.
    pub(super) fn miss(&mut self) {
        self.misses += 1;
        if self.misses >= MISSES_MAX {
            (self.misses, self.pause) = (0, PAUSE_RECORDS);
        }
    }
}

/// Length of the plain CSV field at the front: of what stands before the delimiter or the line feed. A carriage return
/// before the line feed counts to it. `None` if the input ends before.
#[inline]
pub(super) fn field_length(bytes: &[u8], delimiter: u8) -> Option<usize> {
    let mut rest = bytes;
    while let Some((eight, behind)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*eight);
        let marks = equal_bytes(word, delimiter) | equal_bytes(word, b'\n');
        if marks != 0 {
            return Some(bytes.len() - rest.len() + before_mark(marks));
        }
        rest = behind;
    }
    let length = rest.iter().position(|byte| *byte == delimiter || *byte == b'\n')?;
    Some(bytes.len() - rest.len() + length)
}

/// The plain CSV field that starts at `at`, without a carriage return before the line feed.
pub(super) fn field(text: &str, at: usize, delimiter: u8) -> Option<&str> {
    let rest = text.as_bytes().get(at..)?;
    let length = field_length(rest, delimiter)?;
    let field = text.get(at..at + length)?;
    Some(if rest.get(length) == Some(&b'\n') { field.strip_suffix('\r').unwrap_or(field) } else { field })
}

/// Whether a plain CSV field of that length stands at the front.
#[inline]
pub(super) fn field_ended(bytes: &[u8], length: usize, delimiter: u8) -> bool {
    match bytes.get(length..) {
        Some([byte, ..]) if *byte == delimiter => true,
        Some([b'\n', ..] | [b'\r', b'\n', ..]) => true,
        _ => false,
    }
}

/// A 64-bit integer; there are at most 18 digits.
#[inline]
fn integer(number: &Plain) -> Option<i64> {
    let size = i64::try_from(number.mantissa).ok().filter(|_| number.places == 0)?;
    Some(if number.negative { -size } else { size })
}

/// An unscaled decimal, if it fits.
#[inline]
fn decimal(number: &Plain, precision: u8, scale: u8) -> Option<i128> {
    let power = words::power_of_ten(usize::from(scale).checked_sub(number.places)?)?;
    let size = number.mantissa.checked_mul(power)?;
    if words::power_of_ten(usize::from(precision)).is_some_and(|limit| size >= limit) {
        return None;
    }
    let size = i128::from(size);
    Some(if number.negative { -size } else { size })
}

/// The nearest double: digits and power are doubles exactly, so that their quotient is rounded once.
#[inline]
fn double(number: &Plain) -> Option<f64> {
    if number.count > 15 {
        return None;
    }
    let size = number.mantissa as f64 / words::power_of_ten(number.places)? as f64;
    Some(if number.negative { -size } else { size })
}

impl Converter {
    /// Appends the value of the JSON that starts at `at` to the column of the converter's type: the offset behind it, where
    /// a comma or a brace stands. `None`: nothing is appended.
    #[inline]
    pub(super) fn short_json(&self, text: &str, at: usize, column: &mut Column) -> Option<usize> {
        let rest = text.as_bytes().get(at..)?;
        let ended = |length: usize| matches!(rest.get(length), Some(b',' | b'}')).then_some(length);
        let length = match (rest, &self.dtype, &mut column.data) {
            ([b'"', inside @ ..], DataType::Timestamp, ColumnData::I64(values)) => {
                let (us, length) = self.times.parse_front(inside)?;
                let length = ended(length + 2).filter(|_| inside.get(length) == Some(&b'"'))?;
                values.push(us);
                length
            }
            ([b'-' | b'1'..=b'9', ..] | [b'0', b',' | b'.' | b'}', ..], dtype, data) if *dtype != DataType::Text => {
                // JSON knows no leading zeros.
                if matches!(rest, [b'-', b'0', b'0'..=b'9', ..]) {
                    return None;
                }
                let number = words::plain_number(rest)?;
                let length = ended(number.len)?;
                self.push_number(&number, data)?;
                length
            }
            ([b'n', b'u', b'l', b'l', ..], ..) => {
                let length = ended(4)?;
                value::push(column, Cell::Null);
                return Some(at + length);
            }
            ([b'"', ..], DataType::Text, ColumnData::Text(values)) => {
                let end = string_end(text.as_bytes(), at + 1)?;
                let length = ended(end + 1 - at)?;
                values.push(text.get(at + 1..end)?);
                length
            }
            ([b'-' | b'0'..=b'9' | b't' | b'f', ..], DataType::Text, ColumnData::Text(values)) => {
                let length = ended(value_end(text.as_bytes(), at)? - at)?;
                values.push(text.get(at..at + length)?);
                length
            }
            ([b't', b'r', b'u', b'e', ..], DataType::Boolean, ColumnData::Boolean(values)) => {
                let length = ended(4)?;
                values.push(true);
                length
            }
            ([b'f', b'a', b'l', b's', b'e', ..], DataType::Boolean, ColumnData::Boolean(values)) => {
                let length = ended(5)?;
                values.push(false);
                length
            }
            _ => return None,
        };
        if let Some(nulls) = &mut column.nulls {
            nulls.push(false);
        }
        Some(at + length)
    }

    /// Appends the value of the unquoted CSV field that starts at `at`: the offset behind it, where the delimiter or the line
    /// end stands. Whether the field is the null text is not asked here. `None`: nothing is appended.
    #[inline]
    pub(super) fn short_csv(&self, text: &str, at: usize, delimiter: u8, column: &mut Column) -> Option<usize> {
        let rest = text.as_bytes().get(at..)?;
        let ended = |length: usize| field_ended(rest, length, delimiter).then_some(length);
        let length = match (&self.dtype, &mut column.data) {
            (DataType::Text, ColumnData::Text(values)) => {
                let field = field(text, at, delimiter)?;
                values.push(field);
                field.len()
            }
            (dtype, data) => match (self.front(dtype, rest), data) {
                (Some((us, length)), ColumnData::I64(values)) => {
                    let length = ended(length)?;
                    values.push(us);
                    length
                }
                (_, data) => {
                    let number = words::plain_number(rest)?;
                    let length = ended(number.len)?;
                    self.push_number(&number, data)?;
                    length
                }
            },
        };
        if let Some(nulls) = &mut column.nulls {
            nulls.push(false);
        }
        Some(at + length)
    }

    /// The timestamp at the front, if that is the type.
    #[inline]
    fn front(&self, dtype: &DataType, rest: &[u8]) -> Option<(i64, usize)> {
        if *dtype == DataType::Timestamp { self.times.parse_front(rest) } else { None }
    }

    /// Appends a number, if it fits.
    #[inline]
    fn push_number(&self, number: &Plain, data: &mut ColumnData) -> Option<()> {
        match (&self.dtype, data) {
            (DataType::BigInt, ColumnData::I64(values)) => values.push(integer(number)?),
            (DataType::Decimal { precision, scale }, ColumnData::I128(values)) => {
                values.push(decimal(number, *precision, *scale)?);
            }
            (DataType::Double, ColumnData::F64(values)) => values.push(double(number)?),
            (DataType::Timestamp, ColumnData::I64(values)) => {
                values.push(integer(number)?.checked_mul(self.time_unit_us)?);
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::RawField;
    use super::*;
    use proptest::prelude::*;

    const TYPES: [DataType; 9] = [
        DataType::Boolean,
        DataType::BigInt,
        DataType::Double,
        DataType::Decimal { precision: 12, scale: 2 },
        DataType::Decimal { precision: 38, scale: 20 },
        DataType::Text,
        DataType::Timestamp,
        DataType::Date,
        DataType::Interval,
    ];

    /// A converter that has seen a date.
    fn converter(dtype: &DataType) -> Converter {
        let mut out = Converter::new(dtype.clone(), 1_000);
        let _ = out.convert(RawField::Text("2026-01-01T00:00:00Z"), &mut String::new());
        out
    }

    /// Whether the field was read; a difference to the long way is an error. Debug text tells -0.0 from 0.0.
    fn same(
        dtype: &DataType,
        short: Option<usize>,
        read: &Column,
        field: &str,
        raw: RawField<'_>,
    ) -> Result<bool, String> {
        let Some(end) = short else {
            return if read.len() == 1 && read.nulls == Some(vec![true]) {
                Ok(false)
            } else {
                Err("something is left".to_owned())
            };
        };
        let mut column = Column::new(dtype.clone());
        value::push(&mut column, Cell::Null);
        match converter(dtype).convert(raw, &mut String::new()) {
            Ok(cell) => value::push(&mut column, cell),
            Err(misfit) => return Err(format!("{dtype}: {field}: {misfit:?}")),
        }
        let (short, long) = (format!("{read:?}"), format!("{column:?}"));
        if end == field.len() && short == long { Ok(true) } else { Err(format!("{dtype}: {field}: {short}, {long}")) }
    }

    /// A column with a NULL in it, and the field read into it.
    fn column(dtype: &DataType) -> Column {
        let mut out = Column::new(dtype.clone());
        value::push(&mut out, Cell::Null);
        out
    }

    fn json(dtype: &DataType, field: &str) -> Result<bool, String> {
        let text = format!("{field},\"next\":12345678901234567890}}");
        let mut read = column(dtype);
        same(dtype, converter(dtype).short_json(&text, 0, &mut read), &read, field, RawField::Json(field))
    }

    fn csv(dtype: &DataType, field: &str, end: &str) -> Result<bool, String> {
        let text = format!("{field}{end}next record of some length");
        let mut read = column(dtype);
        same(dtype, converter(dtype).short_csv(&text, 0, b',', &mut read), &read, field, RawField::Text(field))
    }

    #[test]
    fn the_usual_is_read_here() {
        let money = DataType::Decimal { precision: 12, scale: 2 };
        for (dtype, field) in [
            (DataType::BigInt, "0"),
            (DataType::BigInt, "-12345678901"),
            (DataType::Double, "-0"),
            (DataType::Double, "805.51"),
            (money.clone(), "805.51"),
            (money, "-7"),
            (DataType::Timestamp, "1767225600000"),
        ] {
            assert_eq!(json(&dtype, field), Ok(true), "{dtype}: {field}");
            for end in [",", "\n", "\r\n"] {
                assert_eq!(csv(&dtype, field, end), Ok(true), "{dtype}: {field}");
            }
        }
        for time in ["", ".5", ".011", ".123456", ".123456789"] {
            for zone in ["", "Z"] {
                let time = format!("2026-01-01T23:59:59{time}{zone}");
                assert_eq!(json(&DataType::Timestamp, &format!("\"{time}\"")), Ok(true), "{time}");
                assert_eq!(csv(&DataType::Timestamp, &time, "\n"), Ok(true), "{time}");
            }
        }
        for field in ["\"\"", "\"é and 😀\"", "1.50", "true", "null"] {
            assert_eq!(json(&DataType::Text, field), Ok(true), "{field}");
        }
        assert_eq!(csv(&DataType::Text, "é and \r 😀", "\r\n"), Ok(true));
        assert_eq!(json(&DataType::Boolean, "false"), Ok(true));
        assert_eq!(json(&DataType::BigInt, "01"), Ok(false));
        assert_eq!(json(&DataType::BigInt, "1.0"), Ok(false));
        assert_eq!(json(&DataType::Text, "\"\\n\""), Ok(false));
    }

    proptest! {
        #[test]
        fn what_is_read_here_is_what_is_read_there(
            field in "-?[0-9]{0,20}(\\.[0-9]{0,20})?([eE][-+]?[0-9]{0,3})?|2026-01-0[0-9][Tt ][0-9]{2}:[0-9]{2}:[0-6][0-9](\\.[0-9]{0,12})?(Z|z|\\+01)?|true|false|null|[ -~é]{0,12}",
            at in 0usize..30, byte in 0x20u8..0x7f, changed: bool,
        ) {
            let mut field = field;
            if changed && field.is_char_boundary(at.min(field.len())) {
                field.insert(at.min(field.len()), char::from(byte));
            }
            for dtype in TYPES {
                for json_text in [field.clone(), format!("\"{field}\"")] {
                    if serde_json::from_str::<serde::de::IgnoredAny>(&json_text).is_ok() {
                        prop_assert!(json(&dtype, &json_text).is_ok(), "{:?}", json(&dtype, &json_text));
                    }
                }
                if !field.contains([',', '\n']) && !field.starts_with('"') {
                    for end in [",", "\n", "\r\n"] {
                        prop_assert!(csv(&dtype, &field, end).is_ok(), "{:?}", csv(&dtype, &field, end));
                    }
                }
            }
        }
    }
}
