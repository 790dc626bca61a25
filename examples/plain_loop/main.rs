//! The same windows as a plain loop: one thread, a hand-written scan, a hash table for each window, no dataflow.
//!
//! ```text
//! cargo run --release --example plain_loop -- run q1 orders.ndjson answer.csv late=60000
//! cargo run --release --example plain_loop -- compare answer.csv other.csv
//! ```
//!
//! It reads what `slackwater gen` writes (NDJSON, or CSV with a header), in the order of the file, and it knows nothing of the
//! rest of this crate. So it is two things: what there is to gain by writing a loop by hand, and an exact reference for
//! the lateness rules of other systems, which `scripts/bench-peers` and `tests/plain_loop.rs` compare answers with.
//!
//! What it does not have: corrections one by one (a row is written once, when it is final), rejects, a second
//! column, another worker.

mod compare;
mod scan;
mod windows;

use anyhow::{Context, bail};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use windows::{PlainLoop, Query, Rule};

const USAGE: &str = "\
usage: plain_loop run QUERY FILE OUT.csv [SETTING=VALUE ...]
       plain_loop compare EXPECTED.csv ANSWER      (ANSWER: a file, or a folder of part files)
QUERY  q1 tumbling 60 s by customer | q2 hopping 60 s / 5 s by customer | q4 tumbling 60 s
settings, in milliseconds where they are times:
  late=all|drop|HORIZON   count all; drop what comes for a closed window; drop what comes later than that past its end (drop)
  delay=5000              the watermark trails the newest event time by this
  granularity=1           watermarks are rounded down to a multiple of this
  early=0                 a window is closed this much before its end (1: Flink, whose windows end with their last millisecond)
  batch=0 lag=0           if not 0, the watermark moves only after so many records, and counts so many batches later
  open=write|leave        what becomes of windows that the last watermark has not closed (write)";

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match &*args {
        ["run", query, file, out, settings @ ..] => run(query, Path::new(file), Path::new(out), settings),
        ["compare", expected, answer] => {
            let found = compare::compare(Path::new(expected), Path::new(answer))?;
            println!("{found}");
            if found.differ() { bail!("{answer} is not what {expected} says") } else { Ok(()) }
        }
        _ => bail!("{USAGE}"),
    }
}

fn run(query: &str, file: &Path, out: &Path, settings: &[&str]) -> anyhow::Result<()> {
    let (query, rule) = (Query::named(query)?, Rule::of(settings)?);
    let written = File::create(out).with_context(|| format!("cannot write {}", out.display()))?;
    let mut windows = PlainLoop::new(query, rule, BufWriter::with_capacity(1 << 18, written));
    scan::for_each_order(file, |order| windows.push(order))?;
    let (counts, mut written) = windows.finish()?;
    written.flush()?;
    println!("{counts}");
    Ok(())
}
