//! Where a backup may go: the checks before anything is written.
//!
//! A directory that is new or empty, or one with a backup of the same store to which nothing was
//! written since. Anything else is left unchanged: `AlreadyExists`.

use crate::disk::{Disk, parent, written_as};
use crate::log::admin::backup::copy::same_bytes;
use crate::log::format::backup_manifest::Manifest;
use crate::log::format::names::{
    BACKUP, BACKUP_UNFINISHED, LOCK, is_known, segment_file, segment_or_hint_number,
};
use crate::log::format::segment_head::{HEADER, LogPosition, SegmentHead, SegmentHeader, scan};
use crate::log::open::unfinished_backup::read_manifest;
use crate::log::segments::segment::Segment;
use crate::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

/// Advice in error messages.
const INSTEAD: &str = "choose a directory that is new or empty";

pub(crate) fn refused(what: &str, dir: &Path) -> Error {
    let message = format!("{what}: nothing was changed; {INSTEAD}");
    Error::new(ErrorKind::AlreadyExists, message).in_file(dir)
}

/// `AlreadyExists` if the directories are the same or one is inside of the other, by any path. `to`
/// need not exist.
pub(crate) fn check_apart(disk: &dyn Disk, store: &Path, to: &Path) -> Result<()> {
    let own = disk.lineage(store)?;
    let mut nearest = to;
    let there = loop {
        match disk.lineage(nearest) {
            Err(e) if e.kind() == ErrorKind::NotFound && parent(nearest) != nearest => {
                nearest = parent(nearest);
            }
            found => break found?,
        }
    };
    let missing = to.strip_prefix(nearest).unwrap_or(to);
    if missing.components().any(|part| part == Component::ParentDir) {
        return Err(refused("the path has `..` behind a directory that is not there", to));
    }
    let exists = nearest == to;
    if exists && own.first() == there.first() {
        return Err(refused("this is the directory of the store itself", to));
    }
    if own.first().is_some_and(|own| there.contains(own)) {
        return Err(refused("this is inside of the store's own directory", to));
    }
    if exists && there.first().is_some_and(|there| own.contains(there)) {
        return Err(refused("the store is inside of this directory", to));
    }
    Ok(())
}

/// What a directory contains.
pub(crate) enum Target {
    /// Nothing, or the directory does not exist.
    Free,
    Backup(ExistingBackup),
}

/// A backup that was made before.
pub(crate) struct ExistingBackup {
    pub(crate) manifest: Manifest,
    /// The names of all files in the directory.
    names: Vec<String>,
    /// Whether an update was interrupted.
    is_unfinished: bool,
}

/// Examines a directory. `AlreadyExists` if it is neither free nor a backup of this store.
pub(crate) fn look(disk: &dyn Disk, store: u64, dir: &Path) -> Result<Target> {
    let Some(names) = names(disk, dir)? else { return Ok(Target::Free) };
    if is_free(disk, dir, &names)? {
        return Ok(Target::Free);
    }
    let is_unfinished = names.iter().any(|name| name == BACKUP_UNFINISHED);
    let file = if is_unfinished { BACKUP_UNFINISHED } else { BACKUP };
    if !names.iter().any(|name| name == file) {
        return Err(match names.iter().any(|name| segment_or_hint_number(name).is_some()) {
            true => refused("this is a log store, not a backup of the store", dir),
            false => foreign(&names[0], dir),
        });
    }
    let manifest = read_manifest(disk, &dir.join(file))?;
    if manifest.store != store {
        return Err(refused("this is a backup of another store", dir));
    }
    Ok(Target::Backup(ExistingBackup { manifest, names, is_unfinished }))
}

/// `AlreadyExists` unless the directory is free for a new store.
pub(crate) fn check_free(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let Some(names) = names(disk, dir)? else { return Ok(()) };
    if is_free(disk, dir, &names)? {
        return Ok(());
    }
    if names.iter().any(|name| name == BACKUP_UNFINISHED) {
        let message = "a backup or a restore into this directory was interrupted: remove the \
                       directory, or choose another one";
        return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(dir));
    }
    Err(foreign(&names[0], dir))
}

/// The names in a directory, if it exists. `AlreadyExists` if it contains foreign files, or if it
/// is a file.
fn names(disk: &dyn Disk, dir: &Path) -> Result<Option<Vec<String>>> {
    let names = match disk.list(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let name = dir.file_name().unwrap_or_default().to_string_lossy();
            let beside = disk.list_others(parent(dir)).unwrap_or_default();
            return match beside.iter().any(|other| *other == name) {
                true => Err(refused("this is a link that leads nowhere", dir)),
                false => Ok(None),
            };
        }
        Err(e) if e.io_kind() == Some(io::ErrorKind::NotADirectory) => {
            return Err(refused("this is not a directory", dir));
        }
        names => names?,
    };
    let dirs = disk.list_dirs(dir)?;
    let others = disk.list_others(dir)?;
    let unknown = names.iter().filter(|name| !is_known(name));
    if let Some(name) = unknown.chain(&dirs).chain(&others).next() {
        return Err(foreign(name, dir));
    }
    Ok(Some(names))
}

fn foreign(name: &str, dir: &Path) -> Error {
    refused(&format!("the directory is not empty: it has `{name}`"), dir)
}

/// Whether there is nothing except files that the first steps of an interrupted backup leave.
fn is_free(disk: &dyn Disk, dir: &Path, names: &[String]) -> Result<bool> {
    for name in names {
        let is_empty_lock = || Ok(name == LOCK && disk.open(&dir.join(name))?.len()? == 0);
        if written_as(name) != Some(BACKUP_UNFINISHED) && !is_empty_lock()? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl ExistingBackup {
    /// Whether the backup has this file, the segment or the hint of one that it lists.
    pub(crate) fn lists(&self, name: &str) -> bool {
        self.has(name) && self.manifest.lists(name)
    }

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|there| there == name)
    }

    /// `AlreadyExists` if the backup was written to since it was made, or if the store, whose log
    /// ends at `position`, did not continue from its state at that time. Returns the numbers of
    /// segments that are copies of the store's files, not links.
    pub(crate) fn check(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        segments: &[Arc<Segment>],
        position: LogPosition,
    ) -> Result<BTreeSet<u64>> {
        let manifest = &self.manifest;
        let mut copies = BTreeSet::new();
        let Some((own, end)) = manifest.own() else { return Ok(copies) };
        let written = |what: String| {
            refused(&format!("this backup was written to since it was made ({what})"), dir)
        };
        let ends: BTreeMap<u64, &Segment> = segments.iter().map(|s| (s.number, &**s)).collect();
        if manifest.source > position || ends.contains_key(&own) {
            let what = "this is a backup of a copy of this store that was used by itself, or the \
                        store was put back to an older state";
            return Err(refused(what, dir));
        }
        let is_new =
            |name: &&String| segment_or_hint_number(name).is_some() && !manifest.lists(name);
        if let Some(name) = self.names.iter().find(is_new).filter(|_| !self.is_unfinished) {
            return Err(written(format!("it has `{name}`")));
        }
        for (&number, &end) in &manifest.segments {
            let name = segment_file(number);
            if !self.has(&name) {
                return Err(written(format!("`{name}` is gone")));
            }
            let path = dir.join(&name);
            check_head(disk, &path, manifest.store, number, end)?;
            let Some(segment) = ends.get(&number) else { continue };
            if disk.identity(&path)? == disk.identity(&segment.path)? {
                continue;
            }
            if !same_bytes(disk, &path, &segment.path, end)? {
                let what = format!(
                    "`{name}` is not as in the store: the backup was damaged or \
                                    changed, or is of a copy of this store"
                );
                return Err(refused(&what, dir));
            }
            copies.insert(number);
        }
        match is_untouched(disk, &dir.join(segment_file(own)), (own, end))? {
            true => Ok(copies),
            false => Err(written(format!("`{}` has records", segment_file(own)))),
        }
    }
}

/// `Corrupt` if this is not the segment that a backup should have.
fn check_head(disk: &dyn Disk, path: &Path, store: u64, number: u64, end: u64) -> Result<()> {
    let file = disk.open(path)?;
    let mut head = [0; HEADER];
    file.read_at(0, &mut head)?;
    let header = SegmentHeader::decode(&head).map_err(|e| e.in_file(path))?;
    let is_it = (header.store, header.number) == (store, number);
    if is_it && header.capacity == file.len()? && end <= header.capacity {
        return Ok(());
    }
    let message = "this is not the segment that was backed up: choose another directory";
    Err(Error::corrupt(message).in_file(path))
}

/// Whether a backup's own segment is as it was made: its head, then zeros.
fn is_untouched(disk: &dyn Disk, path: &Path, (number, end): LogPosition) -> Result<bool> {
    let map = disk.map(path)?;
    let head = SegmentHead::decode(&map, map.len() as u64, number).map_err(|e| e.in_file(path))?;
    let records = scan(&map, &head.header, head.end, |_, _, _| Ok(()))?;
    let rest = map.get(end as usize..).unwrap_or(&[]);
    Ok(head.end == end && records == end && rest.iter().all(|&byte| byte == 0))
}
