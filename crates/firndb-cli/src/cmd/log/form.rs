//! The formats in which records of a store are written: separated text, CSV, JSON lines.

use clap::ValueEnum;
use firndb_ingest::RecordFormat;
use std::path::Path;

/// Format of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// By the file's name; JSON lines if the name does not decide.
    #[default]
    Auto,
    /// KEY, separator, VALUE and a newline.
    Text,
    /// The header `key,value`, then one row per record.
    Csv,
    /// One JSON object per line; `key_hex` and `value_hex` hold bytes that are not text, and
    /// `expires_at` is when a record expires, in milliseconds since 1970.
    Jsonl,
}

impl Form {
    /// The format to write to a file of this name.
    pub fn of(self, path: Option<&Path>) -> RecordFormat {
        match self {
            Form::Auto => path.map_or(RecordFormat::JsonLines, RecordFormat::of_path),
            Form::Text => RecordFormat::Text,
            Form::Csv => RecordFormat::Csv,
            Form::Jsonl => RecordFormat::JsonLines,
        }
    }
}
