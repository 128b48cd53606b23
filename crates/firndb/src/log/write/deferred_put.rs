//! Puts that do not wait for memory.
//!
//! A put has to know two things that memory tells late: where its key's slot in the index is, and
//! whether the record that the slot names is this key's or one of a key with the same bits. It
//! waits for neither. Its entry is *late* (`index/late.rs`): searches find it, and the memory of
//! its slot is asked for. A later write *enters* it: where no entry has its bits, it is a new one;
//! where there is one, it takes that one's slot, and the old entry is put aside (`index/aside.rs`),
//! where searches still find it. The old one is *pending* until another write *settles* it: the
//! record is the same key's, and is counted as stale; or it is not, and its entry goes back into
//! the index.
//!
//! The next put asks for the memory of that record before it asks for that of its own slot. (To ask
//! at once would be no use: where the page table is not in the cache either, a processor waits for
//! it right there.)
//!
//! Only puts of one key, compaction and a close take the lock with something pending
//! ([`Shared::unsettled`]): for everybody else [`Shared::writer`] settles it first, so that the
//! index has one place for each key, and all bytes are counted. While there is a snapshot nothing
//! is pending: what it shows is noted when it is replaced. BufferedInsert entries are of the active segment:
//! whoever begins another settles all.

use crate::log::failpoints::Failpoint;
use crate::log::format::record::Record;
use crate::log::index::hash_index::Matches;
use crate::log::index::insert_buffer::BufferedInsert;
use crate::log::index::pages::Full;
use crate::log::index::slot::RecordLocation;
use crate::log::open::store::{Shared, Writing, check_key};
use crate::log::options::WriteOptions;
use crate::log::segments::reserve::Need;
use crate::log::segments::segment::Table;
use crate::log::stats::subtract;
use crate::log::write::put::full;
use crate::log::write::writer::{Frame, Writer};
use crate::{ErrorKind, Result};
use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

/// Cache lines of a record in which its key is, if it is short.
const KEY_LINES: usize = 2;

impl Shared {
    /// Writes one put.
    pub(crate) fn put(&self, record: Record, options: WriteOptions) -> Result<()> {
        check_key(record.key)?;
        let hash = self.hash(record.key);
        // What this write will enter and settle.
        let slot = self.index.buffer_slot(hash);
        self.ask_for_pending(hash, slot);
        let mut frame = Frame::new(record, hash, None);
        let mut writer = self.room_for(frame.length() as u64)?;
        if writer.put_unread(self, &frame, slot)? {
            let position = writer.position();
            drop(writer);
            return self.acknowledge(position, options);
        }
        drop(writer);
        frame.seen = self.locate(record.key, hash)?;
        self.write(&[frame], options)
    }

    /// The writer's lock, whatever is pending, unless a record of this length takes another
    /// segment: to begin one all is settled, and not under the lock what has to be read for it.
    fn room_for(&self, bytes: u64) -> Result<Writing<'_>> {
        let writer = self.unsettled()?;
        if !writer.must_roll(bytes, 1) {
            return Ok(writer);
        }
        drop(writer);
        self.writer()
    }

    /// The writer's lock for a record of this length, with nothing pending of the keys that have
    /// the bits of this hash. Who settled all for each of many records would have others wait.
    pub(crate) fn writer_of(&self, hash: u64, bytes: u64) -> Result<Writing<'_>> {
        let writer = self.room_for(bytes)?;
        if !self.index.is_deferred(hash) || Failpoint::MoveOverDeferred.is_on() {
            return Ok(writer);
        }
        drop(writer);
        self.writer()
    }

    /// Asks for the memory of the index that a put of a key needs, and of the record that the last
    /// put did not wait for; waits for that which this one will settle.
    fn ask_for_pending(&self, hash: u64, slot: usize) {
        let [last, settled] = [self.index.displaced.last(), self.index.displaced.get(slot)];
        if last.is_none() && settled.is_none() {
            return self.index.prefetch(hash);
        }
        // A place from before the table may mean another segment in it: then that is asked for.
        let table = self.table.load();
        last.inspect(|replaced| ask_for(&table, replaced.old));
        self.index.prefetch(hash);
        settled.inspect(|replaced| touch(&table, replaced.old));
    }

    /// [`Shared::settle`], for the counts of keys and bytes. A forked child has them as they were
    /// at the fork: a thread of the parent may have held the lock then, and here it never lets go.
    pub(crate) fn settle_counts(&self) {
        if !self.fork.is_child() {
            drop(self.settle());
        }
    }

    /// Settles what is pending, whether or not anything can be written. Until then new keys are not
    /// counted that are late, nor others that had the same bits as one before; and the bytes of
    /// what was replaced count as live.
    pub(crate) fn settle(&self) -> MutexGuard<'_, Option<Writer>> {
        self.touch_pending();
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = &mut *writer {
            // What cannot be settled stays visible, and nothing is written any more.
            let _ = writer.settle_all(self);
        }
        writer
    }

    /// Brings what is pending into memory, so that nobody waits for the disk under the lock.
    pub(crate) fn touch_pending(&self) {
        let late = self.index.inserts.occupied().filter_map(|slot| self.index.inserts.get(slot));
        let aside =
            self.index.displaced.occupied().filter_map(|slot| self.index.displaced.get(slot));
        let mut table = None;
        let mut touch = |place| touch(table.get_or_insert_with(|| self.table.load()), place);
        for late in late {
            self.index.find(late.hash, |place| {
                touch(place);
                None::<()>
            });
        }
        aside.for_each(|replaced| touch(replaced.old));
    }
}

/// Asks for the key of a record.
fn ask_for(table: &Table, place: RecordLocation) {
    if let Some(segment) = table.get(place.segment()) {
        segment.prefetch(place, KEY_LINES);
    }
}

/// Waits for the key of a record.
fn touch(table: &Table, place: RecordLocation) {
    if let Some(segment) = table.get(place.segment()) {
        let mut room = Vec::new();
        let record = segment.peek(segment.offset(place), &mut room);
        black_box(record.map_or(None, |(record, _)| record.key.last()));
    }
}

/// The entry with the bits of a late one's hash that it replaces: the one of its key. Without one
/// the first, which comes back behind all others when it is settled: so the new one is found before
/// a damaged record, of which nobody knows whether it is of its key.
fn replaced_by(shared: &Shared, late: BufferedInsert) -> Result<Option<RecordLocation>> {
    let table = shared.table.load();
    let (mut room, mut other) = (Vec::new(), Vec::new());
    let (key, mut first) = (key_at(&table, late.location, &mut room)?, None);
    let same = shared.index.find_in_shard(late.hash, |place| {
        first.get_or_insert(place);
        let same = key_at(&table, place, &mut other).map(|found| found == key);
        same.map(|is_same| is_same.then_some(place)).transpose()
    });
    Ok(same.transpose()?.or(first))
}

/// The key of a record; `None` if it is damaged. An error of the disk is none of the record: what
/// is pending stays pending.
fn key_at<'a>(
    table: &'a Table,
    place: RecordLocation,
    room: &'a mut Vec<u8>,
) -> Result<Option<&'a [u8]>> {
    let Some(segment) = table.get(place.segment()) else { return Ok(None) };
    match segment.peek(segment.offset(place), room) {
        Ok((record, _)) => Ok(Some(record.key)),
        Err(e) if e.kind() == ErrorKind::Corrupt => Ok(None),
        Err(e) => Err(e),
    }
}

impl Writer {
    /// Writes a put, if neither the index as a whole nor a record has to be looked at for it;
    /// whether it did.
    fn put_unread(&mut self, shared: &Shared, frame: &Frame, slot: usize) -> Result<bool> {
        self.make_room(shared, frame.length() as u64, 1, Need::Fill)?;
        if shared.view_count.load(Ordering::Acquire) > 0 {
            // Then nothing is pending.
            let is_new = shared.index.matches(frame.hash) == Matches::Nothing;
            return if is_new {
                self.apply(shared, frame, Need::Fill).map(|()| true)
            } else {
                Ok(false)
            };
        }
        // Where the index is almost full, only the key's record tells whether it needs room.
        if !self.enter(shared, slot, false)? || !self.index.has_room_for(&shared.index, frame.hash)
        {
            return Ok(false);
        }
        let place = self.append(shared, frame, Need::Fill)?;
        self.index
            .buffer_insert(&shared.index, BufferedInsert { hash: frame.hash, location: place });
        self.count(shared, frame);
        Ok(true)
    }

    /// Enters and settles all that is pending, and counts the keys. What an error leaves pending is
    /// still found, and a later call settles it. Until then it counts as what it most likely is,
    /// for keys hardly ever share the bits of a hash: a new record of the key that it replaces.
    pub(crate) fn settle_all(&mut self, shared: &Shared) -> Result<()> {
        let (index, mut done) = (&shared.index, Ok(()));
        for slot in index.inserts.occupied() {
            done = done.and(self.enter(shared, slot, true).map(|_| ()));
        }
        for slot in index.displaced.occupied() {
            done = done.and(self.settle(shared, slot));
        }
        let late = index.inserts.occupied().filter_map(|slot| index.inserts.get(slot));
        let new = late.filter(|late| index.matches(late.hash) == Matches::Nothing).count();
        shared.counters.keys.store(self.index.entries() + new as u64, Ordering::Relaxed);
        done
    }

    /// Enters what is late in this slot into the index. `false` if one of several entries has to be
    /// chosen, for which their records have to be read, and that `may_read` forbids.
    fn enter(&mut self, shared: &Shared, slot: usize, may_read: bool) -> Result<bool> {
        let Some(late) = shared.index.inserts.get(slot) else { return Ok(true) };
        self.settle(shared, slot)?;
        let over = match shared.index.matches(late.hash) {
            Matches::Nothing => None,
            Matches::One(place) => Some(place),
            Matches::Several if may_read => replaced_by(shared, late)?,
            Matches::Several => return Ok(false),
        };
        let entered = self.index.flush_insert(&shared.index, slot, over);
        entered.map_err(|Full| full()).inspect_err(|e| shared.fail(e))?;
        shared.counters.keys.store(self.index.entries(), Ordering::Relaxed);
        Ok(true)
    }

    /// Settles what is pending in this slot aside, if something is. There is no snapshot that could
    /// show it.
    fn settle(&mut self, shared: &Shared, slot: usize) -> Result<()> {
        let Some(replaced) = shared.index.displaced.get(slot) else { return Ok(()) };
        let table = shared.table.load();
        let (mut room, mut other) = (Vec::new(), Vec::new());
        let new = key_at(&table, replaced.new, &mut room)?;
        let old = key_at(&table, replaced.old, &mut other)?;
        if let (Some(segment), Some(_)) = (table.get(replaced.old.segment()), old)
            && (old == new || Failpoint::SettleWithoutComparing.is_on())
        {
            let (_, length) = segment.peek(segment.offset(replaced.old), &mut other)?;
            segment.retire(length as u64);
            subtract(&shared.counters.live_bytes, length as u64);
            self.index.drop_displaced(&shared.index, slot);
            return Ok(());
        }
        // Another key's, which must stay readable; or damaged, and then nobody knows whose it was.
        // Where it was this key's, searches find the new record first.
        let given = self.index.restore(&shared.index, slot);
        given.map_err(|Full| full()).inspect_err(|e| shared.fail(e))?;
        shared.counters.keys.store(self.index.entries(), Ordering::Relaxed);
        Ok(())
    }
}
