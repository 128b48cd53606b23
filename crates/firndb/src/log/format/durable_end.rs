//! The durable end: a position up to which the log was durable at some close or checkpoint.
//!
//! After the last link, an opening cannot distinguish a torn write from a byte that was damaged
//! later: both are records whose checksum is wrong. But a log never ends before a position that was
//! durable once. This file records such a position, so that damage before it is reported as an
//! error instead of being dropped as a torn tail. Without the file, damage in the last segment
//! counts as a torn tail. It is a frozen file of kind 7.
//!
//! ```text
//! SECTION 1  OFFSET  SIZE  FIELD
//!            0       8     store id
//!            8       8     number of the segment
//!            16      8     byte in it
//! ```

use crate::Result;
use crate::bytes::int::{Decoder, Encoder};
use crate::log::format::segment_head::LogPosition;

pub(crate) const META: u32 = 1;

/// Section 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DurableEnd {
    pub(crate) store: u64,
    pub(crate) position: LogPosition,
}

impl DurableEnd {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = Encoder::default();
        let fields = [self.store, self.position.0, self.position.1];
        fields.into_iter().for_each(|field| out.u64(field));
        out.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<DurableEnd> {
        let mut input = Decoder::new(bytes);
        let end = DurableEnd { store: input.u64()?, position: (input.u64()?, input.u64()?) };
        input.finish()?;
        Ok(end)
    }

    /// The position, if it is one of this store.
    pub(crate) fn position_in(self, store: u64) -> Option<LogPosition> {
        (self.store == store).then_some(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_has_the_documented_bytes() {
        let end = DurableEnd { store: 0x0102, position: (3, 4096) };
        #[rustfmt::skip]
        let expected = [
            2, 1, 0, 0, 0, 0, 0, 0,         // store
            3, 0, 0, 0, 0, 0, 0, 0,         // segment
            0, 16, 0, 0, 0, 0, 0, 0,        // byte in it
        ];
        assert_eq!(end.encode(), expected);
        assert_eq!(DurableEnd::decode(&expected).unwrap(), end);
        assert!(DurableEnd::decode(&expected[..23]).is_err());
        assert_eq!(end.position_in(0x0103), None);
    }
}
