//! `count(DISTINCT x)`: one set of (group, value) for all groups of a table, and a count per group.
//!
//! One set instead of one per group costs 17 to 36 bytes per distinct number whether groups have one value or a million,
//! and nothing for groups without values. Numbers are held as their words, everything else as its encoded bytes
//! (`codec`): values are equal iff those are.

use super::codec::{double_word, encode_cell};
use super::keys::hash_state;
use crate::types::{Column, ColumnData};
use crate::wire::{Reader, Wire, WireError, Writer};
use hashbrown::HashTable;
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasher, Hash};

/// Distinct values by group.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Pairs<V>", into = "Pairs<V>")]
#[serde(bound(
    serialize = "V: Clone + Eq + Hash + Serialize",
    deserialize = "V: Clone + Eq + Hash + Deserialize<'de>"
))]
pub(super) struct Distinct<V> {
    counts: Vec<u64>,
    pairs: HashTable<(u32, V)>,
    heap: usize,
}

/// A value as a member of a set.
pub(super) type Bytes = Box<[u8]>;

/// The serialised form.
#[derive(Serialize, Deserialize)]
struct Pairs<V> {
    counts: Vec<u64>,
    pairs: Vec<(u32, V)>,
}

impl<V: Clone + Eq + Hash> From<Distinct<V>> for Pairs<V> {
    fn from(set: Distinct<V>) -> Self {
        Pairs { counts: set.counts, pairs: set.pairs.into_iter().collect() }
    }
}
impl<V: Clone + Eq + Hash> TryFrom<Pairs<V>> for Distinct<V> {
    type Error = &'static str;
    fn try_from(raw: Pairs<V>) -> Result<Self, &'static str> {
        Distinct::checked(raw.counts, raw.pairs.into_iter(), 0)
    }
}

impl<V: Clone + Eq + Hash> Distinct<V> {
    /// Values as they were read.
    fn checked(
        counts: Vec<u64>,
        pairs: impl ExactSizeIterator<Item = (u32, V)>,
        heap: usize,
    ) -> Result<Self, &'static str> {
        let table = HashTable::with_capacity(pairs.len());
        let mut out = Distinct { counts: vec![0; counts.len()], pairs: table, heap };
        pairs.for_each(|(group, value)| out.insert(group, value));
        if out.counts == counts { Ok(out) } else { Err("distinct values do not fit their counts") }
    }

    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    /// The values in the order of their groups.
    fn by_group(&self) -> Vec<&V> {
        let mut ends: Vec<usize> = Vec::with_capacity(self.counts.len());
        let mut end = 0;
        for count in &self.counts {
            ends.push(end);
            end += *count as usize;
        }
        let mut out: Vec<Option<&V>> = vec![None; self.pairs.len()];
        for (group, value) in &self.pairs {
            let slot = ends.get_mut(*group as usize).and_then(|at| {
                let slot = out.get_mut(*at);
                *at += 1;
                slot
            });
            slot.into_iter().for_each(|slot| *slot = Some(value));
        }
        out.into_iter().flatten().collect()
    }

    /// Appends the count of each group, and by group the values.
    pub(super) fn put(&self, out: &mut Writer)
    where
        V: Wire,
    {
        u64::put_all(&self.counts, out);
        self.by_group().into_iter().for_each(|value| value.put(out));
    }

    /// Bytes that [`Self::put`] writes.
    pub(super) fn size(&self) -> usize
    where
        V: Wire,
    {
        u64::size_all(&self.counts) + self.pairs.iter().map(|(_, value)| value.size()).sum::<usize>()
    }

    /// Takes the values of so many groups.
    ///
    /// # Errors
    /// When the bytes are not those, or a value stands twice in a group.
    pub(super) fn get(groups: usize, from: &mut Reader<'_>) -> Result<Self, WireError>
    where
        V: Wire,
    {
        let at = from.at();
        let wrong = |what| WireError { at, what };
        let counts = u64::get_all(groups, from)?;
        let n = counts.iter().try_fold(0u64, |sum, n| sum.checked_add(*n)).and_then(|n| usize::try_from(n).ok());
        let values = V::get_all(n.ok_or(wrong("distinct values do not fit their counts"))?, from)?;
        // What a value takes beside its length; nothing for words.
        let heap = values.iter().map(|value| value.size() - 8).sum();
        let mut owners: Vec<u32> = Vec::with_capacity(values.len());
        (0u32..).zip(&counts).for_each(|(group, n)| owners.extend(std::iter::repeat_n(group, *n as usize)));
        Self::checked(counts, owners.into_iter().zip(values), heap).map_err(wrong)
    }

    pub(super) fn grow(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
    }

    /// Adds a value of a group below [`Self::len`].
    #[inline]
    pub(super) fn insert(&mut self, group: u32, value: V) {
        let state = hash_state();
        let hash = state.hash_one((group, &value));
        if self.pairs.find(hash, |p| p.0 == group && p.1 == value).is_some() {
            return;
        }
        self.pairs.insert_unique(hash, (group, value), |p| state.hash_one((p.0, &p.1)));
        if let Some(count) = self.counts.get_mut(group as usize) {
            *count += 1;
        }
    }

    /// Adds the groups `from` of another set to the groups `to`.
    pub(super) fn merge(&mut self, other: &Self, from: &[u32], to: &[u32]) {
        let mut map = vec![None; other.len()];
        for (f, t) in from.iter().zip(to) {
            if let Some(slot) = map.get_mut(*f as usize) {
                *slot = Some(*t);
            }
        }
        for (group, value) in &other.pairs {
            if let Some(Some(to)) = map.get(*group as usize) {
                self.insert(*to, value.clone());
            }
        }
        self.heap = self.heap.saturating_add(other.heap);
    }

    /// The counts by group.
    pub(super) fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Deals the groups out: group `g` goes to part `routes[g]`, in order.
    pub(super) fn split(self, routes: &[u32], parts: usize) -> Vec<Self> {
        let heap = self.heap / parts.max(1);
        let empty = || Distinct { counts: Vec::new(), pairs: HashTable::new(), heap };
        let mut out: Vec<Self> = (0..parts).map(|_| empty()).collect();
        let mut map = Vec::with_capacity(routes.len());
        for route in routes {
            let part = out.get_mut(*route as usize);
            map.push(part.map_or(0, |part| {
                part.counts.push(0);
                part.counts.len() as u32 - 1
            }));
        }
        for (group, value) in self.pairs {
            if let (Some(route), Some(to)) = (routes.get(group as usize), map.get(group as usize))
                && let Some(part) = out.get_mut(*route as usize)
            {
                part.insert(*to, value);
            }
        }
        out
    }

    pub(super) fn bytes(&self) -> usize {
        self.counts.capacity() * 8 + self.pairs.allocation_size() + self.heap
    }
}

impl Distinct<u64> {
    /// Adds a row of a column of numbers of one word.
    pub(super) fn add(&mut self, group: u32, column: &Column, row: usize) {
        let word = match &column.data {
            ColumnData::I64(v) => v.get(row).map(|x| *x as u64),
            ColumnData::F64(v) => v.get(row).map(|x| double_word(*x)),
            ColumnData::Boolean(v) => v.get(row).map(|x| u64::from(*x)),
            _ => None,
        };
        word.into_iter().for_each(|word| self.insert(group, word));
    }
}

impl Distinct<Bytes> {
    /// Adds a row of any column.
    pub(super) fn add(&mut self, group: u32, column: &Column, row: usize, buffer: &mut Vec<u8>) {
        buffer.clear();
        match &column.data {
            // The column has one type, so that tag and length say nothing.
            ColumnData::Text(v) => buffer.extend_from_slice(v.bytes(row)),
            ColumnData::I128(v) => v.get(row).iter().for_each(|x| buffer.extend_from_slice(&x.to_le_bytes())),
            _ => encode_cell(column, row, buffer),
        }
        let state = hash_state();
        let hash = state.hash_one((group, &buffer[..]));
        if self.pairs.find(hash, |p| p.0 == group && *p.1 == buffer[..]).is_none() {
            self.heap += buffer.len();
            self.insert(group, buffer.as_slice().into());
        }
    }
}
