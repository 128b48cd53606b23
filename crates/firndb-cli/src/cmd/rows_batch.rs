//! Records of a table whose values are rows, as Arrow record batches with a column per field.

use firndb::search::{Document, Field, Roles, Type, Value};
use firndb::{Error, Result};
use firndb_arrow::avro::{self, Record};
use firndb_arrow::document::BatchBuilder;
use firndb_ingest::{BatchWriter, Format};
use serde_json::Value as Json;
use std::io::Write;

/// Rows per batch.
const ROWS: usize = 8192;

/// Writes a column `key` of bytes, and a column per field: booleans, 64-bit integers and floats
/// keep their types, everything else is text, as in CSV.
pub struct RowBatches<W: Write + Send> {
    fields: Vec<Field>,
    builder: BatchBuilder,
    writer: BatchWriter<W>,
}

impl<W: Write + Send> RowBatches<W> {
    pub fn new(out: W, format: Format, record: &Record) -> Result<RowBatches<W>> {
        let mut fields = vec![Field::new("key", Type::Bytes, Roles::STORED)];
        for field in &record.fields {
            if field.column == "key" {
                let message = "the rows have a column `key`, besides the keys of the table; export \
                               them as CSV, TSV or JSON lines";
                return Err(Error::invalid(message));
            }
            let mut column = Field::new(&field.column, column_type(&field.ty), Roles::STORED);
            column.nullable = true;
            fields.push(column);
        }
        let builder = BatchBuilder::new(&fields);
        let writer =
            BatchWriter::new(out, format, &firndb_arrow::document::to_arrow_schema(&fields))?;
        Ok(RowBatches { fields, builder, writer })
    }

    /// Adds a record whose value is this object.
    pub fn push(&mut self, key: &[u8], row: &Json) -> Result<()> {
        let mut document = Document::new().set("key", Value::Bytes(key.into()));
        for field in &self.fields[1..] {
            if let Some(value) = value_of(field.ty, &row[&field.name]) {
                document = document.set(&field.name, value);
            }
        }
        self.builder.push(&document)?;
        match self.builder.len() >= ROWS {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        let batch = self.builder.finish()?;
        self.writer.write(&batch)
    }

    pub fn finish(mut self) -> Result<W> {
        if !self.builder.is_empty() {
            self.flush()?;
        }
        self.writer.finish()
    }
}

/// The type of a column; a union of null and one type is that type.
fn column_type(ty: &avro::Type) -> Type {
    match ty {
        avro::Type::Boolean => Type::Bool,
        avro::Type::Int | avro::Type::Long => Type::I64,
        avro::Type::Float | avro::Type::Double => Type::F64,
        avro::Type::Union(types) => {
            let mut others = types.iter().filter(|ty| **ty != avro::Type::Null);
            match (others.next(), others.next()) {
                (Some(ty), None) => column_type(ty),
                _ => Type::String,
            }
        }
        _ => Type::String,
    }
}

fn value_of(ty: Type, json: &Json) -> Option<Value> {
    match (ty, json) {
        (_, Json::Null) => None,
        (Type::Bool, json) => json.as_bool().map(Value::Bool),
        (Type::I64, json) => json.as_i64().map(Value::I64),
        // Numbers that JSON cannot express are texts there.
        (Type::F64, Json::String(text)) => text.parse().ok().map(Value::F64),
        (Type::F64, json) => json.as_f64().map(Value::F64),
        (_, Json::String(text)) => Some(Value::from(text.as_str())),
        (_, other) => Some(Value::from(other.to_string())),
    }
}
