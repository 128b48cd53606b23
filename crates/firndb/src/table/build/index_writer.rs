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

use crate::Result;
use crate::bytes::frozen::FrozenWriter;
use crate::bytes::int::{Encoder, u64_at};
use crate::bytes::prefetch::LINE;
use crate::disk::spool::Spool;
use crate::table::format::index::{
    IndexShape, IndexWriter, LONG, LONGEST_KEY, PART, RecordPointer,
};
use crate::table::format::section;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of records, on average, from which on a file has an index.
pub(crate) const MIN_INDEXED_RECORD: u64 = 512;
/// Keeps what an index needs of each record until all are written, 16 bytes.
///
/// ```text
/// BITS     FIELD
/// 0..64    hash
/// 64..104  where the record begins, from where the one before it does
/// 104..112 bytes of the key; 255 if it has as many or more
/// 112..128 bytes of the record; 2^16 - 1 if it has as many or more
/// ```
pub(crate) struct IndexSpool {
    spool: Spool,
    last: u64,
    entry: Encoder,
}

const KEY: u32 = 40;
const LENGTH: u32 = 48;

impl IndexSpool {
    pub(crate) fn new(spool: Spool) -> IndexSpool {
        IndexSpool { spool, last: 0, entry: Encoder::default() }
    }

    /// The next record, in the order of hashes and of places.
    pub(crate) fn push(
        &mut self,
        RecordPointer { hash, begin, key, len }: RecordPointer,
    ) -> Result<()> {
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
        let is_worth_it = bytes >= records.saturating_mul(MIN_INDEXED_RECORD);
        let shape = IndexShape::new(records, bytes).filter(|_| is_worth_it);
        let Some(shape) = shape else { return Ok(()) };
        out.begin(section::INDEX, true)?;
        let mut parts = SectionWriter { out, len: 0, part: Vec::new(), checks: Encoder::default() };
        let (mut writer, mut begin) = (IndexWriter::new(shape), 0);
        self.spool.each(|entries| {
            for at in (0..entries.len()).step_by(16) {
                let (hash, rest) = (u64_at(entries, at), u64_at(entries, at + 8));
                begin += rest & ((1 << KEY) - 1);
                let key = (rest >> KEY) as u8;
                let record = RecordPointer { hash, begin, key: key.into(), len: rest >> LENGTH };
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
struct SectionWriter<'o, 'd> {
    out: &'o mut FrozenWriter<'d>,
    /// Bytes so far.
    len: u64,
    part: Vec<u8>,
    checks: Encoder,
}

impl SectionWriter<'_, '_> {
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
