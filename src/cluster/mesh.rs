//! The mesh: a connection to every other process, once all of them have agreed to start.

use super::gate::HANDSHAKE_MAX;
use super::hosts::Place;
use super::link::{Connection, Link};
use super::start::{Started, start};
use super::watch::{Traffic, Watch};
use super::{ClusterConfig, InputsCheck, Terms, hosts};
use crate::error::{Error, Result};
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Connections to all other processes of the cluster. Dropping it unused tells the others that the run is given up.
#[derive(Debug)]
pub struct Mesh {
    pub(super) session: Session,
    /// By process; none for this one.
    pub(super) links: Vec<Option<Link>>,
    pub(super) process: usize,
}

impl Mesh {
    /// The watch over the peers.
    pub fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.session.watch)
    }
    /// Index of this process, below [`Mesh::processes`].
    pub fn process(&self) -> usize {
        self.process
    }
    /// Number of processes of the cluster, this one included.
    pub fn processes(&self) -> usize {
        self.links.len()
    }
    /// Bytes of every connection so far, by peer. When the mesh has been given to timely, ask [`Watch::traffic`].
    pub fn traffic(&self) -> Vec<Traffic> {
        self.session.watch.traffic()
    }
}

/// Connects this process to all others, and agrees with them on what to run.
///
/// Returns when every process of the cluster is ready, or with an error on every process that can be reached.
/// `progress` is called on this thread with a line every few seconds, and when a connection is refused.
///
/// # Errors
/// * a usage error: a field out of bounds, no secret beyond this machine, another secret, `-n`, `-w`, version, program,
///   setting or input file than the others have, or an index that is taken;
/// * a cluster error: the own address cannot be listened on, or a process was not there within the deadline, or left.
pub fn connect(config: &ClusterConfig, terms: &Terms, progress: &dyn Fn(&str)) -> Result<Mesh> {
    connect_checked(config, terms, None, progress)
}

/// [`connect`] for a process that need not see all of process 0's input files: `check` is given the list of process 0 (on the
/// others), and says what is wrong with it here, in words that follow the name of this process. Without it the lists must be
/// the same. It is called on this thread, and may take as long as the start may; `progress` is not called meanwhile.
///
/// # Errors
/// As [`connect`].
pub fn connect_checked(
    config: &ClusterConfig,
    terms: &Terms,
    check: Option<InputsCheck<'_>>,
    progress: &dyn Fn(&str),
) -> Result<Mesh> {
    let caller = Caller { check, progress, stop: None };
    // Without a flag nobody interrupts it.
    connect_for(config, terms, &caller)?.ok_or_else(|| Error::cluster("the start was interrupted"))
}

/// [`connect_checked`] that can be interrupted: when `stop` is set while the cluster forms, the other processes are told
/// and end at once with an error that says so, and this gives no mesh. It looks at the flag every few milliseconds, but
/// returns only when a `check` under way has returned. When the mesh has formed, the flag does nothing any more.
///
/// # Errors
/// As [`connect`].
pub fn connect_until(
    config: &ClusterConfig,
    terms: &Terms,
    check: Option<InputsCheck<'_>>,
    progress: &dyn Fn(&str),
    stop: &AtomicBool,
) -> Result<Option<Mesh>> {
    connect_for(config, terms, &Caller { check, progress, stop: Some(stop) })
}

/// What the caller has to say to the start.
pub(super) struct Caller<'a> {
    pub(super) check: Option<InputsCheck<'a>>,
    pub(super) progress: &'a dyn Fn(&str),
    pub(super) stop: Option<&'a AtomicBool>,
}

/// What only tests change.
pub(super) struct Tuning {
    /// Whether heartbeats are sent.
    pub(super) beats: bool,
    /// The most time a handshake may take.
    pub(super) handshake: Duration,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning { beats: true, handshake: HANDSHAKE_MAX }
    }
}

fn connect_for(config: &ClusterConfig, terms: &Terms, caller: &Caller<'_>) -> Result<Option<Mesh>> {
    config.check_bounds()?;
    let places = hosts::places(config)?;
    if terms.threads != config.threads {
        return Err(Error::usage(format!("-w: the terms have {}, the cluster has {}", terms.threads, config.threads)));
    }
    connect_on(hosts::listen(config, &places)?, config, &places, terms, caller, &Tuning::default())
}

/// [`connect_until`] with a listener at hand.
pub(super) fn connect_on(
    listener: TcpListener,
    config: &ClusterConfig,
    places: &[Place],
    terms: &Terms,
    caller: &Caller<'_>,
    tuning: &Tuning,
) -> Result<Option<Mesh>> {
    let listener = Arc::new(listener);
    let Some(started) = start(&listener, config, places, terms, caller, tuning)? else { return Ok(None) };
    let connection = |started: Started| {
        let address = config.addresses.get(started.peer).cloned().unwrap_or_default();
        Connection::new(started.peer, address, started.stream, started.received, config.silence).map(Arc::new).map_err(
            |e| Error::cluster(format!("cannot set up the connection to {}", config.name(started.peer))).with_source(e),
        )
    };
    let connections = started.into_iter().map(connection).collect::<Result<Vec<_>>>()?;
    let watch = Arc::new(Watch::new(config.process, connections));
    let mut links: Vec<Option<Link>> = (0..config.processes).map(|_| None).collect();
    for connection in watch.connections() {
        if let Some(slot) = links.get_mut(connection.peer) {
            *slot = Some(Link::new(Arc::clone(connection), Arc::clone(&watch)));
        }
    }
    let pulse = if tuning.beats { Some(Pulse::start(&watch, config.silence / 4)?) } else { None };
    let session = Session { watch, pulse, _listener: listener, has_ended: false };
    Ok(Some(Mesh { session, links, process: config.process }))
}

/// What lives as long as the run.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) watch: Arc<Watch>,
    pulse: Option<Pulse>,
    /// Kept so that a second process of the same index finds the port in use.
    _listener: Arc<TcpListener>,
    has_ended: bool,
}

impl Session {
    /// After the goodbyes of all.
    pub(super) fn end_cleanly(&mut self) {
        self.has_ended = true;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.pulse = None;
        if self.has_ended {
            for connection in self.watch.connections() {
                connection.close();
            }
        } else {
            self.watch.abort_all("the run ended early");
        }
    }
}

/// The thread that sends heartbeats to all peers.
#[derive(Debug)]
struct Pulse {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    fn start(watch: &Arc<Watch>, every: Duration) -> Result<Pulse> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (watch, ending) = (Arc::clone(watch), Arc::clone(&stop));
        let work = move || {
            let (stop, changed) = &*ending;
            let mut stopped = stop.lock().unwrap_or_else(PoisonError::into_inner);
            while !*stopped && !watch.is_given_up() {
                drop(stopped);
                for connection in watch.connections() {
                    connection.heartbeat();
                }
                stopped = stop.lock().unwrap_or_else(PoisonError::into_inner);
                if !*stopped {
                    stopped = changed.wait_timeout(stopped, every).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        };
        let thread = thread::Builder::new().name("mesh:heartbeat".to_owned()).spawn(work);
        let thread = thread.map_err(|e| Error::cluster("cannot start a thread").with_source(e))?;
        Ok(Pulse { stop, thread: Some(thread) })
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        let (stop, changed) = &*self.stop;
        *stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It holds nothing that a panic could break.
            let _ = thread.join();
        }
    }
}
