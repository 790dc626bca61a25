//! The groups of a table: keys, numbered from 0 in the order in which they came, and an index from key to number.
//!
//! Keys of fixed width are held as one or two words, texts of up to 15 bytes as two, and everything else as bytes in one
//! arena. A store starts narrow and is *widened* when the first key comes that does not fit (a NULL, a long text); numbers
//! stay. The index holds words beside numbers, so that a look-up costs one cache miss for the control bytes and
//! one for the entry; for bytes it holds half the hash, so that the arena is read for likely hits only.
//!
//! Invariant: numbers are dense, keys are distinct (`codec` says when keys are equal), and every key is in the index.

mod wire;

use super::codec::{
    PACKED_NULL, decode, double_word, encode, encode_cell, is_encoding, pack, route, unpack, value_of_word,
};
use crate::types::{Column, ColumnData, DataType, TextData, Value};
use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use hashbrown::HashTable;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::hash::{BuildHasher, Hash, Hasher};

/// "No group" in maps between groups.
pub(super) const NONE: u32 = u32::MAX;

type State = SeedableRandomState;

/// The hash of this process; the same for all tables, so that a table can be probed with another's keys.
pub(super) fn hash_state() -> State {
    SeedableRandomState::with_seed(0x736c_6163_6b77_6174, SharedSeed::global_random())
}

fn number(groups: usize) -> u32 {
    // u32::MAX itself is NONE.
    u32::try_from(groups).ok().filter(|n| *n != NONE).expect("a table holds less than 2^32 - 1 groups")
}

/// Keys of one or two words.
#[derive(Clone, Debug, Default)]
struct Words<K> {
    keys: Vec<K>,
    index: HashTable<(K, u32)>,
}

impl<K: Copy + Eq + Hash> Words<K> {
    #[inline(always)]
    fn upsert(&mut self, key: K, state: &State) -> u32 {
        let hash = state.hash_one(key);
        match self.index.find(hash, |e| e.0 == key) {
            Some(entry) => entry.1,
            None => self.add(key, hash, state),
        }
    }

    #[inline(never)]
    fn add(&mut self, key: K, hash: u64, state: &State) -> u32 {
        let group = number(self.keys.len());
        self.keys.push(key);
        self.index.insert_unique(hash, (key, group), |e| state.hash_one(e.0));
        group
    }

    fn find(&self, key: K, state: &State) -> u32 {
        self.index.find(state.hash_one(key), |e| e.0 == key).map_or(NONE, |e| e.1)
    }

    fn from_keys(keys: impl ExactSizeIterator<Item = K>) -> Self {
        let state = hash_state();
        let mut out = Words { keys: Vec::with_capacity(keys.len()), index: HashTable::with_capacity(keys.len()) };
        for key in keys {
            out.upsert(key, &state);
        }
        out
    }

    /// Keys as they were read.
    fn distinct(keys: Vec<K>) -> Result<Self, &'static str> {
        let len = keys.len();
        if len >= NONE as usize {
            return Err("a table holds less than 2^32 - 1 groups");
        }
        let out = Words::from_keys(keys.into_iter());
        if out.keys.len() == len { Ok(out) } else { Err("a group key stands twice") }
    }

    fn bytes(&self) -> usize {
        self.keys.capacity() * size_of::<K>() + self.index.allocation_size()
    }
}

impl<K: Serialize> Serialize for Words<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.keys.serialize(serializer)
    }
}
impl<'de, K: Copy + Eq + Hash + Deserialize<'de>> Deserialize<'de> for Words<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Words::distinct(Vec::<K>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Keys of any bytes: key `i` is `arena[ends[i − 1]..ends[i]]`. The index holds (upper half of the hash, group).
#[derive(Clone, Debug, Default)]
struct Bytes {
    arena: Vec<u8>,
    ends: Vec<u64>,
    index: HashTable<(u32, u32)>,
}

/// A full hash from its upper half; low bits choose the bucket, the top seven the tag.
#[inline]
fn spread(half: u32) -> u64 {
    u64::from(half) << 32 | u64::from(half)
}

fn half_hash(key: &[u8], state: &State) -> u32 {
    let mut hasher = state.build_hasher();
    hasher.write(key);
    (hasher.finish() >> 32) as u32
}

#[expect(clippy::indexing_slicing, reason = "groups come from the index, and ends are checked when deserialised")]
fn slice<'a>(arena: &'a [u8], ends: &[u64], group: usize) -> &'a [u8] {
    let start = if group == 0 { 0 } else { ends[group - 1] };
    &arena[start as usize..ends[group] as usize]
}

impl Bytes {
    fn get(&self, group: usize) -> &[u8] {
        slice(&self.arena, &self.ends, group)
    }

    #[inline]
    fn upsert(&mut self, key: &[u8], state: &State) -> u32 {
        let half = half_hash(key, state);
        match self.find_hashed(key, half) {
            NONE => self.add(key, half),
            group => group,
        }
    }

    #[inline]
    fn find_hashed(&self, key: &[u8], half: u32) -> u32 {
        let eq = |e: &(u32, u32)| e.0 == half && self.get(e.1 as usize) == key;
        self.index.find(spread(half), eq).map_or(NONE, |e| e.1)
    }

    #[inline(never)]
    fn add(&mut self, key: &[u8], half: u32) -> u32 {
        let group = number(self.ends.len());
        self.arena.extend_from_slice(key);
        self.ends.push(self.arena.len() as u64);
        self.index.insert_unique(spread(half), (half, group), |e| spread(e.0));
        group
    }

    /// Keys as they were read.
    fn distinct(arena: &[u8], ends: &[u64]) -> Result<Self, &'static str> {
        if !ends.is_sorted() || ends.last().copied().unwrap_or(0) != arena.len() as u64 {
            return Err("the ends of the group keys do not fit their bytes");
        }
        if ends.len() >= NONE as usize {
            return Err("a table holds less than 2^32 - 1 groups");
        }
        let mut out = Bytes {
            arena: Vec::with_capacity(arena.len()),
            ends: Vec::with_capacity(ends.len()),
            index: HashTable::with_capacity(ends.len()),
        };
        let state = hash_state();
        for group in 0..ends.len() {
            out.upsert(slice(arena, ends, group), &state);
        }
        if out.ends == ends { Ok(out) } else { Err("a group key stands twice") }
    }

    fn bytes(&self) -> usize {
        self.arena.capacity() + self.ends.capacity() * 8 + self.index.allocation_size()
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.arena, &self.ends).serialize(serializer)
    }
}
impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (arena, ends) = <(Vec<u8>, Vec<u64>)>::deserialize(deserializer)?;
        Bytes::distinct(&arena, &ends).map_err(serde::de::Error::custom)
    }
}

/// How keys of the given types are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// No key column: one group.
    Unit,
    /// One column of one word. Wide: the word and whether it is NULL.
    Word,
    /// Two columns of one word, or one decimal. Wide: encoded.
    Pair,
    /// One text, packed. Wide: its bytes, NULL as the byte 0xff, which is in no text.
    Text,
    /// Anything else: encoded.
    Encoded,
}

const TEXT_NULL: &[u8] = &[0xff];

impl Shape {
    fn of(types: &[DataType]) -> Shape {
        let words = |t: &DataType| match t {
            DataType::Text | DataType::List(_) => 9,
            DataType::Decimal { .. } => 2,
            _ => 1,
        };
        match types {
            [] => Shape::Unit,
            [DataType::Text] => Shape::Text,
            _ => match types.iter().map(words).sum() {
                1 => Shape::Word,
                2 => Shape::Pair,
                _ => Shape::Encoded,
            },
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Store {
    Unit(bool),
    One(Words<u64>),
    Two(Words<(u64, u64)>),
    Bytes(Bytes),
}

/// The groups of a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Keys {
    types: Vec<DataType>,
    wide: bool,
    store: Store,
}

/// The words of a column of fixed width.
#[derive(Clone, Copy)]
enum WordColumn<'a> {
    I64(&'a [i64]),
    F64(&'a [f64]),
    Boolean(&'a [bool]),
}

impl<'a> WordColumn<'a> {
    fn of(column: &'a Column) -> Option<Self> {
        match &column.data {
            ColumnData::I64(v) => Some(WordColumn::I64(v)),
            ColumnData::F64(v) => Some(WordColumn::F64(v)),
            ColumnData::Boolean(v) => Some(WordColumn::Boolean(v)),
            _ => None,
        }
    }
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "rows are the caller's own")]
    fn get(self, row: usize) -> u64 {
        match self {
            WordColumn::I64(v) => v[row] as u64,
            WordColumn::F64(v) => double_word(v[row]),
            WordColumn::Boolean(v) => u64::from(v[row]),
        }
    }
}

fn any_null(columns: &[Column], rows: &[u32]) -> bool {
    columns.iter().any(|c| c.nulls.is_some() && rows.iter().any(|r| c.is_null(*r as usize)))
}

impl Keys {
    pub(super) fn new(types: &[DataType]) -> Self {
        let store = match Shape::of(types) {
            Shape::Unit => Store::Unit(false),
            Shape::Word => Store::One(Words::default()),
            Shape::Pair | Shape::Text => Store::Two(Words::default()),
            Shape::Encoded => Store::Bytes(Bytes::default()),
        };
        Keys { types: types.to_vec(), wide: false, store }
    }

    /// Whether the parts fit together and keys are what inserts make of values (a store that was read may be anything).
    pub(super) fn is_sound(&self, types: &[DataType]) -> bool {
        let fits = match (Shape::of(types), self.wide) {
            (Shape::Unit, false) => matches!(self.store, Store::Unit(_)),
            (Shape::Word, false) => matches!(self.store, Store::One(_)),
            (Shape::Word, true) | (Shape::Pair | Shape::Text, false) => matches!(self.store, Store::Two(_)),
            (Shape::Pair | Shape::Text, true) | (Shape::Encoded, false) => matches!(self.store, Store::Bytes(_)),
            (Shape::Unit | Shape::Encoded, true) => false,
        };
        self.types == types && fits && self.are_canonical()
    }

    /// Whether every key is the one form of a value.
    fn are_canonical(&self) -> bool {
        let word = |t: &DataType, word: u64| match t {
            DataType::Boolean => word <= 1,
            DataType::Double => double_word(f64::from_bits(word)) == word,
            _ => true,
        };
        match (&self.store, &self.types[..]) {
            (Store::Unit(_), _) => true,
            (Store::One(words), [t]) => words.keys.iter().all(|k| word(t, *k)),
            (Store::Two(words), [DataType::Text]) => words.keys.iter().all(|key| {
                let mut buffer = [0; 16];
                let Some(bytes) = unpack(*key, &mut buffer) else { return true };
                std::str::from_utf8(bytes).is_ok() && pack(bytes) == Some(*key)
            }),
            (Store::Two(_), [DataType::Decimal { .. }]) => true,
            (Store::Two(words), [t]) => words.keys.iter().all(|k| matches!(*k, (0, 1)) || (k.1 == 0 && word(t, k.0))),
            (Store::Two(words), [t, u]) => words.keys.iter().all(|k| word(t, k.0) && word(u, k.1)),
            (Store::Bytes(bytes), [DataType::Text]) => (0..bytes.ends.len()).all(|group| {
                let key = bytes.get(group);
                key == TEXT_NULL || std::str::from_utf8(key).is_ok()
            }),
            (Store::Bytes(bytes), types) => (0..bytes.ends.len()).all(|group| {
                let mut key = bytes.get(group);
                types.iter().all(|t| is_encoding(t, &mut key)) && key.is_empty()
            }),
            _ => false,
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.store {
            Store::Unit(present) => usize::from(*present),
            Store::One(words) => words.keys.len(),
            Store::Two(words) => words.keys.len(),
            Store::Bytes(bytes) => bytes.ends.len(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.store {
            Store::Unit(_) => 0,
            Store::One(words) => words.bytes(),
            Store::Two(words) => words.bytes(),
            Store::Bytes(bytes) => bytes.bytes(),
        }
    }

    /// Appends the group of each selected row to `groups`; new keys become groups.
    pub(super) fn upsert(&mut self, columns: &[Column], rows: &[u32], groups: &mut Vec<u32>) {
        let state = hash_state();
        let shape = Shape::of(&self.types);
        if !self.wide && matches!(shape, Shape::Word | Shape::Pair) && any_null(columns, rows) {
            self.widen();
        }
        let wide = self.wide;
        groups.reserve(rows.len());
        match (&mut self.store, columns) {
            (Store::Unit(present), _) => {
                *present |= !rows.is_empty();
                groups.resize(groups.len() + rows.len(), 0);
            }
            (Store::One(words), [column]) => upsert_words(words, column, rows, groups, &state),
            (Store::Two(words), [column]) if wide => {
                let Some(data) = WordColumn::of(column) else { return };
                groups.extend(rows.iter().map(|&r| {
                    let null = column.is_null(r as usize);
                    let word = if null { 0 } else { data.get(r as usize) };
                    words.upsert((word, u64::from(null)), &state)
                }));
            }
            (Store::Two(words), [column]) => match &column.data {
                ColumnData::I128(v) => upsert_decimals(words, v, rows, groups, &state),
                _ => {
                    let done = upsert_packed(words, column, rows, groups, &state);
                    if let Some(rest @ [_, ..]) = rows.get(done..) {
                        self.widen();
                        self.upsert(columns, rest, groups);
                    }
                }
            },
            (Store::Two(words), [a, b]) => {
                let (Some(a), Some(b)) = (WordColumn::of(a), WordColumn::of(b)) else { return };
                let key = |r: u32| (a.get(r as usize), b.get(r as usize));
                groups.extend(rows.iter().map(|&r| words.upsert(key(r), &state)));
            }
            (Store::Bytes(bytes), [column]) if shape == Shape::Text => {
                let ColumnData::Text(v) = &column.data else { return };
                groups.extend(rows.iter().map(|&r| {
                    let null = column.is_null(r as usize);
                    bytes.upsert(if null { TEXT_NULL } else { v.bytes(r as usize) }, &state)
                }));
            }
            (Store::Bytes(bytes), _) => {
                let mut key = Vec::new();
                groups.extend(rows.iter().map(|&r| {
                    key.clear();
                    columns.iter().for_each(|c| encode_cell(c, r as usize, &mut key));
                    bytes.upsert(&key, &state)
                }));
            }
            _ => debug_assert!(false, "key columns do not fit the table's types"),
        }
    }

    /// Takes the wider form; groups keep their numbers.
    fn widen(&mut self) {
        let shape = Shape::of(&self.types);
        if self.wide || matches!(shape, Shape::Unit | Shape::Encoded) {
            return;
        }
        self.store = match &self.store {
            Store::One(words) => Store::Two(Words::from_keys(words.keys.iter().map(|k| (*k, 0)))),
            Store::Two(words) => {
                let state = hash_state();
                let mut out = Bytes::default();
                let mut key = Vec::new();
                for group in 0..words.keys.len() {
                    if let (Shape::Text, Some(packed)) = (shape, words.keys.get(group)) {
                        out.upsert(unpack(*packed, &mut [0; 16]).unwrap_or(TEXT_NULL), &state);
                    } else {
                        key.clear();
                        self.values(group).iter().for_each(|v| encode(v, &mut key));
                        out.upsert(&key, &state);
                    }
                }
                Store::Bytes(out)
            }
            other => other.clone(),
        };
        self.wide = true;
    }

    fn widened(&self) -> Keys {
        let mut out = self.clone();
        out.widen();
        out
    }

    /// Adds the groups `from` of another store of the same types; their numbers here.
    #[expect(clippy::indexing_slicing, reason = "the caller's groups are groups of the other store")]
    pub(super) fn merge(&mut self, other: &Keys, from: &[u32]) -> Vec<u32> {
        if self.wide && !other.wide {
            return self.merge(&other.widened(), from);
        }
        if !self.wide && other.wide {
            self.widen();
        }
        let state = hash_state();
        match (&mut self.store, &other.store) {
            (Store::Unit(present), Store::Unit(_)) => {
                *present |= !from.is_empty();
                vec![0; from.len()]
            }
            (Store::One(a), Store::One(b)) => from.iter().map(|&g| a.upsert(b.keys[g as usize], &state)).collect(),
            (Store::Two(a), Store::Two(b)) => from.iter().map(|&g| a.upsert(b.keys[g as usize], &state)).collect(),
            (Store::Bytes(a), Store::Bytes(b)) => from.iter().map(|&g| a.upsert(b.get(g as usize), &state)).collect(),
            _ => {
                debug_assert!(false, "tables of different keys");
                vec![NONE; from.len()]
            }
        }
    }

    /// The groups here of the other store's keys, in its order; [`NONE`] where there is none.
    pub(super) fn find(&self, other: &Keys) -> Vec<u32> {
        if self.wide != other.wide {
            // Whichever is narrow is the one to be widened.
            return if self.wide { self.find(&other.widened()) } else { self.widened().find(other) };
        }
        let state = hash_state();
        match (&self.store, &other.store) {
            (Store::Unit(a), Store::Unit(b)) => match (a, b) {
                (_, false) => vec![],
                (true, true) => vec![0],
                (false, true) => vec![NONE],
            },
            (Store::One(a), Store::One(b)) => b.keys.iter().map(|k| a.find(*k, &state)).collect(),
            (Store::Two(a), Store::Two(b)) => b.keys.iter().map(|k| a.find(*k, &state)).collect(),
            (Store::Bytes(a), Store::Bytes(b)) => {
                let find = |key| a.find_hashed(key, half_hash(key, &state));
                (0..b.ends.len()).map(|g| find(b.get(g))).collect()
            }
            _ => {
                debug_assert!(false, "tables of different keys");
                vec![NONE; other.len()]
            }
        }
    }

    /// The key of a group.
    fn values(&self, group: usize) -> Vec<Value> {
        let shape = Shape::of(&self.types);
        let types = &self.types[..];
        match (&self.store, types) {
            (Store::One(words), [t]) => words.keys.get(group).map(|k| value_of_word(t, *k)).into_iter().collect(),
            (Store::Two(words), _) => match (words.keys.get(group), types, shape) {
                (Some(k), _, Shape::Text) => vec![text_value(unpack(*k, &mut [0; 16]))],
                (Some((lo, hi)), [DataType::Decimal { scale, .. }], _) => {
                    vec![Value::Decimal((u128::from(*lo) | u128::from(*hi) << 64) as i128, *scale)]
                }
                (Some((_, 1)), [_], _) => vec![Value::Null],
                (Some((word, _)), [t], _) => vec![value_of_word(t, *word)],
                (Some((a, b)), [t, u], _) => vec![value_of_word(t, *a), value_of_word(u, *b)],
                _ => vec![],
            },
            (Store::Bytes(bytes), _) if shape == Shape::Text => {
                let key = bytes.get(group);
                vec![text_value((key != TEXT_NULL).then_some(key))]
            }
            (Store::Bytes(bytes), _) => {
                let mut key = bytes.get(group);
                types.iter().map(|_| decode(&mut key).unwrap_or(Value::Null)).collect()
            }
            _ => vec![],
        }
    }

    /// The keys as columns, by group.
    pub(super) fn columns(&self) -> Vec<Column> {
        match (&self.store, &self.types[..]) {
            (Store::One(words), [t]) if !matches!(t, DataType::Boolean | DataType::Double) => {
                let data = ColumnData::I64(words.keys.iter().map(|k| *k as i64).collect());
                vec![Column { dtype: t.clone(), data, nulls: None }]
            }
            (Store::Two(words), [DataType::Text]) => {
                let mut buffers = vec![[0; 16]; words.keys.len()];
                text_column(words.keys.iter().zip(&mut buffers).map(|(key, buffer)| unpack(*key, buffer)))
            }
            (Store::Bytes(bytes), [DataType::Text]) => {
                let keys = (0..bytes.ends.len()).map(|g| bytes.get(g));
                text_column(keys.map(|key| (key != TEXT_NULL).then_some(key)))
            }
            _ => {
                let mut out: Vec<Column> = self.types.iter().cloned().map(Column::new).collect();
                for group in 0..self.len() {
                    out.iter_mut().zip(self.values(group)).for_each(|(c, v)| c.push(&v));
                }
                out
            }
        }
    }

    /// The part of each group: [`route`] of its key.
    pub(super) fn routes(&self, parts: usize) -> Vec<u32> {
        route(&self.columns(), self.len(), parts)
    }
}

fn text_column<'a>(keys: impl Iterator<Item = Option<&'a [u8]>>) -> Vec<Column> {
    let mut texts = TextData::default();
    let mut nulls = Vec::new();
    for key in keys {
        let text = key.and_then(|k| std::str::from_utf8(k).ok());
        nulls.push(text.is_none());
        texts.push(text.unwrap_or_default());
    }
    let any = nulls.contains(&true);
    vec![Column { dtype: DataType::Text, data: ColumnData::Text(texts), nulls: Some(nulls).filter(|_| any) }]
}

fn text_value(bytes: Option<&[u8]>) -> Value {
    bytes.and_then(|b| std::str::from_utf8(b).ok()).map_or(Value::Null, |text| Value::Text(text.into()))
}

#[expect(clippy::indexing_slicing, reason = "rows are the caller's own")]
fn upsert_words(words: &mut Words<u64>, column: &Column, rows: &[u32], groups: &mut Vec<u32>, state: &State) {
    match &column.data {
        ColumnData::I64(v) => groups.extend(rows.iter().map(|&r| words.upsert(v[r as usize] as u64, state))),
        ColumnData::F64(v) => groups.extend(rows.iter().map(|&r| words.upsert(double_word(v[r as usize]), state))),
        ColumnData::Boolean(v) => groups.extend(rows.iter().map(|&r| words.upsert(u64::from(v[r as usize]), state))),
        _ => debug_assert!(false, "a key column of another type"),
    }
}

#[expect(clippy::indexing_slicing, reason = "rows are the caller's own")]
fn upsert_decimals(words: &mut Words<(u64, u64)>, v: &[i128], rows: &[u32], groups: &mut Vec<u32>, state: &State) {
    let key = |x: i128| (x as u64, (x >> 64) as u64);
    groups.extend(rows.iter().map(|&r| words.upsert(key(v[r as usize]), state)));
}

/// Stops at the first text that is too long to be packed; the number of rows done.
fn upsert_packed(
    words: &mut Words<(u64, u64)>,
    column: &Column,
    rows: &[u32],
    groups: &mut Vec<u32>,
    state: &State,
) -> usize {
    let ColumnData::Text(v) = &column.data else { return rows.len() };
    for (done, &row) in rows.iter().enumerate() {
        let null = column.is_null(row as usize);
        let Some(key) = (if null { Some(PACKED_NULL) } else { pack(v.bytes(row as usize)) }) else { return done };
        groups.push(words.upsert(key, state));
    }
    rows.len()
}
