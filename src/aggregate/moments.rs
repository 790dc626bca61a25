//! Variance and standard deviation from exact sums of values and of squares.
//!
//! `n·Σx² − (Σx)²` is an integer times a power of two; it is calculated without rounding, so that no cancellation can hurt, and
//! divided by `n·(n − 1)` (sample) or `n²` (population) with one rounding. The standard deviation is the square root of
//! that double (IEEE 754: rounded once more). Exponents are wider than a double's: squares neither overflow nor
//! underflow, only the published variance may (±∞ beyond the largest double, 0.0 or subnormal below the smallest normal).

use super::AggregateFunc;
use super::exact::{ExactSum, Magnitude};
use super::fixed::checked_count;
use super::state::{Add, State};
use crate::wire::{Reader, Wire, WireError, Writer};
use serde::{Deserialize, Serialize};

/// The number of values, their exact sum and the exact sum of their squares.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Moments {
    n: u64,
    sum: ExactSum,
    squares: ExactSum,
}

impl Add<i64> for Moments {
    #[inline]
    fn add(&mut self, x: i64) {
        self.n += 1;
        self.sum.add_scaled(i128::from(x), 0);
        self.squares.add_scaled(i128::from(x) * i128::from(x), 0);
    }
}

impl Add<f64> for Moments {
    #[inline]
    fn add(&mut self, x: f64) {
        self.n += 1;
        self.sum.add(x);
        self.squares.add_square(x);
    }
}

/// Unscaled decimals; the scale comes in at the end.
impl Add<i128> for Moments {
    fn add(&mut self, x: i128) {
        self.n += 1;
        self.sum.add_scaled(x, 0);
        let size = x.unsigned_abs();
        let (high, low) = (size >> 64, size & u128::from(u64::MAX));
        self.squares.add_unsigned(low * low, 0);
        // 2·high·low·2^64 and high²·2^128; the factors have 64 bits, so that no product passes 128.
        self.squares.add_unsigned(high * low, 65);
        self.squares.add_unsigned(high * high, 128);
    }
}

impl State for Moments {
    const ON_HEAP: bool = true;
    fn merge(&mut self, other: &Self) {
        self.n = self.n.saturating_add(other.n);
        self.sum.merge(&other.sum);
        self.squares.merge(&other.squares);
    }
    fn heap(&self) -> usize {
        self.sum.heap() + self.squares.heap()
    }
}

/// The number of values, and both sums.
impl Wire for Moments {
    const LEAST: usize = 8 + 2 * ExactSum::LEAST;
    fn size(&self) -> usize {
        8 + self.sum.size() + self.squares.size()
    }
    fn put(&self, out: &mut Writer) {
        out.word(self.n);
        self.sum.put(out);
        self.squares.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let at = from.at();
        Ok(Moments { n: checked_count(from.word()?, at)?, sum: Wire::get(from)?, squares: Wire::get(from)? })
    }
}

impl Moments {
    /// The variance or standard deviation of values divided by 10^`scale`. `None` without values, and for a sample of one.
    pub(super) fn lower(&self, func: AggregateFunc, scale: u8) -> Option<f64> {
        let sample = matches!(func, AggregateFunc::VarSamp | AggregateFunc::StddevSamp);
        if self.n == 0 || (sample && self.n == 1) {
            return None;
        }
        let variance = self.variance(if sample { self.n - 1 } else { self.n }, scale);
        let root = matches!(func, AggregateFunc::StddevSamp | AggregateFunc::StddevPop);
        Some(if root { variance.sqrt() } else { variance })
    }

    fn variance(&self, freedom: u64, scale: u8) -> f64 {
        if self.sum.special().is_some() || self.squares.special().is_some() {
            // ∞ − ∞ is no number.
            return f64::NAN;
        }
        let n = Magnitude::of(i128::from(self.n), 0);
        let mut sum = self.sum.to_dyadic().magnitude();
        let squares = self.squares.to_dyadic().magnitude().times(&n);
        sum = sum.times(&sum);
        sum.negative = true;
        let mut numerator = squares.to_dyadic();
        numerator.add(&sum.to_dyadic());
        let mut divisor = n.times(&Magnitude::of(i128::from(freedom), 0));
        let power = Magnitude::of(10i128.checked_pow(u32::from(scale)).unwrap_or(1), 0);
        if scale > 0 {
            divisor = divisor.times(&power).times(&power);
        }
        numerator.magnitude().div(&divisor)
    }
}
