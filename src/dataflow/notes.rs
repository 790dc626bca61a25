//! What workers tell each other beside rows: summaries of blocks, the end of reading, why to stop, and what was absorbed.

use super::deal::Crew;
use super::operators::{by_worker, forward};
use super::refusal::{Bound, Extent, Place};
use super::view::InputOf;
use super::{Shared, Stopped};
use crate::error::Error;
use crate::time::Instant;
use crate::watermark::blocks::BlockSummary;
use crate::wire::{Reader, Wire, WireError, Writer};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::operators::core::input::Handle;
use timely::dataflow::operators::generic::operator::Operator;
use timely::worker::Worker;

/// A message between workers.
#[derive(Clone, Debug)]
pub(super) enum Note {
    /// A block of the table named was decoded.
    Summary(u32, BlockSummary),
    /// A reader of a table's lane gives nothing more.
    Ended(u32, u32),
    /// The worker named reads nothing more; and why and of which process, if that is not the end of its input.
    Done(u32, Option<(u32, Stopped)>),
    /// The process named stops reading, and why; all others are to stop, too.
    Stop(u32, Stopped),
    /// Messages and rows of the process that gets this were absorbed.
    Absorbed(u64, u64),
    /// The process named has come through a stage of the end, or has failed with this error.
    Passed(u32, u32, Option<String>),
    /// A block of the table named was searched for rejects, and gives nothing else.
    Searched(u32, Extent),
    /// A reject was refused; only lesser ones are of interest.
    Refused(Place),
}

/// Stages of the end that all processes pass together, so that a failure of one keeps the others from publishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The outputs have written everything; files have yet to get their names.
    Prepared,
    /// The outputs are complete under their names.
    Completed,
}

/// What a worker has read of a table.
#[derive(Debug)]
pub(super) enum Read {
    /// A block, of which this is known.
    Block(BlockSummary),
    /// A block that was only searched for rejects.
    Searched(Extent),
    /// The end of its part of a lane.
    End(u32),
}

#[derive(Clone, Debug)]
struct Addressed {
    to: u64,
    note: Note,
}

impl Wire for Addressed {
    const LEAST: usize = 24;
    fn size(&self) -> usize {
        16 + match &self.note {
            Note::Summary(table, summary) => table.size() + summary.size(),
            Note::Ended(table, lane) => table.size() + lane.size(),
            Note::Done(worker, why) => worker.size() + why.size(),
            Note::Stop(process, why) => process.size() + why.size(),
            Note::Absorbed(messages, rows) => messages.size() + rows.size(),
            Note::Passed(stage, process, error) => stage.size() + process.size() + error.size(),
            Note::Searched(table, extent) => table.size() + extent.size(),
            Note::Refused(place) => place.size(),
        }
    }
    fn put(&self, out: &mut Writer) {
        self.to.put(out);
        let mut tag = |n: u64| n.put(out);
        match &self.note {
            Note::Summary(table, summary) => {
                tag(0);
                table.put(out);
                summary.put(out);
            }
            Note::Ended(table, lane) => {
                tag(1);
                table.put(out);
                lane.put(out);
            }
            Note::Done(worker, why) => {
                tag(2);
                worker.put(out);
                why.put(out);
            }
            Note::Stop(process, why) => {
                tag(3);
                process.put(out);
                why.put(out);
            }
            Note::Absorbed(messages, rows) => {
                tag(4);
                messages.put(out);
                rows.put(out);
            }
            Note::Passed(stage, process, error) => {
                tag(5);
                stage.put(out);
                process.put(out);
                error.put(out);
            }
            Note::Searched(table, extent) => {
                tag(6);
                table.put(out);
                extent.put(out);
            }
            Note::Refused(place) => {
                tag(7);
                place.put(out);
            }
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let to = Wire::get(from)?;
        let at = from.at();
        let note = match from.word()? {
            0 => Note::Summary(Wire::get(from)?, Wire::get(from)?),
            1 => Note::Ended(Wire::get(from)?, Wire::get(from)?),
            2 => Note::Done(Wire::get(from)?, Wire::get(from)?),
            3 => Note::Stop(Wire::get(from)?, Wire::get(from)?),
            4 => Note::Absorbed(Wire::get(from)?, Wire::get(from)?),
            5 => Note::Passed(Wire::get(from)?, Wire::get(from)?, Wire::get(from)?),
            6 => Note::Searched(Wire::get(from)?, Wire::get(from)?),
            7 => Note::Refused(Wire::get(from)?),
            _ => return Err(WireError { at, what: "expected a note's tag" }),
        };
        Ok(Addressed { to, note })
    }
}

impl Wire for Stopped {
    fn size(&self) -> usize {
        8 + if let Stopped::Failed(message) = self { message.size() } else { 0 }
    }
    fn put(&self, out: &mut Writer) {
        match self {
            Stopped::Interrupted => 0u64.put(out),
            Stopped::Closed => 1u64.put(out),
            Stopped::Failed(message) => {
                2u64.put(out);
                message.put(out);
            }
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let at = from.at();
        Ok(match from.word()? {
            0 => Stopped::Interrupted,
            1 => Stopped::Closed,
            2 => Stopped::Failed(Wire::get(from)?),
            _ => return Err(WireError { at, what: "expected a reason to stop" }),
        })
    }
}

/// One worker's end of the exchange of notes.
pub(super) struct Notes {
    crew: Crew,
    input: Option<InputOf<Addressed>>,
    received: Rc<RefCell<Vec<Addressed>>>,
    done: Vec<bool>,
    own_done: bool,
    /// By stage and process.
    passed: [Vec<bool>; 2],
    bound: Bound,
    /// What was last told of it.
    told: Option<Place>,
}

impl Notes {
    /// Builds the dataflow of notes. `bound` is lowered by what is heard; what worker 0 lowers is told.
    pub fn new(worker: &mut Worker, crew: Crew, bound: Bound, shared: &Arc<Shared>) -> Self {
        let received: Rc<RefCell<Vec<Addressed>>> = Rc::default();
        let sink = Rc::clone(&received);
        let shared = Arc::clone(shared);
        let mut input: InputOf<Addressed> = Handle::new();
        worker.dataflow_named::<Instant, _, _>("Notes", |scope| {
            let stream = forward(input.to_stream(scope));
            let by_worker = by_worker(|addressed: &Addressed| addressed.to);
            stream.unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(by_worker, "Notes", move |_, _| {
                move |input, _output| {
                    input.for_each(|_, data| {
                        shared.check(data);
                        sink.borrow_mut().extend(data.drain());
                    });
                }
            });
        });
        let passed = [vec![false; crew.processes], vec![false; crew.processes]];
        let done = vec![false; crew.workers()];
        Notes { crew, input: Some(input), received, done, own_done: false, passed, bound, told: None }
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
                    Read::Searched(extent) => Note::Searched(table as u32, *extent),
                    Read::End(lane) => Note::Ended(table as u32, *lane),
                },
            );
        }
    }

    /// Tells all that this worker reads nothing more. Once.
    pub fn done(&mut self, shared: &Shared) {
        if !std::mem::replace(&mut self.own_done, true) {
            // Another worker of the process may have told why, and be heard later than this.
            let why = shared.why_stopping().map(|(whose, why)| (whose as u32, why));
            for to in 0..self.crew.workers() {
                self.send(to, Note::Done(self.crew.index() as u32, why.clone()));
            }
        }
    }

    /// Tells all what was refused; the other processes if this one stops; and those whose rows were absorbed here that
    /// they were.
    pub fn report(&mut self, shared: &Shared) {
        if let Some(least) = self.bound.get().filter(|least| self.crew.index() == 0 && self.told != Some(*least)) {
            self.told = Some(least);
            (1..self.crew.workers()).for_each(|to| self.send(to, Note::Refused(least)));
        }
        if self.crew.processes == 1 {
            return;
        }
        if let Some((whose, why)) = shared.stop_to_tell() {
            let crew = self.crew;
            for process in (0..crew.processes).filter(|p| *p != crew.process && *p != whose) {
                self.send(self.crew.leader(process), Note::Stop(whose as u32, why.clone()));
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
                Note::Searched(table, extent) => heard.push((table as usize, Read::Searched(extent))),
                Note::Refused(place) => self.bound.lower(place),
                Note::Ended(table, lane) => heard.push((table as usize, Read::End(lane))),
                Note::Done(from, why) => {
                    self.done.get_mut(from as usize).into_iter().for_each(|d| *d = true);
                    if let Some((whose, why)) = why.filter(|(whose, _)| *whose as usize != self.crew.process) {
                        shared.told_to_stop(whose as usize, why);
                    }
                }
                Note::Stop(process, why) => shared.told_to_stop(process as usize, why),
                Note::Passed(stage, process, error) => {
                    if let Some(message) = error {
                        shared.fail(Error::cluster(format!("process {process} failed: {message}")));
                    }
                    let stage = self.passed.get_mut(stage as usize);
                    stage.and_then(|s| s.get_mut(process as usize)).into_iter().for_each(|p| *p = true);
                }
                Note::Absorbed(messages, rows) => {
                    shared.in_flight.fetch_sub(messages, Ordering::Relaxed);
                    shared.rows_under_way.fetch_sub(rows, Ordering::Relaxed);
                }
            }
        }
        heard
    }

    /// Whether every worker has read everything.
    pub fn finished(&self) -> bool {
        self.own_done && self.done.iter().all(|d| *d)
    }

    /// Tells the other processes that this one has come through a stage, or with what error.
    pub fn pass(&mut self, stage: Stage, shared: &Shared) {
        let error = shared.own_error();
        let crew = self.crew;
        for process in 0..crew.processes {
            self.send(crew.leader(process), Note::Passed(stage as u32, crew.process as u32, error.clone()));
        }
    }

    /// Whether all processes but those in `but` have come through a stage, or failed in it.
    pub fn passed(&self, stage: Stage, but: Option<usize>) -> bool {
        let all = self.passed.get(stage as usize);
        all.is_none_or(|all| all.iter().enumerate().all(|(process, passed)| *passed || Some(process) == but))
    }

    /// Nothing more is told.
    pub fn close(&mut self) {
        self.input = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{decode, encode};

    #[test]
    fn notes_survive_the_wire() {
        let failed = Stopped::Failed("in.gz: truncated gzip data".to_owned());
        let notes = [
            Note::Ended(1, 2),
            Note::Done(3, None),
            Note::Done(3, Some((1, Stopped::Closed))),
            Note::Passed(1, 2, None),
            Note::Passed(0, 1, Some("no space".to_owned())),
            Note::Stop(0, Stopped::Interrupted),
            Note::Stop(1, Stopped::Closed),
            Note::Stop(2, failed),
            Note::Absorbed(5, 6),
            Note::Searched(1, Extent { lane: 2, index: 3, starts_file: true, lines: 4 }),
            Note::Refused(Place { position: 7, table: 1, lane: 2 }),
        ];
        for note in notes {
            let addressed = Addressed { to: 4, note };
            let bytes = encode(&addressed);
            assert_eq!(bytes.len(), addressed.size());
            let back: Addressed = decode(&bytes).expect("a note");
            assert_eq!(format!("{back:?}"), format!("{addressed:?}"));
            assert!(decode::<Addressed>(&bytes[..bytes.len() - 8]).is_err());
        }
    }
}
