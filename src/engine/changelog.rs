//! What the updates of a collection of results mean: first results, replacements, retractions, and their revisions.

use super::update::UpdateBlock;
use crate::aggregate::encode_group;
use crate::per_row::{PerRow, error_of, take_errors};
use crate::sink::Op;
use crate::sink::block::ChangeBlock;
use crate::types::{Column, compare_rows};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

/// Revisions by encoded group.
type ByGroup = HashMap<Box<[u8]>, u64, foldhash::fast::FixedState>;

/// Revisions of the windows and keys that were corrected; only those, until they can change no more.
///
/// Cost: a hash of the key per corrected row. Memory: the keys that were corrected within the horizon.
#[derive(Debug, Default)]
pub struct Revisions {
    /// By end and start of the window, and the encoded group.
    by_window: BTreeMap<(i64, i64), ByGroup>,
    key: Vec<u8>,
}

impl Revisions {
    /// The revision that a window and key has come to; `None` if it never was corrected. It becomes what `next` makes of it.
    fn change(
        &mut self,
        window: (i64, i64),
        group: &[Column],
        row: usize,
        next: impl Fn(Option<u64>) -> u64,
    ) -> Option<u64> {
        self.key.clear();
        encode_group(group, row, &mut self.key);
        let keys = self.by_window.entry((window.1, window.0)).or_default();
        match keys.get_mut(&*self.key) {
            Some(revision) => {
                let known = Some(*revision);
                *revision = next(known);
                known
            }
            None => {
                keys.insert(self.key.as_slice().into(), next(None));
                None
            }
        }
    }

    /// Windows that end before this change no more.
    pub fn forget(&mut self, before_end_us: i64) {
        while let Some(entry) = self.by_window.first_entry().filter(|entry| entry.key().0 < before_end_us) {
            entry.remove();
        }
    }
}

/// The changes that updates are. Blocks of a view come in order, each with whole instants.
pub fn changes(updates: UpdateBlock, revisions: &mut Revisions, timed: bool) -> ChangeBlock {
    let first = |at: &PerRow<_>| matches!(at, PerRow::All(at) if crate::time::Instant::time(*at).1);
    let inserts = matches!(updates.diff, PerRow::All(1));
    if inserts && (first(&updates.at) || matches!(updates.window_us, PerRow::All(None))) {
        let UpdateBlock { len, at, diff: _, window_us, late_count, group, values, errors } = updates;
        let (op, revision) = (PerRow::All(Op::Insert), PerRow::All(0));
        return ChangeBlock { len, timed, at, op, revision, late_count, window_us, group, values, errors };
    }
    corrections(&updates, revisions, timed)
}

/// Pairs the rows that go with those that come for the same window and key at the same instant.
fn corrections(updates: &UpdateBlock, revisions: &mut Revisions, timed: bool) -> ChangeBlock {
    let (mut rows, mut ops, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    let mut put = |row: usize, op, revision| {
        rows.push(row as u32);
        ops.push(op);
        numbers.push(revision);
    };
    let mut row = 0;
    while row < updates.len {
        let goes = updates.diff.get(row) < 0;
        let replaced = goes && row + 1 < updates.len && is_same(updates, row, row + 1);
        let window = updates.window_us.get(row).unwrap_or_default();
        let mut change = |next: &dyn Fn(Option<u64>) -> u64| revisions.change(window, &updates.group, row, next);
        if replaced {
            if differ(updates, row, row + 1) {
                let revision = change(&|known| known.unwrap_or(0) + 1).unwrap_or(0);
                put(row, Op::UpdateBefore, revision);
                put(row + 1, Op::UpdateAfter, revision + 1);
            }
        } else if goes {
            let revision = change(&|known| known.unwrap_or(0)).unwrap_or(0);
            put(row, Op::Delete, revision);
        } else {
            let next = |known: Option<u64>| known.map_or(0, |revision| revision + 1);
            let known = change(&next);
            put(row, Op::Insert, next(known));
        }
        row += if replaced { 2 } else { 1 };
    }
    let take = |columns: &[Column]| columns.iter().map(|column| column.take(&rows)).collect();
    ChangeBlock {
        len: rows.len(),
        timed,
        at: updates.at.take(&rows),
        op: PerRow::Each(ops),
        revision: PerRow::Each(numbers),
        late_count: updates.late_count.take(&rows),
        window_us: updates.window_us.take(&rows),
        group: take(&updates.group),
        values: take(&updates.values),
        errors: take_errors(&updates.errors, &rows),
    }
}

fn is_same(updates: &UpdateBlock, a: usize, b: usize) -> bool {
    updates.at.get(a) == updates.at.get(b)
        && updates.window_us.get(a) == updates.window_us.get(b)
        && compare_rows(&updates.group, a, &updates.group, b) == Ordering::Equal
}

fn differ(updates: &UpdateBlock, a: usize, b: usize) -> bool {
    updates.late_count.get(a) != updates.late_count.get(b)
        || error_of(&updates.errors, a) != error_of(&updates.errors, b)
        || compare_rows(&updates.values, a, &updates.values, b) != Ordering::Equal
}
