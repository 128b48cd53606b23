//! The bytes of HaloDB's files, format version 0. Integers are big-endian; checksums are CRC-32
//! with the polynomial of zlib.
//!
//! ```text
//! RECORD     OFFSET  SIZE  FIELD                  of N.data, and of N.datac, made by compaction
//!            0       4     checksum of the bytes from 4 to the end of the record
//!            4       1     version: 0
//!            5       1     length of the key, signed
//!            6       4     length of the value, signed
//!            10      8     sequence number, signed
//!            18      .     key, value
//! INDEX      0       4     checksum of the rest   of N.index: an entry a record of the data file
//!            4       1     version: 0
//!            5       1     length of the key
//!            6       4     length of the record
//!            10      4     offset of the record
//!            14      8     sequence number
//!            22      .     key
//! TOMBSTONE  0       4     checksum of the rest   of N.tombstone
//!            4       1     version: 0
//!            5       8     sequence number
//!            13      1     length of the key
//!            14      .     key
//! META       0       4     checksum of the rest, which HaloDB does not check
//!            4       1     version: 0
//!            5       1     255 while HaloDB has the directory open
//!            6       8     sequence number, not used
//!            14      1     255 after an I/O error
//!            15      4     largest length of a file
//! ```

use firndb::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const RECORD_HEAD: usize = 18;
const INDEX_HEAD: usize = 22;
const TOMBSTONE_HEAD: usize = 14;
/// Length of META.
const META: usize = 19;
/// Bytes that are read at once.
const WINDOW: usize = 1 << 20;
/// Bytes that are read at once for a key: a head and the longest key.
const SMALL_WINDOW: usize = 160;

/// What entries a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Data,
    /// Data that compaction wrote.
    Compacted,
    Tombstones,
}

/// A record or a tombstone.
#[derive(Debug, PartialEq)]
pub struct Entry<'a> {
    pub sequence: i64,
    pub key: &'a [u8],
    /// `None` for a tombstone.
    pub value: Option<&'a [u8]>,
    /// Bytes it takes in the file.
    pub length: u64,
}

/// What an index file says of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Indexed {
    pub offset: u64,
    pub sequence: i64,
    pub key: Vec<u8>,
}

/// What META says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meta {
    pub is_open: bool,
    pub has_failed: bool,
}

impl Meta {
    /// `None` if these are not the bytes of a META file.
    pub fn read(bytes: &[u8]) -> Option<Meta> {
        let bytes: &[u8; META] = bytes.try_into().ok()?;
        (bytes[4] == 0).then_some(Meta { is_open: bytes[5] != 0, has_failed: bytes[14] != 0 })
    }
}

/// A file, read from anywhere with little effort if reading goes forward.
pub struct Window {
    file: File,
    path: PathBuf,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
    ahead: usize,
}

impl Window {
    pub fn open(path: &Path) -> Result<Window> {
        Window::with(path, WINDOW)
    }

    /// For single entries here and there.
    pub fn small(path: &Path) -> Result<Window> {
        Window::with(path, SMALL_WINDOW)
    }

    fn with(path: &Path, ahead: usize) -> Result<Window> {
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let len = file.metadata().map_err(|e| Error::io("read", path, e))?.len();
        Ok(Window { file, path: path.to_path_buf(), len, start: 0, bytes: Vec::new(), ahead })
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// This many bytes from `offset` on; `None` if the file ends before.
    fn get(&mut self, offset: u64, count: usize) -> Result<Option<&[u8]>> {
        let Some(end) = offset.checked_add(count as u64).filter(|&end| end <= self.len) else {
            return Ok(None);
        };
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            // No more than what the file has, whatever a damaged length says.
            let ahead = (self.len - offset).min(self.ahead.max(count) as u64) as usize;
            self.bytes.resize(ahead, 0);
            self.start = offset;
            let read = self.file.read_exact_at(&mut self.bytes, offset);
            if read.is_err() {
                self.bytes.clear();
            }
            read.map_err(|e| Error::io("read", &self.path, e))?;
        }
        let from = (offset - self.start) as usize;
        Ok(Some(&self.bytes[from..from + count]))
    }

    /// The entry that begins at `offset`; `None` if there is no whole one.
    pub fn entry(&mut self, kind: Kind, offset: u64) -> Result<Option<Entry<'_>>> {
        let Some(head) = self.head(kind, offset)? else { return Ok(None) };
        let Some(bytes) = self.get(offset, head.length())? else { return Ok(None) };
        if crc32fast::hash(&bytes[4..]) != head.checksum || head.version != 0 {
            return Ok(None);
        }
        let (key, value) = bytes[head.size..].split_at(head.key);
        Ok(Some(Entry {
            sequence: head.sequence,
            key,
            value: head.value.map(|_| value),
            length: head.length() as u64,
        }))
    }

    /// The key of an entry that was found to be whole before.
    pub fn key(&mut self, kind: Kind, offset: u64) -> Result<Option<&[u8]>> {
        let Some(head) = self.head(kind, offset)? else { return Ok(None) };
        self.get(offset + head.size as u64, head.key)
    }

    /// Where the entry at `offset` ends by the lengths it states, whole or not; `None` if it cannot
    /// be one.
    pub fn stated_end(&mut self, kind: Kind, offset: u64) -> Result<Option<u64>> {
        let head = self.head(kind, offset)?;
        let end = head.map(|head| offset + head.length() as u64);
        Ok(end.filter(|&end| end <= self.len))
    }

    /// Version of the entry at `offset`, whole or not.
    pub fn version(&mut self, offset: u64) -> Result<Option<u8>> {
        Ok(self.get(offset + 4, 1)?.map(|byte| byte[0]))
    }

    fn head(&mut self, kind: Kind, offset: u64) -> Result<Option<Head>> {
        let size = if kind == Kind::Tombstones { TOMBSTONE_HEAD } else { RECORD_HEAD };
        Ok(self.get(offset, size)?.and_then(|bytes| Head::read(kind, bytes)))
    }

    /// The whole entries of an index file, up to the first that is damaged.
    pub fn index(&mut self) -> Result<Vec<Indexed>> {
        let (mut entries, mut at) = (Vec::new(), 0);
        loop {
            let Some(head) = self.get(at, INDEX_HEAD)? else { return Ok(entries) };
            let mut fields = Fields(head);
            let (checksum, _version, key) = (fields.u32(), fields.u8(), fields.u8() as usize);
            let (_size, offset, sequence) = (fields.u32(), fields.u32(), fields.i64());
            let Some(bytes) = self.get(at, INDEX_HEAD + key)? else { return Ok(entries) };
            if crc32fast::hash(&bytes[4..]) != checksum {
                return Ok(entries);
            }
            let key = bytes[INDEX_HEAD..].to_vec();
            at += bytes.len() as u64;
            entries.push(Indexed { offset: offset.into(), sequence, key });
        }
    }
}

/// Everything of an entry before its key.
struct Head {
    checksum: u32,
    version: u8,
    sequence: i64,
    key: usize,
    /// Length of the value; `None` for a tombstone.
    value: Option<usize>,
    /// Length of all this.
    size: usize,
}

impl Head {
    /// `None` if a length is negative.
    fn read(kind: Kind, bytes: &[u8]) -> Option<Head> {
        let mut fields = Fields(bytes);
        let (checksum, version) = (fields.u32(), fields.u8());
        let (sequence, key, value) = match kind {
            Kind::Tombstones => (fields.i64(), fields.u8(), None),
            _ => {
                let (key, value) = (fields.u8(), fields.u32());
                (fields.i64(), key, Some(value))
            }
        };
        let key = usize::try_from(key.cast_signed()).ok()?;
        let value = value.map(|value| usize::try_from(value.cast_signed())).transpose().ok()?;
        Some(Head { checksum, version, sequence, key, value, size: bytes.len() })
    }

    fn length(&self) -> usize {
        self.size + self.key + self.value.unwrap_or(0)
    }
}

/// Takes fields from the front of bytes that are long enough.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk().unwrap_or((&[0; N], &[]));
        self.0 = rest;
        *field
    }

    fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }

    fn i64(&mut self) -> i64 {
        i64::from_be_bytes(self.take())
    }
}
