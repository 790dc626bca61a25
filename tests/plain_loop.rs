//! The plain loop of `examples/plain_loop`, which shares no code with the crate, and `slackwater run` give the same answers.

#[path = "../examples/plain_loop/compare.rs"]
mod compare;
#[path = "../examples/plain_loop/scan.rs"]
mod scan;
#[path = "../examples/plain_loop/windows.rs"]
mod windows;

use std::path::Path;
use std::process::Command;
use windows::{Counts, PlainLoop, Query, Rule};

/// Runs the binary in a folder.
fn slackwater(folder: &Path, args: &[&str]) {
    let ran =
        Command::new(env!("CARGO_BIN_EXE_slackwater")).args(args).current_dir(folder).output().expect("it starts");
    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// 6,000 orders in 400 seconds of event time, one in twenty up to three minutes late.
fn orders(folder: &Path, keys: u32, file: &str) {
    let keys = keys.to_string();
    let settings = ["--rows", "6000", "--rate", "15", "--late-share", "0.05", "--late-max", "3m", "--seed", "7"];
    slackwater(folder, &[&["gen", "--keys", &keys, "--out", file], &settings[..]].concat());
}

/// The loop's answer in `loop.csv`.
fn by_loop(folder: &Path, query: &str, file: &str, rule: &[&str]) -> Counts {
    let mut loops = PlainLoop::new(Query::named(query).unwrap(), Rule::of(rule).unwrap(), Vec::new());
    scan::for_each_order(&folder.join(file), |order| loops.push(order)).unwrap();
    let (counts, answer) = loops.finish().unwrap();
    std::fs::write(folder.join("loop.csv"), answer).unwrap();
    counts
}

/// The system's answer in `minutes.csv`; its counts of contributions.
fn by_slackwater(folder: &Path, query: &str, file: &str, options: &str) -> Counts {
    let (window, key) = match query {
        "q1" => ("TUMBLE(orders, event_time, INTERVAL '1 minute')", "customer_id, "),
        "q2" => ("HOP(orders, event_time, INTERVAL '5 seconds', INTERVAL '1 minute')", "customer_id, "),
        _ => ("TUMBLE(orders, event_time, INTERVAL '1 minute')", ""),
    };
    let sql = format!(
        "CREATE TABLE orders (customer_id BIGINT, amount DECIMAL(12,2), event_time TIMESTAMP,
           WATERMARK FOR event_time AS event_time - INTERVAL '5 seconds') WITH (connector = 'file', path = '{file}');
         CREATE MATERIALIZED VIEW v {options} AS
         SELECT {key}window_start, window_end, count(*) AS orders, sum(amount) AS revenue
         FROM {window} GROUP BY {key}window_start, window_end;
         CREATE SINK s FROM v WITH (connector = 'file', path = 'minutes.csv', mode = 'metrics');"
    );
    std::fs::write(folder.join("q.sql"), sql).unwrap();
    slackwater(folder, &["run", "--quiet", "q.sql", "-w", "2", "--summary", "s.json"]);
    let text = std::fs::read_to_string(folder.join("s.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    let contributions = &summary["views"][0]["ledger"]["contributions"];
    let count = |name: &str| contributions[name].as_u64().unwrap_or_else(|| panic!("no {name} in {text}"));
    let rows = std::fs::read_to_string(folder.join("minutes.csv")).unwrap().lines().count() as u64 - 1;
    Counts { records: 6_000, on_time: count("on_time"), late: count("late"), too_late: count("too_late"), rows }
}

fn check(query: &str, keys: u32, file: &str, options: &str, rule: &[&str]) -> Counts {
    let folder = tempfile::tempdir().unwrap();
    orders(folder.path(), keys, file);
    let counts = by_loop(folder.path(), query, file, &[&["granularity=1000"], rule].concat());
    assert_eq!(counts, by_slackwater(folder.path(), query, file, options), "{query}, {keys} keys");
    let found = compare::compare(&folder.path().join("loop.csv"), &folder.path().join("minutes.csv")).unwrap();
    assert!(!found.differ(), "{query}, {keys} keys: {found}");
    assert_eq!(found.equal, counts.rows);
    counts
}

#[test]
fn corrections_within_a_minute() {
    for query in ["q1", "q2", "q4"] {
        for (keys, file) in [(3, "orders.ndjson"), (2_000, "orders.csv")] {
            let counts = check(query, keys, file, "WITH (horizon = '1 minute')", &["late=60000"]);
            assert!(counts.late > 30 && counts.too_late > 30, "{counts}");
        }
    }
}

#[test]
fn late_records_are_dropped_or_all_counted() {
    for query in ["q1", "q2", "q4"] {
        let counts = check(query, 50, "orders.ndjson", "", &["late=drop"]);
        assert!(counts.late == 0 && counts.too_late > 30, "{counts}");
        let counts = check(query, 50, "orders.ndjson", "WITH (horizon = '1 hour')", &["late=all"]);
        assert!(counts.late > 30 && counts.too_late == 0, "{counts}");
    }
}

#[test]
fn a_comparison_finds_every_difference() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name)
    };
    let expected = write("a", "window_start,customer_id,orders,cents\n0,1,2,305\n0,2,1,-5\n60000,1,1,100\n");
    let compare = |answer: &str| compare::compare(&expected, &write("b", answer)).unwrap();
    // Another order of rows and columns, times as text, without a header.
    let same = "revenue,orders,window_end,window_start,customer_id\n\
                1,1,x,1970-01-01T00:01:00Z,1\n3.05,2,x,1970-01-01T00:00:00Z,1\n-0.050,1,x,1970-01-01 00:00:00.000,2\n";
    assert_eq!((compare(same).differ(), compare(same).equal), (false, 3));
    assert!(!compare("0,1,2,3.05\n0,2,1,-0.05\n60000,1,1,1.00\n").differ());
    let counts = |answer: &str| {
        let found = compare(answer);
        assert!(found.differ() && found.to_string().contains("customer"));
        [found.equal, found.different, found.missing, found.extra]
    };
    assert_eq!(counts("0,1,2,3.05\n0,2,2,-0.05\n60000,1,1,1.00\n"), [2, 1, 0, 0]);
    assert_eq!(counts("0,1,2,3.06\n0,2,1,-0.05\n60000,1,1,1.00\n"), [2, 1, 0, 0]);
    assert_eq!(counts("0,1,2,3.05\n"), [1, 0, 2, 0]);
    assert_eq!(counts("0,1,2,3.05\n0,1,2,3.05\n0,2,1,-0.05\n60000,1,1,1.00\n"), [3, 0, 0, 1]);
    assert!(compare::compare(&expected, &write("b", "0,1,2,3.055\n")).is_err());
}
