//! `slackwater lateness`: what every delay and horizon of a grid would have given.

use super::cluster::{self, Agreed, ClusterArgs};
use super::progress::ProgressLine;
use super::run::{catch_signals, now, open_sources, say};
use super::{ProgramArgs, exit, print_out, supervise};
use crate::cluster::ClusterConfig;
use crate::dataflow::{self, RunOptions, Stopped};
use crate::engine::ingest::TooLate;
use crate::engine::output::{Ending, Flow, Reject, RunOutput};
use crate::error::{Error, Result};
use crate::lab::plan::{HINT, LabSet, LabSettings};
use crate::lab::recommend::condition::{self, Condition};
use crate::lab::report::Report;
use crate::lab::{files, grid, page, show};
use crate::plan::{OnError, TablePlan};
use crate::sink::block::ChangeRun;
use crate::sink::file::{PipeWait, Prepared};
use crate::sink::summary::grouped;
use crate::sink::target::Output;
use crate::source::{Source, SourceOptions};
use crate::watermark::policy::{PolicyError, PolicyPlan};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What result latencies are measured in.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LatencyIn {
    /// Arrival time: needs a table with `arrival_time`.
    Arrival,
    /// Event time: the newest event seen by then.
    Event,
}

impl LatencyIn {
    fn name(self) -> &'static str {
        match self {
            LatencyIn::Arrival => "arrival",
            LatencyIn::Event => "event",
        }
    }
}

/// Arguments of `slackwater lateness`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  slackwater lateness query.sql --delays 0s,1s,5s,30s --horizons none,0s,1m
  slackwater lateness query.sql --view per_minute --delays 0s..5m/20 --out report

Each cell is exactly what `run` gives with that delay and horizon. docs/lateness.md defines the figures.

Exit status: 0 success · 1 the pass failed · 2 wrong query, setting or arguments · 4 another process failed · 130 interrupted")]
pub struct LatenessArgs {
    #[command(flatten)]
    program: ProgramArgs,
    /// The view [default: the only one with windows].
    #[arg(long, value_name = "NAME")]
    view: Option<String>,
    /// Delays: durations with commas between them, or FROM..TO/STEPS.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    delays: String,
    /// Horizons: as delays; `none` drops all late records [default: none, and the view's own].
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    horizons: Option<String>,
    /// A watermark policy to hold beside the grid, such as 'quantile(0.99)'; may be given several times. 'keyed' or
    /// 'keyed(5s, 30s)' stands for a watermark of each key.
    #[arg(long = "policy", value_name = "TEXT")]
    policies: Vec<String>,
    /// Recommend the cheapest setting with which this holds, such as 'completeness >= 99.5%', 'first_result_error <= 0.5%' or
    /// 'p99_latency <= 30s'; several with commas between them, or given several times.
    #[arg(long, value_name = "CONDITION")]
    recommend: Vec<String>,
    /// Hold results against those of all records, however late, instead of the greatest delay and horizon. Keeps every window
    /// in memory.
    #[arg(long)]
    truth: bool,
    /// What result latencies are measured in [default: arrival time if the table has it].
    #[arg(long, value_enum)]
    latency: Option<LatencyIn>,
    /// Directory for report.html, frontier.svg, report.json, grid.csv and lags.csv; made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Worker threads, of each process. No figure depends on it.
    #[arg(short = 'w', long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Print neither progress nor the summary line.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Bytes of input decoded at a time. No figure depends on it.
    #[arg(long, default_value_t = 1 << 20, value_name = "BYTES", hide_short_help = true)]
    block_bytes: usize,
}

impl LatenessArgs {
    fn lab(&self) -> Result<LabSettings> {
        let wrong = |flag: &'static str| move |message| Error::usage(format!("{flag}: {message}")).with_hint(HINT);
        Ok(LabSettings {
            view: self.view.clone(),
            delays_us: grid::parse_delays(&self.delays).map_err(wrong("--delays"))?,
            horizons_us: self.horizons.as_deref().map(grid::parse_horizons).transpose().map_err(wrong("--horizons"))?,
            unbounded: self.truth,
            arrival: self.latency.map(|latency| matches!(latency, LatencyIn::Arrival)),
            policies: self
                .policies
                .iter()
                .filter(|text| !is_keyed(text))
                .map(|text| policy(text))
                .collect::<Result<_>>()?,
            keyed_us: self.keyed()?,
            recommend: self.conditions()?,
        })
    }

    fn conditions(&self) -> Result<Vec<Condition>> {
        let mut out = Vec::new();
        for text in &self.recommend {
            let wrong = |(message, hint)| Error::usage(format!("--recommend: {message}")).with_hint(hint);
            out.extend(condition::parse(text).map_err(wrong)?);
        }
        Ok(out)
    }

    /// Delays of keyed watermarks; none are those of the grid.
    fn keyed(&self) -> Result<Option<Vec<i64>>> {
        let mut texts = self.policies.iter().filter(|text| is_keyed(text));
        let Some(text) = texts.next() else { return Ok(None) };
        let wrong = |message: String, hint: &str| {
            Err(Error::usage(format!("--policy keyed: {message}")).with_hint(hint.to_owned()))
        };
        const WRITE: &str = "write 'keyed' for the grid's delays, or 'keyed(5s, 30s)'";
        if texts.next().is_some() {
            return wrong("expected it once".to_owned(), "several delays have commas between them: 'keyed(5s, 30s)'");
        }
        let rest = text.trim().get("keyed".len()..).unwrap_or("").trim();
        let inner = match rest.strip_prefix('(').map(|inner| inner.strip_suffix(')')) {
            None if rest.is_empty() => return Ok(Some(Vec::new())),
            Some(Some(inner)) => inner.trim(),
            _ => return wrong(format!("expected delays in parentheses, found '{rest}'"), WRITE),
        };
        match grid::parse_delays(inner) {
            _ if inner.is_empty() => Ok(Some(Vec::new())),
            Ok(delays_us) => Ok(Some(delays_us)),
            Err(message) => wrong(message, WRITE),
        }
    }

    /// Settings that must be the same on all processes, by name.
    fn settings(&self) -> Vec<(String, String)> {
        let text = |value: Option<&str>| value.unwrap_or("none").to_owned();
        vec![
            ("command".to_owned(), "lateness".to_owned()),
            ("--view".to_owned(), text(self.view.as_deref())),
            ("--delays".to_owned(), self.delays.clone()),
            ("--horizons".to_owned(), text(self.horizons.as_deref())),
            ("--horizon".to_owned(), text(self.program.horizon.as_deref())),
            ("--policy".to_owned(), self.policies.join("; ")),
            ("--recommend".to_owned(), self.recommend.join("; ")),
            ("--truth".to_owned(), self.truth.to_string()),
            ("--latency".to_owned(), text(self.latency.map(LatencyIn::name))),
            ("--block-bytes".to_owned(), self.block_bytes.to_string()),
            ("feature parquet".to_owned(), cfg!(feature = "parquet").to_string()),
        ]
    }
}

/// Whether a policy is that of keyed watermarks, which only the lab has.
fn is_keyed(text: &str) -> bool {
    let name = text.trim().split(|c: char| c == '(' || c.is_whitespace()).next().unwrap_or("");
    name.eq_ignore_ascii_case("keyed")
}

fn policy(text: &str) -> Result<PolicyPlan> {
    let parsed = PolicyPlan::parse(text).map_err(|PolicyError { message, hint }| {
        let error = Error::usage(format!("--policy: {message}"));
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    })?;
    parsed.ok_or_else(|| {
        Error::usage("--policy: expected a policy that adapts, found 'fixed'").with_hint("fixed delays are in --delays")
    })
}

/// Runs the command.
pub(super) fn run(args: &LatenessArgs) -> Result<u8> {
    if let Some(flag) = args.cluster.several() {
        args.program.refuse_stdin(flag)?;
    }
    let program = args.program.plan()?;
    let plan = Arc::new(LabSet::new(&program, &args.lab()?)?);
    let stop = Arc::new(AtomicBool::new(false));
    if let Some(processes) = args.cluster.local_processes() {
        let _ = catch_signals(&stop)?;
        return supervise::run(processes, &stop);
    }
    supervise::die_with_parent();
    let config = args.cluster.config(usize::from(args.workers))?;
    if config.as_ref().is_none_or(|c| c.process == 0) {
        plan.program.warnings.iter().for_each(|warning| say(&format!("warning: {warning}\n")));
    }
    execute(args, &plan, config, stop)
}

fn execute(
    args: &LatenessArgs,
    plan: &Arc<LabSet>,
    config: Option<ClusterConfig>,
    stop: Arc<AtomicBool>,
) -> Result<u8> {
    let threads = usize::from(args.workers);
    let (process, processes) = config.as_ref().map_or((0, 1), |c| (c.process, c.processes));
    let block_bytes = args.block_bytes.clamp(64, 1 << 30);
    let source_options = SourceOptions { block_bytes, workers: threads * processes };
    // The others take the files from process 0.
    let mut sources = if process == 0 { open_sources(&plan.reading, &source_options)? } else { Vec::new() };
    let begun = now();
    let interrupted = catch_signals(&stop)?;
    let mut mesh = None;
    if let Some(config) = &config {
        let agreed = Agreed { text: args.program.text()?.1, settings: args.settings(), quiet: args.quiet };
        let Some(joined) = cluster::join(agreed, &plan.reading, &source_options, config, sources, &stop)? else {
            return Ok(exit::INTERRUPTED);
        };
        (mesh, sources) = (Some(joined.mesh), joined.sources);
    }
    let options = RunOptions { workers: threads, stop, lab: plan.plans.clone(), ..RunOptions::default() };
    let found = Found::default();
    let wait = PipeWait::until(&interrupted);
    let output = if process == 0 {
        let opened = LabOutput::open(plan, &sources, args.out.as_deref(), &wait, &found);
        match (opened, mesh.take()) {
            (Ok(output), joined) => {
                mesh = joined;
                Some(boxed(output))
            }
            // The others are about to read.
            (Err(error), Some(mesh)) => {
                return Err(dataflow::fail_cluster(Arc::clone(&plan.program), sources, &options, mesh, error));
            }
            (Err(error), None) => return Err(error),
        }
    } else {
        None
    };
    let bytes = sources.iter().flat_map(|s| s.lanes()).map(|l| l.bytes).sum::<Option<u64>>();
    let line = ProgressLine::start(Arc::clone(&options.progress), bytes, !args.quiet && process == 0);
    let program = Arc::clone(&plan.program);
    let result = match (mesh, output) {
        (None, Some(output)) => dataflow::run(program, sources, &options, output)
            .map(|complete| dataflow::Ended { complete, ..dataflow::Ended::default() }),
        (None, None) => Ok(dataflow::Ended::default()),
        (Some(mesh), output) => dataflow::run_cluster(program, sources, &options, mesh, output, None),
    };
    drop(line);
    let ended = result?;
    if interrupted.load(Ordering::SeqCst) || ended.stopped == Some(Stopped::Interrupted) {
        return Ok(exit::INTERRUPTED);
    }
    let found = found.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(report) = found.as_ref() {
        print_out(&show::show(report))?;
        if !args.quiet {
            let (records, seconds) = (grouped(report.records.read), begun.elapsed().as_secs_f64());
            let rejected = grouped(report.records.rejected);
            say(&format!("slackwater: {records} records in {seconds:.2} s · {rejected} rejected\n"));
        }
    }
    Ok(if ended.complete { exit::SUCCESS } else { exit::FAILURE })
}

fn boxed(output: LabOutput) -> Box<dyn RunOutput + Send> {
    Box::new(output)
}

type Found = Arc<Mutex<Option<Report>>>;

/// Takes what a pass finds.
struct LabOutput {
    plan: Arc<LabSet>,
    /// Names of the table's files, by lane.
    files: Vec<Vec<String>>,
    outputs: Vec<(File, Output)>,
    prepared: Vec<Prepared>,
    found: Found,
    /// Where the grid goes as Parquet.
    #[cfg(feature = "parquet")]
    parquet: Option<(PathBuf, PipeWait)>,
}

#[derive(Clone, Copy)]
enum File {
    Grid,
    Lags,
    Report,
    Page,
    Frontier,
}

const FILES: [(File, &str); 5] = [
    (File::Grid, "grid.csv"),
    (File::Lags, "lags.csv"),
    (File::Report, "report.json"),
    (File::Page, "report.html"),
    (File::Frontier, "frontier.svg"),
];

impl LabOutput {
    fn open(
        plan: &Arc<LabSet>,
        sources: &[Arc<dyn Source>],
        directory: Option<&Path>,
        wait: &PipeWait,
        found: &Found,
    ) -> Result<LabOutput> {
        let mut outputs = Vec::new();
        if let Some(directory) = directory {
            std::fs::create_dir_all(directory).map_err(|e| {
                Error::output("cannot make the directory").at(directory.display().to_string()).with_source(e)
            })?;
            for (file, name) in FILES {
                outputs.push((file, Output::file(directory.join(name), wait)?));
            }
        }
        let files = sources.iter().flat_map(|source| source.lanes()).map(|lane| lane.files.clone()).collect();
        Ok(LabOutput {
            plan: Arc::clone(plan),
            files,
            outputs,
            prepared: Vec::new(),
            found: Arc::clone(found),
            #[cfg(feature = "parquet")]
            parquet: directory.map(|directory| (directory.join("grid.parquet"), wait.clone())),
        })
    }
}

impl RunOutput for LabOutput {
    fn publish(&mut self, _view: usize, _changes: ChangeRun) -> Result<Flow> {
        Ok(Flow::Open)
    }
    fn advance(&mut self, _view: usize, _watermark_us: i64) -> Result<()> {
        Ok(())
    }
    fn too_late(&mut self, _view: usize, _rows: Vec<TooLate>) -> Result<()> {
        Ok(())
    }
    fn rejects(&mut self, _table: usize, rejects: Vec<Reject>) -> Result<()> {
        let fails = self.plan.program.tables.first().is_some_and(|table: &TablePlan| table.on_error == OnError::Fail);
        let Some(first) = rejects.first().filter(|_| fails) else { return Ok(()) };
        let file = self.files.get(first.lane as usize).and_then(|files| files.get(first.file as usize));
        Err(Error::input(first.detail.clone())
            .at(format!("{}:{}", file.map_or("", String::as_str), first.line))
            .with_hint("on_error = 'fail' ends the pass at the first reject"))
    }
    fn prepare(&mut self, ending: Ending) -> Result<()> {
        let report = Report::of_set(&self.plan, &ending).filter(|_| ending.complete);
        let Some(report) = report else { return Ok(()) };
        for (file, mut output) in self.outputs.drain(..) {
            let text = match file {
                File::Grid => files::grid_csv(&report),
                File::Lags => files::lags_csv(&report),
                File::Report => files::report_json(&report)
                    .map_err(|e| Error::output("cannot write the report as JSON").with_source(e))?,
                File::Page => page::html(&report),
                File::Frontier => page::frontier_svg(&report).unwrap_or_default(),
            };
            output.text().push_str(&text);
            self.prepared.push(output.prepare()?);
        }
        #[cfg(feature = "parquet")]
        if let Some((path, wait)) = &self.parquet {
            self.prepared.push(grid_parquet(&report, path, wait)?);
        }
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
        Ok(())
    }
    fn complete(&mut self) -> Result<()> {
        self.prepared.drain(..).try_for_each(|output| output.complete().map(drop))
    }
}

/// The grid's table as Parquet; a horizon that is none is NULL.
#[cfg(feature = "parquet")]
fn grid_parquet(report: &Report, path: &Path, wait: &PipeWait) -> Result<Prepared> {
    use crate::lab::files::Field;
    use crate::sink::cell::Cell;
    use crate::sink::parquet::ParquetWriter;
    use crate::sink::rows::RowWriter;
    use crate::types::Value;
    let columns = files::grid_columns(report);
    let mut writer = ParquetWriter::create(&path.to_string_lossy(), &columns, wait)?;
    let mut written = Ok(Flow::Open);
    files::grid_rows(report, |row| {
        let value = |field: &Field| match field {
            Field::Empty | Field::NoHorizon => Value::Null,
            Field::Number(n) => Value::BigInt(i64::try_from(*n).unwrap_or(i64::MAX)),
            Field::Ratio(x) => Value::Double(*x),
            Field::Text(text) => Value::Text(text.as_str().into()),
        };
        let values: Vec<Value> = row.iter().map(value).collect();
        if written.is_ok() {
            written = writer.cells(&values.iter().map(Cell::Value).collect::<Vec<_>>());
        }
    });
    let _ = written?;
    Box::new(writer).prepare()
}

#[cfg(all(test, feature = "parquet"))]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int64Type};
    use arrow_schema::DataType;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: LatenessArgs,
    }

    #[test]
    fn grid_parquet_holds_what_grid_csv_does() {
        let folder = tempfile::tempdir().expect("folder");
        let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/quakes");
        let sql = std::fs::read_to_string(format!("{examples}/quakes.sql")).expect("an example");
        let (program, out) = (folder.path().join("q.sql"), folder.path().join("r"));
        std::fs::write(&program, sql.replace("examples/quakes", examples)).expect("written");
        let (program, out_text) = (program.display().to_string(), out.display().to_string());
        let args = ["lateness", "-q", &program, "--delays", "0s,6h", "--policy", "quantile(0.9)", "--out", &out_text];
        assert_eq!(run(&Cli::parse_from(args).args).expect("a pass"), 0);
        let file = std::fs::File::open(out.join("grid.parquet")).expect("a file");
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet");
        let batches: Vec<_> = reader.build().expect("reader").map(|batch| batch.expect("a batch")).collect();
        let [batch] = &batches[..] else { panic!("{} batches", batches.len()) };
        let csv = std::fs::read_to_string(out.join("grid.csv")).expect("a file");
        let mut lines = csv.lines();
        let names: Vec<&str> = lines.next().expect("a head").split(',').collect();
        let schema = batch.schema();
        assert_eq!(schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), names);
        assert_eq!((batch.num_rows(), csv.lines().count()), (6, 7));
        for (row, line) in lines.enumerate() {
            let text = |column: usize| {
                let array = batch.column(column);
                match array.data_type() {
                    _ if array.is_null(row) => String::new(),
                    DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
                    DataType::Float64 => array.as_primitive::<Float64Type>().value(row).to_string(),
                    _ => array.as_string::<i32>().value(row).to_owned(),
                }
            };
            let fields: Vec<String> = (0..names.len()).map(text).collect();
            // The name of the policy has commas and is in quotes.
            let name = if fields[0].contains(',') { format!("\"{}\"", fields[0]) } else { fields[0].clone() };
            let line = line.replace("none", "");
            assert_eq!(line, [&[name], &fields[1..]].concat().join(","));
        }
    }
}
