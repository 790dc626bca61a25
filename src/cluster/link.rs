//! One connection of a running mesh: timely's bytes in frames, heartbeats, and an end that is told from a loss.
//!
//! Timely's network threads panic when a stream fails, and the panic travels on to the workers. A [`Link`] therefore
//! never fails. When its peer is lost, the loss is noted in the [`Watch`], writing goes on into nothing, and reading waits
//! until the run is released ([`Watch::release`]). Then the reading thread unwinds without a message: there is no value
//! that timely's receiving loop would take for a quiet end in the middle of a message. Nobody may join that thread with
//! an `expect`, which is why the guard of a given-up run is never dropped ([`super::transport`]).

use super::frame::{HEADER_BYTES, Header, Inbound, Kind, Taken};
use super::watch::{LossReason, Traffic, Watch};
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

/// The most bytes of timely's that are framed at once.
const CHUNK_BYTES: usize = 128 << 10;
/// How long reading waits before it looks whether the run is given up.
const TICK_MAX: Duration = Duration::from_millis(250);
/// How long to try to tell a peer that the run is given up.
const ABORT_TIMEOUT: Duration = Duration::from_millis(200);
/// How long a heartbeat may wait for room; the next one will do as well.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_millis(10);

/// What the reading thread of a given-up run unwinds with.
#[derive(Debug)]
pub struct GivenUp;

/// A connection to a peer, shared by all its [`Link`]s.
pub(super) struct Connection {
    pub(super) peer: usize,
    pub(super) address: String,
    socket: Arc<TcpStream>,
    silence: Duration,
    reading: Mutex<Inbound>,
    writing: Mutex<Writing>,
    heard_goodbye: AtomicBool,
    /// Links that exist.
    links: AtomicUsize,
    sent_payload: AtomicU64,
    sent: AtomicU64,
    received_payload: AtomicU64,
    received: AtomicU64,
}

#[derive(Debug, Default)]
struct Writing {
    /// The rest of a heartbeat that there was no room for.
    pending: Vec<u8>,
    /// Nothing more is sent: after goodbye, abort, or an error.
    closed: bool,
}

impl Connection {
    /// Takes over a socket after the start; `received` are bytes of the run that came already.
    pub(super) fn new(
        peer: usize,
        address: String,
        socket: Arc<TcpStream>,
        received: Vec<u8>,
        silence: Duration,
    ) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(tick(silence)))?;
        socket.set_write_timeout(Some(silence))?;
        Ok(Connection {
            peer,
            address,
            socket,
            silence,
            received: AtomicU64::new(received.len() as u64),
            reading: Mutex::new(Inbound::new(received)),
            writing: Mutex::new(Writing::default()),
            heard_goodbye: AtomicBool::new(false),
            links: AtomicUsize::new(0),
            sent_payload: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            received_payload: AtomicU64::new(0),
        })
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_heard_goodbye(&self) -> bool {
        self.heard_goodbye.load(Ordering::Acquire)
    }

    /// Whether timely has let go of it.
    pub(super) fn is_unused(&self) -> bool {
        self.links.load(Ordering::Acquire) == 0
    }

    pub(super) fn close(&self) {
        // It may be closed already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    #[cfg(test)]
    pub(super) fn socket(&self) -> Arc<TcpStream> {
        Arc::clone(&self.socket)
    }

    pub(super) fn traffic(&self) -> Traffic {
        Traffic {
            process: self.peer,
            sent_payload_bytes: self.sent_payload.load(Ordering::Relaxed),
            sent_bytes: self.sent.load(Ordering::Relaxed),
            received_payload_bytes: self.received_payload.load(Ordering::Relaxed),
            received_bytes: self.received.load(Ordering::Relaxed),
        }
    }

    /// Sends a frame whole. Fails with `WouldBlock` or `TimedOut` when the peer takes nothing for the write timeout.
    fn send(&self, writing: &mut Writing, kind: Kind, payload: &[u8]) -> io::Result<()> {
        while !writing.pending.is_empty() {
            let bytes = self.send_some(&writing.pending, &[])?;
            let _ = writing.pending.drain(..bytes);
        }
        let length = u32::try_from(payload.len()).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
        let header = Header { kind, length }.encode();
        let mut sent = 0;
        while sent < HEADER_BYTES + payload.len() {
            let head = header.get(sent..).unwrap_or_default();
            let body = payload.get(sent.saturating_sub(HEADER_BYTES)..).unwrap_or_default();
            match self.send_some(head, body) {
                Ok(bytes) => sent += bytes,
                Err(error) => {
                    if kind == Kind::Heartbeat && sent > 0 {
                        writing.pending = head.to_vec();
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn send_some(&self, head: &[u8], body: &[u8]) -> io::Result<usize> {
        loop {
            match (&*self.socket).write_vectored(&[IoSlice::new(head), IoSlice::new(body)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => {
                    self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
                    return Ok(bytes);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a sign of life unless somebody is sending anyway.
    pub(super) fn heartbeat(&self) {
        let Ok(mut writing) = self.writing.try_lock() else { return };
        if writing.closed {
            return;
        }
        // A peer without room must not hold up the heartbeats of the others; its own silence decides about it.
        let _ = self.socket.set_write_timeout(Some(HEARTBEAT_TIMEOUT));
        let _ = self.send(&mut writing, Kind::Heartbeat, &[]);
        let _ = self.socket.set_write_timeout(Some(self.silence));
    }

    /// Sends the abort frame and closes the sending half, so that the peer reads the reason and then the end.
    pub(super) fn abort(&self, frame: &[u8]) {
        let steps = 40;
        for _ in 0..steps {
            match self.writing.try_lock() {
                Ok(mut writing) => {
                    if !writing.closed {
                        writing.closed = true;
                        let _ = self.socket.set_write_timeout(Some(ABORT_TIMEOUT));
                        let pending = std::mem::take(&mut writing.pending);
                        let mut socket = &*self.socket;
                        let _ = socket.write_all(&pending).and_then(|()| socket.write_all(frame));
                    }
                    let _ = self.socket.shutdown(Shutdown::Write);
                    return;
                }
                Err(TryLockError::Poisoned(_)) => break,
                Err(TryLockError::WouldBlock) => thread::sleep(ABORT_TIMEOUT / steps),
            }
        }
        // Somebody hangs in a write; this frees him.
        self.close();
    }
}

fn tick(silence: Duration) -> Duration {
    (silence / 8).min(TICK_MAX)
}

/// The stream that timely reads from and writes to. Clones share the connection: one reads, one writes.
pub struct Link {
    connection: Arc<Connection>,
    watch: Arc<Watch>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Connection { peer, address, .. } = &*self.connection;
        f.debug_struct("Link").field("peer", peer).field("address", address).finish_non_exhaustive()
    }
}

impl Link {
    pub(super) fn new(connection: Arc<Connection>, watch: Arc<Watch>) -> Self {
        let _ = connection.links.fetch_add(1, Ordering::AcqRel);
        Link { connection, watch }
    }

    /// Index of the peer.
    pub fn peer(&self) -> usize {
        self.connection.peer
    }

    /// Says goodbye: everything has been sent.
    pub(super) fn say_goodbye(&self) {
        let mut writing = self.connection.writing();
        if !writing.closed && !self.watch.is_given_up() {
            // A peer that does not take it will be noticed by whoever reads.
            let _ = self.connection.send(&mut writing, Kind::Goodbye, &[]);
        }
        writing.closed = true;
    }

    /// Ends the thread, quietly, when the run is released.
    fn stand_still(&self) -> ! {
        self.watch.wait_for_release();
        resume_unwind(Box::new(GivenUp))
    }
}

impl Clone for Link {
    fn clone(&self) -> Self {
        Link::new(Arc::clone(&self.connection), Arc::clone(&self.watch))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.connection.links.fetch_sub(1, Ordering::AcqRel);
        self.watch.notify();
    }
}

impl Read for Link {
    /// Timely's bytes; 0 after the peer's goodbye. Waits for ever after a loss, see the module.
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let connection = &*self.connection;
        if out.is_empty() {
            return Ok(0);
        }
        let mut inbound = connection.reading.lock().unwrap_or_else(PoisonError::into_inner);
        // Counted in time spent waiting, not by the clock: a process that was stopped itself accuses nobody.
        let mut quiet = Duration::ZERO;
        let reason = loop {
            if connection.has_heard_goodbye() {
                return Ok(0);
            }
            if self.watch.is_given_up() {
                drop(inbound);
                self.stand_still();
            }
            match inbound.take(out) {
                Ok(Taken::Data(bytes)) => {
                    connection.received_payload.fetch_add(bytes as u64, Ordering::Relaxed);
                    return Ok(bytes);
                }
                Ok(Taken::Goodbye) => {
                    connection.heard_goodbye.store(true, Ordering::Release);
                    self.watch.notify();
                    return Ok(0);
                }
                Ok(Taken::Abort(abort)) => {
                    drop(inbound);
                    self.watch.told(connection, &abort);
                    self.stand_still();
                }
                Ok(Taken::More) => {}
                Err(bad) => break LossReason::Garbled(bad.to_string()),
            }
            let direct = inbound.direct().min(out.len());
            let mut socket = &*connection.socket;
            let received = match out.get_mut(..direct) {
                Some(part) if direct > 0 => socket.read(part),
                _ => socket.read(inbound.space()),
            };
            match received {
                Ok(0) => break LossReason::Closed,
                Ok(bytes) => {
                    quiet = Duration::ZERO;
                    connection.received.fetch_add(bytes as u64, Ordering::Relaxed);
                    if direct > 0 {
                        inbound.received_directly(bytes);
                        connection.received_payload.fetch_add(bytes as u64, Ordering::Relaxed);
                        return Ok(bytes);
                    }
                    inbound.received(bytes);
                }
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                        quiet += tick(connection.silence);
                        if quiet >= connection.silence {
                            break LossReason::Silent(connection.silence);
                        }
                    }
                    _ => break LossReason::Closed,
                },
            }
        };
        drop(inbound);
        self.watch.lose(connection, reason);
        self.stand_still()
    }
}

impl Write for Link {
    /// Sends timely's bytes. After a loss they vanish. A peer that takes nothing for the whole silence is lost.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let connection = &*self.connection;
        let chunk = bytes.get(..bytes.len().min(CHUNK_BYTES)).unwrap_or_default();
        if chunk.is_empty() || self.watch.is_given_up() {
            return Ok(bytes.len());
        }
        let mut writing = connection.writing();
        if writing.closed {
            return Ok(bytes.len());
        }
        match connection.send(&mut writing, Kind::Data, chunk) {
            Ok(()) => {
                connection.sent_payload.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                Ok(chunk.len())
            }
            Err(error) => {
                writing.closed = true;
                drop(writing);
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
                    self.watch.lose(connection, LossReason::Silent(connection.silence));
                }
                // Any other error shows on the reading side as well, where the peer's last words may still be waiting.
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
