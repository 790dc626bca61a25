//! Runs that could wait for ever, or end badly: a watermark that stands still, a worker that panics, a reader who leaves.

use crate::common::run::collect;
use slackwater::dataflow::{RunOptions, run};
use slackwater::engine::ingest::TooLate;
use slackwater::engine::output::{Ending, Flow, Reject, RunOutput};
use slackwater::error::Result;
use slackwater::plan::Program;
use slackwater::sink::Change;
use slackwater::sink::block::ChangeRun;
use slackwater::source::Source;
use slackwater::source::trace::{TraceItem, TraceSource};
use slackwater::sql::{self, BareSelectDefaults};
use slackwater::types::Value;
use std::sync::{Arc, Mutex};

fn program() -> Arc<Program> {
    let text =
        "CREATE TABLE t (et TIMESTAMP, k BIGINT, WATERMARK FOR et AS et) WITH (connector = 'stdin', format = 'json');
        SELECT k, count(*) FROM TUMBLE(t, et, INTERVAL '1 minute') GROUP BY k, window_start";
    Arc::new(sql::plan("standstill.sql", text, &BareSelectDefaults::default()).expect("a program"))
}

/// Many small blocks whose records have the event times given.
fn source(program: &Program, records: i64, event_us: impl Fn(i64) -> i64) -> Arc<dyn Source> {
    let record = |n| TraceItem::Record { partition: 0, values: vec![Value::Timestamp(event_us(n)), Value::BigInt(n)] };
    let items: Vec<TraceItem> = (0..records).map(record).collect();
    TraceSource::new(&program.tables[0], &["p".to_owned()], &items, true, 1).into()
}

/// Readers wait while too many messages are under way; messages must arrive though no watermark moves.
#[test]
fn records_flow_while_the_watermark_stands_still() {
    let program = program();
    for workers in [2, 4] {
        let found = collect(&program, vec![source(&program, 500, |_| 0)], workers).expect("a run");
        assert_eq!(found.changes[0].len(), 500);
    }
}

#[derive(Clone, Copy, Debug)]
enum Where {
    Changes,
    Advance,
    TooLate,
    Prepare,
    Complete,
}

struct Panicking(Where);

impl RunOutput for Panicking {
    fn publish(&mut self, _: usize, _: ChangeRun) -> Result<Flow> {
        assert!(!matches!(self.0, Where::Changes), "no changes today");
        Ok(Flow::Open)
    }
    fn advance(&mut self, _: usize, _: i64) -> Result<()> {
        assert!(!matches!(self.0, Where::Advance), "no advance today");
        Ok(())
    }
    fn too_late(&mut self, _: usize, _: Vec<TooLate>) -> Result<()> {
        assert!(!matches!(self.0, Where::TooLate), "no late rows today");
        Ok(())
    }
    fn rejects(&mut self, _: usize, _: Vec<Reject>) -> Result<()> {
        Ok(())
    }
    fn prepare(&mut self, _: Ending) -> Result<()> {
        assert!(!matches!(self.0, Where::Prepare), "no end today");
        Ok(())
    }
    fn complete(&mut self) -> Result<()> {
        assert!(!matches!(self.0, Where::Complete), "no names today");
        Ok(())
    }
}

#[test]
fn a_panic_ends_the_run() {
    let program = program();
    // Every other minute's record comes too late.
    let event_us = |n: i64| if n % 2 == 0 { n * 60_000_000 } else { 0 };
    for place in [Where::Changes, Where::Advance, Where::TooLate, Where::Prepare, Where::Complete] {
        for workers in [1, 3] {
            let options = RunOptions { workers, keep_too_late: true, ..RunOptions::default() };
            let sources = vec![source(&program, 200, event_us)];
            let error = run(Arc::clone(&program), sources, &options, Box::new(Panicking(place))).expect_err("a panic");
            assert!(error.message().contains("today"), "{place:?}, {workers} workers: {error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("bug")));
        }
    }
}

/// Notes what it is given, and wants no more after so many steps.
struct Leaving {
    steps: usize,
    seen: Arc<Mutex<(Vec<Change>, Ending)>>,
}

impl RunOutput for Leaving {
    fn publish(&mut self, _: usize, changes: ChangeRun) -> Result<Flow> {
        for step in changes.into_steps() {
            if self.steps > 0 {
                self.seen.lock().unwrap().0.extend(step);
                self.steps -= 1;
            }
        }
        Ok(if self.steps == 0 { Flow::Closed } else { Flow::Open })
    }
    fn advance(&mut self, _: usize, _: i64) -> Result<()> {
        Ok(())
    }
    fn too_late(&mut self, _: usize, _: Vec<TooLate>) -> Result<()> {
        Ok(())
    }
    fn rejects(&mut self, _: usize, _: Vec<Reject>) -> Result<()> {
        Ok(())
    }
    fn prepare(&mut self, ending: Ending) -> Result<()> {
        self.seen.lock().unwrap().1 = ending;
        Ok(())
    }
}

/// A run that is left early has said the beginning of what it would have said, and nothing else.
#[test]
fn an_early_end_is_a_prefix() {
    let program = program();
    let event_us = |n: i64| (n / 3 - n % 7) * 20_000_000;
    let whole = collect(&program, vec![source(&program, 2_000, event_us)], 1).expect("a run").changes.remove(0);
    let mut early = 0;
    for workers in 1..=4 {
        for steps in [1, 2, 5, 20] {
            let seen = Arc::default();
            let output = Leaving { steps, seen: Arc::clone(&seen) };
            let options = RunOptions { workers, ..RunOptions::default() };
            let sources = vec![source(&program, 2_000, event_us)];
            let complete = run(Arc::clone(&program), sources, &options, Box::new(output)).expect("a run");
            let (changes, ending) = &*seen.lock().unwrap();
            assert!(whole.starts_with(changes), "{workers} workers, {steps} steps: {} changes", changes.len());
            assert_eq!(complete, ending.complete);
            assert!(changes.len() == whole.len() || !complete, "a complete run says everything");
            assert!(ending.ledgers[0].records.balances());
            early += u32::from(!complete);
        }
    }
    assert!(early > 0, "no run was left early");
}
