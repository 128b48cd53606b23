//! The in-memory index: a sharded hash table from a key's hash to the location of its newest
//! record. It takes eight bytes per slot and at most 10.5 bytes per key in a large store.
//!
//! [`hash_index::Index`] is what readers share, [`writer::IndexWriter`] the right to change it;
//! [`writer::create`] makes both.
//!
//! ```text
//! SLOT   bits 63-40  the 24 bits of the key's hash below those that choose the shard
//!        bits 39-26  slot of the segment in the segment table
//!        bits 25-0   offset in the segment, in units of its alignment; 0 with segment 1 marks a
//!                    removed entry
//!        0           an empty slot
//! ```
//!
//! A shard is an open-addressing table whose home positions grow with the hash, so its entries are
//! sorted by hash: a search ends at the first larger one, and the whole index can be walked in hash
//! order (sorted linear probing: Amble and Knuth, 1974). A slot holds every hash bit that its home
//! position depends on, so a shard grows by an eighth without reading a key: the writer copies a
//! few thousand slots, and no put waits longer than that. All shards are made of equal pages of one
//! arena, so no memory is lost to fragmentation. A directory lists the pages: row `i` has the
//! `i`-th pages of all shards, so the part in use is a few bytes per shard and stays in the cache.
//!
//! Readers take no lock and never wait; every word is atomic. The writer changes a shard so that a
//! search from left to right finds every entry that stays in it: an insertion shifts entries from
//! the right end, a removal leaves a mark. The writer builds a grown shard in new pages, listed in
//! the other half of the directory's words, and publishes it with one store. It then reuses the old
//! pages. A search that ran over reused pages, or read a half of a directory word that was being
//! filled for a later rebuild, notices that the shard's word changed and starts again.
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
pub(crate) mod writer;
#[cfg(all(test, not(firndb_model)))]
mod tests;
