//! The short way through a line of NDJSON: a flat object without escapes.
//!
//! Most records are objects of plain strings, numbers, `true`, `false` and `null`. [`scan`] checks such a line completely,
//! after the grammar of RFC 8259, and notes the wanted values. At anything else (nested values, escapes, faults) it gives
//! up, and serde_json has the line from the start: so the verdict on a record, and every error message, is serde_json's
//! alone. The tests check that a line accepted here is accepted there, with the same values.
//!
//! Cost: one pass, strings by eight bytes at a time; about half of serde_json's time on short records.

use super::json::Keys;
use crate::words::{before_mark, count_digits, special_bytes};

/// Offset of the quote that ends the plain string whose inside starts at `at`; `None` if it is not plain or has no end.
#[inline]
pub(super) fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut rest = bytes.get(at..)?;
    while let Some((eight, behind)) = rest.split_first_chunk::<8>() {
        let special = special_bytes(u64::from_le_bytes(*eight));
        if special != 0 {
            let inside = before_mark(special);
            return (rest.get(inside) == Some(&b'"')).then(|| bytes.len() - rest.len() + inside);
        }
        rest = behind;
    }
    let inside = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
    (rest.get(inside) == Some(&b'"')).then(|| bytes.len() - rest.len() + inside)
}

/// Offset behind the digits from `at` on; `None` if there is none.
fn digits_end(bytes: &[u8], at: usize) -> Option<usize> {
    let count = count_digits(bytes.get(at..)?);
    (count > 0).then_some(at + count)
}

/// Offset behind the number that starts at `at`.
fn number_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    at += usize::from(bytes.get(at) == Some(&b'-'));
    let leading_zero = bytes.get(at) == Some(&b'0');
    let whole = digits_end(bytes, at)?;
    if leading_zero && whole > at + 1 {
        return None;
    }
    at = whole;
    if bytes.get(at) == Some(&b'.') {
        at = digits_end(bytes, at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        at = digits_end(bytes, at)?;
    }
    Some(at)
}

/// Offset of the first byte from `at` on that is no space.
pub(super) fn spaces_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Offset behind the flat value that starts at `at`.
pub(super) fn value_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    match rest {
        [b'"', ..] => string_end(bytes, at + 1).map(|end| end + 1),
        [b'-' | b'0'..=b'9', ..] => number_end(bytes, at),
        [b't', b'r', b'u', b'e', ..] | [b'n', b'u', b'l', b'l', ..] => Some(at + 4),
        [b'f', b'a', b'l', b's', b'e', ..] => Some(at + 5),
        _ => None,
    }
}

/// Reads a line that is a flat object without escapes into `raw`, by wanted key; of equal keys the last one counts.
/// `None`: the line is something else, and `raw` holds nothing of use.
pub(super) fn scan<'t>(line: &'t str, keys: &mut Keys, raw: &mut [Option<&'t str>]) -> Option<()> {
    let bytes = line.as_bytes();
    let mut at = spaces_end(bytes, 0);
    if bytes.get(at) != Some(&b'{') {
        return None;
    }
    at = spaces_end(bytes, at + 1);
    let mut place = 0;
    loop {
        if bytes.get(at) != Some(&b'"') {
            return None;
        }
        let key_end = string_end(bytes, at + 1)?;
        let wanted = keys.find(place, line.get(at + 1..key_end)?);
        at = spaces_end(bytes, key_end + 1);
        if bytes.get(at) != Some(&b':') {
            return None;
        }
        at = spaces_end(bytes, at + 1);
        let end = value_end(bytes, at)?;
        if let Some(place) = wanted.and_then(|number| raw.get_mut(number)) {
            *place = Some(line.get(at..end)?);
        }
        place += 1;
        at = spaces_end(bytes, end);
        match bytes.get(at)? {
            b',' => at = spaces_end(bytes, at + 1),
            b'}' => break,
            _ => return None,
        }
    }
    (spaces_end(bytes, at + 1) == bytes.len()).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::value::RawValue;
    use std::collections::BTreeMap;

    /// What is found under the keys `a` and `b`.
    fn scanned(line: &str) -> Option<[Option<&str>; 2]> {
        let mut keys = Keys::wanting(&["a", "b"]);
        let mut raw = [None, None];
        scan(line, &mut keys, &mut raw).map(|()| raw)
    }

    #[test]
    fn flat_objects_are_taken_and_all_else_is_left() {
        assert_eq!(scanned(r#"{"a":1,"b":"x"}"#), Some([Some("1"), Some("\"x\"")]));
        assert_eq!(scanned(" { \"b\" : null ,\t\"c\":-0.5e+10,\"a\":true } \r"), Some([Some("true"), Some("null")]));
        assert_eq!(scanned(r#"{"a":1,"a":2,"long key of 20 chars":false}"#), Some([Some("2"), None]));
        assert_eq!(scanned(r#"{"a":"12345678é😀"}"#), Some([Some("\"12345678é😀\""), None]));
        for line in [
            "",
            "{",
            "{}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{\"a\":1}x",
            "{\"a\":01}",
            "{\"a\":1.}",
            "{\"a\":.5}",
            "{\"a\":-}",
            "{\"a\":1e}",
            "{\"a\":+1}",
            "{\"a\":tru}",
            "{\"a\":truex}",
            "{\"a\":\"x}",
            "{\"a\":\"x\\n\"}",
            "{\"a\":\"tab\there\"}",
            "{\"a\":{}}",
            "{\"a\":[1]}",
            "[1]",
            "null",
            "{a:1}",
            "{\"a\":1 \"b\":2}",
            "{\"a\":1",
        ] {
            assert_eq!(scanned(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_is_what_serde_json_takes(
            line in r#"\{?( ?"[ab]"[: ]{1,2}("[ -~é]{0,20}"|-?[0-9]{1,3}(\.[0-9]{0,2})?([eE][-+]?[0-9]{0,2})?|true|nul{1,2}|[\[\]{}]{1,2}),?){0,4}\}?"#,
            at in 0usize..200, byte in 0u8..128, changed: bool,
        ) {
            let mut line = line;
            if changed && line.is_char_boundary(at.min(line.len())) {
                line.insert(at.min(line.len()), char::from(byte));
            }
            if let Some(raw) = scanned(&line) {
                let theirs: BTreeMap<&str, &RawValue> = serde_json::from_str(&line).expect("accepted here, so there");
                prop_assert_eq!(raw, [theirs.get("a").map(|v| v.get()), theirs.get("b").map(|v| v.get())]);
            }
        }

        #[test]
        fn special_bytes_are_found_first(text in "[ -~\t\u{7f}-\u{ff}]{0,40}") {
            let expected = text.bytes().position(|b| b == b'"' || b == b'\\' || b < 0x20);
            let found = string_end(text.as_bytes(), 0);
            prop_assert_eq!(found, expected.filter(|at| text.as_bytes()[*at] == b'"'));
        }
    }
}
