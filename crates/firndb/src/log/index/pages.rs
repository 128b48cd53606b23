//! The memory of the index: pages of slots, and the directory that says which shard has which page.

use crate::disk::Words;
use crate::log::index::slot::HASH_BITS;
use crate::sync::AtomicU64;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Slots of a page.
pub(crate) const PAGE: usize = if cfg!(firndb_model) { 8 } else { 128 };
/// Pages that are allocated at once: 2 MiB, which is a huge page.
pub(crate) const CHUNK: usize = if cfg!(firndb_model) { 8 } else { 2048 };
/// Pages of a shard that is as full as writers may make it.
pub(crate) const PAGES: usize = if cfg!(firndb_model) { 16 } else { 256 };
/// Most pages of a shard. More than [`PAGES`], for entries that were admitted before the shard was
/// full, and for a shard whose last entries are pushed beyond its end.
pub(crate) const PAGES_MAX: usize = PAGES + PAGES / 16;

/// The index would need more memory than its shape allows, or than the system has.
#[derive(Debug)]
pub(crate) struct Full;

/// Pages, directory and shard words.
pub(crate) struct Pages {
    bits: u32,
    /// Per shard: bits 63-48 count its rebuilds and the entries restored to it, bits 47-32 are its
    /// number of pages, bit 0 is its half of the directory's words.
    pub(crate) shards: Box<[AtomicU64]>,
    /// Row `i` has a word per shard; each half of the word is the number of an `i`-th page.
    pub(crate) directory: Box<[OnceLock<Words>]>,
    /// Most pages that a shard ever had.
    pub(crate) rows: AtomicU32,
    chunks: Box<[OnceLock<Words>]>,
    /// Pages that the writer took from the chunks.
    pub(crate) taken: AtomicU32,
    /// Chunks that [`Pages::reserve`] has prepared; 0 if it was never called.
    reserved: AtomicU32,
}

impl Pages {
    /// Pages of 2^bits empty shards.
    pub(crate) fn new(bits: u32) -> Pages {
        let shards: Box<[AtomicU64]> = (0..1usize << bits).map(|_| AtomicU64::new(0)).collect();
        // Every shard at its largest, and as much again while it is rebuilt.
        let chunks = (2 * shards.len() * PAGES_MAX).div_ceil(CHUNK);
        let [directory, chunks] =
            [PAGES_MAX, chunks].map(|count| (0..count).map(|_| OnceLock::new()).collect());
        let (rows, taken, reserved) = Default::default();
        let pages = Pages { bits, shards, directory, rows, chunks, taken, reserved };
        let _ = pages.row(0); // The writer retries and reports an error.
        pages
    }

    /// Shard and slot bits of a key's hash.
    #[inline]
    pub(crate) fn split(&self, hash: u64) -> (usize, u64) {
        let shard = (hash >> 32 >> (32 - self.bits)) as usize;
        (shard, (hash << self.bits) >> (64 - HASH_BITS))
    }

    /// Number of bits of a hash that the index keeps.
    pub(crate) fn width(&self) -> u32 {
        HASH_BITS + self.bits
    }

    /// The slots of a page; empty if the page was never allocated.
    #[inline]
    pub(crate) fn page(&self, page: u32) -> &[AtomicU64] {
        let chunk = self.chunks.get(page as usize / CHUNK).and_then(OnceLock::get);
        let at = page as usize % CHUNK * PAGE;
        chunk.and_then(|chunk| chunk.get(at..at + PAGE)).unwrap_or(&[])
    }

    /// A row of the directory, allocated if necessary.
    pub(crate) fn row(&self, i: usize) -> Result<&Words, Full> {
        let row = self.directory.get(i).ok_or(Full)?;
        if row.get().is_none() {
            let words = Words::new(self.shards.len(), false).map_err(|_| Full)?;
            let _ = row.set(words); // Another thread may have set it first.
        }
        row.get().ok_or(Full)
    }

    /// Allocates the chunk of a page if necessary.
    pub(crate) fn allocate(&self, page: u32) -> Result<(), Full> {
        // Where `reserve` runs, it turns small pages into huge ones later; the writer does not
        // wait for that.
        self.allocate_chunk(page as usize / CHUNK, self.reserved.load(Ordering::Relaxed) == 0)
    }

    fn allocate_chunk(&self, number: usize, is_huge: bool) -> Result<(), Full> {
        let chunk = self.chunks.get(number).ok_or(Full)?;
        if chunk.get().is_none() {
            // A small index takes what it needs. A large one misses the processor's caches, and
            // then a huge page makes it about twice as fast.
            let words = Words::new(CHUNK * PAGE, number > 0 && is_huge).map_err(|_| Full)?;
            let _ = chunk.set(words); // Another thread may have set it first.
        }
        Ok(())
    }

    /// Allocates the memory that the writer will need soon, because the system may take
    /// milliseconds to provide a huge page. Called by a maintenance thread. If the writer gets
    /// there first it takes small pages, which the next call makes huge.
    pub(crate) fn reserve(&self) {
        // As many rows as the next shard that grows may need.
        let rows = self.rows.load(Ordering::Relaxed) as usize;
        let _ = (rows..=rows + rows / 8).try_for_each(|i| self.row(i).map(|_| ()));
        let taken = self.taken.load(Ordering::Relaxed) as usize;
        let next = if taken % CHUNK >= CHUNK / 4 { taken / CHUNK + 1 } else { taken / CHUNK };
        let seen = self.reserved.fetch_max(1, Ordering::Relaxed).max(1) as usize;
        let done = (seen..=next).take_while(|&number| {
            match self.chunks.get(number).and_then(OnceLock::get) {
                Some(chunk) => chunk.make_huge(),
                // The writer retries and reports an error.
                None => self.allocate_chunk(number, true).is_ok(),
            }
        });
        self.reserved.store((seen + done.count()) as u32, Ordering::Relaxed);
    }

    /// Bytes of memory in use.
    pub(crate) fn memory(&self) -> u64 {
        let [chunks, rows] = [&self.chunks, &self.directory]
            .map(|all| all.iter().take_while(|words| words.get().is_some()).count());
        let words = self.shards.len() * (2 + rows) + chunks * CHUNK * PAGE;
        let tables = (self.chunks.len() + PAGES_MAX) * size_of::<OnceLock<Words>>();
        (words * 8 + tables) as u64
    }
}
