//! Windows inside your own dataflow: revenue per customer and minute, followed by differential's `reduce` that keeps the
//! best customer of each minute. A late order corrects its minute, and the correction passes through the `reduce`.
//!
//! ```text
//! cargo run --example embed
//! ```

use slackwater::aggregate::monoid::{Sum, of};
use slackwater::dataflow::typed::{StampedInput, Windows};
use slackwater::time::format_timestamp;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Customer, cents, event time in microseconds.
type Order = (&'static str, i64, i64);

/// Runs the orders through the dataflow; gives the changes of the best customer per minute, in order.
fn best_customers(orders: &'static [Order]) -> Vec<String> {
    timely::execute_directly(move |worker| {
        let changes = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&changes);
        let mut input = worker.dataflow(|scope| {
            // The watermark trails the newest order by 10 s; corrections are accepted for 3 minutes after closing.
            let (input, stream) = StampedInput::<(String, i64, i64)>::new(scope, Duration::from_secs(10));
            let revenue = Windows::tumbling(Duration::from_secs(60)).horizon(Duration::from_secs(180)).aggregate(
                stream,
                |order| order.0.clone(),
                |order| order.2,
                of(|order: &(String, i64, i64)| order.1, Sum::default()),
            );
            // From here on it is differential: whatever follows is corrected with the windows.
            revenue
                .map(|(customer, window)| (window.end_us, (window.value.unwrap_or_default(), customer)))
                .reduce(|_end, customers, best| {
                    if let Some(((cents, customer), _)) = customers.last() {
                        best.push(((customer.clone(), *cents), 1));
                    }
                })
                .inspect(move |((end, (customer, cents)), at, diff)| {
                    seen.borrow_mut().push((*at, *diff, *end, customer.clone(), *cents));
                });
            input
        });
        for (customer, cents, at_event_us) in orders {
            input.send(((*customer).to_owned(), *cents, *at_event_us), *at_event_us);
        }
        input.close();
        while worker.has_dataflows() {
            worker.step();
        }
        let mut changes = changes.take();
        changes.sort();
        changes
            .into_iter()
            .map(|(at, diff, end, customer, cents)| {
                let time = |us| {
                    let mut text = String::new();
                    format_timestamp(us, &mut text);
                    text
                };
                let sign = if diff > 0 { '+' } else { '-' };
                format!(
                    "{sign} minute to {}: {customer} with {cents} cents, at watermark {}",
                    time(end),
                    time(at.time().0)
                )
            })
            .collect()
    })
}

const SECOND: i64 = 1_000_000;
const ORDERS: &[Order] = &[
    ("ann", 500, 10 * SECOND),
    ("bob", 700, 40 * SECOND),
    ("ann", 100, 80 * SECOND),
    // Late: its minute has closed at 60, the watermark stands at 70.
    ("ann", 400, 50 * SECOND),
];

fn main() {
    for line in best_customers(ORDERS) {
        println!("{line}");
    }
}

#[test]
fn the_correction_passes_through() {
    let lines = best_customers(ORDERS);
    assert_eq!(
        lines,
        [
            "+ minute to 1970-01-01T00:01:00Z: bob with 700 cents, at watermark 1970-01-01T00:01:00Z",
            "- minute to 1970-01-01T00:01:00Z: bob with 700 cents, at watermark 1970-01-01T00:01:10Z",
            "+ minute to 1970-01-01T00:01:00Z: ann with 900 cents, at watermark 1970-01-01T00:01:10Z",
            "+ minute to 1970-01-01T00:02:00Z: ann with 100 cents, at watermark 1970-01-01T00:02:00Z",
        ]
    );
}
