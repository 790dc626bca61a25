//! What the lab takes from the blocks that a worker reads: the ledger of every cell, lags, and steps of the watermark.

use super::lags::{LagMeter, LagSums};
use super::ledger::{LedgerMeter, LedgerSums};
use super::plan::LabPlan;
use super::steps::{Step, StepMeter};
use crate::engine::ingest::StampedBlock;
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
}

/// What a worker has read; the sums of several add up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IngestSums {
    /// Classes of late records.
    pub ledger: LedgerSums,
    /// Lags.
    pub lags: LagSums,
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
            lags: LagMeter::default(),
            steps: StepMeter::new(Arc::clone(grid), assigner),
        }
    }

    /// Takes a block, stamped under the least delay, and the stamps and slices of its late records. Gives its steps.
    pub fn block(&mut self, stamped: &StampedBlock<'_>, late: &[(i64, i64)]) -> Vec<Step> {
        let mut late = late.to_vec();
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

    /// What was counted.
    pub fn into_sums(self) -> IngestSums {
        IngestSums { ledger: self.ledger.into_sums(), lags: self.lags.into_sums() }
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
    }
}
