//! Sinks: changelog, metrics and backfills tables, the late and the reject output, the summary.
//!
//! Everything here runs on one thread and is given changes that are complete and sorted per watermark step; it decides
//! bytes, never results. [`text`] writes values, [`rows`] rows in a format, [`target`] bytes to standard output or to a
//! [`file`] that appears whole or not at all. [`view`] drives the sinks of one view and holds the tables of its correctable windows;
//! [`spool`] puts rows that come in any order into the order of their records; [`late`] and [`rejects`] are those rows;
//! [`summary`] is what a run says of itself.

pub mod file;
pub mod late;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod rejects;
pub mod rows;
pub mod spool;
pub mod summary;
pub mod table;
mod tables;
pub mod target;
pub mod text;
pub mod view;

use crate::types::Value;
use serde::{Deserialize, Serialize};

/// Whether anybody still reads what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a closed output ends the run"]
pub enum Flow {
    /// Go on.
    Open,
    /// The reader has closed the pipe: nothing more is wanted. The run stops and ends with success.
    Closed,
}

impl Flow {
    /// `Closed` if either is.
    pub fn and(self, other: Flow) -> Flow {
        if self == Flow::Closed { self } else { other }
    }
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Op {
    /// `-D`: retraction with no replacement.
    Delete,
    /// `-U`: retraction of the old row of an update.
    UpdateBefore,
    /// `+I`: a first result.
    Insert,
    /// `+U`: the replacement.
    UpdateAfter,
}

impl Op {
    /// The two letters used in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Op::Delete => "-D",
            Op::UpdateBefore => "-U",
            Op::Insert => "+I",
            Op::UpdateAfter => "+U",
        }
    }
    /// Whether the row leaves (`-D`, `-U`).
    pub fn is_retraction(self) -> bool {
        matches!(self, Op::Delete | Op::UpdateBefore)
    }
}

/// One row of a changelog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What happens.
    pub op: Op,
    /// Logical time: `window_end` on closing, the stamp for a correction; microseconds.
    pub watermark_us: i64,
    /// Whether it is a closing (instant `watermark⁻`) rather than a correction (instant `watermark`).
    pub closing: bool,
    /// 0 for the first result of a window and key.
    pub revision: u64,
    /// Late records in the result.
    pub late_count: u64,
    /// `[start, end)` in microseconds; pass-through rows have none.
    pub window_us: Option<(i64, i64)>,
    /// Group values, for the order (not all are published). For pass-through rows: partition order and position as BIGINTs.
    pub group: Box<[Value]>,
    /// The published columns, as in `ViewPlan::output`.
    pub values: Box<[Value]>,
}

impl Change {
    /// The documented order of a changelog file: watermark, closings first, window end, window start, group columns, retraction first.
    pub fn compare(&self, other: &Change) -> std::cmp::Ordering {
        let place = |c: &Change| (c.watermark_us, !c.closing, c.window_us.map(|(s, e)| (e, s)));
        place(self).cmp(&place(other)).then_with(|| self.group.cmp(&other.group)).then_with(|| self.op.cmp(&other.op))
    }
}

/// Puts what belongs to changes of one watermark step into the order of [`Change::compare`].
///
/// Comparing changes costs several cache misses, and a step can hold millions. Windows and the beginning of the first group
/// column are copied beside the numbers of the changes, which are sorted by them; few pairs are left to be compared in full.
pub fn sort_step<T>(step: &mut [T], change: impl Fn(&T) -> &Change) {
    let key = |(number, item): (usize, &T)| {
        let change = change(item);
        let window = change.window_us.map(|(start, end)| (end, start));
        (window, change.group.first().map_or(0, Value::rough), number)
    };
    let mut order: Vec<_> = step.iter().enumerate().map(key).collect();
    order.sort_unstable_by(|a, b| {
        let full = || match (step.get(a.2), step.get(b.2)) {
            (Some(x), Some(y)) => change(x).compare(change(y)),
            _ => std::cmp::Ordering::Equal,
        };
        (a.0, a.1).cmp(&(b.0, b.1)).then_with(full)
    });
    // Place `i` takes what stands at `from[i]`: each cycle of places is followed once.
    let mut from: Vec<usize> = order.into_iter().map(|(_, _, number)| number).collect();
    for first in 0..from.len() {
        let mut place = first;
        while let Some(source) = from.get_mut(place).map(|source| std::mem::replace(source, place))
            && source != first
        {
            step.swap(place, source);
            place = source;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![(-3i64..3).prop_map(Value::BigInt), any::<i64>().prop_map(Value::BigInt),]
    }

    fn group() -> impl Strategy<Value = Vec<Box<[Value]>>> {
        let text = || "[ab]{0,3}|[ab]{7,9}".prop_map(|s| Value::Text(s.as_str().into()));
        let double = || any::<f64>().prop_map(Value::Double);
        let decimal = || any::<i128>().prop_map(|x| Value::Decimal(x, 2));
        let null = || Just(Value::Null);
        let of = |one: BoxedStrategy<Value>| {
            let row = proptest::collection::vec(one, 2).prop_map(Vec::into_boxed_slice);
            proptest::collection::vec(row, 0..40)
        };
        prop_oneof![
            of(prop_oneof![value(), null()].boxed()),
            of(prop_oneof![text(), null()].boxed()),
            of(prop_oneof![double(), null()].boxed()),
            of(prop_oneof![decimal(), null()].boxed()),
            of(prop_oneof![any::<bool>().prop_map(Value::Boolean), null()].boxed()),
        ]
    }

    proptest! {
        #[test]
        fn a_step_is_sorted_as_compare_says(groups in group(), windows in proptest::collection::vec(0i64..3, 40)) {
            let change = |(group, start): (Box<[Value]>, i64)| Change {
                op: if start % 2 == 0 { Op::Insert } else { Op::Delete },
                watermark_us: 7,
                closing: false,
                revision: 0,
                late_count: 0,
                window_us: (start < 2).then_some((start, start + 5)),
                group,
                values: Box::default(),
            };
            let mut step: Vec<Change> = groups.into_iter().zip(windows).map(change).collect();
            let mut expected = step.clone();
            expected.sort_by(Change::compare);
            sort_step(&mut step, |c| c);
            prop_assert_eq!(step, expected);
        }
    }
}
