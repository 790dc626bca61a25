//! Strangers at the ports of a cluster that forms: it still does, and gives the right bytes.

use crate::data::{Part, Random, program, seed, write_parts};
use crate::harness::{Cluster, Folder, all_ok, clear, digest, end_all, wait_for};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Connects as soon as somebody listens.
fn dial(address: &str) -> TcpStream {
    let stream = wait_for("a listener", || TcpStream::connect(address).ok());
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream
}

/// Lets strangers come to process 0 and 1 while process 2 is not there yet, and checks the run after that.
fn despite(own_seed: u64, strangers: impl FnOnce(&[String], &mut Random) -> Vec<TcpStream>) {
    let mut random = Random::new(seed(own_seed));
    let folder = Folder::new();
    write_parts(&folder, &[Part::of(60); 3], None, &mut random);
    folder.write("q.sql", program("source", ""));
    let before = folder.names();
    let stdout = folder.run(&["run", "q.sql", "--summary", "summary.json"]).ok().stdout;
    let expected = digest(&stdout, &folder, &before);
    clear(&folder, &before);
    let cluster = Cluster::new(&folder, 3).args(&["--summary", "summary.json"]);
    let mut running = vec![cluster.start(0), cluster.start(1)];
    let held = strangers(&cluster.addresses[..2], &mut random);
    assert!(!running[0].has_ended() && !running[1].has_ended(), "it waits for process 2");
    running.push(cluster.start(2));
    let stdout = all_ok(end_all(running)).stdout;
    assert_eq!(digest(&stdout, &folder, &before), expected);
    drop(held);
}

#[test]
fn garbage_is_refused() {
    despite(61, |addresses, random| {
        for address in addresses {
            for length in [1, 8, 64, 4096, 200_000] {
                let mut stream = dial(address);
                let garbage: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
                // It may be closed before all is sent.
                let _ = stream.write_all(&garbage);
                let _ = stream.shutdown(std::net::Shutdown::Write);
                // Whatever is said to a stranger is short, and ends.
                let mut answer = Vec::new();
                let _ = stream.read_to_end(&mut answer);
                assert!(answer.len() < 1024, "{} bytes", answer.len());
            }
            let mut http = dial(address);
            let _ = http.write_all(b"GET / HTTP/1.1\r\nHost: tide\r\n\r\n");
        }
        Vec::new()
    });
}

#[test]
fn silence_keeps_nobody_out() {
    despite(62, |addresses, _| addresses.iter().map(|address| dial(address)).collect());
}

#[test]
fn a_flood_keeps_nobody_out() {
    despite(63, |addresses, _| {
        addresses.iter().flat_map(|address| (0..100).map(|_| dial(address)).collect::<Vec<_>>()).collect()
    });
}

/// The ports of a run under way are deaf.
#[test]
fn strangers_do_not_disturb_a_run() {
    use crate::data::{FIRST_ROW, first_window, live_program};
    let folder = Folder::new();
    write_parts(&folder, &[Part::of(30); 2], None, &mut Random::new(64));
    folder.write("q.sql", live_program(""));
    let cluster = Cluster::new(&folder, 2);
    let mut running = cluster.start_all();
    running[0].feed(&first_window());
    running[0].says(FIRST_ROW);
    let mut held = Vec::new();
    for address in &cluster.addresses {
        for _ in 0..50 {
            if let Ok(mut stream) = TcpStream::connect(address) {
                let _ = stream.write_all(b"let me in\n");
                held.push(stream);
            }
        }
    }
    running[0].feed("{\"k\":\"a\",\"v\":1,\"at\":50000}\n");
    running[0].says("\"window_end\":\"1970-01-01T00:00:40Z\"");
    all_ok(end_all(running));
}
