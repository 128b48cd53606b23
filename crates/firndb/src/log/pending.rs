//! Updates that wait for memory once: a put does not wait for the record that it replaces.
//!
//! The index says where a key's old record is, but only the record says that it is this key's, not
//! one of a key with the same bits. So a put that finds one entry goes on without: under the lock
//! the new entry takes the slot, and the old one is put aside (`index/aside.rs`), where searches
//! still find it. It is *pending* until a later write *settles* it: the record is the same key's,
//! and is counted as stale; or it is not, and its entry goes back into the index.
//!
//! The next put asks for the memory of that record before it searches the index for its own key:
//! then a processor waits for both at the same time. (To ask at once would be no use: where the
//! page table is not in the cache either, it waits for that right there.)
//!
//! Only puts of one key take the lock with something pending ([`Shared::unsettled`]): for
//! everybody else [`Shared::writer`] settles it first, so that the index has one place for each
//! key, and all bytes are counted. While there is a snapshot nothing is pending: what it shows is
//! noted when it is replaced.

use super::bug::Bug;
use super::format::Record;
use super::index::{Found, Full, Place};
use super::options::WriteOptions;
use super::reserve::Need;
use super::segment::Table;
use super::stats::subtract;
use super::store::{Shared, check_key};
use super::write::{Old, full};
use super::writer::{Frame, Writer};
use crate::Result;
use crate::bytes::prefetch::prefetch;
use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

/// Cache lines of a record in which its key is, if it is short.
const KEY_LINES: usize = 2;

impl Shared {
    /// Writes one put.
    pub(super) fn put(&self, record: Record, options: WriteOptions) -> Result<()> {
        check_key(record.key)?;
        let hash = self.hash(record.key);
        // What this write will settle.
        let slot = self.index.slot_aside(hash);
        self.ask_for_pending(hash, slot);
        let mut frame = Frame::new(record, hash, None);
        let mut writer = self.unsettled()?;
        writer.make_room(self, frame.length() as u64, 1, Need::Fill)?;
        // Searched once, here: the processor copies the record while it waits for the index, which
        // it would not do across the taking of a lock.
        if let Some(old) = self.without_reading(self.index.found(hash)) {
            writer.settle(self, slot)?;
            writer.apply_over(self, &frame, old)?;
            let position = writer.position();
            drop(writer);
            return self.acknowledge(position, options);
        }
        drop(writer);
        frame.seen = self.locate(record.key, hash)?;
        self.write(&[frame], options)
    }

    /// Asks for the memory of the index that a put of a key needs, and of the record that the last
    /// put did not wait for; waits for that which this one will settle.
    fn ask_for_pending(&self, hash: u64, slot: usize) {
        let [last, settled] = [self.index.last_aside(), self.index.aside(slot)];
        if last.is_none() && settled.is_none() {
            return self.index.prefetch(hash);
        }
        // A place from before the table may mean another segment in it: then that is asked for.
        let table = self.table.load();
        last.inspect(|replaced| ask_for(&table, replaced.old));
        self.index.prefetch(hash);
        settled.inspect(|replaced| touch(&table, replaced.old));
    }

    /// What a put replaces, if it need not read a record first.
    fn without_reading(&self, found: Found) -> Option<Old> {
        match found {
            Found::Nothing => Some(Old::Nothing),
            Found::One(place) if self.view_count.load(Ordering::Acquire) == 0 => {
                Some(Old::Pending(place))
            }
            _ => None,
        }
    }

    /// Settles what is pending, whether or not anything can be written: until then keys are counted
    /// as if all replaced records had been of the same keys, and bytes as if none had.
    pub(super) fn settle(&self) -> MutexGuard<'_, Option<Writer>> {
        self.touch_pending();
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = &mut *writer {
            // What cannot be settled stays visible, and nothing is written any more.
            let _ = writer.settle_all(self);
        }
        writer
    }

    /// Brings what is pending into memory, so that nobody waits for the disk under the lock.
    pub(super) fn touch_pending(&self) {
        let mut slots = self.index.taken_aside().peekable();
        if slots.peek().is_some() {
            let table = self.table.load();
            let replaced = slots.filter_map(|slot| self.index.aside(slot));
            replaced.for_each(|replaced| touch(&table, replaced.old));
        }
    }
}

/// Asks for the key of a record.
fn ask_for(table: &Table, place: Place) {
    if let Some(segment) = table.get(place.segment()) {
        let bytes = segment.filled().get(segment.offset(place) as usize..);
        prefetch(bytes.unwrap_or_default(), KEY_LINES);
    }
}

/// Waits for the key of a record.
fn touch(table: &Table, place: Place) {
    if let Some(segment) = table.get(place.segment()) {
        let record = segment.peek(segment.offset(place));
        black_box(record.and_then(|(record, _)| record.key.last()));
    }
}

impl Writer {
    /// Settles all that is pending.
    pub(super) fn settle_all(&mut self, shared: &Shared) -> Result<()> {
        shared.index.taken_aside().try_for_each(|slot| self.settle(shared, slot))
    }

    /// Settles what is pending in this slot aside, if something is. There is no snapshot that could
    /// show it.
    fn settle(&mut self, shared: &Shared, slot: usize) -> Result<()> {
        let Some(replaced) = shared.index.aside(slot) else { return Ok(()) };
        let table = shared.table.load();
        let record = |place: Place| {
            let segment = table.get(place.segment())?;
            segment.peek(segment.offset(place)).map(|found| (segment, found))
        };
        let new = record(replaced.new).map(|(_, (new, _))| new.key);
        if let Some((segment, (old, length))) = record(replaced.old)
            && (Some(old.key) == new || Bug::SettleBlindly.is_on())
        {
            segment.retire(length as u64);
            subtract(&shared.counters.live_bytes, length as u64);
            self.index.drop_aside(&shared.index, slot);
            return Ok(());
        }
        // Another key's, which must stay readable; or damaged, and then nobody knows whose it was.
        // Where it was this key's, searches find the new record first.
        let given = self.index.give_back(&shared.index, slot);
        given.map_err(|Full| full()).inspect_err(|e| shared.fail(e))?;
        shared.counters.keys.store(self.index.entries(), Ordering::Relaxed);
        Ok(())
    }
}
