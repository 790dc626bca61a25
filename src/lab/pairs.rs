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

use super::figures::{self, COMPARISONS, Comparison, Difference, Figures, difference};
use super::grid::Grid;
use super::timeline::WindowReport;
use crate::aggregate::encode_group;
use crate::aggregate::table::{Lowered, Table};
use crate::engine::ingest::table_spec;
use crate::engine::publish::Publisher;
use crate::plan::{ViewPlan, WindowedPlan};
use crate::time::Instant;
use crate::types::{Column, ColumnData, DataType};
use crate::watermark::BEFORE_ALL;
use crate::window::Assigner;
use crate::window::core::{Changes, Correction};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// A row that a pair has for some time.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    /// `HAVING` lets it pass.
    visible: bool,
    /// It cannot be computed.
    failed: bool,
    /// All published columns, encoded: equal bytes are equal rows.
    values: Box<[u8]>,
    /// The measured columns.
    numbers: Box<[Option<f64>]>,
}

impl Row {
    fn hidden() -> Row {
        Row { visible: false, failed: false, values: Box::default(), numbers: Box::default() }
    }
}

/// A pair with late records.
#[derive(Clone, Debug, Default)]
struct Pair {
    /// Its row on closing, if it had records by then.
    first: Option<Row>,
    /// Its row after each later stamp, ascending.
    late: Vec<(i64, Row)>,
}

type ByKey = HashMap<Box<[u8]>, Pair, foldhash::fast::FixedState>;

/// A window that is not settled.
#[derive(Debug)]
struct Window {
    end_us: i64,
    /// Rows on closing that are visible, and those of them that cannot be computed.
    visible: u64,
    failed: u64,
    late: ByKey,
    report: WindowReport,
    opens: BTreeMap<(usize, i64), u64>,
}

/// Follows the pairs of one worker.
pub struct PairMeter {
    grid: Arc<Grid>,
    assigner: Assigner,
    publisher: Publisher,
    /// Index of the aggregate that holds a group's least stamp.
    first_stamp: usize,
    /// Output columns that are measured.
    measured: Vec<usize>,
    windows: BTreeMap<i64, Window>,
    figures: Figures,
    key: Vec<u8>,
}

/// The output columns of a view whose relative error is measured: numbers and intervals that are neither group columns
/// nor bounds of the window.
pub fn measured(view: &ViewPlan, plan: &WindowedPlan) -> Vec<usize> {
    let first_aggregate = plan.group.len() + 2;
    let of_aggregate = |expr: &crate::expr::Expr| {
        let mut read = std::collections::BTreeSet::new();
        expr.columns(&mut read);
        read.iter().any(|column| *column >= first_aggregate)
    };
    let is_number = |dtype: &DataType| dtype.is_numeric() || *dtype == DataType::Interval;
    let columns = plan.select.iter().zip(&view.output).enumerate();
    columns.filter(|(_, (expr, (_, dtype)))| is_number(dtype) && of_aggregate(expr)).map(|(at, _)| at).collect()
}

impl PairMeter {
    /// For a view whose tables hold the least stamp.
    pub fn new(grid: &Arc<Grid>, view: &ViewPlan, plan: &WindowedPlan) -> Self {
        let (spec, count) = table_spec(plan);
        let measured = measured(view, plan);
        PairMeter {
            grid: Arc::clone(grid),
            assigner: Assigner::new(plan.window),
            publisher: Publisher::new(plan, &view.output, count),
            first_stamp: spec.aggregates.len().saturating_sub(1),
            figures: Figures::new(grid, measured.len()),
            measured,
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
        let Window { end_us, mut visible, mut failed, late, mut report, opens } = window;
        for pair in late.values() {
            if let Some(first) = pair.first.as_ref().filter(|row| row.visible) {
                visible = visible.saturating_sub(1);
                failed = failed.saturating_sub(u64::from(first.failed));
            }
            Dealer { grid: &self.grid, figures: &mut self.figures, report: &mut report, end_us }.deal(pair);
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
            let from = |first_us: &i64| match grid.stamp(delay, *first_us) {
                BEFORE_ALL => i64::MIN,
                stamp_us => assigner.last_closed(stamp_us) + 1,
            };
            let on_time = firsts_us.partition_point(|first_us| grid.stamp(delay, *first_us) < window_us.1);
            let mut rest = firsts_us.get(..on_time).unwrap_or_default();
            while let Some(first) = rest.last().map(from) {
                let fewer = rest.partition_point(|first_us| from(first_us) < first);
                *window.opens.entry((delay, first)).or_default() += (rest.len() - fewer) as u64;
                rest = rest.get(..fewer).unwrap_or_default();
            }
        }
    }

    /// The rows of results, by group.
    fn rows(&self, window_us: (i64, i64), lowered: Lowered) -> Vec<Row> {
        let mut rows = vec![Row::hidden(); lowered.len()];
        let (kept, block) = self.publisher.rows(window_us, lowered);
        let numbers: Vec<_> = self.measured.iter().filter_map(|column| block.values.get(*column)).collect();
        for (at, group) in kept.into_iter().enumerate() {
            let Some(row) = rows.get_mut(group as usize) else { continue };
            let mut values = Vec::new();
            encode_group(&block.values, at, &mut values);
            row.visible = true;
            row.values = values.into();
            row.numbers = numbers.iter().map(|column| number(column, at)).collect();
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

/// A value as a double, to the nearest; `None` is NULL.
fn number(column: &Column, row: usize) -> Option<f64> {
    if column.is_null(row) {
        return None;
    }
    match (&column.data, &column.dtype) {
        (ColumnData::I64(values), _) => values.get(row).map(|x| *x as f64),
        (ColumnData::F64(values), _) => values.get(row).copied(),
        (ColumnData::I128(values), DataType::Decimal { scale, .. }) => {
            let value = values.get(row)?;
            Some(crate::aggregate::exact::decimal_to_f64(*value, *scale))
        }
        _ => None,
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
        let before = c.before.lower();
        let mut key = std::mem::take(&mut self.key);
        let mut encoded = |columns: &[Column], row: usize| -> Box<[u8]> {
            key.clear();
            encode_group(columns, row, &mut key);
            key.as_slice().into()
        };
        // Rows on closing of pairs that were not late before.
        let known = &self.window(c.window_us).late;
        let keys: Vec<_> = (0..before.len()).map(|row| encoded(&before.keys, row)).collect();
        let unknown = (0u32..).zip(&keys).filter(|(_, key)| !known.contains_key(*key)).map(|(row, _)| row);
        let unknown: Vec<u32> = unknown.collect();
        let firsts = self.rows(c.window_us, before.take(&unknown));
        let window = self.window(c.window_us);
        for (row, first) in unknown.iter().zip(firsts) {
            if let Some(key) = keys.get(*row as usize) {
                window.late.insert(key.clone(), Pair { first: Some(first), late: Vec::new() });
            }
        }
        // In the order of the late records.
        let after = c.after.lower();
        let stamps = self.stamps(&after);
        let keys: Vec<_> = (0..after.len()).map(|row| encoded(&after.keys, row)).collect();
        let mut instants: Vec<Instant> = Vec::with_capacity(after.len());
        c.late.iter().zip(c.keys).for_each(|((at, _), keys)| instants.resize(*keys, *at));
        let rows = self.rows(c.window_us, after);
        let window = self.window(c.window_us);
        let mut begun = Vec::new();
        for (((key, at), row), first_us) in keys.into_iter().zip(instants).zip(rows).zip(stamps) {
            let pair = window.late.entry(key).or_default();
            if pair.first.is_none() && pair.late.is_empty() {
                begun.push(first_us);
            }
            pair.late.push((at.time().0, row));
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
    fn deal(mut self, pair: &Pair) {
        let truth = self.truth(pair);
        for delay in 0..self.grid.delays() {
            let on_time = pair.late.partition_point(|(stamp, _)| self.grid.stamp(delay, *stamp) < self.end_us);
            let closing = match on_time.checked_sub(1).and_then(|last| pair.late.get(last)) {
                Some((_, row)) => Some(row),
                None => pair.first.as_ref(),
            };
            let late = pair.late.get(on_time..).unwrap_or_default();
            if late.is_empty() {
                // And so under every longer delay.
                if let Some(row) = closing.filter(|row| row.visible) {
                    let from = self.figures.same_from.get_mut(delay);
                    from.into_iter().for_each(|(pairs, failed)| {
                        *pairs += 1;
                        *failed += u64::from(row.failed);
                    });
                    self.report.closing.iter_mut().skip(delay).for_each(|n| *n += 1);
                }
                return;
            }
            self.deal_delay(delay, closing, late, truth);
        }
    }

    /// The truth's row of a pair.
    fn truth<'r>(&self, pair: &'r Pair) -> Option<&'r Row> {
        let delay = self.grid.delays().saturating_sub(1);
        let horizon = self.grid.horizons().saturating_sub(1);
        let accepted = |stamp: i64| {
            let stamp = self.grid.stamp(delay, stamp);
            stamp < self.end_us || self.grid.accepting(stamp.saturating_sub(self.end_us)) <= horizon
        };
        let upto = pair.late.partition_point(|(stamp, _)| self.grid.unbounded() || accepted(*stamp));
        let last = upto.checked_sub(1).and_then(|last| pair.late.get(last)).map(|(_, row)| row);
        last.or(pair.first.as_ref()).filter(|row| row.visible)
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
        if let Some(row) = closing.filter(|row| row.visible) {
            standing = Standing { first: Some(row), now: Some(row), rows: 1, failed: row.failed, ..standing };
            self.figures.count(delay, &(0..horizons), figures::PUBLISHED, 1);
            self.figures.revision(delay, 0, 0);
            self.report.closing.get_mut(delay).into_iter().for_each(|n| *n += 1);
        }
        let mut from = 0;
        for same in late.chunk_by(|a, b| self.grid.stamp(delay, a.0) == self.grid.stamp(delay, b.0)) {
            let Some((stamp, row)) = same.last() else { continue };
            let stamp_us = self.grid.stamp(delay, *stamp);
            let lag_us = stamp_us.saturating_sub(self.end_us);
            let accepting = self.grid.accepting(lag_us);
            if accepting > from {
                self.stand(delay, from..accepting, &standing, truth);
                from = accepting;
            }
            if accepting >= horizons {
                return;
            }
            self.step(delay, accepting, (stamp_us, row), &mut standing);
        }
        self.stand(delay, from..horizons, &standing, truth);
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
        let rows: [(Comparison, Option<&Row>, Option<&Row>); COMPARISONS] = [
            (Comparison::FirstFinal, standing.first, standing.now),
            (Comparison::FirstTruth, standing.first, truth),
            (Comparison::FinalTruth, standing.now, truth),
        ];
        for (comparison, row, against) in rows {
            let (Some(row), Some(against)) = (row, against) else { continue };
            if row.values == against.values {
                figures.exact(delay, &cells, comparison);
            } else {
                let columns = row.numbers.iter().zip(&against.numbers);
                let by_column: Vec<Difference> = columns.map(|(a, b)| difference(*a, *b)).collect();
                figures.differ(delay, &cells, comparison, &by_column);
            }
        }
    }
}
