//! The shortest way through NDJSON: records that are written as those before them.
//!
//! One writer writes its keys in one manner, spaces included. A [`Shape`] remembers each key as it stands between the comma
//! (or brace) before it and its value, and which key followed it last: so a key costs one comparison of bytes, and the
//! values that are wanted are read where they stand ([`Converter::short_json`]). Keys may be missing, come in another order,
//! or be new; what is written once in another manner is learnt.
//!
//! Everything is checked on the way: what is taken here is a flat object, complete with its line end, without escapes, no
//! wanted key twice, and with values that fit. Any other line is left to the long way from its start, which alone rejects.
//! Cost: one pass; no allocation.
//!
//! [`Converter::short_json`]: super::value::Converter::short_json

use super::decode::BlockBuilder;
use super::flat::{spaces_end, string_end, value_end};

/// Ways of writing keys that are remembered.
const TOKENS_MAX: usize = 256;
/// Longer ones are not.
const TOKEN_BYTES_MAX: usize = 256;
/// Bytes of a key that are compared at once.
const HEAD: usize = 16;

/// A key as it is written: with spaces, quotes and colon.
#[derive(Debug)]
struct Token {
    /// Its first bytes, and which of them there are.
    head: u128,
    mask: u128,
    /// Those behind the head.
    rest: Box<[u8]>,
    len: usize,
    slot: Option<usize>,
    /// The slot's bit.
    bit: u64,
    /// The token that followed it last.
    next: usize,
}

impl Token {
    fn new(written: &[u8], slot: Option<usize>) -> Self {
        let (mut head, mut mask) = ([0; HEAD], [0; HEAD]);
        for ((head, mask), byte) in head.iter_mut().zip(&mut mask).zip(written) {
            (*head, *mask) = (*byte, u8::MAX);
        }
        let rest = written.get(HEAD..).unwrap_or_default().into();
        let (head, mask) = (u128::from_le_bytes(head), u128::from_le_bytes(mask));
        Token { head, mask, rest, len: written.len(), slot, bit: slot.map_or(0, |slot| 1 << slot), next: 0 }
    }

    /// Whether it stands at the offset, all of it: a space more is another way of writing.
    #[inline]
    fn stands_at(&self, bytes: &[u8], at: usize) -> bool {
        let Some(bytes) = bytes.get(at..) else { return false };
        let Some(head) = bytes.first_chunk::<HEAD>() else { return false };
        (u128::from_le_bytes(*head) ^ self.head) & self.mask == 0
            && bytes.get(self.len).is_some_and(|byte| *byte > b' ')
            && (self.rest.is_empty() || bytes.get(HEAD..self.len) == Some(&*self.rest))
    }
}

/// How the records before were written.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// By slot: its key. Empty if the table is none for this way.
    keys: Vec<String>,
    /// A bit for each of them.
    all: u64,
    tokens: Vec<Token>,
    first: usize,
    /// Whether the last line was left because of a key never seen.
    unknown: bool,
}

impl Shape {
    /// For slots of these keys.
    pub(super) fn new(keys: Vec<String>) -> Self {
        let usable =
            keys.len() <= 64 && keys.iter().enumerate().all(|(n, key)| !keys.iter().skip(n + 1).any(|k| k == key));
        let keys = if usable { keys } else { Vec::new() };
        let all = (0..keys.len()).fold(0, |all, slot| all | 1 << slot);
        Shape { keys, all, ..Shape::default() }
    }

    /// Whether there is this way for the table at all.
    pub(super) fn is_usable(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Reads the slots of the record that starts at `start`: the offsets of its line's end and of the next line. `None` leaves
    /// it to the long way, when what has been read is undone.
    #[inline]
    pub(super) fn read(&mut self, text: &str, start: usize, out: &mut BlockBuilder) -> Option<(usize, usize)> {
        let bytes = text.as_bytes();
        self.unknown = false;
        if bytes.get(start) != Some(&b'{') {
            return None;
        }
        let (mut at, mut before, mut seen) = (start + 1, None, 0u64);
        loop {
            let number = self.token_at(bytes, at, before)?;
            let token = self.tokens.get(number)?;
            at += token.len;
            at = match token.slot {
                None => value_end(bytes, at)?,
                Some(_) if seen & token.bit != 0 => return None,
                Some(slot) => {
                    seen |= token.bit;
                    out.read_json(slot, text, at)?
                }
            };
            match bytes.get(at)? {
                b',' => at += 1,
                b'}' => break,
                _ => return None,
            }
            before = Some(number);
        }
        if seen != self.all {
            let missing = (0..self.keys.len()).filter(|slot| seen & (1 << slot) == 0);
            missing.for_each(|slot| out.read_nothing(slot));
        }
        let end = at + 1;
        match bytes.get(end..)? {
            [b'\n', ..] => Some((end, end + 1)),
            [b'\r', b'\n', ..] => Some((end, end + 2)),
            _ => None,
        }
    }

    /// The token at an offset, behind the one before it.
    #[inline]
    fn token_at(&mut self, bytes: &[u8], at: usize, before: Option<usize>) -> Option<usize> {
        let expected = before.map_or(self.first, |before| self.tokens.get(before).map_or(0, |token| token.next));
        if self.tokens.get(expected)?.stands_at(bytes, at) {
            return Some(expected);
        }
        self.search(bytes, at, before)
    }

    #[cold]
    fn search(&mut self, bytes: &[u8], at: usize, before: Option<usize>) -> Option<usize> {
        let Some(found) = self.tokens.iter().position(|token| token.stands_at(bytes, at)) else {
            self.unknown = true;
            return None;
        };
        match before {
            None => self.first = found,
            Some(before) => self.tokens.get_mut(before)?.next = found,
        }
        Some(found)
    }

    /// Learns how the keys are written in a line that is a flat object without escapes.
    pub(super) fn learn(&mut self, line: &str) {
        if (self.unknown || self.tokens.is_empty()) && self.tokens.len() < TOKENS_MAX {
            self.learn_keys(line);
        }
    }

    /// `None` is the end of what can be learnt.
    #[cold]
    fn learn_keys(&mut self, line: &str) -> Option<()> {
        let bytes = line.as_bytes();
        let mut at = usize::from(bytes.first() == Some(&b'{'));
        while at > 0 && self.tokens.len() < TOKENS_MAX {
            let key_start = spaces_end(bytes, at) + 1;
            let key_end = string_end(bytes, key_start)?;
            let value = spaces_end(bytes, spaces_end(bytes, key_end + 1) + 1);
            let written = bytes.get(at..value)?;
            let key = line.get(key_start..key_end)?;
            let known = |token: &Token| token.len == written.len() && token.stands_at(bytes, at);
            if written.len() <= TOKEN_BYTES_MAX && !self.tokens.iter().any(known) {
                let slot = self.keys.iter().position(|wanted| wanted == key);
                self.tokens.push(Token::new(written, slot));
            }
            at = spaces_end(bytes, value_end(bytes, value)?);
            at = if bytes.get(at) == Some(&b',') { at + 1 } else { 0 };
        }
        Some(())
    }
}
