//! Counts of cells as sums of integers, which add up in any order: that is why no number of workers can show.
//!
//! What holds from some horizon on is counted once, at the least such horizon; a cell's figure is the sum up to its own.

use super::accuracy::{Accuracy, Comparison};
use super::grid::Grid;

/// Counts by delay and least horizon; one column more for what no horizon of the grid takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    buckets: usize,
    counts: Vec<u64>,
}

impl Counts {
    fn new(grid: &Grid) -> Counts {
        let buckets = grid.horizons_us().len() + 1;
        Counts { buckets, counts: vec![0; grid.delays_us().len() * buckets] }
    }

    /// Counts `n` under delay number `delay`, from horizon number `bucket` on (their number: under none).
    pub fn add(&mut self, delay: usize, bucket: usize, n: u64) {
        if let Some(count) = self.counts.get_mut(delay * self.buckets + bucket) {
            *count += n;
        }
    }

    fn row(&self, delay: usize) -> impl Iterator<Item = u64> {
        self.counts.iter().skip(delay * self.buckets).take(self.buckets).copied()
    }

    /// What holds under a delay and a horizon, by number.
    pub fn under(&self, delay: usize, horizon: usize) -> u64 {
        self.row(delay).take(horizon + 1).sum()
    }

    /// Everything that was counted under a delay.
    pub fn total(&self, delay: usize) -> u64 {
        self.row(delay).sum()
    }

    fn merge(&mut self, other: &Counts) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, other)| *mine += other);
    }
}

/// Everything that is counted. Contributions and records that are on time under every delay are not: they are the rest of the
/// ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tallies {
    /// Contributions that are late, from the horizon that accepts them.
    pub late: Counts,
    /// Records late for some window, from the horizon under which some window takes them.
    pub taken: Counts,
    /// The same, from the horizon under which every window takes them.
    pub taken_whole: Counts,
    /// Panes that have a result when their window closes, under every delay and without late records.
    pub undisturbed: u64,
    /// Other panes that have a result when their window closes, by delay.
    pub closed: Vec<u64>,
    /// Panes whose first result comes with a late record.
    pub appeared: Counts,
    /// Changes at a stamp; an update is one.
    pub corrections: Counts,
    /// Panes with a correction.
    pub corrected: Counts,
    /// Results against later ones, by [`Comparison`] in the order of [`Comparison::ALL`]; undisturbed panes aside.
    pub accuracy: [Accuracy; 3],
}

impl Tallies {
    /// Nothing counted yet; `columns` of the select list are to be compared.
    pub fn new(grid: &Grid, columns: Vec<usize>) -> Tallies {
        let counts = || Counts::new(grid);
        Tallies {
            late: counts(),
            taken: counts(),
            taken_whole: counts(),
            undisturbed: 0,
            closed: vec![0; grid.delays_us().len()],
            appeared: counts(),
            corrections: counts(),
            corrected: counts(),
            accuracy: Comparison::ALL.map(|_| Accuracy::new(grid, columns.clone())),
        }
    }

    /// Adds the counts of another worker of the same run.
    pub fn merge(&mut self, other: &Tallies) {
        self.late.merge(&other.late);
        self.taken.merge(&other.taken);
        self.taken_whole.merge(&other.taken_whole);
        self.undisturbed += other.undisturbed;
        self.closed.iter_mut().zip(&other.closed).for_each(|(mine, other)| *mine += other);
        self.appeared.merge(&other.appeared);
        self.corrections.merge(&other.corrections);
        self.corrected.merge(&other.corrected);
        self.accuracy.iter_mut().zip(&other.accuracy).for_each(|(mine, other)| mine.merge(other));
    }
}
