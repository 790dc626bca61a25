//! From a stamped block to one view's contributions: filter, expressions, lateness, and the ledger.
//!
//! What happens to each record is decided here and only here, in the order of the contract: a value the view uses does
//! not fit → rejected; `WHERE` → filtered (or rejected, if it fails); group and argument expressions fail → rejected;
//! `late_records = 'drop'` → too late; then each of its windows is on time, late or too late.
//!
//! Invariant: every record of a block ends in exactly one class of the view's ledger.

mod classes;
mod columns;
mod dispatch;
mod judge;

pub use columns::{used_columns, wanted_columns, watermark_columns};
pub use dispatch::{Contributions, Keepers, Run};
pub use judge::TooLate;

use crate::aggregate::table::{Rows, TableSpec};
use crate::aggregate::{AggregateFunc, AggregateSpec, RecordOrder};
use crate::engine::update::UpdateBlock;
use crate::expr::Expr;
use crate::expr::eval::evaluate;
use crate::per_row::PerRow;
use crate::plan::{LateRecords, TablePlan, ViewKind, ViewPlan, WindowedPlan};
use crate::record::{ContributionCounts, RecordCounts, RejectReason};
use crate::source::DecodedBlock;
use crate::time::Instant;
use crate::types::{Column, ColumnData, DataType};
use crate::watermark::BEFORE_ALL;
use crate::window::Assigner;
use classes::Classes;
use columns::{Sieve, TakenColumns};
use dispatch::{PreAggregation, dispatch};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A record that one view rejects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewReject {
    /// Row of the block.
    pub row: u32,
    /// What was wrong.
    pub detail: String,
}

/// A block whose place in its source is known.
#[derive(Clone, Copy, Debug)]
pub struct StampedBlock<'a> {
    /// The block.
    pub block: &'a DecodedBlock,
    /// Stamp per row; for a table without watermark, a number that grows from block to block (nothing is ever late).
    pub stamps_us: &'a [i64],
    /// Partition order of each of the block's partition names (one entry if the lane is one partition).
    pub partitions: &'a [u32],
    /// Names of the source's partitions, by partition order.
    pub names: &'a [String],
    /// Position of the block's first line.
    pub first_position: u64,
}

impl StampedBlock<'_> {
    /// Partition order of a row.
    pub fn partition(&self, row: usize) -> u32 {
        let local = self.block.partition.as_ref().and_then(|p| p.get(row)).copied().unwrap_or(0);
        self.partitions.get(local as usize).copied().unwrap_or(0)
    }
    /// Name of a row's partition.
    pub fn name(&self, row: usize) -> &str {
        self.names.get(self.partition(row) as usize).map_or("", String::as_str)
    }
    /// Position of a row in its partition, from 1.
    pub fn position(&self, row: usize) -> u64 {
        self.first_position + u64::from(self.block.line.get(row).copied().unwrap_or(0))
    }
    fn event_time(&self, row: usize) -> i64 {
        self.block.event_time_us.get(row).copied().unwrap_or(0)
    }
    fn stamp(&self, row: usize) -> i64 {
        self.stamps_us.get(row).copied().unwrap_or(i64::MIN)
    }
}

/// What one block means for one view.
#[derive(Clone, Debug, Default)]
pub struct Ingested {
    /// Contributions by worker.
    pub contributions: Vec<(usize, Contributions)>,
    /// Rows that pass through, in the order of their instants.
    pub passed: Option<UpdateBlock>,
    /// Record classes by partition order (rejects of the table not included).
    pub records: BTreeMap<u32, RecordCounts>,
    /// Contribution classes.
    pub counts: ContributionCounts,
    /// Lags of late contributions, accepted or dropped, µs.
    pub lags_us: Vec<i64>,
    /// Dropped contributions, by position and window end.
    pub too_late: Vec<TooLate>,
    /// Rejected by this view, ascending.
    pub rejects: Vec<ViewReject>,
    /// Stamp, slice and row of the records that are late for some window, if they are asked for.
    pub late: Vec<(i64, i64, u32)>,
    /// Row and slice of all records that have windows, if they are asked for.
    pub judged: Vec<(u32, i64)>,
}

/// One view, ready to take blocks. Cheap to share.
#[derive(Clone, Debug)]
pub struct ViewIngest {
    filter: Option<Expr>,
    kind: Kind,
    /// Table columns that the view uses.
    used: BTreeSet<usize>,
    horizon_us: Option<i64>,
    drop_late: bool,
    names: Vec<String>,
    keep_too_late: bool,
    keep_late: bool,
    keep_judged: bool,
    pre_aggregation: Option<PreAggregation>,
}

#[derive(Clone, Debug)]
enum Kind {
    PassThrough(Vec<Expr>),
    Windowed { assigner: Assigner, plan: Box<WindowedPlan>, ordered: bool },
}

/// The layout of a windowed view's tables: its aggregates, and one `count(*)` more if it has none, by which late records
/// are counted, and last the least stamp if the plan asks for it. Returns the layout and the index of that count.
pub fn table_spec(plan: &WindowedPlan) -> (Arc<TableSpec>, usize) {
    let mut aggregates: Vec<AggregateSpec> = plan.aggregates.iter().map(|a| a.spec.clone()).collect();
    let plain = |a: &crate::plan::AggregatePlan| a.spec.func == AggregateFunc::CountAll && a.filter.is_none();
    let count = plan.aggregates.iter().position(plain).unwrap_or(aggregates.len());
    if count == aggregates.len() {
        aggregates.push(AggregateSpec { func: AggregateFunc::CountAll, arg: None });
    }
    if plan.first_stamp {
        aggregates.push(AggregateSpec { func: AggregateFunc::Min, arg: Some(DataType::BigInt) });
    }
    let keys = plan.group.iter().map(|e| e.dtype.clone()).collect();
    (Arc::new(TableSpec { keys, aggregates }), count)
}

impl ViewIngest {
    /// For a view of the program.
    pub fn new(view: &ViewPlan, table: &TablePlan) -> Self {
        let kind = match &view.kind {
            ViewKind::PassThrough(exprs) => Kind::PassThrough(exprs.clone()),
            ViewKind::Windowed(plan) => Kind::Windowed {
                assigner: Assigner::new(plan.window),
                ordered: plan.aggregates.iter().any(|a| a.spec.is_ordered()),
                plan: Box::new(plan.clone()),
            },
        };
        ViewIngest {
            filter: view.filter.clone(),
            kind,
            used: used_columns(view),
            horizon_us: view.horizon_us,
            drop_late: table.late_records == LateRecords::Drop && table.event_time.is_some(),
            names: table.columns.iter().map(|c| c.name.clone()).collect(),
            keep_too_late: view.late.is_some(),
            keep_late: false,
            keep_judged: false,
            pre_aggregation: match &view.kind {
                ViewKind::PassThrough(_) => None,
                ViewKind::Windowed(plan) => Some(PreAggregation::new(table_spec(plan).0)),
            },
        }
    }

    /// Keeps the too-late contributions even if no file takes them (tests, `verify`).
    #[must_use]
    pub fn keeping_too_late(mut self) -> Self {
        self.keep_too_late = true;
        self
    }

    /// Gives stamps and slices of late records as well (the lateness lab).
    #[must_use]
    pub fn keeping_late(mut self) -> Self {
        self.keep_late = true;
        self
    }

    /// Gives rows and slices of all records with windows as well.
    #[must_use]
    pub fn keeping_judged(mut self) -> Self {
        self.keep_judged = true;
        self
    }

    /// The table columns the view uses, ascending.
    pub fn used(&self) -> &BTreeSet<usize> {
        &self.used
    }

    /// Works out one block; keys are routed over `keepers`.
    pub fn process(&mut self, stamped: &StampedBlock<'_>, keepers: &Keepers) -> Ingested {
        let block = stamped.block;
        let mut out = Ingested::default();
        let mut sieve = Sieve { rows: (0..block.rows as u32).collect(), rejected: BTreeMap::new() };
        self.reject_misfits(block, &mut sieve);
        let filtered = self.filter(block, &mut sieve);
        let columns = TakenColumns::new(block, &self.used, &sieve.rows);
        let mut classes = Classes::new(stamped);
        for row in filtered {
            classes.count(row, |c| c.filtered += 1);
        }
        match &self.kind {
            Kind::PassThrough(exprs) => self.pass(stamped, exprs, &columns, sieve, &mut classes, &mut out),
            Kind::Windowed { assigner, plan, ordered } => {
                let rows = window_rows(stamped, plan, *ordered, &columns, &mut sieve);
                let runs = self.classify(stamped, assigner, &columns, &sieve, &mut classes, &mut out);
                if !runs.is_empty() {
                    dispatch(rows, runs, keepers, self.pre_aggregation.as_mut(), &mut out);
                }
                finish_rejects(sieve, &mut classes, &mut out);
            }
        }
        out.records = classes.finish();
        debug_assert!(out.records.values().all(RecordCounts::balances));
        debug_assert_eq!(out.records.values().map(|c| c.read).sum::<u64>(), block.rows as u64);
        out
    }

    /// What of a block the view rejects, ascending. It needs no stamps: lateness is looked at afterwards.
    pub fn rejects(&mut self, block: &DecodedBlock) -> Vec<ViewReject> {
        let stamps = vec![BEFORE_ALL; block.rows];
        let stamped = StampedBlock { block, stamps_us: &stamps, partitions: &[], names: &[], first_position: 1 };
        self.process(&stamped, &Keepers::alone()).rejects
    }

    /// The rows of a block that the view takes into its windows, ascending, with the hash of each row's group (those of one
    /// group are equal). It needs no stamps: lateness is not looked at.
    pub fn groups(&self, block: &DecodedBlock) -> Vec<(u32, u64)> {
        let Kind::Windowed { plan, ordered, .. } = &self.kind else { return Vec::new() };
        let stamps = vec![BEFORE_ALL; block.rows];
        let stamped = StampedBlock { block, stamps_us: &stamps, partitions: &[], names: &[], first_position: 1 };
        let mut sieve = Sieve { rows: (0..block.rows as u32).collect(), rejected: BTreeMap::new() };
        self.reject_misfits(block, &mut sieve);
        self.filter(block, &mut sieve);
        let columns = TakenColumns::new(block, &self.used, &sieve.rows);
        let map = columns.rows.clone();
        let rows = window_rows(&stamped, plan, *ordered, &columns, &mut sieve);
        let hashes = crate::aggregate::hashes(&rows.keys, rows.len);
        map.into_iter().zip(hashes).filter(|(row, _)| !sieve.rejected.contains_key(row)).collect()
    }

    /// Values of used columns that did not fit make the record a reject, whatever the filter says.
    fn reject_misfits(&self, block: &DecodedBlock, sieve: &mut Sieve) {
        for (row, column, detail) in &block.errors {
            if self.used.contains(&(*column as usize)) {
                sieve.rejected.entry(*row).or_insert_with(|| detail.clone());
            }
        }
        sieve.settle();
    }

    /// Applies `WHERE`; returns the rows it removes.
    fn filter(&self, block: &DecodedBlock, sieve: &mut Sieve) -> Vec<u32> {
        let Some(filter) = &self.filter else { return Vec::new() };
        let columns = TakenColumns::new(block, &self.used, &sieve.rows);
        let result = evaluate(filter, &columns.refs(), sieve.rows.len());
        let before = std::mem::take(&mut sieve.rows);
        sieve.reject(result.errors, &before);
        let (mut kept, mut removed) = (Vec::with_capacity(before.len()), Vec::new());
        let truth = match &result.column.data {
            ColumnData::Boolean(v) => v.as_slice(),
            _ => &[],
        };
        for (at, row) in before.into_iter().enumerate() {
            if truth.get(at).copied().unwrap_or(false) && !result.column.is_null(at) {
                kept.push(row);
            } else if !sieve.rejected.contains_key(&row) {
                removed.push(row);
            }
        }
        sieve.rows = kept;
        sieve.settle();
        removed
    }

    fn pass(
        &self,
        stamped: &StampedBlock<'_>,
        exprs: &[Expr],
        columns: &TakenColumns<'_>,
        mut sieve: Sieve,
        classes: &mut Classes<'_>,
        out: &mut Ingested,
    ) {
        let map = sieve.rows.clone();
        let mut results = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let result = evaluate(expr, &columns.refs(), map.len());
            sieve.reject(result.errors, &map);
            results.push(result.column);
        }
        // Without a watermark the records pass as they stand, whatever their partitions.
        let timed = !stamped.block.event_time_us.is_empty();
        let (mut taken, mut instants) = (Vec::with_capacity(map.len()), Vec::with_capacity(map.len()));
        let (mut partitions, mut positions) = (Vec::with_capacity(map.len()), Vec::with_capacity(map.len()));
        for (at, row) in map.into_iter().enumerate() {
            if sieve.rejected.contains_key(&row) {
                continue;
            }
            let r = row as usize;
            let (stamp, et) = (stamped.stamp(r), stamped.event_time(r));
            if self.drop_late && et < stamp {
                classes.count(row, |c| c.too_late += 1);
                out.counts.too_late += 1;
                self.too_late(stamped, columns, at, r, None, stamp.saturating_sub(et), out);
                continue;
            }
            // One contribution, as a dropped row is one too.
            classes.count(row, |c| c.on_time += 1);
            out.counts.on_time += 1;
            taken.push(at as u32);
            instants.push(Instant::of_stamp(stamp));
            partitions.push(i64::from(if timed { stamped.partition(r) } else { stamped.block.lane }));
            positions.push(i64::try_from(stamped.position(r)).unwrap_or(i64::MAX));
        }
        if !taken.is_empty() {
            let place = |numbers| Column { dtype: DataType::BigInt, data: ColumnData::I64(numbers), nulls: None };
            out.passed = Some(UpdateBlock {
                len: taken.len(),
                at: PerRow::Each(instants),
                diff: PerRow::All(1),
                window_us: PerRow::All(None),
                late_count: PerRow::All(0),
                group: vec![place(partitions), place(positions)],
                values: results.iter().map(|column| column.take(&taken)).collect(),
                errors: Vec::new(),
            });
            out.passed = out.passed.take().map(by_instant);
        }
        finish_rejects(sieve, classes, out);
    }

    /// Names of the columns in [`TooLate::columns`].
    pub fn too_late_names(&self) -> Vec<String> {
        self.used.iter().filter_map(|c| self.names.get(*c).cloned()).collect()
    }
}

/// Stamps of several partitions stand in one block as they come.
fn by_instant(block: UpdateBlock) -> UpdateBlock {
    let PerRow::Each(at) = &block.at else { return block };
    if at.is_sorted() {
        return block;
    }
    let mut rows: Vec<u32> = (0..block.len as u32).collect();
    rows.sort_by_key(|row| block.at.get(*row as usize));
    block.take(&rows)
}

fn finish_rejects(sieve: Sieve, classes: &mut Classes<'_>, out: &mut Ingested) {
    for (row, detail) in sieve.rejected {
        classes.count(row, |c| *c.rejected.entry(RejectReason::Value).or_default() += 1);
        out.rejects.push(ViewReject { row, detail });
    }
}

/// Evaluates group and argument expressions over the rows that passed.
fn window_rows(
    stamped: &StampedBlock<'_>,
    plan: &WindowedPlan,
    ordered: bool,
    columns: &TakenColumns<'_>,
    sieve: &mut Sieve,
) -> Rows {
    let map = columns.rows.clone();
    let refs = columns.refs();
    let mut rows = Rows { len: map.len(), ..Rows::default() };
    let mut eval = |expr: &Expr| {
        let result = evaluate(expr, &refs, map.len());
        sieve.reject(result.errors, &map);
        result.column.into_owned()
    };
    rows.keys = plan.group.iter().map(&mut eval).collect();
    for aggregate in &plan.aggregates {
        rows.args.push(aggregate.arg.as_ref().map(&mut eval));
        let filter = aggregate.filter.as_ref().map(&mut eval);
        rows.filters.push(filter.map(|column| {
            let ColumnData::Boolean(truth) = &column.data else { return vec![false; map.len()] };
            truth.iter().enumerate().map(|(at, t)| *t && !column.is_null(at)).collect()
        }));
    }
    let (spec, _) = table_spec(plan);
    for extra in spec.aggregates.iter().skip(plan.aggregates.len()) {
        // A count has no argument; what else there is takes the stamp.
        let stamps = || ColumnData::I64(map.iter().map(|row| stamped.stamp(*row as usize)).collect());
        let arg = extra.arg.as_ref().map(|dtype| Column { dtype: dtype.clone(), data: stamps(), nulls: None });
        rows.args.push(arg);
        rows.filters.push(None);
    }
    if ordered {
        let order = |&row: &u32| RecordOrder {
            event_time_us: stamped.event_time(row as usize),
            partition: stamped.partition(row as usize),
            position: stamped.position(row as usize),
        };
        rows.order = Some(map.iter().map(order).collect());
    }
    sieve.settle();
    rows
}
