//! Settling deferred puts: entering their index entries and comparing the keys of the entries that
//! they displaced. See `put.rs` for why puts are deferred.
//!
//! A buffered insert is *flushed* into its shard: if no entry has its hash bits, it is a new entry;
//! if one has, it takes that entry's slot, and the old entry is displaced. A displaced entry is
//! *settled* by reading both records: if the keys are equal, the old record is counted as stale;
//! otherwise the entry is restored to the index.
//!
//! Only single puts, compaction and close lock the writer without settling
//! ([`Shared::lock_writer`]). All others use [`lock_settled`], after which the index has one
//! location per key and all bytes are counted.

use crate::log::failpoints::Failpoint;
use crate::log::index::hash_index::Matches;
use crate::log::index::insert_buffer::BufferedInsert;
use crate::log::index::slot::RecordLocation;
use crate::log::segments::counter::subtract;
use crate::log::segments::segment::Segment;
use crate::log::segments::segment_table::SegmentTable;
use crate::log::state::log_writer::LogWriter;
use crate::log::state::lookup::index_full;
use crate::log::state::shared::{Shared, WriterGuard};
use crate::{ErrorKind, Result};
use std::hint::black_box;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

/// Locks the writer with all puts settled. `Failed` if nothing can be written any more.
pub(crate) fn lock_settled(shared: &Shared) -> Result<WriterGuard<'_>> {
    touch_deferred(shared);
    let mut writer = shared.lock_writer()?;
    settle_all(shared, &mut writer)?;
    Ok(writer)
}

/// Settles deferred puts whether or not anything can be written, and returns the writer's lock.
pub(crate) fn settle(shared: &Shared) -> MutexGuard<'_, Option<LogWriter>> {
    touch_deferred(shared);
    let mut writer = shared.lock_any();
    if let Some(writer) = &mut *writer {
        // A put that cannot be settled stays visible, and nothing is written any more.
        let _ = settle_all(shared, writer);
    }
    writer
}

/// [`settle`], for the counts of keys and bytes. Until then these miss new keys that are buffered
/// and keys that share hash bits with another key, and they count replaced records as live. A
/// forked child has the counts of the fork: a thread of the parent may have held the lock then, and
/// never releases it here.
pub(crate) fn settle_counts(shared: &Shared) {
    if !shared.dir.is_forked_child() {
        drop(settle(shared));
    }
}

/// Reads the records that settling needs, so that no writer waits for the disk under the lock.
fn touch_deferred(shared: &Shared) {
    let index = &shared.lookup.index;
    let buffered = index.inserts.occupied().filter_map(|slot| index.inserts.get(slot));
    let displaced = index.displaced.occupied().filter_map(|slot| index.displaced.get(slot));
    let mut table = None;
    let mut touch =
        |location| touch(table.get_or_insert_with(|| shared.lookup.segments.load()), location);
    for insert in buffered {
        index.find(insert.hash, |location| {
            touch(location);
            None::<()>
        });
    }
    displaced.for_each(|displacement| touch(displacement.old));
}

/// Reads the key of a record.
pub(crate) fn touch(segments: &SegmentTable<Segment>, location: RecordLocation) {
    if let Some(segment) = segments.get(location.segment()) {
        let mut buffer = Vec::new();
        let record = segment.peek(segment.offset(location), &mut buffer);
        black_box(record.map_or(None, |(record, _)| record.key.last()));
    }
}

/// Flushes and settles all deferred puts, and counts the keys. A put that an error leaves deferred
/// is still found, and a later call settles it. Until then it counts as a new record of the key
/// that it replaces, which it most likely is, because keys hardly ever share hash bits.
pub(crate) fn settle_all(shared: &Shared, writer: &mut LogWriter) -> Result<()> {
    let (index, mut done) = (&shared.lookup.index, Ok(()));
    for slot in index.inserts.occupied() {
        done = done.and(flush(shared, writer, slot, true).map(|_| ()));
    }
    for slot in index.displaced.occupied() {
        done = done.and(settle_displaced(shared, writer, slot));
    }
    let buffered = index.inserts.occupied().filter_map(|slot| index.inserts.get(slot));
    let new = buffered.filter(|insert| index.matches(insert.hash) == Matches::Nothing).count();
    shared.counters.keys.store(writer.index.entries() + new as u64, Ordering::Relaxed);
    done
}

/// Flushes the buffered insert in a slot into the index. Returns `false` if one of several entries
/// has to be chosen, for which records have to be read, and `may_read` forbids that.
pub(crate) fn flush(
    shared: &Shared,
    writer: &mut LogWriter,
    slot: usize,
    may_read: bool,
) -> Result<bool> {
    let index = &shared.lookup.index;
    let Some(insert) = index.inserts.get(slot) else { return Ok(true) };
    settle_displaced(shared, writer, slot)?;
    let over = match index.matches(insert.hash) {
        Matches::Nothing => None,
        Matches::One(location) => Some(location),
        Matches::Several if may_read => replaced_by(shared, insert)?,
        Matches::Several => return Ok(false),
    };
    let flushed = writer.index.flush_insert(index, slot, over);
    flushed.map_err(|_| index_full()).inspect_err(|e| shared.dir.fail(e))?;
    shared.counters.keys.store(writer.index.entries(), Ordering::Relaxed);
    Ok(true)
}

/// Settles the displaced entry in a slot, if there is one. There is no snapshot that could show it.
fn settle_displaced(shared: &Shared, writer: &mut LogWriter, slot: usize) -> Result<()> {
    let index = &shared.lookup.index;
    let Some(displacement) = index.displaced.get(slot) else { return Ok(()) };
    let table = shared.lookup.segments.load();
    let (mut buffer, mut other) = (Vec::new(), Vec::new());
    let new = key_at(&table, displacement.new, &mut buffer)?;
    let old = key_at(&table, displacement.old, &mut other)?;
    if let (Some(segment), Some(_)) = (table.get(displacement.old.segment()), old)
        && (old == new || Failpoint::SettleWithoutComparing.is_on())
    {
        let (_, length) = segment.peek(segment.offset(displacement.old), &mut other)?;
        subtract(&shared.counters.live_bytes, segment.retire_record(length as u64));
        writer.index.drop_displaced(index, slot);
        return Ok(());
    }
    // Another key's record, which must stay readable, or a damaged one of an unknown key. If it was
    // this key's, searches find the new record first.
    let restored = writer.index.restore(index, slot);
    restored.map_err(|_| index_full()).inspect_err(|e| shared.dir.fail(e))?;
    shared.counters.keys.store(writer.index.entries(), Ordering::Relaxed);
    Ok(())
}

/// The entry that a buffered insert replaces: the one of its key. If there is none, the first one
/// with its hash bits, which is restored after all others when it is settled. So searches find the
/// new entry before a damaged record whose key is unknown.
fn replaced_by(shared: &Shared, insert: BufferedInsert) -> Result<Option<RecordLocation>> {
    let table = shared.lookup.segments.load();
    let (mut buffer, mut other) = (Vec::new(), Vec::new());
    let (key, mut first) = (key_at(&table, insert.location, &mut buffer)?, None);
    let same = shared.lookup.index.find_in_shard(insert.hash, |location| {
        first.get_or_insert(location);
        let same = key_at(&table, location, &mut other).map(|found| found == key);
        same.map(|is_same| is_same.then_some(location)).transpose()
    });
    Ok(same.transpose()?.or(first))
}

/// The key of a record; `None` if it is damaged. After an error of the disk the put stays deferred.
fn key_at<'a>(
    segments: &'a SegmentTable<Segment>,
    location: RecordLocation,
    buffer: &'a mut Vec<u8>,
) -> Result<Option<&'a [u8]>> {
    let Some(segment) = segments.get(location.segment()) else { return Ok(None) };
    match segment.peek(segment.offset(location), buffer) {
        Ok((record, _)) => Ok(Some(record.key)),
        Err(e) if e.kind() == ErrorKind::Corrupt => Ok(None),
        Err(e) => Err(e),
    }
}
