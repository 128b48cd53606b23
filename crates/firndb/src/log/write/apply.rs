//! Applying records: appending them and changing the index accordingly.

use crate::log::format::record::{Kind, MAX_VALUE, Record};
use crate::log::index::slot::RecordLocation;
use crate::log::segments::counter::{add, subtract};
use crate::log::segments::reserve::Need;
use crate::log::state::frame::Frame;
use crate::log::state::log_writer::LogWriter;
use crate::log::state::lookup::index_full;
use crate::log::state::shared::{Shared, check_key};
use crate::log::write::active_segment::{append, append_all};
use crate::{Error, Result};
use std::sync::atomic::Ordering;

/// The current record of a key.
pub(crate) struct Current {
    pub(crate) location: RecordLocation,
    length: u64,
    pub(crate) version: u64,
    pub(crate) is_expired: bool,
}

/// Prepares a record before the writer's lock is taken.
pub(crate) fn frame<'a>(shared: &Shared, record: Record<'a>) -> Result<Frame<'a>> {
    check_key(record.key)?;
    let hash = shared.lookup.hash(record.key);
    shared.lookup.index.prefetch(hash);
    let mut frame = Frame::new(record, hash, None);
    // Reads the old record, so that no writer waits for the disk under the lock.
    frame.seen = shared.lookup.locate(record.key, hash)?;
    Ok(frame)
}

/// The current record of a frame's key. The caller holds the writer's lock.
pub(crate) fn current(shared: &Shared, frame: &Frame) -> Result<Option<Current>> {
    current_of(shared, frame.record.key, frame.hash, frame.seen)
}

/// The current record of a key, which was at `seen` before the lock was taken. The caller holds the
/// writer's lock.
pub(crate) fn current_of(
    shared: &Shared,
    key: &[u8],
    hash: u64,
    seen: Option<RecordLocation>,
) -> Result<Option<Current>> {
    let (table, mut buffer) = (shared.lookup.segments.load(), Vec::new());
    let found = shared.lookup.index.find(hash, |location| {
        let segment = table.get(location.segment())?;
        let offset = segment.offset(location);
        let current = |record: &Record, length: usize| Current {
            location,
            length: length as u64,
            version: record.version(segment.number, offset),
            is_expired: shared.is_expired(record),
        };
        if seen == Some(location) {
            match segment.peek(offset, &mut buffer) {
                Err(e) => return Some(Err(e)),
                Ok((record, length)) if record.key == key => {
                    return Some(Ok(current(&record, length)));
                }
                Ok(_) => {}
            }
        }
        // Not read before the lock was taken, so not checked yet.
        match segment.read(offset, &mut buffer) {
            Err(e) => Some(Err(e)),
            Ok((record, _)) if record.key != key => None,
            Ok((record, length)) => Some(Ok(current(&record, length))),
        }
    });
    found.transpose()
}

/// Appends a record and changes the index accordingly. There must be room, and no deferred put of a
/// key with the bits of its hash.
pub(crate) fn apply(
    shared: &Shared,
    writer: &mut LogWriter,
    frame: &Frame,
    need: Need,
) -> Result<()> {
    let old = current(shared, frame)?;
    if old.is_none() && frame.record.kind == Kind::Put {
        check_index(shared, writer, &mut [frame.hash])?;
    }
    let location = append(shared, writer, frame, need)?;
    publish(shared, writer, frame, old, location)
}

/// [`apply`] for all records of a batch, or none. Everything that has to be read is read before the
/// records are appended: after that, a failing read would leave a part of the batch visible.
pub(crate) fn apply_all(
    shared: &Shared,
    writer: &mut LogWriter,
    frames: &[Frame],
    need: Need,
) -> Result<()> {
    let found = frames.iter().map(|frame| current(shared, frame));
    let found = found.collect::<Result<Vec<_>>>()?;
    let is_new =
        |(frame, old): &(&Frame, &Option<Current>)| old.is_none() && frame.record.kind == Kind::Put;
    let new = frames.iter().zip(&found).filter(is_new);
    check_index(shared, writer, &mut new.map(|(frame, _)| frame.hash).collect::<Vec<_>>())?;
    let locations = append_all(shared, writer, frames, need)?;
    let index = &shared.lookup.index;
    for ((frame, &location), found) in frames.iter().zip(&locations).zip(found) {
        // If the key is in the batch twice, the index already has its earlier record.
        let earlier = index.find(frame.hash, |old| {
            let earlier = &frames[locations.binary_search(&old).ok()?];
            let length = earlier.length() as u64;
            let same = Current { location: old, length, version: 0, is_expired: false };
            (earlier.record.key == frame.record.key).then_some(same)
        });
        let found = found.filter(|found| shared.lookup.holds(frame.hash, found.location));
        publish(shared, writer, frame, earlier.or(found), location)?;
    }
    Ok(())
}

/// `Failed` if the index has no room for new keys with these hashes. Called before records are
/// appended: a record in the log must fit into the index at each opening.
fn check_index(shared: &Shared, writer: &mut LogWriter, hashes: &mut [u64]) -> Result<()> {
    match writer.index.make_room_for_all(&shared.lookup.index, hashes) {
        true => Ok(()),
        false => Err(index_full().in_file(&shared.dir.path)),
    }
}

/// Removes an entry from the index without a record in the log: for a key that is gone from the log
/// altogether once its record is.
pub(crate) fn forget(
    shared: &Shared,
    writer: &mut LogWriter,
    hash: u64,
    location: RecordLocation,
) -> Result<()> {
    let table = shared.lookup.segments.load();
    let Some(segment) = table.get(location.segment()) else { return Ok(()) };
    let mut buffer = Vec::new();
    let (_, length) = segment.read(segment.offset(location), &mut buffer)?;
    shared.snapshots.preserve(hash, location);
    if writer.index.remove(&shared.lookup.index, hash, location) {
        subtract(&shared.counters.live_bytes, segment.retire_record(length as u64));
        shared.counters.keys.store(writer.index.entries(), Ordering::Relaxed);
    }
    Ok(())
}

/// Makes the index point to a record that was appended.
fn publish(
    shared: &Shared,
    writer: &mut LogWriter,
    frame: &Frame,
    old: Option<Current>,
    location: RecordLocation,
) -> Result<()> {
    let index = &shared.lookup.index;
    if let Some(old) = &old {
        shared.snapshots.preserve(frame.hash, old.location);
        if let Some(segment) = shared.lookup.segments.load().get(old.location.segment()) {
            subtract(&shared.counters.live_bytes, segment.retire_record(old.length));
        }
    }
    match (frame.record.kind == Kind::Put, old) {
        (true, Some(old)) => {
            writer.index.replace(index, frame.hash, old.location, location);
        }
        (true, None) => {
            let inserted = writer.index.insert(index, frame.hash, location);
            inserted.map_err(|_| index_full()).inspect_err(|e| shared.dir.fail(e))?;
        }
        (false, Some(old)) => {
            writer.index.remove(index, frame.hash, old.location);
        }
        (false, None) => {}
    }
    shared.counters.keys.store(writer.index.entries(), Ordering::Relaxed);
    count(shared, writer, frame);
    Ok(())
}

/// Counts a record that was appended.
pub(crate) fn count(shared: &Shared, writer: &LogWriter, frame: &Frame) {
    let (counters, length) = (&shared.counters, frame.length() as u64);
    let user = (frame.record.key.len() + frame.record.value.len()) as u64;
    let is_put = frame.record.kind == Kind::Put;
    if frame.record.moved {
        add(&counters.moved_bytes, length);
        add(&counters.moved_records, 1);
    } else {
        add(&counters.log_bytes, length);
        add(&counters.user_bytes, user);
        add(if is_put { &counters.puts } else { &counters.deletes }, 1);
    }
    let bytes = writer.segment.align(length);
    if is_put {
        add(&writer.segment.live, bytes);
        add(&counters.live_bytes, bytes);
    } else {
        add(&writer.segment.deletes, bytes);
    }
}

/// `InvalidArgument` if a value is too long.
#[inline]
pub(crate) fn check_value(value: &[u8]) -> Result<()> {
    if value.len() <= MAX_VALUE {
        return Ok(());
    }
    Err(Error::invalid(format!("a value of {} bytes; at most {MAX_VALUE}", value.len())))
}
