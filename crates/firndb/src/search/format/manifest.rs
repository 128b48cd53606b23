//! The set file of a collection: the list of partition files of one version.
//!
//! A set is a frozen file of kind 2 named `set-<20 digits>.firn`. The one with the highest number
//! is current. Numbers increase by 1, and a set file never changes: publishing the next one commits
//! a change. Section 1 holds:
//! ```text
//! u32 partitions; each: name, file name (u32 length and bytes each), u32 documents, u64 bytes,
//!                       u64 + u64 content id of the partition file, low half first
//! ```
//! If no partitions are left, section 2 holds the schema that they had, encoded as in
//! `format/mod.rs`; otherwise readers take the schema from the partitions. Section 3 exists if any
//! partition has a [`Relation`] to others (see `collection/relations.rs`):
//! ```text
//! for each such partition, ascending: u32 index in section 1, counted from 0;
//!     bytes name that it continues, empty if none; u32 names merged into it; each: bytes name
//! ```

use crate::bytes::int::{Decoder, Encoder};
use crate::disk::envelope::{Envelope, EnvelopeWriter, Kind};
use crate::disk::{self, Disk};
use crate::search::format::{decode_schema, encode_schema};
use crate::search::model::schema::Schema;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a partition is related to other partition names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Relation {
    /// The name that the partition continues; empty if it continues none.
    pub(crate) of: String,
    /// The other names whose documents were merged into the partition, ascending.
    pub(crate) merged: Vec<String>,
}

/// The entry of a partition in a set file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) documents: u32,
    pub(crate) bytes: u64,
    pub(crate) content: u128,
    pub(crate) relation: Relation,
}

const MEMBERS: u32 = 1;
const SCHEMA: u32 = 2;
const RELATIONS: u32 = 3;
const PREFIX: &str = "set-";
const SUFFIX: &str = ".firn";

/// The file name of set number `n`.
pub(crate) fn file_name(n: u64) -> String {
    format!("{PREFIX}{n:020}{SUFFIX}")
}

/// The number in the name of a set file; `None` for any other name.
pub(crate) fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

/// Publishes set number `n` and returns its content id. `schema` is stored only if there are no
/// members. `before` is called with the content id before the file gets its name; if it fails,
/// nothing is published.
pub(crate) fn publish(
    disk: &dyn Disk,
    (dir, n): (&Path, u64),
    members: &[Arc<Member>],
    schema: &Schema,
    before: impl FnOnce(u128) -> Result<()>,
) -> Result<u128> {
    let mut out = Encoder::default();
    out.u32(members.len() as u32);
    for m in members {
        out.bytes(m.name.as_bytes());
        out.bytes(m.file.as_bytes());
        out.u32(m.documents);
        out.u64(m.bytes);
        out.u64(m.content as u64);
        out.u64((m.content >> 64) as u64);
    }
    disk::publish(disk, &dir.join(file_name(n)), |append| {
        let mut w = EnvelopeWriter::new(append, Kind::PartitionSet)?;
        w.section(MEMBERS, &out.0)?;
        if members.is_empty() && !schema.fields.is_empty() {
            let mut out = Encoder::default();
            encode_schema(schema, &mut out);
            w.section(SCHEMA, &out.0)?;
        }
        let relations = encode_relations(members);
        if !relations.is_empty() {
            w.section(RELATIONS, &relations)?;
        }
        let content = w.finish()?;
        before(content)?;
        Ok(content)
    })
}

fn encode_relations(members: &[Arc<Member>]) -> Vec<u8> {
    let mut out = Encoder::default();
    for (i, m) in members.iter().enumerate().filter(|(_, m)| m.relation != Relation::default()) {
        out.u32(i as u32);
        out.bytes(m.relation.of.as_bytes());
        out.u32(m.relation.merged.len() as u32);
        m.relation.merged.iter().for_each(|name| out.bytes(name.as_bytes()));
    }
    out.0
}

/// The relations by index of the partition.
fn decode_relations(file: &Envelope) -> Result<BTreeMap<u32, Relation>> {
    let mut relations = BTreeMap::new();
    let Some(section) = file.find(RELATIONS) else { return Ok(relations) };
    let mut from = Decoder::new(file.section(section)?);
    while !from.is_at_end() {
        let (i, of) = (from.u32()?, text(from.bytes()?)?);
        let mut merged = Vec::new();
        for _ in 0..from.u32()? {
            merged.push(text(from.bytes()?)?);
        }
        let ascending = merged.is_sorted_by(|a, b| a < b);
        let is_last = relations.last_key_value().is_none_or(|(last, _)| *last < i);
        if !ascending || !is_last || (of.is_empty() && merged.is_empty()) {
            return Err(Error::corrupt(format!("the relations of partition {i} are impossible")));
        }
        relations.insert(i, Relation { of, merged });
    }
    Ok(relations)
}

/// Reads the members of a set file, sorted by name. Members that are also in `before`, which is
/// sorted by name, are shared with it.
pub(crate) fn read(
    disk: &dyn Disk,
    path: &Path,
    before: &[Arc<Member>],
) -> Result<Vec<Arc<Member>>> {
    read_whole(disk, path, before).map(|set| set.members)
}

/// The contents of a set file.
pub(crate) struct SetFile {
    /// Sorted by name.
    pub(crate) members: Vec<Arc<Member>>,
    /// The schema in section 2; without fields if there is no such section.
    pub(crate) schema: Schema,
    pub(crate) content: u128,
}

/// The content id of a set file.
pub(crate) fn content(disk: &dyn Disk, path: &Path) -> Result<u128> {
    Ok(Envelope::open(disk.map(path)?, path, Kind::PartitionSet)?.content())
}

/// Reads all of a set file and checks its checksums; see [`read`] for `before`.
pub(crate) fn read_whole(disk: &dyn Disk, path: &Path, before: &[Arc<Member>]) -> Result<SetFile> {
    let file = Envelope::open(disk.map(path)?, path, Kind::PartitionSet)?;
    file.verify()?;
    let members = decode(&file, before).map_err(|e| e.in_file(path))?;
    let schema = decode_schema_section(&file).map_err(|e| e.in_file(path))?;
    Ok(SetFile { members, schema, content: file.content() })
}

/// The schema in section 2 of a set file; one without fields if there is no such section.
pub(crate) fn decode_schema_section(file: &Envelope) -> Result<Schema> {
    let Some(section) = file.find(SCHEMA) else { return Ok(Schema::default()) };
    let mut from = Decoder::new(file.section(section)?);
    let mut schema = decode_schema(&mut from)?;
    from.finish()?;
    let order = std::mem::take(&mut schema.order);
    schema.order_by(order).map_err(|e| Error::corrupt(e.message()))
}

/// Decodes the members of a set file; see [`read`] for `before`.
pub(crate) fn decode(file: &Envelope, mut before: &[Arc<Member>]) -> Result<Vec<Arc<Member>>> {
    let section = file.find(MEMBERS).ok_or_else(|| Error::corrupt("the set has no members"))?;
    let mut from = Decoder::new(file.section(section)?);
    let mut members: Vec<Arc<Member>> = Vec::with_capacity(before.len());
    let mut relations = decode_relations(file)?;
    for i in 0..from.u32()? {
        let (name, file) = (from.bytes()?, from.bytes()?);
        let (documents, bytes) = (from.u32()?, from.u64()?);
        let content = u128::from(from.u64()?) | u128::from(from.u64()?) << 64;
        let relation = relations.remove(&i).unwrap_or_default();
        while before.first().is_some_and(|old| old.name.as_bytes() < name) {
            before = &before[1..];
        }
        let member = match before.first() {
            Some(old)
                if old.is(name, file, documents, bytes, content) && old.relation == relation =>
            {
                old.clone()
            }
            _ => {
                let (name, file) = (text(name)?, text(file)?);
                Arc::new(Member { name, file, documents, bytes, content, relation })
            }
        };
        // A corrupt name must not lead out of the directory.
        let plain =
            Path::new(&member.file).components().count() == 1 && !member.file.starts_with('.');
        if !plain || members.last().is_some_and(|last| last.name >= member.name) {
            return Err(Error::corrupt(format!(
                "partition `{}` of the set is impossible",
                member.name
            )));
        }
        members.push(member);
    }
    from.finish()?;
    match relations.is_empty() {
        true => Ok(members),
        false => Err(Error::corrupt("there are relations of partitions that are not there")),
    }
}

fn text(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Error::corrupt("a name is not valid UTF-8"))
}

impl Member {
    fn is(&self, name: &[u8], file: &[u8], documents: u32, bytes: u64, content: u128) -> bool {
        (self.documents, self.bytes, self.content) == (documents, bytes, content)
            && self.name.as_bytes() == name
            && self.file.as_bytes() == file
    }
}

/// The numbers of all set files in a directory, ascending.
pub(crate) fn numbers(disk: &dyn Disk, dir: &Path) -> Result<Vec<u64>> {
    let mut numbers: Vec<u64> = disk.list(dir)?.iter().filter_map(|name| number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The path of a member's file.
pub(crate) fn path(dir: &Path, member: &Member) -> PathBuf {
    dir.join(&member.file)
}
