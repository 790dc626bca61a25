//! The ledger of one block.

use super::StampedBlock;
use crate::record::RecordCounts;
use std::collections::BTreeMap;

/// Record classes by partition.
pub(super) struct Classes<'a> {
    stamped: StampedBlock<'a>,
    counts: BTreeMap<u32, RecordCounts>,
    /// On-time records of the only partition, counted without a look-up.
    single_on_time: u64,
}

impl<'a> Classes<'a> {
    pub(super) fn new(stamped: &StampedBlock<'a>) -> Self {
        Classes { stamped: *stamped, counts: BTreeMap::new(), single_on_time: 0 }
    }
    pub(super) fn count(&mut self, row: u32, class: impl FnOnce(&mut RecordCounts)) {
        let counts = self.counts.entry(self.stamped.partition(row as usize)).or_default();
        counts.read += 1;
        class(counts);
    }
    #[inline]
    pub(super) fn on_time(&mut self, row: u32) {
        if self.stamped.block.partition.is_none() {
            self.single_on_time += 1;
        } else {
            self.count(row, |c| c.on_time += 1);
        }
    }
    pub(super) fn finish(mut self) -> BTreeMap<u32, RecordCounts> {
        if self.single_on_time > 0 {
            let counts = self.counts.entry(self.stamped.partition(0)).or_default();
            counts.read += self.single_on_time;
            counts.on_time += self.single_on_time;
        }
        self.counts
    }
}
