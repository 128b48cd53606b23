//! Arguments of queries.

use crate::error::Result;
use crate::search::condition::{Condition, FieldRef, Order};
use firndb::Error;
use firndb::search::query::asc;
use firndb::search::{
    Filter, OrderBy, Query, Schema, parse_filter, parse_order, parse_query, point_at,
};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::time::{Duration, Instant};

/// The error of a text with its place in it.
pub fn in_text(text: &str, error: &Error) -> Error {
    Error::new(error.kind(), point_at(text, error))
}

/// The query of a text, a condition, or `None` for all documents.
pub fn query_of(object: Option<&Bound<'_, PyAny>>, schema: &Schema) -> Result<Query> {
    if let Some(text) = object.and_then(|object| object.cast::<PyString>().ok()) {
        let text = text.to_str()?;
        return Ok(parse_query(text, Some(schema)).map_err(|e| in_text(text, &e))?);
    }
    Ok(Query::new(filter_of(object, schema)?))
}

/// The condition of a text, a condition, or `None` for all documents.
pub fn filter_of(object: Option<&Bound<'_, PyAny>>, schema: &Schema) -> Result<Filter> {
    let Some(object) = object else { return Ok(Filter::All) };
    if let Ok(text) = object.cast::<PyString>() {
        let text = text.to_str()?;
        return Ok(parse_filter(text, Some(schema)).map_err(|e| in_text(text, &e))?);
    }
    if let Ok(condition) = object.cast::<Condition>() {
        return Ok(condition.get().filter.clone());
    }
    if let Ok(field) = object.cast::<FieldRef>() {
        return Ok(field.get().is_true().filter);
    }
    let name = object.get_type().name()?;
    let message =
        format!("a query is a text, a condition such as F.price < 10, or None, not {name}");
    Err(PyTypeError::new_err(message).into())
}

/// An order: a text, a field, a sort key, or several of them.
pub fn order_of(object: &Bound<'_, PyAny>, schema: Option<&Schema>) -> Result<Vec<OrderBy>> {
    let mut order = Vec::new();
    if !push_keys(object, schema, &mut order)? {
        for item in iterate(object, "an order is a text, F.price.desc(), or a list of these")? {
            let item = item?;
            if !push_keys(&item, schema, &mut order)? {
                let name = item.get_type().name()?;
                let message = format!("a sort key is a text or F.price.desc(), not {name}");
                return Err(PyTypeError::new_err(message).into());
            }
        }
    }
    Ok(order)
}

/// Appends the sort keys of one object; false if it is of another type.
fn push_keys(
    object: &Bound<'_, PyAny>,
    schema: Option<&Schema>,
    order: &mut Vec<OrderBy>,
) -> Result<bool> {
    if let Ok(text) = object.cast::<PyString>() {
        let text = text.to_str()?;
        order.extend(parse_order(text, schema).map_err(|e| in_text(text, &e))?);
    } else if let Ok(key) = object.cast::<Order>() {
        order.push(key.get().key.clone());
    } else if let Ok(field) = object.cast::<FieldRef>() {
        order.push(asc(&field.get().name));
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// Names of fields: one, or several.
pub fn names_of(object: &Bound<'_, PyAny>) -> Result<Vec<String>> {
    if let Some(name) = name_of(object) {
        return Ok(vec![name]);
    }
    let mut names = Vec::new();
    for item in iterate(object, "fields are a list of names")? {
        let item = item?;
        let Some(name) = name_of(&item) else {
            let class = item.get_type().name()?;
            let message = format!("a field is a name or F.name, not {class}");
            return Err(PyTypeError::new_err(message).into());
        };
        names.push(name);
    }
    Ok(names)
}

fn name_of(object: &Bound<'_, PyAny>) -> Option<String> {
    match object.cast::<FieldRef>() {
        Ok(field) => Some(field.get().name.clone()),
        Err(_) => object.extract().ok(),
    }
}

fn iterate<'py>(
    object: &Bound<'py, PyAny>,
    what: &str,
) -> Result<Bound<'py, pyo3::types::PyIterator>> {
    let name = object.get_type().name()?;
    let iterator = object.try_iter();
    Ok(iterator.map_err(|_| PyTypeError::new_err(format!("{what}, not {name}")))?)
}

/// A number of documents or values.
pub fn number(object: Option<&Bound<'_, PyAny>>, name: &str) -> Result<Option<u64>> {
    let Some(object) = object else { return Ok(None) };
    match object.extract::<u64>() {
        Ok(number) => Ok(Some(number)),
        Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
            Err(PyValueError::new_err(format!("{name} is a number that is not negative")).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// A time in seconds, or as a `timedelta`.
pub fn duration(object: &Bound<'_, PyAny>, name: &str) -> Result<Duration> {
    let seconds: f64 = match object.getattr_opt("total_seconds")? {
        Some(total) => total.call0()?.extract()?,
        None => object.extract().map_err(|_| {
            PyTypeError::new_err(format!("{name} is a number of seconds or a timedelta"))
        })?,
    };
    if seconds.is_nan() || seconds < 0.0 {
        let message = format!("{name} is a time that is not negative");
        return Err(PyValueError::new_err(message).into());
    }
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// The end of a time limit; `None` if there is none.
pub fn deadline(timeout: Option<&Bound<'_, PyAny>>) -> Result<Option<Instant>> {
    let Some(timeout) = timeout else { return Ok(None) };
    Ok(Instant::now().checked_add(duration(timeout, "timeout")?))
}
