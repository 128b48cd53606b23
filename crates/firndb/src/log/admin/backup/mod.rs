//! Backup: a directory that is a store of its own, made of hard links, while writing goes on.
//!
//! A backup consists of the store's sealed segments and their hints, and of one segment of its own,
//! which is last and empty: whoever opens the backup for writing appends to that one, never to a
//! file that is shared. The store gives it a number and never uses this number itself. So the
//! segments of two backups never want one name for different content, and both can be in the
//! directory while the second takes the place of the first:
//!
//! 1. `target::look`, `Made::check`: the target is free, or an earlier backup as it was made.
//! 2. `backup-unfinished.firn` lists the segments of the earlier backup; nothing else counts now.
//! 3. The missing segments are linked, or copied where no link can be, and the own one is written.
//! 4. `backup-unfinished.firn` lists the segments of the new backup: it takes the old one's place.
//! 5. What only the old one had is removed.
//! 6. `backup-unfinished.firn` becomes `backup.firn`.
//!
//! Each step is durable before the next one begins. Whenever it is interrupted, an opening finds
//! the old backup or the new one, whole, and the next backup removes what is left over.

mod copy;
mod manifest;
mod restore;
mod target;

pub(crate) use manifest::{FILE, admitted, end_of};
pub use restore::Restored;
pub(crate) use target::check_apart;
pub(crate) use target::check_free;

use crate::Result;
use crate::disk::{Disk, stage, temporary};
use crate::log::failpoints::Failpoint;
use crate::log::format::record::{Header, Link, head_length};
use crate::log::maintenance::checkpoint;
use crate::log::open::durable_end::{self as end, End};
use crate::log::open::recovery::LOCK;
use crate::log::open::store::{HEAD_SHARE, LogStore, SEGMENT_MIN};
use crate::log::segments::hint_file as hint;
use crate::log::segments::reserve::Need;
use crate::log::segments::segment::file_name;
use crate::log::write::group_commit::Position;
use crate::log::write::writer::encode_head;
use copy::{Brought, bring, remove_if_there, same_bytes};
use manifest::{Manifest, UNFINISHED};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use target::{Made, Target};

/// What a backup did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backup {
    /// Segments in it.
    pub segments: u64,
    /// Of these, segments that an earlier backup into the same directory had made already.
    pub kept: u64,
    /// Of these, segments that were copied because no hard link was possible. The others that are
    /// new, but for the last, are hard links.
    pub copied: u64,
}

impl LogStore {
    /// Makes a backup in a directory: one that is new or empty, or one with an earlier backup of
    /// this store, which is brought up to date. The backup holds everything written before the
    /// call and is durable when this returns. It can be opened as any store.
    ///
    /// On the file system of the store, sealed segments are hard-linked: this takes hardly any time
    /// or space at first, and segments that compaction removes later stay on disk as long as a
    /// backup has them. On another file system they are copied; the next backup into the same
    /// directory compares these copies with the store and copies what is new.
    ///
    /// `AlreadyExists`, and nothing is changed, if the directory is the store itself, inside of it
    /// or around it, has another store or a backup of another one in it, files that are not
    /// FirnDB's, or an earlier backup that was written to since. `Locked` if a writer has the
    /// directory open. After any other error, and after a crash, the directory holds the earlier
    /// backup or the new one, and a backup into it can be made again.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<Backup> {
        let to = to.as_ref();
        let shared = &*self.shared;
        let disk = &*shared.disk;
        drop(shared.writer()?); // Fails where the store is open for reading only.
        target::check_apart(disk, &shared.dir, to)?;
        target::look(disk, shared.id, to)?;
        disk.create_dir_all(to)?;
        let _lock = disk.lock(&to.join(LOCK))?;
        let _compaction_waits = shared.compacting.lock().unwrap_or_else(PoisonError::into_inner);
        let position = shared.writer()?.position();
        let mut update =
            Update { disk, from: &shared.dir, to, made: None, copies: BTreeSet::new() };
        if let Target::Backup(made) = target::look(disk, shared.id, to)? {
            let segments = shared.table.load().in_order();
            update.copies = made.check(disk, to, &segments, position)?;
            update.made = Some(made);
        }
        let sealed = self.seal_for_backup()?;
        let backup = update.make(&sealed)?;
        shared.counters.backups.fetch_add(1, Ordering::Relaxed);
        Ok(backup)
    }

    /// Seals the active segment and makes everything durable: the segments of a backup.
    fn seal_for_backup(&self) -> Result<Sealed> {
        let shared = &*self.shared;
        let (own, position, mut segments) = {
            let mut writer = shared.writer()?;
            // Before the segment that becomes the active one, or another writer could give its
            // number once more when the store was closed and opened.
            let own = writer.give_number(shared)?;
            writer.roll(shared, 0, 0, Need::Fill)?;
            (own, writer.position(), shared.table.load().in_order())
        };
        shared.make_durable(position)?;
        while shared.seal()? {}
        segments.retain(|segment| segment.number < position.0);
        let members: Vec<Position> = segments.iter().map(|s| (s.number, s.end())).collect();
        let live_bytes = segments.iter().map(|s| s.live.load(Ordering::Relaxed)).sum();
        let least = SEGMENT_MIN.min(shared.options.segment_bytes);
        Ok(Sealed { store: shared.id, own, source: position, members, live_bytes, least })
    }
}

/// Segments that do not change any more, and the number of one that follows them.
struct Sealed {
    store: u64,
    /// Number of the segment that belongs to the backup alone.
    own: u64,
    /// The end of the log.
    source: Position,
    /// Number and end of each.
    members: Vec<Position>,
    live_bytes: u64,
    /// Length of the backup's own segment at least.
    least: u64,
}

impl Sealed {
    /// Writes the segment that follows these into a directory: a head and zeros. Returns the end of
    /// the head.
    fn write_own(&self, disk: &dyn Disk, dir: &Path) -> Result<u64> {
        let previous = self.members.last().copied().unwrap_or_default();
        let (members, live_bytes) = (self.members.clone(), self.live_bytes);
        let link = Link { previous, durable: previous.0, live_bytes, members }.encode();
        let long = HEAD_SHARE * head_length(self.members.len() + 1) as u64;
        let capacity = long.max(self.least).next_multiple_of(4096);
        let header = Header { store: self.store, number: self.own, capacity, alignment_log2: 0 };
        let mut bytes = encode_head(&header, &link);
        let end = bytes.len() as u64;
        bytes.resize(capacity as usize, 0);
        let mut file = disk.create(&dir.join(file_name(self.own)))?;
        file.append(&bytes)?;
        file.sync()?;
        Ok(end)
    }
}

/// A backup on its way.
struct Update<'a> {
    disk: &'a dyn Disk,
    from: &'a Path,
    to: &'a Path,
    /// The earlier backup.
    made: Option<Made>,
    /// Segments of it that are not the store's files but hold the same bytes.
    copies: BTreeSet<u64>,
}

impl Update<'_> {
    /// Steps 2 to 6 of the head of this file.
    fn make(&self, sealed: &Sealed) -> Result<Backup> {
        let empty = Manifest::empty(sealed.store);
        let old = self.made.as_ref().map_or(&empty, |made| &made.manifest);
        self.publish(old)?;
        self.remove_stale(old)?;
        let mut members = sealed.members.clone();
        if Failpoint::BackupWithoutNewest.is_on() {
            members.pop();
        }
        let sealed = &Sealed { members, ..*sealed };
        let mut backup = Backup { segments: sealed.members.len() as u64 + 1, ..Backup::default() };
        for &(number, _) in &sealed.members {
            match self.bring_segment(number)? {
                None => backup.kept += 1,
                Some(Brought::Copied) => backup.copied += 1,
                Some(Brought::Linked) => {}
            }
        }
        let end = sealed.write_own(self.disk, self.to)?;
        self.sync_names()?;
        let mut new = Manifest { source: sealed.source, ..empty.clone() };
        new.segments.extend(sealed.members.iter().copied().chain([(sealed.own, end)]));
        self.publish(&new)?;
        self.remove_stale(&new)?;
        remove_if_there(self.disk, &self.to.join(checkpoint::FILE))?;
        write_end(self.disk, self.to, sealed.store, (sealed.own, end))?;
        self.sync_names()?;
        self.disk.rename(&self.to.join(UNFINISHED), &self.to.join(FILE))?;
        self.sync_names()?;
        Ok(backup)
    }

    /// From now on the directory consists of the segments of this manifest.
    fn publish(&self, manifest: &Manifest) -> Result<()> {
        publish_unfinished(self.disk, self.to, manifest)?;
        self.sync_names()
    }

    /// Removes segments and hints that are no part of this backup.
    fn remove_stale(&self, kept: &Manifest) -> Result<()> {
        let names = self.disk.list(self.to)?;
        let mut stale = names.iter().filter(|name| kept.is_stale(name));
        stale.try_for_each(|name| self.disk.remove(&self.to.join(name)))
    }

    /// Sees to it that a segment of the store and its hint are in the backup; `None` if the segment
    /// was there.
    fn bring_segment(&self, number: u64) -> Result<Option<Brought>> {
        let name = file_name(number);
        let brought = self.bring(&name, || Ok(self.copies.contains(&number)))?;
        let name = hint::file_name(number);
        self.bring(&name, || {
            let (a, b) = (self.from.join(&name), self.to.join(&name));
            let length = self.disk.open(&a)?.len()?.max(self.disk.open(&b)?.len()?);
            same_bytes(self.disk, &a, &b, length)
        })?;
        Ok(brought)
    }

    /// Sees to it that a file of the store is in the backup; `None` if it was there. `is_equal`
    /// says whether one that is not the same file holds the same bytes.
    fn bring(
        &self,
        name: &str,
        is_equal: impl FnOnce() -> Result<bool>,
    ) -> Result<Option<Brought>> {
        let (disk, from, to) = (self.disk, self.from.join(name), self.to.join(name));
        let is_there = self.made.as_ref().is_some_and(|made| made.lists(name));
        if !is_there {
            return bring(disk, &from, &to).map(Some);
        }
        let (wanted, found) = (disk.identity(&from)?, disk.identity(&to)?);
        if wanted == found || (wanted.device != found.device && is_equal()?) {
            return Ok(None);
        }
        let staged = temporary(&to)?;
        let brought = bring(disk, &from, &staged)?;
        disk.rename(&staged, &to)?;
        Ok(Some(brought))
    }

    fn sync_names(&self) -> Result<()> {
        if Failpoint::BackupWithoutDirectorySync.is_on() {
            return Ok(());
        }
        self.disk.sync_dir(self.to)
    }
}

/// Writes `backup-unfinished.firn`; its name is durable when the directory is synced.
fn publish_unfinished(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<()> {
    let path = dir.join(UNFINISHED);
    stage(disk, &path, |out| manifest.encode(out), |()| path.clone())
}

/// Writes down that the log in a directory is durable up to here, in the same way.
fn write_end(disk: &dyn Disk, dir: &Path, store: u64, position: Position) -> Result<()> {
    let path = dir.join(end::FILE);
    stage(disk, &path, |out| End { store, position }.encode(out), |()| path.clone())
}
