//! The comparison of the random streams must be able to fail: an engine that judges lateness a little wrong is caught.

use crate::random_streams::{difference, run};
use crate::reference::reference;
use crate::streams::{Dice, Raw, Stream};
use slackwater::plan::{LateRecords, LatenessScope, Program};
use slackwater::watermark::policy::PolicyPlan;
use std::collections::BTreeMap;
use std::sync::Arc;

const SEED: u64 = 20_260_301;
const STREAMS: u64 = 32;

/// Breaks a rule; says whether that rule plays a part in the program at all.
type Mutation = fn(&mut Program) -> bool;

fn streams() -> impl Iterator<Item = Stream> {
    (0..STREAMS).map(|number| {
        let mut dice = Dice(SEED + number);
        let raw: Vec<Raw> = (0..70).map(|_| dice.next().to_be_bytes()).collect();
        Stream::new(SEED + number, &raw)
    })
}

/// How many streams show that the rule is broken.
fn caught(mutation: Mutation) -> (u32, u32) {
    let (mut tried, mut caught) = (0, 0);
    for stream in streams() {
        let mut program = (*stream.program).clone();
        if !mutation(&mut program) {
            continue;
        }
        tried += 1;
        let found = run(&stream, &Arc::new(program), 1, 20);
        caught += u32::from(difference(&reference(&stream, stream.table()), &found).is_some());
    }
    (tried, caught)
}

fn horizon(program: &mut Program, by: i64) -> bool {
    let granularity_us = program.tables[0].granularity_us;
    let mut any = false;
    for horizon_us in program.views.iter_mut().filter_map(|view| view.horizon_us.as_mut()) {
        let shifted = horizon_us.saturating_add(by * granularity_us).max(0);
        any |= shifted != *horizon_us;
        *horizon_us = shifted;
    }
    any
}

fn delay(program: &mut Program, by: i64) -> bool {
    let table = &mut program.tables[0];
    let granularity_us = table.granularity_us;
    table.delay_us.as_mut().map(|delay_us| *delay_us += by * granularity_us).is_some()
}

/// Takes the policy away, if it is such a one.
fn no_policy(program: &mut Program, is_such: fn(&PolicyPlan) -> bool) -> bool {
    program.tables[0].policy.take_if(|policy| is_such(&policy.plan)).is_some()
}

#[test]
fn broken_rules_are_caught() {
    let mutations: [(&str, Mutation); 14] = [
        ("a horizon one granule longer", |p| horizon(p, 1)),
        ("a horizon one granule shorter", |p| horizon(p, -1)),
        ("no horizon", |p| p.views.iter_mut().any(|view| view.horizon_us.take().is_some())),
        ("stamps one granule too low", |p| delay(p, 1)),
        ("stamps one granule too high", |p| delay(p, -1)),
        ("stamps rounded to another granule", |p| {
            p.tables[0].granularity_us += 1;
            true
        }),
        ("late records dropped, or not", |p| {
            let late_records = &mut p.tables[0].late_records;
            *late_records = match late_records {
                LateRecords::Window => LateRecords::Drop,
                LateRecords::Drop => LateRecords::Window,
            };
            true
        }),
        ("the other scope", |p| {
            let table = &mut p.tables[0];
            let source = table.scope == LatenessScope::Source;
            table.scope = if source { LatenessScope::Partition } else { LatenessScope::Source };
            table.arrival_time.is_some()
        }),
        ("partitions idle a tick later", |p| {
            let table = &mut p.tables[0];
            let tick_us = table.tick_us;
            table.idle_timeout_us.as_mut().map(|timeout_us| *timeout_us += tick_us).is_some()
        }),
        ("ticks of another length", |p| {
            let table = &mut p.tables[0];
            table.tick_us *= 2;
            table.arrival_time.is_some() && table.scope == LatenessScope::Source && table.idle_timeout_us.is_none()
        }),
        ("a fixed delay in the place of a quantile", |p| no_policy(p, |plan| matches!(plan, PolicyPlan::Quantile(_)))),
        ("a fixed delay in the place of k-slack", |p| no_policy(p, |plan| matches!(plan, PolicyPlan::Slack(_)))),
        ("a fixed delay in the place of aq-k-slack", |p| no_policy(p, |plan| matches!(plan, PolicyPlan::Quality(_)))),
        ("the future a microsecond nearer", |p| {
            p.tables[0].max_future_us.as_mut().map(|max_us| *max_us -= 1).is_some()
        }),
    ];
    for stream in streams() {
        let found = run(&stream, &stream.program, 1, 20);
        let difference = difference(&reference(&stream, stream.table()), &found);
        assert_eq!(difference, None, "nothing is broken yet\n{stream}");
    }
    let counts: Vec<_> = mutations.iter().map(|(name, mutation)| (*name, caught(*mutation))).collect();
    let missed: Vec<_> = counts.iter().filter(|(_, (_, caught))| *caught == 0).collect();
    assert!(missed.is_empty(), "not noticed (tried, caught): {missed:?}\nof {counts:?}");
}

/// The streams above are worth their time: among them is some of everything.
#[test]
fn streams_hold_some_of_everything() {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for stream in streams() {
        let expected = reference(&stream, stream.table());
        let mut count = |what: String, n: u64| *seen.entry(what).or_default() += n;
        count(format!("{:?}", stream.setup.carrier), 1);
        count(if stream.setup.bounded { "ended" } else { "stopped" }.to_owned(), 1);
        for view in &expected.views {
            let records = &view.ledger.records;
            count("on time".into(), records.on_time);
            count("corrected".into(), records.corrected);
            count("partly too late".into(), records.partly_too_late);
            count("too late".into(), records.too_late);
            count("filtered".into(), records.filtered);
            records.rejected.iter().for_each(|(reason, n)| count(format!("rejected: {}", reason.name()), *n));
            match &view.changes {
                Ok(changes) => changes.iter().for_each(|c| count(c.op.name().into(), 1)),
                Err(_) => count("a result that does not fit".into(), 1),
            }
        }
    }
    assert!(seen.len() >= 21 && seen.values().all(|n| *n > 0), "{seen:#?}");
}
