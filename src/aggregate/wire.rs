//! Layouts of batches of rows and of tables.
//!
//! A table is its layout, its keys and then each aggregate's states by group, without numbers or kinds, which follow from the
//! layout and the keys. In a list of tables the layout stands where it changes, that is, once.

use super::accumulator::Accumulator;
use super::keys::Keys;
use super::table::{Rows, Table, TableSpec};
use super::{AggregateFunc, AggregateSpec, RecordOrder, scale_of};
use crate::types::{Column, DataType};
use crate::wire::{Reader, Wire, WireError, Writer};
use std::sync::Arc;

/// In numbers: the times, then the positions, then the partitions, two a word.
impl Wire for RecordOrder {
    const LEAST: usize = 20;
    fn size(&self) -> usize {
        24
    }
    fn put(&self, out: &mut Writer) {
        Self::put_all(std::slice::from_ref(self), out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let (event_time_us, position) = (i64::get(from)?, u64::get(from)?);
        Ok(RecordOrder { event_time_us, position, partition: u32::get(from)? })
    }
    fn size_all(items: &[Self]) -> usize {
        items.len() * 16 + (items.len() * 4).next_multiple_of(8)
    }
    fn put_all(items: &[Self], out: &mut Writer) {
        out.chunks(items, |x| x.event_time_us.to_le_bytes());
        out.chunks(items, |x| x.position.to_le_bytes());
        out.chunks(items, |x| x.partition.to_le_bytes());
        out.padded(&[]);
    }
    fn get_all(n: usize, from: &mut Reader<'_>) -> Result<Vec<Self>, WireError> {
        from.expect_items(n, Self::LEAST)?;
        let (times, positions) = (i64::get_all(n, from)?, u64::get_all(n, from)?);
        let order = |((event_time_us, position), partition)| RecordOrder { event_time_us, position, partition };
        Ok(times.into_iter().zip(positions).zip(u32::get_all(n, from)?).map(order).collect())
    }
}

/// The function's number, the fraction if it is a percentile, and the argument's type.
impl Wire for AggregateSpec {
    const LEAST: usize = 16;
    fn size(&self) -> usize {
        8 + if matches!(self.func, AggregateFunc::ApproxPercentile(_)) { 8 } else { 0 } + self.arg.size()
    }
    fn put(&self, out: &mut Writer) {
        use AggregateFunc as F;
        out.word(match self.func {
            F::CountAll => 0,
            F::Count => 1,
            F::CountDistinct => 2,
            F::Sum => 3,
            F::Avg => 4,
            F::Min => 5,
            F::Max => 6,
            F::BoolAnd => 7,
            F::BoolOr => 8,
            F::VarSamp => 9,
            F::VarPop => 10,
            F::StddevSamp => 11,
            F::StddevPop => 12,
            F::ArrayAgg => 13,
            F::FirstValue => 14,
            F::LastValue => 15,
            F::ApproxCountDistinct => 16,
            F::ApproxPercentile(_) => 17,
        });
        if let F::ApproxPercentile(fraction) = self.func {
            fraction.put(out);
        }
        self.arg.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        use AggregateFunc as F;
        let at = from.at();
        let func = match from.word()? {
            0 => F::CountAll,
            1 => F::Count,
            2 => F::CountDistinct,
            3 => F::Sum,
            4 => F::Avg,
            5 => F::Min,
            6 => F::Max,
            7 => F::BoolAnd,
            8 => F::BoolOr,
            9 => F::VarSamp,
            10 => F::VarPop,
            11 => F::StddevSamp,
            12 => F::StddevPop,
            13 => F::ArrayAgg,
            14 => F::FirstValue,
            15 => F::LastValue,
            16 => F::ApproxCountDistinct,
            17 => F::ApproxPercentile(f64::get(from)?),
            _ => return Err(WireError { at, what: "expected the number of an aggregate, 0 to 17" }),
        };
        let spec = AggregateSpec { func, arg: Wire::get(from)? };
        match spec.output() {
            Ok(_) => Ok(spec),
            Err(_) => Err(WireError { at, what: "an aggregate does not take its argument" }),
        }
    }
}

impl Wire for TableSpec {
    const LEAST: usize = 16;
    fn size(&self) -> usize {
        self.keys.size() + self.aggregates.size()
    }
    fn put(&self, out: &mut Writer) {
        self.keys.put(out);
        self.aggregates.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(TableSpec { keys: Wire::get(from)?, aggregates: Wire::get(from)? })
    }
}

/// The number of rows; key columns, arguments, filters, order.
impl Wire for Rows {
    const LEAST: usize = 40;
    fn size(&self) -> usize {
        8 + self.keys.size() + self.args.size() + self.filters.size() + self.order.size()
    }
    fn put(&self, out: &mut Writer) {
        out.count(self.len);
        self.keys.put(out);
        self.args.put(out);
        self.filters.put(out);
        self.order.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let at = from.at();
        let len = from.word_upto(u64::from(u32::MAX), "expected a number of rows of 32 bits")? as usize;
        let rows = Rows {
            len,
            keys: Wire::get(from)?,
            args: Wire::get(from)?,
            filters: Wire::get(from)?,
            order: Wire::get(from)?,
        };
        let fits = rows.keys.iter().chain(rows.args.iter().flatten()).all(|c| c.len() == len)
            && rows.filters.iter().flatten().all(|f| f.len() == len)
            && rows.order.as_ref().is_none_or(|o| o.len() == len);
        if fits { Ok(rows) } else { Err(WireError { at, what: "columns are not as long as their batch" }) }
    }
}

/// Whether a column can be one of the type: storage, and digits after the point.
fn is_column_of(column: &Column, dtype: &DataType) -> bool {
    let storage = |dtype: &DataType| std::mem::discriminant(&Column::new(dtype.clone()).data);
    storage(&column.dtype) == storage(dtype) && scale_of(&column.dtype) == scale_of(dtype)
}

impl Rows {
    /// Whether there is a column of any kind, so that the number of rows is borne out by something.
    pub(crate) fn has_columns(&self) -> bool {
        !self.keys.is_empty()
            || self.args.iter().any(Option::is_some)
            || self.filters.iter().any(Option::is_some)
            || self.order.is_some()
    }

    /// Whether the rows can be inserted into a table of the layout.
    pub(crate) fn fit(&self, spec: &TableSpec) -> bool {
        let arg = |(column, spec): (&Option<Column>, &AggregateSpec)| match (column, &spec.arg) {
            (Some(column), Some(dtype)) => is_column_of(column, dtype),
            (None, None) => true,
            _ => false,
        };
        self.keys.len() == spec.keys.len()
            && self.keys.iter().zip(&spec.keys).all(|(column, dtype)| is_column_of(column, dtype))
            && self.args.len() == spec.aggregates.len()
            && self.args.iter().zip(&spec.aggregates).all(arg)
            && self.filters.len() == spec.aggregates.len()
            && (self.order.is_some() || !spec.aggregates.iter().any(AggregateSpec::is_ordered))
    }
}

impl Table {
    fn size_of_groups(&self) -> usize {
        self.keys.size() + self.states.iter().map(Accumulator::size).sum::<usize>()
    }

    fn put_groups(&self, out: &mut Writer) {
        self.keys.put(out);
        self.states.iter().for_each(|states| states.put(out));
    }

    fn get_groups(spec: &Arc<TableSpec>, from: &mut Reader<'_>) -> Result<Table, WireError> {
        let keys = Keys::get(&spec.keys, from)?;
        let mut states = Vec::with_capacity(spec.aggregates.len());
        for aggregate in &spec.aggregates {
            states.push(Accumulator::get(aggregate, keys.len(), from)?);
        }
        Ok(Table { spec: Arc::clone(spec), keys, states })
    }

    /// Takes over an equal layout that is shared with others; `false` if it is another.
    pub(crate) fn share(&mut self, spec: &Arc<TableSpec>) -> bool {
        let equal = Arc::ptr_eq(&self.spec, spec) || self.spec == *spec;
        if equal {
            self.spec = Arc::clone(spec);
        }
        equal
    }
}

impl Wire for Table {
    const LEAST: usize = TableSpec::LEAST + 8;
    fn size(&self) -> usize {
        self.spec.size() + self.size_of_groups()
    }
    fn put(&self, out: &mut Writer) {
        self.spec.put(out);
        self.put_groups(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let spec = Arc::new(TableSpec::get(from)?);
        Table::get_groups(&spec, from)
    }
}

/// The layout of each table if it is not that of the one before.
fn specs(tables: &[(i64, Table)]) -> impl Iterator<Item = Option<&TableSpec>> {
    let before = std::iter::once(None).chain(tables.iter().map(|(_, table)| Some(&table.spec)));
    tables.iter().zip(before).map(|((_, table), before)| {
        let same = before.is_some_and(|before| Arc::ptr_eq(before, &table.spec) || *before == table.spec);
        (!same).then_some(&*table.spec)
    })
}

/// Bytes that [`put_tables`] writes.
pub(crate) fn size_tables(tables: &[(i64, Table)]) -> usize {
    let table = |((_, table), spec): (&(i64, Table), Option<&TableSpec>)| {
        16 + spec.map_or(0, TableSpec::size) + table.size_of_groups()
    };
    8 + tables.iter().zip(specs(tables)).map(table).sum::<usize>()
}

/// Appends the number of tables; for each its slice, whether its layout follows, the layout, the groups. Tables without
/// groups do not travel.
pub(crate) fn put_tables(tables: &[(i64, Table)], out: &mut Writer) {
    out.count(tables.len());
    for ((slice, table), spec) in tables.iter().zip(specs(tables)) {
        slice.put(out);
        spec.is_some().put(out);
        spec.into_iter().for_each(|spec| spec.put(out));
        table.put_groups(out);
    }
}

/// Takes tables with their slices.
///
/// # Errors
/// When the bytes are not those, or a table is empty.
pub(crate) fn get_tables(from: &mut Reader<'_>) -> Result<Vec<(i64, Table)>, WireError> {
    let n = from.count(24)?;
    let mut spec: Option<Arc<TableSpec>> = None;
    let mut tables = Vec::with_capacity(n);
    for _ in 0..n {
        let slice = i64::get(from)?;
        let at = from.at();
        if bool::get(from)? {
            let next = TableSpec::get(from)?;
            if spec.as_deref() == Some(&next) {
                return Err(WireError { at, what: "the layout of a table stands twice" });
            }
            spec = Some(Arc::new(next));
        }
        let spec = spec.as_ref().ok_or(WireError { at, what: "expected the layout of the first table" })?;
        let table = Table::get_groups(spec, from)?;
        if table.is_empty() {
            // Else a table would take memory for each aggregate, and no bytes.
            return Err(WireError { at, what: "expected a table with groups" });
        }
        tables.push((slice, table));
    }
    Ok(tables)
}
