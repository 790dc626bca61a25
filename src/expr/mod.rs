//! Bound, typed scalar expressions over the columns of a batch.
//!
//! An [`Expr`] knows its type and refers to input columns by index. Built only through [`build`], which applies
//! PostgreSQL's coercion rules, so that evaluators meet operands of the types they expect. Evaluated a batch at a time by
//! [`eval`]; an evaluation can fail for single rows, which then are rejects of the view.

pub mod build;
mod calendar;
pub mod convert;
pub mod decimal;
mod display;
pub mod eval;
mod like;
mod names;
mod signature;
mod suggest;

pub use display::Named;

use crate::types::{DataType, Value};

/// A typed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it computes.
    pub kind: ExprKind,
    /// The type of the result.
    pub dtype: DataType,
}

/// The forms of expressions. Three-valued logic throughout.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// Input column by index.
    Column(usize),
    /// A constant; `Value::Null` has the expression's `dtype`.
    Literal(Value),
    /// A function or operator, strict unless [`Func`] says otherwise: NULL if any argument is NULL, after all were evaluated.
    Call(Func, Vec<Expr>),
    /// Conjunction, left to right: a row that is false on the left never fails on the right.
    And(Box<Expr>, Box<Expr>),
    /// Disjunction, left to right: a row that is true on the left never fails on the right.
    Or(Box<Expr>, Box<Expr>),
    /// `IS NULL`; never NULL itself.
    IsNull(Box<Expr>),
    /// `CASE WHEN c THEN v … ELSE e END`; only the branch taken can fail. No `ELSE`: NULL.
    Case(Vec<(Expr, Expr)>, Option<Box<Expr>>),
    /// The first argument that is not NULL; later ones cannot fail for such rows.
    Coalesce(Vec<Expr>),
    /// Conversion to the expression's `dtype`; a value that does not fit fails for its row. NULL stays NULL.
    Cast(Box<Expr>),
}

/// Functions and operators: NULL if any operand is NULL, unless said otherwise. Which failures count, and the rules of
/// arithmetic, stand at [`eval`]; operand and result types at [`build`]. `fails` means for the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Func {
    /// `a + b` on two BIGINT, DOUBLE or DECIMAL (any scales); TIMESTAMP + INTERVAL, INTERVAL + INTERVAL, DATE + BIGINT (days).
    Add,
    /// `a - b`, as [`Func::Add`]; TIMESTAMP − TIMESTAMP is INTERVAL, DATE − DATE is BIGINT (days).
    Sub,
    /// `a * b` on numbers; INTERVAL × BIGINT or DOUBLE (the interval first).
    Mul,
    /// `a / b`: BIGINT truncates toward zero; INTERVAL / BIGINT (truncates) or DOUBLE; fails on zero (after the aggregation: NULL).
    Div,
    /// `a % b` on numbers: sign of the dividend, truncated quotient; fails on zero (after the aggregation: NULL).
    Mod,
    /// `-a` of a number or INTERVAL; fails for the least BIGINT and INTERVAL.
    Neg,
    /// `=`. Comparisons take two operands of one type, or two DECIMALs of any scales, and never fail. Text and BOOLEAN compare
    /// bytewise (FALSE first), doubles with NaN greatest and equal to itself and −0.0 = 0.0, lists item by item, NULL items last.
    Eq,
    /// `<>`.
    NotEq,
    /// `<`.
    Lt,
    /// `<=`.
    LtEq,
    /// `>`.
    Gt,
    /// `>=`.
    GtEq,
    /// `NOT a`.
    Not,
    /// `a IS NOT DISTINCT FROM b`: NULLs are equal; never NULL (not strict).
    NotDistinct,
    /// `a LIKE pattern`: `%` any run, `_` one character, a backslash takes the next character as it is; a pattern that
    /// ends in a lone backslash fails.
    Like,
    /// `a ILIKE pattern`: as `LIKE`, each character first mapped to its lower case where that is one character.
    ILike,
    /// `a || b` on text; like every text function fails if the result has more than 256 MiB.
    Concat,
    /// `lower(text)`: Unicode's full mapping.
    Lower,
    /// `upper(text)`: Unicode's full mapping (`ß` becomes `SS`).
    Upper,
    /// `length(text)` in characters (Unicode scalar values).
    Length,
    /// `substr(text, from [, count])`, characters from 1: those at positions `from ≤ i < from + count`, `from` may be below 1;
    /// fails if `count` is negative.
    Substr,
    /// `trim(text)`: spaces (U+0020) at both ends; two arguments: all characters of the second.
    Trim,
    /// `ltrim`, as [`Func::Trim`] at the start.
    LTrim,
    /// `rtrim`, as [`Func::Trim`] at the end.
    RTrim,
    /// `replace(text, from, to)`: left to right, not overlapping; an empty `from` changes nothing.
    Replace,
    /// `strpos(text, part)`: character position from 1, 0 if absent, 1 for an empty part.
    StrPos,
    /// `starts_with(text, prefix)`.
    StartsWith,
    /// `split_part(text, delimiter, n)`, `n` from 1; negative counts from the end; empty text if there is no such part;
    /// fails if `n` is 0. An empty delimiter makes one part.
    SplitPart,
    /// `left(text, n)`: the first `n` characters; below zero, all but the last `−n`.
    Left,
    /// `right(text, n)`: the last `n` characters; below zero, all but the first `−n`.
    Right,
    /// `abs(number)`; fails for the least BIGINT.
    Abs,
    /// `sign(number)`: −1, 0 or 1 as the same type, of a DECIMAL as DECIMAL(1,0); NaN and both zeros of a DOUBLE stay.
    Sign,
    /// `round(number [, places])`: decimals and integers half away from zero, negative places are tens and hundreds;
    /// doubles half to even (one argument only).
    Round,
    /// `floor(number)`.
    Floor,
    /// `ceil(number)`.
    Ceil,
    /// `trunc(number)`: toward zero.
    Trunc,
    /// `sqrt(double)`; fails below zero.
    Sqrt,
    /// `power(double, double)`; fails for zero to a negative power and a negative number to a finite fraction.
    Power,
    /// `exp(double)`.
    Exp,
    /// `ln(double)`; fails at and below zero.
    Ln,
    /// `log10(double)`; fails at and below zero.
    Log10,
    /// `nullif(a, b)`: NULL if they compare equal, else `a`, also if `b` is NULL (not strict in `b`).
    NullIf,
    /// `greatest(…)`: NULLs are skipped (not strict), as in PostgreSQL; of equal values the first.
    Greatest,
    /// `least(…)`: NULLs are skipped (not strict); of equal values the first.
    Least,
    /// `date_trunc(unit, timestamp)`; the unit is fixed when the query is bound. UTC, weeks start on Monday, times before 1970
    /// floor too; fails below the range.
    DateTrunc(TimeUnit),
    /// `extract(field FROM timestamp)` and `date_part`: as `BIGINT`; `Second` as `DECIMAL(8,6)`, `Epoch` as `DECIMAL(38,6)`.
    /// `Millisecond` and `Microsecond` count from the start of the minute (whole milliseconds, floored); `Week` is the ISO
    /// week 1–53; `Year` counts astronomically (year 0 exists). Of an INTERVAL only `Epoch`.
    Extract(TimeUnit),
    /// `date_bin(stride, timestamp, origin)`: the greatest `origin + k × stride` at or before the time; fails if the stride is not above zero.
    DateBin,
}

/// Units and fields of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are SQL's")]
pub enum TimeUnit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    /// Day of week, Sunday 0 (`dow`).
    DayOfWeek,
    /// Day of week, Monday 1 to Sunday 7 (`isodow`).
    IsoDayOfWeek,
    /// Day of year from 1 (`doy`).
    DayOfYear,
    /// Seconds since 1970 (`epoch`).
    Epoch,
}

impl Expr {
    /// A reference to input column `index`.
    pub fn column(index: usize, dtype: DataType) -> Expr {
        Expr { kind: ExprKind::Column(index), dtype }
    }
    /// A constant.
    pub fn literal(value: Value, dtype: DataType) -> Expr {
        Expr { kind: ExprKind::Literal(value), dtype }
    }
    /// The children, in order.
    pub fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Column(_) | ExprKind::Literal(_) => vec![],
            ExprKind::Call(_, args) | ExprKind::Coalesce(args) => args.iter().collect(),
            ExprKind::And(a, b) | ExprKind::Or(a, b) => vec![a, b],
            ExprKind::IsNull(a) | ExprKind::Cast(a) => vec![a],
            ExprKind::Case(whens, otherwise) => {
                whens.iter().flat_map(|(c, v)| [c, v]).chain(otherwise.as_deref()).collect()
            }
        }
    }
    /// Adds the indices of the columns it reads to `out`.
    pub fn columns(&self, out: &mut std::collections::BTreeSet<usize>) {
        if let ExprKind::Column(index) = self.kind {
            out.insert(index);
        }
        for child in self.children() {
            child.columns(out);
        }
    }
}
