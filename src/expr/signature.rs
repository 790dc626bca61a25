//! What every function takes and gives: operands coerced, result typed. The rules are in the doc of [`super::build`].

use super::build::{TypeError, cast, coerce, common_type, to_decimal, unify, untyped};
use super::decimal::MAX_PRECISION;
use super::like::Pattern;
use super::{Expr, ExprKind, Func, TimeUnit};
use crate::types::{DataType, Value};

type Typed = Result<(Vec<Expr>, DataType), TypeError>;

/// Least and greatest number of operands.
pub fn arity(func: Func) -> (usize, usize) {
    use Func::*;
    match func {
        Neg | Not | Lower | Upper | Length | Abs | Sign | Floor | Ceil | Trunc | Sqrt | Exp | Ln | Log10
        | DateTrunc(_) | Extract(_) => (1, 1),
        Add | Sub | Mul | Div | Mod | Eq | NotEq | Lt | LtEq | Gt | GtEq | NotDistinct | Like | ILike | Concat
        | StrPos | StartsWith | Left | Right | Power | NullIf => (2, 2),
        Trim | LTrim | RTrim | Round => (1, 2),
        Substr => (2, 3),
        Replace | SplitPart | DateBin => (3, 3),
        Greatest | Least => (1, usize::MAX),
    }
}

/// Coerces the operands (as many as [`arity`] says) and types the result.
pub fn result(func: Func, args: Vec<Expr>) -> Typed {
    use DataType::{BigInt, Boolean, Date, Double, Interval, Text, Timestamp};
    use Func::*;
    match func {
        Add | Sub | Mul | Div | Mod => pair(args, |a, b| arithmetic(func, a, b)),
        Neg => one(args, |a| {
            let a = if untyped(&a) { cast(a, Double)? } else { a };
            if a.dtype.is_numeric() || a.dtype == Interval { same(a) } else { Err(unfit(func, &[&a])) }
        }),
        Eq | NotEq | Lt | LtEq | Gt | GtEq | NotDistinct => pair(args, |a, b| {
            let (a, b) = both(func, a, b)?;
            Ok((vec![a, b], Boolean))
        }),
        NullIf => pair(args, |a, b| {
            let (a, b) = both(func, a, b)?;
            let dtype = a.dtype.clone();
            Ok((vec![a, b], dtype))
        }),
        Not => exact(func, args, &[Boolean], Boolean),
        Like | ILike => {
            let (args, dtype) = exact(func, args, &[Text, Text], Boolean)?;
            if let Some(Expr { kind: ExprKind::Literal(Value::Text(pattern)), .. }) = args.get(1) {
                Pattern::new(pattern, false).map_err(|why| TypeError::new(why.into_owned()))?;
            }
            Ok((args, dtype))
        }
        Concat => {
            let text = |e: Expr| if untyped(&e) { Ok(e) } else { cast(e, Text) };
            Ok((args.into_iter().map(text).collect::<Result<_, _>>()?, Text))
        }
        Lower | Upper | Trim | LTrim | RTrim | Replace => exact(func, args, &[Text, Text, Text], Text),
        Length => exact(func, args, &[Text], BigInt),
        StrPos => exact(func, args, &[Text, Text], BigInt),
        StartsWith => exact(func, args, &[Text, Text], Boolean),
        Substr => exact(func, args, &[Text, BigInt, BigInt], Text),
        SplitPart => exact(func, args, &[Text, Text, BigInt], Text),
        Left | Right => exact(func, args, &[Text, BigInt], Text),
        Abs => one(args, |a| same(number(func, a)?)),
        Sign => one(args, |a| {
            let (args, dtype) = same(number(func, a)?)?;
            let decimal = matches!(dtype, DataType::Decimal { .. });
            Ok((args, if decimal { DataType::Decimal { precision: 1, scale: 0 } } else { dtype }))
        }),
        Floor | Ceil | Trunc => one(args, |a| {
            let a = number(func, a)?;
            let dtype = rounded(&a.dtype, Some(0));
            Ok((vec![a], dtype))
        }),
        Round => round(args),
        Sqrt | Power | Exp | Ln | Log10 => {
            let double = |e: Expr| number(func, e).and_then(|e| cast(e, Double));
            Ok((args.into_iter().map(double).collect::<Result<_, _>>()?, Double))
        }
        Greatest | Least => common_type(args, func.name()),
        DateTrunc(unit) => {
            use TimeUnit::{DayOfWeek, DayOfYear, Epoch, IsoDayOfWeek};
            if matches!(unit, DayOfWeek | IsoDayOfWeek | DayOfYear | Epoch) {
                return Err(TypeError::new(format!("date_trunc cannot cut to {}", unit.name()))
                    .with_hint("units are microsecond to year, quarter and week"));
            }
            exact(func, args, &[Timestamp], Timestamp)
        }
        Extract(unit) => {
            let dtype = match unit {
                TimeUnit::Second => DataType::Decimal { precision: 8, scale: 6 },
                TimeUnit::Epoch => DataType::Decimal { precision: MAX_PRECISION, scale: 6 },
                _ => BigInt,
            };
            match args.first().map(|a| &a.dtype) {
                Some(Interval) if unit == TimeUnit::Epoch => Ok((args, dtype)),
                Some(Interval) => {
                    Err(TypeError::new(format!("extract({} FROM interval) is not supported", unit.name()))
                        .with_hint("extract(epoch FROM …) gives its seconds"))
                }
                Some(Date | Timestamp) => exact(func, args, &[Timestamp], dtype),
                _ => exact(func, args, &[Timestamp], dtype),
            }
        }
        DateBin => exact(func, args, &[Interval, Timestamp, Timestamp], Timestamp),
    }
}

fn one(args: Vec<Expr>, rule: impl FnOnce(Expr) -> Typed) -> Typed {
    match <[Expr; 1]>::try_from(args) {
        Ok([a]) => rule(a),
        Err(_) => Err(TypeError::new("expected one operand")),
    }
}

fn pair(args: Vec<Expr>, rule: impl FnOnce(Expr, Expr) -> Typed) -> Typed {
    match <[Expr; 2]>::try_from(args) {
        Ok([a, b]) => rule(a, b),
        Err(_) => Err(TypeError::new("expected two operands")),
    }
}

fn same(a: Expr) -> Typed {
    let dtype = a.dtype.clone();
    Ok((vec![a], dtype))
}

/// `operator + does not take TEXT and BIGINT`.
fn unfit(func: Func, args: &[&Expr]) -> TypeError {
    let types: Vec<String> = args.iter().map(|a| a.dtype.to_string()).collect();
    let what = if func.is_operator() { "operator " } else { "" };
    let error = TypeError::new(format!("{what}{} does not take {}", func.name(), types.join(" and ")));
    match args {
        [a, b] if a.dtype == DataType::Text && b.dtype != DataType::Text => {
            error.with_hint(format!("CAST the text AS {}", b.dtype))
        }
        [a, b] if b.dtype == DataType::Text && a.dtype != DataType::Text => {
            error.with_hint(format!("CAST the text AS {}", a.dtype))
        }
        _ => error,
    }
}

/// Operands of a comparison.
fn both(func: Func, a: Expr, b: Expr) -> Result<(Expr, Expr), TypeError> {
    let error = unfit(func, &[&a, &b]);
    unify(a, b).unwrap_or(Err(error))
}

/// A number, or an untyped literal read as DOUBLE.
fn number(func: Func, a: Expr) -> Result<Expr, TypeError> {
    if untyped(&a) {
        return cast(a, DataType::Double);
    }
    if a.dtype.is_numeric() { Ok(a) } else { Err(unfit(func, &[&a])) }
}

/// Operands of fixed types: literals are coerced, a DATE becomes a TIMESTAMP.
fn exact(func: Func, args: Vec<Expr>, types: &[DataType], dtype: DataType) -> Typed {
    let fit = |(position, (arg, asked)): (usize, (Expr, &DataType))| {
        if untyped(&arg) {
            return coerce(arg, asked);
        }
        match (&arg.dtype, asked) {
            (found, asked) if found == asked => Ok(arg),
            (DataType::Date, DataType::Timestamp) => cast(arg, DataType::Timestamp),
            (found, asked) => {
                let place = if types.len() > 1 { format!(" as argument {}", position + 1) } else { String::new() };
                Err(TypeError::new(format!("{} takes {asked}{place}, found {found}", func.name()))
                    .with_hint(format!("CAST it AS {asked}")))
            }
        }
    };
    Ok((args.into_iter().zip(types).enumerate().map(fit).collect::<Result<_, _>>()?, dtype))
}

/// The type after rounding: `scale` is the number of places, if it is known.
fn rounded(dtype: &DataType, places: Option<i64>) -> DataType {
    match dtype {
        DataType::Decimal { precision, scale } => {
            let places = places.map_or(*scale, |n| u8::try_from(n.clamp(0, i64::from(*scale))).unwrap_or(*scale));
            let whole = precision.saturating_sub(*scale).saturating_add(1);
            DataType::Decimal { precision: whole.saturating_add(places).min(MAX_PRECISION), scale: places }
        }
        other => other.clone(),
    }
}

fn round(args: Vec<Expr>) -> Typed {
    let mut args = args.into_iter();
    let (Some(a), places) = (args.next(), args.next()) else {
        return Err(TypeError::new("round takes 1 or 2 arguments, found 0"));
    };
    let a = number(Func::Round, a)?;
    let Some(places) = places else {
        let dtype = rounded(&a.dtype, Some(0));
        return Ok((vec![a], dtype));
    };
    if a.dtype == DataType::Double {
        return Err(TypeError::new("round of a DOUBLE takes 1 argument, found 2")
            .with_hint("CAST it AS DECIMAL(38,6), or any scale, and round that"));
    }
    let places = if untyped(&places) { coerce(places, &DataType::BigInt)? } else { places };
    if places.dtype != DataType::BigInt {
        return Err(TypeError::new(format!("round takes BIGINT as argument 2, found {}", places.dtype)));
    }
    let known = if let ExprKind::Literal(Value::BigInt(n)) = places.kind { Some(n) } else { None };
    let dtype = rounded(&a.dtype, known);
    Ok((vec![a, places], dtype))
}

/// `+ - * / %`.
fn arithmetic(func: Func, a: Expr, b: Expr) -> Typed {
    use DataType::{BigInt, Date, Interval, Timestamp};
    let error = unfit(func, &[&a, &b]);
    if untyped(&a) && untyped(&b) {
        return Err(error.with_hint("CAST the literals to the type that is meant"));
    }
    let timed = |e: &Expr| matches!(e.dtype, Timestamp | Date | Interval);
    if !timed(&a) && !timed(&b) {
        // Literals take the other's type first: a number, or the error.
        let (a, b) = unify(a, b).unwrap_or(Err(error.clone()))?;
        return if a.dtype.is_numeric() && b.dtype.is_numeric() { numbers(func, a, b) } else { Err(error) };
    }
    let (a, b) = literals_of_times(func, a, b)?;
    let (a, b, dtype) = match (func, &a.dtype, &b.dtype) {
        (Func::Add, Interval, Timestamp | Date) => (b, a, Timestamp),
        (Func::Add, BigInt, Date) => (b, a, Date),
        (Func::Add | Func::Sub, Timestamp | Date, Interval) => (a, b, Timestamp),
        (Func::Add | Func::Sub, Interval, Interval) => (a, b, Interval),
        (Func::Add | Func::Sub, Date, BigInt) => (a, b, Date),
        (Func::Sub, Date, Date) => (a, b, BigInt),
        (Func::Sub, Timestamp | Date, Timestamp | Date) => (cast(a, Timestamp)?, cast(b, Timestamp)?, Interval),
        (Func::Mul | Func::Div, Interval, x) if x.is_numeric() => {
            let b = if b.dtype == BigInt { b } else { cast(b, DataType::Double)? };
            (a, b, Interval)
        }
        (Func::Mul, x, Interval) if x.is_numeric() => {
            let a = if a.dtype == BigInt { a } else { cast(a, DataType::Double)? };
            (b, a, Interval)
        }
        _ => return Err(error),
    };
    // DATE with INTERVAL counts from midnight.
    let a = if dtype == Timestamp { cast(a, Timestamp)? } else { a };
    Ok((vec![a, b], dtype))
}

/// What an untyped literal is next to a time: an INTERVAL in `time + '…'`, DOUBLE in `interval × '…'`, else the other's type.
fn literals_of_times(func: Func, a: Expr, b: Expr) -> Result<(Expr, Expr), TypeError> {
    let asked = |other: &DataType| match (func, other) {
        (Func::Mul | Func::Div, _) => DataType::Double,
        (Func::Add, _) => DataType::Interval,
        (_, other) => other.clone(),
    };
    if untyped(&a) {
        let a = coerce(a, &asked(&b.dtype))?;
        Ok((a, b))
    } else if untyped(&b) {
        let b = coerce(b, &asked(&a.dtype))?;
        Ok((a, b))
    } else {
        Ok((a, b))
    }
}

fn numbers(func: Func, a: Expr, b: Expr) -> Typed {
    let (a, b) = match (&a.dtype, &b.dtype) {
        // A literal read for a DECIMAL may have come out as one.
        (DataType::BigInt, DataType::Decimal { .. }) | (DataType::Decimal { .. }, DataType::BigInt) => {
            (to_decimal(a)?, to_decimal(b)?)
        }
        _ => (a, b),
    };
    let dtype = match (&a.dtype, &b.dtype) {
        (DataType::Decimal { precision: p1, scale: s1 }, DataType::Decimal { precision: p2, scale: s2 }) => {
            decimal_result(func, (*p1, *s1), (*p2, *s2))
        }
        (other, _) => other.clone(),
    };
    Ok((vec![a, b], dtype))
}

/// The table in the doc of [`super::build`].
fn decimal_result(func: Func, (p1, s1): (u8, u8), (p2, s2): (u8, u8)) -> DataType {
    let whole = p1.saturating_sub(s1).max(p2.saturating_sub(s2));
    let (precision, scale) = match func {
        Func::Mul => (p1.saturating_add(p2), s1.saturating_add(s2)),
        Func::Div => (MAX_PRECISION, s1.max(s2).max(6)),
        Func::Mod => (whole.saturating_add(s1.max(s2)), s1.max(s2)),
        _ => (whole.saturating_add(s1.max(s2)).saturating_add(1), s1.max(s2)),
    };
    DataType::Decimal { precision: precision.clamp(1, MAX_PRECISION), scale: scale.min(MAX_PRECISION) }
}
