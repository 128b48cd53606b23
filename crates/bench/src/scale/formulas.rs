//! Formulas for the size of a store, as `docs/log.md` gives them.

use super::engine::KEY_BYTES;

/// Most bytes of index memory per key.
pub const INDEX_BYTES: f64 = 10.5;
/// Memory of an index that has hardly any keys.
pub const INDEX_FIXED: f64 = (16 << 20) as f64;
/// Bytes of the largest segment of a store of less than 64 GiB.
const SEGMENT: f64 = (64 << 20) as f64;
/// Smallest segment of a store that has outgrown the first ones.
const SEGMENT_LEAST: f64 = (1 << 20) as f64;
/// A segment takes this share of the store, until it has its largest size.
const SEGMENT_SHARE: f64 = 192.0;
/// Beyond 64 GiB it takes this share, up to 8 GiB.
const SEGMENT_SHARE_LARGE: f64 = 1024.0;
const SEGMENT_MAX: f64 = 8.0 * (1 << 30) as f64;
/// Segments of space besides the records: the active and the next one, and the reserve of three.
const SPARE: f64 = 5.0;
/// Bits of a hash in a hint.
const HASH_BITS: f64 = 48.0;

/// The records of a store that holds every key once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of keys, of 8 bytes.
    pub keys: u64,
    /// Bytes of a value.
    pub value: usize,
}

impl Shape {
    /// Bytes of a record in the log: checksum and kind, two lengths, key and value.
    pub fn record(&self) -> f64 {
        let lengths = varint(KEY_BYTES) + varint(self.value);
        (5 + lengths + KEY_BYTES + self.value) as f64
    }

    /// Bytes of a segment.
    pub fn segment(&self) -> f64 {
        let all = self.keys as f64 * self.record();
        let largest = (all / SEGMENT_SHARE_LARGE).clamp(SEGMENT, SEGMENT_MAX);
        (all / SEGMENT_SHARE).clamp(SEGMENT_LEAST, largest)
    }

    /// Records begin at multiples of this in a segment.
    fn alignment(&self) -> f64 {
        (self.segment() / SEGMENT).log2().ceil().max(0.0).exp2()
    }

    /// Bytes of a record with its padding.
    fn padded(&self) -> f64 {
        (self.record() / self.alignment()).ceil() * self.alignment()
    }

    /// Bytes of a record in the hint of its segment: Elias-Fano code of the hash bits, and the
    /// offset.
    pub fn hint(&self) -> f64 {
        let records = self.segment() / self.padded();
        let offset = (self.segment() / self.alignment()).log2().ceil();
        (HASH_BITS - records.log2().floor() + 2.0 + offset) / 8.0
    }

    /// Most bytes of memory of the index.
    pub fn memory(&self) -> f64 {
        INDEX_FIXED + INDEX_BYTES * self.keys as f64
    }

    /// Bytes of disk: records, hints, a bit per record in the checkpoint, and spare segments.
    pub fn disk(&self) -> f64 {
        let spare = SPARE * self.segment();
        self.keys as f64 * (self.padded() + self.hint() + 1.0 / 8.0) + spare
    }
}

/// Bytes of a length as LEB128.
fn varint(length: usize) -> usize {
    (usize::BITS - (length | 1).leading_zeros()).div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{bytes, count};

    #[test]
    fn a_billion_small_records_take_38_gigabytes() {
        let shape = Shape { keys: 1_000_000_000, value: 16 };
        assert_eq!(shape.record(), 31.0);
        assert!((10.5e9..10.6e9).contains(&shape.memory()), "{}", shape.memory());
        assert!((37e9..40e9).contains(&shape.disk()), "{}", shape.disk());
    }

    #[test]
    fn the_documentation_has_what_the_formulas_give() {
        let page = include_str!("../../../../docs/log.md");
        for (keys, value) in [
            (1_000_000, 16),
            (20_000_000, 16),
            (200_000_000, 16),
            (1_000_000_000, 16),
            (5_000_000, 1024),
            (500_000_000, 1024),
        ] {
            let shape = Shape { keys, value };
            let [memory, disk] = [shape.memory(), shape.disk()].map(|value| bytes(value as u64));
            let line = page.lines().find(|line| {
                line.starts_with(&format!("| {} | {value} | {memory} |", count(keys)))
                    && line.contains(&format!(" | {disk} | "))
            });
            assert!(line.is_some(), "{shape:?}: {memory}, {disk}");
        }
    }

    #[test]
    fn the_records_of_halodb_take_four_percent_more_than_keys_and_values() {
        let shape = Shape { keys: 500_000_000, value: 1024 };
        assert_eq!(shape.record(), 1040.0);
        let bytes = 500e6 * 1032.0;
        assert!((1.0..1.04).contains(&(shape.disk() / bytes)), "{}", shape.disk() / bytes);
    }
}
