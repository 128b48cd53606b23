//! Catalog: publishes versions of tables and collections, and readers switch to new versions while
//! they answer queries.
//!
//! A catalog is a directory or a prefix in an object store. Below it each *name* has a history of
//! numbered versions. A version is a manifest and the files that the manifest lists; neither is
//! ever modified. Use a catalog if one program builds data and others, on the same machine or
//! elsewhere, serve it.
//!
//! ```
//! use firndb::catalog::{Catalog, CleanOptions, PublishOptions, ReaderOptions};
//! use firndb::table::TableBuilder;
//! use std::path::{Path, PathBuf};
//! use std::time::Duration;
//! # fn main() -> firndb::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("firndb-doc-catalog-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let result = example(&dir);
//! # let _ = std::fs::remove_dir_all(&dir);
//! # result }
//!
//! fn example(dir: &Path) -> firndb::Result<()> {
//!     let build = |file: &str, weather: &str| -> firndb::Result<PathBuf> {
//!         let path = dir.join(file);
//!         let mut builder = TableBuilder::create(&path)?;
//!         builder.add("Oslo", weather)?;
//!         builder.finish()?;
//!         Ok(path)
//!     };
//!
//!     // The publisher. A collection is published by the path of its directory.
//!     let catalog = Catalog::create(dir.join("catalog"))?;
//!     let options = PublishOptions::default();
//!     let first = catalog.publish("weather", build("1.table", "cold")?, &options)?;
//!     assert_eq!(first.version.number, 1);
//!
//!     // The reader, usually in another process. The cache directory belongs to it alone.
//!     let reader = catalog.reader("weather", dir.join("cache"), ReaderOptions::default())?;
//!     let old = reader.current(); // one version, for as long as it is held
//!     assert_eq!(old.table()?.get("Oslo")?.as_deref(), Some(&b"cold"[..]));
//!
//!     // `refresh` switches to the newest version. `watch` calls it from a thread.
//!     catalog.publish("weather", build("2.table", "mild")?, &options)?;
//!     assert!(reader.refresh()?);
//!     assert_eq!(reader.current().table()?.get("Oslo")?.as_deref(), Some(&b"mild"[..]));
//!     assert_eq!(old.version().number, 1); // queries that hold the old version finish on it
//!     let _watch = reader.watch(Duration::from_secs(1), |outcome| match outcome {
//!         Ok(newer) => println!("switched to version {}", newer.version().number),
//!         Err(error) => eprintln!("{error}; the open version stays in use"),
//!     }); // dropping it stops the thread
//!
//!     // Removes versions that are neither recent nor pinned, and files that no version lists.
//!     catalog.clean("weather", &CleanOptions::default())?;
//!     Ok(())
//! }
//! ```
//!
//! # Durability
//!
//! [`Catalog::publish`] stores the files durably and then creates the manifest under the next
//! number, unless that number exists. So a version is complete or absent, and of several concurrent
//! publishers exactly one succeeds; the others get `AlreadyExists` and may retry. A reader verifies
//! each file by its BLAKE3 hash before it opens it.
//!
//! Shards of a table can be built on several machines: each calls [`Catalog::stage`], and one of
//! them calls [`Catalog::publish_staged`].
//!
//! # Concurrency
//!
//! Any number of programs publish, clean and read at the same time. [`CatalogReader::current`]
//! never waits, and clones of a [`CatalogReader`] are cheap. If a newer version cannot be fetched
//! or opened, the reader keeps the version that it has, and [`CatalogReader::stats`] and the
//! callback of [`CatalogReader::watch`] report the error. A reader that has run before starts
//! without its catalog, from its cache.
//!
//! # Errors
//!
//! | [`ErrorKind`] | cause |
//! |---|---|
//! | `InvalidArgument` | an invalid name; the version is of another kind than expected |
//! | `NotFound` | no catalog in the directory, no such name or version |
//! | `AlreadyExists` | another publisher was faster; the directory has contents of its own |
//! | `Locked` | another reader uses the cache directory |
//! | `Corrupt` | a file or a manifest differs from its hash |
//! | `UnsupportedVersion` | the version was published by a newer release |
//! | `Io` | the file system or the network reports a failure |
//! | `Failed` | the cache directory was moved or replaced |
//!
//! # Cost
//!
//! | what | cost |
//! |---|---|
//! | publishing | reads and sends the files that the newest version does not have |
//! | publishing on one file system | hard links; files must not be overwritten in place |
//! | publishing staged files | links or copies within the catalog |
//! | a refresh without news | one listing of the versions |
//! | a refresh | fetches, verifies and opens the files that the reader does not have |
//! | warming ([`ReaderOptions::warm`]) | what queries had derived from files that are replaced |
//! | disk space of a reader | two versions, within [`ReaderOptions::cache_bytes`] |
//!
//! # Limits
//!
//! A name has 1 to 100 characters of `A-Z a-z 0-9 . _ -` and does not begin with a dot. Manifests
//! are not signed: the party that can write to the catalog controls what readers read.
//!
//! # Other machines
//!
//! [`Catalog::at`] takes any [`Origin`]; crate `firndb-remote` has origins for HTTP, HDFS and
//! object stores. A [`Share`] exposes the files of a reader, so that other machines can fetch them
//! from it.

// The format of manifests and the names of objects are in `format.rs`.

mod format;
mod origin;
mod local;
mod newest;
mod source;
mod pins;
mod publish;
mod staged;
mod stage;
mod diff;
mod clean;
mod pull;
mod reader;
#[cfg(test)]
mod tests;

pub use crate::bytes::inspection::Verification;
pub use clean::{CleanOptions, Cleaned};
pub use diff::{Change, Diff};
pub use format::{Version, VersionFile, VersionKind};
pub use origin::{Content, Origin};
pub use publish::{PublishOptions, Published};
pub use reader::catalog_reader::{CatalogReader, ReaderOptions, ReaderStats};
pub use reader::generation::Generation;
pub use reader::share::{Found, Share, SharedFile};
pub use reader::watch::Watch;
pub use stage::StageOptions;
pub use staged::Staged;

use crate::disk::{self, DiskRef};
use crate::{Error, ErrorKind, Result};
use format::{MAX_MANIFEST, version_object};
use local::LocalOrigin;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Versions of tables and collections under names. Clones are cheap and refer to the same catalog.
///
/// A name has 1 to 100 characters of `A-Z a-z 0-9 . _ -` and does not begin with a dot.
#[derive(Clone)]
pub struct Catalog {
    origin: Arc<dyn Origin>,
    /// The disk of published files and of the caches of readers.
    disk: DiskRef,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Catalog {
    /// Opens the catalog in an existing directory. `NotFound` if the directory is missing.
    pub fn open(dir: impl AsRef<Path>) -> Result<Catalog> {
        let (disk, dir) = (disk::os(), dir.as_ref());
        local::require(&disk, dir)?;
        Ok(Self::open_on(disk, dir))
    }

    /// Opens the catalog in a directory, and creates the directory if it is missing.
    /// `AlreadyExists` if the directory has contents that do not belong to a catalog.
    pub fn create(dir: impl AsRef<Path>) -> Result<Catalog> {
        let (disk, dir) = (disk::os(), dir.as_ref());
        local::check_unused(&disk, dir)?;
        disk.create_dir_all(dir)?;
        Ok(Self::open_on(disk, dir))
    }

    pub(crate) fn open_on(disk: DiskRef, dir: &Path) -> Catalog {
        Catalog { origin: Arc::new(LocalOrigin::new(disk.clone(), dir)), disk }
    }

    /// Opens the catalog whose objects are in `origin`.
    pub fn at(origin: Arc<dyn Origin>) -> Catalog {
        Catalog { origin, disk: disk::os() }
    }

    /// The store of the catalog's objects.
    pub fn origin(&self) -> &Arc<dyn Origin> {
        &self.origin
    }

    /// Lists the names that have been published, sorted.
    pub fn names(&self) -> Result<Vec<String>> {
        self.origin.list_folders("")
    }

    /// Lists the version numbers of a name, ascending. Numbers of removed versions are missing.
    /// `NotFound` if the name has no version.
    pub fn versions(&self, name: &str) -> Result<Vec<u64>> {
        check_name(name)?;
        let numbers = newest::numbers(self, name)?;
        if numbers.is_empty() { Err(no_version(name)) } else { Ok(numbers) }
    }

    /// Reads the manifest of the newest version of a name. `NotFound` if the name has none.
    ///
    /// If the origin cannot list, the search starts from a hint (`NAME/newest`). A hint that is
    /// outdated or missing can make this return an older version, or `NotFound`.
    pub fn newest(&self, name: &str) -> Result<Version> {
        check_name(name)?;
        let newest = newest::read_newest(self, name, || newest::newest_since(self, name, 0))?;
        newest.ok_or_else(|| no_version(name))
    }

    /// Reads the manifest of one version. `NotFound` if it does not exist or was removed.
    pub fn version(&self, name: &str, number: u64) -> Result<Version> {
        check_name(name)?;
        let object = version_object(name, number);
        let bytes = origin::read_whole(&*self.origin, &object, MAX_MANIFEST);
        let bytes = bytes.map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                let message = format!("there is no version {number} of `{name}`");
                Error::new(ErrorKind::NotFound, message)
            }
            _ => e,
        })?;
        format::decode(&bytes, name, number)
    }

    /// Publishes the table in the file `path`, or the collection or sharded table in the directory
    /// `path`, as the next version of `name`. Once this returns, the version is durable and readers
    /// get it. After an error or a crash the version does not exist. The exception is an `Io`
    /// error: it leaves the outcome open, and the version may exist, complete.
    ///
    /// Symbolic links are followed: the targets are published under the names of the links. Files
    /// that the newest version lists with the same length and content id are neither read nor
    /// stored again, unless the catalog lacks them or has them with another length. Every byte of
    /// the other files is checked before it is stored and again as stored. If a source file is
    /// replaced during the call, the source is examined again. On the file system of the catalog
    /// files are hard-linked; like all published files they must not be overwritten in place.
    ///
    /// Any number of publishers may run concurrently. One of them succeeds; the others get
    /// `AlreadyExists`, have changed nothing, and may retry. So does a publisher that was
    /// overtaken by newer versions while its own parent version was removed.
    /// `InvalidArgument` if `path` is neither a regular file nor a directory.
    ///
    /// A directory with a file `shard-00000.table` and no collection is a sharded table. It may
    /// contain nothing but one such file per shard, numbered from 0 without a gap, with one value
    /// schema. The keys of new shards are read, and a key in a wrong shard is refused; in all these
    /// cases the error is `InvalidArgument`. Publish the directory once all shards are in it.
    pub fn publish(
        &self,
        name: &str,
        path: impl AsRef<Path>,
        options: &PublishOptions<'_>,
    ) -> Result<Published> {
        publish::publish(self, name, path.as_ref(), options)
    }

    /// Does the same as [`Catalog::publish`], unless the newest version has exactly these files and
    /// the catalog has all of them; then it returns `None`.
    pub fn publish_if_changed(
        &self,
        name: &str,
        path: impl AsRef<Path>,
        options: &PublishOptions<'_>,
    ) -> Result<Option<Published>> {
        publish::publish_if_changed(self, name, path.as_ref(), options)
    }

    /// Stores the table in the file `path` for a later version of `name`, without publishing it.
    /// Send the text of the result to the machine that calls [`Catalog::publish_staged`]. Any
    /// number of machines may stage files at the same time.
    ///
    /// Every byte is checked before it is stored and again as stored. Once this returns, the file
    /// is durable. It stays until [`Catalog::clean`] removes it, which is when it is older than
    /// [`CleanOptions::grace`], whether it was published or not. Reads the file three times.
    ///
    /// Errors: `InvalidArgument` for a directory: a collection is published from one machine.
    /// Otherwise as of [`Catalog::publish`].
    pub fn stage(
        &self,
        name: &str,
        path: impl AsRef<Path>,
        options: &StageOptions<'_>,
    ) -> Result<Staged> {
        stage::stage(self, name, path.as_ref(), options)
    }

    /// Publishes staged files as the next version of `name`: one file as a table, several as a
    /// sharded table whose shard `i` is the file `staged[i]`.
    ///
    /// Nothing is sent: the files are linked or copied within the catalog, and
    /// [`PublishOptions::progress`] is not called. Files that the newest version has are neither
    /// copied nor needed any more, so the text of an unchanged shard can be used again. The other
    /// staged objects must exist with their lengths. With [`PublishOptions::verify`] their bytes
    /// are compared with their hashes; readers do that in any case.
    ///
    /// Errors: `NotFound`, naming the object, if a staged object is missing, also if a clean-up
    /// removes it during the call; then nothing has changed. `InvalidArgument` if the list is empty
    /// or longer than [`MAX_SHARDS`](crate::table::MAX_SHARDS), if a file was staged for another
    /// name, or if the files are not the shards of one table: another kind, another value schema,
    /// or keys that belong to another shard. Otherwise as of [`Catalog::publish`].
    ///
    /// ```
    /// use firndb::catalog::{Catalog, PublishOptions, Staged};
    ///
    /// /// Publishes what several machines have staged: one line for each shard, in their order.
    /// fn publish(catalog: &Catalog, lines: &str) -> firndb::Result<u64> {
    ///     let staged: Vec<Staged> = lines.lines().map(str::parse).collect::<Result<_, _>>()?;
    ///     let published = catalog.publish_staged("offers", &staged, &PublishOptions::new())?;
    ///     Ok(published.version.number)
    /// }
    /// ```
    pub fn publish_staged(
        &self,
        name: &str,
        staged: &[Staged],
        options: &PublishOptions<'_>,
    ) -> Result<Published> {
        stage::publish_staged(self, name, staged, options)
    }

    /// Publishes the files of version `to` as the next version. The history stays as it is, and
    /// readers move on to the new number. Nothing is sent: files that the newest version lacks are
    /// copied within the catalog. Errors as of [`Catalog::publish`]; `NotFound` if version `to`
    /// does not exist.
    pub fn rollback(&self, name: &str, to: u64, options: &PublishOptions<'_>) -> Result<Published> {
        publish::rollback(self, name, to, options)
    }

    /// Pins a version: [`Catalog::clean`] keeps it until it is unpinned. `note` records the reason.
    /// Once this returns without an error, the version exists and stays.
    ///
    /// `NotFound` if the version does not exist, if files of it are missing, or if a clean-up has
    /// begun to remove it. `AlreadyExists` if it is already pinned.
    pub fn pin(&self, name: &str, number: u64, note: &str) -> Result<()> {
        pins::pin(self, name, number, note)
    }

    /// Removes the pin of a version. Not an error if the version is not pinned.
    pub fn unpin(&self, name: &str, number: u64) -> Result<()> {
        check_name(name)?;
        pins::unpin(self, name, number)
    }

    /// Lists the pinned versions of a name, ascending.
    pub fn pins(&self, name: &str) -> Result<Vec<u64>> {
        check_name(name)?;
        pins::pins(self, name)
    }

    /// Removes the versions of a name that `options` do not keep, the files that no remaining
    /// version lists, and old staged files. Publishers, readers and other clean-ups may run
    /// concurrently. If the manifest of a version that is kept cannot be read, nothing is removed.
    pub fn clean(&self, name: &str, options: &CleanOptions) -> Result<Cleaned> {
        check_name(name)?;
        clean::clean(self, name, options)
    }

    /// Reads every byte of the files of a version and compares their BLAKE3 hashes with the
    /// manifest. Calls `progress` after each file. `Corrupt` or `NotFound`, naming the object, for
    /// a file that differs or is missing.
    pub fn verify(
        &self,
        version: &Version,
        progress: impl FnMut(&VersionFile),
    ) -> Result<Verification> {
        pull::verify(self, version, progress)
    }

    /// Copies the table, sharded table or collection of a version into the directory `to`, with
    /// `threads` threads. Files get the names under which they were published. From a catalog on
    /// the same file system they are hard-linked. Calls `progress` with the number of bytes each
    /// time some arrive.
    ///
    /// The directory must be missing, empty, left by an interrupted pull of this version (which is
    /// resumed), or contain nothing but files of this version. Otherwise the result is
    /// `AlreadyExists` and nothing is touched.
    pub fn pull(
        &self,
        version: &Version,
        to: impl AsRef<Path>,
        threads: usize,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        pull::pull(self, version, to.as_ref(), threads, progress)
    }

    /// Opens the newest version of a name, or the one in `options`, with a copy of its files in
    /// the directory `cache`, which belongs to this reader alone.
    ///
    /// Files that are already in the cache are read once, compared with their hashes, and fetched
    /// again if they are damaged. If the newest version cannot be fetched or opened, the version
    /// that was last open in this cache is opened, and [`CatalogReader::stats`] has the error.
    /// `Locked` if another reader uses the directory; `AlreadyExists` if the directory has contents
    /// and was not created by a reader.
    pub fn reader(
        &self,
        name: &str,
        cache: impl AsRef<Path>,
        options: ReaderOptions,
    ) -> Result<CatalogReader> {
        check_name(name)?;
        CatalogReader::open(self, name, cache.as_ref(), options)
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
