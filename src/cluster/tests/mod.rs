//! Tests over real sockets, all of them on ephemeral loopback ports.

mod processes;
mod proof;
mod run;
mod start;
mod strangers;
mod wire;
mod with_timely;

use super::hosts;
use super::mesh::{Caller, Tuning, connect_on};
use super::{ClusterConfig, InputFile, Mesh, Secret, Terms, Watch};
use crate::error::{Error, Result};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Far longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// One process of a cluster to be.
struct Member {
    listener: TcpListener,
    config: ClusterConfig,
    terms: Terms,
    tuning: Tuning,
}

fn terms(threads: usize) -> Terms {
    let inputs = vec![InputFile { table: "t".into(), path: "in.csv".into(), bytes: Some(7) }];
    Terms::new("SELECT 1", vec![("block_bytes".into(), "64".into())], threads, inputs)
}

/// Listeners on free ports, and the addresses they have.
fn members(processes: usize) -> Vec<Member> {
    let listeners: Vec<_> = (0..processes).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<_> = listeners.iter().map(|l| l.local_addr().unwrap().to_string()).collect();
    let member = |(process, listener)| {
        let mut config = ClusterConfig::new(process, 1, addresses.clone());
        config.secret = Secret::new(*b"tide");
        config.start_deadline = LONG;
        config.silence = LONG;
        Member { listener, config, terms: terms(1), tuning: Tuning::default() }
    };
    listeners.into_iter().enumerate().map(member).collect()
}

impl Member {
    fn connect(self) -> Result<Mesh> {
        let caller = Caller { check: None, progress: &|_| (), stop: None };
        self.connect_for(&caller).map(|mesh| mesh.unwrap())
    }
    fn connect_for(self, caller: &Caller<'_>) -> Result<Option<Mesh>> {
        let Member { listener, config, terms, tuning } = self;
        connect_on(listener, &config, &hosts::places(&config)?, &terms, caller, &tuning)
    }
    /// Connects in another thread.
    fn spawn(self) -> thread::JoinHandle<Result<Mesh>> {
        thread::spawn(|| self.connect())
    }
}

/// Connects all of them at once.
fn connect_all(members: Vec<Member>) -> Vec<Result<Mesh>> {
    let threads: Vec<_> = members.into_iter().map(Member::spawn).collect();
    threads.into_iter().map(|t| t.join().unwrap()).collect()
}

/// A mesh that must form.
fn mesh_of(members: Vec<Member>) -> Vec<Mesh> {
    connect_all(members).into_iter().map(|mesh| mesh.unwrap()).collect()
}

/// The errors of a mesh that must not form.
fn errors_of(members: Vec<Member>) -> Vec<Error> {
    connect_all(members).into_iter().map(|mesh| mesh.unwrap_err()).collect()
}

/// Asks until there is an answer.
fn wait_for<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let steps = LONG.as_millis() / 5;
    for _ in 0..steps {
        if let Some(answer) = ask() {
            return answer;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("nothing happened for {LONG:?}");
}

/// Reads from a link in a thread that is left to itself, as timely does; gives what came.
fn read_all(mesh: &Mesh, peer: usize) -> Arc<Mutex<(Vec<u8>, bool)>> {
    let heard = Arc::new(Mutex::new((Vec::new(), false)));
    let (mut link, into) = (mesh.links[peer].clone().unwrap(), Arc::clone(&heard));
    let _ = thread::spawn(move || {
        let mut buffer = [0; 1000];
        loop {
            match std::io::Read::read(&mut link, &mut buffer).unwrap() {
                0 => {
                    into.lock().unwrap().1 = true;
                    break;
                }
                bytes => into.lock().unwrap().0.extend_from_slice(&buffer[..bytes]),
            }
        }
    });
    heard
}

fn lost(watch: &Watch) -> super::Loss {
    wait_for(|| watch.lost())
}

fn dial(address: &str) -> TcpStream {
    TcpStream::connect(address).unwrap()
}
