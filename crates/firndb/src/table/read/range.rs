//! Ranges of keys of a table in key order, in both directions.
//!
//! The fences say without a read in which blocks a range begins and ends. A binary search in each
//! of these two blocks finds the records; all blocks between them are passed on as they are.

use crate::bytes::key_range::KeyRange;
use crate::table::format::block::{Body, CHECKSUM};
use crate::table::format::fences::Fences;
use crate::table::options::Compression;
use crate::table::read::reader::TableReader;
use crate::{Error, Result};
use std::borrow::Cow;
use std::ops::Bound;

/// Iterator over copies of the keys and values of a range of a table, in key order or in the
/// opposite order: [`Table::range`](crate::table::Table::range). Ends after the first error.
///
/// Reads one block at a time, and takes no memory except for the block.
pub struct Range<'a> {
    reader: &'a TableReader,
    range: KeyRange,
    /// Remaining blocks, without the current one.
    blocks: std::ops::Range<u64>,
    /// First and last block of the range, which may have records outside of it.
    edges: (u64, u64),
    block: Option<Current<'a>>,
    is_reversed: bool,
}

/// The block that is being read.
struct Current<'a> {
    number: u64,
    /// The body, from `start` on.
    bytes: Cow<'a, [u8]>,
    start: usize,
    /// The first remaining record and its offset.
    front: (usize, usize),
    /// The record after the last remaining one, and its offset.
    back: (usize, usize),
}

impl Current<'_> {
    fn body(&self) -> Result<Body<'_>> {
        Body::parse(self.bytes.get(self.start..).unwrap_or(&[]))
    }
}

impl<'a> Range<'a> {
    /// A range of a table, which must be in key order.
    pub(crate) fn new(reader: &'a TableReader, range: KeyRange) -> Result<Range<'a>> {
        let Some(fences) = &reader.fences else { return Err(unordered().in_file(reader.path())) };
        let edges = (first_block(fences, &range), last_block(fences, &range));
        let end = if range.is_empty() { edges.0 } else { reader.meta.blocks.min(edges.1 + 1) };
        Ok(Range { reader, range, blocks: edges.0..end, edges, block: None, is_reversed: false })
    }

    /// The remaining records in the opposite order.
    #[must_use]
    pub fn reversed(mut self) -> Range<'a> {
        if let Some(block) = self.block.take() {
            // The rest of the current block is at the other end now. The bounds of the range
            // exclude the records that were taken.
            self.exclude_taken(&block);
            let number = block.number;
            self.blocks = match self.is_reversed {
                false => number..self.blocks.end.max(number + 1),
                true => self.blocks.start.min(number)..number + 1,
            };
        }
        self.is_reversed = !self.is_reversed;
        self
    }

    /// The keys of the range whose records were not taken. [`Table::range`] of them continues,
    /// without keeping an iterator meanwhile.
    ///
    /// ```
    /// use firndb::KeyRange;
    /// use firndb::table::Table;
    ///
    /// /// A page of up to `limit` records, and where the next page continues.
    /// fn page(
    ///     table: &Table,
    ///     from: KeyRange,
    ///     limit: usize,
    /// ) -> firndb::Result<(Vec<(Vec<u8>, Vec<u8>)>, KeyRange)> {
    ///     let mut range = table.range(from)?;
    ///     let records = range.by_ref().take(limit).collect::<firndb::Result<_>>()?;
    ///     Ok((records, range.rest()))
    /// }
    /// ```
    ///
    /// [`Table::range`]: crate::table::Table::range
    #[must_use]
    pub fn rest(mut self) -> KeyRange {
        if let Some(block) = self.block.take() {
            self.exclude_taken(&block);
        }
        self.range
    }

    /// Narrows the range to the records that follow those taken from the current block.
    fn exclude_taken(&mut self, block: &Current) {
        let taken = block.body().and_then(|body| match self.is_reversed {
            false if block.front.0 > 0 => {
                body.record_before(block.front.0, block.front.1).map(Some)
            }
            true if block.back.0 < body.len() => {
                body.record_at(block.back.0, block.back.1).map(Some)
            }
            _ => Ok(None),
        });
        let Ok(Some((key, ..))) = taken else { return };
        let (bound, number) = (Bound::Excluded(key), block.number);
        let open: Bound<&[u8]> = Bound::Unbounded;
        let rest = match self.is_reversed {
            false => KeyRange::new(bound, open),
            true => KeyRange::new(open, bound),
        };
        self.range = self.range.and(&rest);
        match self.is_reversed {
            false => self.edges.0 = number,
            true => self.edges.1 = number,
        }
    }

    /// Passes the next record to `read` without copying it, and returns its result. `None` at the
    /// end of the range.
    ///
    /// ```
    /// use firndb::table::Table;
    ///
    /// /// The total length of the values of keys that begin with `prefix`.
    /// fn total(table: &Table, prefix: &str) -> firndb::Result<usize> {
    ///     let (mut range, mut total) = (table.prefix(prefix)?, 0);
    ///     while let Some(len) = range.next_with(|_key, value| value.len()) {
    ///         total += len?;
    ///     }
    ///     Ok(total)
    /// }
    /// ```
    ///
    /// Errors: `Corrupt` if a block is damaged; `Io`. The range ends after an error.
    pub fn next_with<T>(&mut self, read: impl FnOnce(&[u8], &[u8]) -> T) -> Option<Result<T>> {
        let found = self.advance();
        match found {
            Ok(false) => None,
            Ok(true) => Some(self.take(read)),
            Err(e) => Some(Err(self.end(e))),
        }
    }

    /// Ends the range, and adds the current block to an error.
    fn end(&mut self, error: Error) -> Error {
        self.blocks = 0..0;
        match self.block.take() {
            Some(block) => self.reader.block_error(error, block.number),
            None => error,
        }
    }

    /// Goes to the next block with remaining records. False if there is none.
    fn advance(&mut self) -> Result<bool> {
        loop {
            if self.block.as_ref().is_some_and(|block| block.front.0 < block.back.0) {
                return Ok(true);
            }
            let next = match self.is_reversed {
                false => self.blocks.next(),
                true => self.blocks.next_back(),
            };
            let Some(number) = next else { return Ok(false) };
            self.block = None;
            let block = self.load(number).map_err(|e| self.reader.block_error(e, number))?;
            self.block = Some(block);
        }
    }

    /// Reads a block, and finds the records of the range in it.
    fn load(&self, number: u64) -> Result<Current<'a>> {
        let block = self.reader.block(number)?;
        let is_compressed = matches!(self.reader.meta.compression, Compression::Blocks { .. });
        let (bytes, start) = match is_compressed {
            true => (Cow::Owned(self.reader.body(&block)?.into_owned()), 0),
            false => (block, CHECKSUM),
        };
        let mut current = Current { number, bytes, start, front: (0, 0), back: (0, 0) };
        let body = current.body()?;
        let front = match number == self.edges.0 {
            true => body.seek(|key| self.range.is_after_start(key))?,
            false => (0, body.first()),
        };
        let back = match number == self.edges.1 || self.is_reversed {
            true => body.seek(|key| number == self.edges.1 && !self.range.is_before_end(key))?,
            false => (body.len(), 0), // A forward scan does not need the offset.
        };
        (current.front, current.back) = (front, back);
        Ok(current)
    }

    /// Takes the next record of the current block.
    fn take<T>(&mut self, read: impl FnOnce(&[u8], &[u8]) -> T) -> Result<T> {
        let (reader, is_reversed) = (self.reader, self.is_reversed);
        let taken = match &mut self.block {
            None => Err(Error::corrupt("a block has no records")),
            Some(block) => take(reader, block, is_reversed, read),
        };
        taken.map_err(|e| self.end(e))
    }
}

/// Takes a record of a block that has one.
fn take<T>(
    reader: &TableReader,
    block: &mut Current,
    is_reversed: bool,
    read: impl FnOnce(&[u8], &[u8]) -> T,
) -> Result<T> {
    let body = Body::parse(block.bytes.get(block.start..).unwrap_or(&[]))?;
    let (key, stored) = match is_reversed {
        false => {
            let (key, stored, end) = body.record_at(block.front.0, block.front.1)?;
            block.front = (block.front.0 + 1, end);
            (key, stored)
        }
        true => {
            let (key, stored, start) = body.record_before(block.back.0, block.back.1)?;
            block.back = (block.back.0.saturating_sub(1), start);
            (key, stored)
        }
    };
    Ok(match reader.meta.compression {
        Compression::Records { .. } => read(key, &reader.decompress_value(stored)?),
        _ => read(key, stored),
    })
}

impl Iterator for Range<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_with(|key, value| (key.to_vec(), value.to_vec()))
    }
}

/// The first block that may have a key of the range.
fn first_block(fences: &Fences, range: &KeyRange) -> u64 {
    match range.start() {
        Bound::Included(key) | Bound::Excluded(key) => fences.find(key),
        Bound::Unbounded => 0,
    }
}

/// The last block that may have a key of the range.
fn last_block(fences: &Fences, range: &KeyRange) -> u64 {
    match range.end() {
        Bound::Included(key) | Bound::Excluded(key) => fences.find(key),
        Bound::Unbounded => fences.last_block(),
    }
}

fn unordered() -> Error {
    Error::invalid(
        "the table is in hash order and has no ranges of keys: build it again with \
         `BuildOptions::order(Order::Key)`, on the command line with `--order key`",
    )
}
