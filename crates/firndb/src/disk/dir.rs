//! A directory that is held open, so that it stays the same one whatever its path names later.
//!
//! A writer that went on by path would write into, and remove from, whatever directory was moved to
//! that path. [`Held`] resolves the names of files in the directory relative to its descriptor, and
//! says when the path names another directory.

use crate::{Error, ErrorKind, Result};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, stat, statat};
use rustix::io::Errno;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{locked, parent};

/// An open directory.
#[derive(Debug)]
pub(super) struct Held {
    dir: File,
    path: PathBuf,
    /// The directory opened once more, and locked, while somebody holds the lock.
    locked: Mutex<Weak<File>>,
}

impl Held {
    pub(super) fn open(path: &Path) -> Result<Held> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, path, flags, Mode::empty());
        let dir = dir.map_err(|e| Error::io("open the directory", path, e.into()))?;
        Ok(Held { dir: dir.into(), path: path.into(), locked: Mutex::default() })
    }

    /// Its descriptor and the rest of the path, for a path that leads into it.
    pub(super) fn resolve<'a>(&'a self, path: &'a Path) -> Option<(BorrowedFd<'a>, &'a Path)> {
        if path == self.path {
            return Some((self.dir.as_fd(), Path::new(".")));
        }
        let name = path.file_name().filter(|_| parent(path) == self.path)?;
        Some((self.dir.as_fd(), Path::new(name)))
    }

    /// Locks the directory for as long as what is returned lives: `Locked` if another handle has
    /// it. Within this one several may.
    pub(super) fn lock(&self) -> Result<Arc<File>> {
        let mut locked_dir = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dir) = locked_dir.upgrade() {
            return Ok(dir);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(&self.dir, ".", flags, Mode::empty());
        let dir = dir.map_err(|e| Error::io("open the directory", &self.path, e.into()))?;
        let dir = Arc::new(File::from(dir));
        match dir.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(locked(&self.path)),
            // NFS has no locks of directories.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        *locked_dir = Arc::downgrade(&dir);
        Ok(dir)
    }

    /// `Failed` if its path names another directory now, or none.
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

/// The error of a directory or a lock that is no longer the one of its path.
pub(super) fn replaced(path: &Path) -> Error {
    let message = "this was moved, removed or replaced while it was open for writing: nothing \
                   more is written; open what is there now";
    Error::new(ErrorKind::Failed, message).in_file(path)
}

/// Whether two names lead to the same file.
pub(super) fn is_same(a: &Stat, b: &Stat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

/// The names of what is of this kind in a directory, sorted, without those that are not UTF-8.
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
            // Some file systems do not say.
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
