//! One value for every row of a block, held once if it is the same for all.
//!
//! The rows of a block mostly share what stands beside their columns: a window that closes has one instant, one window and
//! one kind of change for all its keys.

use crate::wire::{Reader, Wire, WireError, Writer};

/// A value for each row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PerRow<T> {
    /// The same for all rows.
    All(T),
    /// One for each.
    Each(Vec<T>),
}

impl<T: Copy + Default> PerRow<T> {
    /// The value of a row; the default if there is no such row.
    #[inline]
    pub fn get(&self, row: usize) -> T {
        match self {
            PerRow::All(value) => *value,
            PerRow::Each(values) => values.get(row).copied().unwrap_or_default(),
        }
    }

    /// The values of the rows named, in that order.
    #[must_use]
    pub fn take(&self, rows: &[u32]) -> Self {
        match self {
            PerRow::All(value) => PerRow::All(*value),
            PerRow::Each(_) => PerRow::Each(rows.iter().map(|row| self.get(*row as usize)).collect()),
        }
    }

    /// Whether it can be that of `rows` rows.
    pub fn fits(&self, rows: usize) -> bool {
        matches!(self, PerRow::Each(values) if values.len() == rows) || matches!(self, PerRow::All(_))
    }
}

/// A word that says whether there is one for each row, and the value or the values.
impl<T: Wire> Wire for PerRow<T> {
    const LEAST: usize = 16;
    fn size(&self) -> usize {
        8 + match self {
            PerRow::All(value) => value.size(),
            PerRow::Each(values) => values.size(),
        }
    }
    fn put(&self, out: &mut Writer) {
        out.word(u64::from(matches!(self, PerRow::Each(_))));
        match self {
            PerRow::All(value) => value.put(out),
            PerRow::Each(values) => values.put(out),
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match from.word_upto(1, "expected whether there is a value for each row")? {
            0 => PerRow::All(T::get(from)?),
            _ => PerRow::Each(Wire::get(from)?),
        })
    }
}

/// Why a row cannot be published, if it cannot.
pub fn error_of(errors: &[(u32, Box<str>)], row: usize) -> Option<&str> {
    if errors.is_empty() {
        return None;
    }
    let at = errors.binary_search_by_key(&(row as u32), |(row, _)| *row).ok()?;
    errors.get(at).map(|(_, error)| &**error)
}

/// The errors of the rows named, under their new numbers.
pub fn take_errors(errors: &[(u32, Box<str>)], rows: &[u32]) -> Vec<(u32, Box<str>)> {
    if errors.is_empty() {
        return Vec::new();
    }
    let of = |(new, old): (u32, &u32)| error_of(errors, *old as usize).map(|error| (new, error.into()));
    (0..).zip(rows).filter_map(of).collect()
}
