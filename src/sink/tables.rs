//! The tables of one view: rows of correctable windows, held until final.
//!
//! See [`super::view`] for what the tables are, in which order they stand and why memory is bounded.

use super::rows::{Columns, RowWriter};
use super::{Change, Flow, Op};
use crate::error::Result;
use crate::plan::{ViewKind, ViewPlan};
use crate::types::{DataType, Value};
use crate::watermark::{AFTER_ALL, BEFORE_ALL};
use std::collections::BTreeMap;

/// Rows of correctable windows, and where they go when final.
pub(super) struct Tables {
    pub(super) metrics: Vec<Box<dyn RowWriter>>,
    pub(super) backfills: Vec<Box<dyn RowWriter>>,
    /// By (end, start) in microseconds.
    open: BTreeMap<(i64, i64), Groups>,
    horizon_us: Option<i64>,
    spike_above: u64,
    /// Per output column: whether it reads an aggregate.
    aggregate: Vec<bool>,
    frontier_us: i64,
}

/// The rows of one window, by group.
///
/// A window's first results come in the order of their groups and are appended; only rows that corrections bring need a
/// place found for them.
#[derive(Default)]
struct Groups {
    /// Ascending.
    first: Vec<(Box<[Value]>, Entry)>,
    /// Those that came out of order.
    more: BTreeMap<Box<[Value]>, Entry>,
}

impl Groups {
    fn len(&self) -> usize {
        self.first.len() + self.more.len()
    }

    /// Whether a group comes after all that were appended.
    fn is_beyond(&self, group: &[Value]) -> bool {
        self.first.last().is_none_or(|(last, _)| **last < *group)
    }

    fn get_mut(&mut self, group: &[Value]) -> Option<&mut Entry> {
        match self.first.binary_search_by(|(own, _)| (**own).cmp(group)) {
            Ok(at) => self.first.get_mut(at).map(|(_, entry)| entry),
            Err(_) => self.more.get_mut(group),
        }
    }

    fn insert(&mut self, group: Box<[Value]>, entry: Entry) {
        if self.more.is_empty() && self.is_beyond(&group) {
            self.first.push((group, entry));
        } else {
            self.more.insert(group, entry);
        }
    }

    /// All rows, by group.
    fn into_entries(self) -> impl Iterator<Item = Entry> {
        let (mut first, mut more) = (self.first.into_iter().peekable(), self.more.into_iter().peekable());
        std::iter::from_fn(move || {
            let other = match (first.peek(), more.peek()) {
                (Some((a, _)), Some((b, _))) => b < a,
                (None, _) => true,
                (Some(_), None) => false,
            };
            if other { more.next() } else { first.next() }.map(|(_, entry)| entry)
        })
    }
}

/// One key and window.
struct Entry {
    values: Box<[Value]>,
    late_count: u64,
    revision: u64,
    /// Whether the row is in the tables: not after `-D`.
    present: bool,
    /// The values first published, once they have been replaced.
    first: Option<Box<[Value]>>,
    /// First and last logical time of correction.
    corrected_us: Option<(i64, i64)>,
}

impl Tables {
    /// `None` for a view without windows.
    pub(super) fn new(plan: &ViewPlan) -> Option<Tables> {
        let ViewKind::Windowed(windowed) = &plan.kind else { return None };
        let first_aggregate = windowed.group.len() + 2;
        let aggregate = windowed.select.iter().map(|expr| {
            let mut read = std::collections::BTreeSet::new();
            expr.columns(&mut read);
            read.last().is_some_and(|&index| index >= first_aggregate)
        });
        Some(Tables {
            metrics: Vec::new(),
            backfills: Vec::new(),
            open: BTreeMap::new(),
            horizon_us: plan.horizon_us,
            spike_above: plan.spike_above,
            aggregate: aggregate.collect(),
            frontier_us: BEFORE_ALL,
        })
    }

    pub(super) fn backfill_columns(&self, output: &Columns) -> Vec<(String, DataType)> {
        let plain = output.iter().zip(&self.aggregate).filter(|(_, aggregate)| !**aggregate).map(|(c, _)| c.clone());
        let own = [
            ("late_count", DataType::BigInt),
            ("first_corrected_at", DataType::Timestamp),
            ("last_corrected_at", DataType::Timestamp),
        ];
        let aggregates = output.iter().zip(&self.aggregate).filter(|(_, aggregate)| **aggregate);
        plain
            .chain(own.map(|(name, dtype)| (name.to_string(), dtype)))
            .chain(aggregates.flat_map(|((name, dtype), _)| {
                [(format!("first_{name}"), dtype.clone()), (format!("latest_{name}"), dtype.clone())]
            }))
            .chain([("status".to_string(), DataType::Text)])
            .collect()
    }

    /// Rows that wait for their window to become final.
    pub(super) fn rows_held(&self) -> usize {
        self.open.values().map(Groups::len).sum()
    }

    /// Whether no correction of a window can come any more: a record stamped `end + horizon` is still accepted.
    fn is_final(&self, end_us: i64, frontier_us: i64) -> bool {
        frontier_us == AFTER_ALL
            || match self.horizon_us {
                Some(horizon_us) => frontier_us > end_us.saturating_add(horizon_us),
                None => frontier_us >= end_us,
            }
    }

    pub(super) fn apply(&mut self, change: Change) {
        let Some((start_us, end_us)) = change.window_us else {
            debug_assert!(false, "a change of a windowed view has a window");
            return;
        };
        debug_assert!(!self.is_final(end_us, self.frontier_us), "a final window does not change");
        let groups = self.open.entry((end_us, start_us)).or_default();
        // Comparing with the last group alone spares first results the search.
        let known = if groups.is_beyond(&change.group) && groups.more.is_empty() {
            None
        } else {
            groups.get_mut(&change.group)
        };
        match known {
            Some(entry) => entry.apply(change),
            None if change.op.is_retraction() => {}
            None => {
                let (group, entry) = Entry::new(change);
                groups.insert(group, entry);
            }
        }
    }

    pub(super) fn advance(&mut self, frontier_us: i64, words: &Words) -> Result<Flow> {
        self.frontier_us = self.frontier_us.max(frontier_us);
        let mut flow = Flow::Open;
        let mut wrote = false;
        while let Some(first) = self.open.first_entry() {
            let (end_us, _) = *first.key();
            if !self.is_final(end_us, frontier_us) {
                break;
            }
            let Some((_, groups)) = self.open.pop_first() else { break };
            for entry in groups.into_entries().filter(|entry| entry.present) {
                flow = flow.and(self.write(&entry, words)?);
                wrote = true;
            }
        }
        if wrote {
            for writer in self.metrics.iter_mut().chain(&mut self.backfills) {
                flow = flow.and(writer.flush()?);
            }
        }
        Ok(flow)
    }

    fn write(&mut self, entry: &Entry, words: &Words) -> Result<Flow> {
        let mut flow = Flow::Open;
        let tail = [count(entry.late_count), count(entry.revision)];
        for writer in &mut self.metrics {
            flow = flow.and(writer.write(&[&entry.values, &tail])?);
        }
        if entry.late_count > 0 && !self.backfills.is_empty() {
            let row = self.backfill_row(entry, words);
            for writer in &mut self.backfills {
                flow = flow.and(writer.write(&[&row])?);
            }
        }
        Ok(flow)
    }

    fn backfill_row(&self, entry: &Entry, words: &Words) -> Vec<Value> {
        let latest = entry.values.iter();
        let first = entry.first.as_ref().unwrap_or(&entry.values).iter();
        let columns = || self.aggregate.iter().zip(first.clone().zip(latest.clone()));
        let mut row: Vec<Value> =
            columns().filter(|(aggregate, _)| !**aggregate).map(|(_, (_, latest))| latest.clone()).collect();
        row.push(count(entry.late_count));
        let corrected = entry.corrected_us.map(|(first, last)| (time_or_null(first), time_or_null(last)));
        let (first_at, last_at) = corrected.unwrap_or((Value::Null, Value::Null));
        row.extend([first_at, last_at]);
        for (_, (first, latest)) in columns().filter(|(aggregate, _)| **aggregate) {
            row.extend([first.clone(), latest.clone()]);
        }
        row.push(if entry.late_count > self.spike_above { words.spike.clone() } else { words.minor.clone() });
        row
    }
}

impl Entry {
    fn new(change: Change) -> (Box<[Value]>, Entry) {
        let entry = Entry {
            values: change.values,
            late_count: change.late_count,
            revision: change.revision,
            present: true,
            first: None,
            corrected_us: (!change.closing).then_some((change.watermark_us, change.watermark_us)),
        };
        (change.group, entry)
    }

    fn apply(&mut self, change: Change) {
        if !change.closing {
            let (first, _) = self.corrected_us.unwrap_or((change.watermark_us, 0));
            self.corrected_us = Some((first, change.watermark_us));
        }
        self.present = !change.op.is_retraction();
        if self.present {
            let old = std::mem::replace(&mut self.values, change.values);
            self.first.get_or_insert(old);
            self.late_count = change.late_count;
            self.revision = change.revision;
        }
    }
}

/// Words of the outputs, made once.
pub(super) struct Words {
    ops: [(Op, Value); 4],
    minor: Value,
    spike: Value,
}

impl Words {
    pub(super) fn new() -> Words {
        let op = |op: Op| (op, Value::Text(op.name().into()));
        Words {
            ops: [op(Op::Insert), op(Op::UpdateBefore), op(Op::UpdateAfter), op(Op::Delete)],
            minor: Value::Text("minor".into()),
            spike: Value::Text("spike".into()),
        }
    }

    pub(super) fn op(&self, op: Op) -> Value {
        self.ops.iter().find(|(own, _)| *own == op).map_or(Value::Null, |(_, word)| word.clone())
    }
}

/// A count as a value; counts beyond 2^63 − 1 do not occur.
pub(super) fn count(n: u64) -> Value {
    Value::BigInt(i64::try_from(n).unwrap_or(i64::MAX))
}

/// A time; ±∞ have no date and are NULL.
pub(super) fn time_or_null(us: i64) -> Value {
    if us == BEFORE_ALL || us == AFTER_ALL { Value::Null } else { Value::Timestamp(us) }
}
