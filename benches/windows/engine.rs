//! The engine per record, against a tight loop on the same hash table in the same run; records already in memory.
//!
//! Each run's answer is checked against the loop's, so that a fast wrong run fails.

use crate::support::{Given, Orders, program, run, tight_loop};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};

const ROWS: u64 = 2_000_000;

/// Records in memory.
pub fn engine(criterion: &mut Criterion) {
    let windows = [
        ("tumbling_60s", "TUMBLE(orders, event_time, INTERVAL '1 minute')", 60_000_000, 60_000_000),
        ("hopping_60s_5s", "HOP(orders, event_time, INTERVAL '5 seconds', INTERVAL '1 minute')", 60_000_000, 5_000_000),
    ];
    for (name, sql, size_us, slide_us) in windows {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(ROWS)).sample_size(10);
        for keys in [10, 10_000, 1_000_000] {
            let orders = Orders::new(ROWS, keys);
            let program = program("unused.ndjson", sql, None, true);
            let expected = tight_loop(&orders, size_us, slide_us);
            let found = run(&program, vec![Given::source(orders.blocks())], 1);
            assert_eq!(found, expected, "the engine's answer at {keys} keys");
            group.bench_with_input(BenchmarkId::new("tight_loop", keys), &orders, |bencher, orders| {
                bencher.iter(|| tight_loop(orders, size_us, slide_us));
            });
            group.bench_with_input(BenchmarkId::new("engine", keys), &orders, |bencher, orders| {
                let setup = || Given::source(orders.blocks());
                bencher.iter_batched(setup, |source| run(&program, vec![source], 1), BatchSize::PerIteration);
            });
        }
        group.finish();
    }
}
