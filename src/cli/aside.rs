//! Files that appear when they are whole.

use std::io::{self, Write};
use std::path::Path;

/// A file under another name until it is whole. Pipes and devices are written to directly.
pub(super) enum Aside {
    /// A file that does not have its name yet.
    File(tempfile::NamedTempFile),
    /// Something that cannot be renamed.
    Direct(std::fs::File),
}

impl Aside {
    /// Opens it; makes the directory if it is not there.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn create(path: &Path) -> io::Result<Aside> {
        if path.is_dir() {
            return Err(io::Error::other("it is a directory"));
        }
        if path.exists() && !path.is_file() {
            return Ok(Aside::Direct(std::fs::OpenOptions::new().write(true).open(path)?));
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        std::fs::create_dir_all(folder)?;
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(path.file_name().unwrap_or_default());
        prefix.push(".");
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".partial");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // The library's default is private to the user; the umask still applies to this.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        Ok(Aside::File(builder.tempfile_in(folder)?))
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn publish(self, path: &Path) -> io::Result<()> {
        match self {
            Aside::File(file) => file.persist(path).map(|_| ()).map_err(|e| e.error),
            Aside::Direct(_) => Ok(()),
        }
    }
}

impl Write for Aside {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Aside::File(file) => file.write(bytes),
            Aside::Direct(file) => file.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Aside::File(file) => file.flush(),
            Aside::Direct(file) => file.flush(),
        }
    }
}
