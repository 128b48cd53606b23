//! Backup: a directory that is a store of its own, made of hard links, while writing goes on.

use super::bug::Bug;
use super::checkpoint;
use super::end::{self, End};
use super::format::HEADER;
use super::hint;
use super::reserve::Need;
use super::segment::{file_name, number_of};
use super::store::LogStore;
use crate::disk::stage;
use crate::{Error, Result};
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// What a backup did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backup {
    /// Segments in it.
    pub segments: u64,
    /// Of these, segments that an earlier backup into the same directory had made already.
    pub kept: u64,
}

impl LogStore {
    /// Makes a backup in a directory on the same file system: new, empty, or one with an earlier
    /// backup of this store, of which it keeps what is still part of the store. It holds everything
    /// written before the call and is durable when this returns. It can be opened as any store.
    ///
    /// Sealed segments are hard-linked, so it takes hardly any time or space at first; segments
    /// that compaction removes later stay on disk as long as a backup has them. If it is
    /// interrupted, make it again.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<Backup> {
        let to = to.as_ref();
        let shared = &*self.shared;
        let disk = &*shared.disk;
        disk.create_dir_all(to)?;
        let _compaction_waits = shared.compacting.lock().unwrap_or_else(PoisonError::into_inner);
        // The last segment of a backup is its own, or opening it would append to a shared file.
        let (active, position) = {
            let mut writer = shared.writer()?;
            writer.roll(shared, 0, 0, Need::Fill)?;
            (std::sync::Arc::clone(&writer.segment), writer.position())
        };
        shared.make_durable(position)?;
        while shared.seal()? {}
        let mut there = disk.list(to)?;
        // The last segment of an earlier backup is its own, and not the store's of that number.
        let own = there.iter().filter(|name| number_of(name).is_some()).max().cloned();
        if let Some(own) = own {
            disk.remove(&to.join(&own))?;
            there.retain(|name| *name != own);
        }
        let segments = shared.table.load().in_order();
        let missing = u64::from(Bug::BackupWithoutNewest.is_on());
        let segments = segments.iter().filter(|s| s.number + missing < active.number);
        let mut names: Vec<String> = Vec::new();
        for segment in segments {
            names.extend([file_name(segment.number), hint::file_name(segment.number)]);
        }
        let others = [checkpoint::FILE, end::FILE];
        let is_log =
            |name: &&String| name.starts_with("segment-") || others.contains(&name.as_str());
        for name in there.iter().filter(is_log).filter(|name| !names.contains(name)) {
            disk.remove(&to.join(name))?;
        }
        let mut kept = 0;
        for name in &names {
            if there.contains(name) {
                kept += 1;
            } else {
                disk.link(&shared.dir.join(name), &to.join(name))?;
            }
        }
        let contents = active.contents()?;
        let head = contents.get(..position.1 as usize).unwrap_or_default();
        if head.len() < HEADER {
            return Err(Error::corrupt("the active segment has no header").in_file(&active.path));
        }
        let path = to.join(file_name(active.number));
        let (tape, mut writer) =
            disk.create_tape(&path, active.capacity() as usize, shared.options.append_mode)?;
        writer.append(&[head])?;
        tape.sync(0, head.len())?;
        let known = End { store: shared.id, position };
        let path = to.join(end::FILE);
        stage(disk, &path, |out| known.encode(out), |()| path.clone())?;
        if !Bug::BackupWithoutDirectorySync.is_on() {
            disk.sync_dir(to)?;
        }
        shared.counters.backups.fetch_add(1, Ordering::Relaxed);
        Ok(Backup { segments: names.len() as u64 / 2 + 1, kept: kept / 2 })
    }
}
