//! One aggregate's states for all groups of a table: a vector of states, matched on once per batch and not per row.

use super::distinct::{Bytes, Distinct};
use super::fixed::{DecimalSum, IntSum};
use super::moments::Moments;
use super::ordered::{First, Last, Listed, Placed};
use super::sketch::{Cardinality, Quantiles, number, value_hash};
use super::state::{Add, Count, FloatSum, Greatest, GreatestText, Least, LeastText, State};
use super::{AggregateFunc, AggregateSpec, RecordOrder, avg_scale, scale_of};
use crate::types::{Column, ColumnData, DataType, TextData, Value, canonical_double};
use crate::wire::{Reader, Wire, WireError, Writer};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The states of one aggregate, by group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Accumulator {
    Count(Vec<Count>),
    Int(Vec<IntSum>),
    Decimal(Vec<DecimalSum>),
    Float(Vec<FloatSum>),
    LeastBool(Vec<Least<bool>>),
    LeastI64(Vec<Least<i64>>),
    LeastF64(Vec<Least<f64>>),
    LeastI128(Vec<Least<i128>>),
    LeastText(Vec<LeastText>),
    GreatestBool(Vec<Greatest<bool>>),
    GreatestI64(Vec<Greatest<i64>>),
    GreatestF64(Vec<Greatest<f64>>),
    GreatestI128(Vec<Greatest<i128>>),
    GreatestText(Vec<GreatestText>),
    Moments(Vec<Moments>),
    Listed(Vec<Listed>),
    First(Vec<First>),
    Last(Vec<Last>),
    Cardinality(Vec<Cardinality>),
    Quantiles(Vec<Quantiles>),
    DistinctWords(Distinct<u64>),
    DistinctBytes(Distinct<Bytes>),
}

/// Runs one expression on the vector of states of whatever variant, another on sets of distinct values.
macro_rules! each {
    ($self:expr, $states:ident => $body:expr, $set:ident => $on_set:expr) => {
        match $self {
            Accumulator::DistinctWords($set) => $on_set,
            Accumulator::DistinctBytes($set) => $on_set,
            Accumulator::Count($states) => $body,
            Accumulator::Int($states) => $body,
            Accumulator::Decimal($states) => $body,
            Accumulator::Float($states) => $body,
            Accumulator::LeastBool($states) => $body,
            Accumulator::LeastI64($states) => $body,
            Accumulator::LeastF64($states) => $body,
            Accumulator::LeastI128($states) => $body,
            Accumulator::LeastText($states) => $body,
            Accumulator::GreatestBool($states) => $body,
            Accumulator::GreatestI64($states) => $body,
            Accumulator::GreatestF64($states) => $body,
            Accumulator::GreatestI128($states) => $body,
            Accumulator::GreatestText($states) => $body,
            Accumulator::Moments($states) => $body,
            Accumulator::Listed($states) => $body,
            Accumulator::First($states) => $body,
            Accumulator::Last($states) => $body,
            Accumulator::Cardinality($states) => $body,
            Accumulator::Quantiles($states) => $body,
        }
    };
}

/// The rows of a batch that an aggregate takes, with their groups.
#[derive(Clone, Copy)]
pub(super) struct Batch<'a> {
    /// The group of each selected row.
    pub groups: &'a [u32],
    /// Row numbers.
    pub selected: &'a [u32],
    /// The argument.
    pub arg: Option<&'a Column>,
    /// Rows that count.
    pub filter: Option<&'a [bool]>,
    /// Present if the aggregate is ordered.
    pub order: Option<&'a [RecordOrder]>,
}

impl Batch<'_> {
    /// Calls `f(group, row)` for the rows that the filter passes and, if `skip_nulls`, whose argument is not NULL.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "rows are the caller's own")]
    fn each(&self, skip_nulls: bool, mut f: impl FnMut(usize, usize)) {
        let pairs = self.groups.iter().zip(self.selected).map(|(g, r)| (*g as usize, *r as usize));
        let nulls = self.arg.filter(|_| skip_nulls).and_then(|c| c.nulls.as_deref());
        match (self.filter, nulls) {
            (None, None) => pairs.for_each(|(g, r)| f(g, r)),
            (Some(keep), None) => pairs.filter(|(_, r)| keep[*r]).for_each(|(g, r)| f(g, r)),
            (None, Some(null)) => pairs.filter(|(_, r)| !null[*r]).for_each(|(g, r)| f(g, r)),
            (Some(keep), Some(null)) => pairs.filter(|(_, r)| keep[*r] & !null[*r]).for_each(|(g, r)| f(g, r)),
        }
    }

    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "groups are the table's own, rows the caller's")]
    fn add<X: Copy, S: Add<X>>(&self, states: &mut [S], values: &[X]) {
        self.each(true, |g, r| states[g].add(values[r]));
    }

    #[expect(clippy::indexing_slicing, reason = "groups are the table's own")]
    fn add_text<S: for<'a> Add<&'a str>>(&self, states: &mut [S], values: &TextData) {
        self.each(true, |g, r| states[g].add(values.get(r)));
    }

    /// Adds values with their places; NULLs are values.
    #[expect(clippy::indexing_slicing, reason = "groups are the table's own, rows the caller's")]
    fn add_placed<S: Add<Placed>>(&self, states: &mut [S]) {
        let (Some(column), Some(order)) = (self.arg, self.order) else {
            debug_assert!(false, "an ordered aggregate without the order of its rows");
            return;
        };
        self.each(false, |g, r| states[g].add((order[r], column.value(r))));
    }

    /// Adds values to sets and sketches.
    #[expect(clippy::indexing_slicing, reason = "groups are the table's own")]
    fn add_cells(&self, states: &mut Accumulator) {
        let Some(column) = self.arg else { return };
        let mut buffer = Vec::new();
        match states {
            Accumulator::DistinctWords(set) => self.each(true, |g, r| set.add(g as u32, column, r)),
            Accumulator::DistinctBytes(set) => self.each(true, |g, r| set.add(g as u32, column, r, &mut buffer)),
            Accumulator::Cardinality(s) => self.each(true, |g, r| s[g].add(value_hash(column, r, &mut buffer))),
            Accumulator::Quantiles(s) => {
                self.each(true, |g, r| number(column, r).into_iter().for_each(|x| s[g].add(x)))
            }
            _ => debug_assert!(false, "an argument of another type than the aggregate's"),
        }
    }
}

impl Accumulator {
    /// No groups yet. A spec whose output is an error counts rows.
    pub(super) fn new(spec: &AggregateSpec) -> Accumulator {
        use AggregateFunc as F;
        use DataType as T;
        let arg = spec.arg.as_ref().unwrap_or(&T::BigInt);
        match (spec.func, arg) {
            (F::Sum | F::Avg, T::Double) => Accumulator::Float(Vec::new()),
            (F::Sum | F::Avg, T::Decimal { .. }) => Accumulator::Decimal(Vec::new()),
            (F::Sum | F::Avg, _) => Accumulator::Int(Vec::new()),
            (F::Min | F::BoolAnd, T::Boolean) => Accumulator::LeastBool(Vec::new()),
            (F::Min, T::Double) => Accumulator::LeastF64(Vec::new()),
            (F::Min, T::Decimal { .. }) => Accumulator::LeastI128(Vec::new()),
            (F::Min, T::Text) => Accumulator::LeastText(Vec::new()),
            (F::Min, _) => Accumulator::LeastI64(Vec::new()),
            (F::Max | F::BoolOr, T::Boolean) => Accumulator::GreatestBool(Vec::new()),
            (F::Max, T::Double) => Accumulator::GreatestF64(Vec::new()),
            (F::Max, T::Decimal { .. }) => Accumulator::GreatestI128(Vec::new()),
            (F::Max, T::Text) => Accumulator::GreatestText(Vec::new()),
            (F::Max, _) => Accumulator::GreatestI64(Vec::new()),
            (F::VarSamp | F::VarPop | F::StddevSamp | F::StddevPop, _) => Accumulator::Moments(Vec::new()),
            (F::CountDistinct, T::Decimal { .. } | T::Text | T::List(_)) => {
                Accumulator::DistinctBytes(Distinct::default())
            }
            (F::CountDistinct, _) => Accumulator::DistinctWords(Distinct::default()),
            (F::ArrayAgg, _) => Accumulator::Listed(Vec::new()),
            (F::FirstValue, _) => Accumulator::First(Vec::new()),
            (F::LastValue, _) => Accumulator::Last(Vec::new()),
            (F::ApproxCountDistinct, _) => Accumulator::Cardinality(Vec::new()),
            (F::ApproxPercentile(_), _) => Accumulator::Quantiles(Vec::new()),
            (F::CountAll | F::Count | F::BoolAnd | F::BoolOr, _) => Accumulator::Count(Vec::new()),
        }
    }

    /// Whether the states are those of the aggregate (an accumulator that was read may be anything).
    pub(super) fn is_for(&self, spec: &AggregateSpec) -> bool {
        let values_fit = match (self, &spec.arg) {
            (Accumulator::Listed(s), Some(arg)) => s.iter().all(|x| x.is_of(arg)),
            (Accumulator::First(s), Some(arg)) => s.iter().all(|x| x.is_of(arg)),
            (Accumulator::Last(s), Some(arg)) => s.iter().all(|x| x.is_of(arg)),
            _ => true,
        };
        values_fit && std::mem::discriminant(self) == std::mem::discriminant(&Accumulator::new(spec))
    }

    /// Bytes that [`Self::put`] writes.
    pub(super) fn size(&self) -> usize {
        each!(self, states => Wire::size_all(states), set => set.size())
    }

    /// Appends the states, without their number and kind.
    pub(super) fn put(&self, out: &mut Writer) {
        each!(self, states => Wire::put_all(states, out), set => set.put(out));
    }

    /// Takes the states of so many groups.
    ///
    /// # Errors
    /// When the bytes are not states of the aggregate.
    pub(super) fn get(spec: &AggregateSpec, groups: usize, from: &mut Reader<'_>) -> Result<Accumulator, WireError> {
        let misfit = from.error("the values of an aggregate are not of its type");
        let mut out = Accumulator::new(spec);
        each!(&mut out, states => *states = Wire::get_all(groups, from)?, set => *set = Distinct::get(groups, from)?);
        if out.is_for(spec) { Ok(out) } else { Err(misfit) }
    }

    /// Number of groups.
    pub(super) fn len(&self) -> usize {
        each!(self, states => states.len(), set => set.len())
    }

    /// Adds empty states up to a number of groups.
    pub(super) fn grow(&mut self, groups: usize) {
        each!(self, states => states.resize_with(groups, Default::default), set => set.grow(groups));
    }

    /// Adds rows; every group is below [`Self::len`].
    #[expect(clippy::indexing_slicing, reason = "groups are the table's own")]
    pub(super) fn update(&mut self, batch: Batch<'_>) {
        use Accumulator as A;
        use ColumnData as D;
        match (self, batch.arg.map(|c| &c.data)) {
            (A::Count(s), _) => batch.each(true, |g, _| s[g].0 += 1),
            (A::Int(s), Some(D::I64(v))) => batch.add(s, v),
            (A::Decimal(s), Some(D::I128(v))) => batch.add(s, v),
            (A::Float(s), Some(D::F64(v))) => batch.add(s, v),
            (A::LeastBool(s), Some(D::Boolean(v))) => batch.add(s, v),
            (A::LeastI64(s), Some(D::I64(v))) => batch.add(s, v),
            (A::LeastF64(s), Some(D::F64(v))) => batch.add(s, v),
            (A::LeastI128(s), Some(D::I128(v))) => batch.add(s, v),
            (A::LeastText(s), Some(D::Text(v))) => batch.add_text(s, v),
            (A::GreatestBool(s), Some(D::Boolean(v))) => batch.add(s, v),
            (A::GreatestI64(s), Some(D::I64(v))) => batch.add(s, v),
            (A::GreatestF64(s), Some(D::F64(v))) => batch.add(s, v),
            (A::GreatestI128(s), Some(D::I128(v))) => batch.add(s, v),
            (A::GreatestText(s), Some(D::Text(v))) => batch.add_text(s, v),
            (A::Moments(s), Some(D::I64(v))) => batch.add(s, v),
            (A::Moments(s), Some(D::F64(v))) => batch.add(s, v),
            (A::Moments(s), Some(D::I128(v))) => batch.add(s, v),
            (A::Listed(s), Some(_)) => batch.add_placed(s),
            (A::First(s), Some(_)) => batch.add_placed(s),
            (A::Last(s), Some(_)) => batch.add_placed(s),
            (states, Some(_)) => batch.add_cells(states),
            _ => debug_assert!(false, "an argument of another type than the aggregate's"),
        }
    }

    /// Adds the states `from` of another accumulator of the same aggregate to the groups `to` of this one.
    pub(super) fn merge(&mut self, other: &Accumulator, from: &[u32], to: &[u32]) {
        use Accumulator as A;
        #[expect(clippy::indexing_slicing, reason = "groups are the tables' own")]
        fn merge<S: State>(a: &mut [S], b: &[S], from: &[u32], to: &[u32]) {
            from.iter().zip(to).for_each(|(f, t)| a[*t as usize].merge(&b[*f as usize]));
        }
        match (self, other) {
            (A::Count(a), A::Count(b)) => merge(a, b, from, to),
            (A::Int(a), A::Int(b)) => merge(a, b, from, to),
            (A::Decimal(a), A::Decimal(b)) => merge(a, b, from, to),
            (A::Float(a), A::Float(b)) => merge(a, b, from, to),
            (A::LeastBool(a), A::LeastBool(b)) => merge(a, b, from, to),
            (A::LeastI64(a), A::LeastI64(b)) => merge(a, b, from, to),
            (A::LeastF64(a), A::LeastF64(b)) => merge(a, b, from, to),
            (A::LeastI128(a), A::LeastI128(b)) => merge(a, b, from, to),
            (A::LeastText(a), A::LeastText(b)) => merge(a, b, from, to),
            (A::GreatestBool(a), A::GreatestBool(b)) => merge(a, b, from, to),
            (A::GreatestI64(a), A::GreatestI64(b)) => merge(a, b, from, to),
            (A::GreatestF64(a), A::GreatestF64(b)) => merge(a, b, from, to),
            (A::GreatestI128(a), A::GreatestI128(b)) => merge(a, b, from, to),
            (A::GreatestText(a), A::GreatestText(b)) => merge(a, b, from, to),
            (A::Moments(a), A::Moments(b)) => merge(a, b, from, to),
            (A::Listed(a), A::Listed(b)) => merge(a, b, from, to),
            (A::First(a), A::First(b)) => merge(a, b, from, to),
            (A::Last(a), A::Last(b)) => merge(a, b, from, to),
            (A::Cardinality(a), A::Cardinality(b)) => merge(a, b, from, to),
            (A::Quantiles(a), A::Quantiles(b)) => merge(a, b, from, to),
            (A::DistinctWords(a), A::DistinctWords(b)) => a.merge(b, from, to),
            (A::DistinctBytes(a), A::DistinctBytes(b)) => a.merge(b, from, to),
            _ => debug_assert!(false, "tables of different aggregates"),
        }
    }

    /// Estimated memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        fn bytes<S: State>(states: &Vec<S>) -> usize {
            let heap = if S::ON_HEAP { states.iter().map(State::heap).sum() } else { 0 };
            states.capacity() * size_of::<S>() + heap
        }
        each!(self, states => bytes(states), set => set.bytes())
    }

    /// The results by group; errors as (group, message).
    pub(super) fn lower(&self, spec: &AggregateSpec, errors: &mut Vec<(u32, String)>) -> Column {
        use Accumulator as A;
        let dtype = spec.output().unwrap_or(DataType::BigInt);
        let average = spec.func == AggregateFunc::Avg;
        let mut error = |group: usize, message: String| errors.push((group as u32, message));
        let data = match self {
            A::Count(s) => i64s(s.iter().map(|c| Some(c.0.min(i64::MAX as u64) as i64))),
            A::Int(s) if average && dtype == DataType::Double => f64s(s.iter().map(IntSum::mean)),
            A::Int(s) if average => i64s(s.iter().map(IntSum::mean_integer)),
            A::Int(s) => i64s(s.iter().enumerate().map(|(group, sum)| {
                let fits = i64::try_from(sum.total()).ok();
                if fits.is_none() {
                    error(group, format!("the sum {} does not fit {dtype}", sum.total()));
                }
                fits.filter(|_| sum.n > 0)
            })),
            A::Decimal(s) => i128s(s.iter().enumerate().map(|(group, sum)| {
                let result = if average { sum.mean(added_digits(spec)) } else { sum.total() };
                if result.is_none() {
                    let what = if average { "average" } else { "sum" };
                    error(group, format!("the {what} has more digits than {dtype} holds"));
                }
                result.filter(|_| sum.n > 0)
            })),
            A::Float(s) if average => f64s(s.iter().map(|f| (f.n > 0).then(|| f.sum.mean(f.n)))),
            A::Float(s) => f64s(s.iter().map(|f| (f.n > 0).then(|| f.sum.to_f64()))),
            A::LeastBool(s) => booleans(s.iter().map(|x| x.0)),
            A::LeastI64(s) => i64s(s.iter().map(|x| x.0)),
            A::LeastF64(s) => f64s(s.iter().map(|x| x.0)),
            A::LeastI128(s) => i128s(s.iter().map(|x| x.0)),
            A::LeastText(s) => texts(s.iter().map(|x| x.0.as_deref())),
            A::GreatestBool(s) => booleans(s.iter().map(|x| x.0)),
            A::GreatestI64(s) => i64s(s.iter().map(|x| x.0)),
            A::GreatestF64(s) => f64s(s.iter().map(|x| x.0)),
            A::GreatestI128(s) => i128s(s.iter().map(|x| x.0)),
            A::GreatestText(s) => texts(s.iter().map(|x| x.0.as_deref())),
            A::Moments(s) => f64s(s.iter().map(|m| m.lower(spec.func, spec.arg.as_ref().map_or(0, scale_of)))),
            A::DistinctWords(set) => i64s(set.counts().iter().map(|n| Some(*n as i64))),
            A::DistinctBytes(set) => i64s(set.counts().iter().map(|n| Some(*n as i64))),
            A::Cardinality(s) => i64s(s.iter().map(|c| Some(c.lower()))),
            A::Quantiles(s) => f64s(s.iter().map(|c| c.lower(fraction(spec)))),
            A::Listed(s) => lists(s.iter().map(Listed::lower)),
            A::First(s) => return values(dtype, s.iter().map(|x| x.0.as_ref())),
            A::Last(s) => return values(dtype, s.iter().map(|x| x.0.as_ref())),
        };
        let (data, nulls) = data;
        Column { dtype, data, nulls }
    }

    /// Deals the groups out: group `g` goes to part `routes[g]`, in order.
    pub(super) fn split(self, routes: &[u32], parts: usize) -> Vec<Accumulator> {
        fn split<S>(states: Vec<S>, routes: &[u32], parts: usize, wrap: fn(Vec<S>) -> Accumulator) -> Vec<Accumulator> {
            let mut out: Vec<Vec<S>> = (0..parts).map(|_| Vec::new()).collect();
            for (state, route) in states.into_iter().zip(routes) {
                if let Some(part) = out.get_mut(*route as usize) {
                    part.push(state);
                }
            }
            out.into_iter().map(wrap).collect()
        }
        use Accumulator as A;
        match self {
            A::Count(s) => split(s, routes, parts, A::Count),
            A::Int(s) => split(s, routes, parts, A::Int),
            A::Decimal(s) => split(s, routes, parts, A::Decimal),
            A::Float(s) => split(s, routes, parts, A::Float),
            A::LeastBool(s) => split(s, routes, parts, A::LeastBool),
            A::LeastI64(s) => split(s, routes, parts, A::LeastI64),
            A::LeastF64(s) => split(s, routes, parts, A::LeastF64),
            A::LeastI128(s) => split(s, routes, parts, A::LeastI128),
            A::LeastText(s) => split(s, routes, parts, A::LeastText),
            A::GreatestBool(s) => split(s, routes, parts, A::GreatestBool),
            A::GreatestI64(s) => split(s, routes, parts, A::GreatestI64),
            A::GreatestF64(s) => split(s, routes, parts, A::GreatestF64),
            A::GreatestI128(s) => split(s, routes, parts, A::GreatestI128),
            A::GreatestText(s) => split(s, routes, parts, A::GreatestText),
            A::Moments(s) => split(s, routes, parts, A::Moments),
            A::Listed(s) => split(s, routes, parts, A::Listed),
            A::First(s) => split(s, routes, parts, A::First),
            A::Last(s) => split(s, routes, parts, A::Last),
            A::Cardinality(s) => split(s, routes, parts, A::Cardinality),
            A::Quantiles(s) => split(s, routes, parts, A::Quantiles),
            A::DistinctWords(set) => set.split(routes, parts).into_iter().map(A::DistinctWords).collect(),
            A::DistinctBytes(set) => set.split(routes, parts).into_iter().map(A::DistinctBytes).collect(),
        }
    }
}

/// The fraction of a percentile.
fn fraction(spec: &AggregateSpec) -> f64 {
    if let AggregateFunc::ApproxPercentile(q) = spec.func { q } else { 0.5 }
}

/// Digits that an average of decimals has more than its argument.
fn added_digits(spec: &AggregateSpec) -> u32 {
    let scale = spec.arg.as_ref().map_or(0, scale_of);
    u32::from(avg_scale(scale) - scale)
}

type Data = (ColumnData, Option<Vec<bool>>);

fn optional<T: Default>(values: impl Iterator<Item = Option<T>>) -> (Vec<T>, Option<Vec<bool>>) {
    let mut any = false;
    let (values, nulls) = values
        .map(|v| {
            let null = v.is_none();
            any |= null;
            (v.unwrap_or_default(), null)
        })
        .unzip();
    (values, Some(nulls).filter(|_| any))
}

fn i64s(values: impl Iterator<Item = Option<i64>>) -> Data {
    let (values, nulls) = optional(values);
    (ColumnData::I64(values), nulls)
}
fn i128s(values: impl Iterator<Item = Option<i128>>) -> Data {
    let (values, nulls) = optional(values);
    (ColumnData::I128(values), nulls)
}
fn f64s(values: impl Iterator<Item = Option<f64>>) -> Data {
    // One representation of equal doubles, whichever came first.
    let (values, nulls) = optional(values.map(|v| v.map(canonical_double)));
    (ColumnData::F64(values), nulls)
}
fn booleans(values: impl Iterator<Item = Option<bool>>) -> Data {
    let (values, nulls) = optional(values);
    (ColumnData::Boolean(values), nulls)
}
fn texts<'a>(values: impl Iterator<Item = Option<&'a str>>) -> Data {
    let (values, nulls) = optional(values);
    (ColumnData::Text(values.into_iter().collect()), nulls)
}
fn lists(values: impl Iterator<Item = Option<Arc<[Value]>>>) -> Data {
    let mut nulls = Vec::new();
    let values = values
        .map(|v| {
            nulls.push(v.is_none());
            v.unwrap_or_else(|| Arc::from([]))
        })
        .collect();
    let any = nulls.contains(&true);
    (ColumnData::List(values), Some(nulls).filter(|_| any))
}
fn values<'a>(dtype: DataType, values: impl Iterator<Item = Option<&'a Placed>>) -> Column {
    let mut out = Column::new(dtype);
    values.for_each(|v| out.push(v.map_or(&Value::Null, |(_, value)| value)));
    out
}
