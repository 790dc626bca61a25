//! Running programs in a test: what a run gives, collected.

use slackwater::error::Result;
use slackwater::plan::Program;
use slackwater::source::Source;
use std::sync::Arc;

/// Everything a run gave.
pub type Collected = slackwater::verify::collect::Collected;

/// Runs and collects.
pub fn collect(program: &Arc<Program>, sources: Vec<Arc<dyn Source>>, workers: usize) -> Result<Collected> {
    slackwater::verify::collect::collect(program, sources, workers)
}
