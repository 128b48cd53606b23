//! The hash that orders the records of a table: XXH3-64 of the key under the seed in the meta
//! section. The seed is 0 unless too many keys share a bin without one (`build/reseed.rs`).

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The hash of a key in a table with this seed.
#[inline(always)]
pub(crate) fn hash_of(key: &[u8], seed: u64) -> u64 {
    if seed == 0 { xxh3_64(key) } else { seeded(key, seed) }
}

/// A separate function, because nearly all tables have seed 0.
#[inline(never)]
fn seeded(key: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(key, seed)
}
