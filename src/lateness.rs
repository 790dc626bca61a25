//! Lateness of a contribution: on time, late and accepted, or too late. Pure.
//!
//! A record is judged once for each of its windows, by its stamp alone, and never again:
//!
//! | condition | class |
//! | --- | --- |
//! | `stamp < end` | [`Lateness::OnTime`] |
//! | `stamp ≥ end` and `stamp − end ≤ horizon` | [`Lateness::Late`] |
//! | `stamp − end > horizon`, or no horizon is set | [`Lateness::TooLate`] |
//!
//! Invariant: the three are disjoint and cover everything; a later stamp is never judged milder. Cost: none.

/// The class of a contribution, that is of a record in one of its windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lateness {
    /// Part of the window's first result.
    OnTime,
    /// Corrects the window's result at the record's stamp.
    Late,
    /// Dropped and counted.
    TooLate,
}

/// Judges a contribution by the record's stamp, the window's end (for a session: event time plus gap) and the horizon.
/// Microseconds; exact over the whole 64-bit range.
///
/// ```
/// use slackwater::lateness::{Lateness, classify};
/// assert_eq!(classify(9, 10, None), Lateness::OnTime);
/// assert_eq!(classify(10, 10, None), Lateness::TooLate);
/// assert_eq!(classify(10, 10, Some(0)), Lateness::Late);
/// assert_eq!(classify(11, 10, Some(0)), Lateness::TooLate);
/// ```
pub fn classify(stamp_us: i64, end_us: i64, horizon_us: Option<i64>) -> Lateness {
    if stamp_us < end_us {
        return Lateness::OnTime;
    }
    match horizon_us {
        Some(horizon_us) if i128::from(stamp_us) - i128::from(end_us) <= i128::from(horizon_us) => Lateness::Late,
        _ => Lateness::TooLate,
    }
}

/// How far past the window's end (or, under `late_records = 'drop'`, past its event time) a record came; never negative.
pub fn lag_us(stamp_us: i64, end_us: i64) -> i64 {
    stamp_us.saturating_sub(end_us).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_small_combinations() {
        for stamp in -12..12 {
            for end in -6..6 {
                assert_eq!(classify(stamp, end, None) == Lateness::OnTime, stamp < end);
                assert_eq!(classify(stamp, end, None) == Lateness::TooLate, stamp >= end);
                for horizon in 0..8 {
                    let expected = match stamp - end {
                        i64::MIN..=-1 => Lateness::OnTime,
                        lag if (0..=horizon).contains(&lag) => Lateness::Late,
                        _ => Lateness::TooLate,
                    };
                    assert_eq!(classify(stamp, end, Some(horizon)), expected, "{stamp} {end} {horizon}");
                    assert!(classify(stamp, end, Some(horizon)) <= classify(stamp + 1, end, Some(horizon)));
                    assert!(classify(stamp, end, Some(horizon)) >= classify(stamp, end, Some(horizon + 1)));
                }
            }
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        assert_eq!(classify(i64::MIN, i64::MIN, Some(0)), Lateness::Late);
        assert_eq!(classify(i64::MIN, 0, None), Lateness::OnTime);
        assert_eq!(classify(i64::MAX, i64::MIN, Some(i64::MAX)), Lateness::TooLate);
        assert_eq!(classify(i64::MAX, 0, Some(i64::MAX)), Lateness::Late);
        assert_eq!(lag_us(i64::MAX, i64::MIN), i64::MAX);
        assert_eq!(lag_us(3, 5), 0);
    }
}
