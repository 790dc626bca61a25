//! Functions by their SQL names.

use super::build::{TypeError, call, cast, coalesce, text_literal, untyped};
use super::suggest::did_you_mean;
use super::{Expr, ExprKind, Func, TimeUnit};
use crate::types::{DataType, Value};

/// Names that mean one [`Func`], aliases included.
const PLAIN: &[(&str, Func)] = &[
    ("abs", Func::Abs),
    ("sign", Func::Sign),
    ("round", Func::Round),
    ("floor", Func::Floor),
    ("ceil", Func::Ceil),
    ("ceiling", Func::Ceil),
    ("trunc", Func::Trunc),
    ("truncate", Func::Trunc),
    ("mod", Func::Mod),
    ("sqrt", Func::Sqrt),
    ("power", Func::Power),
    ("pow", Func::Power),
    ("exp", Func::Exp),
    ("ln", Func::Ln),
    ("log", Func::Log10),
    ("log10", Func::Log10),
    ("lower", Func::Lower),
    ("upper", Func::Upper),
    ("length", Func::Length),
    ("char_length", Func::Length),
    ("character_length", Func::Length),
    ("substr", Func::Substr),
    ("substring", Func::Substr),
    ("trim", Func::Trim),
    ("btrim", Func::Trim),
    ("ltrim", Func::LTrim),
    ("rtrim", Func::RTrim),
    ("replace", Func::Replace),
    ("strpos", Func::StrPos),
    ("starts_with", Func::StartsWith),
    ("split_part", Func::SplitPart),
    ("left", Func::Left),
    ("right", Func::Right),
    ("nullif", Func::NullIf),
    ("greatest", Func::Greatest),
    ("least", Func::Least),
];

/// Names that [`function`] composes.
const COMPOSED: &[&str] =
    &["concat", "coalesce", "ifnull", "date_trunc", "date_part", "extract", "date_bin", "to_timestamp"];

/// Names of the clock and of chance, which no result may depend on.
const IMPURE: &[&str] = &[
    "now",
    "random",
    "rand",
    "clock_timestamp",
    "current_date",
    "current_time",
    "current_timestamp",
    "localtimestamp",
    "gen_random_uuid",
    "uuid",
];

const UNITS: &[(&str, TimeUnit)] = &[
    ("microsecond", TimeUnit::Microsecond),
    ("millisecond", TimeUnit::Millisecond),
    ("second", TimeUnit::Second),
    ("minute", TimeUnit::Minute),
    ("hour", TimeUnit::Hour),
    ("day", TimeUnit::Day),
    ("week", TimeUnit::Week),
    ("month", TimeUnit::Month),
    ("quarter", TimeUnit::Quarter),
    ("year", TimeUnit::Year),
    ("dow", TimeUnit::DayOfWeek),
    ("isodow", TimeUnit::IsoDayOfWeek),
    ("doy", TimeUnit::DayOfYear),
    ("epoch", TimeUnit::Epoch),
    ("us", TimeUnit::Microsecond),
    ("ms", TimeUnit::Millisecond),
    ("sec", TimeUnit::Second),
    ("s", TimeUnit::Second),
    ("min", TimeUnit::Minute),
    ("m", TimeUnit::Minute),
    ("h", TimeUnit::Hour),
    ("hr", TimeUnit::Hour),
    ("d", TimeUnit::Day),
    ("w", TimeUnit::Week),
    ("mon", TimeUnit::Month),
    ("y", TimeUnit::Year),
    ("yr", TimeUnit::Year),
];

/// Every scalar function's SQL name, aliases included.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    PLAIN.iter().map(|(name, _)| *name).chain(COMPOSED.iter().copied())
}

/// Whether [`function`] knows the (lower-case) name.
pub fn is_function(name: &str) -> bool {
    function_names().any(|known| known == name)
}

/// The unit or field of time that a word names: singular, plural or short, any case.
///
/// # Errors
/// Unknown words get a "did you mean" hint.
pub fn time_unit(word: &str) -> Result<TimeUnit, TypeError> {
    let lower = word.trim_ascii().to_ascii_lowercase();
    let find = |name: &str| UNITS.iter().find(|(known, _)| *known == name).map(|(_, unit)| *unit);
    let singular = lower.strip_suffix('s').filter(|s| s.len() > 1);
    find(&lower).or_else(|| singular.and_then(find)).ok_or_else(|| {
        let near = did_you_mean(&lower, UNITS.iter().map(|(name, _)| *name).filter(|name| name.len() > 2));
        TypeError {
            message: format!("unknown unit of time \"{word}\""),
            hint: Some(match near {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => "units are microsecond, millisecond, second, minute, hour, day, week, month, quarter, year; \
                         fields are also dow, isodow, doy, epoch"
                    .into(),
            }),
        }
    })
}

fn count_error(name: &str, expected: &str, found: usize) -> TypeError {
    TypeError { message: format!("{name} takes {expected}, found {found}"), hint: None }
}

/// A function by SQL name (lower case), as written in the query; the binder of `sql/` calls this for every scalar function it does not treat itself.
///
/// `concat` skips NULLs, `ifnull` is `coalesce`, `to_timestamp(seconds)` is 1970 plus `seconds × INTERVAL '1 second'`;
/// `date_trunc`, `date_part` and `extract` take their unit as a string literal first.
///
/// # Errors
/// Unknown names get a "did you mean" hint.
pub fn function(name: &str, args: Vec<Expr>) -> Result<Expr, TypeError> {
    if let Some((_, func)) = PLAIN.iter().find(|(known, _)| *known == name) {
        return call(*func, args).map_err(|e| named(e, *func, name));
    }
    match name {
        "coalesce" | "ifnull" => coalesce(args),
        "concat" => concat(args),
        "date_trunc" => timed(name, args, Func::DateTrunc),
        "date_part" | "extract" => timed(name, args, Func::Extract),
        "date_bin" => {
            let mut args = args;
            if args.len() == 2 {
                args.push(Expr::literal(Value::Timestamp(0), DataType::Timestamp));
            }
            call(Func::DateBin, args)
        }
        "to_timestamp" => {
            let found = args.len();
            let [seconds] = <[Expr; 1]>::try_from(args).map_err(|_| count_error(name, "1 argument", found))?;
            let second = Expr::literal(Value::Interval(1_000_000), DataType::Interval);
            let epoch = Expr::literal(Value::Timestamp(0), DataType::Timestamp);
            call(Func::Add, vec![epoch, call(Func::Mul, vec![second, seconds])?])
        }
        _ if IMPURE.contains(&name) => Err(TypeError {
            message: format!("{name} is not available: a result depends on the input alone"),
            hint: Some("use a time column of the table".into()),
        }),
        _ => Err(TypeError {
            message: format!("unknown function \"{name}\""),
            hint: did_you_mean(name, function_names()).map(|near| format!("did you mean \"{near}\"?")),
        }),
    }
}

/// Names the alias that the query wrote rather than the function's own name.
fn named(mut error: TypeError, func: Func, name: &str) -> TypeError {
    if let Some(rest) = error.message.strip_prefix(func.name()) {
        error.message = format!("{name}{rest}");
    }
    error
}

fn concat(args: Vec<Expr>) -> Result<Expr, TypeError> {
    let mut out: Option<Expr> = None;
    for arg in args {
        let text = coalesce(vec![cast(arg, DataType::Text)?, text_literal("")])?;
        out = Some(match out {
            None => text,
            Some(before) => call(Func::Concat, vec![before, text])?,
        });
    }
    out.ok_or_else(|| count_error("concat", "at least 1 argument", 0))
}

fn timed(name: &str, args: Vec<Expr>, func: fn(TimeUnit) -> Func) -> Result<Expr, TypeError> {
    let found = args.len();
    let [unit, time] = <[Expr; 2]>::try_from(args).map_err(|_| count_error(name, "2 arguments", found))?;
    match &unit.kind {
        ExprKind::Literal(Value::Text(word)) if untyped(&unit) => call(func(time_unit(word)?), vec![time]),
        _ => Err(TypeError {
            message: format!("the first argument of {name} must be a string literal, found {}", unit.dtype),
            hint: Some(format!("write {name}('hour', …)")),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(result: Result<Expr, TypeError>) -> String {
        result.unwrap_err().hint.unwrap_or_default()
    }

    #[test]
    fn units() {
        assert_eq!(time_unit("hour"), Ok(TimeUnit::Hour));
        assert_eq!(time_unit("HOURS"), Ok(TimeUnit::Hour));
        assert_eq!(time_unit("ms"), Ok(TimeUnit::Millisecond));
        assert_eq!(time_unit("s"), Ok(TimeUnit::Second));
        assert_eq!(time_unit("days"), Ok(TimeUnit::Day));
        assert_eq!(time_unit("huor").unwrap_err().hint, Some("did you mean \"hour\"?".into()));
        assert!(time_unit("").is_err());
    }

    #[test]
    fn names() {
        let text = || Expr::column(0, DataType::Text);
        assert_eq!(hint(function("lowwer", vec![text()])), "did you mean \"lower\"?");
        assert_eq!(hint(function("now", vec![])), "use a time column of the table");
        assert_eq!(function("char_length", vec![]).unwrap_err().message, "char_length takes 1 argument, found 0");
        assert_eq!(function("concat", vec![]).unwrap_err().message, "concat takes at least 1 argument, found 0");
        for (name, _) in PLAIN {
            assert!(is_function(name));
            assert_ne!(function(name, vec![]).unwrap_err().message, format!("unknown function \"{name}\""));
        }
        let trunc = function("date_trunc", vec![text_literal("week"), Expr::column(1, DataType::Date)]).unwrap();
        assert!(matches!(trunc.kind, ExprKind::Call(Func::DateTrunc(TimeUnit::Week), _)));
        assert_eq!(trunc.dtype, DataType::Timestamp);
        let column_unit = function("date_trunc", vec![text(), Expr::column(1, DataType::Date)]);
        assert_eq!(
            column_unit.unwrap_err().message,
            "the first argument of date_trunc must be a string literal, found TEXT"
        );
    }
}
