//! Finding the newest version: the listed manifests, and their successors by name.
//!
//! Some origins cannot list, for example web servers without index pages. With such an origin a
//! reader that knows a version continues from it, and a new reader starts at version 1. Once
//! version 1 has been removed, a new reader needs the hint `NAME/newest`, which holds a version
//! number. Publishers write the hint after the manifest, and a clean-up writes it before it removes
//! manifests.
//!
//! Correctness does not depend on the hint. Only readers use it, and only if a list gives nothing;
//! the version that it names must exist, and its successors are looked up. A wrong or outdated hint
//! can hide versions from such readers for a while, but has no other effect.

use super::Catalog;
use super::format::{
    Version, hint_object, twenty_digits, version_number, version_object, versions_dir,
};
use crate::{ErrorKind, Result};

/// Attempts to write the hint, each of which is followed by a check for newer versions.
const HINT_ATTEMPTS: usize = 4;

/// Attempts to read the newest version, which a clean-up may remove after it was found.
const READ_ATTEMPTS: usize = 16;

/// The numbers of all versions, ascending. Lists may lag behind, so the successors of the last
/// listed version are looked up by name.
pub(super) fn numbers(catalog: &Catalog, name: &str) -> Result<Vec<u64>> {
    let mut numbers = listed(catalog, name)?;
    let newest = numbers.last().copied().unwrap_or(0);
    let last = last_successor(catalog, name, newest)?;
    numbers.extend((newest..last).map(|number| number + 1));
    Ok(numbers)
}

/// Reads the version whose number `find` returns; `None` if that is 0. If newer versions exist, a
/// clean-up can remove this one between the two steps; then it is searched again.
pub(super) fn read_newest(
    catalog: &Catalog,
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
        match catalog.version(name, number) {
            Err(e) if e.kind() == ErrorKind::NotFound && attempt < READ_ATTEMPTS => {}
            found => return found.map(Some),
        }
    }
}

/// The newest version, for publishers. Does not use the hint, which could mislead them.
pub(super) fn newest_number(catalog: &Catalog, name: &str) -> Result<Option<u64>> {
    Ok(numbers(catalog, name)?.last().copied())
}

/// The newest version, for readers; 0 if there is none. `known` is a version that has existed, or
/// 0.
pub(super) fn newest_since(catalog: &Catalog, name: &str, known: u64) -> Result<u64> {
    let listed = listed(catalog, name);
    let start = match &listed {
        Ok(numbers) if !numbers.is_empty() => numbers.last().copied(),
        _ => hinted(catalog, name, known),
    };
    let newest = last_successor(catalog, name, start.unwrap_or(0).max(known))?;
    match listed {
        Err(e) if start.is_none() && newest == known => Err(e),
        _ => Ok(newest),
    }
}

/// Writes the hint. Version `number` exists.
pub(super) fn write_hint(catalog: &Catalog, name: &str, mut number: u64) -> Result<()> {
    for _ in 0..HINT_ATTEMPTS {
        catalog.origin.hint(&hint_object(name), format!("{number:020}\n").as_bytes())?;
        // This may have replaced the hint of a publisher that has published a newer version.
        match last_successor(catalog, name, number)? {
            newest if newest == number => break,
            newest => number = newest,
        }
    }
    Ok(())
}

fn listed(catalog: &Catalog, name: &str) -> Result<Vec<u64>> {
    let listed = catalog.origin.list(&versions_dir(name))?;
    let mut numbers: Vec<u64> = listed.iter().filter_map(|name| version_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The version that the hint names, if that version exists or is not newer than `known`.
fn hinted(catalog: &Catalog, name: &str, known: u64) -> Option<u64> {
    let text = catalog.origin.read(&hint_object(name), 0, 22).ok()?;
    let number = twenty_digits(std::str::from_utf8(&text).ok()?.strip_suffix('\n')?)?;
    let exists = || catalog.origin.read(&version_object(name, number), 0, 1).is_ok();
    (number > 0 && (number <= known || exists())).then_some(number)
}

/// The last version of the consecutive sequence that starts at `known`, which exists or is 0.
fn last_successor(catalog: &Catalog, name: &str, mut known: u64) -> Result<u64> {
    while let Some(next) = known.checked_add(1) {
        match catalog.origin.read(&version_object(name, next), 0, 1) {
            Ok(_) => known = next,
            Err(e) if e.kind() == ErrorKind::NotFound => break,
            Err(e) => return Err(e),
        }
    }
    Ok(known)
}
