//! Looks into frozen files of any kind and into logs: what `firn inspect` and `firn verify` show.

use crate::bytes::frozen::{Frozen, Kind, begins_frozen, kind_of};
use crate::disk;
use crate::indexer;
use crate::log::internal as log;
use crate::search::internal;
use crate::table::{self, Access, ApproximateTable, Table};
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a frozen file, or a log store, is and what is in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inspection {
    /// Kind of the file: `partition`, `partition set`, `table`, `approximate table`, `log segment`;
    /// of a directory `log store`.
    pub kind: String,
    /// Format version of the kind.
    pub version: u32,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Content id, 32 hexadecimal digits: equal content, equal id. Empty for a log, which changes.
    pub content: String,
    /// Facts about the whole file: names and values.
    pub facts: Vec<(String, String)>,
    /// Fields of a partition, partitions of a set, or segments of a log.
    pub items: Vec<InspectedItem>,
    /// The sections of the file.
    pub sections: Vec<InspectedSection>,
}

/// A field of a partition, a partition of a set, or a segment of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InspectedItem {
    /// Name of the field, partition or segment.
    pub name: String,
    /// Bytes it takes.
    pub bytes: u64,
    /// What it is: for a field its type, its roles and the structures chosen for it.
    pub facts: Vec<(String, String)>,
}

/// A section of a frozen file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InspectedSection {
    /// What it holds.
    pub name: String,
    /// Where it begins.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Describes a frozen file or the segment of a log, of which it reads edges and small metadata
/// only, or the log store in a directory, which it opens for reading.
pub fn inspect(path: impl AsRef<Path>) -> Result<Inspection> {
    let path = path.as_ref();
    if log::is_store(path) {
        return log::describe(path);
    }
    if log::is_segment(path) {
        return log::describe_segment(path);
    }
    let (file, kind) = open(path)?;
    let mut seen = Inspection {
        kind: kind.name().to_string(),
        version: kind.version(),
        bytes: file.len(),
        content: format!("{:032x}", file.content()),
        ..Inspection::default()
    };
    let described = match kind {
        Kind::Partition => internal::describe_partition(&file, &mut seen),
        Kind::PartitionSet => internal::describe_set(&file, &mut seen),
        Kind::Table => table::admin::inspect::describe(path, &mut seen),
        // Sections alone: what they mean depends on the segments beside them.
        Kind::LogHint | Kind::LogCheckpoint | Kind::LogEnd | Kind::LogBackup => Ok(()),
        Kind::ApproximateTable => table::admin::inspect::describe_approximate(path, &mut seen),
    };
    described.map_err(|e| e.in_file(path))?;
    Ok(seen)
}

/// What a file or a directory is, if it is one of FirnDB's: for a file the kind that its first
/// bytes give, however damaged the rest is (such as `table` or `log segment`; `file of a newer
/// release` if the kind is unknown), for a directory `log store`, `collection` or `index`. Nothing
/// else is read, so this says what must not be overwritten and not whether it can be used.
pub fn recognize(path: impl AsRef<Path>) -> Result<Option<&'static str>> {
    let path = path.as_ref();
    if path.is_dir() {
        return recognize_dir(path);
    }
    let file = disk::os().open(path)?;
    let mut head = vec![0; (file.len()? as usize).min(16)];
    file.read_at(0, &mut head)?;
    if log::begins_segment(&head) {
        return Ok(Some("log segment"));
    }
    let kind = begins_frozen(&head);
    Ok(kind.map(|code| Kind::from_code(code).map_or("file of a newer release", Kind::name)))
}

fn recognize_dir(dir: &Path) -> Result<Option<&'static str>> {
    if log::is_store(dir) {
        return Ok(Some("log store"));
    }
    let is_collection = |dir: &Path| match internal::newest_set(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        set => set.map(|set| set.is_some()),
    };
    if is_collection(dir)? {
        return Ok(Some("collection"));
    }
    let [records, collection] = [indexer::LOG, indexer::COLLECTION].map(|name| dir.join(name));
    let is_index = log::is_store(&records) && is_collection(&collection)?;
    Ok(is_index.then_some("index"))
}

/// What was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Files that are whole.
    pub files: u64,
    /// Their bytes, every one of which was checked.
    pub bytes: u64,
}

/// Checks every byte of a partition, a set, or a table of either kind, of the current set of a
/// collection and all its partitions, of a log store, or of an index (its log and its collection),
/// and what checksums cannot say: that the structures of each file, and the files of a set, agree.
/// `progress` is told of each file that was checked.
///
/// A collection may be changed meanwhile: if a file is gone because a newer set was published, that
/// set is checked, and of it only what was not checked before. `NotFound` if it was overtaken 64
/// times.
pub fn verify(
    path: impl AsRef<Path>,
    mut progress: impl FnMut(&Path, u64),
) -> Result<VerifyReport> {
    verify_any(path.as_ref(), &mut progress)
}

fn verify_any(path: &Path, progress: &mut dyn FnMut(&Path, u64)) -> Result<VerifyReport> {
    if log::is_store(path) {
        let checked = log::open_to_read(path)?.verify()?;
        progress(path, checked.bytes);
        return Ok(VerifyReport { files: checked.segments, bytes: checked.bytes });
    }
    if log::is_segment(path) {
        let message = "a segment of a log store, which is verified as a whole: name its directory";
        return Err(Error::invalid(message).in_file(path));
    }
    let parts = [indexer::LOG, indexer::COLLECTION].map(|name| path.join(name));
    if log::is_store(&parts[0]) && internal::newest_set(&parts[1])?.is_some() {
        let mut report = VerifyReport::default();
        for part in &parts {
            let VerifyReport { files, bytes } = verify_any(part, progress)?;
            report.files += files;
            report.bytes += bytes;
        }
        return Ok(report);
    }
    // Published files never change: what was checked once need not be again.
    let mut checked: BTreeMap<PathBuf, u64> = BTreeMap::new();
    let mut check = |path: &Path| -> Result<()> {
        if checked.contains_key(path) {
            return Ok(());
        }
        let (file, kind) = open(path)?;
        match kind {
            Kind::Partition => internal::verify_partition(path)?,
            Kind::PartitionSet => internal::verify_members(&file, path)?,
            Kind::Table => Table::open(path, Access::Map)?.verify()?,
            Kind::LogHint | Kind::LogCheckpoint | Kind::LogEnd | Kind::LogBackup => {
                file.verify()?
            }
            Kind::ApproximateTable => ApproximateTable::open(path, Access::Map)?.verify()?,
        }
        checked.insert(path.to_path_buf(), file.len());
        progress(path, file.len());
        Ok(())
    };
    let mut attempts = 0;
    let files = loop {
        attempts += 1;
        let Some(set) = internal::newest_set(path)? else {
            check(path)?;
            break vec![path.to_path_buf()];
        };
        match verify_set(path, &set, &mut check) {
            Err(e) if e.kind() == ErrorKind::NotFound && attempts < ATTEMPTS => {
                // Nothing newer: the file is missing, not replaced.
                if internal::newest_set(path)?.as_ref() == Some(&set) {
                    return Err(e);
                }
            }
            done => break done?,
        }
    };
    let bytes = files.iter().filter_map(|file| checked.get(file)).sum();
    Ok(VerifyReport { files: files.len() as u64, bytes })
}

/// How often a collection may be changed while it is checked.
const ATTEMPTS: u32 = 64;

/// Checks a set of a collection, and gives its files.
fn verify_set(
    dir: &Path,
    set: &Path,
    mut check: impl FnMut(&Path) -> Result<()>,
) -> Result<Vec<PathBuf>> {
    let files = internal::files_of_set(dir, set)?;
    files.iter().try_for_each(|file| check(file))?;
    internal::verify_set(dir, set)?;
    Ok(files)
}

fn open(path: &Path) -> Result<(Frozen, Kind)> {
    let map = disk::os().map(path)?;
    let (code, version) = kind_of(&map).map_err(|e| e.in_file(path))?;
    let kind = Kind::from_code(code).ok_or_else(|| {
        let message = format!("a file of kind {code}, version {version}; use a newer release");
        Error::new(ErrorKind::UnsupportedVersion, message).in_file(path)
    })?;
    Ok((Frozen::open(map, path, kind)?, kind))
}
