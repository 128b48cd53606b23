//! Comparing two versions.

use super::format::{Version, VersionFile};
use std::collections::BTreeMap;

/// The difference between two versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diff {
    /// Parts that differ, ordered by name.
    pub changes: Vec<Change>,
    /// Files that both versions have.
    pub files_kept: u64,
    /// Bytes of these files.
    pub bytes_kept: u64,
    /// Bytes of the files that only the second version has: what a reader of the first must fetch.
    pub bytes_new: u64,
}

/// A part that only one version has, or that differs between the two.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// A partition, the file of a table, or `set` for the set file of a collection.
    pub name: String,
    /// Length in the first version in bytes; `None` if absent.
    pub before: Option<u64>,
    /// Length in the second version in bytes; `None` if absent.
    pub after: Option<u64>,
}

impl Version {
    /// Compares this version with `after`.
    pub fn diff(&self, after: &Version) -> Diff {
        let mut files: BTreeMap<&str, [Option<&VersionFile>; 2]> = BTreeMap::new();
        for (side, version) in [self, after].into_iter().enumerate() {
            for file in &version.files {
                files.entry(part_of(&file.name)).or_default()[side] = Some(file);
            }
        }
        let mut diff = Diff::default();
        for (name, [before, after]) in files {
            match (before, after) {
                (Some(a), Some(b)) if (a.bytes, &a.blake3) == (b.bytes, &b.blake3) => {
                    diff.files_kept += 1;
                    diff.bytes_kept += a.bytes;
                }
                _ => {
                    let bytes = |file: Option<&VersionFile>| file.map(|file| file.bytes);
                    let (before, after) = (bytes(before), bytes(after));
                    diff.bytes_new += after.unwrap_or(0);
                    diff.changes.push(Change { name: name.to_string(), before, after });
                }
            }
        }
        diff
    }
}

/// The part that a file contains: `NAME.CONTENT.part.firn` is partition `NAME`.
fn part_of(file: &str) -> &str {
    let partition = file.strip_suffix(".part.firn").and_then(|stem| stem.rsplit_once('.'));
    match partition {
        Some((name, _)) => name,
        None if file.starts_with("set-") && file.ends_with(".firn") => "set",
        None => file,
    }
}
