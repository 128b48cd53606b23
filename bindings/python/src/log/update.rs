//! Writes that depend on what a key has: update, setdefault, pop, popitem, clear.

use crate::bytes::{Form, to_bytes};
use crate::error::Result;
use crate::gil::detached;
use firndb::log::{Batch, Expiry, Iter, LogStore, Update, WriteOptions};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys and bytes of keys that are deleted at a time.
const KEYS: usize = 1024;
const BYTES: usize = 1 << 20;

/// Replaces the value of a key by what the function `change` returns, and returns that. The
/// function runs without locks of the library: it may use the store, and other threads may write.
pub fn update<'py>(
    py: Python<'py>,
    store: &LogStore,
    form: Form,
    key: &[u8],
    change: &Bound<'py, PyAny>,
    (options, sets_expiry): (WriteOptions, bool),
) -> Result<Option<Bound<'py, PyAny>>> {
    loop {
        let old = detached(py, || store.get_versioned(key))?;
        let value = old.as_ref().map(|old| form.object(py, &old.value)).transpose()?;
        let new = change.call1((value,))?;
        let mut batch = Batch::new();
        if new.is_none() {
            if old.is_none() {
                return Ok(None);
            }
            batch.push_delete(key);
        } else {
            let value = to_bytes(&new)?;
            match &old {
                // The record keeps its expiry.
                Some(old) if !sets_expiry && old.expiry != Expiry::Never => {
                    batch = batch.put_expiring(key, &value, old.expiry);
                }
                _ => batch.push_put(key, &value),
            }
        }
        let conditions = [(key, old.map(|old| old.version))];
        if detached(py, || store.write_if_with(&conditions, &batch, options))? {
            return Ok(Some(new).filter(|new| !new.is_none()));
        }
        py.check_signals()?;
    }
}

/// The value of a key; or puts this one and returns `None`.
pub fn get_or_put(store: &LogStore, key: &[u8], default: &[u8]) -> firndb::Result<Option<Vec<u8>>> {
    let mut found = None;
    store.update_with(key, WriteOptions::new(), |old| {
        found = old.map(<[u8]>::to_vec);
        match old {
            Some(_) => Update::Keep,
            None => Update::Put(default.to_vec()),
        }
    })?;
    Ok(found)
}

/// Deletes a key and returns its value.
pub fn take(store: &LogStore, key: &[u8]) -> firndb::Result<Option<Vec<u8>>> {
    let mut taken = None;
    store.update_with(key, WriteOptions::new(), |old| {
        taken = old.map(<[u8]>::to_vec);
        Update::Delete
    })?;
    Ok(taken)
}

/// Deletes any key and returns it with its value; `None` if the store is empty. Continues where the
/// last call ended, so that emptying a store takes one pass over it.
pub fn take_any(store: &LogStore, next: &AtomicU64) -> firndb::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let started_at_zero = next.load(Ordering::Relaxed) == 0;
    let mut ends = if started_at_zero { 1 } else { 2 };
    while ends > 0 {
        let page = store.scan_from(next.load(Ordering::Relaxed), 1)?;
        let is_last_of_page = page.records.len() <= 1;
        let continues = page.next;
        let mut taken = None;
        for (key, _) in page.records {
            if let Some(value) = take(store, &key)? {
                taken = Some((key, value));
                break;
            }
        }
        if taken.is_none() || is_last_of_page {
            next.store(continues.unwrap_or(0), Ordering::Relaxed);
        }
        if taken.is_some() {
            return Ok(taken);
        }
        if continues.is_none() {
            ends -= 1;
        }
    }
    Ok(None)
}

/// Deletes the next keys of an iteration; `false` at its end.
pub fn delete_some(store: &LogStore, keys: &mut Iter<'_>) -> firndb::Result<bool> {
    let (mut batch, mut bytes) = (Batch::new(), 0);
    while batch.len() < KEYS && bytes < BYTES {
        let read = keys.next_with(|key, _| {
            batch.push_delete(key);
            bytes += key.len();
        });
        match read {
            Some(read) => read?,
            None => break,
        }
    }
    if batch.is_empty() {
        return Ok(false);
    }
    store.write(&batch).map(|()| true)
}
