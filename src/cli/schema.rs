//! `slackwater schema FILE`: prints a `CREATE TABLE` guessed from a sample, with the lags seen in it and a delay to start
//! from. What is printed is meant to be read, corrected and kept.

mod guess;
mod sample;

use crate::error::{Error, Result};
use crate::sql::{quoted, quoted_path};
use crate::time::format_duration;
use crate::types::DataType;
use guess::{Guess, Sample};
use sample::Layout;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Guesses a CREATE TABLE from the first records of a file, with the lags seen and a delay to start from.
#[derive(Clone, Debug, clap::Args)]
pub struct SchemaArgs {
    /// NDJSON or CSV file; .gz and .zst are read
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Column of event times; by default the one with the likeliest name
    #[arg(long, value_name = "COLUMN")]
    pub event_time: Option<String>,
    /// Number of records to look at, from the beginning
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub rows: usize,
}

/// Prints the guess on standard output. A reader that closes it early is no error.
///
/// # Errors
/// When the file cannot be read, holds no record, or has no such event-time column.
pub fn run(args: SchemaArgs) -> Result<()> {
    let text = schema(&args)?;
    match io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::output("cannot write").at("standard output").with_source(e))
        }
        _ => Ok(()),
    }
}

/// The text that [`run`] prints.
///
/// # Errors
/// As [`run`].
pub fn schema(args: &SchemaArgs) -> Result<String> {
    let (sample, layout) = sample::read(&args.file, args.rows.max(1))?;
    let guess = guess::guess(&sample, args.event_time.as_deref())?;
    Ok(render(&args.file, &sample, &layout, &guess))
}

fn render(path: &Path, sample: &Sample, layout: &Layout, guess: &Guess) -> String {
    let mut out = String::new();
    comments(&mut out, path, sample, guess);
    let _ = writeln!(out, "CREATE TABLE {} (", quoted(&table_name(path), false));
    let names: Vec<String> = guess.columns.iter().map(|c| column_name(guess, &c.path)).collect();
    let event = guess.event_time.and_then(|at| names.get(at));
    let last = guess.columns.len().saturating_sub(1);
    for (at, (column, name)) in guess.columns.iter().zip(&names).enumerate() {
        let comma = if at == last && event.is_none() { "" } else { "," };
        let note = column.note.map_or(String::new(), |note| format!(" -- {note}"));
        let _ = writeln!(out, "  {name} {}{comma}{note}", column.dtype);
    }
    if let Some(name) = event {
        let _ = writeln!(out, "  WATERMARK FOR {name} AS {name} - INTERVAL '{}'", in_words(guess.delay_us));
    }
    let _ = writeln!(out, ") WITH ({});", options(path, layout, guess).join(", "));
    out
}

fn comments(out: &mut String, path: &Path, sample: &Sample, guess: &Guess) {
    let path = one_line(&path.display().to_string());
    let _ = match sample.rows {
        1 => writeln!(out, "-- guessed from the first record of {path}"),
        rows => writeln!(out, "-- guessed from the first {rows} records of {path}"),
    };
    let _ = match sample.broken {
        0 => Ok(()),
        1 => writeln!(out, "-- 1 line among them is no record"),
        broken => writeln!(out, "-- {broken} lines among them are no records"),
    };
    let name = |at: usize| guess.columns.get(at).map_or(String::new(), |c| one_line(&c.path.join(".")));
    match (guess.event_time, guess.lags) {
        (Some(at), Some(lags)) => {
            let _ = writeln!(out, "-- how far records are behind the newest \"{}\" seen before them:", name(at));
            let _ = writeln!(
                out,
                "--   p50 {}  p90 {}  p99 {}  max {}",
                format_duration(lags.p50_us),
                format_duration(lags.p90_us),
                format_duration(lags.p99_us),
                format_duration(lags.max_us)
            );
            let delay = format_duration(guess.delay_us);
            let _ = writeln!(out, "-- a delay of {delay} has 99 records in 100 on time (p99, rounded up)");
            if let Some(horizon) = guess.horizon_us {
                let _ = writeln!(
                    out,
                    "-- and a view's horizon of {} takes the others as corrections",
                    format_duration(horizon)
                );
            }
        }
        _ => {
            let _ = writeln!(out, "-- no event time was found: name one with --event-time COLUMN");
        }
    }
    if let Some((at, values)) = guess.partition {
        let name = name(at);
        let _ = writeln!(
            out,
            "-- if \"{name}\" ({values} values) names the sender or the partition, add: partition = '{}'",
            name.replace('\'', "''")
        );
    }
    if guess.columns.iter().any(|c| matches!(c.dtype, DataType::Decimal { .. })) {
        let _ =
            writeln!(out, "-- a DECIMAL takes no value with more decimals than it has: measurements are rather DOUBLE");
    }
}

fn options(path: &Path, layout: &Layout, guess: &Guess) -> Vec<String> {
    let text = |value: &str| format!("'{}'", value.replace('\'', "''"));
    let mut options = vec!["connector = 'file'".to_owned(), format!("path = {}", text(&path.display().to_string()))];
    if layout.unusual_suffix {
        options.push(format!("format = '{}'", if layout.csv.is_some() { "csv" } else { "json" }));
    }
    if let Some(csv) = &layout.csv {
        if !csv.implied {
            let delimiter =
                if csv.delimiter == b'\t' { "\\t".to_owned() } else { char::from(csv.delimiter).to_string() };
            options.push(format!("delimiter = {}", text(&delimiter)));
        }
        if !csv.header {
            options.push("header = false".to_owned());
        }
    }
    match guess.time_unit_us {
        Some(1) => options.push("time_unit = 'us'".to_owned()),
        Some(1_000_000) => options.push("time_unit = 's'".to_owned()),
        _ => {}
    }
    if let Some(column) = guess.arrival_time.and_then(|at| guess.columns.get(at)) {
        options.push(format!("arrival_time = {}", text(&column.path.join("."))));
    }
    options
}

/// Control characters would end a comment.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A table's name made of the file's.
fn table_name(path: &Path) -> String {
    let file = path.file_name().map_or(String::new(), |n| n.to_string_lossy().into_owned());
    let stem = file.trim_start_matches('.').split('.').next().unwrap_or_default();
    let name: String =
        stem.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    match name.chars().next() {
        None => "records".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("t_{name}"),
        Some(_) => name,
    }
}

/// A column's name as SQL needs it, part by part.
fn column_name(guess: &Guess, path: &[String]) -> String {
    quoted_path(path, guess.columns.iter().map(|c| c.path.as_slice()))
}

/// A duration in one unit: `INTERVAL '5 minutes'`.
fn in_words(us: i64) -> String {
    let units = [(86_400_000_000, "day"), (3_600_000_000, "hour"), (60_000_000, "minute"), (1_000_000, "second")];
    let (unit_us, name) = units.into_iter().find(|(unit_us, _)| us % unit_us == 0).unwrap_or((1_000_000, "second"));
    let n = us / unit_us;
    format!("{n} {name}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema_of(name: &str, bytes: &[u8], event_time: Option<&str>) -> Result<String> {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).expect("written");
        let args = SchemaArgs { file, event_time: event_time.map(str::to_owned), rows: 10_000 };
        schema(&args).map(|text| text.replace(&format!("{}/", folder.path().display()), ""))
    }

    #[test]
    fn orders_give_the_table_of_the_example() {
        let text =
            schema_of("orders.ndjson", include_bytes!("../../examples/orders/orders.ndjson"), None).expect("a guess");
        let expected = "\
-- guessed from the first 7 records of orders.ndjson
-- how far records are behind the newest \"event_time\" seen before them:
--   p50 0s  p90 55s  p99 55s  max 55s
-- a delay of 1m has 99 records in 100 on time (p99, rounded up)
-- a DECIMAL takes no value with more decimals than it has: measurements are rather DOUBLE
CREATE TABLE orders (
  order_id BIGINT,
  customer_id BIGINT,
  amount DECIMAL(12,2),
  event_time TIMESTAMP,
  WATERMARK FOR event_time AS event_time - INTERVAL '1 minute'
) WITH (connector = 'file', path = 'orders.ndjson');
";
        assert_eq!(text, expected);
    }

    #[test]
    fn gzip_nested_fields_and_odd_names_are_told() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let lines = concat!(
            r#"{"payload":{"order":"a","Id":1,"id":2},"ts":1767225600,"received_at":1767225601,"tags":["x"],"odd\n'name":null}"#,
            "\n{oops\n",
            r#"{"payload":{"order":"b"},"ts":1767225400,"received_at":1767225602}"#,
        );
        gzip.write_all(lines.as_bytes()).expect("memory");
        let text = schema_of("2026 it's.log.gz", &gzip.finish().expect("memory"), None).expect("a guess");
        for part in [
            "-- guessed from the first 2 records of 2026 it's.log.gz\n-- 1 line among them is no record\n",
            "--   p50 0s  p90 3m20s  p99 3m20s  max 3m20s\n",
            "CREATE TABLE t_2026_it_s (\n  payload.\"order\" TEXT,\n  \"payload\".\"Id\" BIGINT,\n  \"payload\".\"id\" BIGINT,\n",
            "  ts TIMESTAMP,\n  received_at TIMESTAMP,\n  tags TEXT, -- lists or objects, as JSON text\n  \"odd\n'name\" TEXT, -- no value seen\n",
            "path = '2026 it''s.log.gz', format = 'json', time_unit = 's', arrival_time = 'received_at');\n",
        ] {
            assert!(text.contains(part), "{part}\n--- not in\n{text}");
        }
    }

    #[test]
    fn csv_options_are_told() {
        let text =
            schema_of("a.csv", b"1|2026-01-01T00:00:00Z\n2|2026-01-01T00:00:01Z\n", Some("column_2")).expect("a guess");
        assert!(text.contains("path = 'a.csv', delimiter = '|', header = false);"), "{text}");
        let text = schema_of("a.csv", b"n,word\n1,x\n", None).expect("a guess");
        assert!(text.contains("-- no event time was found") && text.contains("  word TEXT\n)"), "{text}");
    }

    #[test]
    fn files_without_records_are_errors() {
        for (name, bytes, word) in [
            ("a.json", &b""[..], "found none"),
            ("a.ndjson", b"[\n{}]\n", "found none"),
            ("a.csv", b"a,b\n", "found none"),
            ("a.gz", b"no", "cannot read"),
        ] {
            let error = schema_of(name, bytes, None).expect_err("no record").to_string();
            assert!(error.contains(word) && error.contains(name), "{error}");
        }
        let args = SchemaArgs { file: PathBuf::from("/nowhere/x.csv"), event_time: None, rows: 1 };
        assert!(schema(&args).is_err());
    }
}
