//! What (key, window) pairs add up to in every cell: results, corrections, and how far first results were off.
//!
//! Everything is a sum of integers, an exact sum or a maximum, so that it can be added up in any order. What holds from a
//! horizon on, or up to one, is kept as a difference along the horizons, exact sums too (an exact sum gives back what was
//! added). Pairs that are the same in every cell are counted once, in [`Figures::same`].

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

/// How far the values of one column are off.
#[derive(Clone, Debug, Default)]
pub struct Off {
    /// Sum of the sizes of relative errors.
    pub size: ExactSum,
    /// Sum of the relative errors with their signs.
    pub signed: ExactSum,
    /// Errors that are not 0, by bucket.
    pub counts: BTreeMap<u64, i64>,
    /// Pairs of which there is no relative error: NULL against a value, 0 against another value, no number.
    pub undefined: i64,
}

/// One cell's part of what is kept along the horizons.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// See [`PUBLISHED`] and so on.
    pub counts: [i64; COUNTS],
    /// By comparison: pairs that have both rows, and the same.
    pub exact: [i64; COMPARISONS],
    /// Pairs that reached revision `r`; the last item counts every revision from there on.
    pub revisions: Vec<i64>,
    /// Time from the window's end to the last correction, by bucket.
    pub last_correction: BTreeMap<u64, i64>,
    /// By comparison and column.
    pub off: Vec<Off>,
}

/// Maxima of one cell.
#[derive(Clone, Debug, Default)]
pub struct Greatest {
    /// Time from the window's end to the last correction, µs.
    pub last_correction_us: u64,
    /// Sizes of relative errors, by comparison and column.
    pub off: Vec<f64>,
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
    /// By delay and horizon.
    pub greatest: Vec<Greatest>,
}

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
        let pairs = COMPARISONS * columns;
        let part = Part { off: vec![Off::default(); pairs], ..Part::default() };
        let greatest = Greatest { off: vec![0.0; pairs], ..Greatest::default() };
        Figures {
            columns,
            horizons: grid.horizons(),
            same: 0,
            same_failed: 0,
            same_from: vec![(0, 0); grid.delays()],
            parts: vec![part; grid.delays() * (grid.horizons() + 1)],
            greatest: vec![greatest; grid.delays() * grid.horizons()],
        }
    }

    fn part(&mut self, delay: usize, horizon: usize) -> Option<&mut Part> {
        self.parts.get_mut(delay * (self.horizons + 1) + horizon)
    }

    fn both(&mut self, delay: usize, horizons: &Range<usize>, mut add: impl FnMut(&mut Part, i64)) {
        self.part(delay, horizons.start).into_iter().for_each(|part| add(part, 1));
        if horizons.end < self.horizons {
            self.part(delay, horizons.end).into_iter().for_each(|part| add(part, -1));
        }
    }

    /// Adds to a count of the cells of a delay.
    pub fn count(&mut self, delay: usize, horizons: &Range<usize>, count: usize, n: i64) {
        self.both(delay, horizons, |part, sign| part.counts.get_mut(count).into_iter().for_each(|c| *c += sign * n));
    }

    /// A pair reaches a revision, from a horizon on.
    pub fn revision(&mut self, delay: usize, from: usize, revision: usize) {
        let revision = revision.min(REVISIONS_MAX);
        if let Some(part) = self.part(delay, from) {
            if part.revisions.len() <= revision {
                part.revisions.resize(revision + 1, 0);
            }
            part.revisions.get_mut(revision).into_iter().for_each(|n| *n += 1);
        }
    }

    /// A pair is corrected for the last time so long after its window's end.
    pub fn last_correction(&mut self, delay: usize, horizons: &Range<usize>, us: i64) {
        let us = u64::try_from(us).unwrap_or(0);
        let bucket = buckets::of_integer(us);
        self.both(delay, horizons, |part, sign| *part.last_correction.entry(bucket).or_default() += sign);
        self.greatest(delay, horizons, |greatest| greatest.last_correction_us = greatest.last_correction_us.max(us));
    }

    fn greatest(&mut self, delay: usize, horizons: &Range<usize>, raise: impl FnMut(&mut Greatest)) {
        let cells = delay * self.horizons + horizons.start..delay * self.horizons + horizons.end;
        self.greatest.get_mut(cells).into_iter().flatten().for_each(raise);
    }

    /// Two rows of a pair that are the same.
    pub fn exact(&mut self, delay: usize, horizons: &Range<usize>, comparison: Comparison) {
        let c = comparison as usize;
        self.both(delay, horizons, |part, sign| {
            part.counts.get_mut(COMPARED + c).into_iter().for_each(|n| *n += sign);
            part.exact.get_mut(c).into_iter().for_each(|n| *n += sign);
        });
    }

    /// Two rows of a pair that are not the same, with their differences by column.
    pub fn differ(&mut self, delay: usize, horizons: &Range<usize>, comparison: Comparison, by_column: &[Difference]) {
        let c = comparison as usize;
        let first = c * self.columns;
        self.both(delay, horizons, |part, sign| {
            part.counts.get_mut(COMPARED + c).into_iter().for_each(|n| *n += sign);
            let columns = part.off.get_mut(first..).into_iter().flatten();
            columns.zip(by_column).for_each(|(off, difference)| off.add(*difference, sign));
        });
        self.greatest(delay, horizons, |greatest| {
            for (max, difference) in greatest.off.get_mut(first..).into_iter().flatten().zip(by_column) {
                if let Difference::Relative(x) = difference {
                    *max = max.max(x.abs());
                }
            }
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
        for (mine, others) in self.greatest.iter_mut().zip(&other.greatest) {
            mine.last_correction_us = mine.last_correction_us.max(others.last_correction_us);
            mine.off.iter_mut().zip(&others.off).for_each(|(a, b)| *a = a.max(*b));
        }
    }

    /// What each cell has, by delay and horizon: the sums of the parts up to its horizon.
    pub fn cells(&self) -> Vec<Part> {
        let mut out = Vec::with_capacity(self.greatest.len());
        let mut same = (self.same, self.same_failed);
        for (parts, from) in self.parts.chunks(self.horizons + 1).zip(&self.same_from) {
            same = (same.0 + from.0, same.1 + from.1);
            let mut sum = Part { off: vec![Off::default(); COMPARISONS * self.columns], ..Part::default() };
            for part in parts.iter().take(self.horizons) {
                sum.merge(part);
                let mut cell = sum.clone();
                cell.add_same(same);
                out.push(cell);
            }
        }
        out
    }
}

impl Off {
    fn add(&mut self, difference: Difference, sign: i64) {
        match difference {
            Difference::None => {}
            Difference::Undefined => self.undefined += sign,
            Difference::Relative(x) => {
                let sign_f = if sign < 0 { -1.0 } else { 1.0 };
                self.size.add(x.abs() * sign_f);
                self.signed.add(x * sign_f);
                *self.counts.entry(buckets::of_ratio(x.abs())).or_default() += sign;
            }
        }
    }

    fn merge(&mut self, other: &Off) {
        self.size.merge(&other.size);
        self.signed.merge(&other.signed);
        self.undefined += other.undefined;
        other.counts.iter().for_each(|(bucket, n)| *self.counts.entry(*bucket).or_default() += n);
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
        if self.revisions.is_empty() && pairs > 0 {
            self.revisions.push(0);
        }
        self.revisions.first_mut().into_iter().for_each(|n| *n += pairs);
    }

    fn merge(&mut self, other: &Part) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        self.exact.iter_mut().zip(&other.exact).for_each(|(a, b)| *a += b);
        if self.revisions.len() < other.revisions.len() {
            self.revisions.resize(other.revisions.len(), 0);
        }
        self.revisions.iter_mut().zip(&other.revisions).for_each(|(a, b)| *a += b);
        other.last_correction.iter().for_each(|(bucket, n)| *self.last_correction.entry(*bucket).or_default() += n);
        self.off.iter_mut().zip(&other.off).for_each(|(a, b)| a.merge(b));
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
        figures.differ(0, &(0..2), Comparison::FirstFinal, &[Difference::Relative(-0.25)]);
        figures.exact(0, &(2..3), Comparison::FirstFinal);
        figures.last_correction(0, &(1..3), 7);
        figures.same = 3;
        let cells = figures.cells();
        let sizes: Vec<_> = cells.iter().map(|c| (c.off[0].size.to_f64(), c.off[0].signed.to_f64())).collect();
        assert_eq!(sizes, [(0.25, -0.25), (0.25, -0.25), (0.0, 0.0)]);
        let exact: Vec<_> = cells.iter().map(|c| (c.exact[0], c.counts[COMPARED])).collect();
        assert_eq!(exact, [(3, 4), (3, 4), (4, 4)]);
        assert!(cells[2].off[0].counts.values().all(|n| *n == 0));
        assert_eq!(figures.greatest.iter().map(|g| g.last_correction_us).collect::<Vec<_>>(), [0, 7, 7]);
    }
}
