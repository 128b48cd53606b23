//! The bytes of a table: its sections, and the meta section.
//!
//! A table is a frozen file (`disk/envelope.rs`) of kind 3. Version 1: records are ordered by the
//! hash of their keys (`hash.rs`), then by key. Version 2: records are ordered by key. In both they
//! are packed into blocks (`block.rs`). `directory.rs`, `fences.rs`, `filter.rs` and `index.rs`
//! have the other structures, `compress.rs` the zstd frames.
//!
//! ```text
//! SECTION  NAME          CONTENTS
//! 1        meta          see below
//! 2        blocks        blocks, aligned to 4096 bytes; each with its own checksum
//! 3        directory     hash -> block, in version 1
//! 4        starts        offsets of blocks, if their lengths differ
//! 5        filter        binary fuse filters over the hashes
//! 6        dictionary    zstd dictionary
//! 7        metadata      metadata of the user
//! 8        value schema  how to read values; text of the user
//! 9        index         hash -> record, for large records
//! 10       index checks  checksums of the index
//! 11       fences        key -> block, in version 2
//!
//! META     OFFSET  SIZE  FIELD
//!          0       8     records
//!          8       8     blocks
//!          16      8     slots of the directory; 0 in version 2
//!          24      8     bytes of all keys
//!          32      8     bytes of all values, before compression
//!          40      8     bytes of the longest block in the file
//!          48      4     block size, a multiple of 4096
//!          52      4     longest key
//!          56      4     longest value, before compression
//!          60      1     compression: 0 none, 1 one frame per record, 2 one frame per block
//!          61      1     compression level
//!          62      1     bits per key of the filter: 0, 8 or 16
//!          63      1     bit 0: blocks are aligned to 4096 (else 16) bytes; bit 1: a seed follows;
//!                        bit 2: records are ordered by key, in version 2 always
//!          64      8     seed of the hash, if present; otherwise it is 0
//! ```

pub(crate) mod hash;
pub(crate) mod compress;
pub(crate) mod block;
pub(crate) mod directory;
pub(crate) mod fences;
pub(crate) mod filter;
pub(crate) mod index;

use crate::bytes::int::{Decoder, Encoder};
use crate::disk::envelope::Envelope;
use crate::table::options::{Compression, KeyFilter, Order};
use crate::{Error, Result};

/// Section ids.
pub(crate) mod section {
    pub(crate) const META: u32 = 1;
    pub(crate) const BLOCKS: u32 = 2;
    pub(crate) const DIRECTORY: u32 = 3;
    pub(crate) const STARTS: u32 = 4;
    pub(crate) const FILTER: u32 = 5;
    pub(crate) const DICTIONARY: u32 = 6;
    pub(crate) const METADATA: u32 = 7;
    pub(crate) const VALUE_SCHEMA: u32 = 8;
    pub(crate) const INDEX: u32 = 9;
    pub(crate) const INDEX_CHECKS: u32 = 10;
    pub(crate) const FENCES: u32 = 11;
}

/// Longest key in bytes.
pub const MAX_KEY: usize = 1 << 16;
/// Longest value in bytes.
pub const MAX_VALUE: usize = u32::MAX as usize;
/// Bytes of a page. Block sizes and direct reads are multiples of it.
pub(crate) const PAGE: usize = 4096;
/// Largest block size.
pub(crate) const MAX_BLOCK_SIZE: usize = 1 << 20;
/// Format versions of tables in hash order and in key order.
const HASH_ORDER: u32 = 1;
const KEY_ORDER: u32 = 2;
/// Alignment of blocks that are not aligned to pages.
pub(crate) const ALIGNMENT: usize = 16;

/// The meta section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) records: u64,
    pub(crate) blocks: u64,
    pub(crate) slots: u64,
    pub(crate) key_bytes: u64,
    pub(crate) value_bytes: u64,
    pub(crate) longest_block: u64,
    pub(crate) block_size: u32,
    pub(crate) longest_key: u32,
    pub(crate) longest_value: u32,
    pub(crate) compression: Compression,
    pub(crate) filter: KeyFilter,
    pub(crate) paged: bool,
    /// Seed of the hash of keys.
    pub(crate) seed: u64,
    pub(crate) order: Order,
}

/// Flags in byte 63.
const PAGED: u8 = 1;
const SEEDED: u8 = 2;
const ORDERED: u8 = 4;

/// The format version of a table in this order.
pub(crate) fn version_of(order: Order) -> u32 {
    match order {
        Order::Hash => HASH_ORDER,
        Order::Key => KEY_ORDER,
    }
}

impl Meta {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        for v in [self.records, self.blocks, self.slots, self.key_bytes, self.value_bytes] {
            out.u64(v);
        }
        out.u64(self.longest_block);
        for v in [self.block_size, self.longest_key, self.longest_value] {
            out.u32(v);
        }
        let (compression, level) = match self.compression {
            Compression::None => (0, 0),
            Compression::Records { level } => (1, level),
            Compression::Blocks { level } => (2, level),
        };
        out.u8(compression);
        out.u8(level as u8);
        out.u8(self.filter.bits() as u8);
        let seeded = if self.seed == 0 { 0 } else { SEEDED };
        let ordered = u8::from(self.order == Order::Key) * ORDERED;
        out.u8((u8::from(self.paged) * PAGED) | seeded | ordered);
        if self.seed != 0 {
            out.u64(self.seed);
        }
        out.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Meta> {
        let mut from = Decoder::new(bytes);
        let mut meta = Meta {
            records: from.u64()?,
            blocks: from.u64()?,
            slots: from.u64()?,
            key_bytes: from.u64()?,
            value_bytes: from.u64()?,
            longest_block: from.u64()?,
            block_size: from.u32()?,
            longest_key: from.u32()?,
            longest_value: from.u32()?,
            compression: match (from.u8()?, i32::from(from.u8()?)) {
                (0, 0) => Compression::None,
                (1, level) => Compression::Records { level },
                (2, level) => Compression::Blocks { level },
                (code, _) => return Err(unknown("compression", code)),
            },
            filter: match from.u8()? {
                0 => KeyFilter::None,
                8 => KeyFilter::Bits8,
                16 => KeyFilter::Bits16,
                code => return Err(unknown("filter", code)),
            },
            paged: false,
            seed: 0,
            order: Order::Hash,
        };
        let bits = from.u8()?;
        if bits & !(PAGED | SEEDED | ORDERED) != 0 {
            return Err(unknown("flags", bits));
        }
        meta.paged = bits & PAGED != 0;
        if bits & ORDERED != 0 {
            meta.order = Order::Key;
        }
        if bits & SEEDED != 0 {
            meta.seed = from.u64()?;
        }
        from.finish()?;
        let size = meta.block_size as usize;
        if size == 0 || !size.is_multiple_of(PAGE) || size > MAX_BLOCK_SIZE {
            return Err(Error::corrupt(format!("a block size of {size} bytes is invalid")));
        }
        let is_ordered = meta.order == Order::Key;
        if meta.blocks > meta.records
            || (meta.slots == 0) != is_ordered
            || (is_ordered && meta.seed != 0)
            || (meta.records > 0 && meta.blocks == 0)
        {
            return Err(Error::corrupt(format!(
                "{} records in {} blocks and {} slots are inconsistent",
                meta.records, meta.blocks, meta.slots
            )));
        }
        Ok(meta)
    }
}

fn unknown(what: &str, code: u8) -> Error {
    Error::corrupt(format!("{what} {code} is not known"))
}

/// A section, or `None` if the file does not have it.
pub(crate) fn optional_section(file: &Envelope, id: u32) -> Result<Option<&[u8]>> {
    file.find(id).map(|i| file.section(i)).transpose()
}

/// A section; `Corrupt` if the file does not have it.
pub(crate) fn required_section(file: &Envelope, id: u32) -> Result<&[u8]> {
    optional_section(file, id)?
        .ok_or_else(|| Error::corrupt(format!("the table has no section {id}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_encoding() {
        let meta = Meta {
            records: 1,
            blocks: 1,
            slots: 1,
            key_bytes: 3,
            value_bytes: 4,
            longest_block: 4096,
            block_size: 4096,
            longest_key: 3,
            longest_value: 4,
            compression: Compression::Records { level: 6 },
            filter: KeyFilter::Bits8,
            paged: true,
            seed: 0,
            order: Order::Hash,
        };
        let bytes = meta.encode();
        #[rustfmt::skip]
        let expected = [
            1, 0, 0, 0, 0, 0, 0, 0,    // records
            1, 0, 0, 0, 0, 0, 0, 0,    // blocks
            1, 0, 0, 0, 0, 0, 0, 0,    // slots
            3, 0, 0, 0, 0, 0, 0, 0,    // bytes of keys
            4, 0, 0, 0, 0, 0, 0, 0,    // bytes of values
            0, 0x10, 0, 0, 0, 0, 0, 0, // longest block
            0, 0x10, 0, 0,             // block size
            3, 0, 0, 0,                // longest key
            4, 0, 0, 0,                // longest value
            1, 6, 8,                   // one frame per record, level 6; 8-bit filter
            1,                         // blocks are aligned to pages, no seed
        ];
        assert_eq!(bytes, expected);
        assert_eq!(Meta::decode(&bytes).unwrap(), meta);
        for cut in 0..bytes.len() {
            assert!(Meta::decode(&bytes[..cut]).is_err());
        }
        let meta = Meta { seed: 0x0102_0304_0506_0708, ..meta };
        let seeded = meta.encode();
        assert_eq!(seeded[..63], bytes[..63]);
        assert_eq!(seeded[63..], [3, 8, 7, 6, 5, 4, 3, 2, 1]); // aligned to pages, and a seed
        assert_eq!(Meta::decode(&seeded).unwrap(), meta);
        assert!((0..seeded.len()).all(|cut| Meta::decode(&seeded[..cut]).is_err()));
        let ordered = Meta { seed: 0, slots: 0, order: Order::Key, ..meta };
        let bytes = ordered.encode();
        // No slots, and in key order.
        assert_eq!((&bytes[16..24], &bytes[63..]), (&[0; 8][..], &[5][..]));
        assert_eq!(Meta::decode(&bytes).unwrap(), ordered);
        assert!(Meta::decode(&Meta { slots: 1, ..ordered }.encode()).is_err());
        assert!(Meta::decode(&Meta { seed: 1, ..ordered }.encode()).is_err());
    }
}
