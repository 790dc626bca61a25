//! What a run says of itself: the ledger, windows and corrections, watermarks, and what it cost.

use super::{Change, Op};
use serde::{Deserialize, Serialize};

/// Windows and corrections of one view. Counts are of (key, window) pairs as published, after `HAVING`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowCounts {
    /// Pairs that got a first result.
    pub published: u64,
    /// Changes at a stamp (an update is one change).
    pub corrections: u64,
    /// Pairs with at least one correction.
    pub corrected: u64,
    /// Item `r` counts the pairs that reached revision `r`; the last item ([`REVISIONS_MAX`]) all that went further, each
    /// revision again.
    pub revisions: Vec<u64>,
}

/// Revisions counted apart.
pub const REVISIONS_MAX: usize = 32;

impl WindowCounts {
    /// Counts one row of a changelog.
    pub fn observe(&mut self, change: &Change) {
        if change.window_us.is_none() {
            return;
        }
        let first = change.revision == 0;
        if !change.op.is_retraction() {
            self.published += u64::from(first);
            let at = usize::try_from(change.revision).map_or(REVISIONS_MAX, |r| r.min(REVISIONS_MAX));
            if self.revisions.len() <= at {
                self.revisions.resize(at + 1, 0);
            }
            if let Some(n) = self.revisions.get_mut(at) {
                *n += 1;
            }
        }
        if change.closing {
            return;
        }
        self.corrections += u64::from(change.op != Op::UpdateBefore);
        // The first correction of a pair: the first result itself if all its records are late, else the one that takes
        // back the first result, which then holds no late record.
        let corrects_first = change.op.is_retraction() && change.late_count == 0;
        let is_first_and_late = change.op == Op::Insert;
        self.corrected += u64::from(first && (corrects_first || is_first_and_late));
    }
}
