//! The active segment: appending to it, and replacing it by a new one when it is full.

use crate::disk::{AppendMap, AppendMapWriter};
use crate::log::format::record::Kind;
use crate::log::format::segment_head::{
    CAPACITY_MAX, Link, LogPosition, SegmentHeader, encode_head, head_length,
};
use crate::log::index::slot::RecordLocation;
use crate::log::index::writer::IndexWriter;
use crate::log::segments::reserve::{Need, disk_full};
use crate::log::segments::segment::{Segment, SegmentBytes, next_number};
use crate::log::segments::segment_table::{SegmentTable, Slots};
use crate::log::state::frame::Frame;
use crate::log::state::log_writer::{LogWriter, SpareSegment};
use crate::log::state::shared::Shared;
use crate::log::state::signals::Task;
use crate::log::write::settle::settle_all;
use crate::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a write needs disk space for.
pub(crate) fn need_of(frames: &[Frame]) -> Need {
    let is_delete = |frame: &Frame| frame.record.kind == Kind::Delete;
    if frames.iter().all(is_delete) { Need::Delete } else { Need::Fill }
}

/// Appends a record and returns its location. There must be room: see [`make_room`]. After an error
/// nothing was appended; on a full disk the store stays open for writing, after any other error it
/// does not.
#[inline]
pub(crate) fn append(
    shared: &Shared,
    writer: &mut LogWriter,
    frame: &Frame,
    need: Need,
) -> Result<RecordLocation> {
    let appended = shared.spend_reserve(need, || writer.append(frame));
    let location = appended.map_err(|e| not_appended(shared, e, frame.length() as u64, need))?;
    writer.note_key(frame, location);
    Ok(location)
}

/// [`append`] for all records of a batch, or none.
pub(crate) fn append_all(
    shared: &Shared,
    writer: &mut LogWriter,
    frames: &[Frame],
    need: Need,
) -> Result<Vec<RecordLocation>> {
    let appended = shared.spend_reserve(need, || writer.append_all(frames));
    let bytes = || frames.iter().map(|frame| frame.length() as u64).sum();
    let locations = appended.map_err(|e| not_appended(shared, e, bytes(), need))?;
    let both = frames.iter().zip(&locations);
    both.for_each(|(frame, &location)| writer.note_key(frame, location));
    Ok(locations)
}

/// The error of records that were not appended. Unless the disk is full, the content of the file is
/// unknown, and nothing more is written.
#[cold]
fn not_appended(shared: &Shared, error: Error, bytes: u64, need: Need) -> Error {
    match error.is_disk_full() {
        true if need == Need::Fill => disk_full(&shared.dir.path, bytes),
        true => error,
        false => {
            shared.dir.fail(&error);
            error
        }
    }
}

/// Ensures that `count` records of this total length fit into the active segment, and begins a new
/// segment if they do not.
pub(crate) fn make_room(
    shared: &Shared,
    writer: &mut LogWriter,
    (bytes, count): (u64, u64),
    need: Need,
) -> Result<()> {
    if need == Need::Fill && !shared.reserve.is_held() {
        shared.hold_reserve(0)?;
    }
    if writer.must_roll(bytes, count) {
        roll(shared, writer, (bytes, count), need)?;
    } else if !writer.is_spare_requested && writer.wants_spare() {
        writer.is_spare_requested = true;
        shared.wake(Task::Prepare);
    }
    Ok(())
}

/// Ends the active segment and begins one with room for `count` records of this total length.
pub(crate) fn roll(
    shared: &Shared,
    writer: &mut LogWriter,
    (bytes, count): (u64, u64),
    need: Need,
) -> Result<()> {
    shared.dir.check_lock()?;
    settle_all(shared, writer)?; // The link states the live bytes.
    // The store may have outgrown the reserve. Where a thread prepares the next segment, it sees to
    // that too, and no writer waits for it, except where a small store outgrows 1 MiB.
    if need == Need::Fill && (!shared.options.background || shared.reserve.is_waived()) {
        shared.hold_reserve(bytes)?;
    }
    let table = shared.lookup.segments.load();
    let members = table.in_order();
    if !has_slot(shared, members.len(), need) {
        return Err(too_many(shared));
    }
    let slot = writer.slots.take(&table).ok_or_else(|| too_many(shared))?;
    let link = link(writer.position(), writer.durable, &members);
    let needed = |alignment_log2: u32| {
        let padding = (1 << alignment_log2) - 1 + (count << alignment_log2);
        head_length(members.len()) as u64 + padding + bytes
    };
    let (SpareSegment { number, map, writer: mut file }, is_named) =
        next_file(shared, writer, needed, members.len(), need)?;
    let alignment_log2 = shared.options.alignment_log2(map.capacity() as u64);
    let bytes = SegmentBytes::AppendMap(map);
    let segment = Segment::new(number, slot, alignment_log2, shared.dir.segment(number), bytes);
    let segment = segment.accessed(&*shared.dir.disk, shared.options.access)?;
    // The last step that may fail: a segment with a head is part of the log.
    write_head(shared, &mut file, number, alignment_log2, &link)?;
    segment.is_named.store(is_named, Ordering::Relaxed);
    let segment = Arc::new(segment);
    let mut table = (**table).clone();
    table.put(slot, Arc::clone(&segment));
    shared.lookup.segments.store(Arc::new(table));
    writer.tail = shared.order.as_ref().map(|order| order.begin(&segment));
    shared.backpressure.full.store(writer.segment.number, Ordering::Relaxed);
    writer.unsynced.push(std::mem::replace(&mut writer.segment, segment));
    writer.active = file;
    writer.link_durable = writer.durable;
    shared.measure_backpressure(writer.link_durable);
    shared.measure_tails();
    writer.is_spare_requested = false;
    shared.wake(Task::Seal);
    Ok(())
}

/// The file of the next segment, and whether its name is durable: the spare one if it fits,
/// otherwise a new one. `needs` gives its length for an alignment. `InvalidArgument` if that is
/// more than a segment can have.
fn next_file(
    shared: &Shared,
    writer: &mut LogWriter,
    needs: impl Fn(u32) -> u64,
    segments: usize,
    need: Need,
) -> Result<(SpareSegment, bool)> {
    let alignment_log2 = |capacity| shared.options.alignment_log2(capacity);
    let is_enough = |capacity: u64| capacity >= needs(alignment_log2(capacity));
    let mut largest = alignment_log2(needs(0).max(shared.capacity_for(segments)));
    while needs(largest) <= CAPACITY_MAX && alignment_log2(needs(largest)) > largest {
        largest += 1;
    }
    if needs(largest) > CAPACITY_MAX {
        let message = format!(
            "the batch takes {} bytes in the log and must fit into one segment, which has at most \
             8 GiB: divide it",
            needs(largest)
        );
        return Err(Error::invalid(message).in_file(&shared.dir.path));
    }
    match writer.spare.take() {
        Some(spare) if is_enough(spare.map.capacity() as u64) => return Ok((spare, true)),
        Some(spare) => {
            // Too small. Its number must not come after the one that is created now.
            shared.dir.disk.remove(&shared.dir.segment(spare.number))?;
        }
        None => {}
    }
    let number = shared.dir.free_number(writer.next_number)?;
    // A spare that is being created would come too late: numbers ascend with the log.
    writer.spare_in_progress = None;
    // It may get a smaller alignment, and then needs less.
    let (map, file) = create_file(shared, number, (needs(largest), segments), need)?;
    writer.next_number = next_number(number)?;
    Ok((SpareSegment { number, map, writer: file }, false))
}

/// Creates the file of a segment of a store of this many segments.
fn create_file(
    shared: &Shared,
    number: u64,
    (needed, segments): (u64, usize),
    need: Need,
) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
    let usual = shared.capacity_for(segments);
    shared.reserve.create_segment(
        &*shared.dir.disk,
        &shared.dir.segment(number),
        shared.options.append_mode,
        (needed, usual),
        need,
    )
}

/// What a writer starts from.
pub(crate) struct WriterStart {
    pub(crate) next_number: u64,
    pub(crate) slots: Slots<Segment>,
    pub(crate) unsynced: Vec<Arc<Segment>>,
    pub(crate) durable: u64,
    pub(crate) link_durable: u64,
    /// The end of the log.
    pub(crate) last: LogPosition,
}

/// A writer that continues in this active segment.
pub(crate) fn resume(
    start: WriterStart,
    (active, segment): (AppendMapWriter, Arc<Segment>),
    index: IndexWriter,
) -> LogWriter {
    LogWriter {
        active,
        slots: start.slots,
        segment,
        tail: None,
        index,
        next_number: start.next_number,
        spare: None,
        spare_in_progress: None,
        is_spare_requested: false,
        unsynced: start.unsynced,
        durable: start.durable,
        link_durable: start.link_durable,
        is_closed: false,
    }
}

/// Begins a new active segment after the end of the log, and puts it into the table, which is not
/// that of the store yet.
pub(crate) fn begin(
    shared: &Shared,
    start: &mut WriterStart,
    table: &mut SegmentTable<Segment>,
    need: Need,
) -> Result<(AppendMapWriter, Arc<Segment>)> {
    let members = table.in_order();
    let slot = start.slots.take(table).ok_or_else(|| too_many(shared))?;
    let number = shared.dir.free_number(start.next_number)?;
    let (map, mut file) = create_file(shared, number, (0, members.len()), need)?;
    let alignment_log2 = shared.options.alignment_log2(map.capacity() as u64);
    let bytes = SegmentBytes::AppendMap(map);
    let path = shared.dir.segment(number);
    let segment = Segment::new(number, slot, alignment_log2, path, bytes);
    let segment = Arc::new(segment.accessed(&*shared.dir.disk, shared.options.access)?);
    let link = link(start.last, start.durable, &members);
    start.next_number = next_number(number)?;
    write_head(shared, &mut file, number, alignment_log2, &link)?;
    start.link_durable = start.durable;
    table.put(slot, Arc::clone(&segment));
    Ok((file, segment))
}

/// The number for a spare segment that the caller then creates; `None` if none is needed.
pub(crate) fn begin_spare(shared: &Shared, writer: &mut LogWriter) -> Result<Option<u64>> {
    if !writer.wants_spare() {
        return Ok(None);
    }
    let number = shared.dir.free_number(writer.next_number)?;
    writer.next_number = next_number(number)?;
    writer.spare_in_progress = Some(number);
    Ok(writer.spare_in_progress)
}

/// A number that no segment of this store will have. The next segment's number is larger.
pub(crate) fn reserve_number(shared: &Shared, writer: &mut LogWriter) -> Result<u64> {
    drop_spare(shared, writer)?;
    let number = shared.dir.free_number(writer.next_number)?;
    writer.next_number = next_number(number)?;
    Ok(number)
}

/// Removes the spare segment.
pub(crate) fn drop_spare(shared: &Shared, writer: &mut LogWriter) -> Result<()> {
    match writer.spare.take() {
        Some(spare) => shared.dir.disk.remove(&shared.dir.segment(spare.number)),
        None => Ok(()),
    }
}

/// Whether a store of this many segments may begin another one. The last slots are for deletes and
/// compaction, which make room, and the very last ones for an opening.
pub(crate) fn has_slot(shared: &Shared, segments: usize, need: Need) -> bool {
    let all = shared.options.segments_max;
    let spare = (all / 64).max(8);
    let kept = match need {
        Need::Fill => spare,
        Need::Delete => spare / 2,
        Need::Hint | Need::Compact => 2,
    };
    segments + kept < all
}

fn too_many(shared: &Shared) -> Error {
    let message = format!(
        "the store has {} segments and cannot have more: remove records, or divide them among \
         several stores",
        shared.options.segments_max
    );
    Error::new(ErrorKind::Failed, message).in_file(&shared.dir.path)
}

/// The link of a segment that begins now.
fn link(previous: LogPosition, durable: u64, members: &[Arc<Segment>]) -> Link {
    let live_bytes = members.iter().map(|s| s.live.load(Ordering::Relaxed)).sum();
    let members = members.iter().map(|s| (s.number, s.end())).collect();
    Link { previous, durable, live_bytes, members }
}

/// Writes header and link into a new segment.
fn write_head(
    shared: &Shared,
    file: &mut AppendMapWriter,
    number: u64,
    alignment_log2: u32,
    link: &Link,
) -> Result<()> {
    let capacity = file.room() as u64;
    let (store, is_ordered) = (shared.dir.store, shared.order.is_some());
    let header = SegmentHeader { store, number, capacity, alignment_log2, is_ordered };
    file.append(&[&encode_head(&header, link)])
}
