//! Uncompressed NDJSON files cut into blocks that any worker can decode by itself.
//!
//! Block `i` of a file stands for the records that **start** in its bytes `[i·B, (i+1)·B)`. Its reader finds the first
//! start by looking for a line end from byte `i·B − 1` on, and reads beyond the end to finish the last record. So every
//! record is in exactly one block, whoever reads it, and workers skip each other's blocks without reading them. Blocks of
//! several files in one lane are numbered on. A file counts with the size it had when it was opened first.
//!
//! Cost: one seek and one read a block, and at most 16 MiB beyond a block's end.

use super::decode::{BlockBuilder, BlockPlace, DecodePlan};
use super::files::InputFile;
use super::frame::{Region, mark_length};
use super::json::JsonDecoder;
use super::{DecodedBlock, LaneReader, Next, Turns};
use crate::error::Result;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::sync::Arc;

/// How much is read at a time to finish a block's last record.
const TAIL_BYTES: usize = 4 << 10;

/// Blocks of a file of that size.
pub(super) fn blocks_of(size: u64, block_bytes: u64) -> u64 {
    size.div_ceil(block_bytes).max(1)
}

/// Reads a share of the blocks of a lane of uncompressed NDJSON files.
pub(super) struct PlainReader {
    lane: u32,
    files: Arc<[InputFile]>,
    block_bytes: u64,
    turns: Turns,
    /// Place in the lane of the block looked at.
    index: u64,
    /// It was taken, and not read yet.
    taken: bool,
    /// Its file, and the number of the file's first block.
    file: usize,
    file_first: u64,
    open: Option<File>,
    decoder: JsonDecoder,
    builder: BlockBuilder,
    max_record_bytes: usize,
}

impl PlainReader {
    pub(super) fn new(lane: u32, files: Arc<[InputFile]>, plan: &DecodePlan, block_bytes: u64, turns: Turns) -> Self {
        PlainReader {
            lane,
            files,
            block_bytes: block_bytes.max(1),
            turns,
            index: 0,
            taken: false,
            file: 0,
            file_first: 0,
            open: None,
            decoder: JsonDecoder::new(plan),
            builder: BlockBuilder::new(plan),
            max_record_bytes: plan.max_record_bytes,
        }
    }

    fn read_block(&mut self, input: &InputFile, in_file: u64, last_of_file: bool) -> Result<DecodedBlock> {
        let start = in_file.saturating_mul(self.block_bytes);
        let end = start.saturating_add(self.block_bytes).min(input.size);
        let bytes = self.read_bytes(input, start, end).map_err(|error| input.unreadable(error))?;
        let own = usize::try_from(end - start.saturating_sub(1)).unwrap_or(usize::MAX).min(bytes.len());
        let from = if start == 0 {
            Some(mark_length(&bytes))
        } else {
            memchr::memchr(b'\n', bytes.get(..own).unwrap_or_default()).map(|line_end| line_end + 1)
        };
        let mut lines = 0;
        if let Some(from) = from {
            // The first record is the first block's, even if a byte order mark fills the block.
            let limit = if start == 0 { own.max(from + 1) } else { own };
            lines = self.decoder.decode(Region { bytes: &bytes, from, limit, eof: true }, &mut self.builder).lines;
        }
        let bytes = if lines > 0 { bytes } else { Vec::new() };
        let place = BlockPlace {
            lane: self.lane,
            index: self.index,
            file: u32::try_from(self.file).unwrap_or(u32::MAX),
            starts_file: in_file == 0,
            last: last_of_file && self.file + 1 == self.files.len(),
            input_bytes: end - start,
        };
        Ok(self.builder.finish(place, lines, bytes))
    }

    /// The bytes from the one before `start` to `end`, and on to the end of the line there.
    fn read_bytes(&mut self, input: &InputFile, start: u64, end: u64) -> std::io::Result<Vec<u8>> {
        let file = match &mut self.open {
            Some(file) => file,
            None => self.open.insert(File::open(&input.path)?),
        };
        let begin = start.saturating_sub(1);
        let own = usize::try_from(end - begin).map_err(|_| std::io::Error::from(ErrorKind::OutOfMemory))?;
        file.seek(SeekFrom::Start(begin))?;
        let mut bytes = Vec::with_capacity(own + TAIL_BYTES);
        let read = file.by_ref().take(end - begin).read_to_end(&mut bytes)?;
        if read < own {
            let message = "the file has become shorter since the run began";
            return Err(std::io::Error::new(ErrorKind::UnexpectedEof, message));
        }
        if end == input.size || bytes.last() == Some(&b'\n') {
            return Ok(bytes);
        }
        let Some(record) = memchr::memrchr(b'\n', &bytes).map(|line_end| line_end + 1).or((start == 0).then_some(0))
        else {
            return Ok(bytes);
        };
        let mut position = end;
        loop {
            // Two bytes more than a record may have (and a byte order mark) tell that it is too long.
            let room = (self.max_record_bytes + 5).saturating_sub(bytes.len() - record);
            let left = usize::try_from(input.size - position).unwrap_or(usize::MAX);
            let want = room.min(left).min(TAIL_BYTES);
            if want == 0 {
                return Ok(bytes);
            }
            let before = bytes.len();
            let read = file.by_ref().take(want as u64).read_to_end(&mut bytes)?;
            if let Some(line_end) = memchr::memchr(b'\n', bytes.get(before..).unwrap_or_default()) {
                bytes.truncate(before + line_end + 1);
                return Ok(bytes);
            }
            if read == 0 {
                return Ok(bytes);
            }
            position += read as u64;
        }
    }
}

impl LaneReader for PlainReader {
    fn next_block(&mut self) -> Result<Next> {
        if !self.taken {
            self.index = self.turns.take();
            self.taken = true;
        }
        let files = self.files.clone();
        while let Some(input) = files.get(self.file) {
            let blocks = blocks_of(input.size, self.block_bytes);
            let in_file = self.index - self.file_first;
            if in_file >= blocks {
                self.file += 1;
                self.file_first += blocks;
                self.open = None;
                continue;
            }
            let block = self.read_block(input, in_file, in_file + 1 == blocks)?;
            self.taken = false;
            return Ok(Next::Block(Box::new(block)));
        }
        self.open = None;
        Ok(Next::End)
    }

    fn suspend(&mut self) {
        self.open = None;
    }
}
