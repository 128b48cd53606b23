//! Tokyo Cabinet's hash database as a peer of the LogStore: a hash table in a mapped file, updated
//! in place, through its C API (`tchdb.h`, 1.4.48).

use firndb_bench_protocol::Result;
use firndb_bench_protocol::log::{Engine, Handle, Key, Records, Store, serve};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;

#[repr(C)]
struct Db {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn tchdbnew() -> *mut Db;
    fn tchdbdel(db: *mut Db);
    fn tchdbsetmutex(db: *mut Db) -> bool;
    fn tchdbtune(db: *mut Db, buckets: i64, align: i8, free: i8, options: u8) -> bool;
    fn tchdbsetxmsiz(db: *mut Db, bytes: i64) -> bool;
    fn tchdbopen(db: *mut Db, path: *const c_char, mode: c_int) -> bool;
    fn tchdbclose(db: *mut Db) -> bool;
    fn tchdbecode(db: *mut Db) -> c_int;
    fn tchdberrmsg(code: c_int) -> *const c_char;
    fn tchdbput(
        db: *mut Db,
        key: *const c_void,
        key_length: c_int,
        value: *const c_void,
        value_length: c_int,
    ) -> bool;
    fn tchdbget3(
        db: *mut Db,
        key: *const c_void,
        key_length: c_int,
        value: *mut c_void,
        most: c_int,
    ) -> c_int;
}

/// HDBOWRITER and HDBOCREAT.
const MODE: c_int = 1 << 1 | 1 << 2;
/// HDBTLARGE: files beyond 2 GiB.
const LARGE: u8 = 1;
/// TCENOREC: there is no such record.
const ABSENT: c_int = 22;
/// log2 of the alignment of records, so that a record may grow a little in place.
const ALIGN: i8 = 4;
/// log2 of the number of free blocks kept for reuse: more than the default.
const FREE: i8 = 20;

fn main() -> Result<()> {
    serve(&Tokyo)
}

struct Tokyo;

impl Engine for Tokyo {
    type Store = Opened;

    fn version(&self) -> String {
        "Tokyo Cabinet 1.4.48 (libtokyocabinet), hash database, two buckets a record, all of it \
         mapped"
            .into()
    }

    fn open(&self, records: &Records, dir: &Path) -> Result<Opened> {
        let name = CString::new(dir.join("data.tch").as_os_str().as_encoded_bytes())?;
        let (buckets, mapped) = (2 * records.count as i64, 4 * records.bytes() as i64 + (1 << 30));
        // SAFETY: a new object, set up before it is opened; the string outlives the call.
        unsafe {
            let store = Opened { db: tchdbnew() };
            store.done(tchdbsetmutex(store.db))?;
            store.done(tchdbtune(store.db, buckets, ALIGN, FREE, LARGE))?;
            store.done(tchdbsetxmsiz(store.db, mapped))?;
            store.done(tchdbopen(store.db, name.as_ptr(), MODE))?;
            Ok(store)
        }
    }
}

struct Opened {
    db: *mut Db,
}

// SAFETY: `tchdbsetmutex` makes its calls lock internally.
unsafe impl Sync for Opened {}

impl Opened {
    fn done(&self, is_done: bool) -> Result<()> {
        if is_done {
            return Ok(());
        }
        // SAFETY: the object lives; messages end in zero and are constants.
        let message = unsafe { CStr::from_ptr(tchdberrmsg(tchdbecode(self.db))) };
        Err(format!("Tokyo Cabinet: {}", message.to_string_lossy()).into())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the object is not used afterwards.
        unsafe { tchdbdel(self.db) };
    }
}

impl Store for Opened {
    type Handle<'a> = Working<'a>;

    fn handle(&self, _: bool) -> Result<Working<'_>> {
        Ok(Working { store: self, buffer: vec![0; 4096] })
    }

    fn close(self) -> Result<()> {
        // SAFETY: it is open, and no handle is left.
        self.done(unsafe { tchdbclose(self.db) })
    }
}

struct Working<'a> {
    store: &'a Opened,
    buffer: Vec<u8>,
}

impl Handle for Working<'_> {
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        let (db, k, buffer) = (self.store.db, key.as_ptr().cast(), &mut self.buffer);
        let most = buffer.len() as c_int;
        // SAFETY: it is open; key and buffer are slices.
        let length =
            unsafe { tchdbget3(db, k, key.len() as c_int, buffer.as_mut_ptr().cast(), most) };
        match usize::try_from(length) {
            Ok(length) if length < buffer.len() => {
                found(&buffer[..length]);
                Ok(true)
            }
            Ok(_) => Err("a value beyond the buffer".into()),
            // SAFETY: it is open.
            Err(_) if unsafe { tchdbecode(db) } == ABSENT => Ok(false),
            Err(_) => self.store.done(false).map(|()| false),
        }
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: it is open; key and value are slices.
        self.store.done(unsafe {
            tchdbput(self.store.db, k, key.len() as c_int, v, value.len() as c_int)
        })
    }
}
