//! From tables to published rows: lower the states, evaluate `HAVING` and the select list, and say what changed.

use crate::aggregate::table::{Lowered, Table};
use crate::engine::ResultRow;
use crate::expr::Expr;
use crate::expr::eval::evaluate_lenient;
use crate::plan::WindowedPlan;
use crate::time::Instant;
use crate::types::{Column, ColumnData, DataType, Value};
use crate::window::core::{Changes, SliceTable};
use std::collections::{BTreeMap, BTreeSet};

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
}

/// The rows of a table in the order of their keys: rows are then made where those that follow each other will be read one after
/// another.
fn in_order(keys: &[Column], len: usize) -> Vec<usize> {
    let mut order: Vec<(u64, usize)> = (0..len).map(|row| (keys.first().map_or(0, |c| c.rough(row)), row)).collect();
    order.sort_unstable_by(|a, b| {
        let full = || keys.iter().map(|c| c.value(a.1).cmp(&c.value(b.1))).find(|o| o.is_ne()).unwrap_or(a.1.cmp(&b.1));
        a.0.cmp(&b.0).then_with(full)
    });
    order.into_iter().map(|(_, row)| row).collect()
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

/// An update of the collection of results.
pub type Update = (ResultRow, Instant, isize);

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

    /// Rows of one window; a group that `HAVING` removes has none.
    fn rows(&self, window_us: (i64, i64), lowered: &Lowered) -> Vec<Option<ResultRow>> {
        let len = lowered.values.first().map_or(0, Column::len);
        let bound = |t: i64| Column::constant(DataType::Timestamp, &Value::Timestamp(t), len);
        let (start, end) = (bound(window_us.0), bound(window_us.1));
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
        let select: Vec<_> = self
            .select
            .iter()
            .zip(&self.columns)
            .map(|(expr, column)| eval(expr, column, &mut select_errors))
            .collect();
        let passes = |row: usize| match &keep {
            None => true,
            Some(column) => {
                matches!(&column.data, ColumnData::Boolean(v) if v.get(row).copied().unwrap_or(false))
                    && !column.is_null(row)
            }
        };
        let row = |row: usize| {
            let fatal = errors.get(&(row as u32));
            (fatal.is_some() || passes(row)).then(|| ResultRow {
                window_us: Some(window_us),
                group: lowered.keys.iter().take(self.groups).map(|c| c.value(row)).collect(),
                late_count: 0,
                values: match fatal.or_else(|| select_errors.get(&(row as u32))) {
                    Some(message) => Err(message.as_str().into()),
                    None => Ok(select.iter().map(|c| c.value(row)).collect()),
                },
            })
        };
        in_order(&lowered.keys, len).into_iter().map(row).collect()
    }

    /// Late records by group.
    fn late_counts(&self, table: &Table) -> BTreeMap<Box<[Value]>, u64> {
        let lowered = table.lower();
        let Some(counts) = lowered.values.get(self.count) else { return BTreeMap::new() };
        let count = |row| match counts.value(row) {
            Value::BigInt(n) => u64::try_from(n).unwrap_or(0),
            _ => 0,
        };
        (0..counts.len()).map(|row| (lowered.keys.iter().map(|c| c.value(row)).collect(), count(row))).collect()
    }
}

/// Collects the updates that a [`crate::window::core::WindowCore`] makes.
pub struct Collector<'a, F: FnMut(Update)> {
    publisher: &'a Publisher,
    give: F,
    /// (key, window) results published on closing.
    pub closed: u64,
    /// Changes of published results.
    pub corrections: u64,
}

impl<'a, F: FnMut(Update)> Collector<'a, F> {
    /// Passes every update to `give`.
    pub fn new(publisher: &'a Publisher, give: F) -> Self {
        Collector { publisher, give, closed: 0, corrections: 0 }
    }
}

impl<F: FnMut(Update)> Changes<Table> for Collector<'_, F> {
    fn closed(&mut self, instant: Instant, window_us: (i64, i64), result: &Table) {
        for row in self.publisher.rows(window_us, &result.lower()).into_iter().flatten() {
            self.closed += 1;
            (self.give)((row, instant, 1));
        }
    }

    fn corrected(
        &mut self,
        instant: Instant,
        window_us: (i64, i64),
        before: &Table,
        after: &Table,
        late_before: &Table,
        late_after: &Table,
    ) {
        for (table, late, diff) in [(before, late_before, -1), (after, late_after, 1)] {
            let counts = self.publisher.late_counts(late);
            for mut row in self.publisher.rows(window_us, &table.lower()).into_iter().flatten() {
                row.late_count = counts.get(&row.group).copied().unwrap_or(0);
                self.corrections += u64::from(diff == 1);
                (self.give)((row, instant, diff));
            }
        }
    }
}
