//! What only all workers together know: peaks of state over time, and when the watermark reached the ends of windows.
//!
//! # Peaks
//!
//! A pair is *open* under a delay from the stamp of its first record until its window closes, and *correctable* in a cell while it has
//! a row and the watermark has not passed `end + horizon`. Workers tell of each settled window when its pairs began and what
//! rows came and went; the sums over all workers are followed in the order of instants. Of open pairs the peaks lie just
//! before windows close, so they are counted there only.
//!
//! # Latency
//!
//! The result latency of a window under a delay is the arrival time of the record that reaches its end
//! ([`super::steps`]), minus the end; without arrival times the greatest event time seen by then, minus the end. It is
//! taken once per window (not per key) that has a record on time. Windows that only the end of the input closes have none.
//!
//! # Completeness
//!
//! Whatever a worker has yet to tell concerns pairs whose first stamp is at or after its frontier `f`, so that under a delay
//! nothing changes any more before `f` shifted and rounded. Memory: window ends between the frontier and the newest event.

use super::blocks::{BlockSums, Slots};
use super::grid::Grid;
use super::recommend::RecommendPlan;
use super::steps::Step;
use crate::sink::summary::Lags;
use crate::time::Instant;
use crate::watermark::{AFTER_ALL, BEFORE_ALL};
use crate::window::Assigner;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A settled window of one worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowReport {
    /// Number of the window.
    pub window: i64,
    /// Least stamp of its records in the one pass, µs.
    pub least_us: i64,
    /// Pairs whose one row is the same in every cell.
    pub same: u64,
    /// By delay: other pairs that have a row on closing.
    pub closing: Vec<u64>,
    /// Rows that come (`1`) or go (`-1`) later: delay, first horizon for which, instant, difference.
    pub late: Vec<(u64, u64, i64, i64)>,
    /// Pairs that begin: delay, first window that closes after it, pairs.
    pub opens: Vec<(u64, i64, u64)>,
}

impl WindowReport {
    /// Of a window of which nothing is known.
    pub fn new(window: i64, grid: &Grid) -> Self {
        let closing = vec![0; grid.delays()];
        WindowReport { window, least_us: i64::MAX, same: 0, closing, late: Vec::new(), opens: Vec::new() }
    }
}

/// A sum that is followed in order, and its greatest value.
#[derive(Clone, Debug, Default)]
struct Peak {
    changes: BTreeMap<i64, i64>,
    now: i64,
    max: i64,
}

impl Peak {
    fn add(&mut self, at: i64, n: i64) {
        if n != 0 {
            *self.changes.entry(at).or_default() += n;
        }
    }
    /// Nothing before `at` changes any more.
    fn advance(&mut self, at: i64) {
        while let Some(entry) = self.changes.first_entry().filter(|entry| *entry.key() < at) {
            self.now += entry.remove();
            self.max = self.max.max(self.now);
        }
    }
    fn finish(mut self) -> u64 {
        self.advance(i64::MAX);
        self.changes.into_values().for_each(|n| {
            self.now += n;
            self.max = self.max.max(self.now);
        });
        u64::try_from(self.max).unwrap_or(0)
    }
}

/// Result latencies under one delay.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    /// Of windows whose end was reached by a record.
    pub lags: Lags,
    /// Windows whose end was reached before it had come: clocks that run ahead. They count as 0.
    pub early: u64,
    /// Windows that the end of the input closed.
    pub closed_at_end: u64,
}

/// A window that some record was seen of.
#[derive(Clone, Copy, Debug)]
struct Seen {
    least_us: i64,
    /// The first delay whose latency is not known.
    delay: usize,
}

/// Follows reports and steps of all workers.
#[derive(Clone, Debug)]
pub struct Timeline {
    grid: Arc<Grid>,
    assigner: Assigner,
    /// By delay, over numbers of windows.
    open: Vec<Peak>,
    /// By cell, over instants.
    correctable: Vec<Peak>,
    seen: BTreeMap<i64, Seen>,
    /// By stamp and partition, the first.
    steps: BTreeMap<(i64, u32), Step>,
    latency: Vec<Latency>,
    /// What recommendations are held against, and windows by block: by delay those with a latency, then by bound and delay those in time.
    recommend: Option<(Slots, Vec<u64>)>,
    in_time: BlockSums,
    frontier_us: i64,
}

/// What a timeline has come to.
#[derive(Clone, Debug, Default)]
pub struct TimelineSums {
    /// By delay: most pairs open at once.
    pub open_max: Vec<u64>,
    /// By cell: most pairs correctable at once.
    pub correctable_max: Vec<u64>,
    /// By delay.
    pub latency: Vec<Latency>,
    /// Windows by block of event time, if a setting is to be recommended: by delay those with a latency, then by bound and delay those in time.
    pub in_time: BlockSums,
}

impl Timeline {
    /// Of a grid over these windows.
    pub fn new(grid: &Arc<Grid>, assigner: Assigner, recommend: Option<&RecommendPlan>) -> Self {
        Timeline {
            recommend: recommend.map(|plan| (plan.slots, plan.latency_bounds_us())),
            in_time: BlockSums::default(),
            grid: Arc::clone(grid),
            assigner,
            open: vec![Peak::default(); grid.delays()],
            correctable: vec![Peak::default(); grid.delays() * grid.horizons()],
            seen: BTreeMap::new(),
            steps: BTreeMap::new(),
            latency: vec![Latency::default(); grid.delays()],
            frontier_us: BEFORE_ALL,
        }
    }

    /// Takes steps of a worker.
    pub fn steps(&mut self, steps: Vec<Step>) {
        for step in steps {
            let known = self.steps.entry((step.base_us, step.partition)).or_insert(step);
            if step.position < known.position {
                *known = step;
            }
        }
    }

    /// Takes a settled window of a worker.
    pub fn window(&mut self, report: WindowReport) {
        let WindowReport { window, least_us, same, closing, late, opens } = report;
        for (delay, from, pairs) in opens {
            if let Some(open) = self.open.get_mut(delay as usize) {
                open.add(from, pairs as i64);
                open.add(window + 1, -(pairs as i64));
            }
        }
        let seen = self.seen.entry(window).or_insert(Seen { least_us, delay: 0 });
        seen.least_us = seen.least_us.min(least_us);
        let end_us = self.assigner.bounds(window).1;
        let horizons = self.grid.horizons();
        for (delay, closing) in closing.into_iter().enumerate() {
            let closing = (same + closing) as i64;
            for horizon in 0..horizons {
                let own = |change: &&(u64, u64, i64, i64)| change.0 == delay as u64 && change.1 <= horizon as u64;
                let Some(peak) = self.correctable.get_mut(delay * horizons + horizon) else { continue };
                peak.add(Instant::closing(end_us).0, closing);
                let mut left = closing;
                for (_, _, at, n) in late.iter().filter(own) {
                    peak.add(*at, *n);
                    left += n;
                }
                let horizon_us = self.grid.horizons_us().get(horizon).copied().flatten().unwrap_or(0);
                let last = Instant::of_stamp(end_us.saturating_add(horizon_us));
                peak.add(last.0.saturating_add(1), -left);
            }
        }
    }

    /// All that is still to be told concerns pairs and steps with stamps at or after `frontier_us` (+∞: nothing is).
    pub fn advance(&mut self, frontier_us: i64) {
        if frontier_us <= self.frontier_us {
            return;
        }
        self.frontier_us = frontier_us;
        let horizons = self.grid.horizons();
        for delay in 0..self.grid.delays() {
            let stamp_us = self.grid.stamp(delay, frontier_us);
            if stamp_us == BEFORE_ALL {
                break;
            }
            let closed = self.assigner.last_closed(stamp_us);
            self.open.get_mut(delay).into_iter().for_each(|peak| peak.advance(closed.saturating_add(1)));
            let cells = self.correctable.get_mut(delay * horizons..(delay + 1) * horizons);
            cells.into_iter().flatten().for_each(|peak| peak.advance(Instant::of_stamp(stamp_us).0));
        }
        self.resolve();
    }

    /// Finds the latencies that are known by now.
    fn resolve(&mut self) {
        let reached = self.assigner.last_closed(self.grid.stamp(0, self.frontier_us));
        let mut done = Vec::new();
        for (window, seen) in self.seen.range_mut(..=reached) {
            let end_us = self.assigner.bounds(*window).1;
            while seen.delay < self.grid.delays() && end_us <= self.grid.stamp(seen.delay, self.frontier_us) {
                let mut from = self.steps.range((self.grid.reached_at(seen.delay, end_us), 0)..);
                let step = from.next().map(|(_, step)| *step);
                // A lesser one may come as long as the frontier has not passed this one.
                if self.frontier_us != AFTER_ALL && step.is_none_or(|step| step.base_us >= self.frontier_us) {
                    break;
                }
                let on_time = self.grid.stamp(seen.delay, seen.least_us) < end_us;
                if let Some(latency) = self.latency.get_mut(seen.delay).filter(|_| on_time) {
                    match step {
                        Some(step) => {
                            let same = self.steps.range((step.base_us, 0)..=(step.base_us, u32::MAX));
                            let arrived = same.map(|(_, step)| step.arrived_us).min().unwrap_or(step.arrived_us);
                            let lag_us = arrived.saturating_sub(end_us);
                            latency.early += u64::from(lag_us < 0);
                            latency.lags.record(lag_us);
                            if let Some((slots, bounds_us)) = &self.recommend {
                                let slot = slots.of(self.assigner.bounds(*window).0);
                                let (delays, lag_us) = (self.grid.delays(), u64::try_from(lag_us).unwrap_or(0));
                                self.in_time.add(slot, 0, delays * (1 + bounds_us.len()), |counts| {
                                    let within = std::iter::once(true).chain(bounds_us.iter().map(|us| lag_us <= *us));
                                    let own = counts.iter_mut().skip(seen.delay).step_by(delays);
                                    own.zip(within).for_each(|(n, within)| *n += u64::from(within));
                                });
                            }
                        }
                        None => latency.closed_at_end += 1,
                    }
                }
                seen.delay += 1;
            }
            if seen.delay == self.grid.delays() {
                done.push(*window);
            }
        }
        done.iter().for_each(|window| _ = self.seen.remove(window));
        self.forget_steps();
    }

    /// Drops the steps before every stamp that can still be asked for.
    fn forget_steps(&mut self) {
        let ahead_us = self.frontier_us.saturating_sub(self.grid.granularity_us());
        let first_us = self.seen.keys().next().map(|window| self.assigner.bounds(*window).1);
        let keep = first_us.map_or(ahead_us, |first| first.min(ahead_us));
        while let Some(entry) = self.steps.first_entry().filter(|entry| entry.key().0 < keep) {
            entry.remove();
        }
    }

    /// Everything has been told.
    pub fn finish(mut self) -> TimelineSums {
        self.advance(AFTER_ALL);
        TimelineSums {
            open_max: self.open.into_iter().map(Peak::finish).collect(),
            correctable_max: self.correctable.into_iter().map(Peak::finish).collect(),
            latency: self.latency,
            in_time: self.in_time,
        }
    }
}
