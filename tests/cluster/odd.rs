//! Slow and odd conditions: the bytes are the same.

use crate::data::{Part, Random, first_window, live_line, live_program, program, seed, write_parts};
use crate::harness::{Cluster, Folder, Running, all_ok, clear, digest, end_all};
use crate::proxy::Proxy;
use rustix::process::Signal;
use std::thread;
use std::time::Duration;

fn pause(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}

/// A folder with the live program, its input for standard input, and what one process makes of it.
fn live(random: &mut Random) -> (Folder, Vec<String>, String, Vec<String>) {
    let folder = Folder::new();
    write_parts(&folder, &[Part::of(150); 4], Some(2), random);
    folder.write("q.sql", live_program("CREATE SINK p FROM counts WITH (path = 'parts/{process}.ndjson');"));
    let input: Vec<String> = (0..40).map(|_| (0..15).map(|i| live_line(i, random)).collect()).collect();
    let before = folder.names();
    let mut alone = Running::start("alone".into(), folder.command(&["run", "q.sql", "--summary", "summary.json"]));
    input.iter().for_each(|piece| alone.feed(piece));
    alone.close();
    let stdout = alone.end().ok().stdout;
    std::fs::remove_dir_all(folder.path("parts")).expect("a folder removed");
    let expected = digest(&stdout, &folder, &before);
    clear(&folder, &before);
    (folder, before, expected, input)
}

/// The digest of a cluster's run, the parts of the processes aside.
#[track_caller]
fn digest_of(cluster: &Cluster, running: Vec<Running>, before: &[String]) -> String {
    let stdout = all_ok(end_all(running)).stdout;
    let folder = cluster.folders[0];
    std::fs::remove_dir_all(folder.path("parts")).expect("a folder removed");
    let found = digest(&stdout, folder, before);
    clear(folder, before);
    found
}

#[test]
fn processes_stopped_for_short_spells() {
    let mut random = Random::new(seed(31));
    let (folder, before, expected, input) = live(&mut random);
    let cluster = Cluster::new(&folder, 3).threads(2).args(&["--summary", "summary.json", "--block-bytes", "1500"]);
    let mut running = cluster.start_all();
    for (i, piece) in input.iter().enumerate() {
        running[0].feed(piece);
        if i % 4 == 0 {
            let one = random.below(3) as usize;
            running[one].signal(Signal::STOP);
            pause(100);
            running[one].signal(Signal::CONT);
        } else {
            pause(10);
        }
    }
    assert_eq!(digest_of(&cluster, running, &before), expected);
}

#[test]
fn processes_started_in_any_order() {
    let mut random = Random::new(seed(32));
    let (folder, before, expected, input) = live(&mut random);
    for order in [[2, 1, 0], [1, 0, 2], [2, 0, 1]] {
        let cluster = Cluster::new(&folder, 3).args(&["--summary", "summary.json"]);
        let mut running: [Option<Running>; 3] = [None, None, None];
        for process in order {
            running[process] = Some(cluster.start(process));
            pause(random.below(500));
        }
        let mut running: Vec<Running> = running.into_iter().flatten().collect();
        input.iter().for_each(|piece| running[0].feed(piece));
        assert_eq!(digest_of(&cluster, running, &before), expected, "{order:?}");
    }
}

/// Links that tear and delay what they carry. Every process has its own real address in its host file, and a proxy's for
/// the others.
#[test]
fn links_that_dawdle() {
    let base = seed(33);
    let mut random = Random::new(base);
    let folder = Folder::new();
    write_parts(&folder, &[Part::of(120), Part::of(200), Part::of(20)], Some(0), &mut random);
    folder.write("q.sql", program("source", ", idle_timeout = '4s'"));
    let before = folder.names();
    let stdout = folder.run(&["run", "q.sql", "--summary", "summary.json"]).ok().stdout;
    let expected = digest(&stdout, &folder, &before);
    clear(&folder, &before);
    for (processes, threads) in [(2, 2), (3, 1)] {
        let cluster = Cluster::new(&folder, processes).threads(threads);
        let cluster = cluster.args(&["--summary", "summary.json", "--block-bytes", "1000"]);
        let proxies: Vec<Proxy> = cluster.addresses.iter().map(|real| Proxy::to(real, base)).collect();
        for process in 0..processes {
            let mut addresses: Vec<String> = proxies.iter().map(|p| p.address.clone()).collect();
            addresses[process].clone_from(&cluster.addresses[process]);
            cluster.write_hosts(process, &addresses);
        }
        let stdout = all_ok(cluster.run()).stdout;
        assert_eq!(digest(&stdout, &folder, &before), expected, "{processes} processes");
        let pieces: Vec<u64> = proxies.iter().map(Proxy::pieces).collect();
        // The one with the higher index connects, so that nobody connects to the last.
        assert!(pieces[..processes - 1].iter().all(|n| *n > 50), "{pieces:?}");
        clear(&folder, &before);
    }
}

/// Nothing to read for a long time is no silence.
#[test]
fn a_quiet_input_is_no_loss() {
    let mut random = Random::new(seed(34));
    let (folder, before, expected, input) = live(&mut random);
    let cluster = Cluster::new(&folder, 2).args(&["--summary", "summary.json", "--peer-timeout", "4s"]);
    let mut running = cluster.start_all();
    let (first, rest) = input.split_at(20);
    first.iter().for_each(|piece| running[0].feed(piece));
    pause(6000);
    rest.iter().for_each(|piece| running[0].feed(piece));
    assert_eq!(digest_of(&cluster, running, &before), expected);
}

/// What is final comes out while the input is still open, over processes as in one.
#[test]
fn results_do_not_wait_for_the_end() {
    let folder = Folder::new();
    write_parts(&folder, &[Part::of(5)], None, &mut Random::new(35));
    folder.write("q.sql", live_program(""));
    let mut running = Cluster::new(&folder, 3).threads(2).start_all();
    running[0].feed(&first_window());
    running[0].says(crate::data::FIRST_ROW);
    all_ok(end_all(running));
}
