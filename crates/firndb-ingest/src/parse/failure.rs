//! Why an input of typed columns cannot be read. The kinds of errors follow from one rule: bytes
//! that the specification of the format does not allow are damage, and what it allows but the
//! readers do not support is an invalid argument.

use crate::guard::guard;
use crate::input::read_error;
use arrow_schema::{ArrowError, Field};
use firndb::Error;
use parquet::errors::ParquetError;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Why an input of typed columns cannot be read.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Its bytes are not what its format demands: `Corrupt`.
    Damaged(String),
    /// It has what is not supported, or is of another format: `InvalidArgument`.
    Unsupported(String),
    /// The operating system or a decompressor failed.
    Io(io::Error),
}

/// Parts of messages of parsers, in lower case, that say that a file has more than they support.
/// The crates `parquet` and `arrow` often have one kind of error for this and for damage.
const UNSUPPORTED: [&str; 10] = [
    "not supported",
    "unsupported",
    "not implemented",
    "not yet implemented",
    "at compile time",
    "encrypted",
    // Limits of batches and of the decoder of Avro.
    "overflow decoding byte array",
    "a batch cannot hold as many items",
    "it has too many nulls or empty records",
    "nested too deeply",
];

/// Before numbers that newer versions of Parquet may define.
const NEWER: [&str; 2] = ["unexpected encoding ", "unexpected compressioncodec "];

/// Numbers below this may be defined by newer versions. Others are damage.
const NEWER_NUMBERS: u32 = 32;

impl Failure {
    pub(crate) fn damaged(reason: impl Into<String>) -> Failure {
        Failure::Damaged(reason.into())
    }

    pub(crate) fn unsupported(reason: impl Into<String>) -> Failure {
        Failure::Unsupported(reason.into())
    }

    /// The failure that a message of a parser describes.
    pub(crate) fn of_text(text: &str) -> Failure {
        // Some messages have several lines.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(code) = os_error(&text) {
            return Failure::Io(io::Error::from_raw_os_error(code));
        }
        let lower = text.to_ascii_lowercase();
        let number = NEWER.iter().find_map(|part| lower.split_once(part)?.1.parse::<u32>().ok());
        let is_newer = number.is_some_and(|number| number < NEWER_NUMBERS);
        match is_newer || UNSUPPORTED.iter().any(|part| lower.contains(part)) {
            true => Failure::Unsupported(text),
            false => Failure::Damaged(text),
        }
    }

    /// The failure of a parser whose panic has this message.
    pub(crate) fn of_panic(message: &str) -> Failure {
        match Failure::of_text(message) {
            Failure::Damaged(why) => {
                let text = format!("it is damaged, or its reader has a bug; it gave up: {why}");
                Failure::Damaged(text)
            }
            Failure::Unsupported(why) => {
                let text = format!("it has what is not supported; its reader gave up: {why}");
                Failure::Unsupported(text)
            }
            failure => failure,
        }
    }

    /// The failure with the column in which it occurred.
    pub(crate) fn in_column(self, column: &Field) -> Failure {
        let name = |reason: String| {
            format!("column `{}` of the type {}: {reason}", column.name(), column.data_type())
        };
        match self {
            Failure::Damaged(reason) => Failure::Damaged(name(reason)),
            Failure::Unsupported(reason) => Failure::Unsupported(name(reason)),
            Failure::Io(e) => Failure::Io(e),
        }
    }

    /// What is wrong is that the schema cannot be used, whatever the parser says about it.
    pub(crate) fn of_schema(self) -> Failure {
        match self {
            Failure::Damaged(reason) => Failure::Unsupported(reason),
            failure => failure,
        }
    }

    /// The reason, without its kind.
    pub(crate) fn reason(&self) -> String {
        match self {
            Failure::Damaged(reason) | Failure::Unsupported(reason) => reason.clone(),
            Failure::Io(e) => e.to_string(),
        }
    }

    /// The error. `name` is that of the input, and `what` says what failed.
    pub(crate) fn into_error(self, name: &str, what: &str) -> Error {
        match self {
            Failure::Damaged(reason) => {
                Error::corrupt(format!("{what}: {reason}")).in_file(Path::new(name))
            }
            Failure::Unsupported(reason) => Error::invalid(format!("{name}: {what}: {reason}")),
            Failure::Io(e) => read_error(name, e),
        }
    }
}

/// The error of the operating system in a message: the reader of Parquet returns errors of batches
/// as texts.
fn os_error(text: &str) -> Option<i32> {
    text.rsplit_once("(os error ")?.1.split_once(')')?.0.parse().ok()
}

/// Errors of reading an input. Where its bytes end too early, it is damaged.
impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        match e.kind() {
            ErrorKind::UnexpectedEof => Failure::damaged("it is cut off"),
            _ => Failure::Io(e),
        }
    }
}

/// Decompressors of pages and buffers return errors of the same type as files do.
fn of_parser(e: io::Error) -> Failure {
    match e.raw_os_error() {
        Some(_) => Failure::Io(e),
        None => Failure::of_text(&e.to_string()),
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Failure {
        match error {
            ArrowError::IoError(_, e) => of_parser(e),
            ArrowError::NotYetImplemented(text) => {
                Failure::Unsupported(format!("it is not implemented: {text}"))
            }
            ArrowError::ParseError(text)
            | ArrowError::IpcError(text)
            | ArrowError::SchemaError(text)
            | ArrowError::ParquetError(text)
            | ArrowError::InvalidArgumentError(text) => Failure::of_text(&text),
            // The reader of Parquet wraps its errors.
            ArrowError::ExternalError(e) => match e.downcast::<ParquetError>() {
                Ok(e) => (*e).into(),
                Err(e) => Failure::of_text(&e.to_string()),
            },
            other => Failure::of_text(&other.to_string()),
        }
    }
}

impl From<ParquetError> for Failure {
    fn from(error: ParquetError) -> Failure {
        match error {
            ParquetError::NYI(text) => Failure::Unsupported(text),
            ParquetError::General(text) | ParquetError::ArrowError(text) => Failure::of_text(&text),
            ParquetError::External(e) => match e.downcast::<io::Error>() {
                Ok(e) => of_parser(*e),
                Err(e) => match e.downcast::<ArrowError>() {
                    Ok(e) => (*e).into(),
                    Err(e) => Failure::of_text(&e.to_string()),
                },
            },
            other => Failure::of_text(&other.to_string()),
        }
    }
}

/// Calls a parser of another crate. A panic is a failure.
pub(crate) fn guarded<T, E: Into<Failure>>(
    parse: impl FnOnce() -> Result<T, E>,
) -> Result<T, Failure> {
    let parsed = guard(parse).map_err(|message| Failure::of_panic(&message))?;
    parsed.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;
    use firndb::ErrorKind;

    #[test]
    fn kinds_follow_from_what_parsers_say() {
        let kind = |failure: Failure| failure.into_error("a", "it cannot be read").kind();
        let parquet = |text: &str| kind(ParquetError::General(text.to_string()).into());
        assert_eq!(parquet("Page CRC checksum mismatch"), ErrorKind::Corrupt);
        assert_eq!(parquet("Disabled feature at compile time: lzo"), ErrorKind::InvalidArgument);
        assert_eq!(parquet("Unexpected Encoding 10"), ErrorKind::InvalidArgument);
        assert_eq!(parquet("Unexpected Encoding 1344"), ErrorKind::Corrupt);
        assert_eq!(kind(ParquetError::NYI("x".into()).into()), ErrorKind::InvalidArgument);
        assert_eq!(kind(ParquetError::EOF("x".into()).into()), ErrorKind::Corrupt);
        let nested = ArrowError::ExternalError(Box::new(ParquetError::NYI("x".into())));
        assert_eq!(kind(nested.into()), ErrorKind::InvalidArgument);
        let gone = || io::Error::from_raw_os_error(5);
        assert_eq!(kind(ParquetError::External(Box::new(gone())).into()), ErrorKind::Io);
        assert_eq!(kind(ArrowError::IoError("x".into(), gone()).into()), ErrorKind::Io);
        let batch = ArrowError::from(ParquetError::External(Box::new(gone())));
        assert_eq!(kind(batch.into()), ErrorKind::Io);
        let decompressor = || io::Error::other("corrupt deflate stream");
        let external = ParquetError::External(Box::new(decompressor()));
        assert_eq!(kind(external.into()), ErrorKind::Corrupt);
        assert_eq!(kind(gone().into()), ErrorKind::Io);
        assert_eq!(kind(io::Error::from(io::ErrorKind::UnexpectedEof).into()), ErrorKind::Corrupt);
    }

    #[test]
    fn panics_are_failures() {
        let of = |message: &'static str| {
            guarded(|| -> Result<(), Failure> { panic!("{message}") }).unwrap_err()
        };
        assert!(matches!(of("index out of\n bounds"), Failure::Damaged(why)
            if why.ends_with("gave up: index out of bounds")));
        assert!(matches!(of("not yet implemented: x"), Failure::Unsupported(_)));
    }
}
