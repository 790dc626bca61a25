//! NDJSON: one JSON object a line.
//!
//! Every line is checked whole, UTF-8 first and then the complete syntax, and only then are the wanted fields looked at:
//! so what is rejected never depends on the query. A line like those before it is taken by [`Shape`]. Any other goes the long
//! way: serde_json walks it (or [`flat`], if it is of the simplest kind), wanted values are kept as their raw text, all else
//! is checked and passed over. Of equal keys the last one counts. A line that is blank (spaces aside) is no record.
//!
//! Keys are recognised by guessing that a record has its keys in the order of the record before: one comparison per key.
//! Cost: one pass over the line, no allocation.

use super::decode::{BlockBuilder, DecodePlan, Place};
use super::flat;
use super::frame::{Consumed, Region, trim_line_end};
use super::shape::Shape;
use super::short::Pace;
use super::value::RawField;
use crate::record::RejectReason;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// More keys than this in a record are looked up the slow way.
const GUESSED_KEYS: usize = 1_024;

/// Takes the lines of blocks apart.
#[derive(Debug)]
pub(super) struct JsonDecoder {
    shape: Shape,
    pub(super) pace: Pace,
    keys: Keys,
    /// By slot: the number of its top-level key, and the path below it.
    slots: Vec<(usize, Vec<String>)>,
    max_record_bytes: usize,
}

/// The top-level keys that are wanted.
#[derive(Debug, Default)]
pub(super) struct Keys {
    wanted: Vec<String>,
    /// Keys in the order last seen, with the number of the wanted key.
    guesses: Vec<(String, Option<usize>)>,
}

impl Keys {
    #[cfg(test)]
    pub(super) fn wanting(keys: &[&str]) -> Keys {
        Keys { wanted: keys.iter().map(|key| (*key).to_owned()).collect(), guesses: Vec::new() }
    }

    /// The number of the wanted key that stands at this place in the record.
    pub(super) fn find(&mut self, place: usize, key: &str) -> Option<usize> {
        if let Some((guess, number)) = self.guesses.get(place)
            && guess == key
        {
            return *number;
        }
        let number = self.wanted.iter().position(|wanted| wanted == key);
        if let Some((guess, guessed)) = self.guesses.get_mut(place) {
            guess.clear();
            guess.push_str(key);
            *guessed = number;
        } else if place == self.guesses.len() && place < GUESSED_KEYS {
            self.guesses.push((key.to_owned(), number));
        }
        number
    }
}

impl JsonDecoder {
    pub(super) fn new(plan: &DecodePlan) -> Self {
        let mut keys = Keys::default();
        let slots = plan.slots.iter().map(|slot| {
            let (key, below) =
                slot.path.split_first().map_or((slot.name.clone(), Vec::new()), |(k, b)| (k.clone(), b.to_vec()));
            let number = keys.wanted.iter().position(|wanted| *wanted == key).unwrap_or_else(|| {
                keys.wanted.push(key);
                keys.wanted.len() - 1
            });
            (number, below)
        });
        let slots: Vec<(usize, Vec<String>)> = slots.collect();
        let flat = slots.iter().all(|(_, below)| below.is_empty());
        let slot_keys = slots.iter().filter_map(|(number, _)| keys.wanted.get(*number).cloned());
        let shape = Shape::new(if flat { slot_keys.collect() } else { Vec::new() });
        JsonDecoder { shape, pace: Pace::default(), keys, slots, max_record_bytes: plan.max_record_bytes }
    }

    /// Decodes the lines that start in the region.
    pub(super) fn decode(&mut self, region: Region<'_>, out: &mut BlockBuilder) -> Consumed {
        let Region { bytes, from, limit, eof } = region;
        let text = region.valid_text();
        let mut raw: Vec<Option<&str>> = vec![None; self.keys.wanted.len()];
        let mut lines = 0;
        let mut at = from;
        while at < limit.min(bytes.len()) {
            if self.shape.is_usable() && self.pace.tries() {
                if let Some((end, next)) = self.shape.read(text, at - from, out)
                    && from + end - at <= self.max_record_bytes
                    && out.commit(Place::new(lines, at, from + end))
                {
                    self.pace.hit();
                    lines += 1;
                    at = from + next;
                    continue;
                }
                out.undo();
                self.pace.miss();
            }
            let rest = bytes.get(at..).unwrap_or_default();
            let (line, next, ended) = match memchr::memchr(b'\n', rest) {
                Some(length) => (rest.get(..length).unwrap_or_default(), at + length + 1, true),
                None => (rest, bytes.len(), eof),
            };
            // One byte more, as the last one seen may be half of a line end.
            if !ended && line.len() <= self.max_record_bytes + 1 {
                return Consumed { bytes: at, lines, skip_line: false };
            }
            let line = trim_line_end(line);
            if line.len() > self.max_record_bytes {
                out.reject_long(lines, at, at + line.len());
                lines += 1;
                at = next;
                if !ended {
                    return Consumed { bytes: at, lines, skip_line: true };
                }
                continue;
            }
            if !line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
                let place = Place::new(lines, at, at + line.len());
                match text.get(at - from..at - from + line.len()).map_or_else(|| std::str::from_utf8(line), Ok) {
                    Ok(line) => self.line(line, place, &mut raw, out),
                    Err(error) => out.reject(place, RejectReason::Encoding, encoding_message(line, error)),
                }
            }
            lines += 1;
            at = next;
        }
        Consumed { bytes: at, lines, skip_line: false }
    }

    fn line<'t>(&mut self, line: &'t str, place: Place, raw: &mut [Option<&'t str>], out: &mut BlockBuilder) {
        raw.fill(None);
        if flat::scan(line, &mut self.keys, raw).is_some() {
            self.shape.learn(line);
        } else {
            raw.fill(None);
            let mut json = serde_json::Deserializer::from_str(line);
            let record = RecordSeed { keys: &mut self.keys, raw: &mut *raw };
            if let Err(error) = record.deserialize(&mut json).and_then(|()| json.end()) {
                out.reject(place, RejectReason::Syntax, syntax_message(line, &error));
                return;
            }
        }
        let slots = &self.slots;
        out.record(place, |slot| {
            let Some((key, below)) = slots.get(slot) else { return RawField::Missing };
            match raw.get(*key).copied().flatten() {
                None => RawField::Missing,
                Some(json) if below.is_empty() => RawField::Json(json),
                Some(json) => descend(json, below),
            }
        });
    }
}

/// Where UTF-8 breaks, columns counted in bytes from 1.
pub(super) fn encoding_message(bytes: &[u8], error: std::str::Utf8Error) -> String {
    let at = error.valid_up_to();
    match bytes.get(at) {
        Some(_) if bytes.starts_with(&[0x1f, 0x8b]) => {
            "expected UTF-8, found gzip data: a file of it needs a name in .gz".to_owned()
        }
        Some(byte) => format!("expected UTF-8, found byte 0x{byte:02x} at byte {} of the record", at + 1),
        None => "expected UTF-8".to_owned(),
    }
}

fn syntax_message(line: &str, error: &serde_json::Error) -> String {
    let text = error.to_string();
    // The line is always 1: only the column says something.
    let (what, _) = text.split_once(" at line ").unwrap_or((&text, ""));
    if error.is_data() {
        let found = super::value::show(RawField::Json(line.trim()));
        return format!("expected a JSON object, found {found}");
    }
    format!("not a JSON object: {what} at column {}", error.column())
}

/// The field at a path below a value; of equal keys the last.
fn descend<'t>(json: &'t str, path: &[String]) -> RawField<'t> {
    let mut json = json;
    for key in path {
        if !json.starts_with('{') {
            return RawField::Missing;
        }
        let mut keys = Keys { wanted: vec![key.clone()], guesses: Vec::new() };
        let mut raw = [None];
        let seed = RecordSeed { keys: &mut keys, raw: &mut raw };
        if seed.deserialize(&mut serde_json::Deserializer::from_str(json)).is_err() {
            return RawField::Broken(json);
        }
        match raw {
            [Some(inner)] => json = inner,
            [None] => return RawField::Missing,
        }
    }
    RawField::Json(json)
}

/// Reads an object: raw text of the wanted keys, the rest checked.
struct RecordSeed<'s, 't> {
    keys: &'s mut Keys,
    raw: &'s mut [Option<&'t str>],
}

impl<'t> DeserializeSeed<'t> for RecordSeed<'_, 't> {
    type Value = ();
    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'t> Visitor<'t> for RecordSeed<'_, 't> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }
    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<(), A::Error> {
        let mut place = 0;
        while let Some(number) = map.next_key_seed(KeySeed { keys: &mut *self.keys, place })? {
            match number.and_then(|number| self.raw.get_mut(number)) {
                Some(raw) => *raw = Some(map.next_value::<&'t RawValue>()?.get()),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            place += 1;
        }
        Ok(())
    }
}

/// Reads a key: its number among the wanted ones.
struct KeySeed<'s> {
    keys: &'s mut Keys,
    place: usize,
}

impl<'t> DeserializeSeed<'t> for KeySeed<'_> {
    type Value = Option<usize>;
    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = Option<usize>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.keys.find(self.place, key))
    }
}
