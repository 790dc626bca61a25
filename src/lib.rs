//! Event-time windows over out-of-order streams: windows close on a watermark, late events correct them within a declared
//! horizon, and the results are the same bytes for any number of workers.
//!
//! Most people want the command `slackwater`, which runs SQL files (see the README). This is the library behind it. A Rust program
//! takes [`dataflow::typed`], windows over its own types inside its own timely dataflow. Seven orders, two of them late:
//!
//! ```
//! # let (changed, changes) = std::sync::mpsc::channel();
//! use slackwater::{aggregate::monoid::Count, dataflow::typed::{StampedInput, Windows}};
//! use std::time::Duration;
//! timely::execute_directly(|worker| {
//!     let mut orders = worker.dataflow(|scope| {
//!         let (input, stream) = StampedInput::<i64>::new(scope, Duration::from_secs(10));
//!         let minutes = Windows::tumbling(Duration::from_secs(60)).horizon(Duration::from_secs(180));
//!         let counts = minutes.aggregate(stream, |_| "all", |order| *order, Count::default());
//!         counts.inspect(move |((_, window), at, diff)| changed.send((at.time().0, window.value, *diff)).unwrap());
//!         input
//!     });
//!     [10, 20, 40, 70, 80, 50, 25].map(|second| orders.send(second * 1_000_000, second * 1_000_000));
//! });
//! # let mut changes: Vec<_> = changes.iter().map(|(at, count, diff)| (at / 1_000_000, count, diff)).collect();
//! # changes.sort();
//! // (watermark in seconds, orders, difference): 3 orders are published at 60, and corrected to 5 at 70.
//! assert_eq!(changes, [(60, 3, 1), (70, 3, -1), (70, 5, 1), (120, 2, 1)]);
//! ```
//!
//! The other modules are what that and the command are made of; ARCHITECTURE.md has the map. They are public for tests,
//! benches and the curious, and may change with any version.
//!
//! What it is not: a database (results are written, not served), a connector kit
//! (files and standard input only), and it has no session windows, joins or checkpoints yet.

#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::indexing_slicing, clippy::todo, clippy::dbg_macro, clippy::unimplemented)
)]

pub mod aggregate;
pub mod bench;
pub mod cli;
pub mod cluster;
pub mod dataflow;
pub mod engine;
pub mod error;
pub mod expr;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod lab;
pub mod lateness;
pub mod oracle;
pub mod per_row;
pub mod plan;
pub mod record;
pub mod sink;
pub mod source;
pub mod sql;
pub mod time;
pub mod types;
pub mod verify;
pub mod watermark;
pub mod window;
pub mod wire;
mod words;

pub use error::{Error, ErrorKind, Result};

/// The README's Rust, compiled and run with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
