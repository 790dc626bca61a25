//! A process that takes nothing holds the others up; they do not pile up what is meant for it.

#![cfg(target_os = "linux")]

use crate::data::Random;
use crate::harness::{Cluster, Folder, Running, all_ok, wait_for};
use rustix::process::Signal;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Peak of resident memory.
fn peak_bytes(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or("VmHWM: 0 kB");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<usize>().ok()).unwrap_or_default() << 10
}

const INPUT_BYTES: usize = 30 << 20;
/// What more memory a run may take in which one process is stopped for a while: far less than the input.
const MORE_BYTES: usize = 10 << 20;

/// Records of half a kilobyte that have a key each, so that all of it travels.
fn records(bytes: usize, random: &mut Random) -> String {
    let mut out = String::with_capacity(bytes + 1000);
    let mut at = 0;
    while out.len() < bytes {
        write!(out, "{{\"at\":{at},\"v\":\"").expect("a string");
        for _ in 0..30 {
            write!(out, "{:016x}", random.next()).expect("a string");
        }
        out.push_str("\"}\n");
        at += 1;
    }
    out
}

fn program(input: &str) -> String {
    format!(
        "CREATE TABLE t (v TEXT, at TIMESTAMP, WATERMARK FOR at AS at) WITH ({input}, granularity = '10ms', time_unit = 'ms');
         CREATE MATERIALIZED VIEW v AS SELECT v, window_start, count(*) AS n FROM TUMBLE(t, at, INTERVAL '100 ms') GROUP BY v, window_start;
         CREATE SINK a FROM v WITH (path = 'out.csv', mode = 'metrics');"
    )
}

fn cluster(folder: &Folder) -> Cluster<'_> {
    Cluster::new(folder, 2).args(&["--block-bytes", "65536", "--peer-timeout", "80s"])
}

/// Waits for the end of both, and gives the peak of the one that is watched.
#[track_caller]
fn finish(mut running: Vec<Running>, watched: usize) -> usize {
    let mut peak = 0;
    wait_for("the end", || {
        peak = peak.max(peak_bytes(running[watched].id()));
        running[watched].has_ended().then_some(())
    });
    all_ok(running.into_iter().map(Running::end).collect());
    peak
}

/// Process 0 reads standard input, half of which belongs to process 1, which is stopped: process 0 stops reading.
#[test]
fn a_stopped_receiver_holds_up_the_reader() {
    let folder = Folder::new();
    let text = records(INPUT_BYTES, &mut Random::new(91));
    folder.write("q.sql", program("connector = 'stdin'"));
    let mut peaks = Vec::new();
    let mut outputs = Vec::new();
    for stopped in [false, true] {
        let cluster = cluster(&folder);
        let mut running = vec![cluster.start(0), cluster.start(1)];
        let fed = Arc::new(AtomicUsize::new(0));
        let mut stdin = running[0].take_stdin();
        let (text, count) = (text.clone(), Arc::clone(&fed));
        let feeder = thread::spawn(move || {
            use std::io::Write;
            for piece in text.as_bytes().chunks(4096) {
                stdin.write_all(piece).expect("the pipe takes it");
                count.fetch_add(piece.len(), Ordering::SeqCst);
            }
        });
        wait_for("the beginning", || (fed.load(Ordering::SeqCst) > 1 << 20).then_some(()));
        if stopped {
            running[1].freeze();
            let mut before = 0;
            let stuck = wait_for("the reader waits", || {
                thread::sleep(Duration::from_millis(700));
                let now = fed.load(Ordering::SeqCst);
                (std::mem::replace(&mut before, now) == now).then_some(now)
            });
            println!("{stuck} bytes read");
            assert!(stuck < INPUT_BYTES / 2, "{stuck} bytes read, though half of it cannot go anywhere");
            running[1].signal(Signal::CONT);
        }
        wait_for("all is fed", || feeder.is_finished().then_some(()));
        feeder.join().expect("no panic");
        peaks.push(finish(running, 0));
        outputs.push(std::fs::read(folder.path("out.csv")).expect("an output"));
    }
    println!("peaks: {peaks:?}");
    assert!(outputs[0] == outputs[1], "the same bytes");
    assert!(peaks[1] < peaks[0] + MORE_BYTES, "{peaks:?}");
}

/// Process 1 reads and publishes, process 0, which gathers and writes everything, is stopped.
#[test]
fn a_stopped_writer_holds_up_the_reader() {
    let folder = Folder::new();
    folder.write("in/0.ndjson", "");
    folder.write("in/1.ndjson", records(INPUT_BYTES, &mut Random::new(92)));
    folder.write("q.sql", program("path = 'in/*', format = 'json'"));
    let mut peaks = Vec::new();
    let mut outputs = Vec::new();
    for stopped in [false, true] {
        let running = cluster(&folder).start_all();
        if stopped {
            let idle = wait_for("process 1", || Some(peak_bytes(running[1].id())).filter(|bytes| *bytes > 0));
            wait_for("process 1 reads", || (peak_bytes(running[1].id()) > idle + (3 << 20)).then_some(()));
            running[0].freeze();
            thread::sleep(Duration::from_secs(2));
            running[0].signal(Signal::CONT);
        }
        peaks.push(finish(running, 1));
        outputs.push(std::fs::read(folder.path("out.csv")).expect("an output"));
    }
    println!("peaks: {peaks:?}");
    assert!(outputs[0] == outputs[1], "the same bytes");
    assert!(peaks[1] < peaks[0] + MORE_BYTES, "{peaks:?}");
}
