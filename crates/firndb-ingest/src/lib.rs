//! Rows and records for FirnDB from files: CSV, TSV, text, JSON lines, Parquet and Arrow.

mod format;
mod infer;
mod input;
mod parse;
mod records;
mod row;
mod rows;
mod typer;
pub mod value;
mod write;

pub use encoding_rs::Encoding;
pub use format::{DataFiles, Format};
pub use infer::infer;
pub use input::{Compression, Input, Progress, expand};
pub use parse::csv::parse_delimiter;
pub use records::{
    ColumnType, EXPIRES_AT, KeyValueBatch, READER_THREAD, RecordOptions, RecordReader, ValueColumn,
    origin, origin_name,
};
pub use row::{BadRow, Position, RawValue, Row, RowResult};
pub use rows::{RowOptions, Rows};
pub use typer::{BytesFormat, PayloadSource, Typer, TyperOptions};
pub use write::{
    BatchWriter, NO_DIGITS, OutputFile, RecordFormat, RecordWriter, RecordWriterOptions, RowWriter,
};
