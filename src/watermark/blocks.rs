//! Stamps for blocks decoded in parallel.
//!
//! Every worker keeps an equal [`Coordinator`] and feeds it the [`BlockSummary`] of every block of the source, its own
//! and those it is told of, in any order. From the summaries alone each works out the same [`BlockContext`]s: what a
//! block must know of everything before it. Rows never travel for this, and no result depends on timing.
//!
//! # Why it can be done by blocks
//!
//! Everything a stamp depends on (SEMANTICS §2, §3) is a running maximum along a lane, or changes at ends of ticks only.
//! A record's tick is read from the source's arrival clock, and where each lane is one partition that clock is, at every
//! record, the running maximum of arrival times along the record's *own* lane: partitions are merged by arrival time, so
//! a record of another lane with a later arrival than anything read here is never read before this one. Lanes thus
//! meet only at ends of ticks. Where a column names the partitions there is one lane, and nothing to merge.
//!
//! # Invariants
//!
//! * Contexts, watermarks and the order of partitions are a function of the summaries, not of the order of offers.
//! * Every context taken after [`Coordinator::frontier`] gave `f` holds only stamps `≥ f`, and `f` never falls.
//!
//! # Cost
//!
//! A maximum per record to summarise and one to stamp, no division except where a stamp enters another granule; per
//! block and per tick `O((partitions in it) · log(partitions))`. Memory is what is outstanding: summaries that wait for
//! an earlier block of their lane, or for the end of an earlier tick.
//!
//! Prefix combination of per-block summaries is Blelloch, *Prefix sums and their applications* (1990).

mod context;
mod coordinator;
mod partition_scope;
mod source_scope;
mod summary;
mod wire;

#[cfg(test)]
mod tests;

pub use context::BlockContext;
pub use coordinator::{Coordinator, LanePartitions};
pub use summary::{BlockSummary, Segment, SegmentEntry, SummaryBuilder};
