//! Sums of integers and decimals, wide enough that no number of records can overflow them.

use super::exact::ratio;
use crate::wire::{Reader, Wire, WireError, Writer};
use serde::{Deserialize, Serialize};

/// The sum and number of BIGINT values (also of microseconds): 128 bits, two's complement. 2^63 records fit.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct IntSum {
    low: u64,
    high: i64,
    /// How many values were added.
    pub n: u64,
}

impl IntSum {
    /// Adds a value.
    #[inline(always)]
    pub fn add(&mut self, x: i64) {
        self.set(self.total().wrapping_add(i128::from(x)));
        self.n += 1;
    }
    /// Adds another sum.
    #[inline]
    pub fn merge(&mut self, other: &IntSum) {
        self.set(self.total().wrapping_add(other.total()));
        self.n = self.n.saturating_add(other.n);
    }
    /// The sum.
    #[inline(always)]
    pub fn total(&self) -> i128 {
        i128::from(self.high) << 64 | i128::from(self.low)
    }
    #[inline(always)]
    fn set(&mut self, total: i128) {
        self.low = total as u64;
        self.high = (total >> 64) as i64;
    }
    /// The double nearest to the exact mean; `None` if nothing was added.
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| ratio(self.total(), self.n))
    }
    /// The mean as an integer, half to even; `None` if nothing was added.
    pub fn mean_integer(&self) -> Option<i64> {
        let n = i128::from(self.n);
        if n == 0 {
            return None;
        }
        let (floor, rest) = (self.total().div_euclid(n), self.total().rem_euclid(n));
        let up = rest * 2 > n || (rest * 2 == n && floor & 1 == 1);
        i64::try_from(floor + i128::from(up)).ok()
    }
}

/// Bytes of `N` words.
fn bytes<const N: usize>(words: &[[u8; 8]]) -> [u8; N] {
    let mut out = [0; N];
    out.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(to, word)| *to = *word);
    out
}

/// A number of values, as it was read: more than 2^63 cannot be.
pub(super) fn checked_count(n: u64, at: usize) -> Result<u64, WireError> {
    if n >> 63 == 0 { Ok(n) } else { Err(WireError { at, what: "expected a number of values below 2^63" }) }
}

/// Three words: the sum, the number.
impl Wire for IntSum {
    const LEAST: usize = 24;
    fn size(&self) -> usize {
        24
    }
    fn put(&self, out: &mut Writer) {
        Self::put_all(std::slice::from_ref(self), out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let at = from.at();
        Ok(IntSum { low: from.word()?, high: i64::get(from)?, n: checked_count(from.word()?, at)? })
    }
    fn size_all(items: &[Self]) -> usize {
        items.len() * 24
    }
    fn put_all(items: &[Self], out: &mut Writer) {
        out.chunks(items, |s| bytes::<24>(&[s.low.to_le_bytes(), s.high.to_le_bytes(), s.n.to_le_bytes()]));
    }
}

/// Four words: the sum, the number.
impl Wire for DecimalSum {
    const LEAST: usize = 32;
    fn size(&self) -> usize {
        32
    }
    fn put(&self, out: &mut Writer) {
        Self::put_all(std::slice::from_ref(self), out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let at = from.at();
        let (low, middle, high) = (from.word()?, from.word()?, i64::get(from)?);
        Ok(DecimalSum { low, middle, high, n: checked_count(from.word()?, at)? })
    }
    fn size_all(items: &[Self]) -> usize {
        items.len() * 32
    }
    fn put_all(items: &[Self], out: &mut Writer) {
        out.chunks(items, |s| {
            bytes::<32>(&[s.low.to_le_bytes(), s.middle.to_le_bytes(), s.high.to_le_bytes(), s.n.to_le_bytes()])
        });
    }
}

/// The sum and number of DECIMAL values, unscaled: 192 bits, two's complement. 2^63 records of 38 digits fit.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct DecimalSum {
    low: u64,
    middle: u64,
    high: i64,
    /// How many values were added.
    pub n: u64,
}

/// 10^38: the first number that needs 39 digits.
const DIGITS_38: u128 = 10u128.pow(38);

impl DecimalSum {
    /// Adds an unscaled value.
    #[inline(always)]
    pub fn add(&mut self, x: i128) {
        self.plus(x as u128, if x < 0 { -1 } else { 0 });
        self.n += 1;
    }
    #[inline(always)]
    fn plus(&mut self, low: u128, high: i64) {
        let (sum, carry) = self.low_part().overflowing_add(low);
        self.low = sum as u64;
        self.middle = (sum >> 64) as u64;
        self.high = self.high.wrapping_add(high).wrapping_add(i64::from(carry));
    }
    fn low_part(&self) -> u128 {
        u128::from(self.middle) << 64 | u128::from(self.low)
    }
    /// Adds another sum.
    #[inline]
    pub fn merge(&mut self, other: &DecimalSum) {
        self.plus(other.low_part(), other.high);
        self.n = self.n.saturating_add(other.n);
    }
    /// The sum if it has at most 38 digits.
    pub fn total(&self) -> Option<i128> {
        let (negative, [low, middle, high]) = self.size();
        let size = u128::from(middle) << 64 | u128::from(low);
        (high == 0 && size < DIGITS_38).then_some(if negative { -(size as i128) } else { size as i128 })
    }
    /// Sign and size, least word first.
    fn size(&self) -> (bool, [u64; 3]) {
        let negative = self.high < 0;
        let (low, carry) = if negative { (!self.low_part()).overflowing_add(1) } else { (self.low_part(), false) };
        let high = if negative { (!self.high).wrapping_add(i64::from(carry)) } else { self.high };
        (negative, [low as u64, (low >> 64) as u64, high as u64])
    }
    /// The mean times 10^`digits` (at most 19), half to even; `None` if that has more than 38 digits. There must be a value.
    pub fn mean(&self, digits: u32) -> Option<i128> {
        let (negative, size) = self.size();
        let factor = 10u64.checked_pow(digits)?;
        let mut words = [0u64; 4];
        let mut carry = 0u128;
        for (to, word) in words.iter_mut().zip(size.into_iter().chain([0])) {
            carry += u128::from(word) * u128::from(factor);
            *to = carry as u64;
            carry >>= 64;
        }
        let n = u128::from(self.n.max(1));
        let mut rest = 0u128;
        for word in words.iter_mut().rev() {
            let part = rest << 64 | u128::from(*word);
            *word = (part / n) as u64;
            rest = part % n;
        }
        let [low, middle, 0, 0] = words else { return None };
        let floor = u128::from(middle) << 64 | u128::from(low);
        let up = rest * 2 > n || (rest * 2 == n && floor & 1 == 1);
        let mean = floor.checked_add(u128::from(up)).filter(|m| *m < DIGITS_38)?;
        Some(if negative { -(mean as i128) } else { mean as i128 })
    }
}
