//! Building typed expressions: PostgreSQL's coercion rules in one place.
//!
//! Binders hand over operands as they stand; what comes back is typed and needs no further rule at run time.
//!
//! **Untyped literals.** A string literal `'…'` ([`text_literal`]) and a bare NULL ([`null_literal`]) have no type of
//! their own: as expressions they are `TEXT` [`ExprKind::Literal`]s, and take the type that the other operand asks for
//! (the conversion happens here, so a bad one is an error of the query). Everything else of type TEXT, columns and
//! `CAST('…' AS TEXT)` included, is real text and is never converted without a `CAST`.
//!
//! **Numbers** form a tower BIGINT → DECIMAL → DOUBLE: the lower operand is converted to the type of the higher one,
//! BIGINT as `DECIMAL(19,0)` (a literal as its own digits). Two DECIMALs stay as they are: operators take any scales.
//! For `DECIMAL(p1,s1)` and `DECIMAL(p2,s2)`, with `i = p − s`:
//!
//! | result of | scale | precision (at most 38) |
//! | --- | --- | --- |
//! | `+`, `-` | max(s1, s2) | max(i1, i2) + scale + 1 |
//! | `%` | max(s1, s2) | max(i1, i2) + scale |
//! | `*` | min(s1 + s2, 38), rounded half away from zero | p1 + p2 |
//! | `/` | max(6, s1, s2), rounded half away from zero | 38 |
//! | `-a`, `abs`, `nullif` | s1 | p1 |
//! | `sign` | 0 | 1 |
//! | `round`, `floor`, `ceil`, `trunc` | 0 | i1 + 1 |
//! | `round(a, n)`, `n` a literal | n within 0 … s1 | i1 + 1 + scale |
//! | `round(a, n)`, otherwise | s1 | p1 + 1 |
//! | common type (`CASE`, `COALESCE`, `greatest`, `least`) | max(s1, s2) | max(i1, i2) + scale |
//!
//! Values beyond 38 digits fail for their row.
//!
//! **Times.** DATE becomes TIMESTAMP (its midnight) next to a TIMESTAMP, in `date ± interval`, and in functions of
//! times. `timestamp − timestamp` and `timestamp − '…'` are INTERVAL, `timestamp + '…'` reads the literal as INTERVAL;
//! `date − date` is BIGINT days, `date ± bigint` is DATE. `interval × number` and `interval / number` are INTERVAL.

use super::convert::{castable, convert};
use super::decimal::{self, MAX_PRECISION};
use super::signature::{arity, result};
use super::{Expr, ExprKind, Func};
use crate::types::{DataType, Value};

pub use super::names::{function, function_names, is_function, time_unit};
pub use super::suggest::did_you_mean;

/// Why an expression has no type: a message (lower case, no full stop) and perhaps a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl TypeError {
    /// An error without a hint.
    pub fn new(message: impl Into<String>) -> Self {
        TypeError { message: message.into(), hint: None }
    }
    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl std::fmt::Display for TypeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TypeError {}

/// Whether an expression is an untyped literal: a bare string or NULL.
pub fn untyped(expr: &Expr) -> bool {
    expr.dtype == DataType::Text && matches!(expr.kind, ExprKind::Literal(Value::Text(_) | Value::Null))
}

/// A call of an operator or function by its bound name, with operands coerced to fit.
///
/// # Errors
/// When no rule fits the operands' types.
pub fn call(func: Func, args: Vec<Expr>) -> Result<Expr, TypeError> {
    let (least, most) = arity(func);
    if args.len() < least || args.len() > most {
        let expected = match (least, most) {
            (1, 1) => "1 argument".into(),
            (n, usize::MAX) => format!("at least {n} argument{}", if n == 1 { "" } else { "s" }),
            (n, m) if n == m => format!("{n} arguments"),
            (n, m) => format!("{n} or {m} arguments"),
        };
        return Err(TypeError::new(format!("{} takes {expected}, found {}", func.name(), args.len())));
    }
    let (args, dtype) = result(func, args)?;
    if let (Func::Neg, [Expr { kind: ExprKind::Literal(value), .. }]) = (func, args.as_slice())
        && let Some(negative) = negate(value)
    {
        return Ok(negative);
    }
    Ok(Expr { kind: ExprKind::Call(func, args), dtype })
}

/// The literal `-value`, so that `-5` is a literal too; 2^63 becomes the least BIGINT.
fn negate(value: &Value) -> Option<Expr> {
    Some(match value {
        Value::BigInt(v) => Expr::literal(Value::BigInt(v.checked_neg()?), DataType::BigInt),
        Value::Double(v) => Expr::literal(Value::Double(-v), DataType::Double),
        Value::Interval(v) => Expr::literal(Value::Interval(v.checked_neg()?), DataType::Interval),
        Value::Decimal(v, 0) if *v == -i128::from(i64::MIN) => Expr::literal(Value::BigInt(i64::MIN), DataType::BigInt),
        Value::Decimal(v, scale) => decimal_literal(v.checked_neg()?, *scale),
        _ => return None,
    })
}

/// `CAST(expr AS dtype)`; a cast to the same type is the expression itself. Casts of literals are done here.
///
/// # Errors
/// When the two types have no conversion, or a literal does not convert.
pub fn cast(expr: Expr, dtype: DataType) -> Result<Expr, TypeError> {
    if let ExprKind::Literal(value) = &expr.kind {
        // A text literal cast to TEXT keeps its cast: that is what makes it real text.
        if dtype != DataType::Text {
            if !value.is_null() && !castable(&expr.dtype, &dtype) {
                return Err(no_cast(&expr.dtype, &dtype));
            }
            let value = convert(value, &dtype).map_err(|why| TypeError::new(why.into_owned()))?;
            return Ok(Expr::literal(value, dtype));
        }
    } else if expr.dtype == dtype {
        return Ok(expr);
    }
    if !castable(&expr.dtype, &dtype) {
        return Err(no_cast(&expr.dtype, &dtype));
    }
    Ok(Expr { kind: ExprKind::Cast(Box::new(expr)), dtype })
}

fn no_cast(from: &DataType, to: &DataType) -> TypeError {
    let error = TypeError::new(format!("cannot cast {from} to {to}"));
    match (from, to) {
        (from, DataType::Timestamp) if from.is_numeric() => error.with_hint("use to_timestamp(seconds)"),
        (DataType::Timestamp | DataType::Date | DataType::Interval, to) if to.is_numeric() => {
            error.with_hint("use extract(epoch FROM …)")
        }
        (from, DataType::Interval) if from.is_numeric() => error.with_hint("multiply by INTERVAL '1 second'"),
        (DataType::Boolean, to) if to.is_numeric() => error.with_hint("cast to BIGINT first"),
        _ => error,
    }
}

/// `a IN (list)`: the alternatives as a balanced tree of `OR`, so that long lists do not nest deeply; an empty list is FALSE.
///
/// # Errors
/// When an item cannot be compared with `a`.
pub fn in_list(a: Expr, list: Vec<Expr>) -> Result<Expr, TypeError> {
    let mut terms =
        list.into_iter().map(|item| call(Func::Eq, vec![a.clone(), item])).collect::<Result<Vec<_>, _>>()?;
    while terms.len() > 1 {
        let mut pairs = Vec::with_capacity(terms.len() / 2 + 1);
        let mut rest = terms.into_iter();
        while let Some(first) = rest.next() {
            pairs.push(match rest.next() {
                Some(second) => or(first, second)?,
                None => first,
            });
        }
        terms = pairs;
    }
    Ok(terms.pop().unwrap_or(Expr::literal(Value::Boolean(false), DataType::Boolean)))
}

/// The expression as a `BOOLEAN` operand; `what` says of what (`WHERE`, `AND`).
///
/// # Errors
/// When it is not BOOLEAN.
pub fn boolean(expr: Expr, what: &str) -> Result<Expr, TypeError> {
    if untyped(&expr) {
        return cast(expr, DataType::Boolean);
    }
    if expr.dtype == DataType::Boolean {
        return Ok(expr);
    }
    let error = TypeError::new(format!("{what} takes BOOLEAN, found {}", expr.dtype));
    Err(if expr.dtype.is_numeric() { error.with_hint("compare it, as in x <> 0") } else { error })
}

/// `a AND b`, `a OR b`.
///
/// # Errors
/// When an operand is not BOOLEAN.
pub fn and(a: Expr, b: Expr) -> Result<Expr, TypeError> {
    let (a, b) = (boolean(a, "AND")?, boolean(b, "AND")?);
    Ok(Expr { kind: ExprKind::And(Box::new(a), Box::new(b)), dtype: DataType::Boolean })
}
/// `a OR b`.
///
/// # Errors
/// When an operand is not BOOLEAN.
pub fn or(a: Expr, b: Expr) -> Result<Expr, TypeError> {
    let (a, b) = (boolean(a, "OR")?, boolean(b, "OR")?);
    Ok(Expr { kind: ExprKind::Or(Box::new(a), Box::new(b)), dtype: DataType::Boolean })
}
/// `a IS NULL`.
pub fn is_null(a: Expr) -> Expr {
    Expr { kind: ExprKind::IsNull(Box::new(a)), dtype: DataType::Boolean }
}
/// `NOT a`.
///
/// # Errors
/// When it is not BOOLEAN.
pub fn not(a: Expr) -> Result<Expr, TypeError> {
    call(Func::Not, vec![a])
}
/// Searched `CASE`; branches are brought to a common type.
///
/// # Errors
/// When a condition is not BOOLEAN or the branches have no common type.
pub fn case(whens: Vec<(Expr, Expr)>, otherwise: Option<Expr>) -> Result<Expr, TypeError> {
    if whens.is_empty() {
        return Err(TypeError::new("CASE takes at least one WHEN"));
    }
    let (conditions, mut values): (Vec<Expr>, Vec<Expr>) = whens.into_iter().unzip();
    let has_else = otherwise.is_some();
    values.extend(otherwise);
    let (mut values, dtype) = common_type(values, "CASE")?;
    let otherwise = if has_else { values.pop().map(Box::new) } else { None };
    let conditions = conditions.into_iter().map(|c| boolean(c, "WHEN")).collect::<Result<Vec<_>, _>>()?;
    Ok(Expr { kind: ExprKind::Case(conditions.into_iter().zip(values).collect(), otherwise), dtype })
}
/// `COALESCE(…)`.
///
/// # Errors
/// When the arguments have no common type.
pub fn coalesce(args: Vec<Expr>) -> Result<Expr, TypeError> {
    if args.is_empty() {
        return Err(TypeError::new("coalesce takes at least 1 argument, found 0"));
    }
    let (args, dtype) = common_type(args, "coalesce")?;
    Ok(Expr { kind: ExprKind::Coalesce(args), dtype })
}
/// An untyped string literal `'…'`: TEXT that coerces to TIMESTAMP, DATE, INTERVAL or a number where the other operand asks for it.
pub fn text_literal(text: &str) -> Expr {
    Expr::literal(Value::Text(text.into()), DataType::Text)
}

fn decimal_literal(v: i128, scale: u8) -> Expr {
    let precision = decimal::digits(v).max(scale);
    Expr::literal(Value::Decimal(v, scale), DataType::Decimal { precision, scale })
}

/// A number as written: BIGINT if it fits, else DECIMAL of its own digits; with an exponent DOUBLE.
///
/// # Errors
/// When it has more than 38 digits, or its exponent is out of range.
pub fn number_literal(digits: &str) -> Result<Expr, TypeError> {
    if let Ok(v) = digits.parse::<i64>() {
        return Ok(Expr::literal(Value::BigInt(v), DataType::BigInt));
    }
    if digits.contains(['e', 'E']) {
        return match digits.parse::<f64>() {
            Ok(v) if v.is_finite() => Ok(Expr::literal(Value::Double(v), DataType::Double)),
            Ok(_) => Err(TypeError::new(format!("number {digits} is beyond the range of DOUBLE"))),
            Err(_) => Err(TypeError::new(format!("\"{digits}\" is not a number"))),
        };
    }
    match decimal::parse_own(digits) {
        Ok((v, scale)) => Ok(decimal_literal(v, scale)),
        Err(decimal::ParseError::Range) => Err(TypeError::new(format!("number {digits} has more than 38 digits"))
            .with_hint("write it with an exponent to make it DOUBLE")),
        Err(decimal::ParseError::Syntax) => Err(TypeError::new(format!("\"{digits}\" is not a number"))),
    }
}
/// The untyped NULL (TEXT until another operand says otherwise).
pub fn null_literal() -> Expr {
    Expr::literal(Value::Null, DataType::Text)
}
/// The value of an expression without columns (folds constants); `None` if it reads a column.
pub fn constant(expr: &Expr) -> Option<Result<Value, String>> {
    let mut columns = std::collections::BTreeSet::new();
    expr.columns(&mut columns);
    columns.is_empty().then(|| super::eval::evaluate_row(expr, &[]))
}

/// An untyped literal as the type that is asked for. A number read for a DECIMAL keeps its own digits, as a number written
/// without quotes would.
pub(super) fn coerce(literal: Expr, asked: &DataType) -> Result<Expr, TypeError> {
    if let (ExprKind::Literal(Value::Text(text)), DataType::Decimal { .. }) = (&literal.kind, asked) {
        return match decimal::parse_own(text.trim_ascii()) {
            Ok((v, scale)) => Ok(decimal_literal(v, scale)),
            Err(_) => Err(TypeError::new(format!("cannot read {text:?} as DECIMAL"))),
        };
    }
    if *asked == DataType::Text { Ok(literal) } else { cast(literal, asked.clone()) }
}

/// The lowest decimal type that holds the number expression exactly: a BIGINT literal as its own digits.
pub(super) fn to_decimal(expr: Expr) -> Result<Expr, TypeError> {
    match (&expr.dtype, &expr.kind) {
        (DataType::BigInt, ExprKind::Literal(Value::BigInt(v))) => Ok(decimal_literal(i128::from(*v), 0)),
        (DataType::BigInt, _) => cast(expr, DataType::Decimal { precision: 19, scale: 0 }),
        _ => Ok(expr),
    }
}

/// Two operands brought together for a comparison or arithmetic: equal types, or two DECIMALs. `None` if they do not fit.
pub(super) fn unify(a: Expr, b: Expr) -> Option<Result<(Expr, Expr), TypeError>> {
    use DataType::{BigInt, Date, Decimal, Double, Timestamp};
    Some(match (untyped(&a), untyped(&b)) {
        (true, false) => {
            let asked = b.dtype.clone();
            coerce(a, &asked).map(|a| (a, b))
        }
        (false, true) => {
            let asked = a.dtype.clone();
            coerce(b, &asked).map(|b| (a, b))
        }
        _ => match (&a.dtype, &b.dtype) {
            (x, y) if x == y => Ok((a, b)),
            (Decimal { .. }, Decimal { .. }) => Ok((a, b)),
            (Double, y) if y.is_numeric() => cast(b, Double).map(|b| (a, b)),
            (x, Double) if x.is_numeric() => cast(a, Double).map(|a| (a, b)),
            (BigInt, Decimal { .. }) => to_decimal(a).map(|a| (a, b)),
            (Decimal { .. }, BigInt) => to_decimal(b).map(|b| (a, b)),
            (Date, Timestamp) => cast(a, Timestamp).map(|a| (a, b)),
            (Timestamp, Date) => cast(b, Timestamp).map(|b| (a, b)),
            _ => return None,
        },
    })
}

/// The decimal type that holds both, as far as 38 digits go.
fn merge_decimals(a: (u8, u8), b: (u8, u8)) -> DataType {
    let scale = a.1.max(b.1);
    let whole = a.0.saturating_sub(a.1).max(b.0.saturating_sub(b.1));
    DataType::Decimal { precision: whole.saturating_add(scale).clamp(1, MAX_PRECISION), scale }
}

/// Precision and scale of a number that is not DOUBLE, for [`merge_decimals`].
fn decimal_shape(expr: &Expr) -> Option<(u8, u8)> {
    match (&expr.dtype, &expr.kind) {
        (DataType::Decimal { precision, scale }, _) => Some((*precision, *scale)),
        (DataType::BigInt, ExprKind::Literal(Value::BigInt(v))) => Some((decimal::digits(i128::from(*v)), 0)),
        (DataType::BigInt, _) => Some((19, 0)),
        _ => None,
    }
}

/// Brings expressions to one type: of `CASE`, `COALESCE`, `greatest`, `IN` lists. All untyped: TEXT.
///
/// # Errors
/// When they have none; `what` names the construct.
pub fn common_type(exprs: Vec<Expr>, what: &str) -> Result<(Vec<Expr>, DataType), TypeError> {
    let mut common: Option<DataType> = None;
    let mut shape: Option<(u8, u8)> = None;
    for expr in exprs.iter().filter(|e| !untyped(e)) {
        if let Some(one) = decimal_shape(expr) {
            let merged = shape.map_or(one, |s| match merge_decimals(s, one) {
                DataType::Decimal { precision, scale } => (precision, scale),
                _ => one,
            });
            shape = Some(merged);
        }
        common = Some(match common {
            None => expr.dtype.clone(),
            Some(before) => higher(&before, &expr.dtype).ok_or_else(|| {
                TypeError::new(format!("{what} needs values of one type, found {before} and {}", expr.dtype))
                    .with_hint("CAST them to one type")
            })?,
        });
    }
    let common = match (common, shape) {
        (Some(DataType::Decimal { .. }), Some((precision, scale))) => DataType::Decimal { precision, scale },
        (Some(common), _) => common,
        (None, _) => DataType::Text,
    };
    let exprs = exprs
        .into_iter()
        .map(|e| if common == DataType::Text && e.dtype == DataType::Text { Ok(e) } else { cast(e, common.clone()) })
        .collect::<Result<Vec<_>, _>>()?;
    Ok((exprs, common))
}

/// The higher of two types, if values of the other convert to it without being asked.
fn higher(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{BigInt, Date, Decimal, Double, Timestamp};
    Some(match (a, b) {
        (a, b) if a == b => a.clone(),
        (Double, x) | (x, Double) if x.is_numeric() => Double,
        // Precision and scale are settled by the caller.
        (Decimal { .. }, BigInt | Decimal { .. }) => a.clone(),
        (BigInt, Decimal { .. }) => b.clone(),
        (Date, Timestamp) | (Timestamp, Date) => Timestamp,
        _ => return None,
    })
}
