//! A shard of the index: a sorted open-addressing table over pages of slots.

use crate::log::failpoints::Failpoint;
use crate::log::index::pages::{PAGE, Pages};
use crate::log::index::slot::{HASH_BITS, RecordLocation, hash_of, is_entry};
use crate::sync::AtomicU64;
use std::slice::Iter;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// Slots at the end of a shard that are no entry's home, for entries that were pushed on.
pub(crate) const SLACK: usize = if cfg!(firndb_model) { 2 } else { 24 };

/// A shard as one reader sees it: valid as long as the shard's word is unchanged.
pub(crate) struct Shard<'a> {
    pages: &'a Pages,
    number: usize,
    pub(crate) word: u64,
}

impl<'a> Shard<'a> {
    /// The shard as it is now.
    #[inline]
    pub(crate) fn load(pages: &'a Pages, number: usize) -> Shard<'a> {
        Shard { pages, number, word: pages.shards[number].load(Ordering::Acquire) }
    }

    /// A shard that is not published yet.
    pub(crate) fn with_word(pages: &'a Pages, number: usize, word: u64) -> Shard<'a> {
        Shard { pages, number, word }
    }
}

impl Shard<'_> {
    #[inline]
    pub(crate) fn slots(&self) -> usize {
        (self.word >> 32 & 0xFFFF) as usize * PAGE
    }

    /// Whether the shard was neither rebuilt nor had an entry restored since the reader loaded it.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.pages.shards[self.number].load(Ordering::Acquire) == self.word
    }

    /// The slots of a page from slot `i` on; empty if the page was reused meanwhile.
    #[inline]
    pub(crate) fn from(&self, i: usize) -> &[AtomicU64] {
        let row = self.pages.directory.get(i / PAGE).and_then(OnceLock::get);
        let Some(pages) = row.and_then(|row| row.get(self.number)) else { return &[] };
        self.pages.page(self.half(pages.load(Ordering::Acquire))).get(i % PAGE..).unwrap_or(&[])
    }

    /// The shift of the half of the directory's words that lists this shard's pages.
    #[inline]
    pub(crate) fn shift_of_half(&self) -> u64 {
        (self.word & 1) * 32
    }

    /// This shard's page in a word of the directory.
    #[inline]
    pub(crate) fn half(&self, pages: u64) -> u32 {
        (pages >> self.shift_of_half()) as u32
    }

    /// The locations of the entries with these hash bits.
    #[inline(always)]
    pub(crate) fn entries_with(&self, bits: u64) -> Entries<'_> {
        let i = self.home(bits);
        // A shard without slots has no pages either.
        let page = if i < self.slots() { self.from(i) } else { &[] };
        Entries { shard: self, bits, i, page: page.iter() }
    }

    /// Passes entries whose hash bits are at least `from` to `take`, which returns how many it has:
    /// at least `least`, and all with equal bits. Returns the bits before which none is missing.
    ///
    /// Entries only move to the right, and are copied before their old slot is overwritten. So a
    /// walk to the right meets every entry that stays, perhaps twice. Once it meets larger bits
    /// than all before, every entry with smaller ones is to the left.
    pub(crate) fn entries_from(
        &self,
        from: u64,
        least: usize,
        mut take: impl FnMut(u64, RecordLocation) -> usize,
    ) -> u64 {
        let (mut i, mut taken, mut last) = (self.home(from), 0, from);
        while i < self.slots() {
            let page = self.from(i);
            if page.is_empty() {
                break; // The shard changed.
            }
            for slot in page.iter().map(|slot| slot.load(Ordering::Acquire)) {
                let bits = hash_of(slot);
                if !is_entry(slot) || bits < from {
                    continue;
                }
                if taken >= least && bits > last {
                    return bits;
                }
                last = last.max(bits);
                taken = take(bits, RecordLocation::of_slot(slot));
            }
            i += page.len();
        }
        1 << HASH_BITS
    }

    /// The pages. For the writer.
    pub(crate) fn pages(&self) -> impl Iterator<Item = &[AtomicU64]> {
        (0..self.slots()).step_by(PAGE).map(|i| self.from(i))
    }

    /// The first slot from `i` on whose word matches, or the end. For the writer.
    #[inline]
    pub(crate) fn first(&self, mut i: usize, matches: impl Fn(u64) -> bool) -> usize {
        while i < self.slots() {
            let page = self.from(i);
            let found = page.iter().position(|slot| matches(slot.load(Ordering::Relaxed)));
            if let Some(steps) = found {
                return i + steps;
            }
            i += page.len();
        }
        i
    }

    /// Moves the words of `from..to` up by one slot. For the writer.
    pub(crate) fn shift(&self, from: usize, mut to: usize) {
        let order = Failpoint::ShiftRelaxed.instead_of_release();
        while to > from {
            let start = to - to % PAGE;
            let page = self.from(start);
            for i in (from.max(start) + 1..=to).rev() {
                let word = page[i % PAGE - 1].load(Ordering::Relaxed);
                page[i % PAGE].store(word, order);
            }
            to = from.max(start);
            if to > from {
                let word = self.from(to - 1)[0].load(Ordering::Relaxed);
                page[0].store(word, order);
                to -= 1;
            }
        }
    }

    /// The slot at which a search for these hash bits begins.
    #[inline]
    pub(crate) fn home(&self, hash: u64) -> usize {
        home(hash, self.slots())
    }
}

/// See [`Shard::entries_with`]. Must not be polled again after it returned `None`.
pub(crate) struct Entries<'a> {
    shard: &'a Shard<'a>,
    bits: u64,
    /// The slot at which `page`, or the rest of it, begins.
    i: usize,
    page: Iter<'a, AtomicU64>,
}

impl Iterator for Entries<'_> {
    type Item = RecordLocation;

    #[inline(always)]
    fn next(&mut self) -> Option<RecordLocation> {
        loop {
            for slot in self.page.by_ref() {
                let slot = slot.load(Ordering::Acquire);
                if slot == 0 || hash_of(slot) > self.bits {
                    return None;
                }
                if hash_of(slot) == self.bits && is_entry(slot) {
                    return Some(RecordLocation::of_slot(slot));
                }
            }
            self.i += PAGE - self.i % PAGE;
            if self.i >= self.shard.slots() {
                return None;
            }
            self.page = self.shard.from(self.i).iter();
            // An empty page means that the shard changed.
            if self.page.as_slice().is_empty() {
                return None;
            }
        }
    }
}

/// The home slot of these hash bits in a shard of this many slots.
#[inline]
pub(crate) fn home(hash: u64, slots: usize) -> usize {
    ((hash * (slots.saturating_sub(SLACK)) as u64) >> HASH_BITS) as usize
}
