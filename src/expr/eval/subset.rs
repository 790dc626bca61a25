//! Evaluation for some of the rows: the right side of AND and OR, the branches of CASE and COALESCE.

use super::Context;
use super::operand::{Errors, Operand, Outcome};
use crate::expr::{Expr, ExprKind, Func};
use crate::types::{Column, DataType, Value};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Passes over a batch from which on gathering a part of it pays.
const COSTLY: usize = 4;

/// About how many plain passes over the batch an expression takes.
fn weight(expr: &Expr) -> usize {
    let own = match &expr.kind {
        ExprKind::Column(_) | ExprKind::Literal(_) => 0,
        ExprKind::Cast(from) if from.dtype == DataType::Text || expr.dtype == DataType::Text => COSTLY,
        ExprKind::Call(func, args) => match func {
            Func::Like | Func::ILike => COSTLY,
            Func::Eq | Func::NotEq | Func::Lt | Func::LtEq | Func::Gt | Func::GtEq => 1,
            Func::Sqrt | Func::Power | Func::Exp | Func::Ln | Func::Log10 => COSTLY,
            _ if args.iter().any(|a| a.dtype == DataType::Text) => COSTLY,
            _ => 1,
        },
        _ => 1,
    };
    expr.children().into_iter().fold(own, |sum, child| sum.saturating_add(weight(child)))
}

impl<'a> Context<'_, 'a> {
    /// Evaluates `expr` for the rows where `wanted` holds. What other rows hold, and whether they fail, means nothing.
    pub fn eval_where(self, expr: &Expr, wanted: impl Fn(usize) -> bool) -> Outcome<'a> {
        if weight(expr) < COSTLY {
            return self.eval(expr);
        }
        let keep: Vec<u32> = (0..self.rows as u32).filter(|row| wanted(*row as usize)).collect();
        if keep.len() > self.rows / 2 {
            return self.eval(expr);
        }
        let mut used = BTreeSet::new();
        expr.columns(&mut used);
        // Columns that are not read keep their place only.
        let gathered: Vec<Column> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, c)| if used.contains(&index) { c.take(&keep) } else { Column::new(DataType::Boolean) })
            .collect();
        let columns: Vec<&Column> = gathered.iter().collect();
        let part = Context { columns: &columns, rows: keep.len(), lenient: self.lenient };
        let Outcome { operand, errors } = part.eval(expr);
        let at = |row: u32| keep.get(row as usize).copied();
        let errors: Errors = errors.into_iter().filter_map(|(row, why)| at(row).map(|row| (row, why))).collect();
        let operand = match operand {
            Operand::One(value) => Operand::One(value),
            Operand::Rows(column) => Operand::Rows(Cow::Owned(scatter(column.into_owned(), &keep, self.rows))),
        };
        Outcome { operand, errors }
    }
}

/// The column of `rows` rows with the values at the rows `keep`, NULL elsewhere.
fn scatter(mut column: Column, keep: &[u32], rows: usize) -> Column {
    let mut source = vec![column.len() as u32; rows];
    column.push(&Value::Null);
    for (from, row) in keep.iter().enumerate() {
        if let Some(slot) = source.get_mut(*row as usize) {
            *slot = from as u32;
        }
    }
    column.take(&source)
}
