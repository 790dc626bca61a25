//! How far records are behind: the lag of each, by partition and hour of day.
//!
//! A record's lag is the greatest event time that its lateness is judged by (its stamp under delay 0, unrounded) minus its own
//! event time; 0 for a record that is itself the newest. Hours are those of the event time, UTC. Every record counts that is no reject
//! of the table, filtered ones too: they make the disorder that a delay must bear.
//!
//! Memory: partitions × 24 × at most about 500 counts. Cost: a few operations per record.

use super::blocks::{BlockSums, Slots};
use super::buckets;
use super::drift::DriftMeter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const HOUR_US: i64 = 3_600_000_000;
/// Sub-buckets are joined in fours: 8 to a power of two.
const JOINED: u64 = 2;

/// A lag histogram by partition and hour of day.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LagSums {
    /// By partition order and hour; counts by bucket.
    pub(super) counts: BTreeMap<(u64, u64), Vec<u64>>,
}

/// A bucket with what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LagBucket {
    /// Least lag, µs.
    pub from_us: u64,
    /// Greatest lag, µs.
    pub upto_us: u64,
    /// Records.
    pub records: u64,
}

/// Counts lags of one worker.
#[derive(Clone, Debug, Default)]
pub struct LagMeter {
    sums: LagSums,
    drift: Option<DriftMeter>,
    /// Counts of the hour and partition at hand, and the event times that these and the block at hand are for.
    current: Vec<u64>,
    place: (u64, u64),
    times_us: (i64, i64),
}

/// As many buckets as there are.
pub const BUCKETS_MAX: usize = 8 * 63 + 8 + 16;

/// Below 64 every integer has a bucket of its own; from there on there are 8 to a power of two.
#[inline]
fn bucket_of(lag_us: u64) -> usize {
    if lag_us < 64 {
        return lag_us as usize;
    }
    let order = lag_us.ilog2();
    (8 * order + 8) as usize + (lag_us >> (order - 3)) as usize
}

fn bounds(bucket: u64) -> (u64, u64) {
    if bucket < 64 {
        return (bucket, bucket);
    }
    let fine = 64 + ((bucket - 64) << JOINED);
    (buckets::integer_from(fine), buckets::integer_upto(fine + (1 << JOINED) - 1))
}

fn filled(counts: &[u64]) -> impl Iterator<Item = LagBucket> + '_ {
    (0u64..).zip(counts).filter(|(_, records)| **records > 0).map(|(bucket, records)| {
        let (from_us, upto_us) = bounds(bucket);
        LagBucket { from_us, upto_us, records: *records }
    })
}

/// The buckets that hold records, ascending.
pub fn buckets_of(counts: &[u64]) -> Vec<LagBucket> {
    filled(counts).collect()
}

/// A quantile of lags, as the greatest lag of its bucket; buckets ascend. 0 if there are none.
pub fn quantile(lags: &[(u64, u64)], permille: u64) -> u64 {
    let total: u128 = lags.iter().map(|(_, records)| u128::from(*records)).sum();
    let rank = (total * u128::from(permille)).div_ceil(1000);
    let mut passed = 0u128;
    let found = lags.iter().find(|(_, records)| {
        passed += u128::from(*records);
        passed >= rank
    });
    found.map_or(0, |(upto_us, _)| *upto_us)
}

impl LagMeter {
    /// One that also counts by block of event time.
    pub fn with_drift(slots: Slots) -> LagMeter {
        LagMeter { drift: Some(DriftMeter::new(slots)), ..LagMeter::default() }
    }

    /// Counts a record.
    #[inline]
    pub fn record(&mut self, partition: u32, event_time_us: i64, lag_us: u64) {
        let (from, to) = self.times_us;
        if event_time_us < from || event_time_us >= to || self.place.0 != u64::from(partition) {
            self.move_to(partition, event_time_us);
        }
        let bucket = bucket_of(lag_us);
        match self.current.get_mut(bucket) {
            Some(count) => *count += 1,
            None => self.grow(bucket),
        }
        if let Some(drift) = &mut self.drift {
            drift.record(bucket);
        }
    }

    #[cold]
    fn grow(&mut self, bucket: usize) {
        self.current.resize(bucket + 1, 0);
        self.current.iter_mut().skip(bucket).for_each(|count| *count += 1);
    }

    #[cold]
    fn move_to(&mut self, partition: u32, event_time_us: i64) {
        let hour = event_time_us.div_euclid(HOUR_US);
        let place = (u64::from(partition), hour.rem_euclid(24) as u64);
        self.times_us = (hour.saturating_mul(HOUR_US), hour.saturating_add(1).saturating_mul(HOUR_US));
        if let Some(drift) = &mut self.drift {
            let (from_us, upto_us) = drift.move_to(event_time_us);
            self.times_us = (from_us.max(self.times_us.0), upto_us.min(self.times_us.1));
        }
        if place != self.place {
            let kept = std::mem::take(&mut self.current);
            self.sums.put(self.place, kept);
            self.current = self.sums.counts.remove(&place).unwrap_or_default();
            self.place = place;
        }
    }

    /// What was counted, and the same by block of event time.
    pub fn into_sums(mut self) -> (LagSums, BlockSums) {
        self.sums.put(self.place, self.current);
        (self.sums, self.drift.map(DriftMeter::into_sums).unwrap_or_default())
    }
}

impl LagSums {
    fn put(&mut self, place: (u64, u64), counts: Vec<u64>) {
        if !counts.is_empty() {
            let _ = self.counts.insert(place, counts);
        }
    }

    /// Adds what another worker has counted.
    pub fn merge(&mut self, other: &LagSums) {
        for (place, counts) in &other.counts {
            let mine = self.counts.entry(*place).or_default();
            if mine.len() < counts.len() {
                mine.resize(counts.len(), 0);
            }
            mine.iter_mut().zip(counts).for_each(|(a, b)| *a += b);
        }
    }

    /// By partition order and hour of day: the buckets that hold records, ascending.
    pub fn rows(&self) -> impl Iterator<Item = (usize, u64, LagBucket)> + '_ {
        self.counts
            .iter()
            .flat_map(|((partition, hour), counts)| filled(counts).map(|bucket| (*partition as usize, *hour, bucket)))
    }

    /// All partitions and hours together, ascending, empty buckets left out.
    pub fn total(&self) -> Vec<LagBucket> {
        let mut all: BTreeMap<u64, LagBucket> = BTreeMap::new();
        for (_, _, bucket) in self.rows() {
            all.entry(bucket.from_us).and_modify(|b| b.records += bucket.records).or_insert(bucket);
        }
        all.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_touch() {
        let mut next = 0;
        for bucket in 0..400 {
            let (from, upto) = bounds(bucket);
            assert_eq!(from, next);
            assert_eq!((bucket_of(from), bucket_of(upto)), (bucket as usize, bucket as usize));
            assert!(upto - from <= from / 8);
            next = upto + 1;
        }
    }

    #[test]
    fn partitions_and_hours_are_kept_apart_and_merge() {
        let records = [(0, 0, 5), (1, HOUR_US, 5), (0, 24 * HOUR_US, 5), (0, -1, 100), (1, HOUR_US + 1, 0)];
        let mut whole = LagMeter::default();
        records.iter().for_each(|(p, et, lag)| whole.record(*p, *et, *lag));
        let (whole, _) = whole.into_sums();
        let rows: Vec<_> = whole.rows().map(|(p, hour, b)| (p, hour, b.from_us, b.upto_us, b.records)).collect();
        assert_eq!(rows, [(0, 0, 5, 5, 2), (0, 23, 96, 103, 1), (1, 1, 0, 0, 1), (1, 1, 5, 5, 1)]);
        let mut merged = LagSums::default();
        for record in records.iter().rev() {
            let mut one = LagMeter::default();
            one.record(record.0, record.1, record.2);
            merged.merge(&one.into_sums().0);
        }
        assert_eq!(merged, whole);
        assert_eq!(whole.total().iter().map(|b| b.records).sum::<u64>(), 5);
    }
}
