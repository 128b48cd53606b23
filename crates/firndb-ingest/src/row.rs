//! Rows of named raw values, with their positions in the input.

use std::fmt;
use std::sync::Arc;

/// A value as the input has it, before a schema gives it a type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RawValue {
    /// JSON `null`, or nothing between two delimiters of CSV or TSV.
    Missing,
    /// A cell of CSV or TSV. It can be of any type. The empty text was in quotes.
    Text(String),
    /// A JSON string.
    Str(String),
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer beyond the signed range.
    Uint(u64),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// The JSON number `-0`, which would lose its sign as an integer.
    NegativeZero,
    /// The text of any other JSON number: an integer beyond 64 bits, or a number that is too large
    /// for an f64, or so small that it would become zero.
    Large(String),
    /// Bytes of a binary column.
    Bytes(Vec<u8>),
    /// A list of scalars.
    List(Vec<RawValue>),
    /// The JSON text of an array with arrays or objects in it, which no field can hold.
    Nested(String),
}

/// A row of an input.
#[derive(Clone, Debug)]
pub struct Row {
    /// Where the row is.
    pub position: Position,
    /// Its values with the names of their columns, in the order of the input.
    pub cells: Vec<(Arc<str>, RawValue)>,
    /// The row as JSON text, if the input is JSON lines.
    pub json: Option<String>,
}

impl RawValue {
    /// Bytes of the texts and bytes in it.
    fn size(&self) -> usize {
        match self {
            RawValue::Text(text)
            | RawValue::Str(text)
            | RawValue::Large(text)
            | RawValue::Nested(text) => text.len(),
            RawValue::Bytes(bytes) => bytes.len(),
            RawValue::List(items) => items.iter().map(RawValue::size).sum(),
            RawValue::Missing => 0,
            _ => size_of::<u64>(),
        }
    }
}

impl Row {
    /// Bytes of its values.
    pub(crate) fn size(&self) -> usize {
        self.cells.iter().map(|(_, value)| value.size()).sum()
    }

    /// The value of a column.
    pub fn get(&self, column: &str) -> Option<&RawValue> {
        self.cells.iter().find(|(name, _)| **name == *column).map(|(_, value)| value)
    }
}

/// The position of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Name of the input.
    pub file: Arc<str>,
    /// Line number, or row number in formats without lines, from 1.
    pub line: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A row that cannot be used, with its position and the reason. Callers either stop or skip it.
/// Displayed as `FILE:LINE: column ...: REASON`.
#[derive(Clone, Debug)]
pub struct BadRow {
    /// Where the row is.
    pub position: Position,
    /// The column concerned; `None` for the whole row.
    pub column: Option<String>,
    /// Why the row cannot be used.
    pub reason: String,
}

impl BadRow {
    /// A row that cannot be used as a whole.
    pub fn whole(position: Position, reason: impl Into<String>) -> BadRow {
        BadRow { position, column: None, reason: reason.into() }
    }
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.position)?;
        if let Some(column) = &self.column {
            write!(f, "column `{column}`: ")?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for BadRow {}

/// A row, or the reason why it cannot be used.
pub type RowResult = Result<Row, BadRow>;

/// A row of a format with the line that it starts on, or the reason why it cannot be used.
pub(crate) type Numbered<T> = (u64, Result<T, String>);

/// A parser of one format.
pub(crate) trait ReadRows: Send {
    /// The next row; `None` at the end. `Err` means that the input cannot be read any further.
    fn next_row(&mut self) -> firndb::Result<Option<RowResult>>;
}
