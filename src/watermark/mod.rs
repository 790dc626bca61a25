//! Watermarks: partitions, idleness, ticks and stamps. Pure: no timely, no I/O, no clock.
//!
//! [`sequential`] follows the contract record by record; [`blocks`] gives the same stamps for blocks that were decoded
//! in parallel. [`policy`] has delays that follow the disorder. Watermarks are `i64` microseconds with [`BEFORE_ALL`] (−∞) and [`AFTER_ALL`] (+∞).

pub mod blocks;
pub mod policy;
pub mod sequential;

use crate::plan::LatenessScope;

/// −∞: nothing is promised yet.
pub const BEFORE_ALL: i64 = i64::MIN;
/// +∞: the input has ended.
pub const AFTER_ALL: i64 = i64::MAX;

/// Settings of a source that stamps depend on. Microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct WatermarkSettings {
    /// Which partitions a stamp depends on.
    pub scope: LatenessScope,
    /// At least one tick; only with arrival times.
    pub idle_timeout_us: Option<i64>,
    /// Stamps and watermarks are rounded down to a multiple of it; > 0.
    pub granularity_us: i64,
    /// Length of a tick of arrival time; > 0.
    pub tick_us: i64,
}

/// Rounds a watermark down to a multiple of `granularity_us` (floor, also below zero); the infinities stay.
pub fn round_down(watermark_us: i64, granularity_us: i64) -> i64 {
    if watermark_us == BEFORE_ALL || watermark_us == AFTER_ALL {
        return watermark_us;
    }
    let rest = watermark_us.rem_euclid(granularity_us);
    watermark_us.checked_sub(rest).unwrap_or(BEFORE_ALL)
}
