//! The lateness lab's part of the dataflow: windows that are measured instead of published, and the gathering of what was found.
//!
//! The window operator is that of a run but for its output: it holds a capability at the least stamp with which a pair that is not
//! settled can have begun, so that the frontier of what it tells says how far the lab knows everything. Worker 0
//! follows that and the readers' steps in one [`Timeline`].

use super::Shared;
use super::operators::{Cutoff, by_worker, forward};
use super::parcel::Parcel;
use super::view::{InputOf, Routed, ViewInput, absorb, receive};
use crate::aggregate::table::Table;
use crate::engine::ingest::{Contributions, table_spec};
use crate::lab::figures::Figures;
use crate::lab::keyed::{KeyedMeter, KeyedRows, KeyedSums, LatencyCounts};
use crate::lab::outcome::Outcome;
use crate::lab::pairs::PairMeter;
use crate::lab::plan::LabPlan;
use crate::lab::steps::Step;
use crate::lab::timeline::{Timeline, WindowReport};
use crate::plan::{ViewPlan, WindowedPlan};
use crate::time::Instant;
use crate::watermark::AFTER_ALL;
use crate::window::Assigner;
use crate::window::core::WindowCore;
use crate::wire::{Reader, Wire, WireError, Writer};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::ExchangeCore;
use timely::dataflow::operators::core::input::Handle;
use timely::dataflow::operators::generic::operator::Operator;
use timely::dataflow::operators::{Capability, Concat, Probe};
use timely::dataflow::{ProbeHandle, Scope, Stream};

/// What workers tell worker 0.
#[derive(Clone, Debug)]
pub(super) enum LabMessage {
    /// Records that take the watermark over ends of windows.
    Steps(Vec<Step>),
    /// A window is settled.
    Window(WindowReport),
    /// A worker's sums over pairs, once at its end.
    Figures(Figures),
    /// Result latencies under keyed watermarks.
    KeyedLatencies(LatencyCounts),
    /// A worker's sums over keys, once at its end.
    Keyed(KeyedSums),
}

impl Wire for LabMessage {
    const LEAST: usize = 16;
    fn size(&self) -> usize {
        8 + match self {
            LabMessage::Steps(steps) => steps.size(),
            LabMessage::Window(report) => report.size(),
            LabMessage::Figures(figures) => figures.size(),
            LabMessage::KeyedLatencies(counts) => counts.size(),
            LabMessage::Keyed(sums) => sums.size(),
        }
    }
    fn put(&self, out: &mut Writer) {
        match self {
            LabMessage::Steps(steps) => {
                out.word(0);
                steps.put(out);
            }
            LabMessage::Window(report) => {
                out.word(1);
                report.put(out);
            }
            LabMessage::Figures(figures) => {
                out.word(2);
                figures.put(out);
            }
            LabMessage::KeyedLatencies(counts) => {
                out.word(3);
                counts.put(out);
            }
            LabMessage::Keyed(sums) => {
                out.word(4);
                sums.put(out);
            }
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match from.word_upto(4, "expected the kind of a message of the lab, 0 to 4")? {
            0 => LabMessage::Steps(Wire::get(from)?),
            1 => LabMessage::Window(Wire::get(from)?),
            2 => LabMessage::Figures(Wire::get(from)?),
            3 => LabMessage::KeyedLatencies(Wire::get(from)?),
            _ => LabMessage::Keyed(Wire::get(from)?),
        })
    }
}

/// What worker 0 has gathered.
#[derive(Debug)]
pub(super) struct LabGathered {
    timeline: Option<Timeline>,
    outcome: Outcome,
}

impl LabGathered {
    /// The outcome, once everything has been told.
    pub fn take(&mut self) -> Outcome {
        if let Some(timeline) = self.timeline.take() {
            self.outcome.timeline = timeline.finish();
        }
        std::mem::take(&mut self.outcome)
    }
}

type LabStream<'scope> = Stream<'scope, Instant, Parcel<LabMessage>>;

/// The least stamp, as an instant, with which a pair of each slice that is not settled can have begun.
#[derive(Default)]
struct Floors {
    by_slice: BTreeMap<i64, Instant>,
    ordered: BTreeSet<(Instant, i64)>,
}

impl Floors {
    fn touch(&mut self, slice: i64, at: Instant) {
        let known = self.by_slice.entry(slice).or_insert(Instant(i64::MAX));
        if at < *known {
            self.ordered.remove(&(*known, slice));
            self.ordered.insert((at, slice));
            *known = at;
        }
    }
    /// Forgets the slices before `keep`.
    fn settle(&mut self, keep: i64) {
        while let Some(entry) = self.by_slice.first_entry().filter(|entry| *entry.key() < keep) {
            let (slice, at) = entry.remove_entry();
            self.ordered.remove(&(at, slice));
        }
    }
    fn least(&self) -> Instant {
        self.ordered.first().map_or(Instant(i64::MAX), |(at, _)| *at)
    }
}

/// Builds the dataflow of a view that is measured.
pub(super) fn build_lab(
    scope: Scope<'_, Instant>,
    plan: &LabPlan,
    (view, windowed): (&ViewPlan, &WindowedPlan),
    cutoff: &Cutoff,
    ended: &ProbeHandle<Instant>,
    shared: &Arc<Shared>,
) -> (ViewInput, Rc<RefCell<LabGathered>>) {
    let mut input: InputOf<Routed> = Handle::new();
    let stream = forward(input.to_stream(scope));
    let mut steps: InputOf<LabMessage> = Handle::new();
    let steps_stream = forward(steps.to_stream(scope));
    let assigner = Assigner::new(windowed.window);
    let (spec, _) = table_spec(windowed);
    let core = WindowCore::new(assigner, view.horizon_us, Table::new(spec));
    let slots = plan.recommend.as_ref().map(|plan| plan.slots);
    let meter = PairMeter::new(&plan.grid, view, windowed, slots);
    let found = measure(stream, core, meter, cutoff.clone(), Arc::clone(shared));
    let timeline = Timeline::new(&plan.grid, assigner, plan.recommend.as_ref());
    let (mut found, mut keyed) = (found.concat(steps_stream), None);
    if let Some(grid) = &plan.keyed {
        let mut rows: InputOf<KeyedRows> = Handle::new();
        let stream = forward(rows.to_stream(scope));
        found = found.concat(follow(stream, KeyedMeter::new(grid, assigner), cutoff.clone(), Arc::clone(shared)));
        keyed = Some(rows);
    }
    let gathered = gather(found, timeline, (cutoff, ended), Arc::clone(shared));
    (ViewInput::Windowed(input, Some(Box::new(LabInputs { steps, keyed }))), gathered)
}

/// What a reader tells the lab.
pub(super) struct LabInputs {
    pub steps: InputOf<LabMessage>,
    /// Records for keyed watermarks, if there are any.
    pub keyed: Option<InputOf<KeyedRows>>,
}

/// Keyed watermarks: every worker follows its keys.
fn follow<'scope>(
    stream: Stream<'scope, Instant, Parcel<KeyedRows>>,
    meter: KeyedMeter,
    cutoff: Cutoff,
    shared: Arc<Shared>,
) -> LabStream<'scope> {
    stream.unary_frontier::<CapacityContainerBuilder<Parcel<_>>, _, _, _>(
        by_worker(|rows: &KeyedRows| rows.to),
        "Keyed",
        move |_capability, _info| {
            let mut held: Option<Capability<Instant>> = None;
            let mut meter = Some(meter);
            move |(input, frontier), output| {
                let Some(keys) = &mut meter else { return };
                input.for_each(|capability, data| {
                    let Some(at) = capability.least() else { return };
                    if held.as_ref().is_none_or(|held| held.time() > at) {
                        held = capability.retain_least(0);
                    }
                    shared.check(data);
                    data.drain().for_each(|message| keys.rows(message.rows));
                });
                let Some(capability) = &mut held else { return };
                let upto = cutoff.upto(frontier);
                keys.advance(upto, &mut |told| output.session(&*capability).give(LabMessage::KeyedLatencies(told)));
                if frontier.is_empty() {
                    if let Some(keys) = meter.take() {
                        let (sums, told) = keys.into_sums();
                        output.session(&*capability).give(LabMessage::KeyedLatencies(told));
                        output.session(&*capability).give(LabMessage::Keyed(sums));
                    }
                    held = None;
                } else if *capability.time() < upto {
                    capability.downgrade(&upto);
                }
            }
        },
    )
}

/// Windows of one view: absorbs messages as they come, and tells of windows that are settled.
fn measure<'scope>(
    stream: Stream<'scope, Instant, Parcel<Routed>>,
    mut core: WindowCore<Table>,
    meter: PairMeter,
    cutoff: Cutoff,
    shared: Arc<Shared>,
) -> LabStream<'scope> {
    let by_key = by_worker(|routed: &Routed| routed.to);
    let layout = Arc::clone(core.empty().spec());
    stream.unary_frontier::<CapacityContainerBuilder<Parcel<_>>, _, _, _>(
        by_key,
        "Measure",
        move |_capability, _info| {
            let mut held: Option<Capability<Instant>> = None;
            let mut floors = Floors::default();
            let mut meter = Some(meter);
            move |(input, frontier), output| {
                input.for_each(|capability, data| {
                    let Some(at) = capability.least().copied() else { return };
                    if held.as_ref().is_none_or(|held| *held.time() > at) {
                        held = capability.retain_least(0);
                    }
                    receive(data, &layout, &shared, |contributions| {
                        touch(&mut floors, contributions, at);
                        absorb(&mut core, contributions);
                    });
                });
                let upto = cutoff.upto(frontier);
                let (Some(capability), Some(pairs)) = (&mut held, &mut meter) else {
                    core.forget(upto);
                    return;
                };
                core.advance(upto, pairs);
                pairs.settle(upto, &mut |report| output.session(&*capability).give(LabMessage::Window(report)));
                floors.settle(core.assigner().slices_of_window(pairs.settled(upto) + 1).start);
                if frontier.is_empty() {
                    if let Some(pairs) = meter.take() {
                        output.session(&*capability).give(LabMessage::Figures(pairs.into_figures()));
                    }
                    held = None;
                    return;
                }
                let next = floors.least().min(upto);
                if *capability.time() < next {
                    capability.downgrade(&next);
                }
            }
        },
    )
}

fn touch(floors: &mut Floors, contributions: &Contributions, at: Instant) {
    contributions.runs.iter().for_each(|run| floors.touch(run.slice, at));
    contributions.combined.iter().for_each(|(slice, _)| floors.touch(*slice, at));
}

/// Brings everything to worker 0.
fn gather<'scope>(
    stream: LabStream<'scope>,
    timeline: Timeline,
    (cutoff, ended): (&Cutoff, &ProbeHandle<Instant>),
    shared: Arc<Shared>,
) -> Rc<RefCell<LabGathered>> {
    let gathered = Rc::new(RefCell::new(LabGathered { timeline: Some(timeline), outcome: Outcome::default() }));
    let (sink, cutoff) = (Rc::clone(&gathered), cutoff.clone());
    let to_first = ExchangeCore::<CapacityContainerBuilder<Parcel<LabMessage>>, _>::new_core(|_: &LabMessage| 0);
    let nothing = stream.unary_frontier::<CapacityContainerBuilder<Vec<()>>, _, _, _>(
        to_first,
        "Lab",
        move |_capability, _info| {
            move |(input, frontier), _output| {
                let LabGathered { timeline, outcome } = &mut *sink.borrow_mut();
                let Some(timeline) = timeline else { return };
                input.for_each(|_capability, data| {
                    shared.check(data);
                    for message in data.drain() {
                        match message {
                            LabMessage::Steps(steps) => timeline.steps(steps),
                            LabMessage::Window(report) => timeline.window(report),
                            LabMessage::Figures(figures) => outcome.add_figures(figures),
                            LabMessage::KeyedLatencies(counts) => outcome.keyed.latencies(&counts),
                            LabMessage::Keyed(sums) => outcome.keyed.add(&sums),
                        }
                    }
                });
                let upto = cutoff.upto(frontier);
                let (time_us, closing) = upto.time();
                // The end is told when everything has been: by `LabGathered::take`.
                if !closing && time_us < AFTER_ALL / 2 {
                    timeline.advance(time_us);
                }
            }
        },
    );
    nothing.probe_with(ended);
    gathered
}
