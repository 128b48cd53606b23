//! Backup of an index into another directory, by hard links, while the index is in use.
//!
//! The log is backed up before the collection. A crash in between leaves a backup whose collection
//! is missing or older than its log; opening the backup rebuilds the collection.

use super::{COLLECTION, Indexer, LOG};
use crate::disk::Disk;
use crate::log;
use crate::search::Collection;
use crate::{Error, ErrorKind, Result};
use std::path::Path;

/// The result of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// The result for the log.
    pub log: log::Backup,
    /// Partitions of the collection.
    pub partitions: u64,
}

/// See [`Indexer::backup`].
pub(super) fn backup(indexer: &Indexer, to: &Path) -> Result<Backup> {
    let disk = &indexer.disk;
    check_target(&**disk, &indexer.dir, to)?;
    let log = indexer.state.log.backup(to.join(LOG))?;
    let dir = to.join(COLLECTION);
    let copy = match Collection::open_on(disk.clone(), &dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            Collection::create_owned_on(disk.clone(), &dir)?
        }
        opened => opened?,
    };
    copy.mark()?;
    let mut change = copy.change_as_owner()?;
    change.link_all(&indexer.collection)?;
    change.commit()?;
    disk.sync_dir(to)?;
    Ok(Backup { log, partitions: indexer.collection.reader().partitions().len() as u64 })
}

/// `AlreadyExists` unless the directory is free, or may contain an earlier backup and nothing else.
fn check_target(disk: &dyn Disk, index: &Path, to: &Path) -> Result<()> {
    let refused = |message: String| Err(Error::new(ErrorKind::AlreadyExists, message).in_file(to));
    log::check_apart(disk, index, to)?;
    let mut names = match disk.list(to) {
        Err(e) if e.kind() == ErrorKind::NotFound => return disk.create_dir_all(to),
        names => names?,
    };
    names.extend(disk.list_dirs(to)?);
    names.extend(disk.list_others(to)?);
    // A backup always has a log, because the log is backed up first.
    let known: &[&str] =
        if names.iter().any(|name| name == LOG) { &[LOG, COLLECTION] } else { &[] };
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => refused(format!(
            "there is `{name}`, which is no part of a backup of an index; name a new directory"
        )),
    }
}
