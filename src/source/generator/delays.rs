//! Delays as their quantiles are published: "90 % within a millisecond, 99 % within an hour".

use crate::time::{format_duration, parse_duration};

/// Points of a distribution of delays, ascending: so long at most (µs) is this share (0 to 1), the last of which is 1. Between two
/// points delays are spread evenly over the logarithm, below the first evenly from 0.
pub type DelayQuantiles = Vec<(i64, f64)>;

/// Reads `1ms:90%, 1h:99%, 1d:100%`.
///
/// # Errors
/// Says what was expected.
pub fn parse_quantiles(text: &str) -> Result<DelayQuantiles, String> {
    let expected = |found: &str| format!("expected delays with shares such as '1ms:90%, 1h:100%', found '{found}'");
    let mut points = DelayQuantiles::new();
    for part in text.split(',') {
        let (delay, share) = part.split_once(':').ok_or_else(|| expected(part.trim()))?;
        let delay_us = parse_duration(delay.trim())?;
        let percent = share.trim().strip_suffix('%').ok_or_else(|| expected(part.trim()))?;
        let percent: f64 = percent.trim().parse().map_err(|_| expected(part.trim()))?;
        points.push((delay_us, percent / 100.0));
    }
    check_quantiles(&points)?;
    Ok(points)
}

/// Whether the points are a distribution.
///
/// # Errors
/// Says what is wrong.
pub fn check_quantiles(points: &[(i64, f64)]) -> Result<(), String> {
    let mut last = (-1, 0.0);
    for &(delay_us, share) in points {
        if delay_us <= last.0 || !(share > last.1 && share <= 1.0) {
            let found = format!("{}:{}%", format_duration(delay_us), share * 100.0);
            return Err(format!("expected delays and shares that ascend, up to 100%, found '{found}'"));
        }
        last = (delay_us, share);
    }
    match points.last() {
        Some((_, share)) if *share < 1.0 => Err(format!("expected a last share of 100%, found {}%", share * 100.0)),
        _ => Ok(()),
    }
}

/// Writes what [`parse_quantiles`] reads.
pub fn show_quantiles(points: &[(i64, f64)]) -> String {
    let show = |(us, share): &(i64, f64)| format!("{}:{}%", format_duration(*us), share * 100.0);
    points.iter().map(show).collect::<Vec<_>>().join(", ")
}

/// The delay of a record whose place in the distribution is `u`, in (0, 1].
pub(super) fn delay_us(points: &[(i64, f64)], u: f64) -> f64 {
    let mut from = (0, 0.0);
    for &(upto_us, share) in points {
        if u <= share {
            let t = (u - from.1) / (share - from.1);
            let (a, b) = (from.0 as f64, upto_us as f64);
            return if a > 0.0 { a * libm::exp(t * libm::log(b / a)) } else { b * t };
        }
        from = (upto_us, share);
    }
    from.0 as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_met() {
        let points = parse_quantiles("1ms:90%, 1h:99% ,1d:100%").unwrap();
        assert_eq!(points, [(1_000, 0.9), (3_600_000_000, 0.99), (86_400_000_000, 1.0)]);
        assert_eq!(show_quantiles(&points), "1ms:90%, 1h:99%, 1d:100%");
        assert_eq!(delay_us(&points, 0.45), 500.0);
        assert_eq!(delay_us(&points, 0.9), 1_000.0);
        assert!((delay_us(&points, 0.99) / 3_600_000_000.0 - 1.0).abs() < 1e-9);
        assert!((delay_us(&points, 1.0) / 86_400_000_000.0 - 1.0).abs() < 1e-9);
        // Half way on the logarithm.
        assert!((delay_us(&points, 0.945) / (1_000.0 * 3_600_000_000.0_f64).sqrt() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn others_are_refused() {
        for text in [
            "",
            "1ms",
            "1ms:90",
            "1ms:90%",
            "1h:90%, 1ms:100%",
            "1ms:90%, 2ms:90%, 3ms:100%",
            "0s:0%, 1s:100%",
            "1s:101%",
        ] {
            assert!(parse_quantiles(text).is_err(), "{text}");
        }
        assert!(parse_quantiles("0s:50%, 1s:100%").is_ok());
    }
}
