//! The secret that the processes of a cluster share.

use crate::error::{Error, Result};
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The environment variable that holds the secret.
pub const VARIABLE: &str = "SLACKWATER_CLUSTER_SECRET";
/// The most bytes of a secret file.
pub const SECRET_BYTES_MAX: u64 = 64 << 10;

pub(super) const HINT: &str = "set SLACKWATER_CLUSTER_SECRET, or name a secret file, to the same on all hosts";

/// What all processes of a cluster know and strangers do not; or nothing. `Debug` does not show it.
#[derive(Clone, Default)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// A secret of these bytes; none if there are no bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Secret(bytes.into())
    }
    /// Whether there is one.
    pub fn is_set(&self) -> bool {
        !self.0.is_empty()
    }
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The secret of the file, or else of [`VARIABLE`]. Line ends at the end of it do not count; an empty variable is none.
///
/// # Errors
/// The file cannot be read, is empty or longer than [`SECRET_BYTES_MAX`], or others than its owner may read or write it.
pub fn read_secret(file: Option<&Path>) -> Result<Secret> {
    match file {
        Some(path) => read_file(path),
        None => Ok(from_variable(std::env::var_os(VARIABLE))),
    }
}

pub(super) fn from_variable(value: Option<OsString>) -> Secret {
    Secret(trimmed(value.map(OsString::into_encoded_bytes).unwrap_or_default()))
}

fn read_file(path: &Path) -> Result<Secret> {
    let name = path.display().to_string();
    let unreadable = |e| Error::usage("cannot read the secret").at(name.clone()).with_source(e);
    let file = File::open(path).map_err(unreadable)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Of the open file, so that it cannot be another one than the one read.
        let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let message = format!("expected a secret that only its owner can read, found mode {mode:03o}");
            return Err(Error::usage(message).at(name.clone()).with_hint(format!("chmod 600 {name}")));
        }
    }
    let mut bytes = Vec::new();
    let _ = file.take(SECRET_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > SECRET_BYTES_MAX {
        return Err(Error::usage(format!("expected a secret of at most {SECRET_BYTES_MAX} bytes, found more")).at(name));
    }
    let bytes = trimmed(bytes);
    if bytes.is_empty() {
        let error = Error::usage("expected a secret, found an empty file").at(name.clone());
        return Err(error.with_hint(format!("for example: openssl rand -hex 32 > {name}")));
    }
    Ok(Secret(bytes))
}

fn trimmed(mut bytes: Vec<u8>) -> Vec<u8> {
    while let Some(b'\n' | b'\r') = bytes.last() {
        let _ = bytes.pop();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_counts_without_its_line_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, "tide \r\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read_secret(Some(&path)).unwrap().bytes(), b"tide ");
    }

    #[test]
    fn an_empty_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        for empty in ["", "\n", "\r\n\n"] {
            std::fs::write(&path, empty).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            let error = read_secret(Some(&path)).unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::Usage);
            assert!(error.to_string().ends_with("secret: expected a secret, found an empty file"), "{error}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, "tide").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = read_secret(Some(&path)).unwrap_err();
        assert!(error.to_string().contains("found mode 640"), "{error}");
        assert!(error.hint().unwrap().starts_with("chmod 600 "));
        assert!(read_secret(Some(&dir.path().join("none"))).is_err());
    }

    #[test]
    fn the_variable_may_be_missing_and_nothing_is_shown() {
        assert!(!from_variable(None).is_set());
        let secret = from_variable(Some("tide\n".into()));
        assert_eq!(secret.bytes(), b"tide");
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
