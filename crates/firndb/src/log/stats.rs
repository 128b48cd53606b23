//! [`Stats`]: the size of a store and counts of its operations.

use crate::disk::AppendMode;

/// What an opening did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Recovery {
    /// Bytes after the end of the log that were not complete records: a torn write.
    pub dropped_bytes: u64,
    /// Files that were removed because they were not part of the store.
    pub dropped_files: u64,
    /// Segments that the checkpoint did not cover and whose hints were read.
    pub hinted_segments: u64,
    /// Segments whose records were read.
    pub scanned_segments: u64,
    /// Duration in seconds.
    pub seconds: f64,
}

/// The state of a store at one moment. Counts begin when the store is opened.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of keys. A key whose record has expired counts until a write or compaction removes
    /// the record.
    pub keys: u64,
    /// Number of segments, including the active one.
    pub segments: u64,
    /// Bytes of the segments' files, including reserved space that is not used yet.
    pub disk_bytes: u64,
    /// Bytes of the files of segments that compaction took out of the store and that are still on
    /// disk, in addition to `disk_bytes`: a [`Snapshot`](crate::log::Snapshot) or an iterator of
    /// this handle reads them, or their removal waits for a sync. Files held by readers in other
    /// processes are not included.
    pub held_bytes: u64,
    /// Bytes of the newest records of these keys.
    pub live_bytes: u64,
    /// How records are appended, or would be if the store were open for writing:
    /// [`AppendMode::Map`] or [`AppendMode::Write`]. `Auto` if that is not known.
    pub append_mode: AppendMode,
    /// Bytes of memory of the index.
    pub index_bytes: u64,
    /// Number of puts.
    pub puts: u64,
    /// Number of deletes.
    pub deletes: u64,
    /// Bytes of keys and values in these.
    pub user_bytes: u64,
    /// Bytes appended to the log for these.
    pub log_bytes: u64,
    /// Syncs of the log. Each is shared by all writers that wait.
    pub syncs: u64,
    /// Reads of a record that turned out to be another key's.
    pub false_reads: u64,
    /// Bytes that compaction appended.
    pub moved_bytes: u64,
    /// Bytes of hints, checkpoints and other maintenance files.
    pub maintenance_bytes: u64,
    /// Backups made.
    pub backups: u64,
    /// Segments that compaction removed.
    pub segments_removed: u64,
    /// What the opening did.
    pub recovery: Recovery,
}

impl Stats {
    /// Bytes appended to the log per byte of records written: 1 without compaction.
    pub fn write_amplification(&self) -> f64 {
        (self.log_bytes + self.moved_bytes) as f64 / (self.log_bytes as f64).max(1.0)
    }
}
