//! Brute force over a vector of records: what the results are by definition.
//!
//! *The result as of an instant is the aggregate over the accepted records that count by then, for each window whose
//! end has been reached; it exists only if there is at least one such record.* [`evaluate`] does just that: for each
//! key and window, at each instant at which something could change, it computes the result from scratch and compares
//! it with the one before. No incremental state, no slices, no frontier: what the engine does cleverly must equal this.
//!
//! The module knows nothing of SQL: what a result row is, and whether it is shown at all (`HAVING`), is a closure over
//! the accepted records of a window. Rejects never come here. Sessions are covered as well as tumbling and hopping windows.
//!
//! Invariant: the outcome depends on the set of records alone, not on their order (but for lists of records by index).
//! Cost: (records of a window) × (instants of that window), each from scratch; a session's window is its whole key.

use crate::aggregate::RecordOrder;
use crate::lateness::{Lateness, classify, lag_us};
use crate::plan::LateRecords;
use crate::record::ContributionCounts;
use crate::sink::{Change, Op};
use crate::types::Value;
use crate::watermark::AFTER_ALL;
use std::collections::BTreeMap;

/// Group values.
pub type Key = Box<[Value]>;
/// `[start, end)` in microseconds.
pub type Bounds = (i64, i64);

/// How windows are assigned. Microseconds, all lengths > 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// Every `[k·slide + offset, k·slide + offset + size)` that contains the event time; tumbling if `slide == size`.
    Hopping {
        /// Length.
        size_us: i64,
        /// Distance of starts.
        slide_us: i64,
        /// Shift of starts from 1970.
        offset_us: i64,
    },
    /// Maximal runs of a key's records, each less than `gap` after the one before.
    Session {
        /// The gap.
        gap_us: i64,
    },
}

/// Settings of a query that lateness and windows depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OracleSettings {
    /// The windows.
    pub windows: Windows,
    /// `None`: late contributions are dropped.
    pub horizon_us: Option<i64>,
    /// How late records are judged.
    pub late_records: LateRecords,
    /// The frontier at which reading stopped: only what is final there is published. [`AFTER_ALL`] at the end of the input.
    pub frontier_us: i64,
}

/// A record that is no reject, with its stamp and what the aggregates want of it.
#[derive(Clone, Debug)]
pub struct OracleRecord<A> {
    /// Its event time and place.
    pub order: RecordOrder,
    /// Its stamp.
    pub stamp_us: i64,
    /// Its group values.
    pub key: Key,
    /// Whether `WHERE` removed it.
    pub filtered: bool,
    /// What the closure aggregates.
    pub input: A,
}

/// The class of a record in the ledger (rejects aside).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordClass {
    /// On time for all its windows.
    OnTime,
    /// Late and accepted for at least one window, dropped for none.
    Corrected,
    /// Dropped for at least one window, not for all.
    PartlyTooLate,
    /// Dropped for all windows, or by `late_records = 'drop'`.
    TooLate,
    /// Removed by `WHERE`.
    Filtered,
}

/// A dropped contribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Index of the record in the input.
    pub record: usize,
    /// The window; `None` under `late_records = 'drop'`.
    pub window_us: Option<Bounds>,
    /// `stamp − end`, or `stamp − et` under `late_records = 'drop'`.
    pub lag_us: i64,
}

/// Everything that follows from the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The changelog, in its documented order.
    pub changes: Vec<Change>,
    /// Dropped contributions by record, then window start.
    pub dropped: Vec<Dropped>,
    /// The class of each record.
    pub classes: Vec<RecordClass>,
    /// Contributions by class.
    pub contributions: ContributionCounts,
}

/// A result that cannot be computed (a sum that does not fit): the first in changelog order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OracleError {
    /// The key.
    pub key: Key,
    /// The window.
    pub window_us: Bounds,
    /// What is wrong.
    pub message: String,
}

/// Every window of tumbling or hopping windows that contains `event_time_us`, by start; found by trying starts.
/// Windows that pass the 64-bit range are left out (such records are rejects, reason `range`).
pub fn windows_of(windows: &Windows, event_time_us: i64) -> Vec<Bounds> {
    let Windows::Hopping { size_us, slide_us, offset_us } = *windows else { return Vec::new() };
    let (size, slide, offset) = (i128::from(size_us), i128::from(slide_us), i128::from(offset_us));
    let et = i128::from(event_time_us);
    let mut found = Vec::new();
    // Begins at a start that lies a whole window too early, and goes on until starts lie after the event.
    let mut start = (et - offset - size).div_euclid(slide) * slide + offset;
    while start <= et {
        if et < start + size
            && let (Ok(start), Ok(end)) = (i64::try_from(start), i64::try_from(start + size))
        {
            found.push((start, end));
        }
        start += slide;
    }
    found
}

/// A logical instant: `(t, false)` is `t⁻`, when the watermark reaches `t`; `(t, true)` is `t`.
type Moment = (i64, bool);

/// Whether a record stamped `stamp_us` counts at `moment`.
fn counts(stamp_us: i64, moment: Moment) -> bool {
    stamp_us < moment.0 || (moment.1 && stamp_us == moment.0)
}

/// Whether what happens at `moment` is final once the frontier stands at `frontier_us`.
fn is_final(moment: Moment, frontier_us: i64) -> bool {
    frontier_us == AFTER_ALL || if moment.1 { moment.0 < frontier_us } else { moment.0 <= frontier_us }
}

/// A record accepted for a window (or for its key's sessions).
struct Accepted<'a, A> {
    record: &'a OracleRecord<A>,
    late: bool,
}

/// Judges every record and answers what was dropped, the classes, and the accepted contributions by key and window
/// (sessions: by key, with the window `(0, 0)`).
#[expect(clippy::type_complexity, reason = "private; the map is local to `evaluate`")]
fn judge<'a, A>(
    settings: &OracleSettings,
    records: &'a [OracleRecord<A>],
) -> (Outcome, BTreeMap<(Key, Bounds), Vec<Accepted<'a, A>>>) {
    let mut out = Outcome {
        changes: Vec::new(),
        dropped: Vec::new(),
        classes: Vec::new(),
        contributions: ContributionCounts::default(),
    };
    let mut accepted: BTreeMap<(Key, Bounds), Vec<Accepted<'a, A>>> = BTreeMap::new();
    for (index, record) in records.iter().enumerate() {
        let (et, stamp) = (record.order.event_time_us, record.stamp_us);
        if record.filtered {
            out.classes.push(RecordClass::Filtered);
            continue;
        }
        if settings.late_records == LateRecords::Drop && et < stamp {
            out.dropped.push(Dropped { record: index, window_us: None, lag_us: lag_us(stamp, et) });
            out.contributions.too_late += 1;
            out.classes.push(RecordClass::TooLate);
            continue;
        }
        let windows = match settings.windows {
            Windows::Session { gap_us } => vec![(et, et.saturating_add(gap_us))],
            Windows::Hopping { .. } => windows_of(&settings.windows, et),
        };
        let (mut late, mut too_late) = (0, 0);
        for window in &windows {
            let lateness = classify(stamp, window.1, settings.horizon_us);
            match lateness {
                Lateness::TooLate => {
                    too_late += 1;
                    let lag_us = lag_us(stamp, window.1);
                    out.dropped.push(Dropped { record: index, window_us: Some(*window), lag_us });
                    out.contributions.too_late += 1;
                    continue;
                }
                Lateness::Late => {
                    late += 1;
                    out.contributions.late += 1;
                }
                Lateness::OnTime => out.contributions.on_time += 1,
            }
            let place = if matches!(settings.windows, Windows::Session { .. }) { (0, 0) } else { *window };
            let late = lateness == Lateness::Late;
            accepted.entry((record.key.clone(), place)).or_default().push(Accepted { record, late });
        }
        out.classes.push(match (late, too_late) {
            (_, n) if n > 0 && n == windows.len() => RecordClass::TooLate,
            (_, 1..) => RecordClass::PartlyTooLate,
            (1.., _) => RecordClass::Corrected,
            _ => RecordClass::OnTime,
        });
    }
    accepted.values_mut().for_each(|list| list.sort_by_key(|a| a.record.order));
    (out, accepted)
}

/// The windows that exist at `moment` and their accepted records that count by then. `accepted` is in event-time order.
fn contents<'b, 'a, A>(
    windows: &Windows,
    place: Bounds,
    accepted: &'b [Accepted<'a, A>],
    moment: Moment,
) -> Vec<(Bounds, Vec<&'b Accepted<'a, A>>)> {
    let counting: Vec<&Accepted<A>> = accepted.iter().filter(|a| counts(a.record.stamp_us, moment)).collect();
    let mut found: Vec<(Bounds, Vec<&Accepted<A>>)> = Vec::new();
    match windows {
        Windows::Hopping { .. } => {
            if !counting.is_empty() {
                found.push((place, counting));
            }
        }
        Windows::Session { gap_us } => {
            for a in counting {
                let et = a.record.order.event_time_us;
                let end = et.saturating_add(*gap_us);
                match found.last_mut() {
                    // `et < last et + gap`; records exactly a gap apart only touch.
                    Some((bounds, run)) if et < bounds.1 => {
                        bounds.1 = end;
                        run.push(a);
                    }
                    _ => found.push(((et, end), vec![a])),
                }
            }
        }
    }
    found.retain(|(bounds, _)| bounds.1 <= moment.0);
    found
}

/// A row as published: its revision, late records and columns.
#[derive(Clone, PartialEq)]
struct Row {
    revision: u64,
    late_count: u64,
    values: Box<[Value]>,
}

/// Computes the whole outcome. `row` makes the published columns of a result from its key, window and accepted records
/// (in event-time order): `None` if `HAVING` hides it.
///
/// # Errors
/// The first result in changelog order, among those that are final, for which `row` fails.
pub fn evaluate<A, R>(settings: &OracleSettings, records: &[OracleRecord<A>], row: R) -> Result<Outcome, OracleError>
where
    R: Fn(&Key, Bounds, &[&OracleRecord<A>]) -> Result<Option<Box<[Value]>>, String>,
{
    let (mut out, accepted) = judge(settings, records);
    let mut errors: Vec<(Moment, Bounds, Key, String)> = Vec::new();
    for ((key, place), accepted) in &accepted {
        let mut moments: Vec<Moment> = Vec::new();
        for a in accepted {
            moments.push((a.record.stamp_us, true));
            moments.push((place.1, false));
            if let Windows::Session { gap_us } = settings.windows {
                moments.push((a.record.order.event_time_us.saturating_add(gap_us), false));
            }
        }
        moments.sort_unstable();
        moments.dedup();
        moments.retain(|moment| is_final(*moment, settings.frontier_us));
        let mut published: BTreeMap<Bounds, Row> = BTreeMap::new();
        let mut revisions: BTreeMap<Bounds, u64> = BTreeMap::new();
        for moment in moments {
            let mut results: BTreeMap<Bounds, Row> = BTreeMap::new();
            for (bounds, members) in contents(&settings.windows, *place, accepted, moment) {
                let late_count = members.iter().filter(|a| a.late).count() as u64;
                let members: Vec<&OracleRecord<A>> = members.iter().map(|a| a.record).collect();
                match row(key, bounds, &members) {
                    Ok(Some(values)) => {
                        results.insert(bounds, Row { revision: 0, late_count, values });
                    }
                    Ok(None) => {}
                    Err(message) => errors.push((moment, bounds, key.clone(), message)),
                }
            }
            let step = difference(&mut published, results, &mut revisions);
            out.changes.extend(step.into_iter().map(|(op, window, row)| Change {
                op,
                watermark_us: moment.0,
                closing: !moment.1,
                revision: row.revision,
                late_count: row.late_count,
                window_us: Some(window),
                group: key.clone(),
                values: row.values,
            }));
        }
    }
    out.changes.sort_by(Change::compare);
    errors.sort_by(|(a, (s, e), k, _), (b, (t, f), l, _)| (a, e, s, k).cmp(&(b, f, t, l)));
    match errors.into_iter().next() {
        Some((_, window_us, key, message)) => Err(OracleError { key, window_us, message }),
        None => Ok(out),
    }
}

/// The changes from the rows `published` to those of `results`; `published` follows.
fn difference(
    published: &mut BTreeMap<Bounds, Row>,
    results: BTreeMap<Bounds, Row>,
    revisions: &mut BTreeMap<Bounds, u64>,
) -> Vec<(Op, Bounds, Row)> {
    let mut changes = Vec::new();
    let gone: Vec<Bounds> = published.keys().filter(|bounds| !results.contains_key(bounds)).copied().collect();
    for bounds in gone {
        if let Some(old) = published.remove(&bounds) {
            changes.push((Op::Delete, bounds, old));
        }
    }
    for (bounds, mut new) in results {
        let old = published.get(&bounds);
        if old.is_some_and(|old| old.late_count == new.late_count && old.values == new.values) {
            continue;
        }
        let revision = revisions.entry(bounds).or_insert(0);
        new.revision = *revision;
        *revision += 1;
        match published.insert(bounds, new.clone()) {
            Some(old) => {
                changes.push((Op::UpdateBefore, bounds, old));
                changes.push((Op::UpdateAfter, bounds, new));
            }
            None => changes.push((Op::Insert, bounds, new)),
        }
    }
    changes
}

/// The metrics table: the latest row of each key and window that has not left, by window end, window start and group.
/// Every row is an `+I` or `+U` of the changelog.
pub fn metrics(changes: &[Change]) -> Vec<Change> {
    let mut latest: BTreeMap<(Option<Bounds>, &[Value]), &Change> = BTreeMap::new();
    for change in changes {
        let place = (change.window_us.map(|(start, end)| (end, start)), &*change.group);
        match change.op {
            Op::Delete | Op::UpdateBefore => latest.remove(&place),
            Op::Insert | Op::UpdateAfter => latest.insert(place, change),
        };
    }
    latest.into_values().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(et: i64, stamp: i64, input: i64) -> OracleRecord<i64> {
        let order = RecordOrder { event_time_us: et, partition: 0, position: 0 };
        OracleRecord { order, stamp_us: stamp, key: [Value::BigInt(0)].into(), filtered: false, input }
    }
    fn settings(windows: Windows, horizon_us: Option<i64>) -> OracleSettings {
        OracleSettings { windows, horizon_us, late_records: LateRecords::Window, frontier_us: AFTER_ALL }
    }
    const TEN: Windows = Windows::Hopping { size_us: 10, slide_us: 10, offset_us: 0 };

    /// Sum of the inputs, hidden while it is odd.
    fn even_sum(_: &Key, _: Bounds, records: &[&OracleRecord<i64>]) -> Result<Option<Box<[Value]>>, String> {
        let sum: i64 = records.iter().map(|r| r.input).sum();
        if sum > 100 { Err("too large".into()) } else { Ok((sum % 2 == 0).then(|| [Value::BigInt(sum)].into())) }
    }
    fn text(outcome: &Outcome) -> Vec<String> {
        let line = |c: &Change| {
            let place = if c.closing { "-" } else { "" };
            format!(
                "{} {}{place} r{} l{} {:?} {:?}",
                c.op.name(),
                c.watermark_us,
                c.revision,
                c.late_count,
                c.window_us,
                c.values
            )
        };
        outcome.changes.iter().map(line).map(|l| l.replace("Some(", "").replace(')', "").replace('(', "")).collect()
    }

    #[test]
    fn windows_by_trial_equal_the_definition() {
        for size in 1..7 {
            for slide in 1..=size {
                for offset in 0..slide {
                    for et in -15..15 {
                        let all = (-40..40).map(|k| k * slide + offset).map(|s| (s, s + size));
                        let expected: Vec<_> = all.filter(|(s, e)| *s <= et && et < *e).collect();
                        let windows = Windows::Hopping { size_us: size, slide_us: slide, offset_us: offset };
                        assert_eq!(windows_of(&windows, et), expected, "{windows:?} {et}");
                    }
                }
            }
        }
    }

    #[test]
    fn having_numbers_published_rows_only() {
        // Hidden at the close (1), shown at 12 (2), hidden at 13 (3), shown again at 14 (4).
        let records = [record(1, 0, 1), record(2, 12, 1), record(2, 13, 1), record(2, 14, 1)];
        let outcome = evaluate(&settings(TEN, Some(100)), &records, even_sum).unwrap();
        let expected = ["+I 12 r0 l1 0, 10 [BigInt2]", "-D 13 r0 l1 0, 10 [BigInt2]", "+I 14 r1 l3 0, 10 [BigInt4]"];
        assert_eq!(text(&outcome), expected);
        assert_eq!(outcome.classes[0], RecordClass::OnTime);
        assert_eq!(outcome.classes[3], RecordClass::Corrected);
        assert_eq!(metrics(&outcome.changes).len(), 1);
    }

    #[test]
    fn when_reading_stops_only_what_is_final_is_published() {
        let records = [record(1, 0, 2), record(12, 9, 2), record(2, 20, 2)];
        let at = |frontier_us| OracleSettings { frontier_us, ..settings(TEN, Some(100)) };
        let count = |frontier| evaluate(&at(frontier), &records, even_sum).unwrap().changes.len();
        assert_eq!([9, 10, 19, 20, 21].map(count), [0, 1, 1, 2, 4]);
        let outcome = evaluate(&at(20), &records, even_sum).unwrap();
        assert_eq!(text(&outcome), ["+I 10- r0 l0 0, 10 [BigInt2]", "+I 20- r0 l0 10, 20 [BigInt2]"]);
        assert_eq!(outcome.classes[2], RecordClass::Corrected, "it was read, so it is counted");
    }

    #[test]
    fn the_first_error_in_changelog_order_is_told() {
        let records = [record(11, 0, 102), record(1, 0, 2), record(2, 30, 100), record(25, 0, 200)];
        let error = evaluate(&settings(TEN, Some(100)), &records, even_sum).unwrap_err();
        assert_eq!((error.window_us, error.message.as_str()), ((10, 20), "too large"));
        let stopped = OracleSettings { frontier_us: 19, ..settings(TEN, Some(100)) };
        assert!(evaluate(&stopped, &records, even_sum).is_ok());
    }

    #[test]
    fn sessions_join_and_are_visible_when_their_end_is_reached() {
        let session = Windows::Session { gap_us: 10 };
        // [0, 10) is published at 10; the record at 5 counts at 12 and extends it to [0, 15); 14 joins [14, 24) to it.
        let records = [record(0, 0, 2), record(5, 12, 2), record(14, 13, 2)];
        let outcome = evaluate(&settings(session, None), &records, even_sum).unwrap();
        let expected = ["+I 10- r0 l0 0, 10 [BigInt2]", "-D 12 r0 l0 0, 10 [BigInt2]", "+I 24- r0 l0 0, 24 [BigInt6]"];
        assert_eq!(text(&outcome), expected);
        let apart = [record(0, 0, 2), record(10, 0, 2)];
        let outcome = evaluate(&settings(session, None), &apart, even_sum).unwrap();
        assert_eq!(outcome.changes.len(), 2, "exactly a gap apart is two sessions");
    }

    #[test]
    fn drop_is_for_all_windows_and_judges_by_event_time() {
        let windows = Windows::Hopping { size_us: 10, slide_us: 5, offset_us: 0 };
        let drop = OracleSettings { late_records: LateRecords::Drop, ..settings(windows, None) };
        let records = [record(40, 45, 2), record(45, 45, 2)];
        let outcome = evaluate(&drop, &records, even_sum).unwrap();
        assert_eq!(outcome.dropped, [Dropped { record: 0, window_us: None, lag_us: 5 }]);
        assert_eq!(outcome.classes, [RecordClass::TooLate, RecordClass::OnTime]);
        let outcome = evaluate(&settings(windows, None), &records, even_sum).unwrap();
        assert_eq!(outcome.dropped, [Dropped { record: 0, window_us: Some((35, 45)), lag_us: 0 }]);
        assert_eq!(outcome.classes, [RecordClass::PartlyTooLate, RecordClass::OnTime]);
        assert_eq!(outcome.contributions, ContributionCounts { on_time: 3, late: 0, too_late: 1 });
    }
}
