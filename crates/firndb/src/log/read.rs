//! Reading: a search in the index, and one look at the record.

use super::format::Record;
use super::index::Place;
use super::segment::Segment;
use super::store::{LogStore, Shared};
use super::table;
use crate::Result;
use crate::bytes::prefetch::{LINE, prefetch};
use std::sync::atomic::Ordering;

/// Keys whose memory is asked for at the same time: as many as a processor can wait for.
pub(super) const GROUP: usize = 16;
/// Cache lines of a record that are asked for: the processor itself goes on behind them.
const RECORD_LINES: usize = 3;
/// The same behind them, where the record is long: as many as a processor can wait for.
const LONG_RECORD_LINES: usize = 24;

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
            self.shared.prefetch(group);
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

    /// Brings what a search for these keys needs into the processor's cache: first all their slots
    /// of the index, then all their records. At most [`GROUP`] keys.
    fn prefetch(&self, keys: &[impl AsRef<[u8]>]) {
        let mut hashes = [0; GROUP];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.hash(key.as_ref());
            self.index.prefetch(*hash);
        }
        let table = self.table.load();
        for &hash in hashes.iter().take(keys.len()) {
            self.index.find(hash, |place| {
                let segment = table.get(place.segment())?;
                prefetch(segment.filled().get(segment.offset(place) as usize..)?, RECORD_LINES);
                Some(())
            });
        }
    }

    /// Whether the index has this very entry.
    pub(super) fn holds(&self, hash: u64, place: Place) -> bool {
        self.index.find(hash, |found| (found == place).then_some(())).is_some()
    }
}

/// The record that the index says is here.
#[inline]
pub(super) fn read_at(segment: &Segment, place: Place) -> Result<Record<'_>> {
    let offset = segment.offset(place);
    // The first line says how long the record is; the next ones are waited for meanwhile.
    prefetch(segment.filled().get(offset as usize..).unwrap_or(&[]), RECORD_LINES);
    if let Some((_, length)) = segment.peek(offset) {
        let rest = offset as usize + RECORD_LINES * LINE..offset as usize + length;
        prefetch(segment.filled().get(rest).unwrap_or(&[]), LONG_RECORD_LINES);
    }
    Ok(segment.read(offset)?.0)
}
