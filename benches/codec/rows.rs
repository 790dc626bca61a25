//! The rows that are written: partial results of a window, by number and by name.

use columnar::{BorrowedOf, Columnar};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use slackwater::types::TextData;
use slackwater::wire::{Reader, Wire, WireError, Writer};
use std::fmt::Debug;

/// A row, and what it is as columns.
pub trait Row: Clone + PartialEq + Debug + Serialize + DeserializeOwned + Wire + Columnar {
    /// A vector for each field.
    type Columns: Wire;

    /// The row of a number; rows are spread over 10,000 keys.
    fn numbered(n: u64) -> Self;
    /// The sum of its fields; a text counts with its length and its last byte.
    fn sum(&self) -> u64;
    fn columns(rows: &[Self]) -> Self::Columns;
    fn rows_of(columns: &Self::Columns) -> Vec<Self>;
    /// The sum of all rows.
    fn sum_columns(columns: &Self::Columns) -> u64;
    /// The sum of all rows.
    fn sum_borrowed(columns: BorrowedOf<'_, Self>) -> u64;

    fn sum_rows(rows: &[Self]) -> u64 {
        total(rows.iter().map(Self::sum))
    }
}

fn total(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::wrapping_add)
}

fn total_i64(numbers: &[i64]) -> u64 {
    total(numbers.iter().map(|x| *x as u64))
}

pub fn sum_text(text: &[u8]) -> u64 {
    text.len() as u64 + u64::from(text.last().copied().unwrap_or(0))
}

/// Keys in no order.
fn key(n: u64) -> u64 {
    (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % 10_000
}

/// Four words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columnar)]
pub struct Fixed {
    pub key: u64,
    pub time_us: i64,
    pub sum: i64,
    pub count: u64,
}

impl Row for Fixed {
    type Columns = ((Vec<u64>, Vec<i64>), (Vec<i64>, Vec<u64>));

    fn numbered(n: u64) -> Self {
        Fixed { key: key(n), time_us: 1_767_225_600_000_000 + n as i64 * 100, sum: 5_000 - n as i64, count: n % 7 + 1 }
    }
    fn sum(&self) -> u64 {
        total([self.key, self.time_us as u64, self.sum as u64, self.count].into_iter())
    }
    fn columns(rows: &[Self]) -> Self::Columns {
        let keys = rows.iter().map(|r| r.key).collect();
        let times = rows.iter().map(|r| r.time_us).collect();
        let sums = rows.iter().map(|r| r.sum).collect();
        let counts = rows.iter().map(|r| r.count).collect();
        ((keys, times), (sums, counts))
    }
    fn rows_of(((keys, times), (sums, counts)): &Self::Columns) -> Vec<Self> {
        let left = keys.iter().zip(times);
        let right = sums.iter().zip(counts);
        left.zip(right)
            .map(|((key, time_us), (sum, count))| Fixed { key: *key, time_us: *time_us, sum: *sum, count: *count })
            .collect()
    }
    fn sum_columns(((keys, times), (sums, counts)): &Self::Columns) -> u64 {
        let words = total(keys.iter().copied()).wrapping_add(total(counts.iter().copied()));
        words.wrapping_add(total_i64(times)).wrapping_add(total_i64(sums))
    }
    fn sum_borrowed(columns: BorrowedOf<'_, Self>) -> u64 {
        let words = total(columns.key.iter().copied()).wrapping_add(total(columns.count.iter().copied()));
        words.wrapping_add(total_i64(columns.time_us)).wrapping_add(total_i64(columns.sum))
    }
}

/// Four words, which stand as they are: a copy.
impl Wire for Fixed {
    const LEAST: usize = 32;
    fn size(&self) -> usize {
        32
    }
    fn put(&self, out: &mut Writer) {
        Self::put_all(std::slice::from_ref(self), out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Self::get_all(1, from)?.pop().ok_or_else(|| from.error("expected a row"))
    }
    fn size_all(items: &[Self]) -> usize {
        items.len() * 32
    }
    fn put_all(items: &[Self], out: &mut Writer) {
        out.chunks::<_, 32>(items, |row| {
            let words =
                [row.key.to_le_bytes(), row.time_us.to_le_bytes(), row.sum.to_le_bytes(), row.count.to_le_bytes()];
            let mut bytes = [0; 32];
            bytes.copy_from_slice(words.as_flattened());
            bytes
        });
    }
    fn get_all(n: usize, from: &mut Reader<'_>) -> Result<Vec<Self>, WireError> {
        let row = |bytes: &[u8; 32]| {
            let [key, time_us, sum, count] = [0, 8, 16, 24].map(|at| {
                let mut word = [0; 8];
                word.copy_from_slice(&bytes[at..at + 8]);
                word
            });
            Fixed {
                key: u64::from_le_bytes(key),
                time_us: i64::from_le_bytes(time_us),
                sum: i64::from_le_bytes(sum),
                count: u64::from_le_bytes(count),
            }
        };
        Ok(from.chunks::<32>(n)?.iter().map(row).collect())
    }
}

/// A short text and three words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Columnar)]
pub struct Named {
    pub key: String,
    pub time_us: i64,
    pub sum: i64,
    pub count: u64,
}

impl Row for Named {
    type Columns = ((TextData, Vec<i64>), (Vec<i64>, Vec<u64>));

    fn numbered(n: u64) -> Self {
        let Fixed { key, time_us, sum, count } = Fixed::numbered(n);
        Named { key: format!("customer-{key}"), time_us, sum, count }
    }
    fn sum(&self) -> u64 {
        total([sum_text(self.key.as_bytes()), self.time_us as u64, self.sum as u64, self.count].into_iter())
    }
    fn columns(rows: &[Self]) -> Self::Columns {
        let keys = rows.iter().map(|r| &r.key).collect();
        let times = rows.iter().map(|r| r.time_us).collect();
        let sums = rows.iter().map(|r| r.sum).collect();
        let counts = rows.iter().map(|r| r.count).collect();
        ((keys, times), (sums, counts))
    }
    fn rows_of(((keys, times), (sums, counts)): &Self::Columns) -> Vec<Self> {
        let right = sums.iter().zip(counts);
        let named = |(row, (time_us, (sum, count))): (usize, (&i64, (&i64, &u64)))| Named {
            key: keys.get(row).to_owned(),
            time_us: *time_us,
            sum: *sum,
            count: *count,
        };
        times.iter().zip(right).enumerate().map(named).collect()
    }
    fn sum_columns(((keys, times), (sums, counts)): &Self::Columns) -> u64 {
        let texts = total((0..keys.len()).map(|row| sum_text(keys.bytes(row))));
        let words = texts.wrapping_add(total(counts.iter().copied()));
        words.wrapping_add(total_i64(times)).wrapping_add(total_i64(sums))
    }
    fn sum_borrowed(columns: BorrowedOf<'_, Self>) -> u64 {
        use columnar::{Index, Len};
        let texts = total((0..columns.key.len()).map(|row| sum_text(columns.key.get(row))));
        let words = texts.wrapping_add(total(columns.count.iter().copied()));
        words.wrapping_add(total_i64(columns.time_us)).wrapping_add(total_i64(columns.sum))
    }
}

/// The text and three words.
impl Wire for Named {
    const LEAST: usize = 32;
    fn size(&self) -> usize {
        self.key.size() + 24
    }
    fn put(&self, out: &mut Writer) {
        self.key.put(out);
        self.time_us.put(out);
        self.sum.put(out);
        self.count.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Named { key: Wire::get(from)?, time_us: Wire::get(from)?, sum: Wire::get(from)?, count: Wire::get(from)? })
    }
}
