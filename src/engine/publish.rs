//! From tables to published rows: lower the states, evaluate `HAVING` and the select list, and say what changed.

use super::update::UpdateBlock;
use crate::aggregate::table::{Lowered, Table};
use crate::expr::Expr;
use crate::expr::eval::evaluate_lenient;
use crate::per_row::PerRow;
use crate::plan::WindowedPlan;
use crate::time::Instant;
use crate::types::{Column, ColumnData, DataType, Value, compare_rows};
use crate::window::core::{Changes, Correction, SliceTable};
use std::collections::{BTreeMap, BTreeSet};

/// Rows of one block of first results, whose columns then fit the cache; and of corrections, which are given when there are
/// as many, between two instants.
const BLOCK_ROWS: usize = 1 << 13;

impl SliceTable for Table {
    fn empty(&self) -> Self {
        Table::new(self.spec().clone())
    }
    fn is_empty(&self) -> bool {
        Table::is_empty(self)
    }
    fn keys(&self) -> usize {
        self.len()
    }
    fn merge(&mut self, other: &Self) {
        Table::merge(self, other);
    }
    fn merge_matching(&mut self, other: &Self, keys: &Self) {
        Table::merge_matching(self, other, keys);
    }
    fn overlaps(&self, other: &Self) -> bool {
        let (few, many) = if self.len() < other.len() { (self, other) } else { (other, self) };
        many.places(few).iter().any(|place| *place != Table::NOWHERE)
    }
}

/// The groups in the order of their keys.
fn in_order(keys: &[Column], len: usize) -> Vec<u32> {
    let Some(first) = keys.first() else { return (0..len as u32).collect() };
    let mut order: Vec<(u64, u32)> = first.roughs().into_iter().zip(0..).collect();
    if keys.len() == 1 && first.is_told_by_rough() {
        order.sort_unstable_by_key(|(rough, _)| *rough);
    } else {
        order.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| compare_rows(keys, a.1 as usize, keys, b.1 as usize)).then(a.1.cmp(&b.1))
        });
    }
    order.into_iter().map(|(_, group)| group).collect()
}

/// Results that are still to be published.
#[derive(Debug)]
struct Results {
    at: PerRow<Instant>,
    diff: PerRow<i64>,
    window_us: PerRow<Option<(i64, i64)>>,
    late_count: PerRow<u64>,
    lowered: Lowered,
}

/// Where a message says that something failed which only `HAVING` asks for.
const HAVING: &str = "HAVING";

/// Makes published rows of one view.
#[derive(Clone, Debug)]
pub struct Publisher {
    having: Option<Expr>,
    select: Vec<Expr>,
    /// By column of the select list, where a message says that it failed.
    columns: Vec<String>,
    /// The same by aggregate: the first column that reads it.
    of_aggregates: Vec<String>,
    groups: usize,
    aggregates: usize,
    /// Index of the `count(*)` by which late records are counted.
    count: usize,
}

impl Publisher {
    /// For a view whose output has these columns; `count` as given by [`crate::engine::ingest::table_spec`].
    pub fn new(plan: &WindowedPlan, output: &[(String, DataType)], count: usize) -> Self {
        let columns: Vec<String> = output.iter().map(|(name, _)| format!("column \"{name}\"")).collect();
        let of_aggregate = |aggregate: usize| {
            let reads = |expr: &Expr| {
                let mut read = BTreeSet::new();
                expr.columns(&mut read);
                // Of the row after the aggregation: group values, window bounds, aggregates.
                read.contains(&(plan.group.len() + 2 + aggregate))
            };
            let column = plan.select.iter().position(reads).and_then(|at| columns.get(at));
            column.cloned().unwrap_or_else(|| HAVING.to_owned())
        };
        Publisher {
            having: plan.having.clone(),
            select: plan.select.clone(),
            of_aggregates: (0..plan.aggregates.len()).map(of_aggregate).collect(),
            columns,
            groups: plan.group.len(),
            aggregates: plan.aggregates.len(),
            count,
        }
    }

    /// The rows of a window's groups as they are published, `late_count` holding the number of each one's group; and those numbers,
    /// ascending. A group that `HAVING` removes has none.
    pub fn rows(&self, window_us: (i64, i64), lowered: Lowered) -> (Vec<u32>, UpdateBlock) {
        let groups: Vec<u64> = (0..lowered.len() as u64).collect();
        let block = self.block(Results {
            at: PerRow::All(Instant::closing(window_us.1)),
            diff: PerRow::All(1),
            window_us: PerRow::All(Some(window_us)),
            late_count: PerRow::Each(groups),
            lowered,
        });
        let kept = (0..block.len).map(|row| block.late_count.get(row) as u32).collect();
        (kept, block)
    }

    /// The published rows of results; a group that `HAVING` removes has none.
    fn block(&self, results: Results) -> UpdateBlock {
        match self.evaluated(results) {
            (block, Some(kept)) => block.take(&kept),
            (block, None) => block,
        }
    }

    /// A row for every result, and which of them `HAVING` lets pass; `None`: all.
    fn evaluated(&self, results: Results) -> (UpdateBlock, Option<Vec<u32>>) {
        let Results { at, diff, window_us, late_count, lowered } = results;
        let len = lowered.len();
        let bound = |of: fn((i64, i64)) -> i64| match &window_us {
            PerRow::All(window) => Column::constant(DataType::Timestamp, &Value::Timestamp(window.map_or(0, of)), len),
            PerRow::Each(windows) => {
                let data = ColumnData::I64(windows.iter().map(|window| window.map_or(0, of)).collect());
                Column { dtype: DataType::Timestamp, data, nulls: None }
            }
        };
        let (start, end) = (bound(|(start, _)| start), bound(|(_, end)| end));
        let mut input: Vec<&Column> = lowered.keys.iter().collect();
        input.extend([&start, &end]);
        input.extend(lowered.values.iter().take(self.aggregates));
        let mut errors: BTreeMap<u32, String> = BTreeMap::new();
        for (row, aggregate, message) in &lowered.errors {
            if let Some(column) = self.of_aggregates.get(*aggregate) {
                errors.entry(*row).or_insert_with(|| format!("{message} ({column})"));
            }
        }
        let eval = |expr: &Expr, column: &str, errors: &mut BTreeMap<u32, String>| {
            let result = evaluate_lenient(expr, &input, len);
            for (row, message) in result.errors {
                errors.entry(row).or_insert_with(|| format!("{message} ({column})"));
            }
            result.column
        };
        let keep = self.having.as_ref().map(|having| eval(having, HAVING, &mut errors));
        // The select list can fail only for rows that `HAVING` lets pass.
        let mut select_errors = BTreeMap::new();
        let columns = self.select.iter().zip(&self.columns);
        let values: Vec<Column> =
            columns.map(|(expr, column)| eval(expr, column, &mut select_errors).into_owned()).collect();
        let kept = keep.and_then(|keep| passing(&keep, &errors));
        for (row, message) in select_errors {
            errors.entry(row).or_insert(message);
        }
        let errors = errors.into_iter().map(|(row, message)| (row, message.into())).collect();
        let group = lowered.keys.into_iter().take(self.groups).collect();
        (UpdateBlock { len, at, diff, window_us, late_count, group, values, errors }, kept)
    }
}

/// The rows that `HAVING` lets pass, and those for which that cannot be said; `None`: all.
fn passing(keep: &Column, errors: &BTreeMap<u32, String>) -> Option<Vec<u32>> {
    let ColumnData::Boolean(truth) = &keep.data else { return None };
    let passes = |(row, truth): (usize, &bool)| (*truth && !keep.is_null(row)) || errors.contains_key(&(row as u32));
    let rows = truth.iter().enumerate().filter(|row| passes(*row)).map(|(row, _)| row as u32);
    let rows: Vec<u32> = rows.collect();
    (rows.len() < truth.len()).then_some(rows)
}

/// Corrections that are collected.
#[derive(Debug, Default)]
struct Collected {
    at: Vec<Instant>,
    diff: Vec<i64>,
    window_us: Vec<Option<(i64, i64)>>,
    late_count: Vec<u64>,
    lowered: Lowered,
}

/// Collects the updates that a [`crate::window::core::WindowCore`] makes, in blocks.
pub struct Collector<'a, F: FnMut(UpdateBlock)> {
    publisher: &'a Publisher,
    give: F,
    corrections: Collected,
}

impl<'a, F: FnMut(UpdateBlock)> Collector<'a, F> {
    /// Passes every block to `give`. What is collected last comes with [`Self::finish`].
    pub fn new(publisher: &'a Publisher, give: F) -> Self {
        Collector { publisher, give, corrections: Collected::default() }
    }

    /// Gives what is left.
    pub fn finish(&mut self) {
        let Collected { at, diff, window_us, late_count, lowered } = std::mem::take(&mut self.corrections);
        if at.is_empty() {
            return;
        }
        let rough = lowered.keys.first().map(Column::roughs).unwrap_or_else(|| vec![0; at.len()]);
        let places = at.iter().zip(&window_us).zip(&rough).zip(&diff).zip(0u32..);
        let mut order: Vec<_> = places
            .map(|((((at, window), rough), diff), row)| (*at, window.map(|(s, e)| (e, s)), *rough, *diff, row))
            .collect();
        let keys = &lowered.keys;
        order.sort_unstable_by(|a, b| {
            let full = || compare_rows(keys, a.4 as usize, keys, b.4 as usize);
            (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)).then_with(full).then(a.3.cmp(&b.3))
        });
        let order: Vec<u32> = order.into_iter().map(|(_, _, _, _, row)| row).collect();
        let block = self.publisher.block(Results {
            at: PerRow::Each(at).take(&order),
            diff: PerRow::Each(diff).take(&order),
            window_us: PerRow::Each(window_us).take(&order),
            late_count: PerRow::Each(late_count).take(&order),
            lowered: lowered.take(&order),
        });
        (self.give)(block);
    }
}

/// The late records of each group.
fn late_counts(late: &Table, count: usize) -> Vec<u64> {
    match late.lower_one(count).map(|column| column.data) {
        Some(ColumnData::I64(counts)) => counts.into_iter().map(|n| u64::try_from(n).unwrap_or(0)).collect(),
        _ => vec![0; late.len()],
    }
}

/// `values` at `places`; the default where there is none.
fn at_places<T: Copy + Default>(values: &[T], places: Vec<u32>) -> impl Iterator<Item = T> {
    places.into_iter().map(|place| values.get(place as usize).copied().unwrap_or_default())
}

impl<F: FnMut(UpdateBlock)> Changes<Table> for Collector<'_, F> {
    fn settled(&mut self) {
        if self.corrections.at.len() >= BLOCK_ROWS {
            self.finish();
        }
    }

    fn closed(&mut self, instant: Instant, window_us: (i64, i64), result: &Table) {
        self.finish();
        let lowered = result.lower();
        for rows in in_order(&lowered.keys, lowered.len()).chunks(BLOCK_ROWS) {
            let block = self.publisher.block(Results {
                at: PerRow::All(instant),
                diff: PerRow::All(1),
                window_us: PerRow::All(Some(window_us)),
                late_count: PerRow::All(0),
                lowered: lowered.take(rows),
            });
            if block.len > 0 {
                (self.give)(block);
            }
        }
    }

    fn corrected(&mut self, c: &Correction<'_, Table>) {
        // By group of `after`, whose keys stand in the order of the late records.
        let mut instants: Vec<Instant> = Vec::with_capacity(c.after.len());
        c.late.iter().zip(c.keys).for_each(|((at, _), keys)| instants.resize(*keys, *at));
        let count = self.publisher.count;
        let late_before = at_places(&late_counts(c.late_before, count), c.late_before.places(c.before)).collect();
        let instants_before = at_places(&instants, c.after.places(c.before)).collect();
        let late_after = late_counts(c.late_after, count);
        for (table, at, late, diff) in
            [(c.before, instants_before, late_before, -1), (c.after, instants, late_after, 1)]
        {
            let rows = &mut self.corrections;
            rows.at.extend::<Vec<Instant>>(at);
            rows.diff.resize(rows.at.len(), diff);
            rows.window_us.resize(rows.at.len(), Some(c.window_us));
            rows.late_count.extend::<Vec<u64>>(late);
            rows.lowered.append(table.lower());
        }
    }
}
