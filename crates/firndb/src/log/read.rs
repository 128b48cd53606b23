//! Reading: a search in the index, and one look at the record.

use super::format::{self, Record};
use super::index::{Index, Place};
use super::segment::{RECORD_LINES, Segment, Table};
use super::store::{LogStore, Shared};
use super::table;
use crate::Result;
use crate::bytes::prefetch::{LINE, prefetch, prefetch_lines};
use std::sync::atomic::Ordering;

/// Keys whose memory is asked for at the same time: as many as a processor can wait for.
pub(super) const GROUP: usize = 16;
/// Cache lines behind [`RECORD_LINES`] that are asked for where a record is long. The processor by
/// itself goes on to the end of a page, and waits anew for each; asked for all of 10 KB, a get
/// takes two thirds of the time.
const LONG_RECORD_LINES: usize = 256;

impl LogStore {
    /// The value of a key; `None` if it is absent.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// Puts the value of a key into a buffer, replacing what is in it. `false`, and an empty
    /// buffer, if the key is absent.
    pub fn get_into(&self, key: &[u8], buffer: &mut Vec<u8>) -> Result<bool> {
        buffer.clear();
        Ok(self.get_with(key, |value| buffer.extend_from_slice(value))?.is_some())
    }

    /// Calls `read` with the value of a key, without copying it; `None` if the key is absent.
    pub fn get_with<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let hash = self.shared.hash(key);
        let mut read = Some(read);
        self.shared.find(key, hash, |_, record| {
            read.take().filter(|_| !self.shared.is_expired(record)).map(|read| read(record.value))
        })
    }

    /// The values of keys, in their order. Faster than one call for each: the memory that the keys
    /// need is waited for at the same time.
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::with_capacity(keys.len());
        for group in keys.chunks(GROUP) {
            let mut hashes = [0; GROUP];
            let hashes = &mut hashes[..group.len()];
            hashes.iter_mut().zip(group).for_each(|(h, key)| *h = self.shared.hash(key.as_ref()));
            prefetch_all(&self.shared.index, &self.shared.table.load(), hashes);
            for key in group {
                values.push(self.get(key.as_ref())?);
            }
        }
        Ok(values)
    }

    /// Whether there is a value for this key.
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// Length of the value of a key in bytes; `None` if the key is absent.
    pub fn value_len(&self, key: &[u8]) -> Result<Option<u64>> {
        self.get_with(key, |value| value.len() as u64)
    }
}

impl Shared {
    /// The record of a key, given to `read` with its place; whatever `read` returns.
    #[inline]
    pub(super) fn find<T>(
        &self,
        key: &[u8],
        hash: u64,
        read: impl FnMut(Place, &Record) -> Option<T>,
    ) -> Result<Option<T>> {
        self.search(key, hash, true, read)
    }

    /// Where a key's record is. Its value is not looked at, so it need not be in memory and may be
    /// damaged; a record that might be another key's is checked.
    #[inline]
    pub(super) fn locate(&self, key: &[u8], hash: u64) -> Result<Option<Place>> {
        self.search(key, hash, false, |place, _| Some(place))
    }

    /// [`Shared::find`], and [`Shared::locate`] if the whole record need not be right.
    #[inline]
    fn search<T>(
        &self,
        key: &[u8],
        hash: u64,
        is_whole: bool,
        mut read: impl FnMut(Place, &Record) -> Option<T>,
    ) -> Result<Option<T>> {
        loop {
            let found = table::find(&self.table, &self.index, hash, |segment, place| {
                let seen = if is_whole { None } else { segment.peek(segment.offset(place)) };
                let is_right = seen.map(|(record, _)| record).filter(|r| r.key == key);
                match is_right.map_or_else(|| read_at(segment, place), Ok) {
                    Ok(record) if record.key == key => Some(Ok(read(place, &record))),
                    Ok(_) => {
                        self.counters.false_reads.fetch_add(1, Ordering::Relaxed);
                        None
                    }
                    Err(e) => Some(Err((place, e))),
                }
            });
            match found {
                None => return Ok(None),
                Some(Ok(value)) => return Ok(value),
                // Or the shard was rebuilt under the search, and that was no place of this key.
                Some(Err((place, error))) if self.holds(hash, place) => return Err(error),
                Some(Err(_)) => {}
            }
        }
    }

    /// Whether the index has this very entry.
    pub(super) fn holds(&self, hash: u64, place: Place) -> bool {
        self.index.find(hash, |found| (found == place).then_some(())).is_some()
    }
}

/// Brings what searches for these hashes need into the processor's cache: first all their slots of
/// the index, then all their records. At most [`GROUP`] hashes.
pub(super) fn prefetch_all(index: &Index, table: &Table, hashes: &[u64]) {
    hashes.iter().for_each(|&hash| index.prefetch(hash));
    for &hash in hashes {
        index.find(hash, |place| {
            table.get(place.segment())?.prefetch(place);
            Some(())
        });
    }
}

/// The record that the index says is here.
#[inline]
pub(super) fn read_at(segment: &Segment, place: Place) -> Result<Record<'_>> {
    let offset = segment.offset(place);
    let rest = segment.filled().get(offset as usize..).unwrap_or(&[]);
    // The first line says how long the record is; the next ones are waited for meanwhile.
    prefetch_lines::<RECORD_LINES>(rest);
    if let Some((record, length)) = format::parse(rest) {
        let record_bytes = &rest[..length];
        prefetch(record_bytes.get(RECORD_LINES * LINE..).unwrap_or(&[]), LONG_RECORD_LINES);
        if format::is_whole(record_bytes, segment.number, offset) {
            return Ok(record);
        }
    }
    Err(segment.damage(offset))
}
