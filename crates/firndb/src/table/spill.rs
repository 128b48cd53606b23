//! Temporary files of a build, which only grow, and the checksums of what stands in them: a record
//! that the disk damages is an error of the build, and not a table without it.

use super::partitions::Place;
use crate::disk::{Append, DiskRef, ReadAt};
use crate::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a temporary file that are read back together.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) len: u64,
    /// Their XXH3-64.
    pub(super) sum: u64,
}

impl Piece {
    /// `Corrupt` if the bytes that were read have another checksum.
    pub(super) fn check(&self, sum: u64) -> Result<()> {
        if sum == self.sum { Ok(()) } else { Err(damaged()) }
    }
}

/// What a build says whose temporary file is not as it was written.
pub(super) fn damaged() -> Error {
    Error::corrupt("the temporary file of a build is damaged")
}

/// Removes its file when dropped.
pub(super) struct SpillFile {
    disk: DiskRef,
    path: PathBuf,
    /// Only ever reached alone, through `&mut`.
    append: Mutex<Box<dyn Append>>,
    pub(super) read: Box<dyn ReadAt>,
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        // Nothing depends on it: at worst a temporary file is left over.
        let _ = self.disk.remove(&self.path);
    }
}

/// Names of temporary files begin and end so; the rest is the process and a number.
const SPILL: [&str; 2] = [".firndb-table-", ".spill"];
/// Names that are tried before a temporary file cannot be made.
const NAMES: usize = 100;

/// Removes the temporary files that builds left in a folder when their processes died: those that
/// nobody holds the lock of. What cannot be removed is in nobody's way.
pub(super) fn remove_leftovers(disk: &DiskRef, folder: &Path) -> Result<()> {
    let is_spill = |name: &String| name.starts_with(SPILL[0]) && name.ends_with(SPILL[1]);
    for name in disk.list(folder)?.into_iter().filter(is_spill) {
        let path = folder.join(name);
        if let Ok(lock) = disk.lock(&path) {
            let _ = disk.remove(&path);
            drop(lock);
        }
    }
    Ok(())
}

impl SpillFile {
    /// A new file of a name that nobody else has.
    fn name(place: &Place) -> Result<(PathBuf, Box<dyn Append>)> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut tries = 0..NAMES;
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}{}-{number}{}", SPILL[0], std::process::id(), SPILL[1]);
            let path = place.folder.join(name);
            match place.disk.create(&path) {
                // A leftover of a process that had our number, or somebody took it for one.
                Err(e) if matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::Locked) => {
                    tries.next().ok_or(e)?;
                }
                created => return Ok((path, created?)),
            }
        }
    }

    pub(super) fn create(place: &Place) -> Result<SpillFile> {
        let (path, append) = SpillFile::name(place)?;
        let append = Mutex::new(append);
        let read = match place.disk.open(&path) {
            Ok(read) => read,
            Err(e) => {
                let _ = place.disk.remove(&path);
                return Err(e);
            }
        };
        Ok(SpillFile { disk: place.disk.clone(), path, append, read })
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.append.get_mut().unwrap_or_else(PoisonError::into_inner).append(bytes)
    }
}

/// Bytes that are appended now and read once later: in memory, and what is more than the place has
/// memory for in a temporary file.
pub(crate) struct Spool {
    place: Place,
    memory: Vec<u8>,
    file: Option<SpillFile>,
    /// What is in the file, one behind the other.
    pieces: Vec<Piece>,
    spilled: u64,
}

/// Most bytes of a piece of a [`Spool`], which are in memory once more when they are read back.
const PIECE: usize = 1 << 20;

impl Spool {
    pub(crate) fn new(place: Place) -> Spool {
        Spool { place, memory: Vec::new(), file: None, pieces: Vec::new(), spilled: 0 }
    }

    pub(crate) fn len(&self) -> u64 {
        self.spilled + self.memory.len() as u64
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.memory.extend_from_slice(bytes);
        if self.memory.len() > self.place.memory {
            let file = match &mut self.file {
                Some(file) => file,
                None => self.file.insert(SpillFile::create(&self.place)?),
            };
            file.append(&self.memory)?;
            for bytes in self.memory.chunks(PIECE) {
                let (offset, len, sum) = (self.spilled, bytes.len() as u64, xxh3_64(bytes));
                self.pieces.push(Piece { offset, len, sum });
                self.spilled += len;
            }
            self.memory.clear();
        }
        Ok(())
    }

    /// Gives back everything, in parts. `Corrupt` before a part that is not as it was written.
    pub(crate) fn each(&self, mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if let Some(file) = &self.file {
            let mut bytes = Vec::new();
            for piece in &self.pieces {
                bytes.resize(piece.len as usize, 0);
                file.read.read_at(piece.offset, &mut bytes)?;
                piece.check(xxh3_64(&bytes))?;
                visit(&bytes)?;
            }
        }
        visit(&self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SimDisk;

    #[test]
    fn a_damaged_spool_is_told() {
        let disk = SimDisk::new();
        let place = Place { disk: disk.clone() as DiskRef, folder: "/".into(), memory: 100 };
        let mut spool = Spool::new(place);
        (0..90u8).for_each(|n| spool.push(&[n; 5]).unwrap());
        let all = |spool: &Spool| {
            let mut all = Vec::new();
            let take = |part: &[u8]| {
                all.extend_from_slice(part);
                Ok(())
            };
            (spool.each(take).map_err(|e| e.kind()), all)
        };
        let bytes: Vec<u8> = (0..90).flat_map(|n| [n; 5]).collect();
        assert!(all(&spool) == (Ok(()), bytes.clone()));
        let file = disk.files().into_keys().next().unwrap();
        for at in 0..spool.spilled as usize {
            disk.damage(&file, at);
            let (result, seen) = all(&spool);
            assert_eq!(result, Err(ErrorKind::Corrupt), "byte {at}");
            assert!(seen.len() <= at && bytes.starts_with(&seen), "byte {at} was handed over");
            disk.damage(&file, at);
        }
        assert!(spool.spilled > 300 && all(&spool) == (Ok(()), bytes));
    }
}
