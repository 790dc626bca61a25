//! How far readers run ahead, and rows that pass without a watermark.

use crate::common::run::collect;
use slackwater::dataflow::{RunOptions, run};
use slackwater::engine::ingest::TooLate;
use slackwater::engine::output::{Ending, Flow, Reject, RunOutput};
use slackwater::error::Result;
use slackwater::plan::Program;
use slackwater::sink::block::ChangeRun;
use slackwater::source::trace::{TraceItem, TraceSource};
use slackwater::source::{LaneInfo, LaneReader, Next, Source, Turns};
use slackwater::sql::{self, BareSelectDefaults};
use slackwater::types::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

fn plan(text: &str) -> Arc<Program> {
    Arc::new(sql::plan("pace.sql", text, &BareSelectDefaults::default()).expect("a program"))
}

const TIMED: &str =
    "CREATE TABLE t (et TIMESTAMP, k BIGINT, WATERMARK FOR et AS et) WITH (connector = 'stdin', format = 'json');
    SELECT k, count(*) FROM TUMBLE(t, et, INTERVAL '1 minute') GROUP BY k, window_start";

/// A source whose first lane gives nothing until told to; counts the blocks that were read of the others.
struct Held {
    inner: Box<dyn Source>,
    /// Times the first lane has still to be asked in vain.
    patience: Arc<AtomicU64>,
    read: Arc<AtomicU64>,
}

struct HeldReader {
    inner: Box<dyn LaneReader>,
    first: bool,
    patience: Arc<AtomicU64>,
    read: Arc<AtomicU64>,
}

impl LaneReader for HeldReader {
    fn next_block(&mut self) -> Result<Next> {
        if self.first {
            if self.patience.load(Ordering::SeqCst) > 0 {
                self.patience.fetch_sub(1, Ordering::SeqCst);
                return Ok(Next::Pending);
            }
            return self.inner.next_block();
        }
        let next = self.inner.next_block()?;
        if self.patience.load(Ordering::SeqCst) > 0 && matches!(next, Next::Block(_)) {
            self.read.fetch_add(1, Ordering::SeqCst);
        }
        Ok(next)
    }
}

impl Source for Held {
    fn lanes(&self) -> &[LaneInfo] {
        self.inner.lanes()
    }
    fn open(&self, lane: usize, turns: Turns) -> Box<dyn LaneReader> {
        let (patience, read) = (Arc::clone(&self.patience), Arc::clone(&self.read));
        Box::new(HeldReader { inner: self.inner.open(lane, turns), first: lane == 0, patience, read })
    }
}

/// What waits for a lane that is silent is bounded: on the same worker and on another.
#[test]
fn nobody_runs_far_ahead_of_the_lane_that_holds_the_watermark() {
    let program = plan(TIMED);
    let names = ["a", "b", "c"].map(str::to_owned);
    let record = |n: i64| TraceItem::Record {
        partition: (n % 3) as usize,
        values: vec![Value::Timestamp(n * 1_000_000), Value::BigInt(n % 7)],
    };
    let items: Vec<TraceItem> = (0..3_000).map(record).collect();
    let source = || TraceSource::new(&program.tables[0], &names, &items, true, 2);
    let whole = collect(&program, vec![source().into()], 1).expect("a run");
    for workers in 1..=3 {
        let (patience, read) = (Arc::new(AtomicU64::new(300)), Arc::new(AtomicU64::new(0)));
        let held = Held { inner: Box::new(source()), patience: Arc::clone(&patience), read: Arc::clone(&read) };
        let found = collect(&program, vec![Arc::new(held)], workers).expect("a run");
        assert_eq!(found.changes, whole.changes);
        assert_eq!(patience.load(Ordering::SeqCst), 0);
        let read = read.load(Ordering::SeqCst);
        // 16 blocks a worker, and those that were being decided.
        assert!((1..=workers as u64 * 16 + 4).contains(&read), "{workers} workers: {read} of 1,000 blocks");
    }
}

/// Rows of a table without a watermark stand in the order of their files and lines, whoever reads them.
#[test]
fn rows_without_a_watermark_keep_their_order() {
    let program =
        plan("CREATE TABLE t (n BIGINT) WITH (connector = 'stdin', format = 'json'); SELECT n FROM t WHERE n % 5 <> 0");
    let names = ["a", "b", "c"].map(str::to_owned);
    let record = |n: i64| TraceItem::Record { partition: (n % 3) as usize, values: vec![Value::BigInt(n)] };
    let items: Vec<TraceItem> = (0..500).map(record).collect();
    let mut expected: Vec<i64> = (0..500).filter(|n| n % 5 != 0).collect();
    expected.sort_by_key(|n| (n % 3, *n));
    for workers in 1..=4 {
        for block in [1, 7, 1_000] {
            let source = TraceSource::new(&program.tables[0], &names, &items, true, block);
            let found = collect(&program, vec![source.into()], workers).expect("a run");
            let values: Vec<_> = found.changes[0].iter().map(|c| c.values[0].clone()).collect();
            assert_eq!(values, expected.iter().map(|n| Value::BigInt(*n)).collect::<Vec<_>>());
            assert!(found.changes[0].iter().all(|c| c.watermark_us == i64::MIN && !c.closing));
        }
    }
}

/// Notes how much had been read when the first row came.
struct First {
    read: Arc<AtomicU64>,
    at: Arc<Mutex<Option<u64>>>,
}

impl RunOutput for First {
    fn publish(&mut self, _: usize, _: ChangeRun) -> Result<Flow> {
        self.at.lock().unwrap().get_or_insert(self.read.load(Ordering::SeqCst));
        Ok(Flow::Open)
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
    fn prepare(&mut self, _: Ending) -> Result<()> {
        Ok(())
    }
}

/// They are given as they are read, not at the end.
#[test]
fn rows_without_a_watermark_do_not_wait_for_the_end() {
    let program = plan("CREATE TABLE t (n BIGINT) WITH (connector = 'stdin', format = 'json'); SELECT n FROM t");
    let record = |n: i64| TraceItem::Record { partition: 0, values: vec![Value::BigInt(n)] };
    let items: Vec<TraceItem> = (0..2_000).map(record).collect();
    let inner = Box::new(TraceSource::new(&program.tables[0], &["a".to_owned()], &items, true, 1));
    let (read, at) = (Arc::new(AtomicU64::new(0)), Arc::default());
    // The only lane is never held; `read` counts nothing then, so it is counted as the progress does.
    let options = RunOptions::default();
    let progress = Arc::clone(&options.progress);
    let output = First { read: Arc::clone(&read), at: Arc::clone(&at) };
    let source = Counting { inner, progress, read };
    assert!(run(program, vec![Arc::new(source)], &options, Box::new(output)).expect("a run"));
    let at = at.lock().unwrap().expect("rows");
    assert!(at < 100, "the first row came after {at} of 2,000 blocks");
}

/// Copies the progress of the run to where the output sees it.
struct Counting {
    inner: Box<dyn Source>,
    progress: Arc<slackwater::dataflow::Progress>,
    read: Arc<AtomicU64>,
}

struct CountingReader {
    inner: Box<dyn LaneReader>,
    progress: Arc<slackwater::dataflow::Progress>,
    read: Arc<AtomicU64>,
}

impl LaneReader for CountingReader {
    fn next_block(&mut self) -> Result<Next> {
        self.read.store(self.progress.records.load(Ordering::SeqCst), Ordering::SeqCst);
        self.inner.next_block()
    }
}

impl Source for Counting {
    fn lanes(&self) -> &[LaneInfo] {
        self.inner.lanes()
    }
    fn open(&self, lane: usize, turns: Turns) -> Box<dyn LaneReader> {
        let inner = self.inner.open(lane, turns);
        Box::new(CountingReader { inner, progress: Arc::clone(&self.progress), read: Arc::clone(&self.read) })
    }
}
