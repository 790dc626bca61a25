//! The delays and horizons that are looked at, and what a record's stamp is under each.

use crate::watermark::round_down;

/// The most cells of a grid.
pub const CELLS_MAX: usize = 4_096;
/// The longest delay and horizon, µs: 73,000 years, as in SQL.
pub const LENGTH_MAX_US: i64 = 1 << 61;

/// Delays by horizons. A cell is one of each; cells stand by delay, then horizon.
///
/// Invariant: neither list is empty, both ascend without repeats, "none" (every late contribution is dropped) counts
/// as less than any horizon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    delays_us: Vec<i64>,
    horizons_us: Vec<Option<i64>>,
    granularity_us: i64,
    unbounded: bool,
    /// See [`Grid::pass_granularity_us`].
    pass_granularity_us: i64,
}

impl Grid {
    /// A grid over a table with this granularity. `unbounded`: the truth is every record that was read, however late
    /// (`--truth`), instead of what the greatest delay and horizon accept.
    ///
    /// # Errors
    /// What is wrong with the lists (lower case, no full stop), naming `--delays` or `--horizons`.
    pub fn new(
        delays_us: Vec<i64>,
        horizons_us: Vec<Option<i64>>,
        granularity_us: i64,
        unbounded: bool,
    ) -> Result<Grid, String> {
        if delays_us.is_empty() {
            return Err("--delays: expected at least one delay, found none".into());
        }
        if horizons_us.is_empty() {
            return Err("--horizons: expected at least one horizon, found none".into());
        }
        let cells = delays_us.len().saturating_mul(horizons_us.len());
        if cells > CELLS_MAX {
            let (delays, horizons) = (delays_us.len(), horizons_us.len());
            return Err(format!("expected at most {CELLS_MAX} cells, found {delays} delays by {horizons} horizons"));
        }
        if !delays_us.is_sorted_by(|a, b| a < b) {
            return Err("--delays: expected each delay to be longer than the one before it".into());
        }
        if !horizons_us.is_sorted_by(|a, b| a < b) {
            return Err("--horizons: expected each horizon to be longer than the one before it, and none first".into());
        }
        let fits = |us: &i64| (0..=LENGTH_MAX_US).contains(us);
        if !delays_us.iter().all(fits) || !horizons_us.iter().flatten().all(fits) {
            return Err("expected delays and horizons from 0s to 73,000 years".into());
        }
        if granularity_us <= 0 {
            return Err("expected a granularity above 0".into());
        }
        let base_us = delays_us.first().copied().unwrap_or(0);
        let pass_granularity_us = delays_us.iter().fold(granularity_us, |g, delay| gcd(g, delay - base_us));
        Ok(Grid { delays_us, horizons_us, granularity_us, unbounded, pass_granularity_us })
    }

    /// The delays, µs, ascending.
    pub fn delays_us(&self) -> &[i64] {
        &self.delays_us
    }

    /// The horizons, µs, ascending; `None`: late contributions are dropped.
    pub fn horizons_us(&self) -> &[Option<i64>] {
        &self.horizons_us
    }

    /// Number of delays.
    pub fn delays(&self) -> usize {
        self.delays_us.len()
    }

    /// Number of horizons.
    pub fn horizons(&self) -> usize {
        self.horizons_us.len()
    }

    /// Whether the truth is every record that was read.
    pub fn unbounded(&self) -> bool {
        self.unbounded
    }

    /// The least delay: that of the one pass.
    pub fn base_us(&self) -> i64 {
        self.delays_us.first().copied().unwrap_or(0)
    }

    /// By how much a delay is longer than the least, µs.
    pub fn offset_us(&self, delay: usize) -> i64 {
        self.delays_us.get(delay).map_or(0, |d| d - self.base_us())
    }

    /// The granularity, µs.
    pub fn granularity_us(&self) -> i64 {
        self.granularity_us
    }

    /// What the one pass may round its stamps down to, µs: the greatest length of which the granularity and all that delays differ by are
    /// multiples. Rounding by it first changes no stamp under any delay, and leaves fewer different ones.
    pub fn pass_granularity_us(&self) -> i64 {
        self.pass_granularity_us
    }

    /// [`Grid::stamp`] of a stamp that is rounded as the pass may: most grids need no division for it.
    #[inline]
    pub fn stamp_of_rounded(&self, delay: usize, base_us: i64) -> i64 {
        use crate::watermark::{AFTER_ALL, BEFORE_ALL};
        if self.pass_granularity_us != self.granularity_us || base_us == BEFORE_ALL || base_us == AFTER_ALL {
            return self.stamp(delay, base_us);
        }
        base_us.saturating_sub(self.offset_us(delay))
    }

    /// The stamp, under a delay, of a record that the one pass stamps `base_us`.
    #[inline]
    pub fn stamp(&self, delay: usize, base_us: i64) -> i64 {
        use crate::watermark::{AFTER_ALL, BEFORE_ALL};
        if base_us == BEFORE_ALL || base_us == AFTER_ALL {
            return base_us;
        }
        round_down(base_us.saturating_sub(self.offset_us(delay)), self.granularity_us)
    }

    /// The least stamp of the one pass that has reached a window's end under a delay: stamps from it on are late.
    pub fn reached_at(&self, delay: usize, end_us: i64) -> i64 {
        // The least multiple of the granularity at or above the end.
        let up = end_us.saturating_add((-end_us).rem_euclid(self.granularity_us));
        up.saturating_add(self.offset_us(delay))
    }

    /// The first horizon that accepts a lag (`stamp − end`, at least 0); the number of horizons if none does.
    #[inline]
    pub fn accepting(&self, lag_us: i64) -> usize {
        self.horizons_us.partition_point(|h| h.is_none_or(|h| h < lag_us))
    }

    /// How far past a window's end the one pass takes records, µs: as far as any cell does.
    pub fn reach_us(&self) -> i64 {
        if self.unbounded {
            return LENGTH_MAX_US;
        }
        let longest = self.horizons_us.last().copied().flatten().unwrap_or(0);
        let last = self.offset_us(self.delays().saturating_sub(1));
        longest.saturating_add(last).saturating_add(self.granularity_us).min(LENGTH_MAX_US)
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Reads `--delays`: durations with commas between them, or `0s..5m/20`: from the first to the last in 20 equal steps.
///
/// # Errors
/// What was expected and found (lower case, no full stop).
pub fn parse_delays(text: &str) -> Result<Vec<i64>, String> {
    parse_list(text, &length)
}

/// Reads `--horizons`: as delays, and `none` may stand first.
///
/// # Errors
/// What was expected and found (lower case, no full stop).
pub fn parse_horizons(text: &str) -> Result<Vec<Option<i64>>, String> {
    let one = |text: &str| if text.trim() == "none" { Ok(None) } else { length(text).map(Some) };
    let parts: Vec<&str> = text.split(',').collect();
    let mut out = Vec::new();
    for part in parts {
        if part.contains("..") {
            out.extend(parse_range(part)?.into_iter().map(Some));
        } else {
            out.push(one(part)?);
        }
    }
    Ok(out)
}

fn parse_list(text: &str, one: &dyn Fn(&str) -> Result<i64, String>) -> Result<Vec<i64>, String> {
    let mut out = Vec::new();
    for part in text.split(',') {
        if part.contains("..") {
            out.extend(parse_range(part)?);
        } else {
            out.push(one(part)?);
        }
    }
    Ok(out)
}

fn length(text: &str) -> Result<i64, String> {
    let us = crate::time::parse_duration(text)?;
    if us < 0 {
        return Err(format!("expected a duration of at least 0, found \"{}\"", text.trim()));
    }
    Ok(us.min(LENGTH_MAX_US))
}

/// `0s..5m/20`.
fn parse_range(text: &str) -> Result<Vec<i64>, String> {
    let shape = || format!("expected a range such as 0s..5m/20, found \"{}\"", text.trim());
    let (from, rest) = text.split_once("..").ok_or_else(shape)?;
    let (to, steps) = rest.split_once('/').ok_or_else(shape)?;
    let steps: i64 = steps.trim().parse().map_err(|_| shape())?;
    if !(1..=CELLS_MAX as i64).contains(&steps) {
        return Err(format!("expected 1 to {CELLS_MAX} steps in the range \"{}\", found {steps}", text.trim()));
    }
    let (from, to) = (length(from)?, length(to)?);
    if to <= from {
        return Err(format!("expected a range that ascends, found \"{}\"", text.trim()));
    }
    let at = |step: i64| from + (i128::from(to - from) * i128::from(step) / i128::from(steps)) as i64;
    Ok((0..=steps).map(at).collect())
}

#[cfg(test)]
#[path = "grid_tests.rs"]
mod tests;
