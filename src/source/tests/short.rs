//! The short way through a record gives what the long way gives: values, rejects, messages, lines and spans.

use super::super::csv::CsvDecoder;
use super::super::decode::{BlockBuilder, DecodePlan};
use super::super::frame::{Consumed, Region};
use super::super::json::JsonDecoder;
use super::super::short::Pace;
use super::*;
use proptest::prelude::*;
use proptest::sample::select;

/// The records' table: all types, and the roles; `p` and `at` are read for their roles alone.
fn orders(future_us: Option<i64>) -> (TablePlan, BTreeSet<usize>) {
    let columns = [
        ("ts", DataType::Timestamp),
        ("at", DataType::Timestamp),
        ("p", DataType::Text),
        ("n", DataType::BigInt),
        ("m", DataType::Decimal { precision: 6, scale: 2 }),
        ("d", DataType::Double),
        ("t", DataType::Text),
        ("b", DataType::Boolean),
    ];
    let mut table = table("t", Format::Json, &columns);
    table.max_future_us = future_us;
    (table, (0..columns.len()).filter(|column| ![1, 2].contains(column)).collect())
}

/// What comes of a text, all of it, in regions of `limit` bytes; and how many records went the short way.
fn decode(
    text: &[u8],
    plan: &DecodePlan,
    limit: usize,
    mut one: impl FnMut(Region<'_>, &mut BlockBuilder) -> Result<Consumed>,
) -> String {
    let mut builder = BlockBuilder::new(plan);
    let (mut from, mut out) = (0, String::new());
    while from < text.len() {
        let rest = &text[from..];
        let end = (limit + plan.max_record_bytes + 2).min(rest.len());
        let region = Region { bytes: &rest[..end], from: 0, limit, eof: end == rest.len() };
        let taken = match one(region, &mut builder) {
            Ok(taken) => taken,
            Err(error) => return format!("{out}\n{error}"),
        };
        let block = builder.finish(Default::default(), taken.lines, Vec::new());
        assert_eq!(block.line.len(), block.rows);
        assert!(block.columns.iter().flatten().all(|column| column.len() == block.rows));
        out.push_str(&format!("{block:?} {taken:?}\n"));
        assert!(taken.bytes > 0, "{out}");
        from += taken.bytes;
    }
    out
}

/// Both ways through NDJSON; says how many records went the short one.
fn json_both_ways(text: &[u8], max_record_bytes: usize, limit: usize, future_us: Option<i64>) -> u64 {
    let (table, wanted) = orders(future_us);
    let mut plan = DecodePlan::new(&table, &wanted);
    plan.max_record_bytes = max_record_bytes;
    let (mut short, mut long) = (JsonDecoder::new(&plan), JsonDecoder::new(&plan));
    long.pace = Pace::never();
    let shortly = decode(text, &plan, limit, |region, out| Ok(short.decode(region, out)));
    let longly = decode(text, &plan, limit, |region, out| Ok(long.decode(region, out)));
    assert!(shortly == longly, "{}\n{shortly}\n{longly}", String::from_utf8_lossy(text));
    assert_eq!(long.pace.hits, 0);
    short.pace.hits
}

/// The same for CSV.
fn csv_both_ways(text: &[u8], options: &CsvOptions, max_record_bytes: usize, limit: usize) -> u64 {
    let (table, wanted) = orders(None);
    let mut plan = DecodePlan::new(&table, &wanted);
    plan.max_record_bytes = max_record_bytes;
    let (mut short, mut long) = (CsvDecoder::new(options, &plan), CsvDecoder::new(options, &plan));
    long.pace = Pace::never();
    let shortly = decode(text, &plan, limit, |region, out| short.decode(region, out));
    let longly = decode(text, &plan, limit, |region, out| long.decode(region, out));
    assert!(shortly == longly, "{}\n{shortly}\n{longly}", String::from_utf8_lossy(text));
    assert_eq!(long.pace.hits, 0);
    short.pace.hits
}

/// The usual values of a record, column by column, as JSON and as CSV.
const USUAL: [(&str, &[&str]); 9] = [
    ("ts", &["\"2026-01-01T00:00:00.011Z\"", "\"2026-01-02 23:59:59\"", "1767225600000"]),
    ("at", &["\"2026-01-01T00:00:00.032Z\"", "1767225600001"]),
    ("p", &["\"a\"", "\"é\"", "7"]),
    ("n", &["114", "-5", "0", "123456789012345678"]),
    ("m", &["805.51", "-0.5", "7"]),
    ("d", &["1.25", "-0", "1e3"]),
    ("t", &["\"\"", "\"a text of some length\"", "\"é😀\"", "null", "true", "1.50"]),
    ("b", &["true", "false", "null"]),
    ("unused_key_of_some_length", &["\"2026-01-01T00:00:00.032Z\"", "12", "null", "\"x\""]),
];

/// Values that are less usual, and some that fit nothing.
const UNUSUAL: [&str; 24] = [
    "null",
    "\"x\"",
    "01",
    "-01.5",
    "1.",
    "1e400",
    "1234567.891",
    "9223372036854775808",
    "12345678901234567890123",
    "{\"a\":[1]}",
    "[]",
    "\"2026-01-01T00:00:60Z\"",
    "\"2026-01-01T00:00:00.1234567890123456Z\"",
    "\"2026-01-01T00:00:00+01:00\"",
    "\"2026-01-01\"",
    "\" 2026-01-01T00:00:00Z \"",
    "\"2026-13-01T00:00:00Z\"",
    "\"+012345-01-01T00:00:00Z\"",
    "\"12\"",
    "\"esc\\n\\u00e9\"",
    "\"\\ud83d\"",
    "\"true\"",
    "tru",
    "253402300800000",
];

/// A value for a column: usual, or now and then not.
fn value(column: usize) -> impl Strategy<Value = String> {
    let usual = select(USUAL[column].1).prop_map(str::to_owned);
    prop_oneof![40 => usual, 1 => select(UNUSUAL.as_slice()).prop_map(str::to_owned), 1 => "-?[0-9]{0,20}\\.?[0-9]{0,4}"]
}

fn values() -> impl Strategy<Value = Vec<String>> {
    (0..USUAL.len()).map(value).collect::<Vec<_>>()
}

/// One record of NDJSON with its line end: most have all keys, in one order and written in one manner.
fn json_record() -> impl Strategy<Value = String> {
    let order = prop_oneof![6 => Just((0..USUAL.len()).collect::<Vec<_>>()), 1 => Just((0..USUAL.len()).collect()).prop_shuffle()];
    let more = prop_oneof![8 => Just(None), 1 => (0..USUAL.len()).prop_map(Some)];
    let fewer = prop_oneof![6 => Just(None), 1 => (0..USUAL.len()).prop_map(Some)];
    let spaces = prop_oneof![12 => Just(""), 1 => Just(" "), 1 => Just("\t ")];
    let end = prop_oneof![12 => Just("\n"), 2 => Just("\r\n"), 1 => Just(" \n"), 1 => Just("\n \n")];
    (values(), order, more, fewer, spaces, end).prop_map(|(values, order, more, fewer, spaces, end)| {
        let columns = order.into_iter().filter(|column| Some(*column) != fewer).chain(more);
        let fields: Vec<String> =
            columns.map(|column| format!("\"{}\":{spaces}{}", USUAL[column].0, values[column])).collect();
        format!("{{{}}}{end}", fields.join(&format!(",{spaces}")))
    })
}

/// One record of CSV with its line end.
fn csv_record(delimiter: char) -> impl Strategy<Value = String> {
    let quoted = prop_oneof![12 => Just(None), 1 => (0..USUAL.len()).prop_map(Some)];
    let end = prop_oneof![12 => Just("\n"), 2 => Just("\r\n"), 1 => Just("\n\n"), 1 => Just("\r\r\n")];
    let fields = prop_oneof![20 => Just(USUAL.len()), 1 => 0..USUAL.len()];
    (values(), quoted, fields, end).prop_map(move |(values, quoted, fields, end)| {
        let field = |(column, value): (usize, &String)| match value.trim_matches('"') {
            "null" => String::new(),
            text if quoted == Some(column) => format!("\"{text}\""),
            text => text.to_owned(),
        };
        let fields: Vec<String> = values.iter().enumerate().map(field).take(fields).collect();
        format!("{}{end}", fields.join(&delimiter.to_string()))
    })
}

/// The text with some bytes changed, and perhaps without its end.
fn mutated(mut text: Vec<u8>, changes: &[(usize, u8)], cut: Option<usize>) -> Vec<u8> {
    for (at, byte) in changes {
        let at = at % text.len().max(1);
        text.splice(at..(at + usize::from(byte % 2 == 0)).min(text.len()), [*byte]);
    }
    text.truncate(cut.unwrap_or(text.len()));
    text
}

fn changes() -> impl Strategy<Value = (Vec<(usize, u8)>, Option<usize>)> {
    let likely = select(b"\"\\{}[],: \r\n0-.eZT\x00\x1f\xc3\xff".as_slice());
    let byte = prop_oneof![3 => likely, 1 => any::<u8>()];
    let changes = prop_oneof![2 => Just(Vec::new()), 1 => proptest::collection::vec((0usize..4_000, byte), 1..4)];
    (changes, proptest::option::weighted(0.2, 0usize..3_000))
}

#[test]
fn usual_records_go_the_short_way() {
    let line = |n: usize| {
        let fields: Vec<String> =
            USUAL.iter().map(|(key, values)| format!("\"{key}\": {}", values[n % values.len()])).collect();
        format!("{{{}}}\n", fields.join(", "))
    };
    let text: String = (0..100).map(line).collect();
    let hits = json_both_ways(text.as_bytes(), 1 << 20, 1 << 20, Some(86_400_000_000));
    assert!(hits > 50, "{hits} of 100");
    let csv = |n: usize| {
        let fields: Vec<&str> = USUAL.iter().map(|(_, values)| values[n % values.len()].trim_matches('"')).collect();
        format!("{}\r\n", fields.join(",").replace("null", ""))
    };
    let header = USUAL.map(|(key, _)| key).join(",");
    let text = format!("{header}\n{}", (0..100).map(csv).collect::<String>());
    let hits = csv_both_ways(text.as_bytes(), &csv_options(), 1 << 20, 1 << 20);
    assert!(hits > 90, "{hits} of 100");
}

#[test]
fn ways_of_writing_are_learnt() {
    let full = "\"ts\":1767225600000,\"at\":1767225600000,\"p\":\"a\"";
    let lines = [
        format!("{{{full},\"n\":1,\"m\":1.5,\"d\":2,\"t\":\"x\",\"b\":true}}"),
        format!("{{\"b\":true,\"n\":1,{full}}}"),
        format!("{{ \"n\": 1, {full} }}"),
        format!("{{{full},\"n\" : 1}}"),
        format!("{{{full}}}"),
    ];
    let text: String = (0..10).flat_map(|_| lines.iter().map(|line| format!("{line}\n"))).collect();
    // A space before the brace is not for this way; each other line is learnt once.
    assert!(json_both_ways(text.as_bytes(), 1 << 20, 1 << 20, None) >= 10 * 4 - 8);
}

#[test]
fn another_null_text_and_unlikely_delimiters() {
    let (n, ts) = ("-999", "2026-01-01 00:00:00");
    for (delimiter, null) in
        [(',', "-999"), (';', "-9"), ('\t', "2026-01-01 00:00:00"), (' ', ""), ('-', ""), ('0', ""), (',', "a,b")]
    {
        let record = [ts, "1767225600000", "x", n, "1.00", "-999.5", "-999", "true"].join(&delimiter.to_string());
        let options = CsvOptions { delimiter: delimiter as u8, null: null.to_owned(), header: false };
        csv_both_ways(format!("{record}\n").repeat(20).as_bytes(), &options, 1 << 20, 1 << 20);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn json_is_judged_alike_on_both_ways(
        records in proptest::collection::vec(json_record(), 1..24),
        (changes, cut) in changes(),
        max in prop_oneof![4 => Just(1usize << 20), 1 => 100usize..300],
        limit in prop_oneof![Just(1usize << 20), 1usize..2_000],
        future_us in select(vec![None, Some(0), Some(86_400_000_000)]),
    ) {
        json_both_ways(&mutated(records.concat().into_bytes(), &changes, cut), max, limit, future_us);
    }

    #[test]
    fn csv_is_judged_alike_on_both_ways(
        (delimiter, records) in select(vec![',', ';', '\t']).prop_flat_map(|d| (Just(d), proptest::collection::vec(csv_record(d), 1..24))),
        (changes, cut) in changes(),
        null in select(vec!["", "7", "true", "NULL"]),
        max in prop_oneof![4 => Just(1usize << 20), 1 => 60usize..200],
        limit in prop_oneof![Just(1usize << 20), 1usize..2_000],
    ) {
        let options = CsvOptions { delimiter: delimiter as u8, null: null.to_owned(), header: true };
        let header = USUAL.map(|(key, _)| key).join(&delimiter.to_string());
        let text = mutated(records.concat().into_bytes(), &changes, cut);
        csv_both_ways(&[header.as_bytes(), b"\n", &text].concat(), &options, max, limit);
    }
}
