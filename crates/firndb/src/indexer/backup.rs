//! Backup: an index in another directory, made of hard links, while the index is in use.
//!
//! 1. `check_target`: the target is free, or has an earlier backup and nothing else.
//! 2. `LogStore::backup` makes the log in it; it refuses what is not a backup of this very log.
//! 3. `Change::link_all` gives the partitions of the collection a second name in that of the
//!    backup, or copies them, and one change publishes the set.
//!
//! Interrupted between 2 and 3 the backup has a log whose collection is missing or older: opening
//! it makes the collection again.

use super::{COLLECTION, Indexer, LOG};
use crate::disk::Disk;
use crate::log;
use crate::search::Collection;
use crate::{Error, ErrorKind, Result};
use std::path::Path;

/// What a backup did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backup {
    /// What was done for the log.
    pub log: log::Backup,
    /// Partitions of the collection.
    pub partitions: u64,
}

impl Indexer {
    /// Makes a backup in a directory: one that is new or empty, or one with an earlier backup of
    /// this index, which is brought up to date. It has everything that was taken before the call,
    /// published or not, and what is published; it is durable when this returns, and opens as any
    /// index. Files are hard links where that is possible, and copies elsewhere.
    ///
    /// `AlreadyExists`, and nothing is changed, if the directory has anything else in it, is inside
    /// of the index or around it, or has a backup that was opened and changed since. After any
    /// other error, and after a crash, the backup is the earlier one or the new one; its collection
    /// may be missing or older, and is made again when the backup is opened and published.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<Backup> {
        let to = to.as_ref();
        let disk = &self.disk;
        check_target(&**disk, &self.dir, to)?;
        let log = self.state.log.backup(to.join(LOG))?;
        let dir = to.join(COLLECTION);
        let copy = match Collection::open_on(disk.clone(), &dir) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                Collection::create_owned_on(disk.clone(), &dir)?
            }
            // It is made again, so damage in it does no harm.
            opened => opened?,
        };
        copy.mark()?;
        let mut change = copy.change_as_owner()?;
        change.link_all(&self.collection)?;
        change.commit()?;
        disk.sync_dir(to)?;
        Ok(Backup { log, partitions: self.collection.reader().partitions().len() as u64 })
    }
}

/// `AlreadyExists` unless the directory is free, or may have an earlier backup and nothing else.
fn check_target(disk: &dyn Disk, index: &Path, to: &Path) -> Result<()> {
    let refused = |message: String| Err(Error::new(ErrorKind::AlreadyExists, message).in_file(to));
    log::check_apart(disk, index, to)?;
    let mut names = match disk.list(to) {
        Err(e) if e.kind() == ErrorKind::NotFound => return disk.create_dir_all(to),
        names => names?,
    };
    names.extend(disk.list_dirs(to)?);
    names.extend(disk.list_others(to)?);
    // The log goes first: a collection without one is no backup.
    let known: &[&str] =
        if names.iter().any(|name| name == LOG) { &[LOG, COLLECTION] } else { &[] };
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => refused(format!(
            "there is `{name}`, which is no part of a backup of an index; name a new directory"
        )),
    }
}
