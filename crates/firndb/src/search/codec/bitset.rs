//! Bitsets of documents in a file: little-endian 64-bit words.

use crate::bytes::int::u64_at;
use crate::search::simd::kernels;

/// A bitset in a file; empty if the file is corrupt.
#[derive(Clone, Copy)]
pub(crate) struct Bitset<'a>(&'a [u8]);

/// The size in bytes of a bitset over `documents` documents.
pub(crate) fn size(documents: usize) -> usize {
    documents.div_ceil(64) * 8
}

/// Appends the bitset of `docs`, over `documents` documents.
pub(crate) fn push(out: &mut Vec<u8>, docs: &[u32], documents: usize) {
    let start = out.len();
    out.resize(start + size(documents), 0);
    docs.iter().for_each(|&doc| out[start + doc as usize / 8] |= 1 << (doc % 8));
}

impl<'a> Bitset<'a> {
    /// The bitset at an offset of a section; empty if it is out of bounds.
    pub(crate) fn new(area: &'a [u8], offset: usize, documents: usize) -> Bitset<'a> {
        let end = offset.checked_add(size(documents));
        Bitset(end.and_then(|end| area.get(offset..end)).unwrap_or(&[]))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of words.
    pub(crate) fn words(&self) -> u64 {
        self.0.len() as u64 / 8
    }

    /// Whether a document is in the bitset.
    #[inline]
    pub(crate) fn has(&self, doc: u32) -> bool {
        let byte = self.0.get(doc as usize / 8).copied().unwrap_or(0);
        byte >> (doc % 8) & 1 == 1
    }

    /// `bits |= self`
    pub(crate) fn or(&self, bits: &mut [u64]) {
        kernels::or_bytes(bits, self.0);
    }

    /// `bits &= self`, or `bits &= !self` if `negate`, where `bits` start at word `first`.
    pub(crate) fn and(&self, first: usize, bits: &mut [u64], negate: bool) {
        let end = self.0.len().min(8 * (first + bits.len()));
        let bytes = self.0.get(8 * first..end).unwrap_or(&[]);
        match negate {
            false => kernels::and_bytes(bits, bytes),
            true => kernels::and_not_bytes(bits, bytes),
        }
    }

    /// The number of documents that are also in `bits`.
    pub(crate) fn count_and(&self, bits: &[u64]) -> u64 {
        kernels::count_and(bits, self.0)
    }

    /// Appends the documents of whole words from `word` on until `out` has at least `most` entries,
    /// and advances `word` past them. Returns false at the end of the bitset.
    pub(crate) fn next(&self, word: &mut usize, most: usize, out: &mut Vec<u32>) -> bool {
        while *word * 8 < self.0.len() && out.len() < most {
            kernels::push_word(u64_at(self.0, *word * 8), *word as u32 * 64, out);
            *word += 1;
        }
        *word * 8 < self.0.len()
    }
}

#[cfg(test)]
mod tests;
