//! Tests: `IS …`, `IN`, `BETWEEN`, `LIKE`.

use super::bind::Binder;
use crate::error::Result;
use crate::expr::build;
use crate::expr::{Expr, Func};
use crate::types::{DataType, Value};
use sqlparser::ast;

impl Binder<'_> {
    /// Binds a test; anything that is none is refused here.
    pub(super) fn predicate(&mut self, ast: &ast::Expr, depth: usize) -> Result<Expr> {
        match ast {
            ast::Expr::IsNull(x) | ast::Expr::IsUnknown(x) => Ok(build::is_null(self.expr(x, depth)?)),
            ast::Expr::IsNotNull(x) | ast::Expr::IsNotUnknown(x) => {
                let test = build::is_null(self.expr(x, depth)?);
                self.typed(ast, build::call(Func::Not, vec![test]))
            }
            ast::Expr::IsTrue(x) => self.is_truth(ast, x, true, false, depth),
            ast::Expr::IsNotTrue(x) => self.is_truth(ast, x, true, true, depth),
            ast::Expr::IsFalse(x) => self.is_truth(ast, x, false, false, depth),
            ast::Expr::IsNotFalse(x) => self.is_truth(ast, x, false, true, depth),
            ast::Expr::IsNotDistinctFrom(a, b) => {
                let args = vec![self.expr(a, depth)?, self.expr(b, depth)?];
                self.typed(ast, build::call(Func::NotDistinct, args))
            }
            ast::Expr::IsDistinctFrom(a, b) => {
                let args = vec![self.expr(a, depth)?, self.expr(b, depth)?];
                let same = self.typed(ast, build::call(Func::NotDistinct, args))?;
                self.typed(ast, build::call(Func::Not, vec![same]))
            }
            ast::Expr::Between { expr, negated, low, high } => {
                let (x, low, high) = (self.expr(expr, depth)?, self.expr(low, depth)?, self.expr(high, depth)?);
                let from = self.typed(ast, build::call(Func::GtEq, vec![x.clone(), low]))?;
                let to = self.typed(ast, build::call(Func::LtEq, vec![x, high]))?;
                let both = self.typed(ast, build::and(from, to))?;
                self.negate_if(ast, *negated, both)
            }
            ast::Expr::In { expr, target: ast::InTarget::List(list), negated, global: false } => {
                let x = self.expr(expr, depth)?;
                let mut tests = Vec::with_capacity(list.len());
                for item in list {
                    let value = self.expr(item, depth)?;
                    tests.push(self.typed(item, build::call(Func::Eq, vec![x.clone(), value]))?);
                }
                let any = self.any_of(ast, tests)?;
                self.negate_if(ast, *negated, any)
            }
            ast::Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                self.like(ast, Func::Like, expr, pattern, escape_char.as_deref(), *negated, depth)
            }
            ast::Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
                self.like(ast, Func::ILike, expr, pattern, escape_char.as_deref(), *negated, depth)
            }
            ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::In { .. } => {
                Err(self.unsupported(ast, "subqueries are not supported: x IN (…) takes a list of values"))
            }
            ast::Expr::AtTimeZone { .. } => Err(self.unsupported(ast, "times are UTC; shift them by an INTERVAL")),
            ast::Expr::CompoundFieldAccess { .. } | ast::Expr::JsonAccess { .. } => {
                Err(self.unsupported(ast, "declare the nested field as a column: payload.amount BIGINT"))
            }
            _ => Err(self.unsupported(ast, "it is not among the expressions of this SQL")),
        }
    }

    fn negate_if(&self, ast: &ast::Expr, negated: bool, test: Expr) -> Result<Expr> {
        if negated { self.typed(ast, build::call(Func::Not, vec![test])) } else { Ok(test) }
    }

    /// `x IS [NOT] TRUE`, `x IS [NOT] FALSE`: never NULL.
    fn is_truth(&mut self, ast: &ast::Expr, x: &ast::Expr, truth: bool, negated: bool, depth: usize) -> Result<Expr> {
        let x = self.expr(x, depth)?;
        let x = if truth {
            self.typed(ast, build::and(x, Expr::literal(Value::Boolean(true), DataType::Boolean)))?
        } else {
            self.typed(ast, build::call(Func::Not, vec![x]))?
        };
        let no = Expr::literal(Value::Boolean(false), DataType::Boolean);
        let test = self.typed(ast, build::coalesce(vec![x, no]))?;
        self.negate_if(ast, negated, test)
    }

    /// The disjunction of tests, as a balanced tree: a list of thousands is only a dozen deep.
    fn any_of(&self, ast: &ast::Expr, mut tests: Vec<Expr>) -> Result<Expr> {
        while tests.len() > 1 {
            let mut next = Vec::with_capacity(tests.len().div_ceil(2));
            let mut pairs = tests.into_iter();
            while let Some(a) = pairs.next() {
                next.push(match pairs.next() {
                    Some(b) => self.typed(ast, build::or(a, b))?,
                    None => a,
                });
            }
            tests = next;
        }
        tests.pop().ok_or_else(|| self.error(self.span(ast), "expected at least one value in IN (…)"))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one clause")]
    fn like(
        &mut self,
        ast: &ast::Expr,
        func: Func,
        x: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
        negated: bool,
        depth: usize,
    ) -> Result<Expr> {
        let backslash = |e: &ast::Expr| matches!(e, ast::Expr::Value(v) if matches!(&v.value, ast::Value::SingleQuotedString(s) if s == "\\"));
        if escape.is_some_and(|e| !backslash(e)) {
            return Err(self.unsupported(ast, "the escape character of LIKE is the backslash"));
        }
        let args = vec![self.expr(x, depth)?, self.expr(pattern, depth)?];
        let test = self.typed(ast, build::call(func, args))?;
        self.negate_if(ast, negated, test)
    }
}
