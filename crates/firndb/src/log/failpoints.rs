//! Bugs on purpose: what proves that the tests of crashes would notice.
//!
//! A place in the code asks [`Failpoint::is_on`] whether it shall misbehave. In tests one thread switches
//! one bug on for itself; everywhere else the answer is a constant `false`, and nothing of it is in
//! the program.

use std::sync::atomic::Ordering;

/// What may be wrong. Each name says what the code leaves out or does instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failpoint {
    /// A write that asked for `Sync` is acknowledged at once.
    AcknowledgeWithoutSync,
    /// Only the active segment is synced, not those before it.
    SyncActiveOnly,
    /// The names of new segments are taken for durable without a sync of the directory.
    NameWithoutDirectorySync,
    /// The segment that is being written is taken for durable as a whole.
    DurableTooFar,
    /// A failed sync is reported to nobody.
    SwallowFailedSync,
    /// A record's checksum is not looked at.
    SkipChecksum,
    /// Records of a batch are taken over before its end was seen.
    AcceptHalfBatch,
    /// A segment is taken for a part of the log wherever the one before it ends.
    IgnoreLinks,
    /// Records go on behind an end that is torn.
    ResumeTornSegment,
    /// Segments are put into the index in the wrong order.
    ReplayBackwards,
    /// Deletes are not replayed.
    ForgetDeletesOnReplay,
    /// A checkpoint is taken for the whole store, whatever was written since.
    TrustCheckpoint,
    /// A checkpoint is published while the end of the log, of which it knows, is not durable.
    CheckpointBeforeSync,
    /// Compaction does not copy deletes.
    ForgetTombstone,
    /// Compaction drops records whose time has passed without a delete.
    ForgetExpired,
    /// Compaction makes records immortal.
    ForgetExpiry,
    /// Compaction appends a record again behind a newer one that is pending.
    MoveOverDeferred,
    /// Compaction removes a file before its copies are durable.
    RemoveBeforeSync,
    /// Compaction does not say in the log that a segment is gone.
    ForgetRemoval,
    /// A hint is written for a segment that is not durable.
    HintBeforeSync,
    /// Closing does not sync.
    CloseWithoutSync,
    /// A search does not look whether its shard was rebuilt meanwhile.
    ForgetRebuilds,
    /// A shard that was rebuilt twice looks as it did before.
    CountNoRebuilds,
    /// A rebuilt shard appears before what is in it.
    PublishShardRelaxed,
    /// Entries that make room for another one appear after it.
    ShiftRelaxed,
    /// An entry is put aside after it left its shard.
    DisplaceTooLate,
    /// A shard's word does not change when it is given an entry back.
    RestoreWithoutVersion,
    /// What is aside is shown whether or not the search saw what took its slot.
    TrustDisplaced,
    /// An entry is not late any more before it is in its shard.
    DropBufferedEarly,
    /// Another entry is late in a slot before the last one is in its shard.
    BufferRelaxed,
    /// What was put aside is taken for the same key's.
    SettleWithoutComparing,
    /// A place without a segment is taken for none.
    TrustOldTable,
    /// A slot of the table is used again while somebody holds its former segment.
    ReuseSlotAtOnce,
    /// No space is kept for what frees space.
    KeepNoReserve,
    /// A backup leaves out the newest segment.
    BackupWithoutNewest,
    /// The names in a backup are not synced.
    BackupWithoutDirectorySync,
}

impl Failpoint {
    /// Whether this bug is on in this thread.
    #[cfg(not(any(test, firndb_model)))]
    #[inline(always)]
    pub(crate) const fn is_on(self) -> bool {
        false
    }

    /// Whether this bug is on in this thread.
    #[cfg(any(test, firndb_model))]
    pub(crate) fn is_on(self) -> bool {
        active::FAILPOINT.get() == Some(self)
    }

    /// The order of a store that needs `Release`, unless this bug is on.
    #[inline(always)]
    pub(crate) fn instead_of_release(self) -> Ordering {
        if self.is_on() { Ordering::Relaxed } else { Ordering::Release }
    }
}

/// What tests set for their thread.
#[cfg(any(test, firndb_model))]
pub(crate) mod active {
    use super::Failpoint;
    use std::cell::Cell;

    thread_local! {
        pub(crate) static FAILPOINT: Cell<Option<Failpoint>> = const { Cell::new(None) };
        /// The id of every new store, so that the same seed gives the same bytes.
        pub(crate) static STORE: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// What the ids of stores begin with whose keys have few hashes.
    #[cfg(test)]
    const COARSE: u64 = 0xC0A5;

    /// The id of a store whose keys' hashes have so many bits (1 to 63), so that many keys have the
    /// same. `seed` is below 2^40.
    #[cfg(test)]
    pub(crate) fn coarse(bits: u32, seed: u64) -> u64 {
        COARSE << 48 | u64::from(bits) << 40 | seed
    }

    /// The hash of a key in a store of this id, from what it would be in others.
    #[cfg(test)]
    pub(crate) fn hash(hash: u64, store: u64) -> u64 {
        let bits = store >> 40 & 0xFF;
        // Other ids are random, and may begin so too.
        if store >> 48 != COARSE || !(1..64).contains(&bits) {
            return hash;
        }
        (hash >> (64 - bits)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}
