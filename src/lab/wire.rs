//! How what the lab finds travels between processes.

use super::blocks::BlockSums;
use super::figures::{COMPARISONS, COUNTS, Counts, Figures, Off, Part};
use super::ingest::IngestSums;
use super::keyed::{KeyedRow, KeyedRows, KeyedSums};
use super::lags::LagSums;
use super::ledger::LedgerSums;
use super::steps::Step;
use super::timeline::WindowReport;
use crate::sink::summary::REVISIONS_MAX;
use crate::wire::{Reader, Wire, WireError, Writer};
use std::collections::BTreeMap;

/// A type whose fields travel one after another.
macro_rules! wire_fields {
    ($type:ident, $least:expr, $($field:ident),+) => {
        impl Wire for $type {
            const LEAST: usize = $least;
            fn size(&self) -> usize {
                0 $(+ self.$field.size())+
            }
            fn put(&self, out: &mut Writer) {
                $(self.$field.put(out);)+
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
                $(let $field = Wire::get(from)?;)+
                Ok($type { $($field),+ })
            }
        }
    };
}

wire_fields!(Step, 32, base_us, partition, position, arrived_us);
wire_fields!(LedgerSums, 16, differences, contributions);
wire_fields!(LagSums, 8, counts);
wire_fields!(BlockSums, 16, doublings, blocks);
wire_fields!(IngestSums, 56, ledger, lags, drift, blocks);
wire_fields!(KeyedRow, 48, partition, stamp_us, position, key, event_time_us, arrived_us);
wire_fields!(KeyedRows, 16, to, rows);
wire_fields!(KeyedSums, 56, ledger, on_time, contributions, keys, early, closed_at_end);
wire_fields!(Off, 64, above, below, counts, undefined);

impl Wire for WindowReport {
    const LEAST: usize = 48;
    fn size(&self) -> usize {
        24 + self.closing.size() + 16 + 32 * self.late.len() + self.opens.size()
    }
    fn put(&self, out: &mut Writer) {
        self.window.put(out);
        self.least_us.put(out);
        self.same.put(out);
        self.closing.put(out);
        let (heads, changes) = halves(&self.late);
        heads.put(out);
        changes.put(out);
        self.opens.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let (window, least_us, same, closing) =
            (Wire::get(from)?, Wire::get(from)?, Wire::get(from)?, Wire::get(from)?);
        let at = from.at();
        let heads = Vec::<(u64, u64)>::get(from)?;
        let changes = Vec::<(i64, i64)>::get(from)?;
        if heads.len() != changes.len() {
            return Err(WireError { at, what: "expected as many changes as cells they are for" });
        }
        let late = heads.into_iter().zip(changes).map(|((d, h), (at, n))| (d, h, at, n)).collect();
        Ok(WindowReport { window, least_us, same, closing, late, opens: Wire::get(from)? })
    }
}

type Halves = (Vec<(u64, u64)>, Vec<(i64, i64)>);

fn halves(late: &[(u64, u64, i64, i64)]) -> Halves {
    late.iter().map(|(delay, horizon, at, n)| ((*delay, *horizon), (*at, *n))).unzip()
}

/// In the order of the buckets, so that equal counts are equal bytes.
impl Wire for Counts {
    fn size(&self) -> usize {
        self.sorted().size()
    }
    fn put(&self, out: &mut Writer) {
        self.sorted().put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Counts::from_sorted(&<BTreeMap<u64, i64> as Wire>::get(from)?))
    }
}

/// Words of a [`Part`] beside its histogram.
const PART_WORDS: usize = COUNTS + COMPARISONS + REVISIONS_MAX + 1;

impl Wire for Part {
    const LEAST: usize = 8 * PART_WORDS + 8;
    fn size(&self) -> usize {
        8 * PART_WORDS + self.last_correction.size()
    }
    fn put(&self, out: &mut Writer) {
        self.counts.iter().chain(&self.exact).chain(&self.revisions).for_each(|n| n.put(out));
        self.last_correction.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut part = Part::default();
        for n in part.counts.iter_mut().chain(&mut part.exact).chain(&mut part.revisions) {
            *n = Wire::get(from)?;
        }
        part.last_correction = Wire::get(from)?;
        Ok(part)
    }
}

impl Wire for Figures {
    const LEAST: usize = 112;
    fn size(&self) -> usize {
        32 + self.same_from.size()
            + self.errors.size()
            + self.parts.size()
            + self.last_correction_us.size()
            + self.off.size()
            + self.off_max.size()
            + self.first_truth.size()
            + self.first_truth_off.size()
            + self.first_truth_max.size()
    }
    fn put(&self, out: &mut Writer) {
        out.count(self.columns);
        out.count(self.horizons);
        self.same.put(out);
        self.same_failed.put(out);
        self.same_from.put(out);
        self.parts.put(out);
        self.last_correction_us.put(out);
        self.off.put(out);
        self.off_max.put(out);
        self.first_truth.put(out);
        self.first_truth_off.put(out);
        self.first_truth_max.put(out);
        self.errors.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let what = "expected a number of columns or horizons";
        let (columns, horizons) = (from.word_upto(1 << 20, what)? as usize, from.word_upto(1 << 20, what)? as usize);
        Ok(Figures {
            columns,
            horizons,
            same: Wire::get(from)?,
            same_failed: Wire::get(from)?,
            same_from: Wire::get(from)?,
            parts: Wire::get(from)?,
            last_correction_us: Wire::get(from)?,
            off: Wire::get(from)?,
            off_max: Wire::get(from)?,
            first_truth: Wire::get(from)?,
            first_truth_off: Wire::get(from)?,
            first_truth_max: Wire::get(from)?,
            errors: Wire::get(from)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::Grid;
    use crate::lab::figures::{Comparison, Difference};
    use crate::wire::{decode, encode};

    fn survives<T: Wire + std::fmt::Debug>(item: &T) {
        let bytes = encode(item);
        assert_eq!(bytes.len(), item.size(), "{item:?}");
        assert!(bytes.len() >= T::LEAST, "{item:?}");
        let back: T = decode(&bytes).expect("an item");
        assert_eq!(encode(&back), bytes, "{item:?}");
        for end in (0..bytes.len()).step_by(8) {
            assert!(decode::<T>(&bytes[..end]).is_err(), "{end} of {} bytes", bytes.len());
        }
    }

    #[test]
    fn what_the_lab_tells_survives_the_wire() {
        let grid = Grid::new(vec![0, 5], vec![None, Some(0)], 1, false).unwrap();
        let mut figures = Figures::new(&grid, 2);
        survives(&figures);
        figures.off(1, &(0..1), (Comparison::FinalTruth, 0), Difference::Relative(-0.5));
        figures.off(1, &(0..1), (Comparison::FinalTruth, 1), Difference::Undefined);
        figures.first_truth(&(0..1), true);
        figures.first_truth_off(&(0..1), 1, Difference::Relative(0.5));
        figures.revision(0, 1, 3);
        figures.last_correction(0, &(1..2), 77);
        figures.errors.add(-9, 0, 3, |counts| counts[2] += 5);
        survives(&figures);
        let mut report = WindowReport::new(-3, &grid);
        survives(&report);
        report.late = vec![(1, 0, 12, -1), (0, 1, i64::MIN, 1)];
        report.opens = vec![(0, i64::MIN, 9)];
        survives(&report);
        survives(&Step { base_us: i64::MIN, partition: 3, position: 4, arrived_us: 5 });
        let mut sums = IngestSums::default();
        survives(&sums);
        let row = KeyedRow { partition: 1, stamp_us: -2, position: 3, key: 4, event_time_us: -5, arrived_us: 6 };
        survives(&KeyedRows { to: 1, rows: vec![row, row] });
        let ledger = LedgerSums { differences: vec![vec![1]], contributions: 2 };
        survives(&KeyedSums { ledger, on_time: 1, keys: 3, early: vec![0, 4], ..KeyedSums::default() });
        sums.ledger = LedgerSums { differences: vec![vec![1, -1], vec![]], contributions: 6 };
        sums.lags.counts.insert((1, 23), vec![0, 4]);
        sums.blocks.add(7, 65, 1, |counts| counts[0] += 1);
        sums.drift.add(-7, 0, 3, |counts| counts[2] += 1);
        survives(&sums);
    }
}
