//! Creates a collection, and undoes its creation.

use crate::disk::{self, DiskRef};
use crate::search::collection::owner::MARK;
use crate::search::collection::{Collection, LOCK};
use crate::search::format::manifest;
use crate::search::model::schema::Schema;
use crate::{Error, ErrorKind, Result};
use std::path::Path;

/// The number of the empty set that a collection is created with. Changes publish larger numbers.
const FIRST_SET: u64 = 1;

impl Collection {
    /// Creates an empty collection in a directory that is missing or empty. `AlreadyExists` if the
    /// directory has files.
    pub fn create(dir: impl AsRef<Path>) -> Result<Collection> {
        Self::create_on(disk::os(), dir.as_ref())
    }

    /// Fails with `AlreadyExists` if [`Collection::create`] would fail because of what is in the
    /// directory.
    pub fn check_free(dir: impl AsRef<Path>) -> Result<()> {
        check_free_on(&disk::os(), dir.as_ref(), &[LOCK])
    }

    pub(crate) fn create_on(disk: DiskRef, dir: &Path) -> Result<Collection> {
        Self::create_among(disk, dir, &[LOCK])
    }

    /// Creates the collection of an index. The directory may have the mark of an earlier
    /// collection.
    pub(crate) fn create_owned_on(disk: DiskRef, dir: &Path) -> Result<Collection> {
        Self::create_among(disk, dir, &[LOCK, MARK])
    }

    /// Creates a collection in a directory that has no files but those named in `allowed`.
    fn create_among(disk: DiskRef, dir: &Path, allowed: &[&str]) -> Result<Collection> {
        // Check before creating the lock file, so that a directory with other files stays
        // untouched.
        check_free_on(&disk, dir, allowed)?;
        disk.create_dir_all(dir)?;
        let held = disk.clone().hold(dir)?;
        let lock = held.lock(&dir.join(LOCK))?;
        check_free_on(&held, dir, allowed)?;
        let publish = |_| lock.check();
        manifest::publish(&*held, (dir, FIRST_SET), &[], &Schema::default(), publish)?;
        drop(lock);
        Self::open_on(disk, dir)
    }

    /// Undoes the creation of the collection if nothing was published since, and removes leftovers
    /// of failed changes. Returns true if it did. The directory stays, and so does everything in it
    /// that is not of the collection. `Locked` if another process is changing the collection.
    pub fn withdraw(self) -> Result<bool> {
        let opened = self.open_dir();
        let change = self.change()?;
        // Another directory at the path is not the one that was created.
        if change.base.set.number != FIRST_SET || !change.base.is_same_dir(&opened) {
            return Ok(false);
        }
        let disk = &change.base.disk;
        // The collection exists as long as its set file does, so the set file is removed after the
        // leftovers.
        self.clean(disk, &change.base.set)?;
        disk.sync_dir(&self.dir)?;
        disk.remove(&self.dir.join(manifest::file_name(FIRST_SET)))?;
        disk.sync_dir(&self.dir)?;
        disk.remove(&self.dir.join(LOCK))?;
        Ok(true)
    }
}

/// Fails with `AlreadyExists` if the directory has entries other than `allowed` and hidden ones.
fn check_free_on(disk: &DiskRef, dir: &Path, allowed: &[&str]) -> Result<()> {
    let mut names = match disk.list(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        names => names?,
    };
    names.extend(disk.list_dirs(dir)?);
    names.extend(disk.list_others(dir)?);
    let is_other = |name: &&String| !allowed.contains(&name.as_str()) && !name.starts_with('.');
    let Some(name) = names.iter().find(is_other) else { return Ok(()) };
    let message = match names.iter().any(|name| manifest::number(name).is_some()) {
        true => "there is a collection already; open it instead".to_string(),
        false => format!("the directory is not empty: it has `{name}`; choose another one"),
    };
    Err(Error::new(ErrorKind::AlreadyExists, message).in_file(dir))
}
