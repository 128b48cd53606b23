//! Catalog: versions of tables and collections under names, and readers that switch to new ones.
//!
//! A catalog is a directory or the prefix of an object store. A version is a manifest, numbered and
//! never changed, and the files that it names; `format.rs` has the bytes. Publishing creates
//! manifest n + 1 if there is none, so that of two publishers one wins; nothing is ever replaced.
//!
//! # Write path: publish
//! 1. `look` finds the files of the table or collection, and what it says of itself.
//! 2. `Catalog::newest` reads the newest manifest. What it names already is not sent again;
//!    `SourceFile::fingerprint` checks and hashes the rest.
//! 3. `Origin::store` puts the new files under names of their content, durably.
//! 4. `Catalog::commit` creates the next manifest by `Origin::create`: the version is there, unless
//!    `Catalog::settle` finds that others were faster. `Catalog::point` leaves a hint at it for
//!    readers who cannot list.
//! 5. `Catalog::clean`, whenever somebody calls it, removes first manifests that nobody needs any
//!    more, then files that no manifest names.
//!
//! # Read path: refresh
//! 1. `Catalog::newest_since` lists manifests, and asks for the next ones by name.
//! 2. `Cache::fill` fetches the files that are not there, and checks the hash of each.
//! 3. `CatalogReader::advance` opens them beside the current version: of a collection only what
//!    changed is opened, and the rest shared.
//! 4. It swaps: `CatalogReader::current` gives the new `Generation` from here on. The old one goes
//!    with the last query that holds it.
//! 5. `Cache::clean` removes what the new version has not.
//!
//! `Share` lets others have what step 2 has fetched; whoever carries it is not part of this crate.
//!
//! A failure on this path leaves the current version as it is. `CatalogReader::watch` walks it in
//! a thread, now and then.

mod format;
mod origin;
mod local;
mod newest;
mod source;
mod publish;
mod diff;
mod clean;
mod cache;
mod cache_dir;
mod share;
mod reader;
mod watch;
mod pull;
#[cfg(test)]
mod tests;

pub use clean::{CleanOptions, Cleaned};
pub use diff::{Change, Diff};
pub use format::{Version, VersionFile, VersionKind};
pub use origin::{Content, Origin};
pub use publish::{PublishOptions, Published};
pub use reader::{CatalogReader, Generation, ReaderOptions, ReaderStats};
pub use share::{Found, Share, SharedFile};
pub use watch::Watch;

use crate::disk::{self, DiskRef};
use crate::{Error, ErrorKind, Result};
use format::{MAX_MANIFEST, version_object};
use local::LocalOrigin;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Versions of tables and collections under names. Clones are cheap and are the same catalog.
///
/// A name has 1 to 100 characters of `A-Z a-z 0-9 . _ -` and does not begin with a dot.
#[derive(Clone)]
pub struct Catalog {
    origin: Arc<dyn Origin>,
    /// Where what is published comes from, and where readers keep files.
    disk: DiskRef,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Catalog {
    /// The catalog in a directory that is there.
    pub fn open(dir: impl AsRef<Path>) -> Result<Catalog> {
        let (disk, dir) = (disk::os(), dir.as_ref());
        local::require(&disk, dir)?;
        Ok(Self::open_on(disk, dir))
    }

    /// The catalog in a directory, which is created if it is missing. `AlreadyExists` if there is
    /// something in the directory and nothing of a catalog.
    pub fn create(dir: impl AsRef<Path>) -> Result<Catalog> {
        let (disk, dir) = (disk::os(), dir.as_ref());
        local::check_place(&disk, dir)?;
        disk.create_dir_all(dir)?;
        Ok(Self::open_on(disk, dir))
    }

    pub(crate) fn open_on(disk: DiskRef, dir: &Path) -> Catalog {
        Catalog { origin: Arc::new(LocalOrigin::new(disk.clone(), dir)), disk }
    }

    /// The catalog in another place of objects.
    pub fn at(origin: Arc<dyn Origin>) -> Catalog {
        Catalog { origin, disk: disk::os() }
    }

    /// Where it is.
    pub fn origin(&self) -> &Arc<dyn Origin> {
        &self.origin
    }

    /// The names under which something is published, sorted.
    pub fn names(&self) -> Result<Vec<String>> {
        self.origin.list_folders("")
    }

    /// The numbers of the versions of a name, ascending: some may be missing. `NotFound` if there
    /// are none.
    pub fn versions(&self, name: &str) -> Result<Vec<u64>> {
        check_name(name)?;
        let numbers = self.numbers(name)?;
        if numbers.is_empty() { Err(no_version(name)) } else { Ok(numbers) }
    }

    /// The newest version of a name. `NotFound` if there is none. Where nothing can be listed, this
    /// goes by a hint (`NAME/newest`), which may be old or missing: then it finds an older version,
    /// or none.
    pub fn newest(&self, name: &str) -> Result<Version> {
        check_name(name)?;
        let newest = self.newest_of(name, || self.newest_since(name, 0))?;
        newest.ok_or_else(|| no_version(name))
    }

    /// A version of a name. `NotFound` if it is not there (any more).
    pub fn version(&self, name: &str, number: u64) -> Result<Version> {
        check_name(name)?;
        let bytes = self.manifest(name, number)?;
        format::decode(&bytes, name, number)
    }

    fn manifest(&self, name: &str, number: u64) -> Result<Vec<u8>> {
        let object = version_object(name, number);
        origin::read_whole(&*self.origin, &object, MAX_MANIFEST).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                let message = format!("there is no version {number} of `{name}`");
                Error::new(ErrorKind::NotFound, message)
            }
            _ => e,
        })
    }
}

fn no_version(name: &str) -> Error {
    let message = format!("nothing is published under the name `{name}`");
    Error::new(ErrorKind::NotFound, message)
}

fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !name.is_empty() && name.len() <= 100 && name.chars().all(plain) && !name.starts_with('.') {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{name}` cannot be a name in a catalog: use 1 to 100 characters of \
         A-Z a-z 0-9 . _ -, not a dot first"
    )))
}
