//! Temporary files of builds. Their pieces carry checksums: a damaged piece fails the build, and no
//! record is lost silently.

use crate::disk::{self, Append, DiskRef, ReadAt};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// Where a build creates temporary files, and how much memory it may use before.
#[derive(Clone, Debug)]
pub(crate) struct TempSpace {
    pub(crate) disk: DiskRef,
    pub(crate) folder: PathBuf,
    pub(crate) memory: usize,
}

impl TempSpace {
    /// The temporary space of a build of `path`: its directory, unless the caller chose another.
    /// Removes leftovers of earlier builds. `NotFound` if a directory does not exist, so that a
    /// build fails before it collects records.
    pub(crate) fn for_build(
        disk: &DiskRef,
        path: &Path,
        temporary: Option<&Path>,
        memory: usize,
    ) -> Result<TempSpace> {
        let beside = disk::parent(path);
        disk.list(beside)?;
        let folder = temporary.unwrap_or(beside).to_path_buf();
        disk::remove_leftovers(&**disk, &folder)?;
        Ok(TempSpace { disk: disk.clone(), folder, memory })
    }
}

/// A range of a temporary file that is read back as a unit.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// XXH3-64 of the bytes.
    pub(crate) sum: u64,
}

impl Piece {
    /// `Corrupt` unless `sum` is the checksum of the piece.
    pub(crate) fn check(&self, sum: u64) -> Result<()> {
        if sum == self.sum { Ok(()) } else { Err(spool_corrupt()) }
    }
}

/// The error for a damaged temporary file.
pub(crate) fn spool_corrupt() -> Error {
    Error::corrupt("the temporary file of a build is damaged")
}

/// A temporary file without a name. It is removed when dropped.
pub(crate) struct SpillFile {
    /// Reached only through `&mut`; the mutex makes the file `Sync`.
    append: Mutex<Box<dyn Append>>,
    pub(crate) read: Box<dyn ReadAt>,
}

impl SpillFile {
    pub(crate) fn create(space: &TempSpace) -> Result<SpillFile> {
        let (append, read) = space.disk.create_unnamed(&space.folder)?;
        Ok(SpillFile { append: Mutex::new(append), read })
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.append.get_mut().unwrap_or_else(PoisonError::into_inner).append(bytes)
    }
}

/// Bytes that are appended, and read back once: in memory up to the limit of the space, then in a
/// temporary file.
pub(crate) struct Spool {
    space: TempSpace,
    memory: Vec<u8>,
    file: Option<SpillFile>,
    /// The pieces of the file, in order.
    pieces: Vec<Piece>,
    spilled: u64,
}

/// Most bytes of a piece of a [`Spool`]. Reading it back needs as much memory.
const PIECE: usize = 1 << 20;

impl Spool {
    pub(crate) fn new(space: TempSpace) -> Spool {
        Spool { space, memory: Vec::new(), file: None, pieces: Vec::new(), spilled: 0 }
    }

    pub(crate) fn len(&self) -> u64 {
        self.spilled + self.memory.len() as u64
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.memory.extend_from_slice(bytes);
        if self.memory.len() > self.space.memory {
            let file = match &mut self.file {
                Some(file) => file,
                None => self.file.insert(SpillFile::create(&self.space)?),
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

    /// Passes all bytes to `visit`, piece by piece. `Corrupt` before a damaged piece is passed on.
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
    use crate::ErrorKind;
    use crate::disk::{DiskRef, SimDisk};

    #[test]
    fn damaged_spool_is_reported() {
        let disk = SimDisk::new();
        let space = TempSpace { disk: disk.clone() as DiskRef, folder: "/".into(), memory: 100 };
        let mut spool = Spool::new(space);
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
