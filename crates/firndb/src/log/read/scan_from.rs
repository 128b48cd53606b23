//! Stateless scans: pages of records in the order of the hashes of their keys, as the command
//! `SCAN` of Redis needs them.
//!
//! A cursor is a position in that order: the upper 63 bits of a hash. It depends on the store's id
//! and the key alone. So it stays valid when the store is reopened, compacted or restored from a
//! backup, or opened with another number of shards, and the store keeps nothing between two pages.
//!
//! The index keeps only some bits of each hash, and its shards are sorted by them. A page walks
//! through the index in groups of entries with equal bits. The records of a group say which keys
//! these are; then their positions are known exactly. Only a group of several entries has to be
//! ordered, and looked up again by key, because one of its entries may be an older version: one
//! that a deferred put is about to replace.
//!
//! No lock is taken. The buffered inserts are read first and then the shards, as in `Index::find`,
//! so a key that exists during the whole call is in one of the two.

use crate::log::expiry::Entry;
use crate::log::index::slot::RecordLocation;
use crate::log::segments::segment::{RECORD_LINES, Segment};
use crate::log::segments::segment_table::SegmentTable;
use crate::log::state::lookup::{GROUP, entry_at, read_at};
use crate::log::state::shared::Shared;
use crate::{Error, Result};
use std::sync::Arc;

/// Bits of a position.
const POSITION_BITS: u32 = 63;
/// Positions, and cursors, are below this.
const POSITIONS: u64 = 1 << POSITION_BITS;
/// A page ends after this many keys, or when it has this many bytes.
const KEYS_MAX: usize = 1 << 16;
const BYTES_MAX: usize = 16 << 20;

/// A page of a scan: see [`LogStore::scan_from`](crate::log::LogStore::scan_from).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanPage {
    /// Keys and values, in the order of the scan.
    pub records: Vec<(Vec<u8>, Vec<u8>)>,
    /// The cursor of the next page, never 0; `None` if the scan is complete.
    pub next: Option<u64>,
}

type Segments = SegmentTable<Segment>;
/// The kept bits of a key's hash, and the location of a record.
type IndexEntry = (u64, RecordLocation);

/// Passes the records of a page to `read`: see `LogStore::scan_from_with`.
pub(crate) fn scan_from(
    shared: &Shared,
    cursor: u64,
    limit: usize,
    read: impl FnMut(Entry<'_>),
) -> Result<Option<u64>> {
    if cursor >= POSITIONS {
        let message = format!("{cursor} is not a cursor: 0 begins a scan, others come from pages");
        return Err(Error::invalid(message));
    }
    let index = &shared.lookup.index;
    let shift = POSITION_BITS - index.width();
    // While `held` is, no slot of it gets another segment.
    let (held, buffered) = buffered(shared);
    // A record that is alive now and replaced later must not be missing because it expires before
    // the page comes to it: so this is read before everything else.
    let (now, limit) = (shared.now(), limit.clamp(1, KEYS_MAX));
    let mut page = Page { shared, now, next: cursor, limit, keys: 0, bytes: 0, read };
    let mut entries = Vec::new();
    while page.next < POSITIONS {
        // Loaded before the index is read, so that no slot of it gets another segment meanwhile.
        let table = shared.lookup.segments.load_full();
        let kept = page.next >> shift;
        let left = page.limit - page.keys;
        let end = index.entries_from(kept, left, &mut entries);
        entries.extend(buffered.iter().filter(|(its, _)| (kept..end).contains(its)));
        entries.sort_unstable();
        match page.show_all([&table, &held], &entries)? {
            Step::Full => return Ok(Some(page.next).filter(|&next| next < POSITIONS)),
            Step::Outdated => {}
            Step::Complete => page.next = end << shift,
        }
    }
    Ok(None)
}

/// The buffered inserts, and a table with their segments.
fn buffered(shared: &Shared) -> (Arc<Segments>, Vec<IndexEntry>) {
    loop {
        let table = shared.lookup.segments.load_full();
        let buffered = shared.lookup.index.buffered();
        if buffered.iter().all(|(_, location)| table.get(location.segment()).is_some()) {
            return (table, buffered);
        }
    }
}

/// How far a page came.
enum Step {
    /// Everything was shown.
    Complete,
    /// The page is full. The next one begins at [`Page::next`].
    Full,
    /// The segment table is older than the entries: read both again, from [`Page::next`] on.
    Outdated,
}

/// A page in progress.
struct Page<'a, R> {
    shared: &'a Shared,
    now: u64,
    /// Everything before this position was shown.
    next: u64,
    limit: usize,
    /// Keys and bytes so far, including those of expired records.
    keys: usize,
    bytes: usize,
    read: R,
}

impl<R: FnMut(Entry<'_>)> Page<'_, R> {
    /// Shows the records of sorted entries of the index. Their segments are in one of the tables.
    fn show_all(&mut self, tables: [&Segments; 2], entries: &[IndexEntry]) -> Result<Step> {
        let mut shown = 0;
        for group in entries.chunk_by(|(a, _), (b, _)| a == b) {
            if shown % GROUP < group.len() {
                prefetch(tables[0], &entries[shown..]);
            }
            shown += group.len();
            let step = match *group {
                [entry] => self.show_one(tables, entry)?,
                _ => self.show_several(tables, group)?,
            };
            if !matches!(step, Step::Complete) {
                return Ok(step);
            }
        }
        Ok(Step::Complete)
    }

    /// Shows the record of the only entry with these bits.
    fn show_one(&mut self, tables: [&Segments; 2], entry: IndexEntry) -> Result<Step> {
        let mut buffer = Vec::new();
        let Some(found) = self.entry_at(tables, entry, &mut buffer)? else {
            return Ok(Step::Outdated);
        };
        if let Some(hash) = self.due(entry, found.key) {
            self.show(found);
            self.next = (hash >> 1) + 1;
        }
        Ok(if self.is_full() { Step::Full } else { Step::Complete })
    }

    /// Shows the records of the keys that these entries with equal bits belong to.
    fn show_several(&mut self, tables: [&Segments; 2], group: &[IndexEntry]) -> Result<Step> {
        let (mut keys, mut buffer) = (Vec::new(), Vec::new());
        for &entry in group {
            let Some(found) = self.entry_at(tables, entry, &mut buffer)? else {
                return Ok(Step::Outdated);
            };
            keys.extend(self.due(entry, found.key).map(|hash| (hash, found.key.to_vec())));
        }
        keys.sort_unstable();
        keys.dedup();
        for same in keys.chunk_by(|(a, _), (b, _)| a >> 1 == b >> 1) {
            for (hash, key) in same {
                let lookup = &self.shared.lookup;
                lookup.find(key, *hash, |segment, location, record| {
                    self.show(entry_at(segment, location, record));
                    Some(())
                })?;
                self.next = (hash >> 1) + 1;
            }
            if self.is_full() {
                return Ok(Step::Full);
            }
        }
        Ok(Step::Complete)
    }

    /// The hash of a record's key, if that has the bits of the entry and was not shown yet.
    fn due(&self, (kept, _): IndexEntry, key: &[u8]) -> Option<u64> {
        let lookup = &self.shared.lookup;
        let hash = lookup.hash(key);
        (lookup.index.kept_bits(hash) == kept && hash >> 1 >= self.next).then_some(hash)
    }

    /// The record at the location of an entry. `None` if the tables are older than the entry.
    fn entry_at<'b>(
        &self,
        tables: [&'b Segments; 2],
        entry: IndexEntry,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<Entry<'b>>> {
        let lookup = &self.shared.lookup;
        let location = entry.1;
        let slot = location.segment();
        let Some(segment) = tables.into_iter().find_map(|table| table.get(slot)) else {
            return Ok(None);
        };
        match read_at(segment, location, lookup.prefetch_lines.get(), buffer) {
            Ok(record) => Ok(Some(entry_at(segment, location, &record))),
            Err(error) => {
                // Unless compaction moved the record, or a refresh has replaced the segment by a
                // longer version.
                let now = lookup.segments.load();
                let is_same = now.get(slot).is_some_and(|now| Arc::ptr_eq(now, segment));
                if is_same && lookup.index.lists(entry) { Err(error) } else { Ok(None) }
            }
        }
    }

    fn show(&mut self, entry: Entry<'_>) {
        self.keys += 1;
        self.bytes += entry.key.len() + entry.value.len();
        if !entry.expiry.has_passed(self.now) {
            (self.read)(entry);
        }
    }

    fn is_full(&self) -> bool {
        self.keys >= self.limit || self.bytes >= BYTES_MAX
    }
}

/// Prefetches the records of the first entries.
fn prefetch(table: &Segments, entries: &[IndexEntry]) {
    for &(_, location) in entries.iter().take(GROUP) {
        if let Some(segment) = table.get(location.segment()) {
            segment.prefetch(location, RECORD_LINES);
        }
    }
}
