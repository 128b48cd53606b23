//! Publishing: a file appears under its name complete and durable, or not at all.

use crate::disk::paths::{parent, temporary};
use crate::disk::traits::{Append, Disk};
use crate::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Writes a file atomically and durably, and returns the result of `write`.
///
/// The old file, if any, is untouched until the rename. After success, the new file survives power
/// loss. After an error or a crash, the name shows either the old content or the new, never a part
/// of it. `Locked` if another process is publishing the same path. The next publish of the same
/// path removes a temporary file left behind by a crash.
pub(crate) fn publish<T>(
    disk: &dyn Disk,
    path: &Path,
    write: impl FnOnce(&mut dyn Append) -> Result<T>,
) -> Result<T> {
    let value = stage(disk, path, write, |_| path.to_path_buf())?;
    disk.sync_dir(parent(path))?;
    Ok(value)
}

/// [`publish`] without its last step, for several files that become visible together: each file is
/// complete and durable, but its name is not until the caller syncs the directory. `name` chooses
/// the final name, in the directory of `working`, once the content is known.
pub(crate) fn stage<T>(
    disk: &dyn Disk,
    working: &Path,
    write: impl FnOnce(&mut dyn Append) -> Result<T>,
    name: impl FnOnce(&T) -> PathBuf,
) -> Result<T> {
    let path = temporary(working)?;
    let mut file = create_anew(disk, &path)?;
    // Dropped before `file`, whose lock keeps other writers from removing it as a leftover.
    let mut temporary = Temporary { disk, path: &path, renamed: false };
    let value = write(&mut *file)?;
    file.sync()?;
    disk.rename(&path, &name(&value))?;
    temporary.renamed = true;
    Ok(value)
}

/// Removes a temporary file after an error or a panic.
struct Temporary<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    renamed: bool,
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // Best effort: the first error is the one to report.
            let _ = self.disk.remove(self.path);
        }
    }
}

/// Number of attempts to create a temporary file while other writers rename theirs away.
const ATTEMPTS: usize = 10;

/// Creates a file, removing a leftover of a crash under this name. `AlreadyExists` if the name is
/// taken by anything but a file: symbolic links are neither followed nor removed.
pub(super) fn create_anew(disk: &dyn Disk, path: &Path) -> Result<Box<dyn Append>> {
    let is_own = |name: &String| path.file_name().is_some_and(|own| *own == **name);
    for _ in 0..ATTEMPTS {
        match disk.create(path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            created => return created,
        }
        if disk.list(parent(path))?.iter().any(is_own) {
            let leftover = disk.lock(path)?;
            disk.remove(path)?;
            drop(leftover);
        }
    }
    let message = "this is in the way and is no file that FirnDB left: move it away";
    Err(Error::new(ErrorKind::AlreadyExists, message).in_file(path))
}
