//! A shard of the index: a sorted open-addressing table over pages of slots.

use crate::bytes::prefetch::prefetch;
use crate::log::failpoints::Failpoint;
use crate::log::index::pages::{Full, Level, PAGE, Pages};
use crate::log::index::slot::{
    FIELD_BITS, KNOWN_BITS, RecordLocation, field_of, is_entry, is_prefix,
};
use crate::sync::AtomicU64;
use std::slice::Iter;
use std::sync::atomic::Ordering;

/// Slots at the end of a shard that are no entry's home, for entries that were pushed on.
pub(crate) const SLACK: usize = if cfg!(firndb_model) { 2 } else { 24 };

/// Most searches take fewer steps than this from slot to slot. If they cross into the next cache
/// line, it was requested together with the first one.
const USUAL_STEPS: usize = 5;

/// Set in the word of a shard that is split.
pub(crate) const SPLIT: u64 = 2;

/// A shard as one reader sees it: valid as long as the shard's word is unchanged.
pub(crate) struct Shard<'a> {
    pages: &'a Pages,
    level: &'a Level,
    /// The number of its level.
    pub(crate) depth: u32,
    pub(crate) number: usize,
    pub(crate) word: u64,
    /// Ones for the bits of a field that an entry of the shard may not know. The fields that agree
    /// in the other bits belong to one *class*. Entries of a class have the same home, so that a
    /// search meets those that know few bits and those that know all in one run.
    rest: u64,
}

impl Pages {
    /// The shard that has the entries of a hash now.
    #[inline]
    pub(crate) fn leaf(&self, hash: u64) -> Shard<'_> {
        let mut number = self.base();
        loop {
            let level = self.level_if_there(number);
            let level = level.expect("a level is there before searches come to it");
            let shard = Shard::load(self, level, number, (hash >> 32 >> (32 - number)) as usize);
            if !shard.is_split() {
                return shard;
            }
            number += 1;
        }
    }

    /// A shard of a level that was allocated.
    pub(crate) fn shard(&self, level: u32, number: usize) -> Result<Shard<'_>, Full> {
        let words = self.level_if_there(level).ok_or(Full)?;
        Ok(Shard::load(self, words, level, number))
    }
}

impl<'a> Shard<'a> {
    /// The shard as it is now.
    #[inline]
    pub(crate) fn load(pages: &'a Pages, level: &'a Level, depth: u32, number: usize) -> Shard<'a> {
        let word = level.shard(number).load(Ordering::Acquire);
        let rest = (2 << (depth + KNOWN_BITS - pages.width())) - 1;
        Shard { pages, level, depth, number, word, rest }
    }

    /// A version of the shard that is not published yet.
    pub(crate) fn with_word(&self, word: u64) -> Shard<'a> {
        Shard { word, ..*self }
    }
}

impl Shard<'_> {
    #[inline]
    pub(crate) fn slots(&self) -> usize {
        (self.word >> 32 & 0xFFFF) as usize * PAGE
    }

    /// Whether the entries are in two shards of the next level.
    #[inline]
    pub(crate) fn is_split(&self) -> bool {
        self.word & SPLIT != 0
    }

    /// Whether the shard was neither rebuilt nor split nor had an entry restored since the reader
    /// loaded it.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.level.shard(self.number).load(Ordering::Acquire) == self.word
    }

    /// Publishes another version of the shard.
    pub(crate) fn publish(&self, word: u64, order: Ordering) {
        self.level.shard(self.number).store(word, order);
    }

    /// Whether this is the shard of a hash.
    pub(crate) fn has(&self, hash: u64) -> bool {
        (hash >> 32 >> (32 - self.depth)) as usize == self.number
    }

    /// The bits of a hash in this shard that a field may have, and one more in place of the marker.
    #[inline]
    pub(crate) fn bits(&self, hash: u64) -> u64 {
        (hash << self.depth) >> (64 - FIELD_BITS)
    }

    /// The hash whose known bits are those of a field, then a one, then zeros.
    pub(crate) fn hash_of(&self, field: u64) -> u64 {
        (self.number as u64) << 32 << (32 - self.depth)
            | field << (u64::BITS - FIELD_BITS) >> self.depth
    }

    /// The bits of a class, for a field of the shard or the end of all fields, as the highest bits
    /// of a hash: those that every entry of the index knows.
    pub(crate) fn kept_bits(&self, field: u64) -> u64 {
        (((self.number as u64) << FIELD_BITS) + field) >> self.rest.count_ones()
    }

    /// The largest field of the class of a field.
    #[inline]
    pub(crate) fn last_of_class(&self, field: u64) -> u64 {
        field | self.rest
    }

    /// The word of the directory that lists page `i`.
    #[inline]
    pub(crate) fn page(&self, i: usize) -> Option<&AtomicU64> {
        self.level.page(self.depth, self.number, i)
    }

    /// Records that a shard of the level has this many pages.
    pub(crate) fn count_pages(&self, pages: usize) {
        self.level.rows.fetch_max(pages as u32, Ordering::Relaxed);
    }

    /// The slots of a page from slot `i` on; empty if the page was reused meanwhile.
    #[inline]
    pub(crate) fn from(&self, i: usize) -> &[AtomicU64] {
        let Some(pages) = self.page(i / PAGE) else { return &[] };
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

    /// The locations of the entries whose known bits are those of the hash.
    #[inline(always)]
    pub(crate) fn entries_with(&self, hash: u64) -> Entries<'_> {
        let bits = self.bits(hash);
        let i = self.home(bits);
        // A shard without slots has no pages either.
        let page = if i < self.slots() { self.from(i) } else { &[] };
        prefetch(page.get(USUAL_STEPS..).unwrap_or(&[]), 1);
        let (first, last) = (bits & !self.rest, bits | self.rest);
        Entries { shard: self, bits, first, last, i, page: page.iter() }
    }

    /// Passes entries to `take`, as the lowest field of their class and location, which returns how
    /// many it has: at least `least` whose class is not before that of `from`, and all of the same
    /// class. Returns the class before which none is missing.
    ///
    /// Entries only move to the right, and are copied before their old slot is overwritten. So a
    /// walk to the right meets every entry that stays, perhaps twice. Once it meets a larger class
    /// than all before, every entry with a smaller one is to the left.
    pub(crate) fn entries_from(
        &self,
        from: u64,
        least: usize,
        mut take: impl FnMut(u64, RecordLocation) -> usize,
    ) -> u64 {
        let from = from & !self.rest;
        let (mut i, mut taken, mut last) = (self.home(from), 0, from);
        while i < self.slots() {
            let page = self.from(i);
            if page.is_empty() {
                break; // The shard changed.
            }
            for slot in page.iter().map(|slot| slot.load(Ordering::Acquire)) {
                let class = field_of(slot) & !self.rest;
                if !is_entry(slot) || class < from {
                    continue;
                }
                if taken >= least && class > last {
                    return class;
                }
                last = last.max(class);
                taken = take(class, RecordLocation::of_slot(slot));
            }
            i += page.len();
        }
        1 << FIELD_BITS
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

    /// The slot of an entry that has this location and whose class is that of the hash. For the
    /// writer.
    pub(crate) fn slot_of(&self, hash: u64, location: RecordLocation) -> Option<&AtomicU64> {
        let bits = self.bits(hash);
        let is_class = |slot| (field_of(slot) ^ bits) <= self.rest;
        let is_it = |slot| RecordLocation::of_slot(slot) == location && is_class(slot);
        let is_end = |slot| slot == 0 || field_of(slot) > bits | self.rest;
        let at = self.first(self.home(bits), |slot| is_it(slot) || is_end(slot));
        let slot = if at < self.slots() { self.from(at).first()? } else { return None };
        is_it(slot.load(Ordering::Relaxed)).then_some(slot)
    }

    /// The slot at which a search for this field begins.
    #[inline]
    pub(crate) fn home(&self, field: u64) -> usize {
        let homes = self.slots().saturating_sub(SLACK) as u64;
        (((field & !self.rest) * homes) >> FIELD_BITS) as usize
    }
}

/// See [`Shard::entries_with`]. Must not be polled again after it returned `None`.
pub(crate) struct Entries<'a> {
    shard: &'a Shard<'a>,
    bits: u64,
    /// The smallest and the largest field of the class.
    first: u64,
    last: u64,
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
                let field = field_of(slot);
                if slot == 0 || field > self.last {
                    return None;
                }
                if field >= self.first && is_prefix(field, self.bits) && is_entry(slot) {
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
