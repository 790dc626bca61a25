//! Laws that every policy keeps, and each against a plain reference.

use super::*;

const S: i64 = 1_000_000;

fn plan(text: &str) -> PolicyPlan {
    PolicyPlan::parse(text).unwrap_or_else(|e| panic!("{e}: {text}")).expect("adaptive")
}

/// Event times with a seed, some of them far behind.
fn stream(seed: u64, n: i64) -> Vec<i64> {
    let mut x = seed;
    let mut next = move |below: i64| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((x >> 33) as i64) % below
    };
    (0..n).map(|i| i * S / 10 - if next(10) == 0 { next(90 * S) } else { next(S) }).collect()
}

const ALL: [&str; 5] = [
    "quantile(0.9, span = 32s)",
    "quantile(99%, span = 1m, floor = 2s, cap = 85s)",
    "k-slack(decay = 0.5, span = 20s)",
    "k-slack(span = 5s, decay = 0, floor = 3s, cap = 40s)",
    "aq-k-slack(error = 2%, of = sum(v), window = 10s, span = 1m, cap = 1h)",
];

#[test]
fn what_is_written_is_read_back() {
    for text in ALL {
        let plan = plan(text);
        assert_eq!(PolicyPlan::parse(&plan.to_string()), Ok(Some(plan.clone())), "{plan}");
    }
    assert_eq!(plan("quantile( 99 % )").to_string(), "quantile(0.99, span = 10m)");
    assert_eq!(plan("K-Slack").to_string(), "k-slack(decay = 0.5, span = 10m)");
    let quality = plan("aq-k-slack(error=1%,of=count(*),window=1 minute,groups=10)");
    let text = "aq-k-slack(error = 0.01, of = count(*), window = 1m, groups = 10, span = 10m)";
    assert_eq!(quality.to_string(), text);
    assert_eq!(PolicyPlan::parse("fixed"), Ok(None));
}

#[test]
fn wrong_texts_say_what_was_expected() {
    for (text, message) in [
        ("keyed(5s)", "keyed watermarks are in the lateness lab only"),
        ("median", "expected fixed, quantile, k-slack, aq-k-slack, found 'median'"),
        ("quantile(0.9", "expected ')' at the end of 'quantile(0.9'"),
        ("quantile()", "quantile: which one is missing"),
        ("quantile(0)", "quantile: setting \"q\": expected a share over 0, at most 1, such as 0.99 or 99%, found '0'"),
        ("quantile(0.9, spam = 1m)", "quantile: setting \"spam\" is not known"),
        ("quantile(0.9, 0.8)", "quantile: expected name = setting, found '0.8'"),
        ("quantile(0.9, span = 1m, span = 2m)", "quantile: setting \"span\" is given twice"),
        ("quantile(0.9, span = 10)", "quantile: setting \"span\": expected a duration such as 10s, found '10'"),
        ("quantile(0.9, floor = 5s, cap = 1s)", "quantile: setting \"cap\": expected at least the floor, found '1s'"),
        ("k-slack(decay = 2)", "k-slack: setting \"decay\": expected a share from 0 to 1, such as 0.5, found '2'"),
        ("aq-k-slack(column = v, error = 1%)", "aq-k-slack: setting \"column\" is not known"),
        ("aq-k-slack(sum(v), 1%)", "aq-k-slack: expected name = setting, found 'sum(v)'"),
        ("aq-k-slack(error = 1%)", "aq-k-slack: setting \"of\" is missing"),
        (
            "aq-k-slack(error = 1%, of = max(v), window = 1m)",
            "aq-k-slack: setting \"of\": expected count(*), sum(column) or avg(column), found 'max(v)'",
        ),
        ("fixed(1s)", "fixed: expected no settings, found '1s'"),
    ] {
        assert_eq!(PolicyPlan::parse(text).expect_err(text).message, message);
    }
}

/// The state after a prefix does not depend on what follows, and the delay stays within its bounds.
#[test]
fn a_policy_is_a_function_of_the_prefix() {
    for text in ALL {
        let plan = plan(text);
        let events = stream(7, 5_000);
        let run = |n: usize| {
            let mut policy = Policy::new(&plan, 5 * S);
            events.iter().take(n).map(|et| policy.record(*et, Some(*et as f64))).collect::<Vec<_>>()
        };
        let whole = run(events.len());
        assert_eq!(run(1_234), whole[..1_234], "{text}");
        let mut newest = i64::MIN;
        let mut changes = 0;
        let mut last = 5 * S;
        for (et, watermark) in events.iter().zip(&whole) {
            newest = newest.max(*et);
            let delay = newest - watermark;
            let DelayBounds { floor_us, cap_us } = plan.bounds();
            assert!(delay == 5 * S || (floor_us..=cap_us).contains(&delay), "{text}: {delay}");
            changes += usize::from(delay != last);
            last = delay;
        }
        assert!(changes > 1, "{text}: the delay never changed");
    }
}

/// The quantile against sorted lags of the sixteen steps before.
#[test]
fn quantiles_are_those_of_the_last_steps() {
    let (span_us, q) = (32 * S, 0.9);
    let mut policy = Policy::new(&plan("quantile(0.9, span = 32s)"), 5 * S);
    let (mut newest, mut lags) = (i64::MIN, Vec::new());
    let (mut expected, mut step) = (5 * S, i64::MIN);
    for et in stream(3, 4_000) {
        if et > newest {
            let now = et.div_euclid(span_us / STEPS);
            if newest > i64::MIN && now != step {
                let mut recent: Vec<i64> = lags.iter().filter(|(s, _)| now - s <= STEPS).map(|(_, lag)| *lag).collect();
                recent.sort_unstable();
                if recent.len() >= RECORDS_MIN as usize {
                    expected = recent[(q * recent.len() as f64).ceil() as usize - 1];
                }
            }
            step = now;
            newest = et;
        }
        lags.push((step, newest - et));
        let delay = newest - policy.record(et, None);
        assert!(delay >= expected && delay <= expected + expected / 64, "{delay} {expected}");
    }
}

#[test]
fn k_grows_at_once_and_decays_by_spans() {
    let mut policy = Policy::new(&plan("k-slack(decay = 0.5, span = 10s, cap = 60s)"), 4 * S);
    let mut delay = |et| {
        policy.record(et, None);
        policy.delay_us()
    };
    assert_eq!(delay(100 * S), 4 * S);
    assert_eq!(delay(92 * S), 8 * S, "for the records after it");
    assert_eq!(delay(0), 60 * S, "at most the cap");
    assert_eq!(delay(110 * S), 60 * S, "the span had a lag as great");
    assert_eq!(delay(120 * S), 30 * S);
    assert_eq!(delay(100 * S), 30 * S);
    assert_eq!(delay(130 * S), 20 * S, "15 s would be less than the greatest lag of the span");
    assert_eq!(delay(150 * S), 5 * S, "two spans without lags");
}

/// With stationary lags the feedback settles, and about as many records miss as were allowed.
#[test]
fn the_error_stays_under_the_target() {
    let window_us = 60 * S;
    let mut policy = Policy::new(&plan("aq-k-slack(error = 2%, of = count(*), window = 1m, span = 5m)"), 0);
    let mut windows: std::collections::BTreeMap<i64, (u64, u64)> = std::collections::BTreeMap::new();
    let (mut reached, mut delays) = (i64::MIN, Vec::new());
    for et in stream(11, 200_000) {
        reached = reached.max(policy.record(et, None));
        let window = et.div_euclid(window_us);
        let counts = windows.entry(window).or_default();
        counts.0 += u64::from(reached >= (window + 1) * window_us);
        counts.1 += 1;
        delays.push(policy.delay_us());
    }
    let late: Vec<f64> = windows.values().skip(10).map(|(missed, all)| *missed as f64 / *all as f64).collect();
    let over = late.iter().filter(|share| **share > 0.02).count();
    assert!(over * 10 <= late.len(), "{over} of {} windows over the target", late.len());
    let mean = delays.iter().map(|d| *d as f64).sum::<f64>() / delays.len() as f64;
    assert!(mean < 60e6, "{mean}: the greatest lag is 90 s");
}
