//! Filling the index when a store is opened: from the checkpoint, from hints, or from the records.

use crate::log::failpoints::Failpoint;
use crate::log::format::record::{self as format, Header, Kind};
use crate::log::index::hash_index::Index;
use crate::log::index::pages::Full;
use crate::log::index::slot::RecordLocation;
use crate::log::index::writer::{IndexWriter, create};
use crate::log::maintenance::checkpoint::Checkpoint;
use crate::log::open::chain::{read_head, scan};
use crate::log::read::get::{GROUP, prefetch_all};
use crate::log::segments::hint_file as hint;
use crate::log::segments::segment::{RECORD_LINES, Segment, Table};
use crate::log::write::put::full;
use crate::{ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Each new record may ask for an old one, anywhere. If the old segments have at most so many times
/// the bytes of the new ones, they are read in one go: page by page that takes longer by far.
const MANY_TIMES: u64 = 16;

/// What a record does.
struct Change<'a> {
    hash: u64,
    /// `None` if it was not read yet.
    key: Option<&'a [u8]>,
    place: RecordLocation,
    is_put: bool,
}

/// Fills the index.
pub(crate) struct Loader {
    pub(crate) id: u64,
    bits: u32,
    pub(crate) index: Index,
    pub(crate) writer: IndexWriter,
    pub(crate) table: Table,
    pub(crate) hinted: u64,
    pub(crate) scanned: u64,
}

impl Loader {
    pub(crate) fn new(id: u64, bits: u32) -> Loader {
        let (index, writer) = create(bits);
        Loader { id, bits, index, writer, table: Table::default(), hinted: 0, scanned: 0 }
    }

    /// Goes on with an index that was filled before.
    pub(crate) fn over(id: u64, index: Index, writer: IndexWriter, table: Table) -> Loader {
        let bits = index.shards().ilog2();
        Loader { id, bits, index, writer, table, hinted: 0, scanned: 0 }
    }

    /// Fills the index from the checkpoint, as far as it goes, then from the hints of segments, and
    /// from their records where there is no hint. Returns the last segment of the checkpoint.
    pub(crate) fn fill(&mut self, checkpoint: Option<Checkpoint>) -> Result<u64> {
        let mut segments = self.table.in_order();
        if Failpoint::ReplayBackwards.is_on() {
            segments.reverse();
        }
        let mut covered = 0;
        if let Some(checkpoint) = checkpoint.filter(|checkpoint| checkpoint.store == self.id) {
            let last = checkpoint.segments.keys().next_back().copied().unwrap_or(0);
            let old = segments.partition_point(|segment| segment.number <= last);
            match checkpoint.load(&segments[..old], &self.index, &mut self.writer) {
                Ok(()) => {
                    covered = if Failpoint::TrustCheckpoint.is_on() { u64::MAX } else { last };
                    for segment in &segments[..old] {
                        let live = checkpoint.segments[&segment.number].live;
                        segment.live.store(live, Ordering::Relaxed);
                        let deletes = segment.hint.get().map_or(0, |hint| hint.delete_bytes);
                        segment.deletes.store(deletes, Ordering::Relaxed);
                    }
                }
                // It does not fit the hints: they do without it.
                Err(_) => (self.index, self.writer) = create(self.bits),
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

    /// Puts the entries of a segment's hint into the index, each key's in the order of the log.
    fn replay(&mut self, segment: &Arc<Segment>) -> Result<()> {
        let Some(hint) = segment.hint.get() else { return Ok(()) };
        let (puts, deletes) = (hint.puts()?, hint.deletes()?);
        segment.live.store(hint.put_bytes, Ordering::Relaxed);
        segment.deletes.store(hint.delete_bytes, Ordering::Relaxed);
        let (mut puts, mut deletes) = (puts.iter().peekable(), deletes.iter().peekable());
        let mut group = Vec::with_capacity(GROUP);
        loop {
            let is_put = match (puts.peek(), deletes.peek()) {
                (Some(put), Some(delete)) => put < delete,
                (put, _) => put.is_some(),
            };
            let entry = if is_put { puts.next() } else { deletes.next() };
            let Some((bits, offset)) = entry else { break };
            let (hash, place) =
                (bits << (64 - hint::HASH_BITS), RecordLocation::new(segment.slot, offset));
            self.add(segment, &mut group, Change { hash, key: None, place, is_put })?;
        }
        self.hinted += 1;
        self.apply(segment, &mut group)
    }

    /// Puts all records of a segment into the index.
    fn scan(&mut self, segment: &Arc<Segment>) -> Result<()> {
        let bytes = segment.contents()?;
        let header = Header::decode(&bytes).map_err(|e| e.in_file(&segment.path))?;
        let head = read_head(header, &bytes, segment.number);
        let head = head.map_err(|e| e.in_file(&segment.path))?;
        self.scanned += 1;
        self.scan_from(segment, &bytes, &head.header, head.end)
    }

    /// The same for those from a byte on.
    pub(crate) fn scan_from(
        &mut self,
        segment: &Arc<Segment>,
        bytes: &[u8],
        header: &Header,
        from: u64,
    ) -> Result<()> {
        let mut group = Vec::with_capacity(GROUP);
        let end = scan(bytes, header, from, |offset, record, length| {
            let (hash, place) = (format::hash_of_key(record.key, self.id), segment.place(offset));
            let is_put = match record.kind {
                Kind::Put => true,
                Kind::Delete if Failpoint::ForgetDeletesOnReplay.is_on() => return Ok(()),
                Kind::Delete => false,
                Kind::Link | Kind::Removed => return Ok(()),
            };
            let counter = if is_put { &segment.live } else { &segment.deletes };
            counter.fetch_add(length, Ordering::Relaxed);
            self.add(segment, &mut group, Change { hash, key: Some(record.key), place, is_put })
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

    /// Makes changes of one segment, in their order. The memory of all is waited for at the same
    /// time.
    fn apply(&mut self, segment: &Segment, group: &mut Vec<Change>) -> Result<()> {
        let mut hashes = [0; GROUP];
        hashes.iter_mut().zip(group.iter()).for_each(|(hash, change)| *hash = change.hash);
        prefetch_all(&self.index, &self.table, RECORD_LINES, &hashes[..group.len()]);
        let unread = group.iter().filter(|change| change.key.is_none() && self.may_be(change));
        unread.for_each(|change| segment.prefetch(change.place, RECORD_LINES));
        for change in group.drain(..) {
            let Change { hash, place, is_put, .. } = change;
            match change.key {
                Some(key) => self.change(hash, key, is_put.then_some(place))?,
                // Perhaps the same key: only the records can tell.
                None if self.may_be(&change) => {
                    let mut room = Vec::new();
                    let (record, _) = segment.read(segment.offset(place), &mut room)?;
                    self.change(hash, record.key, is_put.then_some(place))?;
                }
                None if is_put => {
                    self.writer.insert(&self.index, hash, place).map_err(|Full| full())?;
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Whether there may be an entry of the same key.
    fn may_be(&self, change: &Change) -> bool {
        self.index.find(change.hash, |_| Some(())).is_some()
    }

    /// Makes the index point to this place for a key, or to nothing.
    fn change(&mut self, hash: u64, key: &[u8], place: Option<RecordLocation>) -> Result<()> {
        let current = self.current(hash, key)?;
        if let Some((old, length)) = current
            && let Some(segment) = self.table.get(old.segment())
        {
            segment.retire(length);
        }
        match (current, place) {
            (Some((old, _)), Some(place)) => {
                self.writer.replace(&self.index, hash, old, place);
            }
            (None, Some(place)) => {
                self.writer.insert(&self.index, hash, place).map_err(|Full| full())?;
            }
            (Some((old, _)), None) => {
                self.writer.remove(&self.index, hash, old);
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// RecordLocation and length of a key's record.
    fn current(&self, hash: u64, key: &[u8]) -> Result<Option<(RecordLocation, u64)>> {
        let mut room = Vec::new();
        let found = self.index.find(hash, |place| {
            let segment = self.table.get(place.segment())?;
            match segment.peek(segment.offset(place), &mut room) {
                Ok((record, length)) => (record.key == key).then_some(Ok((place, length as u64))),
                // No record of this key, as far as it says.
                Err(e) if e.kind() == ErrorKind::Corrupt => None,
                Err(e) => Some(Err(e)),
            }
        });
        found.transpose()
    }

    /// Removes the entries of segments that are not in the table any more: of keys that were
    /// deleted, where compaction left nothing that says so.
    pub(crate) fn sweep(&mut self) {
        let mut entries = Vec::new();
        for shard in 0..self.index.shards() {
            self.index.entries_of(shard, &mut entries);
            for &(kept, place) in &entries {
                if self.table.get(place.segment()).is_none() {
                    let hash = kept << (u64::BITS - self.index.width());
                    self.writer.remove(&self.index, hash, place);
                }
            }
        }
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.table.in_order().iter().map(|s| s.live.load(Ordering::Relaxed)).sum()
    }
}
