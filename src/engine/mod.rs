//! The SQL engine without its dataflow: from stamped blocks to contributions, and from tables to published rows. Pure.

pub mod changelog;
pub mod ingest;
pub mod output;
pub mod publish;
pub mod update;
mod wire;
