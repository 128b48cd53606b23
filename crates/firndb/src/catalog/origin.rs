//! Where a catalog keeps its objects: a directory, an object store, or anything else that can do
//! these few things.

use crate::{ErrorKind, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// A place of objects: names such as `flights/versions/00000000000000000001.json`, and bytes. An
/// object is created once and whole, never changed, and removed at last (but for one that is a mere
/// [`Origin::hint`]).
///
/// Calls block, and are made from any number of threads. What a catalog asks of an implementation:
/// - [`Origin::create`] is atomic: of two that create one object at the same time one wins. Nothing
///   else needs to be.
/// - What was created or removed is durable when the call returns.
/// - A list may be late, but by less than the grace of [`super::CleanOptions`]; a read may not.
/// - Errors have the kinds that the methods name; everything else, time-outs too, is `Io`, says
///   nothing about what happened, and may be tried again.
pub trait Origin: Send + Sync + fmt::Debug {
    /// Creates an object: `AlreadyExists` if there is one.
    fn create(&self, object: &str, bytes: &[u8]) -> Result<()>;

    /// Creates objects, those that are there already left alone: their names say what is in them.
    /// When it returns, each object has the length and the checksum that its [`Content`] states,
    /// and is a file of its own: no symbolic link. `NotFound` if what one is to be made of is gone,
    /// or (naming the file) is no longer what was stated: then there is no such object. `progress`
    /// is given the bytes of each object that are there, which may have taken no time.
    fn store(&self, objects: &[(String, Content<'_>)], progress: &dyn Fn(u64)) -> Result<()>;

    /// Puts a few bytes in the place of an object, or where there is none. Nothing relies on it: it
    /// may do nothing at all, as it does here, and of two at the same time either may win.
    fn hint(&self, _object: &str, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Reads up to `len` bytes from `offset` on; fewer only where the object ends. `NotFound` if
    /// there is no object.
    fn read(&self, object: &str, offset: u64, len: usize) -> Result<Vec<u8>>;

    /// The last parts of the names of the objects in a folder, sorted; none if there is no folder.
    fn list(&self, folder: &str) -> Result<Vec<String>>;

    /// The last parts of the names of the folders in a folder, sorted.
    fn list_folders(&self, folder: &str) -> Result<Vec<String>>;

    /// Removes objects; those that are gone already are no error.
    fn remove(&self, objects: &[String]) -> Result<()>;

    /// Whether each of these objects, which manifests name, is there with this many bytes. Here,
    /// one byte of each is read; one list may do.
    fn are_intact(&self, objects: &[(String, u64)]) -> Result<Vec<bool>> {
        let is_intact =
            |(object, bytes): &(String, u64)| match self.read(object, bytes.saturating_sub(1), 2) {
                Ok(end) => Ok(end.len() as u64 == 1.min(*bytes)),
                Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
                Err(e) => Err(e),
            };
        objects.iter().map(is_intact).collect()
    }

    /// The file that is the object, if it is one on this machine that may be hard-linked.
    fn file(&self, _object: &str) -> Option<PathBuf> {
        None
    }

    /// A reader begins to fetch the files of a version: what the origin allows itself for one
    /// version begins anew.
    fn begin(&self) {}

    /// Whether others wait for this object to be read here: then it should be read first, and not
    /// after one that is waited for itself.
    fn is_awaited(&self, _object: &str) -> bool {
        false
    }

    /// Is told that what it gave of an object is not what it should be. True if the bytes may come
    /// from elsewhere now, and are worth another attempt; not true for ever.
    fn reject(&self, _object: &str) -> bool {
        false
    }

    /// Removes what interrupted calls have left among the objects of a folder.
    fn sweep(&self, _folder: &str) -> Result<()> {
        Ok(())
    }
}

/// What an object is made of.
#[derive(Clone, Debug)]
pub enum Content<'a> {
    /// A regular file that should never change.
    File {
        /// Where it is; not a symbolic link.
        path: &'a Path,
        /// Its length.
        bytes: u64,
        /// BLAKE3 of its bytes: 64 hexadecimal digits.
        blake3: &'a str,
    },
    /// Another object of the same place.
    Object {
        /// Its name.
        from: String,
        /// Its length; an object of another length is `Corrupt`.
        bytes: u64,
    },
}

/// All of a small object, but no more than `limit` bytes.
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
