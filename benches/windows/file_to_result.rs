//! From a file of generated orders to the result: NDJSON and CSV, tumbling, 10,000 keys, one and two workers.
//!
//! Each run's answer is checked against a tight loop over the same records.

use crate::support::{Orders, program, run, tight_loop};
use criterion::{BenchmarkId, Criterion, Throughput};
use slackwater::engine::ingest::wanted_columns;
use slackwater::source::{SourceOptions, open};
use std::fmt::Write;

const ROWS: u64 = 1_000_000;

/// Files.
pub fn file_to_result(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().unwrap();
    let orders = Orders::new(ROWS, 10_000);
    let expected = tight_loop(&orders, 60_000_000, 60_000_000);
    let mut group = criterion.benchmark_group("file_to_result");
    group.throughput(Throughput::Elements(ROWS)).sample_size(10);
    for format in ["ndjson", "csv"] {
        let path = directory.path().join(format!("orders.{format}"));
        std::fs::write(&path, text(&orders, format)).unwrap();
        let window = "TUMBLE(orders, event_time, INTERVAL '1 minute')";
        let program = program(path.to_str().unwrap(), window, None, true);
        for workers in [1, 2] {
            let once = || {
                let options = SourceOptions { workers, ..SourceOptions::default() };
                let source = open(&program.tables[0], &wanted_columns(&program, 0), &options).unwrap();
                run(&program, vec![source], workers)
            };
            assert_eq!(once(), expected, "the answer from {format}");
            group.bench_function(BenchmarkId::new(format, format!("{workers}_workers")), |bencher| bencher.iter(once));
        }
    }
    group.finish();
}

/// About 135 bytes a record as NDJSON.
fn text(orders: &Orders, format: &str) -> String {
    let mut out = String::new();
    if format == "csv" {
        out.push_str("order_id,customer_id,amount,event_time\n");
    }
    let mut time = String::new();
    for (id, ((et, key), amount)) in orders.event_time_us.iter().zip(&orders.key).zip(&orders.amount).enumerate() {
        time.clear();
        slackwater::time::format_timestamp(*et, &mut time);
        let written = if format == "csv" {
            writeln!(out, "{id},{key},{amount},{time}")
        } else {
            writeln!(
                out,
                r#"{{"order_id":{id},"customer_id":{key},"amount":{amount},"event_time":"{time}","arrival_time":"{time}"}}"#
            )
        };
        written.unwrap();
    }
    out
}
