//! `slackwater lateness`: what is shipped, cell by cell against `run`; what it writes; what it refuses.

use crate::examples::examples;
use crate::harness::Folder;
use crate::{TWO, table, table_over, view};
use serde_json::Value;
use slackwater::time::{format_duration, parse_duration};

/// Random choices from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % n
    }
    /// Ascending different durations below a limit, µs; some of them no whole seconds.
    fn durations(&mut self, n: usize, limit: &str) -> Vec<i64> {
        let limit = parse_duration(limit).unwrap();
        let mut found: Vec<i64> = (0..n).map(|_| self.below(limit as u64) as i64).collect();
        found.extend([0, limit / 1_000_000 * 1_000_000]);
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// The program with other settings.
fn with(program: &str, delay_us: i64, horizon_us: Option<i64>) -> String {
    let (head, rest) = program.split_once("- INTERVAL '").unwrap();
    let (_, rest) = rest.split_once('\'').unwrap();
    let program = format!("{head}- INTERVAL '{delay_us}us'{rest}");
    let (head, rest) = program.split_once("horizon = '").unwrap();
    let (_, rest) = rest.split_once('\'').unwrap();
    match (horizon_us, rest.strip_prefix(", "), rest.strip_prefix(')')) {
        (Some(us), _, _) => format!("{head}horizon = '{us}us'{rest}"),
        (None, Some(rest), _) => format!("{head}{rest}"),
        (None, _, Some(rest)) => format!("{}{rest}", head.strip_suffix(" WITH (").unwrap()),
        _ => panic!("{program}"),
    }
}

fn list(durations: &[i64]) -> String {
    durations.iter().map(|us| format_duration(*us)).collect::<Vec<_>>().join(",")
}

/// Random cells over the shipped data give what `run` gives, in the ledger and in the windows of its summary.
#[test]
fn cells_are_runs() {
    let seed = std::env::var("LATENESS_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(20_261_201);
    let folder = examples();
    let mut dice = Dice(seed);
    for (name, delay, horizon) in [
        ("orders/orders", "40s", "60s"),
        ("quakes/quakes", "3d", "5d"),
        ("flights/flights", "6h", "12h"),
        ("taxi/taxi", "30m", "2h"),
        ("dengue/dengue", "60d", "200d"),
    ] {
        let path = format!("examples/{name}.sql");
        let (delays, horizons) = (dice.durations(3, delay), dice.durations(2, horizon));
        let text = format!("none,{}", list(&horizons));
        let workers = (1 + dice.below(3)).to_string();
        let args = ["lateness", &path, "--delays", &list(&delays), "--horizons", &text, "--out", "report"];
        folder.run(&[&args[..], &["-w", &workers]].concat()).ok();
        let report = folder.json("report/report.json");
        let cells = report["cells"].as_array().unwrap();
        assert_eq!(cells.len(), delays.len() * (horizons.len() + 1));
        let program = folder.read(&path);
        for _ in 0..3 {
            let cell = &cells[dice.below(cells.len() as u64) as usize];
            let delay = cell["delay_us"].as_i64().unwrap();
            folder.write("cell.sql", with(&program, delay, cell["horizon_us"].as_i64()));
            folder.run(&["run", "cell.sql", "-q", "--summary", "summary.json"]).ok();
            let summary = folder.json("summary.json");
            let run = &summary["views"][0];
            let place = format!("seed {seed}, {name}, delay {delay} µs, horizon {} µs", cell["horizon_us"]);
            for class in ["on_time", "corrected", "partly_too_late", "too_late"] {
                assert_eq!(cell["records"][class], run["ledger"]["records"][class], "{place}: records {class}");
            }
            assert_eq!(cell["contributions"], run["ledger"]["contributions"], "{place}");
            for count in ["published", "corrections", "corrected"] {
                assert_eq!(cell["windows"][count], run["windows"][count], "{place}: {count}");
            }
            assert_eq!(report["records"], summary["records"], "{place}");
            assert_eq!(report["filtered"], run["ledger"]["records"]["filtered"], "{place}");
        }
    }
}

/// Three records of one key and window: one on time, one late by 5 s, one by 30 s.
const LATE: &str = "{\"k\":\"a\",\"v\":1,\"at\":1000}\n{\"k\":\"a\",\"v\":9,\"at\":15000}\n{\"k\":\"a\",\"v\":2,\"at\":2000}\n\
                    {\"k\":\"a\",\"v\":9,\"at\":40000}\n{\"k\":\"a\",\"v\":3,\"at\":3000}\n";

#[test]
fn the_figures_of_a_small_stream() {
    let folder = Folder::with("in.ndjson", LATE);
    let sql = table("") + &view("");
    let args = ["lateness", "-e", &sql, "--delays", "0s,10s", "--horizons", "none,5s,1m", "--out", "r"];
    let text = folder.run(&args).ok().stdout;
    let csv = folder.read("r/grid.csv");
    let table: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let rows: Vec<String> = table.iter().skip(1).map(|row| row[..15].join(",")).collect();
    assert_eq!(
        rows,
        [
            "0,,3,0,0,2,3,0,2,0.600000000,0.600000000,3,0,0,0",
            "0,5000000,3,1,0,1,3,1,1,0.600000000,0.800000000,3,0,1,1",
            "0,60000000,3,2,0,0,3,2,0,0.600000000,1.000000000,3,0,2,1",
            "10000000,,4,0,0,1,4,0,1,0.800000000,0.800000000,3,0,0,0",
            "10000000,5000000,4,0,0,1,4,0,1,0.800000000,0.800000000,3,0,0,0",
            "10000000,60000000,4,1,0,0,4,1,0,0.800000000,1.000000000,3,0,1,1",
        ]
    );
    // The count of the late window: 1, then 2 under a horizon of 5 s; the truth is 3. Two other windows are exact.
    let figures = |row: usize, name: &str| {
        let first = table[0].iter().position(|column| *column == format!("{name}_missing")).unwrap();
        table[row][first..first + 8].join(",")
    };
    assert_eq!(figures(1, "n_first_final"), "0,3,3,0,0.000000000,0.000000000,0.000000000,0.000000000");
    assert_eq!(figures(2, "n_first_final"), "0,3,2,0,0.166666667,0.000000000,0.500000000,0.500000000");
    assert_eq!(figures(2, "n_first_truth"), "0,3,2,0,0.222222222,0.000000000,0.666666667,0.666666667");
    assert_eq!(figures(2, "n_final_truth"), "0,3,2,0,0.111111111,0.000000000,0.333333333,0.333333333");
    assert_eq!(figures(6, "s_final_truth"), "0,3,3,0,0.000000000,0.000000000,0.000000000,0.000000000");
    assert_eq!(text.lines().count(), 2 + rows.len(), "{text}");
    assert!(text.lines().nth(2).is_some_and(|line| line.ends_with("27.778%")), "{text}");
    assert!(text.starts_with("v: 5 records, 0 filtered, 0 rejected, 5 contributions\n"), "{text}");
    assert_eq!(folder.json("r/report.json")["cells"][0]["horizon_us"], Value::Null);
}

/// Neither workers nor blocks show, and a range is the list of its values.
#[test]
fn the_same_bytes_for_any_workers() {
    let folder = examples();
    let mut seen: Option<[String; 3]> = None;
    for (workers, block, delays) in
        [("1", "1048576", "0s..30m/4"), ("2", "3000", "0s,10m,20m,30m"), ("4", "777", "0s,10m..30m/3")]
    {
        let args = ["lateness", "examples/taxi/taxi.sql", "--delays", delays, "--horizons", "none,0s,1h", "--out", "o"];
        let out = folder.run(&[&args[..], &["-w", workers, "--block-bytes", block]].concat()).ok().stdout;
        let found = [out, folder.read("o/grid.csv"), folder.read("o/report.json")];
        assert_eq!(*seen.get_or_insert_with(|| found.clone()), found, "-w {workers}");
    }
}

#[test]
fn what_is_refused() {
    let folder = Folder::with("in.ndjson", TWO);
    let asked = |sql: &str, more: &[&str]| folder.run(&[&["lateness", "-e", sql][..], more].concat());
    let good = table("") + &view("");
    for (delays, horizons, parts) in [
        ("", "none", &["--delays", "at least one entry", "hint: write a list"][..]),
        ("0s", "", &["--horizons", "at least one entry"]),
        ("1s,1000ms", "none", &["--delays", "1s stands there twice"]),
        ("0s", "none,none", &["--horizons", "none stands there twice"]),
        ("-1s", "none", &["--delays", "at least 0", "found -1s"]),
        ("0s", "1s,-2s", &["--horizons", "at least 0", "found -2s"]),
        ("none", "none", &["--delays", "expected a duration, found none"]),
        ("5m..0s/3", "none", &["--delays", "a range that ascends", "found 5m to 0s"]),
        ("0s..5m", "none", &["--delays", "the number of values", "0s..5m/24"]),
        ("0s..5m/1", "none", &["--delays", "expected 2 to", "found 1"]),
        ("0s..5m/x", "none", &["--delays", "a whole number"]),
        ("0s..2us/9", "none", &["--delays", "stands there twice"]),
        ("5", "none", &["--delays", "expected a unit"]),
        ("99999999 days", "none", &["--delays", "is too long"]),
        ("0s..1h/1000", "0s..1h/1000", &["1000000 cells", "hint: name fewer"]),
    ] {
        let ran = asked(&good, &["--delays", delays, "--horizons", horizons]);
        ran.fails(2, parts);
    }
    let grid = ["--delays", "0s"];
    let pass = table("") + "CREATE MATERIALIZED VIEW p AS SELECT k FROM t;";
    asked(&good, &["--delays", "0s", "--view", "w"]).fails(2, &["no view \"w\"", "there are: v"]);
    asked(&pass, &grid).fails(2, &["view \"p\" passes rows through"]);
    let two = table("")
        + &view("")
        + &view("").replace("VIEW v", "VIEW w")
        + "CREATE SINK s FROM v WITH (connector = 'stdout');";
    asked(&two, &grid).fails(2, &["several views", "--view: v, w"]);
    let expression = good.replace("AS at)", "AS CASE WHEN v > 1 THEN at END)");
    asked(&expression, &grid).fails(2, &["table \"t\"", "expected a watermark of a fixed delay"]);
    let drop = table_over("path = 'in.ndjson'", ", late_records = 'drop'") + &view("");
    asked(&drop, &grid).fails(2, &["late_records = 'drop'"]);
    let timeless = "CREATE TABLE t (k TEXT) WITH (path = 'in.ndjson'); CREATE MATERIALIZED VIEW p AS SELECT k FROM t;";
    asked(timeless, &grid).fails(2, &["no watermark", "WATERMARK FOR"]);
    assert_eq!(folder.names(), ["in.ndjson"], "nothing is written");
}

/// A result that some cell would publish and cannot fails as the run of that cell does; that of no cell does not.
#[test]
fn a_sum_that_does_not_fit() {
    let big = LATE.replace("\"v\":2", "\"v\":9223372036854775807");
    let folder = Folder::with("in.ndjson", big);
    let sql = table("") + &view("");
    let asked = |horizons: &str| folder.run(&["lateness", "-e", &sql, "--delays", "0s", "--horizons", horizons]);
    asked("none").ok();
    asked("none,5s")
        .fails(1, &["view \"v\", window [1970-01-01T00:00:00Z, 1970-01-01T00:00:10Z), group \"a\"", "does not fit"]);
}

/// Two late records that count at one instant under one delay and at two under another, as the granularity has it.
#[test]
fn granularity_joins_corrections() {
    let record = |k: &str, at: u32| format!("{{\"k\":\"{k}\",\"v\":1,\"at\":{at}}}\n");
    let records = [("a", 1000), ("b", 21000), ("a", 2000), ("b", 27000), ("a", 3000)].map(|(k, at)| record(k, at));
    let folder = Folder::with("in.ndjson", records.concat());
    let sql = table("").replace("'1ms'", "'10s'") + &view("");
    for (delays, expected) in
        [("0s,5s", &[("0", 1), ("5000000", 2)][..]), ("5s", &[("5000000", 2)]), ("0s", &[("0", 1)])]
    {
        folder.run(&["lateness", "-e", &sql, "--delays", delays, "--horizons", "1m", "--out", "r"]).ok();
        let report = folder.json("r/report.json");
        let cells = report["cells"].as_array().unwrap().iter();
        let found: Vec<_> =
            cells.map(|c| (c["delay_us"].to_string(), c["windows"]["corrections"].as_u64().unwrap())).collect();
        let expected: Vec<_> = expected.iter().map(|(delay, n)| ((*delay).to_owned(), *n)).collect();
        assert_eq!(found, expected, "{delays}");
    }
}
