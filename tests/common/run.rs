//! Running programs in a test: what a run gives, collected.

use slackwater::dataflow::{RunOptions, run};
use slackwater::engine::ingest::TooLate;
use slackwater::engine::output::{Ending, Flow, Reject, RunOutput};
use slackwater::error::Result;
use slackwater::plan::Program;
use slackwater::sink::Change;
use slackwater::source::Source;
use std::sync::{Arc, Mutex};

/// Everything a run gave.
#[derive(Debug, Default)]
pub struct Collected {
    /// Changes by view, in the order they were given.
    pub changes: Vec<Vec<Change>>,
    /// Dropped contributions by view, by (partition, position, window).
    pub too_late: Vec<Vec<TooLate>>,
    /// Rejects by table, by (partition, position).
    pub rejects: Vec<Vec<Reject>>,
    /// The end.
    pub ending: Ending,
}

struct Collector(Arc<Mutex<Collected>>);

fn at<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}

impl RunOutput for Collector {
    fn changes(&mut self, view: usize, step: Vec<Change>) -> Result<Flow> {
        assert!(step.is_sorted_by(|a, b| a.compare(b).is_lt()), "a step is in order and has no equal rows");
        at(&mut self.0.lock().unwrap().changes, view).extend(step);
        Ok(Flow::Open)
    }
    fn advance(&mut self, _view: usize, _watermark_us: i64) -> Result<()> {
        Ok(())
    }
    fn too_late(&mut self, view: usize, rows: Vec<TooLate>) -> Result<()> {
        at(&mut self.0.lock().unwrap().too_late, view).extend(rows);
        Ok(())
    }
    fn rejects(&mut self, table: usize, rejects: Vec<Reject>) -> Result<()> {
        at(&mut self.0.lock().unwrap().rejects, table).extend(rejects);
        Ok(())
    }
    fn finish(&mut self, ending: Ending) -> Result<()> {
        self.0.lock().unwrap().ending = ending;
        Ok(())
    }
}

/// Runs and collects.
pub fn collect(program: &Arc<Program>, sources: Vec<Arc<dyn Source>>, workers: usize) -> Result<Collected> {
    let collected = Arc::new(Mutex::new(Collected::default()));
    let options = RunOptions { workers, keep_too_late: true, ..RunOptions::default() };
    run(Arc::clone(program), sources, &options, Box::new(Collector(Arc::clone(&collected))))?;
    let mut collected = std::mem::take(&mut *collected.lock().unwrap());
    for view in 0..program.views.len() {
        at(&mut collected.changes, view);
        at(&mut collected.too_late, view).sort_by_key(|r| (r.partition, r.position, r.window_us.map(|(s, e)| (e, s))));
    }
    for table in 0..program.tables.len() {
        at(&mut collected.rejects, table).sort_by_key(|r| (r.partition, r.position, r.view));
    }
    Ok(collected)
}
