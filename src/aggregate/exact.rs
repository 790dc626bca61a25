//! Exact sums: nothing is rounded until a result is published, and then once.
//!
//! A double is an integer times a power of two, and so is every sum of doubles and every sum of their products. [`ExactSum`] holds
//! `small · 2^exponent` in 128 bits, which takes sums of numbers of like size without touching the heap; what does
//! not fit there goes to a `Dyadic`, an integer of any length times a power of 2^64 (for sums of doubles at most 35
//! words). Addition of integers is associative and commutative, so the *value* never depends on order; its split
//! between the two parts may, and nothing published looks at the split.
//!
//! Source: the idea of a long accumulator, Kulisch, "Computer Arithmetic and Validity", 2008, ch. 8; Neal, "Fast exact summation
//! using small and large superaccumulators", 2015. The window of 128 bits in place of a float expansion is our own
//! choice: one shift and one checked addition per value.

use crate::wire::{Reader, Wire, WireError, Writer};
use serde::{Deserialize, Serialize};

/// An integer of any length times 2^(64·`base`): two's complement, least word first; empty is 0.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Dyadic {
    base: i32,
    words: Vec<u64>,
}

impl Dyadic {
    fn end(&self) -> i32 {
        self.base + self.words.len() as i32
    }

    fn is_negative(&self) -> bool {
        self.words.last().is_some_and(|w| (*w as i64) < 0)
    }

    /// Extends both ends so that words `from..to` are held.
    fn cover(&mut self, from: i32, to: i32) {
        if self.words.is_empty() {
            self.base = from;
        }
        if from < self.base {
            let zeros = (self.base - from) as usize;
            self.words.splice(0..0, std::iter::repeat_n(0, zeros));
            self.base = from;
        }
        if to > self.end() {
            let sign = if self.is_negative() { u64::MAX } else { 0 };
            self.words.resize((to - self.base) as usize, sign);
        }
    }

    /// Adds words in two's complement, of which the first weighs 2^(64·`base`).
    fn add_words(&mut self, base: i32, words: &[u64]) {
        let Some(top) = words.last() else { return };
        let other_negative = (*top as i64) < 0;
        self.cover(base, base + words.len() as i32);
        let self_negative = self.is_negative();
        let fill = if other_negative { u64::MAX } else { 0 };
        let mut carry = false;
        let skip = (base - self.base) as usize;
        for (i, word) in self.words.iter_mut().skip(skip).enumerate() {
            let other = words.get(i).copied().unwrap_or(fill);
            let (sum, c1) = word.overflowing_add(other);
            let (sum, c2) = sum.overflowing_add(u64::from(carry));
            *word = sum;
            carry = c1 | c2;
            if i + 1 >= words.len() && carry == other_negative {
                // What is left would add the sign's fill and the carry, which cancel out.
                break;
            }
        }
        if self_negative == other_negative && self.is_negative() != self_negative {
            self.words.push(if self_negative { u64::MAX } else { 0 });
        }
    }

    /// Adds `value · 2^exponent`.
    pub(super) fn add_scaled(&mut self, value: i128, exponent: i32) {
        if value == 0 {
            return;
        }
        let shift = exponent.rem_euclid(64);
        let low = (value as u128) << shift;
        // The bits that the shift pushed out, with the sign.
        let high = if shift == 0 { value >> 127 } else { value >> (128 - shift) };
        self.add_words(exponent.div_euclid(64), &[low as u64, (low >> 64) as u64, high as u64]);
    }

    pub(super) fn add(&mut self, other: &Dyadic) {
        self.add_words(other.base, &other.words);
    }

    /// The sign and the size: least word first, no zero on top; times 2^(64·base).
    pub(super) fn magnitude(&self) -> Magnitude {
        let negative = self.is_negative();
        let mut words = self.words.clone();
        if negative {
            negate(&mut words);
        }
        Magnitude { negative, words, exponent: i64::from(self.base) * 64 }.trimmed()
    }

    pub(super) fn heap(&self) -> usize {
        self.words.capacity() * 8
    }
}

fn negate(words: &mut [u64]) {
    let mut carry = true;
    for word in words {
        let (sum, c) = (!*word).overflowing_add(u64::from(carry));
        *word = sum;
        carry = c;
    }
}

/// `± words · 2^exponent`, least word first, the top word not zero.
#[derive(Clone, Debug)]
pub(super) struct Magnitude {
    pub negative: bool,
    pub words: Vec<u64>,
    pub exponent: i64,
}

impl Magnitude {
    pub(super) fn of(value: i128, exponent: i64) -> Self {
        let size = value.unsigned_abs();
        Magnitude { negative: value < 0, words: vec![size as u64, (size >> 64) as u64], exponent }.trimmed()
    }

    fn trimmed(mut self) -> Self {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
        self
    }

    pub(super) fn is_zero(&self) -> bool {
        self.words.is_empty()
    }

    fn bits(&self) -> i64 {
        self.words.last().map_or(0, |w| self.words.len() as i64 * 64 - i64::from(w.leading_zeros()))
    }

    fn bit(&self, i: i64) -> bool {
        i >= 0 && self.words.get((i / 64) as usize).is_some_and(|w| w >> (i % 64) & 1 == 1)
    }

    /// Whether a bit below `end` is set.
    fn any_below(&self, end: i64) -> bool {
        if end <= 0 {
            return false;
        }
        let whole = (end / 64) as usize;
        self.words.iter().take(whole).any(|w| *w != 0)
            || self.words.get(whole).is_some_and(|w| w & ((1u64 << (end % 64)) - 1) != 0)
    }

    /// The product.
    pub(super) fn times(&self, other: &Magnitude) -> Magnitude {
        let mut words = vec![0u64; self.words.len() + other.words.len()];
        for (i, a) in self.words.iter().enumerate() {
            let mut carry = 0u128;
            for (to, b) in words.iter_mut().skip(i).zip(other.words.iter().chain(std::iter::once(&0))) {
                carry += u128::from(*a) * u128::from(*b) + u128::from(*to);
                *to = carry as u64;
                carry >>= 64;
            }
        }
        Magnitude {
            negative: self.negative != other.negative,
            words,
            exponent: self.exponent.saturating_add(other.exponent),
        }
        .trimmed()
    }

    /// As a number to which others can be added; the exponent must be a multiple of 64.
    pub(super) fn to_dyadic(&self) -> Dyadic {
        debug_assert!(self.exponent % 64 == 0, "exponents of dyadic numbers are multiples of 64");
        let mut words = self.words.clone();
        words.push(0);
        if self.negative {
            negate(&mut words);
        }
        Dyadic { base: (self.exponent / 64) as i32, words }
    }

    /// The nearest double, ties to even; ±∞ beyond the largest. `sticky`: the true value is a little larger in size (then there
    /// must be at least 55 bits).
    fn round(&self, sticky: bool) -> f64 {
        let bits = self.bits();
        if bits == 0 {
            return 0.0;
        }
        let sign = u64::from(self.negative) << 63;
        // Its leading bit weighs 2^top.
        let top = self.exponent + bits - 1;
        if top > 1023 {
            return f64::from_bits(sign | f64::INFINITY.to_bits());
        }
        // The last bit of the result weighs 2^last.
        let last = (top - 52).max(-1074);
        let drop = last - self.exponent;
        // Bits drop.. of the size, at most 53 of them.
        let mut quotient = 0u64;
        for i in (drop..bits.max(drop)).rev() {
            quotient = quotient << 1 | u64::from(self.bit(i));
        }
        if self.bit(drop - 1) && (sticky || quotient & 1 == 1 || self.any_below(drop - 1)) {
            quotient += 1;
        }
        if quotient == 0 {
            return 0.0;
        }
        // The quotient's bit 52 adds one to the exponent's field; so does a carry out of it.
        f64::from_bits(sign | ((((last + 1074) as u64) << 52) + quotient))
    }

    /// The nearest double, ties to even; ±∞ beyond the largest.
    pub(super) fn to_f64(&self) -> f64 {
        self.round(false)
    }

    /// The double nearest to the exact quotient.
    pub(super) fn div_u64(&self, divisor: u64) -> f64 {
        let mut remainder = 0u128;
        let mut words = vec![0u64; self.words.len() + 3];
        // Three more words below, so that the quotient has enough bits whatever the divisor.
        let dividend = self.words.iter().rev().copied().chain([0; 3]);
        for (to, word) in words.iter_mut().rev().zip(dividend) {
            let part = remainder << 64 | u128::from(word);
            *to = (part / u128::from(divisor.max(1))) as u64;
            remainder = part % u128::from(divisor.max(1));
        }
        Magnitude { negative: self.negative, words, exponent: self.exponent - 192 }.trimmed().round(remainder != 0)
    }

    /// The double nearest to the exact quotient, for a divisor of any length (bit by bit; for results, not for records).
    pub(super) fn div(&self, divisor: &Magnitude) -> f64 {
        if let ([divisor], 0) = (&divisor.words[..], divisor.exponent) {
            return self.div_u64(*divisor);
        }
        if self.is_zero() || divisor.is_zero() {
            return 0.0;
        }
        let mut remainder = vec![0u64; divisor.words.len() + 1];
        let mut quotient = 0u128;
        let mut i = self.bits();
        while quotient >> 66 == 0 {
            i -= 1;
            double(&mut remainder, self.bit(i));
            quotient <<= 1;
            if subtract_if_not_less(&mut remainder, &divisor.words) {
                quotient |= 1;
            }
        }
        let sticky = remainder.iter().any(|w| *w != 0) || self.any_below(i);
        let words = vec![quotient as u64, (quotient >> 64) as u64];
        let exponent = self.exponent - divisor.exponent + i;
        Magnitude { negative: self.negative != divisor.negative, words, exponent }.trimmed().round(sticky)
    }
}

fn double(words: &mut [u64], low: bool) {
    let mut carry = u64::from(low);
    for word in words {
        let out = *word >> 63;
        *word = *word << 1 | carry;
        carry = out;
    }
}

fn subtract_if_not_less(from: &mut [u64], what: &[u64]) -> bool {
    let with_zero = || what.iter().copied().chain(std::iter::repeat(0));
    let less = from.iter().zip(with_zero()).fold(false, |less, (a, b)| *a < b || (*a == b && less));
    if less {
        return false;
    }
    let mut borrow = false;
    for (a, b) in from.iter_mut().zip(with_zero()) {
        let (x, b1) = a.overflowing_sub(b);
        let (x, b2) = x.overflowing_sub(u64::from(borrow));
        *a = x;
        borrow = b1 | b2;
    }
    true
}

const NAN: u32 = 1;
const POSITIVE_INFINITY: u32 = 2;
const NEGATIVE_INFINITY: u32 = 4;

/// The exact sum of doubles, and of anything that is an integer times a power of two.
///
/// A NaN makes the sum NaN, and so do +∞ and −∞ together; one of them alone gives itself. An empty sum, and a sum of
/// negative zeros, is 0.0. A sum beyond the largest double is published as ±∞, but keeps its value: adding
/// `-f64::MAX` to `f64::MAX + f64::MAX` gives `f64::MAX`. Holds 32 bytes, and more on the heap when the numbers spread
/// over more than about 70 binary orders of magnitude.
///
/// ```
/// use slackwater::aggregate::exact::ExactSum;
/// let mut sum = ExactSum::default();
/// for x in [1e100, 1.0, -1e100] {
///     sum.add(x);
/// }
/// assert_eq!(sum.to_f64(), 1.0);
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "RawSum")]
pub struct ExactSum {
    low: u64,
    high: i64,
    exponent: i32,
    special: u32,
    wide: Option<Box<Dyadic>>,
}

/// A sum as it was read, before it is checked.
#[derive(Deserialize)]
struct RawSum {
    low: u64,
    high: i64,
    exponent: i32,
    special: u32,
    wide: Option<Box<Dyadic>>,
}

impl TryFrom<RawSum> for ExactSum {
    type Error = &'static str;
    fn try_from(raw: RawSum) -> Result<Self, &'static str> {
        let RawSum { low, high, exponent, special, wide } = raw;
        ExactSum { low, high, exponent, special, wide }.checked()
    }
}

impl ExactSum {
    /// A sum as it was read.
    fn checked(self) -> Result<Self, &'static str> {
        // Squares of doubles span 2^-2148 to 2^2048, and counts of them 64 bits more.
        const BITS_MAX: i32 = 1 << 13;
        let wide_fits = self.wide.as_ref().is_none_or(|w| {
            w.base.unsigned_abs() <= BITS_MAX.unsigned_abs() / 64 && w.words.len() <= BITS_MAX as usize / 64
        });
        if self.exponent.unsigned_abs() > BITS_MAX.unsigned_abs() || !wide_fits {
            return Err("the exponent of an exact sum is out of range");
        }
        if self.special & !(NAN | POSITIVE_INFINITY | NEGATIVE_INFINITY) != 0 {
            return Err("the flags of an exact sum are unknown");
        }
        Ok(self)
    }
}

/// The small part, one word for exponent and flags, and the wide part.
impl Wire for ExactSum {
    const LEAST: usize = 24;
    fn size(&self) -> usize {
        24 + self.wide.as_ref().map_or(0, |w| 8 + w.words.size())
    }
    fn put(&self, out: &mut Writer) {
        let wide = u64::from(self.wide.is_some());
        out.word(self.low);
        self.high.put(out);
        out.word(u64::from(self.exponent as u32) | u64::from(self.special) << 32 | wide << 63);
        if let Some(wide) = &self.wide {
            i64::from(wide.base).put(out);
            wide.words.put(out);
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let at = from.at();
        let (low, high, flags) = (from.word()?, i64::get(from)?, from.word()?);
        let (exponent, special) = (flags as u32 as i32, (flags >> 32) as u32 & (u32::MAX >> 1));
        let wide = if flags >> 63 == 1 {
            let base = i64::get(from)?;
            let base = i32::try_from(base).map_err(|_| from.error("the exponent of an exact sum is out of range"))?;
            Some(Box::new(Dyadic { base, words: Wire::get(from)? }))
        } else {
            None
        };
        ExactSum { low, high, exponent, special, wide }.checked().map_err(|what| WireError { at, what })
    }
}

impl ExactSum {
    /// Adds a double.
    #[inline]
    pub fn add(&mut self, x: f64) {
        match parts(x) {
            Ok((value, exponent)) => self.add_scaled(i128::from(value), exponent),
            Err(special) => self.special |= special,
        }
    }

    /// Adds the square of a double; no overflow, no underflow. ±∞ counts as +∞.
    pub(super) fn add_square(&mut self, x: f64) {
        match parts(x) {
            Ok((value, exponent)) => self.add_scaled(i128::from(value) * i128::from(value), exponent * 2),
            Err(NAN) => self.special |= NAN,
            Err(_) => self.special |= POSITIVE_INFINITY,
        }
    }

    /// Adds `value · 2^exponent`.
    #[inline]
    pub(super) fn add_scaled(&mut self, value: i128, exponent: i32) {
        if value == 0 {
            return;
        }
        let small = self.small();
        if small == 0 {
            return self.set_small(value, exponent);
        }
        let (sum, exponent_of_sum) = if exponent >= self.exponent {
            let shifted = shift(value, exponent - self.exponent);
            (shifted.and_then(|v| v.checked_add(small)), self.exponent)
        } else {
            let shifted = shift(small, self.exponent - exponent);
            (shifted.and_then(|s| s.checked_add(value)), exponent)
        };
        match sum {
            Some(sum) => self.set_small(sum, exponent_of_sum),
            None => self.spill(value, exponent),
        }
    }

    #[cold]
    fn spill(&mut self, value: i128, exponent: i32) {
        let (small, at) = (self.small(), self.exponent);
        self.wide.get_or_insert_default().add_scaled(small, at);
        self.set_small(value, exponent);
    }

    /// Adds `value · 2^exponent`, for any value of 128 bits without a sign.
    pub(super) fn add_unsigned(&mut self, value: u128, exponent: i32) {
        self.add_scaled((value & u128::from(u64::MAX)) as i128, exponent);
        self.add_scaled((value >> 64) as i128, exponent.saturating_add(64));
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &ExactSum) {
        self.special |= other.special;
        self.add_scaled(other.small(), other.exponent);
        if let Some(wide) = &other.wide {
            self.wide.get_or_insert_default().add(wide);
        }
    }

    /// Takes another sum off. What is not finite there stays so here.
    pub fn subtract(&mut self, other: &ExactSum) {
        self.special |= other.special;
        let magnitude = other.magnitude();
        for (word, at) in magnitude.words.iter().zip(0i64..) {
            let value = if magnitude.negative { i128::from(*word) } else { -i128::from(*word) };
            self.add_scaled(value, i32::try_from(magnitude.exponent + 64 * at).unwrap_or(0));
        }
    }

    #[inline(always)]
    fn small(&self) -> i128 {
        i128::from(self.high) << 64 | i128::from(self.low)
    }

    #[inline(always)]
    fn set_small(&mut self, value: i128, exponent: i32) {
        self.low = value as u64;
        self.high = (value >> 64) as i64;
        self.exponent = exponent;
    }

    /// The result if a NaN or an infinity was added.
    pub(super) fn special(&self) -> Option<f64> {
        match self.special {
            0 => None,
            POSITIVE_INFINITY => Some(f64::INFINITY),
            NEGATIVE_INFINITY => Some(f64::NEG_INFINITY),
            _ => Some(f64::NAN),
        }
    }

    /// The finite part, exactly.
    pub(super) fn magnitude(&self) -> Magnitude {
        match &self.wide {
            None => Magnitude::of(self.small(), i64::from(self.exponent)),
            Some(wide) => {
                let mut all = wide.clone();
                all.add_scaled(self.small(), self.exponent);
                all.magnitude()
            }
        }
    }

    /// As a number to calculate with (the finite part).
    pub(super) fn to_dyadic(&self) -> Dyadic {
        let mut all = self.wide.as_deref().cloned().unwrap_or_default();
        all.add_scaled(self.small(), self.exponent);
        all
    }

    /// The sum, rounded once (to nearest, ties to even).
    pub fn to_f64(&self) -> f64 {
        if let Some(special) = self.special() {
            return special;
        }
        let small = self.small();
        if self.wide.is_none() && (-1022..=900).contains(&self.exponent) && small.unsigned_abs() < 1 << 53 {
            // Exact: an integer of 53 bits, times a power of two that keeps it a normal number.
            return small as f64 * f64::from_bits(((self.exponent + 1023) as u64) << 52);
        }
        self.magnitude().to_f64()
    }

    /// The exact mean of `n` numbers, rounded once.
    pub fn mean(&self, n: u64) -> f64 {
        self.special().unwrap_or_else(|| self.magnitude().div_u64(n))
    }

    pub(super) fn heap(&self) -> usize {
        self.wide.as_ref().map_or(0, |w| size_of::<Dyadic>() + w.heap())
    }
}

/// A shift that loses nothing.
#[inline(always)]
fn shift(value: i128, by: i32) -> Option<i128> {
    // One more than the bits of the size must stay free for the sign.
    let free = value.unsigned_abs().leading_zeros() as i32 - 1;
    (by <= free).then(|| value << by)
}

/// A finite double as an integer times a power of two; else its flag.
#[inline(always)]
fn parts(x: f64) -> Result<(i64, i32), u32> {
    let bits = x.to_bits();
    let field = (bits >> 52 & 0x7ff) as i32;
    let fraction = (bits & ((1 << 52) - 1)) as i64;
    if field == 0x7ff {
        return Err(if fraction != 0 {
            NAN
        } else if x > 0.0 {
            POSITIVE_INFINITY
        } else {
            NEGATIVE_INFINITY
        });
    }
    let size = if field == 0 { fraction } else { fraction | 1 << 52 };
    Ok((if x.is_sign_negative() { -size } else { size }, field.max(1) - 1075))
}

/// The double nearest to `value / 10^scale`.
pub(crate) fn decimal_to_f64(value: i128, scale: u8) -> f64 {
    if scale <= 22 && value.unsigned_abs() <= 1 << 53 {
        // Both are doubles exactly, so that the division rounds once.
        return value as f64 / pow10_f64(scale);
    }
    let power = 10i128.checked_pow(u32::from(scale)).unwrap_or(1);
    Magnitude::of(value, 0).div(&Magnitude::of(power, 0))
}

/// 10^`n` for `n` up to 22, exactly.
fn pow10_f64(n: u8) -> f64 {
    (0..n.min(22)).fold(1.0, |p, _| p * 10.0)
}

/// The double nearest to the exact quotient of integers.
pub(super) fn ratio(value: i128, divisor: u64) -> f64 {
    if value.unsigned_abs() <= 1 << 53 && divisor <= 1 << 53 {
        return value as f64 / divisor.max(1) as f64;
    }
    Magnitude::of(value, 0).div_u64(divisor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_quotient_just_past_the_middle_rounds_up() {
        let middle = (1i128 << 53) + 1;
        let divisor = (1i128 << 64) + 1;
        let div = |x: i128| Magnitude::of(x, 0).div(&Magnitude::of(divisor, 0));
        assert_eq!(div(middle * divisor), 2f64.powi(53), "a tie goes to even");
        assert_eq!(div((middle + 2) * divisor), 2f64.powi(53) + 4.0, "a tie goes to even");
        // What is left over is seen nowhere but in the remainder.
        assert_eq!(div(middle * divisor + 1), 2f64.powi(53) + 2.0);
        assert_eq!(div(middle * divisor - 1), 2f64.powi(53));
        assert_eq!(div(-middle * divisor - 1), -2f64.powi(53) - 2.0);
    }

    #[test]
    fn a_sum_of_unlike_sizes_returns_to_zero() {
        let xs: Vec<f64> = (-1074..1024).step_by(31).map(|e| 2f64.powi(e / 2) * 2f64.powi(e - e / 2)).collect();
        let mut sum = ExactSum::default();
        xs.iter().for_each(|x| sum.add(*x));
        assert!(sum.heap() > 0 && sum.heap() < 800, "{} bytes", sum.heap());
        xs.iter().rev().for_each(|x| sum.add(-x));
        assert_eq!(sum.to_f64(), 0.0);
        sum.add(5e-324);
        assert_eq!(sum.to_f64(), 5e-324);
        let mut all = ExactSum::default();
        xs.iter().for_each(|x| all.add(*x));
        sum.subtract(&all);
        sum.merge(&all);
        assert_eq!(sum.to_f64(), 5e-324, "what is taken off and given back");
    }

    proptest! {
        #[test]
        fn integers_round_as_the_language_rounds(x: i128, by in 0u32..128, n in 1u64..1 << 62) {
            let x = x >> by;
            prop_assert_eq!(Magnitude::of(x, 0).to_f64(), x as f64);
            prop_assert_eq!(ratio(x, 1), x as f64);
            let (a, b) = (Magnitude::of(x, 0).div_u64(n), Magnitude::of(x, 0).div(&Magnitude::of(i128::from(n) << 64, -64)));
            prop_assert_eq!(a, b);
            prop_assert_eq!(ratio(x, n), a);
        }

        #[test]
        fn decimals_round_as_the_language_rounds(x: i128, by in 0u32..128, scale in 0u8..=38) {
            let x = x >> by;
            let parsed: f64 = format!("{x}e-{scale}").parse().unwrap();
            prop_assert_eq!(decimal_to_f64(x, scale), parsed);
        }
    }
}
