//! Reading: a search in the index, and one look at the record.
//!
//! A get waits for memory twice: for a slot of the index, then for the record. The first line of a
//! record says how long it is; to ask for the others only then would be a third wait. So as many
//! lines as a record usually takes are asked for at once.

use crate::Result;
use crate::bytes::prefetch::{LINE, prefetch};
use crate::log::format::record::{self as format, Record};
use crate::log::index::hash_index::Index;
use crate::log::index::slot::RecordLocation;
use crate::log::open::store::{LogStore, Shared};
use crate::log::segments::segment::{RECORD_LINES, Segment, Table};
use crate::log::segments::segment_table as table;
use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Keys whose memory is asked for at the same time: as many as a processor can wait for.
pub(crate) const GROUP: usize = 16;
/// Cache lines behind the usual ones that are asked for where a record is long. The processor by
/// itself goes on to the end of a page, and waits anew for each; asked for all of 10 KB, a get
/// takes two thirds of the time.
const LONG_RECORD_LINES: usize = 256;
/// Most lines that are asked for before a record's length is known: asked for in vain, they would
/// cost more than they save.
const USUAL_MAX: usize = 64;
/// One get in so many learns how long records are: lines that threads write are slow to read.
const LEARNERS: u64 = 256;

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
            let Shared { index, table, usual, .. } = &*self.shared;
            prefetch_all(index, &table.load(), usual.lines(), hashes);
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
    pub(crate) fn find<T>(
        &self,
        key: &[u8],
        hash: u64,
        read: impl FnMut(RecordLocation, &Record) -> Option<T>,
    ) -> Result<Option<T>> {
        self.search(key, hash, true, read)
    }

    /// Where a key's record is. Its value is not looked at, so it need not be in memory and may be
    /// damaged; a record that might be another key's is checked.
    #[inline]
    pub(crate) fn locate(&self, key: &[u8], hash: u64) -> Result<Option<RecordLocation>> {
        self.search(key, hash, false, |place, _| Some(place))
    }

    /// [`Shared::find`], and [`Shared::locate`] if the whole record need not be right.
    #[inline]
    fn search<T>(
        &self,
        key: &[u8],
        hash: u64,
        is_whole: bool,
        mut read: impl FnMut(RecordLocation, &Record) -> Option<T>,
    ) -> Result<Option<T>> {
        let mut room = Vec::new();
        loop {
            let found = table::find(&self.table, &self.index, hash, |segment, place| {
                if !is_whole
                    && let Ok((record, _)) = segment.peek(segment.offset(place), &mut room)
                    && record.key == key
                {
                    return Some(Ok(read(place, &record)));
                }
                match read_at(segment, place, self.usual.lines(), &mut room) {
                    Ok(record) if record.key == key => {
                        self.usual.learn(hash, key.len() + record.value.len());
                        Some(Ok(read(place, &record)))
                    }
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
    pub(crate) fn holds(&self, hash: u64, place: RecordLocation) -> bool {
        self.index.find(hash, |found| (found == place).then_some(())).is_some()
    }
}

/// How many cache lines a record usually takes: the running median of some that were read, which a
/// few long ones among short ones do not move ("frugal streaming": Ma, Muthukrishnan, Sandler
/// 2013). In a cache line of its own, for all gets read it.
#[repr(align(64))]
pub(crate) struct UsualLines(AtomicUsize);

impl Default for UsualLines {
    fn default() -> UsualLines {
        UsualLines(RECORD_LINES.into())
    }
}

impl UsualLines {
    #[inline]
    pub(crate) fn lines(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Key and value of so many bytes were read.
    #[inline]
    fn learn(&self, hash: u64, bytes: usize) {
        if hash.is_multiple_of(LEARNERS) {
            // Its head, a few bytes more, makes it a line longer now and then.
            let (usual, seen) = (self.lines(), (bytes / LINE + 1).clamp(RECORD_LINES, USUAL_MAX));
            match seen.cmp(&usual) {
                Less => self.0.store(usual - 1, Ordering::Relaxed),
                Equal => {}
                Greater => self.0.store(usual + 1, Ordering::Relaxed),
            }
        }
    }
}

/// Brings what searches for these hashes need into the processor's cache: first all their slots of
/// the index, then so many lines of all their records. At most [`GROUP`] hashes.
pub(crate) fn prefetch_all(index: &Index, table: &Table, lines: usize, hashes: &[u64]) {
    hashes.iter().for_each(|&hash| index.prefetch(hash));
    for &hash in hashes {
        index.find(hash, |place| {
            table.get(place.segment())?.prefetch(place, lines);
            Some(())
        });
    }
}

/// The record that the index says is here, of which so many lines are asked for at once.
#[inline]
pub(crate) fn read_at<'a>(
    segment: &'a Segment,
    place: RecordLocation,
    lines: usize,
    room: &'a mut Vec<u8>,
) -> Result<Record<'a>> {
    let offset = segment.offset(place);
    let rest = segment.bytes_at(offset, room)?;
    prefetch(rest, lines);
    if let Some((record, length)) = format::parse(rest) {
        let record_bytes = &rest[..length];
        prefetch(record_bytes.get(lines * LINE..).unwrap_or(&[]), LONG_RECORD_LINES);
        if format::is_whole(record_bytes, segment.number, offset) {
            return Ok(record);
        }
    }
    Err(segment.damage(offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    #[test]
    fn the_usual_record_is_the_one_in_the_middle() {
        let seed = 0x0005_0A17;
        println!("seed {seed:#x}");
        let mut rng = Rng(seed);
        let usual = UsualLines::default();
        let mut read = |bytes: &dyn Fn(&mut Rng) -> usize| {
            for _ in 0..100 * LEARNERS {
                let bytes = bytes(&mut rng);
                usual.learn(rng.next(), bytes);
            }
            usual.lines()
        };
        assert_eq!(read(&|_| 1000), 16);
        assert_eq!(read(&|_| 1_000_000), USUAL_MAX);
        assert_eq!(read(&|_| 20), RECORD_LINES);
        let mixed = read(&|rng| if rng.below(20u64) == 0 { 1 << 20 } else { 20 });
        assert!(mixed <= RECORD_LINES + 2, "a few long ones among short ones: {mixed}");
        let even = read(&|rng| rng.below(2000));
        assert!((11..=21).contains(&even), "as many shorter as longer ones: {even}");
    }
}
