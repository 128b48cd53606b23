//! One error for the whole library: a kind to branch on, a sentence for people, and where it
//! happened.
//!
//! The command line maps [`ErrorKind`] through one table, as a program can; nobody parses messages.

use std::fmt;
use std::path::{Path, PathBuf};

/// Result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, for programs to branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A value given by the caller breaks a stated limit or names something that does not exist in
    /// the schema.
    InvalidArgument,
    /// There is no store, file or partition of this name. (An absent key is `None`, never an
    /// error.)
    NotFound,
    /// The call would overwrite something that exists.
    AlreadyExists,
    /// Another process or handle holds the writer's lock.
    Locked,
    /// A checksum or a structure read from disk is wrong.
    Corrupt,
    /// The file was written by a newer release: read it with that one. It is left as it is.
    UnsupportedVersion,
    /// The operating system refused a call.
    Io,
    /// The handle cannot go on, because an earlier write or sync failed, or because a bound that
    /// was given to it is reached: open or begin anew.
    Failed,
    /// The query passed its deadline or was cancelled.
    Cancelled,
}

impl ErrorKind {
    /// Every kind, for tables that must cover all of them.
    pub const ALL: [ErrorKind; 9] = [
        ErrorKind::InvalidArgument,
        ErrorKind::NotFound,
        ErrorKind::AlreadyExists,
        ErrorKind::Locked,
        ErrorKind::Corrupt,
        ErrorKind::UnsupportedVersion,
        ErrorKind::Io,
        ErrorKind::Failed,
        ErrorKind::Cancelled,
    ];

    /// Exit code of the command line for an error of this kind (0 is success, 1 a failure of the
    /// program itself).
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::InvalidArgument => 2,
            ErrorKind::NotFound => 3,
            ErrorKind::AlreadyExists => 4,
            ErrorKind::Locked => 5,
            ErrorKind::Corrupt => 6,
            ErrorKind::UnsupportedVersion => 7,
            ErrorKind::Io => 8,
            ErrorKind::Failed => 9,
            ErrorKind::Cancelled => 10,
        }
    }

    /// Stable name of the kind, as machines see it (`firn --json`).
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::InvalidArgument => "invalid_argument",
            ErrorKind::NotFound => "not_found",
            ErrorKind::AlreadyExists => "already_exists",
            ErrorKind::Locked => "locked",
            ErrorKind::Corrupt => "corrupt",
            ErrorKind::UnsupportedVersion => "unsupported_version",
            ErrorKind::Io => "io",
            ErrorKind::Failed => "failed",
            ErrorKind::Cancelled => "cancelled",
        }
    }
}

/// An error of FirnDB. One pointer wide; see [`ErrorKind`] for what to branch on.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    file: Option<PathBuf>,
    offset: Option<u64>,
    span: Option<(usize, usize)>,
    source: Option<std::io::Error>,
}

impl Error {
    /// An error of `kind` with a sentence that says what happened and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            file: None,
            offset: None,
            span: None,
            source: None,
        }))
    }

    /// The caller's value breaks a stated limit.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// Bytes read from disk are wrong. `file` and `offset` are added with [`Error::at`].
    pub fn corrupt(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Corrupt, message)
    }

    /// The operating system refused `action` on `path`.
    pub fn io(action: &str, path: &Path, source: std::io::Error) -> Error {
        let kind = match source.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
            _ => ErrorKind::Io,
        };
        let mut error = Error::new(kind, format!("cannot {action}: {source}")).in_file(path);
        error.0.source = Some(source);
        error
    }

    /// What the operating system said, if it is an error of it.
    pub(crate) fn io_kind(&self) -> Option<std::io::ErrorKind> {
        self.0.source.as_ref().map(std::io::Error::kind)
    }

    /// Whether it is for want of space on a disk, or in somebody's share of it.
    pub(crate) fn is_disk_full(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        self.0.source.as_ref().is_some_and(|e| matches!(e.kind(), QuotaExceeded | StorageFull))
    }

    /// Names the file in which the error was found, unless it is named already.
    pub fn in_file(mut self, file: &Path) -> Error {
        self.0.file.get_or_insert_with(|| file.to_path_buf());
        self
    }

    /// Names the byte offset at which the error was found.
    pub fn at(mut self, offset: u64) -> Error {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Names the bytes `start..end` of the query or schema text in which the error was found.
    pub fn with_span(mut self, start: usize, end: usize) -> Error {
        self.0.span.get_or_insert((start, end));
        self
    }

    /// What to branch on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence for people, without file and offset.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The file concerned.
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// The byte offset in [`Error::file`].
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The bytes `start..end` of the text that was parsed.
    pub fn span(&self) -> Option<(usize, usize)> {
        self.0.span
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.0.file {
            write!(f, "{}", file.display())?;
            if let Some(offset) = self.0.offset {
                write!(f, " at byte {offset}")?;
            }
            write!(f, ": ")?;
        }
        if self.0.kind == ErrorKind::Corrupt {
            write!(f, "corrupt: ")?;
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| e as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_distinct_names_and_exit_codes() {
        let mut codes: Vec<u8> = ErrorKind::ALL.iter().map(|k| k.exit_code()).collect();
        let mut names: Vec<&str> = ErrorKind::ALL.iter().map(|k| k.name()).collect();
        codes.sort_unstable();
        codes.dedup();
        names.sort_unstable();
        names.dedup();
        assert_eq!((codes.len(), names.len()), (ErrorKind::ALL.len(), ErrorKind::ALL.len()));
        assert!(codes.iter().all(|&c| c >= 2));
    }

    #[test]
    fn an_error_says_where() {
        let e = Error::corrupt("checksum of the footer is 1, expected 2")
            .at(64)
            .in_file(Path::new("a.firn"));
        assert_eq!(
            e.to_string(),
            "a.firn at byte 64: corrupt: checksum of the footer is 1, expected 2"
        );
        assert_eq!(std::mem::size_of::<Result<()>>(), std::mem::size_of::<usize>());
    }
}
