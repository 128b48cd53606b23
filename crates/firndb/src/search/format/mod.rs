//! The file formats of a collection, as pure encode and decode functions.
//!
//! This file defines the sections of a partition file and encodes its meta section; the contents of
//! the other sections are encoded in `codec/`. `manifest` is the format of set files, `limits` has
//! the constants that decide between encodings.
//!
//! A partition is a frozen file (`disk/envelope.rs`) of kind 1. The id of a section is
//! `(field + 1) << 8 | part` for a part of a field, with fields numbered as in the schema, and
//! `part` for a part of the whole partition.
//!
//! | part | of a field | contents | encoded in `codec/` |
//! |---|---|---|---|
//! | 1 | keys | the distinct keys in ascending order, see below | `dictionary` |
//! | 2 | key bytes | the concatenated keys of string and bytes fields | `dictionary` |
//! | 3 | offsets | `distinct + 1` increasing: entry i = postings before key i | `postings/build` |
//! | 4 | slices | postings lists of keys that are neither scanned nor in part 5 | `slices` |
//! | 5 | special forms | 24 bytes per key whose postings are not in part 4 | `postings/build` |
//! | 6 | bitsets | 8-byte words; bit i of word w = document 64 w + i | `bitset` |
//! | 7 | runs | pairs of u32: first document, number of documents | `postings/build` |
//! | 8 | column | packed: the ordinal of each document's key, `distinct` if none | `column` |
//! | 9 | starts | multi-valued: `start[d] + d`, `documents + 1` increasing | `column` |
//! | 10 | list offsets | where each Elias-Fano list of part 4 begins | `slices` |
//! | 11 | points | for the first field of a point: the documents of both fields | `points` |
//!
//! Part 1 holds 64-bit keys as an increasing sequence. For strings and bytes it holds the sequence
//! `offset[i] + i` of the `distinct + 1` offsets into part 2. If part 9 exists, part 8 has one
//! entry per value. If there are more keys than documents, part 1 takes at least 16 bytes per 64
//! keys, just as the payload offsets take for documents. So a small corrupt file cannot make a
//! reader allocate much memory.
//!
//! Special forms, integers little-endian. A final entry has the ordinal 2^32 - 1.
//! ```text
//! OFFSET  SIZE  FIELD
//! 0       4     ordinal of the key; ascending
//! 4       4     number of runs in part 7; 0: a bitset in part 6; 2^32 - 1: use the column (part
//!               8), which is single-valued and has at most 8 bits
//! 8       8     offset in that part, without gaps; 0 for part 8
//! 16      8     number of documents in all preceding special forms
//! ```
//!
//! | part | of the partition | contents |
//! |---|---|---|
//! | 1 | meta | see below |
//! | 2 | payloads | payload bytes, raw or in zstd blocks: `codec/payload.rs` |
//! | 3 | payload offsets | offsets in the uncompressed payload bytes: `bytes/offsets.rs` |
//! | 4 | payload checks | XXH3-64 of every 64 KiB of part 2 (raw) or of every zstd block |
//! | 5 | block documents | zstd: first document of each block, then `documents` |
//! | 6 | block offsets | zstd: offset of each block in part 2, then the end of the last |
//! | 7 | dictionary | zstd: the trained dictionary |
//!
//! The meta section, integers little-endian, names as u32 length and bytes:
//! ```text
//! u32 documents
//! schema:  u8 dynamic (0 = no, else 0x80 | roles)
//!          u8 payload (0 raw, 1 zstd), u8 level, u8 dictionary trained
//!          u32 fields; each: name, u8 type, u8 roles,
//!              u8 multi | nullable << 1 | point << 2 | scanned << 3,
//!              if point: u32 number of the preceding field that forms a point with this one
//!          u32 order keys; each: name, u8 descending
//! fields:  each: u32 distinct keys, u64 postings, u32 documents with a value,
//!          u8 column bits (255 = no column), u8 slice bits (255 = Elias-Fano lists),
//!          u8 form: 0 lists, 1 ordered ascending, 2 ordered descending, 3 points, 4 scanned,
//!                   5 points by value,
//!          u32 special forms,
//!          if scanned: u32 first ordinal without a list, u32 first ordinal after these,
//!          if points by value: u64 smallest key, u32 span: largest key - smallest key + 1
//! ```
//! The documents of an *ordered* field are sorted by its keys, those without a value last. The
//! documents of a key are a range given by the offsets, and parts 4 to 7 are absent. They are also
//! absent from fields in *points*. If points are *by value*, both fields lack parts 1 and 3, too:
//! readers derive them from part 11. A *scanned* field is single-valued and has part 8. The
//! documents of a range of its keys are found in part 8 only; the other keys have lists in part 4.
//! Fields that are neither filterable nor sortable have part 3 only if they are ordered.

pub(crate) mod limits;
pub(crate) mod manifest;

use crate::bytes::int::{Decoder, Encoder};
use crate::search::format::limits::MAX_SPAN;
use crate::search::model::query::OrderBy;
use crate::search::model::schema::{Field, Payload, Roles, Schema};
use crate::search::model::types::Type;
use crate::{Error, Result};

/// The maximum number of documents of a partition. A bitset of so many documents takes 8 MiB.
pub const MAX_DOCUMENTS: u32 = 1 << 26;

/// The parts of a field.
pub(crate) mod part {
    pub(crate) const KEYS: u32 = 1;
    pub(crate) const KEY_BYTES: u32 = 2;
    pub(crate) const OFFSETS: u32 = 3;
    pub(crate) const SLICES: u32 = 4;
    pub(crate) const SPECIAL_FORMS: u32 = 5;
    pub(crate) const BITSETS: u32 = 6;
    pub(crate) const RUNS: u32 = 7;
    pub(crate) const COLUMN: u32 = 8;
    pub(crate) const STARTS: u32 = 9;
    pub(crate) const LIST_OFFSETS: u32 = 10;
    pub(crate) const POINTS: u32 = 11;
    /// Display names by part number.
    pub(crate) const NAMES: [&str; 12] = [
        "",
        "keys",
        "key bytes",
        "offsets",
        "slices",
        "special forms",
        "bitsets",
        "runs",
        "column",
        "starts",
        "list offsets",
        "points",
    ];
}

/// The parts of the whole partition.
pub(crate) mod global {
    pub(crate) const META: u32 = 1;
    pub(crate) const PAYLOADS: u32 = 2;
    pub(crate) const OFFSETS: u32 = 3;
    pub(crate) const CHECKS: u32 = 4;
    pub(crate) const BLOCK_DOCUMENTS: u32 = 5;
    pub(crate) const BLOCK_OFFSETS: u32 = 6;
    pub(crate) const DICTIONARY: u32 = 7;
    /// Display names by part number.
    pub(crate) const NAMES: [&str; 8] = [
        "",
        "meta",
        "payloads",
        "payload offsets",
        "payload checks",
        "block documents",
        "block offsets",
        "dictionary",
    ];
}

/// The section id of a part of a field.
pub(crate) fn section(field: usize, part: u32) -> u32 {
    (field as u32 + 1) << 8 | part
}

/// Whether the documents of a partition are sorted by a field's keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ordered {
    #[default]
    No = 0,
    Ascending = 1,
    Descending = 2,
}

/// The range of a field's values in points: a value is a key minus the smallest key of the field,
/// and all values are below `span`. A span of 0 means that the points hold ordinals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PointValues {
    /// The smallest key of the field.
    pub(crate) least: u64,
    pub(crate) span: u32,
}

/// The description of a field in the meta section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldMeta {
    /// Number of distinct keys.
    pub(crate) distinct: u32,
    /// Number of documents with a value.
    pub(crate) present: u32,
    /// Number of pairs of a document and a value.
    pub(crate) postings: u64,
    /// Number of keys whose postings have a special form.
    pub(crate) special_forms: u32,
    /// Width of the column; `None` if the field has none.
    pub(crate) column_bits: Option<u8>,
    /// Width of the slices, or `slices::ELIAS_FANO`.
    pub(crate) slice_bits: u8,
    pub(crate) ordered: Ordered,
    /// The postings are in the points of this field and another one.
    pub(crate) in_points: bool,
    /// [`PointValues`], if the points hold values.
    pub(crate) least: u64,
    pub(crate) span: u32,
    /// The ordinals `scanned.0..scanned.1` have no postings lists: queries scan the column.
    pub(crate) scanned: (u32, u32),
}

impl FieldMeta {
    /// Whether the field has postings lists (slices) for keys without a special form.
    pub(crate) fn has_lists(&self) -> bool {
        let scanned = self.is_scanned() && self.scanned == (0, self.distinct);
        self.ordered == Ordered::No && !self.in_points && !scanned
    }

    /// The range of values, if the points of the field hold values.
    pub(crate) fn values(&self) -> Option<PointValues> {
        (self.span > 0).then_some(PointValues { least: self.least, span: self.span })
    }

    /// Whether some keys have no postings lists, so that queries scan the column for them.
    pub(crate) fn is_scanned(&self) -> bool {
        self.scanned.0 < self.scanned.1
    }
}

const NO_COLUMN: u8 = 255;
/// Further values of the byte that otherwise holds [`Ordered`].
const IN_POINTS: u8 = 3;
const SCANNED: u8 = 4;
const BY_VALUE: u8 = 5;

/// Encodes the schema within the meta section. Equal schemas have equal bytes.
pub(crate) fn encode_schema(schema: &Schema, out: &mut Encoder) {
    out.u8(schema.dynamic.map_or(0, |roles| 0x80 | roles.to_code()));
    let (form, level, dictionary) = match schema.payload {
        Payload::Raw => (0, 0, false),
        Payload::Zstd { level, dictionary } => (1, level as u8, dictionary),
    };
    out.u8(form);
    out.u8(level);
    out.u8(u8::from(dictionary));
    out.u32(schema.fields.len() as u32);
    for (i, f) in schema.fields.iter().enumerate() {
        let point = schema.points.iter().find(|pair| pair[1] == i);
        out.bytes(f.name.as_bytes());
        out.u8(f.ty as u8);
        out.u8(f.roles.to_code());
        let flags = [f.multi, f.nullable, point.is_some(), f.scanned];
        out.u8((0..).zip(flags).map(|(i, flag)| u8::from(flag) << i).sum());
        if let Some([other, _]) = point {
            out.u32(*other as u32);
        }
    }
    out.u32(schema.order.len() as u32);
    for key in &schema.order {
        out.bytes(key.field.as_bytes());
        out.u8(u8::from(key.descending));
    }
}

/// Decodes a schema. `Corrupt` for unknown codes and for fields that [`Schema::add`] rejects; the
/// document order is not checked.
pub(crate) fn decode_schema(from: &mut Decoder) -> Result<Schema> {
    let unknown = |what: &str| Error::corrupt(format!("the schema has an unknown {what}"));
    let dynamic = match from.u8()? {
        0 => None,
        code => Some(Roles::from_code(code & 0x7F).ok_or_else(|| unknown("role"))?),
    };
    let payload = match (from.u8()?, from.u8()?, from.u8()?) {
        (0, ..) => Payload::Raw,
        (1, level, dictionary) => {
            Payload::Zstd { level: i32::from(level), dictionary: dictionary != 0 }
        }
        _ => return Err(unknown("payload form")),
    };
    let mut schema = Schema { dynamic, payload, ..Schema::default() };
    for _ in 0..from.u32()? {
        let name = from.string()?;
        let ty = Type::from_code(from.u8()?).ok_or_else(|| unknown("type"))?;
        let roles = Roles::from_code(from.u8()?).ok_or_else(|| unknown("role"))?;
        let flags = from.u8()?;
        let [multi, nullable, point, scanned] = [1, 2, 4, 8].map(|flag| flags & flag != 0);
        let field = Field { name, ty, roles, multi, nullable, scanned };
        schema.add(field).map_err(|e| Error::corrupt(e.message()))?;
        if point {
            let pair = [from.u32()? as usize, schema.fields.len() - 1];
            schema.add_point(pair).map_err(|e| Error::corrupt(e.message()))?;
        }
    }
    for _ in 0..from.u32()? {
        let field = from.string()?;
        schema.order.push(OrderBy { field, descending: from.u8()? != 0 });
    }
    Ok(schema)
}

/// Encodes the meta section: number of documents, schema, fields.
pub(crate) fn encode_meta(documents: u32, schema: &Schema, fields: &[FieldMeta]) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(documents);
    encode_schema(schema, &mut out);
    for f in fields {
        out.u32(f.distinct);
        out.u64(f.postings);
        out.u32(f.present);
        out.u8(f.column_bits.unwrap_or(NO_COLUMN));
        out.u8(f.slice_bits);
        out.u8(match () {
            () if f.span > 0 => BY_VALUE,
            () if f.in_points => IN_POINTS,
            () if f.is_scanned() => SCANNED,
            () => f.ordered as u8,
        });
        out.u32(f.special_forms);
        if f.is_scanned() {
            out.u32(f.scanned.0);
            out.u32(f.scanned.1);
        }
        if f.span > 0 {
            out.u64(f.least);
            out.u32(f.span);
        }
    }
    out.0
}

/// Decodes the meta section, and checks that counts and forms of the fields are consistent.
pub(crate) fn decode_meta(bytes: &[u8]) -> Result<(u32, Schema, Vec<FieldMeta>)> {
    let mut from = Decoder::new(bytes);
    let documents = from.u32()?;
    if documents > MAX_DOCUMENTS {
        return Err(Error::corrupt(format!("{documents} documents; at most {MAX_DOCUMENTS}")));
    }
    let schema = decode_schema(&mut from)?;
    let mut fields = Vec::with_capacity(schema.fields.len());
    for field in &schema.fields {
        let meta = decode_field(&mut from)?;
        let most = if field.multi { u64::from(u32::MAX) } else { u64::from(documents) };
        let fits = u64::from(meta.distinct) <= meta.postings
            && meta.postings <= most
            && meta.present <= documents
            && u64::from(meta.present) <= meta.postings;
        if !fits {
            return Err(Error::corrupt(format!("the counts of field `{}` contradict", field.name)));
        }
        fields.push(meta);
    }
    from.finish()?;
    for (meta, field) in fields.iter().zip(&schema.fields).filter(|(meta, _)| meta.is_scanned()) {
        if meta.column_bits.is_none() || field.multi || meta.special_forms > 0 {
            let name = &field.name;
            return Err(Error::corrupt(format!("field `{name}` has no column that is scanned")));
        }
    }
    for i in (0..fields.len()).filter(|&i| fields[i].in_points) {
        // Both fields of a point are stored in points of the same kind.
        let pair = schema.points.iter().find(|pair| pair.contains(&i));
        let same = |meta: &FieldMeta| meta.in_points && (meta.span > 0) == (fields[i].span > 0);
        if !pair.is_some_and(|pair| pair.iter().all(|&other| same(&fields[other]))) {
            let name = &schema.fields[i].name;
            return Err(Error::corrupt(format!("field `{name}` is part of no point")));
        }
    }
    Ok((documents, schema, fields))
}

fn decode_field(from: &mut Decoder) -> Result<FieldMeta> {
    let (distinct, postings, present) = (from.u32()?, from.u64()?, from.u32()?);
    let column_bits = Some(from.u8()?).filter(|&bits| bits != NO_COLUMN);
    let slice_bits = from.u8()?;
    let ordered = from.u8()?;
    let (by_value, is_scanned) = (ordered == BY_VALUE, ordered == SCANNED);
    let in_points = ordered == IN_POINTS || by_value;
    let ordered = match ordered {
        0 | IN_POINTS | SCANNED | BY_VALUE => Ordered::No,
        1 => Ordered::Ascending,
        2 => Ordered::Descending,
        other => return Err(Error::corrupt(format!("{other} is no order of a field"))),
    };
    let special_forms = from.u32()?;
    let scanned = if is_scanned { (from.u32()?, from.u32()?) } else { (0, 0) };
    if is_scanned && (scanned.0 >= scanned.1 || scanned.1 > distinct) {
        let (first, end) = scanned;
        return Err(Error::corrupt(format!("keys {first} to {end} of {distinct} are scanned")));
    }
    let (least, span) = if by_value { (from.u64()?, from.u32()?) } else { (0, 0) };
    let fits = (distinct..MAX_SPAN).contains(&span)
        && least.checked_add(u64::from(span.wrapping_sub(1))).is_some()
        && (column_bits, special_forms) == (None, 0)
        && (distinct > 0 && postings == u64::from(present));
    if by_value && !fits {
        return Err(Error::corrupt(format!("{distinct} values of {span} from {least} cannot be")));
    }
    Ok(FieldMeta {
        distinct,
        present,
        postings,
        special_forms,
        column_bits,
        slice_bits,
        ordered,
        in_points,
        least,
        span,
        scanned,
    })
}
