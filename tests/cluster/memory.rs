//! A process that does not take what is sent to it holds the others up; they do not pile it up.

#![cfg(target_os = "linux")]

use crate::harness::{Cluster, Folder, all_ok, wait_for};
use rustix::process::Signal;
use std::thread;
use std::time::Duration;

fn peak_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or("VmHWM: 0 kB");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() << 10
}

#[test]
fn a_stopped_process_does_not_fill_the_memory_of_the_others() {
    let folder = Folder::new();
    // All keys differ, so that nothing is combined before it travels.
    let rows = "220000";
    folder.run(&["gen", "--rows", rows, "--keys", "1000000", "--partitions", "2", "--out", "in.ndjson"]).ok();
    let bytes: u64 =
        ["in-0.ndjson", "in-1.ndjson"].map(|n| std::fs::metadata(folder.path(n)).expect("a file").len()).iter().sum();
    assert!(bytes > 28 << 20, "{bytes}");
    // Whole lines travel, and pile up in the windows only of one process's keys.
    folder.write(
        "q.sql",
        "CREATE TABLE t (order_id BIGINT, customer_id BIGINT, amount DECIMAL(12,2), event_time TIMESTAMP,
           WATERMARK FOR event_time AS event_time - INTERVAL '1 second') WITH (path = 'in-*.ndjson');
         CREATE MATERIALIZED VIEW v AS SELECT customer_id, window_start, count(*) AS n, sum(amount) AS s
         FROM TUMBLE(t, event_time, INTERVAL '1 second') GROUP BY customer_id, window_start;
         CREATE SINK a FROM v WITH (path = 'out.csv', mode = 'metrics');",
    );
    let mut peaks = [0; 2];
    let mut outputs = Vec::new();
    for (throttled, peak) in [false, true].into_iter().zip(&mut peaks) {
        let cluster = Cluster::new(&folder, 2).args(&["--block-bytes", "65536", "--peer-timeout", "80s"]);
        let mut running = cluster.start_all();
        if throttled {
            // It has begun when it holds more than the program itself.
            let pid = running[1].id();
            let idle = wait_for("process 1", || Some(peak_bytes(pid)).filter(|bytes| *bytes > 0));
            wait_for("process 1 reads", || (peak_bytes(pid) > idle + (2 << 20)).then_some(()));
            running[1].signal(Signal::STOP);
            thread::sleep(Duration::from_secs(2));
            *peak = peak_bytes(running[0].id());
            running[1].signal(Signal::CONT);
        }
        wait_for("the end", || {
            *peak = (*peak).max(peak_bytes(running[0].id()));
            running[0].has_ended().then_some(())
        });
        all_ok(running.into_iter().map(crate::harness::Running::end).collect());
        outputs.push(folder.read("out.csv"));
    }
    println!("peaks: {peaks:?}");
    assert!(outputs[0] == outputs[1], "the same bytes");
    assert!(peaks[1] < 2 * peaks[0] + (64 << 20), "{peaks:?}");
}
