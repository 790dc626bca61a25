//! Times and durations at the edges: text to microseconds and back. Inside, times are `i64` microseconds.
//!
//! The calendar is the proleptic Gregorian one (no gap in 1582, a year 0), days have 86,400 seconds, and digits finer
//! than a microsecond are floored, before 1970 too. Years outside 0–9999 are written with a sign and six digits
//! (`-009999`, `+012345`), as ISO 8601 and RFC 9557 expand them.
//!
//! Invariant: what [`format_timestamp`] writes, [`parse_timestamp`] reads back exactly, for every `i64`. Nothing here
//! allocates but the strings that are asked for; [`TimestampParser`] remembers the last date, because neighbours in a
//! stream share it, and then only the time of day is left to read. Days are counted in eras of 400 years, each
//! starting on 1 March (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").

use crate::words;

/// Earliest supported event time (year −9999), in microseconds: with windows of at most 10,000 years nothing overflows.
pub const EVENT_TIME_MIN_US: i64 = -377_705_116_800_000_000;
/// Latest supported event time (end of year 9999), in microseconds.
pub const EVENT_TIME_MAX_US: i64 = 253_402_300_799_999_999;

/// A logical instant (SEMANTICS §4): `2t` is the instant `t`, `2t − 1` is `t⁻`, when the watermark reaches `t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Instant(pub i64);

impl Instant {
    /// The instant `end⁻` at which a window closes.
    pub fn closing(end_us: i64) -> Instant {
        Instant(end_us.saturating_mul(2).saturating_sub(1))
    }
    /// The instant of records stamped `stamp_us`; −∞ is the least instant.
    pub fn of_stamp(stamp_us: i64) -> Instant {
        Instant(stamp_us.saturating_mul(2))
    }
    /// The time `t` it belongs to, and whether it is `t⁻`.
    pub fn time(self) -> (i64, bool) {
        if self.0 == i64::MIN {
            return (i64::MIN, false);
        }
        (self.0.div_euclid(2) + self.0.rem_euclid(2), self.0.rem_euclid(2) == 1)
    }
}

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 60 * MINUTE_US;
const DAY_US: i64 = 24 * HOUR_US;
/// Days in 400 years.
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_FROM_MARCH_0: i64 = 719_468;

/// Days since 1970 of a date of the proleptic Gregorian calendar; the date is taken to exist.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * ERA_DAYS + day_of_era - EPOCH_FROM_MARCH_0
}

/// Year, month and day of a day since 1970; cannot overflow for any `i64`.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    // Split first and shift then, so that the shift cannot overflow.
    let shifted = days.rem_euclid(ERA_DAYS) + EPOCH_FROM_MARCH_0;
    let era = days.div_euclid(ERA_DAYS) + shifted / ERA_DAYS;
    let day_of_era = shifted % ERA_DAYS;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Length of a month.
fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The value of an ASCII digit; anything above 9 is no digit.
fn digit(byte: u8) -> i64 {
    i64::from(byte.wrapping_sub(b'0'))
}

/// The number written with the two digits.
fn two_digits(tens: u8, ones: u8) -> Option<i64> {
    let (tens, ones) = (digit(tens), digit(ones));
    (tens <= 9 && ones <= 9).then_some(tens * 10 + ones)
}

/// The number written with exactly these digits (few enough for 64 bits).
fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |number, &byte| (digit(byte) <= 9).then_some(number * 10 + digit(byte)))
}

/// Reads a date from the front: days since 1970 and what follows.
fn split_date(text: &[u8]) -> Option<(i64, &[u8])> {
    let (year, rest) = match text.split_first()? {
        (sign @ (b'+' | b'-'), rest) => {
            let (year, rest) = rest.split_at_checked(6)?;
            let year = digits(year)?;
            if *sign == b'-' && year == 0 {
                return None;
            }
            (if *sign == b'-' { -year } else { year }, rest)
        }
        _ => {
            let (year, rest) = text.split_at_checked(4)?;
            (digits(year)?, rest)
        }
    };
    let [b'-', m1, m2, b'-', d1, d2, rest @ ..] = rest else { return None };
    let (month, day) = (two_digits(*m1, *m2)?, two_digits(*d1, *d2)?);
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    Some((days_from_civil(year, month, day), rest))
}

/// What stands after the date: microseconds since that day's midnight UTC, and whether the second was 60.
fn time_of_day(text: &[u8]) -> Option<(i64, bool)> {
    let [b'T' | b't' | b' ', h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] = text else { return None };
    let (hour, minute, second) = (two_digits(*h1, *h2)?, two_digits(*m1, *m2)?, two_digits(*s1, *s2)?);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (fraction_us, rest) = match rest {
        [b'.', rest @ ..] => split_fraction(rest)?,
        _ => (0, rest),
    };
    let leap = second == 60;
    let second_us = if leap { MINUTE_US - 1 } else { second * SECOND_US + fraction_us };
    Some((hour * HOUR_US + minute * MINUTE_US + second_us - offset_us(rest)?, leap))
}

/// Digits after the point, in microseconds (finer ones cut: that is the floor, as seconds only count upwards).
fn split_fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let length = text.iter().position(|&byte| digit(byte) > 9).unwrap_or(text.len());
    let (fraction, rest) = text.split_at_checked(length)?;
    if fraction.is_empty() {
        return None;
    }
    let mut us = 0;
    for place in 0..6 {
        us = us * 10 + fraction.get(place).map_or(0, |&byte| digit(byte));
    }
    Some((us, rest))
}

/// The offset from UTC at the end of a timestamp: `Z`, `+05:30`, `-0500`, `+05`, or nothing.
fn offset_us(text: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match text {
        [] | [b'Z' | b'z'] => return Some(0),
        [sign @ (b'+' | b'-'), h1, h2] => (sign, two_digits(*h1, *h2)?, 0),
        [sign @ (b'+' | b'-'), h1, h2, m1, m2] | [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            (sign, two_digits(*h1, *h2)?, two_digits(*m1, *m2)?)
        }
        _ => return None,
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let us = hours * HOUR_US + minutes * MINUTE_US;
    Some(if *sign == b'-' { -us } else { us })
}

/// Puts a day and a time of day together, and settles second 60.
fn join_date_and_time(days: i64, (time_us, leap): (i64, bool)) -> Option<i64> {
    let us = match days.checked_mul(DAY_US).and_then(|us| us.checked_add(time_us)) {
        Some(us) => us,
        // The first day that 64 bits reach begins before them.
        None => i64::try_from(i128::from(days) * i128::from(DAY_US) + i128::from(time_us)).ok()?,
    };
    if leap {
        // The offset is taken off already: this must be the last microsecond of a month.
        let next = us.checked_add(1)?;
        if next.rem_euclid(DAY_US) != 0 || civil_from_days(next.div_euclid(DAY_US)).2 != 1 {
            return None;
        }
    }
    Some(us)
}

/// Reads an RFC 3339-like timestamp (`2026-01-01T00:00:00.123456+01:00`, `T` or a space, `Z`, an offset or none = UTC; a date alone is
/// its midnight) as microseconds since 1970. Digits finer than a microsecond are floored. Second 60 is clamped to the
/// last microsecond of 23:59:59 UTC when the minute is 23:59 UTC on the last day of a month, else refused.
///
/// Years are four digits, or a sign and six. Offsets are `+05:30`, `+0530` or `+05`, below 24 hours; `t` and `z` may be
/// lower case.
///
/// # Errors
/// `None` if it is no timestamp, or none that 64 bits of microseconds hold.
///
/// ```
/// use slackwater::time::parse_timestamp;
/// assert_eq!(parse_timestamp(b"1970-01-01T01:00:00.0000019+01:00"), Some(1));
/// assert_eq!(parse_timestamp(b"1969-12-31T23:59:59.9999999Z"), Some(-1));
/// assert_eq!(parse_timestamp(b"2015-06-30T23:59:60Z"), parse_timestamp(b"2015-06-30T23:59:59.999999Z"));
/// assert_eq!(parse_timestamp(b"2026-02-29"), None);
/// ```
pub fn parse_timestamp(text: &[u8]) -> Option<i64> {
    let (days, rest) = split_date(text)?;
    if rest.is_empty() {
        return days.checked_mul(DAY_US);
    }
    join_date_and_time(days, time_of_day(rest)?)
}

/// [`parse_timestamp`] for many in a row: remembers the last date read, so that a neighbour of the same day costs only
/// its time of day.
#[derive(Clone, Debug, Default)]
pub struct TimestampParser {
    /// The last date of ten bytes, and its days since 1970.
    last: Option<([u8; 10], i64)>,
}

impl TimestampParser {
    /// Reads a timestamp as [`parse_timestamp`] does.
    ///
    /// # Errors
    /// `None` if it is no timestamp.
    #[inline]
    pub fn parse(&mut self, text: &[u8]) -> Option<i64> {
        let Some((date, rest)) = text.split_first_chunk::<10>() else { return parse_timestamp(text) };
        if let Some((last, days)) = &self.last
            && last == date
            && !rest.is_empty()
        {
            return join_date_and_time(*days, time_of_day(rest)?);
        }
        let (days, rest) = split_date(text)?;
        if text.len() - rest.len() == date.len() {
            self.last = Some((*date, days));
        }
        if rest.is_empty() {
            return days.checked_mul(DAY_US);
        }
        join_date_and_time(days, time_of_day(rest)?)
    }

    /// Reads a timestamp of the usual shape from the front of a text, and says how long it is: of the date last read, UTC,
    /// seconds below 60, at most 15 digits behind them. What follows it is for the caller to judge; `None` leaves it to
    /// [`TimestampParser::parse`]. Some twenty bytes must follow.
    #[inline]
    pub(crate) fn parse_front(&self, text: &[u8]) -> Option<(i64, usize)> {
        let (date, rest) = text.split_first_chunk::<10>()?;
        let (last, days) = self.last.as_ref()?;
        let ([b'T' | b't' | b' '], rest) = rest.split_first_chunk::<1>()? else { return None };
        let (clock, rest) = rest.split_first_chunk::<8>()?;
        let (hour, minute, second) = words::clock(u64::from_le_bytes(*clock))?;
        if last != date || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        // Years of four digits are far from the limits.
        let us = days * DAY_US + hour * HOUR_US + minute * MINUTE_US + second * SECOND_US;
        let (fraction_us, length) = match rest {
            [b'.', rest @ ..] => {
                let (number, count) = words::digits(rest)?;
                let fraction_us = match count {
                    0 => return None,
                    1..=6 => number * words::power_of_ten(6 - count)?,
                    _ => number / words::power_of_ten(count - 6)?,
                };
                (i64::try_from(fraction_us).ok()?, 1 + count)
            }
            _ => (0, 0),
        };
        let zone = usize::from(matches!(rest.get(length), Some(b'Z' | b'z')));
        Some((us + fraction_us, date.len() + 1 + clock.len() + length + zone))
    }
}

/// Reads `YYYY-MM-DD` (or a signed year of six digits) as days since 1970.
///
/// # Errors
/// `None` if it is no date.
pub fn parse_date(text: &[u8]) -> Option<i64> {
    let (days, rest) = split_date(text)?;
    rest.is_empty().then_some(days)
}

/// Appends the number with at least `width` digits.
fn push_padded(number: u64, width: usize, out: &mut String) {
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(number);
    for _ in text.len()..width {
        out.push('0');
    }
    out.push_str(text);
}

/// Appends RFC 3339 with `Z` and a fraction of 3, 6 or no digits, the shortest that is exact.
///
/// Years outside 0–9999 get a sign and six digits. Every `i64` can be written.
pub fn format_timestamp(us: i64, out: &mut String) {
    format_date(us.div_euclid(DAY_US), out);
    let time_us = us.rem_euclid(DAY_US).unsigned_abs();
    let seconds = time_us / 1_000_000;
    out.push('T');
    push_padded(seconds / 3_600, 2, out);
    out.push(':');
    push_padded(seconds / 60 % 60, 2, out);
    out.push(':');
    push_padded(seconds % 60, 2, out);
    let fraction_us = time_us % 1_000_000;
    if fraction_us != 0 {
        out.push('.');
        if fraction_us.is_multiple_of(1_000) {
            push_padded(fraction_us / 1_000, 3, out);
        } else {
            push_padded(fraction_us, 6, out);
        }
    }
    out.push('Z');
}

/// Appends `YYYY-MM-DD`. Years outside 0–9999 get a sign and at least six digits.
pub fn format_date(days: i64, out: &mut String) {
    let (year, month, day) = civil_from_days(days);
    if (0..=9_999).contains(&year) {
        push_padded(year.unsigned_abs(), 4, out);
    } else {
        out.push(if year < 0 { '-' } else { '+' });
        push_padded(year.unsigned_abs(), 6, out);
    }
    out.push('-');
    push_padded(month.unsigned_abs(), 2, out);
    out.push('-');
    push_padded(day.unsigned_abs(), 2, out);
}

/// Microseconds in a unit of time.
fn unit_us(name: &str) -> Result<i128, String> {
    let us = match name.to_ascii_lowercase().as_str() {
        "us" | "µs" | "μs" | "usec" | "usecs" | "microsecond" | "microseconds" => 1,
        "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => 1_000,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND_US,
        "m" | "min" | "mins" | "minute" | "minutes" => MINUTE_US,
        "h" | "hr" | "hrs" | "hour" | "hours" => HOUR_US,
        "d" | "day" | "days" => DAY_US,
        "w" | "week" | "weeks" => 7 * DAY_US,
        "mo" | "mon" | "mons" | "month" | "months" | "y" | "yr" | "yrs" | "year" | "years" => {
            return Err(format!("\"{name}\" has no fixed length; use days, of 24 hours"));
        }
        "" => return Err("expected a unit after the number (us, ms, s, m, h, d)".to_owned()),
        _ => return Err(format!("unknown unit \"{name}\" (expected us, ms, s, m, h or d)")),
    };
    Ok(i128::from(us))
}

/// Reads a duration: `5s`, `1h30m`, `250ms`, `2d`, `10us`, also `3 minutes`, `1 day 2 hours`, `30 seconds`; microseconds. A sign is allowed.
/// Months and years are refused (they have no fixed length), and so is what passes 64 bits.
///
/// The sign stands in front and counts for the whole. Numbers may have a fraction (`1.5h`) if the product is a whole
/// number of microseconds. A bare `0` needs no unit. Units: us, ms, s, m, h, d, w and their English names.
///
/// # Errors
/// What is wrong (lower case, no full stop).
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let trimmed = text.trim();
    let (negative, mut rest) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, trimmed.get(1..).unwrap_or_default().trim_start()),
        Some(b'+') => (false, trimmed.get(1..).unwrap_or_default().trim_start()),
        _ => (false, trimmed),
    };
    if rest.is_empty() {
        return Err(format!("expected a duration such as 5s or 1h30m, found \"{text}\""));
    }
    if rest == "0" {
        return Ok(0);
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (part_us, after) = split_duration_part(rest).map_err(|why| format!("{why} in \"{text}\""))?;
        total = total.saturating_add(part_us);
        rest = after;
    }
    let total = if negative { -total } else { total };
    i64::try_from(total).map_err(|_| format!("duration \"{text}\" is longer than 64 bits of microseconds hold"))
}

/// One number with its unit from the front of a duration.
fn split_duration_part(text: &str) -> Result<(i128, &str), String> {
    let (number, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(format!("expected a number, found \"{}\"", text.split_whitespace().next().unwrap_or_default()));
    }
    let rest = rest.trim_start();
    let (unit, rest) = rest.split_at(rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len()));
    let unit_us = unit_us(unit)?;
    let fraction = fraction.trim_end_matches('0');
    let too_large = || format!("\"{number}\" has too many digits");
    let scale =
        u32::try_from(fraction.len()).ok().and_then(|places| 10i128.checked_pow(places)).ok_or_else(too_large)?;
    let digits: i128 = format!("{whole}{fraction}").parse().map_err(|_| too_large())?;
    let us = digits.checked_mul(unit_us).ok_or_else(too_large)?;
    if us % scale != 0 {
        return Err(format!("\"{number}{unit}\" is not a whole number of microseconds"));
    }
    Ok((us / scale, rest.trim_start()))
}

/// Writes a duration as `1h30m`, `250ms`, `0s`. [`parse_duration`] reads it back exactly.
pub fn format_duration(us: i64) -> String {
    if us == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    if us < 0 {
        out.push('-');
    }
    let mut rest = us.unsigned_abs();
    let units = [("d", DAY_US), ("h", HOUR_US), ("m", MINUTE_US), ("s", SECOND_US), ("ms", 1_000), ("us", 1)];
    for (name, unit_us) in units {
        let unit_us = unit_us.unsigned_abs();
        if rest >= unit_us {
            out.push_str(itoa::Buffer::new().format(rest / unit_us));
            out.push_str(name);
            rest %= unit_us;
        }
    }
    out
}

#[cfg(test)]
mod tests;
