//! Options of reading records.

use crate::format::Format;
use crate::input::{Compression, Progress};
use crate::parse::dialect::Dialect;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Options of a [`RecordReader`](crate::RecordReader).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordOptions {
    /// Format of all inputs; [`Format::Auto`] detects that of each.
    pub format: Format,
    /// Compression of all inputs.
    pub compression: Compression,
    /// Separates key and value in text.
    pub separator: Vec<u8>,
    /// Refuses inputs that are not text: the caller chose a separator.
    pub require_text: bool,
    /// How text inputs are written.
    pub dialect: Dialect,
    /// The columns of the key. All formats but text need one, except JSON lines whose members are
    /// `key` and `value`, or `key_hex` and `value_hex`. The key of several columns is their values
    /// with [`KEY_SEPARATOR`](crate::KEY_SEPARATOR) between them.
    pub keys: Vec<String>,
    /// The key of a row is its number, from 1 and over all inputs; bad rows count. In text the
    /// whole line is the value.
    pub row_number: bool,
    /// The columns of the value; all but those of the key if there are none.
    pub values: Vec<ValueColumn>,
    /// Encodes a single column as a record, too, instead of as its bytes.
    pub record: bool,
    /// Values of JSON lines are JSON objects, for stores without a schema, instead of Avro records.
    pub json_values: bool,
    /// Receives the bytes that were read.
    pub progress: Progress,
    /// Once it is set, every call is `Cancelled` within a tenth of a second.
    pub cancel: Arc<AtomicBool>,
}

impl Default for RecordOptions {
    fn default() -> RecordOptions {
        RecordOptions {
            format: Format::Auto,
            compression: Compression::Auto,
            separator: b"\t".to_vec(),
            require_text: false,
            dialect: Dialect::default(),
            keys: Vec::new(),
            row_number: false,
            values: Vec::new(),
            record: false,
            json_values: false,
            progress: Progress::default(),
            cancel: Arc::default(),
        }
    }
}

impl RecordOptions {
    /// Sets [`RecordOptions::format`].
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Sets [`RecordOptions::compression`].
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Sets [`RecordOptions::separator`].
    pub fn separator(mut self, separator: impl Into<Vec<u8>>) -> Self {
        self.separator = separator.into();
        self
    }

    /// Sets [`RecordOptions::require_text`].
    pub fn require_text(mut self, require: bool) -> Self {
        self.require_text = require;
        self
    }

    /// Sets [`RecordOptions::dialect`].
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Sets [`RecordOptions::keys`] to one column.
    pub fn key(self, column: impl Into<String>) -> Self {
        self.keys([column.into()])
    }

    /// Sets [`RecordOptions::keys`].
    pub fn keys(mut self, columns: impl IntoIterator<Item = String>) -> Self {
        self.keys = columns.into_iter().collect();
        self
    }

    /// Sets [`RecordOptions::row_number`].
    pub fn row_number(mut self, row_number: bool) -> Self {
        self.row_number = row_number;
        self
    }

    /// Sets [`RecordOptions::values`].
    pub fn values(mut self, columns: impl IntoIterator<Item = ValueColumn>) -> Self {
        self.values = columns.into_iter().collect();
        self
    }

    /// Sets [`RecordOptions::record`].
    pub fn record(mut self, record: bool) -> Self {
        self.record = record;
        self
    }

    /// Sets [`RecordOptions::json_values`].
    pub fn json_values(mut self, json: bool) -> Self {
        self.json_values = json;
        self
    }

    /// Sets [`RecordOptions::progress`].
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Sets [`RecordOptions::cancel`].
    pub fn cancel(mut self, cancel: Arc<AtomicBool>) -> Self {
        self.cancel = cancel;
        self
    }

    /// Whether JSON lines are objects with the members of [`RecordWriter`](crate::RecordWriter), or
    /// values are JSON objects.
    pub(crate) fn are_objects(&self) -> bool {
        let has_columns = !self.keys.is_empty() || self.row_number || !self.values.is_empty();
        self.json_values || !has_columns && !self.record
    }

    /// Whether the types of rows must be inferred.
    pub(crate) fn needs_inference(&self) -> bool {
        match &self.values[..] {
            [] => true,
            [_] if !self.record => false,
            values => values.iter().any(|column| column.ty.is_none()),
        }
    }
}

/// A column of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueColumn {
    /// Name of the column.
    pub name: String,
    /// Its type in CSV and JSON lines; `None` infers it. Other formats have types of their own.
    pub ty: Option<ColumnType>,
}

impl ValueColumn {
    /// A column whose type is inferred.
    pub fn new(name: impl Into<String>) -> ValueColumn {
        ValueColumn { name: name.into(), ty: None }
    }

    /// Gives the column a type.
    pub fn with_type(mut self, ty: ColumnType) -> ValueColumn {
        self.ty = Some(ty);
        self
    }

    /// Parses `NAME` or `NAME:TYPE`. A colon without a known type after it belongs to the name.
    ///
    /// # Errors
    ///
    /// The reason, for an empty name.
    pub fn parse(text: &str) -> std::result::Result<ValueColumn, String> {
        let typed =
            text.rsplit_once(':').and_then(|(name, ty)| Some((name, ColumnType::parse(ty)?)));
        let (name, ty) = typed.map_or((text, None), |(name, ty)| (name, Some(ty)));
        match name {
            "" => Err("a column has a name".to_string()),
            name => Ok(ValueColumn { name: name.to_string(), ty }),
        }
    }
}

/// The type of a column of CSV or JSON lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnType {
    /// `true` or `false`.
    Boolean,
    /// An integer of 64 bits.
    Long,
    /// A number of 64 bits (IEEE 754).
    Double,
    /// Text.
    String,
    /// Any JSON value.
    Json,
    /// Numbers of JSON that neither a long nor a double holds, as text. Inferred, never declared.
    NumberText,
}

impl ColumnType {
    pub(crate) const ALL: [(&'static str, ColumnType); 5] = [
        ("boolean", ColumnType::Boolean),
        ("long", ColumnType::Long),
        ("double", ColumnType::Double),
        ("string", ColumnType::String),
        ("json", ColumnType::Json),
    ];

    /// The type with this [`ColumnType::name`].
    pub fn parse(name: &str) -> Option<ColumnType> {
        ColumnType::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// The name of the type.
    pub fn name(self) -> &'static str {
        ColumnType::ALL.iter().find(|(_, kind)| *kind == self).map_or("number", |(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_parsed_with_their_types() {
        let column = ValueColumn::parse("a:b:long").unwrap();
        assert_eq!((column.name.as_str(), column.ty), ("a:b", Some(ColumnType::Long)));
        let column = ValueColumn::parse("a:b").unwrap();
        assert_eq!((column.name.as_str(), column.ty), ("a:b", None));
        assert!(ValueColumn::parse("").is_err() && ValueColumn::parse(":long").is_err());
    }
}
