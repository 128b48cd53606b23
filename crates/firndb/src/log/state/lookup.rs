//! From a key to its record: the index, the segment table and the reading of a record.

use crate::Result;
use crate::bytes::prefetch::{LINE, prefetch};
use crate::log::expiry::{Entry, Expiry};
use crate::log::format::record::{Record, checksum_matches, hash_of_key, parse};
use crate::log::index::hash_index::Index;
use crate::log::index::slot::RecordLocation;
use crate::log::segments::segment::Segment;
use crate::log::segments::segment_table::{self, SegmentTable};
use crate::log::state::prefetch_lines::PrefetchLines;
use crate::sync::Swap;
use crate::{Error, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys whose memory is prefetched together: as many as a processor can wait for at once.
pub(crate) const GROUP: usize = 16;
/// Cache lines after the usual ones that are prefetched where a record is long. By itself the
/// processor continues to the end of a page and waits anew for each page; with all of 10 KB
/// prefetched, a get takes two thirds of the time.
const LONG_RECORD_LINES: usize = 256;

/// Index and segments of an open store.
pub(crate) struct Lookup {
    /// Id of the store. Seeds the hash of keys.
    pub(crate) store: u64,
    pub(crate) index: Index,
    pub(crate) segments: Swap<SegmentTable<Segment>>,
    pub(crate) prefetch_lines: PrefetchLines,
    /// Reads of a record that turned out to be another key's.
    pub(crate) false_reads: AtomicU64,
}

impl Lookup {
    pub(crate) fn new(store: u64, index: Index, segments: SegmentTable<Segment>) -> Lookup {
        Lookup {
            store,
            index,
            segments: Swap::from_pointee(segments),
            prefetch_lines: PrefetchLines::default(),
            false_reads: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        hash_of_key(key, self.store)
    }

    /// Passes the record of a key, its segment and its location to `read`. Returns what `read`
    /// returns, `None` if the key is absent. Errors: `Corrupt` if the record is damaged, `Io`.
    #[inline]
    pub(crate) fn find<T>(
        &self,
        key: &[u8],
        hash: u64,
        read: impl FnMut(&Segment, RecordLocation, &Record) -> Option<T>,
    ) -> Result<Option<T>> {
        self.search(key, hash, true, read)
    }

    /// The location of a key's record. Does not read its value, which need not be in memory and may
    /// be damaged. A record that might be another key's is checked.
    #[inline]
    pub(crate) fn locate(&self, key: &[u8], hash: u64) -> Result<Option<RecordLocation>> {
        self.search(key, hash, false, |_, location, _| Some(location))
    }

    /// [`Lookup::find`], or [`Lookup::locate`] if the checksum need not be checked.
    #[inline]
    fn search<T>(
        &self,
        key: &[u8],
        hash: u64,
        is_checked: bool,
        mut read: impl FnMut(&Segment, RecordLocation, &Record) -> Option<T>,
    ) -> Result<Option<T>> {
        let mut buffer = Vec::new();
        loop {
            let found =
                segment_table::find(&self.segments, &self.index, hash, |segment, location| {
                    if !is_checked
                        && let Ok((record, _)) = segment.peek(segment.offset(location), &mut buffer)
                        && record.key == key
                    {
                        return Some(Ok(read(segment, location, &record)));
                    }
                    match read_at(segment, location, self.prefetch_lines.get(), &mut buffer) {
                        Ok(record) if record.key == key => {
                            self.prefetch_lines.learn(hash, key.len() + record.value.len());
                            Some(Ok(read(segment, location, &record)))
                        }
                        Ok(_) => {
                            self.false_reads.fetch_add(1, Ordering::Relaxed);
                            None
                        }
                        Err(e) => Some(Err((location, Arc::clone(segment), e))),
                    }
                });
            match found {
                None => return Ok(None),
                Some(Ok(value)) => return Ok(value),
                // Unless the shard was rebuilt during the search and this was not the key's
                // location, or a refresh has replaced the segment by a longer version.
                Some(Err((location, segment, error))) => {
                    let table = self.segments.load();
                    let is_same = |now: &Arc<Segment>| Arc::ptr_eq(now, &segment);
                    if table.get(location.segment()).is_some_and(is_same)
                        && self.holds(hash, location)
                    {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Whether the index has exactly this entry.
    #[inline]
    pub(crate) fn holds(&self, hash: u64, location: RecordLocation) -> bool {
        self.index.find(hash, |found| (found == location).then_some(())).is_some()
    }
}

/// Prefetches what searches for these hashes need: first all their slots of the index, then `lines`
/// cache lines of all their records. At most [`GROUP`] hashes.
pub(crate) fn prefetch_all(
    index: &Index,
    segments: &SegmentTable<Segment>,
    lines: usize,
    hashes: &[u64],
) {
    hashes.iter().for_each(|&hash| index.prefetch(hash));
    for &hash in hashes {
        index.find(hash, |location| {
            segments.get(location.segment())?.prefetch(location, lines);
            Some(())
        });
    }
}

/// Reads the record at a location and checks its checksum. Prefetches `lines` cache lines first.
#[inline]
pub(crate) fn read_at<'a>(
    segment: &'a Segment,
    location: RecordLocation,
    lines: usize,
    buffer: &'a mut Vec<u8>,
) -> Result<Record<'a>> {
    let offset = segment.offset(location);
    let rest = segment.bytes_at(offset, buffer)?;
    prefetch(rest, lines);
    if let Some((record, length)) = parse(rest) {
        let record_bytes = &rest[..length];
        prefetch(record_bytes.get(lines * LINE..).unwrap_or(&[]), LONG_RECORD_LINES);
        if checksum_matches(record_bytes, segment.number, offset) {
            return Ok(record);
        }
    }
    Err(segment.damage(offset))
}

/// The entry that callers get of a record at this location.
#[inline]
pub(crate) fn entry_at<'a>(
    segment: &Segment,
    location: RecordLocation,
    record: &Record<'a>,
) -> Entry<'a> {
    let version = record.version(segment.number, segment.offset(location));
    let Record { key, value, .. } = *record;
    Entry { key, value, expiry: Expiry::of(record.expires), version }
}

/// The error of an index that has no room for another key.
pub(crate) fn index_full() -> Error {
    let message = "the index is full: there is no memory for another key (each takes about 10 \
                   bytes), or the store has reached its limit of about 2^36 keys; remove keys, or \
                   divide them among several stores";
    Error::new(ErrorKind::Failed, message)
}
