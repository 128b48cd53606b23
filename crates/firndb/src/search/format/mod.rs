//! The bytes of a partition file: its sections, and the meta section that describes them.
//!
//! A partition is a frozen file (`bytes/frozen.rs`) of kind 1. A section's id is, for a part of a
//! field, `(field + 1) << 8 | part`, fields numbered as in the schema; and `part` for what belongs
//! to the partition.
//!
//! | part | of a field | holds | made in |
//! |---|---|---|---|
//! | 1 | keys | the distinct keys, ascending, as below | dictionary |
//! | 2 | key bytes | the keys of strings and bytes, one after the other | dictionary |
//! | 3 | offsets | `distinct + 1` increasing: entry i = postings before key i | postings_build |
//! | 4 | slices | documents, key after key, of keys not in part 5 and not scanned | slices |
//! | 5 | special forms | 24 bytes for each key not in part 4, as below | postings_build |
//! | 6 | bitsets | 8-byte words, bit i of word w = document 64 w + i | bitset |
//! | 7 | runs | pairs of u32: first document, number of documents | postings_build |
//! | 8 | column | packed: each document's key as a number, `distinct` if none | column |
//! | 9 | starts | multi-valued: `start[d] + d`, `documents + 1` increasing | column |
//! | 10 | places | where each list of part 4 begins, if these are divided | slices |
//! | 11 | points | of the first of two fields that are a point: the documents of both | points |
//!
//! Part 1 holds u64 keys as an increasing sequence; for strings and bytes the sequence `offset[i] +
//! i` of `distinct + 1` offsets into part 2. With part 9, part 8 has an entry for each value. Where
//! keys are more than documents, part 1 has 16 bytes for every 64 of them at least, as the payload
//! offsets have of documents: a small file cannot ask for memory for more.
//!
//! A special form, integers little-endian; the last has the ordinal 2^32 - 1:
//! ```text
//! OFFSET  SIZE  FIELD
//! 0       4     ordinal of the key; they ascend
//! 4       4     runs in part 7; 0: a bitset in part 6; 2^32 - 1: what part 8 has, of one value a document and at most 8 bits
//! 8       8     offset in that part, behind the one before; 0 for part 8
//! 16      8     documents of the special forms before
//! ```
//!
//! | part | of the partition | holds |
//! |---|---|---|
//! | 1 | meta | the table below |
//! | 2 | payloads | payload bytes, raw or in zstd blocks: `payload.rs` |
//! | 3 | payload offsets | where each begins and ends, in uncompressed bytes: `bytes/offsets.rs` |
//! | 4 | payload checks | XXH3-64 of every 64 KiB of part 2 (raw) or of every zstd block |
//! | 5 | block documents | zstd: first document of each block, and `documents` |
//! | 6 | block offsets | zstd: offset of each block in part 2, and its end |
//! | 7 | dictionary | zstd: the trained dictionary |
//!
//! The meta section, integers little-endian, names as u32 length and bytes:
//! ```text
//! u32 documents
//! schema:  u8 dynamic (0 = no, else 0x80 | roles)
//!          u8 payload (0 raw, 1 zstd), u8 level, u8 dictionary trained
//!          u32 fields; each: name, u8 type, u8 roles,
//!              u8 multi | nullable << 1 | point << 2 | scanned << 3,
//!              with point: u32 number of the field before it that it makes a point with
//!          u32 order keys; each: name, u8 descending
//! fields:  each: u32 distinct keys, u64 postings, u32 documents with a value,
//!          u8 column bits (255 = no column), u8 slice bits (255 = divided lists),
//!          u8 ordered (1 ascending, 2 descending), points (3), scanned (4), points by value (5),
//!          u32 special forms,
//!          of a scanned field u32 first key without a list, u32 first behind them,
//!          of points by value u64 least key, u32 span: the largest less the least, and 1
//! ```
//! An *ordered* field has its documents in the order of its keys (those without a value last): the
//! documents of a key are a range given by the offsets, and parts 4 to 7 are absent. So are they where
//! the documents of a key are in *points*. Of points *by value* neither field has parts 1 and 3:
//! they are told from part 11. A *scanned* field has one value a document, and part 8; of some keys
//! part 8 alone says which documents have them, and the others are in part 4. Fields that
//! are neither filterable nor sortable have part 3 only if they are ordered.

pub(crate) mod limits;
pub(crate) mod manifest;

use crate::bytes::int::{Decoder, Encoder};
use crate::search::format::limits::MAX_SPAN;
use crate::search::model::query::OrderBy;
use crate::search::model::schema::{Field, Payload, Roles, Schema};
use crate::search::model::types::Type;
use crate::{Error, Result};

/// Documents a partition may have: a bitset of them then has 8 MiB.
pub const MAX_DOCUMENTS: u32 = 1 << 26;

/// Parts of a field.
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
    pub(crate) const PLACES: u32 = 10;
    pub(crate) const POINTS: u32 = 11;
    /// Names for people, by part number.
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
        "places",
        "points",
    ];
}

/// Parts of the partition itself.
pub(crate) mod global {
    pub(crate) const META: u32 = 1;
    pub(crate) const PAYLOADS: u32 = 2;
    pub(crate) const OFFSETS: u32 = 3;
    pub(crate) const CHECKS: u32 = 4;
    pub(crate) const BLOCK_DOCUMENTS: u32 = 5;
    pub(crate) const BLOCK_OFFSETS: u32 = 6;
    pub(crate) const DICTIONARY: u32 = 7;
    /// Names for people, by part number.
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

/// The id of a part of a field.
pub(crate) fn section(field: usize, part: u32) -> u32 {
    (field as u32 + 1) << 8 | part
}

/// Whether documents stand in the order of a field's keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ordered {
    #[default]
    No = 0,
    Ascending = 1,
    Descending = 2,
}

/// The values of a field in points: how many there may be, from the least key to the largest. No
/// span: the points hold ordinals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PointValues {
    pub(crate) least: u64,
    pub(crate) span: u32,
}

/// What the meta section says of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldMeta {
    pub(crate) distinct: u32,
    pub(crate) present: u32,
    pub(crate) postings: u64,
    pub(crate) special_forms: u32,
    pub(crate) column_bits: Option<u8>,
    pub(crate) slice_bits: u8,
    pub(crate) ordered: Ordered,
    /// The documents of a key are in the points of this field and another one.
    pub(crate) in_points: bool,
    /// If the points hold values: [`PointValues`].
    pub(crate) least: u64,
    pub(crate) span: u32,
    /// The ordinals `scanned.0..scanned.1` have no lists: their documents are in the column alone.
    pub(crate) scanned: (u32, u32),
}

impl FieldMeta {
    /// Some keys have lists, unless a special form says something else of one.
    pub(crate) fn has_lists(&self) -> bool {
        let scanned = self.is_scanned() && self.scanned == (0, self.distinct);
        self.ordered == Ordered::No && !self.in_points && !scanned
    }

    /// The values that the points of the field hold.
    pub(crate) fn values(&self) -> Option<PointValues> {
        (self.span > 0).then_some(PointValues { least: self.least, span: self.span })
    }

    /// Some keys have none.
    pub(crate) fn is_scanned(&self) -> bool {
        self.scanned.0 < self.scanned.1
    }
}

const NO_COLUMN: u8 = 255;
/// In the place of what [`Ordered`] says.
const IN_POINTS: u8 = 3;
const SCANNED: u8 = 4;
const BY_VALUE: u8 = 5;

/// The schema part of the meta section: equal schemas, equal bytes.
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

pub(crate) fn decode_schema(from: &mut Decoder) -> Result<Schema> {
    let wrong = |what: &str| Error::corrupt(format!("the schema has an unknown {what}"));
    let dynamic = match from.u8()? {
        0 => None,
        code => Some(Roles::from_code(code & 0x7F).ok_or_else(|| wrong("role"))?),
    };
    let payload = match (from.u8()?, from.u8()?, from.u8()?) {
        (0, ..) => Payload::Raw,
        (1, level, dictionary) => {
            Payload::Zstd { level: i32::from(level), dictionary: dictionary != 0 }
        }
        _ => return Err(wrong("payload form")),
    };
    let mut schema = Schema { dynamic, payload, ..Schema::default() };
    for _ in 0..from.u32()? {
        let name = from.string()?;
        let ty = Type::from_code(from.u8()?).ok_or_else(|| wrong("type"))?;
        let roles = Roles::from_code(from.u8()?).ok_or_else(|| wrong("role"))?;
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

/// The meta section: number of documents, schema, fields.
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
        // The other field of the point is in it, too, and in the same way.
        let pair = schema.points.iter().find(|pair| pair.contains(&i));
        let like = |meta: &FieldMeta| meta.in_points && (meta.span > 0) == (fields[i].span > 0);
        if !pair.is_some_and(|pair| pair.iter().all(|&other| like(&fields[other]))) {
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
