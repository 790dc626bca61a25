//! Counts by stretch of event time, so that what holds on the whole can be looked at piece by piece.
//!
//! Event time is cut into *slots* as long as the windows' slide, numbered from 1970, and slots are joined into *blocks* of a power of two of
//! them: as few as make at most [`BLOCKS_MAX`] blocks that hold something. So the blocks are a function of what was counted, whoever counted which part of
//! it: a worker that has seen a part never needs longer ones than the whole.

use crate::plan::WindowPlan;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most blocks.
pub const BLOCKS_MAX: usize = 256;

/// How event time is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    slide_us: i64,
    offset_us: i64,
}

impl Slots {
    /// Slots of a slide each.
    pub fn new(window: &WindowPlan) -> Slots {
        Slots { slide_us: window.slide_us.max(1), offset_us: window.offset_us }
    }

    /// The slot of an event time; of a window, that of its start.
    pub fn of(&self, event_time_us: i64) -> i64 {
        event_time_us.saturating_sub(self.offset_us).div_euclid(self.slide_us)
    }

    /// Where a slot begins and where it ends, µs.
    pub fn bounds(&self, slot: i64) -> (i64, i64) {
        let start = slot.saturating_mul(self.slide_us).saturating_add(self.offset_us);
        (start, start.saturating_add(self.slide_us))
    }

    /// Length of a block of `1 << doublings` slots, µs.
    pub fn block_us(&self, doublings: u64) -> i64 {
        self.slide_us.saturating_mul(1i64.checked_shl(doublings as u32).unwrap_or(i64::MAX))
    }

    /// Where a block begins, µs.
    pub fn block_start_us(&self, block: i64, doublings: u64) -> i64 {
        self.bounds(block.checked_shl(doublings as u32).unwrap_or(0)).0
    }
}

/// Counters of a block, by group. What groups and counters are is the owner's.
pub type Groups = BTreeMap<u64, Vec<u64>>;

/// Counters by block and group; sums of several workers add up in any order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockSums {
    /// A block is this power of two of slots.
    pub(super) doublings: u64,
    pub(super) blocks: BTreeMap<i64, Groups>,
}

impl BlockSums {
    /// Of blocks of `1 << doublings` slots with one group, [`BLOCKS_MAX`] of them at most.
    pub fn of(doublings: u64, group: u64, blocks: impl Iterator<Item = (i64, Vec<u64>)>) -> BlockSums {
        BlockSums {
            doublings,
            blocks: blocks.map(|(block, counts)| (block, Groups::from([(group, counts)]))).collect(),
        }
    }

    /// Adds to the counters of a group in the block of a slot; there are `counters` of them.
    pub fn add(&mut self, slot: i64, group: u64, counters: usize, add: impl FnOnce(&mut [u64])) {
        let groups = self.blocks.entry(slot >> self.doublings.min(63)).or_default();
        let counts = groups.entry(group).or_default();
        if counts.len() < counters {
            counts.resize(counters, 0);
        }
        add(counts);
        if self.blocks.len() > BLOCKS_MAX {
            self.join();
        }
    }

    /// Makes blocks twice as long until there are few enough.
    fn join(&mut self) {
        while self.blocks.len() > BLOCKS_MAX {
            self.coarsen(self.doublings + 1);
        }
    }

    /// Makes blocks of `1 << doublings` slots, if they are shorter.
    pub fn coarsen(&mut self, doublings: u64) {
        let by = doublings.saturating_sub(self.doublings).min(63);
        if by == 0 {
            return;
        }
        self.doublings = doublings;
        for (block, groups) in std::mem::take(&mut self.blocks) {
            merge_groups(self.blocks.entry(block >> by).or_default(), &groups);
        }
    }

    /// Adds what another worker has counted.
    pub fn merge(&mut self, other: &BlockSums) {
        self.coarsen(other.doublings);
        let by = self.doublings.saturating_sub(other.doublings).min(63);
        for (block, groups) in &other.blocks {
            merge_groups(self.blocks.entry(block >> by).or_default(), groups);
        }
        self.join();
    }

    /// Moves what is in blocks that `base` lacks to the next one that it has; what comes after its last one is left. Both
    /// have blocks of the same length.
    pub fn move_onto(&mut self, base: &BlockSums) {
        for (block, groups) in std::mem::take(&mut self.blocks) {
            let onto = base.blocks.range(block..).next().map_or(block, |(onto, _)| *onto);
            merge_groups(self.blocks.entry(onto).or_default(), &groups);
        }
    }

    /// Slots to a block, as a power of two.
    pub fn doublings(&self) -> u64 {
        self.doublings
    }

    /// The blocks that hold something, ascending.
    pub fn blocks(&self) -> &BTreeMap<i64, Groups> {
        &self.blocks
    }
}

fn merge_groups(mine: &mut Groups, others: &Groups) {
    for (group, counts) in others {
        let own = mine.entry(*group).or_default();
        if own.len() < counts.len() {
            own.resize(counts.len(), 0);
        }
        own.iter_mut().zip(counts).for_each(|(a, b)| *a = a.saturating_add(*b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever counts which part, the blocks and their counts are those of the whole.
    #[test]
    fn parts_add_up_to_the_whole() {
        let mut x = 7u64;
        let mut next = move |below: u64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) % below
        };
        for spread in [10, 300, 5_000, 1 << 30] {
            let mut parts = vec![BlockSums::default(); 3];
            let mut whole = BlockSums::default();
            for _ in 0..2_000 {
                let (slot, group, n) = (next(spread) as i64 - 40, next(3), next(9));
                let part = next(3) as usize;
                for sums in [&mut parts[part], &mut whole] {
                    sums.add(slot, group, 2, |counts| counts[1] += n);
                }
            }
            let mut merged = BlockSums::default();
            parts.iter().rev().for_each(|part| merged.merge(part));
            assert_eq!(merged, whole, "{spread}");
            assert!(whole.blocks.len() <= BLOCKS_MAX && (whole.doublings == 0 || whole.blocks.len() > BLOCKS_MAX / 4));
        }
    }

    #[test]
    fn gaps_are_told_with_the_block_after_them() {
        let sums = |slots: &[i64]| {
            let mut sums = BlockSums::default();
            slots.iter().for_each(|slot| sums.add(*slot, 0, 1, |counts| counts[0] += 1));
            sums
        };
        let mut found = sums(&[-3, -1, 0, 1, 3, 9]);
        found.move_onto(&sums(&[-1, 4]));
        assert_eq!(found, {
            let mut expected = sums(&[-1, -1, 4, 4, 4]);
            expected.add(9, 0, 1, |counts| counts[0] += 1);
            expected
        });
    }

    #[test]
    fn slots_begin_at_window_starts() {
        let slots = Slots::new(&WindowPlan { size_us: 60, slide_us: 20, offset_us: 5 });
        assert_eq!([-16, -15, 4, 5, 24, 25].map(|us| slots.of(us)), [-2, -1, -1, 0, 0, 1]);
        assert_eq!((slots.bounds(-1), slots.block_us(3), slots.block_start_us(-1, 3)), ((-15, 5), 160, -155));
    }
}
