//! Finding the key runs of an ordered store when it is opened or refreshed.

use crate::disk::{Disk, written_as};
use crate::log::format::names::{key_run_file, key_run_segments};
use crate::log::options::Access;
use crate::log::segments::key_run_file::{KeyRun, owner};
use crate::log::state::key_order::Sources;
use crate::{ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

/// Opens the runs with these names of a store whose log ends in segment `last`. Those of `known`
/// are open, and those that were damaged are read in full. Runs that are damaged, that others
/// contain, and of another store are passed over: their segments get new ones. So are runs of the
/// last segment, which may get more records: a power cut may have lost the segment after it.
/// `NotFound` if a file disappeared, because a writer has merged it.
pub(crate) fn find_runs(
    (disk, access): (&dyn Disk, Access),
    dir: &Path,
    store: u64,
    last: u64,
    names: &[String],
    known: &Sources,
) -> Result<Vec<Arc<KeyRun>>> {
    let mut segments: Vec<(u64, u64)> =
        names.iter().filter_map(|name| key_run_segments(name)).filter(|run| run.1 < last).collect();
    // The longest first of those that begin with the same segment.
    segments.sort_unstable_by_key(|&(first, last)| (first, u64::MAX - last));
    let (mut runs, mut covered) = (Vec::new(), None);
    for (first, last) in segments {
        if covered.is_some_and(|covered| first <= covered) {
            continue;
        }
        let same = |run: &&Arc<KeyRun>| (run.meta.first, run.meta.last) == (first, last);
        let open = || KeyRun::open(disk, access, dir, store, (first, last)).map(Arc::new);
        let run = match known.runs.iter().find(same) {
            Some(run) if !run.is_damaged() => Ok(Arc::clone(run)),
            None if !known.damaged.contains(&(first, last)) => open(),
            // A writer may have written it again.
            _ => open().and_then(|run| run.verify().map(|()| run)),
        };
        match run {
            Ok(run) => {
                covered = Some(last);
                runs.push(run);
            }
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(e),
            Err(_) => {}
        }
    }
    Ok(runs)
}

/// The names of the files that are to be removed when a store is opened for writing: its runs that
/// are not used, and runs that a writer was writing when it died.
pub(crate) fn leftover_runs(
    disk: &dyn Disk,
    dir: &Path,
    store: u64,
    names: &[String],
    used: &[Arc<KeyRun>],
) -> Vec<String> {
    let is_used = |name: &String| {
        used.iter().any(|run| *name == key_run_file((run.meta.first, run.meta.last)))
    };
    let is_own = |name: &String| owner(disk, &dir.join(name)).is_ok_and(|id| id == Some(store));
    let is_unused_run =
        |name: &String| key_run_segments(name).is_some() && !is_used(name) && is_own(name);
    let is_unfinished =
        |name: &String| written_as(name).is_some_and(|name| key_run_segments(name).is_some());
    names.iter().filter(|name| is_unused_run(name) || is_unfinished(name)).cloned().collect()
}
