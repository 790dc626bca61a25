//! `+ - * / %`.

use super::no_such_call;
use super::operand::{Done, Native, Nulls, Operand, Vals, each, scale_of, zip};
use crate::expr::convert::{Message, date_in_range, double_to_bigint, out_of_range};
use crate::expr::{Func, decimal};
use crate::types::DataType;
use std::borrow::Cow;

fn division_by_zero() -> Message {
    Cow::Borrowed("division by zero")
}

/// Types of the operands and of the result.
#[derive(Clone, Copy)]
pub struct Types<'t> {
    pub a: &'t DataType,
    pub b: &'t DataType,
    pub out: &'t DataType,
}

pub fn arithmetic(
    func: Func,
    (a, b): (&Operand<'_>, &Operand<'_>),
    types: Types<'_>,
    nulls: Nulls,
    rows: usize,
    lenient: bool,
) -> Done {
    use DataType::{BigInt, Date, Decimal, Double, Interval, Timestamp};
    match (types.a, types.b, types.out) {
        (Double, Double, _) => doubles(func, a.f64s(), b.f64s(), nulls, rows, lenient),
        (Decimal { .. }, Decimal { .. }, _) => decimals(func, (a.i128s(), b.i128s()), types, nulls, rows, lenient),
        (Interval, Double, _) => scaled(func, a.i64s(), b.f64s(), nulls, rows, lenient),
        (Date, BigInt, Date) => days(func, a.i64s(), b.i64s(), nulls, rows),
        (BigInt | Timestamp | Interval | Date, BigInt | Timestamp | Interval | Date, out) => {
            whole(func, (a.i64s(), b.i64s()), out, nulls, rows, lenient)
        }
        (_, _, out) => no_such_call(rows, out),
    }
}

/// 64-bit integers of any meaning.
fn whole(
    func: Func,
    (a, b): (Vals<i64>, Vals<i64>),
    dtype: &DataType,
    nulls: Nulls,
    rows: usize,
    lenient: bool,
) -> Done {
    let checked = |nulls, f: fn(i64, i64) -> Option<i64>| {
        each(rows, nulls, |row| f(a.get(row), b.get(row)).map(Some).ok_or_else(|| out_of_range(dtype)))
    };
    // The fast loop notes whether anything overflowed; then the slow one finds out which rows did.
    let fast = |f: fn(i64, i64) -> (i64, bool)| {
        let mut any = false;
        let values = zip(a, b, rows, |x, y| {
            let (v, overflow) = f(x, y);
            any |= overflow;
            v
        });
        (!any).then_some(values)
    };
    let plain = match func {
        Func::Add => overflowing(a, b, rows, i64::overflowing_add),
        Func::Sub => overflowing(a, b, rows, i64::overflowing_sub),
        Func::Mul => overflowing(a, b, rows, i64::overflowing_mul),
        Func::Div => fast(|x, y| if y == 0 { (0, true) } else { x.overflowing_div(y) }),
        _ => fast(|x, y| if y == 0 { (0, true) } else { (x.wrapping_rem(y), false) }),
    };
    if let Some(values) = plain {
        return Done::plain(values, nulls);
    }
    match func {
        Func::Add => checked(nulls, i64::checked_add),
        Func::Sub => checked(nulls, i64::checked_sub),
        Func::Mul => checked(nulls, i64::checked_mul),
        _ => each(rows, nulls, |row| {
            let (x, y) = (a.get(row), b.get(row));
            if y == 0 {
                return by_zero(lenient);
            }
            let v = if func == Func::Div { x.checked_div(y) } else { Some(x.wrapping_rem(y)) };
            v.map(Some).ok_or_else(|| out_of_range(dtype))
        }),
    }
}

/// All results, or `None` if one overflowed.
#[inline]
fn overflowing(
    a: Vals<i64>,
    b: Vals<i64>,
    rows: usize,
    f: impl Fn(i64, i64) -> (i64, bool) + Copy,
) -> Option<Vec<i64>> {
    let mut any = false;
    let values = zip(a, b, rows, |x, y| {
        let (v, overflow) = f(x, y);
        any |= overflow;
        v
    });
    (!any).then_some(values)
}

fn by_zero<R: Native>(lenient: bool) -> Result<Option<R>, Message> {
    if lenient { Ok(None) } else { Err(division_by_zero()) }
}

fn doubles(func: Func, a: Vals<f64>, b: Vals<f64>, nulls: Nulls, rows: usize, lenient: bool) -> Done {
    match func {
        Func::Add => doubles_by(a, b, nulls, rows, |x, y| x + y),
        Func::Sub => doubles_by(a, b, nulls, rows, |x, y| x - y),
        Func::Mul => doubles_by(a, b, nulls, rows, |x, y| x * y),
        _ => each(rows, nulls, |row| {
            let (x, y) = (a.get(row), b.get(row));
            if y == 0.0 {
                by_zero(lenient)
            } else {
                // The remainder of doubles is exact, hence the same everywhere.
                finite((x, y), if func == Func::Div { x / y } else { x % y }).map(Some)
            }
        }),
    }
}

/// The result of finite operands must be finite.
fn finite((x, y): (f64, f64), v: f64) -> Result<f64, Message> {
    if v.is_infinite() && x.is_finite() && y.is_finite() { Err(out_of_range(&DataType::Double)) } else { Ok(v) }
}

#[inline]
fn doubles_by(a: Vals<f64>, b: Vals<f64>, nulls: Nulls, rows: usize, f: impl Fn(f64, f64) -> f64 + Copy) -> Done {
    let mut any = false;
    let values = zip(a, b, rows, |x, y| {
        let v = f(x, y);
        any |= v.is_infinite();
        v
    });
    if any {
        return each(rows, nulls, |row| {
            let (x, y) = (a.get(row), b.get(row));
            finite((x, y), f(x, y)).map(Some)
        });
    }
    Done::plain(values, nulls)
}

fn decimals(
    func: Func,
    (a, b): (Vals<i128>, Vals<i128>),
    types: Types<'_>,
    nulls: Nulls,
    rows: usize,
    lenient: bool,
) -> Done {
    let (s, t, scale) = (scale_of(types.a), scale_of(types.b), scale_of(types.out));
    each(rows, nulls, |row| {
        let (x, y) = (a.get(row), b.get(row));
        let v = match func {
            Func::Add => decimal::add(x, s, y, t, scale),
            Func::Sub => decimal::add(x, s, -y, t, scale),
            Func::Mul => decimal::mul(x, s, y, t, scale),
            _ if y == 0 => return by_zero(lenient),
            Func::Div => decimal::div(x, s, y, t, scale),
            _ => decimal::rem(x, s, y, t, scale),
        };
        v.map(Some).ok_or_else(|| out_of_range(types.out))
    })
}

/// INTERVAL by DOUBLE.
fn scaled(func: Func, a: Vals<i64>, b: Vals<f64>, nulls: Nulls, rows: usize, lenient: bool) -> Done {
    each(rows, nulls, |row| {
        let (x, y) = (a.get(row) as f64, b.get(row));
        let v = match func {
            Func::Mul => x * y,
            _ if y == 0.0 => return by_zero(lenient),
            _ => x / y,
        };
        double_to_bigint(v).map(Some).map_err(|_| out_of_range(&DataType::Interval))
    })
}

/// DATE ± days.
fn days(func: Func, a: Vals<i64>, b: Vals<i64>, nulls: Nulls, rows: usize) -> Done {
    each(rows, nulls, |row| {
        let (x, y) = (a.get(row), b.get(row));
        let v = if func == Func::Add { x.checked_add(y) } else { x.checked_sub(y) };
        v.and_then(date_in_range).map(Some).ok_or_else(|| out_of_range(&DataType::Date))
    })
}
