//! Delays that follow the disorder of a stream: what stands in the place of a fixed delay.
//!
//! A policy sees the records of one partition in their order. For each it gives what the watermark expression would:
//! the greatest event time of the partition so far, this record's included, minus the *delay in force*. The watermark is
//! the running maximum of that, so a delay that grows holds the watermark still and never takes it back.
//!
//! The **lag** of a record is the greatest event time of its partition so far minus its own, at least 0. The delay in
//! force is a function of the lags (and values) of the records *before*, never of the record that is judged by it. It changes
//! when the greatest event time enters a new *step*, the sixteenth part of the span that is looked back on (k-slack: also at
//! a record whose lag is greater), and until a span has shown enough records (100 by default) the declared delay stands.
//!
//! Invariant: the state of a partition is a function of its own records in their order, so results are the same however the input
//! is read, as long as one reader follows a partition from its beginning. Cost: a few operations per record; per
//! partition one histogram of lags over the span (see [`lags`]).
//!
//! Sources, and where this departs from them, stand with each policy.

pub mod lags;
mod parse;
pub mod quality;
pub mod slack;

pub use parse::PolicyError;

use crate::time::format_duration;
use crate::watermark::BEFORE_ALL;
use lags::SlidingLags;
use quality::{Quality, QualityPlan};
use serde::{Deserialize, Serialize};
use slack::{Slack, SlackPlan};
use std::collections::HashMap;
use std::fmt;

/// Longer than any delay, µs: no cap.
pub const FOREVER_US: i64 = 1 << 61;

/// Steps to a span.
pub const STEPS: i64 = 16;

/// Records that a span must hold by default for a delay to be drawn from it; else the delay stays as it is.
pub const RECORDS_MIN: u64 = 100;

/// Between what a delay is kept, µs; `0 ≤ floor ≤ cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayBounds {
    /// The least.
    pub floor_us: i64,
    /// The greatest.
    pub cap_us: i64,
}

impl DelayBounds {
    fn keep(&self, delay_us: i64) -> i64 {
        delay_us.clamp(self.floor_us, self.cap_us)
    }
}

/// The delay is a quantile of recent lags.
///
/// Source for the sketch: Masson, Rim, Lee, "DDSketch", VLDB 2019, with the linearly interpolated mapping; the delay is the
/// upper edge of the bucket, so it is never shorter than the quantile, and longer by at most 1/64 of it.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantilePlan {
    /// Over 0, at most 1.
    pub q: f64,
    /// Event time that is looked back on, µs.
    pub span_us: i64,
    /// Records that the span must hold.
    pub records_min: u64,
    /// Floor and cap.
    pub bounds: DelayBounds,
}

/// A policy with its settings. [`fmt::Display`] writes the text that [`PolicyPlan::parse`] reads.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyPlan {
    /// A quantile of recent lags.
    Quantile(QuantilePlan),
    /// The greatest lag, decaying.
    Slack(SlackPlan),
    /// The least delay under which the predicted error of an aggregate stays below a target.
    Quality(QualityPlan),
}

impl PolicyPlan {
    /// The column whose values the policy wants to see.
    pub fn column(&self) -> Option<&str> {
        match self {
            PolicyPlan::Quality(plan) => plan.column.as_deref(),
            _ => None,
        }
    }

    /// Floor and cap.
    pub fn bounds(&self) -> DelayBounds {
        match self {
            PolicyPlan::Quantile(plan) => plan.bounds,
            PolicyPlan::Slack(plan) => plan.bounds,
            PolicyPlan::Quality(plan) => plan.bounds,
        }
    }

    /// Records that a span must hold for the delay to be drawn from it.
    fn records_min(&self) -> u64 {
        match self {
            PolicyPlan::Quantile(plan) => plan.records_min,
            PolicyPlan::Slack(_) => RECORDS_MIN,
            PolicyPlan::Quality(plan) => plan.records_min,
        }
    }

    fn span_us(&self) -> i64 {
        match self {
            PolicyPlan::Quantile(plan) => plan.span_us,
            PolicyPlan::Slack(plan) => plan.span_us,
            PolicyPlan::Quality(plan) => plan.span_us,
        }
    }
}

impl fmt::Display for PolicyPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyPlan::Quantile(plan) => write!(f, "quantile({}", plan.q)?,
            PolicyPlan::Slack(plan) => write!(f, "k-slack(decay = {}", plan.decay)?,
            PolicyPlan::Quality(plan) => {
                let (name, column) = (plan.measure.name(), plan.column.as_deref().unwrap_or("*"));
                write!(f, "aq-k-slack(error = {}, of = {name}({column})", plan.error)?;
                write!(f, ", window = {}", format_duration(plan.window_us))?;
                if plan.groups != 1 {
                    write!(f, ", groups = {}", plan.groups)?;
                }
                if plan.confidence != quality::CONFIDENCE {
                    write!(f, ", confidence = {}", plan.confidence)?;
                }
            }
        }
        write!(f, ", span = {}", format_duration(self.span_us()))?;
        if self.records_min() != RECORDS_MIN {
            write!(f, ", min_records = {}", self.records_min())?;
        }
        let DelayBounds { floor_us, cap_us } = self.bounds();
        if floor_us > 0 {
            write!(f, ", floor = {}", format_duration(floor_us))?;
        }
        if cap_us < FOREVER_US {
            write!(f, ", cap = {}", format_duration(cap_us))?;
        }
        f.write_str(")")
    }
}

/// Delays that were in force, over records. Sums of several partitions add up in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelaySums {
    /// Records.
    pub records: u64,
    /// Sum over them, µs.
    pub sum_us: u128,
    /// The longest, µs.
    pub max_us: i64,
}

impl DelaySums {
    /// Adds those of another partition.
    pub fn add(&mut self, other: &DelaySums) {
        self.records += other.records;
        self.sum_us += other.sum_us;
        self.max_us = self.max_us.max(other.max_us);
    }

    #[inline]
    fn record(&mut self, delay_us: i64) {
        self.records += 1;
        self.sum_us += u128::from(delay_us.unsigned_abs());
        self.max_us = self.max_us.max(delay_us);
    }

    /// The mean over records, µs, rounded; `None` without records.
    pub fn mean_us(&self) -> Option<u64> {
        let mean = (self.sum_us + u128::from(self.records) / 2).checked_div(u128::from(self.records))?;
        u64::try_from(mean).ok()
    }
}

#[derive(Clone, Debug)]
enum Model {
    Quantile(f64, u64, SlidingLags),
    Slack(Slack),
    Quality(Box<Quality>),
}

/// A policy at work on one partition.
#[derive(Clone, Debug)]
pub struct Policy {
    newest_us: i64,
    delay_us: i64,
    bounds: DelayBounds,
    step_us: i64,
    /// The step that the newest event lies in, and the first event time after it.
    step: i64,
    step_end_us: i64,
    delays: DelaySums,
    model: Model,
}

impl Policy {
    /// At the beginning of a partition, with the declared delay in force.
    pub fn new(plan: &PolicyPlan, delay_us: i64) -> Policy {
        let (step_us, model) = match plan {
            PolicyPlan::Quantile(plan) => {
                (plan.span_us / STEPS, Model::Quantile(plan.q, plan.records_min, SlidingLags::default()))
            }
            PolicyPlan::Slack(plan) => (plan.span_us, Model::Slack(Slack::new(plan.decay, delay_us))),
            PolicyPlan::Quality(plan) => (plan.span_us / STEPS, Model::Quality(Box::new(Quality::new(plan)))),
        };
        Policy {
            newest_us: BEFORE_ALL,
            delay_us,
            bounds: plan.bounds(),
            step_us: step_us.max(1),
            step: 0,
            step_end_us: BEFORE_ALL,
            delays: DelaySums::default(),
            model,
        }
    }

    /// Takes the next record of the partition; `value` is what it has in [`PolicyPlan::column`]. Gives the watermark that it
    /// brings: the greatest event time minus the delay in force, µs.
    #[inline]
    pub fn record(&mut self, event_time_us: i64, value: Option<f64>) -> i64 {
        if event_time_us > self.newest_us {
            if event_time_us >= self.step_end_us {
                self.move_on(event_time_us);
            }
            self.newest_us = event_time_us;
        }
        let lag_us = self.newest_us.abs_diff(event_time_us);
        let watermark_us = self.newest_us.saturating_sub(self.delay_us);
        self.delays.record(self.delay_us);
        match &mut self.model {
            Model::Quantile(.., lags) => lags.add(lag_us),
            Model::Slack(slack) => {
                if slack.add(lag_us, self.bounds.cap_us) {
                    self.delay_us = self.bounds.keep(slack.delay_us());
                }
            }
            Model::Quality(quality) => quality.add(event_time_us, lag_us, watermark_us, value),
        }
        watermark_us
    }

    /// The delay in force for the next record that is not newer than all before.
    pub fn delay_us(&self) -> i64 {
        self.delay_us
    }

    #[cold]
    fn move_on(&mut self, event_time_us: i64) {
        let step = event_time_us.div_euclid(self.step_us);
        let first = self.newest_us == BEFORE_ALL;
        let passed = step.saturating_sub(self.step).unsigned_abs();
        self.step = step;
        self.step_end_us = step.saturating_add(1).saturating_mul(self.step_us);
        if first || passed == 0 {
            return;
        }
        let delay_us = match &mut self.model {
            Model::Quantile(q, records_min, lags) => {
                lags.step(passed);
                (lags.records() >= *records_min).then(|| lags.quantile(*q))
            }
            Model::Slack(slack) => {
                slack.step(passed);
                Some(slack.delay_us())
            }
            Model::Quality(quality) => quality.step(passed, self.step_us),
        };
        if let Some(delay_us) = delay_us {
            self.delay_us = self.bounds.keep(delay_us);
            if let Model::Quality(quality) = &mut self.model {
                quality.in_force(self.delay_us);
            }
        }
    }
}

/// A policy at work on the partitions of a table, by their names.
#[derive(Clone, Debug)]
pub struct Policies {
    start: Policy,
    by_name: HashMap<String, Policy>,
}

impl Policies {
    /// With nothing read. `delay_us` is the declared delay.
    pub fn new(plan: &PolicyPlan, delay_us: i64) -> Policies {
        Policies { start: Policy::new(plan, delay_us), by_name: HashMap::new() }
    }

    /// Takes the next record of a partition; see [`Policy::record`].
    pub fn record(&mut self, partition: &str, event_time_us: i64, value: Option<f64>) -> i64 {
        self.of(partition).record(event_time_us, value)
    }

    /// The delays that were in force, over all partitions.
    pub fn delays(&self) -> DelaySums {
        let mut all = DelaySums::default();
        self.by_name.values().for_each(|policy| all.add(&policy.delays));
        all
    }

    /// The policy of a partition.
    pub fn of(&mut self, partition: &str) -> &mut Policy {
        if !self.by_name.contains_key(partition) {
            self.by_name.insert(partition.to_owned(), self.start.clone());
        }
        self.by_name.get_mut(partition).unwrap_or(&mut self.start)
    }
}

#[cfg(test)]
mod tests;
