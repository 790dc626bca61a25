//! `slackwater run`: a program to the end of its input.

use super::outputs::{Left, Outputs};
use super::progress::ProgressLine;
use super::{ProgramArgs, exit};
use crate::dataflow::{self, RunOptions};
use crate::engine::ingest::wanted_columns;
use crate::error::{Error, Result};
use crate::plan::{Program, SinkFormat, SinkTarget};
use crate::sink::rows::OutputOptions;
use crate::sink::target::refuse_shared_files;
use crate::source::{self, Source, SourceOptions};
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
    program: ProgramArgs,
    /// Worker threads. Results do not depend on it.
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
    quiet: bool,
    /// Bytes of input decoded at a time. Results do not depend on it.
    #[arg(long, default_value_t = 1 << 20, value_name = "BYTES", hide_short_help = true)]
    block_bytes: usize,
}

/// Runs the command.
pub(super) fn run(args: &RunArgs) -> Result<u8> {
    let mut program = args.program.plan()?;
    set_rejects(&mut program, args.rejects.as_deref())?;
    for warning in &program.warnings {
        say(&format!("warning: {warning}\n"));
    }
    let program = Arc::new(program);
    let workers = usize::from(args.workers);
    let sources = open_sources(&program, &SourceOptions { block_bytes: args.block_bytes.clamp(64, 1 << 30), workers })?;
    refuse_shared_files(&program, args.summary.as_deref(), &inputs(args, &program, &sources))?;
    let stop = Arc::new(AtomicBool::new(false));
    let interrupted = catch_signals(&stop)?;
    let format = args.format.map(|f| match f {
        StdoutFormat::Ndjson => SinkFormat::Ndjson,
        StdoutFormat::Csv => SinkFormat::Csv,
        StdoutFormat::Table => SinkFormat::Table,
    });
    let output_options = OutputOptions::new(std::io::stdout().is_terminal(), format);
    let begun = now();
    let elapsed = Box::new(move || begun.elapsed().as_secs_f64());
    let (outputs, left) = Outputs::open(&program, &sources, &output_options, elapsed)?;
    let options = RunOptions { workers, stop, ..RunOptions::default() };
    let bytes = sources.iter().flat_map(|s| s.lanes()).map(|l| l.bytes).sum::<Option<u64>>();
    // Rows and a progress bar on one terminal would overwrite each other.
    let rows_on_terminal =
        std::io::stdout().is_terminal() && program.sinks.iter().any(|s| matches!(s.target, SinkTarget::Stdout(_)));
    let line = ProgressLine::start(Arc::clone(&options.progress), bytes, !args.quiet && !rows_on_terminal);
    let result = dataflow::run(program, sources, &options, Box::new(outputs));
    drop(line);
    let complete = result?;
    let closed = report(args, &left)?;
    Ok(if complete || closed {
        exit::SUCCESS
    } else if interrupted.load(Ordering::SeqCst) {
        exit::INTERRUPTED
    } else {
        exit::FAILURE
    })
}

/// The clock, for the seconds of the summary alone.
#[expect(clippy::disallowed_methods, reason = "measures the run; no result depends on it")]
fn now() -> Instant {
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
fn catch_signals(stop: &Arc<AtomicBool>) -> Result<Arc<AtomicBool>> {
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
fn report(args: &RunArgs, left: &Arc<Mutex<Left>>) -> Result<bool> {
    let left = left.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut text = String::new();
    for line in &left.rejects {
        text.push_str(line);
        text.push('\n');
    }
    if let Some(summary) = &left.summary {
        if !args.quiet {
            text.push_str(&summary.line());
            text.push('\n');
        }
        if let Some(path) = &args.summary {
            let _ = summary.write(path)?;
        }
    }
    say(&text);
    Ok(left.closed)
}

fn say(text: &str) {
    // If stderr is closed there is nobody to tell.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
