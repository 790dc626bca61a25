//! From a stamped block to one view's contributions: filter, expressions, lateness, and the ledger.
//!
//! What happens to each record is decided here and only here, in the order of the contract: a value the view uses does
//! not fit → rejected; `WHERE` → filtered (or rejected, if it fails); group and argument expressions fail → rejected;
//! `late_records = 'drop'` → too late; then each of its windows is on time, late or too late.
//!
//! Invariant: every record of a block ends in exactly one class of the view's ledger.

use crate::aggregate::table::{Rows, Table, TableSpec};
use crate::aggregate::{AggregateFunc, AggregateSpec, RecordOrder, route};
use crate::engine::ResultRow;
use crate::expr::Expr;
use crate::expr::eval::evaluate;
use crate::plan::{LateRecords, Program, TablePlan, ViewKind, ViewPlan, WindowedPlan};
use crate::record::{ContributionCounts, RecordCounts, RejectReason};
use crate::source::DecodedBlock;
use crate::time::Instant;
use crate::types::{Column, ColumnData, Value};
use crate::window::Assigner;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Contributions to one slice that share a fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The slice.
    pub slice: i64,
    /// `None`: on time for every window of the slice; else the stamp they wait for.
    pub late_stamp_us: Option<i64>,
    /// First index into [`Contributions::selected`].
    pub start: u32,
    /// Number of rows.
    pub len: u32,
}

/// Rows on their way to the worker that keeps their keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contributions {
    /// The rows' columns.
    pub rows: Rows,
    /// Row numbers, by run.
    pub selected: Vec<u32>,
    /// The runs.
    pub runs: Vec<Run>,
    /// Contributions already combined by slice and key, on time for every window of their slice; no table is empty.
    pub combined: Vec<(i64, Table)>,
}

/// Whether rows are combined by key before they travel: only where that makes few rows of many.
#[derive(Clone, Debug)]
struct PreAggregation {
    spec: Arc<TableSpec>,
    pays: bool,
    blocks: u32,
}

impl PreAggregation {
    /// Rows a group must stand for to be worth combining.
    const REDUCTION_MIN: usize = 4;
    /// Every so many blocks it is tried again.
    const PROBE_BLOCKS: u32 = 32;

    fn new(spec: Arc<TableSpec>) -> Self {
        PreAggregation { spec, pays: true, blocks: 0 }
    }
    fn wanted(&mut self) -> bool {
        self.blocks = (self.blocks + 1) % Self::PROBE_BLOCKS;
        self.pays || self.blocks == 0
    }
    fn learn(&mut self, rows: usize, groups: usize) {
        self.pays = rows >= groups.saturating_mul(Self::REDUCTION_MIN);
    }
}

/// A contribution that comes after its window's horizon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TooLate {
    /// Order of the partition.
    pub partition: u32,
    /// Its name.
    pub partition_name: Arc<str>,
    /// Position in the partition, from 1.
    pub position: u64,
    /// Event time, µs.
    pub event_time_us: i64,
    /// Stamp, µs.
    pub stamp_us: i64,
    /// The window; `None` under `late_records = 'drop'`.
    pub window_us: Option<(i64, i64)>,
    /// `stamp − end` (under `late_records = 'drop'`: `stamp − et`), µs.
    pub lag_us: i64,
    /// The columns that the query references, in table order.
    pub columns: Vec<Value>,
}

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
    /// Stamp per row; empty for a table without watermark (then nothing is ever late).
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
    /// Rows that pass through, with their instants.
    pub passed: Vec<(ResultRow, Instant)>,
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
    pre_aggregation: Option<PreAggregation>,
}

#[derive(Clone, Debug)]
enum Kind {
    PassThrough(Vec<Expr>),
    Windowed { assigner: Assigner, plan: Box<WindowedPlan>, ordered: bool },
}

/// The layout of a windowed view's tables: its aggregates, and one `count(*)` more if it has none, by which late records
/// are counted. Returns the layout and the index of that count.
pub fn table_spec(plan: &WindowedPlan) -> (Arc<TableSpec>, usize) {
    let mut aggregates: Vec<AggregateSpec> = plan.aggregates.iter().map(|a| a.spec.clone()).collect();
    let plain = |a: &crate::plan::AggregatePlan| a.spec.func == AggregateFunc::CountAll && a.filter.is_none();
    let count = plan.aggregates.iter().position(plain).unwrap_or(aggregates.len());
    if count == aggregates.len() {
        aggregates.push(AggregateSpec { func: AggregateFunc::CountAll, arg: None });
    }
    let keys = plan.group.iter().map(|e| e.dtype.clone()).collect();
    (Arc::new(TableSpec { keys, aggregates }), count)
}

/// Table columns that some view of `table` or its watermark needs.
pub fn wanted_columns(program: &Program, table: usize) -> BTreeSet<usize> {
    let mut wanted = BTreeSet::new();
    for view in program.views.iter().filter(|v| v.table == table) {
        wanted.extend(used_columns(view));
    }
    if let Some(plan) = program.tables.get(table)
        && plan.delay_us.is_none()
    {
        plan.watermark.iter().for_each(|w| w.columns(&mut wanted));
    }
    wanted
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
struct Sieve {
    /// Ascending rows.
    rows: Vec<u32>,
    rejected: BTreeMap<u32, String>,
}

impl Sieve {
    /// Takes out the failed rows; `map` translates positions into rows.
    fn reject(&mut self, errors: Vec<(u32, String)>, map: &[u32]) {
        for (at, detail) in errors {
            if let Some(row) = map.get(at as usize) {
                self.rejected.entry(*row).or_insert(detail);
            }
        }
    }
    fn settle(&mut self) {
        if !self.rejected.is_empty() {
            self.rows.retain(|r| !self.rejected.contains_key(r));
        }
    }
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

    /// The table columns the view uses, ascending.
    pub fn used(&self) -> &BTreeSet<usize> {
        &self.used
    }

    /// Works out one block; keys are routed over `workers`.
    pub fn process(&mut self, stamped: &StampedBlock<'_>, workers: usize) -> Ingested {
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
                    dispatch(rows, runs, workers, self.pre_aggregation.as_mut(), &mut out);
                }
                finish_rejects(sieve, &mut classes, &mut out);
            }
        }
        out.records = classes.finish();
        debug_assert!(out.records.values().all(RecordCounts::balances));
        debug_assert_eq!(out.records.values().map(|c| c.read).sum::<u64>(), block.rows as u64);
        out
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
            let place = [i64::from(stamped.partition(r)), i64::try_from(stamped.position(r)).unwrap_or(i64::MAX)];
            let row = ResultRow {
                window_us: None,
                group: place.into_iter().map(Value::BigInt).collect(),
                late_count: 0,
                values: Ok(results.iter().map(|c| c.value(at)).collect()),
            };
            out.passed.push((row, Instant::of_stamp(stamp)));
        }
        finish_rejects(sieve, classes, out);
    }

    /// Judges every row and sorts the accepted ones into runs.
    fn classify(
        &self,
        stamped: &StampedBlock<'_>,
        assigner: &Assigner,
        columns: &TakenColumns<'_>,
        sieve: &Sieve,
        classes: &mut Classes<'_>,
        out: &mut Ingested,
    ) -> Runs {
        let mut runs = Runs::new();
        let mut current: Option<Current> = None;
        for (at, &row) in columns.rows.iter().enumerate() {
            if !sieve.rejected.is_empty() && sieve.rejected.contains_key(&row) {
                continue;
            }
            let r = row as usize;
            let (et, stamp) = (stamped.event_time(r), stamped.stamp(r));
            if self.drop_late && et < stamp {
                classes.count(row, |c| c.too_late += 1);
                out.counts.too_late += 1;
                self.too_late(stamped, columns, at, r, None, stamp.saturating_sub(et), out);
                continue;
            }
            // Most records fall into the slice of the one before them.
            let inside = matches!(&current, Some((_, _, (start, end), _)) if *start <= et && et < *end);
            if !inside {
                if let Some((slice, _, _, list)) = current.take() {
                    merge_run(&mut runs, slice, list);
                }
                let slice = assigner.slice(et);
                let list = runs.remove(&(slice, None)).unwrap_or_default();
                current = Some((slice, assigner.first_end(slice), assigner.slice_bounds(slice), list));
            }
            let Some((slice, first_end, _, list)) = &mut current else { continue };
            if stamp < *first_end {
                list.push(at as u32);
                classes.on_time(row);
                out.counts.on_time += if assigner.is_tumbling() { 1 } else { window_count(assigner, *slice) };
            } else {
                let slice = *slice;
                if self.judge_late(stamped, assigner, columns, (at, row, slice), classes, out) {
                    runs.entry((slice, Some(stamp))).or_default().push(at as u32);
                }
            }
        }
        if let Some((slice, _, _, list)) = current {
            merge_run(&mut runs, slice, list);
        }
        runs.retain(|_, list| !list.is_empty());
        runs
    }

    /// A record that is late for some window of its slice; says whether any window takes it.
    fn judge_late(
        &self,
        stamped: &StampedBlock<'_>,
        assigner: &Assigner,
        columns: &TakenColumns<'_>,
        (at, row, slice): (usize, u32, i64),
        classes: &mut Classes<'_>,
        out: &mut Ingested,
    ) -> bool {
        let r = row as usize;
        let stamp = stamped.stamp(r);
        let (mut accepted, mut late, mut dropped) = (0u64, 0u64, 0u64);
        for k in assigner.windows_of_slice(slice) {
            let window = assigner.bounds(k);
            match crate::lateness::classify(stamp, window.1, self.horizon_us) {
                crate::lateness::Lateness::OnTime => accepted += 1,
                crate::lateness::Lateness::Late => {
                    late += 1;
                    out.lags_us.push(stamp.saturating_sub(window.1));
                }
                crate::lateness::Lateness::TooLate => {
                    dropped += 1;
                    self.too_late(stamped, columns, at, r, Some(window), stamp.saturating_sub(window.1), out);
                }
            }
        }
        out.counts.on_time += accepted;
        out.counts.late += late;
        out.counts.too_late += dropped;
        classes.count(row, |c| match (accepted + late, late, dropped) {
            (0, _, _) => c.too_late += 1,
            (_, _, 1..) => c.partly_too_late += 1,
            _ => c.corrected += 1,
        });
        accepted + late > 0
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one row")]
    fn too_late(
        &self,
        stamped: &StampedBlock<'_>,
        columns: &TakenColumns<'_>,
        at: usize,
        row: usize,
        window_us: Option<(i64, i64)>,
        lag_us: i64,
        out: &mut Ingested,
    ) {
        out.lags_us.push(lag_us);
        if !self.keep_too_late {
            return;
        }
        out.too_late.push(TooLate {
            partition: stamped.partition(row),
            partition_name: stamped.name(row).into(),
            position: stamped.position(row),
            event_time_us: stamped.event_time(row),
            stamp_us: stamped.stamp(row),
            window_us,
            lag_us,
            columns: self.used.iter().map(|c| columns.value(*c, at)).collect(),
        });
    }

    /// Names of the columns in [`TooLate::columns`].
    pub fn too_late_names(&self) -> Vec<String> {
        self.used.iter().filter_map(|c| self.names.get(*c).cloned()).collect()
    }
}

fn window_count(assigner: &Assigner, slice: i64) -> u64 {
    let windows = assigner.windows_of_slice(slice);
    (windows.end - windows.start) as u64
}

fn merge_run(runs: &mut Runs, slice: i64, list: Vec<u32>) {
    // The list was taken out of `runs` when its slice became current, so nothing is overwritten.
    runs.insert((slice, None), list);
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
    for _ in plan.aggregates.len()..spec.aggregates.len() {
        rows.args.push(None);
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

/// The slice of the last record: its index, the end of its first window, its bounds, its rows.
type Current = (i64, i64, (i64, i64), Vec<u32>);

/// Rows by slice and, if late for some window of it, stamp.
type Runs = BTreeMap<(i64, Option<i64>), Vec<u32>>;

/// Hands the runs to the workers that keep their keys.
fn dispatch(rows: Rows, mut runs: Runs, workers: usize, pre: Option<&mut PreAggregation>, out: &mut Ingested) {
    if workers <= 1 {
        out.contributions.push((0, Contributions { combined: Vec::new(), ..lay_out(rows, runs) }));
        return;
    }
    let mut combined: Vec<Vec<(i64, Table)>> = vec![Vec::new(); workers];
    if let Some(pre) = pre
        && pre.wanted()
    {
        combine(&rows, &mut runs, pre, &mut combined);
    }
    let mut parts: Vec<(Vec<u32>, Vec<Run>)> = vec![Default::default(); workers];
    if !runs.is_empty() {
        let routes = if rows.keys.is_empty() { vec![0; rows.len] } else { route(&rows.keys, rows.len, workers) };
        split(runs, &routes, &mut parts);
    }
    for (worker, ((selected, runs), combined)) in parts.into_iter().zip(combined).enumerate() {
        if !runs.is_empty() || !combined.is_empty() {
            let rows = take_rows(&rows, &selected);
            let selected = (0..selected.len() as u32).collect();
            out.contributions.push((worker, Contributions { rows, selected, runs, combined }));
        }
    }
}

/// All runs one after another.
fn lay_out(rows: Rows, runs: Runs) -> Contributions {
    let (mut selected, mut list) = (Vec::new(), Vec::with_capacity(runs.len()));
    for ((slice, late_stamp_us), members) in runs {
        list.push(Run { slice, late_stamp_us, start: selected.len() as u32, len: members.len() as u32 });
        selected.extend(members);
    }
    Contributions { rows, selected, runs: list, combined: Vec::new() }
}

/// Combines the on-time runs by key, and deals the groups to their workers; takes them out of `runs`.
fn combine(rows: &Rows, runs: &mut Runs, pre: &mut PreAggregation, combined: &mut [Vec<(i64, Table)>]) {
    let (mut inserted, mut groups) = (0, 0);
    runs.retain(|(slice, late), members| {
        if late.is_some() {
            return true;
        }
        let mut table = Table::new(Arc::clone(&pre.spec));
        table.insert(rows, members);
        inserted += members.len();
        groups += table.len();
        // Without keys everything goes to worker 0, as its rows would.
        let parts = if rows.keys.is_empty() { vec![table] } else { table.split(combined.len()) };
        for (list, part) in combined.iter_mut().zip(parts) {
            if !part.is_empty() {
                list.push((*slice, part));
            }
        }
        false
    });
    pre.learn(inserted, groups);
}

/// Splits the runs by the worker that keeps each row's key.
fn split(runs: Runs, routes: &[u32], parts: &mut [(Vec<u32>, Vec<Run>)]) {
    for ((slice, late_stamp_us), members) in runs {
        let starts: Vec<u32> = parts.iter().map(|(s, _)| s.len() as u32).collect();
        for row in members {
            let to = routes.get(row as usize).copied().unwrap_or(0) as usize;
            if let Some((selected, _)) = parts.get_mut(to) {
                selected.push(row);
            }
        }
        for ((selected, list), start) in parts.iter_mut().zip(starts) {
            let len = selected.len() as u32 - start;
            if len > 0 {
                list.push(Run { slice, late_stamp_us, start, len });
            }
        }
    }
}

fn take_rows(rows: &Rows, selected: &[u32]) -> Rows {
    let pick = |v: &Vec<bool>| selected.iter().map(|r| v.get(*r as usize).copied().unwrap_or(false)).collect();
    Rows {
        len: selected.len(),
        keys: rows.keys.iter().map(|c| c.take(selected)).collect(),
        args: rows.args.iter().map(|c| c.as_ref().map(|c| c.take(selected))).collect(),
        filters: rows.filters.iter().map(|f| f.as_ref().map(pick)).collect(),
        order: rows.order.as_ref().map(|o| selected.iter().filter_map(|r| o.get(*r as usize).copied()).collect()),
    }
}

/// The used columns of a block, restricted to some rows; borrowed whole where nothing is left out.
struct TakenColumns<'a> {
    rows: Vec<u32>,
    columns: Vec<std::borrow::Cow<'a, Column>>,
}

static NO_COLUMN: std::sync::LazyLock<Column> =
    std::sync::LazyLock::new(|| Column::new(crate::types::DataType::Boolean));

impl<'a> TakenColumns<'a> {
    fn new(block: &'a DecodedBlock, used: &BTreeSet<usize>, rows: &[u32]) -> Self {
        let whole = rows.len() == block.rows;
        let columns = block.columns.iter().enumerate().map(|(index, column)| match column {
            Some(column) if used.contains(&index) && whole => std::borrow::Cow::Borrowed(column),
            Some(column) if used.contains(&index) => std::borrow::Cow::Owned(column.take(rows)),
            _ => std::borrow::Cow::Borrowed(&*NO_COLUMN),
        });
        TakenColumns { rows: rows.to_vec(), columns: columns.collect() }
    }
    fn refs(&self) -> Vec<&Column> {
        self.columns.iter().map(|c| &**c).collect()
    }
    fn value(&self, column: usize, at: usize) -> Value {
        self.columns.get(column).map_or(Value::Null, |c| c.value(at))
    }
}

/// Record classes by partition.
struct Classes<'a> {
    stamped: StampedBlock<'a>,
    counts: BTreeMap<u32, RecordCounts>,
    /// On-time records of the only partition, counted without a look-up.
    single_on_time: u64,
}

impl<'a> Classes<'a> {
    fn new(stamped: &StampedBlock<'a>) -> Self {
        Classes { stamped: *stamped, counts: BTreeMap::new(), single_on_time: 0 }
    }
    fn count(&mut self, row: u32, class: impl FnOnce(&mut RecordCounts)) {
        let counts = self.counts.entry(self.stamped.partition(row as usize)).or_default();
        counts.read += 1;
        class(counts);
    }
    #[inline]
    fn on_time(&mut self, row: u32) {
        if self.stamped.block.partition.is_none() {
            self.single_on_time += 1;
        } else {
            self.count(row, |c| c.on_time += 1);
        }
    }
    fn finish(mut self) -> BTreeMap<u32, RecordCounts> {
        if self.single_on_time > 0 {
            let counts = self.counts.entry(self.stamped.partition(0)).or_default();
            counts.read += self.single_on_time;
            counts.on_time += self.single_on_time;
        }
        self.counts
    }
}
