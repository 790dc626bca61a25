//! How disorder changes over the stream: lags by stretch of event time.
//!
//! Event time is cut as for recommendations ([`super::blocks`]); each block has the buckets of [`super::lags`]. Memory: 256 blocks of at most about 500
//! counts. Cost: two operations per record, and a lookup when a record is of another block than the one before it.

use super::blocks::{BLOCKS_MAX, BlockSums, Slots};
use super::lags::{self, LagBucket};
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// The group of [`BlockSums`] that lags are in, by bucket.
const LAGS: u64 = 0;

/// Counts lags of one worker by block.
#[derive(Clone, Debug)]
pub struct DriftMeter {
    slots: Slots,
    doublings: u64,
    /// Where a block's counts are.
    places: HashMap<i64, usize, FixedState>,
    counts: Vec<Vec<u64>>,
    /// Event times of the block at hand, and its place.
    times_us: (i64, i64),
    place: usize,
}

impl DriftMeter {
    /// For blocks of these slots.
    pub fn new(slots: Slots) -> Self {
        DriftMeter { slots, doublings: 0, places: HashMap::default(), counts: Vec::new(), times_us: (0, 0), place: 0 }
    }

    /// Counts a record.
    #[inline]
    pub fn record(&mut self, event_time_us: i64, bucket: usize) {
        if event_time_us < self.times_us.0 || event_time_us >= self.times_us.1 {
            self.move_to(event_time_us);
        }
        let Some(counts) = self.counts.get_mut(self.place) else { return };
        match counts.get_mut(bucket) {
            Some(count) => *count += 1,
            None => grow(counts, bucket),
        }
    }

    fn move_to(&mut self, event_time_us: i64) {
        let slot = self.slots.of(event_time_us);
        let mut block = slot >> self.doublings.min(63);
        if !self.places.contains_key(&block) && self.places.len() == BLOCKS_MAX {
            self.join(slot);
            block = slot >> self.doublings.min(63);
        }
        let next = self.counts.len();
        self.place = *self.places.entry(block).or_insert(next);
        if self.place == next {
            self.counts.push(Vec::new());
        }
        let start_us = self.slots.block_start_us(block, self.doublings);
        self.times_us = (start_us, start_us.saturating_add(self.slots.block_us(self.doublings)));
    }

    /// Makes blocks longer, so that there are few enough with that of a slot.
    #[cold]
    fn join(&mut self, slot: i64) {
        let mut sums = std::mem::replace(self, DriftMeter::new(self.slots)).into_sums();
        sums.add(slot, LAGS, 0, |_| {});
        self.doublings = sums.doublings();
        for (block, groups) in sums.blocks() {
            let _ = self.places.insert(*block, self.counts.len());
            self.counts.push(groups.get(&LAGS).cloned().unwrap_or_default());
        }
    }

    /// What was counted.
    pub fn into_sums(self) -> BlockSums {
        let blocks = self.places.iter().filter_map(|(block, place)| Some((*block, self.counts.get(*place)?.clone())));
        BlockSums::of(self.doublings, LAGS, blocks)
    }
}

#[cold]
fn grow(counts: &mut Vec<u64>, bucket: usize) {
    counts.resize(bucket + 1, 0);
    counts.iter_mut().skip(bucket).for_each(|count| *count += 1);
}

/// By block: where it begins and ends (µs), and its lags, ascending.
pub fn rows(sums: &BlockSums, slots: &Slots) -> Vec<(i64, i64, Vec<LagBucket>)> {
    let doublings = sums.doublings();
    let row = |(block, groups): (&i64, &super::blocks::Groups)| {
        let from_us = slots.block_start_us(*block, doublings);
        let counts = groups.get(&LAGS).map_or(&[][..], Vec::as_slice);
        (from_us, from_us.saturating_add(slots.block_us(doublings)), lags::buckets_of(counts))
    };
    sums.blocks().iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::WindowPlan;

    /// However many blocks the times fall into and whoever counts what, the sums are those of one count after another.
    #[test]
    fn meters_equal_sums() {
        let slots = Slots::new(&WindowPlan { size_us: 10, slide_us: 10, offset_us: 3 });
        let mut x = 11u64;
        let mut next = move |below: u64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) % below
        };
        for spread in [50, 4_000, 1 << 30] {
            let mut meters = vec![DriftMeter::new(slots); 2];
            let mut expected = BlockSums::default();
            for _ in 0..3_000 {
                let (time_us, bucket) = (next(spread) as i64 - 20, next(70) as usize);
                meters[next(2) as usize].record(time_us, bucket);
                expected.add(slots.of(time_us), LAGS, bucket + 1, |counts| counts[bucket] += 1);
            }
            let mut merged = BlockSums::default();
            meters.into_iter().for_each(|meter| merged.merge(&meter.into_sums()));
            assert_eq!(merged, expected, "{spread}");
            let rows = rows(&merged, &slots);
            let records: u64 = rows.iter().flat_map(|(_, _, lags)| lags).map(|lag| lag.records).sum();
            assert_eq!(records, 3_000);
            assert!(rows.is_sorted_by(|a, b| a.1 <= b.0));
        }
    }
}
