//! Pins, and the removal of what nobody needs any more.
//!
//! A version is kept if it is one of the newest few, if it is pinned, or if it was the newest less
//! than a grace ago: a reader may be fetching it. First the manifests of all others are removed,
//! durably; only then files that no manifest left names. A file's object tells for which version it
//! was stored, and those stored for a version that is not there yet are left alone: a publisher
//! may be about to name them. So whatever the clocks say, no manifest ever names a file that was
//! cleaned away; a clock that jumps can only cost a reader that is slow to fetch a second attempt.

use super::format::{
    file_number, files_dir, pin_object, pins_dir, twenty_digits, version_object, versions_dir,
};
use super::publish::now;
use super::{Catalog, Version, check_name};
use crate::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanOptions {
    /// How many of the newest versions are kept in any case; at least 1.
    pub keep: usize,
    /// How long a version is kept after the next one was published, for readers that are fetching
    /// it: longer than the slowest of them takes, and than lists of the store are late.
    pub grace: Duration,
    /// Only say what would be removed.
    pub dry_run: bool,
}

impl Default for CleanOptions {
    /// The newest 3 versions, and what was the newest within the last day.
    fn default() -> CleanOptions {
        CleanOptions { keep: 3, grace: Duration::from_secs(24 * 3600), dry_run: false }
    }
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Versions, ascending.
    pub versions: Vec<u64>,
    /// Files that no version names any more, or that interrupted publishers have left.
    pub files: u64,
    /// The bytes of those that a version had named.
    pub bytes: u64,
}

impl Catalog {
    /// Keeps a version from being cleaned away until it is unpinned; `note` says why. A version
    /// that a clean-up is removing at this moment may be lost all the same: `NotFound`, now or when
    /// it is read. `AlreadyExists` if it is pinned.
    pub fn pin(&self, name: &str, number: u64, note: &str) -> Result<()> {
        self.version(name, number)?;
        let pinned = self.origin.create(&pin_object(name, number), note.as_bytes());
        pinned.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => {
                let message = format!("version {number} of `{name}` is pinned already");
                Error::new(ErrorKind::AlreadyExists, message)
            }
            _ => e,
        })?;
        self.version(name, number).map(drop)
    }

    /// Takes the pin of a version away; nothing happens if it is not pinned.
    pub fn unpin(&self, name: &str, number: u64) -> Result<()> {
        check_name(name)?;
        self.origin.remove(&[pin_object(name, number)])
    }

    /// The versions of a name that are pinned, ascending.
    pub fn pins(&self, name: &str) -> Result<Vec<u64>> {
        check_name(name)?;
        let pins = self.origin.list(&pins_dir(name))?;
        Ok(pins.iter().filter_map(|pin| twenty_digits(pin)).collect())
    }

    /// Removes versions of a name that are not to be kept, and files that none of the others names.
    /// Publishers, readers and other clean-ups may go on meanwhile. If a manifest that is kept
    /// cannot be read, nothing is removed.
    pub fn clean(&self, name: &str, options: &CleanOptions) -> Result<Cleaned> {
        self.clean_at(name, options, now())
    }

    /// [`Catalog::clean`] at a time in microseconds.
    pub(super) fn clean_at(&self, name: &str, options: &CleanOptions, now: i64) -> Result<Cleaned> {
        let numbers = self.versions(name)?;
        let newest = numbers.last().copied().unwrap_or_default();
        let pins: BTreeSet<u64> = self.pins(name)?.into_iter().collect();
        let (mut kept, mut gone) = (Vec::new(), Vec::new());
        // From the newest on: whether a version goes depends on when the next one was published.
        let mut next: Option<i64> = None;
        for (age, &number) in numbers.iter().rev().enumerate() {
            let version = self.version(name, number)?;
            let time = version.time;
            let stays = age < options.keep.max(1)
                || pins.contains(&number)
                || next.is_some_and(|next| is_young(next, now, options.grace));
            if stays {
                kept.push(version)
            } else {
                gone.push(version)
            }
            next = Some(time);
        }
        gone.reverse();
        let mut cleaned = Cleaned {
            versions: gone.iter().map(|version| version.number).collect(),
            ..Cleaned::default()
        };
        let manifests = cleaned.versions.iter().map(|&number| version_object(name, number));
        if !options.dry_run {
            // Whoever cannot list finds the versions that stay by nothing else.
            self.point(name, newest)?;
            self.origin.remove(&manifests.collect::<Vec<_>>())?;
        }
        let named: BTreeSet<String> = objects(&kept).into_keys().collect();
        let sizes = objects(&gone);
        let dir = files_dir(name);
        let there = self.origin.list(&dir)?;
        let old = there.iter().filter(|file| file_number(file).is_some_and(|n| n <= newest));
        let old = old.map(|file| format!("{dir}/{file}"));
        let gone: Vec<String> = old.filter(|object| !named.contains(object)).collect();
        cleaned.files = gone.len() as u64;
        cleaned.bytes = gone.iter().filter_map(|object| sizes.get(object)).sum();
        if !options.dry_run {
            self.origin.remove(&gone)?;
            for dir in [dir, versions_dir(name), pins_dir(name), name.to_string()] {
                self.origin.sweep(&dir)?;
            }
        }
        Ok(cleaned)
    }
}

/// Whether something of this time is younger than `grace`; what lies in the future is.
fn is_young(time: i64, now: i64, grace: Duration) -> bool {
    i128::from(now) - i128::from(time) < i128::try_from(grace.as_micros()).unwrap_or(i128::MAX)
}

/// The objects that versions name, and their bytes.
fn objects(versions: &[Version]) -> BTreeMap<String, u64> {
    let each =
        versions.iter().flat_map(|v| v.files.iter().map(|file| (v.object(file), file.bytes)));
    each.collect()
}
