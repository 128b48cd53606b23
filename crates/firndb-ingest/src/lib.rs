//! Reads and writes the files that FirnDB exchanges data in.
//!
//! | format | [`Rows`] | [`RecordReader`] | [`BatchReader`] | writer |
//! |---|---|---|---|---|
//! | CSV, TSV | yes | yes | yes | [`CsvWriter`], [`RowWriter`], [`RecordWriter`] |
//! | JSON lines | yes | yes | yes | [`RowWriter`], [`RecordWriter`] |
//! | text: key, separator, value | | yes | | [`RecordWriter`] |
//! | Parquet, Arrow IPC, Avro | yes | yes | yes | [`BatchWriter`] |
//!
//! - [`Rows`] yields rows of named raw values. [`infer`] infers a schema from them, and a [`Typer`]
//!   converts them to documents of a collection.
//! - [`RecordReader`] yields keys and values as bytes, for tables and logs.
//! - [`BatchReader`] yields Arrow record batches.
//! - [`Parts`] builds partitions from documents in bounded memory.
//! - [`mod@document`] converts documents to and from JSON values and types of serde.
//! - [`query`] reads queries in JSON, and [`results`] has the JSON of what they find.
//!
//! Inputs are files, standard input or any [`Read`](std::io::Read); gzip and zstd are detected by
//! content. A [`Dialect`] says how text inputs are written, and how long a row may be. A row that
//! cannot be used is a [`BadRow`], with its position and the reason: the caller stops or skips it.
//! An input that cannot be read any further is an error. Inputs are treated as hostile: damage is
//! an error, and memory does not depend on lengths that an input states.
//!
//! ```
//! use firndb::search::{PartitionBuilder, Schema};
//! use firndb_ingest::{RowOptions, Rows, Typer, TyperOptions};
//!
//! let csv = &b"id,name,price\n7,seven,1.5\n8,NA,2\n"[..];
//! let mut rows = Rows::from_reader("prices.csv", csv, RowOptions::default());
//! let schema = rows.infer_schema(1000, &["NA".to_string()])?;
//! let mut typer = Typer::new(&schema, TyperOptions::default().null_texts(["NA"]));
//! let mut builder = PartitionBuilder::new(schema.clone());
//! while let Some(row) = rows.next_row()? {
//!     match row.and_then(|row| typer.document(&row)) {
//!         Ok(document) => builder.add(&document)?,
//!         Err(bad) => eprintln!("skipped: {bad}"),
//!     }
//! }
//! # Ok::<(), firndb::Error>(())
//! ```

mod batches;
pub mod document;
mod format;
mod guard;
mod infer;
mod input;
mod parse;
mod parts;
pub mod query;
mod records;
pub mod results;
mod row;
mod rows;
mod shown;
mod typer;
pub mod value;
mod write;

pub use batches::{BatchOptions, BatchReader};
pub use encoding_rs::Encoding;
pub use format::{DataFiles, Format};
pub use guard::in_parser;
pub use infer::{Inference, infer};
pub use input::{Compression, Input, Progress, expand, read_error};
pub use parse::dialect::{
    Dialect, Ragged, parse_delimiter, parse_encoding, parse_quote, parse_special,
};
pub use parts::Parts;
pub use records::{
    ColumnType, EXPIRES_AT, KEY_SEPARATOR, KeyValueBatch, READER_THREAD, RecordOptions,
    RecordReader, ValueColumn, origin, origin_name,
};
pub use row::{BadRow, Position, RawValue, Row, RowResult};
pub use rows::{RowOptions, Rows};
pub use shown::Shown;
pub use typer::{BytesFormat, PayloadSource, Typer, TyperOptions};
pub use write::{
    BatchWriter, CsvWriter, NO_DIGITS, OutputFile, RecordFormat, RecordWriter, RecordWriterOptions,
    RowWriter,
};
