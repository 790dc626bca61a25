//! How many records of the last sixteen steps had which lag.
//!
//! A DDSketch (Masson, Rim, Lee, VLDB 2019) with the linearly interpolated mapping: below 128 µs every lag has a bucket of its own, from
//! there on 64 share a power of two, so a bucket is at most 1/64 of its lags wide. Buckets are never collapsed.
//!
//! Memory: two dense arrays up to the greatest lag (16 kB for an hour) and, for each step, the buckets that are not
//! empty. Cost: one addition per record; per step the buckets of two steps.

use super::STEPS;
use std::collections::VecDeque;

/// Buckets to a power of two.
const BITS: u32 = 6;

/// The bucket of a lag.
#[inline]
fn bucket_of(lag_us: u64) -> usize {
    let shift = lag_us.checked_ilog2().unwrap_or(0).saturating_sub(BITS);
    ((u64::from(shift) << BITS) + (lag_us >> shift)) as usize
}

/// The greatest lag of a bucket, µs.
fn upto(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket >> BITS).saturating_sub(1);
    let from = (bucket - (shift << BITS)) << shift;
    from + ((1 << shift) - 1)
}

/// Lags of the current step and of the sixteen before it.
#[derive(Clone, Debug, Default)]
pub struct SlidingLags {
    current: Vec<u32>,
    /// The buckets of former steps, the oldest first.
    steps: VecDeque<Vec<(u16, u32)>>,
    /// Sums over `steps`.
    total: Vec<u64>,
    records: u64,
}

impl SlidingLags {
    /// Counts a record of the current step.
    #[inline]
    pub fn add(&mut self, lag_us: u64) {
        let bucket = bucket_of(lag_us);
        match self.current.get_mut(bucket) {
            Some(count) => *count = count.saturating_add(1),
            None => {
                self.current.resize(bucket, 0);
                self.current.push(1);
            }
        }
    }

    /// Moves on by so many steps, of which all but the first are empty. Only whole steps count from here on.
    pub fn step(&mut self, passed: u64) {
        let mut ended = Vec::new();
        if self.total.len() < self.current.len() {
            self.total.resize(self.current.len(), 0);
        }
        for (bucket, (count, total)) in self.current.iter_mut().zip(&mut self.total).enumerate() {
            if *count > 0 {
                *total += u64::from(*count);
                self.records += u64::from(*count);
                ended.push((bucket as u16, std::mem::take(count)));
            }
        }
        self.steps.push_back(ended);
        for _ in 1..passed.min(STEPS as u64 + 1) {
            self.steps.push_back(Vec::new());
        }
        while self.steps.len() > STEPS as usize {
            for (bucket, count) in self.steps.pop_front().unwrap_or_default() {
                self.records -= u64::from(count);
                if let Some(total) = self.total.get_mut(usize::from(bucket)) {
                    *total -= u64::from(count);
                }
            }
        }
    }

    /// Records of the former steps.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How many former steps are known, at most 16.
    pub fn steps(&self) -> i64 {
        self.steps.len() as i64
    }

    /// Greatest lag and number of records of each bucket over the former steps, ascending, empty ones left out.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.total.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(bucket, count)| (upto(bucket), *count))
    }

    /// The least bucket edge that at least the share `q` of the former steps' lags does not exceed, µs.
    pub fn quantile(&self, q: f64) -> i64 {
        let rank = ((q * self.records as f64).ceil() as u64).clamp(1, self.records.max(1));
        let mut seen = 0;
        let found = self.buckets().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        i64::try_from(found.map_or(0, |(upto_us, _)| upto_us)).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_touch_and_hold_their_bounds() {
        let mut next = 0;
        for bucket in 0..3_000 {
            assert_eq!((bucket_of(next), bucket_of(upto(bucket))), (bucket, bucket));
            assert!(upto(bucket) - next <= next / 64);
            next = upto(bucket) + 1;
        }
        assert_eq!(upto(bucket_of(u64::MAX)), u64::MAX);
        assert!(bucket_of(u64::MAX) < usize::from(u16::MAX));
    }

    #[test]
    fn only_the_last_sixteen_steps_count() {
        let mut lags = SlidingLags::default();
        for step in 0..40u64 {
            lags.add(step);
            lags.add(step);
            lags.step(1);
            let from = step.saturating_sub(15);
            let expected: Vec<_> = (from..=step).map(|lag| (lag, 2)).collect();
            assert_eq!(lags.buckets().collect::<Vec<_>>(), expected);
            assert_eq!(lags.records(), 2 * expected.len() as u64);
        }
        lags.add(7);
        lags.step(16);
        assert_eq!(lags.buckets().collect::<Vec<_>>(), [(7, 1)]);
        lags.step(u64::MAX);
        assert_eq!((lags.records(), lags.buckets().count(), lags.steps()), (0, 0, 16));
    }
}
