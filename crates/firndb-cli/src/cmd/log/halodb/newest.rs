//! The newest entry of each key of a HaloDB directory: 38 bytes of memory a key or so, whatever the
//! length of the keys.
//!
//! Entries are found by a 64-bit hash of their keys. Where two entries have the same hash, their
//! keys are read from the files and compared; the second of two keys that share a hash is kept
//! whole, so that the answer is exact.

use super::format::{Kind, Window};
use firndb::{Error, Result};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::PathBuf;

/// Windows that are kept open for keys.
const OPEN_MAX: usize = 64;

/// Where an entry is, and how new.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Newest {
    pub sequence: i64,
    /// Number of the file; [`LOST`] if the entry is damaged and only its index entry is left.
    pub file: u32,
    pub offset: u32,
}

/// The file of entries that are lost.
pub const LOST: u32 = u32::MAX;

/// The newest entries so far.
pub struct Keys {
    files: Vec<(PathBuf, Kind)>,
    open: HashMap<u32, Window>,
    state: RandomState,
    /// Bits of the hash that are used: all but in tests.
    mask: u64,
    newest: HashMap<u64, Newest>,
    /// Keys whose hash belongs to another key, and keys of lost entries.
    whole: HashMap<Vec<u8>, Newest>,
}

impl Keys {
    pub fn new(files: Vec<(PathBuf, Kind)>, mask: u64) -> Keys {
        Keys {
            files,
            open: HashMap::new(),
            state: RandomState::new(),
            mask,
            newest: HashMap::new(),
            whole: HashMap::new(),
        }
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.state.hash_one(key) & self.mask
    }

    /// Notes an entry.
    pub fn add(&mut self, key: &[u8], entry: Newest) -> Result<()> {
        if let Some(known) = self.whole.get_mut(key) {
            *known = newer(*known, entry, &self.files);
            return Ok(());
        }
        let hash = self.hash(key);
        match self.newest.get(&hash).copied() {
            None if entry.file == LOST => {
                self.whole.insert(key.to_vec(), entry);
            }
            None => {
                self.newest.insert(hash, entry);
            }
            Some(known) if self.is_key(known, key)? => {
                let kept = newer(known, entry, &self.files);
                if kept.file == LOST {
                    self.newest.remove(&hash);
                    self.whole.insert(key.to_vec(), kept);
                } else {
                    self.newest.insert(hash, kept);
                }
            }
            Some(_) => {
                self.whole.insert(key.to_vec(), entry);
            }
        }
        Ok(())
    }

    /// Whether this entry is the newest of its key. Says so of one entry of a key only, though
    /// compaction may have left several copies.
    pub fn is_newest(&self, key: &[u8], file: u32, offset: u32) -> bool {
        let is_it = |newest: &Newest| newest.file == file && newest.offset == offset;
        self.newest.get(&self.hash(key)).is_some_and(is_it)
            || self.whole.get(key).is_some_and(is_it)
    }

    /// Keys whose newest record is lost.
    pub fn lost(&self) -> Vec<&[u8]> {
        let lost = self.whole.iter().filter(|(_, newest)| newest.file == LOST);
        let mut keys: Vec<&[u8]> = lost.map(|(key, _)| key.as_slice()).collect();
        keys.sort_unstable();
        keys
    }

    /// Number of keys that have a value, and of those that were deleted.
    pub fn counts(&self) -> (u64, u64) {
        let (mut live, mut deleted) = (0, 0);
        for newest in self.newest.values().chain(self.whole.values()) {
            match self.files.get(newest.file as usize) {
                Some((_, Kind::Tombstones)) => deleted += 1,
                Some(_) => live += 1,
                None => {}
            }
        }
        (live, deleted)
    }

    fn is_key(&mut self, entry: Newest, key: &[u8]) -> Result<bool> {
        let Some((path, kind)) = self.files.get(entry.file as usize) else { return Ok(false) };
        if !self.open.contains_key(&entry.file) {
            if self.open.len() == OPEN_MAX {
                self.open.clear();
            }
            self.open.insert(entry.file, Window::small(path)?);
        }
        let Some(window) = self.open.get_mut(&entry.file) else { return Ok(false) };
        match window.key(*kind, entry.offset.into())? {
            Some(found) => Ok(found == key),
            None => Err(changed(path)),
        }
    }
}

/// The error of a file that is not what it was.
pub fn changed(path: &std::path::Path) -> Error {
    Error::corrupt("the file changed while it was read; close HaloDB, then try again").in_file(path)
}

/// The newer of two entries of a key. A record of the same number as a tombstone is newer, as
/// HaloDB takes it.
fn newer(known: Newest, entry: Newest, files: &[(PathBuf, Kind)]) -> Newest {
    let rank = |n: &Newest| {
        let kind = files.get(n.file as usize).map(|(_, kind)| *kind);
        // Of copies of the same record one that can be read is better than one that cannot.
        (n.sequence, kind.is_some() && kind != Some(Kind::Tombstones), kind.is_some())
    };
    if rank(&entry) > rank(&known) { entry } else { known }
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

    fn at(sequence: i64, file: u32, offset: u32) -> Newest {
        Newest { sequence, file, offset }
    }

    /// A data file and a tombstone file with entries of these keys, and where the entries are.
    fn files(name: &str, keys: &[&[u8]]) -> (Folder, Vec<(PathBuf, Kind)>, Vec<u32>) {
        let dir = std::env::temp_dir().join(format!("firn-newest-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (mut data, mut tombstones, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for key in keys {
            places.push(data.len() as u32);
            let size = key.len() as u8;
            data.extend_from_slice(&[0, 0, 0, 0, 0, size, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            data.extend_from_slice(key);
            tombstones.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, size]);
            tombstones.extend_from_slice(key);
        }
        let (a, b) = (dir.join("1.data"), dir.join("1.tombstone"));
        std::fs::write(&a, data).unwrap();
        std::fs::write(&b, tombstones).unwrap();
        (Folder(dir), vec![(a, Kind::Data), (b, Kind::Tombstones)], places)
    }

    #[test]
    fn keys_that_share_a_hash_are_told_apart() {
        for mask in [0, 1, u64::MAX] {
            let (_folder, files, places) = files(&format!("{mask}"), &[b"a", b"bb", b"ccc"]);
            let mut keys = Keys::new(files, mask);
            for (key, place) in [&b"a"[..], b"bb", b"ccc"].into_iter().zip(&places) {
                keys.add(key, at(5, 0, *place)).unwrap();
            }
            assert_eq!(keys.counts(), (3, 0));
            keys.add(b"bb", at(6, 1, 15)).unwrap();
            keys.add(b"ccc", at(4, 1, 31)).unwrap();
            keys.add(b"a", at(5, 1, 0)).unwrap();
            assert_eq!(keys.counts(), (2, 1));
            assert!(keys.is_newest(b"a", 0, places[0]) && !keys.is_newest(b"bb", 0, places[1]));
            assert!(keys.is_newest(b"ccc", 0, places[2]));
        }
    }

    #[test]
    fn a_lost_entry_hides_older_ones_only() {
        let (_folder, files, places) = files("lost", &[b"a", b"b"]);
        let mut keys = Keys::new(files, u64::MAX);
        keys.add(b"a", at(1, 0, places[0])).unwrap();
        keys.add(b"a", at(2, LOST, 0)).unwrap();
        keys.add(b"b", at(3, LOST, 0)).unwrap();
        assert_eq!((keys.lost(), keys.counts()), (vec![&b"a"[..], b"b"], (0, 0)));
        keys.add(b"b", at(3, 0, places[1])).unwrap();
        assert_eq!((keys.lost(), keys.counts()), (vec![&b"a"[..]], (1, 0)));
    }
}
