//! The report as one page that needs nothing else: tables, and plots drawn here.
//!
//! It loads nothing, runs no script, and follows the reader's light or dark background by its style sheet. The same report gives the same bytes.

mod axis;
mod pictures;
mod plot;

use super::recommend::choose::{Part, Recommendation, Setting};
use super::report::Report;
use super::show;
use crate::sink::summary::grouped;
use crate::time::format_duration;
use pictures::Figure;
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");
const PAGE_STYLE: &str = include_str!("page.css");
/// Partitions or hours in a table.
const PARTS_MAX: usize = 64;

/// Text of `report.html`.
pub fn html(report: &Report) -> String {
    let mut out = String::new();
    let name = report.view.as_deref().unwrap_or("query");
    out.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Lateness of ");
    escape(name, &mut out);
    out.push_str("</title>\n<style>\n");
    out.push_str(STYLE);
    out.push_str(PAGE_STYLE);
    out.push_str("</style>\n</head>\n<body>\n<main>\n<h1>Lateness of ");
    escape(name, &mut out);
    out.push_str("</h1>\n");
    settings(report, &mut out);
    if let Some(found) = &report.recommendation {
        recommendation(report, found, &mut out);
    }
    out.push_str("<h2>By delay</h2>\n");
    overview(report, &mut out);
    out.push_str("<h2>Plots</h2>\n<div class=\"figures\">\n");
    for Figure { picture, caption, half } in pictures::figures(report) {
        out.push_str(if half { "<figure class=\"half\">\n" } else { "<figure>\n" });
        match picture {
            Ok(svg) => out.push_str(&svg),
            Err(why) => element("p", &format!("not drawn: {why}"), &mut out),
        }
        element("figcaption", &caption, &mut out);
        out.push_str("</figure>\n");
    }
    out.push_str("</div>\n");
    let version = env!("CARGO_PKG_VERSION");
    let end = format!(
        "slackwater {version}. All cells are in grid.csv, every lag in lags.csv, everything in report.json beside this page."
    );
    out.push_str("<p class=\"muted\">");
    escape(&end, &mut out);
    out.push_str("</p>\n</main>\n</body>\n</html>\n");
    out
}

/// Text of `frontier.svg`: the first plot, to be shown elsewhere. `None` if it cannot be drawn.
pub fn frontier_svg(report: &Report) -> Option<String> {
    let svg = pictures::frontier(report).ok()?;
    let (head, rest) = svg.split_once(">\n")?;
    let paper = "<rect width=\"100%\" height=\"100%\" fill=\"#FFFFFE\"/>\n";
    Some(format!("{head}>\n<style>\n{STYLE}</style>\n{paper}{rest}"))
}

/// Appends text as HTML and XML write it.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
}

fn element(tag: &str, text: &str, out: &mut String) {
    // Writing to a string does not fail.
    let _ = write!(out, "<{tag}>");
    escape(text, out);
    let _ = writeln!(out, "</{tag}>");
}

fn settings(report: &Report, out: &mut String) {
    let horizons = report.cells.len().checked_div(report.delays.len()).unwrap_or(1);
    let records = &report.records;
    let counts = format!(
        "Table {}: {} records read, {} filtered, {} rejected, {} judged. {} delays by {horizons} horizons, one pass.",
        report.table,
        grouped(records.read),
        grouped(records.filtered),
        grouped(records.rejected),
        grouped(records.judged),
        report.delays.len(),
    );
    element("p", &counts, out);
    let duration = |us: Option<i64>, none: &str| us.map_or_else(|| none.to_owned(), format_duration);
    let (time, truth) = match (report.latency_in, report.truth) {
        ("arrival", truth) => ("arrival", truth),
        (_, truth) => ("event", truth),
    };
    let truth = if truth == "all" { "all records" } else { "the greatest delay and horizon" };
    let how = format!(
        "Declared: delay {}, horizon {}, granularity {}. Result latency is in {time} time; the truth is the results of {truth}.",
        duration(report.declared_delay_us, "by policy or expression"),
        duration(report.declared_horizon_us, "none"),
        format_duration(report.granularity_us),
    );
    out.push_str("<p class=\"muted\">");
    escape(&how, out);
    out.push_str("</p>\n");
}

/// The table that the terminal shows.
fn overview(report: &Report, out: &mut String) {
    let (heading, rows) = show::overview(report);
    element("p", &heading, out);
    let chosen = report.recommendation.as_ref().and_then(|found| found.setting.as_ref());
    let chosen = chosen.map(|setting| format_duration(setting.delay_us));
    let chosen = |row: &[String]| row.first().is_some_and(|delay| chosen.as_ref() == Some(delay));
    table(&rows, &chosen, out);
    for line in show::policy_lines(report) {
        element("p", &line, out);
    }
}

fn table(rows: &[Vec<String>], chosen: &dyn Fn(&[String]) -> bool, out: &mut String) {
    out.push_str("<div class=\"scroll\"><table>\n");
    for (number, row) in rows.iter().enumerate() {
        let cell = if number == 0 { "th" } else { "td" };
        out.push_str(if number > 0 && chosen(row) { "<tr class=\"chosen\">" } else { "<tr>" });
        for text in row {
            let _ = write!(out, "<{cell}>");
            escape(text, out);
            let _ = write!(out, "</{cell}>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
}

fn recommendation(report: &Report, found: &Recommendation, out: &mut String) {
    out.push_str("<h2>Recommended</h2>\n");
    let asked = found.conditions.join(" and ");
    let Some(setting) = &found.setting else {
        element("p", &format!("No delay and horizon of the grid hold {asked}. The greatest gives:"), out);
        found.nearest.iter().for_each(|setting| results(setting, out));
        return;
    };
    let name = |setting: &Setting| {
        let horizon = setting.horizon_us.map_or_else(|| "none".to_owned(), format_duration);
        format!("delay {}, horizon {horizon}", format_duration(setting.delay_us))
    };
    element("p", &format!("For {asked}: {}, the cheapest of the grid.", name(setting)), out);
    let mut sql = String::new();
    show::sql_lines(report, setting).iter().for_each(|line| {
        let _ = writeln!(sql, "{line}");
    });
    element("pre", sql.trim_end(), out);
    results(setting, out);
    let how = format!(
        "Chosen by the first {} blocks of {} of event time, checked on the {} after them; intervals are the middle 95 % of {} draws of blocks with repeats (seed {}).",
        found.blocks_chosen_by,
        format_duration(found.block_us),
        found.blocks_checked_on,
        grouped(found.draws),
        found.seed,
    );
    out.push_str("<p class=\"muted\">");
    escape(&how, out);
    out.push_str("</p>\n");
    match &found.safe {
        Some(safe) => element("p", &format!("To hold at the worse end of the intervals too: {}.", name(safe)), out),
        None => element("p", "No setting of the grid is known to hold at the worse end of the intervals.", out),
    }
    parts("partition", &setting.by_partition, out);
}

/// Completeness by part, in the blocks that were only checked on.
fn parts(what: &str, parts: &[Part], out: &mut String) {
    if parts.len() < 2 {
        return;
    }
    let mut sorted: Vec<&Part> = parts.iter().collect();
    sorted.sort_by(|a, b| a.completeness.total_cmp(&b.completeness).then_with(|| a.name.cmp(&b.name)));
    element("p", &format!("In the later part, by {what}, the least complete first:"), out);
    let mut rows = vec![[what, "contributions", "in first results", "holds"].map(str::to_owned).to_vec()];
    for part in sorted.into_iter().take(PARTS_MAX) {
        let holds = part.holds.map_or("", |holds| if holds { "yes" } else { "no" });
        let (count, share) = (grouped(part.contributions), show::percent(Some(part.completeness)));
        rows.push(vec![part.name.clone(), count, share, holds.to_owned()]);
    }
    table(&rows, &|_| false, out);
}

fn results(setting: &Setting, out: &mut String) {
    let head = ["condition", "in the part chosen by", "95 % interval", "in the later part", "holds there"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for result in &setting.results {
        let both = |(low, high)| format!("{} to {}", show::percent(Some(low)), show::percent(Some(high)));
        let holds = result.holds_later.map_or("", |holds| if holds { "yes" } else { "no" });
        rows.push(vec![
            result.condition.clone(),
            show::percent(result.chosen),
            result.interval.map_or_else(|| "too few blocks".to_owned(), both),
            show::percent(result.checked),
            holds.to_owned(),
        ]);
    }
    table(&rows, &|_| false, out);
}

#[cfg(test)]
mod tests;
