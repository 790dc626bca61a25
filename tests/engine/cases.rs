//! Every case of `tests/cases` through the sequential stamper and the brute-force oracle.

use crate::common::{self, Actual, Case, CaseRecord, Item, compare};
use slackwater::aggregate::RecordOrder;
use slackwater::oracle::{Bounds, Key, OracleRecord, OracleSettings, evaluate, metrics};
use slackwater::types::{DataType, Value};
use slackwater::verify::{TraceRow, oracle_changelog};
use slackwater::watermark::sequential::SequentialStamper;
use slackwater::watermark::{AFTER_ALL, BEFORE_ALL};

/// `[count, sum, min, max]` of the values.
fn row(case: &Case, records: &[&OracleRecord<Value>]) -> Box<[Value]> {
    let values = || records.iter().map(|r| &r.input).filter(|v| !v.is_null());
    let sum = match case.value_type {
        DataType::Double => exact_sum(values().filter_map(|v| if let Value::Double(x) = v { Some(*x) } else { None })),
        _ => {
            let sum: i128 =
                values().filter_map(|v| if let Value::BigInt(x) = v { Some(i128::from(*x)) } else { None }).sum();
            Value::BigInt(i64::try_from(sum).expect("sums of cases fit"))
        }
    };
    let sum = if values().next().is_none() { Value::Null } else { sum };
    let count = Value::BigInt(i64::try_from(records.len()).unwrap());
    let of = |v: Option<&Value>| v.cloned().unwrap_or(Value::Null);
    [count, sum, of(values().min()), of(values().max())].into()
}

/// The cases' doubles are multiples of 2^-40 of moderate size, for which 128 bits are exact.
fn exact_sum(values: impl Iterator<Item = f64>) -> Value {
    let scale = (1u64 << 40) as f64;
    let sum: i128 = values.map(|x| (x * scale) as i128).sum();
    Value::Double(sum as f64 / scale)
}

/// Reads the items as a source would and answers everything that follows.
fn run(case: &Case) -> Actual {
    let mut stamper = SequentialStamper::new(case.watermarks.clone(), &case.partitions, false);
    let mut actual = Actual::default();
    let mut records: Vec<OracleRecord<Value>> = Vec::new();
    let mut items: Vec<usize> = Vec::new();
    let mut last_frontier = BEFORE_ALL;
    for (index, item) in case.items.iter().enumerate() {
        match item {
            Item::Tick { clock_us } => stamper.advance_clock(*clock_us),
            Item::End { partition } => stamper.end_partition(partition),
            Item::Record(r) => match case.reject_reason(r) {
                Some(reason) => {
                    stamper.reject(Some(r.arrived_us));
                    actual.rejected.push((index, reason));
                }
                None => {
                    records.push(stamped(case, r, index, &mut stamper));
                    items.push(index);
                    let stamp = records.last().unwrap().stamp_us;
                    assert!(stamp >= last_frontier, "{}: item {index} is stamped below the frontier", case.name);
                }
            },
        }
        let frontier = stamper.frontier();
        assert!(frontier >= last_frontier, "{}: the frontier went back at item {index}", case.name);
        last_frontier = frontier;
    }
    if case.bounded {
        stamper.end_input();
        assert_eq!(stamper.frontier(), AFTER_ALL);
    }
    let settings = OracleSettings {
        windows: case.windows,
        horizon_us: case.horizon_us,
        late_records: case.late_records,
        frontier_us: stamper.frontier(),
    };
    let result = |_: &Key, _: Bounds, records: &[&OracleRecord<Value>]| Ok(Some(row(case, records)));
    let outcome = evaluate(&settings, &records, result).expect("no case fails");
    actual.metrics = metrics(&outcome.changes);
    actual.changelog = outcome.changes;
    actual.dropped = outcome.dropped.iter().map(|d| (items[d.record], d.window_us, d.lag_us)).collect();
    actual.filtered = records.iter().filter(|r| r.filtered).count();
    actual
}

fn stamped(case: &Case, r: &CaseRecord, index: usize, stamper: &mut SequentialStamper) -> OracleRecord<Value> {
    let event_time_us = r.event_time_us.unwrap();
    let stamp_us = stamper.record(&r.partition, event_time_us.saturating_sub(case.delay_us), Some(r.arrived_us));
    let partition = u32::try_from(stamper.partition(&r.partition).unwrap()).unwrap();
    OracleRecord {
        order: RecordOrder { event_time_us, partition, position: index as u64 },
        stamp_us,
        key: [r.key.clone()].into(),
        filtered: !r.pass,
        input: r.value.clone(),
    }
}

#[test]
fn every_case_through_the_oracle() {
    let cases = common::all();
    assert!(cases.len() >= 161, "found {} cases only", cases.len());
    let failures: Vec<String> = cases.iter().filter_map(|case| compare(case, &run(case)).err()).collect();
    assert!(failures.is_empty(), "{} of {} cases fail:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

/// Records of a case as verification reads them.
fn trace(case: &Case) -> Vec<TraceRow> {
    let read = |(position, item): (u64, &Item)| match item {
        Item::Record(r) => Some(TraceRow {
            partition: Some(r.partition.clone()),
            position,
            event_time_us: r.event_time_us,
            watermark_us: r.event_time_us.map_or(BEFORE_ALL, |et| et.saturating_sub(case.delay_us)),
            arrived_us: Some(r.arrived_us),
            row: common::row(r),
            value_errors: vec![],
            reject: case.reject_reason(r).map(|reason| (reason, String::new())),
        }),
        _ => None,
    };
    (0..).zip(&case.items).filter_map(read).collect()
}

/// Cases with windows through the verifying evaluator, from plans: partitions named by a column, which end with the input.
#[test]
fn every_case_with_windows_through_verification() {
    let mut ran = 0;
    for case in common::all() {
        let Some((table, view)) = common::plans(&case) else { continue };
        if !case.bounded || case.items.iter().any(|item| !matches!(item, Item::Record(_))) {
            continue;
        }
        let rows = trace(&case);
        let found = oracle_changelog(&view, &table, &case.partitions, &rows).unwrap();
        let index = |record: usize| usize::try_from(rows[record].position).unwrap();
        let mut dropped: Vec<_> = found.late.iter().map(|l| (index(l.record), l.window_us, l.lag_us)).collect();
        dropped.sort_unstable();
        let rejected = rows.iter().enumerate().filter_map(|(i, row)| Some((index(i), row.reject.as_ref()?.0)));
        let actual = Actual {
            metrics: metrics(&found.changes),
            dropped,
            rejected: rejected.collect(),
            filtered: usize::try_from(found.ledger.records.filtered).unwrap(),
            changelog: found.changes,
        };
        compare(&case, &actual).unwrap();
        assert!(found.ledger.records.balances());
        assert_eq!(found.ledger.contributions.too_late, case.expect.dropped.len() as u64, "{}", case.name);
        ran += 1;
    }
    assert!(ran > 90, "{ran} cases only");
}

/// The comparison itself can fail: a run with another lateness rule is caught by many cases.
#[test]
fn a_wrong_lateness_rule_is_caught() {
    let mut caught = 0;
    for mut case in common::all() {
        case.horizon_us = case.horizon_us.map(|h| h.saturating_sub(1_000_000).max(0));
        caught += u32::from(compare(&case, &run(&case)).is_err());
    }
    assert!(caught > 5, "a horizon one second shorter was noticed by {caught} cases only");
}
