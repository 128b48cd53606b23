//! Many gets at once: their cache misses, or their reads, happen at the same time.

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

/// Keys that take a step together: enough for the memory that others have asked for to come
/// meanwhile, few enough for the nearest cache to hold it.
const STEP: usize = 16;
/// Places for the keys that are under way, those of three steps: a power of two, so that a place
/// takes no division.
const RING: usize = 4 * STEP;
/// Keys whose compressed values are asked for at the same time.
const GROUP: usize = 32;
/// Lines of a frame that are asked for: 4 KiB.
const FRAME_LINES: usize = 64;
/// Keys between asking for all of a value and handing it to who reads it.
const WHOLE_AHEAD: usize = 2;
/// Lines of it that are asked for: 16 KiB, so that those on their way are not in each other's.
const WHOLE_LINES: usize = 256;
/// Reads that are under way at the same time.
const DEPTH: usize = 32;

/// A key on its way.
#[derive(Clone, Copy)]
struct InFlight<'a> {
    hash: u64,
    /// Where it can be, and that block, which may not have been checked yet.
    located: Option<BlockRef>,
    block: &'a [u8],
    /// About where in its block it stands: [`Table::share`].
    fraction: usize,
    /// Key and value of the record that is most likely its own, asked for but not read.
    first: Option<(&'a [u8], &'a [u8])>,
}

const IDLE: InFlight = InFlight { hash: 0, located: None, block: &[], fraction: 0, first: None };

/// The keys that take a step while those from `start` on take their first: `behind` steps before.
#[inline(always)]
fn step(start: usize, behind: usize, keys: usize) -> Range<usize> {
    let Some(start) = start.checked_sub(behind * STEP) else { return 0..0 };
    start..keys.min(start + STEP)
}

/// Asks for a record: its key, and so many lines of its value.
#[inline(always)]
fn fetch(key: &[u8], value: &[u8], lines: usize) {
    prefetch(key, 1);
    let beginning = value.get(..lines * LINE).unwrap_or(value);
    prefetch(beginning, lines);
    prefetch(beginning.last_chunk::<1>().map_or(&[], |last| &last[..]), 1);
}

/// Asks for all of a value, unless it is very long.
#[inline(always)]
fn fetch_whole(record: Option<(&[u8], &[u8])>) {
    if let Some((_, value)) = record {
        prefetch(value, WHOLE_LINES);
    }
}

impl TableReader {
    /// The values of many keys, in the order of the keys: as [`Table::get`] one after the other,
    /// but the waiting for memory, or with [`crate::table::Access::Direct`] for the disk, overlaps.
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

    /// Hands each of the values of many keys to `read` with the place of the key, in the order of
    /// the keys; `None` for a key that is not there. As [`Table::get_many`], but for who reads
    /// values to their end: while one is read that is in memory as it is, the first 16 KiB of the
    /// one two places further on are on their way. Ends with the first error, of the table or of
    /// `read`; as the table is ahead, `read` may then not have seen all values before it.
    pub(crate) fn read_many<K: AsRef<[u8]>, E: From<Error>>(
        &self,
        keys: &[K],
        mut read: impl FnMut(usize, Option<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(file) = self.direct() {
            let mut values = self.read_blocks(file, keys)?.into_iter().enumerate();
            return values.try_for_each(|(place, value)| read(place, value.as_deref()));
        }
        let mut places = 0..;
        self.each_value(keys, true, |value| {
            places.next().map_or(Ok(()), |place| read(place, value.as_deref()))
        })
    }

    /// Hands over the value of each key; `whole` if it will be read to its end.
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

    /// Records in memory as they are. A few keys take a step in a loop so short that the processor
    /// has several of them in sight, and meanwhile comes the memory that those of the steps before
    /// have asked for: decisions/0011.
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
                self.prefetch_head(&mut ring[i % RING])?;
            }
            for i in step(start, 1, keys.len()) {
                self.prefetch_record(keys[i].as_ref(), &mut ring[i % RING]);
            }
            for i in step(start, 2, keys.len()) {
                if whole && i + WHOLE_AHEAD < keys.len() {
                    fetch_whole(ring[(i + WHOLE_AHEAD) % RING].first);
                }
                emit(self.take(keys[i].as_ref(), &ring[i % RING])?)?;
            }
        }
        Ok(())
    }

    /// Records that an index has, in the same way: the bucket of the index, the record.
    fn batch_indexed<'a, K: AsRef<[u8]>, E: From<Error>>(
        &'a self,
        index: &Index,
        keys: &[K],
        whole: bool,
        mut emit: impl FnMut(Option<Cow<'a, [u8]>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (blocks, lines) = (self.all_blocks(), self.lines_ahead());
        let mut ring = [(0, None); RING];
        let head = |hash| match self.locate_unfiltered(hash) {
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
                        fetch(found, value, lines);
                        *first = Some((found, value));
                    }
                    Some(None) => {}
                    None => prefetch_lines::<HEAD_LINES>(head(*hash)?),
                }
            }
            for i in step(start, 2, keys.len()) {
                if whole && i + WHOLE_AHEAD < keys.len() {
                    fetch_whole(ring[(i + WHOLE_AHEAD) % RING].1);
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

    /// Finds the block that can hold a key, and asks for its head.
    #[inline(always)]
    fn prefetch_head<'a>(&'a self, wanted: &mut InFlight<'a>) -> Result<()> {
        if let Some(at) = self.locate(wanted.hash) {
            let block = self.memory(at.block)?;
            prefetch_lines::<HEAD_LINES>(block);
            (wanted.located, wanted.block, wanted.fraction) = (Some(at), block, self.fraction(at));
        }
        Ok(())
    }

    /// Looks for the record of a key among the tags of its block, and asks for it.
    #[inline(always)]
    fn prefetch_record(&self, key: &[u8], wanted: &mut InFlight) {
        let Some(BlockRef { tag, .. }) = wanted.located else { return };
        let body = wanted.block.get(CHECKSUM..).unwrap_or(&[]);
        let spot = match self.avx2 {
            Some(avx2) => avx2.first(body, tag, wanted.fraction, key.len()),
            None => RecordSpan::UNKNOWN,
        };
        wanted.first = match spot {
            // What is wrong with a block is told when it was checked.
            RecordSpan::UNKNOWN => {
                Body::parse(body).ok().and_then(|body| body.first_candidate(tag, key.len()))
            }
            spot => spot.split(body, key.len()),
        };
        if let Some((found, value)) = wanted.first {
            fetch(found, value, self.lines_ahead());
        }
    }

    /// Lines of a stored value that a batch asks for: what is compressed is read to its end.
    #[inline(always)]
    fn lines_ahead(&self) -> usize {
        if self.meta.compression == Compression::None { VALUE_LINES } else { FRAME_LINES }
    }

    /// The value of a key whose block and record have been asked for.
    #[inline(always)]
    fn take<'a>(&'a self, key: &[u8], wanted: &InFlight<'a>) -> Result<Option<Cow<'a, [u8]>>> {
        let &InFlight { located: Some(at), block, fraction, first, .. } = wanted else {
            return Ok(None);
        };
        self.source.check_once(block, at.block).map_err(|e| self.block_error(e, at.block))?;
        match first {
            Some((found, value)) if keys_equal(found, key) => Ok(Some(Cow::Borrowed(value))),
            _ => Ok(self.find(&block[CHECKSUM..], at, fraction, key)?.map(Cow::Borrowed)),
        }
    }

    /// Records that are compressed, or are not in memory.
    fn batch_decoded<'a, K: AsRef<[u8]>, E: From<Error>>(
        &'a self,
        keys: &[K],
        mut emit: impl FnMut(Option<Cow<'a, [u8]>>) -> Result<(), E>,
    ) -> Result<(), E> {
        for group in keys.chunks(GROUP) {
            let located = group.iter().map(|key| self.locate(self.hash(key.as_ref())));
            let located: Vec<Option<BlockRef>> = located.collect();
            if self.in_memory() {
                self.prefetch_decoded(group, &located)?;
            }
            for (key, located) in group.iter().zip(located) {
                emit(match located {
                    Some(at) => self.get_decoded(at, key.as_ref())?,
                    None => None,
                })?;
            }
        }
        Ok(())
    }

    /// Asks for the first lines of each block, and then, if values are packed each for itself, for
    /// the record that a get will compare.
    fn prefetch_decoded<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        located: &[Option<BlockRef>],
    ) -> Result<()> {
        for at in located.iter().flatten() {
            prefetch_lines::<HEAD_LINES>(self.memory(at.block)?);
        }
        if matches!(self.meta.compression, Compression::Records { .. }) {
            for (key, located) in keys.iter().zip(located) {
                let Some(at) = located else { continue };
                let block = self.memory(at.block)?;
                self.prefetch_record(
                    key.as_ref(),
                    &mut InFlight { located: *located, block, ..IDLE },
                );
            }
        }
        Ok(())
    }

    /// Reads each block once, many at the same time.
    fn read_blocks<K: AsRef<[u8]>>(
        &self,
        file: &Direct,
        keys: &[K],
    ) -> Result<Vec<Option<Cow<'_, [u8]>>>> {
        let mut values: Vec<Option<Cow<[u8]>>> = keys.iter().map(|_| None).collect();
        // In the order of the hashes, which is that of the blocks, keys of one block come together
        // (those of a forged table may not: then it is read again).
        let hash = |(i, key): (usize, &K)| (self.hash(key.as_ref()), i);
        let mut hashes: Vec<(u64, usize)> = keys.iter().enumerate().map(hash).collect();
        hashes.sort_unstable();
        let locate = |&(hash, i): &(u64, usize)| Some((i, self.locate(hash)?));
        let mut located = hashes.iter().filter_map(locate).peekable();
        let blocks = iter::from_fn(|| {
            let (first, BlockRef { block, tag, .. }) = located.next()?;
            let mut wanted = vec![(first, tag)];
            while let Some((i, at)) = located.next_if(|(_, at)| at.block == block) {
                wanted.push((i, at.tag));
            }
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
