//! States of one group: what is held for it, how a value is added, and how two states become one.

use super::exact::ExactSum;
use super::fixed::{DecimalSum, IntSum, checked_count};
use crate::types::compare_doubles;
use crate::wire::{Reader, Wire, WireError, Writer};
use serde::{Deserialize, Serialize};

/// A commutative monoid: `merge` is associative and commutative as far as results can tell, and the default is its identity.
pub(super) trait State: Clone + Default {
    /// Whether states hold memory beyond their own size.
    const ON_HEAP: bool = false;
    fn merge(&mut self, other: &Self);
    fn heap(&self) -> usize {
        0
    }
}

/// A state that values of a type are added to.
pub(super) trait Add<X> {
    fn add(&mut self, x: X);
}

/// The number of values.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Count(pub u64);

impl State for Count {
    fn merge(&mut self, other: &Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

impl State for IntSum {
    fn merge(&mut self, other: &Self) {
        IntSum::merge(self, other);
    }
}
impl Add<i64> for IntSum {
    #[inline(always)]
    fn add(&mut self, x: i64) {
        IntSum::add(self, x);
    }
}

impl State for DecimalSum {
    fn merge(&mut self, other: &Self) {
        DecimalSum::merge(self, other);
    }
}
impl Add<i128> for DecimalSum {
    #[inline(always)]
    fn add(&mut self, x: i128) {
        DecimalSum::add(self, x);
    }
}

/// The exact sum and the number of doubles.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct FloatSum {
    pub n: u64,
    pub sum: ExactSum,
}

impl State for FloatSum {
    const ON_HEAP: bool = true;
    fn merge(&mut self, other: &Self) {
        self.n = self.n.saturating_add(other.n);
        self.sum.merge(&other.sum);
    }
    fn heap(&self) -> usize {
        self.sum.heap()
    }
}
impl Add<f64> for FloatSum {
    #[inline(always)]
    fn add(&mut self, x: f64) {
        self.n += 1;
        self.sum.add(x);
    }
}

/// A type with the order of published rows.
pub(super) trait Ordered: Copy {
    fn before(self, other: Self) -> bool;
}
impl Ordered for i64 {
    #[inline(always)]
    fn before(self, other: i64) -> bool {
        self < other
    }
}
impl Ordered for i128 {
    #[inline(always)]
    fn before(self, other: i128) -> bool {
        self < other
    }
}
impl Ordered for bool {
    #[inline(always)]
    fn before(self, other: bool) -> bool {
        !self & other
    }
}
impl Ordered for f64 {
    #[inline(always)]
    fn before(self, other: f64) -> bool {
        compare_doubles(self, other).is_lt()
    }
}

/// The least value, if any.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Least<T>(pub Option<T>);
/// The greatest value, if any.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Greatest<T>(pub Option<T>);

impl<T> Default for Least<T> {
    fn default() -> Self {
        Least(None)
    }
}
impl<T> Default for Greatest<T> {
    fn default() -> Self {
        Greatest(None)
    }
}
impl<T: Ordered> Add<T> for Least<T> {
    #[inline(always)]
    fn add(&mut self, x: T) {
        if self.0.is_none_or(|old| x.before(old)) {
            self.0 = Some(x);
        }
    }
}
impl<T: Ordered> Add<T> for Greatest<T> {
    #[inline(always)]
    fn add(&mut self, x: T) {
        if self.0.is_none_or(|old| old.before(x)) {
            self.0 = Some(x);
        }
    }
}
impl<T: Ordered> State for Least<T> {
    fn merge(&mut self, other: &Self) {
        other.0.into_iter().for_each(|x| self.add(x));
    }
}
impl<T: Ordered> State for Greatest<T> {
    fn merge(&mut self, other: &Self) {
        other.0.into_iter().for_each(|x| self.add(x));
    }
}

/// The bytewise least text, if any.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct LeastText(pub Option<Box<str>>);
/// The bytewise greatest text, if any.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct GreatestText(pub Option<Box<str>>);

impl Add<&str> for LeastText {
    fn add(&mut self, x: &str) {
        if self.0.as_deref().is_none_or(|old| x < old) {
            self.0 = Some(x.into());
        }
    }
}
impl Add<&str> for GreatestText {
    fn add(&mut self, x: &str) {
        if self.0.as_deref().is_none_or(|old| x > old) {
            self.0 = Some(x.into());
        }
    }
}
impl State for LeastText {
    const ON_HEAP: bool = true;
    fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|x| self.add(&**x));
    }
    fn heap(&self) -> usize {
        self.0.as_ref().map_or(0, |x| x.len())
    }
}
impl State for GreatestText {
    const ON_HEAP: bool = true;
    fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|x| self.add(&**x));
    }
    fn heap(&self) -> usize {
        self.0.as_ref().map_or(0, |x| x.len())
    }
}

impl Wire for Count {
    fn size(&self) -> usize {
        8
    }
    fn put(&self, out: &mut Writer) {
        out.word(self.0);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let at = from.at();
        checked_count(from.word()?, at).map(Count)
    }
    fn size_all(items: &[Self]) -> usize {
        items.len() * 8
    }
    fn put_all(items: &[Self], out: &mut Writer) {
        out.chunks(items, |count| count.0.to_le_bytes());
    }
}

/// The number of doubles, and their sum.
impl Wire for FloatSum {
    const LEAST: usize = 8 + ExactSum::LEAST;
    fn size(&self) -> usize {
        8 + self.sum.size()
    }
    fn put(&self, out: &mut Writer) {
        out.word(self.n);
        self.sum.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let at = from.at();
        Ok(FloatSum { n: checked_count(from.word()?, at)?, sum: Wire::get(from)? })
    }
}

/// Which states hold a value, 64 a word; then the values.
macro_rules! optional {
    ($($state:ident),*) => {$(
        impl<T: Wire + Copy> Wire for $state<T> {
            // Checked exactly by `get_all`.
            const LEAST: usize = 0;
            fn size(&self) -> usize {
                Self::size_all(std::slice::from_ref(self))
            }
            fn put(&self, out: &mut Writer) {
                Self::put_all(std::slice::from_ref(self), out);
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
                Ok($state(get_optional(1, from)?.pop().flatten()))
            }
            fn size_all(items: &[Self]) -> usize {
                bits(items.len()) + T::size_all(&items.iter().filter_map(|x| x.0).collect::<Vec<_>>())
            }
            fn put_all(items: &[Self], out: &mut Writer) {
                bool::put_all(&items.iter().map(|x| x.0.is_some()).collect::<Vec<_>>(), out);
                T::put_all(&items.iter().filter_map(|x| x.0).collect::<Vec<_>>(), out);
            }
            fn get_all(n: usize, from: &mut Reader<'_>) -> Result<Vec<Self>, WireError> {
                Ok(get_optional(n, from)?.into_iter().map($state).collect())
            }
        }
    )*};
}
optional!(Least, Greatest);

/// Which states hold a text, 64 a word; then the texts.
macro_rules! optional_text {
    ($($state:ident),*) => {$(
        impl Wire for $state {
            // Checked exactly by `get_all`.
            const LEAST: usize = 0;
            fn size(&self) -> usize {
                Self::size_all(std::slice::from_ref(self))
            }
            fn put(&self, out: &mut Writer) {
                Self::put_all(std::slice::from_ref(self), out);
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
                Ok($state(get_optional(1, from)?.pop().flatten()))
            }
            fn size_all(items: &[Self]) -> usize {
                bits(items.len()) + items.iter().filter_map(|x| x.0.as_ref()).map(Wire::size).sum::<usize>()
            }
            fn put_all(items: &[Self], out: &mut Writer) {
                bool::put_all(&items.iter().map(|x| x.0.is_some()).collect::<Vec<_>>(), out);
                items.iter().filter_map(|x| x.0.as_ref()).for_each(|text| text.put(out));
            }
            fn get_all(n: usize, from: &mut Reader<'_>) -> Result<Vec<Self>, WireError> {
                Ok(get_optional(n, from)?.into_iter().map($state).collect())
            }
        }
    )*};
}
optional_text!(LeastText, GreatestText);

/// Bytes of `n` truth values.
fn bits(n: usize) -> usize {
    n.div_ceil(64) * 8
}

fn get_optional<T: Wire>(n: usize, from: &mut Reader<'_>) -> Result<Vec<Option<T>>, WireError> {
    let held = bool::get_all(n, from)?;
    let mut values = T::get_all(held.iter().filter(|h| **h).count(), from)?.into_iter();
    Ok(held.into_iter().map(|held| if held { values.next() } else { None }).collect())
}
