//! Values of Arrow arrays as Python objects, without pyarrow.

use arrow_array::cast::AsArray;
use arrow_array::types as t;
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_schema::{DataType, TimeUnit};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// A value as an `int`, `float`, `bool`, `str`, `bytes`, `date`, `time`, `datetime`, `Decimal`,
/// `list`, `dict` or `None`. A date or time that Python cannot express is its number. Digits of
/// nanoseconds are cut off.
pub fn object<'py>(py: Python<'py>, array: &dyn Array, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if array.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    Ok(match array.data_type() {
        DataType::Null => py.None().into_bound(py),
        DataType::Boolean => array.as_boolean().value(row).into_pyobject(py)?.to_owned().into_any(),
        DataType::Int8 => number::<t::Int8Type>(array, row).into_pyobject(py)?.into_any(),
        DataType::Int16 => number::<t::Int16Type>(array, row).into_pyobject(py)?.into_any(),
        DataType::Int32 => number::<t::Int32Type>(array, row).into_pyobject(py)?.into_any(),
        DataType::Int64 => number::<t::Int64Type>(array, row).into_pyobject(py)?.into_any(),
        DataType::UInt8 => number::<t::UInt8Type>(array, row).into_pyobject(py)?.into_any(),
        DataType::UInt16 => number::<t::UInt16Type>(array, row).into_pyobject(py)?.into_any(),
        DataType::UInt32 => number::<t::UInt32Type>(array, row).into_pyobject(py)?.into_any(),
        DataType::UInt64 => number::<t::UInt64Type>(array, row).into_pyobject(py)?.into_any(),
        DataType::Float32 => number::<t::Float32Type>(array, row).into_pyobject(py)?.into_any(),
        DataType::Float64 => number::<t::Float64Type>(array, row).into_pyobject(py)?.into_any(),
        DataType::Utf8 => PyString::new(py, array.as_string::<i32>().value(row)).into_any(),
        DataType::LargeUtf8 => PyString::new(py, array.as_string::<i64>().value(row)).into_any(),
        DataType::Utf8View => PyString::new(py, array.as_string_view().value(row)).into_any(),
        DataType::Binary => PyBytes::new(py, array.as_binary::<i32>().value(row)).into_any(),
        DataType::LargeBinary => PyBytes::new(py, array.as_binary::<i64>().value(row)).into_any(),
        DataType::BinaryView => PyBytes::new(py, array.as_binary_view().value(row)).into_any(),
        DataType::FixedSizeBinary(_) => {
            PyBytes::new(py, array.as_fixed_size_binary().value(row)).into_any()
        }
        DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..) => time(py, array, row)?,
        DataType::Decimal128(_, scale) => {
            decimal(py, number::<t::Decimal128Type>(array, row).to_string(), *scale)?
        }
        DataType::Decimal256(_, scale) => {
            decimal(py, number::<t::Decimal256Type>(array, row).to_string(), *scale)?
        }
        DataType::List(_) => list(py, array.as_list::<i32>().value(row).as_ref())?,
        DataType::LargeList(_) => list(py, array.as_list::<i64>().value(row).as_ref())?,
        DataType::FixedSizeList(..) => list(py, array.as_fixed_size_list().value(row).as_ref())?,
        DataType::Struct(fields) => {
            let dict = PyDict::new(py);
            for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                dict.set_item(field.name(), object(py, column.as_ref(), row)?)?;
            }
            dict.into_any()
        }
        DataType::Map(..) => {
            let (dict, entries) = (PyDict::new(py), array.as_map().value(row));
            let (keys, values) = (entries.column(0), entries.column(1));
            for entry in 0..entries.len() {
                let key = object(py, keys.as_ref(), entry)?;
                dict.set_item(key, object(py, values.as_ref(), entry)?)?;
            }
            dict.into_any()
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            object(py, dictionary.values().as_ref(), dictionary.normalized_keys()[row])?
        }
        other => {
            let message = format!("values of the Arrow type {other} have no Python type");
            return Err(PyTypeError::new_err(message));
        }
    })
}

/// A text of JSON as the object that it stands for.
pub fn json<'py>(py: Python<'py>, array: &dyn Array, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if array.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    let modules = Modules::get(py)?;
    modules.loads.bind(py).call1((array.as_string::<i32>().value(row),))
}

fn number<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> T::Native {
    array.as_primitive::<T>().value(row)
}

fn list<'py>(py: Python<'py>, items: &dyn Array) -> PyResult<Bound<'py, PyAny>> {
    let objects = (0..items.len()).map(|item| object(py, items, item));
    Ok(PyList::new(py, objects.collect::<PyResult<Vec<_>>>()?)?.into_any())
}

fn decimal(py: Python<'_>, unscaled: String, scale: i8) -> PyResult<Bound<'_, PyAny>> {
    let text = format!("{unscaled}E{}", -i32::from(scale));
    Modules::get(py)?.decimal.bind(py).call1((text,))
}

/// A date, time or timestamp; its number if it is outside the years 1 to 9999.
fn time<'py>(py: Python<'py>, array: &dyn Array, row: usize) -> PyResult<Bound<'py, PyAny>> {
    let modules = Modules::get(py)?;
    let (value, object) = match array.data_type() {
        DataType::Date32 => {
            let days = i64::from(number::<t::Date32Type>(array, row));
            (days, modules.date(py, days))
        }
        DataType::Date64 => {
            let millis = number::<t::Date64Type>(array, row);
            (millis, modules.date(py, millis.div_euclid(MICROS_PER_DAY / 1000)))
        }
        DataType::Time32(TimeUnit::Second) => {
            let seconds = i64::from(number::<t::Time32SecondType>(array, row));
            (seconds, modules.time(py, seconds.saturating_mul(1_000_000)))
        }
        DataType::Time32(_) => {
            let millis = i64::from(number::<t::Time32MillisecondType>(array, row));
            (millis, modules.time(py, millis.saturating_mul(1000)))
        }
        DataType::Time64(TimeUnit::Nanosecond) => {
            let nanos = number::<t::Time64NanosecondType>(array, row);
            (nanos, modules.time(py, nanos.div_euclid(1000)))
        }
        DataType::Time64(_) => {
            let micros = number::<t::Time64MicrosecondType>(array, row);
            (micros, modules.time(py, micros))
        }
        DataType::Timestamp(unit, zone) => {
            let (value, micros) = match unit {
                TimeUnit::Second => {
                    let value = number::<t::TimestampSecondType>(array, row);
                    (value, value.checked_mul(1_000_000))
                }
                TimeUnit::Millisecond => {
                    let value = number::<t::TimestampMillisecondType>(array, row);
                    (value, value.checked_mul(1000))
                }
                TimeUnit::Microsecond => {
                    let value = number::<t::TimestampMicrosecondType>(array, row);
                    (value, Some(value))
                }
                TimeUnit::Nanosecond => {
                    let value = number::<t::TimestampNanosecondType>(array, row);
                    (value, Some(value.div_euclid(1000)))
                }
            };
            let object = match micros {
                Some(micros) => modules.datetime(py, micros, zone.is_some()),
                None => Ok(None),
            };
            (value, object)
        }
        _ => return Ok(py.None().into_bound(py)),
    };
    match object? {
        Some(object) => Ok(object),
        None => Ok(value.into_pyobject(py)?.into_any()),
    }
}

/// What is needed of Python's modules.
struct Modules {
    decimal: Py<PyAny>,
    loads: Py<PyAny>,
    from_ordinal: Py<PyAny>,
    time: Py<PyAny>,
    timedelta: Py<PyAny>,
    epoch: Py<PyAny>,
    epoch_utc: Py<PyAny>,
}

/// The ordinal of 1970-01-01 in Python, and that of the last date.
const EPOCH_ORDINAL: i64 = 719_163;
const LAST_ORDINAL: i64 = 3_652_059;

impl Modules {
    fn get(py: Python<'_>) -> PyResult<&Modules> {
        static MODULES: PyOnceLock<Modules> = PyOnceLock::new();
        MODULES.get_or_try_init(py, || {
            let datetime = py.import("datetime")?;
            let class = datetime.getattr("datetime")?;
            let utc = datetime.getattr("timezone")?.getattr("utc")?;
            Ok(Modules {
                decimal: py.import("decimal")?.getattr("Decimal")?.unbind(),
                loads: py.import("json")?.getattr("loads")?.unbind(),
                from_ordinal: datetime.getattr("date")?.getattr("fromordinal")?.unbind(),
                time: datetime.getattr("time")?.unbind(),
                timedelta: datetime.getattr("timedelta")?.unbind(),
                epoch: class.call1((1970, 1, 1))?.unbind(),
                epoch_utc: class.call1((1970, 1, 1, 0, 0, 0, 0, utc))?.unbind(),
            })
        })
    }

    fn date<'py>(&self, py: Python<'py>, days: i64) -> PyResult<Option<Bound<'py, PyAny>>> {
        let ordinal = days.saturating_add(EPOCH_ORDINAL);
        match (1..=LAST_ORDINAL).contains(&ordinal) {
            true => self.from_ordinal.bind(py).call1((ordinal,)).map(Some),
            false => Ok(None),
        }
    }

    fn time<'py>(&self, py: Python<'py>, micros: i64) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !(0..MICROS_PER_DAY).contains(&micros) {
            return Ok(None);
        }
        let seconds = micros / 1_000_000;
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        let parts = (hours, minutes, seconds % 60, micros % 1_000_000);
        self.time.bind(py).call1(parts).map(Some)
    }

    fn datetime<'py>(
        &self,
        py: Python<'py>,
        micros: i64,
        aware: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let days = micros.div_euclid(MICROS_PER_DAY);
        if !(1..=LAST_ORDINAL).contains(&days.saturating_add(EPOCH_ORDINAL)) {
            return Ok(None);
        }
        let epoch = if aware { &self.epoch_utc } else { &self.epoch };
        let rest = micros.rem_euclid(MICROS_PER_DAY);
        let delta = (days, rest / 1_000_000, rest % 1_000_000);
        let delta = self.timedelta.bind(py).call1(delta)?;
        epoch.bind(py).call_method1("__add__", (delta,)).map(Some)
    }
}
