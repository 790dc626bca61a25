//! The operators of a run: windows, changelog, and the gathering of changes in order.
//!
//! The windows hold one capability, at the least instant they still owe something for, and act when the frontier passes: then
//! instants are whole. The changelog passes on what comes; gathering gives what the frontier has passed. What is given does
//! not depend on how anything was batched: the order of the rows of several workers is settled where they are gathered.

use super::Shared;
use super::parcel::Parcel;
use super::view::How;
use crate::engine::changelog::{self, Revisions};
use crate::engine::update::UpdateBlock;
use crate::sink::block::ChangeBlock;
use crate::time::Instant;
use crate::window::core::{SliceTable, WindowCore};
use crate::wire::Wire;
use std::cell::RefCell;
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
    pub(super) fn upto(&self, frontier: &MutableAntichain<Instant>) -> Instant {
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

/// The container of a collection of results.
pub(super) type Updates = Vec<UpdateBlock>;

/// Windows of one query: absorbs messages as they come, publishes when the frontier passes.
///
/// `absorb` adds a container of messages (sent at the instant given) to the core; `publish` advances the core and gives its updates
/// (one by one, or in blocks).
pub fn windows<'scope, C, T, R, P, A, F>(
    stream: Stream<'scope, Instant, C>,
    pact: P,
    mut core: WindowCore<T>,
    cutoff: Cutoff,
    mut absorb: A,
    mut publish: F,
) -> Stream<'scope, Instant, Vec<R>>
where
    C: Container + 'static,
    T: SliceTable + 'static,
    R: Clone + 'static,
    P: ParallelizationContract<Instant, C>,
    A: FnMut(&mut WindowCore<T>, &mut C, Instant) + 'static,
    F: FnMut(&mut WindowCore<T>, Instant, &mut dyn FnMut(R)) + 'static,
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

/// Changes on their way to the writer.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Process that waits for them to be absorbed.
    pub from: u64,
    /// The changes.
    pub changes: ChangeBlock,
}

/// The changelog of a collection of results: what each instant's updates mean for each window and key.
///
/// A worker's updates come in whole instants and in order, so that nothing has to wait here.
pub(super) fn changelog<'scope>(
    stream: Stream<'scope, Instant, Updates>,
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
            let mut revisions = Revisions::default();
            move |(input, frontier), output| {
                input.for_each(|capability, data| {
                    let mut session = output.session(&capability);
                    for updates in data.drain(..) {
                        let changes = changelog::changes(updates, &mut revisions, how.timed);
                        let copies = u64::from(how.partitioned) + 1;
                        shared.rows_under_way.fetch_add(changes.len as u64 * copies, Ordering::Relaxed);
                        session.give(Published { from: shared.process as u64, changes });
                    }
                });
                let upto = cutoff.upto(frontier);
                revisions.forget((upto.0.div_euclid(2)).saturating_sub(horizon_us.unwrap_or(0)).saturating_sub(1));
            }
        },
    )
}

/// Changes that are complete, in order, as the writer takes them.
#[derive(Debug, Default)]
pub struct Gathered {
    /// Blocks of changes that are complete, all before `upto` and after those that were taken before.
    pub blocks: Vec<ChangeBlock>,
    /// Everything before this instant is in `blocks` or was before.
    pub upto: Option<Instant>,
    /// Whether nothing more will come.
    pub ended: bool,
}

/// A block of changes that become complete one after another.
struct Waiting {
    block: ChangeBlock,
    /// So many of its rows were.
    given: usize,
}

impl Waiting {
    /// Gives the changes before `upto`; what is left waits on. Rows that are given are copied unless they are the whole block, so
    /// the others stay where they are.
    fn give(self, upto: Instant, to: &mut Vec<ChangeBlock>) -> Option<Waiting> {
        let Waiting { block, given } = self;
        let complete = block.first_at(upto).max(given);
        if (given, complete) == (0, block.len) {
            to.extend((block.len > 0).then_some(block));
            return None;
        }
        if complete > given {
            to.push(block.take(&(given as u32..complete as u32).collect::<Vec<_>>()));
        }
        (complete < block.len).then_some(Waiting { block, given: complete })
    }
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
            let mut waiting: Vec<Waiting> = Vec::new();
            move |(input, frontier), _output| {
                input.for_each(|_capability, data| {
                    absorbed.check(data);
                    for Published { from, changes } in data.drain() {
                        absorbed.absorbed(from, 0, changes.len as u64);
                        waiting.push(Waiting { block: changes, given: 0 });
                    }
                });
                let upto = cutoff.upto(frontier);
                let mut gathered = shared.borrow_mut();
                let give = |block: Waiting| block.give(upto, &mut gathered.blocks);
                waiting = std::mem::take(&mut waiting).into_iter().filter_map(give).collect();
                gathered.upto = Some(upto);
                gathered.ended = frontier.is_empty();
            }
        },
    );
    nothing.probe_with(ended);
    gathered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::per_row::PerRow;
    use crate::sink::Op;
    use crate::types::{Column, DataType, Value};

    #[test]
    fn a_block_is_given_as_it_becomes_complete() {
        let mut key = Column::new(DataType::BigInt);
        (0..4).for_each(|n| key.push(&Value::BigInt(n)));
        let block = ChangeBlock {
            len: 4,
            timed: true,
            at: PerRow::Each([1, 1, 3, 4].map(Instant::of_stamp).to_vec()),
            op: PerRow::All(Op::Insert),
            revision: PerRow::All(0),
            late_count: PerRow::All(0),
            window_us: PerRow::All(None),
            group: vec![key],
            values: Vec::new(),
            errors: Vec::new(),
        };
        for steps in [&[9][..], &[0, 2, 4, 9], &[1, 3, 3, 4, 5], &[2, 2, 9]] {
            let mut waiting = Some(Waiting { block: block.clone(), given: 0 });
            let mut given = Vec::new();
            for upto in steps.iter().map(|step| Instant::of_stamp(*step)) {
                waiting = waiting.and_then(|waiting| waiting.give(upto, &mut given));
                let rows: usize = given.iter().map(|block| block.len).sum();
                assert_eq!(rows, block.first_at(upto), "{steps:?}");
                assert!(given.iter().all(|block| block.len > 0 && block.check().is_ok()));
            }
            assert!(waiting.is_none());
            let keys = given.iter().flat_map(|block| (0..block.len).map(|row| block.change(row).group[0].clone()));
            assert_eq!(keys.collect::<Vec<_>>(), [0, 1, 2, 3].map(Value::BigInt), "{steps:?}");
        }
    }
}
