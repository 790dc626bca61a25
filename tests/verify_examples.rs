//! `slackwater verify` holds for every shipped example, with and without idle timeout and for both lateness scopes; and
//! for input that is as bad as it gets.

use slackwater::plan::Program;
use slackwater::source::trace::{TraceItem, TraceSource};
use slackwater::sql::{self, BareSelectDefaults};
use slackwater::types::Value;
use slackwater::verify::check::{Report, VerifyOptions, verify};
use slackwater::verify::collect::collect;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn shipped(file: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join("examples").join(file)).expect("a shipped example")
}

fn plan(text: &str) -> Program {
    let text = text.replace("path = 'examples/", &format!("path = '{ROOT}/examples/"));
    sql::plan("test", &text, &BareSelectDefaults::default()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn proven(text: &str, workers: usize) -> Report {
    let options = VerifyOptions { workers, ..VerifyOptions::default() };
    let report = verify(&plan(text), &options).unwrap_or_else(|e| panic!("{e}\n{text}"));
    for verdict in report.views.iter().chain(&report.tables) {
        let first = verdict.differences.first();
        assert!(first.is_none(), "{}: {} differences\n{first:#?}\n{text}", verdict.name, verdict.differences.len());
    }
    report
}

/// The example with its idle timeout, without, and with each partition judged by itself. The numbers of changes are
/// pinned: they tell that the options were replaced, and that the examples have changes to compare.
fn three_ways(file: &str, idle_timeout: &str, changes: [u64; 3]) {
    let text = shipped(file);
    assert!(text.contains(idle_timeout), "{file} has {idle_timeout}");
    let with = |options: &str| {
        let report = proven(&text.replace(idle_timeout, options), 3);
        assert!(report.views[0].records > 1_000);
        report.views[0].changes
    };
    let found = [idle_timeout, "lateness_scope = 'source'", "lateness_scope = 'partition'"].map(with);
    assert_eq!(found, changes, "{file}");
}

#[test]
fn quakes() {
    three_ways("quakes/quakes.sql", "idle_timeout = '1 day'", [434, 364, 746]);
}

#[test]
fn flights() {
    three_ways("flights/flights.sql", "idle_timeout = '2 hours'", [1_104, 1_104, 1_320]);
}

#[test]
fn taxi() {
    three_ways("taxi/taxi.sql", "idle_timeout = '30 minutes'", [5_382, 5_008, 5_474]);
}

#[test]
fn dengue() {
    let text = shipped("dengue/dengue.sql");
    let tick = "tick = '1 day'";
    assert!(text.contains(tick));
    let ways = [tick, "tick = '1 day', idle_timeout = '10 days'", "tick = '1 day', lateness_scope = 'partition'"];
    let found = ways.map(|options| {
        let report = proven(&text.replace(tick, options), 2);
        (report.views[0].changes, report.views[0].records)
    });
    assert_eq!(found, [(5_029, 52_987); 3], "with one partition the scopes agree, and nobody waits for it");
}

#[test]
fn orders_and_hopping() {
    let changes = |file: &str| proven(&shipped(file), 2).views[0].changes;
    assert_eq!(changes("orders/orders.sql"), 4);
    assert_eq!(changes("orders/orders-delay-30s.sql"), 2);
    assert_eq!(changes("orders/orders-horizon-5s.sql"), 2);
    assert_eq!(changes("hopping/hopping-drop.sql"), 2);
    assert_eq!(changes("hopping/hopping-window.sql"), 2);
}

/// The generator as one trace whose partitions a column names, and as partitions of their own.
#[test]
fn generated_orders() {
    for partition in ["", "partition = 'partition',"] {
        for rest in ["", "idle_timeout = '3 s',", "lateness_scope = 'partition',", "late_records = 'drop',"] {
            let text = format!(
                "CREATE TABLE o (order_id BIGINT, customer_id BIGINT, amount DECIMAL(12,2), event_time TIMESTAMP,
                   arrival_time TIMESTAMP, partition TEXT,
                   WATERMARK FOR event_time AS event_time - INTERVAL '1 second')
                 WITH (connector = 'generator', rows = 3000, rate = 100, keys = 7, partitions = 3, {partition} {rest}
                   silent_every = '10 s', silent_for = '8 s', arrival_time = 'arrival_time', late_share = 0.1,
                   late_max = '20 s');
                 CREATE MATERIALIZED VIEW v WITH (horizon = '6 s') AS
                 SELECT customer_id, window_start, count(*) AS n, sum(amount) AS s, array_agg(order_id) AS ids
                 FROM HOP(o, event_time, INTERVAL '3 seconds', INTERVAL '10 seconds')
                 GROUP BY customer_id, window_start, window_end;"
            );
            let report = proven(&text, 2);
            assert!(report.views[0].too_late > 0, "{text}");
        }
    }
}

/// Records of two files that are wrong in every way, some late and some too late.
fn bad_files(dir: &Path) {
    for file in 0..2i64 {
        let mut text = String::from("\u{feff}");
        for i in 0..120i64 {
            let et = (i * 7 + file * 3) % 100 + i;
            let at = i + file;
            let p = ["a", "b", "c", "d"][usize::try_from((i / 3 + file) % 4).expect("small")];
            match i % 17 {
                // The first the trace names is one that only a reject has.
                0 => writeln!(text, r#"{{"et":{},"at":{at},"p":"only rejects","x":1,"v":2}}"#, et + 100_000),
                2 => writeln!(text, r#"{{"et":{et},"at":{at},"p":"{p}","x":"#),
                4 => writeln!(text, r#"{{"et":null,"at":{at},"p":"{p}","x":1,"v":2}}"#),
                5 => writeln!(text, r#"{{"et":{et},"at":{at},"x":1,"v":2}}"#),
                6 => writeln!(text, r#"{{"et":{et},"at":"no","p":"{p}","x":1,"v":2}}"#),
                8 => writeln!(text, r#"{{"et":{et},"at":{at},"p":"{p}","x":"seven","v":2}}"#),
                9 => writeln!(text, r#"{{"et":{et},"at":{at},"p":"{p}","x":{},"v":0}}"#, i % 5),
                11 => writeln!(text),
                _ => writeln!(text, r#"{{"et":{et},"at":{at},"p":"{p}","x":{},"v":{}}}"#, i % 5, i % 3 + 1),
            }
            .expect("a string");
        }
        std::fs::write(dir.join(format!("{file}.ndjson")), text).expect("a file");
    }
}

fn bad_program(dir: &Path, options: &str) -> String {
    let path = dir.join("*.ndjson");
    format!(
        "CREATE TABLE t (et TIMESTAMP, at TIMESTAMP, p TEXT, x BIGINT, v BIGINT,
           WATERMARK FOR et AS et - INTERVAL '5 seconds')
         WITH (connector = 'file', path = '{}', time_unit = 's', {options});
         CREATE MATERIALIZED VIEW windows WITH (horizon = '30 s') AS
           SELECT p, window_end, count(*) AS n, sum(12 / v) AS s, array_agg(x) FILTER (WHERE x > 1) AS xs
           FROM HOP(t, et, INTERVAL '4 seconds', INTERVAL '10 seconds') WHERE x <> 3
           GROUP BY p, window_start, window_end HAVING count(*) <> 2;
         CREATE MATERIALIZED VIEW strict AS
           SELECT window_start, count(*) AS n FROM TUMBLE(t, et, INTERVAL '10 seconds')
           GROUP BY window_start, window_end;
         CREATE MATERIALIZED VIEW rows AS SELECT p, et, 12 / v AS q FROM t WHERE x > 0;
         CREATE SINK a FROM windows WITH (connector = 'stdout');
         CREATE SINK b FROM strict WITH (connector = 'stdout');
         CREATE SINK c FROM rows WITH (connector = 'stdout');",
        path.display()
    )
}

#[test]
fn bad_input_is_rejected_counted_and_placed_alike() {
    let dir = tempfile::tempdir().expect("a directory");
    bad_files(dir.path());
    let arrival = "arrival_time = 'at', max_future = '1 h'";
    for options in [
        "granularity = '1 s'".to_owned(),
        "partition = 'p'".to_owned(),
        "partition = 'p', partitions = 'c,never'".to_owned(),
        arrival.to_owned(),
        format!("{arrival}, idle_timeout = '4 s'"),
        format!("{arrival}, partition = 'p', partitions = 'd,never', idle_timeout = '9 s'"),
        format!("{arrival}, partition = 'p'"),
        format!("{arrival}, partition = 'p', lateness_scope = 'partition', late_records = 'drop'"),
        format!("{arrival}, late_records = 'drop', granularity = '7 s', tick = '3 s'"),
    ] {
        let report = proven(&bad_program(dir.path(), &options), 3);
        assert!(report.tables[0].changes > 50, "{options}: {} rejects", report.tables[0].changes);
        assert!(report.views.iter().all(|v| v.changes > 3), "{options}: {report:?}");
    }
}

#[test]
fn a_sum_that_does_not_fit_ends_both() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("big.ndjson");
    std::fs::write(&path, "{\"et\":1,\"v\":9223372036854775807}\n{\"et\":2,\"v\":1}\n{\"et\":30,\"v\":1}\n")
        .expect("a file");
    let text = format!(
        "CREATE TABLE t (et TIMESTAMP, v BIGINT, WATERMARK FOR et AS et - INTERVAL '1 second')
         WITH (connector = 'file', path = '{}', time_unit = 's');
         CREATE MATERIALIZED VIEW sums AS SELECT window_start, sum(v) AS s FROM TUMBLE(t, et, INTERVAL '10 seconds')
         GROUP BY window_start, window_end;",
        path.display()
    );
    let report = proven(&text, 2);
    let error = report.views[0].ends_with.as_deref().expect("an error");
    assert!(error.ends_with("in window [1970-01-01T00:00:00Z, 1970-01-01T00:00:10Z)"), "{error}");
}

#[test]
fn larger_inputs_are_refused_before_anything_is_computed() {
    let program = plan(&shipped("quakes/quakes.sql"));
    let error = verify(&program, &VerifyOptions { workers: 1, records_max: 1_000 }).expect_err("1,707 records");
    assert!(error.message().contains("more than 1000 records"), "{error}");
    assert!(error.hint().expect("a hint").contains("--limit"));
    assert_eq!(error.kind(), slackwater::ErrorKind::Usage);
    let hopping = shipped("taxi/taxi.sql").replace("INTERVAL '15 minutes', INTERVAL", "INTERVAL '1 second', INTERVAL");
    let error = verify(&plan(&hopping), &VerifyOptions::default()).expect_err("3,600 windows a record");
    assert!(error.message().contains("in 3600 windows"), "{error}");
}

/// The contract's example: A has 10 and 100, B has 5 and says no more.
#[test]
fn two_partitions_of_which_one_is_silent() {
    let run = |options: &str| {
        let text = format!(
            "CREATE TABLE t (et TIMESTAMP, at TIMESTAMP, WATERMARK FOR et AS et)
             WITH (connector = 'file', path = 'none.ndjson', arrival_time = 'at'{options});
             CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) AS n FROM TUMBLE(t, et, INTERVAL '10 seconds')
             GROUP BY window_start, window_end;"
        );
        let program = Arc::new(plan(&text));
        let time = |s: i64| Value::Timestamp(s * 1_000_000);
        let record = |partition, et, at| TraceItem::Record { partition, values: vec![time(et), time(at)] };
        let items = [record(0, 10, 0), record(1, 5, 1), record(0, 100, 2), TraceItem::Clock { arrived_us: 40_000_000 }];
        let names = ["A".to_owned(), "B".to_owned()];
        let source = TraceSource::new(&program.tables[0], &names, &items, false, 1);
        let found = collect(&program, vec![source.into()], 2).expect("a run");
        let ending = found.ending.tables[0].clone();
        assert!(!found.ending.complete);
        let holder = ending.holder.map(|h| ending.partitions[h].clone());
        (ending.watermark_us / 1_000_000, holder, found.changes[0].len())
    };
    assert_eq!(run(""), (5, Some("B".to_owned()), 0), "nothing closes, and B is named");
    assert_eq!(run(", idle_timeout = '30 s'"), (100, None, 2), "B is idle, and later A: [0, 10) and [10, 20) close");
}
