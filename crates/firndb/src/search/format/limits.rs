//! QueryLimits that the forms of a partition file depend on.

/// Words of the largest small partition.
pub(crate) const SMALL_WORDS: usize = 64;
/// Documents of the largest small partition.
pub(crate) const SMALL_DOCUMENTS: u32 = SMALL_WORDS as u32 * 64;

/// The end of values and of spans: both fit into the head of a leaf.
pub(crate) const MAX_SPAN: u32 = (1 << 27) - 1;

/// Bits of the widest column that is scanned for any set of keys.
pub(crate) const SCAN_BITS: u8 = 8;

/// Whether so many documents are written in forms that pay in larger partitions only: points, keys
/// and fields whose documents are in the column, divided lists.
pub(crate) fn has_large_forms(documents: u32) -> bool {
    #[cfg(test)]
    if crate::search::testing::FORCED.get().forms {
        return true;
    }
    documents > SMALL_DOCUMENTS
}
