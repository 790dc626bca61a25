//! What workers tell worker 0 beside the results: the ledger, dropped contributions, rejects.

use crate::engine::ingest::TooLate;
use crate::engine::output::Reject;
use crate::lab::ingest::IngestSums;
use crate::record::{ContributionCounts, RecordCounts};
use crate::watermark::policy::DelaySums;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The ledger of one view on one worker, by partition order; `None`: records whose partition could not be read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ViewCounts {
    /// Record classes.
    pub records: BTreeMap<Option<u32>, RecordCounts>,
    /// Contribution classes.
    pub contributions: ContributionCounts,
}

impl ViewCounts {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &ViewCounts) {
        for (partition, counts) in &other.records {
            self.records.entry(*partition).or_default().add(counts);
        }
        self.contributions.on_time += other.contributions.on_time;
        self.contributions.late += other.contributions.late;
        self.contributions.too_late += other.contributions.too_late;
    }
}

/// Sums of one table on one worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TableCounts {
    /// Greatest event time read, µs.
    pub newest_event_us: Option<i64>,
    /// Input bytes.
    pub bytes: u64,
    /// Records, rejects included.
    pub records: u64,
    /// Delays in force, if they follow the disorder.
    pub delays: DelaySums,
}

impl TableCounts {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &TableCounts) {
        self.newest_event_us = self.newest_event_us.max(other.newest_event_us);
        self.bytes += other.bytes;
        self.records += other.records;
        self.delays.add(&other.delays);
    }
}

/// A message to worker 0.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Side {
    /// Lags of late contributions of one block, µs.
    Lags(u32, Vec<i64>),
    /// Dropped contributions of one block.
    TooLate(u32, Vec<TooLate>),
    /// Rejects of one block.
    Rejects(u32, Vec<Reject>),
    /// A worker's sums of a view, once at its end.
    View(u32, ViewCounts),
    /// A worker's sums of a table, once at its end.
    Table(u32, TableCounts),
    /// What a worker has measured of a view's records, once at its end.
    Lab(u32, IngestSums),
}
