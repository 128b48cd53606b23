//! The newest entry of each key of a HaloDB directory. Memory does not depend on the length of
//! keys.
//!
//! A hash table maps the 64-bit hash of a key to the location of its newest entry: 17 bytes per
//! slot, of which between 7/16 and 7/8 are used. If an entry has the hash of a known one, key and
//! sequence number of the known one are read from its file. Of two keys with the same hash the
//! second is stored in full, so the result is exact.
//!
//! Entries of index files whose records are in no file are added, too: if such an entry is the
//! newest of its key, the value of the key is lost.

use crate::halodb::format::Window;
use crate::halodb::report::FileKind;
use firndb::{Error, Result};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};

/// Maximum number of files kept open for reading keys.
const OPEN_MAX: usize = 64;
/// Number of hash tables. A table that grows is copied, so each is a small part of the whole.
const SHARDS: usize = 64;

/// The location of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// Index of the file in the list of files.
    pub(crate) file: u32,
    pub(crate) offset: u32,
}

/// The newest entry of each key so far.
pub(crate) struct NewestEntries {
    files: Vec<(PathBuf, FileKind)>,
    open: HashMap<u32, Window>,
    state: RandomState,
    /// Bits of the hash that are used. Tests use few, to make keys collide.
    mask: u64,
    newest: Vec<HashMap<u64, Location>>,
    /// Keys whose hash is that of another key in `newest`.
    whole: HashMap<Vec<u8>, Location>,
}

impl NewestEntries {
    pub(crate) fn new(files: Vec<(PathBuf, FileKind)>, mask: u64) -> NewestEntries {
        NewestEntries {
            files,
            open: HashMap::new(),
            state: RandomState::new(),
            mask,
            newest: (0..SHARDS).map(|_| HashMap::new()).collect(),
            whole: HashMap::new(),
        }
    }

    /// Adds an entry. A record is newer than a tombstone with the same sequence number, as in
    /// HaloDB.
    pub(crate) fn add(&mut self, key: &[u8], sequence: i64, location: Location) -> Result<()> {
        let hash = self.state.hash_one(key) & self.mask;
        let in_whole = self.whole.get(key).copied();
        let known = in_whole.or_else(|| self.newest[shard_of(hash)].get(&hash).copied());
        let Some(known) = known else {
            self.newest[shard_of(hash)].insert(hash, location);
            return Ok(());
        };
        let Some(known_sequence) = self.sequence(known, key)? else {
            self.whole.insert(key.to_vec(), location);
            return Ok(());
        };
        if self.rank(sequence, location) > self.rank(known_sequence, known) {
            match in_whole {
                Some(_) => self.whole.insert(key.to_vec(), location),
                None => self.newest[shard_of(hash)].insert(hash, location),
            };
        }
        Ok(())
    }

    /// Whether the newest entry of the key is at `location`, or has this sequence number or a
    /// higher one.
    pub(crate) fn has(
        &mut self,
        key: &[u8],
        sequence: i64,
        location: Option<Location>,
    ) -> Result<bool> {
        let hash = self.state.hash_one(key) & self.mask;
        let in_whole = self.whole.get(key).copied();
        let known = in_whole.or_else(|| self.newest[shard_of(hash)].get(&hash).copied());
        let Some(known) = known else { return Ok(false) };
        if location == Some(known) {
            return Ok(true);
        }
        Ok(self.sequence(known, key)?.is_some_and(|known| known >= sequence))
    }

    /// The order of entries of a key. Of copies of a record, one that can be read is preferred.
    fn rank(&self, sequence: i64, location: Location) -> (i64, u8) {
        let kind = self.files.get(location.file as usize).map(|(_, kind)| *kind);
        let kind = match kind {
            Some(FileKind::Data | FileKind::Compacted) => 2,
            Some(FileKind::Tombstones) => 1,
            Some(FileKind::Index) | None => 0,
        };
        (sequence, kind)
    }

    /// The sequence number of a known entry; `None` if it is of another key.
    fn sequence(&mut self, entry: Location, key: &[u8]) -> Result<Option<i64>> {
        let (sequence, found) = self.read(entry)?;
        Ok((found == key).then_some(sequence))
    }

    /// Sequence number and key of a known entry.
    pub(crate) fn read(&mut self, entry: Location) -> Result<(i64, &[u8])> {
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

    /// The ascending offsets of the newest entries of each file. Frees the tables.
    pub(crate) fn into_offsets(self) -> Vec<Vec<u32>> {
        let all = || self.newest.iter().flat_map(HashMap::values).chain(self.whole.values());
        let mut counts = vec![0; self.files.len()];
        all().for_each(|location| counts[location.file as usize] += 1);
        let mut offsets: Vec<Vec<u32>> = counts.into_iter().map(Vec::with_capacity).collect();
        all().for_each(|location| offsets[location.file as usize].push(location.offset));
        offsets.iter_mut().for_each(|offsets| offsets.sort_unstable());
        offsets
    }
}

/// The shard of a hash. The tables hash the hash again, so any of its bits can be used.
fn shard_of(hash: u64) -> usize {
    (hash % SHARDS as u64) as usize
}

/// The error of a file that changed while it was read.
pub(crate) fn changed(path: &Path) -> Error {
    Error::corrupt("the file changed while it was read; close HaloDB, then try again").in_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that is removed at the end of the test.
    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const KEYS: [&[u8]; 3] = [b"a", b"bb", b"ccc"];

    /// A data file, a tombstone file and an index file, whose entries of the keys have the sequence
    /// numbers 10, 20, 30; 11, 19, 30; 12, 20, 31. `place(file, key)` is where one is.
    fn files(
        name: &str,
        mask: u64,
    ) -> (Folder, NewestEntries, impl Fn(u32, usize) -> (i64, Location) + use<>) {
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
        let kinds = [FileKind::Data, FileKind::Tombstones, FileKind::Index];
        let paths = ["1.data", "2.tombstone", "1.index"].map(|name| dir.join(name));
        paths.iter().zip(&bytes).for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
        let place = move |file: u32, key: usize| {
            let offset = places[file as usize][key];
            (sequences[file as usize][key], Location { file, offset })
        };
        let keys = NewestEntries::new(paths.into_iter().zip(kinds).collect(), mask);
        (Folder(dir), keys, place)
    }

    #[test]
    fn keys_with_the_same_hash_are_distinguished() {
        for mask in [0, 1, u64::MAX] {
            let (_folder, mut keys, place) = files(&format!("{mask}"), mask);
            let mut add = |file, key: usize| {
                let (sequence, place) = place(file, key);
                keys.add(KEYS[key], sequence, place).unwrap();
            };
            (0..3).for_each(|key| add(0, key));
            // The tombstone of the first key is newer, that of the third has the same number.
            (0..3).for_each(|key| add(1, key));
            let offset = |file, key| place(file, key).1.offset;
            let wanted = vec![vec![offset(0, 1), offset(0, 2)], vec![offset(1, 0)], vec![]];
            assert!(keys.has(b"bb", 20, None).unwrap() && !keys.has(b"bb", 21, None).unwrap());
            assert!(keys.has(b"bb", 21, Some(place(0, 1).1)).unwrap());
            assert!(!keys.has(b"b", 1, None).unwrap());
            assert_eq!(keys.into_offsets(), wanted, "{mask}");
        }
    }

    #[test]
    fn entries_of_indexes_count_if_they_are_the_newest() {
        for is_first in [false, true] {
            let (_folder, mut keys, place) = files(&format!("lost-{is_first}"), u64::MAX);
            let order = if is_first { [2, 1, 0] } else { [0, 1, 2] };
            for (file, key) in order.into_iter().flat_map(|file| (0..3).map(move |k| (file, k))) {
                let (sequence, place) = place(file, key);
                keys.add(KEYS[key], sequence, place).unwrap();
            }
            let offset = |file, key| place(file, key).1.offset;
            let wanted = vec![vec![offset(0, 1)], vec![], vec![offset(2, 0), offset(2, 2)]];
            assert_eq!(keys.into_offsets(), wanted);
        }
    }
}
