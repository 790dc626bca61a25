//! The load harness, as far as it is pure: what is measured, when each answer is due, and what the figures are.
//!
//! `slackwater bench` (in `cli/bench/`) runs the program itself as a child, in two ways:
//!
//! * **closed loop**: over a file, as fast as it goes. It tells throughput and cost. Latency it cannot tell: a loop that
//!   waits for the program asks less of it whenever it is slow.
//! * **open loop**: records are written to its standard input by a fixed schedule that waits for nobody. Each answer is
//!   measured from the moment at which it was *due by the schedule*, so that a stall counts in full, for every record
//!   that was to arrive meanwhile, and not once (what is called coordinated omission).
//!
//! Modules: what a benchmark is ([`definition`]), when records are due ([`schedule`]), which record makes which answer due
//! ([`moments`]), what kind of answer a line of the changelog is ([`changes`]), latencies and medians ([`stats`]), the
//! search for the highest rate ([`search`]), what is reported ([`report`]).

pub mod changes;
pub mod definition;
pub mod moments;
pub mod report;
pub mod schedule;
pub mod search;
mod settings;
pub mod stats;
