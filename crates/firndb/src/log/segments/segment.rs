//! A segment: a file of records, open for reading.

use crate::bytes::prefetch::prefetch;
use crate::disk::{AppendMap, AppendMode, Disk, Map, ReadAt};
use crate::log::format::hint_entries;
use crate::log::format::record::{Record, parse, parse_checked, record_length};
use crate::log::format::segment_head::HEADER;
use crate::log::index::slot::{OFFSETS, RecordLocation, SEGMENT_BITS};
use crate::log::options::{Access, OFFSET_BITS, SEGMENTS_MAX};
use crate::log::segments::counter::subtract;
use crate::log::segments::hint_file::Hint;
use crate::log::segments::segment_table::SegmentTable;
use crate::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

const _: () = assert!(hint_entries::OFFSETS == OFFSETS, "offsets in hints fit into the index");
const _: () = assert!(1 << OFFSET_BITS == OFFSETS && SEGMENTS_MAX == 1 << SEGMENT_BITS);

/// Smallest segment that is created without need, if the options allow, in a store of more than
/// this many bytes.
pub(crate) const SEGMENT_MIN: u64 = 1 << 20;
/// The same in a smaller store, whose segments grow with it.
pub(crate) const SEGMENT_SMALL: u64 = 64 << 10;
/// Segments are at least this many times as long as their head, which lists all other segments.
pub(crate) const HEAD_SHARE: u64 = 8;

/// Least number of cache lines of a record that are prefetched. The processor itself continues
/// after them.
pub(crate) const RECORD_LINES: usize = 3;

/// Bytes of a record that are read from a file before its length is known.
const FETCH: u64 = 1024;

/// The number after this one. Error: `Failed` if all numbers are used.
pub(crate) fn next_number(number: u64) -> Result<u64> {
    let used_up = || Error::new(ErrorKind::Failed, "the numbers of segments are used up");
    number.checked_add(1).ok_or_else(used_up)
}

/// The bytes of a segment.
pub(crate) enum SegmentBytes {
    /// A segment that was sealed when the store was opened, and where its records end. With
    /// buffered access the map has the head only.
    Sealed(Map, usize),
    /// The active segment, or one that was active since the store was opened.
    AppendMap(Arc<AppendMap>),
}

/// A segment of an open store.
pub(crate) struct Segment {
    pub(crate) number: u64,
    /// Its slot in the segment table.
    pub(crate) slot: usize,
    /// Records begin at multiples of 2^this.
    pub(crate) alignment_log2: u32,
    pub(crate) path: PathBuf,
    bytes: SegmentBytes,
    /// With buffered access, the file that records are read from.
    file: Option<Box<dyn ReadAt>>,
    /// Bytes of the records that the index points to.
    pub(crate) live: AtomicU64,
    /// Bytes of deletes, which may hide older versions of their keys.
    pub(crate) deletes: AtomicU64,
    /// Number of bytes that are durable.
    pub(crate) synced: AtomicU64,
    /// Whether the name of its file is durable.
    pub(crate) is_named: AtomicBool,
    /// Set when the segment is sealed and durable.
    pub(crate) hint: OnceLock<Hint>,
    /// One more than the number of segments removed when compaction last counted its needed
    /// deletes.
    pub(crate) deletes_checked: AtomicU64,
}

impl Segment {
    pub(crate) fn new(
        number: u64,
        slot: usize,
        alignment_log2: u32,
        path: PathBuf,
        bytes: SegmentBytes,
    ) -> Segment {
        Segment {
            number,
            slot,
            alignment_log2,
            path,
            bytes,
            file: None,
            live: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            is_named: AtomicBool::new(false),
            hint: OnceLock::new(),
            deletes_checked: AtomicU64::new(0),
        }
    }

    /// Opens the file if the options ask for buffered access.
    pub(crate) fn accessed(mut self, disk: &dyn Disk, access: Access) -> Result<Segment> {
        if access == Access::Buffered {
            self.file = Some(disk.open(&self.path)?);
        }
        Ok(self)
    }

    /// The mapped bytes up to the end of the last record. With buffered access these are not the
    /// records.
    #[inline]
    pub(crate) fn filled(&self) -> &[u8] {
        match &self.bytes {
            SegmentBytes::Sealed(map, end) => map.get(..*end).unwrap_or(map),
            SegmentBytes::AppendMap(map) => map.filled(),
        }
    }

    /// Takes over the counters of an earlier version of this segment, which had fewer records.
    pub(crate) fn inherit(&self, before: &Segment) {
        self.live.store(before.live.load(Ordering::Relaxed), Ordering::Relaxed);
        self.deletes.store(before.deletes.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Called when the segment is durable and has its hint: closes the file for appending and
    /// advises the system of random reads.
    pub(crate) fn seal(&self) {
        match &self.bytes {
            SegmentBytes::Sealed(map, _) => map.expect_random(),
            SegmentBytes::AppendMap(map) => {
                map.expect_random();
                map.close();
            }
        }
    }

    /// Advises the system that all records will be read.
    pub(crate) fn expect_all(&self) {
        match &self.bytes {
            SegmentBytes::Sealed(map, _) => map.expect_all(),
            SegmentBytes::AppendMap(map) => map.expect_all(),
        }
    }

    /// Where the records end.
    pub(crate) fn end(&self) -> u64 {
        match (&self.bytes, &self.file) {
            (SegmentBytes::Sealed(_, end), Some(_)) => *end as u64,
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
            (SegmentBytes::Sealed(..), Some(file)) => file.len().unwrap_or(self.end()),
            (SegmentBytes::Sealed(map, _), None) => map.len() as u64,
            (SegmentBytes::AppendMap(map), _) => map.capacity() as u64,
        }
    }

    /// Bytes that are freed when the live records are moved elsewhere.
    pub(crate) fn size(&self) -> u64 {
        let (end, capacity) = (self.end(), self.capacity());
        // Mostly reserved and never filled: that is freed too.
        if end * 4 < capacity { capacity } else { end }
    }

    /// The location of the record at this byte.
    #[inline]
    pub(crate) fn location(&self, offset: u64) -> RecordLocation {
        RecordLocation::new(self.slot, offset >> self.alignment_log2)
    }

    /// The byte at which a record of this segment begins.
    #[inline]
    pub(crate) fn offset(&self, location: RecordLocation) -> u64 {
        location.offset() << self.alignment_log2
    }

    /// Prefetches the first cache lines of a record, if it is mapped.
    #[inline]
    pub(crate) fn prefetch(&self, location: RecordLocation, lines: usize) {
        if self.file.is_none() {
            let rest = self.filled().get(self.offset(location) as usize..);
            prefetch(rest.unwrap_or(&[]), lines);
        }
    }

    /// The bytes from `offset` on: all up to the end of the map, or with buffered access the record
    /// that begins there, read into `buffer`.
    #[inline]
    pub(crate) fn bytes_at<'a>(&'a self, offset: u64, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        match &self.file {
            None => Ok(self.filled().get(offset as usize..).unwrap_or(&[])),
            Some(file) => self.fetch(&**file, offset, buffer),
        }
    }

    #[cold]
    fn fetch<'a>(
        &self,
        file: &dyn ReadAt,
        offset: u64,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8]> {
        let left = self.end().saturating_sub(offset);
        buffer.resize(left.min(FETCH) as usize, 0);
        file.read_at(offset, buffer)?;
        let length = record_length(buffer).map_or(0, |length| length as u64);
        let have = buffer.len() as u64;
        if (have..=left).contains(&length) && length > have {
            buffer.resize(length as usize, 0);
            file.read_at(offset + have, &mut buffer[have as usize..])?;
        }
        Ok(buffer)
    }

    /// The record at this byte and its length. Does not check the checksum.
    #[inline]
    pub(crate) fn peek<'a>(
        &'a self,
        offset: u64,
        buffer: &'a mut Vec<u8>,
    ) -> Result<(Record<'a>, usize)> {
        let found = parse(self.bytes_at(offset, buffer)?);
        found.ok_or_else(|| self.damage(offset))
    }

    /// The record at this byte and its length. Checks the checksum.
    #[inline]
    pub(crate) fn read<'a>(
        &'a self,
        offset: u64,
        buffer: &'a mut Vec<u8>,
    ) -> Result<(Record<'a>, usize)> {
        let found = parse_checked(self.bytes_at(offset, buffer)?, self.number, offset);
        found.ok_or_else(|| self.damage(offset))
    }

    /// The error for a damaged record.
    pub(crate) fn damage(&self, offset: u64) -> Error {
        Error::corrupt("a record is damaged: its checksum or its lengths are wrong")
            .at(offset)
            .in_file(&self.path)
    }

    /// Where the record after one that ends at `offset` begins; the bytes that a record of this
    /// length takes with its padding.
    #[inline]
    pub(crate) fn align(&self, offset: u64) -> u64 {
        offset.next_multiple_of(1 << self.alignment_log2)
    }

    /// How records are appended; `Auto` if none were since the store was opened.
    pub(crate) fn append_mode(&self) -> AppendMode {
        match &self.bytes {
            SegmentBytes::Sealed(..) => AppendMode::Auto,
            SegmentBytes::AppendMap(map) => map.mode(),
        }
    }

    /// Makes the bytes up to `to` durable.
    pub(crate) fn sync(&self, to: u64) -> Result<()> {
        let from = self.synced.load(Ordering::Acquire);
        if let SegmentBytes::AppendMap(map) = &self.bytes
            && from < to
        {
            map.sync(from as usize, to as usize)?;
            self.synced.fetch_max(to, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Counts a record that the index no longer points to. Returns the bytes that it takes with its
    /// padding. For the holder of the writer's lock.
    #[inline]
    pub(crate) fn retire_record(&self, length: u64) -> u64 {
        // Records begin at aligned bytes, so the padding after a record depends on its length only.
        let bytes = self.align(length);
        subtract(&self.live, bytes);
        bytes
    }

    /// Iterates over all records of the segment's contents and checks each. Ends with an error at
    /// the first damaged record.
    pub(crate) fn records<'a>(&'a self, bytes: &'a [u8]) -> Records<'a> {
        self.records_from(bytes, HEADER as u64)
    }
}

impl Segment {
    /// [`Segment::records`] from the byte on at which a record ends.
    pub(crate) fn records_from<'a>(&'a self, bytes: &'a [u8], at: u64) -> Records<'a> {
        self.expect_all();
        Records { segment: self, bytes, at: at.max(HEADER as u64), is_over: false }
    }
}

/// The records of a segment in order: offset, record, length.
pub(crate) struct Records<'a> {
    segment: &'a Segment,
    bytes: &'a [u8],
    at: u64,
    is_over: bool,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<(u64, Record<'a>, u64)>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.segment.align(self.at);
        if self.is_over || self.at >= self.bytes.len() as u64 {
            return None;
        }
        let rest = self.bytes.get(offset as usize..).unwrap_or(&[]);
        match parse_checked(rest, self.segment.number, offset) {
            Some((record, length)) => {
                self.at = offset + length as u64;
                Some(Ok((offset, record, length as u64)))
            }
            None => {
                self.is_over = true;
                Some(Err(self.segment.damage(offset)))
            }
        }
    }
}

impl SegmentTable<Segment> {
    /// All segments, ordered by number.
    pub(crate) fn in_order(&self) -> Vec<Arc<Segment>> {
        let mut all: Vec<_> = self.iter().cloned().collect();
        all.sort_unstable_by_key(|segment| segment.number);
        all
    }

    /// Where the records of the last segment end; (0, 0) if there is none.
    pub(crate) fn end(&self) -> (u64, u64) {
        self.iter().map(|segment| (segment.number, segment.end())).max().unwrap_or_default()
    }
}
