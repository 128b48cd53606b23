//! The newest entry of each key of a HaloDB directory, whatever the length of the keys.
//!
//! Entries are found by a 64-bit hash of their keys, and only their places are kept: 17 bytes per
//! slot of a hash table, between 7/16 and 7/8 of whose slots are used. Where two entries have the
//! same hash, key and sequence number of the known one are read from its file; the second of two
//! keys that share a hash is kept whole, so that the answer is exact.
//!
//! An entry of an index file whose record is nowhere takes part as well: if it is the newest of its
//! key, the key's value is lost.

use super::format::{Kind, Window};
use firndb::{Error, Result};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};

/// Windows that are kept open for keys.
const OPEN_MAX: usize = 64;
/// Tables; one that grows is copied, and it is a small part of the whole.
const SHARDS: usize = 64;

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the file, in the order of the list of files.
    pub file: u32,
    pub offset: u32,
}

/// The newest entries so far.
pub struct Keys {
    files: Vec<(PathBuf, Kind)>,
    open: HashMap<u32, Window>,
    state: RandomState,
    /// Bits of the hash that are used: all but in tests.
    mask: u64,
    newest: Vec<HashMap<u64, Place>>,
    /// Keys whose hash belongs to another key.
    whole: HashMap<Vec<u8>, Place>,
}

impl Keys {
    pub fn new(files: Vec<(PathBuf, Kind)>, mask: u64) -> Keys {
        Keys {
            files,
            open: HashMap::new(),
            state: RandomState::new(),
            mask,
            newest: (0..SHARDS).map(|_| HashMap::new()).collect(),
            whole: HashMap::new(),
        }
    }

    /// Notes an entry. A record of the same number as a tombstone is newer, as HaloDB takes it.
    pub fn add(&mut self, key: &[u8], sequence: i64, place: Place) -> Result<()> {
        let hash = self.state.hash_one(key) & self.mask;
        let in_whole = self.whole.get(key).copied();
        let known = in_whole.or_else(|| self.newest[shard_of(hash)].get(&hash).copied());
        let Some(known) = known else {
            self.newest[shard_of(hash)].insert(hash, place);
            return Ok(());
        };
        let Some(known_sequence) = self.sequence(known, key)? else {
            self.whole.insert(key.to_vec(), place);
            return Ok(());
        };
        if self.rank(sequence, place) > self.rank(known_sequence, known) {
            match in_whole {
                Some(_) => self.whole.insert(key.to_vec(), place),
                None => self.newest[shard_of(hash)].insert(hash, place),
            };
        }
        Ok(())
    }

    /// Whether an entry of this key is known that is in `place`, or has this sequence number or a
    /// higher one.
    pub fn has(&mut self, key: &[u8], sequence: i64, place: Option<Place>) -> Result<bool> {
        let hash = self.state.hash_one(key) & self.mask;
        let in_whole = self.whole.get(key).copied();
        let known = in_whole.or_else(|| self.newest[shard_of(hash)].get(&hash).copied());
        let Some(known) = known else { return Ok(false) };
        if place == Some(known) {
            return Ok(true);
        }
        Ok(self.sequence(known, key)?.is_some_and(|known| known >= sequence))
    }

    /// Of copies of the same record one that can be read is better than one that cannot.
    fn rank(&self, sequence: i64, place: Place) -> (i64, u8) {
        let kind = self.files.get(place.file as usize).map(|(_, kind)| *kind);
        let kind = match kind {
            Some(Kind::Data | Kind::Compacted) => 2,
            Some(Kind::Tombstones) => 1,
            Some(Kind::Index) | None => 0,
        };
        (sequence, kind)
    }

    /// The sequence number of a known entry, if it is of this key.
    fn sequence(&mut self, entry: Place, key: &[u8]) -> Result<Option<i64>> {
        let (sequence, found) = self.read(entry)?;
        Ok((found == key).then_some(sequence))
    }

    /// Sequence number and key of a known entry.
    pub fn read(&mut self, entry: Place) -> Result<(i64, &[u8])> {
        let Some((path, kind)) = self.files.get(entry.file as usize) else {
            return Err(Error::invalid("no such file"));
        };
        if !self.open.contains_key(&entry.file) {
            if self.open.len() == OPEN_MAX {
                self.open.clear();
            }
            self.open.insert(entry.file, Window::small(path)?);
        }
        let window = self.open.get_mut(&entry.file).ok_or_else(|| changed(path))?;
        window.key(*kind, entry.offset.into())?.ok_or_else(|| changed(path))
    }

    /// The offsets of the newest entries, ascending, file by file. The table is given back.
    pub fn into_places(self) -> Vec<Vec<u32>> {
        let all = || self.newest.iter().flat_map(HashMap::values).chain(self.whole.values());
        let mut counts = vec![0; self.files.len()];
        all().for_each(|place| counts[place.file as usize] += 1);
        let mut places: Vec<Vec<u32>> = counts.into_iter().map(Vec::with_capacity).collect();
        all().for_each(|place| places[place.file as usize].push(place.offset));
        places.iter_mut().for_each(|offsets| offsets.sort_unstable());
        places
    }
}

/// The shard of a hash. The tables hash the hash again, so that all its bits may be used here.
fn shard_of(hash: u64) -> usize {
    (hash % SHARDS as u64) as usize
}

/// The error of a file that is not what it was.
pub fn changed(path: &Path) -> Error {
    Error::corrupt("the file changed while it was read; close HaloDB, then try again").in_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed when the test is over.
    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const KEYS: [&[u8]; 3] = [b"a", b"bb", b"ccc"];

    /// A data file, a tombstone file and an index file, whose entries of the keys have the sequence
    /// numbers 10, 20, 30; 11, 19, 30; 12, 20, 31. `place(file, key)` is where one is.
    fn files(name: &str, mask: u64) -> (Folder, Keys, impl Fn(u32, usize) -> (i64, Place) + use<>) {
        let dir = std::env::temp_dir().join(format!("firn-newest-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let sequences = [[10i64, 20, 30], [11, 19, 30], [12, 20, 31]];
        let mut bytes = [vec![], vec![], vec![]];
        let mut places = [[0; 3]; 3];
        for (n, key) in KEYS.into_iter().enumerate() {
            let size = [key.len() as u8];
            let sequence = |file: usize| sequences[file][n].to_be_bytes();
            let entries = [
                [&[0; 5], &size[..], &[0; 4], &sequence(0), key].concat(),
                [&[0; 5], &sequence(1)[..], &size, key].concat(),
                [&[0; 5], &size[..], &[0; 8], &sequence(2), key].concat(),
            ];
            for file in 0..3 {
                places[file][n] = bytes[file].len() as u32;
                bytes[file].extend(&entries[file]);
            }
        }
        let kinds = [Kind::Data, Kind::Tombstones, Kind::Index];
        let paths = ["1.data", "2.tombstone", "1.index"].map(|name| dir.join(name));
        paths.iter().zip(&bytes).for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
        let place = move |file: u32, key: usize| {
            let offset = places[file as usize][key];
            (sequences[file as usize][key], Place { file, offset })
        };
        let keys = Keys::new(paths.into_iter().zip(kinds).collect(), mask);
        (Folder(dir), keys, place)
    }

    #[test]
    fn keys_that_share_a_hash_are_told_apart() {
        for mask in [0, 1, u64::MAX] {
            let (_folder, mut keys, place) = files(&format!("{mask}"), mask);
            let mut add = |file, key: usize| {
                let (sequence, place) = place(file, key);
                keys.add(KEYS[key], sequence, place).unwrap();
            };
            (0..3).for_each(|key| add(0, key));
            // The tombstone of the first is newer, that of the third of the same number.
            (0..3).for_each(|key| add(1, key));
            let offset = |file, key| place(file, key).1.offset;
            let wanted = vec![vec![offset(0, 1), offset(0, 2)], vec![offset(1, 0)], vec![]];
            assert!(keys.has(b"bb", 20, None).unwrap() && !keys.has(b"bb", 21, None).unwrap());
            assert!(keys.has(b"bb", 21, Some(place(0, 1).1)).unwrap());
            assert!(!keys.has(b"b", 1, None).unwrap());
            assert_eq!(keys.into_places(), wanted, "{mask}");
        }
    }

    #[test]
    fn what_only_an_index_lists_counts_if_it_is_the_newest() {
        for is_first in [false, true] {
            let (_folder, mut keys, place) = files(&format!("lost-{is_first}"), u64::MAX);
            let order = if is_first { [2, 1, 0] } else { [0, 1, 2] };
            for (file, key) in order.into_iter().flat_map(|file| (0..3).map(move |k| (file, k))) {
                let (sequence, place) = place(file, key);
                keys.add(KEYS[key], sequence, place).unwrap();
            }
            let offset = |file, key| place(file, key).1.offset;
            let wanted = vec![vec![offset(0, 1)], vec![], vec![offset(2, 0), offset(2, 2)]];
            assert_eq!(keys.into_places(), wanted);
        }
    }
}
