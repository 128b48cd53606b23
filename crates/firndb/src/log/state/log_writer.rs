//! [`LogWriter`]: the end of the log and the right to change the index. There is one per store,
//! behind one lock. Opening a segment and changing the index are in `write/`.

use crate::Result;
use crate::disk::{AppendMap, AppendMapWriter};
use crate::log::format::record::{Kind, Record};
use crate::log::format::segment_head::LogPosition;
use crate::log::index::slot::{OFFSETS, RecordLocation};
use crate::log::index::writer::IndexWriter;
use crate::log::segments::segment::Segment;
use crate::log::segments::segment_table::Slots;
use crate::log::state::frame::Frame;
use crate::log::state::key_order::LazyTail;
use std::sync::Arc;

/// The next segment's file is created when the active segment is half full, or, once an eighth of
/// it is, when it has less room than this: bytes that may be written in the time it takes to create
/// the file. In a segment of more than 128 MiB, it is created when 64 MiB are left.
const SPARE_ROOM: usize = 16 << 20;
const SPARE_ROOM_MAX: usize = 64 << 20;

/// Zeros for the bytes before an aligned record.
static PADDING: [u8; 1 << 12] = [0; 1 << 12];

/// The file of the next segment, created in advance.
pub(crate) struct SpareSegment {
    pub(crate) number: u64,
    pub(crate) map: Arc<AppendMap>,
    pub(crate) writer: AppendMapWriter,
}

/// The writer's state.
pub(crate) struct LogWriter {
    pub(crate) active: AppendMapWriter,
    pub(crate) segment: Arc<Segment>,
    /// In an ordered store, the keys of the records that are appended to the active segment.
    pub(crate) tail: Option<Arc<LazyTail>>,
    pub(crate) index: IndexWriter,
    pub(crate) next_number: u64,
    pub(crate) spare: Option<SpareSegment>,
    /// The number of the spare segment that a thread is creating.
    pub(crate) spare_in_progress: Option<u64>,
    /// Whether a thread was woken to create it, for the current active segment.
    pub(crate) is_spare_requested: bool,
    pub(crate) slots: Slots<Segment>,
    /// Segments before the active one that may not be durable yet, in order.
    pub(crate) unsynced: Vec<Arc<Segment>>,
    /// All segments up to this number are durable.
    pub(crate) durable: u64,
    /// `durable` as stated in the active segment's link. Compaction may remove only such segments:
    /// without that evidence an opening could take the gap for the end of the log.
    pub(crate) link_durable: u64,
    pub(crate) is_closed: bool,
}

impl LogWriter {
    /// The end of the log.
    #[inline]
    pub(crate) fn position(&self) -> LogPosition {
        (self.segment.number, self.active.shared().end() as u64)
    }

    /// Appends a record to the active segment, which must have room.
    #[inline]
    pub(crate) fn append(&mut self, frame: &Frame) -> Result<RecordLocation> {
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
        Ok(self.segment.location(offset))
    }

    /// Appends all records of a batch, or none.
    pub(crate) fn append_all(&mut self, frames: &[Frame]) -> Result<Vec<RecordLocation>> {
        let mut end = self.active.shared().end() as u64;
        let laid_out = frames.iter().map(|frame| {
            let (from, offset) = (end, self.segment.align(end));
            end = offset + frame.length() as u64;
            ((offset - from) as usize, offset, frame.head_at(self.segment.number, offset))
        });
        let laid_out: Vec<_> = laid_out.collect();
        let parts = frames.iter().zip(&laid_out).flat_map(|(frame, (padding, _, head))| {
            let Record { key, value, .. } = frame.record;
            [&PADDING[..*padding], &head[..frame.head_length], key, value]
        });
        self.active.append(&parts.collect::<Vec<&[u8]>>())?;
        Ok(laid_out.iter().map(|&(_, offset, _)| self.segment.location(offset)).collect())
    }

    /// Adds a record that was appended to the sorted keys of the active segment.
    #[inline]
    pub(crate) fn note_key(&self, frame: &Frame, location: RecordLocation) {
        let tail = self.tail.as_ref().and_then(|tail| tail.get());
        if let Some(tail) = tail
            && frame.record.kind == Kind::Put
        {
            tail.push(frame.record.key, location.offset() as u32);
        }
    }

    /// Whether `count` records of this total length need another segment.
    #[inline]
    pub(crate) fn must_roll(&self, bytes: u64, count: u64) -> bool {
        let padding = (1 << self.segment.alignment_log2) * count;
        bytes + padding > self.active.room() as u64 || !self.has_offsets()
    }

    /// Whether the next record's offset fits into a slot of the index.
    #[inline]
    fn has_offsets(&self) -> bool {
        (self.active.shared().end() as u64) < (OFFSETS - 1) << self.segment.alignment_log2
    }

    /// Whether it is time to create the file of the next segment.
    #[inline]
    pub(crate) fn wants_spare(&self) -> bool {
        let capacity = self.active.shared().capacity();
        let ahead = SPARE_ROOM.clamp((capacity / 2).min(SPARE_ROOM_MAX), capacity - capacity / 8);
        self.active.room() < ahead && self.spare.is_none() && self.spare_in_progress.is_none()
    }

    /// Keeps the spare segment that a thread created; `None` if it could not. Returns `false` if
    /// the log continued without it meanwhile.
    pub(crate) fn keep_spare(&mut self, number: u64, created: Option<SpareSegment>) -> bool {
        let is_wanted = self.spare_in_progress == Some(number);
        if is_wanted {
            self.spare_in_progress = None;
            self.spare = created;
        }
        is_wanted
    }
}
