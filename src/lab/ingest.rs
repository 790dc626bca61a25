//! What the lab takes from the blocks that a worker reads: the ledger of every cell, lags, and steps of the watermark.

use super::blocks::BlockSums;
use super::keyed::{KeyedRow, KeyedRows};
use super::lags::{LagMeter, LagSums};
use super::ledger::{LedgerMeter, LedgerSums};
use super::plan::LabPlan;
use super::recommend::meter::BlockMeter;
use super::steps::{Step, StepMeter};
use crate::engine::ingest::{Ingested, StampedBlock};
use crate::watermark::BEFORE_ALL;
use crate::window::Assigner;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Watches the blocks of one worker.
#[derive(Clone, Debug)]
pub struct IngestMeter {
    base_us: i64,
    arrival: bool,
    /// By partition, the newest event time, if it does not follow from the stamps.
    newest_us: Option<Vec<i64>>,
    ledger: LedgerMeter,
    lags: LagMeter,
    steps: StepMeter,
    blocks: Option<BlockMeter>,
}

/// What a worker has read; the sums of several add up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IngestSums {
    /// Classes of late records.
    pub ledger: LedgerSums,
    /// Lags.
    pub lags: LagSums,
    /// Lags by block of event time; none of policies.
    pub drift: BlockSums,
    /// Contributions by block of event time, if a setting is to be recommended.
    pub blocks: BlockSums,
}

impl IngestMeter {
    /// For a plan and its windows.
    pub fn new(plan: &LabPlan, assigner: Assigner) -> Self {
        let grid = &plan.grid;
        IngestMeter {
            base_us: grid.base_us(),
            arrival: plan.arrival,
            newest_us: (plan.policy.is_some() && !plan.arrival).then(Vec::new),
            ledger: LedgerMeter::new(Arc::clone(grid), assigner),
            lags: if plan.policy.is_some() { LagMeter::default() } else { LagMeter::with_drift(plan.slots) },
            steps: StepMeter::new(Arc::clone(grid), assigner),
            blocks: plan.recommend.as_ref().map(|plan| BlockMeter::new(grid, assigner, plan.slots)),
        }
    }

    /// Takes a block, stamped under the least delay, and what a view has made of it. Gives its steps.
    pub fn block(&mut self, stamped: &StampedBlock<'_>, ingested: &Ingested) -> Vec<Step> {
        self.blocks.iter_mut().for_each(|blocks| blocks.block(stamped, &ingested.judged, &ingested.late));
        let mut late: Vec<(i64, i64)> = ingested.late.iter().map(|(base_us, slice, _)| (*base_us, *slice)).collect();
        late.sort_unstable();
        for same in late.chunk_by(|a, b| a == b) {
            if let Some((base_us, slice)) = same.first() {
                self.ledger.late(*base_us, *slice, same.len() as i64);
            }
        }
        let block = stamped.block;
        let mut steps = Vec::new();
        let mut last_us = i64::MAX;
        let only = block.partition.is_none().then(|| stamped.partition(0));
        for (row, (base_us, event_us)) in stamped.stamps_us.iter().zip(&block.event_time_us).enumerate() {
            let partition = only.unwrap_or_else(|| stamped.partition(row));
            let lag_us = match *base_us {
                BEFORE_ALL => 0,
                base_us => base_us.saturating_add(self.base_us).saturating_sub(*event_us).max(0) as u64,
            };
            self.lags.record(partition, *event_us, lag_us);
            let newest_us = self.newest_us.as_mut().map(|newest| newest_of(newest, partition, *event_us));
            // In one partition stamps only rise, and most records leave them where they are.
            if (*base_us != last_us || only.is_none()) && self.steps.is_step(partition, *base_us) {
                let arrived_us =
                    block.arrived_us.as_ref().filter(|_| self.arrival).and_then(|times| times.get(row)).copied();
                steps.push(Step {
                    base_us: *base_us,
                    partition,
                    position: stamped.position(row),
                    arrived_us: arrived_us.or(newest_us).unwrap_or(base_us.saturating_add(self.base_us)),
                });
            }
            last_us = *base_us;
        }
        steps
    }

    /// The records of a block that have keys (row and hash, ascending), by worker.
    pub fn keyed(&self, stamped: &StampedBlock<'_>, groups: Vec<(u32, u64)>, workers: usize) -> Vec<KeyedRows> {
        let mut out: Vec<KeyedRows> = (0..workers.max(1) as u64).map(|to| KeyedRows { to, rows: Vec::new() }).collect();
        let all = out.len() as u64;
        let block = stamped.block;
        let at = |times: &[i64], row: usize| times.get(row).copied();
        for (row, key) in groups {
            let row = row as usize;
            let event_time_us = at(&block.event_time_us, row).unwrap_or(0);
            let stamp_us = at(stamped.stamps_us, row).unwrap_or(BEFORE_ALL);
            let arrived_us = block.arrived_us.as_ref().filter(|_| self.arrival).and_then(|times| at(times, row));
            let newest_us = if stamp_us == BEFORE_ALL { event_time_us } else { stamp_us.saturating_add(self.base_us) };
            let keyed = KeyedRow {
                partition: stamped.partition(row).into(),
                stamp_us,
                position: stamped.position(row),
                key,
                event_time_us,
                arrived_us: arrived_us.unwrap_or(newest_us),
            };
            let to = out.get_mut((key % all) as usize);
            to.into_iter().for_each(|to| to.rows.push(keyed));
        }
        out.retain(|to| !to.rows.is_empty());
        out
    }

    /// What was counted.
    pub fn into_sums(self) -> IngestSums {
        let blocks = self.blocks.map(BlockMeter::into_sums).unwrap_or_default();
        let (lags, drift) = self.lags.into_sums();
        IngestSums { ledger: self.ledger.into_sums(), lags, drift, blocks }
    }
}

/// The newest event time of a partition, this record's included. Its records come in order.
fn newest_of(newest_us: &mut Vec<i64>, partition: u32, event_us: i64) -> i64 {
    let at = partition as usize;
    if newest_us.len() <= at {
        newest_us.resize(at + 1, BEFORE_ALL);
    }
    newest_us.get_mut(at).map_or(event_us, |newest| {
        *newest = event_us.max(*newest);
        *newest
    })
}

impl IngestSums {
    /// Adds what another worker has counted.
    pub fn merge(&mut self, other: &IngestSums) {
        self.ledger.merge(&other.ledger);
        self.lags.merge(&other.lags);
        self.drift.merge(&other.drift);
        self.blocks.merge(&other.blocks);
    }
}
