//! A hash map whose keys are keys of fields.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Hashes keys for an in-memory map: numbers by a folded multiplication (as in wyhash), bytes by
/// XXH3. Both use the seed of the map.
pub(crate) struct KeyHasher {
    hash: u64,
    seed: u64,
}

/// The random seed of one map, so that an attacker cannot choose keys with equal hashes. The
/// iteration order is random, too: output must never depend on it.
#[derive(Clone)]
pub(crate) struct KeySeed(u64);

impl Default for KeySeed {
    fn default() -> KeySeed {
        KeySeed(RandomState::new().hash_one(0u8))
    }
}

impl BuildHasher for KeySeed {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher { hash: 0, seed: self.0 }
    }
}

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        self.hash = self.hash.rotate_left(23) ^ xxh3_64_with_seed(bytes, self.seed);
    }

    fn write_u64(&mut self, v: u64) {
        let product = u128::from(v ^ self.seed) * 0xE703_7ED1_A0B4_28DB;
        self.hash = self.hash.rotate_left(23) ^ (product >> 64) as u64 ^ product as u64;
    }

    fn write_usize(&mut self, _: usize) {} // the length prefix of a slice is redundant
}

/// A hash map keyed by keys of fields.
pub(crate) type KeyMap<K, V> = HashMap<K, V, KeySeed>;
