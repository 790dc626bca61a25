//! Comparisons, and the functions made of them.

use super::logic::{NONE, select};
use super::operand::{Done, Errors, Nulls, Operand, Texts, Vals, each, scale_of, zip};
use crate::expr::{Func, decimal};
use crate::types::{Column, DataType, compare_decimals, compare_doubles};
use std::cmp::Ordering;

type Typed<'t, 'o> = (&'t Operand<'o>, &'t DataType);

/// Whether an ordering is what the operator asks for.
#[inline]
fn holds(func: Func, ordering: Ordering) -> bool {
    match func {
        Func::Eq => ordering.is_eq(),
        Func::NotEq => ordering.is_ne(),
        Func::Lt => ordering.is_lt(),
        Func::LtEq => ordering.is_le(),
        Func::Gt => ordering.is_gt(),
        _ => ordering.is_ge(),
    }
}

pub fn compare(func: Func, a: Typed<'_, '_>, b: Typed<'_, '_>, nulls: Nulls, rows: usize) -> Done {
    let values = match (a.1, b.1) {
        (DataType::BigInt | DataType::Timestamp | DataType::Date | DataType::Interval, _) => {
            ordered(func, a.0.i64s(), b.0.i64s(), rows)
        }
        (DataType::Double, _) => doubles(func, a.0.f64s(), b.0.f64s(), rows),
        (DataType::Boolean, _) => ordered(func, a.0.bools(), b.0.bools(), rows),
        (DataType::Decimal { scale: s, .. }, DataType::Decimal { scale: t, .. }) => {
            let (x, y) = same_scale((a.0.i128s(), *s), (b.0.i128s(), *t));
            match (x, y) {
                (Some(x), Some(y)) => ordered(func, x, y, rows),
                _ => zip(a.0.i128s(), b.0.i128s(), rows, |x, y| holds(func, compare_decimals(x, *s, y, *t))),
            }
        }
        (DataType::Text, _) => texts(func, a.0.texts(), b.0.texts(), rows),
        _ => {
            let ordering = ordering(a, b);
            return each(rows, nulls, |row| Ok(Some(holds(func, ordering(row)))));
        }
    };
    Done::plain(values, nulls)
}

#[inline]
fn ordered<T: Copy + Ord>(func: Func, a: Vals<T>, b: Vals<T>, rows: usize) -> Vec<bool> {
    match func {
        Func::Eq => zip(a, b, rows, |x, y| x == y),
        Func::NotEq => zip(a, b, rows, |x, y| x != y),
        Func::Lt => zip(a, b, rows, |x, y| x < y),
        Func::LtEq => zip(a, b, rows, |x, y| x <= y),
        Func::Gt => zip(a, b, rows, |x, y| x > y),
        _ => zip(a, b, rows, |x, y| x >= y),
    }
}

fn doubles(func: Func, a: Vals<f64>, b: Vals<f64>, rows: usize) -> Vec<bool> {
    // The order of `compare_doubles` without branches.
    let eq = |x: f64, y: f64| (x == y) | (x.is_nan() & y.is_nan());
    let lt = |x: f64, y: f64| (x < y) | (!x.is_nan() & y.is_nan());
    match func {
        Func::Eq => zip(a, b, rows, eq),
        Func::NotEq => zip(a, b, rows, |x, y| !eq(x, y)),
        Func::Lt => zip(a, b, rows, lt),
        Func::LtEq => zip(a, b, rows, |x, y| !lt(y, x)),
        Func::Gt => zip(a, b, rows, |x, y| lt(y, x)),
        _ => zip(a, b, rows, |x, y| !lt(x, y)),
    }
}

/// Both at one scale, where a constant alone has to move up.
fn same_scale<'v>(
    (a, s): (Vals<'v, i128>, u8),
    (b, t): (Vals<'v, i128>, u8),
) -> (Option<Vals<'v, i128>>, Option<Vals<'v, i128>>) {
    let up = |v: i128, from: u8, to: u8| {
        let factor = decimal::pow10(u32::from(to.checked_sub(from)?))?;
        v.checked_mul(factor).map(Vals::One)
    };
    match (a, b) {
        _ if s == t => (Some(a), Some(b)),
        (Vals::One(v), _) if s < t => (up(v, s, t), Some(b)),
        (_, Vals::One(v)) if t < s => (Some(a), up(v, t, s)),
        _ => (None, None),
    }
}

fn texts(func: Func, a: Texts<'_>, b: Texts<'_>, rows: usize) -> Vec<bool> {
    match func {
        Func::Eq => (0..rows).map(|row| a.bytes(row) == b.bytes(row)).collect(),
        Func::NotEq => (0..rows).map(|row| a.bytes(row) != b.bytes(row)).collect(),
        _ => (0..rows).map(|row| holds(func, a.bytes(row).cmp(b.bytes(row)))).collect(),
    }
}

/// The order of the operands' values at a row where neither is NULL.
fn ordering<'f>((a, x): Typed<'f, '_>, (b, y): Typed<'f, '_>) -> Box<dyn Fn(usize) -> Ordering + 'f> {
    match x {
        DataType::BigInt | DataType::Timestamp | DataType::Date | DataType::Interval => {
            let (a, b) = (a.i64s(), b.i64s());
            Box::new(move |row| a.get(row).cmp(&b.get(row)))
        }
        DataType::Double => {
            let (a, b) = (a.f64s(), b.f64s());
            Box::new(move |row| compare_doubles(a.get(row), b.get(row)))
        }
        DataType::Boolean => {
            let (a, b) = (a.bools(), b.bools());
            Box::new(move |row| a.get(row).cmp(&b.get(row)))
        }
        DataType::Decimal { scale, .. } => {
            let (a, b, s, t) = (a.i128s(), b.i128s(), *scale, scale_of(y));
            Box::new(move |row| compare_decimals(a.get(row), s, b.get(row), t))
        }
        DataType::Text => {
            let (a, b) = (a.texts(), b.texts());
            Box::new(move |row| a.bytes(row).cmp(b.bytes(row)))
        }
        DataType::List(_) => Box::new(move |row| a.value(row).cmp(&b.value(row))),
    }
}

/// `IS NOT DISTINCT FROM`.
pub fn not_distinct(a: Typed<'_, '_>, b: Typed<'_, '_>, rows: usize) -> Done {
    let ordering = ordering(a, b);
    let same = |row: usize| match (a.0.is_null(row), b.0.is_null(row)) {
        (false, false) => ordering(row).is_eq(),
        (x, y) => x == y,
    };
    Done::plain((0..rows).map(same).collect::<Vec<bool>>(), None)
}

/// `nullif`.
pub fn null_if(a: Typed<'_, '_>, b: Typed<'_, '_>, dtype: &DataType, rows: usize) -> Done {
    let ordering = ordering(a, b);
    let equal = |row: usize| !a.0.is_null(row) && !b.0.is_null(row) && ordering(row).is_eq();
    let taken: Vec<u32> = (0..rows).map(|row| if equal(row) { NONE } else { 0 }).collect();
    done(select(dtype, &[a.0], &taken))
}

/// `greatest` and `least`: of equal values the first.
pub fn extreme(func: Func, operands: &[Operand<'_>], dtype: &DataType, rows: usize) -> Done {
    let wanted = if func == Func::Greatest { Ordering::Greater } else { Ordering::Less };
    let mut taken = vec![NONE; rows];
    for (index, operand) in operands.iter().enumerate() {
        // One comparison per earlier operand, made only if a row needs it.
        let orderings: Vec<_> =
            operands.iter().take(index).map(|before| ordering((operand, dtype), (before, dtype))).collect();
        for (row, best) in taken.iter_mut().enumerate() {
            let better = match orderings.get(*best as usize) {
                None => true,
                Some(ordering) => !operand.is_null(row) && ordering(row) == wanted,
            };
            if better && !operand.is_null(row) {
                *best = index as u32;
            }
        }
    }
    let operands: Vec<&Operand<'_>> = operands.iter().collect();
    done(select(dtype, &operands, &taken))
}

fn done(column: Column) -> Done {
    Done { data: column.data, nulls: column.nulls, errors: Errors::new() }
}
