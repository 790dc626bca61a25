//! Operands and results of kernels: columns or single values, typed access to them, loops over rows.

use crate::expr::convert::Message;
use crate::types::{Column, ColumnData, DataType, TextData, Value};
use std::borrow::Cow;

/// Failed rows in ascending order, each once.
pub type Errors = Vec<(u32, Message)>;
/// `true` marks a NULL; as long as the rows.
pub type Nulls = Option<Vec<bool>>;

/// A value per row, or one for all rows.
#[derive(Debug)]
pub enum Operand<'a> {
    /// As many values as there are rows.
    Rows(Cow<'a, Column>),
    /// The same for every row.
    One(Value),
}

/// An evaluated expression. Rows that failed are NULL in `operand`; a failed [`Operand::One`] fails on all rows.
#[derive(Debug)]
pub struct Outcome<'a> {
    pub operand: Operand<'a>,
    pub errors: Errors,
}

/// Values of a plain type.
#[derive(Clone, Copy, Debug)]
pub enum Vals<'a, T> {
    Rows(&'a [T]),
    One(T),
}

impl<T: Copy> Vals<'_, T> {
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "operands are as long as the batch, and kernels count its rows")]
    pub fn get(&self, row: usize) -> T {
        match self {
            Vals::Rows(v) => v[row],
            Vals::One(v) => *v,
        }
    }
}

/// Texts.
#[derive(Clone, Copy, Debug)]
pub enum Texts<'a> {
    Rows(&'a TextData),
    One(&'a str),
}

impl<'a> Texts<'a> {
    #[inline]
    pub fn get(&self, row: usize) -> &'a str {
        match self {
            Texts::Rows(v) => v.get(row),
            Texts::One(v) => v,
        }
    }
    #[inline]
    pub fn bytes(&self, row: usize) -> &'a [u8] {
        match self {
            Texts::Rows(v) => v.bytes(row),
            Texts::One(v) => v.as_bytes(),
        }
    }
}

static EMPTY: &str = "";

impl Operand<'_> {
    pub fn is_one(&self) -> bool {
        matches!(self, Operand::One(_))
    }
    pub fn is_null(&self, row: usize) -> bool {
        match self {
            Operand::Rows(c) => c.is_null(row),
            Operand::One(v) => v.is_null(),
        }
    }
    /// Marks of NULL rows, if they differ from row to row.
    pub fn nulls(&self) -> Option<&[bool]> {
        match self {
            Operand::Rows(c) => c.nulls.as_deref(),
            Operand::One(_) => None,
        }
    }
    /// Whether some row may be NULL.
    pub fn may_be_null(&self) -> bool {
        match self {
            Operand::Rows(c) => c.nulls.is_some(),
            Operand::One(v) => v.is_null(),
        }
    }
    pub fn value(&self, row: usize) -> Value {
        match self {
            Operand::Rows(c) => c.value(row),
            Operand::One(v) => v.clone(),
        }
    }
    // The accessors below give defaults for NULL, and for what no well-typed expression holds.
    pub fn bools(&self) -> Vals<'_, bool> {
        match self {
            Operand::Rows(c) => match &c.data {
                ColumnData::Boolean(v) => Vals::Rows(v),
                _ => Vals::One(false),
            },
            Operand::One(Value::Boolean(v)) => Vals::One(*v),
            Operand::One(_) => Vals::One(false),
        }
    }
    pub fn i64s(&self) -> Vals<'_, i64> {
        match self {
            Operand::Rows(c) => match &c.data {
                ColumnData::I64(v) => Vals::Rows(v),
                _ => Vals::One(0),
            },
            Operand::One(Value::BigInt(v) | Value::Timestamp(v) | Value::Date(v) | Value::Interval(v)) => Vals::One(*v),
            Operand::One(_) => Vals::One(0),
        }
    }
    pub fn f64s(&self) -> Vals<'_, f64> {
        match self {
            Operand::Rows(c) => match &c.data {
                ColumnData::F64(v) => Vals::Rows(v),
                _ => Vals::One(0.0),
            },
            Operand::One(Value::Double(v)) => Vals::One(*v),
            Operand::One(_) => Vals::One(0.0),
        }
    }
    pub fn i128s(&self) -> Vals<'_, i128> {
        match self {
            Operand::Rows(c) => match &c.data {
                ColumnData::I128(v) => Vals::Rows(v),
                _ => Vals::One(0),
            },
            Operand::One(Value::Decimal(v, _)) => Vals::One(*v),
            Operand::One(_) => Vals::One(0),
        }
    }
    pub fn texts(&self) -> Texts<'_> {
        match self {
            Operand::Rows(c) => match &c.data {
                ColumnData::Text(v) => Texts::Rows(v),
                _ => Texts::One(EMPTY),
            },
            Operand::One(Value::Text(v)) => Texts::One(v),
            Operand::One(_) => Texts::One(EMPTY),
        }
    }
}

/// Digits after the point of a type (0 unless DECIMAL).
pub fn scale_of(dtype: &DataType) -> u8 {
    if let DataType::Decimal { scale, .. } = dtype { *scale } else { 0 }
}

/// A type that columns store plainly.
pub trait Native: Copy + Default {
    fn data(values: Vec<Self>) -> ColumnData;
}
impl Native for bool {
    fn data(values: Vec<Self>) -> ColumnData {
        ColumnData::Boolean(values)
    }
}
impl Native for i64 {
    fn data(values: Vec<Self>) -> ColumnData {
        ColumnData::I64(values)
    }
}
impl Native for f64 {
    fn data(values: Vec<Self>) -> ColumnData {
        ColumnData::F64(values)
    }
}
impl Native for i128 {
    fn data(values: Vec<Self>) -> ColumnData {
        ColumnData::I128(values)
    }
}

/// What a kernel computed.
#[derive(Debug)]
pub struct Done {
    pub data: ColumnData,
    pub nulls: Nulls,
    pub errors: Errors,
}

impl Done {
    /// A result without failures; rows that are NULL are reset to the default that columns keep there.
    pub fn plain<R: Native>(mut values: Vec<R>, nulls: Nulls) -> Done {
        for (value, null) in values.iter_mut().zip(nulls.iter().flatten()) {
            if *null {
                *value = R::default();
            }
        }
        Done { data: R::data(values), nulls, errors: Errors::new() }
    }
}

/// `f` of every pair of values, NULL rows included.
#[inline]
pub fn zip<A: Copy, B: Copy, R>(a: Vals<A>, b: Vals<B>, rows: usize, mut f: impl FnMut(A, B) -> R) -> Vec<R> {
    match (a, b) {
        (Vals::Rows(a), Vals::Rows(b)) => a.iter().zip(b).map(|(x, y)| f(*x, *y)).collect(),
        (Vals::Rows(a), Vals::One(y)) => a.iter().map(|x| f(*x, y)).collect(),
        (Vals::One(x), Vals::Rows(b)) => b.iter().map(|y| f(x, *y)).collect(),
        (Vals::One(x), Vals::One(y)) => (0..rows).map(|_| f(x, y)).collect(),
    }
}

/// `f` of every row that is not NULL; `None` is NULL.
#[inline]
pub fn each<R: Native>(rows: usize, nulls: Nulls, mut f: impl FnMut(usize) -> Result<Option<R>, Message>) -> Done {
    let mut values = Vec::with_capacity(rows);
    let mut nulls = NullsBuilder { nulls, rows };
    let mut errors = Errors::new();
    for row in 0..rows {
        let mut value = R::default();
        if !nulls.is_null(row) {
            match f(row) {
                Ok(Some(v)) => value = v,
                Ok(None) => nulls.set(row),
                Err(message) => {
                    nulls.set(row);
                    errors.push((row as u32, message));
                }
            }
        }
        values.push(value);
    }
    Done { data: R::data(values), nulls: nulls.nulls, errors }
}

/// The most bytes that one text may have.
const MAX_TEXT: usize = 1 << 28;

/// As [`each`], for texts that `f` writes.
pub fn each_text(rows: usize, nulls: Nulls, mut f: impl FnMut(usize, &mut String) -> Result<(), Message>) -> Done {
    let mut values = TextData::default();
    let mut nulls = NullsBuilder { nulls, rows };
    let mut errors = Errors::new();
    let mut buffer = String::new();
    let mut total = 0usize;
    for row in 0..rows {
        buffer.clear();
        if !nulls.is_null(row) {
            let written = f(row, &mut buffer).and_then(|()| {
                total = total.saturating_add(buffer.len());
                if buffer.len() > MAX_TEXT || u32::try_from(total).is_err() { Err(too_long()) } else { Ok(()) }
            });
            if let Err(message) = written {
                buffer.clear();
                nulls.set(row);
                errors.push((row as u32, message));
            }
        }
        values.push(&buffer);
    }
    Done { data: ColumnData::Text(values), nulls: nulls.nulls, errors }
}

/// A text grew beyond [`MAX_TEXT`], or the texts of a batch beyond 4 GiB.
pub fn too_long() -> Message {
    Cow::Borrowed("text too long")
}

/// Whether a text of so many bytes is refused.
pub fn is_too_long(bytes: usize) -> bool {
    bytes > MAX_TEXT
}

/// Marks that appear when the first NULL does.
pub struct NullsBuilder {
    pub nulls: Nulls,
    pub rows: usize,
}

impl NullsBuilder {
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|n| n.get(row).copied().unwrap_or(false))
    }
    pub fn set(&mut self, row: usize) {
        let nulls = self.nulls.get_or_insert_with(|| vec![false; self.rows]);
        if let Some(null) = nulls.get_mut(row) {
            *null = true;
        }
    }
}

/// Rows that are NULL in any operand.
pub fn union_nulls(operands: &[Operand<'_>]) -> Nulls {
    let mut out: Nulls = None;
    for nulls in operands.iter().filter_map(Operand::nulls) {
        match &mut out {
            None => out = Some(nulls.to_vec()),
            Some(out) => out.iter_mut().zip(nulls).for_each(|(a, b)| *a |= *b),
        }
    }
    out
}

/// Failures of several operands: each row once, with what the first operand that fails says.
pub fn merge(lists: impl IntoIterator<Item = Errors>) -> Errors {
    let mut lists = lists.into_iter().filter(|e| !e.is_empty());
    let Some(mut out) = lists.next() else { return Errors::new() };
    for list in lists {
        // The sort is stable, so that of equal rows the earlier list's stays.
        out.extend(list);
        out.sort_by_key(|(row, _)| *row);
        out.dedup_by_key(|(row, _)| *row);
    }
    out
}
