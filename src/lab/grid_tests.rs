use super::*;
use crate::lateness::{Lateness, classify};
use crate::watermark::{AFTER_ALL, BEFORE_ALL};

const S: i64 = 1_000_000;

#[test]
fn lists_and_ranges() {
    assert_eq!(parse_delays("0s,1s, 2500ms"), Ok(vec![0, S, 2_500_000]));
    assert_eq!(parse_delays("0s..1m/4"), Ok(vec![0, 15 * S, 30 * S, 45 * S, 60 * S]));
    assert_eq!(parse_delays("1s..2s/3"), Ok(vec![S, 1_333_333, 1_666_666, 2 * S]));
    assert_eq!(parse_horizons("none,0s,30s..1m/1"), Ok(vec![None, Some(0), Some(30 * S), Some(60 * S)]));
}

#[test]
fn what_is_wrong_is_said() {
    let wrong = [
        ("", "expected a duration such as 5s or 1h30m, found \"\""),
        ("5s..1s/3", "expected a range that ascends, found \"5s..1s/3\""),
        ("0s..5m", "expected a range such as 0s..5m/20, found \"0s..5m\""),
        ("0s..5m/0", "expected 1 to 4096 steps in the range \"0s..5m/0\", found 0"),
        ("-3s", "expected a duration of at least 0, found \"-3s\""),
    ];
    for (text, message) in wrong {
        assert_eq!(parse_delays(text).unwrap_err(), message, "{text}");
    }
    let grid = |d: &[i64], h: &[Option<i64>]| Grid::new(d.to_vec(), h.to_vec(), S, false).unwrap_err();
    assert!(grid(&[], &[None]).starts_with("--delays: expected at least one"));
    assert!(grid(&[0], &[]).starts_with("--horizons: expected at least one"));
    assert!(grid(&[5, 5], &[None]).starts_with("--delays: expected each delay to be longer"));
    assert!(grid(&[0], &[Some(0), None]).starts_with("--horizons: expected each"));
    let many: Vec<i64> = (0..5_000).collect();
    assert!(grid(&many, &[None]).contains("at most 4096 cells, found 5000 delays by 1 horizons"));
}

/// Every small combination: the thresholds say what the rule says.
#[test]
fn thresholds_are_the_rule() {
    for granularity in 1..=4 {
        let delays = vec![1, 2, 5];
        let horizons = vec![None, Some(0), Some(2), Some(3)];
        let grid = Grid::new(delays.clone(), horizons.clone(), granularity, false).unwrap();
        let pass = grid.pass_granularity_us();
        for m in -20..20i64 {
            let base = m - delays[0];
            for d in 0..delays.len() {
                let rounded = base.div_euclid(pass) * pass;
                assert_eq!(grid.stamp(d, rounded), grid.stamp(d, base));
                assert_eq!(grid.stamp_of_rounded(d, rounded), grid.stamp(d, base));
            }
            for end in -8..8i64 {
                let base = m - delays[0];
                for (d, delay) in delays.iter().enumerate() {
                    let stamp = (m - delay).div_euclid(granularity) * granularity;
                    assert_eq!(grid.stamp(d, base), stamp);
                    assert_eq!(base >= grid.reached_at(d, end), stamp >= end, "m {m} end {end} d {delay}");
                    let accepting = if stamp < end { 0 } else { grid.accepting(stamp - end) };
                    for (h, horizon) in horizons.iter().enumerate() {
                        let class = classify(stamp, end, *horizon);
                        assert_eq!(h >= accepting, class != Lateness::TooLate);
                        // Whatever a cell accepts, the one pass takes.
                        assert!(class == Lateness::TooLate || base - end <= grid.reach_us());
                        // What is on time in the one pass is on time in every cell.
                        assert!(base >= end || class == Lateness::OnTime);
                    }
                }
            }
        }
    }
}

#[test]
fn the_pass_rounds_as_far_as_it_may() {
    let pass = |delays: &[i64]| Grid::new(delays.to_vec(), vec![None], S, false).unwrap().pass_granularity_us();
    assert_eq!(pass(&[0]), S);
    assert_eq!(pass(&[300_000, 1_300_000, 5_300_000]), S);
    assert_eq!(pass(&[0, 2_500_000]), S / 2);
    assert_eq!(pass(&[0, 1]), 1);
}

#[test]
fn the_infinities_stay() {
    let grid = Grid::new(vec![0, LENGTH_MAX_US], vec![None], 7, false).unwrap();
    for d in 0..2 {
        assert_eq!(grid.stamp(d, BEFORE_ALL), BEFORE_ALL);
        assert_eq!(grid.stamp(d, AFTER_ALL), AFTER_ALL);
    }
    assert_eq!(grid.stamp(1, i64::MIN + 5), BEFORE_ALL, "below 64 bits is −∞");
}
