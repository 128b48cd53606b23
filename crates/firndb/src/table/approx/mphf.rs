//! A minimal perfect hash function: maps n keys to 0..n without collisions, in about 2.7 bits per
//! key.
//!
//! It follows PtrHash (Groot Koerkamp, "PtrHash: Minimal Perfect Hashing at RAM Throughput", SEA
//! 2025), which is based on PTHash (Pibiri and Trani, SIGIR 2021). Keys fall into buckets of 3.5
//! keys on average, with a skewed distribution. Each bucket gets a *pilot*, a byte that maps all
//! its keys to free slots. If no byte does, the builder takes the pilot whose conflicts are
//! cheapest, evicts the buckets in conflict, and places them again. One slot in a hundred stays
//! free, which bounds the number of evictions. Slots from n on are remapped to free slots below n.
//!
//! ```text
//! key      128 bits of hash; its halves are high and low
//! x        low + seed * high, modulo 2^64
//! bucket   c B / 2^64, where c = (255 / 256) x^2 (2^64 + x) / 2^129 + x / 256 is rounded down at
//!          each step; B = ceil(2 n / 7) buckets
//! slot     y S / 2^64, where y = (x xor (pilot + 1) * C1) * C2 modulo 2^64; S = n + n / 99 slots
//! result   the slot if it is below n, otherwise its entry in the table of remapped slots
//! ```
//!
//! C1 is 0x9E3779B97F4A7C15, C2 is 0xD6E8FEB86659FD93.

use std::collections::BinaryHeap;

const C1: u64 = 0x9E37_79B9_7F4A_7C15;
const C2: u64 = 0xD6E8_FEB8_6659_FD93;
/// Most seeds that are tried. All fail only if hashes are equal.
const MAX_SEEDS: u64 = 64;
const FREE: u32 = u32::MAX;
/// Number of recently placed buckets, which are not evicted.
const RECENT: usize = 16;

/// A 128-bit hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash {
    pub(crate) high: u64,
    pub(crate) low: u64,
}

/// Buckets for `n` keys.
pub(crate) fn buckets_for(n: u64) -> u64 {
    (2 * n).div_ceil(7)
}

/// Slots beyond the first `n`, for `n` keys.
pub(crate) fn remapped_for(n: u64) -> u64 {
    n / 99
}

#[inline(always)]
fn times(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// The number from which the bucket and the slot of a key are derived.
#[inline(always)]
pub(crate) fn mix(hash: Hash, seed: u64) -> u64 {
    hash.low.wrapping_add(seed.wrapping_mul(hash.high))
}

/// The bucket of a key.
#[inline(always)]
pub(crate) fn bucket(x: u64, buckets: u64) -> u64 {
    let curve = times(times(x, x), 1 << 63 | x >> 1);
    times(curve / 256 * 255 + x / 256, buckets)
}

/// The slot of a key.
#[inline(always)]
pub(crate) fn slot(x: u64, pilot: u8, slots: u64) -> u64 {
    let y = (x ^ (u64::from(pilot) + 1).wrapping_mul(C1)).wrapping_mul(C2);
    times(y, slots)
}

/// A minimal perfect hash function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PerfectHash {
    pub(crate) seed: u64,
    pub(crate) pilots: Vec<u8>,
    /// For each slot from n on, a distinct slot below n.
    pub(crate) remap: Vec<u32>,
}

impl PerfectHash {
    /// The slot of a key; `n` is the number of keys.
    pub(crate) fn get(&self, hash: Hash, n: u64) -> u64 {
        let x = mix(hash, self.seed);
        let pilot = self.pilots[bucket(x, self.pilots.len() as u64) as usize];
        let slot = slot(x, pilot, n + self.remap.len() as u64);
        if slot < n { slot } else { u64::from(self.remap[(slot - n) as usize]) }
    }
}

/// Builds the function of fewer than 2^32 keys. `None` if two keys are equal, or were crafted to
/// collide under each seed that is tried.
pub(crate) fn build_perfect_hash(keys: &[Hash]) -> Option<PerfectHash> {
    for seed in 0..MAX_SEEDS {
        if let Some(mut maker) = PerfectHashBuilder::new(keys, seed)
            && maker.place_all()
        {
            return Some(maker.finish(seed));
        }
        if seed == 0 && two_are_equal(keys) {
            return None;
        }
    }
    None
}

fn two_are_equal(keys: &[Hash]) -> bool {
    let mut sorted: Vec<(u64, u64)> = keys.iter().map(|hash| (hash.high, hash.low)).collect();
    sorted.sort_unstable();
    sorted.windows(2).any(|two| two[0] == two[1])
}

/// Places the buckets of a shard under one seed.
struct PerfectHashBuilder {
    /// The keys of bucket 0, of bucket 1, ...
    keys: Vec<u64>,
    /// Start of the keys of each bucket.
    starts: Vec<u32>,
    pilots: Vec<u8>,
    /// The bucket that owns each slot.
    owners: Vec<u32>,
    /// One bit per slot: the slot has an owner.
    taken: Vec<u64>,
    recent: [u32; RECENT],
    evictions: usize,
}

impl PerfectHashBuilder {
    /// `None` if two keys of a bucket collide under this seed.
    fn new(hashes: &[Hash], seed: u64) -> Option<PerfectHashBuilder> {
        let n = hashes.len() as u64;
        let buckets = buckets_for(n);
        let number = |hash: &Hash| bucket(mix(*hash, seed), buckets) as usize;
        let mut starts = vec![0u32; buckets as usize + 1];
        hashes.iter().for_each(|hash| starts[number(hash) + 1] += 1);
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let (mut next, mut keys) = (starts.clone(), vec![0; hashes.len()]);
        for hash in hashes {
            let at = &mut next[number(hash)];
            keys[*at as usize] = mix(*hash, seed);
            *at += 1;
        }
        for ends in starts.windows(2) {
            let bucket = &mut keys[ends[0] as usize..ends[1] as usize];
            bucket.sort_unstable();
            if bucket.windows(2).any(|two| two[0] == two[1]) {
                return None;
            }
        }
        let slots = (n + remapped_for(n)) as usize;
        Some(PerfectHashBuilder {
            keys,
            starts,
            pilots: vec![0; buckets as usize],
            owners: vec![FREE; slots],
            taken: vec![0; slots.div_ceil(64)],
            recent: [FREE; RECENT],
            evictions: 0,
        })
    }

    fn size(&self, bucket: u32) -> usize {
        (self.starts[bucket as usize + 1] - self.starts[bucket as usize]) as usize
    }

    fn keys(&self, bucket: u32) -> &[u64] {
        let ends = self.starts[bucket as usize]..self.starts[bucket as usize + 1];
        &self.keys[ends.start as usize..ends.end as usize]
    }

    /// Places all buckets, the largest first. Returns whether it succeeded.
    fn place_all(&mut self) -> bool {
        let mut order: Vec<u32> = (0..self.pilots.len() as u32).collect();
        order.sort_by_key(|&bucket| std::cmp::Reverse(self.size(bucket)));
        let mut queue = BinaryHeap::new();
        for bucket in order {
            queue.push((self.size(bucket), bucket));
            while let Some((_, bucket)) = queue.pop() {
                let pilot = match self.free_pilot(bucket) {
                    Some(pilot) => pilot,
                    None => match self.cheapest_pilot(bucket) {
                        Some(pilot) => pilot,
                        None => return false,
                    },
                };
                self.take(bucket, pilot, &mut queue);
                if self.evictions > 1000 + 10 * self.pilots.len() {
                    return false;
                }
            }
        }
        true
    }

    /// The first pilot that maps all keys to free, distinct slots.
    fn free_pilot(&self, bucket: u32) -> Option<u8> {
        let (keys, slots) = (self.keys(bucket), self.owners.len() as u64);
        let is_free = |slot: u64| self.taken[(slot / 64) as usize] >> (slot % 64) & 1 == 0;
        (0..=255).find(|&pilot| {
            keys.iter().all(|&x| is_free(slot(x, pilot, slots))) && is_apart(keys, pilot, slots)
        })
    }

    /// The pilot whose evictions cost least: small buckets, and none placed recently.
    fn cheapest_pilot(&self, bucket: u32) -> Option<u8> {
        let (keys, slots) = (self.keys(bucket), self.owners.len() as u64);
        let (mut best, mut cheapest) = (usize::MAX, None);
        // Starts with another pilot each time, so that two buckets do not evict each other forever.
        let first = (self.evictions as u8).wrapping_mul(101);
        for pilot in (0..=255).map(|i: u8| i.wrapping_add(first)) {
            let mut cost = 0;
            for &x in keys {
                let owner = self.owners[slot(x, pilot, slots) as usize];
                if owner != FREE {
                    let size = self.size(owner);
                    cost += if self.recent.contains(&owner) { 1 << 32 } else { size * size };
                }
                if cost >= best {
                    break;
                }
            }
            if cost < best.min(1 << 32) && is_apart(keys, pilot, slots) {
                (best, cheapest) = (cost, Some(pilot));
            }
        }
        cheapest
    }

    /// Gives a bucket the slots of a pilot. Evicted buckets go to the queue.
    fn take(&mut self, bucket: u32, pilot: u8, queue: &mut BinaryHeap<(usize, u32)>) {
        let slots = self.owners.len() as u64;
        let range =
            self.starts[bucket as usize] as usize..self.starts[bucket as usize + 1] as usize;
        for i in range.clone() {
            let owner = self.owners[slot(self.keys[i], pilot, slots) as usize];
            if owner != FREE {
                self.set(owner, self.pilots[owner as usize], FREE);
                queue.push((self.size(owner), owner));
                self.evictions += 1;
            }
        }
        self.pilots[bucket as usize] = pilot;
        self.set(bucket, pilot, bucket);
        self.recent[self.evictions % RECENT] = bucket;
    }

    fn set(&mut self, bucket: u32, pilot: u8, owner: u32) {
        let slots = self.owners.len() as u64;
        for i in self.starts[bucket as usize]..self.starts[bucket as usize + 1] {
            let slot = slot(self.keys[i as usize], pilot, slots) as usize;
            self.owners[slot] = owner;
            let bit = 1 << (slot % 64);
            if owner == FREE {
                self.taken[slot / 64] &= !bit;
            } else {
                self.taken[slot / 64] |= bit;
            }
        }
    }

    fn finish(self, seed: u64) -> PerfectHash {
        let n = self.keys.len();
        let mut free = (0..n as u32).filter(|&slot| self.owners[slot as usize] == FREE);
        let own = |owner: &u32| if *owner == FREE { 0 } else { free.next().unwrap_or(0) };
        let remap = self.owners[n..].iter().map(own).collect();
        PerfectHash { seed, pilots: self.pilots, remap }
    }
}

/// Whether a pilot maps all keys of a bucket to distinct slots.
fn is_apart(keys: &[u64], pilot: u8, slots: u64) -> bool {
    let meets = |i: usize| {
        let at = slot(keys[i], pilot, slots);
        keys[..i].iter().any(|&other| slot(other, pilot, slots) == at)
    };
    !(1..keys.len()).any(meets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    fn keys(n: usize, seed: u64) -> Vec<Hash> {
        let mut rng = Rng(seed);
        (0..n).map(|_| Hash { high: rng.next(), low: rng.next() }).collect()
    }

    fn check(keys: &[Hash]) -> PerfectHash {
        let made = build_perfect_hash(keys).unwrap();
        let mut seen = vec![false; keys.len()];
        for &key in keys {
            let at = made.get(key, keys.len() as u64) as usize;
            assert!(!std::mem::replace(&mut seen[at], true), "{at} twice");
        }
        made
    }

    #[test]
    fn function_is_a_bijection() {
        for n in (0..300).chain([1000, 4096, 65_536, 100_000]) {
            let made = check(&keys(n, n as u64));
            assert_eq!(made.pilots.len() as u64, buckets_for(n as u64));
            assert!(n < 50 || made.seed < 10, "{n} keys needed seed {}", made.seed);
        }
    }

    #[test]
    fn function_does_not_depend_on_key_order() {
        let mut keys = keys(5_000, 7);
        let made = check(&keys);
        Rng(8).shuffle(&mut keys);
        assert_eq!(check(&keys), made);
    }

    #[test]
    fn equal_halves_of_hashes_are_allowed() {
        let same_low = |i: u64| Hash { high: i.wrapping_mul(C1), low: 5 };
        check(&(0..1000).map(same_low).collect::<Vec<_>>());
        let same_high = |i: u64| Hash { high: 5, low: i.wrapping_mul(C1) };
        check(&(0..1000).map(same_high).collect::<Vec<_>>());
        let twice = [keys(3, 1), keys(3, 1)].concat();
        assert!(
            build_perfect_hash(&twice).is_none()
                && two_are_equal(&twice)
                && !two_are_equal(&twice[..3])
        );
    }
}
