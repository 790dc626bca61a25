//! Files as a source: which there are, in which lanes they stand, and how each is read.
//!
//! One lane a file; with a partition column one lane for all of them, in bytewise order of their paths. Uncompressed
//! NDJSON is cut into blocks that all workers share ([`super::plain`]); everything else is read from front to back by
//! the lane's owner ([`super::stream`]).

use super::decode::DecodePlan;
use super::gzip::Trailing;
use super::plain::PlainReader;
use super::stream::{self, StreamReader};
use super::{LaneInfo, LaneReader, ListedFile, Source, SourceOptions, Turns, failing};
use crate::error::{Error, Result};
use crate::plan::{Format, TablePlan};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Blocks are not made smaller than this for the sake of more workers.
const SMALL_BLOCK: u64 = 64 << 10;
/// Offsets within a block are 32 bits wide, and the last record reaches over its end.
const LARGEST_BLOCK: usize = 1 << 30;

/// How a file is compressed, by its suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|suffix| suffix.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("gz" | "gzip") => Compression::Gzip,
            Some("zst" | "zstd") => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// A file to be read.
#[derive(Clone, Debug)]
pub(super) struct InputFile {
    pub(super) path: PathBuf,
    /// The path for messages.
    pub(super) name: String,
    /// Its size when it was found; what is added later does not count.
    pub(super) size: u64,
    /// Not a pipe or device: has a size, and can be opened again.
    pub(super) regular: bool,
    pub(super) compression: Compression,
}

impl InputFile {
    fn new(path: PathBuf) -> Result<Self> {
        let name = path.to_string_lossy().into_owned();
        let metadata = std::fs::metadata(&path).map_err(|error| not_found(&name, error))?;
        if metadata.is_dir() {
            let hint = format!(
                "to read the files in it, write path = '{}/*.ndjson' or a pattern of that kind",
                name.trim_end_matches('/')
            );
            return Err(Error::input("expected a file, found a directory").at(name).with_hint(hint));
        }
        let compression = Compression::of(&path);
        Ok(InputFile { path, name, size: metadata.len(), regular: metadata.is_file(), compression })
    }

    /// A file of which process 0 of a cluster has said this.
    fn listed(file: &ListedFile) -> Self {
        let path = PathBuf::from(&file.path);
        let compression = Compression::of(&path);
        let (size, regular) = (file.bytes.unwrap_or(0), file.bytes.is_some());
        InputFile { path, name: file.path.clone(), size, regular, compression }
    }

    /// An error of reading, in words.
    pub(super) fn unreadable(&self, error_of_reading: std::io::Error) -> Error {
        let error_kind = error_of_reading.kind();
        let truncated = error_kind == ErrorKind::UnexpectedEof;
        let trailing = error_of_reading.get_ref().is_some_and(|source| source.is::<Trailing>());
        let message = match self.compression {
            // That is the file's fault, whatever is in it.
            _ if error_kind == ErrorKind::PermissionDenied => "cannot open the file",
            Compression::Gzip if truncated => "truncated gzip data",
            Compression::Gzip if trailing => "expected another gzip member or the end of the file, found other bytes",
            Compression::Zstd if truncated => "truncated zstd data",
            Compression::Gzip => "cannot read gzip data",
            Compression::Zstd => "cannot read zstd data",
            Compression::None => "cannot read",
        };
        let error = Error::input(message).at(&*self.name);
        if trailing {
            return error.with_hint("the records before them were read; cut off what is not compressed");
        }
        let error = error.with_source(error_of_reading);
        if truncated && self.compression != Compression::None {
            return error.with_hint("the file ends before its last record does; records before the break were read");
        }
        if error_kind == ErrorKind::InvalidInput && self.compression == Compression::Gzip {
            return error.with_hint("its name says gzip; if it is not compressed, rename it");
        }
        error
    }
}

/// A file that cannot be looked at, in words.
fn not_found(name: &str, error: std::io::Error) -> Error {
    if error.kind() == ErrorKind::NotFound {
        let hint = format!("paths are relative to {}", directory_in_words());
        return Error::input("expected a file, found nothing").at(name).with_hint(hint);
    }
    Error::input("cannot look at the file").at(name).with_source(error)
}

fn directory_in_words() -> String {
    std::env::current_dir().map_or_else(|_| "the current directory".to_owned(), |path| path.display().to_string())
}

/// A pattern is matched against texts, and would pass over a file whose name is none without a word.
fn refuse_unreadable_names(pattern: &str) -> Result<()> {
    let directory = match pattern.rsplit_once('/') {
        Some((directory, _)) if directory.contains(['*', '?', '[']) => return Ok(()),
        Some(("", _)) => Path::new("/"),
        Some((directory, _)) => Path::new(directory),
        None => Path::new("."),
    };
    // One that cannot be listed is the pattern's to complain of.
    let Ok(entries) = std::fs::read_dir(directory) else { return Ok(()) };
    match entries.flatten().map(|entry| entry.file_name()).find(|name| name.to_str().is_none()) {
        Some(name) => {
            let place = directory.join(name).to_string_lossy().into_owned();
            Err(Error::input(
                "the name of a file beside those of the pattern is not UTF-8: whether it is meant is unknown",
            )
            .at(place)
            .with_hint("rename it, or move it elsewhere"))
        }
        None => Ok(()),
    }
}

/// The files that a path or pattern names, in bytewise order.
///
/// # Errors
/// When there is none, one is a directory, or the pattern is broken.
fn discover(path: &str) -> Result<Vec<InputFile>> {
    // A file may have a bracket in its name.
    if !path.contains(['*', '?', '[']) || Path::new(path).exists() {
        return Ok(vec![InputFile::new(PathBuf::from(path))?]);
    }
    let paths = glob::glob(path).map_err(|error| {
        Error::usage(format!("\"{path}\" is no pattern of paths: {} at character {}", error.msg, error.pos + 1))
            .with_hint("* stands for any text, ? for one character, ** for directories, [ab] for a or b, [[] for [")
    })?;
    refuse_unreadable_names(path)?;
    let mut files = Vec::new();
    let mut directories = 0;
    for found in paths {
        let found = found.map_err(|error| {
            let name = error.path().display().to_string();
            Error::input("cannot list the directory").at(name).with_source(error)
        })?;
        if found.is_dir() {
            directories += 1;
            continue;
        }
        files.push(InputFile::new(found)?);
    }
    if files.is_empty() {
        let error = Error::input(format!("expected files like \"{path}\", found none"));
        return Err(match directories {
            0 => error.with_hint(format!("paths are relative to {}", directory_in_words())),
            n => error.with_hint(format!("{n} directories match; add /* to read the files in them")),
        });
    }
    files.sort_by(|a, b| a.path.as_os_str().as_encoded_bytes().cmp(b.path.as_os_str().as_encoded_bytes()));
    files.dedup_by(|a, b| a.path == b.path);
    Ok(files)
}

/// Headers name the declared columns.
fn check_columns(files: &[InputFile], format: &Format, plan: &DecodePlan) -> Result<()> {
    for file in files {
        match format {
            Format::Csv(csv) => stream::check_header(file, csv, plan)?,
            #[cfg(feature = "parquet")]
            Format::Parquet => super::parquet::check_columns(file, plan)?,
            _ => {}
        }
    }
    Ok(())
}

/// Files ready to be read.
pub(super) struct FileSource {
    lanes: Vec<LaneInfo>,
    files: Vec<Arc<[InputFile]>>,
    format: Format,
    plan: DecodePlan,
    block_bytes: usize,
}

impl FileSource {
    /// Looks for the files and checks what can be checked before reading.
    ///
    /// # Errors
    /// When a file is missing, or a header does not name the declared columns.
    pub(super) fn open(
        table: &TablePlan,
        (path, format): (&str, &Format),
        plan: DecodePlan,
        options: &SourceOptions,
    ) -> Result<Self> {
        Self::assemble(discover(path)?, table, (path, format), plan, options, true)
    }

    /// A source over files that process 0 of a cluster has found; only those are looked at that `reads` picks, by lane.
    ///
    /// # Errors
    /// When one of those is missing, has another size, or has a header that does not name the declared columns.
    pub(super) fn listed(
        listed: &[ListedFile],
        table: &TablePlan,
        source: (&str, &Format),
        plan: DecodePlan,
        options: &SourceOptions,
        reads: &dyn Fn(&[LaneInfo], usize) -> bool,
    ) -> Result<Self> {
        let files = listed.iter().map(InputFile::listed).collect();
        let out = Self::assemble(files, table, source, plan.clone(), options, false)?;
        for (_, files) in out.files.iter().enumerate().filter(|(lane, _)| reads(&out.lanes, *lane)) {
            for file in files.iter() {
                let found = InputFile::new(file.path.clone())
                    .map_err(|e| Error::input(format!("lacks {}", file.name)).with_source(e))?;
                if (found.size, found.regular) != (file.size, file.regular) && file.regular {
                    let message = format!("has {} bytes of {}, expected {}", found.size, file.name, file.size);
                    return Err(Error::input(message));
                }
            }
            check_columns(files, source.1, &plan)?;
        }
        Ok(out)
    }

    fn assemble(
        files: Vec<InputFile>,
        table: &TablePlan,
        (path, format): (&str, &Format),
        plan: DecodePlan,
        options: &SourceOptions,
        check: bool,
    ) -> Result<Self> {
        if check {
            check_columns(&files, format, &plan)?;
        }
        let total: u64 = files.iter().map(|file| file.size).fold(0, u64::saturating_add);
        // Small inputs are cut finer, so that every worker finds something to do.
        let fine = total / (options.workers.max(1) as u64 * 4);
        let largest = options.block_bytes.clamp(1, LARGEST_BLOCK);
        let block_bytes = usize::try_from(fine.max(SMALL_BLOCK)).map_or(largest, |fine| fine.min(largest));
        let groups: Vec<(String, Vec<InputFile>)> = if table.partition.is_some() {
            vec![(path.to_owned(), files)]
        } else {
            files.into_iter().map(|file| (file.name.clone(), vec![file])).collect()
        };
        let mut out = FileSource { lanes: Vec::new(), files: Vec::new(), format: format.clone(), plan, block_bytes };
        for (name, files) in groups {
            let regular = files.iter().all(|file| file.regular);
            let plain = files.iter().all(|file| file.compression == Compression::None);
            out.lanes.push(LaneInfo {
                name,
                bytes: regular.then(|| files.iter().map(|file| file.size).fold(0, u64::saturating_add)),
                splittable: regular && plain && *format == Format::Json,
                files: files.iter().map(|file| file.name.clone()).collect(),
            });
            out.files.push(files.into());
        }
        Ok(out)
    }

    #[cfg(test)]
    pub(super) fn limit_records(&mut self, max_record_bytes: usize) {
        self.plan.max_record_bytes = max_record_bytes;
    }

    /// A reader for the format; Parquet needs the cargo feature.
    fn reader(&self, lane: u32, files: Arc<[InputFile]>) -> Box<dyn LaneReader> {
        match StreamReader::files(lane, files.clone(), &self.format, &self.plan, self.block_bytes) {
            Some(reader) => Box::new(reader),
            #[cfg(feature = "parquet")]
            None => Box::new(super::parquet::ParquetReader::new(lane, files, &self.plan)),
            #[cfg(not(feature = "parquet"))]
            None => failing(super::no_parquet()),
        }
    }
}

impl Source for FileSource {
    fn lanes(&self) -> &[LaneInfo] {
        &self.lanes
    }
    fn files(&self) -> Vec<ListedFile> {
        let listed =
            |file: &InputFile| ListedFile { path: file.name.clone(), bytes: file.regular.then_some(file.size) };
        self.files.iter().flat_map(|files| files.iter()).map(listed).collect()
    }

    fn open(&self, lane: usize, turns: Turns) -> Box<dyn LaneReader> {
        let number = u32::try_from(lane).unwrap_or(u32::MAX);
        let (Some(info), Some(files)) = (self.lanes.get(lane), self.files.get(lane)) else {
            return failing(Error::input(format!("there is no lane {lane}")));
        };
        if info.splittable {
            let block_bytes = self.block_bytes as u64;
            return Box::new(PlainReader::new(number, files.clone(), &self.plan, block_bytes, turns));
        }
        self.reader(number, files.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever runs the tests may be allowed to read everything, so that the system would not say this.
    #[test]
    fn files_that_must_not_be_read() {
        let denied = || std::io::Error::from_raw_os_error(13);
        assert_eq!(denied().kind(), ErrorKind::PermissionDenied);
        let error = not_found("locked/a.ndjson", denied());
        assert_eq!(error.kind(), crate::ErrorKind::Input);
        assert_eq!(error.to_string(), "locked/a.ndjson: cannot look at the file: Permission denied (os error 13)");
        for name in ["a.ndjson", "a.csv.gz", "a.ndjson.zst"] {
            let (path, compression) = (PathBuf::from(name), Compression::of(Path::new(name)));
            let file = InputFile { path, name: name.to_owned(), size: 1, regular: true, compression };
            let error = file.unreadable(denied());
            assert_eq!(error.kind(), crate::ErrorKind::Input);
            assert_eq!(error.hint(), None);
            assert_eq!(error.to_string(), format!("{name}: cannot open the file: Permission denied (os error 13)"));
        }
    }
}
