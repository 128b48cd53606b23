//! The keys of a batch call, from any iterable or from Arrow data.

use crate::arrow::capsule::{Arrays, invalid};
use crate::bytes::to_bytes;
use crate::error::Result;
use crate::gil::detached;
use arrow_array::builder::LargeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{Array, ArrayRef, GenericByteArray};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyMemoryView, PyString, PyTuple};
use std::sync::Arc;

/// Keys that are passed to a call of the library at a time.
const CHUNK: usize = 4096;
/// Bytes of keys that are expected per key, for the first allocation.
const TYPICAL_KEY: usize = 16;

/// The keys of a batch call. Independent of the Python objects that they come from: those can
/// change while the keys are read without the GIL. Arrow data is not copied, other keys are.
pub struct Keys {
    arrays: Vec<ArrayRef>,
    len: usize,
}

/// Some of the keys, in order.
pub struct KeyChunk<'a> {
    /// The keys. A null is an empty one here.
    pub keys: Vec<&'a [u8]>,
    /// Which of them are null, if any is.
    nulls: Option<Vec<bool>>,
}

impl KeyChunk<'_> {
    /// Whether a key of the chunk is null. It is absent in every store.
    #[inline]
    pub fn is_null(&self, position: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls[position])
    }
}

impl Keys {
    /// The keys of an object with Arrow data (one column of binary or text) or of any iterable of
    /// `bytes` and `str`. Errors: `TypeError` for other objects, and what iterating raises.
    pub fn of(object: &Bound<'_, PyAny>) -> Result<Keys> {
        if is_single(object) {
            let name = object.get_type().name()?;
            let message = format!("give a list or another iterable of keys, not a single {name}");
            return Err(PyTypeError::new_err(message).into());
        }
        if object.is_exact_instance_of::<PyList>() || object.is_exact_instance_of::<PyTuple>() {
            return Keys::of_iterable(object); // They have no Arrow data: no need to look.
        }
        match Arrays::import(object)? {
            Some(arrays) => Keys::of_arrays(object.py(), arrays),
            None => Keys::of_iterable(object),
        }
    }

    /// The keys of arrays of binary or text, or of tables with one such column.
    pub fn of_arrays(py: Python<'_>, arrays: Arrays) -> Result<Keys> {
        check_type(arrays.field().data_type())?;
        let arrays = detached(py, || {
            let columns = arrays.map(|array| array.map_err(invalid).map(only_column));
            columns.collect::<firndb::Result<Vec<_>>>()
        })?;
        Ok(Keys { len: arrays.iter().map(|array| array.len()).sum(), arrays })
    }

    fn of_iterable(object: &Bound<'_, PyAny>) -> Result<Keys> {
        let expected = object.len().unwrap_or(0).min(1 << 20);
        let mut keys = LargeBinaryBuilder::with_capacity(expected, expected * TYPICAL_KEY);
        if let Ok(list) = object.cast_exact::<PyList>() {
            for key in list.iter() {
                keys.append_value(to_bytes(&key)?);
            }
        } else {
            let keys_of = object.try_iter().map_err(|e| not_iterable(object, e))?;
            for key in keys_of {
                keys.append_value(to_bytes(&key?)?);
            }
        }
        let keys = keys.finish();
        Ok(Keys { len: keys.len(), arrays: vec![Arc::new(keys)] })
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Calls `read` with all keys in order, some thousands at a time. Stops at an error.
    pub fn for_each_chunk<E>(
        &self,
        mut read: impl FnMut(&KeyChunk<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        for array in &self.arrays {
            for first in (0..array.len()).step_by(CHUNK) {
                let slice = array.slice(first, CHUNK.min(array.len() - first));
                read(&KeyChunk { keys: slices(&slice), nulls: nulls(&slice) })?;
            }
        }
        Ok(())
    }
}

/// Whether an object is one key, which can be iterated over but is not meant to be.
fn is_single(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyBytes>()
        || object.is_instance_of::<PyString>()
        || object.is_instance_of::<PyByteArray>()
        || object.is_instance_of::<PyMemoryView>()
}

/// A clear message for an object that is not iterable; other errors are raised as they are.
fn not_iterable(object: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyTypeError>(object.py()) {
        return error;
    }
    match object.get_type().name() {
        Ok(name) => PyTypeError::new_err(format!(
            "give a list or another iterable of keys, or an Arrow array, not {name}"
        )),
        Err(error) => error,
    }
}

/// `TypeError` unless arrays of this type hold binary or text, or tables with one such column.
pub fn check_type(data_type: &DataType) -> PyResult<()> {
    match data_type {
        DataType::Struct(fields) => match &fields[..] {
            [field] if !matches!(field.data_type(), DataType::Struct(_)) => {
                check_type(field.data_type())
            }
            _ => Err(PyValueError::new_err(format!(
                "a table of {} columns; give one column of keys",
                fields.len()
            ))),
        },
        DataType::Dictionary(_, values) if is_binary(values) => Ok(()),
        other if is_binary(other) => Ok(()),
        other => Err(PyTypeError::new_err(format!("keys are binary or text, not {other}"))),
    }
}

/// Whether arrays of this type hold binary or text.
fn is_binary(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) | Utf8 | LargeUtf8 | Utf8View
    )
}

/// The column of a table with one column, or the array itself.
fn only_column(array: ArrayRef) -> ArrayRef {
    match array.as_struct_opt() {
        Some(table) => Arc::clone(table.column(0)),
        None => array,
    }
}

/// The values of an array of one of the types of [`check_type`].
pub fn slices(array: &ArrayRef) -> Vec<&[u8]> {
    use DataType::*;
    match array.data_type() {
        Binary => of_bytes(array.as_binary::<i32>()),
        LargeBinary => of_bytes(array.as_binary::<i64>()),
        Utf8 => of_bytes(array.as_string::<i32>()),
        LargeUtf8 => of_bytes(array.as_string::<i64>()),
        BinaryView => array.as_binary_view().iter().map(Option::unwrap_or_default).collect(),
        Utf8View => {
            array.as_string_view().iter().map(|key| key.unwrap_or_default().as_bytes()).collect()
        }
        FixedSizeBinary(_) => {
            array.as_fixed_size_binary().iter().map(Option::unwrap_or_default).collect()
        }
        Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = slices(dictionary.values());
            if values.is_empty() {
                return vec![&[]; array.len()]; // All of them are null.
            }
            dictionary.normalized_keys().into_iter().map(|key| values[key]).collect()
        }
        _ => Vec::new(),
    }
}

fn of_bytes<T: ByteArrayType>(array: &GenericByteArray<T>) -> Vec<&[u8]> {
    array.iter().map(|key| key.map_or(&[][..], AsRef::as_ref)).collect()
}

/// Which values of an array are null.
fn nulls(array: &ArrayRef) -> Option<Vec<bool>> {
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0)?;
    Some(nulls.iter().map(|is_valid| !is_valid).collect())
}
