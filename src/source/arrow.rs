//! Values of Arrow arrays (cargo feature `parquet`): one at a time, or a whole column if everything in it fits.
//!
//! [`field`] knows all types that [`fits`] allows, and what does not fit; [`Found::column`] the usual ones, and gives up at
//! the first value that does not fit. The tests of the reader compare the two.

use super::decode::Slot;
use super::number::Number;
use super::value::{Cell, Misfit, RawField};
use crate::types::{Column, ColumnData, DataType};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType as ArrowType, TimeUnit};

const DAY_US: i64 = 86_400_000_000;

/// A column of a batch: the array, and the structs it stands in.
pub(super) struct Found {
    pub(super) parents: Vec<ArrayRef>,
    pub(super) array: ArrayRef,
}

impl Found {
    pub(super) fn is_null(&self, row: usize) -> bool {
        self.array.is_null(row) || self.parents.iter().any(|parent| parent.is_null(row))
    }
}

/// A column of the type with these values; those of NULLs become defaults. `None` if one does not fit.
fn gather<A: Copy, T: Copy + Default>(
    array: &dyn Array,
    values: impl Iterator<Item = A>,
    convert: impl Fn(A) -> Option<T>,
    wrap: impl Fn(Vec<T>) -> ColumnData,
    dtype: &DataType,
) -> Option<Column> {
    let mut out = Vec::with_capacity(array.len());
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    match nulls {
        None => {
            for value in values {
                out.push(convert(value)?);
            }
        }
        Some(nulls) => {
            for (value, valid) in values.zip(nulls.iter()) {
                out.push(if valid { convert(value)? } else { T::default() });
            }
        }
    }
    let nulls = nulls.map(|nulls| nulls.iter().map(|valid| !valid).collect());
    Some(Column { dtype: dtype.clone(), data: wrap(out), nulls })
}

impl Found {
    /// All values as one column. `None`: not of the usual types, or one does not fit; then [`field`] has to read each.
    pub(super) fn column(&self, slot: &Slot, time_unit_us: i64) -> Option<Column> {
        use ColumnData::{F64, I64, I128};
        use DataType::{BigInt, Date, Decimal, Double, Text, Timestamp};
        if self.parents.iter().any(|parent| parent.null_count() > 0) {
            return None;
        }
        let (array, dtype) = (&self.array, &slot.dtype);
        macro_rules! of {
            ($kind:ty, $convert:expr, $wrap:expr) => {
                gather(&**array, array.as_primitive::<$kind>().values().iter().copied(), $convert, $wrap, dtype)
            };
        }
        match (array.data_type(), dtype) {
            (ArrowType::Int64, BigInt) => of!(Int64Type, Some, I64),
            (ArrowType::Int32, BigInt) => of!(Int32Type, |value| Some(i64::from(value)), I64),
            (ArrowType::Int64, Timestamp) => of!(Int64Type, |value: i64| value.checked_mul(time_unit_us), I64),
            (ArrowType::Timestamp(TimeUnit::Microsecond, _), Timestamp) => of!(TimestampMicrosecondType, Some, I64),
            (ArrowType::Timestamp(TimeUnit::Millisecond, _), Timestamp) => {
                of!(TimestampMillisecondType, |value: i64| value.checked_mul(1_000), I64)
            }
            (ArrowType::Timestamp(TimeUnit::Nanosecond, _), Timestamp) => {
                of!(TimestampNanosecondType, |value: i64| Some(value.div_euclid(1_000)), I64)
            }
            (ArrowType::Int64, Double) => of!(Int64Type, |value| Some(value as f64), F64),
            (ArrowType::Date32, Date) => of!(Date32Type, |value| Some(i64::from(value)), I64),
            (ArrowType::Float64, Double) => of!(Float64Type, Some, F64),
            (ArrowType::Float32, Double) => of!(Float32Type, |value| Some(f64::from(value)), F64),
            (ArrowType::Decimal128(_, from), Decimal { precision, scale }) => {
                // Of the same scale or a coarser one: what is finer has to be looked at more closely.
                let places = u32::try_from(i16::from(*scale) - i16::from(*from)).ok()?;
                let power = 10i128.checked_pow(places)?;
                let limit = 10u128.checked_pow(u32::from(*precision))?;
                let fits = |value: &i128| value.unsigned_abs() < limit;
                if places == 0 {
                    of!(Decimal128Type, |value: i128| Some(value).filter(fits), I128)
                } else {
                    of!(Decimal128Type, |value: i128| value.checked_mul(power).filter(fits), I128)
                }
            }
            (ArrowType::Boolean, DataType::Boolean) => {
                gather(&**array, array.as_boolean().values().iter(), Some, ColumnData::Boolean, dtype)
            }
            (ArrowType::Utf8, Text) => {
                let texts = array.as_string::<i32>();
                let data = texts.iter().map(Option::unwrap_or_default).collect();
                let nulls = texts.nulls().filter(|nulls| nulls.null_count() > 0);
                let nulls = nulls.map(|nulls| nulls.iter().map(|valid| !valid).collect());
                Some(Column { dtype: Text, data: ColumnData::Text(data), nulls })
            }
            _ => None,
        }
    }
}

/// The column at a path of the batch.
pub(super) fn find(batch: &RecordBatch, path: &[String]) -> Option<Found> {
    let (first, below) = path.split_first()?;
    let mut array = batch.column_by_name(first)?.clone();
    let mut parents = Vec::new();
    for name in below {
        let inner = array.as_struct_opt()?.column_by_name(name)?.clone();
        parents.push(std::mem::replace(&mut array, inner));
    }
    Some(Found { parents, array })
}

/// Whether [`field`] reads arrays of the type as values of the column's type.
pub(super) fn fits(found: &ArrowType, declared: &DataType) -> bool {
    match found {
        ArrowType::Utf8 => true,
        ArrowType::Boolean => *declared == DataType::Boolean,
        found if found.is_integer() => declared.is_numeric() || *declared == DataType::Timestamp,
        ArrowType::Float32 | ArrowType::Float64 => *declared == DataType::Double,
        ArrowType::Decimal128(..) => matches!(declared, DataType::Decimal { .. }),
        ArrowType::Timestamp(..) => *declared == DataType::Timestamp,
        ArrowType::Date32 => matches!(declared, DataType::Timestamp | DataType::Date),
        _ => false,
    }
}

/// The value at a row that is not NULL, of an array that [`fits`].
pub(super) fn field<'a>(array: &'a ArrayRef, row: usize, declared: &DataType, time_unit_us: i64) -> RawField<'a> {
    macro_rules! at {
        ($kind:ty) => {
            array.as_primitive::<$kind>().value(row)
        };
    }
    let times = |value: i64, unit_us: i64| value.checked_mul(unit_us).map(Cell::I64).ok_or(Misfit::Range);
    let value = match array.data_type() {
        ArrowType::Utf8 => return RawField::Text(array.as_string::<i32>().value(row)),
        ArrowType::Boolean => Ok(Cell::Boolean(array.as_boolean().value(row))),
        ArrowType::Int8 => integer(at!(Int8Type).into(), declared, time_unit_us),
        ArrowType::Int16 => integer(at!(Int16Type).into(), declared, time_unit_us),
        ArrowType::Int32 => integer(at!(Int32Type).into(), declared, time_unit_us),
        ArrowType::Int64 => integer(at!(Int64Type).into(), declared, time_unit_us),
        ArrowType::UInt8 => integer(at!(UInt8Type).into(), declared, time_unit_us),
        ArrowType::UInt16 => integer(at!(UInt16Type).into(), declared, time_unit_us),
        ArrowType::UInt32 => integer(at!(UInt32Type).into(), declared, time_unit_us),
        ArrowType::UInt64 => integer(at!(UInt64Type).into(), declared, time_unit_us),
        ArrowType::Float32 => Ok(Cell::F64(at!(Float32Type).into())),
        ArrowType::Float64 => Ok(Cell::F64(at!(Float64Type))),
        ArrowType::Decimal128(_, scale) => decimal(at!(Decimal128Type), *scale, declared),
        ArrowType::Timestamp(TimeUnit::Second, _) => times(at!(TimestampSecondType), 1_000_000),
        ArrowType::Timestamp(TimeUnit::Millisecond, _) => times(at!(TimestampMillisecondType), 1_000),
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => times(at!(TimestampMicrosecondType), 1),
        ArrowType::Timestamp(TimeUnit::Nanosecond, _) => Ok(Cell::I64(at!(TimestampNanosecondType).div_euclid(1_000))),
        ArrowType::Date32 if *declared == DataType::Timestamp => times(at!(Date32Type).into(), DAY_US),
        ArrowType::Date32 => Ok(Cell::I64(at!(Date32Type).into())),
        _ => Err(Misfit::Type),
    };
    RawField::Value(value)
}

/// An integer as a value of the declared type.
fn integer(value: i128, declared: &DataType, time_unit_us: i64) -> Result<Cell<'static>, Misfit> {
    match declared {
        DataType::BigInt => i64::try_from(value).map(Cell::I64).map_err(|_| Misfit::Type),
        DataType::Double => Ok(Cell::F64(value as f64)),
        DataType::Decimal { .. } => decimal(value, 0, declared),
        DataType::Timestamp => {
            let us = value.checked_mul(i128::from(time_unit_us)).and_then(|us| i64::try_from(us).ok());
            us.map(Cell::I64).ok_or(Misfit::Range)
        }
        _ => Err(Misfit::Type),
    }
}

/// A decimal as one of the declared type, if nothing is lost.
fn decimal(value: i128, scale: i8, declared: &DataType) -> Result<Cell<'static>, Misfit> {
    let DataType::Decimal { precision, scale: places } = declared else { return Err(Misfit::Type) };
    Number::from_parts(value, scale).to_decimal(*precision, *places).map(Cell::I128).ok_or(Misfit::Type)
}
