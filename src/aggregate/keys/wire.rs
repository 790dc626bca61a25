//! Layout of the groups of a table: a word with their number, times two, plus one if the store is wide; then the keys as
//! they are held. The types are the table's, and say with that how keys are held.

use super::{Bytes, Keys, Shape, Store, Words};
use crate::types::DataType;
use crate::wire::{Reader, Wire, WireError, Writer};

impl Keys {
    /// Bytes that [`Self::put`] writes.
    pub(in crate::aggregate) fn size(&self) -> usize {
        8 + match &self.store {
            Store::Unit(_) => 0,
            Store::One(words) => u64::size_all(&words.keys),
            Store::Two(words) => words.keys.len() * 16,
            Store::Bytes(bytes) => u64::size_all(&bytes.ends) + u8::size_all(&bytes.arena),
        }
    }

    /// Appends the keys.
    pub(in crate::aggregate) fn put(&self, out: &mut Writer) {
        out.count(self.len() << 1 | usize::from(self.wide));
        match &self.store {
            Store::Unit(_) => {}
            Store::One(words) => u64::put_all(&words.keys, out),
            Store::Two(words) => out.chunks(&words.keys, |key| {
                let key = u128::from(key.0) | u128::from(key.1) << 64;
                key.to_le_bytes()
            }),
            Store::Bytes(bytes) => {
                u64::put_all(&bytes.ends, out);
                out.padded(&bytes.arena);
            }
        }
    }

    /// Takes keys of the types.
    ///
    /// # Errors
    /// When the bytes are not those, or a key stands twice.
    pub(in crate::aggregate) fn get(types: &[DataType], from: &mut Reader<'_>) -> Result<Keys, WireError> {
        let at = from.at();
        let wrong = |what| WireError { at, what };
        let head = from.word()?;
        let wide = head & 1 == 1;
        let n = usize::try_from(head >> 1).map_err(|_| wrong("expected a number of groups"))?;
        let store = match (Shape::of(types), wide) {
            (Shape::Unit, _) if n > 1 => return Err(wrong("without key columns there is one group")),
            (Shape::Unit, _) => Store::Unit(n == 1),
            (Shape::Word, false) => Store::One(Words::distinct(u64::get_all(n, from)?).map_err(wrong)?),
            (Shape::Word, true) | (Shape::Pair | Shape::Text, false) => {
                let pairs = from.chunks::<16>(n)?.iter().map(|bytes| u128::from_le_bytes(*bytes));
                let keys = pairs.map(|key| (key as u64, (key >> 64) as u64)).collect();
                Store::Two(Words::distinct(keys).map_err(wrong)?)
            }
            (Shape::Pair | Shape::Text, true) | (Shape::Encoded, _) => {
                let ends = u64::get_all(n, from)?;
                let len = usize::try_from(ends.last().copied().unwrap_or(0));
                let arena = from.padded(len.map_err(|_| wrong("the group keys are too long"))?)?;
                Store::Bytes(Bytes::distinct(arena, &ends).map_err(wrong)?)
            }
        };
        let keys = Keys { types: types.to_vec(), wide, store };
        if keys.is_sound(types) { Ok(keys) } else { Err(wrong("the group keys are not of their types")) }
    }
}
