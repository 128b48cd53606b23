//! Restore: a new store from a backup, which shares no file with the backup.

use crate::disk::{Disk, DiskRef, Lock};
use crate::log::admin::backup::copy::{copy, same_bytes};
use crate::log::admin::backup::sealed::{SealedSegments, publish_unfinished, write_end};
use crate::log::admin::backup::target::{check_apart, check_free};
use crate::log::format::backup_manifest::Manifest;
use crate::log::format::names::{BACKUP_UNFINISHED, LOCK, hint_file, segment_file, segment_number};
use crate::log::open::chain::Chain;
use crate::log::open::recovery::{LogFiles, find_log};
use crate::log::open::store::LogStore;
use crate::log::options::Options;
use crate::log::segments::reserve::remove_if_there;
use crate::log::segments::segment::SEGMENT_SMALL;
use crate::{Error, ErrorKind, Result};
use std::io;
use std::path::Path;

/// What a restore made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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

/// Makes a new store from a backup: see `LogStore::restore`.
pub(crate) fn restore(
    disk: &DiskRef,
    from: &Path,
    to: &Path,
    options: Options,
) -> Result<Restored> {
    let options = Options { read_only: true, create: false, ..options };
    if !disk.list(from)?.iter().any(|name| segment_number(name).is_some()) {
        let message = "there is no log store in this directory";
        return Err(Error::new(ErrorKind::NotFound, message).in_file(from));
    }
    check_apart(&**disk, from, to)?;
    check_free(&**disk, to)?;
    let _backup_stays = lock_if_possible(&**disk, from)?;
    let store = LogStore::open_on(disk.clone(), from, options.clone())?;
    let verified = store.verify()?;
    let LogFiles { id, chain, .. } = find_log(disk, from, &options)?;
    let sealed = sealed_of(id, &chain, from)?;
    disk.create_dir_all(to)?;
    let _lock = disk.lock(&to.join(LOCK))?;
    check_free(&**disk, to)?;
    let filled = fill(&**disk, from, to, &chain, &sealed);
    let bytes = filled.inspect_err(|_| drop(clear(&**disk, to)))?;
    disk.remove(&to.join(BACKUP_UNFINISHED))?;
    disk.sync_dir(to)?;
    let segments = sealed.members.len() as u64;
    Ok(Restored { keys: store.len(), records: verified.records, segments, bytes })
}

/// The segments that are copied, and a new one after them. If the backup's own segment is empty,
/// the new one replaces it, with the next number. So the new store never writes to a segment with
/// the number of the backup's own, and can be backed up into the same directory.
fn sealed_of(store: u64, chain: &Chain, from: &Path) -> Result<SealedSegments> {
    let last = chain.last;
    let path = from.join(segment_file(last.0));
    let (_, head) = chain.segment(last.0, &path)?;
    let mut members = chain.members()?;
    if head.end == last.1 {
        members.pop();
    }
    let none_left = || Error::corrupt("there is no number for another segment").in_file(&path);
    let own = last.0.checked_add(1).ok_or_else(none_left)?;
    let live_bytes = head.link.live_bytes;
    let (least, is_ordered) = (SEGMENT_SMALL, head.header.is_ordered);
    Ok(SealedSegments { store, own, source: last, members, live_bytes, least, is_ordered })
}

/// Copies everything into a directory in which `backup-unfinished.firn` says that there is no store
/// yet. Returns the bytes of the segments.
fn fill(
    disk: &dyn Disk,
    from: &Path,
    to: &Path,
    chain: &Chain,
    sealed: &SealedSegments,
) -> Result<u64> {
    publish_unfinished(disk, to, &Manifest::empty(sealed.store))?;
    disk.sync_dir(to)?;
    let mut bytes = 0;
    for &(number, _) in &sealed.members {
        bytes += copy_checked(disk, from, to, &segment_file(number))?;
        if chain.hints.contains(&number) {
            copy_checked(disk, from, to, &hint_file(number))?;
        }
    }
    let end = sealed.write_own(disk, to)?;
    write_end(disk, to, sealed.store, (sealed.own, end))?;
    disk.sync_dir(to)?;
    Ok(bytes)
}

/// Copies a file and compares the copy with the original. Returns its length.
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

/// Removes the files of a failed attempt, as far as possible.
fn clear(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let names = disk.list(dir)?;
    for name in names.iter().filter(|name| ![LOCK, BACKUP_UNFINISHED].contains(&name.as_str())) {
        disk.remove(&dir.join(name))?;
    }
    // The manifest must exist as long as a segment may.
    disk.sync_dir(dir)?;
    remove_if_there(disk, &dir.join(BACKUP_UNFINISHED))?;
    disk.sync_dir(dir)?;
    remove_if_there(disk, &dir.join(LOCK)).map(|_| ())
}

/// Excludes writers of a backup. On a read-only disk there are none.
fn lock_if_possible(disk: &dyn Disk, dir: &Path) -> Result<Option<Box<dyn Lock>>> {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match disk.lock(&dir.join(LOCK)) {
        Err(e) if matches!(e.io_kind(), Some(PermissionDenied | ReadOnlyFilesystem)) => Ok(None),
        lock => lock.map(Some),
    }
}
