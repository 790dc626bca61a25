//! Vectorised evaluation with failures per row. (Owner: expr)

use super::Expr;
use crate::types::Column;

/// The result of evaluating an expression over a batch.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// One value per row; rows that failed hold NULL.
    pub column: Column,
    /// Failed rows in ascending order, with what went wrong (short, lower case: `division by zero`).
    pub errors: Vec<(u32, String)>,
}

/// Evaluates `expr` over `rows` rows of `columns`.
pub fn evaluate(_expr: &Expr, _columns: &[&Column], _rows: usize) -> Evaluated {
    todo!()
}

/// One row.
pub fn evaluate_row(_expr: &Expr, _row: &[crate::types::Value]) -> Result<crate::types::Value, String> {
    todo!()
}
