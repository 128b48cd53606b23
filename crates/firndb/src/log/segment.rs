//! A segment: a file of records, open for reading. `table.rs` has all of them.

use super::format::{self, Record};
use super::hint::Hint;
use super::index::{Place, SEGMENT_BITS};
use super::stats::subtract;
use super::table;
use crate::bytes::prefetch::prefetch;
use crate::disk::{AppendMode, Map, Tape};
use crate::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Most segments of a store.
pub(super) const SEGMENTS_MAX: usize = 1 << SEGMENT_BITS;

/// Cache lines of a record that are asked for at least: the processor itself goes on behind them.
pub(super) const RECORD_LINES: usize = 3;

const PREFIX: &str = "segment-";
const SUFFIX: &str = ".log";

/// The name of the file of segment `number`.
pub(super) fn file_name(number: u64) -> String {
    format!("{PREFIX}{number:020}{SUFFIX}")
}

/// The number of a segment's file; `None` for any other name.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

/// The number of a segment that begins after the one with this number.
pub(super) fn after(number: u64) -> Result<u64> {
    let used_up = || Error::new(ErrorKind::Failed, "the numbers of segments are used up");
    number.checked_add(1).ok_or_else(used_up)
}

/// Where a segment's bytes are.
pub(super) enum Bytes {
    /// It was sealed when the store was opened; records end there.
    Sealed(Map, usize),
    /// It is or was the active one.
    Tape(Arc<Tape>),
}

pub(super) struct Segment {
    pub(super) number: u64,
    /// Its slot in the table.
    pub(super) slot: usize,
    /// Records begin at multiples of two to this power.
    pub(super) granule: u32,
    pub(super) path: PathBuf,
    pub(super) bytes: Bytes,
    /// Bytes of the records that the index points to.
    pub(super) live: AtomicU64,
    /// Bytes of deletes and of expired records, which may hide older versions of their keys.
    pub(super) deletes: AtomicU64,
    /// Bytes that are durable.
    pub(super) synced: AtomicU64,
    /// Its name is durable.
    pub(super) is_named: AtomicBool,
    /// Written when it is sealed and durable.
    pub(super) hint: OnceLock<Hint>,
    /// Number of removals, and one, when its deletes were last found needed.
    pub(super) deletes_checked: AtomicU64,
}

impl Segment {
    pub(super) fn new(number: u64, slot: usize, granule: u32, path: PathBuf, b: Bytes) -> Segment {
        Segment {
            number,
            slot,
            granule,
            path,
            bytes: b,
            live: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            is_named: AtomicBool::new(false),
            hint: OnceLock::new(),
            deletes_checked: AtomicU64::new(0),
        }
    }

    /// The bytes up to the end of the last record.
    #[inline]
    pub(super) fn filled(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Sealed(map, end) => map.get(..*end).unwrap_or(map),
            Bytes::Tape(tape) => tape.filled(),
        }
    }

    /// Takes over the counts of what it was before more was appended.
    pub(super) fn inherit(&self, before: &Segment) {
        self.live.store(before.live.load(Ordering::Relaxed), Ordering::Relaxed);
        self.deletes.store(before.deletes.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Says that it is durable, has its hint, and that single records will be read.
    pub(super) fn settle(&self) {
        match &self.bytes {
            Bytes::Sealed(map, _) => map.expect_random(),
            Bytes::Tape(tape) => {
                tape.expect_random();
                tape.close();
            }
        }
    }

    /// Says that all records will be read.
    pub(super) fn expect_all(&self) {
        match &self.bytes {
            Bytes::Sealed(map, _) => map.expect_all(),
            Bytes::Tape(tape) => tape.expect_all(),
        }
    }

    pub(super) fn end(&self) -> u64 {
        self.filled().len() as u64
    }

    /// Length of the file.
    pub(super) fn capacity(&self) -> u64 {
        match &self.bytes {
            Bytes::Sealed(map, _) => map.len() as u64,
            Bytes::Tape(tape) => tape.capacity() as u64,
        }
    }

    /// Bytes that come back when its live records are elsewhere.
    pub(super) fn size(&self) -> u64 {
        let (end, capacity) = (self.end(), self.capacity());
        // Mostly reserved and never filled: all of that comes back too.
        if end * 4 < capacity { capacity } else { end }
    }

    /// The place of the record at this byte.
    pub(super) fn place(&self, offset: u64) -> Place {
        Place::new(self.slot, offset >> self.granule)
    }

    /// The byte of this segment that a place means.
    pub(super) fn offset(&self, place: Place) -> u64 {
        place.offset() << self.granule
    }

    /// Brings the first lines of a record into the processor's cache.
    #[inline]
    pub(super) fn prefetch(&self, place: Place, lines: usize) {
        let rest = self.filled().get(self.offset(place) as usize..);
        prefetch(rest.unwrap_or(&[]), lines);
    }

    /// The record at this byte and its length, not yet checked against its checksum.
    #[inline]
    pub(super) fn peek(&self, offset: u64) -> Option<(Record<'_>, usize)> {
        format::parse(self.filled().get(offset as usize..)?)
    }

    /// The record at this byte, checked.
    #[inline]
    pub(super) fn read(&self, offset: u64) -> Result<(Record<'_>, usize)> {
        let rest = self.filled().get(offset as usize..);
        let found = rest.and_then(|rest| format::read(rest, self.number, offset));
        found.ok_or_else(|| self.damage(offset))
    }

    /// The error of a record that should be here.
    pub(super) fn damage(&self, offset: u64) -> Error {
        Error::corrupt("a record is damaged: its checksum or its lengths are wrong")
            .at(offset)
            .in_file(&self.path)
    }

    /// Where the record after one that ends here begins.
    pub(super) fn align(&self, offset: u64) -> u64 {
        offset.next_multiple_of(1 << self.granule)
    }

    /// How it was or is appended to; `Auto` if nothing was since the store was opened.
    pub(super) fn append_mode(&self) -> AppendMode {
        match &self.bytes {
            Bytes::Sealed(..) => AppendMode::Auto,
            Bytes::Tape(tape) => tape.mode(),
        }
    }

    /// Makes the bytes up to `to` durable.
    pub(super) fn sync(&self, to: u64) -> Result<()> {
        let from = self.synced.load(Ordering::Acquire);
        if let Bytes::Tape(tape) = &self.bytes
            && from < to
        {
            tape.sync(from as usize, to as usize)?;
            self.synced.fetch_max(to, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Counts a record that the index no longer points to. For the holder of the writer's lock.
    pub(super) fn retire(&self, length: u64) {
        subtract(&self.live, length);
    }
}

/// The segments of a store by slot, at one moment.
pub(super) type Table = table::Table<Segment>;

impl Table {
    /// All segments, in the order of their numbers.
    pub(super) fn in_order(&self) -> Vec<Arc<Segment>> {
        let mut all: Vec<_> = self.iter().cloned().collect();
        all.sort_unstable_by_key(|segment| segment.number);
        all
    }
}
