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
//! more. Shards are made of equal pages of one arena, so that nothing is lost to fragmentation; a
//! directory says which. Row i of it has the i-th pages of all shards, a few bytes each, so that
//! what is in use of it is small, and stays in the processor's cache.
//!
//! Readers take no lock and never wait: everything is an atomic word. The one writer (the holder of
//! [`IndexWriter`]) changes a shard so that a search from left to right finds whatever stays in it:
//! an insertion shifts from the right end, a removal leaves a mark. A grown shard is built aside,
//! from pages in the other half of the directory, and appears by one store. Its old pages are used
//! again; a search that ran over them, or saw the half of its word being filled for the rebuild
//! after the next, notices that the shard's word changed, and starts again. (Sorted linear probing:
//! Amble and Knuth, 1974.) `aside.rs` has the few entries that were replaced on suspicion,
//! `late.rs` those that are to come.

mod displaced;
mod insert_buffer;
mod shard;
mod writer;

use self::displaced::Aside;
pub(crate) use self::displaced::Found;
pub(crate) use self::insert_buffer::Late;
use self::shard::Shard;
pub(crate) use self::writer::{Full, IndexWriter};
use crate::bytes::prefetch::prefetch;
use crate::disk::Words;
use crate::log::failpoints::Bug;
use crate::sync::AtomicU64;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Slots of a page.
const PAGE: usize = if cfg!(firndb_model) { 8 } else { 128 };
/// Pages that are allocated at once: 2 MiB, which is a huge page.
const CHUNK: usize = if cfg!(firndb_model) { 8 } else { 2048 };
const HASH_BITS: u32 = 24;
const OFFSET_BITS: u32 = 26;
pub(crate) const SEGMENT_BITS: u32 = 14;
const PLACE_BITS: u32 = SEGMENT_BITS + OFFSET_BITS;
/// Offsets, in granules, are below this.
pub(crate) const OFFSETS: u64 = 1 << OFFSET_BITS;
const REMOVED: u64 = 1 << OFFSET_BITS;
/// Slots at the end of a shard that are nobody's home, for those that were pushed on.
const SLACK: usize = if cfg!(firndb_model) { 2 } else { 24 };
/// Pages of a shard that is as full as writers may make it.
const PAGES: usize = if cfg!(firndb_model) { 16 } else { 256 };
/// Most pages of a shard: some more, for entries that were admitted before it was full, and for one
/// whose last entries are pushed beyond its end.
const PAGES_MAX: usize = PAGES + PAGES / 16;

/// Where a record is: segment slot and offset in granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place(u64);

impl Place {
    pub(crate) fn new(segment: usize, offset: u64) -> Place {
        Place((segment as u64) << OFFSET_BITS | offset)
    }

    pub(crate) fn segment(self) -> usize {
        (self.0 >> OFFSET_BITS) as usize
    }

    pub(crate) fn offset(self) -> u64 {
        self.0 & (OFFSETS - 1)
    }
}

/// What readers see.
pub(crate) struct Index {
    bits: u32,
    /// Of each shard: bits 63-48 count its rebuilds and the entries that it was given back, 47-32
    /// its pages, bit 0 is their half of the directory.
    shards: Box<[AtomicU64]>,
    /// Row i has a word for each shard, and in each half of the word an i-th page.
    directory: Box<[OnceLock<Words>]>,
    /// Most pages that a shard ever had.
    rows: AtomicU32,
    aside: Aside,
    late: insert_buffer::Entries,
    chunks: Box<[OnceLock<Words>]>,
    /// Pages that the writer took from the chunks.
    taken: AtomicU32,
    /// Chunks that [`Index::reserve`] has seen to; 0 if nobody calls it.
    reserved: AtomicU32,
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
    pub(crate) fn new(bits: u32) -> (Index, IndexWriter) {
        let shards: Box<[AtomicU64]> = (0..1usize << bits).map(|_| AtomicU64::new(0)).collect();
        // Every shard at its largest, and as much again while it is rebuilt.
        let chunks = (2 * shards.len() * PAGES_MAX).div_ceil(CHUNK);
        let [directory, chunks] =
            [PAGES_MAX, chunks].map(|count| (0..count).map(|_| OnceLock::new()).collect());
        let writer = IndexWriter::new(shards.len());
        let (rows, aside, late, taken, reserved) = Default::default();
        let index = Index { bits, shards, directory, rows, aside, late, chunks, taken, reserved };
        let _ = index.row(0); // The writer tries again, and reports.
        (index, writer)
    }

    /// Shard and hash bits of a key's hash.
    fn split(&self, hash: u64) -> (usize, u64) {
        let shard = (hash >> 32 >> (32 - self.bits)) as usize;
        (shard, (hash << self.bits) >> (64 - HASH_BITS))
    }

    /// The bits of a hash that the index keeps: equal ones cannot be told apart.
    #[cfg(any(test, firndb_model))]
    pub(crate) fn kept_bits(&self, hash: u64) -> u64 {
        hash >> (64 - HASH_BITS - self.bits)
    }

    /// Number of bits of a hash that it keeps.
    pub(crate) fn width(&self) -> u32 {
        HASH_BITS + self.bits
    }

    #[inline]
    fn page(&self, page: u32) -> &[AtomicU64] {
        let chunk = self.chunks.get(page as usize / CHUNK).and_then(OnceLock::get);
        let at = page as usize % CHUNK * PAGE;
        chunk.and_then(|chunk| chunk.get(at..at + PAGE)).unwrap_or(&[])
    }

    #[inline]
    fn shard(&self, number: usize) -> Shard<'_> {
        Shard { index: self, number, word: self.shards[number].load(Ordering::Acquire) }
    }

    /// Shows `accept` the places of all entries with the kept bits of this hash until it wants one.
    ///
    /// An entry that is there during the whole call is shown. One that goes away meanwhile, or that
    /// belongs to another key, may be shown.
    #[inline]
    pub(crate) fn find<T>(&self, hash: u64, accept: impl FnMut(Place) -> Option<T>) -> Option<T> {
        self.find_behind(self.find_late(hash), hash, accept)
    }

    /// [`Index::find`] without what is late.
    pub(crate) fn find_entered<T>(
        &self,
        hash: u64,
        accept: impl FnMut(Place) -> Option<T>,
    ) -> Option<T> {
        self.find_behind(None, hash, accept)
    }

    /// Shows what is late, if anything, and then what is entered.
    #[inline]
    fn find_behind<T>(
        &self,
        mut late: Option<Place>,
        hash: u64,
        mut accept: impl FnMut(Place) -> Option<T>,
    ) -> Option<T> {
        let (number, bits) = self.split(hash);
        loop {
            let shard = self.shard(number);
            let mut entries = shard.entries_with(bits);
            let (mut is_shown, mut is_last) = (false, false);
            while !is_last {
                let place = match late.take().or_else(|| entries.next()) {
                    Some(place) => place,
                    None if !is_shown => break,
                    None => {
                        // Whatever is aside, another entry has its slot and its bits, which must be
                        // shown first.
                        is_last = true;
                        let is_same = shard.is_as_seen() || Bug::TrustAside.is_on();
                        let Some(place) = self.find_aside(hash).filter(|_| is_same) else { break };
                        place
                    }
                };
                // In one place of the code, so that it becomes a part of this loop.
                let wanted = accept(place);
                if wanted.is_some() {
                    return wanted;
                }
                is_shown = true;
            }
            if shard.is_as_seen() || Bug::ForgetRebuilds.is_on() {
                return None;
            }
        }
    }

    /// Gets the memory that the writer will want soon, since a system may take milliseconds for a
    /// huge page. For a thread that nobody waits for: where there is one, a writer that comes first
    /// takes small pages, which are made huge here.
    pub(crate) fn reserve(&self) {
        // As many rows as the next shard that grows may want.
        let rows = self.rows.load(Ordering::Relaxed) as usize;
        let _ = (rows..=rows + rows / 8).try_for_each(|i| self.row(i).map(|_| ()));
        let taken = self.taken.load(Ordering::Relaxed) as usize;
        let next = if taken % CHUNK >= CHUNK / 4 { taken / CHUNK + 1 } else { taken / CHUNK };
        let seen = self.reserved.fetch_max(1, Ordering::Relaxed).max(1) as usize;
        let done = (seen..=next).take_while(|&number| {
            match self.chunks.get(number).and_then(OnceLock::get) {
                Some(chunk) => chunk.make_huge(),
                // The writer tries again, and reports.
                None => self.get_chunk(number, true).is_ok(),
            }
        });
        self.reserved.store((seen + done.count()) as u32, Ordering::Relaxed);
    }

    /// A row of the directory, for which memory is got if need be.
    fn row(&self, i: usize) -> Result<&Words, Full> {
        let row = self.directory.get(i).ok_or(Full)?;
        if row.get().is_none() {
            let words = Words::new(self.shards.len(), false).map_err(|_| Full)?;
            let _ = row.set(words); // Unless somebody else was faster.
        }
        row.get().ok_or(Full)
    }

    /// Sees to it that there is memory for the pages of a chunk.
    fn get_chunk(&self, number: usize, is_huge: bool) -> Result<(), Full> {
        let chunk = self.chunks.get(number).ok_or(Full)?;
        if chunk.get().is_none() {
            // A small index takes what it needs; a large one misses the processor's caches, and
            // then a huge page is worth twice the speed.
            let words = Words::new(CHUNK * PAGE, number > 0 && is_huge).map_err(|_| Full)?;
            let _ = chunk.set(words); // Unless somebody else was faster.
        }
        Ok(())
    }

    /// Brings the slots of a key into the processor's cache, for a search that comes soon.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let (number, bits) = self.split(hash);
        let shard = self.shard(number);
        prefetch(shard.from(shard.home(bits)), 2);
    }

    /// Number of shards.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// All entries of a shard, as kept bits of the hash and place, ascending by the bits, and then
    /// those that are aside; not those that are late.
    ///
    /// Entries that come or go meanwhile may be in it or not, and one may be in it twice.
    pub(crate) fn entries_of(&self, shard: usize, out: &mut Vec<(u64, Place)>) {
        loop {
            out.clear();
            let seen = self.shard(shard);
            for slot in seen.pages().flatten() {
                let slot = slot.load(Ordering::Acquire);
                if is_entry(slot) {
                    let bits = (shard as u64) << HASH_BITS | hash_of(slot);
                    out.push((bits, Place(slot & ((1 << PLACE_BITS) - 1))));
                }
            }
            let kept = |(bits, place)| ((shard as u64) << HASH_BITS | bits, place);
            out.extend(self.aside_of(shard).map(kept));
            if seen.is_as_seen() {
                return;
            }
        }
    }

    /// Bytes of memory it takes.
    pub(crate) fn memory(&self) -> u64 {
        let [chunks, rows] = [&self.chunks, &self.directory]
            .map(|all| all.iter().take_while(|words| words.get().is_some()).count());
        let words = self.shards.len() * (2 + rows) + chunks * CHUNK * PAGE;
        let tables = (self.chunks.len() + PAGES_MAX) * size_of::<OnceLock<Words>>();
        (words * 8 + tables) as u64
    }
}

#[cfg(all(test, not(firndb_model)))]
mod tests;
