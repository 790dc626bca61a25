//! The lateness lab against one run of the engine for every cell: random streams, views and grids.

use crate::streams::{Dice, Raw, Stream};
use proptest::prelude::*;
use slackwater::dataflow::{RunOptions, run};
use slackwater::error::Result;
use slackwater::lab::Lab;
use slackwater::lab::grid::Grid;
use slackwater::lab::report::{Cell, CellWindows, Deviations, RecordClasses, Report};
use slackwater::lab::setting::Setting;
use slackwater::oracle::metrics;
use slackwater::plan::{LateRecords, Program, ViewKind};
use slackwater::sink::block::Head;
use slackwater::sink::summary::WindowCounts;
use slackwater::sink::{Change, Op};
use slackwater::time::format_duration;
use slackwater::types::{DataType, Value};
use slackwater::verify::collect::{Collected, collect};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Asks the lab.
fn ask(stream: &Stream, setting: &Setting, workers: usize, block: usize) -> Result<Option<Report>> {
    let program = Arc::new(setting.program());
    let source = stream.source(&program.tables[0], block, workers)?;
    let lab = Lab::new(setting.clone());
    let options = RunOptions { workers, lab: Some(Arc::clone(&lab)), ..RunOptions::default() };
    run(program, vec![source], &options, lab.output())?;
    lab.report()
}

/// Runs the view with the settings of a cell.
fn run_cell(stream: &Stream, program: &Program, view: usize, cell: (i64, Option<i64>)) -> Result<Collected> {
    let mut program = program.clone();
    program.tables[0].delay_us = Some(cell.0);
    program.views = vec![program.views[view].clone()];
    program.views[0].horizon_us = cell.1;
    program.sinks.clear();
    let source = stream.source(&program.tables[0], 20, 1)?;
    collect(&Arc::new(program), vec![source], 1)
}

fn head(change: &Change) -> Head {
    Head {
        op: change.op,
        closing: change.closing,
        revision: change.revision,
        late_count: change.late_count,
        window_us: change.window_us,
        watermark_us: change.watermark_us,
    }
}

/// What of a cell differs from the run.
fn difference(cell: &Cell, found: &Collected) -> Option<String> {
    let (changes, ledger) = (&found.changes[0], &found.ending.ledgers[0]);
    let mut counts = WindowCounts::default();
    changes.iter().for_each(|change| counts.observe(head(change)));
    let late = |c: &&Change| c.op == Op::Insert && c.revision == 0 && !c.closing;
    let windows = CellWindows {
        published: counts.published,
        published_late: changes.iter().filter(late).count() as u64,
        corrections: counts.corrections,
        corrected: counts.corrected,
    };
    let expected = (RecordClasses::from(&ledger.records), &ledger.contributions, windows);
    let given = (cell.records, &cell.contributions, cell.windows);
    (expected != given).then(|| format!("run {expected:?}\n  lab {given:?}"))
}

/// The relative error in billionths, by definition; `None` if there is none.
fn error_ppb(first: &Value, last: &Value) -> Option<u64> {
    let error = match (first, last) {
        _ if first == last => 0.0,
        (Value::BigInt(a), Value::BigInt(b)) => (i128::from(*a) - i128::from(*b)).abs() as f64 / (*b as f64).abs(),
        (Value::Decimal(a, _), Value::Decimal(b, _)) => (a - b).abs() as f64 / (*b as f64).abs(),
        (Value::Double(a), Value::Double(b)) if b.is_finite() => (a - b).abs() / b.abs(),
        _ => return None,
    };
    error.is_finite().then(|| (error * 1e9).round().min(1e18) as u64)
}

/// A pane's window and group.
type Place = (Option<(i64, i64)>, Box<[Value]>);

fn by_place(changes: impl IntoIterator<Item = Change>) -> BTreeMap<Place, Box<[Value]>> {
    changes.into_iter().map(|c| ((c.window_us, c.group), c.values)).collect()
}

/// What of a cell's comparisons differs from the changelog of its run and the final results `truth`.
fn deviation(cell: &Cell, found: &Collected, truth: &Collected, output: &[(String, DataType)]) -> Option<String> {
    let changes = &found.changes[0];
    let firsts = by_place(changes.iter().filter(|c| c.closing).cloned());
    let (finals, truth) = (by_place(metrics(changes)), by_place(metrics(&truth.changes[0])));
    let is_number = |t: &DataType| matches!(t, DataType::BigInt | DataType::Double | DataType::Decimal { .. });
    // Aggregates are the columns `a0`, `a1`, …
    let columns = output.iter().enumerate().filter(|(_, (name, t))| name.starts_with('a') && is_number(t));
    let columns: Vec<_> = columns.map(|(at, (name, _))| (at, name)).collect();
    if !columns.iter().map(|(_, name)| *name).eq(cell.accuracy.iter().map(|a| &a.column)) {
        return Some(format!("columns {columns:?} or {:?}", cell.accuracy));
    }
    columns.into_iter().zip(&cell.accuracy).find_map(|((at, name), given)| {
        let differs = |what: &str, earlier: &_, later: &_, given: &_| {
            compared(at, earlier, later, given).map(|how| format!("{name}, {what}: {how}"))
        };
        differs("first and final", &firsts, &finals, &given.first_final)
            .or_else(|| differs("first and truth", &firsts, &truth, &given.first_truth))
            .or_else(|| differs("final and truth", &finals, &truth, &given.final_truth))
    })
}

/// Compares column `at` by definition; what differs from what was given.
fn compared(
    at: usize,
    earlier: &BTreeMap<Place, Box<[Value]>>,
    later: &BTreeMap<Place, Box<[Value]>>,
    given: &Deviations,
) -> Option<String> {
    let panes = later.iter().filter_map(|(place, last)| Some((&earlier.get(place)?[at], &last[at])));
    let panes: Vec<(&Value, &Value)> = panes.collect();
    let mut errors: Vec<u64> = panes.iter().filter_map(|(first, last)| error_ppb(first, last)).collect();
    errors.sort_unstable();
    let exact = panes.iter().filter(|(first, last)| first == last).count() as u64;
    let of = |ppb: u64| ppb as f64 / 1e9;
    let sum: u128 = errors.iter().map(|ppb| u128::from(*ppb)).sum();
    let mean = (!errors.is_empty()).then(|| sum as f64 / errors.len() as f64 / 1e9);
    let (missing, undefined) = ((later.len() - panes.len()) as u64, (panes.len() - errors.len()) as u64);
    let expected = (missing, panes.len() as u64, exact, undefined, mean, errors.last().copied().map(of));
    let found = (given.missing, given.compared, given.exact, given.undefined, given.mean, given.max);
    let bounded = [(50, given.p50), (99, given.p99)].iter().all(|(hundredths, found)| {
        let truth = errors.get((errors.len() * hundredths).div_ceil(100).saturating_sub(1)).copied().map(of);
        truth.is_none() && found.is_none()
            || truth.zip(*found).is_some_and(|(truth, found)| truth <= found && found <= truth * 1.125 + 1e-12)
    });
    (expected != found || !bounded).then(|| format!("run {expected:?} of {errors:?}\n  lab {given:?}"))
}

fn grid(dice: &mut Dice, unit_us: i64) -> (String, String) {
    let mut delays: Vec<i64> =
        (0..dice.range(1, 5)).map(|_| dice.range(0, 14) * unit_us / 2 + dice.pick(&[0, 0, 1])).collect();
    let mut horizons: Vec<Option<i64>> = (0..dice.below(4)).map(|_| Some(dice.range(0, 20) * unit_us)).collect();
    horizons.extend(dice.pick(&[None, Some(None), Some(Some(0)), Some(Some(1 << 61))]));
    if horizons.is_empty() {
        horizons.push(None);
    }
    delays.sort_unstable();
    delays.dedup();
    horizons.sort_unstable();
    horizons.dedup();
    let text = |horizon: &Option<i64>| horizon.map_or_else(|| "none".to_owned(), format_duration);
    let delays: Vec<String> = delays.into_iter().map(format_duration).collect();
    (delays.join(","), horizons.iter().map(text).collect::<Vec<_>>().join(","))
}

fn check(seed: u64, raw: &[Raw]) -> Option<String> {
    let stream = Stream::new(seed, raw);
    let mut dice = Dice(seed ^ 0x1ab);
    let mut program = Program::clone(&stream.program);
    program.tables[0].delay_us = Some(0);
    program.tables[0].late_records = LateRecords::Window;
    if dice.one_in(2) {
        // Coarse, so that records that count at one instant under one delay do not under another.
        program.tables[0].granularity_us = dice.range(2, 9) * stream.setup.unit_us;
    }
    for (number, view) in program.views.iter().enumerate() {
        if !matches!(view.kind, ViewKind::Windowed(_)) {
            continue;
        }
        let (delays, horizons) = grid(&mut dice, stream.setup.unit_us);
        let setting = Setting::new(&program, view.name.as_deref(), &delays, &horizons).expect("a grid");
        let (workers, block) = (dice.range(1, 4) as usize, dice.range(1, 60) as usize);
        let place = |what: String| Some(format!("seed {seed}, view {number}, {delays} × {horizons}: {what}\n{stream}"));
        let found = ask(&stream, &setting, workers, block);
        let runs: Vec<_> = cells(&setting.grid).map(|cell| (cell, run_cell(&stream, &program, number, cell))).collect();
        if let Ok(None) = found {
            let ended = runs.iter().any(|(_, run)| run.as_ref().is_ok_and(|run| run.ending.complete));
            assert!(!stream.setup.bounded && !ended, "seed {seed}: no answer");
            continue;
        }
        let failed = runs.iter().find(|(_, run)| run.is_err());
        let report = match (found, failed) {
            (Err(_), Some(_)) => continue,
            (Ok(Some(report)), None) => report,
            (found, failed) => return place(format!("lab {found:?}\n  run {failed:?}")),
        };
        let again = ask(&stream, &setting, 1, 1 << 20).expect("an answer");
        if again.as_ref() != Some(&report) {
            return place(format!("{workers} workers {report:?}\n  one {again:?}"));
        }
        assert_eq!(report.cells.len(), runs.len());
        let truth = runs.last().and_then(|(_, run)| run.as_ref().ok()).expect("a cell");
        for (cell, ((delay_us, horizon_us), run)) in report.cells.iter().zip(&runs) {
            assert_eq!((cell.delay_us, cell.horizon_us), (*delay_us, *horizon_us));
            let run = run.as_ref().expect("no run failed");
            if let Some(what) = difference(cell, run).or_else(|| deviation(cell, run, truth, &view.output)) {
                return place(format!("delay {delay_us} horizon {horizon_us:?}:\n  {what}"));
            }
        }
    }
    None
}

fn cells(grid: &Grid) -> impl Iterator<Item = (i64, Option<i64>)> {
    grid.delays_us().iter().flat_map(|delay| grid.horizons_us().iter().map(|horizon| (*delay, *horizon)))
}

proptest! {
    // A quarter of the usual number: each is a run for every cell of a grid.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.div_ceil(4),
        max_shrink_iters: 500,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_cell_is_that_of_a_run(seed in any::<u64>().no_shrink(), raw in prop::collection::vec(any::<Raw>(), 0..90)) {
        if let Some(difference) = check(seed, &raw) {
            prop_assert!(false, "{}", difference);
        }
    }
}
