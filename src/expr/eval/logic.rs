//! Three-valued logic and the choosing forms: AND, OR, IS NULL, CASE, COALESCE.

use super::operand::{Done, Errors, Native, Operand, Outcome, Vals, merge, zip};
use super::{Context, marks};
use crate::expr::Expr;
use crate::types::{Column, ColumnData, DataType, TextData, Value};
use std::borrow::{Borrow, Cow};

/// In a list of branches taken: none, so the row is NULL.
pub const NONE: u32 = u32::MAX;
/// In a list of branches taken: undecided so far.
const OPEN: u32 = u32::MAX - 1;

/// `a AND b` (`and`) or `a OR b`. FALSE decides an AND, TRUE an OR.
pub fn and_or<'a>(context: Context<'_, 'a>, a: &Expr, b: &Expr, and: bool) -> Outcome<'a> {
    let rows = context.rows;
    let decides = |v: bool| v != and;
    let left = context.eval(a);
    let l = left.operand.bools();
    match l {
        Vals::One(v) if !left.operand.may_be_null() => {
            return if decides(v) { left } else { context.eval(b) };
        }
        Vals::Rows(v) if !left.operand.may_be_null() && v.iter().all(|v| decides(*v)) => return left,
        _ => {}
    }
    let decided = |row: usize| !left.operand.is_null(row) && decides(l.get(row));
    let right = context.eval_where(b, |row| !decided(row));
    let r = right.operand.bools();
    let mut nulls = marks(rows);
    let values = if !left.operand.may_be_null() && !right.operand.may_be_null() {
        if and { zip(l, r, rows, |x, y| x & y) } else { zip(l, r, rows, |x, y| x | y) }
    } else {
        let state = |operand: &Operand<'_>, vals: Vals<'_, bool>, row| (!operand.is_null(row)).then(|| vals.get(row));
        (0..rows)
            .map(|row| match (state(&left.operand, l, row), state(&right.operand, r, row)) {
                (Some(v), _) | (_, Some(v)) if decides(v) => v,
                (Some(_), Some(v)) => v,
                _ => {
                    nulls.set(row);
                    false
                }
            })
            .collect()
    };
    // NULL AND FALSE is FALSE, but a failure on the left stays one.
    let mut values = values;
    for (row, _) in &left.errors {
        nulls.set(*row as usize);
        if let Some(v) = values.get_mut(*row as usize) {
            *v = false;
        }
    }
    let on_right: Errors = right.errors.into_iter().filter(|(row, _)| !decided(*row as usize)).collect();
    let column = Column { dtype: DataType::Boolean, data: bool::data(values), nulls: nulls.nulls };
    let errors = merge([left.errors, on_right]);
    Outcome { operand: Operand::Rows(Cow::Owned(column)), errors }
}

pub fn is_null<'a>(context: Context<'_, 'a>, a: &Expr) -> Outcome<'a> {
    let Outcome { operand, errors } = context.eval(a);
    let column = match &operand {
        Operand::One(_) if !errors.is_empty() => return Outcome { operand: Operand::One(Value::Null), errors },
        Operand::One(value) => return Outcome { operand: Operand::One(Value::Boolean(value.is_null())), errors },
        Operand::Rows(column) => column,
    };
    let values = column.nulls.clone().unwrap_or_else(|| vec![false; context.rows]);
    let mut nulls = marks(context.rows);
    for (row, _) in &errors {
        nulls.set(*row as usize);
    }
    let Done { data, nulls, .. } = Done::plain(values, nulls.nulls);
    Outcome { operand: Operand::Rows(Cow::Owned(Column { dtype: DataType::Boolean, data, nulls })), errors }
}

pub fn case<'a>(
    context: Context<'_, 'a>,
    whens: &[(Expr, Expr)],
    otherwise: Option<&Expr>,
    dtype: &DataType,
) -> Outcome<'a> {
    let mut choice = Choice::new(context.rows);
    for (index, (condition, _)) in whens.iter().enumerate() {
        if choice.open == 0 {
            break;
        }
        let outcome = context.eval_where(condition, |row| choice.is_at(row, OPEN));
        choice.fail(outcome.errors, OPEN);
        let holds = outcome.operand.bools();
        choice.take(index as u32, |row| holds.get(row) && !outcome.operand.is_null(row));
    }
    if otherwise.is_some() {
        choice.take(whens.len() as u32, |_| true);
    }
    let values = whens.iter().map(|(_, value)| value).chain(otherwise);
    let branches = values
        .enumerate()
        .map(|(index, value)| {
            if !choice.taken.contains(&(index as u32)) {
                return Operand::One(Value::Null);
            }
            let outcome = context.eval_where(value, |row| choice.is_at(row, index as u32));
            choice.fail(outcome.errors, index as u32);
            outcome.operand
        })
        .collect::<Vec<_>>();
    choice.finish(dtype, &branches)
}

pub fn coalesce<'a>(context: Context<'_, 'a>, args: &[Expr], dtype: &DataType) -> Outcome<'a> {
    let mut choice = Choice::new(context.rows);
    let mut branches = Vec::with_capacity(args.len());
    for (index, arg) in args.iter().enumerate() {
        if choice.open == 0 {
            break;
        }
        let outcome = context.eval_where(arg, |row| choice.is_at(row, OPEN));
        if index == 0 && !outcome.operand.may_be_null() {
            return outcome;
        }
        choice.fail(outcome.errors, OPEN);
        choice.take(index as u32, |row| !outcome.operand.is_null(row));
        branches.push(outcome.operand);
    }
    choice.finish(dtype, &branches)
}

/// Which branch each row takes.
struct Choice {
    taken: Vec<u32>,
    open: usize,
    errors: Errors,
}

impl Choice {
    fn new(rows: usize) -> Self {
        Choice { taken: vec![OPEN; rows], open: rows, errors: Errors::new() }
    }
    fn is_at(&self, row: usize, branch: u32) -> bool {
        self.taken.get(row) == Some(&branch)
    }
    /// Open rows for which `f` holds take the branch.
    fn take(&mut self, branch: u32, f: impl Fn(usize) -> bool) {
        for (row, taken) in self.taken.iter_mut().enumerate() {
            if *taken == OPEN && f(row) {
                *taken = branch;
                self.open -= 1;
            }
        }
    }
    /// Rows that stand at `branch` fail; failures of others do not matter.
    fn fail(&mut self, errors: Errors, branch: u32) {
        for (row, why) in errors {
            if let Some(taken) = self.taken.get_mut(row as usize).filter(|t| **t == branch) {
                *taken = NONE;
                self.open -= usize::from(branch == OPEN);
                self.errors.push((row, why));
            }
        }
    }
    fn finish<'a>(mut self, dtype: &DataType, branches: &[Operand<'_>]) -> Outcome<'a> {
        self.errors.sort_by_key(|(row, _)| *row);
        let column = select(dtype, branches, &self.taken);
        Outcome { operand: Operand::Rows(Cow::Owned(column)), errors: self.errors }
    }
}

/// The column whose row `i` is row `i` of the branch taken there; rows that take none are NULL.
pub fn select<'o, O: Borrow<Operand<'o>>>(dtype: &DataType, branches: &[O], taken: &[u32]) -> Column {
    let mut nulls = marks(taken.len());
    let mut value_at = |row: usize, branch: u32| {
        let found = branches.get(branch as usize).map(Borrow::borrow).filter(|b: &&Operand<'o>| !b.is_null(row));
        if found.is_none() {
            nulls.set(row);
        }
        found.map(|_| branch as usize)
    };
    let data = match dtype {
        DataType::Boolean => pick(branches, taken, &mut value_at, |o| o.bools()),
        DataType::BigInt | DataType::Timestamp | DataType::Date | DataType::Interval => {
            pick(branches, taken, &mut value_at, |o| o.i64s())
        }
        DataType::Double => pick(branches, taken, &mut value_at, |o| o.f64s()),
        DataType::Decimal { .. } => pick(branches, taken, &mut value_at, |o| o.i128s()),
        DataType::Text => {
            let texts: Vec<_> = branches.iter().map(|b| b.borrow().texts()).collect();
            let mut out = TextData::default();
            for (row, branch) in taken.iter().enumerate() {
                let text = value_at(row, *branch).and_then(|b| texts.get(b)).map_or("", |t| t.get(row));
                out.push(text);
            }
            ColumnData::Text(out)
        }
        DataType::List(_) => {
            let list = |(row, branch): (usize, &u32)| match value_at(row, *branch)
                .and_then(|b| branches.get(b))
                .map(|b| b.borrow().value(row))
            {
                Some(Value::List(items)) => items,
                _ => [].into(),
            };
            ColumnData::List(taken.iter().enumerate().map(list).collect())
        }
    };
    Column { dtype: dtype.clone(), data, nulls: nulls.nulls }
}

fn pick<'b, 'o: 'b, T: Native + 'b, O: Borrow<Operand<'o>>>(
    branches: &'b [O],
    taken: &[u32],
    value_at: &mut impl FnMut(usize, u32) -> Option<usize>,
    vals: impl Fn(&'b Operand<'o>) -> Vals<'b, T>,
) -> ColumnData {
    let vals: Vec<Vals<'b, T>> = branches.iter().map(|b| vals(b.borrow())).collect();
    let value = |(row, branch): (usize, &u32)| {
        value_at(row, *branch).and_then(|b| vals.get(b)).map_or_else(T::default, |v| v.get(row))
    };
    T::data(taken.iter().enumerate().map(value).collect())
}
