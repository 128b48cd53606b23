//! A hint: for a sealed segment, the hashes of the keys it has records of.
//!
//! A hint is a frozen file of kind 4. It is published after the segment and all before it are
//! durable, so the presence of its name proves that damage in them is corruption and not a torn
//! write. It lets an opening fill the index without reading records, and tells compaction whether
//! the segment may hold an older version of a deleted key.
//!
//! ```text
//! SECTION 1  OFFSET  SIZE  FIELD
//!            0       8     store id
//!            8       8     number of the segment
//!            16      8     where its records end
//!            24      8     bytes of puts
//!            32      8     bytes of deletes
//! SECTION 2  puts: entries of the high 48 bits of the key's hash and the record's offset
//! SECTION 3  deletes: the same
//! ```
//! Entries are sorted and take about seven bytes each: see `hint_entries.rs`.

use crate::bytes::int::{Decoder, Encoder};
use crate::log::format::hint_entries::HASH_BITS;
use crate::{Error, Result};

pub(crate) const META: u32 = 1;
pub(crate) const PUTS: u32 = 2;
pub(crate) const DELETES: u32 = 3;

/// The high bits of a hash, which hints keep.
pub(crate) fn hash_bits(hash: u64) -> u64 {
    hash >> (64 - HASH_BITS)
}

/// Section 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HintMeta {
    pub(crate) store: u64,
    pub(crate) segment: u64,
    pub(crate) end: u64,
    pub(crate) put_bytes: u64,
    pub(crate) delete_bytes: u64,
}

impl HintMeta {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        [self.store, self.segment, self.end, self.put_bytes, self.delete_bytes]
            .into_iter()
            .for_each(|field| out.u64(field));
        out.0
    }

    /// `Corrupt` if this is not the hint of this segment of this store.
    pub(crate) fn decode(bytes: &[u8], store: u64, segment: u64) -> Result<HintMeta> {
        let mut input = Decoder::new(bytes);
        let found = (input.u64()?, input.u64()?);
        if found != (store, segment) {
            let message = format!("this is the hint of segment {} of another store", found.1);
            return Err(Error::corrupt(message));
        }
        let (end, put_bytes, delete_bytes) = (input.u64()?, input.u64()?, input.u64()?);
        input.finish()?;
        // Then sums over segments cannot overflow either: `end` is compared with the segment's end.
        if put_bytes.checked_add(delete_bytes).is_none_or(|bytes| bytes > end) {
            let message = format!("{put_bytes} and {delete_bytes} bytes of records in {end} bytes");
            return Err(Error::corrupt(message));
        }
        Ok(HintMeta { store, segment, end, put_bytes, delete_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meta_section_has_the_documented_bytes() {
        let meta =
            HintMeta { store: 0x0102, segment: 3, end: 4096, put_bytes: 1000, delete_bytes: 50 };
        #[rustfmt::skip]
        let expected = [
            2, 1, 0, 0, 0, 0, 0, 0,         // store
            3, 0, 0, 0, 0, 0, 0, 0,         // segment
            0, 16, 0, 0, 0, 0, 0, 0,        // its end
            0xE8, 3, 0, 0, 0, 0, 0, 0,      // bytes of puts
            50, 0, 0, 0, 0, 0, 0, 0,        // bytes of deletes
        ];
        assert_eq!(meta.encode(), expected);
        assert_eq!(HintMeta::decode(&expected, 0x0102, 3).unwrap(), meta);
        assert!(HintMeta::decode(&expected, 0x0102, 4).is_err());
        assert!(HintMeta::decode(&expected[..39], 0x0102, 3).is_err());
        let too_many = HintMeta { put_bytes: 4090, ..meta };
        assert!(HintMeta::decode(&too_many.encode(), 0x0102, 3).is_err());
    }
}
