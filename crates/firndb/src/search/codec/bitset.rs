//! Bitsets of documents in a file: plain words, or *sparse*, without the nibbles that are zero.
//!
//! Of the documents of a partition perhaps a tenth have a tag. A bitset of them has a bit of each
//! document, a divided list (`slices.rs`) half of that but a nanosecond a document to read. In
//! between, a sparse bitset has a bit for every four documents that says whether one of them has
//! the tag, and four bits where one has: 0.56 bits a document for one in twelve. AVX-512 puts 64
//! nibbles into their places by one instruction: 7 us for a million documents, where a plain bitset
//! takes 3.5 and a list of one in twelve 80.
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

use crate::bytes::int::{Encoder, u32_at, u64_at};
use crate::search::format::limits::has_large_forms;
use crate::search::simd::kernels;
use spread::How;

/// Words of a group, and groups of a block.
const GROUP: usize = 4;
const BLOCK: usize = 16;
/// Zeros behind the nibbles, so that those of a group can be loaded at once.
const END: usize = 32;
/// Words that are counted at a time.
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
    if !has_large_forms(documents as u32) {
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
            Bitset::Sparse(sparse) => sparse.combine(0, bits, How::Or),
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
                sparse.combine(first, bits, if negate { How::AndNot } else { How::And });
            }
        }
    }

    /// How many documents of a bitset are in this one, too.
    pub(crate) fn count_and(&self, bits: &[u64]) -> u64 {
        match self {
            Bitset::Plain(bytes) => kernels::count_and(bits, bytes),
            Bitset::Sparse(sparse) => {
                let (parts, mut part) = (bits.chunks(PART).enumerate(), [0; PART]);
                let count = |(i, bits): (usize, &[u64])| {
                    let part = &mut part[..bits.len()];
                    part.copy_from_slice(bits);
                    sparse.combine(i * PART, part, How::And);
                    kernels::count(part)
                };
                parts.map(count).sum()
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
                    sparse.combine(first, &mut block[..end - first], How::Or);
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

    /// Combines bits that begin at word `first` with those of the bitset.
    fn combine(&self, first: usize, bits: &mut [u64], how: How) {
        // Words up to the next group, and those behind the last whole one.
        let head = bits.len().min(first.next_multiple_of(GROUP) - first);
        let (head, rest) = bits.split_at_mut(head);
        self.combine_few(first, head, how);
        let first = first + head.len();
        let masks = self.masks.get(first / GROUP * 8..).unwrap_or(&[]).as_chunks::<8>().0;
        let (groups, tail) = rest.as_chunks_mut::<GROUP>();
        let (now, behind) = groups.split_at_mut(groups.len().min(masks.len()));
        let nibbles = self.nibbles.get(self.start(first / GROUP)..).unwrap_or(&[]);
        spread::combine(masks, nibbles, now, how);
        // No document is behind the last group.
        if how == How::And {
            behind.fill([0; GROUP]);
        }
        self.combine_few(first + GROUP * groups.len(), tail, how);
    }

    /// [`Sparse::combine`] of fewer words than a group has.
    fn combine_few(&self, first: usize, bits: &mut [u64], how: How) {
        if bits.is_empty() {
            return;
        }
        let (group, mut words) = (first / GROUP, [[0; GROUP]]);
        let masks = self.masks.get(8 * group..).unwrap_or(&[]).as_chunks::<8>().0;
        let nibbles = self.nibbles.get(self.start(group)..).unwrap_or(&[]);
        spread::combine(masks, nibbles, &mut words, How::Or);
        let found = &words[0][first % GROUP..];
        match how {
            How::Or => kernels::or(bits, found),
            How::And => kernels::and(bits, found),
            How::AndNot => kernels::and_not(bits, found),
        }
    }
}

#[cfg(test)]
mod tests;
