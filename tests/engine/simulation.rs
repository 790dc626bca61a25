//! Simulated runs: a seed decides the stream, the query, the workers' turns, who may read when, block sizes, limits, silent
//! lanes, and how the run ends. Whatever it decides, the results are the reference's; and a seed that failed can be run
//! again, turn by turn. `scripts/simulate` runs many.

use crate::baton::Deed;
use crate::common::run::{Collected, collect};
use crate::random_streams::difference;
use crate::reference::{Late, Moment, Reference, Reject, reference};
use crate::stage::{End, GRIEF, Performed, Plan, Seen, perform};
use crate::streams::{Carrier, Dice, Setup, Stream, Told};
use slackwater::engine::output::Ending;
use slackwater::plan::{LatenessScope, Program};
use slackwater::record::RecordCounts;
use slackwater::sink::Change;
use slackwater::source::Source;
use slackwater::source::trace::{TraceItem, TraceSource};
use slackwater::sql::{self, BareSelectDefaults};
use slackwater::types::Value;
use slackwater::verify::TraceRow;
use slackwater::watermark::BEFORE_ALL;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

/// Seeds of an ordinary test run.
const SEEDS: u64 = 200;

/// Seeds that failed once, if only by the test's fault. A change of what a seed decides makes others of them.
const REGRESSIONS: [u64; 2] = [487, 13_421];

/// What was read of a lane without a hole.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    lines: u64,
    clock_us: Option<i64>,
    last: bool,
}

fn reached(blocks: &[Seen]) -> Reached {
    let mut reached = Reached::default();
    for (_, block) in blocks.iter().enumerate().take_while(|(at, block)| block.index == *at as u64) {
        reached.lines += block.lines;
        reached.clock_us = reached.clock_us.max(block.clock_us);
        reached.last |= block.last;
    }
    reached
}

/// The stream as far as it was read.
struct Read<'a> {
    stream: &'a Stream,
    lanes: Vec<Reached>,
}

impl Read<'_> {
    fn lane_of(&self, name: Option<&String>) -> usize {
        let lane = || self.stream.known.iter().position(|known| Some(known) == name).expect("a lane");
        if self.lanes.len() == 1 { 0 } else { lane() }
    }

    fn covers(&self, told: &Told) -> bool {
        match told {
            Told::Row(row) => row.position <= self.lanes[self.lane_of(row.partition.as_ref())].lines,
            Told::End(name) => self.lanes[self.lane_of(Some(name))].last,
            Told::Clock(us) => self.lanes.iter().all(|l| l.last || l.clock_us.is_some_and(|clock| clock >= *us)),
        }
    }

    /// Where lanes meet only in the frontier, or there is one, what follows from what was read is what follows from a
    /// stream that ends there. Else a block whose ticks have not ended is not decided, and where blocks end plays a part.
    fn as_stream(&self, plan: &Plan) -> Option<Stream> {
        if self.lanes.len() > 1 && self.stream.table().scope == LatenessScope::Source {
            return None;
        }
        let mut short = plan.stream();
        short.known.clone_from(&self.stream.known);
        short.told = self.stream.told.iter().filter(|told| self.covers(told)).cloned().collect();
        // Of a trace in memory that ends as a whole, each lane does.
        for (name, _) in self.stream.known.iter().zip(&self.lanes).filter(|(_, lane)| lane.last) {
            let ends = |told: &Told| matches!(told, Told::End(ended) if ended == name);
            if self.stream.setup.carrier == Carrier::Trace && !short.told.iter().any(ends) {
                short.told.push(Told::End(name.clone()));
            }
        }
        short.setup.bounded = self.stream.setup.bounded && self.lanes.iter().all(|lane| lane.last);
        Some(short)
    }

    /// Up to where at least the results of a run that was stopped are final: its watermark, unless something was read and
    /// not decided. That has the stamp of its partition's record before it, or a later one.
    fn least_frontier_us(&self, whole: &Reference, found: &Ending) -> i64 {
        let mut least_us = found.tables[0].watermark_us;
        let mut rows: BTreeMap<&str, Vec<&TraceRow>> = BTreeMap::new();
        for told in self.stream.told.iter().filter(|told| self.covers(told)) {
            if let Told::Row(row) = told {
                rows.entry(row.partition.as_deref().unwrap_or_default()).or_default().push(row);
            }
        }
        for (name, rows) in rows {
            let decided = found.ledgers[0].partitions.get(name).map_or(0, |counts| counts.read as usize);
            if let Some(row) = rows.get(decided) {
                let partition = whole.partitions.iter().position(|p| p == name).map(|p| p as u32);
                let records = whole.views.iter().flat_map(|view| &view.records);
                let before =
                    records.filter(|r| Some(r.order.partition) == partition && r.order.position < row.position);
                least_us = least_us.min(before.map(|r| r.stamp_us).max().unwrap_or(BEFORE_ALL));
            }
        }
        least_us
    }
}

fn moment(change: &Change) -> Moment {
    (change.watermark_us, !change.closing)
}

/// The first view whose changes are no beginning of the whole. If the run was `stopped`, all views end at the same instant,
/// and not before `least`.
fn not_a_prefix(whole: &Reference, stopped: bool, least: Option<Moment>, found: &Collected) -> Option<String> {
    let (mut said, mut unsaid) = (None, None);
    for (number, view) in whole.views.iter().enumerate() {
        let Ok(changes) = &view.changes else { continue };
        // As text, which tells scales of decimals apart; zeros have no sign.
        let line = |c: &Change| format!("{c:?}").replace("Double(-0.0)", "Double(0.0)");
        let found = &found.changes[number];
        let at = (0..found.len()).find(|at| changes.get(*at).map(line) != found.get(*at).map(line));
        if let Some(at) = at {
            let (expected, found) = (changes.get(at), &found[at]);
            return Some(format!("view {number}: change {at}:\n  expected {expected:?}\n  found    {found:?}"));
        }
        said = said.max(found.last().map(moment));
        let next = changes.get(found.len()).map(moment);
        unsaid = unsaid.into_iter().chain(next).min();
    }
    let early = unsaid.is_some_and(|unsaid| said.is_some_and(|said| unsaid <= said));
    if stopped && early {
        return Some(format!("changes as of {said:?} were published, and as of {unsaid:?} not"));
    }
    let missed = unsaid.filter(|unsaid| least.is_some_and(|least| *unsaid < least))?;
    Some(format!("changes as of {missed:?} were not published, and {least:?} was reached"))
}

fn within(found: &RecordCounts, whole: &RecordCounts) -> bool {
    let classes = |c: &RecordCounts| [c.read, c.on_time, c.corrected, c.partly_too_late, c.too_late, c.filtered];
    let fewer = classes(found).iter().zip(classes(whole)).all(|(found, whole)| *found <= whole);
    fewer && found.rejected.iter().all(|(reason, n)| whole.rejected.get(reason).is_some_and(|whole| n <= whole))
}

fn among<T: PartialEq>(found: &[T], whole: &[T]) -> bool {
    let mut rest = whole.iter();
    found.iter().all(|f| rest.any(|w| w == f))
}

/// What a run that was stopped says of records is part of what the whole run says of them.
fn not_a_part(whole: &Reference, found: &Collected) -> Option<String> {
    for (number, view) in whole.views.iter().enumerate() {
        let ledger = &found.ending.ledgers[number];
        let empty = RecordCounts::default();
        let parts = ledger.partitions.iter().all(|(name, counts)| {
            counts.balances() && within(counts, view.ledger.partitions.get(name).unwrap_or(&empty))
        });
        if !parts || !within(&ledger.records, &view.ledger.records) || !ledger.records.balances() {
            return Some(format!("view {number}: ledger {ledger:?} is no part of {:?}", view.ledger));
        }
        let late: Vec<Late> = found.too_late[number]
            .iter()
            .map(|r| (r.partition, r.position, r.event_time_us, r.stamp_us, r.window_us, r.lag_us, r.columns.clone()))
            .collect();
        if !among(&late, &view.late) {
            return Some(format!("view {number}: late rows {late:?} are not among {:?}", view.late));
        }
    }
    let mut rejects: Vec<Reject> =
        found.rejects[0].iter().map(|r| (r.partition, r.position, r.view, r.reason)).collect();
    rejects.sort();
    (!among(&rejects, &whole.rejects)).then(|| format!("rejects {rejects:?} are not among {:?}", whole.rejects))
}

/// What of a run is wrong.
fn wrong(plan: &Plan, stream: &Stream, whole: &Reference, performed: Performed) -> Option<String> {
    let Performed { result, collected, grieved, seen, .. } = performed;
    let fails = |r: &Reference| r.views.iter().any(|view| view.changes.is_err());
    if plan.end == End::Input || (!grieved && !matches!(plan.end, End::Stop(_))) || matches!(result, Ok(true)) {
        return difference(whole, &result.map(|_| collected));
    }
    let read = Read { stream, lanes: seen.iter().map(|blocks| reached(blocks)).collect() };
    let short = read.as_stream(plan);
    let exact = short.map(|short| reference(&short, short.table()));
    if let End::Stop(_) | End::OutputCloses(_) = plan.end {
        return match (exact, result) {
            (Some(exact), result) => difference(&exact, &result.map(|_| collected)),
            (None, Ok(_)) => {
                // A window closes at its end when the frontier is there.
                let least = Some((read.least_frontier_us(whole, &collected.ending), true));
                not_a_prefix(whole, true, least, &collected).or_else(|| not_a_part(whole, &collected))
            }
            (None, Err(_)) if fails(whole) => None,
            (None, Err(error)) => Some(format!("expected a run that is stopped, found {error}")),
        };
    }
    let Err(error) = result else { return Some("expected an error, found a run that ends well".into()) };
    if fails(whole) {
        return not_a_prefix(whole, false, None, &collected);
    }
    if !error.message().contains(GRIEF) {
        return Some(format!("expected another error than {error}"));
    }
    // Readers that fail do not keep what is final from being published.
    let stopped = matches!(plan.end, End::ReaderFails(_));
    let differs = not_a_prefix(whole, stopped, None, &collected);
    differs.or_else(|| {
        let exact = exact.filter(|_| stopped)?;
        let numbers = || collected.changes.iter().zip(&exact.views);
        let short = numbers().position(|(found, view)| view.changes.as_ref().is_ok_and(|c| c.len() != found.len()))?;
        let expected = exact.views[short].changes.as_ref().map_or(0, Vec::len);
        Some(format!("view {short}: expected {expected} changes, found {}", collected.changes[short].len()))
    })
}

/// Runs a seed; what is wrong, or a digest of everything that was done.
fn simulate(seed: u64, misnumbered: bool) -> Result<Digest, String> {
    let plan = Plan::new(seed);
    let stream = plan.stream();
    let source = stream.source(&stream.program.tables[0], plan.block, plan.habits.workers);
    let source = source.map_err(|error| error.to_string())?;
    let performed = perform(&plan, &stream.program, vec![source], misnumbered);
    let digest = Digest::of(&performed);
    match wrong(&plan, &stream, &reference(&stream, stream.table()), performed) {
        None => Ok(digest),
        Some(text) => Err(format!("seed {seed}: {text}\n{plan:?}\n{stream}")),
    }
}

/// Everything that was done, in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digest {
    turns: u64,
    blocks: u64,
    cut_short: u64,
    hash: u64,
}

impl Digest {
    fn of(performed: &Performed) -> Digest {
        // Without random keys: the same in every process.
        let mut hasher = DefaultHasher::new();
        performed.log.hash(&mut hasher);
        let count = |of: fn(&Deed) -> bool| performed.log.iter().filter(|(_, deed)| of(deed)).count() as u64;
        Digest {
            turns: count(|deed| matches!(deed, Deed::Turn(_))),
            blocks: count(|deed| matches!(deed, Deed::Block(..))),
            cut_short: u64::from(!matches!(performed.result, Ok(true))),
            hash: hasher.finish(),
        }
    }
    fn add(&mut self, other: Digest) {
        self.turns += other.turns;
        self.blocks += other.blocks;
        self.cut_short += other.cut_short;
        self.hash = self.hash.wrapping_add(other.hash);
    }
}

pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Runs the seeds on all cores; panics with the least that fails of those that were begun.
pub fn all(seeds: impl Iterator<Item = u64> + Send, act: impl Fn(u64) -> Option<String> + Sync) {
    let (seeds, failed) = (Mutex::new(seeds), Mutex::new(BTreeMap::new()));
    let next = || seeds.lock().unwrap().next().filter(|_| failed.lock().unwrap().is_empty());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get().min(8)) {
            scope.spawn(|| {
                while let Some(seed) = next() {
                    if let Some(text) = act(seed) {
                        failed.lock().unwrap().insert(seed, text);
                    }
                }
            });
        }
    });
    if let Some((seed, text)) = failed.lock().unwrap().first_key_value() {
        panic!("{text}\nAgain: SLACKWATER_SEED={seed} SLACKWATER_SEEDS=1 cargo test --test engine simulation::");
    }
}

#[test]
fn seeds_agree_with_the_reference() {
    let first = number("SLACKWATER_SEED").unwrap_or(1);
    let seeds = first..first + number("SLACKWATER_SEEDS").unwrap_or(SEEDS);
    let sum = Mutex::new((0, Digest::default()));
    all(REGRESSIONS.into_iter().chain(seeds), |seed| match simulate(seed, false) {
        Ok(digest) => {
            let mut sum = sum.lock().unwrap();
            sum.0 += 1;
            sum.1.add(digest);
            None
        }
        Err(text) => Some(text),
    });
    let (runs, sum) = sum.into_inner().unwrap();
    println!(
        "{runs} runs from seed {first}: {} turns, {} blocks, {} cut short; digest {:016x}",
        sum.turns, sum.blocks, sum.cut_short, sum.hash
    );
}

/// What a seed does once, it does again: every turn, every block, every call of the output.
#[test]
fn a_seed_is_a_run() {
    let first = number("SLACKWATER_SEED").unwrap_or(1);
    let seeds = first..first + (number("SLACKWATER_SEEDS").unwrap_or(SEEDS) / 4).max(1);
    let (count, hashes) = (seeds.clone().count(), Mutex::new(BTreeSet::new()));
    all(seeds, |seed| {
        let plan = Plan::new(seed);
        let stream = plan.stream();
        let once = || {
            let source = stream.source(&stream.program.tables[0], plan.block, plan.habits.workers).expect("a source");
            perform(&plan, &stream.program, vec![source], false)
        };
        let (one, other) = (once(), once());
        hashes.lock().unwrap().insert(Digest::of(&one).hash);
        let differ = (0..one.log.len().max(other.log.len())).find(|at| one.log.get(*at) != other.log.get(*at))?;
        let mut text = format!("seed {seed} does one thing and another, at step {differ}:");
        for at in differ.saturating_sub(5)..differ + 3 {
            let _ = write!(text, "\n{at}: {:?} or {:?}", one.log.get(at), other.log.get(at));
        }
        Some(format!("{text}\n{plan:?}\n{stream}"))
    });
    // One worker over next to nothing may do the same for two of them.
    let different = hashes.into_inner().unwrap().len();
    assert!(different > count / 2, "{different} runs of {count} seeds");
}

/// A table with a watermark and one without, of which rows are given in the order of their places.
fn two_tables() -> Arc<Program> {
    let text = "
        CREATE TABLE t (et TIMESTAMP, k BIGINT, WATERMARK FOR et AS et - INTERVAL '2 seconds')
            WITH (connector = 'file', path = 'none.ndjson');
        CREATE TABLE u (n BIGINT) WITH (connector = 'file', path = 'neither.ndjson');
        CREATE MATERIALIZED VIEW v WITH (horizon = '3 seconds') AS
            SELECT k, count(*) AS c FROM TUMBLE(t, et, INTERVAL '4 seconds') GROUP BY k, window_start;
        CREATE MATERIALIZED VIEW w AS SELECT n FROM u WHERE n % 5 <> 0;
        CREATE SINK a FROM v WITH (connector = 'stdout');
        CREATE SINK b FROM w WITH (connector = 'stdout');";
    Arc::new(sql::plan("two.sql", text, &BareSelectDefaults::default()).expect("a program"))
}

fn simulate_two_tables(seed: u64) -> Option<String> {
    let (plan, program, mut dice) = (Plan::new(seed), two_tables(), Dice(seed));
    let names: Vec<String> = (0..4).map(Setup::name).collect();
    let (timed, untimed) = (dice.range(1, 4) as usize, dice.range(1, 5) as usize);
    let times = (0..plan.steps as i64).map(|n| TraceItem::Record {
        partition: dice.below(timed as u64) as usize,
        values: vec![Value::Timestamp((n - dice.range(0, 8)) * 500_000), Value::BigInt(dice.range(0, 3))],
    });
    let times: Vec<TraceItem> = times.collect();
    let mut rows: Vec<Vec<i64>> = vec![Vec::new(); untimed];
    (0..plan.steps as i64).for_each(|n| rows[dice.below(untimed as u64) as usize].push(n));
    let record = |(lane, row): (usize, &i64)| TraceItem::Record { partition: lane, values: vec![Value::BigInt(*row)] };
    let places: Vec<TraceItem> =
        rows.iter().enumerate().flat_map(|(lane, rows)| rows.iter().map(move |row| record((lane, row)))).collect();
    let block = plan.block % 4 + 1;
    let sources = || -> Vec<Arc<dyn Source>> {
        let source = |table: usize, lanes, items| TraceSource::new(&program.tables[table], lanes, items, true, block);
        vec![source(0, &names[..timed], &times).into(), source(1, &names[..untimed], &places).into()]
    };
    let whole = collect(&program, sources(), 1).expect("a run");
    let Performed { result, collected, grieved, seen, .. } = perform(&plan, &program, sources(), false);
    // Rows whose place is known: up to the first lane that was not read to its end.
    let mut known = Vec::new();
    for (rows, blocks) in rows.iter().zip(&seen[timed..]) {
        let Reached { lines, last, .. } = reached(blocks);
        known.extend(rows[..lines as usize].iter().filter(|n| **n % 5 != 0).map(|n| Value::BigInt(*n)));
        if !last {
            break;
        }
    }
    let given: Vec<Value> = collected.changes[1].iter().map(|change| change.values[0].clone()).collect();
    let complete = matches!(result, Ok(true));
    let stopped = matches!(plan.end, End::Input | End::Stop(_) | End::OutputCloses(_));
    let (fails, refused) = (grieved && !stopped, grieved && !stopped && !matches!(plan.end, End::ReaderFails(_)));
    let beginning = whole.changes[0].starts_with(&collected.changes[0]);
    let wrong = if !beginning || (complete && collected.changes[0] != whole.changes[0]) {
        Some(format!("windows: {:?} is no beginning of {:?}", collected.changes[0], whole.changes[0]))
    } else if !known.starts_with(&given) || (known != given && !refused) {
        Some(format!("rows: expected {known:?}, found {given:?}"))
    } else if fails != result.is_err() {
        Some(format!("expected {:?}, found {result:?}", plan.end))
    } else {
        None
    };
    wrong.map(|text| format!("seed {seed}, two tables: {text}\n{plan:?}"))
}

#[test]
fn two_tables_end_together() {
    let first = number("SLACKWATER_SEED").unwrap_or(1);
    let seeds = first..first + (number("SLACKWATER_SEEDS").unwrap_or(SEEDS) / 4).max(1);
    all(seeds, simulate_two_tables);
}

/// The simulation must be able to fail: readers that share a lane and number its blocks as they come are right as long as
/// they come in turn.
#[test]
fn a_race_is_caught() {
    let caught = (1..=40).filter(|seed| simulate(*seed, true).is_err()).count();
    assert!((5..40).contains(&caught), "{caught} of 40 seeds");
}
