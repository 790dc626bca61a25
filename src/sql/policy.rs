//! `watermark_policy = '…'`: what stands in the place of the fixed delay.

use super::options::Options;
use super::scope::Scope;
use super::table::named_column;
use crate::error::{Error, Result};
use crate::plan::{TablePlan, TablePolicy};
use crate::types::DataType;
use crate::watermark::policy::{PolicyError, PolicyPlan};

const KEY: &str = "watermark_policy";

/// The policy of a table with this watermark: none, or with the delay if it is that of a fixed one.
pub(super) fn of_table(
    scope: &Scope<'_>,
    options: &mut Options<'_>,
    watermark: Option<Option<i64>>,
) -> Result<Option<TablePolicy>> {
    let Some((text, span)) = options.text(KEY)? else { return Ok(None) };
    let wrong = |PolicyError { message, hint }| {
        let error = options.at(span, format!("option \"{KEY}\": {message}"));
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    };
    let Some(plan) = PolicyPlan::parse(&text).map_err(wrong)? else { return Ok(None) };
    match watermark {
        Some(Some(_)) => {}
        Some(None) => {
            let error =
                options.at(span, format!("option \"{KEY}\" needs a watermark with a fixed delay to begin with"));
            return Err(error.with_hint("WATERMARK FOR event_time AS event_time - INTERVAL '30 seconds'"));
        }
        None => {
            let error = options.at(span, format!("option \"{KEY}\" has no effect without WATERMARK FOR"));
            return Err(error.with_hint("the declared delay is in force until the policy has seen enough"));
        }
    }
    let column = match plan.column() {
        Some(name) => Some(named_column(scope, options, (KEY, name, span), fits_policy, "a column of numbers")?),
        None => None,
    };
    Ok(Some(TablePolicy { plan, column }))
}

/// Whether a policy can look at values of this type.
fn fits_policy(dtype: &DataType) -> bool {
    matches!(dtype, DataType::BigInt | DataType::Double | DataType::Decimal { .. })
}

/// The same table under another policy; `None` is the fixed delay.
///
/// # Errors
/// When the table has no fixed delay to begin with, or has no such column of numbers.
pub fn with_policy(table: &TablePlan, plan: Option<&PolicyPlan>) -> Result<TablePlan> {
    let Some(plan) = plan else { return Ok(TablePlan { policy: None, ..table.clone() }) };
    if table.delay_us.is_none() {
        let message = format!("{plan}: table \"{}\" has no watermark with a fixed delay to begin with", table.name);
        return Err(Error::usage(message).with_hint("WATERMARK FOR event_time AS event_time - INTERVAL '30 seconds'"));
    }
    let column = match plan.column() {
        None => None,
        Some(name) => {
            let find = |c: &crate::plan::ColumnPlan| c.name.eq_ignore_ascii_case(name) && fits_policy(&c.dtype);
            let found = table.columns.iter().position(find);
            let names: Vec<&str> =
                table.columns.iter().filter(|c| fits_policy(&c.dtype)).map(|c| c.name.as_str()).collect();
            let Some(at) = found else {
                let message = format!("{plan}: table \"{}\" has no column of numbers named '{name}'", table.name);
                return Err(Error::usage(message).with_hint(format!("columns of numbers: {}", names.join(", "))));
            };
            Some(at)
        }
    };
    Ok(TablePlan { policy: Some(TablePolicy { plan: plan.clone(), column }), ..table.clone() })
}
