//! The index of a file: what a build keeps until its blocks are written, and the array in a map.
//!
//! A mapped table of large records has its index in the file: it takes about 13 bytes a record,
//! about a fortieth of records of 512 bytes. Of smaller records it would be a larger share.
//!
//! ```text
//! SECTION       WHAT IT HOLDS
//! index         the array of `index.rs`, up to the last bucket in use or the last that a hash may
//!               name, whichever comes later
//! index checks  the XXH3-64 of every 64 KiB of the index; the last part may be shorter
//! ```

use super::format::section;
use super::index::{ENTRY, IndexWriter, LAST, LONG, LONGEST_KEY, Pointer, Shape};
use super::source::Checked;
use super::spill::Spool;
use crate::bytes::frozen::{Frozen, FrozenWriter};
use crate::bytes::int::{Encoder, u64_at};
use crate::bytes::prefetch::LINE;
use crate::disk::{Map, Words};
use crate::{Error, Result};
use std::sync::atomic::Ordering::Relaxed;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of records, on average, from which on a file has an index.
pub(crate) const INDEXED: u64 = 512;
/// Bytes of the array that have one checksum.
pub(crate) const PART: usize = 1 << 16;

/// Keeps what an index needs of each record until all are written, 16 bytes.
///
/// ```text
/// BITS     FIELD
/// 0..64    hash
/// 64..104  where the record begins, from where the one before it does
/// 104..112 bytes of the key; 255 if it has as many or more
/// 112..128 bytes of the record; 2^16 - 1 if it has as many or more
/// ```
pub(crate) struct Pointers {
    spool: Spool,
    last: u64,
    entry: Encoder,
}

const KEY: u32 = 40;
const LENGTH: u32 = 48;

impl Pointers {
    pub(crate) fn new(spool: Spool) -> Pointers {
        Pointers { spool, last: 0, entry: Encoder::default() }
    }

    /// The next record, in the order of hashes and of places.
    pub(crate) fn push(&mut self, Pointer { hash, begin, key, len }: Pointer) -> Result<()> {
        let step = begin - self.last;
        self.last = begin;
        self.entry.0.clear();
        self.entry.u64(hash);
        self.entry.u64(step | (key.min(LONGEST_KEY + 1) as u64) << KEY | len.min(LONG) << LENGTH);
        self.spool.push(&self.entry.0)
    }

    /// Writes the sections of the index, of so many records in so many bytes of blocks, unless
    /// records turned out to be small.
    pub(crate) fn finish(self, out: &mut FrozenWriter, records: u64, bytes: u64) -> Result<()> {
        let is_worth_it = bytes >= records.saturating_mul(INDEXED);
        let shape = Shape::new(records, bytes).filter(|_| is_worth_it);
        let Some(shape) = shape else { return Ok(()) };
        out.begin(section::INDEX, true)?;
        let mut parts = Parts { out, len: 0, part: Vec::new(), checks: Encoder::default() };
        let (mut writer, mut begin) = (IndexWriter::new(shape), 0);
        self.spool.each(|entries| {
            for at in (0..entries.len()).step_by(16) {
                let (hash, rest) = (u64_at(entries, at), u64_at(entries, at + 8));
                begin += rest & ((1 << KEY) - 1);
                let key = (rest >> KEY) as u8;
                let record = Pointer { hash, begin, key: key.into(), len: rest >> LENGTH };
                writer.push(record, |bucket, bytes| parts.put(bucket, bytes))?;
            }
            Ok(())
        })?;
        writer.flush(|bucket, bytes| parts.put(bucket, bytes))?;
        parts.fill(shape.len().0)?;
        parts.end()?;
        let checks = parts.checks.0;
        out.end();
        out.section(section::INDEX_CHECKS, &checks)
    }
}

/// Writes an array part by part.
struct Parts<'o, 'd> {
    out: &'o mut FrozenWriter<'d>,
    /// Bytes so far.
    len: u64,
    part: Vec<u8>,
    checks: Encoder,
}

impl Parts<'_, '_> {
    /// The next bucket that has entries.
    fn put(&mut self, bucket: u64, bytes: &[u8]) -> Result<()> {
        self.fill(bucket * LINE as u64)?;
        self.add(bytes)
    }

    /// Zeros up to a length.
    fn fill(&mut self, len: u64) -> Result<()> {
        while self.len < len {
            self.add(&[0; LINE])?;
        }
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.part.extend_from_slice(bytes);
        self.len += bytes.len() as u64;
        if self.part.len() < PART { Ok(()) } else { self.end() }
    }

    fn end(&mut self) -> Result<()> {
        if !self.part.is_empty() {
            self.checks.u64(xxh3_64(&self.part));
            self.out.write(&self.part)?;
            self.part.clear();
        }
        Ok(())
    }
}

/// The array of an index in a mapped file.
pub(crate) struct Mapped {
    array: Map,
    /// Where it begins in the file.
    start: usize,
    checks: Box<[u8]>,
    /// Which parts were.
    checked: Checked,
    /// A bit an entry, a byte a bucket: its part was checked, and the block of its record; at the
    /// end of a bucket also if it is free. Memory is taken as it is touched, so that opening a
    /// large table takes no time.
    ready: Words,
    buckets: usize,
}

impl Mapped {
    /// The array of an index of this shape, if the file has one; `Corrupt` if its length is wrong.
    pub(crate) fn open(file: &Frozen, shape: Option<Shape>) -> Result<Option<Mapped>> {
        let Some(entry) = file.find(section::INDEX).map(|i| file.entry(i)) else { return Ok(None) };
        let checks = file.find(section::INDEX_CHECKS).map(|i| file.section(i)).transpose()?;
        let (least, most) = shape.map_or((1, 0), Shape::len);
        let parts = entry.len.div_ceil(PART as u64);
        let fits = (least..=most).contains(&entry.len) && entry.len.is_multiple_of(LINE as u64);
        let checks = checks.filter(|checks| fits && checks.len() as u64 == 8 * parts);
        let checks = checks.ok_or_else(|| Error::corrupt("the index has a wrong size"))?;
        let start = entry.offset as usize;
        let buckets = entry.len as usize / LINE;
        let array = file.map().part(start..start + entry.len as usize);
        Ok(Some(Mapped {
            array: array.ok_or_else(|| Error::corrupt("the index is cut"))?,
            start,
            checks: checks.into(),
            checked: Checked::new(parts),
            ready: Words::new(buckets.div_ceil(8), false)?,
            buckets,
        }))
    }

    /// Bytes of memory beside the map.
    pub(crate) fn memory(&self) -> usize {
        self.checks.len() + self.checked.memory() + size_of_val(&*self.ready)
    }

    #[inline(always)]
    pub(crate) fn array(&self) -> &Map {
        &self.array
    }

    /// A bit for each entry of a bucket that can be used.
    #[inline(always)]
    pub(crate) fn ready(&self, bucket: usize) -> u8 {
        let word = self.ready.get(bucket / 8).map_or(0, |word| word.load(Relaxed));
        (word >> (8 * (bucket % 8))) as u8
    }

    /// Whether the part of a bucket was checked. Behind the last bucket all are free, and so they
    /// are known.
    #[inline(always)]
    pub(crate) fn is_checked(&self, bucket: usize) -> bool {
        bucket >= self.buckets || self.checked.has((bucket * LINE / PART) as u64)
    }

    pub(crate) fn set_ready(&self, bucket: usize, entries: u8) {
        if bucket < self.buckets {
            self.ready[bucket / 8].fetch_or(u64::from(entries) << (8 * (bucket % 8)), Relaxed);
        }
    }

    /// Checks all parts.
    pub(crate) fn check_all(&self) -> Result<()> {
        (0..self.array.len().div_ceil(PART)).try_for_each(|part| self.check(part))
    }

    /// Checks a part unless its bit is set, which it then is; one behind the last has no bytes.
    /// What is free at the end of its buckets is known then: it says that a key is not there.
    pub(crate) fn check_once(&self, part: usize) -> Result<()> {
        self.checked.once(part as u64, || {
            self.check(part)?;
            let buckets = part * (PART / LINE)..(part + 1) * (PART / LINE);
            for bucket in buckets.take_while(|&bucket| bucket < self.buckets) {
                if u64_at(&self.array, bucket * LINE + LAST) == 0 {
                    self.set_ready(bucket, 1 << (LAST / ENTRY));
                }
            }
            Ok(())
        })
    }

    fn check(&self, part: usize) -> Result<()> {
        let Some(bytes) = self.array.chunks(PART).nth(part) else { return Ok(()) };
        let (got, expected) = (xxh3_64(bytes), u64_at(&self.checks, 8 * part));
        if got != expected {
            let message =
                format!("checksum of part {part} of the index is {got:016x}, not {expected:016x}");
            return Err(Error::corrupt(message).at((self.start + part * PART) as u64));
        }
        Ok(())
    }

    /// Whether the array goes on with zeros up to a bucket, and with that.
    fn compare(&self, len: &mut usize, bucket: u64, bytes: &[u8]) -> Result<()> {
        let (array, at) = (&self.array, bucket as usize * LINE);
        let free = array.get(*len..at).is_some_and(|free| free.iter().all(|&byte| byte == 0));
        if !free || array.get(at..at + LINE) != Some(bytes) {
            return Err(self.other(*len));
        }
        *len = at + LINE;
        Ok(())
    }

    fn other(&self, at: usize) -> Error {
        let message = format!("from byte {at} on the index is not that of the records");
        Error::corrupt(message).at((self.start + at) as u64)
    }
}

/// Compares the index in a file with what it should be, as far as it has come.
pub(crate) struct Comparison<'a> {
    mapped: &'a Mapped,
    writer: IndexWriter,
    /// Bytes that are alike.
    len: usize,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(mapped: &'a Mapped, shape: Shape) -> Comparison<'a> {
        Comparison { mapped, writer: IndexWriter::new(shape), len: 0 }
    }

    /// The next record; `Corrupt` if the buckets before its own are others.
    pub(crate) fn push(&mut self, record: Pointer) -> Result<()> {
        let Comparison { mapped, writer, len } = self;
        writer.push(record, |bucket, bytes| mapped.compare(len, bucket, bytes))
    }

    /// Compares what is left.
    pub(crate) fn finish(mut self) -> Result<()> {
        let Comparison { mapped, writer, len } = &mut self;
        writer.flush(|bucket, bytes| mapped.compare(len, bucket, bytes))?;
        match mapped.array.get(*len..).unwrap_or(&[]).iter().all(|&byte| byte == 0) {
            true => Ok(()),
            false => Err(mapped.other(*len)),
        }
    }
}
