//! A scan for exactly what `slackwater gen` writes: three fields of a line of NDJSON or CSV.

use anyhow::{Context, anyhow, bail};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// What is used of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    pub customer_id: i64,
    pub amount_cents: i64,
    pub event_time_ms: i64,
}

/// Calls `each` with the records of a file, in order.
///
/// # Errors
/// When the file cannot be read, or a line is not a record: that ends the scan.
pub fn for_each_order(path: &Path, mut each: impl FnMut(&Order) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let name = path.display();
    let mut reader =
        BufReader::with_capacity(1 << 20, File::open(path).with_context(|| format!("cannot read {name}"))?);
    let mut scan = Scan::default();
    let mut line = Vec::with_capacity(256);
    let mut csv = None;
    let mut number = 0u64;
    loop {
        line.clear();
        number += 1;
        if reader.read_until(b'\n', &mut line).with_context(|| format!("cannot read {name}"))? == 0 {
            return Ok(());
        }
        let end = line.trim_ascii_end().len();
        let text = &line[..end];
        let order = match &csv {
            None if text.first() == Some(&b'{') => scan.json(text),
            None => {
                csv = Some(Header::of(text).with_context(|| format!("{name}:{number}"))?);
                continue;
            }
            Some(header) => scan.csv(header, text),
        };
        each(&order.with_context(|| format!("{name}:{number}"))?)?;
    }
}

/// Where the columns are.
struct Header([usize; 3]);

impl Header {
    fn of(line: &[u8]) -> anyhow::Result<Header> {
        let find = |wanted: &str| {
            let found = line.split(|b| *b == b',').position(|name| name == wanted.as_bytes());
            found.ok_or_else(|| anyhow!("expected JSON, or a CSV header with {wanted}"))
        };
        Ok(Header([find("customer_id")?, find("amount")?, find("event_time")?]))
    }
}

/// The date read last, since the next one is most often the same.
#[derive(Default)]
struct Scan {
    date: [u8; 10],
    date_ms: i64,
}

impl Scan {
    fn csv(&mut self, header: &Header, line: &[u8]) -> anyhow::Result<Order> {
        let mut order = Order::default();
        let mut seen = 0;
        for (i, field) in line.split(|b| *b == b',').enumerate() {
            match header.0.iter().position(|at| *at == i) {
                Some(0) => order.customer_id = integer(field)?,
                Some(1) => order.amount_cents = cents(field)?,
                Some(2) => order.event_time_ms = self.time_ms(field)?,
                _ => continue,
            }
            seen += 1;
        }
        if seen == 3 { Ok(order) } else { bail!("expected as many fields as the header has") }
    }

    /// An object without nesting and without escapes, on one line.
    fn json(&mut self, line: &[u8]) -> anyhow::Result<Order> {
        let mut order = Order::default();
        let mut seen = 0;
        let mut rest = line.strip_prefix(b"{").unwrap_or(line);
        while let Some(after) = rest.strip_prefix(b"\"") {
            let (name, after) = until(after, b'"')?;
            let after = after.strip_prefix(b":").ok_or_else(|| anyhow!("expected a colon after a name"))?;
            let (value, after) = match after.strip_prefix(b"\"") {
                Some(text) => until(text, b'"')?,
                None => {
                    let end = after.iter().position(|b| matches!(b, b',' | b'}'));
                    after.split_at(end.ok_or_else(|| anyhow!("expected a comma or a brace after a value"))?)
                }
            };
            match name {
                b"customer_id" => order.customer_id = integer(value)?,
                b"amount" => order.amount_cents = cents(value)?,
                b"event_time" => order.event_time_ms = self.time_ms(value)?,
                _ => {}
            }
            seen += u32::from(matches!(name, b"customer_id" | b"amount" | b"event_time"));
            rest = after.strip_prefix(b",").unwrap_or(after);
        }
        if seen == 3 && rest == b"}" { Ok(order) } else { bail!("expected a record as slackwater gen writes it") }
    }

    /// `2026-01-01T00:00:00.000Z`, or without the fraction, or with a space instead of the `T`.
    fn time_ms(&mut self, text: &[u8]) -> anyhow::Result<i64> {
        let Some((date, clock)) = text.split_first_chunk::<10>() else { bail!("expected a time") };
        if *date != self.date {
            (self.date, self.date_ms) = (*date, date_ms(date)?);
        }
        Ok(self.date_ms + clock_ms(clock)?)
    }
}

/// What stands before the first `end`, and what after it.
fn until(text: &[u8], end: u8) -> anyhow::Result<(&[u8], &[u8])> {
    match memchr::memchr(end, text) {
        Some(at) => Ok((&text[..at], &text[at + 1..])),
        None => bail!("expected {:?}", char::from(end)),
    }
}

/// A time as in the records, by itself.
pub fn time_ms(text: &[u8]) -> anyhow::Result<i64> {
    Scan::default().time_ms(text)
}

/// The start of a day, from its civil date: days are counted in years that begin in March, 400 of them at a time.
fn date_ms(date: &[u8; 10]) -> anyhow::Result<i64> {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *date else { bail!("expected a date such as 2026-01-01") };
    let (year, month) = (integer(&[y0, y1, y2, y3])?, integer(&[m0, m1])?);
    let day = integer(&[d0, d1])?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        bail!("expected a date such as 2026-01-01");
    }
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Ok(days * 86_400_000)
}

fn clock_ms(text: &[u8]) -> anyhow::Result<i64> {
    let text = text.strip_suffix(b"Z").unwrap_or(text);
    let (clock, fraction) = text.split_at(text.len().min(9));
    let [b'T' | b' ', h0, h1, b':', m0, m1, b':', s0, s1] = *clock else { bail!("expected a time such as 12:00:00") };
    let seconds = integer(&[h0, h1])? * 3600 + integer(&[m0, m1])? * 60 + integer(&[s0, s1])?;
    let ms = match fraction {
        [] => 0,
        [b'.', digits @ ..] if digits.len() <= 9 => {
            let digit = |i: usize| digits.get(i).map_or(Ok(0), |d| integer(&[*d]));
            digit(0)? * 100 + digit(1)? * 10 + digit(2)?
        }
        _ => bail!("expected a fraction of a second"),
    };
    Ok(seconds * 1000 + ms)
}

/// Digits, with a sign or without.
pub fn integer(text: &[u8]) -> anyhow::Result<i64> {
    let (digits, sign) = text.strip_prefix(b"-").map_or((text, 1), |digits| (digits, -1));
    if digits.is_empty() || digits.len() > 18 {
        bail!("expected a whole number, found {:?}", String::from_utf8_lossy(text));
    }
    let mut value = 0;
    for digit in digits {
        match digit.wrapping_sub(b'0') {
            d @ 0..=9 => value = value * 10 + i64::from(d),
            _ => bail!("expected a whole number, found {:?}", String::from_utf8_lossy(text)),
        }
    }
    Ok(sign * value)
}

/// `12.05` as 1205; what follows two decimals must be zeros.
pub fn cents(text: &[u8]) -> anyhow::Result<i64> {
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &text[..0]),
    };
    let mut digits = fraction.iter().copied().chain([b'0', b'0']);
    let two = [digits.next().unwrap_or(b'0'), digits.next().unwrap_or(b'0')];
    if fraction.iter().skip(2).any(|b| *b != b'0') {
        bail!("expected an amount with two decimals, found {:?}", String::from_utf8_lossy(text));
    }
    let cents = integer(&two)?;
    Ok(integer(whole)? * 100 + if whole.first() == Some(&b'-') { -cents } else { cents })
}
