//! Connections until they are proven: accepting, connecting, and the handshake over them.
//!
//! Every accepted connection has a thread of its own and little time; there are at most [`WAITING_MAX`] of them. When one
//! more comes, the oldest that has not proven itself is closed for it: a true peer needs a few round trips, so that
//! strangers who hold connections open, however many, keep no peer out. What strangers can cost is bounded: at most twice
//! [`WAITING_MAX`] threads (those just closed are still ending) with a few kilobytes each.

use super::handshake::{Claims, Fault, Handshake, Proven, Role, code};
use super::hosts::Place;
use super::{ClusterConfig, Secret, now, seconds};
use crate::error::{Error, Result};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The most accepted connections that have not proven themselves.
pub(super) const WAITING_MAX: usize = 64;
/// The most time a handshake may take; to let a proven peer in, the other side has all the time of the start.
pub(super) const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// The most time for one attempt to connect.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(150);
/// The same after something that is no peer, or not yet.
const RETRY_FAULT: Duration = Duration::from_secs(1);
/// Between two looks whether the start has ended.
const LOOK: Duration = Duration::from_millis(100);
/// Between two looks for new connections.
const ACCEPT: Duration = Duration::from_millis(2);
const STACK_BYTES: usize = 256 << 10;

/// A proven connection.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) proven: Proven,
    pub(super) stream: Arc<TcpStream>,
    pub(super) from: SocketAddr,
}

/// What happens at the gate.
#[derive(Debug)]
pub(super) enum Event {
    /// A peer has come here.
    Accepted(Arrival),
    /// A peer, by its index, has let us in.
    Connected(usize, Arrival),
    /// There is no point in trying again.
    Refused(Error),
}

/// Why a peer has not come so far.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) text: String,
    /// What to do about it: set when something answers at its address that does not come together with this process.
    pub(super) hint: Option<&'static str>,
}

/// What is known of peers that have not come, for messages.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The last failure by peer.
    pub(super) peers: Vec<Option<Note>>,
    /// The last stranger that claimed to be a peer.
    pub(super) stranger: Option<String>,
}

/// What all threads of the gate share.
pub(super) struct Shared {
    claims: Claims,
    secret: Secret,
    deadline: Instant,
    limit: Duration,
    pub(super) stop: AtomicBool,
    pub(super) notes: Mutex<Notes>,
    waiting: Mutex<VecDeque<(u64, Arc<TcpStream>)>>,
    threads: AtomicUsize,
}

impl Shared {
    pub(super) fn new(config: &ClusterConfig, deadline: Instant, limit: Duration) -> Result<Arc<Self>> {
        let number = |n: usize| u32::try_from(n).map_err(|_| Error::usage(format!("{n} is too large for a cluster")));
        let claims = Claims {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: number(config.process)?,
            processes: number(config.processes)?,
            threads: number(config.threads)?,
        };
        Ok(Arc::new(Shared {
            claims,
            secret: config.secret.clone(),
            deadline,
            limit,
            stop: AtomicBool::new(false),
            notes: Mutex::new(Notes { peers: (0..config.processes).map(|_| None).collect(), stranger: None }),
            waiting: Mutex::new(VecDeque::new()),
            threads: AtomicUsize::new(0),
        }))
    }

    fn has_ended(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || now() >= self.deadline
    }

    /// Takes a connection off the list of those that wait; `false` if it was closed for a newer one.
    fn forget(&self, id: u64) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let before = waiting.len();
        waiting.retain(|(other, _)| *other != id);
        waiting.len() < before
    }

    fn note(&self, note: impl FnOnce(&mut Notes)) {
        note(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn handshake(&self, role: Role, to: u32) -> Result<Handshake, Failure> {
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce).map_err(|e| Failure::Broken(format!("the system gives no random numbers: {e}")))?;
        Ok(Handshake::new(role, self.claims.clone(), to, nonce, self.secret.clone()))
    }
}

/// Why a handshake came to nothing.
enum Failure {
    /// The network, or the other side's patience.
    Broken(String),
    /// What the other side said.
    Fault(Fault),
}

fn broken(what: &str) -> impl Fn(std::io::Error) -> Failure {
    move |e| Failure::Broken(format!("{what}: {e}"))
}

/// Goes through a handshake within the limit.
fn shake(stream: &TcpStream, mut handshake: Handshake, shared: &Shared) -> Result<Proven, Failure> {
    let begun = now();
    let limit = shared.limit.min(shared.deadline.saturating_duration_since(begun));
    let late = || Failure::Broken(format!("it did not answer within {}: is its run under way?", seconds(limit)));
    let (mut reader, mut writer) = (stream, stream);
    stream.set_nodelay(true).and_then(|()| stream.set_write_timeout(Some(limit))).map_err(broken("socket"))?;
    writer.write_all(&handshake.opening()).map_err(broken("it closed the connection"))?;
    let mut buffer = [0; 1024];
    loop {
        let end = if handshake.is_waiting() { shared.deadline } else { begun + limit };
        let left = end.saturating_duration_since(now());
        if left.is_zero() || shared.stop.load(Ordering::Relaxed) {
            return Err(late());
        }
        stream.set_read_timeout(Some(left.min(LOOK))).map_err(broken("socket"))?;
        let bytes = match reader.read(&mut buffer) {
            Ok(0) => return Err(Failure::Broken("it closed the connection".to_owned())),
            Ok(bytes) => bytes,
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
            {
                continue;
            }
            Err(error) => return Err(broken("it closed the connection")(error)),
        };
        match handshake.receive(buffer.get(..bytes).unwrap_or_default()) {
            Ok(step) => {
                writer.write_all(&step.send).map_err(broken("it closed the connection"))?;
                if let Some(proven) = step.proven {
                    return Ok(proven);
                }
            }
            Err(fault) => {
                if let Some(refusal) = fault.refusal() {
                    // The other side may have gone.
                    let _ = writer.write_all(&refusal);
                }
                return Err(Failure::Fault(fault));
            }
        }
    }
}

/// Accepts connections until told to stop.
pub(super) fn accept(listener: Arc<TcpListener>, shared: Arc<Shared>, events: Sender<Event>) -> Result<JoinHandle<()>> {
    let trouble = |e| Error::cluster("cannot wait for other processes").with_source(e);
    listener.set_nonblocking(true).map_err(trouble)?;
    let work = move || {
        for id in 0_u64.. {
            if shared.stop.load(Ordering::Relaxed) {
                break;
            }
            match listener.accept() {
                Ok((stream, from)) => admit(id, stream, from, &shared, &events),
                // Also when there are no more file descriptors: the connection waits.
                Err(_) => thread::sleep(ACCEPT),
            }
        }
    };
    thread::Builder::new().name("mesh:accept".to_owned()).stack_size(STACK_BYTES).spawn(work).map_err(trouble)
}

/// Starts the handshake of an accepted connection in its own thread.
fn admit(id: u64, stream: TcpStream, from: SocketAddr, shared: &Arc<Shared>, events: &Sender<Event>) {
    if shared.threads.load(Ordering::Acquire) >= 2 * WAITING_MAX || stream.set_nonblocking(false).is_err() {
        return;
    }
    let stream = Arc::new(stream);
    {
        let mut waiting = shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= WAITING_MAX
            && let Some((_, oldest)) = waiting.pop_front()
        {
            // Its thread wakes and ends.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        waiting.push_back((id, Arc::clone(&stream)));
    }
    let (own, events) = (Arc::clone(shared), events.clone());
    let _ = shared.threads.fetch_add(1, Ordering::AcqRel);
    let work = move || {
        let result = own.handshake(Role::Accepting, 0).and_then(|handshake| shake(&stream, handshake, &own));
        if !own.forget(id) {
            // Closed for a newer one, perhaps after the last byte of the proof: the peer tries again.
            let _ = own.threads.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        match result {
            // The receiver is gone when the start has ended.
            Ok(proven) => drop(events.send(Event::Accepted(Arrival { proven, stream, from }))),
            Err(Failure::Fault(fault @ (Fault::Secret(_) | Fault::Protocol(_)))) => {
                let who = match &fault {
                    Fault::Secret(process) => format!("a connection from {from} that claims to be process {process}"),
                    _ => format!("a connection from {from}"),
                };
                own.note(|notes| notes.stranger = Some(format!("refused {who}: {fault}")));
            }
            Err(_) => {}
        }
        let _ = own.threads.fetch_sub(1, Ordering::AcqRel);
    };
    let builder = thread::Builder::new().name("mesh:handshake".to_owned()).stack_size(STACK_BYTES);
    if builder.spawn(work).is_err() {
        let _ = shared.threads.fetch_sub(1, Ordering::AcqRel);
        let _ = shared.forget(id);
    }
}

/// Connects to a peer, again and again until the deadline, in a thread of its own. Only the refusal of a proven peer is
/// final: whoever else answers there may be a stranger in its place, and the peer may still come.
pub(super) fn connect(
    peer: usize,
    config: &ClusterConfig,
    place: Place,
    shared: &Arc<Shared>,
    events: &Sender<Event>,
) -> Result<()> {
    let (name, shared, events) = (config.name(peer), Arc::clone(shared), events.clone());
    let address = config.addresses.get(peer).cloned().unwrap_or_default();
    let work = move || {
        while !shared.has_ended() {
            let failure = match attempt(peer, &address, &place, &shared) {
                Ok(arrival) => return drop(events.send(Event::Connected(peer, arrival))),
                Err(failure) => failure,
            };
            let (note, pause) = match failure {
                Failure::Fault(fault) if fault.is_proven() => {
                    let message = format!("{name} and this process do not come together: {fault}");
                    let error = Error::usage(message).with_hint(hint(&fault));
                    return drop(events.send(Event::Refused(error)));
                }
                Failure::Fault(fault) => (Note { text: fault.to_string(), hint: Some(hint(&fault)) }, RETRY_FAULT),
                Failure::Broken(text) => (Note { text, hint: None }, RETRY),
            };
            shared.note(|notes| {
                if let Some(last) = notes.peers.get_mut(peer) {
                    *last = Some(note);
                }
            });
            thread::sleep(pause);
        }
    };
    let builder = thread::Builder::new().name(format!("mesh:connect-{peer}")).stack_size(STACK_BYTES);
    builder.spawn(work).map(drop).map_err(|e| Error::cluster("cannot start a thread").with_source(e))
}

fn hint(fault: &Fault) -> &'static str {
    match fault {
        Fault::Secret(_) | Fault::Refused { code: code::SECRET, .. } => super::secret::HINT,
        Fault::Refused { code: code::TAKEN, .. } => "give each process its own -p",
        Fault::Refused { code: code::PROTOCOL, .. } | Fault::Protocol(_) => {
            "run the same version of the program on all hosts"
        }
        _ => "check the address in the host file: does something else listen there?",
    }
}

fn attempt(peer: usize, address: &str, place: &Place, shared: &Shared) -> Result<Arrival, Failure> {
    let resolved = place.resolve().map_err(|e| Failure::Broken(format!("cannot resolve {address}: {e}")))?;
    let mut last = format!("{address} resolves to nothing");
    for from in resolved {
        let left = shared.deadline.saturating_duration_since(now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&from, left.min(CONNECT_MAX)) {
            Err(error) => last = format!("cannot connect: {error}"),
            // A port of this machine that nobody listens on can be connected to itself.
            Ok(stream) if stream.local_addr().ok() == stream.peer_addr().ok() => last = "cannot connect".to_owned(),
            Ok(stream) => {
                let handshake = shared.handshake(Role::Connecting, u32::try_from(peer).unwrap_or(u32::MAX))?;
                let proven = shake(&stream, handshake, shared)?;
                return Ok(Arrival { proven, stream: Arc::new(stream), from });
            }
        }
    }
    Err(Failure::Broken(last))
}
