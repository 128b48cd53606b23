//! RocksDB as a peer, tuned for reading: sorted files ingested into the lowest level, a ribbon
//! filter, a hash index in every block, opened read-only.
//!
//! The argument `zstd` compresses blocks with a trained dictionary; `log` selects the benchmark of
//! records that change, `ordered-log` and `ordered-table` those of ranges of keys.

mod c;
mod log;
mod ordered;

use c::*;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::table::{Engine, Handle, Key, Records, Store, serve};
use std::ffi::{CString, c_char};
use std::path::Path;
use std::ptr::null_mut;

fn main() -> Result<()> {
    use firndb_bench_protocol as protocol;
    match std::env::args().nth(1).as_deref() {
        Some("log") => protocol::log::serve(&log::RocksLog),
        Some("ordered-log") => protocol::ordered::serve(&ordered::RocksLog),
        Some("ordered-table") => protocol::ordered::serve_tables(&ordered::RocksTable),
        name => serve(&Rocks { zstd: name == Some("zstd") }),
    }
}

struct Rocks {
    zstd: bool,
}

/// Bytes of keys and values in one sorted file.
const FILE: usize = 256 << 20;
/// Larger than all blocks.
const CACHE: usize = 8 << 30;
const RIBBON_BITS: f64 = 10.0;
const ZSTD: i32 = 7;
const HASH_INDEX: i32 = 1;

impl Rocks {
    /// They live as long as the process and are never freed.
    fn options(&self) -> *mut Options {
        // SAFETY: plain calls on objects that were just created; the table options take ownership
        // of the filter, and both of what they are given.
        unsafe {
            let table = rocksdb_block_based_options_create();
            rocksdb_block_based_options_set_filter_policy(
                table,
                rocksdb_filterpolicy_create_ribbon(RIBBON_BITS),
            );
            rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru(CACHE));
            rocksdb_block_based_options_set_format_version(table, 5);
            rocksdb_block_based_options_set_data_block_index_type(table, HASH_INDEX);
            rocksdb_block_based_options_set_data_block_hash_ratio(table, 0.75);
            let options = rocksdb_options_create();
            rocksdb_options_set_block_based_table_factory(options, table);
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_options_set_max_open_files(options, -1);
            rocksdb_options_set_disable_auto_compactions(options, 1);
            rocksdb_options_set_compression(options, if self.zstd { ZSTD } else { 0 });
            if self.zstd {
                rocksdb_options_set_compression_options(options, -14, 6, 0, 16 << 10);
                rocksdb_options_set_compression_options_zstd_max_train_bytes(options, 1 << 20);
            }
            // Mapped blocks are not cached, and verifying their checksums on every get would be
            // slow; with compression, blocks are cached and verified once.
            rocksdb_options_set_allow_mmap_reads(options, u8::from(!self.zstd));
            options
        }
    }
}

impl Engine for Rocks {
    type Store = Opened;

    fn version(&self) -> String {
        format!("RocksDB 7.8 (librocksdb){}", if self.zstd { ", zstd" } else { "" })
    }

    fn build(&self, records: &Records, dir: &Path) -> Result<()> {
        let options = self.options();
        let mut sorted = Sorted::new(options, dir);
        records.each_sorted(|key, value| sorted.put(key, value))?;
        sorted.ingest()
    }

    fn open(&self, _: &Records, dir: &Path) -> Result<Opened> {
        let options = self.options();
        let (db, family) = open_read_only(options, dir)?;
        // SAFETY: a plain call on an object that was just created.
        unsafe {
            let read = rocksdb_readoptions_create();
            rocksdb_readoptions_set_verify_checksums(read, u8::from(self.zstd));
            Ok(Opened { db, family, read })
        }
    }
}

/// Opens the database below `dir`.
fn open_read_only(options: *mut Options, dir: &Path) -> Result<(*mut Db, *mut Family)> {
    let (name, default) = (path(&dir.join("db"))?, c"default".as_ptr());
    let (mut family, each) = (null_mut(), options.cast_const());
    // SAFETY: the strings outlive the call, which fills in `family`.
    let db = checked(|error| unsafe {
        rocksdb_open_for_read_only_column_families(
            options,
            name.as_ptr(),
            1,
            &default,
            &each,
            &mut family,
            0,
            error,
        )
    })?;
    Ok((db, family))
}

/// Writes sorted files.
struct Sorted<'a> {
    options: *mut Options,
    dir: &'a Path,
    files: Vec<CString>,
    open: Option<(*mut Writer, usize)>,
}

impl Sorted<'_> {
    fn new(options: *mut Options, dir: &Path) -> Sorted<'_> {
        Sorted { options, dir, files: Vec::new(), open: None }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (writer, bytes) = match self.open {
            Some(open) => open,
            None => (self.start()?, 0),
        };
        let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: the writer is open; key and value are slices.
        checked(|error| unsafe {
            rocksdb_sstfilewriter_put(writer, k, key.len(), v, value.len(), error);
        })?;
        self.open = Some((writer, bytes + key.len() + value.len()));
        if bytes > FILE { self.finish() } else { Ok(()) }
    }

    fn start(&mut self) -> Result<*mut Writer> {
        let name = path(&self.dir.join(format!("{}.sst", self.files.len())))?;
        // SAFETY: the options live as long as the process, the name as long as this call.
        let writer = unsafe {
            let writer = rocksdb_sstfilewriter_create(rocksdb_envoptions_create(), self.options);
            checked(|error| rocksdb_sstfilewriter_open(writer, name.as_ptr(), error))?;
            writer
        };
        self.files.push(name);
        Ok(writer)
    }

    fn finish(&mut self) -> Result<()> {
        if let Some((writer, _)) = self.open.take() {
            // SAFETY: it is open, and not used afterwards.
            unsafe {
                checked(|error| rocksdb_sstfilewriter_finish(writer, error))?;
                rocksdb_sstfilewriter_destroy(writer);
            }
        }
        Ok(())
    }

    /// Moves the files into a new database.
    fn ingest(mut self) -> Result<()> {
        self.finish()?;
        let name = path(&self.dir.join("db"))?;
        let files: Vec<*const c_char> = self.files.iter().map(|file| file.as_ptr()).collect();
        // SAFETY: the strings outlive the calls; the database is closed at the end.
        unsafe {
            let db = checked(|error| rocksdb_open(self.options, name.as_ptr(), error))?;
            let ingest = rocksdb_ingestexternalfileoptions_create();
            rocksdb_ingestexternalfileoptions_set_move_files(ingest, 1);
            checked(|error| {
                rocksdb_ingest_external_file(db, files.as_ptr(), files.len(), ingest, error);
            })?;
            rocksdb_close(db);
        }
        Ok(())
    }
}

fn path(path: &Path) -> Result<CString> {
    Ok(CString::new(path.as_os_str().as_encoded_bytes())?)
}

struct Opened {
    db: *mut Db,
    family: *mut Family,
    read: *mut ReadOptions,
}

// SAFETY: RocksDB allows gets from any number of threads.
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: both are open, and no handle outlives them.
        unsafe {
            rocksdb_column_family_handle_destroy(self.family);
            rocksdb_close(self.db);
        }
    }
}

impl Store for Opened {
    type Handle<'a> = Reading<'a>;
    const BATCHES: bool = true;

    fn handle(&self) -> Result<Reading<'_>> {
        Ok(Reading { store: self, keys: Vec::new(), lengths: Vec::new(), values: Vec::new() })
    }
}

struct Reading<'a> {
    store: &'a Opened,
    keys: Vec<*const c_char>,
    lengths: Vec<usize>,
    values: Vec<*mut Pinned>,
}

/// Passes the value to `found` and releases it.
fn take(value: *mut Pinned, found: impl FnOnce(&[u8])) -> bool {
    if value.is_null() {
        return false;
    }
    let mut length = 0;
    // SAFETY: it pins bytes until it is destroyed.
    unsafe {
        let bytes = rocksdb_pinnableslice_value(value, &mut length);
        found(std::slice::from_raw_parts(bytes.cast(), length));
        rocksdb_pinnableslice_destroy(value);
    }
    true
}

impl Handle for Reading<'_> {
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        let Opened { db, read, .. } = *self.store;
        let k = key.as_ptr().cast();
        // SAFETY: the database is open, the key a slice.
        let value = checked(|error| unsafe { rocksdb_get_pinned(db, read, k, key.len(), error) })?;
        Ok(take(value, found))
    }

    fn get_many(&mut self, keys: &[Key], mut found: impl FnMut(usize, &[u8])) -> Result<()> {
        let Opened { db, read, family } = *self.store;
        self.keys.clear();
        self.keys.extend(keys.iter().map(|key| key.as_ptr().cast::<c_char>()));
        self.lengths.clear();
        self.lengths.resize(keys.len(), size_of::<Key>());
        self.values.clear();
        self.values.resize(keys.len(), null_mut());
        let mut errors = vec![null_mut(); keys.len()];
        // SAFETY: all four lists have as many items as there are keys.
        unsafe {
            rocksdb_batched_multi_get_cf(
                db,
                read,
                family,
                keys.len(),
                self.keys.as_ptr(),
                self.lengths.as_ptr(),
                self.values.as_mut_ptr(),
                errors.as_mut_ptr(),
                false,
            );
        }
        errors.into_iter().try_for_each(take_error)?;
        for (place, &value) in self.values.iter().enumerate() {
            take(value, |value| found(place, value));
        }
        Ok(())
    }
}
