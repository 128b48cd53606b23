//! The disk of the operating system.
//!
//! `std` repeats calls that a signal interrupted (EINTR), writes the rest after a short write, and
//! asks the drive itself to flush where the system makes a difference (macOS).

use super::dir::{Held, Locked, is_same, names, replaced};
use super::poison::Poison;
use super::{
    Append, AppendMap, AppendMapWriter, AppendMode, Disk, DiskRef, Entry, FileId, Lock, Map,
    ReadAt, cut, locked, parent,
};
use crate::{Error, ErrorKind, Result};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, fstat, linkat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// See [`Disk`].
#[derive(Debug, Default)]
pub(super) struct OsDisk {
    /// The directory in which names are resolved relative to a descriptor.
    held: Option<Arc<Held>>,
}

impl OsDisk {
    /// The descriptor that a path is relative to, and the rest of the path.
    fn at<'a>(&'a self, path: &'a Path) -> (BorrowedFd<'a>, &'a Path) {
        let held = self.held.as_ref().and_then(|held| held.resolve(path));
        held.unwrap_or((CWD, path))
    }

    fn open_with(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        let (dir, name) = self.at(path);
        let mode = Mode::from_raw_mode(0o666);
        Ok(openat(dir, name, flags | OFlags::CLOEXEC, mode)?.into())
    }

    /// Opens a regular file to read it; also gives its length.
    fn open_to_read(&self, path: &Path) -> Result<(File, u64)> {
        let failed = |e| Error::io("open", path, e);
        // Without waiting for the writer of what turns out to be a pipe.
        let file = self.open_with(path, OFlags::RDONLY | OFlags::NONBLOCK).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        match found.is_file() {
            true => Ok((file, found.len())),
            false => Err(failed(io::Error::other("it is not a regular file"))),
        }
    }

    /// Whether `path` still names this open file.
    fn is_named(&self, file: &File, path: &Path) -> Result<bool> {
        let failed = |e: Errno| Error::io("look at", path, e.into());
        let (dir, name) = self.at(path);
        match statat(dir, name, AtFlags::empty()) {
            Ok(named) => Ok(is_same(&fstat(file).map_err(failed)?, &named)),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(failed(e)),
        }
    }
}

impl Disk for OsDisk {
    fn hold(self: Arc<Self>, dir: &Path) -> Result<DiskRef> {
        Ok(Arc::new(OsDisk { held: Some(Arc::new(Held::open(dir)?)) }))
    }

    fn check_held(&self) -> Result<()> {
        self.held.as_ref().map_or(Ok(()), |held| held.check())
    }

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
        let names = names(self.at(dir), |kind| kind.is_file());
        names.map_err(|e| Error::io("list the directory", dir, e))
    }

    fn list_dirs(&self, dir: &Path) -> Result<Vec<String>> {
        let names = names(self.at(dir), |kind| kind.is_dir());
        names.map_err(|e| Error::io("list the directory", dir, e))
    }

    fn list_others(&self, dir: &Path) -> Result<Vec<String>> {
        let failed = |e| Error::io("list the directory", dir, e);
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let name = entry.file_name();
            if name.to_str().is_none() || !(kind.is_file() || kind.is_dir()) {
                names.push(name.to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn identity(&self, path: &Path) -> Result<FileId> {
        let found = fs::metadata(path).map_err(|e| Error::io("look at", path, e))?;
        Ok(FileId { device: found.dev(), inode: found.ino() })
    }

    fn lineage(&self, dir: &Path) -> Result<Vec<FileId>> {
        let real = fs::canonicalize(dir).map_err(|e| Error::io("look at", dir, e))?;
        real.ancestors().map(|dir| self.identity(dir)).collect()
    }

    fn look(&self, path: &Path) -> Result<Entry> {
        let (dir, name) = self.at(path);
        let found = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
        let found = found.map_err(|e| Error::io("find", path, e.into()))?;
        Ok(match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Entry::File(found.st_size as u64),
            FileType::Directory => Entry::Dir,
            FileType::Symlink => Entry::Link,
            _ => Entry::Other,
        })
    }

    fn resolve(&self, path: &Path) -> Result<PathBuf> {
        fs::canonicalize(path).map_err(|e| match (e.kind(), fs::read_link(path)) {
            (io::ErrorKind::NotFound, Ok(to)) => {
                let message = format!(
                    "nothing is where this symbolic link leads, which is `{}`: correct the link",
                    to.display()
                );
                Error::new(ErrorKind::NotFound, message).in_file(path)
            }
            _ => Error::io("follow", path, e),
        })
    }

    fn modified(&self, path: &Path) -> Result<SystemTime> {
        let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
        modified.map_err(|e| Error::io("look at", path, e))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn Append>> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        let file = self.open_with(path, flags).map_err(|e| Error::io("create", path, e))?;
        match file.try_lock() {
            // Another process took the new file for a leftover before this one locked it.
            Err(TryLockError::WouldBlock) => return Err(locked(path)),
            Ok(()) if !self.is_named(&file, path)? => return Err(locked(path)),
            // A file system without locks can still be written to; only a leftover stays for good.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        Ok(append_to(file, 0, path))
    }

    fn create_unnamed(&self, dir: &Path) -> Result<(Box<dyn Append>, Box<dyn ReadAt>)> {
        super::unnamed::create(dir)
    }

    fn reopen(&self, path: &Path) -> Result<Box<dyn Append>> {
        let failed = |e| Error::io("open", path, e);
        self.open_to_read(path)?; // Refuses what is not a regular file.
        let file = self.open_with(path, OFlags::WRONLY | OFlags::APPEND).map_err(failed)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(locked(path)),
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let length = file.metadata().map_err(failed)?.len();
        Ok(append_to(file, length, path))
    }

    fn map(&self, path: &Path) -> Result<Map> {
        let (file, length) = self.open_to_read(path)?;
        Map::of_file(&file, length, path)
    }

    fn open(&self, path: &Path) -> Result<Box<dyn ReadAt>> {
        Ok(Box::new(OsFile { file: self.open_to_read(path)?.0, path: path.into() }))
    }

    fn create_append_map(
        &self,
        path: &Path,
        capacity: usize,
        mode: AppendMode,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = self.open_with(path, flags).map_err(|e| Error::io("create", path, e))?;
        let made = reserve(&file, capacity as u64).map_err(|e| no_space(capacity as u64, path, e));
        let made = made.and_then(|_| append_map_of(file, 0, mode, path));
        if made.is_err() {
            // Best effort: the first error is the one to report.
            let _ = self.remove(path);
        }
        made
    }

    fn open_append_map(
        &self,
        path: &Path,
        end: usize,
        mode: AppendMode,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
        self.open_to_read(path)?; // Refuses what is not a regular file.
        let file = self.open_with(path, OFlags::RDWR);
        append_map_of(file.map_err(|e| Error::io("open", path, e))?, end, mode, path)
    }

    fn append_mode(&self, path: &Path) -> Result<AppendMode> {
        Ok(mode_for(&self.open_to_read(path)?.0))
    }

    fn create_filler(&self, path: &Path, length: u64) -> Result<()> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = self.open_with(path, flags).map_err(|e| Error::io("create", path, e))?;
        let made = match reserve(&file, length) {
            Ok(Space::Sparse) => fill(&file, length),
            made => made.map(|_| ()),
        };
        made.map_err(|e| {
            // Best effort: the first error is the one to report.
            let _ = self.remove(path);
            no_space(length, path, e)
        })
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let (from_dir, from_name) = self.at(from);
        let (to_dir, to_name) = self.at(to);
        let linked = linkat(from_dir, from_name, to_dir, to_name, AtFlags::empty());
        linked.map_err(|e| Error::io("make a hard link to", from, e.into()))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (from_dir, from_name) = self.at(from);
        let (to_dir, to_name) = self.at(to);
        let renamed = renameat(from_dir, from_name, to_dir, to_name);
        renamed.map_err(|e| Error::io("rename a file to this name", to, e.into()))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let (dir, name) = self.at(path);
        let removed = unlinkat(dir, name, AtFlags::empty());
        removed.map_err(|e| Error::io("remove", path, e.into()))
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        self.open_to_read(path)?.0.sync_data().map_err(|e| Error::io("sync", path, e))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let handle = self.open_with(dir, OFlags::RDONLY | OFlags::DIRECTORY);
        let synced = handle.and_then(|handle| handle.sync_all());
        synced.map_err(|e| Error::io("sync the directory", dir, e))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        let failed = |e| Error::io("open the lock", path, e);
        // Without waiting for the reader of what turns out to be a pipe.
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
        let file = self.open_with(path, flags).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("it is not a regular file")));
        }
        let file = match Locked::new(file) {
            Ok(file) if self.is_named(&file.file, path)? => file,
            // Locked, but no longer the file of this name: its writer published or removed it.
            Ok(_) | Err(TryLockError::WouldBlock) => return Err(locked(path)),
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", path, e)),
        };
        // The directory too: its lock does not go when the file is removed.
        let held = self.held.as_ref().filter(|held| held.resolve(path).is_some());
        let dir = held.map(|held| held.lock()).transpose()?.flatten();
        let disk = OsDisk { held: self.held.clone() };
        Ok(Box::new(OsLock { file, _dir: dir, disk, path: path.into() }))
    }
}

struct OsLock {
    file: Locked,
    /// The directory, locked too.
    _dir: Option<Arc<Locked>>,
    disk: OsDisk,
    path: PathBuf,
}

impl Lock for OsLock {
    fn check(&self) -> Result<()> {
        self.disk.check_held()?;
        match self.disk.is_named(&self.file.file, &self.path)? {
            true => Ok(()),
            false => Err(replaced(&self.path)),
        }
    }
}

fn append_to(file: File, length: u64, path: &Path) -> Box<dyn Append> {
    let file = OsAppend { file, length, limit: file_size_limit(), path: path.into() };
    Box::new(Poison::new(file, path.into()))
}

/// What reserving the space of a file came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    Reserved,
    /// The file system cannot reserve: space is taken by the write that needs it.
    Sparse,
}

/// Gives a new file its length and, where the file system can, the space for it.
fn reserve(file: &File, length: u64) -> io::Result<Space> {
    if length > file_size_limit() {
        return Err(io::ErrorKind::FileTooLarge.into()); // The call would raise SIGXFSZ.
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, length) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        done => return Ok(done.map(|()| Space::Reserved)?),
    }
    file.set_len(length)?;
    Ok(Space::Sparse)
}

/// Takes the space of a file by writing all of it.
fn fill(file: &File, length: u64) -> io::Result<()> {
    // No zeros: a file system that compresses would keep next to nothing of them.
    let mut state = length | 1;
    let mut piece = vec![0; 64 << 10];
    for at in (0..length).step_by(piece.len()) {
        for byte in &mut piece {
            state = state.wrapping_mul(0xD129_0E9B_5A5B_6B2D).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        file.write_all_at(&piece[..piece.len().min((length - at) as usize)], at)?;
    }
    Ok(())
}

fn no_space(length: u64, path: &Path, e: io::Error) -> Error {
    Error::io(&format!("reserve {length} bytes; free space on this disk for"), path, e)
}

/// An append map over a file, whose mode is what was asked for or what its file system is safe with.
fn append_map_of(
    file: File,
    end: usize,
    mode: AppendMode,
    path: &Path,
) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
    let mode = match mode {
        AppendMode::Auto => mode_for(&file),
        mode => mode,
    };
    AppendMap::of_file(file, end, mode, path)
}

/// What [`AppendMode::Auto`] means for a file.
fn mode_for(file: &File) -> AppendMode {
    if may_store(file) { AppendMode::Map } else { AppendMode::Write }
}

/// Whether a store into a map of this file finds the space that was reserved for it. That holds
/// where blocks are never written elsewhere: in memory, and on ext4 in files with extents. Copies
/// on write (btrfs, XFS after a reflink) need new blocks, and a map has no way to report that there
/// are none but SIGBUS.
#[cfg(target_os = "linux")]
fn may_store(file: &File) -> bool {
    const EXT4: rustix::fs::FsWord = 0xEF53;
    const TMPFS: rustix::fs::FsWord = 0x0102_1994;
    let Ok(found) = rustix::fs::fstatfs(file) else { return false };
    match found.f_type {
        TMPFS => true,
        EXT4 => rustix::fs::ioctl_getflags(file)
            .is_ok_and(|flags| flags.bits() & EXTENTS != 0 && is_reserved(file)),
        _ => false,
    }
}

/// The flag of ext4's files that have extents (`FS_EXTENT_FL`).
#[cfg(target_os = "linux")]
const EXTENTS: u32 = 0x0008_0000;

/// Whether the whole length of a file has its blocks.
#[cfg(target_os = "linux")]
fn is_reserved(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.blocks() * 512 >= found.len())
}

#[cfg(not(target_os = "linux"))]
fn may_store(_: &File) -> bool {
    false
}

/// Largest file that this process may write; a write beyond it would raise SIGXFSZ, which ends the
/// process unless it handles the signal.
pub(super) fn file_size_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current.unwrap_or(u64::MAX)
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
    length: u64,
    /// Bytes that the file may have.
    limit: u64,
    path: PathBuf,
}

impl Append for OsAppend {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let failed = |e| Error::io("append", &self.path, e);
        let length = self.length + bytes.len() as u64;
        if length > self.limit {
            return Err(failed(io::ErrorKind::FileTooLarge.into()));
        }
        self.file.write_all(bytes).map_err(failed)?;
        self.length = length;
        Ok(())
    }

    fn begin_writing(&mut self) {
        super::writeback::begin_writing(&self.file);
    }

    fn sync(&mut self) -> Result<()> {
        // fdatasync: the bytes and the length, without which they could not be read; not the times.
        self.file.sync_data().map_err(|e| Error::io("sync", &self.path, e))
    }
}

fn is_permission_denied(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|e| e.downcast_ref::<io::Error>());
    source.is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
}
