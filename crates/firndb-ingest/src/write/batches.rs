//! Record batches as Parquet, Arrow IPC or Avro.

use crate::format::Format;
use crate::write::avro::AvroWriter;
use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Fields, Schema};
use firndb::{Error, ErrorKind, Result};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::fmt;
use std::io::Write;
use std::sync::Arc;

/// Writes record batches as Parquet (compressed with zstd), as an Arrow IPC stream, or as an Avro
/// object container file (compressed with deflate).
///
/// ```
/// use arrow_array::{Int64Array, RecordBatch};
/// use firndb_ingest::{BatchWriter, Format};
/// use std::sync::Arc;
///
/// let ids = Int64Array::from(vec![7, 8]);
/// let batch = RecordBatch::try_from_iter([("id", Arc::new(ids) as _)]).unwrap();
/// let mut writer = BatchWriter::new(Vec::new(), Format::Parquet, &batch.schema())?;
/// writer.write(&batch)?;
/// assert!(writer.finish()?.starts_with(b"PAR1"));
/// # Ok::<(), firndb::Error>(())
/// ```
pub struct BatchWriter<W: Write + Send>(Inner<W>);

enum Inner<W: Write + Send> {
    Parquet(Box<ArrowWriter<W>>),
    Arrow(Box<StreamWriter<W>>),
    Avro(AvroWriter<W>),
}

impl<W: Write + Send> BatchWriter<W> {
    /// A writer of batches of this schema.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for formats without types (see [`Format::has_types`]), and for schemas
    /// that the format cannot express; `Failed`.
    pub fn new(out: W, format: Format, schema: &Schema) -> Result<BatchWriter<W>> {
        Ok(BatchWriter(match format {
            Format::Parquet => {
                check_dictionaries(schema.fields())?;
                let zstd = Compression::ZSTD(ZstdLevel::default());
                let properties = WriterProperties::builder().set_compression(zstd).build();
                let schema = Arc::new(schema.clone());
                let writer = ArrowWriter::try_new(out, schema, Some(properties));
                Inner::Parquet(Box::new(writer.map_err(|e| Error::invalid(e.to_string()))?))
            }
            Format::Arrow => {
                let writer = StreamWriter::try_new(out, schema);
                Inner::Arrow(Box::new(writer.map_err(|e| Error::invalid(e.to_string()))?))
            }
            Format::Avro => Inner::Avro(AvroWriter::new(out, schema)?),
            other => {
                let message = format!("record batches are not written as {}", other.name());
                return Err(Error::invalid(message));
            }
        }))
    }

    /// Writes a batch. Parquet buffers up to a row group of 1,048,576 rows, Avro 64 KiB.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a value that Avro cannot express; `Failed`.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match &mut self.0 {
            Inner::Parquet(writer) => writer.write(batch).map_err(failed),
            Inner::Arrow(writer) => writer.write(batch).map_err(failed),
            Inner::Avro(writer) => writer.write(batch),
        }
    }

    /// Writes the end of the file. Without it a Parquet file cannot be read.
    ///
    /// # Errors
    ///
    /// `Failed`.
    pub fn finish(self) -> Result<W> {
        match self.0 {
            Inner::Parquet(writer) => writer.into_inner().map_err(failed),
            Inner::Arrow(writer) => writer.into_inner().map_err(failed),
            Inner::Avro(writer) => writer.finish(),
        }
    }
}

impl<W: Write + Send> fmt::Debug for BatchWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Inner::Parquet(_) => "BatchWriter(parquet)",
            Inner::Arrow(_) => "BatchWriter(arrow)",
            Inner::Avro(_) => "BatchWriter(avro)",
        })
    }
}

/// Refuses dictionaries of values of a fixed size, which the crate `parquet` writes in a way that
/// other readers do not read.
fn check_dictionaries(fields: &Fields) -> Result<()> {
    fields.iter().try_for_each(|field| match field.data_type() {
        DataType::Dictionary(_, values) if matches!(**values, DataType::FixedSizeBinary(_)) => {
            let (name, ty) = (field.name(), field.data_type());
            let message = format!("column `{name}`: the type {ty} is not written as Parquet");
            Err(Error::invalid(format!("{message}; use its values, or Arrow")))
        }
        DataType::Struct(fields) => check_dictionaries(fields),
        DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => {
            check_dictionaries(&Fields::from(vec![item.clone()]))
        }
        _ => Ok(()),
    })
}

fn failed(error: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Failed, format!("cannot write a record batch: {error}"))
}
