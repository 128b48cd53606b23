//! Scans of an ordered store in the byte order of its keys.
//!
//! A scan merges the sorted sources of a snapshot and asks the index which of their entries are
//! current. It does both in batches, so that the cache misses of a batch overlap: first those of
//! the index, then those of the records.

use crate::bytes::key_range::KeyRange;
use crate::log::expiry::Entry;
use crate::log::index::slot::RecordLocation;
use crate::log::read::snapshot::{Snapshot, SnapshotRef};
use crate::log::segments::key_source::{Direction, KeySource};
use crate::log::segments::segment::RECORD_LINES;
use crate::log::state::key_order::{ScanMerge, Sources};
use crate::log::state::lookup::{entry_at, read_at};
use crate::log::state::shared::Shared;
use crate::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Entries of the first batch. Later ones have up to [`BATCH_MAX`].
const BATCH_MIN: usize = 8;
const BATCH_MAX: usize = 64;
/// Entries that are examined for a batch, most of which may be of removed segments.
const STEP_MAX: usize = 4096;

impl Snapshot {
    /// Whether the store is ordered.
    pub fn is_ordered(&self) -> bool {
        self.order.is_some()
    }

    /// The keys in a range and their values, in byte order of the keys: see
    /// [`LogStore::range`](crate::log::LogStore::range).
    pub fn range(&self, range: impl Into<KeyRange>) -> Result<Range<'_>> {
        over(SnapshotRef::Borrowed(self), range.into())
    }

    /// The keys with a prefix and their values, in byte order of the keys: see
    /// [`LogStore::prefix`](crate::log::LogStore::prefix).
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Range<'_>> {
        self.range(KeyRange::prefix(prefix))
    }

    /// [`Snapshot::range`] that keeps the snapshot open until it is dropped, where a borrow is
    /// impractical: in another thread, or in an iterator of another language.
    pub fn range_shared(
        self: &Arc<Snapshot>,
        range: impl Into<KeyRange>,
    ) -> Result<Range<'static>> {
        over(SnapshotRef::Shared(Arc::clone(self)), range.into())
    }

    /// [`Snapshot::range`] that keeps the snapshot.
    pub(crate) fn into_range(self, range: KeyRange) -> Result<Range<'static>> {
        over(SnapshotRef::Owned(self), range)
    }
}

fn over(snapshot: SnapshotRef<'_>, range: KeyRange) -> Result<Range<'_>> {
    let Some(sources) = snapshot.sources() else {
        let message = "the store is not ordered, so its keys cannot be read in their order: copy \
                       it into a new one that is (`Options::ordered`)";
        return Err(Error::invalid(message).in_file(&snapshot.shared.dir.path));
    };
    Ok(Range {
        is_over: range.is_empty(),
        snapshot,
        sources,
        range,
        direction: Direction::Forward,
        merge: None,
        batch: Vec::new(),
        size: BATCH_MIN,
        next: 0,
        last: None,
        expired: 0,
    })
}

/// Makes the next scan of a reader sort the keys of the segments whose run is damaged. A writer
/// writes such runs again: see `maintenance/key_order.rs`.
#[cold]
fn give_up_damaged_runs(shared: &Shared) {
    let Some(order) = shared.order.as_ref().filter(|_| !shared.dir.is_forked_child()) else {
        return;
    };
    // Does not wait: the caller may be inside a call that has the lock. Then a later scan does it.
    if let Ok(writer) = shared.writer.try_lock()
        && writer.is_none()
        && order.sources().runs.iter().any(|run| run.is_damaged())
    {
        order.give_up_in_reader(&shared.segments());
    }
}

/// Iterates over keys and values of a snapshot in the order of the keys. Ends with an error at a
/// damaged record or key run.
pub struct Range<'a> {
    snapshot: SnapshotRef<'a>,
    sources: Arc<Sources>,
    range: KeyRange,
    direction: Direction,
    /// `None` before the first call.
    merge: Option<ScanMerge>,
    /// Locations of current records; those before `next` were returned.
    batch: Vec<RecordLocation>,
    size: usize,
    next: usize,
    /// The key that was returned last.
    last: Option<Vec<u8>>,
    is_over: bool,
    expired: u64,
}

impl<'a> Range<'a> {
    /// The same range in the other direction. Called before the first record is read; afterwards
    /// the iteration begins again.
    #[must_use]
    pub fn reversed(mut self) -> Range<'a> {
        self.direction = match self.direction {
            Direction::Forward => Direction::Reverse,
            Direction::Reverse => Direction::Forward,
        };
        (self.merge, self.last, self.next) = (None, None, 0);
        (self.is_over, self.size, self.expired) = (self.range.is_empty(), BATCH_MIN, 0);
        self.batch.clear();
        self
    }

    /// Calls `read` with the next key and value, without copying them.
    pub fn next_with<T>(&mut self, mut read: impl FnMut(&[u8], &[u8]) -> T) -> Option<Result<T>> {
        self.next_entry_with(|entry| read(entry.key, entry.value))
    }

    /// [`Range::next_with`] for the whole record, including its expiry.
    pub fn next_entry_with<T>(
        &mut self,
        mut read: impl FnMut(Entry<'_>) -> T,
    ) -> Option<Result<T>> {
        loop {
            if let Some(read) = self.step_with(&mut read)?.transpose() {
                return Some(read);
            }
        }
    }

    /// One step of [`Range::next_entry_with`], which examines at most some thousand entries:
    /// `Some(Ok(None))` if none of them is shown. Between two records there may be any number of
    /// replaced and expired ones, so a program with a deadline looks at it between steps.
    pub fn step_with<T>(
        &mut self,
        mut read: impl FnMut(Entry<'_>) -> T,
    ) -> Option<Result<Option<T>>> {
        let step = match self.batch.get(self.next) {
            Some(&location) => {
                self.next += 1;
                self.read(location, &mut read)
            }
            None if self.is_over => return None,
            None => self.fill().map(|()| None),
        };
        if let Err(e) = &step {
            if e.kind() == ErrorKind::Corrupt {
                give_up_damaged_runs(&self.snapshot.shared);
            }
            self.is_over = true;
            self.batch.truncate(self.next);
        }
        Some(step)
    }

    /// Reads a record of the batch; `None` if it had expired.
    fn read<T>(
        &mut self,
        location: RecordLocation,
        read: &mut impl FnMut(Entry<'_>) -> T,
    ) -> Result<Option<T>> {
        let Some(segment) = self.snapshot.view.segment(location) else { return Ok(None) };
        let mut buffer = Vec::new();
        let record = read_at(segment, location, RECORD_LINES, &mut buffer)?;
        // A damaged run could break the order without breaking a checksum.
        let is_next = self.last.as_ref().is_none_or(|last| match self.direction {
            Direction::Forward => record.key > &last[..],
            Direction::Reverse => record.key < &last[..],
        });
        if !is_next || !self.range.contains(record.key) {
            let message = "the keys of the store are not in order: a key run is damaged";
            return Err(Error::corrupt(message).in_file(&self.snapshot.shared.dir.path));
        }
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(record.key);
        if record.is_expired(self.snapshot.now) {
            self.expired += 1;
            return Ok(None);
        }
        Ok(Some(read(entry_at(segment, location, &record))))
    }

    /// Finds the next current entries.
    fn fill(&mut self) -> Result<()> {
        self.batch.clear();
        self.next = 0;
        let (snapshot, sources) = (&*self.snapshot, &self.sources);
        let merge = match &mut self.merge {
            Some(merge) => merge,
            None => {
                let bound = match self.direction {
                    Direction::Forward => self.range.start(),
                    Direction::Reverse => self.range.end(),
                };
                self.merge.insert(sources.scan(bound, self.direction)?)
            }
        };
        let lookup = &snapshot.shared.lookup;
        let mut found = [(0, RecordLocation::from_bits(0)); BATCH_MAX];
        let mut count = 0;
        for _ in 0..STEP_MAX {
            if count == self.size {
                break;
            }
            let is_within = |key: &[u8]| match self.direction {
                Direction::Forward => self.range.is_before_end(key),
                Direction::Reverse => self.range.is_after_start(key),
            };
            let Some(entry) = merge.current().filter(|entry| is_within(entry.key)) else {
                self.is_over = true;
                break;
            };
            if let Some(location) = sources.location(&snapshot.view.segments, entry)
                && snapshot.view.segment(location).is_some()
            {
                let hash = lookup.hash(entry.key);
                lookup.index.prefetch(hash);
                found[count] = (hash, location);
                count += 1;
            }
            merge.advance()?;
        }
        self.size = (2 * self.size).min(BATCH_MAX);
        for &(hash, location) in &found[..count] {
            if snapshot.shows(hash, location) {
                if let Some(segment) = snapshot.view.segment(location) {
                    segment.prefetch(location, RECORD_LINES);
                }
                self.batch.push(location);
            }
        }
        Ok(())
    }

    /// Number of keys skipped so far because their records had expired.
    pub fn expired(&self) -> u64 {
        self.expired
    }
}

impl Iterator for Range<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_with(|key, value| (key.to_vec(), value.to_vec()))
    }
}
