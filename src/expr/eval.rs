//! Vectorised evaluation with failures per row.
//!
//! An expression is evaluated a whole batch at a time, node by node; literals and what is computed from literals alone
//! stay single values. A row that fails (division by zero, overflow, a text that is no number, …) holds NULL from there
//! on and is reported with the reason; other rows are not touched.
//!
//! **Which failure counts.** A row fails iff a row-at-a-time evaluation would meet a failure:
//! * a function or operator evaluates all its operands, left to right, also those next to a NULL: `NULL + 1 / 0` fails.
//!   The failure of the first operand that fails is the row's; only if none fails and (for strict functions) none is
//!   NULL is the function itself applied;
//! * `a AND b`: a row whose `a` is FALSE is FALSE, whatever `b`; whose `a` fails, fails. Else `b` is evaluated (also if
//!   `a` is NULL), and may fail. `OR` the same with TRUE;
//! * `CASE` evaluates conditions in order up to the first TRUE one, and then that branch; `COALESCE` evaluates arguments up
//!   to the first that is not NULL.
//!
//! **Numbers.** BIGINT results outside 64 bits fail (`BIGINT out of range`); `/` truncates toward zero, `%` has the sign of
//! the dividend (so `x % -1` is 0, also for the least BIGINT), a zero divisor fails (`division by zero`). DECIMAL operands
//! of `+ - %` are first brought to the result's scale, then the operation is exact; `*` and `/` are exact and rounded once, half
//! away from zero, to the result's scale; an operand, or a result, beyond 38 digits fails. DOUBLE is IEEE 754 with
//! these rules of PostgreSQL's: a zero divisor fails whatever the dividend, also for `%`; an infinite result of finite
//! operands fails (`DOUBLE out of range`), in functions too; underflow to zero does not. `NaN = NaN`, NaN is greater
//! than every other number, −0.0 = 0.0. Transcendental functions are those of `libm`, the same bits on every platform.
//!
//! **Times.** Results outside 64 bits of microseconds fail; DATE results are the days whose midnight is a TIMESTAMP.
//! `interval × double` is the product rounded half to even to microseconds, `interval / double` the same quotient,
//! `interval / bigint` truncates toward zero.
//!
//! What single functions do with odd arguments stands at [`Func`], what casts do at [`super::convert`].
//!
//! [`evaluate_lenient`] differs in one point: `/` and `%` by zero, of any type, are NULL.
//!
//! Cost: one pass over the batch per node; no allocation per row except where text is built. What costs more than a few
//! such passes and is needed for less than half of the rows (the right of AND and OR, branches) is computed for those only.

mod arithmetic;
mod cast;
mod compare;
mod logic;
mod math;
mod operand;
mod subset;
mod text;
mod times;

use self::operand::{Done, Errors, Nulls, NullsBuilder, Operand, Outcome, merge, scale_of, union_nulls};
use super::convert::{Message, convert};
use super::{Expr, ExprKind, Func};
use crate::types::{Column, DataType, Value};
use std::borrow::Cow;

/// The result of evaluating an expression over a batch.
#[derive(Clone, Debug)]
pub struct Evaluated<'a> {
    /// One value per row; rows that failed hold NULL. A plain column reference is borrowed.
    pub column: Cow<'a, Column>,
    /// Failed rows in ascending order, with what went wrong (short, lower case: `division by zero`).
    pub errors: Vec<(u32, String)>,
}

/// Evaluates `expr` over `rows` rows of `columns`, each of which has that many rows.
pub fn evaluate<'a>(expr: &Expr, columns: &[&'a Column], rows: usize) -> Evaluated<'a> {
    finish(expr, Context { columns, rows, lenient: false })
}

/// As [`evaluate`], but `/` and `%` by zero are NULL: the rule after the aggregation.
pub fn evaluate_lenient<'a>(expr: &Expr, columns: &[&'a Column], rows: usize) -> Evaluated<'a> {
    finish(expr, Context { columns, rows, lenient: true })
}

/// Evaluates `expr` on one row of values, by the same code.
///
/// # Errors
/// The row's failure, or a value of another type than the expression's column.
pub fn evaluate_row(expr: &Expr, row: &[Value]) -> Result<Value, String> {
    one_row(expr, row, false)
}

/// As [`evaluate_row`], with division by zero as NULL.
///
/// # Errors
/// As [`evaluate_row`].
pub fn evaluate_row_lenient(expr: &Expr, row: &[Value]) -> Result<Value, String> {
    one_row(expr, row, true)
}

fn one_row(expr: &Expr, row: &[Value], lenient: bool) -> Result<Value, String> {
    let mut types: Vec<Option<&DataType>> = vec![None; row.len()];
    column_types(expr, &mut types);
    let mut columns = Vec::with_capacity(row.len());
    for (index, (value, dtype)) in row.iter().zip(&types).enumerate() {
        let Some(dtype) = dtype else {
            // Not read.
            columns.push(Column::constant(DataType::Boolean, &Value::Null, 1));
            continue;
        };
        if !fits(value, dtype) {
            return Err(format!("column {index} takes {dtype}, found {value:?}"));
        }
        let value = normal(value, dtype).map_err(Message::into_owned)?;
        columns.push(Column::constant((*dtype).clone(), &value, 1));
    }
    let columns: Vec<&Column> = columns.iter().collect();
    let out = finish(expr, Context { columns: &columns, rows: 1, lenient });
    match out.errors.into_iter().next() {
        Some((_, message)) => Err(message),
        None => Ok(out.column.value(0)),
    }
}

fn column_types<'e>(expr: &'e Expr, types: &mut [Option<&'e DataType>]) {
    if let ExprKind::Column(index) = expr.kind
        && let Some(slot) = types.get_mut(index)
    {
        *slot = Some(&expr.dtype);
    }
    for child in expr.children() {
        column_types(child, types);
    }
}

fn fits(value: &Value, dtype: &DataType) -> bool {
    matches!(
        (value, dtype),
        (Value::Null, _)
            | (Value::Boolean(_), DataType::Boolean)
            | (Value::BigInt(_), DataType::BigInt)
            | (Value::Double(_), DataType::Double)
            | (Value::Decimal(..), DataType::Decimal { .. })
            | (Value::Text(_), DataType::Text)
            | (Value::Timestamp(_), DataType::Timestamp)
            | (Value::Date(_), DataType::Date)
            | (Value::Interval(_), DataType::Interval)
            | (Value::List(_), DataType::List(_))
    )
}

/// The value at its type's scale.
fn normal<'v>(value: &'v Value, dtype: &DataType) -> Result<Cow<'v, Value>, Message> {
    match value {
        Value::Decimal(_, scale) if *scale != scale_of(dtype) => convert(value, dtype).map(Cow::Owned),
        value => Ok(Cow::Borrowed(value)),
    }
}

fn finish<'a>(expr: &Expr, context: Context<'_, 'a>) -> Evaluated<'a> {
    let Outcome { operand, errors } = context.eval(expr);
    let column = match operand {
        Operand::Rows(column) => column,
        Operand::One(value) => Cow::Owned(Column::constant(expr.dtype.clone(), &value, context.rows)),
    };
    Evaluated { column, errors: errors.into_iter().map(|(row, why)| (row, why.into_owned())).collect() }
}

/// A batch being evaluated.
#[derive(Clone, Copy)]
struct Context<'c, 'a> {
    columns: &'c [&'a Column],
    rows: usize,
    lenient: bool,
}

impl<'a> Context<'_, 'a> {
    fn eval(self, expr: &Expr) -> Outcome<'a> {
        match &expr.kind {
            ExprKind::Column(index) => self.column(*index),
            ExprKind::Literal(value) => match normal(value, &expr.dtype) {
                Ok(value) => Outcome { operand: Operand::One(value.into_owned()), errors: Errors::new() },
                Err(why) => self.fail_all(why),
            },
            ExprKind::Call(func, args) => self.call(*func, args, &expr.dtype),
            ExprKind::And(a, b) => logic::and_or(self, a, b, true),
            ExprKind::Or(a, b) => logic::and_or(self, a, b, false),
            ExprKind::IsNull(a) => logic::is_null(self, a),
            ExprKind::Case(whens, otherwise) => logic::case(self, whens, otherwise.as_deref(), &expr.dtype),
            ExprKind::Coalesce(args) => logic::coalesce(self, args, &expr.dtype),
            ExprKind::Cast(a) => self.cast(a, &expr.dtype),
        }
    }

    fn column(self, index: usize) -> Outcome<'a> {
        let column = self.columns.get(index).filter(|c| c.len() == self.rows);
        debug_assert!(column.is_some(), "column {index} is there, with a value for each of {} rows", self.rows);
        let operand = match column {
            Some(column) => Operand::Rows(Cow::Borrowed(*column)),
            None => Operand::One(Value::Null),
        };
        Outcome { operand, errors: Errors::new() }
    }

    /// A failure that does not depend on the row.
    fn fail_all(self, why: Message) -> Outcome<'a> {
        let errors = (0..self.rows as u32).map(|row| (row, why.clone())).collect();
        Outcome { operand: Operand::One(Value::Null), errors }
    }

    fn call(self, func: Func, args: &[Expr], dtype: &DataType) -> Outcome<'a> {
        let mut operands = Vec::with_capacity(args.len());
        let mut failures = Vec::new();
        for arg in args {
            let outcome = self.eval(arg);
            operands.push(outcome.operand);
            failures.push(outcome.errors);
        }
        let call = Call { func, operands: &operands, args, dtype, lenient: self.lenient };
        self.apply(&operands, merge(failures), is_strict(func), dtype, |nulls, rows| call.run(nulls, rows))
    }

    fn cast(self, arg: &Expr, dtype: &DataType) -> Outcome<'a> {
        let Outcome { operand, errors } = self.eval(arg);
        if arg.dtype == *dtype {
            return Outcome { operand, errors };
        }
        let operands = [operand];
        self.apply(&operands, errors, true, dtype, |nulls, rows| {
            let [operand] = &operands;
            cast::cast(operand, &arg.dtype, dtype, nulls, rows)
        })
    }

    /// Runs a kernel: once if all operands are single values, else over the rows.
    fn apply(
        self,
        operands: &[Operand<'_>],
        failed: Errors,
        strict: bool,
        dtype: &DataType,
        kernel: impl FnOnce(Nulls, usize) -> Done,
    ) -> Outcome<'a> {
        let constant = operands.iter().all(Operand::is_one);
        let null_operand = operands.iter().any(|o| matches!(o, Operand::One(Value::Null)));
        if (strict && null_operand) || (constant && !failed.is_empty()) {
            // A single value may only fail everywhere.
            let everywhere = failed.is_empty() || failed.len() == self.rows;
            let nulls = || Operand::Rows(Cow::Owned(Column::constant(dtype.clone(), &Value::Null, self.rows)));
            return Outcome { operand: if everywhere { Operand::One(Value::Null) } else { nulls() }, errors: failed };
        }
        let rows = if constant { 1 } else { self.rows };
        let nulls = if strict { union_nulls(operands) } else { None };
        let Done { data, nulls, errors } = kernel(nulls, rows);
        let mut column = Column { dtype: dtype.clone(), data, nulls };
        if constant {
            return match errors.into_iter().next() {
                Some((_, why)) => self.fail_all(why),
                None => Outcome { operand: Operand::One(column.value(0)), errors: Errors::new() },
            };
        }
        if !strict && !failed.is_empty() {
            column = without(column, &failed);
        }
        let errors = if failed.is_empty() { errors } else { merge([failed, errors]) };
        Outcome { operand: Operand::Rows(Cow::Owned(column)), errors }
    }
}

/// The column with NULL in the rows that failed.
fn without(column: Column, failed: &Errors) -> Column {
    let mut keep: Vec<u32> = vec![0; column.len()];
    for (row, _) in failed {
        if let Some(slot) = keep.get_mut(*row as usize) {
            *slot = logic::NONE;
        }
    }
    let dtype = column.dtype.clone();
    logic::select(&dtype, &[Operand::Rows(Cow::Owned(column))], &keep)
}

fn is_strict(func: Func) -> bool {
    !matches!(func, Func::NotDistinct | Func::NullIf | Func::Greatest | Func::Least)
}

/// A function with its operands.
struct Call<'c, 'o> {
    func: Func,
    operands: &'c [Operand<'o>],
    args: &'c [Expr],
    dtype: &'c DataType,
    lenient: bool,
}

impl Call<'_, '_> {
    fn run(&self, nulls: Nulls, rows: usize) -> Done {
        use Func::*;
        match (self.operands, self.args) {
            ([a, b], [x, y]) => match self.func {
                Add | Sub | Mul | Div | Mod => {
                    let types = arithmetic::Types { a: &x.dtype, b: &y.dtype, out: self.dtype };
                    return arithmetic::arithmetic(self.func, (a, b), types, nulls, rows, self.lenient);
                }
                Eq | NotEq | Lt | LtEq | Gt | GtEq => {
                    return compare::compare(self.func, (a, &x.dtype), (b, &y.dtype), nulls, rows);
                }
                NotDistinct => return compare::not_distinct((a, &x.dtype), (b, &y.dtype), rows),
                NullIf => return compare::null_if((a, &x.dtype), (b, &y.dtype), self.dtype, rows),
                _ => {}
            },
            ([a], [x]) => match self.func {
                DateTrunc(unit) => return times::date_trunc(unit, a, nulls, rows),
                Extract(unit) => return times::extract(unit, a, nulls, rows),
                Not => {
                    return Done::plain(operand::zip(a.bools(), operand::Vals::One(()), rows, |v, ()| !v), nulls);
                }
                Neg | Abs | Sign | Round | Floor | Ceil | Trunc => {
                    return math::number(self.func, a, &x.dtype, self.dtype, nulls, rows);
                }
                _ => {}
            },
            _ => {}
        }
        match self.func {
            Greatest | Least => compare::extreme(self.func, self.operands, self.dtype, rows),
            DateBin => times::date_bin(self.operands, nulls, rows),
            Round => math::round_places(self.operands, self.args, self.dtype, nulls, rows),
            Sqrt | Power | Exp | Ln | Log10 => math::double(self.func, self.operands, nulls, rows),
            func => text::text(func, self.operands, nulls, rows),
        }
    }
}

/// What a call with the wrong operands gives, which [`super::build`] never makes.
fn no_such_call(rows: usize, dtype: &DataType) -> Done {
    debug_assert!(false, "a call that the builder does not make");
    let column = Column::constant(dtype.clone(), &Value::Null, rows);
    let errors = (0..rows as u32).map(|row| (row, Cow::Borrowed("ill-typed expression"))).collect();
    Done { data: column.data, nulls: column.nulls, errors }
}

/// Marks of the rows that are NULL in a list of branches taken; see [`logic::select`].
fn marks(rows: usize) -> NullsBuilder {
    NullsBuilder { nulls: None, rows }
}

#[cfg(test)]
mod tests;
