//! One get, step by step.
//!
//! A get in memory waits for memory most of its time, and the processor goes on with the next one
//! meanwhile, as far as it can look ahead: some hundred instructions. So what is done for most gets
//! is short, without calls and without jumps that cannot be foretold, and everything else is kept
//! apart from it.

use crate::Result;
use crate::bytes::prefetch::{LINE, prefetch_lines, prefetch_pages};
use crate::table::format::block::{Body, CHECKSUM, HEAD_LINES, find_in_body, tag};
use crate::table::format::directory::{Bin, bin_of};
use crate::table::options::Compression;
use crate::table::read::index_lookup::{Index, IndexLookup};
use crate::table::read::reader::TableReader;
use crate::table::simd::block_search::{FRACTION_ONE, RecordSpan};
use std::borrow::Cow;

/// Lines around the place where a small record is expected, and how many of them stand before it.
pub(crate) const SMALL_LINES: usize = 12;
const SMALL_LINES_BEFORE: usize = 5;
/// The same of larger records.
const LARGE_LINES: usize = 6;
const LARGE_LINES_BEFORE: usize = 2;

/// A value where it lies, on its way to who reads it.
#[inline(always)]
pub(crate) fn borrowed(value: &[u8]) -> Cow<'_, [u8]> {
    prefetch_pages(value);
    Cow::Borrowed(value)
}

/// A block from the first of `LINES` lines around the place where a record is expected, a share of
/// [`FRACTION_ONE`]; `before` of them stand before it.
#[inline(always)]
fn around<const LINES: usize>(block: &[u8], fraction: usize, before: usize) -> &[u8] {
    let expected = block.len() * fraction / FRACTION_ONE;
    // Near the end of a block its last lines: how many there are nobody could foretell.
    let last = block.len().saturating_sub(LINES * LINE);
    let first = expected.saturating_sub(before * LINE).min(last);
    block.get(first..).unwrap_or(&[])
}

/// [`around`] of a small record: from the first of [`SMALL_LINES`] lines on.
#[inline(always)]
pub(crate) fn expected_lines(body: &[u8], fraction: usize) -> &[u8] {
    around::<SMALL_LINES>(body, fraction, SMALL_LINES_BEFORE)
}

/// Where a key can be.
#[derive(Clone, Copy)]
pub(crate) struct BlockRef {
    /// Its tag in the block.
    pub(crate) tag: u8,
    pub(crate) bin: Bin,
    pub(crate) block: u64,
}

impl TableReader {
    /// The value of a key, if it is there: borrowed from the table where it is in memory as it is,
    /// else a copy. `Corrupt` if the block that should hold it is damaged.
    // Inlined in programs that use it: the fewer instructions a get takes, the more of the next one
    // the processor does while this one waits for memory.
    #[inline(always)]
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        let hash = self.hash(key);
        if let Some(value) = self.index_hit(hash, key) {
            return Ok(Some(borrowed(value)));
        }
        if self.may_contain(hash) { self.get_hashed(hash, key) } else { Ok(None) }
    }

    /// The value of a key whose record the index has where it is looked for first, and which lies
    /// there as it is.
    #[inline(always)]
    fn index_hit(&self, hash: u64, key: &[u8]) -> Option<&[u8]> {
        match &self.index {
            Some(index) if self.is_plain_unfiltered => index.first(self.all_blocks(), hash, key),
            _ => None,
        }
    }

    /// [`Table::get`] of a key that the filter let pass.
    #[inline(always)]
    pub(crate) fn get_hashed(&self, hash: u64, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        match &self.index {
            Some(index) => self.get_indexed(index, hash, key),
            None if self.small_records => self.get_small(hash, key),
            None => self.get_in_block(hash, key),
        }
    }

    #[inline(never)]
    fn get_indexed(&self, index: &Index, hash: u64, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        match index.find(self.all_blocks(), hash, key) {
            IndexLookup::Value(value) => self.decompressed(hash, value).map(Some),
            IndexLookup::Absent => Ok(None),
            IndexLookup::Unknown => self.get_in_block(hash, key),
        }
    }

    /// [`Table::get_hashed`] without what the index knows.
    #[inline(never)]
    fn get_in_block(&self, hash: u64, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        let Some(located) = self.locate_unfiltered(hash) else { return Ok(None) };
        self.activate_index(hash, located.block)?;
        match self.is_plain() {
            true => self.get_large(located, key),
            false => self.get_decoded(located, key),
        }
    }

    /// What the index knows of a key, if there is one.
    fn find_indexed(&self, hash: u64, key: &[u8]) -> IndexLookup<'_> {
        match &self.index {
            Some(index) => index.find(self.all_blocks(), hash, key),
            None => IndexLookup::Unknown,
        }
    }

    /// Lets the index answer for a hash from now on, if the block that can hold it was checked by
    /// an earlier get: the first get of a block checks no more of the file than without an index.
    #[inline(always)]
    fn activate_index(&self, hash: u64, number: u64) -> Result<()> {
        match &self.index {
            Some(index) if self.source.is_checked(number) => {
                let (offset, len) = self.extent(number)?;
                let start = (offset - self.blocks.0) as usize;
                let settled = index.mark_ready(hash, start..start + len);
                settled.map_err(|e| e.in_file(self.path()))
            }
            _ => Ok(()),
        }
    }

    /// The value of a hash, as it was added.
    #[inline(always)]
    pub(crate) fn decompressed<'a>(&self, hash: u64, stored: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        match self.meta.compression {
            Compression::None => Ok(borrowed(stored)),
            _ => self.decompress(hash, stored),
        }
    }

    #[inline(never)]
    pub(crate) fn decompress<'a>(&self, hash: u64, stored: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let value = self.decompress_value(stored).map(Cow::Owned);
        value
            .map_err(|e| self.block_error(e, self.locate_unfiltered(hash).map_or(0, |at| at.block)))
    }

    /// Whether a key is there.
    pub(crate) fn contains(&self, key: &[u8]) -> Result<bool> {
        let hash = self.hash(key);
        let Some(located) = self.locate(hash) else { return Ok(false) };
        let number = located.block;
        match self.find_indexed(hash, key) {
            IndexLookup::Value(_) => return Ok(true),
            IndexLookup::Absent => return Ok(false),
            IndexLookup::Unknown => self.activate_index(hash, number)?,
        }
        let block = self.block(number)?;
        let body = self.body(&block).map_err(|e| self.block_error(e, number))?;
        let there = Body::parse(&body).and_then(|body| body.find(located.tag, key));
        there.map(|value| value.is_some()).map_err(|e| self.block_error(e, number))
    }

    /// Where a key of this hash can be; `None` if it is nowhere.
    #[inline(always)]
    pub(crate) fn locate(&self, hash: u64) -> Option<BlockRef> {
        if self.may_contain(hash) { self.locate_unfiltered(hash) } else { None }
    }

    /// [`Table::locate`], whatever the filter says.
    #[inline(always)]
    pub(crate) fn locate_unfiltered(&self, hash: u64) -> Option<BlockRef> {
        let bin = bin_of(hash, self.meta.slots);
        let block = self.find_block(bin)?;
        Some(BlockRef { tag: tag(hash), bin, block })
    }

    /// Whether records are in memory as they are.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.meta.compression == Compression::None && self.in_memory()
    }

    /// [`Table::get_hashed`] of records that are compressed, or are not in memory.
    #[inline(never)]
    pub(crate) fn get_decoded(&self, at: BlockRef, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        let block = self.block(at.block)?;
        self.value_in_block(block, at.tag, key).map_err(|e| self.block_error(e, at.block))
    }

    /// [`Table::get_hashed`] of records in memory as they are: of larger ones, and of small ones in
    /// a block that was not checked yet.
    #[inline(never)]
    fn get_large(&self, at: BlockRef, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        let block = self.memory(at.block)?;
        self.prefetch_large(block, at);
        self.source.check_once(block, at.block).map_err(|e| self.block_error(e, at.block))?;
        Ok(self.find(&block[CHECKSUM..], at, self.fraction(at), key)?.map(borrowed))
    }

    /// [`Table::get_hashed`] of small records in a block that was checked, as most are. Kept apart
    /// from the others: there is no time for what those set up.
    #[inline(always)]
    fn get_small(&self, hash: u64, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        let Some(at) = self.locate_unfiltered(hash) else { return Ok(None) };
        match self.source.checked_body(at.block, self.meta.block_size as usize) {
            Some(body) => {
                let fraction = self.fraction(at);
                // One wait for memory instead of two: decisions/0007.
                prefetch_lines::<SMALL_LINES>(expected_lines(body, fraction));
                Ok(self.find(body, at, fraction, key)?.map(Cow::Borrowed))
            }
            None => self.get_in_block(hash, key),
        }
    }

    /// The stored value of a key in a body that was checked; `share` is [`Table::share`].
    #[inline(always)]
    pub(crate) fn find<'a>(
        &self,
        body: &'a [u8],
        at: BlockRef,
        fraction: usize,
        key: &[u8],
    ) -> Result<Option<&'a [u8]>> {
        if let Some(avx2) = self.avx2 {
            let spot = avx2.find(body, at.tag, fraction, key);
            if let Some((_, value)) = spot.split(body, key.len()) {
                return Ok(Some(value));
            }
            if spot == RecordSpan::ABSENT {
                return Ok(None);
            }
        }
        find_in_body(body, at.tag, key).map_err(|e| self.block_error(e, at.block))
    }

    /// About how far into its block a record stands, of [`FRACTION_ONE`].
    #[inline(always)]
    pub(crate) fn fraction(&self, at: BlockRef) -> usize {
        self.directory.fraction(at.bin, at.block, FRACTION_ONE)
    }

    /// Asks for the head of a block and, if several large records stand in it, for the lines where
    /// the wanted one is likely to be: one wait for memory instead of two, if it is there.
    #[inline(always)]
    fn prefetch_large(&self, block: &[u8], at: BlockRef) {
        prefetch_lines::<HEAD_LINES>(block);
        if !self.small_records && self.meta.records >= 2 * self.meta.blocks {
            let expected = around::<LARGE_LINES>(block, self.fraction(at), LARGE_LINES_BEFORE);
            prefetch_lines::<LARGE_LINES>(expected);
        }
    }

    /// The value of a key in a block that was checked.
    #[inline]
    pub(crate) fn value_in_block<'a>(
        &self,
        block: Cow<'a, [u8]>,
        tag: u8,
        key: &[u8],
    ) -> Result<Option<Cow<'a, [u8]>>> {
        match (block, self.meta.compression) {
            (Cow::Borrowed(block), Compression::None) => {
                Ok(find_in_body(&block[CHECKSUM..], tag, key)?.map(Cow::Borrowed))
            }
            (block, Compression::Records { .. }) => {
                let value = Body::parse(&block[CHECKSUM..])?.find(tag, key)?;
                value.map(|frame| self.decompress_value(frame).map(Cow::Owned)).transpose()
            }
            (block, _) => {
                let body = self.body(&block)?;
                let value = Body::parse(&body)?.find(tag, key)?;
                Ok(value.map(|value| Cow::Owned(value.to_vec())))
            }
        }
    }
}
