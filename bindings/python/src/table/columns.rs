//! Values of many keys as Arrow data with a column per field.

use crate::arrow::capsule::{export_schema, export_stream};
use crate::arrow::keys::Keys;
use crate::error::Result;
use crate::gil::detached;
use crate::table::handle::TableRef;
use crate::table::rows::{self, RowType};
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Bytes after which a batch ends.
const BYTES: usize = 16 << 20;

/// Rows of a table that `get_many` returned: a source for every library that reads Arrow data
/// through the PyCapsule interface. It has a row for each key, in the order of the keys; all
/// columns of an absent key are null.
///
/// `pyarrow.table(rows)`, `polars.DataFrame(rows)` and `pandas.DataFrame.from_arrow(rows)` read it,
/// and so do the methods below, which import the library of their name.
#[pyclass(frozen, module = "firndb")]
pub struct Columns {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Columns {
    /// The values of these keys.
    pub fn read(
        py: Python<'_>,
        table: &TableRef,
        row_type: &RowType,
        keys: &Keys,
    ) -> Result<Columns> {
        let mut decoder = row_type.decoder()?.nullable();
        let batches = detached(py, || {
            let mut batches = Vec::new();
            rows::read_many(table, keys, |key, value| {
                match value {
                    Some(value) => rows::decode(&mut decoder, key, value)?,
                    None => decoder.push_null(),
                }
                if decoder.size() >= BYTES {
                    batches.push(rows::finish(&mut decoder)?);
                }
                Ok(())
            })?;
            if !decoder.is_empty() {
                batches.push(rows::finish(&mut decoder)?);
            }
            Ok(batches)
        })?;
        Ok(Columns { schema: decoder.schema().clone(), batches })
    }
}

#[pymethods]
impl Columns {
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The rows as a `pyarrow.Table`. Raises `ImportError` without pyarrow.
    fn to_arrow<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("pyarrow")?.call_method1("table", (this,))
    }

    /// The rows as a `polars.DataFrame`. Raises `ImportError` without polars.
    fn to_polars<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("polars")?.call_method1("DataFrame", (this,))
    }

    /// The rows as a `pandas.DataFrame`. Raises `ImportError` without pandas and pyarrow.
    fn to_pandas<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("pandas")?.getattr("DataFrame")?.call_method1("from_arrow", (this,))
    }

    /// The rows as a stream of record batches. Every call begins a new stream. `requested_schema`
    /// is ignored, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        export_stream(py, Box::new(RecordBatchIterator::new(batches, self.schema.clone())))
    }

    /// The schema of the stream.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyCapsule>> {
        export_schema(py, &self.schema)
    }

    fn __repr__(&self) -> String {
        format!("<firndb.Columns of {} rows: {}>", self.__len__(), self.column_names().join(", "))
    }
}
