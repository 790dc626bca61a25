//! Times and durations at the edges: text to microseconds and back. Inside, times are `i64` microseconds. (Owner: source)

/// Earliest supported event time (year −9999), in microseconds: with windows of at most 10,000 years nothing overflows.
pub const EVENT_TIME_MIN_US: i64 = -377_705_116_800_000_000;
/// Latest supported event time (end of year 9999), in microseconds.
pub const EVENT_TIME_MAX_US: i64 = 253_402_300_799_999_999;

/// A logical instant (SEMANTICS §4): `2t` is the instant `t`, `2t − 1` is `t⁻`, when the watermark reaches `t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Instant(pub i64);

impl Instant {
    /// The instant `end⁻` at which a window closes.
    pub fn closing(end_us: i64) -> Instant {
        Instant(end_us.saturating_mul(2).saturating_sub(1))
    }
    /// The instant of records stamped `stamp_us`; −∞ is the least instant.
    pub fn of_stamp(stamp_us: i64) -> Instant {
        Instant(stamp_us.saturating_mul(2))
    }
    /// The time `t` it belongs to, and whether it is `t⁻`.
    pub fn time(self) -> (i64, bool) {
        if self.0 == i64::MIN {
            return (i64::MIN, false);
        }
        (self.0.div_euclid(2) + self.0.rem_euclid(2), self.0.rem_euclid(2) == 1)
    }
}

/// Reads an RFC 3339-like timestamp (`2026-01-01T00:00:00.123456+01:00`, `T` or a space, `Z`, an offset or none = UTC; a date alone is
/// its midnight) as microseconds since 1970. Digits finer than a microsecond are floored. Second 60 is clamped to the
/// last microsecond of 23:59:59 UTC when the minute is 23:59 UTC on the last day of a month, else refused.
///
/// # Errors
/// `None` if it is no timestamp.
pub fn parse_timestamp(_text: &[u8]) -> Option<i64> {
    todo!()
}

/// Reads `YYYY-MM-DD` as days since 1970.
pub fn parse_date(_text: &[u8]) -> Option<i64> {
    todo!()
}

/// Appends RFC 3339 with `Z` and a fraction of 3, 6 or no digits, the shortest that is exact.
pub fn format_timestamp(_us: i64, _out: &mut String) {
    todo!()
}

/// Appends `YYYY-MM-DD`.
pub fn format_date(_days: i64, _out: &mut String) {
    todo!()
}

/// Reads a duration: `5s`, `1h30m`, `250ms`, `2d`, `10us`, also `3 minutes`, `1 day 2 hours`, `30 seconds`; microseconds. A sign is allowed.
/// Months and years are refused (they have no fixed length), and so is what passes 64 bits.
///
/// # Errors
/// What is wrong (lower case, no full stop).
pub fn parse_duration(_text: &str) -> Result<i64, String> {
    todo!()
}

/// Writes a duration as `1h30m`, `250ms`, `0s`.
pub fn format_duration(_us: i64) -> String {
    todo!()
}
