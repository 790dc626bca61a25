//! `slackwater lateness`: what it prints and writes, and what it says of settings that are wrong.

use super::harness::Folder;

/// Seven orders of two minutes, the last two late, and a table with arrival times.
const ORDERS: &str = "et,at,k,v\n10,11,a,1\n20,21,b,2\n40,41,a,4\n70,71,a,8\n80,81,b,16\n50,82,a,32\n25,83,b,64\n";

fn program(options: &str, view: &str) -> String {
    format!(
        "CREATE TABLE t (et TIMESTAMP, at TIMESTAMP, k TEXT, v BIGINT, WATERMARK FOR et AS et - INTERVAL '3 seconds')
         WITH (connector = 'file', path = 'orders.csv', time_unit = 's'{options});
         CREATE MATERIALIZED VIEW minutes WITH (horizon = '1 minute') AS
         SELECT k, window_start, window_end, count(*) AS n, sum(v) AS s FROM TUMBLE(t, et, INTERVAL '1 minute')
         GROUP BY k, window_start, window_end; {view}"
    )
}

fn folder(options: &str, view: &str) -> Folder {
    let folder = Folder::with("orders.csv", ORDERS);
    folder.write("q.sql", program(options, view));
    folder
}

const GRID: [&str; 6] = ["lateness", "q.sql", "--delays", "0s,10s,1m", "--horizons", "none,0s,2m"];

#[test]
fn a_report_is_written_and_equals_runs() {
    let folder = folder(", arrival_time = 'at'", "");
    let args = [&GRID[..], &["--out", "report"]].concat();
    let ran = folder.run(&args);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.stdout.starts_with("minutes: 7 of 7 records judged, 3 delays × 3 horizons\n"), "{}", ran.stdout);
    assert!(
        ran.stderr.starts_with("slackwater: 7 records in ") && ran.stderr.ends_with("0 rejected\n"),
        "{}",
        ran.stderr
    );
    let report = folder.json("report/report.json");
    assert_eq!(report["latency_in"], "arrival");
    // Under 10 s the record of 70 s takes the watermark to 60 s; it arrived at 71 s.
    assert_eq!(report["delays"][1]["latency"]["max_us"], 11_000_000);
    assert_eq!(report["delays"][2]["latency"]["closed_at_end"], 2);
    let grid = folder.read("report/grid.csv");
    assert_eq!(grid.lines().count(), 10);
    let fields = grid.lines().next().expect("a head").split(',').count();
    assert!(grid.lines().all(|line| line.split(',').count() == fields), "{grid}");
    assert!(folder.read("report/lags.csv").starts_with("partition,hour_utc,lag_from_us,lag_upto_us,records\n"));
    // One cell against the summary of its run.
    let sql = program(", arrival_time = 'at'", "CREATE SINK s FROM minutes WITH (connector = 'stdout');");
    folder.write("cell.sql", sql.replace("'3 seconds'", "'10 seconds'").replace("'1 minute') AS", "'2 minutes') AS"));
    assert_eq!(folder.run(&["run", "cell.sql", "--summary", "s.json"]).status, 0);
    let (summary, cell) = (folder.json("s.json"), &report["cells"][5]);
    let view = &summary["views"][0];
    for class in ["on_time", "corrected", "partly_too_late", "too_late"] {
        assert_eq!(view["ledger"]["records"][class], cell["records"][class], "{class}");
    }
    assert_eq!(view["windows"]["corrections"], cell["corrections"]);
    assert_eq!(view["windows"]["revisions"], cell["revisions"]);
    assert_eq!(view["windows"]["published"], cell["published"]);
    assert_eq!(view["state_pairs_max"], cell["correctable_max"]);
}

#[test]
fn workers_processes_and_block_sizes_change_no_byte() {
    let folder = folder("", "");
    let files = |more: &[&str]| {
        let ran = folder.run(&[&GRID[..], &["--out", "r"], more].concat());
        assert_eq!(ran.status, 0, "{ran:?}");
        let texts = ["grid.csv", "lags.csv", "report.json", "report.html", "frontier.svg"]
            .map(|name| folder.read(&format!("r/{name}")));
        (ran.stdout, texts)
    };
    let recommend = [
        "--recommend",
        "completeness >= 60%, final_completeness >= 90%",
        "--recommend=first_result_error <= 95% and p90_latency <= 2m",
    ];
    for asked in [&[][..], &recommend] {
        let one = files(asked);
        assert!(one.1[2].contains("\"latency_in\": \"event\""));
        assert_eq!(one.0.contains("\nrecommended: delay "), !asked.is_empty(), "{}", one.0);
        for more in [&["-w", "3"][..], &["-w", "2", "--block-bytes", "64"], &["--local-processes", "2"]] {
            assert_eq!(files(&[asked, more].concat()), one, "{more:?}");
        }
    }
}

/// Elements that are opened are closed, and nothing is loaded from anywhere.
fn check_page(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("an end of a tag");
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().expect("a name");
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "{closed} closes something else");
        } else if !tag.ends_with('/') && !["meta", "!doctype"].contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let namespace = "xmlns=\"http://www.w3.org/2000/svg\"";
    let rest = page.replace(namespace, "");
    for loading in ["http", "src=", "href=", "url(", "@import", "<script", "NaN", "inf"] {
        assert!(!rest.contains(loading), "{loading}");
    }
}

#[test]
fn pages_are_whole_whatever_is_in_them() {
    let markup = program("", "").replace("minutes", "\"x<y & 'z'>\"").replace("AS n,", "AS \"<b>\",");
    let sql = [program("", ""), markup];
    let inputs = [ORDERS.to_owned(), "et,at,k,v\n".to_owned(), "et,at,k,v\n10,11,a,1\n".to_owned()];
    let policies = &["--policy", "quantile(0.9)", "--policy", "k-slack()"][..];
    let recommend = &["--recommend", "completeness >= 50%"][..];
    for (sql, input) in sql.iter().flat_map(|sql| inputs.iter().map(move |input| (sql, input))) {
        for grid in [&GRID[2..], &["--delays", "0s"], &["--delays", "0s..10m/40", "--horizons", "none,0s..1h/30"]] {
            let folder = Folder::with("orders.csv", input);
            folder.write("q.sql", sql);
            let ran = folder.run(&[&["lateness", "q.sql", "--out", "r"], grid, policies, recommend].concat());
            assert_eq!(ran.status, 0, "{ran:?}");
            let (page, picture) = (folder.read("r/report.html"), folder.read("r/frontier.svg"));
            check_page(&page);
            check_page(&picture);
            assert!(picture.starts_with("<svg "), "{picture}");
            assert!(page.matches("<svg ").count() >= 8 || input.lines().count() == 1, "{page}");
            assert_eq!(page.contains("x&lt;y &amp; "), sql.contains("x<y"), "{page}");
        }
    }
}

#[test]
fn wrong_settings_are_named() {
    let none =
        "CREATE MATERIALIZED VIEW rows AS SELECT k, v FROM t; CREATE SINK s FROM rows WITH (connector = 'stdout');";
    let two = "CREATE MATERIALIZED VIEW hours AS SELECT window_start, count(*) AS n
               FROM TUMBLE(t, et, INTERVAL '1 hour') GROUP BY window_start, window_end;
               CREATE SINK s FROM hours WITH (connector = 'stdout');";
    let plain = [("", none), ("", two), (", late_records = 'drop'", "")];
    let cases: [(usize, &[&str], &str); 18] = [
        (0, &["--delays", ""], "--delays: expected a duration such as 5s or 1h30m"),
        (0, &["--delays", "5s..1s/4"], "--delays: expected a range that ascends, found \"5s..1s/4\""),
        (0, &["--delays", "5s,1s"], "--delays: expected each delay to be longer than the one before it"),
        (0, &["--delays", "-1s"], "--delays: expected a duration of at least 0, found \"-1s\""),
        (0, &["--delays", "0s", "--horizons", "0s,none"], "--horizons: expected each horizon to be longer"),
        (0, &["--delays", "0s", "--view", "minute"], "--view: there is no view \"minute\""),
        (0, &["--delays", "0s", "--view", "rows"], "rows has no windows"),
        (0, &["--delays", "0s", "--latency", "arrival"], "--latency arrival: table \"t\" has no arrival times"),
        (0, &["--delays", "0s", "--recommend", "complete >= 1"], "--recommend: expected a figure, found 'complete'"),
        (
            0,
            &["--delays", "0s", "--recommend", "completeness <= 1"],
            "--recommend: completeness: expected >=, found <=",
        ),
        (0, &["--delays", "0s", "--recommend", "p99_latency <= 3"], "--recommend: p99_latency: expected a unit"),
        (
            0,
            &["--delays", "0s", "--recommend", "first_result_error(m) <= 1%"],
            "--recommend: expected a measured column, found 'm'",
        ),
        (0, &["--delays", "0s", "--policy", "keyed(5)"], "--policy keyed: "),
        (0, &["--delays", "0s", "--policy", "keyed 5s"], "--policy keyed: expected delays in parentheses, found '5s'"),
        (0, &["--delays", "0s", "--policy", "keyed", "--policy", "keyed(1s)"], "--policy keyed: expected it once"),
        (1, &["--delays", "0s", "--view", "hours", "--policy", "keyed"], "--policy keyed: the view has no keys"),
        (1, &["--delays", "0s"], "--view: expected the name of one of 2 views"),
        (2, &["--delays", "0s"], "table \"t\" has late_records = 'drop'"),
    ];
    for (number, more, message) in cases {
        let (options, view) = plain[number];
        let ran = folder(options, view).run(&[&["lateness", "q.sql"], more].concat());
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{more:?}");
        assert!(ran.stderr.starts_with(&format!("error: {message}")), "{}", ran.stderr);
        assert!(ran.stderr.contains("\nhint: "), "{}", ran.stderr);
    }
    let ran = folder("", "").run(&["lateness", "-e", "SELECT 1 AS x FROM t", "--delays", "0s"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
}

#[test]
fn rejects_are_counted_or_fail_the_pass() {
    let with = |options: &str| {
        let folder = Folder::with("orders.csv", ORDERS.replace("40,41,a,4", "no,41,a,4"));
        folder.write("q.sql", program(options, ""));
        folder
    };
    let ran = with("").run(&GRID);
    assert!(ran.status == 0 && ran.stderr.ends_with("1 rejected\n"), "{}", ran.stderr);
    let failing = with(", on_error = 'fail'");
    let ran = failing.run(&[&GRID[..], &["--out", "r"]].concat());
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.starts_with("error: orders.csv:4: "), "{}", ran.stderr);
    assert!(!failing.path("r/grid.csv").exists());
}

/// What is recommended for the shipped earthquakes, and the lines to paste, against the ledgers of runs with them.
#[test]
fn a_recommendation_holds_in_a_run() {
    let folder = Folder::with("none", "");
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/quakes");
    let sql = std::fs::read_to_string(format!("{examples}/quakes.sql")).expect("an example");
    let sql = sql.replace("examples/quakes", examples).replace("'out/", "'");
    folder.write("q.sql", &sql);
    let ran = folder.run(&[
        "lateness",
        "q.sql",
        "--delays",
        "0h..48h/16",
        "--horizons",
        "none,1d,3d",
        "--recommend",
        "completeness >= 90%, final_completeness >= 99%",
        "--out",
        "r",
    ]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let (_, lines) = ran.stdout.split_once("\nrecommended: ").expect("a recommendation");
    let line = |marker: &str| {
        let text = lines.lines().find_map(|line| line.split_once(marker)).expect(marker).1;
        text.split_once('\'').expect("an end").0.to_owned()
    };
    let (delay, horizon) = (line("  WATERMARK FOR event_time AS event_time - INTERVAL '"), line("(horizon = '"));
    let share = |delay: &str| {
        let sql = sql.replace("INTERVAL '6 hours'\n)", &format!("INTERVAL '{delay}'\n)"));
        assert_eq!(sql.matches(&format!("INTERVAL '{delay}'\n)")).count(), 1, "{sql}");
        folder.write("run.sql", sql.replace("horizon = '3 days'", &format!("horizon = '{horizon}'")));
        assert_eq!(folder.run(&["run", "run.sql", "--summary", "s.json"]).status, 0);
        let ledger = folder.json("s.json")["views"][0]["ledger"]["records"].clone();
        let count = |class: &str| ledger[class].as_u64().expect(class) as f64;
        let all = count("on_time") + count("corrected") + count("partly_too_late") + count("too_late");
        (count("on_time") / all, (all - count("too_late")) / all)
    };
    // Chosen by the first part alone; on the whole the later part, which is fuller, counts too.
    let (first, last) = share(&delay);
    assert!(first >= 0.9 && last >= 0.99, "{delay} {horizon}: {first} {last}");
    let found = &folder.json("r/report.json")["recommendation"];
    let setting = &found["setting"];
    let cells = folder.json("r/report.json")["cells"].clone();
    let own = |cell: &&serde_json::Value| {
        cell["delay_us"] == setting["delay_us"] && cell["horizon_us"] == setting["horizon_us"]
    };
    let cell = cells.as_array().expect("cells").iter().find(own).expect("its cell");
    for (name, share) in [("complete_first", first), ("complete_final", last)] {
        assert!(cell[name].as_f64().is_some_and(|found| (found - share).abs() < 1e-12), "{name}: {cell}");
    }
    let (chosen, checked) = (&found["blocks_chosen_by"], &found["blocks_checked_on"]);
    assert!(chosen.as_u64() > Some(10) && checked.as_u64() > Some(5), "{found}");
}

/// What is printed to be pasted is SQL: names that need quotes have them, and no horizon is said.
#[test]
fn what_is_recommended_can_be_pasted() {
    // How the event time is declared, and beside it a column that must not be taken for it.
    for (et, other, record) in [
        ("\"1st time\"", "v BIGINT", r#"{"1st time":"2026-01-01T00:00:05Z"}"#),
        ("\"select\"", "v BIGINT", r#"{"select":"2026-01-01T00:00:05Z"}"#),
        ("\"TS\"", "\"ts\" TEXT", r#"{"TS":"2026-01-01T00:00:05Z","ts":"none"}"#),
        ("eventTime", "v BIGINT", r#"{"eventTime":"2026-01-01T00:00:05Z"}"#),
        ("payload.ts", "v BIGINT", r#"{"payload":{"ts":"2026-01-01T00:00:05Z"}}"#),
        ("\"payload.ts\"", "v BIGINT", r#"{"payload.ts":"2026-01-01T00:00:05Z"}"#),
    ] {
        let folder = Folder::with("none", "");
        folder.write("in.ndjson", format!("{record}\n"));
        let sql = |watermark: &str| {
            format!(
                "CREATE TABLE t ({et} TIMESTAMP, {other}, {watermark}) WITH (path = 'in.ndjson');
                 CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) AS n
                   FROM TUMBLE(t, {et}, INTERVAL '10 seconds') GROUP BY window_start, window_end;"
            )
        };
        folder.write("q.sql", sql(&format!("WATERMARK FOR {et} AS {et} - INTERVAL '5 seconds'")));
        let asked = ["--delays", "1s", "--horizons", "none", "--recommend", "completeness >= 100%"];
        let ran = folder.run(&[&["lateness", "q.sql"], &asked[..]].concat());
        let expected = format!(
            "
recommended: delay 1s, horizon none, for completeness >= 100 %
chosen by the first block of 10s, checked on the 0 after them:
  completeness >= 100 %: 100 %; nothing to check it on
too few blocks for intervals
  WATERMARK FOR {et} AS {et} - INTERVAL '1s'
  CREATE MATERIALIZED VIEW … without horizon: late records are dropped
"
        );
        assert!(ran.stdout.contains(&expected), "{ran:?}");
        let (_, after) = ran.stdout.split_once("  WATERMARK").expect("a line");
        folder.write("run.sql", sql(&format!("WATERMARK{}", after.lines().next().unwrap_or_default())));
        let ran = folder.run(&["run", "run.sql", "--summary", "s.json"]);
        assert_eq!((ran.status, &folder.json("s.json")["views"][0]["ledger"]["records"]["on_time"]), (0, &1.into()));
    }
}

/// Every shipped data set gives a whole report. Its figures are held against runs by `tests/engine/lab.rs`.
#[test]
fn shipped_data_have_reports() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, delays, horizons) in [
        ("quakes", "0h..48h/4", "none,1d,3d"),
        ("flights", "0m..4h/8", "none,1h,6h"),
        ("taxi", "0m..1h/4", "none,30m,2h"),
        ("dengue", "0d..70d/5", "none,28d,140d"),
    ] {
        let folder = Folder::with("none", "");
        let (example, examples) = (format!("examples/{name}"), root.join("examples").join(name));
        let sql = std::fs::read_to_string(examples.join(format!("{name}.sql"))).expect(name);
        folder.write("q.sql", sql.replace(&example, &examples.to_string_lossy()));
        let asked = ["--recommend", "completeness >= 50%", "--policy", "k-slack()", "--out", "r"];
        let grid = ["lateness", "q.sql", "--delays", delays, "--horizons", horizons];
        let ran = folder.run(&[&grid[..], &asked].concat());
        assert_eq!(ran.status, 0, "{name}: {ran:?}");
        assert!(ran.stdout.contains("\nrecommended: delay "), "{name}: {}", ran.stdout);
        let page = folder.read("r/report.html");
        check_page(&page);
        assert!(page.matches("<svg ").count() >= 8 && page.contains("k-slack("), "{name}");
    }
}

/// The picture that README.md shows is what the command in docs/lateness.md draws.
#[test]
fn the_picture_in_the_documents_is_drawn_by_its_command() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect(path);
    let folder = Folder::with("none", "");
    let sql =
        read("examples/quakes/quakes.sql").replace("examples/quakes", &root.join("examples/quakes").to_string_lossy());
    folder.write("q.sql", sql);
    let args = [
        "--delays",
        "0h..48h/16",
        "--horizons",
        "none,6h,1d,3d",
        "--policy",
        "quantile(0.9, span = 7 days)",
        "--policy",
        "k-slack(span = 7 days)",
        "--recommend",
        "completeness >= 90%",
        "--out",
        "report",
    ];
    let quoted = args.map(|arg| if arg.contains(' ') { format!("'{arg}'") } else { arg.to_owned() });
    let command = format!("slackwater lateness examples/quakes/quakes.sql {}\n", quoted.join(" "));
    assert!(read("docs/lateness.md").contains(&command), "{command}");
    assert_eq!(folder.run(&[&["lateness", "q.sql"], &args[..]].concat()).status, 0);
    assert!(
        folder.read("report/frontier.svg") == read("docs/lateness.svg"),
        "docs/lateness.svg: run the command, copy report/frontier.svg"
    );
}

/// A keyed watermark is that of a stream that has nothing but the key: every key of every file is held against a grid over its
/// records alone.
#[test]
fn keyed_watermarks_are_those_of_keys_alone() {
    let seed = std::process::id() as u64;
    println!("seed {seed}");
    let mut x = seed;
    let mut next = move |below: u64| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) % below
    };
    let sql = |path: &str, windows: &str, arrival: &str| {
        format!(
            "CREATE TABLE t (et TIMESTAMP, at TIMESTAMP, k TEXT, v BIGINT, WATERMARK FOR et AS et - INTERVAL '3 seconds')
             WITH (connector = 'file', path = '{path}', time_unit = 's'{arrival});
             CREATE MATERIALIZED VIEW keys AS SELECT k, window_start, window_end, count(*) AS n FROM {windows}
             WHERE v > 0 GROUP BY k, window_start, window_end;"
        )
    };
    let lengths = ["--delays", "0s,7s,10s,1m", "--horizons", "none,0s,30s", "--out", "r"];
    for round in 0..6 {
        let windows =
            ["TUMBLE(t, et, INTERVAL '20 seconds')", "HOP(t, et, INTERVAL '10 seconds', INTERVAL '30 seconds')"]
                [round % 2];
        let arrival = if round < 4 { ", arrival_time = 'at'" } else { "" };
        let folder = Folder::with("none", "");
        let mut alone: std::collections::BTreeMap<(usize, u64), String> = std::collections::BTreeMap::new();
        for file in 0..1 + round % 3 {
            let mut text = String::from("et,at,k,v\n");
            for second in 0..200 {
                let (key, behind, value) = (next(4), next(3) * next(30), next(5));
                let line = format!("{},{},k{key},{value}\n", 1_000 + second * 2 - behind, 1_000 + second * 2 + 3);
                text += &line;
                if value > 0 {
                    *alone.entry((file, key)).or_insert_with(|| "et,at,k,v\n".to_owned()) += &line;
                }
            }
            folder.write(&format!("part-{file}.csv"), text);
        }
        folder.write("q.sql", sql("part-*.csv", windows, arrival));
        let keyed = [&["lateness", "q.sql", "--policy", "keyed"], &lengths[..]].concat();
        let ran = folder.run(&keyed);
        assert_eq!(ran.status, 0, "{ran:?}");
        let (found, grid, page) =
            (folder.json("r/report.json")["keyed"].clone(), folder.read("r/grid.csv"), folder.read("r/report.html"));
        assert!(grid.contains("\nkeyed(1m),,") && page.contains("keyed, by delay"), "{grid}");
        assert_eq!(found["keys"].as_u64(), Some(alone.len() as u64));
        for more in [&["-w", "3"][..], &["--local-processes", "2", "--block-bytes", "64"]] {
            let other = folder.run(&[&keyed[..], more].concat());
            assert_eq!((other.status, &other.stdout), (0, &ran.stdout), "{more:?}");
            assert_eq!(folder.json("r/report.json")["keyed"], found, "{more:?}");
            assert!(folder.read("r/grid.csv") == grid && folder.read("r/report.html") == page, "{more:?}");
        }
        let mut sums: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
        let mut add = |report: &serde_json::Value, cells: &dyn Fn(usize, usize) -> serde_json::Value, own: bool| {
            let sign = if own { 1 } else { u64::MAX };
            for delay in 0..4 {
                let latency = &report[delay]["latency"];
                for name in ["windows", "early", "closed_at_end"] {
                    let n = latency[name].as_u64().expect(name);
                    let sum = sums.entry(format!("{delay} {name}")).or_default();
                    *sum = sum.wrapping_add(n.wrapping_mul(sign));
                }
                for horizon in 0..3 {
                    for (name, n) in cells(delay, horizon)["records"].as_object().expect("records") {
                        let sum = sums.entry(format!("{delay} {horizon} {name}")).or_default();
                        *sum = sum.wrapping_add(n.as_u64().expect(name).wrapping_mul(sign));
                    }
                }
            }
        };
        let own = found["delays"].clone();
        add(&own, &|delay, horizon| own[delay]["cells"][horizon].clone(), true);
        let mut greatest = [0; 4];
        for text in alone.values() {
            folder.write("alone.csv", text);
            folder.write("alone.sql", sql("alone.csv", windows, arrival));
            assert_eq!(folder.run(&[&["lateness", "alone.sql"], &lengths[..]].concat()).status, 0);
            let report = folder.json("r/report.json");
            add(&report["delays"], &|delay, horizon| report["cells"][delay * 3 + horizon].clone(), false);
            for (delay, max) in greatest.iter_mut().enumerate() {
                *max = report["delays"][delay]["latency"]["max_us"].as_u64().unwrap_or(0).max(*max);
            }
        }
        sums.retain(|_, n| *n != 0);
        assert!(sums.is_empty(), "round {round}, seed {seed}: {sums:?}");
        if !arrival.is_empty() {
            let own = [0, 1, 2, 3].map(|delay| found["delays"][delay]["latency"]["max_us"].as_u64().unwrap_or(0));
            assert_eq!(own, greatest, "round {round}, seed {seed}");
        }
    }
}
