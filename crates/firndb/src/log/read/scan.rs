//! Iteration over all records of a snapshot, in the order of the log.

use crate::Result;
use crate::log::expiry::Entry;
use crate::log::format::record::Kind;
use crate::log::format::segment_head::HEADER;
use crate::log::read::snapshot::{Snapshot, SnapshotRef};
use crate::log::segments::segment::Segment;
use crate::log::state::lookup::entry_at;
use std::sync::Arc;

impl Snapshot {
    /// All keys and values, in the order in which they are stored on disk.
    pub fn iter(&self) -> Iter<'_> {
        over(SnapshotRef::Borrowed(self), self.view.segments.in_order())
    }

    /// [`Snapshot::iter`] that keeps the snapshot open until it is dropped, where a borrow is
    /// impractical: in another thread, or in an iterator of another language.
    pub fn iter_shared(self: &Arc<Snapshot>) -> Iter<'static> {
        over(SnapshotRef::Shared(Arc::clone(self)), self.view.segments.in_order())
    }

    /// [`Snapshot::iter`] that keeps the snapshot.
    pub(crate) fn into_iter(self) -> Iter<'static> {
        let segments = self.view.segments.in_order();
        over(SnapshotRef::Owned(self), segments)
    }

    /// All keys, without their values.
    pub fn keys(&self) -> impl Iterator<Item = Result<Vec<u8>>> + '_ {
        let mut records = self.iter();
        std::iter::from_fn(move || records.next_with(|key, _| key.to_vec()))
    }

    /// All keys and values in up to `n` iterators, for as many threads.
    pub fn splits(&self, n: usize) -> Vec<Iter<'_>> {
        let segments = self.view.segments.in_order();
        let size = segments.len().div_ceil(n.max(1)).max(1);
        segments.chunks(size).map(|some| over(SnapshotRef::Borrowed(self), some.to_vec())).collect()
    }
}

fn over(source: SnapshotRef<'_>, segments: Vec<Arc<Segment>>) -> Iter<'_> {
    Iter { source, segments, next: 0, at: None, is_over: false, expired: 0 }
}

/// Iterates over the keys and values of a snapshot. Ends with an error at a damaged record.
pub struct Iter<'a> {
    source: SnapshotRef<'a>,
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

    /// [`Iter::next_with`] for the whole record, including its expiry.
    pub fn next_entry_with<T>(
        &mut self,
        mut read: impl FnMut(Entry<'_>) -> T,
    ) -> Option<Result<T>> {
        while !self.is_over {
            let Some(at) = self.at else {
                self.segments.get(self.next)?;
                (self.next, self.at) = (self.next + 1, Some(HEADER as u64));
                continue;
            };
            let segment = &self.segments[self.next - 1];
            let offset = segment.align(at);
            let location = segment.location(offset);
            if at >= segment.end() || self.source.view.segment(location).is_none() {
                self.at = None;
                continue;
            }
            let mut buffer = Vec::new();
            let (record, length) = match segment.read(offset, &mut buffer) {
                Ok(found) => found,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            };
            self.at = Some(offset + length as u64);
            let is_newest = record.kind == Kind::Put
                && self.source.shows(self.source.shared.lookup.hash(record.key), location);
            if is_newest && record.is_expired(self.source.now) {
                self.expired += 1;
            } else if is_newest {
                return Some(Ok(read(entry_at(segment, location, &record))));
            }
        }
        None
    }

    /// Number of keys skipped so far because their records had expired. Compaction may have removed
    /// others before.
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
