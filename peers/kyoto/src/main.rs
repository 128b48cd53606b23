//! Kyoto Cabinet's HashDB as a peer of the LogStore: a hash table in a mapped file, updated in
//! place, through its C API (`kclangc.h`, 1.2.79).

use firndb_bench_protocol::Result;
use firndb_bench_protocol::log::{Engine, Handle, Key, Records, Store, serve};
use std::ffi::{CStr, CString, c_char};
use std::path::Path;

#[repr(C)]
struct Db {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn kcdbnew() -> *mut Db;
    fn kcdbdel(db: *mut Db);
    fn kcdbopen(db: *mut Db, path: *const c_char, mode: u32) -> i32;
    fn kcdbclose(db: *mut Db) -> i32;
    fn kcdbecode(db: *mut Db) -> i32;
    fn kcdbemsg(db: *mut Db) -> *const c_char;
    fn kcdbset(
        db: *mut Db,
        key: *const c_char,
        key_length: usize,
        value: *const c_char,
        value_length: usize,
    ) -> i32;
    fn kcdbgetbuf(
        db: *mut Db,
        key: *const c_char,
        key_length: usize,
        value: *mut c_char,
        most: usize,
    ) -> i32;
}

/// KCOWRITER and KCOCREATE.
const MODE: u32 = 1 << 1 | 1 << 2;
/// KCENOREC: there is no such record.
const ABSENT: i32 = 7;

fn main() -> Result<()> {
    serve(&Kyoto)
}

struct Kyoto;

impl Engine for Kyoto {
    type Store = Opened;

    fn version(&self) -> String {
        "Kyoto Cabinet 1.2.79 (libkyotocabinet), HashDB, two buckets a record, all of it mapped"
            .into()
    }

    fn open(&self, records: &Records, dir: &Path) -> Result<Opened> {
        let file = dir.join("data.kch");
        // The part of the file outside the map is accessed by read and write calls.
        let options = format!(
            "{}#bnum={}#msiz={}",
            file.display(),
            2 * records.count,
            2 * records.bytes() + (1 << 30)
        );
        let name = CString::new(options)?;
        // SAFETY: a new object, and a string that outlives the call.
        let store = Opened { db: unsafe { kcdbnew() } };
        store.done(unsafe { kcdbopen(store.db, name.as_ptr(), MODE) })?;
        Ok(store)
    }
}

struct Opened {
    db: *mut Db,
}

// SAFETY: its calls lock internally.
unsafe impl Sync for Opened {}

impl Opened {
    fn done(&self, result: i32) -> Result<()> {
        if result != 0 {
            return Ok(());
        }
        // SAFETY: the object lives; its message ends in zero.
        let message = unsafe { CStr::from_ptr(kcdbemsg(self.db)) };
        Err(format!("Kyoto Cabinet: {}", message.to_string_lossy()).into())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the object is not used afterwards.
        unsafe { kcdbdel(self.db) };
    }
}

impl Store for Opened {
    type Handle<'a> = Working<'a>;

    fn handle(&self, _: bool) -> Result<Working<'_>> {
        Ok(Working { store: self, buffer: vec![0; 16_384] })
    }

    fn close(self) -> Result<()> {
        // SAFETY: it is open, and no handle is left.
        self.done(unsafe { kcdbclose(self.db) })
    }
}

struct Working<'a> {
    store: &'a Opened,
    buffer: Vec<u8>,
}

impl Handle for Working<'_> {
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        let (db, k, buffer) = (self.store.db, key.as_ptr().cast(), &mut self.buffer);
        // SAFETY: it is open; key and buffer are slices.
        let length =
            unsafe { kcdbgetbuf(db, k, key.len(), buffer.as_mut_ptr().cast(), buffer.len()) };
        match usize::try_from(length) {
            Ok(length) => {
                found(buffer.get(..length).ok_or("a value beyond the buffer")?);
                Ok(true)
            }
            // SAFETY: it is open.
            Err(_) if unsafe { kcdbecode(db) } == ABSENT => Ok(false),
            Err(_) => self.store.done(0).map(|()| false),
        }
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: it is open; key and value are slices.
        self.store.done(unsafe { kcdbset(self.store.db, k, key.len(), v, value.len()) })
    }
}
