//! Lookup of one key.
//!
//! A get in memory mostly waits for cache misses. Out-of-order execution overlaps it with the next
//! get if at most a few hundred instructions separate them. The common path is therefore short, and
//! without calls and unpredictable branches; everything else is in separate functions.

use crate::Result;
use crate::bytes::prefetch::{LINE, prefetch_lines, prefetch_pages};
use crate::table::format::block::{Body, CHECKSUM, HEAD_LINES, find_in_body, tag};
use crate::table::format::directory::{Bin, bin_of};
use crate::table::format::fences::Fences;
use crate::table::options::Compression;
use crate::table::read::index_lookup::{Index, IndexLookup};
use crate::table::read::reader::TableReader;
use crate::table::simd::block_search::{FRACTION_ONE, RecordSpan};
use std::borrow::Cow;

/// Cache lines prefetched around the expected position of a small record, and how many of them are
/// before it.
pub(crate) const SMALL_LINES: usize = 12;
const SMALL_LINES_BEFORE: usize = 5;
/// The same for larger records.
const LARGE_LINES: usize = 6;
const LARGE_LINES_BEFORE: usize = 2;

/// A value in memory. Prefetches its pages for the caller.
#[inline(always)]
pub(crate) fn borrowed(value: &[u8]) -> Cow<'_, [u8]> {
    prefetch_pages(value);
    Cow::Borrowed(value)
}

/// The bytes of a block from the first of `LINES` lines around the expected position `fraction`;
/// `before` of the lines are before it.
#[inline(always)]
fn around<const LINES: usize>(block: &[u8], fraction: usize, before: usize) -> &[u8] {
    let expected = block.len() * fraction / FRACTION_ONE;
    // At the end of a block, its last lines: a smaller number would be an unpredictable branch.
    let last = block.len().saturating_sub(LINES * LINE);
    let first = expected.saturating_sub(before * LINE).min(last);
    block.get(first..).unwrap_or(&[])
}

/// [`around`] for a small record: starts at the first of [`SMALL_LINES`] lines.
#[inline(always)]
pub(crate) fn expected_lines(body: &[u8], fraction: usize) -> &[u8] {
    around::<SMALL_LINES>(body, fraction, SMALL_LINES_BEFORE)
}

/// Where a key can be: a block, and what a search in it needs.
#[derive(Clone, Copy)]
pub(crate) struct BlockRef {
    /// Tag of the key.
    pub(crate) tag: u8,
    pub(crate) bin: Bin,
    pub(crate) block: u64,
}

impl TableReader {
    /// Implements [`Table::get`](crate::table::Table::get).
    // Inlined into callers, see `Table::get`.
    #[inline(always)]
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        let hash = self.hash(key);
        if let Some(value) = self.index_hit(hash, key) {
            return Ok(Some(borrowed(value)));
        }
        if self.may_contain(hash) { self.get_hashed(hash, key) } else { Ok(None) }
    }

    /// The value of a key, if the index has its record in the first matching entry, and values are
    /// stored uncompressed without a filter.
    #[inline(always)]
    fn index_hit(&self, hash: u64, key: &[u8]) -> Option<&[u8]> {
        match &self.index {
            Some(index) if self.is_plain_unfiltered => index.first(self.all_blocks(), hash, key),
            _ => None,
        }
    }

    /// [`TableReader::get`] of a key that passed the filter.
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

    /// [`TableReader::get_hashed`] without the index.
    #[inline(never)]
    fn get_in_block(&self, hash: u64, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        let Some(block_ref) = self.locate_unfiltered(hash, key) else { return Ok(None) };
        self.activate_index(hash, block_ref.block)?;
        match self.is_plain() {
            true => self.get_large(block_ref, key),
            false => self.get_decoded(block_ref, key),
        }
    }

    /// Looks a key up in the index, if there is one.
    fn find_indexed(&self, hash: u64, key: &[u8]) -> IndexLookup<'_> {
        match &self.index {
            Some(index) => index.find(self.all_blocks(), hash, key),
            None => IndexLookup::Unknown,
        }
    }

    /// Makes the index usable for a hash if the block that can hold it was checked by an earlier
    /// get. The first get of a block therefore checks no more of the file than it would without an
    /// index.
    #[inline(always)]
    fn activate_index(&self, hash: u64, number: u64) -> Result<()> {
        match &self.index {
            Some(index) if self.source.is_checked(number) => {
                let (offset, len) = self.extent(number)?;
                let start = (offset - self.blocks.0) as usize;
                let ready = index.mark_ready(hash, start..start + len);
                ready.map_err(|e| e.in_file(self.path()))
            }
            _ => Ok(()),
        }
    }

    /// A value from its stored form.
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
        value.map_err(|e| self.block_error(e, self.locate_hashed(hash).map_or(0, |at| at.block)))
    }

    /// Implements [`Table::contains`](crate::table::Table::contains).
    pub(crate) fn contains(&self, key: &[u8]) -> Result<bool> {
        let hash = self.hash(key);
        let Some(block_ref) = self.locate(hash, key) else { return Ok(false) };
        let number = block_ref.block;
        match self.find_indexed(hash, key) {
            IndexLookup::Value(_) => return Ok(true),
            IndexLookup::Absent => return Ok(false),
            IndexLookup::Unknown => self.activate_index(hash, number)?,
        }
        let block = self.block(number)?;
        let body = self.body(&block).map_err(|e| self.block_error(e, number))?;
        let there = Body::parse(&body).and_then(|body| body.find(block_ref.tag, key));
        there.map(|value| value.is_some()).map_err(|e| self.block_error(e, number))
    }

    /// Where a key can be, which has this hash; `None` if the table does not have it.
    #[inline(always)]
    pub(crate) fn locate(&self, hash: u64, key: &[u8]) -> Option<BlockRef> {
        if self.may_contain(hash) { self.locate_unfiltered(hash, key) } else { None }
    }

    /// [`TableReader::locate`] without the filter.
    #[inline(always)]
    pub(crate) fn locate_unfiltered(&self, hash: u64, key: &[u8]) -> Option<BlockRef> {
        match &self.fences {
            None => self.locate_hashed(hash),
            Some(fences) => self.locate_ordered(fences, hash, key),
        }
    }

    /// [`TableReader::locate_unfiltered`] in key order.
    #[inline(never)]
    fn locate_ordered(&self, fences: &Fences, hash: u64, key: &[u8]) -> Option<BlockRef> {
        let block = fences.find(key);
        // The bin has no meaning here: no position is predicted.
        let bin = Bin { slot: 0, step: 0 };
        (block < self.meta.blocks).then_some(BlockRef { tag: tag(hash), bin, block })
    }

    /// [`TableReader::locate_unfiltered`] in hash order.
    #[inline(always)]
    pub(crate) fn locate_hashed(&self, hash: u64) -> Option<BlockRef> {
        let bin = bin_of(hash, self.meta.slots);
        let block = self.find_block(bin)?;
        Some(BlockRef { tag: tag(hash), bin, block })
    }

    /// Whether records are in memory uncompressed.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.meta.compression == Compression::None && self.in_memory()
    }

    /// [`TableReader::get_hashed`] if records are compressed, or not in memory.
    #[inline(never)]
    pub(crate) fn get_decoded(&self, at: BlockRef, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        let block = self.block(at.block)?;
        self.value_in_block(block, at.tag, key).map_err(|e| self.block_error(e, at.block))
    }

    /// [`TableReader::get_hashed`] if records are in memory uncompressed, and large, or in a block
    /// that was not checked yet.
    #[inline(never)]
    fn get_large(&self, at: BlockRef, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        let block = self.memory(at.block)?;
        self.prefetch_large(block, at);
        self.source.check_once(block, at.block).map_err(|e| self.block_error(e, at.block))?;
        Ok(self.find(&block[CHECKSUM..], at, self.fraction(at), key)?.map(borrowed))
    }

    /// [`TableReader::get_hashed`] for small records in a block that was checked: the fastest path,
    /// so it shares no setup with the others.
    #[inline(always)]
    fn get_small(&self, hash: u64, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        let Some(at) = self.locate_hashed(hash) else { return Ok(None) };
        match self.source.checked_body(at.block, self.meta.block_size as usize) {
            Some(body) => {
                let fraction = self.fraction(at);
                // One cache miss instead of two: decisions/0007.
                prefetch_lines::<SMALL_LINES>(expected_lines(body, fraction));
                Ok(self.find(body, at, fraction, key)?.map(Cow::Borrowed))
            }
            None => self.get_in_block(hash, key),
        }
    }

    /// The stored value of a key in a body that was checked. `fraction` is
    /// [`TableReader::fraction`].
    #[inline(always)]
    pub(crate) fn find<'a>(
        &self,
        body: &'a [u8],
        at: BlockRef,
        fraction: usize,
        key: &[u8],
    ) -> Result<Option<&'a [u8]>> {
        if let Some(avx2) = self.avx2 {
            let span = avx2.find(body, at.tag, fraction, key);
            if let Some((_, value)) = span.split(body, key.len()) {
                return Ok(Some(value));
            }
            if span == RecordSpan::ABSENT {
                return Ok(None);
            }
        }
        find_in_body(body, at.tag, key).map_err(|e| self.block_error(e, at.block))
    }

    /// Expected position of a record in its block, of [`FRACTION_ONE`].
    #[inline(always)]
    pub(crate) fn fraction(&self, at: BlockRef) -> usize {
        self.directory.fraction(at.bin, at.block, FRACTION_ONE)
    }

    /// Prefetches the head of a block and, if it has several large records, the lines around the
    /// expected position: if the prediction is right, one cache miss instead of two.
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
