//! Constants that decide which encodings a partition file uses.

/// Words of a bitset over the largest small partition.
pub(crate) const SMALL_WORDS: usize = 64;
/// Documents of the largest small partition. Queries on small partitions use a bitset on the stack.
pub(crate) const SMALL_DOCUMENTS: u32 = SMALL_WORDS as u32 * 64;

/// Upper bound (exclusive) of the span of values in points: the head of a leaf has 27 bits for a
/// value, and the span itself stands for a missing value.
pub(crate) const MAX_SPAN: u32 = (1 << 27) - 1;

/// The maximum width in bits of a column that can be scanned for an arbitrary set of ordinals in
/// one pass.
pub(crate) const SCAN_BITS: u8 = 8;

/// Whether a partition of this many documents uses the encodings that only pay off in larger
/// partitions: points, column scans instead of postings lists, and Elias-Fano lists.
pub(crate) fn has_large_forms(documents: u32) -> bool {
    #[cfg(test)]
    if crate::search::testing::FORCED.get().forms {
        return true;
    }
    documents > SMALL_DOCUMENTS
}
