//! Where the watermark steps over the end of a window: the records that take it there.
//!
//! A window's end is *reached* under a delay by the record with the least stamp that is at or past the end (of several with
//! that stamp: the first of each partition, and of those the one that arrived first). Of each partition only the records
//! that are the first to reach some end under some delay are of interest; each worker names those among its own. Whichever worker has
//! which record, the least named is the least of all. Cost: a comparison per record; per step over an end one division a delay.

use super::grid::Grid;
use crate::watermark::round_down;
use crate::window::Assigner;
use std::sync::Arc;

/// A record that takes its partition's stamps over an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// Its stamp in the one pass, µs.
    pub base_us: i64,
    /// Partition order.
    pub partition: u32,
    /// Position in the partition.
    pub position: u64,
    /// When it arrived, µs; without arrival times its stamp.
    pub arrived_us: i64,
}

/// Finds the steps of one worker.
#[derive(Clone, Debug)]
pub struct StepMeter {
    grid: Arc<Grid>,
    assigner: Assigner,
    /// By partition: the least stamp that reaches an end not reached before.
    next_us: Vec<i64>,
}

impl StepMeter {
    /// For a grid and windows.
    pub fn new(grid: Arc<Grid>, assigner: Assigner) -> Self {
        StepMeter { grid, assigner, next_us: Vec::new() }
    }

    /// Whether the next record of a partition is a step. Records of a partition come in its order.
    #[inline]
    pub fn is_step(&mut self, partition: u32, base_us: i64) -> bool {
        match self.next_us.get(partition as usize) {
            Some(next_us) if base_us < *next_us => false,
            _ => self.step(partition, base_us),
        }
    }

    #[cold]
    fn step(&mut self, partition: u32, base_us: i64) -> bool {
        let at = partition as usize;
        if self.next_us.len() <= at {
            self.next_us.resize(at + 1, i64::MIN);
        }
        let next_us = self.next_after(base_us);
        self.next_us.get_mut(at).into_iter().for_each(|next| *next = next_us);
        base_us != crate::watermark::BEFORE_ALL
    }

    /// The least stamp above this one that reaches an end under some delay.
    fn next_after(&self, base_us: i64) -> i64 {
        if base_us == crate::watermark::BEFORE_ALL {
            return i64::MIN + 1;
        }
        let after = |delay: usize| {
            let reached = round_down(base_us.saturating_sub(self.grid.offset_us(delay)), self.grid.granularity_us());
            let end_us = self.assigner.bounds(self.assigner.last_closed(reached) + 1).1;
            self.grid.reached_at(delay, end_us)
        };
        (0..self.grid.delays()).map(after).min().unwrap_or(i64::MAX)
    }
}
