//! The hash by which a table knows its keys, and what a build does about keys that were crafted to
//! have equal hashes.
//!
//! XXH3 is no cryptographic hash: anybody can make as many keys as they like that have one hash, or
//! whose hashes have one place (`directory.rs`). Records of one place stand in one block, so every
//! get of such a key would read and search all of them. A build therefore counts: if more than
//! [`MOST`] keys have one place, it hashes all keys anew under a *seed*, which the table keeps.
//!
//! A fixed list of seeds would not help, since whoever makes keys for seed 0 can add some for each
//! other seed. So the seed is made of the keys themselves ([`Partitions::reseeded`]): it is known
//! only when the last key is, and to change a key changes the seed. It does not depend on the order
//! in which records were added, nor on threads and memory: the same records give the same bytes.

use super::directory::place;
use super::encode::Item;
use super::gather::Wanted;
use super::partitions::Partitions;
use super::raw::Added;
use super::sort::{Policy, sort};
use crate::bytes::int::{Encoder, u64_at};
use crate::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Most keys of one place. Hashes that are spread evenly have 1/128 of a key to a place: in a table
/// of 10^13 records the fullest place has about seven.
pub(crate) const MOST: usize = 16;
/// Seeds that are tried before a build gives up.
pub(crate) const SEEDS: u64 = 4;

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
pub(crate) struct Limit {
    pub(crate) most: usize,
    exceeded: AtomicBool,
}

impl Limit {
    pub(crate) fn new(most: usize) -> Limit {
        Limit { most, exceeded: AtomicBool::new(false) }
    }

    /// Remembers that too many keys share a place, and gives the error of that.
    #[cold]
    pub(crate) fn exceed(&self) -> Error {
        self.exceeded.store(true, Ordering::Relaxed);
        Error::invalid(format!(
            "too many of these keys have equal hashes, also under {SEEDS} seeds that were made of \
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
    digest: Option<[u8; 32]>,
    tried: u64,
}

impl Seeds {
    /// Of a build that has tried seed 0 of this hash.
    pub(crate) fn new(hashing: Hashing) -> Seeds {
        Seeds { of: hashing.of, digest: None, tried: 0 }
    }

    /// Whether there is another seed to try.
    pub(crate) fn are_left(&self) -> bool {
        self.tried < SEEDS
    }

    /// The next seed.
    fn next(&mut self, digest: [u8; 32]) -> Hashing {
        self.tried += 1;
        let mut bytes = Encoder(digest.to_vec());
        bytes.u64(self.tried);
        let seed = u64_at(blake3::hash(&bytes.0).as_bytes(), 0);
        Hashing { of: self.of, seed: seed.max(1) }
    }
}

/// A hash for which nobody can make keys, to put keys into an order in which there are no crowds.
fn crafted_by_nobody(key: &[u8], _: u64) -> u64 {
    u64_at(blake3::hash(key).as_bytes(), 0)
}

/// What a build that hashes its keys anew needs to know.
pub(crate) struct Reseeding<'a> {
    pub(crate) wanted: Wanted<'a>,
    pub(crate) name: &'a (dyn Fn(u64) -> String + Sync),
    /// Called now and then; an error ends the build.
    pub(crate) go_on: &'a mut dyn FnMut() -> Result<()>,
}

impl Partitions {
    /// The same records, split by the next seed. Takes the memory of a build, and while it runs up
    /// to twice the temporary file.
    pub(super) fn reseeded(self, seeds: &mut Seeds, with: &mut Reseeding) -> Result<Partitions> {
        let (digest, records) = match seeds.digest {
            Some(digest) => (digest, self),
            None => {
                let ordered = self.split_by(Hashing::new(crafted_by_nobody), with)?;
                (ordered.digest(with)?, ordered)
            }
        };
        seeds.digest = Some(digest);
        records.split_by(seeds.next(digest), with)
    }

    /// The same records, split by another hash.
    fn split_by(self, hashing: Hashing, with: &mut Reseeding) -> Result<Partitions> {
        let mut split = Partitions::new(self.place.clone(), hashing);
        for number in (0..self.len()).filter(|&number| !self.is_empty(number)) {
            (with.go_on)()?;
            self.each(number, with.wanted.stop, &mut |added| {
                split.push(Added { hash: hashing.of(added.record.key()), ..added })
            })?;
            // The memory of the one becomes that of the other.
            self.release(number);
        }
        split.spilled_before = self.spilled();
        split.seal()?;
        Ok(split)
    }

    /// A digest of all keys, each once, in the order of the hash.
    fn digest(&self, with: &mut Reseeding) -> Result<[u8; 32]> {
        let mut digest = blake3::Hasher::new();
        let duplicates = with.wanted.duplicates;
        let policy = Policy { hash: self.hash(), duplicates, name: with.name };
        for number in (0..self.len()).filter(|&number| !self.is_empty(number)) {
            (with.go_on)()?;
            self.gather(number, with.wanted, &mut |pieces, _| {
                let sorted = sort(pieces, &self.pools, policy, None)?;
                for (item, key, _) in sorted.run().iter() {
                    let mut length = Encoder::default();
                    length.u32(item.key);
                    digest.update(&length.0).update(key);
                }
                sorted.recycle(&self.pools);
                Ok(())
            })?;
        }
        Ok(*digest.finalize().as_bytes())
    }
}

/// Finds places of too many keys among records that come in order.
pub(crate) struct Crowds<'a> {
    limit: &'a Limit,
    slots: u64,
    /// The hashes that came last, as many as may have one place.
    last: Vec<u64>,
}

impl Crowds<'_> {
    /// For a table of so many slots.
    pub(crate) fn new(limit: &Limit, slots: u64) -> Crowds<'_> {
        Crowds { limit, slots, last: Vec::new() }
    }

    /// The next records, of distinct keys. An error, and the limit is exceeded, if with those
    /// before too many have one place.
    pub(crate) fn check(&mut self, items: &[Item]) -> Result<()> {
        let most = self.limit.most;
        // Hashes of one place differ by less: nearly all pairs are told apart by that.
        let span = (1 << 48) / self.slots.max(1) + 1;
        let at = |hash: u64| place(hash, self.slots);
        let hashes = || items.iter().map(|item| item.hash);
        let over_the_edge = self.last.iter().copied().zip(hashes().skip(most - self.last.len()));
        let within = hashes().zip(hashes().skip(most));
        let is_one_place =
            |(first, last): (u64, u64)| last.wrapping_sub(first) < span && at(first) == at(last);
        if over_the_edge.chain(within).any(is_one_place) {
            return Err(self.limit.exceed());
        }
        self.last.extend(hashes().skip(items.len().saturating_sub(most)));
        self.last.drain(..self.last.len().saturating_sub(most));
        Ok(())
    }
}
