//! The formulas of SEMANTICS §2 and §3 over a whole trace, with loops for every "over all": the slow twin.

use super::super::super::sequential::SequentialStamper;
use super::super::super::{AFTER_ALL, BEFORE_ALL, WatermarkSettings, round_down};
use crate::plan::LatenessScope;

/// A line of a trace: a record, or a reject (no watermark).
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Number of the partition's name (one lane with a partition column), else the lane.
    pub partition: usize,
    pub watermark_us: Option<i64>,
    pub arrived_us: Option<i64>,
}

/// A whole source.
#[derive(Clone, Debug)]
pub struct Trace {
    pub settings: WatermarkSettings,
    pub by_column: bool,
    /// With a partition column: names `0..declared` are listed.
    pub declared: usize,
    pub lanes: Vec<Vec<Item>>,
    /// Whether each lane ends; if one does not, reading stops after the last line.
    pub ends: Vec<bool>,
}

/// What the trace means.
#[derive(Debug, Default, PartialEq)]
pub struct Meaning {
    /// Per lane and accepted record, in order.
    pub stamps: Vec<Vec<i64>>,
    /// Watermark and frontier at the end, or where reading stops.
    pub watermark: i64,
    pub frontier: i64,
}

/// A line in reading order.
struct Read {
    lane: usize,
    item: Item,
    clock_us: Option<i64>,
    tick: i128,
}

/// Merges lanes by arrival time (ties: lane, then position); lines without one follow the line before them at once.
fn read_in_order(trace: &Trace) -> Vec<Read> {
    let mut next = vec![0; trace.lanes.len()];
    let (mut order, mut clock_us) = (Vec::new(), None);
    loop {
        let heads = trace.lanes.iter().enumerate().filter_map(|(l, items)| items.get(next[l]).map(|item| (l, *item)));
        let Some((lane, item)) = heads.min_by_key(|(l, item)| (item.arrived_us, *l)) else { return order };
        next[lane] += 1;
        clock_us = clock_us.max(item.arrived_us);
        let tick = i128::from(clock_us.unwrap_or(BEFORE_ALL)).div_euclid(i128::from(trace.settings.tick_us));
        order.push(Read { lane, item, clock_us, tick });
    }
}

impl Trace {
    /// Stamps, watermark and frontier by the formulas alone.
    pub fn meaning(&self) -> Meaning {
        let mut meaning = match self.settings.scope {
            LatenessScope::Source => SourceRun::new(self).meaning(),
            LatenessScope::Partition => self.partition_scope(),
        };
        if self.ends.iter().all(|&ends| ends) {
            (meaning.watermark, meaning.frontier) = (AFTER_ALL, AFTER_ALL);
        }
        let g = self.settings.granularity_us;
        meaning.stamps.iter_mut().flatten().for_each(|s| *s = round_down(*s, g));
        (meaning.watermark, meaning.frontier) = (round_down(meaning.watermark, g), round_down(meaning.frontier, g));
        meaning
    }

    /// The same, record by record, by the stamper that others are checked against.
    pub fn record_by_record(&self, name: impl Fn(usize) -> String) -> Meaning {
        let from_start = if self.by_column { self.declared } else { self.lanes.len() };
        let names: Vec<String> = (0..from_start).map(&name).collect();
        let mut stamper = SequentialStamper::new(self.settings.clone(), &names, self.by_column);
        let mut left: Vec<usize> = self.lanes.iter().map(Vec::len).collect();
        let end = |stamper: &mut SequentialStamper, lane: usize| match self.by_column {
            true => stamper.end_input(),
            false => stamper.end_partition(&name(lane)),
        };
        for lane in (0..left.len()).filter(|&lane| left[lane] == 0 && self.ends[lane]) {
            end(&mut stamper, lane);
        }
        let mut stamps = vec![Vec::new(); self.lanes.len()];
        for Read { lane, item, .. } in read_in_order(self) {
            match item.watermark_us {
                Some(w) => stamps[lane].push(stamper.record(&name(item.partition), w, item.arrived_us)),
                None => stamper.reject(item.arrived_us),
            }
            left[lane] -= 1;
            if left[lane] == 0 && self.ends[lane] {
                end(&mut stamper, lane);
            }
        }
        Meaning { stamps, watermark: stamper.watermark(), frontier: stamper.frontier() }
    }

    pub fn partitions(&self) -> usize {
        let named = self.lanes.iter().flatten().map(|i| i.partition + 1).max().unwrap_or(0);
        if self.by_column { named.max(self.declared) } else { self.lanes.len() }
    }

    fn known_from_start(&self, partition: usize) -> bool {
        !self.by_column || partition < self.declared
    }

    fn partition_scope(&self) -> Meaning {
        let mut meaning = Meaning { stamps: vec![Vec::new(); self.lanes.len()], ..Meaning::default() };
        let mut watermarks = vec![None; self.partitions()];
        for (partition, w) in watermarks.iter_mut().enumerate() {
            *w = self.known_from_start(partition).then_some(BEFORE_ALL);
        }
        let mut greatest = BEFORE_ALL;
        for (lane, items) in self.lanes.iter().enumerate() {
            for item in items {
                let Some(watermark) = item.watermark_us else { continue };
                let w = watermarks[item.partition].map_or(watermark, |w| w.max(watermark));
                watermarks[item.partition] = Some(w);
                greatest = greatest.max(watermarks.iter().flatten().copied().min().unwrap_or(BEFORE_ALL));
                meaning.stamps[lane].push(if self.known_from_start(item.partition) { w } else { w.max(greatest) });
            }
        }
        let open = |p: &usize| self.by_column || !self.ends[*p];
        let least = (0..watermarks.len()).filter(open).filter_map(|p| watermarks[p]).min();
        meaning.frontier = if self.by_column { greatest } else { least.unwrap_or(AFTER_ALL) };
        meaning.watermark = meaning.frontier;
        meaning
    }
}

/// Source scope: every "at the end of tick k" by looking at all lines.
struct SourceRun<'a> {
    trace: &'a Trace,
    lines: Vec<Read>,
    /// Ticks at whose ends something can differ from the tick before, ascending.
    ticks: Vec<i128>,
    /// The arrival clock at the first record that is no reject.
    first_us: Option<i64>,
}

impl<'a> SourceRun<'a> {
    fn new(trace: &'a Trace) -> Self {
        let lines = read_in_order(trace);
        let first_us = lines.iter().find(|l| l.item.watermark_us.is_some()).and_then(|l| l.clock_us);
        let known: Vec<i128> = lines.iter().filter(|l| l.clock_us.is_some()).map(|l| l.tick).collect();
        let (Some(&first), Some(&last)) = (known.first(), known.last()) else {
            return SourceRun { trace, lines, ticks: Vec::new(), first_us };
        };
        let mut ticks: Vec<i128> = if last - first <= 200 {
            (first..=last).collect()
        } else {
            // Far apart: wherever a line is read or a partition may turn idle, and two ticks around each.
            let timeout = trace.settings.idle_timeout_us.unwrap_or(0);
            let clocks = lines.iter().filter_map(|l| l.clock_us);
            let turns = clocks.map(|c| (i128::from(c) + i128::from(timeout)).div_euclid(trace.settings.tick_us.into()));
            let near = known.iter().copied().chain(turns).flat_map(|t| t - 2..=t + 2);
            near.filter(|t| (first..=last).contains(t)).collect()
        };
        ticks.sort_unstable();
        ticks.dedup();
        SourceRun { trace, lines, ticks, first_us }
    }

    fn records(&self, partition: usize) -> impl Iterator<Item = &Read> {
        self.lines.iter().filter(move |l| l.item.partition == partition && l.item.watermark_us.is_some())
    }

    fn watermark_of(&self, partition: usize, tick: i128) -> i64 {
        let records = self.records(partition).filter(|l| l.tick <= tick);
        records.filter_map(|l| l.item.watermark_us).max().unwrap_or(BEFORE_ALL)
    }

    fn is_known(&self, partition: usize, tick: i128) -> bool {
        self.trace.known_from_start(partition) || self.records(partition).any(|l| l.tick <= tick)
    }

    fn has_ended(&self, partition: usize, tick: i128) -> bool {
        let lane = if self.trace.by_column { 0 } else { partition };
        let ends_in = self.lines.iter().rev().find(|l| l.lane == lane && l.clock_us.is_some() && self.moved(l));
        self.trace.ends[lane] && ends_in.map(|l| l.tick).or(self.ticks.first().copied()).is_some_and(|end| end <= tick)
    }

    /// Whether the line's lane has an arrival time by then: without one it is empty as far as the clock goes.
    fn moved(&self, line: &Read) -> bool {
        self.trace.lanes[line.lane].iter().any(|item| item.arrived_us.is_some())
    }

    fn is_idle(&self, partition: usize, tick: i128) -> bool {
        let Some(timeout_us) = self.trace.settings.idle_timeout_us else { return false };
        if self.records(partition).any(|l| l.tick == tick) {
            return false;
        }
        let last = self.records(partition).filter(|l| l.tick <= tick).last().map(|l| l.clock_us);
        let first = self.lines.iter().find(|l| l.item.watermark_us.is_some()).filter(|l| l.tick <= tick);
        let Some(since_us) = last.unwrap_or(first.and(self.first_us)) else { return false };
        let end_us = (tick + 1) * i128::from(self.trace.settings.tick_us);
        end_us - i128::from(since_us) >= i128::from(timeout_us)
    }

    fn is_active(&self, partition: usize, tick: Option<i128>) -> bool {
        match tick {
            None => self.trace.known_from_start(partition),
            Some(k) => self.is_known(partition, k) && !self.has_ended(partition, k) && !self.is_idle(partition, k),
        }
    }

    /// `W(k)` from `W(k−1)`.
    fn watermark(&self, before: (Option<i128>, i64), tick: i128) -> i64 {
        let all = || 0..self.trace.partitions();
        let counted = all()
            .filter(|&p| self.is_active(p, before.0) && !self.has_ended(p, tick) && !self.is_idle(p, tick))
            .map(|p| self.watermark_of(p, tick))
            .min();
        let open: Vec<usize> = all().filter(|&p| self.is_known(p, tick) && !self.has_ended(p, tick)).collect();
        let risen = match counted {
            Some(least) => least,
            None if open.iter().all(|&p| self.is_idle(p, tick)) => {
                open.iter().map(|&p| self.watermark_of(p, tick)).max().unwrap_or(BEFORE_ALL)
            }
            None => BEFORE_ALL,
        };
        before.1.max(risen)
    }

    /// `max(W(k−1), min(W_p, min of W_q(k−1) over the other active q))`, or `W(k−1)` if `p` was not active.
    fn stamp(&self, partition: usize, now: i64, before: (Option<i128>, i64)) -> i64 {
        if !self.is_active(partition, before.0) {
            return before.1;
        }
        let others = (0..self.trace.partitions()).filter(|&q| q != partition && self.is_active(q, before.0));
        let at = |q| before.0.map_or(BEFORE_ALL, |k| self.watermark_of(q, k));
        before.1.max(others.map(at).fold(now, i64::min))
    }

    fn meaning(&self) -> Meaning {
        let mut stamps = vec![Vec::new(); self.trace.lanes.len()];
        let mut before = (None, BEFORE_ALL);
        let mut now = vec![BEFORE_ALL; self.trace.partitions()];
        let mut last = before;
        for &tick in &self.ticks {
            for line in self.lines.iter().filter(|l| l.tick == tick) {
                let Some(watermark) = line.item.watermark_us else { continue };
                let now = &mut now[line.item.partition];
                *now = (*now).max(watermark);
                stamps[line.lane].push(self.stamp(line.item.partition, *now, before));
            }
            last = before;
            before = (Some(tick), self.watermark(before, tick));
        }
        // The tick of the last line is unfinished where reading stops.
        let (end, watermark) = last;
        let open: Vec<usize> = (0..now.len())
            .filter(|&p| match end {
                None => self.trace.known_from_start(p),
                Some(k) => !self.has_ended(p, k) && (self.is_known(p, k) || self.records(p).next().is_some()),
            })
            .collect();
        let exact = !self.trace.by_column && open.iter().all(|&p| self.is_active(p, end));
        let next = open.iter().map(|&p| self.stamp(p, now[p], last)).min();
        let frontier = if exact { next.unwrap_or(watermark) } else { watermark };
        Meaning { stamps, watermark, frontier }
    }
}
