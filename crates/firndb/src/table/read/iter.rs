//! Iteration over all records, in the order of the hashes of their keys.

use crate::Result;
use crate::table::format::block::Body;
use crate::table::options::Compression;
use crate::table::read::reader::TableReader;
use std::ops::{ControlFlow, Range};

/// Iterator over copies of keys and values. Ends after the first error.
pub struct Iter<'a> {
    reader: &'a TableReader,
    /// Remaining blocks.
    blocks: Range<u64>,
    /// Body and number of the current block.
    body: Vec<u8>,
    number: u64,
    /// Remaining records of the current block, and the offset of the next one.
    records: Range<usize>,
    at: usize,
}

/// Receives a key and its value.
pub(crate) type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Calls `visit` with each record of split `split` of `splits`, without copying it. Returns whether
/// `visit` saw all of them.
pub(crate) fn scan(
    reader: &TableReader,
    split: u64,
    splits: u64,
    visit: &mut Visit,
) -> Result<bool> {
    for number in blocks_of(reader, split, splits) {
        if !scan_block(reader, number, visit)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The blocks of split `split` of `splits`.
fn blocks_of(reader: &TableReader, split: u64, splits: u64) -> Range<u64> {
    let splits = splits.max(1);
    let at = |n: u64| {
        let blocks = u128::from(reader.meta.blocks) * u128::from(n.min(splits));
        (blocks / u128::from(splits)) as u64
    };
    at(split)..at(split.saturating_add(1))
}

/// Calls `visit` with each record of a block. Returns whether it saw all of them.
fn scan_block(reader: &TableReader, number: u64, visit: &mut Visit) -> Result<bool> {
    scan_stored(reader, number, |key, stored| {
        Ok(match reader.meta.compression {
            Compression::Records { .. } => visit(key, &reader.decompress_value(stored)?),
            _ => visit(key, stored),
        })
    })
}

/// Calls `visit` with each key of a block and its value as it is stored. Returns whether `visit`
/// saw all of them.
pub(crate) fn scan_stored(
    reader: &TableReader,
    number: u64,
    visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>>,
) -> Result<bool> {
    let block = reader.block(number)?;
    let each = || -> Result<bool> {
        let body = reader.body(&block)?;
        Ok(Body::parse(&body)?.for_each_record(visit)?.is_some())
    };
    each().map_err(|e| reader.block_error(e, number))
}

impl<'a> Iter<'a> {
    pub(crate) fn new(reader: &'a TableReader, split: u64, splits: u64) -> Iter<'a> {
        let blocks = blocks_of(reader, split, splits);
        Iter { reader, blocks, body: Vec::new(), number: 0, records: 0..0, at: 0 }
    }

    /// The next record of the current block; `None` at its end.
    fn in_block(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let Some(record) = self.records.next() else { return Ok(None) };
        let (key, stored, end) = Body::parse(&self.body)?.record_at(record, self.at)?;
        self.at = end;
        let value = match self.reader.meta.compression {
            Compression::Records { .. } => self.reader.decompress_value(stored)?,
            _ => stored.to_vec(),
        };
        Ok(Some((key.to_vec(), value)))
    }

    fn load(&mut self, number: u64) -> Result<()> {
        self.number = number;
        self.body = self.reader.body(&self.reader.block(number)?)?.into_owned();
        let body = Body::parse(&self.body)?;
        (self.records, self.at) = (0..body.len(), body.first());
        Ok(())
    }
}

impl Iterator for Iter<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let found = match self.in_block() {
                Ok(None) => {
                    let number = self.blocks.next()?;
                    self.load(number).map(|()| None)
                }
                found => found,
            };
            match found {
                Ok(Some(record)) => return Some(Ok(record)),
                Ok(None) => {}
                Err(e) => {
                    (self.blocks, self.records) = (0..0, 0..0);
                    return Some(Err(self.reader.block_error(e, self.number)));
                }
            }
        }
    }
}
