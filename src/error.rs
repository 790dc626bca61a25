//! The one error type: where, what was expected, what was found, and a hint.

use std::fmt;

/// What kind of trouble it is; decides the exit status of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The query or a setting is wrong: nothing was read (exit status 2).
    Usage,
    /// Input could not be read, or held what `on_error = 'fail'` forbids (exit status 1).
    Input,
    /// A result could not be computed or written (exit status 1).
    Output,
    /// Another process of a cluster is the cause: they did not come together, one was lost, or one failed, with a message of
    /// its own (exit status 4).
    Cluster,
}

/// An error with its place, message, detail and hint.
///
/// `Display` prints `place: message`; [`Error::hint`] and [`Error::detail`] stand apart so that the command line can
/// print them on their own lines.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    place: Option<String>,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of the kind with a message (lower case, no full stop).
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, place: None, message: message.into(), detail: None, hint: None, source: None }
    }
    /// A wrong query or setting.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }
    /// Unreadable input.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }
    /// A result that cannot be computed or written.
    pub fn output(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Output, message)
    }
    /// Processes of a cluster that did not come or stay together.
    pub fn cluster(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Cluster, message)
    }
    /// Says where: a file and line, or a position in the query.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }
    /// Adds lines that show the trouble (a caret under the query text).
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }
    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
    /// The place, if known.
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }
    /// The message without place.
    pub fn message(&self) -> &str {
        &self.message
    }
    /// Lines that show the trouble.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }
    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|s| &**s as &(dyn std::error::Error + 'static))
    }
}
