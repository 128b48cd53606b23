//! The error of the library: a kind for programs, a message for people, and the location.
//!
//! Exit codes, HTTP statuses, errors of the Redis protocol, and the exceptions of the bindings come
//! from [`ErrorKind`] in one table. Programs branch on the kind and never parse messages.

use std::fmt;
use std::path::{Path, PathBuf};

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error, for programs to branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument exceeds a documented limit or names something that is not in the schema.
    InvalidArgument,
    /// There is no store, file or partition of this name. (An absent key is `None` and not an
    /// error.)
    NotFound,
    /// The call would overwrite something that exists.
    AlreadyExists,
    /// Another process or handle holds the writer's lock.
    Locked,
    /// Data read from disk has a wrong checksum or an invalid structure.
    Corrupt,
    /// The file was written by a newer release, which can read it. It was not changed.
    UnsupportedVersion,
    /// A call to the operating system failed.
    Io,
    /// The handle is no longer usable, because an earlier write or sync failed or a limit of the
    /// handle is reached: open it again or start over.
    Failed,
    /// The query exceeded its deadline or was cancelled.
    Cancelled,
}

impl ErrorKind {
    /// All kinds, for tables that must be complete.
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

    /// Exit code of the command line for this kind. 0 means success and 1 an internal failure of
    /// the program.
    pub fn exit_code(self) -> u8 {
        self.forms().exit_code
    }

    /// Stable name of the kind for machines (`firn --json`).
    pub fn name(self) -> &'static str {
        self.forms().name
    }

    /// Status of an HTTP response for this kind.
    pub fn http_status(self) -> u16 {
        self.forms().http_status
    }

    /// First word of an error of the Redis protocol for this kind.
    pub fn redis_prefix(self) -> &'static str {
        self.forms().redis_prefix
    }

    /// The built-in Python exception from which the exception of this kind is derived.
    pub fn python_base(self) -> &'static str {
        self.forms().python_base
    }

    /// The Java exception from which the exception of this kind is derived, or which it is if it
    /// is one of the JDK.
    pub fn java_base(self) -> &'static str {
        self.forms().java_base
    }

    /// The table of what each kind is outside this crate.
    #[rustfmt::skip]
    fn forms(self) -> Forms {
        let row = |exit_code, name, http_status, redis_prefix, python_base, java_base| {
            Forms { exit_code, name, http_status, redis_prefix, python_base, java_base }
        };
        match self {
            ErrorKind::InvalidArgument =>
                row(2, "invalid_argument", 400, "ERR", "ValueError", "IllegalArgumentException"),
            ErrorKind::NotFound =>
                row(3, "not_found", 404, "ERR", "FileNotFoundError", "FirnException"),
            ErrorKind::AlreadyExists =>
                row(4, "already_exists", 409, "ERR", "FileExistsError", "FirnException"),
            ErrorKind::Locked =>
                row(5, "locked", 423, "READONLY", "BlockingIOError", "FirnException"),
            ErrorKind::Corrupt =>
                row(6, "corrupt", 500, "ERR", "Exception", "FirnException"),
            ErrorKind::UnsupportedVersion =>
                row(7, "unsupported_version", 500, "ERR", "Exception", "FirnException"),
            ErrorKind::Io =>
                row(8, "io", 500, "MISCONF", "OSError", "FirnException"),
            ErrorKind::Failed =>
                row(9, "failed", 503, "MISCONF", "RuntimeError", "FirnException"),
            ErrorKind::Cancelled =>
                row(10, "cancelled", 503, "TRYAGAIN", "TimeoutError", "FirnException"),
        }
    }
}

/// What a kind of error is outside this crate.
struct Forms {
    exit_code: u8,
    name: &'static str,
    http_status: u16,
    redis_prefix: &'static str,
    python_base: &'static str,
    java_base: &'static str,
}

/// An error of FirnDB. It is one pointer wide. Branch on its [`ErrorKind`].
///
/// ```
/// use firndb::{Error, ErrorKind};
///
/// /// What to tell the user of a service.
/// fn advice(error: &Error) -> String {
///     match error.kind() {
///         ErrorKind::InvalidArgument => format!("change the request: {}", error.message()),
///         ErrorKind::Locked => "another process is writing; try again later".to_string(),
///         ErrorKind::Corrupt => format!("restore {:?} from a backup", error.file()),
///         _ => error.to_string(), // has the file, the offset and the reason
///     }
/// }
/// ```
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
    /// Creates an error. The message says what happened and what to do about it.
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

    /// An error for an invalid argument.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// An error for invalid data on disk. Add the location with [`Error::in_file`] and
    /// [`Error::at`].
    pub fn corrupt(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Corrupt, message)
    }

    /// An error of the operating system for `action` on `path`.
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

    /// The kind of the operating system's error, if it is one.
    pub(crate) fn io_kind(&self) -> Option<std::io::ErrorKind> {
        self.0.source.as_ref().map(std::io::Error::kind)
    }

    /// Whether the disk is full or the user's quota is exceeded.
    pub fn is_disk_full(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        self.0.source.as_ref().is_some_and(|e| matches!(e.kind(), QuotaExceeded | StorageFull))
    }

    /// Adds the file in which the error occurred, unless it has one.
    pub fn in_file(mut self, file: &Path) -> Error {
        self.0.file.get_or_insert_with(|| file.to_path_buf());
        self
    }

    /// Adds the byte offset at which the error occurred, unless it has one.
    pub fn at(mut self, offset: u64) -> Error {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Adds the bytes `start..end` of the query or schema text in which the error occurred.
    pub fn with_span(mut self, start: usize, end: usize) -> Error {
        self.0.span.get_or_insert((start, end));
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message, without file and offset.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The file in which the error occurred.
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// The byte offset in [`Error::file`].
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The bytes `start..end` of the parsed text in which the error occurred.
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
        assert!(ErrorKind::ALL.iter().all(|kind| (400..600).contains(&kind.http_status())));
    }

    #[test]
    fn an_error_shows_its_location() {
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
