//! [`IndexWriter`]: the right to change the index. There is one per index.

use crate::log::failpoints::Failpoint;
use crate::log::index::displaced::Displacement;
use crate::log::index::hash_index::Index;
use crate::log::index::insert_buffer::{BUFFER_SLOTS, BufferedInsert};
use crate::log::index::pages::{Full, PAGE, PAGES, PAGES_LAST, PAGES_MAX, Shape};
use crate::log::index::shard::{SLACK, SPLIT, Shard};
use crate::log::index::slot::{LOCATION_BITS, REMOVED, RecordLocation, field, field_of, is_entry};
use crate::log::index::sorted_entries::SortedEntries;
use crate::sync::AtomicU64;
use std::sync::atomic::Ordering;

/// The writer's own state. Every method must be called with the index it was created with.
pub(crate) struct IndexWriter {
    /// Counts of the slots of each shard, by level.
    counts: Vec<Vec<Count>>,
    /// Number of split shards, by level.
    splits: Vec<u64>,
    free: Vec<u32>,
    pages: u32,
    entries: u64,
}

/// Counts of a shard's slots: those that are not empty, and those that are removed. An array,
/// because a vector of zeros of numbers costs no time.
type Count = [u32; 2];

/// Most entries of a shard, including those that may still arrive from the insert buffer and the
/// displaced set, before the shard splits: what [`PAGES`] pages hold at the usual load.
const ENTRIES_MAX: usize = PAGES * PAGE / 8 * 7;
/// The same at the last level.
pub(crate) const ENTRIES_LAST: usize = PAGES_LAST * PAGE / 8 * 7;

/// Up to this level, [`IndexWriter::fill`] leaves more slots empty. An index of at most 15 million
/// keys can afford a byte more per key, and searches for absent keys take about 10 % less time.
const ROOMY_LEVEL: u32 = 13;

/// Pages that are allocated before an entry is admitted: if each buffered and displaced entry makes
/// its shard one page larger, and one of these shards is copied or split, all of them fit.
const SPARE_PAGES: u32 = (2 * BUFFER_SLOTS + 2 * PAGES_MAX) as u32;

/// An empty index of this shape, and its writer.
pub(crate) fn create(shape: Shape) -> Result<(Index, IndexWriter), Full> {
    let index = Index::new(shape)?;
    let (counts, splits, free) = Default::default();
    let mut writer = IndexWriter { counts, splits, free, pages: 0, entries: 0 };
    writer.add_level(&index, shape.first)?;
    Ok((index, writer))
}

impl IndexWriter {
    /// Number of entries.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Makes room for one more key with this hash. Returns `false` if there is none. Otherwise its
    /// insertion, and that of every buffered or displaced entry, cannot fail.
    #[inline]
    pub(crate) fn make_room_for(&mut self, index: &Index, hash: u64) -> bool {
        self.make_room(index, hash, 1) && self.has_pages(index)
    }

    /// [`IndexWriter::make_room_for`] several keys, whose insertion can fail for lack of memory
    /// only. A key may be given several times. Sorts the hashes.
    pub(crate) fn make_room_for_all(&mut self, index: &Index, hashes: &mut [u64]) -> bool {
        hashes.sort_unstable(); // The high bits say which shard.
        let mut rest = &hashes[..];
        while let [first, ..] = *rest {
            let shard = index.pages.leaf(first);
            let count = rest.partition_point(|&hash| shard.has(hash));
            // Puts of one key have one hash, and no split would divide them.
            let keys = rest[..count].chunk_by(|a, b| a == b).count();
            if self.has_room(index, &shard, keys) {
                rest = &rest[count..];
            } else if self.split(index, &shard).is_err() {
                return false;
            }
        }
        self.has_pages(index)
    }

    #[inline]
    fn make_room(&mut self, index: &Index, hash: u64, more: usize) -> bool {
        loop {
            let shard = index.pages.leaf(hash);
            if self.has_room(index, &shard, more) {
                return true;
            }
            if self.split(index, &shard).is_err() {
                return false;
            }
        }
    }

    #[inline]
    fn has_room(&self, index: &Index, shard: &Shard, more: usize) -> bool {
        let [used, removed] = self.counts[shard.depth as usize][shard.number];
        (used - removed) as usize + more + 2 * BUFFER_SLOTS <= capacity(index, shard.depth)
    }

    /// Whether there is memory for all entries that may arrive.
    #[inline]
    fn has_pages(&self, index: &Index) -> bool {
        let more = SPARE_PAGES.saturating_sub(self.free.len() as u32);
        let last = self.pages.saturating_add(more);
        index.pages.is_allocated(last) || index.pages.allocate(last).is_ok()
    }

    /// Adds an entry, even if there is one with the same bits.
    pub(crate) fn insert(
        &mut self,
        index: &Index,
        hash: u64,
        location: RecordLocation,
    ) -> Result<(), Full> {
        self.insert_known(index, hash, u64::BITS - 1, location)
    }

    /// [`IndexWriter::insert`] with so many known bits of the hash, at least those that every entry
    /// knows.
    pub(crate) fn insert_known(
        &mut self,
        index: &Index,
        hash: u64,
        known: u32,
        location: RecordLocation,
    ) -> Result<(), Full> {
        loop {
            let shard = index.pages.leaf(hash);
            let new = field(hash, known, shard.depth) << LOCATION_BITS | location.bits();
            let slots = shard.slots();
            let [used, removed] = *self.count(&shard);
            // At most a load of 7/8: beyond that searches get long.
            let is_full = (used as usize + 1) * 8 > slots * 7;
            if !is_full && self.insert_at(&shard, new) {
                self.entries += 1;
                return Ok(());
            }
            let (live, pages) = ((used - removed) as usize, slots / PAGE);
            let is_largest = pages >= PAGES_LAST && removed as usize >= PAGE / 4;
            if is_full && (live * 4 <= slots * 3 || is_largest) {
                // A rebuild drops the marks of removed entries, which is enough.
                self.lay_out(index, &shard, &live_of(&shard), pages.max(1))?;
            } else if pages < PAGES || self.split(index, &shard).is_err() {
                self.lay_out(index, &shard, &live_of(&shard), pages + 1)?;
            }
        }
    }

    /// Adds many entries. Each affected shard is laid out once, which is several times faster than
    /// inserting entries one by one.
    pub(crate) fn fill(&mut self, index: &Index, entries: &SortedEntries) -> Result<(), Full> {
        entries
            .shards()
            .try_for_each(|(number, slots)| self.fill_shard(index, (number, entries.level), slots))
    }

    /// Adds the words of slots, which are sorted, to a shard, given by its number and level.
    fn fill_shard(
        &mut self,
        index: &Index,
        (number, level): (usize, u32),
        more: &[u64],
    ) -> Result<(), Full> {
        if more.is_empty() {
            return Ok(());
        }
        let shard = index.pages.shard(level, number)?;
        let mut live = live_of(&shard);
        if shard.is_split() || live.len() + more.len() > capacity(index, level) {
            for &slot in more {
                let hash = (number as u64) << 32 << (32 - level) | slot >> level;
                // The bits of the location are below those that every entry knows.
                let location = RecordLocation::of_slot(slot);
                self.insert_known(index, hash, index.width(), location)?;
            }
            return Ok(());
        }
        let is_sorted = live.is_empty();
        live.extend_from_slice(more);
        if !is_sorted {
            live.sort_unstable();
        }
        let slots = if level <= ROOMY_LEVEL { live.len() * 5 / 4 } else { live.len() * 8 / 7 };
        let pages = (slots + SLACK).div_ceil(PAGE);
        self.lay_out(index, &shard, &live, pages)?;
        self.entries += more.len() as u64;
        Ok(())
    }

    /// Stores a slot's word after all others of its class. `false` if there is no room towards the
    /// end.
    fn insert_at(&mut self, shard: &Shard, new: u64) -> bool {
        let field = field_of(new);
        let last = shard.last_of_class(field);
        let at = shard.first(shard.home(field), |slot| slot == 0 || field_of(slot) > last);
        let end = shard.first(at, |slot| !is_entry(slot));
        if end >= shard.slots() {
            return false;
        }
        let [used, removed] = self.count(shard);
        match shard.from(end)[0].load(Ordering::Relaxed) {
            0 => *used += 1,
            _ => *removed -= 1,
        }
        shard.shift(at, end);
        shard.from(at)[0].store(new, Failpoint::ShiftRelaxed.instead_of_release());
        true
    }

    /// Replaces the location of an entry, which keeps its known bits. `false` if there is no such
    /// entry. The hash must have the bits that every entry knows.
    pub(crate) fn replace(
        &mut self,
        index: &Index,
        hash: u64,
        old: RecordLocation,
        new: RecordLocation,
    ) -> bool {
        let shard = index.pages.leaf(hash);
        let Some(slot) = shard.slot_of(hash, old) else { return false };
        change(slot, new.bits());
        true
    }

    /// Lets an entry know more bits of its hash, of which these are known. An entry that is gone,
    /// or knows as many, stays as it is.
    pub(crate) fn learn(&mut self, index: &Index, hash: u64, known: u32, location: RecordLocation) {
        let shard = index.pages.leaf(hash);
        let Some(slot) = shard.slot_of(hash, location) else { return };
        let (old, new) = (field_of(slot.load(Ordering::Relaxed)), field(hash, known, shard.depth));
        // The marker is behind the known bits.
        if new.trailing_zeros() < old.trailing_zeros() {
            slot.store(new << LOCATION_BITS | location.bits(), Ordering::Release);
        }
    }

    /// Removes an entry. `false` if there is no such entry. The hash must have the bits that every
    /// entry knows.
    pub(crate) fn remove(&mut self, index: &Index, hash: u64, old: RecordLocation) -> bool {
        let shard = index.pages.leaf(hash);
        let Some(slot) = shard.slot_of(hash, old) else { return false };
        change(slot, REMOVED);
        self.entries -= 1;
        self.count(&shard)[1] += 1;
        true
    }

    /// Replaces the location of an entry and stores the old one in the displaced set, where its
    /// slot must be free. Where several entries have the known bits of the hash, `old` must be of
    /// the new record's key, or the first of them: then searches find the new entry before every
    /// entry that may be of its key.
    pub(crate) fn displace(
        &mut self,
        index: &Index,
        hash: u64,
        old: RecordLocation,
        new: RecordLocation,
    ) {
        let shard = index.pages.leaf(hash);
        let Some(slot) = shard.slot_of(hash, old) else { return };
        let field = field_of(slot.load(Ordering::Relaxed));
        let known = shard.hash_of(field);
        if Failpoint::DisplaceTooLate.is_on() {
            change(slot, new.bits());
        }
        index.displaced.store(index.buffer_slot(hash), Displacement { hash: known, old, new });
        change(slot, new.bits());
    }

    /// Forgets the displaced entry in a slot.
    pub(crate) fn drop_displaced(&mut self, index: &Index, slot: usize) {
        index.displaced.clear(slot);
    }

    /// Restores the displaced entry in a slot to its shard, after the entry that took its slot and
    /// all others of their class.
    pub(crate) fn restore(&mut self, index: &Index, slot: usize) -> Result<(), Full> {
        let Some(Displacement { hash, old, .. }) = index.displaced.get(slot) else { return Ok(()) };
        self.insert_known(index, hash, 63 - hash.trailing_zeros(), old)?;
        if !Failpoint::RestoreWithoutVersion.is_on() {
            let shard = index.pages.leaf(hash);
            shard.publish(shard.word.wrapping_add(1 << 48), Ordering::Release);
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

    /// Divides a shard into two of the next level, by the highest bit of its fields. The others
    /// move up, and below them one more bit is unknown. Does not change the index if it fails.
    #[cold]
    fn split(&mut self, index: &Index, shard: &Shard) -> Result<(), Full> {
        let level = shard.depth;
        if level == index.pages.shape().last {
            return Err(Full);
        }
        self.add_level(index, level + 1)?;
        let mut live = live_of(shard);
        let middle = live.partition_point(|slot| slot >> 63 == 0);
        for slot in &mut live {
            let location = RecordLocation::of_slot(*slot).bits();
            *slot = (field_of(*slot) << (LOCATION_BITS + 1)) | location;
        }
        let (low, high) = live.split_at(middle);
        // A search that begins before this, and runs over pages that are reused after it, sees that
        // the word changed.
        let word = (shard.word >> 48).wrapping_add(1) << 48 | SPLIT;
        if Failpoint::SplitTooEarly.is_on() {
            shard.publish(word, Ordering::Release);
        }
        for (n, half) in [low, high].into_iter().enumerate() {
            let child = index.pages.shard(level + 1, 2 * shard.number + n)?;
            let pages = (half.len() * 8).div_ceil(7 * PAGE);
            self.lay_out(index, &child, half, pages.max(1))?;
        }
        shard.publish(word, Ordering::Release);
        self.free_pages(shard);
        *self.count(shard) = [0, 0];
        self.splits[level as usize] += 1;
        let mut base = index.pages.base();
        while self.splits[base as usize] == 1 << base {
            base += 1;
        }
        index.pages.set_base(base);
        Ok(())
    }

    /// Allocates a level, if necessary, and the counts of its shards.
    fn add_level(&mut self, index: &Index, level: u32) -> Result<(), Full> {
        index.pages.level(level)?;
        let level = level as usize;
        if self.counts.len() <= level {
            self.counts.resize(level + 1, Vec::new());
            self.counts[level] = vec![[0, 0]; 1 << level];
            self.splits.resize(level + 1, 0);
        }
        Ok(())
    }

    #[inline]
    fn count(&mut self, shard: &Shard) -> &mut Count {
        &mut self.counts[shard.depth as usize][shard.number]
    }

    /// Builds a shard of these sorted slots in at least this many new pages, and publishes it.
    fn lay_out(
        &mut self,
        index: &Index,
        old: &Shard,
        live: &[u64],
        mut pages: usize,
    ) -> Result<(), Full> {
        while !fits(old, live, pages) {
            pages += 1;
        }
        if pages > PAGES_MAX {
            return Err(Full);
        }
        let new = self.fresh(index, old, pages)?;
        let (mut next, mut page, mut start) = (0, new.from(0), 0);
        for &slot in live {
            let at = new.home(field_of(slot)).max(next);
            if at >= start + PAGE {
                start = at - at % PAGE;
                page = new.from(start);
            }
            page[at - start].store(slot, Ordering::Release);
            next = at + 1;
        }
        new.publish(new.word, Failpoint::PublishShardRelaxed.instead_of_release());
        *self.count(old) = [live.len() as u32, 0];
        self.free_pages(old);
        Ok(())
    }

    /// Lets the pages of a version of a shard that is no longer published be used again.
    fn free_pages(&mut self, shard: &Shard) {
        let pages = (0..shard.slots() / PAGE).filter_map(|i| shard.page(i));
        self.free.extend(pages.map(|page| shard.half(page.load(Ordering::Relaxed))));
    }

    /// An unpublished version of a shard, of empty pages, listed in the unused half of the
    /// directory.
    fn fresh<'a>(
        &mut self,
        index: &Index,
        old: &Shard<'a>,
        pages: usize,
    ) -> Result<Shard<'a>, Full> {
        let more = if Failpoint::CountNoRebuilds.is_on() { 0 } else { 1 };
        let rebuilds = (old.word >> 48).wrapping_add(more) & 0xFFFF;
        let word = rebuilds << 48 | (pages as u64) << 32 | (old.word & 1 ^ 1);
        let new = old.with_word(word);
        for i in 0..pages {
            let page = u64::from(self.page(index)?);
            let both = new.page(i).ok_or(Full)?;
            let other = both.load(Ordering::Relaxed) & !(0xFFFF_FFFF << new.shift_of_half());
            both.store(other | page << new.shift_of_half(), Ordering::Release);
        }
        new.count_pages(pages);
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

/// Most entries of a shard of a level.
#[inline]
fn capacity(index: &Index, level: u32) -> usize {
    if level < index.pages.shape().last { ENTRIES_MAX } else { ENTRIES_LAST }
}

/// Changes the location in a slot.
fn change(slot: &AtomicU64, location: u64) {
    let field = field_of(slot.load(Ordering::Relaxed));
    slot.store(field << LOCATION_BITS | location, Ordering::Release);
}

/// The entries of a shard, in order.
fn live_of(shard: &Shard) -> Vec<u64> {
    let slots = shard.pages().flatten().map(|slot| slot.load(Ordering::Relaxed));
    slots.filter(|&slot| is_entry(slot)).collect()
}

/// Whether sorted entries of a shard fit into this many pages with load to spare.
fn fits(shard: &Shard, live: &[u64], pages: usize) -> bool {
    let shard = shard.with_word((pages as u64) << 32);
    let (mut next, slots) = (0, shard.slots());
    for &slot in live {
        next = shard.home(field_of(slot)).max(next) + 1;
    }
    next <= slots && live.len() * 8 < slots * 7
}
