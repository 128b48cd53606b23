//! A directory that is held open, so that a writer keeps using it if its path is renamed.
//!
//! A writer that resolved paths anew would write into, and remove files from, any directory that
//! was moved to its path. [`HeldDir`] resolves the names of files in the directory relative to its
//! descriptor, and detects when the path names another directory.

use crate::disk::paths::parent;
use crate::disk::traits::{locked, replaced};
use crate::{Error, Result};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, stat, statat};
use rustix::io::Errno;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// An open directory.
#[derive(Debug)]
pub(super) struct HeldDir {
    dir: File,
    path: PathBuf,
    /// A second descriptor of the directory with the lock, while a lock exists.
    locked: Mutex<Weak<Locked>>,
}

/// An open file or directory with an exclusive lock.
#[derive(Debug)]
pub(super) struct Locked {
    pub(super) file: File,
    process: u32,
}

impl Locked {
    pub(super) fn new(file: File) -> std::result::Result<Locked, TryLockError> {
        file.try_lock()?;
        Ok(Locked { file, process: std::process::id() })
    }
}

impl Drop for Locked {
    /// Unlocks explicitly, since a lock lives until the last copy of the descriptor is closed, and
    /// a program that another thread is starting holds copies of all descriptors until it executes.
    /// A forked child shares the lock, which belongs to its parent, and does not unlock.
    fn drop(&mut self) {
        if self.process == std::process::id() {
            let _ = self.file.unlock();
        }
    }
}

impl HeldDir {
    pub(super) fn open(path: &Path) -> Result<HeldDir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, path, flags, Mode::empty());
        let dir = dir.map_err(|e| Error::io("open the directory", path, e.into()))?;
        Ok(HeldDir { dir: dir.into(), path: path.into(), locked: Mutex::default() })
    }

    /// The descriptor and the relative path, for the directory itself and for files in it.
    pub(super) fn resolve<'a>(&'a self, path: &'a Path) -> Option<(BorrowedFd<'a>, &'a Path)> {
        if path == self.path {
            return Some((self.dir.as_fd(), Path::new(".")));
        }
        let name = path.file_name().filter(|_| parent(path) == self.path)?;
        Some((self.dir.as_fd(), Path::new(name)))
    }

    /// Locks the directory until the result is dropped: `Locked` if another handle holds the lock.
    /// Locks taken through the same handle share it. `None` if the file system cannot lock
    /// directories.
    pub(super) fn lock(&self) -> Result<Option<Arc<Locked>>> {
        let mut locked_dir = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dir) = locked_dir.upgrade() {
            return Ok(Some(dir));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(&self.dir, ".", flags, Mode::empty());
        let dir = dir.map_err(|e| Error::io("open the directory", &self.path, e.into()))?;
        match Locked::new(dir.into()) {
            Ok(dir) => {
                let dir = Arc::new(dir);
                *locked_dir = Arc::downgrade(&dir);
                Ok(Some(dir))
            }
            Err(TryLockError::WouldBlock) => Err(locked(&self.path)),
            // NFS cannot lock directories.
            Err(TryLockError::Error(_)) => Ok(None),
        }
    }

    /// Returns `Failed` if the path now names another directory, or none.
    pub(super) fn check(&self) -> Result<()> {
        let failed = |e: Errno| Error::io("look at", &self.path, e.into());
        let held = fstat(&self.dir).map_err(failed)?;
        match stat(&self.path) {
            Ok(named) if is_same(&held, &named) => Ok(()),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => Err(replaced(&self.path)),
            Err(e) => Err(failed(e)),
        }
    }
}

/// Whether both are the same file.
pub(super) fn is_same(a: &Stat, b: &Stat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

/// Names of the entries of the wanted types in a directory, sorted. Skips names that are not UTF-8.
pub(super) fn names(
    at: (BorrowedFd, &Path),
    is_wanted: impl Fn(FileType) -> bool,
) -> io::Result<Vec<String>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = openat(at.0, at.1, flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let kind = match entry.file_type() {
            // Some file systems do not report the type.
            FileType::Unknown => match statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                found => FileType::from_raw_mode(found?.st_mode),
            },
            kind => kind,
        };
        if let (true, Ok(name)) = (is_wanted(kind), name.to_str())
            && ![".", ".."].contains(&name)
        {
            names.push(name.to_string());
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::Locked;
    use crate::disk::in_child;
    use std::cell::RefCell;
    use std::fs::File;

    #[test]
    fn a_lock_is_released_by_its_holder_despite_copies_of_its_descriptor() {
        let name = format!("firndb-lock-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let lock = || Locked::new(File::create(&path).unwrap());
        let held = RefCell::new(Some(lock().unwrap()));
        // A program that another thread is starting has such a copy.
        let copy = held.borrow().as_ref().map(|held| held.file.try_clone().unwrap());
        let drop_it = || {
            held.take();
            true
        };
        assert!(in_child(drop_it));
        assert!(lock().is_err(), "a child released the lock of its parent");
        held.take();
        lock().unwrap();
        drop(copy);
        std::fs::remove_file(path).unwrap();
    }
}
