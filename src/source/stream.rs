//! Inputs that are read from front to back by one reader: compressed files, CSV, pipes, standard input.
//!
//! Blocks hold the records that start in the next `B` bytes of (decompressed) text. The bytes behind the last complete
//! record wait for the next block. Memory: one block, one record of at most 16 MiB, and for live inputs four blocks
//! read ahead by a thread.
//!
//! When reading fails half-way (a truncated archive), the complete records before the fault are delivered first, then the
//! error; an incomplete last record is not guessed at.

use super::csv::{CsvDecoder, HeaderCheck};
use super::decode::{BlockBuilder, BlockPlace, DecodePlan};
use super::files::{Compression, InputFile};
use super::frame::{Region, TextDecoder, mark_length};
use super::{LaneReader, Next};
use crate::error::{Error, Result};
use crate::plan::{CsvOptions, Format};
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// Blocks that the thread behind a live input may be ahead.
const BLOCKS_AHEAD: usize = 4;
/// How much compressed text is read at a time.
const COMPRESSED_BUFFER: usize = 64 << 10;
/// How much is read first to find a header.
const HEADER_BYTES: usize = 8 << 10;
/// How much of a line that is too long is passed over at a time.
const SKIPPED_AT_ONCE: usize = 64 << 10;

/// What a fill of the buffer came to.
#[derive(Debug)]
enum Fill {
    /// As many bytes as wanted, or a live input's share of them.
    Enough,
    /// There is nothing more, for good.
    Eof,
    /// There is nothing more now.
    Pending,
    /// Reading failed.
    Failed(Error),
}

/// A file that can be closed and opened again where it was left, and that counts what was read.
struct Reopening {
    file: InputFile,
    open: Option<File>,
    position: u64,
}

impl Read for Reopening {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let mut open = File::open(&self.file.path)?;
                if self.position > 0 {
                    open.seek(SeekFrom::Start(self.position))?;
                }
                self.open.insert(open)
            }
        };
        // A file counts with the size it had at first; what is no regular file has none.
        let room = if self.file.regular { self.file.size.saturating_sub(self.position) } else { u64::MAX };
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(out.len());
        let read = open.read(out.get_mut(..room).unwrap_or_default())?;
        if read == 0 && room > 0 && self.file.regular {
            let message = "the file has become shorter since the run began";
            return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, message));
        }
        self.position += read as u64;
        Ok(read)
    }
}

/// A handle to a [`Reopening`] that decompressors can own.
#[derive(Clone)]
struct Handle(Rc<RefCell<Reopening>>);

impl Read for Handle {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().read(out)
    }
}

/// The text of one file at a time, or of a live input.
enum Input {
    File { text: Box<dyn Read>, handle: Handle, counted: u64 },
    Live { name: String, chunks: Receiver<std::io::Result<Vec<u8>>>, counted: u64 },
}

/// A named pipe or a device. Opening one waits for its writer, so this is left to the thread that reads.
struct Unopened {
    path: PathBuf,
    open: Option<File>,
}

impl Read for Unopened {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(File::open(&self.path)?),
        };
        open.read(out)
    }
}

impl Input {
    /// A pipe gives what it has, and what waits for it can still be interrupted.
    fn of(file: &InputFile, block_bytes: usize) -> Result<Input> {
        if file.regular || file.compression != Compression::None {
            return Self::file(file);
        }
        let pipe = Unopened { path: file.path.clone(), open: None };
        Self::live(file.name.clone(), Box::new(pipe), block_bytes)
    }

    fn live(name: String, input: Box<dyn Read + Send>, block_bytes: usize) -> Result<Input> {
        let chunks = read_ahead(&name, input, block_bytes)?;
        Ok(Input::Live { name, chunks, counted: 0 })
    }

    fn file(file: &InputFile) -> Result<Input> {
        let handle = Handle(Rc::new(RefCell::new(Reopening { file: file.clone(), open: None, position: 0 })));
        let compressed = || BufReader::with_capacity(COMPRESSED_BUFFER, handle.clone());
        let text: Box<dyn Read> = match file.compression {
            // An empty file is no archive, but it is empty.
            _ if file.regular && file.size == 0 => Box::new(std::io::empty()),
            Compression::None => Box::new(handle.clone()),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(compressed())),
            Compression::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(compressed());
                Box::new(decoder.map_err(|error| file.unreadable(error))?)
            }
        };
        Ok(Input::File { text, handle, counted: 0 })
    }

    /// Reads until the buffer holds `want` bytes; a live input gives what it has.
    fn fill(&mut self, buffer: &mut Vec<u8>, want: usize) -> Fill {
        match self {
            Input::File { text, handle, .. } => {
                let missing = want.saturating_sub(buffer.len());
                if missing == 0 {
                    return Fill::Enough;
                }
                buffer.reserve(missing);
                match text.take(missing as u64).read_to_end(buffer) {
                    Ok(read) if read < missing => Fill::Eof,
                    Ok(_) => Fill::Enough,
                    Err(error) => Fill::Failed(handle.0.borrow().file.unreadable(error)),
                }
            }
            Input::Live { name, chunks, counted } => {
                while buffer.len() < want {
                    match chunks.try_recv() {
                        Ok(Ok(chunk)) => {
                            *counted += chunk.len() as u64;
                            buffer.extend_from_slice(&chunk);
                        }
                        Ok(Err(error)) => {
                            return Fill::Failed(Error::input("cannot read").at(&**name).with_source(error));
                        }
                        Err(TryRecvError::Empty) => return Fill::Pending,
                        Err(TryRecvError::Disconnected) => return Fill::Eof,
                    }
                }
                Fill::Enough
            }
        }
    }

    /// Input bytes read since the last call.
    fn take_count(&mut self) -> u64 {
        match self {
            Input::File { handle, counted, .. } => {
                let position = handle.0.borrow().position;
                let new = position - *counted;
                *counted = position;
                new
            }
            Input::Live { counted, .. } => std::mem::take(counted),
        }
    }

    fn suspend(&mut self) {
        if let Input::File { handle, .. } = self {
            let mut inner = handle.0.borrow_mut();
            if inner.file.regular {
                inner.open = None;
            }
        }
    }
}

/// Reads a lane from front to back.
pub(super) struct StreamReader {
    lane: u32,
    files: Arc<[InputFile]>,
    /// The file read now.
    file: usize,
    input: Option<Input>,
    block_bytes: usize,
    index: u64,
    starts_file: bool,
    /// Whether nothing of the file has been decoded yet: a byte order mark may come.
    at_start: bool,
    /// Text read and not decoded.
    buffer: Vec<u8>,
    eof: bool,
    /// Inside a line that was too long.
    skipping: bool,
    failed: Option<Error>,
    ended: bool,
    decoder: TextDecoder,
    builder: BlockBuilder,
}

impl StreamReader {
    /// For a lane of files. `None` if the format is not text.
    pub(super) fn files(
        lane: u32,
        files: Arc<[InputFile]>,
        format: &Format,
        plan: &DecodePlan,
        block_bytes: usize,
    ) -> Option<Self> {
        Some(StreamReader {
            lane,
            files,
            file: 0,
            input: None,
            block_bytes: block_bytes.max(1),
            index: 0,
            starts_file: true,
            at_start: true,
            buffer: Vec::new(),
            eof: false,
            skipping: false,
            failed: None,
            ended: false,
            decoder: TextDecoder::new(format, plan)?,
            builder: BlockBuilder::new(plan),
        })
    }

    /// For a live input, which a thread reads ahead.
    pub(super) fn live(
        input: Box<dyn Read + Send>,
        format: &Format,
        plan: &DecodePlan,
        block_bytes: usize,
    ) -> Result<Option<Self>> {
        let Some(mut out) = Self::files(0, Arc::from([]), format, plan, block_bytes) else { return Ok(None) };
        out.input = Some(Input::live("stdin".to_owned(), input, out.block_bytes)?);
        Ok(Some(out))
    }

    /// Where the input stands, for errors that do not say.
    fn place(&self) -> String {
        self.files.get(self.file).map_or_else(|| "stdin".to_owned(), |file| file.name.clone())
    }

    /// Drops what is left of a line that was too long.
    fn skip_line(&mut self) {
        if !self.skipping {
            return;
        }
        match memchr::memchr(b'\n', &self.buffer) {
            Some(line_end) => {
                self.buffer.drain(..=line_end);
                self.skipping = false;
            }
            None => self.buffer.clear(),
        }
    }

    /// Makes sure that `want` bytes are in the buffer, or all there are; false: nothing more now.
    fn fill(&mut self, want: usize) -> Result<bool> {
        while !self.eof && self.failed.is_none() && self.buffer.len() < want {
            let input = match &mut self.input {
                Some(input) => input,
                None => match self.files.get(self.file) {
                    Some(file) => self.input.insert(Input::of(file, self.block_bytes)?),
                    None => return Ok(true),
                },
            };
            let fill = input.fill(&mut self.buffer, want);
            self.skip_line();
            match fill {
                Fill::Enough => {}
                Fill::Eof => self.eof = true,
                Fill::Pending => return Ok(false),
                Fill::Failed(error) => self.failed = Some(error),
            }
        }
        Ok(true)
    }

    /// The block of what has been decoded.
    fn finish(&mut self, consumed: usize, lines: u64) -> Result<Next> {
        let rest = self.buffer.split_off(consumed);
        let bytes = std::mem::replace(&mut self.buffer, rest);
        if self.buffer.is_empty() {
            // Is this the end? That takes a look ahead.
            self.fill(if self.skipping { SKIPPED_AT_ONCE } else { 1 })?;
        }
        let file_ended = self.eof && self.buffer.is_empty();
        let place = BlockPlace {
            lane: self.lane,
            index: self.index,
            file: u32::try_from(self.file).unwrap_or(u32::MAX),
            starts_file: self.starts_file,
            last: file_ended && self.file + 1 >= self.files.len(),
            input_bytes: self.input.as_mut().map_or(0, Input::take_count),
        };
        self.index += 1;
        self.starts_file = false;
        if file_ended {
            self.ended = place.last;
            self.file += 1;
            self.input = None;
            self.eof = false;
            self.starts_file = true;
            self.at_start = true;
            self.skipping = false;
            self.decoder.start_file();
        }
        Ok(Next::Block(Box::new(self.builder.finish(place, lines, bytes))))
    }
}

impl LaneReader for StreamReader {
    fn next_block(&mut self) -> Result<Next> {
        if self.ended {
            return Ok(Next::End);
        }
        // One byte more than a block tells whether it is the last; three may be a byte order mark.
        let mut want = self.block_bytes.saturating_add(4);
        loop {
            let more = self.fill(want)?;
            if self.at_start && self.buffer.len() < 3 && !more {
                return Ok(Next::Pending);
            }
            let from = if self.at_start { mark_length(&self.buffer) } else { 0 };
            let region =
                Region { bytes: &self.buffer, from, limit: self.block_bytes.saturating_add(from), eof: self.eof };
            let taken = self.decoder.decode(region, &mut self.builder);
            let taken = taken.map_err(|error| if error.place().is_none() { error.at(self.place()) } else { error })?;
            self.skipping = taken.skip_line;
            if taken.bytes > from || (self.eof && taken.bytes == self.buffer.len()) {
                self.at_start = false;
                return self.finish(taken.bytes, taken.lines);
            }
            debug_assert!(self.builder.is_empty(), "records were decoded, yet nothing was consumed");
            if let Some(error) = self.failed.take() {
                self.ended = true;
                return Err(error);
            }
            if !more {
                return Ok(Next::Pending);
            }
            want = self.buffer.len().max(self.block_bytes).saturating_mul(2);
        }
    }

    fn suspend(&mut self) {
        if let Some(input) = &mut self.input {
            input.suspend();
        }
    }
}

/// Starts a thread that reads pieces of at most a block and waits when four of them are not yet taken.
fn read_ahead(
    name: &str,
    mut input: Box<dyn Read + Send>,
    block_bytes: usize,
) -> Result<Receiver<std::io::Result<Vec<u8>>>> {
    let (sender, chunks) = sync_channel(BLOCKS_AHEAD);
    let thread = std::thread::Builder::new().name("read-ahead".to_owned());
    let spawned = thread.spawn(move || {
        let mut buffer = vec![0; block_bytes];
        loop {
            let chunk = match input.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => Ok(buffer.get(..read).unwrap_or_default().to_vec()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let failed = chunk.is_err();
            if sender.send(chunk).is_err() || failed {
                return;
            }
        }
    });
    spawned.map_err(|error| Error::input("cannot start a thread to read").at(name).with_source(error))?;
    Ok(chunks)
}

/// Checks that the header of a CSV file names the declared columns. What cannot be read is left to the reader.
///
/// # Errors
/// When it does not; the place is the file.
pub(super) fn check_header(file: &InputFile, options: &CsvOptions, plan: &DecodePlan) -> Result<()> {
    if !options.header || !file.regular {
        return Ok(());
    }
    let mut decoder = CsvDecoder::new(options, plan);
    let Ok(mut input) = Input::file(file) else { return Ok(()) };
    let mut bytes = Vec::new();
    let mut want = HEADER_BYTES;
    while want <= plan.max_record_bytes {
        let fill = input.fill(&mut bytes, want);
        if let Fill::Failed(_) = fill {
            return Ok(());
        }
        let check = decoder.check_header(&bytes, matches!(fill, Fill::Eof)).map_err(|error| error.at(&*file.name))?;
        if check == HeaderCheck::Done {
            return Ok(());
        }
        want = want.saturating_mul(4);
    }
    Ok(())
}
