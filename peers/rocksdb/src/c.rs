//! The used part of RocksDB's C API (`rocksdb/c.h`, 7.8).

use firndb_bench_protocol::Result;
use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};

/// Declares opaque types.
macro_rules! opaque {
    ($($name:ident)*) => { $(
        #[repr(C)]
        pub struct $name { _opaque: [u8; 0] }
    )* };
}

opaque!(WriteOptions Db Options TableOptions Filter Cache ReadOptions EnvOptions Writer IngestOptions Pinned
        Family Iter SliceTransform);

unsafe extern "C" {
    pub fn rocksdb_options_create() -> *mut Options;
    pub fn rocksdb_options_set_create_if_missing(options: *mut Options, on: c_uchar);
    pub fn rocksdb_options_set_compression(options: *mut Options, kind: c_int);
    pub fn rocksdb_options_set_compression_options(
        options: *mut Options,
        window: c_int,
        level: c_int,
        strategy: c_int,
        dictionary: c_int,
    );
    pub fn rocksdb_options_set_compression_options_zstd_max_train_bytes(
        options: *mut Options,
        bytes: c_int,
    );
    pub fn rocksdb_options_set_max_open_files(options: *mut Options, files: c_int);
    pub fn rocksdb_options_set_allow_mmap_reads(options: *mut Options, on: c_uchar);
    pub fn rocksdb_options_set_disable_auto_compactions(options: *mut Options, on: c_int);
    pub fn rocksdb_options_set_block_based_table_factory(
        options: *mut Options,
        table: *mut TableOptions,
    );
    pub fn rocksdb_block_based_options_create() -> *mut TableOptions;
    pub fn rocksdb_block_based_options_set_filter_policy(
        table: *mut TableOptions,
        filter: *mut Filter,
    );
    pub fn rocksdb_block_based_options_set_block_cache(table: *mut TableOptions, cache: *mut Cache);
    pub fn rocksdb_block_based_options_set_format_version(table: *mut TableOptions, version: c_int);
    pub fn rocksdb_block_based_options_set_data_block_index_type(
        table: *mut TableOptions,
        kind: c_int,
    );
    pub fn rocksdb_block_based_options_set_data_block_hash_ratio(
        table: *mut TableOptions,
        ratio: f64,
    );
    pub fn rocksdb_filterpolicy_create_ribbon(bits: f64) -> *mut Filter;
    pub fn rocksdb_cache_create_lru(bytes: usize) -> *mut Cache;
    pub fn rocksdb_readoptions_create() -> *mut ReadOptions;
    pub fn rocksdb_readoptions_set_verify_checksums(options: *mut ReadOptions, on: c_uchar);
    pub fn rocksdb_envoptions_create() -> *mut EnvOptions;
    pub fn rocksdb_sstfilewriter_create(
        env: *const EnvOptions,
        options: *const Options,
    ) -> *mut Writer;
    pub fn rocksdb_sstfilewriter_open(
        writer: *mut Writer,
        name: *const c_char,
        error: *mut *mut c_char,
    );
    pub fn rocksdb_sstfilewriter_put(
        writer: *mut Writer,
        key: *const c_char,
        key_length: usize,
        value: *const c_char,
        value_length: usize,
        error: *mut *mut c_char,
    );
    pub fn rocksdb_sstfilewriter_finish(writer: *mut Writer, error: *mut *mut c_char);
    pub fn rocksdb_sstfilewriter_destroy(writer: *mut Writer);
    pub fn rocksdb_ingestexternalfileoptions_create() -> *mut IngestOptions;
    pub fn rocksdb_ingestexternalfileoptions_set_move_files(
        options: *mut IngestOptions,
        on: c_uchar,
    );
    pub fn rocksdb_open(
        options: *const Options,
        name: *const c_char,
        error: *mut *mut c_char,
    ) -> *mut Db;
    pub fn rocksdb_ingest_external_file(
        db: *mut Db,
        files: *const *const c_char,
        count: usize,
        options: *const IngestOptions,
        error: *mut *mut c_char,
    );
    pub fn rocksdb_open_for_read_only_column_families(
        options: *const Options,
        name: *const c_char,
        families: c_int,
        names: *const *const c_char,
        options_each: *const *const Options,
        handles: *mut *mut Family,
        error_if_log: c_uchar,
        error: *mut *mut c_char,
    ) -> *mut Db;
    pub fn rocksdb_column_family_handle_destroy(family: *mut Family);
    pub fn rocksdb_close(db: *mut Db);
    pub fn rocksdb_get_pinned(
        db: *mut Db,
        options: *const ReadOptions,
        key: *const c_char,
        length: usize,
        error: *mut *mut c_char,
    ) -> *mut Pinned;
    pub fn rocksdb_batched_multi_get_cf(
        db: *mut Db,
        options: *const ReadOptions,
        family: *mut Family,
        count: usize,
        keys: *const *const c_char,
        lengths: *const usize,
        values: *mut *mut Pinned,
        errors: *mut *mut c_char,
        sorted: bool,
    );
    pub fn rocksdb_pinnableslice_value(value: *const Pinned, length: *mut usize) -> *const c_char;
    pub fn rocksdb_pinnableslice_destroy(value: *mut Pinned);
    pub fn rocksdb_options_increase_parallelism(options: *mut Options, threads: c_int);
    pub fn rocksdb_options_set_write_buffer_size(options: *mut Options, bytes: usize);
    pub fn rocksdb_filterpolicy_create_bloom_full(bits: f64) -> *mut Filter;
    pub fn rocksdb_writeoptions_create() -> *mut WriteOptions;
    pub fn rocksdb_put(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_length: usize,
        value: *const c_char,
        value_length: usize,
        error: *mut *mut c_char,
    );
    /// Returns a zero-terminated string that the caller frees, or null.
    pub fn rocksdb_property_value(db: *mut Db, name: *const c_char) -> *mut c_char;
    pub fn rocksdb_free(memory: *mut c_void);
    /// Returns 0 if there is such a property.
    pub fn rocksdb_property_int(db: *mut Db, name: *const c_char, value: *mut u64) -> c_int;
    pub fn rocksdb_options_set_prefix_extractor(
        options: *mut Options,
        transform: *mut SliceTransform,
    );
    pub fn rocksdb_slicetransform_create_fixed_prefix(length: usize) -> *mut SliceTransform;
    pub fn rocksdb_readoptions_set_prefix_same_as_start(options: *mut ReadOptions, on: c_uchar);
    pub fn rocksdb_readoptions_set_total_order_seek(options: *mut ReadOptions, on: c_uchar);
    pub fn rocksdb_create_iterator(db: *mut Db, options: *const ReadOptions) -> *mut Iter;
    pub fn rocksdb_iter_destroy(iter: *mut Iter);
    pub fn rocksdb_iter_valid(iter: *const Iter) -> c_uchar;
    pub fn rocksdb_iter_seek_to_first(iter: *mut Iter);
    pub fn rocksdb_iter_seek_to_last(iter: *mut Iter);
    pub fn rocksdb_iter_seek(iter: *mut Iter, key: *const c_char, length: usize);
    pub fn rocksdb_iter_seek_for_prev(iter: *mut Iter, key: *const c_char, length: usize);
    pub fn rocksdb_iter_next(iter: *mut Iter);
    pub fn rocksdb_iter_prev(iter: *mut Iter);
    pub fn rocksdb_iter_key(iter: *const Iter, length: *mut usize) -> *const c_char;
    pub fn rocksdb_iter_value(iter: *const Iter, length: *mut usize) -> *const c_char;
    pub fn rocksdb_iter_get_error(iter: *const Iter, error: *mut *mut c_char);
}

/// Calls a function with an out parameter for its error message.
pub fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
    let mut error = std::ptr::null_mut();
    let result = call(&mut error);
    take_error(error)?;
    Ok(result)
}

/// Takes ownership of an error message, if there is one.
pub fn take_error(error: *mut c_char) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: RocksDB returns a zero-terminated string that the caller frees.
    unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        rocksdb_free(error.cast());
        Err(format!("RocksDB: {text}").into())
    }
}
