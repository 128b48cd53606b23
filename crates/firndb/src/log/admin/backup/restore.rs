//! Restore: a new store from a backup, in which no file is shared with the backup.

use super::copy::{copy, remove_if_there, same_bytes};
use super::manifest::{Manifest, UNFINISHED};
use super::{Sealed, check_apart, check_free, publish_unfinished, write_end};
use crate::disk::{self, Disk, DiskRef, Lock};
use crate::log::open::chain::Chain;
use crate::log::open::recovery::{Found, LOCK, look};
use crate::log::open::store::{LogStore, SEGMENT_MIN};
use crate::log::options::Options;
use crate::log::segments::hint_file as hint;
use crate::log::segments::segment::{file_name, number_of};
use crate::{Error, ErrorKind, Result};
use std::io;
use std::path::Path;

/// What a restore made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Keys in the new store.
    pub keys: u64,
    /// Records that were checked.
    pub records: u64,
    /// Segments that were copied.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl LogStore {
    /// Makes a new store in `to`, a directory that is new or empty, from the backup in `from`: any
    /// store that no process has open for writing. Every record of the backup is checked first, and
    /// every copy is compared with its original. No file is shared with the backup.
    ///
    /// The store is there as a whole and durable, or it cannot be opened: after an error its files
    /// are removed, and what an interrupted restore leaves says so when it is opened.
    /// `AlreadyExists` if there is something in `to`; `Corrupt`, with file and offset, if the
    /// backup is damaged; `Locked` if it is being made or written to.
    pub fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Restored> {
        Self::restore_on(&disk::os(), from.as_ref(), to.as_ref(), Options::default())
    }

    /// [`LogStore::restore`] on any disk.
    pub(crate) fn restore_on(
        disk: &DiskRef,
        from: &Path,
        to: &Path,
        options: Options,
    ) -> Result<Restored> {
        let options = Options { read_only: true, create: false, ..options };
        if !disk.list(from)?.iter().any(|name| number_of(name).is_some()) {
            let message = "there is no log store in this directory";
            return Err(Error::new(ErrorKind::NotFound, message).in_file(from));
        }
        check_apart(&**disk, from, to)?;
        check_free(&**disk, to)?;
        let _backup_stays = lock_if_possible(&**disk, from)?;
        let store = LogStore::open_on(disk.clone(), from, options.clone())?;
        let verified = store.verify()?;
        let Found { id, chain, .. } = look(disk, from, &options)?;
        let sealed = sealed_of(id, &chain, from)?;
        disk.create_dir_all(to)?;
        let _lock = disk.lock(&to.join(LOCK))?;
        check_free(&**disk, to)?;
        let filled = fill(&**disk, from, to, &chain, &sealed);
        let bytes = filled.inspect_err(|_| drop(clear(&**disk, to)))?;
        disk.remove(&to.join(UNFINISHED))?;
        disk.sync_dir(to)?;
        let segments = sealed.members.len() as u64;
        Ok(Restored { keys: store.len(), records: verified.records, segments, bytes })
    }
}

/// The segments of a store that are to be copied, with a new one behind them: where the backup's
/// own segment is empty, the new one stands in its place, with the next number. So the new store
/// never writes to a segment that has the number of the backup's own, and can be backed up into
/// the same directory.
fn sealed_of(store: u64, chain: &Chain, from: &Path) -> Result<Sealed> {
    let last = chain.last;
    let path = from.join(file_name(last.0));
    let (_, head) = chain.part(last.0, &path)?;
    let mut members = chain.members()?;
    if head.end == last.1 {
        members.pop();
    }
    let none_left = || Error::corrupt("there is no number for another segment").in_file(&path);
    let own = last.0.checked_add(1).ok_or_else(none_left)?;
    let live_bytes = head.link.live_bytes;
    Ok(Sealed { store, own, source: last, members, live_bytes, least: SEGMENT_MIN })
}

/// Copies everything into a directory of which `backup-unfinished.firn` says that there is no store
/// yet. Returns the bytes of the segments.
fn fill(disk: &dyn Disk, from: &Path, to: &Path, chain: &Chain, sealed: &Sealed) -> Result<u64> {
    publish_unfinished(disk, to, &Manifest::empty(sealed.store))?;
    disk.sync_dir(to)?;
    let mut bytes = 0;
    for &(number, _) in &sealed.members {
        bytes += copy_checked(disk, from, to, &file_name(number))?;
        if chain.hints.contains(&number) {
            copy_checked(disk, from, to, &hint::file_name(number))?;
        }
    }
    let end = sealed.write_own(disk, to)?;
    write_end(disk, to, sealed.store, (sealed.own, end))?;
    disk.sync_dir(to)?;
    Ok(bytes)
}

/// Copies a file and compares the copy with it. Returns its length.
fn copy_checked(disk: &dyn Disk, from: &Path, to: &Path, name: &str) -> Result<u64> {
    let (from, to) = (from.join(name), to.join(name));
    copy(disk, &from, &to)?;
    let length = disk.open(&from)?.len()?;
    if disk.open(&to)?.len()? == length && same_bytes(disk, &from, &to, length)? {
        return Ok(length);
    }
    let message = "the copy is not what was read: is the disk damaged, or was the backup changed?";
    Err(Error::corrupt(message).in_file(&to))
}

/// Removes what an attempt left, as far as that can be done.
fn clear(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let names = disk.list(dir)?;
    for name in names.iter().filter(|name| ![LOCK, UNFINISHED].contains(&name.as_str())) {
        disk.remove(&dir.join(name))?;
    }
    // As long as a segment may be there this must be there, too.
    disk.sync_dir(dir)?;
    remove_if_there(disk, &dir.join(UNFINISHED))?;
    disk.sync_dir(dir)?;
    remove_if_there(disk, &dir.join(LOCK))
}

/// Keeps writers away from a backup. On a disk that cannot be written to there are none.
fn lock_if_possible(disk: &dyn Disk, dir: &Path) -> Result<Option<Box<dyn Lock>>> {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match disk.lock(&dir.join(LOCK)) {
        Err(e) if matches!(e.io_kind(), Some(PermissionDenied | ReadOnlyFilesystem)) => Ok(None),
        lock => lock.map(Some),
    }
}
