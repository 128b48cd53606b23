//! Types that the searches in a block body share. The layout of a body is in `format/block.rs`.

use crate::bytes::int::u64_at;

/// Bytes of a body before its arrays. `format/block.rs` defines the layout.
pub(crate) const BODY_HEADER: usize = 12;
/// Cache lines of a value that are prefetched before its key is compared. The hardware prefetcher
/// loads the following lines if the caller reads them; a caller that reads only the beginning does
/// not wait for them.
pub(crate) const VALUE_LINES: usize = 2;
/// The denominator of expected positions in a block.
pub(crate) const FRACTION_ONE: usize = 1 << 16;

/// Byte range of a record in a body, or why there is none. Two integers instead of an `enum`,
/// because these are returned in registers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RecordSpan {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl RecordSpan {
    /// The body has no such record.
    pub(crate) const ABSENT: RecordSpan = RecordSpan { start: 1, end: 0 };
    /// The body has another shape or is damaged: the caller must use the general search.
    pub(crate) const UNKNOWN: RecordSpan = RecordSpan { start: 2, end: 0 };

    /// Key and stored value of the record; `None` if there is no record.
    #[inline(always)]
    pub(crate) fn split(self, body: &[u8], key_len: usize) -> Option<(&[u8], &[u8])> {
        body.get(self.start as usize..self.end as usize)?.split_at_checked(key_len)
    }
}

/// AVX2 search: never available on this architecture.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy)]
pub(crate) enum Avx2Search {}

#[cfg(not(target_arch = "x86_64"))]
impl Avx2Search {
    pub(crate) fn detect() -> Option<Avx2Search> {
        None
    }

    pub(crate) fn find(self, _: &[u8], _: u8, _: usize, _: &[u8]) -> RecordSpan {
        match self {}
    }

    pub(crate) fn first(self, _: &[u8], _: u8, _: usize, _: usize) -> RecordSpan {
        match self {}
    }
}

/// Whether two keys of one length are equal. Keys of 8 to 16 bytes are compared without a call to
/// `memcmp`.
#[inline(always)]
pub(crate) fn keys_equal(a: &[u8], b: &[u8]) -> bool {
    match b.len() {
        8..=16 => {
            let end = b.len() - 8;
            a.len() == b.len() && (u64_at(a, 0), u64_at(a, end)) == (u64_at(b, 0), u64_at(b, end))
        }
        _ => a == b,
    }
}
