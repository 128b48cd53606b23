//! The beginning of a segment file: a header, then a link record. Other records follow, then zeros
//! up to the file's length.
//!
//! ```text
//! HEADER  OFFSET  SIZE  FIELD
//!         0       8     magic "FIRNLOG\n"
//!         8       4     format version: 1, or 2 in an ordered store
//!         12      4     alignment: records begin at multiples of 2^this
//!         16      8     store id, the same in all files of a store; seeds the hash of keys
//!         24      8     number of the segment
//!         32      8     length of the file
//!         40      16    zeros
//!         56      8     XXH3-64 of bytes 0..56
//! LINK    value of the first record
//!         0       8     number of the previous segment, 0 if there was none
//!         8       8     where the records of that segment end
//!         16      8     the segments up to this number were durable when this one began
//!         24      8     bytes of live keys and values at that time
//!         32      8     number of entries that follow: the segments of the store
//!         40      16 x  number and end of the records of each, numbers ascending
//! ```

use crate::bytes::int::{Decoder, Encoder, u32_at, u64_at};
use crate::log::failpoints::Failpoint;
use crate::log::format::record::{self, HEAD_MAX, Kind, Record, parse_checked};
use crate::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_64;

pub(crate) const MAGIC: [u8; 8] = *b"FIRNLOG\n";
pub(crate) const VERSION: u32 = 1;
/// The version of segments of ordered stores, which releases before it must not write to.
pub(crate) const VERSION_ORDERED: u32 = 2;

/// The version of the segments of a store.
pub(crate) fn version(is_ordered: bool) -> u32 {
    if is_ordered { VERSION_ORDERED } else { VERSION }
}
/// Size of the header. The first record begins at the next aligned offset.
pub(crate) const HEADER: usize = 64;
/// Bytes of a link without entries, and of an entry.
const LINK: usize = 5 * 8;
const LINK_ENTRY: usize = 2 * 8;
/// Largest alignment, as a power of two: segments of up to 256 GiB.
const ALIGNMENT_LOG2_MAX: u32 = 12;
/// Largest segment file: room for the largest record and the largest link.
pub(crate) const CAPACITY_MAX: u64 = 8 << 30;

/// A position in the log: number of the segment, and byte in it.
pub(crate) type LogPosition = (u64, u64);

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) store: u64,
    pub(crate) number: u64,
    pub(crate) capacity: u64,
    /// Records begin at multiples of 2^this.
    pub(crate) alignment_log2: u32,
    /// Whether the store is ordered.
    pub(crate) is_ordered: bool,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..8].copy_from_slice(&MAGIC);
        let version = version(self.is_ordered);
        out[8..12].copy_from_slice(&version.to_le_bytes());
        out[12..16].copy_from_slice(&self.alignment_log2.to_le_bytes());
        out[16..24].copy_from_slice(&self.store.to_le_bytes());
        out[24..32].copy_from_slice(&self.number.to_le_bytes());
        out[32..40].copy_from_slice(&self.capacity.to_le_bytes());
        let sum = xxh3_64(&out[..56]);
        out[56..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Errors: `Corrupt` if a field or the checksum is wrong, `UnsupportedVersion`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<SegmentHeader> {
        let bytes = bytes.get(..HEADER).ok_or_else(|| {
            Error::corrupt(format!("a segment of {} bytes has no header", bytes.len()))
        })?;
        let (sum, expected) = (u64_at(bytes, 56), xxh3_64(&bytes[..56]));
        if bytes[..8] != MAGIC || sum != expected {
            let message = format!("header checksum {sum:016x}, expected {expected:016x}");
            return Err(Error::corrupt(message).at(0));
        }
        let version = u32_at(bytes, 8);
        if ![VERSION, VERSION_ORDERED].contains(&version) {
            let message =
                format!("segment format {version}, this release reads 1 and 2: use a newer one");
            return Err(Error::new(ErrorKind::UnsupportedVersion, message));
        }
        let is_ordered = version == VERSION_ORDERED;
        let (alignment_log2, number, capacity) =
            (u32_at(bytes, 12), u64_at(bytes, 24), u64_at(bytes, 32));
        if alignment_log2 > ALIGNMENT_LOG2_MAX {
            return Err(Error::corrupt(format!("alignment_log2 2^{alignment_log2}")).at(12));
        }
        if number == 0 || number == u64::MAX {
            return Err(Error::corrupt(format!("segment number {number}")).at(24));
        }
        if capacity > CAPACITY_MAX {
            return Err(Error::corrupt(format!("a segment of {capacity} bytes")).at(32));
        }
        let store = u64_at(bytes, 16);
        Ok(SegmentHeader { store, number, capacity, alignment_log2, is_ordered })
    }
}

/// The value of a link record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// The previous segment and where its records end.
    pub(crate) previous: LogPosition,
    pub(crate) durable: u64,
    pub(crate) live_bytes: u64,
    /// The segments of the store, the previous one included, and where the records of each end.
    pub(crate) members: Vec<LogPosition>,
}

/// Most bytes of header and link in a segment of a store of this many segments.
pub(crate) const fn head_length(segments: usize) -> usize {
    HEADER + HEAD_MAX + LINK + LINK_ENTRY * segments
}

impl Link {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        let head = [self.previous.0, self.previous.1, self.durable, self.live_bytes];
        head.into_iter().for_each(|v| out.u64(v));
        out.u64(self.members.len() as u64);
        for &(number, end) in &self.members {
            out.u64(number);
            out.u64(end);
        }
        out.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Link> {
        let mut input = Decoder::new(bytes);
        let previous = (input.u64()?, input.u64()?);
        let (durable, live_bytes) = (input.u64()?, input.u64()?);
        let count = input.u64()?;
        if count != (bytes.len().saturating_sub(LINK) / LINK_ENTRY) as u64 {
            return Err(Error::corrupt(format!("a link with {count} segments")));
        }
        let pair = |_| Ok((input.u64()?, input.u64()?));
        let members = (0..count).map(pair).collect::<Result<Vec<_>>>()?;
        input.finish()?;
        Ok(Link { previous, durable, live_bytes, members })
    }
}

/// The bytes of a header and a link.
pub(crate) fn encode_head(header: &SegmentHeader, link: &Link) -> Vec<u8> {
    let offset = HEADER.next_multiple_of(1 << header.alignment_log2);
    let mut bytes = header.encode().to_vec();
    bytes.resize(offset, 0);
    let value = link.encode();
    let record = Record::internal(Kind::Link, &value);
    bytes.extend_from_slice(&record::encode(&record, header.number, offset as u64));
    bytes
}

/// The beginning of a segment.
pub(crate) struct SegmentHead {
    pub(crate) header: SegmentHeader,
    pub(crate) link: Link,
    /// Where the link record ends.
    pub(crate) end: u64,
}

impl SegmentHead {
    /// Decodes the head of segment `number`, whose file has this length.
    pub(crate) fn decode(bytes: &[u8], length: u64, number: u64) -> Result<SegmentHead> {
        Self::after_header(decode_header(bytes, length, number)?, bytes, number)
    }

    /// Decodes the link that follows a header in segment `number`.
    pub(crate) fn after_header(
        header: SegmentHeader,
        bytes: &[u8],
        number: u64,
    ) -> Result<SegmentHead> {
        let at = HEADER.next_multiple_of(1 << header.alignment_log2);
        let rest = bytes.get(at..).unwrap_or(&[]);
        let found = parse_checked(rest, number, at as u64);
        let (record, length) = found
            .filter(|(record, _)| record.kind == Kind::Link)
            .ok_or_else(|| Error::corrupt("the segment's link is damaged").at(at as u64))?;
        Ok(SegmentHead { header, link: Link::decode(record.value)?, end: (at + length) as u64 })
    }
}

/// Decodes the header of segment `number`, whose file has this length.
pub(crate) fn decode_header(bytes: &[u8], length: u64, number: u64) -> Result<SegmentHeader> {
    let header = SegmentHeader::decode(bytes)?;
    if header.number != number || header.capacity != length {
        let message = format!(
            "this is segment {} of {} bytes; by its name and length it is {number} of {length}",
            header.number, header.capacity,
        );
        return Err(Error::corrupt(message).at(24));
    }
    Ok(header)
}

/// Passes offset, record and length of every record from `from` on that is part of a complete batch
/// to `each`. Returns where the last of them ends.
pub(crate) fn scan<'a>(
    bytes: &'a [u8],
    header: &SegmentHeader,
    from: u64,
    mut each: impl FnMut(u64, Record<'a>, u64) -> Result<()>,
) -> Result<u64> {
    let mut end = from;
    let mut at = from;
    let mut batch: Vec<(u64, Record, u64)> = Vec::new();
    loop {
        let offset = at.next_multiple_of(1 << header.alignment_log2);
        let rest = bytes.get(offset as usize..).unwrap_or(&[]);
        let Some((record, length)) = parse_checked(rest, header.number, offset) else {
            return Ok(end);
        };
        at = offset + length as u64;
        batch.push((offset, record, length as u64));
        if !record.more || Failpoint::AcceptHalfBatch.is_on() {
            for (offset, record, length) in batch.drain(..) {
                each(offset, record, length)?;
            }
            end = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_the_documented_bytes() {
        let header = SegmentHeader {
            store: 0x0102,
            number: 3,
            capacity: 4096,
            alignment_log2: 2,
            is_ordered: false,
        };
        let bytes = header.encode();
        #[rustfmt::skip]
        let expected = [
            b'F', b'I', b'R', b'N', b'L', b'O', b'G', b'\n',
            1, 0, 0, 0,                 // format version
            2, 0, 0, 0,                 // alignment 2^2
            2, 1, 0, 0, 0, 0, 0, 0,     // store
            3, 0, 0, 0, 0, 0, 0, 0,     // number
            0, 16, 0, 0, 0, 0, 0, 0,    // capacity
        ];
        assert_eq!(bytes[..40], expected);
        assert_eq!(SegmentHeader::decode(&bytes).unwrap(), header);
        for at in 0..HEADER {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert!(SegmentHeader::decode(&damaged).is_err(), "byte {at}");
            assert!(SegmentHeader::decode(&bytes[..at]).is_err());
        }
        let ordered = SegmentHeader { is_ordered: true, ..header };
        assert_eq!(ordered.encode()[8..12], [2, 0, 0, 0]);
        assert_eq!(SegmentHeader::decode(&ordered.encode()).unwrap(), ordered);
    }

    #[test]
    fn links_have_the_documented_bytes() {
        let members = vec![(2, 64), (5, 100), (7, 4000)];
        let link = Link { previous: (7, 4000), durable: 5, live_bytes: 9, members };
        let bytes = link.encode();
        #[rustfmt::skip]
        let expected = [
            7, 0, 0, 0, 0, 0, 0, 0, 0xA0, 0x0F, 0, 0, 0, 0, 0, 0,   // previous: 7, to 4000
            5, 0, 0, 0, 0, 0, 0, 0,                                 // durable up to 5
            9, 0, 0, 0, 0, 0, 0, 0,                                 // live bytes
            3, 0, 0, 0, 0, 0, 0, 0,                                 // entries
            2, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(bytes[..expected.len()], expected);
        assert_eq!(bytes.len(), 40 + 3 * 16);
        assert_eq!(Link::decode(&bytes).unwrap(), link);
        for length in 0..bytes.len() {
            assert!(Link::decode(&bytes[..length]).is_err());
        }
    }
}
