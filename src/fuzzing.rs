//! What the fuzz targets run (`fuzz/`): built by cargo-fuzz only.

use crate::aggregate::AggregateFunc;
use crate::aggregate::table::Table;
pub use crate::cluster::fuzzing::handshake;
use crate::dataflow::operators::Published;
use crate::dataflow::side::Side;
use crate::engine::ingest::Contributions;
use crate::wire::{Reader, Wire, decode, encode};
use std::sync::Arc;

/// Feeds bytes to the decoders of what travels between processes. What is read is written again and must give the same
/// bytes; contributions must be absorbed by tables of their layout without a panic.
///
/// # Panics
/// When it does not.
pub fn row_codec(bytes: &[u8]) {
    same_again::<Published>(bytes);
    same_again::<Side>(bytes);
    let mut from = Reader::new(bytes);
    let Ok(mut contributions) = Contributions::get(&mut from) else { return };
    let again = encode(&contributions);
    assert!(again.len() == contributions.size() && again.len() == from.at(), "another length");
    let is_set = |table: &Table| table.spec().aggregates.iter().any(|a| a.func == AggregateFunc::CountDistinct);
    if !contributions.combined.iter().any(|(_, table)| is_set(table)) {
        assert!(bytes.starts_with(&again), "other bytes");
    }
    let back = decode::<Contributions>(&again);
    let results = |c: &Contributions| c.combined.iter().map(|(_, t)| format!("{:?}", t.lower())).collect::<Vec<_>>();
    assert_eq!(back.map(|c| results(&c)), Ok(results(&contributions)));
    let Some(spec) = contributions.combined.first().map(|(_, table)| Arc::clone(table.spec())) else { return };
    if contributions.accept(&spec).is_ok() {
        let mut table = Table::new(spec);
        for run in &contributions.runs {
            let range = run.start as usize..run.start as usize + run.len as usize;
            table.insert(&contributions.rows, contributions.selected.get(range).unwrap_or_default());
        }
        contributions.combined.iter().for_each(|(_, other)| table.merge(other));
        table.lower();
        table.split(3);
    }
}

fn same_again<T: Wire>(bytes: &[u8]) {
    let mut from = Reader::new(bytes);
    if let Ok(item) = T::get(&mut from) {
        let again = encode(&item);
        assert_eq!(again.len(), item.size(), "another length");
        assert_eq!(bytes.get(..from.at()), Some(&again[..]), "other bytes");
    }
}
