//! A table of aggregate states by group key: what one slice of a window holds.
//!
//! A batch is added in two steps: the group of every row is found or made (one typed loop), and then every aggregate
//! adds its argument to the states of those groups (one typed loop each); nothing is matched on per row.
//!
//! Invariant: every aggregate has one state per group. Cost per row and aggregate: one or two cache misses when
//! groups do not fit the cache.

use super::accumulator::{Accumulator, Batch};
use super::keys::{Keys, NONE};
use super::{AggregateSpec, RecordOrder};
use crate::types::{Column, DataType};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::sync::Arc;

/// The layout of a [`Table`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableSpec {
    /// Types of the group columns.
    pub keys: Vec<DataType>,
    /// The aggregates.
    pub aggregates: Vec<AggregateSpec>,
}

/// One batch of rows to be inserted; columns as long as the batch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Rows {
    /// Number of rows.
    pub len: usize,
    /// Group columns.
    pub keys: Vec<Column>,
    /// The argument of each aggregate (`None`: `count(*)`).
    pub args: Vec<Option<Column>>,
    /// `FILTER` of each aggregate: rows that count (`None`: all).
    pub filters: Vec<Option<Vec<bool>>>,
    /// Present iff an aggregate is ordered.
    pub order: Option<Vec<RecordOrder>>,
}

/// Results of groups, as columns of equal length.
#[derive(Clone, Debug, Default)]
pub struct Lowered {
    /// Group columns.
    pub keys: Vec<Column>,
    /// Aggregate columns.
    pub values: Vec<Column>,
    /// Groups whose aggregate cannot be published (a sum that does not fit): row, aggregate index, message. Ascending by row.
    pub errors: Vec<(u32, usize, String)>,
}

impl Lowered {
    /// Number of groups.
    pub fn len(&self) -> usize {
        self.values.first().or(self.keys.first()).map_or(0, Column::len)
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The results of the groups named, in that order.
    #[must_use]
    pub fn take(&self, groups: &[u32]) -> Lowered {
        let take = |columns: &[Column]| columns.iter().map(|column| column.take(groups)).collect();
        let mut errors = Vec::new();
        if !self.errors.is_empty() {
            for (new, group) in (0u32..).zip(groups) {
                let first = self.errors.partition_point(|(of, _, _)| of < group);
                let own = self.errors.iter().skip(first).take_while(|(of, _, _)| of == group);
                errors.extend(own.map(|(_, aggregate, message)| (new, *aggregate, message.clone())));
            }
        }
        Lowered { keys: take(&self.keys), values: take(&self.values), errors }
    }

    /// Appends the results of other groups of a table of the same layout.
    pub fn append(&mut self, other: Lowered) {
        if self.keys.is_empty() && self.values.is_empty() {
            *self = other;
            return;
        }
        let len = self.len() as u32;
        self.keys.iter_mut().zip(&other.keys).for_each(|(a, b)| a.append(b));
        self.values.iter_mut().zip(&other.values).for_each(|(a, b)| a.append(b));
        self.errors.extend(other.errors.into_iter().map(|(group, i, message)| (group + len, i, message)));
    }
}

/// Groups and their states.
///
/// What is published does not depend on the order of inserts and merges; the order of groups does, and so do the
/// bytes of a serialised table.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "RawTable")]
pub struct Table {
    pub(super) spec: Arc<TableSpec>,
    pub(super) keys: Keys,
    pub(super) states: Vec<Accumulator>,
}

thread_local! {
    /// Groups of the rows of a batch; kept so that small batches do not allocate.
    static GROUPS: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
}

impl Table {
    /// A table without groups.
    pub fn new(spec: Arc<TableSpec>) -> Table {
        let states = spec.aggregates.iter().map(Accumulator::new).collect();
        Table { keys: Keys::new(&spec.keys), states, spec }
    }

    /// The layout.
    pub fn spec(&self) -> &Arc<TableSpec> {
        &self.spec
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Estimated memory in bytes. Costs a pass over the groups if states hold memory aside (texts, lists, sketches).
    pub fn bytes(&self) -> usize {
        size_of::<Table>() + self.keys.bytes() + self.states.iter().map(Accumulator::bytes).sum::<usize>()
    }

    /// Estimated bytes of a group with a key of this layout: the key and its place in the index, and the fixed part of each state; texts
    /// count as those of up to 15 bytes, lists and sketches as empty.
    pub fn bytes_per_group(spec: &TableSpec) -> usize {
        const GROUPS: usize = 64;
        let words = |dtype: &DataType| if matches!(dtype, DataType::Text | DataType::Decimal { .. }) { 16 } else { 8 };
        let key: usize = spec.keys.iter().map(words).sum();
        let state = |spec: &AggregateSpec| {
            let mut states = Accumulator::new(spec);
            states.grow(GROUPS);
            states.bytes() / GROUPS
        };
        // The key stands in the list and, with its number and a byte of control, in the index, which is 7/8 full at most.
        key + (key + 5) * 8 / 7 + spec.aggregates.iter().map(state).sum::<usize>()
    }

    /// Adds the selected rows of a batch. Rows that a `FILTER` refuses make a group too.
    ///
    /// # Panics
    /// When a selected row is not in the batch, or columns are shorter than the batch.
    pub fn insert(&mut self, rows: &Rows, selected: &[u32]) {
        if selected.is_empty() {
            return;
        }
        let mut groups = GROUPS.take();
        groups.clear();
        self.keys.upsert(&rows.keys, selected, &mut groups);
        let len = self.keys.len();
        for (i, states) in self.states.iter_mut().enumerate() {
            states.grow(len);
            states.update(Batch {
                groups: &groups,
                selected,
                arg: rows.args.get(i).and_then(Option::as_ref),
                filter: rows.filters.get(i).and_then(Option::as_deref),
                order: rows.order.as_deref(),
            });
        }
        GROUPS.set(groups);
    }

    /// Adds another table of the same layout.
    pub fn merge(&mut self, other: &Table) {
        if self.is_empty() {
            *self = other.clone();
            return;
        }
        let from: Vec<u32> = (0..other.len() as u32).collect();
        self.merge_groups(other, &from);
    }

    /// Adds the groups of another table whose keys are in `keys` (three tables of the same keys).
    pub fn merge_matching(&mut self, other: &Table, keys: &Table) {
        // Look the smaller side's keys up in the larger one.
        let from: Vec<u32> = if keys.len() < other.len() {
            other.keys.find(&keys.keys).into_iter().filter(|g| *g != NONE).collect()
        } else {
            (0u32..).zip(keys.keys.find(&other.keys)).filter(|(_, found)| *found != NONE).map(|(g, _)| g).collect()
        };
        self.merge_groups(other, &from);
    }

    /// The group here of each key of `keys`, in its order; [`Table::NOWHERE`] where there is none.
    pub fn places(&self, keys: &Table) -> Vec<u32> {
        self.keys.find(&keys.keys)
    }

    /// What [`Self::places`] says of a key that is not here.
    pub const NOWHERE: u32 = NONE;

    fn merge_groups(&mut self, other: &Table, from: &[u32]) {
        let to = self.keys.merge(&other.keys, from);
        let len = self.keys.len();
        for (mine, others) in self.states.iter_mut().zip(&other.states) {
            mine.grow(len);
            mine.merge(others, from, &to);
        }
    }

    /// The group columns, by group.
    pub fn key_columns(&self) -> Vec<Column> {
        self.keys.columns()
    }

    /// The results of all groups, in the order of [`Self::key_columns`] (which depends on the order of inserts).
    pub fn lower(&self) -> Lowered {
        let mut errors = Vec::new();
        let mut values = Vec::with_capacity(self.states.len());
        for (i, (states, spec)) in self.states.iter().zip(&self.spec.aggregates).enumerate() {
            let mut failed = Vec::new();
            values.push(states.lower(spec, &mut failed));
            errors.extend(failed.into_iter().map(|(group, message)| (group, i, message)));
        }
        errors.sort();
        Lowered { keys: self.keys.columns(), values, errors }
    }

    /// The results of one aggregate, by group, where they can be published; `None` if there is no such aggregate.
    pub fn lower_one(&self, aggregate: usize) -> Option<Column> {
        let (states, spec) = (self.states.get(aggregate)?, self.spec.aggregates.get(aggregate)?);
        Some(states.lower(spec, &mut Vec::new()))
    }

    /// Deals the groups out to `parts` tables by [`route`](super::route) of their keys. `parts` = 0 counts as 1.
    pub fn split(self, parts: usize) -> Vec<Table> {
        let parts = parts.max(1);
        if parts == 1 {
            return vec![self];
        }
        let routes = self.keys.routes(parts);
        let mut out: Vec<Table> = (0..parts).map(|_| Table::new(Arc::clone(&self.spec))).collect();
        for (part, table) in (0u32..).zip(&mut out) {
            let from: Vec<u32> = (0u32..).zip(&routes).filter(|(_, r)| **r == part).map(|(g, _)| g).collect();
            table.keys.merge(&self.keys, &from);
        }
        for (i, states) in self.states.into_iter().enumerate() {
            for (table, states) in out.iter_mut().zip(states.split(&routes, parts)) {
                if let Some(slot) = table.states.get_mut(i) {
                    *slot = states;
                }
            }
        }
        out
    }
}

/// A table as it was read, before it is checked.
#[derive(Deserialize)]
struct RawTable {
    spec: Arc<TableSpec>,
    keys: Keys,
    states: Vec<Accumulator>,
}

impl TryFrom<RawTable> for Table {
    type Error = &'static str;
    fn try_from(raw: RawTable) -> Result<Table, &'static str> {
        let RawTable { spec, keys, states } = raw;
        let kinds = states.len() == spec.aggregates.len()
            && states.iter().zip(&spec.aggregates).all(|(s, spec)| s.is_for(spec));
        if !kinds || !keys.is_sound(&spec.keys) || states.iter().any(|s| s.len() != keys.len()) {
            return Err("the states of a table do not fit its layout");
        }
        Ok(Table { spec, keys, states })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::AggregateFunc;
    use crate::types::Value;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn column(dtype: DataType, values: &[Value]) -> Column {
        let mut out = Column::new(dtype);
        values.iter().for_each(|v| out.push(v));
        out
    }

    /// Every result as (key, values), sorted.
    fn results(table: &Table) -> Vec<(Vec<Value>, Vec<Value>)> {
        let lowered = table.lower();
        assert_eq!(lowered.errors, []);
        let row = |columns: &[Column], i: usize| columns.iter().map(|c| c.value(i)).collect::<Vec<_>>();
        let mut out: Vec<_> = (0..table.len()).map(|i| (row(&lowered.keys, i), row(&lowered.values, i))).collect();
        out.sort();
        out
    }

    fn spec(keys: &[DataType]) -> Arc<TableSpec> {
        let aggregate = |func, arg| AggregateSpec { func, arg };
        let aggregates =
            vec![aggregate(AggregateFunc::CountAll, None), aggregate(AggregateFunc::Sum, Some(DataType::BigInt))];
        Arc::new(TableSpec { keys: keys.to_vec(), aggregates })
    }

    fn rows(keys: Vec<Column>, args: &[i64]) -> Rows {
        let values: Vec<Value> = args.iter().map(|x| Value::BigInt(*x)).collect();
        let arg = column(DataType::BigInt, &values);
        Rows { len: args.len(), keys, args: vec![None, Some(arg)], filters: vec![None, None], order: None }
    }

    /// Keys of every shape, NULLs among them, and long texts that come late.
    fn key_columns(dtype: &DataType) -> Column {
        let text = |s: &str| Value::Text(s.into());
        let values = match dtype {
            DataType::Boolean => [Value::Boolean(true), Value::Boolean(false), Value::Null, Value::Boolean(true)],
            DataType::Double => [Value::Double(-0.0), Value::Double(f64::NAN), Value::Null, Value::Double(0.0)],
            DataType::Decimal { .. } => {
                [Value::Decimal(-7, 2), Value::Decimal(0, 2), Value::Null, Value::Decimal(-7, 2)]
            }
            DataType::Text => [text("a"), text("a text of more than fifteen bytes"), Value::Null, text("a")],
            _ => [Value::BigInt(0), Value::BigInt(-1), Value::Null, Value::BigInt(0)],
        };
        column(dtype.clone(), &values)
    }

    #[test]
    fn groups_of_every_key_type_insert_merge_split_and_survive_serde() {
        let decimal = DataType::Decimal { precision: 9, scale: 2 };
        let types = [DataType::Boolean, DataType::Double, decimal, DataType::Text, DataType::BigInt];
        let mut sets: Vec<Vec<DataType>> = vec![vec![]];
        for a in &types {
            sets.push(vec![a.clone()]);
            sets.extend(types.iter().map(|b| vec![a.clone(), b.clone()]));
        }
        for keys in sets {
            let spec = spec(&keys);
            let batch = rows(keys.iter().map(key_columns).collect(), &[1, 10, 100, 1000]);
            let mut whole = Table::new(Arc::clone(&spec));
            whole.insert(&batch, &[0, 1, 2, 3]);
            let sums: Vec<Value> = results(&whole).iter().map(|(_, v)| v[1].clone()).collect();
            let mut expected = if keys.is_empty() { vec![1111] } else { vec![1001, 10, 100] };
            let mut found: Vec<i64> = sums.iter().map(|v| if let Value::BigInt(x) = v { *x } else { 0 }).collect();
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{keys:?}");

            // Narrow into wide, wide into narrow.
            for (first, second) in [([0u32, 3], [1u32, 2]), ([1, 2], [0, 3])] {
                let (mut a, mut b) = (Table::new(Arc::clone(&spec)), Table::new(Arc::clone(&spec)));
                a.insert(&batch, &first);
                b.insert(&batch, &second);
                let mut matching = a.clone();
                matching.merge_matching(&whole, &b);
                let found: i64 =
                    results(&matching).iter().map(|(_, v)| if let Value::BigInt(x) = v[1] { x } else { 0 }).sum();
                let sums = |rows: &[u32]| rows.iter().map(|r| 10i64.pow(*r)).sum::<i64>();
                let expected = sums(&first) + if keys.is_empty() { 1111 } else { sums(&second) };
                assert_eq!(found, expected, "{keys:?}");
                a.merge(&b);
                assert_eq!(results(&a), results(&whole), "{keys:?}");
            }

            let json = serde_json::to_string(&whole).unwrap();
            let mut read: Table = serde_json::from_str(&json).unwrap();
            assert_eq!(results(&read), results(&whole));
            read.insert(&batch, &[0, 1, 2, 3]);
            assert_eq!(read.len(), whole.len(), "the index is there again");

            let routes = super::super::route(&batch.keys, 4, 3);
            let mut joined = Vec::new();
            for (part, table) in whole.clone().split(3).iter().enumerate() {
                let mine: Vec<u32> = (0..4).filter(|r| routes[*r as usize] as usize == part).collect();
                let mut direct = Table::new(Arc::clone(&spec));
                direct.insert(&batch, &mine);
                assert_eq!(results(table), results(&direct), "rows and groups go the same way, {keys:?}");
                joined.extend(results(table));
            }
            joined.sort();
            assert_eq!(joined, results(&whole));
        }
    }

    /// One value of a key column: few different ones, NULLs, texts around the length that is packed.
    fn key_value(dtype: &DataType) -> BoxedStrategy<Value> {
        let some = match dtype {
            DataType::Text => "[ab]{0,2}|[ab]{14,16}".prop_map(|s| Value::Text(s.as_str().into())).boxed(),
            DataType::Double => proptest::sample::select(vec![0.0, -0.0, f64::NAN, 1.5, f64::NEG_INFINITY])
                .prop_map(Value::Double)
                .boxed(),
            _ => (-3i64..3).prop_map(Value::BigInt).boxed(),
        };
        prop_oneof![8 => some, 1 => Just(Value::Null)].boxed()
    }

    fn keyed_rows() -> impl Strategy<Value = (Vec<DataType>, Vec<Vec<Value>>)> {
        let one = proptest::sample::select(vec![DataType::Text, DataType::Double, DataType::BigInt]);
        proptest::collection::vec(one, 0..4).prop_flat_map(|types| {
            let row: Vec<_> = types.iter().map(key_value).collect();
            (Just(types), proptest::collection::vec(row, 0..60))
        })
    }

    proptest! {
        #[test]
        fn groups_are_those_of_a_map((types, all) in keyed_rows(), cut in 0usize..60, other in 0usize..60) {
            let spec = spec(&types);
            let keys = |i: usize| column(types[i].clone(), &all.iter().map(|r| r[i].clone()).collect::<Vec<_>>());
            let args: Vec<i64> = (0..all.len() as i64).collect();
            let batch = rows((0..types.len()).map(keys).collect(), &args);
            let (cut, other) = (cut.min(all.len()), other.min(all.len()));
            let expect = |rows: &[usize]| {
                let mut map: BTreeMap<Vec<Value>, (i64, i64)> = BTreeMap::new();
                for row in rows {
                    let entry = map.entry(all[*row].clone()).or_default();
                    *entry = (entry.0 + 1, entry.1 + *row as i64);
                }
                let big = |(k, (n, sum))| (k, vec![Value::BigInt(n), Value::BigInt(sum)]);
                map.into_iter().map(big).collect::<Vec<_>>()
            };
            let table = |rows: std::ops::Range<usize>| {
                let mut table = Table::new(Arc::clone(&spec));
                let rows: Vec<u32> = rows.map(|r| r as u32).collect();
                rows.chunks(7).for_each(|rows| table.insert(&batch, rows));
                table
            };
            let every: Vec<usize> = (0..all.len()).collect();
            let (first, second, keys) = (table(0..cut), table(cut..all.len()), table(0..other));
            let mut whole = first.clone();
            whole.merge(&second);
            prop_assert_eq!(results(&whole), expect(&every));

            let mut matching = first;
            matching.merge_matching(&second, &keys);
            let wanted = |r: &usize| *r < cut || all[..other].contains(&all[*r]);
            let every: Vec<usize> = every.into_iter().filter(wanted).collect();
            prop_assert_eq!(results(&matching), expect(&every));
        }
    }

    #[test]
    fn filters_make_groups_and_hide_values() {
        let mut table = Table::new(spec(&[DataType::BigInt]));
        let keys = column(DataType::BigInt, &[Value::BigInt(1), Value::BigInt(2)]);
        let mut batch = rows(vec![keys], &[5, 6]);
        batch.filters = vec![Some(vec![true, false]), Some(vec![false, false])];
        table.insert(&batch, &[0, 1]);
        let expected = [(1, 1), (2, 0)].map(|(k, n)| (vec![Value::BigInt(k)], vec![Value::BigInt(n), Value::Null]));
        assert_eq!(results(&table), expected);
    }

    #[test]
    fn a_sum_that_does_not_fit_is_an_error_and_may_fit_again() {
        let mut table = Table::new(spec(&[]));
        table.insert(&rows(vec![], &[i64::MAX, 1]), &[0, 1]);
        let errors = table.lower().errors;
        assert_eq!(errors, [(0, 1, "the sum 9223372036854775808 does not fit BIGINT".to_string())]);
        table.insert(&rows(vec![], &[-1]), &[0]);
        assert_eq!(results(&table)[0].1[1], Value::BigInt(i64::MAX));
    }

    #[test]
    fn a_broken_table_is_refused() {
        let mut table = Table::new(spec(&[DataType::BigInt]));
        table.insert(&rows(vec![column(DataType::BigInt, &[Value::BigInt(1)])], &[5]), &[0]);
        let json = serde_json::to_string(&table).unwrap();
        assert!(serde_json::from_str::<Table>(&json).is_ok());
        for broken in [json.replace("\"One\":[1]", "\"One\":[1,1]"), json.replace("\"One\":[1]", "\"One\":[1,2]")] {
            assert_ne!(broken, json);
            assert!(serde_json::from_str::<Table>(&broken).is_err(), "{broken}");
        }
    }
}
