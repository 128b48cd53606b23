//! Which version is the newest: what is listed, and whatever follows it by name.
//!
//! Some places cannot list, such as web servers without index pages. There, a reader that has had a
//! version goes on from it, and a new one from version 1; once that was cleaned away, it needs a
//! hint: `NAME/newest`, which says a number. Publishers write it after the manifest, and a clean-up
//! before it removes any. It is nothing but a hint: it is asked only where a list gives nothing,
//! and only by readers; the version that it names must be there, and those that follow are looked
//! for. One that lies or is old can hide versions from such readers for a while, and nothing else.

use super::format::{hint_object, twenty_digits, version_number, version_object, versions_dir};
use super::{Catalog, Version};
use crate::{ErrorKind, Result};

/// How often a hint is written once more, because there is something newer by then.
const ATTEMPTS: usize = 4;

/// How often the newest version is looked for that is gone when it is read.
const LOOKS: usize = 16;

impl Catalog {
    /// The numbers of the versions that are there, ascending. Lists may be late, so it asks for the
    /// next ones by name.
    pub(super) fn numbers(&self, name: &str) -> Result<Vec<u64>> {
        let mut numbers = self.listed(name)?;
        let newest = numbers.last().copied().unwrap_or(0);
        let last = self.newest_from(name, newest)?;
        numbers.extend((newest..last).map(|number| number + 1));
        Ok(numbers)
    }

    /// The version whose number `find` gives, which is 0 if there is none. Between the two steps a
    /// clean-up may remove it, if there are newer ones: then it is looked for again.
    pub(super) fn newest_of(
        &self,
        name: &str,
        find: impl Fn() -> Result<u64>,
    ) -> Result<Option<Version>> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let number = find()?;
            if number == 0 {
                return Ok(None);
            }
            match self.version(name, number) {
                Err(e) if e.kind() == ErrorKind::NotFound && attempt < LOOKS => {}
                found => return found.map(Some),
            }
        }
    }

    /// The newest version for those who publish: no hint can mislead them.
    pub(super) fn newest_number(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.numbers(name)?.last().copied())
    }

    /// The newest version for readers, if `known` was there once or is 0; 0 if there is none.
    pub(super) fn newest_since(&self, name: &str, known: u64) -> Result<u64> {
        let listed = self.listed(name);
        let begin = match &listed {
            Ok(numbers) if !numbers.is_empty() => numbers.last().copied(),
            _ => self.hinted(name, known),
        };
        let newest = self.newest_from(name, begin.unwrap_or(0).max(known))?;
        match listed {
            Err(e) if begin.is_none() && newest == known => Err(e),
            _ => Ok(newest),
        }
    }

    /// Writes the hint at version `number`, which is there.
    pub(super) fn point(&self, name: &str, mut number: u64) -> Result<()> {
        for _ in 0..ATTEMPTS {
            self.origin.hint(&hint_object(name), format!("{number:020}\n").as_bytes())?;
            // Another publisher may have been faster, and its hint be the one that was replaced.
            match self.newest_from(name, number)? {
                newest if newest == number => break,
                newest => number = newest,
            }
        }
        Ok(())
    }

    fn listed(&self, name: &str) -> Result<Vec<u64>> {
        let listed = self.origin.list(&versions_dir(name))?;
        let mut numbers: Vec<u64> = listed.iter().filter_map(|name| version_number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The version that the hint names, if it is there, as `known` was.
    fn hinted(&self, name: &str, known: u64) -> Option<u64> {
        let text = self.origin.read(&hint_object(name), 0, 22).ok()?;
        let number = twenty_digits(std::str::from_utf8(&text).ok()?.strip_suffix('\n')?)?;
        let is_there = || self.origin.read(&version_object(name, number), 0, 1).is_ok();
        (number > 0 && (number <= known || is_there())).then_some(number)
    }

    /// The last of the versions that follow one another from `known` on, which is there or is 0.
    fn newest_from(&self, name: &str, mut known: u64) -> Result<u64> {
        while let Some(next) = known.checked_add(1) {
            match self.origin.read(&version_object(name, next), 0, 1) {
                Ok(_) => known = next,
                Err(e) if e.kind() == ErrorKind::NotFound => break,
                Err(e) => return Err(e),
            }
        }
        Ok(known)
    }
}
