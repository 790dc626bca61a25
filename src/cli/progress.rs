//! The progress line of long runs, on a terminal only.

use crate::dataflow::Progress;
use crate::sink::summary::grouped;
use crate::sink::text::write_visible;
use crate::time::format_timestamp;
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::VecDeque;
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
const STEPS_PER_SECOND: usize = 10;

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
    let template = if total.is_some() { "{bar:24} {bytes}/{total_bytes} {msg}" } else { "{msg}" };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    // What was read by the last steps: the rate shown is that of the last second.
    let mut before = VecDeque::from([(0, 0); STEPS_PER_SECOND]);
    while !stop.load(Ordering::Relaxed) {
        let (bytes, records) = (progress.bytes.load(Ordering::Relaxed), progress.records.load(Ordering::Relaxed));
        before.push_back((bytes, records));
        let (bytes_then, records_then) = before.pop_front().unwrap_or_default();
        bar.set_position(bytes);
        let mut text = String::new();
        if bytes > 0 {
            text.push_str(&format!("{}/s · ", HumanBytes(bytes.saturating_sub(bytes_then))));
        }
        text.push_str(&format!("{} records/s", grouped(records.saturating_sub(records_then))));
        text.push_str(&watermark(progress));
        bar.set_message(text);
        std::thread::sleep(STEP);
    }
    bar.finish_and_clear();
}

fn watermark(progress: &Progress) -> String {
    let us = progress.watermark_us.load(Ordering::Relaxed);
    let mut text = String::new();
    if us != i64::MIN && us != i64::MAX {
        text.push_str(" · watermark ");
        format_timestamp(us, &mut text);
    }
    if let Ok(holder) = progress.holder.try_lock()
        && let Some(name) = &*holder
    {
        text.push_str(&format!(" held back by {}", visible(name)));
    }
    text
}

/// A partition's name comes from the data: it must not draw on the terminal.
fn visible(name: &str) -> String {
    let mut out = String::new();
    write_visible(name, &mut out);
    out
}
