//! The lateness lab: each cell of its grid is what a run with that delay and horizon gives, for random streams by the
//! reference (stamps record by record, the oracle) and for the shipped examples by runs of the engine.

use crate::common::run::collect;
use crate::lab_figures::{Pair, Place, difference, ledger_difference, pairs};
use crate::reference::{Expected, Input, reference};
use crate::streams::{Dice, Raw, Stream, Told};
use proptest::prelude::*;
use slackwater::dataflow::{RunOptions, run};
use slackwater::lab::blocks::BlockSums;
use slackwater::lab::figures::ERROR_UNIT;
use slackwater::lab::files;
use slackwater::lab::outcome::Outcome;
use slackwater::lab::pairs::measured;
use slackwater::lab::plan::{LabPlan, LabSet, LabSettings};
use slackwater::lab::recommend::condition::{self, Condition};
use slackwater::lab::recommend::meter;
use slackwater::lab::report::{DelayFigures, Report};
use slackwater::oracle::{OracleRecord, Windows, windows_of};
use slackwater::plan::{LateRecords, Program, TablePlan, ViewKind, ViewPlan, WindowedPlan};
use slackwater::source::{self, Source, SourceOptions};
use slackwater::sql::with_policy;
use slackwater::sql::{self, BareSelectDefaults};
use slackwater::verify::collect::Collector;
use slackwater::watermark::AFTER_ALL;
use slackwater::watermark::policy::PolicyPlan;
use slackwater::watermark::sequential::SequentialStamper;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Runs the lab.
fn lab(set: &LabSet, source: Arc<dyn Source>, workers: usize) -> Report {
    let collector = Collector::default();
    let options = RunOptions { workers, lab: set.plans.clone(), ..RunOptions::default() };
    let complete = run(Arc::clone(&set.program), vec![source], &options, Box::new(collector.clone()));
    assert!(complete.expect("the pass ends well"), "the whole input is read");
    let ending = collector.take(&set.program).ending;
    let report = Report::of_set(set, &ending).expect("a report");
    if set.plans[0].recommend.is_some() {
        blocks_add_up(&report, &ending.lab[0]);
    }
    report
}

/// What recommendations are made from adds up to the figures of the cells.
fn blocks_add_up(report: &Report, outcome: &Outcome) {
    let add = |sums: &BlockSums, groups: std::ops::Range<u64>| {
        let mut all: Vec<u64> = Vec::new();
        for (_, counts) in sums.blocks().values().flatten().filter(|(group, _)| groups.contains(group)) {
            all.resize(all.len().max(counts.len()), 0);
            all.iter_mut().zip(counts).for_each(|(a, b)| *a += b);
        }
        move |at: usize| all.get(at).copied().unwrap_or(0)
    };
    let (delays, horizons) = (report.delays.len(), report.cells.len() / report.delays.len());
    let blocks = &outcome.ingest.blocks;
    for groups in [meter::ALL..meter::ALL + 1, meter::HOURS..meter::HOURS + 24, meter::PARTITIONS..u64::MAX] {
        let contributions = add(blocks, groups);
        for delay in 0..delays {
            let records = &report.cell(delay, 0).expect("a cell").records;
            let missing = records.contributions_late + records.contributions_too_late;
            let all = records.contributions_on_time + missing;
            assert_eq!((contributions(0), contributions(1 + delay)), (all, missing));
        }
    }
    let dropped = add(blocks, meter::DROPPED..meter::DROPPED + 1);
    for (at, cell) in report.cells.iter().enumerate() {
        assert_eq!(dropped(at), cell.records.contributions_too_late);
    }
    let none = BlockSums::default();
    let errors = add(outcome.figures.as_ref().map_or(&none, |figures| &figures.errors), 0..1);
    let in_time = add(&outcome.timeline.in_time, 0..1);
    // No window is left out: each has its records in the block that it starts in, or in the next that has some.
    for sums in [outcome.figures.as_ref().map_or(&none, |figures| &figures.errors), &outcome.timeline.in_time] {
        let (mut base, mut sums) = (blocks.clone(), sums.clone());
        base.coarsen(sums.doublings());
        sums.coarsen(base.doublings());
        sums.move_onto(&base);
        assert!(sums.blocks().keys().all(|block| base.blocks().contains_key(block)), "{sums:?} {base:?}");
    }
    let columns = report.columns.len();
    for (delay, figures) in report.delays.iter().enumerate() {
        assert_eq!(in_time(delay), figures.latency.windows);
        assert!(in_time(delays + delay) <= in_time(delay));
        let accuracy = &report.cell(delay, horizons - 1).expect("a cell").first_truth;
        assert_eq!(errors(delay), accuracy.compared);
        for (column, error) in accuracy.columns.iter().enumerate() {
            assert_eq!(errors(delays * (1 + columns + column) + delay), error.undefined);
            let defined = accuracy.compared - error.undefined;
            let mean = errors(delays * (1 + column) + delay) as f64 / ERROR_UNIT as f64 / defined.max(1) as f64;
            // Greater sizes than 1,024 are cut.
            let near = |expected: f64| (mean - expected).abs() <= 1e-6 * expected.max(1.0) || error.max > Some(1024.0);
            assert!(defined == 0 || near(error.mean.unwrap_or(0.0)), "{mean} {error:?}");
        }
    }
}

/// The program with one view, under a delay and a horizon.
fn cell_program(program: &Program, view: usize, delay_us: i64, horizon_us: Option<i64>) -> Program {
    let view = &program.views[view];
    let table = TablePlan { delay_us: Some(delay_us), policy: None, ..program.tables[view.table].clone() };
    let view = ViewPlan { table: 0, horizon_us, late: None, ..view.clone() };
    Program { tables: vec![table], views: vec![view], sinks: Vec::new(), warnings: Vec::new() }
}

fn windowed(view: &ViewPlan) -> Option<&WindowedPlan> {
    if let ViewKind::Windowed(plan) = &view.kind { Some(plan) } else { None }
}

/// What the reference gives for one cell.
fn expected_cell(stream: &mut Stream, program: Program) -> Expected {
    let delay_us = program.tables[0].delay_us.expect("a delay");
    stream.program = Arc::new(program);
    for told in &mut stream.told {
        if let Told::Row(row) = told {
            row.watermark_us = row.event_time_us.map_or(i64::MIN, |et| et.saturating_sub(delay_us));
        }
    }
    stream.apply_policy();
    let table = stream.table().clone();
    reference(stream, &table).views.remove(0)
}

/// A record's partition and position, its unrounded stamp, its arrival, and the event time that stands in for that.
type Unrounded = (usize, u64, i64, Option<i64>, i64);

/// Stamps of all records in the order in which they are told: under delay 0, or under the table's policy.
fn unrounded(stream: &Stream, table: &TablePlan) -> Vec<Unrounded> {
    let settings = slackwater::watermark::WatermarkSettings {
        scope: table.scope,
        idle_timeout_us: table.idle_timeout_us,
        granularity_us: 1,
        tick_us: table.tick_us,
    };
    let names = crate::reference::partition_order(stream);
    let mut stamper = SequentialStamper::new(settings, &stream.known, table.partition.is_some());
    let mut out = Vec::new();
    let mut newest = vec![i64::MIN; names.len()];
    for told in &stream.told {
        match told {
            Told::End(name) => stamper.end_partition(name),
            Told::Clock(us) => stamper.advance_clock(*us),
            Told::Row(row) => match (&row.reject, &row.partition, row.event_time_us) {
                (None, Some(name), Some(et)) => {
                    let watermark = if table.policy.is_some() { row.watermark_us } else { et };
                    let stamp = stamper.record(name, watermark, row.arrived_us);
                    let partition = names.iter().position(|n| n == name).expect("named");
                    newest[partition] = newest[partition].max(et);
                    let event = if table.policy.is_some() { newest[partition] } else { stamp };
                    out.push((partition, row.position, stamp, row.arrived_us, event));
                }
                _ => stamper.reject(row.arrived_us),
            },
        }
    }
    out
}

/// Result latencies and open pairs under one delay, by their definitions.
fn check_delay(
    stream: &Stream,
    table: &TablePlan,
    plan: &WindowedPlan,
    (records, arrival): (&[OracleRecord<Input>], bool),
    found: &DelayFigures,
) -> Option<String> {
    let window = plan.window;
    let windows = Windows::Hopping { size_us: window.size_us, slide_us: window.slide_us, offset_us: window.offset_us };
    // When each pair began, by end of its window.
    let mut began: BTreeMap<(i64, &[slackwater::types::Value]), i64> = BTreeMap::new();
    for record in records.iter().filter(|record| !record.filtered) {
        for (_, end) in windows_of(&windows, record.order.event_time_us) {
            let first = began.entry((end, &record.key)).or_insert(record.stamp_us);
            *first = (*first).min(record.stamp_us);
        }
    }
    let ends: std::collections::BTreeSet<i64> =
        began.iter().filter(|((end, _), first)| *first < end).map(|((end, _), _)| *end).collect();
    let open = |at: &i64| began.iter().filter(|((end, _), first)| end >= at && *first < at).count() as u64;
    let open_max = ends.iter().map(open).max().unwrap_or(0);
    if open_max != found.open_max {
        return Some(format!("open: expected {open_max}, found {}", found.open_max));
    }
    let stamps = unrounded(stream, table);
    let rounded = |m: i64| match m {
        i64::MIN => m,
        m => m.saturating_sub(found.delay_us).div_euclid(table.granularity_us).saturating_mul(table.granularity_us),
    };
    let (mut latencies, mut early, mut at_end) = (Vec::new(), 0, 0);
    for end in ends {
        let reached = stamps.iter().filter(|(_, _, m, ..)| rounded(*m) >= end);
        let Some(least) = reached.clone().map(|(_, _, m, ..)| *m).min() else {
            at_end += 1;
            continue;
        };
        // Of each partition the first with that stamp, and of those the one that arrived first.
        let mut firsts: BTreeMap<usize, (u64, i64)> = BTreeMap::new();
        for (partition, position, _, arrived, event) in reached.filter(|(_, _, m, ..)| *m == least) {
            let place = (*position, arrived.filter(|_| arrival).unwrap_or(*event));
            let first = firsts.entry(*partition).or_insert(place);
            *first = (*first).min(place);
        }
        let latency = firsts.values().map(|(_, arrived)| *arrived).min().expect("one") - end;
        early += u64::from(latency < 0);
        latencies.push(latency.max(0) as u64);
    }
    let figures = &found.latency;
    let expected = (latencies.len() as u64, latencies.iter().max().copied(), early, at_end);
    let found = (figures.windows, figures.max_us, figures.early, figures.closed_at_end);
    (expected != found).then(|| format!("latency: expected {expected:?}, found {found:?}"))
}

/// Something of every kind.
fn asked() -> Vec<Condition> {
    condition::parse("completeness >= 90%, final_completeness >= 95%, p99_latency <= 2s").expect("conditions")
}

/// A grid for a stream, its delays and horizons around the stream's unit.
fn settings(unit_us: i64, dice: &mut Dice) -> LabSettings {
    let mut delays_us: Vec<i64> =
        (0..dice.range(1, 5)).map(|_| dice.range(0, 12) * unit_us + dice.pick(&[0, 0, 0, 1])).collect();
    delays_us.sort_unstable();
    delays_us.dedup();
    let mut horizons_us: Vec<Option<i64>> =
        (0..dice.range(0, 4)).map(|_| Some(dice.range(0, 16) * unit_us + dice.pick(&[0, 0, 0, 1]))).collect();
    horizons_us.extend(dice.pick(&[None, Some(None), Some(None), Some(Some(1 << 61))]));
    horizons_us.extend(horizons_us.is_empty().then_some(None));
    horizons_us.sort_unstable();
    horizons_us.dedup();
    LabSettings {
        view: None,
        delays_us,
        horizons_us: Some(horizons_us),
        unbounded: dice.one_in(4),
        arrival: dice.pick(&[None, None, Some(false)]),
        policies: Vec::new(),
        keyed_us: None,
        recommend: if dice.one_in(2) { asked() } else { Vec::new() },
    }
}

/// The first difference between the lab and the reference, if the stream has a view with windows.
fn check(seed: u64, raw: &[Raw]) -> Option<String> {
    let mut stream = Stream::new(seed, raw);
    if !stream.setup.bounded {
        return None;
    }
    let mut dice = Dice(seed ^ 0x1ab);
    let mut program = (*stream.program).clone();
    program.tables[0].late_records = LateRecords::Window;
    let view = program.views.iter().position(|view| windowed(view).is_some())?;
    program.views = vec![program.views[view].clone()];
    let mut settings = settings(stream.setup.unit_us, &mut dice);
    if program.tables[0].delay_us.is_some() && dice.one_in(2) {
        let texts = [
            "quantile(0.8, span = 16s, min_records = 2)",
            "k-slack(span = 5s)",
            "quantile(0.5, span = 2s, min_records = 1)",
        ];
        let quality = "aq-k-slack(error = 10%, of = sum(v), window = 5s, span = 8s, min_records = 3)";
        let texts = (0..dice.range(1, 4)).map(|_| dice.pick(&[texts[0], texts[1], texts[2], quality]));
        settings.policies = texts.map(|text| PolicyPlan::parse(text).expect("a policy").expect("adaptive")).collect();
    }
    let keys = windowed(&program.views[0]).is_some_and(|windowed| !windowed.group.is_empty());
    settings.keyed_us = (keys && dice.one_in(2)).then(Vec::new);
    let set = LabSet::new(&program, &settings).unwrap_or_else(|e| panic!("{e}\n{stream}"));
    let plan = Arc::clone(&set.plans[0]);
    stream.program = Arc::clone(&set.reading);
    let table = plan.table().expect("a table").clone();
    let (workers, block) = (dice.range(1, 5) as usize, dice.range(1, 60) as usize);
    let report = lab(&set, stream.source(&table, block, workers).expect("a source"), workers);
    let other = lab(&set, stream.source(&table, 1_000, 1).expect("a source"), 1);
    let context = format!("{workers} workers, block {block}, {settings:?}\n{stream}");
    let texts =
        |report: &Report| (files::report_json(report).unwrap(), files::grid_csv(report), files::lags_csv(report));
    if texts(&report) != texts(&other) {
        return Some(format!("other bytes than with one worker: {context}"));
    }
    compare(&mut stream, &program, &plan, &report)
        .or_else(|| compare_policies(&mut stream, &program, &set, &report))
        .or_else(|| keyed_difference(&report))
        .map(|differs| format!("{differs}\n{context}"))
}

/// Every judged record and contribution has a class under keyed watermarks.
fn keyed_difference(report: &Report) -> Option<String> {
    let all = report.cells.first()?;
    let all = all.records.contributions_on_time + all.records.contributions_late + all.records.contributions_too_late;
    for (delay, cell) in report.keyed.iter().flat_map(|k| &k.delays).flat_map(|d| d.cells.iter().map(move |c| (d, c))) {
        let r = &cell.records;
        let records = r.on_time + r.corrected + r.partly_too_late + r.too_late;
        let contributions = r.contributions_on_time + r.contributions_late + r.contributions_too_late;
        if (records, contributions) != (report.records.judged, all) {
            return Some(format!(
                "keyed({}): {records} records, {contributions} contributions, not {all}",
                delay.delay_us
            ));
        }
    }
    None
}

fn compare(stream: &mut Stream, program: &Program, plan: &LabPlan, report: &Report) -> Option<String> {
    let windowed = windowed(&program.views[0]).expect("windows");
    let columns = measured(&program.views[0], windowed);
    let (delays, horizons) = (plan.grid.delays_us().to_vec(), plan.grid.horizons_us().to_vec());
    let truth_horizon = if plan.grid.unbounded() { Some(1 << 61) } else { *horizons.last().expect("one") };
    let last_delay = *delays.last().expect("one");
    let truth = expected_cell(stream, cell_program(program, 0, last_delay, truth_horizon)).changes.ok();
    let truth: Option<BTreeMap<Place, Pair>> = truth.map(|changes| pairs(&changes));
    for (d, delay_us) in delays.iter().enumerate() {
        for (h, horizon_us) in horizons.iter().enumerate() {
            let expected = expected_cell(stream, cell_program(program, 0, *delay_us, *horizon_us));
            let cell = report.cell(d, h).expect("a cell");
            let table = TablePlan { policy: None, ..program.tables[0].clone() };
            let failed = expected.changes.is_err();
            let differs = ledger_difference(&expected.ledger, cell)
                .or_else(|| {
                    (failed != (cell.failed > 0)).then(|| format!("{:?}, {} failed", expected.changes, cell.failed))
                })
                .or_else(|| difference(expected.changes.as_ref().ok()?, truth.as_ref(), &columns, cell))
                .or_else(|| {
                    check_delay(stream, &table, windowed, (&expected.records, plan.arrival), &report.delays[d])
                });
            if let Some(differs) = differs {
                return Some(format!("delay {delay_us} horizon {horizon_us:?}: {differs}"));
            }
        }
    }
    None
}

/// The policies' cells against the reference, and against runs' truths of their own.
fn compare_policies(stream: &mut Stream, program: &Program, set: &LabSet, report: &Report) -> Option<String> {
    let windowed = windowed(&program.views[0]).expect("windows");
    let columns = measured(&program.views[0], windowed);
    for (plan, found) in set.plans.iter().skip(1).zip(&report.policies) {
        let horizons = plan.grid.horizons_us().to_vec();
        let under = |horizon_us: Option<i64>| {
            let table = with_policy(&program.tables[0], plan.policy.as_ref()).expect("it fits");
            let view = ViewPlan { table: 0, horizon_us, late: None, ..program.views[0].clone() };
            Program { tables: vec![table], views: vec![view], sinks: Vec::new(), warnings: Vec::new() }
        };
        let truth_horizon = if plan.grid.unbounded() { Some(1 << 61) } else { *horizons.last().expect("one") };
        let truth = expected_cell(stream, under(truth_horizon)).changes.ok();
        let truth: Option<BTreeMap<Place, Pair>> = truth.map(|changes| pairs(&changes));
        for (horizon_us, cell) in horizons.iter().zip(&found.cells) {
            let expected = expected_cell(stream, under(*horizon_us));
            let failed = expected.changes.is_err();
            let differs = ledger_difference(&expected.ledger, cell)
                .or_else(|| (failed != (cell.failed > 0)).then(|| format!("{:?}, {}", expected.changes, cell.failed)))
                .or_else(|| difference(expected.changes.as_ref().ok()?, truth.as_ref(), &columns, cell))
                .or_else(|| {
                    let (latency, open_max) = (found.latency.clone(), found.open_max);
                    let figures = DelayFigures { delay_us: 0, latency, open_max };
                    let table = under(None).tables.remove(0);
                    check_delay(stream, &table, windowed, (&expected.records, plan.arrival), &figures)
                });
            if let Some(differs) = differs {
                return Some(format!("{} horizon {horizon_us:?}: {differs}", found.policy));
            }
        }
        if found.cells.len() != horizons.len() {
            return Some(format!("{}: {} cells", found.policy, found.cells.len()));
        }
    }
    (report.policies.len() + 1 != set.plans.len()).then(|| "a policy is missing".to_owned())
}

proptest! {
    // 256 cases, or as PROPTEST_CASES says.
    #![proptest_config(ProptestConfig { max_shrink_iters: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn cells_equal_the_reference(seed in any::<u64>().no_shrink(), raw in prop::collection::vec(any::<Raw>(), 0..70)) {
        if let Some(difference) = check(seed, &raw) {
            prop_assert!(false, "{}", difference);
        }
    }
}

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A grid over a shipped example, in one pass, against runs of `cells` random cells.
fn example(file: &str, view: Option<&str>, delays: &str, horizons: &str, cells: u64) {
    let text = std::fs::read_to_string(format!("{ROOT}/examples/{file}")).expect("a shipped example");
    let text = text.replace("path = 'examples/", &format!("path = '{ROOT}/examples/"));
    let program = sql::plan(file, &text, &BareSelectDefaults::default()).expect("a program");
    let settings = LabSettings {
        view: view.map(str::to_owned),
        delays_us: slackwater::lab::grid::parse_delays(delays).expect("delays"),
        horizons_us: Some(slackwater::lab::grid::parse_horizons(horizons).expect("horizons")),
        recommend: asked(),
        ..LabSettings::default()
    };
    let set = LabSet::new(&program, &settings).expect("a plan");
    let plan = Arc::clone(&set.plans[0]);
    let open = |program: &Program| {
        let wanted = slackwater::engine::ingest::wanted_columns(program, 0);
        source::open(&program.tables[0], &wanted, &SourceOptions::default()).expect("a source")
    };
    let report = lab(&set, open(&set.reading), 2);
    let index = match view {
        Some(name) => program.views.iter().position(|v| v.name.as_deref() == Some(name)).expect("the view"),
        None => program.views.iter().position(|v| windowed(v).is_some()).expect("a view"),
    };
    let columns = measured(&program.views[index], windowed(&program.views[index]).expect("windows"));
    let (delays, horizons) = (plan.grid.delays_us(), plan.grid.horizons_us());
    let found = |d: usize, h: usize| {
        let program = Arc::new(cell_program(&program, index, delays[d], horizons[h]));
        let found = collect(&program, vec![open(&program)], 1).expect("a run");
        (found.changes[0].clone(), found.ending.ledgers[0].clone())
    };
    let truth = pairs(&found(delays.len() - 1, horizons.len() - 1).0);
    let seed = file.bytes().fold(5, |seed: u64, byte| seed.wrapping_mul(31) + u64::from(byte));
    let mut dice = Dice(seed);
    for _ in 0..cells {
        let (d, h) = (dice.below(delays.len() as u64) as usize, dice.below(horizons.len() as u64) as usize);
        let (changes, ledger) = found(d, h);
        let cell = report.cell(d, h).expect("a cell");
        let differs = ledger_difference(&ledger, cell).or_else(|| difference(&changes, Some(&truth), &columns, cell));
        assert_eq!(differs, None, "{file} seed {seed} delay {} horizon {:?}", delays[d], horizons[h]);
        assert!(cell.failed == 0 && report.records.judged > 0);
    }
    assert!(AFTER_ALL > report.granularity_us);
}

#[test]
fn orders() {
    example("orders/orders.sql", None, "0s..40s/8", "none,0s,5s,10s,180s", 40);
}

#[test]
fn quakes() {
    example("quakes/quakes.sql", None, "0s,1h,6h,1d,3d,7d", "none,0s,12h,3d,30d", 8);
}

#[test]
fn flights() {
    example("flights/flights.sql", None, "0s,30m,2h,6h,1d", "none,0s,1h,3h,12h", 3);
}

#[test]
fn taxi() {
    example("taxi/taxi.sql", None, "0s,5m,30m,1h", "none,0s,15m,2h", 3);
}

#[test]
fn dengue() {
    example("dengue/dengue.sql", None, "0d,7d,30d,90d", "none,0d,30d,180d", 3);
}
