//! The directory in which a collection is open, and which set of it.
//!
//! The directory is held open: another one may be moved to its path, and sets of the same number
//! may differ. So a handle compares the directory itself and the content id of the set, not names
//! and numbers, before it takes what it has open for what is there.

use crate::disk::DiskRef;
use crate::search::collection::current::{self, OpenSet};
use crate::search::format::manifest;
use crate::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

/// A set that is open, and the directory that it is in.
pub(crate) struct OpenDir {
    /// Finds the files of the directory, also after it was moved.
    pub(crate) disk: DiskRef,
    pub(crate) set: OpenSet,
}

impl OpenDir {
    /// Opens the newest set in the directory that `dir` names now. What `before` has of it is
    /// shared.
    pub(crate) fn newest(disk: &DiskRef, dir: &Path, before: Option<&OpenSet>) -> Result<OpenDir> {
        let disk = disk.clone().hold(dir)?;
        let number = current::newest_number(&disk, dir)?;
        let set = current::load(&disk, dir, number, before)?;
        Ok(OpenDir { disk, set })
    }

    /// Whether the path of the directory still names it.
    pub(crate) fn is_there(&self) -> Result<bool> {
        match self.disk.check_held() {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::Failed => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Whether two sets were found in one directory. The same one that was opened twice does not
    /// count.
    pub(crate) fn is_beside(&self, other: &OpenDir) -> bool {
        Arc::ptr_eq(&self.disk, &other.disk)
    }

    /// What is to be open instead, if there is a newer set or another directory.
    pub(crate) fn next(&self, disk: &DiskRef, dir: &Path) -> Result<Option<OpenDir>> {
        if !self.is_there()? {
            return OpenDir::newest(disk, dir, Some(&self.set)).map(Some);
        }
        match self.next_sets(dir)? {
            Some(number) => self.load(dir, number),
            // Whoever copies a collection may leave numbers out.
            None => self.load(dir, current::newest_number(&self.disk, dir)?),
        }
    }

    /// [`OpenDir::next`] for a caller who has the lock of this directory. So nobody publishes or
    /// removes a set: sets are removed in ascending order, so the newest is the one at which a row
    /// of numbers ends that begins with one that is there.
    pub(crate) fn next_locked(&self, dir: &Path) -> Result<Option<OpenDir>> {
        if let Some(number) = self.next_sets(dir)? {
            return self.load(dir, number);
        }
        match self.content_of(dir, self.set.number) {
            Ok(content) if content == self.set.content => Ok(None),
            Ok(_) => self.load(dir, self.set.number),
            Err(_) => self.load(dir, current::newest_number(&self.disk, dir)?),
        }
    }

    fn content_of(&self, dir: &Path, number: u64) -> Result<u128> {
        manifest::content(&*self.disk, &dir.join(manifest::file_name(number)))
    }

    /// The last of the sets that follow the current one without a gap: asking for a file is cheaper
    /// than listing a directory of many.
    fn next_sets(&self, dir: &Path) -> Result<Option<u64>> {
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
