//! Words shared by readers, engine and sinks: why a record was rejected, and how records are counted.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why a record is a reject (SEMANTICS: the ledger).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectReason {
    /// Broken framing or syntax of the record.
    Syntax,
    /// Not UTF-8.
    Encoding,
    /// The event time is missing, null or unreadable.
    EventTime,
    /// The arrival time is missing, null or unreadable.
    ArrivalTime,
    /// The partition column is missing or null.
    Partition,
    /// The event time is more than `max_future` ahead of the arrival time.
    Future,
    /// The event time is outside the supported range, so that its windows would not fit 64 bits.
    Range,
    /// A value does not fit its column, or an expression fails on it (a reject of the view, not of the table).
    Value,
}

impl RejectReason {
    /// The name used in outputs.
    pub fn name(self) -> &'static str {
        match self {
            RejectReason::Syntax => "syntax",
            RejectReason::Encoding => "encoding",
            RejectReason::EventTime => "event_time",
            RejectReason::ArrivalTime => "arrival_time",
            RejectReason::Partition => "partition",
            RejectReason::Future => "future",
            RejectReason::Range => "range",
            RejectReason::Value => "value",
        }
    }
}

/// Counts of records by class; the classes sum to `read`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordCounts {
    /// Records read.
    pub read: u64,
    /// On time for all their windows.
    pub on_time: u64,
    /// Accepted late for at least one window, dropped for none.
    pub corrected: u64,
    /// Dropped for at least one window, not for all.
    pub partly_too_late: u64,
    /// Dropped for all windows.
    pub too_late: u64,
    /// Removed by `WHERE`.
    pub filtered: u64,
    /// Rejected, by reason.
    pub rejected: BTreeMap<RejectReason, u64>,
}

impl RecordCounts {
    /// Rejected in all.
    pub fn rejected_total(&self) -> u64 {
        self.rejected.values().sum()
    }
    /// Whether the classes sum to what was read.
    pub fn balances(&self) -> bool {
        self.read
            == self.on_time
                + self.corrected
                + self.partly_too_late
                + self.too_late
                + self.filtered
                + self.rejected_total()
    }
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &RecordCounts) {
        self.read += other.read;
        self.on_time += other.on_time;
        self.corrected += other.corrected;
        self.partly_too_late += other.partly_too_late;
        self.too_late += other.too_late;
        self.filtered += other.filtered;
        for (reason, n) in &other.rejected {
            *self.rejected.entry(*reason).or_default() += n;
        }
    }
}

/// Counts of contributions, that is of (record, window) pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContributionCounts {
    /// Part of their window's first result.
    pub on_time: u64,
    /// Accepted as corrections.
    pub late: u64,
    /// Dropped.
    pub too_late: u64,
}

/// The ledger of one view: in total, and per partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// All records.
    pub records: RecordCounts,
    /// All contributions.
    pub contributions: ContributionCounts,
    /// Records by partition.
    pub partitions: BTreeMap<String, RecordCounts>,
    /// Records whose partition could not be read, if there are any. Apart, since any text may be the name of a partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable_partition: Option<RecordCounts>,
}

impl Ledger {
    /// Counts records in total and in their partition; `None`: it could not be read.
    pub fn count(&mut self, partition: Option<&str>, counts: &RecordCounts) {
        self.records.add(counts);
        match partition {
            Some(name) => self.partitions.entry(name.to_owned()).or_default().add(counts),
            None => self.unreadable_partition.get_or_insert_default().add(counts),
        }
    }
    /// The counts of every partition, and of the records that have none.
    pub fn parts(&self) -> impl Iterator<Item = &RecordCounts> {
        self.partitions.values().chain(&self.unreadable_partition)
    }
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Ledger) {
        self.records.add(&other.records);
        self.contributions.on_time += other.contributions.on_time;
        self.contributions.late += other.contributions.late;
        self.contributions.too_late += other.contributions.too_late;
        for (name, counts) in &other.partitions {
            self.partitions.entry(name.clone()).or_default().add(counts);
        }
        if let Some(counts) = &other.unreadable_partition {
            self.unreadable_partition.get_or_insert_default().add(counts);
        }
    }
}
