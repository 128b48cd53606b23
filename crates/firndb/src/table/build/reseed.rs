//! Hashes all records again under a seed derived from all keys, if too many keys share a bin.
//! `hashing.rs` has the reasons.

use crate::Result;
use crate::bytes::int::{Encoder, u64_at};
use crate::table::build::encode::Item;
use crate::table::build::gather::GatherContext;
use crate::table::build::hashing::{CollisionLimit, Hashing, Seeds};
use crate::table::build::partitions::Partitions;
use crate::table::build::raw::Added;
use crate::table::build::sort::{Policy, sort};
use crate::table::format::directory::bin_of;

/// A collision-resistant hash. It orders the keys for the digest.
fn collision_resistant_hash(key: &[u8], _: u64) -> u64 {
    u64_at(blake3::hash(key).as_bytes(), 0)
}

/// What reseeding needs from the build.
pub(crate) struct ReseedContext<'a> {
    pub(crate) context: GatherContext<'a>,
    pub(crate) name: &'a (dyn Fn(u64) -> String + Sync),
    /// Called regularly; an error ends the build.
    pub(crate) on_progress: &'a mut dyn FnMut() -> Result<()>,
}

impl Partitions {
    /// The same records, partitioned under the next seed. Needs the memory of a build, and
    /// temporarily twice the temporary file.
    pub(crate) fn reseeded(
        self,
        seeds: &mut Seeds,
        with: &mut ReseedContext,
    ) -> Result<Partitions> {
        let (digest, records) = match seeds.digest {
            Some(digest) => (digest, self),
            None => {
                let ordered = self.split_by(Hashing::new(collision_resistant_hash), with)?;
                (ordered.digest(with)?, ordered)
            }
        };
        seeds.digest = Some(digest);
        records.split_by(seeds.next(digest), with)
    }

    /// The same records, partitioned by another hash.
    fn split_by(self, hashing: Hashing, with: &mut ReseedContext) -> Result<Partitions> {
        let mut split = Partitions::new(self.temp_space.clone(), hashing);
        for number in (0..self.len()).filter(|&number| !self.is_empty(number)) {
            (with.on_progress)()?;
            self.each(number, with.context.stop, &mut |added| {
                split.push(Added { hash: hashing.of(added.record.key()), ..added })
            })?;
            // Frees the memory, so that the new partitions can use it.
            self.release(number);
        }
        split.spilled_before = self.spilled();
        split.seal()?;
        Ok(split)
    }

    /// A digest of all distinct keys, in the order of the hash.
    fn digest(&self, with: &mut ReseedContext) -> Result<[u8; 32]> {
        let mut digest = blake3::Hasher::new();
        let duplicates = with.context.duplicates;
        let policy = Policy { hash: self.hash(), duplicates, name: with.name };
        for number in (0..self.len()).filter(|&number| !self.is_empty(number)) {
            (with.on_progress)()?;
            self.gather(number, with.context, &mut |pieces, _| {
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

/// Checks ordered records for bins with too many keys.
pub(crate) struct CollisionCheck<'a> {
    limit: &'a CollisionLimit,
    slots: u64,
    /// The hashes of the last records, at most as many as may share a bin.
    last: Vec<u64>,
}

impl CollisionCheck<'_> {
    /// A check for a directory of `slots` slots.
    pub(crate) fn new(limit: &CollisionLimit, slots: u64) -> CollisionCheck<'_> {
        CollisionCheck { limit, slots, last: Vec::new() }
    }

    /// Checks the next records, whose keys are distinct. An error if too many share a bin; then the
    /// limit counts as exceeded.
    pub(crate) fn check(&mut self, items: &[Item]) -> Result<()> {
        let most = self.limit.max_keys;
        // Hashes of one bin differ by less than this. The test is cheap and excludes nearly all
        // pairs.
        let span = (1 << 48) / self.slots.max(1) + 1;
        let at = |hash: u64| bin_of(hash, self.slots);
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
