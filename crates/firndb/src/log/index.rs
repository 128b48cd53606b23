//! The index: for each key eight bytes in memory, some bits of its hash and the place of its newest
//! record.
//!
//! ```text
//! SLOT   bits 63-40  the 24 bits of the key's hash below those that choose the shard
//!        bits 39-26  slot of the segment in the table of segments
//!        bits 25-0   offset in the segment, in granules; 0 with segment 1 is a removed entry
//!        0           an empty slot
//! ```
//!
//! A shard is an open-addressing table whose home positions grow with the hash, so that its entries
//! are sorted by hash: a search ends at the first larger one, and the whole index is walked in the
//! order of hashes. Each slot holds all bits that its home depends on, so a shard grows by an
//! eighth at a time without reading a key: a few thousand slots are copied, and no put waits for
//! more. Shards are lists of equal pages in one arena, so that nothing is lost to fragmentation.
//!
//! Readers take no lock and never wait: everything is an atomic word. The one writer (the holder of
//! [`IndexWriter`]) changes a shard so that a search from left to right finds whatever stays in it:
//! an insertion shifts from the right end, a removal leaves a mark. A grown shard is built aside
//! and appears by one store. Its old pages are used again; a search that ran over them notices that
//! the shard's word changed, and starts again. (Sorted linear probing: Amble and Knuth, 1974.)

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Slots of a page.
const PAGE: usize = 128;
/// Pages that are allocated at once: 256 KiB.
const CHUNK: usize = 256;
const HASH_BITS: u32 = 24;
const OFFSET_BITS: u32 = 26;
pub(super) const SEGMENT_BITS: u32 = 14;
const PLACE_BITS: u32 = SEGMENT_BITS + OFFSET_BITS;
/// Offsets, in granules, are below this.
pub(super) const OFFSETS: u64 = 1 << OFFSET_BITS;
const REMOVED: u64 = 1 << OFFSET_BITS;
/// Slots at the end of a shard that are nobody's home, for those that were pushed on.
const SLACK: usize = 24;
/// Most slots of a shard: its list of pages is one page, two pages a word.
const SLOTS_MAX: usize = 2 * PAGE * PAGE;

/// Where a record is: segment slot and offset in granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place(u64);

impl Place {
    pub(super) fn new(segment: usize, offset: u64) -> Place {
        Place((segment as u64) << OFFSET_BITS | offset)
    }

    pub(super) fn segment(self) -> usize {
        (self.0 >> OFFSET_BITS) as usize
    }

    pub(super) fn offset(self) -> u64 {
        self.0 & (OFFSETS - 1)
    }
}

/// What readers see.
pub(super) struct Index {
    bits: u32,
    /// Of each shard: bits 63-48 count its rebuilds, 47-32 its pages, 31-0 the page of their list.
    shards: Box<[AtomicU64]>,
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

/// What the one writer knows besides. All methods must be called with the index it was made with.
pub(super) struct IndexWriter {
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

/// The index would need more memory than its shape allows.
#[derive(Debug)]
pub(super) struct Full;

/// A shard as one reader sees it.
struct Shard<'a> {
    index: &'a Index,
    word: u64,
}

impl Shard<'_> {
    fn slots(&self) -> usize {
        (self.word >> 32 & 0xFFFF) as usize * PAGE
    }

    /// The slot, or an empty one if the pages have been used again, for whatever, meanwhile.
    #[inline]
    fn slot(&self, i: usize) -> &AtomicU64 {
        static EMPTY: AtomicU64 = AtomicU64::new(0);
        let list = self.index.page(self.word as u32);
        let pair = list.get(i / PAGE / 2).map_or(0, |pair| pair.load(Ordering::Acquire));
        let page = (pair >> (i / PAGE % 2 * 32)) as u32;
        self.index.page(page).get(i % PAGE).unwrap_or(&EMPTY)
    }

    /// Where a search for these hash bits begins.
    fn home(&self, hash: u64) -> usize {
        home(hash, self.slots())
    }
}

fn home(hash: u64, slots: usize) -> usize {
    ((hash * (slots.saturating_sub(SLACK)) as u64) >> HASH_BITS) as usize
}

/// The hash bits of a slot.
fn hash_of(slot: u64) -> u64 {
    slot >> PLACE_BITS
}

fn is_entry(slot: u64) -> bool {
    slot != 0 && slot & ((1 << PLACE_BITS) - 1) != REMOVED
}

impl Index {
    /// An empty index of 2^bits shards, and its writer.
    pub(super) fn new(bits: u32) -> (Index, IndexWriter) {
        let shards: Box<[AtomicU64]> = (0..1usize << bits).map(|_| AtomicU64::new(0)).collect();
        // Every shard at its largest, its list of pages, and as much again while it is rebuilt.
        let pages = 2 * shards.len() * (2 * PAGE + 1);
        let chunks = (0..pages.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect();
        let counts = vec![Count::default(); shards.len()];
        let writer = IndexWriter { counts, free: Vec::new(), pages: 0, entries: 0 };
        (Index { bits, shards, chunks }, writer)
    }

    /// Shard and hash bits of a key's hash.
    fn split(&self, hash: u64) -> (usize, u64) {
        let shard = (hash >> 32 >> (32 - self.bits)) as usize;
        (shard, (hash << self.bits) >> (64 - HASH_BITS))
    }

    /// The bits of a hash that the index keeps: equal ones cannot be told apart.
    #[cfg(test)]
    pub(super) fn kept_bits(&self, hash: u64) -> u64 {
        hash >> (64 - HASH_BITS - self.bits)
    }

    /// Number of bits of a hash that it keeps.
    pub(super) fn width(&self) -> u32 {
        HASH_BITS + self.bits
    }

    fn page(&self, page: u32) -> &[AtomicU64] {
        let chunk = self.chunks.get(page as usize / CHUNK).and_then(OnceLock::get);
        let at = page as usize % CHUNK * PAGE;
        chunk.and_then(|chunk| chunk.get(at..at + PAGE)).unwrap_or(&[])
    }

    fn shard(&self, shard: usize) -> Shard<'_> {
        Shard { index: self, word: self.shards[shard].load(Ordering::Acquire) }
    }

    /// Shows `accept` the places of all entries with the kept bits of this hash until it wants one.
    ///
    /// An entry that is there during the whole call is shown. One that goes away meanwhile, or that
    /// belongs to another key, may be shown.
    #[inline]
    pub(super) fn find<T>(
        &self,
        hash: u64,
        mut accept: impl FnMut(Place) -> Option<T>,
    ) -> Option<T> {
        let (number, bits) = self.split(hash);
        loop {
            let shard = self.shard(number);
            let slots = shard.slots();
            for i in shard.home(bits)..slots {
                let slot = shard.slot(i).load(Ordering::Acquire);
                if slot == 0 || hash_of(slot) > bits {
                    break;
                }
                if hash_of(slot) == bits && is_entry(slot) {
                    let wanted = accept(Place(slot & ((1 << PLACE_BITS) - 1)));
                    if wanted.is_some() {
                        return wanted;
                    }
                }
            }
            if self.shards[number].load(Ordering::Acquire) == shard.word {
                return None;
            }
        }
    }

    /// Number of shards.
    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// All entries of a shard, as kept bits of the hash and place, ascending by the bits.
    ///
    /// Entries that come or go meanwhile may be in it or not, and one may be in it twice.
    pub(super) fn entries_of(&self, shard: usize, out: &mut Vec<(u64, Place)>) {
        loop {
            out.clear();
            let seen = self.shard(shard);
            for i in 0..seen.slots() {
                let slot = seen.slot(i).load(Ordering::Acquire);
                if is_entry(slot) {
                    let bits = (shard as u64) << HASH_BITS | hash_of(slot);
                    out.push((bits, Place(slot & ((1 << PLACE_BITS) - 1))));
                }
            }
            if self.shards[shard].load(Ordering::Acquire) == seen.word {
                return;
            }
        }
    }

    /// Bytes of memory it takes.
    pub(super) fn memory(&self) -> u64 {
        let chunks = self.chunks.iter().take_while(|chunk| chunk.get().is_some()).count();
        let tables = self.shards.len() * 16 + self.chunks.len() * size_of::<OnceLock<Box<[u64]>>>();
        (chunks * CHUNK * PAGE * 8 + tables) as u64
    }
}

impl IndexWriter {
    /// Number of entries.
    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// Adds an entry, whether or not there is one with the same bits.
    pub(super) fn insert(&mut self, index: &Index, hash: u64, place: Place) -> Result<(), Full> {
        let (number, bits) = index.split(hash);
        self.insert_bits(index, number, bits, place)
    }

    /// Adds many entries, given by the kept bits of their hashes, to shards that get their size at
    /// once.
    pub(super) fn fill(&mut self, index: &Index, entries: &[(u64, Place)]) -> Result<(), Full> {
        let mut sizes = vec![0; index.shards.len()];
        for (kept, _) in entries {
            sizes[(kept >> HASH_BITS) as usize] += 1;
        }
        for (number, more) in sizes.into_iter().enumerate().filter(|(_, more)| *more > 0) {
            let live = (self.counts[number].used - self.counts[number].removed) as usize;
            self.rebuild(index, number, ((live + more) * 5 / 4 + SLACK).div_ceil(PAGE))?;
        }
        let mask = (1 << HASH_BITS) - 1;
        for &(kept, place) in entries {
            self.insert_bits(index, (kept >> HASH_BITS) as usize, kept & mask, place)?;
        }
        Ok(())
    }

    fn insert_bits(
        &mut self,
        index: &Index,
        number: usize,
        bits: u64,
        place: Place,
    ) -> Result<(), Full> {
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
            let grown = slots / PAGE + (slots / PAGE / 8).max(1);
            let is_enough = is_full && live * 4 <= slots * 3;
            self.rebuild(index, number, if is_enough { (slots / PAGE).max(1) } else { grown })?;
        }
    }

    /// Puts a slot's word where it belongs. `false` if there is no room towards the end.
    fn place(&mut self, number: usize, shard: &Shard, new: u64) -> bool {
        let slots = shard.slots();
        let bits = hash_of(new);
        let load = |i: usize| shard.slot(i).load(Ordering::Relaxed);
        let mut at = shard.home(bits);
        while at < slots && load(at) != 0 && hash_of(load(at)) <= bits {
            at += 1;
        }
        let mut end = at;
        while end < slots && is_entry(load(end)) {
            end += 1;
        }
        if end == slots {
            return false;
        }
        let count = &mut self.counts[number];
        match load(end) {
            0 => count.used += 1,
            _ => count.removed -= 1,
        }
        while end > at {
            shard.slot(end).store(load(end - 1), Ordering::Release);
            end -= 1;
        }
        shard.slot(at).store(new, Ordering::Release);
        true
    }

    /// Replaces the place of an entry. `false` if there is no such entry.
    pub(super) fn replace(&mut self, index: &Index, hash: u64, old: Place, new: Place) -> bool {
        self.change(index, hash, old, new.0)
    }

    /// Removes an entry. `false` if there is no such entry.
    pub(super) fn remove(&mut self, index: &Index, hash: u64, old: Place) -> bool {
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
        for i in shard.home(bits)..shard.slots() {
            let slot = shard.slot(i).load(Ordering::Relaxed);
            if slot == 0 || hash_of(slot) > bits {
                return false;
            }
            if slot == bits << PLACE_BITS | old.0 {
                shard.slot(i).store(bits << PLACE_BITS | new, Ordering::Release);
                return true;
            }
        }
        false
    }

    /// Copies a shard into new pages, at least this many, without the marks of removed entries.
    fn rebuild(&mut self, index: &Index, number: usize, pages: usize) -> Result<(), Full> {
        let old = index.shard(number);
        let load = |i: usize| old.slot(i).load(Ordering::Relaxed);
        let live = (0..old.slots()).map(load).filter(|&slot| is_entry(slot));
        let live: Vec<u64> = live.collect();
        let mut pages = pages;
        while !fits(&live, pages * PAGE) {
            pages += 1;
        }
        if pages * PAGE > SLOTS_MAX {
            return Err(Full);
        }
        let word = self.fresh(index, pages, old.word)?;
        let new = Shard { index, word };
        let mut next = 0;
        for &slot in &live {
            next = new.home(hash_of(slot)).max(next);
            new.slot(next).store(slot, Ordering::Release);
            next += 1;
        }
        index.shards[number].store(word, Ordering::Release);
        self.counts[number] = Count { used: live.len() as u32, removed: 0 };
        let list: Vec<u32> = (0..old.slots() / PAGE)
            .map(|i| {
                let pair = index.page(old.word as u32)[i / 2].load(Ordering::Relaxed);
                (pair >> (i % 2 * 32)) as u32
            })
            .collect();
        if !list.is_empty() {
            self.free.extend(list);
            self.free.push(old.word as u32);
        }
        Ok(())
    }

    /// Empty pages and their list: the word of a shard that follows the word `old`.
    fn fresh(&mut self, index: &Index, pages: usize, old: u64) -> Result<u64, Full> {
        let list = self.page(index)?;
        for i in 0..pages {
            let page = u64::from(self.page(index)?);
            let pair = &index.page(list)[i / 2];
            let other = if i % 2 == 0 { 0 } else { pair.load(Ordering::Relaxed) };
            pair.store(other | page << (i % 2 * 32), Ordering::Release);
        }
        let rebuilds = (old >> 48).wrapping_add(1) & 0xFFFF;
        Ok(rebuilds << 48 | (pages as u64) << 32 | u64::from(list))
    }

    /// A page of empty slots.
    fn page(&mut self, index: &Index) -> Result<u32, Full> {
        if let Some(page) = self.free.pop() {
            // A search may still run over it, and will find that its shard changed.
            index.page(page).iter().for_each(|slot| slot.store(0, Ordering::Release));
            return Ok(page);
        }
        let page = self.pages;
        let chunk = index.chunks.get(page as usize / CHUNK).ok_or(Full)?;
        chunk.get_or_init(|| (0..CHUNK * PAGE).map(|_| AtomicU64::new(0)).collect());
        self.pages += 1;
        Ok(page)
    }
}

/// Whether sorted entries find room in a table of this size with load to spare.
fn fits(live: &[u64], slots: usize) -> bool {
    let mut next = 0;
    for &slot in live {
        next = home(hash_of(slot), slots).max(next) + 1;
    }
    next <= slots && live.len() * 8 < slots * 7
}

#[cfg(test)]
mod tests;
