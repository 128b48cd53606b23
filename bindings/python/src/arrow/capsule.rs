//! The capsules of Arrow's C data interface.
//!
//! Reading a stream may call a producer that is written in Python, or that waits for threads which
//! need the GIL: read without the GIL. Producers take it themselves where they need it.

#![expect(unsafe_code, reason = "capsules hold structs of C, with functions to call and release")]

use crate::error::Result;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, from_ffi_and_data_type, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatchReader, make_array};
use arrow_schema::{ArrowError, Field};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use std::ffi::{CStr, c_int};

const STREAM: &CStr = c"arrow_array_stream";
const ARRAY: &CStr = c"arrow_array";
const SCHEMA: &CStr = c"arrow_schema";

/// The capsule of a stream of record batches, for `__arrow_c_stream__`.
pub fn export_stream<'py>(
    py: Python<'py>,
    batches: Box<dyn RecordBatchReader + Send>,
) -> Result<Bound<'py, PyCapsule>> {
    Ok(PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(batches), STREAM)?)
}

/// The capsules of the type and the data of an array, for `__arrow_c_array__`.
pub fn export_array<'py>(py: Python<'py>, array: &dyn Array) -> Result<Bound<'py, PyTuple>> {
    let (array, schema) = to_ffi(&array.to_data()).map_err(invalid)?;
    let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
    let array = PyCapsule::new_with_value(py, array, ARRAY)?;
    Ok(PyTuple::new(py, [schema, array])?)
}

/// The capsule of a type, for `__arrow_c_schema__`.
pub fn export_schema<'py>(
    py: Python<'py>,
    schema: &arrow_schema::Schema,
) -> Result<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(invalid)?;
    Ok(PyCapsule::new_with_value(py, schema, SCHEMA)?)
}

/// The capsule of the type of an array, for `__arrow_c_schema__`.
pub fn export_schema_of<'py>(py: Python<'py>, field: &Field) -> Result<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(field).map_err(invalid)?;
    Ok(PyCapsule::new_with_value(py, schema, SCHEMA)?)
}

/// Arrays from Python, of one type. A table is a stream of arrays of structs.
pub struct Arrays {
    field: Field,
    source: Source,
}

enum Source {
    One(Option<ArrayRef>),
    Stream(FFI_ArrowArrayStream),
}

impl Arrays {
    /// The data of an object with `__arrow_c_stream__` or `__arrow_c_array__`; `None` if it has
    /// neither. Errors: what the object raises, or `TypeError` if it returns no capsule.
    pub fn import(object: &Bound<'_, PyAny>) -> Result<Option<Arrays>> {
        if let Some(method) = object.getattr_opt("__arrow_c_stream__")? {
            return Ok(Some(Arrays::of_stream(&method.call0()?)?));
        }
        if let Some(method) = object.getattr_opt("__arrow_c_array__")? {
            return Ok(Some(Arrays::of_array(&method.call0()?)?));
        }
        Ok(None)
    }

    fn of_stream(object: &Bound<'_, PyAny>) -> Result<Arrays> {
        let pointer = capsule(object)?.pointer_checked(Some(STREAM))?;
        // SAFETY: a capsule of this name points to this struct. Its contents are moved out, and an
        // empty struct stays behind, which the capsule does not release.
        let mut stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.cast().as_ptr()) };
        let Some(get_schema) = stream.get_schema.filter(|_| stream.release.is_some()) else {
            return Err(PyTypeError::new_err("the Arrow stream was consumed before").into());
        };
        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: the stream has not been released, and `schema` is empty.
        let code = unsafe { get_schema(&mut stream, &mut schema) };
        check(&mut stream, code).map_err(invalid)?;
        let field = Field::try_from(&schema).map_err(invalid)?;
        Ok(Arrays { field, source: Source::Stream(stream) })
    }

    fn of_array(object: &Bound<'_, PyAny>) -> Result<Arrays> {
        let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = object.extract()?;
        let schema = capsule(&schema)?.pointer_checked(Some(SCHEMA))?;
        let array = capsule(&array)?.pointer_checked(Some(ARRAY))?;
        // SAFETY: capsules of these names point to these structs. Their contents are moved out.
        let (schema, array) = unsafe {
            let schema = FFI_ArrowSchema::from_raw(schema.cast().as_ptr());
            (schema, FFI_ArrowArray::from_raw(array.cast().as_ptr()))
        };
        if array.is_released() {
            return Err(PyTypeError::new_err("the Arrow array was consumed before").into());
        }
        let field = Field::try_from(&schema).map_err(invalid)?;
        // SAFETY: the array has not been released, and the schema was made with it.
        let data = unsafe { from_ffi(array, &schema) }.map_err(invalid)?;
        Ok(Arrays { field, source: Source::One(Some(make_array(data))) })
    }

    /// The type of the arrays.
    pub fn field(&self) -> &Field {
        &self.field
    }
}

impl Iterator for Arrays {
    type Item = std::result::Result<ArrayRef, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let stream = match &mut self.source {
            Source::One(array) => return array.take().map(Ok),
            Source::Stream(stream) => stream,
        };
        let get_next = stream.get_next?;
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: the stream has not been released, and `array` is empty.
        let code = unsafe { get_next(stream, &mut array) };
        if let Err(e) = check(stream, code) {
            stream.get_next = None; // Nothing may follow an error.
            return Some(Err(e));
        }
        if array.is_released() {
            return None;
        }
        // SAFETY: the producer made the array with the type that it gave for the stream.
        let data = unsafe { from_ffi_and_data_type(array, self.field.data_type().clone()) };
        Some(data.map(make_array))
    }
}

/// The error of a call of a function of a stream.
fn check(stream: &mut FFI_ArrowArrayStream, code: c_int) -> std::result::Result<(), ArrowError> {
    if code == 0 {
        return Ok(());
    }
    let message = stream.get_last_error.and_then(|get_last_error| {
        // SAFETY: the stream has not been released. The text lives until the next call.
        let text = unsafe { get_last_error(stream) };
        if text.is_null() {
            return None;
        }
        // SAFETY: the interface requires a string that ends with zero.
        Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    });
    let message = message.unwrap_or_else(|| std::io::Error::from_raw_os_error(code).to_string());
    Err(ArrowError::CDataInterface(message))
}

fn capsule<'a, 'py>(object: &'a Bound<'py, PyAny>) -> Result<&'a Bound<'py, PyCapsule>> {
    let not_a_capsule = || PyTypeError::new_err("an Arrow method returned no capsule");
    Ok(object.cast::<PyCapsule>().map_err(|_| not_a_capsule())?)
}

/// Arrow data that cannot be used.
pub fn invalid(error: ArrowError) -> firndb::Error {
    firndb::Error::invalid(error.to_string())
}
