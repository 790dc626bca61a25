//! `on_error = 'fail'`: which reject ends the run, so that it is the same one whoever reads what, and how fast.
//!
//! It is the **least** of all, by its position in its lane, then by table, then by lane. The first one that the output refuses
//! becomes the [`Bound`]; worker 0 tells all, and from then on a lane is read only while what comes next in it stands before the
//! bound. What is read for that has no stamp and makes no result: whether a record is a reject does not depend on time. A
//! lesser reject lowers the bound. When no lane can hold a lesser one, all have stopped, and the least is the run's error.
//!
//! Why this rule: it needs of every lane no more than the least reject's position, and is decided without any lane being read to its
//! end. Worker 0 alone lowers the bound, as only the output knows what it refuses; a bound that a worker hears late is
//! too great, so it reads more than it need, never less.

use crate::watermark::blocks::BlockSummary;
use crate::wire::{Reader, Wire, WireError, Writer};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Where a reject stands; the order is the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Position in the lane, from 1.
    pub position: u64,
    /// The table.
    pub table: u32,
    /// Lane of its source.
    pub lane: u32,
}

/// The least reject that is known to have been refused, on one worker. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Bound(Rc<Cell<Option<Place>>>);

impl Bound {
    /// Where it stands, if there is one.
    pub fn get(&self) -> Option<Place> {
        self.0.get()
    }
    /// One more was refused.
    pub fn lower(&self, place: Place) {
        self.0.set(Some(self.0.get().map_or(place, |least| least.min(place))));
    }
}

/// Position, then table, then lane.
impl Wire for Place {
    const LEAST: usize = 24;
    fn size(&self) -> usize {
        24
    }
    fn put(&self, out: &mut Writer) {
        self.position.put(out);
        self.table.put(out);
        self.lane.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Place { position: Wire::get(from)?, table: Wire::get(from)?, lane: Wire::get(from)? })
    }
}

/// What others must know of a block that was searched for rejects only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Lane of the source.
    pub lane: u32,
    /// Place in the lane, from 0.
    pub index: u64,
    /// Whether it starts a new file of the lane.
    pub starts_file: bool,
    /// Positions (lines) in it.
    pub lines: u64,
}

impl From<&BlockSummary> for Extent {
    fn from(summary: &BlockSummary) -> Self {
        let BlockSummary { lane, index, starts_file, lines, .. } = *summary;
        Extent { lane, index, starts_file, lines }
    }
}

/// Lane and flag (from bit 32: starts a file) in a word; the others in their order.
impl Wire for Extent {
    const LEAST: usize = 24;
    fn size(&self) -> usize {
        24
    }
    fn put(&self, out: &mut Writer) {
        out.word(u64::from(self.lane) | u64::from(self.starts_file) << 32);
        out.word(self.index);
        out.word(self.lines);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let head = from.word_upto((1 << 33) - 1, "expected a lane and a flag")?;
        Ok(Extent { lane: head as u32, starts_file: head >> 32 == 1, index: from.word()?, lines: from.word()? })
    }
}

/// Where a block begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// Position of its first line in the lane, from 1.
    pub position: u64,
    /// Number of its first line in its file, from 1.
    pub line: u64,
}

/// Counts the lines of one lane from extents that come in any order, whatever became of the blocks.
#[derive(Debug)]
pub(super) struct Lines {
    next: u64,
    start: Start,
    /// Blocks that came before their turn.
    early: BTreeMap<u64, (Extent, bool)>,
    /// Where blocks begin that were asked for.
    starts: BTreeMap<u64, Start>,
}

impl Default for Lines {
    fn default() -> Self {
        Lines { next: 0, start: Start { position: 1, line: 1 }, early: BTreeMap::new(), starts: BTreeMap::new() }
    }
}

impl Lines {
    /// Takes a block, each once. `mine`: its start will be asked for.
    pub fn offer(&mut self, extent: Extent, mine: bool) {
        self.early.insert(extent.index, (extent, mine));
        while let Some((extent, mine)) = self.early.remove(&self.next) {
            if extent.starts_file {
                self.start.line = 1;
            }
            if mine {
                self.starts.insert(self.next, self.start);
            }
            self.next = self.next.saturating_add(1);
            self.start.position = self.start.position.saturating_add(extent.lines);
            self.start.line = self.start.line.saturating_add(extent.lines);
        }
    }
    /// The first block that was not offered yet.
    pub fn next(&self) -> u64 {
        self.next
    }
    /// Where that one begins.
    pub fn reached(&self) -> u64 {
        self.start.position
    }
    /// Where a block of one's own begins, once all before it are known. It is forgotten.
    pub fn take_start(&mut self, index: u64) -> Option<Start> {
        self.starts.remove(&index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_comes_first_then_the_table_then_the_lane() {
        let place = |position, table, lane| Place { position, table, lane };
        let bound = Bound::default();
        for (lowered, least) in [
            (place(7, 0, 0), place(7, 0, 0)),
            (place(8, 0, 0), place(7, 0, 0)),
            (place(3, 1, 4), place(3, 1, 4)),
            (place(3, 1, 5), place(3, 1, 4)),
            (place(3, 0, 9), place(3, 0, 9)),
        ] {
            bound.clone().lower(lowered);
            assert_eq!(bound.get(), Some(least));
        }
    }

    #[test]
    fn lines_are_counted_in_any_order() {
        let extent = |index, starts_file, lines| Extent { lane: 0, index, starts_file, lines };
        let mut lines = Lines::default();
        lines.offer(extent(2, true, 4), true);
        lines.offer(extent(1, false, 5), false);
        assert_eq!((lines.next(), lines.reached(), lines.take_start(2)), (0, 1, None));
        lines.offer(extent(0, true, 3), true);
        assert_eq!((lines.next(), lines.reached()), (3, 13));
        assert_eq!(lines.take_start(0), Some(Start { position: 1, line: 1 }));
        assert_eq!(lines.take_start(1), None, "of others nothing is kept");
        assert_eq!(lines.take_start(2), Some(Start { position: 9, line: 1 }), "a new file");
    }
}
