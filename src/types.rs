//! The data model: types, single values and columns of values.
//!
//! Everything between the readers and the sinks is held in [`Column`]s (one contiguous vector per
//! column, NULLs aside); single [`Value`]s appear only where rows are few: keys of results,
//! literals, published rows. Columns are our own rather than a columnar library's because every
//! operation must be able to fail *for one row* without failing the batch (see ARCHITECTURE.md).

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A SQL type. `INTEGER` and `BIGINT` are one type of 64 bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DataType {
    /// `BOOLEAN`.
    Boolean,
    /// `BIGINT`, `INTEGER`: signed, 64 bits.
    BigInt,
    /// `DOUBLE`: IEEE 754 binary64.
    Double,
    /// `DECIMAL(precision, scale)`: up to 38 digits, of which `scale` stand after the point.
    Decimal {
        /// Digits in all, 1 to 38.
        precision: u8,
        /// Digits after the point, 0 to `precision`.
        scale: u8,
    },
    /// `TEXT`: UTF-8, ordered bytewise.
    Text,
    /// `TIMESTAMP`: microseconds since 1970-01-01T00:00:00Z.
    Timestamp,
    /// `DATE`: days since 1970-01-01.
    Date,
    /// `INTERVAL`: microseconds; a day is 24 hours, and there are no months.
    Interval,
    /// A list, the result of `array_agg`.
    List(Box<DataType>),
}

impl DataType {
    /// Whether values are numbers (`BIGINT`, `DOUBLE`, `DECIMAL`).
    pub fn is_numeric(&self) -> bool {
        matches!(self, DataType::BigInt | DataType::Double | DataType::Decimal { .. })
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Boolean => f.write_str("BOOLEAN"),
            DataType::BigInt => f.write_str("BIGINT"),
            DataType::Double => f.write_str("DOUBLE"),
            DataType::Decimal { precision, scale } => write!(f, "DECIMAL({precision},{scale})"),
            DataType::Text => f.write_str("TEXT"),
            DataType::Timestamp => f.write_str("TIMESTAMP"),
            DataType::Date => f.write_str("DATE"),
            DataType::Interval => f.write_str("INTERVAL"),
            DataType::List(item) => write!(f, "{item}[]"),
        }
    }
}

/// One value. Its order is the order of published rows: numbers by size, text bytewise, NULL last;
/// −0.0 equals 0.0 and there is one NaN, greater than every other number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Value {
    /// NULL of any type.
    Null,
    /// A `BOOLEAN`.
    Boolean(bool),
    /// A `BIGINT`.
    BigInt(i64),
    /// A `DOUBLE`.
    Double(f64),
    /// A `DECIMAL`: the number times 10^`scale`.
    Decimal(i128, u8),
    /// A `TEXT`.
    Text(Arc<str>),
    /// A `TIMESTAMP`, in microseconds since 1970.
    Timestamp(i64),
    /// A `DATE`, in days since 1970.
    Date(i64),
    /// An `INTERVAL`, in microseconds.
    Interval(i64),
    /// A list.
    List(Arc<[Value]>),
}

/// The total order of doubles used everywhere: numeric, −0.0 = 0.0, NaN = NaN and greatest.
pub fn compare_doubles(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The one representation of a double in keys: −0.0 becomes 0.0 and every NaN the same NaN.
pub fn canonical_double(x: f64) -> f64 {
    if x.is_nan() {
        f64::NAN
    } else if x == 0.0 {
        0.0
    } else {
        x
    }
}

impl Value {
    /// Whether this is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Whether it is NULL or a value of the type (a decimal: of its scale).
    pub fn is_of(&self, dtype: &DataType) -> bool {
        match (self, dtype) {
            (Value::Decimal(_, scale), DataType::Decimal { scale: expected, .. }) => scale == expected,
            (Value::List(items), DataType::List(item)) => items.iter().all(|value| value.is_of(item)),
            (Value::Null, _)
            | (Value::Boolean(_), DataType::Boolean)
            | (Value::BigInt(_), DataType::BigInt)
            | (Value::Double(_), DataType::Double)
            | (Value::Text(_), DataType::Text)
            | (Value::Timestamp(_), DataType::Timestamp)
            | (Value::Date(_), DataType::Date)
            | (Value::Interval(_), DataType::Interval) => true,
            _ => false,
        }
    }

    /// The type of a value that is not NULL; a decimal's precision is the largest.
    pub fn dtype(&self) -> Option<DataType> {
        Some(match self {
            Value::Null => return None,
            Value::Boolean(_) => DataType::Boolean,
            Value::BigInt(_) => DataType::BigInt,
            Value::Double(_) => DataType::Double,
            Value::Decimal(_, scale) => DataType::Decimal { precision: 38, scale: *scale },
            Value::Text(_) => DataType::Text,
            Value::Timestamp(_) => DataType::Timestamp,
            Value::Date(_) => DataType::Date,
            Value::Interval(_) => DataType::Interval,
            Value::List(items) => {
                DataType::List(Box::new(items.iter().find_map(Value::dtype).unwrap_or(DataType::BigInt)))
            }
        })
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Boolean(_) => 0,
            Value::BigInt(_) => 1,
            Value::Double(_) => 2,
            Value::Decimal(..) => 3,
            Value::Text(_) => 4,
            Value::Timestamp(_) => 5,
            Value::Date(_) => 6,
            Value::Interval(_) => 7,
            Value::List(_) => 8,
            Value::Null => 9,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Value {}
impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        use Value::*;
        match (self, other) {
            (Null, Null) => Ordering::Equal,
            (Boolean(a), Boolean(b)) => a.cmp(b),
            (BigInt(a), BigInt(b)) => a.cmp(b),
            (Double(a), Double(b)) => compare_doubles(*a, *b),
            (Decimal(a, s), Decimal(b, t)) => compare_decimals(*a, *s, *b, *t),
            (Text(a), Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Timestamp(a), Timestamp(b)) | (Date(a), Date(b)) | (Interval(a), Interval(b)) => a.cmp(b),
            (List(a), List(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl Value {
    /// A number that is not greater for a smaller value of the same type: what two values differ in at first sight. NULL has
    /// the greatest.
    pub fn rough(&self) -> u64 {
        match self {
            Value::Boolean(x) => u64::from(*x),
            Value::BigInt(x) | Value::Timestamp(x) | Value::Date(x) | Value::Interval(x) => (*x as u64) ^ (1 << 63),
            Value::Text(text) => {
                let mut word = [0; 8];
                word.iter_mut().zip(text.as_bytes()).for_each(|(to, from)| *to = *from);
                u64::from_be_bytes(word)
            }
            Value::Null => u64::MAX,
            Value::Double(_) | Value::Decimal(..) | Value::List(_) => 0,
        }
    }
}

/// The order of two rows of columns of the same types.
pub fn compare_rows(columns: &[Column], row: usize, others: &[Column], other_row: usize) -> Ordering {
    let orders = columns.iter().zip(others).map(|(a, b)| a.compare(row, b, other_row));
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Compares two decimals of any scales without overflow.
pub fn compare_decimals(a: i128, a_scale: u8, b: i128, b_scale: u8) -> Ordering {
    if a_scale == b_scale {
        return a.cmp(&b);
    }
    let scale = a_scale.max(b_scale);
    let widen = |v: i128, s: u8| v.checked_mul(10i128.checked_pow(u32::from(scale - s))?);
    match (widen(a, a_scale), widen(b, b_scale)) {
        (Some(a), Some(b)) => a.cmp(&b),
        // Only the one with the smaller scale can overflow, and then it is the larger in size.
        (None, _) => 0.cmp(&a).reverse(),
        (_, None) => 0.cmp(&b),
    }
}

impl std::hash::Hash for Value {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Value::Null => {}
            Value::Boolean(v) => v.hash(state),
            Value::BigInt(v) | Value::Timestamp(v) | Value::Date(v) | Value::Interval(v) => v.hash(state),
            Value::Double(v) => canonical_double(*v).to_bits().hash(state),
            Value::Decimal(v, scale) => {
                // Equal numbers of different scales hash alike.
                let (mut v, mut scale) = (*v, *scale);
                while scale > 0 && v % 10 == 0 {
                    v /= 10;
                    scale -= 1;
                }
                (v, scale).hash(state);
            }
            Value::Text(v) => v.as_bytes().hash(state),
            Value::List(v) => v.hash(state),
        }
    }
}

/// Text of many rows in one buffer: row `i` is `bytes[offsets[i]..offsets[i + 1]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawText")]
pub struct TextData {
    offsets: Vec<u32>,
    bytes: Vec<u8>,
}

/// Texts as they were read, before they are checked.
#[derive(Deserialize)]
struct RawText {
    offsets: Vec<u32>,
    bytes: Vec<u8>,
}

impl TryFrom<RawText> for TextData {
    type Error = &'static str;
    fn try_from(raw: RawText) -> Result<TextData, &'static str> {
        TextData::from_parts(raw.offsets, raw.bytes)
    }
}

impl Default for TextData {
    fn default() -> Self {
        TextData { offsets: vec![0], bytes: Vec::new() }
    }
}

impl TextData {
    /// Where each row begins and the last ends, and the bytes of all.
    pub(crate) fn parts(&self) -> (&[u32], &[u8]) {
        (&self.offsets, &self.bytes)
    }
    /// Puts the parts together.
    ///
    /// # Errors
    /// When they are not the parts of texts.
    pub(crate) fn from_parts(offsets: Vec<u32>, bytes: Vec<u8>) -> Result<TextData, &'static str> {
        let fit = offsets.first() == Some(&0)
            && offsets.is_sorted()
            && offsets.last().is_some_and(|end| *end as usize == bytes.len());
        if !fit {
            return Err("the offsets of texts do not fit their bytes");
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| "expected UTF-8")?;
        if !text.is_ascii() && !offsets.iter().all(|at| text.is_char_boundary(*at as usize)) {
            return Err("a text begins inside a character");
        }
        Ok(TextData { offsets, bytes })
    }
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }
    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Appends a row.
    ///
    /// # Panics
    /// When the buffer would pass 4 GiB; blocks are far smaller.
    pub fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.offsets.push(u32::try_from(self.bytes.len()).expect("a text column of one block stays below 4 GiB"));
    }
    /// Drops the rows from `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows.saturating_add(1));
        self.bytes.truncate(self.offsets.last().map_or(0, |end| *end as usize));
    }
    /// The text of row `row`.
    #[expect(clippy::indexing_slicing, reason = "rows are the caller's own, bounds are this type's invariant")]
    pub fn get(&self, row: usize) -> &str {
        let bytes = &self.bytes[self.offsets[row] as usize..self.offsets[row + 1] as usize];
        // Only `push` adds bytes, and it takes `&str`; `from_parts` checks.
        std::str::from_utf8(bytes).unwrap_or_default()
    }
    /// The bytes of row `row`.
    #[expect(clippy::indexing_slicing, reason = "rows are the caller's own, bounds are this type's invariant")]
    pub fn bytes(&self, row: usize) -> &[u8] {
        &self.bytes[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

impl<S: AsRef<str>> FromIterator<S> for TextData {
    fn from_iter<I: IntoIterator<Item = S>>(iter: I) -> Self {
        let mut out = TextData::default();
        for text in iter {
            out.push(text.as_ref());
        }
        out
    }
}

/// The storage of a [`Column`]. Rows that are NULL hold a default value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ColumnData {
    /// `BOOLEAN`.
    Boolean(Vec<bool>),
    /// `BIGINT`, `TIMESTAMP` (µs), `DATE` (days), `INTERVAL` (µs).
    I64(Vec<i64>),
    /// `DOUBLE`.
    F64(Vec<f64>),
    /// `DECIMAL`, unscaled; the scale is in the column's type.
    I128(Vec<i128>),
    /// `TEXT`.
    Text(TextData),
    /// Lists.
    List(Vec<Arc<[Value]>>),
}

/// A column of values of one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// The type of every value.
    pub dtype: DataType,
    /// The values.
    pub data: ColumnData,
    /// `true` marks a NULL; `None` means that there is none. As long as the column if present.
    pub nulls: Option<Vec<bool>>,
}

impl Column {
    /// An empty column.
    pub fn new(dtype: DataType) -> Self {
        let data = match &dtype {
            DataType::Boolean => ColumnData::Boolean(Vec::new()),
            DataType::BigInt | DataType::Timestamp | DataType::Date | DataType::Interval => ColumnData::I64(Vec::new()),
            DataType::Double => ColumnData::F64(Vec::new()),
            DataType::Decimal { .. } => ColumnData::I128(Vec::new()),
            DataType::Text => ColumnData::Text(TextData::default()),
            DataType::List(_) => ColumnData::List(Vec::new()),
        };
        Column { dtype, data, nulls: None }
    }

    /// An empty column with room for so many rows (the bytes of texts aside).
    pub fn with_capacity(dtype: DataType, rows: usize) -> Self {
        let mut out = Column::new(dtype);
        match &mut out.data {
            ColumnData::Boolean(v) => v.reserve_exact(rows),
            ColumnData::I64(v) => v.reserve_exact(rows),
            ColumnData::F64(v) => v.reserve_exact(rows),
            ColumnData::I128(v) => v.reserve_exact(rows),
            ColumnData::Text(v) => v.offsets.reserve_exact(rows),
            ColumnData::List(v) => v.reserve_exact(rows),
        }
        out
    }

    /// Drops the rows from `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        match &mut self.data {
            ColumnData::Boolean(v) => v.truncate(rows),
            ColumnData::I64(v) => v.truncate(rows),
            ColumnData::F64(v) => v.truncate(rows),
            ColumnData::I128(v) => v.truncate(rows),
            ColumnData::Text(v) => v.truncate(rows),
            ColumnData::List(v) => v.truncate(rows),
        }
        if let Some(nulls) = &mut self.nulls {
            nulls.truncate(rows);
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match &self.data {
            ColumnData::Boolean(v) => v.len(),
            ColumnData::I64(v) => v.len(),
            ColumnData::F64(v) => v.len(),
            ColumnData::I128(v) => v.len(),
            ColumnData::Text(v) => v.len(),
            ColumnData::List(v) => v.len(),
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the storage is that of the type, and lists hold values of its item type.
    pub(crate) fn is_sound(&self) -> bool {
        match (&self.data, &self.dtype) {
            (ColumnData::List(lists), DataType::List(item)) => lists.iter().all(|v| v.iter().all(|x| x.is_of(item))),
            (data, dtype) => std::mem::discriminant(data) == std::mem::discriminant(&Column::new(dtype.clone()).data),
        }
    }

    /// Whether row `row` is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|n| n.get(row).copied().unwrap_or(false))
    }

    /// [`Value::rough`] of the value at `row`.
    pub fn rough(&self, row: usize) -> u64 {
        match &self.data {
            ColumnData::Text(texts) if !self.is_null(row) && row < texts.len() => {
                let mut word = [0; 8];
                word.iter_mut().zip(texts.bytes(row)).for_each(|(to, from)| *to = *from);
                u64::from_be_bytes(word)
            }
            _ => self.value(row).rough(),
        }
    }

    /// The value at `row` (NULL if there is no such row). A decimal carries the type's scale.
    pub fn value(&self, row: usize) -> Value {
        if self.is_null(row) || row >= self.len() {
            return Value::Null;
        }
        match (&self.data, &self.dtype) {
            (ColumnData::Boolean(v), _) => v.get(row).map_or(Value::Null, |x| Value::Boolean(*x)),
            (ColumnData::I64(v), dtype) => v.get(row).map_or(Value::Null, |x| match dtype {
                DataType::Timestamp => Value::Timestamp(*x),
                DataType::Date => Value::Date(*x),
                DataType::Interval => Value::Interval(*x),
                _ => Value::BigInt(*x),
            }),
            (ColumnData::F64(v), _) => v.get(row).map_or(Value::Null, |x| Value::Double(*x)),
            (ColumnData::I128(v), dtype) => v.get(row).map_or(Value::Null, |x| {
                let scale = if let DataType::Decimal { scale, .. } = dtype { *scale } else { 0 };
                Value::Decimal(*x, scale)
            }),
            (ColumnData::Text(v), _) => Value::Text(v.get(row).into()),
            (ColumnData::List(v), _) => v.get(row).map_or(Value::Null, |x| Value::List(x.clone())),
        }
    }

    /// Appends a value of the column's type, or NULL. A value of another type is appended as NULL
    /// (and caught by a debug assertion): callers convert first.
    pub fn push(&mut self, value: &Value) {
        let row = self.len();
        let mut null = false;
        match (&mut self.data, value) {
            (ColumnData::Boolean(v), Value::Boolean(x)) => v.push(*x),
            (ColumnData::I64(v), Value::BigInt(x) | Value::Timestamp(x) | Value::Date(x) | Value::Interval(x)) => {
                v.push(*x)
            }
            (ColumnData::F64(v), Value::Double(x)) => v.push(*x),
            (ColumnData::I128(v), Value::Decimal(x, _)) => v.push(*x),
            (ColumnData::Text(v), Value::Text(x)) => v.push(x),
            (ColumnData::List(v), Value::List(x)) => v.push(x.clone()),
            (data, value) => {
                debug_assert!(value.is_null(), "{value:?} pushed to a column of {}", self.dtype);
                null = true;
                match data {
                    ColumnData::Boolean(v) => v.push(false),
                    ColumnData::I64(v) => v.push(0),
                    ColumnData::F64(v) => v.push(0.0),
                    ColumnData::I128(v) => v.push(0),
                    ColumnData::Text(v) => v.push(""),
                    ColumnData::List(v) => v.push(Arc::from([])),
                }
            }
        }
        match &mut self.nulls {
            Some(nulls) => nulls.push(null),
            None if null => {
                let mut nulls = vec![false; row];
                nulls.push(true);
                self.nulls = Some(nulls);
            }
            None => {}
        }
    }

    /// [`Self::rough`] of every row.
    pub fn roughs(&self) -> Vec<u64> {
        match &self.data {
            ColumnData::I64(v) if self.nulls.is_none() => v.iter().map(|x| (*x as u64) ^ (1 << 63)).collect(),
            _ => (0..self.len()).map(|row| self.rough(row)).collect(),
        }
    }

    /// Whether values that differ have different [`Self::roughs`].
    pub fn is_told_by_rough(&self) -> bool {
        matches!(self.data, ColumnData::I64(_) | ColumnData::Boolean(_)) && self.nulls.is_none()
    }

    /// The order of a value and one of another column of the same type; that of [`Value`].
    #[expect(clippy::indexing_slicing, reason = "rows are the caller's own")]
    pub fn compare(&self, row: usize, other: &Column, other_row: usize) -> Ordering {
        match (self.is_null(row), other.is_null(other_row)) {
            (false, false) => {}
            (a, b) => return a.cmp(&b),
        }
        match (&self.data, &other.data) {
            (ColumnData::I64(a), ColumnData::I64(b)) => a[row].cmp(&b[other_row]),
            (ColumnData::Text(a), ColumnData::Text(b)) => a.bytes(row).cmp(b.bytes(other_row)),
            _ => self.value(row).cmp(&other.value(other_row)),
        }
    }

    /// Appends the values of another column of the same type.
    pub fn append(&mut self, other: &Column) {
        let (len, more) = (self.len(), other.len());
        if self.nulls.is_some() || other.nulls.is_some() {
            let nulls = self.nulls.get_or_insert_with(|| vec![false; len]);
            match &other.nulls {
                Some(others) => nulls.extend_from_slice(others),
                None => nulls.resize(len + more, false),
            }
        }
        match (&mut self.data, &other.data) {
            (ColumnData::Boolean(a), ColumnData::Boolean(b)) => a.extend_from_slice(b),
            (ColumnData::I64(a), ColumnData::I64(b)) => a.extend_from_slice(b),
            (ColumnData::F64(a), ColumnData::F64(b)) => a.extend_from_slice(b),
            (ColumnData::I128(a), ColumnData::I128(b)) => a.extend_from_slice(b),
            (ColumnData::Text(a), ColumnData::Text(b)) => (0..more).for_each(|row| a.push(b.get(row))),
            (ColumnData::List(a), ColumnData::List(b)) => a.extend_from_slice(b),
            _ => debug_assert!(false, "columns of different types"),
        }
    }

    /// The column of the rows named, in that order.
    #[expect(clippy::indexing_slicing, reason = "rows are the caller's own")]
    pub fn take(&self, rows: &[u32]) -> Column {
        fn pick<T: Clone>(v: &[T], rows: &[u32]) -> Vec<T> {
            #[expect(clippy::indexing_slicing, reason = "rows are the caller's own")]
            rows.iter().map(|&r| v[r as usize].clone()).collect()
        }
        let data = match &self.data {
            ColumnData::Boolean(v) => ColumnData::Boolean(pick(v, rows)),
            ColumnData::I64(v) => ColumnData::I64(pick(v, rows)),
            ColumnData::F64(v) => ColumnData::F64(pick(v, rows)),
            ColumnData::I128(v) => ColumnData::I128(pick(v, rows)),
            ColumnData::Text(v) => ColumnData::Text(rows.iter().map(|&r| v.get(r as usize)).collect()),
            ColumnData::List(v) => ColumnData::List(pick(v, rows)),
        };
        let nulls = self.nulls.as_ref().map(|n| rows.iter().map(|&r| n[r as usize]).collect());
        Column { dtype: self.dtype.clone(), data, nulls }
    }

    /// A column of `rows` equal values.
    pub fn constant(dtype: DataType, value: &Value, rows: usize) -> Column {
        let mut out = Column::new(dtype);
        if let (ColumnData::I64(v), Value::BigInt(x) | Value::Timestamp(x) | Value::Date(x) | Value::Interval(x)) =
            (&mut out.data, value)
        {
            v.resize(rows, *x);
            return out;
        }
        for _ in 0..rows {
            out.push(value);
        }
        out
    }
}
