//! The reader of a table: opens the file, and gives access to its blocks and sections.

use crate::bytes::monotonic::Monotonic;
use crate::bytes::prefetch::LINE;
use crate::disk::envelope::{Envelope, Kind};
use crate::disk::{self, DiskRef, Slab};
use crate::table::format::block::{Body, CHECKSUM, HEAD_LINES, check, decode_frame};
use crate::table::format::compress::Decompressor;
use crate::table::format::directory::{Bin, Directory};
use crate::table::format::fences::Fences;
use crate::table::format::filter::FilterReader;
use crate::table::format::hash::hash_of;
use crate::table::format::index::{IndexEncoder, IndexShape, RecordPointer};
use crate::table::format::{
    ALIGNMENT, MAX_BLOCK_SIZE, Meta, optional_section, required_section, section, version_of,
};
use crate::table::options::{Access, Compression, KeyFilter, Order, Stats};
use crate::table::read::index_lookup::Index;
use crate::table::read::mapped_index::MappedIndex;
use crate::table::read::source::{Source, reopen};
use crate::table::simd::Avx2Search;
use crate::{Error, Result};
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// An open table file. The public type is `Table`. Lookups of one key are in `get.rs`, of many keys
/// in `batch.rs`.
pub(crate) struct TableReader {
    pub(crate) file: Envelope,
    pub(crate) meta: Meta,
    /// Empty in key order.
    pub(crate) directory: Directory,
    /// In key order only.
    pub(crate) fences: Option<Fences>,
    /// Start of each block, in units of [`ALIGNMENT`], if their lengths differ.
    starts: Option<Box<[u8]>>,
    filter: Option<(FilterReader, Bytes)>,
    decompressor: Decompressor,
    pub(crate) source: Source,
    /// Offset of the blocks in the file, and their bytes.
    pub(crate) blocks: (u64, u64),
    path: PathBuf,
    /// Blocks have one length and many records, and are in memory uncompressed. The position of a
    /// record in its block can then be predicted.
    pub(crate) small_records: bool,
    /// The AVX2 search, if records are small, all keys have one length, and the processor supports
    /// it.
    pub(crate) avx2: Option<Avx2Search>,
    /// There is no filter, and values are uncompressed.
    pub(crate) is_plain_unfiltered: bool,
    /// The index: of a resident table in memory, of a mapped table in the file, if it has one.
    pub(crate) index: Option<Index>,
}

/// Bytes of a section: offset and length in the map, or a copy.
enum Bytes {
    MappedIndex(u64, u64),
    Copied(Box<[u8]>),
}

impl TableReader {
    pub(crate) fn open_on(disk: &DiskRef, path: &Path, access: Access) -> Result<TableReader> {
        reopen(path, || {
            let file = Envelope::open(disk.map(path)?, path, Kind::Table)?;
            TableReader::parse(disk, file, path, access).map_err(|e| e.in_file(path))
        })
    }

    /// `None` if the path names another file since `file` was mapped.
    fn parse(
        disk: &DiskRef,
        file: Envelope,
        path: &Path,
        access: Access,
    ) -> Result<Option<TableReader>> {
        let meta = Meta::decode(required_section(&file, section::META)?)?;
        let (directory, fences) = locators(&file, &meta)?;
        let entry = file
            .find(section::BLOCKS)
            .map(|i| file.entry(i))
            .ok_or_else(|| Error::corrupt("the table has no blocks"))?;
        let blocks = (entry.offset, entry.len);
        let starts = optional_section(&file, section::STARTS)?.map(Box::from);
        let dictionary = optional_section(&file, section::DICTIONARY)?.unwrap_or(&[]);
        let decompressor = Decompressor::new(dictionary)?;
        let filter = match meta.filter {
            KeyFilter::None => None,
            kind => {
                let bytes = required_section(&file, section::FILTER)?;
                let shape = FilterReader::parse(bytes, kind)?;
                let section = file.find(section::FILTER).map(|i| file.entry(i));
                let section = section.map_or((0, 0), |e| (e.offset, e.len));
                Some((
                    shape,
                    match access {
                        Access::Map => Bytes::MappedIndex(section.0, section.1),
                        _ => Bytes::Copied(bytes.into()),
                    },
                ))
            }
        };
        let Some(source) = Source::open(disk, &file, blocks, meta.blocks, access)? else {
            return Ok(None);
        };
        let path = path.to_path_buf();
        let small_records =
            fences.is_none() && source.in_memory() && is_small(&meta, starts.is_none());
        let avx2 = Avx2Search::detect().filter(|_| small_records && keys_have_one_length(&meta));
        let is_plain_unfiltered =
            meta.filter == KeyFilter::None && meta.compression == Compression::None;
        let mut table = TableReader {
            file,
            meta,
            directory,
            fences,
            starts,
            filter,
            decompressor,
            source,
            blocks,
            path,
            small_records,
            avx2,
            is_plain_unfiltered,
            index: None,
        };
        table.check_shape()?;
        table.index = match access {
            Access::Resident => table.resident_index(|key| table.hash(key))?,
            Access::Map => table.mapped_index()?,
            Access::Buffered | Access::Direct => None,
        };
        Ok(Some(table))
    }

    /// The hash of a key.
    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        hash_of(key, self.meta.seed)
    }

    /// Checks lengths that other code relies on.
    fn check_shape(&self) -> Result<()> {
        let end = match &self.starts {
            None => self.meta.blocks.checked_mul(u64::from(self.meta.block_size)),
            Some(bytes) => {
                let starts = Monotonic::new(bytes, self.meta.blocks as usize + 1)?;
                if starts.get(0) != 0 {
                    return Err(Error::corrupt("the first block does not start at 0"));
                }
                starts.get(starts.len() - 1).checked_mul(ALIGNMENT as u64)
            }
        };
        if end != Some(self.blocks.1) {
            return Err(Error::corrupt(format!(
                "{} blocks do not have {} bytes",
                self.meta.blocks, self.blocks.1
            )));
        }
        Ok(())
    }

    /// The index in the file, if there is one.
    fn mapped_index(&self) -> Result<Option<Index>> {
        let shape = self.index_shape();
        let mapped = MappedIndex::open(&self.file, shape)?;
        Ok(shape.zip(mapped).map(|(shape, mapped)| Index::mapped(shape, mapped)))
    }

    /// Builds the index of a resident table, and checks all blocks. `None` if blocks are
    /// compressed, or if records are out of order, which
    /// [`Table::verify`](crate::table::Table::verify) reports; gets then search in blocks.
    pub(crate) fn resident_index(&self, hash: impl Fn(&[u8]) -> u64) -> Result<Option<Index>> {
        let shape = self.index_shape();
        // Pages are allocated as they are touched: a damaged table may have fewer records than it
        // states.
        let mut array = Slab::new(shape.map_or(0, |shape| shape.len().1 as usize))?;
        array.expect_random();
        let mut put = |bucket: u64, bytes: &[u8]| {
            let at = bucket as usize * LINE;
            array[at..at + LINE].copy_from_slice(bytes);
            Ok(())
        };
        let (mut writer, mut last) = (shape.map(IndexEncoder::new), 0);
        for number in 0..self.meta.blocks {
            let (offset, _) = self.extent(number)?;
            let block = self.memory(number)?;
            let mut add = || -> Result<()> {
                check(block, number)?;
                let Some(index) = &mut writer else { return Ok(()) };
                let body = Body::parse(&block[CHECKSUM..])?;
                let mut begin = offset - self.blocks.0 + (CHECKSUM + body.first()) as u64;
                let end = body.for_each_record(|key, value| {
                    let (hash, len) = (hash(key), (key.len() + value.len()) as u64);
                    if hash < last {
                        return Ok(ControlFlow::Break(()));
                    }
                    index.push(RecordPointer { hash, begin, key: key.len(), len }, &mut put)?;
                    (last, begin) = (hash, begin + len);
                    Ok(ControlFlow::Continue(()))
                })?;
                if end.is_none() {
                    writer = None;
                }
                Ok(())
            };
            add().map_err(|e| e.at(offset))?;
        }
        let Some((mut writer, shape)) = writer.zip(shape) else { return Ok(None) };
        writer.flush(put)?;
        Ok(Some(Index { shape, array: array.freeze()?, mapped: None }))
    }

    /// The shape of the index. `None` if blocks are compressed, as records have no offsets in the
    /// file then, and in key order, where the hash does not predict the position of a record.
    pub(crate) fn index_shape(&self) -> Option<IndexShape> {
        match self.meta.compression {
            Compression::Blocks { .. } => None,
            _ if self.fences.is_some() => None,
            _ => IndexShape::new(self.meta.records, self.blocks.1),
        }
    }

    pub(crate) fn decompress_value(&self, frame: &[u8]) -> Result<Vec<u8>> {
        self.decompressor.decompress(frame, self.meta.longest_value as usize)
    }

    /// The body of a block whose checksum was checked.
    pub(crate) fn body<'a>(&self, block: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let rest = block.get(CHECKSUM..).unwrap_or(&[]);
        if !matches!(self.meta.compression, Compression::Blocks { .. }) {
            return Ok(Cow::Borrowed(rest));
        }
        // A body is longer than the block size only if a record, or the records of one bin, are.
        let all = self.meta.key_bytes.saturating_add(self.meta.value_bytes);
        let longest = all.saturating_mul(2).saturating_add(MAX_BLOCK_SIZE as u64);
        let frame = decode_frame(rest).filter(|(_, body)| *body as u64 <= longest);
        let (frame, body) =
            frame.ok_or_else(|| Error::corrupt("the frame of a block is truncated"))?;
        self.decompressor.decompress(frame, body).map(Cow::Owned)
    }

    /// A block, after its checksum was checked.
    #[inline]
    pub(crate) fn block(&self, number: u64) -> Result<Cow<'_, [u8]>> {
        let extent = self.extent(number)?;
        let block = self.source.block(number, extent, HEAD_LINES);
        block.map_err(|e| self.block_error(e, number))
    }

    /// The bytes of a block that is in memory; its checksum may not have been checked.
    #[inline(always)]
    pub(crate) fn memory(&self, number: u64) -> Result<&[u8]> {
        let extent = self.extent(number)?;
        self.source.memory(extent).map_err(|e| self.block_error(e, number))
    }

    /// The bytes of all blocks, if they are in memory.
    #[inline(always)]
    pub(crate) fn all_blocks(&self) -> &[u8] {
        self.source.all()
    }

    /// Whether blocks are in memory.
    pub(crate) fn in_memory(&self) -> bool {
        self.source.in_memory()
    }

    /// The file, if it is read with `O_DIRECT`.
    pub(crate) fn direct(&self) -> Option<&disk::Direct> {
        self.source.direct()
    }

    /// Offset of a block in the file, and its length.
    #[inline(always)]
    pub(crate) fn extent(&self, number: u64) -> Result<(u64, usize)> {
        let Some(bytes) = &self.starts else {
            let size = u64::from(self.meta.block_size);
            return Ok((self.blocks.0 + number * size, size as usize));
        };
        let starts = self.starts(bytes);
        let (start, end) = starts.pair(number as usize);
        let (start, end) =
            (start.saturating_mul(ALIGNMENT as u64), end.saturating_mul(ALIGNMENT as u64));
        if start > end || end > self.blocks.1 || end - start > self.meta.longest_block {
            return Err(Error::corrupt(format!("block {number} has an invalid position")));
        }
        Ok((self.blocks.0 + start, (end - start) as usize))
    }

    #[inline(always)]
    fn starts<'a>(&self, bytes: &'a [u8]) -> Monotonic<'a> {
        Monotonic::trusted(bytes, self.meta.blocks as usize + 1)
    }

    /// The block that can hold a key of this bin, if any. Meanwhile prefetches the start of the
    /// expected block, if lengths differ.
    #[inline(always)]
    pub(crate) fn find_block(&self, bin: Bin) -> Option<u64> {
        if let Some(bytes) = &self.starts {
            self.starts(bytes).prefetch(self.directory.expected(bin) as usize);
        }
        self.directory.find(bin)
    }

    fn offset(&self, number: u64) -> u64 {
        self.extent(number).map_or(0, |(offset, _)| offset)
    }

    /// Adds the file, and the offset of the block, to an error.
    #[cold]
    pub(crate) fn block_error(&self, error: Error, number: u64) -> Error {
        error.at(self.offset(number)).in_file(&self.path)
    }

    #[inline(always)]
    fn bytes_of<'a>(&'a self, bytes: &'a Bytes) -> &'a [u8] {
        match bytes {
            Bytes::MappedIndex(offset, len) => self.file.bytes(*offset, *len),
            Bytes::Copied(bytes) => bytes,
        }
    }

    /// Whether the table may have a key of this hash, by its filter. True without a filter.
    #[inline(always)]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        match &self.filter {
            Some((shape, bytes)) => shape.contains(self.bytes_of(bytes), hash),
            None => true,
        }
    }

    /// Prefetches what [`TableReader::may_contain`] reads.
    #[inline(always)]
    pub(crate) fn prefetch_filter(&self, hash: u64) {
        if let Some((shape, bytes)) = &self.filter {
            shape.prefetch(self.bytes_of(bytes), hash);
        }
    }

    /// Counts, sizes and options of the table.
    pub(crate) fn stats(&self) -> Stats {
        let (filter_bytes, filter_memory) = match &self.filter {
            None => (0, 0),
            Some((_, Bytes::MappedIndex(_, len))) => (*len, 0),
            Some((_, Bytes::Copied(bytes))) => (bytes.len() as u64, bytes.len()),
        };
        let starts = self.starts.as_ref().map_or(0, |bytes| bytes.len());
        let index = self.index.as_ref().map_or(0, Index::memory);
        let in_file = self.file.find(section::INDEX).map_or(0, |i| self.file.entry(i).len);
        let fences = self.fences.as_ref().map_or(0, Fences::memory);
        let beside = self.directory.memory() + fences + starts + filter_memory + index;
        Stats {
            records: self.meta.records,
            order: self.meta.order,
            blocks: self.meta.blocks,
            block_size: u64::from(self.meta.block_size),
            block_bytes: self.blocks.1,
            longest_block_bytes: self.meta.longest_block,
            key_bytes: self.meta.key_bytes,
            value_bytes: self.meta.value_bytes,
            longest_key_bytes: u64::from(self.meta.longest_key),
            longest_value_bytes: u64::from(self.meta.longest_value),
            file_bytes: self.file.len(),
            filter_bytes,
            index_bytes: in_file,
            memory_bytes: (beside + self.source.bytes()) as u64,
            paged: self.meta.paged,
            compression: self.meta.compression,
            filter: self.meta.filter,
            seed: self.meta.seed,
        }
    }

    /// The metadata given to the build.
    pub(crate) fn metadata(&self) -> Result<&[u8]> {
        Ok(optional_section(&self.file, section::METADATA)?.unwrap_or(&[]))
    }

    /// The schema of the values given to the build; empty if none.
    pub(crate) fn value_schema(&self) -> Result<&str> {
        let bytes = optional_section(&self.file, section::VALUE_SCHEMA)?.unwrap_or(&[]);
        str::from_utf8(bytes)
            .map_err(|_| Error::corrupt("the value schema is not valid UTF-8").in_file(&self.path))
    }

    /// The path that was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// What maps a key to its block.
fn locators(file: &Envelope, meta: &Meta) -> Result<(Directory, Option<Fences>)> {
    if file.version() != version_of(meta.order) {
        return Err(Error::corrupt("the order of the records contradicts the format version"));
    }
    match meta.order {
        Order::Hash => {
            let bytes = required_section(file, section::DIRECTORY)?;
            Ok((Directory::new(bytes, meta.slots, meta.blocks)?, None))
        }
        Order::Key => {
            let bytes = required_section(file, section::FENCES)?;
            Ok((Directory::empty(), Some(Fences::new(bytes, meta.blocks)?)))
        }
    }
}

/// See [`TableReader::small_records`].
fn is_small(meta: &Meta, blocks_are_equal: bool) -> bool {
    let mean = (meta.key_bytes.saturating_add(meta.value_bytes)) / meta.blocks.max(1);
    let many = meta.records / meta.blocks.max(1) >= 32 && mean < u64::from(meta.block_size);
    many && blocks_are_equal && meta.compression == Compression::None
}

/// A condition of [`TableReader::avx2`].
fn keys_have_one_length(meta: &Meta) -> bool {
    meta.records.checked_mul(meta.longest_key.into()) == Some(meta.key_bytes)
}
