//! A SELECT to a [`ViewPlan`]: windowed aggregation, or rows passing through.

use super::BareSelectDefaults;
use super::aggregates;
use super::bind::{Binder, Grouped};
use super::from::{Catalog, From};
use super::options::{Options, refuse_compressed};
use super::scope::{Bound, Scope, as_path, or_place, same_name};
use super::statement::ViewStatement;
use super::table::FOREVER_US;
use super::text::SourceText;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::plan::{LateRecords, TablePlan, ViewKind, ViewPlan, WindowPlan, WindowedPlan};
use crate::types::DataType;
use sqlparser::ast::{self, Ident, Spanned};
use sqlparser::tokenizer::Span;

/// Options of a view.
const OPTIONS: [&str; 4] = ["horizon", "late", "offset", "spike_above"];
/// Columns that every row of a changelog begins with.
const CHANGELOG: [&str; 4] = ["op", "watermark", "revision", "late_count"];

/// One item of the SELECT list, wildcards spelled out.
struct Item<'a> {
    name: String,
    /// Where the name comes from, for errors.
    place: Span,
    expr: ItemExpr<'a>,
    /// The alias as written.
    alias: Option<&'a Ident>,
}

enum ItemExpr<'a> {
    Ast(&'a ast::Expr),
    /// A column of `SELECT *`.
    Column(usize),
}

/// Binds a view or a bare SELECT.
///
/// # Errors
/// At the first clause that is not supported, or has no meaning here.
pub(super) fn bind(
    catalog: &Catalog<'_>,
    statement: &mut ViewStatement,
    defaults: &BareSelectDefaults,
    warnings: &mut Vec<String>,
) -> Result<ViewPlan> {
    let source = catalog.source;
    let owner = statement.name.as_ref().map_or(statement.select, |n| n.span);
    let mut options = Options::new(source, std::mem::take(&mut statement.options), owner, &OPTIONS)?;
    let select = plain_select(source, &statement.query, statement.select)?;
    let from = catalog.bind(&select.from, statement.select)?;
    let table = catalog.tables.get(from.table).ok_or_else(|| source.error(owner, "unknown table"))?;
    let scope = Scope {
        source,
        table: &table.name,
        columns: &table.columns,
        qualifier: Some(from.qualifier.clone()),
        windowed: from.window.is_some(),
    };
    let filter = match &select.selection {
        Some(filter) => Some(Binder::row(&scope, "WHERE", statement.select).condition(filter)?),
        None => None,
    };
    let items = items(&scope, select, statement.select)?;
    let title = statement.name.as_ref().map_or_else(|| "the SELECT".to_owned(), |n| format!("view \"{}\"", n.value));
    let (kind, output) = match from.window {
        Some(window) => windowed(&scope, select, &items, window, statement.select)?,
        None => pass_through(&scope, select, &items, statement.select)?,
    };
    check_names(&scope, &items, &output)?;
    let mut plan = ViewPlan {
        name: statement.name.as_ref().map(|n| n.value.clone()),
        table: from.table,
        filter,
        kind,
        output,
        horizon_us: None,
        late: None,
        spike_above: 1,
        sql: statement.sql.clone(),
    };
    settings(&mut plan, &from, table, &mut options, statement.name.is_none().then_some(defaults), &title, warnings)?;
    options.finish("on a view")?;
    Ok(plan)
}

/// The SELECT of a query that has nothing else.
fn plain_select<'q>(source: &SourceText<'_>, query: &'q ast::Query, place: Span) -> Result<&'q ast::Select> {
    let refuse = |span: Span, what: &str, hint: &str| -> Error {
        let span = or_place(span, place);
        source.error(span, format!("{what} is not supported")).with_hint(hint)
    };
    if let Some(with) = &query.with {
        return Err(refuse(
            with.span(),
            "WITH (a common table expression)",
            "a query reads a table, or TUMBLE or HOP over one",
        ));
    }
    if let Some(order) = &query.order_by {
        return Err(refuse(
            order.span(),
            "ORDER BY",
            "rows are ordered by watermark, window and group columns, so that files compare byte for byte",
        ));
    }
    if let Some(limit) = &query.limit_clause {
        return Err(refuse(
            limit.span(),
            "LIMIT or OFFSET",
            "a result has no end to count from; choose windows or groups with HAVING",
        ));
    }
    if let Some(fetch) = &query.fetch {
        return Err(refuse(
            fetch.span(),
            "FETCH",
            "a result has no end to count from; choose windows or groups with HAVING",
        ));
    }
    if !query.locks.is_empty()
        || query.for_clause.is_some()
        || query.settings.is_some()
        || query.format_clause.is_some()
    {
        return Err(refuse(
            place,
            "a clause after the SELECT",
            "a query is SELECT … FROM … WHERE … GROUP BY … HAVING …",
        ));
    }
    if !query.pipe_operators.is_empty() {
        return Err(refuse(place, "|>", "a query is SELECT … FROM … WHERE … GROUP BY … HAVING …"));
    }
    let select = match &*query.body {
        ast::SetExpr::Select(select) => select,
        ast::SetExpr::Query(inner) => return plain_select(source, inner, place),
        ast::SetExpr::SetOperation { op, right, .. } => {
            return Err(refuse(right.span(), &op.to_string(), "write one view for each SELECT"));
        }
        ast::SetExpr::Values(values) => {
            return Err(refuse(values.span(), "VALUES", "records come from a table's connector"));
        }
        _ => {
            let hint = "records come from a table's connector, results go to a CREATE SINK … FROM view";
            return Err(refuse(place, "this statement", hint));
        }
    };
    check_select(select, refuse)?;
    Ok(select)
}

fn check_select(select: &ast::Select, refuse: impl Fn(Span, &str, &str) -> Error) -> Result<()> {
    if select.distinct.is_some() {
        return Err(refuse(
            select.select_token.0.span,
            "SELECT DISTINCT",
            "group instead: SELECT x … GROUP BY x, window_start, window_end",
        ));
    }
    if let Some(qualify) = &select.qualify {
        return Err(refuse(qualify.span(), "QUALIFY", "results are chosen with HAVING"));
    }
    if !select.named_window.is_empty() {
        return Err(refuse(Span::empty(), "WINDOW", "windows of time come from FROM TUMBLE or HOP"));
    }
    let odd = select.top.is_some()
        || select.select_modifiers.is_some()
        || select.exclude.is_some()
        || select.into.is_some()
        || !select.lateral_views.is_empty()
        || select.prewhere.is_some()
        || !select.connect_by.is_empty()
        || !select.cluster_by.is_empty()
        || !select.distribute_by.is_empty()
        || !select.sort_by.is_empty()
        || select.value_table_mode.is_some()
        || select.flavor != ast::SelectFlavor::Standard;
    if odd {
        return Err(refuse(
            Span::empty(),
            "this form of SELECT",
            "a query is SELECT … FROM … WHERE … GROUP BY … HAVING …",
        ));
    }
    Ok(())
}

/// The SELECT list with names.
fn items<'a>(scope: &Scope<'_>, select: &'a ast::Select, place: Span) -> Result<Vec<Item<'a>>> {
    let mut out = Vec::new();
    for item in &select.projection {
        match item {
            ast::SelectItem::UnnamedExpr(expr) => {
                let span = expr.span();
                let place = or_place(span, place);
                out.push(Item { name: default_name(scope, expr), place, expr: ItemExpr::Ast(expr), alias: None });
            }
            ast::SelectItem::ExprWithAlias { expr, alias } => {
                let name = alias.value.clone();
                out.push(Item { name, place: alias.span, expr: ItemExpr::Ast(expr), alias: Some(alias) });
            }
            ast::SelectItem::Wildcard(options) if *options == ast::WildcardAdditionalOptions::default() => {
                wildcard(scope, options.wildcard_token.0.span, &mut out)?;
            }
            ast::SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if *options == ast::WildcardAdditionalOptions::default() =>
            {
                let known = match name.0.as_slice() {
                    [ast::ObjectNamePart::Identifier(ident)] => {
                        scope.qualifier.as_ref().is_some_and(|q| same_name(ident, &q.value))
                    }
                    _ => false,
                };
                if !known {
                    return Err(scope.source.error(name.span(), format!("unknown table \"{name}\"")));
                }
                wildcard(scope, name.span(), &mut out)?;
            }
            other => {
                let span = other.span();
                let error = scope.source.error(or_place(span, place), "expected an expression in the SELECT list");
                return Err(error.with_hint("SELECT * takes no EXCEPT, REPLACE or RENAME: list the columns"));
            }
        }
    }
    if out.is_empty() {
        Err(scope.source.error(place, "expected at least one column in the SELECT list"))
    } else {
        Ok(out)
    }
}

fn wildcard(scope: &Scope<'_>, place: Span, out: &mut Vec<Item<'_>>) -> Result<()> {
    if scope.windowed {
        let error = scope
            .source
            .error(place, "SELECT * has no meaning over windows: a result has group columns and aggregates");
        return Err(error.with_hint(format!(
            "list them, as in SELECT window_start, window_end, count(*); rows as they are come from FROM {}",
            scope.table
        )));
    }
    let columns = scope.columns.iter().enumerate();
    out.extend(columns.map(|(at, c)| Item { name: c.name.clone(), place, expr: ItemExpr::Column(at), alias: None }));
    Ok(())
}

/// The name of a column without alias: a column's own, a function's, else the expression's text.
fn default_name(scope: &Scope<'_>, expr: &ast::Expr) -> String {
    if let Some(path) = as_path(expr) {
        return match (scope.bound(path), scope.try_column(path)) {
            (Some(Bound::Start), _) => "window_start".to_owned(),
            (Some(Bound::End), _) => "window_end".to_owned(),
            (None, Ok(Some(at))) => scope.columns.get(at).map(|c| c.name.clone()).unwrap_or_default(),
            _ => path.last().map(|i| i.value.clone()).unwrap_or_default(),
        };
    }
    match expr {
        ast::Expr::Nested(inner) | ast::Expr::Cast { expr: inner, .. } => default_name(scope, inner),
        ast::Expr::Function(call) => call.name.to_string().to_lowercase(),
        ast::Expr::Case { .. } => "case".to_owned(),
        other => other.to_string(),
    }
}

type Bind = (ViewKind, Vec<(String, DataType)>);

fn pass_through(scope: &Scope<'_>, select: &ast::Select, items: &[Item<'_>], place: Span) -> Result<Bind> {
    if let Some(having) = &select.having {
        let error = scope.source.error(having.span(), "HAVING needs windows");
        return Err(error.with_hint("choose rows with WHERE"));
    }
    let mut exprs = Vec::with_capacity(items.len());
    let mut output = Vec::with_capacity(items.len());
    // Aggregates are looked for first: "aggregates need windows" says more than "GROUP BY needs windows".
    for item in items {
        let bound = match item.expr {
            ItemExpr::Column(at) => column(scope, at),
            ItemExpr::Ast(ast) => Binder::row(scope, aggregates::NO_WINDOW, place).bind(ast)?,
        };
        output.push((item.name.clone(), bound.dtype.clone()));
        exprs.push(bound);
    }
    match &select.group_by {
        ast::GroupByExpr::Expressions(list, modifiers) if list.is_empty() && modifiers.is_empty() => {}
        group => {
            let span = group.span();
            let error = scope.source.error(or_place(span, place), "GROUP BY needs windows");
            return Err(error.with_hint(format!(
                "FROM TUMBLE({}, event_time, INTERVAL '1 minute') … GROUP BY window_start, window_end",
                scope.table
            )));
        }
    }
    Ok((ViewKind::PassThrough(exprs), output))
}

fn column(scope: &Scope<'_>, at: usize) -> Expr {
    Expr::column(at, scope.columns.get(at).map_or(DataType::Text, |c| c.dtype.clone()))
}

fn windowed(
    scope: &Scope<'_>,
    select: &ast::Select,
    items: &[Item<'_>],
    window: WindowPlan,
    place: Span,
) -> Result<Bind> {
    if let Some(column) =
        scope.columns.iter().find(|c| ["window_start", "window_end"].iter().any(|w| c.name.eq_ignore_ascii_case(w)))
    {
        let error = scope
            .source
            .error(place, format!("table \"{}\" has a column \"{}\", and so have windows", scope.table, column.name));
        return Err(error.with_hint("rename the table's column"));
    }
    let (group, by_window) = group_by(scope, select, items, place)?;
    let mut grouped = Grouped { group, ..Grouped::default() };
    let mut exprs = Vec::with_capacity(items.len());
    let mut output = Vec::with_capacity(items.len());
    let groups = grouped.group.len();
    for item in items {
        let ItemExpr::Ast(ast) = item.expr else { continue };
        let mut binder = Binder::group(scope, "SELECT", place, grouped);
        let bound = binder.bind(ast)?;
        grouped = binder.grouped.unwrap_or_default();
        output.push((item.name.clone(), bound.dtype.clone()));
        exprs.push(bound);
    }
    let having = match &select.having {
        None => None,
        Some(having) => {
            grouped.aliases = items
                .iter()
                .filter_map(|i| match (i.alias, &i.expr) {
                    (Some(alias), ItemExpr::Ast(ast)) => Some((alias.clone(), *ast)),
                    _ => None,
                })
                .collect();
            let mut binder = Binder::group(scope, "HAVING", place, grouped);
            let bound = binder.condition(having)?;
            grouped = binder.grouped.unwrap_or_default();
            Some(bound)
        }
    };
    if !by_window {
        return Err(no_window_group(scope, select, &grouped, place));
    }
    // Window columns that the query does not name stand first.
    let start = Expr::column(groups, DataType::Timestamp);
    let end = Expr::column(groups + 1, DataType::Timestamp);
    for (bound, name) in [(end, "window_end"), (start, "window_start")] {
        if !exprs.contains(&bound) {
            exprs.insert(0, bound);
            output.insert(0, (name.to_owned(), DataType::Timestamp));
        }
    }
    let plan = WindowedPlan {
        window,
        group: grouped.group,
        aggregates: grouped.aggregates,
        having,
        select: exprs,
        first_stamp: false,
    };
    Ok((ViewKind::Windowed(plan), output))
}

fn no_window_group(scope: &Scope<'_>, select: &ast::Select, grouped: &Grouped<'_>, place: Span) -> Error {
    let span = select.group_by.span();
    if grouped.group.is_empty() && grouped.aggregates.is_empty() {
        let error = scope.source.error(place, "a query over windows has an aggregate or a GROUP BY");
        return error.with_hint(format!("rows as they are come from FROM {}", scope.table));
    }
    let error = scope.source.error(or_place(span, place), "a query over windows groups by window_start or window_end");
    let hint = if grouped.group.is_empty() {
        "add GROUP BY window_start, window_end"
    } else {
        "add window_start, window_end to GROUP BY"
    };
    error.with_hint(hint)
}

/// The group expressions other than window bounds, and whether a bound is among them (either implies both).
fn group_by(scope: &Scope<'_>, select: &ast::Select, items: &[Item<'_>], place: Span) -> Result<(Vec<Expr>, bool)> {
    let list = match &select.group_by {
        ast::GroupByExpr::Expressions(list, modifiers) if modifiers.is_empty() => list,
        other => {
            let span = other.span();
            let error = scope.source.error(or_place(span, place), "this form of GROUP BY is not supported");
            return Err(error.with_hint("list the columns and expressions"));
        }
    };
    let mut out: Vec<Expr> = Vec::new();
    let mut by_window = false;
    for ast in list {
        if matches!(ast, ast::Expr::Tuple(parts) if parts.is_empty()) {
            continue;
        }
        if matches!(ast, ast::Expr::Rollup(_) | ast::Expr::Cube(_) | ast::Expr::GroupingSets(_)) {
            let error =
                scope.source.error(or_place(ast.span(), place), "ROLLUP, CUBE and GROUPING SETS are not supported");
            return Err(error.with_hint("write one view for each grouping"));
        }
        let target = group_target(scope, ast, items, place)?;
        if as_path(target).is_some_and(|p| scope.bound(p).is_some()) {
            by_window = true;
            continue;
        }
        let bound = Binder::row(scope, "GROUP BY", or_place(ast.span(), place)).bind(target)?;
        if !out.contains(&bound) {
            out.push(bound);
        }
    }
    Ok((out, by_window))
}

/// What an item of GROUP BY stands for: an ordinal or an alias is the SELECT item; a column goes before an alias.
fn group_target<'a>(scope: &Scope<'_>, ast: &'a ast::Expr, items: &[Item<'a>], place: Span) -> Result<&'a ast::Expr> {
    if let ast::Expr::Value(value) = ast
        && let ast::Value::Number(digits, _) = &value.value
    {
        let index = digits.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
        return match index.and_then(|i| items.get(i)).map(|i| &i.expr) {
            Some(ItemExpr::Ast(target)) => Ok(target),
            _ => {
                let message = format!("GROUP BY {digits}: the SELECT list has {} columns", items.len());
                Err(scope.source.error(or_place(ast.span(), place), message))
            }
        };
    }
    if let ast::Expr::Identifier(name) = ast
        && scope.bound(std::slice::from_ref(name)).is_none()
        && scope.try_column(std::slice::from_ref(name))?.is_none()
        && let Some(item) = items.iter().find(|i| i.alias.is_some_and(|a| same_name(name, &a.value)))
        && let ItemExpr::Ast(target) = &item.expr
    {
        return Ok(target);
    }
    Ok(ast)
}

/// Output names are distinct, and none is a column that a changelog has anyway.
fn check_names(scope: &Scope<'_>, items: &[Item<'_>], output: &[(String, DataType)]) -> Result<()> {
    let mut seen: Vec<&str> =
        output.iter().take(output.len().saturating_sub(items.len())).map(|(n, _)| n.as_str()).collect();
    for item in items {
        if CHANGELOG.contains(&item.name.as_str()) {
            let error =
                scope.source.error(item.place, format!("column \"{}\" is one that every changelog has", item.name));
            return Err(error.with_hint("give it another name with AS"));
        }
        if seen.contains(&item.name.as_str()) {
            let error = scope.source.error(item.place, format!("two columns are called \"{}\"", item.name));
            return Err(error.with_hint("give one another name with AS"));
        }
        seen.push(&item.name);
    }
    Ok(())
}

fn settings(
    plan: &mut ViewPlan,
    from: &From,
    table: &TablePlan,
    options: &mut Options<'_>,
    bare: Option<&BareSelectDefaults>,
    title: &str,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let drop = table.late_records == LateRecords::Drop;
    if from.window.is_none() {
        for key in ["horizon", "offset", "spike_above"] {
            if let Some(place) = options.place(key) {
                return Err(
                    options.at(place, format!("option \"{key}\" needs windows, and this view passes rows through"))
                );
            }
        }
    }
    let late_place = options.place("late");
    plan.horizon_us = options.duration_from("horizon", 0, "a duration of zero or more")?;
    plan.late = options.output_file("late")?.map(|(path, _)| path);
    plan.spike_above = options.whole("spike_above", 0, u64::MAX)?.unwrap_or(1);
    if let Some(bare) = bare {
        plan.horizon_us = bare.horizon_us.filter(|_| from.window.is_some());
        refuse_compressed("--late", bare.late.as_deref())?;
        plan.late = bare.late.clone();
        if bare.horizon_us.is_some() && from.window.is_none() {
            warnings.push(format!("{title} passes rows through: --horizon has no effect"));
        }
        if plan.horizon_us.is_some_and(|h| h < 0) {
            return Err(Error::usage("--horizon: expected a duration of zero or more"));
        }
    }
    plan.horizon_us = plan.horizon_us.map(|h| h.min(FOREVER_US));
    if plan.late.is_some() && from.window.is_none() && !drop {
        match late_place {
            Some(place) => {
                let error = options.at(place, "option \"late\" needs windows, and this view passes rows through");
                return Err(error.with_hint("without windows nothing is late, except under late_records = 'drop'"));
            }
            None => warnings.push(format!("{title} passes rows through: --late stays empty")),
        }
    }
    let offset = options.duration("offset")?;
    if let ViewKind::Windowed(windowed) = &mut plan.kind {
        let slide = windowed.window.slide_us;
        windowed.window.offset_us = offset.map_or(0, |(us, _)| us.rem_euclid(slide.max(1)));
        if slide < table.granularity_us {
            warnings.push(format!(
                "{title}: the slide {} is finer than the granularity {} of table \"{}\", so its windows close in groups",
                crate::time::format_duration(slide),
                crate::time::format_duration(table.granularity_us),
                table.name
            ));
        }
    }
    if drop && plan.horizon_us.is_some() {
        warnings.push(format!(
            "{title}: the horizon has no effect, because table \"{}\" has late_records = 'drop'",
            table.name
        ));
    }
    Ok(())
}
