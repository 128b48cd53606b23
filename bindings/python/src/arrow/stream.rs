//! Streams of the records of stores, for `__arrow_c_stream__`. A stream reads a batch at a time, so
//! that its memory does not depend on the size of the store.

use crate::bytes::Form;
use crate::table::handle::TableRef;
use crate::table::iter::Pages;
use crate::table::rows::{self, RowType};
use arrow_array::builder::{BinaryBuilder, TimestampMillisecondBuilder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use firndb::{Error, Result, log};
use firndb_arrow::column::RowDecoder;
use std::sync::Arc;

/// Records of a batch at most.
const ROWS: usize = 1 << 14;
/// Bytes of keys and values after which a batch ends.
const BYTES: usize = 16 << 20;
/// Bytes of a column at most: offsets have 32 bits.
const COLUMN_MAX: usize = i32::MAX as usize;

/// The records of a table: a column `key`, and a column `value` or the columns of the rows. If a
/// column of the rows is called `key`, that of the keys is `key_`.
pub fn of_table(
    table: TableRef,
    row_type: Option<&RowType>,
    form: Form,
) -> Result<Box<dyn RecordBatchReader + Send>> {
    let batch = Batch::new(form, row_type, false)?;
    let (schema, pages) = (batch.schema()?, Pages::new(table));
    Ok(Box::new(Stream { schema, source: Source::Table(pages), batch, ended: false }))
}

/// The records of a log store or of a snapshot of it: the columns `key`, `value` and `expires_at`.
pub fn of_log(
    records: log::Iter<'static>,
    form: Form,
) -> Result<Box<dyn RecordBatchReader + Send>> {
    let batch = Batch::new(form, None, true)?;
    let schema = batch.schema()?;
    Ok(Box::new(Stream { schema, source: Source::Log(records), batch, ended: false }))
}

/// The schema of the records of a table.
pub fn table_schema(row_type: Option<&RowType>, form: Form) -> Result<SchemaRef> {
    Batch::new(form, row_type, false)?.schema()
}

/// The schema of the records of a log store.
pub fn log_schema(form: Form) -> Result<SchemaRef> {
    Batch::new(form, None, true)?.schema()
}

enum Source {
    Table(Pages),
    Log(log::Iter<'static>),
}

struct Stream {
    schema: SchemaRef,
    source: Source,
    batch: Batch,
    ended: bool,
}

impl Stream {
    /// Reads records until the batch is full.
    fn fill(&mut self) -> Result<()> {
        let batch = &mut self.batch;
        while !self.ended && !batch.is_full() {
            let mut added = Ok(());
            let more = match &mut self.source {
                Source::Table(pages) => pages.next(ROWS - batch.rows, |key, value| {
                    if added.is_ok() {
                        added = batch.push(key, value, None);
                    }
                })?,
                Source::Log(records) => {
                    let read = records.next_entry_with(|entry| {
                        added = batch.push(entry.key, entry.value, entry.expiry.millis());
                    });
                    read.transpose()?.is_some()
                }
            };
            added?;
            self.ended = !more;
        }
        Ok(())
    }
}

impl Iterator for Stream {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match self.fill() {
            Ok(()) if self.batch.rows == 0 => return None,
            Ok(()) => self.batch.finish(&self.schema),
            Err(e) => Err(e),
        };
        if batch.is_err() {
            (self.ended, self.batch.rows) = (true, 0);
        }
        Some(batch.map_err(|e| ArrowError::ExternalError(Box::new(e))))
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// The records of a batch.
struct Batch {
    keys: BinaryBuilder,
    values: Values,
    expiry: Option<TimestampMillisecondBuilder>,
    form: Form,
    rows: usize,
    bytes: usize,
}

enum Values {
    Bytes(BinaryBuilder),
    Rows(Box<RowDecoder>),
}

impl Batch {
    fn new(form: Form, row_type: Option<&RowType>, expiring: bool) -> Result<Batch> {
        let values = match row_type {
            Some(row_type) => Values::Rows(Box::new(row_type.decoder()?)),
            None => Values::Bytes(BinaryBuilder::new()),
        };
        let times = || TimestampMillisecondBuilder::new().with_timezone("UTC");
        let (keys, expiry) = (BinaryBuilder::new(), expiring.then(times));
        Ok(Batch { keys, values, expiry, form, rows: 0, bytes: 0 })
    }

    fn schema(&self) -> Result<SchemaRef> {
        let ty = if self.form.decode { DataType::Utf8 } else { DataType::Binary };
        let mut fields = match &self.values {
            Values::Bytes(_) => vec![Arc::new(Field::new("value", ty.clone(), false))],
            Values::Rows(decoder) => decoder.schema().fields().to_vec(),
        };
        let mut name = "key".to_string();
        while fields.iter().any(|field| *field.name() == name) {
            name.push('_');
        }
        fields.insert(0, Arc::new(Field::new(name, ty, false)));
        if self.expiry.is_some() {
            let ty = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
            fields.push(Arc::new(Field::new("expires_at", ty, true)));
        }
        Ok(Arc::new(Schema::new(fields)))
    }

    fn is_full(&self) -> bool {
        self.rows >= ROWS || self.bytes >= BYTES
    }

    fn push(&mut self, key: &[u8], value: &[u8], expiry: Option<u64>) -> Result<()> {
        let bytes = self.bytes + key.len() + value.len();
        if bytes > COLUMN_MAX {
            return Err(Error::invalid("a value is too long for a record batch: 2 GiB or more"));
        }
        self.keys.append_value(key);
        match &mut self.values {
            Values::Bytes(values) => values.append_value(value),
            Values::Rows(decoder) => rows::decode(decoder, key, value)?,
        }
        if let Some(times) = &mut self.expiry {
            // A time after the last one that Arrow can express is stored as that time.
            times.append_option(expiry.map(|time| i64::try_from(time).unwrap_or(i64::MAX)));
        }
        (self.rows, self.bytes) = (self.rows + 1, bytes);
        Ok(())
    }

    fn finish(&mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        (self.rows, self.bytes) = (0, 0);
        let mut columns = vec![self.form.array(&mut self.keys)?];
        match &mut self.values {
            Values::Bytes(values) => columns.push(self.form.array(values)?),
            Values::Rows(decoder) => {
                columns.extend(rows::finish(decoder)?.columns().iter().cloned());
            }
        }
        if let Some(times) = &mut self.expiry {
            columns.push(Arc::new(times.finish()));
        }
        RecordBatch::try_new(schema.clone(), columns).map_err(|e| Error::invalid(e.to_string()))
    }
}

impl Form {
    /// The bytes that were collected, as text if they are decoded.
    fn array(self, bytes: &mut BinaryBuilder) -> Result<ArrayRef> {
        let bytes = bytes.finish();
        if !self.decode {
            return Ok(Arc::new(bytes));
        }
        let text = StringArray::try_from_binary(bytes).map_err(|e| {
            let message = format!("the store was opened with decode=True, and has bytes: {e}");
            Error::invalid(message)
        })?;
        Ok(Arc::new(text))
    }
}
