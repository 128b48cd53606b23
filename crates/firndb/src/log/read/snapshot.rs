//! Snapshots: the store as it was at one moment, while writing and compaction go on.
//!
//! A snapshot is a place in the log, the table of segments of that moment, and a list of what the
//! index pointed to and does not any more. A record before the place that the index still points to
//! is what the snapshot shows; for other keys the list says what it was. Writers add to the list
//! before they change the index, so a reader that looks at the index first and then at the list
//! misses nothing. It costs memory for each key changed since, and its segments stay on disk until
//! it is dropped.

use crate::Result;
use crate::log::expiry::{Entry, Expiry};
use crate::log::format::record::Record;
use crate::log::index::slot::RecordLocation;
use crate::log::open::store::{LogStore, Shared};
use crate::log::read::get::read_at;
use crate::log::segments::segment::{Segment, Table};
use crate::log::write::group_commit::Position;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// A view of a store at one moment. Any number of threads may use it.
pub struct Snapshot {
    shared: Arc<Shared>,
    pub(crate) view: Arc<View>,
    /// When it was taken: what had expired by then is absent, and nothing expires in it later.
    now: u64,
}

/// What a snapshot shows, and where writers note what they replace.
pub(crate) struct View {
    table: Arc<Table>,
    end: Position,
    /// Places by hash of the key.
    replaced: Mutex<HashMap<u64, Vec<RecordLocation>>>,
}

impl View {
    /// The segment of a place, if the record was in the log at that moment.
    fn segment(&self, place: RecordLocation) -> Option<&Arc<Segment>> {
        let segment = self.table.get(place.segment())?;
        let position = (segment.number, segment.offset(place));
        (position < self.end).then_some(segment)
    }

    /// Whether nothing that it shows was replaced since.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.replaced.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn replaced(&self, hash: u64) -> Vec<RecordLocation> {
        let replaced = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        replaced.get(&hash).cloned().unwrap_or_default()
    }
}

impl LogStore {
    /// The store as it is now, with every batch in it as a whole or not at all. Records that have
    /// expired by now are absent in it; others stay in it, even when their time comes.
    pub fn snapshot(&self) -> Snapshot {
        let shared = Arc::clone(&self.shared);
        let now = shared.now();
        // Under the lock, so that no write is half in it.
        let writer = shared.settle();
        let end = writer.as_ref().map_or((u64::MAX, 0), |writer| writer.position());
        let table = shared.table.load_full();
        let view = Arc::new(View { table, end, replaced: Mutex::default() });
        shared.views().push(Arc::clone(&view));
        shared.view_count.fetch_add(1, Ordering::Release);
        drop(writer);
        Snapshot { shared, view, now }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.shared.views().retain(|view| !Arc::ptr_eq(view, &self.view));
        self.shared.view_count.fetch_sub(1, Ordering::Release);
    }
}

impl Shared {
    fn views(&self) -> std::sync::MutexGuard<'_, Vec<Arc<View>>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes in all snapshots that the index is about to lose this place. The caller holds the
    /// writer's lock.
    pub(crate) fn preserve(&self, hash: u64, place: RecordLocation) {
        if self.view_count.load(Ordering::Acquire) == 0 {
            return;
        }
        for view in self.views().iter().filter(|view| view.segment(place).is_some()) {
            let mut replaced = view.replaced.lock().unwrap_or_else(PoisonError::into_inner);
            replaced.entry(hash).or_default().push(place);
        }
    }
}

impl Snapshot {
    /// The value of a key; `None` if it was absent.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.find(key, |record| record.value.to_vec())
    }

    /// When the record of a key expires; `None` if the key was absent.
    pub fn expiry(&self, key: &[u8]) -> Result<Option<Expiry>> {
        self.find(key, |record| Expiry::of(record.expires))
    }

    fn find<T>(&self, key: &[u8], read: impl Fn(Record) -> T) -> Result<Option<T>> {
        let (hash, lines) = (self.shared.hash(key), self.shared.usual.lines());
        let shown = |record: Record| (!record.is_expired(self.now)).then(|| read(record));
        let mut room = Vec::new();
        loop {
            let found = self.shared.index.find(hash, |place| {
                match read_at(self.view.segment(place)?, place, lines, &mut room) {
                    Ok(record) => (record.key == key).then_some(Ok(shown(record))),
                    Err(error) => Some(Err((place, error))),
                }
            });
            match found {
                None => break,
                Some(Ok(value)) => return Ok(value),
                Some(Err((place, error))) if self.shared.holds(hash, place) => return Err(error),
                Some(Err(_)) => {}
            }
        }
        for place in self.view.replaced(hash) {
            if let Some(segment) = self.view.segment(place) {
                let record = read_at(segment, place, lines, &mut room)?;
                if record.key == key {
                    return Ok(shown(record));
                }
            }
        }
        Ok(None)
    }

    /// All keys and values, in the order in which they lie on disk.
    pub fn iter(&self) -> Iter<'_> {
        self.over(self.view.table.in_order())
    }

    /// All keys, without their values.
    pub fn keys(&self) -> impl Iterator<Item = Result<Vec<u8>>> + '_ {
        let mut records = self.iter();
        std::iter::from_fn(move || records.next_with(|key, _| key.to_vec()))
    }

    /// All keys and values in up to `parts` iterators, for as many threads.
    pub fn parts(&self, parts: usize) -> Vec<Iter<'_>> {
        let segments = self.view.table.in_order();
        let size = segments.len().div_ceil(parts.max(1)).max(1);
        segments.chunks(size).map(|some| self.over(some.to_vec())).collect()
    }

    fn over(&self, segments: Vec<Arc<Segment>>) -> Iter<'_> {
        Iter { snapshot: self, segments, next: 0, at: None, is_over: false, expired: 0 }
    }

    /// Whether a record of a segment is what the snapshot shows of its key.
    fn shows(&self, hash: u64, place: RecordLocation) -> bool {
        self.shared.holds(hash, place) || self.view.replaced(hash).contains(&place)
    }
}

/// Keys and values of a snapshot. Damage ends it with an error.
pub struct Iter<'a> {
    snapshot: &'a Snapshot,
    segments: Vec<Arc<Segment>>,
    next: usize,
    /// Offset in the segment before `next`.
    at: Option<u64>,
    is_over: bool,
    expired: u64,
}

impl Iter<'_> {
    /// Calls `read` with the next key and value, without copying them.
    pub fn next_with<T>(&mut self, mut read: impl FnMut(&[u8], &[u8]) -> T) -> Option<Result<T>> {
        self.next_entry_with(|entry| read(entry.key, entry.value))
    }

    /// [`Iter::next_with`] for the whole record: with its expiry.
    pub fn next_entry_with<T>(
        &mut self,
        mut read: impl FnMut(Entry<'_>) -> T,
    ) -> Option<Result<T>> {
        while !self.is_over {
            let Some(at) = self.at else {
                self.segments.get(self.next)?;
                (self.next, self.at) =
                    (self.next + 1, Some(crate::log::format::record::HEADER as u64));
                continue;
            };
            let segment = &self.segments[self.next - 1];
            let offset = segment.align(at);
            let place = segment.place(offset);
            if at >= segment.end() || self.snapshot.view.segment(place).is_none() {
                self.at = None;
                continue;
            }
            let mut room = Vec::new();
            let (record, length) = match segment.read(offset, &mut room) {
                Ok(found) => found,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            };
            self.at = Some(offset + length as u64);
            let Record { key, value, .. } = record;
            let is_newest = record.kind == crate::log::format::record::Kind::Put
                && self.snapshot.shows(self.snapshot.shared.hash(key), place);
            if is_newest && record.is_expired(self.snapshot.now) {
                self.expired += 1;
            } else if is_newest {
                let expiry = Expiry::of(record.expires);
                return Some(Ok(read(Entry { key, value, expiry })));
            }
        }
        None
    }

    /// Number of keys passed over so far because their records had expired. The log may have been
    /// rid of others before, by compaction.
    pub fn expired(&self) -> u64 {
        self.expired
    }
}

impl Iterator for Iter<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_with(|key, value| (key.to_vec(), value.to_vec()))
    }
}
