//! Writing: every call becomes records, appended and made visible under the writer's lock.

use crate::log::expiry::Expiry;
use crate::log::failpoints::Failpoint;
use crate::log::format::record::{Kind, MAX_VALUE, Record};
use crate::log::index::pages::Full;
use crate::log::index::slot::RecordLocation;
use crate::log::open::store::{LogStore, Shared, check_key};
use crate::log::options::{Durability, WriteOptions};
use crate::log::segments::reserve::Need;
use crate::log::stats::{add, subtract};
use crate::log::write::batch::Batch;
use crate::log::write::writer::{Frame, Writer};
use crate::{Error, ErrorKind, Result};
use std::cell::LazyCell;
use std::sync::atomic::Ordering;

impl LogStore {
    /// Sets the value of a key. The record stays: an expiry that the key had is gone.
    ///
    /// A key has at most 65,536 bytes, a value at most 4 GiB - 1. An error of kind `Io` for want of
    /// space leaves the store as it was, and open for writing.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// [`LogStore::put`] with a durability or an expiry of its own.
    pub fn put_with(&self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        check_value(value)?;
        let expires = self.shared.expiry(options).unwrap_or_default().millis();
        let record = Record { expires, ..Record::put(key, value) };
        self.shared.put(record, options)
    }

    /// Removes a key. `false` if it is absent. Then nothing is written, but for a key whose record
    /// has expired: it is removed for good, so that no clock that is set back shows it again.
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        self.delete_with(key, WriteOptions::default())
    }

    /// [`LogStore::delete`] with a durability of its own.
    pub fn delete_with(&self, key: &[u8], options: WriteOptions) -> Result<bool> {
        let shared = &*self.shared;
        let frame = shared.frame(Record::delete(key))?;
        let (position, is_expired) = {
            let mut writer = shared.writer()?;
            let Some(old) = shared.current(&frame)? else { return Ok(false) };
            writer.make_room(shared, frame.length() as u64, 1, Need::Delete)?;
            writer.apply(shared, &frame, Need::Delete)?;
            (writer.position(), old.is_expired)
        };
        shared.acknowledge(position, options)?;
        Ok(!is_expired)
    }

    /// Applies all changes of a batch, or none: also after a crash, and in snapshots. A key that is
    /// in it twice gets the later change.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.write_with(batch, WriteOptions::default())
    }

    /// [`LogStore::write`] with a durability of its own, or an expiry for the puts that say nothing
    /// about theirs. All times to live count from the same moment.
    pub fn write_with(&self, batch: &Batch, options: WriteOptions) -> Result<()> {
        let shared = &*self.shared;
        let now = LazyCell::new(|| shared.now());
        let usual = options.lifetime().expiry(|| *now).unwrap_or_default();
        let records = batch.records(|lifetime| lifetime.expiry(|| *now).unwrap_or(usual));
        let last = records.len().saturating_sub(1);
        let frames = records.into_iter().enumerate().map(|(n, record)| {
            check_value(record.value)?;
            shared.frame(Record { more: n < last, ..record })
        });
        let frames = frames.collect::<Result<Vec<_>>>()?;
        if frames.is_empty() {
            return Ok(());
        }
        shared.write(&frames, options)
    }

    /// Writes a batch whose puts expire at a given time.
    pub(crate) fn write_expiring(&self, batch: &Batch, expires: Option<u64>) -> Result<()> {
        self.write_with(batch, WriteOptions::default().with_expiry(Expiry::of(expires)))
    }
}

/// The record a key has now.
pub(crate) struct Current {
    pub(crate) place: RecordLocation,
    length: u64,
    pub(crate) is_expired: bool,
}

impl Shared {
    /// Prepares a record outside of the lock.
    pub(crate) fn frame<'a>(&self, record: Record<'a>) -> Result<Frame<'a>> {
        check_key(record.key)?;
        let hash = self.hash(record.key);
        self.index.prefetch(hash);
        let mut frame = Frame::new(record, hash, None);
        // Brings the old record into memory, so that nobody waits for the disk under the lock.
        frame.seen = self.locate(record.key, hash)?;
        Ok(frame)
    }

    /// Appends frames as one unit and makes them visible.
    pub(crate) fn write(&self, frames: &[Frame], options: WriteOptions) -> Result<()> {
        let bytes: u64 = frames.iter().map(|frame| frame.length() as u64).sum();
        let position = {
            let (mut writer, need) = (self.writer()?, Need::of(frames));
            writer.make_room(self, bytes, frames.len() as u64, need)?;
            match frames {
                [frame] => writer.apply(self, frame, need)?,
                _ => writer.apply_all(self, frames, need)?,
            }
            writer.position()
        };
        self.acknowledge(position, options)
    }

    /// Returns when a write that ends at `position` is as durable as it shall be.
    pub(crate) fn acknowledge(&self, position: (u64, u64), options: WriteOptions) -> Result<()> {
        self.keep_pace();
        match options.durability.unwrap_or(self.options.durability) {
            Durability::Os => Ok(()),
            Durability::Sync if Failpoint::AcknowledgeWithoutSync.is_on() => Ok(()),
            Durability::Sync => self.make_durable(position),
        }
    }

    /// The record of a frame's key; the caller holds the writer's lock.
    pub(crate) fn current(&self, frame: &Frame) -> Result<Option<Current>> {
        let (table, mut room) = (self.table.load(), Vec::new());
        let found = self.index.find(frame.hash, |place| {
            let segment = table.get(place.segment())?;
            let offset = segment.offset(place);
            let is_seen = frame.seen == Some(place);
            if is_seen {
                match segment.peek(offset, &mut room) {
                    Err(e) => return Some(Err(e)),
                    Ok((record, length)) if record.key == frame.record.key => {
                        let is_expired = self.is_expired(&record);
                        return Some(Ok(Current { place, length: length as u64, is_expired }));
                    }
                    Ok(_) => {}
                }
            }
            // Not looked at before the lock was taken, so not checked yet.
            match segment.read(offset, &mut room) {
                Err(e) => Some(Err(e)),
                Ok((record, _)) if record.key != frame.record.key => None,
                Ok((record, length)) => {
                    let is_expired = self.is_expired(&record);
                    Some(Ok(Current { place, length: length as u64, is_expired }))
                }
            }
        });
        found.transpose()
    }
}

impl Writer {
    /// Appends a record and changes the index accordingly. There must be room, and nothing
    /// pending of keys with the bits of its hash.
    pub(crate) fn apply(&mut self, shared: &Shared, frame: &Frame, need: Need) -> Result<()> {
        let old = shared.current(frame)?;
        if old.is_none() && frame.record.kind == Kind::Put {
            self.check_index(shared, &mut [frame.hash])?;
        }
        let place = self.append(shared, frame, need)?;
        self.publish(shared, frame, old, place)
    }

    /// [`Writer::apply`] for all records of a batch, or none. What has to be read is read before
    /// they are appended: after that a failing read would leave a part of the batch visible.
    fn apply_all(&mut self, shared: &Shared, frames: &[Frame], need: Need) -> Result<()> {
        let found = frames.iter().map(|frame| shared.current(frame));
        let found = found.collect::<Result<Vec<_>>>()?;
        let is_new = |(frame, old): &(&Frame, &Option<Current>)| {
            old.is_none() && frame.record.kind == Kind::Put
        };
        let new = frames.iter().zip(&found).filter(is_new);
        self.check_index(shared, &mut new.map(|(frame, _)| frame.hash).collect::<Vec<_>>())?;
        let places = self.append_all(shared, frames, need)?;
        for ((frame, &place), found) in frames.iter().zip(&places).zip(found) {
            // A key may be in the batch twice: then the index has its earlier record by now.
            let earlier = shared.index.find(frame.hash, |old| {
                let earlier = &frames[places.binary_search(&old).ok()?];
                let length = earlier.length() as u64;
                let same = Current { place: old, length, is_expired: false };
                (earlier.record.key == frame.record.key).then_some(same)
            });
            let found = found.filter(|found| shared.holds(frame.hash, found.place));
            self.publish(shared, frame, earlier.or(found), place)?;
        }
        Ok(())
    }

    /// `Failed` if the index has no room for new keys with these hashes. Called before anything is
    /// appended: a record that is in the log must find its place in the index at each opening.
    fn check_index(&self, shared: &Shared, hashes: &mut [u64]) -> Result<()> {
        match self.index.has_room(&shared.index, hashes) {
            true => Ok(()),
            false => Err(full().in_file(&shared.dir)),
        }
    }

    /// Takes an entry out of the index without a record in the log: for a key that is gone from
    /// the log altogether once its record is.
    pub(crate) fn forget(
        &mut self,
        shared: &Shared,
        hash: u64,
        place: RecordLocation,
    ) -> Result<()> {
        let table = shared.table.load();
        let Some(segment) = table.get(place.segment()) else { return Ok(()) };
        let mut room = Vec::new();
        let (_, length) = segment.read(segment.offset(place), &mut room)?;
        shared.preserve(hash, place);
        if self.index.remove(&shared.index, hash, place) {
            segment.retire(length as u64);
            subtract(&shared.counters.live_bytes, length as u64);
            shared.counters.keys.store(self.index.entries(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes the index point to a record that was appended.
    fn publish(
        &mut self,
        shared: &Shared,
        frame: &Frame,
        old: Option<Current>,
        place: RecordLocation,
    ) -> Result<()> {
        if let Some(old) = &old {
            shared.preserve(frame.hash, old.place);
            if let Some(segment) = shared.table.load().get(old.place.segment()) {
                segment.retire(old.length);
            }
            subtract(&shared.counters.live_bytes, old.length);
        }
        match (frame.record.kind == Kind::Put, old) {
            (true, Some(old)) => {
                self.index.replace(&shared.index, frame.hash, old.place, place);
            }
            (true, None) => {
                let inserted = self.index.insert(&shared.index, frame.hash, place);
                inserted.map_err(|Full| full()).inspect_err(|e| shared.fail(e))?;
            }
            (false, Some(old)) => {
                self.index.remove(&shared.index, frame.hash, old.place);
            }
            (false, None) => {}
        }
        shared.counters.keys.store(self.index.entries(), Ordering::Relaxed);
        self.count(shared, frame);
        Ok(())
    }

    /// Counts a record that was appended.
    pub(crate) fn count(&self, shared: &Shared, frame: &Frame) {
        let (counters, length) = (&shared.counters, frame.length() as u64);
        let user = (frame.record.key.len() + frame.record.value.len()) as u64;
        let is_put = frame.record.kind == Kind::Put;
        if frame.record.moved {
            add(&counters.moved_bytes, length);
        } else {
            add(&counters.log_bytes, length);
            add(&counters.user_bytes, user);
            let kind = if is_put { &counters.puts } else { &counters.deletes };
            add(kind, 1);
        }
        if is_put {
            add(&self.segment.live, length);
            add(&counters.live_bytes, length);
        } else {
            add(&self.segment.deletes, length);
        }
    }
}

pub(crate) fn check_value(value: &[u8]) -> Result<()> {
    if value.len() <= MAX_VALUE {
        return Ok(());
    }
    Err(Error::invalid(format!("a value of {} bytes; at most {MAX_VALUE}", value.len())))
}

pub(crate) fn full() -> Error {
    let message = "the index is full: a store has some 230 million keys at most, and needs about \
                   10 bytes of memory for each; remove keys, or divide them among several stores";
    Error::new(ErrorKind::Failed, message)
}
