//! The program itself as a child, with what it cost.

use crate::cli::stderr::Stderr;
use crate::cli::supervise::SUPERVISED;
use crate::error::{Error, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// How often Ctrl-C is looked for.
const WATCH: Duration = Duration::from_millis(50);

/// The clock.
#[expect(clippy::disallowed_methods, reason = "measuring is what this is for")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Ends the child that runs when Ctrl-C (or SIGTERM) comes.
#[derive(Clone)]
pub(super) struct Stop {
    flag: Arc<AtomicBool>,
    child: Arc<AtomicI32>,
}

impl Stop {
    /// Begins to watch for signals.
    pub fn watch() -> Result<Stop> {
        let stop = Stop { flag: Arc::new(AtomicBool::new(false)), child: Arc::new(AtomicI32::new(0)) };
        let failed = |e: std::io::Error| Error::output("cannot watch for Ctrl-C").with_source(e);
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop.flag)).map_err(failed)?;
        }
        let watched = stop.clone();
        let thread = std::thread::Builder::new().name("signals".to_owned());
        thread
            .spawn(move || {
                loop {
                    std::thread::sleep(WATCH);
                    if watched.asked()
                        && let Some(child) = Pid::from_raw(watched.child.load(Ordering::SeqCst))
                    {
                        // One that has just ended needs no signal.
                        let _ = kill_process(child, Signal::INT);
                    }
                }
            })
            .map_err(failed)?;
        Ok(stop)
    }

    /// Whether a signal has come.
    pub fn asked(&self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }

    /// An error if a signal has come.
    pub fn check(&self) -> Result<()> {
        if self.asked() { Err(Error::output("interrupted")) } else { Ok(()) }
    }
}

/// What a child has cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Seconds from start to end.
    pub wall_s: f64,
    /// Seconds of processors outside the kernel, those of its own children too.
    pub user_s: f64,
    /// And inside.
    pub system_s: f64,
}

/// A child that runs. Only one may at a time: what it costs is a difference of what all that have ended cost.
pub(super) struct Running<'a> {
    pub child: Child,
    pub begun: Instant,
    stop: &'a Stop,
    before: (f64, f64),
    stderr: Stderr,
}

impl<'a> Running<'a> {
    /// Starts `slackwater run --quiet` with more arguments. Standard input and output are as `set` makes them, else none.
    pub fn start<S: AsRef<OsStr>>(
        arguments: impl IntoIterator<Item = S>,
        set: impl FnOnce(&mut Command),
        stop: &'a Stop,
    ) -> Result<Running<'a>> {
        stop.check()?;
        let failed = |e: std::io::Error| Error::output("cannot start the program as a child").with_source(e);
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["run", "--quiet"]).args(arguments).env(SUPERVISED, std::process::id().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        set(&mut command);
        let before = used();
        let begun = now();
        let mut child = command.spawn().map_err(failed)?;
        stop.child.store(i32::try_from(child.id()).unwrap_or(0), Ordering::SeqCst);
        let stderr = Stderr::of(&mut child);
        Ok(Running { child, begun, stop, before, stderr })
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it fails; its standard error is the detail.
    pub fn wait(mut self) -> Result<Cost> {
        let failed = |e: std::io::Error| Error::output("cannot wait for a child").with_source(e);
        let status = self.child.wait().map_err(failed)?;
        let wall_s = self.begun.elapsed().as_secs_f64();
        self.stop.child.store(0, Ordering::SeqCst);
        let after = used();
        let stderr = self.stderr.finish();
        self.stop.check()?;
        if !status.success() {
            return Err(run_failed(status, &stderr));
        }
        Ok(Cost { wall_s, user_s: after.0 - self.before.0, system_s: after.1 - self.before.1 })
    }
}

fn run_failed(status: ExitStatus, stderr: &[u8]) -> Error {
    let error = Error::output(format!("the run failed ({status})"));
    let text = String::from_utf8_lossy(stderr);
    if text.trim().is_empty() { error } else { error.with_detail(text.trim_end().to_owned()) }
}

/// Seconds of processors that this process itself has taken.
pub(super) fn own_cpu_s() -> f64 {
    let (user, system) = used_by(UsageWho::RUSAGE_SELF);
    user + system
}

/// Seconds of processors, outside the kernel and inside, of all children that have ended and were waited for.
fn used() -> (f64, f64) {
    used_by(UsageWho::RUSAGE_CHILDREN)
}

fn used_by(who: UsageWho) -> (f64, f64) {
    let Ok(usage) = getrusage(who) else { return (0.0, 0.0) };
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
    (seconds(usage.user_time()), seconds(usage.system_time()))
}
