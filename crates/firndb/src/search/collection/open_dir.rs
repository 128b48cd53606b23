//! The open directory of a collection and the set that is open in it.
//!
//! The directory is held open: another directory may be moved to its path, and sets of the same
//! number may differ. So a collection compares the directory itself and the content ids of sets,
//! not paths and numbers, before it treats the open set as current.

use crate::disk::DiskRef;
use crate::search::collection::current::{self, OpenSet};
use crate::search::format::manifest;
use crate::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

/// An open set, and the directory that it is in.
pub(crate) struct OpenDir {
    /// Accesses the directory by its handle, also after it was moved.
    pub(crate) disk: DiskRef,
    pub(crate) set: OpenSet,
}

impl OpenDir {
    /// Opens the newest set in the directory that is at the path `dir` now. Shares what it has in
    /// common with `before`.
    pub(crate) fn newest(disk: &DiskRef, dir: &Path, before: Option<&OpenSet>) -> Result<OpenDir> {
        let disk = disk.clone().hold(dir)?;
        let number = current::newest_number(&disk, dir)?;
        let set = current::load(&disk, dir, number, before)?;
        Ok(OpenDir { disk, set })
    }

    /// Whether the directory is still at its path.
    pub(crate) fn is_at_path(&self) -> Result<bool> {
        match self.disk.check_held() {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::Failed => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Whether both have the same directory handle. Two handles of one directory count as
    /// different.
    pub(crate) fn is_same_dir(&self, other: &OpenDir) -> bool {
        Arc::ptr_eq(&self.disk, &other.disk)
    }

    /// The newest set, if it is not the open one; also if another directory is at the path.
    pub(crate) fn newer(&self, disk: &DiskRef, dir: &Path) -> Result<Option<OpenDir>> {
        if !self.is_at_path()? {
            return OpenDir::newest(disk, dir, Some(&self.set)).map(Some);
        }
        match self.last_consecutive_set(dir)? {
            Some(number) => self.load(dir, number),
            // A copy of a collection may have gaps in its numbers.
            None => self.load(dir, current::newest_number(&self.disk, dir)?),
        }
    }

    /// [`OpenDir::newer`] for a caller that holds the lock of this directory, so that no other
    /// process publishes or removes sets. Sets are removed in ascending order: if the open set
    /// still exists, the newest is the last of the consecutive numbers that follow it.
    pub(crate) fn newer_locked(&self, dir: &Path) -> Result<Option<OpenDir>> {
        if let Some(number) = self.last_consecutive_set(dir)? {
            return self.load(dir, number);
        }
        match self.content_of(dir, self.set.number) {
            Ok(content) if content == self.set.content => Ok(None),
            Ok(_) => self.load(dir, self.set.number),
            Err(_) => self.load(dir, current::newest_number(&self.disk, dir)?),
        }
    }

    /// The content id of the file of set `number`.
    fn content_of(&self, dir: &Path, number: u64) -> Result<u128> {
        manifest::content(&*self.disk, &dir.join(manifest::file_name(number)))
    }

    /// The last of the sets that follow the open one without a gap. Opening a file by name is
    /// cheaper than listing a large directory.
    fn last_consecutive_set(&self, dir: &Path) -> Result<Option<u64>> {
        let mut last = None;
        for next in self.set.number + 1.. {
            match self.disk.map(&dir.join(manifest::file_name(next))) {
                Ok(_) => last = Some(next),
                Err(e) if e.kind() == ErrorKind::NotFound => break,
                Err(e) => return Err(e),
            }
        }
        Ok(last)
    }

    /// Opens set `newest`; `None` if it is the open one. `Failed` if it is older.
    fn load(&self, dir: &Path, newest: u64) -> Result<Option<OpenDir>> {
        let (number, content) = (self.set.number, self.set.content);
        if newest == number && self.content_of(dir, number).is_ok_and(|found| found == content) {
            return Ok(None);
        }
        let set = current::load(&self.disk, dir, newest, Some(&self.set))?;
        if set.number < number {
            let message = format!(
                "the newest set here is number {}, but number {number} is open: older files were \
                 put in the place of newer ones; open the collection anew",
                set.number
            );
            return Err(Error::new(ErrorKind::Failed, message).in_file(dir));
        }
        Ok(Some(OpenDir { disk: self.disk.clone(), set }))
    }
}
