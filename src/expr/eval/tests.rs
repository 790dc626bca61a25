//! Rules by example, and the vectorised evaluator against a naive one.

use super::*;
use crate::expr::build::{
    and, call, case, cast, coalesce, constant, function, in_list, is_null, not, null_literal, number_literal, or,
    text_literal,
};
use crate::expr::decimal;
use crate::types::{ColumnData, compare_decimals};
use proptest::prelude::*;

fn num(text: &str) -> Expr {
    number_literal(text).unwrap()
}
fn lit(text: &str) -> Expr {
    text_literal(text)
}
fn typed(text: &str, dtype: DataType) -> Expr {
    cast(lit(text), dtype).unwrap()
}
fn dec(precision: u8, scale: u8) -> DataType {
    DataType::Decimal { precision, scale }
}
fn op(func: Func, a: Expr, b: Expr) -> Expr {
    call(func, vec![a, b]).unwrap()
}
fn fun(name: &str, args: Vec<Expr>) -> Expr {
    function(name, args).unwrap()
}
/// The constant as text, failures as `! why`.
fn show(expr: &Expr) -> String {
    match constant(expr).expect("no columns") {
        Ok(Value::Null) => "NULL".into(),
        Ok(value) => {
            let mut out = String::new();
            crate::expr::convert::write_value(&value, &mut out);
            out
        }
        Err(why) => format!("! {why}"),
    }
}
fn shown(name: &str, args: Vec<Expr>) -> String {
    show(&fun(name, args))
}
/// An expression that is a column, so that nothing is folded, evaluated on one value.
fn on(value: Value, dtype: DataType, f: impl FnOnce(Expr) -> Expr) -> String {
    let expr = f(Expr::column(0, dtype));
    match evaluate_row(&expr, &[value]) {
        Ok(Value::Null) => "NULL".into(),
        Ok(value) => {
            let mut out = String::new();
            crate::expr::convert::write_value(&value, &mut out);
            out
        }
        Err(why) => format!("! {why}"),
    }
}

#[test]
fn number_literals_and_the_tower() {
    assert_eq!(num("5").dtype, DataType::BigInt);
    assert_eq!(num("12.50").dtype, dec(4, 2));
    assert_eq!(num(".05").dtype, dec(2, 2));
    assert_eq!(num("0.05").dtype, dec(2, 2));
    assert_eq!(num("9223372036854775808").dtype, dec(19, 0));
    assert_eq!(num("1e3").dtype, DataType::Double);
    assert!(number_literal(&"9".repeat(39)).is_err());
    assert!(number_literal("1e999").is_err());
    let least = call(Func::Neg, vec![num("9223372036854775808")]).unwrap();
    assert_eq!(least, Expr::literal(Value::BigInt(i64::MIN), DataType::BigInt));
    let column = |d| Expr::column(0, d);
    assert_eq!(op(Func::Add, column(DataType::BigInt), num("1")).dtype, DataType::BigInt);
    assert_eq!(op(Func::Add, column(DataType::BigInt), num("1.5")).dtype, dec(21, 1));
    assert_eq!(op(Func::Add, column(dec(10, 2)), num("1")).dtype, dec(11, 2));
    assert_eq!(op(Func::Mul, column(dec(10, 2)), column(dec(12, 4))).dtype, dec(22, 6));
    assert_eq!(op(Func::Mul, column(dec(38, 20)), column(dec(38, 20))).dtype, dec(38, 38));
    assert_eq!(op(Func::Div, column(dec(10, 2)), column(DataType::BigInt)).dtype, dec(38, 6));
    assert_eq!(op(Func::Div, column(dec(10, 2)), column(dec(10, 8))).dtype, dec(38, 8));
    assert_eq!(op(Func::Add, column(dec(38, 2)), column(dec(38, 2))).dtype, dec(38, 2));
    assert_eq!(op(Func::Add, column(dec(10, 2)), column(DataType::Double)).dtype, DataType::Double);
    assert_eq!(fun("round", vec![column(dec(10, 4)), num("2")]).dtype, dec(9, 2));
    assert_eq!(fun("round", vec![column(dec(10, 4))]).dtype, dec(7, 0));
}

#[test]
fn untyped_literals_take_the_type_asked_for() {
    let time = || Expr::column(0, DataType::Timestamp);
    let compared = op(Func::Lt, time(), lit("2026-01-01"));
    assert_eq!(compared.to_string(), "#0 < TIMESTAMP '2026-01-01T00:00:00Z'");
    assert!(call(Func::Lt, vec![time(), lit("yesterday")]).unwrap_err().message.contains("yesterday"));
    assert_eq!(op(Func::Add, time(), lit("1 hour")).to_string(), "#0 + INTERVAL '1h'");
    assert_eq!(op(Func::Sub, time(), lit("2026-01-01")).dtype, DataType::Interval);
    let text = || Expr::column(0, DataType::Text);
    let error = call(Func::Eq, vec![text(), num("5")]).unwrap_err();
    assert_eq!(error.message, "operator = does not take TEXT and BIGINT");
    assert_eq!(error.hint.as_deref(), Some("CAST the text AS BIGINT"));
    // Real text is never converted.
    let real = cast(lit("5"), DataType::Text).unwrap();
    assert!(call(Func::Eq, vec![real, num("5")]).is_err());
    assert_eq!(op(Func::Eq, lit("5"), num("5")), op(Func::Eq, num("5"), num("5")));
    assert!(call(Func::Eq, vec![num("5"), lit("1.5")]).is_err());
    assert_eq!(op(Func::Add, num("1.5"), lit("2.25")).dtype, dec(4, 2));
    assert!(call(Func::Add, vec![lit("1"), lit("2")]).is_err());
    assert_eq!(op(Func::Add, num("1"), null_literal()).dtype, DataType::BigInt);
    assert_eq!(and(lit("true"), null_literal()).unwrap().dtype, DataType::Boolean);
    assert!(and(num("1"), lit("true")).is_err());
    let c = coalesce(vec![null_literal(), Expr::column(0, DataType::BigInt), num("1.5")]).unwrap();
    assert_eq!(c.dtype, dec(20, 1));
    assert!(coalesce(vec![Expr::column(0, DataType::BigInt), Expr::column(1, DataType::Text)]).is_err());
    assert_eq!(case(vec![(lit("t"), null_literal())], None).unwrap().dtype, DataType::Text);
    let dated = op(Func::Lt, Expr::column(0, DataType::Date), time());
    assert_eq!(dated.to_string(), "CAST(#0 AS TIMESTAMP) < #0");
    assert!(cast(Expr::column(0, DataType::BigInt), DataType::Timestamp).is_err());
    assert!(cast(lit("x"), DataType::BigInt).is_err());
}

#[test]
fn integers() {
    let max = || num("9223372036854775807");
    assert_eq!(show(&op(Func::Add, max(), num("1"))), "! BIGINT out of range");
    assert_eq!(show(&op(Func::Div, num("-7"), num("2"))), "-3");
    assert_eq!(show(&op(Func::Mod, call(Func::Neg, vec![num("7")]).unwrap(), num("2"))), "-1");
    assert_eq!(show(&op(Func::Div, num("1"), num("0"))), "! division by zero");
    let least = || Expr::literal(Value::BigInt(i64::MIN), DataType::BigInt);
    let minus_one = || call(Func::Neg, vec![num("1")]).unwrap();
    assert_eq!(show(&op(Func::Div, least(), minus_one())), "! BIGINT out of range");
    assert_eq!(show(&op(Func::Mod, least(), minus_one())), "0");
    assert_eq!(shown("abs", vec![least()]), "! BIGINT out of range");
    assert_eq!(shown("round", vec![num("125"), minus_one()]), "130");
    assert_eq!(shown("round", vec![max(), minus_one()]), "! BIGINT out of range");
    assert_eq!(show(&op(Func::Add, null_literal(), op(Func::Div, num("1"), num("0")))), "! division by zero");
}

#[test]
fn decimals() {
    assert_eq!(show(&op(Func::Add, num("0.10"), num("0.205"))), "0.305");
    assert_eq!(show(&op(Func::Mul, num("1.5"), num("1.25"))), "1.875");
    assert_eq!(show(&op(Func::Div, num("2"), num("3.0"))), "0.666667");
    assert_eq!(show(&op(Func::Div, num("1.5"), num("0.00"))), "! division by zero");
    assert_eq!(show(&op(Func::Mod, num("7.5"), num("2"))), "1.5");
    let big = || num(&"9".repeat(38));
    assert_eq!(show(&op(Func::Add, big(), num("1.0"))), "! DECIMAL(38,1) out of range");
    assert_eq!(show(&op(Func::Mul, big(), num("10.0"))), "! DECIMAL(38,1) out of range");
    assert_eq!(show(&op(Func::Gt, big(), num("0.00000000000000000000000000000000000001"))), "true");
    assert_eq!(shown("round", vec![num("2.345"), num("2")]), "2.35");
    assert_eq!(shown("round", vec![call(Func::Neg, vec![num("2.5")]).unwrap()]), "-3");
    assert_eq!(shown("floor", vec![call(Func::Neg, vec![num("2.1")]).unwrap()]), "-3");
    assert_eq!(shown("ceil", vec![num("2.1")]), "3");
    assert_eq!(shown("trunc", vec![call(Func::Neg, vec![num("2.9")]).unwrap()]), "-2");
    assert_eq!(shown("sign", vec![num("0.25")]), "1");
    assert_eq!(show(&cast(num("2.5"), DataType::BigInt).unwrap()), "3");
    assert!(cast(num("99.995"), dec(4, 2)).unwrap_err().message.contains("DECIMAL(4,2) out of range"));
    assert_eq!(
        on(Value::Decimal(99_995, 3), dec(8, 3), |c| cast(c, dec(4, 2)).unwrap()),
        "! DECIMAL(4,2) out of range"
    );
    // A BIGINT column and a DECIMAL meet as DECIMAL.
    assert_eq!(on(Value::BigInt(3), DataType::BigInt, |c| op(Func::Mul, c, num("0.5"))), "1.5");
}

#[test]
fn doubles() {
    let d = |text: &str| typed(text, DataType::Double);
    assert_eq!(show(&op(Func::Mul, d("1e200"), d("1e200"))), "! DOUBLE out of range");
    assert_eq!(show(&op(Func::Mul, d("inf"), d("2"))), "Infinity");
    assert_eq!(show(&op(Func::Sub, d("inf"), d("inf"))), "NaN");
    assert_eq!(show(&op(Func::Mul, d("1e-200"), d("1e-200"))), "0.0");
    assert_eq!(show(&op(Func::Div, d("NaN"), d("-0"))), "! division by zero");
    assert_eq!(show(&op(Func::Mod, d("-7.5"), d("2"))), "-1.5");
    assert_eq!(show(&op(Func::Gt, d("NaN"), d("inf"))), "true");
    assert_eq!(show(&op(Func::Eq, d("NaN"), d("NaN"))), "true");
    assert_eq!(show(&op(Func::Eq, d("-0"), d("0"))), "true");
    assert_eq!(show(&op(Func::Lt, d("-0"), d("0"))), "false");
    assert_eq!(shown("round", vec![d("2.5")]), "2.0");
    assert!(function("round", vec![d("2.5"), num("1")]).is_err());
    assert_eq!(shown("sqrt", vec![num("2")]), "1.4142135623730951");
    assert_eq!(shown("sqrt", vec![d("-1")]), "! square root of a negative number");
    assert_eq!(shown("ln", vec![num("0")]), "! logarithm of zero");
    assert_eq!(shown("log", vec![num("1000")]), "3.0");
    assert_eq!(shown("power", vec![num("2"), num("0.5")]), "1.4142135623730951");
    assert_eq!(
        shown("power", vec![num("0"), call(Func::Neg, vec![num("1")]).unwrap()]),
        "! zero raised to a negative power"
    );
    assert_eq!(shown("pow", vec![d("-8"), d("0.5")]), "! negative number raised to a fraction");
    assert_eq!(shown("exp", vec![num("1000")]), "! DOUBLE out of range");
    assert_eq!(shown("exp", vec![num("1")]), "2.7182818284590455");
    assert_eq!(on(Value::Double(2.5), DataType::Double, |c| cast(c, DataType::BigInt).unwrap()), "2");
    assert_eq!(
        on(Value::Double(1e19), DataType::Double, |c| cast(c, DataType::BigInt).unwrap()),
        "! BIGINT out of range"
    );
    assert_eq!(on(Value::Double(-0.0), DataType::Double, |c| cast(c, DataType::Text).unwrap()), "0.0");
    assert_eq!(on(Value::BigInt(7), DataType::BigInt, |c| op(Func::Div, c, num("2e0"))), "3.5");
}

#[test]
fn texts() {
    let s = |t: &str| lit(t);
    let n = |v: i64| Expr::literal(Value::BigInt(v), DataType::BigInt);
    assert_eq!(show(&op(Func::Concat, s("n="), num("1.50"))), "n=1.50");
    assert_eq!(shown("concat", vec![s("a"), null_literal(), n(1)]), "a1");
    assert_eq!(shown("upper", vec![s("straße")]), "STRASSE");
    assert_eq!(shown("lower", vec![s("ÄB")]), "äb");
    assert_eq!(shown("length", vec![s("äöü")]), "3");
    assert_eq!(shown("substr", vec![s("äbcdef"), n(2), n(3)]), "bcd");
    assert_eq!(shown("substring", vec![s("abcdef"), n(-1), n(4)]), "ab");
    assert_eq!(shown("substr", vec![s("abc"), n(2)]), "bc");
    assert_eq!(shown("substr", vec![s("abc"), n(9), n(i64::MAX)]), "");
    assert_eq!(shown("substr", vec![s("abc"), n(1), n(-1)]), "! negative length of substr");
    assert_eq!(shown("trim", vec![s("  a b ")]), "a b");
    assert_eq!(shown("btrim", vec![s("xyaxy"), s("yx")]), "a");
    assert_eq!(shown("ltrim", vec![s("xxa"), s("x")]), "a");
    assert_eq!(shown("rtrim", vec![s("a  ")]), "a");
    assert_eq!(shown("replace", vec![s("aXbX"), s("X"), s("--")]), "a--b--");
    assert_eq!(shown("replace", vec![s("ab"), s(""), s("-")]), "ab");
    assert_eq!(shown("strpos", vec![s("äbc"), s("c")]), "3");
    assert_eq!(shown("strpos", vec![s("abc"), s("")]), "1");
    assert_eq!(shown("strpos", vec![s("abc"), s("x")]), "0");
    assert_eq!(shown("starts_with", vec![s("abc"), s("ab")]), "true");
    assert_eq!(shown("split_part", vec![s("a,b,c"), s(","), n(2)]), "b");
    assert_eq!(shown("split_part", vec![s("a,b,c"), s(","), n(-1)]), "c");
    assert_eq!(shown("split_part", vec![s("a,b,c"), s(","), n(-4)]), "");
    assert_eq!(shown("split_part", vec![s("a"), s(""), n(i64::MIN)]), "");
    assert_eq!(shown("split_part", vec![s("a"), s(","), n(0)]), "! field 0 of split_part");
    assert_eq!(shown("left", vec![s("äbc"), n(2)]), "äb");
    assert_eq!(shown("left", vec![s("äbc"), n(-1)]), "äb");
    assert_eq!(shown("right", vec![s("äbc"), n(2)]), "bc");
    assert_eq!(shown("right", vec![s("äbc"), n(-1)]), "bc");
    assert_eq!(shown("right", vec![s("abc"), n(9)]), "abc");
    assert_eq!(shown("right", vec![s("abc"), n(i64::MIN)]), "");
    assert_eq!(show(&op(Func::Like, s("abc"), s("a_%"))), "true");
    assert_eq!(show(&op(Func::ILike, s("ABC"), s("a%"))), "true");
    assert!(call(Func::Like, vec![s("a"), s("a\\")]).is_err());
    assert_eq!(
        on(Value::Text("\\".into()), DataType::Text, |c| op(Func::Like, s("a"), c)),
        "! LIKE pattern must not end with a backslash"
    );
    assert!(function("lower", vec![num("1")]).is_err());
}

#[test]
fn times() {
    let t = |text: &str| typed(text, DataType::Timestamp);
    let i = |text: &str| typed(text, DataType::Interval);
    let d = |text: &str| typed(text, DataType::Date);
    assert_eq!(show(&op(Func::Add, t("2026-01-31 12:00:00"), i("1 day"))), "2026-02-01T12:00:00Z");
    assert_eq!(show(&op(Func::Add, i("1h"), d("2026-01-31"))), "2026-01-31T01:00:00Z");
    assert_eq!(show(&op(Func::Sub, t("2026-01-02"), lit("2026-01-01 12:00:00"))), "12h");
    assert_eq!(show(&op(Func::Sub, d("2026-03-01"), d("2026-02-01"))), "28");
    assert_eq!(show(&op(Func::Add, d("2026-02-28"), num("1"))), "2026-03-01");
    assert_eq!(show(&op(Func::Sub, d("2026-03-01"), num("9223372036854775807"))), "! DATE out of range");
    assert_eq!(show(&op(Func::Mul, num("3"), i("20m"))), "1h");
    assert_eq!(show(&op(Func::Mul, i("1s"), num("0.5"))), "500ms");
    assert_eq!(show(&op(Func::Div, i("1s"), num("3"))), "333ms333us");
    assert_eq!(show(&op(Func::Div, i("1s"), num("0"))), "! division by zero");
    assert_eq!(show(&op(Func::Mul, i("1s"), lit("nan"))), "! INTERVAL out of range");
    assert_eq!(
        show(&op(Func::Add, t("2026-01-01"), Expr::literal(Value::Interval(i64::MAX), DataType::Interval))),
        "! TIMESTAMP out of range"
    );
    assert!(call(Func::Add, vec![t("2026-01-01"), t("2026-01-01")]).is_err());
    assert!(call(Func::Mul, vec![i("1s"), i("1s")]).is_err());
    assert_eq!(shown("date_trunc", vec![lit("quarter"), d("2026-06-30")]), "2026-04-01T00:00:00Z");
    assert!(function("date_trunc", vec![lit("dow"), d("2026-06-30")]).is_err());
    assert_eq!(shown("extract", vec![lit("second"), t("2026-06-30 01:02:03.5")]), "3.500000");
    assert_eq!(shown("date_part", vec![lit("epoch"), t("1970-01-01 00:00:01")]), "1.000000");
    assert_eq!(shown("extract", vec![lit("epoch"), i("1500ms")]), "1.500000");
    assert_eq!(shown("extract", vec![lit("week"), t("2027-01-01")]), "53");
    assert_eq!(shown("date_bin", vec![lit("15m"), t("1969-12-31 23:59:00")]), "1969-12-31T23:45:00Z");
    assert_eq!(shown("date_bin", vec![i("0s"), t("2026-01-01")]), "! date_bin needs a stride above zero");
    assert_eq!(shown("to_timestamp", vec![num("1.5")]), "1970-01-01T00:00:01.500Z");
    assert_eq!(show(&cast(t("1969-12-31 23:00:00"), DataType::Date).unwrap()), "1969-12-31");
    assert_eq!(show(&op(Func::Eq, d("2026-01-01"), t("2026-01-01"))), "true");
}

#[test]
fn choosing_forms_fail_only_where_they_look() {
    let x = || Expr::column(0, DataType::BigInt);
    let boom = || op(Func::Div, num("1"), x());
    let zero = || op(Func::Eq, x(), num("0"));
    let fails = |expr: &Expr| evaluate_row(expr, &[Value::BigInt(0)]);
    assert_eq!(fails(&or(zero(), op(Func::Gt, boom(), num("0"))).unwrap()), Ok(Value::Boolean(true)));
    assert!(fails(&or(op(Func::Gt, boom(), num("0")), zero()).unwrap()).is_err());
    assert_eq!(fails(&and(not(zero()).unwrap(), op(Func::Gt, boom(), num("0"))).unwrap()), Ok(Value::Boolean(false)));
    let null = || op(Func::Eq, num("1"), null_literal());
    assert!(fails(&and(null(), op(Func::Gt, boom(), num("0"))).unwrap()).is_err());
    assert!(fails(&and(op(Func::Gt, boom(), num("0")), lit("false")).unwrap()).is_err());
    assert_eq!(fails(&and(null(), lit("false")).unwrap()), Ok(Value::Boolean(false)));
    assert_eq!(fails(&case(vec![(zero(), num("7"))], Some(boom())).unwrap()), Ok(Value::BigInt(7)));
    assert!(fails(&case(vec![(zero(), boom())], Some(num("7"))).unwrap()).is_err());
    assert_eq!(fails(&coalesce(vec![x(), boom()]).unwrap()), Ok(Value::BigInt(0)));
    assert!(fails(&is_null(boom())).is_err());
    assert!(fails(&fun("greatest", vec![x(), boom()])).is_err());
    assert_eq!(fails(&in_list(x(), vec![num("1"), num("0.0"), null_literal()]).unwrap()), Ok(Value::Boolean(true)));
    assert_eq!(fails(&in_list(x(), vec![num("1"), null_literal()]).unwrap()), Ok(Value::Null));
    assert_eq!(fails(&in_list(x(), vec![]).unwrap()), Ok(Value::Boolean(false)));
    assert_eq!(evaluate_row_lenient(&boom(), &[Value::BigInt(0)]), Ok(Value::Null));
    assert!(
        evaluate_row_lenient(
            &cast(Expr::column(0, DataType::Text), DataType::BigInt).unwrap(),
            &[Value::Text("x".into())]
        )
        .is_err()
    );
    assert!(evaluate_row(&x(), &[Value::Text("x".into())]).is_err());
}

#[test]
fn failures_name_their_rows() {
    let mut column = Column::new(DataType::BigInt);
    for v in [2, 0, 1, 0] {
        column.push(&Value::BigInt(v));
    }
    column.push(&Value::Null);
    let expr = op(Func::Div, num("6"), Expr::column(0, DataType::BigInt));
    let out = evaluate(&expr, &[&column], 5);
    assert_eq!(out.errors, [(1, "division by zero".to_string()), (3, "division by zero".to_string())]);
    assert_eq!(
        (0..5).map(|r| out.column.value(r)).collect::<Vec<_>>(),
        [Value::BigInt(3), Value::Null, Value::BigInt(6), Value::Null, Value::Null]
    );
    let out = evaluate_lenient(&expr, &[&column], 5);
    assert!(out.errors.is_empty());
    assert!(out.column.is_null(1));
    // A column is not copied, and a constant failure is every row's.
    let out = evaluate(&Expr::column(0, DataType::BigInt), &[&column], 5);
    assert!(matches!(out.column, Cow::Borrowed(_)));
    let out = evaluate(&op(Func::Div, num("1"), num("0")), &[&column], 5);
    assert_eq!(out.errors.len(), 5);
    assert_eq!(evaluate(&expr, &[&Column::new(DataType::BigInt)], 0).column.len(), 0);
}

// ---- against a naive evaluator ----

const TYPES: [DataType; 9] = [
    DataType::BigInt,
    DataType::BigInt,
    DataType::Double,
    DataType::Decimal { precision: 10, scale: 2 },
    DataType::Decimal { precision: 38, scale: 6 },
    DataType::Boolean,
    DataType::Text,
    DataType::Timestamp,
    DataType::Interval,
];

fn col(index: usize) -> Expr {
    Expr::column(index, TYPES[index].clone())
}

/// The documented meaning, one row and one node at a time.
fn naive(expr: &Expr, row: &[Value], lenient: bool) -> Result<Value, String> {
    let go = |e: &Expr| naive(e, row, lenient);
    match &expr.kind {
        ExprKind::Column(index) => Ok(row[*index].clone()),
        ExprKind::Literal(value) => Ok(value.clone()),
        ExprKind::And(a, b) => match go(a)? {
            Value::Boolean(false) => Ok(Value::Boolean(false)),
            left => match (left, go(b)?) {
                (_, Value::Boolean(false)) => Ok(Value::Boolean(false)),
                (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
                _ => Ok(Value::Boolean(true)),
            },
        },
        ExprKind::Or(a, b) => match go(a)? {
            Value::Boolean(true) => Ok(Value::Boolean(true)),
            left => match (left, go(b)?) {
                (_, Value::Boolean(true)) => Ok(Value::Boolean(true)),
                (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
                _ => Ok(Value::Boolean(false)),
            },
        },
        ExprKind::IsNull(a) => Ok(Value::Boolean(go(a)?.is_null())),
        ExprKind::Case(whens, otherwise) => {
            for (condition, value) in whens {
                if go(condition)? == Value::Boolean(true) {
                    return go(value);
                }
            }
            otherwise.as_ref().map_or(Ok(Value::Null), |e| go(e))
        }
        ExprKind::Coalesce(args) => {
            for arg in args {
                let value = go(arg)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            Ok(Value::Null)
        }
        ExprKind::Cast(a) => convert(&go(a)?, &expr.dtype).map_err(Message::into_owned),
        ExprKind::Call(func, args) => {
            let values = args.iter().map(go).collect::<Result<Vec<_>, _>>()?;
            naive_call(*func, &values, &expr.dtype, lenient)
        }
    }
}

fn naive_call(func: Func, values: &[Value], dtype: &DataType, lenient: bool) -> Result<Value, String> {
    use Value::{BigInt, Boolean, Decimal, Double, Interval, Null, Text, Timestamp};
    let range = || format!("{dtype} out of range");
    match func {
        Func::NotDistinct => return Ok(Boolean(values[0] == values[1])),
        Func::NullIf => return Ok(if values[0] == values[1] { Null } else { values[0].clone() }),
        Func::Greatest => {
            // `max` would take the last of equals.
            let greater = |a: &Value, b: &Value| if b > a { b.clone() } else { a.clone() };
            return Ok(values.iter().filter(|v| !v.is_null()).cloned().reduce(|a, b| greater(&a, &b)).unwrap_or(Null));
        }
        Func::Least => return Ok(values.iter().min().cloned().unwrap_or(Null)),
        _ if values.iter().any(Value::is_null) => return Ok(Null),
        _ => {}
    }
    let zero = || if lenient { Ok(Null) } else { Err("division by zero".to_string()) };
    let int = |v: Option<i128>| v.and_then(|v| i64::try_from(v).ok()).ok_or_else(range);
    match (func, values) {
        (Func::Eq, [a, b]) => Ok(Boolean(a == b)),
        (Func::NotEq, [a, b]) => Ok(Boolean(a != b)),
        (Func::Lt, [a, b]) => Ok(Boolean(a < b)),
        (Func::LtEq, [a, b]) => Ok(Boolean(a <= b)),
        (Func::Gt, [a, b]) => Ok(Boolean(a > b)),
        (Func::GtEq, [a, b]) => Ok(Boolean(a >= b)),
        (Func::Not, [Boolean(a)]) => Ok(Boolean(!a)),
        (Func::Concat, [Text(a), Text(b)]) => Ok(Text(format!("{a}{b}").into())),
        (Func::Neg, [BigInt(a)]) => int(Some(-i128::from(*a))).map(BigInt),
        (Func::Neg, [Double(a)]) => Ok(Double(-a)),
        (Func::Neg, [Decimal(a, s)]) => Ok(Decimal(-a, *s)),
        (Func::Div | Func::Mod, [_, BigInt(0) | Decimal(0, _)]) => zero(),
        (Func::Div | Func::Mod, [_, Double(b)]) if *b == 0.0 => zero(),
        (_, [BigInt(a), BigInt(b)]) => {
            let (a, b) = (i128::from(*a), i128::from(*b));
            int(Some(match func {
                Func::Add => a + b,
                Func::Sub => a - b,
                Func::Mul => a * b,
                Func::Div => a / b,
                Func::Mod => a % b,
                other => panic!("{other:?}"),
            }))
            .map(BigInt)
        }
        (_, [Double(a), Double(b)]) => {
            let v = match func {
                Func::Add => a + b,
                Func::Sub => a - b,
                Func::Mul => a * b,
                Func::Div => a / b,
                Func::Mod => a % b,
                other => panic!("{other:?}"),
            };
            if v.is_infinite() && a.is_finite() && b.is_finite() { Err(range()) } else { Ok(Double(v)) }
        }
        (_, [Decimal(a, s), Decimal(b, t)]) => {
            let scale = scale_of(dtype);
            let v = match func {
                Func::Add => decimal::add(*a, *s, *b, *t, scale),
                Func::Sub => decimal::add(*a, *s, -*b, *t, scale),
                Func::Mul => decimal::mul(*a, *s, *b, *t, scale),
                Func::Div => decimal::div(*a, *s, *b, *t, scale),
                Func::Mod => decimal::rem(*a, *s, *b, *t, scale),
                other => panic!("{other:?}"),
            };
            v.map(|v| Decimal(v, scale)).ok_or_else(range)
        }
        (Func::Add, [Timestamp(a), Interval(b)]) => int(Some(i128::from(*a) + i128::from(*b))).map(Timestamp),
        (Func::Sub, [Timestamp(a), Interval(b)]) => int(Some(i128::from(*a) - i128::from(*b))).map(Timestamp),
        (Func::Sub, [Timestamp(a), Timestamp(b)]) => int(Some(i128::from(*a) - i128::from(*b))).map(Interval),
        (Func::Mul, [Interval(a), BigInt(b)]) => int(Some(i128::from(*a) * i128::from(*b))).map(Interval),
        other => panic!("{other:?}"),
    }
}

fn cell(index: usize) -> BoxedStrategy<Value> {
    let ints = prop_oneof![-3i64..4, prop::sample::select(vec![i64::MIN, i64::MAX, 1 << 32]), any::<i64>()];
    let value = match TYPES[index] {
        DataType::BigInt => ints.prop_map(Value::BigInt).boxed(),
        DataType::Timestamp => ints.prop_map(Value::Timestamp).boxed(),
        DataType::Interval => ints.prop_map(Value::Interval).boxed(),
        DataType::Double => prop_oneof![
            prop::sample::select(vec![0.0, -0.0, 1.0, -2.5, f64::NAN, f64::INFINITY, -1e308, 1e308, 1e-308, 1e19]),
            any::<f64>()
        ]
        .prop_map(Value::Double)
        .boxed(),
        DataType::Decimal { precision: 10, .. } => (-999i128..1000).prop_map(|v| Value::Decimal(v, 2)).boxed(),
        DataType::Decimal { .. } => {
            let max = 10i128.pow(38) - 1;
            prop_oneof![-3_000_000i128..3_000_000, -max..=max].prop_map(|v| Value::Decimal(v, 6)).boxed()
        }
        DataType::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
        _ => prop::sample::select(vec!["", "1", " -7 ", "x", "2.5", "NaN", "äö"])
            .prop_map(|t| Value::Text(t.into()))
            .boxed(),
    };
    prop_oneof![4 => value, 1 => Just(Value::Null)].boxed()
}

fn arithmetic_func() -> impl Strategy<Value = Func> {
    prop::sample::select(vec![Func::Add, Func::Sub, Func::Mul, Func::Div, Func::Mod])
}

/// Numbers of any type.
fn number(depth: u32) -> BoxedStrategy<Expr> {
    let leaf = prop_oneof![
        3 => (0usize..5).prop_map(col),
        1 => prop::sample::select(vec!["0", "1", "7", "9223372036854775807", "0.5", "12.25", "1e0", "0.0"]).prop_map(num),
        1 => Just(op(Func::Add, col(0), null_literal())),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let sub = move || number(depth - 1);
    let to = prop::sample::select(vec![DataType::BigInt, DataType::Double, dec(12, 3), dec(4, 0)]);
    prop_oneof![
        1 => leaf,
        4 => (arithmetic_func(), sub(), sub()).prop_map(|(f, a, b)| op(f, a, b)),
        1 => sub().prop_map(|a| call(Func::Neg, vec![a]).unwrap()),
        1 => (sub(), sub()).prop_map(|(a, b)| op(Func::NullIf, a, b)),
        1 => (boolean(depth - 1), sub(), boolean(depth - 1), sub(), prop::option::of(sub()))
            .prop_map(|(c, a, d, b, e)| case(vec![(c, a), (d, b)], e).unwrap()),
        1 => (sub(), sub(), sub()).prop_map(|(a, b, c)| coalesce(vec![a, b, c]).unwrap()),
        1 => (prop::bool::ANY, sub(), sub(), sub())
            .prop_map(|(g, a, b, c)| call(if g { Func::Greatest } else { Func::Least }, vec![a, b, c]).unwrap()),
        1 => (to.clone(), sub()).prop_filter_map("a literal may not fit", |(to, a)| cast(a, to).ok()),
        1 => to.prop_map(|to| cast(col(6), to).unwrap()),
    ]
    .boxed()
}

fn boolean(depth: u32) -> BoxedStrategy<Expr> {
    let leaf = prop_oneof![
        4 => Just(col(5)),
        1 => Just(lit("true")), 1 => Just(lit("false")),
        1 => Just(op(Func::Eq, col(6), lit("x"))),
    ]
    .prop_map(|e| crate::expr::build::boolean(e, "test").unwrap());
    if depth == 0 {
        return leaf.boxed();
    }
    let compare = prop::sample::select(vec![
        Func::Eq,
        Func::NotEq,
        Func::Lt,
        Func::LtEq,
        Func::Gt,
        Func::GtEq,
        Func::NotDistinct,
    ]);
    let sub = move || boolean(depth - 1);
    prop_oneof![
        1 => leaf,
        4 => (compare.clone(), number(depth - 1), number(depth - 1)).prop_map(|(f, a, b)| op(f, a, b)),
        1 => (compare.clone(), time(depth - 1), time(depth - 1)).prop_map(|(f, a, b)| op(f, a, b)),
        1 => (compare, text(depth - 1), text(depth - 1)).prop_map(|(f, a, b)| op(f, a, b)),
        3 => (prop::bool::ANY, sub(), sub()).prop_map(|(x, a, b)| if x { and(a, b) } else { or(a, b) }.unwrap()),
        1 => sub().prop_map(|a| not(a).unwrap()),
        1 => number(depth - 1).prop_map(is_null),
    ]
    .boxed()
}

fn time(depth: u32) -> BoxedStrategy<Expr> {
    if depth == 0 {
        return Just(col(7)).boxed();
    }
    let sub = move || time(depth - 1);
    let span = prop_oneof![
        Just(col(8)),
        Just(op(Func::Mul, col(8), col(0))),
        (sub(), sub()).prop_map(|(a, b)| op(Func::Sub, a, b)),
        Just(typed("1h", DataType::Interval)),
    ];
    prop_oneof![
        Just(col(7)),
        (prop::bool::ANY, sub(), span).prop_map(|(add, a, b)| op(if add { Func::Add } else { Func::Sub }, a, b))
    ]
    .boxed()
}

fn text(depth: u32) -> BoxedStrategy<Expr> {
    if depth == 0 {
        return Just(col(6)).boxed();
    }
    prop_oneof![
        Just(col(6)),
        Just(lit("x")),
        (text(depth - 1), number(depth - 1)).prop_map(|(a, b)| op(Func::Concat, a, b)),
        (boolean(depth - 1), text(depth - 1)).prop_map(|(c, a)| case(vec![(c, a)], Some(lit("else"))).unwrap()),
    ]
    .boxed()
}

fn any_expr() -> BoxedStrategy<Expr> {
    prop_oneof![number(3), boolean(3), text(2), time(2)].boxed()
}

fn table() -> impl Strategy<Value = Vec<Vec<Value>>> {
    let cells: Vec<BoxedStrategy<Value>> = (0..TYPES.len()).map(cell).collect();
    prop::collection::vec(cells, 0..12)
}

/// NULL rows hold the default, so that equal columns are equal bytes.
fn nulls_hold_defaults(column: &Column) -> bool {
    (0..column.len()).filter(|row| column.is_null(*row)).all(|row| match &column.data {
        ColumnData::Boolean(v) => !v[row],
        ColumnData::I64(v) => v[row] == 0,
        ColumnData::F64(v) => v[row] == 0.0,
        ColumnData::I128(v) => v[row] == 0,
        ColumnData::Text(v) => v.get(row).is_empty(),
        ColumnData::List(v) => v[row].is_empty(),
    })
}

/// Equal values, of the same scale.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Decimal(a, s), Value::Decimal(b, t)) => s == t && compare_decimals(*a, *s, *b, *t).is_eq(),
        _ => a == b,
    }
}

proptest! {
    #[test]
    fn agrees_with_the_naive_evaluator(expr in any_expr(), rows in table(), lenient in prop::bool::ANY) {
        let columns: Vec<Column> = TYPES.iter().enumerate().map(|(index, dtype)| {
            let mut column = Column::new(dtype.clone());
            rows.iter().for_each(|row| column.push(&row[index]));
            column
        }).collect();
        let borrowed: Vec<&Column> = columns.iter().collect();
        let run = if lenient { evaluate_lenient } else { evaluate };
        let out = run(&expr, &borrowed, rows.len());
        prop_assert_eq!(&out.column.dtype, &expr.dtype);
        prop_assert_eq!(out.column.len(), rows.len());
        prop_assert!(out.errors.is_sorted_by(|a, b| a.0 < b.0));
        prop_assert!(nulls_hold_defaults(&out.column), "{expr}: {:?}", out.column);
        for (index, row) in rows.iter().enumerate() {
            let failure = out.errors.iter().find(|(r, _)| *r as usize == index).map(|(_, why)| why.clone());
            let value = out.column.value(index);
            let expected = naive(&expr, row, lenient);
            match (&expected, &failure) {
                (Ok(expected), None) => prop_assert!(same(expected, &value), "{expr} of {row:?}: {value:?}, not {expected:?}"),
                (Err(expected), Some(why)) => {
                    prop_assert_eq!(expected, why, "{} of {:?}", &expr, row);
                    prop_assert!(value.is_null());
                }
                _ => prop_assert!(false, "{expr} of {row:?}: {value:?} {failure:?}, not {expected:?}"),
            }
            let single = if lenient { evaluate_row_lenient(&expr, row) } else { evaluate_row(&expr, row) };
            prop_assert_eq!(single, expected, "{} of {:?} alone", &expr, row);
        }
    }

    /// Text functions on whole columns and on constants agree.
    #[test]
    fn columns_and_constants_agree(name in prop::sample::select(vec!["left", "right", "substr"]), s in "[aäb,]{0,5}", n in -7i64..8) {
        let literal = |v: &Value, d| Expr::literal(v.clone(), d);
        let (text, number) = (Value::Text(s.as_str().into()), Value::BigInt(n));
        let constant = fun(name, vec![cast(literal(&text, DataType::Text), DataType::Text).unwrap(), literal(&number, DataType::BigInt)]);
        let columns = fun(name, vec![Expr::column(0, DataType::Text), Expr::column(1, DataType::BigInt)]);
        let row = [text, number];
        prop_assert_eq!(evaluate_row(&constant, &row), evaluate_row(&columns, &row));
        // By the definition, with positions counted one by one.
        let chars: Vec<char> = s.chars().collect();
        let length = chars.len() as i64;
        let keep = |position: i64| match name {
            "left" => if n >= 0 { position <= n } else { position <= length + n },
            "right" => if n >= 0 { position > length - n } else { position > -n },
            _ => position >= n,
        };
        let expected: String = chars.iter().zip(1..).filter(|(_, p)| keep(*p)).map(|(c, _)| *c).collect();
        prop_assert_eq!(evaluate_row(&columns, &row), Ok(Value::Text(expected.into())));
    }
}
