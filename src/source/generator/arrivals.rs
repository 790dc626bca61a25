//! When which record arrives, whatever it holds.

use super::delays::delay_us;
use super::seeded::{Hashes, Purpose, below, unit};
use super::{BLOCK_ROWS, CATCH_UP};
use crate::plan::{GeneratorPlan, Workload};

/// A record on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number in event-time order, from 0.
    pub i: u64,
    /// Arrival time, in whole milliseconds given as microseconds; never before the event time.
    pub arrival_time_us: i64,
    /// Partition, from 0 to `partitions − 1`.
    pub partition: u32,
}

/// When and where records arrive, as a function of `i`: the settings, brought into their bounds.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    pub(super) hashes: Hashes,
    pub(super) rows: u64,
    pub(super) us_per_record: f64,
    partitions: u64,
    delay_mean_us: f64,
    late_share: f64,
    late_max_us: f64,
    delay_quantiles: Vec<(i64, f64)>,
    keys: u64,
    /// 0 for workloads without customers.
    delayed_keys: f64,
    key_delay_us: i64,
    silent_every_us: i64,
    silent_for_us: i64,
    start_us: i64,
}

impl Arrivals {
    /// Settings out of bounds are brought to the nearest sensible ones: [`super::check_plan`] has refused them before.
    pub(super) fn new(plan: &GeneratorPlan) -> Arrivals {
        let partitions = u64::from(plan.partitions.max(1));
        let silent_every_us = plan.silent_every_us.max(0);
        let turn_us = silent_every_us.saturating_mul(partitions as i64);
        Arrivals {
            hashes: Hashes::new(plan.seed),
            rows: plan.rows,
            us_per_record: if plan.rate > 0.0 { 1e6 / plan.rate } else { 100.0 },
            partitions,
            delay_mean_us: plan.delay_mean_us.max(0) as f64,
            late_share: plan.late_share,
            late_max_us: plan.late_max_us.max(0) as f64,
            delay_quantiles: plan.delay_quantiles.clone(),
            keys: plan.keys.max(1),
            delayed_keys: if plan.workload == Workload::Orders { plan.delayed_keys } else { 0.0 },
            key_delay_us: plan.key_delay_us.max(0),
            silent_every_us,
            silent_for_us: plan.silent_for_us.clamp(0, turn_us - turn_us / CATCH_UP),
            start_us: plan.start_us,
        }
    }

    /// Event time of record `i` in microseconds, not floored; never falls as `i` grows.
    fn event_exact_us(&self, i: u64) -> i64 {
        self.start_us.saturating_add((i as f64 * self.us_per_record) as i64)
    }

    pub(super) fn event_us(&self, i: u64) -> i64 {
        floor_to_ms(self.event_exact_us(i))
    }

    pub(super) fn arrival_us(&self, i: u64, partition: u64) -> i64 {
        let u = unit(self.hashes.hash(Purpose::Delay, i));
        let delay_us = if !self.delay_quantiles.is_empty() {
            delay_us(&self.delay_quantiles, u)
        } else if self.late_share > 0.0 && unit(self.hashes.hash(Purpose::IsLate, i)) <= self.late_share {
            (1.0 - u) * self.late_max_us
        } else {
            -libm::log(u) * self.delay_mean_us
        };
        let arrival_us = self.event_exact_us(i).saturating_add(delay_us as i64).saturating_add(self.key_delay_us(i));
        floor_to_ms(self.after_silence(arrival_us, partition))
    }

    /// Customer of record `i`, for orders.
    pub(super) fn customer(&self, i: u64) -> u64 {
        below(self.hashes.hash(Purpose::Customer, i), self.keys)
    }

    /// How much later records of its customer are.
    fn key_delay_us(&self, i: u64) -> i64 {
        if self.delayed_keys <= 0.0 {
            return 0;
        }
        let delayed = unit(self.hashes.hash(Purpose::IsDelayedKey, self.customer(i))) <= self.delayed_keys;
        if delayed { self.key_delay_us } else { 0 }
    }

    /// The arrival time itself, or when it falls into a silent spell of the partition, a time after the spell.
    fn after_silence(&self, arrival_us: i64, partition: u64) -> i64 {
        if self.silent_every_us == 0 || self.silent_for_us == 0 {
            return arrival_us;
        }
        let first_us = self.start_us.saturating_add(self.silent_every_us.saturating_mul(partition as i64 + 1));
        let since_us = arrival_us.saturating_sub(first_us);
        if since_us < 0 {
            return arrival_us;
        }
        let into_us = since_us % self.silent_every_us.saturating_mul(self.partitions as i64);
        if into_us >= self.silent_for_us {
            return arrival_us;
        }
        arrival_us.saturating_add(self.silent_for_us - into_us + into_us / CATCH_UP)
    }

    /// Which partition record `i` belongs to.
    pub(super) fn partition_of(&self, i: u64) -> u64 {
        if self.partitions == 1 {
            return 0;
        }
        let turn = below(self.hashes.hash(Purpose::Partition, i / self.partitions), self.partitions);
        (i % self.partitions + turn) % self.partitions
    }

    /// The one record of run `run` that belongs to the partition.
    fn member(&self, run: u64, partition: u64) -> u64 {
        if self.partitions == 1 {
            return run;
        }
        let turn = below(self.hashes.hash(Purpose::Partition, run), self.partitions);
        run.saturating_mul(self.partitions).saturating_add((partition + self.partitions - turn) % self.partitions)
    }
}

pub(super) fn floor_to_ms(us: i64) -> i64 {
    us.saturating_sub(us.rem_euclid(1_000))
}

/// The records of one partition, or of all of them, by (arrival time, `i`).
#[derive(Clone, Debug)]
pub(super) struct ArrivalStream {
    pub(super) arrivals: Arrivals,
    pub(super) partition: Option<u64>,
    /// Next record (all partitions) or run (one partition) to generate.
    next: u64,
    /// Records or runs in all.
    end: u64,
    /// Generated, not final: (arrival, `i`).
    pending: Vec<(i64, u64)>,
    /// Final, in reverse order, so that the next is the last.
    ready: Vec<(i64, u64)>,
}

impl ArrivalStream {
    /// The records of partition `partition`, or of all partitions merged by arrival time.
    pub(super) fn new(plan: &GeneratorPlan, partition: Option<u32>) -> ArrivalStream {
        let arrivals = Arrivals::new(plan);
        let end = if partition.is_some() { arrivals.rows.div_ceil(arrivals.partitions) } else { arrivals.rows };
        ArrivalStream {
            partition: partition.map(u64::from),
            next: 0,
            end,
            pending: Vec::new(),
            ready: Vec::new(),
            arrivals,
        }
    }

    /// Generates further records until some are final or all are.
    fn fill(&mut self) {
        while self.ready.is_empty() && (self.next < self.end || !self.pending.is_empty()) {
            // At least as many as are pending, so that looking through those costs a constant a record.
            let batch = self.pending.len().max(BLOCK_ROWS) as u64;
            let stop = self.next.saturating_add(batch).min(self.end);
            for step in self.next..stop {
                let (i, partition) = match self.partition {
                    Some(partition) => (self.arrivals.member(step, partition), partition),
                    None => (step, self.arrivals.partition_of(step)),
                };
                if i < self.arrivals.rows {
                    self.pending.push((self.arrivals.arrival_us(i, partition), i));
                }
            }
            self.next = stop;
            if stop == self.end {
                std::mem::swap(&mut self.ready, &mut self.pending);
            } else {
                let least = if self.partition.is_some() { stop.saturating_mul(self.arrivals.partitions) } else { stop };
                let final_us = self.arrivals.event_us(least);
                let ready = &mut self.ready;
                self.pending.retain(|&(arrival_us, i)| {
                    let keep = arrival_us >= final_us;
                    if !keep {
                        ready.push((arrival_us, i));
                    }
                    keep
                });
            }
            self.ready.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// Appends up to `rows` records to `out`; returns whether more follow.
    pub(super) fn take_into(&mut self, rows: usize, out: &mut Vec<(i64, u64)>) -> bool {
        while out.len() < rows {
            self.fill();
            if self.ready.is_empty() {
                return false;
            }
            let from = self.ready.len().saturating_sub(rows - out.len());
            out.extend(self.ready.drain(from..).rev());
        }
        self.fill();
        !self.ready.is_empty()
    }
}

impl Iterator for ArrivalStream {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        if self.ready.is_empty() {
            self.fill();
        }
        let (arrival_time_us, i) = self.ready.pop()?;
        let partition = self.partition.unwrap_or_else(|| self.arrivals.partition_of(i)) as u32;
        Some(Arrival { i, arrival_time_us, partition })
    }
}
