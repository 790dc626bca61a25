//! Expressions as SQL-like text, for `explain` and for messages.

use super::convert::write_value;
use super::{Expr, ExprKind, Func, TimeUnit};
use crate::types::{DataType, Value};
use std::fmt;

impl TimeUnit {
    /// The SQL word.
    pub fn name(self) -> &'static str {
        match self {
            TimeUnit::Microsecond => "microsecond",
            TimeUnit::Millisecond => "millisecond",
            TimeUnit::Second => "second",
            TimeUnit::Minute => "minute",
            TimeUnit::Hour => "hour",
            TimeUnit::Day => "day",
            TimeUnit::Week => "week",
            TimeUnit::Month => "month",
            TimeUnit::Quarter => "quarter",
            TimeUnit::Year => "year",
            TimeUnit::DayOfWeek => "dow",
            TimeUnit::IsoDayOfWeek => "isodow",
            TimeUnit::DayOfYear => "doy",
            TimeUnit::Epoch => "epoch",
        }
    }
}

impl Func {
    /// The SQL name, or the operator's sign.
    pub fn name(self) -> &'static str {
        match self {
            Func::Add => "+",
            Func::Sub | Func::Neg => "-",
            Func::Mul => "*",
            Func::Div => "/",
            Func::Mod => "%",
            Func::Eq => "=",
            Func::NotEq => "<>",
            Func::Lt => "<",
            Func::LtEq => "<=",
            Func::Gt => ">",
            Func::GtEq => ">=",
            Func::Not => "NOT",
            Func::NotDistinct => "IS NOT DISTINCT FROM",
            Func::Like => "LIKE",
            Func::ILike => "ILIKE",
            Func::Concat => "||",
            Func::Lower => "lower",
            Func::Upper => "upper",
            Func::Length => "length",
            Func::Substr => "substr",
            Func::Trim => "trim",
            Func::LTrim => "ltrim",
            Func::RTrim => "rtrim",
            Func::Replace => "replace",
            Func::StrPos => "strpos",
            Func::StartsWith => "starts_with",
            Func::SplitPart => "split_part",
            Func::Left => "left",
            Func::Right => "right",
            Func::Abs => "abs",
            Func::Sign => "sign",
            Func::Round => "round",
            Func::Floor => "floor",
            Func::Ceil => "ceil",
            Func::Trunc => "trunc",
            Func::Sqrt => "sqrt",
            Func::Power => "power",
            Func::Exp => "exp",
            Func::Ln => "ln",
            Func::Log10 => "log10",
            Func::NullIf => "nullif",
            Func::Greatest => "greatest",
            Func::Least => "least",
            Func::DateTrunc(_) => "date_trunc",
            Func::Extract(_) => "extract",
            Func::DateBin => "date_bin",
        }
    }

    /// Whether it is written between or before its operands.
    pub fn is_operator(self) -> bool {
        self.binding().is_some()
    }

    /// How tightly an operator binds (more is tighter); `None` for functions.
    fn binding(self) -> Option<u8> {
        use Func::*;
        match self {
            Not => Some(NOT),
            Eq | NotEq | Lt | LtEq | Gt | GtEq | NotDistinct => Some(4),
            Like | ILike => Some(5),
            Concat => Some(6),
            Add | Sub => Some(7),
            Mul | Div | Mod => Some(8),
            Neg => Some(9),
            _ => None,
        }
    }
}

const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const IS: u8 = 4;

/// An expression with names for its columns; made by [`Expr::display`].
#[derive(Clone, Copy, Debug)]
pub struct Named<'a, S> {
    expr: &'a Expr,
    names: &'a [S],
}

impl Expr {
    /// The expression as SQL-like text, with the columns' names; a column without one is `#index`.
    pub fn display<'a, S: AsRef<str>>(&'a self, names: &'a [S]) -> Named<'a, S> {
        Named { expr: self, names }
    }
}

impl<S: AsRef<str>> fmt::Display for Named<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_expr(f, self.expr, self.names, 0)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_expr::<&str>(f, self, &[], 0)
    }
}

/// Writes `expr`, in parentheses if it binds less tightly than `outer`.
fn write_expr<S: AsRef<str>>(f: &mut fmt::Formatter<'_>, expr: &Expr, names: &[S], outer: u8) -> fmt::Result {
    let binding = match &expr.kind {
        ExprKind::Or(..) => Some(OR),
        ExprKind::And(..) => Some(AND),
        ExprKind::IsNull(_) => Some(IS),
        ExprKind::Call(func, _) => func.binding(),
        _ => None,
    };
    let parentheses = binding.is_some_and(|b| b < outer);
    if parentheses {
        f.write_str("(")?;
    }
    write_bare(f, expr, names)?;
    if parentheses {
        f.write_str(")")?;
    }
    Ok(())
}

fn write_bare<S: AsRef<str>>(f: &mut fmt::Formatter<'_>, expr: &Expr, names: &[S]) -> fmt::Result {
    match &expr.kind {
        ExprKind::Column(index) => match names.get(*index) {
            Some(name) => write_name(f, name.as_ref()),
            None => write!(f, "#{index}"),
        },
        ExprKind::Literal(value) => write_literal(f, value, &expr.dtype),
        ExprKind::Call(func, args) => write_call(f, *func, args, names),
        ExprKind::And(a, b) => infix(f, a, "AND", b, names, AND),
        ExprKind::Or(a, b) => infix(f, a, "OR", b, names, OR),
        ExprKind::IsNull(a) => {
            write_expr(f, a, names, IS + 1)?;
            f.write_str(" IS NULL")
        }
        ExprKind::Case(whens, otherwise) => {
            f.write_str("CASE")?;
            for (condition, value) in whens {
                f.write_str(" WHEN ")?;
                write_expr(f, condition, names, 0)?;
                f.write_str(" THEN ")?;
                write_expr(f, value, names, 0)?;
            }
            if let Some(value) = otherwise {
                f.write_str(" ELSE ")?;
                write_expr(f, value, names, 0)?;
            }
            f.write_str(" END")
        }
        ExprKind::Coalesce(args) => list(f, "coalesce(", args, names),
        ExprKind::Cast(a) => {
            f.write_str("CAST(")?;
            write_expr(f, a, names, 0)?;
            write!(f, " AS {})", expr.dtype)
        }
    }
}

fn write_call<S: AsRef<str>>(f: &mut fmt::Formatter<'_>, func: Func, args: &[Expr], names: &[S]) -> fmt::Result {
    match (func, func.binding(), args) {
        (_, Some(binding), [a, b]) => infix(f, a, func.name(), b, names, binding),
        (Func::Not, Some(binding), [a]) => {
            f.write_str("NOT ")?;
            write_expr(f, a, names, binding)
        }
        (_, Some(binding), [a]) => {
            f.write_str(func.name())?;
            // One more, so that `- -x` is not written as a comment.
            write_expr(f, a, names, binding + 1)
        }
        (Func::DateTrunc(unit), _, _) => list(f, &format!("date_trunc('{}', ", unit.name()), args, names),
        (Func::Extract(unit), _, _) => list(f, &format!("extract({} FROM ", unit.name()), args, names),
        _ => list(f, &format!("{}(", func.name()), args, names),
    }
}

/// `a op b`, grouping to the left.
fn infix<S: AsRef<str>>(
    f: &mut fmt::Formatter<'_>,
    a: &Expr,
    op: &str,
    b: &Expr,
    names: &[S],
    binding: u8,
) -> fmt::Result {
    // Comparisons do not chain.
    let left = if binding == IS { binding + 1 } else { binding };
    write_expr(f, a, names, left)?;
    write!(f, " {op} ")?;
    write_expr(f, b, names, binding + 1)
}

fn list<S: AsRef<str>>(f: &mut fmt::Formatter<'_>, open: &str, args: &[Expr], names: &[S]) -> fmt::Result {
    f.write_str(open)?;
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write_expr(f, arg, names, 0)?;
    }
    f.write_str(")")
}

/// The name, quoted unless it is plain words joined by points.
fn write_name(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '.';
    if !name.is_empty() && name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit()) {
        f.write_str(name)
    } else {
        write!(f, "\"{}\"", name.replace('"', "\"\""))
    }
}

fn write_literal(f: &mut fmt::Formatter<'_>, value: &Value, dtype: &DataType) -> fmt::Result {
    let mut text = String::new();
    write_value(value, &mut text);
    match value {
        Value::Null => f.write_str("NULL"),
        Value::Text(_) => write!(f, "'{}'", text.replace('\'', "''")),
        Value::Timestamp(_) | Value::Date(_) | Value::Interval(_) => write!(f, "{dtype} '{text}'"),
        Value::Double(x) if !x.is_finite() => write!(f, "CAST('{text}' AS DOUBLE)"),
        // A plain `1.5` would read as DECIMAL.
        Value::Double(_) if !text.contains('e') => write!(f, "{text}e0"),
        _ => f.write_str(&text),
    }
}

#[cfg(test)]
mod tests {
    use crate::expr::Expr;
    use crate::expr::Func;
    use crate::expr::build::{and, call, case, cast, function, is_null, not, number_literal, or, text_literal};
    use crate::types::DataType;

    fn int(i: usize) -> Expr {
        Expr::column(i, DataType::BigInt)
    }
    fn bin(func: Func, a: Expr, b: Expr) -> Expr {
        call(func, vec![a, b]).unwrap()
    }

    #[test]
    fn parentheses_only_where_needed() {
        let names = ["a", "b", "Order Id"];
        let sum = bin(Func::Add, int(0), int(1));
        let show = |e: &Expr| e.display(&names).to_string();
        assert_eq!(show(&bin(Func::Mul, sum.clone(), int(2))), "(a + b) * \"Order Id\"");
        assert_eq!(show(&bin(Func::Sub, int(2), sum.clone())), "\"Order Id\" - (a + b)");
        assert_eq!(show(&bin(Func::Sub, sum.clone(), int(2))), "a + b - \"Order Id\"");
        let less = bin(Func::Lt, sum, number_literal("5").unwrap());
        assert_eq!(show(&less), "a + b < 5");
        let both = and(or(less.clone(), is_null(int(0))).unwrap(), not(less).unwrap()).unwrap();
        assert_eq!(show(&both), "(a + b < 5 OR a IS NULL) AND NOT a + b < 5");
        assert_eq!(both.to_string(), "(#0 + #1 < 5 OR #0 IS NULL) AND NOT #0 + #1 < 5");
    }

    #[test]
    fn functions_and_literals() {
        let text = Expr::column(0, DataType::Text);
        let e = case(
            vec![(bin(Func::Eq, text.clone(), text_literal("it's")), cast(text.clone(), DataType::Double).unwrap())],
            Some(number_literal("1e0").unwrap()),
        )
        .unwrap();
        assert_eq!(e.to_string(), "CASE WHEN #0 = 'it''s' THEN CAST(#0 AS DOUBLE) ELSE 1.0e0 END");
        let time = Expr::column(1, DataType::Timestamp);
        let hour = function("date_part", vec![text_literal("hour"), time]).unwrap();
        assert_eq!(hour.to_string(), "extract(hour FROM #1)");
    }
}
