//! Checks of a whole table: every byte, and what checksums cannot say.

use crate::bytes::int::u32_at;
use crate::table::format::block::{Body, CHECKSUM, check, tag};
use crate::table::format::directory::place;
use crate::table::format::index::{IndexWriter, Pointer, Shape};
use crate::table::options::Compression;
use crate::table::read::mapped_index::Mapped;
use crate::table::read::table::Table;
use crate::{Error, Result};
use std::cmp::Ordering::Less;
use std::ops::ControlFlow;

/// What was counted, to be compared with the meta section, and the index as it should be.
#[derive(Default)]
struct Counted<'a> {
    records: u64,
    key_bytes: u64,
    value_bytes: u64,
    longest_key: usize,
    longest_value: usize,
    last: Option<(u64, Vec<u8>)>,
    index: Option<Comparison<'a>>,
}

impl Table {
    /// Checks every byte of the file, and that each record is where a get looks for it.
    pub fn verify(&self) -> Result<()> {
        self.file.verify()?;
        let shape = self.index_shape();
        let mapped = Mapped::open(&self.file, shape).map_err(|e| e.in_file(self.path()))?;
        if let Some(mapped) = &mapped {
            mapped.check_all().map_err(|e| e.in_file(self.path()))?;
        }
        let index = mapped.as_ref().zip(shape);
        let index = index.map(|(mapped, shape)| Comparison::new(mapped, shape));
        let mut counted = Counted { index, ..Counted::default() };
        self.directory.verify().map_err(|e| e.in_file(self.path()))?;
        for number in 0..self.meta.blocks {
            self.verify_block(number, &mut counted).map_err(|e| self.here(e, number))?;
        }
        if let Some(index) = counted.index.take() {
            index.finish().map_err(|e| e.in_file(self.path()))?;
        }
        let meta = &self.meta;
        let equal = counted.records == meta.records
            && counted.key_bytes == meta.key_bytes
            && counted.value_bytes == meta.value_bytes
            && counted.longest_key == meta.longest_key as usize
            && counted.longest_value == meta.longest_value as usize;
        if !equal {
            let message = "the records do not have the numbers and sizes that the table states";
            return Err(Error::corrupt(message).in_file(self.path()));
        }
        Ok(())
    }

    fn verify_block(&self, number: u64, counted: &mut Counted<'_>) -> Result<()> {
        let block = self.block(number)?;
        check(&block, number)?;
        let bytes = self.body(&block)?;
        let body = Body::parse(&bytes)?;
        if body.len() == 0 {
            return Err(Error::corrupt(format!("block {number} is empty")));
        }
        let offset = self.extent(number)?.0 - self.blocks.0;
        let (mut i, mut begin) = (0, offset + (CHECKSUM + body.first()) as u64);
        let end = body.each(|key, stored| {
            let hash = self.hash(key);
            if i == 0 && place(hash, self.meta.slots) != self.directory.first(number) {
                return Err(Error::corrupt(format!("block {number} begins at another place")));
            }
            self.verify_record(number, hash, key)?;
            if body.tag(i) != tag(hash) {
                return Err(Error::corrupt(format!("record {i} of block {number}: wrong tag")));
            }
            i += 1;
            let len = (key.len() + stored.len()) as u64;
            if let Some(index) = &mut counted.index {
                index.push(Pointer { hash, begin, key: key.len(), len })?;
            }
            begin += len;
            self.count(counted, hash, key, stored)?;
            Ok(ControlFlow::Continue(()))
        })?;
        let end = end.unwrap_or(0); // nothing breaks
        let used = match self.meta.compression {
            Compression::Blocks { .. } => 12 + u32_at(&block, CHECKSUM) as usize,
            _ => CHECKSUM + end,
        };
        match block.get(used..).map(|rest| rest.iter().all(|&b| b == 0)) {
            Some(true) => Ok(()),
            _ => Err(Error::corrupt(format!("block {number} ends in something else than zeros"))),
        }
    }

    /// A get of this key comes to this block.
    fn verify_record(&self, number: u64, hash: u64, key: &[u8]) -> Result<()> {
        let found = self.locate(hash).map(|located| located.block);
        if found != Some(number) || !self.passes(hash) {
            let shown = key[..key.len().min(80)].escape_ascii();
            return Err(Error::corrupt(format!("the key '{shown}' would not be found")));
        }
        Ok(())
    }

    fn count(&self, counted: &mut Counted<'_>, hash: u64, key: &[u8], stored: &[u8]) -> Result<()> {
        let value = match self.meta.compression {
            Compression::Records { .. } => self.unpack_value(stored)?.len(),
            _ => stored.len(),
        };
        counted.records += 1;
        counted.key_bytes += key.len() as u64;
        counted.value_bytes += value as u64;
        counted.longest_key = counted.longest_key.max(key.len());
        counted.longest_value = counted.longest_value.max(value);
        let last = counted.last.as_ref();
        if last.is_some_and(|(h, k)| (*h, &k[..]).cmp(&(hash, key)) != Less) {
            return Err(Error::corrupt("two records are out of order"));
        }
        let (_, room) = counted.last.get_or_insert_default();
        room.clear();
        room.extend_from_slice(key);
        counted.last = counted.last.take().map(|(_, room)| (hash, room));
        Ok(())
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
