//! What recommendations need of the records read: contributions by block, and by block with partition or hour of day.

use crate::engine::ingest::StampedBlock;
use crate::lab::blocks::{BlockSums, Slots};
use crate::lab::grid::Grid;
use crate::window::Assigner;
use std::sync::Arc;

/// Group of all records: contributions, then by delay those that miss the first result.
pub const ALL: u64 = 0;
/// Group of all records: by cell, contributions that are dropped.
pub const DROPPED: u64 = 1;
/// First of the 24 groups by hour of day, UTC; as [`ALL`].
pub const HOURS: u64 = 32;
/// First of the groups by partition; as [`ALL`].
pub const PARTITIONS: u64 = 64;
/// Partitions that are told apart; the last of them stands for all others as well.
pub const PARTITIONS_MAX: u64 = 64;

const HOUR_US: i64 = 3_600_000_000;

/// Counts contributions of one worker by block.
#[derive(Clone, Debug)]
pub struct BlockMeter {
    grid: Arc<Grid>,
    assigner: Assigner,
    slots: Slots,
    sums: BlockSums,
    run: Run,
}

/// Records one after another with the same slot, hour and partition.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    slot: i64,
    /// Event times that it may have.
    times_us: (i64, i64),
    hour: u64,
    partition: u32,
    contributions: u64,
}

fn hour_of(event_time_us: i64) -> u64 {
    event_time_us.div_euclid(HOUR_US).rem_euclid(24) as u64
}

fn groups(hour: u64, partition: u32) -> [u64; 3] {
    [ALL, HOURS + hour, PARTITIONS + u64::from(partition).min(PARTITIONS_MAX - 1)]
}

impl BlockMeter {
    /// For a grid and windows.
    pub fn new(grid: &Arc<Grid>, assigner: Assigner, slots: Slots) -> Self {
        BlockMeter { grid: Arc::clone(grid), assigner, slots, sums: BlockSums::default(), run: Run::default() }
    }

    /// Takes the records of a block that have windows (row and slice), and those of them that are late for one under the least
    /// delay (stamp, slice and row).
    pub fn block(&mut self, stamped: &StampedBlock<'_>, judged: &[(u32, i64)], late: &[(i64, i64, u32)]) {
        let event_time = |row: u32| stamped.block.event_time_us.get(row as usize).copied().unwrap_or(0);
        let mut known: Option<(i64, u64)> = None;
        for (row, slice) in judged {
            let windows = match known {
                Some((same, windows)) if same == *slice => windows,
                _ => {
                    let windows = self.assigner.windows_of_slice(*slice);
                    (windows.end - windows.start) as u64
                }
            };
            known = Some((*slice, windows));
            let (event_time_us, partition) = (event_time(*row), stamped.partition(*row as usize));
            let (from, to) = self.run.times_us;
            if event_time_us < from || event_time_us >= to || partition != self.run.partition {
                self.move_to(event_time_us, partition);
            }
            self.run.contributions += windows;
        }
        for (base_us, slice, row) in late {
            self.late(*base_us, *slice, event_time(*row), stamped.partition(*row as usize));
        }
    }

    #[cold]
    fn move_to(&mut self, event_time_us: i64, partition: u32) {
        self.flush();
        let slot = self.slots.of(event_time_us);
        let (slot_start, slot_end) = self.slots.bounds(slot);
        let hour_start = event_time_us.div_euclid(HOUR_US).saturating_mul(HOUR_US);
        let times_us = (slot_start.max(hour_start), slot_end.min(hour_start.saturating_add(HOUR_US)));
        self.run = Run { slot, times_us, hour: hour_of(event_time_us), partition, contributions: 0 };
    }

    fn flush(&mut self) {
        let Run { slot, hour, partition, contributions, .. } = self.run;
        if contributions > 0 {
            for group in groups(hour, partition) {
                self.sums.add(slot, group, 1, |counts| counts.iter_mut().take(1).for_each(|n| *n += contributions));
            }
        }
        self.run.contributions = 0;
    }

    /// A record that misses the first result of some of its windows.
    fn late(&mut self, base_us: i64, slice: i64, event_time_us: i64, partition: u32) {
        let slot = self.slots.of(event_time_us);
        let windows = self.assigner.windows_of_slice(slice);
        let (delays, horizons) = (self.grid.delays(), self.grid.horizons());
        for delay in 0..delays {
            let stamp_us = self.grid.stamp_of_rounded(delay, base_us);
            let closed = windows.clone().take_while(|k| self.assigner.bounds(*k).1 <= stamp_us);
            let accepting: Vec<usize> =
                closed.map(|k| self.grid.accepting(stamp_us.saturating_sub(self.assigner.bounds(k).1))).collect();
            if accepting.is_empty() {
                // And so under every longer delay.
                return;
            }
            for group in groups(hour_of(event_time_us), partition) {
                let add = |counts: &mut [u64]| {
                    counts.get_mut(1 + delay).into_iter().for_each(|n| *n += accepting.len() as u64);
                };
                self.sums.add(slot, group, 1 + delays, add);
            }
            self.sums.add(slot, DROPPED, delays * horizons, |counts| {
                for first in accepting {
                    let cells = counts.get_mut(delay * horizons..delay * horizons + first);
                    cells.into_iter().flatten().for_each(|n| *n += 1);
                }
            });
        }
    }

    /// What was counted.
    pub fn into_sums(mut self) -> BlockSums {
        self.flush();
        self.sums
    }
}
