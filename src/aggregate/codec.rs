//! Bytes of values: the injective encoding of group keys, and the fixed hash that routes them.
//!
//! Two hashes serve two ends. The index of a table uses a hash seeded per process (nobody can prepare colliding keys).
//! *Routing* must give the same worker in every process, and sketches the same estimate on every platform, so those use
//! [`Mixer`]: integer arithmetic only, without a seed.
//!
//! Invariant: two values of one column are equal (−0.0 = 0.0, one NaN, NULL = NULL) iff their encodings are equal bytes.

use crate::types::{Column, ColumnData, DataType, Value, canonical_double};
use std::sync::Arc;

/// The fixed hash: words are folded in one by one, `h ← f(h ⊕ word + 0x9e37_79b9_7f4a_7c15)`, where `f` is the finaliser of
/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014). Bytes are
/// taken eight at a time, little-endian, the last word padded with zeros, and then their number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mixer(u64);

impl Mixer {
    pub(super) const START: Mixer = Mixer(0x510e_527f_ade6_82d1);
    const NULL: u64 = 0x1f83_d9ab_fb41_bd6b;

    #[inline]
    pub(super) fn word(self, word: u64) -> Mixer {
        let mut h = (self.0 ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Mixer(h ^ (h >> 31))
    }

    #[inline]
    pub(super) fn bytes(mut self, bytes: &[u8]) -> Mixer {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self = self.word(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            self = self.word(u64::from_le_bytes(word));
        }
        self.word(bytes.len() as u64)
    }

    #[inline]
    pub(super) fn wide(self, value: i128) -> Mixer {
        self.word(value as u64).word((value >> 64) as u64)
    }

    pub(super) fn null(self) -> Mixer {
        self.word(Self::NULL)
    }

    #[inline]
    pub(super) fn finish(self) -> u64 {
        self.0
    }
}

/// The word of a double in keys and sets: one for −0.0 and 0.0, one for every NaN.
#[inline]
pub(super) fn double_word(x: f64) -> u64 {
    canonical_double(x).to_bits()
}

/// The worker in `0..parts` that each of the first `rows` rows of the key columns goes to.
///
/// The same keys give the same worker in every process, on every platform and in every release that shares a
/// checkpoint format: the hash (SplitMix64's finaliser folded over the columns' words) and the reduction
/// (`hash · parts / 2^64`) are fixed. No key column gives one worker for all rows. `parts` = 0 counts as 1.
pub fn route(keys: &[Column], rows: usize, parts: usize) -> Vec<u32> {
    let parts = parts.clamp(1, u32::MAX as usize) as u128;
    hashes(keys, rows).into_iter().map(|hash| ((u128::from(hash) * parts) >> 64) as u32).collect()
}

/// A hash of the key columns of each of the first `rows` rows, that by which they are routed: equal keys have equal hashes.
pub fn hashes(keys: &[Column], rows: usize) -> Vec<u64> {
    let mut hashes = vec![Mixer::START; rows];
    for column in keys {
        fold(column, &mut hashes);
    }
    hashes.into_iter().map(|hash| hash.finish()).collect()
}

fn fold(column: &Column, hashes: &mut [Mixer]) {
    fn each<T>(hashes: &mut [Mixer], values: &[T], column: &Column, f: impl Fn(Mixer, &T) -> Mixer) {
        match &column.nulls {
            None => hashes.iter_mut().zip(values).for_each(|(h, v)| *h = f(*h, v)),
            Some(nulls) => hashes
                .iter_mut()
                .zip(values)
                .zip(nulls)
                .for_each(|((h, v), null)| *h = if *null { h.null() } else { f(*h, v) }),
        }
    }
    match &column.data {
        ColumnData::Boolean(v) => each(hashes, v, column, |h, x| h.word(u64::from(*x))),
        ColumnData::I64(v) => each(hashes, v, column, |h, x| h.word(*x as u64)),
        ColumnData::F64(v) => each(hashes, v, column, |h, x| h.word(double_word(*x))),
        ColumnData::I128(v) => each(hashes, v, column, |h, x| h.wide(*x)),
        ColumnData::Text(v) => {
            for (row, h) in hashes.iter_mut().enumerate().take(v.len()) {
                *h = if column.is_null(row) { h.null() } else { h.bytes(v.bytes(row)) };
            }
        }
        ColumnData::List(_) => {
            let mut bytes = Vec::new();
            for (row, h) in hashes.iter_mut().enumerate().take(column.len()) {
                bytes.clear();
                encode(&column.value(row), &mut bytes);
                *h = h.bytes(&bytes);
            }
        }
    }
}

/// Appends the encoding of a value: a tag, then its bytes. Self-delimiting, so that encodings can be concatenated.
pub(super) fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0),
        Value::Boolean(x) => out.extend_from_slice(&[1, u8::from(*x)]),
        Value::BigInt(x) => word(2, *x as u64, out),
        Value::Double(x) => word(3, double_word(*x), out),
        Value::Decimal(x, scale) => {
            out.extend_from_slice(&[4, *scale]);
            out.extend_from_slice(&x.to_le_bytes());
        }
        Value::Text(x) => text(x.as_bytes(), out),
        Value::Timestamp(x) => word(6, *x as u64, out),
        Value::Date(x) => word(7, *x as u64, out),
        Value::Interval(x) => word(8, *x as u64, out),
        Value::List(items) => {
            word(9, items.len() as u64, out);
            items.iter().for_each(|item| encode(item, out));
        }
    }
}

fn word(tag: u8, word: u64, out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(&word.to_le_bytes());
}

fn text(bytes: &[u8], out: &mut Vec<u8>) {
    word(5, bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends the encoding of one row of a column; the same bytes as [`encode`] of its value.
#[inline]
pub(crate) fn encode_cell(column: &Column, row: usize, out: &mut Vec<u8>) {
    match &column.data {
        ColumnData::Text(v) if !column.is_null(row) => text(v.bytes(row), out),
        _ => encode(&column.value(row), out),
    }
}

/// Appends the encodings of one row's cells: equal groups of the same types have equal bytes, others do not.
pub(crate) fn encode_group(columns: &[Column], row: usize, out: &mut Vec<u8>) {
    columns.iter().for_each(|column| encode_cell(column, row, out));
}

/// Takes one value off the front; `None` if the bytes are no encoding.
pub(super) fn decode(bytes: &mut &[u8]) -> Option<Value> {
    let (tag, rest) = bytes.split_first()?;
    *bytes = rest;
    let word = |bytes: &mut &[u8]| take::<8>(bytes).map(u64::from_le_bytes);
    Some(match tag {
        0 => Value::Null,
        1 => Value::Boolean(take::<1>(bytes)? == [1]),
        2 => Value::BigInt(word(bytes)? as i64),
        3 => Value::Double(f64::from_bits(word(bytes)?)),
        4 => {
            let [scale] = take::<1>(bytes)?;
            Value::Decimal(i128::from_le_bytes(take::<16>(bytes)?), scale)
        }
        5 => {
            let len = usize::try_from(word(bytes)?).ok()?;
            let (text, rest) = bytes.split_at_checked(len)?;
            *bytes = rest;
            Value::Text(std::str::from_utf8(text).ok()?.into())
        }
        6 => Value::Timestamp(word(bytes)? as i64),
        7 => Value::Date(word(bytes)? as i64),
        8 => Value::Interval(word(bytes)? as i64),
        9 => {
            let len = word(bytes)?;
            let items: Option<Vec<Value>> = (0..len).map(|_| decode(bytes)).collect();
            Value::List(Arc::from(items?))
        }
        _ => return None,
    })
}

/// Takes the encoding of NULL or of a value of the type off the front; `false` if the bytes do not begin with one that
/// [`encode`] writes. Recurses as deep as the type.
pub(super) fn is_encoding(dtype: &DataType, bytes: &mut &[u8]) -> bool {
    let word = |bytes: &mut &[u8]| take::<8>(bytes).map(u64::from_le_bytes);
    let Some([tag]) = take::<1>(bytes) else { return false };
    match (tag, dtype) {
        (0, _) => true,
        (1, DataType::Boolean) => matches!(take::<1>(bytes), Some([0 | 1])),
        (3, DataType::Double) => word(bytes).is_some_and(|w| double_word(f64::from_bits(w)) == w),
        (4, DataType::Decimal { scale, .. }) => take::<1>(bytes) == Some([*scale]) && take::<16>(bytes).is_some(),
        (5, DataType::Text) => {
            let len = word(bytes).and_then(|len| usize::try_from(len).ok());
            let Some((text, rest)) = len.and_then(|len| bytes.split_at_checked(len)) else { return false };
            *bytes = rest;
            std::str::from_utf8(text).is_ok()
        }
        (2, DataType::BigInt) | (6, DataType::Timestamp) | (7, DataType::Date) | (8, DataType::Interval) => {
            word(bytes).is_some()
        }
        (9, DataType::List(item)) => word(bytes).is_some_and(|n| (0..n).all(|_| is_encoding(item, bytes))),
        _ => false,
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

/// The value of a type that a word of a key stands for.
pub(super) fn value_of_word(dtype: &DataType, word: u64) -> Value {
    match dtype {
        DataType::Boolean => Value::Boolean(word != 0),
        DataType::Double => Value::Double(f64::from_bits(word)),
        DataType::Timestamp => Value::Timestamp(word as i64),
        DataType::Date => Value::Date(word as i64),
        DataType::Interval => Value::Interval(word as i64),
        _ => Value::BigInt(word as i64),
    }
}

/// Packs up to 15 bytes into two words, the length in the highest byte; injective.
#[inline]
pub(super) fn pack(bytes: &[u8]) -> Option<(u64, u64)> {
    let n = bytes.len();
    let (lo, hi) = if n > PACKED_MAX {
        return None;
    } else if let (Some(head), Some(tail)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        // The tail overlaps the head by 16 − n bytes: shift those out.
        let tail = u64::from_le_bytes(*tail).checked_shr(8 * (16 - n as u32)).unwrap_or(0);
        (u64::from_le_bytes(*head), tail)
    } else if let (Some(head), Some(tail)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let tail = u64::from(u32::from_le_bytes(*tail)) << (8 * (n - 4));
        (u64::from(u32::from_le_bytes(*head)) | tail, 0)
    } else {
        (bytes.iter().rev().fold(0, |word, b| (word << 8) | u64::from(*b)), 0)
    };
    Some((lo, hi | ((n as u64) << 56)))
}

/// The longest text that [`pack`] takes, in bytes.
pub(super) const PACKED_MAX: usize = 15;
/// The packed NULL: a length that no text has.
pub(super) const PACKED_NULL: (u64, u64) = (0, 0xff << 56);

/// Undoes [`pack`]; `None` is NULL.
pub(super) fn unpack(key: (u64, u64), buffer: &mut [u8; 16]) -> Option<&[u8]> {
    if key == PACKED_NULL {
        return None;
    }
    *buffer = (u128::from(key.0) | (u128::from(key.1) << 64)).to_le_bytes();
    Some(buffer.get(..(key.1 >> 56) as usize).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packing_is_undone(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let mut buffer = [0; 16];
            match pack(&bytes) {
                Some(key) => prop_assert_eq!(unpack(key, &mut buffer), Some(&bytes[..])),
                None => prop_assert!(bytes.len() > PACKED_MAX),
            }
        }

        #[test]
        fn encodings_are_undone(ints in proptest::collection::vec(any::<i64>(), 0..3), text in ".{0,20}", wide: i128) {
            let list = Value::List(ints.iter().map(|x| Value::BigInt(*x)).collect());
            let values = [list, Value::Text(text.as_str().into()), Value::Decimal(wide, 3), Value::Null, Value::Double(-0.0)];
            let mut bytes = Vec::new();
            values.iter().for_each(|v| encode(v, &mut bytes));
            let mut rest = &bytes[..];
            for value in &values {
                prop_assert_eq!(decode(&mut rest), Some(value.clone()));
            }
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn routes_never_change() {
        // Checkpoints and other processes depend on these very numbers.
        let mut ints = Column::new(DataType::BigInt);
        let mut texts = Column::new(DataType::Text);
        let mut doubles = Column::new(DataType::Double);
        for i in 0..6i64 {
            ints.push(&if i == 5 { Value::Null } else { Value::BigInt(i) });
            texts.push(&Value::Text(format!("customer-{i}").as_str().into()));
            doubles.push(&Value::Double(if i % 2 == 0 { 0.0 } else { -0.0 }));
        }
        assert_eq!(route(std::slice::from_ref(&ints), 6, 1000), ROUTES[0]);
        assert_eq!(route(std::slice::from_ref(&texts), 6, 1000), ROUTES[1]);
        assert_eq!(route(&[ints, texts], 6, 1000), ROUTES[2]);
        let routes = route(std::slice::from_ref(&doubles), 6, 1000);
        assert!(routes.iter().all(|r| *r == routes[0]));
        assert_eq!(route(&[], 2, 0), [0, 0]);
    }
    /// Computed by an independent implementation of what [`Mixer`] documents.
    const ROUTES: [[u32; 6]; 3] =
        [[955, 207, 896, 166, 960, 901], [249, 62, 305, 304, 150, 357], [491, 58, 120, 826, 17, 966]];
}
