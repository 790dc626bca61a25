//! `WITH (name = value, …)`: typed access, and errors that name the option, what was expected and what was found.

use super::text::{SourceText, did_you_mean};
use crate::error::{Error, Result};
use crate::time::parse_duration;
use sqlparser::tokenizer::Span;

/// A value as written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum OptionValue {
    /// `'text'`.
    Text(String),
    /// `12`, `-0.5`.
    Number(String),
    /// `true`, `false`.
    Boolean(bool),
    /// `INTERVAL '…'`, as the text of a duration.
    Interval(String),
}

impl OptionValue {
    fn shown(&self) -> String {
        match self {
            OptionValue::Text(s) => format!("'{s}'"),
            OptionValue::Number(s) => s.clone(),
            OptionValue::Boolean(b) => b.to_string(),
            OptionValue::Interval(s) => format!("INTERVAL '{s}'"),
        }
    }
}

/// One `name = value`.
#[derive(Clone, Debug)]
pub(super) struct OptionEntry {
    pub(super) key: String,
    pub(super) key_span: Span,
    pub(super) value: OptionValue,
    pub(super) value_span: Span,
}

/// A value with its place.
pub(super) type Placed<T> = (T, Span);

/// The options of one statement. Each taker removes its option; what is left at the end has no effect and is an error.
#[derive(Debug)]
pub(super) struct Options<'a> {
    source: &'a SourceText<'a>,
    entries: Vec<OptionEntry>,
    /// Where to point when an option is missing.
    owner: Span,
}

impl<'a> Options<'a> {
    /// The options of the statement at `owner`.
    ///
    /// # Errors
    /// When one is given twice, or is not among `known`.
    pub(super) fn new(
        source: &'a SourceText<'a>,
        entries: Vec<OptionEntry>,
        owner: Span,
        known: &[&'static str],
    ) -> Result<Self> {
        let mut seen: Vec<&str> = Vec::new();
        for entry in &entries {
            if seen.contains(&entry.key.as_str()) {
                return Err(source.error(entry.key_span, format!("option \"{}\" is given twice", entry.key)));
            }
            if !known.contains(&entry.key.as_str()) {
                let error = source.error(entry.key_span, format!("unknown option \"{}\"", entry.key));
                let hint = did_you_mean(&entry.key, known.iter().copied())
                    .unwrap_or_else(|| format!("known options: {}", known.join(", ")));
                return Err(error.with_hint(hint));
            }
            seen.push(&entry.key);
        }
        Ok(Options { source, entries, owner })
    }

    fn take(&mut self, key: &str) -> Option<OptionEntry> {
        let at = self.entries.iter().position(|e| e.key == key)?;
        Some(self.entries.remove(at))
    }

    /// Whether the option is given and was not taken yet.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|e| e.key == key)
    }

    /// The place of the option's name, if it is given and was not taken yet.
    pub(super) fn place(&self, key: &str) -> Option<Span> {
        self.entries.iter().find(|e| e.key == key).map(|e| e.key_span)
    }

    /// An error at a place of the query.
    pub(super) fn at(&self, span: Span, message: impl Into<String>) -> Error {
        self.source.error(span, message)
    }

    /// An error at the statement.
    pub(super) fn missing(&self, message: impl Into<String>) -> Error {
        self.source.error(self.owner, message)
    }

    fn wrong(&self, entry: &OptionEntry, expected: &str) -> Error {
        let message = format!("option \"{}\": expected {expected}, found {}", entry.key, entry.value.shown());
        self.source.error(entry.value_span, message)
    }

    /// A text.
    pub(super) fn text(&mut self, key: &str) -> Result<Option<Placed<String>>> {
        let Some(entry) = self.take(key) else { return Ok(None) };
        match &entry.value {
            OptionValue::Text(text) => Ok(Some((text.clone(), entry.value_span))),
            _ => Err(self.wrong(&entry, "a text in single quotes")),
        }
    }

    /// A text that names a file: not empty.
    pub(super) fn file(&mut self, key: &str) -> Result<Option<Placed<String>>> {
        let Some(entry) = self.take(key) else { return Ok(None) };
        match &entry.value {
            OptionValue::Text(text) if !text.is_empty() => Ok(Some((text.clone(), entry.value_span))),
            _ => Err(self.wrong(&entry, "the path of a file in single quotes")),
        }
    }

    /// A file that is to be written, as it is: no name of a compressed one.
    pub(super) fn output_file(&mut self, key: &str) -> Result<Option<Placed<String>>> {
        let Some((path, span)) = self.file(key)? else { return Ok(None) };
        match compressed(&path) {
            true => Err(self.at(span, NOT_COMPRESSED).with_hint(COMPRESS_HINT)),
            false => Ok(Some((path, span))),
        }
    }

    /// One of several words, compared without case.
    pub(super) fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> Result<Option<Placed<T>>> {
        let Some(entry) = self.take(key) else { return Ok(None) };
        let found = match &entry.value {
            OptionValue::Text(text) => choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)),
            _ => None,
        };
        if let Some((_, value)) = found {
            return Ok(Some((*value, entry.value_span)));
        }
        let names: Vec<String> = choices.iter().map(|(name, _)| format!("'{name}'")).collect();
        let error = self.wrong(&entry, &names.join(" or "));
        let near = match &entry.value {
            OptionValue::Text(text) => did_you_mean(text, choices.iter().map(|(name, _)| *name)),
            _ => None,
        };
        Err(match near {
            Some(hint) => error.with_hint(hint),
            None => error,
        })
    }

    /// `true` or `false`, in quotes or not.
    pub(super) fn boolean(&mut self, key: &str) -> Result<Option<bool>> {
        let Some(entry) = self.take(key) else { return Ok(None) };
        match &entry.value {
            OptionValue::Boolean(b) => Ok(Some(*b)),
            OptionValue::Text(t) if t.eq_ignore_ascii_case("true") => Ok(Some(true)),
            OptionValue::Text(t) if t.eq_ignore_ascii_case("false") => Ok(Some(false)),
            _ => Err(self.wrong(&entry, "true or false")),
        }
    }

    /// A whole number in a range, in quotes or not.
    pub(super) fn whole(&mut self, key: &str, least: u64, most: u64) -> Result<Option<u64>> {
        let Some(entry) = self.take(key) else { return Ok(None) };
        let number = match &entry.value {
            OptionValue::Number(t) | OptionValue::Text(t) => t.parse::<u64>().ok(),
            _ => None,
        };
        match number {
            Some(n) if (least..=most).contains(&n) => Ok(Some(n)),
            _ if most == u64::MAX => Err(self.wrong(&entry, &format!("a whole number, at least {least}"))),
            _ => Err(self.wrong(&entry, &format!("a whole number from {least} to {most}"))),
        }
    }

    /// A number in a range, in quotes or not.
    pub(super) fn number(&mut self, key: &str, fits: impl Fn(f64) -> bool, range: &str) -> Result<Option<f64>> {
        let Some(entry) = self.take(key) else { return Ok(None) };
        let number = match &entry.value {
            OptionValue::Number(t) | OptionValue::Text(t) => t.parse::<f64>().ok(),
            _ => None,
        };
        match number {
            Some(x) if x.is_finite() && fits(x) => Ok(Some(x)),
            _ => Err(self.wrong(&entry, range)),
        }
    }

    /// A duration of any sign, in microseconds.
    pub(super) fn duration(&mut self, key: &str) -> Result<Option<Placed<i64>>> {
        let Some(entry) = self.take(key) else { return Ok(None) };
        let text = match &entry.value {
            OptionValue::Text(t) | OptionValue::Interval(t) => t.as_str(),
            // Zero needs no unit.
            OptionValue::Number(t) if t == "0" => return Ok(Some((0, entry.value_span))),
            _ => return Err(self.wrong(&entry, "a duration such as '5s' or '1h30m'")),
        };
        if text.trim() == "0" {
            return Ok(Some((0, entry.value_span)));
        }
        match parse_duration(text) {
            Ok(us) => Ok(Some((us, entry.value_span))),
            Err(why) => Err(self.wrong(&entry, "a duration such as '5s' or '1h30m'").with_hint(why)),
        }
    }

    /// A duration of at least `least_us` microseconds; `least` says so in words.
    pub(super) fn duration_from(&mut self, key: &str, least_us: i64, least: &str) -> Result<Option<i64>> {
        let entry = self.entries.iter().find(|e| e.key == key).cloned();
        match (self.duration(key)?, entry) {
            (Some((us, _)), Some(entry)) if us < least_us => Err(self.wrong(&entry, least)),
            (found, _) => Ok(found.map(|(us, _)| us)),
        }
    }

    /// Every option was taken.
    ///
    /// # Errors
    /// Names the first that was not; `why` says why it has no effect here.
    pub(super) fn finish(self, why: &str) -> Result<()> {
        match self.entries.first() {
            Some(entry) => {
                Err(self.source.error(entry.key_span, format!("option \"{}\" has no effect {why}", entry.key)))
            }
            None => Ok(()),
        }
    }
}

const NOT_COMPRESSED: &str = "outputs are not compressed";
const COMPRESS_HINT: &str = "leave the suffix out, and compress the file afterwards";

/// Whether a name says that the file is compressed. Tables decompress what bears such a name.
fn compressed(path: &str) -> bool {
    let suffix = path.rsplit_once('.').map(|(_, suffix)| suffix.to_lowercase());
    matches!(suffix.as_deref(), Some("gz" | "gzip" | "zst" | "zstd"))
}

/// Refuses a name of a compressed file for an output that a flag of the command line asks for.
///
/// # Errors
/// Names the flag and the path.
pub fn refuse_compressed(flag: &str, path: Option<&str>) -> Result<()> {
    match path.filter(|path| compressed(path)) {
        Some(path) => Err(Error::usage(format!("{flag} {path}: {NOT_COMPRESSED}")).with_hint(COMPRESS_HINT)),
        None => Ok(()),
    }
}
