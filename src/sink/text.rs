//! Values as text: JSON, CSV fields and table cells.
//!
//! Why here: results are promised to the byte (SEMANTICS §7 "Bytes"), so each type has exactly one text per format, and
//! equal values have equal text: −0.0 is written `0.0`, every NaN `NaN`. Times are RFC 3339 `Z`, doubles the shortest text
//! that reads back, decimals at their scale, integers in full. Cost: one pass over the value, no allocation but for
//! intervals.

use crate::time::{format_date, format_duration, format_timestamp};
use crate::types::{Value, canonical_double};

/// Appends a value as JSON. NaN and the infinities are strings (`"NaN"`, `"Infinity"`, `"-Infinity"`), intervals are text
/// (`"1h30m"`), decimals are numbers with all their digits.
pub fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Boolean(_) | Value::BigInt(_) | Value::Decimal(..) => write_plain(value, out),
        Value::Double(v) if v.is_finite() => write_plain(value, out),
        Value::Double(_) | Value::Timestamp(_) | Value::Date(_) | Value::Interval(_) => {
            // None of these texts holds a character that JSON escapes.
            out.push('"');
            write_plain(value, out);
            out.push('"');
        }
        Value::Text(v) => write_json_string(v, out),
        Value::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
    }
}

/// Appends a JSON string, quotes included. Escapes what JSON demands and nothing else.
pub fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|b| b < 0x20 || b == b'"' || b == b'\\') {
        let (clean, tail) = rest.split_at(at);
        out.push_str(clean);
        let mut chars = tail.chars();
        match chars.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\u{c}') => out.push_str("\\f"),
            Some(c) => {
                out.push_str("\\u00");
                for digit in [u32::from(c) >> 4, u32::from(c) & 0xf] {
                    out.push(char::from_digit(digit, 16).unwrap_or('0'));
                }
            }
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

/// Appends a value as a CSV field (RFC 4180, delimiter `,`): NULL is the empty field, the empty string is `""`, lists are
/// their JSON.
pub fn write_csv(value: &Value, out: &mut String) {
    match value {
        Value::Null => {}
        Value::Text(v) => write_csv_text(v, out),
        Value::List(_) => {
            let mut json = String::new();
            write_json(value, &mut json);
            write_csv_text(&json, out);
        }
        // Neither numbers nor times hold a comma, a quote or a line end.
        _ => write_plain(value, out),
    }
}

/// Appends text as a CSV field, quoted when it has to be.
pub fn write_csv_text(text: &str, out: &mut String) {
    if !text.is_empty() && !text.bytes().any(|b| matches!(b, b',' | b'"' | b'\n' | b'\r')) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for (i, part) in text.split('"').enumerate() {
        if i > 0 {
            out.push_str("\"\"");
        }
        out.push_str(part);
    }
    out.push('"');
}

/// Appends a value as a table cell for people: NULL is `NULL`, and characters that would move the cursor or reorder the
/// line are escaped, so that data cannot draw on the terminal.
pub fn write_cell(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("NULL"),
        Value::Text(v) => write_visible(v, out),
        Value::List(_) => {
            let mut json = String::new();
            write_json(value, &mut json);
            write_visible(&json, out);
        }
        _ => write_plain(value, out),
    }
}

/// Appends text with control and bidirectional formatting characters escaped (`\n`, `\u{1b}`).
pub fn write_visible(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            c if c.is_control() => out.extend(c.escape_debug()),
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{feff}' => {
                out.extend(c.escape_unicode());
            }
            c => out.push(c),
        }
    }
}

/// Columns that a cell takes on a terminal: two for East Asian wide characters and emoji, none for combining marks. An
/// approximation by blocks; being wrong costs alignment only.
pub fn display_width(text: &str) -> usize {
    text.chars()
        .map(|c| match u32::from(c) {
            0x300..=0x36f | 0x200b..=0x200d | 0x20d0..=0x20ff | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f => 0,
            0x1100..=0x115f
            | 0x2e80..=0x303e
            | 0x3041..=0xa4cf
            | 0xac00..=0xd7a3
            | 0xf900..=0xfaff
            | 0xfe30..=0xfe6f
            | 0xff00..=0xff60
            | 0xffe0..=0xffe6
            | 0x1f300..=0x1f64f
            | 0x1f900..=0x1f9ff
            | 0x20000..=0x3fffd => 2,
            _ => 1,
        })
        .sum()
}

/// Appends an integer.
#[inline]
pub fn write_number(n: i64, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(n));
}

/// Appends the bare text of a value; NULL is nothing, lists are their JSON.
fn write_plain(value: &Value, out: &mut String) {
    match value {
        Value::Null => {}
        Value::Boolean(v) => out.push_str(if *v { "true" } else { "false" }),
        Value::BigInt(v) => out.push_str(itoa::Buffer::new().format(*v)),
        Value::Double(v) => write_double(*v, out),
        Value::Decimal(v, scale) => write_decimal(*v, *scale, out),
        Value::Text(v) => out.push_str(v),
        Value::Timestamp(v) => format_timestamp(*v, out),
        Value::Date(v) => format_date(*v, out),
        Value::Interval(v) => out.push_str(&format_duration(*v)),
        Value::List(_) => write_json(value, out),
    }
}

fn write_double(v: f64, out: &mut String) {
    let v = canonical_double(v);
    if v.is_nan() {
        out.push_str("NaN");
    } else if v.is_infinite() {
        out.push_str(if v > 0.0 { "Infinity" } else { "-Infinity" });
    } else {
        out.push_str(ryu::Buffer::new().format_finite(v));
    }
}

fn write_decimal(v: i128, scale: u8, out: &mut String) {
    if v < 0 {
        out.push('-');
    }
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(v.unsigned_abs());
    let scale = usize::from(scale);
    match digits.len().checked_sub(scale) {
        Some(whole) if whole > 0 => {
            let (whole, fraction) = digits.split_at(whole);
            out.push_str(whole);
            if scale > 0 {
                out.push('.');
                out.push_str(fraction);
            }
        }
        _ => {
            out.push_str("0.");
            out.extend(std::iter::repeat_n('0', scale.saturating_sub(digits.len())));
            out.push_str(digits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn json(value: Value) -> String {
        let mut out = String::new();
        write_json(&value, &mut out);
        out
    }
    fn csv(value: Value) -> String {
        let mut out = String::new();
        write_csv(&value, &mut out);
        out
    }
    fn cell(value: Value) -> String {
        let mut out = String::new();
        write_cell(&value, &mut out);
        out
    }

    #[test]
    fn numbers() {
        assert_eq!(json(Value::BigInt(i64::MIN)), "-9223372036854775808");
        assert_eq!(json(Value::BigInt(9_007_199_254_740_993)), "9007199254740993");
        for (double, text) in [(0.1, "0.1"), (-0.0, "0.0"), (1e300, "1e300"), (5e-324, "5e-324"), (100.0, "100.0")] {
            assert_eq!(json(Value::Double(double)), text);
            assert_eq!(csv(Value::Double(double)), text);
        }
        for (double, text) in [(f64::NAN, "NaN"), (f64::INFINITY, "Infinity"), (f64::NEG_INFINITY, "-Infinity")] {
            assert_eq!(json(Value::Double(double)), format!("\"{text}\""));
            assert_eq!(csv(Value::Double(double)), text);
            assert_eq!(cell(Value::Double(double)), text);
        }
    }

    #[test]
    fn decimals_keep_their_scale() {
        let cases: [(i128, u8, &str); 9] = [
            (0, 0, "0"),
            (0, 2, "0.00"),
            (5, 2, "0.05"),
            (-5, 2, "-0.05"),
            (50, 2, "0.50"),
            (123, 2, "1.23"),
            (-12300, 2, "-123.00"),
            (1, 38, "0.00000000000000000000000000000000000001"),
            (i128::MIN, 0, "-170141183460469231731687303715884105728"),
        ];
        for (v, scale, text) in cases {
            assert_eq!(json(Value::Decimal(v, scale)), text);
            assert_eq!(csv(Value::Decimal(v, scale)), text);
        }
    }

    #[test]
    fn text_in_json() {
        assert_eq!(
            json(Value::Text("a\"b\\c\n\r\t\u{8}\u{c}\u{1}\u{1f}\u{7f}é🦀/".into())),
            "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u001f\u{7f}é🦀/\""
        );
        assert_eq!(json(Value::Text("".into())), "\"\"");
        assert_eq!(json(Value::Null), "null");
        assert_eq!(json(Value::Boolean(true)), "true");
    }

    #[test]
    fn text_in_csv() {
        for (text, field) in [
            ("", "\"\""),
            ("plain text", "plain text"),
            (" spaces stay ", " spaces stay "),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("\"", "\"\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("cr\r", "\"cr\r\""),
        ] {
            assert_eq!(csv(Value::Text(text.into())), field);
        }
        assert_eq!(csv(Value::Null), "");
    }

    #[test]
    fn lists() {
        let list = Value::List([Value::Text("a".into()), Value::Null, Value::Double(f64::NAN)].into());
        assert_eq!(json(list.clone()), r#"["a",null,"NaN"]"#);
        assert_eq!(csv(list.clone()), r#""[""a"",null,""NaN""]""#);
        assert_eq!(cell(list), r#"["a",null,"NaN"]"#);
        assert_eq!(csv(Value::List([].into())), "[]");
    }

    #[test]
    fn cells_cannot_draw_on_the_terminal() {
        assert_eq!(cell(Value::Text("a\n\u{1b}[31mred\u{202e}".into())), "a\\n\\u{1b}[31mred\\u{202e}");
        assert_eq!(cell(Value::Null), "NULL");
        assert_eq!(display_width("é漢🦀e\u{301}"), 1 + 2 + 2 + 1);
    }

    #[test]
    fn times() {
        assert_eq!(json(Value::Timestamp(0)), r#""1970-01-01T00:00:00Z""#);
        assert_eq!(json(Value::Timestamp(-1)), r#""1969-12-31T23:59:59.999999Z""#);
        assert_eq!(csv(Value::Timestamp(1_500)), "1970-01-01T00:00:00.001500Z");
        assert_eq!(csv(Value::Timestamp(1_000)), "1970-01-01T00:00:00.001Z");
        assert_eq!(json(Value::Date(-1)), r#""1969-12-31""#);
        assert_eq!(json(Value::Interval(5_400_000_000)), r#""1h30m""#);
        assert_eq!(csv(Value::Interval(0)), "0s");
    }

    proptest! {
        #[test]
        fn json_reads_back(text in ".*", number in any::<i64>(), double in any::<f64>()) {
            let back: serde_json::Value = serde_json::from_str(&json(Value::Text(text.as_str().into()))).expect("JSON");
            prop_assert_eq!(back.as_str(), Some(text.as_str()));
            prop_assert_eq!(json(Value::BigInt(number)).parse::<i64>(), Ok(number));
            if double.is_finite() {
                prop_assert_eq!(json(Value::Double(double)).parse::<f64>().map(f64::to_bits), Ok((double + 0.0).to_bits()));
            }
        }

        #[test]
        fn decimals_read_back(v in any::<i128>(), scale in 0u8..=38) {
            let text = json(Value::Decimal(v, scale));
            prop_assert_eq!(text.replace('.', "").parse::<i128>(), Ok(v));
            prop_assert_eq!(text.split_once('.').map_or(0, |(_, f)| f.len()), usize::from(scale));
        }
    }
}
