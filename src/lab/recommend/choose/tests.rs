//! The choice on figures made by hand.

use super::*;
use crate::lab::blocks::Slots;
use crate::plan::WindowPlan;

fn grid() -> Grid {
    Grid::new(vec![0, 10, 20, 40], vec![None, Some(0), Some(50)], 1, false).unwrap()
}

fn plan(text: &str) -> RecommendPlan {
    let slots = Slots::new(&WindowPlan { size_us: 10, slide_us: 10, offset_us: 0 });
    RecommendPlan { conditions: super::super::condition::parse(text).unwrap(), slots }
}

/// 20 blocks of 100 contributions each; by delay 8, 4, 2 and 0 of them miss, and of these half are dropped at horizon 0. In
/// the last five blocks twice as many miss.
fn contributions() -> BlockSums {
    let mut sums = BlockSums::default();
    for slot in 0..20i64 {
        let times = if slot >= 15 { 2 } else { 1 };
        for group in [ALL, PARTITIONS + (slot as u64) % 2, HOURS + 3] {
            sums.add(slot, group, 5, |counts| {
                let own = [100, 8 * times, 4 * times, 2 * times, 0];
                counts.iter_mut().zip(own).for_each(|(n, own)| *n += own);
            });
        }
        sums.add(slot, DROPPED, 12, |counts| {
            for (delay, missing) in [8, 4, 2, 0].into_iter().enumerate() {
                counts[delay * 3] += missing * times;
                counts[delay * 3 + 1] += missing * times / 2;
            }
        });
    }
    sums
}

fn chosen(text: &str) -> Recommendation {
    let (contributions, none) = (contributions(), BlockSums::default());
    let sums = Sums { contributions: &contributions, errors: &none, latencies: &none };
    choose(&plan(text), &grid(), &sums, (&[], &["a".into(), "b".into()]), 0)
}

#[test]
fn the_least_delay_that_holds_is_taken() {
    let found = chosen("completeness >= 96%");
    assert_eq!((found.blocks_chosen_by, found.blocks_checked_on, found.checked_from_us), (14, 6, Some(140)));
    let setting = found.setting.as_ref().unwrap();
    assert_eq!((setting.delay_us, setting.horizon_us), (10, None));
    let result = &setting.results[0];
    assert_eq!((result.chosen, result.interval), (Some(0.96), Some((0.96, 0.96))), "all blocks are alike");
    let later = 1.0 - (4.0 + 5.0 * 8.0) / 600.0;
    assert!((result.checked.unwrap() - later).abs() < 1e-12);
    assert_eq!(result.holds_later, Some(false));
    assert_eq!(
        setting.by_partition.iter().map(|p| (p.name.as_str(), p.holds)).collect::<Vec<_>>(),
        [("a", Some(false)), ("b", Some(false))]
    );
    assert_eq!(
        setting.by_hour.iter().map(|p| (p.name.as_str(), p.contributions)).collect::<Vec<_>>(),
        [("03:00", 600)]
    );
}

#[test]
fn the_least_horizon_comes_after_the_delay() {
    let setting = |text: &str| chosen(text).setting.map(|s| (s.delay_us, s.horizon_us));
    assert_eq!(setting("final_completeness >= 96%"), Some((0, Some(0))));
    assert_eq!(setting("final_completeness >= 97%, completeness >= 90%"), Some((0, Some(50))));
    assert_eq!(setting("final_completeness >= 97%, completeness >= 97%"), Some((20, None)));
    assert_eq!(setting("completeness >= 100%"), Some((40, None)));
    assert_eq!(setting("completeness >= 99%, p99_latency <= 5s"), None, "there are no latencies");
}

#[test]
fn what_cannot_be_had_is_said() {
    let none = BlockSums::default();
    let mut contributions = contributions();
    // One record that no delay has in time.
    contributions.add(0, ALL, 5, |counts| counts[4] += 1);
    let sums = Sums { contributions: &contributions, errors: &none, latencies: &none };
    let found = choose(&plan("completeness >= 100%"), &grid(), &sums, (&[], &[]), 0);
    assert!(found.setting.is_none() && found.safe.is_none());
    assert_eq!(found.nearest.map(|s| (s.delay_us, s.horizon_us)), Some((40, Some(50))));
}

/// Of a share with known spread the interval is as wide as theory has it.
#[test]
fn intervals_are_as_wide_as_binomial_ones() {
    let mut contributions = BlockSums::default();
    let mut state = 1;
    let mut missing = 0;
    for slot in 0..200 {
        // 50 trials a block, each missing with probability 0.2.
        let n = (0..50).filter(|_| super::next(&mut state) >> 32 < (1u64 << 32) / 5).count() as u64;
        missing += if slot < 140 { n } else { 0 };
        contributions.add(slot, ALL, 2, |counts| {
            counts[0] += 50;
            counts[1] += n;
        });
    }
    let none = BlockSums::default();
    let sums = Sums { contributions: &contributions, errors: &none, latencies: &none };
    let grid = Grid::new(vec![0], vec![None], 1, false).unwrap();
    let found = choose(&plan("completeness >= 10%"), &grid, &sums, (&[], &[]), 0);
    let (low, high) = found.setting.as_ref().unwrap().results[0].interval.unwrap();
    let p = 1.0 - missing as f64 / 7_000.0;
    let half = 1.96 * (0.2f64 * 0.8 / 7_000.0).sqrt();
    assert!(low < p && p < high && ((high - low) / (2.0 * half) - 1.0).abs() < 0.2, "{low} {p} {high} {half}");
}

#[test]
fn errors_and_latencies_are_held_against_their_bounds() {
    let contributions = contributions();
    let (mut errors, mut latencies) = (BlockSums::default(), BlockSums::default());
    for slot in 0..20 {
        // Two columns; of ten pairs one has no error in the first.
        errors.add(slot, 0, 4 * 5, |counts| {
            for delay in 0..4 {
                counts[delay] += 10;
                counts[4 + delay] += 9 * ERROR_UNIT / 100 / (1 + delay as u64);
                counts[8 + delay] += 10 * ERROR_UNIT / 10 / (1 + delay as u64);
                counts[12 + delay] += 1;
            }
        });
        latencies.add(slot, 0, 8, |counts| {
            for delay in 0..4 {
                counts[delay] += 100;
                counts[4 + delay] += 100 - delay as u64;
            }
        });
    }
    let sums = Sums { contributions: &contributions, errors: &errors, latencies: &latencies };
    let columns = ["n".to_owned(), "revenue".to_owned()];
    let delay = |text: &str| {
        let found = choose(&plan(text), &grid(), &sums, (&columns, &[]), 0);
        found.setting.map(|s| s.delay_us)
    };
    assert_eq!(delay("first_result_error(n) <= 1%"), Some(0));
    assert_eq!(delay("first_result_error(n) <= 0.5%"), Some(10));
    assert_eq!(delay("first_result_error <= 5%"), Some(10), "revenue is the worse");
    assert_eq!(delay("first_result_error <= 2%"), None);
    assert_eq!(delay("p99_latency <= 3s, first_result_error(n) <= 0.5%"), Some(10));
    assert_eq!(delay("p99_latency <= 3s, first_result_error(n) <= 0.4%"), None, "longer delays come too late");
}
