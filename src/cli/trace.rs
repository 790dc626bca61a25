//! `slackwater trace`: records the arrival trace of an input.

use super::aside::Aside;
use super::run::{catch_signals, now, open_sources, say};
use super::{ProgramArgs, exit};
use crate::error::{Error, Result};
use crate::lab::trace::{TracePlan, TraceWriter};
use crate::sink::summary::grouped;
use crate::source::{LaneReader, Next, Source, SourceOptions, Turns};
use clap::Args;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a live input is left alone when it has nothing.
const PAUSE: Duration = Duration::from_millis(1);

/// Arguments of `slackwater trace`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  slackwater trace query.sql --out trace
  slackwater lateness trace/trace.sql --delays 0s,1s,5s --horizons none,1m

Of each record the trace holds event time, arrival time, partition, a hash of its key, and whether the view takes it.

Exit status: 0 success · 1 the input cannot be read or the trace not written · 2 wrong query, setting or arguments · 130 interrupted")]
pub struct TraceArgs {
    #[command(flatten)]
    program: ProgramArgs,
    /// The view [default: the only one with windows].
    #[arg(long, value_name = "NAME")]
    view: Option<String>,
    /// Directory for the trace, new or empty.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// What hashes of keys depend on. Whoever knows it can try out keys; the same salt gives the same bytes [default: random, not
    /// kept].
    #[arg(long, value_name = "TEXT")]
    salt: Option<String>,
    /// Do not print the summary line.
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub(super) fn run(args: &TraceArgs) -> Result<u8> {
    let program = args.program.plan()?;
    let salt = match &args.salt {
        Some(text) => text.clone().into_bytes(),
        None => random_salt()?,
    };
    let plan = TracePlan::new(&program, args.view.as_deref(), &salt)?;
    program.warnings.iter().for_each(|warning| say(&format!("warning: {warning}\n")));
    check_directory(&args.out)?;
    let sources = open_sources(&plan.program, &SourceOptions::default())?;
    let begun = now();
    let stop = Arc::new(AtomicBool::new(false));
    let interrupted = catch_signals(&stop)?;
    let mut counts = Counts::default();
    for source in &sources {
        if !trace(&plan, source, &args.out, &interrupted, &mut counts)? {
            return Ok(exit::INTERRUPTED);
        }
    }
    if !args.quiet {
        let seconds = begun.elapsed().as_secs_f64();
        let (records, bytes) = (grouped(counts.records), grouped(counts.bytes));
        let each = if counts.records > 0 { counts.bytes as f64 / counts.records as f64 } else { 0.0 };
        say(&format!("slackwater: {records} records in {seconds:.2} s · {bytes} bytes, {each:.1} a record\n"));
    }
    Ok(exit::SUCCESS)
}

#[derive(Default)]
struct Counts {
    records: u64,
    bytes: u64,
}

fn random_salt() -> Result<Vec<u8>> {
    let mut salt = vec![0; 32];
    getrandom::fill(&mut salt)
        .map_err(|e| Error::output(format!("cannot draw a random salt: {e}")).with_hint("give one with --salt"))?;
    Ok(salt)
}

/// Old parts would be read with the new ones.
fn check_directory(directory: &Path) -> Result<()> {
    let at = directory.display().to_string();
    match std::fs::read_dir(directory).map(|mut entries| entries.next().is_some()) {
        Ok(true) => Err(Error::usage("--out: expected a new or empty directory")
            .at(at)
            .with_hint("remove what is in it, or name another")),
        Ok(false) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Error::output("cannot look into the directory").at(at).with_source(e)),
    }
}

/// Traces all lanes; `false` if it was interrupted.
fn trace(
    plan: &TracePlan,
    source: &Arc<dyn Source>,
    directory: &Path,
    interrupted: &AtomicBool,
    counts: &mut Counts,
) -> Result<bool> {
    let Some(writer) = plan.writer() else { return Ok(true) };
    let lanes = source.lanes().len();
    let width = lanes.saturating_sub(1).to_string().len();
    let name = |lane: usize| match lanes {
        1 => "trace.csv.zst".to_owned(),
        _ => format!("part-{lane:0width$}.csv.zst"),
    };
    let mut done = Vec::new();
    for lane in 0..lanes {
        let path = directory.join(name(lane));
        let failed = |e| Error::output("cannot write the trace").at(path.display().to_string()).with_source(e);
        let aside = Aside::create(&path).map_err(failed)?;
        let mut out = zstd::stream::write::Encoder::new(aside, LEVEL).map_err(failed)?;
        out.write_all(plan.head().as_bytes()).map_err(failed)?;
        let mut reader = source.open(lane, Turns::all());
        if !copy(reader.as_mut(), &writer, &mut out, interrupted, counts, &failed)? {
            return Ok(false);
        }
        done.push((out.finish().map_err(failed)?, path));
    }
    for (aside, path) in done {
        let failed = |e| Error::output("cannot write the trace").at(path.display().to_string()).with_source(e);
        aside.publish(&path).map_err(failed)?;
        counts.bytes += std::fs::metadata(&path).map_err(failed)?.len();
    }
    let files = if lanes == 1 { name(0) } else { "part-*.csv.zst".to_owned() };
    let folder = glob::Pattern::escape(&directory.display().to_string());
    let path = directory.join("trace.sql");
    let failed = |e| Error::output("cannot write the program").at(path.display().to_string()).with_source(e);
    std::fs::write(&path, plan.sql(&format!("{folder}/{files}"))).map_err(failed)?;
    Ok(true)
}

/// Takes little longer than the default level and saves a tenth.
const LEVEL: i32 = 6;

fn copy(
    reader: &mut dyn LaneReader,
    writer: &TraceWriter<'_>,
    out: &mut impl Write,
    interrupted: &AtomicBool,
    counts: &mut Counts,
    failed: &dyn Fn(io::Error) -> Error,
) -> Result<bool> {
    let mut text = String::new();
    loop {
        if interrupted.load(Ordering::SeqCst) {
            return Ok(false);
        }
        match reader.next_block()? {
            Next::Block(block) => {
                text.clear();
                writer.block(&block, &mut text);
                out.write_all(text.as_bytes()).map_err(failed)?;
                counts.records += (block.rows + block.rejects.len()) as u64;
            }
            Next::Pending => std::thread::sleep(PAUSE),
            Next::End => return Ok(true),
        }
    }
}
