//! The source of a publication: the files of a table or collection, and facts about them.

use super::format::{Version, VersionKind};
use crate::disk::envelope::{Envelope, Kind, kind_of};
use crate::disk::{self, DiskRef, Entry};
use crate::search;
use crate::table::sharded::{
    check_shard_files, is_shard_file, misplaced, misplaced_message, shard_file,
};
use crate::table::{Access, ApproximateTable, ShardedTable, Table};
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Attempts to read or publish a collection that is changed concurrently.
pub(super) const ATTEMPTS: u32 = 16;

/// The statistics of a table, which are added up for a sharded table.
pub(super) const SHARD_STATISTICS: [&str; 3] = ["records", "key_bytes", "value_bytes"];

/// A table, sharded table or collection that is to be published.
pub(super) struct Source {
    pub(super) kind: VersionKind,
    pub(super) schema: Option<String>,
    pub(super) statistics: BTreeMap<String, u64>,
    /// Ordered by name.
    pub(super) files: Vec<SourceFile>,
}

pub(super) struct SourceFile {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) content: u128,
}

/// Examines the file of a table, or the directory of a collection or sharded table, following
/// symbolic links. Reads only headers, footers and metadata.
pub(super) fn examine(disk: &DiskRef, path: &Path) -> Result<Source> {
    // Resolved once, so that a link that changes during the publication has no effect.
    let real = disk::follow(&**disk, path)?;
    match disk.look(&real)? {
        Entry::Dir => match shard_files(disk, &real)? {
            0 => collection(disk, &real),
            shards => sharded(disk, &real, shards),
        },
        Entry::File(_) => table(disk, &real, path),
        // Reading a pipe could block, and reading a device could have side effects.
        Entry::Link | Entry::Other => {
            let message = "this is neither a regular file nor a directory: publish a table's file \
                           or the directory of a collection or sharded table";
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
            // A newer set has replaced it.
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

/// The number of shards of the sharded table in a directory; 0 if it is not one.
fn shard_files(disk: &DiskRef, dir: &Path) -> Result<usize> {
    let mut names = [disk.list(dir)?, disk.list_others(dir)?].concat();
    let is_set = |name: &String| search::set_number(name).is_some();
    if !names.iter().any(|name| is_shard_file(name)) || names.iter().any(is_set) {
        return Ok(0);
    }
    names.extend(disk.list_dirs(dir)?);
    check_shard_files(&mut names).map_err(|e| e.in_file(dir))?;
    Ok(names.len())
}

fn sharded(disk: &DiskRef, dir: &Path, shards: usize) -> Result<Source> {
    let (mut paths, mut files) = (Vec::new(), Vec::new());
    for shard in 0..shards {
        let link = dir.join(shard_file(shard));
        let path = disk::follow(&**disk, &link)?;
        if !matches!(disk.look(&path)?, Entry::File(_)) {
            return Err(Error::invalid("this is not a regular file").in_file(&path));
        }
        files.push(file(disk, &path, &link, Kind::Table)?);
        paths.push(path);
    }
    let table = ShardedTable::open_on(disk, &paths, Access::Map)?;
    let stats = table.stats();
    let [records, keys, values] = SHARD_STATISTICS;
    let statistics = [
        ("shards", stats.shards),
        (records, stats.records),
        (keys, stats.key_bytes),
        (values, stats.value_bytes),
    ];
    Ok(Source {
        kind: VersionKind::ShardedTable,
        schema: Some(table.value_schema()?.to_string()).filter(|text| !text.is_empty()),
        statistics: named(statistics),
        files,
    })
}

/// The table in the file `path`, which is published under the file name of `link`.
fn table(disk: &DiskRef, path: &Path, link: &Path) -> Result<Source> {
    let (code, _) = kind_of(&disk.map(path)?).map_err(|e| e.in_file(path))?;
    match Kind::from_code(code) {
        Some(Kind::Table) => {
            let table = Table::open_on(disk, path, Access::Map)?;
            let stats = table.stats();
            let [records, keys, values] = SHARD_STATISTICS;
            let statistics =
                [(records, stats.records), (keys, stats.key_bytes), (values, stats.value_bytes)];
            Ok(Source {
                kind: VersionKind::Table,
                schema: Some(table.value_schema()?.to_string()).filter(|text| !text.is_empty()),
                statistics: named(statistics),
                files: vec![file(disk, path, link, Kind::Table)?],
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
                files: vec![file(disk, path, link, Kind::ApproximateTable)?],
            })
        }
        kind => {
            let what = kind.map_or("file of an unknown kind", Kind::name);
            let message = format!(
                "this is a {what}: publish a table's file, or the directory of a collection or \
                 sharded table"
            );
            Err(Error::invalid(message).in_file(path))
        }
    }
}

fn named<const N: usize>(pairs: [(&str, u64); N]) -> BTreeMap<String, u64> {
    pairs.map(|(name, n)| (name.to_string(), n)).into()
}

fn file(disk: &DiskRef, path: &Path, link: &Path, kind: Kind) -> Result<SourceFile> {
    let name = link.file_name().and_then(|name| name.to_str());
    let name = name.filter(|name| !name.starts_with('.')).ok_or_else(|| {
        Error::invalid("the file's name must be UTF-8, and not begin with a dot").in_file(link)
    })?;
    let frozen = Envelope::open(disk.map(path)?, path, kind)?;
    Ok(SourceFile {
        name: name.to_string(),
        path: path.to_path_buf(),
        bytes: frozen.len(),
        content: frozen.content(),
    })
}

impl Source {
    /// Checks that the keys of a sharded table are in their shards. Reads the shards that the
    /// parent version, whose keys were checked, does not have at the same position.
    pub(super) fn check_shards(&self, disk: &DiskRef, parent: Option<&Version>) -> Result<()> {
        if self.kind != VersionKind::ShardedTable {
            return Ok(());
        }
        let shards = self.files.len();
        let parent = parent.filter(|v| v.kind == self.kind && v.files.len() == shards);
        for (shard, file) in self.files.iter().enumerate() {
            let known = parent.map(|parent| &parent.files[shard]);
            if known.is_some_and(|known| known.content == format!("{:032x}", file.content)) {
                continue;
            }
            let table = Table::open_on(disk, &file.path, Access::Map)?;
            file.check_content(table.reader.file.content())?;
            if let Some(key) = misplaced(&table, shard, shards)? {
                let message = misplaced_message(&key, shard, shards);
                return Err(Error::invalid(message).in_file(&file.path));
            }
        }
        Ok(())
    }
}

impl SourceFile {
    /// `NotFound` unless this is the content id of the file: it was replaced by another one.
    pub(super) fn check_content(&self, content: u128) -> Result<()> {
        if content == self.content { Ok(()) } else { Err(self.replaced()) }
    }

    /// Verifies every byte of the file, and returns its BLAKE3 as 64 hexadecimal digits.
    pub(super) fn hash_checked(&self, disk: &DiskRef) -> Result<String> {
        let map = disk.map(&self.path)?;
        let (code, _) = kind_of(&map).map_err(|e| e.in_file(&self.path))?;
        let kind = Kind::from_code(code).ok_or_else(|| self.replaced())?;
        let frozen = Envelope::open(map.clone(), &self.path, kind)?;
        if (frozen.len(), frozen.content()) != (self.bytes, self.content) {
            return Err(self.replaced());
        }
        frozen.verify()?;
        Ok(blake3::hash(&map).to_hex().to_string())
    }

    /// The error of a file that was replaced by another one of the same name.
    fn replaced(&self) -> Error {
        Error::new(ErrorKind::NotFound, "the file was replaced meanwhile").in_file(&self.path)
    }
}
