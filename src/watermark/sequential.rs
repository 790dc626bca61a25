//! Stamps record by record: the contract written down as code.
//!
//! [`SequentialStamper`] is what every faster way to stamp is checked against. It is told the events of a source in
//! reading order (records, rejects, ends of partitions, the arrival clock) and answers each record's stamp, the
//! watermark at the end of the last finished tick and the exact frontier. Nothing in it is clever: the formulas of the
//! contract (watermarks, stamps and ticks) stand here as loops over all partitions.
//!
//! Invariant: stamps never decrease along a partition, and no stamp is below a frontier answered before it.
//! Rounding to the granularity happens last, on the finished value; being monotone it could as well happen first.
//! Cost: O(partitions²) a record at worst, O(partitions) space.

use super::{AFTER_ALL, BEFORE_ALL, WatermarkSettings, round_down};
use crate::plan::LatenessScope;

/// A partition as the stamper knows it.
#[derive(Clone, Debug)]
struct Partition {
    name: String,
    /// Known from the start (a file, or listed in `partitions`), not discovered by its first record.
    declared: bool,
    /// `W_p`, now.
    now_us: i64,
    /// `W_p` at the end of the last finished tick.
    before_us: i64,
    /// Active at the end of the last finished tick.
    active: bool,
    /// The arrival clock at its last record that was no reject.
    last_arrival_us: Option<i64>,
    /// Whether it yielded a record in the current tick.
    yielded: bool,
    /// Whether its end has been read; it takes effect at the end of the tick.
    ending: bool,
    /// Whether its end has taken effect.
    ended: bool,
}

/// Gives stamps one record at a time. Times in microseconds.
#[derive(Clone, Debug)]
pub struct SequentialStamper {
    settings: WatermarkSettings,
    discovers: bool,
    partitions: Vec<Partition>,
    /// The arrival clock.
    clock_us: Option<i64>,
    /// The arrival clock at the source's first record that was no reject.
    first_arrival_us: Option<i64>,
    /// The current tick `k`; `None` until an arrival time is known.
    tick: Option<i128>,
    /// `W(k−1)`.
    finished_us: i64,
    /// `F`: the greatest value so far of the minimum over the partitions known (partition scope).
    floor_us: i64,
    input_ended: bool,
}

impl SequentialStamper {
    /// For a source with these partitions from the start, in partition order (files, or the declared values of the
    /// partition column). `discovers`: a column names the partitions, so that others may yet appear.
    pub fn new(settings: WatermarkSettings, names: &[String], discovers: bool) -> Self {
        let mut stamper = SequentialStamper {
            settings,
            discovers,
            partitions: Vec::new(),
            clock_us: None,
            first_arrival_us: None,
            tick: None,
            finished_us: BEFORE_ALL,
            floor_us: BEFORE_ALL,
            input_ended: false,
        };
        for name in names {
            stamper.add(name, true);
        }
        stamper
    }

    fn add(&mut self, name: &str, declared: bool) -> usize {
        self.partitions.push(Partition {
            name: name.to_owned(),
            declared,
            now_us: BEFORE_ALL,
            before_us: BEFORE_ALL,
            // Before the first tick nobody is idle; one that is discovered counts from the next tick on.
            active: declared,
            last_arrival_us: None,
            yielded: false,
            ending: false,
            ended: false,
        });
        self.partitions.len() - 1
    }

    /// The order of a partition (its index), if it is known.
    pub fn partition(&self, name: &str) -> Option<usize> {
        self.partitions.iter().position(|p| p.name == name)
    }

    /// Names of the partitions known, in partition order: those from the start, then in order of discovery.
    pub fn partitions(&self) -> Vec<String> {
        self.partitions.iter().map(|p| p.name.clone()).collect()
    }

    /// `W_p` of each partition known, rounded.
    pub fn partition_watermarks(&self) -> Vec<i64> {
        self.partitions.iter().map(|p| self.round(p.now_us)).collect()
    }

    /// Reads a record that is no reject: its partition, the value of the watermark expression on it (−∞ if below 64
    /// bits) and its arrival time, if there are arrival times. Answers its stamp.
    #[expect(clippy::indexing_slicing, reason = "the index was found or made here")]
    pub fn record(&mut self, partition: &str, watermark_us: i64, arrived_us: Option<i64>) -> i64 {
        self.move_clock(arrived_us);
        self.first_arrival_us = self.first_arrival_us.or(self.clock_us);
        let index = self.partition(partition).unwrap_or_else(|| self.add(partition, false));
        let clock_us = self.clock_us;
        let p = &mut self.partitions[index];
        p.now_us = p.now_us.max(watermark_us);
        p.yielded = true;
        p.last_arrival_us = clock_us;
        let stamp_us = match self.settings.scope {
            LatenessScope::Source => self.next_stamp(index),
            LatenessScope::Partition => {
                let floor_us = self.partitions.iter().map(|p| p.now_us).min().unwrap_or(BEFORE_ALL);
                self.floor_us = self.floor_us.max(floor_us);
                let p = &self.partitions[index];
                if p.declared { p.now_us } else { p.now_us.max(self.floor_us) }
            }
        };
        self.round(stamp_us)
    }

    /// Reads a reject: it advances nothing but the arrival clock, if its arrival time is known.
    pub fn reject(&mut self, arrived_us: Option<i64>) {
        self.move_clock(arrived_us);
    }

    /// Learns that arrival time has reached `clock_us` with no record.
    pub fn advance_clock(&mut self, clock_us: i64) {
        self.move_clock(Some(clock_us));
    }

    /// A partition has no further record. Takes effect at the end of the tick (of the first tick if nothing was read).
    pub fn end_partition(&mut self, name: &str) {
        for p in &mut self.partitions {
            p.ending |= p.name == name;
        }
    }

    /// The whole input has ended: the watermark is +∞.
    pub fn end_input(&mut self) {
        self.input_ended = true;
    }

    fn all_ended(&self) -> bool {
        self.input_ended || (!self.discovers && self.partitions.iter().all(|p| p.ending))
    }

    /// The source's watermark at the end of the last finished tick, `W(k−1)`; in partition scope the frontier.
    /// +∞ when the input has ended.
    pub fn watermark(&self) -> i64 {
        match self.settings.scope {
            _ if self.all_ended() => AFTER_ALL,
            LatenessScope::Source => self.round(self.finished_us),
            LatenessScope::Partition => self.frontier(),
        }
    }

    /// The exact frontier: the smallest stamp that a record still to be read could get; +∞ when the input has ended.
    pub fn frontier(&self) -> i64 {
        if self.all_ended() {
            return AFTER_ALL;
        }
        let frontier_us = match self.settings.scope {
            LatenessScope::Source => {
                let may_resume = self.partitions.iter().any(|p| !p.ended && !p.active);
                if self.discovers || may_resume {
                    self.finished_us
                } else {
                    let next = (0..self.partitions.len()).filter(|&p| !self.has_ended(p)).map(|p| self.next_stamp(p));
                    next.min().unwrap_or(self.finished_us)
                }
            }
            // A new partition may appear with any event time, and then gets `F`. Those known stand at `F` or above.
            LatenessScope::Partition if self.discovers => self.floor_us,
            LatenessScope::Partition => {
                self.partitions.iter().filter(|p| !p.ending).map(|p| p.now_us).min().unwrap_or(AFTER_ALL)
            }
        };
        self.round(frontier_us)
    }

    fn has_ended(&self, index: usize) -> bool {
        self.partitions.get(index).is_none_or(|p| p.ended)
    }

    /// The stamp, in source scope, of a record of partition `index` that leaves its `W_p` where it stands now:
    /// `max(W(k−1), min(W_p, min of W_q(k−1) over the other active q))`, or `W(k−1)` if it was not active itself.
    fn next_stamp(&self, index: usize) -> i64 {
        let mut least = AFTER_ALL;
        for (q, partition) in self.partitions.iter().enumerate() {
            if q == index {
                least = least.min(if partition.active { partition.now_us } else { BEFORE_ALL });
            } else if partition.active {
                least = least.min(partition.before_us);
            }
        }
        self.finished_us.max(least)
    }

    fn round(&self, watermark_us: i64) -> i64 {
        round_down(watermark_us, self.settings.granularity_us)
    }

    /// Moves the arrival clock, and ends the ticks that it leaves behind.
    fn move_clock(&mut self, arrived_us: Option<i64>) {
        let Some(arrived_us) = arrived_us else { return };
        let clock_us = self.clock_us.map_or(arrived_us, |clock| clock.max(arrived_us));
        self.clock_us = Some(clock_us);
        let next = i128::from(clock_us).div_euclid(i128::from(self.settings.tick_us.max(1)));
        if let Some(mut tick) = self.tick {
            // The tick that ends, the empty one after it (where what resumed or was discovered begins to count), and
            // of the other empty ones those in which a partition turns idle: the rest change nothing.
            let mut following = Some(tick + 1);
            while tick < next {
                self.finish_tick(tick);
                let turns_idle = self.partitions.iter().filter_map(|p| self.turns_idle_in(p)).min();
                let candidates = [following.take(), turns_idle.map(|t| t.max(tick + 1))];
                tick = candidates.into_iter().flatten().min().unwrap_or(next);
            }
        }
        self.tick = Some(next);
    }

    /// The time from which the age of a partition counts: its last arrival, or the source's first.
    fn quiet_since(&self, p: &Partition) -> Option<i64> {
        p.last_arrival_us.or(self.first_arrival_us)
    }

    /// Whether a partition is idle at the end of tick `tick`.
    fn is_idle(&self, p: &Partition, tick: i128) -> bool {
        let (Some(timeout_us), Some(since_us)) = (self.settings.idle_timeout_us, self.quiet_since(p)) else {
            return false;
        };
        let end_of_tick = (tick + 1) * i128::from(self.settings.tick_us.max(1));
        !p.yielded && end_of_tick - i128::from(since_us) >= i128::from(timeout_us)
    }

    /// The first tick at whose end a partition that is active now is idle if nothing more is read.
    fn turns_idle_in(&self, p: &Partition) -> Option<i128> {
        if p.ended || !p.active {
            return None;
        }
        let due_us = i128::from(self.quiet_since(p)?) + i128::from(self.settings.idle_timeout_us?);
        let tick_us = i128::from(self.settings.tick_us.max(1));
        Some((due_us + tick_us - 1).div_euclid(tick_us) - 1)
    }

    /// The end of tick `tick`: ends take effect, then idleness is judged, then `W(k)` follows.
    fn finish_tick(&mut self, tick: i128) {
        for p in &mut self.partitions {
            p.ended |= p.ending;
        }
        let idle: Vec<bool> = self.partitions.iter().map(|p| self.is_idle(p, tick)).collect();
        let open: Vec<(&Partition, bool)> =
            self.partitions.iter().zip(idle.iter().copied()).filter(|(p, _)| !p.ended).collect();
        let counted = open.iter().filter(|(p, idle)| p.active && !idle).map(|(p, _)| p.now_us).min();
        let advanced = if counted.is_some() {
            counted
        } else if open.iter().all(|(_, idle)| *idle) {
            open.iter().map(|(p, _)| p.now_us).max()
        } else {
            None
        };
        self.finished_us = self.finished_us.max(advanced.unwrap_or(BEFORE_ALL));
        for (p, idle) in self.partitions.iter_mut().zip(idle) {
            p.before_us = p.now_us;
            p.active = !p.ended && !idle;
            p.yielded = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(scope: LatenessScope, idle: Option<i64>) -> WatermarkSettings {
        WatermarkSettings { scope, idle_timeout_us: idle, granularity_us: 1, tick_us: 10 }
    }
    fn files(names: &[&str], idle: Option<i64>) -> SequentialStamper {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        SequentialStamper::new(settings(LatenessScope::Source, idle), &names, false)
    }

    #[test]
    fn one_partition_is_exact_to_the_record_in_both_scopes() {
        for scope in [LatenessScope::Source, LatenessScope::Partition] {
            let mut s = SequentialStamper::new(settings(scope, None), &["a".into()], false);
            assert_eq!(s.frontier(), BEFORE_ALL);
            assert_eq!(s.record("a", 5, Some(0)), 5);
            assert_eq!(s.record("a", 3, Some(1)), 5);
            assert_eq!(s.frontier(), 5);
            assert_eq!(s.record("a", 9, Some(100)), 9);
            assert_eq!(s.record("a", 8, Some(50)), 9, "an arrival time that goes back stays in the tick reached");
            s.end_input();
            assert_eq!((s.frontier(), s.watermark()), (AFTER_ALL, AFTER_ALL));
        }
    }

    #[test]
    fn the_others_count_up_to_the_end_of_the_previous_tick() {
        let mut s = files(&["a", "b"], None);
        assert_eq!(s.record("a", 100, Some(0)), BEFORE_ALL);
        assert_eq!(s.record("b", 50, Some(5)), BEFORE_ALL);
        assert_eq!(s.frontier(), BEFORE_ALL, "b still counts with −∞ for a, and a for b");
        assert_eq!(s.record("a", 70, Some(10)), 50);
        assert_eq!(s.watermark(), 50);
        assert_eq!(s.record("b", 80, Some(11)), 80, "a stood at 100 at the end of the previous tick");
        assert_eq!(s.frontier(), 50, "a next record of a would be stamped by b's 50");
    }

    #[test]
    fn a_quiet_partition_holds_the_watermark_until_it_is_idle() {
        let mut s = files(&["a", "b"], None);
        s.record("a", 10, Some(0));
        s.record("b", 5, Some(0));
        s.record("a", 100, Some(1000));
        s.record("a", 100, Some(100_000));
        assert_eq!(s.watermark(), 5);
        let mut s = files(&["a", "b"], Some(30));
        s.record("a", 10, Some(0));
        s.record("b", 5, Some(0));
        s.record("a", 100, Some(29));
        assert_eq!(s.watermark(), 5);
        assert_eq!(s.record("a", 101, Some(30)), 101, "b is idle at the end of tick 2, 30 after its last arrival");
        assert_eq!(s.watermark(), 100);
        assert_eq!(s.frontier(), 100, "b may resume and would get W(k−1)");
        assert_eq!(s.record("b", 7, Some(31)), 100);
        s.advance_clock(40);
        assert_eq!(s.watermark(), 101, "b resumed and does not count in this tick");
        assert_eq!(s.record("a", 200, Some(41)), 101);
    }

    #[test]
    fn when_all_are_idle_the_greatest_counts() {
        let mut s = files(&["a", "b"], Some(20));
        s.record("a", 10, Some(0));
        s.record("b", 50, Some(0));
        s.advance_clock(1_000_000);
        assert_eq!(s.watermark(), 50);
    }

    #[test]
    fn a_resumed_partition_counts_from_an_empty_tick_on() {
        let mut s = files(&["a", "b"], Some(20));
        s.record("a", 10, Some(0));
        s.record("b", 10, Some(0));
        s.advance_clock(100);
        assert_eq!(s.watermark(), 10);
        assert_eq!(s.record("b", 70, Some(100)), 10);
        s.advance_clock(110);
        assert_eq!(s.watermark(), 10, "b resumed in tick 10 and does not count in W(10)");
        s.advance_clock(120);
        assert_eq!(s.watermark(), 70, "tick 11 was empty, but b counts in W(11)");
    }

    #[test]
    fn ends_take_effect_at_the_end_of_the_tick() {
        let mut s = files(&["a", "b", "c"], None);
        s.end_partition("c");
        s.record("b", 5, Some(0));
        s.end_partition("b");
        assert_eq!(s.record("a", 10, Some(1)), BEFORE_ALL);
        assert_eq!(s.record("a", 11, Some(10)), 11);
        assert_eq!(s.frontier(), 11);
        s.end_partition("a");
        assert_eq!(s.frontier(), AFTER_ALL);
    }

    #[test]
    fn rejects_move_the_clock_and_nothing_else() {
        let mut s = files(&["a", "b"], Some(20));
        s.record("a", 10, Some(1));
        s.record("b", 20, Some(1));
        s.reject(Some(25));
        assert_eq!(s.watermark(), 10);
        s.reject(Some(30));
        assert_eq!(s.watermark(), 20, "both are idle at the end of tick 2: a reject is no arrival of theirs");
    }

    #[test]
    fn discovered_partitions_in_both_scopes() {
        let mut s = SequentialStamper::new(settings(LatenessScope::Source, None), &[], true);
        assert_eq!(s.record("x", 5, Some(0)), BEFORE_ALL, "discovered in this tick");
        assert_eq!(s.record("x", 6, Some(10)), 6);
        assert_eq!(s.watermark(), BEFORE_ALL, "x did not count in W(0)");
        assert_eq!(s.record("y", 1, Some(20)), 6);
        assert_eq!(s.frontier(), 6);

        let mut s = SequentialStamper::new(settings(LatenessScope::Partition, None), &["d".into()], true);
        assert_eq!(s.record("x", 100, None), 100);
        assert_eq!(s.frontier(), BEFORE_ALL, "d is known and has said nothing");
        assert_eq!(s.record("d", 40, None), 40);
        assert_eq!(s.frontier(), 40);
        assert_eq!(s.record("y", 10, None), 40, "F is 40");
        assert_eq!(s.record("d", 30, None), 40);
        assert_eq!(s.record("y", 60, None), 60);
        assert_eq!(s.frontier(), 40, "F: d stands at 40");
        assert_eq!(s.record("d", 200, None), 200);
        assert_eq!(s.frontier(), 60);
        s.end_partition("d");
        assert_eq!(s.frontier(), 60, "others may yet be discovered until the input ends");
    }

    #[test]
    fn granularity_rounds_down_also_below_zero() {
        let mut s = SequentialStamper::new(
            WatermarkSettings { granularity_us: 10, ..settings(LatenessScope::Partition, None) },
            &["a".into()],
            false,
        );
        assert_eq!(s.record("a", -1, None), -10);
        assert_eq!(s.record("a", 19, None), 10);
        assert_eq!(s.record("a", i64::MAX - 1, None), (i64::MAX - 1) / 10 * 10);
        let mut s = files(&["a"], Some(i64::MAX));
        assert_eq!(s.record("a", BEFORE_ALL, Some(i64::MIN)), BEFORE_ALL);
        assert_eq!(s.record("a", 1, Some(-100)), 1);
        assert_eq!(s.record("a", 2, Some(i64::MAX)), 1, "ages do not overflow: it was idle, and resumes");
    }
}
