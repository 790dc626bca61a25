//! Benchmarks with their answers inside: `cargo bench` runs all, `cargo bench -- engine` those whose name contains it.

mod engine;
mod file_to_result;
mod support;

criterion::criterion_group!(benches, engine::engine, file_to_result::file_to_result);
criterion::criterion_main!(benches);
