//! Verifying the files of a version, and copying a version out of the catalog.

use super::Catalog;
use super::format::{Version, VersionFile};
use super::reader::cache::{Cache, Fetch};
use super::reader::cache_dir::{hash_file, is_fetched};
use crate::bytes::inspection::Verification;
use crate::disk::DiskRef;
use crate::{Error, ErrorKind, Result, search};
use std::path::Path;

/// Marks a directory into which a version is being pulled, and is the lock of that pull. Without
/// this file no file of the directory is considered a leftover.
const PULLING: &str = ".firndb-pull";

/// Bytes per read.
const PIECE: usize = 1 << 22;

/// See [`Catalog::verify`].
pub(super) fn verify(
    catalog: &Catalog,
    version: &Version,
    mut progress: impl FnMut(&VersionFile),
) -> Result<Verification> {
    let mut report = Verification::default();
    for file in &version.files {
        verify_file(catalog, version, file)?;
        report.files += 1;
        report.bytes += file.bytes;
        progress(file);
    }
    Ok(report)
}

/// Reads a file of a version and compares its bytes with the manifest.
pub(super) fn verify_file(catalog: &Catalog, version: &Version, file: &VersionFile) -> Result<()> {
    verify_object(catalog, &version.object(file), file.bytes, &file.blake3)
}

/// Reads an object and compares its length and its BLAKE3.
pub(super) fn verify_object(
    catalog: &Catalog,
    object: &str,
    bytes: u64,
    blake3: &str,
) -> Result<()> {
    let (mut hash, mut at) = (blake3::Hasher::new(), 0u64);
    loop {
        let piece = catalog.origin.read(object, at, PIECE)?;
        hash.update(&piece);
        at += piece.len() as u64;
        if piece.len() < PIECE || at > bytes {
            break;
        }
    }
    if at != bytes || hash.finalize().to_hex().as_str() != blake3 {
        let message = "this is not the file that the manifest names";
        return Err(Error::corrupt(message).in_file(object.as_ref()));
    }
    Ok(())
}

/// See [`Catalog::pull`].
pub(super) fn pull(
    catalog: &Catalog,
    version: &Version,
    to: &Path,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<()> {
    check_target(&catalog.disk, to, version)?;
    let cache = Cache::unmarked(&catalog.disk, to, PULLING)?;
    // Checked again under the lock, which another pull may have held before.
    check_target(&catalog.disk, to, version)?;
    cache.fill(version, None, Fetch { origin: &*catalog.origin, threads, progress })?;
    // The set file comes last: the directory is a collection only once it is complete.
    let is_set = |file: &&VersionFile| search::set_number(&file.name).is_some();
    let (sets, others): (Vec<_>, Vec<_>) = version.files.iter().partition(is_set);
    let disk = cache.unlocked_disk();
    for files in [others, sets] {
        for file in files {
            let path = to.join(&file.name);
            match disk.link(&cache.path(file), &path) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                    if !has_content(disk, &path, file)? {
                        return Err(foreign(to, &file.name, version));
                    }
                }
                linked => linked?,
            }
        }
        disk.sync_dir(to)?;
    }
    for name in disk.list(to)?.iter().filter(|name| is_fetched(name)) {
        disk.remove(&to.join(name))?;
    }
    // Without this sync a power loss could undo these removals after the mark is gone.
    disk.sync_dir(to)?;
    disk.remove(&to.join(PULLING))
}

/// `AlreadyExists` if a directory has contents other than those of a pull of this version.
fn check_target(disk: &DiskRef, dir: &Path, version: &Version) -> Result<()> {
    let files = match disk.list(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        files => files?,
    };
    let others = [disk.list_dirs(dir)?, disk.list_others(dir)?].concat();
    if let Some(other) = others.first() {
        return Err(foreign(dir, other, version));
    }
    let is_pulling = files.iter().any(|name| name == PULLING);
    for name in files {
        let path = dir.join(&name);
        let is_pulled = match version.files.iter().find(|file| file.name == name) {
            Some(file) => has_content(disk, &path, file)?,
            None => is_pulling && (name == PULLING || is_fetched(&name)),
        };
        if !is_pulled {
            return Err(foreign(dir, &name, version));
        }
    }
    Ok(())
}

/// Whether the file at `path` has the content of a version's file.
fn has_content(disk: &DiskRef, path: &Path, file: &VersionFile) -> Result<bool> {
    let (bytes, hash) = hash_file(disk, path)?;
    Ok(bytes == file.bytes && hash.to_hex().as_str() == file.blake3)
}

fn foreign(dir: &Path, name: &str, version: &Version) -> Error {
    let message = format!(
        "the directory has `{name}` in it, which is not of version {} of `{}`; choose another one",
        version.number, version.name
    );
    Error::new(ErrorKind::AlreadyExists, message).in_file(dir)
}
