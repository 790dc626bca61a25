//! Whole sources: what is read does not depend on block size, compression, sharing, or how input arrives.

use super::files::FileSource;
use super::*;
use crate::plan::{ColumnPlan, CsvOptions, LateRecords, LatenessScope, OnError};
use crate::types::{DataType, Value};
use proptest::prelude::*;
use std::io::{Read, Write};
use std::path::Path;

fn csv_options() -> CsvOptions {
    CsvOptions { delimiter: b',', null: String::new(), header: true }
}

/// A table of `columns`, named and typed, over a file; event time `ts` if there is such a column, and `at`, `p` alike.
pub(super) fn table(path: &str, format: Format, columns: &[(&str, DataType)]) -> TablePlan {
    let find = |name: &str| columns.iter().position(|(column, _)| *column == name);
    TablePlan {
        name: "t".to_owned(),
        columns: columns
            .iter()
            .map(|(name, dtype)| ColumnPlan {
                name: (*name).to_owned(),
                path: name.split('.').map(str::to_owned).collect(),
                dtype: dtype.clone(),
            })
            .collect(),
        event_time: find("ts"),
        watermark: None,
        delay_us: Some(0),
        arrival_time: find("at"),
        partition: find("p"),
        partitions: Vec::new(),
        scope: LatenessScope::Partition,
        idle_timeout_us: None,
        granularity_us: 1_000_000,
        tick_us: 1_000_000,
        max_future_us: None,
        late_records: LateRecords::Window,
        on_error: OnError::Reject,
        rejects: None,
        time_unit_us: 1_000,
        source: SourcePlan::File { path: path.to_owned(), format },
    }
}

fn simple(path: &str, format: Format) -> TablePlan {
    table(path, format, &[("ts", DataType::Timestamp), ("key", DataType::Text)])
}

fn all_columns(table: &TablePlan) -> BTreeSet<usize> {
    (0..table.columns.len()).collect()
}

/// A record as it came out, accepted or not.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    lane: usize,
    file: u32,
    /// From 1 in its lane.
    pub(super) position: u64,
    /// From 1 in its file.
    file_line: u64,
    raw: Vec<u8>,
    pub(super) rejected: Option<(RejectReason, String)>,
    pub(super) event_time_us: Option<i64>,
    arrived_us: Option<i64>,
    partition: Option<String>,
    pub(super) values: Vec<Option<Value>>,
    pub(super) errors: Vec<(u32, String)>,
}

/// Joins the blocks of a lane, in order of their indexes, and checks what must hold of every block.
fn join(lane: usize, mut blocks: Vec<DecodedBlock>) -> Vec<Seen> {
    blocks.sort_by_key(|block| block.index);
    let (mut position, mut file_line, mut file) = (1, 1, 0);
    let mut out = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        assert_eq!((block.index, block.lane), (index as u64, lane as u32), "blocks are numbered without holes");
        assert_eq!(block.last, index + 1 == blocks.len(), "only the last block is the last");
        assert_eq!(block.starts_file, index == 0 || block.file != file, "a file starts once");
        if block.starts_file {
            file_line = 1;
            file = block.file;
        }
        assert_eq!(block.line.len(), block.rows);
        assert!(block.span.len() == block.rows || block.span.is_empty() && block.bytes.is_empty());
        assert!(block.errors.is_sorted(), "errors are in order");
        let name = |id: u32| block.partition_names[id as usize].clone();
        let mut rejects = block.rejects.iter().peekable();
        for row in 0..=block.rows {
            while let Some(reject) = rejects.next_if(|reject| reject.rows_before as usize == row) {
                out.push(Seen {
                    lane,
                    file,
                    position: position + u64::from(reject.line),
                    file_line: file_line + u64::from(reject.line),
                    raw: block.bytes[reject.span.0 as usize..reject.span.1 as usize].to_vec(),
                    rejected: Some((reject.reason, reject.detail.clone())),
                    event_time_us: None,
                    arrived_us: reject.arrived_us,
                    partition: reject.partition.map(name),
                    values: Vec::new(),
                    errors: Vec::new(),
                });
            }
            if row == block.rows {
                break;
            }
            out.push(Seen {
                lane,
                file,
                position: position + u64::from(block.line[row]),
                file_line: file_line + u64::from(block.line[row]),
                raw: block
                    .span
                    .get(row)
                    .map_or(Vec::new(), |span| block.bytes[span.0 as usize..span.1 as usize].to_vec()),
                rejected: None,
                event_time_us: block.event_time_us.get(row).copied(),
                arrived_us: block.arrived_us.as_ref().map(|v| v[row]),
                partition: block.partition.as_ref().map(|v| name(v[row])),
                values: block.columns.iter().map(|c| c.as_ref().map(|c| c.value(row))).collect(),
                errors: block.errors.iter().filter(|e| e.0 as usize == row).map(|e| (e.1, e.2.clone())).collect(),
            });
        }
        assert!(rejects.next().is_none(), "rejects are in order");
        position += block.lines;
        file_line += block.lines;
    }
    assert!(out.is_sorted_by_key(|seen| seen.position), "records are in order");
    out
}

/// All blocks of a reader, and the error it ends with if it does.
fn drain(mut reader: Box<dyn LaneReader>) -> (Vec<DecodedBlock>, Option<Error>) {
    let mut blocks = Vec::new();
    loop {
        match reader.next_block() {
            Ok(Next::Block(block)) => blocks.push(*block),
            Ok(Next::Pending) => std::thread::yield_now(),
            Ok(Next::End) => return (blocks, None),
            Err(error) => return (blocks, Some(error)),
        }
        reader.suspend();
    }
}

fn read_source(source: &dyn Source, shares: u64) -> Vec<Seen> {
    let mut out = Vec::new();
    for (lane, info) in source.lanes().iter().enumerate() {
        let shares = if info.splittable { shares } else { 1 };
        let mut blocks = Vec::new();
        for share in 0..shares {
            let (mut some, error) = drain(source.open(lane, share, shares));
            assert!(error.is_none(), "{error:?}");
            assert!(some.iter().all(|block| block.index % shares == share), "a share is its own blocks");
            assert!(some.is_sorted_by_key(|block| block.index));
            blocks.append(&mut some);
        }
        out.extend(join(lane, blocks));
    }
    out
}

pub(super) fn read(table: &TablePlan, block_bytes: usize) -> Vec<Seen> {
    let source =
        open(table, &all_columns(table), &SourceOptions { block_bytes, workers: 1 }).expect("the source opens");
    read_source(&*source, 1)
}

fn write(directory: &Path, name: &str, bytes: &[u8]) -> String {
    let path = directory.join(name);
    std::fs::write(&path, bytes).expect("a file can be written");
    path.to_str().expect("a plain path").to_owned()
}

pub(super) fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory can be made")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).expect("in memory");
    out.finish().expect("in memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("in memory")
}

/// Reads text as one file of the format, in every way there is, and checks that all agree.
fn read_everywhere(text: &[u8], format: &Format, columns: &[(&str, DataType)]) -> Vec<Seen> {
    let directory = temporary();
    let half = text.len() / 2;
    let plain = write(directory.path(), "f.txt", text);
    let gz = write(directory.path(), "f.gz", &[gzip(&text[..half]), gzip(&text[half..]), gzip(b"")].concat());
    let zst = write(directory.path(), "f.zst", &[zstd(&text[..half]), zstd(&text[half..])].concat());
    let expected = read(&table(&plain, format.clone(), columns), 1 << 20);
    for block_bytes in [1, 2, 3, 7, 64, text.len().max(1)] {
        for path in [&plain, &gz, &zst] {
            let table = table(path, format.clone(), columns);
            assert_eq!(read(&table, block_bytes), expected, "{path} in blocks of {block_bytes}");
        }
        let table = table(&plain, format.clone(), columns);
        let options = SourceOptions { block_bytes, workers: 3 };
        let source = open(&table, &all_columns(&table), &options).expect("the source opens");
        assert_eq!(read_source(&*source, 3), expected, "shared among 3 in blocks of {block_bytes}");
        let input = Box::new(Trickle { bytes: text.to_vec(), at: 0, piece: block_bytes });
        let live = open_reader(&table, format, input, &all_columns(&table), &options).expect("the source opens");
        assert_eq!(read_source(&*live, 1), expected, "live in pieces of {block_bytes}");
    }
    expected
}

/// Gives its bytes in small pieces.
struct Trickle {
    bytes: Vec<u8>,
    at: usize,
    piece: usize,
}

impl Read for Trickle {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.piece.min(out.len()).min(self.bytes.len() - self.at);
        out[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

fn reasons(seen: &[Seen]) -> Vec<(u64, Option<RejectReason>)> {
    seen.iter().map(|s| (s.position, s.rejected.as_ref().map(|r| r.0))).collect()
}

fn details(seen: &[Seen]) -> Vec<&str> {
    seen.iter().filter_map(|s| s.rejected.as_ref().map(|r| &*r.1)).collect()
}

const KEYED: &[(&str, DataType)] = &[("ts", DataType::Timestamp), ("key", DataType::Text)];

#[test]
fn csv_with_mark_crlf_blank_line_and_no_last_line_end() {
    // Case 082, after https://github.com/johnkerl/miller/issues/138
    let text = b"\xef\xbb\xbfts,key,value\r\n5,a,1\r\n15,a,2\r\n\r\n25,a,3";
    let columns = [("ts", DataType::Timestamp), ("key", DataType::Text), ("value", DataType::BigInt)];
    let seen = read_everywhere(text, &Format::Csv(csv_options()), &columns);
    let times: Vec<_> = seen.iter().map(|s| (s.position, s.event_time_us, s.values[2].clone())).collect();
    assert_eq!(
        times,
        [
            (2, Some(5_000), Some(Value::BigInt(1))),
            (3, Some(15_000), Some(Value::BigInt(2))),
            (5, Some(25_000), Some(Value::BigInt(3)))
        ]
    );
    assert_eq!(seen[1].raw, b"15,a,2");
}

#[test]
fn ndjson_with_mark_crlf_blank_lines_and_no_last_line_end() {
    let text = b"\xef\xbb\xbf{\"ts\":5,\"key\":\"a\"}\r\n\r\n  \t\r\n{\"ts\":15,\"key\":\"b\"}";
    let seen = read_everywhere(text, &Format::Json, KEYED);
    assert_eq!(reasons(&seen), [(1, None), (4, None)]);
    assert_eq!(seen[0].raw, b"{\"ts\":5,\"key\":\"a\"}");
}

#[test]
fn gzip_with_several_members_and_cut_short() {
    // Case 083, after https://github.com/scverse/rustar-aligner/pull/219
    let directory = temporary();
    let whole =
        [gzip(b"{\"ts\":1,\"key\":\"a\"}\n{\"ts\""), gzip(b":2,\"key\":\"a\"}\n{\"ts\":3,\"key\":\"a\"}\n"), gzip(b"")]
            .concat();
    let path = write(directory.path(), "a.ndjson.gz", &whole);
    let source = open(&simple(&path, Format::Json), &BTreeSet::new(), &SourceOptions::default()).expect("opens");
    assert!(!source.lanes()[0].splittable);
    let (blocks, error) = drain(source.open(0, 0, 1));
    assert!(error.is_none());
    assert_eq!(blocks.iter().map(|b| b.input_bytes).sum::<u64>(), whole.len() as u64);
    assert_eq!(join(0, blocks).len(), 3);
    let long: String = (0..20_000).map(|n| format!("{{\"ts\":{n},\"key\":\"{}\"}}\n", n * 7_919)).collect();
    for (name, bytes) in [("t.gz", gzip(long.as_bytes())), ("t.zst", zstd(long.as_bytes()))] {
        for (cut, at_least) in [(4, 10_000), (bytes.len() / 2, 1)] {
            let path = write(directory.path(), name, &bytes[..bytes.len() - cut]);
            let table = simple(&path, Format::Json);
            let source =
                open(&table, &BTreeSet::new(), &SourceOptions { block_bytes: 10_000, workers: 1 }).expect("opens");
            let (blocks, error) = drain(source.open(0, 0, 1));
            let error = error.expect("cut short").to_string();
            assert!(error.starts_with(&format!("{path}: truncated ")), "{error}");
            assert!(blocks.iter().all(|block| !block.last && block.rejects.is_empty()));
            let times: Vec<i64> = blocks.iter().flat_map(|block| block.event_time_us.clone()).collect();
            assert!(times.len() >= at_least, "{name}: {} records before the break", times.len());
            assert!(times.iter().enumerate().all(|(n, us)| *us == n as i64 * 1_000));
        }
    }
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
fn leap_seconds_are_clamped_where_they_can_be() {
    // Case 087, after https://github.com/time-rs/time/issues/404
    let text = b"ts,key\n2015-06-30T23:59:59.7Z,a\n2015-06-30T23:59:60Z,a\n2012-06-30T16:59:60-07:00,b\n\
        2015-06-30T23:30:60Z,c\n2015-07-01T00:00:00Z,a\n";
    let seen = read_everywhere(text, &Format::Csv(csv_options()), KEYED);
    let times: Vec<_> = seen.iter().map(|s| s.event_time_us).collect();
    assert_eq!(
        times,
        [
            Some(1_435_708_799_700_000),
            Some(1_435_708_799_999_999),
            Some(1_341_100_799_999_999),
            None,
            Some(1_435_708_800_000_000)
        ]
    );
    assert_eq!(details(&seen), ["expected a timestamp in column \"ts\", found \"2015-06-30T23:30:60Z\""]);
}

#[test]
fn fine_digits_are_floored() {
    // Case 088, after https://github.com/bytewax/bytewax/pull/416
    let text = b"ts,key\n2024-01-01T09:59:59.9999995Z,a\n2024-01-01T09:59:59.999999999Z,a\n\
        2024-01-01T10:00:00.0000001Z,a\n1969-12-31T23:59:59.9999999Z,b\n";
    let seen = read_everywhere(text, &Format::Csv(csv_options()), KEYED);
    let times: Vec<_> = seen.iter().filter_map(|s| s.event_time_us).collect();
    assert_eq!(times, [1_704_103_199_999_999, 1_704_103_199_999_999, 1_704_103_200_000_000, -1]);
}

#[test]
fn event_times_out_of_range_are_rejects() {
    // Case 048, after https://github.com/pinpoint-apm/pinpoint/issues/7635
    let text = b"{\"ts\":9223372036854775807}\n{\"ts\":-9223372036854775808}\n{\"ts\":253402300800000}\n\
        {\"ts\":\"+010000-01-01T00:00:00Z\"}\n{\"ts\":1e400}\n{\"ts\":5}\n{\"ts\":\"-009999-01-01\"}\n";
    let seen = read_everywhere(text, &Format::Json, KEYED);
    let range = Some(RejectReason::Range);
    assert_eq!(reasons(&seen), [(1, range), (2, range), (3, range), (4, range), (5, range), (6, None), (7, None)]);
    assert_eq!(
        details(&seen)[0],
        "expected a time within the years -9999 to 9999 in column \"ts\", found 9223372036854775807"
    );
}

#[test]
fn nan_and_decimals_are_read_as_they_are() {
    // Cases 072 and 074.
    let columns = [
        ("ts", DataType::Timestamp),
        ("x", DataType::Double),
        ("m", DataType::Decimal { precision: 12, scale: 2 }),
        ("n", DataType::BigInt),
    ];
    let text = b"ts,x,m,n\n1,NaN,0.1,9007199254740993\n2,1e5,-1.10,\n3,abc,0.001,9223372036854775808\n";
    let seen = read_everywhere(text, &Format::Csv(csv_options()), &columns);
    assert_eq!(
        seen[0].values[1..],
        [Some(Value::Double(f64::NAN)), Some(Value::Decimal(10, 2)), Some(Value::BigInt(9_007_199_254_740_993))]
    );
    assert_eq!(seen[1].values[1..], [Some(Value::Double(1e5)), Some(Value::Decimal(-110, 2)), Some(Value::Null)]);
    assert_eq!(seen[2].values[1..], [Some(Value::Null), Some(Value::Null), Some(Value::Null)]);
    let messages: Vec<&str> = seen[2].errors.iter().map(|e| &*e.1).collect();
    assert_eq!(
        messages,
        [
            "expected a value of DOUBLE in column \"x\", found \"abc\"",
            "expected a value of DECIMAL(12,2) in column \"m\", found \"0.001\"",
            "expected a value of BIGINT in column \"n\", found \"9223372036854775808\"",
        ]
    );
}

#[test]
fn the_checks_of_the_table_come_in_order() {
    let columns =
        [("ts", DataType::Timestamp), ("at", DataType::Timestamp), ("p", DataType::Text), ("v", DataType::BigInt)];
    let text = br#"{"ts":1,"at":10,"p":"a","v":1}
{"at":20,"p":"b"}
{"ts":null,"p":"a","at":"x"}
{"ts":"soon","at":30}
{"ts":4,"p":"a"}
{"ts":5,"at":50}
{"ts":1e300,"at":60,"p":null}
{"ts":1e300,"at":70,"p":"a"}
{"ts":1200,"at":100,"p":"c","v":"x"}
{"ts":1101,"at":100,"p":"c","v":[1]}
{"ts":9,"at":10,"p":"c","v":1.5}
"#;
    let directory = temporary();
    let mut table = table(&write(directory.path(), "f", text), Format::Json, &columns);
    table.max_future_us = Some(1_000_000);
    use RejectReason::{ArrivalTime, EventTime, Future, Partition, Range};
    let seen = read(&table, 1 << 20);
    assert_eq!(
        reasons(&seen).into_iter().map(|r| r.1).collect::<Vec<_>>(),
        [
            None,
            Some(EventTime),
            Some(EventTime),
            Some(EventTime),
            Some(ArrivalTime),
            Some(Partition),
            Some(Partition),
            Some(Range),
            Some(Future),
            Some(Future),
            None
        ]
    );
    let known: Vec<_> = seen.iter().map(|s| (s.arrived_us, s.partition.as_deref())).collect();
    assert_eq!(
        known[1..8],
        [
            (Some(20_000), Some("b")),
            (None, Some("a")),
            (Some(30_000), None),
            (None, Some("a")),
            (Some(50_000), None),
            (Some(60_000), None),
            (Some(70_000), Some("a"))
        ]
    );
    assert_eq!(
        details(&seen),
        [
            "expected a timestamp in column \"ts\", found nothing",
            "expected a timestamp in column \"ts\", found null",
            "expected a timestamp in column \"ts\", found \"soon\"",
            "expected a timestamp in column \"at\", found nothing",
            "expected a text in column \"p\", found nothing",
            "expected a text in column \"p\", found null",
            "expected a time within the years -9999 to 9999 in column \"ts\", found 1e300",
            "expected an event at most 1s ahead of its arrival at 1970-01-01T00:00:00.100Z, found 1970-01-01T00:00:01.200Z",
            "expected an event at most 1s ahead of its arrival at 1970-01-01T00:00:00.100Z, found 1970-01-01T00:00:01.101Z",
        ]
    );
    // Rejects of the table do not depend on what is asked for.
    let source = open(&table, &BTreeSet::new(), &SourceOptions::default()).expect("opens");
    let nothing = read_source(&*source, 1);
    assert_eq!(reasons(&nothing), reasons(&seen));
    assert!(nothing.iter().all(|s| s.errors.is_empty() && s.values.iter().all(Option::is_none)));
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

#[test]
fn quoted_csv() {
    let columns = [("ts", DataType::Timestamp), ("key", DataType::Text), ("n", DataType::BigInt)];
    let text = b"key;skipped;\"n\";ts\n\"a;\nb\";x;1;1\n\"say \"\"hi\"\"\";;\"2\";2\r\n;\"\"; 3 ;3\n\"\";;NA;4\nNA;;\"NA\";5\n\
        5\" pipe;;6;6\n\"bad\"x;;1;7\nfew;7\nmany;;;8;8\nlast;;9;9";
    let options = CsvOptions { delimiter: b';', null: "NA".to_owned(), header: true };
    let seen = read_everywhere(text, &Format::Csv(options), &columns);
    let keys: Vec<_> = seen.iter().map(|s| (s.position, s.values.get(1).cloned().flatten())).collect();
    let text = |s: &str| Some(Value::Text(s.into()));
    assert_eq!(
        keys,
        [
            (2, text("a;\nb")),
            (4, text("say \"hi\"")),
            (5, text("")),
            (6, text("")),
            (7, Some(Value::Null)),
            (8, text("5\" pipe")),
            (9, None),
            (10, None),
            (11, None),
            (12, text("last"))
        ]
    );
    assert_eq!(seen[3].values[2], Some(Value::Null));
    assert_eq!(seen[4].errors.len(), 1, "a quoted null text is a text, and no number");
    assert_eq!(
        details(&seen),
        [
            "expected a delimiter behind a closing quote, found other text at byte 6 of the record",
            "expected 4 fields, found 2",
            "expected 4 fields, found 5"
        ]
    );
    assert_eq!(seen[0].raw, b"\"a;\nb\";x;1;1");
    assert_eq!(seen[1].raw, b"\"say \"\"hi\"\"\";;\"2\";2");
}

#[test]
fn csv_without_header_goes_by_place() {
    let options = CsvOptions { header: false, ..csv_options() };
    let seen = read_everywhere(b"1,a\n2,b,c\n3,d\n", &Format::Csv(options), KEYED);
    assert_eq!(reasons(&seen), [(1, None), (2, Some(RejectReason::Syntax)), (3, None)]);
    assert_eq!(seen[2].values[1], Some(Value::Text("d".into())));
}

#[test]
fn an_unclosed_quote_costs_one_line() {
    let seen = read_everywhere(b"ts,key\n1,a\n2,\"b\n3,c\n4,d\n", &Format::Csv(csv_options()), KEYED);
    assert_eq!(reasons(&seen), [(2, None), (3, Some(RejectReason::Syntax)), (4, None), (5, None)]);
    assert_eq!(seen[1].raw, b"2,\"b");
}

#[test]
fn records_that_are_too_long_are_rejects_of_bounded_size() {
    let directory = temporary();
    let long = "x".repeat(300);
    let json = format!(
        "{{\"ts\":1,\"key\":\"a\"}}\n{{\"ts\":2,\"key\":\"{long}\"}}\n{{\"ts\":3,\"key\":\"c\"}}\r\n\n{{\"ts\":4,\"key\":\"{long}\"}}"
    );
    // One byte of room, and a record that is just as long as may be.
    let edge =
        format!("{{\"ts\":1,\"key\":\"{}\"}}\r\n{{\"ts\":2,\"key\":\"{}\"}}\r\n", "e".repeat(83), "e".repeat(84));
    let csv = format!("ts,key\n1,a\n2,{long}\n3,\"c\n{long}\"\n4,d\n5,\"{long}\"x\n6,\"{long}\n7,e\n8,\"{long}");
    for (text, format) in [(json, Format::Json), (edge, Format::Json), (csv, Format::Csv(csv_options()))] {
        let path = write(directory.path(), "f", text.as_bytes());
        let gz = write(directory.path(), "f.gz", &gzip(text.as_bytes()));
        let read = |path: &str, block_bytes, shares| {
            let table = simple(path, format.clone());
            let plan = decode::DecodePlan::new(&table, &all_columns(&table));
            let options = SourceOptions { block_bytes, workers: 1 };
            let mut source = FileSource::open(&table, (path, &format), plan, &options).expect("opens");
            source.limit_records(100);
            read_source(&source, shares)
        };
        let expected = read(&path, 1 << 20, 1);
        assert!(expected.iter().all(|s| s.raw.len() <= 102));
        for block_bytes in [1, 2, 50, 99, 100, 101, 102, 150, 299, 300, 400, 1_000] {
            for path in [&path, &gz] {
                for shares in [1, 2] {
                    assert_eq!(read(path, block_bytes, shares), expected, "{path} in blocks of {block_bytes}");
                }
            }
        }
        let syntax = Some(RejectReason::Syntax);
        let found = reasons(&expected);
        match (&format, expected.len()) {
            (Format::Json, 4) => assert_eq!(found, [(1, None), (2, syntax), (3, None), (5, syntax)]),
            (Format::Json, _) => assert_eq!(found, [(1, None), (2, syntax)]),
            _ => {
                let lines = [
                    (2, None),
                    (3, syntax),
                    (4, syntax),
                    (5, syntax),
                    (6, None),
                    (7, syntax),
                    (8, syntax),
                    (9, None),
                    (10, syntax),
                ];
                assert_eq!(found, lines);
            }
        }
    }
}

#[test]
fn a_line_longer_than_16_mib_is_one_reject() {
    let mut text = b"{\"ts\":1,\"key\":\"a\"}\n{\"ts\":2,\"key\":\"".to_vec();
    text.resize(text.len() + (17 << 20), b'x');
    text.extend_from_slice(b"\"}\n{\"ts\":3,\"key\":\"c\"}\n");
    let directory = temporary();
    for (name, bytes) in [("f", text.clone()), ("f.zst", zstd(&text))] {
        let path = write(directory.path(), name, &bytes);
        let seen = read(&simple(&path, Format::Json), 1 << 20);
        assert_eq!(reasons(&seen), [(1, None), (2, Some(RejectReason::Syntax)), (3, None)]);
        assert_eq!(details(&seen), ["expected a record of at most 16 MiB, found a longer one"]);
    }
}

#[test]
fn files_stand_in_bytewise_order_and_a_partition_column_makes_one_lane() {
    let directory = temporary();
    let columns = [("ts", DataType::Timestamp), ("p", DataType::Text)];
    write(directory.path(), "b.json", b"{\"ts\":1,\"p\":\"x\"}\n\n{\"ts\":2,\"p\":\"y\"}");
    write(directory.path(), "B.json", b"{\"ts\":3,\"p\":\"x\"}\n");
    write(directory.path(), "c.json", b"");
    std::fs::create_dir(directory.path().join("d.json")).expect("a directory can be made");
    let pattern = format!("{}/*.json", directory.path().display());
    let mut one = table(&pattern, Format::Json, &columns);
    for block_bytes in [1, 10, 1 << 20] {
        let seen = read(&one, block_bytes);
        let places: Vec<_> = seen.iter().map(|s| (s.file, s.position, s.file_line, s.event_time_us)).collect();
        assert_eq!(places, [(0, 1, 1, Some(3_000)), (1, 2, 1, Some(1_000)), (1, 4, 3, Some(2_000))]);
    }
    write(directory.path(), "a.json.gz", &gzip(b"{\"ts\":0,\"p\":\"z\"}"));
    one.source = SourcePlan::File { path: format!("{}/*.json*", directory.path().display()), format: Format::Json };
    for block_bytes in [1, 10, 1 << 20] {
        let seen = read(&one, block_bytes);
        let places: Vec<_> = seen.iter().map(|s| (s.file, s.position, s.partition.as_deref())).collect();
        assert_eq!(places, [(0, 1, Some("x")), (1, 2, Some("z")), (2, 3, Some("x")), (2, 5, Some("y"))]);
    }
    one.partition = None;
    let source = open(&one, &BTreeSet::new(), &SourceOptions::default()).expect("opens");
    let names: Vec<_> = source.lanes().iter().map(|lane| lane.name.rsplit('/').next().unwrap_or_default()).collect();
    assert_eq!(names, ["B.json", "a.json.gz", "b.json", "c.json"]);
    let (blocks, _) = drain(source.open(3, 0, 1));
    assert_eq!(blocks.len(), 1, "an empty file is one empty block");
    assert!(blocks[0].last && blocks[0].starts_file && blocks[0].rows == 0 && blocks[0].lines == 0);
}

#[test]
fn empty_inputs_are_one_empty_block() {
    for format in [Format::Json, Format::Csv(csv_options())] {
        for text in [&b""[..], b"\xef\xbb\xbf", b"\n", b"\r\n\r\n"] {
            assert_eq!(read_everywhere(text, &format, KEYED), []);
        }
    }
    assert_eq!(read_everywhere(b"ts,key\n", &Format::Csv(csv_options()), KEYED), []);
    let directory = temporary();
    for name in ["e.gz", "e.zst"] {
        assert_eq!(read(&simple(&write(directory.path(), name, b""), Format::Json), 100), []);
    }
}

#[test]
fn what_cannot_be_opened_says_why() {
    let directory = temporary();
    let error = |path: &str, format: Format| {
        let table = simple(path, format);
        let error = open(&table, &BTreeSet::new(), &SourceOptions::default()).err().expect("an error");
        (
            error.to_string().replace(&directory.path().display().to_string(), "DIR"),
            error.hint().unwrap_or("").to_owned(),
        )
    };
    let dir = directory.path().display().to_string();
    let (message, hint) = error(&format!("{dir}/missing.ndjson"), Format::Json);
    assert_eq!(message, "DIR/missing.ndjson: expected a file, found nothing");
    assert!(hint.starts_with("paths are relative to "));
    assert_eq!(error(&dir, Format::Json).0, "DIR: expected a file, found a directory");
    assert_eq!(error(&format!("{dir}/*.x"), Format::Json).0, "expected files like \"DIR/*.x\", found none");
    assert!(error(&format!("{dir}/***"), Format::Json).0.contains("is no pattern of paths"));
    let csv = write(directory.path(), "h.csv", b"Key,\"t s\",ts\n");
    let (message, hint) = error(&csv, Format::Csv(csv_options()));
    assert_eq!(message, "DIR/h.csv: expected a column \"key\" in the header, found none");
    assert_eq!(
        hint,
        "the header has \"Key\", \"t s\", \"ts\"; to keep capitals, declare the column as \"Key\", in quotes"
    );
    let twice = write(directory.path(), "i.csv", b"key,ts,key\n");
    assert!(error(&twice, Format::Csv(csv_options())).0.contains("expected one column \"key\""));
    // The same where only the reader can find out.
    let table = simple("-", Format::Json);
    let format = Format::Csv(csv_options());
    let input = Box::new(std::io::Cursor::new(b"a,b\n1,2\n".to_vec()));
    let source = open_reader(&table, &format, input, &BTreeSet::new(), &SourceOptions::default()).expect("opens");
    let (_, error) = drain(source.open(0, 0, 1));
    assert_eq!(error.expect("an error").to_string(), "stdin: expected a column \"ts\" in the header, found none");
    assert!(drain(source.open(0, 0, 1)).1.is_some(), "a second reader of standard input");
    if cfg!(not(feature = "parquet")) {
        let table = simple("x.parquet", Format::Parquet);
        assert!(open(&table, &BTreeSet::new(), &SourceOptions::default()).is_err());
    }
}

#[test]
fn a_file_counts_with_the_size_it_had() {
    let directory = temporary();
    for (name, format, text) in [
        ("g.json", Format::Json, &b"{\"ts\":1}\n{\"ts\":2}\n"[..]),
        ("g.csv", Format::Csv(csv_options()), b"ts,key\n1,a\n2,b\n"),
    ] {
        let path = write(directory.path(), name, text);
        let options = SourceOptions { block_bytes: 10, workers: 1 };
        let source = open(&simple(&path, format.clone()), &BTreeSet::new(), &options).expect("opens");
        let grown = [text, b"more\n"].concat();
        write(directory.path(), name, &grown);
        assert_eq!(read_source(&*source, 1).len(), 2);
        write(directory.path(), name, &text[..5]);
        let (_, error) = drain(source.open(0, 0, 1));
        assert!(error.expect("an error").to_string().contains("the file has become shorter"));
    }
}

#[test]
fn a_live_input_hands_over_complete_records_and_then_waits() {
    let (sender, receiver) = std::sync::mpsc::channel::<Vec<u8>>();
    struct Pipe(std::sync::mpsc::Receiver<Vec<u8>>, Vec<u8>);
    impl Read for Pipe {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            if self.1.is_empty() {
                self.1 = self.0.recv().unwrap_or_default();
            }
            let n = out.len().min(self.1.len());
            out[..n].copy_from_slice(&self.1[..n]);
            self.1.drain(..n);
            Ok(n)
        }
    }
    let table = simple("-", Format::Json);
    let input = Box::new(Pipe(receiver, Vec::new()));
    let source = open_reader(&table, &Format::Json, input, &BTreeSet::new(), &SourceOptions::default()).expect("opens");
    let mut reader = source.open(0, 0, 1);
    assert!(matches!(reader.next_block(), Ok(Next::Pending)));
    sender.send(b"{\"ts\":1}\n{\"ts\"".to_vec()).expect("sent");
    let wait = |reader: &mut Box<dyn LaneReader>| loop {
        match reader.next_block().expect("reads") {
            Next::Block(block) => return block,
            Next::Pending => std::thread::yield_now(),
            Next::End => panic!("it has not ended"),
        }
    };
    let block = wait(&mut reader);
    assert_eq!((block.rows, block.last), (1, false));
    assert!(matches!(reader.next_block(), Ok(Next::Pending)), "half a record is not handed over");
    sender.send(b":2}\n{\"ts\":3}".to_vec()).expect("sent");
    let block = wait(&mut reader);
    assert_eq!((block.rows, block.line[0], block.index), (1, 0, 1));
    drop(sender);
    let block = wait(&mut reader);
    assert_eq!((block.rows, block.last), (1, true));
    assert!(matches!(reader.next_block(), Ok(Next::End)));
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

    #[test]
    fn csv_reads_alike_in_all_ways(text in "(([0-9]{1,2}|\"[0-9]\"|),(a|\"b\nc\"|\"\"\"\"|x\"y|\"|é)?(\n|\r\n|\n\n)){0,8}") {
        let text = format!("ts,key\n{text}");
        read_everywhere(text.as_bytes(), &Format::Csv(csv_options()), KEYED);
    }

    #[test]
    fn sound_csv_reads_as_csv_core_does(rows in proptest::collection::vec(("[0-9]{1,3}", "[a-z\"\n\r,;é ]{0,8}"), 0..10)) {
        let mut text = "ts,key\n".to_owned();
        for (ts, key) in &rows {
            text.push_str(&format!("{ts},\"{}\"\r\n", key.replace('"', "\"\"")));
        }
        let seen = read_everywhere(text.as_bytes(), &Format::Csv(csv_options()), KEYED);
        let keys: Vec<_> = seen.iter().map(|s| s.values[1].clone()).collect();
        let theirs = csv_core_records(text.as_bytes());
        let expected: Vec<_> = theirs.iter().skip(1).map(|record| Some(Value::Text(record[1].as_str().into()))).collect();
        prop_assert_eq!(keys, expected);
        prop_assert_eq!(rows.len() + 1, theirs.len());
    }
}

/// Records as another reader of CSV sees them.
fn csv_core_records(text: &[u8]) -> Vec<Vec<String>> {
    let mut reader = csv_core::ReaderBuilder::new().terminator(csv_core::Terminator::CRLF).build();
    let (mut records, mut rest) = (Vec::new(), text);
    let (mut output, mut ends) = (vec![0; text.len() + 1], [0; 10]);
    loop {
        let (mut written, mut fields) = (0, 0);
        loop {
            let (result, read, wrote, ended) = reader.read_record(rest, &mut output[written..], &mut ends[fields..]);
            rest = &rest[read..];
            written += wrote;
            fields += ended;
            match result {
                csv_core::ReadRecordResult::InputEmpty => {}
                csv_core::ReadRecordResult::Record => break,
                csv_core::ReadRecordResult::End => return records,
                other => panic!("{other:?}"),
            }
        }
        let mut start = 0;
        let field = |end: &usize| {
            let field = String::from_utf8(output[start..*end].to_vec()).expect("UTF-8 went in");
            start = *end;
            field
        };
        records.push(ends[..fields].iter().map(field).collect());
    }
}
