//! Expressions one row at a time: the second opinion on what the vectorised evaluator says.
//!
//! Written from the documented meaning of [`crate::expr`] and sharing no code with its evaluator: every case is one arm
//! over single [`Value`]s, decimals are computed on whole numbers of any size and rounded where the type says so.
//! Reading and printing times is shared (`crate::time`), since that is checked on its own.
//!
//! Invariant: whether a row fails agrees with the engine; the words of the message need not. Cost: tree walk per row.

use super::calls::{DIVISION_BY_ZERO, call};
use super::cast::cast;
use crate::expr::{Expr, ExprKind};
use crate::types::Value;

/// The value of `expr` on a row of values, by column index (a column that is missing is NULL).
///
/// # Errors
/// What failed, for instance `division by zero` (lower case, no full stop).
pub fn evaluate(expr: &Expr, row: &[Value]) -> Result<Value, String> {
    walk(expr, row, false)
}

/// The value after the aggregation: a division by zero is NULL there.
///
/// # Errors
/// Any other failure.
pub fn evaluate_lenient(expr: &Expr, row: &[Value]) -> Result<Value, String> {
    walk(expr, row, true)
}

fn walk(expr: &Expr, row: &[Value], lenient: bool) -> Result<Value, String> {
    let evaluate = |expr: &Expr, row: &[Value]| walk(expr, row, lenient);
    match &expr.kind {
        ExprKind::Column(index) => Ok(row.get(*index).cloned().unwrap_or(Value::Null)),
        ExprKind::Literal(value) => Ok(value.clone()),
        ExprKind::Call(func, args) => {
            let args = args.iter().map(|arg| evaluate(arg, row)).collect::<Result<Vec<_>, _>>()?;
            match call(*func, &args, &expr.dtype) {
                Err(message) if lenient && message == DIVISION_BY_ZERO => Ok(Value::Null),
                result => result,
            }
        }
        ExprKind::And(a, b) => connective(evaluate(a, row)?, || evaluate(b, row), false),
        ExprKind::Or(a, b) => connective(evaluate(a, row)?, || evaluate(b, row), true),
        ExprKind::IsNull(a) => Ok(Value::Boolean(evaluate(a, row)?.is_null())),
        ExprKind::Case(whens, otherwise) => {
            for (condition, value) in whens {
                if is_true(&evaluate(condition, row)?) {
                    return evaluate(value, row);
                }
            }
            otherwise.as_ref().map_or(Ok(Value::Null), |value| evaluate(value, row))
        }
        ExprKind::Coalesce(args) => {
            for arg in args {
                let value = evaluate(arg, row)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            Ok(Value::Null)
        }
        ExprKind::Cast(a) => cast(&evaluate(a, row)?, &expr.dtype),
    }
}

/// Whether a condition holds: NULL does not.
pub fn is_true(value: &Value) -> bool {
    matches!(value, Value::Boolean(true))
}

/// `AND` (`decisive` false) and `OR` (`decisive` true) of three-valued logic. The decisive value on the left settles
/// it without a look at the right.
fn connective(left: Value, right: impl FnOnce() -> Result<Value, String>, decisive: bool) -> Result<Value, String> {
    if matches!(left, Value::Boolean(x) if x == decisive) {
        return Ok(left);
    }
    let right = right()?;
    Ok(match (&left, &right) {
        (_, Value::Boolean(x)) if *x == decisive => right,
        (Value::Null, _) | (_, Value::Null) => Value::Null,
        _ => right,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Func;
    use crate::types::DataType::{self, BigInt, Boolean, Double};

    fn int(v: i64) -> Expr {
        Expr::literal(Value::BigInt(v), BigInt)
    }
    fn op(func: Func, args: Vec<Expr>, dtype: DataType) -> Expr {
        Expr { kind: ExprKind::Call(func, args), dtype }
    }
    fn boolean(v: Option<bool>) -> Expr {
        Expr::literal(v.map_or(Value::Null, Value::Boolean), Boolean)
    }
    fn failing() -> Expr {
        op(Func::Eq, vec![op(Func::Div, vec![int(1), int(0)], BigInt), int(1)], Boolean)
    }
    fn run(expr: &Expr) -> Result<Value, String> {
        evaluate(expr, &[Value::BigInt(7), Value::Null])
    }

    #[test]
    fn three_valued_logic_and_which_failures_count() {
        let and = |a, b| Expr { kind: ExprKind::And(Box::new(a), Box::new(b)), dtype: Boolean };
        let or = |a, b| Expr { kind: ExprKind::Or(Box::new(a), Box::new(b)), dtype: Boolean };
        let all = [Some(true), Some(false), None];
        for a in all {
            for b in all {
                let expected_and = match (a, b) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                };
                let expected_or = match (a, b) {
                    (Some(true), _) | (_, Some(true)) => Some(true),
                    (Some(false), Some(false)) => Some(false),
                    _ => None,
                };
                let value = |v: Option<bool>| Ok(v.map_or(Value::Null, Value::Boolean));
                assert_eq!(run(&and(boolean(a), boolean(b))), value(expected_and));
                assert_eq!(run(&or(boolean(a), boolean(b))), value(expected_or));
            }
        }
        assert_eq!(run(&and(boolean(Some(false)), failing())), Ok(Value::Boolean(false)));
        assert_eq!(run(&or(boolean(Some(true)), failing())), Ok(Value::Boolean(true)));
        assert!(run(&and(boolean(None), failing())).is_err());
        assert!(run(&and(failing(), boolean(Some(false)))).is_err());
        let case = Expr {
            kind: ExprKind::Case(vec![(boolean(None), int(1)), (boolean(Some(true)), int(2))], None),
            dtype: BigInt,
        };
        assert_eq!(run(&case), Ok(Value::BigInt(2)));
        let column = |i| Expr::column(i, BigInt);
        let coalesce = Expr { kind: ExprKind::Coalesce(vec![column(1), column(0), failing()]), dtype: BigInt };
        assert_eq!(run(&coalesce), Ok(Value::BigInt(7)));
        let null_plus = op(Func::Add, vec![column(1), op(Func::Div, vec![int(1), int(0)], BigInt)], BigInt);
        assert!(run(&null_plus).is_err(), "an operand next to a NULL is evaluated");
        assert_eq!(evaluate_lenient(&null_plus, &[]), Ok(Value::Null));
    }

    #[test]
    fn arithmetic() {
        let dec = |v, precision, scale| Expr::literal(Value::Decimal(v, scale), DataType::Decimal { precision, scale });
        let result = DataType::Decimal { precision: 38, scale: 6 };
        let third = op(Func::Div, vec![dec(-200, 5, 2), dec(3, 1, 0)], result.clone());
        assert_eq!(run(&third), Ok(Value::Decimal(-666_667, 6)));
        assert_eq!(
            run(&op(Func::Mul, vec![dec(15, 2, 1), dec(15, 2, 1)], DataType::Decimal { precision: 4, scale: 2 })),
            Ok(Value::Decimal(225, 2))
        );
        assert_eq!(
            run(&op(Func::Sign, vec![dec(-250, 5, 2)], DataType::Decimal { precision: 5, scale: 2 })),
            Ok(Value::Decimal(-100, 2))
        );
        assert_eq!(
            run(&op(Func::Floor, vec![dec(-250, 5, 2)], DataType::Decimal { precision: 4, scale: 0 })),
            Ok(Value::Decimal(-3, 0))
        );
        let digits = op(Func::Round, vec![dec(12_345, 5, 2), int(1)], DataType::Decimal { precision: 5, scale: 1 });
        assert_eq!(run(&digits), Ok(Value::Decimal(1_235, 1)));
        assert_eq!(run(&op(Func::Round, vec![int(1250), int(-2)], BigInt)), Ok(Value::BigInt(1300)));
        assert_eq!(run(&op(Func::Mod, vec![int(i64::MIN), int(-1)], BigInt)), Ok(Value::BigInt(0)));
        assert!(run(&op(Func::Div, vec![int(i64::MIN), int(-1)], BigInt)).is_err());
        let double = |x| Expr::literal(Value::Double(x), Double);
        assert!(run(&op(Func::Mul, vec![double(1e200), double(1e200)], Double)).is_err());
        assert!(run(&op(Func::Div, vec![double(f64::NAN), double(0.0)], Double)).is_err());
        assert_eq!(run(&op(Func::Round, vec![double(2.5)], Double)), Ok(Value::Double(2.0)));
        let hour = Expr::literal(Value::Interval(3), DataType::Interval);
        assert_eq!(run(&op(Func::Div, vec![hour.clone(), int(-2)], DataType::Interval)), Ok(Value::Interval(-1)));
        assert_eq!(run(&op(Func::Mul, vec![hour, double(0.5)], DataType::Interval)), Ok(Value::Interval(2)));
        assert_eq!(run(&op(Func::NullIf, vec![int(1), int(1)], BigInt)), Ok(Value::Null));
        assert_eq!(run(&op(Func::Least, vec![Expr::column(1, BigInt), int(1)], BigInt)), Ok(Value::BigInt(1)));
        assert_eq!(
            run(&op(Func::NotDistinct, vec![Expr::column(1, BigInt), int(1)], Boolean)),
            Ok(Value::Boolean(false))
        );
    }
}
