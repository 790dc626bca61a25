//! Which columns a view reads, and the rows of them that are still in the running.

use crate::expr::Expr;
use crate::plan::{Program, TablePlan, ViewKind, ViewPlan};
use crate::source::DecodedBlock;
use crate::types::{Column, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Table columns that some view of `table` or its watermark needs.
pub fn wanted_columns(program: &Program, table: usize) -> BTreeSet<usize> {
    let mut wanted = BTreeSet::new();
    for view in program.views.iter().filter(|v| v.table == table) {
        wanted.extend(used_columns(view));
    }
    program.tables.get(table).iter().for_each(|plan| watermark_columns(plan, &mut wanted));
    wanted
}

/// Table columns that the watermark needs beside the event time.
pub fn watermark_columns(plan: &TablePlan, wanted: &mut BTreeSet<usize>) {
    if plan.delay_us.is_none() {
        plan.watermark.iter().for_each(|w| w.columns(wanted));
    }
    wanted.extend(plan.policy.iter().filter_map(|policy| policy.column));
}

/// Table columns that the view's expressions read.
pub fn used_columns(view: &ViewPlan) -> BTreeSet<usize> {
    let mut used = BTreeSet::new();
    let mut add = |e: &Expr| e.columns(&mut used);
    view.filter.iter().for_each(&mut add);
    match &view.kind {
        ViewKind::PassThrough(exprs) => exprs.iter().for_each(&mut add),
        ViewKind::Windowed(plan) => {
            plan.group.iter().for_each(&mut add);
            for aggregate in &plan.aggregates {
                aggregate.arg.iter().for_each(&mut add);
                aggregate.filter.iter().for_each(&mut add);
            }
        }
    }
    used
}

/// Rows still in the running, and what has become of the others.
pub(super) struct Sieve {
    /// Ascending rows.
    pub(super) rows: Vec<u32>,
    pub(super) rejected: BTreeMap<u32, String>,
}

impl Sieve {
    /// Takes out the failed rows; `map` translates positions into rows.
    pub(super) fn reject(&mut self, errors: Vec<(u32, String)>, map: &[u32]) {
        for (at, detail) in errors {
            if let Some(row) = map.get(at as usize) {
                self.rejected.entry(*row).or_insert(detail);
            }
        }
    }
    pub(super) fn settle(&mut self) {
        if !self.rejected.is_empty() {
            self.rows.retain(|r| !self.rejected.contains_key(r));
        }
    }
}

/// The used columns of a block, restricted to some rows; borrowed whole where nothing is left out.
pub(super) struct TakenColumns<'a> {
    pub(super) rows: Vec<u32>,
    columns: Vec<std::borrow::Cow<'a, Column>>,
}

static NO_COLUMN: std::sync::LazyLock<Column> =
    std::sync::LazyLock::new(|| Column::new(crate::types::DataType::Boolean));

impl<'a> TakenColumns<'a> {
    pub(super) fn new(block: &'a DecodedBlock, used: &BTreeSet<usize>, rows: &[u32]) -> Self {
        let whole = rows.len() == block.rows;
        let columns = block.columns.iter().enumerate().map(|(index, column)| match column {
            Some(column) if used.contains(&index) && whole => std::borrow::Cow::Borrowed(column),
            Some(column) if used.contains(&index) => std::borrow::Cow::Owned(column.take(rows)),
            _ => std::borrow::Cow::Borrowed(&*NO_COLUMN),
        });
        TakenColumns { rows: rows.to_vec(), columns: columns.collect() }
    }
    pub(super) fn refs(&self) -> Vec<&Column> {
        self.columns.iter().map(|c| &**c).collect()
    }
    pub(super) fn value(&self, column: usize, at: usize) -> Value {
        self.columns.get(column).map_or(Value::Null, |c| c.value(at))
    }
}
