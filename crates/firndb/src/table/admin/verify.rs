//! Verification of a table: every checksum, and the consistency of all structures.

use crate::bytes::inspection::Verification;
use crate::bytes::int::u32_at;
use crate::table::format::block::{Body, CHECKSUM, FRAME_HEADER, check, tag};
use crate::table::format::directory::bin_of;
use crate::table::format::fences::FenceWriter;
use crate::table::format::index::{IndexEncoder, IndexShape, RecordPointer};
use crate::table::options::Compression;
use crate::table::read::mapped_index::MappedIndex;
use crate::table::read::reader::TableReader;
use crate::table::read::table::Table;
use crate::{Error, Result};
use std::cmp::Ordering::Less;
use std::ops::ControlFlow;

/// Totals to compare with the meta section, and the expected index.
#[derive(Default)]
struct Totals<'a> {
    records: u64,
    key_bytes: u64,
    value_bytes: u64,
    longest_key: usize,
    longest_value: usize,
    last: Option<(u64, Vec<u8>)>,
    index: Option<IndexComparison<'a>>,
    /// The expected fences, in key order.
    fences: Option<FenceWriter>,
}

impl Table {
    /// Checks every byte of the file, and that a get finds each record. Takes time proportional to
    /// the file. Errors: `Corrupt`, with the file and usually the offset; `Io`.
    pub fn verify(&self) -> Result<Verification> {
        Verifier { reader: &self.reader }.verify()
    }
}

/// Verifies one table.
struct Verifier<'a> {
    reader: &'a TableReader,
}

impl Verifier<'_> {
    fn verify(&self) -> Result<Verification> {
        self.reader.file.verify()?;
        let shape = self.reader.index_shape();
        let mapped = MappedIndex::open(&self.reader.file, shape)
            .map_err(|e| e.in_file(self.reader.path()))?;
        if let Some(mapped) = &mapped {
            mapped.check_all().map_err(|e| e.in_file(self.reader.path()))?;
        }
        let index = mapped.as_ref().zip(shape);
        let index = index.map(|(mapped, shape)| IndexComparison::new(mapped, shape));
        let mut totals = Totals { index, ..Totals::default() };
        self.reader.directory.verify().map_err(|e| e.in_file(self.reader.path()))?;
        totals.fences = self.reader.fences.is_some().then(FenceWriter::default);
        for number in 0..self.reader.meta.blocks {
            self.verify_block(number, &mut totals)
                .map_err(|e| self.reader.block_error(e, number))?;
        }
        if let (Some(expected), Some(fences)) = (totals.fences.take(), &self.reader.fences)
            && expected.finish() != fences.bytes()
        {
            let message = "the fences are not those of the blocks";
            return Err(Error::corrupt(message).in_file(self.reader.path()));
        }
        if let Some(index) = totals.index.take() {
            index.finish().map_err(|e| e.in_file(self.reader.path()))?;
        }
        let meta = &self.reader.meta;
        let equal = totals.records == meta.records
            && totals.key_bytes == meta.key_bytes
            && totals.value_bytes == meta.value_bytes
            && totals.longest_key == meta.longest_key as usize
            && totals.longest_value == meta.longest_value as usize;
        if !equal {
            let message =
                "the records do not have the counts and sizes that the meta section states";
            return Err(Error::corrupt(message).in_file(self.reader.path()));
        }
        Ok(Verification { files: 1, bytes: self.reader.file.len(), records: meta.records })
    }

    fn verify_block(&self, number: u64, totals: &mut Totals<'_>) -> Result<()> {
        let block = self.reader.block(number)?;
        check(&block, number)?;
        let bytes = self.reader.body(&block)?;
        let body = Body::parse(&bytes)?;
        if body.len() == 0 {
            return Err(Error::corrupt(format!("block {number} is empty")));
        }
        let offset = self.reader.extent(number)?.0 - self.reader.blocks.0;
        let mut first_key = Vec::new();
        let (mut i, mut begin) = (0, offset + (CHECKSUM + body.first()) as u64);
        let end = body.for_each_record(|key, stored| {
            let hash = self.reader.hash(key);
            if i == 0
                && self.reader.fences.is_none()
                && bin_of(hash, self.reader.meta.slots) != self.reader.directory.first(number)
            {
                return Err(Error::corrupt(format!(
                    "block {number} does not start at its bin in the directory"
                )));
            }
            if i == 0 {
                first_key.extend_from_slice(key);
            }
            self.verify_record(number, hash, key)?;
            if body.tag(i) != tag(hash) {
                return Err(Error::corrupt(format!(
                    "record {i} of block {number} has a wrong tag"
                )));
            }
            i += 1;
            let len = (key.len() + stored.len()) as u64;
            if let Some(index) = &mut totals.index {
                index.push(RecordPointer { hash, begin, key: key.len(), len })?;
            }
            begin += len;
            self.count(totals, hash, key, stored)?;
            Ok(ControlFlow::Continue(()))
        })?;
        if let (Some(fences), Some((_, last))) = (&mut totals.fences, &totals.last) {
            fences.push(&first_key, last);
        }
        let end = end.unwrap_or(0); // nothing breaks
        let used = match self.reader.meta.compression {
            Compression::Blocks { .. } => {
                CHECKSUM + FRAME_HEADER + u32_at(&block, CHECKSUM) as usize
            }
            _ => CHECKSUM + end,
        };
        match block.get(used..).map(|rest| rest.iter().all(|&b| b == 0)) {
            Some(true) => Ok(()),
            _ => Err(Error::corrupt(format!("the padding of block {number} is not zero"))),
        }
    }

    /// `Corrupt` unless a get of this key reads this block.
    fn verify_record(&self, number: u64, hash: u64, key: &[u8]) -> Result<()> {
        let found = self.reader.locate(hash, key).map(|located| located.block);
        if found != Some(number) || !self.reader.may_contain(hash) {
            let shown = key[..key.len().min(80)].escape_ascii();
            return Err(Error::corrupt(format!("the key '{shown}' would not be found")));
        }
        Ok(())
    }

    fn count(&self, totals: &mut Totals<'_>, hash: u64, key: &[u8], stored: &[u8]) -> Result<()> {
        let value = match self.reader.meta.compression {
            Compression::Records { .. } => self.reader.decompress_value(stored)?.len(),
            _ => stored.len(),
        };
        totals.records += 1;
        totals.key_bytes += key.len() as u64;
        totals.value_bytes += value as u64;
        totals.longest_key = totals.longest_key.max(key.len());
        totals.longest_value = totals.longest_value.max(value);
        let last = totals.last.as_ref();
        // In key order, the hash does not count.
        let rank = |hash| if self.reader.fences.is_some() { 0 } else { hash };
        if last.is_some_and(|(h, k)| (rank(*h), &k[..]).cmp(&(rank(hash), key)) != Less) {
            return Err(Error::corrupt("two records are out of order"));
        }
        let (_, room) = totals.last.get_or_insert_default();
        room.clear();
        room.extend_from_slice(key);
        totals.last = totals.last.take().map(|(_, room)| (hash, room));
        Ok(())
    }
}

/// Compares the index in a file with the index of the records, bucket by bucket.
pub(crate) struct IndexComparison<'a> {
    mapped: &'a MappedIndex,
    writer: IndexEncoder,
    /// Bytes that were compared.
    len: usize,
}

impl<'a> IndexComparison<'a> {
    pub(crate) fn new(mapped: &'a MappedIndex, shape: IndexShape) -> IndexComparison<'a> {
        IndexComparison { mapped, writer: IndexEncoder::new(shape), len: 0 }
    }

    /// Adds the next record. `Corrupt` if a completed bucket differs.
    pub(crate) fn push(&mut self, record: RecordPointer) -> Result<()> {
        let IndexComparison { mapped, writer, len } = self;
        writer.push(record, |bucket, bytes| mapped.compare(len, bucket, bytes))
    }

    /// Compares the rest.
    pub(crate) fn finish(mut self) -> Result<()> {
        let IndexComparison { mapped, writer, len } = &mut self;
        writer.flush(|bucket, bytes| mapped.compare(len, bucket, bytes))?;
        match mapped.array.get(*len..).unwrap_or(&[]).iter().all(|&byte| byte == 0) {
            true => Ok(()),
            false => Err(mapped.other(*len)),
        }
    }
}
