//! Several processes, with the real binary: the same bytes for any number of them, and what happens when one is slow,
//! wrong, lost or told to stop. All addresses are loopback, all ports free ones.

#![cfg(unix)]

mod data;
mod failures;
mod harness;
mod hosts;
mod local;
mod matrix;
mod memory;
mod odd;
mod proxy;
mod refusals;
mod sinks;
mod strangers;
