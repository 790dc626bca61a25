//! One view on one worker: its input, and the dataflow from contributions to changes.

use super::Shared;
use super::deal::Crew;
use super::lab::{LabInputs, LabMessage};
use super::operators::{Cutoff, Gathered, Updates, by_worker, changelog, forward, gather, windows};
use super::parcel::Parcel;
use super::side::{Side, ViewCounts};
use crate::aggregate::table::{Table, TableSpec};
use crate::engine::ingest::{Contributions, Ingested, StampedBlock, ViewIngest, table_spec};
use crate::engine::publish::{Collector, Publisher};
use crate::lab::ingest::IngestMeter;
use crate::plan::{ViewKind, ViewPlan};
use crate::time::Instant;
use crate::window::Assigner;
use crate::window::core::WindowCore;
use crate::wire::{Reader, Wire, WireError, Writer};
use differential_dataflow::{AsCollection, Collection};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::core::input::Handle;

/// An input of the results dataflow whose messages travel.
pub(super) type InputOf<M> = Handle<Instant, CapacityContainerBuilder<Parcel<M>>>;

/// An input of updates that stay on their worker.
type UpdatesInput = Handle<Instant, CapacityContainerBuilder<Updates>>;

/// Contributions on their way to the worker that keeps their keys.
#[derive(Clone, Debug)]
pub(super) struct Routed {
    pub to: u64,
    /// Process that waits for it to be absorbed.
    pub from: u64,
    pub contributions: Contributions,
}

impl Wire for Routed {
    const LEAST: usize = Contributions::LEAST + 16;
    fn size(&self) -> usize {
        16 + self.contributions.size()
    }
    fn weight(&self) -> usize {
        self.contributions.weight()
    }
    fn put(&self, out: &mut Writer) {
        self.to.put(out);
        self.from.put(out);
        self.contributions.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Routed { to: Wire::get(from)?, from: Wire::get(from)?, contributions: Wire::get(from)? })
    }
}

pub(super) enum ViewInput {
    /// Contributions; and what else is told if the view is measured.
    Windowed(InputOf<Routed>, Option<Box<LabInputs>>),
    PassThrough(UpdatesInput),
    /// The table has ended.
    Closed,
}

impl ViewInput {
    /// Promises that nothing before `at` comes any more.
    pub fn advance_to(&mut self, at: Instant) {
        match self {
            ViewInput::Windowed(input, lab) => {
                input.advance_to(at);
                if let Some(lab) = lab {
                    lab.steps.advance_to(at);
                    lab.keyed.iter_mut().for_each(|keyed| keyed.advance_to(at));
                }
            }
            ViewInput::PassThrough(input) => input.advance_to(at),
            ViewInput::Closed => {}
        }
    }
    /// Sends what waits in buffers.
    pub fn flush(&mut self) {
        match self {
            ViewInput::Windowed(input, lab) => {
                input.flush();
                if let Some(lab) = lab {
                    lab.steps.flush();
                    lab.keyed.iter_mut().for_each(|keyed| keyed.flush());
                }
            }
            ViewInput::PassThrough(input) => input.flush(),
            ViewInput::Closed => {}
        }
    }
}

/// One view on one worker.
pub(super) struct View {
    pub index: usize,
    pub ingest: ViewIngest,
    pub input: ViewInput,
    pub counts: ViewCounts,
    /// Measures what is read, for the lateness lab.
    pub lab: Option<IngestMeter>,
}

impl View {
    /// Measures a block, if the view is to be. There are so many workers in all.
    pub fn measure(&mut self, stamped: &StampedBlock<'_>, ingested: &Ingested, workers: usize) {
        let Some(lab) = &mut self.lab else { return };
        let steps = lab.block(stamped, ingested);
        let ViewInput::Windowed(_, Some(inputs)) = &mut self.input else { return };
        if !steps.is_empty() {
            inputs.steps.send(LabMessage::Steps(steps));
        }
        if let Some(keyed) = &mut inputs.keyed {
            let rows = lab.keyed(stamped, self.ingest.groups(stamped.block), workers);
            rows.into_iter().for_each(|rows| keyed.send(rows));
        }
    }

    /// Sends what follows from a block.
    pub fn send(&mut self, ingested: Ingested, shared: &Shared, side: &mut InputOf<Side>) {
        for (partition, counts) in &ingested.records {
            self.counts.records.entry(Some(*partition)).or_default().add(counts);
        }
        self.counts.contributions.on_time += ingested.counts.on_time;
        self.counts.contributions.late += ingested.counts.late;
        self.counts.contributions.too_late += ingested.counts.too_late;
        if !ingested.lags_us.is_empty() {
            side.send(Side::Lags(self.index as u32, ingested.lags_us));
        }
        if !ingested.too_late.is_empty() {
            side.send(Side::TooLate(self.index as u32, ingested.too_late));
        }
        match &mut self.input {
            ViewInput::Windowed(input, _) => {
                for (to, contributions) in ingested.contributions {
                    shared.in_flight.fetch_add(1, Ordering::Relaxed);
                    input.send(Routed { to: to as u64, from: shared.process as u64, contributions });
                }
            }
            ViewInput::PassThrough(input) => {
                if let Some(block) = ingested.passed {
                    input.send(block);
                }
            }
            ViewInput::Closed => debug_assert!(false, "a block after the end of its table"),
        }
    }
}

/// Gives what has come to `absorb`, if it is of the view's layout, and tells the senders.
pub(super) fn receive(
    messages: &mut Parcel<Routed>,
    layout: &Arc<TableSpec>,
    shared: &Shared,
    mut absorb: impl FnMut(&Contributions),
) {
    shared.check(messages);
    for mut routed in messages.drain() {
        if let Err(what) = routed.contributions.accept(layout) {
            shared.unreadable(what);
            continue;
        }
        absorb(&routed.contributions);
        shared.absorbed(routed.from, 1, 0);
    }
}

/// Adds one message to the windows it belongs to.
pub(super) fn absorb(core: &mut WindowCore<Table>, contributions: &Contributions) {
    for run in &contributions.runs {
        let end = run.start as usize + run.len as usize;
        let Some(selected) = contributions.selected.get(run.start as usize..end) else { continue };
        let table = match run.late_stamp_us {
            None => core.on_time(run.slice),
            Some(stamp) => core.late(stamp, run.slice),
        };
        table.insert(&contributions.rows, selected);
    }
    for (slice, table) in &contributions.combined {
        core.on_time(*slice).merge(table);
    }
}

/// Where the changes of a view are gathered: on worker 0 of all, and on the first worker of each process if some of the
/// view's outputs are written by every process for its own keys.
pub(super) struct ViewChanges {
    pub all: Rc<RefCell<Gathered>>,
    pub own: Option<Rc<RefCell<Gathered>>>,
}

/// How the changes of a view are told.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// Each process also gathers its own.
    pub partitioned: bool,
    /// Their instants are times; else they only stand for places in the input.
    pub timed: bool,
}

/// Builds the results dataflow of one view.
pub(super) fn build_view(
    scope: timely::dataflow::Scope<'_, Instant>,
    view: &ViewPlan,
    how: How,
    cutoff: &Cutoff,
    (crew, ended): (Crew, &ProbeHandle<Instant>),
    shared: &Arc<Shared>,
) -> (ViewInput, ViewChanges) {
    let (input, results) = match &view.kind {
        ViewKind::PassThrough(_) => {
            let mut input = Handle::new();
            let stream = input.to_stream(scope);
            (ViewInput::PassThrough(input), stream)
        }
        ViewKind::Windowed(plan) => {
            let mut input: InputOf<Routed> = Handle::new();
            let stream = forward(input.to_stream(scope));
            let (spec, count) = table_spec(plan);
            let layout = Arc::clone(&spec);
            let core = WindowCore::new(Assigner::new(plan.window), view.horizon_us, Table::new(spec));
            let publisher = Publisher::new(plan, &view.output, count);
            let shared = Arc::clone(shared);
            let results = windows(
                stream,
                by_worker(|routed: &Routed| routed.to),
                core,
                cutoff.clone(),
                move |core, messages: &mut Parcel<Routed>, _at| {
                    receive(messages, &layout, &shared, |contributions| absorb(core, contributions));
                },
                move |core, upto, give| {
                    let mut collector = Collector::new(&publisher, give);
                    core.advance(upto, &mut collector);
                    collector.finish();
                },
            );
            (ViewInput::Windowed(input, None), results)
        }
    };
    // A differential collection of results from here on, in blocks: what follows may join, reduce or arrange its rows.
    let results: Collection<'_, Instant, Updates> = AsCollection::as_collection(results);
    let changes = changelog(results.inner, view.horizon_us, cutoff.clone(), how, shared);
    let own = how
        .partitioned
        .then(|| gather(changes.clone(), crew.leader(crew.process), (cutoff, ended), Arc::clone(shared)));
    (input, ViewChanges { all: gather(changes, 0, (cutoff, ended), Arc::clone(shared)), own })
}
