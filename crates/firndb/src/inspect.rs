//! Describes and verifies immutable files of any kind and log stores, for `firn inspect` and
//! `firn verify`.

pub use crate::bytes::inspection::{InspectedItem, InspectedSection, Inspection, Verification};
use crate::disk;
use crate::disk::envelope::{Envelope, Kind, kind_in_header, kind_of};
use crate::indexer;
use crate::log::internal as log;
use crate::search::admin::inspect;
use crate::table::{self, Access, ApproximateTable, Table};
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Describes an immutable file, a segment of a log, or the log store in a directory. Of files it
/// reads only header, footer and small metadata; a log store is opened for reading.
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
        version: file.version(),
        bytes: file.len(),
        content: format!("{:032x}", file.content()),
        ..Inspection::default()
    };
    let described = match kind {
        Kind::Partition => inspect::describe_partition(&file, &mut seen),
        Kind::PartitionSet => inspect::describe_set(&file, &mut seen),
        Kind::Table => table::admin::inspect::describe(path, &mut seen),
        // Only the sections: their meaning depends on the segments in the same directory.
        Kind::LogHint | Kind::LogCheckpoint | Kind::LogEnd | Kind::LogBackup | Kind::LogKeyRun => {
            Ok(())
        }
        Kind::ApproximateTable => table::admin::inspect::describe_approximate(path, &mut seen),
    };
    described.map_err(|e| e.in_file(path))?;
    Ok(seen)
}

/// The kind of a file or directory of FirnDB; `None` for anything else. For a file it is the kind
/// in its first bytes (such as `table` or `log segment`, or `file of a newer release` if the kind
/// is unknown), even if the rest is damaged; for a directory `log store`, `collection` or `index`.
/// Nothing else is read: the result says what must not be overwritten, not whether it is usable.
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
    let kind = kind_in_header(&head);
    Ok(kind.map(|code| Kind::from_code(code).map_or("file of a newer release", Kind::name)))
}

fn recognize_dir(dir: &Path) -> Result<Option<&'static str>> {
    if log::is_store(dir) {
        return Ok(Some("log store"));
    }
    let is_collection = |dir: &Path| match inspect::newest_set(dir) {
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

/// Checks every byte of a partition, a set, a table or an approximate table, of the current set of
/// a collection and all its partitions, of a log store, or of an index (its log and its
/// collection). Also checks what checksums cannot detect: that the structures of each file, and the
/// files of a set, are consistent. Calls `progress` with the path and length of each file that was
/// checked.
///
/// The collection may change meanwhile: if a file is missing because a newer set was published, the
/// new set is checked, except for the files that were already checked. Returns `NotFound` if that
/// happens 64 times.
///
/// ```no_run
/// let report = firndb::verify("offers", |path, bytes| {
///     println!("{}: {bytes} bytes", path.display());
/// })?;
/// println!("{report:?}");
/// # Ok::<(), firndb::Error>(())
/// ```
pub fn verify(
    path: impl AsRef<Path>,
    mut progress: impl FnMut(&Path, u64),
) -> Result<Verification> {
    verify_any(path.as_ref(), &mut progress)
}

fn verify_any(path: &Path, progress: &mut dyn FnMut(&Path, u64)) -> Result<Verification> {
    if log::is_store(path) {
        let checked = log::open_to_read(path)?.verify()?;
        progress(path, checked.bytes);
        return Ok(checked);
    }
    if log::is_segment(path) {
        let message = "a segment of a log store, which is verified as a whole: name its directory";
        return Err(Error::invalid(message).in_file(path));
    }
    let parts = [indexer::LOG, indexer::COLLECTION].map(|name| path.join(name));
    if log::is_store(&parts[0]) && inspect::newest_set(&parts[1])?.is_some() {
        let mut report = Verification::default();
        for part in &parts {
            report.add(verify_any(part, progress)?);
        }
        return Ok(report);
    }
    // Published files never change, so each is checked once.
    let mut checked: BTreeMap<PathBuf, Verification> = BTreeMap::new();
    let mut check = |path: &Path| -> Result<()> {
        if checked.contains_key(path) {
            return Ok(());
        }
        let (file, kind) = open(path)?;
        let records = match kind {
            Kind::Partition => inspect::verify_partition(path)?,
            Kind::PartitionSet => inspect::verify_members(&file, path).map(|()| 0)?,
            Kind::Table => Table::open_with(path, Access::Map)?.verify()?.records,
            Kind::LogHint
            | Kind::LogCheckpoint
            | Kind::LogEnd
            | Kind::LogBackup
            | Kind::LogKeyRun => file.verify().map(|()| 0)?,
            Kind::ApproximateTable => {
                ApproximateTable::open_with(path, Access::Map)?.verify()?.records
            }
        };
        let found = Verification { files: 1, bytes: file.len(), records };
        checked.insert(path.to_path_buf(), found);
        progress(path, file.len());
        Ok(())
    };
    let mut attempts = 0;
    let files = loop {
        attempts += 1;
        let Some(set) = inspect::newest_set(path)? else {
            check(path)?;
            break vec![path.to_path_buf()];
        };
        match verify_set(path, &set, &mut check) {
            Err(e) if e.kind() == ErrorKind::NotFound && attempts < ATTEMPTS => {
                // There is no newer set: the file is missing.
                if inspect::newest_set(path)?.as_ref() == Some(&set) {
                    return Err(e);
                }
            }
            done => break done?,
        }
    };
    let mut report = Verification::default();
    files.iter().filter_map(|file| checked.get(file)).for_each(|found| report.add(*found));
    Ok(report)
}

/// Number of sets to try while the collection changes.
const ATTEMPTS: u32 = 64;

/// Checks a set of a collection and returns its files.
fn verify_set(
    dir: &Path,
    set: &Path,
    mut check: impl FnMut(&Path) -> Result<()>,
) -> Result<Vec<PathBuf>> {
    let files = inspect::files_of_set(dir, set)?;
    files.iter().try_for_each(|file| check(file))?;
    inspect::verify_set(dir, set)?;
    Ok(files)
}

fn open(path: &Path) -> Result<(Envelope, Kind)> {
    let map = disk::os().map(path)?;
    let (code, version) = kind_of(&map).map_err(|e| e.in_file(path))?;
    let kind = Kind::from_code(code).ok_or_else(|| {
        let message = format!("a file of kind {code}, version {version}; use a newer release");
        Error::new(ErrorKind::UnsupportedVersion, message).in_file(path)
    })?;
    Ok((Envelope::open(map, path, kind)?, kind))
}
