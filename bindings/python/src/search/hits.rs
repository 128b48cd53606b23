//! `Hits`: what a search found, read on demand.

use crate::arrow::capsule::{export_schema, export_stream, invalid};
use crate::error::Result;
use crate::gil::detached;
use crate::search::value::{to_optional, to_python};
use arrow_array::builder::LargeBinaryBuilder;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field as Column, SchemaRef};
use firndb::Error;
use firndb::search::{Field, Hit, Query, Reader, Value};
use firndb_arrow::document::{hits_to_batch, to_arrow_schema};
use firndb_ingest::results::{next_token, shown_fields};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PySlice, PyString};
use std::sync::Arc;

/// Maximum number of hits of a record batch.
const BATCH: usize = 1 << 16;

/// The native part of `firndb.Hits`.
#[pyclass(subclass, frozen, module = "firndb._native")]
pub struct Hits {
    found: Arc<Found>,
}

struct Found {
    reader: Reader,
    hits: Vec<Hit>,
    fields: Vec<Field>,
    names: Vec<String>,
    /// The name of the column of the payloads, if they were requested.
    payload: Option<String>,
    total: Option<u64>,
    next: Option<String>,
}

/// The values of some hits: for each field those of each hit, and the payloads.
struct Block {
    columns: Vec<Vec<Vec<Value>>>,
    payloads: Vec<Vec<u8>>,
}

impl Hits {
    /// Searches, without the GIL. `fields` are the fields to read, all that can be read if `None`.
    pub fn search(
        py: Python<'_>,
        reader: Reader,
        query: &Query,
        fields: Option<Vec<String>>,
        payload: bool,
    ) -> Result<Hits> {
        let names = shown_fields(reader.schema(), &[], fields.as_deref())?;
        let fields: Vec<Field> = names
            .iter()
            .filter_map(|name| reader.schema().field(name).map(|(_, field)| field.clone()))
            .collect();
        let is_taken = names.iter().any(|name| name == "payload");
        let column = if is_taken { "_payload" } else { "payload" };
        let (page, next) = detached(py, || {
            let page = reader.search(query)?;
            let next = next_token(&reader, query, &page)?;
            Ok((page, next))
        })?;
        let payload = payload.then(|| column.to_string());
        let (hits, total) = (page.hits, page.count);
        let found = Found { reader, hits, fields, names, payload, total, next };
        Ok(Hits { found: Arc::new(found) })
    }
}

#[pymethods]
impl Hits {
    #[new]
    fn new(other: &Bound<'_, Hits>) -> Hits {
        Hits { found: other.get().found.clone() }
    }

    fn __len__(&self) -> usize {
        self.found.hits.len()
    }

    /// The number of all matches, if the search counted them.
    #[getter]
    fn total(&self) -> Option<u64> {
        self.found.total
    }

    /// The token of the next page, for `after`; `None` if this is the last page.
    #[getter]
    fn next(&self) -> Option<&str> {
        self.found.next.as_deref()
    }

    /// The names of the fields that rows have.
    #[getter]
    fn fields(&self) -> Vec<String> {
        self.found.names.clone()
    }

    /// The payloads, as bytes, whether or not rows have them.
    #[getter]
    fn payloads<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyList>> {
        let payloads = detached(py, || self.found.payloads(&self.found.hits))?;
        Ok(PyList::new(py, payloads.iter().map(|payload| PyBytes::new(py, payload)))?)
    }

    /// A row, by its number from the start, or from the end if it is negative.
    fn _row<'py>(&self, py: Python<'py>, at: isize) -> Result<Bound<'py, PyDict>> {
        let len = self.found.hits.len();
        let index = if at < 0 { len.checked_add_signed(at) } else { Some(at as usize) };
        let Some(index) = index.filter(|index| *index < len) else {
            let message = format!("row {at} of {len} rows");
            return Err(PyIndexError::new_err(message).into());
        };
        let block = self.found.block(&self.found.hits[index..index + 1])?;
        Ok(self.found.row(py, &block, 0, &self.found.keys(py))?)
    }

    /// Rows as a list of dictionaries.
    fn _rows<'py>(&self, py: Python<'py>, start: usize, stop: usize) -> Result<Bound<'py, PyList>> {
        let stop = stop.min(self.found.hits.len());
        let hits = &self.found.hits[start.min(stop)..stop];
        let (rows, keys) = (PyList::empty(py), self.found.keys(py));
        for chunk in hits.chunks(BATCH) {
            let block = detached(py, || self.found.block(chunk))?;
            for at in 0..chunk.len() {
                rows.append(self.found.row(py, &block, at, &keys)?)?;
            }
        }
        Ok(rows)
    }

    /// The hits of a slice.
    fn _slice(&self, slice: &Bound<'_, PySlice>) -> Result<Hits> {
        let found = &*self.found;
        let indices = slice.indices(found.hits.len() as isize)?;
        let at = |i: usize| found.hits[(indices.start + i as isize * indices.step) as usize];
        let hits = (0..indices.slicelength).map(at).collect();
        Ok(Hits {
            found: Arc::new(Found {
                reader: found.reader.clone(),
                hits,
                fields: found.fields.clone(),
                names: found.names.clone(),
                payload: found.payload.clone(),
                total: found.total,
                next: None,
            }),
        })
    }

    /// The hits as a stream of Arrow record batches, one column for each field.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // A consumer converts the columns itself.
        let schema = self.found.arrow_schema();
        let found = self.found.clone();
        export_stream(py, Box::new(Batches { found, schema, at: 0, has_started: false }))
    }

    /// The Arrow schema of the columns.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyCapsule>> {
        export_schema(py, &self.found.arrow_schema())
    }
}

impl Found {
    fn arrow_schema(&self) -> SchemaRef {
        let schema = to_arrow_schema(&self.fields);
        let Some(name) = &self.payload else { return Arc::new(schema) };
        let mut columns = schema.fields().to_vec();
        columns.push(Arc::new(Column::new(name, DataType::LargeBinary, false)));
        Arc::new(arrow_schema::Schema::new(columns))
    }

    fn payloads(&self, hits: &[Hit]) -> firndb::Result<Vec<Vec<u8>>> {
        let payloads = self.reader.payloads(hits)?;
        Ok(payloads.into_iter().map(|payload| payload.into_owned()).collect())
    }

    /// Reads the values of some hits.
    fn block(&self, hits: &[Hit]) -> firndb::Result<Block> {
        let mut columns = Vec::with_capacity(self.names.len());
        for name in &self.names {
            let mut column = Vec::with_capacity(hits.len());
            let mut field = self.reader.field(name)?;
            field.each_list(hits, |values| column.push(values.to_vec()))?;
            columns.push(column);
        }
        let payloads = if self.payload.is_some() { self.payloads(hits)? } else { Vec::new() };
        Ok(Block { columns, payloads })
    }

    /// The names of the fields as Python objects, which rows share.
    fn keys<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyString>> {
        self.names.iter().map(|name| PyString::new(py, name)).collect()
    }

    fn row<'py>(
        &self,
        py: Python<'py>,
        block: &Block,
        at: usize,
        keys: &[Bound<'py, PyString>],
    ) -> PyResult<Bound<'py, PyDict>> {
        let row = PyDict::new(py);
        for ((key, field), column) in keys.iter().zip(&self.fields).zip(&block.columns) {
            let values = &column[at];
            if field.multi {
                let list = PyList::empty(py);
                values.iter().try_for_each(|value| list.append(to_python(py, value)?))?;
                row.set_item(key, list)?;
            } else {
                row.set_item(key, to_optional(py, values.first())?)?;
            }
        }
        if let Some(name) = &self.payload {
            row.set_item(name, PyBytes::new(py, &block.payloads[at]))?;
        }
        Ok(row)
    }

    fn batch(&self, hits: &[Hit], schema: &SchemaRef) -> firndb::Result<RecordBatch> {
        let batch = hits_to_batch(&self.reader, hits, &self.names)?;
        if self.payload.is_none() {
            return Ok(batch);
        }
        let mut payloads = LargeBinaryBuilder::new();
        for payload in self.reader.payloads(hits)? {
            payloads.append_value(&payload);
        }
        let mut columns = batch.columns().to_vec();
        let payloads: ArrayRef = Arc::new(payloads.finish());
        columns.push(payloads);
        RecordBatch::try_new(schema.clone(), columns).map_err(invalid)
    }
}

/// A stream of the hits as record batches.
struct Batches {
    found: Arc<Found>,
    schema: SchemaRef,
    at: usize,
    has_started: bool,
}

impl Iterator for Batches {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.found.hits[self.at..];
        let hits = &rest[..rest.len().min(BATCH)];
        // Of no hits there is one empty batch: some consumers take the columns from it.
        if hits.is_empty() && self.has_started {
            return None;
        }
        self.has_started = true;
        self.at += hits.len();
        let batch = self.found.batch(hits, &self.schema);
        Some(batch.map_err(|e: Error| ArrowError::ExternalError(Box::new(e))))
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
