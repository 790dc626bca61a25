//! `slackwater lateness`: what every delay and horizon of a grid would have given, from one pass over the input.

use super::progress::ProgressLine;
use super::run::{catch_signals, open_sources, say};
use super::{ProgramArgs, exit, print_out};
use crate::dataflow::{self, RunOptions};
use crate::error::Result;
use crate::lab::Lab;
use crate::lab::report::Report;
use crate::lab::setting::Setting;
use crate::sink::file::PipeWait;
use crate::sink::target::Output;
use crate::source::SourceOptions;
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Arguments of `slackwater lateness`.
#[derive(Debug, Args)]
#[command(
    after_help = "The input is read once. Every figure of a cell is exactly that of `slackwater run` with its delay in WATERMARK FOR \
                  and its horizon in the view. No sink is written.

Examples:
  slackwater lateness query.sql --delays 0s,5s,30s --horizons none,1m
  slackwater lateness query.sql --delays 0s..5m/24 --horizons none,0s..1h/4 -w 2 --out report

Exit status: 0 success · 1 unreadable input · 2 wrong query, grid or arguments · 130 interrupted"
)]
pub struct LatenessArgs {
    #[command(flatten)]
    program: ProgramArgs,
    /// The view that is asked; needed if several have windows.
    #[arg(long, value_name = "NAME")]
    view: Option<String>,
    /// Delays of the watermark: a list, or a range of equal steps (`0s..5m/24` is 24 values).
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    delays: String,
    /// Horizons within which late records correct: a list or range; `none` drops every late record.
    #[arg(long, value_name = "LIST", default_value = "none", allow_hyphen_values = true)]
    horizons: String,
    /// Worker threads. Results do not depend on it.
    #[arg(short = 'w', long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Folder for `grid.csv` and `report.json`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print no progress.
    #[arg(short, long)]
    quiet: bool,
    /// Bytes of input decoded at a time. Results do not depend on it.
    #[arg(long, default_value_t = 1 << 20, value_name = "BYTES", hide_short_help = true)]
    block_bytes: usize,
}

/// Runs the command.
pub(super) fn run(args: &LatenessArgs) -> Result<u8> {
    let program = args.program.plan()?;
    let setting = Setting::new(&program, args.view.as_deref(), &args.delays, &args.horizons)?;
    for warning in &program.warnings {
        say(&format!("warning: {warning}\n"));
    }
    let workers = usize::from(args.workers);
    let program = Arc::new(setting.program());
    let block_bytes = args.block_bytes.clamp(64, 1 << 30);
    let sources = open_sources(&program, &SourceOptions { block_bytes, workers })?;
    let stop = Arc::new(AtomicBool::new(false));
    let interrupted = catch_signals(&stop)?;
    let wait = PipeWait::until(&interrupted);
    // What cannot be written is found before anything is read.
    let files = args.out.as_ref().map(|out| Files::open(out, &wait)).transpose()?;
    let lab = Lab::new(setting);
    let options = RunOptions { workers, stop, lab: Some(Arc::clone(&lab)), ..RunOptions::default() };
    let bytes = sources.iter().flat_map(|s| s.lanes()).map(|l| l.bytes).sum::<Option<u64>>();
    let line = ProgressLine::start(Arc::clone(&options.progress), bytes, !args.quiet);
    let result = dataflow::run(program, sources, &options, lab.output());
    drop(line);
    result?;
    let Some(report) = lab.report()? else { return Ok(exit::INTERRUPTED) };
    if let Some(files) = files {
        files.write(&report)?;
    }
    print_out(&report.text())?;
    Ok(exit::SUCCESS)
}

/// The files of `--out`; none gets its name before all are written.
struct Files {
    csv: Output,
    json: Output,
}

impl Files {
    fn open(folder: &Path, wait: &PipeWait) -> Result<Files> {
        let open = |name: &str| Output::file(folder.join(name), wait);
        Ok(Files { csv: open("grid.csv")?, json: open("report.json")? })
    }

    fn write(self, report: &Report) -> Result<()> {
        let Files { mut csv, mut json } = self;
        csv.text().push_str(&report.csv());
        json.text().push_str(&report.json()?);
        let prepared = [csv.prepare()?, json.prepare()?];
        prepared.into_iter().try_for_each(|file| file.complete().map(|_| ()))
    }
}
