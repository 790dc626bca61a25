//! Layout of what a block tells of itself.

use super::summary::{BlockSummary, Segment, SegmentEntry};
use crate::wire::{Reader, Wire, WireError, Writer};

/// Partition and rows in a word; the watermark; whether there is a clock, and the clock.
impl Wire for SegmentEntry {
    const LEAST: usize = 24;
    fn size(&self) -> usize {
        16 + self.last_clock_us.size()
    }
    fn put(&self, out: &mut Writer) {
        out.word(u64::from(self.partition) | u64::from(self.rows) << 32);
        self.watermark_us.put(out);
        self.last_clock_us.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let head = from.word()?;
        let (watermark_us, last_clock_us) = (i64::get(from)?, Wire::get(from)?);
        Ok(SegmentEntry { partition: head as u32, watermark_us, last_clock_us, rows: (head >> 32) as u32 })
    }
}

impl Wire for Segment {
    const LEAST: usize = 24;
    fn size(&self) -> usize {
        8 + self.clock_us.size() + self.entries.size()
    }
    fn put(&self, out: &mut Writer) {
        self.first_row.put(out);
        self.clock_us.put(out);
        self.entries.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Segment { first_row: Wire::get(from)?, clock_us: Wire::get(from)?, entries: Wire::get(from)? })
    }
}

/// Lane and flags (from bit 32: starts a file, ends the lane) in a word; the others in their order.
impl Wire for BlockSummary {
    const LEAST: usize = 48;
    fn size(&self) -> usize {
        24 + self.first_arrival_us.size() + self.partition_names.size() + self.segments.size()
    }
    fn put(&self, out: &mut Writer) {
        out.word(u64::from(self.lane) | u64::from(self.starts_file) << 32 | u64::from(self.last) << 33);
        out.word(self.index);
        out.word(self.lines);
        self.first_arrival_us.put(out);
        self.partition_names.put(out);
        self.segments.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let head = from.word_upto((1 << 34) - 1, "expected a lane and two flags")?;
        let summary = BlockSummary {
            lane: head as u32,
            starts_file: head >> 32 & 1 == 1,
            last: head >> 33 == 1,
            index: from.word()?,
            lines: from.word()?,
            first_arrival_us: Wire::get(from)?,
            partition_names: Wire::get(from)?,
            segments: Wire::get(from)?,
        };
        let partitions = summary.partition_names.len().max(1);
        if summary.segments.iter().flat_map(|s| &s.entries).any(|e| e.partition as usize >= partitions) {
            return Err(from.error("a summary has partitions without a name"));
        }
        Ok(summary)
    }
}
