//! Many gets at once: their cache misses, or their reads, happen at the same time.

use super::block::{Body, CHECKSUM, check};
use super::directory::Place;
use super::options::Compression;
use super::reader::{HEAD_LINES, Table};
use crate::Result;
use crate::bytes::prefetch::prefetch;
use std::borrow::Cow;
use xxhash_rust::xxh3::xxh3_64;

/// Gets that are under way at the same time in memory: more would push each other out of the
/// nearest cache.
const GROUP: usize = 32;
/// Reads that are under way at the same time.
const DEPTH: usize = 32;

impl Table {
    /// The values of many keys, in the order of the keys: as [`Table::get`] one after the other,
    /// but the waiting for memory, or with [`crate::table::Access::Direct`] for the disk, overlaps.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Cow<'_, [u8]>>>> {
        let mut values = Vec::with_capacity(keys.len());
        if self.direct().is_some() {
            return self.read_many(keys);
        }
        for group in keys.chunks(GROUP) {
            let located = group.iter().map(|key| self.locate(xxh3_64(key.as_ref())));
            let located: Vec<Option<(Place, u64)>> = located.collect();
            if self.in_memory() {
                self.fetch_blocks(&located)?;
                self.fetch_records(group, &located)?;
            }
            for (key, located) in group.iter().zip(located) {
                values.push(match located {
                    Some((place, number)) => self.get_at(place, number, key.as_ref())?,
                    None => None,
                });
            }
        }
        Ok(values)
    }

    /// Asks for the first lines of each block.
    fn fetch_blocks(&self, located: &[Option<(Place, u64)>]) -> Result<()> {
        for &(_, number) in located.iter().flatten() {
            prefetch(self.memory(number)?, HEAD_LINES);
        }
        Ok(())
    }

    /// Asks for the record that a get will compare, now that the first lines of its block are here.
    fn fetch_records<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        located: &[Option<(Place, u64)>],
    ) -> Result<()> {
        if matches!(self.meta.compression, Compression::Blocks { .. }) {
            return Ok(());
        }
        for (key, (place, number)) in keys.iter().zip(located).filter_map(|(k, l)| Some((k, (*l)?)))
        {
            let block = &self.memory(number)?[CHECKSUM..];
            // What is wrong with a block is told by the get.
            if let Ok(body) = Body::parse(block)
                && let Some(at) = body.candidate(place, key.as_ref().len())
            {
                prefetch(block.get(at..).unwrap_or(&[]), 2);
            }
        }
        Ok(())
    }

    /// Reads each block once, many at the same time.
    fn read_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Cow<'_, [u8]>>>> {
        let mut values: Vec<Option<Cow<[u8]>>> = keys.iter().map(|_| None).collect();
        let located = |(i, key): (usize, &K)| Some((i, self.locate(xxh3_64(key.as_ref()))?));
        let mut wanted: Vec<_> = keys.iter().enumerate().filter_map(located).collect();
        wanted.sort_unstable_by_key(|(_, (_, number))| *number);
        let groups: Vec<_> = wanted.chunk_by(|a, b| a.1.1 == b.1.1).collect();
        let extents = groups.iter().map(|group| self.extent(group[0].1.1));
        let extents: Vec<(u64, usize)> = extents.collect::<Result<_>>()?;
        let Some(file) = self.direct() else { return Ok(values) };
        file.read_many(&extents, DEPTH, &mut |n, block| {
            let number = groups[n][0].1.1;
            let fill = || -> Result<()> {
                check(block, number)?;
                for (i, (place, _)) in groups[n] {
                    let value = self.value_in(Cow::Borrowed(block), *place, keys[*i].as_ref())?;
                    values[*i] = value.map(|value| Cow::Owned(value.into_owned()));
                }
                Ok(())
            };
            let mut fill = fill;
            fill().map_err(|e| self.here(e, number))
        })?;
        Ok(values)
    }
}
