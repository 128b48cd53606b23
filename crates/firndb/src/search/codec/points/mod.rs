//! Points: the documents of two fields that are asked for together, as latitude and longitude are.
//!
//! The fields' numbers are places in a plane: their ordinals or, where that takes fewer bytes,
//! their values, which are keys less the least key of the field (`points_choice.rs`). It is cut in
//! halves, always across the longer side of what is left, until 64 documents are in a piece: a leaf
//! (a k-d tree: Bentley 1975; packed into leaves as in Bkd-trees: Procopiuc et al. 2003). 64 leaves
//! that were cut from one piece, or the last ones, are a group. A question for a window of both
//! fields looks at the box of every group, at those of the leaves of groups that the window cuts,
//! and at the documents of leaves that it cuts; what lies inside is taken whole. So about the
//! square root of the leaves is looked at, whatever the documents are, and what is counted needs no
//! look at all.
//!
//! ```text
//! OFFSET      SIZE  FIELD
//! 0           8     n, how many documents have a value of either field
//! 8           24 g  for each group least and most of the first field, least and most of the
//!                   second (u32), and where in the area its leaves begin (u64)
//! 8 + 24 G    8 l   for each leaf least of the first field | bits << 26 (ordinals) or << 27
//!                   (values), and the same of the second (u32)
//! ..          ..    area: for each leaf the first field of its 64 documents less the least,
//!                   packed; the second; the low bits of the documents; 16 bytes of high bits
//! end - 64    64    zeros
//! ```
//! The last leaf is filled up with zeros. In a leaf documents ascend. They are Elias-Fano coded
//! (`bytes/elias_fano/`), with as many low bits as leave at most 64 buckets. A document without one of the two values has there the number of that field's keys
//! or, of values, the largest plus one: the span. `points_build.rs` cuts and writes.
#![expect(unsafe_code, reason = "calling a function compiled for features that were just detected")]

mod build;
pub(crate) mod choice;

use crate::bytes::elias_fano::{EliasFano, Layout};
use crate::bytes::int::{Encoder, u32_at, u64_at};
use crate::bytes::packed::width;
use crate::search::codec::points::build::{Entry, group_entry, push_leaf};
use crate::search::simd::kernels;
use crate::search::simd::lists;
use crate::{Error, Result};

/// Documents of a leaf, and leaves of a group.
pub(crate) const LEAF: usize = 64;
pub(crate) const GROUP: usize = 64;
/// Bytes of a group's entry.
const ENTRY: usize = 24;

/// Zeros behind the last leaf, so that 16 numbers can be loaded at once everywhere.
pub(crate) const END: usize = 64;

/// Low bits of document numbers.
pub(crate) fn low_bits(documents: usize) -> u8 {
    width((documents as u64).saturating_sub(1)).saturating_sub(6)
}

/// The layout of the documents of a leaf: 64 values in at most 64 buckets.
pub(crate) fn documents_layout(low: u8) -> Layout {
    Layout { low: low.into(), lows: LEAF / 8 * usize::from(low), highs: LEAF / 4 }
}

/// What the leaves hold of both fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    Ordinals,
    Values,
}

impl Numbers {
    /// Bits of a number in the head of a leaf, below the bits that say how wide the others are. A
    /// partition has no more documents than there are ordinals.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Numbers::Ordinals => 26,
            Numbers::Values => 27,
        }
    }
}

/// A range of numbers of each of the two fields: `start..end`.
pub(crate) type Window = [(u32, u32); 2];

/// All numbers, and that of no value.
pub(crate) const EVERYTHING: (u32, u32) = (0, u32::MAX);

/// The points of two fields over bytes.
#[derive(Clone, Copy)]
pub(crate) struct Points<'a> {
    groups: &'a [u8],
    heads: &'a [u8],
    area: &'a [u8],
    len: usize,
    low: u8,
    /// Bits of a number in the head of a leaf.
    bits: u8,
}

/// Some leaf: where it begins in the area, and the bounds of both fields.
#[derive(Clone, Copy)]
struct Leaf {
    at: usize,
    least: [u32; 2],
    bits: [u8; 2],
}

/// A group that a window cuts or has: its first leaf, where that begins in the area, which leaves
/// the window cuts or has, which of these lie in it, and the bytes of each.
struct Group {
    first: usize,
    at: usize,
    touched: u64,
    inside: u64,
    sizes: [u32; GROUP],
}

/// What a range is to bounds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cuts {
    Apart,
    Partly,
    Inside,
}

impl<'a> Points<'a> {
    /// Checks the sizes of what stands at the head.
    pub(crate) fn new(bytes: &'a [u8], documents: u32, of: Numbers) -> Result<Points<'a>> {
        let len = u64_at(bytes, 0);
        let leaves = len.div_ceil(LEAF as u64) as usize;
        let (groups, heads) = (leaves.div_ceil(GROUP) * ENTRY, leaves * 8);
        if len > documents.into() || bytes.len() < 8 + groups + heads + END {
            return Err(Error::corrupt(format!(
                "points say {len} documents of {documents} in {} bytes",
                bytes.len()
            )));
        }
        let (groups, rest) = bytes[8..].split_at(groups);
        let (heads, area) = rest.split_at(heads);
        let low = low_bits(documents as usize);
        let bits = of.bits() as u8;
        Ok(Points { groups, heads, area, len: len as usize, low, bits })
    }

    /// What it costs to find so many documents in a window, in the units of `clause.rs`: those, and
    /// the leaves at its sides.
    pub(crate) fn cost(&self, count: u64) -> u64 {
        count * 25 + (self.len / LEAF).isqrt() as u64 * 400
    }

    /// The number of documents in a window.
    pub(crate) fn count(&self, window: Window) -> u64 {
        let (mut leaves, mut count) = (0, 0);
        for group in self.found(window) {
            // The last leaf may not be full: what is in it is counted.
            let last = self.len / LEAF - group.first;
            let full = group.inside & !1u64.checked_shl(last as u32).unwrap_or(0);
            leaves += u64::from(full.count_ones());
            self.each_leaf(&group, window, group.touched & !full, |_, found| {
                count += u64::from(found.count_ones());
            });
        }
        leaves * LEAF as u64 + count
    }

    /// Adds the documents in a window to a bitset.
    pub(crate) fn add(&self, window: Window, bits: &mut [u64]) {
        self.each(window, |doc| {
            if let Some(word) = bits.get_mut(doc as usize / 64) {
                *word |= 1 << (doc % 64);
            }
        });
    }

    /// Calls `each` with the documents in a window, in no order.
    pub(crate) fn each(&self, window: Window, mut each: impl FnMut(u32)) {
        for group in self.found(window) {
            self.each_of(&group, window, &mut each);
        }
    }

    /// Appends the documents in a window of a group, from number `group` on, that has any; that
    /// becomes the number of the group behind it. False if there is none.
    pub(crate) fn next(&self, window: Window, group: &mut usize, out: &mut Vec<u32>) -> bool {
        while *group * ENTRY < self.groups.len() && out.is_empty() {
            if let Some(found) = self.group(*group, window) {
                self.each_of(&found, window, &mut |doc| out.push(doc));
            }
            *group += 1;
        }
        !out.is_empty()
    }

    #[inline(always)]
    fn each_of(&self, group: &Group, window: Window, each: &mut impl FnMut(u32)) {
        self.each_leaf(group, window, group.touched, |leaf, found| {
            self.documents(&leaf, found, each);
        });
    }

    /// Calls `each` with every document and its two numbers.
    pub(crate) fn each_entry(&self, mut each: impl FnMut(u32, [u32; 2])) {
        let window = [EVERYTHING; 2];
        for group in self.found(window) {
            self.each_leaf(&group, window, group.touched, |leaf, found| {
                let mut i = 0;
                self.documents(&leaf, found, &mut |doc| {
                    each(doc, [0, 1].map(|field| self.number(&leaf, field, i)));
                    i += 1;
                });
            });
        }
    }

    /// The groups that a window cuts or has.
    fn found(&self, window: Window) -> impl Iterator<Item = Group> {
        (0..self.groups.len() / ENTRY).filter_map(move |i| self.group(i, window))
    }

    #[inline(always)]
    fn group(&self, i: usize, window: Window) -> Option<Group> {
        let bounds = |field: usize| {
            let at = i * ENTRY + 8 * field;
            (u32_at(self.groups, at), u32_at(self.groups, at + 4))
        };
        if (0..2).any(|field| relation(window[field], bounds(field)) == Cuts::Apart) {
            return None;
        }
        let (first, at) = (i * GROUP, u64_at(self.groups, i * ENTRY + 16) as usize);
        let heads = &self.heads[8 * first..self.heads.len().min(8 * (first + GROUP))];
        let mut sizes = [0; GROUP];
        let (touched, inside) = look_at(heads, [self.low, self.bits], window, &mut sizes);
        Some(Group { first, at, touched, inside, sizes })
    }

    /// Calls `each` with some leaves of a group, and which of their documents are in the window.
    #[inline(always)]
    fn each_leaf(
        &self,
        group: &Group,
        window: Window,
        leaves: u64,
        mut each: impl FnMut(Leaf, u64),
    ) {
        let (mut leaves, mut at, mut before) = (leaves, group.at, 0);
        while leaves != 0 {
            let i = leaves.trailing_zeros() as usize;
            leaves &= leaves - 1;
            at = group.sizes[before..i].iter().fold(at, |at, size| at.wrapping_add(*size as usize));
            before = i;
            let number = group.first + i;
            let whole = u64::MAX >> (LEAF - LEAF.min(self.len - number * LEAF));
            let leaf = self.leaf(number, at);
            match group.inside >> i & 1 {
                1 => each(leaf, whole),
                _ => each(leaf, whole & self.within(&leaf, window)),
            }
        }
    }

    /// Checks that every document stands once, with numbers that there are, and that the bytes are
    /// those that are written of these leaves and groups. `missing` is the number of no value of
    /// each field, above all others.
    pub(crate) fn verify(&self, documents: u32, missing: [u32; 2]) -> Result<()> {
        let wrong = |i: usize, what: &str| Error::corrupt(format!("leaf {i}: {what}"));
        let mut seen = vec![0u64; (documents as usize).div_ceil(64)];
        let (leaves, mut start, mut at) = (self.heads.len() / 8, 0, 0);
        let mut entries = Vec::with_capacity(LEAF * GROUP);
        for i in 0..leaves {
            let first = entries.len();
            let (leaf, here) = (self.leaf(i, at), LEAF.min(self.len - i * LEAF));
            self.documents(&leaf, u64::MAX, &mut |doc| {
                let number = entries.len() - first;
                let at = [0, 1].map(|field| self.number(&leaf, field, number));
                entries.push(Entry { at, doc });
            });
            let own = &entries[first..];
            let fits = own.iter().all(|entry| {
                let (word, bit) = (entry.doc as usize / 64, 1 << (entry.doc % 64));
                let once = seen.get_mut(word).is_some_and(|seen| {
                    let before = std::mem::replace(seen, *seen | bit);
                    before & bit == 0 && entry.doc < documents
                });
                let [a, b] = entry.at;
                once && entry.at != missing && a <= missing[0] && b <= missing[1]
            });
            if own.len() != here || !fits || !own.is_sorted_by_key(|entry| entry.doc) {
                return Err(wrong(i, "its documents are none, or stand elsewhere, too"));
            }
            let (mut head, mut bytes) = (Encoder::default(), Vec::new());
            push_leaf(own, [self.low, self.bits], &mut head, &mut bytes);
            let head_is = self.heads[8 * i..8 * i + 8] == head.0;
            if !head_is || self.area.get(at..at + bytes.len()) != Some(&bytes) {
                return Err(wrong(i, "its bytes are not those of its documents"));
            }
            at += bytes.len();
            if i % GROUP == GROUP - 1 || i + 1 == leaves {
                let entry = i / GROUP * ENTRY;
                if self.groups[entry..entry + ENTRY] != group_entry(&entries, start) {
                    return Err(wrong(i, "its group has other bounds"));
                }
                start = at as u64;
                entries.clear();
            }
        }
        match self.area.get(at..) == Some(&[0; END][..]) {
            true => Ok(()),
            false => Err(Error::corrupt("points do not end with their last leaf")),
        }
    }

    fn leaf(&self, i: usize, at: usize) -> Leaf {
        let (a, b) = (u32_at(self.heads, 8 * i), u32_at(self.heads, 8 * i + 4));
        let least = [a, b].map(|head| least(head, self.bits));
        Leaf { at, least, bits: [a, b].map(|head| (head >> self.bits) as u8) }
    }

    /// The packed numbers of a field of a leaf.
    fn values(&self, leaf: &Leaf, field: usize) -> &'a [u8] {
        let before = if field == 0 { 0 } else { LEAF / 8 * usize::from(leaf.bits[0]) };
        self.area.get(leaf.at.wrapping_add(before)..).unwrap_or(&[])
    }

    /// The documents of a leaf that are in a window.
    fn within(&self, leaf: &Leaf, window: Window) -> u64 {
        let mut found = u64::MAX;
        for (field, (start, end)) in window.into_iter().enumerate() {
            let (least, bits) = (leaf.least[field], leaf.bits[field]);
            if relation((start, end), (least, most(least, bits))) == Cuts::Partly {
                let low = start.saturating_sub(least);
                let span = end.saturating_sub(least.max(start));
                found &= lists::inside(self.values(leaf, field), bits, low, span);
            }
        }
        found
    }

    /// Number `i` of a field of a leaf.
    fn number(&self, leaf: &Leaf, field: usize, i: usize) -> u32 {
        leaf.least[field].wrapping_add(packed(self.values(leaf, field), leaf.bits[field], i))
    }

    /// Calls `each` with those documents of a leaf whose bits are set.
    #[inline(always)]
    fn documents(&self, leaf: &Leaf, found: u64, each: &mut impl FnMut(u32)) {
        let bits = usize::from(leaf.bits[0]) + usize::from(leaf.bits[1]);
        let bytes = self.area.get(leaf.at.wrapping_add(LEAF / 8 * bits)..).unwrap_or(&[]);
        let docs = EliasFano::new(bytes, 0, documents_layout(self.low));
        docs.for_each_in(found, &mut |doc| each(doc as u32));
    }
}

/// Number `i` of packed ones.
#[inline(always)]
fn packed(bytes: &[u8], bits: u8, i: usize) -> u32 {
    let bit = i * usize::from(bits);
    (u64_at(bytes, bit / 8) >> (bit % 8)) as u32 & ((1u64 << bits) - 1) as u32
}

/// The least number that the head of a leaf says.
#[inline(always)]
fn least(head: u32, bits: u8) -> u32 {
    head & ((1 << bits) - 1)
}

/// The largest number that so many bits can tell.
#[inline(always)]
fn most(least: u32, bits: u8) -> u32 {
    least.wrapping_add(((1u64 << bits) - 1) as u32)
}

/// What a range is to bounds that belong to what they bound.
#[inline(always)]
fn relation((start, end): (u32, u32), (least, most): (u32, u32)) -> Cuts {
    if most < start || least >= end {
        Cuts::Apart
    } else if least >= start && most < end {
        Cuts::Inside
    } else {
        Cuts::Partly
    }
}

kernels::dispatch! {
    /// For the leaves of a group by their heads: which of them a window cuts or has, which of them
    /// lie in it, and their sizes. `widths` are those of low bits and of numbers in heads.
    look_at(heads: &[u8], widths: [u8; 2], window: Window, sizes: &mut [u32; GROUP]) -> (u64, u64)
        = look_at_body
}

/// [`look_at`] without a choice of instructions.
#[inline(always)]
fn look_at_body(
    heads: &[u8],
    [low, bits]: [u8; 2],
    window: Window,
    sizes: &mut [u32; GROUP],
) -> (u64, u64) {
    let (mut touched, mut inside) = ([false; GROUP], [false; GROUP]);
    let documents = u32::from(low) + 2;
    let fields = heads.as_chunks::<8>().0.iter();
    let each = touched.iter_mut().zip(&mut inside).zip(sizes).zip(fields);
    for (((touched, inside), size), head) in each {
        let (a, b) = (u32_at(head, 0), u32_at(head, 4));
        let [(a0, a1), (b0, b1)] =
            [a, b].map(|head| (least(head, bits), most(least(head, bits), (head >> bits) as u8)));
        let [(start0, end0), (start1, end1)] = window;
        *touched = (a1 >= start0) & (a0 < end0) & (b1 >= start1) & (b0 < end1);
        *inside = (a0 >= start0) & (a1 < end0) & (b0 >= start1) & (b1 < end1);
        *size = 8 * ((a >> bits) + (b >> bits) + documents);
    }
    (mask(&touched), mask(&inside))
}

#[inline(always)]
fn mask(bits: &[bool; GROUP]) -> u64 {
    bits.iter().enumerate().fold(0, |mask, (i, bit)| mask | u64::from(*bit) << i)
}

#[cfg(test)]
mod tests;
