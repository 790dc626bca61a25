//! Where bytes go: standard output, shared by all sinks of the run, or a file written aside and renamed.
//!
//! Invariants: whole rows only reach standard output, also when several sinks share it; a closed pipe is an outcome
//! ([`Flow::Closed`]), not an error; a file is either complete under its name or absent: the bytes go to a temporary file in
//! the same directory, which replaces the target in one rename when the run finishes and vanishes when it does not.
//! A target that exists and is no regular file (a named pipe, `/dev/null`) cannot be replaced and is written directly.

use super::Flow;
use crate::error::{Error, Result};
use crate::plan::{Program, SinkTarget};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::NamedTempFile;

/// Bytes collected before they are written.
const BUFFER_BYTES: usize = 64 * 1024;

/// Standard output as all sinks of a run share it. Cheap to clone.
#[derive(Clone)]
pub struct StdoutHandle(Arc<Mutex<Shared>>);

struct Shared {
    write: Box<dyn Write + Send>,
    writers: usize,
    last: Option<usize>,
    closed: bool,
}

impl std::fmt::Debug for StdoutHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StdoutHandle")
    }
}

impl Default for StdoutHandle {
    fn default() -> Self {
        Self::new(Box::new(io::stdout()))
    }
}

impl StdoutHandle {
    /// Anything that stands for standard output.
    pub fn new(write: Box<dyn Write + Send>) -> Self {
        StdoutHandle(Arc::new(Mutex::new(Shared { write, writers: 0, last: None, closed: false })))
    }

    fn with<T>(&self, run: impl FnOnce(&mut Shared) -> T) -> T {
        // A panic elsewhere leaves nothing half-changed here: whole rows are written by one call.
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn register(&self) -> usize {
        self.with(|shared| {
            shared.writers += 1;
            shared.writers
        })
    }

    fn write(&self, writer: usize, bytes: &[u8]) -> Result<Flow> {
        self.with(|shared| {
            if shared.closed || bytes.is_empty() {
                return Ok(if shared.closed { Flow::Closed } else { Flow::Open });
            }
            shared.last = Some(writer);
            let result = shared.write.write_all(bytes).and_then(|()| shared.write.flush());
            let flow = closed_pipe(result).map_err(|e| write_error("standard output", e))?;
            shared.closed = flow == Flow::Closed;
            Ok(flow)
        })
    }
}

/// One sink's own way to its target: rows are appended to [`Output::text`] and go out whole.
#[derive(Debug)]
pub struct Output {
    kind: Kind,
    text: String,
}

#[derive(Debug)]
enum Kind {
    Stdout(StdoutHandle, usize),
    File(TargetFile),
}

impl Output {
    /// Standard output.
    pub fn stdout(handle: &StdoutHandle) -> Output {
        Output { kind: Kind::Stdout(handle.clone(), handle.register()), text: String::new() }
    }

    /// A file; see [`TargetFile::create`].
    ///
    /// # Errors
    /// When it cannot be created; the error names the path.
    pub fn file(path: impl AsRef<Path>) -> Result<Output> {
        Ok(Output { kind: Kind::File(TargetFile::create(path)?), text: String::new() })
    }

    /// The rows not yet written. Append whole rows, then call [`Output::row_done`].
    pub fn text(&mut self) -> &mut String {
        &mut self.text
    }

    /// Says that the text ends with a whole row: writes if enough has come together.
    ///
    /// # Errors
    /// When the bytes cannot be written.
    pub fn row_done(&mut self) -> Result<Flow> {
        if self.text.len() < BUFFER_BYTES { Ok(Flow::Open) } else { self.write() }
    }

    /// Whether a reader may be waiting: standard output, as opposed to a file that appears at the end.
    pub fn is_live(&self) -> bool {
        matches!(self.kind, Kind::Stdout(..))
    }

    /// Whether other sinks write to the same place.
    pub fn is_shared(&self) -> bool {
        matches!(&self.kind, Kind::Stdout(handle, _) if handle.with(|shared| shared.writers > 1))
    }

    /// Whether another sink has written to the same place since this one did, or this one never has.
    pub fn is_interrupted(&self) -> bool {
        matches!(&self.kind, Kind::Stdout(handle, own) if handle.with(|shared| shared.last != Some(*own)))
    }

    /// Whether anything at all, of any sink, has gone to the same place.
    pub fn is_begun(&self) -> bool {
        matches!(&self.kind, Kind::Stdout(handle, _) if handle.with(|shared| shared.last.is_some()))
    }

    /// Hands what there is to a waiting reader; a file is left alone.
    ///
    /// # Errors
    /// When the bytes cannot be written.
    pub fn flush(&mut self) -> Result<Flow> {
        if self.is_live() { self.write() } else { Ok(Flow::Open) }
    }

    fn write(&mut self) -> Result<Flow> {
        let flow = match &mut self.kind {
            Kind::Stdout(handle, own) => handle.write(*own, self.text.as_bytes()),
            Kind::File(file) => file.write(self.text.as_bytes()),
        };
        self.text.clear();
        flow
    }

    /// Writes the rest; a file takes its name.
    ///
    /// # Errors
    /// When the bytes cannot be written or the file not renamed.
    pub fn finish(mut self) -> Result<Flow> {
        let flow = self.write()?;
        match self.kind {
            Kind::Stdout(..) => Ok(flow),
            Kind::File(file) => Ok(flow.and(file.finish()?)),
        }
    }
}

/// A file written aside and renamed by [`TargetFile::finish`]. Dropped before that, it leaves nothing behind and whatever
/// stood at the path untouched.
#[derive(Debug)]
pub struct TargetFile {
    path: PathBuf,
    file: Inner,
    closed: bool,
}

#[derive(Debug)]
enum Inner {
    Aside(BufWriter<NamedTempFile>, PathBuf),
    Direct(BufWriter<File>),
}

impl TargetFile {
    /// Opens a temporary file beside `path`, creating directories that are missing. A symbolic link is followed.
    ///
    /// # Errors
    /// When the path is a directory or nothing can be created there; the error names the path.
    pub fn create(path: impl AsRef<Path>) -> Result<TargetFile> {
        let path = path.as_ref();
        let fail = |e: io::Error| Error::output("cannot create the file").at(path.display().to_string()).with_source(e);
        let file = match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                return Err(Error::output("expected a file to write, found a directory").at(path.display().to_string()));
            }
            Ok(found) if !found.is_file() => Inner::Direct(BufWriter::with_capacity(
                BUFFER_BYTES,
                File::options().write(true).open(path).map_err(fail)?,
            )),
            Ok(_) => Inner::aside(&path.canonicalize().map_err(fail)?).map_err(fail)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(directory_of(path)).map_err(fail)?;
                Inner::aside(path).map_err(fail)?
            }
            Err(e) => return Err(fail(e)),
        };
        Ok(TargetFile { path: path.to_owned(), file, closed: false })
    }

    /// The path as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends bytes. `Closed` only if the path is a pipe without a reader.
    ///
    /// # Errors
    /// When the bytes cannot be written; the error names the path.
    pub fn write(&mut self, bytes: &[u8]) -> Result<Flow> {
        let result = self.write_all(bytes);
        self.outcome(result)
    }

    fn outcome(&mut self, result: io::Result<()>) -> Result<Flow> {
        let flow = match &self.file {
            Inner::Direct(_) => closed_pipe(result),
            Inner::Aside(..) => result.map(|()| Flow::Open),
        };
        let flow = flow.map_err(|e| write_error(&self.path.display().to_string(), e))?;
        self.closed |= flow == Flow::Closed;
        Ok(if self.closed { Flow::Closed } else { Flow::Open })
    }

    /// Completes the file: what was written takes the path's name.
    ///
    /// # Errors
    /// When the rest cannot be written or the file not renamed; then nothing is left behind.
    pub fn finish(mut self) -> Result<Flow> {
        let flushed = self.flush();
        let flow = self.outcome(flushed)?;
        let path = self.path;
        match self.file {
            Inner::Direct(file) => drop(file.into_parts()),
            Inner::Aside(file, target) => {
                let fail = |e: io::Error| write_error(&path.display().to_string(), e);
                let file = file.into_inner().map_err(|e| fail(e.into_error()))?;
                // Without this a crash of the machine could leave the name without the bytes.
                file.as_file().sync_data().map_err(fail)?;
                file.persist(&target).map_err(|e| {
                    Error::output("cannot rename the finished file").at(path.display().to_string()).with_source(e.error)
                })?;
            }
        }
        Ok(flow)
    }
}

impl Write for TargetFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed {
            return Ok(bytes.len());
        }
        match &mut self.file {
            Inner::Aside(file, _) => file.write(bytes),
            Inner::Direct(file) => file.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        match &mut self.file {
            Inner::Aside(file, _) => file.flush(),
            Inner::Direct(file) => file.flush(),
        }
    }
}

impl Inner {
    fn aside(target: &Path) -> io::Result<Inner> {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let prefix = format!(".{name}.tmp-{}-", std::process::id());
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix);
        // Temporary files are private by default; a result has the permissions that any new file has.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(directory_of(target))?;
        Ok(Inner::Aside(BufWriter::with_capacity(BUFFER_BYTES, file), target.to_owned()))
    }
}

/// The directory a file lies in; `.` for a bare name.
pub(super) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Turns "nobody reads any more" into an outcome.
fn closed_pipe(result: io::Result<()>) -> io::Result<Flow> {
    match result {
        Ok(()) => Ok(Flow::Open),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(Flow::Closed),
        Err(e) => Err(e),
    }
}

pub(super) fn write_error(place: &str, cause: io::Error) -> Error {
    Error::output("cannot write").at(place).with_source(cause)
}

/// What stands for the index of the process in the path of a sink that every process writes.
pub const PROCESS: &str = "{process}";

/// The path of such a sink on one process.
pub fn of_process(path: &str, process: usize) -> String {
    path.replace(PROCESS, &process.to_string())
}

/// Refuses a run of so many processes in which an output would replace another one or something that is read. `summary` is the file for the
/// summary, if any; `inputs` are paths that are read, with words for who reads them. Paths are compared as files: through
/// links, patterns and `./`.
///
/// # Errors
/// Names the path.
pub fn refuse_shared_files(
    program: &Program,
    processes: usize,
    summary: Option<&Path>,
    inputs: &[(PathBuf, String)],
) -> Result<()> {
    let sinks = program.sinks.iter().filter_map(|s| match &s.target {
        SinkTarget::File(path, _) => Some(path),
        SinkTarget::Stdout(_) => None,
    });
    let sinks = sinks.flat_map(|path| match path.contains(PROCESS) {
        true => (0..processes.max(1)).map(|process| PathBuf::from(of_process(path, process))).collect(),
        false => vec![PathBuf::from(path)],
    });
    let late = program.views.iter().filter_map(|v| v.late.as_deref().map(PathBuf::from));
    let rejects = program.tables.iter().filter_map(|t| t.rejects.as_deref().map(PathBuf::from));
    let outputs: Vec<PathBuf> = sinks.chain(late).chain(rejects).chain(summary.map(Path::to_owned)).collect();
    let mut read = std::collections::BTreeMap::new();
    if !outputs.is_empty() {
        read.extend(inputs.iter().filter_map(|(path, who)| Some((replaced(path)?, who))));
    }
    let mut written = std::collections::BTreeSet::new();
    for path in &outputs {
        let Some(file) = replaced(path) else { continue };
        if let Some(who) = read.get(&file) {
            return Err(Error::usage(format!("the output file \"{}\" would replace what {who} reads", path.display()))
                .with_hint("write to another file"));
        }
        if !written.insert(file) {
            return Err(Error::usage(format!("two outputs write to the file \"{}\"", path.display()))
                .with_hint("give every sink, late output, reject output and summary a file of its own"));
        }
    }
    Ok(())
}

/// The file that an output of this path would replace; none for a pipe or device.
fn replaced(path: &Path) -> Option<PathBuf> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => None,
        Ok(_) => path.canonicalize().ok(),
        Err(_) => {
            let directory = directory_of(path).canonicalize().unwrap_or_else(|_| directory_of(path).to_owned());
            // `a` and `./a` are one file, also in a directory that is not there yet.
            Some(
                directory.join(path.file_name()?).components().filter(|c| *c != std::path::Component::CurDir).collect(),
            )
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::plan::{SinkFormat, SinkMode, SinkPlan};

    /// Stands for standard output and keeps what was written; fails after `limit` bytes as a closed pipe does.
    #[derive(Clone)]
    pub struct Captured {
        pub bytes: Arc<Mutex<Vec<u8>>>,
        pub limit: usize,
        pub kind: io::ErrorKind,
    }
    impl Captured {
        pub fn new(limit: usize) -> Captured {
            Captured { bytes: Arc::default(), limit, kind: io::ErrorKind::BrokenPipe }
        }
        pub fn handle(&self) -> StdoutHandle {
            StdoutHandle::new(Box::new(self.clone()))
        }
        pub fn text(&self) -> String {
            String::from_utf8(self.bytes.lock().unwrap().clone()).unwrap()
        }
    }
    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut all = self.bytes.lock().unwrap();
            if all.len() + bytes.len() > self.limit {
                return Err(self.kind.into());
            }
            all.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    pub fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_whole_and_only_when_finished() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/deep/out.ndjson");
        let mut file = TargetFile::create(&path).unwrap();
        assert_eq!(file.write(b"half").unwrap(), Flow::Open);
        assert!(!path.exists());
        let aside = names(path.parent().unwrap());
        assert_eq!(aside.len(), 1);
        assert!(aside[0].starts_with(&format!(".out.ndjson.tmp-{}-", std::process::id())), "{aside:?}");
        assert_eq!(file.finish().unwrap(), Flow::Open);
        assert_eq!(std::fs::read(&path).unwrap(), b"half");
        assert_eq!(names(path.parent().unwrap()), ["out.ndjson"]);
    }

    #[test]
    fn an_unfinished_file_leaves_the_old_one_untouched() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.csv");
        std::fs::write(&path, "old").unwrap();
        let mut output = Output::file(&path).unwrap();
        output.text().push_str("new");
        drop(output);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(names(directory.path()), ["out.csv"]);
        let mut output = Output::file(&path).unwrap();
        output.text().push_str("new");
        assert_eq!(output.finish().unwrap(), Flow::Open);
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }

    #[cfg(unix)]
    #[test]
    fn permissions_links_and_devices() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let plain = directory.path().join("plain");
        File::create(&plain).unwrap();
        let path = directory.path().join("out");
        let _ = TargetFile::create(&path).unwrap().finish().unwrap();
        let mode = |p: &Path| p.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&plain));

        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut file = TargetFile::create(&link).unwrap();
        let _ = file.write(b"through").unwrap();
        let _ = file.finish().unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read(&path).unwrap(), b"through");

        let mut null = TargetFile::create("/dev/null").unwrap();
        let _ = null.write(b"gone").unwrap();
        assert_eq!(null.finish().unwrap(), Flow::Open);
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    }

    #[test]
    fn errors_name_the_path() {
        let directory = tempfile::tempdir().unwrap();
        let error = TargetFile::create(directory.path()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{}: expected a file to write, found a directory", directory.path().display())
        );
        std::fs::write(directory.path().join("file"), "").unwrap();
        let below = directory.path().join("file/out");
        let error = TargetFile::create(&below).unwrap_err();
        assert_eq!(error.place(), Some(below.display().to_string().as_str()));
        assert_eq!(error.kind(), ErrorKind::Output);
    }

    #[test]
    fn a_closed_pipe_is_an_outcome_and_other_failures_are_errors() {
        let captured = Captured::new(4);
        let handle = captured.handle();
        let mut one = Output::stdout(&handle);
        let mut two = Output::stdout(&handle);
        one.text().push_str("abc\n");
        assert_eq!(one.flush().unwrap(), Flow::Open);
        two.text().push_str("d\n");
        assert_eq!(two.flush().unwrap(), Flow::Closed);
        one.text().push_str("e\n");
        assert_eq!(one.finish().unwrap(), Flow::Closed);
        assert_eq!(captured.text(), "abc\n");

        let full = Captured { kind: io::ErrorKind::StorageFull, ..Captured::new(0) };
        let mut output = Output::stdout(&full.handle());
        output.text().push('x');
        let error = output.flush().unwrap_err();
        assert!(error.to_string().starts_with("standard output: cannot write: "), "{error}");
    }

    #[test]
    fn two_outputs_never_share_a_file() {
        let program = |paths: [&str; 2]| Program {
            tables: vec![],
            views: vec![],
            sinks: paths
                .map(|path| SinkPlan {
                    name: None,
                    view: 0,
                    mode: SinkMode::Changelog,
                    target: SinkTarget::File(path.to_string(), SinkFormat::Ndjson),
                })
                .into(),
            warnings: vec![],
        };
        assert!(refuse_shared_files(&program(["out/a", "out/b"]), 1, None, &[]).is_ok());
        assert!(refuse_shared_files(&program(["/dev/null", "/dev/null"]), 1, None, &[]).is_ok());
        let parts = program(["out/part-{process}", "out/part-1"]);
        assert!(refuse_shared_files(&parts, 1, None, &[]).is_ok());
        assert!(refuse_shared_files(&parts, 2, None, &[]).is_err());
        let error = refuse_shared_files(&program(["out/a", "./out//a"]), 1, None, &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert_eq!(error.to_string(), "two outputs write to the file \"./out//a\"");
    }

    #[test]
    fn rows_of_several_sinks_never_mix() {
        let captured = Captured::new(usize::MAX);
        let handle = captured.handle();
        let mut outputs = [Output::stdout(&handle), Output::stdout(&handle)];
        for i in 0..20_000 {
            for (name, output) in ["a", "b"].iter().zip(&mut outputs) {
                output.text().push_str(&format!("{name}{i}\n"));
                assert_eq!(output.row_done().unwrap(), Flow::Open);
            }
        }
        for output in outputs {
            assert_eq!(output.finish().unwrap(), Flow::Open);
        }
        let text = captured.text();
        for name in ["a", "b"] {
            let rows: Vec<&str> = text.lines().filter(|l| l.starts_with(name)).collect();
            let expected: Vec<String> = (0..20_000).map(|i| format!("{name}{i}")).collect();
            assert_eq!(rows, expected);
        }
    }
}
