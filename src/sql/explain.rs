//! `slackwater explain`: the plan, and the lateness rule in words.

use crate::aggregate::AggregateFunc;
use crate::plan::{
    AggregatePlan, Format, LateRecords, LatenessScope, OnError, Program, SinkFormat, SinkMode, SinkTarget, SourcePlan,
    TablePlan, ViewKind, ViewPlan, WindowPlan, WindowedPlan, Workload,
};
use crate::time::format_duration;
use crate::watermark::policy::PolicyPlan;
use std::fmt::Write;

/// A program in plain text: what is read, how the watermark moves, what each view computes, what a late record gets, and
/// where results go.
pub fn explain(program: &Program) -> String {
    let mut out = String::new();
    for table in &program.tables {
        table_text(table, &mut out);
    }
    for (at, view) in program.views.iter().enumerate() {
        if let Some(table) = program.tables.get(view.table) {
            view_text(program, at, view, table, &mut out);
        }
    }
    for warning in &program.warnings {
        line(&mut out, 0, &format!("warning: {warning}"));
    }
    out
}

fn line(out: &mut String, indent: usize, text: &str) {
    let _ = writeln!(out, "{:indent$}{text}", "");
}

fn column_name(table: &TablePlan, at: usize) -> &str {
    table.columns.get(at).map_or("?", |c| c.name.as_str())
}

fn names(table: &TablePlan) -> Vec<String> {
    table.columns.iter().map(|c| c.name.clone()).collect()
}

fn format_text(format: &Format) -> String {
    match format {
        Format::Json => "one JSON object a line".to_owned(),
        Format::Csv(csv) => {
            let header = if csv.header { "with a header" } else { "without header" };
            format!("CSV {header}, delimiter {:?}, NULL is {:?}", char::from(csv.delimiter), csv.null)
        }
        Format::Parquet => "Parquet".to_owned(),
    }
}

fn table_text(table: &TablePlan, out: &mut String) {
    line(out, 0, &format!("table {}", table.name));
    let source = match &table.source {
        SourcePlan::File { path, format } => format!("file {path}: {}", format_text(format)),
        SourcePlan::Stdin { format } => format!("standard input: {}", format_text(format)),
        SourcePlan::Generator(g) => {
            let keys = match g.workload {
                Workload::Orders => format!("{} orders, seed {}, {} keys", g.rows, g.seed, g.keys),
                Workload::Nexmark => format!("{} records of NEXMark, seed {}", g.rows, g.seed),
            };
            let plural = if g.partitions == 1 { "" } else { "s" };
            format!("generator: {keys}, {} records/s, {} partition{plural}", g.rate, g.partitions)
        }
    };
    line(out, 2, &format!("reads      {source}"));
    let columns: Vec<String> = table.columns.iter().map(|c| format!("{} {}", c.name, c.dtype)).collect();
    line(out, 2, &format!("columns    {}", columns.join(", ")));
    let partitions = match table.partition {
        Some(at) if table.partitions.is_empty() => {
            format!("the values of {}, discovered as they come", column_name(table, at))
        }
        Some(at) => format!(
            "the values of {}: {}, and others as they come",
            column_name(table, at),
            table.partitions.join(", ")
        ),
        None => "each file is one".to_owned(),
    };
    line(out, 2, &format!("partitions {partitions}"));
    line(out, 2, &format!("watermark  {}", watermark_text(table)));
    line(out, 2, &format!("stamp      {}", stamp_text(table)));
    if let Some(idle) = table.idle_timeout_us {
        line(
            out,
            2,
            &format!(
                "idle       a partition without records for {} of arrival time holds nothing back",
                format_duration(idle)
            ),
        );
    } else if table.scope == LatenessScope::Source {
        line(out, 2, "idle       a quiet partition holds the watermark back for ever (no idle_timeout)");
    }
    if let Some(future) = table.max_future_us {
        line(
            out,
            2,
            &format!("future     a record more than {} ahead of its arrival is rejected", format_duration(future)),
        );
    }
    let rejects =
        table.rejects.as_ref().map_or_else(|| "shown (the first ten)".to_owned(), |f| format!("written to {f}"));
    let on_error = match table.on_error {
        OnError::Reject => format!("counted by reason and {rejects}"),
        OnError::Fail => "end the run".to_owned(),
    };
    line(out, 2, &format!("rejects    {on_error}"));
}

fn watermark_text(table: &TablePlan) -> String {
    let Some(event_time) = table.event_time else {
        return "none: the table has no WATERMARK FOR, so no window can be over it".to_owned();
    };
    let et = column_name(table, event_time);
    let delay = format_duration(table.delay_us.unwrap_or(0));
    if let Some(policy) = &table.policy {
        let rule = match policy.plan {
            PolicyPlan::Quantile(_) => "a quantile of the partition's recent lags",
            PolicyPlan::Slack(_) => "the partition's greatest lag, decaying",
            PolicyPlan::Quality(_) => "the least with which the predicted error stays below the target, by partition",
        };
        return format!("the greatest {et} so far, minus {rule} ({}); at first minus {delay}", policy.plan);
    }
    match (table.delay_us, &table.watermark) {
        (Some(0), _) => format!("the greatest {et} so far"),
        (Some(_), _) => format!("the greatest {et} so far, minus {delay}"),
        (None, Some(expr)) => format!("the greatest {} so far", expr.display(&names(table))),
        (None, None) => format!("the greatest {et} so far"),
    }
}

fn stamp_text(table: &TablePlan) -> String {
    let granularity = format_duration(table.granularity_us);
    match table.scope {
        LatenessScope::Source => format!(
            "the watermark of the whole source when the record was read (other partitions as of the last tick of {}), rounded down to {granularity}",
            format_duration(table.tick_us)
        ),
        LatenessScope::Partition => {
            format!("the watermark of the record's own partition when it was read, rounded down to {granularity}")
        }
    }
}

fn view_text(program: &Program, at: usize, view: &ViewPlan, table: &TablePlan, out: &mut String) {
    let columns = names(table);
    line(out, 0, &view.name.as_ref().map_or_else(|| "select".to_owned(), |n| format!("view {n}")));
    line(out, 2, &format!("reads      {}", table.name));
    if let Some(filter) = &view.filter {
        line(
            out,
            2,
            &format!(
                "where      {} (a record that is filtered has moved the watermark already)",
                filter.display(&columns)
            ),
        );
    }
    match &view.kind {
        ViewKind::PassThrough(_) => line(out, 2, "rows       pass through, each at its stamp"),
        ViewKind::Windowed(windowed) => windowed_text(windowed, &columns, out),
    }
    let output: Vec<String> = view.output.iter().map(|(name, dtype)| format!("{name} {dtype}")).collect();
    line(out, 2, &format!("output     {}", output.join(", ")));
    line(out, 2, "lateness");
    for sentence in lateness(view, table) {
        line(out, 4, &sentence);
    }
    for sink in program.sinks.iter().filter(|s| s.view == at) {
        let mode = match sink.mode {
            SinkMode::Changelog => "changelog",
            SinkMode::Metrics => "metrics",
            SinkMode::Backfills => "backfills",
        };
        let target = match &sink.target {
            SinkTarget::Stdout(None) => "standard output".to_owned(),
            SinkTarget::Stdout(Some(format)) => format!("standard output as {}", sink_format(*format)),
            SinkTarget::File(path, format) => format!("{path} as {}", sink_format(*format)),
        };
        line(out, 2, &format!("sink       {mode} to {target}"));
    }
}

fn sink_format(format: SinkFormat) -> &'static str {
    match format {
        SinkFormat::Ndjson => "NDJSON",
        SinkFormat::Csv => "CSV",
        SinkFormat::Table => "a table",
        SinkFormat::Parquet => "Parquet",
    }
}

fn window_text(window: &WindowPlan) -> String {
    let size = format_duration(window.size_us);
    let mut text = if window.slide_us == window.size_us {
        format!("tumbling, {size}")
    } else {
        format!("hopping, {size} every {}", format_duration(window.slide_us))
    };
    if window.offset_us != 0 {
        let _ = write!(text, ", shifted by {}", format_duration(window.offset_us));
    }
    text
}

fn windowed_text(plan: &WindowedPlan, columns: &[String], out: &mut String) {
    line(out, 2, &format!("windows    {}", window_text(&plan.window)));
    let group: Vec<String> = plan.group.iter().map(|g| g.display(columns).to_string()).collect();
    if !group.is_empty() {
        line(out, 2, &format!("group by   {}", group.join(", ")));
    }
    let aggregates: Vec<String> = plan.aggregates.iter().map(|a| aggregate_text(a, columns)).collect();
    if !aggregates.is_empty() {
        line(out, 2, &format!("aggregates {}", aggregates.join(", ")));
    }
    if let Some(having) = &plan.having {
        let window = ["window_start".to_owned(), "window_end".to_owned()];
        let row: Vec<String> = group.into_iter().chain(window).chain(aggregates).collect();
        line(out, 2, &format!("having     {}", unquoted(having.display(&row).to_string(), &row)));
    }
}

/// Aggregates stand for columns here, and are no names that need quotes.
fn unquoted(text: String, row: &[String]) -> String {
    row.iter().fold(text, |text, name| text.replace(&format!("\"{}\"", name.replace('"', "\"\"")), name))
}

/// The rule of SEMANTICS §4 for this view, one sentence a case.
fn lateness(view: &ViewPlan, table: &TablePlan) -> Vec<String> {
    let mut out = Vec::new();
    let late = view.late.as_ref().map_or_else(|| "and counted".to_owned(), |f| format!("counted, and written to {f}"));
    if table.late_records == LateRecords::Drop {
        out.push(format!(
            "a record whose event time is before its stamp is dropped for all windows, open ones too (late_records = 'drop'), {late}"
        ));
    }
    if matches!(view.kind, ViewKind::PassThrough(_)) {
        if out.is_empty() {
            out.push(
                "a row is never late: it appears once the watermark has reached its stamp, and is not changed again"
                    .to_owned(),
            );
        }
        return out;
    }
    out.push(
        "a record whose stamp is before the window's end is on time: part of the first result, published (+I) when the watermark reaches the end"
            .to_owned(),
    );
    if table.late_records == LateRecords::Drop {
        out.push("so a published result is never corrected".to_owned());
        return out;
    }
    match view.horizon_us {
        None => out.push(format!("a record whose stamp is at or past the window's end is too late: dropped, {late} (no horizon is set)")),
        Some(0) => {
            out.push("a record whose stamp is exactly the window's end is late, and corrects its result (-U, +U, or +I if it is the first)".to_owned());
            out.push(format!("any later one is dropped, {late}"));
        }
        Some(horizon) if horizon >= super::table::FOREVER_US => out.push(
            "a record whose stamp is at or past the window's end is late, and corrects its result (-U, +U, or +I if it is the first), however late it is; results are never final"
                .to_owned(),
        ),
        Some(horizon) => {
            let horizon = format_duration(horizon);
            out.push(format!(
                "a record whose stamp is at or past the window's end, by up to {horizon}, is late: it corrects the result at its stamp (-U, +U, or +I if it is the first)"
            ));
            out.push(format!("once the watermark is more than {horizon} past the end, it is too late: dropped, {late}; the result is final"));
        }
    }
    if let ViewKind::Windowed(plan) = &view.kind
        && plan.window.slide_us < plan.window.size_us
    {
        let per = plan.window.size_us / plan.window.slide_us.max(1)
            + i64::from(plan.window.size_us % plan.window.slide_us.max(1) != 0);
        out.push(format!("each of the (up to {per}) windows that hold a record judges it by itself"));
    }
    if view.horizon_us.is_some() {
        out.push(format!(
            "backfills: a window with up to {} late record(s) is minor, with more a spike",
            view.spike_above
        ));
    }
    out
}

fn aggregate_text(aggregate: &AggregatePlan, columns: &[String]) -> String {
    let arg = aggregate.arg.as_ref().map_or_else(|| "*".to_owned(), |a| a.display(columns).to_string());
    let mut text = match aggregate.spec.func {
        AggregateFunc::CountAll => "count(*)".to_owned(),
        AggregateFunc::CountDistinct => format!("count(DISTINCT {arg})"),
        AggregateFunc::ApproxPercentile(share) => format!("approx_percentile({arg}, {share})"),
        func => format!("{}({arg})", snake(&format!("{func:?}"))),
    };
    if let Some(filter) = &aggregate.filter {
        let _ = write!(text, " FILTER (WHERE {})", filter.display(columns));
    }
    text
}

/// `VarSamp` is `var_samp`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}
