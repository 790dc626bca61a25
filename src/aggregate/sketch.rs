//! Approximate aggregates: HyperLogLog and DDSketch. Integer arithmetic and IEEE 754 basic operations only, and a fixed
//! hash, so that estimates are the same bytes on every platform.
//!
//! Sources: Flajolet, Fusy, Gandouet, Meunier, "HyperLogLog", 2007; Ertl, "New cardinality estimation algorithms for
//! HyperLogLog sketches", 2017 (the estimator, without empirical tables); Masson, Rim, Lee, "DDSketch", VLDB 2019 (the
//! linearly interpolated mapping: 64 buckets per power of two).

use super::codec::{Mixer, double_word, encode};
use super::exact::decimal_to_f64;
use super::fixed::checked_count;
use super::state::{Add, State};
use crate::types::{Column, ColumnData, compare_doubles};
use crate::wire::{Reader, Wire, WireError, Writer};
use serde::{Deserialize, Serialize};

/// Bits of the hash that choose a register.
const PRECISION: u32 = 12;
const REGISTERS: usize = 1 << PRECISION;
/// Up to this many distinct hashes are kept as they are, and then the count is exact (but for collisions of 64 bits).
const SPARSE_MAX: usize = 256;

/// The number of distinct values: exact up to 256, then within about 1.6 % (one standard error).
///
/// The state is a function of the set of values: sparse iff at most 256 distinct hashes were added.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Cardinality {
    /// Distinct hashes, ascending.
    Sparse(Vec<u64>),
    /// Per register the greatest rank seen (position of the first one bit after the register's number).
    Dense(Vec<u8>),
}

impl Default for Cardinality {
    fn default() -> Self {
        Cardinality::Sparse(Vec::new())
    }
}

impl Add<u64> for Cardinality {
    /// Adds a hash.
    fn add(&mut self, hash: u64) {
        match self {
            Cardinality::Sparse(hashes) => {
                if let Err(at) = hashes.binary_search(&hash) {
                    hashes.insert(at, hash);
                    if hashes.len() > SPARSE_MAX {
                        self.densify();
                    }
                }
            }
            Cardinality::Dense(registers) => note(registers, hash),
        }
    }
}

fn note(registers: &mut [u8], hash: u64) {
    let rank = ((hash << PRECISION).leading_zeros().min(64 - PRECISION) + 1) as u8;
    if let Some(register) = registers.get_mut((hash >> (64 - PRECISION)) as usize) {
        *register = rank.max(*register);
    }
}

impl State for Cardinality {
    const ON_HEAP: bool = true;
    fn merge(&mut self, other: &Self) {
        match other {
            Cardinality::Sparse(hashes) => hashes.iter().for_each(|h| self.add(*h)),
            Cardinality::Dense(theirs) => {
                self.densify();
                if let Cardinality::Dense(mine) = self {
                    mine.iter_mut().zip(theirs).for_each(|(a, b)| *a = (*b).max(*a));
                }
            }
        }
    }
    fn heap(&self) -> usize {
        match self {
            Cardinality::Sparse(hashes) => hashes.capacity() * 8,
            Cardinality::Dense(registers) => registers.capacity(),
        }
    }
}

impl Cardinality {
    fn densify(&mut self) {
        if let Cardinality::Sparse(hashes) = self {
            let mut registers = vec![0; REGISTERS];
            hashes.iter().for_each(|h| note(&mut registers, *h));
            *self = Cardinality::Dense(registers);
        }
    }

    /// The estimate.
    pub(super) fn lower(&self) -> i64 {
        match self {
            Cardinality::Sparse(hashes) => hashes.len() as i64,
            Cardinality::Dense(registers) => estimate(registers),
        }
    }
}

/// The word 0 and the registers, eight a word; or the word 1 + n and n hashes.
impl Wire for Cardinality {
    fn size(&self) -> usize {
        8 + match self {
            Cardinality::Sparse(hashes) => u64::size_all(hashes),
            Cardinality::Dense(registers) => u8::size_all(registers),
        }
    }
    fn put(&self, out: &mut Writer) {
        match self {
            Cardinality::Sparse(hashes) => {
                out.count(hashes.len() + 1);
                u64::put_all(hashes, out);
            }
            Cardinality::Dense(registers) => {
                out.count(0);
                out.padded(registers);
            }
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let at = from.at();
        let n = from.word_upto(SPARSE_MAX as u64 + 1, "expected at most 256 hashes")? as usize;
        if let Some(n) = n.checked_sub(1) {
            let hashes = u64::get_all(n, from)?;
            if hashes.is_sorted_by(|a, b| a < b) {
                return Ok(Cardinality::Sparse(hashes));
            }
            return Err(WireError { at, what: "expected hashes in ascending order" });
        }
        let registers = from.padded(REGISTERS)?;
        if registers.iter().any(|rank| u32::from(*rank) > 64 - PRECISION + 1) {
            return Err(WireError { at, what: "expected ranks of at most 53" });
        }
        Ok(Cardinality::Dense(registers.to_vec()))
    }
}

/// Ertl's improved raw estimator. Its numbers are sums of at most 53 products, far from overflow.
fn estimate(registers: &[u8]) -> i64 {
    const RANKS: usize = (64 - PRECISION) as usize;
    let mut counts = [0u32; RANKS + 2];
    for rank in registers {
        if let Some(count) = counts.get_mut(usize::from(*rank)) {
            *count += 1;
        }
    }
    let m = REGISTERS as f64;
    let [zero, middle @ .., full] = counts;
    let mut z = m * tau(1.0 - f64::from(full) / m);
    for count in middle.iter().rev() {
        z = 0.5 * (z + f64::from(*count));
    }
    z += m * sigma(f64::from(zero) / m);
    // 1 / (2 ln 2)
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    (ALPHA * m * m / z).round_ties_even() as i64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let old = z;
        z += x * y;
        y += y;
        if z == old {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let old = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == old {
            return z / 3.0;
        }
    }
}

/// The fixed hash of a value, for [`Cardinality`].
pub(super) fn value_hash(column: &Column, row: usize, buffer: &mut Vec<u8>) -> u64 {
    // A second constant, so that registers are not the workers that keys are routed to.
    let start = Mixer::START.word(0x5be0_cd19_137e_2179);
    let hash = match &column.data {
        ColumnData::I64(v) => v.get(row).map(|x| start.word(*x as u64)),
        ColumnData::F64(v) => v.get(row).map(|x| start.word(double_word(*x))),
        ColumnData::Boolean(v) => v.get(row).map(|x| start.word(u64::from(*x))),
        ColumnData::I128(v) => v.get(row).map(|x| start.wide(*x)),
        ColumnData::Text(v) => Some(start.bytes(v.bytes(row))),
        ColumnData::List(_) => {
            buffer.clear();
            encode(&column.value(row), buffer);
            Some(start.bytes(buffer))
        }
    };
    hash.unwrap_or(start).finish()
}

/// Mantissa bits that choose a bucket: 64 buckets per power of two. A bucket's bounds differ by at most 1/64, so that
/// its middle is within 0.8 % of all its numbers.
const BUCKET_BITS: u32 = 6;

/// Quantiles within a relative error of 1 %: how many numbers fell into each bucket.
///
/// A bucket is named by the sign, the exponent and the top six bits of the mantissa; buckets are never collapsed. Zero is
/// exact, −0.0 is 0.0, infinities have buckets of their own, NaN is the greatest. Subnormal numbers are
/// within 2^−1029 (there is no relative bound for those). Least and greatest are kept exactly and bound the answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Quantiles {
    n: u64,
    /// (bucket, count), ascending.
    buckets: Vec<(i32, u64)>,
    least: Option<u64>,
    greatest: Option<u64>,
}

/// The bucket of NaN; those of ±∞ are ±(0x7ff · 64 + 1).
const NAN_BUCKET: i32 = i32::MAX;

fn bucket(x: f64) -> i32 {
    if x.is_nan() {
        return NAN_BUCKET;
    }
    if x == 0.0 {
        return 0;
    }
    let size = (x.abs().to_bits() >> (52 - BUCKET_BITS)) as i32 + 1;
    if x < 0.0 { -size } else { size }
}

/// The middle of a bucket.
fn middle(bucket: i32) -> f64 {
    if bucket == NAN_BUCKET {
        return f64::NAN;
    }
    if bucket == 0 {
        return 0.0;
    }
    let top = u64::from(bucket.unsigned_abs() - 1) << (52 - BUCKET_BITS);
    let size = f64::from_bits(top);
    let size = if size.is_finite() { f64::from_bits(top | 1 << (51 - BUCKET_BITS)) } else { f64::INFINITY };
    if bucket < 0 { -size } else { size }
}

impl Quantiles {
    fn count(&mut self, bucket: i32, n: u64) {
        match self.buckets.binary_search_by_key(&bucket, |b| b.0) {
            Ok(at) => self.buckets.get_mut(at).into_iter().for_each(|b| b.1 = b.1.saturating_add(n)),
            Err(at) => self.buckets.insert(at, (bucket, n)),
        }
    }

    fn bound(&mut self, x: f64) {
        let word = double_word(x);
        if self.least.is_none_or(|old| compare_doubles(x, f64::from_bits(old)).is_lt()) {
            self.least = Some(word);
        }
        if self.greatest.is_none_or(|old| compare_doubles(x, f64::from_bits(old)).is_gt()) {
            self.greatest = Some(word);
        }
    }

    /// The least value that at least the fraction `q` of the values do not exceed, approximately (as `percentile_disc`).
    pub(super) fn lower(&self, q: f64) -> Option<f64> {
        let (least, greatest) = (f64::from_bits(self.least?), f64::from_bits(self.greatest?));
        // The rank, from 1; `q` is 0 to 1, and a NaN becomes 0.
        let rank = ((q * self.n as f64).ceil() as u64).clamp(1, self.n.max(1));
        let mut seen = 0u64;
        let found = self.buckets.iter().find(|(_, n)| {
            seen = seen.saturating_add(*n);
            seen >= rank
        });
        let x = found.map_or(greatest, |(bucket, _)| middle(*bucket));
        Some(match (compare_doubles(x, least).is_lt(), compare_doubles(x, greatest).is_gt()) {
            (true, _) => least,
            (_, true) => greatest,
            _ => x,
        })
    }
}

impl Add<f64> for Quantiles {
    fn add(&mut self, x: f64) {
        self.n += 1;
        self.count(bucket(x), 1);
        self.bound(x);
    }
}

impl State for Quantiles {
    const ON_HEAP: bool = true;
    fn merge(&mut self, other: &Self) {
        self.n = self.n.saturating_add(other.n);
        other.buckets.iter().for_each(|(bucket, n)| self.count(*bucket, *n));
        [other.least, other.greatest].into_iter().flatten().for_each(|x| self.bound(f64::from_bits(x)));
    }
    fn heap(&self) -> usize {
        self.buckets.capacity() * size_of::<(i32, u64)>()
    }
}

/// The number of values; the number of buckets, their names two a word, their counts; least and greatest if there are values.
impl Wire for Quantiles {
    const LEAST: usize = 16;
    fn size(&self) -> usize {
        let bounds = if self.least.is_some() { 16 } else { 0 };
        16 + (self.buckets.len() * 4).next_multiple_of(8) + self.buckets.len() * 8 + bounds
    }
    fn put(&self, out: &mut Writer) {
        out.word(self.n);
        out.count(self.buckets.len());
        out.chunks(&self.buckets, |b| b.0.to_le_bytes());
        out.padded(&[]);
        out.chunks(&self.buckets, |b| b.1.to_le_bytes());
        if let (Some(least), Some(greatest)) = (self.least, self.greatest) {
            out.word(least);
            out.word(greatest);
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let at = from.at();
        let n = checked_count(from.word()?, at)?;
        let len = from.count(12)?;
        let names = u32::get_all(len, from)?;
        let buckets: Vec<_> = names.into_iter().map(|b| b as i32).zip(u64::get_all(len, from)?).collect();
        let counted = buckets.iter().try_fold(0u64, |sum, b| sum.checked_add(b.1));
        if !buckets.is_sorted_by(|a, b| a.0 < b.0) || counted != Some(n) {
            return Err(WireError { at, what: "expected buckets in ascending order that hold all values" });
        }
        let (least, greatest) = if n > 0 { (Some(from.word()?), Some(from.word()?)) } else { (None, None) };
        Ok(Quantiles { n, buckets, least, greatest })
    }
}

/// A number of a column as the nearest double.
pub(super) fn number(column: &Column, row: usize) -> Option<f64> {
    match &column.data {
        ColumnData::I64(v) => v.get(row).map(|x| *x as f64),
        ColumnData::F64(v) => v.get(row).copied(),
        ColumnData::I128(v) => v.get(row).map(|x| decimal_to_f64(*x, super::scale_of(&column.dtype))),
        _ => None,
    }
}
