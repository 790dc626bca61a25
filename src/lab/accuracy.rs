//! How far results are from later ones: relative errors, summed so that they add up in any order.
//!
//! An error is rounded to a whole number of billionths (ppb) when it is taken; sums and counts are exact from there on.
//! Quantiles come from buckets of which eight make an octave: what is reported is at most 12.5 % above the true one, and
//! never below.

use super::grid::Grid;
use crate::plan::WindowedPlan;
use crate::types::{Column, DataType, Value, compare_rows};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Billionths in one.
pub const PPB: f64 = 1e9;

/// Buckets an octave, as a power of two.
const OCTAVE_BITS: u32 = 3;

/// Errors are cut off here (a billion times the final value), ppb.
const WORST_PPB: f64 = 1e18;

/// The first value of a column against the final one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// They are equal.
    Exact,
    /// The relative error, ppb.
    Relative(u64),
    /// They differ, and there is no relative error: one is NULL, NaN or infinite, or the final value is zero.
    Undefined,
}

/// What is compared with what. The *truth* is the final result under the greatest delay and horizon of the grid, which miss the
/// fewest records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The first result, on closing, with the final one.
    FirstFinal,
    /// The first result with the truth.
    FirstTruth,
    /// The final result with the truth.
    FinalTruth,
}

impl Comparison {
    /// All, in the order of the reports.
    pub const ALL: [Comparison; 3] = [Comparison::FirstFinal, Comparison::FirstTruth, Comparison::FinalTruth];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Comparison::FirstFinal => "first_final",
            Comparison::FirstTruth => "first_truth",
            Comparison::FinalTruth => "final_truth",
        }
    }
}

/// The deviation of `first` from `last`, numbers of one type.
pub fn deviation(first: &Value, last: &Value) -> Deviation {
    let (distance, last) = match (first, last) {
        (Value::BigInt(a), Value::BigInt(b)) => ((i128::from(*a) - i128::from(*b)).unsigned_abs() as f64, *b as f64),
        (Value::Decimal(a, _), Value::Decimal(b, _)) => (a.abs_diff(*b) as f64, *b as f64),
        (Value::Double(a), Value::Double(b)) => ((a - b).abs(), *b),
        _ => return Deviation::Undefined,
    };
    let error = distance / last.abs();
    if !error.is_finite() || !last.is_finite() {
        return Deviation::Undefined;
    }
    // Not negative and small enough for 64 bits.
    Deviation::Relative((error * PPB).round().min(WORST_PPB) as u64)
}

/// Number of an error's bucket.
fn bucket(ppb: u64) -> u16 {
    let octaves = ppb.checked_ilog2().unwrap_or(0).saturating_sub(OCTAVE_BITS);
    (u64::from(octaves << OCTAVE_BITS) + (ppb >> octaves)) as u16
}

/// The greatest error of a bucket, ppb.
fn bucket_max(bucket: u16) -> u64 {
    let (bucket, eighth) = (u64::from(bucket), 1u64 << OCTAVE_BITS);
    let octaves = (bucket / eighth).saturating_sub(1);
    let first = bucket - octaves * eighth;
    ((first + 1) << octaves) - 1
}

/// Deviations of one column in one cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// Equal.
    pub exact: u64,
    /// Without a relative error.
    pub undefined: u64,
    /// Sum of the relative errors, ppb.
    pub sum_ppb: u128,
    /// The greatest, ppb.
    pub max_ppb: u64,
    /// Relative errors (of what is not exact) by bucket.
    buckets: BTreeMap<u16, u64>,
}

impl Errors {
    /// Counts `n` times the same.
    pub fn add(&mut self, deviation: Deviation, n: u64) {
        match deviation {
            Deviation::Exact => self.exact += n,
            Deviation::Undefined => self.undefined += n,
            Deviation::Relative(ppb) => {
                self.sum_ppb += u128::from(ppb) * u128::from(n);
                self.max_ppb = self.max_ppb.max(ppb);
                *self.buckets.entry(bucket(ppb)).or_default() += n;
            }
        }
    }

    /// Those that have an error, zero or not.
    pub fn defined(&self) -> u64 {
        self.exact + self.buckets.values().sum::<u64>()
    }

    /// The least error that at least the share `hundredths` of the defined ones do not pass, ppb, at most 12.5 % too great;
    /// `None` if there are none.
    pub fn quantile_ppb(&self, hundredths: u64) -> Option<u64> {
        let defined = self.defined();
        let rank = u64::try_from((u128::from(defined) * u128::from(hundredths)).div_ceil(100)).unwrap_or(u64::MAX);
        let mut seen = self.exact;
        if defined == 0 || rank <= seen {
            return (defined > 0).then_some(0);
        }
        for (bucket, n) in &self.buckets {
            seen += n;
            if rank <= seen {
                return Some(bucket_max(*bucket).min(self.max_ppb));
            }
        }
        Some(self.max_ppb)
    }

    fn merge(&mut self, other: &Errors) {
        self.exact += other.exact;
        self.undefined += other.undefined;
        self.sum_ppb += other.sum_ppb;
        self.max_ppb = self.max_ppb.max(other.max_ppb);
        for (bucket, n) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += n;
        }
    }
}

/// The columns of a select list that are compared: numbers that depend on an aggregate.
pub fn compared_columns(plan: &WindowedPlan, output: &[(String, DataType)]) -> Vec<usize> {
    let first_aggregate = plan.group.len() + 2;
    let depends = |column: &usize| {
        let mut read = BTreeSet::new();
        plan.select.get(*column).iter().for_each(|expr| expr.columns(&mut read));
        read.range(first_aggregate..).next().is_some()
    };
    let number = |column: &usize| {
        let dtype = output.get(*column).map(|(_, dtype)| dtype);
        matches!(dtype, Some(DataType::BigInt | DataType::Double | DataType::Decimal { .. }))
    };
    (0..plan.select.len()).filter(number).filter(depends).collect()
}

/// Deviations of all compared columns in all cells, of panes that have both rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accuracy {
    horizons: usize,
    columns: Vec<usize>,
    /// Panes whose two rows are one, by cell.
    same: Vec<u64>,
    /// Panes that have the later row alone, by cell.
    missing: Vec<u64>,
    /// The others, by cell, then column.
    errors: Vec<Errors>,
}

impl Accuracy {
    /// For these columns of the select list.
    pub fn new(grid: &Grid, columns: Vec<usize>) -> Accuracy {
        let cells = grid.delays_us().len() * grid.horizons_us().len();
        let errors = vec![Errors::default(); cells * columns.len()];
        Accuracy { horizons: grid.horizons_us().len(), same: vec![0; cells], missing: vec![0; cells], columns, errors }
    }

    /// The compared columns.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Under a delay and the horizons numbered from `from` to before `to` a pane's rows are `first` and `last` of the published
    /// columns, if it has them.
    pub fn add(
        &mut self,
        delay: usize,
        (from, to): (usize, usize),
        values: &[Column],
        (first, last): (Option<usize>, Option<usize>),
    ) {
        let cells = delay * self.horizons + from..delay * self.horizons + to;
        let Some(last) = last else { return };
        let Some(first) = first.filter(|first| *first != last) else {
            let counts = if first.is_some() { &mut self.same } else { &mut self.missing };
            counts.iter_mut().take(cells.end).skip(cells.start).for_each(|n| *n += 1);
            return;
        };
        let many = self.columns.len();
        for (at, column) in self.columns.iter().enumerate() {
            let column = values.get(*column..=*column).unwrap_or_default();
            let deviation = match (compare_rows(column, first, column, last), column.first()) {
                (Ordering::Equal, _) => Deviation::Exact,
                (_, Some(column)) => deviation(&column.value(first), &column.value(last)),
                (_, None) => Deviation::Undefined,
            };
            for cell in cells.clone() {
                if let Some(errors) = self.errors.get_mut(cell * many + at) {
                    errors.add(deviation, 1);
                }
            }
        }
    }

    /// The deviations of a cell by compared column; `undisturbed` panes more are exact.
    pub fn of_cell(&self, delay: usize, horizon: usize, undisturbed: u64) -> Vec<Errors> {
        let cell = delay * self.horizons + horizon;
        let exact = undisturbed + self.same.get(cell).copied().unwrap_or(0);
        let errors = self.errors.iter().skip(cell * self.columns.len()).take(self.columns.len());
        let with = |errors: &Errors| Errors { exact: errors.exact + exact, ..errors.clone() };
        errors.map(with).collect()
    }

    /// Panes of a cell that have the later row alone.
    pub fn missing(&self, delay: usize, horizon: usize) -> u64 {
        self.missing.get(delay * self.horizons + horizon).copied().unwrap_or(0)
    }

    /// Adds what another worker of the same run has compared.
    pub fn merge(&mut self, other: &Accuracy) {
        self.same.iter_mut().zip(&other.same).for_each(|(mine, other)| *mine += other);
        self.missing.iter_mut().zip(&other.missing).for_each(|(mine, other)| *mine += other);
        self.errors.iter_mut().zip(&other.errors).for_each(|(mine, other)| mine.merge(other));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_narrow() {
        let mut before = None;
        for ppb in (0..5_000).chain((13..60).flat_map(|octave| [(1 << octave) - 1, 1 << octave, (1 << octave) + 1])) {
            let bucket = bucket(ppb);
            let max = bucket_max(bucket);
            assert!(max >= ppb && (max - ppb) * 8 <= ppb, "{ppb} in a bucket up to {max}");
            assert_eq!(super::bucket(max), bucket);
            assert_ne!(super::bucket(max + 1), bucket);
            assert!(before.is_none_or(|before| before <= (ppb, bucket)));
            before = Some((ppb, bucket));
        }
    }

    #[test]
    fn deviations() {
        let big = |a, b| deviation(&Value::BigInt(a), &Value::BigInt(b));
        assert_eq!(big(3, 4), Deviation::Relative(250_000_000));
        assert_eq!(big(i64::MIN, i64::MAX), Deviation::Relative(2_000_000_000));
        assert_eq!(big(1, 0), Deviation::Undefined);
        let double = |a, b| deviation(&Value::Double(a), &Value::Double(b));
        assert_eq!(double(-1.0, 1.0), Deviation::Relative(2_000_000_000));
        assert_eq!(double(1e300, 1e-300), Deviation::Undefined);
        assert_eq!(double(1.0, f64::INFINITY), Deviation::Undefined);
        assert_eq!(double(f64::NAN, 1.0), Deviation::Undefined);
        assert_eq!(double(1e30, 1.0), Deviation::Relative(1_000_000_000_000_000_000));
        assert_eq!(deviation(&Value::Null, &Value::BigInt(1)), Deviation::Undefined);
        assert_eq!(deviation(&Value::Decimal(199, 2), &Value::Decimal(200, 2)), Deviation::Relative(5_000_000));
    }

    #[test]
    fn quantiles_count_the_exact_ones() {
        let mut errors = Errors::default();
        assert_eq!(errors.quantile_ppb(50), None);
        errors.add(Deviation::Exact, 50);
        errors.add(Deviation::Relative(1_000), 49);
        errors.add(Deviation::Relative(1_000_000), 1);
        errors.add(Deviation::Undefined, 7);
        assert_eq!(
            (errors.defined(), errors.quantile_ppb(50), errors.quantile_ppb(100)),
            (100, Some(0), Some(1_000_000))
        );
        assert_eq!(errors.quantile_ppb(99), Some(bucket_max(bucket(1_000))));
    }
}
