//! The memory of the index: pages of slots, and levels of shards, whose directories say which shard
//! has which page.

use crate::disk::Words;
use crate::log::index::slot::KNOWN_BITS;
use crate::sync::AtomicU64;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Slots of a page.
pub(crate) const PAGE: usize = if cfg!(firndb_model) { 8 } else { 128 };
/// Pages that are allocated at once: 2 MiB, which is a huge page.
pub(crate) const CHUNK: usize = if cfg!(firndb_model) { 8 } else { 2048 };
/// Pages of a shard that is as full as it gets before it splits.
pub(crate) const PAGES: usize = if cfg!(firndb_model) { 2 } else { 20 };
/// The same at the last level, where shards cannot split.
pub(crate) const PAGES_LAST: usize = if cfg!(firndb_model) { 2 } else { 32 };
/// Most pages of a shard. More than [`PAGES_LAST`], for entries that were admitted before the shard
/// was full, and for a shard whose last entries are pushed beyond its end.
pub(crate) const PAGES_MAX: usize = PAGES_LAST + PAGES_LAST.div_ceil(4);
/// Entries of a shard after an opening, at most, on average: then hardly any has to split soon.
const LOADED_MAX: u64 = 1800;
/// Entries learn bits again after this many doublings.
const VAGUE: u32 = 2;
/// No index has a level beyond this one: 2^25 shards of 2,000 entries are 2^36.
pub(crate) const LEVEL_MAX: u32 = if cfg!(firndb_model) { 3 } else { 25 };

/// Chunks of a group, which is listed in one allocation.
const GROUP: usize = 1024;
/// Chunks that are listed together.
type Group = Box<[OnceLock<Words>]>;
/// Groups: enough for every page that a half of a directory word can name.
const GROUPS: usize = if cfg!(firndb_model) { 1 } else { (1 << 32) / CHUNK / GROUP };

/// The index would need more memory than its shape allows, or than the system has.
#[derive(Debug)]
pub(crate) struct Full;

/// The shape of an index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The level of the shards that it begins with: there are 2^`first` of them.
    pub(crate) first: u32,
    /// The level of the smallest shards, at most 12 more: then no entry has fewer than 11 bits of
    /// its hash in its slot.
    pub(crate) last: u32,
    /// Upper bound of the bits of a hash that an entry knows: the hints of older versions have 38.
    pub(crate) known: u32,
    /// Most chunks of pages; tests make it small.
    pub(crate) chunks: usize,
}

impl Shape {
    /// The shape of a new index with this first level, which may double `doublings` times.
    pub(crate) fn new(first: u32, doublings: u32) -> Shape {
        let last = (first + doublings.min(12)).min(LEVEL_MAX).max(first);
        Shape { first, last, known: 63, chunks: usize::MAX }
    }

    /// The shape of an index into which this many entries will be loaded: shards of at most
    /// [`LOADED_MAX`] entries on average, if there are so many levels.
    pub(crate) fn with_entries(self, entries: u64) -> Shape {
        let is_large_enough = |&level: &u32| entries <= LOADED_MAX << level;
        Shape { first: (self.first..self.last).find(is_large_enough).unwrap_or(self.last), ..self }
    }
}

/// Pages, and levels of shards.
pub(crate) struct Pages {
    shape: Shape,
    width: u32,
    /// Level `l` has 2^l shards.
    levels: [OnceLock<Level>; LEVEL_MAX as usize + 1],
    /// The level at which searches begin. All shards before it are split.
    base: AtomicU64,
    /// The level at which searches began when entries last learned bits of their hashes.
    learned: AtomicU32,
    groups: Box<[OnceLock<Group>]>,
    /// Pages that the writer took from the chunks.
    pub(crate) taken: AtomicU32,
    /// Chunks that were allocated.
    pub(crate) made: AtomicU32,
    /// Chunks that [`Pages::reserve`] has prepared; 0 if it was never called.
    reserved: AtomicU32,
}

/// The words of the shards of a level. Row 0 has the shard words: bits 63-48 count rebuilds and
/// restored entries, bits 47-32 are the number of pages, bit 1 says that the shard is split, bit 0
/// is its half of the directory's words. The other rows are the directory: each half of a word of
/// row `i + 1` is the number of an `i`-th page.
pub(crate) struct Level {
    words: Words,
    /// Most pages that a shard of this level ever had.
    pub(crate) rows: AtomicU32,
}

impl Level {
    /// The word of a shard.
    #[inline]
    pub(crate) fn shard(&self, number: usize) -> &AtomicU64 {
        &self.words[number]
    }

    /// The word with the page `i` of a shard of this level, `level`; `None` if no shard has that
    /// many.
    #[inline]
    pub(crate) fn page(&self, level: u32, number: usize, i: usize) -> Option<&AtomicU64> {
        self.words.get((i + 1) << level | number)
    }
}

impl Pages {
    /// Pages of the empty shards of the first level.
    pub(crate) fn new(shape: Shape) -> Result<Pages, Full> {
        let groups = (0..GROUPS).map(|_| OnceLock::new()).collect();
        let (taken, made, reserved) = Default::default();
        let learned = AtomicU32::new(shape.first);
        let levels = std::array::from_fn(|_| OnceLock::new());
        let base = AtomicU64::new(shape.first.into());
        let width = (shape.first + KNOWN_BITS).min(shape.known);
        let pages = Pages { shape, width, levels, base, learned, groups, taken, made, reserved };
        pages.level(shape.first)?;
        Ok(pages)
    }

    /// Number of bits of a hash that every entry knows.
    #[inline]
    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// A level; `None` if it was not allocated yet.
    #[inline]
    pub(crate) fn level_if_there(&self, number: u32) -> Option<&Level> {
        self.levels[number as usize].get()
    }

    #[inline]
    pub(crate) fn base(&self) -> u32 {
        self.base.load(Ordering::Acquire) as u32
    }

    /// Lets searches begin at this level. All shards before it must be split.
    pub(crate) fn set_base(&self, level: u32) {
        self.base.store(level.into(), Ordering::Release);
    }

    /// Whether so many entries know so few bits that they should learn more: see
    /// `IndexWriter::learn`.
    pub(crate) fn is_vague(&self) -> bool {
        self.base() >= self.learned.load(Ordering::Relaxed) + VAGUE
    }

    /// Records that the entries of sealed segments learned bits while searches began at this level.
    pub(crate) fn set_learned(&self, level: u32) {
        self.learned.store(level, Ordering::Relaxed);
    }

    /// A level, allocated if necessary. The kernel provides its memory on first access.
    pub(crate) fn level(&self, number: u32) -> Result<&Level, Full> {
        let level = &self.levels[number as usize];
        if level.get().is_none() {
            let words = Words::new((1 + PAGES_MAX) << number, false).map_err(|_| Full)?;
            let _ = level.set(Level { words, rows: AtomicU32::new(0) });
        }
        level.get().ok_or(Full)
    }

    #[inline]
    fn chunk(&self, number: usize) -> Option<&OnceLock<Words>> {
        self.groups.get(number / GROUP)?.get()?.get(number % GROUP)
    }

    /// The slots of a page; empty if the page was never allocated.
    #[inline]
    pub(crate) fn page(&self, page: u32) -> &[AtomicU64] {
        let chunk = self.chunk(page as usize / CHUNK).and_then(OnceLock::get);
        let at = page as usize % CHUNK * PAGE;
        chunk.and_then(|chunk| chunk.get(at..at + PAGE)).unwrap_or(&[])
    }

    /// Whether the chunk of a page was allocated.
    #[inline]
    pub(crate) fn is_allocated(&self, page: u32) -> bool {
        self.chunk(page as usize / CHUNK).is_some_and(|chunk| chunk.get().is_some())
    }

    /// Allocates the chunk of a page if necessary.
    pub(crate) fn allocate(&self, page: u32) -> Result<(), Full> {
        // Where `reserve` runs, it turns small pages into huge ones later; the writer does not
        // wait for that.
        self.allocate_chunk(page as usize / CHUNK, self.reserved.load(Ordering::Relaxed) == 0)
    }

    fn allocate_chunk(&self, number: usize, is_huge: bool) -> Result<(), Full> {
        let group = self.groups.get(number / GROUP).filter(|_| number < self.shape.chunks);
        let group = group.ok_or(Full)?;
        let group = group.get_or_init(|| (0..GROUP).map(|_| OnceLock::new()).collect());
        let chunk = &group[number % GROUP];
        if chunk.get().is_none() {
            // A small index takes what it needs. A large one misses the processor's caches, and
            // then a huge page makes it about twice as fast.
            let words = Words::new(CHUNK * PAGE, number > 0 && is_huge).map_err(|_| Full)?;
            // Another thread may have set it first.
            if chunk.set(words).is_ok() {
                self.made.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Allocates the memory that the writer will need soon, because the system may take
    /// milliseconds to provide a huge page. Called by a maintenance thread. If the writer gets
    /// there first it takes small pages, which the next call makes huge.
    pub(crate) fn reserve(&self) {
        let taken = self.taken.load(Ordering::Relaxed) as usize;
        let next = if taken % CHUNK >= CHUNK / 4 { taken / CHUNK + 1 } else { taken / CHUNK };
        let seen = self.reserved.fetch_max(1, Ordering::Relaxed).max(1) as usize;
        let done = (seen..=next).take_while(|&number| {
            match self.chunk(number).and_then(OnceLock::get) {
                Some(chunk) => chunk.make_huge(),
                // The writer retries and reports an error.
                None => self.allocate_chunk(number, true).is_ok(),
            }
        });
        self.reserved.store((seen + done.count()) as u32, Ordering::Relaxed);
    }

    /// Allocates the memory for this many entries, from the end backwards, until it meets what the
    /// writer has allocated from the beginning: so two threads share the work. Providing memory
    /// takes about a quarter of the time of loading an index.
    pub(crate) fn prepare_for(&self, entries: u64) {
        // No shard has a higher load than 7/8. So the writer will need all of this.
        let chunks = entries / (PAGE / 8 * 7 * CHUNK) as u64;
        let is_new = |&number: &usize| self.chunk(number).and_then(OnceLock::get).is_none();
        let new = (0..chunks as usize).rev().take_while(is_new);
        // The writer reports a lack of memory.
        new.map(|number| self.allocate_chunk(number, true))
            .take_while(Result::is_ok)
            .for_each(drop);
    }

    /// Bytes of memory in use, including the word of each shard, and one for its counts, which the
    /// writer has.
    pub(crate) fn memory(&self) -> u64 {
        let levels = self.levels.iter().enumerate();
        let levels = levels.filter_map(|(number, level)| Some((number, level.get()?)));
        let words = |(number, level): (usize, &Level)| {
            (2 + level.rows.load(Ordering::Relaxed) as usize) << number
        };
        let chunks = self.made.load(Ordering::Relaxed) as usize;
        let groups = self.groups.iter().filter(|group| group.get().is_some()).count();
        let tables = GROUPS + groups * GROUP;
        let words = levels.map(words).sum::<usize>() + chunks * CHUNK * PAGE;
        (words * 8 + tables * size_of::<OnceLock<Words>>()) as u64
    }
}
