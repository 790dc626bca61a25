//! `slackwater bench`: answers are held to digests, every answer of the open loop is counted, wrong ones end the bench.
//! What is measured is not looked at.

use super::harness::Folder;
use serde_json::Value;

/// Orders of 5 customers, 200 a second, in windows of a second with many corrections.
const SECONDS: &str = r#"
about = "seconds"
rows = 2_000
sql = '''
CREATE TABLE orders (
  customer_id BIGINT, amount DECIMAL(12,2), event_time TIMESTAMP,
  WATERMARK FOR event_time AS event_time - INTERVAL '500 milliseconds'
) WITH ({input}, granularity = '100ms');
CREATE MATERIALIZED VIEW per_second WITH (horizon = '10 seconds') AS
SELECT customer_id, window_start, window_end, count(*) AS orders, sum(amount) AS revenue
FROM TUMBLE(orders, event_time, INTERVAL '1 second') GROUP BY customer_id, window_start, window_end;
'''
[input]
generator = "orders"
keys = 5
rate = 200
delay_mean = "200ms"
late_share = 0.05
late_max = "5s"
"#;

/// What is the same for `gen`.
const GEN: [&str; 12] = [
    "gen",
    "--keys",
    "5",
    "--rate",
    "200",
    "--delay-mean",
    "200ms",
    "--late-share",
    "0.05",
    "--late-max",
    "5s",
    "--rows",
];

fn count(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} in {value:#}"))
}

#[test]
fn the_built_in_definitions_know_their_answers_to_20000_records() {
    let folder = Folder::new();
    let definitions = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/definitions");
    let args = ["--rows", "20000", "--crews", "2x1", "--repeats", "1", "--warm-up-runs", "0", "--json", "out.json"];
    let ran = folder.run(&[&["bench", definitions], &args[..]].concat()).ok();
    let report = folder.json("out.json");
    let benches = report["benches"].as_array().expect("benches");
    assert!(benches.len() >= 24, "{}", benches.len());
    for bench in benches {
        assert_eq!(bench["closed"]["answer"]["known"], "beforehand", "{bench:#}");
        assert_eq!(count(bench, "/closed/records"), 20_000);
        assert!(ran.stdout.contains(&format!("\n{}: ", bench["name"].as_str().expect("a name"))), "{}", ran.stdout);
    }
    assert!(ran.stdout.contains("as expected"), "{}", ran.stdout);
}

#[test]
fn a_blessed_answer_is_known_and_a_wrong_one_ends_the_bench() {
    let folder = Folder::with("seconds.toml", SECONDS);
    let quick = ["bench", "seconds.toml", "--crews", "1x1,1x2", "--repeats", "1", "--warm-up-runs", "0"];
    let unknown = folder.run(&quick).ok();
    assert!(unknown.stdout.contains("NOT KNOWN BEFOREHAND"), "{}", unknown.stdout);
    let blessed = folder.run(&["bench", "seconds.toml", "--bless", "--crews", "1x1,2x1"]).ok().stdout;
    assert!(blessed.starts_with("# The oracle's;") && blessed.contains("rows = 2000\n"), "{blessed}");
    folder.write("seconds.toml", format!("{SECONDS}\n{blessed}"));
    let known = folder.run(&quick).ok();
    assert!(known.stdout.contains("as expected"), "{}", known.stdout);
    let open = ["bench", "seconds.toml", "--rate", "20k", "--rows", "2000", "--warm-up", "0s"];
    assert!(folder.run(&open).ok().stdout.contains("as expected"));
    // Another sum than that of the amounts is as fast.
    let wrong = SECONDS.replace("sum(amount)", "max(amount)");
    folder.write("seconds.toml", format!("{wrong}\n{blessed}"));
    let message = ["error: seconds: WRONG ANSWER to 2000 records: expected the metrics with SHA-256", "--bless"];
    folder.run(&quick).fails(1, &message);
    folder.run(&open).fails(1, &["WRONG ANSWER", "changelog"]);
    assert_eq!(folder.names(), ["seconds.toml"], "nothing is left behind");
}

#[test]
fn the_open_loop_counts_every_answer() {
    let folder = Folder::with("seconds.toml", SECONDS);
    folder.run(&[&GEN[..], &["2000", "--out", "orders.ndjson"]].concat()).ok();
    let sql =
        SECONDS.split("'''").nth(1).expect("SQL").replace("{input}", "connector = 'file', path = 'orders.ndjson'");
    let changes = folder.sql(&sql, &[]).ok().rows();
    let text = |row: &Value, name: &str| row[name].as_str().expect("a text").to_owned();
    let first = |row: &&Value| text(row, "op") == "+I" && row["late_count"] == 0;
    let firsts = changes.iter().filter(first).count() as u64;
    let corrections = changes.iter().filter(|row| text(row, "op") != "-U").count() as u64 - firsts;
    assert!(firsts > 30 && corrections > 30, "{firsts} {corrections}");
    let args = ["--rate", "4000", "--rows", "2000", "--json", "-", "--repeats", "2", "--hgrm", "h"];
    for (warm_up, crews) in [("0s", "1x1"), ("250ms", "2x2")] {
        let more = ["--warm-up", warm_up, "--crews", crews];
        let ran = folder.run(&[&["bench", "seconds.toml"], &args[..], &more].concat()).ok();
        let report: Value = serde_json::from_str(&ran.stdout).expect("nothing but JSON");
        let open = &report["benches"][0]["open"][0];
        assert_eq!(open["answer"]["known"], "file");
        assert_eq!(count(open, "/answer/rows"), changes.len() as u64);
        let runs = open["runs"].as_array().expect("runs");
        assert_eq!(runs.len(), 2);
        for run in runs {
            let (at_end, early) = (count(run, "/answers_at_end"), count(run, "/answers_in_warm_up"));
            let (first, corrected) = (count(run, "/first/count"), count(run, "/corrections/count"));
            assert_eq!(first + corrected + at_end + early, firsts + corrections, "{run:#}");
            // Delay and lateness keep back the last windows alone.
            assert!(at_end < 60 && (early > 0) == (warm_up != "0s"), "{run:#}");
            assert!(first > 10 && corrected > 10, "{run:#}");
        }
        assert_eq!(count(open, "/first/count"), runs.iter().map(|r| count(r, "/first/count")).sum::<u64>());
    }
    let hgrm = folder.read("h/seconds-1x1-4000-first.hgrm");
    assert!(hgrm.trim_start().starts_with("Value") && hgrm.contains("#[Max     ="), "{hgrm}");
    assert!(folder.read("h/seconds-2x2-4000-corrections.hgrm").contains("Total count"));
}

#[test]
fn rates_are_searched() {
    let folder = Folder::with("seconds.toml", SECONDS);
    let args = ["--rows", "1000", "--warm-up", "0s", "--json", "out.json"];
    let search = |more: &[&str]| {
        let ran = folder.run(&[&["bench", "seconds.toml"], &args[..], more].concat()).ok();
        (ran.stdout, folder.json("out.json")["benches"][0]["rates"][0].clone())
    };
    let (stdout, found) = search(&["--rates", "2000,4k", "--p99", "1h"]);
    assert_eq!((&found["highest_sustained"], &found["lowest_not_sustained"]), (&4_000.0.into(), &Value::Null));
    assert!(
        stdout.contains("highest rate with p99 of first results within 3600000 ms: 4,000 records a second"),
        "{stdout}"
    );
    let (stdout, found) = search(&["--rates", "2k..1M", "--p99", "0s"]);
    assert_eq!((&found["highest_sustained"], &found["lowest_not_sustained"]), (&Value::Null, &2_000.0.into()));
    assert!(stdout.contains("no rate kept p99 of first results within 0 ms"), "{stdout}");
    let none = ["bench", "seconds.toml", "--rates", "2000", "--rows", "50", "--warm-up", "0s"];
    folder.run(&none).fails(2, &["no window closes in time", "--seconds"]);
}

/// Bids as they are: a view without windows, in variants.
const BIDS: &str = r#"
about = "bids"
rows = 1_000
sql = '''
CREATE TABLE events (
  kind TEXT, auction BIGINT, price BIGINT, date_time TIMESTAMP,
  WATERMARK FOR date_time AS date_time - INTERVAL '500 milliseconds'
) WITH ({input}, granularity = '100ms');
CREATE MATERIALIZED VIEW bids AS SELECT auction, price FROM events WHERE kind = 'bid';
'''
[input]
generator = "nexmark"
rate = 200
[[variant]]
name = "late-0"
input.late_share = 0.0
[[variant]]
name = "late-50"
about = "half of them late"
input.late_share = 0.5
input.late_max = "5s"
"#;

#[test]
fn views_without_windows_and_variants_are_measured() {
    let folder = Folder::with("bids.toml", BIDS);
    let blessed = folder.run(&["bench", "bids.toml", "--bless", "--crews", "1x1,2x1"]).ok().stdout;
    let head = "# The oracle's; the same bytes from 1 x 1, 2 x 1.\n[[variant.expect]]\nrows = 1000\nchanges = 920\n";
    assert_eq!(blessed.matches(head).count(), 2, "{blessed}");
    assert!(blessed.contains("# For bids-late-0.\n") && !blessed.contains("metrics"), "{blessed}");
    let (_, last) = blessed.split_once("# For bids-late-50.\n").expect("two variants");
    folder.write("bids.toml", format!("{BIDS}\n{last}"));
    let quick = ["bench", "bids.toml", "--crews", "1x2", "--repeats", "1", "--warm-up-runs", "0"];
    let stdout = folder.run(&quick).ok().stdout;
    assert!(stdout.contains("\nbids-late-50: bids, half of them late\n") && stdout.contains("no windows"), "{stdout}");
    assert!(stdout.contains("NOT KNOWN BEFOREHAND") && stdout.contains("as expected"), "{stdout}");
    // In the open loop no row comes before it is due, and all but those of the last watermark have their moments.
    let open = ["bench", "bids.toml", "--rate", "20k", "--rows", "1000", "--warm-up", "0s", "--json", "-"];
    let report: Value = serde_json::from_str(&folder.run(&open).ok().stdout).expect("nothing but JSON");
    for bench in report["benches"].as_array().expect("benches") {
        let run = &bench["open"][0]["runs"][0];
        assert_eq!(count(run, "/first/count") + count(run, "/answers_at_end"), 920, "{bench:#}");
        assert!(count(run, "/first/count") > 300 && count(run, "/corrections/count") == 0, "{bench:#}");
    }
    let wrong = folder.read("bids.toml").replace("auction, price FROM", "auction, price + 1 AS price FROM");
    folder.write("bids.toml", wrong);
    folder.run(&quick).fails(1, &["bids-late-50: WRONG ANSWER to 1000 records: expected the changelog"]);
}

#[test]
fn files_are_replayed() {
    let folder = Folder::new();
    let definition = SECONDS.split("[input]").next().expect("the query");
    let definition = format!("format = 'csv'\nsql_file = 'q.sql'\n{}", definition.replace("\nsql = '''", "\n#'''"));
    let (about, sql) = definition.split_once("#'''").expect("SQL");
    folder.write("q.sql", sql.replace("'''", ""));
    folder.write("replay.toml", format!("{about}\n[input]\nreplay = 'orders.csv.gz'\n"));
    folder.run(&[&GEN[..], &["1500", "--out", "orders.csv.gz"]].concat()).ok();
    let quick = ["--crews", "1x1", "--repeats", "1", "--json", "out.json"];
    folder.run(&[&["bench", "replay.toml", "--warm-up-runs", "0"], &quick[..]].concat()).ok();
    let closed = folder.json("out.json")["benches"][0]["closed"].clone();
    assert_eq!((count(&closed, "/records"), count(&closed, "/files")), (1_500, 1));
    folder.run(&[&["bench", ".", "--rate", "10k", "--warm-up", "0s"], &quick[..]].concat()).ok();
    let open = folder.json("out.json")["benches"][0]["open"][0].clone();
    assert_eq!(count(&open, "/records"), 1_500);
    assert!(count(&open, "/first/count") > 0, "{open:#}");
    folder.run(&["bench", "replay.toml", "--rows", "5"]).fails(2, &["--rows: replay replays a file"]);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let folder = Folder::with("broken.toml", SECONDS.replace("keys = 5", "kyes = 5"));
    let listed = folder.run(&["bench"]).ok().stdout;
    assert!(listed.contains("q1-10k") && listed.contains("10,000 customers"), "{listed}");
    assert!(listed.contains("nexmark-q5-late-10"), "{listed}");
    folder.run(&["bench", "nexmark-q5-late-1", "--rate", "0"]).fails(2, &["100k"]);
    folder.run(&["bench", "nexmark-q5-late-2"]).fails(2, &["no definition", "nexmark-q5"]);
    folder.run(&["bench", "q9"]).fails(2, &["no definition \"q9\"", "q1-10k"]);
    folder.run(&["bench", "broken.toml"]).fails(2, &["broken.toml: input: ", "kyes"]);
    folder.run(&["bench", "q1-10", "--rate", "0"]).fails(2, &["100k"]);
    folder.run(&["bench", "q1-10", "--crews", "2"]).fails(2, &["2x1"]);
    folder.write("two.toml", SECONDS.replace("keys = 5", "partitions = 2"));
    folder.run(&["bench", "two.toml", "--open"]).fails(2, &["one stream", "partition_column"]);
    folder.write("two.toml", SECONDS.replace("keys = 5", "partitions = 2\nkeys = 3"));
    let args = ["bench", "two.toml", "--repeats", "1", "--warm-up-runs", "0", "--crews", "2x1"];
    assert!(folder.run(&args).ok().stdout.contains("2 files of ndjson"));
    // A child that fails ends the bench with what it says.
    folder.write(
        "null.toml",
        SECONDS
            .replace("granularity", "on_error = 'fail', granularity")
            .replace("amount DECIMAL(12,2)", "amount DECIMAL(2,1)"),
    );
    folder.run(&["bench", "null.toml"]).fails(2, &["amount"]);
}

/// Ctrl-C ends the child that runs and leaves no files.
#[cfg(unix)]
#[test]
fn a_bench_can_be_interrupted() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    let folder = Folder::with("seconds.toml", SECONDS);
    for args in [&["--repeats", "1000", "--crews", "1x1"][..], &["--rate", "1", "--rows", "1000"]] {
        let temporary = folder.path("tmp");
        std::fs::create_dir_all(&temporary).expect("a folder");
        let mut command = folder.command(&["bench", "seconds.toml"]);
        command.args(args).env("TMPDIR", &temporary).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let mut line = String::new();
        // What is printed before the first run.
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        assert!(line.contains("slackwater"), "{line}");
        let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(kill.expect("kill").success());
        let output = child.wait_with_output().expect("the binary ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), stderr.as_ref()), (Some(130), ""));
        assert_eq!(std::fs::read_dir(&temporary).expect("a folder").count(), 0);
    }
}
