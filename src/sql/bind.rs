//! Binding expressions: names to columns, calls to typed expressions.
//!
//! Two phases share one walk. In the *row* phase an expression reads the table's columns. In the *group* phase it reads the
//! post-aggregation row `[group values…, window_start, window_end, aggregate values…]`: a subtree that equals a GROUP BY
//! expression is that group column, an aggregate call is the aggregate's column (equal calls share one), and a table column
//! left over is an error. Typing and coercion are [`crate::expr::build`]'s.
//!
//! Cost: the group phase binds each subtree once more to compare it with the groups, so quadratic in the depth, which is
//! bounded.

use super::aggregates;
use super::scope::{Bound, Scope, as_path, or_place, path_text, same_name};
use super::statement::{data_type, interval_text};
use crate::error::{Error, Result};
use crate::expr::build::{self, TypeError};
use crate::expr::{Expr, ExprKind, Func};
use crate::plan::AggregatePlan;
use crate::types::{DataType, Value};
use sqlparser::ast::{self, BinaryOperator, Ident, Spanned, UnaryOperator};
use sqlparser::tokenizer::Span;

/// Expressions nest at most this deep, so that no walk over them can exhaust the stack.
const DEPTH_MAX: usize = 200;

/// What is known of the aggregation while the SELECT list and HAVING are bound.
#[derive(Debug, Default)]
pub(super) struct Grouped<'a> {
    pub(super) group: Vec<Expr>,
    pub(super) aggregates: Vec<AggregatePlan>,
    /// Output names and what they stand for, for HAVING; empty elsewhere.
    pub(super) aliases: Vec<(Ident, &'a ast::Expr)>,
}

/// Binds the expressions of one clause.
#[derive(Debug)]
pub(super) struct Binder<'a> {
    pub(super) scope: &'a Scope<'a>,
    /// The clause, for messages: `WHERE`.
    clause: &'static str,
    /// Where to point when the parser gives no place.
    fallback: Span,
    /// The group phase, if it is that.
    pub(super) grouped: Option<Grouped<'a>>,
}

/// The value of an expression without columns; `None` if it reads one.
pub(super) fn fold(expr: &Expr) -> Option<Result<Value, String>> {
    match &expr.kind {
        ExprKind::Literal(value) => Some(Ok(value.clone())),
        _ => build::constant(expr),
    }
}

impl<'a> Binder<'a> {
    /// A binder of the row phase.
    pub(super) fn row(scope: &'a Scope<'a>, clause: &'static str, fallback: Span) -> Self {
        Binder { scope, clause, fallback, grouped: None }
    }

    /// A binder of the group phase.
    pub(super) fn group(scope: &'a Scope<'a>, clause: &'static str, fallback: Span, grouped: Grouped<'a>) -> Self {
        Binder { scope, clause, fallback, grouped: Some(grouped) }
    }

    /// The place of an expression.
    pub(super) fn span(&self, ast: &ast::Expr) -> Span {
        or_place(ast.span(), self.fallback)
    }

    pub(super) fn error(&self, span: Span, message: impl Into<String>) -> Error {
        self.scope.source.error(or_place(span, self.fallback), message)
    }

    /// Says where a type error is.
    pub(super) fn typed(&self, ast: &ast::Expr, result: Result<Expr, TypeError>) -> Result<Expr> {
        result.map_err(|e| {
            let error = self.error(self.span(ast), e.message);
            match e.hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            }
        })
    }

    /// Binds an expression.
    ///
    /// # Errors
    /// At the first part that has no meaning here, or no type.
    pub(super) fn bind(&mut self, ast: &ast::Expr) -> Result<Expr> {
        self.expr(ast, DEPTH_MAX)
    }

    /// Binds an expression that must be BOOLEAN.
    pub(super) fn condition(&mut self, ast: &ast::Expr) -> Result<Expr> {
        let bound = self.bind(ast)?;
        self.typed(ast, build::boolean(bound, self.clause))
    }

    /// Binds an expression without columns to its value; `what` names it in messages.
    pub(super) fn constant(&mut self, ast: &ast::Expr, what: &str) -> Result<Value> {
        let bound = self.bind(ast)?;
        match fold(&bound) {
            Some(Ok(value)) => Ok(value),
            Some(Err(why)) => Err(self.error(self.span(ast), why)),
            None => Err(self.error(self.span(ast), format!("expected a constant as {what}"))),
        }
    }

    /// One node of the walk; `depth` is how much deeper it may go.
    pub(super) fn expr(&mut self, ast: &ast::Expr, depth: usize) -> Result<Expr> {
        let Some(depth) = depth.checked_sub(1) else {
            let error = self.error(self.fallback, format!("an expression is nested more than {DEPTH_MAX} deep"));
            return Err(error.with_hint("a long list of values is shorter as x IN (…)"));
        };
        if let Some(column) = self.group_column(ast) {
            return Ok(column);
        }
        match ast {
            ast::Expr::Nested(inner) => self.expr(inner, depth),
            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) => self.column(ast, depth),
            ast::Expr::Value(value) => self.literal(ast, &value.value),
            ast::Expr::TypedString(typed) => self.typed_string(ast, typed),
            ast::Expr::Interval(interval) => self.interval(ast, interval),
            ast::Expr::Function(call) => self.function(ast, call, depth),
            ast::Expr::BinaryOp { left, op, right } => self.binary(ast, left, op, right, depth),
            ast::Expr::UnaryOp { op, expr } => self.unary(ast, *op, expr, depth),
            ast::Expr::Cast { kind, expr, data_type: to, format } => {
                if matches!(kind, ast::CastKind::TryCast | ast::CastKind::SafeCast) || format.is_some() {
                    return Err(self.unsupported(ast, "only CAST(x AS type) and x::type are supported"));
                }
                let inner = self.expr(expr, depth)?;
                let to = data_type(to).map_err(|(m, hint)| self.error(self.span(ast), m).with_hint(hint))?;
                self.typed(ast, build::cast(inner, to))
            }
            ast::Expr::Case { operand, conditions, else_result, .. } => {
                self.case(ast, operand.as_deref(), conditions, else_result.as_deref(), depth)
            }
            ast::Expr::Ceil { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                self.named(ast, "ceil", &[expr], depth)
            }
            ast::Expr::Floor { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                self.named(ast, "floor", &[expr], depth)
            }
            ast::Expr::Position { expr, r#in } => self.named(ast, "strpos", &[r#in, expr], depth),
            ast::Expr::Substring { expr, substring_from, substring_for, .. } => {
                self.substring(ast, expr, substring_from.as_deref(), substring_for.as_deref(), depth)
            }
            ast::Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    None | Some(ast::TrimWhereField::Both) => "trim",
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                };
                let what = trim_what.as_deref().or_else(|| trim_characters.as_ref().and_then(|c| c.first()));
                let args: Vec<&ast::Expr> = std::iter::once(&**expr).chain(what).collect();
                self.named(ast, name, &args, depth)
            }
            ast::Expr::Extract { field, expr, .. } => {
                let unit = build::text_literal(&field.to_string().to_lowercase());
                let from = self.expr(expr, depth)?;
                self.typed(ast, build::function("date_part", vec![unit, from]))
            }
            _ => self.predicate(ast, depth),
        }
    }

    pub(super) fn unsupported(&self, ast: &ast::Expr, hint: &str) -> Error {
        let mut text = ast.to_string();
        if text.chars().count() > 60 {
            text = text.chars().take(60).chain(['…']).collect();
        }
        self.error(self.span(ast), format!("unsupported expression {text}")).with_hint(hint)
    }

    /// In the group phase: the group column that a subtree equals.
    fn group_column(&mut self, ast: &ast::Expr) -> Option<Expr> {
        let grouped = self.grouped.as_ref()?;
        if grouped.group.is_empty() || matches!(ast, ast::Expr::Value(_)) {
            return None;
        }
        let bound = Binder::row(self.scope, self.clause, self.fallback).bind(ast).ok()?;
        let at = grouped.group.iter().position(|g| *g == bound)?;
        Some(Expr::column(at, bound.dtype))
    }

    fn column(&mut self, ast: &ast::Expr, depth: usize) -> Result<Expr> {
        let path = as_path(ast).unwrap_or_default();
        if let Some(bound) = self.scope.bound(path) {
            let Some(grouped) = &self.grouped else {
                let error =
                    self.error(self.span(ast), format!("\"{}\" is not known in {}", path_text(path), self.clause));
                return Err(error.with_hint("a record has no window before the aggregation: test windows in HAVING"));
            };
            let at = grouped.group.len() + usize::from(bound == Bound::End);
            return Ok(Expr::column(at, DataType::Timestamp));
        }
        let found = self.scope.try_column(path)?;
        if found.is_none()
            && let [name] = path
            && let Some(target) = self.alias(name)
        {
            // The name stands for itself no more: an alias of an alias would never end.
            let aliases = self.grouped.as_mut().map(|g| std::mem::take(&mut g.aliases)).unwrap_or_default();
            let bound = self.expr(target, depth);
            if let Some(grouped) = &mut self.grouped {
                grouped.aliases = aliases;
            }
            return bound;
        }
        let at = self.scope.column(path)?;
        let column = self.scope.columns.get(at);
        let dtype = column.map_or(DataType::Text, |c| c.dtype.clone());
        if self.grouped.is_some() {
            let name = path_text(path);
            let error = self.error(self.span(ast), format!("column \"{name}\" is neither grouped nor aggregated"));
            return Err(error.with_hint(format!("add it to GROUP BY, or aggregate it, as in max({name})")));
        }
        Ok(Expr::column(at, dtype))
    }

    fn alias(&self, name: &Ident) -> Option<&'a ast::Expr> {
        let grouped = self.grouped.as_ref()?;
        grouped.aliases.iter().find(|(alias, _)| same_name(name, &alias.value)).map(|(_, target)| *target)
    }

    fn literal(&self, ast: &ast::Expr, value: &ast::Value) -> Result<Expr> {
        match value {
            ast::Value::Number(digits, false) => self.typed(ast, build::number_literal(digits)),
            ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => {
                Ok(build::text_literal(text))
            }
            ast::Value::DollarQuotedString(text) => Ok(build::text_literal(&text.value)),
            ast::Value::Boolean(b) => Ok(Expr::literal(Value::Boolean(*b), DataType::Boolean)),
            ast::Value::Null => Ok(build::null_literal()),
            ast::Value::Placeholder(_) => Err(self.unsupported(ast, "a program has no parameters")),
            _ => Err(self.unsupported(
                ast,
                "literals are numbers, 'texts', TRUE, FALSE, NULL, TIMESTAMP '…', DATE '…', INTERVAL '…'",
            )),
        }
    }

    fn typed_string(&self, ast: &ast::Expr, typed: &ast::TypedString) -> Result<Expr> {
        let text = match &typed.value.value {
            ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => text,
            _ => return Err(self.unsupported(ast, "write the type and a text in single quotes")),
        };
        let dtype = data_type(&typed.data_type).map_err(|(m, hint)| self.error(self.span(ast), m).with_hint(hint))?;
        let cast = self.typed(ast, build::cast(build::text_literal(text), dtype.clone()))?;
        match fold(&cast) {
            Some(Ok(value)) => Ok(Expr::literal(value, dtype)),
            Some(Err(why)) => Err(self.error(self.span(ast), why)),
            None => Ok(cast),
        }
    }

    fn interval(&self, ast: &ast::Expr, interval: &ast::Interval) -> Result<Expr> {
        let Some(text) = interval_text(interval) else {
            return Err(self.unsupported(ast, "write INTERVAL '1 hour 30 minutes' or INTERVAL '5' MINUTE"));
        };
        match crate::time::parse_duration(&text) {
            Ok(us) => Ok(Expr::literal(Value::Interval(us), DataType::Interval)),
            Err(why) => Err(self.error(self.span(ast), format!("expected an INTERVAL, found '{text}'")).with_hint(why)),
        }
    }

    fn binary(
        &mut self,
        ast: &ast::Expr,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
        depth: usize,
    ) -> Result<Expr> {
        let func = match op {
            BinaryOperator::And => {
                let (a, b) = (self.expr(left, depth)?, self.expr(right, depth)?);
                return self.typed(ast, build::and(a, b));
            }
            BinaryOperator::Or => {
                let (a, b) = (self.expr(left, depth)?, self.expr(right, depth)?);
                return self.typed(ast, build::or(a, b));
            }
            BinaryOperator::Plus => Func::Add,
            BinaryOperator::Minus => Func::Sub,
            BinaryOperator::Multiply => Func::Mul,
            BinaryOperator::Divide => Func::Div,
            BinaryOperator::Modulo => Func::Mod,
            BinaryOperator::StringConcat => Func::Concat,
            BinaryOperator::Eq => Func::Eq,
            BinaryOperator::NotEq => Func::NotEq,
            BinaryOperator::Lt => Func::Lt,
            BinaryOperator::LtEq => Func::LtEq,
            BinaryOperator::Gt => Func::Gt,
            BinaryOperator::GtEq => Func::GtEq,
            BinaryOperator::PGLikeMatch => Func::Like,
            BinaryOperator::PGILikeMatch => Func::ILike,
            BinaryOperator::PGExp => Func::Power,
            BinaryOperator::Arrow | BinaryOperator::LongArrow => {
                return Err(self.unsupported(ast, "declare the nested field as a column: payload.amount BIGINT"));
            }
            _ => return Err(self.unsupported(ast, "operators are + - * / % || = <> < <= > >= AND OR")),
        };
        let args = vec![self.expr(left, depth)?, self.expr(right, depth)?];
        self.typed(ast, build::call(func, args))
    }

    fn unary(&mut self, ast: &ast::Expr, op: UnaryOperator, inner: &ast::Expr, depth: usize) -> Result<Expr> {
        match op {
            UnaryOperator::Plus => self.expr(inner, depth),
            UnaryOperator::Minus => {
                if let ast::Expr::Value(value) = inner
                    && let ast::Value::Number(digits, false) = &value.value
                    && let Ok(number) = format!("-{digits}").parse::<i64>()
                {
                    // The least BIGINT has no positive twin.
                    return Ok(Expr::literal(Value::BigInt(number), DataType::BigInt));
                }
                let inner = self.expr(inner, depth)?;
                self.typed(ast, build::call(Func::Neg, vec![inner]))
            }
            UnaryOperator::Not => {
                let inner = self.expr(inner, depth)?;
                self.typed(ast, build::call(Func::Not, vec![inner]))
            }
            _ => Err(self.unsupported(ast, "unary operators are +, - and NOT")),
        }
    }

    fn case(
        &mut self,
        ast: &ast::Expr,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
        depth: usize,
    ) -> Result<Expr> {
        let operand = operand.map(|o| self.expr(o, depth)).transpose()?;
        let mut whens = Vec::with_capacity(conditions.len());
        for when in conditions {
            let mut test = self.expr(&when.condition, depth)?;
            if let Some(operand) = &operand {
                test = self.typed(&when.condition, build::call(Func::Eq, vec![operand.clone(), test]))?;
            }
            whens.push((test, self.expr(&when.result, depth)?));
        }
        let otherwise = otherwise.map(|o| self.expr(o, depth)).transpose()?;
        self.typed(ast, build::case(whens, otherwise))
    }

    fn substring(
        &mut self,
        ast: &ast::Expr,
        text: &ast::Expr,
        from: Option<&ast::Expr>,
        count: Option<&ast::Expr>,
        depth: usize,
    ) -> Result<Expr> {
        let mut args = vec![self.expr(text, depth)?];
        args.push(match from {
            Some(from) => self.expr(from, depth)?,
            None => Expr::literal(Value::BigInt(1), DataType::BigInt),
        });
        if let Some(count) = count {
            args.push(self.expr(count, depth)?);
        }
        self.typed(ast, build::function("substr", args))
    }

    fn named(&mut self, ast: &ast::Expr, name: &str, args: &[&ast::Expr], depth: usize) -> Result<Expr> {
        let args = args.iter().map(|a| self.expr(a, depth)).collect::<Result<Vec<_>>>()?;
        self.typed(ast, build::function(name, args))
    }

    fn function(&mut self, ast: &ast::Expr, call: &ast::Function, depth: usize) -> Result<Expr> {
        let name = call.name.to_string().to_lowercase();
        let place = call.name.span();
        if call.over.is_some() {
            let error = self.error(place, format!("{name}(…) OVER (…) is not supported"));
            return Err(
                error.with_hint("windows of time come from FROM TUMBLE or HOP; rows are aggregated with GROUP BY")
            );
        }
        if aggregates::is_aggregate(&name) {
            return self.aggregate(call, &name);
        }
        if let Some(hint) = aggregates::unsupported(&name) {
            return Err(self.error(place, format!("unsupported aggregate {name}")).with_hint(hint));
        }
        if matches!(name.as_str(), "now" | "current_timestamp" | "current_date" | "localtimestamp" | "clock_timestamp")
        {
            let error = self.error(place, format!("{name} is not supported"));
            return Err(error.with_hint("results depend on the input alone; use the record's event or arrival time"));
        }
        if matches!(
            name.as_str(),
            "tumble" | "hop" | "session" | "tumble_start" | "tumble_end" | "hop_start" | "hop_end"
        ) {
            let error = self.error(place, format!("{name} is not a scalar function"));
            return Err(error.with_hint("write FROM TUMBLE(table, time, size) and group by window_start, window_end"));
        }
        let plain = call.filter.is_none() && call.within_group.is_empty() && call.null_treatment.is_none();
        let args = match &call.args {
            ast::FunctionArguments::List(list)
                if plain && list.duplicate_treatment.is_none() && list.clauses.is_empty() =>
            {
                &list.args
            }
            ast::FunctionArguments::None if plain => {
                return Err(self.unsupported(ast, "a function has arguments in parentheses"));
            }
            _ => return Err(self.error(place, format!("{name} is no aggregate: it takes plain arguments"))),
        };
        let args = args.iter().map(|a| self.argument(&name, place, a, depth)).collect::<Result<Vec<_>>>()?;
        if name == "coalesce" {
            return self.typed(ast, build::coalesce(args));
        }
        self.typed(ast, build::function(&name, args))
    }

    fn argument(&mut self, name: &str, place: Span, arg: &ast::FunctionArg, depth: usize) -> Result<Expr> {
        match arg {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => self.expr(expr, depth),
            _ => Err(self.error(place, format!("{name} takes plain arguments"))),
        }
    }

    fn aggregate(&mut self, call: &ast::Function, name: &str) -> Result<Expr> {
        let place = call.name.span();
        if self.grouped.is_none() {
            let error = self.error(place, format!("the aggregate {name} is not allowed in {}", self.clause));
            return Err(match self.clause {
                "WHERE" => error.with_hint("test results in HAVING; choose the records of one aggregate with FILTER (WHERE …)"),
                "an aggregate" => error.with_hint("aggregates cannot be nested"),
                "GROUP BY" => error.with_hint("groups are made before aggregates are known"),
                aggregates::NO_WINDOW => error.with_hint(format!(
                    "aggregates need windows: FROM TUMBLE({}, event_time, INTERVAL '1 minute') … GROUP BY window_start, window_end",
                    self.scope.table
                )),
                _ => error,
            });
        }
        let (plan, dtype) = aggregates::bind(self.scope, self.fallback, call, name)?;
        let Some(grouped) = &mut self.grouped else { return Err(self.error(place, "an aggregate without groups")) };
        let at = grouped.aggregates.iter().position(|a| *a == plan).unwrap_or_else(|| {
            grouped.aggregates.push(plan);
            grouped.aggregates.len() - 1
        });
        Ok(Expr::column(grouped.group.len() + 2 + at, dtype))
    }
}
