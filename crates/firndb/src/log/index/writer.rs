//! [`IndexWriter`]: the right to change the index. There is one per index.

use crate::log::failpoints::Failpoint;
use crate::log::index::displaced::Displacement;
use crate::log::index::hash_index::Index;
use crate::log::index::insert_buffer::{BUFFER_SLOTS, BufferedInsert};
use crate::log::index::pages::{Full, PAGE, PAGES, PAGES_MAX};
use crate::log::index::shard::{SLACK, Shard, home};
use crate::log::index::slot::{
    HASH_BITS, LOCATION_BITS, REMOVED, RecordLocation, hash_of, is_entry,
};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// The writer's own state. Every method must be called with the index it was created with.
pub(crate) struct IndexWriter {
    counts: Vec<Count>,
    free: Vec<u32>,
    pages: u32,
    entries: u64,
}

/// Counts of a shard's slots.
#[derive(Clone, Copy, Default)]
struct Count {
    /// Slots that are not empty.
    used: u32,
    removed: u32,
}

/// Most entries of a shard, including those that may still arrive from the insert buffer and the
/// displaced set: what a shard of [`PAGES`] pages holds at the usual load.
const ENTRIES_MAX: usize = PAGES * PAGE / 8 * 7;

/// An empty index of 2^bits shards, and its writer.
pub(crate) fn create(bits: u32) -> (Index, IndexWriter) {
    let index = Index::new(bits);
    let counts = vec![Count::default(); index.shards()];
    (index, IndexWriter { counts, free: Vec::new(), pages: 0, entries: 0 })
}

impl IndexWriter {
    /// Number of entries.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Whether one more key with this hash fits. If so, its insertion, and that of every buffered
    /// or displaced entry, can fail for lack of memory only.
    #[inline]
    pub(crate) fn has_room_for(&self, index: &Index, hash: u64) -> bool {
        self.has_room_in(index.pages.split(hash).0, 1)
    }

    /// [`IndexWriter::has_room_for`] of several keys. Sorts the hashes.
    pub(crate) fn has_room(&self, index: &Index, hashes: &mut [u64]) -> bool {
        let shard = |hash: &u64| index.pages.split(*hash).0;
        hashes.sort_unstable(); // The high bits say which shard.
        hashes
            .chunk_by(|a, b| shard(a) == shard(b))
            .all(|same| self.has_room_in(shard(&same[0]), same.len()))
    }

    #[inline]
    fn has_room_in(&self, shard: usize, more: usize) -> bool {
        let Count { used, removed } = self.counts[shard];
        (used - removed) as usize + more + 2 * BUFFER_SLOTS <= ENTRIES_MAX
    }

    /// Adds an entry, even if there is one with the same bits.
    pub(crate) fn insert(
        &mut self,
        index: &Index,
        hash: u64,
        location: RecordLocation,
    ) -> Result<(), Full> {
        let (number, bits) = index.pages.split(hash);
        let new = bits << LOCATION_BITS | location.bits();
        loop {
            let shard = Shard::load(&index.pages, number);
            let slots = shard.slots();
            let count = self.counts[number];
            // At most a load of 7/8: beyond that searches get long.
            let is_full = (count.used as usize + 1) * 8 > slots * 7;
            if !is_full && self.insert_at(number, &shard, new) {
                self.entries += 1;
                return Ok(());
            }
            // A rebuild drops the marks of removed entries, which may be enough.
            let live = (count.used - count.removed) as usize;
            let pages = slots / PAGE;
            let grown = match pages < PAGES {
                true => (pages + (pages / 8).max(1)).min(PAGES),
                false => pages + 1,
            };
            let is_enough = is_full && live * 4 <= slots * 3;
            self.rebuild(index, number, if is_enough { pages.max(1) } else { grown })?;
        }
    }

    /// Adds many entries, given by the kept bits of their hashes. Each affected shard is laid out
    /// once, which is several times faster than inserting entries one by one.
    pub(crate) fn fill(
        &mut self,
        index: &Index,
        entries: &[(u64, RecordLocation)],
    ) -> Result<(), Full> {
        let shard_of = |kept: u64| (kept >> HASH_BITS) as usize;
        let mut ends = vec![0; index.shards()];
        entries.iter().for_each(|&(kept, _)| ends[shard_of(kept)] += 1);
        let mut sum = 0;
        ends.iter_mut().for_each(|end| sum += std::mem::replace(end, sum));
        let mut slots = vec![0; entries.len()];
        for &(kept, location) in entries {
            let end = &mut ends[shard_of(kept)];
            slots[*end] = (kept & ((1 << HASH_BITS) - 1)) << LOCATION_BITS | location.bits();
            *end += 1;
        }
        let mut start = 0;
        for (number, end) in ends.into_iter().enumerate() {
            let more = &slots[std::mem::replace(&mut start, end)..end];
            if !more.is_empty() {
                let mut live = live_of(&Shard::load(&index.pages, number));
                live.extend_from_slice(more);
                live.sort_unstable();
                let pages = (live.len() * 5 / 4 + SLACK).div_ceil(PAGE).min(PAGES);
                self.lay_out(index, number, &live, pages)?;
                self.entries += more.len() as u64;
            }
        }
        Ok(())
    }

    /// Stores a slot's word at its position. `false` if there is no room towards the end.
    fn insert_at(&mut self, number: usize, shard: &Shard, new: u64) -> bool {
        let slots = shard.slots();
        let bits = hash_of(new);
        let at = shard.first(shard.home(bits), |slot| slot == 0 || hash_of(slot) > bits);
        let end = shard.first(at, |slot| !is_entry(slot));
        if end >= slots {
            return false;
        }
        let count = &mut self.counts[number];
        match shard.from(end)[0].load(Ordering::Relaxed) {
            0 => count.used += 1,
            _ => count.removed -= 1,
        }
        shard.shift(at, end);
        shard.from(at)[0].store(new, Failpoint::ShiftRelaxed.instead_of_release());
        true
    }

    /// Replaces the location of an entry. `false` if there is no such entry.
    pub(crate) fn replace(
        &mut self,
        index: &Index,
        hash: u64,
        old: RecordLocation,
        new: RecordLocation,
    ) -> bool {
        self.change(index, hash, old, new.bits())
    }

    /// Removes an entry. `false` if there is no such entry.
    pub(crate) fn remove(&mut self, index: &Index, hash: u64, old: RecordLocation) -> bool {
        let removed = self.change(index, hash, old, REMOVED);
        if removed {
            self.entries -= 1;
            self.counts[index.pages.split(hash).0].removed += 1;
        }
        removed
    }

    fn change(&mut self, index: &Index, hash: u64, old: RecordLocation, new: u64) -> bool {
        let (number, bits) = index.pages.split(hash);
        let shard = Shard::load(&index.pages, number);
        let old = bits << LOCATION_BITS | old.bits();
        let is_end = |slot| slot == 0 || hash_of(slot) > bits;
        let at = shard.first(shard.home(bits), |slot| slot == old || is_end(slot));
        if at >= shard.slots() || shard.from(at)[0].load(Ordering::Relaxed) != old {
            return false;
        }
        shard.from(at)[0].store(bits << LOCATION_BITS | new, Ordering::Release);
        true
    }

    /// Replaces the location of an entry and stores the old one in the displaced set, where its
    /// slot must be free. Where several entries have the kept bits of the hash, `old` must be of
    /// the new record's key, or the first of them: then searches find the new entry before every
    /// entry that may be of its key.
    pub(crate) fn displace(
        &mut self,
        index: &Index,
        hash: u64,
        old: RecordLocation,
        new: RecordLocation,
    ) {
        if Failpoint::DisplaceTooLate.is_on() {
            self.replace(index, hash, old, new);
        }
        index.displaced.store(index.buffer_slot(hash), Displacement { hash, old, new });
        self.replace(index, hash, old, new);
    }

    /// Forgets the displaced entry in a slot.
    pub(crate) fn drop_displaced(&mut self, index: &Index, slot: usize) {
        index.displaced.clear(slot);
    }

    /// Restores the displaced entry in a slot to its shard, after the entry that took its slot.
    pub(crate) fn restore(&mut self, index: &Index, slot: usize) -> Result<(), Full> {
        let Some(Displacement { hash, old, .. }) = index.displaced.get(slot) else { return Ok(()) };
        self.insert(index, hash, old)?;
        let word = &index.pages.shards[index.pages.split(hash).0];
        if !Failpoint::RestoreWithoutVersion.is_on() {
            word.store(word.load(Ordering::Relaxed).wrapping_add(1 << 48), Ordering::Release);
        }
        self.drop_displaced(index, slot);
        Ok(())
    }

    /// Stores an entry in the insert buffer. Its slot, [`Index::buffer_slot`], must be free.
    #[inline]
    pub(crate) fn buffer_insert(&mut self, index: &Index, insert: BufferedInsert) {
        index.inserts.store(index.buffer_slot(insert.hash), insert);
    }

    /// Moves the buffered insert in a slot into its shard. It takes the slot of `over`, which is
    /// displaced and whose slot in the displaced set must be free; without `over` it gets a slot of
    /// its own.
    pub(crate) fn flush_insert(
        &mut self,
        index: &Index,
        slot: usize,
        over: Option<RecordLocation>,
    ) -> Result<(), Full> {
        let Some(BufferedInsert { hash, location }) = index.inserts.get(slot) else {
            return Ok(());
        };
        if Failpoint::DropBufferedEarly.is_on() {
            index.inserts.clear(slot);
        }
        match over {
            Some(old) => self.displace(index, hash, old, location),
            None => self.insert(index, hash, location)?,
        }
        index.inserts.clear(slot);
        Ok(())
    }

    /// Copies a shard into at least this many new pages, without the marks of removed entries.
    fn rebuild(&mut self, index: &Index, number: usize, pages: usize) -> Result<(), Full> {
        self.lay_out(index, number, &live_of(&Shard::load(&index.pages, number)), pages)
    }

    /// Builds a shard of these sorted slots in at least this many new pages, and publishes it.
    fn lay_out(
        &mut self,
        index: &Index,
        number: usize,
        live: &[u64],
        mut pages: usize,
    ) -> Result<(), Full> {
        while !fits(live, pages * PAGE) {
            pages += 1;
        }
        if pages > PAGES_MAX {
            return Err(Full);
        }
        let old = Shard::load(&index.pages, number);
        let new = self.fresh(index, number, pages)?;
        let (mut next, mut page, mut start) = (0, new.from(0), 0);
        for &slot in live {
            let at = new.home(hash_of(slot)).max(next);
            if at >= start + PAGE {
                start = at - at % PAGE;
                page = new.from(start);
            }
            page[at - start].store(slot, Ordering::Release);
            next = at + 1;
        }
        index.pages.shards[number]
            .store(new.word, Failpoint::PublishShardRelaxed.instead_of_release());
        self.counts[number] = Count { used: live.len() as u32, removed: 0 };
        let rows = index.pages.directory.iter().take(old.slots() / PAGE).filter_map(OnceLock::get);
        self.free.extend(rows.map(|row| old.half(row[number].load(Ordering::Relaxed))));
        Ok(())
    }

    /// An unpublished version of a shard, of empty pages, listed in the unused half of the
    /// directory.
    fn fresh<'a>(
        &mut self,
        index: &'a Index,
        number: usize,
        pages: usize,
    ) -> Result<Shard<'a>, Full> {
        let old = Shard::load(&index.pages, number).word;
        let more = if Failpoint::CountNoRebuilds.is_on() { 0 } else { 1 };
        let rebuilds = (old >> 48).wrapping_add(more) & 0xFFFF;
        let word = rebuilds << 48 | (pages as u64) << 32 | (old & 1 ^ 1);
        let new = Shard::with_word(&index.pages, number, word);
        for i in 0..pages {
            let page = u64::from(self.page(index)?);
            let both = &index.pages.row(i)?[number];
            let other = both.load(Ordering::Relaxed) & !(0xFFFF_FFFF << new.shift_of_half());
            both.store(other | page << new.shift_of_half(), Ordering::Release);
        }
        index.pages.rows.fetch_max(pages as u32, Ordering::Relaxed);
        Ok(new)
    }

    /// A page of empty slots.
    fn page(&mut self, index: &Index) -> Result<u32, Full> {
        if let Some(page) = self.free.pop() {
            // A search may still run over it, and will notice that its shard changed.
            index.pages.page(page).iter().for_each(|slot| slot.store(0, Ordering::Release));
            return Ok(page);
        }
        let page = self.pages;
        index.pages.allocate(page)?;
        self.pages += 1;
        index.pages.taken.store(self.pages, Ordering::Relaxed);
        Ok(page)
    }
}

/// The entries of a shard, in order.
fn live_of(shard: &Shard) -> Vec<u64> {
    let slots = shard.pages().flatten().map(|slot| slot.load(Ordering::Relaxed));
    slots.filter(|&slot| is_entry(slot)).collect()
}

/// Whether sorted entries fit into a table of this size with load to spare.
fn fits(live: &[u64], slots: usize) -> bool {
    let mut next = 0;
    for &slot in live {
        next = home(hash_of(slot), slots).max(next) + 1;
    }
    next <= slots && live.len() * 8 < slots * 7
}
