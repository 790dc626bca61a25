//! Aggregates that go by event time: `array_agg`, `first_value`, `last_value`. NULLs are values to them.
//!
//! Ties (one record cannot tie with itself, but a caller may give two rows one place) go by value, so that results
//! never depend on the order of inserts.

use super::RecordOrder;
use super::state::{Add, State};
use crate::types::{DataType, Value};
use crate::wire::{Reader, Wire, WireError, Writer};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A value with its place in event-time order.
pub(super) type Placed = (RecordOrder, Value);

fn heap(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len() + 16,
        Value::List(items) => items.iter().map(|v| size_of::<Value>() + heap(v)).sum::<usize>() + 16,
        _ => 0,
    }
}

/// All values; sorted when published.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Listed {
    values: Vec<Placed>,
    heap: usize,
}

impl Add<Placed> for Listed {
    fn add(&mut self, x: Placed) {
        self.heap = self.heap.saturating_add(heap(&x.1));
        self.values.push(x);
    }
}
impl State for Listed {
    const ON_HEAP: bool = true;
    fn merge(&mut self, other: &Self) {
        self.values.extend_from_slice(&other.values);
        self.heap = self.heap.saturating_add(other.heap);
    }
    fn heap(&self) -> usize {
        self.values.capacity() * size_of::<Placed>() + self.heap
    }
}
impl Listed {
    /// The values in event-time order; `None` if there is none (as PostgreSQL's `array_agg` of no rows).
    pub(super) fn lower(&self) -> Option<Arc<[Value]>> {
        if self.values.is_empty() {
            return None;
        }
        let mut sorted: Vec<&Placed> = self.values.iter().collect();
        sorted.sort_unstable();
        Some(sorted.into_iter().map(|(_, value)| value.clone()).collect())
    }
}

/// The first value.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct First(pub Option<Placed>);
/// The last value.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Last(pub Option<Placed>);

impl Add<Placed> for First {
    fn add(&mut self, x: Placed) {
        if self.0.as_ref().is_none_or(|old| x < *old) {
            self.0 = Some(x);
        }
    }
}
impl Add<Placed> for Last {
    fn add(&mut self, x: Placed) {
        if self.0.as_ref().is_none_or(|old| x > *old) {
            self.0 = Some(x);
        }
    }
}
impl State for First {
    const ON_HEAP: bool = true;
    fn merge(&mut self, other: &Self) {
        other.0.iter().cloned().for_each(|x| self.add(x));
    }
    fn heap(&self) -> usize {
        self.0.as_ref().map_or(0, |x| heap(&x.1))
    }
}
impl State for Last {
    const ON_HEAP: bool = true;
    fn merge(&mut self, other: &Self) {
        other.0.iter().cloned().for_each(|x| self.add(x));
    }
    fn heap(&self) -> usize {
        self.0.as_ref().map_or(0, |x| heap(&x.1))
    }
}

impl Wire for Listed {
    fn size(&self) -> usize {
        self.values.size()
    }
    fn put(&self, out: &mut Writer) {
        self.values.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let values = Vec::<Placed>::get(from)?;
        let heap = values.iter().map(|(_, value)| heap(value)).sum();
        Ok(Listed { values, heap })
    }
}

/// States that hold values as they are.
macro_rules! placed {
    ($($state:ty),*) => {$(
        impl Wire for $state {
            fn size(&self) -> usize {
                self.0.size()
            }
            fn put(&self, out: &mut Writer) {
                self.0.put(out);
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
                Wire::get(from).map(Self)
            }
        }
        impl $state {
            /// Whether it holds a value of the type, NULL, or nothing.
            pub(super) fn is_of(&self, dtype: &DataType) -> bool {
                self.0.as_ref().is_none_or(|(_, value)| value.is_of(dtype))
            }
        }
    )*};
}
placed!(First, Last);

impl Listed {
    /// Whether all are values of the type or NULL.
    pub(super) fn is_of(&self, dtype: &DataType) -> bool {
        self.values.iter().all(|(_, value)| value.is_of(dtype))
    }
}
