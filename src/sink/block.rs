//! Blocks of changes in columns, and runs of them in the documented order.
//!
//! Changes of a view come by the million when a window of many keys closes. They stay in the columns in which they were
//! computed until they are written; [`Change`] is one of them on its own, for whoever wants rows.

use super::{Change, Op};
use crate::per_row::{PerRow, error_of, take_errors};
use crate::time::Instant;
use crate::types::{Column, compare_rows};
use crate::watermark::BEFORE_ALL;
use std::cmp::Ordering;
use std::sync::Arc;

/// A change without its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What happens.
    pub op: Op,
    /// As [`Change::watermark_us`].
    pub watermark_us: i64,
    /// As [`Change::closing`].
    pub closing: bool,
    /// As [`Change::revision`].
    pub revision: u64,
    /// As [`Change::late_count`].
    pub late_count: u64,
    /// As [`Change::window_us`].
    pub window_us: Option<(i64, i64)>,
}

/// Changes of one view in the documented order (see [`Change::compare`]).
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeBlock {
    /// Number of rows.
    pub len: usize,
    /// Whether instants are times; else they stand for places in the input.
    pub timed: bool,
    /// The instant of each change, ascending.
    pub at: PerRow<Instant>,
    /// What happens.
    pub op: PerRow<Op>,
    /// As [`Change::revision`].
    pub revision: PerRow<u64>,
    /// As [`Change::late_count`].
    pub late_count: PerRow<u64>,
    /// As [`Change::window_us`].
    pub window_us: PerRow<Option<(i64, i64)>>,
    /// Group columns; for pass-through rows partition order and position.
    pub group: Vec<Column>,
    /// The published columns.
    pub values: Vec<Column>,
    /// Rows that cannot be published, ascending, and why.
    pub errors: Vec<(u32, Box<str>)>,
}

impl ChangeBlock {
    /// A change without its columns.
    #[inline]
    pub fn head(&self, row: usize) -> Head {
        let (watermark_us, closing) = if self.timed { self.at.get(row).time() } else { (BEFORE_ALL, false) };
        Head {
            op: self.op.get(row),
            watermark_us,
            closing,
            revision: self.revision.get(row),
            late_count: self.late_count.get(row),
            window_us: self.window_us.get(row),
        }
    }

    /// A change on its own.
    pub fn change(&self, row: usize) -> Change {
        let Head { op, watermark_us, closing, revision, late_count, window_us } = self.head(row);
        let cells = |columns: &[Column]| columns.iter().map(|column| column.value(row)).collect();
        let (group, values) = (cells(&self.group), cells(&self.values));
        Change { op, watermark_us, closing, revision, late_count, window_us, group, values }
    }

    /// Why a row cannot be published, if it cannot.
    pub fn error(&self, row: usize) -> Option<&str> {
        error_of(&self.errors, row)
    }

    /// Makes sure of the invariants; what was read may break them.
    ///
    /// # Errors
    /// When it does (lower case, no full stop).
    pub fn check(&self) -> Result<(), &'static str> {
        let beside = self.at.fits(self.len)
            && self.op.fits(self.len)
            && self.revision.fits(self.len)
            && self.late_count.fits(self.len)
            && self.window_us.fits(self.len);
        let columns = self.group.iter().chain(&self.values).all(|column| column.len() == self.len);
        if !beside || !columns {
            return Err("expected columns as long as their block");
        }
        // Every view has a column. Without one a few bytes could announce rows by the billion.
        if self.len > 0 && self.group.is_empty() && self.values.is_empty() {
            return Err("expected a column in a block with rows");
        }
        let in_order = match &self.at {
            PerRow::All(_) => true,
            PerRow::Each(each) => each.is_sorted(),
        };
        let errors = self.errors.is_sorted_by(|a, b| a.0 < b.0)
            && self.errors.last().is_none_or(|(row, _)| (*row as usize) < self.len);
        if in_order && errors { Ok(()) } else { Err("expected changes in the order of their instants") }
    }

    /// The block of the rows named, in that order.
    #[must_use]
    pub fn take(&self, rows: &[u32]) -> ChangeBlock {
        ChangeBlock {
            len: rows.len(),
            timed: self.timed,
            at: self.at.take(rows),
            op: self.op.take(rows),
            revision: self.revision.take(rows),
            late_count: self.late_count.take(rows),
            window_us: self.window_us.take(rows),
            group: self.group.iter().map(|column| column.take(rows)).collect(),
            values: self.values.iter().map(|column| column.take(rows)).collect(),
            errors: take_errors(&self.errors, rows),
        }
    }

    /// The first row at `at` or later; the length if there is none.
    pub fn first_at(&self, at: Instant) -> usize {
        match &self.at {
            PerRow::All(all) if *all < at => self.len,
            PerRow::All(_) => 0,
            PerRow::Each(each) => each.partition_point(|own| *own < at),
        }
    }

    /// The documented order of one's row and another's.
    fn compare(&self, row: usize, other: &ChangeBlock, other_row: usize) -> Ordering {
        let place = |block: &ChangeBlock, row| (block.at.get(row), block.window_us.get(row).map(|(s, e)| (e, s)));
        place(self, row)
            .cmp(&place(other, other_row))
            .then_with(|| compare_rows(&self.group, row, &other.group, other_row))
            .then_with(|| self.op.get(row).cmp(&other.op.get(other_row)))
    }
}

/// Rows in the order in which they are published: block and row.
#[derive(Clone, Debug)]
enum Order {
    /// Blocks one after another.
    AsTheyStand,
    Rows(Vec<(u32, u32)>),
}

/// Changes of one view that are complete, in the documented order.
#[derive(Clone, Debug)]
pub struct ChangeRun {
    blocks: Vec<Arc<ChangeBlock>>,
    order: Order,
    len: usize,
}

impl ChangeRun {
    /// Lays the rows of blocks down in order. Each block has an order of its own already (rows that pass through excepted).
    pub fn new(blocks: Vec<ChangeBlock>) -> ChangeRun {
        let blocks: Vec<Arc<ChangeBlock>> = blocks.into_iter().filter(|block| block.len > 0).map(Arc::new).collect();
        let len = blocks.iter().map(|block| block.len).sum();
        let order = if stands(&blocks) { Order::AsTheyStand } else { Order::Rows(sorted(&blocks, len)) };
        ChangeRun { blocks, order, len }
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The changes in order, as block and row.
    pub fn rows(&self) -> impl Iterator<Item = (&Arc<ChangeBlock>, usize)> + Clone + '_ {
        let (standing, listed) = match &self.order {
            Order::AsTheyStand => (self.blocks.as_slice(), [].as_slice()),
            Order::Rows(rows) => ([].as_slice(), rows.as_slice()),
        };
        let standing = standing.iter().flat_map(|block| (0..block.len).map(move |row| (block, row)));
        let listed = listed.iter().filter_map(|(b, row)| self.blocks.get(*b as usize).map(|b| (b, *row as usize)));
        standing.chain(listed)
    }

    /// The changes of each watermark step, on their own.
    pub fn into_steps(self) -> Vec<Vec<Change>> {
        let mut steps: Vec<Vec<Change>> = Vec::new();
        let mut last = None;
        for (block, row) in self.rows() {
            let at = Some(block.at.get(row));
            if last != at {
                steps.push(Vec::new());
                last = at;
            }
            steps.last_mut().into_iter().for_each(|step| step.push(block.change(row)));
        }
        steps
    }

    /// The first change that cannot be published.
    pub fn first_error(&self) -> Option<(&Arc<ChangeBlock>, usize)> {
        if self.blocks.iter().all(|block| block.errors.is_empty()) {
            return None;
        }
        self.rows().find(|(block, row)| block.error(*row).is_some())
    }

    /// Keeps the changes up to the first at an instant for which `keep` is false.
    pub fn keep_while(&mut self, keep: impl Fn(Instant) -> bool) {
        self.len = self.rows().take_while(|(block, row)| keep(block.at.get(*row))).count();
        match &mut self.order {
            Order::Rows(rows) => rows.truncate(self.len),
            Order::AsTheyStand => {
                let mut left = self.len;
                let mut rows = Vec::with_capacity(left);
                for (number, block) in (0u32..).zip(&self.blocks) {
                    let kept = block.len.min(left);
                    rows.extend((0..kept as u32).map(|row| (number, row)));
                    left -= kept;
                }
                self.order = Order::Rows(rows);
            }
        }
    }
}

/// Whether the rows of the blocks, one after another, are in order.
fn stands(blocks: &[Arc<ChangeBlock>]) -> bool {
    let passing = |block: &ChangeBlock| matches!(block.window_us, PerRow::All(None));
    if blocks.iter().any(|block| passing(block)) {
        return false;
    }
    debug_assert!(
        blocks.iter().all(|b| (1..b.len).all(|row| b.compare(row - 1, b, row).is_lt())),
        "blocks are in order"
    );
    blocks.windows(2).all(|pair| match pair {
        [a, b] => a.compare(a.len - 1, b, 0).is_lt(),
        _ => true,
    })
}

/// The rows of all blocks in order. Comparing rows costs several cache misses; what they differ in at first sight is copied
/// beside their numbers, and few pairs are left to be compared in full.
fn sorted(blocks: &[Arc<ChangeBlock>], len: usize) -> Vec<(u32, u32)> {
    type Key = (Instant, Option<(i64, i64)>, u64, u32, u32);
    let mut keys: Vec<Key> = Vec::with_capacity(len);
    for (number, block) in (0u32..).zip(blocks) {
        let rough = block.group.first().map(Column::roughs);
        for row in 0..block.len {
            let window = block.window_us.get(row).map(|(start, end)| (end, start));
            let rough = rough.as_ref().and_then(|r| r.get(row)).copied().unwrap_or(0);
            keys.push((block.at.get(row), window, rough, number, row as u32));
        }
    }
    // The rows of each block come in order already: a stable sort merges them.
    keys.sort_by(|a, b| {
        let full = || match (blocks.get(a.3 as usize), blocks.get(b.3 as usize)) {
            (Some(x), Some(y)) => x.compare(a.4 as usize, y, b.4 as usize),
            _ => Ordering::Equal,
        };
        (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)).then_with(full)
    });
    keys.into_iter().map(|(_, _, _, block, row)| (block, row)).collect()
}

impl ChangeRun {
    /// A run of changes in order; the types of their columns are those of the values.
    pub fn of(changes: &[Change]) -> ChangeRun {
        let columns = |cells: fn(&Change) -> &[crate::types::Value]| {
            let width = changes.first().map_or(0, |change| cells(change).len());
            (0..width)
                .map(|column| {
                    let values: Vec<_> = changes
                        .iter()
                        .map(|change| cells(change).get(column).cloned().unwrap_or(crate::types::Value::Null))
                        .collect();
                    let dtype = values.iter().find_map(crate::types::Value::dtype);
                    let mut out = Column::new(dtype.unwrap_or(crate::types::DataType::BigInt));
                    values.iter().for_each(|value| out.push(value));
                    out
                })
                .collect()
        };
        let at = |change: &Change| match change.closing {
            true => Instant::closing(change.watermark_us),
            false => Instant::of_stamp(change.watermark_us),
        };
        let block = ChangeBlock {
            len: changes.len(),
            timed: true,
            at: PerRow::Each(changes.iter().map(at).collect()),
            op: PerRow::Each(changes.iter().map(|change| change.op).collect()),
            revision: PerRow::Each(changes.iter().map(|change| change.revision).collect()),
            late_count: PerRow::Each(changes.iter().map(|change| change.late_count).collect()),
            window_us: PerRow::Each(changes.iter().map(|change| change.window_us).collect()),
            group: columns(|change| &change.group),
            values: columns(|change| &change.values),
            errors: Vec::new(),
        };
        ChangeRun::new(vec![block])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Value;
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
        fn blocks_are_merged_as_compare_says(
            groups in group(), windows in proptest::collection::vec(0i64..4, 40), parts in proptest::collection::vec(0usize..3, 40)
        ) {
            let change = |(group, start): (Box<[Value]>, i64)| Change {
                op: if start % 2 == 0 { Op::Insert } else { Op::Delete },
                watermark_us: 7 + start / 3,
                closing: start == 3,
                revision: 0,
                late_count: 0,
                window_us: Some((start / 2, start / 2 + 5)),
                group,
                values: Box::default(),
            };
            let mut expected: Vec<Change> = groups.into_iter().zip(windows).map(change).collect();
            expected.sort_by(Change::compare);
            expected.dedup_by(|a, b| a.compare(b).is_eq());
            let blocks = (0..3).map(|part| {
                let mine = expected.iter().zip(&parts).filter(|(_, own)| **own == part).map(|(change, _)| change.clone());
                ChangeRun::of(&mine.collect::<Vec<_>>()).blocks
            });
            let blocks: Vec<ChangeBlock> = blocks.flatten().map(|block| ChangeBlock::clone(&block)).collect();
            let run = ChangeRun::new(blocks);
            prop_assert_eq!(run.len(), expected.len());
            prop_assert_eq!(run.into_steps().concat(), expected);
        }
    }

    #[test]
    fn a_run_is_cut_at_an_instant() {
        let change = |at: i64, key: i64| Change {
            op: Op::Insert,
            watermark_us: at,
            closing: false,
            revision: 0,
            late_count: 0,
            window_us: Some((0, 5)),
            group: [Value::BigInt(key)].into(),
            values: Box::default(),
        };
        let blocks = |parts: &[&[Change]]| -> Vec<ChangeBlock> {
            parts.iter().flat_map(|part| ChangeRun::of(part).blocks).map(|block| ChangeBlock::clone(&block)).collect()
        };
        let all = [change(1, 1), change(1, 2), change(2, 1), change(3, 0), change(3, 7)];
        let in_turn = [all[0].clone(), all[2].clone(), all[4].clone()];
        let between = [all[1].clone(), all[3].clone()];
        for parts in [&[&all[..2], &all[2..3], &all[3..]][..], &[&in_turn, &between]] {
            for (until, kept) in [(0, 0), (1, 0), (2, 2), (3, 3), (4, 5)] {
                let mut run = ChangeRun::new(blocks(parts));
                run.keep_while(|at| at < Instant::of_stamp(until));
                assert_eq!((run.len(), run.is_empty()), (kept, kept == 0));
                assert_eq!(run.into_steps().concat(), all[..kept]);
            }
        }
    }
}
