//! Arrow data of other packages as record batches.

use crate::arrow::capsule::Arrays;
use crate::error::Result;
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// How long the end of a build waits for a thread that reads a stream.
const PATIENCE: Duration = Duration::from_secs(5);

/// The record batches of an object with Arrow capsules. A thread that does not hold the GIL may
/// read and drop them.
pub struct Batches {
    arrays: Arrays,
    schema: SchemaRef,
    /// Dropped with the batches, which [`Released::wait`] notices.
    _released: SyncSender<()>,
}

/// Waits for the end of [`Batches`].
pub struct Released(Receiver<()>);

impl Released {
    /// Waits until the batches were dropped, at most a few seconds. Their producer may be written
    /// in Python, and must not be called while the interpreter shuts down. Call it without the GIL.
    pub fn wait(self) {
        // Nothing is sent: the end is the error of a channel without sender.
        let _ = self.0.recv_timeout(PATIENCE);
    }
}

impl Batches {
    /// The batches of an object with `__arrow_c_stream__` or `__arrow_c_array__`; `None` if it has
    /// neither. `TypeError` if its data are not rows with columns.
    pub fn import(object: &Bound<'_, PyAny>) -> Result<Option<(Batches, Released)>> {
        let Some(arrays) = Arrays::import(object)? else { return Ok(None) };
        let DataType::Struct(fields) = arrays.field().data_type() else {
            let message = format!(
                "the Arrow data of the source are an array of {}; pass a table or record batches",
                arrays.field().data_type()
            );
            return Err(PyTypeError::new_err(message).into());
        };
        let metadata = arrays.field().metadata().clone();
        let schema = Arc::new(Schema::new_with_metadata(fields.clone(), metadata));
        let (_released, end) = sync_channel(1);
        Ok(Some((Batches { arrays, schema, _released }, Released(end))))
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Iterator for Batches {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let array = self.arrays.next()?;
        Some(array.and_then(|array| {
            let rows = array.as_struct();
            if rows.null_count() > 0 {
                let message = "a row is null as a whole".to_string();
                return Err(ArrowError::InvalidArgumentError(message));
            }
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            let columns = rows.columns().to_vec();
            RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
        }))
    }
}
