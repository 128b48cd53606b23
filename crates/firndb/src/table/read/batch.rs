//! Lookup of many keys with overlapping cache misses or reads.

use crate::bytes::prefetch::{LINE, prefetch, prefetch_lines};
use crate::disk::Direct;
use crate::table::format::block::{Body, CHECKSUM, HEAD_LINES, check};
use crate::table::options::Compression;
use crate::table::read::get::BlockRef;
use crate::table::read::index_lookup::Index;
use crate::table::read::reader::TableReader;
use crate::table::simd::block_search::{RecordSpan, VALUE_LINES, keys_equal};
use crate::{Error, Result};
use std::borrow::Cow;
use std::iter;
use std::ops::Range;

/// Keys that execute a step together: enough to cover the latency of memory, few enough for their
/// lines to stay in the L1 cache.
const STEP: usize = 16;
/// Slots for the keys in flight, those of three steps. A power of two, so that the modulo is a
/// mask.
const RING: usize = 4 * STEP;
/// Keys whose compressed values are prefetched together.
const GROUP: usize = 32;
/// Lines of a compressed value that are prefetched: 4 KiB.
const FRAME_LINES: usize = 64;
/// Keys between prefetching a whole value and passing it to the caller.
const WHOLE_AHEAD: usize = 2;
/// Most lines of a whole value that are prefetched: 16 KiB, so that values do not evict each other
/// from the cache.
const WHOLE_LINES: usize = 256;
/// Most concurrent reads.
const DEPTH: usize = 32;

/// State of a key in flight.
#[derive(Clone, Copy)]
struct InFlight<'a> {
    hash: u64,
    /// Where the key can be, and that block, which may not have been checked yet.
    block_ref: Option<BlockRef>,
    block: &'a [u8],
    /// Expected position in the block: [`TableReader::fraction`].
    fraction: usize,
    /// Key and value of the most likely record: prefetched, not read.
    first: Option<(&'a [u8], &'a [u8])>,
}

const IDLE: InFlight = InFlight { hash: 0, block_ref: None, block: &[], fraction: 0, first: None };

/// The keys that execute the step `steps_later` steps after the first, while those from `start`
/// execute the first.
#[inline(always)]
fn step(start: usize, steps_later: usize, keys: usize) -> Range<usize> {
    let Some(start) = start.checked_sub(steps_later * STEP) else { return 0..0 };
    start..keys.min(start + STEP)
}

/// Prefetches a record: its key, and `lines` lines of its value.
#[inline(always)]
fn prefetch_entry(key: &[u8], value: &[u8], lines: usize) {
    prefetch(key, 1);
    let beginning = value.get(..lines * LINE).unwrap_or(value);
    prefetch(beginning, lines);
    prefetch(beginning.last_chunk::<1>().map_or(&[], |last| &last[..]), 1);
}

/// Prefetches a value, up to [`WHOLE_LINES`].
#[inline(always)]
fn prefetch_value(record: Option<(&[u8], &[u8])>) {
    if let Some((_, value)) = record {
        prefetch(value, WHOLE_LINES);
    }
}

impl TableReader {
    /// Implements [`Table::get_many`](crate::table::Table::get_many).
    pub(crate) fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
    ) -> Result<Vec<Option<Cow<'_, [u8]>>>> {
        if let Some(file) = self.direct() {
            return self.read_blocks(file, keys);
        }
        let mut values = Vec::with_capacity(keys.len());
        self.each_value(keys, false, |value| -> Result<()> {
            values.push(value);
            Ok(())
        })?;
        Ok(values)
    }

    /// Implements [`Table::read_many`](crate::table::Table::read_many).
    pub(crate) fn read_many<K: AsRef<[u8]>, E: From<Error>>(
        &self,
        keys: &[K],
        mut read: impl FnMut(usize, Option<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(file) = self.direct() {
            let mut values = self.read_blocks(file, keys)?.into_iter().enumerate();
            return values.try_for_each(|(position, value)| read(position, value.as_deref()));
        }
        let mut positions = 0..;
        self.each_value(keys, true, |value| {
            positions.next().map_or(Ok(()), |position| read(position, value.as_deref()))
        })
    }

    /// Passes the value of each key to `emit`. `whole` if callers read whole values.
    #[inline(always)]
    fn each_value<'a, K: AsRef<[u8]>, E: From<Error>>(
        &'a self,
        keys: &[K],
        whole: bool,
        emit: impl FnMut(Option<Cow<'a, [u8]>>) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.index {
            Some(index) => self.batch_indexed(index, keys, whole, emit),
            None if self.is_plain() => self.batch_plain(keys, whole, emit),
            None => self.batch_decoded(keys, emit),
        }
    }

    /// Looks up keys if records are in memory uncompressed. [`STEP`] keys execute each step in a
    /// loop short enough for out-of-order execution to overlap several of them; lines prefetched by
    /// the steps before arrive meanwhile: decisions/0011.
    fn batch_plain<'a, K: AsRef<[u8]>, E: From<Error>>(
        &'a self,
        keys: &[K],
        whole: bool,
        mut emit: impl FnMut(Option<Cow<'a, [u8]>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut ring = [IDLE; RING];
        for start in (0..keys.len() + 2 * STEP).step_by(STEP) {
            for i in step(start, 0, keys.len()) {
                let hash = self.hash(keys[i].as_ref());
                self.prefetch_filter(hash);
                ring[i % RING] = InFlight { hash, ..IDLE };
            }
            for i in step(start, 0, keys.len()) {
                self.prefetch_head(keys[i].as_ref(), &mut ring[i % RING])?;
            }
            for i in step(start, 1, keys.len()) {
                self.prefetch_record(keys[i].as_ref(), &mut ring[i % RING]);
            }
            for i in step(start, 2, keys.len()) {
                if whole && i + WHOLE_AHEAD < keys.len() {
                    prefetch_value(ring[(i + WHOLE_AHEAD) % RING].first);
                }
                emit(self.finish(keys[i].as_ref(), &ring[i % RING])?)?;
            }
        }
        Ok(())
    }

    /// The same with an index: its bucket, then the record.
    fn batch_indexed<'a, K: AsRef<[u8]>, E: From<Error>>(
        &'a self,
        index: &Index,
        keys: &[K],
        whole: bool,
        mut emit: impl FnMut(Option<Cow<'a, [u8]>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (blocks, lines) = (self.all_blocks(), self.lines_ahead());
        let mut ring = [(0, None); RING];
        let head = |hash| match self.locate_hashed(hash) {
            Some(at) => self.memory(at.block),
            None => Ok(&[][..]),
        };
        for start in (0..keys.len() + 2 * STEP).step_by(STEP) {
            for i in step(start, 0, keys.len()) {
                let hash = self.hash(keys[i].as_ref());
                index.prefetch(hash);
                ring[i % RING] = (hash, None);
            }
            for i in step(start, 1, keys.len()) {
                let (hash, first) = &mut ring[i % RING];
                match index.candidate(blocks, *hash, keys[i].as_ref().len()) {
                    Some(Some((found, value))) => {
                        prefetch_entry(found, value, lines);
                        *first = Some((found, value));
                    }
                    Some(None) => {}
                    None => prefetch_lines::<HEAD_LINES>(head(*hash)?),
                }
            }
            for i in step(start, 2, keys.len()) {
                if whole && i + WHOLE_AHEAD < keys.len() {
                    prefetch_value(ring[(i + WHOLE_AHEAD) % RING].1);
                }
                let (hash, first) = ring[i % RING];
                let key = keys[i].as_ref();
                emit(match first {
                    Some((found, value)) if keys_equal(found, key) => {
                        Some(match self.meta.compression {
                            Compression::None => Cow::Borrowed(value),
                            _ => self.decompress(hash, value)?,
                        })
                    }
                    _ if self.may_contain(hash) => self.get_hashed(hash, key)?,
                    _ => None,
                })?;
            }
        }
        Ok(())
    }

    /// Finds the block that can hold a key, and prefetches its head.
    #[inline(always)]
    fn prefetch_head<'a>(&'a self, key: &[u8], wanted: &mut InFlight<'a>) -> Result<()> {
        if let Some(at) = self.locate(wanted.hash, key) {
            let block = self.memory(at.block)?;
            prefetch_lines::<HEAD_LINES>(block);
            (wanted.block_ref, wanted.block, wanted.fraction) =
                (Some(at), block, self.fraction(at));
        }
        Ok(())
    }

    /// Finds the most likely record of a key by its tag, and prefetches it.
    #[inline(always)]
    fn prefetch_record(&self, key: &[u8], wanted: &mut InFlight) {
        let Some(BlockRef { tag, .. }) = wanted.block_ref else { return };
        let body = wanted.block.get(CHECKSUM..).unwrap_or(&[]);
        let span = match self.avx2 {
            Some(avx2) => avx2.first(body, tag, wanted.fraction, key.len()),
            None => RecordSpan::UNKNOWN,
        };
        wanted.first = match span {
            // Errors of a block are reported when it is checked.
            RecordSpan::UNKNOWN => {
                Body::parse(body).ok().and_then(|body| body.first_candidate(tag, key.len()))
            }
            span => span.split(body, key.len()),
        };
        if let Some((found, value)) = wanted.first {
            prefetch_entry(found, value, self.lines_ahead());
        }
    }

    /// Lines of a stored value that a batch prefetches. Compressed values are read as a whole.
    #[inline(always)]
    fn lines_ahead(&self) -> usize {
        if self.meta.compression == Compression::None { VALUE_LINES } else { FRAME_LINES }
    }

    /// The value of a key whose block and record were prefetched.
    #[inline(always)]
    fn finish<'a>(&'a self, key: &[u8], wanted: &InFlight<'a>) -> Result<Option<Cow<'a, [u8]>>> {
        let &InFlight { block_ref: Some(at), block, fraction, first, .. } = wanted else {
            return Ok(None);
        };
        self.source.check_once(block, at.block).map_err(|e| self.block_error(e, at.block))?;
        match first {
            Some((found, value)) if keys_equal(found, key) => Ok(Some(Cow::Borrowed(value))),
            _ => Ok(self.find(&block[CHECKSUM..], at, fraction, key)?.map(Cow::Borrowed)),
        }
    }

    /// Looks up keys if records are compressed, or not in memory.
    fn batch_decoded<'a, K: AsRef<[u8]>, E: From<Error>>(
        &'a self,
        keys: &[K],
        mut emit: impl FnMut(Option<Cow<'a, [u8]>>) -> Result<(), E>,
    ) -> Result<(), E> {
        for group in keys.chunks(GROUP) {
            let locate = |key: &K| self.locate(self.hash(key.as_ref()), key.as_ref());
            let block_ref: Vec<Option<BlockRef>> = group.iter().map(locate).collect();
            if self.in_memory() {
                self.prefetch_decoded(group, &block_ref)?;
            }
            for (key, block_ref) in group.iter().zip(block_ref) {
                emit(match block_ref {
                    Some(at) => self.get_decoded(at, key.as_ref())?,
                    None => None,
                })?;
            }
        }
        Ok(())
    }

    /// Prefetches the head of each block and, if each value is compressed separately, the most
    /// likely record.
    fn prefetch_decoded<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        block_ref: &[Option<BlockRef>],
    ) -> Result<()> {
        for at in block_ref.iter().flatten() {
            prefetch_lines::<HEAD_LINES>(self.memory(at.block)?);
        }
        if matches!(self.meta.compression, Compression::Records { .. }) {
            for (key, block_ref) in keys.iter().zip(block_ref) {
                let Some(at) = block_ref else { continue };
                let block = self.memory(at.block)?;
                self.prefetch_record(
                    key.as_ref(),
                    &mut InFlight { block_ref: *block_ref, block, ..IDLE },
                );
            }
        }
        Ok(())
    }

    /// Reads each block once, with concurrent reads.
    fn read_blocks<K: AsRef<[u8]>>(
        &self,
        file: &Direct,
        keys: &[K],
    ) -> Result<Vec<Option<Cow<'_, [u8]>>>> {
        let mut values: Vec<Option<Cow<[u8]>>> = keys.iter().map(|_| None).collect();
        let locate = |(i, key): (usize, &K)| {
            let at = self.locate(self.hash(key.as_ref()), key.as_ref())?;
            Some((at.block, i, at.tag))
        };
        let mut located: Vec<(u64, usize, u8)> =
            keys.iter().enumerate().filter_map(locate).collect();
        located.sort_unstable();
        let mut groups = located.chunk_by(|a, b| a.0 == b.0);
        let blocks = iter::from_fn(|| {
            let group = groups.next()?;
            let block = group[0].0;
            let wanted: Vec<(usize, u8)> = group.iter().map(|&(_, i, tag)| (i, tag)).collect();
            let extent = self.extent(block).map_err(|e| e.in_file(self.path()));
            Some(extent.map(|extent| (extent, (block, wanted))))
        });
        file.read_many(blocks, DEPTH, |(number, wanted), block| {
            let fill = || -> Result<()> {
                check(block, number)?;
                for (i, tag) in wanted {
                    let value = self.value_in_block(Cow::Borrowed(block), tag, keys[i].as_ref())?;
                    values[i] = value.map(|value| Cow::Owned(value.into_owned()));
                }
                Ok(())
            };
            fill().map_err(|e| self.block_error(e, number))
        })?;
        Ok(values)
    }
}
