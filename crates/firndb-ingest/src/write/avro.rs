//! Record batches as an Avro object container file.

use crate::parse::avro::MAGIC;
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use firndb::{Error, ErrorKind, Result};
use firndb_arrow::avro::{self, Field, Type, encode};
use firndb_arrow::column::{avro_type, check_names, encoder};
use flate2::write::DeflateEncoder;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;

/// Bytes of rows after which a block ends.
const BLOCK: usize = 64 << 10;

/// Writes batches with blocks compressed by deflate, which every reader supports.
pub(super) struct AvroWriter<W> {
    out: W,
    sync: [u8; 16],
    rows: usize,
    block: Vec<u8>,
}

impl<W: Write> AvroWriter<W> {
    /// Writes the header.
    pub(super) fn new(mut out: W, schema: &Schema) -> Result<AvroWriter<W>> {
        let schema = record_type(schema).map_err(|reason| refused(&reason))?.to_json().to_string();
        let mut header = MAGIC.to_vec();
        encode::block(2, &mut header);
        for (key, value) in [("avro.codec", "deflate"), ("avro.schema", &schema)] {
            encode::bytes(key.as_bytes(), &mut header);
            encode::bytes(value.as_bytes(), &mut header);
        }
        encode::end(&mut header);
        // Readers look for the marker to split a file. It must not occur in the rows by chance.
        let random = || RandomState::new().hash_one(0).to_le_bytes();
        let mut sync = [0; 16];
        sync[..8].copy_from_slice(&random());
        sync[8..].copy_from_slice(&random());
        header.extend(sync);
        out.write_all(&header).map_err(failed)?;
        Ok(AvroWriter { out, sync, rows: 0, block: Vec::new() })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let schema = batch.schema();
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(array, field)| encoder(array.as_ref(), field.is_nullable()));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>();
        let columns = columns.map_err(Error::invalid)?;
        for row in 0..batch.num_rows() {
            for (write, field) in columns.iter().zip(schema.fields()) {
                write(row, &mut self.block)
                    .map_err(|reason| refused(&format!("column `{}`: {reason}", field.name())))?;
            }
            self.rows += 1;
            if self.block.len() >= BLOCK {
                self.end_block()?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<W> {
        if self.rows > 0 {
            self.end_block()?;
        }
        self.out.flush().map_err(failed)?;
        Ok(self.out)
    }

    fn end_block(&mut self) -> Result<()> {
        let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        let compressed = encoder.write_all(&self.block).and_then(|()| encoder.finish());
        let mut head = Vec::new();
        encode::long(self.rows as i64, &mut head);
        encode::bytes(&compressed.map_err(failed)?, &mut head);
        head.extend(self.sync);
        self.out.write_all(&head).map_err(failed)?;
        self.rows = 0;
        self.block.clear();
        Ok(())
    }
}

/// The record type of the rows.
fn record_type(schema: &Schema) -> std::result::Result<Type, String> {
    check_names(schema.fields())?;
    let name = "Row".to_string();
    let mut names = vec![name.clone()];
    let mut fields = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let ty = avro_type(field, &name, &mut names)?;
        fields.push(Field { column: field.name().clone(), ty });
    }
    Ok(Type::Record(avro::Record { name, fields }))
}

/// The error for a type or a value that Avro cannot express.
fn refused(reason: &str) -> Error {
    Error::invalid(format!("Avro cannot hold this: {reason}; use parquet or arrow"))
}

fn failed(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Failed, format!("cannot write a record batch: {error}"))
}
