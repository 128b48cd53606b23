//! Builds the postings of a field: for each key the documents that have it, in the form that takes
//! the least space.
//!
//! | form | bytes | chosen for a key if |
//! |---|---|---|
//! | slice | documents x bits / 8, or less if divided: `slices.rs` | nothing below is smaller |
//! | bitset | an eighth of all documents: `bitset.rs` | about 1/20 have the key, or more |
//! | runs | 8 a run | documents of a key stand together: runs take half the space |
//! | column | 0 | the field has one of 3 to 8 bits, and 1/1024 of them or more have the key |
//! | none | 0 | the offsets say it all, of an ordered field, or points or a scan of the column do |

use crate::bytes::increasing;
use crate::bytes::int::Encoder;
use crate::bytes::packed::width;
use crate::search::codec::bitset;
use crate::search::codec::column::{MISSING, Ordinals};
use crate::search::codec::slices::{self, SlicesWriter};
use crate::search::format::FieldMeta;
use std::ops::Range;

/// A key of fewer than one document in so many keeps its list where others are found by a scan of
/// the column.
const RARE: usize = 1024;
/// Runs are the fastest of all forms if they take at most this share of a bitset.
const FEW_RUNS: usize = 64;
/// Bytes of an entry of the special forms.
pub(crate) const SPECIAL_FORM: usize = 24;
/// In the place of the number of runs: the documents of the key are found in the column.
pub(crate) const IN_COLUMN: u32 = u32::MAX;

/// The parts OFFSETS, SLICES, PLACES, SPECIAL_FORMS, BITSETS and RUNS; empty ones are not written.
#[derive(Default)]
pub(crate) struct Encoded {
    pub(crate) offsets: Vec<u8>,
    pub(crate) slices: Vec<u8>,
    pub(crate) places: Vec<u8>,
    pub(crate) special_forms: Vec<u8>,
    pub(crate) bitsets: Vec<u8>,
    pub(crate) runs: Vec<u8>,
}

/// Documents by key: those of key o are `docs[offsets[o]..offsets[o + 1]]`, ascending.
pub(crate) struct Inverted {
    pub(crate) offsets: Vec<u32>,
    pub(crate) docs: Vec<u32>,
}

/// A counting sort of the documents by ordinal. There are less than 2^32 values.
pub(crate) fn invert(ordinals: &Ordinals, distinct: usize) -> Inverted {
    let all = match ordinals {
        Ordinals::Single(ords) | Ordinals::Multi { ords, .. } => ords,
    };
    // Those of ordinal o are counted two places behind it. So, once the counts are summed up, the
    // place behind it says where its documents begin, and when they are all there, where they end.
    let mut offsets = vec![0u32; distinct + 2];
    all.iter().filter(|&&ord| ord != MISSING).for_each(|&ord| offsets[ord as usize + 2] += 1);
    for i in 2..offsets.len() {
        offsets[i] += offsets[i - 1];
    }
    let mut docs = vec![0u32; offsets[distinct + 1] as usize];
    let mut put = |ord: u32, doc: u32| {
        let next = &mut offsets[ord as usize + 1];
        docs[*next as usize] = doc;
        *next += 1;
    };
    match ordinals {
        Ordinals::Single(ords) => (0..)
            .zip(ords)
            .filter(|(_, ord)| **ord != MISSING)
            .for_each(|(doc, ord)| put(*ord, doc)),
        Ordinals::Multi { starts, ords } => (0..).zip(starts.windows(2)).for_each(|(doc, ends)| {
            ords[ends[0] as usize..ends[1] as usize].iter().for_each(|ord| put(*ord, doc));
        }),
    }
    offsets.pop();
    Inverted { offsets, docs }
}

/// The form of a key that has no slice.
#[derive(Clone, Copy)]
enum Form {
    Bitset,
    Runs,
    Column,
}

/// Documents of the first and of the last keys of a sortable field that have lists though others
/// are scanned for: enough for a page of an order, of which a filter leaves little.
const ENDS: usize = 1 << 13;

impl Inverted {
    fn of(&self, ord: usize) -> &[u32] {
        &self.docs[self.offsets[ord] as usize..self.offsets[ord + 1] as usize]
    }

    fn distinct(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Chooses and writes the form of every key. `narrow` says that the field's column is scanned for keys
    /// of many documents instead of reading lists.
    pub(crate) fn encode(&self, documents: usize, narrow: bool, meta: &mut FieldMeta) -> Encoded {
        let offsets = self.offsets.iter().map(|&sum| u64::from(sum));
        let mut out = Encoded { offsets: increasing::encode(offsets), ..Encoded::default() };
        meta.slice_bits = width((documents as u64).saturating_sub(1));
        if !meta.has_lists() {
            return out;
        }
        let scanned = meta.scanned.0 as usize..meta.scanned.1 as usize;
        if !scanned.is_empty() {
            self.write_slices(documents, &[scanned], &mut out, meta);
            return out;
        }
        let forms: Vec<(u32, Form)> = self.special_forms(documents, meta.slice_bits, narrow);
        meta.special_forms = forms.len() as u32;
        self.write_exceptions(&forms, documents, &mut out);
        let gaps: Vec<Range<usize>> =
            forms.iter().map(|(ord, _)| *ord as usize..*ord as usize + 1).collect();
        self.write_slices(documents, &gaps, &mut out, meta);
        out
    }

    /// The keys of a scanned field that have no lists. Orders begin with the others: a page of one
    /// is found without a pass over the column.
    pub(crate) fn without_lists(&self, documents: usize, sortable: bool) -> (u32, u32) {
        let (all, most) = (self.docs.len(), if sortable { ENDS.min(documents / 16) } else { 0 });
        let first = self.offsets.partition_point(|&sum| sum as usize <= most) - 1;
        let end = self.offsets.partition_point(|&sum| (sum as usize) < all.saturating_sub(most));
        if first < end { (first as u32, end as u32) } else { (0, 0) }
    }

    /// The keys for which something takes less than whole numbers.
    fn special_forms(&self, documents: usize, bits: u8, scanned: bool) -> Vec<(u32, Form)> {
        let bitset = bitset::size(documents) + SPECIAL_FORM;
        let mut forms = Vec::new();
        for ord in 0..self.distinct() {
            let docs = self.of(ord);
            let slice = docs.len() * usize::from(bits) / 8;
            if slice <= SPECIAL_FORM + 8 {
                continue; // Nothing else is smaller: a special form alone takes as much.
            }
            let runs = count_runs(docs) * 8;
            // Bitsets are the fastest to combine: runs must save half of them.
            let as_runs = 2 * runs + SPECIAL_FORM;
            let form = match scanned && docs.len() >= documents / RARE {
                true if runs < bitset / FEW_RUNS => Form::Runs,
                true => Form::Column,
                false if slice <= as_runs.min(bitset) => continue,
                false if as_runs < bitset => Form::Runs,
                false => Form::Bitset,
            };
            forms.push((ord as u32, form));
        }
        forms
    }

    /// Writes special forms, bitsets and runs.
    fn write_exceptions(&self, forms: &[(u32, Form)], documents: usize, out: &mut Encoded) {
        let (mut special_forms, mut runs) = (Encoder::default(), Encoder::default());
        let mut removed = 0;
        for (ord, form) in forms {
            let docs = self.of(*ord as usize);
            special_forms.u32(*ord);
            match form {
                Form::Runs => {
                    special_forms.u32(count_runs(docs) as u32);
                    special_forms.u64(runs.0.len() as u64);
                    for_runs(docs, |first, len| {
                        runs.u32(first);
                        runs.u32(len);
                    });
                }
                Form::Column => {
                    special_forms.u32(IN_COLUMN);
                    special_forms.u64(0);
                }
                Form::Bitset => {
                    let offset = out.bitsets.len() as u64;
                    bitset::push(&mut out.bitsets, docs, documents);
                    special_forms.u32(0);
                    special_forms.u64(offset);
                }
            }
            special_forms.u64(removed as u64);
            removed += docs.len();
        }
        if !forms.is_empty() {
            special_forms.u32(u32::MAX);
            special_forms.u32(0);
            special_forms.u64(0);
            special_forms.u64(removed as u64);
        }
        (out.special_forms, out.runs) = (special_forms.0, runs.0);
    }

    /// Writes the documents of all keys but those in some ranges, which ascend.
    fn write_slices(
        &self,
        documents: usize,
        gaps: &[Range<usize>],
        out: &mut Encoded,
        meta: &mut FieldMeta,
    ) {
        let starts = [0].into_iter().chain(gaps.iter().map(|gap| gap.end));
        let ends = gaps.iter().map(|gap| gap.start).chain([self.distinct()]);
        let listed = starts.zip(ends).flat_map(|(start, end)| start..end);
        let lens = listed.clone().map(|ord| self.of(ord).len());
        meta.slice_bits = slices::bits_of(documents, lens);
        let mut slices = SlicesWriter::new(documents, meta.slice_bits);
        listed.for_each(|ord| slices.push(self.of(ord)));
        (out.slices, out.places) = slices.finish();
    }
}

fn count_runs(docs: &[u32]) -> usize {
    1 + docs.windows(2).filter(|pair| pair[1] != pair[0] + 1).count()
}

fn for_runs(docs: &[u32], mut each: impl FnMut(u32, u32)) {
    docs.chunk_by(|a, b| a + 1 == *b).for_each(|run| each(run[0], run.len() as u32));
}
