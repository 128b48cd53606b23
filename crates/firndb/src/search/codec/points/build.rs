//! Builds points: sorts documents into leaves, and encodes these. `points/mod.rs` has the format.

use crate::bytes::elias_fano;
use crate::bytes::int::Encoder;
use crate::bytes::packed::{PackedWriter, width};
use crate::search::codec::points::{CoordinateKind, END, GROUP, LEAF, documents_layout, low_bits};

/// A document and its two coordinates.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) at: [u32; 2],
    pub(crate) doc: u32,
}

/// Encodes the points of two fields. `numbers` has the coordinate of every document for each field;
/// coordinates from `missing` on stand for a missing value.
pub(crate) fn encode(numbers: [&[u32]; 2], missing: [u32; 2], of: CoordinateKind) -> Vec<u8> {
    let documents = numbers[0].len();
    let at = |doc: usize| [0, 1].map(|f| numbers[f][doc].min(missing[f]));
    let mut entries = Vec::with_capacity(documents);
    let all = (0..documents).map(|doc| Entry { at: at(doc), doc: doc as u32 });
    entries.extend(all.filter(|entry| entry.at != missing));
    sort_into_leaves(&mut entries);
    let (mut groups, mut heads) = (Encoder::default(), Encoder::default());
    let (mut area, mut start) = (Vec::new(), 0);
    groups.u64(entries.len() as u64);
    let widths = [low_bits(documents), of.bits() as u8];
    for group in entries.chunks_mut(LEAF * GROUP) {
        groups.0.extend(group_entry(group, start));
        for leaf in group.chunks_mut(LEAF) {
            leaf.sort_unstable_by_key(|entry| entry.doc);
            push_leaf(leaf, widths, &mut heads, &mut area);
        }
        start = area.len() as u64;
    }
    drop(entries);
    [groups.0, heads.0, area, vec![0; END]].concat()
}

/// Encodes the entry of a group whose leaves start at `start` in the area.
pub(crate) fn group_entry(group: &[Entry], start: u64) -> Vec<u8> {
    let mut out = Encoder::default();
    for (least, most) in [0, 1].map(|field| bounds(group, field)) {
        out.u32(least);
        out.u32(most);
    }
    out.u64(start);
    out.0
}

/// The smallest and the largest coordinate of a field.
fn bounds(entries: &[Entry], field: usize) -> (u32, u32) {
    let values = entries.iter().map(|entry| entry.at[field]);
    values.fold((u32::MAX, 0), |(least, most), v| (least.min(v), most.max(v)))
}

/// Sorts entries so that consecutive runs of [`LEAF`] form the leaves: splits them in half across
/// the longer side of their bounding box, recursively.
fn sort_into_leaves(entries: &mut [Entry]) {
    let leaves = entries.len().div_ceil(LEAF);
    if leaves <= 1 {
        return;
    }
    // Split at a multiple of a group, so that a group is one piece of the plane.
    let half = match leaves {
        _ if leaves > GROUP => (leaves.div_ceil(GROUP) / 2) * GROUP,
        _ => leaves / 2,
    };
    let [a, b] = [0, 1].map(|f| bounds(entries, f)).map(|(least, most)| most - least);
    let (f, other) = if a >= b { (0, 1) } else { (1, 0) };
    let key = |entry: &Entry| (entry.at[f], entry.at[other], entry.doc);
    let middle = half * LEAF;
    entries.select_nth_unstable_by_key(middle, key);
    let (low, high) = entries.split_at_mut(middle);
    sort_into_leaves(low);
    sort_into_leaves(high);
}

/// Appends a leaf, whose documents ascend: its head, and its packed coordinates and documents. The
/// widths are those of the low bits of documents, and of coordinates in heads.
pub(crate) fn push_leaf(
    leaf: &[Entry],
    [low, head]: [u8; 2],
    heads: &mut Encoder,
    area: &mut Vec<u8>,
) {
    for field in 0..2 {
        let (least, most) = bounds(leaf, field);
        let bits = width(u64::from(most - least));
        heads.u32(least | u32::from(bits) << head);
        let values = leaf.iter().map(|entry| entry.at[field] - least);
        push_packed(values, bits, area);
    }
    elias_fano::encode(leaf.iter().map(|entry| entry.doc.into()), documents_layout(low), area);
}

/// Appends 64 packed numbers; missing ones are 0.
fn push_packed(values: impl ExactSizeIterator<Item = u32>, bits: u8, area: &mut Vec<u8>) {
    let end = area.len() + LEAF / 8 * usize::from(bits);
    let mut writer = PackedWriter::new(bits);
    values.for_each(|value| writer.push(value));
    let bytes = writer.finish();
    area.extend_from_slice(&bytes[..bytes.len().min(end - area.len())]);
    area.resize(end, 0);
}
