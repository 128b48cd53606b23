//! RocksDB for records that change: log without sync, a full Bloom filter, a cache larger than the
//! data, no compression.

use crate::c::*;
use crate::{path, take};
use firndb_bench_protocol::Result;
use firndb_bench_protocol::log::{Engine, Handle, Key, Records, Store};
use std::ffi::CStr;
use std::path::Path;

pub struct RocksLog;

const CACHE: usize = 2 << 30;
const WRITE_BUFFER: usize = 64 << 20;
const BLOOM_BITS: f64 = 10.0;
const HASH_INDEX: i32 = 1;

impl Engine for RocksLog {
    type Store = Opened;

    fn version(&self) -> String {
        "RocksDB 7.8 (librocksdb), WAL without sync, Bloom filter of 10 bits, cache of 2 GiB".into()
    }

    fn open(&self, _: &Records, dir: &Path) -> Result<Opened> {
        let name = path(&dir.join("db"))?;
        // SAFETY: plain calls on objects that were just created; the table options take ownership
        // of the filter, the options of the table options. They live as long as the process.
        unsafe {
            let table = rocksdb_block_based_options_create();
            let filter = rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS);
            rocksdb_block_based_options_set_filter_policy(table, filter);
            rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(CACHE));
            rocksdb_block_based_options_set_format_version(table, 5);
            rocksdb_block_based_options_set_data_block_index_type(table, HASH_INDEX);
            rocksdb_block_based_options_set_data_block_hash_ratio(table, 0.75);
            let options = rocksdb_options_create();
            rocksdb_options_set_block_based_table_factory(options, table);
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_options_set_max_open_files(options, -1);
            rocksdb_options_set_compression(options, 0);
            rocksdb_options_set_write_buffer_size(options, WRITE_BUFFER);
            rocksdb_options_increase_parallelism(options, 2);
            let db = checked(|error| rocksdb_open(options, name.as_ptr(), error))?;
            let (read, write) = (rocksdb_readoptions_create(), rocksdb_writeoptions_create());
            Ok(Opened { db, read, write })
        }
    }
}

pub struct Opened {
    db: *mut Db,
    read: *mut ReadOptions,
    write: *mut WriteOptions,
}

// SAFETY: RocksDB allows gets and puts from any number of threads.
unsafe impl Sync for Opened {}

impl Store for Opened {
    type Handle<'a> = &'a Opened;

    fn handle(&self, _: bool) -> Result<&Opened> {
        Ok(self)
    }

    fn written(&self) -> Option<u64> {
        // SAFETY: it is open, the name ends in zero, and the text is copied before it is freed.
        let text = unsafe {
            let value = rocksdb_property_value(self.db, c"rocksdb.stats".as_ptr());
            if value.is_null() {
                return None;
            }
            let text = CStr::from_ptr(value).to_string_lossy().into_owned();
            rocksdb_free(value.cast());
            text
        };
        // Bytes of the log, of flushes and of compactions.
        let log = gigabytes(&text, "Cumulative WAL:", "written:", 1)?;
        let tables = gigabytes(&text, "Cumulative compaction:", "GB", -1)?;
        Some(((log + tables) * f64::from(1 << 30)) as u64)
    }

    fn close(self) -> Result<()> {
        // SAFETY: it is open, and no handle outlives it.
        unsafe { rocksdb_close(self.db) };
        Ok(())
    }
}

/// The number `step` words from `word` in a line of RocksDB's statistics, for example in
/// `Cumulative WAL: 5000K writes, 0 syncs, 5000000.00 writes per sync, written: 0.60 GB, 20.4
/// MB/s`.
fn gigabytes(text: &str, line: &str, word: &str, step: isize) -> Option<f64> {
    let line = text.lines().find_map(|text| text.strip_prefix(line))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|known| *known == word)?;
    words.get(at.checked_add_signed(step)?)?.parse().ok()
}

impl Handle for &Opened {
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        let (db, read, k) = (self.db, self.read, key.as_ptr().cast());
        // SAFETY: the database is open, the key a slice.
        let value = checked(|error| unsafe { rocksdb_get_pinned(db, read, k, key.len(), error) })?;
        Ok(take(value, found))
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: the database is open, key and value are slices.
        checked(|error| unsafe {
            rocksdb_put(self.db, self.write, k, key.len(), v, value.len(), error);
        })
    }
}
