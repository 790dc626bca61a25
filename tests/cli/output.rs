//! What a run writes: formats, sinks, late and reject files, the summary.

use crate::harness::{Folder, balanced};
use crate::{COUNTS, TWO, table, view};
use serde_json::json;

/// The orders example's shape: a first result, a correction, and one record too late.
const LATE: &str = "{\"k\":\"a\",\"v\":1,\"at\":1000}\n{\"k\":\"a\",\"v\":2,\"at\":15000}\n{\"k\":\"a\",\"v\":3,\"at\":2000}\n\
                    {\"k\":\"a\",\"v\":4,\"at\":60000}\n{\"k\":\"a\",\"v\":5,\"at\":3000}\n";

#[test]
fn formats_of_stdout() {
    let folder = Folder::with("in.ndjson", LATE);
    let run = |args: &[&str]| folder.sql(&(table("") + COUNTS), args).ok().stdout;
    let ndjson = run(&["--horizon", "20s"]);
    assert_eq!(ndjson, run(&["--horizon", "20s", "--format", "ndjson"]), "a pipe gets NDJSON");
    assert_eq!(
        ndjson.lines().nth(1).unwrap(),
        "{\"op\":\"-U\",\"watermark\":\"1970-01-01T00:00:15Z\",\"revision\":0,\"late_count\":0,\"k\":\"a\",\
         \"window_start\":\"1970-01-01T00:00:00Z\",\"window_end\":\"1970-01-01T00:00:10Z\",\"n\":1,\"s\":1}"
    );
    assert_eq!(
        run(&["--horizon", "20s", "--format", "csv"]),
        "op,watermark,revision,late_count,k,window_start,window_end,n,s\n\
         +I,1970-01-01T00:00:10Z,0,0,a,1970-01-01T00:00:00Z,1970-01-01T00:00:10Z,1,1\n\
         -U,1970-01-01T00:00:15Z,0,0,a,1970-01-01T00:00:00Z,1970-01-01T00:00:10Z,1,1\n\
         +U,1970-01-01T00:00:15Z,1,1,a,1970-01-01T00:00:00Z,1970-01-01T00:00:10Z,2,4\n\
         +I,1970-01-01T00:00:20Z,0,0,a,1970-01-01T00:00:10Z,1970-01-01T00:00:20Z,1,2\n\
         +I,1970-01-01T00:01:10Z,0,0,a,1970-01-01T00:01:00Z,1970-01-01T00:01:10Z,1,4\n"
    );
    let drawn = run(&["--horizon", "20s", "--format", "table"]);
    assert!(drawn.contains("late_count") && drawn.contains("1970-01-01T00:00:15Z"), "{drawn}");
    // Without a horizon nothing is corrected.
    assert_eq!(run(&[]).lines().count(), 3);
}

#[test]
fn the_late_output_says_what_was_dropped() {
    let folder = Folder::with("in.ndjson", LATE);
    let sql = table("") + COUNTS;
    folder.sql(&sql, &["--horizon", "20s", "--late", "late.ndjson"]).ok();
    assert_eq!(
        folder.rows("late.ndjson"),
        [
            json!({"partition": "in.ndjson", "position": 5, "event_time": "1970-01-01T00:00:03Z", "stamp": "1970-01-01T00:01:00Z",
                "window_start": "1970-01-01T00:00:00Z", "window_end": "1970-01-01T00:00:10Z", "lag_us": 50_000_000, "k": "a", "v": 5})
        ]
    );
    folder.sql(&sql, &["--late", "out/late.csv"]).ok();
    assert_eq!(
        folder.read("out/late.csv"),
        "partition,position,event_time,stamp,window_start,window_end,lag_us,k,v\n\
         in.ndjson,3,1970-01-01T00:00:02Z,1970-01-01T00:00:15Z,1970-01-01T00:00:00Z,1970-01-01T00:00:10Z,5000000,a,3\n\
         in.ndjson,5,1970-01-01T00:00:03Z,1970-01-01T00:01:00Z,1970-01-01T00:00:00Z,1970-01-01T00:00:10Z,50000000,a,5\n"
    );
    // Under the strict rule there is no window to name, and the lag is counted from the record's own time.
    let strict = table(", late_records = 'drop'") + COUNTS;
    let ran = folder.sql(&strict, &["--late", "strict.ndjson", "--horizon", "1m"]).ok();
    assert!(ran.stderr.contains("warning: ") && ran.stderr.contains("horizon has no effect"), "{}", ran.stderr);
    let rows = folder.rows("strict.ndjson");
    assert_eq!(rows[0]["window_end"], json!(null));
    assert_eq!(rows.iter().map(|r| r["lag_us"].clone()).collect::<Vec<_>>(), [13_000_000, 57_000_000]);
}

#[test]
fn every_mode_of_a_file_sink() {
    let folder = Folder::with("in.ndjson", LATE);
    let sql = table("")
        + &view("WITH (horizon = '20s', spike_above = 0)")
        + "CREATE SINK a FROM v WITH (path = 'new/folder/changes.csv');
           CREATE SINK b FROM v WITH (path = 'metrics.csv', mode = 'metrics');
           CREATE SINK c FROM v WITH (path = 'backfills.csv', mode = 'backfills');
           CREATE SINK d FROM v WITH (path = 'metrics.ndjson', mode = 'metrics');
           CREATE SINK e FROM v WITH (path = 'backfills.txt', mode = 'backfills');
           CREATE SINK f FROM v WITH (connector = 'stdout', mode = 'metrics');";
    let ran = folder.sql(&sql, &["-q"]).ok();
    assert_eq!(ran.stderr, "");
    assert_eq!(folder.read("new/folder/changes.csv").lines().count(), 6);
    assert_eq!(
        folder.read("metrics.csv"),
        "k,window_start,window_end,n,s,late_count,revision\n\
         a,1970-01-01T00:00:00Z,1970-01-01T00:00:10Z,2,4,1,1\n\
         a,1970-01-01T00:00:10Z,1970-01-01T00:00:20Z,1,2,0,0\n\
         a,1970-01-01T00:01:00Z,1970-01-01T00:01:10Z,1,4,0,0\n"
    );
    assert_eq!(
        folder.read("backfills.csv"),
        "k,window_start,window_end,late_count,first_corrected_at,last_corrected_at,first_n,latest_n,first_s,latest_s,status\n\
         a,1970-01-01T00:00:00Z,1970-01-01T00:00:10Z,1,1970-01-01T00:00:15Z,1970-01-01T00:00:15Z,1,2,1,4,spike\n"
    );
    assert!(folder.read("backfills.txt").contains("spike"));
    assert_eq!(ran.stdout, folder.read("metrics.ndjson"));
    // A file that is there is replaced.
    folder.write("metrics.csv", "old".repeat(10_000));
    folder.sql(&sql, &[]).ok();
    assert_eq!(folder.read("metrics.csv").lines().count(), 4);
    let odd = table("") + &view("") + "CREATE SINK a FROM v WITH (path = 'x.unknown');";
    folder.sql(&odd, &[]).fails(2, &["the format of 'x.unknown' is not known by its suffix"]);
}

#[test]
fn the_summary_balances() {
    let folder = Folder::with(
        "in.ndjson",
        format!("oops\n{LATE}{{\"k\":\"no\",\"v\":1,\"at\":60000}}\n{{\"k\":\"a\",\"v\":\"x\",\"at\":60000}}\n"),
    );
    let filtered = view("WITH (horizon = '20s')").replace("GROUP BY", "WHERE k <> 'no' GROUP BY");
    let ran = folder.sql(&(table("") + &filtered), &["--summary", "s.json"]).ok();
    let summary = folder.json("s.json");
    assert_eq!((&summary["complete"], &summary["records"]), (&json!(true), &json!(8)));
    let ledger = balanced(&summary);
    assert_eq!(
        ledger["records"],
        json!({"read": 8, "on_time": 3, "corrected": 1, "partly_too_late": 0, "too_late": 1, "filtered": 1,
               "rejected": {"syntax": 1, "value": 1}})
    );
    assert_eq!(ledger["contributions"], json!({"on_time": 3, "late": 1, "too_late": 1}));
    let view = &summary["views"][0];
    assert_eq!(
        (&view["name"], &view["windows"]["published"], &view["windows"]["corrections"]),
        (&json!("v"), &json!(3), &json!(1))
    );
    assert_eq!(view["late_lag"]["count"], 2);
    let source = &summary["sources"][0];
    assert_eq!((&source["watermark"], &source["newest_event"]), (&json!("infinity"), &json!("1970-01-01T00:01:00Z")));
    assert!(summary["physical"]["elapsed_s"].is_number() && summary["physical"]["memory_bytes_max"].is_number());
    assert!(
        ran.stderr
            .contains("v: 3 on time, 1 corrected, 1 too late, 1 filtered, 2 rejected · 3 windows closed, 1 corrected"),
        "{}",
        ran.stderr
    );
    assert!(folder.sql(&(table("") + COUNTS), &["-q", "--summary", "s.json"]).ok().stderr.starts_with("t: 2 rejected"));
}

#[test]
fn several_views_share_a_table() {
    let folder = Folder::with("in.ndjson", LATE);
    let sql = table("")
        + "CREATE MATERIALIZED VIEW a AS SELECT count(*) AS n FROM TUMBLE(t, at, INTERVAL '10 s') GROUP BY window_start;
           CREATE MATERIALIZED VIEW b WITH (horizon = '1h') AS SELECT k, sum(v) AS s FROM HOP(t, at, INTERVAL '5 s', INTERVAL '10 s') WHERE v > 1 GROUP BY k, window_start HAVING sum(v) > 2;
           CREATE MATERIALIZED VIEW c AS SELECT v, 100 / (v - 4) AS q FROM t WHERE k = 'a';
           CREATE SINK a1 FROM a WITH (path = 'a.csv'); CREATE SINK b1 FROM b WITH (path = 'b.csv', mode = 'metrics'); CREATE SINK c1 FROM c WITH (path = 'c.csv');";
    for workers in ["1", "3"] {
        let ran = folder.sql(&sql, &["-w", workers, "--summary", "s.json"]).ok();
        let summary = folder.json("s.json");
        balanced(&summary);
        let classes = |view: usize| summary["views"][view]["ledger"]["records"].clone();
        assert_eq!(
            (&classes(0)["too_late"], &classes(1)["too_late"], &classes(2)["on_time"]),
            (&json!(2), &json!(0), &json!(4))
        );
        assert_eq!(classes(1)["filtered"], 1);
        assert_eq!(classes(2)["rejected"], json!({"value": 1}), "division by zero is a reject of the view");
        assert!(ran.stderr.contains("in.ndjson:4: division by zero (view c)"), "{}", ran.stderr);
        assert_eq!(folder.read("c.csv").lines().count(), 5);
        assert_eq!(folder.read("a.csv").lines().count(), 4);
    }
}

#[test]
fn rows_pass_through_at_their_stamps() {
    let folder = Folder::with("in.ndjson", LATE);
    let ran = folder.sql(&(table("") + "SELECT k, v * 2 AS twice FROM t WHERE v <> 4"), &[]).ok();
    let found: Vec<_> =
        ran.rows().iter().map(|r| (r["op"].clone(), r["watermark"].clone(), r["twice"].clone())).collect();
    let row = |at: &str, twice: i64| (json!("+I"), json!(format!("1970-01-01T00:{at}Z")), json!(twice));
    assert_eq!(found, [row("00:01", 2), row("00:15", 4), row("00:15", 6), row("01:00", 10)]);
}

#[test]
fn names_that_need_quotes() {
    let folder = Folder::with("in.ndjson", "{\"select\":1,\"a\\\"b\":\"x\",\"at\":1}\n");
    let sql = "CREATE TABLE \"my table\" (\"select\" BIGINT, \"a\"\"b\" TEXT, at TIMESTAMP, WATERMARK FOR at AS at) WITH (path = 'in.ndjson'); \
               CREATE MATERIALIZED VIEW \"v \"\"1\"\"\nx\" AS SELECT \"a\"\"b\" AS \"c,\"\"d\n\", sum(\"select\") AS \"sum\" \
               FROM TUMBLE(\"my table\", at, INTERVAL '1 s') GROUP BY \"a\"\"b\", window_start; \
               CREATE SINK s FROM \"v \"\"1\"\"\nx\" WITH (path = 'out.csv', mode = 'metrics');";
    let ran = folder.sql(sql, &[]).ok();
    assert_eq!(ran.stderr.lines().count(), 1, "a name cannot break the summary line: {}", ran.stderr);
    assert!(folder.read("out.csv").contains("\"c,\"\"d\n\""), "{}", folder.read("out.csv"));
}

#[test]
fn warnings_come_before_the_run() {
    let folder = Folder::with("in.ndjson", TWO);
    let ran = folder.sql(&(table("") + &view("") + COUNTS), &[]).ok();
    assert!(ran.stderr.starts_with("warning: view \"v\" has no sink: its results are not written\n"), "{}", ran.stderr);
    let two = table("") + &view("") + &view("").replace("VIEW v", "VIEW w");
    folder.sql(&two, &[]).fails(2, &["2 views and no sink", "CREATE SINK out FROM v"]);
}

#[test]
fn outputs_are_not_compressed() {
    let folder = Folder::with("in.ndjson", TWO);
    let hint = "hint: leave the suffix out, and compress the file afterwards";
    for (sql, more, said) in [
        (table("") + COUNTS, &["--late", "late.csv.gz"][..], "--late late.csv.gz: outputs are not compressed"),
        (table("") + COUNTS, &["--rejects", "r.zst"], "--rejects r.zst: outputs are not compressed"),
        (table("") + COUNTS, &["--summary", "s.json.GZ"], "--summary s.json.GZ: outputs are not compressed"),
        (table(", rejects = 'r.gz'") + COUNTS, &[], "outputs are not compressed"),
        (table("") + &view("WITH (late = 'l.zst')"), &[], "outputs are not compressed"),
        (
            table("") + &view("") + "CREATE SINK a FROM v WITH (path = 'a.gz', format = 'csv');",
            &[],
            "outputs are not compressed",
        ),
    ] {
        folder.sql(&sql, more).fails(2, &[said, hint]);
    }
    assert_eq!(folder.names(), ["in.ndjson"]);
}

/// What is written last fails: nothing of the run is there.
#[cfg(target_os = "linux")]
#[test]
fn outputs_come_together_or_not_at_all() {
    let folder = Folder::with("in.ndjson", LATE);
    let sql = table(", rejects = 'rejects.csv'")
        + &view("WITH (late = 'late.csv')")
        + "CREATE SINK a FROM v WITH (path = 'a.csv'); CREATE SINK b FROM v WITH (path = 'b.csv', mode = 'metrics');";
    folder.write("a.csv", "old");
    folder.sql(&sql, &["--summary", "/dev/full"]).fails(1, &["error: /dev/full: cannot write: No space left"]);
    assert_eq!((folder.read("a.csv").as_str(), folder.names()), ("old", vec!["a.csv".into(), "in.ndjson".into()]));
    // A path that cannot be written is found before anything is read.
    let early =
        folder.sql(&sql, &["--summary", "in.ndjson/s.json"]).fails(1, &["in.ndjson/s.json: cannot create the file"]);
    assert_eq!(early.stdout, "");
}

/// A disk that is full: what is said names the output, not the temporary file.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_of_the_output() {
    let records: String = (0..500).map(|i| format!("{{\"k\":\"key {i}\",\"v\":1,\"at\":1000}}\n")).collect();
    let folder = Folder::with("in.ndjson", records);
    let limited = "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\"";
    for sink in ["path = 'out.csv'", "path = 'out.ndjson', mode = 'metrics'"] {
        let sql = table("") + &view("") + &format!("CREATE SINK a FROM v WITH ({sink});");
        let command = folder.command(&["run", "-e", &sql]);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", limited]).arg(command.get_program()).args(command.get_args());
        let output = shell.current_dir(folder.path("")).output().expect("sh");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.starts_with("error: out.") && stderr.contains(": cannot write: File too large"), "{stderr}");
        assert!(!stderr.contains("tmp"), "{stderr}");
        assert_eq!(folder.names(), ["in.ndjson"]);
    }
}

/// Long names, links and modes of what is replaced.
#[cfg(unix)]
#[test]
fn outputs_stand_where_and_as_they_should() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::with("in.ndjson", LATE);
    let long = "x".repeat(251) + ".csv";
    symlink("not-there-yet.csv", folder.path("late.csv")).unwrap();
    folder.write("summary.json", "");
    std::fs::set_permissions(folder.path("summary.json"), PermissionsExt::from_mode(0o600)).unwrap();
    let sql = table("") + &view("WITH (late = 'late.csv')") + &format!("CREATE SINK a FROM v WITH (path = '{long}');");
    folder.sql(&sql, &["--summary", "summary.json"]).ok();
    assert_eq!(folder.read(&long).lines().count(), 4);
    assert!(folder.path("late.csv").is_symlink());
    assert_eq!(folder.read("not-there-yet.csv").lines().count(), 3);
    let mode = folder.path("summary.json").metadata().unwrap().permissions().mode();
    assert_eq!((mode & 0o777, &folder.json("summary.json")["complete"]), (0o600, &json!(true)));
    assert_eq!(folder.names().len(), 5, "{:?}", folder.names());
    // The link and what it leads to are one file.
    let both = sql.replace(&long, "not-there-yet.csv");
    std::fs::remove_file(folder.path("not-there-yet.csv")).unwrap();
    folder.sql(&both, &[]).fails(2, &["two outputs write to the file \"late.csv\""]);
}
