//! What the processes of a cluster must agree on, and in which words they say that they do not. Pure.

use super::bytes::{Cursor, SHOWN_MAX, put_text, shown};
use super::digest::sha256;
use super::frame::{self, BadFrame, Kind, MESSAGE_BYTES_MAX};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;

/// The most bytes of an encoded list of input files.
pub const INPUTS_BYTES_MAX: usize = 16 << 20;
/// Number of the layout in which rows, changes and partial results travel. Raise it whenever a layout changes: in
/// `src/wire`, in a `wire.rs` of another module, or in what the operators exchange. The version of the program tells
/// releases apart, this number the builds between them.
pub const WIRE_LAYOUT: u32 = 1;
/// Differing files that a message names.
const NAMED_MAX: usize = 5;

/// An input file as one process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile {
    /// The table that reads it.
    pub table: String,
    /// Its path, the same on all hosts.
    pub path: String,
    /// Its size, if it has one.
    pub bytes: Option<u64>,
}

/// Says which of process 0's input files a process cannot read as they are there.
pub type InputsCheck<'a> = &'a dyn Fn(&[InputFile]) -> Option<String>;

/// What a process runs. Those of process 0 rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Version of the program.
    pub version: String,
    /// Layout of what the workers exchange, [`WIRE_LAYOUT`].
    pub layout: u32,
    /// Digest of the SQL text ([`super::digest::sql`]).
    pub sql: String,
    /// Settings that must be the same everywhere, by name. They travel as they are: no secrets here.
    pub settings: Vec<(String, String)>,
    /// Worker threads of each process.
    pub threads: usize,
    /// The files of all tables.
    pub inputs: Vec<InputFile>,
}

impl Terms {
    /// Terms of this version of the program.
    pub fn new(sql: &str, settings: Vec<(String, String)>, threads: usize, inputs: Vec<InputFile>) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Terms { version, layout: WIRE_LAYOUT, sql: super::digest::sql(sql), settings, threads, inputs }
    }

    /// The frames that tell another process.
    ///
    /// # Errors
    /// Longer than [`MESSAGE_BYTES_MAX`] without the input files, or [`INPUTS_BYTES_MAX`] with them.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut inputs = Vec::new();
        for file in &self.inputs {
            put_text(&mut inputs, &file.table);
            put_text(&mut inputs, &file.path);
            inputs.push(u8::from(file.bytes.is_some()));
            inputs.extend_from_slice(&file.bytes.unwrap_or(0).to_le_bytes());
        }
        if inputs.len() > INPUTS_BYTES_MAX {
            let message = format!(
                "the list of {} input files is too long for a cluster: expected at most {INPUTS_BYTES_MAX} bytes, found {}",
                self.inputs.len(),
                inputs.len()
            );
            return Err(Error::usage(message).with_hint("use fewer or larger files, or shorter paths"));
        }
        let mut terms = Vec::new();
        put_text(&mut terms, &self.version);
        terms.extend_from_slice(&self.layout.to_le_bytes());
        put_text(&mut terms, &self.sql);
        terms.extend_from_slice(&u32::try_from(self.threads).unwrap_or(u32::MAX).to_le_bytes());
        terms.extend_from_slice(&u32::try_from(inputs.len()).unwrap_or(u32::MAX).to_le_bytes());
        terms.extend_from_slice(&sha256(&inputs));
        for (name, value) in &self.settings {
            put_text(&mut terms, name);
            put_text(&mut terms, value);
        }
        if terms.len() > MESSAGE_BYTES_MAX as usize {
            let message = format!(
                "the settings are too long for a cluster: expected at most {MESSAGE_BYTES_MAX} bytes, found {}",
                terms.len()
            );
            return Err(Error::usage(message));
        }
        let mut frames = frame::encode(Kind::Terms, &terms);
        for chunk in inputs.chunks(MESSAGE_BYTES_MAX as usize) {
            frames.extend_from_slice(&frame::encode(Kind::Inputs, chunk));
        }
        Ok(frames)
    }

    /// What of these, the ruling ones, a process with `own` does not agree to, files aside; `rule` and `who` name both
    /// processes.
    pub fn differences(&self, own: &Terms, rule: &str, who: &str) -> Option<String> {
        let two = |what: &str, a: &dyn fmt::Display, b: &dyn fmt::Display| {
            let [what, a, b] = [what, &a.to_string(), &b.to_string()].map(|text| shown(text, SHOWN_MAX));
            Some(format!("the processes do not run the same thing: {what}: {rule} has {a}, {who} has {b}"))
        };
        if self.version != own.version {
            return two("version", &self.version, &own.version);
        }
        if self.layout != own.layout {
            let what = "layout of what they exchange (builds of the same version that differ)";
            return two(what, &self.layout, &own.layout);
        }
        if self.threads != own.threads {
            return two("worker threads", &self.threads, &own.threads);
        }
        if self.sql != own.sql {
            return two("digest of the SQL", &self.sql, &own.sql);
        }
        let ruling: BTreeMap<_, _> = self.settings.iter().map(|(n, v)| (n, v)).collect();
        let owned: BTreeMap<_, _> = own.settings.iter().map(|(n, v)| (n, v)).collect();
        for name in ruling.keys().chain(owned.keys()) {
            let (a, b) = (ruling.get(name), owned.get(name));
            if a != b {
                let text = |value: Option<&&String>| value.map_or("none".to_owned(), |v| format!("'{v}'"));
                return two(&format!("setting \"{name}\""), &text(a), &text(b));
            }
        }
        None
    }

    /// Which of these, the ruling files, a process with `own` does not see alike.
    pub fn different_inputs(&self, own: &Terms, rule: &str, who: &str) -> Option<String> {
        let by_path = |files: &[InputFile]| -> BTreeMap<(String, String), Option<u64>> {
            files.iter().map(|f| ((f.table.clone(), f.path.clone()), f.bytes)).collect()
        };
        let size = |bytes: Option<u64>| bytes.map_or("unknown size".to_owned(), |b| format!("{b} bytes"));
        let (ruling, owned) = (by_path(&self.inputs), by_path(&own.inputs));
        let mut found = Vec::new();
        for (key, bytes) in &ruling {
            let (table, path) = (shown(&key.0, SHOWN_MAX), shown(&key.1, SHOWN_MAX));
            match owned.get(key) {
                None => {
                    found.push(format!("{who} lacks {path} of table \"{table}\" ({}), which {rule} has", size(*bytes)))
                }
                Some(other) if other != bytes => found.push(format!(
                    "{path} of table \"{table}\": {} on {rule}, {} on {who}",
                    size(*bytes),
                    size(*other)
                )),
                Some(_) => {}
            }
        }
        for ((table, path), bytes) in owned.iter().filter(|(key, _)| !ruling.contains_key(key)) {
            let (table, path) = (shown(table, SHOWN_MAX), shown(path, SHOWN_MAX));
            found.push(format!("{rule} lacks {path} of table \"{table}\" ({}), which {who} has", size(*bytes)));
        }
        if found.is_empty() && self.inputs != own.inputs {
            found.push(format!("the same files stand in another order on {rule} and {who}"));
        }
        let more = found.len().saturating_sub(NAMED_MAX);
        found.truncate(NAMED_MAX);
        if more > 0 {
            found.push(format!("and {more} more"));
        }
        (!found.is_empty()).then(|| format!("the processes do not see the same input files: {}", found.join("; ")))
    }
}

/// Puts another process's terms together again, frame by frame.
#[derive(Debug, Default)]
pub struct TermsReader {
    terms: Option<Terms>,
    expected_bytes: usize,
    digest: [u8; 32],
    inputs: Vec<u8>,
}

impl TermsReader {
    /// Takes a frame; gives the terms when they are complete.
    ///
    /// # Errors
    /// A frame that is not due, is malformed, or does not fit its announced length or digest.
    pub fn take(&mut self, kind: Kind, payload: &[u8]) -> Result<Option<Terms>, BadFrame> {
        match (kind, &self.terms) {
            (Kind::Terms, None) => self.begin(payload).ok_or(BadFrame::Payload(kind))?,
            (Kind::Inputs, Some(_)) => {
                if payload.is_empty() || self.inputs.len() + payload.len() > self.expected_bytes {
                    return Err(BadFrame::Payload(kind));
                }
                self.inputs.extend_from_slice(payload);
            }
            _ => return Err(BadFrame::Order(kind)),
        }
        if self.inputs.len() < self.expected_bytes {
            return Ok(None);
        }
        let inputs = self.files().ok_or(BadFrame::Payload(Kind::Inputs))?;
        Ok(self.terms.clone().map(|terms| Terms { inputs, ..terms }))
    }

    fn begin(&mut self, payload: &[u8]) -> Option<()> {
        let mut cursor = Cursor(payload);
        let text = |cursor: &mut Cursor<'_>| cursor.text(MESSAGE_BYTES_MAX as usize).map(str::to_owned);
        let (version, layout, sql) = (text(&mut cursor)?, cursor.u32()?, text(&mut cursor)?);
        let threads = usize::try_from(cursor.u32()?).ok()?;
        self.expected_bytes = usize::try_from(cursor.u32()?).ok().filter(|bytes| *bytes <= INPUTS_BYTES_MAX)?;
        self.digest = cursor.array()?;
        let mut settings = Vec::new();
        while !cursor.is_done() {
            settings.push((text(&mut cursor)?, text(&mut cursor)?));
        }
        self.terms = Some(Terms { version, layout, sql, settings, threads, inputs: Vec::new() });
        Some(())
    }

    fn files(&self) -> Option<Vec<InputFile>> {
        if sha256(&self.inputs) != self.digest {
            return None;
        }
        let mut cursor = Cursor(&self.inputs);
        let mut files = Vec::new();
        while !cursor.is_done() {
            let table = cursor.text(INPUTS_BYTES_MAX)?.to_owned();
            let path = cursor.text(INPUTS_BYTES_MAX)?.to_owned();
            let (known, bytes) = (cursor.u8()?, cursor.u64()?);
            files.push(InputFile { table, path, bytes: (known == 1).then_some(bytes) });
        }
        Some(files)
    }
}
