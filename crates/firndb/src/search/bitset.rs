//! Bitsets of documents in a file: plain words, or *sparse*, without the nibbles that are zero.
//!
//! Of the documents of a partition perhaps a tenth have a tag. A bitset of them has a bit of each
//! document, a divided list (`slices.rs`) half of that but a nanosecond a document to read. In
//! between, a sparse bitset has a bit for every four documents that says whether one of them has
//! the tag, and four bits where one has: 0.56 bits a document for one in twelve. AVX-512 puts 64
//! nibbles into their places by one instruction: it is read in two or three times the time of a
//! plain bitset, in a tenth of that of a list.
//! (Bitmaps whose zeros are left out by a bitmap above: Fraenkel, Klein 1985.)
//!
//! ```text
//! OFFSET         SIZE     FIELD
//! 0              4 b      for each block of 4,096 documents where its nibbles begin below
//! 4 B            4        and where those of the last end, V
//! 4 B + 4        8 g      for each group of 256 documents which of its 64 nibbles are there
//! ..             V        these nibbles, group after group, from a byte border on, the lower half
//!                         of a byte first
//! ..             32       zeros
//! ```

mod spread;

use super::kernels;
use super::small;
use crate::bytes::int::{Encoder, u32_at, u64_at};
use spread::or_groups;
use std::ops::Range;

/// Words of a group, and groups of a block.
const GROUP: usize = 4;
const BLOCK: usize = 16;
/// Zeros behind the nibbles, so that those of a group can be loaded at once.
const END: usize = 32;
/// Words that are unpacked at a time.
const PART: usize = 1024;

/// A bitset in a file.
#[derive(Clone, Copy)]
pub(crate) enum Bitset<'a> {
    /// Words of 8 bytes; a damaged file may have none.
    Plain(&'a [u8]),
    Sparse(Sparse<'a>),
}

#[derive(Clone, Copy)]
pub(crate) struct Sparse<'a> {
    blocks: &'a [u8],
    masks: &'a [u8],
    nibbles: &'a [u8],
}

/// Bytes of the blocks and of the groups of so many documents.
fn sizes(documents: usize) -> (usize, usize) {
    let groups = documents.div_ceil(64 * GROUP);
    (4 * (groups.div_ceil(BLOCK) + 1), 8 * groups)
}

/// Bytes of a plain bitset.
pub(crate) fn size(documents: usize) -> usize {
    documents.div_ceil(64) * 8
}

/// Appends a bitset, sparse if that saves an eighth; whether it is.
pub(crate) fn push(out: &mut Vec<u8>, docs: &[u32], documents: usize) -> bool {
    let start = out.len();
    out.resize(start + size(documents), 0);
    docs.iter().for_each(|&doc| out[start + doc as usize / 8] |= 1 << (doc % 8));
    if !small::has_large_forms(documents as u32) {
        return false;
    }
    let sparse = encode(&out[start..], documents);
    let pays = sparse.len() <= size(documents) / 8 * 7;
    if pays {
        out.truncate(start);
        out.extend_from_slice(&sparse);
    }
    pays
}

/// The sparse form of a plain bitset.
fn encode(plain: &[u8], documents: usize) -> Vec<u8> {
    let (mut blocks, mut masks) = (Encoder::default(), Encoder::default());
    let mut nibbles: Vec<u8> = Vec::new();
    for (i, group) in plain.chunks(8 * GROUP).enumerate() {
        if i % BLOCK == 0 {
            blocks.u32(nibbles.len() as u32);
        }
        let (mut mask, mut count) = (0u64, 0);
        let all = group.iter().flat_map(|byte| [byte & 15, byte >> 4]);
        for (at, nibble) in all.enumerate().filter(|(_, nibble)| *nibble != 0) {
            mask |= 1 << at;
            match count % 2 {
                0 => nibbles.push(nibble),
                _ => *nibbles.last_mut().expect("the lower half was pushed") |= nibble << 4,
            }
            count += 1;
        }
        masks.u64(mask);
    }
    blocks.u32(nibbles.len() as u32);
    debug_assert_eq!((blocks.0.len(), masks.0.len()), sizes(documents));
    [blocks.0, masks.0, nibbles, vec![0; END]].concat()
}

impl<'a> Bitset<'a> {
    /// The plain one at an offset of an area; empty if it does not lie in it.
    pub(crate) fn plain(area: &'a [u8], offset: usize, documents: usize) -> Bitset<'a> {
        let end = offset.checked_add(size(documents));
        Bitset::Plain(end.and_then(|end| area.get(offset..end)).unwrap_or(&[]))
    }

    /// The sparse one at an offset of an area; an empty plain one if it does not lie in it.
    pub(crate) fn sparse(area: &'a [u8], offset: usize, documents: usize) -> Bitset<'a> {
        let (blocks, masks) = sizes(documents);
        let sparse = || {
            let (blocks, rest) = area.get(offset..)?.split_at_checked(blocks)?;
            let (masks, rest) = rest.split_at_checked(masks)?;
            let nibbles = rest.get(..u32_at(blocks, blocks.len() - 4) as usize + END)?;
            Some(Bitset::Sparse(Sparse { blocks, masks, nibbles }))
        };
        sparse().unwrap_or(Bitset::Plain(&[]))
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Bitset::Plain([]))
    }

    /// How many words of a plain bitset are combined in the time of this one.
    pub(crate) fn words(&self) -> u64 {
        match self {
            Bitset::Plain(bytes) => bytes.len() as u64 / 8,
            Bitset::Sparse(sparse) => sparse.words() as u64 * spread::cost(),
        }
    }

    /// Whether a document is in it.
    #[inline]
    pub(crate) fn has(&self, doc: u32) -> bool {
        match self {
            Bitset::Plain(bytes) => {
                let byte = bytes.get(doc as usize / 8).copied().unwrap_or(0);
                byte >> (doc % 8) & 1 == 1
            }
            Bitset::Sparse(sparse) => sparse.has(doc),
        }
    }

    /// `bits |= self`
    pub(crate) fn or(&self, bits: &mut [u64]) {
        match self {
            Bitset::Plain(bytes) => kernels::or_bytes(bits, bytes),
            Bitset::Sparse(sparse) => sparse.or(0, bits),
        }
    }

    /// `bits &= self`, or `bits &= !self` if `negate`, where `bits` begin at word `first`.
    pub(crate) fn and(&self, first: usize, bits: &mut [u64], negate: bool) {
        match self {
            Bitset::Plain(bytes) => {
                let end = bytes.len().min(8 * (first + bits.len()));
                let bytes = bytes.get(8 * first..end).unwrap_or(&[]);
                match negate {
                    false => kernels::and_bytes(bits, bytes),
                    true => kernels::and_not_bytes(bits, bytes),
                }
            }
            Bitset::Sparse(sparse) => {
                sparse.each_part(first, bits.len(), |part, words| match negate {
                    false => kernels::and(&mut bits[part], words),
                    true => kernels::and_not(&mut bits[part], words),
                })
            }
        }
    }

    /// How many documents of a bitset are in this one, too.
    pub(crate) fn count_and(&self, bits: &[u64]) -> u64 {
        match self {
            Bitset::Plain(bytes) => kernels::count_and(bits, bytes),
            Bitset::Sparse(sparse) => {
                let mut count = 0;
                sparse.each_part(0, bits.len(), |part, words| {
                    kernels::and(words, &bits[part]);
                    count += kernels::count(words);
                });
                count
            }
        }
    }

    /// Appends the documents of the words from `word` on until there are `most` of them or a few
    /// more, and moves `word` behind these. False at the end.
    pub(crate) fn next(&self, word: &mut usize, most: usize, out: &mut Vec<u32>) -> bool {
        match self {
            Bitset::Plain(bytes) => {
                while *word * 8 < bytes.len() && out.len() < most {
                    kernels::push_word(u64_at(bytes, *word * 8), *word as u32 * 64, out);
                    *word += 1;
                }
                *word * 8 < bytes.len()
            }
            Bitset::Sparse(sparse) => {
                let len = sparse.words();
                let mut block = [0; GROUP * BLOCK];
                while *word < len && out.len() < most {
                    let first = *word / block.len() * block.len();
                    let end = len.min(first + block.len());
                    block.fill(0);
                    sparse.or(first, &mut block[..end - first]);
                    while *word < end && out.len() < most {
                        kernels::push_word(block[*word - first], *word as u32 * 64, out);
                        *word += 1;
                    }
                }
                *word < len
            }
        }
    }
}

impl Sparse<'_> {
    fn words(&self) -> usize {
        self.masks.len() / 8 * GROUP
    }

    /// Where the nibbles of a group begin.
    #[inline]
    fn start(&self, group: usize) -> usize {
        let first = group / BLOCK * BLOCK;
        let bytes = |group| u64_at(self.masks, 8 * group).count_ones().div_ceil(2) as usize;
        u32_at(self.blocks, 4 * (group / BLOCK)) as usize + (first..group).map(bytes).sum::<usize>()
    }

    #[inline]
    fn has(&self, doc: u32) -> bool {
        let (group, at) = (doc as usize / (64 * GROUP), doc / 4 % 64);
        let mask = u64_at(self.masks, 8 * group);
        if mask >> at & 1 == 0 {
            return false;
        }
        let before = (mask & !(u64::MAX << at)).count_ones();
        let byte = self.nibbles.get(self.start(group) + before as usize / 2);
        byte.is_some_and(|byte| byte >> (before % 2 * 4) >> (doc % 4) & 1 == 1)
    }

    /// `bits |= self`, where `bits` begin at a word that a group begins with.
    fn or(&self, first: usize, bits: &mut [u64]) {
        let group = first / GROUP;
        let masks = self.masks.get(8 * group..).unwrap_or(&[]);
        let nibbles = self.nibbles.get(self.start(group)..).unwrap_or(&[]);
        let (whole, rest) = bits.as_chunks_mut::<GROUP>();
        let (now, behind) = masks.as_chunks::<8>().0.split_at(whole.len().min(masks.len() / 8));
        let used = or_groups(now, nibbles, whole);
        if let (Some(mask), false) = (behind.first(), rest.is_empty()) {
            let mut last = [[0; GROUP]];
            or_groups(&[*mask], nibbles.get(used..).unwrap_or(&[]), &mut last);
            kernels::or(rest, &last[0]);
        }
    }

    /// Calls `each` with parts of the words `first..first + len`, as ranges from `first` on, and
    /// what the bitset has of them.
    fn each_part(&self, first: usize, len: usize, mut each: impl FnMut(Range<usize>, &mut [u64])) {
        let (mut words, mut at) = ([0; PART + GROUP], 0);
        while at < len {
            let skipped = (first + at) % GROUP;
            let end = len.min(at + PART);
            let words = &mut words[..skipped + end - at];
            if at > 0 {
                words.fill(0);
            }
            self.or(first + at - skipped, words);
            each(at..end, &mut words[skipped..]);
            at = end;
        }
    }
}

#[cfg(test)]
mod tests;
