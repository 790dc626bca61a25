//! The members of a gzip file, one after another, as one text, and what may stand behind them.
//!
//! Any number of NUL bytes may follow the last member, as archivers leave them to fill a block; gzip(1) takes them as well.
//! Anything else is an error that says so, after the text of the members before it.

use flate2::bufread::GzDecoder;
use std::fmt;
use std::io::{BufRead, Error, ErrorKind, Read, Result};

/// The first byte of a member.
const MAGIC: u8 = 0x1f;

/// What follows the last member is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailing;

impl fmt::Display for Trailing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what follows the last gzip member is neither another member nor NUL bytes")
    }
}

impl std::error::Error for Trailing {}

/// Reads the text of all members.
pub(crate) struct Members<R> {
    /// `None` after the end or an error.
    member: Option<GzDecoder<R>>,
    /// Whether a member has been read whole.
    whole: bool,
}

impl<R: BufRead> Members<R> {
    /// Of a file that is not empty.
    pub(crate) fn new(bytes: R) -> Self {
        Members { member: Some(GzDecoder::new(bytes)), whole: false }
    }

    /// Goes to the next member; says whether there is one.
    fn next(&mut self) -> Result<bool> {
        let Some(member) = self.member.take() else { return Ok(false) };
        let mut bytes = member.into_inner();
        self.whole = true;
        let mut filled = false;
        loop {
            let (first, count) = match bytes.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                buffer => {
                    let buffer = buffer?;
                    (buffer.first().copied(), buffer.iter().take_while(|byte| **byte == 0).count())
                }
            };
            match first {
                None => return Ok(false),
                Some(0) => {
                    bytes.consume(count);
                    filled = true;
                }
                Some(MAGIC) if !filled => {
                    self.member = Some(GzDecoder::new(bytes));
                    return Ok(true);
                }
                Some(_) => return Err(Error::new(ErrorKind::InvalidData, Trailing)),
            }
        }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        while let Some(member) = &mut self.member {
            match member.read(out) {
                Ok(0) => {
                    self.next()?;
                }
                // A header that is none: what begins like a member need not be one.
                Err(error) if error.kind() == ErrorKind::InvalidInput && self.whole && member.header().is_none() => {
                    self.member = None;
                    return Err(Error::new(ErrorKind::InvalidData, Trailing));
                }
                read => return read,
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Write};

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).expect("compresses");
        encoder.finish().expect("compresses")
    }

    /// The text that was read, and the error that ended it, if one did; the file comes in pieces of any size.
    fn read(bytes: &[u8], piece: usize) -> (Vec<u8>, Option<Error>) {
        let mut text = Vec::new();
        let error = Members::new(BufReader::with_capacity(piece, bytes)).read_to_end(&mut text).err();
        (text, error)
    }

    #[test]
    fn what_follows_a_member() {
        let (one, two) = (gzip(b"one\n"), gzip(b"two\n"));
        let member = |more: &[u8]| [&one[..], more].concat();
        for piece in [1, 2, 7, 1_000] {
            for (more, expected) in [
                (&b""[..], &b"one\n"[..]),
                (&two, b"one\ntwo\n"),
                (&[0], b"one\n"),
                (&[0; 700], b"one\n"),
                (&[&two[..], &[0; 10]].concat(), b"one\ntwo\n"),
                (&gzip(b""), b"one\n"),
            ] {
                let (text, error) = read(&member(more), piece);
                assert!(error.is_none(), "{more:?}: {error:?}");
                assert_eq!(text, expected, "{more:?}");
            }
            let more: [&[u8]; 5] = [b"trailing", b"\n", &[0, 0, 1], &[&[0][..], &two].concat(), b"\x1f\x8b, or not?"];
            for more in more {
                let (text, error) = read(&member(more), piece);
                let error = error.unwrap_or_else(|| panic!("{more:?}: no error"));
                assert!(error.get_ref().is_some_and(|e| e.is::<Trailing>()), "{more:?}: {error:?}");
                assert_eq!(text, b"one\n", "what came before is read");
            }
            // A member that is cut off, and a file that never was one.
            let (_, error) = read(&member(&two[..two.len() - 3]), piece);
            assert_eq!(error.map(|e| e.kind()), Some(ErrorKind::UnexpectedEof));
            let mut broken = two.clone();
            broken[12..15].fill(0xff);
            let error = read(&member(&broken), piece).1.expect("broken data");
            assert!(error.get_ref().is_none_or(|e| !e.is::<Trailing>()), "a member all the same: {error:?}");
            let (_, error) = read(b"{\"no\": \"gzip\"}\n", piece);
            assert_eq!(error.map(|e| e.kind()), Some(ErrorKind::InvalidInput));
        }
    }
}
