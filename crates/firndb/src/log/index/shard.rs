//! A shard of the index: pages of slots.

use super::{HASH_BITS, Index, PAGE, PLACE_BITS, Place, SLACK, hash_of, is_entry};
use crate::log::failpoints::Bug;
use crate::sync::AtomicU64;
use std::slice::Iter;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// A shard as one reader sees it.
pub(crate) struct Shard<'a> {
    pub(crate) index: &'a Index,
    pub(crate) number: usize,
    pub(crate) word: u64,
}

impl Shard<'_> {
    pub(crate) fn slots(&self) -> usize {
        (self.word >> 32 & 0xFFFF) as usize * PAGE
    }

    /// Whether it was not rebuilt, nor given an entry back, since the reader began.
    #[inline]
    pub(crate) fn is_as_seen(&self) -> bool {
        self.index.shards[self.number].load(Ordering::Acquire) == self.word
    }

    /// The slots of a page from this one on; none if the pages have been used again, for whatever,
    /// meanwhile.
    #[inline]
    pub(crate) fn from(&self, i: usize) -> &[AtomicU64] {
        let row = self.index.directory.get(i / PAGE).and_then(OnceLock::get);
        let Some(pages) = row.and_then(|row| row.get(self.number)) else { return &[] };
        self.index.page(self.half(pages.load(Ordering::Acquire))).get(i % PAGE..).unwrap_or(&[])
    }

    /// Which half of the words of the directory it has.
    pub(crate) fn shift_of_half(&self) -> u64 {
        (self.word & 1) * 32
    }

    /// Its page in a word of the directory.
    pub(crate) fn half(&self, pages: u64) -> u32 {
        (pages >> self.shift_of_half()) as u32
    }

    /// The places of the entries with these hash bits.
    #[inline(always)]
    pub(crate) fn entries_with(&self, bits: u64) -> Entries<'_> {
        let i = self.home(bits);
        // One without slots has no pages either.
        let page = if i < self.slots() { self.from(i) } else { &[] };
        Entries { shard: self, bits, i, page: page.iter() }
    }

    /// The pages, for the writer.
    pub(crate) fn pages(&self) -> impl Iterator<Item = &[AtomicU64]> {
        (0..self.slots()).step_by(PAGE).map(|i| self.from(i))
    }

    /// The first slot from `i` on whose word is such, or the end; for the writer.
    #[inline]
    pub(crate) fn first(&self, mut i: usize, is_such: impl Fn(u64) -> bool) -> usize {
        while i < self.slots() {
            let page = self.from(i);
            let found = page.iter().position(|slot| is_such(slot.load(Ordering::Relaxed)));
            if let Some(steps) = found {
                return i + steps;
            }
            i += page.len();
        }
        i
    }

    /// Moves the words of `from..to` one slot on; for the writer.
    pub(crate) fn shift(&self, from: usize, mut to: usize) {
        let order = Bug::ShiftRelaxed.instead_of_release();
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

    /// Where a search for these hash bits begins.
    pub(crate) fn home(&self, hash: u64) -> usize {
        home(hash, self.slots())
    }
}

/// See [`Shard::entries_with`]. Not to be asked again after its end.
pub(crate) struct Entries<'a> {
    shard: &'a Shard<'a>,
    bits: u64,
    /// Where the page, or what was left of it, begins.
    i: usize,
    page: Iter<'a, AtomicU64>,
}

impl Iterator for Entries<'_> {
    type Item = Place;

    #[inline(always)]
    fn next(&mut self) -> Option<Place> {
        loop {
            for slot in self.page.by_ref() {
                let slot = slot.load(Ordering::Acquire);
                if slot == 0 || hash_of(slot) > self.bits {
                    return None;
                }
                if hash_of(slot) == self.bits && is_entry(slot) {
                    return Some(Place(slot & ((1 << PLACE_BITS) - 1)));
                }
            }
            self.i += PAGE - self.i % PAGE;
            if self.i >= self.shard.slots() {
                return None;
            }
            self.page = self.shard.from(self.i).iter();
            // Not one slot: then the shard changed.
            if self.page.as_slice().is_empty() {
                return None;
            }
        }
    }
}

pub(crate) fn home(hash: u64, slots: usize) -> usize {
    ((hash * (slots.saturating_sub(SLACK)) as u64) >> HASH_BITS) as usize
}
