//! Points: an index over two fields that queries use together, such as latitude and longitude.
//!
//! Documents are points in a plane. Their coordinates are ordinals or, if the file becomes smaller,
//! values, which are keys minus the smallest key of the field (`choice.rs`). The plane is split in
//! half across the longer side until a piece has 64 documents: a leaf (a k-d tree: Bentley 1975;
//! packed into leaves as in Bkd-trees: Procopiuc et al. 2003). 64 leaves from one piece, or the
//! last ones, form a group. `build.rs` splits and writes.
//!
//! A query for a window checks the bounding box of every group, then the boxes of leaves in groups
//! that overlap the window, then the documents of leaves that partially overlap it. Leaves inside
//! the window are taken whole; counting does not even read them. So a query reads about the square
//! root of the number of leaves, independent of the data, besides the leaves inside.
//!
//! ```text
//! OFFSET      SIZE  FIELD
//! 0           8     n, the number of documents with a value in at least one of the fields
//! 8           24 g  for each of g groups: min and max of the first field, min and max of the
//!                   second (u32 each), and where its leaves start in the area (u64)
//! 8 + 24 g    8 l   for each of l leaves: min of the first field | bits << 26 (ordinals) or << 27
//!                   (values), and the same for the second (u32 each)
//! ..          ..    area: for each leaf 64 packed coordinates of the first field minus the min,
//!                   the same for the second, the low bits of the documents, 16 bytes of high bits
//! end - 64    64    zeros
//! ```
//! The last leaf is padded with zeros. The documents of a leaf ascend and are Elias-Fano coded
//! (`bytes/elias_fano/`), with as many low bits as leave at most 64 buckets. If a document lacks
//! one of the two values, its coordinate is the number of the field's keys or, if points hold
//! values, the span (the largest value plus one).
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

/// Documents per leaf, and leaves per group.
pub(crate) const LEAF: usize = 64;
pub(crate) const GROUP: usize = 64;
/// The size in bytes of a group's entry.
const ENTRY: usize = 24;

/// Zeros after the last leaf, so that SIMD loads never cross the end.
pub(crate) const END: usize = 64;

/// The number of low bits of a document.
pub(crate) fn low_bits(documents: usize) -> u8 {
    width((documents as u64).saturating_sub(1)).saturating_sub(6)
}

/// The layout of the documents of a leaf: 64 values in at most 64 buckets.
pub(crate) fn documents_layout(low: u8) -> Layout {
    Layout { low: low.into(), lows: LEAF / 8 * usize::from(low), highs: LEAF / 4 }
}

/// What the coordinates are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CoordinateKind {
    Ordinals,
    Values,
}

impl CoordinateKind {
    /// Bits of a coordinate in the head of a leaf; the width of packed coordinates is above them.
    /// Ordinals fit into 26 bits because a partition has at most 2^26 documents.
    pub(crate) fn bits(self) -> u32 {
        match self {
            CoordinateKind::Ordinals => 26,
            CoordinateKind::Values => 27,
        }
    }
}

/// A range of coordinates for each of the two fields: `start..end`.
pub(crate) type Window = [(u32, u32); 2];

/// All coordinates, including that of a missing value.
pub(crate) const EVERYTHING: (u32, u32) = (0, u32::MAX);

/// Reads the points of two fields.
#[derive(Clone, Copy)]
pub(crate) struct Points<'a> {
    groups: &'a [u8],
    heads: &'a [u8],
    area: &'a [u8],
    len: usize,
    low: u8,
    /// Bits of a coordinate in the head of a leaf.
    bits: u8,
}

/// A leaf: where it starts in the area, and the min and the width of both fields.
#[derive(Clone, Copy)]
struct Leaf {
    at: usize,
    least: [u32; 2],
    bits: [u8; 2],
}

/// A group that overlaps a window.
struct Group {
    /// The number of its first leaf.
    first: usize,
    /// Where its first leaf starts in the area.
    at: usize,
    /// The leaves that overlap the window.
    touched: u64,
    /// The leaves that lie inside the window.
    inside: u64,
    /// The sizes in bytes of all leaves.
    sizes: [u32; GROUP],
}

/// How a range and the bounds of a box overlap.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overlap {
    None,
    Partial,
    Full,
}

impl<'a> Points<'a> {
    /// Opens a section and checks the sizes of its header. `Corrupt` if they do not fit.
    pub(crate) fn new(bytes: &'a [u8], documents: u32, of: CoordinateKind) -> Result<Points<'a>> {
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

    /// The cost of finding `count` documents in a window, in the unit of `exec/clause.rs`: the
    /// documents, and the leaves along the border of the window.
    pub(crate) fn cost(&self, count: u64) -> u64 {
        count * 25 + (self.len / LEAF).isqrt() as u64 * 400
    }

    /// The number of documents in a window.
    pub(crate) fn count(&self, window: Window) -> u64 {
        let (mut leaves, mut count) = (0, 0);
        for group in self.overlapping_groups(window) {
            // The last leaf may not be full, so its documents are counted.
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

    /// Calls `each` with the documents in a window, unordered.
    pub(crate) fn each(&self, window: Window, mut each: impl FnMut(u32)) {
        for group in self.overlapping_groups(window) {
            self.each_in_group(&group, window, &mut each);
        }
    }

    /// Appends the matches of the next group, from number `*group` on, that has any in the window,
    /// and advances `*group` past it. Returns false if there is none.
    pub(crate) fn next(&self, window: Window, group: &mut usize, out: &mut Vec<u32>) -> bool {
        while *group * ENTRY < self.groups.len() && out.is_empty() {
            if let Some(found) = self.group(*group, window) {
                self.each_in_group(&found, window, &mut |doc| out.push(doc));
            }
            *group += 1;
        }
        !out.is_empty()
    }

    #[inline(always)]
    fn each_in_group(&self, group: &Group, window: Window, each: &mut impl FnMut(u32)) {
        self.each_leaf(group, window, group.touched, |leaf, found| {
            self.documents(&leaf, found, each);
        });
    }

    /// Calls `each` with every document and its two coordinates.
    pub(crate) fn each_entry(&self, mut each: impl FnMut(u32, [u32; 2])) {
        let window = [EVERYTHING; 2];
        for group in self.overlapping_groups(window) {
            self.each_leaf(&group, window, group.touched, |leaf, found| {
                let mut i = 0;
                self.documents(&leaf, found, &mut |doc| {
                    each(doc, [0, 1].map(|field| self.number(&leaf, field, i)));
                    i += 1;
                });
            });
        }
    }

    /// The groups that overlap a window.
    fn overlapping_groups(&self, window: Window) -> impl Iterator<Item = Group> {
        (0..self.groups.len() / ENTRY).filter_map(move |i| self.group(i, window))
    }

    #[inline(always)]
    fn group(&self, i: usize, window: Window) -> Option<Group> {
        let bounds = |field: usize| {
            let at = i * ENTRY + 8 * field;
            (u32_at(self.groups, at), u32_at(self.groups, at + 4))
        };
        if (0..2).any(|field| overlap(window[field], bounds(field)) == Overlap::None) {
            return None;
        }
        let (first, at) = (i * GROUP, u64_at(self.groups, i * ENTRY + 16) as usize);
        let heads = &self.heads[8 * first..self.heads.len().min(8 * (first + GROUP))];
        let mut sizes = [0; GROUP];
        let (touched, inside) = classify(heads, [self.low, self.bits], window, &mut sizes);
        Some(Group { first, at, touched, inside, sizes })
    }

    /// Calls `each` with the leaves of a group whose bits are set in `leaves`, and the mask of
    /// their documents in the window.
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
                _ => each(leaf, whole & self.matches_in_leaf(&leaf, window)),
            }
        }
    }

    /// Checks that every document occurs at most once, with valid coordinates, and that the bytes
    /// are exactly what the builder writes for these leaves and groups. `missing` has the
    /// coordinate of a missing value of each field, which is above all others.
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

    /// The packed coordinates of a field in a leaf.
    fn values(&self, leaf: &Leaf, field: usize) -> &'a [u8] {
        let before = if field == 0 { 0 } else { LEAF / 8 * usize::from(leaf.bits[0]) };
        self.area.get(leaf.at.wrapping_add(before)..).unwrap_or(&[])
    }

    /// The mask of the documents of a leaf that are in a window.
    fn matches_in_leaf(&self, leaf: &Leaf, window: Window) -> u64 {
        let mut found = u64::MAX;
        for (field, (start, end)) in window.into_iter().enumerate() {
            let (least, bits) = (leaf.least[field], leaf.bits[field]);
            if overlap((start, end), (least, most(least, bits))) == Overlap::Partial {
                let low = start.saturating_sub(least);
                let span = end.saturating_sub(least.max(start));
                found &= lists::inside(self.values(leaf, field), bits, low, span);
            }
        }
        found
    }

    /// The coordinate of document `i` of a leaf.
    fn number(&self, leaf: &Leaf, field: usize, i: usize) -> u32 {
        leaf.least[field].wrapping_add(packed(self.values(leaf, field), leaf.bits[field], i))
    }

    /// Calls `each` with those documents of a leaf whose bits are set in `found`.
    #[inline(always)]
    fn documents(&self, leaf: &Leaf, found: u64, each: &mut impl FnMut(u32)) {
        let bits = usize::from(leaf.bits[0]) + usize::from(leaf.bits[1]);
        let bytes = self.area.get(leaf.at.wrapping_add(LEAF / 8 * bits)..).unwrap_or(&[]);
        let docs = EliasFano::new(bytes, 0, documents_layout(self.low));
        docs.for_each_in(found, &mut |doc| each(doc as u32));
    }
}

/// Packed number `i`.
#[inline(always)]
fn packed(bytes: &[u8], bits: u8, i: usize) -> u32 {
    let bit = i * usize::from(bits);
    (u64_at(bytes, bit / 8) >> (bit % 8)) as u32 & ((1u64 << bits) - 1) as u32
}

/// The min in the head of a leaf.
#[inline(always)]
fn least(head: u32, bits: u8) -> u32 {
    head & ((1 << bits) - 1)
}

/// The largest coordinate that a leaf can contain, by its min and width.
#[inline(always)]
fn most(least: u32, bits: u8) -> u32 {
    least.wrapping_add(((1u64 << bits) - 1) as u32)
}

/// How a range and inclusive bounds overlap.
#[inline(always)]
fn overlap((start, end): (u32, u32), (least, most): (u32, u32)) -> Overlap {
    if most < start || least >= end {
        Overlap::None
    } else if least >= start && most < end {
        Overlap::Full
    } else {
        Overlap::Partial
    }
}

kernels::dispatch! {
    /// Classifies the leaves of a group by their heads: the masks of those that overlap a window
    /// and of those inside it, and all sizes. `widths` are those of the low bits of documents and
    /// of coordinates in heads.
    classify(heads: &[u8], widths: [u8; 2], window: Window, sizes: &mut [u32; GROUP]) -> (u64, u64)
        = classify_body
}

/// The body of [`classify`], compiled for each instruction set.
#[inline(always)]
fn classify_body(
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
