//! Everything that a pass has found.

use super::figures::Figures;
use super::ingest::IngestSums;
use super::keyed::KeyedOutcome;
use super::timeline::TimelineSums;

/// What all workers together have found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Sums over pairs; `None` if no record had a window.
    pub figures: Option<Figures>,
    /// Peaks and latencies.
    pub timeline: TimelineSums,
    /// Ledger and lags.
    pub ingest: IngestSums,
    /// Keyed watermarks.
    pub keyed: KeyedOutcome,
}

impl Outcome {
    /// Adds a worker's sums over pairs.
    pub fn add_figures(&mut self, figures: Figures) {
        match &mut self.figures {
            Some(sums) => sums.merge(&figures),
            none => *none = Some(figures),
        }
    }
}
