//! Opens files of typed columns: Parquet, Arrow IPC and Avro.

use crate::format::Format;
use crate::input::GivenBatches;
use crate::parse::avro::AvroBatches;
use crate::parse::failure::{Failure, guarded};
use crate::parse::ipc;
use crate::parse::parquet_file::ParquetFile;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use firndb::{Error, Result};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// A batch, or the reason why it cannot be read.
pub(crate) type BatchResult = std::result::Result<RecordBatch, Failure>;

/// An open input of typed columns.
pub(crate) struct Columns {
    pub(crate) schema: SchemaRef,
    /// Columns that cannot be read. They may be absent from the schema.
    pub(crate) refused: Vec<Refused>,
    name: String,
    source: Source,
}

/// A column that cannot be read.
pub(crate) struct Refused {
    pub(crate) column: String,
    pub(crate) reason: String,
    /// It lacks only a group that has no fields, and so no values.
    pub(crate) is_empty_group: bool,
}

enum Source {
    Parquet(Box<ParquetFile>),
    File(Box<ipc::File<BufReader<File>>>),
    Stream(Box<ipc::Stream>),
    Avro(Box<AvroBatches>),
    Given(GivenBatches),
}

impl Columns {
    /// Opens an input. `path` is that of a file, `reader` yields its bytes.
    pub(crate) fn open(
        format: Format,
        path: Option<&Path>,
        reader: Box<dyn BufRead + Send>,
        name: &str,
        batch_rows: usize,
    ) -> Result<Columns> {
        let refused = Vec::new();
        let (schema, source) = match format {
            Format::Parquet => return Columns::parquet(path, name, batch_rows),
            Format::Arrow => {
                let file =
                    path.map(|path| File::open(path).map_err(|e| Error::io("open", path, e)));
                let file = file.transpose()?;
                named(name, ANY, || {
                    if let Some(file) = file.map_or(Ok(None), ipc::open_file)? {
                        return Ok((file.schema().clone(), Source::File(Box::new(file))));
                    }
                    let stream = ipc::Stream::open(reader)?;
                    Ok((stream.schema().clone(), Source::Stream(Box::new(stream))))
                })?
            }
            Format::Avro => named(name, ANY, || {
                let opened = AvroBatches::open(reader, batch_rows);
                opened.map(|(batches, schema)| (schema, Source::Avro(Box::new(batches))))
            })?,
            other => {
                let other = other.name();
                return Err(Error::invalid(format!("{name}: {other} has no columns with types")));
            }
        };
        Ok(Columns { schema, refused, name: name.to_string(), source })
    }

    /// Opens a Parquet file. Its metadata is at its end, so it must be a file.
    fn parquet(path: Option<&Path>, name: &str, batch_rows: usize) -> Result<Columns> {
        let Some(path) = path else {
            let message = "Parquet cannot be read from standard input; name the file";
            return Err(Error::invalid(message));
        };
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let mut file = named(name, PARQUET, || ParquetFile::open(file, batch_rows))?;
        let (schema, refused) = (file.schema().clone(), std::mem::take(&mut file.refused));
        Ok(Columns {
            schema,
            refused,
            name: name.to_string(),
            source: Source::Parquet(Box::new(file)),
        })
    }

    /// Record batches that a caller passes.
    pub(crate) fn given(schema: SchemaRef, batches: GivenBatches, name: &str) -> Columns {
        let source = Source::Given(batches);
        Columns { schema, refused: Vec::new(), name: name.to_string(), source }
    }

    /// The error for a column that cannot be read.
    pub(crate) fn refuse(&self, Refused { column, reason, .. }: &Refused) -> Error {
        Error::invalid(format!("{}: column `{column}`: {reason}", self.name))
    }

    /// The batches with all columns of the schema. Groups without fields are left out.
    pub(crate) fn all(self) -> Result<Batches> {
        if let Some(refused) = self.refused.iter().find(|refused| !refused.is_empty_group) {
            return Err(self.refuse(refused));
        }
        let columns: Vec<usize> = (0..self.schema.fields().len()).collect();
        self.batches(columns)
    }

    /// The batches with some columns, whose indexes are in ascending order.
    pub(crate) fn batches(self, columns: Vec<usize>) -> Result<Batches> {
        let Columns { schema, name, source, .. } = self;
        let mut what = ANY;
        let some = (columns.len() < schema.fields().len()).then_some(columns.clone());
        let (batches, bytes): (Box<dyn Iterator<Item = BatchResult> + Send>, u64) = match source {
            Source::Parquet(file) => {
                let bytes = file.bytes_per_batch();
                what = PARQUET;
                let batches = named(&name, what, || file.batches(columns))?;
                (Box::new(batches), bytes)
            }
            Source::File(mut file) => {
                let bytes = file.bytes_per_batch();
                let next = move || file.next_batch(some.as_deref()).transpose();
                (Box::new(std::iter::from_fn(next)), bytes)
            }
            Source::Stream(mut stream) => {
                let next = move || stream.next_batch(some.as_deref()).transpose();
                (Box::new(std::iter::from_fn(next)), 0)
            }
            Source::Avro(batches) => (Box::new(projected(batches, some)), 0),
            Source::Given(batches) => {
                (Box::new(projected(batches.map(|batch| batch.map_err(given)), some)), 0)
            }
        };
        Ok(Batches { batches, name, what, bytes, ended: false })
    }
}

/// The batches of an input. An error ends them.
pub(crate) struct Batches {
    batches: Box<dyn Iterator<Item = BatchResult> + Send>,
    name: String,
    what: &'static str,
    /// Bytes of the input by which a batch advances; 0 if reading them is counted.
    pub(crate) bytes: u64,
    ended: bool,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.ended {
            return None;
        }
        let next = named(&self.name, self.what, || self.batches.next().transpose()).transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// What failed, in messages.
const ANY: &str = "the columns cannot be read";
const PARQUET: &str = "this Parquet file cannot be read";

/// Calls a parser. Errors name the input.
fn named<T>(
    name: &str,
    what: &str,
    parse: impl FnOnce() -> std::result::Result<T, Failure>,
) -> Result<T> {
    guarded(parse).map_err(|failure| failure.into_error(name, what))
}

/// The failure of batches that a caller passes, which are no file.
fn given(error: ArrowError) -> Failure {
    match error {
        ArrowError::IoError(_, e) => Failure::Io(e),
        error => Failure::from(error).of_schema(),
    }
}

/// Some columns of batches; all without `columns`.
fn projected(
    batches: impl Iterator<Item = BatchResult> + Send,
    columns: Option<Vec<usize>>,
) -> impl Iterator<Item = BatchResult> + Send {
    batches.map(move |batch| match &columns {
        Some(columns) => Ok(batch?.project(columns)?),
        None => batch,
    })
}
