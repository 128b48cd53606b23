//! Writes the index of a table of large records. `format/index.rs` has its layout.
//!
//! The index takes about 13 bytes per record, a fortieth of a record of 512 bytes. Tables of
//! smaller records have no index in the file.

use crate::Result;
use crate::bytes::frozen::FrozenWriter;
use crate::bytes::int::{Encoder, u64_at};
use crate::bytes::prefetch::LINE;
use crate::disk::spool::Spool;
use crate::table::format::index::{
    CHECKED_PART, IndexEncoder, IndexShape, MAX_INDEXED_KEY, MAX_LEN, RecordPointer,
};
use crate::table::format::section;
use xxhash_rust::xxh3::xxh3_64;

/// A table has an index if its records have this many bytes on average.
pub(crate) const MIN_INDEXED_RECORD: u64 = 512;
/// Spools the index entries until all blocks are written, 16 bytes per record:
///
/// ```text
/// BITS     FIELD
/// 0..64    hash
/// 64..104  offset of the record, minus that of the record before
/// 104..112 bytes of the key; 255 if it is that long or longer
/// 112..128 bytes of the record; 2^16 - 1 if it is that long or longer
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

    /// Adds the next record, in the order of hashes and of offsets.
    pub(crate) fn push(
        &mut self,
        RecordPointer { hash, begin, key, len }: RecordPointer,
    ) -> Result<()> {
        let step = begin - self.last;
        self.last = begin;
        self.entry.0.clear();
        self.entry.u64(hash);
        self.entry
            .u64(step | (key.min(MAX_INDEXED_KEY + 1) as u64) << KEY | len.min(MAX_LEN) << LENGTH);
        self.spool.push(&self.entry.0)
    }

    /// Writes both sections, for `records` records in `bytes` bytes of blocks, unless the records
    /// are small on average.
    pub(crate) fn finish(self, out: &mut FrozenWriter, records: u64, bytes: u64) -> Result<()> {
        let is_worth_it = bytes >= records.saturating_mul(MIN_INDEXED_RECORD);
        let shape = IndexShape::new(records, bytes).filter(|_| is_worth_it);
        let Some(shape) = shape else { return Ok(()) };
        out.begin(section::INDEX, true)?;
        let mut parts = SectionWriter { out, len: 0, part: Vec::new(), checks: Encoder::default() };
        let (mut writer, mut begin) = (IndexEncoder::new(shape), 0);
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

/// Writes the array in parts, each with a checksum.
struct SectionWriter<'o, 'd> {
    out: &'o mut FrozenWriter<'d>,
    /// Bytes written and buffered.
    len: u64,
    part: Vec<u8>,
    checks: Encoder,
}

impl SectionWriter<'_, '_> {
    /// Adds the next used bucket.
    fn put(&mut self, bucket: u64, bytes: &[u8]) -> Result<()> {
        self.fill(bucket * LINE as u64)?;
        self.add(bytes)
    }

    /// Adds free buckets up to a length.
    fn fill(&mut self, len: u64) -> Result<()> {
        while self.len < len {
            self.add(&[0; LINE])?;
        }
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.part.extend_from_slice(bytes);
        self.len += bytes.len() as u64;
        if self.part.len() < CHECKED_PART { Ok(()) } else { self.end() }
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
