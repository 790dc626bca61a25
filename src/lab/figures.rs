//! What (key, window) pairs add up to in every cell: results, corrections, and how far first results were off.
//!
//! Everything is a sum of integers, an exact sum or a maximum, so that it can be added up in any order. What holds from a
//! horizon on, or up to one, is kept as a difference along the horizons, exact sums too (an exact sum gives back what was
//! added). Pairs that are the same in every cell are counted once, in [`Figures::same`].

use super::blocks::BlockSums;
use super::buckets;
use super::grid::Grid;
use crate::aggregate::exact::ExactSum;
use crate::sink::summary::REVISIONS_MAX;
use std::collections::BTreeMap;
use std::ops::Range;

/// Which two rows of a pair are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The first row published, against the last.
    FirstFinal,
    /// The first row published, against the truth.
    FirstTruth,
    /// The last row published, against the truth.
    FinalTruth,
}

/// Number of [`Comparison`]s.
pub const COMPARISONS: usize = 3;

/// Counts of a cell that are differences along the horizons.
pub const COUNTS: usize = 11;
/// Pairs that got a first row.
pub const PUBLISHED: usize = 0;
/// Pairs that have a row at the end (`HAVING` may have taken it back).
pub const LASTING: usize = 1;
/// Changes after closing; an update is one.
pub const CORRECTIONS: usize = 2;
/// Pairs with at least one such change.
pub const CORRECTED: usize = 3;
/// Pairs that the truth has and the cell never published.
pub const MISSING: usize = 4;
/// Pairs with a row that cannot be computed: a run with these settings ends with an error.
pub const FAILED: usize = 5;
/// By comparison: pairs that have both rows …
pub const COMPARED: usize = 6;

/// Counts by bucket, from the least that was counted to the greatest.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    from: usize,
    counts: Vec<i64>,
}

impl Counts {
    /// Adds to a bucket.
    #[inline]
    pub fn add(&mut self, bucket: u64, n: i64) {
        let bucket = bucket as usize;
        match self.counts.get_mut(bucket.wrapping_sub(self.from)) {
            Some(count) => *count += n,
            None => self.grow(bucket, n),
        }
    }

    #[cold]
    fn grow(&mut self, bucket: usize, n: i64) {
        if self.counts.is_empty() {
            self.from = bucket;
        } else if bucket < self.from {
            self.counts.splice(0..0, std::iter::repeat_n(0, self.from - bucket));
            self.from = bucket;
        }
        let at = bucket - self.from;
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts.get_mut(at).into_iter().for_each(|count| *count += n);
    }

    /// Counts that are not 0, in the order of their buckets.
    pub fn sorted(&self) -> BTreeMap<u64, i64> {
        let counts = (self.from as u64..).zip(&self.counts);
        counts.filter(|(_, n)| **n != 0).map(|(bucket, n)| (bucket, *n)).collect()
    }

    /// From counts by bucket; of buckets that there are not, none are taken.
    pub fn from_sorted(counts: &BTreeMap<u64, i64>) -> Counts {
        let mut out = Counts::default();
        let there = counts.iter().filter(|(bucket, _)| **bucket < buckets::BUCKETS_MAX);
        there.for_each(|(bucket, n)| out.add(*bucket, *n));
        out
    }

    fn merge(&mut self, other: &Counts) {
        let counts = (other.from as u64..).zip(&other.counts);
        counts.filter(|(_, n)| **n != 0).for_each(|(bucket, n)| self.add(bucket, *n));
    }
}

/// How far the values of one column are off.
#[derive(Clone, Debug, Default)]
pub struct Off {
    /// Sum of the relative errors above 0.
    pub above: ExactSum,
    /// Sum of the sizes of those below 0.
    pub below: ExactSum,
    /// Errors that are not 0, by bucket of their size.
    pub counts: Counts,
    /// Pairs of which there is no relative error: NULL against a value, 0 against another value, no number.
    pub undefined: i64,
}

/// What a cell has counted, or a difference of that along the horizons.
#[derive(Clone, Debug)]
pub struct Part {
    /// See [`PUBLISHED`] and so on.
    pub counts: [i64; COUNTS],
    /// By comparison: pairs that have both rows, and the same.
    pub exact: [i64; COMPARISONS],
    /// Pairs that reached revision `r`; the last item counts every revision from there on.
    pub revisions: [i64; REVISIONS_MAX + 1],
    /// Time from the window's end to the last correction, by bucket.
    pub last_correction: Counts,
}

impl Default for Part {
    fn default() -> Self {
        Part {
            counts: [0; COUNTS],
            exact: [0; COMPARISONS],
            revisions: [0; REVISIONS_MAX + 1],
            last_correction: Counts::default(),
        }
    }
}

/// All of one cell.
#[derive(Clone, Debug, Default)]
pub struct CellSums {
    /// Counts.
    pub part: Part,
    /// Greatest time from the window's end to the last correction, µs.
    pub last_correction_us: u64,
    /// By comparison and column: sums, and the greatest size of a relative error.
    pub off: Vec<(Off, f64)>,
}

/// Sums over pairs, for all cells.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Measured columns.
    pub columns: usize,
    /// Horizons.
    pub horizons: usize,
    /// Pairs whose one row is the same in every cell.
    pub same: u64,
    /// Pairs among those whose row cannot be computed.
    pub same_failed: u64,
    /// By delay: pairs whose one row is the same under this delay and all longer ones, whatever the horizon; and of those,
    /// rows that cannot be computed.
    pub same_from: Vec<(u64, u64)>,
    /// By delay and horizon, with one horizon more for what no horizon reaches.
    pub parts: Vec<Part>,
    /// By delay and horizon: greatest time to the last correction, µs.
    pub last_correction_us: Vec<u64>,
    /// By comparison, column, delay and horizon, with one horizon more.
    pub off: Vec<Off>,
    /// By comparison, column, delay and horizon: greatest size of a relative error.
    pub off_max: Vec<f64>,
    /// What holds for all horizons of some delays, as differences along the delays: first rows against the truth, compared and
    /// the same, …
    pub first_truth: Vec<(i64, i64)>,
    /// … sums by column and delay, …
    pub first_truth_off: Vec<Off>,
    /// … and by column and delay the greatest size of a relative error.
    pub first_truth_max: Vec<f64>,
    /// First rows against the truth at the longest horizon, by block of event time: by delay pairs compared, then by column and
    /// delay the sum of the errors' sizes in [`ERROR_UNIT`]s, then pairs without an error. Empty unless it is asked for.
    pub errors: BlockSums,
}

/// A relative error of 1 in [`Figures::errors`]. Sizes above 1,024 count as that.
pub const ERROR_UNIT: u64 = 1 << 24;

/// The difference of two rows in one column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Difference {
    /// None.
    None,
    /// Relative to the second value, which is not 0: positive if the first is greater.
    Relative(f64),
    /// There is no number for it.
    Undefined,
}

/// The relative difference of two values in double precision; `None` is NULL.
pub fn difference(value: Option<f64>, against: Option<f64>) -> Difference {
    match (value, against) {
        (None, None) => Difference::None,
        (Some(a), Some(b)) if a == b || (a.is_nan() && b.is_nan()) => Difference::None,
        (Some(a), Some(b)) if a.is_finite() && b.is_finite() && b != 0.0 => {
            let relative = (a - b) / b.abs();
            if relative.is_finite() { Difference::Relative(relative) } else { Difference::Undefined }
        }
        _ => Difference::Undefined,
    }
}

impl Figures {
    /// Of a grid, for views with so many measured columns.
    pub fn new(grid: &Grid, columns: usize) -> Figures {
        let (delays, horizons) = (grid.delays(), grid.horizons());
        Figures {
            columns,
            horizons,
            same: 0,
            same_failed: 0,
            same_from: vec![(0, 0); delays],
            parts: vec![Part::default(); delays * (horizons + 1)],
            last_correction_us: vec![0; delays * horizons],
            off: vec![Off::default(); COMPARISONS * columns * delays * (horizons + 1)],
            off_max: vec![0.0; COMPARISONS * columns * delays * horizons],
            first_truth: vec![(0, 0); delays],
            first_truth_off: vec![Off::default(); columns * delays],
            first_truth_max: vec![0.0; columns * delays],
            errors: BlockSums::default(),
        }
    }

    fn part(&mut self, delay: usize, horizon: usize) -> Option<&mut Part> {
        self.parts.get_mut(delay * (self.horizons + 1) + horizon)
    }

    #[inline]
    fn both(&mut self, delay: usize, horizons: &Range<usize>, mut add: impl FnMut(&mut Part, i64)) {
        self.part(delay, horizons.start).into_iter().for_each(|part| add(part, 1));
        if horizons.end < self.horizons {
            self.part(delay, horizons.end).into_iter().for_each(|part| add(part, -1));
        }
    }

    /// Adds to a count of the cells of a delay.
    #[inline]
    pub fn count(&mut self, delay: usize, horizons: &Range<usize>, count: usize, n: i64) {
        self.both(delay, horizons, |part, sign| part.counts.get_mut(count).into_iter().for_each(|c| *c += sign * n));
    }

    /// A pair reaches a revision, from a horizon on.
    #[inline]
    pub fn revision(&mut self, delay: usize, from: usize, revision: usize) {
        let revision = revision.min(REVISIONS_MAX);
        let reached = self.part(delay, from).and_then(|part| part.revisions.get_mut(revision));
        reached.into_iter().for_each(|n| *n += 1);
    }

    /// A pair is corrected for the last time so long after its window's end.
    pub fn last_correction(&mut self, delay: usize, horizons: &Range<usize>, us: i64) {
        let us = u64::try_from(us).unwrap_or(0);
        let bucket = buckets::of_integer(us);
        self.both(delay, horizons, |part, sign| part.last_correction.add(bucket, sign));
        let cells = delay * self.horizons + horizons.start..delay * self.horizons + horizons.end;
        self.last_correction_us.get_mut(cells).into_iter().flatten().for_each(|max| *max = us.max(*max));
    }

    /// Two rows of a pair that are compared; `exact`: they are the same.
    #[inline]
    pub fn compared(&mut self, delay: usize, horizons: &Range<usize>, comparison: Comparison, exact: bool) {
        let c = comparison as usize;
        self.both(delay, horizons, |part, sign| {
            part.counts.get_mut(COMPARED + c).into_iter().for_each(|n| *n += sign);
            part.exact.get_mut(c).into_iter().for_each(|n| *n += sign * i64::from(exact));
        });
    }

    /// Two rows of a pair that are compared differ so in a column.
    #[inline]
    pub fn off(
        &mut self,
        delay: usize,
        horizons: &Range<usize>,
        (comparison, column): (Comparison, usize),
        difference: Difference,
    ) {
        if difference == Difference::None {
            return;
        }
        let place = (comparison as usize * self.columns + column) * self.same_from.len() + delay;
        let first = place * (self.horizons + 1);
        self.off.get_mut(first + horizons.start).into_iter().for_each(|off| off.add(difference, 1));
        if horizons.end < self.horizons {
            self.off.get_mut(first + horizons.end).into_iter().for_each(|off| off.add(difference, -1));
        }
        if let Difference::Relative(x) = difference {
            let first = place * self.horizons;
            let cells = self.off_max.get_mut(first + horizons.start..first + horizons.end);
            cells.into_iter().flatten().for_each(|max| *max = x.abs().max(*max));
        }
    }

    /// A first row and the truth are compared, for all horizons of these delays; `exact`: they are the same.
    pub fn first_truth(&mut self, delays: &Range<usize>, exact: bool) {
        for (delay, sign) in [(delays.start, 1), (delays.end, -1)] {
            let sums = self.first_truth.get_mut(delay);
            sums.into_iter().for_each(|sums| *sums = (sums.0 + sign, sums.1 + sign * i64::from(exact)));
        }
    }

    /// A first row differs so from the truth in a column, for all horizons of these delays.
    pub fn first_truth_off(&mut self, delays: &Range<usize>, column: usize, difference: Difference) {
        let first = column * self.first_truth.len();
        self.first_truth_off.get_mut(first + delays.start).into_iter().for_each(|off| off.add(difference, 1));
        if delays.end < self.first_truth.len() {
            self.first_truth_off.get_mut(first + delays.end).into_iter().for_each(|off| off.add(difference, -1));
        }
        if let Difference::Relative(x) = difference {
            let max = self.first_truth_max.get_mut(first + delays.start..first + delays.end);
            max.into_iter().flatten().for_each(|max| *max = x.abs().max(*max));
        }
    }

    /// In the block of a slot, so many pairs are compared under these delays, for the longest horizon.
    pub fn block_compared(&mut self, slot: i64, delays: Range<usize>, pairs: u64) {
        let counters = self.same_from.len() * (1 + 2 * self.columns);
        self.errors.add(slot, 0, counters, |counts| {
            counts.get_mut(delays).into_iter().flatten().for_each(|n| *n += pairs);
        });
    }

    /// In the block of a slot, a first row differs so from the truth in a column.
    pub fn block_off(&mut self, slot: i64, delays: Range<usize>, column: usize, difference: Difference) {
        let all = self.same_from.len();
        let (first, n) = match difference {
            Difference::None => return,
            Difference::Relative(x) => (1 + column, (x.abs().min(1024.0) * ERROR_UNIT as f64).round() as u64),
            Difference::Undefined => (1 + self.columns + column, 1),
        };
        self.errors.add(slot, 0, all * (1 + 2 * self.columns), |counts| {
            let counts = counts.get_mut(first * all + delays.start..first * all + delays.end);
            counts.into_iter().flatten().for_each(|sum| *sum = sum.saturating_add(n));
        });
    }

    /// Adds what another worker has found.
    pub fn merge(&mut self, other: &Figures) {
        self.same += other.same;
        self.same_failed += other.same_failed;
        for (mine, others) in self.same_from.iter_mut().zip(&other.same_from) {
            *mine = (mine.0 + others.0, mine.1 + others.1);
        }
        self.parts.iter_mut().zip(&other.parts).for_each(|(a, b)| a.merge(b));
        self.last_correction_us.iter_mut().zip(&other.last_correction_us).for_each(|(a, b)| *a = *b.max(a));
        self.off.iter_mut().zip(&other.off).for_each(|(a, b)| a.merge(b));
        self.off_max.iter_mut().zip(&other.off_max).for_each(|(a, b)| *a = b.max(*a));
        for (mine, others) in self.first_truth.iter_mut().zip(&other.first_truth) {
            *mine = (mine.0 + others.0, mine.1 + others.1);
        }
        self.first_truth_off.iter_mut().zip(&other.first_truth_off).for_each(|(a, b)| a.merge(b));
        self.first_truth_max.iter_mut().zip(&other.first_truth_max).for_each(|(a, b)| *a = b.max(*a));
        self.errors.merge(&other.errors);
    }

    /// What each cell has, by delay and horizon: the sums of the differences up to its horizon.
    pub fn cells(&self) -> Vec<CellSums> {
        let mut out = Vec::with_capacity(self.last_correction_us.len());
        let mut same = (self.same, self.same_failed);
        let mut first_truth = (0, 0);
        let mut first_truth_off = vec![Off::default(); self.columns];
        for (delay, from) in self.same_from.iter().enumerate() {
            same = (same.0 + from.0, same.1 + from.1);
            let own = self.first_truth.get(delay).copied().unwrap_or_default();
            first_truth = (first_truth.0 + own.0, first_truth.1 + own.1);
            let mut first_truth_max = Vec::new();
            for (column, off) in first_truth_off.iter_mut().enumerate() {
                let place = column * self.first_truth.len() + delay;
                self.first_truth_off.get(place).into_iter().for_each(|own| off.merge(own));
                first_truth_max.push(self.first_truth_max.get(place).copied().unwrap_or(0.0));
            }
            let mut part = Part::default();
            let mut off = vec![Off::default(); COMPARISONS * self.columns];
            for horizon in 0..self.horizons {
                self.parts.get(delay * (self.horizons + 1) + horizon).into_iter().for_each(|own| part.merge(own));
                let mut with_max = Vec::with_capacity(off.len());
                for (n, off) in off.iter_mut().enumerate() {
                    let place = n * self.same_from.len() + delay;
                    self.off.get(place * (self.horizons + 1) + horizon).into_iter().for_each(|own| off.merge(own));
                    let max = self.off_max.get(place * self.horizons + horizon).copied().unwrap_or(0.0);
                    with_max.push((off.clone(), max));
                }
                let last = self.last_correction_us.get(delay * self.horizons + horizon).copied().unwrap_or(0);
                let mut cell = CellSums { part: part.clone(), last_correction_us: last, off: with_max };
                cell.part.add_same(same);
                cell.add_first_truth(first_truth, &first_truth_off, &first_truth_max);
                out.push(cell);
            }
        }
        out
    }
}

impl Off {
    #[inline]
    fn add(&mut self, difference: Difference, sign: i64) {
        match difference {
            Difference::None => {}
            Difference::Undefined => self.undefined += sign,
            Difference::Relative(x) => {
                let size = x.abs();
                let sum = if x > 0.0 { &mut self.above } else { &mut self.below };
                sum.add(if sign < 0 { -size } else { size });
                self.counts.add(buckets::of_ratio(size), sign);
            }
        }
    }

    /// Mean of the sizes of `n` errors.
    pub fn mean_size(&self, n: u64) -> f64 {
        let mut sum = self.above.clone();
        sum.merge(&self.below);
        sum.mean(n)
    }

    /// Mean of `n` errors with their signs.
    pub fn mean_signed(&self, n: u64) -> f64 {
        let mut sum = self.above.clone();
        sum.subtract(&self.below);
        sum.mean(n)
    }

    fn merge(&mut self, other: &Off) {
        self.above.merge(&other.above);
        self.below.merge(&other.below);
        self.undefined += other.undefined;
        self.counts.merge(&other.counts);
    }
}

impl CellSums {
    /// Adds what holds for all horizons of the delay.
    fn add_first_truth(&mut self, (compared, exact): (i64, i64), off: &[Off], max: &[f64]) {
        let c = Comparison::FirstTruth as usize;
        self.part.counts.get_mut(COMPARED + c).into_iter().for_each(|n| *n += compared);
        self.part.exact.get_mut(c).into_iter().for_each(|n| *n += exact);
        let own = self.off.iter_mut().skip(c * off.len());
        for ((own, own_max), (off, max)) in own.zip(off.iter().zip(max)) {
            own.merge(off);
            *own_max = max.max(*own_max);
        }
    }
}

impl Part {
    /// Pairs with one row that never changes; `failed` of them have one that cannot be computed.
    fn add_same(&mut self, (pairs, failed): (u64, u64)) {
        let pairs = pairs as i64;
        for count in [PUBLISHED, LASTING, COMPARED, COMPARED + 1, COMPARED + 2] {
            self.counts.get_mut(count).into_iter().for_each(|n| *n += pairs);
        }
        self.counts.get_mut(FAILED).into_iter().for_each(|n| *n += failed as i64);
        self.exact.iter_mut().for_each(|n| *n += pairs);
        self.revisions.first_mut().into_iter().for_each(|n| *n += pairs);
    }

    fn merge(&mut self, other: &Part) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        self.exact.iter_mut().zip(&other.exact).for_each(|(a, b)| *a += b);
        self.revisions.iter_mut().zip(&other.revisions).for_each(|(a, b)| *a += b);
        self.last_correction.merge(&other.last_correction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_in_one_column() {
        assert_eq!(difference(Some(3.0), Some(4.0)), Difference::Relative(-0.25));
        assert_eq!(difference(Some(-5.0), Some(-4.0)), Difference::Relative(-0.25));
        assert_eq!(difference(Some(0.0), Some(0.0)), Difference::None);
        assert_eq!(difference(None, None), Difference::None);
        assert_eq!(difference(Some(f64::NAN), Some(f64::NAN)), Difference::None);
        for (a, b) in [(Some(1.0), Some(0.0)), (None, Some(1.0)), (Some(1.0), None), (Some(f64::INFINITY), Some(1.0))] {
            assert_eq!(difference(a, b), Difference::Undefined);
        }
    }

    #[test]
    fn what_is_taken_back_along_the_horizons_is_gone() {
        let grid = Grid::new(vec![0], vec![None, Some(0), Some(5)], 1, false).unwrap();
        let mut figures = Figures::new(&grid, 1);
        figures.compared(0, &(0..2), Comparison::FirstFinal, false);
        figures.off(0, &(0..2), (Comparison::FirstFinal, 0), Difference::Relative(-0.25));
        figures.compared(0, &(2..3), Comparison::FirstFinal, true);
        figures.last_correction(0, &(1..3), 7);
        figures.same = 3;
        let cells = figures.cells();
        let sizes: Vec<_> = cells.iter().map(|c| (c.off[0].0.mean_size(1), c.off[0].0.mean_signed(1))).collect();
        assert_eq!(sizes, [(0.25, -0.25), (0.25, -0.25), (0.0, 0.0)]);
        let exact: Vec<_> = cells.iter().map(|c| (c.part.exact[0], c.part.counts[COMPARED])).collect();
        assert_eq!(exact, [(3, 4), (3, 4), (4, 4)]);
        assert!(cells[2].off[0].0.counts.sorted().values().all(|n| *n == 0));
        assert_eq!(cells.iter().map(|c| c.off[0].1).collect::<Vec<_>>(), [0.25, 0.25, 0.0]);
        assert_eq!(cells.iter().map(|c| c.last_correction_us).collect::<Vec<_>>(), [0, 7, 7]);
    }
}
