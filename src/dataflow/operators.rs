//! The operators of a run: windows, changelog, and the gathering of changes in order.
//!
//! All three hold one capability, at the least instant they still owe something for, and act when the frontier passes.
//! What they emit does not depend on how their input was batched; the order within a batch of updates does, and is
//! settled where changes are gathered.

use super::Shared;
use super::parcel::Parcel;
use super::view::How;
use crate::engine::ResultRow;
use crate::sink::{Change, Op, sort_step};
use crate::time::Instant;
use crate::types::Value;
use crate::watermark::BEFORE_ALL;
use crate::window::core::{SliceTable, WindowCore};
use crate::wire::Wire;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use timely::Container;
use timely::container::{CapacityContainerBuilder, SizableContainer};
use timely::dataflow::channels::pact::{ExchangeCore, ParallelizationContract, Pipeline};
use timely::dataflow::operators::generic::operator::Operator;
use timely::dataflow::operators::{Capability, Probe};
use timely::dataflow::{ProbeHandle, Stream};
use timely::progress::Timestamp;
use timely::progress::frontier::MutableAntichain;

/// Up to where changes are final when a run stops without an end of input. Unset: no bound.
///
/// Inputs that are closed let the frontier run to the end; windows that were open must not close for it.
#[derive(Clone, Debug)]
pub struct Cutoff(Arc<AtomicI64>);

impl Default for Cutoff {
    fn default() -> Self {
        Cutoff(Arc::new(AtomicI64::new(i64::MAX)))
    }
}

impl Cutoff {
    /// Sets the bound; every worker works out the same.
    pub fn set(&self, at: Instant) {
        self.0.store(at.0, Ordering::SeqCst);
    }
    /// Instants below this are complete and may be acted on.
    fn upto(&self, frontier: &MutableAntichain<Instant>) -> Instant {
        let reached = frontier.frontier().first().copied().unwrap_or(Instant(i64::MAX));
        reached.min(Instant(self.0.load(Ordering::SeqCst)))
    }
}

/// The capability of an operator that owes something from some instant on.
struct Owed(Option<Capability<Instant>>);

impl Owed {
    /// Takes over the capability of a message if nothing earlier is owed yet.
    fn take(&mut self, message: &timely::dataflow::operators::InputCapability<Instant>) {
        let Some(least) = message.least() else { return };
        if self.0.as_ref().is_none_or(|held| held.time() > least) {
            self.0 = message.retain_least(0);
        }
    }
    /// Lets go of everything before `next`, or of all.
    fn settle(&mut self, next: Option<Instant>, ended: bool) {
        match next {
            Some(next) if !ended => {
                if let Some(held) = &mut self.0
                    && *held.time() < next
                {
                    held.downgrade(&next);
                }
            }
            _ => self.0 = None,
        }
    }
}

/// Sends each message of a parcel to the worker that `route` names (modulo the number of workers).
pub fn by_worker<M: Wire + Clone + Send + 'static>(
    route: impl Fn(&M) -> u64 + 'static,
) -> impl ParallelizationContract<Instant, Parcel<M>> {
    ExchangeCore::<CapacityContainerBuilder<Parcel<M>>, _>::new_core(move |message: &M| route(message))
}

/// Hands on what an input gives, so that an exchange may follow it.
///
/// An exchange keeps messages in buffers until it is told to flush. An operator tells it whenever it has run; an input
/// only when its time advances, and then a frontier that stands still would hold back every message, and with them the
/// readers, which wait for messages to be absorbed.
pub fn forward<'scope, T, C>(stream: Stream<'scope, T, C>) -> Stream<'scope, T, C>
where
    T: Timestamp,
    C: Container + SizableContainer + Clone + 'static,
{
    stream.unary::<CapacityContainerBuilder<C>, _, _, _>(Pipeline, "Forward", move |_capability, _info| {
        move |input, output| input.for_each(|capability, data| output.session(&capability).give_container(data))
    })
}

/// Windows of one query: absorbs messages as they come, publishes when the frontier passes.
///
/// `absorb` adds a container of messages (sent at the instant given) to the core; `publish` advances the core and gives its updates.
pub fn windows<'scope, C, T, R, P, A, F>(
    stream: Stream<'scope, Instant, C>,
    pact: P,
    mut core: WindowCore<T>,
    cutoff: Cutoff,
    mut absorb: A,
    mut publish: F,
) -> Stream<'scope, Instant, Vec<(R, Instant, isize)>>
where
    C: Container + 'static,
    T: SliceTable + 'static,
    R: Clone + 'static,
    P: ParallelizationContract<Instant, C>,
    A: FnMut(&mut WindowCore<T>, &mut C, Instant) + 'static,
    F: FnMut(&mut WindowCore<T>, Instant, &mut dyn FnMut((R, Instant, isize))) + 'static,
{
    stream.unary_frontier::<CapacityContainerBuilder<Vec<_>>, _, _, _>(pact, "Windows", move |_capability, _info| {
        let mut owed = Owed(None);
        move |(input, frontier), output| {
            input.for_each(|capability, data| {
                owed.take(&capability);
                let at = capability.least().copied().unwrap_or(Instant(i64::MAX));
                absorb(&mut core, data, at);
            });
            let upto = cutoff.upto(frontier);
            if let Some(capability) = owed.0.as_ref().filter(|c| *c.time() < upto) {
                let mut session = output.session(capability);
                publish(&mut core, upto, &mut |update| session.give(update));
            } else {
                core.forget(upto);
            }
            owed.settle(core.next_instant(), frontier.is_empty());
        }
    })
}

/// A change on its way to the writer, or why the run cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Published {
    /// The instant it belongs to.
    pub at: Instant,
    /// Process that waits for it to be absorbed.
    pub from: u64,
    /// The change.
    pub change: Change,
    /// Set if its row cannot be published.
    pub error: Option<Box<str>>,
}

type Key = (Option<(i64, i64)>, Box<[Value]>);

/// Revisions of the windows and keys that were corrected; only those, until they can change no more.
#[derive(Debug, Default)]
struct Revisions {
    by_end: BTreeMap<i64, HashMap<Key, u64>>,
}

impl Revisions {
    fn get(&self, key: &Key) -> Option<u64> {
        self.by_end.get(&end_of(key))?.get(key).copied()
    }
    fn set(&mut self, key: &Key, revision: u64) {
        self.by_end.entry(end_of(key)).or_default().insert(key.clone(), revision);
    }
    fn forget(&mut self, before_end_us: i64) {
        self.by_end = self.by_end.split_off(&before_end_us);
    }
}

fn end_of(key: &Key) -> i64 {
    key.0.map_or(i64::MAX, |(_, end)| end)
}

/// The changes of one instant, from the updates of the collection of results.
fn changes_of(
    instant: Instant,
    updates: Vec<(ResultRow, isize)>,
    revisions: &mut Revisions,
    (timed, from): (bool, u64),
    out: &mut Vec<Published>,
) {
    let (watermark_us, closing) = if timed { instant.time() } else { (BEFORE_ALL, false) };
    let change = |op, revision, row: ResultRow| {
        let (values, error) = match row.values {
            Ok(values) => (values, None),
            Err(error) => (Box::default(), Some(error)),
        };
        let (window_us, group, late_count) = (row.window_us, row.group, row.late_count);
        Published {
            at: instant,
            from,
            change: Change { op, watermark_us, closing, revision, late_count, window_us, group, values },
            error,
        }
    };
    if closing || updates.iter().all(|(row, diff)| row.window_us.is_none() && *diff == 1) {
        out.extend(updates.into_iter().filter(|(_, diff)| *diff > 0).map(|(row, _)| change(Op::Insert, 0, row)));
        return;
    }
    let mut by_key: BTreeMap<Key, (Option<ResultRow>, Option<ResultRow>)> = BTreeMap::new();
    for (row, diff) in updates {
        let entry = by_key.entry((row.window_us, row.group.clone())).or_default();
        if diff < 0 { entry.0 = Some(row) } else { entry.1 = Some(row) }
    }
    for (key, (before, after)) in by_key {
        let known = revisions.get(&key);
        match (before, after) {
            (Some(before), Some(after)) => {
                if before != after {
                    let revision = known.unwrap_or(0);
                    revisions.set(&key, revision + 1);
                    out.push(change(Op::UpdateBefore, revision, before));
                    out.push(change(Op::UpdateAfter, revision + 1, after));
                }
            }
            (Some(before), None) => {
                let revision = known.unwrap_or(0);
                revisions.set(&key, revision);
                out.push(change(Op::Delete, revision, before));
            }
            (None, Some(after)) => {
                let revision = known.map_or(0, |r| r + 1);
                revisions.set(&key, revision);
                out.push(change(Op::Insert, revision, after));
            }
            (None, None) => {}
        }
    }
}

/// The changelog of a collection of results: what each instant's updates mean for each window and key.
pub(super) fn changelog<'scope>(
    stream: Stream<'scope, Instant, Vec<(ResultRow, Instant, isize)>>,
    horizon_us: Option<i64>,
    cutoff: Cutoff,
    how: How,
    shared: &Arc<Shared>,
) -> Stream<'scope, Instant, Parcel<Published>> {
    let shared = Arc::clone(shared);
    stream.unary_frontier::<CapacityContainerBuilder<Parcel<_>>, _, _, _>(
        Pipeline,
        "Changelog",
        move |_capability, _info| {
            let mut owed = Owed(None);
            let mut waiting: BTreeMap<Instant, Vec<(ResultRow, isize)>> = BTreeMap::new();
            let mut revisions = Revisions::default();
            move |(input, frontier), output| {
                input.for_each(|capability, data| {
                    owed.take(&capability);
                    // Updates of one instant come in runs.
                    let mut run: Option<(Instant, Vec<(ResultRow, isize)>)> = None;
                    for (row, at, diff) in data.drain(..) {
                        match &mut run {
                            Some((instant, list)) if *instant == at => list.push((row, diff)),
                            _ => {
                                let mut list = waiting.remove(&at).unwrap_or_default();
                                list.push((row, diff));
                                waiting.extend(run.replace((at, list)));
                            }
                        }
                    }
                    waiting.extend(run);
                });
                let upto = cutoff.upto(frontier);
                if let Some(capability) = owed.0.as_ref().filter(|c| *c.time() < upto) {
                    let mut session = output.session(capability);
                    let mut changes = Vec::new();
                    while let Some(entry) = waiting.first_entry().filter(|e| *e.key() < upto) {
                        let (at, updates) = entry.remove_entry();
                        changes_of(at, updates, &mut revisions, (how.timed, shared.process as u64), &mut changes);
                        shared
                            .rows_under_way
                            .fetch_add(changes.len() as u64 * (u64::from(how.partitioned) + 1), Ordering::Relaxed);
                        changes.drain(..).for_each(|change| session.give(change));
                    }
                }
                revisions.forget((upto.0.div_euclid(2)).saturating_sub(horizon_us.unwrap_or(0)).saturating_sub(1));
                owed.settle(waiting.keys().next().copied(), frontier.is_empty());
            }
        },
    )
}

/// Changes that are complete, in order, as the writer takes them.
#[derive(Debug, Default)]
pub struct Gathered {
    /// One entry a watermark step: its instant and its changes, sorted.
    pub steps: Vec<(Instant, Vec<Published>)>,
    /// Everything before this instant is in `steps` or was before.
    pub upto: Option<Instant>,
    /// Whether nothing more will come.
    pub ended: bool,
}

/// Brings the changes of all workers of all processes to one of them (the changes of a process to its own, if each names
/// its own) and lays them down in the documented order.
pub(super) fn gather<'scope>(
    stream: Stream<'scope, Instant, Parcel<Published>>,
    to: usize,
    (cutoff, ended): (&Cutoff, &ProbeHandle<Instant>),
    absorbed: Arc<Shared>,
) -> Rc<RefCell<Gathered>> {
    let cutoff = cutoff.clone();
    let gathered = Rc::new(RefCell::new(Gathered::default()));
    let shared = Rc::clone(&gathered);
    let to_writer = by_worker(move |_: &Published| to as u64);
    let nothing = stream.unary_frontier::<CapacityContainerBuilder<Vec<()>>, _, _, _>(
        to_writer,
        "Gather",
        move |_capability, _info| {
            let mut waiting: BTreeMap<Instant, Vec<Published>> = BTreeMap::new();
            move |(input, frontier), _output| {
                input.for_each(|_capability, data| {
                    absorbed.check(data);
                    // Changes of one instant come in runs.
                    let mut run: Option<(Instant, Vec<Published>)> = None;
                    for published in data.drain() {
                        absorbed.absorbed(published.from, 0, 1);
                        match &mut run {
                            Some((at, list)) if *at == published.at => list.push(published),
                            _ => {
                                let mut list = waiting.remove(&published.at).unwrap_or_default();
                                let at = published.at;
                                list.push(published);
                                waiting.extend(run.replace((at, list)));
                            }
                        }
                    }
                    waiting.extend(run);
                });
                let upto = cutoff.upto(frontier);
                let mut gathered = shared.borrow_mut();
                while let Some(entry) = waiting.first_entry().filter(|e| *e.key() < upto) {
                    let (at, mut step) = entry.remove_entry();
                    sort_step(&mut step, |published| &published.change);
                    gathered.steps.push((at, step));
                }
                gathered.upto = Some(upto);
                gathered.ended = frontier.is_empty();
            }
        },
    );
    nothing.probe_with(ended);
    gathered
}
