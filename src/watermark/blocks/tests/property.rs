//! Random traces cut into random blocks, offered in random order to several coordinators, against the formulas.

use super::super::super::{AFTER_ALL, BEFORE_ALL, WatermarkSettings};
use super::super::*;
use super::model::{Item, Trace};
use crate::plan::LatenessScope;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Takes decisions from a seed that proptest shrinks.
struct Dice(u64);

impl Dice {
    /// SplitMix64.
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below.max(1) as u64) as usize
    }
}

/// A block with its columns.
#[derive(Clone, Debug)]
struct Block {
    summary: BlockSummary,
    partition: Option<Vec<u32>>,
    watermarks: Vec<i64>,
}

fn name(partition: usize) -> String {
    format!("p{partition}")
}

/// Cuts each lane's lines at random.
fn cut(trace: &Trace, dice: &mut Dice) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (lane, items) in trace.lanes.iter().enumerate() {
        let (mut rest, mut index) = (items.as_slice(), 0);
        loop {
            let (now, later) = rest.split_at(dice.roll(rest.len().min(6) + 1));
            // An empty last block, or the last with the rest, or none at all if the lane does not end.
            let last = later.is_empty() && trace.ends[lane] && dice.roll(3) > 0;
            blocks.push(block(trace, lane, index, now, last));
            (rest, index) = (later, index + 1);
            if last || (later.is_empty() && !trace.ends[lane]) {
                break;
            }
        }
    }
    blocks
}

fn block(trace: &Trace, lane: usize, index: u64, items: &[Item], last: bool) -> Block {
    let mut builder = SummaryBuilder::new(&trace.settings, lane as u32, index);
    let (mut names, mut partition, mut watermarks) = (Vec::new(), Vec::new(), Vec::new());
    let simple = !trace.by_column && items.iter().all(|i| i.watermark_us.is_some() && i.arrived_us.is_some());
    for item in items {
        let Some(watermark) = item.watermark_us else {
            builder.reject(item.arrived_us);
            continue;
        };
        let local = if trace.by_column {
            let name = name(item.partition);
            names.iter().position(|n| *n == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            })
        } else {
            0
        };
        if !simple {
            builder.record(local as u32, watermark, item.arrived_us);
        }
        partition.push(local as u32);
        watermarks.push(watermark);
    }
    if simple {
        let arrived: Vec<i64> = items.iter().filter_map(|i| i.arrived_us).collect();
        builder.records_arrived(&watermarks, &arrived);
    }
    let summary = builder.finish(index == 0, items.len() as u64, last, names);
    Block { summary, partition: trace.by_column.then_some(partition), watermarks }
}

/// A coordinator that checks its promises while it is fed.
struct Worker {
    coordinator: Coordinator,
    promised: i64,
    contexts: BTreeMap<(u32, u64), BlockContext>,
    stamps: BTreeMap<(u32, u64), Vec<i64>>,
}

impl Worker {
    fn new(trace: &Trace) -> Worker {
        let lanes = match trace.by_column {
            true => vec![LanePartitions::ByColumn],
            false => (0..trace.lanes.len()).map(|l| LanePartitions::One(name(l))).collect(),
        };
        let declared = (0..trace.declared).map(name).collect();
        let coordinator = Coordinator::new(trace.settings.clone(), lanes, declared);
        Worker { coordinator, promised: BEFORE_ALL, contexts: BTreeMap::new(), stamps: BTreeMap::new() }
    }

    fn look(&mut self) {
        let frontier = self.coordinator.frontier();
        assert!(frontier >= self.promised, "the frontier fell from {} to {frontier}", self.promised);
        self.promised = frontier;
    }

    fn take(&mut self, blocks: &[Block]) {
        for (summary, context) in self.coordinator.take_contexts() {
            let place = (context.lane, context.index);
            let block = blocks.iter().find(|b| (b.summary.lane, b.summary.index) == place).expect("it was offered");
            let stamps = context.stamps(&summary, block.partition.as_deref(), &block.watermarks);
            let least = stamps.iter().min().copied().unwrap_or(AFTER_ALL);
            assert!(least >= self.promised, "a stamp of {least} after a frontier of {}", self.promised);
            self.contexts.insert(place, context);
            self.stamps.insert(place, stamps);
        }
    }
}

/// Feeds one worker with every block in an order of its own, as far as `stop` of them.
fn feed(trace: &Trace, blocks: &[Block], mine: impl Fn(&Block) -> bool, dice: &mut Dice) -> Worker {
    let mut worker = Worker::new(trace);
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    let shuffled = dice.roll(2) == 0;
    for at in (1..order.len()).rev() {
        // Either any order, or nearly that of reading.
        let from = if shuffled { 0 } else { at.saturating_sub(2) };
        order.swap(at, from + dice.roll(at - from + 1));
    }
    for at in order {
        worker.coordinator.offer(blocks[at].summary.clone(), mine(&blocks[at]));
        if dice.roll(3) > 0 {
            worker.look();
        }
        if dice.roll(2) > 0 {
            worker.take(blocks);
            worker.look();
        }
    }
    let clocks = trace.lanes.iter().flatten().filter_map(|item| item.arrived_us);
    if let Some(clock) = clocks.max().filter(|_| !trace.ends.iter().all(|&ends| ends)) {
        worker.coordinator.advance_clock(clock);
        worker.look();
    }
    worker.take(blocks);
    worker.look();
    worker
}

fn check(trace: &Trace, seed: u64) {
    let mut dice = Dice(seed);
    let meaning = trace.meaning();
    assert_eq!(trace.record_by_record(name), meaning, "record by record (left) and by the formulas");
    let blocks = cut(trace, &mut dice);
    let workers = 1 + dice.roll(4);
    let mut all: Vec<Worker> = Vec::new();
    for number in 0..workers {
        let mine = |b: &Block| (b.summary.index as usize + b.summary.lane as usize) % workers == number;
        all.push(feed(trace, &blocks, mine, &mut dice));
    }
    // One more that wants every context: the same ones, whoever asks and in whatever order.
    let whole = feed(trace, &blocks, |_| true, &mut dice);
    let together: BTreeMap<_, _> = all.iter().flat_map(|w| w.contexts.clone()).collect();
    assert_eq!(together, whole.contexts);
    let mut stamps = vec![Vec::new(); trace.lanes.len()];
    for ((lane, _), of_block) in &whole.stamps {
        stamps[*lane as usize].extend_from_slice(of_block);
    }
    assert_eq!(stamps, meaning.stamps);
    for worker in all.iter().chain([&whole]) {
        assert_eq!(worker.coordinator.watermark(), meaning.watermark, "watermark");
        assert_eq!(worker.coordinator.frontier(), meaning.frontier, "frontier");
        assert_eq!(worker.coordinator.partitions(), whole.coordinator.partitions());
        assert_eq!(worker.coordinator.partition_watermarks(), whole.coordinator.partition_watermarks());
        assert_eq!(worker.coordinator.holder(), whole.coordinator.holder());
    }
    assert!(whole.contexts.len() == blocks.len());
    let mut positions = vec![1; trace.lanes.len()];
    for (block, context) in blocks.iter().zip(whole.contexts.values()) {
        assert_eq!((context.lane, context.index), (block.summary.lane, block.summary.index));
        let position = &mut positions[context.lane as usize];
        assert_eq!((context.first_position, context.first_line), (*position, *position));
        *position += block.summary.lines;
    }
}

/// Ranges from which numbers are taken: narrow ones collide, wide ones reach the limits.
fn number(narrow: std::ops::Range<i64>) -> impl Strategy<Value = i64> {
    let end = narrow.end;
    prop_oneof![
        8 => narrow,
        1 => (-end..end).prop_map(|n| n.saturating_mul(100)),
    ]
}

fn watermark() -> impl Strategy<Value = i64> {
    prop_oneof![
        30 => number(-40..60),
        1 => Just(BEFORE_ALL),
        1 => Just(i64::MAX - 1),
        1 => (0..50i64).prop_map(|n| i64::MIN + n),
        1 => (1..50i64).prop_map(|n| i64::MAX - n),
    ]
}

/// A line: partition, watermark (none: a reject), step of arrival (none: unreadable, then a reject).
fn line() -> impl Strategy<Value = (usize, Option<i64>, Option<i64>)> {
    let step = prop_oneof![20 => -4..8i64, 4 => 8..90i64, 1 => 500..3_000i64];
    (0..5usize, prop_oneof![5 => watermark().prop_map(Some), 1 => Just(None)], prop::option::weighted(0.9, step))
}

fn settings() -> impl Strategy<Value = WatermarkSettings> {
    let scope = prop_oneof![3 => Just(LatenessScope::Source), 1 => Just(LatenessScope::Partition)];
    let idle = prop::option::weighted(0.7, 0..40i64);
    (scope, idle, prop_oneof![Just(1), 1..30i64], 1..15i64).prop_map(|(scope, idle, granularity_us, tick_us)| {
        let idle_timeout_us = idle.filter(|_| scope == LatenessScope::Source).map(|i| i + tick_us);
        WatermarkSettings { scope, idle_timeout_us, granularity_us, tick_us }
    })
}

fn trace() -> impl Strategy<Value = Trace> {
    let lane = || prop::collection::vec(line(), 0..25);
    let lanes = prop_oneof![
        2 => prop::collection::vec((lane(), -20..40i64), 1..6).prop_map(|lanes| (false, lanes)),
        1 => (prop::collection::vec(line(), 0..60), -20..40i64).prop_map(|lane| (true, vec![lane])),
    ];
    let ends = prop_oneof![Just(vec![true; 5]), prop::collection::vec(any::<bool>(), 5)];
    (settings(), lanes, 0..3usize, ends).prop_map(|(settings, (by_column, lanes), declared, ends)| {
        let lanes: Vec<Vec<Item>> = lanes
            .into_iter()
            .enumerate()
            .map(|(lane, (lines, start))| items(&settings, by_column, lane, lines, start))
            .collect();
        let ends = ends[..lanes.len()].to_vec();
        Trace { settings, by_column, declared: if by_column { declared } else { 0 }, lanes, ends }
    })
}

fn items(
    settings: &WatermarkSettings,
    by_column: bool,
    lane: usize,
    lines: Vec<(usize, Option<i64>, Option<i64>)>,
    start: i64,
) -> Vec<Item> {
    let mut clock = start;
    let item = |(partition, watermark, step): (usize, Option<i64>, Option<i64>)| {
        let arrived_us = step.map(|step| {
            let arrived = clock + step;
            clock = clock.max(arrived);
            arrived
        });
        let readable = arrived_us.is_some() || settings.scope == LatenessScope::Partition;
        Item {
            partition: if by_column { partition } else { lane },
            watermark_us: watermark.filter(|_| readable),
            arrived_us,
        }
    };
    lines.into_iter().map(item).collect()
}

/// Moves and stretches arrival times so that the clock runs from limit to limit.
fn stretch(trace: &mut Trace, to: i64) {
    for item in trace.lanes.iter_mut().flatten() {
        item.arrived_us = item.arrived_us.map(|a| a.saturating_mul(to));
    }
    trace.settings.tick_us = trace.settings.tick_us.saturating_mul(to);
    trace.settings.idle_timeout_us = trace.settings.idle_timeout_us.map(|t| t.saturating_mul(to));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_are_stamped_as_the_formulas_say(trace in trace(), seed in any::<u64>()) {
        check(&trace, seed);
    }

    #[test]
    fn clocks_reach_the_limits(mut trace in trace(), to in 1i64 << 50..1 << 60, seed in any::<u64>()) {
        stretch(&mut trace, to);
        check(&trace, seed);
    }
}
