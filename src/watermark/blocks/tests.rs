//! Rules one by one with the contract's own examples; random traces against the formulas are in [`property`].

mod model;
mod property;

use super::super::{AFTER_ALL, BEFORE_ALL, WatermarkSettings};
use super::*;
use crate::plan::LatenessScope;

fn source(idle_timeout_us: Option<i64>) -> WatermarkSettings {
    WatermarkSettings { scope: LatenessScope::Source, idle_timeout_us, granularity_us: 1, tick_us: 10 }
}

fn partition_scope(granularity_us: i64) -> WatermarkSettings {
    WatermarkSettings { scope: LatenessScope::Partition, idle_timeout_us: None, granularity_us, tick_us: 10 }
}

fn files(count: usize) -> Vec<LanePartitions> {
    (0..count).map(|n| LanePartitions::One(format!("file{n}"))).collect()
}

/// One line of a block in the tests' notation.
#[derive(Clone, Copy)]
enum Line {
    /// Watermark, arrival.
    Row(i64, i64),
    /// Partition name, watermark, arrival.
    Of(&'static str, i64, i64),
    /// A reject with its arrival, if known.
    Reject(Option<i64>),
}
use Line::{Of, Reject, Row};

/// Blocks offered one after another, contexts taken at once: gives the stamps as they become known.
struct Bench {
    settings: WatermarkSettings,
    coordinator: Coordinator,
    next: Vec<u64>,
    columns: Vec<(BlockSummary, Option<Vec<u32>>, Vec<i64>)>,
}

impl Bench {
    fn new(settings: WatermarkSettings, lanes: Vec<LanePartitions>, declared: &[&str]) -> Bench {
        let declared = declared.iter().map(|&d| d.to_owned()).collect();
        let next = vec![0; lanes.len()];
        let coordinator = Coordinator::new(settings.clone(), lanes, declared);
        Bench { settings, coordinator, next, columns: Vec::new() }
    }

    /// Offers the lane's next block; stamps of the contexts that became known, as `(lane, stamps)`.
    fn block(&mut self, lane: usize, lines: &[Line], last: bool) -> Vec<(u32, Vec<i64>)> {
        let mut builder = SummaryBuilder::new(&self.settings, lane as u32, self.next[lane]);
        self.next[lane] += 1;
        let (mut names, mut partition, mut watermarks): (Vec<String>, Vec<u32>, Vec<i64>) = Default::default();
        for &line in lines {
            match line {
                Row(watermark, arrived) => {
                    builder.record(0, watermark, Some(arrived));
                    watermarks.push(watermark);
                }
                Of(name, watermark, arrived) => {
                    let local = names.iter().position(|n| n == name).unwrap_or_else(|| {
                        names.push(name.to_owned());
                        names.len() - 1
                    });
                    builder.record(local as u32, watermark, Some(arrived));
                    partition.push(local as u32);
                    watermarks.push(watermark);
                }
                Reject(arrived) => builder.reject(arrived),
            }
        }
        let partition = (!names.is_empty()).then_some(partition);
        let summary = builder.finish(self.next[lane] == 1, lines.len() as u64, last, names);
        self.columns.push((summary.clone(), partition, watermarks));
        self.coordinator.offer(summary, true);
        self.take()
    }

    fn take(&mut self) -> Vec<(u32, Vec<i64>)> {
        let contexts = self.coordinator.take_contexts();
        let stamp = |(summary, context): (BlockSummary, BlockContext)| {
            let (_, partition, watermarks) = self.columns.iter().find(|c| c.0 == summary).expect("the block offered");
            (context.lane, context.stamps(&summary, partition.as_deref(), watermarks))
        };
        contexts.into_iter().map(stamp).collect()
    }

    fn reached(&self) -> (i64, i64) {
        (self.coordinator.watermark(), self.coordinator.frontier())
    }
}

#[test]
fn orders_of_the_contract() {
    // SEMANTICS §9, delay 10: the watermark is 70 when 50 and 25 arrive.
    let mut bench = Bench::new(partition_scope(1), files(1), &[]);
    let lines = [10, 20, 40, 70, 80, 50, 25].map(|at| Row(at - 10, at));
    assert_eq!(bench.block(0, &lines, false), [(0, vec![0, 10, 30, 60, 70, 70, 70])]);
    assert_eq!(bench.reached(), (70, 70));
    assert_eq!(bench.block(0, &[], true), [(0, vec![])]);
    assert_eq!(bench.reached(), (AFTER_ALL, AFTER_ALL));
}

#[test]
fn two_partitions_of_the_contract() {
    // SEMANTICS §9: A 10, 100; B 5; B holds the watermark back for ever, or until it is idle.
    let mut bench = Bench::new(source(None), files(2), &[]);
    assert_eq!(bench.block(0, &[Row(10, 0), Row(100, 10)], false), []);
    assert_eq!(bench.block(1, &[Row(5, 0)], false), [(1, vec![BEFORE_ALL])]);
    bench.coordinator.advance_clock(1_000_000);
    assert_eq!(bench.take(), [(0, vec![BEFORE_ALL, 5])]);
    assert_eq!(bench.reached(), (5, 5));
    assert_eq!(bench.coordinator.holder(), Some(1));

    let mut bench = Bench::new(source(Some(30)), files(2), &[]);
    bench.block(0, &[Row(10, 0), Row(100, 10)], false);
    bench.block(1, &[Row(5, 0)], false);
    bench.coordinator.advance_clock(29);
    assert_eq!(bench.take(), [(0, vec![BEFORE_ALL, 5])]);
    assert_eq!(bench.reached(), (5, 5));
    bench.coordinator.advance_clock(30);
    assert_eq!(bench.reached(), (100, 100), "B is idle at the end of tick 2");
    assert_eq!(bench.coordinator.holder(), Some(0));
    bench.coordinator.advance_clock(1_000);
    assert_eq!(bench.coordinator.holder(), None, "A is idle as well");
    assert_eq!(bench.reached(), (100, 100));
    assert_eq!(bench.block(1, &[Row(7, 1_000)], false), [(1, vec![100])], "resumed: W(k−1)");
}

#[test]
fn one_partition_is_exact_to_the_record_in_both_scopes() {
    for settings in [source(None), partition_scope(1)] {
        let mut bench = Bench::new(settings, files(1), &[]);
        assert_eq!(bench.block(0, &[Row(5, 0), Row(3, 1), Row(9, 100), Row(8, 50)], false), [(0, vec![5, 5, 9, 9])]);
        assert_eq!(bench.coordinator.frontier(), 9);
        assert_eq!(bench.block(0, &[Row(12, 101)], true), [(0, vec![12])]);
        assert_eq!(bench.reached(), (AFTER_ALL, AFTER_ALL));
    }
}

#[test]
fn the_others_count_up_to_the_end_of_the_previous_tick() {
    let mut bench = Bench::new(source(None), files(2), &[]);
    bench.block(0, &[Row(100, 0), Row(70, 10)], false);
    assert_eq!(bench.block(1, &[Row(50, 5), Row(80, 11)], false).len(), 2);
    assert_eq!(bench.reached(), (50, 50));
    assert_eq!(bench.block(1, &[Row(60, 12), Row(120, 13)], false), [(1, vec![80, 100])], "A stood at 100");
    assert_eq!(bench.block(0, &[Row(300, 19)], false), [(0, vec![50])], "B stood at 50");
}

#[test]
fn a_resumed_partition_counts_from_an_empty_tick_on() {
    let mut bench = Bench::new(source(Some(20)), files(2), &[]);
    bench.block(0, &[Row(10, 0)], false);
    bench.block(1, &[Row(10, 0)], false);
    bench.coordinator.advance_clock(100);
    assert_eq!(bench.block(1, &[Row(70, 100)], false), [(1, vec![10])]);
    bench.coordinator.advance_clock(110);
    assert_eq!(bench.coordinator.watermark(), 10, "it resumed in tick 10 and does not count in W(10)");
    bench.coordinator.advance_clock(120);
    assert_eq!(bench.coordinator.watermark(), 70, "tick 11 was empty, but it counts in W(11)");
}

#[test]
fn ends_take_effect_at_the_end_of_the_tick() {
    let mut bench = Bench::new(source(None), files(3), &[]);
    bench.block(2, &[], true);
    bench.block(1, &[Row(5, 0)], true);
    assert_eq!(bench.block(0, &[Row(10, 1)], false), [(0, vec![BEFORE_ALL]), (1, vec![BEFORE_ALL])]);
    assert_eq!(bench.coordinator.frontier(), BEFORE_ALL, "the empty file counts in the first tick");
    assert_eq!(bench.block(0, &[Row(11, 10)], false), [(0, vec![11])]);
    assert_eq!(bench.reached(), (10, 11));
    bench.block(0, &[], true);
    assert_eq!(bench.reached(), (AFTER_ALL, AFTER_ALL));
}

#[test]
fn rejects_move_the_clock_and_nothing_else() {
    let mut bench = Bench::new(source(Some(20)), files(2), &[]);
    bench.block(0, &[Row(10, 1), Reject(None)], false);
    bench.block(1, &[Row(20, 1), Reject(Some(25))], false);
    bench.block(0, &[Reject(Some(25))], false);
    assert_eq!(bench.coordinator.watermark(), 10);
    bench.block(0, &[Reject(Some(30))], false);
    bench.block(1, &[Reject(Some(30)), Reject(Some(3))], false);
    assert_eq!(bench.coordinator.watermark(), 20, "both are idle: a reject is no arrival of theirs");
}

#[test]
fn a_file_that_yields_nothing_is_idle_from_the_first_arrival_on() {
    let mut bench = Bench::new(source(Some(20)), files(2), &[]);
    bench.block(1, &[Reject(Some(25))], false);
    bench.block(0, &[Row(5, 7), Row(6, 19), Row(7, 29), Row(8, 31)], false);
    assert_eq!(bench.coordinator.watermark(), BEFORE_ALL);
    bench.block(1, &[Reject(Some(39))], false);
    assert_eq!(bench.coordinator.watermark(), 7, "20 after the arrival at 7, at the end of tick 2");
}

#[test]
fn the_first_arrival_is_read_from_the_clock() {
    let mut bench = Bench::new(source(Some(20)), files(2), &[]);
    bench.block(1, &[Reject(Some(100))], false);
    bench.block(0, &[Reject(Some(25))], false);
    bench.block(0, &[Row(5, 10), Row(8, 31), Reject(Some(41))], false);
    assert_eq!(bench.coordinator.watermark(), BEFORE_ALL, "the record that arrived at 10 was read at 25");
    bench.block(0, &[Reject(Some(50))], false);
    assert_eq!(bench.coordinator.watermark(), 8);
}

#[test]
fn an_empty_file_ends_with_the_first_tick_however_long_that_is_in_coming() {
    let mut bench = Bench::new(source(None), files(2), &[]);
    bench.coordinator.advance_clock(5);
    bench.block(1, &[], true);
    assert_eq!(bench.block(0, &[Row(7, 100), Row(9, 110)], false), [(0, vec![BEFORE_ALL, 9])]);
}

#[test]
fn discovered_partitions_in_source_scope() {
    let mut bench = Bench::new(source(None), vec![LanePartitions::ByColumn], &[]);
    let lines = [Of("x", 5, 0), Of("x", 6, 10), Of("y", 1, 20), Of("x", 9, 21), Of("y", 20, 35), Of("x", 20, 36)];
    assert_eq!(bench.block(0, &lines, false), [(0, vec![BEFORE_ALL, 6, 6, 9, 9, 9])]);
    assert_eq!(bench.reached(), (9, 9), "y, discovered in tick 2, did not count in W(2)");
    assert_eq!(bench.coordinator.partitions(), ["x", "y"]);
    assert_eq!(bench.coordinator.partition_watermarks(), [20, 20]);
}

#[test]
fn a_declared_partition_never_seen_holds_the_watermark() {
    for settings in [source(None), partition_scope(1)] {
        let mut bench = Bench::new(settings, vec![LanePartitions::ByColumn], &["never", "x", "never"]);
        bench.block(0, &[Of("x", 5, 0), Of("x", 6, 100), Of("z", 6, 110)], false);
        assert_eq!(bench.reached(), (BEFORE_ALL, BEFORE_ALL));
        assert_eq!(bench.coordinator.holder(), Some(0));
        assert_eq!(bench.coordinator.partitions(), ["never", "x", "z"]);
        bench.block(0, &[], true);
        assert_eq!(bench.reached(), (AFTER_ALL, AFTER_ALL));
    }
}

#[test]
fn discovered_partitions_in_partition_scope() {
    let mut bench = Bench::new(partition_scope(1), vec![LanePartitions::ByColumn], &["d"]);
    let lines = [Of("x", 100, 0), Of("d", 40, 0), Of("y", 10, 0), Of("d", 30, 0), Of("y", 60, 0)];
    assert_eq!(bench.block(0, &lines, false), [(0, vec![100, 40, 40, 40, 60])]);
    assert_eq!(bench.reached(), (40, 40));
    assert_eq!(bench.block(0, &[Of("d", 200, 0), Of("z", 1, 0)], false), [(0, vec![200, 60])]);
    assert_eq!(bench.reached(), (60, 60));
    assert_eq!(bench.coordinator.holder(), Some(3));
    assert_eq!(bench.block(0, &[Of("d", 0, 0), Of("z", 70, 0)], false), [(0, vec![200, 70])]);
    assert_eq!(bench.reached(), (60, 60), "y stands at 60");
}

#[test]
fn a_partition_with_rejects_only_has_a_place_but_holds_nothing() {
    let settings = source(None);
    let mut coordinator = Coordinator::new(settings.clone(), vec![LanePartitions::ByColumn], vec![]);
    let mut builder = SummaryBuilder::new(&settings, 0, 0);
    builder.reject(Some(0));
    for arrived in [0, 10, 20] {
        builder.record(1, arrived, Some(arrived));
    }
    coordinator.offer(builder.finish(true, 4, false, vec!["bad".into(), "good".into()]), true);
    assert_eq!(coordinator.take_contexts()[0].1.partitions, [0, 1]);
    assert_eq!((coordinator.watermark(), coordinator.holder()), (10, Some(1)));
}

#[test]
fn granularity_rounds_down_also_below_zero_and_at_the_limits() {
    let mut bench = Bench::new(partition_scope(10), files(1), &[]);
    let lines = [BEFORE_ALL, i64::MIN + 1, -11, -10, -1, 0, 9, 10, 19, i64::MAX - 1, AFTER_ALL].map(|w| Row(w, 0));
    let last = (i64::MAX - 1) / 10 * 10;
    let stamps = vec![BEFORE_ALL, BEFORE_ALL, -20, -10, -10, 0, 0, 10, 10, last, AFTER_ALL];
    assert_eq!(bench.block(0, &lines, false), [(0, stamps)]);
    assert_eq!(bench.coordinator.watermark(), AFTER_ALL);
    assert_eq!(bench.coordinator.frontier(), last, "only the end is AFTER_ALL");
}

#[test]
fn positions_run_through_and_lines_start_anew_with_each_file() {
    let settings = partition_scope(1);
    let mut coordinator = Coordinator::new(settings.clone(), vec![LanePartitions::ByColumn], vec![]);
    let block = |index, starts_file, lines| {
        SummaryBuilder::new(&settings, 0, index).finish(starts_file, lines, index == 3, vec![])
    };
    for summary in [block(3, false, 1), block(1, false, 5), block(2, true, 7), block(0, true, 3)] {
        assert_eq!(coordinator.take_contexts(), []);
        coordinator.offer(summary, true);
    }
    let places: Vec<_> = coordinator.take_contexts().iter().map(|c| (c.1.first_position, c.1.first_line)).collect();
    assert_eq!(places, [(1, 1), (4, 4), (9, 1), (16, 8)]);
    assert_eq!(coordinator.frontier(), AFTER_ALL);
}

#[test]
fn contexts_not_taken_hold_the_frontier() {
    for settings in [source(None), partition_scope(1)] {
        let mut coordinator = Coordinator::new(settings.clone(), files(1), vec![]);
        for index in 0..3 {
            let mut builder = SummaryBuilder::new(&settings, 0, index);
            builder.record(0, 10 + index as i64, Some(100 * index as i64));
            coordinator.offer(builder.finish(index == 0, 1, index == 2, vec![]), index != 1);
        }
        assert_eq!((coordinator.watermark(), coordinator.frontier()), (AFTER_ALL, BEFORE_ALL));
        assert_eq!(coordinator.take_contexts().len(), 2);
        assert_eq!(coordinator.frontier(), AFTER_ALL);
    }
}

#[test]
fn the_lane_to_read_next() {
    let mut bench = Bench::new(source(None), files(3), &[]);
    assert_eq!(bench.coordinator.furthest_behind(&[2, 1]), Some(1));
    bench.block(0, &[Row(1, 50)], false);
    assert_eq!(bench.coordinator.furthest_behind(&[0, 2]), Some(2), "of which nothing is known");
    bench.block(1, &[Row(9, 40)], false);
    bench.block(2, &[Row(5, 60)], false);
    assert_eq!(bench.coordinator.furthest_behind(&[0, 1, 2]), Some(1));
    bench.block(1, &[], true);
    assert_eq!(bench.coordinator.furthest_behind(&[0, 1, 2]), Some(0));
    assert_eq!(bench.coordinator.furthest_behind(&[1]), None);

    let mut bench = Bench::new(partition_scope(1), files(2), &[]);
    bench.block(0, &[Row(7, 0)], false);
    assert_eq!(bench.coordinator.furthest_behind(&[0, 1]), Some(1));
    bench.block(1, &[Row(9, 0)], false);
    assert_eq!(bench.coordinator.furthest_behind(&[0, 1]), Some(0));
}

#[test]
fn whole_columns_are_summarised_like_records() {
    let (watermarks, arrived) = ([5, 9, 3, 12, 1, 2], [0, 4, 2, 11, 35, 12]);
    for settings in [source(None), partition_scope(1)] {
        let (mut one, mut all) = (SummaryBuilder::new(&settings, 0, 0), SummaryBuilder::new(&settings, 0, 0));
        for (watermark, arrived) in watermarks.iter().zip(arrived) {
            one.record(0, *watermark, Some(arrived));
        }
        all.records_arrived(&watermarks[..2], &arrived[..2]);
        all.records_arrived(&watermarks[2..], &arrived[2..]);
        assert_eq!(one.finish(true, 6, false, vec![]), all.finish(true, 6, false, vec![]));
    }
    let settings = partition_scope(1);
    let mut all = SummaryBuilder::new(&settings, 0, 0);
    all.records(&[]);
    all.records(&watermarks);
    let summary = all.finish(true, 6, false, vec![]);
    assert_eq!(summary.segments[0].entries[0].watermark_us, 12);
    assert_eq!(summary.segments.len(), 1);
}

#[test]
fn no_lanes_and_empty_lanes() {
    for settings in [source(Some(10)), partition_scope(1)] {
        assert_eq!(Bench::new(settings.clone(), vec![], &[]).reached(), (AFTER_ALL, AFTER_ALL));
        let mut bench = Bench::new(settings, files(2), &[]);
        bench.block(0, &[], true);
        assert_eq!(bench.reached(), (BEFORE_ALL, BEFORE_ALL));
        bench.block(1, &[Reject(None)], true);
        assert_eq!(bench.reached(), (AFTER_ALL, AFTER_ALL));
    }
}
