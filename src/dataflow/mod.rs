//! The dataflow of a run: worker threads, readers, watermarks as frontiers, windows, and the ordered output.
//!
//! This is the only place that knows timely and differential. Per worker there are two dataflows:
//!
//! * **notes**: every block a worker decodes is summed up in a few numbers, and the summary is sent to all. Every
//!   worker thus works out the same stamps for the same records ([`crate::watermark::blocks`]). The end of reading, reasons
//!   to stop, and acknowledgements between processes go the same way.
//! * **results**: one input per view takes contributions, its time being the frontier of the source. Contributions go by
//!   key to the worker that keeps the key; the window operator's output is a differential collection of results; its
//!   changes are gathered by worker 0 and given to the [`RunOutput`].
//!
//! Readers are bounded: at most two undecided blocks a lane and worker, a few blocks beyond the frontier unless the lane
//! holds the frontier back, and a fixed number of messages and changes under way.

pub mod deal;
mod driver;
mod instant;
mod lab;
mod notes;
pub mod operators;
pub mod parcel;
mod refusal;
pub(crate) mod side;
mod table;
mod tee;
pub mod typed;
mod view;
mod writer;

use crate::cluster::{self, Mesh, Watch};
use crate::engine::output::RunOutput;
use crate::error::{Error, ErrorKind, Result};
use crate::lab::plan::LabPlan;
use crate::plan::Program;
use crate::source::{Source, Turns};
use crate::watermark::{AFTER_ALL, BEFORE_ALL};
use deal::Crew;
use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use timely::communication::AllocatorBuilder;
use timely::worker::Worker;

/// Settings of a run that results do not depend on.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Worker threads, at least 1.
    pub workers: usize,
    /// Set from outside to end the run early; what is final is published.
    pub stop: Arc<AtomicBool>,
    /// Filled in while the run goes on.
    pub progress: Arc<Progress>,
    /// Messages under way per worker before readers wait.
    pub in_flight: usize,
    /// Give too-late contributions to the output even if no file takes them.
    pub keep_too_late: bool,
    /// Views whose changes every process also gathers for itself, for outputs that each process writes for its own keys.
    pub partitioned: Vec<usize>,
    /// The program is that of a lateness lab: by table, what of its one view is measured instead of published. All tables read
    /// the first one's source.
    pub lab: Vec<Arc<LabPlan>>,
    /// Decides when which worker steps (tests).
    pub schedule: Option<Arc<dyn Schedule>>,
}

/// What a worker may do in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Whether it may read input.
    pub read: bool,
}

/// Lets workers take turns, so that a test can replay an interleaving.
pub trait Schedule: std::fmt::Debug + Send + Sync {
    /// Waits until it is the worker's turn; the turn before ends with this call.
    fn turn(&self, worker: usize) -> Turn;
    /// The worker takes no turn any more.
    fn leave(&self, worker: usize);
}

/// Where the results of a run go, on one worker.
#[derive(Default)]
struct Outlets {
    /// Takes everything; on worker 0.
    all: Option<Box<dyn RunOutput + Send>>,
    /// Takes the process's own changes of [`RunOptions::partitioned`]; on the first worker of a process.
    own: Option<Box<dyn RunOutput + Send>>,
}

/// Why a process stops reading before the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// From outside.
    Interrupted,
    /// Nobody reads the results any more.
    Closed,
    /// With this error.
    Failed(String),
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            workers: 1,
            stop: Arc::new(AtomicBool::new(false)),
            progress: Arc::new(Progress::default()),
            in_flight: 8,
            keep_too_late: false,
            partitioned: Vec::new(),
            lab: Vec::new(),
            schedule: None,
        }
    }
}

/// How far a run has come; for people, never for results.
#[derive(Debug)]
pub struct Progress {
    /// Input bytes read.
    pub bytes: AtomicU64,
    /// Records read.
    pub records: AtomicU64,
    /// Watermark of the first table, µs.
    pub watermark_us: AtomicI64,
    /// The partition that holds it back.
    pub holder: Mutex<Option<String>>,
}

impl Default for Progress {
    fn default() -> Self {
        Progress {
            bytes: AtomicU64::new(0),
            records: AtomicU64::new(0),
            watermark_us: AtomicI64::new(i64::MIN),
            holder: Mutex::new(None),
        }
    }
}

/// What the workers of a process share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    process: usize,
    stop: Arc<AtomicBool>,
    /// Why and whose reason it is, if not from outside.
    why: Mutex<Option<(usize, Stopped)>>,
    /// The process that was the first to say so, and its reason.
    heard: Mutex<Option<(usize, Stopped)>>,
    /// The other processes know that this one stops.
    told: AtomicBool,
    /// The first error; ends the run.
    error: Mutex<Option<Error>>,
    failed: AtomicBool,
    /// A worker has panicked: the others will wait in vain for what it owes them, and leave.
    broken: AtomicBool,
    /// Messages sent and not yet absorbed.
    in_flight: AtomicU64,
    /// Changes sent and not yet absorbed where they are gathered.
    rows_under_way: AtomicU64,
    /// Messages and changes of each process that were absorbed here and not yet acknowledged.
    absorbed: Vec<(AtomicU64, AtomicU64)>,
    /// Knows whether a peer was lost.
    watch: Option<Arc<Watch>>,
    /// Who reads which blocks, by table and lane.
    turns: Mutex<HashMap<(usize, usize), Turns>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Shared {
    fn new(stop: &Arc<AtomicBool>, process: usize, processes: usize) -> Self {
        let absorbed = (0..processes).map(|_| Default::default()).collect();
        Shared { stop: Arc::clone(stop), process, absorbed, ..Shared::default() }
    }
    /// The blocks of a lane that this process's readers share.
    fn turns(&self, table: usize, share: deal::Share) -> Turns {
        let new = || Turns::of(share.share, share.shares);
        lock(&self.turns).entry((table, share.lane)).or_insert_with(new).clone()
    }
    pub(crate) fn fail(&self, error: Error) {
        lock(&self.error).get_or_insert(error);
        self.failed.store(true, Ordering::SeqCst);
    }
    /// Bytes sent to and received from other processes so far, if there are any.
    fn exchanged_bytes(&self) -> Option<u64> {
        let traffic = self.watch.as_ref().map(|watch| watch.traffic());
        traffic.map(|peers| peers.iter().map(|peer| peer.sent_bytes + peer.received_bytes).sum())
    }

    fn failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
    /// Notes that a worker has panicked.
    fn panicked(&self, worker: usize, panic: &(dyn Any + Send)) {
        let message =
            panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let message = message.unwrap_or("no message");
        let error = Error::output(format!("worker {worker} panicked: {message}"));
        self.fail(error.with_hint("this is a bug in the program, not in the input or the query; please report it"));
        self.broken.store(true, Ordering::SeqCst);
    }
    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }
    /// Whether the dataflow cannot run out any more.
    fn broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed) || self.watch.as_ref().is_some_and(|watch| watch.lost().is_some())
    }
    /// Lets the other processes know that this one leaves the run.
    fn tell_of_the_break(&self) {
        if let Some(watch) = &self.watch
            && self.broken.load(Ordering::SeqCst)
        {
            let reason = lock(&self.error).as_ref().map_or_else(|| "it broke off".to_owned(), Error::to_string);
            watch.abort_all(&reason);
        }
    }
    /// Ends the run if a message cannot be read: what it held is missing for good.
    fn check<M>(&self, parcel: &parcel::Parcel<M>) {
        parcel.unreadable().into_iter().for_each(|error| self.unreadable(error));
    }
    fn unreadable(&self, error: &str) {
        self.fail(Error::cluster(format!("a message between processes cannot be read: {error}")));
        self.broken.store(true, Ordering::SeqCst);
    }
    /// Ends the reading.
    fn stop_for(&self, why: Stopped) {
        self.stop_for_process(self.process, why);
    }
    /// Ends the reading for the reason of that process.
    fn stop_for_process(&self, process: usize, why: Stopped) {
        lock(&self.why).get_or_insert((process, why));
        self.stop.store(true, Ordering::SeqCst);
    }
    /// Why this process stops and whose reason it is, if the others are still to be told. What was heard is passed on:
    /// whoever it reaches late would else take the end of reading for that of the input.
    fn stop_to_tell(&self) -> Option<(usize, Stopped)> {
        if !self.stopping() || self.told.swap(true, Ordering::SeqCst) {
            return None;
        }
        self.why_stopping()
    }
    /// The error that ends the run, in words for other processes, unless it was heard of one of them.
    fn own_error(&self) -> Option<String> {
        lock(&self.error).as_ref().filter(|e| e.kind() != ErrorKind::Cluster).map(Error::to_string)
    }
    /// Why this process stops and whose reason it is, if it does.
    fn why_stopping(&self) -> Option<(usize, Stopped)> {
        if !self.stopping() {
            return None;
        }
        if let Some(heard) = lock(&self.heard).clone() {
            return Some(heard);
        }
        if let Some(error) = self.own_error() {
            return Some((self.process, Stopped::Failed(error)));
        }
        // What was heard after a stop from outside, and before that was told, is still the other process's.
        Some(lock(&self.why).clone().unwrap_or((self.process, Stopped::Interrupted)))
    }
    /// Another process stops.
    fn told_to_stop(&self, process: usize, why: Stopped) {
        if !self.stopping() {
            lock(&self.heard).get_or_insert((process, why.clone()));
        }
        if let Stopped::Failed(message) = &why {
            self.fail(Error::cluster(format!("process {process} failed: {message}")));
        }
        self.stop_for_process(process, why);
    }
    /// Messages and changes that process `from` waits for were absorbed.
    fn absorbed(&self, from: u64, messages: u64, rows: u64) {
        if from == self.process as u64 {
            self.in_flight.fetch_sub(messages, Ordering::Relaxed);
            self.rows_under_way.fetch_sub(rows, Ordering::Relaxed);
        } else if let Some((m, r)) = self.absorbed.get(from as usize) {
            m.fetch_add(messages, Ordering::Relaxed);
            r.fetch_add(rows, Ordering::Relaxed);
        }
    }
    /// What was absorbed of a process since it was told last.
    fn absorbed_from(&self, process: usize) -> Option<(u64, u64)> {
        let (messages, rows) = self.absorbed.get(process)?;
        let counts = (messages.swap(0, Ordering::Relaxed), rows.swap(0, Ordering::Relaxed));
        (counts != (0, 0)).then_some(counts)
    }
}

/// Drops what a worker has built, as it stands; what an operator does when it is dropped must not stop that.
fn drop_dataflows(worker: &mut Worker) {
    for dataflow in worker.installed_dataflows() {
        let _ = catch_unwind(AssertUnwindSafe(|| worker.drop_dataflow(dataflow)));
    }
}

/// Runs a program to the end of its input, or until it is stopped.
///
/// `sources` holds one source per table of the program. Results are given to `output` on worker 0's thread. They depend
/// on the program and the input alone: not on `options`, not on timing. Returns whether the whole input was read.
///
/// # Errors
/// The first error of a reader or of the output; what was final by then has been published, and `output.finish` was not
/// called. A panic on a worker ends the run with an error, too: the other workers do not wait for it.
pub fn run(
    program: Arc<Program>,
    sources: Vec<Arc<dyn Source>>,
    options: &RunOptions,
    output: Box<dyn RunOutput + Send>,
) -> Result<bool> {
    let threads = options.workers.max(1);
    let config = if threads == 1 { timely::Config::thread() } else { timely::Config::process(threads) };
    let (builders, others) = config
        .communication
        .try_build()
        .map_err(|message| Error::output(format!("cannot start the workers: {message}")))?;
    let shared = Shared::new(&options.stop, 0, 1);
    let outlets = Outlets { all: Some(output), own: None };
    let ended = execute(program, sources, options, Fabric { builders, others, shared, processes: 1 }, outlets)?;
    Ok(ended.complete)
}

/// How a process of a cluster came to the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Whether the whole input was read.
    pub complete: bool,
    /// Why reading stopped, if some process said so.
    pub stopped: Option<Stopped>,
}

/// Runs a program on the processes of a mesh, each calling this with the same program and equal sources.
///
/// `output` is process 0's and takes everything; `own` takes this process's share of the views in
/// [`RunOptions::partitioned`]. Process 0's own errors are as those of [`run`].
///
/// # Errors
/// As [`run`]; and when another process fails, or is lost: then nothing is written to the end.
pub fn run_cluster(
    program: Arc<Program>,
    sources: Vec<Arc<dyn Source>>,
    options: &RunOptions,
    mesh: Mesh,
    output: Option<Box<dyn RunOutput + Send>>,
    own: Option<Box<dyn RunOutput + Send>>,
) -> Result<Ended> {
    let all = output.filter(|_| mesh.process() == 0);
    execute(program, sources, options, Fabric::over(mesh, options)?, Outlets { all, own })
}

/// Takes part in a run for as long as it takes to tell the other processes of an error that this one has already: they end
/// as they do when a process fails on the way. Gives the error back.
pub fn fail_cluster(
    program: Arc<Program>,
    sources: Vec<Arc<dyn Source>>,
    options: &RunOptions,
    mesh: Mesh,
    error: Error,
) -> Error {
    let fabric = match Fabric::over(mesh, options) {
        Ok(fabric) => fabric,
        Err(_) => return error,
    };
    fabric.shared.fail(error);
    match execute(program, sources, options, fabric, Outlets::default()) {
        Err(error) => error,
        Ok(_) => Error::output("a failed run ended well").with_hint("this is a bug in the program; please report it"),
    }
}

/// What workers are made of.
struct Fabric {
    builders: Vec<AllocatorBuilder>,
    others: Box<dyn Any + Send>,
    shared: Shared,
    processes: usize,
}

impl Fabric {
    fn over(mesh: Mesh, options: &RunOptions) -> Result<Fabric> {
        let (process, processes) = (mesh.process(), mesh.processes());
        let (builders, others, watch) = cluster::allocators(mesh, options.workers.max(1))?;
        let mut shared = Shared::new(&options.stop, process, processes);
        shared.watch = Some(watch);
        Ok(Fabric { builders, others, shared, processes })
    }
}

fn execute(
    program: Arc<Program>,
    sources: Vec<Arc<dyn Source>>,
    options: &RunOptions,
    fabric: Fabric,
    outlets: Outlets,
) -> Result<Ended> {
    let Fabric { builders, others, shared, processes } = fabric;
    let threads = builders.len();
    let shared = Arc::new(shared);
    let outlets = Mutex::new(Some(outlets));
    let (worker_shared, worker_options) = (Arc::clone(&shared), options.clone());
    let config = timely::WorkerConfig::default();
    let guards = timely::execute::execute_from(builders, others, config, move |worker| {
        // Whatever may happen here, the peers must not take it for a clean end.
        let alarm = worker_shared.watch.as_ref().map(Watch::alarm);
        let crew = Crew::of(worker.index(), processes, threads);
        let outlets = if crew.thread == 0 { lock(&outlets).take() } else { None }.unwrap_or_default();
        let work = driver::Work {
            program: &program,
            sources: &sources,
            options: &worker_options,
            shared: &worker_shared,
            crew,
        };
        let ended = catch_unwind(AssertUnwindSafe(|| work.run(worker, outlets))).unwrap_or_else(|panic| {
            worker_shared.panicked(worker.index(), &*panic);
            false
        });
        if worker_shared.broken() {
            worker_shared.tell_of_the_break();
            drop_dataflows(worker);
        }
        if let Some(schedule) = &worker_options.schedule {
            schedule.leave(crew.index());
        }
        alarm.into_iter().for_each(cluster::Alarm::disarm);
        ended
    })
    .map_err(|message| Error::output(format!("cannot start the workers: {message}")))?;
    let mut complete = true;
    for (worker, result) in guards.join().into_iter().enumerate() {
        match result {
            Ok(ended) => complete &= ended,
            Err(message) => shared.panicked(worker, &message),
        }
    }
    let lost = shared.watch.as_ref().and_then(|watch| watch.lost());
    let error = lock(&shared.error).take();
    match (error, lost) {
        (Some(error), _) => Err(error),
        (None, Some(loss)) => Err(lost_at(loss, options.progress.watermark_us.load(Ordering::Relaxed))),
        (None, None) => Ok(Ended { complete, stopped: lock(&shared.why).clone().map(|(_, why)| why) }),
    }
}

/// The error of a run that has lost a process.
fn lost_at(loss: cluster::Loss, watermark_us: i64) -> Error {
    let mut at = String::new();
    if watermark_us > BEFORE_ALL && watermark_us < AFTER_ALL {
        at.push_str(", at watermark ");
        crate::time::format_timestamp(watermark_us, &mut at);
    }
    let hint = "all processes end when one does; start them all again";
    Error::cluster(format!("{loss}{at}")).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is passed on is the originator's, whatever this process is about.
    #[test]
    fn a_stop_keeps_the_number_of_who_stopped() {
        let stopped = |stop: bool| Shared::new(&Arc::new(AtomicBool::new(stop)), 1, 3);
        let failed = || Stopped::Failed("in.gz: truncated gzip data".to_owned());
        for stopping in [false, true] {
            let shared = stopped(stopping);
            shared.told_to_stop(2, failed());
            shared.told_to_stop(0, Stopped::Closed);
            assert_eq!(shared.stop_to_tell(), Some((2, failed())), "stopping: {stopping}");
            assert_eq!(shared.stop_to_tell(), None, "once");
        }
        let shared = stopped(true);
        assert_eq!(shared.stop_to_tell(), Some((1, Stopped::Interrupted)));
        // An error of one's own is told before what is heard later.
        let shared = stopped(false);
        shared.fail(Error::input("no space"));
        shared.told_to_stop(2, failed());
        assert_eq!(shared.stop_to_tell(), Some((1, Stopped::Failed("no space".to_owned()))));
        let shared = stopped(false);
        shared.stop_for(Stopped::Closed);
        assert_eq!(shared.stop_to_tell(), Some((1, Stopped::Closed)));
    }
}
