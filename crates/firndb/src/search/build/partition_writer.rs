//! Writes a partition from fields (sorted keys and ordinals) and a source of payloads.
//!
//! The builder and the merge both use this writer, so a merged partition has the same bytes as one
//! built from the documents.

use crate::disk::Append;
use crate::disk::envelope::{EnvelopeWriter, Kind};
use crate::search::codec::column::{MISSING, Ordinals, column_bits};
use crate::search::codec::dictionary::Keys;
use crate::search::codec::payload;
use crate::search::codec::points::choice::{self, Medium};
use crate::search::codec::postings::build::{self, Encoded};
use crate::search::format::PointValues;
use crate::search::format::limits::{SCAN_BITS, has_large_forms};
use crate::search::format::{FieldMeta, Ordered, encode_meta, global, part, section};
use crate::search::model::schema::{Field, Schema};
use crate::{Error, Result};
use std::collections::BTreeMap;

/// A field of a partition: its distinct keys, ascending, and the ordinals of all documents.
pub(crate) struct FieldData {
    pub(crate) keys: Keys,
    pub(crate) ordinals: Ordinals,
}

/// The minimum width in bits of a column that queries scan instead of reading postings lists; the
/// maximum is [`SCAN_BITS`]. With fewer keys bitsets are faster, and all of them together take less
/// than a byte per document.
const MIN_SCANNED_BITS: u8 = 3;

/// Sorts the documents of all fields into the schema's order. Returns the old number of each
/// document, in the new order; `None` if the schema has no order.
pub(crate) fn sort_documents(
    schema: &Schema,
    documents: u32,
    fields: &mut [FieldData],
) -> Result<Option<Vec<u32>>> {
    let Some(old) = document_order(schema, documents, |i| Some(&fields[i].ordinals))? else {
        return Ok(None);
    };
    for field in fields.iter_mut() {
        field.ordinals = reorder(&field.ordinals, &old);
    }
    Ok(Some(old))
}

/// The numbers of the documents, sorted by the schema's order; `None` if it has none. `ordinals`
/// returns those of a field of the order.
pub(crate) fn document_order<'o>(
    schema: &Schema,
    documents: u32,
    ordinals: impl Fn(usize) -> Option<&'o Ordinals>,
) -> Result<Option<Vec<u32>>> {
    let mut keys = Vec::new();
    for key in &schema.order {
        let Some((i, _)) = schema.field(&key.field) else {
            // No document has the field, so the next sort key decides.
            if schema.dynamic.is_some() {
                continue;
            }
            return Err(schema.unknown(&key.field));
        };
        match ordinals(i) {
            Some(Ordinals::Single(ords)) => keys.push((ords, key.descending)),
            _ => return Err(Error::invalid(format!("`{}` has several values", key.field))),
        }
    }
    let Some(((ords, descending), rest)) = keys.split_first() else { return Ok(None) };
    let rank = |ord: u32, descending| match ord {
        MISSING => MISSING,
        ord if descending => MISSING - 1 - ord,
        ord => ord,
    };
    // Document numbers break ties, so an unstable sort suffices.
    let first = ords.iter().zip(0..documents);
    let mut ranked: Vec<u64> =
        first.map(|(&ord, doc)| u64::from(rank(ord, *descending)) << 32 | u64::from(doc)).collect();
    ranked.sort_unstable();
    if !rest.is_empty() {
        for ties in ranked.chunk_by_mut(|a, b| a >> 32 == b >> 32) {
            ties.sort_unstable_by(|a, b| {
                let mut ranks = rest.iter().map(|(ords, descending)| {
                    let rank = |&doc: &u64| rank(ords[doc as u32 as usize], *descending);
                    rank(a).cmp(&rank(b))
                });
                ranks.find(|o| o.is_ne()).unwrap_or(a.cmp(b))
            });
        }
    }
    Ok(Some(ranked.into_iter().map(|doc| doc as u32).collect()))
}

/// The ordinals of the documents with these numbers.
pub(crate) fn reorder(ordinals: &Ordinals, old: &[u32]) -> Ordinals {
    match ordinals {
        Ordinals::Single(ords) => Ordinals::Single(old.iter().map(|&d| ords[d as usize]).collect()),
        Ordinals::Multi { ords, .. } => {
            let (mut starts, mut moved) = (vec![0], Vec::with_capacity(ords.len()));
            for &doc in old {
                moved.extend_from_slice(ordinals.of(doc as usize));
                starts.push(moved.len() as u32);
            }
            Ordinals::Multi { starts, ords: moved }
        }
    }
}

/// Writes the file. Returns its content id.
pub(crate) fn write_partition(
    out: &mut dyn Append,
    schema: &Schema,
    documents: u32,
    fields: Vec<FieldData>,
    payloads: &mut payload::Source,
) -> Result<u128> {
    let mut w = EnvelopeWriter::new(out, Kind::Partition)?;
    payload::write(&mut w, schema.payload, documents, payloads)?;
    let mut metas = Vec::with_capacity(fields.len());
    let medium = Medium::File;
    let points = write_points(&mut w, schema, (documents, medium), |i| fields.get(i))?;
    for (i, (field, data)) in schema.fields.iter().zip(fields).enumerate() {
        let context = FieldContext { documents, medium, in_points: points.get(&i).copied() };
        metas.push(write_field(&mut w, i, field, data, context)?);
    }
    w.section(global::META, &encode_meta(documents, schema, &metas))?;
    w.finish()
}

/// Properties of the partition that affect how a field is written.
pub(crate) struct FieldContext {
    pub(crate) documents: u32,
    pub(crate) medium: Medium,
    /// Set if the field is part of points, which replace its postings.
    pub(crate) in_points: Option<PointValues>,
}

/// Writes the points of those pairs of fields for which `field` returns both and for which points
/// are better than postings. Returns the fields that are in points now, and the values that the
/// points hold; the default stands for ordinals.
pub(crate) fn write_points<'f>(
    w: &mut EnvelopeWriter,
    schema: &Schema,
    (documents, medium): (u32, Medium),
    field: impl Fn(usize) -> Option<&'f FieldData>,
) -> Result<BTreeMap<usize, PointValues>> {
    let mut done = BTreeMap::new();
    for pair in schema.points.iter().filter(|_| has_large_forms(documents)) {
        let [Some(a), Some(b)] = pair.map(&field) else { continue };
        let (Ordinals::Single(x), Ordinals::Single(y)) = (&a.ordinals, &b.ordinals) else {
            continue;
        };
        if [a, b].iter().all(|data| data.ordinals.ordered() == Ordered::No) {
            let may = pair.iter().all(|&i| choice::may_be_values(&schema.fields[i]));
            let (bytes, values) = choice::encode([x, y], [&a.keys, &b.keys], may, medium);
            w.section(section(pair[0], part::POINTS), &bytes)?;
            done.extend(pair.iter().copied().zip(values.unwrap_or_default()));
        }
    }
    Ok(done)
}

/// Writes all sections of a field except points, and chooses its encodings.
pub(crate) fn write_field(
    w: &mut EnvelopeWriter,
    i: usize,
    field: &Field,
    data: FieldData,
    context: FieldContext,
) -> Result<FieldMeta> {
    let FieldData { keys, ordinals } = data;
    let (documents, medium) = (context.documents, context.medium);
    let in_points = context.in_points.is_some();
    let (n, distinct) = (documents as usize, keys.len());
    let mut meta = FieldMeta { distinct: distinct as u32, in_points, ..FieldMeta::default() };
    meta.present = ordinals.present();
    if let Some(PointValues { least, span: span @ 1.. }) = context.in_points {
        return Ok(FieldMeta { least, span, postings: meta.present.into(), ..meta });
    }
    let indexed = field.roles.filterable || field.roles.sortable;
    // If each document has a distinct key, offsets take no space and are as fast as a column.
    let ordered = indexed || distinct == n;
    meta.ordered = if ordered { ordinals.ordered() } else { Ordered::No };

    let bits = column_bits(distinct, meta.present < documents && !field.multi);
    // A narrow column lets queries verify a condition document by document.
    let narrow = bits <= SCAN_BITS && !field.multi;
    write_keys(w, i, &keys, n)?;
    let inverted = build::invert(&ordinals, distinct);
    meta.postings = inverted.docs.len() as u64;
    let lists_only = !(narrow || field.multi || in_points) && meta.ordered == Ordered::No;
    if field.scanned && indexed && lists_only && has_large_forms(documents) {
        meta.scanned = inverted.without_lists(n, field.roles.sortable);
    }
    if indexed || meta.ordered != Ordered::No {
        let scanned = narrow && bits >= MIN_SCANNED_BITS && has_large_forms(documents);
        let encoded = inverted.encode(n, scanned, &mut meta);
        write_postings(w, i, &encoded)?;
    }
    drop(inverted);
    let implied = meta.ordered != Ordered::No && medium == Medium::File;
    let read_back = (field.roles.sortable || field.roles.stored) && !implied;
    if narrow || read_back || meta.is_scanned() {
        let (column, starts) = ordinals.encode(distinct, bits);
        meta.column_bits = Some(bits);
        w.section(section(i, part::COLUMN), &column)?;
        if let Some(starts) = starts {
            w.section(section(i, part::STARTS), &starts)?;
        }
    }
    Ok(meta)
}

/// Writes the dictionary of a field.
pub(crate) fn write_keys(
    w: &mut EnvelopeWriter,
    field: usize,
    keys: &Keys,
    documents: usize,
) -> Result<()> {
    let (offsets, bytes) = keys.encode(documents);
    w.section(section(field, part::KEYS), &offsets)?;
    match bytes {
        Some(bytes) => w.section(section(field, part::KEY_BYTES), &bytes),
        None => Ok(()),
    }
}

fn write_postings(w: &mut EnvelopeWriter, field: usize, encoded: &Encoded) -> Result<()> {
    let parts = [
        (part::OFFSETS, &encoded.offsets),
        (part::SLICES, &encoded.slices),
        (part::LIST_OFFSETS, &encoded.places),
        (part::SPECIAL_FORMS, &encoded.special_forms),
        (part::BITSETS, &encoded.bitsets),
        (part::RUNS, &encoded.runs),
    ];
    for (part, bytes) in parts {
        if !bytes.is_empty() {
            w.section(section(field, part), bytes)?;
        }
    }
    Ok(())
}
