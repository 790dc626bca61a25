//! Layouts of times and of the ledger's counts.

use super::{Reader, Wire, WireError, Writer};
use crate::record::{ContributionCounts, RecordCounts, RejectReason};
use crate::time::Instant;

impl Wire for Instant {
    fn size(&self) -> usize {
        8
    }
    fn put(&self, out: &mut Writer) {
        self.0.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        i64::get(from).map(Instant)
    }
}

/// Their place here is their number.
const REASONS: [RejectReason; 8] = [
    RejectReason::Syntax,
    RejectReason::Encoding,
    RejectReason::EventTime,
    RejectReason::ArrivalTime,
    RejectReason::Partition,
    RejectReason::Future,
    RejectReason::Range,
    RejectReason::Value,
];

impl Wire for RejectReason {
    fn size(&self) -> usize {
        8
    }
    fn put(&self, out: &mut Writer) {
        out.word(match self {
            RejectReason::Syntax => 0,
            RejectReason::Encoding => 1,
            RejectReason::EventTime => 2,
            RejectReason::ArrivalTime => 3,
            RejectReason::Partition => 4,
            RejectReason::Future => 5,
            RejectReason::Range => 6,
            RejectReason::Value => 7,
        });
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let expected = from.error("expected the number of a reason to reject, 0 to 7");
        REASONS.get(from.word()? as usize).copied().ok_or(expected)
    }
}

impl Wire for RecordCounts {
    const LEAST: usize = 7 * 8;
    fn size(&self) -> usize {
        6 * 8 + self.rejected.size()
    }
    fn put(&self, out: &mut Writer) {
        let RecordCounts { read, on_time, corrected, partly_too_late, too_late, filtered, rejected } = self;
        [read, on_time, corrected, partly_too_late, too_late, filtered].into_iter().for_each(|n| n.put(out));
        rejected.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(RecordCounts {
            read: u64::get(from)?,
            on_time: u64::get(from)?,
            corrected: u64::get(from)?,
            partly_too_late: u64::get(from)?,
            too_late: u64::get(from)?,
            filtered: u64::get(from)?,
            rejected: Wire::get(from)?,
        })
    }
}

impl Wire for ContributionCounts {
    const LEAST: usize = 3 * 8;
    fn size(&self) -> usize {
        3 * 8
    }
    fn put(&self, out: &mut Writer) {
        [self.on_time, self.late, self.too_late].into_iter().for_each(|n| n.put(out));
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(ContributionCounts { on_time: u64::get(from)?, late: u64::get(from)?, too_late: u64::get(from)? })
    }
}
