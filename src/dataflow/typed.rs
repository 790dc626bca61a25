//! Windows for Rust programs: the same core as the SQL engine's, over the caller's own records, inside the caller's own
//! dataflow.
//!
//! The result is a differential collection of `(key, WindowResult)`: whatever follows (a `reduce`, a `join`, an
//! arrangement) is corrected with it. A window's row appears at the instant [`Instant::closing`]`(end)`; a late record
//! replaces it at [`Instant::of_stamp`] of its stamp.
//!
//! # Contract
//!
//! * The stream's timestamp is [`Instant`]. A record's **stamp** is the time of the capability it is sent at, which
//!   should be `Instant::of_stamp(w)` for the watermark `w` in force at the record ([`StampedInput`] does this).
//! * The frontier promises what timely's frontiers promise: no record with a lesser stamp comes. Windows close because
//!   the frontier reaches their end, nothing else.
//! * Event times lie within [`EVENT_TIME_MIN_US`]‥[`EVENT_TIME_MAX_US`]; others are dropped and counted as too late.
//! * No hooks or global state: any number of such operators can live in a process.
//!
//! ```
//! use slackwater::aggregate::monoid::Count;
//! use slackwater::dataflow::typed::{StampedInput, Windows};
//! use std::time::Duration;
//!
//! let minute = Duration::from_secs(60);
//! let second = 1_000_000;
//! timely::execute_directly(move |worker| {
//!     let (mut orders, changes) = worker.dataflow(|scope| {
//!         let (input, stream) = StampedInput::new(scope, Duration::from_secs(10));
//!         let results = Windows::tumbling(minute)
//!             .horizon(Duration::from_secs(180))
//!             .aggregate(stream, |_: &(i64, u32)| (), |order| order.0, Count::default());
//!         let changes = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
//!         let seen = changes.clone();
//!         results.inspect(move |(row, at, diff)| seen.borrow_mut().push((at.time().0, row.1.value, *diff)));
//!         (input, changes)
//!     });
//!     for et in [10, 20, 40, 70, 80, 50, 25] {
//!         orders.send((et * second, 7), et * second);
//!     }
//!     orders.close();
//!     while worker.has_dataflows() {
//!         worker.step();
//!     }
//!     let mut changes = changes.take();
//!     changes.sort();
//!     // Three orders on time; two late ones correct the minute at watermark 70.
//!     assert_eq!(changes, [(60 * second, 3, 1), (70 * second, 3, -1), (70 * second, 5, 1), (120 * second, 2, 1)]);
//! });
//! ```
//!
//! [`EVENT_TIME_MIN_US`]: crate::time::EVENT_TIME_MIN_US
//! [`EVENT_TIME_MAX_US`]: crate::time::EVENT_TIME_MAX_US

use super::operators::{Cutoff, forward, windows};
use crate::aggregate::monoid::Aggregate;
use crate::lateness::{Lateness, classify};
use crate::plan::WindowPlan;
use crate::time::{EVENT_TIME_MAX_US, EVENT_TIME_MIN_US, Instant};
use crate::watermark::round_down;
use crate::window::core::{Changes, Correction, SliceTable, WindowCore};
use crate::window::{Assigner, SIZE_MAX_US};
use differential_dataflow::{AsCollection, VecCollection};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::core::input::Handle;
use timely::dataflow::{Scope, Stream};

/// The result of one window for one key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct WindowResult<V> {
    /// End of the window (exclusive), in microseconds since 1970.
    pub end_us: i64,
    /// Start of the window.
    pub start_us: i64,
    /// Late records in the result.
    pub late_count: u64,
    /// The aggregate.
    pub value: V,
}

/// What became of contributions (record, window), summed over the workers of the process.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<[AtomicU64; 3]>);

impl Tally {
    fn add(&self, class: Lateness) {
        let [on_time, late, too_late] = &*self.0;
        let counter = match class {
            Lateness::OnTime => on_time,
            Lateness::Late => late,
            Lateness::TooLate => too_late,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
    /// On time, late (corrections), too late (dropped).
    pub fn counts(&self) -> (u64, u64, u64) {
        let [on_time, late, too_late] = &*self.0;
        (on_time.load(Ordering::Relaxed), late.load(Ordering::Relaxed), too_late.load(Ordering::Relaxed))
    }
}

/// Which windows, and how long late records may correct them.
#[derive(Clone, Debug)]
pub struct Windows {
    plan: WindowPlan,
    horizon_us: Option<i64>,
    tally: Tally,
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl Windows {
    /// Tumbling windows, aligned to 1970-01-01T00:00:00Z.
    ///
    /// # Panics
    /// If `size` is below a microsecond or above 10,000 years.
    pub fn tumbling(size: Duration) -> Self {
        Self::hopping(size, size)
    }

    /// Hopping windows of length `size`, one every `slide`.
    ///
    /// # Panics
    /// If `slide` is below a microsecond or above `size`, or `size` above 10,000 years.
    pub fn hopping(size: Duration, slide: Duration) -> Self {
        let plan = WindowPlan { size_us: micros(size), slide_us: micros(slide), offset_us: 0 };
        assert!(plan.slide_us > 0, "the slide of a window must be at least a microsecond, found {slide:?}");
        assert!(plan.slide_us <= plan.size_us, "the slide {slide:?} is longer than the window {size:?}");
        assert!(plan.size_us <= SIZE_MAX_US, "a window is at most 10,000 years, found {size:?}");
        Windows { plan, horizon_us: None, tally: Tally::default() }
    }

    /// Shifts the windows from 1970-01-01T00:00:00Z, modulo the slide.
    #[must_use]
    pub fn offset(mut self, offset: Duration) -> Self {
        self.plan.offset_us = micros(offset) % self.plan.slide_us;
        self
    }

    /// How long (in watermark time) after closing late records still correct a window. Without: late records are dropped.
    #[must_use]
    pub fn horizon(mut self, horizon: Duration) -> Self {
        self.horizon_us = Some(micros(horizon).min(1 << 61));
        self
    }

    /// Counts of contributions by class; clone it before [`Windows::aggregate`].
    pub fn tally(&self) -> Tally {
        self.tally.clone()
    }

    /// The collection of results of `aggregate` by key and window. `event_time` gives microseconds since 1970.
    ///
    /// Records go by key to the worker that keeps it. State is held from a window's first record to `end + horizon`.
    pub fn aggregate<'scope, D, K, A, FK, FT>(
        self,
        stream: Stream<'scope, Instant, Vec<D>>,
        key: FK,
        event_time: FT,
        aggregate: A,
    ) -> VecCollection<'scope, Instant, (K, WindowResult<A::Output>), isize>
    where
        D: timely::ExchangeData + Clone,
        K: Clone + Ord + Hash + 'static,
        A: Aggregate<Input = D> + 'static,
        A::State: 'static,
        A::Output: Clone + Ord + 'static,
        FK: Fn(&D) -> K + 'static,
        FT: Fn(&D) -> i64 + 'static,
    {
        let aggregate = Rc::new(aggregate);
        let assigner = Assigner::new(self.plan);
        let core = WindowCore::new(assigner, self.horizon_us, TypedTable::new(Rc::clone(&aggregate)));
        let key = Rc::new(key);
        let route_key = Rc::clone(&key);
        let (horizon_us, tally) = (self.horizon_us, self.tally);
        let absorb = move |core: &mut WindowCore<TypedTable<K, A>>, record: D, at: Instant| {
            let et = event_time(&record);
            if !(EVENT_TIME_MIN_US..=EVENT_TIME_MAX_US).contains(&et) {
                return tally.add(Lateness::TooLate);
            }
            let (stamp, closing) = at.time();
            let slice = assigner.slice(et);
            let first_end = assigner.first_end(slice);
            // What stands at `t⁻`, as a row that another window publishes on closing, is on time for a window that ends at
            // `t`. If it is late for some window of its slice, it is judged as if stamped `t` for all.
            let on_time = stamp < first_end || (closing && stamp == first_end);
            let mut accepted = false;
            for k in assigner.windows_of_slice(slice) {
                let class = if on_time { Lateness::OnTime } else { classify(stamp, assigner.bounds(k).1, horizon_us) };
                accepted |= class != Lateness::TooLate;
                tally.add(class);
            }
            if !accepted {
                return;
            }
            let table = if on_time { core.on_time(slice) } else { core.late(stamp, slice) };
            table.insert(key(&record), &record);
        };
        let absorb = move |core: &mut WindowCore<_>, records: &mut Vec<D>, at: Instant| {
            records.drain(..).for_each(|record| absorb(core, record, at));
        };
        let publish = |core: &mut WindowCore<TypedTable<K, A>>, upto: Instant, give: &mut dyn FnMut(_)| {
            core.advance(upto, &mut Updates { give });
        };
        let by_key = Exchange::new(move |record: &D| {
            let mut hasher = DefaultHasher::new();
            route_key(record).hash(&mut hasher);
            hasher.finish()
        });
        windows(forward(stream), by_key, core, Cutoff::default(), absorb, publish).as_collection()
    }
}

/// States by key.
struct TypedTable<K, A: Aggregate> {
    aggregate: Rc<A>,
    groups: HashMap<K, (u64, A::State)>,
}

impl<K: Eq + Hash + Clone, A: Aggregate> TypedTable<K, A> {
    fn new(aggregate: Rc<A>) -> Self {
        TypedTable { aggregate, groups: HashMap::new() }
    }
    fn insert(&mut self, key: K, record: &A::Input) {
        let group = self.groups.entry(key).or_default();
        group.0 += 1;
        self.aggregate.lift(&mut group.1, record);
    }
    fn add(&mut self, key: &K, records: u64, state: &A::State) {
        let group = match self.groups.get_mut(key) {
            Some(group) => group,
            None => self.groups.entry(key.clone()).or_default(),
        };
        group.0 += records;
        self.aggregate.combine(&mut group.1, state);
    }
}

impl<K: Eq + Hash + Clone, A: Aggregate> SliceTable for TypedTable<K, A> {
    fn empty(&self) -> Self {
        Self::new(Rc::clone(&self.aggregate))
    }
    fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
    fn keys(&self) -> usize {
        self.groups.len()
    }
    fn merge(&mut self, other: &Self) {
        for (key, (records, state)) in &other.groups {
            self.add(key, *records, state);
        }
    }
    fn merge_matching(&mut self, other: &Self, keys: &Self) {
        for key in keys.groups.keys() {
            if let Some((records, state)) = other.groups.get(key) {
                self.add(key, *records, state);
            }
        }
    }
    fn overlaps(&self, other: &Self) -> bool {
        let (few, many) = if self.keys() < other.keys() { (self, other) } else { (other, self) };
        few.groups.keys().any(|key| many.groups.contains_key(key))
    }
}

type Row<K, V> = ((K, WindowResult<V>), Instant, isize);

struct Updates<'a, K, V> {
    give: &'a mut dyn FnMut(Row<K, V>),
}

impl<K: Eq + Hash + Clone, A: Aggregate> Changes<TypedTable<K, A>> for Updates<'_, K, A::Output> {
    fn closed(&mut self, instant: Instant, (start_us, end_us): (i64, i64), result: &TypedTable<K, A>) {
        for (key, (_, state)) in &result.groups {
            let value = result.aggregate.lower(state);
            (self.give)(((key.clone(), WindowResult { end_us, start_us, late_count: 0, value }), instant, 1));
        }
    }

    fn corrected(&mut self, c: &Correction<'_, TypedTable<K, A>>) {
        let (start_us, end_us) = c.window_us;
        let keys = c.late.iter().flat_map(|(at, table)| table.groups.keys().map(|key| (key, *at)));
        let instants: HashMap<&K, Instant> = keys.collect();
        for (table, late, diff) in [(c.before, c.late_before, -1), (c.after, c.late_after, 1)] {
            for (key, (_, state)) in &table.groups {
                let Some(instant) = instants.get(key) else { continue };
                let late_count = late.groups.get(key).map_or(0, |(records, _)| *records);
                let value = table.aggregate.lower(state);
                (self.give)(((key.clone(), WindowResult { end_us, start_us, late_count, value }), *instant, diff));
            }
        }
    }
}

/// An input that stamps its records: one partition, whose watermark trails the greatest event time by a fixed delay.
///
/// The record itself is counted before it is stamped. Several inputs, on one worker or many, that flow together
/// (`concat`) are combined by timely: the frontier is the least of their watermarks.
pub struct StampedInput<D: timely::ExchangeData + Clone> {
    input: Handle<Instant, CapacityContainerBuilder<Vec<D>>>,
    delay_us: i64,
    granularity_us: i64,
    watermark_us: i64,
}

impl<D: timely::ExchangeData + Clone> StampedInput<D> {
    /// An input in the scope and its stream.
    pub fn new<'scope>(scope: Scope<'scope, Instant>, delay: Duration) -> (Self, Stream<'scope, Instant, Vec<D>>) {
        let mut input = Handle::new();
        let stream = input.to_stream(scope);
        let (delay_us, granularity_us) = (micros(delay), 1_000_000);
        (StampedInput { input, delay_us, granularity_us, watermark_us: i64::MIN }, stream)
    }

    /// Rounds watermarks, and so stamps, down to a multiple of this; default 1 s. Finer means more distinct timely times:
    /// more progress traffic and smaller messages.
    ///
    /// # Panics
    /// If it is below a microsecond.
    #[must_use]
    pub fn granularity(mut self, granularity: Duration) -> Self {
        self.granularity_us = micros(granularity);
        assert!(self.granularity_us > 0, "the granularity must be at least a microsecond, found {granularity:?}");
        self
    }

    /// Sends a record with its event time in microseconds (a time outside the supported range moves nothing). The watermark advances first, then the record is stamped.
    pub fn send(&mut self, record: D, event_time_us: i64) {
        // A time that no window can hold must not close them all.
        if (EVENT_TIME_MIN_US..=EVENT_TIME_MAX_US).contains(&event_time_us) {
            self.advance_to(event_time_us.saturating_sub(self.delay_us));
        }
        self.input.send(record);
    }

    /// Raises the watermark: no record is expected with an earlier event time. A lower one than before changes nothing.
    ///
    /// It is rounded down to the granularity first.
    pub fn advance_to(&mut self, watermark_us: i64) {
        let watermark_us = round_down(watermark_us, self.granularity_us);
        if watermark_us > self.watermark_us {
            self.watermark_us = watermark_us;
            self.input.advance_to(Instant::of_stamp(watermark_us));
        }
    }

    /// The watermark, in microseconds; `i64::MIN` before the first record.
    pub fn watermark_us(&self) -> i64 {
        self.watermark_us
    }

    /// Sends on what is buffered.
    pub fn flush(&mut self) {
        self.input.flush();
    }

    /// Ends the input: every open window closes with what it holds.
    pub fn close(self) {}
}
