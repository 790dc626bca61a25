//! Keyed watermarks: one for each key, that of its own records, instead of one for all.
//!
//! A key's watermark is the greatest event time seen of it in a partition, minus the delay, rounded down to the table's
//! granularity. A record is late if its own key's watermark has reached a window's end, and a window of a key closes when that
//! one does. So a key whose records all come late loses nothing to keys whose records do not; and a key that falls silent
//! keeps its last windows open for ever.
//!
//! Source: T. Yasser, T. Arafa, M. El-Helw, A. Awad, "Keyed watermarks: a fine-grained tracking of event-time in Apache
//! Flink", NILES 2023, and the journal version "Keyed watermarks: a fine-grained watermark generation for Apache Flink", Future
//! Generation Computer Systems, 2025. Departures: keys that are in several partitions have a watermark in each, with windows of its own (there, operators
//! downstream take the minimum); a watermark follows every record instead of a period of the clock; nothing is published, only
//! counted, so accuracy and corrections are not known.
//!
//! Records come to the worker of their key, in the order of their partition: that of stamps, then positions. Memory: a key takes about 64 bytes
//! and 16 for each window that some delay has not closed. Cost: a look-up by key for each record, and one comparison for each open window of the key.

use super::grid::Grid;
use super::ledger::{LedgerMeter, LedgerSums};
use super::timeline::Latency;
use crate::time::Instant;
use crate::watermark::{BEFORE_ALL, round_down};
use crate::window::Assigner;
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A record on its way to the worker of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyedRow {
    /// Partition order.
    pub partition: u64,
    /// The table's stamp, by which records of a partition come in order.
    pub stamp_us: i64,
    /// Position in the partition.
    pub position: u64,
    /// Hash of the key: two of n keys fall together with a probability of about n² / 2⁶⁵.
    pub key: u64,
    /// Event time, µs.
    pub event_time_us: i64,
    /// When it arrived, µs; without arrival times, the newest event time that the table judges by.
    pub arrived_us: i64,
}

/// Records that go to one worker.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyedRows {
    /// The worker.
    pub to: u64,
    /// In the order of a block.
    pub rows: Vec<KeyedRow>,
}

/// Result latencies, counted: delay, latency (µs) and windows.
pub type LatencyCounts = Vec<(u64, u64, u64)>;

/// What a worker has counted at its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyedSums {
    /// Classes of records that are late under some delay.
    pub ledger: LedgerSums,
    /// Records that are on time under every delay.
    pub on_time: u64,
    /// Records in their windows.
    pub contributions: u64,
    /// Keys, in each partition by itself.
    pub keys: u64,
    /// By delay, windows that were closed before their end had come.
    pub early: Vec<u64>,
    /// By delay, windows that the end of the input closes.
    pub closed_at_end: Vec<u64>,
}

/// What all workers have counted.
#[derive(Clone, Debug, Default)]
pub struct KeyedOutcome {
    /// The sums.
    pub sums: KeyedSums,
    /// By delay.
    pub latency: Vec<Latency>,
}

impl KeyedOutcome {
    /// Adds the sums of a worker.
    pub fn add(&mut self, other: &KeyedSums) {
        let sums = &mut self.sums;
        sums.ledger.merge(&other.ledger);
        sums.on_time += other.on_time;
        sums.contributions += other.contributions;
        sums.keys += other.keys;
        for (mine, others) in [(&mut sums.early, &other.early), (&mut sums.closed_at_end, &other.closed_at_end)] {
            if mine.len() < others.len() {
                mine.resize(others.len(), 0);
            }
            mine.iter_mut().zip(others).for_each(|(a, b)| *a += b);
        }
    }

    /// Adds latencies of a worker.
    pub fn latencies(&mut self, counts: &LatencyCounts) {
        for (delay, lag_us, windows) in counts {
            let delay = *delay as usize;
            if self.latency.len() <= delay {
                self.latency.resize_with(delay + 1, Latency::default);
            }
            let own = self.latency.get_mut(delay);
            own.into_iter().for_each(|own| own.lags.record_n(*lag_us, *windows));
        }
    }
}

/// A key in a partition.
#[derive(Clone, Debug)]
struct Key {
    newest_us: i64,
    /// Windows with a record on time, and the first delay that has not closed each.
    open: Vec<(i64, usize)>,
}

/// Follows the keys of one worker, under delays and horizons of a grid.
#[derive(Clone, Debug)]
pub struct KeyedMeter {
    grid: Arc<Grid>,
    assigner: Assigner,
    ledger: LedgerMeter,
    /// Records whose turn has not come, by stamp.
    waiting: BTreeMap<i64, Vec<KeyedRow>>,
    keys: HashMap<(u64, u64), Key, FixedState>,
    latencies: BTreeMap<(u64, u64), u64>,
    sums: KeyedSums,
}

/// Different latencies that are kept before they are told.
const LATENCIES_MAX: usize = 16 << 10;

impl KeyedMeter {
    /// For a grid and windows.
    pub fn new(grid: &Arc<Grid>, assigner: Assigner) -> Self {
        let none = vec![0; grid.delays()];
        KeyedMeter {
            grid: Arc::clone(grid),
            assigner,
            ledger: LedgerMeter::new(Arc::clone(grid), assigner),
            waiting: BTreeMap::new(),
            keys: HashMap::default(),
            latencies: BTreeMap::new(),
            sums: KeyedSums { early: none.clone(), closed_at_end: none, ..KeyedSums::default() },
        }
    }

    /// Takes records; they are counted when all of their stamp and those before it have come.
    pub fn rows(&mut self, rows: Vec<KeyedRow>) {
        for row in rows {
            self.waiting.entry(row.stamp_us).or_default().push(row);
        }
    }

    /// All records stamped before an instant have come. Gives latencies when there are many.
    pub fn advance(&mut self, upto: Instant, give: &mut impl FnMut(LatencyCounts)) {
        while let Some(entry) = self.waiting.first_entry().filter(|entry| Instant::of_stamp(*entry.key()) < upto) {
            let mut rows = entry.remove();
            rows.sort_unstable();
            rows.iter().for_each(|row| self.record(row));
            if self.latencies.len() > LATENCIES_MAX {
                give(self.told());
            }
        }
    }

    fn told(&mut self) -> LatencyCounts {
        std::mem::take(&mut self.latencies).into_iter().map(|((delay, us), windows)| (delay, us, windows)).collect()
    }

    fn record(&mut self, row: &KeyedRow) {
        let Self { grid, assigner, keys, latencies, sums, .. } = self;
        let none = Key { newest_us: BEFORE_ALL, open: Vec::new() };
        let key = keys.entry((row.partition, row.key)).or_insert(none);
        let rises = row.event_time_us > key.newest_us;
        key.newest_us = key.newest_us.max(row.event_time_us);
        let base_us = round_down(key.newest_us.saturating_sub(grid.base_us()), grid.pass_granularity_us());
        if rises {
            key.open.retain_mut(|(window, next)| {
                let end_us = assigner.bounds(*window).1;
                while *next < grid.delays() && grid.stamp_of_rounded(*next, base_us) >= end_us {
                    let lag_us = row.arrived_us.saturating_sub(end_us);
                    sums.early.get_mut(*next).into_iter().for_each(|n| *n += u64::from(lag_us < 0));
                    *latencies.entry((*next as u64, u64::try_from(lag_us).unwrap_or(0))).or_default() += 1;
                    *next += 1;
                }
                *next < grid.delays()
            });
        }
        let slice = assigner.slice(row.event_time_us);
        let windows = assigner.windows_of_slice(slice);
        sums.contributions += (windows.end - windows.start) as u64;
        if assigner.first_end(slice) <= grid.stamp_of_rounded(0, base_us) {
            self.ledger.late(base_us, slice, 1);
        } else {
            sums.on_time += 1;
        }
        for window in windows {
            if key.open.iter().rev().any(|(open, _)| *open == window) {
                continue;
            }
            let end_us = assigner.bounds(window).1;
            let open = (0..grid.delays()).find(|delay| grid.stamp_of_rounded(*delay, base_us) < end_us);
            key.open.extend(open.map(|delay| (window, delay)));
        }
    }

    /// What was counted, and the latencies that have not been told.
    pub fn into_sums(mut self) -> (KeyedSums, LatencyCounts) {
        for key in self.keys.values() {
            for (_, next) in &key.open {
                self.sums.closed_at_end.iter_mut().skip(*next).for_each(|n| *n += 1);
            }
        }
        self.sums.keys = self.keys.len() as u64;
        let told = self.told();
        self.sums.ledger = self.ledger.into_sums();
        (self.sums, told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::WindowPlan;

    fn meter(slide_us: i64) -> KeyedMeter {
        let grid = Grid::new(vec![0, 5, 20], vec![None, Some(10)], 1, false).unwrap();
        KeyedMeter::new(&Arc::new(grid), Assigner::new(WindowPlan { size_us: 10, slide_us, offset_us: 0 }))
    }

    fn row(position: u64, key: u64, event_time_us: i64) -> KeyedRow {
        let arrived_us = 100 + position as i64;
        KeyedRow { partition: 0, stamp_us: position as i64, position, key, event_time_us, arrived_us }
    }

    fn outcome(mut meter: KeyedMeter, rows: Vec<KeyedRow>) -> KeyedOutcome {
        let mut out = KeyedOutcome::default();
        meter.rows(rows);
        meter.advance(Instant(i64::MAX), &mut |told| out.latencies(&told));
        let (sums, told) = meter.into_sums();
        out.latencies(&told);
        out.add(&sums);
        out
    }

    /// One key is 50 behind the other; by their own watermarks both are in order but for one record.
    #[test]
    fn keys_do_not_wait_for_each_other() {
        let times = [(1, 61), (2, 11), (1, 72), (2, 22), (2, 15), (1, 83)];
        let rows: Vec<_> = (0..).zip(times).map(|(at, (key, et))| row(at, key, et)).collect();
        let grid = Grid::new(vec![0, 5, 20], vec![None, Some(10)], 1, false).unwrap();
        let mut reversed = rows.clone();
        reversed.reverse();
        let found = outcome(meter(10), reversed);
        let cells = found.sums.ledger.cells(&grid, found.sums.on_time, found.sums.contributions);
        // 15 is late for [10, 20) under delay 0: the key has seen 22. Under 5 it is not.
        let classes: Vec<_> = cells.iter().map(|cell| (cell.on_time, cell.corrected, cell.too_late)).collect();
        assert_eq!(classes, [(5, 0, 1), (5, 1, 0), (6, 0, 0), (6, 0, 0), (6, 0, 0), (6, 0, 0)]);
        assert_eq!((found.sums.keys, &found.sums.closed_at_end), (2, &vec![2, 4, 5]));
        // [60, 70) is closed by the record of 72, at 102; [70, 80) by that of 83, at 105; [10, 20) by that of 22, at 103.
        let zero = found.latency[0].lags.summary();
        assert_eq!((zero.count, zero.max_us), (3, Some(103 - 20)));
        assert_eq!(found.latency.len(), 2);
    }

    /// Overlapping windows: each record in each of its windows.
    #[test]
    fn windows_that_overlap() {
        let rows = vec![row(0, 1, 3), row(1, 1, 17), row(2, 1, 4), row(3, 2, 4)];
        let found = outcome(meter(5), rows);
        assert_eq!((found.sums.on_time, found.sums.contributions), (3, 8));
        let grid = Grid::new(vec![0, 5, 20], vec![None, Some(10)], 1, false).unwrap();
        let cells = found.sums.ledger.cells(&grid, found.sums.on_time, found.sums.contributions);
        // 4 is in [-5, 5) and [0, 10), and 17 has closed both under 0, the first under 5.
        let classes: Vec<_> = cells.iter().map(|cell| (cell.partly_too_late, cell.too_late, cell.corrected)).collect();
        assert_eq!(classes, [(0, 1, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0), (0, 0, 0)]);
    }
}
