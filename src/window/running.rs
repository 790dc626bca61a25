//! Overlapping windows combined in a constant number of merges each.
//!
//! A window shares all slices but the newest with the one before it. There is no taking away (a minimum cannot be undone), so
//! the slices of a window stand in two parts, as in a queue made of two stacks: the older ones as tables of everything from
//! a slice up to the middle, the newer ones in one table. A window is one table of the first part and that of the second;
//! a slice that leaves is a table dropped; and when the first part is used up, it is made anew from the slices.
//!
//! Invariant: a window given equals the merge of its slices as they stand in the map. Slices of closed windows change by late
//! records alone, which [`Running::add`] is told of.
//! Cost: for windows of `n` slices three merges and two copies each, over time; memory of up to `n` tables more.
//! Source: the two-stacks technique for sliding windows over monoids (Tangwongsan, Hirzel, Schneider: "Low-Latency
//! Sliding-Window Aggregation in Worst-Case Constant Time", DEBS 2017, describes it as known and improves its worst case).

use super::core::SliceTable;
use std::collections::BTreeMap;
use std::ops::Range;

/// The window that was combined last. See the module's text.
#[derive(Debug)]
pub(super) struct Running<T> {
    /// Everything from a slice up to `middle`, by that slice, descending: the last is the oldest.
    older: Vec<(i64, T)>,
    middle: i64,
    /// Everything from `middle` up to `end`.
    newer: Option<T>,
    end: i64,
}

impl<T> Default for Running<T> {
    fn default() -> Self {
        Running { older: Vec::new(), middle: i64::MIN, newer: None, end: i64::MIN }
    }
}

impl<T: SliceTable> Running<T> {
    /// Gives the merge of `slices` to `act`. Windows are asked for in ascending order; one without any slice need not be.
    pub fn window(&mut self, slices: Range<i64>, all: &BTreeMap<i64, T>, act: impl FnOnce(&T)) {
        while self.older.pop_if(|(slice, _)| *slice < slices.start).is_some() {}
        if self.older.is_empty() || self.end < slices.start {
            self.restart(slices, all);
        } else {
            for (_, table) in all.range(self.end..slices.end.max(self.end)) {
                self.newer.get_or_insert_with(|| table.empty()).merge(table);
            }
            self.end = self.end.max(slices.end);
        }
        match (self.older.last(), &self.newer) {
            (Some((_, older)), None) => act(older),
            (Some((_, older)), Some(newer)) => {
                let (large, small) = if older.keys() < newer.keys() { (newer, older) } else { (older, newer) };
                let mut result = large.empty();
                result.merge(large);
                result.merge(small);
                act(&result);
            }
            (None, _) => debug_assert!(false, "a window has slices"),
        }
    }

    /// Makes the first part of all slices of the window.
    fn restart(&mut self, slices: Range<i64>, all: &BTreeMap<i64, T>) {
        self.older.clear();
        self.newer = None;
        (self.middle, self.end) = (slices.end, slices.end);
        for (slice, table) in all.range(slices).rev() {
            let mut sum = table.empty();
            if let Some((_, next)) = self.older.last() {
                sum.merge(next);
            }
            sum.merge(table);
            self.older.push((*slice, sum));
        }
    }

    /// A slice gets late records, `known` if there is one already.
    pub fn add(&mut self, slice: i64, late: &T, known: bool) {
        if slice >= self.end {
            return;
        }
        if slice >= self.middle {
            self.newer.get_or_insert_with(|| late.empty()).merge(late);
        } else if known {
            let holding = self.older.iter_mut().filter(|(from, _)| *from <= slice);
            holding.for_each(|(_, sum)| sum.merge(late));
        } else {
            // It stands between others: begin again with the next window.
            *self = Running::default();
        }
    }
}
