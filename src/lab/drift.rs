//! How disorder changes over the stream: lags by stretch of event time.
//!
//! Event time is cut as for recommendations ([`super::blocks`]); each block has the buckets of [`super::lags`]. Memory: 256 blocks of at most about 500
//! counts. Cost: one operation per record, and a lookup when a record is of another block than the one before it.

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
    /// By place, then bucket.
    counts: Vec<u64>,
    /// Where the counts of the block at hand begin.
    current: usize,
}

/// Buckets, as many as any lag needs.
const BUCKETS: usize = lags::BUCKETS_MAX;

impl DriftMeter {
    /// For blocks of these slots.
    pub fn new(slots: Slots) -> Self {
        DriftMeter { slots, doublings: 0, places: HashMap::default(), counts: Vec::new(), current: 0 }
    }

    /// Counts a record of the block at hand.
    #[inline]
    pub fn record(&mut self, bucket: usize) {
        if let Some(count) = self.counts.get_mut(self.current + bucket) {
            *count += 1;
        }
    }

    /// Turns to the block of an event time. Gives the event times that are in it.
    pub fn move_to(&mut self, event_time_us: i64) -> (i64, i64) {
        let slot = self.slots.of(event_time_us);
        let mut block = slot >> self.doublings.min(63);
        self.current = match self.places.get(&block) {
            Some(place) => *place * BUCKETS,
            None => {
                if self.places.len() == BLOCKS_MAX {
                    self.join(slot);
                    block = slot >> self.doublings.min(63);
                }
                let next = self.places.len();
                let place = *self.places.entry(block).or_insert(next);
                self.counts.resize(self.places.len() * BUCKETS, 0);
                place * BUCKETS
            }
        };
        let start_us = self.slots.block_start_us(block, self.doublings);
        (start_us, start_us.saturating_add(self.slots.block_us(self.doublings)))
    }

    /// Makes blocks longer, so that there are few enough with that of a slot.
    #[cold]
    fn join(&mut self, slot: i64) {
        let mut sums = std::mem::replace(self, DriftMeter::new(self.slots)).into_sums();
        sums.add(slot, LAGS, 0, |_| {});
        self.doublings = sums.doublings();
        for (block, groups) in sums.blocks() {
            let _ = self.places.insert(*block, self.places.len());
            let counts = groups.get(&LAGS).map_or(&[][..], Vec::as_slice);
            self.counts.extend_from_slice(counts);
            self.counts.resize(self.places.len() * BUCKETS, 0);
        }
    }

    /// What was counted.
    pub fn into_sums(self) -> BlockSums {
        let blocks = self.places.iter().filter_map(|(block, place)| {
            let counts = self.counts.get(place * BUCKETS..(place + 1) * BUCKETS)?;
            let filled = counts.iter().rposition(|n| *n > 0).map_or(0, |last| last + 1);
            Some((*block, counts.get(..filled)?.to_vec()))
        });
        BlockSums::of(self.doublings, LAGS, blocks)
    }
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
                let meter = &mut meters[next(2) as usize];
                let (from_us, upto_us) = meter.move_to(time_us);
                assert!((from_us..upto_us).contains(&time_us));
                meter.record(bucket);
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
