//! What the oracle expects against what the engine gave, row by row.
//!
//! Both sides are lists in a documented order, so they are walked side by side: a row is missing, unexpected, or differs.
//! Nothing is left out of the comparison but the wording of what failed in an expression.

use super::cast::to_text;
use super::collect::Collected;
use super::read::{Origin, TableTrace};
use super::{Expected, partition_order};
use crate::engine::ingest::TooLate;
use crate::engine::output::Reject;
use crate::plan::ViewPlan;
use crate::record::{Ledger, RecordCounts, RejectReason};
use crate::sink::Change;
use crate::time::format_timestamp;
use crate::types::Value;
use std::cmp::Ordering;

/// A row that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which list: `changelog`, `ledger`, `late output`, `rejects` or `partitions`.
    pub list: &'static str,
    /// What the oracle expects; `None`: no such row.
    pub expected: Option<String>,
    /// What the engine gave; `None`: no such row.
    pub found: Option<String>,
}

/// How rows of a list are compared and shown.
struct List<'a, T> {
    name: &'static str,
    /// The documented order; rows that are equal by it are the same row.
    order: &'a dyn Fn(&T, &T) -> Ordering,
    show: &'a dyn Fn(&T) -> String,
}

impl<T: PartialEq> List<'_, T> {
    fn difference(&self, expected: Option<&T>, found: Option<&T>) -> Difference {
        Difference { list: self.name, expected: expected.map(self.show), found: found.map(self.show) }
    }

    /// Every difference. Lists that are equal element by element have none, whatever their order.
    fn compare(&self, expected: &[T], found: &[T]) -> Vec<Difference> {
        if expected == found {
            return Vec::new();
        }
        if !found.is_sorted_by(|a, b| (self.order)(a, b).is_le())
            || !expected.is_sorted_by(|a, b| (self.order)(a, b).is_le())
        {
            return self.by_place(expected, found);
        }
        let mut out = Vec::new();
        let (mut expected, mut found) = (expected.iter().peekable(), found.iter().peekable());
        loop {
            let order = match (expected.peek(), found.peek()) {
                (None, None) => return out,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(e), Some(f)) => (self.order)(e, f),
            };
            let e = if order.is_le() { expected.next() } else { None };
            let f = if order.is_ge() { found.next() } else { None };
            if e != f {
                out.push(self.difference(e, f));
            }
        }
    }

    /// A list that is out of order is compared place by place.
    fn by_place(&self, expected: &[T], found: &[T]) -> Vec<Difference> {
        let places = 0..expected.len().max(found.len());
        let rows = places.map(|i| (expected.get(i), found.get(i))).filter(|(e, f)| e != f);
        rows.map(|(e, f)| self.difference(e, f)).collect()
    }
}

fn time(us: i64) -> String {
    let mut out = String::new();
    format_timestamp(us, &mut out);
    out
}

fn window(bounds: Option<(i64, i64)>) -> String {
    bounds.map_or_else(|| "no window".to_owned(), |(start, end)| format!("[{}, {})", time(start), time(end)))
}

fn values(values: &[Value]) -> String {
    let show = |v: &Value| if v.is_null() { "NULL".to_owned() } else { to_text(v) };
    values.iter().map(show).collect::<Vec<_>>().join(", ")
}

/// Compares two changelogs of a view.
pub fn changes(view: &ViewPlan, expected: &[Change], found: &[Change]) -> Vec<Difference> {
    let names: Vec<&str> = view.output.iter().map(|(name, _)| name.as_str()).collect();
    let show = |c: &Change| {
        let at = if c.closing { "closing" } else { "at" };
        let columns = c.values.iter().enumerate().map(|(i, v)| {
            let name = names.get(i).copied().unwrap_or("?");
            format!("{name} {}", values(std::slice::from_ref(v)))
        });
        let columns = columns.collect::<Vec<_>>().join(", ");
        let (op, when) = (c.op.name(), time(c.watermark_us));
        let place = format!("{} group ({})", window(c.window_us), values(&c.group));
        format!("{op} {at} {when} {place} revision {} late_count {}: {columns}", c.revision, c.late_count)
    };
    List { name: "changelog", order: &Change::compare, show: &show }.compare(expected, found)
}

/// A row of the late output, as both sides have it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LateRow {
    order: u32,
    partition: String,
    position: u64,
    event_time_us: i64,
    stamp_us: i64,
    window_us: Option<(i64, i64)>,
    lag_us: i64,
    columns: Vec<Value>,
}

fn late(expected: &[LateRow], found: &[LateRow]) -> Vec<Difference> {
    let place = |r: &LateRow| (r.order, r.position, r.window_us.map(|(start, end)| (end, start)));
    let show = |r: &LateRow| {
        format!(
            "partition {:?} position {} event time {} stamp {} {} lag {} µs: {}",
            r.partition,
            r.position,
            time(r.event_time_us),
            time(r.stamp_us),
            window(r.window_us),
            r.lag_us,
            values(&r.columns)
        )
    };
    List { name: "late output", order: &|a, b| place(a).cmp(&place(b)), show: &show }.compare(expected, found)
}

fn late_row(row: &TooLate) -> LateRow {
    LateRow {
        order: row.partition,
        partition: row.partition_name.to_string(),
        position: row.position,
        event_time_us: row.event_time_us,
        stamp_us: row.stamp_us,
        window_us: row.window_us,
        lag_us: row.lag_us,
        columns: row.columns.clone(),
    }
}

fn late_rows(expected: &Expected, view: &ViewPlan, trace: &TableTrace) -> Vec<LateRow> {
    let used = super::used_columns(view);
    let row = |l: &super::ExpectedLate| {
        let record = trace.rows.get(l.record)?;
        Some(LateRow {
            order: l.partition,
            partition: record.partition.clone().unwrap_or_default(),
            position: l.position,
            event_time_us: l.event_time_us,
            stamp_us: l.stamp_us,
            window_us: l.window_us,
            lag_us: l.lag_us,
            columns: used.iter().map(|c| record.row.get(*c).cloned().unwrap_or(Value::Null)).collect(),
        })
    };
    expected.late.iter().filter_map(row).collect()
}

/// The counts of a ledger, by name.
fn counts(ledger: &Ledger) -> Vec<(String, u64)> {
    let mut out = Vec::new();
    let mut records = |of: &str, c: &RecordCounts| {
        let classes = [
            ("read", c.read),
            ("on_time", c.on_time),
            ("corrected", c.corrected),
            ("partly_too_late", c.partly_too_late),
            ("too_late", c.too_late),
            ("filtered", c.filtered),
        ];
        let rejected = c.rejected.iter().map(|(reason, n)| (format!("{of}rejected ({})", reason.name()), *n));
        out.extend(classes.into_iter().map(|(name, n)| (format!("{of}{name}"), n)).chain(rejected));
    };
    records("", &ledger.records);
    for (name, c) in &ledger.partitions {
        records(&format!("partition {name:?}: "), c);
    }
    if let Some(c) = &ledger.unreadable_partition {
        records("unreadable partition: ", c);
    }
    let contributions = &ledger.contributions;
    out.push(("contributions on_time".to_owned(), contributions.on_time));
    out.push(("contributions late".to_owned(), contributions.late));
    out.push(("contributions too_late".to_owned(), contributions.too_late));
    // A count of nothing need not be there.
    out.retain(|(_, n)| *n > 0);
    out.sort();
    out
}

/// Compares two ledgers of a view.
pub fn ledger(expected: &Ledger, found: &Ledger) -> Vec<Difference> {
    let show = |(name, n): &(String, u64)| format!("{name} {n}");
    let list = List { name: "ledger", order: &|a: &(String, u64), b| a.0.cmp(&b.0), show: &show };
    let mut out = list.compare(&counts(expected), &counts(found));
    let mut sum = RecordCounts::default();
    found.parts().for_each(|c| sum.add(c));
    for (what, holds) in [
        ("the classes sum to what was read", found.records.balances()),
        ("the classes of each partition sum to what was read of it", found.parts().all(RecordCounts::balances)),
        ("the partitions sum to the total", sum == found.records),
    ] {
        if !holds {
            let found = Some(format!("{:?}", found.records));
            out.push(Difference { list: "ledger", expected: Some(what.to_owned()), found });
        }
    }
    out
}

/// Compares everything a view gave but its rejects, which are its table's affair.
pub fn view(
    view: &ViewPlan,
    index: usize,
    trace: &TableTrace,
    expected: &Expected,
    found: &Collected,
) -> Vec<Difference> {
    let mut out = changes(view, &expected.changes, found.changes.get(index).map_or(&[], Vec::as_slice));
    match found.ending.ledgers.get(index) {
        Some(found) => out.extend(ledger(&expected.ledger, found)),
        None => out.push(Difference { list: "ledger", expected: Some("a ledger".to_owned()), found: None }),
    }
    let found_late: Vec<LateRow> = found.too_late.get(index).into_iter().flatten().map(late_row).collect();
    out.extend(late(&late_rows(expected, view, trace), &found_late));
    out
}

/// A row of the reject output, as both sides have it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RejectRow {
    order: Option<u32>,
    partition: Option<String>,
    position: u64,
    view: Option<u32>,
    reason: RejectReason,
    origin: Origin,
    /// What the reader said; empty for what a view rejects.
    detail: String,
}

fn reject_row(reject: &Reject) -> RejectRow {
    RejectRow {
        order: reject.partition,
        partition: reject.partition_name.clone(),
        position: reject.position,
        view: reject.view,
        reason: reject.reason,
        origin: Origin { lane: reject.lane, file: reject.file, line: reject.line, raw: reject.raw.clone() },
        detail: if reject.view.is_none() { reject.detail.clone() } else { String::new() },
    }
}

/// Rejects of the table, and those of its views (`(view, expected)`).
fn reject_rows(trace: &TableTrace, views: &[(usize, &Expected)]) -> Vec<RejectRow> {
    let partitions = partition_order(&trace.known, &trace.rows);
    let row = |index: usize, view: Option<usize>, reason: RejectReason, detail: &str| {
        let record = trace.rows.get(index)?;
        let order = record.partition.as_ref().and_then(|name| partitions.iter().position(|p| p == name));
        Some(RejectRow {
            order: order.and_then(|o| u32::try_from(o).ok()),
            partition: record.partition.clone(),
            position: record.position,
            view: view.and_then(|v| u32::try_from(v).ok()),
            reason,
            origin: trace.origins.get(index).cloned().unwrap_or_default(),
            detail: detail.to_owned(),
        })
    };
    let of_table = trace.rows.iter().enumerate().filter_map(|(index, record)| {
        let (reason, detail) = record.reject.as_ref()?;
        row(index, None, *reason, detail)
    });
    let mut rows: Vec<RejectRow> = of_table.collect();
    for (view, expected) in views {
        rows.extend(expected.rejects.iter().filter_map(|(i, _)| row(*i, Some(*view), RejectReason::Value, "")));
    }
    rows.sort_by_key(|r| (r.order, r.position, r.view));
    rows
}

/// Compares the rejects and the partitions of a table.
pub fn table(index: usize, trace: &TableTrace, views: &[(usize, &Expected)], found: &Collected) -> Vec<Difference> {
    let place = |r: &RejectRow| (r.order, r.position, r.view);
    let show = |r: &RejectRow| {
        let view = r.view.map_or_else(|| "the table".to_owned(), |v| format!("view {v}"));
        let (partition, position) = (r.partition.as_deref().unwrap_or(""), r.position);
        let (reason, line, detail) = (r.reason.name(), r.origin.line, &r.detail);
        let raw = String::from_utf8_lossy(&r.origin.raw);
        format!("partition {partition:?} position {position} (line {line}) {reason}, by {view}: {detail} {raw}")
    };
    let list = List { name: "rejects", order: &|a, b| place(a).cmp(&place(b)), show: &show };
    let rows: Vec<RejectRow> = found.rejects.get(index).into_iter().flatten().map(reject_row).collect();
    let mut out = list.compare(&reject_rows(trace, views), &rows);
    let ending = found.ending.tables.get(index);
    let list = List { name: "partitions", order: &|_: &String, _| Ordering::Equal, show: &String::clone };
    let names = partition_order(&trace.known, &trace.rows);
    out.extend(list.by_place(&names, ending.map_or(&[], |ending| ending.partitions.as_slice())));
    let read = ending.map_or(0, |ending| ending.records);
    if read != trace.rows.len() as u64 || !found.ending.complete {
        let (expected, found) = (format!("{} records read", trace.rows.len()), format!("{read} records read"));
        out.push(Difference { list: "ledger", expected: Some(expected), found: Some(found) });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ContributionCounts;
    use crate::sink::Op;

    fn change(op: Op, at: i64, n: i64) -> Change {
        Change {
            op,
            watermark_us: at,
            closing: at == 60,
            revision: u64::from(op != Op::Insert && op != Op::UpdateBefore),
            late_count: 0,
            window_us: Some((0, 60)),
            group: [Value::Text("a".into())].into(),
            values: [Value::BigInt(n)].into(),
        }
    }

    fn a_view() -> ViewPlan {
        ViewPlan {
            name: Some("v".into()),
            table: 0,
            filter: None,
            kind: crate::plan::ViewKind::PassThrough(vec![]),
            output: vec![("n".into(), crate::types::DataType::BigInt)],
            horizon_us: None,
            late: None,
            spike_above: 1,
            sql: String::new(),
        }
    }

    fn log() -> Vec<Change> {
        vec![change(Op::Insert, 60, 3), change(Op::UpdateBefore, 70, 3), change(Op::UpdateAfter, 70, 5)]
    }

    fn differences(tamper: impl Fn(&mut Vec<Change>)) -> Vec<Difference> {
        let mut found = log();
        tamper(&mut found);
        changes(&a_view(), &log(), &found)
    }

    #[test]
    fn every_field_of_a_change_is_compared() {
        assert_eq!(differences(|_| {}), []);
        let tampers: [fn(&mut Change); 9] = [
            |c| c.op = Op::Delete,
            |c| c.watermark_us += 1,
            |c| c.closing = !c.closing,
            |c| c.revision += 1,
            |c| c.late_count += 1,
            |c| c.window_us = Some((0, 61)),
            |c| c.window_us = None,
            |c| c.group = [Value::Text("b".into())].into(),
            |c| c.values = [Value::BigInt(4)].into(),
        ];
        for (number, tamper) in tampers.iter().enumerate() {
            for row in 0..3 {
                let found = differences(|log| tamper(&mut log[row]));
                assert!(!found.is_empty(), "tampering {number} with row {row} goes unnoticed");
            }
        }
    }

    #[test]
    fn missing_unexpected_and_displaced_changes_are_told() {
        let missing = differences(|log| drop(log.remove(1)));
        assert_eq!(missing.len(), 1, "the rows after it are not blamed");
        assert!(missing[0].found.is_none() && missing[0].expected.as_ref().unwrap().contains("-U at"), "{missing:?}");
        let twice = differences(|log| log.push(change(Op::UpdateAfter, 70, 5)));
        assert_eq!(twice.len(), 1);
        assert!(twice[0].expected.is_none());
        assert_eq!(differences(|log| log.swap(1, 2)).len(), 2, "the order counts");
        assert_eq!(differences(Vec::clear).len(), 3);
    }

    #[test]
    fn a_difference_reads_well() {
        let found = differences(|log| log[2].values = [Value::Null].into());
        let start = "+U at 1970-01-01T00:00:00.000070Z [1970-01-01T00:00:00Z, 1970-01-01T00:00:00.000060Z) group (a) revision 1 late_count 0: n ";
        assert_eq!(found[0].expected.as_deref(), Some(format!("{start}5").as_str()));
        assert_eq!(found[0].found.as_deref(), Some(format!("{start}NULL").as_str()));
    }

    #[test]
    fn ledgers_are_compared_by_class_and_must_balance() {
        let one = RecordCounts { read: 2, on_time: 1, filtered: 1, ..RecordCounts::default() };
        let whole = Ledger {
            records: one.clone(),
            contributions: ContributionCounts { on_time: 1, late: 0, too_late: 0 },
            partitions: [("a".to_owned(), one)].into(),
            unreadable_partition: None,
        };
        assert_eq!(ledger(&whole, &whole), []);
        let mut late = whole.clone();
        late.contributions.late = 1;
        assert_eq!(ledger(&whole, &late)[0].found.as_deref(), Some("contributions late 1"));
        let mut lost = whole.clone();
        lost.records.filtered = 0;
        lost.partitions.clear();
        let found = ledger(&lost, &lost);
        assert_eq!(found.len(), 2, "equal, but wrong: {found:?}");
        let (mut unread, mut nameless) = (whole.clone(), whole.clone());
        let rejects =
            RecordCounts { read: 1, rejected: [(RejectReason::Partition, 1)].into(), ..RecordCounts::default() };
        unread.count(None, &rejects);
        nameless.count(Some(""), &rejects);
        assert_eq!(ledger(&unread, &unread), []);
        assert!(!ledger(&unread, &nameless).is_empty(), "a partition may be named ''");
        let mut reject = whole.clone();
        reject.records.rejected.insert(RejectReason::Value, 1);
        assert!(!ledger(&whole, &reject).is_empty());
    }

    #[test]
    fn late_rows_are_compared_whole() {
        let row = LateRow {
            order: 0,
            partition: "p".into(),
            position: 3,
            event_time_us: 5,
            stamp_us: 70,
            window_us: Some((0, 60)),
            lag_us: 10,
            columns: vec![Value::Null],
        };
        assert_eq!(late(std::slice::from_ref(&row), std::slice::from_ref(&row)), []);
        let other = LateRow { lag_us: 11, ..row.clone() };
        assert_eq!(late(&[row], &[other]).len(), 1);
    }
}
