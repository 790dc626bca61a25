//! Rows that come in any order, written in the order of their records.
//!
//! Late and rejected rows are found by whichever worker decodes a block, in an order that depends on timing; their files
//! must not. Text arrives in chunks, each ordered within; chunks are sorted by (partition order, first position) when the
//! run ends. Memory stays bounded: about [`MEMORY_BYTES`] of chunks are collected, sorted and appended as one run to an
//! anonymous temporary file beside the target; the runs are merged at the end (an external merge sort). Cost: every byte is
//! written twice and read once beyond that size, and a few kilobytes of memory per run at the end.

use super::Flow;
use super::file::{PipeWait, Prepared, TargetFile, directory_of, write_error};
use crate::error::{Error, Result};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Text held in memory before it is spilled.
pub const MEMORY_BYTES: usize = 1 << 20;
/// Bytes of a chunk's header in a run: partition order, position and length, little-endian.
const HEADER_BYTES: usize = 4 + 8 + 8;
/// Read ahead per run when merging.
const READ_BYTES: usize = 4 << 10;

/// Partition order, first position.
type Key = (u32, u64);

/// Collects chunks of rows and writes them in order.
#[derive(Debug)]
pub struct Spool {
    target: TargetFile,
    memory: Memory,
    memory_bytes: usize,
    spill: Option<File>,
    /// End of each sorted run in the spill file; a run starts where the one before it ends.
    run_ends: Vec<u64>,
}

impl Spool {
    /// A spool for the file at `path`, which appears only when finished; `header` stands first.
    ///
    /// # Errors
    /// When nothing can be created there.
    pub fn create(path: impl AsRef<Path>, header: &str, wait: &PipeWait) -> Result<Spool> {
        Self::with_memory(path, header, MEMORY_BYTES, wait)
    }

    /// As [`Spool::create`], holding about so many bytes in memory.
    ///
    /// # Errors
    /// When nothing can be created there.
    pub fn with_memory(path: impl AsRef<Path>, header: &str, memory_bytes: usize, wait: &PipeWait) -> Result<Spool> {
        let mut target = TargetFile::create(path, wait)?;
        let _ = TargetFile::write(&mut target, header.as_bytes())?;
        Ok(Spool { target, memory: Memory::default(), memory_bytes, spill: None, run_ends: Vec::new() })
    }

    /// Adds rows of one partition, in their order, the first of them at `first_position`. No other chunk of the partition
    /// may start between the first and the last of them; chunks of one position stand in order of their bytes.
    ///
    /// # Errors
    /// When the temporary file cannot be written.
    pub fn add(&mut self, partition_order: u32, first_position: u64, text: &[u8]) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.memory.add((partition_order, first_position), text);
        if self.memory.bytes() < self.memory_bytes {
            return Ok(());
        }
        self.spill().map_err(|e| self.fail(e))
    }

    /// Writes everything in order; the file has yet to get its name.
    ///
    /// # Errors
    /// When a file cannot be read or written, or could not be renamed.
    pub fn prepare(mut self) -> Result<Prepared> {
        match self.write_all_in_order() {
            // A path that is a pipe which nobody reads any more.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(Prepared::written(Flow::Closed)),
            Err(e) => Err(self.fail(e)),
            Ok(()) => self.target.prepare(),
        }
    }

    fn fail(&self, cause: io::Error) -> Error {
        write_error(&self.target.path().display().to_string(), cause)
    }

    fn write_all_in_order(&mut self) -> io::Result<()> {
        if self.spill.is_none() {
            let target = &mut self.target;
            return self.memory.in_order(|_, text| target.write_all(text));
        }
        self.spill()?;
        match &mut self.spill {
            Some(file) => merge(file, &self.run_ends, &mut self.target),
            None => Ok(()),
        }
    }

    /// Appends what is in memory to the spill file, as one run.
    fn spill(&mut self) -> io::Result<()> {
        let file = match &mut self.spill {
            Some(file) => file,
            none => none.insert(anonymous_file(self.target.path())?),
        };
        let mut end = self.run_ends.last().copied().unwrap_or(0);
        let mut write = BufWriter::with_capacity(64 << 10, file);
        self.memory.in_order(|(partition, position), text| {
            write.write_all(&partition.to_le_bytes())?;
            write.write_all(&position.to_le_bytes())?;
            write.write_all(&(text.len() as u64).to_le_bytes())?;
            write.write_all(text)?;
            end += (HEADER_BYTES + text.len()) as u64;
            Ok(())
        })?;
        write.flush()?;
        drop(write);
        self.run_ends.push(end);
        self.memory = Memory::default();
        Ok(())
    }
}

/// A file without a name beside the target, where there is room for as much; elsewhere if that is no place for files.
fn anonymous_file(target: &Path) -> io::Result<File> {
    tempfile::tempfile_in(directory_of(target)).or_else(|_| tempfile::tempfile()).map_err(|e| match e.raw_os_error() {
        Some(_) => e,
        // It names a temporary file.
        None => e.kind().into(),
    })
}

/// Chunks not yet spilled.
#[derive(Debug, Default)]
struct Memory {
    text: Vec<u8>,
    /// Key, start and length in `text`.
    chunks: Vec<(Key, usize, usize)>,
}

impl Memory {
    fn add(&mut self, key: Key, text: &[u8]) {
        self.chunks.push((key, self.text.len(), text.len()));
        self.text.extend_from_slice(text);
    }

    fn bytes(&self) -> usize {
        self.text.len() + self.chunks.len() * size_of::<(Key, usize, usize)>()
    }

    fn in_order(&mut self, mut write: impl FnMut(Key, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let text = &self.text;
        let of = |start: usize, len: usize| text.get(start..start + len).unwrap_or_default();
        self.chunks.sort_by(|(a, s, n), (b, t, m)| a.cmp(b).then_with(|| of(*s, *n).cmp(of(*t, *m))));
        self.chunks.iter().try_for_each(|(key, start, len)| write(*key, of(*start, *len)))
    }
}

/// Merges the runs of a spill file.
fn merge(file: &mut File, run_ends: &[u64], out: &mut impl Write) -> io::Result<()> {
    let mut heads = BinaryHeap::new();
    let mut runs = Vec::new();
    let mut start = 0;
    for (i, &end) in run_ends.iter().enumerate() {
        let mut run = Run { next: start, end, ahead: Vec::new(), taken: 0 };
        if let Some((key, len)) = run.header(file)? {
            heads.push(Reverse((key, i, len)));
        }
        runs.push(run);
        start = end;
    }
    let mut texts: Vec<Vec<u8>> = Vec::new();
    while let Some(Reverse((key, i, len))) = heads.pop() {
        let Some(run) = runs.get_mut(i) else { break };
        // Chunks of one position stand by their bytes, so they must be seen together.
        let alone = texts.is_empty() && heads.peek().is_none_or(|Reverse((next, _, _))| *next != key);
        if alone {
            run.text(file, len, out)?;
        } else {
            let mut text = Vec::new();
            run.text(file, len, &mut text)?;
            texts.push(text);
        }
        if let Some((key, len)) = run.header(file)? {
            heads.push(Reverse((key, i, len)));
        }
        if !texts.is_empty() && heads.peek().is_none_or(|Reverse((next, _, _))| *next != key) {
            texts.sort();
            texts.drain(..).try_for_each(|text| out.write_all(&text))?;
        }
    }
    Ok(())
}

/// A run being read: from `next` on in the file, after what is read ahead.
struct Run {
    next: u64,
    end: u64,
    ahead: Vec<u8>,
    taken: usize,
}

impl Run {
    /// Key and length of the next chunk; `None` at the end.
    fn header(&mut self, file: &mut File) -> io::Result<Option<(Key, u64)>> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        self.text(file, HEADER_BYTES as u64, &mut bytes)?;
        let (Some(partition), Some(position), Some(len)) =
            (bytes.first_chunk(), bytes.get(4..).and_then(<[u8]>::first_chunk), bytes.last_chunk())
        else {
            return Ok(None);
        };
        if bytes.len() < HEADER_BYTES {
            return Ok(None);
        }
        Ok(Some(((u32::from_le_bytes(*partition), u64::from_le_bytes(*position)), u64::from_le_bytes(*len))))
    }

    /// Copies the next `len` bytes, or what is left of the run.
    fn text(&mut self, file: &mut File, mut len: u64, out: &mut impl Write) -> io::Result<()> {
        while len > 0 {
            if self.taken == self.ahead.len() {
                let want = (READ_BYTES as u64).min(self.end.saturating_sub(self.next));
                if want == 0 {
                    return Ok(());
                }
                self.ahead.clear();
                file.seek(SeekFrom::Start(self.next))?;
                file.take(want).read_to_end(&mut self.ahead)?;
                if self.ahead.is_empty() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.next += self.ahead.len() as u64;
                self.taken = 0;
            }
            let ready = self.ahead.get(self.taken..).unwrap_or_default();
            let some = usize::try_from(len).map_or(ready.len(), |len| ready.len().min(len));
            out.write_all(ready.get(..some).unwrap_or_default())?;
            self.taken += some;
            len -= some as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::names;
    use super::*;
    use proptest::prelude::*;

    /// Chunks of rows as workers might send them, and what must come out.
    fn arb_chunks() -> impl Strategy<Value = (Vec<(u32, u64, String)>, String)> {
        // Per partition: gaps and sizes of chunks; a row is `partition:position,`.
        let partition = prop::collection::vec((0u64..5, 1u64..4), 0..20);
        prop::collection::vec(partition, 0..5).prop_flat_map(|partitions| {
            let mut chunks = Vec::new();
            for (p, sizes) in (0u32..).zip(partitions) {
                let mut position = 0;
                for (gap, rows) in sizes {
                    position += gap;
                    let text = (position..position + rows).map(|row| format!("{p}:{row},")).collect();
                    chunks.push((p, position, text));
                    position += rows;
                }
            }
            let expected: String = chunks.iter().map(|(_, _, text): &(u32, u64, String)| text.as_str()).collect();
            (Just(chunks).prop_shuffle(), Just(expected))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_arrival_gives_the_order_of_records((chunks, expected) in arb_chunks(), memory in 0usize..2_000) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("late.ndjson");
            let mut spool = Spool::with_memory(&path, "", memory, &PipeWait::default()).unwrap();
            for (partition, position, text) in &chunks {
                spool.add(*partition, *position, text.as_bytes()).unwrap();
            }
            prop_assert!(!path.exists());
            prop_assert_eq!(spool.prepare().unwrap().complete().unwrap(), Flow::Open);
            prop_assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
            prop_assert_eq!(names(directory.path()), ["late.ndjson"]);
        }
    }

    #[test]
    fn header_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("late.csv");
        let mut spool = Spool::create(&path, "a,b\n", &PipeWait::default()).unwrap();
        spool.add(0, 1, b"").unwrap();
        let _ = spool.prepare().unwrap().complete().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a,b\n");
    }

    #[test]
    fn chunks_of_one_position_stand_by_their_bytes() {
        for memory in [0, 100, 10_000] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("rejects");
            let mut spool = Spool::with_memory(&path, "", memory, &PipeWait::default()).unwrap();
            for text in ["c", "a", "b", "a"] {
                spool.add(1, 7, text.as_bytes()).unwrap();
                spool.add(1, 8, text.as_bytes()).unwrap();
            }
            spool.add(0, 9, b"first,").unwrap();
            let _ = spool.prepare().unwrap().complete().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "first,aabcaabc");
        }
    }

    #[test]
    fn large_chunks_pass_the_read_buffer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("late");
        let mut spool = Spool::with_memory(&path, "", 1_000, &PipeWait::default()).unwrap();
        let chunk = |i: u64| format!("{i}:").repeat(5_000);
        for i in [3, 1, 2, 0] {
            spool.add(0, i, chunk(i).as_bytes()).unwrap();
        }
        let _ = spool.prepare().unwrap().complete().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), (0..4).map(chunk).collect::<String>());
    }

    #[test]
    fn unfinished_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = Spool::with_memory(directory.path().join("late"), "", 0, &PipeWait::default()).unwrap();
        spool.add(0, 0, b"row").unwrap();
        drop(spool);
        assert_eq!(names(directory.path()), [""; 0]);
    }
}
