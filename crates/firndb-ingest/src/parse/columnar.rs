//! Opens files of typed columns: Parquet, Arrow IPC and Avro.

use crate::format::Format;
use crate::parse::avro::AvroBatches;
use crate::parse::ipc;
use arrow_array::RecordBatch;
use arrow_ipc::reader::FileReader;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use firndb::{Error, Result};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type as Physical;
use parquet::errors::ParquetError;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::Path;
use std::sync::Arc;

/// The batches of an input of typed columns.
pub(crate) type Batches = Box<dyn Iterator<Item = ArrowResult> + Send>;

pub(crate) type ArrowResult = std::result::Result<RecordBatch, ArrowError>;

/// Opens an input of typed columns with all of its columns. `path` is that of a file, `reader`
/// yields its bytes.
pub(crate) fn open_batches(
    format: Format,
    path: Option<&Path>,
    reader: Box<dyn BufRead + Send>,
    name: &str,
    batch_rows: usize,
) -> Result<(SchemaRef, Batches)> {
    let fail = |e: ArrowError| ipc_error(name, &e);
    Ok(match format {
        Format::Parquet => {
            let builder = open_parquet(path, name)?;
            let schema = builder.schema().clone();
            let batches = builder.with_batch_size(batch_rows).build();
            let batches = batches.map_err(|e| parquet_error(name, &e))?;
            (schema, Box::new(batches))
        }
        Format::Arrow => match arrow_file(path)? {
            Some((mut file, bytes)) => {
                ipc::check_file(&mut file, bytes).map_err(fail)?;
                let batches = FileReader::try_new(file, None).map_err(fail)?;
                (batches.schema(), Box::new(batches))
            }
            None => {
                let (batches, schema) = ipc::Stream::open(reader).map_err(fail)?;
                (schema, Box::new(batches))
            }
        },
        Format::Avro => {
            let (batches, schema) = AvroBatches::open(reader, batch_rows).map_err(fail)?;
            (schema, Box::new(batches))
        }
        other => {
            let other = other.name();
            return Err(Error::invalid(format!("{name}: {other} has no columns with types")));
        }
    })
}

/// Opens a Parquet file. Its metadata is at its end, so it must be a file.
pub(crate) fn open_parquet(
    path: Option<&Path>,
    name: &str,
) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    let Some(path) = path else {
        let message = "Parquet cannot be read from standard input; name the file";
        return Err(Error::invalid(message));
    };
    let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
    parquet_reader(file).map_err(|e| parquet_error(name, &e))
}

fn parquet_error(name: &str, error: &ParquetError) -> Error {
    Error::invalid(format!("{name}: this Parquet file cannot be read: {error}"))
}

/// Opens a Parquet file, with timestamps of the legacy type INT96 in microseconds. The reader's
/// default, nanoseconds, silently overflows outside the years 1677 to 2262.
fn parquet_reader(
    file: File,
) -> std::result::Result<ParquetRecordBatchReaderBuilder<File>, ParquetError> {
    let mut metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())?;
    let columns = metadata.parquet_schema().columns().iter();
    let mut old = columns.map(|column| column.physical_type() == Physical::INT96);
    if old.clone().any(|old| old) {
        let fields = metadata.schema().fields().iter().map(|field| micros(field, &mut old));
        let fields: Fields = fields.collect();
        let schema = Schema::new_with_metadata(fields, metadata.schema().metadata().clone());
        let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
        metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options)?;
    }
    Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata))
}

/// The column with INT96 in microseconds. `old` returns for each leaf column, in order, whether it
/// is INT96.
fn micros(column: &FieldRef, old: &mut impl Iterator<Item = bool>) -> FieldRef {
    let ty = match column.data_type() {
        DataType::List(item) => DataType::List(micros(item, old)),
        DataType::LargeList(item) => DataType::LargeList(micros(item, old)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(micros(item, old), *size),
        DataType::Map(entries, sorted) => DataType::Map(micros(entries, old), *sorted),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| micros(field, old)).collect())
        }
        ty => match (old.next(), ty) {
            (Some(true), DataType::Timestamp(_, zone)) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            _ => ty.clone(),
        },
    };
    Arc::new(Field::clone(column).with_data_type(ty))
}

/// A seekable Arrow IPC file, and its length; `None` for a stream, and for a compressed file.
pub(crate) fn arrow_file(path: Option<&Path>) -> Result<Option<(BufReader<File>, u64)>> {
    let Some(path) = path else { return Ok(None) };
    let fail = |e| Error::io("open", path, e);
    let file = File::open(path).map_err(fail)?;
    let bytes = file.metadata().map_err(fail)?.len();
    let mut file = BufReader::new(file);
    let mut magic = Vec::new();
    file.by_ref().take(6).read_to_end(&mut magic).map_err(fail)?;
    let is_file = magic == b"ARROW1" && file.rewind().is_ok();
    Ok(is_file.then_some((file, bytes)))
}

/// The error of an Arrow IPC file that cannot be read.
pub(crate) fn ipc_error(name: &str, error: &ArrowError) -> Error {
    // Some messages have several lines.
    let reason = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    Error::invalid(format!("{name}: the columns cannot be read: {reason}"))
}
