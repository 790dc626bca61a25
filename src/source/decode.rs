//! Builds a [`DecodedBlock`] record by record, whatever the text format: the columns, and what makes a record a reject.
//!
//! The checks of the table stand here and only here, in this order: encoding, syntax (both found by the format), event
//! time, arrival time, partition, range, future. None of them depends on which columns a query uses. Values of other
//! columns that do not fit become NULL with an entry in [`DecodedBlock::errors`]: rejects of the views that use them.
//!
//! Cost: no allocation per record beyond the growth of columns.

use super::short;
use super::value::{self, Cell, Converter, Misfit, RawField};
use super::{DecodedBlock, RejectedRecord};
use crate::plan::TablePlan;
use crate::record::RejectReason;
use crate::time::{EVENT_TIME_MAX_US, EVENT_TIME_MIN_US};
use crate::types::{Column, ColumnData, DataType};
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

/// Longer records are rejects, so that memory stays bounded. Without line end.
pub(super) const MAX_RECORD_BYTES: usize = 16 << 20;
/// As much of a record that is too long is kept to be shown.
const KEPT_OF_LONG_RECORD: usize = 1_024;

/// A column that has to be found in every record.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// Index of the table's column.
    pub(super) column: usize,
    pub(super) name: String,
    pub(super) path: Vec<String>,
    pub(super) dtype: DataType,
    /// Whether its values are asked for, not only its role in the table.
    pub(super) wanted: bool,
}

/// What decoding needs to know of a table.
#[derive(Clone, Debug)]
pub(super) struct DecodePlan {
    /// By table column, ascending.
    pub(super) slots: Vec<Slot>,
    /// Names of all columns of the table: paths joined by dots.
    pub(super) names: Vec<String>,
    event_time: Option<usize>,
    arrival_time: Option<usize>,
    partition: Option<usize>,
    max_future_us: Option<i64>,
    pub(super) time_unit_us: i64,
    pub(super) max_record_bytes: usize,
}

impl DecodePlan {
    /// For a table of which the columns `wanted` are used.
    pub(super) fn new(table: &TablePlan, wanted: &BTreeSet<usize>) -> Self {
        let roles = [table.event_time, table.arrival_time, table.partition];
        let slots: Vec<Slot> = table
            .columns
            .iter()
            .enumerate()
            .filter(|(index, _)| wanted.contains(index) || roles.contains(&Some(*index)))
            .map(|(index, column)| Slot {
                column: index,
                name: column.name.clone(),
                path: column.path.clone(),
                dtype: column.dtype.clone(),
                wanted: wanted.contains(&index),
            })
            .collect();
        let slot_of = |column: Option<usize>| column.and_then(|column| slots.iter().position(|s| s.column == column));
        DecodePlan {
            event_time: slot_of(table.event_time),
            arrival_time: slot_of(table.arrival_time),
            partition: slot_of(table.partition),
            names: table.columns.iter().map(|column| column.path.join(".")).collect(),
            max_future_us: table.max_future_us,
            time_unit_us: table.time_unit_us,
            max_record_bytes: MAX_RECORD_BYTES,
            slots,
        }
    }
}

/// Where a block stands; what [`BlockBuilder::finish`] adds to the records.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlockPlace {
    pub(super) lane: u32,
    pub(super) index: u64,
    pub(super) file: u32,
    pub(super) starts_file: bool,
    pub(super) last: bool,
    pub(super) input_bytes: u64,
}

/// Where a record stands in its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Line from the block's start.
    pub(super) line: u32,
    /// Its bytes, without line end.
    pub(super) span: (u32, u32),
}

impl Place {
    /// From offsets into a block; blocks are far below 4 GiB.
    pub(super) fn new(line: u64, start: usize, end: usize) -> Self {
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Place { line: u32::try_from(line).unwrap_or(u32::MAX), span: (narrow(start), narrow(end)) }
    }
}

/// Collects the records of one block after the other.
#[derive(Debug)]
pub(super) struct BlockBuilder {
    /// This reader's own copy: counting references to it must not cost anything across threads.
    plan: Rc<DecodePlan>,
    converters: Vec<Converter>,
    /// By slot; those not wanted stay empty.
    columns: Vec<Column>,
    block: DecodedBlock,
    arrived_us: Vec<i64>,
    partition: Vec<u32>,
    partitions: Partitions,
    scratch: String,
}

/// The partitions that a block names.
#[derive(Debug, Default)]
struct Partitions {
    ids: HashMap<String, u32, foldhash::fast::FixedState>,
    last: u32,
    /// Memory to write a name into.
    name: String,
}

impl Partitions {
    /// The block's number for the partition that the value names.
    fn number(&mut self, names: &mut Vec<String>, dtype: &DataType, cell: Cell<'_>) -> Option<u32> {
        let name = value::partition_name(cell, dtype, &mut self.name)?;
        // Neighbours often are of one partition.
        if usize::try_from(self.last).ok().and_then(|i| names.get(i)).is_some_and(|last| last == name) {
            return Some(self.last);
        }
        self.last = match self.ids.get(name) {
            Some(id) => *id,
            None => {
                let id = u32::try_from(names.len()).unwrap_or(u32::MAX);
                names.push(name.to_owned());
                self.ids.insert(name.to_owned(), id);
                id
            }
        };
        Some(self.last)
    }
}

/// What the table itself reads of a record.
#[derive(Clone, Copy, Debug, Default)]
struct Roles {
    event_time_us: i64,
    arrived_us: Option<i64>,
    partition: Option<u32>,
}

impl BlockBuilder {
    pub(super) fn new(plan: &DecodePlan) -> Self {
        let converters = plan.slots.iter().map(|s| Converter::new(s.dtype.clone(), plan.time_unit_us)).collect();
        let columns = plan.slots.iter().map(|s| Column::new(s.dtype.clone())).collect();
        BlockBuilder {
            plan: Rc::new(plan.clone()),
            converters,
            columns,
            block: DecodedBlock::default(),
            arrived_us: Vec::new(),
            partition: Vec::new(),
            partitions: Partitions::default(),
            scratch: String::new(),
        }
    }

    /// Whether nothing has been added since the last block.
    pub(super) fn is_empty(&self) -> bool {
        self.block.rows == 0 && self.block.rejects.is_empty()
    }

    /// Adds a record whose framing and syntax are right; `field` finds the field of a slot.
    pub(super) fn record<'a>(&mut self, place: Place, field: impl Fn(usize) -> RawField<'a>) {
        let (roles, rejected) = self.roles(&field);
        if let Some((reason, detail)) = rejected {
            self.push_reject(place, reason, detail, roles);
            return;
        }
        let plan = self.plan.clone();
        let row = u32::try_from(self.block.rows).unwrap_or(u32::MAX);
        let slots = plan.slots.iter().zip(&mut self.converters).zip(&mut self.columns).enumerate();
        for (index, ((slot, converter), column)) in slots {
            if !slot.wanted {
                continue;
            }
            if plan.event_time == Some(index) {
                value::push(column, Cell::I64(roles.event_time_us));
                continue;
            }
            if let (true, Some(us)) = (plan.arrival_time == Some(index), roles.arrived_us) {
                value::push(column, Cell::I64(us));
                continue;
            }
            let raw = field(index);
            match converter.convert(raw, &mut self.scratch) {
                Ok(cell) => value::push(column, cell),
                Err(misfit) => {
                    value::push(column, Cell::Null);
                    let column = u32::try_from(slot.column).unwrap_or(u32::MAX);
                    self.block.errors.push((row, column, misfit_message(slot, raw, misfit)));
                }
            }
        }
        self.accept(place, roles);
    }

    /// Reads a slot of a record that is added by [`BlockBuilder::commit`]: its JSON starts at `at`, and the offset behind it
    /// is given. `None`: only [`BlockBuilder::record`] can judge the record, and [`BlockBuilder::undo`] has to be called.
    #[inline]
    pub(super) fn read_json(&mut self, slot: usize, text: &str, at: usize) -> Option<usize> {
        let (converter, column) = (self.converters.get_mut(slot)?, self.columns.get_mut(slot)?);
        if let Some(end) = converter.short_json(text, at, column) {
            return Some(end);
        }
        let end = super::flat::value_end(text.as_bytes(), at)?;
        let cell = converter.convert(RawField::Json(text.get(at..end)?), &mut self.scratch).ok()?;
        value::push(column, cell);
        Some(end)
    }

    /// The same for an unquoted CSV field.
    #[inline]
    pub(super) fn read_csv(&mut self, slot: usize, text: &str, at: usize, delimiter: u8, null: &str) -> Option<usize> {
        let (converter, column) = (self.converters.get_mut(slot)?, self.columns.get_mut(slot)?);
        let rest = text.as_bytes().get(at..)?;
        if rest.starts_with(null.as_bytes()) && short::field_ended(rest, null.len(), delimiter) {
            value::push(column, Cell::Null);
            return Some(at + null.len());
        }
        if let Some(end) = converter.short_csv(text, at, delimiter, column) {
            return Some(end);
        }
        let field = short::field(text, at, delimiter)?;
        let cell = converter.convert(RawField::Text(field), &mut self.scratch).ok()?;
        value::push(column, cell);
        Some(at + field.len())
    }

    /// The same for a field that is not there.
    pub(super) fn read_nothing(&mut self, slot: usize) {
        if let Some(column) = self.columns.get_mut(slot) {
            value::push(column, Cell::Null);
        }
    }

    /// Adds a record all of whose slots have been read. `false`: something about the record is unusual, as after `None` of
    /// [`BlockBuilder::read_json`].
    #[inline]
    pub(super) fn commit(&mut self, place: Place) -> bool {
        let Some(roles) = self.usual_roles() else { return false };
        self.accept(place, roles);
        true
    }

    /// Forgets what has been read of a record.
    pub(super) fn undo(&mut self) {
        for column in &mut self.columns {
            column.truncate(self.block.rows);
        }
    }

    /// What [`BlockBuilder::roles`] gives for a record in which nothing is wrong.
    #[inline]
    fn usual_roles(&mut self) -> Option<Roles> {
        let mut roles = Roles::default();
        let plan = &*self.plan;
        let time = |index: usize| match self.columns.get(index) {
            Some(Column { data: ColumnData::I64(times), nulls, .. }) => {
                let null = nulls.as_ref().is_some_and(|nulls| nulls.last() != Some(&false));
                times.last().copied().filter(|_| !null)
            }
            _ => None,
        };
        if let Some(index) = plan.event_time {
            roles.event_time_us = time(index).filter(|us| (EVENT_TIME_MIN_US..=EVENT_TIME_MAX_US).contains(us))?;
        }
        if let Some(index) = plan.arrival_time {
            let arrived_us = time(index)?;
            if plan.max_future_us.is_some_and(|us| roles.event_time_us > arrived_us.saturating_add(us)) {
                return None;
            }
            roles.arrived_us = Some(arrived_us);
        }
        // Last, as it may make the partition known.
        if let Some(index) = plan.partition {
            let column = self.columns.get(index)?;
            let cell = value::cell(column, column.len().checked_sub(1)?)?;
            let names = &mut self.block.partition_names;
            roles.partition = Some(self.partitions.number(names, &column.dtype, cell)?);
        }
        Some(roles)
    }

    /// Adds the records of a whole block, given as the columns of the slots; no text belongs to them. `false`: something about
    /// some record is unusual, nothing has been done, and each has to be judged by [`BlockBuilder::record`].
    #[cfg(feature = "parquet")]
    pub(super) fn batch(&mut self, columns: Vec<Column>, rows: usize) -> bool {
        debug_assert!(self.is_empty() && columns.iter().all(|column| column.len() == rows));
        let plan = Rc::clone(&self.plan);
        let times = |index: Option<usize>| match index.map(|index| columns.get(index)) {
            None => Some(None),
            Some(Some(Column { data: ColumnData::I64(times), nulls: None, .. })) => Some(Some(times)),
            _ => None,
        };
        let (Some(event), Some(arrived)) = (times(plan.event_time), times(plan.arrival_time)) else { return false };
        let supported = EVENT_TIME_MIN_US..=EVENT_TIME_MAX_US;
        if event.is_some_and(|times| times.iter().any(|us| !supported.contains(us))) {
            return false;
        }
        if let (Some(event), Some(arrived), Some(future_us)) = (event, arrived, plan.max_future_us)
            && event.iter().zip(arrived).any(|(event, arrived)| *event > arrived.saturating_add(future_us))
        {
            return false;
        }
        if let Some(column) = plan.partition.and_then(|index| columns.get(index)) {
            if column.nulls.is_some() {
                return false;
            }
            let names = &mut self.block.partition_names;
            let partitions = &mut self.partitions;
            let number = |row| partitions.number(names, &column.dtype, value::cell(column, row)?);
            self.partition.extend((0..rows).filter_map(number));
        }
        self.block.event_time_us.extend(event.into_iter().flatten());
        self.arrived_us.extend(arrived.into_iter().flatten());
        self.block.line.extend(0..u32::try_from(rows).unwrap_or(u32::MAX));
        self.block.rows = rows;
        self.columns = columns;
        true
    }

    /// What every accepted record has besides its columns.
    #[inline]
    fn accept(&mut self, place: Place, roles: Roles) {
        if self.plan.event_time.is_some() {
            self.block.event_time_us.push(roles.event_time_us);
        }
        if let Some(us) = roles.arrived_us {
            self.arrived_us.push(us);
        }
        if let Some(partition) = roles.partition {
            self.partition.push(partition);
        }
        self.block.line.push(place.line);
        self.block.span.push(place.span);
        self.block.rows += 1;
    }

    /// Adds a record that could not be taken apart.
    pub(super) fn reject(&mut self, place: Place, reason: RejectReason, detail: String) {
        self.push_reject(place, reason, detail, Roles::default());
    }

    /// Adds a record that is longer than records may be.
    pub(super) fn reject_long(&mut self, line: u64, start: usize, end: usize) {
        let limit = self.plan.max_record_bytes;
        let kept = end.min(start.saturating_add(KEPT_OF_LONG_RECORD.min(limit)));
        let limit = if limit >= 1 << 20 { format!("{} MiB", limit >> 20) } else { format!("{limit} bytes") };
        let detail = format!("expected a record of at most {limit}, found a longer one");
        self.reject(Place::new(line, start, kept), RejectReason::Syntax, detail);
    }

    fn push_reject(&mut self, place: Place, reason: RejectReason, detail: String, roles: Roles) {
        self.block.rejects.push(RejectedRecord {
            line: place.line,
            reason,
            detail,
            span: place.span,
            arrived_us: roles.arrived_us,
            partition: roles.partition,
            rows_before: u32::try_from(self.block.rows).unwrap_or(u32::MAX),
        });
    }

    /// Reads event time, arrival time and partition, and says what is wrong first, if anything is.
    fn roles<'a>(&mut self, field: &impl Fn(usize) -> RawField<'a>) -> (Roles, Option<(RejectReason, String)>) {
        let plan = self.plan.clone();
        let mut roles = Roles::default();
        let mut rejected = None;
        let mut out_of_range = None;
        if let Some((index, slot)) = plan.event_time.and_then(|i| Some((i, plan.slots.get(i)?))) {
            let raw = field(index);
            match self.time(index, raw) {
                Ok(us) if (EVENT_TIME_MIN_US..=EVENT_TIME_MAX_US).contains(&us) => roles.event_time_us = us,
                Ok(_) | Err(Misfit::Range) => out_of_range = Some(range_message(slot, raw)),
                Err(Misfit::Type) => rejected = Some((RejectReason::EventTime, type_message(slot, raw))),
            }
        }
        if let Some((index, slot)) = plan.arrival_time.and_then(|i| Some((i, plan.slots.get(i)?))) {
            let raw = field(index);
            match self.time(index, raw) {
                Ok(us) => roles.arrived_us = Some(us),
                Err(misfit) => {
                    let detail = misfit_message(slot, raw, misfit);
                    rejected.get_or_insert((RejectReason::ArrivalTime, detail));
                }
            }
        }
        if let Some((index, slot)) = plan.partition.and_then(|i| Some((i, plan.slots.get(i)?))) {
            let raw = field(index);
            let cell = self.converters.get_mut(index).and_then(|c| c.convert(raw, &mut self.scratch).ok());
            roles.partition =
                cell.and_then(|cell| self.partitions.number(&mut self.block.partition_names, &slot.dtype, cell));
            if roles.partition.is_none() && rejected.is_none() {
                rejected = Some((RejectReason::Partition, type_message(slot, raw)));
            }
        }
        if rejected.is_none() {
            rejected = out_of_range.map(|detail| (RejectReason::Range, detail));
        }
        if let (None, Some(future_us), Some(arrived_us)) = (&rejected, plan.max_future_us, roles.arrived_us)
            && roles.event_time_us > arrived_us.saturating_add(future_us)
        {
            rejected = Some((RejectReason::Future, future_message(roles.event_time_us, arrived_us, future_us)));
        }
        (roles, rejected)
    }

    /// A time that has to be there.
    fn time(&mut self, slot: usize, raw: RawField<'_>) -> Result<i64, Misfit> {
        let converter = self.converters.get_mut(slot).ok_or(Misfit::Type)?;
        match converter.convert(raw, &mut self.scratch)? {
            Cell::I64(us) => Ok(us),
            _ => Err(Misfit::Type),
        }
    }

    /// The block, and a fresh start.
    pub(super) fn finish(&mut self, place: BlockPlace, lines: u64, bytes: Vec<u8>) -> DecodedBlock {
        let mut block = std::mem::take(&mut self.block);
        block.lane = place.lane;
        block.index = place.index;
        block.starts_file = place.starts_file;
        block.file = place.file;
        block.last = place.last;
        block.lines = lines;
        block.input_bytes = place.input_bytes;
        block.bytes = Arc::new(bytes);
        block.columns = vec![None; self.plan.names.len()];
        // Neighbouring blocks have about as many rows. Where there is no text, whole columns are given.
        let room = if block.span.is_empty() { 0 } else { block.rows };
        self.block.line.reserve(room);
        self.block.span.reserve(room);
        for (slot, column) in self.plan.slots.iter().zip(&mut self.columns) {
            // Those read for their roles alone are dropped.
            let mut column = std::mem::replace(column, Column::with_capacity(slot.dtype.clone(), room));
            // A NULL that was read and forgotten leaves marks of none.
            column.nulls = column.nulls.filter(|nulls| nulls.contains(&true));
            if let (true, Some(place)) = (slot.wanted, block.columns.get_mut(slot.column)) {
                *place = Some(column);
            }
        }
        if self.plan.event_time.is_some() {
            self.block.event_time_us.reserve(room);
        }
        block.arrived_us = self.plan.arrival_time.map(|_| std::mem::take(&mut self.arrived_us));
        block.partition = self.plan.partition.map(|_| std::mem::take(&mut self.partition));
        self.partitions.ids.clear();
        self.partitions.last = 0;
        block
    }
}

fn type_message(slot: &Slot, raw: RawField<'_>) -> String {
    let found = if raw == RawField::Json("null") { value::show(RawField::Null) } else { value::show(raw) };
    format!("expected {} in column \"{}\", found {found}", value::describe(&slot.dtype), slot.name)
}

fn range_message(slot: &Slot, raw: RawField<'_>) -> String {
    format!("expected a time within the years -9999 to 9999 in column \"{}\", found {}", slot.name, value::show(raw))
}

fn misfit_message(slot: &Slot, raw: RawField<'_>, misfit: Misfit) -> String {
    match misfit {
        Misfit::Type => type_message(slot, raw),
        Misfit::Range => {
            let found = value::show(raw);
            format!("expected a time that fits 64 bits of microseconds in column \"{}\", found {found}", slot.name)
        }
    }
}

fn future_message(event_us: i64, arrived_us: i64, future_us: i64) -> String {
    let (mut event, mut arrived) = (String::new(), String::new());
    crate::time::format_timestamp(event_us, &mut event);
    crate::time::format_timestamp(arrived_us, &mut arrived);
    let future = crate::time::format_duration(future_us);
    format!("expected an event at most {future} ahead of its arrival at {arrived}, found {event}")
}
