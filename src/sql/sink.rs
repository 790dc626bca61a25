//! `CREATE SINK`, the sinks that are implied, and files written twice.

use super::options::{Options, Placed};
use super::scope::same_name;
use super::statement::SinkStatement;
use super::text::{SourceText, did_you_mean};
use crate::error::{Error, Result};
use crate::plan::{SinkFormat, SinkMode, SinkPlan, SinkTarget, TablePlan, ViewKind, ViewPlan};

const OPTIONS: [&str; 4] = ["connector", "path", "format", "mode"];

const FORMATS: [(&str, SinkFormat); 6] = [
    ("ndjson", SinkFormat::Ndjson),
    ("csv", SinkFormat::Csv),
    ("table", SinkFormat::Table),
    ("parquet", SinkFormat::Parquet),
    ("json", SinkFormat::Ndjson),
    ("jsonl", SinkFormat::Ndjson),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Connector {
    File,
    Stdout,
    Later(&'static str),
}

/// Binds a `CREATE SINK`.
///
/// # Errors
/// When its view is not known, or an option is wrong.
pub(super) fn bind(
    source: &SourceText<'_>,
    statement: SinkStatement,
    tables: &[TablePlan],
    views: &[ViewPlan],
) -> Result<SinkPlan> {
    const CONNECTORS: [(&str, Connector); 4] = [
        ("file", Connector::File),
        ("stdout", Connector::Stdout),
        ("kafka", Connector::Later("kafka")),
        ("postgres", Connector::Later("postgres")),
    ];
    let named = |v: &ViewPlan| v.name.as_deref().is_some_and(|n| same_name(&statement.view, n));
    let Some((view, plan)) = views.iter().enumerate().find(|(_, v)| named(v)) else {
        let shown = &statement.view.value;
        let error = source.error(statement.view.span, format!("unknown view \"{shown}\""));
        if tables.iter().any(|t| same_name(&statement.view, &t.name)) {
            return Err(error.with_hint(format!("it is a table: CREATE MATERIALIZED VIEW v AS SELECT * FROM {shown}")));
        }
        let hint = did_you_mean(shown, views.iter().filter_map(|v| v.name.as_deref()))
            .unwrap_or_else(|| "declare it first: CREATE MATERIALIZED VIEW name AS SELECT …".to_owned());
        return Err(error.with_hint(hint));
    };
    let mut options = Options::new(source, statement.options, statement.name.span, &OPTIONS)?;
    let connector = match options.choice("connector", &CONNECTORS)? {
        Some((Connector::Later(name), span)) => {
            return Err(options
                .at(span, format!("connector '{name}' is not available yet"))
                .with_hint("use 'file' or 'stdout'"));
        }
        Some((connector, _)) => connector,
        None if options.has("path") => Connector::File,
        None => Connector::Stdout,
    };
    let mode_place = options.place("mode");
    let modes =
        [("changelog", SinkMode::Changelog), ("metrics", SinkMode::Metrics), ("backfills", SinkMode::Backfills)];
    let mode = options.choice("mode", &modes)?.map_or(SinkMode::Changelog, |(mode, _)| mode);
    if let (SinkMode::Metrics | SinkMode::Backfills, ViewKind::PassThrough(_), Some(place)) =
        (mode, &plan.kind, mode_place)
    {
        let error = options.at(place, "a view that passes rows through has a changelog only");
        return Err(error.with_hint("metrics and backfills are tables of windows"));
    }
    let format = options.choice("format", &FORMATS)?;
    if let Some((SinkFormat::Parquet, span)) = format
        && !cfg!(feature = "parquet")
    {
        return Err(parquet(&options, span));
    }
    let target = match connector {
        Connector::File => {
            let Some(path) = options.output_file("path")? else {
                return Err(options.missing("the sink has no path").with_hint("add path = 'FILE'"));
            };
            let format = match format {
                Some((format, _)) => format,
                None => by_suffix(&options, &path)?,
            };
            SinkTarget::File(path.0, format)
        }
        _ => {
            if let Some((SinkFormat::Parquet, span)) = format {
                return Err(options
                    .at(span, "parquet cannot be written to standard output")
                    .with_hint("give it a path"));
            }
            SinkTarget::Stdout(format.map(|(format, _)| format))
        }
    };
    options.finish("on standard output")?;
    Ok(SinkPlan { name: Some(statement.name.value), view, mode, target })
}

fn parquet(options: &Options<'_>, span: sqlparser::tokenizer::Span) -> Error {
    options.at(span, "this build writes no parquet").with_hint("build with: cargo build --release --features parquet")
}

fn by_suffix(options: &Options<'_>, (path, place): &Placed<String>) -> Result<SinkFormat> {
    let lower = path.to_lowercase();
    match lower.rsplit_once('.').map(|(_, suffix)| suffix) {
        Some("ndjson" | "jsonl" | "json") => Ok(SinkFormat::Ndjson),
        Some("csv") => Ok(SinkFormat::Csv),
        Some("txt") => Ok(SinkFormat::Table),
        Some("parquet") if cfg!(feature = "parquet") => Ok(SinkFormat::Parquet),
        Some("parquet") => Err(parquet(options, *place)),
        _ => {
            let error = options.at(*place, format!("the format of '{path}' is not known by its suffix"));
            Err(error.with_hint("add format = 'ndjson', 'csv' or 'table'"))
        }
    }
}

/// The sink of a view that has none: its changelog on standard output.
pub(super) fn implied(view: usize) -> SinkPlan {
    SinkPlan { name: None, view, mode: SinkMode::Changelog, target: SinkTarget::Stdout(None) }
}

/// No two outputs share a file, and none is an input.
///
/// # Errors
/// Names the file.
pub(super) fn check_files(tables: &[TablePlan], views: &[ViewPlan], sinks: &[SinkPlan]) -> Result<()> {
    let sinks = sinks.iter().filter_map(|s| match &s.target {
        SinkTarget::File(path, _) => {
            Some((path.as_str(), format!("sink \"{}\"", s.name.as_deref().unwrap_or_default())))
        }
        SinkTarget::Stdout(_) => None,
    });
    let late = views.iter().filter_map(|v| {
        let who = v.name.as_ref().map_or_else(|| "the SELECT".to_owned(), |n| format!("view \"{n}\""));
        v.late.as_deref().map(|path| (path, format!("the late output of {who}")))
    });
    let rejects = tables
        .iter()
        .filter_map(|t| t.rejects.as_deref().map(|path| (path, format!("the rejects of table \"{}\"", t.name))));
    let mut seen: Vec<(&str, String)> = Vec::new();
    for (path, who) in sinks.chain(late).chain(rejects) {
        if let Some((_, other)) = seen.iter().find(|(known, _)| *known == path) {
            return Err(Error::usage(format!("two outputs write the file '{path}': {other} and {who}")));
        }
        let read =
            tables.iter().find(|t| matches!(&t.source, crate::plan::SourcePlan::File { path: p, .. } if p == path));
        if let Some(table) = read {
            return Err(Error::usage(format!("{who} would write '{path}', which table \"{}\" reads", table.name)));
        }
        seen.push((path, who));
    }
    Ok(())
}
