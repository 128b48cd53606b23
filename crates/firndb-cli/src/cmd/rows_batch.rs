//! Records of a table whose values are rows, as Arrow record batches with a column per field.

use arrow_array::builder::BinaryBuilder;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use firndb::{Error, Result};
use firndb_arrow::avro::{Record, Type};
use firndb_arrow::column::RowDecoder;
use firndb_ingest::value::shown_key;
use firndb_ingest::{BatchWriter, Format};
use std::io::Write;
use std::sync::Arc;

/// Rows per batch.
const ROWS: usize = 8192;

/// Bytes of rows after which a batch ends.
const BYTES: usize = 16 << 20;

/// Writes a column `key` of bytes, and a column per field with its type.
pub struct RowBatches<W: Write + Send> {
    keys: BinaryBuilder,
    rows: RowDecoder,
    schema: SchemaRef,
    writer: BatchWriter<W>,
}

impl<W: Write + Send> RowBatches<W> {
    pub fn new(out: W, format: Format, record: &Record) -> Result<RowBatches<W>> {
        let refuse = |why: String| {
            Error::invalid(format!("{why}; {} cannot hold these rows, use jsonl", format.name()))
        };
        if record.fields.iter().any(|field| field.column == "key") {
            let why = "the rows have a column `key`, besides the keys of the table";
            return Err(refuse(why.to_string()));
        }
        let rows = RowDecoder::new(&Type::Record(record.clone())).map_err(refuse)?;
        let key = Arc::new(Field::new("key", DataType::Binary, false));
        let fields = [key].into_iter().chain(rows.schema().fields().iter().cloned());
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let writer = BatchWriter::new(out, format, &schema).map_err(|e| refuse(e.to_string()))?;
        Ok(RowBatches { keys: BinaryBuilder::new(), rows, schema, writer })
    }

    /// Adds a record.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let corrupt = |why: String| {
            let key = shown_key(key);
            Error::corrupt(format!("the value of {key} does not follow the schema: {why}"))
        };
        let rest = self.rows.decode(value).map_err(corrupt)?;
        if !rest.is_empty() {
            return Err(corrupt(format!("{} bytes follow the value", rest.len())));
        }
        self.keys.append_value(key);
        match self.rows.len() >= ROWS || self.rows.size() >= BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        let rows = self.rows.finish().map_err(Error::invalid)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let keys: ArrayRef = Arc::new(self.keys.finish());
        let columns = [keys].into_iter().chain(rows.columns().iter().cloned()).collect();
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        self.writer.write(&batch.map_err(|e| Error::invalid(e.to_string()))?)
    }

    pub fn finish(mut self) -> Result<W> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        self.writer.finish()
    }
}
