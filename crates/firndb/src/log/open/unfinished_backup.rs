//! What a manifest in the directory says about the files of a store: see
//! `format/backup_manifest.rs`.

use crate::bytes::frozen::{Frozen, Kind};
use crate::disk::Disk;
use crate::log::format::backup_manifest::Manifest;
use crate::log::format::names::{BACKUP, BACKUP_UNFINISHED};
use crate::log::format::segment_head::LogPosition;
use crate::{Error, Result};
use std::path::Path;

/// Reads a manifest.
pub(crate) fn read_manifest(disk: &dyn Disk, path: &Path) -> Result<Manifest> {
    let file = Frozen::open(disk.map(path)?, path, Kind::LogBackup)?;
    Manifest::decode(&file).map_err(|e| e.in_file(path))
}

/// Where the log of a backup ends that was not written to; `None` for other stores.
pub(crate) fn backup_end(disk: &dyn Disk, dir: &Path, names: &[String]) -> Option<LogPosition> {
    let is_backup = names.iter().any(|name| [BACKUP, BACKUP_UNFINISHED].contains(&name.as_str()));
    let manifest = is_backup.then(|| read_manifest(disk, &dir.join(BACKUP)))?;
    manifest.ok()?.own() // The next backup cannot use a damaged manifest either.
}

/// The names of a directory without the segments and hints that are not part of the store because a
/// backup into it was interrupted. If the caller holds the lock and is going to write, removes
/// these files, and the directory is an ordinary backup again.
///
/// `Corrupt` if it was the first backup, or a restore: then there is no store.
pub(crate) fn store_files(
    disk: &dyn Disk,
    dir: &Path,
    mut names: Vec<String>,
    read_only: bool,
) -> Result<Vec<String>> {
    if !names.iter().any(|name| name == BACKUP_UNFINISHED) {
        return Ok(names);
    }
    let path = dir.join(BACKUP_UNFINISHED);
    let manifest = read_manifest(disk, &path)?;
    if manifest.segments.is_empty() {
        let message = "a backup or a restore into this directory was interrupted before there was \
                       a store: back up into it again, or remove the directory and restore again";
        return Err(Error::corrupt(message).in_file(&path));
    }
    if !read_only {
        for name in names.iter().filter(|name| manifest.is_stale(name)) {
            disk.remove(&dir.join(name))?;
        }
        disk.sync_dir(dir)?;
        disk.rename(&path, &dir.join(BACKUP))?;
        disk.sync_dir(dir)?;
    }
    names.retain(|name| !manifest.is_stale(name));
    Ok(names)
}
