//! `--local-processes`.

use crate::data::{FIRST_ROW, Part, Random, first_window, live_program, program, seed, write_parts};
use crate::harness::{Folder, Running, clear, digest, wait_for};
use rustix::process::{Pid, Signal, kill_process};

fn live() -> Folder {
    let folder = Folder::new();
    write_parts(&folder, &[Part::of(30); 3], None, &mut Random::new(71));
    folder.write("q.sql", live_program(""));
    folder
}

/// Processes that have `parent` as theirs.
fn children(parent: u32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().expect("a number")).collect()
}

fn is_alive(pid: i32) -> bool {
    // A zombie has ended; who collects it is not ours to say.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

const LOCAL: [&str; 8] =
    ["run", "q.sql", "--local-processes", "3", "--summary", "summary.json", "--peer-timeout", "60s"];

/// A run of three processes under way, and their ids by index.
#[track_caller]
fn under_way(command: std::process::Command) -> (Running, Vec<i32>) {
    let mut running = Running::start("the supervisor".into(), command);
    running.feed(&first_window());
    running.says(FIRST_ROW);
    let children = children(running.id());
    assert_eq!(children.len(), 3);
    (running, children)
}

#[track_caller]
fn none_alive(pids: &[i32]) {
    wait_for("the end of all processes", || pids.iter().all(|pid| !is_alive(*pid)).then_some(()));
}

fn kill(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("an id"), signal).expect("a signal sent");
}

fn only_inputs(folder: &Folder) -> bool {
    folder.names().iter().all(|n| n.starts_with("in/") || n.starts_with("csv/") || n == "q.sql" || n.contains(".tmp-"))
}

#[test]
fn local_processes_give_the_same_bytes() {
    let mut random = Random::new(seed(72));
    let folder = Folder::new();
    write_parts(&folder, &[Part::of(100); 3], Some(0), &mut random);
    folder.write("q.sql", program("source", ", idle_timeout = '5s'"));
    let before = folder.names();
    let mut expected = None;
    for more in [
        &[][..],
        &["--local-processes", "1"],
        &["--local-processes", "2", "-w", "2"],
        &["-w", "1", "--local-processes=4"],
    ] {
        let mut args = vec!["run", "q.sql", "--summary", "summary.json", "--block-bytes", "1500"];
        args.extend(more);
        let ended = folder.run(&args).ok();
        assert_eq!(ended.stderr.matches("slackwater: ").count(), 1, "one summary line: {}", ended.stderr);
        let found = digest(&ended.stdout, &folder, &before);
        assert_eq!(*expected.get_or_insert_with(|| found.clone()), found, "{more:?}");
        clear(&folder, &before);
    }
}

#[test]
fn ctrl_c_to_the_supervisor_ends_all() {
    let folder = live();
    let (running, children) = under_way(folder.command(&LOCAL));
    running.signal(Signal::INT);
    let ended = running.end();
    assert_eq!(ended.status, 130, "{ended:?}");
    assert!(ended.stderr.contains("slackwater: interrupted after ") && !ended.stderr.contains("error"), "{ended:?}");
    none_alive(&children);
    assert_eq!(folder.json("summary.json")["complete"], false);
    assert_eq!(folder.read("out/metrics.csv").lines().count(), 3);
}

/// As a terminal does it: the signal goes to the supervisor's group, in which its processes are not.
#[test]
fn ctrl_c_to_the_group_ends_all_once() {
    use std::os::unix::process::CommandExt;
    let folder = live();
    let mut command = folder.command(&LOCAL);
    command.process_group(0);
    let (running, children) = under_way(command);
    rustix::process::kill_process_group(Pid::from_raw(running.id() as i32).expect("an id"), Signal::INT).expect("sent");
    let ended = running.end();
    none_alive(&children);
    assert_eq!(ended.status, 130, "{ended:?}");
    assert!(ended.stderr.contains("slackwater: interrupted after "), "{ended:?}");
    assert_eq!(folder.json("summary.json")["complete"], false);
}

#[test]
fn the_processes_do_not_survive_the_supervisor() {
    let folder = live();
    let (running, children) = under_way(folder.command(&LOCAL));
    running.signal(Signal::KILL);
    assert_eq!(running.end().status, -9);
    none_alive(&children);
    assert!(only_inputs(&folder), "{:?}", folder.names());
}

#[test]
fn a_killed_process_ends_all() {
    for whom in 0..3 {
        let folder = live();
        let (running, children) = under_way(folder.command(&LOCAL));
        kill(children[whom], Signal::KILL);
        let ended = running.end();
        ended.fails(
            4,
            &[&format!("lost process {whom} (127.0.0.1:"), "closed the connection, at watermark 1970-01-01T00:00:"],
        );
        none_alive(&children);
        assert!(only_inputs(&folder), "{:?}", folder.names());
    }
}

/// What only one process can say is said once.
#[test]
fn an_error_is_told_once() {
    let folder = live();
    folder.write("q.sql", "SELECT nothing");
    folder.run(&["run", "q.sql", "--local-processes", "3"]).fails(2, &["q.sql:1:"]);
    folder.write("q.sql", live_program("").replace("in/*", "none/*"));
    folder.run(&["run", "q.sql", "--local-processes", "3"]).fails(1, &["none/*", "found none"]);
    folder.write(
        "q.sql",
        live_program("")
            .replace("'out/beside.ndjson'", "'parts/{process}'")
            .replace("path = 'parts", "format = 'csv', path = 'parts"),
    );
    std::fs::create_dir_all(folder.path("parts/2")).expect("a folder");
    folder
        .run(&["run", "q.sql", "--local-processes", "3"])
        .fails(4, &["process 2 failed: parts/2: expected a file to write, found a directory"]);
    assert!(only_inputs(&folder), "{:?}", folder.names());
}
