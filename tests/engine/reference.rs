//! What a stream must give, by brute force: stamps by [`SequentialStamper`], results by [`slackwater::oracle`], rows by
//! the evaluator of [`slackwater::verify`]. Beyond `oracle_changelog` it knows partitions that end, time that passes
//! without records, and reading that stops without an end of the input.

use crate::streams::{Stream, Told};
use slackwater::aggregate::RecordOrder;
use slackwater::engine::ingest::used_columns;
use slackwater::lateness::{Lateness, classify, lag_us};
use slackwater::oracle::{
    Bounds, Key, OracleError, OracleRecord, OracleSettings, RecordClass, Windows, evaluate, windows_of,
};
use slackwater::plan::{LateRecords, TablePlan, ViewKind, ViewPlan, WindowedPlan};
use slackwater::record::{ContributionCounts, Ledger, RecordCounts, RejectReason};
use slackwater::sink::{Change, Op};
use slackwater::types::Value;
use slackwater::verify::TraceRow;
use slackwater::verify::fold::fold;
use slackwater::verify::row::{self, is_true};
use slackwater::watermark::sequential::SequentialStamper;
use slackwater::watermark::{AFTER_ALL, WatermarkSettings};
use std::collections::BTreeMap;

/// Arguments of the aggregates, and whether their `FILTER` holds; of a row that passes through, its columns.
pub type Input = (Vec<Value>, Vec<bool>);

/// A row of the late output: partition, position, event time, stamp, window, lag, referenced columns.
pub type Late = (u32, u64, i64, i64, Option<Bounds>, i64, Vec<Value>);

/// A reject: partition, position, view, reason.
pub type Reject = (Option<u32>, u64, Option<u32>, RejectReason);

/// What one view must give.
#[derive(Debug)]
pub struct Expected {
    pub changes: Result<Vec<Change>, OracleError>,
    pub ledger: Ledger,
    pub late: Vec<Late>,
    pub records: Vec<OracleRecord<Input>>,
}

/// What a stream must give.
#[derive(Debug)]
pub struct Reference {
    pub views: Vec<Expected>,
    pub rejects: Vec<Reject>,
    /// Names of the partitions, in their order.
    pub partitions: Vec<String>,
    pub watermarks_us: Vec<i64>,
    pub watermark_us: i64,
    pub frontier_us: i64,
}

/// A record with its place and stamp; `None` for a reject of the table.
type Stamped<'a> = (&'a TraceRow, Option<(RecordOrder, i64)>);

/// The partitions in their order: those known from the start, then as records, rejects included, name them.
pub fn partition_order(stream: &Stream) -> Vec<String> {
    let mut names = stream.known.clone();
    for told in &stream.told {
        if let Told::Row(row) = told
            && let Some(name) = &row.partition
            && !names.contains(name)
        {
            names.push(name.clone());
        }
    }
    names
}

/// Everything that follows from the stream under the settings of `table` and the views of its program.
pub fn reference(stream: &Stream, table: &TablePlan) -> Reference {
    let settings = WatermarkSettings {
        scope: table.scope,
        idle_timeout_us: table.idle_timeout_us,
        granularity_us: table.granularity_us,
        tick_us: table.tick_us,
    };
    let mut stamper = SequentialStamper::new(settings, &stream.known, table.partition.is_some());
    let partitions = partition_order(stream);
    let order = |name: &String| partitions.iter().position(|known| known == name).map(|p| p as u32);
    let mut rows: Vec<Stamped> = Vec::new();
    let mut rejects: Vec<Reject> = Vec::new();
    for told in &stream.told {
        match told {
            Told::End(name) => stamper.end_partition(name),
            Told::Clock(us) => stamper.advance_clock(*us),
            Told::Row(row) => match (&row.reject, &row.partition) {
                (None, Some(name)) => {
                    let frontier_us = stamper.frontier();
                    let stamp_us = stamper.record(name, row.watermark_us, row.arrived_us);
                    assert!(stamp_us >= frontier_us, "a stamp below the frontier");
                    let event_time_us = row.event_time_us.expect("no reject");
                    let partition = order(name).expect("named");
                    rows.push((
                        row,
                        Some((RecordOrder { event_time_us, partition, position: row.position }, stamp_us)),
                    ));
                }
                (reject, name) => {
                    stamper.reject(row.arrived_us);
                    rows.push((row, None));
                    let reason = reject.as_ref().map_or(RejectReason::Partition, |(reason, _)| *reason);
                    rejects.push((name.as_ref().and_then(order), row.position, None, reason));
                }
            },
        }
    }
    if stream.setup.bounded {
        stamper.end_input();
    }
    let mut views = Vec::new();
    for (number, view) in stream.program.views.iter().enumerate() {
        views.push(expected(table, view, &rows, stamper.frontier(), number as u32, &mut rejects));
    }
    rejects.sort();
    let known = stamper.partitions();
    let of = stamper.partition_watermarks();
    let watermark = |name: &String| known.iter().position(|k| k == name).map_or(i64::MIN, |at| of[at]);
    Reference {
        views,
        rejects,
        watermarks_us: partitions.iter().map(watermark).collect(),
        partitions,
        watermark_us: stamper.watermark(),
        frontier_us: stamper.frontier(),
    }
}

fn expected(
    table: &TablePlan,
    view: &ViewPlan,
    rows: &[Stamped],
    frontier_us: i64,
    number: u32,
    rejects: &mut Vec<Reject>,
) -> Expected {
    let used = used_columns(view);
    let mut ledger = Ledger::default();
    let (mut records, mut places) = (Vec::new(), Vec::new());
    for (row, stamped) in rows {
        let Some((order, stamp_us)) = *stamped else {
            let reason = row.reject.as_ref().map_or(RejectReason::Partition, |(reason, _)| *reason);
            count(&mut ledger, row, |c| *c.rejected.entry(reason).or_default() += 1);
            continue;
        };
        let misfit = row.value_errors.iter().any(|(column, _)| used.contains(column));
        let judged = if misfit { Err("misfit".to_owned()) } else { judge(view, &row.row) };
        match judged {
            Err(_) => {
                count(&mut ledger, row, |c| *c.rejected.entry(RejectReason::Value).or_default() += 1);
                rejects.push((Some(order.partition), order.position, Some(number), RejectReason::Value));
            }
            Ok(judged) => {
                let filtered = judged.is_none();
                let (key, input) = judged.unwrap_or_default();
                records.push(OracleRecord { order, stamp_us, key, filtered, input });
                places.push(*row);
            }
        }
    }
    let mut out = match &view.kind {
        ViewKind::Windowed(plan) => windowed(table, view, plan, records, frontier_us),
        ViewKind::PassThrough(_) => pass_through(table, records, frontier_us),
    };
    for (class, row) in out.classes.iter().zip(&places) {
        count(&mut ledger, row, |c| {
            *match class {
                RecordClass::OnTime => &mut c.on_time,
                RecordClass::Corrected => &mut c.corrected,
                RecordClass::PartlyTooLate => &mut c.partly_too_late,
                RecordClass::TooLate => &mut c.too_late,
                RecordClass::Filtered => &mut c.filtered,
            } += 1;
        });
    }
    ledger.contributions = out.contributions;
    let late = |(record, window_us, lag_us): &(usize, Option<Bounds>, i64)| {
        let (r, row) = (&out.records[*record], places[*record]);
        let columns = used.iter().map(|c| row.row[*c].clone()).collect();
        (r.order.partition, r.order.position, r.order.event_time_us, r.stamp_us, *window_us, *lag_us, columns)
    };
    let mut late: Vec<Late> = out.dropped.iter().map(late).collect();
    late.sort_by_key(|l| (l.0, l.1, l.4.map(|(start, end)| (end, start))));
    Expected { changes: out.changes, ledger, late, records: std::mem::take(&mut out.records) }
}

/// Counts a record in total and in its partition.
fn count(ledger: &mut Ledger, row: &TraceRow, class: impl Fn(&mut RecordCounts)) {
    let mut one = RecordCounts { read: 1, ..RecordCounts::default() };
    class(&mut one);
    ledger.count(row.partition.as_deref(), &one);
}

/// The key and input of a row that `WHERE` lets pass.
fn judge(view: &ViewPlan, values: &[Value]) -> Result<Option<(Key, Input)>, String> {
    let evaluate = |expr| row::evaluate(expr, values);
    if let Some(filter) = &view.filter
        && !is_true(&evaluate(filter)?)
    {
        return Ok(None);
    }
    match &view.kind {
        ViewKind::PassThrough(exprs) => {
            let columns = exprs.iter().map(evaluate).collect::<Result<_, _>>()?;
            Ok(Some((Key::default(), (columns, Vec::new()))))
        }
        ViewKind::Windowed(plan) => {
            let key: Vec<Value> = plan.group.iter().map(evaluate).collect::<Result<_, _>>()?;
            let (mut args, mut passes) = (Vec::new(), Vec::new());
            for aggregate in &plan.aggregates {
                passes.push(aggregate.filter.as_ref().map_or(Ok(true), |f| evaluate(f).map(|v| is_true(&v)))?);
                args.push(aggregate.arg.as_ref().map_or(Ok(Value::Null), evaluate)?);
            }
            Ok(Some((key.into(), (args, passes))))
        }
    }
}

struct Outcome {
    changes: Result<Vec<Change>, OracleError>,
    /// Record, window, lag.
    dropped: Vec<(usize, Option<Bounds>, i64)>,
    classes: Vec<RecordClass>,
    contributions: ContributionCounts,
    records: Vec<OracleRecord<Input>>,
}

/// The windows of a plan as the oracle takes them.
pub fn oracle_settings(table: &TablePlan, view: &ViewPlan, plan: &WindowedPlan, frontier_us: i64) -> OracleSettings {
    let window = plan.window;
    OracleSettings {
        windows: Windows::Hopping { size_us: window.size_us, slide_us: window.slide_us, offset_us: window.offset_us },
        horizon_us: view.horizon_us,
        late_records: table.late_records,
        frontier_us,
    }
}

fn windowed(
    table: &TablePlan,
    view: &ViewPlan,
    plan: &WindowedPlan,
    records: Vec<OracleRecord<Input>>,
    frontier_us: i64,
) -> Outcome {
    let settings = oracle_settings(table, view, plan, frontier_us);
    let changes = evaluate(&settings, &records, |key, bounds, members| result_row(plan, key, bounds, members));
    // Classes do not depend on what the rows are.
    let judged = evaluate(&settings, &records, |_, _, _| Ok(None)).expect("nothing fails");
    let dropped = judged.dropped.iter().map(|d| (d.record, d.window_us, d.lag_us)).collect();
    Outcome {
        changes: changes.map(|outcome| outcome.changes),
        dropped,
        classes: judged.classes,
        contributions: judged.contributions,
        records,
    }
}

fn pass_through(table: &TablePlan, records: Vec<OracleRecord<Input>>, frontier_us: i64) -> Outcome {
    let mut out = Outcome {
        changes: Ok(Vec::new()),
        dropped: Vec::new(),
        classes: Vec::new(),
        contributions: ContributionCounts::default(),
        records: Vec::new(),
    };
    let mut changes = Vec::new();
    for (index, r) in records.iter().enumerate() {
        let et = r.order.event_time_us;
        if r.filtered {
            out.classes.push(RecordClass::Filtered);
        } else if table.late_records == LateRecords::Drop && et < r.stamp_us {
            out.dropped.push((index, None, lag_us(r.stamp_us, et)));
            out.contributions.too_late += 1;
            out.classes.push(RecordClass::TooLate);
        } else {
            out.contributions.on_time += 1;
            out.classes.push(RecordClass::OnTime);
            if frontier_us == AFTER_ALL || r.stamp_us < frontier_us {
                changes.push(Change {
                    op: Op::Insert,
                    watermark_us: r.stamp_us,
                    closing: false,
                    revision: 0,
                    late_count: 0,
                    window_us: None,
                    group: [Value::BigInt(r.order.partition.into()), Value::BigInt(r.order.position as i64)].into(),
                    values: r.input.0.clone().into(),
                });
            }
        }
    }
    changes.sort_by(Change::compare);
    Outcome { changes: Ok(changes), records, ..out }
}

/// The published columns of a result; `None` if `HAVING` hides it.
pub fn result_row(
    plan: &WindowedPlan,
    key: &Key,
    (start, end): Bounds,
    records: &[&OracleRecord<Input>],
) -> Result<Option<Box<[Value]>>, String> {
    let mut values: Vec<Value> = key.to_vec();
    values.extend([Value::Timestamp(start), Value::Timestamp(end)]);
    for (i, aggregate) in plan.aggregates.iter().enumerate() {
        let members = records.iter().filter(|r| r.input.1[i]);
        let argument = |r: &&&OracleRecord<Input>| (r.order, aggregate.arg.as_ref().map(|_| r.input.0[i].clone()));
        values.push(fold(&aggregate.spec, &members.map(|r| argument(&r)).collect::<Vec<_>>())?);
    }
    if let Some(having) = &plan.having
        && !is_true(&row::evaluate_lenient(having, &values)?)
    {
        return Ok(None);
    }
    plan.select.iter().map(|e| row::evaluate_lenient(e, &values)).collect::<Result<_, _>>().map(Some)
}

/// A logical instant: `(t, false)` is `t⁻`, `(t, true)` is `t`.
pub type Moment = (i64, bool);

/// Published rows by window and group: late records, columns.
pub type Rows = BTreeMap<(Bounds, Key), (u64, Box<[Value]>)>;

/// The results as of an instant, from nothing but the records that count by then.
pub fn as_of(settings: &OracleSettings, plan: &WindowedPlan, records: &[OracleRecord<Input>], moment: Moment) -> Rows {
    // With each record, whether it is late.
    type Members<'a> = Vec<(&'a OracleRecord<Input>, bool)>;
    let mut members: BTreeMap<(Bounds, Key), Members> = BTreeMap::new();
    let dropped = |r: &OracleRecord<Input>| {
        r.filtered || (settings.late_records == LateRecords::Drop && r.order.event_time_us < r.stamp_us)
    };
    let counts = |r: &OracleRecord<Input>| r.stamp_us < moment.0 || (moment.1 && r.stamp_us == moment.0);
    for record in records.iter().filter(|r| !dropped(r) && counts(r)) {
        for bounds in windows_of(&settings.windows, record.order.event_time_us) {
            let lateness = classify(record.stamp_us, bounds.1, settings.horizon_us);
            if lateness != Lateness::TooLate && bounds.1 <= moment.0 {
                members.entry((bounds, record.key.clone())).or_default().push((record, lateness == Lateness::Late));
            }
        }
    }
    let mut rows = Rows::new();
    for ((bounds, key), mut members) in members {
        members.sort_by_key(|(r, _)| r.order);
        let late = members.iter().filter(|(_, late)| *late).count() as u64;
        let records: Vec<&OracleRecord<Input>> = members.iter().map(|(r, _)| *r).collect();
        if let Some(values) = result_row(plan, &key, bounds, &records).expect("results that fail end the run") {
            rows.insert((bounds, key), (late, values));
        }
    }
    rows
}

/// Applies the changes up to an instant; every retraction must carry the row that stands.
pub fn applied(changes: &[Change], moment: Moment) -> Rows {
    let mut rows = Rows::new();
    for change in changes.iter().filter(|c| (c.watermark_us, !c.closing) <= moment) {
        let place = (change.window_us.expect("a window"), change.group.clone());
        let row = (change.late_count, change.values.clone());
        match change.op {
            Op::Insert => assert_eq!(rows.insert(place, row), None, "+I of a row that is there"),
            Op::UpdateAfter => assert_eq!(rows.insert(place, row), None, "+U without -U"),
            Op::UpdateBefore | Op::Delete => {
                assert_eq!(rows.remove(&place), Some(row), "a retraction of what was said")
            }
        }
    }
    rows
}
