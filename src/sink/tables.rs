//! The tables of one view: rows of correctable windows, held until final.
//!
//! See [`super::view`] for what the tables are, in which order they stand and why memory is bounded.

use super::block::{ChangeBlock, Head};
use super::cell::Cell;
use super::rows::{Columns, RowWriter};
use super::{Flow, Op};
use crate::error::Result;
use crate::plan::{ViewKind, ViewPlan};
use crate::types::{DataType, Value, compare_rows};
use crate::watermark::{AFTER_ALL, BEFORE_ALL};
use foldhash::fast::FixedState;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, btree_map};
use std::sync::Arc;

/// Rows of correctable windows, and where they go when final.
pub(super) struct Tables {
    pub(super) metrics: Vec<Box<dyn RowWriter>>,
    pub(super) backfills: Vec<Box<dyn RowWriter>>,
    /// By (end, start) in microseconds.
    open: BTreeMap<(i64, i64), Groups>,
    horizon_us: Option<i64>,
    spike_above: u64,
    /// Per output column: whether it reads an aggregate.
    aggregate: Vec<bool>,
    frontier_us: i64,
}

/// The rows of one window, by group.
///
/// A window's first results come in the order of their groups; they stay in the blocks in which they come, and only rows
/// that corrections bring or change have an entry of their own.
#[derive(Default)]
struct Groups {
    blocks: Vec<Arc<ChangeBlock>>,
    /// First results by group, ascending: block and row.
    first: Vec<(u32, u32)>,
    /// What became of first results.
    changed: HashMap<u32, Entry, FixedState>,
    /// Rows whose first result is a correction.
    more: BTreeMap<Box<[Value]>, Entry>,
}

impl Groups {
    fn len(&self) -> usize {
        self.first.len() + self.more.len()
    }

    fn row(&self, at: usize) -> Option<(&ChangeBlock, usize)> {
        let (block, row) = self.first.get(at)?;
        self.blocks.get(*block as usize).map(|block| (&**block, *row as usize))
    }

    /// Appends a first result if it comes after all others.
    fn append(&mut self, block: &Arc<ChangeBlock>, row: usize) -> bool {
        let beyond = match self.first.len().checked_sub(1).and_then(|last| self.row(last)) {
            Some((last, at)) => compare_rows(&last.group, at, &block.group, row).is_lt(),
            None => true,
        };
        if !(beyond && self.more.is_empty()) {
            return false;
        }
        // Rows of few blocks come in turn.
        let known = self.blocks.iter().rposition(|own| Arc::ptr_eq(own, block));
        let number = known.unwrap_or_else(|| {
            self.blocks.push(Arc::clone(block));
            self.blocks.len() - 1
        });
        self.first.push((number as u32, row as u32));
        true
    }

    /// The entry of a row, made if there is none and the row is not a retraction.
    fn entry(&mut self, block: &ChangeBlock, row: usize, head: Head) -> Option<&mut Entry> {
        let place = |at: &(u32, u32)| match self.blocks.get(at.0 as usize) {
            Some(own) => compare_rows(&own.group, at.1 as usize, &block.group, row),
            None => Ordering::Less,
        };
        if let Ok(at) = self.first.binary_search_by(place) {
            let first = Entry { present: true, ..Entry::default() };
            return Some(self.changed.entry(at as u32).or_insert(first));
        }
        let group: Box<[Value]> = block.group.iter().map(|column| column.value(row)).collect();
        match self.more.entry(group) {
            btree_map::Entry::Occupied(known) => Some(known.into_mut()),
            btree_map::Entry::Vacant(_) if head.op.is_retraction() => None,
            btree_map::Entry::Vacant(new) => Some(new.insert(Entry::default())),
        }
    }

    /// Calls `write` with all rows that are present, by group.
    fn for_each(&self, mut write: impl FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        let mut more = self.more.iter().peekable();
        for at in 0..self.first.len() {
            let Some((block, row)) = self.row(at) else { continue };
            while let Some((_, entry)) = more.next_if(|(group, _)| compare(group, block, row).is_lt()) {
                entry.alone().map_or(Ok(()), &mut write)?;
            }
            let first = Source::Row(block, row);
            match self.changed.get(&(at as u32)) {
                None => write(Row { first, latest: first, entry: None })?,
                Some(entry) if entry.present => {
                    let latest = entry.values.as_deref().map_or(first, Source::Values);
                    write(Row { first, latest, entry: Some(entry) })?;
                }
                Some(_) => {}
            }
        }
        more.filter_map(|(_, entry)| entry.alone()).try_for_each(write)
    }
}

/// The order of a group and that of a row.
fn compare(group: &[Value], block: &ChangeBlock, row: usize) -> Ordering {
    let orders = group.iter().zip(&block.group).map(|(value, column)| value.cmp(&column.value(row)));
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// A row of the tables.
struct Row<'a> {
    /// The values first published.
    first: Source<'a>,
    latest: Source<'a>,
    /// What corrections made of it.
    entry: Option<&'a Entry>,
}

/// Where the published columns of a row stand.
#[derive(Clone, Copy)]
enum Source<'a> {
    Row(&'a ChangeBlock, usize),
    Values(&'a [Value]),
}

impl<'a> Source<'a> {
    fn cell(self, column: usize) -> Cell<'a> {
        match self {
            Source::Row(block, row) => block.values.get(column).map_or(Cell::Null, |column| Cell::Row(column, row)),
            Source::Values(values) => values.get(column).map_or(Cell::Null, Cell::Value),
        }
    }
}

/// What corrections made of one key and window.
#[derive(Default)]
struct Entry {
    /// The latest values; `None`: still those of the first result.
    values: Option<Box<[Value]>>,
    late_count: u64,
    revision: u64,
    /// Whether the row is in the tables: not after `-D`.
    present: bool,
    /// The values first published, once they have been replaced, of a row whose first result was a correction.
    first: Option<Box<[Value]>>,
    /// First and last logical time of correction.
    corrected_us: Option<(i64, i64)>,
}

impl Entry {
    /// The row of an entry without a first result, if it is present.
    fn alone(&self) -> Option<Row<'_>> {
        let latest = self.values.as_deref().unwrap_or_default();
        let first = self.first.as_deref().unwrap_or(latest);
        let row = Row { first: Source::Values(first), latest: Source::Values(latest), entry: Some(self) };
        self.present.then_some(row)
    }
}

impl Tables {
    /// `None` for a view without windows.
    pub(super) fn new(plan: &ViewPlan) -> Option<Tables> {
        let ViewKind::Windowed(windowed) = &plan.kind else { return None };
        let first_aggregate = windowed.group.len() + 2;
        let aggregate = windowed.select.iter().map(|expr| {
            let mut read = std::collections::BTreeSet::new();
            expr.columns(&mut read);
            read.last().is_some_and(|&index| index >= first_aggregate)
        });
        Some(Tables {
            metrics: Vec::new(),
            backfills: Vec::new(),
            open: BTreeMap::new(),
            horizon_us: plan.horizon_us,
            spike_above: plan.spike_above,
            aggregate: aggregate.collect(),
            frontier_us: BEFORE_ALL,
        })
    }

    pub(super) fn backfill_columns(&self, output: &Columns) -> Vec<(String, DataType)> {
        let plain = output.iter().zip(&self.aggregate).filter(|(_, aggregate)| !**aggregate).map(|(c, _)| c.clone());
        let own = [
            ("late_count", DataType::BigInt),
            ("first_corrected_at", DataType::Timestamp),
            ("last_corrected_at", DataType::Timestamp),
        ];
        let aggregates = output.iter().zip(&self.aggregate).filter(|(_, aggregate)| **aggregate);
        plain
            .chain(own.map(|(name, dtype)| (name.to_string(), dtype)))
            .chain(aggregates.flat_map(|((name, dtype), _)| {
                [(format!("first_{name}"), dtype.clone()), (format!("latest_{name}"), dtype.clone())]
            }))
            .chain([("status".to_string(), DataType::Text)])
            .collect()
    }

    /// Rows that wait for their window to become final.
    pub(super) fn rows_held(&self) -> usize {
        self.open.values().map(Groups::len).sum()
    }

    /// Whether no correction of a window can come any more: a record stamped `end + horizon` is still accepted.
    fn is_final(&self, end_us: i64, frontier_us: i64) -> bool {
        frontier_us == AFTER_ALL
            || match self.horizon_us {
                Some(horizon_us) => frontier_us > end_us.saturating_add(horizon_us),
                None => frontier_us >= end_us,
            }
    }

    /// Takes over a change.
    pub(super) fn apply(&mut self, block: &Arc<ChangeBlock>, row: usize, head: Head) {
        let Some((start_us, end_us)) = head.window_us else {
            debug_assert!(false, "a change of a windowed view has a window");
            return;
        };
        debug_assert!(!self.is_final(end_us, self.frontier_us), "a final window does not change");
        let groups = self.open.entry((end_us, start_us)).or_default();
        // What replaces a row comes right after what it replaces.
        if head.op == Op::UpdateBefore || (head.closing && groups.append(block, row)) {
            return;
        }
        let Some(entry) = groups.entry(block, row, head) else { return };
        if !head.closing {
            let (first, _) = entry.corrected_us.unwrap_or((head.watermark_us, 0));
            entry.corrected_us = Some((first, head.watermark_us));
        }
        entry.present = !head.op.is_retraction();
        if entry.present {
            let values = block.values.iter().map(|column| column.value(row)).collect();
            let old = entry.values.replace(values);
            if entry.first.is_none() {
                entry.first = old;
            }
            entry.late_count = head.late_count;
            entry.revision = head.revision;
        }
    }

    /// Whether [`Self::advance`] would write something.
    pub(super) fn has_final(&self, frontier_us: i64) -> bool {
        self.open.keys().next().is_some_and(|(end_us, _)| self.is_final(*end_us, frontier_us))
    }

    /// Writes the windows that are final. Each is a step of its own: which of them come together is a matter of timing.
    pub(super) fn advance(&mut self, frontier_us: i64) -> Result<Flow> {
        self.frontier_us = self.frontier_us.max(frontier_us);
        let mut flow = Flow::Open;
        let mut wrote = false;
        while let Some(first) = self.open.first_entry() {
            let (end_us, _) = *first.key();
            if !self.is_final(end_us, frontier_us) {
                break;
            }
            let Some((_, groups)) = self.open.pop_first() else { break };
            wrote = true;
            flow = flow.and(self.write(&groups)?);
            for writer in self.metrics.iter_mut().chain(&mut self.backfills) {
                flow = flow.and(writer.step()?);
            }
        }
        if wrote {
            for writer in self.metrics.iter_mut().chain(&mut self.backfills) {
                flow = flow.and(writer.flush()?);
            }
        }
        Ok(flow)
    }

    /// Writes the rows of a window.
    fn write(&mut self, groups: &Groups) -> Result<Flow> {
        let Tables { metrics, backfills, aggregate, spike_above, .. } = self;
        let columns = aggregate.len();
        let mut flow = Flow::Open;
        groups.for_each(|Row { first, latest, entry }| {
            let (late_count, revision) = entry.map_or((0, 0), |entry| (entry.late_count, entry.revision));
            if !metrics.is_empty() {
                let mut cells: Vec<Cell<'_>> = Vec::with_capacity(columns + 2);
                cells.extend((0..columns).map(|column| latest.cell(column)));
                cells.extend([Cell::count(late_count), Cell::count(revision)]);
                for writer in metrics.iter_mut() {
                    flow = flow.and(writer.cells(&cells)?);
                }
            }
            if let Some(entry) = entry.filter(|entry| entry.late_count > 0)
                && !backfills.is_empty()
            {
                let row = backfill_row(aggregate, *spike_above, (first, latest), entry);
                for writer in backfills.iter_mut() {
                    flow = flow.and(writer.cells(&row)?);
                }
            }
            Ok(())
        })?;
        Ok(flow)
    }
}

fn backfill_row<'a>(
    aggregate: &[bool],
    spike_above: u64,
    (first, latest): (Source<'a>, Source<'a>),
    entry: &Entry,
) -> Vec<Cell<'a>> {
    let columns = || aggregate.iter().enumerate();
    let mut row: Vec<Cell<'a>> =
        columns().filter(|(_, aggregate)| !**aggregate).map(|(column, _)| latest.cell(column)).collect();
    row.push(Cell::count(entry.late_count));
    row.extend(match entry.corrected_us {
        Some((first, last)) => [Cell::time_or_null(first), Cell::time_or_null(last)],
        None => [Cell::Null, Cell::Null],
    });
    for (column, _) in columns().filter(|(_, aggregate)| **aggregate) {
        row.extend([first.cell(column), latest.cell(column)]);
    }
    row.push(Cell::Word(if entry.late_count > spike_above { "spike" } else { "minor" }));
    row
}
