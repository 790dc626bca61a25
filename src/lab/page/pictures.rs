//! Which plots a report has, and what is on them.

use super::axis::Axis;
use super::plot::{HALF, Heat, Joined, Plot, Series, WIDE};
use crate::lab::lags::quantile;
use crate::lab::report::{Cell, LatencyFigures, Report};
use crate::lab::show::{bytes, percent};
use crate::sink::summary::grouped;
use crate::time::format_duration;
use std::collections::{BTreeMap, BTreeSet};

/// Lines for delays, or partitions, at most.
const LINES_MAX: usize = 5;
/// Points of the frontier that are named, about.
const NAMED: usize = 12;

/// A plot, or why there is none.
pub type Picture = Result<String, String>;

/// A picture and what it says.
#[derive(Debug)]
pub struct Figure {
    /// The SVG.
    pub picture: Picture,
    /// How to read it.
    pub caption: String,
    /// Half as wide as others.
    pub half: bool,
}

fn horizon(us: Option<i64>) -> String {
    us.map_or_else(|| "none".to_owned(), format_duration)
}

/// Horizons of the grid.
fn horizons(report: &Report) -> usize {
    report.cells.len().checked_div(report.delays.len()).unwrap_or(1).max(1)
}

/// What a picture is about: view, records, grid.
fn about(report: &Report, more: &str) -> String {
    let name = report.view.as_deref().unwrap_or("query");
    let (records, delays) = (grouped(report.records.judged), report.delays.len());
    let (first, last) = (report.delays.first(), report.delays.last());
    let ends = [first, last].map(|delay| delay.map_or_else(String::new, |delay| format_duration(delay.delay_us)));
    format!("{name}: {records} records, {delays} delays from {} to {}. {more}", ends[0], ends[1])
}

fn time_of(report: &Report) -> &'static str {
    if report.latency_in == "arrival" { "arrival time" } else { "event time" }
}

fn recommended(report: &Report) -> Option<(usize, usize)> {
    let setting = report.recommendation.as_ref()?.setting.as_ref()?;
    let delay = report.delays.iter().position(|delay| delay.delay_us == setting.delay_us)?;
    let own = report.cells.get(delay * horizons(report)..(delay + 1) * horizons(report))?;
    Some((delay, own.iter().position(|cell| cell.horizon_us == setting.horizon_us)?))
}

/// At most `n` of `of` places, evenly spaced, both ends among them.
fn some_of(n: usize, of: usize) -> Vec<usize> {
    if of <= n {
        return (0..of).collect();
    }
    let mut out: Vec<usize> = (0..n).map(|i| i * (of - 1) / (n - 1).max(1)).collect();
    out.dedup();
    out
}

/// Completeness of first results against their latency, with policies and what is recommended.
pub fn frontier(report: &Report) -> Picture {
    let longest = horizons(report) - 1;
    let shown = some_of(NAMED, report.delays.len());
    type Which = fn(&LatencyFigures) -> Option<u64>;
    let of = |name: &str, which: Which, named: bool| {
        let points = report.delays.iter().enumerate().filter_map(|(at, delay)| {
            let share = report.cell(at, longest)?.complete_first?;
            let text = if named && shown.contains(&at) { format_duration(delay.delay_us) } else { String::new() };
            Some((which(&delay.latency)? as f64, share, text))
        });
        Series { name: name.to_owned(), joined: Joined::Straight, marked: true, points: points.collect() }
    };
    let half = of("half of them do", |l| l.p50_us, false);
    let mut series = vec![of("99 % of the windows have their first result by then", |l| l.p99_us, true), half];
    for policy in &report.policies {
        let share = policy.cells.last().and_then(|cell| cell.complete_first);
        let point = policy.latency.p99_us.zip(share).map(|(us, share)| (us as f64, share, String::new()));
        let name = format!("{} (99 %)", policy.policy);
        series.push(Series { name, joined: Joined::No, marked: true, points: point.into_iter().collect() });
    }
    if let Some(keyed) = &report.keyed {
        let points = keyed.delays.iter().filter_map(|delay| {
            let share = delay.cells.last()?.complete_first?;
            Some((delay.latency.p99_us? as f64, share, String::new()))
        });
        let name = format!("keyed, by delay (99 % of the windows of {} keys)", grouped(keyed.keys));
        series.push(Series { name, joined: Joined::Straight, marked: true, points: points.collect() });
    }
    let ringed = recommended(report).and_then(|(delay, _)| {
        let latency = report.delays.get(delay).and_then(|delay| delay.latency.p99_us)?;
        let share = report.cell(delay, longest).and_then(|cell| cell.complete_first)?;
        let asked = report.recommendation.as_ref().map(|found| found.conditions.join(", "))?;
        Some((latency as f64, share, format!("recommended for {asked}")))
    });
    let points = || series.iter().flat_map(|series| series.points.iter());
    let latency = format!("result latency: {} from a window's end to its first result", time_of(report));
    Plot {
        title: "Completeness against latency".to_owned(),
        note: about(report, &format!("Latency in {}. Points are named by their delay.", time_of(report))),
        x: Axis::durations(&latency, points().map(|(us, _, _)| *us as u64)),
        y: Axis::nines("share of records in first results", points().map(|(_, share, _)| *share)),
        series,
        ringed,
        width: WIDE,
    }
    .svg()
}

/// How far first results are off, by delay.
fn accuracy(report: &Report) -> Picture {
    let longest = horizons(report) - 1;
    let cells =
        || report.delays.iter().enumerate().filter_map(|(at, delay)| Some((delay.delay_us, report.cell(at, longest)?)));
    let mut series = Vec::new();
    let share = |cell: &Cell| cell.first_truth.exact_share.map(|share| 1.0 - share);
    let points = cells().filter_map(|(us, cell)| Some((us as f64, share(cell)?, String::new()))).collect();
    series.push(Series {
        name: "share of results that are not exact".to_owned(),
        joined: Joined::Straight,
        marked: true,
        points,
    });
    for (number, name) in report.columns.iter().enumerate().take(2) {
        let column = |cell: &Cell| cell.first_truth.columns.get(number).copied();
        let mean = cells().filter_map(|(us, cell)| Some((us as f64, column(cell)?.mean?, String::new()))).collect();
        let p99 = cells().filter_map(|(us, cell)| Some((us as f64, column(cell)?.p99?, String::new()))).collect();
        for (what, points) in [("mean", mean), ("99 %", p99)] {
            series.push(Series {
                name: format!("{name}: {what} of the error"),
                joined: Joined::Straight,
                marked: true,
                points,
            });
        }
    }
    let points = || series.iter().flat_map(|series| series.points.iter());
    Plot {
        title: "How far first results are off".to_owned(),
        note: about(report, &format!("Relative errors against the {}.", truth(report))),
        x: Axis::durations("delay", points().map(|(us, _, _)| *us as u64)),
        y: Axis::errors("share, or relative error", points().map(|(_, error, _)| *error)),
        series,
        ringed: None,
        width: HALF,
    }
    .svg()
}

fn truth(report: &Report) -> &'static str {
    if report.truth == "all" { "results of all records" } else { "results at the greatest delay and horizon" }
}

/// What a heat map shows: its title, the value of a cell, how it is written, and where it stands between dark and bright.
struct Shown {
    title: &'static str,
    value: fn(&Report, &Cell) -> Option<f64>,
    text: fn(f64) -> String,
    place: fn(f64) -> f64,
}

fn heat(report: &Report, shown: &Shown) -> Picture {
    let values: Vec<Option<f64>> = report.cells.iter().map(|cell| (shown.value)(report, cell)).collect();
    let filled = || values.iter().flatten().copied();
    let (low, high) = (filled().fold(f64::INFINITY, f64::min), filled().fold(f64::NEG_INFINITY, f64::max));
    // The whole, and nothing at all, are off any logarithm: a little past what is nearest to them.
    let finite = || filled().map(shown.place).filter(|place| place.is_finite());
    let (from, to) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let wide = (to - from).max(1e-9);
    let bright = |value: f64| match (shown.place)(value) {
        place if place == f64::INFINITY => 1.0,
        place if place.is_finite() && to > from => 0.06 + 0.86 * (place - from) / wide,
        place if place.is_finite() => 0.5,
        _ => 0.0,
    };
    let columns = report.cells.iter().take(horizons(report)).map(|cell| horizon(cell.horizon_us)).collect();
    Heat {
        title: shown.title.to_owned(),
        note: about(report, "Each field is what a run with that delay and horizon gives."),
        across: "horizon".to_owned(),
        down: "delay".to_owned(),
        columns,
        rows: report.delays.iter().map(|delay| format_duration(delay.delay_us)).collect(),
        fields: values.iter().map(|value| value.map(|value| (bright(value), (shown.text)(value)))).collect(),
        ends: if low.is_finite() { ((shown.text)(low), (shown.text)(high)) } else { (String::new(), String::new()) },
        framed: recommended(report),
        width: HALF,
    }
    .svg()
}

fn log(value: f64) -> f64 {
    libm::log10(value)
}

fn heats(report: &Report) -> Vec<(Shown, String)> {
    let per_pair =
        |_: &Report, cell: &Cell| (cell.published > 0).then(|| cell.corrections as f64 / cell.published as f64);
    let complete = Shown {
        title: "Share of records in final results",
        value: |_, cell| cell.complete_final,
        text: |share| percent(Some(share)),
        place: |share| -log(1.0 - share),
    };
    let corrections =
        Shown { title: "Corrections per result", value: per_pair, text: |n| format!("{n:.3}"), place: log };
    let exact = Shown {
        title: "Share of final results that are exact",
        value: |_, cell| cell.final_truth.exact_share,
        text: |share| percent(Some(share)),
        place: |share| -log(1.0 - share),
    };
    let state = Shown {
        title: "State, at most",
        value: |_, cell| Some(cell.state_bytes_max as f64),
        text: |n| bytes(n as u64),
        place: log,
    };
    let against = format!(
        "Results after the last correction, held against the {}; results never published are in no comparison.",
        truth(report)
    );
    vec![
        (complete, "Records that are in the result once the horizon has passed; of overlapping windows, records in each of their windows.".to_owned()),
        (corrections, "Changes after closing, by published results (key and window).".to_owned()),
        (exact, against),
        (state, "Estimated bytes of the most open and the most correctable results together.".to_owned()),
    ]
}

/// The share of records with a longer lag, for all and for the partitions with most records.
fn lag_distribution(report: &Report) -> Picture {
    let mut by_partition: BTreeMap<&str, BTreeMap<u64, u64>> = BTreeMap::new();
    for (partition, _, lag) in &report.lags_by_partition {
        *by_partition.entry(partition).or_default().entry(lag.upto_us).or_default() += lag.records;
    }
    let records = |lags: &BTreeMap<u64, u64>| lags.values().sum::<u64>();
    let mut parts: Vec<_> = by_partition.into_iter().collect();
    parts.sort_by(|a, b| records(&b.1).cmp(&records(&a.1)).then_with(|| a.0.cmp(b.0)));
    let all = report.lags.iter().map(|lag| (lag.upto_us, lag.records)).collect();
    let mut lines: Vec<(String, BTreeMap<u64, u64>)> = vec![("all records".to_owned(), all)];
    if parts.len() > 1 {
        lines.extend(parts.into_iter().take(LINES_MAX).map(|(name, lags)| (format!("partition {name}"), lags)));
    }
    let series: Vec<Series> = lines
        .into_iter()
        .map(|(name, lags)| {
            let all = records(&lags).max(1);
            let mut passed = 0;
            let points = lags.into_iter().map(|(upto_us, n)| {
                passed += n;
                (upto_us as f64, (all - passed) as f64 / all as f64, String::new())
            });
            let points = points.filter(|(_, share, _)| *share > 0.0).collect();
            Series { name, joined: Joined::Steps, marked: false, points }
        })
        .collect();
    let points = || series.iter().flat_map(|series| series.points.iter());
    Plot {
        title: "How far records are behind".to_owned(),
        note: about(report, "Filtered records count as well; buckets are 1/8 of a power of two wide."),
        x: Axis::durations("lag behind the newest event time", points().map(|(us, _, _)| *us as u64)),
        y: Axis::shares("share of records with a longer lag", points().map(|(_, share, _)| *share)),
        series,
        ringed: None,
        width: HALF,
    }
    .svg()
}

const QUANTILES: [(u64, &str); 3] = [(990, "99 % of the records"), (900, "90 %"), (500, "half")];

fn drift(report: &Report) -> Picture {
    let (first, last) = (report.drift.first(), report.drift.last());
    let (Some(first), Some(last)) = (first, last) else { return Err("no records".to_owned()) };
    let series: Vec<Series> = QUANTILES
        .iter()
        .map(|(permille, name)| {
            let of = |row: &crate::lab::report::DriftRow| match permille {
                990 => row.p99_us,
                900 => row.p90_us,
                _ => row.p50_us,
            };
            let middle = |from: i64, upto: i64| from as f64 + (upto as f64 - from as f64) / 2.0;
            let points =
                report.drift.iter().map(|row| (middle(row.from_us, row.upto_us), of(row) as f64, String::new()));
            let points: Vec<_> = points.collect();
            Series { name: (*name).to_owned(), joined: Joined::Straight, marked: points.len() <= 48, points }
        })
        .collect();
    let wide = first.upto_us.saturating_sub(first.from_us);
    let lags = report.drift.iter().flat_map(|row| [row.p50_us, row.p90_us, row.p99_us]);
    Plot {
        title: "How lags change over the stream".to_owned(),
        note: about(report, &format!("{} stretches of {}, by event time.", report.drift.len(), format_duration(wide))),
        x: Axis::times("event time (UTC)", first.from_us, last.upto_us),
        y: Axis::durations("lag, at most", lags),
        series,
        ringed: None,
        width: HALF,
    }
    .svg()
}

fn by_hour(report: &Report) -> Picture {
    let mut hours: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
    for (_, hour, lag) in &report.lags_by_partition {
        *hours.entry(*hour).or_default().entry(lag.upto_us).or_default() += lag.records;
    }
    let series: Vec<Series> = QUANTILES
        .iter()
        .map(|(permille, name)| {
            let points = hours.iter().map(|(hour, lags)| {
                let lags: Vec<(u64, u64)> = lags.iter().map(|(upto_us, n)| (*upto_us, *n)).collect();
                (*hour as f64, quantile(&lags, *permille) as f64, String::new())
            });
            Series { name: (*name).to_owned(), joined: Joined::Straight, marked: true, points: points.collect() }
        })
        .collect();
    let lags = || series.iter().flat_map(|series| series.points.iter().map(|(_, us, _)| *us as u64));
    Plot {
        title: "Lags by hour of day".to_owned(),
        note: about(report, "All days of the stream together."),
        x: Axis::numbers("hour of the event time (UTC)", 23),
        y: Axis::durations("lag, at most", lags()),
        series,
        ringed: None,
        width: HALF,
    }
    .svg()
}

/// How many results have how many corrections, for some delays at the longest horizon.
fn corrections(report: &Report) -> Picture {
    let longest = horizons(report) - 1;
    let mut delays = some_of(LINES_MAX, report.delays.len());
    delays.extend(recommended(report).map(|(delay, _)| delay));
    delays.sort_unstable();
    delays.dedup();
    let series: Vec<Series> = delays
        .into_iter()
        .filter_map(|at| {
            let cell = report.cell(at, longest)?;
            let reached = |n: usize| cell.revisions.get(n).copied().unwrap_or(0);
            let last = cell.revisions.len().saturating_sub(1);
            let exactly = |n: usize| if n == last { reached(n) } else { reached(n).saturating_sub(reached(n + 1)) };
            let points = (0..cell.revisions.len()).map(|n| (n as f64, exactly(n) as f64, String::new()));
            let points = points.filter(|(_, pairs, _)| *pairs > 0.0).collect();
            let name = format!("delay {}", format_duration(cell.delay_us));
            Some(Series { name, joined: Joined::Straight, marked: true, points })
        })
        .collect();
    let points = || series.iter().flat_map(|series| series.points.iter());
    let most = points().map(|(n, _, _)| *n as u64).max().unwrap_or(1);
    let longest = report.cell(0, longest).and_then(|cell| cell.horizon_us);
    let and_more = if most >= 32 { " 32 stands for all from there on." } else { "" };
    Plot {
        title: "Corrections per result".to_owned(),
        note: about(report, &format!("Horizon {}.{and_more}", horizon(longest))),
        x: Axis::numbers("corrections of a result", most),
        y: Axis::counts("results (key and window)", points().map(|(_, pairs, _)| *pairs as u64)),
        series,
        ringed: None,
        width: HALF,
    }
    .svg()
}

/// Completeness of the recommended setting by hour of day, in the part that it was checked on.
fn checked_by_hour(report: &Report) -> Option<Figure> {
    let found = report.recommendation.as_ref()?;
    let setting = found.setting.as_ref().filter(|setting| setting.by_hour.len() > 1)?;
    let hour = |name: &str| name.get(..2).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    let points = setting.by_hour.iter().map(|part| (hour(&part.name), part.completeness, String::new())).collect();
    let delay = format_duration(setting.delay_us);
    let series = vec![Series { name: format!("delay {delay}"), joined: Joined::Straight, marked: true, points }];
    let records: u64 = setting.by_hour.iter().map(|part| part.contributions).sum();
    let picture = Plot {
        title: "What is recommended, by hour of day".to_owned(),
        note: about(
            report,
            &format!("{} contributions of the later part, which it was not chosen by.", grouped(records)),
        ),
        x: Axis::numbers("hour of the event time (UTC)", 23),
        y: Axis::nines("share of records in first results", setting.by_hour.iter().map(|part| part.completeness)),
        series,
        ringed: None,
        width: HALF,
    }
    .svg();
    Some(Figure { picture, caption: "Hours without records in that part are left out.".to_owned(), half: true })
}

/// All figures of a report, in order.
pub fn figures(report: &Report) -> Vec<Figure> {
    let half = |picture, caption: &str| Figure { picture, caption: caption.to_owned(), half: true };
    let mut out = vec![
        Figure {
            half: false,
            ..half(
                frontier(report),
                "Waiting longer moves to the right and up. A horizon does not move a point: it corrects what was published, and shows in the heat maps.",
            )
        },
        half(
            accuracy(report),
            "Where a line reaches 0, every first result was right. Errors are relative: the difference by the size of the value it is held against.",
        ),
    ];
    for (shown, caption) in heats(report) {
        out.push(Figure { picture: heat(report, &shown), caption, half: true });
    }
    out.push(half(lag_distribution(report),
        "Where a line has fallen to 1 %, a record in a hundred is behind by more. A delay of that length still has more of them on time: a window closes later than the record's own event time.",
    ));
    out.push(half(
        drift(report),
        "If the lines climb or jump, a delay that was chosen once will not hold: see the policies.",
    ));
    let hours = report.lags_by_partition.iter().map(|(_, hour, _)| hour).collect::<BTreeSet<_>>();
    if hours.len() > 1 {
        out.push(half(
            by_hour(report),
            "Disorder that comes at certain hours is better met by a policy than by a delay for the worst of them.",
        ));
    }
    out.push(half(corrections(report), "How often readers see a result change after it was published."));
    out.extend(checked_by_hour(report));
    out
}
