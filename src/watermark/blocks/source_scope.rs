//! Source scope: ticks of arrival time, which all partitions share, and what happens at their ends.
//!
//! # Overview
//!
//! A lane is known up to some arrival clock. Let `H` be the least tick that one of the lanes not ended has reached: every
//! tick before `H` is *finished* (nothing can be read in it any more), so `W(H − 1)` is known, and with it the stamps of all
//! records of ticks up to `H`. Records of later ticks wait. A record's segment is taken in once, when its stamp's
//! bounds are known; what it does to its partition takes effect at the end of its tick.
//!
//! # Which ticks are looked at
//!
//! Those in which something is read (rejects included), in which a partition turns idle, and the one after a tick in
//! which a partition became active: that is where it first counts in the minimum, read or not. All others have the same
//! active partitions and the same watermarks as the tick before, and so the same minimum.
//!
//! # Cost
//!
//! `O(log n)` per segment entry and per partition that turns idle, for `n` partitions: those that are active and those
//! that are idle stand in sets ordered by watermark, and the active ones also by the tick at whose end they turn idle.

use super::super::{AFTER_ALL, BEFORE_ALL, WatermarkSettings};
use super::context::Bound;
use super::coordinator::Pending;
use super::summary::Segment;
use std::collections::{BTreeSet, VecDeque};

/// Number of a tick. Wider than a clock so that the tick after the last one has a number too.
type Tick = i128;

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Named, but without an accepted record so far; not declared.
    Unknown,
    /// Active at the end of the last finished tick.
    Active,
    /// Known and not ended, but not active then.
    Idle,
    Ended,
}

#[derive(Clone, Debug)]
struct Part {
    state: State,
    /// At the end of the last finished tick.
    watermark_us: i64,
    /// After the last record taken in.
    now_us: i64,
    /// The arrival clock at its last record.
    last_us: Option<i64>,
    /// Whether it has records in the current tick.
    changed: bool,
    /// The tick at whose end it turns idle, as entered in `idle_due`.
    idle_tick: Option<Tick>,
}

#[derive(Debug)]
struct Waiting {
    block: Pending,
    /// The lane's clock before it.
    clock_us: Option<i64>,
    /// Segments taken in.
    taken: usize,
    /// The tick in which the lane ends with it, if it does and that has not been noted.
    ends: Option<Tick>,
    /// Whether `held` has an entry for it.
    held: bool,
}

#[derive(Debug, Default)]
struct Lane {
    /// The arrival clock at its known end.
    clock_us: Option<i64>,
    /// Whether an arrival was read in it.
    arrived: bool,
    ended: bool,
    blocks: VecDeque<Waiting>,
}

/// State of the source in source scope.
#[derive(Debug)]
pub(super) struct SourceScope {
    tick_us: i64,
    idle_timeout_us: Option<i64>,
    by_column: bool,
    lanes: Vec<Lane>,
    parts: Vec<Part>,
    /// `W` at the end of the last finished tick.
    watermark_us: i64,
    /// Active partitions by watermark, both as of the end of the last finished tick.
    active: BTreeSet<(i64, u32)>,
    /// The known ones that were neither active nor ended then.
    idle: BTreeSet<(i64, u32)>,
    /// Active partitions by the tick at whose end they turn idle.
    idle_due: BTreeSet<(Tick, u32)>,
    /// Partitions with records in the current tick.
    changed: Vec<u32>,
    /// Lanes that end with the current tick.
    ending: Vec<u32>,
    /// Lanes not ended by their clock, …
    clocks: BTreeSet<(i64, u32)>,
    /// … and the number of those that have none yet.
    silent: usize,
    /// Lanes by the tick of the next segment (or end) to be taken in.
    due: BTreeSet<(Tick, u32)>,
    /// Blocks of ours that are taken in half, by their least stamp, and their lane.
    held: BTreeSet<(i64, u32)>,
    /// The source's first arrival (of a record that is no reject) so far; final at the end of the tick it is in.
    first_us: Option<i64>,
    /// Whether it is final, and the silent partitions have been put down in `idle_due`.
    watched: bool,
    last_tick: Option<Tick>,
    /// The tick that has been taken in as far as it is known, but is not finished.
    open_tick: Option<Tick>,
    /// Whether a partition became active in the last finished tick.
    grew: bool,
    complete: Vec<Pending>,
}

impl SourceScope {
    pub fn new(settings: &WatermarkSettings, partitions: u32, lanes: usize, by_column: bool) -> Self {
        SourceScope {
            tick_us: settings.tick_us.max(1),
            idle_timeout_us: settings.idle_timeout_us,
            by_column,
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            parts: vec![Part::new(State::Active); partitions as usize],
            watermark_us: BEFORE_ALL,
            active: (0..partitions).map(|p| (BEFORE_ALL, p)).collect(),
            idle: BTreeSet::new(),
            idle_due: BTreeSet::new(),
            changed: Vec::new(),
            ending: Vec::new(),
            clocks: BTreeSet::new(),
            silent: lanes,
            due: BTreeSet::new(),
            held: BTreeSet::new(),
            first_us: None,
            watched: false,
            last_tick: None,
            open_tick: None,
            grew: false,
            complete: Vec::new(),
        }
    }

    /// Makes room for partitions named since; they are known from their first accepted record on.
    pub fn name(&mut self, partitions: usize) {
        self.parts.resize(partitions, Part::new(State::Unknown));
    }

    /// The next block of its lane.
    pub fn accept(&mut self, block: Pending) {
        let number = block.summary.lane;
        let started = self.last_tick.is_some();
        let Some(lane) = self.lanes.get_mut(number as usize) else { return };
        let before_us = lane.clock_us;
        lane.arrived |= !block.summary.segments.is_empty();
        for segment in &block.summary.segments {
            lane.clock_us = lane.clock_us.max(Some(segment.clock_us.unwrap_or(BEFORE_ALL)));
        }
        match before_us {
            Some(clock_us) => _ = self.clocks.remove(&(clock_us, number)),
            None => self.silent = self.silent.saturating_sub(1),
        }
        lane.ended = block.summary.last;
        match lane.clock_us {
            _ if lane.ended => {}
            Some(clock_us) => _ = self.clocks.insert((clock_us, number)),
            None => self.silent = self.silent.saturating_add(1),
        }
        let mut ends = None;
        if lane.ended {
            match lane.clock_us {
                Some(clock_us) if lane.arrived || started => ends = Some(tick_of(clock_us, self.tick_us)),
                // An empty lane ends with the first tick, whichever that is.
                _ => self.ending.push(number),
            }
        }
        let idle = lane.blocks.is_empty();
        lane.blocks.push_back(Waiting { block, clock_us: before_us, taken: 0, ends, held: false });
        if idle {
            self.take_in(number, Tick::MIN);
        }
    }

    /// Every lane not ended has reached `clock_us`.
    pub fn advance_clock(&mut self, clock_us: i64) {
        self.clocks.clear();
        self.silent = 0;
        for (number, lane) in (0u32..).zip(&mut self.lanes) {
            if !lane.ended {
                let reached_us = lane.clock_us.map_or(clock_us, |c| c.max(clock_us));
                lane.clock_us = Some(reached_us);
                self.clocks.insert((reached_us, number));
            }
        }
    }

    /// Takes in what can be stamped and ends the ticks that are finished.
    pub fn run(&mut self) {
        if self.silent > 0 {
            return;
        }
        let reached = self.clocks.first().map(|&(clock_us, _)| tick_of(clock_us, self.tick_us));
        while let Some(tick) = self.next_tick() {
            if reached.is_some_and(|reached| tick > reached) {
                break;
            }
            while let Some(&(due, lane)) = self.due.first() {
                if due > tick {
                    break;
                }
                self.due.remove(&(due, lane));
                self.take_in(lane, tick);
            }
            if reached == Some(tick) {
                self.open_tick = reached;
                break;
            }
            self.open_tick = None;
            self.end_tick(tick);
        }
        if reached.is_none() && self.due.is_empty() {
            self.watermark_us = AFTER_ALL;
        }
    }

    /// Blocks whose context is complete.
    pub fn take_complete(&mut self) -> Vec<Pending> {
        std::mem::take(&mut self.complete)
    }

    /// The least stamp that a record in no complete context can get, before rounding.
    pub fn frontier_us(&self) -> i64 {
        let mut active = self.active.iter();
        let unread_us = match (active.next(), active.next()) {
            // An inactive partition may resume, another may be discovered: those get `W`.
            _ if self.by_column || !self.idle.is_empty() => self.watermark_us,
            (Some(&(_, only)), None) => self.part(only).map_or(BEFORE_ALL, |part| part.now_us),
            // The least one bounds every other, and the second least, which is no less, bounds the least one.
            (Some(&(least_us, _)), Some(_)) => least_us,
            (None, _) => self.watermark_us,
        };
        let held_us = self.held.first().map_or(AFTER_ALL, |&(least_us, _)| least_us);
        unread_us.max(self.watermark_us).min(held_us)
    }

    pub fn watermark_us(&self) -> i64 {
        self.watermark_us
    }

    /// The active partition with the least watermark.
    pub fn holder(&self) -> Option<u32> {
        self.active.first().map(|&(_, partition)| partition)
    }

    pub fn watermarks_us(&self) -> Vec<i64> {
        self.parts.iter().map(|part| part.now_us).collect()
    }

    /// The arrival clock at a lane's known end.
    pub fn clock_us(&self, lane: usize) -> Option<i64> {
        self.lanes.get(lane)?.clock_us
    }

    fn part(&self, partition: u32) -> Option<&Part> {
        self.parts.get(partition as usize)
    }

    /// The next tick at whose end something can change.
    fn next_tick(&self) -> Option<Tick> {
        let due = self.due.first().map(|&(tick, _)| tick);
        let idle = self.idle_due.first().map(|&(tick, _)| tick);
        let counts = self.last_tick.filter(|_| self.grew).map(|tick| tick.saturating_add(1));
        [due, idle, counts, self.open_tick].into_iter().flatten().min()
    }

    /// Takes in what the lane has up to `tick`, whose predecessor is finished, and puts the lane down for the tick of what
    /// comes next. Blocks of which nothing is left are complete.
    fn take_in(&mut self, number: u32, tick: Tick) {
        while let Some(mut waiting) = self.lanes.get_mut(number as usize).and_then(|lane| lane.blocks.pop_front()) {
            while waiting.next_tick(self.tick_us).is_some_and(|next| next <= tick) {
                self.take_segment(&mut waiting, number);
            }
            // Whoever owns the block: when reading stops, every worker must come to the same frontier.
            let least_us = waiting.block.least_us;
            if let Some(next) = waiting.next_tick(self.tick_us) {
                if let Some(least_us) = least_us.filter(|_| !waiting.held) {
                    waiting.held = true;
                    self.held.insert((least_us, number));
                }
                if let Some(lane) = self.lanes.get_mut(number as usize) {
                    lane.blocks.push_front(waiting);
                }
                self.due.insert((next, number));
                return;
            }
            if let Some(least_us) = least_us.filter(|_| waiting.held) {
                self.held.remove(&(least_us, number));
            }
            self.complete.push(waiting.block);
        }
    }

    /// Takes in a block's next segment, or else notes that its lane ends.
    fn take_segment(&mut self, waiting: &mut Waiting, number: u32) {
        let Pending { summary, context, mine, least_us } = &mut waiting.block;
        let Some(segment) = summary.segments.get(waiting.taken) else {
            waiting.ends = None;
            self.ending.push(number);
            return;
        };
        waiting.taken = waiting.taken.saturating_add(1);
        if !self.watched && !segment.entries.is_empty() {
            let first_us = waiting.clock_us.max(summary.first_arrival_us);
            self.first_us = [self.first_us, first_us].into_iter().flatten().min();
        }
        for entry in &segment.entries {
            let Some(&partition) = context.partitions.get(entry.partition as usize) else { continue };
            if let Some(bound) = self.bound(partition) {
                // Other partitions of the block may come in lower, but none below `W`.
                let first_us = if self.by_column { self.watermark_us } else { bound.least_us() };
                *least_us = least_us.or(Some(first_us));
                if *mine {
                    context.bounds.push(bound);
                }
            }
            let Some(part) = self.parts.get_mut(partition as usize) else { continue };
            part.now_us = part.now_us.max(entry.watermark_us);
            part.last_us = waiting.clock_us.max(entry.last_clock_us).max(part.last_us);
            if !part.changed {
                part.changed = true;
                self.changed.push(partition);
            }
        }
    }

    /// What bounds a partition's stamps in the current tick.
    fn bound(&self, partition: u32) -> Option<Bound> {
        let part = self.part(partition)?;
        let limit_us = if part.state == State::Active {
            let others = self.active.iter().find(|&&(_, other)| other != partition);
            others.map_or(AFTER_ALL, |&(least_us, _)| least_us)
        } else {
            BEFORE_ALL
        };
        Some(Bound { before_us: part.now_us, floor_us: self.watermark_us, limit_us })
    }

    /// The end of a tick in which everything has been taken in.
    fn end_tick(&mut self, tick: Tick) {
        if !self.watched {
            self.watch_silent();
        }
        let risen = self.end_changed(tick);
        self.end_lanes();
        self.turn_idle(tick);
        let risen: Vec<u32> =
            risen.into_iter().filter(|&p| self.part(p).is_some_and(|p| p.state != State::Ended)).collect();
        let least_us = match (self.active.first(), self.idle.last()) {
            (Some(&(least_us, _)), _) => least_us,
            // Those that are left are all idle: they no longer hold each other back.
            (None, Some(&(greatest_us, _))) if risen.is_empty() => greatest_us,
            _ => BEFORE_ALL,
        };
        self.watermark_us = self.watermark_us.max(least_us);
        self.grew = !risen.is_empty();
        for partition in risen {
            self.activate(partition, tick);
        }
        self.last_tick = Some(tick);
    }

    /// At the end of the first tick with records: partitions that have yielded nothing are idle some time after the
    /// first arrival.
    fn watch_silent(&mut self) {
        let (Some(first_us), Some(timeout_us)) = (self.first_us, self.idle_timeout_us) else { return };
        self.watched = true;
        let idle_tick = idle_tick(first_us, timeout_us, self.tick_us);
        for (partition, part) in (0u32..).zip(&mut self.parts) {
            if part.state == State::Active {
                part.idle_tick = Some(idle_tick);
                self.idle_due.insert((idle_tick, partition));
            }
        }
    }

    /// Gives the partitions with records in the tick their new watermarks. Returns those that were not active before it.
    fn end_changed(&mut self, tick: Tick) -> Vec<u32> {
        let mut risen = Vec::new();
        for partition in std::mem::take(&mut self.changed) {
            let Some(part) = self.parts.get_mut(partition as usize) else { continue };
            part.changed = false;
            let before_us = std::mem::replace(&mut part.watermark_us, part.now_us);
            match part.state {
                State::Active => {
                    if before_us != part.now_us {
                        self.active.remove(&(before_us, partition));
                        self.active.insert((part.now_us, partition));
                    }
                    self.watch(partition, tick);
                }
                State::Idle => {
                    self.idle.remove(&(before_us, partition));
                    risen.push(partition);
                }
                State::Unknown => risen.push(partition),
                State::Ended => {}
            }
        }
        risen
    }

    /// Ends the partitions of lanes that end with the tick.
    fn end_lanes(&mut self) {
        for number in std::mem::take(&mut self.ending) {
            if self.by_column {
                // There is one lane, and every partition ends with it.
                self.active.clear();
                self.idle.clear();
                self.idle_due.clear();
                self.parts.iter_mut().for_each(|part| part.state = State::Ended);
            } else if let Some(part) = self.parts.get_mut(number as usize) {
                // A lane that is a partition has its own place.
                self.active.remove(&(part.watermark_us, number));
                self.idle.remove(&(part.watermark_us, number));
                if let Some(idle_tick) = part.idle_tick.take() {
                    self.idle_due.remove(&(idle_tick, number));
                }
                part.state = State::Ended;
            }
        }
    }

    /// Moves those that have been silent for too long at the end of the tick.
    fn turn_idle(&mut self, tick: Tick) {
        while let Some(&(due, partition)) = self.idle_due.first() {
            if due > tick {
                break;
            }
            self.idle_due.remove(&(due, partition));
            if let Some(part) = self.parts.get_mut(partition as usize) {
                part.idle_tick = None;
                part.state = State::Idle;
                self.active.remove(&(part.watermark_us, partition));
                self.idle.insert((part.watermark_us, partition));
            }
        }
    }

    fn activate(&mut self, partition: u32, tick: Tick) {
        if let Some(part) = self.parts.get_mut(partition as usize) {
            part.state = State::Active;
            self.active.insert((part.watermark_us, partition));
            self.watch(partition, tick);
        }
    }

    /// Notes when an active partition that has records in `tick` turns idle, at the end of a later tick.
    fn watch(&mut self, partition: u32, tick: Tick) {
        let Some(timeout_us) = self.idle_timeout_us else { return };
        let Some(part) = self.parts.get_mut(partition as usize) else { return };
        let Some(last_us) = part.last_us else { return };
        let due = idle_tick(last_us, timeout_us, self.tick_us).max(tick.saturating_add(1));
        if let Some(noted) = part.idle_tick.replace(due) {
            self.idle_due.remove(&(noted, partition));
        }
        self.idle_due.insert((due, partition));
    }
}

impl Part {
    fn new(state: State) -> Part {
        Part { state, watermark_us: BEFORE_ALL, now_us: BEFORE_ALL, last_us: None, changed: false, idle_tick: None }
    }
}

impl Waiting {
    /// The tick of its next segment, or of its lane's end. `None`: nothing is left.
    fn next_tick(&self, tick_us: i64) -> Option<Tick> {
        let clock = |segment: &Segment| self.clock_us.max(segment.clock_us).unwrap_or(BEFORE_ALL);
        let segment = self.block.summary.segments.get(self.taken);
        segment.map(|segment| tick_of(clock(segment), tick_us)).or(self.ends)
    }
}

fn tick_of(clock_us: i64, tick_us: i64) -> Tick {
    Tick::from(clock_us.div_euclid(tick_us))
}

/// The first tick whose end is at least `timeout_us` after `last_us`.
fn idle_tick(last_us: i64, timeout_us: i64, tick_us: i64) -> Tick {
    let (due_us, tick_us) = (Tick::from(last_us) + Tick::from(timeout_us), Tick::from(tick_us));
    -(-due_us).div_euclid(tick_us) - 1
}
