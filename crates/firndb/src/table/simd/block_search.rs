//! The search in a body, as `block.rs` describes it: [`Body::find`], or what takes less time for
//! the body that small records mostly make.

use crate::bytes::int::u64_at;

/// Bytes of a body before its arrays, as in `format/block.rs`.
pub(crate) const BODY_HEADER: usize = 12;
/// Cache lines of a value that are asked for before its key was compared. Those that follow the
/// processor asks for by itself, if they are read; who reads the beginning only does not wait for
/// them.
pub(crate) const VALUE_LINES: usize = 2;
/// What a share is of.
pub(crate) const FRACTION_ONE: usize = 1 << 16;

/// Where in a body the record of a key is. Two numbers, and no `enum`, for those are returned in
/// registers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RecordSpan {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl RecordSpan {
    /// Nowhere.
    pub(crate) const ABSENT: RecordSpan = RecordSpan { start: 1, end: 0 };
    /// The body is not a usual one, or is damaged.
    pub(crate) const UNKNOWN: RecordSpan = RecordSpan { start: 2, end: 0 };

    /// Key and stored value of the record; `None` if there is none.
    #[inline(always)]
    pub(crate) fn split(self, body: &[u8], key_len: usize) -> Option<(&[u8], &[u8])> {
        body.get(self.start as usize..self.end as usize)?.split_at_checked(key_len)
    }
}

/// The search that this processor does not have.
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

/// Whether two keys of one length are equal; usual ones are compared without a call.
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
