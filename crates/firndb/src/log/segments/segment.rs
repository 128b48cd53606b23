//! A segment: a file of records, open for reading. `table.rs` has all of them.

use crate::bytes::prefetch::prefetch;
use crate::disk::{AppendMap, AppendMode, Disk, Map, ReadAt};
use crate::log::format::record::{self as format, Record};
use crate::log::index::slot::{RecordLocation, SEGMENT_BITS};
use crate::log::options::Access;
use crate::log::segments::hint_file::Hint;
use crate::log::segments::segment_table as table;
use crate::log::stats::subtract;
use crate::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Most segments of a store.
pub(crate) const SEGMENTS_MAX: usize = 1 << SEGMENT_BITS;

/// Cache lines of a record that are asked for at least: the processor itself goes on behind them.
pub(crate) const RECORD_LINES: usize = 3;

/// Bytes of a record that are read before its length is known.
const FETCH: u64 = 1024;

const PREFIX: &str = "segment-";
const SUFFIX: &str = ".log";

/// The name of the file of segment `number`.
pub(crate) fn file_name(number: u64) -> String {
    format!("{PREFIX}{number:020}{SUFFIX}")
}

/// The number of a segment's file; `None` for any other name.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

/// The number of a segment that begins after the one with this number.
pub(crate) fn after(number: u64) -> Result<u64> {
    let used_up = || Error::new(ErrorKind::Failed, "the numbers of segments are used up");
    number.checked_add(1).ok_or_else(used_up)
}

/// Where a segment's bytes are.
pub(crate) enum Bytes {
    /// It was sealed when the store was opened; records end there. Where records are read from the
    /// file, the map has the head alone.
    Sealed(Map, usize),
    /// It is or was the active one.
    AppendMap(Arc<AppendMap>),
}

pub(crate) struct Segment {
    pub(crate) number: u64,
    /// Its slot in the table.
    pub(crate) slot: usize,
    /// Records begin at multiples of two to this power.
    pub(crate) alignment_log2: u32,
    pub(crate) path: PathBuf,
    bytes: Bytes,
    /// What records are read from, if not from `bytes`.
    file: Option<Box<dyn ReadAt>>,
    /// Bytes of the records that the index points to.
    pub(crate) live: AtomicU64,
    /// Bytes of deletes and of expired records, which may hide older versions of their keys.
    pub(crate) deletes: AtomicU64,
    /// Bytes that are durable.
    pub(crate) synced: AtomicU64,
    /// Its name is durable.
    pub(crate) is_named: AtomicBool,
    /// Written when it is sealed and durable.
    pub(crate) hint: OnceLock<Hint>,
    /// Number of removals, and one, when its deletes were last found needed.
    pub(crate) deletes_checked: AtomicU64,
}

impl Segment {
    pub(crate) fn new(
        number: u64,
        slot: usize,
        alignment_log2: u32,
        path: PathBuf,
        b: Bytes,
    ) -> Segment {
        Segment {
            number,
            slot,
            alignment_log2,
            path,
            bytes: b,
            file: None,
            live: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            is_named: AtomicBool::new(false),
            hint: OnceLock::new(),
            deletes_checked: AtomicU64::new(0),
        }
    }

    /// Has records read as the options say.
    pub(crate) fn accessed(mut self, disk: &dyn Disk, access: Access) -> Result<Segment> {
        if access == Access::Buffered {
            self.file = Some(disk.open(&self.path)?);
        }
        Ok(self)
    }

    /// The mapped bytes up to the end of the last record. Not for reading records, which may have
    /// to come from the file.
    #[inline]
    pub(crate) fn filled(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Sealed(map, end) => map.get(..*end).unwrap_or(map),
            Bytes::AppendMap(map) => map.filled(),
        }
    }

    /// Takes over the counts of what it was before more was appended.
    pub(crate) fn inherit(&self, before: &Segment) {
        self.live.store(before.live.load(Ordering::Relaxed), Ordering::Relaxed);
        self.deletes.store(before.deletes.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Says that it is durable, has its hint, and that single records will be read.
    pub(crate) fn settle(&self) {
        match &self.bytes {
            Bytes::Sealed(map, _) => map.expect_random(),
            Bytes::AppendMap(map) => {
                map.expect_random();
                map.close();
            }
        }
    }

    /// Says that all records will be read.
    pub(crate) fn expect_all(&self) {
        match &self.bytes {
            Bytes::Sealed(map, _) => map.expect_all(),
            Bytes::AppendMap(map) => map.expect_all(),
        }
    }

    /// Where its records end.
    pub(crate) fn end(&self) -> u64 {
        match (&self.bytes, &self.file) {
            (Bytes::Sealed(_, end), Some(_)) => *end as u64,
            _ => self.filled().len() as u64,
        }
    }

    /// All bytes up to the end of the last record.
    pub(crate) fn contents(&self) -> Result<Cow<'_, [u8]>> {
        let Some(file) = &self.file else { return Ok(Cow::Borrowed(self.filled())) };
        let end = self.end();
        if end > file.len()? {
            return Err(self.damage(end));
        }
        let mut bytes = vec![0; end as usize];
        file.read_at(0, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    /// Length of the file.
    pub(crate) fn capacity(&self) -> u64 {
        match (&self.bytes, &self.file) {
            (Bytes::Sealed(..), Some(file)) => file.len().unwrap_or(self.end()),
            (Bytes::Sealed(map, _), None) => map.len() as u64,
            (Bytes::AppendMap(map), _) => map.capacity() as u64,
        }
    }

    /// Bytes that come back when its live records are elsewhere.
    pub(crate) fn size(&self) -> u64 {
        let (end, capacity) = (self.end(), self.capacity());
        // Mostly reserved and never filled: all of that comes back too.
        if end * 4 < capacity { capacity } else { end }
    }

    /// The place of the record at this byte.
    pub(crate) fn place(&self, offset: u64) -> RecordLocation {
        RecordLocation::new(self.slot, offset >> self.alignment_log2)
    }

    /// The byte of this segment that a place means.
    pub(crate) fn offset(&self, place: RecordLocation) -> u64 {
        place.offset() << self.alignment_log2
    }

    /// Brings the first lines of a record into the processor's cache, if it is mapped.
    #[inline]
    pub(crate) fn prefetch(&self, place: RecordLocation, lines: usize) {
        if self.file.is_none() {
            let rest = self.filled().get(self.offset(place) as usize..);
            prefetch(rest.unwrap_or(&[]), lines);
        }
    }

    /// The bytes from this one on: all up to the end, or the record that begins here, read into
    /// `room`.
    #[inline]
    pub(crate) fn bytes_at<'a>(&'a self, offset: u64, room: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        match &self.file {
            None => Ok(self.filled().get(offset as usize..).unwrap_or(&[])),
            Some(file) => self.fetch(&**file, offset, room),
        }
    }

    #[cold]
    fn fetch<'a>(&self, file: &dyn ReadAt, offset: u64, room: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let left = self.end().saturating_sub(offset);
        room.resize(left.min(FETCH) as usize, 0);
        file.read_at(offset, room)?;
        let length = format::length(room).map_or(0, |length| length as u64);
        let have = room.len() as u64;
        if (have..=left).contains(&length) && length > have {
            room.resize(length as usize, 0);
            file.read_at(offset + have, &mut room[have as usize..])?;
        }
        Ok(room)
    }

    /// The record at this byte and its length, not yet checked against its checksum.
    #[inline]
    pub(crate) fn peek<'a>(
        &'a self,
        offset: u64,
        room: &'a mut Vec<u8>,
    ) -> Result<(Record<'a>, usize)> {
        let found = format::parse(self.bytes_at(offset, room)?);
        found.ok_or_else(|| self.damage(offset))
    }

    /// The record at this byte, checked.
    #[inline]
    pub(crate) fn read<'a>(
        &'a self,
        offset: u64,
        room: &'a mut Vec<u8>,
    ) -> Result<(Record<'a>, usize)> {
        let found = format::read(self.bytes_at(offset, room)?, self.number, offset);
        found.ok_or_else(|| self.damage(offset))
    }

    /// The error of a record that should be here.
    pub(crate) fn damage(&self, offset: u64) -> Error {
        Error::corrupt("a record is damaged: its checksum or its lengths are wrong")
            .at(offset)
            .in_file(&self.path)
    }

    /// Where the record after one that ends here begins.
    pub(crate) fn align(&self, offset: u64) -> u64 {
        offset.next_multiple_of(1 << self.alignment_log2)
    }

    /// How it was or is appended to; `Auto` if nothing was since the store was opened.
    pub(crate) fn append_mode(&self) -> AppendMode {
        match &self.bytes {
            Bytes::Sealed(..) => AppendMode::Auto,
            Bytes::AppendMap(map) => map.mode(),
        }
    }

    /// Makes the bytes up to `to` durable.
    pub(crate) fn sync(&self, to: u64) -> Result<()> {
        let from = self.synced.load(Ordering::Acquire);
        if let Bytes::AppendMap(map) = &self.bytes
            && from < to
        {
            map.sync(from as usize, to as usize)?;
            self.synced.fetch_max(to, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Counts a record that the index no longer points to. For the holder of the writer's lock.
    pub(crate) fn retire(&self, length: u64) {
        subtract(&self.live, length);
    }
}

/// The segments of a store by slot, at one moment.
pub(crate) type Table = table::Table<Segment>;

impl Table {
    /// All segments, in the order of their numbers.
    pub(crate) fn in_order(&self) -> Vec<Arc<Segment>> {
        let mut all: Vec<_> = self.iter().cloned().collect();
        all.sort_unstable_by_key(|segment| segment.number);
        all
    }
}
