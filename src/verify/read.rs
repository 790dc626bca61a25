//! Reading a table's input for the oracle: every lane once, in order, by one reader.

use super::{TraceRow, apply_policy, merge_by_arrival, watermark_of};
use crate::error::{Error, Result};
use crate::plan::TablePlan;
use crate::source::{DecodedBlock, Next, Source, Turns};
use crate::types::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Where a record stands in the input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Lane of the source.
    pub lane: u32,
    /// File within the lane.
    pub file: u32,
    /// Line in the file, from 1.
    pub line: u64,
    /// Its bytes.
    pub raw: Vec<u8>,
}

/// A table's input.
#[derive(Clone, Debug, Default)]
pub struct TableTrace {
    /// Partitions known from the start, in order.
    pub known: Vec<String>,
    /// Every record in reading order, rejects included.
    pub rows: Vec<TraceRow>,
    /// Where each stands; parallel to `rows`.
    pub origins: Vec<Origin>,
    /// Bytes of text.
    pub text_bytes: u64,
}

/// Counts what is read against the most that is allowed.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Records allowed in all.
    pub records_max: u64,
    /// Records read so far.
    pub records: u64,
}

impl Budget {
    fn take(&mut self, records: usize) -> Result<()> {
        self.records = self.records.saturating_add(records as u64);
        if self.records <= self.records_max {
            return Ok(());
        }
        let message = format!("the input has more than {} records, which is what verify takes on", self.records_max);
        Err(Error::usage(message).with_hint(
            "the oracle holds every record and computes each window from scratch at every instant; \
             verify a part of the input, or raise --limit and have patience",
        ))
    }
}

/// Reads all lanes of a table to their ends and puts the records in reading order: files merged by arrival time, a table
/// whose partitions are named by a column as it stands.
///
/// # Errors
/// When the input cannot be read, or holds more records than the budget allows.
pub fn read_table(table: &TablePlan, source: &dyn Source, budget: &mut Budget) -> Result<TableTrace> {
    let mut out = TableTrace { known: table.partitions.clone(), ..TableTrace::default() };
    if table.partition.is_none() {
        out.known = source.lanes().iter().map(|lane| lane.name.clone()).collect();
    }
    let mut lanes = Vec::new();
    // Positions are unique within a lane, and with a partition column there is one lane only.
    let mut origins: BTreeMap<(Option<String>, u64), Origin> = BTreeMap::new();
    for (number, lane) in source.lanes().iter().enumerate() {
        let name = table.partition.is_none().then(|| lane.name.clone());
        let mut reader = LaneTrace { table, name: name.clone(), position: 1, line: 1, rows: Vec::new() };
        let mut blocks = source.open(number, Turns::all());
        loop {
            match blocks.next_block()? {
                Next::End => break,
                Next::Pending => std::thread::sleep(Duration::from_millis(1)),
                Next::Block(block) => {
                    budget.take(block.rows.saturating_add(block.rejects.len()))?;
                    out.text_bytes += block.bytes.len() as u64;
                    for (position, origin) in reader.block(&block) {
                        origins.insert((name.clone(), position), origin);
                    }
                }
            }
        }
        lanes.push(reader.rows);
    }
    // Merging keeps the order within a lane.
    lanes.iter_mut().for_each(|rows| apply_policy(table, rows));
    out.rows = merge_by_arrival(lanes);
    let by_lane = table.partition.is_none();
    let place = |row: &TraceRow| (row.partition.clone().filter(|_| by_lane), row.position);
    out.origins = out.rows.iter().map(|row| origins.remove(&place(row)).unwrap_or_default()).collect();
    Ok(out)
}

/// One lane being read.
struct LaneTrace<'a> {
    table: &'a TablePlan,
    /// Its name if it is a partition.
    name: Option<String>,
    /// Position of the next block's first line.
    position: u64,
    /// The same within the file.
    line: u64,
    rows: Vec<TraceRow>,
}

impl LaneTrace<'_> {
    /// Appends the block's records; answers where each stands, by position.
    fn block(&mut self, block: &DecodedBlock) -> Vec<(u64, Origin)> {
        if block.starts_file {
            self.line = 1;
        }
        let mut errors: BTreeMap<usize, Vec<(usize, String)>> = BTreeMap::new();
        for (row, column, detail) in &block.errors {
            errors.entry(*row as usize).or_default().push((*column as usize, detail.clone()));
        }
        let mut origins = Vec::new();
        let mut rejects = block.rejects.iter().peekable();
        for row in 0..=block.rows {
            while let Some(reject) = rejects.next_if(|r| r.rows_before as usize <= row) {
                origins.push(self.origin(block, reject.line, Some(reject.span)));
                self.rows.push(TraceRow {
                    partition: self.name.clone().or_else(|| partition_name(block, reject.partition)),
                    position: self.position + u64::from(reject.line),
                    event_time_us: None,
                    watermark_us: i64::MIN,
                    arrived_us: reject.arrived_us,
                    row: Vec::new(),
                    value_errors: Vec::new(),
                    reject: Some((reject.reason, reject.detail.clone())),
                });
            }
            if row < block.rows {
                let line = block.line.get(row).copied().unwrap_or(0);
                origins.push(self.origin(block, line, block.span.get(row).copied()));
                let accepted = self.accepted(block, row, errors.remove(&row).unwrap_or_default());
                self.rows.push(accepted);
            }
        }
        self.position = self.position.saturating_add(block.lines);
        self.line = self.line.saturating_add(block.lines);
        origins
    }

    fn accepted(&self, block: &DecodedBlock, row: usize, value_errors: Vec<(usize, String)>) -> TraceRow {
        let value = |column: &Option<crate::types::Column>| column.as_ref().map_or(Value::Null, |c| c.value(row));
        let values: Vec<Value> = block.columns.iter().map(value).collect();
        let event_time_us = block.event_time_us.get(row).copied();
        let named = block.partition.as_ref().and_then(|p| p.get(row)).copied();
        TraceRow {
            partition: self.name.clone().or_else(|| partition_name(block, named)),
            position: self.position + u64::from(block.line.get(row).copied().unwrap_or(0)),
            event_time_us,
            watermark_us: watermark_of(self.table, event_time_us.unwrap_or(0), &values),
            arrived_us: block.arrived_us.as_ref().and_then(|a| a.get(row)).copied(),
            row: values,
            value_errors,
            reject: None,
        }
    }

    fn origin(&self, block: &DecodedBlock, line: u32, span: Option<(u32, u32)>) -> (u64, Origin) {
        let raw = span.and_then(|(start, end)| block.bytes.get(start as usize..end as usize)).unwrap_or_default();
        let line_in_file = self.line + u64::from(line);
        let origin = Origin { lane: block.lane, file: block.file, line: line_in_file, raw: raw.to_vec() };
        (self.position + u64::from(line), origin)
    }
}

fn partition_name(block: &DecodedBlock, partition: Option<u32>) -> Option<String> {
    partition.and_then(|p| block.partition_names.get(p as usize).cloned())
}
