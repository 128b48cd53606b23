//! Verify: checks every byte of a store, and what checksums cannot cover.

use crate::bytes::inspection::Verification;
use crate::disk::envelope::{Envelope, Kind as FileKind};
use crate::log::admin::verify_order::verify_order;
use crate::log::format::names::{BACKUP, CHECKPOINT, DURABLE_END, hint_number};
use crate::log::format::record::Kind;
use crate::log::open::store::LogStore;
use crate::log::open::unfinished_backup::store_files;
use crate::log::state::directory::Directory;
use crate::{Error, ErrorKind, Result};

/// Verifies a store: see `LogStore::verify`.
pub(crate) fn verify(store: &LogStore) -> Result<Verification> {
    let shared = store.shared();
    let snapshot = store.snapshot();
    let keys = store.len();
    let mut report = Verification::default();
    // Records that the index points to: one per key.
    let mut live = 0;
    for segment in shared.segments() {
        report.files += 1;
        for item in segment.records(&segment.contents()?) {
            let (offset, record, length) = item?;
            report.records += u64::from(matches!(record.kind, Kind::Put | Kind::Delete));
            report.bytes += length;
            let hash = shared.lookup.hash(record.key);
            if record.kind == Kind::Put && shared.lookup.holds(hash, segment.location(offset)) {
                live += 1;
            }
        }
    }
    let is_quiet = snapshot.view.is_unchanged() && store.len() == keys;
    if is_quiet && live != keys {
        let message = format!("{live} live records, {keys} keys in the index");
        return Err(Error::corrupt(message).in_file(&shared.dir.path));
    }
    verify_order(&snapshot, &mut report)?;
    verify_other_files(&shared.dir)?;
    Ok(report)
}

/// Checks the files that make openings short and safe. An opening ignores a damaged one, and the
/// next close writes it again.
fn verify_other_files(dir: &Directory) -> Result<()> {
    let disk = &*dir.disk;
    for name in store_files(disk, &dir.path, disk.list(&dir.path)?, true)? {
        let kind = match name.as_str() {
            DURABLE_END => FileKind::LogEnd,
            CHECKPOINT => FileKind::LogCheckpoint,
            BACKUP => FileKind::LogBackup,
            name if hint_number(name).is_some() => FileKind::LogHint,
            _ => continue,
        };
        let path = dir.file(&name);
        let checked = disk.map(&path).and_then(|map| Envelope::open(map, &path, kind)?.verify());
        match checked {
            // A writer removed it meanwhile.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e.in_file(&path)),
            Ok(()) => {}
        }
    }
    Ok(())
}
