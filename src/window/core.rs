//! The heart of the engine: windows that close, are corrected within the horizon, and are then forgotten.
//!
//! Pure: it is told of contributions and of how far time has come, and says what changes, in the order of instants.
//! `dataflow/` wraps it into a timely operator whose frontier says how far time has come.
//!
//! * A contribution that is on time for **every** window of its slice goes into the slice's table as it comes.
//! * Any other accepted contribution waits until its stamp is complete; then all that wait for this stamp are applied at
//!   once. For windows already closed that is one correction per key; windows still open simply find it in the slice.
//!   Stamps between two closings that have no key in common are worked off together: each changes its own keys alone.
//! * A window closes at `end⁻`: its slices are combined. The slices stay until the last of their windows is past its
//!   horizon, and are dropped whole. Closed windows hold no state of their own but the late records' counts.
//!
//! Invariant: instants are handled in ascending order, and a slice holds at the instant `t` exactly the accepted records
//! that count by `t` and those on time for all windows that close after `t`.
//! Cost: a table operation per (batch, slice); at closing about three merges, however many slices the window has
//! (`running.rs`); a correction touches the keys it corrects alone, in the slices of the windows it corrects and their
//! neighbours.

use super::Assigner;
use super::running::Running;
use crate::time::Instant;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

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
    /// Whether some key is in both.
    fn overlaps(&self, other: &Self) -> bool;
}

/// Takes the changes that a [`WindowCore`] makes, in the order of instants.
pub trait Changes<T> {
    /// A window closes at `instant`: every key of `result` has its first result.
    fn closed(&mut self, instant: Instant, window_us: (i64, i64), result: &T);
    /// A closed window is corrected.
    fn corrected(&mut self, correction: &Correction<'_, T>);
    /// All corrections of the instants so far have been told.
    fn settled(&mut self) {}
}

/// What late records do to one closed window. Those of several instants may be told together, but no key changes at two
/// of them.
#[derive(Debug)]
pub struct Correction<'a, T> {
    /// The late records that are accepted, by the instant at which they count.
    pub late: &'a [(Instant, &'a T)],
    /// How many different keys the late records up to each of [`Self::late`] have.
    pub keys: &'a [usize],
    /// `[start, end)` of the window.
    pub window_us: (i64, i64),
    /// Results of the keys of the late records before; those that had none are not in it.
    pub before: &'a T,
    /// Results of the keys of the late records; a table that keeps the order of its keys has them in the order of
    /// [`Self::late`], and so has `late_after`.
    pub after: &'a T,
    /// Late records of those keys in the window before.
    pub late_before: &'a T,
    /// Late records of those keys in the window, these included.
    pub late_after: &'a T,
}

/// Late contributions by stamp and slice.
type Batch<T> = Vec<(i64, BTreeMap<i64, T>)>;
/// A window, and the late contributions that it accepts.
type Late<'a, T> = (i64, Vec<(Instant, &'a T)>);

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
    /// The slices of the window closed last, combined for those that close next.
    running: Running<T>,
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
            running: Running::default(),
            late: BTreeMap::new(),
            closed_through: i64::MIN / 4,
        }
    }

    /// An empty table of the layout of all of them.
    pub fn empty(&self) -> &T {
        &self.empty
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
            let late = self.waiting.keys().next().map(|t| Instant::of_stamp(*t)).filter(|at| *at < frontier);
            match (close, late) {
                (Some((k, at)), Some(late_at)) if at < late_at => self.close(k, at, changes),
                (Some((k, at)), None) => self.close(k, at, changes),
                (close, Some(_)) => self.correct(close.map_or(frontier, |(_, at)| at.min(frontier)), changes),
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
        let bounds = self.assigner.bounds(k);
        let mut parts = self.slices.range(slices.clone());
        match (parts.next(), parts.next()) {
            (Some((_, only)), None) => changes.closed(at, bounds, only),
            (Some(_), Some(_)) => {
                self.running.window(slices, &self.slices, |result| changes.closed(at, bounds, result))
            }
            (None, _) => {}
        }
        self.closed_through = k;
        if self.horizon_us.is_none() {
            self.drop_slices(k);
        }
    }

    /// The first late contributions become changes: all of one stamp, and those of the stamps after it before `until` as long as
    /// no key comes twice.
    fn correct(&mut self, until: Instant, changes: &mut impl Changes<T>) {
        let batch = self.take_late(until);
        let affected = self.affected(&batch);
        let mut rest = affected.as_slice();
        while let Some(((first, _), _)) = rest.split_first() {
            // No more windows than share one slice: what lies between late records far apart is left alone.
            let end = first + self.assigner.windows_sharing_a_slice();
            let (together, others) = rest.split_at(rest.partition_point(|(k, _)| *k < end));
            self.correct_together(together, &batch, changes);
            rest = others;
        }
        for (slice, table) in batch.into_iter().flat_map(|(_, slices)| slices) {
            self.running.add(slice, &table, self.slices.contains_key(&slice));
            match self.slices.entry(slice) {
                Entry::Vacant(new) => drop(new.insert(table)),
                Entry::Occupied(mut known) => known.get_mut().merge(&table),
            }
        }
        changes.settled();
    }

    /// Corrects neighbouring windows, each with its late contributions, which are not in the slices yet.
    fn correct_together(&mut self, windows: &[Late<'_, T>], batch: &Batch<T>, changes: &mut impl Changes<T>) {
        let (Some((first, _)), Some((last, _))) = (windows.first(), windows.last()) else { return };
        let of_window = |k: i64| self.assigner.slices_of_window(k);
        // The slices of several windows are looked through once, for all keys that change.
        let mut parts: BTreeMap<i64, T> = BTreeMap::new();
        if windows.len() > 1 {
            let slices = of_window(*first).start..of_window(*last).end;
            let mut keys = self.empty.empty();
            let late = batch.iter().flat_map(|(_, late)| late.range(slices.clone()));
            late.for_each(|(_, table)| keys.merge(table));
            let restricted = self.slices.range(slices).map(|(slice, table)| (*slice, self.restricted(table, &keys)));
            parts.extend(restricted.filter(|(_, part)| !part.is_empty()));
        }
        let parts = if windows.len() > 1 { &parts } else { &self.slices };
        for (k, late) in windows {
            let mut keys = self.empty.empty();
            let merged = |(_, table): &(Instant, &T)| {
                keys.merge(table);
                keys.keys()
            };
            let ends: Vec<usize> = late.iter().map(merged).collect();
            let mut before = self.empty.empty();
            parts.range(of_window(*k)).for_each(|(_, part)| before.merge_matching(part, &keys));
            let known = self.late.entry(*k).or_insert_with(|| self.empty.empty());
            let mut late_before = self.empty.empty();
            late_before.merge_matching(known, &keys);
            known.merge(&keys);
            // What the late records come to, and what was there.
            let with = |other: &T| {
                let mut sum = self.empty.empty();
                sum.merge(&keys);
                sum.merge(other);
                sum
            };
            changes.corrected(&Correction {
                late,
                keys: &ends,
                window_us: self.assigner.bounds(*k),
                after: &with(&before),
                before: &before,
                late_after: &with(&late_before),
                late_before: &late_before,
            });
        }
    }

    /// Takes the late contributions of the first stamp out, and of those after it as [`Self::correct`] says.
    fn take_late(&mut self, mut until: Instant) -> Batch<T> {
        let mut batch: Batch<T> = Vec::new();
        let mut seen = self.empty.empty();
        while let Some(entry) = self.waiting.first_entry() {
            let stamp = *entry.key();
            let fits = Instant::of_stamp(stamp) < until && entry.get().values().all(|table| !table.overlaps(&seen));
            if !(batch.is_empty() || fits) {
                break;
            }
            let late = entry.remove();
            // Windows that end by the stamp are closed, with or without a result.
            self.closed_through = self.closed_through.max(self.assigner.last_closed(stamp));
            for (slice, table) in &late {
                seen.merge(table);
                // A window still open may have had nothing in it so far.
                let windows = self.assigner.windows_of_slice(*slice);
                let open = windows.start.max(self.closed_through + 1);
                if open < windows.end {
                    until = until.min(Instant::closing(self.assigner.bounds(open).1));
                }
            }
            batch.push((stamp, late));
        }
        batch
    }

    /// The closed windows that accept contributions of the batch, with those contributions, ascending.
    fn affected<'a>(&self, batch: &'a Batch<T>) -> Vec<Late<'a, T>> {
        let mut windows: BTreeMap<i64, Vec<(Instant, &'a T)>> = BTreeMap::new();
        let Some(horizon) = self.horizon_us else { return Vec::new() };
        for (stamp, late) in batch {
            for (slice, table) in late {
                for k in self.assigner.windows_of_slice(*slice) {
                    let end = self.assigner.bounds(k).1;
                    if end <= *stamp && stamp.saturating_sub(end) <= horizon {
                        windows.entry(k).or_default().push((Instant::of_stamp(*stamp), table));
                    }
                }
            }
        }
        windows.into_iter().collect()
    }

    fn restricted(&self, table: &T, keys: &T) -> T {
        let mut out = self.empty.empty();
        out.merge_matching(table, keys);
        out
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
