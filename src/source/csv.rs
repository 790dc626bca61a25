//! CSV after RFC 4180: quoted fields with doubled quotes and line ends in them, LF or CRLF.
//!
//! A record has as many fields as the header (without header: as the table has columns), else it is a reject; so is one with
//! text behind a closing quote, with a quote that is never closed, or longer than 16 MiB. Reading goes on behind a reject
//! at the next line: for an unclosed quote at the line after the one that opened it, so that one stray quote costs one
//! line. Quotes inside unquoted fields are text. Empty lines are no records. A field equal to the null text is NULL unless
//! quoted (`""` is an empty text). Columns of the file that the table does not declare are passed over.
//!
//! Written here rather than taken from a library because framing must give byte spans, tell quoted fields from others and
//! resume after a reject; the tests compare it with `csv-core`. Cost: one pass; fields without doubled quotes are borrowed,
//! and values of unquoted ones are read while their ends are looked for (the short way; any other record goes the long one).

use super::decode::{BlockBuilder, DecodePlan, Place};
use super::frame::{Consumed, Region, trim_line_end};
use super::json::encoding_message;
use super::short::{Pace, field_length};
use super::value::RawField;
use crate::error::{Error, Result};
use crate::plan::CsvOptions;
use crate::record::RejectReason;

/// How a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quoting {
    Plain,
    Quoted,
    /// Quoted, with doubled quotes inside.
    Doubled,
}

/// A field's inside as offsets into the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    start: usize,
    end: usize,
    quoting: Quoting,
}

/// What stands at an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A record; `end` is without line end, `next` behind it.
    Record { end: usize, next: usize },
    /// An empty line.
    Blank { next: usize },
    /// Text behind a closing quote, at this offset.
    Garbage(usize),
    /// The input ends within a quoted field.
    Unclosed,
    /// More input is needed.
    Incomplete,
}

/// Takes the records of blocks apart.
#[derive(Debug)]
pub(super) struct CsvDecoder {
    options: CsvOptions,
    max_record_bytes: usize,
    /// Declared columns, all of them: path joined by dots.
    declared: Vec<String>,
    /// By slot: the declared column.
    slots: Vec<usize>,
    /// By slot: the field of the file that holds it; set by the header.
    fields_of_slots: Vec<usize>,
    /// By field of the file: the slot that it fills. Empty if records are not for the short way.
    short: Vec<Option<usize>>,
    pub(super) pace: Pace,
    /// Fields of a record; `None` as long as the header is awaited.
    width: Option<usize>,
    fields: Vec<Field>,
}

impl CsvDecoder {
    pub(super) fn new(options: &CsvOptions, plan: &DecodePlan) -> Self {
        let mut out = CsvDecoder {
            options: options.clone(),
            max_record_bytes: plan.max_record_bytes,
            declared: plan.names.clone(),
            slots: plan.slots.iter().map(|slot| slot.column).collect(),
            fields_of_slots: Vec::new(),
            short: Vec::new(),
            pace: Pace::default(),
            width: None,
            fields: Vec::new(),
        };
        out.start_file();
        out
    }

    pub(super) fn start_file(&mut self) {
        if self.options.header {
            self.width = None;
            self.short.clear();
        } else {
            let fields = self.slots.clone();
            self.lay_out(self.declared.len(), fields);
        }
    }

    /// Notes how many fields there are, and which of them fill the slots.
    fn lay_out(&mut self, width: usize, fields_of_slots: Vec<usize>) {
        self.width = Some(width);
        self.short = if is_plain(&self.options) { vec![None; width] } else { Vec::new() };
        for (slot, field) in fields_of_slots.iter().enumerate() {
            if let Some(place) = self.short.get_mut(*field) {
                *place = Some(slot);
            }
        }
        self.fields_of_slots = fields_of_slots;
    }

    /// Decodes the records that start in the region.
    ///
    /// # Errors
    /// When the header does not name the declared columns.
    pub(super) fn decode(&mut self, region: Region<'_>, out: &mut BlockBuilder) -> Result<Consumed> {
        let Region { bytes, from, limit, .. } = region;
        let text = region.valid_text();
        let mut lines = 0;
        let mut at = from;
        while at < limit.min(bytes.len()) {
            if !self.short.is_empty() && self.pace.tries() {
                if let Some((end, next)) = self.read_short(text, at - from, out)
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
            match self.step(region, at) {
                Step::Blank { next } => {
                    lines += 1;
                    at = next;
                }
                Step::Record { end, next } if end - at <= self.max_record_bytes => {
                    let raw = bytes.get(at..end).unwrap_or_default();
                    let place = Place::new(lines, at, end);
                    match text.get(at - from..end - from).map_or_else(|| std::str::from_utf8(raw), Ok) {
                        Ok(record) => self.record(record, at, place, out)?,
                        Err(_) if self.width.is_none() => {
                            return Err(Error::usage("expected a header in UTF-8, found other bytes"));
                        }
                        Err(error) => out.reject(place, RejectReason::Encoding, encoding_message(raw, error)),
                    }
                    lines += 1 + memchr::memchr_iter(b'\n', raw).count() as u64;
                    at = next;
                }
                Step::Incomplete if bytes.len() - at <= self.max_record_bytes + 1 => {
                    return Ok(Consumed { bytes: at, lines, skip_line: false });
                }
                step => {
                    if self.width.is_none() {
                        return Err(Error::usage("expected a header, found a line that is no CSV record"));
                    }
                    let Some((next, ended)) = self.reject_line(region, at, lines, &step, out) else {
                        return Ok(Consumed { bytes: at, lines, skip_line: false });
                    };
                    lines +=
                        1 + memchr::memchr_iter(b'\n', bytes.get(at..next - usize::from(ended)).unwrap_or_default())
                            .count() as u64;
                    at = next;
                    if !ended {
                        return Ok(Consumed { bytes: at, lines, skip_line: true });
                    }
                }
            }
        }
        Ok(Consumed { bytes: at, lines, skip_line: false })
    }

    /// Reads the slots of the record that starts at `start`, if no field is quoted and all is as it should be: the offsets
    /// of its end and of the next record. `None` leaves it to the long way, when what has been read is undone.
    #[inline]
    fn read_short(&self, text: &str, start: usize, out: &mut BlockBuilder) -> Option<(usize, usize)> {
        let bytes = text.as_bytes();
        let delimiter = self.options.delimiter;
        let mut at = start;
        // A line that begins so may be empty.
        if let Some(b'\r' | b'\n') = bytes.get(at) {
            return None;
        }
        let mut left = self.short.len();
        for slot in &self.short {
            let rest = bytes.get(at..)?;
            if rest.first() == Some(&b'"') {
                return None;
            }
            at = match slot {
                None => at + field_length(rest, delimiter)?,
                Some(slot) => out.read_csv(*slot, text, at, delimiter, &self.options.null)?,
            };
            left -= 1;
            if left > 0 {
                if bytes.get(at) != Some(&delimiter) {
                    return None;
                }
                at += 1;
            }
        }
        match bytes.get(at..)? {
            // A carriage return before it is part of the line end, not of a field that nobody reads.
            [b'\n', ..] => Some((at - usize::from(bytes.get(at.wrapping_sub(1)) == Some(&b'\r')), at + 1)),
            [b'\r', b'\n', ..] => Some((at, at + 2)),
            _ => None,
        }
    }

    /// Rejects what starts at `at` and says where reading goes on, and whether the line's end has been seen; `None` if more
    /// input is needed. What is done depends on the record alone, not on how much of the input is there.
    fn reject_line(
        &self,
        region: Region<'_>,
        at: usize,
        line: u64,
        step: &Step,
        out: &mut BlockBuilder,
    ) -> Option<(usize, bool)> {
        let max = self.max_record_bytes;
        let garbage =
            if let Step::Garbage(offset) = step { Some(*offset).filter(|offset| offset - at <= max) } else { None };
        // Text behind a quote ends the record with the line it stands in; all else costs the first line alone.
        let search = garbage.unwrap_or(at);
        let rest = region.bytes.get(search..).unwrap_or_default();
        let (end, next, ended) = match memchr::memchr(b'\n', rest) {
            Some(length) => (search + length, search + length + 1, true),
            None => (region.bytes.len(), region.bytes.len(), region.eof),
        };
        if !ended && region.bytes.len() - at <= max + 1 {
            return None;
        }
        let end = at + trim_line_end(region.bytes.get(at..end).unwrap_or_default()).len();
        let unclosed = *step == Step::Unclosed && region.bytes.len() - at <= max + 1;
        let detail = match garbage {
            Some(offset) if end - at <= max => {
                let place = offset - at + 1;
                format!("expected a delimiter behind a closing quote, found other text at byte {place} of the record")
            }
            None if unclosed => "expected a closing quote, found the end of the input".to_owned(),
            _ => {
                out.reject_long(line, at, end);
                return Some((next, ended));
            }
        };
        out.reject(Place::new(line, at, end), RejectReason::Syntax, detail);
        Some((next, ended))
    }

    /// Splits the record at an offset into `self.fields`.
    fn step(&mut self, region: Region<'_>, start: usize) -> Step {
        let bytes = region.bytes;
        self.fields.clear();
        match bytes.get(start..).unwrap_or_default() {
            [b'\n', ..] => return Step::Blank { next: start + 1 },
            [b'\r', b'\n', ..] => return Step::Blank { next: start + 2 },
            [b'\r'] if region.eof => return Step::Blank { next: start + 1 },
            _ => {}
        }
        let mut at = start;
        loop {
            let field = if bytes.get(at) == Some(&b'"') {
                match quoted_field(bytes, at + 1) {
                    Some(field) => field,
                    None if region.eof => return Step::Unclosed,
                    None => return Step::Incomplete,
                }
            } else {
                let rest = bytes.get(at..).unwrap_or_default();
                match memchr::memchr2(self.options.delimiter, b'\n', rest) {
                    Some(length) => Field { start: at, end: at + length, quoting: Quoting::Plain },
                    None if region.eof => Field { start: at, end: bytes.len(), quoting: Quoting::Plain },
                    None => return Step::Incomplete,
                }
            };
            // Where the delimiter or the line end must stand.
            at = field.end + usize::from(field.quoting != Quoting::Plain);
            self.fields.push(field);
            let (end, next) = match bytes.get(at..).unwrap_or_default() {
                [byte, ..] if *byte == self.options.delimiter => {
                    at += 1;
                    continue;
                }
                [b'\n', ..] => (at, at + 1),
                [b'\r', b'\n', ..] => (at, at + 2),
                [b'\r'] | [] if region.eof => (at, bytes.len()),
                [b'\r'] | [] => return Step::Incomplete,
                _ => return Step::Garbage(at),
            };
            // A carriage return before the line end is part of it, not of an unquoted field.
            let end = match self.fields.last_mut() {
                Some(last) if last.quoting == Quoting::Plain => {
                    last.end -= usize::from(bytes.get(last.start..last.end).is_some_and(|f| f.ends_with(b"\r")));
                    last.end
                }
                _ => end,
            };
            return Step::Record { end, next };
        }
    }

    /// Hands on the record whose fields have been split, or takes it as the header.
    fn record(&mut self, record: &str, start: usize, place: Place, out: &mut BlockBuilder) -> Result<()> {
        let Some(width) = self.width else {
            let names: Vec<String> = self.fields.iter().map(|field| header_name(record, start, *field)).collect();
            let fields = self.match_header(&names)?;
            self.lay_out(names.len(), fields);
            return Ok(());
        };
        if self.fields.len() != width {
            let found = self.fields.len();
            out.reject(place, RejectReason::Syntax, format!("expected {width} fields, found {found}"));
            return Ok(());
        }
        out.record(place, |slot| {
            let field = self.fields_of_slots.get(slot).and_then(|field| self.fields.get(*field));
            let Some(field) = field else { return RawField::Missing };
            let text = record.get(field.start - start..field.end - start).unwrap_or_default();
            match field.quoting {
                Quoting::Plain if text == self.options.null => RawField::Null,
                Quoting::Plain | Quoting::Quoted => RawField::Text(text),
                Quoting::Doubled => RawField::TextWithQuotes(text),
            }
        });
        Ok(())
    }

    /// By slot: the field of the header with its name.
    fn match_header(&self, header: &[String]) -> Result<Vec<usize>> {
        let listed = || {
            let names: Vec<String> = header.iter().map(|name| format!("\"{name}\"")).collect();
            format!("the header has {}", names.join(", "))
        };
        let mut fields = Vec::with_capacity(self.declared.len());
        for name in &self.declared {
            let mut found = header.iter().enumerate().filter(|(_, field)| *field == name).map(|(index, _)| index);
            let Some(index) = found.next() else {
                let like = header.iter().find(|field| field.eq_ignore_ascii_case(name));
                let hint = match like {
                    Some(like) => {
                        format!("{}; to keep capitals, declare the column as \"{like}\", in quotes", listed())
                    }
                    None => listed(),
                };
                return Err(
                    Error::usage(format!("expected a column \"{name}\" in the header, found none")).with_hint(hint)
                );
            };
            if found.next().is_some() {
                let message = format!("expected one column \"{name}\" in the header, found several");
                return Err(Error::usage(message).with_hint(listed()));
            }
            fields.push(index);
        }
        Ok(self.slots.iter().filter_map(|column| fields.get(*column).copied()).collect())
    }

    /// Checks the header at the start of a file, if there is one among the bytes.
    ///
    /// # Errors
    /// When it does not name the declared columns.
    pub(super) fn check_header(&mut self, bytes: &[u8], eof: bool) -> Result<HeaderCheck> {
        let region = Region { bytes, from: super::frame::mark_length(bytes), limit: bytes.len(), eof };
        let mut at = region.from;
        while at < bytes.len() {
            match self.step(region, at) {
                Step::Blank { next } => at = next,
                Step::Record { end, .. } => {
                    if let Some(header) = bytes.get(at..end).and_then(|raw| std::str::from_utf8(raw).ok()) {
                        let names: Vec<String> =
                            self.fields.iter().map(|field| header_name(header, at, *field)).collect();
                        self.match_header(&names)?;
                    }
                    return Ok(HeaderCheck::Done);
                }
                Step::Incomplete => return Ok(HeaderCheck::NeedsMore),
                Step::Garbage(_) | Step::Unclosed => return Ok(HeaderCheck::Done),
            }
        }
        Ok(if eof { HeaderCheck::Done } else { HeaderCheck::NeedsMore })
    }
}

/// What [`CsvDecoder::check_header`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderCheck {
    Done,
    NeedsMore,
}

/// Whether neither delimiter nor null text can be mistaken for something else while a value is read: times have spaces,
/// colons and signs in them.
fn is_plain(options: &CsvOptions) -> bool {
    let delimiter = options.delimiter;
    let plain = delimiter == b'\t' || delimiter.is_ascii_punctuation() && !b".:+-\"".contains(&delimiter);
    plain && !options.null.bytes().any(|byte| byte == delimiter || matches!(byte, b'\r' | b'\n'))
}

fn header_name(record: &str, start: usize, field: Field) -> String {
    let text = record.get(field.start - start..field.end - start).unwrap_or_default();
    match field.quoting {
        Quoting::Plain => text.trim_ascii().to_owned(),
        Quoting::Quoted => text.to_owned(),
        Quoting::Doubled => text.replace("\"\"", "\""),
    }
}

/// The quoted field whose inside starts at `start`; `end` is its closing quote. `None` if there is none, or if a second
/// quote may follow it.
fn quoted_field(bytes: &[u8], start: usize) -> Option<Field> {
    let mut quoting = Quoting::Quoted;
    let mut at = start;
    loop {
        let end = at + memchr::memchr(b'"', bytes.get(at..)?)?;
        if bytes.get(end + 1) != Some(&b'"') {
            return Some(Field { start, end, quoting });
        }
        quoting = Quoting::Doubled;
        at = end + 2;
    }
}
