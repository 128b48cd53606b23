//! The in-memory index: a sharded hash table from a key's hash to the location of its newest
//! record. It takes eight bytes per slot and at most 10.5 bytes per key in a large store.
//!
//! [`hash_index::Index`] is what readers share, [`writer::IndexWriter`] the right to change it;
//! [`writer::create`] makes both.
//!
//! ```text
//! SLOT   bits 63-40  the field: the bits of the key's hash below those that choose the shard, as
//!                    many as are known, at most 23; then a one; then zeros
//!        bits 39-26  slot of the segment in the segment table
//!        bits 25-0   offset in the segment, in units of its alignment; 0 with segment 1 marks a
//!                    removed entry
//!        0           an empty slot
//! ```
//!
//! A shard is an open-addressing table whose home positions grow with the hash, so its entries are
//! sorted by the bits that home positions depend on: a search ends at the first larger one, and the
//! whole index can be walked in hash order (sorted linear probing: Amble and Knuth, 1974). A slot
//! holds every hash bit that its home position depends on, so a shard grows by a page without
//! reading a key: the writer copies at most some two thousand slots, and no put waits longer than
//! that. All shards are made of equal pages of one arena, so no memory is lost to fragmentation. A
//! directory lists the pages: row `i` has the `i`-th pages of all shards of a level, so the part in
//! use is a few bytes per shard and stays in the cache.
//!
//! A shard that has 20 pages does not grow further: it splits into two. *Level* `l` has the 2^l
//! shards that the highest `l` bits of a hash choose; shard `n` splits into the shards `2n` and
//! `2n + 1` of the next level. A search begins at the first level that has a shard which is not
//! split. The highest known bit of each entry becomes part of the number of its new shard, and no
//! key is read to learn another bit, so the entry then knows one bit less of its field. An entry
//! that is added later knows all 23. The *class* of an entry is what every entry of the index knows
//! (`width` bits): the home position depends on it alone, so a search meets the entries of a class
//! in one run, and takes those whose known bits are those of the key. Operations that know the
//! location of an entry find it by its class and location.
//!
//! A search for an absent key reads a wrong record if an entry of its shard agrees in all known
//! bits. With `E` entries per shard, all of which know 23 bits, that happens in `E` / 2^23
//! searches: 1 in 3,850 just before shards split, when `E` is 2,176. A doubling halves the old
//! entries of a shard and doubles the chance that one of them agrees, so their part stays as it is,
//! and the new entries add half a shard: after `d` doublings it is (1 + `d` / 2) `E` / 2^23. That
//! would be more than 1 in 1,000 from the sixth doubling on. So entries learn their bits again
//! ([`writer::IndexWriter::learn`]) after every second doubling: checkpoints find them in the
//! hints. An opening starts with shards for all entries, which then know all bits. The last level
//! is at most 12 beyond the first, so that a class has at least 11 bits of a field, and at most 25:
//! 2^36 keys.
//!
//! Readers take no lock and never wait; every word is atomic. The writer changes a shard so that a
//! search from left to right finds every entry that stays in it: an insertion shifts entries from
//! the right end, a removal leaves a mark. The writer builds a grown shard in new pages, listed in
//! the other half of the directory's words, and publishes it with one store. It then reuses the old
//! pages. A search that ran over reused pages, or read a half of a directory word that was being
//! filled for a later rebuild, notices that the shard's word changed and starts again.
//!
//! An opening sorts the entries of a checkpoint on all processors ([`sorted_entries`]), and the
//! writer lays out one shard after another.
//!
//! Two small buffers let writes proceed before a cache miss completes: [`insert_buffer`] holds
//! entries that are not in their shard yet, [`displaced`] holds entries that were replaced before
//! the writer compared the keys.

pub(crate) mod slot;
pub(crate) mod pages;
pub(crate) mod shard;
pub(crate) mod insert_buffer;
pub(crate) mod displaced;
pub(crate) mod hash_index;
pub(crate) mod sorted_entries;
pub(crate) mod writer;
#[cfg(all(test, not(firndb_model)))]
mod tests;
