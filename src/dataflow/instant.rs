//! [`Instant`] as a timestamp of timely and differential: a total order, the least instant being −∞.

use crate::time::Instant;
use differential_dataflow::lattice::{Lattice, Maximum};
use timely::order::{PartialOrder, TotalOrder};
use timely::progress::Timestamp;
use timely::progress::timestamp::{PathSummary, Refines};

impl PartialOrder for Instant {
    fn less_than(&self, other: &Self) -> bool {
        self < other
    }
    fn less_equal(&self, other: &Self) -> bool {
        self <= other
    }
}
impl TotalOrder for Instant {}

impl PathSummary<Instant> for Instant {
    fn results_in(&self, src: &Instant) -> Option<Instant> {
        self.0.checked_add(src.0).map(Instant)
    }
    fn followed_by(&self, other: &Instant) -> Option<Instant> {
        self.0.checked_add(other.0).map(Instant)
    }
}

impl Timestamp for Instant {
    type Summary = Instant;
    fn minimum() -> Self {
        Instant(i64::MIN)
    }
}

impl Refines<()> for Instant {
    fn to_inner((): ()) -> Self {
        Instant::minimum()
    }
    fn to_outer(self) {}
    fn summarize(_: Instant) {}
}

impl Lattice for Instant {
    fn join(&self, other: &Self) -> Self {
        *self.max(other)
    }
    fn meet(&self, other: &Self) -> Self {
        *self.min(other)
    }
}

impl Maximum for Instant {
    fn maximum() -> Self {
        Instant(i64::MAX)
    }
}
