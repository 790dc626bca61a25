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

use super::Flow;
use super::block::{ChangeRun, Head};
use super::cell::Cell;
use super::file::Prepared;
use super::rows::{Columns, OutputOptions, RowWriter, open};
use super::summary::WindowCounts;
use super::tables::Tables;
use crate::error::{Error, Result};
use crate::plan::{SinkMode, SinkPlan, ViewPlan};
use crate::types::DataType;
use crate::watermark::AFTER_ALL;

/// Writes everything that one view publishes.
pub struct ViewOutput {
    changelogs: Vec<Box<dyn RowWriter>>,
    tables: Option<Tables>,
    counts: WindowCounts,
    flow: Flow,
}

/// The outputs of a view of which everything is written.
#[derive(Debug)]
pub struct PreparedView {
    /// Its sinks, to be completed.
    pub sinks: Vec<Prepared>,
    /// Whether all are still read.
    pub flow: Flow,
    /// Windows and corrections.
    pub counts: WindowCounts,
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
        Ok(ViewOutput { changelogs, tables, counts: WindowCounts::default(), flow: Flow::Open })
    }

    /// Takes changes, whole watermark steps after those of earlier calls. Readers of standard output get them at once.
    ///
    /// # Errors
    /// When the bytes cannot be written.
    pub fn publish(&mut self, changes: &ChangeRun) -> Result<Flow> {
        let mut row_of_cells = Vec::new();
        let mut step = None;
        for (block, row) in changes.rows() {
            let head = block.head(row);
            self.counts.observe(head);
            let at = Some(block.at.get(row));
            if step != at {
                self.begin_step(head, step.is_none())?;
                step = at;
            }
            if !self.changelogs.is_empty() {
                row_of_cells.clear();
                row_of_cells.extend([
                    Cell::Word(head.op.name()),
                    Cell::time_or_null(head.watermark_us),
                    Cell::count(head.revision),
                    Cell::count(head.late_count),
                ]);
                row_of_cells.extend(Cell::row(&block.values, row));
                for writer in &mut self.changelogs {
                    self.flow = self.flow.and(writer.cells(&row_of_cells)?);
                }
            }
            if let Some(tables) = &mut self.tables {
                tables.apply(block, row, head);
            }
        }
        for writer in &mut self.changelogs {
            self.flow = self.flow.and(writer.flush()?);
        }
        Ok(self.flow)
    }

    /// A watermark step begins with this change. Rows that are final by then stand before it, also where a changelog and tables
    /// share standard output, however many steps come together.
    fn begin_step(&mut self, head: Head, first: bool) -> Result<()> {
        let reached_us = if head.closing { head.watermark_us.saturating_sub(1) } else { head.watermark_us };
        let tables = self.tables.as_mut().filter(|tables| tables.has_final(reached_us));
        for writer in &mut self.changelogs {
            self.flow = self.flow.and(match (&tables, first) {
                (Some(_), _) => writer.flush()?,
                (None, false) => writer.step()?,
                (None, true) => Flow::Open,
            });
        }
        if let Some(tables) = tables {
            self.flow = self.flow.and(tables.advance(reached_us)?);
        }
        Ok(())
    }

    /// The view's frontier has reached `frontier_us`, and every change before it has been given to [`ViewOutput::publish`]:
    /// what can no longer be corrected goes to the tables and is forgotten.
    ///
    /// # Errors
    /// When the bytes cannot be written.
    pub fn advance(&mut self, frontier_us: i64) -> Result<Flow> {
        if let Some(tables) = &mut self.tables {
            self.flow = self.flow.and(tables.advance(frontier_us)?);
        }
        Ok(self.flow)
    }

    /// Rows of tables that wait for their window to become final.
    pub fn rows_held(&self) -> usize {
        self.tables.as_ref().map_or(0, Tables::rows_held)
    }

    /// Windows and corrections so far.
    pub fn counts(&self) -> &WindowCounts {
        &self.counts
    }

    /// Writes the rest of every sink; files have yet to get their names. A run that was interrupted (`complete: false`) has
    /// published only what is final, and its tables hold the latest rows of that.
    ///
    /// # Errors
    /// When the bytes cannot be written or a file could not be renamed.
    pub fn prepare(mut self, complete: bool) -> Result<PreparedView> {
        let _ = self.advance(AFTER_ALL)?;
        debug_assert!(!complete || self.rows_held() == 0);
        let tables = self.tables.into_iter().flat_map(|t| t.metrics.into_iter().chain(t.backfills));
        let sinks: Vec<Prepared> =
            self.changelogs.into_iter().chain(tables).map(RowWriter::prepare).collect::<Result<_>>()?;
        let flow = sinks.iter().fold(self.flow, |flow, sink| flow.and(sink.flow()));
        Ok(PreparedView { sinks, flow, counts: self.counts })
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

#[cfg(test)]
mod tests {
    use super::super::file::tests::names;
    use super::super::target::tests::Captured;
    use super::super::{Change, Op};
    use super::*;
    use crate::expr::Expr;
    use crate::plan::{SinkFormat, SinkTarget, ViewKind, WindowPlan, WindowedPlan};
    use crate::types::Value;
    use crate::watermark::BEFORE_ALL;

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
                first_stamp: false,
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

    fn finish(view: ViewOutput, complete: bool) -> (Flow, WindowCounts) {
        let prepared = view.prepare(complete).unwrap();
        prepared.sinks.into_iter().for_each(|sink| assert!(sink.complete().is_ok()));
        (prepared.flow, prepared.counts)
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
            assert_eq!(view.publish(&ChangeRun::of(step)).unwrap(), Flow::Open);
            assert_eq!(captured.text(), expected[..=i].concat());
        }
        assert_eq!(view.rows_held(), 0);
        let (flow, counts) = finish(view, true);
        assert_eq!(flow, Flow::Open);
        assert_eq!(captured.text(), expected.concat());
        assert_eq!(counts, WindowCounts { published: 2, corrections: 1, corrected: 1, revisions: vec![2, 1] });
    }

    /// How many steps come together is a matter of timing, and does not show: neither in the widths of a table nor in the order
    /// in which sinks take turns.
    #[test]
    fn steps_that_come_together_are_written_like_single_ones() {
        let step = |minute: i64| {
            let key = "k".repeat(1 + minute as usize % 7);
            vec![
                change(Op::Insert, (minute + 1) * MINUTE, 0, 0, minute, "a", 10_i64.pow(minute as u32)),
                change(Op::Insert, (minute + 1) * MINUTE, 0, 0, minute, &key, 1),
            ]
        };
        let written = |format: SinkFormat, modes: &[SinkMode], together: usize| {
            let (captured, options, first) = stdout(SinkMode::Changelog, format);
            let sinks: Vec<SinkPlan> = modes.iter().map(|mode| SinkPlan { mode: *mode, ..first.clone() }).collect();
            let mut view = ViewOutput::new(&plan(Some(MINUTE)), &sinks, &options).unwrap();
            for minutes in (0..12).collect::<Vec<i64>>().chunks(together) {
                let changes: Vec<Change> = minutes.iter().flat_map(|minute| step(*minute)).collect();
                let _ = view.publish(&ChangeRun::of(&changes)).unwrap();
                let _ = view.advance((minutes.last().unwrap() + 1) * MINUTE).unwrap();
            }
            let _ = finish(view, true);
            captured.text()
        };
        let (changelog, metrics) = (SinkMode::Changelog, SinkMode::Metrics);
        for modes in [&[changelog][..], &[metrics], &[changelog, metrics], &[metrics, changelog, metrics]] {
            for format in [SinkFormat::Table, SinkFormat::Ndjson, SinkFormat::Csv] {
                let single = written(format, modes, 1);
                for together in [2, 5, 12] {
                    assert_eq!(written(format, modes, together), single, "{modes:?}, {format:?}, {together} together");
                }
            }
        }
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
            assert_eq!(view.publish(&ChangeRun::of(&step)).unwrap(), Flow::Open);
        }
        assert_eq!(names(directory.path()).iter().filter(|n| !n.starts_with('.')).count(), 0);
        let _ = finish(view, true);
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
            .publish(&ChangeRun::of(&[
                change(Op::Insert, MINUTE, 0, 0, 0, "a", 1),
                change(Op::Insert, MINUTE, 0, 0, 0, "b", 1),
            ]))
            .unwrap();
        let _ = view.advance(MINUTE + 10).unwrap();
        assert_eq!((view.rows_held(), rows(&captured)), (2, 0));
        // A record stamped `end + horizon` is still accepted.
        let _ = view
            .publish(&ChangeRun::of(&[
                change(Op::UpdateBefore, MINUTE + 10, 0, 0, 0, "b", 1),
                change(Op::UpdateAfter, MINUTE + 10, 1, 1, 0, "b", 2),
                // The first result of a window whose records are all late.
                change(Op::Insert, MINUTE + 10, 0, 1, 0, "c", 7),
            ]))
            .unwrap();
        let _ = view.advance(MINUTE + 11).unwrap();
        assert_eq!((view.rows_held(), rows(&captured)), (0, 3));
        let window = "1970-01-01T00:00:00Z,1970-01-01T00:01:00Z";
        assert_eq!(captured.text(), format!("{header}{window},a,1,0,0\n{window},b,2,1,1\n{window},c,7,1,0\n"));
        let (_, counts) = finish(view, true);
        assert_eq!((counts.published, counts.corrections, counts.corrected), (3, 2, 2));
    }

    #[test]
    fn without_a_horizon_rows_are_final_at_closing() {
        let (captured, options, sink) = stdout(SinkMode::Metrics, SinkFormat::Ndjson);
        let mut view = ViewOutput::new(&plan(None), [&sink], &options).unwrap();
        let _ = view.publish(&ChangeRun::of(&[change(Op::Insert, MINUTE, 0, 0, 0, "a", 1)])).unwrap();
        let _ = view.advance(MINUTE - 1).unwrap();
        assert_eq!(view.rows_held(), 1);
        let _ = view.advance(MINUTE).unwrap();
        assert_eq!((view.rows_held(), captured.text().lines().count()), (0, 1));
    }

    #[test]
    fn an_infinite_horizon_ends_with_the_input() {
        let (captured, options, sink) = stdout(SinkMode::Metrics, SinkFormat::Ndjson);
        let mut view = ViewOutput::new(&plan(Some(i64::MAX)), [&sink], &options).unwrap();
        let _ = view.publish(&ChangeRun::of(&[change(Op::Insert, MINUTE, 0, 0, 0, "a", 1)])).unwrap();
        let _ = view.advance(i64::MAX - 1).unwrap();
        assert_eq!((view.rows_held(), captured.text().lines().count()), (1, 0));
        let _ = finish(view, true);
        assert_eq!(captured.text().lines().count(), 1);
    }

    /// `HAVING`: a row that leaves is in neither table; if it comes back, the very first values stay the first.
    #[test]
    fn a_deleted_row_leaves_both_tables() {
        for comes_back in [false, true] {
            let (captured, options, metrics) = stdout(SinkMode::Metrics, SinkFormat::Csv);
            let backfills = sink(SinkMode::Backfills, SinkTarget::Stdout(Some(SinkFormat::Csv)));
            let mut view = ViewOutput::new(&plan(Some(MINUTE)), [&metrics, &backfills], &options).unwrap();
            let _ = view.publish(&ChangeRun::of(&[change(Op::Insert, MINUTE, 0, 0, 0, "a", 3)])).unwrap();
            let _ = view.publish(&ChangeRun::of(&[change(Op::Delete, MINUTE + 1_000_000, 0, 0, 0, "a", 3)])).unwrap();
            if comes_back {
                let _ =
                    view.publish(&ChangeRun::of(&[change(Op::Insert, MINUTE + 2_000_000, 1, 2, 0, "a", 9)])).unwrap();
                let _ = view.publish(&ChangeRun::of(&[
                    change(Op::UpdateBefore, MINUTE + 3_000_000, 1, 2, 0, "a", 9),
                    change(Op::UpdateAfter, MINUTE + 3_000_000, 2, 3, 0, "a", 10),
                ]));
            }
            let (_, counts) = finish(view, true);
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
        let _ = view.publish(&ChangeRun::of(&[change(Op::Insert, MINUTE + 5_000_000, 0, 1, 0, "a", 1)])).unwrap();
        let _ = finish(view, true);
        assert_eq!(
            captured.text().lines().nth(1).unwrap(),
            "1970-01-01T00:00:00Z,1970-01-01T00:01:00Z,a,1,1970-01-01T00:01:05Z,1970-01-01T00:01:05Z,1,1,minor"
        );
    }

    #[test]
    fn tables_stand_by_window_end_then_group() {
        let (captured, options, sink) = stdout(SinkMode::Metrics, SinkFormat::Csv);
        let mut view = ViewOutput::new(&plan(Some(10 * MINUTE)), [&sink], &options).unwrap();
        let _ = view.publish(&ChangeRun::of(&[change(Op::Insert, MINUTE, 0, 0, 0, "b", 1)])).unwrap();
        let _ = view.publish(&ChangeRun::of(&[change(Op::Insert, 2 * MINUTE, 0, 0, 1, "a", 1)])).unwrap();
        let _ = view.publish(&ChangeRun::of(&[change(Op::Insert, 2 * MINUTE + 5, 0, 1, 0, "a", 1)])).unwrap();
        // Interrupted: what was published is written.
        let _ = finish(view, false);
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
        let _ = view.publish(&ChangeRun::of(&[row(BEFORE_ALL, 1), row(-1_000_000, 2)])).unwrap();
        let (_, counts) = finish(view, true);
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
        assert_eq!(view.publish(&ChangeRun::of(&[change(Op::Insert, MINUTE, 0, 0, 0, "a", 1)])).unwrap(), Flow::Closed);
        let (flow, _) = finish(view, false);
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
