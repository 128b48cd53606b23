//! The names of the files in the directory of a cache, and the mark that identifies it. The layout
//! is in `cache.rs`.

use crate::catalog::format::{VersionFile, is_hex, twenty_digits};
use crate::disk::{self, DiskRef};
use crate::{Error, ErrorKind, Result};
use std::path::Path;

/// The file that marks a directory as a cache, and its content.
pub(crate) const MARK: &str = "firndb-cache";
pub(crate) const MARK_TEXT: &[u8] =
    b"The files of a reader of a FirnDB catalog, which fetches and removes them by itself.\n";

/// Bytes per read while a file is hashed.
const HASHED: usize = 1 << 20;

/// Suffix of complete files.
pub(crate) const WHOLE: &str = ".firn";

/// Turns an empty directory into a cache; does nothing if it is one already. The mark is durable
/// before anything else is written.
pub(crate) fn claim(disk: &DiskRef, dir: &Path) -> Result<()> {
    let mark = dir.join(MARK);
    let working = disk::temporary(&mark)?; // May be left by a crash.
    let files = disk.list(dir)?;
    if files.iter().any(|name| name == MARK) && *disk.map(&mark)? == *MARK_TEXT {
        return Ok(());
    }
    let others = [files, disk.list_dirs(dir)?, disk.list_others(dir)?].concat();
    if let Some(other) = others.iter().find(|name| working.file_name() != Some(name.as_ref())) {
        let message = format!(
            "the directory has `{other}` in it and is no cache of a reader: name a directory that \
             is empty or missing"
        );
        return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(dir));
    }
    disk::publish(&**disk, &mark, |out| out.append(MARK_TEXT))
}

/// The length of a file and the hash of its bytes. The file is read and not mapped, so that a
/// failing disk or a concurrent truncation gives an error and not a signal.
pub(crate) fn hash_file(disk: &DiskRef, path: &Path) -> Result<(u64, blake3::Hash)> {
    let file = disk.open(path)?;
    let (len, mut at) = (file.len()?, 0);
    let (mut hash, mut piece) = (blake3::Hasher::new(), vec![0; HASHED]);
    while at < len {
        let part = &mut piece[..(len - at).min(HASHED as u64) as usize];
        file.read_at(at, part)?;
        hash.update(part);
        at += part.len() as u64;
    }
    Ok((len, hash.finalize()))
}

pub(crate) fn whole_name(file: &VersionFile) -> String {
    format!("{}{WHOLE}", file.blake3)
}

pub(crate) fn part_name(file: &VersionFile) -> String {
    format!(".{}.part", file.blake3)
}

/// Whether this is the name of a file that is being fetched or has been fetched.
pub(crate) fn is_fetched(name: &str) -> bool {
    let whole = name.strip_suffix(WHOLE);
    let part = name.strip_prefix('.').and_then(|name| name.strip_suffix(".part"));
    whole.or(part).is_some_and(|hash| is_hex(hash, 64))
}

/// Whether this is the name of a file that only caches create, lock and mark excepted.
pub(crate) fn is_own(name: &str) -> bool {
    let is_manifest = |name: &str| manifest_number(name).is_some();
    is_fetched(name) || is_manifest(name) || disk::written_as(name).is_some_and(is_manifest)
}

pub(crate) fn manifest_name(number: u64) -> String {
    format!("version-{number:020}.json")
}

pub(crate) fn manifest_number(name: &str) -> Option<u64> {
    twenty_digits(name.strip_prefix("version-")?.strip_suffix(".json")?)
}
