//! `gen`, the generator as a source, and that both give the same.

use crate::harness::{Folder, balanced};

const COUNTS: &str = "CREATE MATERIALIZED VIEW v WITH (horizon = '5s', late = 'late.csv') AS
    SELECT customer_id, window_start, window_end, count(*) AS n, sum(amount) AS total
    FROM HOP(g, event_time, INTERVAL '5 s', INTERVAL '10 s') GROUP BY customer_id, window_start, window_end;";

const SETTINGS: [&str; 10] =
    ["--rows", "1000", "--keys", "20", "--rate", "20", "--late-share", "0.1", "--late-max", "1m"];

const COLUMNS: &str = "order_id BIGINT, customer_id BIGINT, amount DECIMAL(12,2), event_time TIMESTAMP, arrival_time TIMESTAMP, \
                       WATERMARK FOR event_time AS event_time - INTERVAL '1 s'";

/// Runs over an input for several numbers of workers and block sizes, which must not matter; gives changelog and late output.
fn run(folder: &Folder, table: &str) -> (String, String) {
    let mut first = None;
    for (workers, block) in [("1", "1048576"), ("3", "500")] {
        let args = ["-w", workers, "--block-bytes", block, "--summary", "s.json"];
        let ran = folder.sql(&format!("{table}; {COUNTS}"), &args).ok();
        let ledger = balanced(&folder.json("s.json"));
        assert_eq!(ledger["records"]["read"], 1000);
        assert_eq!(ledger["records"]["rejected"].as_object().unwrap().len(), 0);
        let found = (ran.stdout, folder.read("late.csv"));
        assert!(found.0.contains("\"+U\"") && found.1.lines().count() > 1);
        let same = first.get_or_insert_with(|| found.clone());
        assert!(*same == found, "{workers} workers, blocks of {block}");
    }
    first.unwrap()
}

fn write(folder: &Folder, more: &[&str]) {
    let mut args = vec!["gen"];
    args.extend(SETTINGS);
    args.extend(more);
    assert_eq!(folder.run(&args).ok().stdout, "");
}

#[test]
fn what_gen_writes_is_what_the_source_gives() {
    let folder = Folder::new();
    let source = run(
        &folder,
        "CREATE TABLE g WITH (connector = 'generator', rows = 1000, keys = 20, rate = 20, late_share = 0.1, late_max = '1m')",
    );
    for file in ["orders.ndjson", "orders.csv.gz", "orders.ndjson.zst"] {
        write(&folder, &["--out", file]);
        let from_file = run(&folder, &format!("CREATE TABLE g ({COLUMNS}) WITH (path = '{file}')"));
        assert!(from_file.0 == source.0, "{file}");
    }
    assert_eq!(folder.names(), ["late.csv", "orders.csv.gz", "orders.ndjson", "orders.ndjson.zst", "s.json"]);
    // The same again on standard output.
    let mut args = vec!["gen"];
    args.extend(SETTINGS);
    assert!(folder.run(&args).ok().stdout == folder.read("orders.ndjson"));
    args.extend(["--seed", "2"]);
    assert!(folder.run(&args).ok().stdout != folder.read("orders.ndjson"));
}

#[test]
fn partitions_as_files_and_as_a_column() {
    let folder = Folder::new();
    let silent = ["--partitions", "3", "--silent-every", "5s", "--silent-for", "3s"];
    write(&folder, &[&silent[..], &["--out", "part.ndjson"]].concat());
    assert_eq!(folder.names(), ["part-0.ndjson", "part-1.ndjson", "part-2.ndjson"]);
    run(&folder, &format!("CREATE TABLE g ({COLUMNS}) WITH (path = 'part-*.ndjson')"));
    let idle = "arrival_time = 'arrival_time', idle_timeout = '2s'";
    let by_files = run(&folder, &format!("CREATE TABLE g ({COLUMNS}) WITH (path = 'part-*.ndjson', {idle})"));
    write(&folder, &[&silent[..], &["--partition-column", "--out", "one.csv"]].concat());
    let by_column = run(
        &folder,
        &format!(
            "CREATE TABLE g ({COLUMNS}, partition TEXT) WITH (path = 'one.csv', partition = 'partition', partitions = '0,1,2', {idle})"
        ),
    );
    assert!(by_files.0 == by_column.0, "in source scope it is the same trace");
    folder.run(&["gen", "--rows", "1", "--partitions", "2"]).fails(2, &["a file each", "--partition-column"]);
}

#[test]
fn nexmark_from_files_is_what_the_source_gives() {
    let folder = Folder::new();
    let columns = "kind TEXT, auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, url TEXT, seller BIGINT, category BIGINT, \
                   initial_bid BIGINT, reserve BIGINT, expires TIMESTAMP, person BIGINT, name TEXT, city TEXT, state TEXT, \
                   date_time TIMESTAMP, extra TEXT, WATERMARK FOR date_time AS date_time - INTERVAL '1 s'";
    let all =
        |with: &str| folder.sql(&format!("CREATE TABLE g ({columns}) WITH ({with}); SELECT * FROM g"), &[]).ok().rows();
    let source = all(
        "connector = 'generator', workload = 'nexmark', rows = 1000, rate = 100, late_share = 0.1, late_max = '5s'",
    );
    assert_eq!(source.len(), 1_000);
    assert_eq!(source.iter().filter(|row| row["kind"] == "bid").count(), 920);
    let settings = ["gen", "nexmark", "--rows", "1000", "--rate", "100", "--late-share", "0.1", "--late-max", "5s"];
    for file in ["nexmark.ndjson", "nexmark.csv.gz"] {
        folder.run(&[&settings[..], &["--out", file]].concat()).ok();
        assert!(all(&format!("path = '{file}'")) == source, "{file}");
    }
    folder.run(&[&settings[..], &["--partitions", "2", "--out", "part.csv"]].concat()).ok();
    let lines = |file: &str| folder.read(file).lines().count() - 1;
    assert_eq!(lines("part-0.csv") + lines("part-1.csv"), 1_000);
    assert!(folder.read("part-0.csv").starts_with("kind,auction,bidder,price,channel,url,"));
    folder.run(&["gen", "nexmark", "--keys", "5"]).fails(2, &["--keys is for orders", "--rate"]);
    folder.run(&["gen", "nexmark", "--format", "parquet"]).fails(2, &["NEXMark", "ndjson or csv"]);
    folder.run(&["gen", "people"]).fails(2, &["nexmark"]);
}

#[test]
fn gen_fails_cleanly() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("folder.csv")).unwrap();
    folder.run(&["gen", "--rows", "1", "--out", "folder.csv"]).fails(1, &["folder.csv"]);
    folder.run(&["gen", "--rows", "1", "--start", "soon"]).fails(2, &["--start"]);
    assert_eq!(folder.run(&["gen", "--rows", "0"]).ok().stdout, "");
    let sql = "CREATE TABLE g (nothing TEXT) WITH (connector = 'generator'); SELECT nothing FROM g";
    folder.sql(sql, &[]).fails(2, &["the generator has no column \"nothing\"", "customer_id"]);
    let sql = "CREATE TABLE g WITH (connector = 'generator', late_share = 2); SELECT order_id FROM g";
    folder.sql(sql, &[]).fails(2, &["late_share"]);
}
