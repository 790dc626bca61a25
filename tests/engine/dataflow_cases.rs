//! Every tumbling and hopping case of `tests/cases` through the dataflow, on several workers and block sizes.

use crate::common::run::{Collected, collect};
use crate::common::{self, Actual, Case, Item, compare};
use slackwater::oracle::metrics;
use slackwater::plan::Program;
use slackwater::source::trace::{TraceItem, TraceSource};
use std::sync::Arc;

/// The case's plans, each partition being a lane of its own, so that it can end. `None` for sessions.
fn program(case: &Case) -> Option<Arc<Program>> {
    let (mut table, view) = common::plans(case)?;
    (table.partition, table.partitions) = (None, Vec::new());
    Some(Arc::new(Program { tables: vec![table], views: vec![view], sinks: Vec::new(), warnings: Vec::new() }))
}

fn trace_item(case: &Case, item: &Item) -> TraceItem {
    let index = |name: &String| case.partitions.iter().position(|p| p == name).expect("a declared partition");
    match item {
        Item::End { partition } => TraceItem::End { partition: index(partition) },
        Item::Tick { clock_us } => TraceItem::Clock { arrived_us: *clock_us },
        Item::Record(r) => TraceItem::Record { partition: index(&r.partition), values: common::row(r) },
    }
}

fn run(case: &Case, program: &Arc<Program>, workers: usize, block_rows: usize) -> Actual {
    let items: Vec<TraceItem> = case.items.iter().map(|item| trace_item(case, item)).collect();
    let source = TraceSource::new(&program.tables[0], &case.partitions, &items, case.bounded, block_rows);
    let collected = collect(program, vec![source.into()], workers).expect("a run of a case");
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
    let cases: Vec<(Case, Arc<Program>)> =
        common::all().into_iter().filter_map(|case| program(&case).map(|program| (case, program))).collect();
    assert!(cases.len() >= 120, "found {} cases only", cases.len());
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|(case, program)| compare(case, &run(case, program, workers, block_rows)).err())
        .collect();
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
