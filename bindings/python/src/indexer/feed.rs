//! Feeds and single changes of an index.

use super::document::item;
use super::index::applied;
use super::slot::Slot;
use crate::bytes::to_bytes;
use crate::error::Result;
use firndb::Error;
use firndb::indexer::Removals;
use firndb::search::{Document, Schema};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;

/// Items that are converted at a time, between which other threads run.
const ITEMS: usize = 256;

/// A feed of an index, without what `firndb.Feed` adds in Python.
#[pyclass(subclass, frozen, module = "firndb._native")]
pub struct Feed {
    slot: Arc<Slot>,
    number: u64,
    source: String,
    schema: Schema,
    max_removed: Option<f64>,
}

#[pymethods]
impl Feed {
    #[new]
    #[pyo3(signature = (index, source, is_whole, max_removed = None))]
    fn new(
        py: Python<'_>,
        index: &super::index::Indexer,
        source: String,
        is_whole: bool,
        max_removed: Option<f64>,
    ) -> Result<Feed> {
        let slot = index.slot.clone();
        removals(max_removed)?;
        let number = slot.begin(py, &source, is_whole)?;
        let schema = index.schema.clone();
        Ok(Feed { slot, number, source, schema, max_removed })
    }

    /// The name of the source.
    #[getter]
    fn source(&self) -> &str {
        &self.source
    }

    /// Adds the document of a key, or replaces it. After an error of an argument the feed can be
    /// continued.
    ///
    /// Args:
    ///     key: 1 to 65,535 bytes; `str` is encoded as UTF-8.
    ///     document: the values by the names of the fields. Names that are not fields are ignored.
    ///     payload: bytes that queries return with the document.
    ///
    /// Raises:
    ///     InvalidArgumentError: the document does not fit the schema.
    ///     TypeError: a value is of a type that cannot be stored.
    ///     ValueError: the feed has ended.
    #[pyo3(signature = (key, document, *, payload = None))]
    fn add(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        document: &Bound<'_, PyAny>,
        payload: Option<&Bound<'_, PyAny>>,
    ) -> Result<()> {
        let (key, document) = item(&self.schema, key, document, payload)?;
        self.slot.with_feed(py, self.number, |feed| feed.add(&key, &document))
    }

    /// Adds many documents.
    ///
    /// Args:
    ///     items: pairs of key and document, as `add` takes them.
    ///
    /// Raises:
    ///     InvalidArgumentError: a document does not fit the schema. Earlier ones were added.
    fn add_many(&self, py: Python<'_>, items: &Bound<'_, PyAny>) -> Result<()> {
        let mut ready = Vec::with_capacity(ITEMS);
        for pair in items.try_iter()? {
            let pair = pair?;
            let (key, document) = match pair.cast::<PyTuple>() {
                Ok(pair) if pair.len() == 2 => (pair.get_item(0)?, pair.get_item(1)?),
                _ => pair.extract().map_err(|_| {
                    PyTypeError::new_err("the items of a feed are pairs of key and document")
                })?,
            };
            match item(&self.schema, &key, &document, None) {
                Ok(item) => ready.push(item),
                Err(failure) => {
                    self.flush(py, &mut ready)?;
                    return Err(failure);
                }
            }
            if ready.len() == ITEMS {
                self.flush(py, &mut ready)?;
                py.check_signals()?;
            }
        }
        self.flush(py, &mut ready)
    }

    /// Removes the document of a key. Not needed in a feed, which removes absent keys.
    ///
    /// Args:
    ///     key: the key; one that the source does not have is ignored.
    fn remove(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Result<()> {
        let key = to_bytes(key)?.into_owned();
        self.slot.with_feed(py, self.number, |feed| feed.remove(&key))
    }

    /// Reports rows that were skipped because they could not be used. The feed then removes nothing
    /// unless `max_removed` is set, because the missing documents may be those of the skipped rows.
    ///
    /// Args:
    ///     rows: how many.
    fn left_out(&self, py: Python<'_>, rows: u64) -> Result<()> {
        self.slot.with_feed(py, self.number, |feed| {
            feed.left_out(rows);
            Ok(())
        })
    }

    fn _finish<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let removals = removals(self.max_removed)?;
        let done = self.slot.end(py, self.number, |feed| match removals {
            Some(removals) => feed.removals(removals).finish(),
            None => feed.finish(),
        })?;
        applied(py, &done)
    }

    fn _discard(&self, py: Python<'_>) -> Result<()> {
        self.slot.end(py, self.number, |feed| (feed.discard(), Ok(())))
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.slot.abandon(self.number);
    }
}

impl Feed {
    fn flush(&self, py: Python<'_>, ready: &mut Vec<(Vec<u8>, Document)>) -> Result<()> {
        let items = std::mem::take(ready);
        self.slot.with_feed(py, self.number, |feed| {
            items.iter().try_for_each(|(key, document)| feed.add(key, document))
        })
    }
}

/// The limit for a share of documents that may be removed.
pub fn removals(share: Option<f64>) -> Result<Option<Removals>> {
    match share {
        None => Ok(None),
        Some(share) if (0.0..=1.0).contains(&share) => Ok(Some(Removals::Share(share))),
        Some(share) => {
            let message = format!("max_removed is a share from 0 to 1, not {share}");
            Err(Error::invalid(message).into())
        }
    }
}
