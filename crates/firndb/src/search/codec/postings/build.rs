//! Builds the postings of a field: the documents of each key, in the smallest form.
//!
//! | form | bytes | chosen for a key if |
//! |---|---|---|
//! | slice | documents x bits / 8, or less if divided: `slices.rs` | no other form is smaller |
//! | bitset | an eighth of all documents: `bitset.rs` | about 1/20 of all documents have it |
//! | runs | 8 per run of consecutive documents | runs take half the space of a bitset |
//! | column | 0 | the column has 3 to 8 bits, and at least 1/1024 of all documents have the key |
//! | none | 0 | offsets of an ordered field, points, or a scan of the column replace postings |

use crate::bytes::increasing;
use crate::bytes::int::Encoder;
use crate::bytes::packed::width;
use crate::search::codec::bitset;
use crate::search::codec::column::{MISSING, Ordinals};
use crate::search::codec::slices::{self, SlicesWriter};
use crate::search::format::FieldMeta;
use std::ops::Range;

/// Where a scan of the column replaces lists, a key of fewer than 1/`RARE` of all documents keeps
/// its list.
const RARE: usize = 1024;
/// Runs are the fastest form if they take less than 1/`FEW_RUNS` of the space of a bitset.
const FEW_RUNS: usize = 64;
/// Bytes per entry of SPECIAL_FORMS: ordinal, number of runs (0 for a bitset, or [`IN_COLUMN`]),
/// offset in BITSETS or RUNS, postings of all earlier special forms.
pub(crate) const SPECIAL_FORM: usize = 24;
/// Stored as the number of runs: the documents of the key are only in the column.
pub(crate) const IN_COLUMN: u32 = u32::MAX;

/// The sections OFFSETS, SLICES, PLACES, SPECIAL_FORMS, BITSETS and RUNS. Empty ones are not
/// written.
#[derive(Default)]
pub(crate) struct Encoded {
    pub(crate) offsets: Vec<u8>,
    pub(crate) slices: Vec<u8>,
    pub(crate) places: Vec<u8>,
    pub(crate) special_forms: Vec<u8>,
    pub(crate) bitsets: Vec<u8>,
    pub(crate) runs: Vec<u8>,
}

/// Documents by ordinal: those of ordinal `o` are `docs[offsets[o]..offsets[o + 1]]`, ascending.
pub(crate) struct Inverted {
    pub(crate) offsets: Vec<u32>,
    pub(crate) docs: Vec<u32>,
}

/// Sorts the documents by ordinal, with a counting sort. There must be fewer than 2^32 values.
pub(crate) fn invert(ordinals: &Ordinals, distinct: usize) -> Inverted {
    let all = match ordinals {
        Ordinals::Single(ords) | Ordinals::Multi { ords, .. } => ords,
    };
    // The count of ordinal o is at o + 2. After the prefix sum, entry o + 1 is where the documents
    // of o begin; it then serves as the insert position, and finally is where they end.
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

/// In a sortable scanned field, the first and the last keys keep lists, up to this many documents
/// at each end: enough to fill a page of an ordered query with a selective filter without a scan.
const LISTED_ENDS: usize = 1 << 13;

impl Inverted {
    fn of(&self, ord: usize) -> &[u32] {
        &self.docs[self.offsets[ord] as usize..self.offsets[ord + 1] as usize]
    }

    fn distinct(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Chooses the form of each key and encodes the postings. If `narrow`, a scan of the column
    /// replaces the lists of keys with many documents.
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
        self.write_special_forms(&forms, documents, &mut out);
        let gaps: Vec<Range<usize>> =
            forms.iter().map(|(ord, _)| *ord as usize..*ord as usize + 1).collect();
        self.write_slices(documents, &gaps, &mut out, meta);
        out
    }

    /// The ordinals of a scanned field that have no lists. In a sortable field the ordinals at both
    /// ends have lists (see [`LISTED_ENDS`]).
    pub(crate) fn without_lists(&self, documents: usize, sortable: bool) -> (u32, u32) {
        let (all, most) =
            (self.docs.len(), if sortable { LISTED_ENDS.min(documents / 16) } else { 0 });
        let first = self.offsets.partition_point(|&sum| sum as usize <= most) - 1;
        let end = self.offsets.partition_point(|&sum| (sum as usize) < all.saturating_sub(most));
        if first < end { (first as u32, end as u32) } else { (0, 0) }
    }

    /// The keys for which another form is smaller than a slice, and the forms.
    fn special_forms(&self, documents: usize, bits: u8, scanned: bool) -> Vec<(u32, Form)> {
        let bitset = bitset::size(documents) + SPECIAL_FORM;
        let mut forms = Vec::new();
        for ord in 0..self.distinct() {
            let docs = self.of(ord);
            let slice = docs.len() * usize::from(bits) / 8;
            if slice <= SPECIAL_FORM + 8 {
                continue; // The entry of a special form alone is as large.
            }
            let runs = count_runs(docs) * 8;
            // Bitsets are the fastest to combine: runs must take half the space.
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

    /// Writes the sections SPECIAL_FORMS, BITSETS and RUNS.
    fn write_special_forms(&self, forms: &[(u32, Form)], documents: usize, out: &mut Encoded) {
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

    /// Writes the slices of all keys except those in `gaps`, which are ascending ranges.
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
