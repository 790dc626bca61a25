//! Axes of plots: where a value stands, and which values are written on them.
//!
//! Places come from `libm`, so that a plot is the same bytes on every machine.

use crate::lab::show::rough;
use crate::sink::summary::grouped;
use crate::time::format_timestamp;

/// How values stand on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    Linear,
    /// By the logarithm; what is at most `floor` stands there.
    Log {
        floor: f64,
    },
    /// Shares by the logarithm of what is missing: 90 %, 99 %, 99.9 % at equal steps; the whole stands at `top`.
    Nines {
        top: f64,
    },
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub(super) title: String,
    scale: Scale,
    /// Where it begins and ends, as places.
    pub(super) range: (f64, f64),
    /// Places with what is written there, ascending.
    pub(super) ticks: Vec<(f64, String)>,
}

/// Ticks keep this share of the axis between them.
const APART: f64 = 0.075;

/// Candidates that lie on the axis, the more important first, as far as they do not come too close to one another.
fn apart((from, to): (f64, f64), candidates: impl Iterator<Item = (f64, String)>) -> Vec<(f64, String)> {
    let mut out: Vec<(f64, String)> = Vec::new();
    let least = (to - from) * APART;
    for (place, text) in candidates {
        let close = out.iter().any(|(other, _)| (other - place).abs() < least);
        if place >= from && place <= to && !close {
            out.push((place, text));
        }
    }
    out.sort_by(|a, b| a.0.total_cmp(&b.0));
    out
}

fn bounds(places: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    places.fold(None, |found, place| match found {
        None => Some((place, place)),
        Some((low, high)) => Some((place.min(low), place.max(high))),
    })
}

const SECOND: f64 = 1e6;
const MINUTE: f64 = 60.0 * SECOND;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// Durations to write on an axis, the more important first.
fn durations() -> Vec<f64> {
    let mut out = vec![1.0, 1e3, SECOND, MINUTE, HOUR, DAY, 10.0 * DAY, 100.0 * DAY, 1_000.0 * DAY];
    out.extend([10.0, 100.0, 1e4, 1e5, 10.0 * SECOND, 10.0 * MINUTE, 6.0 * HOUR]);
    let small = [1.0, 1e3].iter().flat_map(|unit| [2.0, 5.0, 20.0, 50.0, 200.0, 500.0].map(|n| n * unit));
    let sixty = [SECOND, MINUTE].iter().flat_map(|unit| [30.0, 2.0, 5.0, 20.0, 3.0, 15.0, 45.0].map(|n| n * unit));
    out.extend(small.chain(sixty));
    out.extend([3.0, 12.0, 2.0, 18.0, 9.0, 15.0, 4.0].map(|n| n * HOUR));
    out.extend([3.0, 30.0, 300.0, 2.0, 5.0, 20.0, 50.0, 200.0, 500.0, 1.5, 2.5, 4.0, 7.0].map(|n| n * DAY));
    out
}

impl Axis {
    /// Durations in µs, by the logarithm; 0 stands at the beginning.
    pub fn durations(title: &str, values_us: impl Iterator<Item = u64> + Clone) -> Axis {
        let logs = values_us.clone().filter(|us| *us > 0).map(|us| libm::log10(us as f64));
        let (low, high) = bounds(logs).unwrap_or((6.0, 6.0));
        let wide = (high - low).max(0.5);
        let zero = values_us.clone().any(|us| us == 0);
        let from = if zero { low - 0.2 * wide } else { low - 0.05 * wide };
        let range = (from, high + (wide - (high - low)) + 0.05 * wide);
        let first = zero.then(|| (from, "0s".to_owned()));
        let others = durations().into_iter().map(|us| (libm::log10(us), rough(us as u64)));
        let floor = if zero { from } else { f64::NEG_INFINITY };
        Axis {
            title: title.to_owned(),
            scale: Scale::Log { floor },
            range,
            ticks: apart(range, first.into_iter().chain(others)),
        }
    }

    /// Shares, 90 %, 99 % and 99.9 % at equal steps.
    pub fn nines(title: &str, shares: impl Iterator<Item = f64> + Clone) -> Axis {
        let (low, high) = bounds(shares.clone().filter(|share| *share < 1.0).map(nines)).unwrap_or((1.0, 1.0));
        let wide = (high - low).max(0.3);
        let whole = shares.clone().any(|share| share >= 1.0);
        let top = high + (wide - (high - low)) + if whole { 0.2 * wide } else { 0.05 * wide };
        let range = ((low - 0.05 * wide).max(0.0), top);
        let first = whole.then(|| (top, "100 %".to_owned()));
        let steps = (0..16).map(|n| 1.0 - libm::pow(10.0, -f64::from(n)));
        let halves = (0..15)
            .flat_map(|n| [0.5, 0.8, 0.7, 0.6, 0.4, 0.3].map(|x| 1.0 - (1.0 - x) * libm::pow(10.0, -f64::from(n))));
        let others = steps.chain(halves).map(|share| (nines(share), exact_percent(share)));
        Axis {
            title: title.to_owned(),
            scale: Scale::Nines { top },
            range,
            ticks: apart(range, first.into_iter().chain(others)),
        }
    }

    /// Shares by the logarithm, from the least up to the whole.
    pub fn shares(title: &str, shares: impl Iterator<Item = f64> + Clone) -> Axis {
        let logs = shares.filter(|share| *share > 0.0).map(libm::log10);
        let range = (bounds(logs).map_or(-1.0, |(low, _)| low - 0.05).min(-0.3), 0.05);
        let tick = |place: f64| (place, exact_percent(libm::pow(10.0, place)));
        let ticks = apart(range, (0..16).map(|n| tick(-f64::from(n))));
        Axis { title: title.to_owned(), scale: Scale::Log { floor: range.0 }, range, ticks }
    }

    /// Sizes of relative errors, by the logarithm; 0 stands at the beginning.
    pub fn errors(title: &str, errors: impl Iterator<Item = f64> + Clone) -> Axis {
        let logs = errors.clone().filter(|error| *error > 0.0).map(libm::log10);
        let (low, high) = bounds(logs).unwrap_or((-2.0, -2.0));
        let wide = (high - low).max(0.5);
        let zero = errors.clone().any(|error| error <= 0.0);
        let from = if zero { low - 0.2 * wide } else { low - 0.05 * wide };
        let range = (from, high + (wide - (high - low)) + 0.05 * wide);
        let first = zero.then(|| (from, "0 %".to_owned()));
        let steps = [0.0, libm::log10(5.0), libm::log10(2.0)];
        let others = steps.into_iter().flat_map(|step| (-12..6).map(move |n| f64::from(n) + step));
        let others = others.map(|place| (place, exact_percent(libm::pow(10.0, place))));
        let floor = if zero { from } else { f64::NEG_INFINITY };
        let ticks = apart(range, first.into_iter().chain(others));
        Axis { title: title.to_owned(), scale: Scale::Log { floor }, range, ticks }
    }

    /// Counts from 1, by the logarithm.
    pub fn counts(title: &str, counts: impl Iterator<Item = u64>) -> Axis {
        let most = libm::log10(counts.max().unwrap_or(1).max(10) as f64);
        let range = (-0.1, most + 0.1);
        let ticks = [1u64, 5, 2].into_iter().flat_map(|n| (0..19).map(move |power| n.saturating_mul(10u64.pow(power))));
        let ticks = apart(range, ticks.map(|n| (libm::log10(n as f64), grouped(n))));
        Axis { title: title.to_owned(), scale: Scale::Log { floor: -0.1 }, range, ticks }
    }

    /// Whole numbers from 0.
    pub fn numbers(title: &str, most: u64) -> Axis {
        let most = most.max(1);
        let steps = (0..18).flat_map(|power| [1u64, 2, 5].map(|n| n * 10u64.pow(power)));
        let step = steps.into_iter().find(|step| most / step <= 12).unwrap_or(most);
        let range = (-0.02 * most as f64, 1.03 * most as f64);
        let ticks = (0..=most / step).map(|n| ((n * step) as f64, grouped(n * step))).collect();
        Axis { title: title.to_owned(), scale: Scale::Linear, range, ticks }
    }

    /// Event times, µs since 1970.
    pub fn times(title: &str, from_us: i64, upto_us: i64) -> Axis {
        let wide = upto_us.saturating_sub(from_us).max(1);
        let (second, hour, day) = (SECOND as i64, HOUR as i64, DAY as i64);
        let minutes = [1, 2, 5, 10, 15, 30].map(|n| n * 60 * second);
        let seconds = [1, 2, 5, 10, 15, 30].map(|n| n * second);
        let hours = [1, 2, 3, 6, 12].map(|n| n * hour);
        let days = [1, 2, 5, 7, 14, 30, 91, 182, 365, 730, 1_826, 3_652, 36_525].map(|n| n * day);
        let steps = seconds.into_iter().chain(minutes).chain(hours).chain(days);
        let step_us = steps.into_iter().find(|step| wide / step <= 7).unwrap_or(wide);
        let first = from_us.div_euclid(step_us).saturating_mul(step_us);
        let ticks = (0..10).map(|n| first.saturating_add(step_us.saturating_mul(n)));
        let text = |us: i64| {
            let mut text = String::new();
            format_timestamp(us, &mut text);
            let (date, time) = text.trim_end_matches('Z').split_once('T').unwrap_or((&text, ""));
            match step_us {
                _ if step_us >= day => date.to_owned(),
                _ if wide > day => format!("{} {}", date.get(5..).unwrap_or(date), time.get(..5).unwrap_or(time)),
                _ if step_us >= 60 * second => time.get(..5).unwrap_or(time).to_owned(),
                _ => time.to_owned(),
            }
        };
        let inside = ticks.filter(|us| (from_us..=upto_us).contains(us));
        let ticks = inside.map(|us| (us as f64, text(us))).collect();
        let range = (from_us as f64, from_us.saturating_add(wide) as f64);
        Axis { title: title.to_owned(), scale: Scale::Linear, range, ticks }
    }

    /// Where a value stands.
    pub fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log { floor } if value <= 0.0 => floor,
            Scale::Log { floor } => libm::log10(value).max(floor),
            Scale::Nines { top } if value >= 1.0 => top,
            Scale::Nines { .. } => nines(value),
        }
    }
}

/// 0 for 0 %, 1 for 90 %, 2 for 99 %.
fn nines(share: f64) -> f64 {
    -libm::log10((1.0 - share).max(1e-16))
}

/// A percentage in full, without the noise of binary fractions.
fn exact_percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = match percent.abs() {
        size if (1.0..99.0).contains(&size) => 1,
        size if size >= 100.0 => 0,
        _ => 12,
    };
    let text = format!("{percent:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_apart() {
        let day = 86_400_000_000i64;
        assert_eq!(
            texts(&Axis::durations("", [0, 1_000_000, day.unsigned_abs()].into_iter())),
            ["0s", "1s", "3s", "10s", "1m", "3m", "10m", "1h", "6h", "1d"]
        );
        assert_eq!(
            texts(&Axis::nines("", [0.789, 0.982].into_iter())),
            ["80 %", "90 %", "93 %", "95 %", "96 %", "97 %", "98 %"]
        );
        assert_eq!(
            texts(&Axis::nines("", [0.5, 0.9999, 1.0].into_iter())),
            ["50 %", "90 %", "97 %", "99 %", "99.7 %", "99.9 %", "99.97 %", "99.99 %", "100 %"]
        );
        assert_eq!(texts(&Axis::shares("", [1.0, 0.0004].into_iter())), ["0.1 %", "1 %", "10 %", "100 %"]);
        assert_eq!(
            texts(&Axis::counts("", [1, 2_000].into_iter())),
            ["1", "2", "5", "10", "20", "50", "100", "200", "500", "1,000", "2,000"]
        );
        assert_eq!(texts(&Axis::numbers("", 33)), ["0", "5", "10", "15", "20", "25", "30"]);
        let times = Axis::times("", 1_517_300_000_000_000, 1_517_300_000_000_000 + 3 * day);
        assert_eq!(
            texts(&times),
            ["01-30 12:00", "01-31 00:00", "01-31 12:00", "02-01 00:00", "02-01 12:00", "02-02 00:00"]
        );
    }

    #[test]
    fn places_ascend_with_values_and_stay_on_the_axis() {
        let axes = [
            Axis::durations("", [0, 5, 70_000_000].into_iter()),
            Axis::durations("", std::iter::empty()),
            Axis::nines("", [0.2, 0.5, 1.0].into_iter()),
            Axis::nines("", std::iter::empty()),
            Axis::errors("", [0.0, 0.1, 12.0].into_iter()),
        ];
        let values = [[0.0, 5.0, 7e7], [1e6, 1e6, 1e6], [0.2, 0.5, 1.0], [0.9, 0.92, 0.94], [0.0, 0.1, 12.0]];
        for (axis, values) in axes.iter().zip(values) {
            let places = values.map(|value| axis.place(value));
            assert!(places.is_sorted(), "{axis:?}");
            assert!(places.iter().all(|place| (axis.range.0..=axis.range.1).contains(place)), "{places:?} {axis:?}");
        }
    }
}
