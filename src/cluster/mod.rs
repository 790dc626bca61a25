//! The network of a cluster run: processes find each other, prove that they belong together, agree on what they run, and
//! notice when one of them is lost.
//!
//! [`mesh::connect`] gives a [`Mesh`] of one connection for each pair of processes; [`transport::allocators`] hands it to
//! timely. Every byte on the wire is a frame of [`frame`]. A connection goes through three stages:
//!
//! 1. **proof** ([`handshake`]): both sides show that they know the [`Secret`]; nothing else is believed before that;
//! 2. **start** ([`mesh`]): process 0 sends its [`Terms`] and input files, all compare, and all start or none does;
//! 3. **run** ([`link`], [`watch`]): timely's bytes, heartbeats, and at last a goodbye, or an abort with its reason.
//!
//! # What the secret protects
//!
//! Whoever does not know the secret cannot join a cluster, take the place of one of its processes, or keep it from
//! forming by talking to its ports. The proof is HMAC-SHA256 over both sides' random numbers and claims, so that a
//! recorded proof is worth nothing later. The secret itself never travels, but what travels is enough to try guesses on:
//! it must be long and random ([`handshake`] says who gets to see what).
//!
//! It does **not** encrypt: whoever can read the network between the hosts reads the records that travel, and whoever
//! can change packets there can change them after the proof. Such a network needs a tunnel (WireGuard, for example).
//! Without a secret only loopback addresses are allowed; there every user of the machine can join. What a stranger in the
//! place of a peer says ends nothing: it is shown, and the peer waited for until the deadline.
//!
//! # Sides
//!
//! Each process listens on its own address of the host list alone. The process with the higher index connects to the one
//! with the lower, first to process 0, which admits one process for each index: a second one with the same `-p` is
//! refused and ends, and the cluster goes on without it.

mod bytes;
pub mod digest;
pub mod frame;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gate;
pub mod handshake;
pub mod hosts;
pub mod link;
pub mod mesh;
pub mod secret;
mod start;
pub mod terms;
#[cfg(test)]
mod tests;
pub mod transport;
pub mod watch;

pub use link::Link;
pub use mesh::{Mesh, connect, connect_checked, connect_until};
pub use secret::{Secret, read_secret};
pub use terms::{InputFile, InputsCheck, Terms};
pub use transport::{Allocators, allocators};
pub use watch::{Alarm, Loss, LossReason, Traffic, Watch};

use crate::error::{Error, Result};
use std::time::{Duration, Instant};

/// How long a cluster may take to form, unless told otherwise.
pub const START_DEADLINE: Duration = Duration::from_secs(30);
/// How long a peer may be silent before it counts as lost, unless told otherwise.
pub const SILENCE: Duration = Duration::from_secs(10);
/// The least [`ClusterConfig::silence`].
pub const SILENCE_MIN: Duration = Duration::from_millis(100);
/// The most processes of a cluster.
pub const PROCESSES_MAX: usize = 1024;

/// Who takes part in a cluster, and how patient they are.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Index of this process, below `processes`.
    pub process: usize,
    /// Number of processes, 1 to [`PROCESSES_MAX`].
    pub processes: usize,
    /// Worker threads of each process, at least 1.
    pub threads: usize,
    /// `host:port` of every process, by index.
    pub addresses: Vec<String>,
    /// What all processes know and strangers do not.
    pub secret: Secret,
    /// How long the cluster may take to form, from the call of [`connect`].
    pub start_deadline: Duration,
    /// How long nothing at all may be heard of a peer before it is lost, at least [`SILENCE_MIN`]. Heartbeats are sent
    /// four times as often.
    pub silence: Duration,
}

impl ClusterConfig {
    /// A cluster of as many processes as there are addresses, with the usual patience and no secret.
    pub fn new(process: usize, threads: usize, addresses: Vec<String>) -> Self {
        ClusterConfig {
            process,
            processes: addresses.len(),
            threads,
            addresses,
            secret: Secret::default(),
            start_deadline: START_DEADLINE,
            silence: SILENCE,
        }
    }

    /// `process 2 (10.0.0.3:2101)`.
    pub fn name(&self, process: usize) -> String {
        name(process, &self.addresses)
    }

    /// Checks the bounds of all fields, and that addresses beyond this machine come with a secret.
    ///
    /// # Errors
    /// Names the first field that is out of bounds.
    pub fn check(&self) -> Result<()> {
        self.check_bounds()?;
        hosts::places(self).map(drop)
    }

    fn check_bounds(&self) -> Result<()> {
        let (process, processes) = (self.process, self.processes);
        if processes == 0 || processes > PROCESSES_MAX {
            return Err(Error::usage(format!("-n: expected 1 to {PROCESSES_MAX} processes, found {processes}")));
        }
        if process >= processes {
            let message =
                format!("-p: expected a process from 0 to {} (-n {processes}), found {process}", processes - 1);
            return Err(Error::usage(message));
        }
        if self.addresses.len() != processes {
            let message = format!("expected {processes} addresses (-n {processes}), found {}", self.addresses.len());
            return Err(Error::usage(message).with_hint("the host file has one host:port a line for each process"));
        }
        if self.threads == 0 || u32::try_from(self.threads.saturating_mul(processes)).is_err() {
            return Err(Error::usage(format!("-w: expected at least 1 worker thread, found {}", self.threads)));
        }
        if self.silence < SILENCE_MIN {
            let (least, found) = (SILENCE_MIN.as_millis(), self.silence.as_millis());
            return Err(Error::usage(format!("--peer-timeout: expected at least {least} ms, found {found} ms")));
        }
        if self.start_deadline.is_zero() {
            return Err(Error::usage("--start-timeout: expected more than 0 s"));
        }
        Ok(())
    }
}

/// `process 2 (10.0.0.3:2101)`; an index without an address stands alone.
fn name(process: usize, addresses: &[String]) -> String {
    match addresses.get(process) {
        Some(address) => format!("process {process} ({address})"),
        None => format!("process {process}"),
    }
}

/// Seconds for people: `10 s`, `0.3 s`.
fn seconds(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}

/// Whole seconds that are left, begun ones included: nobody waits on with none.
fn seconds_left(left: Duration) -> u64 {
    left.as_secs().saturating_add(u64::from(left.subsec_nanos() > 0)).max(1)
}

/// The clock, for deadlines of the network alone.
#[expect(clippy::disallowed_methods, reason = "deadlines of the start; no result depends on it")]
fn now() -> Instant {
    Instant::now()
}
