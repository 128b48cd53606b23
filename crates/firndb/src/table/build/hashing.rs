//! The hash of a build, and its limit of keys per bin.
//!
//! XXH3 is not cryptographic: it is easy to craft keys that share a hash or a bin
//! (`format/directory.rs`). All records of a bin are in one block, so each get of such a key would
//! read and search all of them. A build therefore counts. If more than [`MAX_KEYS_PER_BIN`] keys
//! share a bin, it hashes all keys again under a *seed*, which the table stores (`reseed.rs`).
//!
//! A fixed list of seeds would not help, because keys can be crafted for each of them. The seed is
//! derived from all keys instead: it is known only once the last key is, and changing a key changes
//! it. It does not depend on the order of records, on threads or memory, so the same records still
//! give the same bytes.

use crate::Error;
use crate::bytes::int::{Encoder, u64_at};
use std::sync::atomic::{AtomicBool, Ordering};

/// Most keys per bin. With uniform hashes the mean is 1/128, and in a table of 10^13 records the
/// fullest bin has about seven.
pub(crate) const MAX_KEYS_PER_BIN: usize = 16;
/// Seeds that a build tries before it fails.
pub(crate) const MAX_SEEDS: u64 = 4;

/// A hash function of keys, and its seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashing {
    of: fn(&[u8], u64) -> u64,
    pub(crate) seed: u64,
}

impl Hashing {
    /// This hash function with seed 0. Tables use [`hash_of`](crate::table::format::hash::hash_of).
    pub(crate) fn new(of: fn(&[u8], u64) -> u64) -> Hashing {
        Hashing { of, seed: 0 }
    }

    #[inline(always)]
    pub(crate) fn of(self, key: &[u8]) -> u64 {
        (self.of)(key, self.seed)
    }
}

/// The limit of keys that share a bin, and whether it was exceeded.
#[derive(Debug)]
pub(crate) struct CollisionLimit {
    pub(crate) max_keys: usize,
    exceeded: AtomicBool,
}

impl CollisionLimit {
    pub(crate) fn new(max_keys: usize) -> CollisionLimit {
        CollisionLimit { max_keys, exceeded: AtomicBool::new(false) }
    }

    /// Records that the limit was exceeded, and returns the error.
    #[cold]
    pub(crate) fn exceed(&self) -> Error {
        self.exceeded.store(true, Ordering::Relaxed);
        Error::invalid(format!(
            "too many keys have equal hashes, also under {MAX_SEEDS} seeds derived from all keys: \
             the keys were crafted"
        ))
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::Relaxed)
    }
}

/// The seeds of a build.
#[derive(Debug)]
pub(crate) struct Seeds {
    /// The hash function of the table.
    of: fn(&[u8], u64) -> u64,
    /// Digest of all keys, once computed.
    pub(crate) digest: Option<[u8; 32]>,
    tried: u64,
}

impl Seeds {
    /// The seeds of a build that has tried seed 0.
    pub(crate) fn new(hashing: Hashing) -> Seeds {
        Seeds { of: hashing.of, digest: None, tried: 0 }
    }

    /// Whether another seed can be tried.
    pub(crate) fn are_left(&self) -> bool {
        self.tried < MAX_SEEDS
    }

    /// The next seed, derived from the digest of all keys.
    pub(crate) fn next(&mut self, digest: [u8; 32]) -> Hashing {
        self.tried += 1;
        let mut bytes = Encoder(digest.to_vec());
        bytes.u64(self.tried);
        let seed = u64_at(blake3::hash(&bytes.0).as_bytes(), 0);
        Hashing { of: self.of, seed: seed.max(1) }
    }
}
