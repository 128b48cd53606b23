//! Filling the index when a store is opened: from the checkpoint, from hints, or from the records.

use crate::ErrorKind;
use crate::Result;
use crate::log::failpoints::Failpoint;
use crate::log::format::checkpoint::Checkpoint;
use crate::log::format::hint_entries::HASH_BITS;
use crate::log::format::record::{Kind, hash_of_key};
use crate::log::format::segment_head::{SegmentHead, SegmentHeader, scan};
use crate::log::index::hash_index::Index;
use crate::log::index::pages::Shape;
use crate::log::index::slot::RecordLocation;
use crate::log::index::writer::{IndexWriter, create};
use crate::log::open::checkpoint_file;
use crate::log::segments::segment::{RECORD_LINES, Segment};
use crate::log::segments::segment_table::SegmentTable;
use crate::log::state::lookup::{GROUP, index_full, prefetch_all};
use std::borrow::Borrow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Each new record may replace an old one anywhere. If the old segments have at most this many
/// times the bytes of the new ones, they are read as a whole: reading them page by page takes far
/// longer.
const MANY_TIMES: u64 = 16;

/// The effect of a record on the index.
struct Change<'a> {
    hash: u64,
    /// How many of the highest bits of `hash` are known; the others may be zeros.
    known: u32,
    /// `None` if the record was not read yet.
    key: Option<&'a [u8]>,
    location: RecordLocation,
    is_put: bool,
}

/// Fills the index, which it owns when a store is opened, and borrows when one is refreshed.
pub(crate) struct Loader<I> {
    pub(crate) id: u64,
    shape: Shape,
    pub(crate) index: I,
    pub(crate) writer: IndexWriter,
    pub(crate) table: SegmentTable<Segment>,
    pub(crate) hinted: u64,
    pub(crate) scanned: u64,
}

impl Loader<Index> {
    /// `Failed` if there is no memory for an empty index.
    pub(crate) fn new(id: u64, shape: Shape) -> Result<Loader<Index>> {
        let (index, writer) = create(shape).map_err(|_| index_full())?;
        let table = SegmentTable::default();
        Ok(Loader { id, shape, index, writer, table, hinted: 0, scanned: 0 })
    }

    /// An empty index with shards for the entries that will be loaded, so that their slots hold as
    /// many bits of the hash as they can. Entries of old hints know fewer.
    fn begin(&mut self, checkpoint: Option<&Checkpoint>) -> Result<()> {
        let (mut entries, mut known) = (0, HASH_BITS);
        for segment in self.table.iter() {
            let Some(hint) = segment.hint.get() else { continue };
            let puts = hint.puts()?;
            known = known.min(puts.hash_bits());
            let covered =
                checkpoint.and_then(|its| Some((its, its.segments.get(&segment.number)?)));
            entries += covered.map_or(puts.len(), |(its, covered)| its.count(covered)) as u64;
        }
        let mut shape = self.shape.with_entries(entries);
        shape.known = known;
        (self.index, self.writer) = create(shape).map_err(|_| index_full())?;
        self.shape = shape;
        Ok(())
    }

    /// Fills the index from the checkpoint for the segments that it covers, then from the hints of
    /// segments, and from their records where there is no hint. Returns the last segment of the
    /// checkpoint.
    pub(crate) fn fill(&mut self, checkpoint: Option<Checkpoint>) -> Result<u64> {
        let mut segments = self.table.in_order();
        if Failpoint::ReplayBackwards.is_on() {
            segments.reverse();
        }
        let mut covered = 0;
        let checkpoint = checkpoint.filter(|checkpoint| checkpoint.store == self.id);
        self.begin(checkpoint.as_ref())?;
        if let Some(checkpoint) = checkpoint {
            let last = checkpoint.segments.keys().next_back().copied().unwrap_or(0);
            let old = segments.partition_point(|segment| segment.number <= last);
            match checkpoint_file::load(
                &checkpoint,
                &segments[..old],
                &self.index,
                &mut self.writer,
            ) {
                Ok(()) => {
                    covered = if Failpoint::TrustCheckpoint.is_on() { u64::MAX } else { last };
                    for segment in &segments[..old] {
                        let live = checkpoint.segments[&segment.number].live_bytes;
                        segment.live.store(live, Ordering::Relaxed);
                        let deletes = segment.hint.get().map_or(0, |hint| hint.meta.delete_bytes);
                        segment.deletes.store(deletes, Ordering::Relaxed);
                    }
                }
                // It does not match the hints, which are used without it.
                Err(_) => self.begin(None)?,
            }
        }
        let (old, new) = segments.split_at(segments.partition_point(|s| s.number <= covered));
        let sum = |segments: &[Arc<Segment>]| segments.iter().map(|s| s.end()).sum::<u64>();
        if covered > 0 && sum(old) <= MANY_TIMES * sum(new) {
            segments.iter().for_each(|segment| segment.expect_all());
        }
        for segment in new {
            match segment.hint.get() {
                Some(_) => self.replay(segment)?,
                None => self.scan(segment)?,
            }
        }
        Ok(covered)
    }
}

impl<'a> Loader<&'a Index> {
    /// Continues with an index that was filled before. Others may search it meanwhile.
    pub(crate) fn over(
        id: u64,
        index: &'a Index,
        writer: IndexWriter,
        table: SegmentTable<Segment>,
    ) -> Loader<&'a Index> {
        let shape = index.pages.shape();
        Loader { id, shape, index, writer, table, hinted: 0, scanned: 0 }
    }
}

impl<I: Borrow<Index>> Loader<I> {
    /// Puts the entries of a segment's hint into the index, in the order of the log for each key.
    fn replay(&mut self, segment: &Arc<Segment>) -> Result<()> {
        let Some(hint) = segment.hint.get() else { return Ok(()) };
        let (puts, deletes) = (hint.puts()?, hint.deletes()?);
        let known = self.known().min(puts.hash_bits());
        segment.live.store(hint.meta.put_bytes, Ordering::Relaxed);
        segment.deletes.store(hint.meta.delete_bytes, Ordering::Relaxed);
        let (mut puts, mut deletes) = (puts.iter().peekable(), deletes.iter().peekable());
        let mut group = Vec::with_capacity(GROUP);
        loop {
            let is_put = match (puts.peek(), deletes.peek()) {
                (Some(put), Some(delete)) => put < delete,
                (put, _) => put.is_some(),
            };
            let entry = if is_put { puts.next() } else { deletes.next() };
            let Some((hash, offset)) = entry else { break };
            let location = RecordLocation::new(segment.slot, offset);
            self.add(segment, &mut group, Change { hash, known, key: None, location, is_put })?;
        }
        self.hinted += 1;
        self.apply(segment, &mut group)
    }

    /// Puts all records of a segment into the index.
    fn scan(&mut self, segment: &Arc<Segment>) -> Result<()> {
        let bytes = segment.contents()?;
        let header = SegmentHeader::decode(&bytes).map_err(|e| e.in_file(&segment.path))?;
        let head = SegmentHead::after_header(header, &bytes, segment.number);
        let head = head.map_err(|e| e.in_file(&segment.path))?;
        self.scanned += 1;
        self.scan_from(segment, &bytes, &head.header, head.end)
    }

    /// Puts the records from a byte on into the index.
    pub(crate) fn scan_from(
        &mut self,
        segment: &Arc<Segment>,
        bytes: &[u8],
        header: &SegmentHeader,
        from: u64,
    ) -> Result<()> {
        let mut group = Vec::with_capacity(GROUP);
        let end = scan(bytes, header, from, |offset, record, length| {
            let (hash, location) = (hash_of_key(record.key, self.id), segment.location(offset));
            let is_put = match record.kind {
                Kind::Put => true,
                Kind::Delete if Failpoint::ForgetDeletesOnReplay.is_on() => return Ok(()),
                Kind::Delete => false,
                Kind::Link | Kind::Removed => return Ok(()),
            };
            let counter = if is_put { &segment.live } else { &segment.deletes };
            counter.fetch_add(segment.align(length), Ordering::Relaxed);
            let (key, known) = (Some(record.key), self.known());
            self.add(segment, &mut group, Change { hash, known, key, location, is_put })
        })?;
        self.apply(segment, &mut group)?;
        if end == segment.end() { Ok(()) } else { Err(segment.damage(end)) }
    }

    fn add<'a>(
        &mut self,
        segment: &Segment,
        group: &mut Vec<Change<'a>>,
        change: Change<'a>,
    ) -> Result<()> {
        group.push(change);
        if group.len() < GROUP { Ok(()) } else { self.apply(segment, group) }
    }

    /// Applies changes of one segment in order. Prefetches the memory of all of them first.
    fn apply(&mut self, segment: &Segment, group: &mut Vec<Change>) -> Result<()> {
        let mut hashes = [0; GROUP];
        hashes.iter_mut().zip(group.iter()).for_each(|(hash, change)| *hash = change.hash);
        prefetch_all(self.index.borrow(), &self.table, RECORD_LINES, &hashes[..group.len()]);
        let unread = group.iter().filter(|change| change.key.is_none() && self.may_be(change));
        unread.for_each(|change| segment.prefetch(change.location, RECORD_LINES));
        for change in group.drain(..) {
            let Change { hash, known, location, is_put, .. } = change;
            let hash = (hash, known);
            match change.key {
                Some(key) => self.change(hash, key, is_put.then_some(location))?,
                // Perhaps the same key: only the records say.
                None if self.may_be(&change) => {
                    let mut buffer = Vec::new();
                    let (record, _) = segment.read(segment.offset(location), &mut buffer)?;
                    let hash = (hash_of_key(record.key, self.id), known);
                    self.change(hash, record.key, is_put.then_some(location))?;
                }
                None if is_put => self.insert(hash, location)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Bits of a hash that an entry may know: not more than those of the hints, because a search
    /// with the hash of a hint compares all bits that an entry knows.
    fn known(&self) -> u32 {
        self.shape.known
    }

    /// Whether there may be an entry of the same key.
    fn may_be(&self, change: &Change) -> bool {
        self.index.borrow().find(change.hash, |_| Some(())).is_some()
    }

    /// Makes the index point to this location for a key, or removes the key.
    fn change(
        &mut self,
        (hash, known): (u64, u32),
        key: &[u8],
        location: Option<RecordLocation>,
    ) -> Result<()> {
        let current = self.current(hash, key)?;
        if let Some((old, length)) = current
            && let Some(segment) = self.table.get(old.segment())
        {
            segment.retire_record(length);
        }
        match (current, location) {
            (Some((old, _)), Some(location)) => {
                self.writer.replace(self.index.borrow(), hash, old, location);
            }
            (None, Some(location)) => self.insert((hash, known), location)?,
            (Some((old, _)), None) => {
                self.writer.remove(self.index.borrow(), hash, old);
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Adds an entry that knows so many bits of its hash.
    fn insert(&mut self, (hash, known): (u64, u32), location: RecordLocation) -> Result<()> {
        let inserted = self.writer.insert_known(self.index.borrow(), hash, known, location);
        inserted.map_err(|_| index_full())
    }

    /// RecordLocation and length of a key's record.
    fn current(&self, hash: u64, key: &[u8]) -> Result<Option<(RecordLocation, u64)>> {
        let mut buffer = Vec::new();
        let found = self.index.borrow().find(hash, |location| {
            let segment = self.table.get(location.segment())?;
            match segment.peek(segment.offset(location), &mut buffer) {
                Ok((record, length)) => {
                    (record.key == key).then_some(Ok((location, length as u64)))
                }
                // A damaged record is not taken for one of this key.
                Err(e) if e.kind() == ErrorKind::Corrupt => None,
                Err(e) => Some(Err(e)),
            }
        });
        found.transpose()
    }

    /// Removes the entries of segments that are no longer in the table: of keys that were deleted,
    /// where compaction dropped the delete.
    pub(crate) fn sweep(&mut self) {
        let index = self.index.borrow();
        let (mut entries, mut next) = (Vec::new(), 0);
        while next < index.end() {
            next = index.entries_from(next, usize::MAX, &mut entries);
            for &(kept, location) in &entries {
                if self.table.get(location.segment()).is_none() {
                    let hash = kept << (u64::BITS - index.width());
                    self.writer.remove(index, hash, location);
                }
            }
        }
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.table.in_order().iter().map(|s| s.live.load(Ordering::Relaxed)).sum()
    }
}
