//! The outputs of one view: its changelog, and the two tables that follow from it.
//!
//! Changes come complete and in order, one watermark step after another; each goes to the changelog sinks at once and, if
//! a sink asks for a table, into the row of its key and window. The *metrics* table is the latest row per key and window;
//! the *backfills* table compares the first with the latest published values of those that hold late records
//! (SEMANTICS §6). Both are ordered by (`window_end`, `window_start`, group columns).
//!
//! Invariant: a row is held only while a correction may still come, that is until the frontier has passed `end + horizon`
//! (reached `end` if no horizon is set); then it is written and dropped. Since windows of one view have one length, they
//! become final in the order in which the tables stand. So memory is bounded by the correctable windows, whatever the
//! length of the run. Cost: per change one ordered-map access, and only if there is a table.
//!
//! Columns, each followed or preceded by the query's own:
//!
//! | sink | columns |
//! | --- | --- |
//! | changelog | `op`, `watermark`, `revision`, `late_count`, then the query's |
//! | metrics | the query's, then `late_count`, `revision` |
//! | backfills | the query's that are not aggregates, then `late_count`, `first_corrected_at`, `last_corrected_at`, for each aggregate `x` `first_x` and `latest_x`, then `status` |
//!
//! A `watermark` of ±∞, which only pass-through rows can have, is NULL.

use super::rows::{Columns, OutputOptions, RowWriter, open};
use super::summary::WindowCounts;
use super::{Change, Flow, Op};
use crate::error::{Error, Result};
use crate::plan::{SinkMode, SinkPlan, ViewKind, ViewPlan};
use crate::types::{DataType, Value};
use crate::watermark::{AFTER_ALL, BEFORE_ALL};
use std::collections::BTreeMap;

/// Writes everything that one view publishes.
pub struct ViewOutput {
    changelogs: Vec<Box<dyn RowWriter>>,
    tables: Option<Tables>,
    words: Words,
    counts: WindowCounts,
    flow: Flow,
}

impl std::fmt::Debug for ViewOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sinks = self.changelogs.len() + self.tables.as_ref().map_or(0, |t| t.metrics.len() + t.backfills.len());
        write!(f, "ViewOutput({sinks} sinks, {} rows held)", self.rows_held())
    }
}

impl ViewOutput {
    /// Opens the sinks of a view; `sinks` are its own only. A view without sinks counts and writes nothing.
    ///
    /// # Errors
    /// When a file cannot be created, a sink's columns would clash, or a table of a pass-through view is wanted.
    pub fn new<'a>(
        plan: &ViewPlan,
        sinks: impl IntoIterator<Item = &'a SinkPlan>,
        options: &OutputOptions,
    ) -> Result<ViewOutput> {
        let mut changelogs = Vec::new();
        let mut tables = Tables::new(plan);
        for sink in sinks {
            let title = match (&sink.name, &plan.name) {
                (Some(name), _) | (None, Some(name)) => name.as_str(),
                (None, None) => "query",
            };
            match sink.mode {
                SinkMode::Changelog => {
                    changelogs.push(open(&sink.target, &changelog_columns(&plan.output), title, options)?);
                }
                SinkMode::Metrics | SinkMode::Backfills => {
                    let tables = tables.as_mut().ok_or_else(|| no_table(title, sink.mode))?;
                    let (columns, writers) = match sink.mode {
                        SinkMode::Backfills => (tables.backfill_columns(&plan.output), &mut tables.backfills),
                        _ => (metrics_columns(&plan.output), &mut tables.metrics),
                    };
                    writers.push(open(&sink.target, &columns, title, options)?);
                }
            }
        }
        tables = tables.filter(|t| !(t.metrics.is_empty() && t.backfills.is_empty()));
        Ok(ViewOutput { changelogs, tables, words: Words::new(), counts: WindowCounts::default(), flow: Flow::Open })
    }

    /// Takes the changes of one watermark step, in the order of [`Change::compare`] and after those of earlier steps.
    /// Readers of standard output get them at once.
    ///
    /// # Errors
    /// When the bytes cannot be written.
    pub fn changes(&mut self, step: &[Change]) -> Result<Flow> {
        debug_assert!(step.is_sorted_by(|a, b| a.compare(b).is_le()), "changes of a step come in order");
        for change in step {
            self.counts.observe(change);
            let head = [
                self.words.op(change.op),
                time_or_null(change.watermark_us),
                count(change.revision),
                count(change.late_count),
            ];
            for writer in &mut self.changelogs {
                self.flow = self.flow.and(writer.write(&[&head, &change.values])?);
            }
            if let Some(tables) = &mut self.tables {
                tables.apply(change);
            }
        }
        for writer in &mut self.changelogs {
            self.flow = self.flow.and(writer.flush()?);
        }
        Ok(self.flow)
    }

    /// The view's frontier has reached `frontier_us`, and every change before it has been given to [`ViewOutput::changes`]:
    /// what can no longer be corrected goes to the tables and is forgotten.
    ///
    /// # Errors
    /// When the bytes cannot be written.
    pub fn advance(&mut self, frontier_us: i64) -> Result<Flow> {
        if let Some(tables) = &mut self.tables {
            self.flow = self.flow.and(tables.advance(frontier_us, &self.words)?);
        }
        Ok(self.flow)
    }

    /// Rows of tables that wait for their window to become final.
    pub fn rows_held(&self) -> usize {
        self.tables.as_ref().map_or(0, |t| t.open.values().map(BTreeMap::len).sum())
    }

    /// Windows and corrections so far.
    pub fn counts(&self) -> &WindowCounts {
        &self.counts
    }

    /// Completes every sink; files appear under their names. A run that was interrupted (`complete: false`) has published
    /// only what is final, and its tables hold the latest rows of that.
    ///
    /// # Errors
    /// When the bytes cannot be written or a file not renamed.
    pub fn finish(mut self, complete: bool) -> Result<(Flow, WindowCounts)> {
        let _ = self.advance(AFTER_ALL)?;
        debug_assert!(!complete || self.rows_held() == 0);
        for writer in self.changelogs {
            self.flow = self.flow.and(writer.finish()?);
        }
        if let Some(tables) = self.tables {
            for writer in tables.metrics.into_iter().chain(tables.backfills) {
                self.flow = self.flow.and(writer.finish()?);
            }
        }
        Ok((self.flow, self.counts))
    }
}

fn no_table(title: &str, mode: SinkMode) -> Error {
    let mode = if mode == SinkMode::Backfills { "backfills" } else { "metrics" };
    Error::usage(format!("sink \"{title}\": mode '{mode}' needs windows, and the view passes rows through"))
        .with_hint("write its changelog (mode = 'changelog'), or group the query by a window")
}

/// The columns of a changelog.
pub fn changelog_columns(output: &Columns) -> Vec<(String, DataType)> {
    let own = [
        ("op", DataType::Text),
        ("watermark", DataType::Timestamp),
        ("revision", DataType::BigInt),
        ("late_count", DataType::BigInt),
    ];
    own.map(|(name, dtype)| (name.to_string(), dtype)).into_iter().chain(output.iter().cloned()).collect()
}

/// The columns of the metrics table.
pub fn metrics_columns(output: &Columns) -> Vec<(String, DataType)> {
    let own = ["late_count", "revision"].map(|name| (name.to_string(), DataType::BigInt));
    output.iter().cloned().chain(own).collect()
}

/// Rows of correctable windows, and where they go when final.
struct Tables {
    metrics: Vec<Box<dyn RowWriter>>,
    backfills: Vec<Box<dyn RowWriter>>,
    /// By (end, start), then by group.
    open: BTreeMap<(i64, i64), BTreeMap<Box<[Value]>, Entry>>,
    horizon_us: Option<i64>,
    spike_above: u64,
    /// Per output column: whether it reads an aggregate.
    aggregate: Vec<bool>,
    frontier_us: i64,
}

/// One key and window.
struct Entry {
    values: Box<[Value]>,
    late_count: u64,
    revision: u64,
    /// Whether the row is in the tables: not after `-D`.
    present: bool,
    /// The values first published, once they have been replaced.
    first: Option<Box<[Value]>>,
    /// First and last logical time of correction.
    corrected_us: Option<(i64, i64)>,
}

impl Tables {
    /// `None` for a view without windows.
    fn new(plan: &ViewPlan) -> Option<Tables> {
        let ViewKind::Windowed(windowed) = &plan.kind else { return None };
        let first_aggregate = windowed.group.len() + 2;
        let aggregate = windowed.select.iter().map(|expr| {
            let mut read = std::collections::BTreeSet::new();
            expr.columns(&mut read);
            read.last().is_some_and(|&index| index >= first_aggregate)
        });
        Some(Tables {
            metrics: Vec::new(),
            backfills: Vec::new(),
            open: BTreeMap::new(),
            horizon_us: plan.horizon_us,
            spike_above: plan.spike_above,
            aggregate: aggregate.collect(),
            frontier_us: BEFORE_ALL,
        })
    }

    fn backfill_columns(&self, output: &Columns) -> Vec<(String, DataType)> {
        let plain = output.iter().zip(&self.aggregate).filter(|(_, aggregate)| !**aggregate).map(|(c, _)| c.clone());
        let own = [
            ("late_count", DataType::BigInt),
            ("first_corrected_at", DataType::Timestamp),
            ("last_corrected_at", DataType::Timestamp),
        ];
        let aggregates = output.iter().zip(&self.aggregate).filter(|(_, aggregate)| **aggregate);
        plain
            .chain(own.map(|(name, dtype)| (name.to_string(), dtype)))
            .chain(aggregates.flat_map(|((name, dtype), _)| {
                [(format!("first_{name}"), dtype.clone()), (format!("latest_{name}"), dtype.clone())]
            }))
            .chain([("status".to_string(), DataType::Text)])
            .collect()
    }

    /// Whether no correction of a window can come any more: a record stamped `end + horizon` is still accepted.
    fn is_final(&self, end_us: i64, frontier_us: i64) -> bool {
        frontier_us == AFTER_ALL
            || match self.horizon_us {
                Some(horizon_us) => frontier_us > end_us.saturating_add(horizon_us),
                None => frontier_us >= end_us,
            }
    }

    fn apply(&mut self, change: &Change) {
        let Some((start_us, end_us)) = change.window_us else {
            debug_assert!(false, "a change of a windowed view has a window");
            return;
        };
        debug_assert!(!self.is_final(end_us, self.frontier_us), "a final window does not change");
        let groups = self.open.entry((end_us, start_us)).or_default();
        let Some(entry) = groups.get_mut(&change.group) else {
            if !change.op.is_retraction() {
                groups.insert(change.group.clone(), Entry::new(change));
            }
            return;
        };
        entry.apply(change);
    }

    fn advance(&mut self, frontier_us: i64, words: &Words) -> Result<Flow> {
        self.frontier_us = self.frontier_us.max(frontier_us);
        let mut flow = Flow::Open;
        let mut wrote = false;
        while let Some(first) = self.open.first_entry() {
            let (end_us, _) = *first.key();
            if !self.is_final(end_us, frontier_us) {
                break;
            }
            let Some((_, groups)) = self.open.pop_first() else { break };
            for entry in groups.values().filter(|entry| entry.present) {
                flow = flow.and(self.write(entry, words)?);
                wrote = true;
            }
        }
        if wrote {
            for writer in self.metrics.iter_mut().chain(&mut self.backfills) {
                flow = flow.and(writer.flush()?);
            }
        }
        Ok(flow)
    }

    fn write(&mut self, entry: &Entry, words: &Words) -> Result<Flow> {
        let mut flow = Flow::Open;
        let tail = [count(entry.late_count), count(entry.revision)];
        for writer in &mut self.metrics {
            flow = flow.and(writer.write(&[&entry.values, &tail])?);
        }
        if entry.late_count > 0 && !self.backfills.is_empty() {
            let row = self.backfill_row(entry, words);
            for writer in &mut self.backfills {
                flow = flow.and(writer.write(&[&row])?);
            }
        }
        Ok(flow)
    }

    fn backfill_row(&self, entry: &Entry, words: &Words) -> Vec<Value> {
        let latest = entry.values.iter();
        let first = entry.first.as_ref().unwrap_or(&entry.values).iter();
        let columns = || self.aggregate.iter().zip(first.clone().zip(latest.clone()));
        let mut row: Vec<Value> =
            columns().filter(|(aggregate, _)| !**aggregate).map(|(_, (_, latest))| latest.clone()).collect();
        row.push(count(entry.late_count));
        let corrected = entry.corrected_us.map(|(first, last)| (time_or_null(first), time_or_null(last)));
        let (first_at, last_at) = corrected.unwrap_or((Value::Null, Value::Null));
        row.extend([first_at, last_at]);
        for (_, (first, latest)) in columns().filter(|(aggregate, _)| **aggregate) {
            row.extend([first.clone(), latest.clone()]);
        }
        row.push(if entry.late_count > self.spike_above { words.spike.clone() } else { words.minor.clone() });
        row
    }
}

impl Entry {
    fn new(change: &Change) -> Entry {
        Entry {
            values: change.values.clone(),
            late_count: change.late_count,
            revision: change.revision,
            present: true,
            first: None,
            corrected_us: (!change.closing).then_some((change.watermark_us, change.watermark_us)),
        }
    }

    fn apply(&mut self, change: &Change) {
        if !change.closing {
            let (first, _) = self.corrected_us.unwrap_or((change.watermark_us, 0));
            self.corrected_us = Some((first, change.watermark_us));
        }
        self.present = !change.op.is_retraction();
        if self.present {
            let old = std::mem::replace(&mut self.values, change.values.clone());
            self.first.get_or_insert(old);
            self.late_count = change.late_count;
            self.revision = change.revision;
        }
    }
}

/// Words of the outputs, made once.
struct Words {
    ops: [(Op, Value); 4],
    minor: Value,
    spike: Value,
}

impl Words {
    fn new() -> Words {
        let op = |op: Op| (op, Value::Text(op.name().into()));
        Words {
            ops: [op(Op::Insert), op(Op::UpdateBefore), op(Op::UpdateAfter), op(Op::Delete)],
            minor: Value::Text("minor".into()),
            spike: Value::Text("spike".into()),
        }
    }

    fn op(&self, op: Op) -> Value {
        self.ops.iter().find(|(own, _)| *own == op).map_or(Value::Null, |(_, word)| word.clone())
    }
}

/// A count as a value; counts beyond 2^63 − 1 do not occur.
fn count(n: u64) -> Value {
    Value::BigInt(i64::try_from(n).unwrap_or(i64::MAX))
}

/// A time; ±∞ have no date and are NULL.
pub(super) fn time_or_null(us: i64) -> Value {
    if us == BEFORE_ALL || us == AFTER_ALL { Value::Null } else { Value::Timestamp(us) }
}
