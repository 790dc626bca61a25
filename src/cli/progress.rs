//! The progress line of long runs, on a terminal only.

use crate::dataflow::Progress;
use crate::time::format_timestamp;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Draws until dropped.
pub struct ProgressLine {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Runs shorter than this show nothing.
const QUIET: Duration = Duration::from_millis(1_000);
const STEP: Duration = Duration::from_millis(100);

impl ProgressLine {
    /// Starts drawing if stderr is a terminal; `total` is the input's size in bytes, if known.
    pub fn start(progress: Arc<Progress>, total: Option<u64>, wanted: bool) -> ProgressLine {
        let stop = Arc::new(AtomicBool::new(false));
        if !wanted || !std::io::stderr().is_terminal() {
            return ProgressLine { stop, thread: None };
        }
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || draw(&progress, total, &flag));
        ProgressLine { stop, thread: Some(thread) }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread only draws; if it died there is nothing to do about it.
            let _ = thread.join();
        }
    }
}

fn draw(progress: &Progress, total: Option<u64>, stop: &AtomicBool) {
    let mut waited = Duration::ZERO;
    while waited < QUIET {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(STEP);
        waited += STEP;
    }
    let bar = match total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::no_length(),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    let template = if total.is_some() {
        "{bar:24} {bytes}/{total_bytes} {bytes_per_sec} {msg}"
    } else {
        "{bytes} {bytes_per_sec} {msg}"
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    let mut records = 0;
    while !stop.load(Ordering::Relaxed) {
        bar.set_position(progress.bytes.load(Ordering::Relaxed));
        let now = progress.records.load(Ordering::Relaxed);
        let per_second = (now - records) * (Duration::from_secs(1).as_millis() / STEP.as_millis()) as u64;
        records = now;
        bar.set_message(format!("{per_second} records/s{}", watermark(progress)));
        std::thread::sleep(STEP);
    }
    bar.finish_and_clear();
}

fn watermark(progress: &Progress) -> String {
    let us = progress.watermark_us.load(Ordering::Relaxed);
    let mut text = String::new();
    if us != i64::MIN && us != i64::MAX {
        text.push_str(" watermark ");
        format_timestamp(us, &mut text);
    }
    if let Ok(holder) = progress.holder.try_lock()
        && let Some(name) = &*holder {
            text.push_str(&format!(" held by {name}"));
        }
    text
}
