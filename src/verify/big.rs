//! Whole numbers of any size, in the plainest way: a sign and digits in base 2^32, least first.
//!
//! The row-at-a-time evaluator computes decimals and sums with these and with quotients of two of them, so that it
//! rounds where the contract says so and nowhere else. Quadratic algorithms; invariant: no leading zero digit, and
//! zero is not negative.

use std::cmp::Ordering;

/// A whole number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Big {
    negative: bool,
    digits: Vec<u32>,
}

/// How a quotient is rounded to a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest, halves away from zero.
    HalfAway,
    /// To the nearest, halves to the even one.
    HalfEven,
    /// Toward zero.
    Zero,
    /// Toward −∞.
    Floor,
    /// Toward +∞.
    Ceil,
}

impl From<i128> for Big {
    fn from(value: i128) -> Self {
        let mut rest = value.unsigned_abs();
        let mut digits = Vec::new();
        while rest > 0 {
            digits.push((rest & u128::from(u32::MAX)) as u32);
            rest >>= 32;
        }
        Big { negative: value < 0, digits }
    }
}

impl From<i64> for Big {
    fn from(value: i64) -> Self {
        Big::from(i128::from(value))
    }
}

impl Ord for Big {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => compare(&self.digits, &other.digits),
            (true, true) => compare(&other.digits, &self.digits),
        }
    }
}
impl PartialOrd for Big {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn compare(a: &[u32], b: &[u32]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.iter().rev().cmp(b.iter().rev()))
}

fn add(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut out = Vec::new();
    let mut carry = 0u64;
    for i in 0..a.len().max(b.len()) {
        carry += u64::from(a.get(i).copied().unwrap_or(0)) + u64::from(b.get(i).copied().unwrap_or(0));
        out.push(carry as u32);
        carry >>= 32;
    }
    out.push(carry as u32);
    trimmed(out)
}

/// `a − b` for `a ≥ b`.
fn subtract(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut out = Vec::new();
    let mut borrow = 0i64;
    for (i, digit) in a.iter().enumerate() {
        let difference = i64::from(*digit) - i64::from(b.get(i).copied().unwrap_or(0)) - borrow;
        borrow = i64::from(difference < 0);
        out.push(difference as u32);
    }
    trimmed(out)
}

fn trimmed(mut digits: Vec<u32>) -> Vec<u32> {
    while digits.last() == Some(&0) {
        digits.pop();
    }
    digits
}

impl Big {
    fn new(negative: bool, digits: Vec<u32>) -> Big {
        let digits = trimmed(digits);
        Big { negative: negative && !digits.is_empty(), digits }
    }
    /// `10^n`.
    pub fn ten_to(n: u32) -> Big {
        (0..n).fold(Big::from(1i64), |power, _| power.times(&Big::from(10i64)))
    }
    /// Whether it is 0.
    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }
    /// Whether it is below 0.
    pub fn is_negative(&self) -> bool {
        self.negative
    }
    /// `−self`.
    pub fn negated(&self) -> Big {
        Big::new(!self.negative, self.digits.clone())
    }
    /// `|self|`.
    pub fn size(&self) -> Big {
        Big::new(false, self.digits.clone())
    }
    /// `self + other`.
    pub fn plus(&self, other: &Big) -> Big {
        if self.negative == other.negative {
            return Big::new(self.negative, add(&self.digits, &other.digits));
        }
        match compare(&self.digits, &other.digits) {
            Ordering::Less => Big::new(other.negative, subtract(&other.digits, &self.digits)),
            _ => Big::new(self.negative, subtract(&self.digits, &other.digits)),
        }
    }
    /// `self − other`.
    pub fn minus(&self, other: &Big) -> Big {
        self.plus(&other.negated())
    }
    /// `self × other`.
    pub fn times(&self, other: &Big) -> Big {
        let mut out: Vec<u32> = Vec::new();
        for (i, a) in self.digits.iter().enumerate() {
            let mut row = vec![0; i];
            let mut carry = 0u64;
            for b in &other.digits {
                carry += u64::from(*a) * u64::from(*b);
                row.push(carry as u32);
                carry >>= 32;
            }
            row.push(carry as u32);
            out = add(&out, &row);
        }
        Big::new(self.negative != other.negative, out)
    }
    /// `self × 2^n`.
    pub fn shifted(&self, n: u32) -> Big {
        let mut digits = vec![0u32; (n / 32) as usize];
        let mut carry = 0u64;
        for digit in &self.digits {
            carry |= u64::from(*digit) << (n % 32);
            digits.push(carry as u32);
            carry >>= 32;
        }
        digits.push(carry as u32);
        Big::new(self.negative, digits)
    }
    /// `|self|` without its `n` lowest bits.
    fn without_low(&self, n: i64) -> Big {
        let low = self.digits.iter().skip((n / 32) as usize);
        let next = self.digits.iter().skip((n / 32) as usize + 1).chain([&0]);
        let word = |(low, next): (&u32, &u32)| ((u64::from(*next) << 32 | u64::from(*low)) >> (n % 32)) as u32;
        Big::new(false, low.zip(next).map(word).collect())
    }
    /// Binary digits of `|self|`.
    pub fn bits(&self) -> i64 {
        self.digits.last().map_or(0, |top| 32 * self.digits.len() as i64 - i64::from(top.leading_zeros()))
    }
    fn bit(&self, n: i64) -> bool {
        self.digits.get((n / 32) as usize).is_some_and(|digit| digit >> (n % 32) & 1 == 1)
    }

    /// Quotient toward zero and rest with the sign of `self`, bit by bit; `None` for a division by zero.
    pub fn divided(&self, divisor: &Big) -> Option<(Big, Big)> {
        if divisor.is_zero() {
            return None;
        }
        let divisor_size = divisor.size();
        // The leading bits, fewer than the divisor has, give nothing.
        let steps = (self.bits() - divisor.bits() + 1).max(0);
        let (mut quotient, mut rest) = (Big::default(), self.size().without_low(steps));
        for n in (0..steps).rev() {
            rest = rest.shifted(1).plus(&Big::from(i64::from(self.bit(n))));
            quotient = quotient.shifted(1);
            if rest >= divisor_size {
                rest = rest.minus(&divisor_size);
                quotient = quotient.plus(&Big::from(1i64));
            }
        }
        Some((Big::new(self.negative != divisor.negative, quotient.digits), Big::new(self.negative, rest.digits)))
    }

    /// The quotient as a whole number; `None` for a division by zero.
    pub fn divided_rounding(&self, divisor: &Big, rounding: Rounding) -> Option<Big> {
        let (quotient, rest) = self.divided(divisor)?;
        let negative = self.negative != divisor.negative;
        let twice = rest.size().shifted(1).cmp(&divisor.size());
        let away = !rest.is_zero()
            && match rounding {
                Rounding::Zero => false,
                Rounding::Floor => negative,
                Rounding::Ceil => !negative,
                Rounding::HalfAway => twice != Ordering::Less,
                Rounding::HalfEven => twice == Ordering::Greater || (twice == Ordering::Equal && quotient.bit(0)),
            };
        let step = Big::from(i64::from(away) * if negative { -1 } else { 1 });
        Some(quotient.plus(&step))
    }

    /// As 128 bits, if it fits.
    pub fn to_i128(&self) -> Option<i128> {
        let mut out = 0i128;
        for digit in self.digits.iter().rev() {
            out = out.checked_mul(1 << 32)?;
            out =
                if self.negative { out.checked_sub(i128::from(*digit))? } else { out.checked_add(i128::from(*digit))? };
        }
        Some(out)
    }

    /// The double nearest to `self / divisor`, ties to even; ±∞ beyond the largest, NaN for a division by zero.
    pub fn ratio(&self, divisor: &Big) -> f64 {
        if divisor.is_zero() {
            return f64::NAN;
        }
        if self.is_zero() {
            return 0.0;
        }
        // The exponent of the last bit that the double can hold: 53 bits from the top one, but not below 2^-1074.
        let (n, d) = (self.size(), divisor.size());
        let mut top = n.bits() - d.bits();
        if less_than_power(&n, &d, top) {
            top -= 1;
        }
        let last = (top - 52).max(-1074);
        let (n, d) = (scaled(&n, -last), scaled(&d, last));
        let whole = n.divided_rounding(&d, Rounding::HalfEven).and_then(|q| q.to_i128()).unwrap_or(0);
        let size = if last > 971 { f64::INFINITY } else { whole as f64 * power_of_two(last) };
        if self.negative != divisor.negative { -size } else { size }
    }
}

/// `n × 2^by` for positive `by`, else `n` itself.
fn scaled(n: &Big, by: i64) -> Big {
    n.shifted(u32::try_from(by.max(0)).unwrap_or(u32::MAX))
}

/// Whether `n / d < 2^power`.
fn less_than_power(n: &Big, d: &Big, power: i64) -> bool {
    scaled(n, -power) < scaled(d, power)
}

/// `2^n` for `−1074 ≤ n ≤ 1023`.
fn power_of_two(n: i64) -> f64 {
    if n >= -1022 { f64::from_bits(((n + 1023) as u64) << 52) } else { f64::from_bits(1 << (n + 1074)) }
}

/// A finite double as a whole number of 2^-1074.
pub fn double_units(x: f64) -> Big {
    let bits = x.to_bits();
    let (field, fraction) = ((bits >> 52 & 0x7ff) as u32, (bits & ((1 << 52) - 1)) as i64);
    let size = match field {
        0 => Big::from(fraction),
        _ => Big::from(fraction | 1 << 52).shifted(field - 1),
    };
    if x.is_sign_negative() { size.negated() } else { size }
}

/// How many units of [`double_units`] make 1.
pub fn units_per_one() -> Big {
    Big::from(1i64).shifted(1074)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn half() -> impl Strategy<Value = i128> {
        any::<i128>().prop_map(|x| x >> 66)
    }

    proptest! {
        #[test]
        fn agrees_with_128_bits(a in half(), b in half(), c in any::<i128>()) {
            let (x, y) = (Big::from(a), Big::from(b));
            prop_assert_eq!(x.plus(&y).to_i128(), Some(a + b));
            prop_assert_eq!(x.minus(&y).to_i128(), Some(a - b));
            prop_assert_eq!(x.times(&y).to_i128(), Some(a * b));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(Big::from(c).to_i128(), Some(c));
            if b != 0 {
                let (q, r) = Big::from(c).divided(&y).unwrap();
                prop_assert_eq!((q.to_i128(), r.to_i128()), (Some(c / b), Some(c % b)));
                let floor = a / b - i128::from(a % b != 0 && (a < 0) != (b < 0));
                prop_assert_eq!(x.divided_rounding(&y, Rounding::Floor).unwrap().to_i128(), Some(floor));
            }
        }

        #[test]
        fn doubles_come_back(bits in any::<u64>()) {
            let x = f64::from_bits(bits);
            prop_assume!(x.is_finite());
            let back = double_units(x).ratio(&units_per_one());
            prop_assert_eq!(back, x);
        }

        #[test]
        fn quotients_of_integers_are_rounded_once(a in -(1i64 << 53)..1 << 53, b in 1i64..1 << 53) {
            prop_assert_eq!(Big::from(a).ratio(&Big::from(b)), a as f64 / b as f64);
            prop_assert_eq!(Big::from(a).ratio(&Big::from(-b)), a as f64 / -b as f64);
        }
    }

    #[test]
    fn rounding_at_the_edges() {
        let units = units_per_one();
        let max = double_units(f64::MAX);
        assert_eq!(max.plus(&max).ratio(&units), f64::INFINITY);
        assert_eq!(Big::from(1i64).ratio(&units.shifted(1)), 0.0, "half of the least double ties to even");
        assert_eq!(Big::from(3i64).ratio(&units.shifted(1)), f64::from_bits(2), "one and a half, to even");
        assert_eq!(Big::from((1i64 << 53) + 1).ratio(&Big::from(1i64)), (1i64 << 53) as f64);
        assert_eq!(Big::ten_to(400).ratio(&Big::ten_to(399)), 10.0);
        let quotient = |a: i64, b: i64, r| Big::from(a).divided_rounding(&Big::from(b), r).and_then(|q| q.to_i128());
        assert_eq!([5, -5, 7, -7].map(|a| quotient(a, 2, Rounding::HalfEven)), [Some(2), Some(-2), Some(4), Some(-4)]);
        assert_eq!([5, -5, 3].map(|a| quotient(a, 2, Rounding::HalfAway)), [Some(3), Some(-3), Some(2)]);
        assert_eq!([5, -5].map(|a| quotient(a, 2, Rounding::Zero)), [Some(2), Some(-2)]);
        assert_eq!([5, -5].map(|a| quotient(a, 2, Rounding::Ceil)), [Some(3), Some(-2)]);
        assert_eq!(quotient(1, 0, Rounding::Zero), None);
    }
}
