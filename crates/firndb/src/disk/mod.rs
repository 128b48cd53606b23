//! The one door to the disk, and the law behind it: **no byte is written twice**.
//!
//! A file grows at its end under a temporary name, is synced, and gets its name by a rename
//! ([`publish`]). From then on nobody changes or truncates it, so readers may map it, copy it or
//! hard-link it without asking anyone. Only this folder names `std::fs` and `mmap`; the rest of the
//! library is handed a [`DiskRef`], and tests hand it the simulated disk of `sim.rs`, which forgets
//! what was not synced. `docs/durability.md` numbers every sync and says what each is for.

mod write_behind;
mod dir;
mod direct;
mod writeback;
mod fork;
mod map;
mod os;
mod poison;
mod ring;
pub(crate) mod spool;
mod append_map;
mod unnamed;
#[cfg(test)]
mod hook_disk;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;

pub use append_map::AppendMode;
pub(crate) use append_map::{AppendMap, AppendMapWriter};
pub(crate) use direct::Direct;
pub(crate) use fork::ForkGuard;
#[cfg(test)]
pub(crate) use fork::in_child;
#[cfg(test)]
pub(crate) use hook_disk::HookDisk;
pub(crate) use map::{Map, Slab, Words};
#[cfg(test)]
pub(crate) use sim::{Fault, SimDisk};
pub(crate) use unnamed::remove_leftovers;
pub(crate) use write_behind::write_behind;

use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Everything FirnDB asks of a file system.
///
/// Every error names the file concerned. `Io` is a refusal of the operating system, and says
/// nothing about what is on disk: after a failed write, sync or rename only a reopen tells.
pub(crate) trait Disk: Send + Sync + fmt::Debug {
    /// Opens a directory, and gives a disk that finds the files in it through the open directory,
    /// whatever its path names later. Files elsewhere are found by their paths.
    fn hold(self: Arc<Self>, dir: &Path) -> Result<DiskRef>;
    /// `Failed` if the path of the directory of [`Disk::hold`] names another directory now.
    fn check_held(&self) -> Result<()>;
    /// Creates a directory and its missing parents, durably.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;
    /// Names of the regular files in a directory, sorted. Names that are not UTF-8 are not ours
    /// and are left out, and so are symbolic links.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// Names of the directories in a directory, sorted, as [`Disk::list`] names files.
    fn list_dirs(&self, dir: &Path) -> Result<Vec<String>>;
    /// Names of everything in a directory that neither [`Disk::list`] nor [`Disk::list_dirs`]
    /// names, sorted: links, pipes, names that are not UTF-8 (with replacement characters).
    fn list_others(&self, dir: &Path) -> Result<Vec<String>>;
    /// Which file or directory a path names, symbolic links followed.
    fn identity(&self, path: &Path) -> Result<FileId>;
    /// [`Disk::identity`] of a directory and of all directories above it, innermost first.
    fn lineage(&self, dir: &Path) -> Result<Vec<FileId>>;
    /// What a name is, without following it if it is a symbolic link.
    fn look(&self, path: &Path) -> Result<Entry>;
    /// The path behind a symbolic link, or behind a chain of them: `NotFound` if nothing is there.
    fn resolve(&self, path: &Path) -> Result<PathBuf>;
    /// When a file was written last, as the file system knows it.
    fn modified(&self, path: &Path) -> Result<SystemTime>;
    /// Creates a file that only grows: `AlreadyExists` if there is one. The file is locked for as
    /// long as the [`Append`] lives, so that [`Disk::lock`] can tell it from a leftover.
    fn create(&self, path: &Path) -> Result<Box<dyn Append>>;
    /// Creates a file in a directory that has no name there, with the mode 0600: to append to, and
    /// to read what was appended. It is gone with both handles, also when the process dies.
    fn create_unnamed(&self, dir: &Path) -> Result<(Box<dyn Append>, Box<dyn ReadAt>)>;
    /// Opens a file that was created before, to append to it: `NotFound` if there is none, `Locked`
    /// if somebody else is appending to it. A crash may have made anything of its end.
    fn reopen(&self, path: &Path) -> Result<Box<dyn Append>>;
    /// The bytes of a file that nobody appends to any more.
    fn map(&self, path: &Path) -> Result<Map>;
    /// Opens a file for reads at any place; somebody may be appending to it.
    fn open(&self, path: &Path) -> Result<Box<dyn ReadAt>>;
    /// Creates a file of this length whose space is reserved where the file system can do that:
    /// `AlreadyExists` if there is one, and an error without a file if the disk is full.
    fn create_append_map(
        &self,
        path: &Path,
        capacity: usize,
        mode: AppendMode,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)>;
    /// Opens a file made by [`Disk::create_append_map`] to append behind byte `end`, where zeros begin.
    fn open_append_map(
        &self,
        path: &Path,
        end: usize,
        mode: AppendMode,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)>;
    /// What [`AppendMode::Auto`] means for this file.
    fn append_mode(&self, path: &Path) -> Result<AppendMode>;
    /// Creates a file that takes this much space, whatever is in it. Not durable.
    fn create_filler(&self, path: &Path, length: u64) -> Result<()>;
    /// Gives a file a second name, in any directory: `AlreadyExists` if the name is taken.
    fn link(&self, from: &Path, to: &Path) -> Result<()>;
    /// Renames a file within a directory, replacing what was there.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file. Maps of it stay valid.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Makes the bytes of a file durable that somebody else has written.
    fn sync_file(&self, path: &Path) -> Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// Takes the lock of this file, creating it if missing: `Locked` if somebody else has it.
    /// Released when dropped or when the process dies; the file stays. In the directory of
    /// [`Disk::hold`] the directory is locked as well, so that removing the file gives nobody else
    /// the lock.
    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>>;
}

/// A lock that is held.
pub(crate) trait Lock: Send + Sync {
    /// `Failed` if the path of the lock, or of the directory held with it, names something else
    /// now. Then another writer may be at work at that path.
    fn check(&self) -> Result<()>;
}

/// A file or a directory, whatever its names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    /// The file system that it is on.
    pub(crate) device: u64,
    /// Its number there.
    pub(crate) inode: u64,
}

/// What a name in a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A regular file of this many bytes.
    File(u64),
    Dir,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device: opening it may wait, or do something.
    Other,
}

/// A disk, shared by everything that was opened on it.
pub(crate) type DiskRef = Arc<dyn Disk>;

/// A file that only grows. After a failed call every later one fails with `Failed`.
pub(crate) trait Append: Send {
    /// Appends all bytes. Not buffered: callers collect small pieces first.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Appends all bytes of a buffer and leaves an empty one, which may be another.
    fn append_piece(&mut self, piece: &mut Vec<u8>) -> Result<()> {
        self.append(piece)?;
        piece.clear();
        Ok(())
    }
    /// Asks the system to begin writing to the disk what was appended, so that a later sync finds
    /// less to wait for. Advice: nothing is promised, and what goes wrong the sync reports.
    fn begin_writing(&mut self) {}
    /// Makes everything appended so far durable; the name is another matter ([`Disk::sync_dir`]).
    fn sync(&mut self) -> Result<()>;
}

/// A file that is read at any place, by any number of threads.
pub(crate) trait ReadAt: Send + Sync {
    /// Fills `bytes` from byte `offset` on; `Corrupt` if the file ends before.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()>;
    /// Length of the file at this moment.
    fn len(&self) -> Result<u64>;
    /// The bytes of the file, once nothing is appended to it any more.
    fn map(&self) -> Result<Map>;
}

/// The disk of the operating system.
pub(crate) fn os() -> DiskRef {
    Arc::new(os::OsDisk::default())
}

/// Writes a file whole or not at all, and returns what `write` returns.
///
/// Until the rename the old file, if any, is untouched; after a return without error the new one
/// survives a power cut; after an error or a crash the name shows the old content or the new, never
/// a part. `Locked` if another process is publishing the same path. A temporary file that a crash
/// left behind is removed by the next publish of the same path.
pub(crate) fn publish<T>(
    disk: &dyn Disk,
    path: &Path,
    write: impl FnOnce(&mut dyn Append) -> Result<T>,
) -> Result<T> {
    let value = stage(disk, path, write, |_| path.to_path_buf())?;
    disk.sync_dir(parent(path))?;
    Ok(value)
}

/// [`publish`] without its last step, for several files that become visible together: each is whole
/// and durable, but its name is not until the caller syncs the directory. `name` chooses the final
/// name, in the directory of `working`, once the content is known.
pub(crate) fn stage<T>(
    disk: &dyn Disk,
    working: &Path,
    write: impl FnOnce(&mut dyn Append) -> Result<T>,
    name: impl FnOnce(&T) -> PathBuf,
) -> Result<T> {
    let path = temporary(working)?;
    let mut file = create_anew(disk, &path)?;
    // `file` outlives it: its lock keeps others from taking the temporary for a leftover.
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

/// What the name of a file ends with while it is written.
const TEMPORARY: &str = ".firndb-tmp";

/// The name under which `path` is written: `.NAME.firndb-tmp` beside it.
pub(crate) fn temporary(path: &Path) -> Result<PathBuf> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        Error::invalid("cannot write here: the path must end in a UTF-8 file name").in_file(path)
    })?;
    Ok(path.with_file_name(format!(".{name}{TEMPORARY}")))
}

/// The final name of a file that has this one while [`publish`] or [`stage`] writes it; `None` for
/// any other name.
pub(crate) fn written_as(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(TEMPORARY)
}

/// Whether a file of this name is one that [`publish`] or [`stage`] writes, or has left.
pub(crate) fn is_temporary(name: &str) -> bool {
    written_as(name).is_some()
}

/// Times that a temporary file is looked for that another writer has just renamed.
const LOOKS: usize = 10;

/// Creates a file, removing one that a crash left behind under this name. `AlreadyExists` if there
/// is anything but a file: a symbolic link is neither followed nor removed.
fn create_anew(disk: &dyn Disk, path: &Path) -> Result<Box<dyn Append>> {
    let is_own = |name: &String| path.file_name().is_some_and(|own| *own == **name);
    for _ in 0..LOOKS {
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

/// Where a path leads if its last part is a symbolic link.
pub(crate) fn follow(disk: &dyn Disk, path: &Path) -> Result<PathBuf> {
    match disk.look(path)? {
        Entry::Link => disk.resolve(path),
        _ => Ok(path.to_path_buf()),
    }
}

/// The directory that holds the name of `path`.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    }
}

/// The error of a read that goes past the end of a file.
fn cut(path: &Path, offset: u64, bytes: usize) -> Error {
    let message = format!("the file ends before the {bytes} bytes that should be here");
    Error::corrupt(message).at(offset).in_file(path)
}

/// The error of a lock that somebody else holds.
fn locked(path: &Path) -> Error {
    Error::new(
        ErrorKind::Locked,
        "somebody else is writing here: wait until that process or handle is done, or close it \
         (the lock goes with its process; removing the file would not help)",
    )
    .in_file(path)
}
