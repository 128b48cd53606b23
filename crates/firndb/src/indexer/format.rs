//! The records that an index keeps in its log. The first letter of a key is the type of the record.
//!
//! ```text
//! KEY            VALUE
//! m              u32 version: 1; u32 generation of the partitions' ID lists; PARTITIONING;
//!                bytes schema as TOML
//! k  ID          bytes key of the documents; for each source that has one, ordered by name:
//!                bytes source, bytes DOCUMENT
//! s              for each source that ever had documents, ordered by name: bytes name
//! d              for each dirty partition, ordered by name: bytes name
//! v              the published set of the collection: u64 number, CONTENT; during a publication
//!                also the CONTENT of the next set (the number is that of the next set)
//! h  LIST        head of a list: u64 IDs in the base; u32 journals; u64 entries in the journals
//! b  LIST        base of a list: IDs, ascending
//! j  LIST u32 n  journal n of a list, counted from 0; for each entry: ID, u8 1 if added, 0 if
//!                removed
//! q  u32 n       chunk n of a feed: bytes source; for each change: ID, bytes key,
//!                u8 1 and bytes DOCUMENT, or u8 0 if removed
//! c              u32 chunks: the feed in these chunks is complete
//! r              PARTITIONING that the documents are being assigned by
//!
//! ID             16  XXH3-128 of a key
//! CONTENT        16  content id of a set; missing in logs of older releases
//! LIST           `s` and a source: the IDs of its documents; or `p`, u32 generation and the name
//!                of a partition: the IDs of the documents to publish in it
//! PARTITIONING   u32 partitions by hash, 0 if not by hash; bytes field, empty if not by field
//! DOCUMENT       u32 values; for each value, ordered by field: u16 number of the field in the
//!                schema, u8 type, the value: u8 (bool), u64 (numbers; f64 as its bits) or bytes;
//!                then bytes payload
//! ```
//!
//! `bytes` are a u32 length and that many bytes.

use super::partitioning::Partitioning;
use crate::bytes::int::{Decoder, Encoder};
use crate::search::{Document, Schema, Type, Value};
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_128;

const VERSION: u32 = 1;

/// Longest key of a document in bytes.
pub const MAX_KEY: usize = 65_535;
/// Longest name of a source in bytes.
pub const MAX_SOURCE: usize = 255;

pub(super) const META: &[u8] = b"m";
pub(super) const SOURCES: &[u8] = b"s";
pub(super) const DIRTY: &[u8] = b"d";
pub(super) const PUBLISHED: &[u8] = b"v";
pub(super) const FEED_COMPLETE: &[u8] = b"c";
pub(super) const REPARTITION: &[u8] = b"r";

/// The hash that identifies a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id(pub(super) u128);

pub(super) fn id_of(key: &[u8]) -> Id {
    Id(xxh3_128(key))
}

fn put_id(out: &mut Encoder, id: Id) {
    out.u64(id.0 as u64);
    out.u64((id.0 >> 64) as u64);
}

fn take_id(from: &mut Decoder) -> Result<Id> {
    let low = from.u64()?;
    Ok(Id(u128::from(from.u64()?) << 64 | u128::from(low)))
}

/// The key of a record: a letter, what the record belongs to, and a number.
fn log_key(letter: u8, of: &[u8], number: Option<u32>) -> Vec<u8> {
    let mut out = Encoder(vec![letter]);
    out.0.extend_from_slice(of);
    if let Some(number) = number {
        out.u32(number);
    }
    out.0
}

pub(super) fn entry_key(id: Id) -> Vec<u8> {
    let mut out = Encoder(vec![b'k']);
    put_id(&mut out, id);
    out.0
}

pub(super) fn chunk_key(n: u32) -> Vec<u8> {
    log_key(b'q', b"", Some(n))
}

pub(super) fn head_key(list: &[u8]) -> Vec<u8> {
    log_key(b'h', list, None)
}

pub(super) fn base_key(list: &[u8]) -> Vec<u8> {
    log_key(b'b', list, None)
}

pub(super) fn journal_key(list: &[u8], n: u32) -> Vec<u8> {
    log_key(b'j', list, Some(n))
}

pub(super) fn source_list(source: &str) -> Vec<u8> {
    log_key(b's', source.as_bytes(), None)
}

pub(super) fn partition_list(generation: u32, name: &str) -> Vec<u8> {
    let mut out = Encoder(vec![b'p']);
    out.u32(generation);
    out.0.extend_from_slice(name.as_bytes());
    out.0
}

/// The record `m`.
pub(super) struct Meta {
    pub(super) generation: u32,
    pub(super) partitioning: Partitioning,
    pub(super) schema: Schema,
}

pub(super) fn encode_meta(
    generation: u32,
    partitioning: &Partitioning,
    schema: &Schema,
) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(VERSION);
    out.u32(generation);
    put_partitioning(&mut out, partitioning);
    out.bytes(schema.to_toml().as_bytes());
    out.0
}

pub(super) fn decode_meta(bytes: &[u8]) -> Result<Meta> {
    let mut from = Decoder::new(bytes);
    let version = from.u32()?;
    if version != VERSION {
        return Err(Error::new(
            ErrorKind::UnsupportedVersion,
            format!("the index has version {version}; this release reads {VERSION}"),
        ));
    }
    let generation = from.u32()?;
    let partitioning = take_partitioning(&mut from)?;
    let schema = Schema::from_toml(&from.string()?)
        .map_err(|e| Error::corrupt(format!("the schema of the index: {}", e.message())))?;
    from.finish()?;
    Ok(Meta { generation, partitioning, schema })
}

fn put_partitioning(out: &mut Encoder, partitioning: &Partitioning) {
    out.u32(partitioning.partitions);
    out.bytes(partitioning.field.as_deref().unwrap_or("").as_bytes());
}

fn take_partitioning(from: &mut Decoder) -> Result<Partitioning> {
    let partitions = from.u32()?;
    let field = Some(from.string()?).filter(|field| !field.is_empty());
    Ok(Partitioning { field, partitions })
}

/// The record `v`: the published set of the collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PublishedSet {
    pub(super) number: u64,
    /// Content id of the set; `None` if an older release wrote the record.
    pub(super) content: Option<u128>,
    /// Content id of the set that a publication is creating.
    pub(super) next: Option<u128>,
}

pub(super) fn encode_published(set: PublishedSet) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u64(set.number);
    set.content.into_iter().chain(set.next).for_each(|content| put_id(&mut out, Id(content)));
    out.0
}

pub(super) fn decode_published(bytes: &[u8]) -> Result<PublishedSet> {
    let mut from = Decoder::new(bytes);
    let number = from.u64()?;
    let mut content = || match from.is_at_end() {
        true => Ok(None),
        false => take_id(&mut from).map(|id| Some(id.0)),
    };
    let set = PublishedSet { number, content: content()?, next: content()? };
    from.finish()?;
    Ok(set)
}

pub(super) fn encode_partitioning(partitioning: &Partitioning) -> Vec<u8> {
    let mut out = Encoder::default();
    put_partitioning(&mut out, partitioning);
    out.0
}

pub(super) fn decode_partitioning(bytes: &[u8]) -> Result<Partitioning> {
    let mut from = Decoder::new(bytes);
    let partitioning = take_partitioning(&mut from)?;
    from.finish()?;
    Ok(partitioning)
}

pub(super) fn encode_names<'a>(names: impl IntoIterator<Item = &'a String>) -> Vec<u8> {
    let mut out = Encoder::default();
    names.into_iter().for_each(|name| out.bytes(name.as_bytes()));
    out.0
}

pub(super) fn decode_names<T: FromIterator<String>>(bytes: &[u8]) -> Result<T> {
    let mut from = Decoder::new(bytes);
    std::iter::from_fn(|| (!from.is_at_end()).then(|| from.string())).collect()
}

/// The documents of a key, one per source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    /// Encoded documents by source.
    pub(super) documents: BTreeMap<String, Vec<u8>>,
}

impl Entry {
    /// The document to publish: that of the source with the smallest name.
    pub(super) fn published(&self) -> Option<&[u8]> {
        self.documents.values().next().map(Vec::as_slice)
    }
}

pub(super) fn encode_entry(entry: &Entry) -> Vec<u8> {
    let mut out = Encoder::default();
    out.bytes(&entry.key);
    for (source, document) in &entry.documents {
        out.bytes(source.as_bytes());
        out.bytes(document);
    }
    out.0
}

pub(super) fn decode_entry(bytes: &[u8]) -> Result<Entry> {
    let mut documents = BTreeMap::new();
    let key = read_entry(bytes, |source, document| {
        documents.insert(source.to_string(), document.to_vec());
    })?;
    Ok(Entry { key: key.to_vec(), documents })
}

/// Calls `each` with each source and its document, ordered by source. Returns the key.
pub(super) fn read_entry<'a>(
    bytes: &'a [u8],
    mut each: impl FnMut(&'a str, &'a [u8]),
) -> Result<&'a [u8]> {
    let mut from = Decoder::new(bytes);
    let key = from.bytes()?;
    while !from.is_at_end() {
        let source = std::str::from_utf8(from.bytes()?)
            .map_err(|_| Error::corrupt("the name of a source is not UTF-8"))?;
        each(source, from.bytes()?);
    }
    Ok(key)
}

/// The document of an entry that is to be published.
pub(super) fn read_published(bytes: &[u8]) -> Result<Option<&[u8]>> {
    let mut published = None;
    read_entry(bytes, |_, document| published = published.or(Some(document)))?;
    Ok(published)
}

/// A change of a source: the new document of a key, encoded, or `None` if it is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) id: Id,
    pub(super) key: Vec<u8>,
    pub(super) document: Option<Vec<u8>>,
}

impl Change {
    /// Approximate size in a chunk.
    pub(super) fn len(&self) -> usize {
        32 + self.key.len() + self.document.as_ref().map_or(0, Vec::len)
    }
}

pub(super) fn encode_chunk(source: &str, changes: &[Change]) -> Vec<u8> {
    let mut out = Encoder::default();
    out.bytes(source.as_bytes());
    for change in changes {
        put_id(&mut out, change.id);
        out.bytes(&change.key);
        out.u8(u8::from(change.document.is_some()));
        if let Some(document) = &change.document {
            out.bytes(document);
        }
    }
    out.0
}

pub(super) fn decode_chunk(bytes: &[u8]) -> Result<(String, Vec<Change>)> {
    let mut from = Decoder::new(bytes);
    let source = from.string()?;
    let mut changes = Vec::new();
    while !from.is_at_end() {
        let (id, key) = (take_id(&mut from)?, from.bytes()?.to_vec());
        let document = match from.u8()? {
            0 => None,
            _ => Some(from.bytes()?.to_vec()),
        };
        changes.push(Change { id, key, document });
    }
    Ok((source, changes))
}

/// The head of a list: the numbers of IDs in the base, of journals, and of entries in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) base: u64,
    pub(super) journals: u32,
    pub(super) entries: u64,
}

pub(super) fn encode_head(head: Head) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u64(head.base);
    out.u32(head.journals);
    out.u64(head.entries);
    out.0
}

pub(super) fn decode_head(bytes: &[u8]) -> Result<Head> {
    let mut from = Decoder::new(bytes);
    let head = Head { base: from.u64()?, journals: from.u32()?, entries: from.u64()? };
    from.finish()?;
    Ok(head)
}

pub(super) fn encode_ids(ids: &[Id]) -> Vec<u8> {
    let mut out = Encoder(Vec::with_capacity(ids.len() * 16));
    ids.iter().for_each(|id| put_id(&mut out, *id));
    out.0
}

pub(super) fn decode_ids(bytes: &[u8]) -> Result<Vec<Id>> {
    let mut from = Decoder::new(bytes);
    let mut ids = Vec::with_capacity(bytes.len() / 16);
    while !from.is_at_end() {
        ids.push(take_id(&mut from)?);
    }
    Ok(ids)
}

pub(super) fn encode_journal(entries: &[(Id, bool)]) -> Vec<u8> {
    let mut out = Encoder::default();
    for (id, is_added) in entries {
        put_id(&mut out, *id);
        out.u8(u8::from(*is_added));
    }
    out.0
}

pub(super) fn decode_journal(bytes: &[u8], mut each: impl FnMut(Id, bool)) -> Result<()> {
    let mut from = Decoder::new(bytes);
    while !from.is_at_end() {
        let id = take_id(&mut from)?;
        each(id, from.u8()? == 1);
    }
    Ok(())
}

pub(super) fn encode_document(schema: &Schema, document: &Document) -> Result<Vec<u8>> {
    let number = |name: &str| schema.field(name).ok_or_else(|| schema.unknown(name));
    let fields = document.fields().map(|(name, value)| Ok((number(name)?.0 as u16, value)));
    let mut fields = fields.collect::<Result<Vec<_>>>()?;
    fields.sort_by_key(|(field, _)| *field);
    let mut out = Encoder::default();
    out.u32(fields.len() as u32);
    for (field, value) in fields {
        out.u16(field);
        out.u8(value.ty() as u8);
        match value {
            Value::Bool(v) => out.u8(u8::from(*v)),
            Value::I64(v) | Value::Timestamp(v) => out.u64(*v as u64),
            Value::U64(v) => out.u64(*v),
            Value::F64(v) => out.u64(v.to_bits()),
            Value::Str(v) => out.bytes(v.as_bytes()),
            Value::Bytes(v) => out.bytes(v),
        }
    }
    out.bytes(document.payload_bytes());
    Ok(out.0)
}

pub(super) fn decode_document(schema: &Schema, bytes: &[u8]) -> Result<Document> {
    let mut from = Decoder::new(bytes);
    let mut document = Document::new();
    for _ in 0..from.u32()? {
        let (number, code) = (from.u16()?, from.u8()?);
        let field = schema.fields().get(usize::from(number));
        let field = field.ok_or_else(|| Error::corrupt(format!("there is no field {number}")))?;
        let ty = Type::from_code(code);
        let value = match ty.ok_or_else(|| Error::corrupt(format!("{code} is no type")))? {
            Type::Bool => Value::Bool(from.u8()? != 0),
            Type::I64 => Value::I64(from.u64()? as i64),
            Type::Timestamp => Value::Timestamp(from.u64()? as i64),
            Type::U64 => Value::U64(from.u64()?),
            Type::F64 => Value::F64(f64::from_bits(from.u64()?)),
            Type::String => Value::Str(from.string()?),
            Type::Bytes => Value::Bytes(from.bytes()?.to_vec()),
        };
        document.push(field.name.as_str(), value);
    }
    let document = document.payload(from.bytes()?);
    from.finish()?;
    Ok(document)
}

/// The error of records that contradict each other.
pub(super) fn inconsistent(message: &str) -> Error {
    Error::corrupt(format!("the log of the index contradicts itself: {message}"))
}

#[cfg(test)]
mod tests;
