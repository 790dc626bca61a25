//! Guessing a table from a sample: types of columns, the time columns, and how late records are. Pure.
//!
//! A guess is a start, not a promise: types are the narrowest that hold every value seen. A number with decimals is a
//! DECIMAL if it looks like fixed point (as many decimals in every value that has any, or at most two), for its sums are then
//! exact; otherwise it is a DOUBLE.

use crate::error::{Error, Result};
use crate::time::{parse_date, parse_timestamp};
use crate::types::DataType;
use std::collections::BTreeSet;

/// One value of the sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    /// Absent or null; in CSV the empty field.
    Null,
    /// A JSON boolean.
    Boolean,
    /// A JSON number, as written.
    Number(String),
    /// A JSON string.
    Text(String),
    /// A CSV field, which may be anything.
    Bare(String),
    /// A list, or an object too deep to follow.
    Nested,
}

/// The first records of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Records.
    pub(super) rows: usize,
    /// Lines that are no records.
    pub(super) broken: usize,
    /// Path and cells of each column; as many cells as rows.
    pub(super) columns: Vec<(Vec<String>, Vec<Cell>)>,
}

/// A guessed column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ColumnGuess {
    pub(super) path: Vec<String>,
    pub(super) dtype: DataType,
    /// What the reader of the table should know of it.
    pub(super) note: Option<&'static str>,
}

/// How far records are behind the newest event seen, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lags {
    pub(super) p50_us: i64,
    pub(super) p90_us: i64,
    pub(super) p99_us: i64,
    pub(super) max_us: i64,
}

/// A guessed table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Guess {
    /// The columns.
    pub(super) columns: Vec<ColumnGuess>,
    /// Index of the event-time column.
    pub(super) event_time: Option<usize>,
    /// Index of the arrival-time column.
    pub(super) arrival_time: Option<usize>,
    /// Unit of numeric times in microseconds, if the event or arrival time is numeric.
    pub(super) time_unit_us: Option<i64>,
    /// Lags of the records whose event time can be read.
    pub(super) lags: Option<Lags>,
    /// A delay to start from: the lag of 99 records in 100, rounded up.
    pub(super) delay_us: i64,
    /// A horizon that would take every record seen, if the delay does not.
    pub(super) horizon_us: Option<i64>,
    /// A column that may name the partition, with the number of its values.
    pub(super) partition: Option<(usize, usize)>,
}

/// What a value can be read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Boolean,
    /// Digits before the point.
    Integer(u32),
    /// Digits before and after the point.
    Fixed(u32, u32),
    Double,
    Date,
    Timestamp,
    Text,
}

fn kind(cell: &Cell) -> Option<Kind> {
    match cell {
        Cell::Null => None,
        Cell::Nested => Some(Kind::Text),
        Cell::Boolean => Some(Kind::Boolean),
        Cell::Number(text) => Some(number(text).unwrap_or(Kind::Double)),
        Cell::Text(text) => Some(time(text).unwrap_or(Kind::Text)),
        Cell::Bare(text) if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") => {
            Some(Kind::Boolean)
        }
        Cell::Bare(text) => Some(number(text).or_else(|| time(text)).unwrap_or(Kind::Text)),
    }
}

fn time(text: &str) -> Option<Kind> {
    if parse_date(text.as_bytes()).is_some() {
        return Some(Kind::Date);
    }
    parse_timestamp(text.as_bytes()).map(|_| Kind::Timestamp)
}

/// A number as people write numbers: `00123` and `+1` are rather codes.
fn number(text: &str) -> Option<Kind> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, ""));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    if !all_digits(whole) || !all_digits(fraction) || (whole.len() > 1 && whole.starts_with('0')) {
        return None;
    }
    let count = |s: &str| u32::try_from(s.len()).unwrap_or(u32::MAX);
    if mantissa.len() < digits.len() {
        all_digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)).then_some(Kind::Double)
    } else if mantissa.len() == whole.len() {
        Some(Kind::Integer(count(whole)))
    } else {
        Some(Kind::Fixed(count(whole), count(fraction)))
    }
}

/// The narrowest type of all values, and whether there were any.
fn column_type(cells: &[Cell]) -> Option<DataType> {
    let kinds: Vec<Kind> = cells.iter().filter_map(kind).collect();
    let all = |fits: fn(&Kind) -> bool| kinds.iter().all(fits);
    if kinds.is_empty() {
        None
    } else if all(|k| *k == Kind::Boolean) {
        Some(DataType::Boolean)
    } else if all(|k| matches!(k, Kind::Integer(_) | Kind::Fixed(..) | Kind::Double)) {
        Some(numeric_type(cells, &kinds))
    } else if all(|k| *k == Kind::Date) {
        Some(DataType::Date)
    } else if all(|k| matches!(k, Kind::Date | Kind::Timestamp)) {
        Some(DataType::Timestamp)
    } else {
        Some(DataType::Text)
    }
}

fn numeric_type(cells: &[Cell], kinds: &[Kind]) -> DataType {
    let mut whole = 0;
    let mut scales = BTreeSet::new();
    for kind in kinds {
        match kind {
            Kind::Integer(digits) => whole = whole.max(*digits),
            Kind::Fixed(digits, scale) => {
                whole = whole.max(*digits);
                scales.insert(*scale);
            }
            _ => return DataType::Double,
        }
    }
    let Some(&scale) = scales.last() else {
        let fits = |cell: &Cell| match cell {
            Cell::Number(text) | Cell::Bare(text) => text.parse::<i64>().is_ok(),
            _ => true,
        };
        return match u8::try_from(whole) {
            _ if cells.iter().all(fits) => DataType::BigInt,
            Ok(..=38) => DataType::Decimal { precision: 38, scale: 0 },
            _ => DataType::Double,
        };
    };
    // Room for numbers a thousand times as large as any seen.
    let precision = (whole + scale + 3).max(12);
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision @ ..=38), Ok(scale @ ..=9)) if scales.len() == 1 || scale <= 2 => {
            DataType::Decimal { precision, scale }
        }
        _ => DataType::Double,
    }
}

/// Names of event-time columns, likeliest first; compared by their letters and digits alone.
const EVENT_NAMES: [&str; 16] = [
    "eventtime",
    "eventtimestamp",
    "eventts",
    "occurredat",
    "happenedat",
    "timestamp",
    "ts",
    "time",
    "datetime",
    "recordedat",
    "measuredat",
    "createdat",
    "created",
    "starttime",
    "eventdate",
    "date",
];
/// Names of arrival-time columns, likeliest first.
const ARRIVAL_NAMES: [&str; 18] = [
    "arrivaltime",
    "arrivedat",
    "arrival",
    "ingestedat",
    "ingesttime",
    "ingestiontime",
    "receivedat",
    "receivedtime",
    "receivetime",
    "processedat",
    "processingtime",
    "loadedat",
    "insertedat",
    "publishedat",
    "reportedat",
    "updatedat",
    "updatetime",
    "updated",
];

fn name_rank(path: &[String], names: &[&str]) -> Option<usize> {
    let last = path.last()?;
    let letters: String = last.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    names.iter().position(|name| *name == letters)
}

/// How a column's values are times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeForm {
    Text,
    Numbers(i64),
}

/// Whether a column's values are times: texts, or whole numbers that are times of this century in one unit.
fn time_form(dtype: &DataType, cells: &[Cell]) -> Option<TimeForm> {
    match dtype {
        DataType::Timestamp | DataType::Date => Some(TimeForm::Text),
        DataType::BigInt => {
            let (from_s, to_s) = (946_684_800, 4_102_444_800);
            [1_000_000, 1_000, 1].into_iter().map(TimeForm::Numbers).find(|form| {
                let fits = |us: i64| (from_s * 1_000_000..to_s * 1_000_000).contains(&us);
                cells.iter().filter_map(|cell| time_of(cell, *form)).all(fits)
            })
        }
        _ => None,
    }
}

fn time_of(cell: &Cell, form: TimeForm) -> Option<i64> {
    match (cell, form) {
        (Cell::Text(text) | Cell::Bare(text), TimeForm::Text) => parse_timestamp(text.as_bytes()),
        (Cell::Number(text) | Cell::Bare(text), TimeForm::Numbers(unit_us)) => {
            text.parse::<i64>().ok()?.checked_mul(unit_us)
        }
        _ => None,
    }
}

/// A column that may hold times.
struct Candidate {
    /// Index into the guess's columns.
    at: usize,
    form: TimeForm,
    times: Vec<Option<i64>>,
}

/// Guesses a table from a sample; `event_time` is the user's own choice of column.
///
/// # Errors
/// When the column chosen is not there or holds no times.
pub(super) fn guess(sample: &Sample, event_time: Option<&str>) -> Result<Guess> {
    let mut columns = Vec::new();
    let mut candidates = Vec::new();
    let mut partition = None;
    for (path, cells) in &sample.columns {
        let found = column_type(cells);
        let note = match found {
            None => Some("no value seen"),
            Some(_) if cells.contains(&Cell::Nested) => Some("lists or objects, as JSON text"),
            _ => None,
        };
        let dtype = found.unwrap_or(DataType::Text);
        if let Some(form) = time_form(&dtype, cells) {
            let times = cells.iter().map(|cell| time_of(cell, form)).collect();
            candidates.push(Candidate { at: columns.len(), form, times });
        }
        if name_rank(path, &["partition", "shard"]).is_some() && matches!(dtype, DataType::Text | DataType::BigInt) {
            let values: BTreeSet<_> = cells.iter().map(|cell| format!("{cell:?}")).collect();
            partition = partition.or(Some((columns.len(), values.len())));
        }
        columns.push(ColumnGuess { path: path.clone(), dtype, note });
    }
    let event = match event_time {
        Some(name) => Some(chosen(name, &columns, &candidates)?),
        None => likeliest(&columns, &candidates, &EVENT_NAMES, None),
    };
    let arrival = likeliest(&columns, &candidates, &ARRIVAL_NAMES, event).filter(|arrival| in_order(&arrival.times));
    let times: Vec<Option<&Candidate>> = vec![event, arrival];
    let mut time_unit_us = None;
    for candidate in times.into_iter().flatten() {
        if let TimeForm::Numbers(unit_us) = candidate.form {
            time_unit_us = time_unit_us.or(Some(unit_us));
        }
        if let Some(column) = columns.get_mut(candidate.at) {
            column.dtype = DataType::Timestamp;
        }
    }
    let lags = event.and_then(|event| lags(&event.times));
    let delay_us = lags.map_or(1_000_000, |lags| nice_above(lags.p99_us));
    let horizon_us = lags.filter(|lags| lags.max_us > delay_us).map(|lags| nice_above(lags.max_us - delay_us));
    Ok(Guess {
        event_time: event.map(|c| c.at),
        arrival_time: arrival.map(|c| c.at),
        time_unit_us,
        lags,
        delay_us,
        horizon_us,
        partition,
        columns,
    })
}

fn chosen<'c>(name: &str, columns: &[ColumnGuess], candidates: &'c [Candidate]) -> Result<&'c Candidate> {
    let known: Vec<String> = columns.iter().map(|c| c.path.join(".")).collect();
    let Some(at) =
        known.iter().position(|k| k == name).or_else(|| known.iter().position(|k| k.eq_ignore_ascii_case(name)))
    else {
        let error = Error::usage(format!("--event-time: expected a column of the file, found \"{name}\""));
        return Err(error.with_hint(format!("the file has {}", known.join(", "))));
    };
    candidates.iter().find(|c| c.at == at).ok_or_else(|| {
        let found = columns.get(at).map_or(DataType::Text, |c| c.dtype.clone());
        let error = Error::usage(format!("--event-time: expected times in column \"{name}\", found {found}"));
        error.with_hint(
            "times are texts such as 2026-01-01T00:00:00Z, or whole seconds, milliseconds or microseconds since 1970",
        )
    })
}

/// The candidate with the likeliest name; among equals texts go before numbers. Half of the records must have it.
fn likeliest<'c>(
    columns: &[ColumnGuess],
    candidates: &'c [Candidate],
    names: &[&str],
    other: Option<&Candidate>,
) -> Option<&'c Candidate> {
    // One unit is for all numeric times of a table.
    let same_unit = |form: TimeForm| match (form, other.map(|c| c.form)) {
        (TimeForm::Numbers(a), Some(TimeForm::Numbers(b))) => a == b,
        _ => true,
    };
    candidates
        .iter()
        .filter(|c| other.is_none_or(|other| other.at != c.at) && same_unit(c.form))
        .filter(|c| c.times.iter().flatten().count() * 2 >= c.times.len())
        .filter_map(|c| Some((name_rank(&columns.get(c.at)?.path, names)?, c)))
        .min_by_key(|(rank, c)| (*rank, c.form != TimeForm::Text))
        .map(|(_, c)| c)
}

/// Whether nearly all records stand in the order of the column, as arrival times do.
fn in_order(times: &[Option<i64>]) -> bool {
    let mut newest = i64::MIN;
    let mut behind = 0;
    for time in times.iter().flatten() {
        behind += usize::from(*time < newest);
        newest = newest.max(*time);
    }
    behind * 10 <= times.len() && times.iter().all(Option::is_some)
}

/// Quantiles (nearest rank) of how far each record is behind the greatest time up to and including itself.
fn lags(times: &[Option<i64>]) -> Option<Lags> {
    let mut newest = i64::MIN;
    let mut lags: Vec<i64> = Vec::with_capacity(times.len());
    for time in times.iter().flatten() {
        newest = newest.max(*time);
        lags.push(newest.saturating_sub(*time));
    }
    lags.sort_unstable();
    let rank = |percent: usize| lags.get((lags.len() * percent).div_ceil(100).saturating_sub(1)).copied();
    Some(Lags { p50_us: rank(50)?, p90_us: rank(90)?, p99_us: rank(99)?, max_us: rank(100)? })
}

/// The least duration that is not shorter and that people would choose; at least a second.
pub(super) fn nice_above(us: i64) -> i64 {
    const SECOND: i64 = 1_000_000;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let steps = [
        (SECOND, &[1, 2, 3, 5, 10, 15, 20, 30, 45][..]),
        (MINUTE, &[1, 2, 3, 5, 10, 15, 20, 30, 45]),
        (HOUR, &[1, 2, 3, 4, 6, 8, 12, 18]),
        (DAY, &[1, 2, 3, 4, 5, 7, 10, 14, 21, 28]),
    ];
    let found = steps.iter().flat_map(|(unit, counts)| counts.iter().map(move |n| n * unit)).find(|nice| *nice >= us);
    // Beyond four weeks, whole weeks.
    found.unwrap_or_else(|| us.saturating_add(7 * DAY - 1) / (7 * DAY) * (7 * DAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare(values: &[&str]) -> Vec<Cell> {
        values.iter().map(|v| if v.is_empty() { Cell::Null } else { Cell::Bare(v.to_string()) }).collect()
    }

    fn sample(columns: &[(&str, &[&str])]) -> Sample {
        let columns: Vec<_> =
            columns.iter().map(|(name, values)| (name.split('.').map(str::to_owned).collect(), bare(values))).collect();
        Sample { rows: columns.first().map_or(0, |c: &(Vec<String>, Vec<Cell>)| c.1.len()), broken: 0, columns }
    }

    fn decimal(precision: u8, scale: u8) -> Option<DataType> {
        Some(DataType::Decimal { precision, scale })
    }

    #[test]
    fn types_are_the_narrowest() {
        for (values, expected) in [
            (&["1", "-20", ""][..], Some(DataType::BigInt)),
            (&["9223372036854775807"], Some(DataType::BigInt)),
            (&["9223372036854775808"], decimal(38, 0)),
            (&["12.50", "8.00"], decimal(12, 2)),
            (&["12.5", "8", "0.25"], decimal(12, 2)),
            (&["-136.5559", "59.8"], Some(DataType::Double)),
            (&["-136.5559", "59.8000"], decimal(12, 4)),
            (&["1e5", "2"], Some(DataType::Double)),
            (&["1.5e5", "2"], Some(DataType::Double)),
            (&["true", "FALSE"], Some(DataType::Boolean)),
            (&["true", "1"], Some(DataType::Text)),
            (&["00123", "456"], Some(DataType::Text)),
            (&["2026-01-01", ""], Some(DataType::Date)),
            (&["2026-01-01", "2026-01-01T10:00:00+02:00"], Some(DataType::Timestamp)),
            (&["2026-01-01", "soon"], Some(DataType::Text)),
            (&["", ""], None),
        ] {
            assert_eq!(column_type(&bare(values)), expected, "{values:?}");
        }
        // A JSON string of digits is a text.
        assert_eq!(column_type(&[Cell::Text("12".into())]), Some(DataType::Text));
        assert_eq!(column_type(&[Cell::Number("1E400".into())]), Some(DataType::Double));
    }

    #[test]
    fn times_are_found_by_name_and_value() {
        let guess = guess(
            &sample(&[
                ("time", &["1517365101235", "1517365017350"]),
                ("meta.created_at", &["2018-01-31", "2018-01-30"]),
                ("event_time", &["2018-01-31T02:18:21.235Z", "2018-01-31T02:16:57.350Z"]),
                ("updated", &["1517365391235", "1517368678040"]),
                ("partition", &["ak", "us"]),
            ]),
            None,
        )
        .expect("no choice was made");
        assert_eq!((guess.event_time, guess.arrival_time), (Some(2), Some(3)));
        assert_eq!(guess.time_unit_us, Some(1_000));
        assert_eq!(guess.partition, Some((4, 2)));
        let types: Vec<_> = guess.columns.iter().map(|c| c.dtype.clone()).collect();
        assert_eq!(types[..2], [DataType::BigInt, DataType::Date]);
        assert_eq!(types[2..4], [DataType::Timestamp, DataType::Timestamp]);
        assert_eq!(guess.lags.map(|l| l.max_us), Some(83_885_000));
        assert_eq!(guess.delay_us, 120_000_000);
    }

    #[test]
    fn arrival_times_must_be_in_order() {
        let times = ["2026-01-01T00:00:03Z", "2026-01-01T00:00:02Z", "2026-01-01T00:00:01Z"];
        let columns: [(&str, &[&str]); 2] = [("ts", &times), ("updated_at", &times)];
        let guess = guess(&sample(&columns), None).expect("no choice was made");
        assert_eq!((guess.event_time, guess.arrival_time), (Some(0), None));
    }

    #[test]
    fn the_choice_of_the_user_goes_first() {
        let columns: [(&str, &[&str]); 3] =
            [("event_time", &["2026-01-01T00:00:00Z"]), ("a.seen", &["1767225600"]), ("name", &["x"])];
        let chosen = guess(&sample(&columns), Some("A.seen")).expect("a column of times");
        assert_eq!((chosen.event_time, chosen.time_unit_us), (Some(1), Some(1_000_000)));
        for (name, word) in [("nothing", "expected a column"), ("name", "found TEXT")] {
            let error = guess(&sample(&columns), Some(name)).expect_err("no such times").to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn lags_are_against_the_running_maximum() {
        let times: Vec<Option<i64>> = [10, 20, 40, 70, 80, 50, 25].into_iter().map(Some).collect();
        assert_eq!(lags(&times), Some(Lags { p50_us: 0, p90_us: 55, p99_us: 55, max_us: 55 }));
        assert_eq!(lags(&[Some(1), None, Some(i64::MIN)]).map(|l| l.max_us), Some(i64::MAX));
        assert_eq!(lags(&[None]), None);
    }

    #[test]
    fn nice_durations_are_never_shorter() {
        for (us, nice) in [(0, 1), (1_000_001, 2), (55_000_000, 60), (3_600_000_000, 3_600), (90_000_000_000, 172_800)]
        {
            assert_eq!(nice_above(us), nice * 1_000_000);
        }
        assert_eq!(nice_above(29 * 86_400_000_000), 35 * 86_400_000_000);
        assert!(nice_above(i64::MAX) > 0);
    }
}
