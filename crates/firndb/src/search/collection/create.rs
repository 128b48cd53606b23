//! Creating a collection, and taking that back.

use crate::disk::{self, DiskRef};
use crate::search::collection::owner::MARK;
use crate::search::collection::{Collection, LOCK};
use crate::search::format::manifest;
use crate::search::model::schema::Schema;
use crate::{Error, ErrorKind, Result};
use std::path::Path;

/// The set that a collection is created with. It is empty, and the next one is not its like.
const FIRST: u64 = 1;

impl Collection {
    /// Creates an empty collection in a directory that is new or empty.
    pub fn create(dir: impl AsRef<Path>) -> Result<Collection> {
        Self::create_on(disk::os(), dir.as_ref())
    }

    /// `AlreadyExists` unless [`Collection::create`] can make one in this directory.
    pub fn check_free(dir: impl AsRef<Path>) -> Result<()> {
        check_free_on(&disk::os(), dir.as_ref(), &[LOCK])
    }

    pub(crate) fn create_on(disk: DiskRef, dir: &Path) -> Result<Collection> {
        Self::create_beside(disk, dir, &[LOCK])
    }

    /// Creates the collection of an index. What it had there before is lost but for the mark.
    pub(crate) fn create_owned_on(disk: DiskRef, dir: &Path) -> Result<Collection> {
        Self::create_beside(disk, dir, &[LOCK, MARK])
    }

    /// Creates a collection in a directory that has nothing but files of these names.
    fn create_beside(disk: DiskRef, dir: &Path, ours: &[&str]) -> Result<Collection> {
        check_free_on(&disk, dir, ours)?; // Before there is a lock in somebody else's directory.
        disk.create_dir_all(dir)?;
        let held = disk.clone().hold(dir)?;
        let lock = held.lock(&dir.join(LOCK))?;
        check_free_on(&held, dir, ours)?;
        let publish = |_| lock.check();
        manifest::publish(&*held, (dir, FIRST), &[], &Schema::default(), publish)?;
        drop(lock);
        Self::open_on(disk, dir)
    }

    /// Takes back that the collection was created, with what changes left that failed, if nothing
    /// was published since; true if so. The directory stays, and so does what others put there.
    /// `Locked` if another process changes it.
    pub fn withdraw(self) -> Result<bool> {
        let opened = self.place();
        let change = self.change()?;
        // Another directory in its place is not the one that was created.
        if change.place.set.number != FIRST || !change.place.is_beside(&opened) {
            return Ok(false);
        }
        let disk = &change.place.disk;
        // A collection is there as long as its set is: so that goes behind what it would clean up.
        self.clean(disk, &change.place.set)?;
        disk.sync_dir(&self.dir)?;
        disk.remove(&self.dir.join(manifest::file_name(FIRST)))?;
        disk.sync_dir(&self.dir)?;
        disk.remove(&self.dir.join(LOCK))?;
        Ok(true)
    }
}

fn check_free_on(disk: &DiskRef, dir: &Path, ours: &[&str]) -> Result<()> {
    let mut names = match disk.list(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        names => names?,
    };
    names.extend(disk.list_dirs(dir)?);
    names.extend(disk.list_others(dir)?);
    let is_other = |name: &&String| !ours.contains(&name.as_str()) && !name.starts_with('.');
    let Some(name) = names.iter().find(is_other) else { return Ok(()) };
    let message = match names.iter().any(|name| manifest::number(name).is_some()) {
        true => "there is a collection already; open it instead".to_string(),
        false => format!("the directory is not empty: it has `{name}`; choose another one"),
    };
    Err(Error::new(ErrorKind::AlreadyExists, message).in_file(dir))
}
