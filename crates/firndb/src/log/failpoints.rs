//! Failpoints: planted bugs, which prove that the crash tests would notice them.
//!
//! Code asks [`Failpoint::is_on`] whether to misbehave. A test switches one failpoint on for its
//! thread. In other builds the answer is a constant `false`, and the compiler removes the code.

use std::sync::atomic::Ordering;

/// The planted bugs. Each name says what the code omits or does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failpoint {
    /// A write with `Durability::Sync` is acknowledged without a sync.
    AcknowledgeWithoutSync,
    /// Only the active segment is synced, not those before it.
    SyncActiveOnly,
    /// The names of new segments are treated as durable without a sync of the directory.
    NameWithoutDirectorySync,
    /// The active segment is treated as durable as a whole.
    DurableTooFar,
    /// A failed sync is not reported.
    SwallowFailedSync,
    /// A record's checksum is not checked.
    SkipChecksum,
    /// Records of a batch are applied before the end of the batch was read.
    AcceptHalfBatch,
    /// A segment is treated as part of the log wherever the previous one ends.
    IgnoreLinks,
    /// Records are appended after a torn end.
    ResumeTornSegment,
    /// Segments are put into the index in the wrong order.
    ReplayBackwards,
    /// Deletes are not replayed.
    ForgetDeletesOnReplay,
    /// A checkpoint is treated as the whole store, ignoring later writes.
    TrustCheckpoint,
    /// A checkpoint is published before the log that it depends on is durable.
    CheckpointBeforeSync,
    /// Compaction does not copy deletes.
    ForgetTombstone,
    /// Compaction drops expired records without writing a delete.
    ForgetExpired,
    /// Compaction drops the expiry of records.
    ForgetExpiry,
    /// Compaction gives the records that it copies another version.
    ForgetVersion,
    /// Compaction appends a record again after a newer, deferred one.
    MoveOverDeferred,
    /// Compaction removes a file before its copies are durable.
    RemoveBeforeSync,
    /// Compaction writes no `Removed` record.
    ForgetRemoval,
    /// A hint is written for a segment that is not durable.
    HintBeforeSync,
    /// Closing does not sync.
    CloseWithoutSync,
    /// A search does not check whether its shard was rebuilt.
    ForgetRebuilds,
    /// A shard that was rebuilt twice has the same word as before.
    CountNoRebuilds,
    /// A shard is marked as split before its entries are in the two shards.
    SplitTooEarly,
    /// A rebuilt shard is published before its entries.
    PublishShardRelaxed,
    /// Entries that are shifted for an insertion become visible after it.
    ShiftRelaxed,
    /// An entry is added to the displaced set after it left its shard.
    DisplaceTooLate,
    /// A shard's word does not change when an entry is restored to it.
    RestoreWithoutVersion,
    /// A displaced entry is shown even if the search did not see the entry that took its slot.
    TrustDisplaced,
    /// A buffered insert is dropped before it is in its shard.
    DropBufferedEarly,
    /// A slot of the insert buffer is reused before its previous entry is in its shard.
    BufferRelaxed,
    /// A displaced entry is treated as the same key's without comparing keys.
    SettleWithoutComparing,
    /// A location without a segment is ignored, although the segment table may be outdated.
    TrustOldTable,
    /// A slot of the segment table is reused while a reader holds its former segment.
    ReuseSlotAtOnce,
    /// No disk space is reserved.
    KeepNoReserve,
    /// A backup omits the newest segment.
    BackupWithoutNewest,
    /// The names in a backup are not synced.
    BackupWithoutDirectorySync,
}

impl Failpoint {
    /// Whether this failpoint is on in this thread.
    #[cfg(not(any(test, firndb_model)))]
    #[inline(always)]
    pub(crate) const fn is_on(self) -> bool {
        false
    }

    /// Whether this failpoint is on in this thread.
    #[cfg(any(test, firndb_model))]
    pub(crate) fn is_on(self) -> bool {
        active::FAILPOINT.get() == Some(self)
    }

    /// The ordering of a store that needs `Release`; `Relaxed` if this failpoint is on.
    #[inline(always)]
    pub(crate) fn instead_of_release(self) -> Ordering {
        if self.is_on() { Ordering::Relaxed } else { Ordering::Release }
    }
}

/// Settings of tests for their thread.
#[cfg(any(test, firndb_model))]
pub(crate) mod active {
    use super::Failpoint;
    use std::cell::Cell;

    thread_local! {
        pub(crate) static FAILPOINT: Cell<Option<Failpoint>> = const { Cell::new(None) };
        /// The id of every new store, so that the same seed gives the same bytes.
        pub(crate) static STORE: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// The highest bits of the ids of stores whose keys have few hashes.
    #[cfg(test)]
    const COARSE: u64 = 0xC0A5;

    /// The id of a store whose keys' hashes have this many bits (1 to 63), so that many keys share
    /// a hash. `seed` is below 2^40.
    #[cfg(test)]
    pub(crate) fn coarse(bits: u32, seed: u64) -> u64 {
        COARSE << 48 | u64::from(bits) << 40 | seed
    }

    /// The hash of a key in a store of this id, from its full hash.
    #[cfg(test)]
    pub(crate) fn hash(hash: u64, store: u64) -> u64 {
        let bits = store >> 40 & 0xFF;
        // Other ids are random and may begin with the same bits.
        if store >> 48 != COARSE || !(1..64).contains(&bits) {
            return hash;
        }
        (hash >> (64 - bits)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}
