//! Fixed-width little-endian integers: a writer into a vector, a checked reader over a slice, and
//! point reads.

use crate::{Error, Result};

/// The u64 at byte `at`; 0 if the slice ends before its last byte.
#[inline(always)]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

/// The u32 at byte `at`; 0 if the slice ends before its last byte.
#[inline(always)]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u32::from_le_bytes(*word))
}

/// The u16 at byte `at`; 0 if the slice ends before its last byte.
#[inline(always)]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..at + 2) {
        Some(b) => u16::from_le_bytes([b[0], b[1]]),
        None => 0,
    }
}

/// Overwrites four bytes from `at` on; they must exist.
#[inline]
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, v: u32) {
    bytes[at..at + 4].copy_from_slice(&v.to_le_bytes());
}

/// Overwrites eight bytes from `at` on; they must exist.
#[inline]
pub(crate) fn put_u64(bytes: &mut [u8], at: usize, v: u64) {
    bytes[at..at + 8].copy_from_slice(&v.to_le_bytes());
}

/// Appends integers and length-prefixed bytes to a vector.
#[derive(Default)]
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    pub(crate) fn u8(&mut self, v: u8) {
        self.0.push(v);
    }

    pub(crate) fn u16(&mut self, v: u16) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    /// A u32 length, then the bytes.
    pub(crate) fn bytes(&mut self, v: &[u8]) {
        self.u32(v.len() as u32);
        self.0.extend_from_slice(v);
    }
}

/// Reads what [`Encoder`] wrote. Reading past the end is `Corrupt`.
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { bytes, at: 0 }
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let slice = self.at.checked_add(n).and_then(|end| self.bytes.get(self.at..end));
        let slice = slice.ok_or_else(|| {
            Error::corrupt(format!(
                "a structure of {} bytes ends in the middle of a {n}-byte item",
                self.bytes.len()
            ))
        })?;
        self.at += n;
        Ok(slice)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16_at(self.take(2)?, 0))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32_at(self.take(4)?, 0))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64_at(self.take(8)?, 0))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let n = self.u32()? as usize;
        self.take(n)
    }

    pub(crate) fn string(&mut self) -> Result<String> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|_| Error::corrupt("a name is not valid UTF-8"))
    }

    /// Whether all bytes were read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// `Corrupt` unless all bytes were read.
    pub(crate) fn finish(self) -> Result<()> {
        let left = self.bytes.len() - self.at;
        if left == 0 {
            return Ok(());
        }
        Err(Error::corrupt(format!("{left} bytes are left over after a structure")))
    }
}
