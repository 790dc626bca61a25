//! Texts to plans, and texts to errors.

mod errors;
mod plans;

use super::{BareSelectDefaults, explain, plan};
use crate::error::Error;
use crate::plan::{Program, ViewKind, ViewPlan, WindowedPlan};

/// A table that most tests read; one line, so that the test's own text begins on line 2.
const ORDERS: &str = "CREATE TABLE orders (order_id BIGINT, customer_id BIGINT, amount DECIMAL(12,2), note TEXT, paid BOOLEAN, \
    payload.size DOUBLE, event_time TIMESTAMP, arrival_time TIMESTAMP, WATERMARK FOR event_time AS event_time - INTERVAL '30 seconds') \
    WITH (connector = 'file', path = 'orders.ndjson', arrival_time = 'arrival_time');\n";

/// Plans a text on its own.
fn planned(text: &str) -> Program {
    plan("query.sql", text, &BareSelectDefaults::default()).unwrap_or_else(|e| panic!("{text}\n{}", shown(&e)))
}

/// Plans a text that reads [`ORDERS`].
fn with_orders(text: &str) -> Program {
    planned(&format!("{ORDERS}{text}"))
}

/// An error as the command shows it.
fn shown(error: &Error) -> String {
    let mut out = error.to_string();
    if let Some(detail) = error.detail() {
        out = format!("{out}\n{detail}");
    }
    if let Some(hint) = error.hint() {
        out = format!("{out}\nhint: {hint}");
    }
    out
}

/// What planning a text fails with.
fn failure(text: &str) -> String {
    match plan("query.sql", text, &BareSelectDefaults::default()) {
        Ok(_) => "it plans".to_owned(),
        Err(error) => shown(&error),
    }
}

fn windowed(view: &ViewPlan) -> &WindowedPlan {
    match &view.kind {
        ViewKind::Windowed(plan) => plan,
        ViewKind::PassThrough(_) => panic!("not windowed: {}", view.sql),
    }
}

fn outputs(view: &ViewPlan) -> Vec<String> {
    view.output.iter().map(|(name, dtype)| format!("{name} {dtype}")).collect()
}
