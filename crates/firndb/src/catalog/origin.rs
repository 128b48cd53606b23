//! The object store interface of a catalog. Implemented by a directory, an object store, or any
//! other system with these operations.

use crate::{ErrorKind, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// A store of objects. An object has a name, such as `flights/versions/00000000000000000001.json`,
/// and bytes. It is created once as a whole, never modified, and finally removed; only objects
/// written by [`Origin::hint`] are replaced.
///
/// Calls block, and come from any number of threads. Requirements on an implementation:
/// - [`Origin::create`] is atomic: of several concurrent calls for one object, exactly one
///   succeeds. No other operation has to be atomic.
/// - Creations and removals are durable when the call returns.
/// - Reads are consistent. Lists may lag behind, but by less than [`super::CleanOptions::grace`].
/// - Errors have the kinds that the methods document. All other errors, timeouts included, have
///   kind `Io`; they leave the outcome open, and the call may be repeated.
pub trait Origin: Send + Sync + fmt::Debug {
    /// Creates an object. `AlreadyExists` if it exists.
    fn create(&self, object: &str, bytes: &[u8]) -> Result<()>;

    /// Stores objects. Existing objects are left alone, because their names identify their content.
    ///
    /// When this returns, each object has the length and hash stated in its [`Content`], and is a
    /// file of its own, not a symbolic link. `NotFound` if a source is missing or (with the file in
    /// the error) differs from what is stated; then its object does not exist. Calls `progress`
    /// with the length of each object that is stored, even if no transfer was needed.
    fn store(&self, objects: &[(String, Content<'_>)], progress: &dyn Fn(u64)) -> Result<()>;

    /// Writes a small object, replacing an existing one. Optional: correctness never depends on it,
    /// and the default implementation does nothing. Of several concurrent calls any may win.
    fn hint(&self, _object: &str, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Reads up to `len` bytes from `offset` on; returns fewer only at the end of the object.
    /// `NotFound` if the object does not exist.
    fn read(&self, object: &str, offset: u64, len: usize) -> Result<Vec<u8>>;

    /// Lists the last parts of the names of the objects in a folder, sorted. Empty for a missing
    /// folder.
    fn list(&self, folder: &str) -> Result<Vec<String>>;

    /// Lists the last parts of the names of the folders in a folder, sorted.
    fn list_folders(&self, folder: &str) -> Result<Vec<String>>;

    /// Removes objects. Missing objects are not an error.
    fn remove(&self, objects: &[String]) -> Result<()>;

    /// Checks for each of these objects whether it exists with this length. The default
    /// implementation reads one byte of each; implementations may use a list instead.
    fn are_intact(&self, objects: &[(String, u64)]) -> Result<Vec<bool>> {
        let is_intact =
            |(object, bytes): &(String, u64)| match self.read(object, bytes.saturating_sub(1), 2) {
                Ok(end) => Ok(end.len() as u64 == 1.min(*bytes)),
                Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
                Err(e) => Err(e),
            };
        objects.iter().map(is_intact).collect()
    }

    /// The path of the object, if it is a file on this machine that may be hard-linked.
    fn file(&self, _object: &str) -> Option<PathBuf> {
        None
    }

    /// Called when a reader begins to fetch the files of a version. Resets limits that the origin
    /// applies per version.
    fn begin(&self) {}

    /// Whether other machines wait for this reader to fetch the object. Such objects are fetched
    /// first, and before objects that this reader waits for.
    fn is_awaited(&self, _object: &str) -> bool {
        false
    }

    /// Reports that the bytes of an object were wrong. Returns whether another attempt may get them
    /// from another source. Must not return `true` indefinitely.
    fn reject(&self, _object: &str) -> bool {
        false
    }

    /// Removes leftovers of interrupted calls from a folder.
    fn sweep(&self, _folder: &str) -> Result<()> {
        Ok(())
    }
}

/// The source of an object.
#[derive(Clone, Debug)]
pub enum Content<'a> {
    /// A regular file that is never modified.
    File {
        /// Path of the file; not a symbolic link.
        path: &'a Path,
        /// Length in bytes.
        bytes: u64,
        /// BLAKE3 of the bytes: 64 hexadecimal digits.
        blake3: &'a str,
    },
    /// Another object of the same origin.
    Object {
        /// Name of the object.
        from: String,
        /// Length in bytes. An object of another length is `Corrupt`.
        bytes: u64,
    },
}

/// Reads a small object completely, but at most `limit` bytes.
pub(super) fn read_whole(origin: &dyn Origin, object: &str, limit: usize) -> Result<Vec<u8>> {
    const PIECE: usize = 1 << 22;
    let mut bytes = Vec::new();
    loop {
        let piece = origin.read(object, bytes.len() as u64, PIECE.min(limit - bytes.len()))?;
        bytes.extend_from_slice(&piece);
        if piece.len() < PIECE || bytes.len() >= limit {
            return Ok(bytes);
        }
    }
}
