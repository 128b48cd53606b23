//! The disk of the operating system.
//!
//! `std` repeats calls that a signal interrupted (EINTR), writes the rest after a short write, and
//! asks the drive itself to flush where the system makes a difference (macOS).

use super::poison::Poison;
use super::{Append, Disk, Map, ReadAt, Tape, TapeWriter, cut, locked, parent};
use crate::{Error, Result};
use std::fs::{self, File, FileType, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// See [`Disk`].
#[derive(Debug)]
pub(super) struct OsDisk;

impl Disk for OsDisk {
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let mut missing = Vec::new();
        let mut next = dir;
        while !next.try_exists().map_err(|e| Error::io("look for the directory", next, e))? {
            missing.push(next);
            next = parent(next);
        }
        // The deepest one that exists may be the work of a run that died before its sync.
        match self.sync_dir(parent(next)) {
            Err(e) if is_permission_denied(&e) => {} // Then it was not ours to create.
            synced => synced?,
        }
        for dir in missing.into_iter().rev() {
            match fs::create_dir(dir) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                created => created.map_err(|e| Error::io("create the directory", dir, e))?,
            }
            self.sync_dir(parent(dir))?;
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        names(dir, |kind| kind.is_file())
    }

    fn list_dirs(&self, dir: &Path) -> Result<Vec<String>> {
        names(dir, |kind| kind.is_dir())
    }

    fn modified(&self, path: &Path) -> Result<SystemTime> {
        let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
        modified.map_err(|e| Error::io("look at", path, e))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn Append>> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(path)
            .map_err(|e| Error::io("create", path, e))?;
        match file.try_lock() {
            // Somebody took the new file for a leftover before we could lock it.
            Err(TryLockError::WouldBlock) => return Err(locked(path)),
            Ok(()) if !is_named(&file, path)? => return Err(locked(path)),
            // A file system without locks can still be written to; only a leftover stays for good.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        Ok(Box::new(Poison::new(OsAppend { file, path: path.into() }, path.into())))
    }

    fn create_unnamed(&self, dir: &Path) -> Result<(Box<dyn Append>, Box<dyn ReadAt>)> {
        super::unnamed::create(dir)
    }

    fn reopen(&self, path: &Path) -> Result<Box<dyn Append>> {
        let file = OpenOptions::new().append(true).open(path);
        let file = file.map_err(|e| Error::io("open", path, e))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(locked(path)),
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        Ok(Box::new(Poison::new(OsAppend { file, path: path.into() }, path.into())))
    }

    fn map(&self, path: &Path) -> Result<Map> {
        let (file, length) = open(path)?;
        Map::of_file(&file, length, path)
    }

    fn open(&self, path: &Path) -> Result<Box<dyn ReadAt>> {
        Ok(Box::new(OsFile { file: open(path)?.0, path: path.into() }))
    }

    fn create_tape(&self, path: &Path, capacity: usize) -> Result<(Arc<Tape>, TapeWriter)> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = options.open(path).map_err(|e| Error::io("create", path, e))?;
        let made = reserve(&file, capacity).map_err(|e| {
            let action = format!("reserve {capacity} bytes; free space on this disk for");
            Error::io(&action, path, e)
        });
        let made = made.and_then(|()| Tape::of_file(file, 0, path));
        if made.is_err() {
            // Best effort: the first error is the one to report.
            let _ = fs::remove_file(path);
        }
        made
    }

    fn open_tape(&self, path: &Path, end: usize) -> Result<(Arc<Tape>, TapeWriter)> {
        open(path)?; // Refuses what is not a regular file.
        let file = OpenOptions::new().read(true).write(true).open(path);
        Tape::of_file(file.map_err(|e| Error::io("open", path, e))?, end, path)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        fs::hard_link(from, to).map_err(|e| Error::io("make a hard link to", from, e))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|e| Error::io("rename to its final name", from, e))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|e| Error::io("remove", path, e))
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        open(path)?.0.sync_data().map_err(|e| Error::io("sync", path, e))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let synced = File::open(dir).and_then(|handle| handle.sync_all());
        synced.map_err(|e| Error::io("sync the directory", dir, e))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(|e| Error::io("open the lock", path, e))?;
        match file.try_lock() {
            Ok(()) if is_named(&file, path)? => Ok(Box::new(file)),
            // Locked, but no longer the file of this name: its writer published or removed it.
            Ok(()) | Err(TryLockError::WouldBlock) => Err(locked(path)),
            Err(TryLockError::Error(e)) => Err(Error::io("lock", path, e)),
        }
    }
}

/// The names of what is of this kind in a directory, sorted.
fn names(dir: &Path, is_wanted: impl Fn(FileType) -> bool) -> Result<Vec<String>> {
    let failed = |e| Error::io("list the directory", dir, e);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if is_wanted(entry.file_type().map_err(failed)?) {
            names.extend(entry.file_name().into_string());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Opens a regular file to read it; also gives its length.
fn open(path: &Path) -> Result<(File, u64)> {
    let failed = |e| Error::io("open", path, e);
    // Without waiting for the writer of what turns out to be a pipe.
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    match found.is_file() {
        true => Ok((file, found.len())),
        false => Err(failed(io::Error::other("it is not a regular file"))),
    }
}

/// Gives a new file its length and the space for it.
fn reserve(file: &File, capacity: usize) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::fs::FallocateFlags;
        use rustix::io::Errno;
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, capacity as u64) {
            // The file system cannot reserve: a full disk may then end the process with SIGBUS.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            done => return Ok(done?),
        }
    }
    file.set_len(capacity as u64)
}

struct OsFile {
    file: File,
    path: PathBuf,
}

impl ReadAt for OsFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(bytes, offset).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => cut(&self.path, offset, bytes.len()),
            _ => Error::io("read", &self.path, e),
        })
    }

    fn len(&self) -> Result<u64> {
        self.file.metadata().map(|m| m.len()).map_err(|e| Error::io("look at", &self.path, e))
    }

    fn map(&self) -> Result<Map> {
        Map::of_file(&self.file, self.len()?, &self.path)
    }
}

struct OsAppend {
    file: File,
    path: PathBuf,
}

impl Append for OsAppend {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| Error::io("append", &self.path, e))
    }

    fn begin_writing(&mut self) {
        super::early::begin_writing(&self.file);
    }

    fn sync(&mut self) -> Result<()> {
        // fdatasync: the bytes and the length, without which they could not be read; not the times.
        self.file.sync_data().map_err(|e| Error::io("sync", &self.path, e))
    }
}

/// Whether `path` still names this open file.
fn is_named(file: &File, path: &Path) -> Result<bool> {
    let open = file.metadata().map_err(|e| Error::io("look at", path, e))?;
    match fs::metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io("look at", path, e)),
    }
}

fn is_permission_denied(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|e| e.downcast_ref::<io::Error>());
    source.is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
}
