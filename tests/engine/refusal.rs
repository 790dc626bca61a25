//! `on_error = 'fail'`: whoever reads what, and in whatever turn, a run names the least reject of its input, by position, then
//! table, then lane.

use crate::common::run::collect;
use crate::simulation::{all, number};
use crate::stage::{End, Performed, Plan, perform, refused};
use crate::streams::{Dice, Setup};
use slackwater::engine::output::Reject;
use slackwater::plan::{OnError, Program};
use slackwater::source::Source;
use slackwater::source::trace::{TraceItem, TraceSource};
use slackwater::sql::{self, BareSelectDefaults};
use slackwater::types::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A plan whose run ends with its input or with a reject.
fn plan(seed: u64) -> Plan {
    let mut plan = Plan::new(seed);
    (plan.end, plan.habits.stop_at) = (End::Input, None);
    if !seed.is_multiple_of(4) {
        plan.silence.clear();
    }
    plan
}

/// The least reject in words, of what a run that takes them all has given.
fn least(rejects: &[Vec<Reject>]) -> Option<String> {
    let all = rejects.iter().enumerate().flat_map(|(table, rejects)| rejects.iter().map(move |r| (table, r)));
    // Of one record, the table's comes before those of the views.
    let (table, least) = all.min_by_key(|(table, r)| (r.position, *table, r.lane, r.view))?;
    Some(refused(table, least))
}

fn wrong(plan: &Plan, least: Option<&str>, performed: &Performed) -> Option<String> {
    let Performed { result, .. } = performed;
    match (least, result) {
        (None, Ok(true)) => None,
        // Lanes that are silent now and then are live: they are not waited for, so that another reject may be named.
        (Some(least), Err(error)) if error.message() == least || !plan.silence.is_empty() => None,
        _ => Some(format!("expected {least:?}, found {result:?}")),
    }
}

fn failing(program: &Program) -> Arc<Program> {
    let mut program = program.clone();
    program.tables.iter_mut().for_each(|table| table.on_error = OnError::Fail);
    Arc::new(program)
}

/// The seeds that `SLACKWATER_SEED` and `SLACKWATER_SEEDS` ask for.
fn seeds() -> std::ops::Range<u64> {
    let first = number("SLACKWATER_SEED").unwrap_or(1);
    first..first + number("SLACKWATER_SEEDS").unwrap_or(200)
}

/// Random streams: files, traces, traces in memory, of one table.
#[test]
fn random_streams_name_the_least_reject() {
    let (failed, passed) = (AtomicU64::new(0), AtomicU64::new(0));
    all(seeds(), |seed| {
        let plan = plan(seed);
        let stream = plan.stream();
        let sources =
            |block, workers| vec![stream.source(&stream.program.tables[0], block, workers).expect("a source")];
        // What is not decided when a stream breaks off has no reject in the whole run; and a sum that does not fit may end the run first.
        let whole = collect(&stream.program, sources(100, 1), 1).ok().filter(|_| stream.setup.bounded)?;
        let least = least(&whole.rejects);
        if least.is_some() { &failed } else { &passed }.fetch_add(1, Ordering::Relaxed);
        let sources = sources(plan.block, plan.habits.workers);
        let performed = perform(&plan, &failing(&stream.program), sources, false);
        wrong(&plan, least.as_deref(), &performed).map(|text| format!("seed {seed}: {text}\n{plan:?}\n{stream}"))
    });
    let (failed, passed) = (failed.into_inner(), passed.into_inner());
    println!("{failed} runs had a reject, {passed} had none");
    assert!(failed > (failed + passed) / 10 || failed + passed < 50, "{failed} of {}", failed + passed);
}

/// A table with a watermark and one without, whose views reject records.
fn two_tables() -> Program {
    let text = "
        CREATE TABLE t (et TIMESTAMP, k BIGINT, WATERMARK FOR et AS et - INTERVAL '2 seconds')
            WITH (connector = 'file', path = 'none.ndjson');
        CREATE TABLE u (n BIGINT) WITH (connector = 'file', path = 'neither.ndjson');
        CREATE MATERIALIZED VIEW v AS
            SELECT 8 / k AS e, count(*) AS c FROM TUMBLE(t, et, INTERVAL '4 seconds') GROUP BY 8 / k, window_start;
        CREATE MATERIALIZED VIEW w AS SELECT n FROM u WHERE 8 / n <> 2;
        CREATE SINK a FROM v WITH (connector = 'stdout');
        CREATE SINK b FROM w WITH (connector = 'stdout');";
    sql::plan("two.sql", text, &BareSelectDefaults::default()).expect("a program")
}

#[test]
fn several_tables_name_the_least_reject() {
    let failing = failing(&two_tables());
    all(seeds(), |seed| {
        let (plan, mut dice) = (plan(seed), Dice(seed));
        let names: Vec<String> = (0..4).map(Setup::name).collect();
        let (lanes, block) = ([dice.range(1, 5) as usize, dice.range(1, 5) as usize], plan.block % 4 + 1);
        let (mut positions, mut least) = ([[0; 4]; 2], None);
        let zero_in = dice.pick(&[3, 20, 60]);
        let mut items = |table: usize| -> Vec<TraceItem> {
            let record = |n: i64| {
                let partition = dice.below(lanes[table] as u64) as usize;
                let divisor = if dice.one_in(zero_in) { 0 } else { 1 + n % 5 };
                let position = &mut positions[table][partition];
                *position += 1;
                if divisor == 0 {
                    let place = (*position, table, partition);
                    least = Some(least.map_or(place, |least: (u64, usize, usize)| least.min(place)));
                }
                let time = Value::Timestamp((n - dice.range(0, 8)) * 500_000);
                let values = [vec![time], Vec::new()][table].iter().cloned().chain([Value::BigInt(divisor)]).collect();
                TraceItem::Record { partition, values }
            };
            (0..plan.steps as i64).map(record).collect()
        };
        let items = [items(0), items(1)];
        let source = |table: usize| -> Arc<dyn Source> {
            TraceSource::new(&failing.tables[table], &names[..lanes[table]], &items[table], true, block).into()
        };
        let least = least.map(|(position, table, lane)| {
            format!(
                "table {table}, lane {lane}, file 0, line {position}, position {position}, view Some({table}): division by zero"
            )
        });
        let performed = perform(&plan, &failing, vec![source(0), source(1)], false);
        wrong(&plan, least.as_deref(), &performed).map(|text| format!("seed {seed}, two tables: {text}\n{plan:?}"))
    });
}
