//! Builds points: cuts the plane into leaves, and writes them. `points.rs` has the format.

use crate::bytes::elias_fano;
use crate::bytes::int::Encoder;
use crate::bytes::packed::{PackedWriter, width};
use crate::search::codec::points::{END, GROUP, LEAF, Numbers, documents_layout, low_bits};

/// A document and its two numbers.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) at: [u32; 2],
    pub(crate) doc: u32,
}

/// The points of two fields by their numbers, all below `missing`; it and what is above are no
/// value.
pub(crate) fn encode(numbers: [&[u32]; 2], missing: [u32; 2], of: Numbers) -> Vec<u8> {
    let documents = numbers[0].len();
    let at = |doc: usize| [0, 1].map(|f| numbers[f][doc].min(missing[f]));
    let mut entries = Vec::with_capacity(documents);
    let all = (0..documents).map(|doc| Entry { at: at(doc), doc: doc as u32 });
    entries.extend(all.filter(|entry| entry.at != missing));
    cut(&mut entries);
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

/// What stands at the head of a group whose leaves begin at `start`.
pub(crate) fn group_entry(group: &[Entry], start: u64) -> Vec<u8> {
    let mut out = Encoder::default();
    for (least, most) in [0, 1].map(|field| bounds(group, field)) {
        out.u32(least);
        out.u32(most);
    }
    out.u64(start);
    out.0
}

/// Least and most of a field.
fn bounds(entries: &[Entry], field: usize) -> (u32, u32) {
    let values = entries.iter().map(|entry| entry.at[field]);
    values.fold((u32::MAX, 0), |(least, most), v| (least.min(v), most.max(v)))
}

/// Brings the documents into the order of leaves.
fn cut(entries: &mut [Entry]) {
    let leaves = entries.len().div_ceil(LEAF);
    if leaves <= 1 {
        return;
    }
    // Groups are whole pieces.
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
    cut(low);
    cut(high);
}

/// A leaf: its head, and the packed numbers of its documents, which ascend. The widths are those of
/// low bits, and of numbers in heads.
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

/// 64 numbers, zeros at the end if there are fewer.
fn push_packed(values: impl ExactSizeIterator<Item = u32>, bits: u8, area: &mut Vec<u8>) {
    let end = area.len() + LEAF / 8 * usize::from(bits);
    let mut writer = PackedWriter::new(bits);
    values.for_each(|value| writer.push(value));
    let bytes = writer.finish();
    area.extend_from_slice(&bytes[..bytes.len().min(end - area.len())]);
    area.resize(end, 0);
}
