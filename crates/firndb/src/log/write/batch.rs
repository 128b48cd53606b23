//! Batches: changes that are applied together or not at all.

use crate::Result;
use crate::log::expiry::{Expiry, Lifetime};
use crate::log::format::record::Record;
use crate::log::options::WriteOptions;
use crate::log::state::frame::Frame;
use crate::log::state::shared::{Shared, check_key};
use crate::log::write::apply::{check_value, current_of, frame};
use crate::log::write::put::{write, write_checked};
use std::cell::LazyCell;
use std::time::Duration;

/// Puts and deletes of any number of keys, for [`LogStore::write`](crate::log::LogStore::write).
///
/// Methods that add a change take the batch and return it; [`Batch::push_put`] and
/// [`Batch::push_delete`] change it in place.
///
/// ```
/// use firndb::log::Batch;
///
/// let mut batch = Batch::new().put("a", "1").delete("b");
/// for n in 0..10u8 {
///     batch.push_put([n], "value");
/// }
/// assert_eq!(batch.len(), 12);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Batch {
    /// Keys and values, concatenated.
    bytes: Vec<u8>,
    changes: Vec<Change>,
}

#[derive(Clone, Debug)]
struct Change {
    key_end: usize,
    /// `None` for a delete.
    value_end: Option<usize>,
    lifetime: Lifetime,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Sets the value of a key. The record does not expire, unless the options of
    /// [`LogStore::write_with`](crate::log::LogStore::write_with) say otherwise for the batch.
    pub fn put(mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Batch {
        self.push_put(key, value);
        self
    }

    /// [`Batch::put`] in place.
    pub fn push_put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.push(key.as_ref(), Some(value.as_ref()), Lifetime::Unspecified);
    }

    /// [`Batch::put`] of a record that expires this long after the batch is written, whatever the
    /// options of the batch say. A time beyond the largest representable one counts as the largest.
    pub fn put_ttl(
        mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Batch {
        self.push(key.as_ref(), Some(value.as_ref()), Lifetime::Ttl(ttl));
        self
    }

    /// [`Batch::put`] of a record that expires at a given time, or never, whatever the options of
    /// the batch say.
    pub fn put_expiring(
        mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: Expiry,
    ) -> Batch {
        self.push(key.as_ref(), Some(value.as_ref()), Lifetime::Until(expiry));
        self
    }

    /// Deletes a key. Has no effect if the key is absent.
    pub fn delete(mut self, key: impl AsRef<[u8]>) -> Batch {
        self.push_delete(key);
        self
    }

    /// [`Batch::delete`] in place.
    pub fn push_delete(&mut self, key: impl AsRef<[u8]>) {
        self.push(key.as_ref(), None, Lifetime::Unspecified);
    }

    fn push(&mut self, key: &[u8], value: Option<&[u8]>, lifetime: Lifetime) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        let value_end = value.map(|value| {
            self.bytes.extend_from_slice(value);
            self.bytes.len()
        });
        self.changes.push(Change { key_end, value_end, lifetime });
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Removes all changes and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.changes.clear();
    }

    /// The records of all changes; `expiry` says when the puts expire.
    fn records(&self, expiry: impl Fn(Lifetime) -> Expiry) -> Vec<Record<'_>> {
        let mut start = 0;
        let mut records = Vec::with_capacity(self.changes.len());
        for change in &self.changes {
            let key = &self.bytes[start..change.key_end];
            start = change.value_end.unwrap_or(change.key_end);
            records.push(match change.value_end {
                None => Record::delete(key),
                Some(end) => Record {
                    expires: expiry(change.lifetime).millis(),
                    ..Record::put(key, &self.bytes[change.key_end..end])
                },
            });
        }
        records
    }
}

/// Writes a batch.
pub(crate) fn write_batch(shared: &Shared, batch: &Batch, options: WriteOptions) -> Result<()> {
    let frames = frames(shared, batch, options)?;
    if frames.is_empty() {
        return Ok(());
    }
    write(shared, &frames, options)
}

/// Writes a batch if keys have these versions: see `LogStore::write_if_with`.
pub(crate) fn write_batch_if(
    shared: &Shared,
    conditions: &[(impl AsRef<[u8]>, Option<u64>)],
    batch: &Batch,
    options: WriteOptions,
) -> Result<bool> {
    let frames = frames(shared, batch, options)?;
    // Reads the records, so that no writer waits for the disk under the lock.
    let located = conditions.iter().map(|(key, version)| {
        let key = key.as_ref();
        check_key(key)?;
        let hash = shared.lookup.hash(key);
        Ok((key, hash, shared.lookup.locate(key, hash)?, *version))
    });
    let located = located.collect::<Result<Vec<_>>>()?;
    write_checked(shared, &frames, options, || {
        for &(key, hash, seen, version) in &located {
            let current = current_of(shared, key, hash, seen)?;
            let live = current.filter(|current| !current.is_expired);
            if live.map(|current| current.version) != version {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

/// The records of a batch, ready to be appended.
fn frames<'a>(shared: &Shared, batch: &'a Batch, options: WriteOptions) -> Result<Vec<Frame<'a>>> {
    // All times to live count from the same moment.
    let now = LazyCell::new(|| shared.now());
    let usual = options.lifetime().expiry(|| *now).unwrap_or_default();
    let records = batch.records(|lifetime| lifetime.expiry(|| *now).unwrap_or(usual));
    let last = records.len().saturating_sub(1);
    let frames = records.into_iter().enumerate().map(|(n, record)| {
        check_value(record.value)?;
        frame(shared, Record { more: n < last, ..record })
    });
    frames.collect()
}
