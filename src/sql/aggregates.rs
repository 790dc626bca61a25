//! Aggregate calls: `name([DISTINCT] x) [FILTER (WHERE …)]` to an [`AggregatePlan`].

use super::bind::Binder;
use super::scope::Scope;
use crate::aggregate::{AggregateFunc, AggregateSpec};
use crate::error::Result;
use crate::plan::AggregatePlan;
use crate::types::{DataType, Value};
use sqlparser::ast::{self, Spanned};
use sqlparser::tokenizer::Span;

/// The clause of a SELECT list without windows, as [`Binder`] knows it.
pub(super) const NO_WINDOW: &str = "a SELECT without windows";

/// The aggregates of one argument.
const FUNCTIONS: [(&str, AggregateFunc); 19] = [
    ("count", AggregateFunc::Count),
    ("sum", AggregateFunc::Sum),
    ("avg", AggregateFunc::Avg),
    ("min", AggregateFunc::Min),
    ("max", AggregateFunc::Max),
    ("bool_and", AggregateFunc::BoolAnd),
    ("every", AggregateFunc::BoolAnd),
    ("bool_or", AggregateFunc::BoolOr),
    ("variance", AggregateFunc::VarSamp),
    ("var_samp", AggregateFunc::VarSamp),
    ("var_pop", AggregateFunc::VarPop),
    ("stddev", AggregateFunc::StddevSamp),
    ("stddev_samp", AggregateFunc::StddevSamp),
    ("stddev_pop", AggregateFunc::StddevPop),
    ("array_agg", AggregateFunc::ArrayAgg),
    ("first_value", AggregateFunc::FirstValue),
    ("last_value", AggregateFunc::LastValue),
    ("approx_count_distinct", AggregateFunc::ApproxCountDistinct),
    // The share is the second argument.
    ("approx_percentile", AggregateFunc::ApproxPercentile(0.0)),
];

fn function(name: &str) -> Option<AggregateFunc> {
    FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, func)| *func)
}

/// Whether the name (lower case) is an aggregate.
pub(super) fn is_aggregate(name: &str) -> bool {
    function(name).is_some()
}

/// What to use instead of an aggregate that other systems have.
pub(super) fn unsupported(name: &str) -> Option<&'static str> {
    match name {
        "percentile_cont" | "percentile_disc" | "median" | "quantile" => Some("use approx_percentile(x, 0.5)"),
        "string_agg" | "listagg" | "group_concat" | "collect_list" | "list" => {
            Some("use array_agg(x): a list in event-time order")
        }
        "any_value" | "first" | "arg_min" => Some("use first_value(x): the earliest by event time"),
        "last" | "arg_max" => Some("use last_value(x): the latest by event time"),
        "count_if" | "countif" => Some("use count(*) FILTER (WHERE …)"),
        "sum_if" | "sumif" => Some("use sum(x) FILTER (WHERE …)"),
        _ => None,
    }
}

/// Binds a call of an aggregate; its argument and filter read the table's columns.
///
/// # Errors
/// When the call has clauses or arguments that the aggregate does not take.
pub(super) fn bind(
    scope: &Scope<'_>,
    fallback: Span,
    call: &ast::Function,
    name: &str,
) -> Result<(AggregatePlan, DataType)> {
    let place = call.name.span();
    let mut binder = Binder::row(scope, "an aggregate", fallback);
    let (args, distinct) = arguments(&binder, call, name)?;
    let filter = match &call.filter {
        Some(filter) => Some(Binder::row(scope, "FILTER", fallback).condition(filter)?),
        None => None,
    };
    let mut func = function(name).ok_or_else(|| scope.source.error(place, format!("unknown aggregate {name}")))?;
    let (arg, rest) = match args.split_first() {
        Some((ast::FunctionArgExpr::Wildcard, [])) if func == AggregateFunc::Count && !distinct => (None, &[][..]),
        Some((ast::FunctionArgExpr::Expr(arg), rest)) => (Some(arg), rest),
        _ => {
            let example = if func == AggregateFunc::Count {
                "count(*), count(x) or count(DISTINCT x)".to_owned()
            } else {
                format!("{name}(x)")
            };
            return Err(scope.source.error(place, format!("expected {example}")));
        }
    };
    match (func, rest) {
        (AggregateFunc::ApproxPercentile(_), [ast::FunctionArgExpr::Expr(share)]) => {
            func = AggregateFunc::ApproxPercentile(percentile(&mut binder, share)?);
        }
        (AggregateFunc::ApproxPercentile(_), _) => {
            return Err(scope.source.error(place, "expected approx_percentile(x, share) with a share from 0 to 1"));
        }
        (_, []) => {}
        _ => return Err(scope.source.error(place, format!("{name} takes one argument"))),
    }
    let arg = arg.map(|a| binder.bind(a)).transpose()?;
    func = match (func, &arg, distinct) {
        (AggregateFunc::Count, None, _) => AggregateFunc::CountAll,
        (AggregateFunc::Count, Some(_), true) => AggregateFunc::CountDistinct,
        // Repetition changes none of these.
        (f @ (AggregateFunc::Min | AggregateFunc::Max | AggregateFunc::BoolAnd | AggregateFunc::BoolOr), _, true) => f,
        (_, _, true) => {
            let error = scope.source.error(place, format!("{name}(DISTINCT …) is not supported"));
            return Err(error.with_hint("DISTINCT is for count(DISTINCT x)"));
        }
        (f, _, false) => f,
    };
    let spec = AggregateSpec { func, arg: arg.as_ref().map(|a| a.dtype.clone()) };
    let dtype = spec.output().map_err(|why| scope.source.error(call.span(), why))?;
    Ok((AggregatePlan { spec, arg, filter }, dtype))
}

/// The arguments and whether they are DISTINCT; refuses every other clause.
fn arguments<'c>(
    binder: &Binder<'_>,
    call: &'c ast::Function,
    name: &str,
) -> Result<(Vec<&'c ast::FunctionArgExpr>, bool)> {
    let place = call.name.span();
    let ordered = |error: crate::error::Error| error.with_hint("lists and first/last values go by event time");
    if !call.within_group.is_empty() {
        let error = binder.error(place, format!("{name}(…) WITHIN GROUP is not supported"));
        return Err(error.with_hint("use approx_percentile(x, 0.5)"));
    }
    if call.null_treatment.is_some() {
        let error = binder.error(place, format!("{name}(…) IGNORE NULLS is not supported"));
        return Err(error.with_hint(format!("leave NULLs out with {name}(x) FILTER (WHERE x IS NOT NULL)")));
    }
    let ast::FunctionArguments::List(list) = &call.args else {
        return Err(binder.error(place, format!("expected {name}(x)")));
    };
    if !list.clauses.is_empty() {
        let by_order = list.clauses.iter().any(|c| matches!(c, ast::FunctionArgumentClause::OrderBy(_)));
        let what = if by_order { "ORDER BY" } else { "a clause" };
        return Err(ordered(binder.error(place, format!("{what} within {name}(…) is not supported"))));
    }
    let mut args = Vec::with_capacity(list.args.len());
    for arg in &list.args {
        match arg {
            ast::FunctionArg::Unnamed(arg) => args.push(arg),
            _ => return Err(binder.error(place, format!("{name} takes no named arguments"))),
        }
    }
    Ok((args, list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct)))
}

fn percentile(binder: &mut Binder<'_>, share: &ast::Expr) -> Result<f64> {
    let value = binder.constant(share, "the share of approx_percentile")?;
    let number = match value {
        Value::BigInt(n) => Some(n as f64),
        Value::Double(x) => Some(x),
        // Through text, so that 0.95 is the double nearest to it.
        Value::Decimal(n, scale) => format!("{n}e-{scale}").parse().ok(),
        _ => None,
    };
    match number {
        Some(x) if (0.0..=1.0).contains(&x) => Ok(x),
        _ => Err(binder.error(binder.span(share), "expected a share from 0 to 1")),
    }
}
