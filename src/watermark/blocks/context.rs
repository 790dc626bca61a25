//! What a block must know of everything before it, and the stamps that follow.

use super::super::{AFTER_ALL, BEFORE_ALL, round_down};
use super::summary::BlockSummary;

/// What a block must know of everything before it.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockContext {
    /// Lane and index of the block.
    pub lane: u32,
    /// Place in the lane.
    pub index: u64,
    /// Position of its first line in the partition or trace, from 1.
    pub first_position: u64,
    /// Number of its first line in its file, from 1.
    pub first_line: u64,
    /// Partition order (index into [`super::Coordinator::partitions`]) of each of the block's partition names; one entry if the
    /// lane is one partition.
    pub partitions: Vec<u32>,
    /// What stamps start from, for the entries of the summary's segments one after another.
    pub(super) bounds: Vec<Bound>,
    pub(super) granularity_us: i64,
}

/// A stamp is the partition's watermark, at most `limit_us` (what the other partitions allow), at least `floor_us`
/// (what the source has reached already).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    /// The partition's watermark before the segment.
    pub before_us: i64,
    pub floor_us: i64,
    pub limit_us: i64,
}

impl Bound {
    /// Of a partition that nothing has been read of and that only its own records bound.
    pub const FREE: Bound = Bound { before_us: BEFORE_ALL, floor_us: BEFORE_ALL, limit_us: AFTER_ALL };

    /// The least that a row of the segment can be stamped.
    pub fn least_us(self) -> i64 {
        self.before_us.min(self.limit_us).max(self.floor_us)
    }
}

/// A partition while its rows are stamped. Its stamps never fall, so only leaving the granule upwards is looked for.
#[derive(Clone, Copy)]
struct Running {
    watermark_us: i64,
    floor_us: i64,
    limit_us: i64,
    /// The stamp of every value from the latest up to `granule_last_us`.
    granule_us: i64,
    granule_last_us: i64,
}

impl Running {
    fn new(Bound { before_us, floor_us, limit_us }: Bound) -> Running {
        Running { watermark_us: before_us, floor_us, limit_us, granule_us: BEFORE_ALL, granule_last_us: BEFORE_ALL }
    }

    fn begin(&mut self, Bound { before_us, floor_us, limit_us }: Bound) {
        self.watermark_us = self.watermark_us.max(before_us);
        self.floor_us = floor_us;
        self.limit_us = limit_us;
    }

    #[inline]
    fn stamp(&mut self, watermark_us: i64, granularity_us: i64) -> i64 {
        self.watermark_us = self.watermark_us.max(watermark_us);
        let value_us = self.watermark_us.min(self.limit_us).max(self.floor_us);
        if value_us > self.granule_last_us {
            self.enter(value_us, granularity_us);
        }
        self.granule_us
    }

    #[cold]
    fn enter(&mut self, value_us: i64, granularity_us: i64) {
        self.granule_us = round_down(value_us, granularity_us);
        let to_last_us = granularity_us.saturating_sub(1).saturating_sub(value_us.rem_euclid(granularity_us));
        // +∞ is not rounded, so it is a granule of its own.
        let last_us = value_us.saturating_add(to_last_us);
        self.granule_last_us = if value_us == AFTER_ALL { AFTER_ALL } else { last_us.min(AFTER_ALL - 1) };
    }
}

impl BlockContext {
    /// Stamps of the block's rows, rounded to the granularity. `summary` is the block's own; `partition` is each row's
    /// index into the block's partition names (`None`: the lane is one partition); `watermarks_us` the watermark
    /// expression of each row. Cost: one pass.
    pub fn stamps(&self, summary: &BlockSummary, partition: Option<&[u32]>, watermarks_us: &[i64]) -> Vec<i64> {
        let rows = watermarks_us.len();
        let mut stamps = Vec::with_capacity(rows);
        let mut running: Vec<Running> = vec![Running::new(Bound::FREE); self.partitions.len()];
        let mut bounds = self.bounds.iter();
        let starts = summary.segments.iter().skip(1).map(|s| s.first_row as usize);
        for (segment, end) in summary.segments.iter().zip(starts.chain([rows])) {
            for (entry, bound) in segment.entries.iter().zip(bounds.by_ref()) {
                if let Some(running) = running.get_mut(entry.partition as usize) {
                    running.begin(*bound);
                }
            }
            let span = segment.first_row as usize..end;
            let watermarks_us = watermarks_us.get(span.clone()).unwrap_or_default();
            match partition {
                None => stamp_one(running.first_mut(), self.granularity_us, watermarks_us, &mut stamps),
                Some(partition) => {
                    let partition = partition.get(span).unwrap_or_default();
                    stamp_many(&mut running, self.granularity_us, partition, watermarks_us, &mut stamps);
                }
            }
        }
        debug_assert_eq!(stamps.len(), rows, "the summary is of these rows");
        // A summary of other rows is a caller's mistake; a stamp of −∞ is on time for every window.
        stamps.resize(rows, BEFORE_ALL);
        stamps
    }
}

fn stamp_one(running: Option<&mut Running>, granularity_us: i64, watermarks_us: &[i64], stamps: &mut Vec<i64>) {
    let Some(kept) = running else { return };
    // In a local, so that it stays in registers.
    let mut running = *kept;
    stamps.extend(watermarks_us.iter().map(|&w| running.stamp(w, granularity_us)));
    *kept = running;
}

fn stamp_many(
    running: &mut [Running],
    granularity_us: i64,
    partition: &[u32],
    watermarks_us: &[i64],
    stamps: &mut Vec<i64>,
) {
    stamps.extend(partition.iter().zip(watermarks_us).map(|(&p, &w)| match running.get_mut(p as usize) {
        Some(running) => running.stamp(w, granularity_us),
        None => BEFORE_ALL,
    }));
}
