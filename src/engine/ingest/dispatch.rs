//! Accepted rows on their way to the worker that keeps their keys: laid out in runs, and combined by key before they
//! travel where that pays.

use super::Ingested;
use crate::aggregate::route;
use crate::aggregate::table::{Rows, Table, TableSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The workers that keep the keys.
#[derive(Clone, Debug)]
pub struct Keepers {
    /// How many.
    pub workers: usize,
    /// Those that are threads of this process: they share rows, others are sent theirs.
    pub here: Range<usize>,
}

impl Keepers {
    /// The only worker.
    pub fn alone() -> Self {
        Keepers { workers: 1, here: 0..1 }
    }
}

/// Contributions to one slice that share a fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The slice.
    pub slice: i64,
    /// `None`: on time for every window of the slice; else the stamp they wait for.
    pub late_stamp_us: Option<i64>,
    /// First index into [`Contributions::selected`].
    pub start: u32,
    /// Number of rows.
    pub len: u32,
}

/// Rows on their way to the worker that keeps their keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contributions {
    /// The rows' columns; those of other workers too, if they are shared with threads of this process.
    pub rows: Arc<Rows>,
    /// Row numbers, by run.
    pub selected: Vec<u32>,
    /// The runs.
    pub runs: Vec<Run>,
    /// Contributions already combined by slice and key, on time for every window of their slice; no table is empty.
    pub combined: Vec<(i64, Table)>,
}

/// Whether rows are combined by key before they travel: only where that makes few rows of many.
#[derive(Clone, Debug)]
pub(super) struct PreAggregation {
    spec: Arc<TableSpec>,
    pays: bool,
    blocks: u32,
}

impl PreAggregation {
    /// Rows a group must stand for to be worth combining.
    const REDUCTION_MIN: usize = 4;
    /// Every so many blocks it is tried again.
    const PROBE_BLOCKS: u32 = 32;

    pub(super) fn new(spec: Arc<TableSpec>) -> Self {
        PreAggregation { spec, pays: true, blocks: 0 }
    }
    fn wanted(&mut self) -> bool {
        self.blocks = (self.blocks + 1) % Self::PROBE_BLOCKS;
        self.pays || self.blocks == 0
    }
    fn learn(&mut self, rows: usize, groups: usize) {
        self.pays = rows >= groups.saturating_mul(Self::REDUCTION_MIN);
    }
}

/// Rows by slice and, if late for some window of it, stamp.
pub(super) type Runs = BTreeMap<(i64, Option<i64>), Vec<u32>>;

/// Hands the runs to the workers that keep their keys.
pub(super) fn dispatch(
    rows: Rows,
    mut runs: Runs,
    keepers: &Keepers,
    pre: Option<&mut PreAggregation>,
    out: &mut Ingested,
) {
    let workers = keepers.workers;
    let rows = Arc::new(rows);
    if workers <= 1 {
        out.contributions.push((0, Contributions { combined: Vec::new(), ..lay_out(rows, runs) }));
        return;
    }
    let mut combined: Vec<Vec<(i64, Table)>> = vec![Vec::new(); workers];
    if let Some(pre) = pre
        && pre.wanted()
    {
        combine(&rows, &mut runs, pre, &mut combined);
    }
    let mut parts: Vec<(Vec<u32>, Vec<Run>)> = vec![Default::default(); workers];
    if !runs.is_empty() {
        let routes = if rows.keys.is_empty() { vec![0; rows.len] } else { route(&rows.keys, rows.len, workers) };
        split(runs, &routes, &mut parts);
    }
    for (worker, ((selected, runs), combined)) in parts.into_iter().zip(combined).enumerate() {
        if !runs.is_empty() || !combined.is_empty() {
            let contributions = if keepers.here.contains(&worker) {
                Contributions { rows: Arc::clone(&rows), selected, runs, combined }
            } else {
                let rows = Arc::new(take_rows(&rows, &selected));
                Contributions { rows, selected: (0..selected.len() as u32).collect(), runs, combined }
            };
            out.contributions.push((worker, contributions));
        }
    }
}

/// All runs one after another.
fn lay_out(rows: Arc<Rows>, runs: Runs) -> Contributions {
    let (mut selected, mut list) = (Vec::new(), Vec::with_capacity(runs.len()));
    for ((slice, late_stamp_us), members) in runs {
        list.push(Run { slice, late_stamp_us, start: selected.len() as u32, len: members.len() as u32 });
        selected.extend(members);
    }
    Contributions { rows, selected, runs: list, combined: Vec::new() }
}

/// Combines the on-time runs by key, and deals the groups to their workers; takes them out of `runs`.
fn combine(rows: &Rows, runs: &mut Runs, pre: &mut PreAggregation, combined: &mut [Vec<(i64, Table)>]) {
    let (mut inserted, mut groups) = (0, 0);
    runs.retain(|(slice, late), members| {
        if late.is_some() {
            return true;
        }
        let mut table = Table::new(Arc::clone(&pre.spec));
        table.insert(rows, members);
        inserted += members.len();
        groups += table.len();
        // Without keys everything goes to worker 0, as its rows would.
        let parts = if rows.keys.is_empty() { vec![table] } else { table.split(combined.len()) };
        for (list, part) in combined.iter_mut().zip(parts) {
            if !part.is_empty() {
                list.push((*slice, part));
            }
        }
        false
    });
    pre.learn(inserted, groups);
}

/// Splits the runs by the worker that keeps each row's key.
fn split(runs: Runs, routes: &[u32], parts: &mut [(Vec<u32>, Vec<Run>)]) {
    for ((slice, late_stamp_us), members) in runs {
        let starts: Vec<u32> = parts.iter().map(|(s, _)| s.len() as u32).collect();
        for row in members {
            let worker = routes.get(row as usize).copied().unwrap_or(0);
            if let Some((selected, _)) = parts.get_mut(worker as usize) {
                selected.push(row);
            }
        }
        for ((selected, list), start) in parts.iter_mut().zip(starts) {
            let len = selected.len() as u32 - start;
            if len > 0 {
                list.push(Run { slice, late_stamp_us, start, len });
            }
        }
    }
}

fn take_rows(rows: &Rows, selected: &[u32]) -> Rows {
    let pick = |v: &Vec<bool>| selected.iter().map(|r| v.get(*r as usize).copied().unwrap_or(false)).collect();
    Rows {
        len: selected.len(),
        keys: rows.keys.iter().map(|c| c.take(selected)).collect(),
        args: rows.args.iter().map(|c| c.as_ref().map(|c| c.take(selected))).collect(),
        filters: rows.filters.iter().map(|f| f.as_ref().map(pick)).collect(),
        order: rows.order.as_ref().map(|o| selected.iter().filter_map(|r| o.get(*r as usize).copied()).collect()),
    }
}
