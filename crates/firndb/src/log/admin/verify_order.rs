//! Verifies the order of an ordered store: its key runs and tails against its records.

use crate::bytes::inspection::Verification;
use crate::log::format::names::{key_run_file, key_run_segments};
use crate::log::format::record::Kind;
use crate::log::open::unfinished_backup::store_files;
use crate::log::read::snapshot::Snapshot;
use crate::log::segments::key_run_file::KeyRun;
use crate::log::segments::key_source::{Direction, KeySource};
use crate::log::state::key_order::Sources;
use crate::{Error, ErrorKind, Result};
use std::ops::Bound;
use std::sync::Arc;

/// Checks that the runs are intact, that every entry points at a put with its key, and that the
/// entries have every record that the snapshot shows, once. Adds the runs to the report.
pub(crate) fn verify_order(snapshot: &Snapshot, report: &mut Verification) -> Result<()> {
    let shared = &snapshot.shared;
    let Some(sources) = &snapshot.sources() else { return Ok(()) };
    let mut found = 0;
    for run in &sources.runs {
        run.verify()?;
        (report.files, report.bytes) = (report.files + 1, report.bytes + run.bytes());
        // Each record is in one source only, because runs do not overlap. Entries of a run are
        // distinct, because they are in order.
        let mut entries = run.seek(Bound::Unbounded, Direction::Forward)?;
        while entries.current().is_some() {
            let wrong = |message| Error::corrupt(message).at(entries.offset()).in_file(run.path());
            found += u64::from(check_entry(snapshot, sources, &entries, wrong)?);
            entries.advance()?;
        }
    }
    for tail in &sources.tails {
        for mut entries in tail.seek(Bound::Unbounded, Direction::Forward)? {
            while let Some(entry) = entries.current() {
                let offset = entry.offset << tail.segment.alignment_log2;
                let wrong =
                    |message| Error::corrupt(message).at(offset).in_file(&tail.segment.path);
                found += u64::from(check_entry(snapshot, sources, &entries, wrong)?);
                entries.advance()?;
            }
        }
    }
    let mut records = snapshot.iter();
    let mut shown = 0;
    while let Some(record) = records.next_with(|_, _| ()) {
        record?;
        shown += 1;
    }
    if found != shown {
        let message = format!("the key order has {found} records, the log has {shown}");
        return Err(Error::corrupt(message).in_file(&shared.dir.path));
    }
    verify_unused_runs(snapshot, &sources.runs)
}

/// Checks the current entry of a source. Returns whether the snapshot shows its record.
fn check_entry(
    snapshot: &Snapshot,
    sources: &Sources,
    source: &impl KeySource,
    wrong: impl Fn(&'static str) -> Error,
) -> Result<bool> {
    let Some(entry) = source.current() else { return Ok(false) };
    // The segments of other entries were removed, or their records are newer than the snapshot.
    let Some(location) = sources.location(&snapshot.view.segments, entry) else { return Ok(false) };
    let Some(segment) = snapshot.view.segment(location) else { return Ok(false) };
    let mut buffer = Vec::new();
    let offset = segment.offset(location);
    if offset >= segment.end() {
        return Err(wrong("an entry points past the last record of its segment"));
    }
    let (record, _) = segment.read(offset, &mut buffer)?;
    if record.kind != Kind::Put || record.key != entry.key {
        return Err(wrong("an entry points at a record that is not a put of its key"));
    }
    let is_shown = snapshot.shows(snapshot.shared.lookup.hash(entry.key), location);
    Ok(is_shown && !record.is_expired(snapshot.now))
}

/// Checks the runs that this handle does not use, because they are damaged or came later.
fn verify_unused_runs(snapshot: &Snapshot, used: &[Arc<KeyRun>]) -> Result<()> {
    let shared = &snapshot.shared;
    let (dir, disk) = (&shared.dir, &*shared.dir.disk);
    for name in store_files(disk, &dir.path, disk.list(&dir.path)?, true)? {
        let Some(segments) = key_run_segments(&name) else { continue };
        if used.iter().any(|run| key_run_file((run.meta.first, run.meta.last)) == name) {
            continue;
        }
        let run = KeyRun::open(disk, shared.options.access, &dir.path, dir.store, segments);
        match run.map(Arc::new).and_then(|run| run.verify()) {
            // A writer removed it during the verification.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            verified => verified?,
        }
    }
    Ok(())
}
