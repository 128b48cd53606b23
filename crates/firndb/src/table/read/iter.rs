//! All records of a table, in the order of the hashes of their keys.

use crate::Result;
use crate::table::format::block::Body;
use crate::table::options::Compression;
use crate::table::read::table::Table;
use std::ops::{ControlFlow, Range};

/// Records of a part of a table, as copies of key and value. It ends after the first error.
pub struct Iter<'a> {
    table: &'a Table,
    /// Blocks to come.
    blocks: Range<u64>,
    /// The body of the block at hand, and its number.
    body: Vec<u8>,
    number: u64,
    /// Its records to come, and where the first of these begins.
    records: Range<usize>,
    at: usize,
}

/// Looks at key and value.
type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

impl Table {
    /// All records, in the order of the hashes of their keys.
    pub fn iter(&self) -> Iter<'_> {
        self.part(0, 1)
    }

    /// The records of part `part` of `parts` equal parts, for one thread each: all parts together
    /// are [`Table::iter`].
    pub fn part(&self, part: u64, parts: u64) -> Iter<'_> {
        let blocks = self.blocks_of(part, parts);
        Iter { table: self, blocks, body: Vec::new(), number: 0, records: 0..0, at: 0 }
    }

    /// As [`Table::part`], but shows each record where it is, without copying it. Says whether
    /// `visit` saw all of them.
    pub fn scan(
        &self,
        part: u64,
        parts: u64,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<bool> {
        for number in self.blocks_of(part, parts) {
            if !self.each_of(number, &mut visit)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn blocks_of(&self, part: u64, parts: u64) -> Range<u64> {
        let parts = parts.max(1);
        let at = |n: u64| {
            let share = u128::from(self.meta.blocks) * u128::from(n.min(parts));
            (share / u128::from(parts)) as u64
        };
        at(part)..at(part.saturating_add(1))
    }

    /// Shows the records of a block, and says whether `visit` saw all of them.
    fn each_of(&self, number: u64, visit: &mut Visit) -> Result<bool> {
        let block = self.block(number)?;
        let mut each = || -> Result<bool> {
            let body = self.body(&block)?;
            let end = Body::parse(&body)?.each(|key, stored| {
                Ok(match self.meta.compression {
                    Compression::Records { .. } => visit(key, &self.unpack_value(stored)?),
                    _ => visit(key, stored),
                })
            })?;
            Ok(end.is_some())
        };
        each().map_err(|e| self.here(e, number))
    }
}

impl Iter<'_> {
    /// The next record; `None` at the end of the block at hand.
    fn in_block(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let Some(record) = self.records.next() else { return Ok(None) };
        let (key, stored, end) = Body::parse(&self.body)?.record_at(record, self.at)?;
        self.at = end;
        let value = match self.table.meta.compression {
            Compression::Records { .. } => self.table.unpack_value(stored)?,
            _ => stored.to_vec(),
        };
        Ok(Some((key.to_vec(), value)))
    }

    fn load(&mut self, number: u64) -> Result<()> {
        self.number = number;
        self.body = self.table.body(&self.table.block(number)?)?.into_owned();
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
                    return Some(Err(self.table.here(e, self.number)));
                }
            }
        }
    }
}
