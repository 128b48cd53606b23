//! Making a backup: a directory that is a store of its own, made of hard links while writing
//! continues.
//!
//! A backup consists of the store's sealed segments and their hints, and of a segment of its own,
//! which is last and empty: a writer of the backup appends to that one, never to a shared file. The
//! store reserves its number and never uses it itself. So the segments of two backups never have
//! the same name and different content, and both can be in the directory while the second replaces
//! the first:
//!
//! 1. [`target::look`] and [`ExistingBackup::check`]: the directory is free, or an earlier backup
//!    as it was made.
//! 2. `backup-unfinished.firn` lists the segments of the earlier backup; no other file counts from
//!    now on.
//! 3. The missing segments are linked, or copied where links are impossible, and the own one is
//!    written.
//! 4. `backup-unfinished.firn` lists the segments of the new backup, which replaces the old one.
//! 5. Files that only the old backup had are removed.
//! 6. `backup-unfinished.firn` is renamed to `backup.firn`.
//!
//! Each step is durable before the next one begins. Whenever it is interrupted, an opening finds
//! the old backup or the new one, complete, and the next backup removes what is left over.

use crate::Result;
use crate::disk::{Disk, temporary};
use crate::log::admin::backup::copy::{Transfer, link_or_copy, same_bytes};
use crate::log::admin::backup::sealed::{SealedSegments, publish_unfinished, write_end};
use crate::log::admin::backup::target::{self, ExistingBackup, Target};
use crate::log::failpoints::Failpoint;
use crate::log::format::backup_manifest::Manifest;
use crate::log::format::names::{
    BACKUP, BACKUP_UNFINISHED, CHECKPOINT, LOCK, hint_file, segment_file,
};
use crate::log::format::segment_head::LogPosition;
use crate::log::maintenance::seal::seal;
use crate::log::segments::reserve::{Need, remove_if_there};
use crate::log::segments::segment::SEGMENT_SMALL;
use crate::log::state::shared::Shared;
use crate::log::write::active_segment::{reserve_number, roll};
use crate::log::write::settle::lock_settled;
use crate::log::write::sync::make_durable;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// What a backup did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// Segments in it.
    pub segments: u64,
    /// Of these, segments that an earlier backup in the same directory already had.
    pub kept: u64,
    /// Of these, segments that were copied because no hard link was possible. The other new
    /// segments, except the last, are hard links.
    pub copied: u64,
}

/// Makes or updates a backup: see `LogStore::backup`.
pub(crate) fn backup(shared: &Shared, to: &Path) -> Result<Backup> {
    span!(INFO, "firndb.log.backup", to = %to.display());
    let dir = &shared.dir;
    let disk = &*dir.disk;
    drop(lock_settled(shared)?); // Fails if the store is open for reading only.
    target::check_apart(disk, &dir.path, to)?;
    target::look(disk, dir.store, to)?;
    disk.create_dir_all(to)?;
    let _lock = disk.lock(&to.join(LOCK))?;
    let departed = &shared.maintenance.departed;
    let _compaction_waits = departed.lock().unwrap_or_else(PoisonError::into_inner);
    let position = lock_settled(shared)?.position();
    let mut update = Update { disk, from: &dir.path, to, existing: None, copies: BTreeSet::new() };
    if let Target::Backup(existing) = target::look(disk, dir.store, to)? {
        update.copies = existing.check(disk, to, &shared.segments(), position)?;
        update.existing = Some(existing);
    }
    let sealed = seal_for_backup(shared)?;
    let backup = update.make(&sealed)?;
    shared.counters.backups.fetch_add(1, Ordering::Relaxed);
    Ok(backup)
}

/// Seals the active segment and makes everything durable: the segments of a backup.
fn seal_for_backup(shared: &Shared) -> Result<SealedSegments> {
    let (own, position, mut segments) = {
        let mut writer = lock_settled(shared)?;
        // Before the segment that becomes the active one: otherwise a later writer could use its
        // number after the store was closed and opened.
        let own = reserve_number(shared, &mut writer)?;
        roll(shared, &mut writer, (0, 0), Need::Fill)?;
        (own, writer.position(), shared.segments())
    };
    make_durable(shared, position)?;
    while seal(shared)? {}
    segments.retain(|segment| segment.number < position.0);
    let members: Vec<LogPosition> = segments.iter().map(|s| (s.number, s.end())).collect();
    let live_bytes = segments.iter().map(|s| s.live.load(Ordering::Relaxed)).sum();
    let least = SEGMENT_SMALL.min(shared.options.segment_bytes);
    let (store, source) = (shared.dir.store, position);
    let is_ordered = shared.order.is_some();
    Ok(SealedSegments { store, own, source, members, live_bytes, least, is_ordered })
}

/// A backup in progress.
struct Update<'a> {
    disk: &'a dyn Disk,
    from: &'a Path,
    to: &'a Path,
    /// The earlier backup.
    existing: Option<ExistingBackup>,
    /// Segments of it that are copies of the store's files, not links.
    copies: BTreeSet<u64>,
}

impl Update<'_> {
    /// Steps 2 to 6 above.
    fn make(&self, sealed: &SealedSegments) -> Result<Backup> {
        let empty = Manifest::empty(sealed.store);
        let old = self.existing.as_ref().map_or(&empty, |existing| &existing.manifest);
        self.publish(old)?;
        self.remove_stale(old)?;
        let mut members = sealed.members.clone();
        if Failpoint::BackupWithoutNewest.is_on() {
            members.pop();
        }
        let sealed = &SealedSegments { members, ..*sealed };
        let mut backup = Backup { segments: sealed.members.len() as u64 + 1, ..Backup::default() };
        for &(number, _) in &sealed.members {
            match self.transfer_segment(number)? {
                None => backup.kept += 1,
                Some(Transfer::Copied) => backup.copied += 1,
                Some(Transfer::Linked) => {}
            }
        }
        let end = sealed.write_own(self.disk, self.to)?;
        self.sync_names()?;
        let mut new = Manifest { source: sealed.source, ..empty.clone() };
        new.segments.extend(sealed.members.iter().copied().chain([(sealed.own, end)]));
        self.publish(&new)?;
        self.remove_stale(&new)?;
        remove_if_there(self.disk, &self.to.join(CHECKPOINT))?;
        write_end(self.disk, self.to, sealed.store, (sealed.own, end))?;
        self.sync_names()?;
        self.disk.rename(&self.to.join(BACKUP_UNFINISHED), &self.to.join(BACKUP))?;
        self.sync_names()?;
        Ok(backup)
    }

    /// Makes the directory consist of the segments of this manifest.
    fn publish(&self, manifest: &Manifest) -> Result<()> {
        publish_unfinished(self.disk, self.to, manifest)?;
        self.sync_names()
    }

    /// Removes segments and hints that are not part of this backup.
    fn remove_stale(&self, kept: &Manifest) -> Result<()> {
        let names = self.disk.list(self.to)?;
        let mut stale = names.iter().filter(|name| kept.is_stale(name));
        stale.try_for_each(|name| self.disk.remove(&self.to.join(name)))
    }

    /// Adds a segment of the store and its hint to the backup. Returns `None` if the segment was
    /// there.
    fn transfer_segment(&self, number: u64) -> Result<Option<Transfer>> {
        let name = segment_file(number);
        let transfer = self.transfer(&name, || Ok(self.copies.contains(&number)))?;
        let name = hint_file(number);
        self.transfer(&name, || {
            let (a, b) = (self.from.join(&name), self.to.join(&name));
            let length = self.disk.open(&a)?.len()?.max(self.disk.open(&b)?.len()?);
            same_bytes(self.disk, &a, &b, length)
        })?;
        Ok(transfer)
    }

    /// Adds a file of the store to the backup. Returns `None` if it was there. `is_equal` returns
    /// whether a different file has the same bytes.
    fn transfer(
        &self,
        name: &str,
        is_equal: impl FnOnce() -> Result<bool>,
    ) -> Result<Option<Transfer>> {
        let (disk, from, to) = (self.disk, self.from.join(name), self.to.join(name));
        let is_there = self.existing.as_ref().is_some_and(|existing| existing.lists(name));
        if !is_there {
            return link_or_copy(disk, &from, &to).map(Some);
        }
        let (wanted, found) = (disk.identity(&from)?, disk.identity(&to)?);
        if wanted == found || (wanted.device != found.device && is_equal()?) {
            return Ok(None);
        }
        let staged = temporary(&to)?;
        let transfer = link_or_copy(disk, &from, &staged)?;
        disk.rename(&staged, &to)?;
        Ok(Some(transfer))
    }

    fn sync_names(&self) -> Result<()> {
        if Failpoint::BackupWithoutDirectorySync.is_on() {
            return Ok(());
        }
        self.disk.sync_dir(self.to)
    }
}
