//! The forms in which records leave a store: separated text, CSV, JSON lines.

use clap::ValueEnum;
use firndb_ingest::RecordFormat;
use std::path::Path;

/// Form of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// By the file's name; JSON lines if it says nothing.
    #[default]
    Auto,
    /// KEY, separator, VALUE and a newline.
    Text,
    /// The header `key,value`, then a row a record.
    Csv,
    /// A JSON object a line; `key_hex` and `value_hex` stand for bytes that are not text, and
    /// `expires_at` is when a record expires, in milliseconds since 1970.
    Jsonl,
}

impl Form {
    /// The format, given the name of the file.
    pub fn of(self, path: Option<&Path>) -> RecordFormat {
        match self {
            Form::Auto => path.map_or(RecordFormat::JsonLines, RecordFormat::of_path),
            Form::Text => RecordFormat::Text,
            Form::Csv => RecordFormat::Csv,
            Form::Jsonl => RecordFormat::JsonLines,
        }
    }
}
