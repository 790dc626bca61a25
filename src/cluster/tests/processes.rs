//! Processes of their own, stopped and killed by signals. Each is this test program again, running [`member`] alone.

use super::with_timely::{Pace, run};
use super::*;
use crate::cluster::connect;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

const PROCESS: &str = "SLACKWATER_TEST_PROCESS";
const ADDRESSES: &str = "SLACKWATER_TEST_ADDRESSES";
const SILENCE_MS: &str = "SLACKWATER_TEST_SILENCE_MS";

/// One process of a cluster of two; nothing when it runs as one of the other tests.
#[test]
fn member() {
    let variable = |name| std::env::var(name).ok();
    let Some(process) = variable(PROCESS).and_then(|p| p.parse().ok()) else { return };
    let addresses = variable(ADDRESSES).unwrap().split(' ').map(str::to_owned).collect();
    let mut config = ClusterConfig::new(process, 1, addresses);
    config.silence = Duration::from_millis(variable(SILENCE_MS).unwrap().parse().unwrap());
    let mesh = connect(&config, &terms(1), &|_| ()).unwrap();
    println!("\nmesh: running");
    let (sum, watch) = run(mesh, 1, Pace { rounds: 400, pause: Duration::from_millis(5) }, |_, _| ());
    match watch.lost() {
        None => println!("mesh: sum {sum}"),
        Some(loss) => println!("mesh: {loss}"),
    }
}

struct Running {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Running {
    fn start(process: usize, addresses: &[String], silence_ms: u64) -> Running {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut child = command
            .args(["cluster::tests::processes::member", "--exact", "--nocapture", "--test-threads=1"])
            .env(PROCESS, process.to_string())
            .env(ADDRESSES, addresses.join(" "))
            .env(SILENCE_MS, silence_ms.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Running { child, stdout }
    }
    /// The next line for us; nothing at the end.
    fn line(&mut self) -> Option<String> {
        let lines = self.stdout.by_ref().lines().map(|line| line.unwrap());
        lines.filter_map(|line| line.strip_prefix("mesh: ").map(str::to_owned)).next()
    }
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
    /// The last line, when the process has ended by itself without a word on stderr.
    fn end(mut self) -> String {
        let line = self.line().unwrap_or_default();
        let mut error = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        assert!(self.child.wait().unwrap().success(), "{error}");
        assert_eq!(error, "");
        line
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two processes that run.
fn two(silence_ms: u64) -> [Running; 2] {
    let addresses = {
        let listeners: Vec<_> = (0..2).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        listeners.iter().map(|l| l.local_addr().unwrap().to_string()).collect::<Vec<_>>()
    };
    let mut two = [0, 1].map(|process| Running::start(process, &addresses, silence_ms));
    two.iter_mut().for_each(|process| assert_eq!(process.line().unwrap(), "running"));
    two
}

#[test]
fn a_short_stop_is_harmless() {
    let [zero, one] = two(20_000);
    one.signal(Signal::STOP);
    thread::sleep(Duration::from_millis(700));
    one.signal(Signal::CONT);
    assert!(zero.end().starts_with("sum ") && one.end().starts_with("sum "));
}

#[test]
fn a_long_stop_is_a_loss_and_the_stopped_one_hears_of_it() {
    let [zero, one] = two(2_000);
    one.signal(Signal::STOP);
    let lost = zero.end();
    assert!(lost.starts_with("lost process 1 (127.0.0.1:") && lost.ends_with("): silent for 2 s"), "{lost}");
    one.signal(Signal::CONT);
    let told = one.end();
    assert!(told.starts_with("process 0 (127.0.0.1:") && told.ends_with(&format!(") gave up: {lost}")), "{told}");
}

#[test]
fn a_killed_process_is_a_loss() {
    let [zero, mut one] = two(20_000);
    one.signal(Signal::KILL);
    let lost = zero.end();
    assert!(lost.starts_with("lost process 1 (127.0.0.1:") && lost.ends_with("): closed the connection"), "{lost}");
    let _ = one.child.wait();
}
