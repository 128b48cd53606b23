//! The bytes of HaloDB's files, versions 0 and 1 of the entries. Integers are big-endian; checksums
//! are CRC-32 with the polynomial of zlib. HaloDB 0.5 writes version 0, HaloDB Revive version 1, in
//! which the length of a key has four bytes.
//!
//! ```text
//! RECORD     OFFSET  OFFSET  SIZE   FIELD        of N.data, and of N.datac, made by compaction
//!            IN V0   IN V1
//!            0       0       4      checksum of the bytes from 4 to the end of the record
//!            4       4       1      version: 0 or 1
//!            5       5       1, 4   length of the key, signed
//!            6       9       4      length of the value, signed
//!            10      13      8      sequence number, signed
//!            18      21      .      key, value
//! INDEX      0       0       4      checksum of the rest   of N.index: one for each record
//!            4       4       1      version: 0 or 1
//!            5       5       1, 4   length of the key, signed
//!            6       9       4      length of the record
//!            10      13      4      offset of the record
//!            14      17      8      sequence number
//!            22      25      .      key
//! TOMBSTONE  0       0       4      checksum of the rest   of N.tombstone
//!            4       4       1      version: 0 or 1
//!            5       5       8      sequence number
//!            13      13      1, 4   length of the key, signed
//!            14      17      .      key
//! META       0               4      checksum of the rest, which HaloDB does not check
//!            4               1      version: 0
//!            5               1      255 while HaloDB has the directory open
//!            6               8      sequence number, not used
//!            14              1      255 after an I/O error
//!            15              4      largest length of a file
//! ```

use firndb::log::MAX_KEY;
use firndb::{Error, Result};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Versions of entries that are known.
pub const VERSIONS: [u8; 2] = [0, 1];
/// Length of the shortest head, which is that of a tombstone.
pub const SHORTEST_HEAD: u64 = 14;
/// Length of META.
const META: usize = 19;
/// Bytes that are read at once.
const WINDOW: usize = 1 << 20;
/// Bytes that are read at once for a key: a head and the longest key of version 0.
const SMALL_WINDOW: usize = 160;

/// What entries a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Data,
    /// Data that compaction wrote.
    Compacted,
    Tombstones,
    /// Entries that say where the records of a data file are.
    Index,
}

impl Kind {
    pub fn is_data(self) -> bool {
        matches!(self, Kind::Data | Kind::Compacted)
    }
}

/// A whole record, tombstone or entry of an index.
#[derive(Debug, PartialEq)]
pub struct Entry<'a> {
    pub sequence: i64,
    pub key: &'a [u8],
    /// Bytes it takes in the file.
    pub length: u64,
    /// Offset of the record that an entry of an index is about, 0 in other files.
    pub record: u32,
}

/// What is at an offset of a file.
#[derive(Debug, PartialEq)]
pub enum Found<'a> {
    Whole(Entry<'a>),
    /// A whole entry of this length whose key is longer than a LogStore takes.
    LongKey(u64),
    Nothing,
}

/// What META says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meta {
    pub version: u8,
    pub is_open: bool,
    pub has_failed: bool,
    /// The checksum is that of the other bytes.
    pub is_intact: bool,
}

impl Meta {
    /// `None` if these are not the bytes of a META file.
    pub fn read(bytes: &[u8]) -> Option<Meta> {
        let bytes: &[u8; META] = bytes.try_into().ok()?;
        Some(Meta {
            version: bytes[4],
            is_open: bytes[5] != 0,
            has_failed: bytes[14] != 0,
            is_intact: Fields(bytes).u32() == crc32fast::hash(&bytes[4..]),
        })
    }
}

/// Opens a file for reading, and its length. `Corrupt` if it is not a regular file: reading a pipe
/// or a device would wait.
pub fn open(path: &Path) -> Result<(File, u64)> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(|e| Error::io("open", path, e))?;
    let metadata = file.metadata().map_err(|e| Error::io("read", path, e))?;
    if !metadata.is_file() {
        let message = "this is not a regular file, as HaloDB's files are";
        return Err(Error::corrupt(message).in_file(path));
    }
    Ok((file, metadata.len()))
}

/// A file, read from anywhere with little effort if reading goes forward.
pub struct Window {
    file: File,
    path: PathBuf,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
    ahead: usize,
    /// Bytes of which a checksum was computed, and found wrong.
    pub wrong: u64,
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
        let (file, len) = open(path)?;
        let (path, bytes) = (path.to_path_buf(), Vec::new());
        Ok(Window { file, path, len, start: 0, bytes, ahead, wrong: 0 })
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

    /// What begins at `offset`. The checksum is computed piece by piece, so that memory does not
    /// depend on the lengths which the bytes state.
    pub fn entry(&mut self, kind: Kind, offset: u64) -> Result<Found<'_>> {
        let Some(head) = self.head(kind, offset)? else { return Ok(Found::Nothing) };
        let end = offset + head.length();
        if end > self.len {
            return Ok(Found::Nothing);
        }
        let mut checksum = crc32fast::Hasher::new();
        let mut at = offset + 4;
        while at < end {
            let count = (end - at).min(WINDOW as u64) as usize;
            let Some(bytes) = self.get(at, count)? else { return Ok(Found::Nothing) };
            checksum.update(bytes);
            at += count as u64;
        }
        if checksum.finalize() != head.checksum {
            self.wrong += head.length();
            return Ok(Found::Nothing);
        }
        if head.key > MAX_KEY as u64 {
            return Ok(Found::LongKey(head.length()));
        }
        let Some(key) = self.get(offset + head.size, head.key as usize)? else {
            return Ok(Found::Nothing);
        };
        Ok(Found::Whole(Entry {
            sequence: head.sequence,
            key,
            length: head.length(),
            record: head.record,
        }))
    }

    /// Sequence number and key of an entry that was found to be whole before.
    pub fn key(&mut self, kind: Kind, offset: u64) -> Result<Option<(i64, &[u8])>> {
        let Some(head) = self.head(kind, offset)? else { return Ok(None) };
        if head.key > MAX_KEY as u64 {
            return Ok(None);
        }
        let key = self.get(offset + head.size, head.key as usize)?;
        Ok(key.map(|key| (head.sequence, key)))
    }

    /// Key and value of the record at `offset`; `None` if there is no whole one.
    pub fn record(&mut self, offset: u64) -> Result<Option<(&[u8], &[u8])>> {
        let Some(head) = self.head(Kind::Data, offset)? else { return Ok(None) };
        if head.length() > self.len {
            return Ok(None);
        }
        let Some(bytes) = self.get(offset, head.length() as usize)? else { return Ok(None) };
        if crc32fast::hash(&bytes[4..]) != head.checksum {
            return Ok(None);
        }
        Ok(Some(bytes[head.size as usize..].split_at(head.key as usize)))
    }

    /// Where the entry at `offset` ends by the lengths it states, whole or not; `None` if it cannot
    /// be one.
    pub fn stated_end(&mut self, kind: Kind, offset: u64) -> Result<Option<u64>> {
        let head = self.head(kind, offset)?;
        let end = head.map(|head| offset + head.length());
        Ok(end.filter(|&end| end <= self.len))
    }

    /// Where the first byte from `offset` on is that is not zero; the end of the file if there is
    /// none.
    pub fn skip_zeros(&mut self, offset: u64) -> Result<u64> {
        let mut at = offset;
        while at < self.len {
            let count = (self.len - at).min(4096) as usize;
            let Some(bytes) = self.get(at, count)? else { break };
            match bytes.iter().position(|&byte| byte != 0) {
                Some(zeros) => return Ok(at + zeros as u64),
                None => at += count as u64,
            }
        }
        Ok(self.len)
    }

    /// Version of the entry at `offset`, whole or not.
    pub fn version(&mut self, offset: u64) -> Result<Option<u8>> {
        Ok(self.get(offset + 4, 1)?.map(|byte| byte[0]))
    }

    fn head(&mut self, kind: Kind, offset: u64) -> Result<Option<Head>> {
        let Some(version) = self.version(offset)?.filter(|v| VERSIONS.contains(v)) else {
            return Ok(None);
        };
        let size = Head::size(kind, version);
        Ok(self.get(offset, size)?.and_then(|bytes| Head::read(kind, bytes)))
    }
}

/// Everything of an entry before its key.
struct Head {
    checksum: u32,
    sequence: i64,
    key: u64,
    /// Length of the value, 0 if there is none.
    value: u64,
    record: u32,
    /// Length of all this.
    size: u64,
}

impl Head {
    fn size(kind: Kind, version: u8) -> usize {
        let size = match kind {
            Kind::Data | Kind::Compacted => 18,
            Kind::Tombstones => 14,
            Kind::Index => 22,
        };
        size + if version == 0 { 0 } else { 3 }
    }

    /// `None` if a length is negative.
    fn read(kind: Kind, bytes: &[u8]) -> Option<Head> {
        let mut fields = Fields(bytes);
        let (checksum, version) = (fields.u32(), fields.u8());
        let key_length = |fields: &mut Fields| match version {
            0 => fields.u8().cast_signed().into(),
            _ => fields.i32(),
        };
        let (sequence, key, value, record);
        match kind {
            Kind::Data | Kind::Compacted => {
                (key, value, record) = (key_length(&mut fields), fields.i32(), 0);
                sequence = fields.i64();
            }
            Kind::Tombstones => {
                (sequence, value, record) = (fields.i64(), 0, 0);
                key = key_length(&mut fields);
            }
            Kind::Index => {
                key = key_length(&mut fields);
                (_, record, value) = (fields.i32(), fields.u32(), 0);
                sequence = fields.i64();
            }
        }
        let (key, value) = (u64::try_from(key).ok()?, u64::try_from(value).ok()?);
        Some(Head { checksum, sequence, key, value, record, size: bytes.len() as u64 })
    }

    fn length(&self) -> u64 {
        self.size + self.key + self.value
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

    fn i32(&mut self) -> i32 {
        i32::from_be_bytes(self.take())
    }

    fn i64(&mut self) -> i64 {
        i64::from_be_bytes(self.take())
    }
}
