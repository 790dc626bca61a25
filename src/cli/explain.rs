//! `slackwater explain`: the plan, what lateness means for it, and who would read what.

use super::run::open_sources;
use super::{ProgramArgs, exit, print_out};
use crate::dataflow::deal;
use crate::error::Result;
use crate::sink::summary::plural;
use crate::source::SourceOptions;
use clap::Args;
use std::fmt::Write;

/// Arguments of `slackwater explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    program: ProgramArgs,
    /// Worker threads of each process: also says who reads what.
    #[arg(short = 'w', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Processes: also says who reads what.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    processes: Option<u16>,
}

/// Runs the command.
pub(super) fn run(args: &ExplainArgs) -> Result<u8> {
    let program = args.program.plan()?;
    let mut text = crate::sql::explain(&program);
    if args.workers.is_some() || args.processes.is_some() {
        let (threads, processes) = (usize::from(args.workers.unwrap_or(1)), usize::from(args.processes.unwrap_or(1)));
        let sources = open_sources(&program, &SourceOptions { workers: threads * processes, ..Default::default() })?;
        let many = if processes == 1 { "process" } else { "processes" };
        let _ = writeln!(text, "readers: {processes} {many} of {threads} thread{}", plural(threads as u64));
        for (table, source) in program.tables.iter().zip(&sources) {
            let _ = writeln!(text, "  table {}", table.name);
            text.push_str(&deal::in_words(&deal::as_dealt(table, source.lanes(), false), processes, threads));
        }
        text.push_str(RULE);
    }
    print_out(&text)?;
    Ok(exit::SUCCESS)
}

const RULE: &str =
    "  rule: input l belongs to process l mod processes, whose threads take its inputs in turn; in a process with fewer
  than four inputs a thread, whichever thread is ready reads the next block of a plain NDJSON file; with fewer inputs
  than processes, such blocks are dealt to the processes in turn. The files of a table with a partition column are
  one input. Stamps and results do not depend on who reads.
";
