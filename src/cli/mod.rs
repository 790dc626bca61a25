//! The command line: one file per command, and the only place that prints.
//!
//! Data goes to stdout, everything else to stderr. A closed pipe is success.

mod aside;
pub mod bench;
pub mod cluster;
pub mod exit;
pub mod explain;
pub mod r#gen;
pub mod lateness;
mod outputs;
mod progress;
pub mod run;
pub mod schema;
mod stderr;
mod supervise;
pub mod trace;
pub mod verify;

use crate::error::{Error, ErrorKind};
use crate::plan::{Program, SourcePlan};
use crate::sql;
use clap::{Args, Parser, Subcommand};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Event-time windows over out-of-order streams: they close on a watermark, late events correct them within a horizon,
/// and the results are the same bytes for any number of workers.
#[derive(Debug, Parser)]
#[command(name = "slackwater", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Examples:
  slackwater run query.sql -w 2
  slackwater run -e \"SELECT …\" --horizon 3m | jq .
  slackwater schema events.ndjson > table.sql

Exit status: 0 success · 1 a run failed · 2 wrong query, setting or arguments · 3 verify found a difference · 4 another process of a cluster failed, was lost or not found · 130 interrupted")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program to the end of its input.
    Run(run::RunArgs),
    /// Tell what every delay and horizon of a grid would have given, from one pass over the input.
    Lateness(lateness::LatenessArgs),
    /// Record when events arrived, and nothing else of them: a trace to share, which `lateness` reads.
    Trace(trace::TraceArgs),
    /// Show the plan, the rule of lateness in words, and what a late record would get.
    Explain(explain::ExplainArgs),
    /// Write the built-in generator's records, orders or NEXMark's.
    Gen(r#gen::GenArgs),
    /// Run the input through the brute-force oracle as well and prove changelog and ledger equal.
    Verify(verify::VerifyArgs),
    /// Guess a CREATE TABLE from a sample of a file, with the lag quantiles it saw.
    Schema(schema::SchemaArgs),
    /// Measure queries: throughput and cost, latency at a fixed rate, and whether the answers are right.
    Bench(bench::BenchArgs),
}

/// A program: a file or a text.
#[derive(Debug, Args)]
pub struct ProgramArgs {
    /// File with SQL statements (`-` reads standard input).
    #[arg(conflicts_with = "sql")]
    file: Option<PathBuf>,
    /// SQL statements.
    #[arg(short = 'e', long = "sql", value_name = "SQL", allow_hyphen_values = true)]
    sql: Option<String>,
    /// Horizon of a bare SELECT: how long late records correct a closed window (`30s`, `3m`, `1h30m`).
    #[arg(long, value_name = "DURATION")]
    horizon: Option<String>,
    /// File for the too-late contributions of a bare SELECT.
    #[arg(long, value_name = "FILE")]
    late: Option<String>,
}

impl ProgramArgs {
    /// The program must not come from standard input: every process reads it for itself.
    fn refuse_stdin(&self, flag: &str) -> Result<(), Error> {
        if self.sql.is_none() && self.file.as_ref().is_some_and(|f| f.as_os_str() == "-") {
            let message = format!("{flag}: every process reads the program, which standard input gives only once");
            return Err(Error::usage(message).with_hint("keep the program in a file, or give its text with -e"));
        }
        Ok(())
    }

    /// The program's name and text.
    fn text(&self) -> Result<(String, String), Error> {
        Ok(match (&self.sql, &self.file) {
            (Some(sql), _) => ("-e".to_owned(), sql.clone()),
            (None, Some(file)) if file.as_os_str() == "-" => (
                "stdin".to_owned(),
                std::io::read_to_string(std::io::stdin())
                    .map_err(|e| Error::input("cannot read the program").at("stdin").with_source(e))?,
            ),
            (None, Some(file)) => {
                let name = file.display().to_string();
                let text = std::fs::read_to_string(file).map_err(|e| {
                    Error::usage("cannot read the program")
                        .at(name.clone())
                        .with_source(e)
                        .with_hint("to run SQL given as text use -e")
                })?;
                (name, text)
            }
            (None, None) => {
                return Err(
                    Error::usage("no program given").with_hint("name a file with SQL, or give the text: -e SQL")
                );
            }
        })
    }

    /// Reads and plans the program.
    fn plan(&self) -> Result<Program, Error> {
        let horizon_us = match &self.horizon {
            None => None,
            Some(text) => {
                let us = crate::time::parse_duration(text)
                    .map_err(|e| Error::usage(format!("--horizon: {e}")).with_hint("write it as 30s, 3m or 1h30m"))?;
                if us < 0 {
                    return Err(Error::usage("--horizon: expected a duration of at least 0, found a negative one"));
                }
                Some(us)
            }
        };
        let defaults = sql::BareSelectDefaults { horizon_us, late: self.late.clone() };
        let (name, text) = self.text()?;
        let program = sql::plan(&name, &text, &defaults)?;
        if program.views.iter().all(|v| v.name.is_some()) {
            for (flag, given) in [("horizon", self.horizon.is_some()), ("late", self.late.is_some())] {
                if given {
                    return Err(Error::usage(format!("--{flag} is for a SELECT without a view, and {name} has none"))
                        .with_hint(format!(
                            "write it into the view: CREATE MATERIALIZED VIEW … WITH ({flag} = '…') AS …"
                        )));
                }
            }
        }
        let stdin = program.tables.iter().find(|t| matches!(t.source, SourcePlan::Stdin { .. }));
        if let (Some(table), None, true) = (stdin, &self.sql, self.file.as_ref().is_some_and(|f| f.as_os_str() == "-"))
        {
            let message =
                format!("the program itself comes from standard input, so table \"{}\" cannot read it", table.name);
            return Err(Error::usage(message).with_hint("keep the program in a file, or give its text with -e"));
        }
        Ok(program)
    }
}

/// Parses the arguments, runs the command, and gives the exit status.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let status = if error.use_stderr() { exit::USAGE } else { exit::SUCCESS };
            // Nothing can be done about a closed stdout or stderr here.
            let _ = error.print();
            return ExitCode::from(status);
        }
    };
    init_tracing();
    let result = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Lateness(args) => lateness::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Gen(args) => r#gen::run(args).map(|()| exit::SUCCESS),
        Command::Verify(args) => verify::run(&args),
        Command::Schema(args) => schema::run(args).map(|()| exit::SUCCESS),
        Command::Bench(args) => bench::run(&args),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            print_error(&error);
            ExitCode::from(match error.kind() {
                ErrorKind::Usage => exit::USAGE,
                ErrorKind::Cluster => exit::CLUSTER,
                ErrorKind::Input | ErrorKind::Output => exit::FAILURE,
            })
        }
    }
}

/// Logs go to stderr when `SLACKWATER_LOG` names a level (`info`, `debug`, …).
fn init_tracing() {
    let level = std::env::var("SLACKWATER_LOG").ok().and_then(|l| l.parse::<tracing::Level>().ok());
    if let Some(level) = level {
        tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
    }
}

/// Prints an error with its detail and hint to stderr.
fn print_error(error: &Error) {
    let mut text = format!("error: {error}\n");
    if let Some(detail) = error.detail() {
        text.push_str(detail);
        text.push('\n');
    }
    if let Some(hint) = error.hint() {
        text.push_str(&format!("hint: {hint}\n"));
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Writes text to stdout; a closed pipe is success.
fn print_out(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::output("cannot write to stdout").with_source(e))
        }
        _ => Ok(()),
    }
}
