//! The start of a cluster, from the first connection to the moment when all processes go on together.
//!
//! One thread looks at everything in turn: who has come through the gate, what the peers say, whether time is up. Process
//! 0 sends its terms when all are connected to it; the others compare and answer that they are ready when they are
//! connected to all; then process 0 lets them go. Whoever fails tells all it is connected to, and process 0 tells the rest.

use super::frame::{self, Abort, BadFrame, Frames, Kind};
use super::gate::{self, Arrival, Event, Shared};
use super::handshake::code;
use super::secret::HINT;
use super::terms::{InputsCheck, Terms, TermsReader};
use super::{ClusterConfig, now, seconds};
use crate::error::{Error, ErrorKind, Result};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
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
    /// Sends all of it, for as long as the deadline allows; the stream does not block.
    fn send(&self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            match (&*self.stream).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && now() < deadline => thread::sleep(POLL),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Why the start failed.
enum Fail {
    /// Found here.
    Own(Error),
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
    check: Option<InputsCheck<'a>>,
    progress: &'a dyn Fn(&str),
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

/// Brings the cluster together; gives the connections by peer.
pub(super) fn start(
    listener: &Arc<TcpListener>,
    config: &ClusterConfig,
    terms: &Terms,
    check: Option<InputsCheck<'_>>,
    progress: &dyn Fn(&str),
) -> Result<Vec<Started>> {
    let begun = now();
    let deadline = begun + config.start_deadline.min(DEADLINE_MAX);
    let shared = Shared::new(config, deadline)?;
    let (sender, events) = channel();
    let gate = gate::accept(Arc::clone(listener), Arc::clone(&shared), sender.clone())?;
    let mut start = Start {
        config,
        terms,
        check,
        progress,
        shared: Arc::clone(&shared),
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
    let result = start.run();
    shared.stop.store(true, Ordering::Relaxed);
    // It ends within milliseconds.
    let _ = gate.join();
    match result {
        Ok(()) => start.finish(),
        Err(fail) => Err(start.fail(fail)),
    }
}

impl Start<'_> {
    fn run(&mut self) -> Result<(), Fail> {
        // Process 0 decides who takes an index, so it comes first; the others follow when it has let us in.
        if self.config.process > 0 {
            gate::connect(0, self.config, &self.shared, &self.sender)?;
        }
        while !self.goes {
            self.take_events()?;
            for peer in 0..self.config.processes {
                self.listen_to(peer)?;
            }
            self.advance()?;
            self.report();
            if !self.goes && now() >= self.deadline {
                return Err(self.late().into());
            }
        }
        Ok(())
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
                            gate::connect(other, self.config, &self.shared, &self.sender)?;
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
        if arrival.proven.disagreement.is_none()
            && let Some(Some(first)) = self.peers.get(peer)
        {
            let text =
                format!("process {peer} is already connected from {}, and now from {}", first.from, arrival.from);
            // The claimant may have gone.
            let _ = arrival.stream.set_write_timeout(Some(TELL));
            let _ = (&*arrival.stream).write_all(&frame::encode_refusal(code::TAKEN, &text));
            (self.progress)(&format!("refused a second process with -p {peer}: {text}"));
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
                    let (rule, who) = (self.config.name(0), self.config.name(self.config.process));
                    let inputs = || match self.check {
                        Some(check) => check(&ruling.inputs).map(|text| format!("{who} {text}")),
                        None => ruling.different_inputs(self.terms, &rule, &who),
                    };
                    if let Some(difference) = ruling.differences(self.terms, &rule, &who).or_else(inputs) {
                        let error = Error::usage(difference);
                        return Err(error.with_hint("all processes take the same program, settings and files").into());
                    }
                    self.agreed = true;
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
        connection.send(bytes, self.deadline).map_err(|e| self.lost(peer, &format!("cannot send to it ({e})")))
    }

    fn lost(&self, peer: usize, what: &str) -> Fail {
        let message = format!("lost {} while the cluster was starting: {what}", self.config.name(peer));
        Fail::Own(Error::cluster(message).with_hint("see what that process said"))
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
        let stranger = self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner).stranger.clone();
        if let Some(text) = stranger.filter(|text| self.stranger.as_ref() != Some(text)) {
            (self.progress)(&text);
            self.stranger = Some(text);
        }
        let missing: Vec<_> = self.missing().into_iter().map(|i| self.config.name(i)).collect();
        let whom = if missing.is_empty() { self.unready() } else { missing.join(", ") };
        let left = self.deadline.saturating_duration_since(now()).as_secs();
        (self.progress)(&format!("waiting for {whom}, {left} s left"));
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
                Some(Some(note)) => format!("{} ({note})", self.config.name(*i)),
                _ => self.config.name(*i),
            })
            .collect();
        let error =
            Error::cluster(format!("the cluster did not start within {limit}: waiting for {}", names.join(", ")));
        match &notes.stranger {
            Some(stranger) => error.with_detail(stranger.clone()).with_hint(HINT),
            None => error
                .with_hint("are all processes running, with the same host file, and can the hosts reach each other?"),
        }
    }

    /// Tells all peers of a failure, and gives the error for this process.
    fn fail(&self, fail: Fail) -> Error {
        let (abort, error) = match fail {
            Fail::Own(error) => {
                let origin = u32::try_from(self.config.process).unwrap_or(u32::MAX);
                (Abort { origin, is_usage: error.kind() == ErrorKind::Usage, reason: error.to_string() }, error)
            }
            Fail::Told(abort) => {
                let process = usize::try_from(abort.origin).unwrap_or(usize::MAX);
                let kind = if abort.is_usage { ErrorKind::Usage } else { ErrorKind::Cluster };
                let error = Error::new(kind, format!("{} gave up: {}", self.config.name(process), abort.reason));
                (abort, error)
            }
        };
        let frame = abort.encode();
        for peer in self.peers.iter().flatten() {
            // Whoever has gone need not be told.
            let _ = peer.send(&frame, now() + TELL).and_then(|()| peer.stream.shutdown(Shutdown::Write));
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
        error
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
