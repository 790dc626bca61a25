//! Functions of numbers.

use super::no_such_call;
use super::operand::{Done, Nulls, Operand, Vals, each, scale_of, zip};
use crate::expr::convert::{Message, out_of_range};
use crate::expr::decimal::{self, Direction};
use crate::expr::{Expr, Func};
use crate::types::DataType;
use std::borrow::Cow;

/// `-a`, `abs`, `sign`, `round(a)`, `floor`, `ceil`, `trunc`.
pub fn number(func: Func, a: &Operand<'_>, from: &DataType, to: &DataType, nulls: Nulls, rows: usize) -> Done {
    match from {
        DataType::BigInt | DataType::Interval => {
            let a = a.i64s();
            each(rows, nulls, |row| {
                let v = a.get(row);
                let out = match func {
                    Func::Neg => v.checked_neg(),
                    Func::Abs => v.checked_abs(),
                    Func::Sign => Some(v.signum()),
                    _ => Some(v),
                };
                out.map(Some).ok_or_else(|| out_of_range(to))
            })
        }
        DataType::Double => {
            let f: fn(f64) -> f64 = match func {
                Func::Neg => |v| -v,
                Func::Abs => f64::abs,
                Func::Sign => |v| if v.is_nan() || v == 0.0 { v } else { v.signum() },
                Func::Round => f64::round_ties_even,
                Func::Floor => f64::floor,
                Func::Ceil => f64::ceil,
                _ => f64::trunc,
            };
            Done::plain(zip(a.f64s(), Vals::One(()), rows, |v, ()| f(v)), nulls)
        }
        DataType::Decimal { scale, .. } => {
            let a = a.i128s();
            each(rows, nulls, |row| {
                let v = a.get(row);
                let out = match func {
                    Func::Neg => v.checked_neg(),
                    Func::Abs => v.checked_abs(),
                    Func::Sign => Some(v.signum()),
                    Func::Round => decimal::rescale(v, *scale, 0),
                    Func::Floor => Some(decimal::whole(v, *scale, Direction::Floor)),
                    Func::Ceil => Some(decimal::whole(v, *scale, Direction::Ceil)),
                    _ => Some(decimal::whole(v, *scale, Direction::Trunc)),
                };
                out.map(Some).ok_or_else(|| out_of_range(to))
            })
        }
        _ => no_such_call(rows, to),
    }
}

/// `round(a, places)` of BIGINT and DECIMAL.
pub fn round_places(operands: &[Operand<'_>], args: &[Expr], to: &DataType, nulls: Nulls, rows: usize) -> Done {
    let ([a, places], [x, _]) = (operands, args) else { return no_such_call(rows, to) };
    let places = places.i64s();
    match &x.dtype {
        DataType::BigInt => {
            let a = a.i64s();
            each(rows, nulls, |row| {
                let v = decimal::round_places(i128::from(a.get(row)), 0, places.get(row));
                v.and_then(|v| i64::try_from(v).ok()).map(Some).ok_or_else(|| out_of_range(to))
            })
        }
        DataType::Decimal { scale, .. } => {
            let a = a.i128s();
            each(rows, nulls, |row| {
                let v = decimal::round_places(a.get(row), *scale, places.get(row));
                // Exact: the digits dropped are zeros.
                v.and_then(|v| decimal::rescale(v, *scale, scale_of(to))).map(Some).ok_or_else(|| out_of_range(to))
            })
        }
        _ => no_such_call(rows, to),
    }
}

/// `sqrt`, `power`, `exp`, `ln`, `log10` on doubles.
pub fn double(func: Func, operands: &[Operand<'_>], nulls: Nulls, rows: usize) -> Done {
    match operands {
        [a] => {
            let a = a.f64s();
            each(rows, nulls, |row| one(func, a.get(row)).map(Some))
        }
        [a, b] => {
            let (a, b) = (a.f64s(), b.f64s());
            each(rows, nulls, |row| power(a.get(row), b.get(row)).map(Some))
        }
        _ => no_such_call(rows, &DataType::Double),
    }
}

fn one(func: Func, x: f64) -> Result<f64, Message> {
    match func {
        Func::Sqrt if x < 0.0 => Err(Cow::Borrowed("square root of a negative number")),
        Func::Sqrt => Ok(libm::sqrt(x)),
        Func::Exp => {
            let v = libm::exp(x);
            if v.is_infinite() && x.is_finite() { Err(out_of_range(&DataType::Double)) } else { Ok(v) }
        }
        _ if x == 0.0 => Err(Cow::Borrowed("logarithm of zero")),
        _ if x < 0.0 => Err(Cow::Borrowed("logarithm of a negative number")),
        Func::Ln => Ok(libm::log(x)),
        _ => Ok(libm::log10(x)),
    }
}

fn power(x: f64, y: f64) -> Result<f64, Message> {
    if x == 0.0 && y < 0.0 {
        return Err(Cow::Borrowed("zero raised to a negative power"));
    }
    if x < 0.0 && y.is_finite() && y.fract() != 0.0 {
        return Err(Cow::Borrowed("negative number raised to a fraction"));
    }
    let v = libm::pow(x, y);
    if v.is_infinite() && x.is_finite() && y.is_finite() { Err(out_of_range(&DataType::Double)) } else { Ok(v) }
}
