//! Reading a sample: the first records of an NDJSON or CSV file, as columns of cells.
//!
//! Values keep their text, so that `12.50` is seen to have two decimals. Nested objects become paths. Lines that are no
//! records are counted, not fatal: a sample shows what is there. Cost: one pass over as much of the file as is asked for.

use super::guess::{Cell, Sample};
use crate::error::{Error, Result};
use crate::sink::summary::plural;
use crate::source::gzip::Members;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Longest line looked at.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Objects within objects are followed so far; what is deeper is not shown.
const DEPTH_MAX: usize = 8;
/// Columns looked at; records that name ever new fields would fill memory otherwise.
const COLUMNS_MAX: usize = 1_000;

/// How the file is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// `None`: NDJSON.
    pub(super) csv: Option<CsvLayout>,
    /// Whether the suffix does not say so, and `format` must.
    pub(super) unusual_suffix: bool,
}

/// How the CSV is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CsvLayout {
    pub(super) delimiter: u8,
    /// Whether the suffix implies the delimiter.
    pub(super) implied: bool,
    pub(super) header: bool,
}

/// Reads up to `rows` records of the file.
///
/// # Errors
/// When the file cannot be read or holds no record.
pub(super) fn read(path: &Path, rows: usize) -> Result<(Sample, Layout)> {
    let place = path.display().to_string();
    let fail = |e: io::Error| Error::input("cannot read the file").at(place.clone()).with_source(e);
    let file = std::fs::File::open(path).map_err(fail)?;
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_ascii_lowercase();
    let (bytes, bare): (Box<dyn Read>, &str) = if let Some(bare) = name.strip_suffix(".gz") {
        (Box::new(Members::new(BufReader::new(file))), bare)
    } else if let Some(bare) = name.strip_suffix(".zst") {
        (Box::new(zstd::stream::read::Decoder::new(file).map_err(fail)?), bare)
    } else {
        (Box::new(file), name.as_str())
    };
    let mut input = BufReader::with_capacity(1 << 18, bytes);
    let start = skip_bom(&mut input).map_err(fail)?;
    let suffix = bare.rsplit_once('.').map_or("", |(_, suffix)| suffix);
    let (json, unusual_suffix) = match suffix {
        "json" | "ndjson" | "jsonl" => (true, false),
        "csv" | "tsv" => (false, false),
        "parquet" => {
            return Err(Error::usage("a Parquet file holds its own schema")
                .at(place)
                .with_hint("only NDJSON and CSV are sampled"));
        }
        _ => (start == Some(b'{'), true),
    };
    let (sample, csv) = if json {
        (read_json(input, rows).map_err(fail)?, None)
    } else {
        let (sample, layout) = read_csv(input, rows, suffix == "tsv").map_err(fail)?;
        (sample, Some(layout))
    };
    if sample.rows == 0 {
        let broken = sample.broken;
        let found = format!("expected records, found none in {broken} line{}", plural(broken as u64));
        let error = Error::input(found).at(place);
        return Err(error.with_hint(if json {
            "JSON stands one object a line"
        } else {
            "CSV begins with a line of column names"
        }));
    }
    Ok((sample, Layout { csv, unusual_suffix }))
}

/// Skips a byte order mark and returns the first byte that is no white space.
fn skip_bom(input: &mut impl BufRead) -> io::Result<Option<u8>> {
    if input.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
        input.consume(3);
    }
    Ok(input.fill_buf()?.iter().copied().find(|b| !b.is_ascii_whitespace()))
}

/// Collects cells into columns, in order of first appearance.
#[derive(Default)]
struct Builder {
    sample: Sample,
    index: HashMap<Vec<String>, usize>,
}

impl Builder {
    fn put(&mut self, path: &[String], cell: Cell) {
        let row = self.sample.rows;
        let at = match self.index.get(path) {
            Some(&at) => at,
            None if self.index.len() < COLUMNS_MAX => {
                let at = self.index.len();
                self.index.insert(path.to_vec(), at);
                self.sample.columns.push((path.to_vec(), Vec::new()));
                at
            }
            None => return,
        };
        if let Some((_, cells)) = self.sample.columns.get_mut(at) {
            cells.resize(row, Cell::Null);
            cells.push(cell);
        }
    }

    fn end_row(&mut self) {
        self.sample.rows += 1;
    }

    fn finish(mut self) -> Sample {
        for (_, cells) in &mut self.sample.columns {
            cells.resize(self.sample.rows, Cell::Null);
        }
        self.sample
    }
}

/// An object's fields in order, values as their text.
struct Fields(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(FieldsVisitor)
    }
}

fn read_json(mut input: impl BufRead, rows: usize) -> io::Result<Sample> {
    let mut builder = Builder::default();
    let mut line = Vec::new();
    while builder.sample.rows < rows {
        line.clear();
        if input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        match serde_json::from_slice::<Fields>(text) {
            Ok(fields) => {
                put_object(&mut builder, &mut Vec::new(), fields);
                builder.end_row();
            }
            Err(_) => builder.sample.broken += 1,
        }
    }
    Ok(builder.finish())
}

fn put_object(builder: &mut Builder, path: &mut Vec<String>, fields: Fields) {
    for (name, value) in fields.0 {
        path.push(name);
        let text = value.get();
        let cell = match text.as_bytes().first() {
            Some(b'{') if path.len() < DEPTH_MAX => match serde_json::from_str::<Fields>(text) {
                Ok(inner) => {
                    put_object(builder, path, inner);
                    path.pop();
                    continue;
                }
                Err(_) => Cell::Nested,
            },
            Some(b'{' | b'[') => Cell::Nested,
            Some(b'"') => serde_json::from_str::<String>(text).map_or(Cell::Nested, Cell::Text),
            Some(b't') => Cell::Boolean,
            Some(b'f') => Cell::Boolean,
            Some(b'n') | None => Cell::Null,
            Some(_) => Cell::Number(text.to_owned()),
        };
        builder.put(path, cell);
        path.pop();
    }
}

fn read_csv(mut input: impl BufRead, rows: usize, tabs: bool) -> io::Result<(Sample, CsvLayout)> {
    let delimiter = if tabs { b'\t' } else { likely_delimiter(input.fill_buf()?) };
    let mut records = Records::new(input, delimiter);
    let mut builder = Builder::default();
    let first = records.next_record()?.unwrap_or_default();
    let header = is_header(&first);
    let paths: Vec<Vec<String>> = if header {
        first.iter().map(|name| vec![name.clone()]).collect()
    } else {
        (1..=first.len()).map(|n| vec![format!("column_{n}")]).collect()
    };
    let mut next = if header { records.next_record()? } else { Some(first) };
    while let Some(record) = next.filter(|_| builder.sample.rows < rows) {
        if record.len() == paths.len() {
            for (path, text) in paths.iter().zip(record) {
                builder.put(path, if text.is_empty() { Cell::Null } else { Cell::Bare(text) });
            }
            builder.end_row();
        } else {
            builder.sample.broken += 1;
        }
        next = records.next_record()?;
    }
    Ok((builder.finish(), CsvLayout { delimiter, implied: tabs || delimiter == b',', header }))
}

/// The candidate that the first line has most of; the comma if none.
fn likely_delimiter(start: &[u8]) -> u8 {
    let line = start.split(|&b| b == b'\n').next().unwrap_or_default();
    let count = |byte: u8| line.iter().filter(|&&b| b == byte).count();
    // The last of equals wins, so the comma stands last.
    [b'|', b'\t', b';', b','].into_iter().max_by_key(|&byte| count(byte)).unwrap_or(b',')
}

/// Whether a first record names columns: no name is empty, a number, a time, or there twice.
fn is_header(record: &[String]) -> bool {
    let value = |text: &str| {
        text.is_empty() || text.parse::<f64>().is_ok() || crate::time::parse_timestamp(text.as_bytes()).is_some()
    };
    let mut names: Vec<_> = record.iter().collect();
    names.sort();
    names.dedup();
    names.len() == record.len() && !record.iter().any(|text| value(text))
}

/// CSV records, one at a time.
struct Records<R> {
    input: R,
    reader: csv_core::Reader,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl<R: BufRead> Records<R> {
    fn new(input: R, delimiter: u8) -> Self {
        let reader = csv_core::ReaderBuilder::new().delimiter(delimiter).build();
        Records { input, reader, bytes: vec![0; 4_096], ends: vec![0; 64] }
    }

    /// The next record's fields; bytes that are no UTF-8 are replaced.
    fn next_record(&mut self) -> io::Result<Option<Vec<String>>> {
        let (mut used, mut fields) = (0, 0);
        loop {
            let input = self.input.fill_buf()?;
            let bytes = self.bytes.get_mut(used..).unwrap_or_default();
            let ends = self.ends.get_mut(fields..).unwrap_or_default();
            let (result, read, written, ended) = self.reader.read_record(input, bytes, ends);
            self.input.consume(read);
            used += written;
            fields += ended;
            match result {
                csv_core::ReadRecordResult::InputEmpty => {}
                csv_core::ReadRecordResult::OutputFull if self.bytes.len() as u64 > LINE_BYTES_MAX => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "a record is longer than 64 MiB: is a quote left open?",
                    ));
                }
                csv_core::ReadRecordResult::OutputFull => self.bytes.resize(self.bytes.len() * 2, 0),
                csv_core::ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                csv_core::ReadRecordResult::Record => {
                    let mut from = 0;
                    let ends = self.ends.iter().take(fields);
                    let field = |&end: &usize| {
                        let bytes = self.bytes.get(from..end).unwrap_or_default();
                        from = end;
                        String::from_utf8_lossy(bytes).into_owned()
                    };
                    return Ok(Some(ends.map(field).collect()));
                }
                csv_core::ReadRecordResult::End => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(text: &str) -> (Sample, CsvLayout) {
        read_csv(text.as_bytes(), 100, false).expect("no I/O")
    }

    #[test]
    fn json_keeps_texts_and_paths() {
        let text = "{\"a\":12.50,\"n\":{\"b\":\"x\",\"c\":[1]}}\r\n\nnonsense\n{\"n\":{\"b\":null},\"late\":true}";
        let sample = read_json(text.as_bytes(), 100).expect("no I/O");
        assert_eq!((sample.rows, sample.broken), (2, 1));
        let expected = [
            ("a", vec![Cell::Number("12.50".into()), Cell::Null]),
            ("n.b", vec![Cell::Text("x".into()), Cell::Null]),
            ("n.c", vec![Cell::Nested, Cell::Null]),
            ("late", vec![Cell::Null, Cell::Boolean]),
        ];
        let found: Vec<_> = sample.columns.iter().map(|(path, cells)| (path.join("."), cells.clone())).collect();
        assert_eq!(found.len(), expected.len());
        for ((name, cells), (path, found)) in expected.iter().zip(&found) {
            assert_eq!((*name, cells), (path.as_str(), found));
        }
    }

    #[test]
    fn csv_finds_delimiter_and_header() {
        let (sample, layout) = csv("a;b\r\n1;\"x;\ny\"\r\n2;\r\n3\r\n");
        assert_eq!(layout, CsvLayout { delimiter: b';', implied: false, header: true });
        assert_eq!((sample.rows, sample.broken), (2, 1));
        assert_eq!(sample.columns[1].1, [Cell::Bare("x;\ny".into()), Cell::Null]);
        let (sample, layout) = csv("1,2026-01-01\n2,2026-01-02\n");
        assert!(!layout.header);
        assert_eq!((sample.rows, sample.columns[1].0.join(".").as_str()), (2, "column_2"));
    }

    #[test]
    fn long_and_wide_records_are_read() {
        let names: Vec<String> = (0..200).map(|n| format!("c{n}")).collect();
        let values = vec!["v".repeat(100); 200];
        let (sample, _) = csv(&format!("{}\n{}\n", names.join(","), values.join(",")));
        assert_eq!((sample.rows, sample.columns.len()), (1, 200));
        assert_eq!(sample.columns[199].1, [Cell::Bare("v".repeat(100))]);
    }
}
