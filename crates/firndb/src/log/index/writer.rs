//! The right to change the index.

use super::displaced::SLOTS;
use super::shard::{Shard, home};
use super::{
    CHUNK, HASH_BITS, Index, PAGE, PAGES, PAGES_MAX, PLACE_BITS, Place, REMOVED, SLACK, hash_of,
    is_entry,
};
use crate::log::failpoints::Bug;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// What the one writer knows besides. All methods must be called with the index it was made with.
pub(crate) struct IndexWriter {
    counts: Vec<Count>,
    free: Vec<u32>,
    pages: u32,
    entries: u64,
}

#[derive(Clone, Copy, Default)]
struct Count {
    /// Slots that are not empty.
    used: u32,
    removed: u32,
}

/// Most entries of a shard, with those that may still come to it from the buffers of `late.rs` and
/// `aside.rs`: what a shard of [`PAGES`] pages takes at the usual load.
const ENTRIES_MAX: usize = PAGES * PAGE / 8 * 7;

/// The index would need more memory than its shape allows.
#[derive(Debug)]
pub(crate) struct Full;

impl IndexWriter {
    /// The writer of a new index with so many shards.
    pub(crate) fn new(shards: usize) -> IndexWriter {
        let counts = vec![Count::default(); shards];
        IndexWriter { counts, free: Vec::new(), pages: 0, entries: 0 }
    }

    /// Number of entries.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Whether one more key with this hash, of those that come later, will find room. Its insertion
    /// then fails for want of memory only, and so does that of all entries that are late or aside.
    #[inline]
    pub(crate) fn has_room_for(&self, index: &Index, hash: u64) -> bool {
        self.has_room_in(index.split(hash).0, 1)
    }

    /// [`IndexWriter::has_room_for`] of several keys. Sorts the hashes.
    pub(crate) fn has_room(&self, index: &Index, hashes: &mut [u64]) -> bool {
        let shard = |hash: &u64| index.split(*hash).0;
        hashes.sort_unstable(); // The high bits say which shard.
        hashes
            .chunk_by(|a, b| shard(a) == shard(b))
            .all(|same| self.has_room_in(shard(&same[0]), same.len()))
    }

    #[inline]
    fn has_room_in(&self, shard: usize, more: usize) -> bool {
        let Count { used, removed } = self.counts[shard];
        (used - removed) as usize + more + 2 * SLOTS <= ENTRIES_MAX
    }

    /// Adds an entry, whether or not there is one with the same bits.
    pub(crate) fn insert(&mut self, index: &Index, hash: u64, place: Place) -> Result<(), Full> {
        let (number, bits) = index.split(hash);
        let new = bits << PLACE_BITS | place.0;
        loop {
            let shard = index.shard(number);
            let slots = shard.slots();
            let count = self.counts[number];
            // Load 7/8 at most: beyond that searches get long.
            let is_full = (count.used as usize + 1) * 8 > slots * 7;
            if !is_full && self.place(number, &shard, new) {
                self.entries += 1;
                return Ok(());
            }
            // Marks of removed entries go when the shard is rebuilt: that may be all it needs.
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

    /// Adds many entries, given by the kept bits of their hashes. Each shard that gets some is laid
    /// out once, which takes a fraction of what inserting one by one does.
    pub(crate) fn fill(&mut self, index: &Index, entries: &[(u64, Place)]) -> Result<(), Full> {
        let shard_of = |kept: u64| (kept >> HASH_BITS) as usize;
        let mut ends = vec![0; index.shards.len()];
        entries.iter().for_each(|&(kept, _)| ends[shard_of(kept)] += 1);
        let mut sum = 0;
        ends.iter_mut().for_each(|end| sum += std::mem::replace(end, sum));
        let mut slots = vec![0; entries.len()];
        for &(kept, place) in entries {
            let end = &mut ends[shard_of(kept)];
            slots[*end] = (kept & ((1 << HASH_BITS) - 1)) << PLACE_BITS | place.0;
            *end += 1;
        }
        let mut start = 0;
        for (number, end) in ends.into_iter().enumerate() {
            let more = &slots[std::mem::replace(&mut start, end)..end];
            if !more.is_empty() {
                let mut live = live_of(&index.shard(number));
                live.extend_from_slice(more);
                live.sort_unstable();
                let pages = (live.len() * 5 / 4 + SLACK).div_ceil(PAGE).min(PAGES);
                self.lay_out(index, number, &live, pages)?;
                self.entries += more.len() as u64;
            }
        }
        Ok(())
    }

    /// Puts a slot's word where it belongs. `false` if there is no room towards the end.
    fn place(&mut self, number: usize, shard: &Shard, new: u64) -> bool {
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
        shard.from(at)[0].store(new, Bug::ShiftRelaxed.instead_of_release());
        true
    }

    /// Replaces the place of an entry. `false` if there is no such entry.
    pub(crate) fn replace(&mut self, index: &Index, hash: u64, old: Place, new: Place) -> bool {
        self.change(index, hash, old, new.0)
    }

    /// Removes an entry. `false` if there is no such entry.
    pub(crate) fn remove(&mut self, index: &Index, hash: u64, old: Place) -> bool {
        let removed = self.change(index, hash, old, REMOVED);
        if removed {
            self.entries -= 1;
            self.counts[index.split(hash).0].removed += 1;
        }
        removed
    }

    fn change(&mut self, index: &Index, hash: u64, old: Place, new: u64) -> bool {
        let (number, bits) = index.split(hash);
        let shard = index.shard(number);
        let old = bits << PLACE_BITS | old.0;
        let is_end = |slot| slot == 0 || hash_of(slot) > bits;
        let at = shard.first(shard.home(bits), |slot| slot == old || is_end(slot));
        if at >= shard.slots() || shard.from(at)[0].load(Ordering::Relaxed) != old {
            return false;
        }
        shard.from(at)[0].store(bits << PLACE_BITS | new, Ordering::Release);
        true
    }

    /// Copies a shard into new pages, at least this many, without the marks of removed entries.
    fn rebuild(&mut self, index: &Index, number: usize, pages: usize) -> Result<(), Full> {
        self.lay_out(index, number, &live_of(&index.shard(number)), pages)
    }

    /// Makes a shard of these sorted slots, in new pages, at least this many.
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
        let old = index.shard(number);
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
        index.shards[number].store(new.word, Bug::PublishShardRelaxed.instead_of_release());
        self.counts[number] = Count { used: live.len() as u32, removed: 0 };
        let rows = index.directory.iter().take(old.slots() / PAGE).filter_map(OnceLock::get);
        self.free.extend(rows.map(|row| old.half(row[number].load(Ordering::Relaxed))));
        Ok(())
    }

    /// What a shard will be, of empty pages: in the half of the directory that it does not use.
    fn fresh<'a>(
        &mut self,
        index: &'a Index,
        number: usize,
        pages: usize,
    ) -> Result<Shard<'a>, Full> {
        let old = index.shard(number).word;
        let more = if Bug::CountNoRebuilds.is_on() { 0 } else { 1 };
        let rebuilds = (old >> 48).wrapping_add(more) & 0xFFFF;
        let word = rebuilds << 48 | (pages as u64) << 32 | (old & 1 ^ 1);
        let new = Shard { index, number, word };
        for i in 0..pages {
            let page = u64::from(self.page(index)?);
            let both = &index.row(i)?[number];
            let other = both.load(Ordering::Relaxed) & !(0xFFFF_FFFF << new.shift_of_half());
            both.store(other | page << new.shift_of_half(), Ordering::Release);
        }
        index.rows.fetch_max(pages as u32, Ordering::Relaxed);
        Ok(new)
    }

    /// A page of empty slots.
    fn page(&mut self, index: &Index) -> Result<u32, Full> {
        if let Some(page) = self.free.pop() {
            // A search may still run over it, and will find that its shard changed.
            index.page(page).iter().for_each(|slot| slot.store(0, Ordering::Release));
            return Ok(page);
        }
        let page = self.pages;
        let is_huge = index.reserved.load(Ordering::Relaxed) == 0;
        index.get_chunk(page as usize / CHUNK, is_huge)?;
        self.pages += 1;
        index.taken.store(self.pages, Ordering::Relaxed);
        Ok(page)
    }
}

/// The slots of a shard that have entries, in order.
fn live_of(shard: &Shard) -> Vec<u64> {
    let slots = shard.pages().flatten().map(|slot| slot.load(Ordering::Relaxed));
    slots.filter(|&slot| is_entry(slot)).collect()
}

/// Whether sorted entries find room in a table of this size with load to spare.
fn fits(live: &[u64], slots: usize) -> bool {
    let mut next = 0;
    for &slot in live {
        next = home(hash_of(slot), slots).max(next) + 1;
    }
    next <= slots && live.len() * 8 < slots * 7
}
