//! The lateness lab: what every delay and every horizon of a grid would have given, exactly, from one pass over the input.
//!
//! # Why one pass is enough
//!
//! Let `M` be a record's stamp under delay 0 and granularity 0: the greatest event time seen, after what partitions,
//! scopes and idleness make of it. Those are minima and maxima, and arrival times that no delay changes, so under a delay
//! `d` the stamp is `M − d`, rounded down to the granularity last ([`Grid::stamp`]). All delays share one pipeline of stamps.
//!
//! A record of a window that ends at `E` is on time under `d` iff its stamp is below `E`, and accepted under `(d, h)` iff it
//! is at most `E + h`: both are thresholds on `M`. The operator handles the records of one (key, window) in the order of `M`,
//! so that one running aggregate passes through the first result of every delay, the final one of every cell, and every
//! correction between them. The engine's own window core is that running aggregate: it runs under the least delay, without
//! rounding, and with a horizon that reaches as far as any cell does. It tells what changed when; [`pairs`] deals it out.
//!
//! # What is kept
//!
//! A (key, window) pair without a record later than the least delay is the same in every cell, and only counted. Of the
//! others every state is kept until no cell can change it, then dealt out to the cells and dropped. All figures are sums of
//! integers, exact sums or maxima, so that what workers find adds up to the same bytes in any order.

pub mod blocks;
pub mod buckets;
pub mod drift;
pub mod figures;
pub mod files;
pub mod grid;
pub mod ingest;
pub mod keyed;
pub mod lags;
pub mod ledger;
pub mod outcome;
pub mod page;
pub mod pairs;
pub mod plan;
pub mod recommend;
pub mod report;
pub mod show;
pub mod steps;
pub mod timeline;
pub mod trace;
mod wire;

pub use grid::Grid;
