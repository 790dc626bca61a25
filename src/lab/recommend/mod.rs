//! Which setting of a grid to take: the cheapest that holds what is asked, how sure that is, and whether it holds later on.
//!
//! # Method
//!
//! What is asked comes down to shares and means: sums over contributions, pairs or windows, kept by block of event time
//! ([`super::blocks`]) and delay. The first blocks, as many as hold 70 % of the contributions, are for choosing: the
//! setting is the least delay with which all conditions on first results hold, then the least horizon with which those on
//! final results do. How much the figures could have been otherwise is told by a bootstrap: as many blocks are drawn again and again, with
//! repeats, and the middle 95 % of what comes out is the interval (Efron, "Bootstrap methods: another look at the jackknife", 1979; the
//! percentile interval). Blocks are drawn as if they were independent; where disorder comes in spells longer than a block, intervals are too narrow. The
//! remaining blocks, which choosing has not seen, are for checking: as a whole, by partition and by hour of day.
//!
//! Everything is integers until the last division, and the draws come from a fixed seed: the same bytes however it was read.

pub mod choose;
pub mod condition;
pub mod meter;

use super::blocks::Slots;
use condition::Condition;

/// What is asked, and how event time is cut for it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecommendPlan {
    /// All must hold.
    pub conditions: Vec<Condition>,
    /// The slots that blocks are made of.
    pub slots: Slots,
}

impl RecommendPlan {
    /// Times that result latencies are held against, µs.
    pub fn latency_bounds_us(&self) -> Vec<u64> {
        let bound = |condition: &Condition| match condition {
            Condition::Latency(_, us) => Some(*us),
            _ => None,
        };
        self.conditions.iter().filter_map(bound).collect()
    }
}
