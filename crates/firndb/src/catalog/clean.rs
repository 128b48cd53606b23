//! Removing versions and files that are no longer needed.
//!
//! A version is kept if it is one of the newest few, if it is pinned, or if it was the newest less
//! than a grace period ago, because a reader may still be fetching it. The manifests of all other
//! versions are removed first, durably, and then the files that no remaining manifest lists.
//!
//! The name of a file's object contains the number of the version that it was stored for. Files
//! stored for a version that does not exist yet are kept, because a publisher may be about to
//! list them. Hence no manifest ever lists a removed file, whatever the clocks say. The only effect
//! of a clock that jumps is that a slow reader may have to fetch a newer version instead.
//!
//! Staged files are removed by age alone. No version depends on them (`stage.rs`), so a clock that
//! jumps can only make a publisher stage them again.

use super::Catalog;
use super::format::{
    Version, file_number, files_dir, leaving_dir, pins_dir, staged_dir, versions_dir,
};
use super::publish::now;
use super::stage::staged_objects;
use super::{newest, pins};
use crate::{ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Attempts to clean while newer versions supersede the one that was found to be the newest.
const ATTEMPTS: u32 = 16;

/// Which versions [`Catalog::clean`] keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CleanOptions {
    pub(crate) keep: usize,
    pub(crate) grace: Duration,
    pub(crate) dry_run: bool,
}

impl CleanOptions {
    /// The default options.
    pub fn new() -> CleanOptions {
        CleanOptions::default()
    }

    /// How many of the newest versions are always kept; at least 1.
    pub fn keep(mut self, versions: usize) -> Self {
        self.keep = versions;
        self
    }

    /// How long a version is kept after its successor was published, for readers that are fetching
    /// it. Must be longer than the slowest fetch, and longer than lists of the origin lag behind.
    /// Staged files are kept as long after they were staged, for publishers that have not published
    /// them yet.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Reports what would be removed without removing it.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }
}

impl Default for CleanOptions {
    /// Keeps the newest 3 versions, and those that were the newest within the last day.
    fn default() -> CleanOptions {
        CleanOptions { keep: 3, grace: Duration::from_secs(24 * 3600), dry_run: false }
    }
}

/// What [`Catalog::clean`] has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cleaned {
    /// Versions, ascending.
    pub versions: Vec<u64>,
    /// Files that no version lists any more, or that interrupted publishers have left.
    pub files: u64,
    /// Bytes of those files that a removed version listed.
    pub bytes: u64,
    /// Staged files, published or not.
    pub staged: u64,
}

/// See [`Catalog::clean`].
pub(super) fn clean(catalog: &Catalog, name: &str, options: &CleanOptions) -> Result<Cleaned> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match clean_at(catalog, name, options, now()) {
            // Concurrently, the newest version was superseded and removed.
            Err(e) if e.kind() == ErrorKind::NotFound && attempt < ATTEMPTS => {}
            done => return done,
        }
    }
}

/// Cleans as of `now`, in microseconds since 1970.
pub(super) fn clean_at(
    catalog: &Catalog,
    name: &str,
    options: &CleanOptions,
    now: i64,
) -> Result<Cleaned> {
    let staged = staged_objects(catalog, name)?;
    let mut cleaned = match catalog.versions(name) {
        Err(e) if e.kind() == ErrorKind::NotFound && !staged.is_empty() => Cleaned::default(),
        numbers => clean_versions(catalog, name, &numbers?, options, now)?,
    };
    let old = staged.into_iter().filter(|&(_, time)| !is_young(time, now, options.grace));
    let old: Vec<String> = old.map(|(object, _)| object).collect();
    cleaned.staged = old.len() as u64;
    if !options.dry_run {
        catalog.origin.remove(&old)?;
        catalog.origin.sweep(&staged_dir(name))?;
    }
    Ok(cleaned)
}

/// Removes versions, and files that no remaining version lists. `numbers` are those of all
/// versions.
fn clean_versions(
    catalog: &Catalog,
    name: &str,
    numbers: &[u64],
    options: &CleanOptions,
    now: i64,
) -> Result<Cleaned> {
    let newest = numbers.last().copied().unwrap_or_default();
    let (mut kept, expired) = divide(catalog, name, numbers, options, now)?;
    let mut cleaned = Cleaned::default();
    if options.dry_run {
        cleaned.versions = expired.iter().map(|version| version.number).collect();
    } else {
        // Readers of an origin that cannot list find the remaining versions only by the hint.
        newest::write_hint(catalog, name, newest)?;
        let numbers: Vec<u64> = expired.iter().map(|version| version.number).collect();
        cleaned.versions = pins::remove_unpinned(catalog, name, &numbers)?;
    }
    let is_removed = |version: &Version| cleaned.versions.contains(&version.number);
    let (removed, pinned): (Vec<_>, Vec<_>) = expired.into_iter().partition(is_removed);
    kept.extend(pinned);
    let listed: BTreeSet<String> = objects(&kept).into_keys().collect();
    let sizes = objects(&removed);
    let dir = files_dir(name);
    let stored = catalog.origin.list(&dir)?;
    let old = stored.iter().filter(|file| file_number(file).is_some_and(|n| n <= newest));
    let old = old.map(|file| format!("{dir}/{file}"));
    let unlisted: Vec<String> = old.filter(|object| !listed.contains(object)).collect();
    cleaned.files = unlisted.len() as u64;
    cleaned.bytes = unlisted.iter().filter_map(|object| sizes.get(object)).sum();
    if !options.dry_run {
        catalog.origin.remove(&unlisted)?;
        pins::remove_stale_marks(catalog, name)?;
        let dirs = [dir, versions_dir(name), pins_dir(name), leaving_dir(name), name.into()];
        dirs.iter().try_for_each(|dir| catalog.origin.sweep(dir))?;
    }
    Ok(cleaned)
}

/// Divides these versions into those to keep and those to remove, ascending.
fn divide(
    catalog: &Catalog,
    name: &str,
    numbers: &[u64],
    options: &CleanOptions,
    now: i64,
) -> Result<(Vec<Version>, Vec<Version>)> {
    let pins: BTreeSet<u64> = pins::pins(catalog, name)?.into_iter().collect();
    let (mut kept, mut expired) = (Vec::new(), Vec::new());
    let mut rank = 0;
    // From the newest version down, because a version expires by the age of its successor.
    let mut next: Option<Version> = None;
    for &number in numbers.iter().rev() {
        let version = match catalog.version(name, number) {
            // A concurrent clean-up has removed it. The newest version, however, is required:
            // without it, the files of still newer versions are unknown.
            Err(e) if e.kind() == ErrorKind::NotFound && next.is_some() => continue,
            version => version?,
        };
        // Published by a slow publisher that reused the number of a removed version.
        let is_stray = next.as_ref().is_some_and(|next| {
            next.number == number + 1 && next.parent_id.as_ref().is_some_and(|id| *id != version.id)
        });
        let is_young = next.as_ref().is_some_and(|next| is_young(next.time, now, options.grace));
        let stays = !is_stray && (rank < options.keep.max(1) || is_young);
        rank += usize::from(!is_stray);
        if stays || pins.contains(&number) {
            kept.push(version.clone());
        } else {
            expired.push(version.clone());
        }
        next = Some(version);
    }
    expired.reverse();
    Ok((kept, expired))
}

/// Whether `time` is less than `grace` ago, or in the future.
fn is_young(time: i64, now: i64, grace: Duration) -> bool {
    i128::from(now) - i128::from(time) < i128::try_from(grace.as_micros()).unwrap_or(i128::MAX)
}

/// The objects that versions list, and their lengths.
fn objects(versions: &[Version]) -> BTreeMap<String, u64> {
    let each =
        versions.iter().flat_map(|v| v.files.iter().map(|file| (v.object(file), file.bytes)));
    each.collect()
}
