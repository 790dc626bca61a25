//! Once a reject has been refused: reading on for a lesser one, and for nothing else. See [`super::super::refusal`].

use super::{InputOf, Lane, Side, TableDriver};
use crate::dataflow::Progress;
use crate::dataflow::notes::Read;
use crate::dataflow::refusal::{Extent, Lines, Place};
use crate::engine::output::Reject;
use crate::error::Result;
use crate::record::RejectReason;
use crate::source::{DecodedBlock, Next};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// What one worker must know of a table whose rejects fail the run.
pub(super) struct Search {
    table: u32,
    /// By lane.
    pub lines: Vec<Lines>,
    /// The first reject of each block that was searched, by lane and index; its lines count from the block's first.
    found: BTreeMap<(u32, u64), Reject>,
}

impl Search {
    pub fn new(table: usize, lanes: usize) -> Search {
        Search { table: table as u32, lines: (0..lanes).map(|_| Lines::default()).collect(), found: BTreeMap::new() }
    }

    /// A block was read.
    pub fn hear(&mut self, extent: Extent, mine: bool) {
        self.lines.get_mut(extent.lane as usize).into_iter().for_each(|lines| lines.offer(extent, mine));
    }

    /// A block has got its stamps: nobody will ask where it begins.
    pub fn forget(&mut self, lane: u32, index: u64) {
        self.lines.get_mut(lane as usize).and_then(|lines| lines.take_start(index));
    }

    /// Whether something of the lane that was not read may stand before the bound.
    fn may_hold_lesser(&self, lane: usize, least: Place) -> bool {
        let next = |lines: &Lines| Place { position: lines.reached(), table: self.table, lane: lane as u32 };
        self.lines.get(lane).is_some_and(|lines| next(lines) < least)
    }

    /// Whether a block of the lane should be read now: one's own blocks are not read further ahead of the others' than
    /// one, as the lane may end with what they find.
    fn wants(&self, lane: &Lane, least: Place) -> bool {
        let in_order = |lines: &Lines| lane.last.is_none_or(|last| last < lines.next());
        !lane.ended && self.may_hold_lesser(lane.index, least) && self.lines.get(lane.index).is_some_and(in_order)
    }

    /// Rejects whose places have become known.
    fn take_placed(&mut self) -> Vec<Reject> {
        let mut placed = Vec::new();
        self.found.retain(|(lane, index), reject| {
            let start = self.lines.get_mut(*lane as usize).and_then(|lines| lines.take_start(*index));
            if let Some(start) = start {
                let reject = reject.clone();
                placed.push(Reject {
                    line: start.line + reject.line,
                    position: start.position + reject.line,
                    ..reject
                });
            }
            start.is_none()
        });
        placed
    }
}

impl TableDriver {
    /// Whether the lane is still to be read, as far as is known.
    pub(super) fn wanted(&self, lane: usize) -> bool {
        match (self.bound.get(), &self.search) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(least), Some(search)) => search.may_hold_lesser(lane, least),
        }
    }

    /// Reads one block that may hold a lesser reject.
    pub(super) fn search_on(&mut self, least: Place, progress: &Progress) -> Result<Option<Read>> {
        let Some(search) = &mut self.search else { return Ok(None) };
        let many = self.lanes.len() > 64;
        for lane in &mut self.lanes {
            if !search.wants(lane, least) {
                continue;
            }
            let next = lane.reader.next_block()?;
            if many {
                lane.reader.suspend();
            }
            match next {
                // A live input is not waited for: it might be silent for ever. (Others share no lane that is live.)
                Next::Pending => lane.ended = self.sharers.get(lane.index).is_none_or(|sharers| *sharers <= 1),
                Next::End => {
                    lane.ended = true;
                    return Ok(Some(Read::End(lane.index as u32)));
                }
                Next::Block(block) => {
                    lane.last = Some(block.index);
                    progress.bytes.fetch_add(block.input_bytes, Ordering::Relaxed);
                    progress.records.fetch_add((block.rows + block.rejects.len()) as u64, Ordering::Relaxed);
                    let DecodedBlock { lane, index, starts_file, lines, .. } = *block;
                    self.search_block(&block);
                    return Ok(Some(Read::Searched(Extent { lane, index, starts_file, lines })));
                }
            }
        }
        Ok(None)
    }

    /// Keeps the first reject of a block, of the table or of a view.
    fn search_block(&mut self, block: &DecodedBlock) {
        let mut first = block.rejects.first().map(|r| (r.line, None, r.reason, r.detail.clone()));
        for view in &mut self.views {
            let Some(reject) = view.ingest.rejects(block).into_iter().next() else { continue };
            let line = block.line.get(reject.row as usize).copied().unwrap_or(0);
            if first.as_ref().is_none_or(|(least, ..)| line < *least) {
                first = Some((line, Some(view.index as u32), RejectReason::Value, reject.detail));
            }
        }
        let (Some((line, view, reason, detail)), Some(search)) = (first, &mut self.search) else { return };
        let reject = Reject {
            view,
            // Its place is all that an error needs.
            partition: None,
            partition_name: None,
            lane: block.lane,
            file: block.file,
            line: u64::from(line),
            position: u64::from(line),
            reason,
            detail,
            raw: Vec::new(),
        };
        search.found.insert((block.lane, block.index), reject);
    }

    /// Gives the rejects found to the output.
    pub(super) fn give_found(&mut self, side: &mut InputOf<Side>) {
        for reject in self.search.iter_mut().flat_map(Search::take_placed) {
            side.send(Side::Rejects(self.index as u32, vec![reject]));
        }
    }

    /// The reading is over: what was read and has no stamps may still hold the least reject.
    pub fn search_rest(&mut self, side: &mut InputOf<Side>) {
        if self.search.is_some() {
            for pending in std::mem::take(&mut self.pending).into_values() {
                self.search_block(&pending.block);
            }
            self.give_found(side);
        }
    }
}
