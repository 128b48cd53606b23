//! Verifies that the structures of a partition file are consistent with each other.
//!
//! Valid checksums mean that a file holds what its writer wrote. This module checks that the writer
//! was right: keys ascend, postings and columns agree in both directions, and counts are correct. A
//! file that passes answers every query correctly. `field` checks one field, `lists` reads its
//! postings independently of the code that queries use.
//!
//! Fields are checked one after another, each in time linear in its postings (for an ordered field,
//! times the logarithm of the number of its keys). Memory: one bit per document; 4 more bytes per
//! document of a multi-valued field, 8 of a field in points; 4 per document and 8 per key of a
//! scanned field.

mod field;
mod lists;

use crate::bytes::monotonic::Monotonic;
use crate::bytes::offsets::Offsets;
use crate::disk::Disk;
use crate::search::codec::payload::RAW_BLOCK;
use crate::search::codec::slices::ELIAS_FANO;
use crate::search::format::manifest::{self, Member};
use crate::search::format::{Ordered, global, part, section};
use crate::search::model::schema::Payload;
use crate::search::partition::Partition;
use crate::search::partition::set::PartitionSet;
use crate::{Error, Result};
use field::FieldCheck;
use std::path::Path;
use std::sync::Arc;

/// `Corrupt` with this message unless `holds`.
fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::corrupt(message())) }
}

/// A `Corrupt` error with a prefix before its message.
fn within(what: &str, error: Error) -> Error {
    Error::corrupt(format!("{what}: {}", error.message()))
}

/// Checks that the files of a set are the ones it lists, and that their schemas are compatible.
pub(crate) fn set<'m>(
    disk: &dyn Disk,
    dir: &Path,
    members: impl IntoIterator<Item = &'m Member>,
) -> Result<()> {
    let mut named: Vec<(String, Arc<Partition>)> = Vec::new();
    for member in members {
        let path = manifest::path(dir, member);
        let like = named.last().map(|(_, part)| part.clone());
        let part = Partition::open(disk, &path, like.as_deref())?;
        let facts = |content: u128, documents: u32, bytes: u64| {
            format!("content {content:032x}, {documents} documents, {bytes} bytes")
        };
        let says = facts(member.content, member.documents, member.bytes);
        let is = facts(part.file.content(), part.documents, part.file.len());
        ensure(says == is, || format!("the set says of `{}`: {says}; this is {is}", member.name))
            .map_err(|e| e.in_file(&path))?;
        named.push((member.name.clone(), Arc::new(part)));
    }
    PartitionSet::new(named).map(|_| ()).map_err(|e| Error::corrupt(e.message()).in_file(dir))
}

/// Checks every byte of a partition file, and that its structures are consistent.
pub(crate) fn partition(part: &Partition) -> Result<()> {
    part.file.verify()?;
    let checks = || -> Result<()> {
        sections(part)?;
        for (i, field) in part.schema.fields.iter().enumerate() {
            let check = FieldCheck { part, i, field, meta: part.meta(i) };
            check.all().map_err(|e| within(&format!("field `{}`", field.name), e))?;
        }
        order(part)?;
        payloads(part)
    };
    checks().map_err(|e| e.in_file(part.file.path()))
}

/// The sections are exactly those that the meta section requires.
fn sections(part: &Partition) -> Result<()> {
    let mut expected = vec![global::META, global::PAYLOADS, global::OFFSETS, global::CHECKS];
    if part.schema.payload != Payload::Raw {
        expected.extend([global::BLOCK_DOCUMENTS, global::BLOCK_OFFSETS, global::DICTIONARY]);
    }
    for (i, field) in part.schema.fields.iter().enumerate() {
        let meta = part.meta(i);
        let indexed = field.roles.filterable || field.roles.sortable;
        let (column, special_forms) = (meta.column_bits.is_some(), meta.special_forms > 0);
        let slices = indexed && meta.has_lists();
        let points = meta.in_points && part.schema.points.iter().any(|pair| pair[0] == i);
        // Special forms may use bitsets, runs, both or neither.
        let maybe = |p| special_forms && part.file.find(section(i, p)).is_some();
        let wanted = [
            (part::KEYS, meta.values().is_none()),
            (part::KEY_BYTES, !field.ty.is_fixed()),
            (part::OFFSETS, meta.values().is_none() && (indexed || meta.ordered != Ordered::No)),
            (part::SLICES, slices),
            (part::SPECIAL_FORMS, special_forms),
            (part::BITSETS, maybe(part::BITSETS)),
            (part::RUNS, maybe(part::RUNS)),
            (part::COLUMN, column),
            (part::STARTS, column && field.multi),
            (part::LIST_OFFSETS, slices && meta.slice_bits == ELIAS_FANO),
            (part::POINTS, points),
        ];
        expected.extend(wanted.iter().filter(|(_, on)| *on).map(|(p, _)| section(i, *p)));
    }
    let found = || (0..part.file.entries()).map(|i| part.file.entry(i));
    for id in &expected {
        ensure(part.file.find(*id).is_some(), || format!("section {id:#x} is missing"))?;
    }
    for entry in found() {
        let (id, by_blocks) = (entry.id, entry.flags != 0);
        ensure(expected.contains(&id), || format!("section {id:#x} is not called for"))?;
        ensure(by_blocks == (id == global::PAYLOADS), || format!("section {id:#x}: wrong flags"))?;
    }
    Ok(())
}

/// The documents are sorted as the schema declares.
fn order(part: &Partition) -> Result<()> {
    let mut keys = Vec::new();
    for key in &part.schema.order {
        let wrong = || Error::corrupt(format!("documents cannot be ordered by `{}`", key.field));
        let Some((i, field)) = part.schema.field(&key.field) else {
            ensure(part.schema.dynamic.is_some(), || wrong().message().to_string())?;
            continue; // No document has a value of it.
        };
        ensure(field.roles.sortable, || wrong().message().to_string())?;
        let column = part.column(i)?.ok_or_else(wrong)?;
        keys.push((column, part.meta(i).distinct, key.descending));
    }
    let rank = |doc| {
        keys.iter().map(move |(column, distinct, descending)| match column.get(doc) {
            ord if ord >= *distinct => u32::MAX, // no value: last
            ord if *descending => distinct - 1 - ord,
            ord => ord,
        })
    };
    let after = if keys.is_empty() { 0 } else { part.documents };
    for doc in 1..after {
        let descends = rank(doc - 1).gt(rank(doc));
        ensure(!descends, || format!("document {doc} is before its place in the order"))?;
    }
    Ok(())
}

/// Payload offsets and blocks are consistent, and every payload can be read.
fn payloads(part: &Partition) -> Result<()> {
    let section = |id| {
        let i = part.file.find(id).ok_or_else(|| Error::corrupt("a section is missing"))?;
        part.file.section(i)
    };
    let bounds = |what: &str, id, len: usize, last: u64| -> Result<Monotonic> {
        let sequence = Monotonic::new(section(id)?, len)?;
        sequence.verify().map_err(|e| within(what, e))?;
        let ends = (sequence.get(0), sequence.get(len - 1));
        ensure(ends == (0, last), || {
            format!("{what} go from {} to {}, not from 0 to {last}", ends.0, ends.1)
        })?;
        Ok(sequence)
    };
    let (data, checks) = (section(global::PAYLOADS)?, section(global::CHECKS)?);
    let (bytes, documents) = (data.len() as u64, part.documents);
    let offsets = Offsets::new(section(global::OFFSETS)?, documents as usize)?;
    offsets.verify().map_err(|e| within("payload offsets", e))?;
    ensure(offsets.start(0) == 0, || "the first payload does not begin at 0".into())?;
    if part.schema.payload == Payload::Raw {
        let end = offsets.start(documents as usize);
        ensure(end == bytes, || format!("payload offsets go to {end}, not to {bytes}"))?;
        let blocks = data.len().div_ceil(RAW_BLOCK);
        ensure(checks.len() == blocks * 8, || "payload checks have a wrong size".into())?;
        return (0..documents).try_for_each(|doc| part.payload(doc).map(|_| ()));
    }
    let blocks = checks.len() / 8;
    let firsts = bounds("block documents", global::BLOCK_DOCUMENTS, blocks + 1, documents.into())?;
    bounds("block offsets", global::BLOCK_OFFSETS, blocks + 1, bytes)?;
    // Reading the last document of a block decompresses and checks the whole block.
    (1..=blocks).try_for_each(|block| part.payload(firsts.get(block) as u32 - 1).map(|_| ()))
}
