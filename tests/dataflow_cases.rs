//! Every tumbling and hopping case of `tests/cases` through the dataflow, on several workers and block sizes.

mod common;

use common::run::{Collected, collect};
use common::{Actual, Case, CaseRecord, Item, compare};
use slackwater::aggregate::{AggregateFunc, AggregateSpec};
use slackwater::expr::Expr;
use slackwater::oracle::{Windows, metrics};
use slackwater::plan::{
    AggregatePlan, ColumnPlan, Format, OnError, Program, SourcePlan, TablePlan, ViewKind, ViewPlan, WindowPlan,
    WindowedPlan,
};
use slackwater::source::trace::{TraceItem, TraceSource};
use slackwater::types::{DataType, Value};
use std::sync::Arc;

fn table(case: &Case) -> TablePlan {
    let column = |name: &str, dtype: DataType| ColumnPlan { name: name.into(), path: vec![name.into()], dtype };
    TablePlan {
        name: "t".into(),
        columns: vec![
            column("et", DataType::Timestamp),
            column("at", DataType::Timestamp),
            column("k", DataType::Text),
            column("v", case.value_type.clone()),
            column("pass", DataType::Boolean),
        ],
        event_time: Some(0),
        watermark: None,
        delay_us: Some(case.delay_us),
        arrival_time: Some(1),
        partition: None,
        partitions: Vec::new(),
        scope: case.watermarks.scope,
        idle_timeout_us: case.watermarks.idle_timeout_us,
        granularity_us: case.watermarks.granularity_us,
        tick_us: case.watermarks.tick_us,
        max_future_us: case.max_future_us,
        late_records: case.late_records,
        on_error: OnError::Reject,
        rejects: None,
        time_unit_us: 1000,
        source: SourcePlan::Stdin { format: Format::Json },
    }
}

fn view(case: &Case) -> ViewPlan {
    let Windows::Hopping { size_us, slide_us, offset_us } = case.windows else { panic!("no window of this test") };
    let value = || Expr::column(3, case.value_type.clone());
    let aggregate = |func, arg: Option<Expr>| AggregatePlan {
        spec: AggregateSpec { func, arg: arg.as_ref().map(|a| a.dtype.clone()) },
        arg,
        filter: None,
    };
    let aggregates = vec![
        aggregate(AggregateFunc::CountAll, None),
        aggregate(AggregateFunc::Sum, Some(value())),
        aggregate(AggregateFunc::Min, Some(value())),
        aggregate(AggregateFunc::Max, Some(value())),
    ];
    // Post-aggregation rows: [k, window_start, window_end, count, sum, min, max].
    let types: Vec<DataType> = aggregates.iter().map(|a| a.spec.output().unwrap()).collect();
    let select = types.iter().enumerate().map(|(i, t)| Expr::column(3 + i, t.clone())).collect();
    ViewPlan {
        name: Some("v".into()),
        table: 0,
        filter: Some(Expr::column(4, DataType::Boolean)),
        kind: ViewKind::Windowed(WindowedPlan {
            window: WindowPlan { size_us, slide_us, offset_us: offset_us.rem_euclid(slide_us) },
            group: vec![Expr::column(2, DataType::Text)],
            aggregates,
            having: None,
            select,
        }),
        output: ["count", "sum", "min", "max"].iter().zip(types).map(|(n, t)| ((*n).into(), t)).collect(),
        horizon_us: case.horizon_us.map(|h| h.min(1 << 61)),
        late: None,
        spike_above: 1,
        sql: String::new(),
    }
}

fn time(us: Option<i64>) -> Value {
    us.map_or(Value::Null, Value::Timestamp)
}

fn trace_item(case: &Case, item: &Item) -> TraceItem {
    let index = |name: &String| case.partitions.iter().position(|p| p == name).expect("a declared partition");
    match item {
        Item::End { partition } => TraceItem::End { partition: index(partition) },
        Item::Tick { clock_us } => TraceItem::Clock { arrived_us: *clock_us },
        Item::Record(CaseRecord { partition, event_time_us, arrived_us, key, value, pass }) => TraceItem::Record {
            partition: index(partition),
            values: vec![
                time(*event_time_us),
                time(Some(*arrived_us)),
                key.clone(),
                value.clone(),
                Value::Boolean(*pass),
            ],
        },
    }
}

fn run(case: &Case, workers: usize, block_rows: usize) -> Actual {
    if std::env::var_os("SLACKWATER_TRACE_CASES").is_some() {
        eprintln!("{}", case.name);
    }
    let program = Arc::new(Program {
        tables: vec![table(case)],
        views: vec![view(case)],
        sinks: Vec::new(),
        warnings: Vec::new(),
    });
    let items: Vec<TraceItem> = case.items.iter().map(|item| trace_item(case, item)).collect();
    let source = TraceSource::new(&program.tables[0], &case.partitions, &items, case.bounded, block_rows);
    let collected = collect(&program, vec![source.into()], workers).expect("a run of a case");
    check_ledger(case, &collected);
    // Items by (partition, position).
    let item_of = |partition: u32, position: u64| {
        let of_partition =
            |item: &Item| matches!(item, Item::Record(r) if r.partition == case.partitions[partition as usize]);
        let mut places = case.items.iter().enumerate().filter(|(_, item)| of_partition(item)).map(|(index, _)| index);
        places.nth(position as usize - 1).expect("a record at that position")
    };
    let mut dropped: Vec<_> =
        collected.too_late[0].iter().map(|r| (item_of(r.partition, r.position), r.window_us, r.lag_us)).collect();
    dropped.sort_by_key(|(item, window, _)| (*item, *window));
    let mut rejected: Vec<_> =
        collected.rejects[0].iter().map(|r| (item_of(r.partition.expect("known"), r.position), r.reason)).collect();
    rejected.sort();
    Actual {
        metrics: metrics(&collected.changes[0]),
        changelog: collected.changes[0].clone(),
        dropped,
        rejected,
        filtered: collected.ending.ledgers[0].records.filtered as usize,
    }
}

fn check_ledger(case: &Case, collected: &Collected) {
    let ledger = &collected.ending.ledgers[0];
    let read = case.items.iter().filter(|item| matches!(item, Item::Record(_))).count() as u64;
    assert_eq!(collected.ending.complete, case.bounded, "{}", case.name);
    if case.bounded {
        assert_eq!(ledger.records.read, read, "{}: every record is in the ledger", case.name);
    }
    assert!(ledger.records.balances(), "{}: {ledger:?}", case.name);
    assert!(ledger.partitions.values().all(|p| p.balances()), "{}: {ledger:?}", case.name);
    assert_eq!(ledger.partitions.values().map(|p| p.read).sum::<u64>(), ledger.records.read);
    assert_eq!(ledger.contributions.too_late, collected.too_late[0].len() as u64);
}

fn check(workers: usize, block_rows: usize) {
    let cases: Vec<Case> =
        common::all().into_iter().filter(|case| !matches!(case.windows, Windows::Session { .. })).collect();
    assert!(cases.len() >= 120, "found {} cases only", cases.len());
    let failures: Vec<String> =
        cases.iter().filter_map(|case| compare(case, &run(case, workers, block_rows)).err()).collect();
    assert!(failures.is_empty(), "{} of {} cases fail:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn one_worker() {
    check(1, 1000);
}

#[test]
fn one_worker_small_blocks() {
    check(1, 1);
}

#[test]
fn two_workers() {
    check(2, 3);
}

#[test]
fn four_workers() {
    check(4, 2);
}
