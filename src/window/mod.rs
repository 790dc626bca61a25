//! Window arithmetic: which windows hold an event time, and the slices that overlapping windows share.
//!
//! Windows are `[k·slide + offset, k·slide + offset + size)` for every integer `k`, with floor division below zero as
//! above. The line is cut at every start and every end of a window; the pieces are **slices**. A record belongs to one
//! slice; a window is a run of whole slices. There are at most two slices a slide, whatever the divisors of size and
//! slide, so that work per record does not grow with `size / slide`. (Cutting by panes goes back to Li et al., "No pane,
//! no gain", SIGMOD Record 2005; cutting only at window edges to Carbone et al., "Cutty", CIKM 2016.)
//!
//! Invariant: every method is exact for event times within [`EVENT_TIME_MIN_US`]‥[`EVENT_TIME_MAX_US`] and windows of at
//! most 10,000 years; both are checked before anything gets here.
//!
//! [`EVENT_TIME_MIN_US`]: crate::time::EVENT_TIME_MIN_US
//! [`EVENT_TIME_MAX_US`]: crate::time::EVENT_TIME_MAX_US

pub mod core;
mod running;

use crate::plan::WindowPlan;
use std::ops::Range;

/// The greatest window size: 10,000 years of 365.25 days, in microseconds.
pub const SIZE_MAX_US: i64 = 315_576_000_000_000_000;

/// Assigns event times to slices and slices to windows. Windows are numbered by `k`, slices by their own index; both
/// grow with time.
///
/// ```
/// use slackwater::{plan::WindowPlan, window::Assigner};
/// let hop = Assigner::new(WindowPlan { size_us: 10, slide_us: 5, offset_us: 0 });
/// let slice = hop.slice(-1);
/// let windows: Vec<_> = hop.windows_of_slice(slice).map(|k| hop.bounds(k)).collect();
/// assert_eq!(windows, [(-10, 0), (-5, 5)]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigner {
    size: i64,
    slide: i64,
    offset: i64,
    /// `size mod slide`: where within a slide windows end. 0: ends fall on starts.
    rest: i64,
    /// `size div slide`.
    whole: i64,
}

impl Assigner {
    /// For a checked plan: `0 < slide ≤ size ≤` [`SIZE_MAX_US`].
    ///
    /// # Panics
    /// If the plan breaks these bounds.
    pub fn new(plan: WindowPlan) -> Self {
        assert!(
            plan.slide_us > 0 && plan.slide_us <= plan.size_us && plan.size_us <= SIZE_MAX_US,
            "unchecked {plan:?}"
        );
        Assigner {
            size: plan.size_us,
            slide: plan.slide_us,
            offset: plan.offset_us.rem_euclid(plan.slide_us),
            rest: plan.size_us % plan.slide_us,
            whole: plan.size_us / plan.slide_us,
        }
    }

    /// Whether every window is a single slice.
    pub fn is_tumbling(&self) -> bool {
        self.size == self.slide
    }

    /// The slice of an event time.
    #[inline]
    pub fn slice(&self, event_time_us: i64) -> i64 {
        let shifted = event_time_us - self.offset;
        let slide = shifted.div_euclid(self.slide);
        if self.rest == 0 { slide } else { 2 * slide + i64::from(shifted - slide * self.slide >= self.rest) }
    }

    /// Start and end of a slice.
    pub fn slice_bounds(&self, slice: i64) -> (i64, i64) {
        if self.rest == 0 {
            let start = slice * self.slide + self.offset;
            return (start, start + self.slide);
        }
        let start = slice.div_euclid(2) * self.slide + self.offset;
        if slice.rem_euclid(2) == 0 { (start, start + self.rest) } else { (start + self.rest, start + self.slide) }
    }

    /// Start and end of window `k`.
    pub fn bounds(&self, k: i64) -> (i64, i64) {
        let start = k * self.slide + self.offset;
        (start, start + self.size)
    }

    /// The windows that contain a slice, ascending.
    pub fn windows_of_slice(&self, slice: i64) -> Range<i64> {
        if self.rest == 0 {
            slice - self.whole + 1..slice + 1
        } else {
            let slide = slice.div_euclid(2);
            slide - self.whole + slice.rem_euclid(2)..slide + 1
        }
    }

    /// The most windows that a slice can be in.
    pub fn windows_sharing_a_slice(&self) -> i64 {
        self.whole + i64::from(self.rest != 0)
    }

    /// The slices of window `k`, ascending.
    pub fn slices_of_window(&self, k: i64) -> Range<i64> {
        if self.rest == 0 { k..k + self.whole } else { 2 * k..2 * (k + self.whole) + 1 }
    }

    /// The end of the first window to close among those that contain the slice.
    #[inline]
    pub fn first_end(&self, slice: i64) -> i64 {
        self.bounds(self.windows_of_slice(slice).start).1
    }

    /// The end of the last window that contains the slice.
    #[inline]
    pub fn last_end(&self, slice: i64) -> i64 {
        self.bounds(self.windows_of_slice(slice).end - 1).1
    }

    /// The greatest `k` whose window ends at or before `time_us` (saturating at the ends of the line).
    pub fn last_closed(&self, time_us: i64) -> i64 {
        let shifted = i128::from(time_us) - i128::from(self.size) - i128::from(self.offset);
        let k = shifted.div_euclid(i128::from(self.slide));
        // Kept well inside 64 bits so that neighbours can be computed.
        i64::try_from(k).unwrap_or(if k < 0 { i64::MIN } else { i64::MAX }).clamp(i64::MIN / 4, i64::MAX / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every size, slide and offset in a small range, around zero, against the definition.
    #[test]
    fn small_ranges_exhaustively() {
        for size in 1..=9i64 {
            for slide in 1..=size {
                for offset in 0..slide {
                    let plan = WindowPlan { size_us: size, slide_us: slide, offset_us: offset };
                    check(&Assigner::new(plan), size, slide, offset);
                }
            }
        }
    }

    fn check(assigner: &Assigner, size: i64, slide: i64, offset: i64) {
        for t in -40..40i64 {
            let expected: Vec<i64> =
                (-100..100).filter(|k| k * slide + offset <= t && t < k * slide + offset + size).collect();
            let slice = assigner.slice(t);
            let found: Vec<i64> = assigner.windows_of_slice(slice).collect();
            assert_eq!(found, expected, "t {t} size {size} slide {slide} offset {offset}");
            assert!(found.len() as i64 <= assigner.windows_sharing_a_slice());
            let (start, end) = assigner.slice_bounds(slice);
            assert!(start <= t && t < end, "t {t} in slice [{start}, {end})");
            for k in expected {
                assert!(assigner.slices_of_window(k).contains(&slice));
                let (start, end) = assigner.bounds(k);
                assert_eq!((start, end), (k * slide + offset, k * slide + offset + size));
            }
            assert_eq!(
                assigner.first_end(slice),
                assigner.windows_of_slice(slice).map(|k| assigner.bounds(k).1).min().unwrap()
            );
            assert_eq!(
                assigner.last_end(slice),
                assigner.windows_of_slice(slice).map(|k| assigner.bounds(k).1).max().unwrap()
            );
            let closed = assigner.last_closed(t);
            assert!(assigner.bounds(closed).1 <= t && assigner.bounds(closed + 1).1 > t);
        }
        for k in -20..20i64 {
            let slices = assigner.slices_of_window(k);
            let (start, end) = assigner.bounds(k);
            assert_eq!(assigner.slice_bounds(slices.start).0, start);
            assert_eq!(assigner.slice_bounds(slices.end - 1).1, end);
            for slice in slices.clone() {
                assert!(assigner.windows_of_slice(slice).contains(&k));
                assert_eq!(assigner.slice_bounds(slice).1, assigner.slice_bounds(slice + 1).0);
            }
        }
    }

    #[test]
    fn ends_of_the_line() {
        let assigner = Assigner::new(WindowPlan { size_us: 7, slide_us: 3, offset_us: 1 });
        assert!(assigner.last_closed(i64::MIN) < -1_000_000_000_000);
        assert!(assigner.last_closed(i64::MAX) > 1_000_000_000_000);
    }
}
