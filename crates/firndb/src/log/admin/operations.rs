//! Backup, restore, verify and repair: the methods of [`LogStore`] for them.

use crate::Result;
use crate::bytes::inspection::Verification;
use crate::disk::{self, DiskRef};
use crate::log::admin::backup::restore::{self, Restored};
use crate::log::admin::backup::update::{self, Backup};
use crate::log::admin::repair::{self, Repaired};
use crate::log::admin::verify;
use crate::log::open::store::LogStore;
use crate::log::options::Options;
use std::path::Path;

impl LogStore {
    /// Makes a backup in a directory that is new or empty, or updates an earlier backup of this
    /// store there. The backup holds everything written before the call and is durable when this
    /// returns. It can be opened like any store.
    ///
    /// On the file system of the store, sealed segments are hard-linked: this takes hardly any time
    /// or space at first, and segments that compaction removes later stay on disk as long as a
    /// backup has them. On another file system they are copied; the next backup into the same
    /// directory compares these copies with the store and copies what is new.
    ///
    /// Errors: `AlreadyExists`, and nothing is changed, if the directory is the store itself,
    /// inside of it or around it, or contains another store, a backup of another store, foreign
    /// files, or an earlier backup that was written to since. `Locked` if a writer has the
    /// directory open. After any other error, and after a crash, the directory holds the earlier
    /// backup or the new one, and the backup can be repeated.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<Backup> {
        update::backup(&self.shared(), to.as_ref())
    }

    /// Makes a new store in `to`, a directory that is new or empty, from the backup in `from`: any
    /// store that no process has open for writing. Checks every record of the backup and compares
    /// every copy with its original. The store shares no file with the backup.
    ///
    /// The store is complete and durable, or it cannot be opened: after an error its files are
    /// removed, and after an interrupted restore an opening reports that. Errors: `AlreadyExists`
    /// if `to` is not empty; `Corrupt`, with file and offset, if the backup is damaged; `Locked` if
    /// it is being made or written to.
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
        restore::restore(disk, from, to, options)
    }

    /// Reads and checks every record of the store, and checks that the index has exactly one
    /// location per key, which holds a record of that key. In an ordered store, also checks that
    /// each entry of the key runs and of the sorted keys in memory points at a record of its key,
    /// and that a scan in key order returns every record exactly once. This reads every record a
    /// second time, in key order. Then checks the files next to the segments. Writing may
    /// continue; in that case the number of live records is not compared with the number of keys.
    pub fn verify(&self) -> Result<Verification> {
        verify::verify(self)
    }

    /// Reads the segments in `from`, however damaged, and writes every record whose checksum is
    /// right into a new store in `to`, a directory that is new or empty: `AlreadyExists` for any
    /// other. `from` is not changed.
    ///
    /// A key whose newest record is lost gets the value of the record before, if that is still
    /// there; the report lists the bytes that were dropped. Records of a batch are taken one by
    /// one. The new store is ordered if the damaged one is.
    ///
    /// The time is proportional to the bytes of the segments. To guarantee that, the search is
    /// bounded in segments that were crafted to contain very many beginnings of long records: in
    /// such a segment an intact long record may be dropped.
    pub fn repair(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Repaired> {
        Self::repair_with(from, to, |_, _| ())
    }

    /// [`LogStore::repair`] that calls `progress` with the bytes processed and the bytes of all
    /// segments, at least once per segment and per 16 MiB.
    pub fn repair_with(
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        progress: impl FnMut(u64, u64),
    ) -> Result<Repaired> {
        let options = Options::default();
        Self::repair_on(&disk::os(), from.as_ref(), to.as_ref(), options, progress)
    }

    /// What [`LogStore::repair_with`] would find, without writing anything. Takes about 40 bytes of
    /// memory per key.
    pub fn repair_dry_run(
        from: impl AsRef<Path>,
        progress: impl FnMut(u64, u64),
    ) -> Result<Repaired> {
        Self::repair_dry_run_on(&disk::os(), from.as_ref(), progress)
    }

    /// [`LogStore::repair_with`] on any disk.
    pub(crate) fn repair_on(
        disk: &DiskRef,
        from: &Path,
        to: &Path,
        options: Options,
        progress: impl FnMut(u64, u64),
    ) -> Result<Repaired> {
        repair::repair(disk, from, to, options, progress)
    }

    /// [`LogStore::repair_dry_run`] on any disk.
    pub(crate) fn repair_dry_run_on(
        disk: &DiskRef,
        from: &Path,
        progress: impl FnMut(u64, u64),
    ) -> Result<Repaired> {
        repair::dry_run(disk, from, progress)
    }
}
