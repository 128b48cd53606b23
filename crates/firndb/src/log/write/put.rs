//! Single puts and deletes. A put does not wait for memory: it is deferred.
//!
//! A put needs two facts that cause cache misses: where its key's slot in the index is, and whether
//! the record that the slot names is this key's or one of a key with the same hash bits. It waits
//! for neither. Its index entry goes into the insert buffer (`index/insert_buffer.rs`), where
//! searches find it, and its slot is prefetched. A later write flushes it and settles the entry
//! that it displaced: see `settle.rs`. The next put prefetches the displaced record before it
//! prefetches its own slot. (Doing it at once would not help: if the page table is not in the cache
//! either, the processor waits for it right there.)
//!
//! While there is a snapshot nothing is deferred, because the snapshot preserves what a write
//! replaces at the time of the write. Buffered inserts are in the active segment: a write that
//! begins another segment settles all of them.

use crate::Result;
use crate::log::failpoints::Failpoint;
use crate::log::format::record::Record;
use crate::log::index::hash_index::Matches;
use crate::log::index::insert_buffer::BufferedInsert;
use crate::log::index::slot::RecordLocation;
use crate::log::options::WriteOptions;
use crate::log::segments::reserve::Need;
use crate::log::segments::segment::Segment;
use crate::log::segments::segment_table::SegmentTable;
use crate::log::state::frame::Frame;
use crate::log::state::log_writer::LogWriter;
use crate::log::state::shared::{Shared, WriterGuard, check_key};
use crate::log::write::acknowledge::acknowledge;
use crate::log::write::active_segment::{append, make_room, need_of};
use crate::log::write::apply::{apply, apply_all, check_value, count, current, frame};
use crate::log::write::settle::{flush, lock_settled, touch};

/// Cache lines of a record that contain its key, if that is short.
const KEY_LINES: usize = 2;

/// Writes one put.
pub(crate) fn put(shared: &Shared, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
    check_value(value)?;
    let expires = shared.expiry(options).unwrap_or_default().millis();
    let record = Record { expires, ..Record::put(key, value) };
    check_key(key)?;
    let hash = shared.lookup.hash(key);
    // The slot that this write flushes and settles.
    let slot = shared.lookup.index.buffer_slot(hash);
    prefetch_for(shared, hash, slot);
    let mut frame = Frame::new(record, hash, None);
    let mut writer = lock_with_room(shared, frame.length() as u64)?;
    if put_deferred(shared, &mut writer, &frame, slot)? {
        let position = writer.position();
        drop(writer);
        return acknowledge(shared, position, options);
    }
    drop(writer);
    frame.seen = shared.lookup.locate(key, hash)?;
    write(shared, &[frame], options)
}

/// Writes a delete. Returns whether the key was there.
pub(crate) fn delete(shared: &Shared, key: &[u8], options: WriteOptions) -> Result<bool> {
    let frame = frame(shared, Record::delete(key))?;
    let (position, is_expired) = {
        let mut writer = lock_settled(shared)?;
        let Some(old) = current(shared, &frame)? else { return Ok(false) };
        make_room(shared, &mut writer, (frame.length() as u64, 1), Need::Delete)?;
        apply(shared, &mut writer, &frame, Need::Delete)?;
        (writer.position(), old.is_expired)
    };
    acknowledge(shared, position, options)?;
    Ok(!is_expired)
}

/// Appends frames as one unit and makes them visible.
pub(crate) fn write(shared: &Shared, frames: &[Frame], options: WriteOptions) -> Result<()> {
    write_checked(shared, frames, options, || Ok(true)).map(|_| ())
}

/// [`write`], if `is_wanted` returns true under the writer's lock. Returns what that returned.
pub(crate) fn write_checked(
    shared: &Shared,
    frames: &[Frame],
    options: WriteOptions,
    is_wanted: impl FnOnce() -> Result<bool>,
) -> Result<bool> {
    let bytes: u64 = frames.iter().map(|frame| frame.length() as u64).sum();
    let position = {
        let (mut writer, need) = (lock_settled(shared)?, need_of(frames));
        if !is_wanted()? {
            return Ok(false);
        }
        if frames.is_empty() {
            return Ok(true);
        }
        make_room(shared, &mut writer, (bytes, frames.len() as u64), need)?;
        match frames {
            [frame] => apply(shared, &mut writer, frame, need)?,
            _ => apply_all(shared, &mut writer, frames, need)?,
        }
        writer.position()
    };
    acknowledge(shared, position, options).map(|()| true)
}

/// Locks the writer without settling, unless a record of this length needs another segment:
/// beginning one settles all deferred puts, and the records for that are better read before the
/// lock is taken.
fn lock_with_room(shared: &Shared, bytes: u64) -> Result<WriterGuard<'_>> {
    let writer = shared.lock_writer()?;
    if !writer.must_roll(bytes, 1) {
        return Ok(writer);
    }
    drop(writer);
    lock_settled(shared)
}

/// Locks the writer for a record of this length, with no deferred put of a key with the bits of
/// this hash. Settling everything for each of many records would block other writers.
pub(crate) fn lock_for(shared: &Shared, hash: u64, bytes: u64) -> Result<WriterGuard<'_>> {
    let writer = lock_with_room(shared, bytes)?;
    if !shared.lookup.index.is_deferred(hash) || Failpoint::MoveOverDeferred.is_on() {
        return Ok(writer);
    }
    drop(writer);
    lock_settled(shared)
}

/// Prefetches the slots of the index that a put of this hash needs and the record that the last put
/// displaced, and reads the record that this put will settle.
fn prefetch_for(shared: &Shared, hash: u64, slot: usize) {
    let index = &shared.lookup.index;
    let [last, settled] = [index.displaced.last(), index.displaced.get(slot)];
    if last.is_none() && settled.is_none() {
        return index.prefetch(hash);
    }
    // A location from before the table was loaded may mean another segment in it, which is
    // harmless.
    let table = shared.lookup.segments.load();
    last.inspect(|displacement| prefetch_key(&table, displacement.old));
    index.prefetch(hash);
    settled.inspect(|displacement| touch(&table, displacement.old));
}

/// Prefetches the key of a record.
fn prefetch_key(segments: &SegmentTable<Segment>, location: RecordLocation) {
    if let Some(segment) = segments.get(location.segment()) {
        segment.prefetch(location, KEY_LINES);
    }
}

/// Writes a put if that needs neither the whole index nor another record. Returns whether it did.
fn put_deferred(
    shared: &Shared,
    writer: &mut LogWriter,
    frame: &Frame,
    slot: usize,
) -> Result<bool> {
    let index = &shared.lookup.index;
    make_room(shared, writer, (frame.length() as u64, 1), Need::Fill)?;
    if !shared.snapshots.is_empty() {
        // Then nothing is deferred.
        if index.matches(frame.hash) != Matches::Nothing {
            return Ok(false);
        }
        return apply(shared, writer, frame, Need::Fill).map(|()| true);
    }
    // Where the index is almost full, only the key's record says whether it needs room.
    if !flush(shared, writer, slot, false)? || !writer.index.make_room_for(index, frame.hash) {
        return Ok(false);
    }
    let location = append(shared, writer, frame, Need::Fill)?;
    writer.index.buffer_insert(index, BufferedInsert { hash: frame.hash, location });
    count(shared, writer, frame);
    Ok(true)
}
