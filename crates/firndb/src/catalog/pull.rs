//! Checking what is in a catalog, and taking a version out of it.

use super::cache::{Cache, Fetch};
use super::cache_dir::{hash_file, is_fetched};
use super::format::Version;
use super::{Catalog, VersionFile};
use crate::disk::DiskRef;
use crate::inspect::VerifyReport;
use crate::{Error, ErrorKind, Result, search};
use std::path::Path;

/// Marks a directory into which a version is being pulled, and is the lock of that pull. Without it
/// no file of the directory is taken for a leftover.
const PULLING: &str = ".firndb-pull";

/// Bytes that are read at a time.
const PIECE: usize = 1 << 22;

impl Catalog {
    /// Reads every byte of a version's files and compares their BLAKE3 with the manifest: `Corrupt`
    /// or `NotFound`, naming the object, if one is not as it should be. `progress` is told of each
    /// file that was checked.
    pub fn verify(
        &self,
        version: &Version,
        mut progress: impl FnMut(&VersionFile),
    ) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        for file in &version.files {
            self.check_object(version, file)?;
            report.files += 1;
            report.bytes += file.bytes;
            progress(file);
        }
        Ok(report)
    }

    /// Reads a file of a version, and compares its bytes with the manifest.
    pub(super) fn check_object(&self, version: &Version, file: &VersionFile) -> Result<()> {
        let object = version.object(file);
        let (mut hash, mut at) = (blake3::Hasher::new(), 0u64);
        loop {
            let piece = self.origin.read(&object, at, PIECE)?;
            hash.update(&piece);
            at += piece.len() as u64;
            if piece.len() < PIECE || at > file.bytes {
                break;
            }
        }
        if at != file.bytes || hash.finalize().to_hex().as_str() != file.blake3 {
            let message = "this is not the file that the manifest names";
            return Err(Error::corrupt(message).in_file(object.as_ref()));
        }
        Ok(())
    }

    /// Makes the table or collection that a version is in a directory. The directory must be
    /// missing, empty, that of a pull that was cut off, which goes on, or one that has nothing but
    /// files of this very version: `AlreadyExists` otherwise, and nothing is touched. Files get the
    /// names they were published with; from a catalog on the same file system they are hard-linked.
    /// `progress` is told of bytes as they arrive.
    pub fn pull(
        &self,
        version: &Version,
        to: impl AsRef<Path>,
        threads: usize,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        let to = to.as_ref();
        self.check_target(to, version)?;
        let cache = Cache::unmarked(&self.disk, to, PULLING)?;
        // Another pull may have had the lock before.
        self.check_target(to, version)?;
        cache.fill(version, None, Fetch { origin: &*self.origin, threads, progress })?;
        // The set comes last: until then there is no collection.
        let is_set = |file: &&VersionFile| search::set_number(&file.name).is_some();
        let (sets, others): (Vec<_>, Vec<_>) = version.files.iter().partition(is_set);
        for files in [others, sets] {
            for file in files {
                let path = to.join(&file.name);
                match cache.reading().link(&cache.path(file), &path) {
                    Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                        if !is_file_of(cache.reading(), &path, file)? {
                            return Err(foreign(to, &file.name, version));
                        }
                    }
                    linked => linked?,
                }
            }
            cache.reading().sync_dir(to)?;
        }
        for name in cache.reading().list(to)?.iter().filter(|name| is_fetched(name)) {
            cache.reading().remove(&to.join(name))?;
        }
        // None of them may come back after the mark is gone.
        cache.reading().sync_dir(to)?;
        cache.reading().remove(&to.join(PULLING))
    }

    /// `AlreadyExists` if there is something in a directory that is no work of a pull of this
    /// version.
    fn check_target(&self, dir: &Path, version: &Version) -> Result<()> {
        let files = match self.disk.list(dir) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            files => files?,
        };
        let others = [self.disk.list_dirs(dir)?, self.disk.list_others(dir)?].concat();
        if let Some(other) = others.first() {
            return Err(foreign(dir, other, version));
        }
        let is_pulling = files.iter().any(|name| name == PULLING);
        for name in files {
            let path = dir.join(&name);
            let is_pulled = match version.files.iter().find(|file| file.name == name) {
                Some(file) => is_file_of(&self.disk, &path, file)?,
                None => is_pulling && (name == PULLING || is_fetched(&name)),
            };
            if !is_pulled {
                return Err(foreign(dir, &name, version));
            }
        }
        Ok(())
    }
}

/// Whether a file has the content that a version names.
fn is_file_of(disk: &DiskRef, path: &Path, file: &VersionFile) -> Result<bool> {
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
