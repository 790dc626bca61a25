//! `slackwater trace`: the lab finds in a trace what it finds in the input.

use super::harness::Folder;
use std::path::Path;

/// Grid, lags and report of a program.
fn lab(folder: &Folder, program: &str, out: &str, grid: &[&str]) -> (String, String, serde_json::Value) {
    let ran = folder.run(&[&["lateness", program, "--out", out], grid].concat());
    assert_eq!(ran.status, 0, "{ran:?}");
    let lags = folder.read(&format!("{out}/lags.csv"));
    // Names of files are not those of the input.
    let lags: Vec<&str> = lags.lines().map(|line| line.split_once(',').map_or(line, |(_, rest)| rest)).collect();
    (folder.read(&format!("{out}/grid.csv")), lags.join("\n"), folder.json(&format!("{out}/report.json")))
}

fn the_same(folder: &Folder, program: &str, grid: &[&str]) {
    let ran = folder.run(&["trace", program, "--out", "trace", "--salt", "s"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let (own, traced) = (lab(folder, program, "own", grid), lab(folder, "trace/trace.sql", "traced", grid));
    assert_eq!(own.0, traced.0);
    assert_eq!(own.1, traced.1);
    // Values that do not fit are filtered in a trace.
    for figure in ["read", "judged"] {
        assert_eq!(own.2["records"][figure], traced.2["records"][figure], "{figure}");
    }
}

/// Four partitions with silent spells in one file, records that cannot be read, others that do not count.
#[test]
fn a_partition_column_rejects_and_a_filter() {
    let folder = Folder::new();
    let args = ["--rows", "20000", "--keys", "50", "--partitions", "4", "--partition-column", "--silent-every", "20s"];
    let more = ["--silent-for", "9s", "--rate", "400", "--late-share", "0.1", "--out", "orders.csv"];
    assert_eq!(folder.run(&[&["gen"], &args[..], &more[..]].concat()).status, 0);
    let mut text = folder.read("orders.csv");
    let head = text.lines().next().expect("a head").to_owned();
    assert_eq!(head, "order_id,customer_id,amount,event_time,arrival_time,partition");
    // Every 97th record has no event time, every 101st an amount that is none, every 103rd no arrival time.
    let lines = text.lines().enumerate().map(|(at, line)| {
        let mut fields: Vec<&str> = line.split(',').collect();
        if at > 0 && at % 97 == 0 {
            fields[3] = "never";
        } else if at > 0 && at % 101 == 0 {
            fields[2] = "much";
        } else if at > 0 && at % 103 == 0 {
            fields[4] = "";
        }
        fields.join(",") + "\n"
    });
    text = lines.collect();
    folder.write("orders.csv", text);
    folder.write(
        "q.sql",
        "CREATE TABLE orders (customer_id BIGINT, amount DECIMAL(12,2), event_time TIMESTAMP, arrival_time TIMESTAMP,
           partition TEXT, WATERMARK FOR event_time AS event_time - INTERVAL '1500 milliseconds')
         WITH (connector = 'file', path = 'orders.csv', arrival_time = 'arrival_time', partition = 'partition',
           partitions = '0,1', idle_timeout = '4s', tick = '500ms', granularity = '250ms', max_future = '1h');
         CREATE MATERIALIZED VIEW v WITH (horizon = '30s', offset = '1s') AS
         SELECT customer_id, window_start, window_end, count(*) AS records
         FROM HOP(orders, event_time, INTERVAL '5 seconds', INTERVAL '15 seconds')
         WHERE amount > 20 AND customer_id <> 7
         GROUP BY customer_id, window_start, window_end;",
    );
    the_same(&folder, "q.sql", &["--delays", "0s,250ms,1500ms,4s", "--horizons", "none,0s,30s,1m"]);
    let sql = folder.read("trace/trace.sql");
    assert!(sql.contains("HOP(trace, event_time, INTERVAL '5s', INTERVAL '15s')"), "{sql}");
    // The trace is small, and has neither keys nor values.
    let trace =
        zstd::decode_all(&*std::fs::read(folder.path("trace/trace.csv.zst")).expect("a trace")).expect("a trace");
    assert!(trace.starts_with(b"event_time,arrival_time,part,kept,key\n"));
    assert_eq!(trace.iter().filter(|byte| **byte == b'\n').count(), 20_001);
}

/// Each file is a partition; with and without arrival times.
#[test]
fn files_as_partitions() {
    for arrival in ["", ", arrival_time = 'arrival_time', idle_timeout = '3s'"] {
        let folder = Folder::new();
        let args =
            ["gen", "--rows", "9000", "--keys", "20", "--partitions", "11", "--rate", "300", "--out", "o.ndjson"];
        assert_eq!(folder.run(&args).status, 0);
        folder.write(
            "q.sql",
            format!(
                "CREATE TABLE orders (customer_id BIGINT, event_time TIMESTAMP, arrival_time TIMESTAMP,
                   WATERMARK FOR event_time AS event_time - INTERVAL '2 seconds')
                 WITH (connector = 'file', path = 'o-*.ndjson'{arrival});
                 CREATE MATERIALIZED VIEW v AS SELECT window_start, window_end, count(*) AS records
                 FROM TUMBLE(orders, event_time, INTERVAL '10 seconds') GROUP BY window_start, window_end;"
            ),
        );
        the_same(&folder, "q.sql", &["--delays", "0s..5s/5", "--horizons", "none,20s"]);
        assert!(folder.read("trace/trace.sql").contains("path = 'trace/part-*.csv.zst'"));
    }
}

#[test]
fn shipped_examples() {
    for (name, delays) in
        [("quakes", "0s,1h,1d"), ("flights", "0s,1h,4h"), ("taxi", "0s,5m,15m"), ("dengue", "0s,7d,28d")]
    {
        let folder = Folder::new();
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
        std::os::unix::fs::symlink(examples, folder.path("examples")).expect("a link");
        let program = format!("examples/{name}/{name}.sql");
        let grid = ["--delays", delays, "--horizons", "none,1d"];
        let ran = folder.run(&["trace", &program, "--out", "trace"]);
        assert_eq!(ran.status, 0, "{ran:?}");
        let (own, traced) = (lab(&folder, &program, "own", &grid), lab(&folder, "trace/trace.sql", "traced", &grid));
        assert_eq!(own.1, traced.1, "{name}");
        // Values are not in a trace: what is told of them is not there, what is told of records is equal.
        let figures = |csv: &str| -> Vec<Vec<String>> {
            let head: Vec<&str> = csv.lines().next().expect("a head").split(',').collect();
            let same = |column: &str| {
                ["delay", "horizon", "records", "contributions", "complete", "latency", "closed"]
                    .iter()
                    .any(|c| column.starts_with(c))
            };
            let columns: Vec<usize> = (0..head.len()).filter(|at| head.get(*at).is_some_and(|c| same(c))).collect();
            let row = |line: &str| {
                let fields: Vec<&str> = line.split(',').collect();
                columns.iter().map(|at| fields[*at].to_owned()).collect()
            };
            csv.lines().map(row).collect()
        };
        assert_eq!(figures(&own.0), figures(&traced.0), "{name}");
        assert!(figures(&own.0)[0].len() > 12, "{name}");
    }
}

#[test]
fn salts_and_wrong_settings() {
    let folder = Folder::with("o.csv", "t,k\n1,a\n2,b\n3,a\n");
    folder.write(
        "q.sql",
        "CREATE TABLE o (t TIMESTAMP, k TEXT, WATERMARK FOR t AS t - INTERVAL '1 second')
         WITH (connector = 'file', path = 'o.csv', time_unit = 's');
         CREATE MATERIALIZED VIEW v AS SELECT k, window_start, window_end, count(*) AS n
         FROM TUMBLE(o, t, INTERVAL '1 minute') GROUP BY k, window_start, window_end;",
    );
    let traced = |salt: &[&str], out: &str| {
        assert_eq!(folder.run(&[&["trace", "q.sql", "--out", out], salt].concat()).status, 0);
        let text = zstd::decode_all(&*std::fs::read(folder.path(&format!("{out}/trace.csv.zst"))).expect("a trace"))
            .expect("a trace");
        String::from_utf8(text).expect("text")
    };
    let keys = |text: &str| -> Vec<String> {
        text.lines().skip(1).map(|line| line.rsplit(',').next().unwrap_or("").to_owned()).collect()
    };
    let (a, b) = (traced(&["--salt", "x"], "a"), traced(&["--salt", "x"], "b"));
    assert_eq!(a, b);
    assert!(a.starts_with("event_time,kept,key\n1000000,true,"), "{a}");
    assert_eq!(keys(&a)[0], keys(&a)[2]);
    assert_ne!(keys(&a)[0], keys(&a)[1]);
    assert_ne!(keys(&a)[0], keys(&traced(&[], "c"))[0]);
    let again = folder.run(&["trace", "q.sql", "--out", "a"]);
    assert_eq!(again.status, 2);
    assert!(again.stderr.contains("expected a new or empty directory"), "{}", again.stderr);
    let plain = "CREATE TABLE o (t TIMESTAMP, k TEXT) WITH (connector = 'file', path = 'o.csv', time_unit = 's'); SELECT k FROM o;";
    let ran = folder.run(&["trace", "-e", plain, "--out", "d"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("no view with windows"), "{}", ran.stderr);
}
