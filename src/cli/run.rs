//! `slackwater run`: a program to the end of its input.

use super::cluster::{self, Agreed, ClusterArgs};
use super::outputs::{Left, Outputs, Part, Settings};
use super::progress::ProgressLine;
use super::{ProgramArgs, exit, supervise};
use crate::cluster::ClusterConfig;
use crate::dataflow::{self, RunOptions, Stopped};
use crate::engine::ingest::wanted_columns;
use crate::engine::output::RunOutput;
use crate::error::{Error, Result};
use crate::plan::{Program, SinkFormat, SinkTarget};
use crate::sink::file::PipeWait;
use crate::sink::rows::OutputOptions;
use crate::sink::summary::RunSummary;
use crate::sink::target::refuse_shared_files;
use crate::source::{self, Source, SourceOptions};
use crate::sql::refuse_compressed;
use clap::{Args, ValueEnum};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Formats of standard output.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum StdoutFormat {
    /// One JSON object a line.
    Ndjson,
    /// CSV with a header.
    Csv,
    /// An aligned table.
    Table,
}

/// Arguments of `slackwater run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub(super) program: ProgramArgs,
    /// Worker threads, of each process. Results do not depend on it.
    #[arg(short = 'w', long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Format of standard output [default: a table on a terminal, NDJSON otherwise].
    #[arg(long, value_enum)]
    format: Option<StdoutFormat>,
    /// File for the ledger, watermarks and counts as JSON.
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// File for rejected records of every table that names none itself.
    #[arg(long, value_name = "FILE")]
    rejects: Option<String>,
    /// Print neither progress nor the summary line.
    #[arg(short, long)]
    pub(super) quiet: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Bytes of input decoded at a time. Results do not depend on it.
    #[arg(long, default_value_t = 1 << 20, value_name = "BYTES", hide_short_help = true)]
    block_bytes: usize,
}

impl RunArgs {
    /// Settings that must be the same on all processes, by name.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let text = |value: Option<&str>| value.unwrap_or("none").to_owned();
        vec![
            ("--horizon".to_owned(), text(self.program.horizon.as_deref())),
            ("--late".to_owned(), text(self.program.late.as_deref())),
            ("--rejects".to_owned(), text(self.rejects.as_deref())),
            ("--block-bytes".to_owned(), self.block_bytes.to_string()),
            ("feature parquet".to_owned(), cfg!(feature = "parquet").to_string()),
        ]
    }
}

/// Runs the command.
pub(super) fn run(args: &RunArgs) -> Result<u8> {
    if let Some(flag) = args.cluster.several() {
        args.program.refuse_stdin(flag)?;
    }
    let mut program = args.program.plan()?;
    let summary = args.summary.as_ref().map(|path| path.to_string_lossy());
    for (flag, path) in [("--rejects", args.rejects.as_deref()), ("--summary", summary.as_deref())] {
        refuse_compressed(flag, path)?;
    }
    set_rejects(&mut program, args.rejects.as_deref())?;
    cluster::check_paths(&program)?;
    let threads = usize::from(args.workers);
    let stop = Arc::new(AtomicBool::new(false));
    if let Some(processes) = args.cluster.local_processes() {
        let _ = catch_signals(&stop)?;
        return supervise::run(processes, &stop);
    }
    supervise::die_with_parent();
    let config = args.cluster.config(threads)?;
    let first = config.as_ref().is_none_or(|c| c.process == 0);
    for warning in program.warnings.iter().filter(|_| first) {
        say(&format!("warning: {warning}\n"));
    }
    execute(args, Arc::new(program), config, stop)
}

/// Opens everything, runs, and says what is left to say.
fn execute(args: &RunArgs, program: Arc<Program>, config: Option<ClusterConfig>, stop: Arc<AtomicBool>) -> Result<u8> {
    let threads = usize::from(args.workers);
    let (process, processes) = config.as_ref().map_or((0, 1), |c| (c.process, c.processes));
    let block_bytes = args.block_bytes.clamp(64, 1 << 30);
    let source_options = SourceOptions { block_bytes, workers: threads * processes };
    // The others take the files from process 0.
    let mut sources = if process == 0 { open_sources(&program, &source_options)? } else { Vec::new() };
    if process == 0 {
        refuse_shared_files(&program, processes, args.summary.as_deref(), &inputs(args, &program, &sources))?;
    }
    let interrupted = catch_signals(&stop)?;
    let mut mesh = None;
    if let Some(config) = &config {
        let agreed = Agreed { text: args.program.text()?.1, settings: args.settings(), quiet: args.quiet };
        let Some(joined) = cluster::join(agreed, &program, &source_options, config, sources, &stop)? else {
            return Ok(exit::INTERRUPTED);
        };
        (mesh, sources) = (Some(joined.mesh), joined.sources);
    }
    let format = args.format.map(|f| match f {
        StdoutFormat::Ndjson => SinkFormat::Ndjson,
        StdoutFormat::Csv => SinkFormat::Csv,
        StdoutFormat::Table => SinkFormat::Table,
    });
    let wait = PipeWait::until(&interrupted);
    let settings = Settings {
        options: OutputOptions { wait: wait.clone(), ..OutputOptions::new(std::io::stdout().is_terminal(), format) },
        summary: args.summary.as_deref(),
        begun: now(),
    };
    let open = |part| Outputs::open(&program, &sources, &settings, part);
    let partitioned = if mesh.is_some() { cluster::partitioned(&program) } else { Vec::new() };
    let own = if partitioned.is_empty() { None } else { Some(Part::Process(process)) };
    let all = match (&mesh, process) {
        (None, _) => Some(Part::Alone),
        (Some(_), 0) => Some(Part::Whole),
        (Some(_), _) => None,
    };
    let checked = match process {
        0 => Ok(()),
        _ => refuse_shared_files(&program, processes, None, &inputs(args, &program, &sources)),
    };
    let opened = checked.and_then(|()| own.map(open).transpose()).and_then(|own| Ok((own, all.map(open).transpose()?)));
    let options = RunOptions { workers: threads, stop, partitioned, ..RunOptions::default() };
    let (own, all) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            return Err(match mesh {
                // The others are about to read.
                Some(mesh) => dataflow::fail_cluster(program, sources, &options, mesh, error),
                None => error,
            });
        }
    };
    let own = own.map(|(outputs, _)| boxed(outputs));
    let (all, left) = all.map_or((None, None), |(outputs, left)| (Some(boxed(outputs)), Some(left)));
    let bytes = sources.iter().flat_map(|s| s.lanes()).map(|l| l.bytes).sum::<Option<u64>>();
    // Rows and a progress bar on one terminal would overwrite each other.
    let rows_on_terminal =
        std::io::stdout().is_terminal() && program.sinks.iter().any(|s| matches!(s.target, SinkTarget::Stdout(_)));
    let shown = !args.quiet && !rows_on_terminal && process == 0;
    let line = ProgressLine::start(Arc::clone(&options.progress), bytes, shown);
    let result = match (mesh, all) {
        (None, Some(all)) => dataflow::run(program, sources, &options, all)
            .map(|complete| dataflow::Ended { complete, ..dataflow::Ended::default() }),
        (None, None) => Ok(dataflow::Ended::default()),
        (Some(mesh), all) => dataflow::run_cluster(program, sources, &options, mesh, all, own),
    };
    drop(line);
    let ended = result?;
    let closed = match left {
        Some(left) => report(args, &left),
        None => ended.stopped == Some(Stopped::Closed),
    };
    let interrupted = interrupted.load(Ordering::SeqCst) || ended.stopped == Some(Stopped::Interrupted);
    Ok(match (ended.complete || closed, interrupted) {
        // What was meant for a pipe that nobody read is missing.
        (true, true) if wait.gave_up() => exit::INTERRUPTED,
        (true, _) => exit::SUCCESS,
        (false, true) => exit::INTERRUPTED,
        (false, false) => exit::FAILURE,
    })
}

fn boxed(outputs: Outputs) -> Box<dyn RunOutput + Send> {
    Box::new(outputs)
}

/// The clock, for the seconds of the summary alone.
#[expect(clippy::disallowed_methods, reason = "measures the run; no result depends on it")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Opens the source of every table.
pub(super) fn open_sources(program: &Program, options: &SourceOptions) -> Result<Vec<Arc<dyn Source>>> {
    let tables = program.tables.iter().enumerate();
    tables.map(|(t, table)| source::open(table, &wanted_columns(program, t), options)).collect()
}

/// What is read, and by whom.
fn inputs(args: &RunArgs, program: &Program, sources: &[Arc<dyn Source>]) -> Vec<(PathBuf, String)> {
    let mut inputs: Vec<_> = args.program.file.iter().map(|file| (file.clone(), "the run itself".to_owned())).collect();
    for (table, source) in program.tables.iter().zip(sources) {
        let who = format!("table \"{}\"", table.name);
        let files = source.lanes().iter().flat_map(|lane| &lane.files);
        inputs.extend(files.map(|file| (PathBuf::from(file), who.clone())));
    }
    inputs
}

/// Gives tables without a file for rejects the one of the command line.
fn set_rejects(program: &mut Program, file: Option<&str>) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let mut without = program.tables.iter_mut().filter(|t| t.rejects.is_none());
    if let Some(table) = without.next() {
        table.rejects = Some(file.to_owned());
    }
    if without.next().is_some() {
        return Err(Error::usage("--rejects: the program has several tables, one file cannot take the rejects of all")
            .with_hint("give each table its own with the option rejects"));
    }
    Ok(())
}

/// The first Ctrl-C (or SIGTERM) ends the run cleanly, the second at once.
pub(super) fn catch_signals(stop: &Arc<AtomicBool>) -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let status = i32::from(exit::INTERRUPTED);
        signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&interrupted))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupted)))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(stop)))
            .map_err(|e| Error::output("cannot watch for Ctrl-C").with_source(e))?;
    }
    Ok(interrupted)
}

/// Prints what is left to say; says whether the reader of stdout went away.
fn report(args: &RunArgs, left: &Arc<Mutex<Left>>) -> bool {
    let left = left.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let line = left.summary.as_ref().filter(|_| !args.quiet).map(RunSummary::line);
    let lines = left.rejects.iter().cloned().chain(line);
    say(&lines.map(|line| line + "\n").collect::<String>());
    left.closed
}

/// Prints to stderr.
pub(super) fn say(text: &str) {
    // If stderr is closed there is nobody to tell.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
