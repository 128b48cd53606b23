//! tinycdb as a peer: D. J. Bernstein's constant database, 256 hash tables after the records, all
//! mapped. Offsets have 32 bits: a file is limited to 4 GB.

use firndb_bench_protocol::Result;
use firndb_bench_protocol::table::{Engine, Handle, Key, Records, Store, serve};
use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::Path;

/// `struct cdb` of `cdb.h`.
#[repr(C)]
#[derive(Clone)]
struct Cdb {
    fd: c_int,
    file_size: c_uint,
    data_end: c_uint,
    memory: *const u8,
    value_at: c_uint,
    value_length: c_uint,
    key_at: c_uint,
    key_length: c_uint,
}

/// `struct cdb_make`, an opaque structure of 6.2 kB whose fields only the library accesses.
#[repr(C, align(16))]
struct CdbMake([u8; 8192]);

unsafe extern "C" {
    fn cdb_init(cdb: *mut Cdb, fd: c_int) -> c_int;
    fn cdb_free(cdb: *mut Cdb);
    fn cdb_find(cdb: *mut Cdb, key: *const c_void, length: c_uint) -> c_int;
    fn cdb_get(cdb: *const Cdb, length: c_uint, at: c_uint) -> *const c_void;
    fn cdb_make_start(make: *mut CdbMake, fd: c_int) -> c_int;
    fn cdb_make_add(
        make: *mut CdbMake,
        key: *const c_void,
        key_length: c_uint,
        value: *const c_void,
        value_length: c_uint,
    ) -> c_int;
    fn cdb_make_finish(make: *mut CdbMake) -> c_int;
}

const FILE: &str = "data.cdb";

fn main() -> Result<()> {
    serve(&TinyCdb)
}

struct TinyCdb;

fn checked(what: &str, code: c_int) -> Result<()> {
    match code {
        0 => Ok(()),
        _ => Err(format!("{what}: {}", std::io::Error::last_os_error()).into()),
    }
}

impl Engine for TinyCdb {
    type Store = Opened;

    fn version(&self) -> String {
        "tinycdb 0.78 (libcdb)".into()
    }

    fn build(&self, records: &Records, dir: &Path) -> Result<()> {
        let file = File::create_new(dir.join(FILE))?;
        let mut make = Box::new(MaybeUninit::<CdbMake>::zeroed());
        let make = make.as_mut_ptr();
        // SAFETY: `make` outlives the three calls, the file is open, and keys and values are slices.
        unsafe {
            checked("cdb_make_start", cdb_make_start(make, file.as_raw_fd()))?;
            records.each(|key, value| {
                let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
                let (kn, vn) = (key.len() as c_uint, value.len() as c_uint);
                checked("cdb_make_add", cdb_make_add(make, k, kn, v, vn))
            })?;
            checked("cdb_make_finish", cdb_make_finish(make))?;
        }
        file.sync_all()?;
        Ok(())
    }

    fn open(&self, _: &Records, dir: &Path) -> Result<Opened> {
        let file = File::open(dir.join(FILE))?;
        let mut cdb = MaybeUninit::zeroed();
        // SAFETY: `cdb_init` fills the structure, or fails; the map outlives the descriptor.
        let cdb = unsafe {
            checked("cdb_init", cdb_init(cdb.as_mut_ptr(), file.as_raw_fd()))?;
            cdb.assume_init()
        };
        Ok(Opened { cdb, _file: file })
    }
}

struct Opened {
    cdb: Cdb,
    _file: File,
}

// SAFETY: the mapping is only read; the state of a search is in a handle's own copy.
unsafe impl Sync for Opened {}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: it is open, and no handle outlives it.
        unsafe { cdb_free(&mut self.cdb) };
    }
}

impl Store for Opened {
    type Handle<'a> = Copied<'a>;

    fn handle(&self) -> Result<Copied<'_>> {
        Ok(Copied { cdb: self.cdb.clone(), _of: self })
    }
}

/// A search stores its result in the structure, so each thread has its own copy.
struct Copied<'a> {
    cdb: Cdb,
    _of: &'a Opened,
}

impl Handle for Copied<'_> {
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool> {
        let cdb = &mut self.cdb;
        // SAFETY: the structure is open; `cdb_get` checks the range that it returns.
        unsafe {
            match cdb_find(cdb, key.as_ptr().cast(), key.len() as c_uint) {
                0 => return Ok(false),
                1 => {}
                _ => return Err("cdb_find failed".into()),
            }
            let value = cdb_get(cdb, cdb.value_length, cdb.value_at).cast::<u8>();
            if value.is_null() {
                return Err("cdb_get failed".into());
            }
            found(std::slice::from_raw_parts(value, cdb.value_length as usize));
        }
        Ok(true)
    }
}
