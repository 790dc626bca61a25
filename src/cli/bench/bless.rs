//! `--bless`: the answer to put into a definition, with where it comes from.
//!
//! Where the size permits it comes from the brute-force oracle: its changelog is written by the same sinks, and the bytes
//! of the engine's runs must be those. For more records than that, several crews must agree, and the comment says that the
//! oracle was not asked; the same definition should hold a smaller size that was.

use super::closed::Job;
use super::inputs::{Digested, folder};
use super::{Asked, Session, table_facts};
use crate::bench::definition::{Answer, Definition, Expect, Feed, Sink};
use crate::bench::report::Crew;
use crate::cli::run::open_sources;
use crate::error::{Error, Result};
use crate::plan::Program;
use crate::sink::Change;
use crate::sink::block::ChangeRun;
use crate::sink::rows::OutputOptions;
use crate::sink::view::ViewOutput;
use crate::source::SourceOptions;
use crate::verify::oracle_changelog;
use crate::verify::read::{Budget, read_table};
use std::path::Path;

/// Contributions (records times windows that each is in) that the oracle is asked about. It holds all of them, and computes
/// a window anew at each instant: some GB, and minutes where keys are few.
const CONTRIBUTIONS_MAX: u64 = 6_000_000;

/// What is to be put into the definition, as TOML.
pub(super) fn run(session: &mut Session, definition: &Definition, asked: &Asked) -> Result<String> {
    let rows = asked.rows.unwrap_or(definition.rows);
    definition.check_rows(rows)?;
    let input = session.input(definition, rows)?.path.clone();
    let scratch = folder()?;
    let job = Job::new(definition, &input, definition.answers()?, scratch.path())?;
    let mut found: Option<Expect> = None;
    for crew in &asked.crews {
        session.note(&format!("{}: run by {crew}", definition.name));
        let (_, records) = job.run(*crew, session)?;
        let (changelog, changes) = job.digest(Answer::Changelog)?;
        let metrics = definition.answers()?.contains(&Answer::Metrics);
        let metrics = metrics.then(|| job.digest(Answer::Metrics)).transpose()?.map(|(digest, _)| digest);
        let one = Expect { rows: records, changes, changelog, metrics };
        if let Some(first) = found.as_ref().filter(|first| **first != one) {
            return Err(differ(definition, *crew, first, &one));
        }
        found = Some(one);
    }
    let expect = found.ok_or_else(|| Error::usage("--bless: expected at least one crew"))?;
    let crews: Vec<String> = asked.crews.iter().map(Crew::to_string).collect();
    let crews = crews.join(", ");
    let toml = expect.to_toml(definition.variant);
    let name = &definition.name;
    let head = if definition.variant { format!("# For {name}.\n") } else { String::new() };
    if expect.rows.saturating_mul(windows_of_a_record(definition)?) > CONTRIBUTIONS_MAX {
        return Ok(format!("{head}# Too much for the oracle; the same bytes from {crews}.\n{toml}"));
    }
    session.note(&format!("{}: the oracle", definition.name));
    let by_oracle = Expect { rows: expect.rows, ..oracle(definition, &input)? };
    if by_oracle != expect {
        let message = format!("{name}: the engine's answer is not the oracle's");
        return Err(Error::output(message).with_hint("slackwater verify shows the difference"));
    }
    Ok(format!("{head}# The oracle's; the same bytes from {crews}.\n{toml}"))
}

/// How many windows a record is in, at most; one row without windows.
fn windows_of_a_record(definition: &Definition) -> Result<u64> {
    let facts = table_facts(definition)?;
    let slide_us = facts.slide_us.max(1);
    Ok(u64::try_from((facts.window_us + slide_us - 1) / slide_us).unwrap_or(u64::MAX).max(1))
}

fn differ(definition: &Definition, crew: Crew, first: &Expect, found: &Expect) -> Error {
    Error::output(format!(
        "{}: {crew} gave another answer than the crew before: {} instead of {}",
        definition.name, found.changelog, first.changelog
    ))
}

/// The answer by brute force, digested as it would be written.
fn oracle(definition: &Definition, input: &Path) -> Result<Expect> {
    let scratch = folder()?;
    let answers = definition.answers()?;
    let files: Vec<_> = answers.iter().map(|answer| (*answer, scratch.path().join(answer.file()))).collect();
    let program = definition.program(&Feed::Files(input), &Sink::Files(&files))?;
    let changes = oracle_changes(&program)?;
    let count = changes.len() as u64;
    let view = program.views.first().ok_or_else(|| Error::usage("the SQL has no view"))?;
    let mut output = ViewOutput::new(view, &program.sinks, &OutputOptions::default())?;
    for step in changes.chunk_by(|a, b| (a.watermark_us, a.closing) == (b.watermark_us, b.closing)) {
        let _ = output.publish(&ChangeRun::of(step))?;
    }
    output.prepare(true)?.sinks.into_iter().try_for_each(|sink| sink.complete().map(|_| ()))?;
    let digest = |answer: Answer| Digested::of(&scratch.path().join(answer.file())).map(|(digest, _)| digest);
    let metrics = answers.contains(&Answer::Metrics).then(|| digest(Answer::Metrics)).transpose()?;
    Ok(Expect { rows: 0, changes: count, changelog: digest(Answer::Changelog)?, metrics })
}

fn oracle_changes(program: &Program) -> Result<Vec<Change>> {
    let sources = open_sources(program, &SourceOptions::default())?;
    let (Some(table), Some(view), Some(source)) = (program.tables.first(), program.views.first(), sources.first())
    else {
        return Err(Error::usage("the SQL has no table or no view"));
    };
    let trace = read_table(table, &**source, &mut Budget { records_max: CONTRIBUTIONS_MAX, records: 0 })?;
    let expected = oracle_changelog(view, table, &trace.known, &trace.rows);
    expected
        .map(|expected| expected.changes)
        .map_err(|e| Error::output(format!("the oracle finds no answer: {}", e.message)))
}
