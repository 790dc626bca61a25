//! Runs that end early: Ctrl-C, and a reader that goes away.

use crate::harness::{Folder, balanced};
use crate::{table_over, view};
use std::io::{BufRead, BufReader, Read, Write};
#[cfg(unix)]
use std::process::Child;
use std::process::Stdio;

#[cfg(unix)]
fn named_pipe(folder: &Folder, name: &str) {
    assert!(std::process::Command::new("mkfifo").arg(folder.path(name)).status().expect("mkfifo").success());
}

/// Interrupts a run that watches for it; the summary line must come at once.
#[cfg(unix)]
fn interrupt(mut child: Child) -> String {
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let deadline = std::time::Duration::from_secs(20);
    let step = std::time::Duration::from_millis(20);
    let mut waited = std::time::Duration::ZERO;
    while child.try_wait().unwrap().is_none() {
        if waited > deadline {
            child.kill().unwrap();
            panic!("the first Ctrl-C does not end the run");
        }
        std::thread::sleep(step);
        waited += step;
    }
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    stderr
}

#[cfg(unix)]
fn gzip_piece(text: &str) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

/// A named pipe is read as it fills, compressed or not.
#[cfg(unix)]
#[test]
fn a_named_pipe_gives_what_it_has() {
    let text = "{\"k\":\"a\",\"at\":1000}\n{\"k\":\"a\",\"at\":20000}\n{\"k\":\"a\",\"at\":30000}\n";
    let zstd = || {
        // Flushed, not finished: the end of the frame comes when the pipe is closed.
        let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        zstd.write_all(text.as_bytes()).unwrap();
        zstd.flush().unwrap();
        let flushed = zstd.get_ref().clone();
        let mut rest = zstd.finish().unwrap();
        (flushed.clone(), rest.split_off(flushed.len()))
    };
    for (name, (first, last)) in [
        ("in.ndjson", (text.as_bytes().to_vec(), Vec::new())),
        ("in.ndjson.gz", (gzip_piece(text), gzip_piece(""))),
        ("in.ndjson.zst", zstd()),
    ] {
        let folder = Folder::new();
        named_pipe(&folder, name);
        let sql = table_over(&format!("path = '{name}'"), "") + crate::COUNTS;
        let mut child = folder.command(&["run", "-q", "-e", &sql]).stdout(Stdio::piped()).spawn().unwrap();
        let mut pipe = std::fs::File::options().write(true).open(folder.path(name)).unwrap();
        pipe.write_all(&first).unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        assert!(line.contains("\"n\":1"), "{name}: {line}");
        pipe.write_all(&last).unwrap();
        drop(pipe);
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        assert_eq!((child.wait().unwrap().code(), rest.lines().count()), (Some(0), 2), "{name}");
    }
}

/// Nothing waits for a pipe in which nothing comes: neither another table nor another file, nor Ctrl-C.
#[cfg(unix)]
#[test]
fn a_silent_pipe_holds_up_nothing_else() {
    for name in ["pipe.ndjson", "pipe.ndjson.gz", "pipe.ndjson.zst"] {
        let records: String = (0..100).map(|i| format!("{{\"k\":\"a\",\"at\":{}}}\n", 1000 * i)).collect();
        let folder = Folder::with("in.ndjson", records);
        named_pipe(&folder, name);
        // Nobody opens the other end.
        let other = table_over(&format!("path = '{name}'"), "").replace("TABLE t", "TABLE silent");
        let sql = crate::table("")
            + &other
            + &view("")
            + &view("").replace("VIEW v", "VIEW w").replace("TUMBLE(t,", "TUMBLE(silent,")
            + "CREATE SINK a FROM v WITH (connector = 'stdout'); CREATE SINK b FROM w WITH (path = 'w.csv');";
        let run = |sql: &str, workers: &str, block_bytes: &str| {
            let mut command = folder.command(&["run", "-e", sql, "-w", workers, "--block-bytes", block_bytes]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut child = run(&sql, "1", "64");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        assert!(line.contains("\"n\":10"), "{name}: {line}");
        let stderr = interrupt(child);
        assert!(stderr.contains("slackwater: interrupted after "), "{name}: {stderr}");
        // One table; somebody opens the other end and says nothing. How soon the file is read is the machine's affair.
        let both = table_over("path = '[ip]*.ndjson*', format = 'json'", "") + crate::COUNTS;
        // A few blocks beyond the pipe are read, here all; what they hold waits for the pipe.
        let read_within = |workers: &str, milliseconds: u64| {
            let child = run(&both, workers, "1024");
            let pipe = std::fs::File::options().write(true).open(folder.path(name)).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(milliseconds));
            let stderr = interrupt(child);
            drop(pipe);
            stderr.contains("slackwater: interrupted after 100 records")
        };
        for workers in ["1", "2"] {
            assert!([200, 1_000, 5_000, 20_000].into_iter().any(|ms| read_within(workers, ms)), "{name}, {workers}");
        }
    }
}

/// Waits until a run has opened the output `first.csv`: it watches for Ctrl-C by then.
#[cfg(unix)]
fn wait_for_the_first_output(folder: &Folder) {
    for _ in 0..2_000 {
        if folder.names().iter().any(|name| name.starts_with(".first.csv.tmp-")) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("no output is opened: {:?}", folder.names());
}

/// A named pipe as output waits for its reader; Ctrl-C ends the waiting, and what else is asked for comes as ever.
#[cfg(unix)]
#[test]
fn a_pipe_to_write_waits_for_its_reader() {
    let folder = Folder::with("in.ndjson", crate::TWO);
    named_pipe(&folder, "pipe.csv");
    named_pipe(&folder, "summary");
    let sink = "CREATE SINK a FROM v WITH (path = 'first.csv');";
    let piped = crate::table("") + &view("") + sink + "CREATE SINK b FROM v WITH (path = 'pipe.csv');";
    let run = |sql: &str, more: &[&str]| {
        let mut command = folder.command(&["run", "-e", sql]);
        command.args(more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let child = run(&piped, &[]);
    wait_for_the_first_output(&folder);
    let stderr = interrupt(child);
    assert!(stderr.starts_with("slackwater: interrupted after 0 records"), "{stderr}");
    assert_eq!(folder.read("first.csv").lines().count(), 1, "a header");
    // Somebody reads it, late.
    let mut child = run(&piped, &["-q"]);
    wait_for_the_first_output(&folder);
    let found = folder.read("pipe.csv");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!((found.lines().count(), &found), (3, &folder.read("first.csv")));
    // The summary's reader comes when all has been said, or never.
    let both = crate::table("") + &view("") + sink + "CREATE SINK b FROM v WITH (connector = 'stdout');";
    for read in [true, false] {
        std::fs::remove_file(folder.path("first.csv")).unwrap();
        let mut child = run(&both, &["--summary", "summary"]);
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut rows = String::new();
        while rows.lines().count() < 2 {
            assert_ne!(stdout.read_line(&mut rows).unwrap(), 0, "{rows}");
        }
        assert!(!folder.path("first.csv").exists(), "files are completed together");
        if read {
            assert_eq!(folder.json("summary")["complete"], true);
            assert_eq!(child.wait().unwrap().code(), Some(0));
        } else {
            let stderr = interrupt(child);
            assert!(stderr.starts_with("slackwater: 2 records in "), "{stderr}");
        }
        assert_eq!(folder.read("first.csv").lines().count(), 3);
    }
    assert_eq!(folder.names(), ["first.csv", "in.ndjson", "pipe.csv", "summary"], "nothing aside");
}

/// Waits for a line that the run prints when the watermark has moved; then what came before is final.
#[cfg(unix)]
#[test]
fn ctrl_c_publishes_what_is_final() {
    let folder = Folder::new();
    let sql = table_over("connector = 'stdin'", ", rejects = 'rejects.ndjson'")
        + &view("WITH (late = 'late.ndjson')")
        + "CREATE SINK a FROM v WITH (connector = 'stdout'); CREATE SINK b FROM v WITH (path = 'metrics.csv', mode = 'metrics');";
    for (workers, signal) in [("1", "INT"), ("3", "TERM")] {
        let mut command = folder.command(&["run", "-e", &sql, "-w", workers, "--summary", "summary.json"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stdin = child.stdin.take().unwrap();
        stdin
            .write_all(b"{\"k\":\"a\",\"at\":1000}\noops\n{\"k\":\"a\",\"at\":20000}\n{\"k\":\"a\",\"at\":30000}\n{\"k\":\"a\",\"at\":10}\n{\"k\":\"a\",\"at\":31000}\n")
            .unwrap();
        stdin.flush().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (mut first, mut second) = (String::new(), String::new());
        stdout.read_line(&mut first).unwrap();
        stdout.read_line(&mut second).unwrap();
        assert!(second.contains("\"window_end\":\"1970-01-01T00:00:30Z\""), "{first}{second}");
        let killed = std::process::Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(killed.expect("kill").success());
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        let status = child.wait().unwrap();
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(status.code(), Some(130), "{stderr}");
        assert_eq!(rest, "", "the window that is still open stays unpublished");
        assert!(stderr.contains("slackwater: interrupted after 6 records"), "{stderr}");
        let summary = folder.json("summary.json");
        assert_eq!(summary["complete"], false);
        let ledger = balanced(&summary);
        assert_eq!((&ledger["records"]["read"], &ledger["records"]["too_late"]), (&6.into(), &1.into()));
        assert_eq!(folder.read("metrics.csv").lines().count(), 3);
        assert_eq!(folder.rows("late.ndjson").len(), 1);
        assert_eq!(folder.rows("rejects.ndjson").len(), 1);
        assert_eq!(folder.names(), ["late.ndjson", "metrics.csv", "rejects.ndjson", "summary.json"], "nothing aside");
        drop(stdin);
    }
}

const GENERATOR: &str = "CREATE TABLE g WITH (connector = 'generator', rows = 60000, keys = 500);
    CREATE MATERIALIZED VIEW v WITH (late = 'late.csv') AS SELECT customer_id, window_start, count(*) AS n
    FROM TUMBLE(g, event_time, INTERVAL '1 s') GROUP BY customer_id, window_start;";

/// Reads one line and closes the pipe; gives the status and what was said.
fn first_line_only(folder: &Folder, args: &[&str]) -> (Option<i32>, String, String) {
    let mut child =
        folder.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), line, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_closed_pipe_is_success() {
    let folder = Folder::new();
    let sql = GENERATOR.replace(" WITH (late = 'late.csv')", "");
    for args in [
        &["run", "-e", &sql][..],
        &["run", "-e", &sql, "--format", "csv", "-w", "3"],
        &["run", "-e", &sql, "--format", "table"],
        &["gen", "--rows", "200000"],
        &["gen", "--rows", "200000", "--format", "csv"],
    ] {
        let (status, line, stderr) = first_line_only(&folder, args);
        assert_eq!(status, Some(0), "{args:?} {stderr}");
        assert!(!line.is_empty() && !stderr.contains("error") && !stderr.contains("panicked"), "{args:?} {stderr}");
        if args[0] == "run" && !args.contains(&"table") {
            let said = "slackwater: standard output was closed by its reader after ";
            assert!(stderr.starts_with(said), "{args:?} {stderr}");
        }
    }
}

/// Nobody reads stdout any more, but the files were asked for and come whole.
#[test]
fn files_are_complete_when_the_pipe_is_closed() {
    let folder = Folder::new();
    let file_only = format!("{GENERATOR} CREATE SINK a FROM v WITH (path = 'whole.csv');");
    folder.sql(&file_only, &[]).ok();
    let late = folder.read("late.csv");
    assert!(late.lines().count() > 1000);
    let both = format!(
        "{GENERATOR} CREATE SINK a FROM v WITH (path = 'beside.csv'); CREATE SINK b FROM v WITH (connector = 'stdout');"
    );
    for sql in [GENERATOR, &both] {
        folder.write("late.csv", "");
        let (status, _, stderr) = first_line_only(&folder, &["run", "-e", sql, "--summary", "summary.json"]);
        assert_eq!(status, Some(0), "{stderr}");
        assert!(stderr.contains("slackwater: 60,000 records in "), "{stderr}");
        assert!(folder.read("late.csv") == late, "the late output is whole");
        assert_eq!(folder.json("summary.json")["complete"], true);
    }
    assert!(folder.read("beside.csv") == folder.read("whole.csv"), "the sink is whole");
}

/// One of two files breaks off halfway: what is published by then is final, for any number of workers.
#[test]
fn a_broken_file_closes_no_window_early() {
    let folder = Folder::new();
    let record = |i: i64| format!("{{\"at\":{i},\"pad\":\"{:x}\"}}\n", i.wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64));
    let text: String = (0..40_000).map(record).collect();
    folder.write("in_b.ndjson", &text);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text.as_bytes()).unwrap();
    let bytes = gzip.finish().unwrap();
    folder.write("in_a.ndjson.gz", &bytes[..bytes.len() / 2]);
    let sql = "CREATE TABLE t (at TIMESTAMP, WATERMARK FOR at AS at) WITH (path = 'in_*', format = 'json',
        time_unit = 's', arrival_time = 'at');
        SELECT window_start, window_end, count(*) AS n FROM TUMBLE(t, at, '10s') GROUP BY window_start";
    for workers in ["1", "2", "3"] {
        let ran = folder.run(&["run", "-e", sql, "-w", workers, "--block-bytes", "20000"]);
        assert_eq!(ran.status, 1, "{}", ran.stderr);
        let wrong: Vec<&str> = ran.stdout.lines().filter(|line| !line.contains("\"n\":20}")).collect();
        assert!(
            wrong.is_empty(),
            "{} of {} rows with {workers} workers, as {}",
            wrong.len(),
            ran.stdout.lines().count(),
            wrong[0]
        );
    }
}
