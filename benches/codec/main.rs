//! Ways to write rows for another process and to read them there, in nanoseconds a row: `cargo bench --bench codec`.
//!
//! A message is 2,048 rows (64 KiB of words, as much as a parcel of the wire takes before it goes). Encoding starts with what
//! a program would hold and ends with the bytes in a buffer that is used again; decoding starts with the bytes in memory and
//! ends when every field of every row has been read. Before it is measured, each way must give back the rows it was given, and
//! while it is measured, the number of bytes and the sum of all fields: a fast wrong run fails.
//!
//! | name | holds, and gives back | what it is |
//! | --- | --- | --- |
//! | `bincode` | rows | what timely does with a `Vec` of a serde type |
//! | `words` | rows | `wire`: little-endian words, row after row |
//! | `columns` | columns | `wire`: a vector for each column. This is what travels here |
//! | `columns_of_rows` | rows | the same, turned into columns and back |
//! | `columnar` | columns | the `columnar` crate, which timely uses itself; reads where the bytes are |
//! | `columnar_of_rows` | rows | the same, turned into columns and back |
//! | `abomonation` | rows | copies of memory; reads where the bytes are. Not on the wire, see [`abomonated`] |
//!
//! What they check differs: `wire` checks everything; bincode does too, but timely panics on what it finds; `columnar` checks
//! the shape and leaves UTF-8 to the reader; abomonation checks lengths only.

mod abomonated;
mod codecs;
mod rows;

use abomonated::{Abomonated, Tupled};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion};
use rows::{Fixed, Named, Row};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Rows of a message.
const ROWS: usize = 2048;

/// A way to write rows and to read them.
pub trait Codec<R> {
    /// As in the table above.
    const NAME: &'static str;
    /// Holds the rows, in the form that a program would hold them in.
    fn holding(rows: &[R]) -> Self;
    /// Writes what is held into the own buffer. Gives the number of bytes.
    fn encode(&mut self) -> usize;
    /// Puts what was written where the network would.
    fn deliver(&mut self);
    /// Reads what was delivered. Gives the sum of all fields.
    fn decode(&mut self) -> u64;
    /// Reads what was delivered into rows.
    fn rows(&mut self) -> Vec<R>;
}

/// How long so many rows take, if `message` handles a whole message; criterion then counts in rows.
#[expect(clippy::disallowed_methods, reason = "measuring time is the purpose")]
fn per_row<T: PartialEq>(rows: u64, expected: &T, mut message: impl FnMut() -> T) -> Duration {
    let messages = rows.div_ceil(ROWS as u64);
    let start = Instant::now();
    for _ in 0..messages {
        assert!(black_box(message()) == *expected, "a message was not written or read as the first one was");
    }
    start.elapsed().mul_f64(rows as f64 / (messages * ROWS as u64) as f64)
}

fn measure<R: Row, C: Codec<R>>(group: &mut BenchmarkGroup<'_, WallTime>, rows: &[R]) {
    let mut codec = C::holding(rows);
    let bytes = codec.encode();
    codec.deliver();
    assert_eq!(codec.rows(), rows, "{} gives back the rows", C::NAME);
    let total = R::sum_rows(rows);
    assert_eq!(codec.decode(), total, "{} reads every field", C::NAME);
    let size = format!("{:.1} bytes", bytes as f64 / ROWS as f64);
    group.bench_function(BenchmarkId::new(format!("{}/encode", C::NAME), &size), |bencher| {
        bencher.iter_custom(|rows| per_row(rows, &bytes, || codec.encode()));
    });
    group.bench_function(BenchmarkId::new(format!("{}/decode", C::NAME), &size), |bencher| {
        bencher.iter_custom(|rows| per_row(rows, &total, || codec.decode()));
    });
}

fn all<R: Tupled>(criterion: &mut Criterion, name: &str) {
    let rows: Vec<R> = (0..ROWS as u64).map(R::numbered).collect();
    let mut group = criterion.benchmark_group(name);
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2)).sample_size(20);
    measure::<R, codecs::Bincode<R>>(&mut group, &rows);
    measure::<R, codecs::Words<R>>(&mut group, &rows);
    measure::<R, codecs::Columns<R>>(&mut group, &rows);
    measure::<R, codecs::ColumnsOfRows<R>>(&mut group, &rows);
    measure::<R, codecs::ColumnarCrate<R>>(&mut group, &rows);
    measure::<R, codecs::ColumnarOfRows<R>>(&mut group, &rows);
    measure::<R, Abomonated<R>>(&mut group, &rows);
    group.finish();
}

/// Four words a row.
fn fixed(criterion: &mut Criterion) {
    all::<Fixed>(criterion, "codec_fixed");
}

/// A short text and three words a row.
fn named(criterion: &mut Criterion) {
    all::<Named>(criterion, "codec_named");
}

criterion::criterion_group!(benches, fixed, named);
criterion::criterion_main!(benches);
