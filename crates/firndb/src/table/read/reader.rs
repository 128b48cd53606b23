//! An open table: gets, and what is known about it.

use crate::bytes::frozen::{Frozen, Kind};
use crate::bytes::increasing::Increasing;
use crate::bytes::int::u32_at;
use crate::bytes::prefetch::LINE;
use crate::disk::{self, DiskRef, Slab};
use crate::table::format::block::{Body, CHECKSUM, HEAD_LINES, check};
use crate::table::format::compress::Decompressor;
use crate::table::format::directory::{Bin, Directory};
use crate::table::format::filter::FilterReader;
use crate::table::format::hash::hash_of;
use crate::table::format::index::{IndexShape, IndexWriter, RecordPointer};
use crate::table::format::{
    GRAIN, MAX_BLOCK_SIZE, Meta, optional_section, required_section, section,
};
use crate::table::options::{Access, Compression, Filter, TableStats};
use crate::table::read::index_lookup::Index;
use crate::table::read::mapped_index::MappedIndex;
use crate::table::read::source::{Source, reopen};
use crate::table::simd::Avx2Search;
use crate::{Error, Result};
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// The reader.
pub(crate) struct TableReader {
    pub(crate) file: Frozen,
    pub(crate) meta: Meta,
    pub(crate) directory: Directory,
    /// Where blocks begin, in grains, if their lengths differ.
    starts: Option<Box<[u8]>>,
    filter: Option<(FilterReader, Bytes)>,
    decompressor: Decompressor,
    pub(crate) source: Source,
    /// Where the blocks begin in the file, and their bytes.
    pub(crate) blocks: (u64, u64),
    path: PathBuf,
    /// Records are many in a block and spread evenly over it, and in memory as they are.
    pub(crate) small_records: bool,
    /// The search in blocks of small records with keys of one length, if they are so, and the
    /// processor has it.
    pub(crate) avx2: Option<Avx2Search>,
    /// There is no filter, and values are stored as they are.
    pub(crate) is_plain_unfiltered: bool,
    /// Of the records: of a resident table in memory, of a mapped one in the file if it is there.
    pub(crate) index: Option<Index>,
}

/// Bytes of a section: where they are in the map, or a copy.
enum Bytes {
    MappedIndex(u64, u64),
    Copied(Box<[u8]>),
}

impl TableReader {
    pub(crate) fn open_on(disk: &DiskRef, path: &Path, access: Access) -> Result<TableReader> {
        reopen(path, || {
            let file = Frozen::open(disk.map(path)?, path, Kind::Table)?;
            TableReader::parse(disk, file, path, access).map_err(|e| e.in_file(path))
        })
    }

    /// `None` if another file has taken the name of `file` meanwhile.
    fn parse(
        disk: &DiskRef,
        file: Frozen,
        path: &Path,
        access: Access,
    ) -> Result<Option<TableReader>> {
        let meta = Meta::decode(required_section(&file, section::META)?)?;
        let directory =
            Directory::new(required_section(&file, section::DIRECTORY)?, meta.slots, meta.blocks)?;
        let entry = file
            .find(section::BLOCKS)
            .map(|i| file.entry(i))
            .ok_or_else(|| Error::corrupt("the table has no blocks"))?;
        let blocks = (entry.offset, entry.len);
        let starts = optional_section(&file, section::STARTS)?.map(Box::from);
        let dictionary = optional_section(&file, section::DICTIONARY)?.unwrap_or(&[]);
        let decompressor = Decompressor::new(dictionary)?;
        let filter = match meta.filter {
            Filter::None => None,
            kind => {
                let bytes = required_section(&file, section::FILTER)?;
                let shape = FilterReader::parse(bytes, kind)?;
                let place = file.find(section::FILTER).map(|i| file.entry(i));
                let place = place.map_or((0, 0), |e| (e.offset, e.len));
                Some((
                    shape,
                    match access {
                        Access::Map => Bytes::MappedIndex(place.0, place.1),
                        _ => Bytes::Copied(bytes.into()),
                    },
                ))
            }
        };
        let Some(source) = Source::open(disk, &file, blocks, meta.blocks, access)? else {
            return Ok(None);
        };
        let path = path.to_path_buf();
        let small_records = source.in_memory() && is_small(&meta, starts.is_none());
        let avx2 = Avx2Search::detect().filter(|_| small_records && keys_have_one_length(&meta));
        let is_plain_unfiltered =
            meta.filter == Filter::None && meta.compression == Compression::None;
        let mut table = TableReader {
            file,
            meta,
            directory,
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

    /// The hash by which the table knows a key.
    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        hash_of(key, self.meta.seed)
    }

    /// Lengths that other facts depend on.
    fn check_shape(&self) -> Result<()> {
        let end = match &self.starts {
            None => self.meta.blocks.checked_mul(u64::from(self.meta.block_size)),
            Some(bytes) => {
                let starts = Increasing::new(bytes, self.meta.blocks as usize + 1)?;
                if starts.get(0) != 0 {
                    return Err(Error::corrupt("the starts of the blocks are impossible"));
                }
                starts.get(starts.len() - 1).checked_mul(GRAIN as u64)
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

    /// The index in the file, if it has one.
    fn mapped_index(&self) -> Result<Option<Index>> {
        let shape = self.index_shape();
        let mapped = MappedIndex::open(&self.file, shape)?;
        Ok(shape.zip(mapped).map(|(shape, mapped)| Index::mapped(shape, mapped)))
    }

    /// The index of a resident table, whose blocks are checked on the way. `None` if frames are of
    /// blocks, or if records are out of order, which [`Table::verify`] tells: then gets find
    /// records in blocks.
    pub(crate) fn resident_index(&self, hash: impl Fn(&[u8]) -> u64) -> Result<Option<Index>> {
        let shape = self.index_shape();
        // Memory is taken as records come: there may be fewer than the file says.
        let mut array = Slab::new(shape.map_or(0, |shape| shape.len().1 as usize))?;
        array.expect_random();
        let mut put = |bucket: u64, bytes: &[u8]| {
            let at = bucket as usize * LINE;
            array[at..at + LINE].copy_from_slice(bytes);
            Ok(())
        };
        let (mut writer, mut last) = (shape.map(IndexWriter::new), 0);
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

    /// The shape of an index; `None` if there can be none: of a frame of a block no record is told.
    pub(crate) fn index_shape(&self) -> Option<IndexShape> {
        match self.meta.compression {
            Compression::Blocks { .. } => None,
            _ => IndexShape::new(self.meta.records, self.blocks.1),
        }
    }

    pub(crate) fn decompress_value(&self, frame: &[u8]) -> Result<Vec<u8>> {
        self.decompressor.decompress(frame, self.meta.longest_value as usize)
    }

    /// The body of a block that was checked.
    pub(crate) fn body<'a>(&self, block: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let rest = block.get(CHECKSUM..).unwrap_or(&[]);
        if !matches!(self.meta.compression, Compression::Blocks { .. }) {
            return Ok(Cow::Borrowed(rest));
        }
        let (frame, body) = (u32_at(rest, 0) as usize, u32_at(rest, 4) as usize);
        // A body is longer than a block size only if one record or one place is.
        let all = self.meta.key_bytes.saturating_add(self.meta.value_bytes);
        let longest = all.saturating_mul(2).saturating_add(MAX_BLOCK_SIZE as u64);
        let bytes = rest.get(8..frame.saturating_add(8)).filter(|_| body as u64 <= longest);
        let bytes = bytes.ok_or_else(|| Error::corrupt("the frame of a block is cut"))?;
        self.decompressor.decompress(bytes, body).map(Cow::Owned)
    }

    /// A block, checked.
    #[inline]
    pub(crate) fn block(&self, number: u64) -> Result<Cow<'_, [u8]>> {
        let extent = self.extent(number)?;
        let block = self.source.block(number, extent, HEAD_LINES);
        block.map_err(|e| self.block_error(e, number))
    }

    /// The bytes of a block that is in memory, unchecked.
    #[inline(always)]
    pub(crate) fn memory(&self, number: u64) -> Result<&[u8]> {
        let extent = self.extent(number)?;
        self.source.memory(extent).map_err(|e| self.block_error(e, number))
    }

    /// The bytes of all blocks that are in memory.
    #[inline(always)]
    pub(crate) fn all_blocks(&self) -> &[u8] {
        self.source.all()
    }

    /// Whether blocks are in memory.
    pub(crate) fn in_memory(&self) -> bool {
        self.source.in_memory()
    }

    /// The file that is read past the page cache.
    pub(crate) fn direct(&self) -> Option<&disk::Direct> {
        self.source.direct()
    }

    /// Where a block begins in the file, and its length.
    #[inline(always)]
    pub(crate) fn extent(&self, number: u64) -> Result<(u64, usize)> {
        let Some(bytes) = &self.starts else {
            let size = u64::from(self.meta.block_size);
            return Ok((self.blocks.0 + number * size, size as usize));
        };
        let starts = self.starts(bytes);
        let (start, end) = starts.pair(number as usize);
        let (start, end) = (start.saturating_mul(GRAIN as u64), end.saturating_mul(GRAIN as u64));
        if start > end || end > self.blocks.1 || end - start > self.meta.longest_block {
            return Err(Error::corrupt(format!("block {number} has an impossible place")));
        }
        Ok((self.blocks.0 + start, (end - start) as usize))
    }

    #[inline(always)]
    fn starts<'a>(&self, bytes: &'a [u8]) -> Increasing<'a> {
        Increasing::trusted(bytes, self.meta.blocks as usize + 1)
    }

    /// The block that can hold the key of a place; `None` if no block can. Where blocks differ in
    /// length, where this one begins is asked for meanwhile.
    #[inline(always)]
    pub(crate) fn find_block(&self, bin: Bin) -> Option<u64> {
        if let Some(bytes) = &self.starts {
            self.starts(bytes).fetch(self.directory.expected(bin) as usize);
        }
        self.directory.find(bin)
    }

    fn offset(&self, number: u64) -> u64 {
        self.extent(number).map_or(0, |(offset, _)| offset)
    }

    /// Says in which file and where in it an error of a block was found.
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

    /// Whether the filter lets a key pass; true without a filter.
    #[inline(always)]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        match &self.filter {
            Some((shape, bytes)) => shape.contains(self.bytes_of(bytes), hash),
            None => true,
        }
    }

    /// Asks for what [`Table::passes`] reads.
    #[inline(always)]
    pub(crate) fn prefetch_filter(&self, hash: u64) {
        if let Some((shape, bytes)) = &self.filter {
            shape.prefetch(self.bytes_of(bytes), hash);
        }
    }

    /// What the table is.
    pub(crate) fn stats(&self) -> TableStats {
        let (filter_bytes, filter_memory) = match &self.filter {
            None => (0, 0),
            Some((_, Bytes::MappedIndex(_, len))) => (*len, 0),
            Some((_, Bytes::Copied(bytes))) => (bytes.len() as u64, bytes.len()),
        };
        let starts = self.starts.as_ref().map_or(0, |bytes| bytes.len());
        let index = self.index.as_ref().map_or(0, Index::memory);
        let in_file = self.file.find(section::INDEX).map_or(0, |i| self.file.entry(i).len);
        let beside = self.directory.memory() + starts + filter_memory + index;
        TableStats {
            records: self.meta.records,
            blocks: self.meta.blocks,
            block_size: u64::from(self.meta.block_size),
            block_bytes: self.blocks.1,
            longest_block: self.meta.longest_block,
            key_bytes: self.meta.key_bytes,
            value_bytes: self.meta.value_bytes,
            longest_key: u64::from(self.meta.longest_key),
            longest_value: u64::from(self.meta.longest_value),
            file_bytes: self.file.len(),
            filter_bytes,
            index_bytes: in_file,
            memory: (beside + self.source.bytes()) as u64,
            paged: self.meta.paged,
            compression: self.meta.compression,
            filter: self.meta.filter,
            seed: self.meta.seed,
        }
    }

    /// The bytes that the builder was given to keep.
    pub(crate) fn metadata(&self) -> Result<&[u8]> {
        Ok(optional_section(&self.file, section::METADATA)?.unwrap_or(&[]))
    }

    /// How values are to be read, as the builder was told; empty if it was not.
    pub(crate) fn value_schema(&self) -> Result<&str> {
        let bytes = optional_section(&self.file, section::VALUE_SCHEMA)?.unwrap_or(&[]);
        str::from_utf8(bytes)
            .map_err(|_| Error::corrupt("the value schema is not valid UTF-8").in_file(&self.path))
    }

    /// The file that was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// See [`Table::small`].
fn is_small(meta: &Meta, blocks_are_equal: bool) -> bool {
    let mean = (meta.key_bytes.saturating_add(meta.value_bytes)) / meta.blocks.max(1);
    let many = meta.records / meta.blocks.max(1) >= 32 && mean < u64::from(meta.block_size);
    many && blocks_are_equal && meta.compression == Compression::None
}

/// See [`Table::wide`].
fn keys_have_one_length(meta: &Meta) -> bool {
    meta.records.checked_mul(meta.longest_key.into()) == Some(meta.key_bytes)
}
