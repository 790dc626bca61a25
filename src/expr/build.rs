//! Building typed expressions: PostgreSQL's coercion rules in one place. (Owner: expr)

use super::{Expr, Func};
use crate::types::{DataType, Value};

/// Why an expression has no type: a message (lower case, no full stop) and perhaps a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// A call of an operator or function by its bound name, with operands coerced to fit.
///
/// # Errors
/// When no rule fits the operands' types.
pub fn call(_func: Func, _args: Vec<Expr>) -> Result<Expr, TypeError> {
    todo!()
}

/// A function by SQL name (lower case), as written in the query; the binder of `sql/` calls this for every scalar function it does not treat itself.
///
/// # Errors
/// Unknown names get a "did you mean" hint.
pub fn function(_name: &str, _args: Vec<Expr>) -> Result<Expr, TypeError> {
    todo!()
}

/// `CAST(expr AS dtype)`; a cast to the same type is the expression itself.
///
/// # Errors
/// When the two types have no conversion.
pub fn cast(_expr: Expr, _dtype: DataType) -> Result<Expr, TypeError> {
    todo!()
}

/// `a AND b`, `a OR b`.
///
/// # Errors
/// When an operand is not BOOLEAN.
pub fn and(_a: Expr, _b: Expr) -> Result<Expr, TypeError> {
    todo!()
}
/// `a OR b`.
///
/// # Errors
/// When an operand is not BOOLEAN.
pub fn or(_a: Expr, _b: Expr) -> Result<Expr, TypeError> {
    todo!()
}
/// `a IS NULL`.
pub fn is_null(_a: Expr) -> Expr {
    todo!()
}
/// Searched `CASE`; branches are brought to a common type.
///
/// # Errors
/// When a condition is not BOOLEAN or the branches have no common type.
pub fn case(_whens: Vec<(Expr, Expr)>, _otherwise: Option<Expr>) -> Result<Expr, TypeError> {
    todo!()
}
/// `COALESCE(…)`.
///
/// # Errors
/// When the arguments have no common type.
pub fn coalesce(_args: Vec<Expr>) -> Result<Expr, TypeError> {
    todo!()
}
/// An untyped string literal `'…'`: TEXT that coerces to TIMESTAMP, DATE, INTERVAL or a number where the other operand asks for it.
pub fn text_literal(_text: &str) -> Expr {
    todo!()
}
/// A number as written: BIGINT if it fits, else DECIMAL of its own digits; with an exponent DOUBLE.
///
/// # Errors
/// When it has more than 38 digits.
pub fn number_literal(_digits: &str) -> Result<Expr, TypeError> {
    todo!()
}
/// The untyped NULL (TEXT until another operand says otherwise).
pub fn null_literal() -> Expr {
    Expr::literal(Value::Null, DataType::Text)
}
/// The value of an expression without columns (folds constants); `None` if it reads a column.
pub fn constant(_expr: &Expr) -> Option<Result<Value, String>> {
    todo!()
}
