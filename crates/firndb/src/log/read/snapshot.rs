//! Snapshots: the store as it was at one moment, while writing and compaction continue.
//!
//! A snapshot costs memory for each key that is changed while it is open, and keeps its segments on
//! disk: see `state/snapshots.rs`.

use crate::Result;
use crate::log::expiry::Expiry;
use crate::log::format::record::Record;
use crate::log::index::slot::RecordLocation;
use crate::log::state::key_order::Sources;
use crate::log::state::lookup::{GROUP, Lookup, prefetch_all, read_at};
use crate::log::state::shared::Shared;
use crate::log::state::snapshots::SnapshotView;
use crate::log::write::settle::settle;
use std::ops::Deref;
use std::sync::Arc;

/// A view of a store at one moment, shared by any number of threads.
pub struct Snapshot {
    pub(crate) shared: Arc<Shared>,
    pub(crate) view: Arc<SnapshotView>,
    /// See [`Snapshot::sources`].
    pub(crate) order: Option<Arc<Sources>>,
    /// When it was taken. Records that had expired by then are absent, and none expires in it
    /// later.
    pub(crate) now: u64,
}

/// Takes a snapshot: see `LogStore::snapshot`.
pub(crate) fn take(shared: &Arc<Shared>) -> Snapshot {
    let shared = Arc::clone(shared);
    let now = shared.now();
    if shared.dir.is_forked_child() {
        // Nothing changes here any more: the index is a copy, and only the parent writes. A thread
        // of the parent may have held a lock at the time of the fork, so none is taken.
        let end = (u64::MAX, 0);
        let view = Arc::new(SnapshotView::new(shared.lookup.segments.load_full(), end));
        let order = shared.order.as_ref().map(|order| order.sources());
        return Snapshot { shared, view, order, now };
    }
    // Under the lock, so that the snapshot has no part of a write.
    let writer = settle(&shared);
    let segments = shared.lookup.segments.load_full();
    // A reader may become the writer while the snapshot is open.
    let end = writer.as_ref().map_or_else(|| segments.end(), |writer| writer.position());
    let view = Arc::new(SnapshotView::new(segments, end));
    shared.snapshots.add(Arc::clone(&view));
    let order = shared.order.as_ref().map(|order| order.sources());
    drop(writer);
    Snapshot { shared, view, order, now }
}

/// The snapshot of an iterator.
pub(crate) enum SnapshotRef<'a> {
    Borrowed(&'a Snapshot),
    Owned(Snapshot),
    Shared(Arc<Snapshot>),
}

impl Deref for SnapshotRef<'_> {
    type Target = Snapshot;

    #[inline]
    fn deref(&self) -> &Snapshot {
        match self {
            SnapshotRef::Borrowed(snapshot) => snapshot,
            SnapshotRef::Owned(snapshot) => snapshot,
            SnapshotRef::Shared(snapshot) => snapshot,
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if !self.shared.dir.is_forked_child() {
            self.shared.snapshots.remove(&self.view);
        }
    }
}

impl Snapshot {
    /// The value of a key; `None` if it was absent.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.find(key.as_ref(), |record| record.value.to_vec())
    }

    /// The values of keys, in order. Faster than one call per key: the cache misses of all keys
    /// overlap.
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
        let Lookup { index, segments, prefetch_lines, .. } = &self.shared.lookup;
        let mut values = Vec::with_capacity(keys.len());
        for group in keys.chunks(GROUP) {
            let mut hashes = [0; GROUP];
            let hashes = &mut hashes[..group.len()];
            let hash = |key: &_| self.shared.lookup.hash(AsRef::as_ref(key));
            hashes.iter_mut().zip(group).for_each(|(slot, key)| *slot = hash(key));
            // Most keys have not changed since: their records are those of the index.
            prefetch_all(index, &segments.load(), prefetch_lines.get(), hashes);
            for key in group {
                values.push(self.get(key)?);
            }
        }
        Ok(values)
    }

    /// Whether the key had a value.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.find(key.as_ref(), |_| ())?.is_some())
    }

    /// The expiry of a key's record; `None` if the key was absent.
    pub fn expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<Expiry>> {
        self.find(key.as_ref(), |record| Expiry::of(record.expires))
    }

    fn find<T>(&self, key: &[u8], read: impl Fn(Record) -> T) -> Result<Option<T>> {
        let lookup = &self.shared.lookup;
        let (hash, lines) = (lookup.hash(key), lookup.prefetch_lines.get());
        let shown = |record: Record| (!record.is_expired(self.now)).then(|| read(record));
        let mut buffer = Vec::new();
        loop {
            let found = lookup.index.find(hash, |location| {
                match read_at(self.view.segment(location)?, location, lines, &mut buffer) {
                    Ok(record) => (record.key == key).then_some(Ok(shown(record))),
                    Err(error) => Some(Err((location, error))),
                }
            });
            match found {
                None => break,
                Some(Ok(value)) => return Ok(value),
                // Unless the shard was rebuilt during the search and this was not the key's
                // location.
                Some(Err((location, error))) if lookup.holds(hash, location) => return Err(error),
                Some(Err(_)) => {}
            }
        }
        for location in self.view.replaced(hash) {
            if let Some(segment) = self.view.segment(location) {
                let record = read_at(segment, location, lines, &mut buffer)?;
                if record.key == key {
                    return Ok(shown(record));
                }
            }
        }
        Ok(None)
    }

    /// In an ordered store, where its keys are.
    pub(crate) fn sources(&self) -> Option<Arc<Sources>> {
        let sources = self.order.as_ref()?;
        Some(match self.shared.dir.is_forked_child() {
            true => Arc::new(sources.of_child(&self.view.segments.in_order())),
            false => Arc::clone(sources),
        })
    }

    /// Whether the snapshot shows this record as its key's.
    pub(crate) fn shows(&self, hash: u64, location: RecordLocation) -> bool {
        self.shared.lookup.holds(hash, location) || self.view.replaced(hash).contains(&location)
    }
}
