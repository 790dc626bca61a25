//! Exit statuses: 0, 1 (the run failed), 2 (query, setting or arguments).

use crate::harness::Folder;
use crate::{COUNTS, TWO, table, table_over, view};
use std::process::Stdio;

#[test]
fn a_run_succeeds() {
    let ran = Folder::with("in.ndjson", TWO).sql(&(table("") + COUNTS), &[]).ok();
    assert_eq!(ran.rows().len(), 2);
    assert!(ran.stderr.starts_with("slackwater: 2 records in "), "{}", ran.stderr);
    assert!(ran.stderr.contains("2 on time, 0 corrected, 0 too late, 0 rejected"), "{}", ran.stderr);
}

#[test]
fn help_and_version_go_to_stdout() {
    let folder = Folder::new();
    for args in
        [&["--help"][..], &["run", "-h"], &["gen", "--help"], &["schema", "-h"], &["explain", "-h"], &["--version"]]
    {
        let ran = folder.run(args).ok();
        assert!(ran.stdout.contains("slackwater") && ran.stderr.is_empty(), "{ran:?}");
    }
    // One screen.
    assert!(folder.run(&["run", "-h"]).ok().stdout.lines().count() <= 36);
    assert!(folder.run(&["--help"]).ok().stdout.contains("Exit status: 0 success"));
}

#[test]
fn input_that_cannot_be_read_fails() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("folder.ndjson")).unwrap();
    let over = |path: &str| folder.sql(&(table_over(&format!("path = '{path}'"), "") + COUNTS), &[]);
    over("missing.ndjson").fails(1, &["missing.ndjson: expected a file, found nothing", "hint: paths are relative to"]);
    over("folder.ndjson").fails(1, &["folder.ndjson: expected a file, found a directory", "folder.ndjson/*.ndjson"]);
    over("no*.ndjson").fails(1, &["expected files like \"no*.ndjson\", found none"]);
    over("fold*.ndjson").fails(1, &["1 directories match"]);
    over("a[.ndjson").fails(2, &["is no pattern of paths"]);
    over("").fails(2, &["option \"path\""]);
    folder.write("plain.ndjson.gz", TWO);
    over("plain.ndjson.gz").fails(1, &["plain.ndjson.gz: cannot read gzip data", "rename it"]);
    folder.write("plain.ndjson.zst", TWO);
    over("plain.ndjson.zst").fails(1, &["plain.ndjson.zst: cannot read zstd data"]);
}

#[test]
fn a_failed_run_leaves_no_file() {
    let folder = Folder::new();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for at in 0..20_000 {
        use std::io::Write;
        writeln!(gzip, "{{\"k\":\"{}\",\"at\":{}}}", at * 7919 % 1000, at * 100).unwrap();
    }
    let bytes = gzip.finish().unwrap();
    folder.write("in.ndjson.gz", &bytes[..bytes.len() / 2]);
    folder.write("kept.csv", "from before\n");
    let sql = table_over("path = 'in.ndjson.gz', rejects = 'rejects.csv'", "")
        + &view("WITH (late = 'late.csv')")
        + "CREATE SINK a FROM v WITH (path = 'changes.ndjson');
           CREATE SINK b FROM v WITH (path = 'kept.csv', mode = 'metrics');";
    for workers in ["1", "3"] {
        let args = ["-w", workers, "--summary", "summary.json"];
        folder.sql(&sql, &args).fails(1, &["in.ndjson.gz: truncated gzip data"]);
        assert_eq!(folder.names(), ["in.ndjson.gz", "kept.csv"], "nothing new, nothing aside");
        assert_eq!(folder.read("kept.csv"), "from before\n", "what was there stays");
    }
}

#[test]
fn the_first_reject_fails_if_told_so() {
    let folder = Folder::with("in.ndjson", format!("{TWO}oops\n"));
    let sql = table(", on_error = 'fail'") + &view("") + "CREATE SINK a FROM v WITH (path = 'out.csv');";
    folder
        .sql(&sql, &[])
        .fails(1, &["in.ndjson:3: not a JSON object: expected value at column 1", "on_error = 'fail'"]);
    assert_eq!(folder.names(), ["in.ndjson"]);
    // A value that does not fit is a reject of the view, and fails as well.
    folder.write("in.ndjson", "{\"k\":\"a\",\"v\":\"many\",\"at\":1}\n");
    folder
        .sql(&sql, &[])
        .fails(1, &["in.ndjson:1: expected a value of BIGINT in column \"v\", found \"many\" (view v)"]);
    // A column that no view uses is not converted.
    let other = table(", on_error = 'fail'") + "SELECT k FROM t";
    folder.sql(&other, &[]).ok();
}

#[test]
fn a_sum_that_does_not_fit_names_key_and_window() {
    let max = i64::MAX;
    let lines: String = [("b", 1), ("a", 1), ("b", max), ("a", max), ("c", max)]
        .iter()
        .map(|(k, v)| format!("{{\"k\":\"{k}\",\"v\":{v},\"at\":1000}}\n"))
        .collect();
    let folder = Folder::with("in.ndjson", lines);
    for workers in ["1", "2", "4"] {
        let parts = [
            "window [1970-01-01T00:00:00Z, 1970-01-01T00:00:10Z), group \"a\": the sum 9223372036854775808 does not fit BIGINT",
            "hint: a sum of CAST(x AS DECIMAL(38,0))",
        ];
        folder.sql(&(table("") + COUNTS), &["-w", workers]).fails(1, &parts);
    }
    let wide = COUNTS.replace("sum(v)", "sum(CAST(v AS DECIMAL(38,0)))");
    assert!(folder.sql(&(table("") + &wide), &[]).ok().stdout.contains("\"s\":9223372036854775808}"));
    // One that only would not fit on the way is no error.
    folder.write(
        "in.ndjson",
        format!("{{\"k\":\"a\",\"v\":{max},\"at\":1}}\n").repeat(2)
            + &format!("{{\"k\":\"a\",\"v\":-{max},\"at\":1}}\n").repeat(2),
    );
    assert_eq!(folder.sql(&(table("") + COUNTS), &[]).ok().rows()[0]["s"], 0);
}

#[test]
fn wrong_queries_show_where_and_what_to_do() {
    let folder = Folder::with("in.ndjson", TWO);
    let ran = folder
        .sql(&(table("") + "\nSELECT kk\nFROM t"), &[])
        .fails(2, &["-e:2:8: unknown column \"kk\"", "hint: did you mean \"k\"?"]);
    assert!(ran.stderr.contains("\n  2 | SELECT kk\n    |        ^^\n"), "{}", ran.stderr);
    folder.write("query.sql", table(", granulrity = '1s'") + COUNTS);
    folder
        .run(&["run", "query.sql"])
        .fails(2, &["query.sql:1:", "unknown option \"granulrity\"", "did you mean \"granularity\"?", "^^^^^^^^^^"]);
    for (sql, parts) in [
        ("", &["query.sql: there is nothing to run"][..]),
        ("SELEC 1", &["query.sql:1:1"]),
        ("SELECT 1", &["query.sql:1:"]),
        ("SELECT k FROM nowhere", &["nowhere"]),
        ("CREATE TABLE t (k TEXT)", &["query.sql:1:"]),
        ("DROP TABLE t", &["query.sql:1:1"]),
        ("\u{0}\u{1}\u{feff}𝕊", &["query.sql:1:"]),
        ("SELECT '", &["query.sql:1:"]),
        ("((((((((((", &["query.sql:1:"]),
    ] {
        folder.write("query.sql", sql);
        folder.run(&["run", "query.sql"]).fails(2, parts);
    }
    folder
        .sql(&format!("{}SELECT {}k{} FROM t", table(""), "(".repeat(5000), ")".repeat(5000)), &[])
        .fails(2, &["nested too deeply"]);
    folder.write("bytes.sql", b"\xff\xfe");
    folder.run(&["run", "bytes.sql"]).fails(2, &["bytes.sql: cannot read the program"]);
}

#[test]
fn wrong_arguments_are_refused() {
    let folder = Folder::with("in.ndjson", TWO);
    let named = table("") + &view("");
    let bare = table("") + COUNTS;
    for (args, parts) in [
        (&["run"][..], &["no program given", "-e SQL"][..]),
        (&["run", "missing.sql"], &["missing.sql: cannot read the program", "use -e"]),
        (&["run", "a.sql", "-e", "b"], &["cannot be used with"]),
        (&["run", "--hozizon", "5s", "-e", &bare], &["--horizon"]),
        (&["rnu"], &["rnu"]),
        (&["run", "-e", &bare, "-w", "0"], &["--workers"]),
        (&["run", "-e", &bare, "-w", "many"], &["--workers"]),
        (&["run", "-e", &bare, "--format", "xml"], &["ndjson, csv, table"]),
        (&["run", "-e", &bare, "--horizon", "5"], &["--horizon: expected a unit", "30s"]),
        (&["run", "-e", &bare, "--horizon=-5s"], &["--horizon: expected a duration of at least 0"]),
        (&["run", "-e", &bare, "--horizon", "99999999999999999999us"], &["--horizon", "64 bits"]),
        (&["run", "-e", &named, "--horizon", "5s"], &["--horizon is for a SELECT without a view", "WITH (horizon"]),
        (&["run", "-e", &named, "--late", "late.csv"], &["--late is for a SELECT without a view"]),
        (&["schema"], &["FILE"]),
        (&["gen", "--rate", "0"], &["\"rate\""]),
        (&["gen", "--late-sharee", "0"], &["--late-share"]),
    ] {
        folder.run(args).fails(2, parts);
    }
    assert_eq!(folder.names(), ["in.ndjson"]);
}

#[test]
fn no_output_replaces_an_input_or_another_output() {
    let folder = Folder::with("in.ndjson", TWO);
    #[cfg(unix)]
    std::os::unix::fs::symlink("in.ndjson", folder.path("link.ndjson")).unwrap();
    folder.write("query.sql", table("") + COUNTS);
    let sink = |path: &str| view("") + &format!("CREATE SINK a FROM v WITH (path = '{path}');");
    let reads = ["would replace what table \"t\" reads"];
    for input in ["in.ndjson", "i*.ndjson", "../*/in.ndjson"] {
        let table = table_over(&format!("path = '{input}'"), "");
        for output in ["in.ndjson", "./in.ndjson", ".//./in.ndjson"] {
            folder.sql(&(table.clone() + &sink(output)), &[]).fails(2, &["in.ndjson"]);
        }
        #[cfg(unix)]
        folder.sql(&(table.clone() + &sink("link.ndjson")), &[]).fails(2, &reads);
        folder.sql(&(table.clone() + COUNTS), &["--summary", "in.ndjson"]).fails(2, &reads);
        folder.sql(&(table.clone() + COUNTS), &["--rejects", "./in.ndjson"]).fails(2, &["in.ndjson"]);
        folder.sql(&(table.clone() + COUNTS), &["--late", "./in.ndjson"]).fails(2, &["in.ndjson"]);
    }
    folder.run(&["run", "query.sql", "--summary", "query.sql"]).fails(2, &["query.sql", "the run itself reads"]);
    for (late, summary) in [("x.json", "./x.json"), ("new/x.json", "./new/./x.json")] {
        folder
            .sql(&(table("") + COUNTS), &["--late", late, "--summary", summary])
            .fails(2, &["two outputs write to the file"]);
    }
    folder.sql(&(table("") + COUNTS), &["--late", "x.json", "--rejects", "x.json"]).fails(2, &["two outputs write"]);
    assert_eq!(folder.read("in.ndjson"), TWO);
    assert_eq!(folder.read("query.sql"), table("") + COUNTS);
}

#[test]
fn outputs_that_cannot_be_written_fail() {
    let folder = Folder::with("in.ndjson", TWO);
    std::fs::create_dir(folder.path("folder.csv")).unwrap();
    let to = |path: &str| {
        folder.sql(&(table("") + &view("") + &format!("CREATE SINK a FROM v WITH (path = '{path}');")), &[])
    };
    to("folder.csv").fails(1, &["folder.csv: expected a file to write, found a directory"]);
    to("in.ndjson/x.csv").fails(1, &["in.ndjson/x.csv: cannot create the file"]);
    folder.sql(&(table("") + COUNTS), &["--summary", "folder.csv"]).fails(1, &["folder.csv: expected a file to write"]);
    #[cfg(target_os = "linux")]
    {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        for args in [vec!["run", "-e"], vec!["explain", "-e"]] {
            let mut command = folder.command(&args);
            let output = command.arg(table("") + COUNTS).stdout(full.try_clone().unwrap()).output().unwrap();
            assert_eq!(output.status.code(), Some(1));
            assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"), "{output:?}");
        }
    }
}

/// What fails after the aggregation is named whole: view, window, group, column, and what to do.
#[test]
fn a_result_that_cannot_be_computed_names_its_column() {
    let line = |v: i64| format!("{{\"k\":\"a\",\"v\":{v},\"at\":1000}}\n");
    let folder = Folder::with("in.ndjson", line(i64::MAX));
    let view = |select: &str, having: &str| {
        format!(
            "CREATE MATERIALIZED VIEW v AS SELECT k, window_start, {select} FROM TUMBLE(t, at, INTERVAL '10 seconds')
            GROUP BY k, window_start {having}; CREATE SINK a FROM v WITH (connector = 'stdout');"
        )
    };
    let place = "view v, window [1970-01-01T00:00:00Z, 1970-01-01T00:00:10Z), group \"a\": ";
    let wider = "hint: compute it in a wider type (CAST to DECIMAL or DOUBLE), or leave such results out: CASE, HAVING";
    for (select, having, what) in [
        ("count(*) AS n, sum(v) + 1 AS \"one more\"", "", "BIGINT out of range (column \"one more\")"),
        ("CAST(max(v) AS DECIMAL(5,2)) AS d", "", "DECIMAL(5,2) out of range (column \"d\")"),
        ("count(*) AS n", "HAVING sum(v) + 1 > 0", "BIGINT out of range (HAVING)"),
    ] {
        let found = folder.sql(&(table("") + &view(select, having)), &[]);
        found.fails(1, &[&format!("error: {place}{what}\n{wider}")]);
    }
    let bare = "SELECT window_start, sum(v) + 1 AS s FROM TUMBLE(t, at, INTERVAL '10 seconds') GROUP BY window_start";
    let whole =
        "error: query 1, window [1970-01-01T00:00:00Z, 1970-01-01T00:00:10Z): BIGINT out of range (column \"s\")\n";
    folder.sql(&(table("") + bare), &[]).fails(1, &[whole]);
    // A sum of its own: the column that shows it, or HAVING.
    folder.write("in.ndjson", line(i64::MAX).repeat(2));
    for (select, having, of) in
        [("count(*) AS n, sum(v) AS s", "", "column \"s\""), ("count(*) AS n", "HAVING sum(v) > 0", "HAVING")]
    {
        let whole =
            format!("error: {place}the sum 18446744073709551614 does not fit BIGINT ({of})\nhint: a sum of CAST");
        folder.sql(&(table("") + &view(select, having)), &[]).fails(1, &[&whole]);
    }
}

/// Whoever finds a reject first: the run names the first of the file.
#[test]
fn on_error_fail_names_the_first_reject() {
    let text: String =
        (1..=20_000).map(|i| if i % 3_000 == 0 { "bad\n".into() } else { format!("{{\"at\":{i}}}\n") }).collect();
    let folder = Folder::with("in.ndjson", text);
    let sql = "CREATE TABLE t (at TIMESTAMP, WATERMARK FOR at AS at) WITH (path = 'in.ndjson', on_error = 'fail');
        SELECT window_start, count(*) AS n FROM TUMBLE(t, at, '10s') GROUP BY window_start";
    for workers in ["1", "2", "4", "4", "4"] {
        let ran = folder.run(&["run", "-e", sql, "-w", workers, "--block-bytes", "2000"]);
        assert_eq!(ran.status, 1);
        assert!(ran.stderr.contains("error: in.ndjson:3000: "), "{workers} workers: {}", ran.stderr);
    }
}

/// `n` lines, those of `broken` being no JSON, those of `odd` having a value that does not fit.
fn with_rejects(n: u64, broken: &[u64], odd: &[u64]) -> String {
    let line = |i: u64| match (broken.contains(&i), odd.contains(&i)) {
        (true, _) => format!("bad {i}\n"),
        (_, true) => format!("{{\"at\":{},\"v\":\"odd {i}\"}}\n", i * 100),
        _ => format!("{{\"at\":{},\"v\":{i}}}\n", i * 100),
    };
    (1..=n).map(line).collect()
}

/// Of several files, and tables, the least reject by its line is named: with any number of threads and processes, and blocks of
/// any size, in the same bytes.
#[test]
fn on_error_fail_names_the_least_reject_of_all_files() {
    let of = |name: &str, watermark: &str, select: &str| {
        format!(
            "CREATE TABLE {name} (at TIMESTAMP, v BIGINT{watermark}) WITH (path = '{name}*.ndjson', on_error = 'fail');
            CREATE MATERIALIZED VIEW {name}_v AS SELECT {select};
            CREATE SINK {name}_out FROM {name}_v WITH (connector = 'stdout');"
        )
    };
    let windows = "window_start, sum(v) AS s FROM TUMBLE(t, at, '10s') GROUP BY 1";
    let timed = of("t", ", WATERMARK FOR at AS at", windows);
    let untimed = of("u", "", "1000 / (v - 77) AS q FROM u");
    let file = |name: &str, broken: &[u64], odd: &[u64]| (name.to_owned(), with_rejects(700, broken, odd));
    let cases = [
        // The last file has the first of all; one of a view, one of the table in the same place.
        (
            &timed,
            vec![file("t1", &[600], &[]), file("t2", &[], &[300, 301]), file("t3", &[299, 300], &[])],
            "t3.ndjson:299: not a JSON object",
        ),
        (
            &timed,
            vec![file("t1", &[], &[2]), file("t2", &[2], &[]), file("t3", &[], &[])],
            "t1.ndjson:2: expected a value of BIGINT",
        ),
        // A short file that is read to its end at once.
        (
            &timed,
            vec![file("t1", &[500], &[]), file("t2", &[650], &[]), ("t3".to_owned(), with_rejects(9, &[], &[9]))],
            "t3.ndjson:9: expected a value of BIGINT",
        ),
        // Read one after another, and yet the least of all; an expression of the view that fails.
        (&untimed, vec![file("u1", &[400], &[]), file("u2", &[], &[])], "u1.ndjson:77: division by zero (view u_v)"),
        (&untimed, vec![file("u1", &[40], &[]), file("u2", &[3], &[])], "u2.ndjson:3: not a JSON object"),
    ];
    let mut cases: Vec<_> = cases.into_iter().map(|(sql, files, least)| (sql.clone(), files, least)).collect();
    // Two tables: in the same place, the first of the program.
    let both = vec![file("t1", &[80], &[]), file("t2", &[90], &[]), file("u1", &[], &[])];
    cases.push((untimed.clone() + &timed, both.clone(), "u1.ndjson:77: division by zero"));
    cases.push((
        timed.clone() + &untimed,
        vec![file("t1", &[77], &[]), both[2].clone()],
        "t1.ndjson:77: not a JSON object",
    ));
    for (sql, files, least) in cases {
        let folder = Folder::new();
        files.iter().for_each(|(name, text)| folder.write(&format!("{name}.ndjson"), text));
        let mut expected = None;
        let ways = ["-w 1", "-w 2", "-w 4", "--local-processes 1", "--local-processes 2 -w 2", "--local-processes 3"];
        for way in ways.iter().flat_map(|way| [(way, "64"), (way, "1000"), (way, "1048576")]) {
            let mut args = vec!["run", "-e", &sql, "--block-bytes", way.1];
            args.extend(way.0.split(' '));
            let ran = folder.run(&args);
            assert!(ran.stderr.starts_with(&format!("error: {least}")), "{way:?}: {}, expected {least}", ran.stderr);
            let found = (ran.status, ran.stderr);
            assert_eq!(*expected.get_or_insert_with(|| found.clone()), found, "{way:?}");
        }
        assert_eq!(expected.map(|(status, _)| status), Some(1));
    }
}

/// Standard input that is silent is not waited for.
#[test]
fn a_live_input_does_not_keep_a_reject_from_failing_the_run() {
    let folder = Folder::with("in.ndjson", with_rejects(9, &[5], &[]));
    let sql = "CREATE TABLE t (at TIMESTAMP, WATERMARK FOR at AS at) WITH (path = 'in.ndjson', on_error = 'fail');
        CREATE TABLE u (at TIMESTAMP, WATERMARK FOR at AS at) WITH (connector = 'stdin', format = 'json', on_error = 'fail');
        CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) AS n FROM TUMBLE(t, at, '10s') GROUP BY 1;
        CREATE MATERIALIZED VIEW w AS SELECT window_start, count(*) AS n FROM TUMBLE(u, at, '10s') GROUP BY 1;
        CREATE SINK a FROM v WITH (path = 'a.csv');
        CREATE SINK b FROM w WITH (path = 'b.csv');";
    for workers in ["1", "2"] {
        let mut command = folder.command(&["run", "-e", sql, "-w", workers]);
        // The pipe stays open and empty.
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let silent = child.stdin.take();
        let output = child.wait_with_output().expect("the binary ends");
        drop(silent);
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.starts_with("error: in.ndjson:5: not a JSON object"), "{stderr}");
    }
}
