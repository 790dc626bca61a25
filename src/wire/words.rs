//! Words, vectors of them, texts, and what is made of those: options, tuples, maps.

use super::{DEPTH_MAX, Wire, WireError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a word.
const WORD: usize = 8;

/// `len` bytes padded to whole words.
const fn padded(len: usize) -> usize {
    len.next_multiple_of(WORD)
}

/// Collects words.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Empty, with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Writer { bytes: Vec::with_capacity(bytes) }
    }

    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Forgets what was written and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Appends a word.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    /// Appends a number of items.
    #[inline]
    pub fn count(&mut self, n: usize) {
        self.word(n as u64);
    }

    /// Appends bytes and zeros up to a whole word.
    pub fn padded(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(padded(self.bytes.len()), 0);
    }

    /// Appends one chunk of `N` bytes for each item, `N` being a multiple of 8.
    #[inline]
    pub fn chunks<T, const N: usize>(&mut self, items: &[T], chunk: impl Fn(&T) -> [u8; N]) {
        let start = self.bytes.len();
        self.bytes.resize(start + items.len() * N, 0);
        let (_, new) = self.bytes.split_at_mut(start);
        let (chunks, _) = new.as_chunks_mut::<N>();
        chunks.iter_mut().zip(items).for_each(|(to, item)| *to = chunk(item));
    }
}

/// Bytes that are being read, from the front.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    len: usize,
    depth: u32,
}

impl<'a> Reader<'a> {
    /// At the first of the bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes, len: bytes.len(), depth: 0 }
    }

    /// Bytes read so far.
    pub fn at(&self) -> usize {
        self.len - self.rest.len()
    }

    /// Bytes not read yet.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// An error at the next byte.
    pub fn error(&self, what: &'static str) -> WireError {
        WireError { at: self.at(), what }
    }

    /// # Errors
    /// When bytes are left.
    pub fn expect_end(&self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.error("expected the end of the message")) }
    }

    /// # Errors
    /// When less than `n` items of at least `least` bytes can be left.
    pub fn expect_items(&self, n: usize, least: usize) -> Result<(), WireError> {
        match n.checked_mul(least) {
            Some(bytes) if bytes <= self.left() => Ok(()),
            _ => Err(self.error("the message ends before as many items as it announces")),
        }
    }

    /// Takes chunks of `N` bytes.
    ///
    /// # Errors
    /// When there are not as many.
    #[inline]
    pub fn chunks<const N: usize>(&mut self, n: usize) -> Result<&'a [[u8; N]], WireError> {
        let (chunks, _) = self.rest.as_chunks::<N>();
        match (chunks.get(..n), self.rest.get(n.saturating_mul(N)..)) {
            (Some(chunks), Some(rest)) => {
                self.rest = rest;
                Ok(chunks)
            }
            _ => Err(self.error("the message ends before as many items as it announces")),
        }
    }

    /// Takes a word.
    ///
    /// # Errors
    /// When there is none.
    #[inline]
    pub fn word(&mut self) -> Result<u64, WireError> {
        let Some((word, rest)) = self.rest.split_first_chunk::<WORD>() else {
            return Err(self.error("expected a word of 8 bytes, found the end"));
        };
        self.rest = rest;
        Ok(u64::from_le_bytes(*word))
    }

    /// Takes a word that is at most `max`.
    ///
    /// # Errors
    /// When there is none, or it is greater; `what` says what was expected.
    pub fn word_upto(&mut self, max: u64, what: &'static str) -> Result<u64, WireError> {
        let at = self.at();
        let word = self.word()?;
        if word <= max { Ok(word) } else { Err(WireError { at, what }) }
    }

    /// Takes a number of items that take at least `least` bytes each.
    ///
    /// # Errors
    /// When there is no word, or the bytes cannot hold so many items.
    pub fn count(&mut self, least: usize) -> Result<usize, WireError> {
        let at = self.at();
        let word = self.word()?;
        usize::try_from(word)
            .ok()
            .filter(|n| self.expect_items(*n, least).is_ok())
            .ok_or(WireError { at, what: "expected a number of items that the rest of the message can hold" })
    }

    /// Takes bytes and the zeros after them.
    ///
    /// # Errors
    /// When there are not as many, or what pads them is not zero.
    pub fn padded(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let ends = || self.error("the message ends before as many bytes as it announces");
        // A length near the greatest cannot be padded, but is refused here first.
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or_else(ends)?;
        let (zeros, rest) = rest.split_at_checked(padded(len) - len).ok_or_else(ends)?;
        if zeros.iter().any(|b| *b != 0) {
            return Err(WireError { at: self.at() + len, what: "expected zeros up to a whole word" });
        }
        self.rest = rest;
        Ok(bytes)
    }

    /// Takes UTF-8 of so many bytes.
    ///
    /// # Errors
    /// When there are not as many, or they are not UTF-8.
    pub fn text(&mut self, len: usize) -> Result<&'a str, WireError> {
        let at = self.at();
        std::str::from_utf8(self.padded(len)?).map_err(|_| WireError { at, what: "expected UTF-8" })
    }

    /// Reads what stands one list deeper.
    ///
    /// # Errors
    /// Those of `f`; and when lists are nested too deep.
    pub fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, WireError>) -> Result<T, WireError> {
        if self.depth >= DEPTH_MAX {
            return Err(self.error("lists are nested too deep"));
        }
        self.depth += 1;
        let out = f(self);
        self.depth -= 1;
        out
    }
}

/// Numbers whose bytes stand as they are, `N` of them.
macro_rules! plain {
    ($($type:ty: $n:literal),*) => {$(
        impl Wire for $type {
            const LEAST: usize = $n;
            fn size(&self) -> usize {
                $n
            }
            fn put(&self, out: &mut Writer) {
                out.padded(&self.to_le_bytes());
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
                match from.chunks::<$n>(1)? {
                    [bytes] => Ok(<$type>::from_le_bytes(*bytes)),
                    _ => Err(from.error("expected a number")),
                }
            }
            fn size_all(items: &[Self]) -> usize {
                items.len() * $n
            }
            fn put_all(items: &[Self], out: &mut Writer) {
                out.chunks(items, |x| x.to_le_bytes());
            }
            fn get_all(n: usize, from: &mut Reader<'_>) -> Result<Vec<Self>, WireError> {
                Ok(from.chunks::<$n>(n)?.iter().map(|bytes| <$type>::from_le_bytes(*bytes)).collect())
            }
        }
    )*};
}
plain!(u64: 8, i64: 8, f64: 8, i128: 16);

/// As 64 bits.
impl Wire for isize {
    fn size(&self) -> usize {
        WORD
    }
    fn put(&self, out: &mut Writer) {
        (*self as i64).put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let at = from.at();
        isize::try_from(i64::get(from)?)
            .map_err(|_| WireError { at, what: "expected a number that fits a machine word" })
    }
}

/// Alone a word, in numbers two a word.
impl Wire for u32 {
    const LEAST: usize = 4;
    fn size(&self) -> usize {
        WORD
    }
    fn put(&self, out: &mut Writer) {
        out.word(u64::from(*self));
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(from.word_upto(u64::from(u32::MAX), "expected a number of 32 bits")? as u32)
    }
    fn size_all(items: &[Self]) -> usize {
        padded(items.len() * 4)
    }
    fn put_all(items: &[Self], out: &mut Writer) {
        out.chunks(items, |x| x.to_le_bytes());
        out.padded(&[]);
    }
    fn get_all(n: usize, from: &mut Reader<'_>) -> Result<Vec<Self>, WireError> {
        from.expect_items(n, 4)?;
        let (numbers, _) = from.padded(n * 4)?.as_chunks::<4>();
        Ok(numbers.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }
}

/// In numbers only: eight a word.
impl Wire for u8 {
    const LEAST: usize = 1;
    fn size(&self) -> usize {
        WORD
    }
    fn put(&self, out: &mut Writer) {
        out.word(u64::from(*self));
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(from.word_upto(u64::from(u8::MAX), "expected a number of 8 bits")? as u8)
    }
    fn size_all(items: &[Self]) -> usize {
        padded(items.len())
    }
    fn put_all(items: &[Self], out: &mut Writer) {
        out.padded(items);
    }
    fn get_all(n: usize, from: &mut Reader<'_>) -> Result<Vec<Self>, WireError> {
        from.padded(n).map(<[u8]>::to_vec)
    }
}

/// Alone a word, in numbers 64 a word, the first lowest.
impl Wire for bool {
    // Checked exactly by `get_all`.
    const LEAST: usize = 0;
    fn size(&self) -> usize {
        WORD
    }
    fn put(&self, out: &mut Writer) {
        out.word(u64::from(*self));
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(from.word_upto(1, "expected a truth value, 0 or 1")? == 1)
    }
    fn size_all(items: &[Self]) -> usize {
        items.len().div_ceil(64) * WORD
    }
    fn put_all(items: &[Self], out: &mut Writer) {
        let fold = |bits: &[bool]| (0..).zip(bits).fold(0u64, |word, (i, bit)| word | u64::from(*bit) << i);
        let (whole, rest) = items.as_chunks::<64>();
        whole.iter().for_each(|bits| out.word(fold(bits)));
        if !rest.is_empty() {
            out.word(fold(rest));
        }
    }
    fn get_all(n: usize, from: &mut Reader<'_>) -> Result<Vec<Self>, WireError> {
        let at = from.at();
        let words = from.chunks::<WORD>(n.div_ceil(64))?;
        let mut out = vec![false; n];
        for (bits, bytes) in out.chunks_mut(64).zip(words) {
            let word = u64::from_le_bytes(*bytes);
            if bits.len() < 64 && word >> bits.len() != 0 {
                return Err(WireError { at, what: "expected zeros after the last truth value" });
            }
            (0..).zip(bits).for_each(|(i, bit)| *bit = word >> i & 1 == 1);
        }
        Ok(out)
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn size(&self) -> usize {
        WORD + T::size_all(self)
    }
    fn weight(&self) -> usize {
        size_of::<Self>() + self.len() * size_of::<T>()
    }
    fn put(&self, out: &mut Writer) {
        out.count(self.len());
        T::put_all(self, out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let n = from.count(T::LEAST)?;
        T::get_all(n, from)
    }
}

impl<T: Wire> Wire for Box<[T]> {
    fn size(&self) -> usize {
        WORD + T::size_all(self)
    }
    fn put(&self, out: &mut Writer) {
        out.count(self.len());
        T::put_all(self, out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Vec::get(from).map(Vec::into_boxed_slice)
    }
}

impl<T: Wire> Wire for Arc<[T]> {
    fn size(&self) -> usize {
        WORD + T::size_all(self)
    }
    fn put(&self, out: &mut Writer) {
        out.count(self.len());
        T::put_all(self, out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Vec::get(from).map(Arc::from)
    }
}

/// Texts: the number of bytes, the bytes.
macro_rules! text {
    ($($type:ty),*) => {$(
        impl Wire for $type {
            fn size(&self) -> usize {
                WORD + padded(self.len())
            }
            fn put(&self, out: &mut Writer) {
                out.count(self.len());
                out.padded(self.as_bytes());
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
                let len = from.count(1)?;
                from.text(len).map(<$type>::from)
            }
        }
    )*};
}
text!(String, Box<str>, Arc<str>);

/// A word that says whether there is one.
impl<T: Wire> Wire for Option<T> {
    fn size(&self) -> usize {
        WORD + self.as_ref().map_or(0, T::size)
    }
    fn put(&self, out: &mut Writer) {
        self.is_some().put(out);
        self.iter().for_each(|x| x.put(out));
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        if bool::get(from)? { T::get(from).map(Some) } else { Ok(None) }
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    const LEAST: usize = A::LEAST + B::LEAST;
    fn size(&self) -> usize {
        self.0.size() + self.1.size()
    }
    fn put(&self, out: &mut Writer) {
        self.0.put(out);
        self.1.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok((A::get(from)?, B::get(from)?))
    }
}

impl<A: Wire, B: Wire, C: Wire> Wire for (A, B, C) {
    const LEAST: usize = A::LEAST + B::LEAST + C::LEAST;
    fn size(&self) -> usize {
        self.0.size() + self.1.size() + self.2.size()
    }
    fn put(&self, out: &mut Writer) {
        self.0.put(out);
        self.1.put(out);
        self.2.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok((A::get(from)?, B::get(from)?, C::get(from)?))
    }
}

/// Entries in ascending order of their keys.
impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    fn size(&self) -> usize {
        WORD + self.iter().map(|(k, v)| k.size() + v.size()).sum::<usize>()
    }
    fn put(&self, out: &mut Writer) {
        out.count(self.len());
        self.iter().for_each(|(k, v)| {
            k.put(out);
            v.put(out);
        });
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let n = from.count(K::LEAST + V::LEAST)?;
        let mut out = BTreeMap::new();
        for _ in 0..n {
            let at = from.at();
            let (key, value) = <(K, V)>::get(from)?;
            if out.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return Err(WireError { at, what: "expected keys in ascending order" });
            }
            out.insert(key, value);
        }
        Ok(out)
    }
}
