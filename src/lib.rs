//! Event-time windows over out-of-order streams: windows close on a watermark, late events correct
//! them within a declared horizon, and the results are the same bytes for any number of workers.

pub mod aggregate;
pub mod cli;
pub mod error;
pub mod expr;
pub mod plan;
pub mod record;
pub mod sink;
pub mod source;
pub mod sql;
pub mod time;
pub mod types;
pub mod watermark;

pub use error::{Error, ErrorKind, Result};
