//! Layouts of what the engine sends: contributions, results, changes, and what is reported beside them.

use super::ingest::{Contributions, Run, TooLate};
use super::output::Reject;
use crate::aggregate::table::{Rows, TableSpec};
use crate::aggregate::{get_tables, put_tables, size_tables};
use crate::sink::Op;
use crate::sink::block::ChangeBlock;
use crate::types::Value;
use crate::wire::{Reader, Wire, WireError, Writer};
use std::sync::Arc;

/// The slice; start and number of rows in a word; whether the rows are late, and the stamp.
impl Wire for Run {
    const LEAST: usize = 24;
    fn size(&self) -> usize {
        16 + self.late_stamp_us.size()
    }
    fn put(&self, out: &mut Writer) {
        self.slice.put(out);
        out.word(u64::from(self.start) | u64::from(self.len) << 32);
        self.late_stamp_us.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let (slice, place) = (i64::get(from)?, from.word()?);
        Ok(Run { slice, start: place as u32, len: (place >> 32) as u32, late_stamp_us: Wire::get(from)? })
    }
}

/// Whether the row numbers are 0, 1, 2, … and something bears out how many; then they are not sent.
fn is_counted(rows: &Rows, selected: &[u32]) -> bool {
    rows.has_columns() && selected.len() <= rows.len && (0..).zip(selected).all(|(n, row): (u32, _)| n == *row)
}

/// Rows; the number of row numbers, times two, plus one if they are 0, 1, 2, …, else the numbers; runs; tables.
impl Wire for Contributions {
    const LEAST: usize = Rows::LEAST + 24;
    fn size(&self) -> usize {
        let numbers = if is_counted(&self.rows, &self.selected) { 0 } else { u32::size_all(&self.selected) };
        self.rows.size() + 8 + numbers + self.runs.size() + size_tables(&self.combined)
    }

    fn weight(&self) -> usize {
        let columns = 1 + self.rows.keys.len() + self.rows.args.len();
        let groups: usize = self.combined.iter().map(|(_, table)| table.len()).sum();
        size_of::<Self>() + (self.selected.len() + groups) * columns * 8
    }
    fn put(&self, out: &mut Writer) {
        self.rows.put(out);
        let counted = is_counted(&self.rows, &self.selected);
        out.count(self.selected.len() << 1 | usize::from(counted));
        if !counted {
            u32::put_all(&self.selected, out);
        }
        self.runs.put(out);
        put_tables(&self.combined, out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let rows = Arc::new(Rows::get(from)?);
        let at = from.at();
        let wrong = |what| WireError { at, what };
        let head = from.word()?;
        let n = usize::try_from(head >> 1).map_err(|_| wrong("expected a number of row numbers"))?;
        let selected: Vec<u32> = if head & 1 == 0 {
            let selected = u32::get_all(n, from)?;
            if is_counted(&rows, &selected) {
                return Err(wrong("expected no row numbers where counting gives them"));
            }
            selected
        } else if rows.has_columns() && n <= rows.len {
            (0..n as u32).collect()
        } else {
            return Err(wrong("expected as many row numbers as there are rows at most"));
        };
        if selected.iter().any(|row| *row as usize >= rows.len) {
            return Err(wrong("expected numbers of rows of the batch"));
        }
        let at = from.at();
        let runs = Vec::<Run>::get(from)?;
        if runs.iter().any(|run| run.start as usize + run.len as usize > selected.len()) {
            return Err(WireError { at, what: "expected runs of the selected rows" });
        }
        Ok(Contributions { rows, selected, runs, combined: get_tables(from)? })
    }
}

impl Contributions {
    /// Makes sure that rows and tables are of the layout given, so that they can be absorbed; the tables then share it.
    /// What was read may be of another.
    ///
    /// # Errors
    /// When they are not (lower case, no full stop).
    pub fn accept(&mut self, spec: &Arc<TableSpec>) -> Result<(), &'static str> {
        if !self.runs.is_empty() && !self.rows.fit(spec) {
            return Err("the columns of contributions are not those of the view");
        }
        if !self.combined.iter_mut().all(|(_, table)| table.share(spec)) {
            return Err("the tables of contributions are not those of the view");
        }
        Ok(())
    }
}

/// -D, -U, +I, +U from 0.
impl Wire for Op {
    fn size(&self) -> usize {
        8
    }
    fn put(&self, out: &mut Writer) {
        out.word(match self {
            Op::Delete => 0,
            Op::UpdateBefore => 1,
            Op::Insert => 2,
            Op::UpdateAfter => 3,
        });
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match from.word_upto(3, "expected what a change does, 0 to 3")? {
            0 => Op::Delete,
            1 => Op::UpdateBefore,
            2 => Op::Insert,
            _ => Op::UpdateAfter,
        })
    }
}

/// The number of rows and whether instants are times; what stands beside the columns; the columns; the errors.
impl Wire for ChangeBlock {
    const LEAST: usize = 120;
    fn size(&self) -> usize {
        let beside =
            self.at.size() + self.op.size() + self.revision.size() + self.late_count.size() + self.window_us.size();
        16 + beside + self.group.size() + self.values.size() + self.errors.size()
    }
    fn weight(&self) -> usize {
        size_of::<Self>() + self.len * (1 + self.group.len() + self.values.len()) * 8
    }
    fn put(&self, out: &mut Writer) {
        out.count(self.len);
        self.timed.put(out);
        self.at.put(out);
        self.op.put(out);
        self.revision.put(out);
        self.late_count.put(out);
        self.window_us.put(out);
        self.group.put(out);
        self.values.put(out);
        self.errors.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let wrong = |at, what| WireError { at, what };
        let start = from.at();
        let len = usize::try_from(from.word_upto(u64::from(u32::MAX), "expected a number of rows below 2^32")?);
        let block = ChangeBlock {
            len: len.map_err(|_| wrong(start, "expected a number of rows"))?,
            timed: Wire::get(from)?,
            at: Wire::get(from)?,
            op: Wire::get(from)?,
            revision: Wire::get(from)?,
            late_count: Wire::get(from)?,
            window_us: Wire::get(from)?,
            group: Wire::get(from)?,
            values: Wire::get(from)?,
            errors: Wire::get(from)?,
        };
        block.check().map_err(|what| wrong(start, what))?;
        Ok(block)
    }
}

impl Wire for TooLate {
    const LEAST: usize = 64;
    fn size(&self) -> usize {
        40 + self.partition_name.size() + self.window_us.size() + self.columns.size()
    }
    fn put(&self, out: &mut Writer) {
        self.partition.put(out);
        self.partition_name.put(out);
        self.position.put(out);
        self.event_time_us.put(out);
        self.stamp_us.put(out);
        self.window_us.put(out);
        self.lag_us.put(out);
        self.columns.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(TooLate {
            partition: Wire::get(from)?,
            partition_name: Wire::get(from)?,
            position: Wire::get(from)?,
            event_time_us: Wire::get(from)?,
            stamp_us: Wire::get(from)?,
            window_us: Wire::get(from)?,
            lag_us: Wire::get(from)?,
            columns: Vec::<Value>::get(from)?,
        })
    }
}

impl Wire for Reject {
    const LEAST: usize = 80;
    fn size(&self) -> usize {
        let place = self.view.size() + self.partition.size() + self.partition_name.size();
        place + 40 + self.detail.size() + self.raw.size()
    }
    fn put(&self, out: &mut Writer) {
        self.view.put(out);
        self.partition.put(out);
        self.partition_name.put(out);
        self.lane.put(out);
        self.file.put(out);
        self.line.put(out);
        self.position.put(out);
        self.reason.put(out);
        self.detail.put(out);
        self.raw.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Reject {
            view: Wire::get(from)?,
            partition: Wire::get(from)?,
            partition_name: Wire::get(from)?,
            lane: Wire::get(from)?,
            file: Wire::get(from)?,
            line: Wire::get(from)?,
            position: Wire::get(from)?,
            reason: Wire::get(from)?,
            detail: Wire::get(from)?,
            raw: Wire::get(from)?,
        })
    }
}
