//! [`Stats`]: the size of a store and counts of its operations.

use crate::bytes::metric::Metric;
use crate::disk::AppendMode;

/// What an opening or a promotion did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
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

/// A segment of a store at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SegmentStats {
    /// Its number. Later records are in segments with larger numbers.
    pub number: u64,
    /// Bytes of its file.
    pub disk_bytes: u64,
    /// Bytes up to the end of its last record.
    pub used_bytes: u64,
    /// Bytes of the newest records of keys.
    pub live_bytes: u64,
    /// Bytes of deletes, which hide older records until compaction finds that there are none.
    pub delete_bytes: u64,
    /// Share, 0 to 1, that compaction would free: what is compared with
    /// [`Options::compaction_threshold`](crate::log::Options::compaction_threshold). Deletes count
    /// as live here.
    pub stale_share: f64,
    /// Whether the segment is full and durable, so that compaction may take it.
    pub is_sealed: bool,
}

/// The state of a store at one moment. Counts begin when the store is opened; those of an interval
/// are the difference of two states: see [`Stats::since`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
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
    /// Whether the store is ordered: see
    /// [`Options::ordered`](crate::log::Options::ordered). The next three are 0 if it is not.
    pub is_ordered: bool,
    /// Number of key runs: files with the sorted keys of sealed segments.
    pub key_runs: u64,
    /// Bytes of these files, in addition to `disk_bytes`.
    pub key_run_bytes: u64,
    /// Bytes of memory for the sorted keys of segments that have no key run yet.
    pub tail_bytes: u64,
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
    /// Records that compaction appended, each in place of its original.
    pub moved_records: u64,
    /// Puts and deletes in the segments that compaction went through. Those that were not moved
    /// were stale.
    pub scanned_records: u64,
    /// Bytes of the files that compaction took out of the store. What it gained is this less
    /// `moved_bytes`.
    pub removed_bytes: u64,
    /// Seconds that compaction took, pauses for its rate limit included.
    pub compaction_seconds: f64,
    /// Whether compaction copies records at this moment.
    pub is_compacting: bool,
    /// Sealed segments whose stale share has reached the threshold: they wait for compaction.
    pub pending_segments: u64,
    /// Bytes of hints, checkpoints and other maintenance files.
    pub maintenance_bytes: u64,
    /// Backups made.
    pub backups: u64,
    /// Segments that compaction removed.
    pub segments_removed: u64,
    /// What the opening did; after a promotion, what that did.
    pub recovery: Recovery,
    /// Seconds since the store was opened, in which all counts were made.
    pub seconds: f64,
    /// The segments, ordered by number.
    pub segment_stats: Vec<SegmentStats>,
}

impl Stats {
    /// The counts of an interval: those of this state less those of an earlier one of the same
    /// opening. Sizes and states stay as they are. Any number of observers can measure intervals of
    /// their own, because nothing is reset.
    ///
    /// ```
    /// # use firndb::log::LogStore;
    /// # fn watch(store: &LogStore) {
    /// let before = store.stats();
    /// std::thread::sleep(std::time::Duration::from_secs(10));
    /// let interval = store.stats().since(&before);
    /// println!("{} puts, {:.0} bytes/s copied", interval.puts, interval.compaction_rate());
    /// # }
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Stats) -> Stats {
        let mut interval = self.clone();
        for (count, before) in [
            (&mut interval.puts, earlier.puts),
            (&mut interval.deletes, earlier.deletes),
            (&mut interval.user_bytes, earlier.user_bytes),
            (&mut interval.log_bytes, earlier.log_bytes),
            (&mut interval.syncs, earlier.syncs),
            (&mut interval.false_reads, earlier.false_reads),
            (&mut interval.moved_bytes, earlier.moved_bytes),
            (&mut interval.moved_records, earlier.moved_records),
            (&mut interval.scanned_records, earlier.scanned_records),
            (&mut interval.removed_bytes, earlier.removed_bytes),
            (&mut interval.maintenance_bytes, earlier.maintenance_bytes),
            (&mut interval.backups, earlier.backups),
            (&mut interval.segments_removed, earlier.segments_removed),
        ] {
            *count = count.saturating_sub(before);
        }
        interval.seconds = (self.seconds - earlier.seconds).max(0.0);
        let compaction = self.compaction_seconds - earlier.compaction_seconds;
        interval.compaction_seconds = compaction.max(0.0);
        interval
    }

    /// Bytes that compaction appended per second of the interval.
    pub fn compaction_rate(&self) -> f64 {
        per_second(self.moved_bytes, self.seconds)
    }

    /// Bytes of records written per second of the interval, without compaction.
    pub fn log_rate(&self) -> f64 {
        per_second(self.log_bytes, self.seconds)
    }

    /// Puts and deletes per second of the interval.
    pub fn write_rate(&self) -> f64 {
        per_second(self.puts + self.deletes, self.seconds)
    }

    /// The figures for monitoring. Those of single segments are left out.
    pub fn metrics(&self) -> Vec<Metric> {
        let recovered = self.recovery.dropped_bytes;
        vec![
            Metric::gauge("firndb_log_keys", "Keys in the store", self.keys),
            Metric::gauge("firndb_log_segments", "Segments of the log", self.segments),
            Metric::gauge("firndb_log_disk_bytes", "Bytes of the segments", self.disk_bytes),
            Metric::gauge("firndb_log_held_bytes", "Bytes of removed segments", self.held_bytes),
            Metric::gauge("firndb_log_live_bytes", "Bytes of newest records", self.live_bytes),
            Metric::gauge("firndb_log_index_bytes", "Memory of the index", self.index_bytes),
            Metric::gauge("firndb_log_key_runs", "Files of sorted keys", self.key_runs),
            Metric::gauge(
                "firndb_log_key_run_bytes",
                "Bytes of the files of sorted keys",
                self.key_run_bytes,
            ),
            Metric::gauge(
                "firndb_log_tail_bytes",
                "Memory for sorted keys that are not in a file yet",
                self.tail_bytes,
            ),
            Metric::gauge(
                "firndb_log_pending_segments",
                "Segments that wait for compaction",
                self.pending_segments,
            ),
            Metric::gauge(
                "firndb_log_compacting",
                "Whether compaction copies records",
                self.is_compacting.into(),
            ),
            Metric::counter("firndb_log_puts_total", "Puts", self.puts),
            Metric::counter("firndb_log_deletes_total", "Deletes", self.deletes),
            Metric::counter("firndb_log_user_bytes_total", "Keys and values put", self.user_bytes),
            Metric::counter("firndb_log_written_bytes_total", "Records appended", self.log_bytes),
            Metric::counter("firndb_log_syncs_total", "Syncs of the log", self.syncs),
            Metric::counter(
                "firndb_log_false_reads_total",
                "Reads of a record of another key",
                self.false_reads,
            ),
            Metric::counter(
                "firndb_log_moved_bytes_total",
                "Bytes appended by compaction",
                self.moved_bytes,
            ),
            Metric::counter(
                "firndb_log_moved_records_total",
                "Records appended by compaction",
                self.moved_records,
            ),
            Metric::counter(
                "firndb_log_removed_bytes_total",
                "Bytes of segments removed by compaction",
                self.removed_bytes,
            ),
            Metric::counter(
                "firndb_log_maintenance_bytes_total",
                "Bytes of hints and checkpoints written",
                self.maintenance_bytes,
            ),
            Metric::counter("firndb_log_backups_total", "Backups made", self.backups),
            Metric::gauge(
                "firndb_log_recovery_dropped_bytes",
                "Bytes of a torn write that the opening dropped",
                recovered,
            ),
        ]
    }

    /// Bytes appended to the log per byte of records written: 1 without compaction.
    pub fn write_amplification(&self) -> f64 {
        (self.log_bytes + self.moved_bytes) as f64 / (self.log_bytes as f64).max(1.0)
    }
}

fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}
