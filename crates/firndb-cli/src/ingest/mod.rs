//! Rows from text files: what `firn search build` and `replace` read, and the demo.
//!
//! ```text
//! inputs -> source  (files, directories, standard input; gzip and zstd by content)
//!        -> csv | jsonl  (rows of named raw values with their line numbers)
//!        -> infer  (a schema from the first rows, if none was given)
//!        -> typed  (raw values -> a document of the schema)
//! ```
//!
//! A row that is wrong is a [`BadRow`], never an error of the run: the caller stops or skips. An
//! input that cannot be read is an error.

pub mod csv;
pub mod infer;
pub mod jsonl;
pub mod rows;
pub mod source;
pub mod typed;

pub use infer::infer;
pub use rows::Rows;
pub use typed::{BytesAs, PayloadFrom, Typer};

use std::fmt;
use std::rc::Rc;

/// A value as the input has it, before a schema says what it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Raw {
    /// JSON `null`.
    Missing,
    /// A cell of a CSV or TSV file: any type may hide in it.
    Text(String),
    /// A JSON string.
    Str(String),
    /// A JSON boolean.
    Bool(bool),
    /// A JSON integer.
    Int(i64),
    /// A JSON integer beyond the signed range.
    Uint(u64),
    /// A JSON number with a fraction or an exponent.
    Float(f64),
    /// The JSON number `-0`: as an integer it would lose its sign.
    MinusZero,
    /// Any other JSON number, as it is written: an integer beyond 64 bits, or one that is too large
    /// for f64, or so small that it would become zero.
    Large(String),
    /// A JSON array of scalars.
    List(Vec<Raw>),
}

/// A row of an input: its named values, and where it stands.
#[derive(Clone, Debug)]
pub struct Row {
    pub place: Place,
    pub cells: Vec<(Rc<str>, Raw)>,
    /// The row as JSON text, where that is the form of the input.
    pub json: Option<String>,
}

/// Where a row stands.
#[derive(Clone, Debug)]
pub struct Place {
    pub file: Rc<str>,
    /// Line number, from 1.
    pub line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A row that cannot be used: where, which column, why.
#[derive(Clone, Debug)]
pub struct BadRow {
    pub place: Place,
    pub column: Option<String>,
    pub reason: String,
}

impl BadRow {
    /// A row that is wrong as a whole.
    pub fn whole(place: Place, reason: impl Into<String>) -> BadRow {
        BadRow { place, column: None, reason: reason.into() }
    }
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if let Some(column) = &self.column {
            write!(f, "column `{column}`: ")?;
        }
        f.write_str(&self.reason)
    }
}

/// A row or the reason why it cannot be used.
pub type RowResult = Result<Row, BadRow>;

/// A row of a format with the line it starts on, or the reason why it cannot be used.
pub type Numbered<T> = (u64, Result<T, String>);

/// A format: rows one by one until the input ends.
pub trait ReadRows {
    /// The next row; `None` at the end. `Err` means that the input cannot be read any further.
    fn next_row(&mut self) -> firndb::Result<Option<RowResult>>;
}
