//! All records of a table, in the order of the hashes of their keys.

use super::block::Body;
use super::options::Compression;
use super::reader::Table;
use crate::Result;
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

/// Records of a part of a table, as copies of key and value. It ends after the first error.
pub struct Iter<'a> {
    table: &'a Table,
    blocks: Range<u64>,
    ready: VecDeque<(Vec<u8>, Vec<u8>)>,
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
        Iter { table: self, blocks: self.blocks_of(part, parts), ready: VecDeque::new() }
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

impl Iterator for Iter<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() {
            let (number, ready) = (self.blocks.next()?, &mut self.ready);
            let mut keep = |key: &[u8], value: &[u8]| {
                ready.push_back((key.into(), value.into()));
                ControlFlow::Continue(())
            };
            if let Err(e) = self.table.each_of(number, &mut keep) {
                self.blocks = 0..0;
                self.ready.clear();
                return Some(Err(e));
            }
        }
        self.ready.pop_front().map(Ok)
    }
}
