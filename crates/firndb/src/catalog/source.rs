//! What is to be published: which files it consists of, and what it says of itself.

use super::format::VersionKind;
use super::publish::ATTEMPTS;
use crate::bytes::frozen::{Frozen, Kind, kind_of};
use crate::disk::{self, DiskRef, Entry};
use crate::search;
use crate::table::{Access, ApproximateTable, Table};
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A table or collection that stands under a path.
pub(super) struct Source {
    pub(super) kind: VersionKind,
    pub(super) schema: Option<String>,
    pub(super) statistics: BTreeMap<String, u64>,
    /// By ascending name.
    pub(super) files: Vec<SourceFile>,
}

pub(super) struct SourceFile {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) content: u128,
}

/// Looks at a table's file or at a collection's directory, or at those that a symbolic link leads
/// to. Reads the edges of files only.
pub(super) fn look(disk: &DiskRef, path: &Path) -> Result<Source> {
    // From here on this is what is read and published: a link that is given another target
    // meanwhile changes nothing.
    let real = disk::follow(&**disk, path)?;
    match disk.look(&real)? {
        Entry::Dir => collection(disk, &real),
        Entry::File(_) => table(disk, &real, path),
        // A pipe would be waited for, and a device may do anything.
        Entry::Link | Entry::Other => {
            let message = "this is neither a regular file nor a directory: publish a table's file \
                           or the directory of a collection";
            Err(Error::invalid(message).in_file(path))
        }
    }
}

fn collection(disk: &DiskRef, dir: &Path) -> Result<Source> {
    let mut attempt = 0;
    let (set, set_file) = loop {
        attempt += 1;
        let set = search::newest_set(disk, dir)?;
        let path = dir.join(set.file_name());
        match file(disk, &path, &path, Kind::PartitionSet) {
            // A newer one has replaced it meanwhile.
            Err(e) if e.kind() == ErrorKind::NotFound && attempt < ATTEMPTS => {}
            found => break (set, found?),
        }
    };
    let mut files = vec![set_file];
    for member in &set.members {
        files.push(SourceFile {
            name: member.file.clone(),
            path: disk::follow(&**disk, &dir.join(&member.file))?,
            bytes: member.bytes,
            content: member.content,
        });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let schema = set.reader.schema();
    let statistics = [
        ("partitions", set.members.len() as u64),
        ("documents", set.reader.len()),
        ("fields", schema.fields().len() as u64),
    ];
    Ok(Source {
        kind: VersionKind::Collection,
        schema: Some(schema.to_toml()),
        statistics: named(statistics),
        files,
    })
}

/// The table in the file `path`, which is published under the name of `called`.
fn table(disk: &DiskRef, path: &Path, called: &Path) -> Result<Source> {
    let (code, _) = kind_of(&disk.map(path)?).map_err(|e| e.in_file(path))?;
    match Kind::from_code(code) {
        Some(Kind::Table) => {
            let table = Table::open_on(disk, path, Access::Map)?;
            let stats = table.stats();
            let statistics = [
                ("records", stats.records),
                ("key_bytes", stats.key_bytes),
                ("value_bytes", stats.value_bytes),
            ];
            Ok(Source {
                kind: VersionKind::Table,
                schema: Some(table.value_schema()?.to_string()).filter(|text| !text.is_empty()),
                statistics: named(statistics),
                files: vec![file(disk, path, called, Kind::Table)?],
            })
        }
        Some(Kind::ApproximateTable) => {
            let stats = ApproximateTable::open_on(disk, path, Access::Map)?.stats();
            let statistics = [
                ("records", stats.records),
                ("value_width", stats.value_width),
                ("fingerprint_bits", u64::from(stats.fingerprint_bits)),
            ];
            Ok(Source {
                kind: VersionKind::ApproximateTable,
                schema: None,
                statistics: named(statistics),
                files: vec![file(disk, path, called, Kind::ApproximateTable)?],
            })
        }
        kind => {
            let what = kind.map_or("file of an unknown kind", Kind::name);
            let message = format!(
                "this is a {what}: publish a table's file or the directory of a collection"
            );
            Err(Error::invalid(message).in_file(path))
        }
    }
}

fn named<const N: usize>(pairs: [(&str, u64); N]) -> BTreeMap<String, u64> {
    pairs.map(|(name, n)| (name.to_string(), n)).into()
}

fn file(disk: &DiskRef, path: &Path, called: &Path, kind: Kind) -> Result<SourceFile> {
    let name = called.file_name().and_then(|name| name.to_str());
    let name = name.filter(|name| !name.starts_with('.')).ok_or_else(|| {
        Error::invalid("the file's name must be UTF-8, and not begin with a dot").in_file(called)
    })?;
    let frozen = Frozen::open(disk.map(path)?, path, kind)?;
    Ok(SourceFile {
        name: name.to_string(),
        path: path.to_path_buf(),
        bytes: frozen.len(),
        content: frozen.content(),
    })
}

impl SourceFile {
    /// Checks every byte of the file, and gives the BLAKE3 of them: 64 hexadecimal digits.
    pub(super) fn fingerprint(&self, disk: &DiskRef) -> Result<String> {
        let map = disk.map(&self.path)?;
        let (code, _) = kind_of(&map).map_err(|e| e.in_file(&self.path))?;
        let kind = Kind::from_code(code).ok_or_else(|| self.replaced())?;
        let frozen = Frozen::open(map.clone(), &self.path, kind)?;
        if (frozen.len(), frozen.content()) != (self.bytes, self.content) {
            return Err(self.replaced());
        }
        frozen.verify()?;
        Ok(blake3::hash(&map).to_hex().to_string())
    }

    /// The error of a file whose name was given to another one meanwhile.
    fn replaced(&self) -> Error {
        Error::new(ErrorKind::NotFound, "the file was replaced meanwhile").in_file(&self.path)
    }
}
