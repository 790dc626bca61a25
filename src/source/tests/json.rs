//! NDJSON.

use super::*;
use proptest::prelude::*;

#[test]
fn ndjson_with_mark_crlf_blank_lines_and_no_last_line_end() {
    let text = b"\xef\xbb\xbf{\"ts\":5,\"key\":\"a\"}\r\n\r\n  \t\r\n{\"ts\":15,\"key\":\"b\"}";
    let seen = read_everywhere(text, &Format::Json, KEYED);
    assert_eq!(reasons(&seen), [(1, None), (4, None)]);
    assert_eq!(seen[0].raw, b"{\"ts\":5,\"key\":\"a\"}");
}

#[test]
fn bad_lines_do_not_spoil_the_next() {
    // Case 085, after https://github.com/ArroyoSystems/arroyo/issues/891
    let text = b"{\"ts\":1,\"key\":\"a\"}\n{\"ts\":17x9,\"key\":\"a\"}\n{\"ts\":2,\"key\":\"a\"}\n\
        {\"ts\":3,\"key\":\"\xff\xfe\"}\n{\"ts\":007,\"key\":\"a\"}\nnull\n[1,2]\n{\"ts\":5,\"key\":\"a\"}\n";
    use RejectReason::{Encoding, Syntax};
    let seen = read_everywhere(text, &Format::Json, KEYED);
    assert_eq!(
        reasons(&seen),
        [
            (1, None),
            (2, Some(Syntax)),
            (3, None),
            (4, Some(Encoding)),
            (5, Some(Syntax)),
            (6, Some(Syntax)),
            (7, Some(Syntax)),
            (8, None)
        ]
    );
    assert_eq!(seen[3].raw, b"{\"ts\":3,\"key\":\"\xff\xfe\"}");
    assert_eq!(
        details(&seen),
        [
            "not a JSON object: expected `,` or `}` at column 9",
            "expected UTF-8, found byte 0xff at byte 16 of the record",
            "not a JSON object: invalid number at column 8",
            "expected a JSON object, found null",
            "expected a JSON object, found [1,2]",
        ]
    );
}

#[test]
fn nested_paths_duplicate_keys_and_key_order() {
    let columns = [
        ("ts", DataType::Timestamp),
        ("payload.amount", DataType::BigInt),
        ("payload.who.name", DataType::Text),
        ("payload", DataType::Text),
    ];
    let text = br#"{"ts":1,"payload":{"amount":1,"who":{"name":"ann"}}}
{"payload":{"amount":1,"amount":2},"ts":2}
{"ts":3,"payload":{"amount":1},"payload":{"who":null}}
{"p\u0061yload":{ "amount": 7 },"ts":4,"ts":5}
{"ts":6,"payload":[1]}
{"ts":7}
{"ts":8,"payload":{"who":{"name":"x\ty"}}}
{"ts":9,"payload":{"\ud800":1,"amount":3}}
{"ts":10,"other":"\ud800","other2":{"\ud800":[{}]}}
{"\ud800":1,"ts":11}
"#;
    let seen = read_everywhere(text, &Format::Json, &columns);
    let number = |n| Some(Value::BigInt(n));
    let text = |s: &str| Some(Value::Text(s.into()));
    let null = Some(Value::Null);
    let values: Vec<_> = seen.iter().filter(|s| s.rejected.is_none()).map(|s| s.values[1..].to_vec()).collect();
    assert_eq!(values[0], [number(1), text("ann"), text(r#"{"amount":1,"who":{"name":"ann"}}"#)]);
    assert_eq!(values[1][0], number(2), "the last of equal keys counts");
    assert_eq!(values[2][..2], [null.clone(), null.clone()], "below the last of equal keys");
    assert_eq!(values[3][0], number(7), "a key with an escape");
    assert_eq!(seen[3].event_time_us, Some(5_000));
    assert_eq!(values[4], [null.clone(), null.clone(), text("[1]")]);
    assert_eq!(values[5], [null.clone(), null.clone(), null.clone()]);
    // A tab must be written as an escape, and is.
    assert_eq!(values[6][1], text("x\ty"));
    assert_eq!(seen[7].errors.len(), 2, "half a surrogate pair cannot be looked through: {:?}", seen[7].errors);
    assert_eq!(seen[8].rejected, None);
    assert_eq!(seen[9].rejected.as_ref().map(|r| r.0), Some(RejectReason::Syntax));
}

/// Pieces of NDJSON, sound and broken.
fn json_pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => (0..2_000i64, "[a-c]{0,6}").prop_map(|(ts, key)| format!("{{\"ts\":{ts},\"key\":\"{key}\"}}").into_bytes()),
        1 => Just(b"{\"ts\":1,\"key\":\"\xff\"}".to_vec()),
        1 => Just("{\"key\":\"ü😀\",\"ts\":7}".as_bytes().to_vec()),
        1 => Just(b"{\"ts\":1".to_vec()),
        1 => Just(b"  ".to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..6),
    ];
    let end = prop_oneof![6 => Just("\n"), 1 => Just("\r\n"), 1 => Just("\n\n"), 1 => Just("")];
    proptest::collection::vec((piece, end), 0..12)
        .prop_map(|all| all.into_iter().flat_map(|(piece, end)| [piece, end.as_bytes().to_vec()].concat()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ndjson_reads_alike_in_all_ways(text in json_pieces(), mark in proptest::bool::weighted(0.2)) {
        let text = if mark { [&b"\xef\xbb\xbf"[..], &text].concat() } else { text };
        let seen = read_everywhere(&text, &Format::Json, KEYED);
        // Against the plain definition: lines, each read by serde_json as a whole.
        let body = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
        let mut expected = Vec::new();
        for (number, line) in body.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.iter().all(|byte| b" \t\r".contains(byte)) {
                continue;
            }
            let reason = match std::str::from_utf8(line) {
                Err(_) => Some(RejectReason::Encoding),
                Ok(line) => match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(line) {
                    Err(_) => Some(RejectReason::Syntax),
                    Ok(map) => (!map.contains_key("ts")).then_some(RejectReason::EventTime),
                },
            };
            expected.push((number as u64 + 1, reason));
        }
        prop_assert_eq!(reasons(&seen), expected);
    }
}
