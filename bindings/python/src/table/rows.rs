//! Values that are records of columns.

use crate::arrow::keys::Keys;
use crate::arrow::scalars;
use crate::table::handle::TableRef;
use arrow_array::RecordBatch;
use firndb::Error;
use firndb_arrow::avro::Type;
use firndb_arrow::column::RowDecoder;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// The type of values that are records of columns.
#[derive(Debug)]
pub struct RowType {
    ty: Type,
    columns: Vec<String>,
    /// Which columns hold any JSON.
    json: Vec<bool>,
}

impl RowType {
    /// The type of values with this schema; `None` if they are not records with columns, or if the
    /// schema is not an Avro schema: a program may store any text.
    pub fn new(schema: &str) -> Option<RowType> {
        let ty = Type::parse(schema).ok().filter(|ty| !ty.is_any())?;
        let Type::Record(record) = &ty else { return None };
        // A schema that cannot be decoded into columns has none.
        RowDecoder::new(&ty).ok()?;
        let columns = record.fields.iter().map(|field| field.column.clone()).collect();
        let json = record.fields.iter().map(|field| field.ty.is_any()).collect();
        Some(RowType { ty, columns, json })
    }

    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// A decoder of values into columns.
    pub fn decoder(&self) -> firndb::Result<RowDecoder> {
        RowDecoder::new(&self.ty).map_err(Error::corrupt)
    }

    /// The rows of a batch as dictionaries.
    pub fn dicts<'py>(
        &self,
        py: Python<'py>,
        batch: &RecordBatch,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let names: Vec<_> = self.columns.iter().map(|name| PyString::new(py, name)).collect();
        let mut rows = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let dict = PyDict::new(py);
            for ((name, column), json) in names.iter().zip(batch.columns()).zip(&self.json) {
                let value = match json {
                    true => scalars::json(py, column.as_ref(), row)?,
                    false => scalars::object(py, column.as_ref(), row)?,
                };
                dict.set_item(name, value)?;
            }
            rows.push(dict);
        }
        Ok(rows)
    }
}

/// Adds the value of a key to a decoder. `Corrupt` if it does not follow the schema.
pub fn decode(decoder: &mut RowDecoder, key: &[u8], value: &[u8]) -> firndb::Result<()> {
    let wrong = |why: String| {
        let key = String::from_utf8_lossy(key);
        Error::corrupt(format!("the value of `{key}` does not follow the schema: {why}"))
    };
    match decoder.decode(value).map_err(wrong)?.len() {
        0 => Ok(()),
        more => Err(wrong(format!("{more} bytes follow the value"))),
    }
}

/// Calls `read` with each key and its value, in the order of the keys.
pub fn read_many(
    table: &TableRef,
    keys: &Keys,
    mut read: impl FnMut(&[u8], Option<&[u8]>) -> firndb::Result<()>,
) -> firndb::Result<()> {
    keys.for_each_chunk(|chunk| {
        table.read_many(&chunk.keys, |at, value| {
            read(chunk.keys[at], value.filter(|_| !chunk.is_null(at)))
        })
    })
}

/// The rows that were decoded.
pub fn finish(decoder: &mut RowDecoder) -> firndb::Result<RecordBatch> {
    decoder.finish().map_err(Error::corrupt)
}

/// The error of a call for rows of a table that has none.
pub fn no_rows() -> Error {
    Error::invalid("the values of this table are not records of columns; use get and get_many")
}
