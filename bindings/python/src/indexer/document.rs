//! Documents of an index from dictionaries.

use crate::bytes::to_bytes;
use crate::error::Result;
use crate::search::rows::document_of;
use crate::search::value::prefixed;
use firndb::search::{Document, Schema};
use firndb_ingest::value::shown_key;
use pyo3::prelude::*;

/// The key and the document of an item of a feed.
pub fn item(
    schema: &Schema,
    key: &Bound<'_, PyAny>,
    document: &Bound<'_, PyAny>,
    payload: Option<&Bound<'_, PyAny>>,
) -> Result<(Vec<u8>, Document)> {
    let py = key.py();
    let key = to_bytes(key)?.into_owned();
    let document = document_of(schema, document)
        .map_err(|error| prefixed(py, &error, &format!("document {}", shown_key(&key))))?;
    let document = match payload {
        Some(payload) => document.payload(to_bytes(payload)?.into_owned()),
        None => document,
    };
    Ok((key, document))
}
