//! Processes that die, freeze, fail or are interrupted while a run is under way. No file is left half-written, no message
//! speaks of a panic, and every process names the one that is to blame.

use crate::data::{FIRST_ROW, Part, Random, first_window, gzip, live_program, ndjson, write_parts};
use crate::harness::{Cluster, Ended, Folder, Running, all_ok, end_all, wait_for};
use rustix::process::Signal;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

const PARTS: &str = "CREATE SINK p FROM counts WITH (path = 'parts/{process}.ndjson');";

/// A folder with a program that runs as long as standard input of process 0 is open.
fn live() -> (Folder, Vec<String>) {
    let folder = Folder::new();
    write_parts(&folder, &[Part::of(40); 3], None, &mut Random::new(41));
    folder.write("q.sql", live_program(PARTS));
    let before = folder.names();
    (folder, before)
}

/// Starts all, and waits until the first window is published: the watermark then stands at 31 s.
#[track_caller]
fn under_way(cluster: &Cluster) -> Vec<Running> {
    let mut running = cluster.start_all();
    running[0].feed(&first_window());
    running[0].says(FIRST_ROW);
    running
}

/// Names of outputs that are there, and of what was left aside.
fn left(folder: &Folder, before: &[String]) -> Vec<String> {
    folder.names().into_iter().filter(|name| !before.contains(name) && !name.starts_with("hosts/")).collect()
}

const CLUSTER: i32 = 4;

#[test]
fn process_1_is_killed() {
    let (folder, before) = live();
    let cluster = Cluster::new(&folder, 3).args(&["--summary", "summary.json"]);
    let mut running = under_way(&cluster);
    running[1].signal(Signal::KILL);
    let lost = format!("lost {}: closed the connection", cluster.name(1));
    let killed = running.remove(1).end();
    assert_eq!(killed.status, -9);
    for survivor in running {
        survivor.end().fails(CLUSTER, &[&lost, "hint: ", "start them all again"]);
    }
    // What a killed process has written aside nobody can remove.
    let left = left(&folder, &before);
    assert!(left.iter().all(|name| name.starts_with("parts/.1.ndjson.tmp-")), "{left:?}");
}

#[test]
fn process_0_is_killed() {
    let (folder, before) = live();
    let cluster = Cluster::new(&folder, 3).threads(2).args(&["--summary", "summary.json"]);
    let mut running = under_way(&cluster);
    running[0].signal(Signal::KILL);
    let lost = format!("lost {}: closed the connection, at watermark 1970-01-01T00:00:31Z", cluster.name(0));
    assert_eq!(running.remove(0).end().status, -9);
    for survivor in running {
        survivor.end().fails(CLUSTER, &[&lost]);
    }
    let left = left(&folder, &before);
    assert!(left.iter().all(|name| name.contains(".tmp-")), "{left:?}");
}

#[test]
fn a_frozen_process_is_lost() {
    let (folder, before) = live();
    let cluster = Cluster::new(&folder, 2).args(&["--summary", "summary.json", "--peer-timeout", "500ms"]);
    // A busy machine may stop a process for so long by itself; then the message is about the other one.
    let mut running = cluster.start_all();
    running[0].feed(&first_window());
    running[0].says(FIRST_ROW);
    running[1].freeze();
    let silent = format!("lost {}: silent for 0.5 s, at watermark 1970-01-01T00:00:31Z", cluster.name(1));
    let frozen = running.pop().expect("two");
    running.pop().expect("two").end().fails(CLUSTER, &[&silent]);
    frozen.signal(Signal::CONT);
    // It hears what the other has said before it went.
    let told = format!("{} gave up: lost {}: silent for 0.5 s", cluster.name(0), cluster.name(1));
    frozen.end().fails(CLUSTER, &[&told]);
    assert_eq!(left(&folder, &before), Vec::<String>::new());
}

/// Folders of two processes with equal files, and the program over them.
fn two_folders(files: &[(&str, Vec<u8>)], sql: &str) -> [Folder; 2] {
    let folders = [Folder::new(), Folder::new()];
    for folder in &folders {
        files.iter().for_each(|(name, bytes)| folder.write(name, bytes));
        folder.write("q.sql", sql);
    }
    folders
}

const OVER_FILES: &str =
    "CREATE TABLE t (id BIGINT, k TEXT, v BIGINT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '2 seconds')
    WITH (path = 'in/*', format = 'json', time_unit = 'ms', rejects = 'out/rejects.csv');
    CREATE MATERIALIZED VIEW v WITH (horizon = '20 seconds', late = 'out/late.csv') AS
    SELECT k, window_start, window_end, count(*) AS n FROM TUMBLE(t, at, INTERVAL '5 seconds')
    GROUP BY k, window_start, window_end;
    CREATE SINK a FROM v WITH (path = 'out/changes.ndjson');
    CREATE SINK b FROM v WITH (path = 'parts/{process}.csv');";

/// Only process 1 reads the broken file; its name and process are told by both.
#[test]
fn an_input_breaks_off_on_process_1() {
    let mut random = Random::new(42);
    let zipped = [gzip(&ndjson(Part::of(3000), &mut random)), gzip(&ndjson(Part::of(3000), &mut random))];
    let [a, b] = zipped;
    let folders = two_folders(&[("in/a.ndjson.gz", a), ("in/b.ndjson.gz", b.clone())], OVER_FILES);
    let mut broken = b.clone();
    let half = broken.len() / 2;
    broken[half..half + 64].fill(0xff);
    folders[1].write("in/b.ndjson.gz", &broken);
    // Of process 0's files those of the others are never opened.
    folders[0].write("in/b.ndjson.gz", vec![0; b.len()]);
    let before = [folders[0].names(), folders[1].names()];
    let cluster = Cluster::over(folders.iter().collect()).args(&["--summary", "summary.json", "--block-bytes", "4000"]);
    let mut ended = cluster.run().into_iter();
    ended.next().expect("process 0").fails(CLUSTER, &["process 1 failed: in/b.ndjson.gz: cannot read gzip data"]);
    ended.next().expect("process 1").fails(1, &["in/b.ndjson.gz: cannot read gzip data"]);
    for (folder, before) in folders.iter().zip(&before) {
        assert_eq!(left(folder, before), Vec::<String>::new());
    }
}

#[test]
fn the_first_reject_fails_if_told_so() {
    let sql = OVER_FILES.replace("rejects = 'out/rejects.csv'", "on_error = 'fail'");
    let lines = |bad: bool| -> Vec<u8> {
        let line =
            |i: u64| if bad && i == 70 { "oops\n".to_owned() } else { format!("{{\"k\":\"a\",\"at\":{}}}\n", i * 100) };
        (1..=200).flat_map(|i| line(i).into_bytes()).collect()
    };
    let folders = two_folders(&[("in/a.ndjson", lines(false)), ("in/b.ndjson", lines(true))], &sql);
    let before = [folders[0].names(), folders[1].names()];
    let cluster = Cluster::over(folders.iter().collect()).args(&["--block-bytes", "500"]);
    let mut ended = cluster.run().into_iter();
    let place = "in/b.ndjson:70: not a JSON object";
    ended.next().expect("process 0").fails(1, &[place, "hint: on_error = 'fail'"]);
    ended.next().expect("process 1").fails(CLUSTER, &[&format!("process 0 failed: {place}")]);
    for (folder, before) in folders.iter().zip(&before) {
        assert_eq!(left(folder, before), Vec::<String>::new());
    }
}

#[test]
fn a_sum_that_does_not_fit_fails_everywhere() {
    let lines = format!("{{\"k\":\"a\",\"v\":{},\"at\":1000}}\n", i64::MAX).repeat(2);
    let sql = OVER_FILES.replace("count(*) AS n", "sum(v) AS s");
    let folders = two_folders(&[("in/a.ndjson", lines.clone().into()), ("in/b.ndjson", lines.into())], &sql);
    let before = [folders[0].names(), folders[1].names()];
    let cluster = Cluster::over(folders.iter().collect());
    let ended = cluster.run();
    // Process 0 names it, whichever process keeps the key and has come to it in its part.
    let window = "window [1970-01-01T00:00:00Z, 1970-01-01T00:00:05Z), group \"a\": the sum ";
    for (ended, status) in ended.into_iter().zip([1, CLUSTER]) {
        ended.fails(status, &[window, "does not fit BIGINT"]);
    }
    for (folder, before) in folders.iter().zip(&before) {
        assert_eq!(left(folder, before), Vec::<String>::new());
    }
}

#[test]
fn a_sink_of_process_0_cannot_be_created() {
    let (folder, _) = live();
    folder.write("out", "a file\n");
    let before = folder.names();
    let cluster = Cluster::new(&folder, 2);
    let mut ended = cluster.run().into_iter();
    ended.next().expect("process 0").fails(1, &["out/", ": cannot create the file"]);
    ended.next().expect("process 1").fails(CLUSTER, &["process 0 failed: out/", ": cannot create the file"]);
    assert_eq!(left(&folder, &before), Vec::<String>::new());
}

#[test]
fn a_part_of_process_1_cannot_be_created() {
    let folders = two_folders(&[("in/a.ndjson", ndjson(Part::of(50), &mut Random::new(43)))], OVER_FILES);
    folders[1].write("parts", "a file\n");
    let before = [folders[0].names(), folders[1].names()];
    let cluster = Cluster::over(folders.iter().collect());
    let mut ended = cluster.run().into_iter();
    ended.next().expect("process 0").fails(CLUSTER, &["process 1 failed: parts/1.csv: cannot create the file"]);
    ended.next().expect("process 1").fails(1, &["parts/1.csv: cannot create the file"]);
    for (folder, before) in folders.iter().zip(&before) {
        assert_eq!(left(folder, before), Vec::<String>::new());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn standard_output_of_process_0_is_full() {
    let (folder, before) = live();
    let cluster = Cluster::new(&folder, 3);
    let mut command = cluster.command(0);
    let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    command.stdin(Stdio::piped()).stdout(full).stderr(Stdio::piped());
    let mut running = vec![Running::spawn("process 0".into(), command), cluster.start(1), cluster.start(2)];
    running[0].feed(&first_window());
    let mut ended = running.into_iter().map(Running::end);
    ended.next().expect("process 0").fails(1, &["standard output", "No space left"]);
    for other in ended {
        other.fails(CLUSTER, &["process 0 failed: standard output", "No space left"]);
    }
    assert_eq!(left(&folder, &before), Vec::<String>::new());
}

/// An interruption of one ends all; what is final is published.
#[test]
fn ctrl_c_to_one_ends_all() {
    for (whom, signal) in [(0, Signal::INT), (1, Signal::INT), (2, Signal::TERM)] {
        let (folder, _) = live();
        let cluster = Cluster::new(&folder, 3).args(&["--summary", "summary.json"]);
        let running = under_way(&cluster);
        running[whom].signal(signal);
        // Standard input stays open.
        let ended: Vec<Ended> = running.into_iter().map(Running::end).collect();
        assert!(ended.iter().all(|e| e.status == 130 && !e.stderr.contains("error: ")), "{ended:?}");
        assert!(ended[0].stderr.contains("slackwater: interrupted after "), "{}", ended[0].stderr);
        let summary = folder.json("summary.json");
        assert_eq!(summary["complete"], false);
        assert_eq!(summary["sources"][0]["records"], 5);
        // The windows that end at 10 s and at 30 s are final at the watermark 31 s.
        let ends = |text: &str| text.matches("\"op\":\"+I\"").count();
        assert_eq!(ends(&ended[0].stdout), 2, "{}", ended[0].stdout);
        assert_eq!(folder.read("out/metrics.csv").lines().count(), 3);
        assert_eq!(folder.read("out/rejects.ndjson").lines().count(), 1);
        let parts: usize = (0..3).map(|p| folder.read(&format!("parts/{p}.ndjson")).lines().count()).sum();
        assert_eq!(parts, ended[0].stdout.lines().count());
        assert!(!folder.names().iter().any(|name| name.contains(".tmp-")), "{:?}", folder.names());
    }
}

/// A second Ctrl-C ends a process at once; the others lose it.
#[test]
fn a_second_ctrl_c_ends_at_once() {
    let (folder, _) = live();
    let cluster = Cluster::new(&folder, 2);
    let mut running = under_way(&cluster);
    running[1].freeze();
    running[0].signal(Signal::INT);
    thread::sleep(Duration::from_millis(300));
    assert!(!running[0].has_ended(), "it waits for the other");
    running[0].signal(Signal::INT);
    let other = running.pop().expect("two");
    let first = running.pop().expect("two").end();
    assert_eq!(first.status, 130, "{first:?}");
    other.signal(Signal::CONT);
    let other = other.end();
    assert!(other.status == 130 || other.status == CLUSTER, "{other:?}");
}

/// Nobody reads the changes any more: success for all.
#[test]
fn standard_output_of_process_0_is_closed() {
    use std::io::{BufRead, Write};
    let folder = Folder::new();
    write_parts(&folder, &[Part::of(40); 3], None, &mut Random::new(44));
    folder.write(
        "q.sql",
        "CREATE TABLE live (k TEXT, at TIMESTAMP, WATERMARK FOR at AS at) WITH (connector = 'stdin');
         CREATE TABLE t (k TEXT, at TIMESTAMP, WATERMARK FOR at AS at) WITH (path = 'in/*', format = 'json');
         CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) AS n FROM TUMBLE(live, at, '1 s') GROUP BY window_start;
         CREATE MATERIALIZED VIEW w AS SELECT window_start, count(*) AS n FROM TUMBLE(t, at, '1 s') GROUP BY window_start;
         CREATE SINK a FROM v WITH (connector = 'stdout'); CREATE SINK b FROM w WITH (connector = 'stdout');",
    );
    let cluster = Cluster::new(&folder, 3);
    let mut command = cluster.command(0);
    command.args(["--format", "ndjson"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut first = command.spawn().expect("the binary starts");
    let others = [cluster.start(1), cluster.start(2)];
    let mut stdin = first.stdin.take().expect("a pipe");
    let mut stdout = std::io::BufReader::new(first.stdout.take().expect("a pipe"));
    stdin.write_all(b"{\"at\":0}\n{\"at\":1000}\n").expect("fed");
    let mut line = String::new();
    stdout.read_line(&mut line).expect("a line");
    assert!(line.contains("\"op\":\"+I\""), "{line}");
    drop(stdout);
    let mut at = 1000;
    wait_for("the end of process 0", || {
        at += 1000;
        // It stops reading at some time.
        let _ = writeln!(stdin, "{{\"at\":{at}}}");
        first.try_wait().expect("a status")
    });
    let first = first.wait_with_output().expect("an end");
    let stderr = String::from_utf8_lossy(&first.stderr);
    assert_eq!(first.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("standard output was closed by its reader") && !stderr.contains("error"), "{stderr}");
    all_ok(others.into_iter().map(Running::end).collect());
}

/// An output that fails at the very end, when all has been read: no other is there either.
#[test]
fn a_file_of_process_0_cannot_be_replaced() {
    let (folder, before) = live();
    let cluster = Cluster::new(&folder, 3).args(&["--summary", "summary.json"]);
    let running = under_way(&cluster);
    std::fs::create_dir_all(folder.path("out/metrics.csv/in the way")).expect("a folder");
    let mut ended = end_all(running).into_iter();
    ended.next().expect("process 0").fails(1, &["out/metrics.csv: expected a file to write, found a directory"]);
    for other in ended {
        other.fails(CLUSTER, &["process 0 failed: out/metrics.csv: expected a file"]);
    }
    assert_eq!(left(&folder, &before), Vec::<String>::new());
}

/// The command with files of 8 kB at most; whoever writes more is told so, as on a full disk.
#[cfg(target_os = "linux")]
fn on_a_small_disk(command: &std::process::Command) -> std::process::Command {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.current_dir(command.get_current_dir().expect("a folder"));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// What is left to write when all has been read does not fit the disk of one process: no process has a file.
#[cfg(target_os = "linux")]
#[test]
fn the_end_is_whole_or_nothing() {
    let lines: String = (0..2_000).map(|i| format!("{{\"k\":\"key {i}\",\"at\":1000}}\n")).collect();
    // Rows of tables wait for the end of the input.
    let sql =
        OVER_FILES.replace("20 seconds", "100 days").replace("{process}.csv'", "{process}.csv', mode = 'metrics'");
    let full = "cannot write: File too large";
    for (small, summary, said) in [
        (Some(1), "summary.json", format!("parts/1.csv: {full}")),
        (None, "/dev/full", "/dev/full: cannot write: No space left".to_owned()),
    ] {
        let folders =
            two_folders(&[("in/a.ndjson", lines.clone().into()), ("in/b.ndjson", lines.clone().into())], &sql);
        let before = [folders[0].names(), folders[1].names()];
        let cluster = Cluster::over(folders.iter().collect()).args(&["--summary", summary]);
        let start = |process: usize| {
            let mut command = cluster.command(process);
            if small == Some(process) {
                command = on_a_small_disk(&command);
            }
            Running::start(format!("process {process}"), command)
        };
        let ended = end_all(vec![start(0), start(1)]);
        let culprit = small.unwrap_or(0);
        for (process, ended) in ended.into_iter().enumerate() {
            let ended = if process == culprit {
                ended.fails(1, &[&said])
            } else {
                ended.fails(CLUSTER, &[&format!("process {culprit} failed: {said}")])
            };
            assert!(!ended.stderr.contains(".tmp-"), "{}", ended.stderr);
        }
        for (folder, before) in folders.iter().zip(&before) {
            assert_eq!(left(folder, before), Vec::<String>::new());
        }
        // On disks that are large enough it is there.
        all_ok(Cluster::over(folders.iter().collect()).args(&["--summary", "summary.json"]).run());
        assert!(folders[1].read("parts/1.csv").len() > 16 << 10);
        assert_eq!(folders[0].json("summary.json")["complete"], true);
    }
}
