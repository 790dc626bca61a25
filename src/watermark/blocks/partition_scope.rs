//! Partition scope: a record's stamp is its own partition's watermark; nothing waits for anything but the block before.
//!
//! A partition that is found along a trace, not declared, is stamped no lower than `F`, the greatest value so far of the
//! minimum over the partitions known by then. Once it is known that minimum is at most its own watermark, so only `F` at its
//! first record matters: it is kept as the partition's floor. `F` is also the frontier: a partition known when `F` was
//! reached stood at `F` at least, and one found later has `F` as its floor.

use super::super::{AFTER_ALL, BEFORE_ALL};
use super::context::Bound;
use super::coordinator::Pending;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
struct Part {
    watermark_us: i64,
    floor_us: i64,
    known: bool,
}

/// State of the source in partition scope.
#[derive(Debug)]
pub(super) struct PartitionScope {
    parts: Vec<Part>,
    /// Partitions known and not ended.
    open: BTreeSet<(i64, u32)>,
    by_column: bool,
    lanes_open: usize,
    /// `F`.
    reached_us: i64,
}

impl PartitionScope {
    pub fn new(partitions: u32, lanes: usize, by_column: bool) -> Self {
        let part = Part { watermark_us: BEFORE_ALL, floor_us: BEFORE_ALL, known: true };
        PartitionScope {
            parts: vec![part; partitions as usize],
            open: (0..partitions).map(|p| (BEFORE_ALL, p)).collect(),
            by_column,
            lanes_open: lanes,
            reached_us: BEFORE_ALL,
        }
    }

    /// Makes room for partitions named since; they are known from their first accepted record on.
    pub fn name(&mut self, partitions: usize) {
        self.parts.resize(partitions, Part { watermark_us: BEFORE_ALL, floor_us: BEFORE_ALL, known: false });
    }

    /// The next block of its lane: completes its context.
    pub fn accept(&mut self, block: &mut Pending) {
        let mut least_us = self.by_column.then_some(self.reached_us);
        for segment in &block.summary.segments {
            for entry in &segment.entries {
                let Some(&partition) = block.context.partitions.get(entry.partition as usize) else { continue };
                let Some(part) = self.parts.get_mut(partition as usize) else { continue };
                if !part.known {
                    part.known = true;
                    // The segment begins with its first record, so this is `F` just before it.
                    part.floor_us = self.reached_us;
                    self.open.insert((part.watermark_us, partition));
                }
                let bound = Bound { before_us: part.watermark_us, floor_us: part.floor_us, ..Bound::FREE };
                least_us = least_us.or(Some(bound.least_us()));
                if block.mine {
                    block.context.bounds.push(bound);
                }
                if entry.watermark_us > part.watermark_us && self.open.remove(&(part.watermark_us, partition)) {
                    part.watermark_us = entry.watermark_us;
                    self.open.insert((part.watermark_us, partition));
                }
            }
            // Within a segment no partition is found, so the minimum only rises: its end has the greatest.
            if let Some(&(least_us, _)) = self.open.first() {
                self.reached_us = self.reached_us.max(least_us);
            }
        }
        block.least_us = least_us;
        if block.summary.last {
            self.end(&block.context.partitions);
        }
    }

    fn end(&mut self, partitions: &[u32]) {
        self.lanes_open = self.lanes_open.saturating_sub(1);
        if self.by_column {
            if self.lanes_open == 0 {
                self.open.clear();
            }
            return;
        }
        for &partition in partitions {
            if let Some(part) = self.parts.get(partition as usize) {
                self.open.remove(&(part.watermark_us, partition));
            }
        }
    }

    /// The least stamp that a record not accepted yet can get, before rounding.
    pub fn frontier_us(&self) -> i64 {
        match self.open.first() {
            _ if self.lanes_open == 0 => AFTER_ALL,
            Some(&(least_us, _)) if !self.by_column => least_us,
            _ => self.reached_us,
        }
    }

    /// The partition with the least watermark.
    pub fn holder(&self) -> Option<u32> {
        self.open.first().map(|&(_, partition)| partition)
    }

    pub fn watermarks_us(&self) -> Vec<i64> {
        self.parts.iter().map(|part| part.watermark_us).collect()
    }

    /// How far a lane has come: its partition's watermark, or `F`.
    pub fn progress_us(&self, partition: Option<u32>) -> i64 {
        match partition {
            Some(partition) => self.parts.get(partition as usize).map_or(BEFORE_ALL, |part| part.watermark_us),
            None => self.reached_us,
        }
    }
}
