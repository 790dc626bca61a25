//! Functions and operators on single values.

use super::big::{Big, Rounding};
use super::cast::at_scale;
use super::texts::{self, text_call};
use super::times::{bin, field, truncate};
use crate::expr::Func;
use crate::types::{DataType, Value};
use std::cmp::Ordering;

/// What a division by zero says; after the aggregation it is NULL instead.
pub const DIVISION_BY_ZERO: &str = "division by zero";

/// Days from 1970 whose midnight is a TIMESTAMP.
const DAYS_MAX: i64 = i64::MAX / 86_400_000_000;

/// Applies `func` to values; `dtype` is the type of the result.
///
/// # Errors
/// What failed (lower case, no full stop).
pub fn call(func: Func, args: &[Value], dtype: &DataType) -> Result<Value, String> {
    use Func as F;
    match (func, args) {
        (F::NotDistinct, [a, b]) => return Ok(Value::Boolean(a == b)),
        (F::NullIf, [a, b]) => return Ok(if !a.is_null() && a == b { Value::Null } else { a.clone() }),
        (F::Greatest, _) => return Ok(args.iter().filter(|v| !v.is_null()).max().cloned().unwrap_or(Value::Null)),
        (F::Least, _) => return Ok(args.iter().filter(|v| !v.is_null()).min().cloned().unwrap_or(Value::Null)),
        _ if args.iter().any(Value::is_null) => return Ok(Value::Null),
        _ => {}
    }
    match (func, args) {
        (F::Add | F::Sub | F::Mul | F::Div | F::Mod, [a, b]) => arithmetic(func, a, b, dtype),
        (F::Eq, [a, b]) => Ok(Value::Boolean(a.cmp(b) == Ordering::Equal)),
        (F::NotEq, [a, b]) => Ok(Value::Boolean(a.cmp(b) != Ordering::Equal)),
        (F::Lt, [a, b]) => Ok(Value::Boolean(a.cmp(b) == Ordering::Less)),
        (F::LtEq, [a, b]) => Ok(Value::Boolean(a.cmp(b) != Ordering::Greater)),
        (F::Gt, [a, b]) => Ok(Value::Boolean(a.cmp(b) == Ordering::Greater)),
        (F::GtEq, [a, b]) => Ok(Value::Boolean(a.cmp(b) != Ordering::Less)),
        (F::Not, [Value::Boolean(a)]) => Ok(Value::Boolean(!a)),
        (F::Neg | F::Abs | F::Sign | F::Round | F::Floor | F::Ceil | F::Trunc, [a]) => number(func, a, dtype),
        (F::Round, [a, Value::BigInt(places)]) => round_places(a, *places, dtype),
        (F::Sqrt | F::Power | F::Exp | F::Ln | F::Log10, _) => doubles(func, args),
        (F::DateTrunc(unit), [Value::Timestamp(us)]) => time(truncate(unit, *us)),
        (F::DateBin, [Value::Interval(stride), Value::Timestamp(us), Value::Timestamp(origin)]) => {
            if *stride <= 0 {
                Err("date_bin needs a stride above zero".into())
            } else {
                time(bin(*stride, *us, *origin))
            }
        }
        (F::Extract(unit), [Value::Timestamp(us) | Value::Interval(us)]) => {
            let value = field(unit, *us);
            Ok(match dtype {
                DataType::Decimal { scale, .. } => Value::Decimal(i128::from(value), *scale),
                _ => Value::BigInt(value),
            })
        }
        _ => text_call(func, args).unwrap_or_else(|| Err(format!("no function {func:?} of {}", texts::kinds(args)))),
    }
}

fn out_of_range<T>(dtype: &DataType) -> Result<T, String> {
    Err(format!("{dtype} out of range"))
}

fn time(us: Option<i64>) -> Result<Value, String> {
    us.map_or_else(|| out_of_range(&DataType::Timestamp), |us| Ok(Value::Timestamp(us)))
}

/// An exact whole number as a 64-bit value of the type.
fn whole(exact: i128, dtype: &DataType) -> Result<Value, String> {
    let Ok(v) = i64::try_from(exact) else { return out_of_range(dtype) };
    match dtype {
        DataType::BigInt => Ok(Value::BigInt(v)),
        DataType::Timestamp => Ok(Value::Timestamp(v)),
        DataType::Interval => Ok(Value::Interval(v)),
        DataType::Date if v.unsigned_abs() <= DAYS_MAX.unsigned_abs() => Ok(Value::Date(v)),
        _ => out_of_range(dtype),
    }
}

fn arithmetic(func: Func, a: &Value, b: &Value, dtype: &DataType) -> Result<Value, String> {
    use Value as V;
    match (a, b) {
        (V::Double(a), V::Double(b)) => double(func, *a, *b).map(V::Double),
        (V::Decimal(a, s), V::Decimal(b, t)) => decimal(func, (*a, *s), (*b, *t), dtype),
        (V::Interval(a), V::Double(b)) => {
            let exact = double(func, *a as f64, *b)?.round_ties_even();
            // The lower bound is −2^63 itself; 2^63 does not fit.
            let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&exact);
            if fits { Ok(V::Interval(exact as i64)) } else { out_of_range(dtype) }
        }
        (
            V::BigInt(a) | V::Timestamp(a) | V::Date(a) | V::Interval(a),
            V::BigInt(b) | V::Timestamp(b) | V::Date(b) | V::Interval(b),
        ) => {
            let (a, b) = (i128::from(*a), i128::from(*b));
            let exact = match func {
                Func::Add => a + b,
                Func::Sub => a - b,
                Func::Mul => a * b,
                Func::Div if b != 0 => a / b,
                Func::Mod if b != 0 => a % b,
                _ => return Err(DIVISION_BY_ZERO.into()),
            };
            whole(exact, dtype)
        }
        _ => Err(format!("no operator {func:?} of {}", texts::kinds(&[a.clone(), b.clone()]))),
    }
}

/// IEEE 754, but for a zero divisor and an infinity made of finite numbers.
fn double(func: Func, a: f64, b: f64) -> Result<f64, String> {
    let result = match func {
        Func::Add => a + b,
        Func::Sub => a - b,
        Func::Mul => a * b,
        _ if b == 0.0 => return Err(DIVISION_BY_ZERO.into()),
        Func::Div => a / b,
        _ => a % b,
    };
    finite(result, a.is_finite() && b.is_finite())
}

fn finite(result: f64, of_finite: bool) -> Result<f64, String> {
    if result.is_infinite() && of_finite { out_of_range(&DataType::Double) } else { Ok(result) }
}

fn decimal(func: Func, (a, s): (i128, u8), (b, t): (i128, u8), dtype: &DataType) -> Result<Value, String> {
    let DataType::Decimal { scale, .. } = dtype else { return out_of_range(dtype) };
    let to = u32::from(*scale);
    let (exact_a, exact_b) = (Big::from(a), Big::from(b));
    let result = match func {
        Func::Mul => {
            let places = i64::from(s) + i64::from(t);
            at_scale(&exact_a.times(&exact_b), places, 38, to, Rounding::HalfAway)
        }
        Func::Div | Func::Mod if b == 0 => return Err(DIVISION_BY_ZERO.into()),
        Func::Div => {
            // a·10^−s / (b·10^−t), in units of 10^−to.
            let up = exact_a.times(&Big::ten_to(u32::from(t) + to));
            let down = exact_b.times(&Big::ten_to(u32::from(s)));
            up.divided_rounding(&down, Rounding::HalfAway).and_then(|q| at_scale(&q, 0, 38, 0, Rounding::Zero))
        }
        // Operands are brought to the result's scale first, and must fit there.
        _ => {
            let (Some(a), Some(b)) = (
                at_scale(&exact_a, i64::from(s), 38, to, Rounding::HalfAway),
                at_scale(&exact_b, i64::from(t), 38, to, Rounding::HalfAway),
            ) else {
                return out_of_range(dtype);
            };
            let exact = match func {
                Func::Add => Big::from(a).plus(&Big::from(b)),
                Func::Sub => Big::from(a).minus(&Big::from(b)),
                _ => Big::from(a).divided(&Big::from(b)).map(|(_, rest)| rest).unwrap_or_default(),
            };
            at_scale(&exact, 0, 38, 0, Rounding::Zero)
        }
    };
    result.map_or_else(|| out_of_range(dtype), |v| Ok(Value::Decimal(v, *scale)))
}

/// Functions of one number.
fn number(func: Func, a: &Value, dtype: &DataType) -> Result<Value, String> {
    match (a, dtype) {
        (Value::BigInt(v) | Value::Interval(v), _) => {
            let v = i128::from(*v);
            whole(
                match func {
                    Func::Neg => -v,
                    Func::Abs => v.abs(),
                    Func::Sign => v.signum(),
                    _ => v,
                },
                dtype,
            )
        }
        (Value::Double(x), _) => Ok(Value::Double(match func {
            Func::Neg => -x,
            Func::Abs => x.abs(),
            Func::Sign if *x > 0.0 => 1.0,
            Func::Sign if *x < 0.0 => -1.0,
            Func::Round => x.round_ties_even(),
            Func::Floor => x.floor(),
            Func::Ceil => x.ceil(),
            Func::Trunc => x.trunc(),
            _ => *x,
        })),
        (Value::Decimal(v, s), DataType::Decimal { scale, .. }) => {
            let (exact, places) = (Big::from(*v), i64::from(*s));
            let rounding = match func {
                Func::Floor => Rounding::Floor,
                Func::Ceil => Rounding::Ceil,
                Func::Trunc => Rounding::Zero,
                _ => Rounding::HalfAway,
            };
            let (exact, places) = match func {
                Func::Neg => (exact.negated(), places),
                Func::Abs => (exact.size(), places),
                Func::Sign => (Big::from(v.signum()), 0),
                _ => (exact, places),
            };
            at_scale(&exact, places, 38, u32::from(*scale), rounding)
                .map_or_else(|| out_of_range(dtype), |v| Ok(Value::Decimal(v, *scale)))
        }
        _ => Err(format!("no function {func:?} of {}", texts::kinds(std::slice::from_ref(a)))),
    }
}

/// `round(a, places)`, half away from zero; the result's scale may be smaller than the argument's.
fn round_places(a: &Value, places: i64, dtype: &DataType) -> Result<Value, String> {
    let (exact, scale, to) = match (a, dtype) {
        (Value::BigInt(v), _) => (Big::from(*v), 0u8, 0u8),
        (Value::Decimal(v, s), DataType::Decimal { scale, .. }) => (Big::from(*v), *s, *scale),
        _ => return Err(format!("no function Round of {}", texts::kinds(std::slice::from_ref(a)))),
    };
    let dropped = i64::from(scale).saturating_sub(places).clamp(0, 100);
    let unit = Big::ten_to(u32::try_from(dropped).unwrap_or(0));
    let rounded = exact.divided_rounding(&unit, Rounding::HalfAway).unwrap_or_default().times(&unit);
    let Some(v) = at_scale(&rounded, 0, 38, 0, Rounding::Zero) else { return out_of_range(dtype) };
    match a {
        Value::BigInt(_) => whole(v, dtype),
        _ => at_scale(&Big::from(v), i64::from(scale), 38, u32::from(to), Rounding::HalfAway)
            .map_or_else(|| out_of_range(dtype), |v| Ok(Value::Decimal(v, to))),
    }
}

/// `sqrt`, `power`, `exp`, `ln`, `log10`.
fn doubles(func: Func, args: &[Value]) -> Result<Value, String> {
    let result = match (func, args) {
        (Func::Sqrt, [Value::Double(x)]) if *x < 0.0 => return Err("square root of a negative number".into()),
        (Func::Sqrt, [Value::Double(x)]) => x.sqrt(),
        (Func::Exp, [Value::Double(x)]) => finite(libm::exp(*x), x.is_finite())?,
        (Func::Ln | Func::Log10, [Value::Double(x)]) if *x <= 0.0 => return Err("logarithm of zero or less".into()),
        (Func::Ln, [Value::Double(x)]) => libm::log(*x),
        (Func::Log10, [Value::Double(x)]) => libm::log10(*x),
        (Func::Power, [Value::Double(x), Value::Double(y)]) => {
            if *x == 0.0 && *y < 0.0 || *x < 0.0 && y.is_finite() && y.trunc() != *y {
                return Err("power out of its domain".into());
            }
            finite(libm::pow(*x, *y), x.is_finite() && y.is_finite())?
        }
        _ => return Err(format!("no function {func:?} of {}", texts::kinds(args))),
    };
    Ok(Value::Double(result))
}
