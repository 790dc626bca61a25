//! The FROM clause: a table, or windows over one.

use super::bind::Binder;
use super::scope::{Scope, or_place, same_name, span_of_path};
use super::table::FOREVER_US;
use super::text::{SourceText, did_you_mean};
use crate::error::{Error, Result};
use crate::plan::{TablePlan, ViewPlan, WindowPlan};
use crate::types::Value;
use sqlparser::ast::{self, Ident, Spanned, TableFactor};
use sqlparser::tokenizer::Span;

/// Longest window: 10,000 years of 365.25 days. With event times of the years −9999 to 9999 no bound leaves 64 bits.
pub(super) const SIZE_MAX_US: i64 = 10_000 * 31_557_600 * 1_000_000;
/// A record is in at most so many windows.
pub(super) const WINDOWS_MAX: i64 = 1_000_000;

/// What FROM names.
#[derive(Debug)]
pub(super) struct From {
    /// Index of the table.
    pub(super) table: usize,
    /// What may stand before a column: the alias, or the table's name.
    pub(super) qualifier: Ident,
    /// The windows, offset 0 so far.
    pub(super) window: Option<WindowPlan>,
}

/// What names in FROM can mean.
pub(super) struct Catalog<'a> {
    pub(super) source: &'a SourceText<'a>,
    pub(super) tables: &'a [TablePlan],
    pub(super) views: &'a [ViewPlan],
}

impl Catalog<'_> {
    /// The table of a name.
    fn table(&self, ident: &Ident) -> Result<usize> {
        if let Some(at) = self.tables.iter().position(|t| t.name == ident.value) {
            return Ok(at);
        }
        if let Some(at) = self.tables.iter().position(|t| same_name(ident, &t.name)) {
            return Ok(at);
        }
        let names = self.views.iter().filter_map(|v| v.name.as_deref());
        if names.clone().any(|name| same_name(ident, name)) {
            let error =
                self.source.error(ident.span, format!("a view over a view is not supported yet: \"{}\"", ident.value));
            return Err(error.with_hint("read the table, and repeat what the view computes"));
        }
        let error = self.source.error(ident.span, format!("unknown table \"{}\"", ident.value));
        let hint = did_you_mean(&ident.value, self.tables.iter().map(|t| t.name.as_str())).unwrap_or_else(|| {
            "declare it first: CREATE TABLE name (…) WITH (connector = 'file', path = '…')".to_owned()
        });
        Err(error.with_hint(hint))
    }

    /// Binds FROM; `select` is where to point when there is none.
    ///
    /// # Errors
    /// When it is anything but one table or one TUMBLE or HOP over a table.
    pub(super) fn bind(&self, from: &[ast::TableWithJoins], select: Span) -> Result<From> {
        let source = self.source;
        let (first, rest) = from.split_first().ok_or_else(|| {
            source
                .error(select, "expected FROM")
                .with_hint("a query reads a table: SELECT … FROM TUMBLE(orders, event_time, INTERVAL '1 minute')")
        })?;
        let joined = first.joins.first().map(|j| j.relation.span()).or_else(|| rest.first().map(|t| t.relation.span()));
        if let Some(span) = joined {
            let error = source.error(or_place(span, select), "joins are not supported yet");
            return Err(error.with_hint("a query reads one table"));
        }
        match &first.relation {
            TableFactor::Table { name, alias, args, with_hints, .. } => {
                if let Some(hint) = with_hints.first() {
                    let span = or_place(hint.span(), name.span());
                    let error = source.error(span, "WITH (…) after a table in FROM has no meaning");
                    return Err(error.with_hint(
                        "a view's options stand before AS: CREATE MATERIALIZED VIEW name WITH (horizon = '…') AS SELECT …",
                    ));
                }
                self.check_plain(&first.relation, name)?;
                let ident = single(source, name)?;
                match args {
                    None => {
                        let table = self.table(ident)?;
                        Ok(From { table, qualifier: qualifier(source, alias.as_ref(), ident)?, window: None })
                    }
                    Some(args) => self.window(ident, &args.args, alias.as_ref()),
                }
            }
            TableFactor::TableFunction { expr: ast::Expr::Function(call), alias } => {
                let ident = single(source, &call.name)?;
                let ast::FunctionArguments::List(list) = &call.args else {
                    return Err(source.error(ident.span, "expected TUMBLE(…) or HOP(…)"));
                };
                self.window(ident, &list.args, alias.as_ref())
            }
            TableFactor::Derived { subquery, .. } => {
                let error = source.error(or_place(subquery.span(), select), "a subquery in FROM is not supported");
                Err(error.with_hint("a query reads a table, or TUMBLE or HOP over one"))
            }
            other => {
                let error =
                    source.error(or_place(other.span(), select), "expected a table, TUMBLE(…) or HOP(…) in FROM");
                Err(error.with_hint("FROM TUMBLE(orders, event_time, INTERVAL '1 minute')"))
            }
        }
    }

    fn check_plain(&self, relation: &TableFactor, name: &ast::ObjectName) -> Result<()> {
        let TableFactor::Table { version, with_ordinality, partitions, json_path, sample, index_directives, .. } =
            relation
        else {
            return Ok(());
        };
        let plain = version.is_none()
            && !with_ordinality
            && partitions.is_empty()
            && json_path.is_none()
            && sample.is_none()
            && index_directives.is_empty();
        if plain {
            Ok(())
        } else {
            Err(self.source.error(name.span(), "a table in FROM takes an alias and nothing else"))
        }
    }

    fn window(&self, function: &Ident, args: &[ast::FunctionArg], alias: Option<&ast::TableAlias>) -> Result<From> {
        let source = self.source;
        let name = function.value.to_uppercase();
        let form = match name.as_str() {
            "TUMBLE" => "TUMBLE(table, event_time, size)",
            "HOP" => "HOP(table, event_time, slide, size)",
            "SESSION" => {
                let error = source.error(function.span, "session windows are not supported yet");
                return Err(
                    error.with_hint("use TUMBLE(table, event_time, size) or HOP(table, event_time, slide, size)")
                );
            }
            _ => {
                let error = source.error(function.span, format!("unknown table function {}", function.value));
                let hint = did_you_mean(&name, ["TUMBLE", "HOP"]).unwrap_or_else(|| {
                    "windows are TUMBLE(table, event_time, size) and HOP(table, event_time, slide, size)".to_owned()
                });
                return Err(error.with_hint(hint));
            }
        };
        let wrong = || source.error(function.span, format!("expected {form}"));
        let args: Vec<&ast::Expr> = args.iter().map(plain_argument).collect::<Option<_>>().ok_or_else(wrong)?;
        let (table, time, durations) = match args.as_slice() {
            [table, time, rest @ ..] => (*table, *time, rest),
            _ => return Err(wrong()),
        };
        let Some([table_name]) = super::scope::as_path(table) else { return Err(wrong()) };
        let at = self.table(table_name)?;
        let plan = self.tables.get(at).ok_or_else(wrong)?;
        self.check_time(plan, table_name, time)?;
        let window = match (name.as_str(), durations) {
            ("TUMBLE", [size]) => {
                let size_us = self.duration(size, function.span, "the window's size")?;
                WindowPlan { size_us, slide_us: size_us, offset_us: 0 }
            }
            ("TUMBLE", [_, _]) => {
                return Err(wrong().with_hint("an offset is an option of the view: WITH (offset = '…')"));
            }
            ("HOP", [slide, size]) => {
                let slide_us = self.duration(slide, function.span, "the slide")?;
                let size_us = self.duration(size, function.span, "the window's size")?;
                self.check_hop(slide, slide_us, size_us, function.span)?;
                WindowPlan { size_us, slide_us, offset_us: 0 }
            }
            ("HOP", [_, _, _]) => {
                return Err(wrong().with_hint("an offset is an option of the view: WITH (offset = '…')"));
            }
            _ => return Err(wrong()),
        };
        Ok(From { table: at, qualifier: qualifier(source, alias, table_name)?, window: Some(window) })
    }

    /// The time column of a window must be the watermark's.
    fn check_time(&self, plan: &TablePlan, table: &Ident, time: &ast::Expr) -> Result<()> {
        let scope = Scope {
            source: self.source,
            table: &plan.name,
            columns: &plan.columns,
            qualifier: Some(table.clone()),
            windowed: false,
        };
        let path = descriptor(time).and_then(super::scope::as_path).ok_or_else(|| {
            let span = or_place(time.span(), table.span);
            self.source.error(span, "expected the event-time column, the one of WATERMARK FOR")
        })?;
        let at = scope.column(path)?;
        let Some(event_time) = plan.event_time else {
            let shown = path.iter().map(|i| i.value.as_str()).collect::<Vec<_>>().join(".");
            let error = self.source.error(
                span_of_path(path),
                format!("table \"{}\" has no WATERMARK FOR, so its windows would never close", plan.name),
            );
            return Err(error.with_hint(format!(
                "declare it with the columns: WATERMARK FOR {shown} AS {shown} - INTERVAL '30 seconds'"
            )));
        };
        if at == event_time {
            return Ok(());
        }
        let right = plan.columns.get(event_time).map_or("", |c| c.name.as_str());
        let error =
            self.source.error(span_of_path(path), format!("windows are by the watermark's column, \"{right}\""));
        Err(error.with_hint(format!("write {right} here, or declare WATERMARK FOR the other column")))
    }

    /// A positive duration: INTERVAL or a text.
    fn duration(&self, ast: &ast::Expr, fallback: Span, what: &str) -> Result<i64> {
        let scope = Scope { source: self.source, table: "", columns: &[], qualifier: None, windowed: false };
        let mut binder = Binder::row(&scope, "the arguments of a window", fallback);
        let span = binder.span(ast);
        let expected = |found: &str| {
            let error = self.source.error(span, format!("expected an INTERVAL as {what}, found {found}"));
            error.with_hint("write INTERVAL '1 minute'")
        };
        if super::scope::as_path(ast).is_some() {
            return Err(expected(&ast.to_string()));
        }
        let us = match binder.constant(ast, what)? {
            Value::Interval(us) => us,
            Value::Text(text) => crate::time::parse_duration(&text).map_err(|_| expected(&format!("'{text}'")))?,
            _ => return Err(expected(&ast.to_string())),
        };
        if us <= 0 {
            return Err(self
                .source
                .error(span, format!("{what} must be above zero, found {}", crate::time::format_duration(us))));
        }
        if us > SIZE_MAX_US {
            return Err(self.source.error(span, format!("{what} is above the limit of 10,000 years")));
        }
        debug_assert!(us < FOREVER_US);
        Ok(us)
    }

    fn check_hop(&self, slide: &ast::Expr, slide_us: i64, size_us: i64, fallback: Span) -> Result<()> {
        let span = or_place(slide.span(), fallback);
        let shown = crate::time::format_duration;
        if slide_us > size_us {
            let message = format!("the slide {} is longer than the window's size {}", shown(slide_us), shown(size_us));
            let error = self.source.error(span, message);
            return Err(error.with_hint(
                "records between two windows would be lost; the order is HOP(table, event_time, slide, size)",
            ));
        }
        if size_us / slide_us + i64::from(size_us % slide_us != 0) > WINDOWS_MAX {
            let message = format!(
                "a window of {} sliding by {} puts a record into more than the limit of {WINDOWS_MAX} windows",
                shown(size_us),
                shown(slide_us)
            );
            return Err(self.source.error(span, message).with_hint("take a longer slide"));
        }
        Ok(())
    }
}

fn plain_argument(arg: &ast::FunctionArg) -> Option<&ast::Expr> {
    match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// `DESCRIPTOR(x)` is `x`.
fn descriptor(expr: &ast::Expr) -> Option<&ast::Expr> {
    let ast::Expr::Function(call) = expr else { return Some(expr) };
    if !call.name.to_string().eq_ignore_ascii_case("descriptor") {
        return None;
    }
    match &call.args {
        ast::FunctionArguments::List(list) => match list.args.as_slice() {
            [arg] => plain_argument(arg),
            _ => None,
        },
        _ => None,
    }
}

fn single<'n>(source: &SourceText<'_>, name: &'n ast::ObjectName) -> Result<&'n Ident, Error> {
    match name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(ident)] => Ok(ident),
        _ => Err(source.error(name.span(), "a table has no schema: a single name is expected")),
    }
}

fn qualifier(source: &SourceText<'_>, alias: Option<&ast::TableAlias>, name: &Ident) -> Result<Ident> {
    match alias {
        None => Ok(name.clone()),
        Some(alias) if alias.columns.is_empty() => Ok(alias.name.clone()),
        Some(alias) => Err(source.error(alias.name.span, "an alias in FROM renames no columns")),
    }
}
