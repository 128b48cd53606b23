//! RocksDB for ranges of keys. Prefixes of eight bytes are known to it: filters reject files, and
//! iterators end with the prefix. No compression.
//!
//! A store has a log without sync, and a cache larger than the data. A table is sorted files that
//! are mapped and opened read-only; the checksums of mapped blocks are off.

use crate::c::*;
use crate::{Sorted, open_read_only, path};
use firndb_bench_protocol::Result;
use firndb_bench_protocol::ordered::{
    Engine, GROUP, Key, PREFIX, Prefix, Reader, Records, Store, TableEngine,
};
use std::ffi::c_char;
use std::path::Path;
use std::ptr::null_mut;
use std::time::Duration;

pub struct RocksLog;
pub struct RocksTable;

const CACHE: usize = 2 << 30;
const WRITE_BUFFER: usize = 64 << 20;
const BLOOM_BITS: f64 = 10.0;

/// They live as long as the process and are never freed.
fn options() -> *mut Options {
    // SAFETY: plain calls on objects that were just created; the options take ownership of what
    // they are given.
    unsafe {
        let table = rocksdb_block_based_options_create();
        let filter = rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS);
        rocksdb_block_based_options_set_filter_policy(table, filter);
        rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(CACHE));
        rocksdb_block_based_options_set_format_version(table, 5);
        let options = rocksdb_options_create();
        rocksdb_options_set_block_based_table_factory(options, table);
        let prefix = rocksdb_slicetransform_create_fixed_prefix(PREFIX);
        rocksdb_options_set_prefix_extractor(options, prefix);
        rocksdb_options_set_create_if_missing(options, 1);
        rocksdb_options_set_max_open_files(options, -1);
        rocksdb_options_set_compression(options, 0);
        options
    }
}

impl Engine for RocksLog {
    type Store = Opened;

    fn version(&self) -> String {
        "RocksDB 7.8 (librocksdb), WAL without sync, prefix Bloom filter of 10 bits, cache of 2 GiB"
            .into()
    }

    fn create(&self, _: &Records, dir: &Path) -> Result<Opened> {
        let (options, name) = (options(), path(&dir.join("db"))?);
        // SAFETY: plain calls on objects that exist; the name outlives the call.
        let db = unsafe {
            rocksdb_options_set_write_buffer_size(options, WRITE_BUFFER);
            rocksdb_options_increase_parallelism(options, 2);
            checked(|error| rocksdb_open(options, name.as_ptr(), error))?
        };
        Ok(Opened::new(db, null_mut(), true))
    }
}

impl TableEngine for RocksTable {
    type Store = Opened;

    fn version(&self) -> String {
        "RocksDB 7.8 (librocksdb), sorted files, mapped, prefix Bloom filter of 10 bits".into()
    }

    fn build(&self, records: &Records, dir: &Path) -> Result<()> {
        let mut sorted = Sorted::new(table_options(), dir);
        let mut value = Vec::new();
        for group in records.sorted() {
            for number in group * GROUP..(group + 1) * GROUP {
                Records::value(number, &mut value);
                sorted.put(&Records::key(number), &value)?;
            }
        }
        sorted.ingest()
    }

    fn open(&self, dir: &Path) -> Result<Opened> {
        let (db, family) = open_read_only(table_options(), dir)?;
        Ok(Opened::new(db, family, false))
    }
}

fn table_options() -> *mut Options {
    let options = options();
    // SAFETY: plain calls on an object that exists.
    unsafe {
        rocksdb_options_set_disable_auto_compactions(options, 1);
        rocksdb_options_set_allow_mmap_reads(options, 1);
    }
    options
}

/// An open database.
pub struct Opened {
    db: *mut Db,
    family: *mut Family,
    write: *mut WriteOptions,
    /// For scans of a prefix, and of all records.
    read: [*mut ReadOptions; 2],
    /// Whether an iterator may be out of date when the next scan begins.
    changes: bool,
}

impl Opened {
    fn new(db: *mut Db, family: *mut Family, changes: bool) -> Opened {
        // SAFETY: plain calls on objects that were just created.
        unsafe {
            let read = [rocksdb_readoptions_create(), rocksdb_readoptions_create()];
            rocksdb_readoptions_set_prefix_same_as_start(read[0], 1);
            rocksdb_readoptions_set_total_order_seek(read[1], 1);
            for read in read {
                // Blocks of a store are verified when they are cached.
                rocksdb_readoptions_set_verify_checksums(read, u8::from(changes));
            }
            Opened { db, family, write: rocksdb_writeoptions_create(), read, changes }
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the database is open, and no reader outlives it.
        unsafe {
            if !self.family.is_null() {
                rocksdb_column_family_handle_destroy(self.family);
            }
            rocksdb_close(self.db);
        }
    }
}

impl Store for Opened {
    type Reader<'a> = Reading<'a>;

    fn reader(&self) -> Result<Reading<'_>> {
        Ok(Reading { store: self, prefixes: null_mut() })
    }

    /// Waits for flushes and compactions.
    fn settle(&self) -> Result<()> {
        loop {
            let busy = [
                c"rocksdb.num-running-flushes",
                c"rocksdb.num-running-compactions",
                c"rocksdb.mem-table-flush-pending",
                c"rocksdb.compaction-pending",
            ];
            let busy = busy.map(|name| {
                let mut value = 0;
                // SAFETY: the database is open, and the name ends in zero.
                unsafe { rocksdb_property_int(self.db, name.as_ptr(), &mut value) };
                value
            });
            if busy == [0; 4] {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

pub struct Reading<'a> {
    store: &'a Opened,
    /// The iterator of all prefix scans of a table, once there is one.
    prefixes: *mut Iter,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if !self.prefixes.is_null() {
            // SAFETY: it was created, and is not used afterwards.
            unsafe { rocksdb_iter_destroy(self.prefixes) };
        }
    }
}

/// Passes the records from the iterator's position on to `each`.
///
/// # Safety
///
/// The iterator is not destroyed, nor its database closed.
unsafe fn walk(iter: *mut Iter, reverse: bool, mut each: impl FnMut(&[u8], &[u8])) -> Result<()> {
    // SAFETY: keys and values are valid until the iterator moves.
    unsafe {
        while rocksdb_iter_valid(iter) != 0 {
            let (mut key, mut value) = (0, 0);
            let k: *const c_char = rocksdb_iter_key(iter, &mut key);
            let v: *const c_char = rocksdb_iter_value(iter, &mut value);
            let k = std::slice::from_raw_parts(k.cast::<u8>(), key);
            each(k, std::slice::from_raw_parts(v.cast::<u8>(), value));
            if reverse { rocksdb_iter_prev(iter) } else { rocksdb_iter_next(iter) }
        }
        checked(|error| rocksdb_iter_get_error(iter, error))
    }
}

impl Reader for Reading<'_> {
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        let Opened { db, write, .. } = *self.store;
        let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: the database is open, key and value are slices.
        checked(|error| unsafe { rocksdb_put(db, write, k, key.len(), v, value.len(), error) })
    }

    fn prefix(
        &mut self,
        prefix: &Prefix,
        reverse: bool,
        each: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let Opened { db, read: [read, _], changes, .. } = *self.store;
        let mut last = [0xff; size_of::<Key>()];
        last[..PREFIX].copy_from_slice(prefix);
        // SAFETY: the database is open; the iterator is destroyed here, or when this is dropped.
        unsafe {
            if self.prefixes.is_null() {
                self.prefixes = rocksdb_create_iterator(db, read);
            }
            let iter = self.prefixes;
            if reverse {
                rocksdb_iter_seek_for_prev(iter, last.as_ptr().cast(), last.len());
            } else {
                rocksdb_iter_seek(iter, prefix.as_ptr().cast(), PREFIX);
            }
            let done = walk(iter, reverse, each);
            if changes {
                self.prefixes = null_mut();
                rocksdb_iter_destroy(iter);
            }
            done
        }
    }

    fn scan(&mut self, reverse: bool, each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let Opened { db, read: [_, read], .. } = *self.store;
        // SAFETY: the database is open; the iterator is destroyed at the end.
        unsafe {
            let iter = rocksdb_create_iterator(db, read);
            if reverse {
                rocksdb_iter_seek_to_last(iter);
            } else {
                rocksdb_iter_seek_to_first(iter);
            }
            let done = walk(iter, reverse, each);
            rocksdb_iter_destroy(iter);
            done
        }
    }
}
