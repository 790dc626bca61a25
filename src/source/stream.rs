//! Inputs that are read from front to back by one reader: compressed files, CSV, pipes, standard input.
//!
//! Blocks hold the records that start in the next `B` bytes of (decompressed) text. The bytes behind the last complete
//! record wait for the next block. Memory: one block, one record of at most 16 MiB, and for live inputs (standard input,
//! pipes, devices, compressed or not) four blocks read ahead by a thread.
//!
//! When reading fails half-way (a truncated archive), the complete records before the fault are delivered first, then the
//! error; an incomplete last record is not guessed at.

use super::csv::{CsvDecoder, HeaderCheck};
use super::decode::{BlockBuilder, BlockPlace, DecodePlan};
use super::files::{Compression, InputFile};
use super::frame::{Region, TextDecoder, mark_length};
use super::gzip::Members;
use super::{LaneReader, Next};
use crate::error::{Error, Result};
use crate::plan::{CsvOptions, Format};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// Blocks that the thread behind a live input may be ahead.
const BLOCKS_AHEAD: usize = 4;
/// How much compressed text is read at a time.
const COMPRESSED_BUFFER: usize = 64 << 10;
/// How much is read first to find a header.
const HEADER_BYTES: usize = 8 << 10;
/// The name of standard input.
const STDIN: &str = "stdin";
const NO_THREAD: &str = "cannot start a thread to read";
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

/// A regular file that can be closed and opened again where it was left, and that counts what was read.
struct Reopening {
    file: InputFile,
    open: Option<File>,
    position: u64,
}

impl Reopening {
    /// The file where it was left, and how many of `want` bytes may be read: it counts with the size it had at first.
    fn at_position(&mut self, want: usize) -> std::io::Result<(&mut File, usize)> {
        let room = self.file.size.saturating_sub(self.position);
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(want);
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let mut open = File::open(&self.file.path)?;
                if self.position > 0 {
                    open.seek(SeekFrom::Start(self.position))?;
                }
                open
            }
        };
        Ok((self.open.insert(open), room))
    }

    /// Appends the next `want` bytes, or all there are. Memory is not zeroed first, as it is for any reader.
    fn append(&mut self, buffer: &mut Vec<u8>, want: usize) -> std::io::Result<usize> {
        let before = buffer.len();
        let (open, room) = self.at_position(want)?;
        let result = open.take(room as u64).read_to_end(buffer);
        let read = buffer.len() - before;
        self.position += read as u64;
        result?;
        if read < room { Err(shorter()) } else { Ok(read) }
    }
}

fn shorter() -> std::io::Error {
    std::io::Error::new(ErrorKind::UnexpectedEof, "the file has become shorter since the run began")
}

impl Read for Reopening {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let (open, room) = self.at_position(out.len())?;
        let read = open.read(out.get_mut(..room).unwrap_or_default())?;
        if read == 0 && room > 0 {
            return Err(shorter());
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

/// Counts what is read through it.
struct Counted<R> {
    input: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(out)?;
        self.read.set(self.read.get() + read as u64);
        Ok(read)
    }
}

/// The text that compressed bytes stand for. Reads the first of them.
fn decompressed<'a>(compression: Compression, bytes: impl Read + 'a) -> std::io::Result<Box<dyn Read + 'a>> {
    if compression == Compression::None {
        return Ok(Box::new(bytes));
    }
    let mut bytes = BufReader::with_capacity(COMPRESSED_BUFFER, bytes);
    let empty = loop {
        match bytes.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            first => break first?.is_empty(),
        }
    };
    Ok(match compression {
        // An empty file is no archive, but it is empty.
        _ if empty => Box::new(std::io::empty()),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(bytes)?),
        Compression::Gzip | Compression::None => Box::new(Members::new(bytes)),
    })
}

/// The text of one file at a time, or of a live input.
enum Input {
    /// `text`: what the file's bytes stand for, if it is compressed.
    File { text: Option<Box<dyn Read>>, handle: Handle, counted: u64 },
    /// `file`: what is read, if it is not standard input.
    Live { file: Option<InputFile>, pieces: Receiver<std::io::Result<Piece>>, counted: u64 },
}

impl Input {
    /// A pipe gives what it has, and what waits for it can still be interrupted. Opening one waits for its writer, so this
    /// too is left to the thread that reads.
    fn of(file: &InputFile, block_bytes: usize) -> Result<Input> {
        if file.regular {
            return Self::file(file);
        }
        let path = file.path.clone();
        let open = move || File::open(path);
        let pieces = read_ahead(open, file.compression, block_bytes)
            .map_err(|error| Error::input(NO_THREAD).at(&*file.name).with_source(error))?;
        Ok(Input::Live { file: Some(file.clone()), pieces, counted: 0 })
    }

    fn stdin(input: Box<dyn Read + Send>, block_bytes: usize) -> Result<Input> {
        let pieces = read_ahead(move || Ok(input), Compression::None, block_bytes)
            .map_err(|error| Error::input(NO_THREAD).at(STDIN).with_source(error))?;
        Ok(Input::Live { file: None, pieces, counted: 0 })
    }

    fn file(file: &InputFile) -> Result<Input> {
        let handle = Handle(Rc::new(RefCell::new(Reopening { file: file.clone(), open: None, position: 0 })));
        let text = match file.compression {
            Compression::None => None,
            compression => Some(decompressed(compression, handle.clone()).map_err(|error| file.unreadable(error))?),
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
                let read = match text {
                    Some(text) => text.take(missing as u64).read_to_end(buffer),
                    None => handle.0.borrow_mut().append(buffer, missing),
                };
                match read {
                    Ok(read) if read < missing => Fill::Eof,
                    Ok(_) => Fill::Enough,
                    Err(error) => Fill::Failed(handle.0.borrow().file.unreadable(error)),
                }
            }
            Input::Live { file, pieces, counted } => {
                while buffer.len() < want {
                    let error = match pieces.try_recv() {
                        Ok(Ok(piece)) if piece.text.is_empty() => {
                            *counted += piece.input_bytes;
                            return Fill::Eof;
                        }
                        Ok(Ok(piece)) => {
                            *counted += piece.input_bytes;
                            buffer.extend_from_slice(&piece.text);
                            continue;
                        }
                        Ok(Err(error)) => error,
                        Err(TryRecvError::Empty) => return Fill::Pending,
                        Err(TryRecvError::Disconnected) => std::io::Error::other("the thread that reads it has died"),
                    };
                    return Fill::Failed(match file {
                        Some(file) => file.unreadable(error),
                        None => Error::input("cannot read").at(STDIN).with_source(error),
                    });
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
            handle.0.borrow_mut().open = None;
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
        out.input = Some(Input::stdin(input, out.block_bytes)?);
        Ok(Some(out))
    }

    /// Where the input stands, for errors that do not say.
    fn place(&self) -> String {
        self.files.get(self.file).map_or_else(|| STDIN.to_owned(), |file| file.name.clone())
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
                    Some(file) => match Input::of(file, self.block_bytes) {
                        Ok(input) => self.input.insert(input),
                        Err(error) => {
                            self.failed = Some(error);
                            break;
                        }
                    },
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

/// What a thread has read ahead.
struct Piece {
    /// Empty: the input has ended. A thread that ends without saying so has failed.
    text: Vec<u8>,
    /// Bytes read for it, compressed ones if it was.
    input_bytes: u64,
}

/// Starts a thread that opens an input, reads pieces of at most a block and waits when four of them are not yet taken. The
/// thread that calls this is the one that takes them: it is woken when one is there.
fn read_ahead<R: Read>(
    open: impl FnOnce() -> std::io::Result<R> + Send + 'static,
    compression: Compression,
    block_bytes: usize,
) -> std::io::Result<Receiver<std::io::Result<Piece>>> {
    let (sender, pieces) = sync_channel(BLOCKS_AHEAD);
    let thread = std::thread::Builder::new().name("read-ahead".to_owned());
    let taker = std::thread::current();
    thread.spawn(move || {
        // Fails if nobody takes it any more; then there is nothing left to do.
        let send = |piece| {
            let sent = sender.send(piece).is_ok();
            // It may be parked, having found nothing: waiting for the end of that would add to every result's latency.
            taker.unpark();
            sent
        };
        if let Err(error) = read_pieces(open, compression, block_bytes, |piece| send(Ok(piece))) {
            send(Err(error));
        }
    })?;
    Ok(pieces)
}

/// Hands over piece after piece, the empty one last, as long as they are taken.
fn read_pieces<R: Read>(
    open: impl FnOnce() -> std::io::Result<R>,
    compression: Compression,
    block_bytes: usize,
    give: impl Fn(Piece) -> bool,
) -> std::io::Result<()> {
    let read = Rc::new(Cell::new(0));
    let mut input = decompressed(compression, Counted { input: open()?, read: Rc::clone(&read) })?;
    let mut buffer = vec![0; block_bytes];
    loop {
        let length = match input.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            length => length?,
        };
        let text = buffer.get(..length).unwrap_or_default().to_vec();
        if !give(Piece { text, input_bytes: read.take() }) || length == 0 {
            return Ok(());
        }
    }
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
