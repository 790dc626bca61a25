//! The operator that stands where a view's windows would when the lateness lab is asked.

use super::operators::{Updates, by_worker};
use super::parcel::Parcel;
use super::view::{Routed, receive};
use super::{Shared, operators::Cutoff};
use crate::aggregate::table::TableSpec;
use crate::lab::Lab;
use crate::lab::core::LabCore;
use crate::time::Instant;
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::operators::generic::operator::Operator;

/// Counts what comes and, when all has come, gives the counts to the lab. No results follow from it.
pub(super) fn count<'scope>(
    stream: Stream<'scope, Instant, Parcel<Routed>>,
    layout: Arc<TableSpec>,
    lab: &Arc<Lab>,
    cutoff: &Cutoff,
    shared: &Arc<Shared>,
) -> Stream<'scope, Instant, Updates> {
    let (lab, cutoff, shared) = (Arc::clone(lab), cutoff.clone(), Arc::clone(shared));
    let to_keeper = by_worker(Routed::keeper);
    stream.unary_frontier::<CapacityContainerBuilder<Updates>, _, _, _>(to_keeper, "Lab", move |_capability, _info| {
        let mut core = Some(LabCore::new(&lab));
        move |(input, frontier), _output| {
            input.for_each(|_capability, messages| {
                receive(messages, &layout, &shared, |contributions| match &mut core {
                    Some(core) => core.absorb(contributions),
                    None => debug_assert!(false, "a message after the end"),
                });
            });
            if let Some(core) = &mut core {
                core.advance(cutoff.upto(frontier));
            }
            if frontier.is_empty()
                && let Some(core) = core.take()
            {
                let (tallies, failure) = core.finish();
                lab.add(&tallies, failure);
            }
        }
    })
}
