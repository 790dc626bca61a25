//! Layouts of types, values and columns.

use super::{DEPTH_MAX, Reader, Wire, WireError, Writer};
use crate::types::{Column, ColumnData, DataType, TextData, Value};
use std::sync::Arc;

/// One word: kind, precision, scale, and around how many lists it stands; a byte each, the first lowest.
impl Wire for DataType {
    fn size(&self) -> usize {
        8
    }
    fn put(&self, out: &mut Writer) {
        let (mut leaf, mut depth) = (self, 0u64);
        while let DataType::List(item) = leaf {
            (leaf, depth) = (item, depth + 1);
        }
        let kind = match leaf {
            DataType::Boolean => 1,
            DataType::BigInt => 2,
            DataType::Double => 3,
            DataType::Decimal { precision, scale } => 4 | u64::from(*precision) << 8 | u64::from(*scale) << 16,
            DataType::Text => 5,
            DataType::Timestamp => 6,
            DataType::Date => 7,
            DataType::Interval => 8,
            DataType::List(_) => 0,
        };
        out.word(kind | depth << 24);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let wrong = from.error("expected a data type");
        let [kind, precision, scale, depth, 0, 0, 0, 0] = from.word()?.to_le_bytes() else { return Err(wrong) };
        let leaf = match (kind, precision, scale) {
            (1, 0, 0) => DataType::Boolean,
            (2, 0, 0) => DataType::BigInt,
            (3, 0, 0) => DataType::Double,
            (4, ..=38, ..=38) => DataType::Decimal { precision, scale },
            (5, 0, 0) => DataType::Text,
            (6, 0, 0) => DataType::Timestamp,
            (7, 0, 0) => DataType::Date,
            (8, 0, 0) => DataType::Interval,
            _ => return Err(wrong),
        };
        if u32::from(depth) > DEPTH_MAX {
            return Err(wrong);
        }
        Ok((0..depth).fold(leaf, |item, _| DataType::List(Box::new(item))))
    }
}

/// A word whose lowest byte is the kind and whose others hold a truth value, a scale or a length; then the value's words.
impl Wire for Value {
    fn size(&self) -> usize {
        8 + match self {
            Value::Null | Value::Boolean(_) => 0,
            Value::BigInt(_) | Value::Double(_) | Value::Timestamp(_) | Value::Date(_) | Value::Interval(_) => 8,
            Value::Decimal(..) => 16,
            Value::Text(text) => text.len().next_multiple_of(8),
            Value::List(items) => Value::size_all(items),
        }
    }

    fn put(&self, out: &mut Writer) {
        let (kind, more) = match self {
            Value::Null => (0, 0),
            Value::Boolean(x) => (1, u64::from(*x)),
            Value::BigInt(_) => (2, 0),
            Value::Double(_) => (3, 0),
            Value::Decimal(_, scale) => (4, u64::from(*scale)),
            Value::Text(text) => (5, text.len() as u64),
            Value::Timestamp(_) => (6, 0),
            Value::Date(_) => (7, 0),
            Value::Interval(_) => (8, 0),
            Value::List(items) => (9, items.len() as u64),
        };
        out.word(kind | more << 8);
        match self {
            Value::Null | Value::Boolean(_) => {}
            Value::BigInt(x) | Value::Timestamp(x) | Value::Date(x) | Value::Interval(x) => x.put(out),
            Value::Double(x) => x.put(out),
            Value::Decimal(x, _) => x.put(out),
            Value::Text(text) => out.padded(text.as_bytes()),
            Value::List(items) => Value::put_all(items, out),
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let wrong = from.error("expected a value");
        let head = from.word()?;
        let more = head >> 8;
        let long = |_| wrong.clone();
        Ok(match (head & 0xff, more) {
            (0, 0) => Value::Null,
            (1, 0 | 1) => Value::Boolean(more == 1),
            (2, 0) => Value::BigInt(i64::get(from)?),
            (3, 0) => Value::Double(f64::get(from)?),
            (4, ..=38) => Value::Decimal(i128::get(from)?, more as u8),
            (5, _) => Value::Text(from.text(usize::try_from(more).map_err(long)?)?.into()),
            (6, 0) => Value::Timestamp(i64::get(from)?),
            (7, 0) => Value::Date(i64::get(from)?),
            (8, 0) => Value::Interval(i64::get(from)?),
            (9, _) => {
                let n = usize::try_from(more).map_err(long)?;
                Value::List(Arc::from(from.nested(|from| Value::get_all(n, from))?))
            }
            _ => return Err(wrong),
        })
    }
}

/// The number of texts, where each begins and the last ends (32 bits each), and the bytes of all.
impl Wire for TextData {
    const LEAST: usize = 16;
    fn size(&self) -> usize {
        let (offsets, bytes) = self.parts();
        8 + u32::size_all(offsets) + u8::size_all(bytes)
    }
    fn put(&self, out: &mut Writer) {
        let (offsets, bytes) = self.parts();
        out.count(self.len());
        u32::put_all(offsets, out);
        out.padded(bytes);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let at = from.at();
        let n = from.count(u32::LEAST)?;
        let offsets = u32::get_all(n.saturating_add(1), from)?;
        let len = offsets.last().copied().unwrap_or(0);
        let bytes = from.padded(len as usize)?.to_vec();
        TextData::from_parts(offsets, bytes).map_err(|what| WireError { at, what })
    }
}

/// A word for the kind, and the vector.
impl Wire for ColumnData {
    const LEAST: usize = 16;
    fn size(&self) -> usize {
        8 + match self {
            ColumnData::Boolean(v) => v.size(),
            ColumnData::I64(v) => v.size(),
            ColumnData::F64(v) => v.size(),
            ColumnData::I128(v) => v.size(),
            ColumnData::Text(v) => v.size(),
            ColumnData::List(v) => v.size(),
        }
    }
    fn put(&self, out: &mut Writer) {
        let mut kind = |kind| out.word(kind);
        match self {
            ColumnData::Boolean(v) => {
                kind(1);
                v.put(out);
            }
            ColumnData::I64(v) => {
                kind(2);
                v.put(out);
            }
            ColumnData::F64(v) => {
                kind(3);
                v.put(out);
            }
            ColumnData::I128(v) => {
                kind(4);
                v.put(out);
            }
            ColumnData::Text(v) => {
                kind(5);
                v.put(out);
            }
            ColumnData::List(v) => {
                kind(6);
                v.put(out);
            }
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let wrong = from.error("expected the kind of a column, 1 to 6");
        Ok(match from.word()? {
            1 => ColumnData::Boolean(Wire::get(from)?),
            2 => ColumnData::I64(Wire::get(from)?),
            3 => ColumnData::F64(Wire::get(from)?),
            4 => ColumnData::I128(Wire::get(from)?),
            5 => ColumnData::Text(Wire::get(from)?),
            6 => ColumnData::List(Wire::get(from)?),
            _ => return Err(wrong),
        })
    }
}

/// The type, whether there are NULLs, the values, and a truth value for each if there are NULLs.
impl Wire for Column {
    const LEAST: usize = 32;
    fn size(&self) -> usize {
        self.dtype.size() + 8 + self.data.size() + self.nulls.as_deref().map_or(0, bool::size_all)
    }
    fn put(&self, out: &mut Writer) {
        debug_assert!(self.nulls.as_ref().is_none_or(|n| n.len() == self.len()), "as long as the column");
        self.dtype.put(out);
        self.nulls.is_some().put(out);
        self.data.put(out);
        self.nulls.iter().for_each(|nulls| bool::put_all(nulls, out));
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let dtype = DataType::get(from)?;
        let has_nulls = bool::get(from)?;
        let misfit = from.error("the values of a column are not of its type");
        let mut column = Column { dtype, data: ColumnData::get(from)?, nulls: None };
        if !column.is_sound() {
            return Err(misfit);
        }
        if has_nulls {
            column.nulls = Some(bool::get_all(column.len(), from)?);
        }
        Ok(column)
    }
}
