//! Random streams, settings, queries, worker counts and block sizes: the dataflow against the reference.

use crate::common::run::{Collected, collect};
use crate::reference::{Expected, Late, Reference, Reject, applied, as_of, oracle_settings, reference};
use crate::streams::{Carrier, Dice, Raw, Stream, Told};
use proptest::prelude::*;
use slackwater::engine::output::Ending;
use slackwater::error::Result;
use slackwater::plan::{Program, TablePlan, ViewKind};
use slackwater::sink::Change;
use slackwater::time::format_timestamp;
use slackwater::verify::oracle_changelog;
use std::sync::Arc;

/// Runs a stream through the dataflow, under the settings of `program`.
pub fn run(stream: &Stream, program: &Arc<Program>, workers: usize, block: usize) -> Result<Collected> {
    let source = stream.source(&program.tables[0], block, workers)?;
    collect(program, vec![source], workers)
}

/// The first thing in which a run differs from the reference.
pub fn difference(expected: &Reference, found: &Result<Collected>) -> Option<String> {
    let failure = expected.views.iter().find_map(|view| view.changes.as_ref().err());
    let found = match (failure, found) {
        (None, Ok(found)) => found,
        (Some(_), Ok(_)) => return Some(format!("expected {failure:?}, found a run that ends well")),
        (None, Err(error)) => return Some(format!("expected a run that ends well, found {error}")),
        (Some(_), Err(error)) => return wrong_failure(expected, &error.to_string()),
    };
    for (number, view) in expected.views.iter().enumerate() {
        let Ok(changes) = &view.changes else { continue };
        // As text, which tells scales of decimals apart; zeros have no sign.
        let line = |c: &Change| format!("{c:?}").replace("Double(-0.0)", "Double(0.0)");
        let text = |changes: &[Change]| changes.iter().map(line).collect::<Vec<_>>();
        let late: Vec<Late> = found.too_late[number]
            .iter()
            .map(|r| (r.partition, r.position, r.event_time_us, r.stamp_us, r.window_us, r.lag_us, r.columns.clone()))
            .collect();
        let ledger = &found.ending.ledgers[number];
        let differs = first(&format!("view {number}: change"), &text(changes), &text(&found.changes[number]))
            .or_else(|| first(&format!("view {number}: late row"), &view.late, &late))
            .or_else(|| first(&format!("view {number}: ledger"), &[&view.ledger], &[ledger]));
        if differs.is_some() {
            return differs;
        }
        assert!(ledger.records.balances() && ledger.parts().all(|p| p.balances()));
    }
    let mut rejects: Vec<Reject> =
        found.rejects[0].iter().map(|r| (r.partition, r.position, r.view, r.reason)).collect();
    rejects.sort();
    first("reject", &expected.rejects, &rejects).or_else(|| ending(expected, &found.ending))
}

/// A run that fails names the first result that cannot be, in changelog order.
fn wrong_failure(expected: &Reference, message: &str) -> Option<String> {
    let failures: Vec<_> = expected.views.iter().filter_map(|view| view.changes.as_ref().err()).collect();
    let named = failures.iter().any(|failure| {
        let mut end = String::new();
        format_timestamp(failure.window_us.1, &mut end);
        message.contains(&end)
    });
    (!named).then(|| format!("expected one of {failures:?}, found {message}"))
}

fn ending(expected: &Reference, found: &Ending) -> Option<String> {
    let table = &found.tables[0];
    first("partition", &expected.partitions, &table.partitions)
        .or_else(|| first("partition's watermark", &expected.watermarks_us, &table.partition_watermarks_us))
        .or_else(|| first("watermark", &[expected.watermark_us], &[table.watermark_us]))
}

fn first<T: PartialEq + std::fmt::Debug>(what: &str, expected: &[T], found: &[T]) -> Option<String> {
    let at = (0..expected.len().max(found.len())).find(|at| expected.get(*at) != found.get(*at))?;
    Some(format!("{what} {at}:\n  expected {:?}\n  found    {:?}", expected.get(at), found.get(at)))
}

/// The changelog, applied up to an instant, is the result as of that instant computed from nothing.
fn check_instants(stream: &Stream, expected: &Reference, changes: &[Vec<Change>], dice: &mut Dice) {
    for (number, view) in stream.program.views.iter().enumerate() {
        let ViewKind::Windowed(plan) = &view.kind else { continue };
        let settings = oracle_settings(stream.table(), view, plan, expected.frontier_us);
        let changes = &changes[number];
        if changes.is_empty() {
            continue;
        }
        for _ in 0..4 {
            let change = &changes[dice.below(changes.len() as u64) as usize];
            let moment = (change.watermark_us, !change.closing);
            let scratch = as_of(&settings, plan, &expected.views[number].records, moment);
            assert_eq!(applied(changes, moment), scratch, "view {number} as of {moment:?}\n{stream}");
        }
    }
}

/// Recorded input is also held against the oracle that `slackwater verify` runs.
fn check_verification(stream: &Stream, table: &TablePlan, expected: &[Expected]) {
    let rows: Vec<_> =
        stream.told.iter().filter_map(|t| if let Told::Row(r) = t { Some((**r).clone()) } else { None }).collect();
    if stream.setup.carrier == Carrier::Trace {
        return;
    }
    for (view, expected) in stream.program.views.iter().zip(expected) {
        let found = oracle_changelog(view, table, &stream.known, &rows);
        match (&expected.changes, found) {
            (Ok(changes), Ok(found)) => {
                assert_eq!(*changes, found.changes, "verification\n{stream}");
                assert_eq!(expected.ledger, found.ledger, "verification\n{stream}");
                assert_eq!(expected.late.len(), found.late.len(), "verification\n{stream}");
            }
            (Err(expected), Err(found)) => assert_eq!(*expected, found, "verification\n{stream}"),
            (expected, found) => panic!("verification: {expected:?} or {found:?}\n{stream}"),
        }
    }
}

fn check(seed: u64, raw: &[Raw]) -> Option<String> {
    let stream = Stream::new(seed, raw);
    let mut dice = Dice(seed ^ 0x5eed);
    let expected = reference(&stream, stream.table());
    check_verification(&stream, stream.table(), &expected.views);
    let (workers, block) = (dice.range(1, 5) as usize, dice.range(1, 60) as usize);
    let found = run(&stream, &stream.program, workers, block);
    if let Some(difference) = difference(&expected, &found) {
        return Some(format!("{workers} workers, block {block}: {difference}\n{stream}"));
    }
    if let Ok(found) = found {
        check_instants(&stream, &expected, &found.changes, &mut dice);
    }
    None
}

proptest! {
    // 256 cases, or as PROPTEST_CASES says.
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn dataflow_equals_reference(seed in any::<u64>().no_shrink(), raw in prop::collection::vec(any::<Raw>(), 0..90)) {
        if let Some(difference) = check(seed, &raw) {
            prop_assert!(false, "{}", difference);
        }
    }
}
