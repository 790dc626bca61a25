//! The choice itself: from sums by block to a setting, its intervals and its later record.

use super::RecommendPlan;
use super::condition::Condition;
use super::meter::{ALL, DROPPED, HOURS, PARTITIONS, PARTITIONS_MAX};
use crate::lab::blocks::{BlockSums, Groups};
use crate::lab::figures::ERROR_UNIT;
use crate::lab::grid::Grid;
use serde::Serialize;

/// Draws of the bootstrap.
pub const DRAWS: u64 = 2_000;
/// Its seed.
pub const SEED: u64 = 20_260_301;
/// With fewer blocks to choose from there is no interval.
pub const BLOCKS_MIN: usize = 10;
/// Of the contributions, the share that is for choosing, in hundredths.
const CHOOSING: u128 = 70;

/// A setting and how it does.
#[derive(Clone, Debug, Serialize)]
pub struct Recommendation {
    /// What was asked.
    pub conditions: Vec<String>,
    /// Length of a block, µs.
    pub block_us: i64,
    /// Blocks that the setting was chosen by, and later ones that it was checked on.
    pub blocks_chosen_by: u64,
    /// See `blocks_chosen_by`.
    pub blocks_checked_on: u64,
    /// The first event time that is only checked on, µs.
    pub checked_from_us: Option<i64>,
    /// Draws of the bootstrap, and its seed.
    pub draws: u64,
    /// See `draws`.
    pub seed: u64,
    /// The cheapest setting with which all conditions hold; `None`: no delay or horizon of the grid is enough.
    pub setting: Option<Setting>,
    /// The cheapest one with which they hold at the worse end of their intervals as well.
    pub safe: Option<Setting>,
    /// If nothing holds: the setting that comes nearest, the greatest delay and horizon.
    pub nearest: Option<Setting>,
}

/// A delay and a horizon.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// The delay, µs.
    pub delay_us: i64,
    /// The horizon, µs; `None`: late contributions are dropped.
    pub horizon_us: Option<i64>,
    /// By condition.
    pub results: Vec<Outcome>,
    /// The share of contributions in first results, in the blocks that were only checked on.
    pub by_partition: Vec<Part>,
    /// The same by hour of day, UTC.
    pub by_hour: Vec<Part>,
}

/// How a setting does by one condition.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The condition; with a column if it is about one of several.
    pub condition: String,
    /// The share or mean in the blocks that the setting was chosen by. For a latency, the share of windows in time.
    pub chosen: Option<f64>,
    /// 95 % interval of it.
    pub interval: Option<(f64, f64)>,
    /// In the blocks that were only checked on.
    pub checked: Option<f64>,
    /// Whether it holds there.
    pub holds_later: Option<bool>,
}

/// A part of the stream.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// The partition, or the hour.
    pub name: String,
    /// Contributions.
    pub contributions: u64,
    /// The share of them in first results.
    pub completeness: f64,
    /// Whether that is what the condition on completeness asks for, if there is one.
    pub holds: Option<bool>,
}

/// Sums that a choice is made from.
#[derive(Debug)]
pub struct Sums<'a> {
    /// Of [`super::meter`].
    pub contributions: &'a BlockSums,
    /// Of pairs: by delay those compared, then by column and delay the sum of errors, then those without one.
    pub errors: &'a BlockSums,
    /// Of windows: by delay those with a latency, then by bound and delay those in time.
    pub latencies: &'a BlockSums,
}

/// One share or mean that must be on the right side of a target.
struct Check<'a> {
    text: String,
    target: f64,
    at_least: bool,
    final_result: bool,
    /// Numerator and denominator in a block, under a delay and horizon.
    of: Box<dyn Fn(i64, usize, usize) -> (u128, u128) + 'a>,
}

impl Check<'_> {
    fn holds(&self, value: f64) -> bool {
        if self.at_least { value >= self.target } else { value <= self.target }
    }

    fn value(&self, blocks: &[i64], delay: usize, horizon: usize) -> Option<f64> {
        let sums = blocks.iter().map(|block| (self.of)(*block, delay, horizon));
        let (n, of) = sums.fold((0, 0), |(n, of), (a, b)| (n + a, of + b));
        (of > 0).then(|| n as f64 / of as f64)
    }

    /// Something must be there to hold.
    fn holds_in(&self, blocks: &[i64], delay: usize, horizon: usize) -> bool {
        self.value(blocks, delay, horizon).is_some_and(|value| self.holds(value))
    }

    /// The middle 95 % of the values over blocks drawn with repeats.
    fn interval(&self, blocks: &[i64], delay: usize, horizon: usize) -> Option<(f64, f64)> {
        if blocks.len() < BLOCKS_MIN {
            return None;
        }
        let sums: Vec<(u128, u128)> = blocks.iter().map(|block| (self.of)(*block, delay, horizon)).collect();
        let mut state = SEED;
        let mut values = Vec::with_capacity(DRAWS as usize);
        for _ in 0..DRAWS {
            let (mut n, mut of) = (0, 0);
            for _ in 0..sums.len() {
                let at = (u128::from(next(&mut state)) * sums.len() as u128) >> 64;
                let (a, b) = sums.get(at as usize).copied().unwrap_or_default();
                (n, of) = (n + a, of + b);
            }
            if of > 0 {
                values.push(n as f64 / of as f64);
            }
        }
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values.get(((values.len() as f64 * share) as usize).min(values.len().saturating_sub(1)));
        Some((*at(0.025)?, *at(0.975)?))
    }
}

/// SplitMix64 (Steele, Lea, Flood, 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn at(groups: Option<&Groups>, group: u64, counter: usize) -> u128 {
    let count = groups.and_then(|groups| groups.get(&group)).and_then(|counts| counts.get(counter));
    u128::from(count.copied().unwrap_or(0))
}

/// Sums over the same blocks: those with contributions. A window that starts in one without (an overlapping one, in a gap) has
/// its first records in the next.
struct Aligned {
    contributions: BlockSums,
    errors: BlockSums,
    latencies: BlockSums,
}

impl Aligned {
    fn new(sums: &Sums<'_>) -> Aligned {
        let all = [sums.contributions, sums.errors, sums.latencies];
        let doublings = all.iter().map(|sums| sums.doublings()).max().unwrap_or(0);
        let [contributions, mut errors, mut latencies] = all.map(|sums| {
            let mut sums = sums.clone();
            sums.coarsen(doublings);
            sums
        });
        errors.move_onto(&contributions);
        latencies.move_onto(&contributions);
        Aligned { contributions, errors, latencies }
    }

    fn checks<'a>(&'a self, plan: &RecommendPlan, grid: &'a Grid, columns: &[String]) -> Vec<Check<'a>> {
        let (delays, horizons) = (grid.delays(), grid.horizons());
        let mut out: Vec<Check<'a>> = Vec::new();
        let mut bounds = 0;
        for condition in &plan.conditions {
            let text = condition.to_string();
            let check = |text, target, at_least, of: Box<dyn Fn(i64, usize, usize) -> (u128, u128) + 'a>| Check {
                text,
                target,
                at_least,
                final_result: false,
                of,
            };
            match condition {
                Condition::Completeness(least) => out.push(check(
                    text,
                    *least,
                    true,
                    Box::new(|block, delay, _| {
                        let groups = self.contributions.blocks().get(&block);
                        let all = at(groups, ALL, 0);
                        (all.saturating_sub(at(groups, ALL, 1 + delay)), all)
                    }),
                )),
                Condition::FinalCompleteness(least) => {
                    let of = Box::new(move |block: i64, delay: usize, horizon: usize| {
                        let groups = self.contributions.blocks().get(&block);
                        let all = at(groups, ALL, 0);
                        (all.saturating_sub(at(groups, DROPPED, delay * horizons + horizon)), all)
                    });
                    out.push(Check { final_result: true, ..check(text, *least, true, of) });
                }
                Condition::FirstResultError(column, most) => {
                    for (number, name) in columns.iter().enumerate() {
                        if column.as_ref().is_some_and(|wanted| wanted != name) {
                            continue;
                        }
                        let text = Condition::FirstResultError(Some(name.clone()), *most).to_string();
                        let of = Box::new(move |block: i64, delay: usize, _| {
                            let groups = self.errors.blocks().get(&block);
                            let place = delays * (1 + number) + delay;
                            let undefined = at(groups, 0, delays * columns_of(groups, delays) + place);
                            let defined = at(groups, 0, delay).saturating_sub(undefined);
                            (at(groups, 0, place), defined * u128::from(ERROR_UNIT))
                        });
                        out.push(check(text, *most, false, of));
                    }
                }
                Condition::Latency(hundredths, _) => {
                    bounds += 1;
                    let bound = bounds;
                    let of = Box::new(move |block: i64, delay: usize, _| {
                        let groups = self.latencies.blocks().get(&block);
                        (at(groups, 0, delays * bound + delay), at(groups, 0, delay))
                    });
                    out.push(check(text, f64::from(*hundredths) / 100.0, true, of));
                }
            }
        }
        out
    }
}

/// Measured columns, from the number of counters that they have by delay: one, and two a column.
fn columns_of(groups: Option<&Groups>, delays: usize) -> usize {
    let counters = groups.and_then(|groups| groups.get(&0)).map_or(0, Vec::len);
    (counters.checked_div(delays).unwrap_or(1)).saturating_sub(1) / 2
}

/// Chooses. `columns` are the measured ones, `partitions` their names, `preferred` the horizon to take when no condition asks for one.
pub fn choose(
    plan: &RecommendPlan,
    grid: &Grid,
    sums: &Sums<'_>,
    (columns, partitions): (&[String], &[String]),
    preferred: usize,
) -> Recommendation {
    let aligned = Aligned::new(sums);
    let doublings = aligned.contributions.doublings();
    let blocks: Vec<i64> = aligned.contributions.blocks().keys().copied().collect();
    let (choosing, checking) = split(&aligned.contributions, &blocks);
    let checks = aligned.checks(plan, grid, columns);
    let setting = |delay: usize, horizon: usize| {
        let results = checks.iter().map(|check| {
            let checked = check.value(checking, delay, horizon);
            Outcome {
                condition: check.text.clone(),
                chosen: check.value(choosing, delay, horizon),
                interval: check.interval(choosing, delay, horizon),
                checked,
                holds_later: checked.map(|value| check.holds(value)),
            }
        });
        let target = plan.conditions.iter().find_map(|condition| match condition {
            Condition::Completeness(least) => Some(*least),
            _ => None,
        });
        let part = |group, name| part(&aligned.contributions, checking, (group, delay), name, target);
        let partition = |number: u64| match partitions.get(number as usize) {
            Some(_) if number + 1 == PARTITIONS_MAX && partitions.len() as u64 > PARTITIONS_MAX => "others".to_owned(),
            name => name.cloned().unwrap_or_default(),
        };
        Setting {
            delay_us: grid.delays_us().get(delay).copied().unwrap_or(0),
            horizon_us: grid.horizons_us().get(horizon).copied().flatten(),
            results: results.collect(),
            by_partition: (0..PARTITIONS_MAX).filter_map(|n| part(PARTITIONS + n, partition(n))).collect(),
            by_hour: (0..24).filter_map(|hour| part(HOURS + hour, format!("{hour:02}:00"))).collect(),
        }
    };
    let safe = |check: &Check<'_>, delay: usize, horizon: usize| {
        let interval = check.interval(choosing, delay, horizon);
        interval.is_some_and(|(low, high)| check.holds(if check.at_least { low } else { high }))
    };
    let plain = |check: &Check<'_>, delay: usize, horizon: usize| check.holds_in(choosing, delay, horizon);
    let last = (grid.delays().saturating_sub(1), grid.horizons().saturating_sub(1));
    let found = cheapest(&checks, grid, preferred, &plain);
    Recommendation {
        conditions: plan.conditions.iter().map(ToString::to_string).collect(),
        block_us: plan.slots.block_us(doublings),
        blocks_chosen_by: choosing.len() as u64,
        blocks_checked_on: checking.len() as u64,
        checked_from_us: checking.first().map(|block| plan.slots.block_start_us(*block, doublings)),
        draws: DRAWS,
        seed: SEED,
        setting: found.map(|(delay, horizon)| setting(delay, horizon)),
        safe: cheapest(&checks, grid, preferred, &safe).map(|(delay, horizon)| setting(delay, horizon)),
        nearest: found.is_none().then(|| setting(last.0, last.1)),
    }
}

/// The least delay with which what is asked of first results holds, then the least horizon for the final ones; a longer delay
/// if no horizon will do.
fn cheapest(
    checks: &[Check<'_>],
    grid: &Grid,
    preferred: usize,
    holds: &dyn Fn(&Check<'_>, usize, usize) -> bool,
) -> Option<(usize, usize)> {
    let asks_final = checks.iter().any(|check| check.final_result);
    let horizons: Vec<usize> = if asks_final { (0..grid.horizons()).collect() } else { vec![preferred] };
    for delay in 0..grid.delays() {
        if !checks.iter().filter(|check| !check.final_result).all(|check| holds(check, delay, 0)) {
            continue;
        }
        for horizon in &horizons {
            if checks.iter().filter(|check| check.final_result).all(|check| holds(check, delay, *horizon)) {
                return Some((delay, *horizon));
            }
        }
    }
    None
}

/// Blocks to choose by, and later ones to check on.
fn split<'b>(contributions: &BlockSums, blocks: &'b [i64]) -> (&'b [i64], &'b [i64]) {
    let of = |block: &i64| at(contributions.blocks().get(block), ALL, 0);
    let all: u128 = blocks.iter().map(of).sum();
    let mut passed = 0;
    let enough = blocks.iter().position(|block| {
        passed += of(block);
        passed * 100 >= all * CHOOSING
    });
    let upto = enough.map_or(0, |last| last + 1).min(blocks.len().saturating_sub(1).max(1)).min(blocks.len());
    blocks.split_at(upto)
}

fn part(
    contributions: &BlockSums,
    blocks: &[i64],
    (group, delay): (u64, usize),
    name: String,
    target: Option<f64>,
) -> Option<Part> {
    let mut sums = (0u128, 0u128);
    for block in blocks {
        let groups = contributions.blocks().get(block);
        sums = (sums.0 + at(groups, group, 0), sums.1 + at(groups, group, 1 + delay));
    }
    let (all, missing) = sums;
    let completeness = (all > 0).then(|| all.saturating_sub(missing) as f64 / all as f64)?;
    let contributions = u64::try_from(all).unwrap_or(u64::MAX);
    Some(Part { name, contributions, completeness, holds: target.map(|least| completeness >= least) })
}

#[cfg(test)]
mod tests;
