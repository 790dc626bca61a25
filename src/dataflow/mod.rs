//! The dataflow of a run: worker threads, readers, watermarks as frontiers, windows, and the ordered output.
//!
//! This is the only place that knows timely and differential. Per worker there are two dataflows:
//!
//! * **summaries**: every block a worker decodes is summed up in a few numbers, and the summary is broadcast. Every
//!   worker thus works out the same stamps for the same records ([`crate::watermark::blocks`]).
//! * **results**: one input per view takes contributions, its time being the frontier of the source. Contributions go by
//!   key to the worker that keeps the key; the window operator's output is a differential collection of results; its
//!   changes are gathered by worker 0 and given to the [`RunOutput`].
//!
//! Readers are bounded: at most two undecided blocks a lane and worker, and a fixed number of messages under way.

mod driver;
mod instant;
pub mod operators;
pub mod parcel;
pub(crate) mod side;
pub mod typed;

use crate::engine::output::RunOutput;
use crate::error::{Error, Result};
use crate::plan::Program;
use crate::source::Source;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
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
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            workers: 1,
            stop: Arc::new(AtomicBool::new(false)),
            progress: Arc::new(Progress::default()),
            in_flight: 8,
            keep_too_late: false,
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
    stop: Arc<AtomicBool>,
    /// The first error; ends the run.
    error: Mutex<Option<Error>>,
    failed: AtomicBool,
    /// A worker has panicked: the others will wait in vain for what it owes them, and leave.
    broken: AtomicBool,
    /// Messages sent and not yet absorbed.
    in_flight: AtomicU64,
}

impl Shared {
    pub(crate) fn fail(&self, error: Error) {
        let mut slot = self.error.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        slot.get_or_insert(error);
        self.failed.store(true, Ordering::SeqCst);
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
    let shared = Arc::new(Shared { stop: Arc::clone(&options.stop), ..Shared::default() });
    let config = if options.workers <= 1 { timely::Config::thread() } else { timely::Config::process(options.workers) };
    let output = Arc::new(Mutex::new(Some(output)));
    let (worker_shared, worker_options) = (Arc::clone(&shared), options.clone());
    let guards = timely::execute(config, move |worker| {
        let output = if worker.index() == 0 {
            output.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
        } else {
            None
        };
        let work = || driver::work(worker, &program, &sources, &worker_options, &worker_shared, output);
        let ended = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            worker_shared.panicked(worker.index(), &*panic);
            false
        });
        if worker_shared.broken.load(Ordering::SeqCst) {
            drop_dataflows(worker);
        }
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
    let error = shared.error.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    error.map_or(Ok(complete), Err)
}
