//! [`Disk`] on the system calls of Unix, with those of Linux where they help.

use crate::disk::append_map::{AppendMap, AppendMapWriter, AppendMode};
use crate::disk::map::Map;
use crate::disk::os::append_map::{append_map, auto_mode};
use crate::disk::os::held_dir::{HeldDir, Locked, is_same, names};
use crate::disk::os::space::{Space, extend, file_size_limit, fill, reserve};
use crate::disk::os::unnamed;
#[cfg(target_os = "linux")]
use crate::disk::os::writeback;
use crate::disk::paths::parent;
use crate::disk::poison::Poison;
use crate::disk::traits::{
    Append, Disk, DiskRef, Entry, FileId, Lock, ReadAt, cut, locked, replaced,
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

/// The disk of the operating system.
pub(crate) fn os() -> DiskRef {
    Arc::new(OsDisk::default())
}

/// [`os`] restricted to the calls that every Unix system has, so that tests on Linux run the code
/// for other systems.
#[cfg(test)]
pub(crate) fn portable() -> DiskRef {
    Arc::new(OsDisk { is_portable: true, ..OsDisk::default() })
}

#[derive(Clone, Debug, Default)]
struct OsDisk {
    /// The directory whose names are resolved relative to its descriptor.
    held: Option<Arc<HeldDir>>,
    /// Avoids system calls that only Linux has.
    is_portable: bool,
}

impl OsDisk {
    /// The descriptor and the path relative to it for the `*at` system calls.
    fn at<'a>(&'a self, path: &'a Path) -> (BorrowedFd<'a>, &'a Path) {
        let held = self.held.as_ref().and_then(|held| held.resolve(path));
        held.unwrap_or((CWD, path))
    }

    fn open_with(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        let (dir, name) = self.at(path);
        let mode = Mode::from_raw_mode(0o666);
        Ok(openat(dir, name, flags | OFlags::CLOEXEC, mode)?.into())
    }

    /// Opens a regular file for reading and returns its length as well.
    fn open_to_read(&self, path: &Path) -> Result<(File, u64)> {
        let failed = |e| Error::io("open", path, e);
        // NONBLOCK: opening a pipe would wait for a writer.
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

    fn reserve(&self, file: &File, length: u64) -> io::Result<Space> {
        if self.is_portable { extend(file, length) } else { reserve(file, length) }
    }

    /// `mode`, or the mode that `Auto` selects for this file.
    fn mode_of(&self, file: &File, mode: AppendMode) -> AppendMode {
        match mode {
            AppendMode::Auto if self.is_portable => AppendMode::Write,
            AppendMode::Auto => auto_mode(file),
            mode => mode,
        }
    }
}

impl Disk for OsDisk {
    fn hold(self: Arc<Self>, dir: &Path) -> Result<DiskRef> {
        let held = Some(Arc::new(HeldDir::open(dir)?));
        Ok(Arc::new(OsDisk { held, is_portable: self.is_portable }))
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
        // An earlier process may have created the deepest existing one and died before its sync.
        match self.sync_dir(parent(next)) {
            Err(e) if is_permission_denied(&e) => {} // FirnDB did not create it.
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
            // Another process removed the new file as a leftover before this one locked it.
            Err(TryLockError::WouldBlock) => return Err(locked(path)),
            Ok(()) if !self.is_named(&file, path)? => return Err(locked(path)),
            // On a file system without locks, writing works; leftovers are not removed.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        Ok(append_to(file, 0, path))
    }

    fn create_unnamed(&self, dir: &Path) -> Result<(Box<dyn Append>, Box<dyn ReadAt>)> {
        unnamed::create(dir, self.is_portable)
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
        let length = capacity as u64;
        let made = self.reserve(&file, length).map_err(|e| no_space(length, path, e));
        let made = made.and_then(|_| {
            let mode = self.mode_of(&file, mode);
            append_map(file, 0, mode, path)
        });
        if made.is_err() {
            // Best effort: the first error is reported.
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
        let file = self.open_with(path, OFlags::RDWR).map_err(|e| Error::io("open", path, e))?;
        let mode = self.mode_of(&file, mode);
        append_map(file, end, mode, path)
    }

    fn append_mode(&self, path: &Path) -> Result<AppendMode> {
        Ok(self.mode_of(&self.open_to_read(path)?.0, AppendMode::Auto))
    }

    fn create_filler(&self, path: &Path, length: u64) -> Result<()> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = self.open_with(path, flags).map_err(|e| Error::io("create", path, e))?;
        let made = match self.reserve(&file, length) {
            Ok(Space::Sparse) => fill(&file, length),
            made => made.map(|_| ()),
        };
        made.map_err(|e| {
            // Best effort: the first error is reported.
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
        // NONBLOCK: opening a pipe would wait for a reader.
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
        let file = self.open_with(path, flags).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("it is not a regular file")));
        }
        let file = match Locked::new(file) {
            Ok(file) if self.is_named(&file.file, path)? => file,
            // The lock is on a file that no longer has this name: its writer published or removed
            // it.
            Ok(_) | Err(TryLockError::WouldBlock) => return Err(locked(path)),
            Err(TryLockError::Error(e)) => return Err(Error::io("lock", path, e)),
        };
        // The directory too: its lock survives the removal of the file.
        let held = self.held.as_ref().filter(|held| held.resolve(path).is_some());
        let dir = held.map(|held| held.lock()).transpose()?.flatten();
        Ok(Box::new(OsLock { file, _dir: dir, disk: self.clone(), path: path.into() }))
    }
}

struct OsLock {
    file: Locked,
    /// The lock of the directory.
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

fn no_space(length: u64, path: &Path, e: io::Error) -> Error {
    Error::io(&format!("reserve {length} bytes; free space on this disk for"), path, e)
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
    /// Largest length that this process may give the file.
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
        #[cfg(target_os = "linux")]
        writeback::begin_writing(&self.file);
    }

    fn sync(&mut self) -> Result<()> {
        // fdatasync: the bytes and the length, but not the times.
        self.file.sync_data().map_err(|e| Error::io("sync", &self.path, e))
    }
}

fn is_permission_denied(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|e| e.downcast_ref::<io::Error>());
    source.is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
}
