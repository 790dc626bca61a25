//! The figures of a grid, and how they are written: a table for people, CSV and JSON.

use super::accuracy::{Comparison, Errors, PPB};
use super::setting::Setting;
use super::tallies::Tallies;
use crate::error::{Error, Result};
use crate::record::{ContributionCounts, Ledger, RecordCounts};
use crate::sink::summary::{WindowCounts, grouped};
use crate::time::format_duration;
use serde::Serialize;
use std::fmt::Write;

/// Version of the layout of `report.json`.
const FORMAT: u32 = 1;

/// What every cell of a grid would have given.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Version of this layout.
    pub format: u32,
    /// Name of the view; `null` for a SELECT without one.
    pub view: Option<String>,
    /// Name of its table.
    pub table: String,
    /// Granularity of stamps, µs.
    pub granularity_us: i64,
    /// Records read, rejects included.
    pub records: u64,
    /// Of these, removed by `WHERE`.
    pub filtered: u64,
    /// Of these, rejected.
    pub rejected: u64,
    /// Contributions, one for each record and window of it: the same in every cell.
    pub contributions: u64,
    /// The cells, by delay, then horizon.
    pub cells: Vec<Cell>,
}

/// One delay with one horizon: the figures of a run with these settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The delay, µs.
    pub delay_us: i64,
    /// The horizon, µs; `null`: late contributions are dropped.
    pub horizon_us: Option<i64>,
    /// Records by class; filtered and rejected ones are the same in every cell.
    pub records: RecordClasses,
    /// Contributions by class.
    pub contributions: ContributionCounts,
    /// Share of contributions that are in the first result of their window, 0 to 1; `null` if there are none.
    pub completeness_first: Option<f64>,
    /// Share that are in the final result.
    pub completeness_final: Option<f64>,
    /// First results and corrections.
    pub windows: CellWindows,
    /// Results against later ones, by column of the select list that is a number and depends on an aggregate.
    pub accuracy: Vec<ColumnAccuracy>,
}

/// How far the results of a column are from later ones; the *truth* is the final result under the greatest delay and horizon.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ColumnAccuracy {
    /// Name of the column.
    pub column: String,
    /// First results, on closing, against final ones.
    pub first_final: Deviations,
    /// First results against the truth; the same under every horizon.
    pub first_truth: Deviations,
    /// Final results against the truth.
    pub final_truth: Deviations,
}

/// Results against later ones, over the (key, window) panes that have both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Deviations {
    /// Panes that have the later result alone; not compared.
    pub missing: u64,
    /// Panes compared.
    pub compared: u64,
    /// Of these, equal ones.
    pub exact: u64,
    /// Of these, ones that differ and have no relative error: a value is NULL, NaN or infinite, or the later one is zero. They
    /// are left out of what follows.
    pub undefined: u64,
    /// Mean of |earlier − later| / |later|, each rounded to 1e-9; `null` if nothing is left.
    pub mean: Option<f64>,
    /// The median, at most 12.5 % above the true one and not below.
    pub p50: Option<f64>,
    /// The 99th percentile, with the same bound.
    pub p99: Option<f64>,
    /// The greatest; at most 1e9.
    pub max: Option<f64>,
}

impl Deviations {
    fn new(missing: u64, errors: &Errors) -> Deviations {
        let defined = errors.defined();
        let of_ppb = |ppb: u64| ppb as f64 / PPB;
        Deviations {
            missing,
            compared: defined + errors.undefined,
            exact: errors.exact,
            undefined: errors.undefined,
            mean: (defined > 0).then(|| errors.sum_ppb as f64 / defined as f64 / PPB),
            p50: errors.quantile_ppb(50).map(of_ppb),
            p99: errors.quantile_ppb(99).map(of_ppb),
            max: (defined > 0).then(|| of_ppb(errors.max_ppb)),
        }
    }
}

/// Records by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordClasses {
    /// On time for all their windows.
    pub on_time: u64,
    /// Accepted late for at least one window, dropped for none.
    pub corrected: u64,
    /// Dropped for at least one window, not for all.
    pub partly_too_late: u64,
    /// Dropped for all windows.
    pub too_late: u64,
}

impl From<&RecordCounts> for RecordClasses {
    fn from(counts: &RecordCounts) -> Self {
        let RecordCounts { on_time, corrected, partly_too_late, too_late, .. } = *counts;
        RecordClasses { on_time, corrected, partly_too_late, too_late }
    }
}

/// Counts of (key, window) panes and changes as published, after `HAVING`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CellWindows {
    /// Panes that got a first result, on closing or later.
    pub published: u64,
    /// Of these, those that got it with a late record, after their window had closed.
    pub published_late: u64,
    /// Changes at a stamp: an update is one, so are a row that a late record makes appear and one that leaves.
    pub corrections: u64,
    /// Panes with at least one correction.
    pub corrected: u64,
}

impl CellWindows {
    /// Whether a run that counts so published and corrected the same.
    pub fn is(&self, counts: &WindowCounts) -> bool {
        (self.published, self.corrections, self.corrected) == (counts.published, counts.corrections, counts.corrected)
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    // One rounding of a quotient of integers: the same everywhere.
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Report {
    /// From what a run with [`Setting::program`] counted, and its ledger.
    pub fn new(setting: &Setting, tallies: &Tallies, ledger: &Ledger) -> Report {
        let grid = &setting.grid;
        let counts = &ledger.contributions;
        let mut report = Report {
            format: FORMAT,
            view: setting.view().name.clone(),
            table: setting.table().name.clone(),
            granularity_us: grid.granularity_us(),
            records: ledger.records.read,
            filtered: ledger.records.filtered,
            rejected: ledger.records.rejected_total(),
            contributions: counts.on_time + counts.late + counts.too_late,
            cells: Vec::new(),
        };
        for (d, delay_us) in grid.delays_us().iter().enumerate() {
            for (h, horizon_us) in grid.horizons_us().iter().enumerate() {
                let contributions = contributions(tallies, ledger, d, h);
                let ContributionCounts { on_time, late, .. } = contributions;
                report.cells.push(Cell {
                    delay_us: *delay_us,
                    horizon_us: *horizon_us,
                    records: records(tallies, ledger, d, h),
                    contributions,
                    completeness_first: share(on_time, report.contributions),
                    completeness_final: share(on_time + late, report.contributions),
                    windows: windows(tallies, d, h),
                    accuracy: accuracy(setting, tallies, d, h),
                });
            }
        }
        report
    }

    /// Indented JSON.
    ///
    /// # Errors
    /// When it cannot be made, which only a lack of memory explains.
    pub fn json(&self) -> Result<String> {
        let json = serde_json::to_string_pretty(self);
        Ok(json.map_err(|e| Error::output("cannot write the report as JSON").with_source(e))? + "\n")
    }

    /// A line a cell, with a header. An empty field is `none`, or a share of nothing.
    pub fn csv(&self) -> String {
        let mut out = String::from(CSV_HEADER);
        for column in self.cells.first().iter().flat_map(|cell| &cell.accuracy) {
            for comparison in Comparison::ALL {
                for figure in DEVIATIONS {
                    out.push(',');
                    let name = format!("{}_{}_{figure}", column.column, comparison.name());
                    crate::sink::text::write_csv_text(&name, &mut out);
                }
            }
        }
        out.push('\n');
        let text = |share: Option<f64>| share.map_or_else(String::new, |share| format!("{share:.9}"));
        for cell in &self.cells {
            let Cell { records, contributions, windows, .. } = cell;
            let horizon = cell.horizon_us.map_or_else(String::new, |us| us.to_string());
            // Writing to a string does not fail.
            let _ = write!(
                out,
                "{},{horizon},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                cell.delay_us,
                records.on_time,
                records.corrected,
                records.partly_too_late,
                records.too_late,
                contributions.on_time,
                contributions.late,
                contributions.too_late,
                text(cell.completeness_first),
                text(cell.completeness_final),
                windows.published,
                windows.published_late,
                windows.corrections,
                windows.corrected,
            );
            for column in &cell.accuracy {
                for deviations in [&column.first_final, &column.first_truth, &column.final_truth] {
                    let Deviations { missing, compared, exact, undefined, mean, p50, p99, max } = deviations;
                    let [mean, p50, p99, max] = [*mean, *p50, *p99, *max].map(text);
                    let _ = write!(out, ",{missing},{compared},{exact},{undefined},{mean},{p50},{p99},{max}");
                }
            }
            out.push('\n');
        }
        out
    }

    /// For people: a head line and an aligned table with a row a cell.
    pub fn text(&self) -> String {
        let mut out = String::new();
        if let Some(view) = &self.view {
            crate::sink::text::write_visible(view, &mut out);
            out.push_str(": ");
        }
        let _ = writeln!(
            out,
            "{} records, {} filtered, {} rejected, {} contributions",
            grouped(self.records),
            grouped(self.filtered),
            grouped(self.rejected),
            grouped(self.contributions)
        );
        let mut rows: Vec<[String; COLUMNS]> = vec![TEXT_HEADER.map(str::to_owned)];
        rows.extend(self.cells.iter().map(Cell::row));
        let mut widths = [0; COLUMNS];
        for row in &rows {
            widths.iter_mut().zip(row).for_each(|(width, cell)| *width = (*width).max(cell.chars().count()));
        }
        for row in &rows {
            let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
            out.push_str(&cells.join("  "));
            out.push('\n');
        }
        out
    }
}

/// Figures of a comparison, as the names of CSV columns end.
const DEVIATIONS: [&str; 8] = ["missing", "compared", "exact", "undefined", "mean", "p50", "p99", "max"];

const CSV_HEADER: &str = "delay_us,horizon_us,records_on_time,records_corrected,records_partly_too_late,\
                          records_too_late,contributions_on_time,contributions_late,contributions_too_late,\
                          completeness_first,completeness_final,published,published_late,corrections,corrected";

/// Columns of the table for people.
const COLUMNS: usize = 10;

const TEXT_HEADER: [&str; COLUMNS] =
    ["delay", "horizon", "first", "final", "late", "dropped", "published", "corrections", "corrected", "mean error"];

/// A share as hundredths with three digits behind the point, cut so that only all is `100%`.
fn percent(part: u64, whole: u64) -> String {
    match (u128::from(part) * 100_000).checked_div(u128::from(whole)) {
        None => "-".to_owned(),
        Some(100_000) => "100%".to_owned(),
        Some(thousandths) => format!("{}.{:03}%", thousandths / 1_000, thousandths % 1_000),
    }
}

impl Cell {
    fn row(&self) -> [String; COLUMNS] {
        let ContributionCounts { on_time, late, too_late } = self.contributions;
        let all = on_time + late + too_late;
        let means = self.accuracy.iter().filter_map(|column| column.first_truth.mean);
        let mean = means.max_by(f64::total_cmp);
        [
            format_duration(self.delay_us),
            self.horizon_us.map_or_else(|| "none".to_owned(), format_duration),
            percent(on_time, all),
            percent(on_time + late, all),
            grouped(self.contributions.late),
            grouped(self.contributions.too_late),
            grouped(self.windows.published),
            grouped(self.windows.corrections),
            grouped(self.windows.corrected),
            mean.map_or_else(|| "-".to_owned(), |mean| format!("{:.3}%", mean * 100.0)),
        ]
    }
}

fn contributions(tallies: &Tallies, ledger: &Ledger, d: usize, h: usize) -> ContributionCounts {
    let ContributionCounts { on_time, late, too_late } = &ledger.contributions;
    let (accepted, all_late) = (tallies.late.under(d, h), tallies.late.total(d));
    ContributionCounts {
        on_time: (on_time + late).saturating_sub(all_late),
        late: accepted,
        too_late: too_late + all_late.saturating_sub(accepted),
    }
}

fn records(tallies: &Tallies, ledger: &Ledger, d: usize, h: usize) -> RecordClasses {
    let read = RecordClasses::from(&ledger.records);
    let (some, every, all_late) = (tallies.taken.under(d, h), tallies.taken_whole.under(d, h), tallies.taken.total(d));
    RecordClasses {
        on_time: (read.on_time + read.corrected + read.partly_too_late).saturating_sub(all_late),
        corrected: every,
        partly_too_late: some.saturating_sub(every),
        too_late: read.too_late + all_late.saturating_sub(some),
    }
}

fn accuracy(setting: &Setting, tallies: &Tallies, d: usize, h: usize) -> Vec<ColumnAccuracy> {
    let output = &setting.view().output;
    let deviations = tallies.accuracy.each_ref().map(|accuracy| {
        let missing = accuracy.missing(d, h);
        let errors = accuracy.of_cell(d, h, tallies.undisturbed).into_iter();
        errors.map(move |errors| Deviations::new(missing, &errors))
    });
    let [first_final, first_truth, final_truth] = deviations;
    let columns = tallies.accuracy.iter().take(1).flat_map(|accuracy| accuracy.columns());
    let names = columns.map(|column| output.get(*column).map_or("", |(name, _)| name));
    let all = names.zip(first_final).zip(first_truth).zip(final_truth);
    let column = |(((name, first_final), first_truth), final_truth)| ColumnAccuracy {
        column: String::from(name),
        first_final,
        first_truth,
        final_truth,
    };
    all.map(column).collect()
}

fn windows(tallies: &Tallies, d: usize, h: usize) -> CellWindows {
    let published_late = tallies.appeared.under(d, h);
    let closed = tallies.undisturbed + tallies.closed.get(d).copied().unwrap_or(0);
    CellWindows {
        published: closed + published_late,
        published_late,
        corrections: tallies.corrections.under(d, h),
        corrected: tallies.corrected.under(d, h),
    }
}
