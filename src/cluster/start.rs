//! The start of a cluster, from the first connection to the moment when all processes go on together.
//!
//! One thread looks at everything in turn: who has come through the gate, what the peers say, whether time is up or the
//! user wants to end. The calling thread meanwhile prints what is to be said, and looks at the input files if it must: that
//! can take long, and keeps nobody waiting at the gate. Process 0 sends its terms when all are connected to it; the others compare and answer that they are ready when they are
//! connected to all; then process 0 lets them go. Whoever fails tells all it is connected to, and process 0 tells the rest.

use super::bytes::shown;
use super::frame::{self, Abort, BadFrame, Frames, Kind};
use super::gate::{self, Arrival, Event, Shared};
use super::handshake::code;
use super::hosts::Place;
use super::mesh::{Caller, Tuning};
use super::secret::HINT;
use super::terms::{InputFile, Terms, TermsReader};
use super::{ClusterConfig, now, seconds, seconds_left};
use crate::error::{Error, ErrorKind, Result};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at everything.
const POLL: Duration = Duration::from_millis(1);
/// Between two lines of progress.
const REPORT: Duration = Duration::from_secs(3);
/// Longer deadlines are this one.
const DEADLINE_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How long to try to tell a peer that the start failed.
const TELL: Duration = Duration::from_millis(200);

/// How long the others have to say why a peer went. It told those whose connections were complete, who pass it on.
const REASON: Duration = Duration::from_millis(500);

/// What the peers are told of a process whose user wants to end.
const INTERRUPTED: &str = "interrupted while the cluster was starting";

/// A connection when all are going.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) peer: usize,
    pub(super) stream: Arc<TcpStream>,
    pub(super) received: Vec<u8>,
}

/// A connection during the start.
struct Peer {
    stream: Arc<TcpStream>,
    from: String,
    frames: Frames,
    is_ready: bool,
}

impl Peer {
    /// Sends all of it, for as long as `goes_on` says so; the stream does not block.
    fn send(&self, mut bytes: &[u8], goes_on: impl Fn() -> bool) -> io::Result<()> {
        while !bytes.is_empty() {
            match (&*self.stream).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && goes_on() => thread::sleep(POLL),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// For the calling thread.
enum Task {
    /// Say this.
    Say(String),
    /// Look at process 0's input files, and answer.
    Check(Vec<InputFile>),
}

/// Why the start failed.
enum Fail {
    /// Found here.
    Own(Error),
    /// A peer closed its connection without a word.
    Lost(Error),
    /// Heard from another process.
    Told(Abort),
}

impl From<Error> for Fail {
    fn from(error: Error) -> Fail {
        Fail::Own(error)
    }
}

struct Start<'a> {
    config: &'a ClusterConfig,
    terms: &'a Terms,
    places: &'a [Place],
    stop: Option<&'a AtomicBool>,
    /// To the calling thread.
    tasks: Sender<Task>,
    /// What is wrong with the input files.
    answers: Receiver<Option<String>>,
    has_check: bool,
    /// The calling thread is looking at the input files, and says nothing meanwhile.
    checking: bool,
    shared: Arc<Shared>,
    events: Receiver<Event>,
    sender: Sender<Event>,
    peers: Vec<Option<Peer>>,
    ruling: TermsReader,
    /// Process 0: the terms are sent. Others: they are received and agreed to.
    agreed: bool,
    /// Others: process 0 knows that we are ready.
    told_ready: bool,
    goes: bool,
    deadline: Instant,
    next_report: Instant,
    stranger: Option<String>,
}

/// Brings the cluster together; gives the connections by peer, or nothing if the caller wants to end.
pub(super) fn start(
    listener: &Arc<TcpListener>,
    config: &ClusterConfig,
    places: &[Place],
    terms: &Terms,
    caller: &Caller<'_>,
    tuning: &Tuning,
) -> Result<Option<Vec<Started>>> {
    let begun = now();
    let deadline = begun + config.start_deadline.min(DEADLINE_MAX);
    let (sender, events) = channel();
    let (tasks, for_caller) = channel();
    let (answer, answers) = channel();
    let start = Start {
        config,
        terms,
        places,
        stop: caller.stop,
        tasks,
        answers,
        has_check: caller.check.is_some(),
        checking: false,
        shared: Shared::new(config, deadline, tuning.handshake)?,
        events,
        sender,
        peers: (0..config.processes).map(|_| None).collect(),
        ruling: TermsReader::default(),
        agreed: false,
        told_ready: false,
        goes: false,
        deadline,
        next_report: begun + REPORT,
        stranger: None,
    };
    thread::scope(|scope| {
        // Gone when this thread unwinds: the other one then waits for no answer.
        let answer = answer;
        let work = move || start.bring_together(listener);
        let thread = thread::Builder::new().name("mesh:start".to_owned()).spawn_scoped(scope, work);
        let thread = thread.map_err(|e| Error::cluster("cannot start a thread").with_source(e))?;
        for task in for_caller {
            match (task, caller.check) {
                (Task::Say(line), _) => (caller.progress)(&line),
                // Nobody hears the answer when the start has failed meanwhile.
                (Task::Check(inputs), Some(check)) => drop(answer.send(check(&inputs))),
                (Task::Check(_), None) => drop(answer.send(None)),
            }
        }
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

impl Start<'_> {
    fn bring_together(mut self, listener: &Arc<TcpListener>) -> Result<Option<Vec<Started>>> {
        let gate = gate::accept(Arc::clone(listener), Arc::clone(&self.shared), self.sender.clone())?;
        let result = self.run();
        self.shared.stop.store(true, Ordering::Relaxed);
        // It ends within milliseconds.
        let _ = gate.join();
        match result {
            Ok(()) => self.finish().map(Some),
            Err(_) if self.is_interrupted() => {
                self.tell(&Abort { origin: self.origin(), is_usage: false, reason: INTERRUPTED.to_owned() });
                Ok(None)
            }
            Err(fail) => {
                let fail = self.reason(fail);
                Err(self.fail(fail))
            }
        }
    }

    /// The reason for a loss, if the others know it: a process that gives up can tell only those whose connections it has.
    fn reason(&mut self, fail: Fail) -> Fail {
        let Fail::Lost(_) = fail else { return fail };
        let end = now() + REASON;
        while now() < end && !self.is_interrupted() && self.peers.iter().any(Option::is_some) {
            for peer in 0..self.config.processes {
                match self.listen_to(peer) {
                    Ok(()) => {}
                    Err(Fail::Lost(_)) => self.peers.get_mut(peer).into_iter().for_each(|peer| *peer = None),
                    Err(reason) => return reason,
                }
            }
            thread::sleep(POLL);
        }
        fail
    }

    fn run(&mut self) -> Result<(), Fail> {
        // Process 0 decides who takes an index, so it comes first; the others follow when it has let us in.
        if self.config.process > 0 {
            self.connect(0)?;
        }
        while !self.goes {
            self.take_events()?;
            for peer in 0..self.config.processes {
                self.listen_to(peer)?;
            }
            self.take_answer()?;
            self.advance()?;
            self.report();
            if !self.goes && self.is_interrupted() {
                return Err(Error::cluster(INTERRUPTED).into());
            }
            if !self.goes && now() >= self.deadline {
                return Err(self.late().into());
            }
        }
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    fn say(&self, line: String) {
        // The calling thread listens until this one ends, unless it panicked.
        let _ = self.tasks.send(Task::Say(line));
    }

    fn connect(&self, peer: usize) -> Result<(), Fail> {
        let Some(place) = self.places.get(peer) else { return Ok(()) };
        Ok(gate::connect(peer, self.config, place.clone(), &self.shared, &self.sender)?)
    }

    fn is_connected(&self) -> bool {
        self.peers.iter().enumerate().all(|(i, peer)| i == self.config.process || peer.is_some())
    }

    fn take_events(&mut self) -> Result<(), Fail> {
        let mut wait = POLL;
        loop {
            match self.events.recv_timeout(wait) {
                Ok(Event::Accepted(arrival)) => self.accepted(arrival)?,
                Ok(Event::Connected(peer, arrival)) => {
                    self.welcome(peer, arrival)?;
                    if peer == 0 {
                        for other in 1..self.config.process {
                            self.connect(other)?;
                        }
                    }
                }
                Ok(Event::Refused(error)) => return Err(error.into()),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(()),
            }
            wait = Duration::ZERO;
        }
    }

    /// Someone who knows the secret: a peer, a second one of the same index, or one that was started differently.
    fn accepted(&mut self, arrival: Arrival) -> Result<(), Fail> {
        let peer = usize::try_from(arrival.proven.claims.process).unwrap_or(usize::MAX);
        let agrees = arrival.proven.disagreement.is_none();
        // One that fails shows when the connection is used.
        let _ = arrival.stream.set_nonblocking(true);
        if agrees && is_gone(&arrival.stream) {
            // It did not wait to be let in, and comes again if it lives.
            return Ok(());
        }
        // A first one that is gone makes room, unless it has been told something that the second would miss.
        let has_been_told = self.config.process == 0 && self.agreed;
        if agrees
            && let Some(Some(first)) = self.peers.get(peer)
            && (has_been_told || !is_gone(&first.stream))
        {
            let text =
                format!("process {peer} is already connected from {}, and now from {}", first.from, arrival.from);
            // The claimant may have gone.
            let _ = (&*arrival.stream).write_all(&frame::encode_refusal(code::TAKEN, &text));
            self.say(format!("refused a second process with -p {peer}: {text}"));
            return Ok(());
        }
        let stream = Arc::clone(&arrival.stream);
        self.welcome(peer, arrival)?;
        // A peer that has gone shows when it is listened to.
        let _ = (&*stream).write_all(&frame::encode(Kind::Admit, &[]));
        Ok(())
    }

    fn welcome(&mut self, peer: usize, arrival: Arrival) -> Result<(), Fail> {
        let name = self.config.name(peer);
        if let Some(disagreement) = arrival.proven.disagreement {
            let message = format!("{name} was started differently: {disagreement}");
            let error = Error::usage(message);
            return Err(error
                .with_hint("give all processes the same host file, -n and -w, and the same program")
                .into());
        }
        let trouble = |e| Error::cluster(format!("cannot set up the connection to {name}")).with_source(e);
        arrival.stream.set_nonblocking(true).map_err(trouble)?;
        let mut frames = Frames::default();
        frames.push(&arrival.proven.rest);
        let from = arrival.from.to_string();
        if let Some(slot) = self.peers.get_mut(peer) {
            *slot = Some(Peer { stream: arrival.stream, from, frames, is_ready: false });
        }
        Ok(())
    }

    /// Reads what a peer has sent, if it has; a long list in one go, but not without end.
    fn listen_to(&mut self, peer: usize) -> Result<(), Fail> {
        for _ in 0..64 {
            while let Some((kind, payload)) = self.next_frame(peer)? {
                self.take(peer, kind, &payload)?;
                if self.goes {
                    return Ok(());
                }
            }
            if !self.receive(peer)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn next_frame(&mut self, peer: usize) -> Result<Option<(Kind, Vec<u8>)>, Fail> {
        let Some(Some(connection)) = self.peers.get_mut(peer) else { return Ok(None) };
        let frame = connection.frames.next();
        frame.map_err(|bad| self.lost(peer, &bad.to_string()))
    }

    /// Whether something has come.
    fn receive(&mut self, peer: usize) -> Result<bool, Fail> {
        let mut buffer = [0; 16 << 10];
        let Some(Some(connection)) = self.peers.get_mut(peer) else { return Ok(false) };
        if connection.frames.is_at_run() {
            return Ok(false);
        }
        match (&*connection.stream).read(&mut buffer) {
            Ok(0) => Err(self.lost(peer, "it closed the connection")),
            Ok(bytes) => {
                connection.frames.push(buffer.get(..bytes).unwrap_or_default());
                Ok(true)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(false),
                io::ErrorKind::Interrupted => Ok(true),
                _ => Err(self.lost(peer, &format!("it closed the connection ({error})"))),
            },
        }
    }

    fn take(&mut self, peer: usize, kind: Kind, payload: &[u8]) -> Result<(), Fail> {
        let is_ruled = self.config.process > 0 && peer == 0;
        let ruling = match kind {
            Kind::Terms | Kind::Inputs if is_ruled && !self.agreed => self.ruling.take(kind, payload),
            _ => Ok(None),
        };
        let bad = |bad: BadFrame| self.lost(peer, &bad.to_string());
        match kind {
            Kind::Abort => return Err(Fail::Told(Abort::decode(payload).map_err(bad)?)),
            Kind::Terms | Kind::Inputs if is_ruled && !self.agreed => {
                if let Some(ruling) = ruling.map_err(bad)? {
                    self.compare(ruling)?;
                }
            }
            Kind::Ready if self.config.process == 0 && self.agreed => {
                if let Some(Some(connection)) = self.peers.get_mut(peer) {
                    connection.is_ready = true;
                }
            }
            Kind::Go if is_ruled && self.told_ready => self.goes = true,
            other => return Err(bad(BadFrame::Order(other))),
        }
        Ok(())
    }

    /// Compares what process 0 runs. Its input files may take long to look at: the calling thread does that.
    fn compare(&mut self, ruling: Terms) -> Result<(), Fail> {
        let (rule, who) = (self.config.name(0), self.config.name(self.config.process));
        let difference = ruling.differences(self.terms, &rule, &who);
        if difference.is_none() && self.has_check {
            self.checking = true;
            // If nobody is there, there is no answer either.
            let _ = self.tasks.send(Task::Check(ruling.inputs));
            return Ok(());
        }
        self.agree(difference.or_else(|| ruling.different_inputs(self.terms, &rule, &who)))
    }

    /// What the calling thread says of the input files, if it has.
    fn take_answer(&mut self) -> Result<(), Fail> {
        if !self.checking {
            return Ok(());
        }
        match self.answers.try_recv() {
            Err(TryRecvError::Empty) => Ok(()),
            Err(TryRecvError::Disconnected) => {
                Err(Error::cluster("the check of the input files ended without a result").into())
            }
            Ok(found) => {
                self.checking = false;
                let who = self.config.name(self.config.process);
                // It may name what process 0 sent.
                self.agree(found.map(|text| format!("{who} {}", shown(&text, frame::REASON_BYTES_MAX))))
            }
        }
    }

    fn agree(&mut self, difference: Option<String>) -> Result<(), Fail> {
        match difference {
            Some(difference) => {
                let error = Error::usage(difference);
                Err(error.with_hint("all processes take the same program, settings and files").into())
            }
            None => {
                self.agreed = true;
                Ok(())
            }
        }
    }

    /// Says what can be said when all are connected.
    fn advance(&mut self) -> Result<(), Fail> {
        if !self.is_connected() {
            return Ok(());
        }
        if self.config.process > 0 {
            if self.agreed && !self.told_ready {
                self.send(0, &frame::encode(Kind::Ready, &[]))?;
                self.told_ready = true;
            }
            return Ok(());
        }
        if !self.agreed {
            let terms = self.terms.encode()?;
            for peer in 1..self.config.processes {
                self.send(peer, &terms)?;
            }
            self.agreed = true;
        }
        if self.peers.iter().flatten().all(|peer| peer.is_ready) {
            for peer in 1..self.config.processes {
                self.send(peer, &frame::encode(Kind::Go, &[]))?;
            }
            self.goes = true;
        }
        Ok(())
    }

    fn send(&self, peer: usize, bytes: &[u8]) -> Result<(), Fail> {
        let Some(Some(connection)) = self.peers.get(peer) else { return Ok(()) };
        let goes_on = || now() < self.deadline && !self.is_interrupted();
        connection.send(bytes, goes_on).map_err(|e| self.lost(peer, &format!("cannot send to it ({e})")))
    }

    fn lost(&self, peer: usize, what: &str) -> Fail {
        let message = format!("lost {} while the cluster was starting: {what}", self.config.name(peer));
        Fail::Lost(Error::cluster(message).with_hint("see what that process said"))
    }

    /// Whom we wait for. Those before process 0 lets us in are not tried.
    fn missing(&self) -> Vec<usize> {
        let me = self.config.process;
        let is_in = me == 0 || self.peers.first().is_some_and(Option::is_some);
        let peers = self.peers.iter().enumerate().filter(|(i, peer)| *i != me && peer.is_none());
        peers.map(|(i, _)| i).filter(|i| is_in || *i == 0 || *i > me).collect()
    }

    /// Whom we wait for when all are connected here, and what for.
    fn unready(&self) -> String {
        if self.checking {
            return "this process to look at its input files".to_owned();
        }
        if self.config.process > 0 {
            return format!("{} to let the run begin", self.config.name(0));
        }
        let unready = self.peers.iter().enumerate().filter(|(_, peer)| peer.as_ref().is_some_and(|p| !p.is_ready));
        let names: Vec<_> = unready.map(|(i, _)| self.config.name(i)).collect();
        format!("{} to get ready", names.join(", "))
    }

    /// Says every few seconds whom we wait for, and who was refused meanwhile.
    fn report(&mut self) {
        if self.goes || now() < self.next_report {
            return;
        }
        self.next_report += REPORT;
        if self.checking {
            return;
        }
        let notes = self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = notes.stranger.clone().filter(|text| self.stranger.as_ref() != Some(text)) {
            self.say(text.clone());
            self.stranger = Some(text);
        }
        // Not that nobody answers, which is usual at first, but what somebody answered.
        let answer = |i: usize| notes.peers.get(i)?.as_ref().filter(|note| note.hint.is_some());
        let named = |i| match answer(i) {
            Some(note) => format!("{} ({})", self.config.name(i), note.text),
            None => self.config.name(i),
        };
        let missing: Vec<_> = self.missing().into_iter().map(named).collect();
        let whom = if missing.is_empty() { self.unready() } else { missing.join(", ") };
        let left = seconds_left(self.deadline.saturating_duration_since(now()));
        self.say(format!("waiting for {whom}, {left} s left"));
    }

    /// The deadline has passed.
    fn late(&self) -> Error {
        let limit = seconds(self.config.start_deadline);
        let missing = self.missing();
        let notes = self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if missing.is_empty() {
            let message = format!("the cluster did not start within {limit}: waiting for {}", self.unready());
            return Error::cluster(message).with_hint("see what the other processes said");
        }
        let names: Vec<_> = missing
            .iter()
            .map(|i| match notes.peers.get(*i) {
                Some(Some(note)) => format!("{} ({})", self.config.name(*i), note.text),
                _ => self.config.name(*i),
            })
            .collect();
        let message = format!("the cluster did not start within {limit}: waiting for {}", names.join(", "));
        // What answered in the place of a peer has not proven anything, but has had the time to go away.
        let advice = missing.iter().find_map(|i| notes.peers.get(*i)?.as_ref()?.hint);
        let error = Error::new(if advice.is_some() { ErrorKind::Usage } else { ErrorKind::Cluster }, message);
        match (&notes.stranger, advice) {
            (Some(stranger), _) => error.with_detail(stranger.clone()).with_hint(HINT),
            (None, Some(advice)) => error.with_hint(advice),
            (None, None) => error.with_hint(
                "are all processes running, with the same host file, and can the hosts reach each other? \
                 --start-timeout gives them longer",
            ),
        }
    }

    fn origin(&self) -> u32 {
        u32::try_from(self.config.process).unwrap_or(u32::MAX)
    }

    /// Tells all peers of a failure, and gives the error for this process.
    fn fail(&self, fail: Fail) -> Error {
        let (abort, error) = match fail {
            Fail::Own(error) | Fail::Lost(error) => {
                let is_usage = error.kind() == ErrorKind::Usage;
                (Abort { origin: self.origin(), is_usage, reason: error.to_string() }, error)
            }
            Fail::Told(abort) => {
                let process = usize::try_from(abort.origin).unwrap_or(usize::MAX);
                let kind = if abort.is_usage { ErrorKind::Usage } else { ErrorKind::Cluster };
                let error = Error::new(kind, format!("{} gave up: {}", self.config.name(process), abort.reason));
                (abort, error)
            }
        };
        self.tell(&abort);
        error
    }

    /// Tells all peers that this process gives up.
    fn tell(&self, abort: &Abort) {
        let frame = abort.encode();
        for peer in self.peers.iter().flatten() {
            let end = now() + TELL;
            // Whoever has gone need not be told.
            let _ = peer.send(&frame, || now() < end).and_then(|()| peer.stream.shutdown(Shutdown::Write));
        }
        // Closing with something unread could take the reason back that is on its way.
        let end = now() + TELL;
        let mut buffer = [0; 4 << 10];
        for peer in self.peers.iter().flatten() {
            loop {
                match (&*peer.stream).read(&mut buffer) {
                    Ok(0) => break,
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => break,
                    _ if now() >= end => break,
                    Ok(_) => {}
                    Err(_) => thread::sleep(POLL),
                }
            }
        }
    }

    fn finish(self) -> Result<Vec<Started>> {
        let trouble = |e| Error::cluster("cannot set up the connections to the other processes").with_source(e);
        let mut started = Vec::new();
        for (peer, connection) in self.peers.into_iter().enumerate() {
            if let Some(Peer { stream, frames, .. }) = connection {
                stream.set_nonblocking(false).map_err(trouble)?;
                started.push(Started { peer, stream, received: frames.into_rest() });
            }
        }
        Ok(started)
    }
}

/// Whether the other side has closed the connection, which does not block, without having sent anything.
fn is_gone(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(bytes) => bytes == 0,
        Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_gone_when_it_is_closed_and_nothing_is_left_to_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (near, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        assert!(!is_gone(&near));
        far.write_all(&[1]).unwrap();
        drop(far);
        near.set_nonblocking(false).unwrap();
        assert!(!is_gone(&near));
        (&near).read_exact(&mut [0]).unwrap();
        assert!(is_gone(&near));
    }
}
