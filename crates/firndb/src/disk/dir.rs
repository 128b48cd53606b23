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
    locked: Mutex<Weak<Locked>>,
}

/// An open file or directory that is locked.
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
    /// A lock goes with the last descriptor of the open file, and a program that another thread is
    /// just starting has them all until it runs. So to close the file is not enough. A forked child
    /// has the same lock, which is its parent's.
    fn drop(&mut self) {
        if self.process == std::process::id() {
            let _ = self.file.unlock();
        }
    }
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
    /// it. Within this one several may. `None` where directories cannot be locked.
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
            // NFS has no locks of directories.
            Err(TryLockError::Error(_)) => Ok(None),
        }
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

#[cfg(test)]
mod tests {
    use super::Locked;
    use crate::disk::in_child;
    use std::cell::RefCell;
    use std::fs::File;

    #[test]
    fn a_lock_goes_with_its_holder_and_not_with_copies_of_its_descriptor() {
        let name = format!("firndb-lock-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let lock = || Locked::new(File::create(&path).unwrap());
        let held = RefCell::new(Some(lock().unwrap()));
        // As a program has it that another thread is starting.
        let copy = held.borrow().as_ref().map(|held| held.file.try_clone().unwrap());
        let drop_it = || {
            held.take();
            true
        };
        assert!(in_child(drop_it));
        assert!(lock().is_err(), "a child let go of its parent's lock");
        held.take();
        lock().unwrap();
        drop(copy);
        std::fs::remove_file(path).unwrap();
    }
}
