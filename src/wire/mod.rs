//! The layout in which rows, partial results and changes travel between processes: plain words.
//!
//! Everything is a sequence of little-endian words of 8 bytes. A vector is its number of items and then the items; words
//! stand as they are, so that writing and reading them is a copy; numbers of 32 bits stand two in a word, truth values 64
//! in a word, bytes eight in a word, and what is left of a last word is zero. There are no names and no type tags beyond
//! those of an `enum`: both sides run the same program, which the peers make sure of before they talk.
//!
//! What is read was written by another process and may be anything. Reading never panics, takes memory in proportion to
//! the bytes at hand (a count that they cannot hold is refused before anything is allocated for it), never recurses deeper
//! than [`DEPTH_MAX`], and gives only values that keep the invariants of their types.
//!
//! This module knows words, and the types and times of the data model; types of the layers above have their layouts beside them.

mod columns;
mod counts;
mod words;

#[cfg(test)]
mod tests;

pub use words::{Reader, Writer};

/// The deepest nesting of lists, in types and in values.
pub const DEPTH_MAX: u32 = 16;

/// Bytes that are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {what}")]
pub struct WireError {
    /// Where the offending item begins, in bytes from the start of the message.
    pub at: usize,
    /// What was expected there, or what is wrong with it (lower case, no full stop).
    pub what: &'static str,
}

/// A type that travels.
pub trait Wire: Sized {
    /// The fewest bytes that an item takes: what a count of items is checked against.
    const LEAST: usize = 8;

    /// Bytes that [`Self::put`] writes: exact, a multiple of 8.
    fn size(&self) -> usize;

    /// Roughly how much of a message the item takes, in bytes; cheap. How much is sent at a time goes by it.
    fn weight(&self) -> usize {
        size_of::<Self>()
    }

    /// Appends the item.
    fn put(&self, out: &mut Writer);

    /// Takes one item off the front.
    ///
    /// # Errors
    /// When the bytes are not one; `from` then stands anywhere.
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError>;

    /// Bytes that [`Self::put_all`] writes: exact, a multiple of 8.
    fn size_all(items: &[Self]) -> usize {
        items.iter().map(Self::size).sum()
    }

    /// Appends items without their number; types that stand more densely in numbers do so here.
    fn put_all(items: &[Self], out: &mut Writer) {
        items.iter().for_each(|item| item.put(out));
    }

    /// Takes `n` items off the front.
    ///
    /// # Errors
    /// When the bytes are not `n` items.
    fn get_all(n: usize, from: &mut Reader<'_>) -> Result<Vec<Self>, WireError> {
        from.expect_items(n, Self::LEAST)?;
        let mut out = Vec::with_capacity(n);
        for _ in 0..n {
            out.push(Self::get(from)?);
        }
        Ok(out)
    }
}

/// The bytes of one item.
pub fn encode<T: Wire>(item: &T) -> Vec<u8> {
    let mut out = Writer::with_capacity(item.size());
    item.put(&mut out);
    out.into_bytes()
}

/// The one item that `bytes` are.
///
/// # Errors
/// When they are not exactly one item.
pub fn decode<T: Wire>(bytes: &[u8]) -> Result<T, WireError> {
    let mut from = Reader::new(bytes);
    let item = T::get(&mut from)?;
    from.expect_end()?;
    Ok(item)
}
