//! What a query must give, by brute force and without the engine: the other side of `slackwater verify`.
//!
//! [`oracle_changelog`] takes the decoded records of a table in reading order and follows the contract to the letter:
//! stamps by [`SequentialStamper`], results by [`crate::oracle`], expressions and aggregates by an evaluator of its own
//! that goes row by row ([`row`], [`fold`]). It shares with the engine only the decoding of records, the bound plan, and
//! the sketches that define the approximate aggregates.
//!
//! A record is judged in this order: reject of the table; the watermark advances; reject of the view (a value that does
//! not fit a column the view uses; then an expression in `WHERE` that fails; then, for rows that pass, one in the group
//! or argument expressions, whether a `FILTER` would look at it or not); filtered; late.
//!
//! Cost: all records are held, and a window is computed anew at each of its instants.

pub mod big;
mod calls;
mod cast;
pub mod check;
pub mod collect;
pub mod compare;
pub mod fold;
pub mod read;
pub mod row;
mod texts;
mod times;

use crate::aggregate::RecordOrder;
use crate::oracle::{self, Bounds, Key, OracleError, OracleRecord, OracleSettings, RecordClass, Windows};
use crate::plan::{LateRecords, TablePlan, ViewKind, ViewPlan, WindowedPlan};
use crate::record::{Ledger, RecordCounts, RejectReason};
use crate::sink::{Change, Op};
use crate::types::Value;
use crate::watermark::policy::Policies;
use crate::watermark::sequential::SequentialStamper;
use crate::watermark::{AFTER_ALL, BEFORE_ALL, WatermarkSettings};
use row::{evaluate, evaluate_lenient, is_true};
use std::collections::BTreeSet;

/// A record as it was read, a reject or not.
#[derive(Clone, Debug)]
pub struct TraceRow {
    /// Name of its partition; `None` for a reject whose partition could not be read.
    pub partition: Option<String>,
    /// Position in the partition or trace.
    pub position: u64,
    /// Event time; `None` for rejects and for tables without one.
    pub event_time_us: Option<i64>,
    /// The watermark expression on it; see [`watermark_of`].
    pub watermark_us: i64,
    /// Arrival time, if the table has arrival times and this one could be read.
    pub arrived_us: Option<i64>,
    /// All columns of the table; NULL where a value did not fit or was not wanted.
    pub row: Vec<Value>,
    /// Columns whose value did not fit, with what was wrong.
    pub value_errors: Vec<(usize, String)>,
    /// Why it is a reject of the table, if it is one.
    pub reject: Option<(RejectReason, String)>,
}

/// A row of the late output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedLate {
    /// Index of the record in the trace.
    pub record: usize,
    /// Order of its partition.
    pub partition: u32,
    /// Its position.
    pub position: u64,
    /// Its event time.
    pub event_time_us: i64,
    /// Its stamp.
    pub stamp_us: i64,
    /// The window it is too late for; `None` under `late_records = 'drop'`.
    pub window_us: Option<Bounds>,
    /// How late it is.
    pub lag_us: i64,
}

/// Everything that a view must give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The changelog, in its documented order.
    pub changes: Vec<Change>,
    /// The ledger; partitions without a record have no entry.
    pub ledger: Ledger,
    /// The late output, in its documented order.
    pub late: Vec<ExpectedLate>,
    /// Rejects of the view (not of the table): index in the trace, and what failed.
    pub rejects: Vec<(usize, String)>,
    /// Names of the partitions in their order.
    pub partitions: Vec<String>,
}

/// The value of the table's watermark expression on a record; −∞ if it is NULL, fails, or lies below 64 bits.
pub fn watermark_of(table: &TablePlan, event_time_us: i64, values: &[Value]) -> i64 {
    if let Some(delay_us) = table.delay_us {
        return event_time_us.saturating_sub(delay_us);
    }
    match table.watermark.as_ref().map(|expr| evaluate(expr, values)) {
        Some(Ok(Value::Timestamp(us))) => us,
        _ => BEFORE_ALL,
    }
}

/// Puts in the watermarks of the table's policy, if it has one. `rows` hold each partition's records in their order.
pub fn apply_policy(table: &TablePlan, rows: &mut [TraceRow]) {
    let (Some(policy), Some(delay_us)) = (&table.policy, table.delay_us) else { return };
    let mut policies = Policies::new(&policy.plan, delay_us);
    for row in rows.iter_mut().filter(|row| row.reject.is_none()) {
        if let (Some(partition), Some(event_time_us)) = (&row.partition, row.event_time_us) {
            let value = policy.column.and_then(|column| row.row.get(column)).and_then(crate::aggregate::as_double);
            row.watermark_us = policies.record(partition, event_time_us, value);
        }
    }
}

/// Partitions merged by arrival time (ties: partition order, then position), each being read in its own order. A record
/// whose arrival time could not be read goes with the one before it.
pub fn merge_by_arrival(partitions: Vec<Vec<TraceRow>>) -> Vec<TraceRow> {
    let mut out = Vec::new();
    let mut queues: Vec<_> = partitions.into_iter().map(|rows| (BEFORE_ALL, rows.into_iter().peekable())).collect();
    loop {
        let mut next: Option<(i64, usize)> = None;
        for (order, (clock, rows)) in queues.iter_mut().enumerate() {
            if let Some(row) = rows.peek() {
                *clock = row.arrived_us.map_or(*clock, |arrived| arrived.max(*clock));
                if next.is_none_or(|(least, _)| *clock < least) {
                    next = Some((*clock, order));
                }
            }
        }
        let Some((_, order)) = next else { return out };
        out.extend(queues.get_mut(order).and_then(|(_, rows)| rows.next()));
    }
}

/// Names of the partitions in their order: those known from the start, then the others as the trace names them. One of
/// which only rejects name has a place, but holds nothing back.
pub fn partition_order(known: &[String], rows: &[TraceRow]) -> Vec<String> {
    let mut names = known.to_vec();
    let mut met: BTreeSet<&String> = known.iter().collect();
    for name in rows.iter().filter_map(|row| row.partition.as_ref()) {
        if met.insert(name) {
            names.push(name.clone());
        }
    }
    names
}

/// What becomes of a record before lateness is looked at.
enum Judged {
    Filtered,
    Reject(String),
    Passes { key: Key, input: Vec<Value>, counts: Vec<bool> },
}

/// The columns that a view reads.
fn used_columns(view: &ViewPlan) -> BTreeSet<usize> {
    let mut used = BTreeSet::new();
    let mut add = |expr: &crate::expr::Expr| expr.columns(&mut used);
    view.filter.iter().for_each(&mut add);
    match &view.kind {
        ViewKind::PassThrough(exprs) => exprs.iter().for_each(&mut add),
        ViewKind::Windowed(plan) => {
            plan.group.iter().for_each(&mut add);
            for aggregate in &plan.aggregates {
                aggregate.arg.iter().chain(&aggregate.filter).for_each(&mut add);
            }
        }
    }
    used
}

fn judge(view: &ViewPlan, used: &BTreeSet<usize>, record: &TraceRow) -> Judged {
    if let Some((_, message)) = record.value_errors.iter().find(|(column, _)| used.contains(column)) {
        return Judged::Reject(message.clone());
    }
    match view.filter.as_ref().map(|filter| evaluate(filter, &record.row)) {
        Some(Err(message)) => return Judged::Reject(message),
        Some(Ok(value)) if !is_true(&value) => return Judged::Filtered,
        _ => {}
    }
    match computed(view, &record.row) {
        Ok((key, input, counts)) => Judged::Passes { key, input, counts },
        Err(message) => Judged::Reject(message),
    }
}

/// Group values, then the argument of each aggregate and whether its `FILTER` holds; pass-through rows have their
/// columns as arguments.
fn computed(view: &ViewPlan, values: &[Value]) -> Result<(Key, Vec<Value>, Vec<bool>), String> {
    match &view.kind {
        ViewKind::PassThrough(exprs) => {
            let columns = exprs.iter().map(|e| evaluate(e, values)).collect::<Result<_, _>>()?;
            Ok((Key::default(), columns, Vec::new()))
        }
        ViewKind::Windowed(plan) => {
            let key = plan.group.iter().map(|e| evaluate(e, values)).collect::<Result<Vec<_>, _>>()?;
            let (mut input, mut counts) = (Vec::new(), Vec::new());
            for aggregate in &plan.aggregates {
                let filter = aggregate.filter.as_ref().map(|e| evaluate(e, values)).transpose()?;
                counts.push(filter.is_none_or(|f| is_true(&f)));
                input.push(aggregate.arg.as_ref().map_or(Ok(Value::Null), |e| evaluate(e, values))?);
            }
            Ok((key.into(), input, counts))
        }
    }
}

type Input = (Vec<Value>, Vec<bool>);

/// The published columns of a result; `None` if `HAVING` hides it.
fn result_row(
    plan: &WindowedPlan,
    key: &Key,
    (start, end): Bounds,
    records: &[&OracleRecord<Input>],
) -> Result<Option<Box<[Value]>>, String> {
    let mut row: Vec<Value> = key.to_vec();
    row.extend([Value::Timestamp(start), Value::Timestamp(end)]);
    for (i, aggregate) in plan.aggregates.iter().enumerate() {
        let members: Vec<(RecordOrder, Option<Value>)> = records
            .iter()
            .filter(|r| r.input.1.get(i).copied().unwrap_or(false))
            .map(|r| (r.order, aggregate.arg.as_ref().and_then(|_| r.input.0.get(i).cloned())))
            .collect();
        row.push(fold::fold(&aggregate.spec, &members)?);
    }
    if let Some(having) = &plan.having
        && !is_true(&evaluate_lenient(having, &row)?)
    {
        return Ok(None);
    }
    plan.select.iter().map(|e| evaluate_lenient(e, &row)).collect::<Result<_, _>>().map(Some)
}

/// Everything that `view` must give for the records `rows` of `table`, in reading order, up to the end of the input.
///
/// `partitions` are the names of those known from the start, in order: the files, or the declared values of the
/// partition column. A file ends with its last record.
///
/// # Errors
/// The first result in changelog order that cannot be computed.
pub fn oracle_changelog(
    view: &ViewPlan,
    table: &TablePlan,
    partitions: &[String],
    rows: &[TraceRow],
) -> Result<Expected, OracleError> {
    let used = used_columns(view);
    let mut trace = Trace::new(table, partitions, rows);
    let mut records: Vec<OracleRecord<Input>> = Vec::new();
    let mut places: Vec<usize> = Vec::new();
    let mut ledger = Ledger::default();
    let mut rejects = Vec::new();
    for (index, record) in rows.iter().enumerate() {
        let stamp = trace.read(index, record);
        let reject = match (&record.reject, stamp) {
            (Some((reason, _)), _) => Some(*reason),
            (None, None) => Some(RejectReason::Partition),
            (None, Some((order, stamp_us))) => {
                let (key, input, filtered) = match judge(view, &used, record) {
                    Judged::Reject(message) => {
                        rejects.push((index, message));
                        count(&mut ledger, record, |c| *c.rejected.entry(RejectReason::Value).or_default() += 1);
                        continue;
                    }
                    Judged::Filtered => (Key::default(), (Vec::new(), Vec::new()), true),
                    Judged::Passes { key, input, counts } => (key, (input, counts), false),
                };
                records.push(OracleRecord { order, stamp_us, key, filtered, input });
                places.push(index);
                None
            }
        };
        if let Some(reason) = reject {
            count(&mut ledger, record, |c| *c.rejected.entry(reason).or_default() += 1);
        }
    }
    let outcome = match &view.kind {
        ViewKind::Windowed(plan) => windowed(view, table, plan, &records)?,
        ViewKind::PassThrough(_) => pass_through(table, &records),
    };
    for (class, place) in outcome.classes.iter().zip(&places) {
        if let Some(record) = rows.get(*place) {
            count(&mut ledger, record, |c| *class_of(c, *class) += 1);
        }
    }
    ledger.contributions = outcome.contributions;
    let mut late: Vec<ExpectedLate> = outcome.dropped.iter().filter_map(|d| late_row(d, &records, &places)).collect();
    late.sort_by_key(|l| (l.partition, l.position, l.window_us.map(|(start, end)| (end, start))));
    Ok(Expected { changes: outcome.changes, ledger, late, rejects, partitions: trace.names })
}

fn late_row(d: &oracle::Dropped, records: &[OracleRecord<Input>], places: &[usize]) -> Option<ExpectedLate> {
    let (record, place) = (records.get(d.record)?, places.get(d.record)?);
    Some(ExpectedLate {
        record: *place,
        partition: record.order.partition,
        position: record.order.position,
        event_time_us: record.order.event_time_us,
        stamp_us: record.stamp_us,
        window_us: d.window_us,
        lag_us: d.lag_us,
    })
}

/// Counts a record in total and in its partition.
fn count(ledger: &mut Ledger, record: &TraceRow, class: impl Fn(&mut RecordCounts)) {
    let mut one = RecordCounts { read: 1, ..RecordCounts::default() };
    class(&mut one);
    ledger.count(record.partition.as_deref(), &one);
}

fn class_of(counts: &mut RecordCounts, class: RecordClass) -> &mut u64 {
    match class {
        RecordClass::OnTime => &mut counts.on_time,
        RecordClass::Corrected => &mut counts.corrected,
        RecordClass::PartlyTooLate => &mut counts.partly_too_late,
        RecordClass::TooLate => &mut counts.too_late,
        RecordClass::Filtered => &mut counts.filtered,
    }
}

fn windowed(
    view: &ViewPlan,
    table: &TablePlan,
    plan: &WindowedPlan,
    records: &[OracleRecord<Input>],
) -> Result<oracle::Outcome, OracleError> {
    let settings = OracleSettings {
        windows: Windows::Hopping {
            size_us: plan.window.size_us,
            slide_us: plan.window.slide_us,
            offset_us: plan.window.offset_us,
        },
        horizon_us: view.horizon_us,
        late_records: table.late_records,
        frontier_us: AFTER_ALL,
    };
    oracle::evaluate(&settings, records, |key, bounds, members| result_row(plan, key, bounds, members))
}

/// Every record passes at its stamp, but for those that `late_records = 'drop'` drops. Either is one contribution.
fn pass_through(table: &TablePlan, records: &[OracleRecord<Input>]) -> oracle::Outcome {
    let mut out = oracle::Outcome {
        changes: Vec::new(),
        dropped: Vec::new(),
        classes: Vec::new(),
        contributions: Default::default(),
    };
    let drops = table.late_records == LateRecords::Drop && table.event_time.is_some();
    for (index, record) in records.iter().enumerate() {
        let et = record.order.event_time_us;
        if record.filtered {
            out.classes.push(RecordClass::Filtered);
        } else if drops && et < record.stamp_us {
            let lag_us = crate::lateness::lag_us(record.stamp_us, et);
            out.dropped.push(oracle::Dropped { record: index, window_us: None, lag_us });
            out.contributions.too_late += 1;
            out.classes.push(RecordClass::TooLate);
        } else {
            out.classes.push(RecordClass::OnTime);
            out.contributions.on_time += 1;
            // Without a watermark the records of a trace pass as they stand, whatever their partitions.
            let as_it_stands = table.event_time.is_none() && table.partition.is_some();
            let partition = if as_it_stands { 0 } else { u64::from(record.order.partition) };
            let place = |n: u64| Value::BigInt(i64::try_from(n).unwrap_or(i64::MAX));
            out.changes.push(Change {
                op: Op::Insert,
                watermark_us: record.stamp_us,
                closing: false,
                revision: 0,
                late_count: 0,
                window_us: None,
                group: [place(partition), place(record.order.position)].into(),
                values: record.input.0.clone().into(),
            });
        }
    }
    out.changes.sort_by(Change::compare);
    out
}

/// The trace being read: stamps, and the ends of files.
struct Trace {
    stamper: SequentialStamper,
    /// The partitions in their order, and the place of each.
    names: Vec<String>,
    orders: std::collections::BTreeMap<String, u32>,
    /// Where each file has its last record, by index; none when a column names the partitions.
    last: std::collections::BTreeMap<usize, String>,
}

impl Trace {
    fn new(table: &TablePlan, partitions: &[String], rows: &[TraceRow]) -> Trace {
        let settings = WatermarkSettings {
            scope: table.scope,
            idle_timeout_us: table.idle_timeout_us,
            granularity_us: table.granularity_us,
            tick_us: table.tick_us,
        };
        let by_column = table.partition.is_some();
        let mut stamper = SequentialStamper::new(settings, partitions, by_column);
        let mut last = std::collections::BTreeMap::new();
        if !by_column {
            for name in partitions {
                match rows.iter().rposition(|row| row.partition.as_ref() == Some(name)) {
                    Some(index) => {
                        last.insert(index, name.clone());
                    }
                    None => stamper.end_partition(name),
                }
            }
        }
        let names = partition_order(partitions, rows);
        let orders = (0..).zip(&names).map(|(order, name)| (name.clone(), order)).collect();
        Trace { stamper, names, orders, last }
    }

    /// Reads the next record; answers its place and stamp, unless it is a reject.
    fn read(&mut self, index: usize, record: &TraceRow) -> Option<(RecordOrder, i64)> {
        let stamped = match (&record.reject, &record.partition) {
            (None, Some(name)) => {
                let stamp_us = self.stamper.record(name, record.watermark_us, record.arrived_us);
                let partition = self.orders.get(name).copied().unwrap_or(u32::MAX);
                let event_time_us = record.event_time_us.unwrap_or(0);
                Some((RecordOrder { event_time_us, partition, position: record.position }, stamp_us))
            }
            _ => {
                self.stamper.reject(record.arrived_us);
                None
            }
        };
        if let Some(name) = self.last.get(&index) {
            self.stamper.end_partition(name);
        }
        stamped
    }
}

#[cfg(test)]
mod agrees;
#[cfg(test)]
mod tests;
