//! The proof that both sides of a connection belong to the same cluster. Pure: bytes in, bytes out; fuzzed.
//!
//! ```text
//! connecting                                accepting
//!     Hello(claims, nonce a)        →
//!                                   ←       Hello(claims, nonce b)
//!     Proof(HMAC(secret, c ‖ a ‖ b))   →
//!                                   ←       Proof(HMAC(secret, s ‖ a ‖ b))
//!                                   ←       Admit, or Refuse
//! ```
//!
//! The proofs cover both hellos whole, hence all claims and both random numbers, and differ by role (`c`, `s`): one side's
//! proof is no proof of the other, and none is worth anything in another connection. Claims are compared only after both
//! proofs.
//!
//! # Who proves first
//!
//! One side must show its HMAC to a side that has shown nothing yet, and whoever has an HMAC can try secrets on it, as many
//! and as long as he likes, without talking to anybody. Here the connecting side goes first. Hence a stranger who
//! *connects* gets nothing to guess the secret from; that takes no more than reaching a port. A stranger who *listens* at
//! the address of a peer, because the peer is not up yet or the network leads there, gets the HMAC of everyone who
//! connects; so does whoever reads the network between the hosts. The other order would give the HMAC to the many who can
//! connect instead of the few who can listen. Against guessing helps a secret that cannot be guessed: long and random, as
//! from `openssl rand -hex 32`.

use super::Secret;
use super::bytes::{Cursor, SHOWN_MAX, put_text, shown};
use super::frame::{self, BadFrame, Frames, Kind};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// The first bytes of every hello.
pub const MAGIC: [u8; 8] = *b"slackwtr";
/// Version of everything that travels; processes of different ones do not talk.
pub const PROTOCOL: u16 = 2;
/// The most bytes of a program's version.
const VERSION_BYTES_MAX: usize = 64;

/// Which side of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The side that connects, the higher index.
    Connecting,
    /// The side that accepts, the lower index.
    Accepting,
}

impl Role {
    fn byte(self) -> u8 {
        match self {
            Role::Connecting => b'c',
            Role::Accepting => b's',
        }
    }
    fn other(self) -> Role {
        match self {
            Role::Connecting => Role::Accepting,
            Role::Accepting => Role::Connecting,
        }
    }
}

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// Version of the program.
    pub version: String,
    /// Its index.
    pub process: u32,
    /// Number of processes.
    pub processes: u32,
    /// Worker threads of each.
    pub threads: u32,
}

/// Claims with the random number of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The side that speaks.
    pub role: Role,
    /// What it says of itself.
    pub claims: Claims,
    /// The process it wants to talk to.
    pub to: u32,
    /// Its random number.
    pub nonce: [u8; 32],
}

impl Hello {
    fn encode(&self) -> Vec<u8> {
        let mut payload = MAGIC.to_vec();
        payload.extend_from_slice(&PROTOCOL.to_le_bytes());
        payload.push(self.role.byte());
        for number in [self.claims.process, self.claims.processes, self.claims.threads, self.to] {
            payload.extend_from_slice(&number.to_le_bytes());
        }
        payload.extend_from_slice(&self.nonce);
        put_text(&mut payload, super::bytes::shorten(&self.claims.version, VERSION_BYTES_MAX));
        payload
    }

    fn decode(payload: &[u8], role: Role) -> Result<Hello, Fault> {
        let mut cursor = Cursor(payload);
        let bad = || Fault::Bad(BadFrame::Payload(Kind::Hello));
        if cursor.array() != Some(MAGIC) {
            return Err(bad());
        }
        let protocol = cursor.u16().ok_or_else(bad)?;
        if protocol != PROTOCOL {
            return Err(Fault::Protocol(protocol));
        }
        let mut read = || {
            let spoken = cursor.u8()?;
            let (process, processes, threads) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
            let (to, nonce) = (cursor.u32()?, cursor.array()?);
            let version = cursor.text(VERSION_BYTES_MAX)?.to_owned();
            let claims = Claims { version, process, processes, threads };
            (spoken == role.byte()).then_some(Hello { role, claims, to, nonce })
        };
        read().filter(|_| cursor.is_done()).ok_or_else(bad)
    }
}

/// Why there will be no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not our protocol.
    Bad(BadFrame),
    /// Another version of the protocol.
    Protocol(u16),
    /// The other side does not know the secret; with the index it claims.
    Secret(u32),
    /// The other side's refusal.
    Refused {
        /// One of [`code`].
        code: u8,
        /// Its words.
        text: String,
        /// Whether it had shown before that it knows the secret. Otherwise it may be anybody.
        is_proven: bool,
    },
}

/// Codes of refusals.
pub mod code {
    /// The secret is another one.
    pub const SECRET: u8 = 1;
    /// The protocol is another one.
    pub const PROTOCOL: u8 = 2;
    /// The index is taken.
    pub const TAKEN: u8 = 3;
}

impl Fault {
    /// Whether a peer that knows the secret is behind it: trying again will not help. All other faults may be the work of a
    /// stranger who stands in the place of a peer, and may pass.
    pub fn is_proven(&self) -> bool {
        matches!(self, Fault::Refused { is_proven: true, .. })
    }

    /// What to tell the other side, if anything.
    pub fn refusal(&self) -> Option<Vec<u8>> {
        match self {
            Fault::Secret(_) => Some(frame::encode_refusal(code::SECRET, "the secret is another one")),
            Fault::Protocol(found) => {
                let text = format!("expected version {PROTOCOL} of the protocol, found version {found}");
                Some(frame::encode_refusal(code::PROTOCOL, &text))
            }
            Fault::Bad(_) | Fault::Refused { .. } => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Bad(bad) => write!(f, "it does not speak this program's protocol: {bad}"),
            Fault::Protocol(found) => write!(f, "expected version {PROTOCOL} of the protocol, found version {found}"),
            Fault::Secret(_) => f.write_str("it does not know this cluster's secret"),
            Fault::Refused { text, is_proven: true, .. } => write!(f, "it refuses: {text}"),
            Fault::Refused { text, .. } => write!(f, "it refuses, and has not proven who it is: {text}"),
        }
    }
}

impl From<BadFrame> for Fault {
    fn from(bad: BadFrame) -> Fault {
        Fault::Bad(bad)
    }
}

/// A peer that knows the secret.
#[derive(Clone, Debug)]
pub struct Proven {
    /// What it says of itself.
    pub claims: Claims,
    /// Claims that do not fit ours, in words; the connection is of no use then.
    pub disagreement: Option<String>,
    /// What was received beyond the handshake.
    pub rest: Vec<u8>,
}

/// What to do after some bytes.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Bytes to send.
    pub send: Vec<u8>,
    /// Set at the end.
    pub proven: Option<Proven>,
}

#[derive(Debug)]
enum State {
    Hello,
    Proof(Hello),
    Admit(Hello),
    Done,
}

/// One side of a handshake.
#[derive(Debug)]
pub struct Handshake {
    secret: Secret,
    mine: Hello,
    frames: Frames,
    state: State,
}

impl Handshake {
    /// A handshake over a new connection. `to` is the process one connects to; the accepting side learns it. The nonce
    /// must be random and new.
    pub fn new(role: Role, claims: Claims, to: u32, nonce: [u8; 32], secret: Secret) -> Self {
        let mine = Hello { role, claims, to, nonce };
        Handshake { secret, mine, frames: Frames::default(), state: State::Hello }
    }

    /// What to send before anything is received; the accepting side waits.
    pub fn opening(&self) -> Vec<u8> {
        match self.mine.role {
            Role::Connecting => frame::encode(Kind::Hello, &self.mine.encode()),
            Role::Accepting => Vec::new(),
        }
    }

    /// Takes received bytes. At most 64 KiB at a time keep memory small.
    ///
    /// # Errors
    /// There will be no connection; see [`Fault::refusal`] for what to tell the other side.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Step, Fault> {
        self.frames.push(bytes);
        let mut step = Step::default();
        while !matches!(self.state, State::Done) {
            // Nothing longer is kept of someone who is not proven.
            if let Some(kind) = self.frames.kind().filter(|kind| !kind.is_of_handshake()) {
                return Err(Fault::Bad(BadFrame::Order(kind)));
            }
            let Some((kind, payload)) = self.frames.next()? else { break };
            if kind == Kind::Refuse {
                let (code, text) = frame::decode_refusal(&payload)?;
                return Err(Fault::Refused { code, text, is_proven: self.is_waiting() });
            }
            self.frame(kind, &payload, &mut step)?;
        }
        if let Some(proven) = &mut step.proven {
            proven.rest = std::mem::take(&mut self.frames).into_rest();
        }
        Ok(step)
    }

    /// Whether the other side is proven, and all that is left to do for it is to let us in.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::Admit(_))
    }

    fn frame(&mut self, kind: Kind, payload: &[u8], step: &mut Step) -> Result<(), Fault> {
        let role = self.mine.role;
        match (std::mem::replace(&mut self.state, State::Done), kind) {
            (State::Hello, Kind::Hello) => {
                let theirs = Hello::decode(payload, role.other())?;
                match role {
                    Role::Connecting => step.send.extend(frame::encode(Kind::Proof, &self.proof(role, &theirs))),
                    Role::Accepting => {
                        self.mine.to = theirs.claims.process;
                        step.send.extend(frame::encode(Kind::Hello, &self.mine.encode()));
                    }
                }
                self.state = State::Proof(theirs);
            }
            (State::Proof(theirs), Kind::Proof) => {
                if self.mac(role.other(), &theirs).verify_slice(payload).is_err() {
                    return Err(Fault::Secret(theirs.claims.process));
                }
                let disagreement = disagreement(&self.mine, &theirs);
                if role == Role::Accepting {
                    step.send.extend(frame::encode(Kind::Proof, &self.proof(role, &theirs)));
                }
                if role == Role::Accepting || disagreement.is_some() {
                    step.proven = Some(Proven { claims: theirs.claims, disagreement, rest: Vec::new() });
                } else {
                    self.state = State::Admit(theirs);
                }
            }
            (State::Admit(theirs), Kind::Admit) => {
                step.proven = Some(Proven { claims: theirs.claims, disagreement: None, rest: Vec::new() });
            }
            (_, kind) => return Err(Fault::Bad(BadFrame::Order(kind))),
        }
        Ok(())
    }

    fn proof(&self, role: Role, theirs: &Hello) -> [u8; 32] {
        self.mac(role, theirs).finalize().into_bytes().into()
    }

    /// What the side `role` proves: the connecting side's hello first, each with its length before it.
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    fn mac(&self, role: Role, theirs: &Hello) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.bytes()).expect("a key of any length");
        mac.update(b"slackwater mesh proof\0");
        mac.update(&[role.byte()]);
        let (mine, theirs) = (self.mine.encode(), theirs.encode());
        let hellos = if self.mine.role == Role::Connecting { [mine, theirs] } else { [theirs, mine] };
        for hello in hellos {
            mac.update(&(hello.len() as u64).to_le_bytes());
            mac.update(&hello);
        }
        mac
    }
}

/// What of the claims does not fit, in words.
fn disagreement(mine: &Hello, theirs: &Hello) -> Option<String> {
    let (a, b) = (&mine.claims, &theirs.claims);
    let differ = |what: &str, other: &dyn fmt::Display, own: &dyn fmt::Display| {
        Some(format!("it has {what} {other}, this process ({}) has {what} {own}", a.process))
    };
    if a.version != b.version {
        return differ("version", &shown(&b.version, SHOWN_MAX), &a.version);
    }
    if a.processes != b.processes {
        return differ("-n", &b.processes, &a.processes);
    }
    if a.threads != b.threads {
        return differ("-w", &b.threads, &a.threads);
    }
    let order = match mine.role {
        Role::Connecting => b.process < a.process && b.process == mine.to,
        Role::Accepting => b.process > a.process && b.process < a.processes,
    };
    if !order || theirs.to != a.process {
        return Some(format!(
            "it is process {} and talks to process {}, this is process {}: the host files differ",
            b.process, theirs.to, a.process
        ));
    }
    None
}
