//! Whether all peers are still there.

use super::frame::Abort;
use super::link::Connection;
use super::seconds;
use crate::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Why a peer is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// Its connection ended without a goodbye: it died, or the network did.
    Closed,
    /// Nothing was heard of it, or nothing could be sent to it, for so long.
    Silent(Duration),
    /// It sent what is no frame.
    Garbled(String),
    /// It gave up and said why.
    Aborted(String),
}

/// A peer that is lost: the run cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Index of the peer. Under [`LossReason::Aborted`] the one whose reason it is, though another may have passed it on.
    pub process: usize,
    /// Its `host:port`.
    pub address: String,
    /// What happened.
    pub reason: LossReason,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("process {} ({})", self.process, self.address);
        match &self.reason {
            LossReason::Closed => write!(f, "lost {name}: closed the connection"),
            LossReason::Silent(silence) => write!(f, "lost {name}: silent for {}", seconds(*silence)),
            LossReason::Garbled(what) => write!(f, "lost {name}: {what}"),
            LossReason::Aborted(reason) => write!(f, "{name} gave up: {reason}"),
        }
    }
}

impl From<Loss> for Error {
    fn from(loss: Loss) -> Error {
        Error::cluster(loss.to_string()).with_hint("start all processes of the cluster again")
    }
}

/// Bytes of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The peer.
    pub process: usize,
    /// Timely's bytes sent.
    pub sent_payload_bytes: u64,
    /// All bytes sent during the run, frames and heartbeats included.
    pub sent_bytes: u64,
    /// Timely's bytes received.
    pub received_payload_bytes: u64,
    /// All bytes received during the run.
    pub received_bytes: u64,
}

/// Dropped while it is armed, it gives the run up: a worker that panics must not look like one that has ended. Take it at
/// the beginning of the worker's closure, so that it goes off before timely sees the worker's queues close.
#[derive(Debug)]
#[must_use = "it goes off when it is dropped"]
pub struct Alarm(Option<Arc<Watch>>);

impl Alarm {
    /// The worker has ended well, or has told the others why not.
    pub fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Some(watch) = &self.0 {
            watch.abort_all("a worker ended early");
        }
    }
}

type Callback = Box<dyn FnOnce(&Loss) + Send>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// Telling the peers.
    GivingUp,
    GivenUp,
}

struct State {
    phase: Phase,
    loss: Option<Loss>,
    released: bool,
    callback: Option<Callback>,
}

/// Watches the peers of a run. The first loss ends the run: all peers are told the reason, and all connections stand
/// still from then on. What is written to them vanishes, and nothing is read any more.
pub struct Watch {
    process: usize,
    connections: Vec<Arc<Connection>>,
    /// For worker loops: set with `State::loss`.
    is_lost: AtomicBool,
    /// For connections: set as soon as the phase is not `Running`.
    is_given_up: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("process", &self.process).field("lost", &self.lost()).finish_non_exhaustive()
    }
}

impl Watch {
    pub(super) fn new(process: usize, connections: Vec<Arc<Connection>>) -> Self {
        let state = State { phase: Phase::Running, loss: None, released: false, callback: None };
        Watch {
            process,
            connections,
            is_lost: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// The first loss, if there was one. Costs one atomic load when there was none. When it gives a loss, the peers have
    /// been told.
    pub fn lost(&self) -> Option<Loss> {
        if self.is_lost.load(Ordering::Acquire) { self.state().loss.clone() } else { None }
    }

    /// Calls back once when a peer is lost, from a network thread; at once if one is lost already. A second callback
    /// replaces the first.
    pub fn on_loss(&self, callback: impl FnOnce(&Loss) + Send + 'static) {
        let mut state = self.state();
        if self.is_lost.load(Ordering::Acquire)
            && let Some(loss) = state.loss.clone()
        {
            drop(state);
            callback(&loss);
        } else {
            state.callback = Some(Box::new(callback));
        }
    }

    /// Gives the run up: tells all peers why (at most 4 KiB are sent) and closes the connections towards them. Best
    /// effort: takes at most 0.2 s for a peer that does not read. After a loss it does nothing but wait until the peers
    /// have been told of that. Does not count as a loss here.
    pub fn abort_all(&self, reason: &str) {
        let origin = u32::try_from(self.process).unwrap_or(u32::MAX);
        self.give_up(None, &Abort { origin, is_usage: false, reason: reason.to_owned() });
    }

    /// An alarm for a worker of this process: give up if the worker leaves before it has disarmed it.
    pub fn alarm(self: &Arc<Self>) -> Alarm {
        Alarm(Some(Arc::clone(self)))
    }

    /// Lets the threads that read from connections of a given-up run end, quietly. Only after the workers have ended: a
    /// worker that still runs would find its queues broken. What [`super::allocators`] gives does this when it is
    /// dropped.
    pub fn release(&self) {
        self.state().released = true;
        self.changed.notify_all();
    }

    /// Bytes of every connection so far, by peer.
    pub fn traffic(&self) -> Vec<Traffic> {
        self.connections.iter().map(|connection| connection.traffic()).collect()
    }

    pub(super) fn connections(&self) -> &[Arc<Connection>] {
        &self.connections
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }

    /// Notes a loss and tells the others, unless the run is given up already.
    pub(super) fn lose(&self, connection: &Connection, reason: LossReason) {
        let loss = Loss { process: connection.peer, address: connection.address.clone(), reason };
        let origin = u32::try_from(self.process).unwrap_or(u32::MAX);
        let reason = loss.to_string();
        self.give_up(Some(loss), &Abort { origin, is_usage: false, reason });
    }

    /// Notes that a peer gave up, and passes its reason on: the others may see us go before they hear of it.
    pub(super) fn told(&self, connection: &Connection, abort: &Abort) {
        let origin = self.connections.iter().find(|c| u32::try_from(c.peer) == Ok(abort.origin));
        // An origin that is no peer: whoever sent it answers for it.
        let origin = origin.map_or(connection, |c| c);
        let loss = Loss {
            process: origin.peer,
            address: origin.address.clone(),
            reason: LossReason::Aborted(abort.reason.clone()),
        };
        self.give_up(Some(loss), abort);
    }

    fn give_up(&self, loss: Option<Loss>, abort: &Abort) {
        let mut state = self.state();
        if state.phase != Phase::Running {
            while state.phase != Phase::GivenUp {
                state = self.wait(state);
            }
            return;
        }
        state.phase = Phase::GivingUp;
        drop(state);
        self.is_given_up.store(true, Ordering::Release);
        let frame = abort.encode();
        for connection in &self.connections {
            connection.abort(&frame);
        }
        let mut state = self.state();
        state.phase = Phase::GivenUp;
        state.loss.clone_from(&loss);
        let callback = if loss.is_some() { state.callback.take() } else { None };
        self.is_lost.store(loss.is_some(), Ordering::Release);
        drop(state);
        self.changed.notify_all();
        if let (Some(callback), Some(loss)) = (callback, loss) {
            callback(&loss);
        }
    }

    /// Wakes [`Watch::wait_for_end`] to look again.
    pub(super) fn notify(&self) {
        // Under the lock, so that nobody looks and goes to sleep in between.
        let _state = self.state();
        self.changed.notify_all();
    }

    /// Waits until every peer has said goodbye; `false` if the run is given up, or a connection is read no more.
    pub(super) fn wait_for_end(&self) -> bool {
        let mut state = self.state();
        loop {
            match state.phase {
                Phase::GivenUp => return false,
                Phase::GivingUp => {}
                Phase::Running if self.connections.iter().all(|c| c.has_heard_goodbye()) => return true,
                Phase::Running if self.connections.iter().any(|c| !c.has_heard_goodbye() && c.is_unused()) => {
                    return false;
                }
                Phase::Running => {}
            }
            state = self.wait(state);
        }
    }

    /// Waits until the run is given up and released.
    pub(super) fn wait_for_release(&self) {
        let mut state = self.state();
        while !state.released {
            state = self.wait(state);
        }
    }
}
