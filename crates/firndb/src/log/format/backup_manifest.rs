//! The manifest of a backup: the store that it is a backup of, and the segments it consists of.
//!
//! A frozen file of kind 8.
//! ```text
//! SECTION 1  OFFSET  SIZE  FIELD
//!            0       8     store id
//!            8       8     end of the log when the backup was made: segment
//!            16      8     and byte in it
//!            24      8     number of entries
//!            32      16 x  number of a segment, end of its records; numbers ascend; the
//!                          last segment belongs to the backup alone
//! ```
//! The file is called `backup.firn`, and `backup-unfinished.firn` while a backup or a restore is in
//! progress. In that case the directory may hold files of the old state and of the new one, and
//! only the segments that this file lists are part of the store (see `open/unfinished_backup.rs`).
//! Renaming it over the previous one is the moment at which the new backup replaces the old one. A
//! manifest without entries means that there is no store yet.

use crate::bytes::frozen::{Frozen, FrozenWriter, Kind};
use crate::bytes::int::{Decoder, Encoder};
use crate::disk::{Append, written_as};
use crate::log::format::names::segment_or_hint_number;
use crate::log::format::segment_head::LogPosition;
use crate::{Error, Result};
use std::collections::BTreeMap;

const META: u32 = 1;

/// A backup manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Id of the store.
    pub(crate) store: u64,
    /// The end of the store's log when the backup was made.
    pub(crate) source: LogPosition,
    /// The segments and where their records end, by number.
    pub(crate) segments: BTreeMap<u64, u64>,
}

impl Manifest {
    /// The manifest of a directory in which there is no backup yet.
    pub(crate) fn empty(store: u64) -> Manifest {
        Manifest { store, source: (0, 0), segments: BTreeMap::new() }
    }

    /// The segment that belongs to the backup alone, which is the last, and where its records end.
    pub(crate) fn own(&self) -> Option<LogPosition> {
        self.segments.last_key_value().map(|(&number, &end)| (number, end))
    }

    /// Whether it lists the segment that this file, or this hint, belongs to.
    pub(crate) fn lists(&self, name: &str) -> bool {
        segment_or_hint_number(name).is_some_and(|number| self.segments.contains_key(&number))
    }

    /// Whether this is a segment or a hint that it does not list, or a temporary file of one.
    pub(crate) fn is_stale(&self, name: &str) -> bool {
        let part = written_as(name).is_some_and(|name| segment_or_hint_number(name).is_some());
        part || (segment_or_hint_number(name).is_some() && !self.lists(name))
    }

    /// Decodes a manifest file.
    pub(crate) fn decode(file: &Frozen) -> Result<Manifest> {
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
    }

    /// Writes a manifest file.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{self, Disk, SimDisk, publish};
    use crate::log::format::names::{BACKUP, BACKUP_UNFINISHED};
    use std::path::{Path, PathBuf};

    fn golden() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/backup")
    }

    fn read(disk: &dyn Disk, path: &Path) -> Result<Manifest> {
        Manifest::decode(&Frozen::open(disk.map(path)?, path, Kind::LogBackup)?)
    }

    /// The manifests whose bytes are kept.
    fn kept() -> [(&'static str, Manifest); 2] {
        let store = 0x0123_4567_89AB_CDEF;
        let segments = BTreeMap::from([(2, 4096), (7, 65), (9, 168)]);
        let whole = Manifest { store, source: (10, 168), segments };
        [(BACKUP, whole), (BACKUP_UNFINISHED, Manifest::empty(store))]
    }

    fn bytes_of(manifest: &Manifest) -> Vec<u8> {
        let (disk, path) = (SimDisk::new(), Path::new("/m"));
        publish(&*disk, path, |out| manifest.encode(out)).unwrap();
        disk.map(path).unwrap().to_vec()
    }

    #[test]
    fn the_section_has_the_documented_bytes() {
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
    fn golden_manifests_decode_and_encode_to_the_same_bytes() {
        for (name, manifest) in kept() {
            let path = golden().join(name);
            assert_eq!(read(&*disk::os(), &path).unwrap(), manifest);
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
            let decoded = read(&*disk, path);
            // Zeros between the sections are not looked at.
            assert!(decoded.is_err() || decoded.unwrap() == kept()[0].1, "byte {at}");
            disk.write_raw(path, &bytes[..at]);
            assert!(read(&*disk, path).is_err(), "{at} bytes");
        }
    }
}
