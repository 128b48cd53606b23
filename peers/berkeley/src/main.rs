//! Berkeley DB's hash as a peer of the LogStore: cached pages updated in place, with a write-ahead
//! log that is handed to the operating system before a put returns (`db.h`, 5.3, through `shim.c`).

use firndb_bench_protocol::Result;
use firndb_bench_protocol::log::{Engine, Handle, Key, Records, Store, serve};
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_ulonglong, c_void};
use std::path::Path;

#[repr(C)]
struct Db {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn bdb_open(
        db: *mut *mut Db,
        dir: *const c_char,
        cache: c_ulonglong,
        records: c_uint,
        item: c_uint,
    ) -> c_int;
    fn bdb_put(
        db: *mut Db,
        key: *const c_void,
        key_length: c_uint,
        value: *const c_void,
        length: c_uint,
    ) -> c_int;
    fn bdb_get(
        db: *mut Db,
        key: *const c_void,
        key_length: c_uint,
        buffer: *mut c_void,
        most: c_uint,
        error: *mut c_int,
    ) -> c_long;
    fn bdb_checkpoint(db: *mut Db, kib: c_uint) -> c_int;
    fn bdb_close(db: *mut Db) -> c_int;
    fn bdb_message(error: c_int) -> *const c_char;
}

/// KiB of log between two checkpoints, and puts between two checks of its size.
const CHECKPOINT: c_uint = 256 << 10;
const LOOK: u32 = 4096;

fn main() -> Result<()> {
    serve(&Berkeley)
}

struct Berkeley;

impl Engine for Berkeley {
    type Store = Opened;

    fn version(&self) -> String {
        "Berkeley DB 5.3 (libdb5.3), hash, transactions without sync, a cache larger than the data"
            .into()
    }

    fn open(&self, records: &Records, dir: &Path) -> Result<Opened> {
        let name = CString::new(dir.as_os_str().as_encoded_bytes())?;
        let item = (records.bytes() / records.count.max(1)) as c_uint;
        let mut db = std::ptr::null_mut();
        // SAFETY: the string outlives the call, which sets `db`.
        let cache = 3 * records.bytes() + (256 << 20);
        done(unsafe { bdb_open(&mut db, name.as_ptr(), cache, records.count as c_uint, item) })?;
        Ok(Opened { db })
    }
}

fn done(error: c_int) -> Result<()> {
    if error == 0 {
        return Ok(());
    }
    // SAFETY: messages end in zero; the next call may change them.
    let message = unsafe { CStr::from_ptr(bdb_message(error)) };
    Err(format!("Berkeley DB: {}", message.to_string_lossy()).into())
}

struct Opened {
    db: *mut Db,
}

// SAFETY: it was opened with DB_THREAD.
unsafe impl Sync for Opened {}

impl Store for Opened {
    type Handle<'a> = Working<'a>;

    fn handle(&self, _: bool) -> Result<Working<'_>> {
        Ok(Working { store: self, buffer: vec![0; 4096], puts: 0 })
    }

    fn close(self) -> Result<()> {
        // SAFETY: it is open, and no handle is left.
        done(unsafe { bdb_close(self.db) })
    }
}

struct Working<'a> {
    store: &'a Opened,
    buffer: Vec<u8>,
    puts: u32,
}

impl Handle for Working<'_> {
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        let (db, k, buffer) = (self.store.db, key.as_ptr().cast(), &mut self.buffer);
        let (most, mut error) = (buffer.len() as c_uint, 0);
        // SAFETY: it is open; key and buffer are slices.
        let length = unsafe {
            bdb_get(db, k, key.len() as c_uint, buffer.as_mut_ptr().cast(), most, &mut error)
        };
        match usize::try_from(length) {
            Ok(length) => {
                found(&buffer[..length]);
                Ok(true)
            }
            Err(_) if length == -1 => Ok(false),
            Err(_) => done(error).map(|()| false),
        }
    }

    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: it is open; key and value are slices.
        done(unsafe {
            bdb_put(self.store.db, k, key.len() as c_uint, v, value.len() as c_uint)
        })?;
        self.puts += 1;
        if self.puts.is_multiple_of(LOOK) {
            // SAFETY: it is open.
            done(unsafe { bdb_checkpoint(self.store.db, CHECKPOINT) })?;
        }
        Ok(())
    }
}
