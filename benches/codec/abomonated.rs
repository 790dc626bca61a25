//! Rows as copies of the memory they stand in. Measured as the mark that nothing can pass by much; not on the wire.
//!
//! It writes the bytes of a value, pointers and all, then what the pointers point to; it reads by taking the received bytes
//! for the value, after the pointers in them were overwritten. Why that is no way to talk to another process:
//!
//! * **Nothing is checked but lengths.** Bytes that are no UTF-8, no `bool` or no variant of an `enum` become values all
//!   the same, which is undefined behaviour. Messages here come from a network and may be anything.
//! * **Alignment is luck.** A reference is made wherever the bytes are; one at an odd address is undefined behaviour, and
//!   builds with debug assertions abort on reading through it. Here the buffer is made of words, so that this at least holds.
//! * **The layout is no format.** Fields stand where this compiler put them; another build may put them elsewhere. Padding
//!   and pointers are sent as well: memory that was never written, and addresses of the process.
//! * **RUSTSEC-2021-0120** (also CVE-2021-45708) calls it unsound, and lists no version that is not. The last release, 0.7.3,
//!   is of 2019; timely, for which it was written, has changed to bincode for these reasons.
//!
//! The rows are tuples here, for which the crate has its implementations: writing another one is where errors are made.

#![expect(unsafe_code, reason = "both functions of the crate are unsafe; see above for what is relied upon")]

use crate::Codec;
use crate::rows::{Fixed, Named, Row};
use abomonation::Abomonation;
use columnar::bytemuck::cast_slice_mut;

/// A row as a tuple.
pub trait Tupled: Row {
    type Tuple: Abomonation + Clone;
    fn tuple(self) -> Self::Tuple;
    fn of(tuple: &Self::Tuple) -> Self;
    fn sum_tuple(tuple: &Self::Tuple) -> u64;
}

impl Tupled for Fixed {
    type Tuple = (u64, i64, i64, u64);
    fn tuple(self) -> Self::Tuple {
        (self.key, self.time_us, self.sum, self.count)
    }
    fn of(tuple: &Self::Tuple) -> Self {
        let (key, time_us, sum, count) = *tuple;
        Fixed { key, time_us, sum, count }
    }
    fn sum_tuple(tuple: &Self::Tuple) -> u64 {
        Self::of(tuple).sum()
    }
}

impl Tupled for Named {
    type Tuple = (String, i64, i64, u64);
    fn tuple(self) -> Self::Tuple {
        (self.key, self.time_us, self.sum, self.count)
    }
    fn of(tuple: &Self::Tuple) -> Self {
        let (key, time_us, sum, count) = tuple.clone();
        Named { key, time_us, sum, count }
    }
    fn sum_tuple((key, time_us, sum, count): &Self::Tuple) -> u64 {
        let words = crate::rows::sum_text(key.as_bytes()).wrapping_add(*count);
        words.wrapping_add(*time_us as u64).wrapping_add(*sum as u64)
    }
}

/// A vector of tuples, the bytes it was written as, and where they arrived: in words, whose address is a multiple of 8.
pub struct Abomonated<R: Tupled> {
    held: Vec<R::Tuple>,
    sent: Vec<u8>,
    arrived: Vec<u64>,
}

impl<R: Tupled> Abomonated<R> {
    fn read(&mut self) -> &Vec<R::Tuple> {
        const { assert!(align_of::<R::Tuple>() <= align_of::<u64>()) };
        let bytes = cast_slice_mut(&mut self.arrived);
        // SAFETY: the bytes are those that `encode` wrote in this process for the same type, or those after an earlier
        // reading, which differ in pointers only, and those are overwritten again. They begin at a multiple of 8; the vector
        // takes 24 bytes, the tuples a multiple of 8 each, and texts, which come last, have no alignment. What is given
        // borrows `self`, so that nothing moves the bytes meanwhile, and is never dropped.
        let read = unsafe { abomonation::decode::<Vec<R::Tuple>>(bytes) };
        read.expect("as many bytes as were written").0
    }
}

impl<R: Tupled> Codec<R> for Abomonated<R> {
    const NAME: &'static str = "abomonation";
    fn holding(rows: &[R]) -> Self {
        let held = rows.iter().map(|row| row.clone().tuple()).collect();
        Abomonated { held, sent: Vec::new(), arrived: Vec::new() }
    }
    fn encode(&mut self) -> usize {
        let length = abomonation::measure(&self.held);
        self.sent.clear();
        self.sent.reserve(length);
        // SAFETY: the tuples are words, or a text and words: neither they nor the vector have padding, so that every
        // byte that is read has been written.
        let written = unsafe { abomonation::encode(&self.held, &mut self.sent) };
        written.expect("memory can be written");
        assert_eq!(self.sent.len(), length);
        length
    }
    fn deliver(&mut self) {
        self.arrived = vec![0; self.sent.len().div_ceil(8)];
        cast_slice_mut(&mut self.arrived)[..self.sent.len()].copy_from_slice(&self.sent);
    }
    fn decode(&mut self) -> u64 {
        self.read().iter().map(R::sum_tuple).fold(0, u64::wrapping_add)
    }
    fn rows(&mut self) -> Vec<R> {
        self.read().iter().map(R::of).collect()
    }
}
