//! Bytes as they come: each is read, or rejected with file, line and reason; none is lost.

use crate::harness::{Folder, balanced};
use crate::{COUNTS, TWO, table, table_over, view};
use serde_json::{Value, json};

/// `k`, `n` and `s` of a result.
type Row = (Value, Value, Value);

/// Runs the counts over the bytes; gives (rejects as (place, reason), rows as (k, n, s)).
fn counts(name: &str, bytes: impl AsRef<[u8]>, options: &str, more: &[&str]) -> (Vec<(String, String)>, Vec<Row>) {
    let folder = Folder::with(name, bytes);
    let sql = table_over(&format!("path = '{name}'"), options) + COUNTS;
    let mut args = vec!["--rejects", "rejects.ndjson", "--summary", "summary.json"];
    args.extend(more);
    let ran = folder.sql(&sql, &args).ok();
    let text = |v: &Value| v.as_str().expect("text").to_owned();
    let rejects: Vec<_> =
        folder.rows("rejects.ndjson").iter().map(|r| (text(&r["place"]), text(&r["reason"]))).collect();
    let ledger = balanced(&folder.json("summary.json"));
    let counted: u64 = ledger["records"]["rejected"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(counted, rejects.len() as u64, "the file and the ledger agree");
    let rows = ran.rows().iter().map(|r| (r["k"].clone(), r["n"].clone(), r["s"].clone())).collect();
    (rejects, rows)
}

fn pairs(rejects: &[(String, String)]) -> Vec<(&str, &str)> {
    rejects.iter().map(|(place, reason)| (place.rsplit_once(':').expect("a line").1, reason.as_str())).collect()
}

#[test]
fn empty_inputs_give_empty_outputs() {
    let mut gzip_of_nothing = Vec::new();
    flate2::write::GzEncoder::new(&mut gzip_of_nothing, flate2::Compression::fast()).finish().unwrap();
    for (name, bytes) in [
        ("in.ndjson", &b""[..]),
        ("in.csv", b""),
        ("in.csv", b"k,v,at\n"),
        ("in.csv", b"\xef\xbb\xbfk,v,at"),
        ("in.ndjson", b"\n\r\n\n"),
        ("in.ndjson", b"\xef\xbb\xbf"),
        ("in.ndjson.gz", b""),
        ("in.ndjson.gz", &gzip_of_nothing),
        ("in.ndjson.zst", b""),
    ] {
        let (rejects, rows) = counts(name, bytes, "", &[]);
        assert!(rejects.is_empty() && rows.is_empty(), "{name} {bytes:?}: {rejects:?} {rows:?}");
        let folder = Folder::with(name, bytes);
        let sql = table_over(&format!("path = '{name}', rejects = 'r.csv'"), "")
            + &view("WITH (late = 'l.csv')")
            + "CREATE SINK a FROM v WITH (path = 'a.csv'); CREATE SINK b FROM v WITH (path = 'b.ndjson', mode = 'backfills');";
        folder.sql(&sql, &["-w", "2"]).ok();
        assert_eq!(folder.read("a.csv"), "op,watermark,revision,late_count,k,window_start,window_end,n,s\n");
        assert_eq!(folder.read("b.ndjson"), "");
        assert_eq!(folder.read("l.csv").lines().count(), 1);
        assert_eq!(folder.read("r.csv").lines().count(), 1);
    }
}

#[test]
fn lines_that_are_no_records_are_counted_and_passed() {
    let lines: Vec<&[u8]> = vec![
        b"\xef\xbb\xbf{\"k\":\"a\",\"v\":1,\"at\":1}\r",
        b"",
        b"  \t\r",
        b"  {\"k\":\"a\",\"v\":1,\"at\":1}  ",
        b"{\"k\":\"a\",\"v\":1,\"at\":1}}",
        b"{\"k\":\"a\",\"v\":1,\"at\":1} {\"k\":\"a\",\"v\":1,\"at\":1}",
        b"{\"k\":\"a\",\"v\":1,\"at\":1",
        b"{\"k\":\"a\",\"v\":1,\"at\":1,}",
        b"{\"k\":\"a\",\"v\":01,\"at\":1}",
        b"{'k':'a'}",
        b"\"text\"",
        b"[]",
        b"null",
        b"{\"k\":\"\xff\",\"v\":1,\"at\":1}",
        b"{\"k\":\"a\",\"v\":1,\"at\":1,\"other\":\"\xff\"}",
        b"{\"k\":\"a\0\",\"v\":1,\"at\":1}",
        b"\0\0",
        b"{\"k\":\"a\",\"v\":1,\"at\":1,\"other\":[1,2,}",
        b"{\"k\":\"\\ud800\",\"v\":1,\"at\":1}",
        b"{\"k\":\"a\",\"v\":1,\"at\":1}",
    ];
    for block in ["1", "64", "1048576"] {
        let (rejects, rows) = counts("in.ndjson", lines.join(&b"\n"[..]), "", &["--block-bytes", block, "-w", "2"]);
        assert_eq!(
            pairs(&rejects),
            [
                ("5", "syntax"),
                ("6", "syntax"),
                ("7", "syntax"),
                ("8", "syntax"),
                ("9", "syntax"),
                ("10", "syntax"),
                ("11", "syntax"),
                ("12", "syntax"),
                ("13", "syntax"),
                ("14", "encoding"),
                ("15", "encoding"),
                ("16", "syntax"),
                ("17", "syntax"),
                ("18", "syntax"),
                // Well-formed JSON, but half a surrogate pair is no text.
                ("19", "value"),
            ]
        );
        assert_eq!(rows, [(json!("a"), json!(3), json!(3))]);
    }
}

#[test]
fn event_times_that_are_none_are_rejects() {
    let times = [
        "null",
        "\"\"",
        "\"soon\"",
        "true",
        "[1]",
        "{}",
        "1.5e400",
        "\"2026-13-01\"",
        "\"2026-02-30T00:00:00Z\"",
        "\"2026-01-01T25:00:00Z\"",
        "\"2015-06-30T23:30:60Z\"",
        "9223372036854775807",
        "-9223372036854775808",
        "99999999999999999999999",
        "\"+010000-01-01T00:00:00Z\"",
    ];
    let mut lines: String = times.iter().map(|t| format!("{{\"k\":\"a\",\"at\":{t}}}\n")).collect();
    lines.push_str("{\"k\":\"a\"}\n");
    let (rejects, rows) = counts("in.ndjson", &lines, "", &[]);
    assert_eq!(rejects.len(), times.len() + 1, "{rejects:?}");
    assert!(rejects.iter().all(|(_, reason)| reason == "event_time" || reason == "range"), "{rejects:?}");
    assert!(rows.is_empty());
}

#[test]
fn one_instant_in_many_notations() {
    let times = [
        "\"2026-01-01T00:00:05Z\"",
        "\"2026-01-01T00:00:05\"",
        "\"2026-01-01 00:00:05\"",
        "\"2026-01-01T02:00:05+02:00\"",
        "\"2025-12-31T16:00:05.000000-08:00\"",
        "\"2026-01-01T05:30:05+05:30\"",
        "1767225605000",
        "1767225605000.0",
        "\"2026-01-01T00:00:05.0000009Z\"",
    ];
    let lines: String = times.iter().map(|t| format!("{{\"k\":\"a\",\"v\":1,\"at\":{t}}}\n")).collect();
    let folder = Folder::with("in.ndjson", &lines);
    let found = folder.sql(&(table("") + "SELECT at FROM t"), &[]).ok().rows();
    assert_eq!(found.len(), times.len());
    assert!(found.iter().all(|r| r["at"] == "2026-01-01T00:00:05Z"), "{found:?}");
    // 1900 and other times before 1970 are times like others.
    let (rejects, rows) =
        counts("in.ndjson", "{\"k\":\"a\",\"at\":-1}\n{\"k\":\"a\",\"at\":\"1900-01-01\"}\n", "", &[]);
    assert_eq!((rejects.len(), rows.len()), (0, 1), "the second is too late");
    let (_, rows) = counts("in.csv", "k,v,at\na,1,-1\na,1,0\n", ", time_unit = 's'", &[]);
    assert_eq!(rows.len(), 2, "floor, not truncation");
}

#[test]
fn numbers_beyond_double_precision_are_kept() {
    let values = ["9007199254740993", "9223372036854775807", "-9223372036854775808", "1e3", "1.0"];
    let lines: String = values.iter().map(|v| format!("{{\"k\":\"{v}\",\"v\":{v},\"at\":1}}\n")).collect();
    let (rejects, rows) = counts("in.ndjson", &lines, "", &[]);
    assert!(rejects.is_empty());
    let sum = |k: &str| rows.iter().find(|(key, ..)| key == k).unwrap().2.clone();
    assert_eq!(sum("9007199254740993"), json!(9_007_199_254_740_993_i64));
    assert_eq!(sum("9223372036854775807"), json!(i64::MAX));
    assert_eq!(sum("-9223372036854775808"), json!(i64::MIN));
    assert_eq!((sum("1e3"), sum("1.0")), (json!(1000), json!(1)));
    let bad = ["9223372036854775808", "1.5", "1e19", "\"x\"", "true", "[]", "1e400"];
    let lines: String = bad.iter().map(|v| format!("{{\"k\":\"a\",\"v\":{v},\"at\":1}}\n")).collect();
    let (rejects, rows) = counts("in.ndjson", &lines, "", &[]);
    assert_eq!((rejects.len(), rows.len()), (bad.len(), 0), "{rejects:?}");
    assert!(rejects.iter().all(|(_, reason)| reason == "value"));
}

#[test]
fn a_value_that_does_not_fit_has_moved_the_watermark() {
    let lines = "{\"k\":\"a\",\"v\":1,\"at\":1000}\n{\"k\":\"a\",\"v\":\"x\",\"at\":30000}\n{\"k\":\"a\",\"v\":1,\"at\":2000}\n";
    let (rejects, rows) = counts("in.ndjson", lines, "", &[]);
    assert_eq!(pairs(&rejects), [("2", "value")]);
    assert_eq!(rows, [(json!("a"), json!(1), json!(1))], "the third is too late");
    // A line that is no record moves nothing.
    let (_, rows) = counts("in.ndjson", lines.replace("\"x\",", "\"x\",,"), "", &[]);
    assert_eq!(rows, [(json!("a"), json!(2), json!(2))]);
}

#[test]
fn very_long_lines() {
    let long = "x".repeat(3 << 20);
    let lines = format!("{{\"k\":\"{long}\",\"at\":1}}\n{{\"k\":\"b\",\"at\":1}}\n");
    let (rejects, rows) = counts("in.ndjson", &lines, "", &["--block-bytes", "10000", "-w", "2"]);
    assert_eq!((rejects.len(), rows.len()), (0, 2));
    let lines = format!("{}\n{{\"k\":\"b\",\"at\":1}}\n", "x".repeat(17 << 20));
    let (rejects, rows) = counts("in.ndjson", &lines, "", &[]);
    assert_eq!((rejects.len(), rows.len()), (1, 1), "above 16 MiB a line is no record");
    let deep = format!("{{\"k\":\"a\",\"at\":1,\"x\":{}1{}}}\n", "[".repeat(200_000), "]".repeat(200_000));
    let (_, rows) = counts("in.ndjson", deep + TWO, "", &[]);
    assert!(!rows.is_empty(), "deep nesting ends no run");
}

#[test]
fn csv_options() {
    let (rejects, rows) =
        counts("in.csv", "at;K;k;v\n1;x;'a;1\n2;x;\"a\"\"\";NIL\n3;x;NIL;4\n", ", delimiter = ';', null = 'NIL'", &[]);
    assert!(rejects.is_empty(), "{rejects:?}");
    assert_eq!(
        rows,
        [(json!("'a"), json!(1), json!(1)), (json!("a\""), json!(1), json!(null)), (json!(null), json!(1), json!(4))]
            .into_iter()
            .collect::<Vec<_>>()
    );
    let (rejects, rows) = counts("in.csv", "a,1,1\nb,2,2\n", ", header = false", &[]);
    assert_eq!((rejects.len(), rows.len()), (0, 2));
    let (rejects, rows) = counts("in.tsv", "k\tv\tat\na,b\t1\t1\n", "", &[]);
    assert_eq!((rejects.len(), rows[0].0.clone()), (0, json!("a,b")));
    let (rejects, rows) = counts("in.csv", "k,v,at\na,1\nb,2,1,9\n\nc,,4\n\"d\"x,1,1\n\"e,1,5\n", "", &[]);
    assert_eq!(pairs(&rejects), [("2", "syntax"), ("3", "syntax"), ("6", "syntax"), ("7", "syntax")]);
    assert_eq!(rows, [(json!("c"), json!(1), json!(null))]);
    let folder = Folder::with("in.csv", "k,at\na,1\n");
    folder
        .sql(&(table_over("path = 'in.csv'", "") + COUNTS), &[])
        .fails(2, &["in.csv: expected a column \"v\" in the header", "\"k\", \"at\""]);
    folder.sql(&(table_over("path = 'in.csv'", ", delimiter = 'ab'") + COUNTS), &[]).fails(2, &["\"delimiter\""]);
    folder.write("in.ndjson", TWO);
    folder.sql(&(table(", delimiter = ';'") + COUNTS), &[]).fails(2, &["\"delimiter\" has no effect"]);
}

#[test]
fn quoted_line_ends_at_any_block_size() {
    let mut csv = "k,v,at\n".to_owned();
    for i in 0..300 {
        csv.push_str(&format!("\"a\n\"\"{}\"\",{}\",1,{}\n", i % 7, "\r\n".repeat(i % 20), i * 1000));
    }
    let first = counts("in.csv", &csv, "", &[]);
    assert!(first.0.is_empty());
    for block in ["1", "100", "1000"] {
        assert_eq!(counts("in.csv", &csv, "", &["--block-bytes", block, "-w", "3"]), first);
    }
}

#[test]
fn fields_by_path_and_fields_that_are_missing() {
    let lines = [
        r#"{"payload":{"amount":1.5,"who":{"id":7}},"at":1}"#,
        r#"{"payload":{"amount":2},"at":1}"#,
        r#"{"payload":null,"at":1}"#,
        r#"{"payload":[1],"at":1}"#,
        r#"{"at":1,"payload.kind":9}"#,
        r#"{"payload":{"amount":1},"payload":{"amount":8},"at":1}"#,
    ];
    let folder = Folder::with("in.ndjson", lines.join("\n"));
    let sql = "CREATE TABLE t (payload.amount DECIMAL(10,2), payload.who.id BIGINT, \"payload.kind\" BIGINT, at TIMESTAMP, \
                 WATERMARK FOR at AS at) WITH (path = 'in.ndjson'); \
               SELECT payload.amount AS a, payload.who.id AS i, \"payload.kind\" AS dotted FROM t";
    let rows = folder.sql(sql, &[]).ok();
    let mut found: Vec<_> =
        rows.stdout.lines().map(|l| l.split_once("\"late_count\":0,").unwrap().1.to_owned()).collect();
    found.sort();
    assert_eq!(
        found,
        [
            "\"a\":1.50,\"i\":7,\"dotted\":null}",
            "\"a\":2.00,\"i\":null,\"dotted\":null}",
            "\"a\":8.00,\"i\":null,\"dotted\":null}",
            "\"a\":null,\"i\":null,\"dotted\":9}",
            "\"a\":null,\"i\":null,\"dotted\":null}",
            "\"a\":null,\"i\":null,\"dotted\":null}",
        ]
    );
}

#[test]
fn the_first_ten_rejects_are_shown() {
    let mut lines = "oops\n".repeat(13);
    lines.push_str(TWO);
    let folder = Folder::with("in.ndjson", &lines);
    let ran = folder.sql(&(table("") + COUNTS), &["-w", "3", "--block-bytes", "1"]).ok();
    let shown: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(shown[0], "t: 13 rejected");
    for (i, line) in shown[1..11].iter().enumerate() {
        assert_eq!(*line, format!("in.ndjson:{}: not a JSON object: expected value at column 1", i + 1));
    }
    assert_eq!(shown[11], "… and 3 more");
    assert!(shown[12].contains("13 rejected"), "{shown:?}");
    // With a file for them the same are shown, and all are in the file, in order.
    folder.sql(&(table("") + COUNTS), &["--rejects", "rejects.csv"]).ok();
    assert_eq!(folder.read("rejects.csv").lines().count(), 14);
}

#[test]
fn gzip_under_another_name_is_recognised() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, TWO.as_bytes()).unwrap();
    let folder = Folder::with("in.ndjson", gzip.finish().unwrap());
    let ran = folder.sql(&(table("") + COUNTS), &[]).ok();
    assert!(ran.stderr.contains("found gzip data"), "{}", ran.stderr);
}

#[test]
fn settings_at_the_limits_of_64_bits() {
    let max = i64::MAX;
    let folder = Folder::with(
        "in.ndjson",
        format!(
            "{TWO}{{\"k\":\"a\",\"v\":1,\"at\":\"-009999-01-01\"}}\n{{\"k\":\"a\",\"v\":1,\"at\":\"9999-12-31T23:59:59.999999Z\"}}\n"
        ),
    );
    let sql = format!(
        "CREATE TABLE t (k TEXT, v BIGINT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '{max} us') \
         WITH (path = 'in.ndjson', granularity = '{max}us'); \
         CREATE MATERIALIZED VIEW v WITH (horizon = '{max}us', offset = '-{max}us') AS {COUNTS}"
    );
    for workers in ["1", "4"] {
        let ran = folder.sql(&sql, &["-w", workers, "--summary", "s.json"]).ok();
        let rows = ran.rows();
        assert_eq!(rows.iter().map(|r| r["n"].as_u64().unwrap()).sum::<u64>(), 4, "all on time");
        balanced(&folder.json("s.json"));
    }
    let no_delay = table("") + &view(&format!("WITH (horizon = '{max}us')"));
    let rows = folder.sql(&no_delay, &[]).ok().rows();
    assert_eq!(rows.iter().filter(|r| r["op"] == "+I").count(), 4, "an endless horizon takes all");
    let wide = COUNTS.replace("10 seconds", &format!("{max} us"));
    folder.sql(&(table("") + &wide), &[]).fails(2, &["size is above the limit of 10,000 years"]);
    folder
        .sql(&(table(", granularity = '0s'").replacen(", granularity = '1ms'", "", 1) + COUNTS), &[])
        .fails(2, &["\"granularity\""]);
}

/// Event and arrival times that alternate between extremes.
#[test]
fn clocks_that_jump_lose_nothing() {
    let times = ["-377705116800000", "253402300799000", "0", "-1", "1767225600000"];
    let mut lines = String::new();
    for i in 0..500 {
        let (at, got) = (times[i % 5], times[i / 5 % 5]);
        lines.push_str(&format!("{{\"k\":\"p{}\",\"v\":1,\"at\":{at},\"got\":{got}}}\n", i % 3));
    }
    let folder = Folder::with("in.ndjson", &lines);
    for options in [
        "",
        ", idle_timeout = '1s'",
        ", idle_timeout = '9223372036854775807us', tick = '9223372036854775807us'",
        ", max_future = '0s'",
        ", partition = 'k'",
        ", partition = 'k', partitions = 'p1,p0,other', idle_timeout = '5s', max_future = '9223372036854775807us'",
        ", partition = 'k', lateness_scope = 'partition'",
        ", tick = '1us', idle_timeout = '1us', partition = 'k', late_records = 'drop'",
    ] {
        let sql = |late: &str| {
            format!(
                "CREATE TABLE t (k TEXT, v BIGINT, at TIMESTAMP, got TIMESTAMP, WATERMARK FOR at AS at) \
                 WITH (path = 'in.ndjson', arrival_time = 'got'{options}); \
                 CREATE MATERIALIZED VIEW v WITH (horizon = '1d', late = '{late}') AS {COUNTS}"
            )
        };
        let one = folder.sql(&sql("late1.csv"), &["--summary", "s1.json"]).ok();
        let three = folder.sql(&sql("late3.csv"), &["--summary", "s3.json", "-w", "3", "--block-bytes", "64"]).ok();
        assert_eq!(one.stdout, three.stdout, "{options}");
        assert_eq!(folder.read("late1.csv"), folder.read("late3.csv"), "{options}");
        let ledger = balanced(&folder.json("s1.json"));
        assert_eq!(ledger, balanced(&folder.json("s3.json")), "{options}");
        assert_eq!(ledger["records"]["read"], 500);
        let too_late = ledger["contributions"]["too_late"].as_u64().unwrap();
        assert_eq!(folder.read("late1.csv").lines().count() as u64, too_late + 1, "{options}");
    }
}

#[test]
fn future_times_are_rejected_and_close_nothing() {
    let lines = "{\"k\":\"a\",\"at\":1000,\"got\":1000}\n{\"k\":\"a\",\"at\":99000000,\"got\":2000}\n{\"k\":\"a\",\"at\":2000,\"got\":3000}\n";
    let folder = Folder::with("in.ndjson", lines);
    let sql = format!(
        "CREATE TABLE t (k TEXT, v BIGINT, at TIMESTAMP, got TIMESTAMP, WATERMARK FOR at AS at) \
         WITH (path = 'in.ndjson', arrival_time = 'got', max_future = '1m', rejects = 'r.ndjson'); {COUNTS}"
    );
    let ran = folder.sql(&sql, &[]).ok();
    assert_eq!(ran.rows().iter().map(|r| r["n"].clone()).collect::<Vec<_>>(), [2]);
    assert_eq!(folder.rows("r.ndjson")[0]["reason"], "future");
    folder.sql(&(table(", max_future = '1m'") + COUNTS), &[]).fails(2, &["max_future", "arrival_time"]);
    folder.sql(&(table(", idle_timeout = '1m'") + COUNTS), &[]).fails(2, &["idle_timeout", "arrival_time"]);
}

/// The example of two partitions in the contract: B holds the watermark, unless it counts as idle.
#[test]
fn a_quiet_partition_holds_the_watermark_unless_idle() {
    let lines = "{\"k\":\"A\",\"at\":10000,\"got\":10000}\n{\"k\":\"B\",\"at\":5000,\"got\":10000}\n{\"k\":\"A\",\"at\":100000,\"got\":100000}\n\
                 {\"k\":\"A\",\"at\":101000,\"got\":102000}\n{\"k\":\"A\",\"at\":20000,\"got\":103000}\n";
    let folder = Folder::with("in.ndjson", lines);
    let run = |option: &str| {
        let sql = format!(
            "CREATE TABLE t (k TEXT, v BIGINT, at TIMESTAMP, got TIMESTAMP, WATERMARK FOR at AS at) \
             WITH (path = 'in.ndjson', arrival_time = 'got', partition = 'k', partitions = 'A,B'{option}); {COUNTS}"
        );
        folder.sql(&sql, &["--summary", "s.json"]).ok();
        folder.json("s.json")
    };
    let held = run("");
    assert_eq!(balanced(&held)["records"]["too_late"], 0);
    let idle = run(", idle_timeout = '30s'");
    assert_eq!(balanced(&idle)["records"]["too_late"], 1, "B is idle, so 20 s is behind the watermark");
}

/// A partition may be named `''; records that name none are not of it.
#[test]
fn records_without_a_partition_are_counted_apart() {
    let lines = [
        "{\"k\":\"\",\"at\":1000}",
        "{\"at\":2000}",
        "oops",
        "{\"k\":null,\"at\":3000}",
        "{\"k\":\"b\",\"at\":4000}",
        "{\"k\":\"\",\"at\":\"x\"}",
    ];
    let folder = Folder::with("in.ndjson", lines.join("\n"));
    let sql = table(", partition = 'k'") + COUNTS;
    for workers in ["1", "2"] {
        folder.sql(&sql, &["-w", workers, "--block-bytes", "64", "--summary", "s.json"]).ok();
        let ledger = balanced(&folder.json("s.json"));
        let nameless = &ledger["partitions"][""];
        assert_eq!(
            (&nameless["read"], &nameless["on_time"], &nameless["rejected"]),
            (&json!(2), &json!(1), &json!({"event_time": 1}))
        );
        let unreadable = &ledger["unreadable_partition"];
        assert_eq!((&unreadable["read"], &unreadable["rejected"]), (&json!(3), &json!({"syntax": 1, "partition": 2})));
        assert_eq!(ledger["partitions"]["b"]["read"], 1);
    }
    folder.write("query.sql", &sql);
    folder.run(&["verify", "query.sql"]).ok();
    folder.write("in.ndjson", TWO);
    folder.sql(&sql, &["--summary", "s.json"]).ok();
    assert!(folder.json("s.json")["views"][0]["ledger"].get("unreadable_partition").is_none());
}

#[test]
fn standard_input_and_pipes() {
    let folder = Folder::new();
    let sql = table_over("connector = 'stdin'", "") + COUNTS;
    for workers in ["1", "4"] {
        let ran = folder.run_with(&["run", "-e", &sql, "-w", workers], TWO.as_bytes()).ok();
        assert_eq!(ran.rows().len(), 2);
    }
    assert_eq!(folder.run_with(&["run", "-e", &sql], b"").ok().stdout, "");
    let csv = table_over("connector = 'stdin', format = 'csv'", "") + COUNTS;
    assert_eq!(folder.run_with(&["run", "-e", &csv], b"k,v,at\na,1,1\noops\n").ok().rows().len(), 1);
    // The program from standard input, and then not the records too.
    folder.write("in.ndjson", TWO);
    let ran = folder.run_with(&["run", "-"], (table("") + COUNTS).as_bytes()).ok();
    assert_eq!(ran.rows().len(), 2);
    folder.run_with(&["run", "-"], sql.as_bytes()).fails(2, &["the program itself comes from standard input"]);
    let two = sql.clone()
        + ";"
        + &table_over("connector = 'stdin'", "").replace("TABLE t", "TABLE u")
        + &COUNTS.replace("(t,", "(u,");
    folder
        .run_with(&["run", "-e", &two], TWO.as_bytes())
        .fails(2, &["tables \"t\" and \"u\" both read standard input"]);
    // Messages about standard input name it.
    let ran = folder.run_with(&["run", "-e", &sql], b"oops\n").ok();
    assert!(ran.stderr.contains("stdin:1: "), "{}", ran.stderr);
}

#[test]
fn many_partitions_and_one_key_a_row() {
    let lines: String = (0..20_000).map(|i| format!("{{\"k\":\"p{i}\",\"v\":{i},\"at\":{}}}\n", i * 10)).collect();
    let folder = Folder::with("in.ndjson", &lines);
    let run = |options: &str, workers: &str| {
        let args = ["-w", workers, "--summary", "s.json", "--block-bytes", "10000"];
        let ran = folder.sql(&(table(options) + COUNTS), &args).ok();
        balanced(&folder.json("s.json"));
        ran.stdout
    };
    let plain = run("", "1");
    assert_eq!(plain.lines().count(), 20_000);
    assert_eq!(plain, run("", "16"));
    assert_eq!(run(", partition = 'k'", "1"), run(", partition = 'k'", "3"));
}

#[test]
fn files_of_a_pattern_stand_in_bytewise_order() {
    let folder = Folder::new();
    for name in ["b.ndjson", "a.ndjson", "a[1].ndjson", "ä.ndjson"] {
        folder.write(name, format!("{{\"k\":\"{name}\",\"v\":1,\"at\":1}}\n"));
    }
    std::fs::create_dir(folder.path("x.ndjson")).unwrap();
    let sql = table_over("path = '*.ndjson'", "")
        + "SELECT window_start, array_agg(k) AS files FROM TUMBLE(t, at, INTERVAL '1 s') GROUP BY window_start";
    let rows = folder.sql(&sql, &["-w", "3"]).ok().rows();
    assert_eq!(rows[0]["files"], json!(["a.ndjson", "a[1].ndjson", "b.ndjson", "ä.ndjson"]));
    // A name with brackets is a file if it is there.
    let one = table_over("path = 'a[1].ndjson'", "") + COUNTS;
    assert_eq!(folder.sql(&one, &[]).ok().rows()[0]["k"], "a[1].ndjson");
}

/// A pattern is matched against texts: a file that cannot be matched must not be passed over in silence.
#[cfg(target_os = "linux")]
#[test]
fn a_name_that_is_no_text_is_an_error() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::with("in-1.ndjson", b"{\"k\":\"a\",\"v\":1,\"at\":1}\n");
    let odd = folder.path("").join(std::ffi::OsStr::from_bytes(b"in-\xff.ndjson"));
    std::fs::write(odd, b"{\"k\":\"a\",\"v\":1,\"at\":1}\n").unwrap();
    let ran = folder.sql(&(table_over("path = 'in-*.ndjson'", "") + COUNTS), &[]);
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.stderr.contains("is not UTF-8") && ran.stderr.contains("hint: rename it"), "{ran:?}");
    folder.sql(&(table_over("path = 'in-1.ndjson'", "") + COUNTS), &[]).ok();
}

/// What follows the last member of a gzip file: NUL bytes are padding, anything else is called what it is.
#[test]
fn bytes_after_gzip_are_padding_or_named() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, TWO.as_bytes()).unwrap();
    let bytes = gzip.finish().unwrap();
    let of = |more: &[u8]| [&bytes[..], more].concat();
    let sql = table_over("path = 'in.ndjson.gz'", "") + COUNTS;
    let plain = Folder::with("in.ndjson.gz", &bytes).sql(&sql, &[]).ok();
    let padded = Folder::with("in.ndjson.gz", of(&[0; 4_096])).sql(&sql, &[]).ok();
    assert_eq!(padded.stdout, plain.stdout);
    for more in [&b"\n"[..], b"{\"k\":\"a\"}\n", &[0, 0, 7]] {
        let expected = "error: in.ndjson.gz: expected another gzip member or the end of the file, found other bytes\nhint: the records before them were read; cut off what is not compressed\n";
        Folder::with("in.ndjson.gz", of(more)).sql(&sql, &[]).fails(1, &[expected]);
    }
    Folder::with("in.ndjson.gz", of(&bytes[..bytes.len() / 2])).sql(&sql, &[]).fails(1, &["truncated gzip data"]);
}

/// What docs/sql.md says of fields that stand twice, and of years before 0.
#[test]
fn the_last_of_two_fields_counts_and_years_have_signs() {
    let lines = "{\"k\":\"a\",\"o\":{\"x\":1},\"k\":\"b\",\"at\":\"-000044-03-15T00:00:00Z\"}\n\
        {\"o\":{\"x\":1,\"x\":2},\"k\":\"c\",\"at\":\"2026-01-01\",\"at\":\"0000-01-01\"}\n\
        {\"o\":{\"x\":1},\"o\":{\"y\":2},\"k\":\"d\",\"at\":\"-0044-03-15\"}\n";
    let folder = Folder::with("in.ndjson", lines);
    let sql = "CREATE TABLE t (k TEXT, o.x BIGINT, at TIMESTAMP) WITH (path = 'in.ndjson');
        SELECT k, o.x AS x, at, TIMESTAMP '-000044-03-15T00:00:00Z' = at AS same FROM t";
    let ran = folder.sql(sql, &["--format", "csv"]).ok();
    let rows: Vec<&str> = ran.stdout.lines().skip(1).collect();
    assert_eq!(rows, ["+I,,0,0,b,1,-000044-03-15T00:00:00Z,true", "+I,,0,0,c,2,0000-01-01T00:00:00Z,false"]);
    assert!(ran.stderr.contains("in.ndjson:3: expected a timestamp in column \"at\""), "{}", ran.stderr);
}
