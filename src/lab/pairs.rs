//! What becomes of every (key, window) pair in every cell, from what the one pass changes and when.
//!
//! # Overview
//!
//! The window core, run under the least delay without rounding, tells of each pair its row on closing and its row after each later
//! stamp. Under a delay, those stamps are shifted and rounded: the rows up to the last stamp before the window's end are
//! the first result, and each different stamp after it is a correction, as far as the horizon accepts it.
//!
//! 1. On closing, a window's pairs are only counted, and when each began is noted for the count of open pairs.
//! 2. A pair that gets a late record is kept: its row on closing, and the row after each stamp.
//! 3. When the watermark has passed what any cell accepts, the window is settled: kept pairs are dealt out to the cells,
//!    the others are the same in every cell, and a [`WindowReport`] says what only all workers together can use.
//!
//! Cost: a pair without late records, its row and a place in a sorted list; others, a few operations per late stamp and delay until a delay has
//! them all on time. Memory: the late pairs of windows not settled.

use super::blocks::Slots;
use super::figures::{self, Comparison, Figures, difference};
use super::grid::Grid;
use super::timeline::WindowReport;
use crate::aggregate::table::{Lowered, Table};
use crate::aggregate::{encode_cell, encode_group, number_at};
use crate::engine::ingest::table_spec;
use crate::engine::publish::Publisher;
use crate::plan::{ViewPlan, WindowedPlan};
use crate::time::Instant;
use crate::types::{Column, ColumnData, DataType};
use crate::watermark::BEFORE_ALL;
use crate::window::Assigner;
use crate::window::core::{Changes, Correction};
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

/// A row that a pair has for some time. What it holds stands in the window's [`Store`].
#[derive(Clone, Copy, Debug)]
struct Row {
    /// `HAVING` lets it pass.
    visible: bool,
    /// It cannot be computed.
    failed: bool,
    /// Start and length of its encoding: the columns that depend on aggregates.
    values: (u64, u32),
    /// The first of its measured columns.
    numbers: u32,
    /// A hash of its encoding: rows with different ones are different, which most of a pair's are.
    print: u32,
}

/// No place in a [`Store`].
const NOWHERE: u32 = u32::MAX;

/// A row after a late stamp, and the one before it of the same pair.
#[derive(Clone, Copy, Debug)]
struct Late {
    stamp_us: i64,
    row: Row,
    before: u32,
}

/// A pair with late records.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// Its row on closing, if it had records by then.
    first: Option<Row>,
    /// Its last row after a late stamp.
    last: u32,
}

type ByKey = HashMap<Box<[u8]>, Pair, FixedState>;

/// Rows of one window.
#[derive(Debug, Default)]
struct Store {
    values: Vec<u8>,
    numbers: Vec<Option<f64>>,
    late: Vec<Late>,
}

impl Store {
    fn values(&self, row: &Row) -> &[u8] {
        let (start, len) = (row.values.0 as usize, row.values.1 as usize);
        self.values.get(start..start + len).unwrap_or_default()
    }
    fn number(&self, row: &Row, column: usize) -> Option<f64> {
        self.numbers.get(row.numbers as usize + column).copied().flatten()
    }
    /// Whether two rows are the same.
    fn same(&self, a: &Row, b: &Row) -> bool {
        a.values == b.values || (a.print == b.print && self.values(a) == self.values(b))
    }
    fn place(len: usize) -> u32 {
        u32::try_from(len).unwrap_or(NOWHERE)
    }
}

/// A window that is not settled.
#[derive(Debug)]
struct Window {
    end_us: i64,
    /// Rows on closing that are visible, and those of them that cannot be computed.
    visible: u64,
    failed: u64,
    late: ByKey,
    store: Store,
    report: WindowReport,
    opens: BTreeMap<(usize, i64), u64>,
}

/// Follows the pairs of one worker.
pub struct PairMeter {
    grid: Arc<Grid>,
    slots: Option<Slots>,
    assigner: Assigner,
    publisher: Publisher,
    /// Index of the aggregate that holds a group's least stamp.
    first_stamp: usize,
    /// Output columns that depend on aggregates, and those of them that are measured.
    compared: Vec<usize>,
    measured: Vec<usize>,
    windows: BTreeMap<i64, Window>,
    figures: Figures,
    key: Vec<u8>,
}

/// Output columns that depend on an aggregate.
fn aggregated(plan: &WindowedPlan) -> Vec<usize> {
    let first_aggregate = plan.group.len() + 2;
    let of_aggregate = |expr: &crate::expr::Expr| {
        let mut read = std::collections::BTreeSet::new();
        expr.columns(&mut read);
        read.iter().any(|column| *column >= first_aggregate)
    };
    let columns = plan.select.iter().enumerate();
    columns.filter(|(_, expr)| of_aggregate(expr)).map(|(at, _)| at).collect()
}

/// The output columns of a view whose relative error is measured: numbers and intervals that depend on an aggregate.
pub fn measured(view: &ViewPlan, plan: &WindowedPlan) -> Vec<usize> {
    let is_number = |dtype: &DataType| dtype.is_numeric() || *dtype == DataType::Interval;
    let is_measured = |column: &usize| view.output.get(*column).is_some_and(|(_, dtype)| is_number(dtype));
    aggregated(plan).into_iter().filter(is_measured).collect()
}

impl PairMeter {
    /// For a view whose tables hold the least stamp. `slots`: errors of first results are wanted by block of event time.
    pub fn new(grid: &Arc<Grid>, view: &ViewPlan, plan: &WindowedPlan, slots: Option<Slots>) -> Self {
        let (spec, count) = table_spec(plan);
        let measured = measured(view, plan);
        PairMeter {
            grid: Arc::clone(grid),
            slots,
            assigner: Assigner::new(plan.window),
            publisher: Publisher::new(plan, &view.output, count),
            first_stamp: spec.aggregates.len().saturating_sub(1),
            figures: Figures::new(grid, measured.len()),
            measured,
            compared: aggregated(plan),
            windows: BTreeMap::new(),
            key: Vec::new(),
        }
    }

    /// What was found in windows that are settled.
    pub fn into_figures(self) -> Figures {
        self.figures
    }

    /// Settles the windows that no cell can change once stamps have reached `frontier`.
    pub fn settle(&mut self, frontier: Instant, give: &mut impl FnMut(WindowReport)) {
        let watermark_us = frontier.0.div_euclid(2);
        let past = watermark_us.saturating_sub(self.grid.reach_us()).saturating_sub(1);
        let settled = self.assigner.last_closed(past);
        while let Some(entry) = self.windows.first_entry().filter(|entry| *entry.key() <= settled) {
            let window = entry.remove();
            give(self.settle_window(window));
        }
    }

    /// Windows up to this one are settled at `frontier`.
    pub fn settled(&self, frontier: Instant) -> i64 {
        let past = frontier.0.div_euclid(2).saturating_sub(self.grid.reach_us()).saturating_sub(1);
        self.assigner.last_closed(past)
    }

    fn settle_window(&mut self, window: Window) -> WindowReport {
        let Window { end_us, mut visible, mut failed, late, store, mut report, opens } = window;
        let mut rows = Vec::new();
        let slot = self.slots.map(|slots| slots.of(self.assigner.bounds(report.window).0));
        for pair in late.values() {
            if let Some(first) = pair.first.as_ref().filter(|row| row.visible) {
                visible = visible.saturating_sub(1);
                failed = failed.saturating_sub(u64::from(first.failed));
            }
            rows.clear();
            let mut at = pair.last;
            while let Some(late) = store.late.get(at as usize) {
                rows.push((late.stamp_us, late.row));
                at = late.before;
            }
            rows.reverse();
            let dealer = Dealer {
                grid: &self.grid,
                figures: &mut self.figures,
                report: &mut report,
                store: &store,
                slot,
                end_us,
            };
            dealer.deal(pair.first.as_ref(), &rows);
        }
        if let Some(slot) = slot.filter(|_| visible > 0) {
            self.figures.block_compared(slot, 0..self.grid.delays(), visible);
        }
        self.figures.same += visible;
        self.figures.same_failed += failed;
        report.same = visible;
        report.opens = opens.into_iter().map(|((delay, k), n)| (delay as u64, k, n)).collect();
        report
    }

    fn window(&mut self, window_us: (i64, i64)) -> &mut Window {
        let k = self.assigner.last_closed(window_us.1);
        self.windows.entry(k).or_insert_with(|| Window {
            end_us: window_us.1,
            visible: 0,
            failed: 0,
            late: ByKey::default(),
            store: Store::default(),
            report: WindowReport::new(k, &self.grid),
            opens: BTreeMap::new(),
        })
    }

    /// Notes that pairs began with records of these stamps.
    fn open(&mut self, window_us: (i64, i64), mut firsts_us: Vec<i64>) {
        firsts_us.sort_unstable();
        let Some(least_us) = firsts_us.first().copied() else { return };
        let (grid, assigner) = (Arc::clone(&self.grid), self.assigner);
        let window = self.window(window_us);
        window.report.least_us = window.report.least_us.min(least_us);
        for delay in 0..grid.delays() {
            // The first window that closes after a stamp; stamps of the same are counted at once.
            let from = |first_us: &i64| match grid.stamp_of_rounded(delay, *first_us) {
                BEFORE_ALL => i64::MIN,
                stamp_us => assigner.last_closed(stamp_us) + 1,
            };
            let on_time = firsts_us.partition_point(|first_us| grid.stamp_of_rounded(delay, *first_us) < window_us.1);
            let mut rest = firsts_us.get(..on_time).unwrap_or_default();
            while let Some(first) = rest.last().map(from) {
                let fewer = rest.partition_point(|first_us| from(first_us) < first);
                *window.opens.entry((delay, first)).or_default() += (rest.len() - fewer) as u64;
                rest = rest.get(..fewer).unwrap_or_default();
            }
        }
    }

    /// Puts the rows of results away, by group.
    fn rows(&mut self, window_us: (i64, i64), lowered: Lowered) -> Vec<Row> {
        let hidden = Row { visible: false, failed: false, values: (0, 0), numbers: NOWHERE, print: 0 };
        let mut rows = vec![hidden; lowered.len()];
        let (kept, block) = self.publisher.rows(window_us, lowered);
        let column = |at: &usize| block.values.get(*at);
        let compared: Vec<&Column> = self.compared.iter().filter_map(column).collect();
        let numbers: Vec<&Column> = self.measured.iter().filter_map(column).collect();
        let store = &mut self.window(window_us).store;
        for (at, group) in kept.into_iter().enumerate() {
            let Some(row) = rows.get_mut(group as usize) else { continue };
            let from = store.values.len();
            compared.iter().for_each(|column| encode_cell(column, at, &mut store.values));
            let numbers_from = Store::place(store.numbers.len());
            store.numbers.extend(numbers.iter().map(|column| number_at(column, at)));
            *row = Row {
                visible: true,
                failed: false,
                values: (from as u64, Store::place(store.values.len() - from)),
                numbers: numbers_from,
                print: FixedState::default().hash_one(store.values.get(from..).unwrap_or_default()) as u32,
            };
        }
        for (at, _) in &block.errors {
            let group = block.late_count.get(*at as usize) as usize;
            rows.get_mut(group).into_iter().for_each(|row| row.failed = true);
        }
        rows
    }

    fn stamps(&self, lowered: &Lowered) -> Vec<i64> {
        match lowered.values.get(self.first_stamp).map(|column| &column.data) {
            Some(ColumnData::I64(stamps)) => stamps.clone(),
            _ => Vec::new(),
        }
    }
}

impl Changes<Table> for PairMeter {
    fn closed(&mut self, _instant: Instant, window_us: (i64, i64), result: &Table) {
        let lowered = result.lower();
        let stamps = self.stamps(&lowered);
        self.open(window_us, stamps);
        // Only to know what is hidden, and what cannot be computed.
        let (kept, block) = self.publisher.rows(window_us, lowered);
        let window = self.window(window_us);
        window.visible += kept.len() as u64;
        window.failed += block.errors.len() as u64;
    }

    fn corrected(&mut self, c: &Correction<'_, Table>) {
        let mut key = std::mem::take(&mut self.key);
        // Rows on closing of pairs that were not late before.
        let before = c.before.lower();
        let known = &self.window(c.window_us).late;
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        let mut unknown: Vec<u32> = Vec::new();
        for row in 0..before.len() {
            key.clear();
            encode_group(&before.keys, row, &mut key);
            if !known.contains_key(key.as_slice()) {
                keys.push(key.as_slice().into());
                unknown.push(row as u32);
            }
        }
        if !unknown.is_empty() {
            let firsts = self.rows(c.window_us, before.take(&unknown));
            let pairs = firsts.into_iter().map(|first| Pair { first: Some(first), last: NOWHERE });
            self.window(c.window_us).late.extend(keys.into_iter().zip(pairs));
        }
        // In the order of the late records.
        let after = c.after.lower();
        let stamps = self.stamps(&after);
        let mut instants: Vec<Instant> = Vec::with_capacity(after.len());
        c.late.iter().zip(c.keys).for_each(|((at, _), keys)| instants.resize(*keys, *at));
        let group: Vec<Column> = after.keys.clone();
        let rows = self.rows(c.window_us, after);
        let window = self.window(c.window_us);
        let mut begun = Vec::new();
        for (n, ((at, row), first_us)) in instants.into_iter().zip(rows).zip(stamps).enumerate() {
            key.clear();
            encode_group(&group, n, &mut key);
            let pair = match window.late.get_mut(key.as_slice()) {
                Some(pair) => pair,
                None => {
                    begun.push(first_us);
                    window.late.entry(key.as_slice().into()).or_insert(Pair { first: None, last: NOWHERE })
                }
            };
            let place = Store::place(window.store.late.len());
            window.store.late.push(Late { stamp_us: at.time().0, row, before: pair.last });
            pair.last = place;
        }
        self.open(c.window_us, begun);
        self.key = key;
    }
}

/// Deals one pair out to the cells.
struct Dealer<'a> {
    grid: &'a Grid,
    figures: &'a mut Figures,
    report: &'a mut WindowReport,
    store: &'a Store,
    /// Of the window, if errors are wanted by block.
    slot: Option<i64>,
    end_us: i64,
}

/// A pair as it stands in a cell at some point.
#[derive(Clone, Copy, Default)]
struct Standing<'r> {
    /// The first row that was published.
    first: Option<&'r Row>,
    /// The row that is published now.
    now: Option<&'r Row>,
    /// Rows published so far.
    rows: usize,
    corrections: i64,
    /// Lag of the last correction, µs.
    last_us: i64,
    failed: bool,
}

impl Dealer<'_> {
    fn deal(mut self, first: Option<&Row>, rows: &[(i64, Row)]) {
        let truth = self.truth(first, rows);
        // Delays under which the row on closing is the same.
        let mut run: Option<(usize, &Row)> = None;
        for delay in 0..self.grid.delays() {
            let on_time = rows.partition_point(|(stamp, _)| self.grid.stamp_of_rounded(delay, *stamp) < self.end_us);
            let closing = match on_time.checked_sub(1).and_then(|last| rows.get(last)) {
                Some((_, row)) => Some(row),
                None => first,
            };
            let closing = closing.filter(|row| row.visible);
            let late = rows.get(on_time..).unwrap_or_default();
            if late.is_empty() {
                // And so under every longer delay.
                if let Some(row) = closing {
                    let from = self.figures.same_from.get_mut(delay);
                    from.into_iter().for_each(|(pairs, failed)| {
                        *pairs += 1;
                        *failed += u64::from(row.failed);
                    });
                    self.report.closing.iter_mut().skip(delay).for_each(|n| *n += 1);
                    if let Some(slot) = self.slot {
                        self.figures.block_compared(slot, delay..self.grid.delays(), 1);
                    }
                }
                self.first_truth(run, delay, truth);
                return;
            }
            if run.is_some_and(|(_, row)| closing.is_none_or(|closing| !std::ptr::eq(row, closing))) {
                self.first_truth(run.take(), delay, truth);
            }
            run = run.or(closing.map(|row| (delay, row)));
            self.deal_delay(delay, closing, late, truth);
        }
        self.first_truth(run, self.grid.delays(), truth);
    }

    /// The first row of a pair under the delays of a run up to `end`, against the truth.
    fn first_truth(&mut self, run: Option<(usize, &Row)>, end: usize, truth: Option<&Row>) {
        let (Some((start, row)), Some(truth)) = (run, truth) else { return };
        let delays = start..end;
        let same = self.store.same(row, truth);
        self.figures.first_truth(&delays, same);
        self.block_compared(&delays, same, row, truth);
        if !same {
            for column in 0..self.figures.columns {
                let (a, b) = (self.store.number(row, column), self.store.number(truth, column));
                self.figures.first_truth_off(&delays, column, difference(a, b));
            }
        }
    }

    /// The comparison of a first row with the truth at the longest horizon, by block of event time.
    fn block_compared(&mut self, delays: &Range<usize>, same: bool, row: &Row, truth: &Row) {
        let Some(slot) = self.slot else { return };
        self.figures.block_compared(slot, delays.clone(), 1);
        if !same {
            for column in 0..self.figures.columns {
                let (a, b) = (self.store.number(row, column), self.store.number(truth, column));
                self.figures.block_off(slot, delays.clone(), column, difference(a, b));
            }
        }
    }

    /// The truth's row of a pair.
    fn truth<'r>(&self, first: Option<&'r Row>, rows: &'r [(i64, Row)]) -> Option<&'r Row> {
        let delay = self.grid.delays().saturating_sub(1);
        let horizon = self.grid.horizons().saturating_sub(1);
        let accepted = |stamp: i64| {
            let stamp = self.grid.stamp_of_rounded(delay, stamp);
            stamp < self.end_us || self.grid.accepting(stamp.saturating_sub(self.end_us)) <= horizon
        };
        let upto = rows.partition_point(|(stamp, _)| self.grid.unbounded() || accepted(*stamp));
        let last = upto.checked_sub(1).and_then(|last| rows.get(last)).map(|(_, row)| row);
        last.or(first).filter(|row| row.visible)
    }

    /// One delay: the row on closing, then a step for each different stamp, as far as the horizons go.
    fn deal_delay<'r>(
        &mut self,
        delay: usize,
        closing: Option<&'r Row>,
        late: &'r [(i64, Row)],
        truth: Option<&'r Row>,
    ) {
        let horizons = self.grid.horizons();
        let mut standing = Standing::default();
        if let Some(row) = closing {
            standing = Standing { first: Some(row), now: Some(row), rows: 1, failed: row.failed, ..standing };
            self.figures.count(delay, &(0..horizons), figures::PUBLISHED, 1);
            self.figures.revision(delay, 0, 0);
            self.report.closing.get_mut(delay).into_iter().for_each(|n| *n += 1);
        }
        let mut from = 0;
        // The first row, if it is not the one on closing, is the same for every horizon that has one.
        let mut first_from = None;
        for same in
            late.chunk_by(|a, b| self.grid.stamp_of_rounded(delay, a.0) == self.grid.stamp_of_rounded(delay, b.0))
        {
            let Some((stamp, row)) = same.last() else { continue };
            let stamp_us = self.grid.stamp_of_rounded(delay, *stamp);
            let lag_us = stamp_us.saturating_sub(self.end_us);
            let accepting = self.grid.accepting(lag_us);
            if accepting > from {
                self.stand(delay, from..accepting, &standing, truth);
                from = accepting;
            }
            if accepting >= horizons {
                break;
            }
            self.step(delay, accepting, (stamp_us, row), &mut standing);
            if closing.is_none() && standing.first.is_some() {
                first_from = first_from.or(Some(accepting));
            }
        }
        if from < horizons {
            self.stand(delay, from..horizons, &standing, truth);
        }
        if let Some(first_from) = first_from {
            self.compare(delay, &(first_from..horizons), Comparison::FirstTruth, standing.first, truth);
        }
    }

    /// The row of a pair changes, in the cells from a horizon on.
    fn step<'r>(&mut self, delay: usize, from: usize, (stamp_us, row): (i64, &'r Row), standing: &mut Standing<'r>) {
        let next = Some(row).filter(|row| row.visible);
        if standing.now.is_none() && next.is_none() {
            return;
        }
        let cells = from..self.grid.horizons();
        if standing.corrections == 0 {
            self.figures.count(delay, &cells, figures::CORRECTED, 1);
        }
        self.figures.count(delay, &cells, figures::CORRECTIONS, 1);
        standing.corrections += 1;
        standing.last_us = stamp_us.saturating_sub(self.end_us);
        if let Some(row) = next {
            if standing.first.is_none() {
                self.figures.count(delay, &cells, figures::PUBLISHED, 1);
                standing.first = next;
            }
            self.figures.revision(delay, from, standing.rows);
            standing.rows += 1;
            standing.failed |= row.failed;
        }
        let change = i64::from(next.is_some()) - i64::from(standing.now.is_some());
        if change != 0 {
            self.report.late.push((delay as u64, from as u64, Instant::of_stamp(stamp_us).0, change));
        }
        standing.now = next;
    }

    /// In the cells of these horizons the pair ends as it stands.
    fn stand(&mut self, delay: usize, cells: Range<usize>, standing: &Standing<'_>, truth: Option<&Row>) {
        let figures = &mut *self.figures;
        if standing.failed {
            figures.count(delay, &cells, figures::FAILED, 1);
        }
        if standing.corrections > 0 {
            figures.last_correction(delay, &cells, standing.last_us);
        }
        if standing.now.is_some() {
            figures.count(delay, &cells, figures::LASTING, 1);
        }
        if standing.first.is_none() && truth.is_some() {
            figures.count(delay, &cells, figures::MISSING, 1);
        }
        self.compare(delay, &cells, Comparison::FirstFinal, standing.first, standing.now);
        self.compare(delay, &cells, Comparison::FinalTruth, standing.now, truth);
    }

    /// Two rows are compared, if both are there, in the cells of these horizons.
    fn compare(
        &mut self,
        delay: usize,
        cells: &Range<usize>,
        comparison: Comparison,
        row: Option<&Row>,
        against: Option<&Row>,
    ) {
        let (Some(row), Some(against)) = (row, against) else { return };
        let same = self.store.same(row, against);
        self.figures.compared(delay, cells, comparison, same);
        if comparison == Comparison::FirstTruth {
            // These cells reach to the longest horizon.
            self.block_compared(&(delay..delay + 1), same, row, against);
        }
        if !same {
            for column in 0..self.figures.columns {
                let (a, b) = (self.store.number(row, column), self.store.number(against, column));
                self.figures.off(delay, cells, (comparison, column), difference(a, b));
            }
        }
    }
}
