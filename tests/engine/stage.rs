//! The stage of a simulated run: what a seed decides, and a source and an output that play the part it gives them.

use crate::baton::{Baton, Deed, Habits};
use crate::common::run::Collected;
use crate::streams::{Dice, Raw, Stream};
use slackwater::dataflow::{RunOptions, run};
use slackwater::engine::ingest::TooLate;
use slackwater::engine::output::{Ending, Flow, Reject, RunOutput};
use slackwater::error::{Error, Result};
use slackwater::plan::{OnError, Program};
use slackwater::sink::block::ChangeRun;
use slackwater::source::{LaneInfo, LaneReader, Next, Source, Turns};
use slackwater::verify::collect::Collector;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With its input.
    Input,
    /// It is told to stop at this turn.
    Stop(u64),
    /// A reader fails instead of giving this block, counted over all readers.
    ReaderFails(u64),
    ReaderPanics(u64),
    /// A worker panics before its first turn, when it opens the first share of this lane.
    OpenPanics(usize),
    /// The output wants no more after so many steps.
    OutputCloses(u64),
    /// The output fails at this call.
    OutputFails(u64),
    OutputPanics(u64),
}

/// What a seed decides beside the stream.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub habits: Habits,
    pub in_flight: usize,
    /// Rows or bytes; see [`Stream::source`].
    pub block: usize,
    pub steps: usize,
    /// Of each lane, how often it is silent (one in so many times; 0: never), and for how long at most.
    pub silence: Vec<(u64, u64)>,
    pub end: End,
}

/// What everything that fails says.
pub const GRIEF: &str = "no more of this today";

impl Plan {
    pub fn new(seed: u64) -> Plan {
        let mut dice = Dice(seed ^ 0x7a11_ba70_0000_0000);
        let mut habits = Habits::new(&mut dice);
        let steps = match dice.below(8) {
            0 => dice.range(0, 6),
            7 => dice.range(90, 300),
            _ => dice.range(6, 90),
        };
        let silence = [(0, 1), (0, 1), (2, 2), (5, 30), (12, 80)];
        let silent = dice.one_in(2);
        // Of the order of what a run takes, or far less.
        let late = |dice: &mut Dice, bits: i64| {
            let most = 1 << dice.range(1, bits);
            1 + dice.below(most)
        };
        let end = match dice.below(14) {
            0 | 1 => End::Stop(late(&mut dice, 11)),
            2 => End::ReaderFails(late(&mut dice, 7)),
            3 if dice.one_in(5) => End::OpenPanics(dice.below(3) as usize),
            3 => End::ReaderPanics(late(&mut dice, 7)),
            4 => End::OutputCloses(late(&mut dice, 5)),
            5 => End::OutputFails(late(&mut dice, 6)),
            6 => End::OutputPanics(late(&mut dice, 6)),
            _ => End::Input,
        };
        if let End::Stop(turn) = end {
            habits.stop_at = Some(turn);
        }
        Plan {
            seed,
            habits,
            in_flight: dice.range(1, 9) as usize,
            // Cut into single bytes, anything longer would take its time.
            block: if steps < 12 { 0 } else { dice.pick(&[1, 3, 6, 14, 14, 22, 30, 49, 200, 1_001]) },
            steps: steps as usize,
            silence: (0..6).map(|_| if silent { dice.pick(&silence) } else { (0, 1) }).collect(),
            end,
        }
    }

    pub fn stream(&self) -> Stream {
        let mut dice = Dice(self.seed);
        let raw: Vec<Raw> = (0..self.steps).map(|_| dice.next().to_be_bytes()).collect();
        Stream::new(self.seed, &raw)
    }
}

/// A block that was read.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub index: u64,
    pub lines: u64,
    pub clock_us: Option<i64>,
    pub last: bool,
}

/// What readers and output share in one run.
struct Scene {
    baton: Arc<Baton>,
    plan: Plan,
    /// Blocks asked for so far.
    blocks: AtomicU64,
    /// The grief has come.
    grieved: AtomicBool,
    /// By lane.
    seen: Mutex<Vec<Vec<Seen>>>,
    /// Blocks are dealt to the readers of a lane in turn, and numbered as they are read.
    misnumbered: bool,
}

impl Scene {
    fn grieve(&self) -> Error {
        self.grieved.store(true, Ordering::SeqCst);
        Error::input(GRIEF)
    }
}

/// A source some of whose lanes are silent for a while, and whose readers come to grief if the seed says so.
struct Staged {
    inner: Arc<dyn Source>,
    scene: Arc<Scene>,
    /// The number of its first lane among those of all tables.
    first_lane: usize,
}

struct StagedReader {
    inner: Box<dyn LaneReader>,
    scene: Arc<Scene>,
    lane: usize,
    dice: Dice,
    silent: u64,
}

impl LaneReader for StagedReader {
    fn next_block(&mut self) -> Result<Next> {
        let Scene { baton, plan, .. } = &*self.scene;
        let (one_in, most) = plan.silence.get(self.lane).copied().unwrap_or_default();
        if self.silent == 0 && one_in > 0 && self.dice.one_in(one_in) {
            self.silent = 1 + self.dice.below(most);
        }
        if self.silent > 0 {
            self.silent -= 1;
            baton.note(Deed::Pending(self.lane));
            return Ok(Next::Pending);
        }
        let number = self.scene.blocks.fetch_add(1, Ordering::SeqCst) + 1;
        if plan.end == End::ReaderFails(number) {
            return Err(self.scene.grieve());
        }
        if plan.end == End::ReaderPanics(number) {
            self.scene.grieve();
            resume_unwind(Box::new(GRIEF));
        }
        let mut next = self.inner.next_block()?;
        baton.note(match &mut next {
            Next::Block(block) => {
                let seen = &mut self.scene.seen.lock().unwrap()[self.lane];
                if self.scene.misnumbered {
                    block.index = seen.len() as u64;
                }
                let (index, lines, clock_us, last) = (block.index, block.lines, block.clock_us, block.last);
                seen.push(Seen { index, lines, clock_us, last });
                Deed::Block(self.lane, index, block.rows)
            }
            Next::Pending => Deed::Pending(self.lane),
            Next::End => Deed::EndOfLane(self.lane),
        });
        Ok(next)
    }
    fn suspend(&mut self) {
        self.inner.suspend();
    }
}

impl Source for Staged {
    fn lanes(&self) -> &[LaneInfo] {
        self.inner.lanes()
    }
    fn open(&self, lane: usize, turns: Turns) -> Box<dyn LaneReader> {
        let reader = turns.reader();
        let turns = match &*self.scene {
            // As many readers as workers, as long as lanes are few.
            Scene { misnumbered: true, plan, .. } if self.lanes().len() < 4 * plan.habits.workers => {
                Turns::of(reader, plan.habits.workers as u64)
            }
            _ => turns,
        };
        let inner = self.inner.open(lane, turns);
        let lane = self.first_lane + lane;
        if reader == 0 && self.scene.plan.end == End::OpenPanics(lane) {
            self.scene.grieve();
            resume_unwind(Box::new(GRIEF));
        }
        let dice = Dice(self.scene.plan.seed ^ (lane as u64) << 32 ^ reader << 48);
        Box::new(StagedReader { inner, scene: Arc::clone(&self.scene), lane, dice, silent: 0 })
    }
}

/// Collects, notes every call, and refuses if the seed says so.
struct Witness {
    inner: Collector,
    scene: Arc<Scene>,
    calls: u64,
    steps: u64,
    /// By table, whether rejects are refused.
    refuses: Vec<bool>,
}

/// What a refused reject's error says.
pub fn refused(table: usize, reject: &Reject) -> String {
    let Reject { lane, file, line, position, view, detail, .. } = reject;
    format!("table {table}, lane {lane}, file {file}, line {line}, position {position}, view {view:?}: {detail}")
}

impl Witness {
    fn called(&mut self, deed: Deed) -> Result<()> {
        self.scene.baton.note(deed);
        self.calls += 1;
        if self.scene.plan.end == End::OutputFails(self.calls) {
            return Err(self.scene.grieve());
        }
        if self.scene.plan.end == End::OutputPanics(self.calls) {
            self.scene.grieve();
            resume_unwind(Box::new(GRIEF));
        }
        Ok(())
    }
}

impl RunOutput for Witness {
    fn publish(&mut self, view: usize, changes: ChangeRun) -> Result<Flow> {
        let first = changes.rows().next().map(|(block, row)| block.head(row).watermark_us);
        self.called(Deed::Changes(view, changes.len(), first))?;
        let flow = self.inner.publish(view, changes)?;
        self.steps += 1;
        if let End::OutputCloses(steps) = self.scene.plan.end
            && self.steps >= steps
        {
            self.scene.grieve();
            return Ok(Flow::Closed);
        }
        Ok(flow)
    }
    fn advance(&mut self, view: usize, watermark_us: i64) -> Result<()> {
        self.called(Deed::Advance(view, watermark_us))?;
        self.inner.advance(view, watermark_us)
    }
    fn lags(&mut self, view: usize, lags_us: &[i64]) {
        self.scene.baton.note(Deed::Lags(view, lags_us.len()));
    }
    fn too_late(&mut self, view: usize, rows: Vec<TooLate>) -> Result<()> {
        self.called(Deed::TooLate(view, rows.len()))?;
        self.inner.too_late(view, rows)
    }
    fn rejects(&mut self, table: usize, rejects: Vec<Reject>) -> Result<()> {
        self.called(Deed::Rejects(table, rejects.len()))?;
        if let (true, Some(first)) = (self.refuses[table], rejects.first()) {
            return Err(Error::input(refused(table, first)));
        }
        self.inner.rejects(table, rejects)
    }
    fn prepare(&mut self, ending: Ending) -> Result<()> {
        self.called(Deed::Prepare(ending.complete))?;
        self.inner.prepare(ending)
    }
    fn complete(&mut self) -> Result<()> {
        self.called(Deed::Complete)?;
        self.inner.complete()
    }
}

/// What a simulated run gave.
pub struct Performed {
    pub result: Result<bool>,
    /// Complete only if the run ended well.
    pub collected: Collected,
    pub log: Vec<(usize, Deed)>,
    pub grieved: bool,
    pub seen: Vec<Vec<Seen>>,
}

/// Runs a program as the plan says.
pub fn perform(plan: &Plan, program: &Arc<Program>, sources: Vec<Arc<dyn Source>>, misnumbered: bool) -> Performed {
    let stop = Arc::new(AtomicBool::new(false));
    let baton = Arc::new(Baton::new(plan.seed, plan.habits.clone(), Arc::clone(&stop)));
    let scene = Arc::new(Scene {
        baton: Arc::clone(&baton),
        plan: plan.clone(),
        blocks: AtomicU64::new(0),
        grieved: AtomicBool::new(false),
        seen: Mutex::new(vec![Vec::new(); sources.iter().map(|source| source.lanes().len()).sum()]),
        misnumbered,
    });
    let options = RunOptions {
        workers: plan.habits.workers,
        stop,
        in_flight: plan.in_flight,
        keep_too_late: true,
        schedule: Some(baton.clone()),
        ..RunOptions::default()
    };
    let inner = Collector::default();
    let refuses = program.tables.iter().map(|table| table.on_error == OnError::Fail).collect();
    let witness = Witness { inner: inner.clone(), scene: Arc::clone(&scene), calls: 0, steps: 0, refuses };
    let mut staged: Vec<Arc<dyn Source>> = Vec::new();
    let mut first_lane = 0;
    for inner in sources {
        let lanes = inner.lanes().len();
        staged.push(Arc::new(Staged { inner, scene: Arc::clone(&scene), first_lane }));
        first_lane += lanes;
    }
    let result = run(Arc::clone(program), staged, &options, Box::new(witness));
    let mut seen = std::mem::take(&mut *scene.seen.lock().unwrap_or_else(|e| e.into_inner()));
    seen.iter_mut().for_each(|lane| lane.sort_by_key(|block| block.index));
    Performed {
        result,
        collected: inner.take(program),
        log: baton.log(),
        grieved: scene.grieved.load(Ordering::SeqCst),
        seen,
    }
}
