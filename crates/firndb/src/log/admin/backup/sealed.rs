//! The segments of a backup, and the files that a backup and a restore have in common.

use crate::Result;
use crate::disk::{Disk, stage};
use crate::log::format::backup_manifest::Manifest;
use crate::log::format::durable_end::DurableEnd;
use crate::log::format::names::{BACKUP_UNFINISHED, DURABLE_END, segment_file};
use crate::log::format::segment_head::{
    Link, LogPosition, SegmentHeader, encode_head, head_length,
};
use crate::log::segments::durable_end_file;
use crate::log::segments::segment::HEAD_SHARE;
use std::path::Path;

/// Segments that do not change any more, and the number of a segment that follows them.
pub(crate) struct SealedSegments {
    pub(crate) store: u64,
    /// Number of the segment that belongs to the backup alone.
    pub(crate) own: u64,
    /// The end of the log.
    pub(crate) source: LogPosition,
    /// Number and end of each.
    pub(crate) members: Vec<LogPosition>,
    pub(crate) live_bytes: u64,
    /// Least length of the backup's own segment.
    pub(crate) least: u64,
    /// Whether the store is ordered.
    pub(crate) is_ordered: bool,
}

impl SealedSegments {
    /// Writes the segment that follows these into a directory: a head and zeros. Returns the end of
    /// the head.
    pub(crate) fn write_own(&self, disk: &dyn Disk, dir: &Path) -> Result<u64> {
        let previous = self.members.last().copied().unwrap_or_default();
        let (members, live_bytes) = (self.members.clone(), self.live_bytes);
        let link = Link { previous, durable: previous.0, live_bytes, members };
        let long = HEAD_SHARE * head_length(self.members.len() + 1) as u64;
        let capacity = long.max(self.least).next_multiple_of(4096);
        let (store, number) = (self.store, self.own);
        let is_ordered = self.is_ordered;
        let header = SegmentHeader { store, number, capacity, alignment_log2: 0, is_ordered };
        let mut bytes = encode_head(&header, &link);
        let end = bytes.len() as u64;
        bytes.resize(capacity as usize, 0);
        let mut file = disk.create(&dir.join(segment_file(self.own)))?;
        file.append(&bytes)?;
        file.sync()?;
        Ok(end)
    }
}

/// Writes `backup-unfinished.firn`. Its name is durable when the directory is synced.
pub(crate) fn publish_unfinished(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<()> {
    let path = dir.join(BACKUP_UNFINISHED);
    stage(disk, &path, |out| manifest.encode(out), |()| path.clone())
}

/// Records that the log in a directory is durable up to `position`, in the same way.
pub(crate) fn write_end(
    disk: &dyn Disk,
    dir: &Path,
    store: u64,
    position: LogPosition,
) -> Result<()> {
    let path = dir.join(DURABLE_END);
    let end = DurableEnd { store, position };
    stage(disk, &path, |out| durable_end_file::write(out, end), |()| path.clone())
}
