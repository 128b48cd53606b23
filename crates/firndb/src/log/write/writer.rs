//! The write side, behind one lock: the active segment and the right to change the index.
//!
//! Whatever can be done before the lock is taken is: hashing, the checksum of the bytes, bringing
//! the old record of the key into memory, or that of an earlier put which did not wait for its own
//! (`pending.rs`), and asking for the memory of the index. Under it a write is a copy into the
//! mapped segment and a change of one slot of the index, or of one beside it, in that order: so the
//! order of the log is the order in which writes become visible.

use crate::disk::{AppendMap, AppendMapWriter};
use crate::log::format::record::{
    self as format, HEAD_MAX, HEADER, Header, Kind, Link, Record, head_length,
};
use crate::log::index::slot::{OFFSETS, RecordLocation};
use crate::log::index::writer::IndexWriter;
use crate::log::maintenance::threads::Task;
use crate::log::open::store::Shared;
use crate::log::segments::hint_file as hint;
use crate::log::segments::reserve::Need;
use crate::log::segments::segment::{Bytes, SEGMENTS_MAX, Segment, after, file_name};
use crate::log::segments::segment_table::Slots;
use crate::log::write::group_commit::Position;
use crate::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The next segment is made when this one is half full, or, once an eighth of it is, when it has
/// less room than this: bytes that may be written in the time it takes to make one.
const SPARE_ROOM: usize = 16 << 20;

/// Zeros, for the bytes before a record that has to begin at a multiple of a few.
static PADDING: [u8; 1 << 12] = [0; 1 << 12];

/// A record that is ready to be appended.
pub(crate) struct Frame<'a> {
    pub(crate) record: Record<'a>,
    head: [u8; HEAD_MAX],
    head_length: usize,
    /// XXH3-64 of the record's bytes, for its checksum.
    sum: u64,
    /// Hash of the key.
    pub(crate) hash: u64,
    /// Where the key's record was when last looked; need not be true any more.
    pub(crate) seen: Option<RecordLocation>,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(record: Record<'a>, hash: u64, seen: Option<RecordLocation>) -> Frame<'a> {
        let (head, head_length) = record.head();
        let sum = format::hash_of(&head[..head_length], record.key, record.value);
        Frame { record, head, head_length, sum, hash, seen }
    }

    /// Everything before the key, for a record at this place.
    fn head_at(&self, segment: u64, offset: u64) -> [u8; HEAD_MAX] {
        let mut head = self.head;
        head[..4].copy_from_slice(&format::checksum(self.sum, segment, offset));
        head
    }

    pub(crate) fn length(&self) -> usize {
        self.head_length + self.record.key.len() + self.record.value.len()
    }
}

pub(crate) struct Writer {
    active: AppendMapWriter,
    pub(crate) segment: Arc<Segment>,
    pub(crate) index: IndexWriter,
    next_number: u64,
    /// The file of the next segment, made beforehand.
    spare: Option<(u64, Arc<AppendMap>, AppendMapWriter)>,
    /// The number of the spare that somebody is making.
    making: Option<u64>,
    /// Somebody was woken to make it, for the active segment.
    has_asked: bool,
    pub(crate) slots: Slots<Segment>,
    /// Segments that are not the active one any more and may not be durable yet, in order.
    pub(crate) unsynced: Vec<Arc<Segment>>,
    /// All segments up to this number are durable.
    pub(crate) durable: u64,
    /// What the active segment's link says of that. Only such segments may be removed: without
    /// that evidence an opening could take the gap for the end of the log.
    pub(crate) link_durable: u64,
    pub(crate) is_closed: bool,
}

/// What recovery hands over.
pub(crate) struct Start {
    pub(crate) index: IndexWriter,
    pub(crate) next_number: u64,
    pub(crate) durable: u64,
    pub(crate) link_durable: u64,
    pub(crate) last: Position,
}

impl Writer {
    /// Goes on in the active segment that recovery found.
    pub(crate) fn resume(start: Start, active: AppendMapWriter, segment: Arc<Segment>) -> Writer {
        Writer {
            active,
            slots: Slots::new(segment.slot + 1, SEGMENTS_MAX),
            segment,
            index: start.index,
            next_number: start.next_number,
            spare: None,
            making: None,
            has_asked: false,
            unsynced: Vec::new(),
            durable: start.durable,
            link_durable: start.link_durable,
            is_closed: false,
        }
    }

    /// Begins a new segment behind what recovery found.
    pub(crate) fn begin(shared: &Shared, start: Start) -> Result<Writer> {
        let mut table = (**shared.table.load()).clone();
        let members = table.in_order();
        let slot = (0..SEGMENTS_MAX).find(|&slot| table.get(slot).is_none());
        let slot = slot.ok_or_else(too_many)?;
        let number = shared.free_number(start.next_number)?;
        let capacity = shared.capacity_for(members.len());
        let path = shared.dir.join(file_name(number));
        let (map, mut writer) = shared.new_segment(&path, 0, capacity, Need::Compact)?;
        let segment = Segment::new(number, slot, 0, path, Bytes::AppendMap(map));
        let segment = Arc::new(segment.accessed(&*shared.disk, shared.options.access)?);
        let link = link_of(start.last, start.durable, &members);
        write_head(shared, &mut writer, number, 0, &link)?;
        table.put(slot, Arc::clone(&segment));
        shared.table.store(Arc::new(table));
        let link_durable = start.durable;
        let start = Start { next_number: after(number)?, link_durable, ..start };
        Ok(Writer::resume(start, writer, segment))
    }

    /// The end of the log.
    pub(crate) fn position(&self) -> Position {
        (self.segment.number, self.active.shared().end() as u64)
    }

    /// Appends a record and returns its place. There must be room: see [`Writer::make_room`]. After
    /// an error nothing was appended; on a full disk the store stays open for writing, after any
    /// other error it does not.
    pub(crate) fn append(
        &mut self,
        shared: &Shared,
        frame: &Frame,
        need: Need,
    ) -> Result<RecordLocation> {
        let appended = shared.with_reserve(need, || self.append_one(frame));
        appended.map_err(|e| shared.not_appended(e, frame.length() as u64, need))
    }

    fn append_one(&mut self, frame: &Frame) -> Result<RecordLocation> {
        let end = self.active.shared().end() as u64;
        let offset = self.segment.align(end);
        let padding = &PADDING[..(offset - end) as usize];
        let head = frame.head_at(self.segment.number, offset);
        let head = &head[..frame.head_length];
        let Record { key, value, .. } = frame.record;
        match padding {
            [] => self.active.append(&[head, key, value])?,
            _ => self.active.append(&[padding, head, key, value])?,
        }
        Ok(self.segment.place(offset))
    }

    /// [`Writer::append`] for all records of a batch, or none.
    pub(crate) fn append_all(
        &mut self,
        shared: &Shared,
        frames: &[Frame],
        need: Need,
    ) -> Result<Vec<RecordLocation>> {
        let mut end = self.active.shared().end() as u64;
        let placed = frames.iter().map(|frame| {
            let (from, offset) = (end, self.segment.align(end));
            end = offset + frame.length() as u64;
            ((offset - from) as usize, offset, frame.head_at(self.segment.number, offset))
        });
        let placed: Vec<_> = placed.collect();
        let parts = frames.iter().zip(&placed).flat_map(|(frame, (padding, _, head))| {
            let Record { key, value, .. } = frame.record;
            [&PADDING[..*padding], &head[..frame.head_length], key, value]
        });
        let parts: Vec<&[u8]> = parts.collect();
        let appended = shared.with_reserve(need, || self.active.append(&parts));
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        appended.map_err(|e| shared.not_appended(e, bytes, need))?;
        Ok(placed.iter().map(|&(_, offset, _)| self.segment.place(offset)).collect())
    }

    /// Sees to it that records of these total lengths fit into the active segment, if need be by
    /// beginning a new one.
    pub(crate) fn make_room(
        &mut self,
        shared: &Shared,
        bytes: u64,
        count: u64,
        need: Need,
    ) -> Result<()> {
        if need == Need::Fill && !shared.reserve.is_held() {
            shared.hold_reserve()?;
        }
        if self.must_roll(bytes, count) {
            self.roll(shared, bytes, count, need)?;
        } else if !self.has_asked && self.is_spare_wanted() {
            self.has_asked = true;
            shared.wake(Task::Next);
        }
        Ok(())
    }

    /// Whether so many records of these total lengths take another segment.
    pub(crate) fn must_roll(&self, bytes: u64, count: u64) -> bool {
        let padding = (1 << self.segment.alignment_log2) * count;
        bytes + padding > self.active.room() as u64 || !self.has_offsets()
    }

    /// Whether the next record's offset can be written into a slot of the index.
    fn has_offsets(&self) -> bool {
        (self.active.shared().end() as u64) < (OFFSETS - 1) << self.segment.alignment_log2
    }

    /// Seals the active segment and begins one with room for these bytes.
    pub(crate) fn roll(
        &mut self,
        shared: &Shared,
        bytes: u64,
        count: u64,
        need: Need,
    ) -> Result<()> {
        shared.check_place()?;
        self.settle_all(shared)?; // For the live bytes, which are in the link.
        // The store may have outgrown it. Where a thread makes the next segment, it sees to that
        // too, and no writer waits for it.
        if need == Need::Fill && !shared.options.background {
            shared.hold_reserve()?;
        }
        let table = shared.table.load();
        let members = table.in_order();
        let slot = self.slots.take(&table).ok_or_else(too_many)?;
        let link = link_of(self.position(), self.durable, &members);
        let least = shared.capacity_for(members.len());
        let mut capacity = head_length(members.len()) as u64 + bytes;
        let mut alignment_log2 = 0;
        while capacity + (count << alignment_log2) > OFFSETS << alignment_log2 {
            alignment_log2 += 1;
        }
        capacity += count << alignment_log2;
        let (number, map, mut writer, is_named) = match self.spare.take() {
            Some((number, map, writer))
                if map.capacity() as u64 >= capacity && alignment_log2 == 0 =>
            {
                (number, map, writer, true)
            }
            spare => {
                if let Some((number, ..)) = spare {
                    // Too small: its number must not come after the one that is made now.
                    shared.disk.remove(&shared.dir.join(file_name(number)))?;
                }
                let number = shared.free_number(self.next_number)?;
                // One that is being made would come too late: numbers ascend with the log.
                self.making = None;
                let path = shared.dir.join(file_name(number));
                let (map, writer) = shared.new_segment(&path, capacity, least, need)?;
                self.next_number = after(number)?;
                (number, map, writer, false)
            }
        };
        let path = shared.dir.join(file_name(number));
        let segment = Segment::new(number, slot, alignment_log2, path, Bytes::AppendMap(map));
        let segment = segment.accessed(&*shared.disk, shared.options.access)?;
        // Last of all that may fail: a segment with a head is part of the log.
        write_head(shared, &mut writer, number, alignment_log2, &link)?;
        segment.is_named.store(is_named, Ordering::Relaxed);
        let segment = Arc::new(segment);
        let mut table = (**table).clone();
        table.put(slot, Arc::clone(&segment));
        shared.table.store(Arc::new(table));
        shared.pace.full.store(self.segment.number, Ordering::Relaxed);
        self.unsynced.push(std::mem::replace(&mut self.segment, segment));
        self.active = writer;
        self.link_durable = self.durable;
        shared.look_at_space(self.link_durable);
        self.has_asked = false;
        shared.wake(Task::Seal);
        Ok(())
    }

    /// Whether it is time to make the file of the next segment.
    fn is_spare_wanted(&self) -> bool {
        let capacity = self.active.shared().capacity();
        let ahead = SPARE_ROOM.clamp(capacity / 2, capacity - capacity / 8);
        self.active.room() < ahead && self.spare.is_none() && self.making.is_none()
    }

    /// The number for a spare segment that the caller then makes; `None` if there is no need.
    pub(crate) fn spare_wanted(&mut self, shared: &Shared) -> Result<Option<u64>> {
        if !self.is_spare_wanted() {
            return Ok(None);
        }
        let number = shared.free_number(self.next_number)?;
        self.next_number = after(number)?;
        self.making = Some(number);
        Ok(self.making)
    }

    /// Takes the spare that was made, or `None` for one that could not be made. `false` if the log
    /// went on without it meanwhile.
    pub(crate) fn keep_spare(
        &mut self,
        number: u64,
        made: Option<(Arc<AppendMap>, AppendMapWriter)>,
    ) -> bool {
        let is_wanted = self.making == Some(number);
        if is_wanted {
            self.making = None;
            self.spare = made.map(|(map, writer)| (number, map, writer));
        }
        is_wanted
    }

    /// A number that no segment of this store will have; the next segment's is larger.
    pub(crate) fn give_number(&mut self, shared: &Shared) -> Result<u64> {
        self.drop_spare(shared)?;
        let number = shared.free_number(self.next_number)?;
        self.next_number = after(number)?;
        Ok(number)
    }

    /// Gives up the spare segment.
    pub(crate) fn drop_spare(&mut self, shared: &Shared) -> Result<()> {
        match self.spare.take() {
            Some((number, ..)) => shared.disk.remove(&shared.dir.join(file_name(number))),
            None => Ok(()),
        }
    }
}

impl Shared {
    /// The first number from this one on for which no file has the name of a segment or of a hint,
    /// whoever made it. One that is a directory, say, would otherwise stop all writing.
    fn free_number(&self, mut number: u64) -> Result<u64> {
        loop {
            let next = after(number)?; // One is left for the segment behind it.
            let is_free = |name: String| match self.disk.look(&self.dir.join(name)) {
                Err(e) if e.kind() == ErrorKind::NotFound => Ok(true),
                found => found.map(|_| false),
            };
            if is_free(file_name(number))? && is_free(hint::file_name(number))? {
                return Ok(number);
            }
            number = next;
        }
    }

    /// The error of records that were not appended. Unless the disk is full, nobody knows what is
    /// in the file now, and nothing more is written.
    fn not_appended(&self, error: Error, bytes: u64, need: Need) -> Error {
        match error.is_disk_full() {
            true if need == Need::Fill => self.full(bytes),
            true => error,
            false => {
                self.fail(&error);
                error
            }
        }
    }
}

fn too_many() -> Error {
    let message = format!("{SEGMENTS_MAX} segments: open with larger segment_bytes");
    Error::new(ErrorKind::Failed, message)
}

/// The value of the link of a segment that begins now.
fn link_of(previous: Position, durable: u64, members: &[Arc<Segment>]) -> Vec<u8> {
    let live_bytes = members.iter().map(|s| s.live.load(Ordering::Relaxed)).sum();
    let members = members.iter().map(|s| (s.number, s.end())).collect();
    Link { previous, durable, live_bytes, members }.encode()
}

/// Writes header and link into a new segment.
fn write_head(
    shared: &Shared,
    writer: &mut AppendMapWriter,
    number: u64,
    alignment_log2: u32,
    link: &[u8],
) -> Result<()> {
    let capacity = writer.room() as u64;
    let header = Header { store: shared.id, number, capacity, alignment_log2 };
    writer.append(&[&encode_head(&header, link)])
}

/// The bytes that a segment begins with: its header and its link.
pub(crate) fn encode_head(header: &Header, link: &[u8]) -> Vec<u8> {
    let frame = Frame::new(Record::internal(Kind::Link, link), 0, None);
    let offset = HEADER.next_multiple_of(1 << header.alignment_log2);
    let sum = format::checksum(frame.sum, header.number, offset as u64);
    let mut head = frame.head;
    head[..4].copy_from_slice(&sum);
    let mut bytes = header.encode().to_vec();
    bytes.resize(offset, 0);
    bytes.extend_from_slice(&head[..frame.head_length]);
    bytes.extend_from_slice(link);
    bytes
}
