//! The outputs of a `run`: what worker 0 gives, written where the program says.
//!
//! The end has two halves ([`RunOutput`]): [`RunOutput::prepare`] has everything written, the summary too, and
//! [`RunOutput::complete`] gives the files their names in one go, the summary last.

use crate::engine::ingest::{TooLate, ViewIngest};
use crate::engine::output::{Ending, Flow, Reject, RunOutput, TableEnding};
use crate::error::{Error, Result};
use crate::plan::{OnError, Program, SinkPlan, SinkTarget};
use crate::sink::Op;
use crate::sink::block::ChangeRun;
use crate::sink::file::Prepared;
use crate::sink::late::{LateEncoder, LateRow};
use crate::sink::rejects::{FirstRejects, RejectEncoder, RejectRow};
use crate::sink::rows::OutputOptions;
use crate::sink::spool::Spool;
use crate::sink::summary::{
    DelaySummary, Lags, Physical, RunSummary, SourceSummary, SummaryFile, ViewSummary, grouped,
};
use crate::sink::target::{PROCESS, of_process};
use crate::sink::view::ViewOutput;
use crate::source::Source;
use crate::types::DataType;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// What is left after a run, for the last lines on stderr.
#[derive(Debug, Default)]
pub struct Left {
    /// The summary, once everything else is written.
    pub summary: Option<RunSummary>,
    /// Rejects to show.
    pub rejects: Vec<String>,
    /// Whether the reader of stdout went away.
    pub closed: bool,
}

struct LateFile {
    spool: Spool,
    encoder: LateEncoder,
}

struct RejectFile {
    spool: Spool,
    encoder: RejectEncoder,
}

struct TableOutput {
    rejects: Option<RejectFile>,
    first: FirstRejects,
    on_error: OnError,
    /// Files by lane.
    files: Vec<Vec<String>>,
    lanes: Vec<String>,
    name: String,
}

struct OneView {
    output: Option<ViewOutput>,
    late: Option<LateFile>,
    lags: Lags,
    correctable: Correctable,
}

/// Where else a run writes than the program says, and how.
pub struct Settings<'a> {
    /// How sinks reach the outside.
    pub options: OutputOptions,
    /// The file for the summary.
    pub summary: Option<&'a Path>,
    /// When the run began.
    pub begun: Instant,
}

/// Published (key, window) pairs that may still be corrected, counted at every watermark step: a function of the changelog.
#[derive(Default)]
struct Correctable {
    horizon_us: i64,
    by_end: BTreeMap<i64, u64>,
    now: u64,
    max: u64,
}

impl Correctable {
    fn take(&mut self, changes: &ChangeRun) {
        let mut step = None;
        for (block, row) in changes.rows() {
            let head = block.head(row);
            let at = Some(block.at.get(row));
            if step != at {
                self.max = self.max.max(self.now);
                self.forget(head.watermark_us);
                step = at;
            }
            let Some((_, end)) = head.window_us else { continue };
            match head.op {
                Op::Insert => {
                    *self.by_end.entry(end).or_default() += 1;
                    self.now += 1;
                }
                Op::Delete => {
                    let pairs = self.by_end.entry(end).or_default();
                    (*pairs, self.now) = (pairs.saturating_sub(1), self.now.saturating_sub(1));
                }
                Op::UpdateBefore | Op::UpdateAfter => {}
            }
        }
        self.max = self.max.max(self.now);
    }

    fn forget(&mut self, watermark_us: i64) {
        let beyond = |end: i64| end.saturating_add(self.horizon_us) < watermark_us;
        while let Some(entry) = self.by_end.first_entry().filter(|entry| beyond(*entry.key())) {
            self.now -= entry.remove();
        }
    }
}

/// Which sinks of a program are written here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All; those of single processes as process 0's.
    Alone,
    /// Those that are written once, and everything else that is.
    Whole,
    /// Those that each process writes for its own keys.
    Process(usize),
}

impl Part {
    /// The sink as it is written here, if it is.
    fn sink(self, sink: &SinkPlan) -> Option<SinkPlan> {
        let SinkTarget::File(path, format) = &sink.target else {
            return (!matches!(self, Part::Process(_))).then(|| sink.clone());
        };
        let process = match (self, path.contains(PROCESS)) {
            (Part::Alone, _) => 0,
            (Part::Whole, false) => 0,
            (Part::Process(process), true) => process,
            (Part::Whole, true) | (Part::Process(_), false) => return None,
        };
        let target = SinkTarget::File(of_process(path, process), *format);
        Some(SinkPlan { target, ..sink.clone() })
    }
}

/// All outputs of a program.
pub struct Outputs {
    program: Arc<Program>,
    views: Vec<OneView>,
    tables: Vec<TableOutput>,
    /// Whether files are written as well: they must come whole, also when nobody reads stdout any more.
    files: bool,
    left: Arc<Mutex<Left>>,
    summary: Option<SummaryFile>,
    begun: Instant,
    /// In the order in which they get their names.
    prepared: Vec<Prepared>,
}

impl Outputs {
    /// Opens the sinks of the program that are written here.
    pub fn open(
        program: &Arc<Program>,
        sources: &[Arc<dyn Source>],
        settings: &Settings<'_>,
        part: Part,
    ) -> Result<(Outputs, Arc<Mutex<Left>>)> {
        let options = &settings.options;
        let left = Arc::new(Mutex::new(Left::default()));
        let mut views = Vec::new();
        let once = !matches!(part, Part::Process(_));
        for (v, view) in program.views.iter().enumerate() {
            let sinks: Vec<SinkPlan> =
                program.sinks.iter().filter(|s| s.view == v).filter_map(|s| part.sink(s)).collect();
            let output = ViewOutput::new(view, &sinks, options)?;
            let late =
                view.late.as_ref().filter(|_| once).map(|path| late_file(program, v, path, options)).transpose()?;
            let correctable = Correctable { horizon_us: view.horizon_us.unwrap_or(0), ..Correctable::default() };
            views.push(OneView { output: Some(output), late, lags: Lags::default(), correctable });
        }
        let mut tables = Vec::new();
        for (table, source) in program.tables.iter().zip(sources) {
            let open = |path: &String| -> Result<RejectFile> {
                let encoder = RejectEncoder::new(path);
                Ok(RejectFile { spool: Spool::create(path, &encoder.header(), &options.wait)?, encoder })
            };
            tables.push(TableOutput {
                rejects: table.rejects.as_ref().filter(|_| once).map(open).transpose()?,
                first: FirstRejects::default(),
                on_error: table.on_error,
                files: source.lanes().iter().map(|l| l.files.clone()).collect(),
                lanes: source.lanes().iter().map(|l| l.name.clone()).collect(),
                name: table.name.clone(),
            });
        }
        let files = program.sinks.iter().any(|s| matches!(s.target, SinkTarget::File(..)))
            || views.iter().any(|v| v.late.is_some())
            || tables.iter().any(|t| t.rejects.is_some());
        let summary =
            settings.summary.filter(|_| once).map(|path| SummaryFile::open(path, &options.wait)).transpose()?;
        let outputs = Outputs {
            program: Arc::clone(program),
            views,
            tables,
            files,
            left: Arc::clone(&left),
            summary,
            begun: settings.begun,
            prepared: Vec::new(),
        };
        Ok((outputs, left))
    }
}

fn late_file(program: &Program, view: usize, path: &str, options: &OutputOptions) -> Result<LateFile> {
    let columns = late_columns(program, view);
    let encoder = LateEncoder::new(path, &columns);
    Ok(LateFile { spool: Spool::create(path, &encoder.header(), &options.wait)?, encoder })
}

/// The table columns that a view references, with their types.
fn late_columns(program: &Program, view: usize) -> Vec<(String, DataType)> {
    let Some(view) = program.views.get(view) else { return Vec::new() };
    let Some(table) = program.tables.get(view.table) else { return Vec::new() };
    let ingest = ViewIngest::new(view, table);
    ingest.used().iter().filter_map(|c| table.columns.get(*c)).map(|c| (c.name.clone(), c.dtype.clone())).collect()
}

impl Outputs {
    /// Notes that stdout was closed. The run ends early only if there is nothing else to write.
    fn go_on(&self, flow: Flow) -> Flow {
        if flow == Flow::Closed {
            self.left.lock().unwrap_or_else(std::sync::PoisonError::into_inner).closed = true;
        }
        if self.files { Flow::Open } else { flow }
    }
}

impl TableOutput {
    /// `orders.ndjson:812`.
    fn place(&self, reject: &Reject) -> String {
        let lane = reject.lane as usize;
        let file = self.files.get(lane).and_then(|f| f.get(reject.file as usize)).or_else(|| self.lanes.get(lane));
        format!("{}:{}", file.map_or("", String::as_str), reject.line)
    }
}

impl RunOutput for Outputs {
    fn publish(&mut self, view: usize, changes: ChangeRun) -> Result<Flow> {
        let Some(view) = self.views.get_mut(view) else { return Ok(Flow::Open) };
        let Some(output) = &mut view.output else { return Ok(Flow::Open) };
        view.correctable.take(&changes);
        let flow = output.publish(&changes)?;
        Ok(self.go_on(flow))
    }

    fn advance(&mut self, view: usize, watermark_us: i64) -> Result<()> {
        if let Some(output) = self.views.get_mut(view).and_then(|v| v.output.as_mut()) {
            let flow = output.advance(watermark_us)?;
            let _ = self.go_on(flow);
        }
        Ok(())
    }

    fn lags(&mut self, view: usize, lags_us: &[i64]) {
        if let Some(view) = self.views.get_mut(view) {
            lags_us.iter().for_each(|lag| view.lags.record(*lag));
        }
    }

    fn too_late(&mut self, view: usize, rows: Vec<TooLate>) -> Result<()> {
        let Some(view) = self.views.get_mut(view) else { return Ok(()) };
        let Some(late) = &mut view.late else { return Ok(()) };
        for rows in rows.chunk_by(|a, b| a.partition == b.partition) {
            let Some(first) = rows.first() else { continue };
            let mut text = String::new();
            let partition = &first.partition_name;
            for row in rows {
                let row = LateRow {
                    partition,
                    position: row.position,
                    event_time_us: row.event_time_us,
                    stamp_us: row.stamp_us,
                    window_us: row.window_us,
                    lag_us: row.lag_us,
                    values: &row.columns,
                };
                late.encoder.encode(&row, &mut text);
            }
            late.spool.add(first.partition, first.position, text.as_bytes())?;
        }
        Ok(())
    }

    fn rejects(&mut self, table: usize, rejects: Vec<Reject>) -> Result<()> {
        let Some(table) = self.tables.get_mut(table) else { return Ok(()) };
        for same in rejects.chunk_by(|a, b| (a.partition, a.position) == (b.partition, b.position)) {
            let Some(first) = same.first() else { continue };
            // Records whose partition could not be read stand with the first partition's.
            let order = first.partition.unwrap_or(0);
            let mut text = String::new();
            for reject in same {
                let place = table.place(reject);
                let view = reject.view.and_then(|v| self.program.views.get(v as usize));
                let detail = match view.and_then(|v| v.name.as_ref()) {
                    Some(view) => format!("{} (view {view})", reject.detail),
                    None => reject.detail.clone(),
                };
                if table.on_error == OnError::Fail {
                    let hint = "on_error = 'fail' ends the run at the first reject";
                    return Err(Error::input(detail).at(place).with_hint(hint));
                }
                table.first.offer(order, reject.position, &place, &detail);
                if let Some(file) = &table.rejects {
                    let row = RejectRow {
                        place: &place,
                        partition: reject.partition_name.as_deref(),
                        position: reject.position,
                        reason: reject.reason,
                        detail: &detail,
                        raw: Some(reject.raw.as_slice()),
                    };
                    file.encoder.encode(&row, &mut text);
                }
            }
            if let Some(file) = &mut table.rejects {
                file.spool.add(order, first.position, text.as_bytes())?;
            }
        }
        Ok(())
    }

    fn prepare(&mut self, ending: Ending) -> Result<()> {
        let (views, flow) = self.prepare_views(&ending)?;
        let mut rejects = Vec::new();
        for table in &mut self.tables {
            if let Some(file) = table.rejects.take() {
                self.prepared.push(file.spool.prepare()?);
            }
            let lines = table.first.lines();
            if !lines.is_empty() {
                rejects.push(format!("{}: {} rejected", table.name, grouped(table.first.total())));
                rejects.extend(lines);
            }
        }
        let mut left = self.left.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        left.rejects = rejects;
        left.closed |= flow == Flow::Closed;
        let records = ending.tables.iter().map(|table| table.records).sum();
        let closed = left.closed;
        let summary = left.summary.insert(RunSummary {
            complete: ending.complete,
            closed,
            records,
            sources: self
                .program
                .tables
                .iter()
                .zip(&ending.tables)
                .map(|(plan, table)| source(&plan.name, table))
                .collect(),
            views,
            physical: Physical::measure(records, self.begun.elapsed().as_secs_f64(), ending.exchanged_bytes),
        });
        if let Some(file) = self.summary.take() {
            self.prepared.push(file.prepare(summary)?);
        }
        Ok(())
    }

    fn complete(&mut self) -> Result<()> {
        self.prepared.drain(..).try_for_each(|output| output.complete().map(drop))
    }
}

impl Outputs {
    /// Has views and late outputs write their rest; says what there is to say of the views, and whether all are read.
    fn prepare_views(&mut self, ending: &Ending) -> Result<(Vec<ViewSummary>, Flow)> {
        let mut flow = Flow::Open;
        let mut views = Vec::new();
        for (v, view) in self.views.iter_mut().enumerate() {
            let Some(output) = view.output.take() else { continue };
            let output = output.prepare(ending.complete)?;
            flow = flow.and(output.flow);
            self.prepared.extend(output.sinks);
            if let Some(late) = view.late.take() {
                self.prepared.push(late.spool.prepare()?);
            }
            views.push(ViewSummary {
                name: self.program.views.get(v).and_then(|v| v.name.clone()),
                ledger: ending.ledgers.get(v).cloned().unwrap_or_default(),
                windows: output.counts,
                state_pairs_max: view.correctable.max,
                late_lag: view.lags.summary(),
            });
        }
        Ok((views, flow))
    }
}

/// What there is to say of a source.
fn source(name: &str, ending: &TableEnding) -> SourceSummary {
    let holder = ending.holder.and_then(|h| ending.partitions.get(h)).map(String::as_str);
    let newest = ending.newest_event_us.unwrap_or(i64::MIN);
    let mut source = SourceSummary::new(name, ending.records, ending.watermark_us, newest, holder);
    for (name, watermark) in ending.partitions.iter().zip(&ending.partition_watermarks_us) {
        source.partition(name, *watermark);
    }
    source.delay = ending.delays.mean_us().map(|mean_us| DelaySummary { mean_us, max_us: ending.delays.max_us });
    source
}
