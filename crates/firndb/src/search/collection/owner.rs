//! The mark of a collection that belongs to an index.
//!
//! An index derives its collection from its log, so its next publication would overwrite a change
//! made by anything else. The file `owned-by-index` in the directory of the collection prevents
//! such changes; its content is a note for people. The index writes the mark when it opens its
//! collection and never removes it. A copy of the directory has the mark, too: to change the copy,
//! the user removes the file there. The mark is not part of a set, so partitions fetched from a
//! catalog are not marked.

use crate::disk::{self, DiskRef, Entry};
use crate::search::collection::LOCK;
use crate::{Error, ErrorKind, Result};
use std::path::Path;

/// The file name of the mark.
pub(crate) const MARK: &str = "owned-by-index";

const NOTE: &str = "This collection is made by an index, and must not be changed by anything else.
In a copy that is to be changed, remove this file.
";

/// The directory of the log of an index, next to its collection.
const LOG: &str = "log";

/// Fails with `InvalidArgument` if the collection in directory `dir` belongs to an index.
pub(crate) fn check_changeable(disk: &DiskRef, dir: &Path) -> Result<()> {
    match disk.look(&dir.join(MARK)) {
        Ok(Entry::File(_)) => Err(owned_error(disk, dir)),
        Ok(_) => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

fn owned_error(disk: &DiskRef, dir: &Path) -> Error {
    let real = disk.resolve(dir).unwrap_or_else(|_| dir.to_path_buf());
    let index = disk::parent(&real);
    let message = match disk.look(&index.join(LOG)) {
        Ok(Entry::Dir) => format!(
            "this is the collection of the index `{}`, which builds it from its feeds; only \
             the index may change it: `firn index apply` changes documents, `firn index \
             rebuild DIR --partitions N` the number of partitions",
            index.display()
        ),
        _ => format!(
            "this is the collection of an index, or a copy of one: change it by `firn index \
             apply`; if it is a copy, remove the file `{MARK}` in it first"
        ),
    };
    Error::invalid(message).in_file(dir)
}

/// Marks the collection in directory `dir` as owned by an index, unless it is marked already.
/// `Locked` if another process is changing it.
pub(crate) fn mark(disk: &DiskRef, dir: &Path) -> Result<()> {
    let mark = dir.join(MARK);
    match disk.look(&mark) {
        Ok(Entry::File(_)) => return Ok(()),
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    // Without the lock, a change that commits now would remove the temporary file as a leftover.
    let _lock = disk.lock(&dir.join(LOCK))?;
    disk::publish(&**disk, &mark, |out| out.append(NOTE.as_bytes()))
}
