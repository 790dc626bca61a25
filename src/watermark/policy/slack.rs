//! K-slack: the delay is the greatest lag that was seen, decaying.
//!
//! Sources: Babu, Srivastava, Widom, "Exploiting k-constraints to reduce memory overhead in continuous queries over data streams",
//! TODS 2004 (a stream whose records are at most k out of place); Mutschler, Philippsen, "Distributed low-latency
//! out-of-order event processing for high data rate sensor streams", IPDPS 2013 (K is measured at run time and grows with the
//! greatest delay seen).
//!
//! Departures: K is a length of event time and not a number of records; it shrinks again: at the end of every span it becomes
//! `max(greatest lag of that span, decay · K)`. With `decay = 1` it never shrinks, with 0 it is the greatest lag of the
//! last span.

use super::DelayBounds;

/// Settings.
#[derive(Clone, Debug, PartialEq)]
pub struct SlackPlan {
    /// What is left of K after a span without a lag as great, 0 to 1.
    pub decay: f64,
    /// Length of a span of event time, µs.
    pub span_us: i64,
    /// Floor and cap.
    pub bounds: DelayBounds,
}

/// K of one partition.
#[derive(Clone, Debug)]
pub struct Slack {
    decay: f64,
    k_us: i64,
    /// The greatest lag of the current span.
    greatest_us: i64,
}

impl Slack {
    /// K begins as the declared delay.
    pub fn new(decay: f64, k_us: i64) -> Slack {
        Slack { decay, k_us, greatest_us: 0 }
    }

    /// Takes a lag; whether K has grown. No lag counts for more than `cap_us`.
    #[inline]
    pub fn add(&mut self, lag_us: u64, cap_us: i64) -> bool {
        let lag_us = i64::try_from(lag_us).unwrap_or(i64::MAX).min(cap_us);
        self.greatest_us = self.greatest_us.max(lag_us);
        let grows = lag_us > self.k_us;
        self.k_us = self.k_us.max(lag_us);
        grows
    }

    /// Moves on by so many spans, of which all but the first are empty.
    pub fn step(&mut self, passed: u64) {
        for _ in 0..passed {
            let decayed = (self.k_us as f64 * self.decay) as i64;
            let k_us = decayed.max(std::mem::take(&mut self.greatest_us));
            if k_us == self.k_us && self.greatest_us == 0 {
                break;
            }
            self.k_us = k_us;
        }
    }

    /// K, µs.
    pub fn delay_us(&self) -> i64 {
        self.k_us
    }
}
