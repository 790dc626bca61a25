//! `slackwater bench`: drives queries, measures them, and holds their answers to what is known.

mod bless;
mod child;
mod closed;
mod inputs;
mod machine;
mod open;
mod show;

use super::{exit, print_out};
use crate::bench::definition::{Definition, Input};
use crate::bench::report::{Bench, Crew, Report, TableFacts};
use crate::bench::search::{Search, parse_rate, parse_rates};
use crate::error::{Error, Result};
use crate::plan::ViewKind;
use child::Stop;
use clap::Args;
use inputs::InputFiles;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The files of definitions that are built in: those of `benches/definitions`.
pub const BUILT_IN: [(&str, &str); 14] = [
    ("nexmark-q0", include_str!("../../../benches/definitions/nexmark-q0.toml")),
    ("nexmark-q1", include_str!("../../../benches/definitions/nexmark-q1.toml")),
    ("nexmark-q2", include_str!("../../../benches/definitions/nexmark-q2.toml")),
    ("nexmark-q5", include_str!("../../../benches/definitions/nexmark-q5.toml")),
    ("nexmark-q7", include_str!("../../../benches/definitions/nexmark-q7.toml")),
    ("q1-10", include_str!("../../../benches/definitions/q1-10.toml")),
    ("q1-10k", include_str!("../../../benches/definitions/q1-10k.toml")),
    ("q1-1m", include_str!("../../../benches/definitions/q1-1m.toml")),
    ("q2-10", include_str!("../../../benches/definitions/q2-10.toml")),
    ("q2-10k", include_str!("../../../benches/definitions/q2-10k.toml")),
    ("q2-1m", include_str!("../../../benches/definitions/q2-1m.toml")),
    ("q4-10", include_str!("../../../benches/definitions/q4-10.toml")),
    ("q4-10k", include_str!("../../../benches/definitions/q4-10k.toml")),
    ("q4-1m", include_str!("../../../benches/definitions/q4-1m.toml")),
];

/// Arguments of `slackwater bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Names of built-in ones (listed without any), files, folders, `all`.
    #[arg(value_name = "DEFINITION")]
    definitions: Vec<String>,
    /// Records of the input [default: the definition's, or rate times seconds].
    #[arg(long, value_name = "N")]
    rows: Option<u64>,
    /// Threads x processes [default: 1x1,2x1,1x2; 1x1 in the open loop].
    #[arg(long, value_name = "CREWS", value_delimiter = ',', value_parser = crew)]
    crews: Vec<Crew>,
    /// Runs that count, of each crew [default: 3; 1 in the open loop].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: Option<u16>,
    /// Runs before those (closed loop).
    #[arg(long, value_name = "N", default_value_t = 1)]
    warm_up_runs: u16,
    /// Open loop: arrivals by a schedule, answers timed from when they were due.
    #[arg(long)]
    open: bool,
    /// Records a second, such as 100k (open loop) [default: the definition's].
    #[arg(long, value_name = "RATE", value_parser = parse_rate, conflicts_with = "rates")]
    rate: Option<f64>,
    /// Search for the highest rate within --p99: 100k,200k or 100k..2M.
    #[arg(long, value_name = "RATES", value_parser = parse_rates)]
    rates: Option<Search>,
    /// Bound of the 99 % of first results.
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = duration)]
    p99: Duration,
    /// Seconds of each run (open loop) [default: the definition's].
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<f64>,
    /// Not measured at the beginning (open loop).
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    warm_up: Duration,
    /// Folder for distributions as .hgrm files (open loop).
    #[arg(long, value_name = "FOLDER")]
    hgrm: Option<PathBuf>,
    /// Print the definition's answer instead, the oracle's if possible.
    #[arg(long, conflicts_with_all = ["open", "rate", "rates", "json"])]
    bless: bool,
    /// File for all figures as JSON (`-`: standard output, without the tables).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl BenchArgs {
    fn is_open(&self) -> bool {
        self.open || self.rate.is_some() || self.rates.is_some()
    }
}

fn crew(text: &str) -> Result<Crew, String> {
    Crew::parse(text).ok_or_else(|| "expected threads x processes, such as 2x1".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    let us = crate::time::parse_duration(text)?;
    u64::try_from(us).map(Duration::from_micros).map_err(|_| "expected a duration of at least 0".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|s| *s > 0.0 && *s <= 86_400.0);
    seconds.ok_or_else(|| "expected seconds above 0 and at most 86400".to_owned())
}

/// What is asked for of each definition.
struct Asked {
    rows: Option<u64>,
    crews: Vec<Crew>,
    repeats: u16,
    warm_up_runs: u16,
    seconds: f64,
    warm_up: Duration,
    p99_us_max: u64,
    hgrm: Option<PathBuf>,
}

impl Asked {
    fn of(args: &BenchArgs, definition: &Definition) -> Asked {
        let open = args.is_open();
        let crew = |threads, processes| Crew { threads, processes };
        let usual = if open { vec![crew(1, 1)] } else { vec![crew(1, 1), crew(2, 1), crew(1, 2)] };
        Asked {
            rows: args.rows,
            crews: if args.crews.is_empty() { usual } else { args.crews.clone() },
            repeats: args.repeats.unwrap_or(if open { 1 } else { 3 }),
            warm_up_runs: args.warm_up_runs,
            seconds: args.seconds.unwrap_or(definition.open.seconds),
            warm_up: args.warm_up,
            p99_us_max: u64::try_from(args.p99.as_micros()).unwrap_or(u64::MAX),
            hgrm: args.hgrm.clone(),
        }
    }
}

/// What all benchmarks of a call share.
struct Session {
    stop: Stop,
    /// The input made last: the next may be the same.
    input: Option<InputFiles>,
    terminal: bool,
}

impl Session {
    fn input(&mut self, definition: &Definition, rows: u64) -> Result<&InputFiles> {
        self.note(&format!("{}: making the input", definition.name));
        let input = InputFiles::make(definition, rows, self.input.take())?;
        Ok(self.input.insert(input))
    }

    /// Says what is being done, on a terminal.
    fn note(&self, text: &str) {
        if self.terminal {
            // If stderr is closed there is nobody to tell.
            let _ = write!(std::io::stderr(), "\r\x1b[2K{text}");
        }
    }
}

/// Runs the command.
pub(super) fn run(args: &BenchArgs) -> Result<u8> {
    if args.definitions.is_empty() {
        print_out(&show::list(&built_in()?))?;
        return Ok(exit::SUCCESS);
    }
    let definitions = definitions(&args.definitions)?;
    let mut session = Session { stop: Stop::watch()?, input: None, terminal: std::io::stderr().is_terminal() };
    match measure(args, &definitions, &mut session) {
        Err(_) if session.stop.asked() => Ok(exit::INTERRUPTED),
        other => other.map(|()| exit::SUCCESS),
    }
}

fn measure(args: &BenchArgs, definitions: &[Definition], session: &mut Session) -> Result<()> {
    for definition in definitions {
        if let (Input::Replay(_), Some(_)) = (&definition.input, args.rows) {
            return Err(Error::usage(format!("--rows: {} replays a file, which is as long as it is", definition.name)));
        }
    }
    if args.bless {
        for definition in definitions {
            let text = bless::run(session, definition, &Asked::of(args, definition));
            session.note("");
            print_out(&text?)?;
        }
        return Ok(());
    }
    let mut report = Report {
        slackwater: env!("CARGO_PKG_VERSION"),
        debug_build: cfg!(debug_assertions),
        machine: machine::look(),
        benches: Vec::new(),
    };
    let tables = args.json.as_deref() != Some(Path::new("-"));
    if tables {
        print_out(&show::head(&report))?;
    }
    for definition in definitions {
        let bench = one(definition, args, session);
        session.note("");
        let bench = bench?;
        if tables {
            print_out(&show::bench(&bench))?;
        }
        report.benches.push(bench);
    }
    args.json.as_deref().map_or(Ok(()), |path| write_json(path, &report))
}

fn one(definition: &Definition, args: &BenchArgs, session: &mut Session) -> Result<Bench> {
    let asked = Asked::of(args, definition);
    let mut bench = Bench {
        name: definition.name.clone(),
        about: definition.about.clone(),
        table: table_facts(definition)?,
        closed: None,
        open: Vec::new(),
        rates: Vec::new(),
    };
    if let Some(search) = &args.rates {
        for crew in &asked.crews {
            bench.rates.push(open::search(session, definition, &asked, *crew, search.clone())?);
        }
    } else if args.is_open() {
        let rate = args.rate.unwrap_or(definition.open.rate);
        let input = open::prepare(session, definition, &asked, rate, None)?;
        for crew in &asked.crews {
            bench.open.push(open::measure(session, definition, &asked, &input, (*crew, rate))?);
        }
    } else {
        bench.closed = Some(closed::run(session, definition, &asked)?);
    }
    Ok(bench)
}

fn table_facts(definition: &Definition) -> Result<TableFacts> {
    let program = definition.planned()?;
    let mut facts = TableFacts::default();
    for table in &program.tables {
        (facts.granularity_us, facts.tick_us, facts.delay_us) = (table.granularity_us, table.tick_us, table.delay_us);
    }
    for view in &program.views {
        if let ViewKind::Windowed(plan) = &view.kind {
            (facts.window_us, facts.slide_us) = (plan.window.size_us, plan.window.slide_us);
        }
    }
    Ok(facts)
}

fn write_json(path: &Path, report: &Report) -> Result<()> {
    let mut text = serde_json::to_string_pretty(report)
        .map_err(|e| Error::output("cannot write the report as JSON").with_source(e))?;
    text.push('\n');
    if path == Path::new("-") {
        return print_out(&text);
    }
    let mut file = crate::sink::file::TargetFile::create(path, &crate::sink::file::PipeWait::default())?;
    let _ = file.write(text.as_bytes())?;
    file.prepare()?.complete().map(|_| ())
}

fn built_in() -> Result<Vec<Definition>> {
    let parsed = BUILT_IN.iter().map(|(name, text)| parse(name, &format!("{name} (built in)"), text, None));
    Ok(parsed.collect::<Result<Vec<_>>>()?.concat())
}

/// The definitions that are named, in order; those of a folder by their names.
fn definitions(named: &[String]) -> Result<Vec<Definition>> {
    let mut out = Vec::new();
    for name in named {
        if name == "all" {
            out.extend(built_in()?);
        } else if let Some((name, text)) = BUILT_IN.iter().find(|(built_in, _)| built_in == name) {
            out.extend(parse(name, &format!("{name} (built in)"), text, None)?);
        } else if let Some(variant) = built_in()?.into_iter().find(|d| d.variant && d.name == *name) {
            out.push(variant);
        } else {
            for file in files(Path::new(name))? {
                let place = file.display().to_string();
                let text = std::fs::read_to_string(&file)
                    .map_err(|e| Error::usage("cannot read the definition").at(&place).with_source(e))?;
                let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                out.extend(parse(&stem, &place, &text, file.parent())?);
            }
        }
    }
    Ok(out)
}

/// The files that an argument means.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        if path.exists() {
            return Ok(vec![path.to_path_buf()]);
        }
        let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        return Err(Error::usage(format!("no definition \"{}\"", path.display()))
            .with_hint(format!("a file, a folder, all, or one of {}", names.join(", "))));
    }
    let place = || path.display().to_string();
    let failed = |e| Error::usage("cannot read the folder").at(place()).with_source(e);
    let entries = std::fs::read_dir(path).map_err(failed)?;
    let mut out: Vec<PathBuf> =
        entries.map(|entry| entry.map(|e| e.path())).collect::<std::io::Result<_>>().map_err(failed)?;
    out.retain(|path| path.extension().is_some_and(|suffix| suffix == "toml"));
    out.sort();
    if out.is_empty() {
        return Err(Error::usage("expected definitions (*.toml), found none").at(place()));
    }
    Ok(out)
}

/// Reads a file of definitions; paths in it are relative to its folder.
fn parse(name: &str, place: &str, text: &str, folder: Option<&Path>) -> Result<Vec<Definition>> {
    let beside = |file: &Path| folder.map_or_else(|| file.to_path_buf(), |folder| folder.join(file));
    let read = |file: &str| {
        let path = beside(Path::new(file));
        std::fs::read_to_string(&path)
            .map_err(|e| Error::usage("cannot read the SQL").at(path.display().to_string()).with_source(e))
    };
    let mut definitions = Definition::parse(name, place, text, &read)?;
    for definition in &mut definitions {
        if let Input::Replay(path) = &mut definition.input {
            *path = beside(path);
        }
    }
    Ok(definitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_definitions_are_those_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/definitions");
        let names: Vec<String> = definitions(&[folder.display().to_string()])
            .expect("all can be read")
            .into_iter()
            .map(|d| d.name)
            .collect();
        let built_in: Vec<String> = built_in().expect("all can be read").into_iter().map(|d| d.name).collect();
        assert_eq!(names, built_in);
    }

    #[test]
    fn crews_are_threads_by_processes() {
        assert_eq!(crew("2x3").map(|c| (c.threads, c.processes)), Ok((2, 3)));
        for wrong in ["2", "0x1", "2x", "x", "-1x1", "1025x1"] {
            assert!(crew(wrong).is_err(), "{wrong}");
        }
    }
}
