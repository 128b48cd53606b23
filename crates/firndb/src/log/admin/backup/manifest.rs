//! `backup.firn`: the store that a backup is of, and the segments that it consists of.
//!
//! A frozen file of kind 8:
//! ```text
//! SECTION 1  u64 store; u64 segment, u64 byte: the end of the store's log when it was made; u64
//!            number of entries; each: u64 number of a segment, u64 end of its records. Numbers
//!            ascend; the last segment is the backup's own, which the store has not
//! ```
//! The same file is called `backup-unfinished.firn` while a backup, or a restored store, is being
//! made. Then the directory may hold files of the old state and of the new one, and only the
//! segments that this file lists are part of the store ([`admitted`]). Its rename over the one
//! before is the moment at which the new backup takes the place of the old one. Without entries it
//! says that there is no store yet.

use crate::bytes::frozen::{Frozen, FrozenWriter, Kind};
use crate::bytes::int::{Decoder, Encoder};
use crate::disk::{Append, Disk, written_as};
use crate::log::maintenance::checkpoint;
use crate::log::open::durable_end as end;
use crate::log::open::recovery;
use crate::log::segments::hint_file as hint;
use crate::log::segments::reserve;
use crate::log::segments::segment::number_of;
use crate::log::write::group_commit::Position;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Of a backup that is complete.
pub(crate) const FILE: &str = "backup.firn";
/// Of one that is being made.
pub(crate) const UNFINISHED: &str = "backup-unfinished.firn";
const META: u32 = 1;

/// What `backup.firn` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Of the store that this is a backup of.
    pub(crate) store: u64,
    /// The end of the store's log when the backup was made.
    pub(crate) source: Position,
    /// The segments and where their records end, by number.
    pub(crate) segments: BTreeMap<u64, u64>,
}

impl Manifest {
    /// Of a place in which there is no backup yet.
    pub(crate) fn empty(store: u64) -> Manifest {
        Manifest { store, source: (0, 0), segments: BTreeMap::new() }
    }

    /// The backup's own segment, which is the last, and where its records end.
    pub(crate) fn own(&self) -> Option<Position> {
        self.segments.last_key_value().map(|(&number, &end)| (number, end))
    }

    /// Whether it lists the segment of this file, or of this hint.
    pub(crate) fn lists(&self, name: &str) -> bool {
        segment_of(name).is_some_and(|number| self.segments.contains_key(&number))
    }

    /// Whether this is a segment or a hint that it does not list, or a part of one.
    pub(crate) fn is_stale(&self, name: &str) -> bool {
        let part = written_as(name).is_some_and(|name| segment_of(name).is_some());
        part || (segment_of(name).is_some() && !self.lists(name))
    }

    pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Result<Manifest> {
        let file = Frozen::open(disk.map(path)?, path, Kind::LogBackup)?;
        let decode = || {
            let at = file.find(META).ok_or_else(|| Error::corrupt("a section is missing"))?;
            let mut meta = Decoder::new(file.section(at)?);
            let (store, source) = (meta.u64()?, (meta.u64()?, meta.u64()?));
            let mut manifest = Manifest { source, ..Manifest::empty(store) };
            for _ in 0..meta.u64()? {
                let (number, end) = (meta.u64()?, meta.u64()?);
                if manifest.own().is_some_and(|(last, _)| last >= number) {
                    return Err(Error::corrupt("the segments do not ascend"));
                }
                manifest.segments.insert(number, end);
            }
            meta.finish()?;
            Ok(manifest)
        };
        decode().map_err(|e| e.in_file(path))
    }

    pub(crate) fn encode(&self, out: &mut dyn Append) -> Result<()> {
        let mut meta = Encoder::default();
        let head = [self.store, self.source.0, self.source.1, self.segments.len() as u64];
        let entries = self.segments.iter().flat_map(|(&number, &end)| [number, end]);
        head.into_iter().chain(entries).for_each(|number| meta.u64(number));
        let mut w = FrozenWriter::new(out, Kind::LogBackup)?;
        w.section(META, &meta.0)?;
        w.finish().map(|_| ())
    }
}

/// Where the log of a backup ends that was not written to; `None` in other stores.
pub(crate) fn end_of(disk: &dyn Disk, dir: &Path, names: &[String]) -> Option<Position> {
    let is_backup = names.iter().any(|name| [FILE, UNFINISHED].contains(&name.as_str()));
    let manifest = is_backup.then(|| Manifest::read(disk, &dir.join(FILE)))?;
    manifest.ok()?.own() // One that is damaged is of no use to the next backup, either.
}

/// The number of the segment that a file, or a hint, is of.
pub(crate) fn segment_of(name: &str) -> Option<u64> {
    number_of(name).or(hint::number_of(name))
}

/// Whether a store or a backup may have a file of this name.
pub(crate) fn is_known(name: &str) -> bool {
    let whole = |name: &str| {
        let others = [recovery::LOCK, end::FILE, checkpoint::FILE, FILE, UNFINISHED];
        segment_of(name).is_some() || others.contains(&name)
    };
    whole(name) || written_as(name).is_some_and(whole) || reserve::is_reserve(name)
}

/// The names of a directory without the segments and hints that are no part of the store because a
/// backup into it was interrupted. Where the caller holds the lock and is going to write, these
/// files are removed, and the directory is an ordinary backup again.
///
/// `Corrupt` if it was the first backup, or a restore: then there is no store.
pub(crate) fn admitted(
    disk: &dyn Disk,
    dir: &Path,
    mut names: Vec<String>,
    read_only: bool,
) -> Result<Vec<String>> {
    if !names.iter().any(|name| name == UNFINISHED) {
        return Ok(names);
    }
    let path = dir.join(UNFINISHED);
    let manifest = Manifest::read(disk, &path)?;
    if manifest.segments.is_empty() {
        let message = "a backup or a restore into this directory was interrupted before there was \
                       a store: back up into it again, or remove the directory and restore again";
        return Err(Error::corrupt(message).in_file(&path));
    }
    if !read_only {
        for name in names.iter().filter(|name| manifest.is_stale(name)) {
            disk.remove(&dir.join(name))?;
        }
        disk.sync_dir(dir)?;
        disk.rename(&path, &dir.join(FILE))?;
        disk.sync_dir(dir)?;
    }
    names.retain(|name| !manifest.is_stale(name));
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{self, SimDisk, publish};
    use std::path::PathBuf;

    fn golden() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/backup")
    }

    /// The manifests whose bytes are kept.
    fn kept() -> [(&'static str, Manifest); 2] {
        let store = 0x0123_4567_89AB_CDEF;
        let segments = BTreeMap::from([(2, 4096), (7, 65), (9, 168)]);
        let whole = Manifest { store, source: (10, 168), segments };
        [(FILE, whole), (UNFINISHED, Manifest::empty(store))]
    }

    fn bytes_of(manifest: &Manifest) -> Vec<u8> {
        let (disk, path) = (SimDisk::new(), Path::new("/m"));
        publish(&*disk, path, |out| manifest.encode(out)).unwrap();
        disk.map(path).unwrap().to_vec()
    }

    #[test]
    fn the_section_is_as_documented() {
        let bytes = bytes_of(&kept()[0].1);
        let expected = [
            0xEF, 0xCD, 0xAB, 0x89, 0x67, 0x45, 0x23, 0x01, // store
            10, 0, 0, 0, 0, 0, 0, 0, // the segment in which its log ended
            168, 0, 0, 0, 0, 0, 0, 0, // and the byte
            3, 0, 0, 0, 0, 0, 0, 0, // entries
            2, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, // segment 2 ends at 4096
            7, 0, 0, 0, 0, 0, 0, 0, 65, 0, 0, 0, 0, 0, 0, 0, // segment 7 at 65
            9, 0, 0, 0, 0, 0, 0, 0, 168, 0, 0, 0, 0, 0, 0, 0, // the backup's own at 168
        ];
        assert_eq!(bytes[64..64 + expected.len()], expected);
    }

    #[test]
    fn golden_manifests_are_read_and_written_as_they_were() {
        for (name, manifest) in kept() {
            let path = golden().join(name);
            assert_eq!(Manifest::read(&*disk::os(), &path).unwrap(), manifest);
            assert_eq!(std::fs::read(path).unwrap(), bytes_of(&manifest), "{name}");
        }
    }

    #[test]
    #[ignore = "writes new golden files"]
    fn write_golden() {
        std::fs::create_dir_all(golden()).unwrap();
        for (name, manifest) in kept() {
            std::fs::write(golden().join(name), bytes_of(&manifest)).unwrap();
        }
    }

    #[test]
    fn damaged_manifests_are_errors() {
        let (disk, path) = (SimDisk::new(), Path::new("/m"));
        let bytes = bytes_of(&kept()[0].1);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            disk.write_raw(path, &damaged);
            let read = Manifest::read(&*disk, path);
            // Zeros between the sections are not looked at.
            assert!(read.is_err() || read.unwrap() == kept()[0].1, "byte {at}");
            disk.write_raw(path, &bytes[..at]);
            assert!(Manifest::read(&*disk, path).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn names_of_others_are_not_known() {
        for name in ["lock", "end.firn", ".end.firn.firndb-tmp", "backup.firn", "reserve-delete"] {
            assert!(is_known(name), "{name}");
        }
        for name in [
            "",
            ".",
            "x",
            ".lock",
            "lock.tmp",
            "end.firn.tmp",
            ".end.firn.tmp",
            "..firndb-tmp",
            ".x.firndb-tmp",
        ] {
            assert!(!is_known(name), "{name}");
        }
    }
}
