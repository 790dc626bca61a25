//! The ledger of every cell: which records are on time, corrected, dropped in part, or dropped.
//!
//! A record that is on time for all its windows under the least delay is so in every cell and does not come here. Of the
//! others the class under a delay changes at two horizons at most: where the first of its closed windows takes it, and
//! where all do. Sums are kept as differences along the horizons. Cost: a few integer operations per late record and delay,
//! until a delay has it on time.

use super::grid::Grid;
use crate::window::Assigner;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Records and contributions (record, window) of one cell by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CellRecords {
    /// Records on time for all their windows.
    pub on_time: u64,
    /// Records late and accepted for at least one window, dropped for none.
    pub corrected: u64,
    /// Records dropped for at least one window, not for all.
    pub partly_too_late: u64,
    /// Records dropped for all windows.
    pub too_late: u64,
    /// Contributions that are part of first results.
    pub contributions_on_time: u64,
    /// Contributions that correct a window.
    pub contributions_late: u64,
    /// Contributions that are dropped.
    pub contributions_too_late: u64,
}

/// Fields of [`CellRecords`], as differences along the horizons.
type Differences = [i64; 7];

const ON_TIME: usize = 0;
const CORRECTED: usize = 1;
const PARTLY: usize = 2;
const TOO_LATE: usize = 3;
const IN_TIME: usize = 4;
const LATE: usize = 5;
const DROPPED: usize = 6;

/// Counts late records for all cells.
#[derive(Clone, Debug)]
pub struct LedgerMeter {
    grid: Arc<Grid>,
    assigner: Assigner,
    sums: LedgerSums,
}

/// What [`LedgerMeter`] has counted; sums of several workers add up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LedgerSums {
    /// By delay and horizon, with one horizon more for what no horizon takes.
    pub(super) differences: Vec<Vec<i64>>,
    /// Contributions of all records that were counted.
    pub(super) contributions: u64,
}

impl LedgerMeter {
    /// For a grid and windows.
    pub fn new(grid: Arc<Grid>, assigner: Assigner) -> Self {
        let sums =
            LedgerSums { differences: vec![vec![0; 7]; grid.delays() * (grid.horizons() + 1)], contributions: 0 };
        LedgerMeter { grid, assigner, sums }
    }

    /// Counts so many records that are late for a window of their slice under the least delay; `base_us` is their stamp there.
    pub fn late(&mut self, base_us: i64, slice: i64, records: i64) {
        let windows = self.assigner.windows_of_slice(slice);
        let n = windows.end - windows.start;
        self.sums.contributions += (n * records) as u64;
        for delay in 0..self.grid.delays() {
            let stamp_us = self.grid.stamp_of_rounded(delay, base_us);
            let closed = windows.clone().take_while(|k| self.assigner.bounds(*k).1 <= stamp_us).count() as i64;
            if closed == 0 {
                // And so under every longer delay.
                for delay in delay..self.grid.delays() {
                    self.add(delay, 0, ON_TIME, records);
                    self.add(delay, 0, IN_TIME, n * records);
                }
                return;
            }
            self.judge(delay, stamp_us, windows.start..windows.start + closed, (n, records));
        }
    }

    /// Records late for the windows `closed`, out of `n`.
    fn judge(&mut self, delay: usize, stamp_us: i64, closed: std::ops::Range<i64>, (n, records): (i64, i64)) {
        let late = closed.end - closed.start;
        self.add(delay, 0, IN_TIME, (n - late) * records);
        self.add(delay, 0, DROPPED, late * records);
        let (mut some, mut all) = (if late < n { 0 } else { usize::MAX }, 0);
        for k in closed {
            let accepting = self.grid.accepting(stamp_us.saturating_sub(self.assigner.bounds(k).1));
            self.add(delay, accepting, DROPPED, -records);
            self.add(delay, accepting, LATE, records);
            (some, all) = (some.min(accepting), all.max(accepting));
        }
        // Dropped for all, from `some` on for a part, from `all` on for none.
        self.add(delay, 0, TOO_LATE, records);
        self.add(delay, some, TOO_LATE, -records);
        self.add(delay, some, PARTLY, records);
        self.add(delay, all, PARTLY, -records);
        self.add(delay, all, CORRECTED, records);
    }

    fn add(&mut self, delay: usize, horizon: usize, field: usize, n: i64) {
        let at = delay * (self.grid.horizons() + 1) + horizon;
        let cell = self.sums.differences.get_mut(at).and_then(|cell| cell.get_mut(field));
        cell.into_iter().for_each(|sum| *sum += n);
    }

    /// What was counted.
    pub fn into_sums(self) -> LedgerSums {
        self.sums
    }
}

impl LedgerSums {
    /// Adds what another worker has counted.
    pub fn merge(&mut self, other: &LedgerSums) {
        if self.differences.is_empty() {
            self.differences = vec![vec![0; 7]; other.differences.len()];
        }
        for (mine, others) in self.differences.iter_mut().zip(&other.differences) {
            mine.iter_mut().zip(others).for_each(|(a, b)| *a += b);
        }
        self.contributions += other.contributions;
    }

    /// The ledger of every cell, given the records on time for all windows in the one pass, and all its contributions.
    pub fn cells(&self, grid: &Grid, on_time: u64, contributions: u64) -> Vec<CellRecords> {
        let mut out = Vec::with_capacity(grid.delays() * grid.horizons());
        for delay in 0..grid.delays() {
            let mut sums: Differences = [0; 7];
            for horizon in 0..grid.horizons() {
                let own = self.differences.get(delay * (grid.horizons() + 1) + horizon);
                sums.iter_mut().zip(own.into_iter().flatten()).for_each(|(sum, d)| *sum += d);
                let [on, corrected, partly, too_late, in_time, late, dropped] =
                    sums.map(|n| u64::try_from(n).unwrap_or(0));
                out.push(CellRecords {
                    on_time: on_time + on,
                    corrected,
                    partly_too_late: partly,
                    too_late,
                    contributions_on_time: contributions.saturating_sub(self.contributions) + in_time,
                    contributions_late: late,
                    contributions_too_late: dropped,
                });
            }
        }
        out
    }
}
