//! The real binary: exit statuses, what it prints and writes, what it says about bad input.

mod bench;
mod examples;
mod generator;
mod harness;
mod input;
mod interrupt;
mod lateness;
mod output;
mod policy;
mod status;
mod trace;

/// A table over `in.ndjson` (`k`, `v`, event time `at`, no delay) with more options.
fn table(options: &str) -> String {
    table_over("path = 'in.ndjson'", options)
}

/// The same over another input.
fn table_over(input: &str, options: &str) -> String {
    format!(
        "CREATE TABLE t (k TEXT, v BIGINT, at TIMESTAMP, WATERMARK FOR at AS at) WITH ({input}, granularity = '1ms'{options});"
    )
}

/// Counts and sums by `k` and 10 seconds.
const COUNTS: &str = "SELECT k, window_start, window_end, count(*) AS n, sum(v) AS s \
                      FROM TUMBLE(t, at, INTERVAL '10 seconds') GROUP BY k, window_start, window_end";

/// Two records in two windows.
const TWO: &str = "{\"k\":\"a\",\"v\":1,\"at\":1000}\n{\"k\":\"b\",\"v\":2,\"at\":20000}\n";

/// The same view with a name.
fn view(options: &str) -> String {
    format!("CREATE MATERIALIZED VIEW v {options} AS {COUNTS};")
}
