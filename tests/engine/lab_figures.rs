//! The lab's figures worked out from a changelog, from stamps and from records, as their definitions say: no thresholds, no
//! differences, no buckets.

use slackwater::lab::report::{Accuracy, Cell, ColumnError};
use slackwater::oracle::Bounds;
use slackwater::sink::{Change, Op};
use slackwater::types::Value;
use std::collections::BTreeMap;

/// Values of a row, whole.
pub type Row = Box<[Value]>;
/// Window and group.
pub type Place = (Bounds, Box<[Value]>);

/// A pair as a changelog shows it.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    pub first: Option<Row>,
    pub last: Option<Row>,
    pub rows: usize,
    pub corrections: u64,
    pub last_correction_us: i64,
}

/// Every pair of a changelog.
pub fn pairs(changes: &[Change]) -> BTreeMap<Place, Pair> {
    let mut pairs: BTreeMap<Place, Pair> = BTreeMap::new();
    for change in changes {
        let window = change.window_us.expect("a window");
        let pair = pairs.entry((window, change.group.clone())).or_default();
        match change.op {
            Op::Insert | Op::UpdateAfter => {
                pair.first.get_or_insert_with(|| change.values.clone());
                pair.last = Some(change.values.clone());
                pair.rows += 1;
            }
            Op::Delete | Op::UpdateBefore => pair.last = None,
        }
        if !change.closing && change.op != Op::UpdateBefore {
            pair.corrections += 1;
            pair.last_correction_us = change.watermark_us - window.1;
        }
    }
    pairs
}

/// Most pairs that have a row and may still be corrected, over all instants.
pub fn correctable_max(changes: &[Change], horizon_us: Option<i64>) -> u64 {
    let mut shown: BTreeMap<Place, ()> = BTreeMap::new();
    let mut max = 0;
    for step in changes.chunk_by(|a, b| (a.watermark_us, a.closing) == (b.watermark_us, b.closing)) {
        shown.retain(|(window, _), ()| window.1.saturating_add(horizon_us.unwrap_or(0)) >= step[0].watermark_us);
        for change in step {
            let place = (change.window_us.expect("a window"), change.group.clone());
            match change.op {
                Op::Insert => _ = shown.insert(place, ()),
                Op::Delete => _ = shown.remove(&place),
                Op::UpdateBefore | Op::UpdateAfter => {}
            }
        }
        max = max.max(shown.len() as u64);
    }
    max
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::BigInt(x) | Value::Interval(x) => Some(*x as f64),
        Value::Double(x) => Some(*x),
        Value::Decimal(x, scale) => Some(*x as f64 / 10f64.powi(i32::from(*scale))),
        Value::Null => None,
        other => panic!("not measured: {other:?}"),
    }
}

fn near(what: &str, expected: Option<f64>, found: Option<f64>) -> Option<String> {
    let same = match (expected, found) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(1e-9),
        (a, b) => a == b,
    };
    (!same).then(|| format!("{what}: expected {expected:?}, found {found:?}"))
}

/// A quantile is never too low, and too high by a bucket at most.
fn bounded(what: &str, sorted: &[f64], q: f64, found: Option<f64>) -> Option<String> {
    let rank = ((q * sorted.len() as f64 - 1e-9).ceil() as usize).max(1);
    let Some(exact) = sorted.get(rank - 1) else { return near(what, None, found) };
    let found = found.unwrap_or(f64::NAN);
    // Sizes below 10^-12 are not told apart, nor those above 10^12.
    let within = found >= exact * (1.0 - 1e-9)
        && (found <= exact.max(1e-12) * (1.0 + 1.0 / 32.0) * (1.0 + 1e-9) || *exact > 1e12);
    (!within).then(|| format!("{what}: expected {exact} or a little more, found {found}"))
}

type Compared<'a> = Vec<(&'a Row, &'a Row)>;

fn accuracy(what: &str, rows: &Compared<'_>, measured: &[usize], found: &Accuracy) -> Option<String> {
    let exact = rows.iter().filter(|(a, b)| a == b).count() as u64;
    let counts = [("compared", rows.len() as u64, found.compared), ("exact", exact, found.exact)];
    if let Some(differs) = counts.iter().find(|(_, expected, found)| expected != found) {
        return Some(format!("{what}: {differs:?}"));
    }
    let by_column = measured.iter().zip(&found.columns);
    by_column.enumerate().find_map(|(n, (column, found))| off(&format!("{what} column {n}"), rows, *column, found))
}

fn off(what: &str, rows: &Compared<'_>, column: usize, found: &ColumnError) -> Option<String> {
    let (mut errors, mut undefined) = (Vec::new(), 0);
    for (a, b) in rows {
        match (number(&a[column]), number(&b[column])) {
            (None, None) => errors.push(0.0),
            (Some(a), Some(b)) if a == b || (a.is_nan() && b.is_nan()) => errors.push(0.0),
            (Some(a), Some(b)) if b != 0.0 && ((a - b) / b).is_finite() && a.is_finite() && b.is_finite() => {
                errors.push((a - b) / b.abs());
            }
            _ => undefined += 1,
        }
    }
    if undefined != found.undefined {
        return Some(format!("{what}: expected {undefined} undefined, found {}", found.undefined));
    }
    let n = errors.len() as f64;
    let mut sizes: Vec<f64> = errors.iter().map(|x| x.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let some = |x: f64| (n > 0.0).then_some(x);
    near(&format!("{what} mean"), some(sizes.iter().sum::<f64>() / n), found.mean)
        .or_else(|| near(&format!("{what} max"), sizes.last().copied(), found.max))
        .or_else(|| bounded(&format!("{what} p50"), &sizes, 0.5, found.p50))
        .or_else(|| bounded(&format!("{what} p99"), &sizes, 0.99, found.p99))
        .or_else(|| {
            let (sum, size) = (errors.iter().sum::<f64>() / n, sizes.iter().sum::<f64>() / n);
            let found = found.bias.unwrap_or(0.0);
            let same = n == 0.0 || (sum - found).abs() <= 1e-9 * size.max(1e-9);
            (!same).then(|| format!("{what} bias: expected {sum}, found {found}"))
        })
}

/// The first thing in which a cell differs from the changelog of its settings. `truth`: the pairs of the truth's.
pub fn difference(
    changes: &[Change],
    truth: Option<&BTreeMap<Place, Pair>>,
    measured: &[usize],
    cell: &Cell,
) -> Option<String> {
    let pairs = pairs(changes);
    let published: Vec<&Pair> = pairs.values().filter(|pair| pair.first.is_some()).collect();
    let mut revisions: Vec<u64> = Vec::new();
    for pair in &published {
        for revision in 0..pair.rows {
            let at = revision.min(32);
            revisions.resize(revisions.len().max(at + 1), 0);
            revisions[at] += 1;
        }
    }
    let corrected: Vec<f64> = {
        let corrected = pairs.values().filter(|pair| pair.corrections > 0);
        let mut last: Vec<f64> = corrected.map(|pair| pair.last_correction_us as f64).collect();
        last.sort_by(f64::total_cmp);
        last
    };
    let counts = [
        ("published", published.len() as u64, cell.published),
        ("lasting", pairs.values().filter(|pair| pair.last.is_some()).count() as u64, cell.lasting),
        ("corrections", pairs.values().map(|pair| pair.corrections).sum(), cell.corrections),
        ("corrected", corrected.len() as u64, cell.corrected),
        ("correctable", correctable_max(changes, cell.horizon_us), cell.correctable_max),
    ];
    if let Some(differs) = counts.iter().find(|(_, expected, found)| expected != found) {
        return Some(format!("{differs:?}"));
    }
    if revisions != cell.revisions {
        return Some(format!("revisions: expected {revisions:?}, found {:?}", cell.revisions));
    }
    let last = &cell.last_correction;
    let as_f64 = |us: Option<u64>| us.map(|us| us as f64);
    let differs = near("last correction max", corrected.last().copied(), as_f64(last.max_us))
        .or_else(|| bounded("last correction p50", &corrected, 0.5, as_f64(last.p50_us)))
        .or_else(|| bounded("last correction p99", &corrected, 0.99, as_f64(last.p99_us)));
    if differs.is_some() {
        return differs;
    }
    let both = pairs.values().filter_map(|pair| Some((pair.first.as_ref()?, pair.last.as_ref()?)));
    let differs = accuracy("first against final", &both.collect(), measured, &cell.first_final);
    let Some(truth) = truth.filter(|_| differs.is_none()) else { return differs };
    let of_truth = |place: &Place| truth.get(place).and_then(|pair| pair.last.as_ref());
    let first = pairs.iter().filter_map(|(place, pair)| Some((pair.first.as_ref()?, of_truth(place)?)));
    let last = pairs.iter().filter_map(|(place, pair)| Some((pair.last.as_ref()?, of_truth(place)?)));
    let missing = truth.iter().filter(|(place, pair)| pair.last.is_some() && !pairs.contains_key(*place)).count();
    if missing as u64 != cell.missing {
        return Some(format!("missing: expected {missing}, found {}", cell.missing));
    }
    accuracy("first against truth", &first.collect(), measured, &cell.first_truth)
        .or_else(|| accuracy("final against truth", &last.collect(), measured, &cell.final_truth))
}

/// The first class in which a cell's ledger differs from one of its settings.
pub fn ledger_difference(ledger: &slackwater::record::Ledger, cell: &Cell) -> Option<String> {
    let (records, contributions, found) = (&ledger.records, &ledger.contributions, &cell.records);
    let classes = [
        ("on time", records.on_time, found.on_time),
        ("corrected", records.corrected, found.corrected),
        ("partly too late", records.partly_too_late, found.partly_too_late),
        ("too late", records.too_late, found.too_late),
        ("contributions on time", contributions.on_time, found.contributions_on_time),
        ("contributions late", contributions.late, found.contributions_late),
        ("contributions too late", contributions.too_late, found.contributions_too_late),
    ];
    classes.iter().find(|(_, expected, found)| expected != found).map(|differs| format!("ledger: {differs:?}"))
}
