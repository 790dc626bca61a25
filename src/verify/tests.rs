//! The worked examples of the contract, and the order in which a record is judged.

use super::*;
use crate::aggregate::{AggregateFunc, AggregateSpec};
use crate::expr::{Expr, ExprKind, Func};
use crate::plan::{AggregatePlan, ColumnPlan, Format, LatenessScope, OnError, SourcePlan, WindowPlan};
use crate::types::DataType;

const S: i64 = 1_000_000;
const TEXT: DataType = DataType::Text;

fn table(delay_s: i64) -> TablePlan {
    let column = |name: &str, dtype| ColumnPlan { name: name.into(), path: vec![name.into()], dtype };
    TablePlan {
        name: "t".into(),
        columns: vec![
            column("et", DataType::Timestamp),
            column("payload", TEXT),
            column("pass", DataType::BigInt),
            column("p", TEXT),
        ],
        event_time: Some(0),
        watermark: None,
        delay_us: Some(delay_s * S),
        policy: None,
        arrival_time: None,
        partition: None,
        partitions: vec![],
        scope: LatenessScope::Partition,
        idle_timeout_us: None,
        granularity_us: S,
        tick_us: S,
        max_future_us: None,
        late_records: LateRecords::Window,
        on_error: OnError::Reject,
        rejects: None,
        time_unit_us: 1_000,
        source: SourcePlan::Stdin { format: Format::Json },
    }
}

fn view(kind: ViewKind, filter: Option<Expr>, horizon_s: Option<i64>) -> ViewPlan {
    ViewPlan {
        name: None,
        table: 0,
        filter,
        kind,
        output: vec![],
        horizon_us: horizon_s.map(|s| s * S),
        late: None,
        spike_above: 1,
        sql: String::new(),
    }
}

/// `SELECT <aggregate> … GROUP BY window`.
fn windowed(size_s: i64, slide_s: i64, func: AggregateFunc, arg: Option<Expr>) -> WindowedPlan {
    let spec = AggregateSpec { func, arg: arg.as_ref().map(|a| a.dtype.clone()) };
    let dtype = spec.output().unwrap_or(DataType::List(Box::new(TEXT)));
    WindowedPlan {
        window: WindowPlan { size_us: size_s * S, slide_us: slide_s * S, offset_us: 0 },
        group: vec![],
        aggregates: vec![AggregatePlan { spec, arg, filter: None }],
        having: None,
        first_stamp: false,
        select: vec![Expr::column(2, dtype)],
    }
}

fn trace(table: &TablePlan, records: &[(&str, i64, &str, i64)]) -> Vec<TraceRow> {
    let make = |(position, (partition, et, payload, pass)): (u64, &(&str, i64, &str, i64))| TraceRow {
        partition: Some((*partition).into()),
        position,
        event_time_us: Some(et * S),
        watermark_us: watermark_of(table, et * S, &[]),
        arrived_us: None,
        row: vec![Value::Timestamp(et * S), Value::Text((*payload).into()), Value::BigInt(*pass), Value::Null],
        value_errors: vec![],
        reject: None,
    };
    (1..).zip(records).map(make).collect()
}

fn run(view: &ViewPlan, table: &TablePlan, rows: &[TraceRow]) -> Expected {
    let names: BTreeSet<String> = rows.iter().filter_map(|r| r.partition.clone()).collect();
    let expected = oracle_changelog(view, table, &Vec::from_iter(names), rows).unwrap();
    assert!(expected.ledger.records.balances());
    let mut sum = RecordCounts::default();
    expected.ledger.partitions.values().for_each(|c| sum.add(c));
    assert_eq!(sum, expected.ledger.records);
    expected
}

fn text(changes: &[Change]) -> Vec<String> {
    let line = |c: &Change| {
        let window = c.window_us.map_or(String::new(), |(start, end)| format!(" [{}, {})", start / S, end / S));
        let values: Vec<String> = c.values.iter().map(super::cast::to_text).collect();
        format!("{} {} at {}{window} late {}", c.op.name(), values.join(" "), c.watermark_us / S, c.late_count)
    };
    changes.iter().map(line).collect()
}

#[test]
fn orders() {
    let times = [10, 20, 40, 70, 80, 50, 25];
    let records: Vec<_> = times.iter().map(|t| ("f", *t, "", 1)).collect();
    let result = |delay, horizon| {
        let table = table(delay);
        let plan = windowed(60, 60, AggregateFunc::CountAll, None);
        run(&view(ViewKind::Windowed(plan), None, Some(horizon)), &table, &trace(&table, &records))
    };
    assert_eq!(text(&result(30, 180).changes), ["+I 5 at 60 [0, 60) late 0", "+I 2 at 120 [60, 120) late 0"]);
    let corrected = result(10, 180);
    let expected = [
        "+I 3 at 60 [0, 60) late 0",
        "-U 3 at 70 [0, 60) late 0",
        "+U 5 at 70 [0, 60) late 2",
        "+I 2 at 120 [60, 120) late 0",
    ];
    assert_eq!(text(&corrected.changes), expected);
    assert_eq!((corrected.ledger.records.on_time, corrected.ledger.records.corrected), (5, 2));
    let dropped = result(10, 5);
    assert_eq!(text(&dropped.changes), ["+I 3 at 60 [0, 60) late 0", "+I 2 at 120 [60, 120) late 0"]);
    assert_eq!(dropped.late.iter().map(|l| (l.position, l.lag_us / S)).collect::<Vec<_>>(), [(6, 10), (7, 10)]);
    assert_eq!((dropped.ledger.records.too_late, dropped.ledger.contributions.too_late), (2, 2));
}

#[test]
fn hopping_lists_with_both_rules_for_late_records() {
    let records = [("f", 40, "a", 1), ("f", 42, "b", 1), ("f", 50, "c", 0), ("f", 40, "d", 1)];
    let positive = Expr {
        kind: ExprKind::Call(
            Func::Gt,
            vec![Expr::column(2, DataType::BigInt), Expr::literal(Value::BigInt(0), DataType::BigInt)],
        ),
        dtype: DataType::Boolean,
    };
    let plan = windowed(10, 5, AggregateFunc::ArrayAgg, Some(Expr::column(1, TEXT)));
    let mut table = table(5);
    let view = view(ViewKind::Windowed(plan), Some(positive), None);
    let window = run(&view, &table, &trace(&table, &records));
    assert_eq!(text(&window.changes), ["+I [a, b] at 45 [35, 45) late 0", "+I [a, d, b] at 50 [40, 50) late 0"]);
    assert_eq!((window.ledger.records.partly_too_late, window.ledger.records.filtered), (1, 1));
    table.late_records = LateRecords::Drop;
    let drop = run(&view, &table, &trace(&table, &records));
    assert_eq!(text(&drop.changes), ["+I [a, b] at 45 [35, 45) late 0", "+I [a, b] at 50 [40, 50) late 0"]);
    assert_eq!((drop.late[0].window_us, drop.late[0].lag_us), (None, 5 * S));
}

#[test]
fn a_record_is_judged_in_the_documented_order() {
    let column = || Expr::column(2, DataType::BigInt);
    let call = |func, args, dtype| Expr { kind: ExprKind::Call(func, args), dtype };
    let one = || Expr::literal(Value::BigInt(1), DataType::BigInt);
    // WHERE pass <> 3, sum(1 / pass): fails for 0.
    let three = Expr::literal(Value::BigInt(3), DataType::BigInt);
    let filter = call(Func::NotEq, vec![column(), three], DataType::Boolean);
    let plan = windowed(60, 60, AggregateFunc::Sum, Some(call(Func::Div, vec![one(), column()], DataType::BigInt)));
    let view = view(ViewKind::Windowed(plan), Some(filter), None);
    let table = table(0);
    let mut rows =
        trace(&table, &[("f", 10, "", 3), ("f", 70, "", 0), ("f", 20, "", 1), ("f", 80, "", 1), ("f", 5, "", 3)]);
    rows[4].value_errors = vec![(1, "not used".into())];
    let result = run(&view, &table, &rows);
    assert_eq!((result.ledger.records.filtered, result.ledger.records.too_late), (2, 1));
    assert_eq!(result.rejects, [(1, "division by zero".to_owned())]);
    assert_eq!(text(&result.changes), ["+I 1 at 120 [60, 120) late 0"]);
    // A value that does not fit is a reject before the filter is looked at; a reject of the table advances nothing.
    rows[4].value_errors = vec![(2, "no number".into())];
    rows[1].reject = Some((RejectReason::Future, "future".into()));
    let result = run(&view, &table, &rows);
    assert_eq!(result.ledger.records.rejected, [(RejectReason::Future, 1), (RejectReason::Value, 1)].into());
    assert_eq!(text(&result.changes), ["+I 1 at 60 [0, 60) late 0", "+I 1 at 120 [60, 120) late 0"]);
}

#[test]
fn pass_through_rows_are_stamped() {
    let mut table = table(0);
    let rows = trace(&table, &[("b", 10, "x", 1), ("a", 5, "y", 1), ("b", 8, "z", 1)]);
    let view = view(ViewKind::PassThrough(vec![Expr::column(1, TEXT)]), None, None);
    let result = run(&view, &table, &rows);
    assert_eq!(text(&result.changes), ["+I y at 5 late 0", "+I x at 10 late 0", "+I z at 10 late 0"]);
    assert_eq!(&*result.changes[2].group, &[Value::BigInt(1), Value::BigInt(3)]);
    table.late_records = LateRecords::Drop;
    let result = run(&view, &table, &rows);
    assert_eq!(result.changes.len(), 2);
    assert_eq!((result.late[0].position, result.late[0].lag_us), (3, 2 * S));
}

#[test]
fn files_end_with_their_last_record_and_columns_with_the_input() {
    let mut table = table(0);
    table.scope = LatenessScope::Source;
    table.arrival_time = Some(0);
    let mut rows = trace(&table, &[("a", 5, "", 1), ("b", 100, "", 1), ("b", 300, "", 1), ("b", 90, "", 1)]);
    for (row, arrived) in rows.iter_mut().zip([0, 1, 10, 20]) {
        row.arrived_us = Some(arrived * S);
    }
    let plan = windowed(60, 60, AggregateFunc::CountAll, None);
    let view = view(ViewKind::Windowed(plan), None, None);
    let names = ["a".to_owned(), "b".to_owned(), "empty".to_owned()];
    let files = oracle_changelog(&view, &table, &names, &rows).unwrap();
    assert_eq!(files.ledger.records.too_late, 1, "a and the empty file have ended, b alone makes the watermark 300");
    table.partition = Some(3);
    let column = oracle_changelog(&view, &table, &names, &rows).unwrap();
    assert_eq!(column.ledger.records.too_late, 0, "a still counts with 5, and so does the one that never spoke");
    let found = oracle_changelog(&view, &table, &[], &rows).unwrap();
    assert_eq!(found.partitions, ["a", "b"]);
}

#[test]
fn having_and_division_after_the_aggregation() {
    let mut plan = windowed(60, 60, AggregateFunc::CountAll, None);
    let count = || Expr::column(2, DataType::BigInt);
    let int = |n| Expr::literal(Value::BigInt(n), DataType::BigInt);
    let call = |func, args, dtype| Expr { kind: ExprKind::Call(func, args), dtype };
    plan.having = Some(call(Func::NotEq, vec![count(), int(2)], DataType::Boolean));
    plan.select = vec![call(
        Func::Div,
        vec![int(12), call(Func::Sub, vec![count(), int(1)], DataType::BigInt)],
        DataType::BigInt,
    )];
    let table = table(0);
    let rows = trace(&table, &[("f", 10, "", 1), ("f", 60, "", 1), ("f", 1, "", 1), ("f", 61, "", 1), ("f", 2, "", 1)]);
    let result = run(&view(ViewKind::Windowed(plan), None, Some(60)), &table, &rows);
    let expected = ["+I  at 60 [0, 60) late 0", "-D  at 60 [0, 60) late 0", "+I 6 at 61 [0, 60) late 2"];
    assert_eq!(text(&result.changes), expected, "12 / 0 is NULL; two records are hidden, and so is the second window");
    assert_eq!(result.changes[2].revision, 1);
}

#[test]
fn merging_by_arrival_keeps_the_order_within_partitions() {
    let table = table(0);
    let lane = |name: &str, arrivals: &[Option<i64>]| {
        let records: Vec<_> = arrivals.iter().map(|_| (name, 0, "", 1)).collect();
        let mut rows = trace(&table, &records);
        rows.iter_mut().zip(arrivals).for_each(|(row, at)| row.arrived_us = *at);
        rows
    };
    let a = lane("a", &[Some(5), Some(10), None, Some(30)]);
    let b = lane("b", &[None, Some(10), Some(3), Some(20)]);
    let merged = merge_by_arrival(vec![a, b]);
    let order: Vec<String> =
        merged.iter().map(|r| format!("{}{}", r.partition.as_deref().unwrap_or(""), r.position)).collect();
    assert_eq!(order, ["b1", "a1", "a2", "a3", "b2", "b3", "b4", "a4"]);
}
