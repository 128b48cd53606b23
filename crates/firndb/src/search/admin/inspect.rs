//! Describes and verifies partitions and partition sets, for the crate's `inspect` module.

use crate::bytes::inspection::{InspectedItem, InspectedSection, Inspection};
use crate::bytes::int::u32_at;
use crate::disk;
use crate::disk::envelope::Envelope;
use crate::search::codec::postings::build::{IN_COLUMN, SPECIAL_FORM};
use crate::search::codec::slices::ELIAS_FANO;
use crate::search::format::manifest;
use crate::search::format::{FieldMeta, Ordered, decode_meta, global, part, section};
use crate::search::model::schema::{Field, Payload, Roles};
use crate::search::partition::Partition;
use crate::search::partition::verify;
use crate::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Adds the members, facts and sections of a partition set to `seen`.
pub(crate) fn describe_set(file: &Envelope, seen: &mut Inspection) -> Result<()> {
    for member in manifest::decode(file, &[])? {
        let mut facts = vec![
            ("file".to_string(), member.file.clone()),
            ("documents".to_string(), member.documents.to_string()),
        ];
        if !member.relation.of.is_empty() {
            facts.push(("continues".to_string(), member.relation.of.clone()));
        }
        if !member.relation.merged.is_empty() {
            facts.push(("merged from".to_string(), member.relation.merged.join(", ")));
        }
        seen.items.push(InspectedItem { name: member.name.clone(), bytes: member.bytes, facts });
    }
    let partitions = seen.items.len().to_string();
    seen.facts.push(("partitions".to_string(), partitions));
    let schema = manifest::decode_schema_section(file)?;
    if !schema.fields.is_empty() {
        let fields: Vec<&str> = schema.fields.iter().map(|field| &*field.name).collect();
        seen.facts.push(("fields of the partitions that were here".into(), fields.join(", ")));
    }
    for i in 0..file.entries() {
        let entry = file.entry(i);
        let name = ["?", "members", "schema", "relations"]
            .get(entry.id as usize)
            .unwrap_or(&"?")
            .to_string();
        seen.sections.push(InspectedSection { name, offset: entry.offset, bytes: entry.len });
    }
    Ok(())
}

/// Adds the fields, facts and sections of a partition to `seen`.
pub(crate) fn describe_partition(file: &Envelope, seen: &mut Inspection) -> Result<()> {
    let meta = file.find(global::META).ok_or_else(|| Error::corrupt("no meta section"))?;
    let (documents, schema, metas) = decode_meta(file.section(meta)?)?;
    let payload = match schema.payload {
        Payload::Raw => "raw".to_string(),
        Payload::Zstd { level, dictionary } => {
            format!("zstd level {level}{}", if dictionary { " with a dictionary" } else { "" })
        }
    };
    let order: Vec<String> = schema.order.iter().map(ToString::to_string).collect();
    let size = |id: u32| file.find(id).map_or(0, |i| file.entry(i).len);
    for (name, value) in [
        ("documents", documents.to_string()),
        ("fields", schema.fields.len().to_string()),
        ("document order", if order.is_empty() { "as added".into() } else { order.join(", ") }),
        ("payload", payload),
        ("payload bytes in the file", size(global::PAYLOADS).to_string()),
    ] {
        seen.facts.push((name.to_string(), value));
    }
    for (i, (field, meta)) in schema.fields.iter().zip(&metas).enumerate() {
        let parts: Vec<(u32, u64)> = (1..16).map(|p| (p, size(section(i, p)))).collect();
        let bytes = parts.iter().map(|(_, bytes)| bytes).sum();
        let pair = schema.points().find(|pair| pair.contains(&field.name.as_str()));
        let other = pair.map_or("", |[a, b]| if a == field.name { b } else { a });
        let special_forms = file.find(section(i, part::SPECIAL_FORMS));
        let special_forms = special_forms.map_or(Ok(&[][..]), |at| file.section(at)).ok();
        let facts = describe_field(field, meta, &parts, (special_forms, other));
        seen.items.push(InspectedItem { name: field.name.clone(), bytes, facts });
    }
    for i in 0..file.entries() {
        let entry = file.entry(i);
        let (owner, part) = (entry.id >> 8, (entry.id & 0xFF) as usize);
        let name = match owner {
            0 => global::NAMES.get(part).unwrap_or(&"?").to_string(),
            n => {
                let field = schema.fields.get(n as usize - 1).map_or("?", |f| &f.name);
                format!("{field}: {}", part::NAMES.get(part).unwrap_or(&"?"))
            }
        };
        seen.sections.push(InspectedSection { name, offset: entry.offset, bytes: entry.len });
    }
    Ok(())
}

/// The facts about a field. `special_forms` is `None` if that section is damaged; `other` is the
/// field that forms points with this one, or empty.
fn describe_field(
    field: &Field,
    meta: &FieldMeta,
    parts: &[(u32, u64)],
    (special_forms, other): (Option<&[u8]>, &str),
) -> Vec<(String, String)> {
    let has = |part: u32| parts.iter().any(|(p, bytes)| *p == part && *bytes > 0);
    let mut chosen: Vec<String> = Vec::new();
    match meta.ordered {
        Ordered::Ascending => chosen.push("document order, ascending".to_string()),
        Ordered::Descending => chosen.push("document order, descending".to_string()),
        Ordered::No if meta.in_points => {
            let by = if meta.values().is_some() { ", by value" } else { "" };
            chosen.push(format!("points with {other}{by}"));
        }
        Ordered::No if has(part::SLICES) => {
            chosen.push(match meta.slice_bits {
                ELIAS_FANO => "divided slices".into(),
                bits => format!("slices of {bits} bits"),
            });
        }
        Ordered::No => {}
    }
    if meta.is_scanned() {
        chosen.push(format!("scans for {} values", meta.scanned.1 - meta.scanned.0));
    }
    if special_forms.is_none() {
        chosen.push("damaged special forms".into());
    }
    let forms = count_special_forms(special_forms.unwrap_or(&[]), meta.special_forms);
    for (count, form) in forms.into_iter().zip(["bitsets", "runs", "scans"]) {
        if count > 0 {
            chosen.push(format!("{form} for {count} values"));
        }
    }
    if let Some(bits) = meta.column_bits {
        chosen.push(format!("column of {bits} bits"));
    }
    let mut ty = field.ty.name().to_string();
    ty.push_str(if field.multi { ", several values" } else { "" });
    ty.push_str(if field.nullable { ", may be missing" } else { "" });
    [
        ("type", ty),
        ("roles", roles(field.roles)),
        ("distinct values", meta.distinct.to_string()),
        ("documents with a value", meta.present.to_string()),
        ("structures", chosen.join("; ")),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_string(), value))
    .collect()
}

/// The number of keys of a field that are stored as bitsets, as runs, and only in the column.
fn count_special_forms(special_forms: &[u8], count: u32) -> [u64; 3] {
    let mut forms = [0; 3];
    for entry in special_forms.chunks_exact(SPECIAL_FORM).take(count as usize) {
        forms[match u32_at(entry, 4) {
            0 => 0,
            IN_COLUMN => 2,
            _ => 1,
        }] += 1;
    }
    forms
}

/// The names of the roles, separated by spaces.
fn roles(roles: Roles) -> String {
    let named =
        [(roles.filterable, "filterable"), (roles.sortable, "sortable"), (roles.stored, "stored")];
    let names: Vec<&str> = named.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
    names.join(" ")
}

/// Verifies a partition: all checksums, then the consistency of its contents. Returns the number of
/// its documents.
pub(crate) fn verify_partition(path: &Path) -> Result<u64> {
    let partition = Partition::open(&*disk::os(), path, None)?;
    verify::partition(&partition)?;
    Ok(partition.documents.into())
}

/// Verifies a partition set: all checksums, then that its members and schema can be decoded. Does
/// not read the partitions.
pub(crate) fn verify_members(file: &Envelope, path: &Path) -> Result<()> {
    file.verify()?;
    let parts = manifest::decode(file, &[]).and_then(|_| manifest::decode_schema_section(file));
    parts.map(|_| ()).map_err(|e| e.in_file(path))
}

/// Verifies that the partition files of a set are the ones it lists, and that their schemas are
/// compatible. Does not read the data of the partitions.
pub(crate) fn verify_set(dir: &Path, set: &Path) -> Result<()> {
    let disk = disk::os();
    let members = manifest::read(&*disk, set, &[])?;
    verify::set(&*disk, dir, members.iter().map(|member| &**member))
}

/// The path of the newest set file of a collection; `None` if `path` is not a directory. Errors:
/// `NotFound` if the directory has no set file.
pub(crate) fn newest_set(path: &Path) -> Result<Option<PathBuf>> {
    let Ok(numbers) = manifest::numbers(&*disk::os(), path) else { return Ok(None) };
    let none = || Error::new(ErrorKind::NotFound, "there is no collection here").in_file(path);
    Ok(Some(path.join(manifest::file_name(*numbers.last().ok_or_else(none)?))))
}

/// The paths of a set file and of the partition files that it refers to.
pub(crate) fn files_of_set(dir: &Path, set: &Path) -> Result<Vec<PathBuf>> {
    let members = manifest::read(&*disk::os(), set, &[])?;
    let mut files = vec![set.to_path_buf()];
    files.extend(members.iter().map(|member| manifest::path(dir, member)));
    Ok(files)
}
