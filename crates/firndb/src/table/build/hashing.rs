//! The hash by which a table knows its keys, and what a build does about keys that were crafted to
//! have equal hashes.
//!
//! XXH3 is no cryptographic hash: anybody can make as many keys as they like that have one hash, or
//! whose hashes have one place (`directory.rs`). Records of one place stand in one block, so every
//! get of such a key would read and search all of them. A build therefore counts: if more than
//! [`MAX_KEYS_PER_BIN`] keys have one place, it hashes all keys anew under a *seed*, which the table keeps.
//!
//! A fixed list of seeds would not help, since whoever makes keys for seed 0 can add some for each
//! other seed. So the seed is made of the keys themselves ([`Partitions::reseeded`]): it is known
//! only when the last key is, and to change a key changes the seed. It does not depend on the order
//! in which records were added, nor on threads and memory: the same records give the same bytes.

use crate::Error;
use crate::bytes::int::{Encoder, u64_at};
use std::sync::atomic::{AtomicBool, Ordering};

/// Most keys of one place. Hashes that are spread evenly have 1/128 of a key to a place: in a table
/// of 10^13 records the fullest place has about seven.
pub(crate) const MAX_KEYS_PER_BIN: usize = 16;
/// Seeds that are tried before a build gives up.
pub(crate) const MAX_SEEDS: u64 = 4;

/// A hash of keys, and its seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashing {
    of: fn(&[u8], u64) -> u64,
    pub(crate) seed: u64,
}

impl Hashing {
    /// The hash that [`hash_of`] is, or another one; with seed 0.
    pub(crate) fn new(of: fn(&[u8], u64) -> u64) -> Hashing {
        Hashing { of, seed: 0 }
    }

    #[inline(always)]
    pub(crate) fn of(self, key: &[u8]) -> u64 {
        (self.of)(key, self.seed)
    }
}

/// How many keys may share a place, and whether more do.
#[derive(Debug)]
pub(crate) struct CollisionLimit {
    pub(crate) max_keys: usize,
    exceeded: AtomicBool,
}

impl CollisionLimit {
    pub(crate) fn new(max_keys: usize) -> CollisionLimit {
        CollisionLimit { max_keys, exceeded: AtomicBool::new(false) }
    }

    /// Remembers that too many keys share a place, and gives the error of that.
    #[cold]
    pub(crate) fn exceed(&self) -> Error {
        self.exceeded.store(true, Ordering::Relaxed);
        Error::invalid(format!(
            "too many of these keys have equal hashes, also under {MAX_SEEDS} seeds that were made of \
             all keys: they are no data"
        ))
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::Relaxed)
    }
}

/// The seeds of a build.
#[derive(Debug)]
pub(crate) struct Seeds {
    /// The hash of the table.
    of: fn(&[u8], u64) -> u64,
    /// A digest of all keys, once it was needed.
    pub(crate) digest: Option<[u8; 32]>,
    tried: u64,
}

impl Seeds {
    /// Of a build that has tried seed 0 of this hash.
    pub(crate) fn new(hashing: Hashing) -> Seeds {
        Seeds { of: hashing.of, digest: None, tried: 0 }
    }

    /// Whether there is another seed to try.
    pub(crate) fn are_left(&self) -> bool {
        self.tried < MAX_SEEDS
    }

    /// The next seed.
    pub(crate) fn next(&mut self, digest: [u8; 32]) -> Hashing {
        self.tried += 1;
        let mut bytes = Encoder(digest.to_vec());
        bytes.u64(self.tried);
        let seed = u64_at(blake3::hash(&bytes.0).as_bytes(), 0);
        Hashing { of: self.of, seed: seed.max(1) }
    }
}
