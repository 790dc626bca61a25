//! SQL: from text to a [`Program`].
//!
//! A program is a list of statements: `CREATE TABLE … WATERMARK FOR … WITH (…)`, `CREATE MATERIALIZED VIEW … WITH (…) AS
//! SELECT …`, `CREATE SINK … FROM … WITH (…)`, and bare `SELECT`s, whose changelogs go to standard output. The parser is
//! `sqlparser`; what SQL lacks is read by hand (`statement`). Binding turns names into column indices and checks every
//! setting, so that a [`Program`] can be run as it stands. Nothing is read or written here.
//!
//! Names: an unquoted name matches in any case, and the spelling of its declaration is kept; a quoted name matches to the
//! letter. `payload.amount BIGINT` declares a column within nested JSON, `"payload.amount" BIGINT` one whose name holds a
//! dot. Types: INTEGER, INT and SMALLINT are BIGINT, REAL and FLOAT are DOUBLE, DECIMAL without digits is DECIMAL(38,9).
//!
//! Choices where standards differ: a view's `offset` is taken modulo the slide (25 s and −5 s are 5 s for a slide of
//! 10 s); `late`, `rejects` and sinks must name different files; GROUP BY takes ordinals and aliases (a column goes before
//! an alias), and so does HAVING take aliases.
//!
//! Invariant: every error names the place, and errors of settings name the setting. Cost: linear in the text, but for
//! `bind`'s comparison with the groups.

mod aggregates;
mod bind;
mod explain;
mod from;
mod options;
mod policy;
mod predicate;
mod quote;
mod scope;
mod sink;
mod statement;
mod table;
mod text;
mod view;

#[cfg(test)]
mod tests;

pub use explain::explain;
pub use options::refuse_compressed;
pub use policy::with_policy;
pub use quote::{quoted, quoted_path};

use crate::error::{Error, Result};
use crate::plan::{Program, SourcePlan};
use from::Catalog;
use sqlparser::ast::Ident;
use statement::Statement;
use text::SourceText;

/// Settings of bare SELECTs, which have no WITH of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BareSelectDefaults {
    /// `--horizon`, in microseconds, zero or more.
    pub horizon_us: Option<i64>,
    /// `--late`: file for too-late contributions.
    pub late: Option<String>,
}

/// Plans a text; `name` is what messages call it (`query.sql`).
///
/// # Errors
/// At the first thing that is wrong: `query.sql:3:12: unknown column "amout"`, with the line and a caret as detail.
pub fn plan(name: &str, text: &str, defaults: &BareSelectDefaults) -> Result<Program> {
    let source = SourceText::new(name, text);
    let mut program = Program { tables: Vec::new(), views: Vec::new(), sinks: Vec::new(), warnings: Vec::new() };
    for statement in statement::parse(&source, text)? {
        add(&source, &mut program, statement, defaults)?;
    }
    finish(name, &mut program)?;
    Ok(program)
}

fn add(
    source: &SourceText<'_>,
    program: &mut Program,
    statement: Statement,
    defaults: &BareSelectDefaults,
) -> Result<()> {
    match statement {
        Statement::Table(statement) => {
            if statement.if_not_exists && program.tables.iter().any(|t| t.name == statement.name.value) {
                program.warnings.push(format!(
                    "table \"{}\" exists already: the second declaration is ignored",
                    statement.name.value
                ));
                return Ok(());
            }
            check_new(source, program, &statement.name)?;
            let table = table::bind_table(source, *statement, &mut program.warnings)?;
            program.tables.push(table);
        }
        Statement::View(mut statement) => {
            if let Some(name) = &statement.name {
                check_new(source, program, name)?;
            }
            let catalog = Catalog { source, tables: &program.tables, views: &program.views };
            let view = view::bind(&catalog, &mut statement, defaults, &mut program.warnings)?;
            if view.name.is_none() {
                program.sinks.push(sink::implied(program.views.len()));
            }
            program.views.push(view);
        }
        Statement::Sink(statement) => {
            let taken = program
                .sinks
                .iter()
                .any(|s| s.name.as_deref().is_some_and(|n| n.eq_ignore_ascii_case(&statement.name.value)));
            if taken {
                let message = format!("sink \"{}\" exists already", statement.name.value);
                return Err(source.error(statement.name.span, message));
            }
            let sink = sink::bind(source, statement, &program.tables, &program.views)?;
            program.sinks.push(sink);
        }
    }
    Ok(())
}

/// Tables and views share their names; two that differ in case only could not be told apart.
fn check_new(source: &SourceText<'_>, program: &Program, name: &Ident) -> Result<()> {
    let same = |known: &str| known.eq_ignore_ascii_case(&name.value);
    let kind = if program.tables.iter().any(|t| same(&t.name)) {
        "table"
    } else if program.views.iter().filter_map(|v| v.name.as_deref()).any(same) {
        "view"
    } else {
        return Ok(());
    };
    Err(source.error(name.span, format!("{kind} \"{}\" exists already", name.value)))
}

/// Implied sinks, and checks over the whole program.
fn finish(name: &str, program: &mut Program) -> Result<()> {
    if program.views.is_empty() {
        let error = Error::usage("there is nothing to run: the program has no SELECT").at(name);
        return Err(error.with_hint("add a SELECT, or a CREATE MATERIALIZED VIEW and a CREATE SINK"));
    }
    let mut stdin = program.tables.iter().filter(|t| matches!(t.source, SourcePlan::Stdin { .. }));
    if let (Some(first), Some(second)) = (stdin.next(), stdin.next()) {
        let message = format!("tables \"{}\" and \"{}\" both read standard input", first.name, second.name);
        return Err(Error::usage(message).at(name).with_hint("several views may read one table"));
    }
    match program.views.as_slice() {
        [_] if program.sinks.is_empty() => program.sinks.push(sink::implied(0)),
        views if program.sinks.is_empty() => {
            let error = Error::usage(format!("{} views and no sink: nothing would be written", views.len())).at(name);
            let first = views.iter().find_map(|v| v.name.as_deref()).unwrap_or("view");
            return Err(error.with_hint(format!("add CREATE SINK out FROM {first} WITH (connector = 'stdout')")));
        }
        views => {
            let written = |at: usize| program.sinks.iter().any(|s| s.view == at);
            let idle = views
                .iter()
                .enumerate()
                .filter(|(at, v)| v.late.is_none() && !written(*at))
                .filter_map(|(_, v)| v.name.as_ref());
            program.warnings.extend(idle.map(|n| format!("view \"{n}\" has no sink: its results are not written")));
        }
    }
    sink::check_files(&program.tables, &program.views, &program.sinks).map_err(|e| e.at(name))
}
