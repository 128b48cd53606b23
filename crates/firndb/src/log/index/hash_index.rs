//! [`Index`]: what readers of the index see.

use crate::bytes::prefetch::prefetch;
use crate::log::failpoints::Failpoint;
use crate::log::index::displaced::{Displaced, Displacement};
use crate::log::index::insert_buffer::{BUFFER_SLOTS, BufferedInsert, InsertBuffer};
use crate::log::index::pages::{Full, Pages, Shape};
use crate::log::index::slot::RecordLocation;

/// The entries whose known hash bits are those of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matches {
    Nothing,
    /// One entry, which may be another key's.
    One(RecordLocation),
    Several,
}

/// The index, shared by readers and the writer.
pub(crate) struct Index {
    pub(crate) pages: Pages,
    pub(crate) displaced: Displaced,
    pub(crate) inserts: InsertBuffer,
}

impl Index {
    /// An empty index.
    pub(crate) fn new(shape: Shape) -> Result<Index, Full> {
        let (displaced, inserts) = Default::default();
        Ok(Index { pages: Pages::new(shape)?, displaced, inserts })
    }

    /// Shows `accept` the locations of all entries whose known bits are those of this hash until it
    /// accepts one.
    ///
    /// An entry that is in the index during the whole call is shown. One that is removed meanwhile,
    /// or that belongs to another key, may be shown.
    #[inline]
    pub(crate) fn find<T>(
        &self,
        hash: u64,
        accept: impl FnMut(RecordLocation) -> Option<T>,
    ) -> Option<T> {
        self.find_after(self.find_buffered(hash), hash, accept)
    }

    /// [`Index::find`] in the shard and the displaced set, excluding buffered inserts.
    pub(crate) fn find_in_shard<T>(
        &self,
        hash: u64,
        accept: impl FnMut(RecordLocation) -> Option<T>,
    ) -> Option<T> {
        self.find_after(None, hash, accept)
    }

    /// Shows `buffered`, if any, then the matches in the shard and the displaced set.
    #[inline]
    fn find_after<T>(
        &self,
        mut buffered: Option<RecordLocation>,
        hash: u64,
        mut accept: impl FnMut(RecordLocation) -> Option<T>,
    ) -> Option<T> {
        loop {
            let shard = self.pages.leaf(hash);
            let mut entries = shard.entries_with(hash);
            let (mut is_shown, mut is_last) = (false, false);
            while !is_last {
                let location = match buffered.take().or_else(|| entries.next()) {
                    Some(location) => location,
                    None if !is_shown => break,
                    None => {
                        // A displaced entry's slot and bits belong to another entry, which must be
                        // shown first.
                        is_last = true;
                        let is_same = shard.is_current() || Failpoint::TrustDisplaced.is_on();
                        let Some(old) = self.find_displaced(hash).filter(|_| is_same) else {
                            break;
                        };
                        old
                    }
                };
                // Called at one point of the code only, so that it is inlined into this loop.
                let accepted = accept(location);
                if accepted.is_some() {
                    return accepted;
                }
                is_shown = true;
            }
            if shard.is_current() || Failpoint::ForgetRebuilds.is_on() {
                return None;
            }
        }
    }

    /// Matches in the shard and the displaced set, excluding buffered inserts.
    #[inline]
    pub(crate) fn matches(&self, hash: u64) -> Matches {
        let mut matches = Matches::Nothing;
        self.find_in_shard(hash, |location| {
            matches = match matches {
                Matches::Nothing => Matches::One(location),
                _ => Matches::Several,
            };
            (matches == Matches::Several).then_some(())
        });
        matches
    }

    /// The slot of entries with this hash in the insert buffer and in the displaced set.
    #[inline]
    pub(crate) fn buffer_slot(&self, hash: u64) -> usize {
        self.kept_bits(hash) as usize % BUFFER_SLOTS
    }

    /// Whether an entry with the kept bits of this hash is buffered or displaced. Exact for the
    /// writer.
    pub(crate) fn is_deferred(&self, hash: u64) -> bool {
        self.find_buffered(hash).or_else(|| self.find_displaced(hash)).is_some()
    }

    /// The buffered entry with the kept bits of this hash.
    #[inline]
    fn find_buffered(&self, hash: u64) -> Option<RecordLocation> {
        let BufferedInsert { hash: its, location } = self.inserts.get(self.buffer_slot(hash))?;
        (self.kept_bits(its) == self.kept_bits(hash)).then_some(location)
    }

    /// The displaced entry with the kept bits of this hash.
    #[cold]
    fn find_displaced(&self, hash: u64) -> Option<RecordLocation> {
        let Displacement { hash: its, old, .. } = self.displaced.get(self.buffer_slot(hash))?;
        (self.kept_bits(its) == self.kept_bits(hash)).then_some(old)
    }

    /// Prefetches the slots of a key, for a search that follows soon.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let shard = self.pages.leaf(hash);
        prefetch(shard.from(shard.home(shard.bits(hash))), 2);
    }

    /// Number of the highest bits of a hash that every entry knows, as long as the index lives.
    #[inline]
    pub(crate) fn width(&self) -> u32 {
        self.pages.width()
    }

    /// The bits of a hash that every entry knows.
    #[inline]
    pub(crate) fn kept_bits(&self, hash: u64) -> u64 {
        hash >> (64 - self.width())
    }

    /// The end of all kept bits.
    pub(crate) fn end(&self) -> u64 {
        1 << self.width()
    }

    /// Entries of one shard whose kept bits are at least `from`, as kept bits of the hash and
    /// location, sorted: at least `least` of them, if there are so many, and always all with equal
    /// bits. Returns the bits before which nothing is missing, at most those at which the next
    /// shard begins. Excludes buffered inserts, and includes displaced entries. Takes time in
    /// proportion to the entries that it returns, not to the size of the shard.
    ///
    /// An entry that is in the index during the whole call is returned. Others may be, and a
    /// displaced one may be returned with the bits of another entry.
    pub(crate) fn entries_from(
        &self,
        from: u64,
        least: usize,
        out: &mut Vec<(u64, RecordLocation)>,
    ) -> u64 {
        let hash = from << (64 - self.width());
        loop {
            out.clear();
            let shard = self.pages.leaf(hash);
            let end = shard.entries_from(shard.bits(hash), least, |field, location| {
                out.push((shard.kept_bits(field), location));
                out.len()
            });
            let end = shard.kept_bits(end);
            // The entry that displaced another one has its bits, so an empty range is empty.
            let slots = if out.is_empty() { 0..0 } else { 0..BUFFER_SLOTS };
            for Displacement { hash, old, .. } in slots.filter_map(|slot| self.displaced.get(slot))
            {
                let kept = self.kept_bits(hash);
                if (from..end).contains(&kept) {
                    out.push((kept, old));
                }
            }
            if shard.is_current() {
                // An entry that an insertion shifted meanwhile was met twice.
                out.sort_unstable();
                out.dedup();
                return end;
            }
        }
    }

    /// Whether there is this entry, given by kept bits of a hash.
    pub(crate) fn lists(&self, entry: (u64, RecordLocation)) -> bool {
        let mut entries = Vec::new();
        self.buffered().contains(&entry) || {
            self.entries_from(entry.0, 1, &mut entries);
            entries.contains(&entry)
        }
    }

    /// The buffered inserts, as kept bits of the hash and location. One that is stored meanwhile
    /// may be missing, or have the bits of another.
    pub(crate) fn buffered(&self) -> Vec<(u64, RecordLocation)> {
        let inserts = (0..BUFFER_SLOTS).filter_map(|slot| self.inserts.get(slot));
        inserts.map(|insert| (self.kept_bits(insert.hash), insert.location)).collect()
    }

    /// Bytes of memory in use.
    pub(crate) fn memory(&self) -> u64 {
        self.pages.memory()
    }
}
