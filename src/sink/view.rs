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

#[cfg(test)]
mod tests {
    use super::super::target::tests::{Captured, names};
    use super::*;
    use crate::expr::Expr;
    use crate::plan::{SinkFormat, SinkTarget, WindowPlan, WindowedPlan};

    const MINUTE: i64 = 60_000_000;

    /// `SELECT key, n` per minute, `n` an aggregate.
    fn plan(horizon_us: Option<i64>) -> ViewPlan {
        let int = DataType::BigInt;
        let select = vec![
            Expr::column(1, DataType::Timestamp),
            Expr::column(2, DataType::Timestamp),
            Expr::column(0, DataType::Text),
            Expr::column(3, int.clone()),
        ];
        ViewPlan {
            name: Some("per_minute".into()),
            table: 0,
            filter: None,
            kind: ViewKind::Windowed(WindowedPlan {
                window: WindowPlan { size_us: MINUTE, slide_us: MINUTE, offset_us: 0 },
                group: vec![Expr::column(0, DataType::Text)],
                aggregates: vec![],
                having: None,
                select,
            }),
            output: vec![
                ("window_start".into(), DataType::Timestamp),
                ("window_end".into(), DataType::Timestamp),
                ("key".into(), DataType::Text),
                ("n".into(), int),
            ],
            horizon_us,
            late: None,
            spike_above: 1,
            sql: String::new(),
        }
    }

    fn change(op: Op, watermark_us: i64, revision: u64, late_count: u64, minute: i64, key: &str, n: i64) -> Change {
        let window = (minute * MINUTE, (minute + 1) * MINUTE);
        let key = Value::Text(key.into());
        Change {
            op,
            watermark_us,
            closing: watermark_us == window.1 && op == Op::Insert && late_count == 0,
            revision,
            late_count,
            window_us: Some(window),
            group: [key.clone()].into(),
            values: [Value::Timestamp(window.0), Value::Timestamp(window.1), key, Value::BigInt(n)].into(),
        }
    }

    fn sink(mode: SinkMode, target: SinkTarget) -> SinkPlan {
        SinkPlan { name: None, view: 0, mode, target }
    }

    fn stdout(mode: SinkMode, format: SinkFormat) -> (Captured, OutputOptions, SinkPlan) {
        let captured = Captured::new(usize::MAX);
        let options = OutputOptions { stdout: captured.handle(), ..OutputOptions::default() };
        (captured, options, sink(mode, SinkTarget::Stdout(Some(format))))
    }

    /// SEMANTICS §9: orders, delay 10 s, horizon 180 s.
    fn orders() -> [Vec<Change>; 3] {
        [
            vec![change(Op::Insert, MINUTE, 0, 0, 0, "a", 3)],
            vec![
                change(Op::UpdateBefore, 70_000_000, 0, 0, 0, "a", 3),
                change(Op::UpdateAfter, 70_000_000, 1, 2, 0, "a", 5),
            ],
            vec![change(Op::Insert, 2 * MINUTE, 0, 0, 1, "a", 2)],
        ]
    }

    #[test]
    fn the_changelog_goes_out_at_every_step() {
        let (captured, options, sink) = stdout(SinkMode::Changelog, SinkFormat::Ndjson);
        let mut view = ViewOutput::new(&plan(Some(3 * MINUTE)), [&sink], &options).unwrap();
        let expected = [
            concat!(
                r#"{"op":"+I","watermark":"1970-01-01T00:01:00Z","revision":0,"late_count":0,"#,
                r#""window_start":"1970-01-01T00:00:00Z","window_end":"1970-01-01T00:01:00Z","key":"a","n":3}"#,
                "\n"
            ),
            concat!(
                r#"{"op":"-U","watermark":"1970-01-01T00:01:10Z","revision":0,"late_count":0,"#,
                r#""window_start":"1970-01-01T00:00:00Z","window_end":"1970-01-01T00:01:00Z","key":"a","n":3}"#,
                "\n",
                r#"{"op":"+U","watermark":"1970-01-01T00:01:10Z","revision":1,"late_count":2,"#,
                r#""window_start":"1970-01-01T00:00:00Z","window_end":"1970-01-01T00:01:00Z","key":"a","n":5}"#,
                "\n"
            ),
            concat!(
                r#"{"op":"+I","watermark":"1970-01-01T00:02:00Z","revision":0,"late_count":0,"#,
                r#""window_start":"1970-01-01T00:01:00Z","window_end":"1970-01-01T00:02:00Z","key":"a","n":2}"#,
                "\n"
            ),
        ];
        for (i, step) in orders().iter().enumerate() {
            assert_eq!(view.changes(step).unwrap(), Flow::Open);
            assert_eq!(captured.text(), expected[..=i].concat());
        }
        assert_eq!(view.rows_held(), 0);
        let (flow, counts) = view.finish(true).unwrap();
        assert_eq!(flow, Flow::Open);
        assert_eq!(captured.text(), expected.concat());
        assert_eq!(counts, WindowCounts { published: 2, corrections: 1, corrected: 1, revisions: vec![2, 1] });
    }

    #[test]
    fn tables_of_the_orders_example() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
        let sinks = [
            sink(SinkMode::Changelog, SinkTarget::File(file("log.csv"), SinkFormat::Csv)),
            sink(SinkMode::Metrics, SinkTarget::File(file("metrics.csv"), SinkFormat::Csv)),
            sink(SinkMode::Backfills, SinkTarget::File(file("backfills.csv"), SinkFormat::Csv)),
        ];
        let mut view = ViewOutput::new(&plan(Some(3 * MINUTE)), &sinks, &OutputOptions::default()).unwrap();
        for step in orders() {
            assert_eq!(view.changes(&step).unwrap(), Flow::Open);
        }
        assert_eq!(names(directory.path()).iter().filter(|n| !n.starts_with('.')).count(), 0);
        let _ = view.finish(true).unwrap();
        assert_eq!(names(directory.path()), ["backfills.csv", "log.csv", "metrics.csv"]);
        let read = |name: &str| std::fs::read_to_string(file(name)).unwrap();
        assert_eq!(read("log.csv").lines().count(), 5);
        assert_eq!(
            read("metrics.csv"),
            "window_start,window_end,key,n,late_count,revision\n\
             1970-01-01T00:00:00Z,1970-01-01T00:01:00Z,a,5,2,1\n\
             1970-01-01T00:01:00Z,1970-01-01T00:02:00Z,a,2,0,0\n"
        );
        assert_eq!(
            read("backfills.csv"),
            "window_start,window_end,key,late_count,first_corrected_at,last_corrected_at,first_n,latest_n,status\n\
             1970-01-01T00:00:00Z,1970-01-01T00:01:00Z,a,2,1970-01-01T00:01:10Z,1970-01-01T00:01:10Z,3,5,spike\n"
        );
    }

    /// Rows leave memory when their window is final, in the order of the table.
    #[test]
    fn rows_are_held_while_a_correction_may_come() {
        let (captured, options, sink) = stdout(SinkMode::Metrics, SinkFormat::Csv);
        let mut view = ViewOutput::new(&plan(Some(10)), [&sink], &options).unwrap();
        let header = "window_start,window_end,key,n,late_count,revision\n";
        let rows = |captured: &Captured| captured.text().lines().skip(1).count();
        let _ = view
            .changes(&[change(Op::Insert, MINUTE, 0, 0, 0, "a", 1), change(Op::Insert, MINUTE, 0, 0, 0, "b", 1)])
            .unwrap();
        let _ = view.advance(MINUTE + 10).unwrap();
        assert_eq!((view.rows_held(), rows(&captured)), (2, 0));
        // A record stamped `end + horizon` is still accepted.
        let _ = view
            .changes(&[
                change(Op::UpdateBefore, MINUTE + 10, 0, 0, 0, "b", 1),
                change(Op::UpdateAfter, MINUTE + 10, 1, 1, 0, "b", 2),
                // The first result of a window whose records are all late.
                change(Op::Insert, MINUTE + 10, 0, 1, 0, "c", 7),
            ])
            .unwrap();
        let _ = view.advance(MINUTE + 11).unwrap();
        assert_eq!((view.rows_held(), rows(&captured)), (0, 3));
        let window = "1970-01-01T00:00:00Z,1970-01-01T00:01:00Z";
        assert_eq!(captured.text(), format!("{header}{window},a,1,0,0\n{window},b,2,1,1\n{window},c,7,1,0\n"));
        let (_, counts) = view.finish(true).unwrap();
        assert_eq!((counts.published, counts.corrections, counts.corrected), (3, 2, 2));
    }

    #[test]
    fn without_a_horizon_rows_are_final_at_closing() {
        let (captured, options, sink) = stdout(SinkMode::Metrics, SinkFormat::Ndjson);
        let mut view = ViewOutput::new(&plan(None), [&sink], &options).unwrap();
        let _ = view.changes(&[change(Op::Insert, MINUTE, 0, 0, 0, "a", 1)]).unwrap();
        let _ = view.advance(MINUTE - 1).unwrap();
        assert_eq!(view.rows_held(), 1);
        let _ = view.advance(MINUTE).unwrap();
        assert_eq!((view.rows_held(), captured.text().lines().count()), (0, 1));
    }

    #[test]
    fn an_infinite_horizon_ends_with_the_input() {
        let (captured, options, sink) = stdout(SinkMode::Metrics, SinkFormat::Ndjson);
        let mut view = ViewOutput::new(&plan(Some(i64::MAX)), [&sink], &options).unwrap();
        let _ = view.changes(&[change(Op::Insert, MINUTE, 0, 0, 0, "a", 1)]).unwrap();
        let _ = view.advance(i64::MAX - 1).unwrap();
        assert_eq!((view.rows_held(), captured.text().lines().count()), (1, 0));
        let _ = view.finish(true).unwrap();
        assert_eq!(captured.text().lines().count(), 1);
    }

    /// `HAVING`: a row that leaves is in neither table; if it comes back, the very first values stay the first.
    #[test]
    fn a_deleted_row_leaves_both_tables() {
        for comes_back in [false, true] {
            let (captured, options, metrics) = stdout(SinkMode::Metrics, SinkFormat::Csv);
            let backfills = sink(SinkMode::Backfills, SinkTarget::Stdout(Some(SinkFormat::Csv)));
            let mut view = ViewOutput::new(&plan(Some(MINUTE)), [&metrics, &backfills], &options).unwrap();
            let _ = view.changes(&[change(Op::Insert, MINUTE, 0, 0, 0, "a", 3)]).unwrap();
            let _ = view.changes(&[change(Op::Delete, MINUTE + 1_000_000, 0, 0, 0, "a", 3)]).unwrap();
            if comes_back {
                let _ = view.changes(&[change(Op::Insert, MINUTE + 2_000_000, 1, 2, 0, "a", 9)]).unwrap();
                let _ = view.changes(&[
                    change(Op::UpdateBefore, MINUTE + 3_000_000, 1, 2, 0, "a", 9),
                    change(Op::UpdateAfter, MINUTE + 3_000_000, 2, 3, 0, "a", 10),
                ]);
            }
            let (_, counts) = view.finish(true).unwrap();
            let rows: Vec<String> =
                captured.text().lines().filter(|l| !l.starts_with("window")).map(str::to_string).collect();
            if comes_back {
                let window = "1970-01-01T00:00:00Z,1970-01-01T00:01:00Z";
                assert_eq!(
                    rows,
                    [
                        format!("{window},a,10,3,2"),
                        format!("{window},a,3,1970-01-01T00:01:01Z,1970-01-01T00:01:03Z,3,10,spike")
                    ]
                );
                let expected = WindowCounts { published: 1, corrections: 3, corrected: 1, revisions: vec![1, 1, 1] };
                assert_eq!(counts, expected);
            } else {
                assert_eq!(rows, [""; 0]);
                assert_eq!((counts.published, counts.corrections, counts.corrected), (1, 1, 1));
            }
        }
    }

    /// A window whose records are all late: its first result is what was first published, and counts as a correction.
    #[test]
    fn all_late_windows_are_minor_backfills() {
        let (captured, options, sink) = stdout(SinkMode::Backfills, SinkFormat::Csv);
        let mut view = ViewOutput::new(&plan(Some(MINUTE)), [&sink], &options).unwrap();
        let _ = view.changes(&[change(Op::Insert, MINUTE + 5_000_000, 0, 1, 0, "a", 1)]).unwrap();
        let _ = view.finish(true).unwrap();
        assert_eq!(
            captured.text().lines().nth(1).unwrap(),
            "1970-01-01T00:00:00Z,1970-01-01T00:01:00Z,a,1,1970-01-01T00:01:05Z,1970-01-01T00:01:05Z,1,1,minor"
        );
    }

    #[test]
    fn tables_stand_by_window_end_then_group() {
        let (captured, options, sink) = stdout(SinkMode::Metrics, SinkFormat::Csv);
        let mut view = ViewOutput::new(&plan(Some(10 * MINUTE)), [&sink], &options).unwrap();
        let _ = view.changes(&[change(Op::Insert, MINUTE, 0, 0, 0, "b", 1)]).unwrap();
        let _ = view.changes(&[change(Op::Insert, 2 * MINUTE, 0, 0, 1, "a", 1)]).unwrap();
        let _ = view.changes(&[change(Op::Insert, 2 * MINUTE + 5, 0, 1, 0, "a", 1)]).unwrap();
        // Interrupted: what was published is written.
        let _ = view.finish(false).unwrap();
        let text = captured.text();
        let keys: Vec<(&str, &str)> = text
            .lines()
            .skip(1)
            .map(|l| {
                let fields: Vec<&str> = l.split(',').collect();
                (fields[1], fields[2])
            })
            .collect();
        assert_eq!(keys, [("1970-01-01T00:01:00Z", "a"), ("1970-01-01T00:01:00Z", "b"), ("1970-01-01T00:02:00Z", "a")]);
    }

    #[test]
    fn pass_through_views_have_a_changelog_only() {
        let mut plan = plan(None);
        plan.kind = ViewKind::PassThrough(vec![Expr::column(0, DataType::BigInt)]);
        plan.output = vec![("x".into(), DataType::BigInt)];
        let (captured, options, changelog) = stdout(SinkMode::Changelog, SinkFormat::Ndjson);
        for mode in [SinkMode::Metrics, SinkMode::Backfills] {
            let error = ViewOutput::new(&plan, [&SinkPlan { mode, ..changelog.clone() }], &options).err().unwrap();
            assert!(error.to_string().contains("needs windows"), "{error}");
            assert!(error.hint().is_some());
        }
        let mut view = ViewOutput::new(&plan, [&changelog], &options).unwrap();
        let row = |watermark_us, x| Change {
            op: Op::Insert,
            watermark_us,
            closing: false,
            revision: 0,
            late_count: 0,
            window_us: None,
            group: [Value::BigInt(0), Value::BigInt(x)].into(),
            values: [Value::BigInt(x)].into(),
        };
        let _ = view.changes(&[row(BEFORE_ALL, 1), row(-1_000_000, 2)]).unwrap();
        let (_, counts) = view.finish(true).unwrap();
        assert_eq!(
            captured.text(),
            concat!(
                r#"{"op":"+I","watermark":null,"revision":0,"late_count":0,"x":1}"#,
                "\n",
                r#"{"op":"+I","watermark":"1969-12-31T23:59:59Z","revision":0,"late_count":0,"x":2}"#,
                "\n"
            )
        );
        assert_eq!(counts, WindowCounts::default());
    }

    #[test]
    fn a_closed_pipe_is_told_and_files_are_still_completed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("metrics.ndjson");
        let captured = Captured::new(10);
        let options = OutputOptions { stdout: captured.handle(), ..OutputOptions::default() };
        let sinks = [
            sink(SinkMode::Changelog, SinkTarget::Stdout(None)),
            sink(SinkMode::Metrics, SinkTarget::File(path.to_str().unwrap().into(), SinkFormat::Ndjson)),
        ];
        let mut view = ViewOutput::new(&plan(None), &sinks, &options).unwrap();
        assert_eq!(view.changes(&[change(Op::Insert, MINUTE, 0, 0, 0, "a", 1)]).unwrap(), Flow::Closed);
        let (flow, _) = view.finish(false).unwrap();
        assert_eq!(flow, Flow::Closed);
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 1);
    }

    #[test]
    fn names_that_clash_are_refused() {
        let mut plan = plan(None);
        plan.output[3].0 = "revision".into();
        let (_, options, changelog) = stdout(SinkMode::Changelog, SinkFormat::Ndjson);
        let error = ViewOutput::new(&plan, [&changelog], &options).err().unwrap();
        assert_eq!(error.to_string(), "two columns of the output are called \"revision\"");
    }
}
