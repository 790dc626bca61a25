//! The files of a report, as text.

use super::report::{Accuracy, Cell, LatencyFigures, Report};
use std::fmt::Write;

/// Text of `report.json`: everything, indented.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn report_json(report: &Report) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(report).map(|json| json + "\n")
}

/// Text of `lags.csv`: a line a partition, hour of day and bucket.
pub fn lags_csv(report: &Report) -> String {
    let mut out = String::from("partition,hour_utc,lag_from_us,lag_upto_us,records\n");
    for (partition, hour, lag) in &report.lags_by_partition {
        text(partition, &mut out);
        // Writing to a string does not fail.
        let _ = writeln!(out, ",{hour},{},{},{}", lag.from_us, lag.upto_us, lag.records);
    }
    out
}

/// Text of `grid.csv`: a line a cell, by delay, then horizon; then the policies, by horizon. An empty field: there is none.
pub fn grid_csv(report: &Report) -> String {
    let mut out = head(report).join(",");
    out.push('\n');
    let horizons = report.cells.len().checked_div(report.delays.len()).unwrap_or(1).max(1);
    for (at, cell) in report.cells.iter().enumerate() {
        let Some(figures) = report.delays.get(at / horizons) else { continue };
        let mut line = Line { out: &mut out, first: true };
        line.put("fixed");
        (0..3).for_each(|_| line.put(figures.delay_us));
        fields(report, (&figures.latency, figures.open_max), cell, &mut line);
        out.push('\n');
    }
    for policy in &report.policies {
        for cell in &policy.cells {
            let mut name = String::new();
            text(&policy.policy, &mut name);
            let mut line = Line { out: &mut out, first: true };
            line.put(name);
            line.put("");
            line.some(policy.delay_mean_us);
            line.put(policy.delay_max_us);
            fields(report, (&policy.latency, policy.open_max), cell, &mut line);
            out.push('\n');
        }
    }
    out
}

const FIELDS: [&str; 37] = [
    "policy",
    "delay_us",
    "delay_mean_us",
    "delay_max_us",
    "horizon_us",
    "records",
    "records_on_time",
    "records_corrected",
    "records_partly_too_late",
    "records_too_late",
    "contributions_on_time",
    "contributions_late",
    "contributions_too_late",
    "complete_first",
    "complete_final",
    "latency_windows",
    "latency_p50_us",
    "latency_p90_us",
    "latency_p99_us",
    "latency_max_us",
    "latency_early",
    "closed_at_end",
    "published",
    "lasting",
    "missing",
    "failed",
    "corrected",
    "corrections",
    "corrections_per_pair",
    "revisions",
    "last_correction_p50_us",
    "last_correction_p99_us",
    "last_correction_max_us",
    "open_max",
    "correctable_max",
    "pair_bytes",
    "state_bytes_max",
];

const COMPARED: [&str; 3] = ["first_final", "first_truth", "final_truth"];

fn head(report: &Report) -> Vec<String> {
    let mut head: Vec<String> = FIELDS.iter().map(|field| (*field).to_owned()).collect();
    for compared in COMPARED {
        head.extend(["compared", "exact", "exact_share"].map(|field| format!("{compared}_{field}")));
        for column in &report.columns {
            for figure in ["mean", "p50", "p99", "max", "bias", "undefined"] {
                let mut name = String::new();
                text(&format!("{compared}_{column}_{figure}"), &mut name);
                head.push(name);
            }
        }
    }
    head
}

/// A line of CSV that is being written.
struct Line<'a> {
    out: &'a mut String,
    first: bool,
}

impl Line<'_> {
    fn put(&mut self, value: impl std::fmt::Display) {
        if !std::mem::replace(&mut self.first, false) {
            self.out.push(',');
        }
        let _ = write!(self.out, "{value}");
    }
    fn all(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.put(value));
    }
    fn some_of(&mut self, values: &[Option<impl std::fmt::Display>]) {
        values.iter().for_each(|value| self.some(value.as_ref()));
    }
    fn some(&mut self, value: Option<impl std::fmt::Display>) {
        match value {
            Some(value) => self.put(value),
            None => self.put(""),
        }
    }
}

fn fields(report: &Report, (latency, open_max): (&LatencyFigures, u64), cell: &Cell, line: &mut Line<'_>) {
    let records = &cell.records;
    line.put(cell.horizon_us.map_or_else(|| "none".to_owned(), |us| us.to_string()));
    line.put(report.records.judged);
    line.all(&[records.on_time, records.corrected, records.partly_too_late, records.too_late]);
    line.all(&[records.contributions_on_time, records.contributions_late, records.contributions_too_late]);
    line.some(cell.complete_first);
    line.some(cell.complete_final);
    line.put(latency.windows);
    line.some_of(&[latency.p50_us, latency.p90_us, latency.p99_us, latency.max_us]);
    line.all(&[latency.early, latency.closed_at_end]);
    line.all(&[cell.published, cell.lasting, cell.missing, cell.failed, cell.corrected, cell.corrections]);
    line.some((cell.published > 0).then(|| cell.corrections as f64 / cell.published as f64));
    line.put(cell.revisions.iter().map(u64::to_string).collect::<Vec<_>>().join(" "));
    let last = &cell.last_correction;
    line.some_of(&[last.p50_us, last.p99_us, last.max_us]);
    line.all(&[open_max, cell.correctable_max, report.pair_bytes, cell.state_bytes_max]);
    for accuracy in [&cell.first_final, &cell.first_truth, &cell.final_truth] {
        compared(accuracy, line);
    }
}

fn compared(accuracy: &Accuracy, line: &mut Line<'_>) {
    line.put(accuracy.compared);
    line.put(accuracy.exact);
    line.some(accuracy.exact_share);
    for column in &accuracy.columns {
        line.some_of(&[column.mean, column.p50, column.p99, column.max, column.bias]);
        line.put(column.undefined);
    }
}

/// A CSV field, in quotes where it must be.
fn text(field: &str, out: &mut String) {
    if field.contains(['"', ',', '\n', '\r']) {
        out.push('"');
        out.push_str(&field.replace('"', "\"\""));
        out.push('"');
    } else {
        out.push_str(field);
    }
}
