//! What a disk can do: the traits that the real and the simulated disk implement, and the errors
//! that both return.

use crate::disk::append_map::{AppendMap, AppendMapWriter, AppendMode};
use crate::disk::map::Map;
use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// The file system calls that FirnDB needs.
///
/// Every error names the file concerned. An `Io` error does not say what is on disk: after a failed
/// write, sync or rename, only reopening shows it.
pub(crate) trait Disk: Send + Sync + fmt::Debug {
    /// Opens a directory and returns a disk that resolves the names in it through the open
    /// descriptor, even if its path is renamed later. Files elsewhere are resolved by path.
    fn hold(self: Arc<Self>, dir: &Path) -> Result<DiskRef>;
    /// Returns `Failed` if the path of the directory passed to [`Disk::hold`] now names another
    /// directory.
    fn check_held(&self) -> Result<()>;
    /// Creates a directory and its missing parents, durably.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;
    /// Names of the regular files in a directory, sorted. Symbolic links and names that are not
    /// UTF-8 are skipped; FirnDB creates neither.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// Names of the directories in a directory, sorted, with the exceptions of [`Disk::list`].
    fn list_dirs(&self, dir: &Path) -> Result<Vec<String>>;
    /// Names of everything that [`Disk::list`] and [`Disk::list_dirs`] skip, sorted: links, pipes,
    /// names that are not UTF-8 (with replacement characters).
    fn list_others(&self, dir: &Path) -> Result<Vec<String>>;
    /// Identity of the file or directory that a path names; follows symbolic links.
    fn identity(&self, path: &Path) -> Result<FileId>;
    /// [`Disk::identity`] of a directory and of all its ancestors, innermost first.
    fn lineage(&self, dir: &Path) -> Result<Vec<FileId>>;
    /// Type of a directory entry; does not follow symbolic links.
    fn look(&self, path: &Path) -> Result<Entry>;
    /// Target of a symbolic link or of a chain of links; `NotFound` if the target does not exist.
    fn resolve(&self, path: &Path) -> Result<PathBuf>;
    /// Modification time of a file.
    fn modified(&self, path: &Path) -> Result<SystemTime>;
    /// Creates a file for appending: `AlreadyExists` if the name is taken. The file stays locked
    /// until the [`Append`] is dropped, so that [`Disk::lock`] can distinguish it from a leftover.
    fn create(&self, path: &Path) -> Result<Box<dyn Append>>;
    /// Creates a file without a name in a directory, with mode 0600, to append to it and to read
    /// the appended bytes back. It disappears with both handles, also when the process dies.
    fn create_unnamed(&self, dir: &Path) -> Result<(Box<dyn Append>, Box<dyn ReadAt>)>;
    /// Opens an existing file for appending: `NotFound` if there is none, `Locked` if another
    /// handle appends to it. After a crash, the tail of the file may hold anything.
    fn reopen(&self, path: &Path) -> Result<Box<dyn Append>>;
    /// Maps a file that is no longer appended to.
    fn map(&self, path: &Path) -> Result<Map>;
    /// Opens a file for positioned reads; it may still be appended to.
    fn open(&self, path: &Path) -> Result<Box<dyn ReadAt>>;
    /// Creates a file of fixed length, with its space reserved where the file system can do that:
    /// `AlreadyExists` if the name is taken. If the disk is full, no file is left behind.
    fn create_append_map(
        &self,
        path: &Path,
        capacity: usize,
        mode: AppendMode,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)>;
    /// Opens a file made by [`Disk::create_append_map`] to append at byte `end`, where the zeros
    /// begin.
    fn open_append_map(
        &self,
        path: &Path,
        end: usize,
        mode: AppendMode,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)>;
    /// The mode that [`AppendMode::Auto`] selects for this file.
    fn append_mode(&self, path: &Path) -> Result<AppendMode>;
    /// Creates a file that occupies `length` bytes of disk space. Its content is arbitrary, and it
    /// is not durable.
    fn create_filler(&self, path: &Path, length: u64) -> Result<()>;
    /// Creates a hard link, in any directory: `AlreadyExists` if the name is taken.
    fn link(&self, from: &Path, to: &Path) -> Result<()>;
    /// Renames a file within its directory, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file. Existing maps of it stay valid.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Makes the bytes of a file durable that another handle has written.
    fn sync_file(&self, path: &Path) -> Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// Locks a file, which is created if missing: `Locked` if another handle holds the lock. The
    /// lock is released when dropped or when the process dies; the file stays. In the directory
    /// passed to [`Disk::hold`] the directory itself is locked as well, so that removing the file
    /// does not let a second writer in.
    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>>;
}

/// A lock that is held until dropped.
pub(crate) trait Lock: Send + Sync {
    /// Returns `Failed` if the path of the lock, or of the directory held with it, now names
    /// something else. Another writer may then be active at that path.
    fn check(&self) -> Result<()>;
}

/// Identity of a file or directory, independent of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    /// The file system.
    pub(crate) device: u64,
    /// The number of the file on it.
    pub(crate) inode: u64,
}

/// Type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A regular file and its length in bytes.
    File(u64),
    Dir,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device. Opening it may block or have side effects.
    Other,
}

/// A shared disk.
pub(crate) type DiskRef = Arc<dyn Disk>;

/// A file that is appended to. After a failed call, every later one fails with `Failed`.
pub(crate) trait Append: Send {
    /// Appends all bytes. Not buffered: callers collect small pieces first.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Appends all bytes of a buffer and leaves it empty; it may be swapped for another buffer.
    fn append_piece(&mut self, piece: &mut Vec<u8>) -> Result<()> {
        self.append(piece)?;
        piece.clear();
        Ok(())
    }
    /// Starts writing the appended bytes to the device, so that a later sync has less to wait for.
    /// A hint without any promise; the next sync reports failed writes.
    fn begin_writing(&mut self) {}
    /// Makes all appended bytes durable, but not the file's name (see [`Disk::sync_dir`]).
    fn sync(&mut self) -> Result<()>;
}

/// A file for positioned reads from any number of threads.
pub(crate) trait ReadAt: Send + Sync {
    /// Fills `bytes` from byte `offset` on; `Corrupt` if the file is too short.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()>;
    /// Current length of the file.
    fn len(&self) -> Result<u64>;
    /// Maps the file, which must no longer be appended to.
    fn map(&self) -> Result<Map>;
}

impl Map {
    /// Copies a part of a file into memory, in huge pages where the system has them, so that random
    /// reads rarely miss the TLB.
    pub(crate) fn resident(file: &dyn ReadAt, offset: u64, len: u64) -> Result<Map> {
        if len == 0 {
            return Ok(Map::from_vec(Vec::new()));
        }
        // Checked before the allocation, since a corrupt file may claim any length.
        if offset.checked_add(len).is_none_or(|end| file.len().is_ok_and(|length| end > length)) {
            return Err(Error::corrupt(format!(
                "{len} bytes from {offset} on are not in the file"
            )));
        }
        Map::copy_of(len as usize, |at, piece| file.read_at(offset + at, piece))
    }
}

/// The error of a read beyond the end of a file.
pub(super) fn cut(path: &Path, offset: u64, bytes: usize) -> Error {
    let message = format!("the file ends before the {bytes} bytes that should be here");
    Error::corrupt(message).at(offset).in_file(path)
}

/// The error of a lock that another handle holds.
pub(super) fn locked(path: &Path) -> Error {
    Error::new(
        ErrorKind::Locked,
        "another process or handle is writing here: wait until it is done, or close it (the lock \
         is released when its process ends; removing the file does not help)",
    )
    .in_file(path)
}

/// The error of a directory or a lock file that is no longer the one that its path names.
pub(super) fn replaced(path: &Path) -> Error {
    let message = "this was moved, removed or replaced while it was open for writing: nothing \
                   more is written; open what is there now";
    Error::new(ErrorKind::Failed, message).in_file(path)
}
