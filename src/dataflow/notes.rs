//! What workers tell each other beside rows: summaries of blocks, the end of reading, why to stop, and what was absorbed.

use super::deal::Crew;
use super::operators::forward;
use super::{Shared, Stopped};
use crate::watermark::blocks::BlockSummary;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::core::input::Handle;
use timely::dataflow::operators::generic::operator::Operator;
use timely::worker::Worker;

/// A message between workers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Note {
    /// A block of the table named was decoded.
    Summary(u32, BlockSummary),
    /// A reader of a table's lane gives nothing more.
    Ended(u32, u32),
    /// The worker named reads nothing more.
    Done(u32),
    /// The process named stops reading, and why; all others are to stop, too.
    Stop(u32, Stopped),
    /// Messages and rows of the process that gets this were absorbed.
    Absorbed(u64, u64),
}

/// What a worker has read of a table.
#[derive(Debug)]
pub(super) enum Read {
    /// A block, of which this is known.
    Block(BlockSummary),
    /// The end of its part of a lane.
    End(u32),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Addressed {
    to: u64,
    note: Note,
}

/// One worker's end of the exchange of notes.
pub(super) struct Notes {
    crew: Crew,
    input: Option<Handle<u64, CapacityContainerBuilder<Vec<Addressed>>>>,
    received: Rc<RefCell<Vec<Addressed>>>,
    done: Vec<bool>,
    own_done: bool,
}

impl Notes {
    /// Builds the dataflow of notes.
    pub fn new(worker: &mut Worker, crew: Crew) -> Self {
        let received: Rc<RefCell<Vec<Addressed>>> = Rc::default();
        let sink = Rc::clone(&received);
        let mut input: Handle<u64, CapacityContainerBuilder<Vec<Addressed>>> = Handle::new();
        worker.dataflow_named::<u64, _, _>("Notes", |scope| {
            let stream = forward(input.to_stream(scope));
            let by_worker = Exchange::new(|addressed: &Addressed| addressed.to);
            stream.unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(by_worker, "Notes", move |_, _| {
                move |input, _output| input.for_each(|_, data| sink.borrow_mut().append(data))
            });
        });
        Notes { crew, input: Some(input), received, done: vec![false; crew.workers()], own_done: false }
    }

    fn send(&mut self, to: usize, note: Note) {
        if let Some(input) = &mut self.input {
            input.send(Addressed { to: to as u64, note });
        }
    }

    /// Tells every other worker what this one has read of a table.
    pub fn tell(&mut self, table: usize, read: &Read) {
        let crew = self.crew;
        for to in (0..crew.workers()).filter(|to| *to != crew.index()) {
            self.send(
                to,
                match read {
                    Read::Block(summary) => Note::Summary(table as u32, summary.clone()),
                    Read::End(lane) => Note::Ended(table as u32, *lane),
                },
            );
        }
    }

    /// Tells all that this worker reads nothing more. Once.
    pub fn done(&mut self) {
        if !std::mem::replace(&mut self.own_done, true) {
            for to in 0..self.crew.workers() {
                self.send(to, Note::Done(self.crew.index() as u32));
            }
        }
    }

    /// Tells the other processes if this one stops, and those whose rows were absorbed here that they were.
    pub fn report(&mut self, shared: &Shared) {
        if self.crew.processes == 1 {
            return;
        }
        if let Some(why) = shared.stop_to_tell() {
            let crew = self.crew;
            for process in (0..crew.processes).filter(|p| *p != crew.process) {
                self.send(self.crew.leader(process), Note::Stop(self.crew.process as u32, why.clone()));
            }
        }
        for process in 0..self.crew.processes {
            if let Some((messages, rows)) = shared.absorbed_from(process) {
                self.send(self.crew.leader(process), Note::Absorbed(messages, rows));
            }
        }
    }

    /// What has come in: stops and acknowledgements are seen to; what others have read is given, with its table.
    pub fn take(&mut self, shared: &Shared) -> Vec<(usize, Read)> {
        if let Some(input) = &mut self.input {
            input.flush();
        }
        let mut heard = Vec::new();
        for addressed in std::mem::take(&mut *self.received.borrow_mut()) {
            match addressed.note {
                Note::Summary(table, summary) => heard.push((table as usize, Read::Block(summary))),
                Note::Ended(table, lane) => heard.push((table as usize, Read::End(lane))),
                Note::Done(from) => self.done.get_mut(from as usize).into_iter().for_each(|d| *d = true),
                Note::Stop(process, why) => shared.told_to_stop(process as usize, why),
                Note::Absorbed(messages, rows) => {
                    shared.in_flight.fetch_sub(messages, Ordering::Relaxed);
                    shared.rows_under_way.fetch_sub(rows, Ordering::Relaxed);
                }
            }
        }
        heard
    }

    /// Whether every worker has read everything; the exchange then ends.
    pub fn finished(&mut self) -> bool {
        let finished = self.own_done && self.done.iter().all(|d| *d);
        if finished {
            self.input = None;
        }
        finished
    }
}
