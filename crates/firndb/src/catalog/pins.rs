//! Pinning versions, and removing manifests that are not pinned.
//!
//! An acknowledged pin holds, whatever clean-ups run concurrently and wherever they are
//! interrupted:
//! - Before a clean-up removes a manifest, it creates the removal mark `NAME/leaving/NUMBER` and
//!   then looks for the pin. If the pin exists, the manifest stays.
//! - A pin is created first. Then the mark is looked for, and if it exists the pin is withdrawn.
//!
//! So whichever of the two comes second sees the other. The mark is removed after the manifest;
//! until then the version cannot be pinned.

use super::Catalog;
use super::format::{
    Version, leaving_dir, leaving_object, pin_object, pins_dir, twenty_digits, version_object,
};
use crate::{Error, ErrorKind, Result};

/// See [`Catalog::pin`].
pub(super) fn pin(catalog: &Catalog, name: &str, number: u64, note: &str) -> Result<()> {
    let version = catalog.version(name, number)?;
    let pin = pin_object(name, number);
    let is_new = match catalog.origin.create(&pin, format!("{note}\n").as_bytes()) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => false,
        created => created.map(|()| true)?,
    };
    match check_pinned(catalog, &version) {
        Ok(()) if is_new => Ok(()),
        Ok(()) => {
            let message = format!("version {number} of `{name}` is pinned already");
            Err(Error::new(ErrorKind::AlreadyExists, message))
        }
        Err(e) => {
            if is_new {
                // Best effort: a pin without a version has no effect.
                let _ = catalog.origin.remove(&[pin]);
            }
            Err(e)
        }
    }
}

/// An error unless a version whose pin exists is complete and stays.
fn check_pinned(catalog: &Catalog, version: &Version) -> Result<()> {
    let Version { name, number, id, .. } = version;
    let gone = |message: String| Err(Error::new(ErrorKind::NotFound, message));
    if exists(catalog, &leaving_object(name, *number))? {
        return gone(format!("a clean-up has begun to remove version {number} of `{name}`"));
    }
    if catalog.version(name, *number)?.id != *id {
        return gone(format!("version {number} of `{name}` was removed and published anew"));
    }
    if !is_intact(catalog, version)? {
        return gone(format!("files of version {number} of `{name}` are missing or truncated"));
    }
    Ok(())
}

/// See [`Catalog::unpin`].
pub(super) fn unpin(catalog: &Catalog, name: &str, number: u64) -> Result<()> {
    catalog.origin.remove(&[pin_object(name, number)])
}

/// See [`Catalog::pins`].
pub(super) fn pins(catalog: &Catalog, name: &str) -> Result<Vec<u64>> {
    let pins = catalog.origin.list(&pins_dir(name))?;
    Ok(pins.iter().filter_map(|pin| twenty_digits(pin)).collect())
}

/// Removes the manifests of those of these versions that are not pinned. Returns their numbers.
pub(super) fn remove_unpinned(catalog: &Catalog, name: &str, numbers: &[u64]) -> Result<Vec<u64>> {
    let mut free = Vec::new();
    for &number in numbers {
        match catalog.origin.create(&leaving_object(name, number), b"removing\n") {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        // Looked up by name, because a list may lag behind.
        if !exists(catalog, &pin_object(name, number))? {
            free.push(number);
        }
    }
    let objects = |of: fn(&str, u64) -> String| -> Vec<String> {
        free.iter().map(|&number| of(name, number)).collect()
    };
    catalog.origin.remove(&objects(version_object))?;
    catalog.origin.remove(&objects(leaving_object))?;
    Ok(free)
}

/// Removes the marks that interrupted clean-ups have left, once the manifests are gone.
pub(super) fn remove_stale_marks(catalog: &Catalog, name: &str) -> Result<()> {
    let marks = catalog.origin.list(&leaving_dir(name))?;
    let mut stale = Vec::new();
    for number in marks.iter().filter_map(|mark| twenty_digits(mark)) {
        if !exists(catalog, &version_object(name, number))? {
            stale.push(leaving_object(name, number));
        }
    }
    if stale.is_empty() { Ok(()) } else { catalog.origin.remove(&stale) }
}

/// Whether the catalog has all files of a version with their full lengths.
pub(super) fn is_intact(catalog: &Catalog, version: &Version) -> Result<bool> {
    let objects = version.files.iter().map(|file| (version.object(file), file.bytes));
    let are_intact = catalog.origin.are_intact(&objects.collect::<Vec<_>>())?;
    Ok(are_intact.iter().all(|&is_intact| is_intact))
}

fn exists(catalog: &Catalog, object: &str) -> Result<bool> {
    match catalog.origin.read(object, 0, 1) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        read => read.map(|_| true),
    }
}
