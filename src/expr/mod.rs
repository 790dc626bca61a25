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
    /// A strict function or operator: NULL if any argument is NULL (unless [`Func`] says otherwise).
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

/// Strict functions. Operands have equal types after [`build`], unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Func {
    /// `a + b` on numbers of one type; TIMESTAMP/DATE/INTERVAL with INTERVAL; DATE + BIGINT (days).
    Add,
    /// `a - b`; TIMESTAMP − TIMESTAMP is INTERVAL, DATE − DATE is BIGINT (days).
    Sub,
    /// `a * b`; INTERVAL × BIGINT.
    Mul,
    /// `a / b`: integers truncate toward zero; fails on zero.
    Div,
    /// `a % b`: sign of the dividend; fails on zero.
    Mod,
    /// `-a`.
    Neg,
    /// `=`.
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
    /// `a LIKE pattern`: `%`, `_`, backslash escapes.
    Like,
    /// `a ILIKE pattern`: as `LIKE`, ignoring ASCII and simple Unicode case.
    ILike,
    /// `a || b` on text.
    Concat,
    /// `lower(text)`.
    Lower,
    /// `upper(text)`.
    Upper,
    /// `length(text)` in characters.
    Length,
    /// `substr(text, from [, count])`, characters from 1.
    Substr,
    /// `trim(text)`: spaces at both ends (two arguments: these characters).
    Trim,
    /// `ltrim`.
    LTrim,
    /// `rtrim`.
    RTrim,
    /// `replace(text, from, to)`.
    Replace,
    /// `strpos(text, part)`: character position from 1, 0 if absent.
    StrPos,
    /// `starts_with(text, prefix)`.
    StartsWith,
    /// `split_part(text, delimiter, n)`, `n` from 1; negative counts from the end.
    SplitPart,
    /// `left(text, n)`.
    Left,
    /// `right(text, n)`.
    Right,
    /// `abs(number)`.
    Abs,
    /// `sign(number)` as the same type.
    Sign,
    /// `round(number [, digits])`: decimals and integers half away from zero; doubles half to even (one argument only).
    Round,
    /// `floor(number)`.
    Floor,
    /// `ceil(number)`.
    Ceil,
    /// `trunc(number)`.
    Trunc,
    /// `sqrt(double)`; fails below zero.
    Sqrt,
    /// `power(double, double)`.
    Power,
    /// `exp(double)`.
    Exp,
    /// `ln(double)`; fails at and below zero.
    Ln,
    /// `log10(double)`; fails at and below zero.
    Log10,
    /// `nullif(a, b)`: NULL if equal, else `a` (not strict in `b`).
    NullIf,
    /// `greatest(…)`: NULLs are skipped (not strict), as in PostgreSQL.
    Greatest,
    /// `least(…)`: NULLs are skipped (not strict).
    Least,
    /// `date_trunc(unit, timestamp)`; the unit is fixed when the query is bound. Weeks start on Monday.
    DateTrunc(TimeUnit),
    /// `extract(field FROM timestamp)` and `date_part`: as `BIGINT`; `Second` as `DECIMAL(8,6)`, `Epoch` as `DECIMAL(38,6)`.
    Extract(TimeUnit),
    /// `mod`-like bucket of a time: `date_bin(interval, timestamp, origin)`.
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
