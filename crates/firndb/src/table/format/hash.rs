//! The hash of keys.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The hash by which a table with this seed knows a key.
#[inline(always)]
pub(crate) fn hash_of(key: &[u8], seed: u64) -> u64 {
    if seed == 0 { xxh3_64(key) } else { seeded(key, seed) }
}

/// Kept apart from the hash of most tables, whose seed is 0.
#[inline(never)]
fn seeded(key: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(key, seed)
}
