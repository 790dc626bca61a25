//! What a run gives to whoever started it. Called on one thread, in a fixed order.

use super::ingest::TooLate;
use crate::error::Result;
use crate::lab::outcome::Outcome;
use crate::record::{Ledger, RejectReason};
pub use crate::sink::Flow;
use crate::sink::block::ChangeRun;
use crate::watermark::policy::DelaySums;
use serde::{Deserialize, Serialize};

/// A reject of a table, or of one of its views.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reject {
    /// The view that rejects it; `None`: the table does.
    pub view: Option<u32>,
    /// Order of the partition; `None`: unknown (the record could not be read).
    pub partition: Option<u32>,
    /// Its name.
    pub partition_name: Option<String>,
    /// Lane of the source.
    pub lane: u32,
    /// Index of the file within the lane.
    pub file: u32,
    /// Line in the file, from 1.
    pub line: u64,
    /// Position in the partition or trace, from 1.
    pub position: u64,
    /// Why.
    pub reason: RejectReason,
    /// What was expected and found.
    pub detail: String,
    /// The record's bytes.
    pub raw: Vec<u8>,
}

/// The end of a run, as seen by the outputs.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// Whether the whole input was read.
    pub complete: bool,
    /// Ledger of each view.
    pub ledgers: Vec<Ledger>,
    /// Of each table.
    pub tables: Vec<TableEnding>,
    /// Bytes that the process has exchanged with others; `None` if there are none.
    pub exchanged_bytes: Option<u64>,
    /// What a lateness lab has found, by view.
    pub lab: Vec<Outcome>,
}

/// The end of one table.
#[derive(Clone, Debug, Default)]
pub struct TableEnding {
    /// Names of the partitions, in partition order.
    pub partitions: Vec<String>,
    /// Watermark of each partition, µs.
    pub partition_watermarks_us: Vec<i64>,
    /// Watermark of the source at the end of reading, µs.
    pub watermark_us: i64,
    /// Greatest event time read, µs.
    pub newest_event_us: Option<i64>,
    /// Partition that holds the watermark back.
    pub holder: Option<usize>,
    /// Input bytes read.
    pub bytes: u64,
    /// Records read.
    pub records: u64,
    /// Delays in force, if they follow the disorder.
    pub delays: DelaySums,
}

/// Takes the results of a run.
pub trait RunOutput {
    /// Changes of a view, in the documented order and after those of earlier calls: whole watermark steps.
    ///
    /// # Errors
    /// When they cannot be written; ends the run.
    fn publish(&mut self, view: usize, changes: ChangeRun) -> Result<Flow>;
    /// No change of the view at a watermark below this can come any more.
    ///
    /// # Errors
    /// When what became final cannot be written.
    fn advance(&mut self, view: usize, watermark_us: i64) -> Result<()>;
    /// Lags of late contributions of one block, accepted or dropped, µs. Blocks come in any order.
    fn lags(&mut self, _view: usize, _lags_us: &[i64]) {}
    /// Dropped contributions of one block, ordered by (position, window end).
    ///
    /// # Errors
    /// When they cannot be written.
    fn too_late(&mut self, view: usize, rows: Vec<TooLate>) -> Result<()>;
    /// Rejects of one block, ordered by position.
    ///
    /// # Errors
    /// When they cannot be written, or the table has `on_error = 'fail'`.
    fn rejects(&mut self, table: usize, rejects: Vec<Reject>) -> Result<()>;
    /// The run is over: everything was given. Writes all that is left, so that only what can hardly fail remains to be done.
    ///
    /// # Errors
    /// When something cannot be written. Then, or when another output of the run fails, on whichever process, the output is
    /// dropped without being completed, and must leave nothing behind.
    fn prepare(&mut self, ending: Ending) -> Result<()>;
    /// Every output of the run, on all processes, is prepared: this one is completed. It is dropped afterwards.
    ///
    /// # Errors
    /// When it cannot be completed.
    fn complete(&mut self) -> Result<()> {
        Ok(())
    }
}
