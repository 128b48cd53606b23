//! Checking what is in a catalog, and taking a version out of it.

use super::cache::{Cache, Fetch, LOCK, is_fetched};
use super::format::Version;
use super::{Catalog, VersionFile};
use crate::inspect::VerifyReport;
use crate::{Error, ErrorKind, Result, search};
use std::path::Path;

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
            report.files += 1;
            report.bytes += at;
            progress(file);
        }
        Ok(report)
    }

    /// Makes the table or collection that a version is in a directory: new, empty, or that of a
    /// pull that was cut off, which goes on. Files get the names they were published with; from a
    /// catalog on the same file system they are hard-linked. `progress` is told of bytes as they
    /// arrive.
    pub fn pull(
        &self,
        version: &Version,
        to: impl AsRef<Path>,
        threads: usize,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        let to = to.as_ref();
        let is_named = |name: &String| version.files.iter().any(|file| file.name == *name);
        if let Some(other) = self.foreign(to, version)? {
            let message = format!("the directory has `{other}` in it; choose another one");
            return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(to));
        }
        let cache = Cache::open(&self.disk, to, u64::MAX)?;
        cache.fill(version, None, Fetch { origin: &*self.origin, threads, progress })?;
        // The set comes last: until then there is no collection.
        let is_set = |file: &&VersionFile| search::set_number(&file.name).is_some();
        let (sets, others): (Vec<_>, Vec<_>) = version.files.iter().partition(is_set);
        for files in [others, sets] {
            for file in files {
                match self.disk.link(&cache.path(file), &to.join(&file.name)) {
                    Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
                    _ => {}
                }
            }
            self.disk.sync_dir(to)?;
        }
        for name in self.disk.list(to)?.iter().filter(|name| !is_named(name)) {
            if *name != LOCK && !is_fetched(name) {
                continue; // It came meanwhile.
            }
            self.disk.remove(&to.join(name))?;
        }
        Ok(())
    }

    /// The name of something in a directory that is no work of an earlier pull of this version:
    /// that is its files, and those of `cache::Cache` that come before them.
    fn foreign(&self, dir: &Path, version: &Version) -> Result<Option<String>> {
        let files = match self.disk.list(dir) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            files => files?,
        };
        let others = [self.disk.list_dirs(dir)?, self.disk.list_others(dir)?].concat();
        if let Some(other) = others.into_iter().next() {
            return Ok(Some(other));
        }
        for name in files {
            let path = dir.join(&name);
            let is_pulled = match version.files.iter().find(|file| file.name == name) {
                Some(file) => {
                    let hash = blake3::hash(&self.disk.map(&path)?);
                    hash.to_hex().as_str() == file.blake3
                }
                None if name == LOCK => self.disk.open(&path)?.len()? == 0,
                None => is_fetched(&name),
            };
            if !is_pulled {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}
