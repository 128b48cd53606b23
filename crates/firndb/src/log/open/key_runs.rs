//! Finding the key runs of an ordered store when it is opened or refreshed.

use crate::disk::Disk;
use crate::log::format::names::{key_run_file, key_run_segments};
use crate::log::options::Access;
use crate::log::segments::key_run_file::KeyRun;
use crate::{ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

/// The runs of a store, and the names of those that others contain.
#[derive(Default)]
pub(crate) struct FoundRuns {
    pub(crate) runs: Vec<Arc<KeyRun>>,
    pub(crate) contained: Vec<String>,
}

/// Opens the runs with these names, except for those in `known`, which are open. Damaged ones and
/// those of another store are passed over: their segments get new ones. `NotFound` if a file
/// disappeared, because a writer has merged it.
pub(crate) fn find_runs(
    disk: &dyn Disk,
    access: Access,
    dir: &Path,
    store: u64,
    names: &[String],
    known: &[Arc<KeyRun>],
) -> Result<FoundRuns> {
    let mut segments: Vec<(u64, u64)> =
        names.iter().filter_map(|name| key_run_segments(name)).collect();
    // The longest first of those that begin with the same segment.
    segments.sort_unstable_by_key(|&(first, last)| (first, u64::MAX - last));
    let (mut found, mut covered) = (FoundRuns::default(), None);
    for (first, last) in segments {
        if covered.is_some_and(|covered| last <= covered) {
            found.contained.push(key_run_file((first, last)));
            continue;
        }
        if covered.is_some_and(|covered| first <= covered) {
            continue;
        }
        let same = |run: &&Arc<KeyRun>| (run.meta.first, run.meta.last) == (first, last);
        let run = match known.iter().find(same) {
            Some(run) => Ok(Arc::clone(run)),
            None => KeyRun::open(disk, access, dir, store, (first, last)).map(Arc::new),
        };
        match run {
            Ok(run) => {
                covered = Some(last);
                found.runs.push(run);
            }
            Err(e) if e.kind() == ErrorKind::Corrupt => {}
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}
