//! The format of HaloDB's files, versions 0 and 1 of the entries. Integers are big-endian;
//! checksums are CRC-32 with the polynomial of zlib. HaloDB 0.5 writes version 0, HaloDB Revive
//! version 1, in which the length of a key has four bytes.
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

use crate::halodb::report::FileKind;
use firndb::log::MAX_KEY;
use firndb::{Error, Result};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Supported versions of entries.
pub(crate) const VERSIONS: [u8; 2] = [0, 1];
/// Length of the shortest header, that of a tombstone.
pub(crate) const SHORTEST_HEADER: u64 = 14;
/// Length of META.
const META: usize = 19;
/// Bytes per read.
const WINDOW: usize = 1 << 20;
/// Bytes per read of a single key: a header and the longest key of version 0.
const SMALL_WINDOW: usize = 160;

/// A complete record, tombstone or index entry.
#[derive(Debug, PartialEq)]
pub(crate) struct Entry<'a> {
    pub(crate) sequence: i64,
    pub(crate) key: &'a [u8],
    /// Length of the entry in the file.
    pub(crate) length: u64,
    /// Offset of the record to which an index entry refers, 0 in other files.
    pub(crate) record: u32,
}

/// The result of parsing at an offset of a file.
#[derive(Debug, PartialEq)]
pub(crate) enum Parsed<'a> {
    Whole(Entry<'a>),
    /// A complete entry of this length whose key is longer than a LogStore accepts.
    LongKey(u64),
    Invalid,
}

/// The content of META.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Meta {
    pub(crate) version: u8,
    pub(crate) is_open: bool,
    pub(crate) has_failed: bool,
    /// The checksum matches.
    pub(crate) is_intact: bool,
}

impl Meta {
    /// `None` if these are not the bytes of a META file.
    pub(crate) fn read(bytes: &[u8]) -> Option<Meta> {
        let bytes: &[u8; META] = bytes.try_into().ok()?;
        Some(Meta {
            version: bytes[4],
            is_open: bytes[5] != 0,
            has_failed: bytes[14] != 0,
            is_intact: Fields(bytes).u32() == crc32fast::hash(&bytes[4..]),
        })
    }
}

/// Opens a file for reading. Returns its length, too. `Corrupt` if it is not a regular file:
/// reading a pipe or a device could block.
pub(crate) fn open(path: &Path) -> Result<(File, u64)> {
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

/// A file with a read buffer, for reads that mostly go forward.
pub(crate) struct Window {
    file: File,
    path: PathBuf,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
    ahead: usize,
    /// Bytes of entries whose checksum was computed and did not match.
    pub(crate) mismatched: u64,
}

impl Window {
    pub(crate) fn open(path: &Path) -> Result<Window> {
        Window::with(path, WINDOW)
    }

    /// A window with a small buffer, for random reads of single entries.
    pub(crate) fn small(path: &Path) -> Result<Window> {
        Window::with(path, SMALL_WINDOW)
    }

    fn with(path: &Path, ahead: usize) -> Result<Window> {
        let (file, len) = open(path)?;
        let (path, bytes) = (path.to_path_buf(), Vec::new());
        Ok(Window { file, path, len, start: 0, bytes, ahead, mismatched: 0 })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// `count` bytes from `offset`; `None` beyond the end of the file.
    fn get(&mut self, offset: u64, count: usize) -> Result<Option<&[u8]>> {
        let Some(end) = offset.checked_add(count as u64).filter(|&end| end <= self.len) else {
            return Ok(None);
        };
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            // Limited by the length of the file, because `count` may come from a damaged length.
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

    /// Parses the entry at `offset`. The checksum is computed in pieces, so that memory does not
    /// depend on lengths that may be damaged.
    pub(crate) fn entry(&mut self, kind: FileKind, offset: u64) -> Result<Parsed<'_>> {
        let Some(header) = self.header(kind, offset)? else { return Ok(Parsed::Invalid) };
        let end = offset + header.length();
        if end > self.len {
            return Ok(Parsed::Invalid);
        }
        let mut checksum = crc32fast::Hasher::new();
        let mut at = offset + 4;
        while at < end {
            let count = (end - at).min(WINDOW as u64) as usize;
            let Some(bytes) = self.get(at, count)? else { return Ok(Parsed::Invalid) };
            checksum.update(bytes);
            at += count as u64;
        }
        if checksum.finalize() != header.checksum {
            self.mismatched += header.length();
            return Ok(Parsed::Invalid);
        }
        if header.key > MAX_KEY as u64 {
            return Ok(Parsed::LongKey(header.length()));
        }
        let Some(key) = self.get(offset + header.size, header.key as usize)? else {
            return Ok(Parsed::Invalid);
        };
        Ok(Parsed::Whole(Entry {
            sequence: header.sequence,
            key,
            length: header.length(),
            record: header.record,
        }))
    }

    /// Sequence number and key of an entry whose checksum was checked before.
    pub(crate) fn key(&mut self, kind: FileKind, offset: u64) -> Result<Option<(i64, &[u8])>> {
        let Some(header) = self.header(kind, offset)? else { return Ok(None) };
        if header.key > MAX_KEY as u64 {
            return Ok(None);
        }
        let key = self.get(offset + header.size, header.key as usize)?;
        Ok(key.map(|key| (header.sequence, key)))
    }

    /// Key and value of the record at `offset`; `None` if it is incomplete or damaged.
    pub(crate) fn record(&mut self, offset: u64) -> Result<Option<(&[u8], &[u8])>> {
        let Some(header) = self.header(FileKind::Data, offset)? else { return Ok(None) };
        if header.length() > self.len {
            return Ok(None);
        }
        let Some(bytes) = self.get(offset, header.length() as usize)? else { return Ok(None) };
        if crc32fast::hash(&bytes[4..]) != header.checksum {
            return Ok(None);
        }
        Ok(Some(bytes[header.size as usize..].split_at(header.key as usize)))
    }

    /// The end of the entry at `offset` by its lengths, without checking it; `None` if it has no
    /// valid header, or exceeds the file.
    pub(crate) fn stated_end(&mut self, kind: FileKind, offset: u64) -> Result<Option<u64>> {
        let header = self.header(kind, offset)?;
        let end = header.map(|header| offset + header.length());
        Ok(end.filter(|&end| end <= self.len))
    }

    /// The offset of the first nonzero byte from `offset`, or the length of the file.
    pub(crate) fn skip_zeros(&mut self, offset: u64) -> Result<u64> {
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

    /// Version of the entry at `offset`, without checking it.
    pub(crate) fn version(&mut self, offset: u64) -> Result<Option<u8>> {
        Ok(self.get(offset + 4, 1)?.map(|byte| byte[0]))
    }

    fn header(&mut self, kind: FileKind, offset: u64) -> Result<Option<Header>> {
        let Some(version) = self.version(offset)?.filter(|v| VERSIONS.contains(v)) else {
            return Ok(None);
        };
        let size = Header::size(kind, version);
        Ok(self.get(offset, size)?.and_then(|bytes| Header::read(kind, bytes)))
    }
}

/// The header of an entry: everything before its key.
struct Header {
    checksum: u32,
    sequence: i64,
    key: u64,
    /// Length of the value, 0 if there is none.
    value: u64,
    record: u32,
    /// Length of the header.
    size: u64,
}

impl Header {
    fn size(kind: FileKind, version: u8) -> usize {
        let size = match kind {
            FileKind::Data | FileKind::Compacted => 18,
            FileKind::Tombstones => 14,
            FileKind::Index => 22,
        };
        size + if version == 0 { 0 } else { 3 }
    }

    /// `None` if a length is negative.
    fn read(kind: FileKind, bytes: &[u8]) -> Option<Header> {
        let mut fields = Fields(bytes);
        let (checksum, version) = (fields.u32(), fields.u8());
        let key_length = |fields: &mut Fields| match version {
            0 => fields.u8().cast_signed().into(),
            _ => fields.i32(),
        };
        let (sequence, key, value, record);
        match kind {
            FileKind::Data | FileKind::Compacted => {
                (key, value, record) = (key_length(&mut fields), fields.i32(), 0);
                sequence = fields.i64();
            }
            FileKind::Tombstones => {
                (sequence, value, record) = (fields.i64(), 0, 0);
                key = key_length(&mut fields);
            }
            FileKind::Index => {
                key = key_length(&mut fields);
                (_, record, value) = (fields.i32(), fields.u32(), 0);
                sequence = fields.i64();
            }
        }
        let (key, value) = (u64::try_from(key).ok()?, u64::try_from(value).ok()?);
        Some(Header { checksum, sequence, key, value, record, size: bytes.len() as u64 })
    }

    fn length(&self) -> u64 {
        self.size + self.key + self.value
    }
}

/// Decodes fields from the front of bytes that are long enough.
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
