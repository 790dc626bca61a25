//! Frames: all that travels between two processes. Pure; fuzzed.
//!
//! A frame is a header of eight bytes — its kind, three zero bytes, and the payload's length (little endian) — and the
//! payload. Every kind has a greatest length, which is checked before anything is allocated.

use super::bytes::{Cursor, SHOWN_MAX, put_text, shorten, shown};
use std::fmt;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 8;
/// The most bytes of a message of the start; input files come in several.
pub const MESSAGE_BYTES_MAX: u32 = 64 << 10;
/// The most bytes of one data frame.
pub const DATA_BYTES_MAX: u32 = 1 << 20;
/// The most bytes of a reason.
pub const REASON_BYTES_MAX: usize = 4 << 10;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A side's claims and random number; before the proof.
    Hello = 1,
    /// The proof of the secret.
    Proof = 2,
    /// The connection is taken into the mesh.
    Admit = 3,
    /// The connection is refused: a code and a text.
    Refuse = 4,
    /// What process 0 runs.
    Terms = 5,
    /// A piece of process 0's list of input files.
    Inputs = 6,
    /// The sender can start.
    Ready = 7,
    /// All can start.
    Go = 8,
    /// The sender gives up; every later frame is void.
    Abort = 9,
    /// Timely's bytes.
    Data = 10,
    /// Nothing but a sign of life.
    Heartbeat = 11,
    /// The last frame: the sender has sent everything.
    Goodbye = 12,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        use Kind::{Abort, Admit, Data, Go, Goodbye, Heartbeat, Hello, Inputs, Proof, Ready, Refuse, Terms};
        let kinds = [Hello, Proof, Admit, Refuse, Terms, Inputs, Ready, Go, Abort, Data, Heartbeat, Goodbye];
        kinds.into_iter().find(|kind| *kind as u8 == byte)
    }
    /// The most bytes of a payload of this kind.
    pub fn bytes_max(self) -> u32 {
        match self {
            Kind::Hello => 256,
            Kind::Proof => 32,
            Kind::Refuse | Kind::Abort => 8 + REASON_BYTES_MAX as u32,
            Kind::Terms | Kind::Inputs => MESSAGE_BYTES_MAX,
            Kind::Data => DATA_BYTES_MAX,
            Kind::Admit | Kind::Ready | Kind::Go | Kind::Heartbeat | Kind::Goodbye => 0,
        }
    }
    /// Whether it may come before both sides are proven. None of these is longer than about 4 KiB.
    pub fn is_of_handshake(self) -> bool {
        matches!(self, Kind::Hello | Kind::Proof | Kind::Admit | Kind::Refuse)
    }
    /// Whether it belongs to the run; the others belong to the start.
    pub fn is_of_run(self) -> bool {
        matches!(self, Kind::Data | Kind::Heartbeat | Kind::Goodbye)
    }
}

/// Bytes that are no frame, or no frame that may stand here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadFrame {
    /// No kind has this number, or the zero bytes are not zero.
    Header([u8; 4]),
    /// Longer than its kind may be.
    Length(Kind, u32),
    /// The payload is not what its kind demands.
    Payload(Kind),
    /// Another kind was due.
    Order(Kind),
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadFrame::Header(bytes) => write!(f, "expected the header of a frame, found the bytes {bytes:02x?}"),
            BadFrame::Length(kind, length) => {
                write!(f, "expected at most {} bytes in a frame {kind:?}, found {length}", kind.bytes_max())
            }
            BadFrame::Payload(kind) => write!(f, "the payload of a frame {kind:?} is malformed"),
            BadFrame::Order(kind) => write!(f, "a frame {kind:?} is not due here"),
        }
    }
}

/// Kind and length of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is for.
    pub kind: Kind,
    /// Bytes of the payload.
    pub length: u32,
}

impl Header {
    /// The bytes of the header.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let [a, b, c, d] = self.length.to_le_bytes();
        [self.kind as u8, 0, 0, 0, a, b, c, d]
    }
    /// Reads a header.
    ///
    /// # Errors
    /// No such kind, or too long for its kind.
    pub fn decode(bytes: [u8; HEADER_BYTES]) -> Result<Header, BadFrame> {
        let [kind, x, y, z, a, b, c, d] = bytes;
        let head = [kind, x, y, z];
        let kind = Kind::of(kind).filter(|_| [x, y, z] == [0; 3]).ok_or(BadFrame::Header(head))?;
        let length = u32::from_le_bytes([a, b, c, d]);
        if length > kind.bytes_max() { Err(BadFrame::Length(kind, length)) } else { Ok(Header { kind, length }) }
    }
}

/// A whole frame.
///
/// # Panics
/// In debug builds, if the payload is longer than its kind may be.
pub fn encode(kind: Kind, payload: &[u8]) -> Vec<u8> {
    debug_assert!(payload.len() <= kind.bytes_max() as usize, "{kind:?}: {} bytes", payload.len());
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
    frame.extend_from_slice(&Header { kind, length }.encode());
    frame.extend_from_slice(payload);
    frame
}

/// Why a process gives up, as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abort {
    /// The process whose reason it is; others may pass it on.
    pub origin: u32,
    /// Whether the query, a setting or the arguments are to blame: starting again will not help.
    pub is_usage: bool,
    /// The reason, at most [`REASON_BYTES_MAX`] bytes.
    pub reason: String,
}

impl Abort {
    /// The whole frame; a longer reason is cut.
    pub fn encode(&self) -> Vec<u8> {
        let mut payload = self.origin.to_le_bytes().to_vec();
        payload.push(u8::from(self.is_usage));
        payload.extend_from_slice(shorten(&self.reason, REASON_BYTES_MAX).as_bytes());
        encode(Kind::Abort, &payload)
    }
    /// Reads the payload. The reason is fit to be shown: one line, nothing that acts on a terminal.
    ///
    /// # Errors
    /// Too short, or no UTF-8.
    pub fn decode(payload: &[u8]) -> Result<Abort, BadFrame> {
        let mut cursor = Cursor(payload);
        let mut read = || {
            let (origin, usage) = (cursor.u32()?, cursor.u8()?);
            let reason = std::str::from_utf8(cursor.0).ok().filter(|text| text.len() <= REASON_BYTES_MAX)?;
            Some(Abort { origin, is_usage: usage == 1, reason: shown(reason, REASON_BYTES_MAX) })
        };
        read().ok_or(BadFrame::Payload(Kind::Abort))
    }
}

/// Refuses a connection: a code for the program and a text for people.
pub fn encode_refusal(code: u8, text: &str) -> Vec<u8> {
    let mut payload = vec![code];
    put_text(&mut payload, shorten(text, REASON_BYTES_MAX - 5));
    encode(Kind::Refuse, &payload)
}

/// Code and text of a refusal; the text is fit to be shown, and cut.
///
/// # Errors
/// Too short, too long, or no UTF-8.
pub fn decode_refusal(payload: &[u8]) -> Result<(u8, String), BadFrame> {
    let mut cursor = Cursor(payload);
    let mut read = || Some((cursor.u8()?, shown(cursor.text(REASON_BYTES_MAX)?, SHOWN_MAX)));
    read().filter(|_| cursor.is_done()).ok_or(BadFrame::Payload(Kind::Refuse))
}

/// Cuts received bytes into frames of the start; stops before the first frame of the run.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
    start: usize,
}

impl Frames {
    /// Adds what was received. Memory is bounded if [`Frames::next`] is called until it gives none after each.
    pub fn push(&mut self, bytes: &[u8]) {
        let _ = self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// The next frame of the start, if all of it is there.
    ///
    /// # Errors
    /// The bytes are no frame.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would end at none; this goes on after the next push"
    )]
    pub fn next(&mut self) -> Result<Option<(Kind, Vec<u8>)>, BadFrame> {
        let Some((head, rest)) = self.rest().split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let header = Header::decode(*head)?;
        let length = header.length as usize;
        match rest.get(..length) {
            Some(payload) if !header.kind.is_of_run() => {
                let payload = payload.to_vec();
                self.start += HEADER_BYTES + length;
                Ok(Some((header.kind, payload)))
            }
            _ => Ok(None),
        }
    }

    /// Kind of the next frame, as soon as its first byte is there.
    pub fn kind(&self) -> Option<Kind> {
        self.rest().first().and_then(|byte| Kind::of(*byte))
    }

    /// Whether the next frame belongs to the run: nothing more needs to be received.
    pub fn is_at_run(&self) -> bool {
        self.kind().is_some_and(Kind::is_of_run)
    }

    /// What was received and not given out.
    pub fn into_rest(mut self) -> Vec<u8> {
        self.buffer.split_off(self.start.min(self.buffer.len()))
    }
}

/// What [`Inbound::take`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// So many of timely's bytes, at least one.
    Data(usize),
    /// The other side has sent everything.
    Goodbye,
    /// The other side gives up.
    Abort(Abort),
    /// More bytes must be received first.
    More,
}

const BUFFER_BYTES: usize = 64 << 10;

/// The receiving side of a running connection: timely's bytes without the frames around them.
#[derive(Debug)]
pub struct Inbound {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes left of the present data frame.
    left: usize,
}

impl Inbound {
    /// Begins with what was received already.
    pub fn new(received: Vec<u8>) -> Self {
        let (end, mut buffer) = (received.len(), received);
        buffer.resize(end.max(BUFFER_BYTES), 0);
        Inbound { buffer, start: 0, end, left: 0 }
    }

    /// Gives out timely's bytes, or says what else came. `out` must not be empty.
    ///
    /// # Errors
    /// The bytes are no frame of a run.
    pub fn take(&mut self, out: &mut [u8]) -> Result<Taken, BadFrame> {
        loop {
            let received = self.buffer.get(self.start..self.end).unwrap_or_default();
            if self.left > 0 {
                let bytes = self.left.min(received.len()).min(out.len());
                let (Some(from), Some(to)) = (received.get(..bytes), out.get_mut(..bytes)) else {
                    return Ok(Taken::More);
                };
                if bytes == 0 {
                    return Ok(Taken::More);
                }
                to.copy_from_slice(from);
                self.start += bytes;
                self.left -= bytes;
                return Ok(Taken::Data(bytes));
            }
            let Some((head, rest)) = received.split_first_chunk::<HEADER_BYTES>() else { return Ok(Taken::More) };
            let header = Header::decode(*head)?;
            let length = header.length as usize;
            match header.kind {
                Kind::Data => {
                    self.left = length;
                    self.start += HEADER_BYTES;
                }
                Kind::Heartbeat => self.start += HEADER_BYTES,
                Kind::Goodbye => {
                    self.start += HEADER_BYTES;
                    return Ok(Taken::Goodbye);
                }
                Kind::Abort => {
                    let Some(payload) = rest.get(..length) else { return Ok(Taken::More) };
                    let abort = Abort::decode(payload)?;
                    self.start += HEADER_BYTES + length;
                    return Ok(Taken::Abort(abort));
                }
                other => return Err(BadFrame::Order(other)),
            }
        }
    }

    /// How many bytes may be received straight into the caller's memory, past this buffer.
    pub fn direct(&self) -> usize {
        if self.start == self.end { self.left } else { 0 }
    }

    /// So many bytes were received past the buffer.
    pub fn received_directly(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// Where to receive; not empty after [`Taken::More`].
    pub fn space(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// So many bytes were received into [`Inbound::space`].
    pub fn received(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buffer.len());
    }
}
