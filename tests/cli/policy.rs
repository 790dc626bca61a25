//! `watermark_policy`: the same bytes however the input is read, agreement with verification, and errors.

use super::harness::Folder;

const POLICIES: [&str; 4] = [
    "quantile(0.95, span = 20s, cap = 10s)",
    "k-slack(decay = 0.3, span = 10s)",
    "aq-k-slack(error = 1%, of = sum(amount), window = 10s, groups = 20, span = 30s)",
    "aq-k-slack(error = 5%, of = count(*), window = 10s, span = 30s, min_records = 20, floor = 50ms)",
];

fn program(path: &str, options: &str) -> String {
    let partition = if path.starts_with("part-") { "" } else { "partition TEXT, " };
    format!(
        "CREATE TABLE orders (customer_id BIGINT, amount DECIMAL(12,2), event_time TIMESTAMP, arrival_time TIMESTAMP,
           {partition}WATERMARK FOR event_time AS event_time - INTERVAL '1 second')
         WITH (connector = 'file', path = '{path}', granularity = '10ms'{options});
         CREATE MATERIALIZED VIEW v WITH (horizon = '15s') AS
         SELECT customer_id, window_start, window_end, count(*) AS n, sum(amount) AS s
         FROM TUMBLE(orders, event_time, INTERVAL '10 seconds') GROUP BY customer_id, window_start, window_end;
         CREATE SINK changes FROM v WITH (connector = 'file', path = 'changes.ndjson');"
    )
}

fn orders(folder: &Folder, out: &str, more: &[&str]) {
    let args = ["gen", "--rows", "20000", "--keys", "20", "--rate", "200", "--late-share", "0.05", "--late-max", "12s"];
    assert_eq!(folder.run(&[&args[..], &["--out", out], more].concat()).status, 0);
}

/// Changes and summary of a run.
fn run(folder: &Folder, more: &[&str]) -> (String, serde_json::Value) {
    let args = [&["run", "q.sql", "--summary", "s.json"], more].concat();
    folder.run(&args).ok();
    (folder.read("changes.ndjson"), folder.json("s.json")["views"][0]["ledger"].take())
}

#[test]
fn results_do_not_depend_on_who_reads() {
    let folder = Folder::new();
    orders(&folder, "one.ndjson", &[]);
    orders(&folder, "part.csv", &["--partitions", "3"]);
    orders(&folder, "column.csv", &["--partitions", "3", "--partition-column"]);
    orders(&folder, "packed.ndjson", &["--seed", "9"]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, folder.read("packed.ndjson").as_bytes()).expect("memory");
    folder.write("packed.ndjson.gz", gzip.finish().expect("memory"));
    let inputs = [
        ("one.ndjson", ""),
        ("part-*.csv", ", arrival_time = 'arrival_time'"),
        ("column.csv", ", arrival_time = 'arrival_time', partition = 'partition'"),
        ("packed.ndjson.gz", ", arrival_time = 'arrival_time'"),
    ];
    let fixed: Vec<String> = inputs
        .iter()
        .map(|(path, options)| {
            folder.write("q.sql", program(path, options));
            run(&folder, &[]).0
        })
        .collect();
    for (number, policy) in POLICIES.iter().enumerate() {
        let (path, options) = inputs[number];
        folder.write("q.sql", program(path, &format!("{options}, watermark_policy = '{policy}'")));
        let alone = run(&folder, &[]);
        assert_ne!(alone.0, fixed[number], "{policy}");
        for more in [&["-w", "3"][..], &["-w", "2", "--block-bytes", "4096"], &["--local-processes", "2"]] {
            assert!(run(&folder, more) == alone, "{policy} {more:?}");
        }
        folder.run(&["verify", "q.sql"]).ok();
    }
}

#[test]
fn wrong_policies_are_explained() {
    let folder = Folder::new();
    let fails = |sql: &str, parts: &[&str]| _ = folder.sql(sql, &[]).fails(2, parts);
    let with = |policy: &str| program("in.ndjson", &format!(", watermark_policy = '{policy}'"));
    fails(&with("quantil(0.9)"), &["-e:3:", "watermark_policy", "found 'quantil(0.9)'", "did you mean \"quantile\"?"]);
    fails(&with("quantile(1.5)"), &["setting \"q\"", "expected a share over 0"]);
    fails(&with("k-slack(dekay = 0)"), &["setting \"dekay\" is not known", "did you mean \"decay\"?"]);
    let quality = |of: &str| with(&format!("aq-k-slack(error = 1%, of = {of}, window = 1m)"));
    fails(&quality("sum(amont)"), &["expected a column of the table, found 'amont'", "did you mean \"amount\"?"]);
    fails(&quality("avg(partition)"), &["expected a column of numbers, found TEXT"]);
    fails(&quality("max(amount)"), &["expected count(*), sum(column) or avg(column), found 'max(amount)'"]);
    let least = with("quantile(0.9)").replace("- INTERVAL '1 second')", "- amount * INTERVAL '1 second')");
    fails(&least, &["needs a watermark with a fixed delay"]);
}

#[test]
fn explain_says_what_the_delay_follows() {
    let folder = Folder::with("in.ndjson", "");
    folder.write("q.sql", program("in.ndjson", ", watermark_policy = 'quantile(99%)'"));
    let text = folder.run(&["explain", "q.sql", "-w", "2"]).ok().stdout;
    let rule = "a quantile of the partition's recent lags (quantile(0.99, span = 10m)); at first minus 1s";
    assert!(text.contains(rule) && text.contains("in.ndjson: thread 0"), "{text}");
}

/// Policies beside a grid: what a run with each gives, whoever reads, with rejects counted once.
#[test]
fn the_lab_holds_policies_side_by_side() {
    let folder = Folder::new();
    orders(&folder, "part.csv", &["--partitions", "3"]);
    // Two times a record.
    let broken = folder.read("part-1.csv").replacen("2026", "never", 9);
    folder.write("part-1.csv", broken);
    let declared = POLICIES[0];
    let options = |policy: &str| format!(", arrival_time = 'arrival_time', watermark_policy = '{policy}'");
    folder.write("q.sql", program("part-*.csv", &options(declared)));
    let mut args = vec!["lateness", "q.sql", "--delays", "0s,1s,5s", "--horizons", "none,3s,15s", "--out", "r"];
    POLICIES.iter().for_each(|policy| args.extend(["--policy", *policy]));
    let files = |more: &[&str]| {
        let ran = folder.run(&[&args[..], more].concat()).ok();
        (ran.stdout, ["grid.csv", "lags.csv", "report.json"].map(|name| folder.read(&format!("r/{name}"))))
    };
    let one = files(&[]);
    for more in [&["-w", "3"][..], &["-w", "2", "--block-bytes", "1024"], &["--local-processes", "2"]] {
        assert!(files(more) == one, "{more:?}");
    }
    let report = folder.json("r/report.json");
    assert_eq!((&report["records"]["read"], &report["records"]["rejected"]), (&20_000.into(), &5.into()));
    let grid = one.1[0].lines().map(|line| line.matches('"').count()).filter(|quotes| *quotes > 0).count();
    assert_eq!(
        (grid, report["policies"].as_array().map(Vec::len)),
        (4 * 3, Some(4)),
        "the declared one is not told twice"
    );
    for (number, policy) in POLICIES.iter().enumerate() {
        folder.write("q.sql", program("part-*.csv", &options(policy)));
        folder.run(&["run", "q.sql", "--summary", "s.json"]).ok();
        let (found, summary) = (&report["policies"][number], folder.json("s.json"));
        let (cell, view) = (&found["cells"][2], &summary["views"][0]);
        for class in ["on_time", "corrected", "partly_too_late", "too_late"] {
            assert_eq!(view["ledger"]["records"][class], cell["records"][class], "{policy} {class}");
        }
        assert_eq!(view["windows"]["corrections"], cell["corrections"], "{policy}");
        assert_eq!(view["state_pairs_max"], cell["correctable_max"], "{policy}");
        let delay = &summary["sources"][0]["delay"];
        assert_eq!(
            (&delay["mean_us"], &delay["max_us"]),
            (&found["delay_mean_us"], &found["delay_max_us"]),
            "{policy}"
        );
    }
    folder.write("q.sql", program("part-*.csv", &format!("{}, on_error = 'fail'", options(declared))));
    folder.run(&args).fails(1, &["part-1.csv:2: ", "on_error = 'fail' ends the pass"]);
    for (policy, message) in [
        ("fixed", "--policy: expected a policy that adapts, found 'fixed'"),
        ("quantile", "--policy: quantile: which one is missing"),
        ("aq-k-slack(error = 1%, of = sum(customer), window = 1m)", "has no column of numbers named 'customer'"),
    ] {
        folder.run(&["lateness", "q.sql", "--delays", "0s", "--policy", policy]).fails(2, &[message, "hint: "]);
    }
}
