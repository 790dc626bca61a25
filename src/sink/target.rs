//! Where bytes go: standard output, shared by all sinks of the run, or a [file](super::file).
//!
//! Invariants: whole rows only reach standard output, also when several sinks share it; a closed pipe is an outcome
//! ([`Flow::Closed`]), not an error; no output replaces another, or what is read.

use super::Flow;
use super::file::{
    BUFFER_BYTES, PipeWait, Prepared, TargetFile, closed_pipe, directory_of, through_links, write_error,
};
use crate::error::{Error, Result};
use crate::plan::{Program, SinkTarget};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

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
    pub fn file(path: impl AsRef<Path>, wait: &PipeWait) -> Result<Output> {
        Ok(Output { kind: Kind::File(TargetFile::create(path, wait)?), text: String::new() })
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

    /// Writes the rest; see [`TargetFile::prepare`].
    ///
    /// # Errors
    /// When the bytes cannot be written or the file could not be renamed.
    pub fn prepare(mut self) -> Result<Prepared> {
        let flow = self.write()?;
        match self.kind {
            Kind::Stdout(..) => Ok(Prepared::written(flow)),
            Kind::File(file) => Ok(file.prepare()?.after(flow)),
        }
    }
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
            let path = through_links(path);
            let path = path.as_path();
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
        assert_eq!(one.prepare().unwrap().flow(), Flow::Closed);
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
            assert_eq!(output.prepare().unwrap().complete().unwrap(), Flow::Open);
        }
        let text = captured.text();
        for name in ["a", "b"] {
            let rows: Vec<&str> = text.lines().filter(|l| l.starts_with(name)).collect();
            let expected: Vec<String> = (0..20_000).map(|i| format!("{name}{i}")).collect();
            assert_eq!(rows, expected);
        }
    }
}
