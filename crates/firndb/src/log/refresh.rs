//! Looking again: a store that is open for reading only goes on from where the log ended when it
//! looked last.
//!
//! The log is one order of all changes, and compaction appends what it moves, so whatever happened
//! since is in the records behind that end: they are put into the index as opening puts those
//! behind a checkpoint. A delete may be missing, where compaction found nothing left that it hides;
//! then all that it hid was in segments that are gone, and what the index still has of those goes,
//! too. (A segment that was written and compacted away in the meantime is not missed: what was live
//! in it was appended again.)
//!
//! Everything is read and checked before the index changes.

use super::chain::scan;
use super::commit::Position;
use super::format::Header;
use super::index::{Index, IndexWriter};
use super::loader::Loader;
use super::recovery::{Found, is_transient, look};
use super::segment::{Bytes, SEGMENTS_MAX, Segment, Table, file_name};
use super::store::Shared;
use crate::Result;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a refresh goes on from.
pub(super) struct Seen {
    /// Where the log ended.
    pub(super) last: Position,
    /// The right to change the index.
    pub(super) index: IndexWriter,
}

/// What happened since: the segments there are now, and those of them that have new records.
struct News {
    last: Position,
    table: Table,
    new: Vec<New>,
    /// Whether segments are gone.
    any_gone: bool,
}

struct New {
    segment: Arc<Segment>,
    header: Header,
    /// Where its new records begin.
    from: u64,
}

impl Shared {
    /// Brings a store that is open for reading only up to date. `false` if it must be opened anew;
    /// then, and after an error, nothing has changed.
    pub(super) fn catch_up(&mut self) -> Result<bool> {
        let Some(last) = self.seen.as_ref().map(|seen| seen.last) else { return Ok(false) };
        match self.news(last) {
            Ok(Some(news)) => self.take_in(news).map(|()| true),
            Ok(None) => Ok(false),
            // The writer may have removed a file meanwhile.
            Err(e) if is_transient(&e) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// What happened since the log ended there; `None` if it is not the same log any more, or too
    /// much happened.
    fn news(&self, last: Position) -> Result<Option<News>> {
        let Found { id, chain, .. } = look(&self.disk, &self.dir, &self.options)?;
        let members = chain.members()?;
        let old = self.table.load();
        let slots: BTreeMap<u64, usize> = old.iter().map(|s| (s.number, s.slot)).collect();
        let is_known = |number: &u64| slots.contains_key(number);
        if id != self.id
            || chain.last < last
            || !members.iter().all(|(number, _)| *number > last.0 || is_known(number))
        {
            return Ok(None);
        }
        let mut table = Table::clone(&old);
        let mut any_gone = false;
        for (number, &slot) in &slots {
            if members.binary_search_by_key(number, |member| member.0).is_err() {
                any_gone |= table.take(slot).is_some();
            }
        }
        // Slots of segments that are gone are left alone as long as the index has places there.
        let mut free = (0..SEGMENTS_MAX).filter(|&slot| old.get(slot).is_none());
        let mut new = Vec::new();
        for &(number, end) in members.iter().filter(|member| **member > last || member.0 == last.0)
        {
            let Some(file) = chain.file(number) else { return Ok(None) };
            let Ok(head) = &file.head else { return Ok(None) };
            let before = slots.get(&number).and_then(|&slot| old.get(slot));
            let slot = before.map(|segment| segment.slot).or_else(|| free.next());
            let Some(slot) = slot else { return Ok(None) };
            let from = before.map_or(head.end, |_| last.1);
            let bytes = Bytes::Sealed(file.map.clone(), end as usize);
            let path = self.dir.join(file_name(number));
            let segment = Segment::new(number, slot, head.header.granule, path, bytes);
            let live = |of: fn(&Segment) -> u64| before.map_or(0, |segment| of(segment));
            segment.live.store(live(|s| s.live.load(Ordering::Relaxed)), Ordering::Relaxed);
            segment.deletes.store(live(|s| s.deletes.load(Ordering::Relaxed)), Ordering::Relaxed);
            let found = scan(segment.filled(), &head.header, from, |_, _, _| Ok(()))?;
            if found != end {
                return Err(segment.damage(found));
            }
            let segment = Arc::new(segment);
            table.put(slot, Arc::clone(&segment));
            new.push(New { segment, header: head.header, from });
        }
        Ok(Some(News { last: chain.last, table, new, any_gone }))
    }

    /// Puts that into the index.
    fn take_in(&mut self, news: News) -> Result<()> {
        let Some(seen) = self.seen.take() else { return Ok(()) };
        let (empty, _) = Index::new(0);
        let index = std::mem::replace(&mut self.index, empty);
        let mut loader = Loader::over(self.id, index, seen.index, news.table);
        let mut new = news.new.iter();
        let done = new.try_for_each(|new| loader.scan_from(&new.segment, &new.header, new.from));
        if done.is_ok() && news.any_gone {
            loader.sweep();
        }
        self.counters.keys.store(loader.writer.entries(), Ordering::Relaxed);
        self.counters.live_bytes.store(loader.live_bytes(), Ordering::Relaxed);
        let last = if done.is_ok() { news.last } else { seen.last };
        self.seen = Some(Seen { last, index: loader.writer });
        self.index = loader.index;
        self.table.store(Arc::new(loader.table));
        done
    }
}
