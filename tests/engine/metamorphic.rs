//! The real command over real files: the same bytes come out however the input is compressed, cut and shared among
//! workers. What is compared are files: changelog, metrics, backfills, late and reject output, and the summary without
//! its physical part.

use crate::streams::Dice;
use serde_json::Value as Json;
use slackwater::time::format_timestamp;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

const RECORDS: usize = 30_000;
const SECOND_US: i64 = 1_000_000;
const START_US: i64 = 1_767_225_600 * SECOND_US;

/// Orders in arrival order: mostly some seconds late, some by minutes, now and then a line that is no record or an amount
/// that is no number.
#[derive(Default)]
struct Orders {
    lines: Vec<String>,
    /// Event times and amounts in cents of those that count.
    sound: Vec<(i64, i64)>,
    /// Which come minutes late.
    very_late: Vec<usize>,
}

fn orders(csv: bool) -> Orders {
    let mut dice = Dice(7);
    let mut orders = Orders::default();
    for n in 0..RECORDS {
        let late = if dice.one_in(40) { dice.range(0, 600) } else { dice.range(0, 12) };
        let event_us = START_US + (n as i64 / 25 - late) * SECOND_US + dice.range(0, SECOND_US);
        let cents = dice.range(-500, 10_000);
        let mut time = String::new();
        format_timestamp(event_us, &mut time);
        let customer = dice.below(40);
        let amount = format!("{}{}.{:02}", if cents < 0 { "-" } else { "" }, cents.abs() / 100, cents.abs() % 100);
        let amount = if n % 997 == 5 { "much".to_owned() } else { amount };
        let broken = n % 1_499 == 3;
        if !broken && amount != "much" {
            orders.sound.push((event_us, cents));
            orders.very_late.extend((late > 300).then_some(n));
        }
        orders.lines.push(match (broken, csv) {
            (true, true) => "no,record\n".to_owned(),
            (true, false) => format!("{{\"event_time\":\"{time}\",\n"),
            (false, true) => format!("{n},c{customer},{amount},{time},\"a, \"\"b\"\"\"\n"),
            (false, false) => {
                let amount = if amount == "much" { "\"much\"".to_owned() } else { amount };
                format!(
                    "{{\"order_id\":{n},\"customer\":\"c{customer}\",\"amount\":{amount},\"event_time\":\"{time}\"}}\n"
                )
            }
        });
    }
    orders
}

/// The file's text.
fn text(csv: bool, lines: &[String]) -> Vec<u8> {
    let header = if csv { "order_id,customer,amount,event_time,note\n" } else { "" };
    format!("{header}{}", lines.concat()).into_bytes()
}

/// Gzip in several members, cut without regard to lines.
fn gzip(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in text.chunks(text.len() / 3 + 1) {
        let mut encoder = flate2::write::GzEncoder::new(&mut out, flate2::Compression::fast());
        encoder.write_all(part).expect("in memory");
        encoder.finish().expect("in memory");
    }
    out
}

fn program(path: &str, horizon: &str) -> String {
    format!(
        "CREATE TABLE orders (order_id BIGINT, customer TEXT, amount DECIMAL(12,2), event_time TIMESTAMP,
            WATERMARK FOR event_time AS event_time - INTERVAL '8 seconds')
            WITH (connector = 'file', path = '{path}', rejects = 'rejects.ndjson');
         CREATE MATERIALIZED VIEW minutes WITH (horizon = '{horizon}', late = 'late.csv') AS
            SELECT count(*) AS orders, sum(amount) AS revenue, avg(amount) AS mean, last_value(order_id) AS latest
            FROM TUMBLE(orders, event_time, INTERVAL '1 minute') GROUP BY window_start;
         CREATE MATERIALIZED VIEW customers WITH (horizon = '{horizon}') AS
            SELECT customer, count(*) AS orders, sum(CAST(amount AS DOUBLE)) AS revenue, min(amount) AS least
            FROM HOP(orders, event_time, INTERVAL '40 seconds', INTERVAL '90 seconds')
            WHERE amount > 0 GROUP BY customer, window_start HAVING count(*) > 2;
         CREATE SINK a FROM minutes WITH (connector = 'file', path = 'minutes.ndjson');
         CREATE SINK b FROM minutes WITH (connector = 'file', path = 'metrics.csv', mode = 'metrics');
         CREATE SINK c FROM customers WITH (connector = 'file', path = 'customers.csv');
         CREATE SINK d FROM customers WITH (connector = 'file', path = 'backfills.ndjson', mode = 'backfills');
         CREATE SINK e FROM customers WITH (connector = 'stdout', format = 'ndjson', mode = 'metrics');"
    )
}

/// Runs the command in a directory of its own and gives what it wrote, by name.
fn run(files: &[(&str, &[u8])], path: &str, horizon: &str, args: &[&str]) -> BTreeMap<String, String> {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, bytes) in files {
        std::fs::write(directory.path().join(name), bytes).expect("a file");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_slackwater"));
    command.current_dir(directory.path()).args(["run", "-e", &program(path, horizon), "--summary", "summary.json"]);
    let output = command.args(args).output().expect("the command");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    let mut written = BTreeMap::new();
    written.insert("stdout".to_owned(), String::from_utf8(output.stdout).expect("text"));
    for name in ["minutes.ndjson", "metrics.csv", "customers.csv", "backfills.ndjson", "late.csv", "rejects.ndjson"] {
        written.insert(name.to_owned(), read(&directory.path().join(name)));
    }
    let mut summary: Json = serde_json::from_str(&read(&directory.path().join("summary.json"))).expect("a summary");
    assert!(summary.as_object_mut().is_some_and(|s| s.remove("physical").is_some()), "{summary}");
    written.insert("summary".to_owned(), summary.to_string());
    written
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn same(expected: &BTreeMap<String, String>, found: &BTreeMap<String, String>, what: &str) {
    for (name, text) in expected {
        let other = &found[name];
        let differs = text.lines().zip(other.lines()).position(|(a, b)| a != b);
        let line = differs.map(|n| (n + 1, text.lines().nth(n), other.lines().nth(n)));
        assert!(text == other, "{what}: {name} differs at line {line:?} ({} or {} bytes)", text.len(), other.len());
    }
}

fn check(csv: bool) {
    let suffix = if csv { "csv" } else { "ndjson" };
    let plain = text(csv, &orders(csv).lines);
    let name = format!("orders.{suffix}");
    let expected = run(&[(&name, &plain)], &name, "45 seconds", &[]);
    for (file, least) in [("minutes.ndjson", 50), ("customers.csv", 1_000), ("late.csv", 50), ("rejects.ndjson", 40)] {
        assert!(expected[file].lines().count() > least, "{file}: {} lines", expected[file].lines().count());
    }
    let runs: [&[&str]; 5] = [
        &["-w", "2"],
        &["-w", "3", "--block-bytes", "20011"],
        &["-w", "4"],
        &["-w", "4", "--block-bytes", "9000"],
        &["--block-bytes", "70000"],
    ];
    for args in runs {
        same(&expected, &run(&[(&name, &plain)], &name, "45 seconds", args), &format!("{suffix} {args:?}"));
    }
    let zstd = zstd::encode_all(&plain[..], 1).expect("in memory");
    for (compressed, ending) in [(gzip(&plain), "gz"), (zstd, "zst")] {
        let packed = format!("{name}.{ending}");
        let mut found = run(&[(&packed, &compressed)], &packed, "45 seconds", &["-w", "2", "--block-bytes", "30000"]);
        found.values_mut().for_each(|text| *text = text.replace(&packed, &name));
        same(&expected, &found, &packed);
    }
}

#[test]
fn one_big_ndjson_file() {
    check(false);
}

#[test]
fn one_big_csv_file() {
    check(true);
}

/// The query's own columns of a metrics file: window start, orders, revenue, mean.
fn contents(metrics: &str) -> Vec<Vec<String>> {
    let mut rows = metrics.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let header = rows.next().expect("a header");
    let columns: Vec<usize> = ["window_start", "orders", "revenue", "mean"]
        .iter()
        .map(|name| header.iter().position(|column| column == name).expect("a column of the query"))
        .collect();
    rows.map(|row| columns.iter().map(|c| row[*c].clone()).collect()).collect()
}

/// A file cut in two at some point of its arrival order is two partitions: what is late differs, and with it the
/// changelog; but with a horizon for ever everything is counted in the end.
#[test]
fn a_file_cut_in_two_agrees_in_the_end() {
    let Orders { lines, sound, very_late } = orders(false);
    let for_ever = "36500 days";
    let whole = run(&[("orders.ndjson", &text(false, &lines))], "orders.ndjson", for_ever, &["-w", "2"]);
    // The second file begins with an order for which the first would be minutes ahead.
    let (first, second) = lines.split_at(very_late[very_late.len() / 3]);
    let parts = [("orders-1.ndjson", text(false, first)), ("orders-2.ndjson", text(false, second))];
    let parts: Vec<(&str, &[u8])> = parts.iter().map(|(name, text)| (*name, text.as_slice())).collect();
    let cut = run(&parts, "orders-*.ndjson", for_ever, &["-w", "3", "--block-bytes", "50000"]);
    // By a plain GROUP BY. Sums of cents are exact; so is their mean, rounded half-even at six digits.
    let mut minutes: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for (event_us, cents) in sound {
        let (orders, revenue) = minutes.entry(event_us.div_euclid(60 * SECOND_US)).or_default();
        (*orders, *revenue) = (*orders + 1, *revenue + cents);
    }
    let truth: Vec<Vec<String>> = minutes
        .into_iter()
        .map(|(minute, (orders, cents))| {
            let mut start = String::new();
            format_timestamp(minute * 60 * SECOND_US, &mut start);
            vec![start, orders.to_string(), decimal(cents, 2), decimal(mean(cents * 10_000, orders), 6)]
        })
        .collect();
    assert_eq!(contents(&whole["metrics.csv"]), truth);
    assert_eq!(contents(&cut["metrics.csv"]), truth);
    assert_ne!(whole["minutes.ndjson"], cut["minutes.ndjson"], "two partitions are stamped apart");
    assert_eq!(whole["late.csv"].lines().count(), 1, "nothing is too late");
}

/// Half-even.
fn mean(total: i64, n: i64) -> i64 {
    let (floor, rest) = (total.div_euclid(n), total.rem_euclid(n));
    floor + i64::from(2 * rest > n || (2 * rest == n && floor % 2 != 0))
}

fn decimal(units: i64, scale: usize) -> String {
    let digits = format!("{:0width$}", units.abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{}{whole}.{fraction}", if units < 0 { "-" } else { "" })
}
