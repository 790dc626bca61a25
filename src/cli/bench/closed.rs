//! The closed loop: files to results, as fast as it goes.

use super::child::{Cost, Running};
use super::inputs::{Digested, InputFiles, folder};
use super::{Asked, Session};
use crate::bench::definition::{Answer, Definition, Expect, Feed, Input, Sink};
use crate::bench::report::{Answered, Closed, Crew, CrewRuns, Known, Run};
use crate::bench::stats::Spread;
use crate::error::{Error, Result};
use serde_json::Value;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Records of the run that tells how long a process takes to its first result.
const FIRST_RESULT_RECORDS: u64 = 1_000;

/// Runs all crews in turn, so that a busy minute of the machine hits all of them.
pub(super) fn run(session: &mut Session, definition: &Definition, asked: &Asked) -> Result<Closed> {
    let rows = asked.rows.unwrap_or(definition.rows);
    definition.check_rows(rows)?;
    let input = session.input(definition, rows)?;
    let (path, files, bytes) = (input.path.clone(), input.files, input.bytes);
    let scratch = folder()?;
    let job = Job::new(definition, &path, &[definition.output], scratch.path())?;
    let mut held = Held::default();
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); asked.crews.len()];
    let mut records = 0;
    for turn in 0..asked.warm_up_runs + asked.repeats {
        for (crew, runs) in asked.crews.iter().zip(&mut runs) {
            session.note(&format!("{}: closed loop, {crew}, run {}", definition.name, turn + 1));
            let (run, read) = job.run(*crew, session)?;
            records = read;
            held.to(definition, records, definition.output, &job.digest(definition.output)?)?;
            if turn >= asked.warm_up_runs {
                runs.push(run);
            }
        }
    }
    let answer = held.answered(definition, records, definition.output);
    let crews = asked.crews.iter().zip(runs);
    Ok(Closed {
        records,
        input_bytes: bytes,
        files,
        format: definition.format.name(),
        answer,
        crews: crews.map(|(crew, runs)| CrewRuns::new(*crew, records, runs)).collect(),
        first_result_ms: first_result(session, definition, asked)?,
    })
}

/// A program over files, ready to be run again and again.
pub(super) struct Job {
    program: PathBuf,
    summary: PathBuf,
    outputs: Vec<(Answer, PathBuf)>,
}

impl Job {
    /// Writes the program into the folder, where its outputs go too.
    pub fn new(definition: &Definition, input: &Path, outputs: &[Answer], folder: &Path) -> Result<Job> {
        let outputs: Vec<_> = outputs.iter().map(|answer| (*answer, folder.join(answer.file()))).collect();
        let text = definition.text(&Feed::Files(input), &definition.view()?, &Sink::Files(&outputs));
        let program = write_program(folder, &text)?;
        Ok(Job { program, summary: folder.join("summary.json"), outputs })
    }

    /// One run; gives also the number of records read.
    pub fn run(&self, crew: Crew, session: &Session) -> Result<(Run, u64)> {
        for (_, path) in &self.outputs {
            // The first time there is none.
            let _ = std::fs::remove_file(path);
        }
        let child = Running::start(arguments(&self.program, &self.summary, crew), |_| {}, &session.stop)?;
        let cost = child.wait()?;
        read_summary(&self.summary, cost)
    }

    /// Digest and rows of an output of the last run.
    pub fn digest(&self, answer: Answer) -> Result<(String, u64)> {
        let path = self.outputs.iter().find(|(a, _)| *a == answer).map(|(_, path)| path);
        let (digest, lines) = Digested::of(path.ok_or_else(|| Error::output("an output is missing"))?)?;
        Ok((digest, lines.saturating_sub(answer.header_lines())))
    }
}

/// Writes the text of a program into a folder.
pub(super) fn write_program(folder: &Path, text: &str) -> Result<PathBuf> {
    let path = folder.join("query.sql");
    let failed = |e| Error::output("cannot write the program").at(path.display().to_string()).with_source(e);
    std::fs::write(&path, text).map_err(failed)?;
    Ok(path)
}

/// What follows `slackwater run --quiet`.
pub(super) fn arguments(program: &Path, summary: &Path, crew: Crew) -> Vec<OsString> {
    let mut out: Vec<OsString> = vec![program.into(), "--summary".into(), summary.into()];
    out.extend(["-w".into(), crew.threads.to_string().into()]);
    if crew.processes > 1 {
        out.extend(["--local-processes".into(), crew.processes.to_string().into()]);
    }
    out
}

/// What a run says of itself in its summary, beside what it cost.
pub(super) fn read_summary(path: &Path, cost: Cost) -> Result<(Run, u64)> {
    let failed = || Error::output("cannot read the summary of the run").at(path.display().to_string());
    let text = std::fs::read_to_string(path).map_err(|e| failed().with_source(e))?;
    let summary: Value = serde_json::from_str(&text).map_err(|e| failed().with_source(e))?;
    let physical = |name: &str| summary.pointer(&format!("/physical/{name}")).and_then(Value::as_u64);
    let run = Run {
        wall_s: cost.wall_s,
        user_s: cost.user_s,
        system_s: cost.system_s,
        memory_bytes_max: physical("memory_bytes_max"),
        exchanged_bytes: physical("exchanged_bytes"),
    };
    match (summary.get("complete").and_then(Value::as_bool), summary.get("records").and_then(Value::as_u64)) {
        (Some(true), Some(records)) => Ok((run, records)),
        _ => Err(Error::output("the run did not come to the end of its input")),
    }
}

/// The answers of runs are held to one another, and to what is known beforehand.
#[derive(Default)]
pub(super) struct Held {
    first: Option<(String, u64)>,
}

impl Held {
    /// Holds an answer (digest, rows) to the one that is known, or else to the first.
    ///
    /// # Errors
    /// When it is another one.
    pub fn to(&mut self, definition: &Definition, records: u64, output: Answer, found: &(String, u64)) -> Result<()> {
        let name = &definition.name;
        let first = self.first.get_or_insert_with(|| found.clone());
        if let Some(expect) = definition.expected(records) {
            return agree(expect, output, found).map_err(|message| {
                Error::output(format!("{name}: WRONG ANSWER to {records} records: {message}")).with_hint(
                    "if the answer was meant to change: slackwater bench NAME --bless, and put it into the definition",
                )
            });
        }
        if first == found {
            return Ok(());
        }
        let (first, found) = (shown(first), shown(found));
        Err(Error::output(format!("{name}: two runs over one input gave different answers: {first}, then {found}")))
    }

    /// What all of them were.
    pub fn answered(self, definition: &Definition, records: u64, output: Answer) -> Answered {
        let (sha256, rows) = self.first.unwrap_or_default();
        let known = if definition.expected(records).is_some() { Known::Beforehand } else { Known::FirstRun };
        Answered { output: output.mode(), known, sha256, rows }
    }
}

/// Whether an answer is the expected one; in words what differs.
fn agree(expect: &Expect, output: Answer, found: &(String, u64)) -> Result<(), String> {
    let digest = expect.digest(output).unwrap_or("none");
    if found.0 != digest {
        let found = shown(found);
        return Err(format!("expected the {} with SHA-256 {digest}, found {found}", output.mode()));
    }
    if output == Answer::Changelog && found.1 != expect.changes {
        return Err(format!("expected {} rows of changelog, found {}", expect.changes, found.1));
    }
    Ok(())
}

fn shown((digest, rows): &(String, u64)) -> String {
    format!("{digest} ({rows} rows)")
}

/// How long it takes from the start of a process to the first byte of results, with little input.
fn first_result(session: &mut Session, definition: &Definition, asked: &Asked) -> Result<Option<Spread>> {
    if !matches!(definition.input, Input::Generated { .. }) {
        return Ok(None);
    }
    session.note(&format!("{}: first result", definition.name));
    let input = InputFiles::make(definition, FIRST_RESULT_RECORDS, None)?;
    let scratch = folder()?;
    let text = definition.text(&Feed::Files(&input.path), &definition.view()?, &Sink::Stdout);
    let program = write_program(scratch.path(), &text)?;
    let summary = scratch.path().join("summary.json");
    let one = Crew { threads: 1, processes: 1 };
    let mut took = Vec::new();
    for _ in 0..asked.repeats {
        let set = |command: &mut std::process::Command| {
            command.stdout(Stdio::piped());
        };
        let mut child = Running::start(arguments(&program, &summary, one), set, &session.stop)?;
        let mut first = None;
        if let Some(mut stdout) = child.child.stdout.take() {
            let mut buffer = [0; 1 << 16];
            while let Ok(1..) = stdout.read(&mut buffer) {
                first.get_or_insert_with(|| child.begun.elapsed());
            }
        }
        child.wait()?;
        took.extend(first.map(|first| first.as_secs_f64() * 1e3));
    }
    Ok((!took.is_empty()).then(|| Spread::of(took)))
}
