//! `CREATE TABLE`: columns, the watermark, and the settings of reading.
//!
//! Defaults are applied here, so that a [`TablePlan`] leaves nothing open. Every check names the option that is wrong.

use super::bind::{Binder, fold};
use super::options::{OptionValue, Options, Placed};
use super::policy;
use super::scope::{Scope, same_name, span_of_path};
use super::statement::{ColumnStatement, TableStatement};
use super::text::{SourceText, did_you_mean};
use crate::error::Result;
use crate::expr::{Expr, build};
use crate::plan::{
    ColumnPlan, CsvOptions, Format, GeneratorPlan, LateRecords, LatenessScope, OnError, SourcePlan, TablePlan,
    TablePolicy, Workload,
};
use crate::source::generator;
use crate::types::{DataType, Value};
use sqlparser::ast::{self, BinaryOperator, Ident};
use sqlparser::tokenizer::Span;

/// Horizons and delays beyond this many microseconds (73,000 years) mean "for ever" and are cut to it, so that no
/// sum of times leaves 64 bits.
pub(super) const FOREVER_US: i64 = 1 << 61;

/// Default granularity and tick.
const SECOND_US: i64 = 1_000_000;
/// Delay of a table that takes its source's own record time.
const DELAY_DEFAULT_US: i64 = SECOND_US;
/// Partitions of the generator.
const GENERATOR_PARTITIONS_MAX: u64 = 65_536;

/// All options of a table.
const OPTIONS: [&str; 33] = [
    "connector",
    "path",
    "format",
    "delimiter",
    "null",
    "header",
    "time_unit",
    "arrival_time",
    "partition",
    "partitions",
    "watermark_policy",
    "idle_timeout",
    "granularity",
    "tick",
    "max_future",
    "lateness_scope",
    "late_records",
    "on_error",
    "rejects",
    "workload",
    "seed",
    "rows",
    "rate",
    "keys",
    "delay_mean",
    "late_share",
    "late_max",
    "delay_quantiles",
    "delayed_keys",
    "key_delay",
    "silent_every",
    "silent_for",
    "start",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connector {
    File,
    Stdin,
    Generator(Workload),
}

/// Connectors to come.
const LATER: [&str; 2] = ["socket", "kafka"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormatName {
    Json,
    Csv,
    Tsv,
    Parquet,
}

/// Columns of the generator's records.
fn generator_columns(workload: Workload) -> Vec<ColumnPlan> {
    let column =
        |(name, dtype): (&str, DataType)| ColumnPlan { name: name.to_owned(), path: vec![name.to_owned()], dtype };
    generator::columns(workload).into_iter().map(column).collect()
}

/// Binds a `CREATE TABLE`.
///
/// # Errors
/// At the first column, option or combination of options that cannot be.
pub(super) fn bind_table(
    source: &SourceText<'_>,
    statement: TableStatement,
    warnings: &mut Vec<String>,
) -> Result<TablePlan> {
    let name = statement.name.value.clone();
    let owner = statement.name.span;
    // Before the options are looked at: those of these connectors are not known yet.
    for entry in statement.options.iter().filter(|e| e.key == "connector") {
        if let OptionValue::Text(name) = &entry.value
            && let Some(later) = LATER.iter().find(|l| l.eq_ignore_ascii_case(name))
        {
            let error = source.error(entry.value_span, format!("connector '{later}' is not available yet"));
            return Err(error.with_hint("use 'file', 'stdin' or 'generator'"));
        }
    }
    let mut options = Options::new(source, statement.options, owner, &OPTIONS)?;
    let connector = connector(&mut options)?;
    let columns = match (statement.columns, connector) {
        (Some(columns), _) => declared(source, &columns)?,
        (None, Connector::Generator(workload)) => generator_columns(workload),
        (None, _) => {
            let error = options.missing("expected the columns of the table in parentheses");
            return Err(error.with_hint("slackwater schema FILE prints a CREATE TABLE for a file"));
        }
    };
    let scope =
        Scope { source, table: &name, columns: &columns, qualifier: Some(statement.name.clone()), windowed: false };
    let watermark = match &statement.watermark {
        Some((path, expr)) => Some(watermark(&scope, path, expr)?),
        None => match connector {
            Connector::Generator(workload) => default_watermark(workload, &columns),
            _ => None,
        },
    };
    let policy = policy::of_table(&scope, &mut options, watermark.as_ref().map(|(_, _, delay)| *delay))?;
    let plan = settings(&scope, &mut options, connector, watermark, policy)?;
    let why = match connector {
        Connector::Generator(_) => "with connector = 'generator'",
        _ => "with this connector and format",
    };
    if let SourcePlan::Generator(generator) = &plan.source {
        let checked = generator::check_table(generator.workload, &plan).and_then(|()| generator::check_plan(generator));
        checked.map_err(|e| {
            let error = source.error(owner, e.message());
            match e.hint() {
                Some(hint) => error.with_hint(hint),
                None => error,
            }
        })?;
    }
    options.finish(why)?;
    if plan.event_time.is_none() && plan.max_future_us.is_some() {
        warnings.push(format!("table \"{name}\": max_future has no effect without WATERMARK FOR"));
    }
    Ok(plan)
}

fn connector(options: &mut Options<'_>) -> Result<Connector> {
    const CONNECTORS: [(&str, Connector); 3] =
        [("file", Connector::File), ("stdin", Connector::Stdin), ("generator", Connector::Generator(Workload::Orders))];
    match options.choice("connector", &CONNECTORS)? {
        Some((Connector::Generator(usual), _)) => {
            let workload = options.choice("workload", &Workload::NAMED)?;
            Ok(Connector::Generator(workload.map_or(usual, |(workload, _)| workload)))
        }
        Some((connector, _)) => Ok(connector),
        None if options.has("path") => Ok(Connector::File),
        None => {
            let error = options.missing("the table has no connector");
            Err(error.with_hint("add WITH (connector = 'file', path = '…'), or 'stdin', or 'generator'"))
        }
    }
}

/// The declared columns; two of one name are an error.
fn declared(source: &SourceText<'_>, columns: &[ColumnStatement]) -> Result<Vec<ColumnPlan>> {
    let mut out: Vec<ColumnPlan> = Vec::with_capacity(columns.len());
    for column in columns {
        let path: Vec<String> = column.path.iter().map(|i| i.value.clone()).collect();
        let name = path.join(".");
        if path.iter().any(String::is_empty) {
            return Err(source.error(span_of_path(&column.path), "a column has no name"));
        }
        if out.iter().any(|c| c.name == name) {
            return Err(source.error(span_of_path(&column.path), format!("column \"{name}\" is declared twice")));
        }
        out.push(ColumnPlan { name, path, dtype: column.dtype.clone() });
    }
    if out.is_empty() { Err(source.error(Span::empty(), "a table has at least one column")) } else { Ok(out) }
}

/// Event-time column, watermark expression, and the delay if it is just that.
type Watermark = (usize, Expr, Option<i64>);

/// The generator's record time minus a second.
fn default_watermark(workload: Workload, columns: &[ColumnPlan]) -> Option<Watermark> {
    let name = match workload {
        Workload::Orders => "event_time",
        Workload::Nexmark => "date_time",
    };
    let at = columns.iter().position(|c| c.name == name)?;
    let delay = Expr::literal(Value::Interval(DELAY_DEFAULT_US), DataType::Interval);
    let expr = build::call(crate::expr::Func::Sub, vec![Expr::column(at, DataType::Timestamp), delay]).ok()?;
    Some((at, expr, Some(DELAY_DEFAULT_US)))
}

fn watermark(scope: &Scope<'_>, path: &[Ident], expr: &ast::Expr) -> Result<Watermark> {
    let at = scope.column(path)?;
    let place = span_of_path(path);
    let found = scope.columns.get(at).map_or(DataType::Text, |c| c.dtype.clone());
    if found != DataType::Timestamp {
        let error = scope.source.error(place, format!("expected a TIMESTAMP column in WATERMARK FOR, found {found}"));
        return Err(error.with_hint("declare it as TIMESTAMP; numbers are read as times by time_unit"));
    }
    let mut binder = Binder::row(scope, "WATERMARK FOR", place);
    let bound = binder.bind(expr)?;
    if bound.dtype != DataType::Timestamp {
        let error =
            binder.error(binder.span(expr), format!("expected a TIMESTAMP as the watermark, found {}", bound.dtype));
        return Err(error.with_hint(format!("a delay is an INTERVAL: {} - INTERVAL '30 seconds'", path_shown(path))));
    }
    let mut used = std::collections::BTreeSet::new();
    bound.columns(&mut used);
    if used.is_empty() {
        return Err(binder.error(binder.span(expr), "the watermark reads no column, so it would never move"));
    }
    let delay = delay(&mut binder, scope, at, expr)?;
    Ok((at, bound, delay))
}

fn path_shown(path: &[Ident]) -> String {
    path.iter().map(|i| i.value.as_str()).collect::<Vec<_>>().join(".")
}

/// The delay, if the expression is the event time minus a constant (or plus a negative one).
fn delay(binder: &mut Binder<'_>, scope: &Scope<'_>, event_time: usize, expr: &ast::Expr) -> Result<Option<i64>> {
    let is_event_time = |e: &ast::Expr| {
        super::scope::as_path(e).is_some_and(|p| scope.try_column(p).ok().flatten() == Some(event_time))
    };
    let expr = strip(expr);
    if is_event_time(expr) {
        return Ok(Some(0));
    }
    let ast::Expr::BinaryOp { left, op, right } = expr else { return Ok(None) };
    if !is_event_time(left) || !matches!(op, BinaryOperator::Minus | BinaryOperator::Plus) {
        return Ok(None);
    }
    let bound = binder.bind(right)?;
    let us = match fold(&bound) {
        Some(Ok(Value::Interval(us))) => us,
        Some(Ok(other)) if other.is_null() => {
            return Err(binder.error(binder.span(right), "the delay of the watermark is NULL"));
        }
        _ => return Ok(None),
    };
    let us = if *op == BinaryOperator::Plus { us.checked_neg().unwrap_or(i64::MAX) } else { us };
    if us < 0 {
        let error =
            binder.error(binder.span(expr), "the watermark runs ahead of the event time: its delay is negative");
        return Err(error.with_hint("the delay is subtracted: event_time - INTERVAL '30 seconds'"));
    }
    Ok(Some(us.min(FOREVER_US)))
}

fn strip(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Nested(inner) => strip(inner),
        other => other,
    }
}

/// The column that an option names.
fn column_option(
    scope: &Scope<'_>,
    options: &mut Options<'_>,
    key: &str,
    fits: &[DataType],
) -> Result<Option<(usize, Span)>> {
    let Some((text, span)) = options.text(key)? else { return Ok(None) };
    let types: Vec<String> = fits.iter().map(ToString::to_string).collect();
    let fits = |dtype: &DataType| fits.contains(dtype);
    Ok(Some((
        named_column(scope, options, (key, &text, span), fits, &format!("a column of type {}", types.join(" or ")))?,
        span,
    )))
}

/// The column named `text` in the option `key` at `span`; `types` says in words which types fit.
pub(super) fn named_column(
    scope: &Scope<'_>,
    options: &Options<'_>,
    (key, text, span): (&str, &str, Span),
    fits: impl Fn(&DataType) -> bool,
    types: &str,
) -> Result<usize> {
    let ident = Ident::new(text);
    let at = scope
        .columns
        .iter()
        .position(|c| c.name == text)
        .or_else(|| scope.columns.iter().position(|c| same_name(&ident, &c.name)));
    let Some((at, column)) = at.and_then(|at| scope.columns.get(at).map(|c| (at, c))) else {
        let names: Vec<&str> = scope.columns.iter().map(|c| c.name.as_str()).collect();
        let hint = did_you_mean(text, names.iter().copied())
            .unwrap_or_else(|| format!("table \"{}\" has the columns {}", scope.table, names.join(", ")));
        let message = format!("option \"{key}\": expected a column of the table, found '{text}'");
        return Err(options.at(span, message).with_hint(hint));
    };
    if !fits(&column.dtype) {
        let message = format!("option \"{key}\": expected {types}, found {}", column.dtype);
        return Err(options.at(span, message));
    }
    Ok(at)
}

fn settings(
    scope: &Scope<'_>,
    options: &mut Options<'_>,
    connector: Connector,
    watermark: Option<Watermark>,
    policy: Option<TablePolicy>,
) -> Result<TablePlan> {
    let generator = matches!(connector, Connector::Generator(_));
    let by_name = |name: &str| scope.columns.iter().position(|c| generator && c.name == name);
    let arrival = column_option(scope, options, "arrival_time", &[DataType::Timestamp])?.map(|(at, _)| at);
    let arrival_time = arrival.or_else(|| by_name("arrival_time"));
    let partition = column_option(scope, options, "partition", &[DataType::Text, DataType::BigInt])?.map(|(at, _)| at);
    let tick_place = options.place("tick");
    let granularity_us = options.duration_from("granularity", 1, "a duration above zero")?.unwrap_or(SECOND_US);
    let tick_us = options.duration_from("tick", 1, "a duration above zero")?.unwrap_or(SECOND_US);
    let timing = timing(options, arrival_time.is_some(), tick_us)?;
    if let (Some(place), None) = (tick_place, arrival_time) {
        return Err(options.at(place, "option \"tick\" needs arrival times").with_hint(ARRIVAL_HINT));
    }
    let partitions = if generator { Vec::new() } else { partition_list(options, partition.is_some())? };
    let late_records = options
        .choice("late_records", &[("window", LateRecords::Window), ("drop", LateRecords::Drop)])?
        .map_or(LateRecords::Window, |(v, _)| v);
    let on_error = options
        .choice("on_error", &[("reject", OnError::Reject), ("fail", OnError::Fail)])?
        .map_or(OnError::Reject, |(v, _)| v);
    let rejects = options.output_file("rejects")?.map(|(v, _)| v);
    let source = match connector {
        Connector::Generator(workload) => SourcePlan::Generator(generator_plan(options, workload)?),
        Connector::Stdin => SourcePlan::Stdin { format: format(options, None)? },
        _ => {
            let Some(path) = options.file("path")? else {
                return Err(options
                    .missing("the table has no path")
                    .with_hint("add path = 'FILE', or a glob such as 'data/*.ndjson.gz'"));
            };
            let format = format(options, Some(&path))?;
            SourcePlan::File { path: path.0, format }
        }
    };
    // The generator's partitions are named by their numbers, and all are known from the start.
    let partitions = match &source {
        SourcePlan::Generator(plan) if partition.is_some() => (0..plan.partitions).map(|p| p.to_string()).collect(),
        _ => partitions,
    };
    let time_unit_us = if generator {
        1_000
    } else {
        options.choice("time_unit", &[("us", 1), ("ms", 1_000), ("s", 1_000_000)])?.map_or(1_000, |(v, _)| v)
    };
    let (event_time, watermark, delay_us) = match watermark {
        Some((at, expr, delay)) => (Some(at), Some(expr), delay),
        None => (None, None, None),
    };
    Ok(TablePlan {
        name: scope.table.to_owned(),
        columns: scope.columns.to_vec(),
        event_time,
        watermark,
        delay_us,
        policy,
        arrival_time,
        partition,
        partitions,
        scope: timing.scope,
        idle_timeout_us: timing.idle_timeout_us,
        granularity_us,
        tick_us,
        max_future_us: timing.max_future_us,
        late_records,
        on_error,
        rejects,
        time_unit_us,
        source,
    })
}

const ARRIVAL_HINT: &str =
    "name the column that holds them: arrival_time = 'column'; without one, each partition is judged by itself";

struct Timing {
    scope: LatenessScope,
    idle_timeout_us: Option<i64>,
    max_future_us: Option<i64>,
}

/// The settings that hang on arrival times. A replay without an arrival column has none, and the wall clock must not
/// take their place: results would differ from run to run.
fn timing(options: &mut Options<'_>, has_arrival: bool, tick_us: i64) -> Result<Timing> {
    let needs = |options: &Options<'_>, key: &str| match options.place(key) {
        Some(place) if !has_arrival => {
            Err(options.at(place, format!("option \"{key}\" needs arrival times")).with_hint(ARRIVAL_HINT))
        }
        _ => Ok(()),
    };
    needs(options, "idle_timeout")?;
    needs(options, "max_future")?;
    let idle_place = options.place("idle_timeout");
    let least = format!("at least one tick ({})", crate::time::format_duration(tick_us));
    let idle_timeout_us = options.duration_from("idle_timeout", tick_us, &least)?;
    let max_future_us = options.duration_from("max_future", 0, "a duration of zero or more")?;
    let scopes = [("source", LatenessScope::Source), ("partition", LatenessScope::Partition)];
    let given = options.choice("lateness_scope", &scopes)?;
    let scope = match given {
        Some((LatenessScope::Source, span)) if !has_arrival => {
            let error = options.at(span, "lateness_scope = 'source' needs arrival times");
            return Err(error.with_hint(ARRIVAL_HINT));
        }
        Some((scope, _)) => scope,
        None if has_arrival => LatenessScope::Source,
        None => LatenessScope::Partition,
    };
    if let (Some(place), LatenessScope::Partition) = (idle_place, scope) {
        let error = options.at(place, "option \"idle_timeout\" has no meaning with lateness_scope = 'partition'");
        return Err(error.with_hint("in partition scope no partition waits for another; leave it out, or use 'source'"));
    }
    Ok(Timing { scope, idle_timeout_us, max_future_us })
}

/// `partitions = 'a,b,c'`.
fn partition_list(options: &mut Options<'_>, has_column: bool) -> Result<Vec<String>> {
    let Some((text, span)) = options.text("partitions")? else { return Ok(Vec::new()) };
    if !has_column {
        let error = options.at(span, "option \"partitions\" lists values of a column, and there is none");
        return Err(error.with_hint("name the column: partition = 'column'; without one, each file is a partition"));
    }
    let mut out: Vec<String> = Vec::new();
    for name in text.split(',').map(str::trim) {
        if name.is_empty() {
            return Err(options.at(span, "option \"partitions\": expected names such as 'a,b,c', found an empty one"));
        }
        if out.iter().any(|known| known == name) {
            return Err(options.at(span, format!("option \"partitions\": '{name}' is listed twice")));
        }
        out.push(name.to_owned());
    }
    Ok(out)
}

/// The format, by option or by the path's suffix, with the options of CSV.
fn format(options: &mut Options<'_>, path: Option<&Placed<String>>) -> Result<Format> {
    const FORMATS: [(&str, FormatName); 6] = [
        ("json", FormatName::Json),
        ("csv", FormatName::Csv),
        ("parquet", FormatName::Parquet),
        ("ndjson", FormatName::Json),
        ("jsonl", FormatName::Json),
        ("tsv", FormatName::Tsv),
    ];
    let (name, place) = match (options.choice("format", &FORMATS)?, path) {
        (Some((name, place)), _) => (name, place),
        (None, None) => (FormatName::Json, Span::empty()),
        (None, Some((path, place))) => match by_suffix(path) {
            Some(name) => (name, *place),
            None => {
                let error = options.at(*place, format!("the format of '{path}' is not known by its suffix"));
                return Err(error.with_hint("add format = 'json', 'csv', 'tsv' or 'parquet'"));
            }
        },
    };
    match name {
        FormatName::Json => Ok(Format::Json),
        FormatName::Csv => Ok(Format::Csv(csv_options(options, b',')?)),
        FormatName::Tsv => Ok(Format::Csv(csv_options(options, b'\t')?)),
        FormatName::Parquet if path.is_none() => {
            Err(options.at(place, "parquet cannot be read from standard input").with_hint("give it as a file"))
        }
        FormatName::Parquet if cfg!(feature = "parquet") => Ok(Format::Parquet),
        FormatName::Parquet => Err(options
            .at(place, "this build reads no parquet")
            .with_hint("build with: cargo build --release --features parquet")),
    }
}

fn by_suffix(path: &str) -> Option<FormatName> {
    let lower = path.to_lowercase();
    let bare = lower.strip_suffix(".gz").or_else(|| lower.strip_suffix(".zst")).unwrap_or(&lower);
    match bare.rsplit_once('.')?.1 {
        "ndjson" | "jsonl" | "json" => Some(FormatName::Json),
        "csv" => Some(FormatName::Csv),
        "tsv" => Some(FormatName::Tsv),
        "parquet" => Some(FormatName::Parquet),
        _ => None,
    }
}

fn csv_options(options: &mut Options<'_>, delimiter: u8) -> Result<CsvOptions> {
    let delimiter = match options.text("delimiter")? {
        None => delimiter,
        Some((text, span)) => match text.as_bytes() {
            [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => *byte,
            b"\\t" | b"tab" => b'\t',
            _ => {
                return Err(options.at(
                    span,
                    format!("option \"delimiter\": expected one ASCII character other than a quote or line end, found '{text}'"),
                ));
            }
        },
    };
    let null = options.text("null")?.map(|(text, _)| text).unwrap_or_default();
    let header = options.boolean("header")?.unwrap_or(true);
    Ok(CsvOptions { delimiter, null, header })
}

/// The generator's options; `partitions` is the number of partitions here.
fn generator_plan(options: &mut Options<'_>, workload: Workload) -> Result<GeneratorPlan> {
    let default = generator::default_plan();
    let zero = "a duration of zero or more";
    let start_us = match options.text("start")? {
        None => default.start_us,
        Some((text, span)) => crate::time::parse_timestamp(text.as_bytes()).ok_or_else(|| {
            options
                .at(span, format!("option \"start\": expected a time such as '2026-01-01T00:00:00Z', found '{text}'"))
        })?,
    };
    if let (Some(place), Workload::Nexmark) = (options.place("keys"), workload) {
        let error = options.at(place, "option \"keys\" is for workload = 'orders'");
        return Err(error.with_hint("how many auctions and people NEXMark has follows from rate and rows"));
    }
    let delay_quantiles = match options.text("delay_quantiles")? {
        None => default.delay_quantiles,
        Some((text, span)) => generator::parse_quantiles(&text)
            .map_err(|message| options.at(span, format!("option \"delay_quantiles\": {message}")))?,
    };
    let partitions = options.whole("partitions", 1, GENERATOR_PARTITIONS_MAX)?;
    Ok(GeneratorPlan {
        workload,
        seed: options.whole("seed", 0, u64::MAX)?.unwrap_or(default.seed),
        rows: options.whole("rows", 0, u64::MAX)?.unwrap_or(default.rows),
        rate: options
            .number("rate", |x| x > 0.0 && x <= 1e9, "records a second, above 0 and at most 1000000000")?
            .unwrap_or(default.rate),
        keys: options.whole("keys", 1, u64::MAX)?.unwrap_or(default.keys),
        partitions: partitions.and_then(|n| u32::try_from(n).ok()).unwrap_or(default.partitions),
        delay_mean_us: options.duration_from("delay_mean", 0, zero)?.unwrap_or(default.delay_mean_us),
        late_share: options
            .number("late_share", |x| (0.0..=1.0).contains(&x), "a share from 0 to 1")?
            .unwrap_or(default.late_share),
        late_max_us: options.duration_from("late_max", 0, zero)?.unwrap_or(default.late_max_us),
        delay_quantiles,
        delayed_keys: options
            .number("delayed_keys", |x| (0.0..=1.0).contains(&x), "a share from 0 to 1")?
            .unwrap_or(default.delayed_keys),
        key_delay_us: options.duration_from("key_delay", 0, zero)?.unwrap_or(default.key_delay_us),
        silent_every_us: options.duration_from("silent_every", 0, zero)?.unwrap_or(default.silent_every_us),
        silent_for_us: options.duration_from("silent_for", 0, zero)?.unwrap_or(default.silent_for_us),
        start_us,
    })
}
