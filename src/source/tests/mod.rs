//! Whole sources: what is read does not depend on block size, compression, sharing, or how input arrives. Here is what the
//! tests share.

mod compressed;
mod csv;
mod files;
mod framing;
mod json;
mod live;
mod short;
mod values;

use super::*;
use crate::plan::{ColumnPlan, CsvOptions, LateRecords, LatenessScope, OnError};
use crate::types::{DataType, Value};
use std::io::{Read, Write};
use std::path::Path;

fn csv_options() -> CsvOptions {
    CsvOptions { delimiter: b',', null: String::new(), header: true }
}

/// A table of `columns`, named and typed, over a file; event time `ts` if there is such a column, and `at`, `p` alike.
pub(super) fn table(path: &str, format: Format, columns: &[(&str, DataType)]) -> TablePlan {
    let find = |name: &str| columns.iter().position(|(column, _)| *column == name);
    TablePlan {
        name: "t".to_owned(),
        columns: columns
            .iter()
            .map(|(name, dtype)| ColumnPlan {
                name: (*name).to_owned(),
                path: name.split('.').map(str::to_owned).collect(),
                dtype: dtype.clone(),
            })
            .collect(),
        event_time: find("ts"),
        watermark: None,
        delay_us: Some(0),
        policy: None,
        arrival_time: find("at"),
        partition: find("p"),
        partitions: Vec::new(),
        scope: LatenessScope::Partition,
        idle_timeout_us: None,
        granularity_us: 1_000_000,
        tick_us: 1_000_000,
        max_future_us: None,
        late_records: LateRecords::Window,
        on_error: OnError::Reject,
        rejects: None,
        time_unit_us: 1_000,
        source: SourcePlan::File { path: path.to_owned(), format },
    }
}

fn simple(path: &str, format: Format) -> TablePlan {
    table(path, format, &[("ts", DataType::Timestamp), ("key", DataType::Text)])
}

fn all_columns(table: &TablePlan) -> BTreeSet<usize> {
    (0..table.columns.len()).collect()
}

/// A record as it came out, accepted or not.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    lane: usize,
    file: u32,
    /// From 1 in its lane.
    pub(super) position: u64,
    /// From 1 in its file.
    file_line: u64,
    raw: Vec<u8>,
    pub(super) rejected: Option<(RejectReason, String)>,
    pub(super) event_time_us: Option<i64>,
    arrived_us: Option<i64>,
    partition: Option<String>,
    pub(super) values: Vec<Option<Value>>,
    pub(super) errors: Vec<(u32, String)>,
}

/// Joins the blocks of a lane, in order of their indexes, and checks what must hold of every block.
fn join(lane: usize, mut blocks: Vec<DecodedBlock>) -> Vec<Seen> {
    blocks.sort_by_key(|block| block.index);
    let (mut position, mut file_line, mut file) = (1, 1, 0);
    let mut out = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        assert_eq!((block.index, block.lane), (index as u64, lane as u32), "blocks are numbered without holes");
        assert_eq!(block.last, index + 1 == blocks.len(), "only the last block is the last");
        assert_eq!(block.starts_file, index == 0 || block.file != file, "a file starts once");
        if block.starts_file {
            file_line = 1;
            file = block.file;
        }
        assert_eq!(block.line.len(), block.rows);
        assert!(block.span.len() == block.rows || block.span.is_empty() && block.bytes.is_empty());
        assert!(block.errors.is_sorted(), "errors are in order");
        let name = |id: u32| block.partition_names[id as usize].clone();
        let mut rejects = block.rejects.iter().peekable();
        for row in 0..=block.rows {
            while let Some(reject) = rejects.next_if(|reject| reject.rows_before as usize == row) {
                out.push(Seen {
                    lane,
                    file,
                    position: position + u64::from(reject.line),
                    file_line: file_line + u64::from(reject.line),
                    raw: block.bytes[reject.span.0 as usize..reject.span.1 as usize].to_vec(),
                    rejected: Some((reject.reason, reject.detail.clone())),
                    event_time_us: None,
                    arrived_us: reject.arrived_us,
                    partition: reject.partition.map(name),
                    values: Vec::new(),
                    errors: Vec::new(),
                });
            }
            if row == block.rows {
                break;
            }
            out.push(Seen {
                lane,
                file,
                position: position + u64::from(block.line[row]),
                file_line: file_line + u64::from(block.line[row]),
                raw: block
                    .span
                    .get(row)
                    .map_or(Vec::new(), |span| block.bytes[span.0 as usize..span.1 as usize].to_vec()),
                rejected: None,
                event_time_us: block.event_time_us.get(row).copied(),
                arrived_us: block.arrived_us.as_ref().map(|v| v[row]),
                partition: block.partition.as_ref().map(|v| name(v[row])),
                values: block.columns.iter().map(|c| c.as_ref().map(|c| c.value(row))).collect(),
                errors: block.errors.iter().filter(|e| e.0 as usize == row).map(|e| (e.1, e.2.clone())).collect(),
            });
        }
        assert!(rejects.next().is_none(), "rejects are in order");
        position += block.lines;
        file_line += block.lines;
    }
    assert!(out.is_sorted_by_key(|seen| seen.position), "records are in order");
    out
}

/// All blocks of a reader, and the error it ends with if it does.
fn drain(mut reader: Box<dyn LaneReader>) -> (Vec<DecodedBlock>, Option<Error>) {
    let mut blocks = Vec::new();
    loop {
        match reader.next_block() {
            Ok(Next::Block(block)) => blocks.push(*block),
            Ok(Next::Pending) => std::thread::yield_now(),
            Ok(Next::End) => return (blocks, None),
            Err(error) => return (blocks, Some(error)),
        }
        reader.suspend();
    }
}

/// Readers that share their turns read every block once, whichever takes it.
#[test]
fn readers_share_turns() {
    let directory = temporary();
    let lines: String = (0..200).map(|i| format!("{{\"a\":{i}}}\n")).collect();
    let path = write(directory.path(), "a.ndjson", lines.as_bytes());
    let plan = table(&path, Format::Json, &[("a", DataType::BigInt)]);
    let options = SourceOptions { block_bytes: 100, workers: 2 };
    let source = super::open(&plan, &all_columns(&plan), &options).expect("the source opens");
    let turns = Turns::all();
    let mut readers: Vec<_> = (0..3).map(|reader| source.open(0, turns.for_reader(reader))).collect();
    let (mut indices, mut ended) = (Vec::new(), 0);
    // The first takes two blocks when the others take one.
    for at in [0, 1, 0, 2].into_iter().cycle() {
        match readers[at].next_block().expect("a block") {
            Next::Block(block) => indices.push(block.index),
            Next::Pending => {}
            Next::End => ended += 1,
        }
        if ended >= 8 {
            break;
        }
    }
    assert!(indices.len() > 10);
    assert_eq!(indices, (0..indices.len() as u64).collect::<Vec<_>>());
}

fn read_source(source: &dyn Source, shares: u64) -> Vec<Seen> {
    let mut out = Vec::new();
    for (lane, info) in source.lanes().iter().enumerate() {
        let shares = if info.splittable { shares } else { 1 };
        let mut blocks = Vec::new();
        for share in 0..shares {
            let (mut some, error) = drain(source.open(lane, Turns::of(share, shares)));
            assert!(error.is_none(), "{error:?}");
            assert!(some.iter().all(|block| block.index % shares == share), "a share is its own blocks");
            assert!(some.is_sorted_by_key(|block| block.index));
            blocks.append(&mut some);
        }
        out.extend(join(lane, blocks));
    }
    out
}

pub(super) fn read(table: &TablePlan, block_bytes: usize) -> Vec<Seen> {
    let source =
        open(table, &all_columns(table), &SourceOptions { block_bytes, workers: 1 }).expect("the source opens");
    read_source(&*source, 1)
}

fn write(directory: &Path, name: &str, bytes: &[u8]) -> String {
    let path = directory.join(name);
    std::fs::write(&path, bytes).expect("a file can be written");
    path.to_str().expect("a plain path").to_owned()
}

pub(super) fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory can be made")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).expect("in memory");
    out.finish().expect("in memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("in memory")
}

/// Reads text as one file of the format, in every way there is, and checks that all agree.
fn read_everywhere(text: &[u8], format: &Format, columns: &[(&str, DataType)]) -> Vec<Seen> {
    let directory = temporary();
    let half = text.len() / 2;
    let plain = write(directory.path(), "f.txt", text);
    let gz = write(directory.path(), "f.gz", &[gzip(&text[..half]), gzip(&text[half..]), gzip(b"")].concat());
    let zst = write(directory.path(), "f.zst", &[zstd(&text[..half]), zstd(&text[half..])].concat());
    let expected = read(&table(&plain, format.clone(), columns), 1 << 20);
    for block_bytes in [1, 2, 3, 7, 64, text.len().max(1)] {
        for path in [&plain, &gz, &zst] {
            let table = table(path, format.clone(), columns);
            assert_eq!(read(&table, block_bytes), expected, "{path} in blocks of {block_bytes}");
        }
        let table = table(&plain, format.clone(), columns);
        let options = SourceOptions { block_bytes, workers: 3 };
        let source = open(&table, &all_columns(&table), &options).expect("the source opens");
        assert_eq!(read_source(&*source, 3), expected, "shared among 3 in blocks of {block_bytes}");
        let input = Box::new(Trickle { bytes: text.to_vec(), at: 0, piece: block_bytes });
        let live = open_reader(&table, format, input, &all_columns(&table), &options).expect("the source opens");
        assert_eq!(read_source(&*live, 1), expected, "live in pieces of {block_bytes}");
    }
    expected
}

/// Gives its bytes in small pieces.
struct Trickle {
    bytes: Vec<u8>,
    at: usize,
    piece: usize,
}

impl Read for Trickle {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.piece.min(out.len()).min(self.bytes.len() - self.at);
        out[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

fn reasons(seen: &[Seen]) -> Vec<(u64, Option<RejectReason>)> {
    seen.iter().map(|s| (s.position, s.rejected.as_ref().map(|r| r.0))).collect()
}

fn details(seen: &[Seen]) -> Vec<&str> {
    seen.iter().filter_map(|s| s.rejected.as_ref().map(|r| &*r.1)).collect()
}

const KEYED: &[(&str, DataType)] = &[("ts", DataType::Timestamp), ("key", DataType::Text)];
