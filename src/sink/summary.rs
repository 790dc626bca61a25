//! What a run says of itself: the ledger, windows and corrections, watermarks, lags, and what it cost.
//!
//! Everything but [`Physical`] is a function of the input and the query, equal for any number of workers: counts add up,
//! and the lag histogram has fixed buckets. Physical quantities (seconds, memory) stand apart and are no part of the
//! promise (SEMANTICS §7). Cost: constant memory per view and partition.

use super::Op;
use super::block::Head;
use super::file::{PipeWait, Prepared};
use super::target::Output;
use crate::error::{Error, Result};
use crate::record::Ledger;
use crate::time::format_timestamp;
use crate::watermark::{AFTER_ALL, BEFORE_ALL};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize, Serializer};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct RunSummary {
    /// Whether the input was read to its end; `false` after an interruption or a closed pipe.
    pub complete: bool,
    /// Whether nobody reads standard output any more. That ends a run that writes nothing else.
    #[serde(skip)]
    pub closed: bool,
    /// Records read over all sources.
    pub records: u64,
    /// Per source.
    pub sources: Vec<SourceSummary>,
    /// Per view.
    pub views: Vec<ViewSummary>,
    /// Seconds and memory: differ from run to run.
    pub physical: Physical,
}

/// A source and how far it has come.
#[derive(Clone, Debug, Serialize)]
pub struct SourceSummary {
    /// The table's name.
    pub name: String,
    /// Records read, rejects included.
    pub records: u64,
    /// The source's watermark.
    pub watermark: Time,
    /// The greatest event time read.
    pub newest_event: Time,
    /// Newest event − watermark; `null` if either is infinite.
    pub lag_us: Option<i64>,
    /// The partition that holds the watermark back, if one does.
    pub held_back_by: Option<String>,
    /// The delays in force, under a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<DelaySummary>,
    /// Per partition, in partition order.
    pub partitions: Vec<PartitionSummary>,
}

/// The delays that a policy had in force, over the records of all partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DelaySummary {
    /// The mean, µs.
    pub mean_us: u64,
    /// The longest, µs.
    pub max_us: i64,
}

/// A partition and how far it has come.
#[derive(Clone, Debug, Serialize)]
pub struct PartitionSummary {
    /// Its name.
    pub name: String,
    /// Its watermark.
    pub watermark: Time,
    /// The source's newest event − its watermark; `null` if either is infinite.
    pub lag_us: Option<i64>,
}

impl SourceSummary {
    /// A source whose partitions have these watermarks; lags are taken from the newest event.
    pub fn new(name: &str, records: u64, watermark_us: i64, newest_event_us: i64, holder: Option<&str>) -> Self {
        SourceSummary {
            name: name.to_string(),
            records,
            watermark: Time(watermark_us),
            newest_event: Time(newest_event_us),
            lag_us: lag(newest_event_us, watermark_us),
            held_back_by: holder.map(str::to_string),
            delay: None,
            partitions: Vec::new(),
        }
    }

    /// Adds the next partition.
    pub fn partition(&mut self, name: &str, watermark_us: i64) {
        self.partitions.push(PartitionSummary {
            name: name.to_string(),
            watermark: Time(watermark_us),
            lag_us: lag(self.newest_event.0, watermark_us),
        });
    }
}

fn lag(newest_us: i64, watermark_us: i64) -> Option<i64> {
    let finite = |us: i64| us != BEFORE_ALL && us != AFTER_ALL;
    (finite(newest_us) && finite(watermark_us)).then(|| newest_us.saturating_sub(watermark_us))
}

/// A time in microseconds, serialised as RFC 3339, `"-infinity"` or `"infinity"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub i64);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            BEFORE_ALL => serializer.serialize_str("-infinity"),
            AFTER_ALL => serializer.serialize_str("infinity"),
            us => {
                let mut text = String::new();
                format_timestamp(us, &mut text);
                serializer.serialize_str(&text)
            }
        }
    }
}

/// One view.
#[derive(Clone, Debug, Serialize)]
pub struct ViewSummary {
    /// Its name; `null` for a bare SELECT.
    pub name: Option<String>,
    /// Records and contributions by class.
    pub ledger: Ledger,
    /// Windows and corrections.
    pub windows: WindowCounts,
    /// Most (key, window) pairs published and still correctable at once, at watermark instants.
    pub state_pairs_max: u64,
    /// Lags of late contributions, accepted or dropped.
    pub late_lag: LagSummary,
}

/// Windows and corrections of one view. Counts are of (key, window) pairs as published, after `HAVING`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowCounts {
    /// Pairs that got a first result.
    pub published: u64,
    /// Changes at a stamp (an update is one change).
    pub corrections: u64,
    /// Pairs with at least one correction.
    pub corrected: u64,
    /// Item `r` counts the pairs that reached revision `r`; item [`REVISIONS_MAX`] counts every revision from there on.
    pub revisions: Vec<u64>,
}

/// Revisions counted apart.
pub const REVISIONS_MAX: usize = 32;

impl WindowCounts {
    /// Counts one row of a changelog.
    pub fn observe(&mut self, change: Head) {
        if change.window_us.is_none() {
            return;
        }
        let first = change.revision == 0;
        if !change.op.is_retraction() {
            self.published += u64::from(first);
            let at = usize::try_from(change.revision).map_or(REVISIONS_MAX, |r| r.min(REVISIONS_MAX));
            if self.revisions.len() <= at {
                self.revisions.resize(at + 1, 0);
            }
            if let Some(n) = self.revisions.get_mut(at) {
                *n += 1;
            }
        }
        if change.closing {
            return;
        }
        self.corrections += u64::from(change.op != Op::UpdateBefore);
        // The first correction of a pair: the first result itself if all its records are late, else the one that takes
        // back the first result, which then holds no late record.
        let takes_back_first = change.op.is_retraction() && change.late_count == 0;
        let is_late_itself = change.op == Op::Insert;
        self.corrected += u64::from(first && (takes_back_first || is_late_itself));
    }
}

/// Lags as they are collected: a histogram with three significant digits.
#[derive(Clone, Debug)]
pub struct Lags {
    histogram: Histogram<u64>,
    max_us: u64,
}

/// Significant digits of [`Lags`].
const DIGITS: u8 = 3;

impl Default for Lags {
    fn default() -> Self {
        // Fails for more than five digits only.
        Lags { histogram: Histogram::new(DIGITS).expect("three digits are allowed"), max_us: 0 }
    }
}

impl Lags {
    /// Counts one late contribution. Lags are never negative.
    pub fn record(&mut self, lag_us: i64) {
        let lag_us = u64::try_from(lag_us).unwrap_or(0);
        self.max_us = self.max_us.max(lag_us);
        // Not `saturating_record`: that clamps to the histogram's present size instead of growing it.
        let recorded = self.histogram.record(lag_us);
        debug_assert!(recorded.is_ok(), "the histogram grows");
    }

    /// Counts a lag so many times.
    pub fn record_n(&mut self, lag_us: u64, n: u64) {
        self.max_us = self.max_us.max(lag_us);
        let recorded = self.histogram.record_n(lag_us, n);
        debug_assert!(recorded.is_ok(), "the histogram grows");
    }

    /// Adds what another worker collected; the order does not matter.
    pub fn merge(&mut self, other: &Lags) {
        self.max_us = self.max_us.max(other.max_us);
        // Fails only if values would not fit, and this histogram grows.
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok());
    }

    /// The figures to publish.
    pub fn summary(&self) -> LagSummary {
        let count = self.histogram.len();
        let at = |q: f64| (count > 0).then(|| self.histogram.value_at_quantile(q).min(self.max_us));
        LagSummary {
            count,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            max_us: (count > 0).then_some(self.max_us),
            relative_error_max: 0.001,
        }
    }
}

/// Quantiles of lags, in microseconds; `null` if there was none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LagSummary {
    /// Contributions.
    pub count: u64,
    /// Median.
    pub p50_us: Option<u64>,
    /// 90 %.
    pub p90_us: Option<u64>,
    /// 99 %.
    pub p99_us: Option<u64>,
    /// The greatest, exact.
    pub max_us: Option<u64>,
    /// Quantiles are too high by at most this share of themselves, the width of the histogram's buckets.
    pub relative_error_max: f64,
}

/// What differs from run to run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Physical {
    /// Seconds from start to end: until everything but the summary is written.
    pub elapsed_s: f64,
    /// Records read per second.
    pub records_per_s: f64,
    /// Greatest resident memory of the process, if the system tells.
    pub memory_bytes_max: Option<u64>,
    /// Bytes that this process has sent to and received from the others of a cluster by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchanged_bytes: Option<u64>,
}

impl Physical {
    /// From what the caller has measured, and the memory as the system reports it now.
    pub fn measure(records: u64, elapsed_s: f64, exchanged_bytes: Option<u64>) -> Physical {
        let records_per_s = if elapsed_s > 0.0 { records as f64 / elapsed_s } else { 0.0 };
        let memory = std::fs::read_to_string("/proc/self/status").ok().and_then(|status| resident_bytes_max(&status));
        Physical { elapsed_s, records_per_s, memory_bytes_max: memory, exchanged_bytes }
    }
}

/// The line `VmHWM: 1234 kB` of a Linux process status.
fn resident_bytes_max(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The file for the summary.
#[derive(Debug)]
pub enum SummaryFile {
    /// Open, so that a path that cannot be written is found before anything is read.
    Open(Output),
    /// A named pipe or device, to be opened when there is something to write: its reader may come only then.
    Later(PathBuf, PipeWait),
}

impl SummaryFile {
    /// Opens it, unless it is no regular file.
    ///
    /// # Errors
    /// When it cannot be created; the error names the path.
    pub fn open(path: &Path, wait: &PipeWait) -> Result<SummaryFile> {
        Ok(if std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            SummaryFile::Later(path.to_owned(), wait.clone())
        } else {
            SummaryFile::Open(Output::file(path, wait)?)
        })
    }

    /// Writes the summary; the file has yet to get its name.
    ///
    /// # Errors
    /// When it cannot be written; the error names the path.
    pub fn prepare(self, summary: &RunSummary) -> Result<Prepared> {
        let mut output = match self {
            SummaryFile::Open(output) => output,
            SummaryFile::Later(path, wait) => Output::file(path, &wait)?,
        };
        output.text().push_str(&summary.json()?);
        output.prepare()
    }
}

impl RunSummary {
    /// Indented JSON.
    fn json(&self) -> Result<String> {
        let json = serde_json::to_string_pretty(self)
            .map_err(|e| Error::output("cannot write the summary as JSON").with_source(e))?;
        Ok(json + "\n")
    }

    /// The one line that ends a run on standard error.
    pub fn line(&self) -> String {
        let ended = match (self.complete, self.closed) {
            (true, _) => "",
            (false, true) => "standard output was closed by its reader after ",
            (false, false) => "interrupted after ",
        };
        let mut out = format!(
            "slackwater: {ended}{} record{} in {:.2} s ({}/s)",
            grouped(self.records),
            plural(self.records),
            self.physical.elapsed_s,
            grouped(self.physical.records_per_s.round() as u64),
        );
        for view in &self.views {
            view.write_line(&mut out);
        }
        out
    }
}

impl ViewSummary {
    fn write_line(&self, out: &mut String) {
        let records = &self.ledger.records;
        out.push_str(" · ");
        if let Some(name) = &self.name {
            super::text::write_visible(name, out);
            out.push_str(": ");
        }
        // Writing to a string does not fail.
        let _ = write!(out, "{} on time, {} corrected", grouped(records.on_time), grouped(records.corrected));
        if records.partly_too_late > 0 {
            let _ = write!(out, ", {} partly too late", grouped(records.partly_too_late));
        }
        let _ = write!(out, ", {} too late", grouped(records.too_late));
        if records.filtered > 0 {
            let _ = write!(out, ", {} filtered", grouped(records.filtered));
        }
        let _ = write!(out, ", {} rejected", grouped(records.rejected_total()));
        let windows = &self.windows;
        let _ = write!(
            out,
            " · {} window{} closed, {} corrected",
            grouped(windows.published),
            plural(windows.published),
            grouped(windows.corrected)
        );
    }
}

/// The end of a word that `n` of something take: none for one.
pub fn plural(n: u64) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// A number with commas: `12,345`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RejectReason;
    use proptest::prelude::*;

    fn summary() -> RunSummary {
        let mut ledger = Ledger::default();
        ledger.records.read = 12_345;
        ledger.records.on_time = 12_001;
        ledger.records.corrected = 300;
        ledger.records.too_late = 44;
        let windows = WindowCounts { published: 120, corrections: 50, corrected: 41, revisions: vec![120, 41, 9] };
        let mut source = SourceSummary::new("orders", 12_345, AFTER_ALL, 70_000_000, None);
        source.partition("a", 60_000_000);
        source.partition("b", BEFORE_ALL);
        RunSummary {
            complete: true,
            closed: false,
            records: 12_345,
            sources: vec![source],
            views: vec![ViewSummary {
                name: Some("per_minute".into()),
                ledger,
                windows,
                state_pairs_max: 17,
                late_lag: Lags::default().summary(),
            }],
            physical: Physical {
                elapsed_s: 0.41,
                records_per_s: 30_110.0,
                memory_bytes_max: Some(1),
                exchanged_bytes: None,
            },
        }
    }

    #[test]
    fn one_line() {
        let mut summary = summary();
        assert_eq!(
            summary.line(),
            "slackwater: 12,345 records in 0.41 s (30,110/s) · per_minute: 12,001 on time, 300 corrected, 44 too late, \
             0 rejected · 120 windows closed, 41 corrected"
        );
        summary.complete = false;
        summary.views[0].name = None;
        let records = &mut summary.views[0].ledger.records;
        (records.partly_too_late, records.filtered) = (1, 2_000);
        records.rejected.insert(RejectReason::Syntax, 1_000_000);
        summary.views[0].windows.published = 1;
        assert_eq!(
            summary.line(),
            "slackwater: interrupted after 12,345 records in 0.41 s (30,110/s) · 12,001 on time, 300 corrected, \
             1 partly too late, 44 too late, 2,000 filtered, 1,000,000 rejected · 1 window closed, 41 corrected"
        );
        summary.closed = true;
        let begin = "slackwater: standard output was closed by its reader after 12,345 records in ";
        assert!(summary.line().starts_with(begin));
        summary.complete = true;
        assert!(summary.line().starts_with("slackwater: 12,345 records in "), "files were written to the end");
    }

    #[test]
    fn json_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("summary.json");
        let file = SummaryFile::open(&path, &PipeWait::default()).unwrap();
        let prepared = file.prepare(&summary()).unwrap();
        assert!(!path.exists());
        let _ = prepared.complete().unwrap();
        let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(json["complete"], true);
        assert_eq!(json["sources"][0]["watermark"], "infinity");
        assert_eq!(json["sources"][0]["newest_event"], "1970-01-01T00:01:10Z");
        assert_eq!(json["sources"][0]["partitions"][0]["lag_us"], 10_000_000);
        assert_eq!(json["sources"][0]["partitions"][1]["watermark"], "-infinity");
        assert_eq!(json["sources"][0]["partitions"][1]["lag_us"], serde_json::Value::Null);
        assert_eq!(json["views"][0]["ledger"]["records"]["on_time"], 12_001);
        assert_eq!(json["views"][0]["windows"]["revisions"], serde_json::json!([120, 41, 9]));
        assert_eq!(json["views"][0]["late_lag"]["p50_us"], serde_json::Value::Null);
    }

    #[test]
    fn numbers_with_commas() {
        for (n, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (u64::MAX, "18,446,744,073,709,551,615")] {
            assert_eq!(grouped(n), text);
        }
    }

    #[test]
    fn memory_of_a_linux_process() {
        assert_eq!(resident_bytes_max("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS: 1 kB\n"), Some(2048 * 1024));
        assert_eq!(resident_bytes_max("Name:\tx\n"), None);
    }

    proptest! {
        /// Quantiles stay within the bound that is stated, and do not depend on which worker saw what.
        #[test]
        fn lags(values in prop::collection::vec(0i64..1 << 45, 1..200), split in 0usize..200) {
            let (left, right) = values.split_at(split.min(values.len()));
            let [mut all, mut one, mut two] = [Lags::default(), Lags::default(), Lags::default()];
            values.iter().for_each(|v| all.record(*v));
            left.iter().for_each(|v| one.record(*v));
            right.iter().for_each(|v| two.record(*v));
            two.merge(&one);
            prop_assert_eq!(all.summary(), two.summary());
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let summary = all.summary();
            for (q, found) in [(0.5, summary.p50_us), (0.9, summary.p90_us), (0.99, summary.p99_us)] {
                let rank = ((q * values.len() as f64).ceil() as usize).max(1);
                let exact = sorted[rank - 1] as f64;
                let found = found.expect("there are lags") as f64;
                prop_assert!(found >= exact && found <= exact * (1.0 + summary.relative_error_max) + 1.0, "{found} {exact}");
            }
            prop_assert_eq!(summary.max_us, sorted.last().map(|v| *v as u64));
        }
    }

    #[test]
    fn extreme_lags() {
        let mut lags = Lags::default();
        [i64::MAX, 0, -1].iter().for_each(|v| lags.record(*v));
        assert_eq!(lags.summary().max_us, Some(i64::MAX as u64));
    }
}
