//! Files that appear whole or not at all, in two steps.
//!
//! Bytes go to a temporary file in the directory of the target. [`TargetFile::prepare`] has all of them on disk, still under
//! that name; [`Prepared::complete`] is one rename. Everything that commonly fails (a full disk, a directory that went away)
//! fails in the first step, so that outputs which are prepared together, on one process or on several, come together or
//! not at all. What is dropped before its rename leaves nothing behind, and whatever stood at the path untouched.
//!
//! A file that is replaced keeps its mode; a symbolic link is written through, also one to a file that is not there yet. A
//! target that exists and is no regular file (a named pipe, `/dev/null`) cannot be replaced and is written directly, as the
//! bytes come. A named pipe waits for its reader as long as [`PipeWait`] says.

use super::Flow;
use crate::error::{Error, Result};
use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::fs::{File, Metadata, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempPath;

/// Bytes collected before they are written.
pub(super) const BUFFER_BYTES: usize = 64 * 1024;
/// So much of the target's name is in that of its temporary file: the rest must fit what a file system allows, too.
const NAME_BYTES_MAX: usize = 64;
/// Symbolic links that are followed one after another, as systems do.
const LINKS_MAX: usize = 40;
/// How often a named pipe is tried until somebody reads it.
const PIPE_STEP: Duration = Duration::from_millis(20);

/// How long named pipes wait for a reader: until somebody interrupts the run. Cheap to clone; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct PipeWait {
    interrupted: Arc<AtomicBool>,
    gave_up: Arc<AtomicBool>,
}

impl PipeWait {
    /// Waits until the flag is set.
    pub fn until(interrupted: &Arc<AtomicBool>) -> PipeWait {
        PipeWait { interrupted: Arc::clone(interrupted), gave_up: Arc::default() }
    }

    /// Whether the run was interrupted before some pipe had a reader: what was meant for it is lost.
    pub fn gave_up(&self) -> bool {
        self.gave_up.load(Ordering::SeqCst)
    }
}

/// A file being written. Dropped before it is complete, it leaves nothing behind.
#[derive(Debug)]
pub struct TargetFile {
    path: PathBuf,
    file: Inner,
    closed: bool,
}

#[derive(Debug)]
enum Inner {
    /// The temporary file and where it is to stand.
    Aside(BufWriter<File>, Rename),
    /// No regular file: it is written as it is.
    Direct(BufWriter<File>),
    /// A pipe that nobody had opened when the run was interrupted.
    Nowhere,
}

#[derive(Debug)]
struct Rename {
    from: TempPath,
    to: PathBuf,
}

/// An output of which everything is written; a file only waits for its name. Dropped before it gets it, it leaves nothing behind.
#[derive(Debug)]
#[must_use = "a file has no name until it is completed"]
pub struct Prepared {
    path: PathBuf,
    flow: Flow,
    rename: Option<Rename>,
}

impl Prepared {
    /// What is no file and has been written.
    pub fn written(flow: Flow) -> Prepared {
        Prepared { path: PathBuf::new(), flow, rename: None }
    }

    /// Whether somebody still reads it.
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// Adds what is known of an earlier write.
    pub fn after(self, flow: Flow) -> Prepared {
        Prepared { flow: flow.and(self.flow), ..self }
    }

    /// Gives a file its name, replacing what stands there.
    ///
    /// # Errors
    /// When it cannot be renamed; then nothing is left behind.
    pub fn complete(self) -> Result<Flow> {
        if let Some(Rename { from, to }) = self.rename {
            from.persist(&to).map_err(|e| cannot_rename(&self.path, e.error))?;
        }
        Ok(self.flow)
    }
}

impl TargetFile {
    /// Opens a temporary file beside the target of `path`, creating directories that are missing. A named pipe waits for a
    /// reader as `wait` says; after that, what is written is lost.
    ///
    /// # Errors
    /// When the path is a directory or nothing can be created there; the error names the path.
    pub fn create(path: impl AsRef<Path>, wait: &PipeWait) -> Result<TargetFile> {
        let path = path.as_ref();
        let fail = |e: io::Error| Error::output("cannot create the file").at(path.display().to_string()).with_source(e);
        let file = match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(found_directory(path)),
            Ok(found) if found.file_type().is_fifo() => match open_pipe(path, wait).map_err(fail)? {
                Some(pipe) => Inner::direct(pipe),
                None => Inner::Nowhere,
            },
            Ok(found) if !found.is_file() => Inner::direct(File::options().write(true).open(path).map_err(fail)?),
            Ok(found) => Inner::aside(&path.canonicalize().map_err(fail)?, Some(&found)).map_err(fail)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let target = through_links(path);
                if ends_with_slash(&target) {
                    return Err(found_directory(path));
                }
                std::fs::create_dir_all(directory_of(&target)).map_err(fail)?;
                Inner::aside(&target, None).map_err(fail)?
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
            Inner::Aside(..) | Inner::Nowhere => result.map(|()| Flow::Open),
        };
        let flow = flow.map_err(|e| write_error(&self.path.display().to_string(), e))?;
        self.closed |= flow == Flow::Closed;
        Ok(if self.closed { Flow::Closed } else { Flow::Open })
    }

    /// Writes the rest, to the disk; what is no regular file is done with. All that is left to do is a rename, and what would
    /// make that fail is looked for.
    ///
    /// # Errors
    /// When the rest cannot be written or the file could not be renamed; then nothing is left behind.
    pub fn prepare(mut self) -> Result<Prepared> {
        let flushed = self.flush();
        let flow = self.outcome(flushed)?;
        let path = self.path;
        let rename = match self.file {
            Inner::Direct(file) => {
                drop(file.into_parts());
                None
            }
            Inner::Nowhere => None,
            Inner::Aside(file, rename) => {
                let fail = |e: io::Error| write_error(&path.display().to_string(), e);
                let file = file.into_inner().map_err(|e| fail(e.into_error()))?;
                // Without this a crash of the machine could leave the name without the bytes.
                file.sync_data().map_err(fail)?;
                std::fs::symlink_metadata(&rename.from).map_err(|e| cannot_rename(&path, e))?;
                if std::fs::symlink_metadata(&rename.to).is_ok_and(|found| found.is_dir()) {
                    return Err(found_directory(&path));
                }
                Some(rename)
            }
        };
        Ok(Prepared { path, flow, rename })
    }
}

impl Write for TargetFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            _ if self.closed => Ok(bytes.len()),
            Inner::Aside(file, _) | Inner::Direct(file) => file.write(bytes),
            Inner::Nowhere => Ok(bytes.len()),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.file {
            _ if self.closed => Ok(()),
            Inner::Aside(file, _) | Inner::Direct(file) => file.flush(),
            Inner::Nowhere => Ok(()),
        }
    }
}

impl Inner {
    fn direct(file: File) -> Inner {
        Inner::Direct(BufWriter::with_capacity(BUFFER_BYTES, file))
    }

    /// A temporary file beside `target`, with the mode of the file that it is to replace.
    fn aside(target: &Path, replaced: Option<&Metadata>) -> io::Result<Inner> {
        let prefix = format!(".{}.tmp-{}-", beginning(target), std::process::id());
        let mode = replaced.map_or(0o666, |found| found.permissions().mode() & 0o777);
        let mut cause = None;
        let create = |path: &Path| {
            let file = File::options().write(true).create_new(true).mode(mode).open(path);
            file.inspect_err(|e| cause = e.raw_os_error())
        };
        let made = tempfile::Builder::new().prefix(&prefix).make_in(directory_of(target), create);
        // The error that comes back names the temporary file, which says nothing to anybody.
        let (file, from) = made.map_err(|e| cause.map_or(e, io::Error::from_raw_os_error))?.into_parts();
        // What the process's mask takes from new files it does not take from old ones.
        if replaced.is_some() && file.metadata()?.permissions().mode() & 0o777 != mode {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        Ok(Inner::Aside(BufWriter::with_capacity(BUFFER_BYTES, file), Rename { from, to: target.to_owned() }))
    }
}

/// The beginning of a file's name.
fn beginning(path: &Path) -> String {
    let mut name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    while name.len() > NAME_BYTES_MAX {
        name.pop();
    }
    name
}

/// Opens a named pipe once somebody reads it; `None` if the run is interrupted before.
fn open_pipe(path: &Path, wait: &PipeWait) -> io::Result<Option<File>> {
    loop {
        // Blocking, the call would wait for a reader, whatever may happen.
        match rustix::fs::open(path, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
            Ok(pipe) => {
                fcntl_setfl(&pipe, fcntl_getfl(&pipe)? - OFlags::NONBLOCK)?;
                return Ok(Some(File::from(pipe)));
            }
            Err(Errno::NXIO) if wait.interrupted.load(Ordering::SeqCst) => {
                wait.gave_up.store(true, Ordering::SeqCst);
                return Ok(None);
            }
            Err(Errno::NXIO) => std::thread::sleep(PIPE_STEP),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Where a path leads: through symbolic links, also to a file that is not there yet.
pub(super) fn through_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(to) = std::fs::read_link(&path) else { break };
        path = directory_of(&path).join(to);
    }
    path
}

fn ends_with_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// The directory a file lies in; `.` for a bare name.
pub(super) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Turns "nobody reads any more" into an outcome.
pub(super) fn closed_pipe(result: io::Result<()>) -> io::Result<Flow> {
    match result {
        Ok(()) => Ok(Flow::Open),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(Flow::Closed),
        Err(e) => Err(e),
    }
}

pub(super) fn write_error(place: &str, cause: io::Error) -> Error {
    Error::output("cannot write").at(place).with_source(cause)
}

fn cannot_rename(path: &Path, cause: io::Error) -> Error {
    Error::output("cannot rename the finished file").at(path.display().to_string()).with_source(cause)
}

fn found_directory(path: &Path) -> Error {
    Error::output("expected a file to write, found a directory").at(path.display().to_string())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use std::os::unix::fs::symlink;

    pub fn create(path: impl AsRef<Path>) -> Result<TargetFile> {
        TargetFile::create(path, &PipeWait::default())
    }

    /// Writes a whole file.
    #[track_caller]
    fn write(path: &Path, text: &str) {
        let mut file = create(path).unwrap();
        assert_eq!(file.write(text.as_bytes()).unwrap(), Flow::Open);
        assert_eq!(file.prepare().unwrap().complete().unwrap(), Flow::Open);
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    pub fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_appears_whole_and_only_when_completed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/deep/out.ndjson");
        let mut file = create(&path).unwrap();
        assert_eq!(file.write(b"half").unwrap(), Flow::Open);
        assert!(!path.exists());
        let aside = names(path.parent().unwrap());
        assert_eq!(aside.len(), 1);
        assert!(aside[0].starts_with(&format!(".out.ndjson.tmp-{}-", std::process::id())), "{aside:?}");
        let prepared = file.prepare().unwrap();
        assert_eq!(names(path.parent().unwrap()), aside);
        assert_eq!(read(&path.with_file_name(&aside[0])), "half");
        assert_eq!(prepared.complete().unwrap(), Flow::Open);
        assert_eq!(read(&path), "half");
        assert_eq!(names(path.parent().unwrap()), ["out.ndjson"]);
    }

    #[test]
    fn what_is_not_completed_leaves_the_old_file_untouched() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.csv");
        std::fs::write(&path, "old").unwrap();
        for prepared in [false, true] {
            let mut file = create(&path).unwrap();
            let _ = file.write(b"new").unwrap();
            if prepared {
                drop(file.prepare().unwrap());
            } else {
                drop(file);
            }
            assert_eq!(read(&path), "old");
            assert_eq!(names(directory.path()), ["out.csv"]);
        }
        write(&path, "new");
        assert_eq!(read(&path), "new");
    }

    #[test]
    fn new_files_have_the_usual_mode_and_replaced_ones_keep_theirs() {
        let directory = tempfile::tempdir().unwrap();
        let (plain, path) = (directory.path().join("plain"), directory.path().join("out"));
        File::create(&plain).unwrap();
        write(&path, "new");
        assert_eq!(mode(&path), mode(&plain));
        for kept in [0o600, 0o666, 0o755, 0o440] {
            std::fs::set_permissions(&path, Permissions::from_mode(kept)).unwrap();
            write(&path, "again");
            assert_eq!(mode(&path), kept, "{kept:o}");
        }
    }

    #[test]
    fn links_are_written_through() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        write(&at("out"), "old");
        symlink(at("out"), at("link")).unwrap();
        write(&at("link"), "through");
        assert!(at("link").symlink_metadata().unwrap().is_symlink());
        assert_eq!(read(&at("out")), "through");
        // To nothing yet, by way of another link, into a directory that is not there.
        symlink("second", at("first")).unwrap();
        symlink("new/file", at("second")).unwrap();
        write(&at("first"), "dangling");
        assert!(at("first").symlink_metadata().unwrap().is_symlink());
        assert!(at("second").symlink_metadata().unwrap().is_symlink());
        assert_eq!(read(&at("new/file")), "dangling");
        assert_eq!(names(&at("new")), ["file"]);
        symlink("circle", at("circle")).unwrap();
        assert!(create(at("circle")).unwrap_err().to_string().contains("circle: cannot create the file"));
    }

    #[test]
    fn names_may_be_as_long_as_the_system_allows() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["x".repeat(255), "é".repeat(127), "漢".repeat(85)] {
            let path = directory.path().join(&name);
            write(&path, &name);
            assert_eq!(read(&path), name);
        }
        assert_eq!(names(directory.path()).len(), 3);
        let path = directory.path().join("x".repeat(256));
        let error = create(&path).unwrap_err();
        assert_eq!(error.place(), path.to_str());
    }

    #[test]
    fn devices_are_written_as_they_are() {
        let mut null = create("/dev/null").unwrap();
        let _ = null.write(b"gone").unwrap();
        assert_eq!(null.prepare().unwrap().complete().unwrap(), Flow::Open);
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    }

    #[test]
    fn errors_name_the_path_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let expected = |path: &Path| format!("{}: expected a file to write, found a directory", path.display());
        assert_eq!(create(directory.path()).unwrap_err().to_string(), expected(directory.path()));
        let slash = directory.path().join("new/");
        assert_eq!(create(&slash).unwrap_err().to_string(), expected(&slash));
        std::fs::write(directory.path().join("file"), "").unwrap();
        let below = directory.path().join("file/out");
        let error = create(&below).unwrap_err();
        assert_eq!(error.place(), Some(below.display().to_string().as_str()));
        assert_eq!(error.kind(), ErrorKind::Output);
        let error = Inner::aside(&directory.path().join("no/out"), None).unwrap_err();
        assert_eq!(error.to_string(), "No such file or directory (os error 2)");
    }

    /// What would make the rename fail is found before anything is renamed.
    #[test]
    fn a_file_that_cannot_be_renamed_is_not_prepared() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/out");
        let file = create(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(file.prepare().unwrap_err().to_string().ends_with("out: expected a file to write, found a directory"));
        assert_eq!(names(path.parent().unwrap()), ["out"]);
        std::fs::remove_dir(&path).unwrap();
        let file = create(&path).unwrap();
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        let error = file.prepare().unwrap_err().to_string();
        assert!(
            error.ends_with("out: cannot rename the finished file: No such file or directory (os error 2)"),
            "{error}"
        );
        // What happens between the two steps still fails in the second.
        let prepared = create(&path).unwrap().prepare().unwrap();
        std::fs::create_dir_all(path.join("in the way")).unwrap();
        assert!(prepared.complete().unwrap_err().to_string().contains("out: cannot rename the finished file"));
        assert_eq!(names(path.parent().unwrap()), ["out"]);
    }

    #[test]
    fn a_pipe_waits_for_its_reader_until_the_run_is_interrupted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let interrupted = Arc::new(AtomicBool::new(false));
        let wait = PipeWait::until(&interrupted);
        let reader = std::thread::spawn({
            let path = path.clone();
            move || std::fs::read(path).unwrap()
        });
        let mut file = TargetFile::create(&path, &wait).unwrap();
        // More than a pipe holds: it must block again.
        let bytes = vec![b'x'; 1 << 20];
        assert_eq!(file.write(&bytes).unwrap(), Flow::Open);
        assert_eq!(file.prepare().unwrap().complete().unwrap(), Flow::Open);
        assert_eq!(reader.join().unwrap(), bytes);
        assert!(!wait.gave_up());
        interrupted.store(true, Ordering::SeqCst);
        let mut file = TargetFile::create(&path, &wait).unwrap();
        assert_eq!(file.write(&bytes).unwrap(), Flow::Open);
        assert_eq!(file.prepare().unwrap().complete().unwrap(), Flow::Open);
        assert!(wait.gave_up());
        assert_eq!(names(directory.path()), ["pipe"]);
    }
}
