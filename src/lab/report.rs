//! The figures of every cell by name, and `report.json`, `grid.csv` and `lags.csv`.
//!
//! Nothing here depends on how the input was read or by how many workers: there are no seconds and no memory of this run.
//! `docs/lateness.md` defines every figure, with unit and bound.

use super::blocks::BlockSums;
use super::buckets;
use super::drift;
use super::figures::{self, COMPARISONS, CellSums, Figures, Off};
use super::grid::Grid;
use super::lags::{LagBucket, quantile};
use super::ledger::CellRecords;
use super::outcome::Outcome;
use super::pairs::measured;
use super::plan::{LabPlan, LabSet};
use super::recommend::choose::{self, Recommendation};
use super::timeline::Latency;
use crate::aggregate::table::Table;
use crate::engine::ingest::table_spec;
use crate::engine::output::Ending;
use crate::plan::{TablePlan, ViewPlan, WindowedPlan};
use crate::sink::summary::LagSummary;
use crate::sql::quoted_path;
use serde::Serialize;

/// Everything that is reported.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The view; `None`: a bare SELECT.
    pub view: Option<String>,
    /// Its table.
    pub table: String,
    /// The delay that the table declares, µs; `None`: not a fixed one.
    pub declared_delay_us: Option<i64>,
    /// The horizon that the view declares, µs.
    pub declared_horizon_us: Option<i64>,
    /// Granularity of stamps, µs.
    pub granularity_us: i64,
    /// What counts as the truth: `grid` (the greatest delay and horizon) or `all` (every record).
    pub truth: &'static str,
    /// What result latencies are measured in: `arrival` or `event` time.
    pub latency_in: &'static str,
    /// Quantiles of latencies are too high by at most this share of themselves.
    pub latency_error_max: f64,
    /// Other quantiles are too high by at most this share of themselves.
    pub quantile_error_max: f64,
    /// Names of the measured columns.
    pub columns: Vec<String>,
    /// Estimated bytes of a pair.
    pub pair_bytes: u64,
    /// Records by what does not depend on the cell.
    pub records: RecordsRead,
    /// Lags of all records behind the newest event.
    pub lags: Vec<LagRow>,
    /// Lags by stretch of event time.
    pub drift: Vec<DriftRow>,
    /// By delay.
    pub delays: Vec<DelayFigures>,
    /// By delay, then horizon.
    pub cells: Vec<Cell>,
    /// Policies beside the grid.
    pub policies: Vec<PolicyFigures>,
    /// Keyed watermarks beside the grid, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keyed: Option<KeyedReport>,
    /// What is recommended, if something was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<Recommendation>,
    /// The event-time column, as SQL writes it.
    #[serde(skip)]
    pub event_time: String,
    /// Rows of `lags.csv`.
    #[serde(skip)]
    pub lags_by_partition: Vec<(String, u64, LagRow)>,
}

/// Records of the view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordsRead {
    /// Read.
    pub read: u64,
    /// Removed by `WHERE`.
    pub filtered: u64,
    /// Rejected.
    pub rejected: u64,
    /// What is left: these are on time, corrected or too late in each cell.
    pub judged: u64,
}

/// A bucket of lags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LagRow {
    /// Least lag, µs.
    pub from_us: u64,
    /// Greatest lag, µs.
    pub upto_us: u64,
    /// Records.
    pub records: u64,
}

/// Lags of the records of a stretch of event time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DriftRow {
    /// Where it begins, µs since 1970.
    pub from_us: i64,
    /// Where it ends, µs since 1970; not in it.
    pub upto_us: i64,
    /// Records.
    pub records: u64,
    /// Half of the lags are at most this, µs; quantiles are those of buckets, too high by at most 1/8 of themselves.
    pub p50_us: u64,
    /// 90 %.
    pub p90_us: u64,
    /// 99 %.
    pub p99_us: u64,
}

/// What depends on the delay alone.
#[derive(Clone, Debug, Serialize)]
pub struct DelayFigures {
    /// The delay, µs.
    pub delay_us: i64,
    /// Result latency.
    pub latency: LatencyFigures,
    /// Most pairs open at once.
    pub open_max: u64,
}

/// What a policy gives in the place of a delay.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyFigures {
    /// The policy, as it may be written.
    pub policy: String,
    /// Mean over the records of the delay in force, µs.
    pub delay_mean_us: Option<u64>,
    /// The longest delay that was in force, µs.
    pub delay_max_us: i64,
    /// Result latency.
    pub latency: LatencyFigures,
    /// Most pairs open at once.
    pub open_max: u64,
    /// By horizon; their delay is 0. What they hold rows against is the policy's own result at the greatest horizon, unless the truth is
    /// all records.
    pub cells: Vec<Cell>,
}

/// Keyed watermarks: one for each key.
#[derive(Clone, Debug, Serialize)]
pub struct KeyedReport {
    /// Keys, in each partition by itself.
    pub keys: u64,
    /// By delay.
    pub delays: Vec<KeyedFigures>,
}

/// Keyed watermarks under a delay.
#[derive(Clone, Debug, Serialize)]
pub struct KeyedFigures {
    /// The delay, µs.
    pub delay_us: i64,
    /// Result latency, of keys and windows.
    pub latency: LatencyFigures,
    /// By horizon.
    pub cells: Vec<KeyedCell>,
}

/// Keyed watermarks under a delay and horizon.
#[derive(Clone, Debug, Serialize)]
pub struct KeyedCell {
    /// The horizon, µs; `None`: late contributions are dropped.
    pub horizon_us: Option<i64>,
    /// Records and contributions by class.
    pub records: CellRecords,
    /// Share of contributions that are part of first results.
    pub complete_first: Option<f64>,
    /// Share of contributions that are part of final results.
    pub complete_final: Option<f64>,
}

/// Result latency of windows, µs.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyFigures {
    /// Windows that have one.
    pub windows: u64,
    /// Median.
    pub p50_us: Option<u64>,
    /// 90 %.
    pub p90_us: Option<u64>,
    /// 99 %.
    pub p99_us: Option<u64>,
    /// The greatest, exact.
    pub max_us: Option<u64>,
    /// Windows whose end was reached before it had come; they count as 0.
    pub early: u64,
    /// Windows that the end of the input closed; they have no latency.
    pub closed_at_end: u64,
}

/// One delay and horizon.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The delay, µs.
    pub delay_us: i64,
    /// The horizon, µs; `None`: late contributions are dropped.
    pub horizon_us: Option<i64>,
    /// Records and contributions by class.
    pub records: CellRecords,
    /// Share of contributions that are part of first results.
    pub complete_first: Option<f64>,
    /// Share of contributions that are part of final results.
    pub complete_final: Option<f64>,
    /// Pairs that got a first result.
    pub published: u64,
    /// Pairs that have a result at the end.
    pub lasting: u64,
    /// Pairs that the truth has and the cell never published.
    pub missing: u64,
    /// Pairs with a result that cannot be computed: a run with these settings ends with an error.
    pub failed: u64,
    /// Pairs that were corrected.
    pub corrected: u64,
    /// Corrections.
    pub corrections: u64,
    /// Item `r` counts the pairs that reached revision `r`; the last of 33 counts every revision from there on.
    pub revisions: Vec<u64>,
    /// From a window's end to the last correction of a pair.
    pub last_correction: Spread,
    /// The first result against the final one.
    pub first_final: Accuracy,
    /// The first result against the truth.
    pub first_truth: Accuracy,
    /// The final result against the truth.
    pub final_truth: Accuracy,
    /// Most pairs published and correctable at once.
    pub correctable_max: u64,
    /// Estimated bytes of the most open and the most correctable pairs together.
    pub state_bytes_max: u64,
}

/// Quantiles of a duration, µs; `None` if there was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Median.
    pub p50_us: Option<u64>,
    /// 99 %.
    pub p99_us: Option<u64>,
    /// The greatest, exact.
    pub max_us: Option<u64>,
}

/// How far rows are off.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// Pairs that have both rows.
    pub compared: u64,
    /// Pairs whose rows are the same in every column.
    pub exact: u64,
    /// `exact / compared`.
    pub exact_share: Option<f64>,
    /// By measured column.
    pub columns: Vec<ColumnError>,
}

/// Relative error of a column: difference by the size of the value it is held against.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ColumnError {
    /// Mean of the errors' sizes.
    pub mean: Option<f64>,
    /// Median of the errors' sizes.
    pub p50: Option<f64>,
    /// 99 % of the errors' sizes.
    pub p99: Option<f64>,
    /// The greatest size, exact.
    pub max: Option<f64>,
    /// Mean of the errors with their signs: below 0 if values are too low.
    pub bias: Option<f64>,
    /// Pairs that have no relative error.
    pub undefined: u64,
}

fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

fn natural(n: Option<&i64>) -> u64 {
    n.map_or(0, |n| u64::try_from(*n).unwrap_or(0))
}

impl Report {
    /// What a pass has come to. `None` if the plans are not those of the lab.
    pub fn of_set(set: &LabSet, ending: &Ending) -> Option<Report> {
        let mut found = set.plans.iter().zip(&ending.lab).enumerate().map(|(at, (plan, outcome))| {
            let report = Report::new(plan, at, ending, outcome)?;
            Some((plan, report, ending.tables.get(at).map(|table| table.delays).unwrap_or_default()))
        });
        let (_, mut report, _) = found.next()??;
        for policy in found {
            let (plan, own, delays) = policy?;
            let figures = own.delays.into_iter().next()?;
            report.policies.push(PolicyFigures {
                policy: plan.policy.as_ref()?.to_string(),
                delay_mean_us: delays.mean_us(),
                delay_max_us: delays.max_us,
                latency: figures.latency,
                open_max: figures.open_max,
                cells: own.cells,
            });
        }
        Some(report)
    }

    /// What table and view `at` of a pass have come to. `None` if the plan is not one of the lab.
    pub fn new(plan: &LabPlan, at: usize, ending: &Ending, outcome: &Outcome) -> Option<Report> {
        let (view, windowed) = plan.view()?;
        let grid = &*plan.grid;
        let columns = measured(view, windowed);
        let ledger = ending.ledgers.get(at).cloned().unwrap_or_default();
        let contributions = &ledger.contributions;
        let all = contributions.on_time + contributions.late + contributions.too_late;
        let records = outcome.ingest.ledger.cells(grid, ledger.records.on_time, all);
        let none = Figures::new(grid, columns.len());
        let figures = outcome.figures.as_ref().unwrap_or(&none);
        let pair_bytes = pair_bytes(windowed);
        let open = |delay: usize| outcome.timeline.open_max.get(delay).copied().unwrap_or(0);
        let mut cells = Vec::new();
        for (at, (sums, records)) in figures.cells().into_iter().zip(records).enumerate() {
            let (delay, horizon) = (at / grid.horizons(), at % grid.horizons());
            let correctable_max = outcome.timeline.correctable_max.get(at).copied().unwrap_or(0);
            let cell = Cell {
                delay_us: grid.delays_us().get(delay).copied().unwrap_or(0),
                horizon_us: grid.horizons_us().get(horizon).copied().flatten(),
                correctable_max,
                state_bytes_max: pair_bytes.saturating_mul(open(delay).saturating_add(correctable_max)),
                ..cell(records, &sums, columns.len())
            };
            cells.push(cell);
        }
        let lag =
            |bucket: LagBucket| LagRow { from_us: bucket.from_us, upto_us: bucket.upto_us, records: bucket.records };
        let partitions = ending.tables.get(at).map_or(&[][..], |table| table.partitions.as_slice());
        let names = |partition: usize| partitions.get(partition).cloned().unwrap_or_default();
        let lags = &outcome.ingest.lags;
        let output_name = |column: &usize| view.output.get(*column).map(|(name, _)| name.clone());
        let none = Latency::default();
        Some(Report {
            view: view.name.clone(),
            table: plan.table().map(|table| table.name.clone()).unwrap_or_default(),
            declared_delay_us: plan.declared_delay_us,
            declared_horizon_us: plan.declared_horizon_us,
            granularity_us: grid.granularity_us(),
            truth: if grid.unbounded() { "all" } else { "grid" },
            latency_in: if plan.arrival { "arrival" } else { "event" },
            latency_error_max: none.lags.summary().relative_error_max,
            quantile_error_max: buckets::WIDTH,
            columns: columns.iter().filter_map(output_name).collect(),
            pair_bytes,
            records: RecordsRead {
                read: ledger.records.read,
                filtered: ledger.records.filtered,
                rejected: ledger.records.rejected_total(),
                judged: ledger.records.read - ledger.records.filtered - ledger.records.rejected_total(),
            },
            lags: lags.total().into_iter().map(lag).collect(),
            drift: drift_rows(&outcome.ingest.drift, plan),
            lags_by_partition: lags.rows().map(|(p, hour, bucket)| (names(p), hour, lag(bucket))).collect(),
            delays: grid
                .delays_us()
                .iter()
                .enumerate()
                .map(|(delay, delay_us)| DelayFigures {
                    delay_us: *delay_us,
                    latency: latency(outcome.timeline.latency.get(delay).unwrap_or(&none)),
                    open_max: open(delay),
                })
                .collect(),
            cells,
            policies: Vec::new(),
            keyed: plan.keyed.as_deref().map(|grid| keyed(grid, outcome)),
            recommendation: plan.recommend.as_ref().map(|asked| {
                let sums = choose::Sums {
                    contributions: &outcome.ingest.blocks,
                    errors: &figures.errors,
                    latencies: &outcome.timeline.in_time,
                };
                let names: Vec<String> = columns.iter().filter_map(output_name).collect();
                let own = grid.horizons_us().iter().position(|horizon| *horizon == plan.declared_horizon_us);
                choose::choose(asked, grid, &sums, (&names, partitions), own.unwrap_or(0))
            }),
            event_time: plan.table().map(event_time).unwrap_or_default(),
        })
    }

    /// The cell of a delay and a horizon, by their places in the grid.
    pub fn cell(&self, delay: usize, horizon: usize) -> Option<&Cell> {
        let horizons = self.cells.len().checked_div(self.delays.len())?;
        self.cells.get(delay * horizons + horizon).filter(|_| horizon < horizons)
    }
}

/// The event-time column, in quotes if it needs them.
fn event_time(table: &TablePlan) -> String {
    let column = table.event_time.and_then(|at| table.columns.get(at));
    let all = || table.columns.iter().map(|column| column.path.as_slice());
    column.map(|column| quoted_path(&column.path, all())).unwrap_or_default()
}

/// Estimated bytes that a pair takes in a table: its key and the fixed part of its states.
fn pair_bytes(windowed: &WindowedPlan) -> u64 {
    let (spec, _) = table_spec(&WindowedPlan { first_stamp: false, ..windowed.clone() });
    Table::bytes_per_group(&spec) as u64
}

fn drift_rows(sums: &BlockSums, plan: &LabPlan) -> Vec<DriftRow> {
    let row = |(from_us, upto_us, lags): (i64, i64, Vec<LagBucket>)| {
        let lags: Vec<(u64, u64)> = lags.iter().map(|lag| (lag.upto_us, lag.records)).collect();
        let [p50_us, p90_us, p99_us] = [500, 900, 990].map(|permille| quantile(&lags, permille));
        DriftRow { from_us, upto_us, records: lags.iter().map(|(_, n)| n).sum(), p50_us, p90_us, p99_us }
    };
    drift::rows(sums, &plan.slots).into_iter().map(row).collect()
}

/// Whether the view has columns to measure.
pub fn has_measured(view: &ViewPlan, windowed: &WindowedPlan) -> bool {
    !measured(view, windowed).is_empty()
}

fn latency(found: &Latency) -> LatencyFigures {
    let LagSummary { count, p50_us, p90_us, p99_us, max_us, .. } = found.lags.summary();
    let (early, closed_at_end) = (found.early, found.closed_at_end);
    LatencyFigures { windows: count, p50_us, p90_us, p99_us, max_us, early, closed_at_end }
}

fn keyed(grid: &Grid, outcome: &Outcome) -> KeyedReport {
    let (sums, none) = (&outcome.keyed.sums, Latency::default());
    let cells = sums.ledger.cells(grid, sums.on_time, sums.contributions);
    let delays = grid.delays_us().iter().zip(cells.chunks(grid.horizons().max(1))).enumerate();
    let delays = delays.map(|(delay, (delay_us, cells))| {
        let at = |counts: &[u64]| counts.get(delay).copied().unwrap_or(0);
        let (early, closed_at_end) = (at(&sums.early), at(&sums.closed_at_end));
        let cells = grid.horizons_us().iter().zip(cells).map(|(horizon_us, records)| {
            let (first, late) = (records.contributions_on_time, records.contributions_late);
            KeyedCell {
                horizon_us: *horizon_us,
                records: *records,
                complete_first: share(first, sums.contributions),
                complete_final: share(first + late, sums.contributions),
            }
        });
        KeyedFigures {
            delay_us: *delay_us,
            latency: LatencyFigures {
                early,
                closed_at_end,
                ..latency(outcome.keyed.latency.get(delay).unwrap_or(&none))
            },
            cells: cells.collect(),
        }
    });
    KeyedReport { keys: sums.keys, delays: delays.collect() }
}

fn cell(records: CellRecords, sums: &CellSums, columns: usize) -> Cell {
    let part = &sums.part;
    let last = part.last_correction.sorted();
    let all = records.contributions_on_time + records.contributions_late + records.contributions_too_late;
    let accepted = records.contributions_on_time + records.contributions_late;
    let count = |count: usize| natural(part.counts.get(count));
    let corrected = count(figures::CORRECTED);
    let at = |permille| buckets::quantile(&last, corrected, permille);
    let upto = |bucket: u64| buckets::integer_upto(bucket).min(sums.last_correction_us);
    let accuracy = |comparison: usize| accuracy(sums, comparison, columns);
    Cell {
        delay_us: 0,
        horizon_us: None,
        complete_first: share(records.contributions_on_time, all),
        complete_final: share(accepted, all),
        records,
        published: count(figures::PUBLISHED),
        lasting: count(figures::LASTING),
        missing: count(figures::MISSING),
        failed: count(figures::FAILED),
        corrected,
        corrections: count(figures::CORRECTIONS),
        revisions: revisions(&part.revisions),
        last_correction: Spread {
            p50_us: at(500).map(upto),
            p99_us: at(990).map(upto),
            max_us: (corrected > 0).then_some(sums.last_correction_us),
        },
        first_final: accuracy(0),
        first_truth: accuracy(1),
        final_truth: accuracy(2),
        correctable_max: 0,
        state_bytes_max: 0,
    }
}

/// Without the zeros at the end.
fn revisions(counts: &[i64]) -> Vec<u64> {
    let len = counts.iter().rposition(|n| *n != 0).map_or(0, |last| last + 1);
    counts.iter().take(len).map(|n| natural(Some(n))).collect()
}

fn accuracy(sums: &CellSums, comparison: usize, columns: usize) -> Accuracy {
    debug_assert!(comparison < COMPARISONS);
    let compared = natural(sums.part.counts.get(figures::COMPARED + comparison));
    let exact = natural(sums.part.exact.get(comparison));
    let off = sums.off.get(comparison * columns..(comparison + 1) * columns).unwrap_or_default();
    let column = |(off, max): &(Off, f64)| {
        let undefined = natural(Some(&off.undefined));
        let defined = compared.saturating_sub(undefined);
        let some = |x: f64| (defined > 0).then_some(x);
        let counts = off.counts.sorted();
        let at = |permille| match buckets::quantile(&counts, defined, permille) {
            Some(bucket) => buckets::ratio_upto(bucket).min(*max),
            None => 0.0,
        };
        ColumnError {
            mean: some(off.mean_size(defined.max(1))),
            p50: some(at(500)),
            p99: some(at(990)),
            max: some(*max),
            bias: some(off.mean_signed(defined.max(1))),
            undefined,
        }
    };
    Accuracy { compared, exact, exact_share: share(exact, compared), columns: off.iter().map(column).collect() }
}
