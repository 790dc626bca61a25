//! Delays and horizons of a grid: how they are written, and what a stamp is under a delay.

use crate::error::{Error, Result};
use crate::lateness::{Lateness, classify};
use crate::time::{format_duration, parse_duration};
use crate::watermark::round_down;

/// Cells of a grid at most: every worker holds some counts of each.
pub const CELLS_MAX: usize = 1 << 14;

/// The longest delay or horizon, µs (73,000 years): the limit of the SQL options, too.
const LONGEST_US: i64 = 1 << 61;

/// Delays and horizons, each ascending and different, and the granularity of stamps. Microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    delays_us: Vec<i64>,
    horizons_us: Vec<Option<i64>>,
    granularity_us: i64,
    /// Distances of the delays from the least one, one for each rest by the granularity.
    phases_us: Vec<i64>,
}

impl Grid {
    /// Reads the values of `--delays` and `--horizons`. Either is a list (`0s,5s,1m`; horizons also `none`, which accepts no
    /// late record), whose entries may be ranges of equal steps (`0s..5m/24`: 24 values, both ends among them, rounded down to the
    /// microsecond). `granularity_us` is the table's, > 0.
    ///
    /// # Errors
    /// When a list is empty, an entry unreadable, negative, too long or there twice, a range does not ascend, or there are
    /// more than [`CELLS_MAX`] cells.
    pub fn parse(delays: &str, horizons: &str, granularity_us: i64) -> Result<Grid> {
        let mut delays_us = Vec::new();
        for delay in parse_list("--delays", delays)? {
            delays_us.push(delay.ok_or_else(|| {
                Error::usage("--delays: expected a duration, found none").with_hint("only a horizon can be none")
            })?);
        }
        let horizons_us = parse_list("--horizons", horizons)?;
        Self::new(delays_us, horizons_us, granularity_us)
    }

    /// A grid of these delays and horizons, in any order.
    ///
    /// # Errors
    /// When one is empty, holds an entry twice or a negative one, or there are more than [`CELLS_MAX`] cells.
    pub fn new(mut delays_us: Vec<i64>, mut horizons_us: Vec<Option<i64>>, granularity_us: i64) -> Result<Grid> {
        delays_us.sort_unstable();
        horizons_us.sort_unstable();
        let as_horizons: Vec<Option<i64>> = delays_us.iter().copied().map(Some).collect();
        check("--delays", &as_horizons)?;
        check("--horizons", &horizons_us)?;
        let cells = delays_us.len().saturating_mul(horizons_us.len());
        if cells > CELLS_MAX {
            let message = format!("the grid has {cells} cells, at most {CELLS_MAX} are taken on");
            return Err(Error::usage(message).with_hint("name fewer delays or horizons"));
        }
        let granularity_us = granularity_us.max(1);
        let least = delays_us.first().copied().unwrap_or(0);
        let mut phases_us: Vec<i64> =
            delays_us.iter().map(|delay| (delay - least).rem_euclid(granularity_us)).collect();
        phases_us.sort_unstable();
        phases_us.dedup();
        Ok(Grid { delays_us, horizons_us, granularity_us, phases_us })
    }

    /// The delays, µs, ascending.
    pub fn delays_us(&self) -> &[i64] {
        &self.delays_us
    }

    /// The horizons, µs, ascending; `None`, which accepts no late record, stands first.
    pub fn horizons_us(&self) -> &[Option<i64>] {
        &self.horizons_us
    }

    /// The granularity of stamps, µs.
    pub fn granularity_us(&self) -> i64 {
        self.granularity_us
    }

    /// The least delay, µs: the run's own.
    pub fn least_delay_us(&self) -> i64 {
        self.delays_us.first().copied().unwrap_or(0)
    }

    /// The stamp under delay number `delay` of a record that is stamped `stamp_us` under the least delay, not rounded.
    pub fn stamp_us(&self, stamp_us: i64, delay: usize) -> i64 {
        if stamp_us == i64::MIN {
            return stamp_us;
        }
        let more = self.delays_us.get(delay).map_or(0, |delay| delay - self.least_delay_us());
        round_down(stamp_us.saturating_sub(more), self.granularity_us)
    }

    /// The least stamp that no delay tells from this one, both under the least delay and not rounded: records are counted by
    /// these, which are fewer.
    pub fn class_us(&self, stamp_us: i64) -> i64 {
        let last_step = |phase: &i64| match round_down(stamp_us.saturating_sub(*phase), self.granularity_us) {
            i64::MIN => i64::MIN,
            us => us + phase,
        };
        self.phases_us.iter().map(last_step).max().unwrap_or(stamp_us)
    }

    /// The first horizon under which a contribution that is late by `stamp − end` is accepted; their number if none does.
    pub fn horizon_of(&self, stamp_us: i64, end_us: i64) -> usize {
        self.horizons_us.partition_point(|horizon| classify(stamp_us, end_us, *horizon) == Lateness::TooLate)
    }

    /// A contribution whose stamp under the least delay, not rounded, lies further than this past its window's end is too
    /// late in every cell; `None`: one that is not on time is.
    pub fn reach_us(&self) -> Option<i64> {
        let longest = self.horizons_us.last().copied().flatten().unwrap_or(-1);
        let more = self.delays_us.last().map_or(0, |delay| delay - self.least_delay_us());
        let reach = longest.saturating_add(more).saturating_add(self.granularity_us - 1);
        (reach >= 0).then_some(reach)
    }
}

fn check(flag: &str, entries: &[Option<i64>]) -> Result<()> {
    if entries.is_empty() {
        return Err(Error::usage(format!("{flag}: expected at least one entry, found none"))
            .with_hint("write a list, 0s,5s,1m, or a range of equal steps, 0s..5m/24"));
    }
    if let Some(negative) = entries.iter().flatten().find(|us| **us < 0) {
        let found = format_duration(*negative);
        return Err(Error::usage(format!("{flag}: expected durations of at least 0, found {found}")));
    }
    let longest = entries.last().copied().flatten().unwrap_or(0);
    if longest > LONGEST_US {
        let message = format!("{flag}: {} is too long", format_duration(longest));
        return Err(Error::usage(message).with_hint(format!("at most {}", format_duration(LONGEST_US))));
    }
    if let Some((twice, _)) = entries.iter().zip(entries.iter().skip(1)).find(|(a, b)| a == b) {
        let found = twice.map_or_else(|| "none".to_owned(), format_duration);
        return Err(Error::usage(format!("{flag}: {found} stands there twice")).with_hint("name every entry once"));
    }
    Ok(())
}

/// The entries of a list, some of which may be ranges; `None` is `none`.
fn parse_list(flag: &str, text: &str) -> Result<Vec<Option<i64>>> {
    let mut entries = Vec::new();
    if text.trim().is_empty() {
        return Ok(entries);
    }
    for entry in text.split(',').map(str::trim) {
        if entry.contains("..") {
            entries.extend(parse_range(flag, entry)?.into_iter().map(Some));
        } else {
            entries.push(if entry == "none" { None } else { Some(duration(flag, entry)?) });
        }
    }
    Ok(entries)
}

fn duration(flag: &str, text: &str) -> Result<i64> {
    let hint = "write durations as 250ms, 5s or 1h30m";
    parse_duration(text).map_err(|why| Error::usage(format!("{flag}: {why}")).with_hint(hint))
}

/// `from..to/count`: both ends and equal steps between them.
fn parse_range(flag: &str, text: &str) -> Result<Vec<i64>> {
    let malformed = |what: &str| {
        Error::usage(format!("{flag}: {what} in \"{text}\""))
            .with_hint("write a range as 0s..5m/24: 24 values, 0s and 5m among them")
    };
    let (from, rest) = text.split_once("..").ok_or_else(|| malformed("expected two ends"))?;
    let (to, count) = rest.split_once('/').ok_or_else(|| malformed("expected / and the number of values"))?;
    let (from_us, to_us) = (duration(flag, from)?, duration(flag, to)?);
    let count: usize = count.trim().parse().map_err(|_| malformed("expected a whole number of values behind the /"))?;
    if to_us <= from_us {
        let (from, to) = (format_duration(from_us), format_duration(to_us));
        return Err(malformed(&format!("expected a range that ascends, found {from} to {to}")));
    }
    if !(2..=CELLS_MAX).contains(&count) {
        return Err(malformed(&format!("expected 2 to {CELLS_MAX} values, found {count}")));
    }
    let span = i128::from(to_us) - i128::from(from_us);
    let steps = count as i128 - 1;
    let value = |step: i128| i64::try_from(i128::from(from_us) + span * step / steps).unwrap_or(i64::MAX);
    Ok((0..count as i128).map(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watermark::BEFORE_ALL;

    fn delays(text: &str) -> Vec<i64> {
        Grid::parse(text, "none", 1).unwrap().delays_us().to_vec()
    }

    #[test]
    fn lists_and_ranges() {
        assert_eq!(delays("5s, 0s,1ms"), [0, 1_000, 5_000_000]);
        assert_eq!(delays("0s..10us/4"), [0, 3, 6, 10]);
        assert_eq!(delays("1s,2s..4s/3"), [1_000_000, 2_000_000, 3_000_000, 4_000_000]);
        let many = delays("0s..5m/24");
        assert_eq!((many.len(), many[1], many[23]), (24, 13_043_478, 300_000_000));
        let grid = Grid::parse("0s", "1s..2s/2,none,0s", 1).unwrap();
        assert_eq!(grid.horizons_us(), [None, Some(0), Some(1_000_000), Some(2_000_000)]);
        let most = format!("0s..{CELLS_MAX}us/{CELLS_MAX}");
        assert_eq!(delays(&most).len(), CELLS_MAX);
        assert!(Grid::parse(&most, "none,0s", 1).is_err());
    }

    /// Against the definition: what each delay and horizon makes of a stamp, and that beyond the reach every cell drops.
    #[test]
    fn stamps_horizons_and_reach() {
        for granularity in [1, 2, 5] {
            for (delays, horizons) in [
                (vec![3], vec![None]),
                (vec![0, 1, 7], vec![None, Some(0), Some(4)]),
                (vec![2, 6], vec![Some(3), Some(9)]),
            ] {
                let grid = Grid::new(delays.clone(), horizons.clone(), granularity).unwrap();
                for greatest in -40..40i64 {
                    let least = greatest - delays[0];
                    let class = grid.class_us(least);
                    let stamps = |us: i64| (0..delays.len()).map(|d| grid.stamp_us(us, d)).collect::<Vec<_>>();
                    assert!(class <= least && stamps(class) == stamps(least) && stamps(class - 1) != stamps(least));
                    for end in -10..10 {
                        let mut any = false;
                        for (d, delay) in delays.iter().enumerate() {
                            let stamp = (greatest - delay).div_euclid(granularity) * granularity;
                            assert_eq!(grid.stamp_us(least, d), stamp);
                            let takes = |h: &Option<i64>| classify(stamp, end, *h) != Lateness::TooLate;
                            any |= horizons.iter().any(takes);
                            if stamp >= end {
                                let first = horizons.iter().position(takes).unwrap_or(horizons.len());
                                assert_eq!(grid.horizon_of(stamp, end), first);
                            }
                        }
                        // What lies beyond the reach, no cell takes; the reach is no longer than rounding makes it.
                        let within = classify(least, end, grid.reach_us()) != Lateness::TooLate;
                        assert!(within || !any, "{least} {end} {grid:?}");
                        let near = classify(least + granularity - 1, end, grid.reach_us()) != Lateness::TooLate;
                        assert!(any || !near, "{least} {end} {grid:?}");
                    }
                }
                assert_eq!((grid.stamp_us(BEFORE_ALL, 0), grid.class_us(BEFORE_ALL)), (BEFORE_ALL, BEFORE_ALL));
            }
        }
    }
}
