//! Scopes: what names mean in a query, and where they stand.

use super::text::{SourceText, did_you_mean};
use crate::error::Result;
use crate::plan::ColumnPlan;
use sqlparser::ast::{self, Ident};
use sqlparser::tokenizer::Span;

/// What names mean in one query or watermark expression.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    pub(super) source: &'a SourceText<'a>,
    pub(super) table: &'a str,
    pub(super) columns: &'a [ColumnPlan],
    /// The table's alias or name: what may stand before a column.
    pub(super) qualifier: Option<Ident>,
    /// Whether the query reads windows, so that `window_start` and `window_end` exist.
    pub(super) windowed: bool,
}

/// The two columns that a window adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Start,
    End,
}

/// Whether two names mean the same: quoted ones to the letter, others in any case.
pub(super) fn same_name(ident: &Ident, name: &str) -> bool {
    if ident.quote_style.is_some() { ident.value == name } else { ident.value.eq_ignore_ascii_case(name) }
}

/// A dotted name as text.
pub(super) fn path_text(path: &[Ident]) -> String {
    path.iter().map(|i| i.value.as_str()).collect::<Vec<_>>().join(".")
}

impl Scope<'_> {
    /// The column at a path as written; `None` if there is none.
    fn find(&self, path: &[Ident]) -> Result<Option<usize>> {
        let matches =
            |c: &ColumnPlan| c.path.len() == path.len() && c.path.iter().zip(path).all(|(p, i)| same_name(i, p));
        let exact = |c: &ColumnPlan| c.path.len() == path.len() && c.path.iter().zip(path).all(|(p, i)| i.value == *p);
        if let Some(at) = self.columns.iter().position(exact) {
            return Ok(Some(at));
        }
        let mut found = self.columns.iter().enumerate().filter(|(_, c)| matches(c));
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok(Some(at)),
            (Some((_, a)), Some((_, b))) => {
                let error = self.source.error(span_of_path(path), format!("ambiguous column \"{}\"", path_text(path)));
                Err(error.with_hint(format!("put it in double quotes: \"{}\" or \"{}\"", a.name, b.name)))
            }
            _ => Ok(None),
        }
    }

    /// The column at a path, perhaps after the table's name.
    ///
    /// # Errors
    /// When there is none, or several.
    pub(super) fn column(&self, path: &[Ident]) -> Result<usize> {
        if let Some(at) = self.try_column(path)? {
            return Ok(at);
        }
        let shown = path_text(path);
        let error = self.source.error(span_of_path(path), format!("unknown column \"{shown}\""));
        let mut names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
        if self.windowed {
            names.extend(["window_start", "window_end"]);
        }
        let bare = path_text(self.unqualified(path).unwrap_or(path));
        if let Some(hint) = did_you_mean(&bare, names.iter().copied()) {
            return Err(error.with_hint(hint));
        }
        if matches!(shown.to_lowercase().as_str(), "window_start" | "window_end") {
            return Err(error.with_hint(format!(
                "windows come from the FROM clause: FROM TUMBLE({}, event_time, INTERVAL '1 minute')",
                self.table
            )));
        }
        Err(error.with_hint(format!("table \"{}\" has the columns {}", self.table, names.join(", "))))
    }

    /// As [`Scope::column`], `None` if there is none.
    pub(super) fn try_column(&self, path: &[Ident]) -> Result<Option<usize>> {
        if let Some(at) = self.find(path)? {
            return Ok(Some(at));
        }
        match self.unqualified(path) {
            Some(rest) => self.find(rest),
            None => Ok(None),
        }
    }

    /// The path behind the table's name, if it begins with that.
    fn unqualified<'p>(&self, path: &'p [Ident]) -> Option<&'p [Ident]> {
        let (first, rest) = path.split_first()?;
        let qualifier = self.qualifier.as_ref()?;
        (!rest.is_empty() && same_name(first, &qualifier.value)).then_some(rest)
    }

    /// Which bound of the window a path names, if any.
    pub(super) fn bound(&self, path: &[Ident]) -> Option<Bound> {
        let path = self.unqualified(path).unwrap_or(path);
        match path {
            [name] if self.windowed && same_name(name, "window_start") => Some(Bound::Start),
            [name] if self.windowed && same_name(name, "window_end") => Some(Bound::End),
            _ => None,
        }
    }
}

/// The place of a dotted name.
pub(super) fn span_of_path(path: &[Ident]) -> Span {
    Span::union_iter(path.iter().map(|i| i.span))
}

/// The span, or where to point if the parser gives none.
pub(super) fn or_place(span: Span, place: Span) -> Span {
    if span == Span::empty() { place } else { span }
}

/// The name of a column or window bound that an expression is, without parentheses.
pub(super) fn as_path(ast: &ast::Expr) -> Option<&[Ident]> {
    match ast {
        ast::Expr::Identifier(ident) => Some(std::slice::from_ref(ident)),
        ast::Expr::CompoundIdentifier(path) => Some(path),
        ast::Expr::Nested(inner) => as_path(inner),
        _ => None,
    }
}
