//! The fate of every row: on time, late or too late. The only place where lateness is decided.

use super::classes::Classes;
use super::columns::{Sieve, TakenColumns};
use super::dispatch::Runs;
use super::{Ingested, StampedBlock, ViewIngest};
use crate::types::Value;
use crate::window::Assigner;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A contribution that comes after its window's horizon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TooLate {
    /// Order of the partition.
    pub partition: u32,
    /// Its name.
    pub partition_name: Arc<str>,
    /// Position in the partition, from 1.
    pub position: u64,
    /// Event time, µs.
    pub event_time_us: i64,
    /// Stamp, µs.
    pub stamp_us: i64,
    /// The window; `None` under `late_records = 'drop'`.
    pub window_us: Option<(i64, i64)>,
    /// `stamp − end` (under `late_records = 'drop'`: `stamp − et`), µs.
    pub lag_us: i64,
    /// The columns that the query references, in table order.
    pub columns: Vec<Value>,
}

/// The slice of the last record: its index, the end of its first window, its bounds, its rows.
type Current = (i64, i64, (i64, i64), Vec<u32>);

impl ViewIngest {
    /// Judges every row and sorts the accepted ones into runs.
    pub(super) fn classify(
        &self,
        stamped: &StampedBlock<'_>,
        assigner: &Assigner,
        columns: &TakenColumns<'_>,
        sieve: &Sieve,
        classes: &mut Classes<'_>,
        out: &mut Ingested,
    ) -> Runs {
        let mut runs = Runs::new();
        let mut current: Option<Current> = None;
        for (at, &row) in columns.rows.iter().enumerate() {
            if !sieve.rejected.is_empty() && sieve.rejected.contains_key(&row) {
                continue;
            }
            let r = row as usize;
            let (et, stamp) = (stamped.event_time(r), stamped.stamp(r));
            if self.drop_late && et < stamp {
                classes.count(row, |c| c.too_late += 1);
                out.counts.too_late += 1;
                self.too_late(stamped, columns, at, r, None, stamp.saturating_sub(et), out);
                continue;
            }
            // Most records fall into the slice of the one before them.
            let inside = matches!(&current, Some((_, _, (start, end), _)) if *start <= et && et < *end);
            if !inside {
                if let Some((slice, _, _, list)) = current.take() {
                    merge_run(&mut runs, slice, list);
                }
                let slice = assigner.slice(et);
                let list = runs.remove(&(slice, None)).unwrap_or_default();
                current = Some((slice, assigner.first_end(slice), assigner.slice_bounds(slice), list));
            }
            let Some((slice, first_end, _, list)) = &mut current else { continue };
            if self.keep_judged {
                out.judged.push((row, *slice));
            }
            if stamp < *first_end {
                list.push(at as u32);
                classes.on_time(row);
                out.counts.on_time += if assigner.is_tumbling() { 1 } else { window_count(assigner, *slice) };
            } else {
                let slice = *slice;
                if self.judge_late(stamped, assigner, columns, (at, row, slice), classes, out) {
                    runs.entry((slice, Some(stamp))).or_default().push(at as u32);
                }
            }
        }
        if let Some((slice, _, _, list)) = current {
            merge_run(&mut runs, slice, list);
        }
        runs.retain(|_, list| !list.is_empty());
        runs
    }

    /// A record that is late for some window of its slice; says whether any window takes it.
    fn judge_late(
        &self,
        stamped: &StampedBlock<'_>,
        assigner: &Assigner,
        columns: &TakenColumns<'_>,
        (at, row, slice): (usize, u32, i64),
        classes: &mut Classes<'_>,
        out: &mut Ingested,
    ) -> bool {
        let r = row as usize;
        let stamp = stamped.stamp(r);
        let (mut accepted, mut late, mut dropped) = (0u64, 0u64, 0u64);
        if self.keep_late {
            out.late.push((stamp, slice, row));
        }
        for k in assigner.windows_of_slice(slice) {
            let window = assigner.bounds(k);
            match crate::lateness::classify(stamp, window.1, self.horizon_us) {
                crate::lateness::Lateness::OnTime => accepted += 1,
                crate::lateness::Lateness::Late => {
                    late += 1;
                    out.lags_us.push(stamp.saturating_sub(window.1));
                }
                crate::lateness::Lateness::TooLate => {
                    dropped += 1;
                    self.too_late(stamped, columns, at, r, Some(window), stamp.saturating_sub(window.1), out);
                }
            }
        }
        out.counts.on_time += accepted;
        out.counts.late += late;
        out.counts.too_late += dropped;
        classes.count(row, |c| match (accepted + late, late, dropped) {
            (0, _, _) => c.too_late += 1,
            (_, _, 1..) => c.partly_too_late += 1,
            _ => c.corrected += 1,
        });
        accepted + late > 0
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one row")]
    pub(super) fn too_late(
        &self,
        stamped: &StampedBlock<'_>,
        columns: &TakenColumns<'_>,
        at: usize,
        row: usize,
        window_us: Option<(i64, i64)>,
        lag_us: i64,
        out: &mut Ingested,
    ) {
        out.lags_us.push(lag_us);
        if !self.keep_too_late {
            return;
        }
        out.too_late.push(TooLate {
            partition: stamped.partition(row),
            partition_name: stamped.name(row).into(),
            position: stamped.position(row),
            event_time_us: stamped.event_time(row),
            stamp_us: stamped.stamp(row),
            window_us,
            lag_us,
            columns: self.used.iter().map(|c| columns.value(*c, at)).collect(),
        });
    }
}

fn window_count(assigner: &Assigner, slice: i64) -> u64 {
    let windows = assigner.windows_of_slice(slice);
    (windows.end - windows.start) as u64
}

fn merge_run(runs: &mut Runs, slice: i64, list: Vec<u32>) {
    // The list was taken out of `runs` when its slice became current, so nothing is overwritten.
    runs.insert((slice, None), list);
}
