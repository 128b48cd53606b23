//! Pins, and the removal of what nobody needs any more.
//!
//! A version is kept if it is one of the newest few, if it is pinned, or if it was the newest less
//! than a grace ago: a reader may be fetching it. First the manifests of all others are removed,
//! durably; only then files that no manifest left names. A file's object tells for which version it
//! was stored, and those stored for a version that is not there yet are left alone: a publisher
//! may be about to name them. So whatever the clocks say, no manifest ever names a file that was
//! cleaned away; a clock that jumps can only cost a reader that is slow to fetch a second attempt.
//!
//! A pin that was acknowledged holds, however many clean-ups run and wherever they are cut off.
//! Before a manifest is removed, `NAME/leaving/NUMBER` is created; then the pin is looked for, and
//! if there is one the manifest stays. A pin is created first; then the mark is looked for, and if
//! there is one the pin is taken back. So whoever comes second sees the other. The mark goes after
//! the manifest has gone; until then its version cannot be pinned any more.

use super::format::{
    file_number, files_dir, leaving_dir, leaving_object, pin_object, pins_dir, twenty_digits,
    version_object, versions_dir,
};
use super::publish::{ATTEMPTS, now};
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
    /// Keeps a version from being cleaned away until it is unpinned; `note` says why. When it
    /// returns without an error, the version is there and stays. `NotFound` if it is not there, if
    /// files of it are missing, or if a clean-up has begun to remove it. `AlreadyExists` if it is
    /// pinned.
    pub fn pin(&self, name: &str, number: u64, note: &str) -> Result<()> {
        let version = self.version(name, number)?;
        let pin = pin_object(name, number);
        let is_new = match self.origin.create(&pin, format!("{note}\n").as_bytes()) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => false,
            created => created.map(|()| true)?,
        };
        match self.check_pinned(&version) {
            Ok(()) if is_new => Ok(()),
            Ok(()) => {
                let message = format!("version {number} of `{name}` is pinned already");
                Err(Error::new(ErrorKind::AlreadyExists, message))
            }
            Err(e) => {
                if is_new {
                    // Best effort: a pin without a version keeps nothing.
                    let _ = self.origin.remove(&[pin]);
                }
                Err(e)
            }
        }
    }

    /// An error unless a version whose pin is there is going to stay.
    fn check_pinned(&self, version: &Version) -> Result<()> {
        let Version { name, number, id, .. } = version;
        let gone = |message: String| Err(Error::new(ErrorKind::NotFound, message));
        if self.is_there(&leaving_object(name, *number))? {
            return gone(format!("a clean-up has begun to remove version {number} of `{name}`"));
        }
        if self.version(name, *number)?.id != *id {
            return gone(format!("version {number} of `{name}` was cleaned away meanwhile"));
        }
        if !self.is_intact(version)? {
            return gone(format!("files of version {number} of `{name}` are missing or cut"));
        }
        Ok(())
    }

    fn is_there(&self, object: &str) -> Result<bool> {
        match self.origin.read(object, 0, 1) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            read => read.map(|_| true),
        }
    }

    /// Removes the manifests of those versions that are not pinned, and gives their numbers.
    pub(super) fn withdraw(&self, name: &str, numbers: &[u64]) -> Result<Vec<u64>> {
        let mut free = Vec::new();
        for &number in numbers {
            match self.origin.create(&leaving_object(name, number), b"removing\n") {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
            // By its name: a list may be late.
            if !self.is_there(&pin_object(name, number))? {
                free.push(number);
            }
        }
        let objects = |of: fn(&str, u64) -> String| -> Vec<String> {
            free.iter().map(|&number| of(name, number)).collect()
        };
        self.origin.remove(&objects(version_object))?;
        self.origin.remove(&objects(leaving_object))?;
        Ok(free)
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
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.clean_at(name, options, now()) {
                // The newest version that it saw has been replaced and cleaned away meanwhile.
                Err(e) if e.kind() == ErrorKind::NotFound && attempt < ATTEMPTS => {}
                done => return done,
            }
        }
    }

    /// [`Catalog::clean`] at a time in microseconds.
    pub(super) fn clean_at(&self, name: &str, options: &CleanOptions, now: i64) -> Result<Cleaned> {
        let numbers = self.versions(name)?;
        let newest = numbers.last().copied().unwrap_or_default();
        let (mut kept, gone) = self.sort_out(name, &numbers, options, now)?;
        let mut cleaned = Cleaned::default();
        if options.dry_run {
            cleaned.versions = gone.iter().map(|version| version.number).collect();
        } else {
            // Whoever cannot list finds the versions that stay by nothing else.
            self.point(name, newest)?;
            let numbers: Vec<u64> = gone.iter().map(|version| version.number).collect();
            cleaned.versions = self.withdraw(name, &numbers)?;
        }
        let is_gone = |version: &Version| cleaned.versions.contains(&version.number);
        let (gone, pinned): (Vec<_>, Vec<_>) = gone.into_iter().partition(is_gone);
        kept.extend(pinned);
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
            self.remove_marks(name)?;
            let dirs = [dir, versions_dir(name), pins_dir(name), leaving_dir(name), name.into()];
            dirs.iter().try_for_each(|dir| self.origin.sweep(dir))?;
        }
        Ok(cleaned)
    }

    /// The versions of these numbers that are to stay, and those that are to go, ascending.
    fn sort_out(
        &self,
        name: &str,
        numbers: &[u64],
        options: &CleanOptions,
        now: i64,
    ) -> Result<(Vec<Version>, Vec<Version>)> {
        let pins: BTreeSet<u64> = self.pins(name)?.into_iter().collect();
        let (mut kept, mut gone) = (Vec::new(), Vec::new());
        let mut age = 0;
        // From the newest on: whether a version goes depends on when the next one was published.
        let mut next: Option<Version> = None;
        for &number in numbers.iter().rev() {
            let version = match self.version(name, number) {
                // Another clean-up was faster. But without the newest version nothing is known of
                // the files of those that came since.
                Err(e) if e.kind() == ErrorKind::NotFound && next.is_some() => continue,
                version => version?,
            };
            // By a publisher that took the number of a version that was cleaned away.
            let is_stray = next.as_ref().is_some_and(|next| {
                next.number == number + 1
                    && next.parent_id.as_ref().is_some_and(|id| *id != version.id)
            });
            let is_young =
                next.as_ref().is_some_and(|next| is_young(next.time, now, options.grace));
            let stays = !is_stray && (age < options.keep.max(1) || is_young);
            age += usize::from(!is_stray);
            if stays || pins.contains(&number) {
                kept.push(version.clone());
            } else {
                gone.push(version.clone());
            }
            next = Some(version);
        }
        gone.reverse();
        Ok((kept, gone))
    }

    /// Removes marks that clean-ups have left behind that were cut off.
    fn remove_marks(&self, name: &str) -> Result<()> {
        let marks = self.origin.list(&leaving_dir(name))?;
        let mut left = Vec::new();
        for number in marks.iter().filter_map(|mark| twenty_digits(mark)) {
            if !self.is_there(&version_object(name, number))? {
                left.push(leaving_object(name, number));
            }
        }
        if left.is_empty() { Ok(()) } else { self.origin.remove(&left) }
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
