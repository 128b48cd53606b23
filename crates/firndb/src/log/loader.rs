//! Filling the index when a store is opened: from the checkpoint, from hints, or from the records.

use super::bug::Bug;
use super::checkpoint::Checkpoint;
use super::format::{self, Header, Kind};
use super::hint;
use super::index::{Full, Index, IndexWriter, Place};
use super::recovery::{read_head, scan};
use super::segment::{Segment, Table};
use super::write::full;
use crate::Result;
use crate::disk::DiskRef;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Fills the index.
pub(super) struct Loader {
    pub(super) id: u64,
    bits: u32,
    pub(super) index: Index,
    pub(super) writer: IndexWriter,
    pub(super) table: Table,
    pub(super) hinted: u64,
    pub(super) scanned: u64,
}

impl Loader {
    pub(super) fn new(id: u64, bits: u32) -> Loader {
        let (index, writer) = Index::new(bits);
        Loader { id, bits, index, writer, table: Table::default(), hinted: 0, scanned: 0 }
    }

    /// Fills the index from the checkpoint, as far as it goes, then from the hints of segments, and
    /// from their records where there is no hint. Returns the last segment of the checkpoint.
    pub(super) fn fill(&mut self, disk: &DiskRef, dir: &Path) -> Result<u64> {
        let mut segments = self.table.in_order();
        if Bug::ReplayBackwards.is_on() {
            segments.reverse();
        }
        let mut covered = 0;
        if let Ok(checkpoint) = Checkpoint::open(&**disk, dir, self.id) {
            let last = checkpoint.segments.keys().next_back().copied().unwrap_or(0);
            let old = segments.partition_point(|segment| segment.number <= last);
            match checkpoint.load(&segments[..old], &self.index, &mut self.writer) {
                Ok(()) => {
                    covered = if Bug::TrustCheckpoint.is_on() { u64::MAX } else { last };
                    for segment in &segments[..old] {
                        let live = checkpoint.segments[&segment.number].live;
                        segment.live.store(live, Ordering::Relaxed);
                        let deletes = segment.hint.get().map_or(0, |hint| hint.delete_bytes);
                        segment.deletes.store(deletes, Ordering::Relaxed);
                    }
                }
                // It does not fit the hints: they do without it.
                Err(_) => (self.index, self.writer) = Index::new(self.bits),
            }
        }
        for segment in segments.iter().filter(|segment| segment.number > covered) {
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
        loop {
            let is_put = match (puts.peek(), deletes.peek()) {
                (Some(put), Some(delete)) => put < delete,
                (put, _) => put.is_some(),
            };
            let entry = if is_put { puts.next() } else { deletes.next() };
            let Some((bits, offset)) = entry else { break };
            let (hash, place) = (bits << (64 - hint::HASH_BITS), Place::new(segment.slot, offset));
            if self.index.find(hash, |_| Some(())).is_some() {
                // Perhaps the same key: only the records can tell.
                let (record, _) = segment.read(segment.offset(place))?;
                self.change(hash, record.key, is_put.then_some(place))?;
            } else if is_put {
                self.writer.insert(&self.index, hash, place).map_err(|Full| full())?;
            }
        }
        self.hinted += 1;
        Ok(())
    }

    /// Puts all records of a segment into the index.
    fn scan(&mut self, segment: &Arc<Segment>) -> Result<()> {
        let bytes = segment.filled();
        let header = Header::decode(bytes).map_err(|e| e.in_file(&segment.path))?;
        let head = read_head(header, bytes, segment.number);
        let from = head.map_err(|e| e.in_file(&segment.path))?.end;
        let end = scan(bytes, &header, from, |offset, record, length| {
            let hash = format::hash_of_key(record.key, self.id);
            match record.kind {
                Kind::Put => {
                    segment.live.fetch_add(length, Ordering::Relaxed);
                    self.change(hash, record.key, Some(segment.place(offset)))
                }
                Kind::Delete if Bug::ForgetDeletesOnReplay.is_on() => Ok(()),
                Kind::Delete => {
                    segment.deletes.fetch_add(length, Ordering::Relaxed);
                    self.change(hash, record.key, None)
                }
                Kind::Link | Kind::Removed => Ok(()),
            }
        })?;
        self.scanned += 1;
        if end == segment.end() { Ok(()) } else { Err(segment.damage(end)) }
    }

    /// Makes the index point to this place for a key, or to nothing.
    fn change(&mut self, hash: u64, key: &[u8], place: Option<Place>) -> Result<()> {
        let current = self.current(hash, key);
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

    /// Place and length of a key's record.
    fn current(&self, hash: u64, key: &[u8]) -> Option<(Place, u64)> {
        self.index.find(hash, |place| {
            let segment = self.table.get(place.segment())?;
            let (record, length) = segment.peek(segment.offset(place))?;
            (record.key == key).then_some((place, length as u64))
        })
    }

    pub(super) fn live_bytes(&self) -> u64 {
        self.table.in_order().iter().map(|s| s.live.load(Ordering::Relaxed)).sum()
    }
}
