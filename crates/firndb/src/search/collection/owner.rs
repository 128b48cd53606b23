//! The mark of a collection that belongs to an index.
//!
//! An index makes its collection from its log, so what others change there is lost, or stays wrong,
//! with the next publication. The file `owned-by-index` in the directory of the collection says
//! that; what is in it is a note for people. The index makes it when it opens its collection, and
//! nobody removes it: a copy of the directory has it, too, until somebody who wants to change the
//! copy removes it there. It is not part of a set, so what a catalog gives away is free.

use crate::disk::{self, DiskRef, Entry};
use crate::search::collection::LOCK;
use crate::{Error, ErrorKind, Result};
use std::path::Path;

/// The name of the mark.
pub(crate) const MARK: &str = "owned-by-index";

const NOTE: &str = "This collection is made by an index, and must not be changed by anything else.
In a copy that is to be changed, remove this file.
";

/// The directory beside the collection of an index in which its log is.
const LOG: &str = "log";

/// `InvalidArgument` if the collection in directory `dir` belongs to an index.
pub(crate) fn check_changeable(disk: &DiskRef, dir: &Path) -> Result<()> {
    match disk.look(&dir.join(MARK)) {
        Ok(Entry::File(_)) => Err(owned(disk, dir)),
        Ok(_) => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

fn owned(disk: &DiskRef, dir: &Path) -> Error {
    let real = disk.resolve(dir).unwrap_or_else(|_| dir.to_path_buf());
    let index = disk::parent(&real);
    let message = match disk.look(&index.join(LOG)) {
        Ok(Entry::Dir) => format!(
            "this is the collection of the index `{}`, which makes it from its feeds, and \
             nobody else may change it: `firn index apply` changes documents, `firn index \
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

/// Marks the collection in directory `dir` as that of an index, if it is not marked. `Locked` if
/// another process changes it.
pub(crate) fn mark(disk: &DiskRef, dir: &Path) -> Result<()> {
    let mark = dir.join(MARK);
    match disk.look(&mark) {
        Ok(Entry::File(_)) => return Ok(()),
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    // A change that ends now would take the file that is being written for a leftover.
    let _lock = disk.lock(&dir.join(LOCK))?;
    disk::publish(&**disk, &mark, |out| out.append(NOTE.as_bytes()))
}
