//! The report in a few lines, for a terminal.

use super::lags::quantile;
use super::recommend::choose::{Recommendation, Setting};
use super::report::{Cell, LagRow, LatencyFigures, PolicyFigures, Report};
use crate::sink::summary::grouped;
use crate::time::format_duration;
use std::fmt::Write;

/// Delays that are shown at most; of more, as many evenly spaced ones, the first and the last among them.
const SHOWN_MAX: usize = 16;
/// Characters of the sparkline.
const SPARKS: usize = 32;

/// A table with a line a delay (at the longest horizon), and the distribution of lags above it.
pub fn show(report: &Report) -> String {
    let horizons = report.cells.len().checked_div(report.delays.len()).unwrap_or(1).max(1);
    let mut out = String::new();
    let name = report.view.as_deref().unwrap_or("query");
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{name}: {} of {} records judged, {} delays × {horizons} horizons",
        grouped(report.records.judged),
        grouped(report.records.read),
        report.delays.len(),
    );
    lags(&report.lags, &mut out);
    let (heading, rows) = overview(report);
    let _ = writeln!(out, "{heading}");
    table(&rows, &mut out);
    policy_lines(report).iter().for_each(|line| {
        let _ = writeln!(out, "{line}");
    });
    if let Some(recommendation) = &report.recommendation {
        recommended(report, recommendation, &mut out);
    }
    if !report.policies.is_empty() && report.truth != "all" {
        out.push_str("policies are held against their own results at the greatest horizon\n");
    }
    out
}

/// What the table below is about, and its rows: the head, a row a delay (at the longest horizon), then policies.
pub(super) fn overview(report: &Report) -> (String, Vec<Vec<String>>) {
    let horizons = report.cells.len().checked_div(report.delays.len()).unwrap_or(1).max(1);
    let horizon = report.cell(0, horizons - 1).and_then(|cell| cell.horizon_us);
    let horizon = horizon.map_or_else(|| "none".to_owned(), format_duration);
    let column = report.columns.first().map_or("", String::as_str);
    let mut rows: Vec<Vec<String>> = vec![
        [
            "delay",
            "in first result",
            "latency p50",
            "latency p99",
            "exact at first",
            &format!("error p99 {column}"),
            "corrections/pair",
            "in final result",
            "state",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    let recommended = report.recommendation.as_ref().and_then(|found| found.setting.as_ref());
    let own = report.delays.iter().position(|delay| Some(delay.delay_us) == recommended.map(|found| found.delay_us));
    let mut delays = shown(report.delays.len());
    delays.extend(own);
    delays.sort_unstable();
    delays.dedup();
    for delay in delays {
        if let (Some(figures), Some(cell)) = (report.delays.get(delay), report.cell(delay, horizons - 1)) {
            rows.push(row(format_duration(figures.delay_us), &figures.latency, cell));
        }
    }
    for (number, policy) in (1..).zip(&report.policies) {
        if let Some(cell) = policy.cells.last() {
            rows.push(row(format!("({number})"), &policy.latency, cell));
        }
    }
    for delay in report.keyed.iter().flat_map(|keyed| &keyed.delays) {
        let cell = delay.cells.last();
        let none = || "-".to_owned();
        rows.push(vec![
            format!("keyed({})", format_duration(delay.delay_us)),
            percent(cell.and_then(|cell| cell.complete_first)),
            duration(delay.latency.p50_us),
            duration(delay.latency.p99_us),
            none(),
            none(),
            none(),
            percent(cell.and_then(|cell| cell.complete_final)),
            none(),
        ]);
    }
    (format!("at horizon {horizon}, against the {}:", truth(report)), rows)
}

/// What the policies of the table are.
pub(super) fn policy_lines(report: &Report) -> Vec<String> {
    let line = |(number, policy): (usize, &PolicyFigures)| {
        let (mean, max) = (rough(policy.delay_mean_us.unwrap_or(0)), rough(policy.delay_max_us.unsigned_abs()));
        format!("({number}) {}: delay {mean} on average, {max} at most", policy.policy)
    };
    let mut out: Vec<String> = (1..).zip(&report.policies).map(line).collect();
    out.extend(
        report.keyed.as_ref().map(|keyed| format!("keyed: a watermark for each of {} keys", grouped(keyed.keys))),
    );
    out
}

/// SQL of a setting, to paste.
pub(super) fn sql_lines(report: &Report, setting: &Setting) -> Vec<String> {
    let et = &report.event_time;
    let mut out = vec![format!("WATERMARK FOR {et} AS {et} - INTERVAL '{}'", format_duration(setting.delay_us))];
    out.push(match setting.horizon_us.map(format_duration) {
        Some(horizon) => format!("CREATE MATERIALIZED VIEW … WITH (horizon = '{horizon}')"),
        None => "CREATE MATERIALIZED VIEW … without horizon: late records are dropped".to_owned(),
    });
    out
}

/// What is recommended, in a few lines, and the SQL for it.
fn recommended(report: &Report, found: &Recommendation, out: &mut String) {
    let asked = found.conditions.join(" and ");
    let (chosen, checked) = (found.blocks_chosen_by, found.blocks_checked_on);
    let block = rough(found.block_us.unsigned_abs());
    let blocks =
        |one: &str| if chosen == 1 { format!("{one} of {block}") } else { format!("{chosen} blocks of {block}") };
    let Some(setting) = &found.setting else {
        let _ = writeln!(out, "\nno delay and horizon of the grid hold {asked} ({}); the greatest:", blocks("1 block"));
        found.nearest.iter().for_each(|setting| results(setting, out));
        return;
    };
    let horizon = setting.horizon_us.map_or_else(|| "none".to_owned(), format_duration);
    let delay = format_duration(setting.delay_us);
    let _ = writeln!(out, "\nrecommended: delay {delay}, horizon {horizon}, for {asked}");
    let _ = writeln!(out, "chosen by the first {}, checked on the {checked} after them:", blocks("block"));
    results(setting, out);
    for (what, parts) in [("partitions", &setting.by_partition), ("hours of day (UTC)", &setting.by_hour)] {
        let mut broken: Vec<_> = parts.iter().filter(|part| part.holds == Some(false)).collect();
        if broken.is_empty() {
            continue;
        }
        broken.sort_by(|a, b| a.completeness.total_cmp(&b.completeness).then_with(|| a.name.cmp(&b.name)));
        let worst = broken.iter().take(5).map(|part| format!("{} {}", part.name, percent(Some(part.completeness))));
        let worst = worst.collect::<Vec<_>>().join(", ");
        let _ = writeln!(out, "  completeness is below that in {} of {} {what}: {worst}", broken.len(), parts.len());
    }
    match &found.safe {
        Some(safe) if (safe.delay_us, safe.horizon_us) == (setting.delay_us, setting.horizon_us) => {}
        Some(safe) => {
            let horizon = safe.horizon_us.map_or_else(|| "none".to_owned(), format_duration);
            let delay = format_duration(safe.delay_us);
            let _ = writeln!(out, "to hold at the worse end of the intervals too: delay {delay}, horizon {horizon}");
        }
        None if setting.results.iter().any(|result| result.interval.is_some()) => {
            out.push_str("no setting of the grid holds at the worse end of the intervals\n");
        }
        None => out.push_str("too few blocks for intervals\n"),
    }
    sql_lines(report, setting).iter().for_each(|line| {
        let _ = writeln!(out, "  {line}");
    });
}

fn results(setting: &Setting, out: &mut String) {
    for result in &setting.results {
        let interval =
            result.interval.map(|(low, high)| format!(" ({} to {})", percent(Some(low)), percent(Some(high))));
        let later = match (result.checked, result.holds_later) {
            (Some(value), Some(true)) => format!("later {}, holds", percent(Some(value))),
            (Some(value), _) => format!("later {}, does NOT hold", percent(Some(value))),
            (None, _) => "nothing to check it on".to_owned(),
        };
        let (chosen, interval) = (percent(result.chosen), interval.unwrap_or_default());
        let _ = writeln!(out, "  {}: {chosen}{interval}; {later}", result.condition);
    }
}

/// A line of the table.
fn row(name: String, latency: &LatencyFigures, cell: &Cell) -> Vec<String> {
    let column = cell.first_truth.columns.first();
    vec![
        name,
        percent(cell.complete_first),
        duration(latency.p50_us),
        duration(latency.p99_us),
        percent(cell.first_truth.exact_share),
        percent(column.and_then(|column| column.p99)),
        ratio(cell.corrections, cell.published),
        percent(cell.complete_final),
        bytes(cell.state_bytes_max),
    ]
}

fn truth(report: &Report) -> &'static str {
    if report.truth == "all" { "results of all records" } else { "results at the greatest delay and horizon" }
}

/// Which of `n` delays are shown.
fn shown(n: usize) -> Vec<usize> {
    if n <= SHOWN_MAX {
        return (0..n).collect();
    }
    (0..SHOWN_MAX).map(|i| i * (n - 1) / (SHOWN_MAX - 1)).collect()
}

/// Quantiles of lags, and their distribution over powers of two.
fn lags(lags: &[LagRow], out: &mut String) {
    let total: u64 = lags.iter().map(|lag| lag.records).sum();
    if total == 0 {
        return;
    }
    let buckets: Vec<(u64, u64)> = lags.iter().map(|lag| (lag.upto_us, lag.records)).collect();
    let quantiles = [(500, "p50"), (900, "p90"), (990, "p99"), (1000, "max")];
    let quantiles = quantiles.map(|(permille, name)| match quantile(&buckets, permille) {
        0 => format!("{name} 0s"),
        upto_us => format!("{name} ≤ {}", rough(upto_us)),
    });
    let _ = writeln!(out, "records behind the newest event: {}", quantiles.join("  "));
    let mut counts = [0u64; SPARKS];
    let spark = |us: u64| ((u64::BITS - us.leading_zeros()).saturating_sub(9) as usize).min(SPARKS - 1);
    let late = lags.iter().filter(|lag| lag.upto_us > 0);
    let (mut first, mut last) = (SPARKS, 0);
    for lag in late {
        let at = spark(lag.upto_us);
        (first, last) = (first.min(at), last.max(at));
        counts.get_mut(at).into_iter().for_each(|count| *count += lag.records);
    }
    let Some(shown) = counts.get(first..=last) else { return };
    let most = shown.iter().copied().max().unwrap_or(0).max(1) as f64;
    // By the logarithm, or the tail would not be seen.
    let height = |n: u64| if n == 0 { 0.0 } else { (n as f64 + 1.0).log2() / (most + 1.0).log2() };
    let marks = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bars: String =
        shown.iter().map(|n| marks.get(((height(*n) * 8.0).ceil() as usize).min(8)).copied().unwrap_or(' ')).collect();
    let upto = |at: usize| rough(1u64 << (at + 9).min(62));
    let from = if first == 0 { "0s".to_owned() } else { upto(first - 1) };
    let _ = writeln!(out, "lags from {from} {bars} to {} (each step doubles; height: log of records)", upto(last));
}

/// A duration to three digits or so.
pub(super) fn rough(us: u64) -> String {
    let steps = [(86_400_000_000u64, "d"), (3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms")];
    for (unit_us, unit) in steps {
        if us >= unit_us {
            let tenths = (u128::from(us) * 10 / u128::from(unit_us)) as u64;
            return match (tenths / 10, tenths % 10) {
                (whole @ 100.., _) | (whole, 0) => format!("{whole}{unit}"),
                (whole, tenth) => format!("{whole}.{tenth}{unit}"),
            };
        }
    }
    if us == 0 { "0s".to_owned() } else { format!("{us}us") }
}

fn duration(us: Option<u64>) -> String {
    us.map_or_else(|| "-".to_owned(), rough)
}

/// A share with as many digits as tell it from 0 % and 100 %, up to a millionth.
pub(super) fn percent(share: Option<f64>) -> String {
    let Some(share) = share else { return "-".to_owned() };
    let percent = share * 100.0;
    let near = percent.min((100.0 - percent).abs());
    let digits = match near {
        _ if percent == 0.0 || percent == 100.0 => 0,
        near if near >= 0.1 => 1,
        near if near >= 0.01 => 2,
        _ => 4,
    };
    format!("{percent:.digits$} %")
}

fn ratio(n: u64, of: u64) -> String {
    if of == 0 { "-".to_owned() } else { format!("{:.3}", n as f64 / of as f64) }
}

pub(super) fn bytes(n: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.iter().find(|(size, _)| n >= *size);
    unit.map_or_else(|| format!("{n} B"), |(size, unit)| format!("{:.1} {unit}", n as f64 / *size as f64))
}

/// Columns to the right, but for the first.
fn table(rows: &[Vec<String>], out: &mut String) {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
}
