//! AQ-K-slack: the least delay under which the predicted error of an aggregate's first result stays below a target.
//!
//! Source: Ji, Zhou, Jerzak, Nica, Hackenbroich, Fetzer, "Quality-driven processing of sliding window aggregates over
//! out-of-order data streams", DEBS 2015: predict the error from the lags (and a sample of the values), choose the
//! least slack whose prediction holds, correct the prediction by what is measured.
//!
//! # The model
//!
//! A record with lag `l` misses the first result of its window under delay `K` exactly if its window ends at most `l − K` after it.
//! Places in windows of length `W` are taken as uniform, so the share of records that miss is
//! `m(K) = Σ share(l) · min(1, max(0, l − K) / W)` over the lags of the last span. A window of a group holds `n` records on
//! average; if each misses independently of its value, the relative error of its first result is, at the asked confidence (`z` is
//! the one-sided normal quantile, `cv` the coefficient of variation of the column),
//!
//! * `count`: `m + z · sqrt(m (1 − m) / n)`,
//! * `sum`: `m + z · sqrt(m (1 + cv² − m) / n)`,
//! * `avg`: `z · cv · sqrt(m / ((1 − m) n))`.
//!
//! Each rises with `m`, so the target gives the greatest `m` that is allowed, and the least `K` with `c · m(K)` not above it is
//! the delay. `c` is the feedback: records of the last span that did miss, divided by those that were predicted to when their delay
//! was chosen (both plus one), between 1/4 and 4.
//!
//! # Departures
//!
//! The paper's error model samples values and its controller has proportional and derivative parts; here the model is the
//! formulas above and the controller one ratio. The paper's buffer sorts tuples and delays them; here the delay is the
//! watermark's. The error is that of the declared aggregate over the partition's records, not of each group: `groups` says
//! among how many groups they are spread evenly. Aggregates whose error does not follow from a share (`min`, `max`) are refused.

use super::lags::SlidingLags;
use super::{DelayBounds, STEPS};
use std::collections::VecDeque;

/// The confidence if none is given.
pub const CONFIDENCE: f64 = 0.95;

/// Aggregates whose error is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// `count(*)`.
    Count,
    /// `sum(column)`.
    Sum,
    /// `avg(column)`.
    Avg,
}

impl Measure {
    /// All, by their names.
    pub const NAMED: [(&'static str, Measure); 3] =
        [("count", Measure::Count), ("sum", Measure::Sum), ("avg", Measure::Avg)];

    pub(super) fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, measure)| *measure == self).map_or("count", |(name, _)| name)
    }
}

/// Settings.
#[derive(Clone, Debug, PartialEq)]
pub struct QualityPlan {
    /// The target: relative error of first results, between 0 and 1.
    pub error: f64,
    /// The aggregate.
    pub measure: Measure,
    /// Its column; `None` for `count(*)`.
    pub column: Option<String>,
    /// Length of the windows, µs.
    pub window_us: i64,
    /// Groups that a partition's records are spread among, at least 1.
    pub groups: u64,
    /// The share of results that the prediction is to hold for, from 0.5, below 1.
    pub confidence: f64,
    /// Event time that is looked back on, µs.
    pub span_us: i64,
    /// Records that the span must hold.
    pub records_min: u64,
    /// Floor and cap.
    pub bounds: DelayBounds,
}

/// What a step has shown.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    records: u64,
    /// Records that missed the first result of their window.
    missed: u64,
    /// As many were predicted to.
    predicted: f64,
    values: f64,
    sum: f64,
    squares: f64,
}

/// The model of one partition.
#[derive(Clone, Debug)]
pub struct Quality {
    plan: QualityPlan,
    /// One-sided quantile of the normal distribution.
    z: f64,
    lags: SlidingLags,
    shown: VecDeque<Shown>,
    current: Shown,
    /// The watermark so far, µs.
    reached_us: i64,
    /// `c · m` of the delay in force.
    expected: Option<f64>,
    correction: f64,
}

impl Quality {
    /// With nothing seen.
    pub fn new(plan: &QualityPlan) -> Quality {
        Quality {
            plan: plan.clone(),
            z: normal_quantile(plan.confidence),
            lags: SlidingLags::default(),
            shown: VecDeque::new(),
            current: Shown::default(),
            reached_us: i64::MIN,
            expected: None,
            correction: 1.0,
        }
    }

    /// Takes a record and the watermark that it brought.
    #[inline]
    pub fn add(&mut self, event_time_us: i64, lag_us: u64, watermark_us: i64, value: Option<f64>) {
        self.lags.add(lag_us);
        self.reached_us = self.reached_us.max(watermark_us);
        // The end of its window lies after it, so a record that the watermark has not reached is on time.
        if self.reached_us > event_time_us {
            let window_us = self.plan.window_us;
            let end_us = event_time_us.div_euclid(window_us).saturating_add(1).saturating_mul(window_us);
            self.current.missed += u64::from(self.reached_us >= end_us);
        }
        self.current.records += 1;
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.current.values += 1.0;
            self.current.sum += value;
            self.current.squares += value * value;
        }
    }

    /// Moves on by so many steps of `step_us`, of which all but the first are empty. Gives the delay for the next step, if
    /// enough was seen.
    pub fn step(&mut self, passed: u64, step_us: i64) -> Option<i64> {
        self.lags.step(passed);
        let mut ended = std::mem::take(&mut self.current);
        // Before the first prediction the measured share says nothing of the model.
        match self.expected {
            Some(expected) => ended.predicted = expected * ended.records as f64,
            None => ended.predicted = ended.missed as f64,
        }
        self.shown.push_back(ended);
        for _ in 1..passed.min(STEPS as u64 + 1) {
            self.shown.push_back(Shown::default());
        }
        while self.shown.len() > STEPS as usize {
            self.shown.pop_front();
        }
        (self.lags.records() >= self.plan.records_min).then(|| self.choose(step_us))
    }

    fn choose(&mut self, step_us: i64) -> i64 {
        let all = self.shown.iter().fold(Shown::default(), |sum, step| Shown {
            records: sum.records + step.records,
            missed: sum.missed + step.missed,
            predicted: sum.predicted + step.predicted,
            values: sum.values + step.values,
            sum: sum.sum + step.sum,
            squares: sum.squares + step.squares,
        });
        self.correction = ((all.missed as f64 + 1.0) / (all.predicted + 1.0)).clamp(0.25, 4.0);
        let span_us = self.lags.steps().saturating_mul(step_us);
        let per_window = all.records as f64 * (self.plan.window_us as f64 / span_us as f64) / self.plan.groups as f64;
        let allowed = self.allowed(per_window.max(1.0), variation(&all)) / self.correction;
        self.least_delay(allowed)
    }

    /// The delay is set: its share is what is predicted from now on.
    pub fn in_force(&mut self, delay_us: i64) {
        if self.lags.records() >= self.plan.records_min {
            self.expected = Some((self.missing(delay_us) * self.correction).min(1.0));
        }
    }

    /// The share of records that miss under a delay: `m(K)`.
    fn missing(&self, delay_us: i64) -> f64 {
        let window = self.plan.window_us as f64;
        let delay_us = delay_us.max(0).unsigned_abs();
        let mut missing = 0.0;
        for (lag_us, records) in self.lags.buckets() {
            let beyond = lag_us.saturating_sub(delay_us) as f64;
            missing += records as f64 * (beyond / window).min(1.0);
        }
        missing / self.lags.records().max(1) as f64
    }

    /// The predicted error if the share `m` misses.
    fn error(&self, m: f64, per_window: f64, variation: f64) -> f64 {
        match self.plan.measure {
            Measure::Count => m + self.z * (m * (1.0 - m) / per_window).sqrt(),
            Measure::Sum => m + self.z * (m * (1.0 + variation * variation - m) / per_window).sqrt(),
            Measure::Avg => self.z * variation * (m / ((1.0 - m) * per_window)).sqrt(),
        }
    }

    /// The greatest share that keeps the error at the target.
    fn allowed(&self, per_window: f64, variation: f64) -> f64 {
        let (mut low, mut high) = (0.0, 0.99);
        for _ in 0..50 {
            let middle = (low + high) / 2.0;
            // Not "greater": a variation that is not a number allows nothing.
            if self.error(middle, per_window, variation) <= self.plan.error {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The least delay under which at most the share `allowed` misses, to 1/128 of itself.
    fn least_delay(&self, allowed: f64) -> i64 {
        if self.missing(0) <= allowed {
            return 0;
        }
        let greatest_us =
            self.lags.buckets().last().map_or(0, |(upto_us, _)| i64::try_from(upto_us).unwrap_or(i64::MAX));
        let (mut low, mut high) = (0, greatest_us);
        while high - low > (high / 128).max(1) {
            let middle = low + (high - low) / 2;
            if self.missing(middle) <= allowed {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }
}

/// Standard deviation by the size of the mean; 0 without values, infinite for a mean of 0.
fn variation(all: &Shown) -> f64 {
    if all.values == 0.0 {
        return 0.0;
    }
    let mean = all.sum / all.values;
    let variance = (all.squares / all.values - mean * mean).max(0.0);
    if variance == 0.0 { 0.0 } else { variance.sqrt() / mean.abs() }
}

/// The `p`-quantile of the standard normal distribution for `0.5 ≤ p < 1`, by bisection.
fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if 1.0 - 0.5 * libm::erfc(middle / std::f64::consts::SQRT_2) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(measure: Measure) -> QualityPlan {
        QualityPlan {
            error: 0.01,
            measure,
            column: None,
            window_us: 60_000_000,
            groups: 1,
            confidence: 0.95,
            span_us: 160_000_000,
            records_min: 100,
            bounds: DelayBounds { floor_us: 0, cap_us: i64::MAX },
        }
    }

    #[test]
    fn quantiles_of_the_normal_distribution() {
        for (p, z) in [(0.5, 0.0), (0.95, 1.644_853_6), (0.99, 2.326_347_9), (0.9999, 3.719_016_5)] {
            assert!((normal_quantile(p) - z).abs() < 1e-6, "{p}");
        }
    }

    /// The share that misses, against counting records at every place of a window.
    #[test]
    fn the_share_that_misses_is_that_of_all_places() {
        let mut quality = Quality::new(&QualityPlan { window_us: 100, ..plan(Measure::Count) });
        let lags = [0, 3, 20, 50, 90, 120, 127, 5, 5];
        lags.iter().for_each(|lag| quality.lags.add(*lag));
        quality.lags.step(1);
        for delay in [0, 10, 60, 130] {
            let missed = |lag: &u64| (1..=100).filter(|left| *lag as i64 - delay >= *left).count();
            let expected = lags.iter().map(missed).sum::<usize>() as f64 / (100.0 * lags.len() as f64);
            assert!((quality.missing(delay) - expected).abs() < 1e-12, "{delay}: {}", quality.missing(delay));
        }
    }

    #[test]
    fn the_delay_is_the_least_that_the_target_allows() {
        let mut quality = Quality::new(&plan(Measure::Count));
        // One in ten comes 30 s late; the others in order.
        (0..10_000u64).for_each(|i| quality.add(0, if i % 10 == 0 { 30_000_000 } else { 0 }, i64::MIN, None));
        let delay_us = quality.step(1, 10_000_000).expect("enough");
        let m = quality.missing(delay_us);
        let error = quality.error(m, 60_000.0, 0.0);
        assert!(error <= 0.01 && quality.error(quality.missing(delay_us - delay_us / 64), 60_000.0, 0.0) > 0.01);
        // m alone would be at 1 % for 24 s.
        assert!((24_000_000..25_000_000).contains(&delay_us), "{delay_us}");
    }

    #[test]
    fn sums_of_varied_values_and_small_groups_ask_for_more() {
        let delay = |measure, groups, values: [f64; 2]| {
            let mut quality = Quality::new(&QualityPlan { groups, ..plan(measure) });
            for i in 0..10_000u64 {
                let value = values[usize::from(i % 2 == 0)];
                quality.add(0, if i % 10 == 0 { 30_000_000 } else { 0 }, i64::MIN, Some(value));
            }
            quality.step(1, 10_000_000).expect("enough")
        };
        let (even, varied) = ([5.0, 5.0], [1.0, 9.0]);
        assert_eq!(delay(Measure::Sum, 1, even), delay(Measure::Count, 1, even));
        assert!(delay(Measure::Sum, 100, varied) > delay(Measure::Sum, 100, even));
        assert!(delay(Measure::Count, 100, even) > delay(Measure::Count, 1, even));
        assert!(delay(Measure::Avg, 100, varied) > delay(Measure::Avg, 1, varied));
        assert_eq!(delay(Measure::Avg, 1, even), 0, "equal values have the same mean, whatever is missing");
        // A mean of zero: no missing record is allowed.
        assert!(delay(Measure::Sum, 1, [1.0, -1.0]) >= 30_000_000 - 30_000_000 / 64);
    }
}
