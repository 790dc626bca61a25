//! The files of a report, as text, and the table of the grid, as rows.

use super::ledger::CellRecords;
use super::report::{Accuracy, Cell, LatencyFigures, Report};
use crate::time::format_duration;
use crate::types::DataType;
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
    let mut out = String::new();
    for (at, (name, _)) in grid_columns(report).iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        text(name, &mut out);
    }
    out.push('\n');
    grid_rows(report, |row| {
        for (at, field) in row.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            // Writing to a string does not fail.
            let _ = match field {
                Field::Empty => Ok(()),
                Field::NoHorizon => write!(out, "none"),
                Field::Number(n) => write!(out, "{n}"),
                Field::Ratio(x) => write!(out, "{x}"),
                Field::Text(field) => {
                    text(field, &mut out);
                    Ok(())
                }
            };
        }
        out.push('\n');
    });
    out
}

/// A field of the grid's table.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// There is no value.
    Empty,
    /// The horizon of cells that drop what is late.
    NoHorizon,
    /// A whole number.
    Number(i128),
    /// A share, a mean, an error.
    Ratio(f64),
    /// A name.
    Text(String),
}

/// Columns of the grid's table, by name and type.
pub fn grid_columns(report: &Report) -> Vec<(String, DataType)> {
    let mut out: Vec<(String, DataType)> = FIELDS
        .iter()
        .map(|name| {
            let dtype = match *name {
                "policy" | "revisions" => DataType::Text,
                "complete_first" | "complete_final" | "corrections_per_pair" => DataType::Double,
                _ => DataType::BigInt,
            };
            ((*name).to_owned(), dtype)
        })
        .collect();
    for compared in COMPARED {
        for (figure, dtype) in
            [("compared", DataType::BigInt), ("exact", DataType::BigInt), ("exact_share", DataType::Double)]
        {
            out.push((format!("{compared}_{figure}"), dtype));
        }
        for column in &report.columns {
            for figure in ["mean", "p50", "p99", "max", "bias"] {
                out.push((format!("{compared}_{column}_{figure}"), DataType::Double));
            }
            out.push((format!("{compared}_{column}_undefined"), DataType::BigInt));
        }
    }
    out
}

/// Takes the rows of the grid's table, one after the other.
pub fn grid_rows(report: &Report, mut take: impl FnMut(&[Field])) {
    let horizons = report.cells.len().checked_div(report.delays.len()).unwrap_or(1).max(1);
    for (at, cell) in report.cells.iter().enumerate() {
        let Some(figures) = report.delays.get(at / horizons) else { continue };
        let delay = Field::Number(figures.delay_us.into());
        let mut row = Row(vec![Field::Text("fixed".to_owned()), delay.clone(), delay.clone(), delay]);
        row.cell(report, (&figures.latency, figures.open_max), cell);
        take(&row.0);
    }
    for policy in &report.policies {
        for cell in &policy.cells {
            let mut row = Row(vec![Field::Text(policy.policy.clone()), Field::Empty]);
            row.maybe(&[policy.delay_mean_us]);
            row.0.push(Field::Number(policy.delay_max_us.into()));
            row.cell(report, (&policy.latency, policy.open_max), cell);
            take(&row.0);
        }
    }
    for delay in report.keyed.iter().flat_map(|keyed| &keyed.delays) {
        for cell in &delay.cells {
            let length = Field::Number(delay.delay_us.into());
            let policy = format!("keyed({})", format_duration(delay.delay_us));
            let mut row = Row(vec![Field::Text(policy), Field::Empty, length.clone(), length]);
            row.records(cell.horizon_us, &cell.records, [cell.complete_first, cell.complete_final]);
            row.latency(&delay.latency);
            row.0.resize(grid_columns(report).len(), Field::Empty);
            take(&row.0);
        }
    }
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

/// A row that is being filled.
struct Row(Vec<Field>);

impl Row {
    fn numbers(&mut self, values: &[u64]) {
        self.0.extend(values.iter().map(|n| Field::Number((*n).into())));
    }
    fn maybe(&mut self, values: &[Option<u64>]) {
        self.0.extend(values.iter().map(|value| value.map_or(Field::Empty, |n| Field::Number(n.into()))));
    }
    fn ratios(&mut self, values: &[Option<f64>]) {
        self.0.extend(values.iter().map(|value| value.map_or(Field::Empty, Field::Ratio)));
    }

    fn cell(&mut self, report: &Report, (latency, open_max): (&LatencyFigures, u64), cell: &Cell) {
        self.records(cell.horizon_us, &cell.records, [cell.complete_first, cell.complete_final]);
        self.latency(latency);
        self.numbers(&[cell.published, cell.lasting, cell.missing, cell.failed, cell.corrected, cell.corrections]);
        self.ratios(&[(cell.published > 0).then(|| cell.corrections as f64 / cell.published as f64)]);
        self.0.push(Field::Text(cell.revisions.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")));
        let last = &cell.last_correction;
        self.maybe(&[last.p50_us, last.p99_us, last.max_us]);
        self.numbers(&[open_max, cell.correctable_max, report.pair_bytes, cell.state_bytes_max]);
        for accuracy in [&cell.first_final, &cell.first_truth, &cell.final_truth] {
            self.compared(accuracy);
        }
    }

    fn records(&mut self, horizon_us: Option<i64>, records: &CellRecords, complete: [Option<f64>; 2]) {
        self.0.push(horizon_us.map_or(Field::NoHorizon, |us| Field::Number(us.into())));
        let judged = records.on_time + records.corrected + records.partly_too_late + records.too_late;
        self.numbers(&[judged, records.on_time, records.corrected, records.partly_too_late, records.too_late]);
        self.numbers(&[records.contributions_on_time, records.contributions_late, records.contributions_too_late]);
        self.ratios(&complete);
    }

    fn latency(&mut self, latency: &LatencyFigures) {
        self.numbers(&[latency.windows]);
        self.maybe(&[latency.p50_us, latency.p90_us, latency.p99_us, latency.max_us]);
        self.numbers(&[latency.early, latency.closed_at_end]);
    }

    fn compared(&mut self, accuracy: &Accuracy) {
        self.numbers(&[accuracy.compared, accuracy.exact]);
        self.ratios(&[accuracy.exact_share]);
        for column in &accuracy.columns {
            self.ratios(&[column.mean, column.p50, column.p99, column.max, column.bias]);
            self.numbers(&[column.undefined]);
        }
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
