//! Event-time windows over out-of-order streams: windows close on a watermark, late events correct
//! them within a declared horizon, and the results are the same bytes for any number of workers.

#![cfg_attr(
    not(test),
    warn(clippy::unwrap_used, clippy::indexing_slicing, clippy::todo, clippy::dbg_macro, clippy::unimplemented)
)]

pub mod aggregate;
pub mod cli;
pub mod dataflow;
pub mod engine;
pub mod error;
pub mod expr;
pub mod lateness;
pub mod oracle;
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

pub use error::{Error, ErrorKind, Result};
