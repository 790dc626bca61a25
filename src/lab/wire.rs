//! How what the lab finds travels between processes.

use super::figures::{COMPARISONS, COUNTS, Figures, Greatest, Off, Part};
use super::ingest::IngestSums;
use super::lags::LagSums;
use super::ledger::LedgerSums;
use super::steps::Step;
use super::timeline::WindowReport;
use crate::wire::{Reader, Wire, WireError, Writer};

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
wire_fields!(IngestSums, 24, ledger, lags);
wire_fields!(Off, 64, size, signed, counts, undefined);
wire_fields!(Greatest, 16, last_correction_us, off);

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

impl Wire for Part {
    const LEAST: usize = 8 * (COUNTS + COMPARISONS) + 24;
    fn size(&self) -> usize {
        8 * (COUNTS + COMPARISONS) + self.revisions.size() + self.last_correction.size() + self.off.size()
    }
    fn put(&self, out: &mut Writer) {
        self.counts.iter().chain(&self.exact).for_each(|n| n.put(out));
        self.revisions.put(out);
        self.last_correction.put(out);
        self.off.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut part = Part::default();
        for n in part.counts.iter_mut().chain(&mut part.exact) {
            *n = Wire::get(from)?;
        }
        part.revisions = Wire::get(from)?;
        part.last_correction = Wire::get(from)?;
        part.off = Wire::get(from)?;
        Ok(part)
    }
}

impl Wire for Figures {
    const LEAST: usize = 56;
    fn size(&self) -> usize {
        32 + self.same_from.size() + self.parts.size() + self.greatest.size()
    }
    fn put(&self, out: &mut Writer) {
        out.count(self.columns);
        out.count(self.horizons);
        self.same.put(out);
        self.same_failed.put(out);
        self.same_from.put(out);
        self.parts.put(out);
        self.greatest.put(out);
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
            greatest: Wire::get(from)?,
        })
    }
}
