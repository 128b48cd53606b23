//! Collects the distinct keys of a field while documents are added. Keys are numbered in order of
//! first appearance; at the end they are sorted, and the numbers map to ordinals.

use crate::search::codec::dictionary::Keys;
use crate::search::model::key_map::KeyMap;
use crate::search::model::value::Key;

/// Numbers distinct keys in order of first appearance.
#[derive(Default)]
pub(crate) struct Interner {
    fixed: KeyMap<u64, u32>,
    bytes: KeyMap<Vec<u8>, u32>,
    key_bytes: usize,
}

impl Interner {
    /// The number of a key; a new key gets the next number.
    pub(crate) fn intern(&mut self, key: Key) -> u32 {
        match key {
            Key::Fixed(key) => {
                let next = self.fixed.len() as u32;
                *self.fixed.entry(key).or_insert(next)
            }
            Key::Bytes(key) => {
                let next = self.bytes.len() as u32;
                let len = key.len();
                let number = *self.bytes.entry(key).or_insert(next);
                self.key_bytes += if number == next { allocation_size(len) } else { 0 };
                number
            }
        }
    }

    /// Memory in use, in bytes. Includes the empty slots of the hash tables, which are at least
    /// 7/16 full.
    pub(crate) fn memory(&self) -> usize {
        self.table_bytes() + self.key_bytes
    }

    /// The size of the hash tables, without the keys on the heap.
    fn table_bytes(&self) -> usize {
        self.fixed.capacity() * 17 * 8 / 7 + self.bytes.capacity() * 33 * 8 / 7
    }

    /// Bytes that `more` keys may take in addition to their own: a full hash table is rehashed into
    /// one of twice its size, and both exist meanwhile.
    pub(crate) fn growth(&self, more: usize) -> usize {
        let full = |len: usize, capacity: usize| len > 0 && len + more > capacity;
        let grows = full(self.fixed.len(), self.fixed.capacity())
            || full(self.bytes.len(), self.bytes.capacity());
        if grows { 2 * self.table_bytes() } else { 0 }
    }

    /// The keys in ascending order, and the ordinal of each number.
    pub(crate) fn finish(self, fixed: bool) -> (Keys, Vec<u32>) {
        if fixed {
            let (keys, ordinals) = sort_keys(self.fixed);
            (Keys::Fixed(keys), ordinals)
        } else {
            let (keys, ordinals) = sort_keys(self.bytes);
            (Keys::Bytes(keys), ordinals)
        }
    }
}

/// The size of an allocation of `len` bytes, rounded as common allocators do.
fn allocation_size(len: usize) -> usize {
    if len == 0 { 0 } else { (len + 8).next_multiple_of(16).max(32) }
}

fn sort_keys<K: Ord>(map: KeyMap<K, u32>) -> (Vec<K>, Vec<u32>) {
    let mut entries: Vec<(K, u32)> = map.into_iter().collect();
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let mut ordinals = vec![0; entries.len()];
    entries.iter().zip(0..).for_each(|((_, number), ord)| ordinals[*number as usize] = ord);
    (entries.into_iter().map(|(key, _)| key).collect(), ordinals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::model::key_map::KeySeed;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    /// Crafts keys with equal unseeded XXH3-64 hashes: the first factor of a product is 0.
    #[test]
    fn crafted_keys_do_not_collide() {
        let crafted = |i: u64| {
            let mut key = vec![0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe];
            key.extend((0..8).map(|byte| (i >> (8 * byte)) as u8));
            key.extend([7; 16]);
            key
        };
        let unseeded = |i| xxhash_rust::xxh3::xxh3_64(&crafted(i));
        assert!((0..100).all(|i| unseeded(i) == unseeded(0)));
        let seed = KeySeed::default();
        let hashes: HashSet<u64> = (0..10_000).map(|i| seed.hash_one(crafted(i))).collect();
        assert_eq!(hashes.len(), 10_000);
        let other = KeySeed::default();
        assert_ne!(seed.hash_one(5u64), other.hash_one(5u64), "each table has its own seed");
        let mut interner = Interner::default();
        let numbers = (0..50_000u64).map(|i| interner.intern(Key::Bytes(crafted(i % 40_000))));
        assert!(numbers.eq((0..50_000u32).map(|i| i % 40_000)));
    }
}
