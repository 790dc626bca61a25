//! From contributions to counts: stands where the windows of a run would.
//!
//! * Stamps are those of the least delay, not rounded, moved back to the least that no delay tells from them: records that
//!   count at one instant under every delay have one stamp.
//! * A contribution that is on time for every window of its slice under the least delay, and so under all, goes into the
//!   slice's table. Any other waits with its stamp, and its records are counted at once: their class in a cell needs nothing
//!   but stamp and window.
//! * When the frontier has passed a window's end by the greatest delay and horizon, the window is *settled*: its late
//!   contributions are added stamp by stamp to the results of their keys, and the changes of each cell are counted along
//!   that sequence. Keys without late contributions have one result, the same in every cell.
//!
//! Cost: as a run's closing for keys that are never late; for others a row per (key, window, stamp), and a pass over those
//! rows per delay.

use super::grid::Grid;
use super::tallies::Tallies;
use super::{Failure, Lab};
use crate::aggregate::table::{Lowered, Table};
use crate::engine::ingest::{Contributions, table_spec};
use crate::engine::publish::{Published, Publisher};
use crate::time::Instant;
use crate::types::Value;
use crate::window::Assigner;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The windows of one view on one worker.
#[derive(Debug)]
pub struct LabCore {
    grid: Grid,
    assigner: Assigner,
    publisher: Publisher,
    empty: Table,
    /// On time for every window of the slice, under every delay.
    slices: BTreeMap<i64, Table>,
    /// The others, by slice and stamp: see [`Grid::class_us`].
    late: BTreeMap<i64, BTreeMap<i64, Table>>,
    /// Windows up to this one are settled.
    settled: i64,
    tallies: Tallies,
    failure: Option<Failure>,
}

/// The results of a window's panes, one row for each pane and stamp.
#[derive(Debug, Default)]
struct Sequence {
    /// Row of the result without late contributions.
    base: Option<u32>,
    /// Stamp and row, ascending.
    steps: Vec<(i64, u32)>,
}

impl LabCore {
    /// For the view that `lab` asks about.
    pub fn new(lab: &Lab) -> LabCore {
        let plan = lab.setting().plan();
        let (spec, count) = table_spec(plan);
        LabCore {
            grid: lab.grid().clone(),
            assigner: Assigner::new(plan.window),
            publisher: Publisher::new(plan, &lab.setting().view().output, count),
            empty: Table::new(spec),
            slices: BTreeMap::new(),
            late: BTreeMap::new(),
            settled: i64::MIN / 4,
            tallies: lab.setting().tallies(),
            failure: None,
        }
    }

    /// Adds one message.
    pub fn absorb(&mut self, contributions: &Contributions) {
        for run in &contributions.runs {
            let end = run.start as usize + run.len as usize;
            let Some(selected) = contributions.selected.get(run.start as usize..end) else { continue };
            let table = match run.late_stamp_us {
                None => self.slices.entry(run.slice).or_insert_with(|| Table::new(self.empty.spec().clone())),
                Some(stamp_us) => {
                    self.count_late(stamp_us, run.slice, u64::from(run.len));
                    let stamps = self.late.entry(run.slice).or_default();
                    stamps.entry(stamp_us).or_insert_with(|| Table::new(self.empty.spec().clone()))
                }
            };
            table.insert(&contributions.rows, selected);
        }
        for (slice, table) in &contributions.combined {
            self.slices.entry(*slice).or_insert_with(|| Table::new(self.empty.spec().clone())).merge(table);
        }
    }

    /// Counts records of one slice and stamp, and their contributions. Some may be beyond what any cell accepts, their windows
    /// settled: then that is all there is to them.
    fn count_late(&mut self, stamp_us: i64, slice: i64, records: u64) {
        let reach_us = self.grid.reach_us();
        let (first_end, last_end) = (self.assigner.first_end(slice), self.assigner.last_end(slice));
        for delay in 0..self.grid.delays_us().len() {
            let stamp = self.grid.stamp_us(stamp_us, delay);
            if stamp < first_end {
                // On time, and under every longer delay.
                break;
            }
            for k in self.assigner.windows_of_slice(slice) {
                let end = self.assigner.bounds(k).1;
                if stamp < end {
                    break;
                }
                // What lies beyond has been counted where it was dropped.
                if is_within(stamp_us, end, reach_us) {
                    self.tallies.late.add(delay, self.grid.horizon_of(stamp, end), records);
                }
            }
            let some = if stamp < last_end { 0 } else { self.grid.horizon_of(stamp, last_end) };
            self.tallies.taken.add(delay, some, records);
            self.tallies.taken_whole.add(delay, self.grid.horizon_of(stamp, first_end), records);
        }
    }

    /// Settles the windows for which nothing can come any more once stamps below `frontier` have passed.
    pub fn advance(&mut self, frontier: Instant) {
        let watermark = frontier.0.div_euclid(2);
        let reach = self.grid.reach_us().unwrap_or(-1);
        self.settle_through(self.assigner.last_closed(watermark.saturating_sub(reach).saturating_sub(1)));
    }

    /// Settles everything: the input has ended. What was counted, and the first result that cannot be computed.
    pub fn finish(mut self) -> (Tallies, Option<Failure>) {
        self.settle_through(i64::MAX / 4);
        (self.tallies, self.failure)
    }

    fn settle_through(&mut self, last: i64) {
        while let Some(k) = self.next().filter(|k| *k <= last) {
            self.settle(k);
            self.settled = k;
        }
        self.settled = self.settled.max(last);
        let keep = self.assigner.slices_of_window(self.settled.min(i64::MAX / 8) + 1).start;
        self.slices = self.slices.split_off(&keep);
        self.late = self.late.split_off(&keep);
    }

    /// The next window that holds anything.
    fn next(&self) -> Option<i64> {
        let next = self.settled + 1;
        let first = self.assigner.slices_of_window(next).start;
        let on_time = self.slices.range(first..).next().map(|(slice, _)| *slice);
        let late = self.late.range(first..).next().map(|(slice, _)| *slice);
        let slice = on_time.into_iter().chain(late).min()?;
        Some(self.assigner.windows_of_slice(slice).start.max(next))
    }

    /// Counts the changes of one window's panes.
    fn settle(&mut self, k: i64) {
        let window_us = self.assigner.bounds(k);
        let slices = self.assigner.slices_of_window(k);
        let mut base: Option<Cow<'_, Table>> = None;
        let mut add = |table| match &mut base {
            None => base = Some(Cow::Borrowed(table)),
            Some(sum) => sum.to_mut().merge(table),
        };
        self.slices.range(slices.clone()).for_each(|(_, table)| add(table));
        let mut steps: BTreeMap<i64, Cow<'_, Table>> = BTreeMap::new();
        let reach_us = self.grid.reach_us();
        for (stamp_us, table) in self.late.range(slices).flat_map(|(_, stamps)| stamps) {
            if *stamp_us < window_us.1 {
                add(table);
            } else if is_within(*stamp_us, window_us.1, reach_us) {
                match steps.entry(*stamp_us) {
                    std::collections::btree_map::Entry::Vacant(new) => drop(new.insert(Cow::Borrowed(table))),
                    std::collections::btree_map::Entry::Occupied(mut known) => known.get_mut().to_mut().merge(table),
                }
            }
        }
        let base = base.unwrap_or(Cow::Borrowed(&self.empty));
        let mut late_keys = Table::new(self.empty.spec().clone());
        steps.values().for_each(|table| late_keys.merge(table));
        let mut sequences: Vec<Sequence> = Vec::new();
        sequences.resize_with(late_keys.len(), Sequence::default);
        let mut state = Table::new(self.empty.spec().clone());
        state.merge_matching(&base, &late_keys);
        let mut lowered = base.lower();
        let mut undisturbed: Vec<u32> = Vec::new();
        for (row, pane) in (0u32..).zip(late_keys.places(&base)) {
            match sequences.get_mut(pane as usize) {
                Some(sequence) => sequence.base = Some(row),
                None => undisturbed.push(row),
            }
        }
        for (stamp_us, table) in &steps {
            let mut after = Table::clone(table);
            after.merge_matching(&state, table);
            state.merge(table);
            let first = lowered.len() as u32;
            for (row, pane) in (first..).zip(late_keys.places(&after)) {
                if let Some(sequence) = sequences.get_mut(pane as usize) {
                    sequence.steps.push((*stamp_us, row));
                }
            }
            append(&mut lowered, after.lower());
        }
        let rows = self.publisher.published(window_us, lowered);
        self.count(window_us, &rows, &undisturbed, &sequences);
    }

    fn count(&mut self, window_us: (i64, i64), rows: &Published, undisturbed: &[u32], sequences: &[Sequence]) {
        let mut visited = Visited { rows, window_us, failure: self.failure.take() };
        self.tallies.undisturbed += undisturbed.iter().filter(|row| visited.shows(**row)).count() as u64;
        for sequence in sequences {
            let truth = truth(&self.grid, sequence, window_us.1).and_then(|row| rows.place(row));
            for delay in 0..self.grid.delays_us().len() {
                count_changes(&mut self.tallies, &self.grid, delay, (sequence, truth), &mut visited);
            }
        }
        self.failure = visited.failure;
    }
}

/// Whether some cell accepts a contribution with this stamp.
fn is_within(stamp_us: i64, end_us: i64, reach_us: Option<i64>) -> bool {
    crate::lateness::classify(stamp_us, end_us, reach_us) != crate::lateness::Lateness::TooLate
}

fn append(all: &mut Lowered, more: Lowered) {
    if all.is_empty() {
        *all = more;
    } else {
        all.append(more);
    }
}

/// Published rows that some cell shows.
struct Visited<'a> {
    rows: &'a Published,
    window_us: (i64, i64),
    failure: Option<Failure>,
}

impl Visited<'_> {
    /// Whether a cell that publishes the row shows it; notes if it cannot be computed.
    fn shows(&mut self, row: u32) -> bool {
        if let Some(message) = self.rows.error(row) {
            let (start_us, end_us) = self.window_us;
            let mut group = String::new();
            for (at, column) in self.rows.rows.group.iter().enumerate() {
                group.push_str(if at == 0 { "" } else { ", " });
                let value = self.rows.place(row).map(|place| column.value(place)).unwrap_or(Value::Null);
                crate::sink::text::write_json(&value, &mut group);
            }
            let failure = Failure { end_us, start_us, group, message: message.to_owned() };
            self.failure = self.failure.take().into_iter().chain([failure]).min();
        }
        self.rows.place(row).is_some()
    }

    /// Compares the results of a pane under horizons `from` to before `to`.
    fn compare(&self, tallies: &mut Tallies, delay: usize, horizons: (usize, usize), results: Results) {
        let Results { first, last, truth } = results;
        if horizons.0 < horizons.1 {
            let [first_final, first_truth, final_truth] = &mut tallies.accuracy;
            let values = &self.rows.rows.values;
            first_final.add(delay, horizons, values, (first, last));
            first_truth.add(delay, horizons, values, (first, truth));
            final_truth.add(delay, horizons, values, (last, truth));
        }
    }
}

/// Where the rows of a pane stand that are compared, those that are shown.
#[derive(Clone, Copy)]
struct Results {
    first: Option<usize>,
    last: Option<usize>,
    truth: Option<usize>,
}

/// The row of a pane's final result under the greatest delay and horizon.
fn truth(grid: &Grid, sequence: &Sequence, end_us: i64) -> Option<u32> {
    let delay = grid.delays_us().len().saturating_sub(1);
    let taken = |stamp_us: i64| {
        let stamp = grid.stamp_us(stamp_us, delay);
        stamp < end_us || grid.horizon_of(stamp, end_us) < grid.horizons_us().len()
    };
    let taken = sequence.steps.partition_point(|(stamp_us, _)| taken(*stamp_us));
    sequence.steps.get(..taken).and_then(<[_]>::last).map(|(_, row)| *row).or(sequence.base)
}

/// Follows one pane under one delay, through all horizons: what is late changes the row at distinct stamps, and a horizon
/// accepts the first of them.
fn count_changes(
    tallies: &mut Tallies,
    grid: &Grid,
    delay: usize,
    (sequence, truth): (&Sequence, Option<usize>),
    rows: &mut Visited<'_>,
) {
    let end_us = rows.window_us.1;
    let on_time = sequence.steps.partition_point(|(stamp_us, _)| grid.stamp_us(*stamp_us, delay) < end_us);
    let first = match on_time.checked_sub(1) {
        Some(last) => sequence.steps.get(last).map(|(_, row)| *row),
        None => sequence.base,
    };
    let mut shown = first.is_some_and(|row| rows.shows(row));
    let mut published = shown;
    let first = first.and_then(|row| rows.rows.place(row));
    // The results from a horizon on.
    let (mut results, mut from) = (Results { first, last: first, truth }, 0);
    let mut corrected = false;
    if let Some(closed) = tallies.closed.get_mut(delay).filter(|_| shown) {
        *closed += 1;
    }
    let mut rest = sequence.steps.iter().skip(on_time).peekable();
    while let Some((stamp_us, row)) = rest.next() {
        let stamp = grid.stamp_us(*stamp_us, delay);
        if rest.peek().is_some_and(|(next, _)| grid.stamp_us(*next, delay) == stamp) {
            // One change with those that come at the same instant.
            continue;
        }
        let horizon = grid.horizon_of(stamp, end_us);
        if horizon == grid.horizons_us().len() {
            break;
        }
        rows.compare(tallies, delay, (from, horizon), results);
        (results.last, from) = (rows.rows.place(*row), horizon);
        let shows = rows.shows(*row);
        if shown || shows {
            tallies.corrections.add(delay, horizon, 1);
            tallies.corrected.add(delay, horizon, u64::from(!corrected));
            corrected = true;
        }
        if shows && !published {
            tallies.appeared.add(delay, horizon, 1);
            published = true;
        }
        shown = shows;
    }
    rows.compare(tallies, delay, (from, grid.horizons_us().len()), results);
}
