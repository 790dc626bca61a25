//! What the text formats share: the piece of input they are given, and how much of it they took.

use super::csv::CsvDecoder;
use super::decode::{BlockBuilder, DecodePlan};
use super::json::JsonDecoder;
use crate::error::Result;
use crate::plan::Format;

/// The mark some editors put before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A piece of input at the start of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region<'b> {
    /// All that has been read of the block.
    pub(super) bytes: &'b [u8],
    /// Where the first record starts.
    pub(super) from: usize,
    /// Records that start here or later are left to the next block.
    pub(super) limit: usize,
    /// Whether the last record ends with the bytes.
    pub(super) eof: bool,
}

impl<'b> Region<'b> {
    /// The longest valid text from `from` on: checked in one go, as most blocks are valid throughout.
    pub(super) fn valid_text(&self) -> &'b str {
        let bytes = self.bytes.get(self.from..).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_else(|error| {
            bytes.get(..error.valid_up_to()).and_then(|valid| std::str::from_utf8(valid).ok()).unwrap_or_default()
        })
    }
}

/// What has been taken of a [`Region`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Consumed {
    /// Offset behind the last record taken, within the region's bytes.
    pub(super) bytes: usize,
    /// Lines that start in what was taken.
    pub(super) lines: u64,
    /// Whether the rest of the last line, which was too long, is still to be passed over.
    pub(super) skip_line: bool,
}

/// The line without a carriage return at its end.
pub(super) fn trim_line_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Length of a byte order mark at the start of a file.
pub(super) fn mark_length(bytes: &[u8]) -> usize {
    if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 }
}

/// A text format at work.
#[derive(Debug)]
pub(super) enum TextDecoder {
    Json(JsonDecoder),
    Csv(Box<CsvDecoder>),
}

impl TextDecoder {
    /// `None` if the format is not text.
    pub(super) fn new(format: &Format, plan: &DecodePlan) -> Option<Self> {
        match format {
            Format::Json => Some(TextDecoder::Json(JsonDecoder::new(plan))),
            Format::Csv(options) => Some(TextDecoder::Csv(Box::new(CsvDecoder::new(options, plan)))),
            Format::Parquet => None,
        }
    }

    /// A new file begins: its header is still to come.
    pub(super) fn start_file(&mut self) {
        if let TextDecoder::Csv(csv) = self {
            csv.start_file();
        }
    }

    /// Decodes the records that start in the region and are complete.
    ///
    /// # Errors
    /// When the header does not name the declared columns (no place given).
    pub(super) fn decode(&mut self, region: Region<'_>, out: &mut BlockBuilder) -> Result<Consumed> {
        match self {
            TextDecoder::Json(json) => Ok(json.decode(region, out)),
            TextDecoder::Csv(csv) => csv.decode(region, out),
        }
    }
}
