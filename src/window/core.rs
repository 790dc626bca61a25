//! The heart of the engine: windows that close, are corrected within the horizon, and are then forgotten.
//!
//! Pure: it is told of contributions and of how far time has come, and says what changes, in the order of instants.
//! `dataflow/` wraps it into a timely operator whose frontier says how far time has come.
//!
//! * A contribution that is on time for **every** window of its slice goes into the slice's table as it comes.
//! * Any other accepted contribution waits until its stamp is complete; then all that wait for this stamp are applied at
//!   once. For windows already closed that is one correction per key; windows still open simply find it in the slice.
//! * A window closes at `end⁻`: its slices are combined. The slices stay until the last of their windows is past its
//!   horizon, and are dropped whole. Closed windows hold no state of their own but the late records' counts.
//!
//! Invariant: instants are handled in ascending order, and a slice holds at the instant `t` exactly the accepted records
//! that count by `t` and those on time for all windows that close after `t`.
//! Cost: a table operation per (batch, slice); at closing one merge per slice of the window; a correction touches the
//! keys it corrects alone.

use super::Assigner;
use crate::time::Instant;
use std::collections::BTreeMap;

/// What a slice holds: states by key. Implemented by the columnar table of the SQL engine and by the typed one of the
/// library.
///
/// # Contract
/// `merge` is associative and commutative with the empty table as identity; `merge_matching` is `merge` restricted to
/// the keys of `keys`. A key is in a table iff at least one record was added for it.
pub trait SliceTable: Sized {
    /// An empty table of the same layout.
    fn empty(&self) -> Self;
    /// Whether no key is present.
    fn is_empty(&self) -> bool;
    /// Number of keys.
    fn keys(&self) -> usize;
    /// Adds all of `other`.
    fn merge(&mut self, other: &Self);
    /// Adds the keys of `other` that are present in `keys`.
    fn merge_matching(&mut self, other: &Self, keys: &Self);
}

/// Takes the changes that a [`WindowCore`] makes, in the order of instants.
pub trait Changes<T> {
    /// A window closes at `instant`: every key of `result` has its first result.
    fn closed(&mut self, instant: Instant, window_us: (i64, i64), result: &T);
    /// A closed window changes at `instant`: `before` and `after` hold the results of the keys of the late records
    /// (`before` lacks those that had none), `late_before` and `late_after` the late records of those keys
    /// in the window so far.
    fn corrected(
        &mut self,
        instant: Instant,
        window_us: (i64, i64),
        before: &T,
        after: &T,
        late_before: &T,
        late_after: &T,
    );
}

/// How much a [`WindowCore`] holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCounts {
    /// (key, slice) pairs.
    pub pairs: u64,
    /// Slices.
    pub slices: u64,
}

/// Windows of one query on one worker. See the module's text.
#[derive(Debug)]
pub struct WindowCore<T> {
    assigner: Assigner,
    /// `None`: late contributions were dropped before they got here.
    horizon_us: Option<i64>,
    empty: T,
    slices: BTreeMap<i64, T>,
    /// Contributions that are late for some window, by stamp and slice.
    waiting: BTreeMap<i64, BTreeMap<i64, T>>,
    /// All late records of closed windows, by window.
    late: BTreeMap<i64, T>,
    /// Windows up to this one are closed.
    closed_through: i64,
}

impl<T: SliceTable> WindowCore<T> {
    /// For windows of `assigner`; `empty` gives the layout of tables.
    pub fn new(assigner: Assigner, horizon_us: Option<i64>, empty: T) -> Self {
        WindowCore {
            assigner,
            horizon_us,
            empty,
            slices: BTreeMap::new(),
            waiting: BTreeMap::new(),
            late: BTreeMap::new(),
            closed_through: i64::MIN / 4,
        }
    }

    /// The windows' arithmetic.
    pub fn assigner(&self) -> &Assigner {
        &self.assigner
    }

    /// The table of a slice, for contributions that are on time for every window of it (`stamp < first_end`).
    pub fn on_time(&mut self, slice: i64) -> &mut T {
        debug_assert!(self.assigner.windows_of_slice(slice).start > self.closed_through, "on time for a closed window");
        self.slices.entry(slice).or_insert_with(|| self.empty.empty())
    }

    /// The table of contributions with this stamp to a slice, some of whose windows are closed at the stamp.
    pub fn late(&mut self, stamp_us: i64, slice: i64) -> &mut T {
        self.waiting.entry(stamp_us).or_default().entry(slice).or_insert_with(|| self.empty.empty())
    }

    /// Makes every change at instants before `frontier`, then forgets what can no longer change.
    pub fn advance(&mut self, frontier: Instant, changes: &mut impl Changes<T>) {
        loop {
            let close = self.next_close().filter(|(_, at)| *at < frontier);
            let late = self.waiting.keys().next().map(|t| (*t, Instant::of_stamp(*t))).filter(|(_, at)| *at < frontier);
            match (close, late) {
                (Some((k, at)), Some((_, late_at))) if at < late_at => self.close(k, at, changes),
                (Some((k, at)), None) => self.close(k, at, changes),
                (_, Some((stamp, at))) => self.correct(stamp, at, changes),
                (None, None) => break,
            }
        }
        self.forget(frontier);
    }

    /// The least instant at which something is still to happen.
    pub fn next_instant(&self) -> Option<Instant> {
        let late = self.waiting.keys().next().map(|t| Instant::of_stamp(*t));
        self.next_close().map(|(_, at)| at).into_iter().chain(late).min()
    }

    /// How much is held now.
    pub fn state(&self) -> StateCounts {
        let waiting = self.waiting.values().flat_map(|slices| slices.values());
        let pairs = self.slices.values().chain(waiting).map(|t| t.keys() as u64).sum();
        StateCounts { pairs, slices: self.slices.len() as u64 }
    }

    fn next_close(&self) -> Option<(i64, Instant)> {
        let next = self.closed_through + 1;
        let first_slice = self.assigner.slices_of_window(next).start;
        let (slice, _) = self.slices.range(first_slice..).next()?;
        let k = self.assigner.windows_of_slice(*slice).start.max(next);
        Some((k, Instant::closing(self.assigner.bounds(k).1)))
    }

    fn close(&mut self, k: i64, at: Instant, changes: &mut impl Changes<T>) {
        let slices = self.assigner.slices_of_window(k);
        let mut parts = self.slices.range(slices);
        if let Some((_, first)) = parts.next() {
            match parts.next() {
                None => changes.closed(at, self.assigner.bounds(k), first),
                Some((_, second)) => {
                    let mut result = self.empty.empty();
                    for part in [first, second].into_iter().chain(parts.map(|(_, t)| t)) {
                        result.merge(part);
                    }
                    changes.closed(at, self.assigner.bounds(k), &result);
                }
            }
        }
        self.closed_through = k;
        if self.horizon_us.is_none() {
            self.drop_slices(k);
        }
    }

    /// All late contributions of one stamp become one change per key and window.
    fn correct(&mut self, stamp: i64, at: Instant, changes: &mut impl Changes<T>) {
        let Some(late) = self.waiting.remove(&stamp) else { return };
        // Windows that end by the stamp are closed, with or without a result.
        self.closed_through = self.closed_through.max(self.assigner.last_closed(stamp));
        let before: Vec<(i64, T, T)> = self
            .affected(&late, stamp)
            .into_iter()
            .map(|(k, keys)| {
                let old = self.results(k, &keys);
                (k, keys, old)
            })
            .collect();
        for (slice, table) in late {
            self.slices.entry(slice).or_insert_with(|| self.empty.empty()).merge(&table);
        }
        for (k, keys, old) in before {
            let new = self.results(k, &keys);
            let late = self.late.entry(k).or_insert_with(|| self.empty.empty());
            let mut late_before = self.empty.empty();
            late_before.merge_matching(late, &keys);
            late.merge(&keys);
            let mut late_after = self.empty.empty();
            late_after.merge_matching(late, &keys);
            changes.corrected(at, self.assigner.bounds(k), &old, &new, &late_before, &late_after);
        }
    }

    /// The closed windows that accept the contributions of `stamp`, with those contributions combined.
    fn affected(&self, late: &BTreeMap<i64, T>, stamp: i64) -> BTreeMap<i64, T> {
        let mut windows: BTreeMap<i64, T> = BTreeMap::new();
        let Some(horizon) = self.horizon_us else { return windows };
        for (slice, table) in late {
            for k in self.assigner.windows_of_slice(*slice) {
                let end = self.assigner.bounds(k).1;
                if end <= stamp && stamp.saturating_sub(end) <= horizon {
                    windows.entry(k).or_insert_with(|| self.empty.empty()).merge(table);
                }
            }
        }
        windows
    }

    fn results(&self, k: i64, keys: &T) -> T {
        let mut result = self.empty.empty();
        for (_, part) in self.slices.range(self.assigner.slices_of_window(k)) {
            result.merge_matching(part, keys);
        }
        result
    }

    /// Drops what no change before or at `frontier` or later can need; part of [`WindowCore::advance`], on its own for a core that
    /// owes nothing.
    pub fn forget(&mut self, frontier: Instant) {
        let watermark = frontier.0.div_euclid(2);
        self.closed_through = self.closed_through.max(self.assigner.last_closed(watermark));
        // A window may be corrected as long as stamps up to `end + horizon` can come.
        let frozen = match self.horizon_us {
            None => self.closed_through,
            Some(horizon) => self.assigner.last_closed(watermark.saturating_sub(horizon).saturating_sub(1)),
        };
        self.drop_slices(frozen);
        self.late = self.late.split_off(&(frozen + 1));
    }

    /// Drops the slices all of whose windows are at most `frozen`.
    fn drop_slices(&mut self, frozen: i64) {
        let keep = self.assigner.slices_of_window(frozen + 1).start;
        while let Some(entry) = self.slices.first_entry() {
            if *entry.key() >= keep {
                break;
            }
            entry.remove();
        }
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
