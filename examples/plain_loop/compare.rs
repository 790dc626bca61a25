//! Compares two answers, row by row; the order of rows does not matter.
//!
//! An answer is CSV with the columns `window_start` (milliseconds, or a time), `customer_id` (0 if there is none), `orders`, and
//! `cents` or `revenue`, in any order; others are passed over. A file without a header has the four in this order, with
//! `revenue`. Times in text are UTC.

use super::scan::{cents, integer, time_ms};
use anyhow::{Context, bail};
use hashbrown::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Differences that are shown.
const SHOWN: usize = 5;

/// Start of the window in milliseconds, customer.
type Key = (i64, i64);
/// Orders, cents.
type Sums = (i64, i64);

/// What a comparison found.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Rows that are in both and equal.
    pub equal: u64,
    /// Rows that are in both and differ, or stand twice.
    pub different: u64,
    /// Rows that the answer lacks.
    pub missing: u64,
    /// Rows that the answer has in excess.
    pub extra: u64,
    shown: Vec<String>,
}

impl Comparison {
    /// Whether anything differs.
    pub fn differ(&self) -> bool {
        self.different + self.missing + self.extra > 0
    }

    fn show(&mut self, (start_ms, customer): Key, expected: Option<Sums>, found: Option<Sums>) {
        if self.shown.len() < SHOWN {
            let text = |sums: Option<Sums>| sums.map_or("no row".into(), |(n, c)| format!("{n} orders, {c} cents"));
            let (expected, found) = (text(expected), text(found));
            self.shown.push(format!("window {start_ms}, customer {customer}: expected {expected}; found {found}"));
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { equal, different, missing, extra, shown } = self;
        write!(f, "{equal} rows equal, {different} different, {missing} missing, {extra} in excess")?;
        shown.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Compares an answer with what is expected.
///
/// # Errors
/// When a file cannot be read or is no answer.
pub fn compare(expected: &Path, answer: &Path) -> anyhow::Result<Comparison> {
    // Sums are taken out when they were found, so that what is left is missing, and what comes twice is in excess.
    let mut rows: HashMap<Key, Sums, foldhash::fast::RandomState> = HashMap::default();
    for_each_row(expected, &mut |key, sums| match rows.insert(key, sums) {
        None => Ok(()),
        Some(_) => bail!("two rows of window {}, customer {} are expected", key.0, key.1),
    })?;
    let mut out = Comparison::default();
    for_each_row(answer, &mut |key, found| {
        match rows.remove(&key) {
            Some(expected) if expected == found => out.equal += 1,
            Some(expected) => {
                out.different += 1;
                out.show(key, Some(expected), Some(found));
            }
            None => {
                out.extra += 1;
                out.show(key, None, Some(found));
            }
        }
        Ok(())
    })?;
    out.missing = rows.len() as u64;
    rows.into_iter().take(SHOWN).for_each(|(key, sums)| out.show(key, Some(sums), None));
    Ok(out)
}

/// The files of a folder and of those in it, without hidden ones and marks of success.
fn files(path: &Path, out: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !path.is_dir() {
        out.push(path.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(['.', '_']) {
            files(&entry.path(), out)?;
        }
    }
    Ok(())
}

fn for_each_row(path: &Path, each: &mut impl FnMut(Key, Sums) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut paths = Vec::new();
    files(path, &mut paths).with_context(|| format!("cannot read {}", path.display()))?;
    paths.sort();
    for path in paths {
        let name = path.display();
        let mut reader =
            BufReader::with_capacity(1 << 20, File::open(&path).with_context(|| format!("cannot read {name}"))?);
        let mut columns = Columns { start: Some(0), customer: Some(1), orders: Some(2), sum: Some(3), in_cents: false };
        let mut line = Vec::new();
        for number in 1u64.. {
            line.clear();
            if reader.read_until(b'\n', &mut line).with_context(|| format!("cannot read {name}"))? == 0 {
                break;
            }
            let text = line.trim_ascii_end();
            if number == 1 && text.first().is_some_and(u8::is_ascii_alphabetic) {
                columns = Columns::of(text);
                continue;
            }
            let (key, sums) = columns.row(text).with_context(|| format!("{name}:{number}"))?;
            each(key, sums)?;
        }
    }
    Ok(())
}

/// Where the columns are.
struct Columns {
    start: Option<usize>,
    customer: Option<usize>,
    orders: Option<usize>,
    sum: Option<usize>,
    in_cents: bool,
}

impl Columns {
    fn of(header: &[u8]) -> Columns {
        let find = |wanted: &str| header.split(|b| *b == b',').position(|name| name == wanted.as_bytes());
        let cents = find("cents");
        Columns {
            start: find("window_start"),
            customer: find("customer_id"),
            orders: find("orders"),
            sum: cents.or_else(|| find("revenue")),
            in_cents: cents.is_some(),
        }
    }

    fn row(&self, line: &[u8]) -> anyhow::Result<(Key, Sums)> {
        let (mut key, mut sums) = ((0, 0), (0, 0));
        let mut seen = 0;
        for (i, field) in line.split(|b| *b == b',').enumerate() {
            let quoted = field.strip_prefix(b"\"").and_then(|f| f.strip_suffix(b"\""));
            let field = quoted.unwrap_or(field);
            if self.customer == Some(i) {
                key.1 = integer(field)?;
                continue;
            } else if self.start == Some(i) {
                key.0 = if field.contains(&b':') { time_ms(field)? } else { integer(field)? };
            } else if self.orders == Some(i) {
                sums.0 = integer(field)?;
            } else if self.sum == Some(i) {
                sums.1 = if self.in_cents { integer(field)? } else { cents(field)? };
            } else {
                continue;
            }
            seen += 1;
        }
        if seen == 3 { Ok((key, sums)) } else { bail!("expected window_start, orders, and cents or revenue") }
    }
}
