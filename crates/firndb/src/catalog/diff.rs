//! What changed between two versions.

use super::format::{Version, VersionFile};
use std::collections::BTreeMap;

/// The difference of two versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// What is not the same, by name.
    pub changes: Vec<Change>,
    /// Files that both have.
    pub files_kept: u64,
    /// Their bytes.
    pub bytes_kept: u64,
    /// Bytes of the files that only the second has: what a reader of the first has to fetch.
    pub bytes_new: u64,
}

/// Something that one version has and the other has not, or has otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The partition, the table's file, or `set` for the set file of a collection.
    pub name: String,
    /// Bytes of it in the first version; `None` if that has it not.
    pub before: Option<u64>,
    /// Bytes of it in the second; `None` if that has it not.
    pub after: Option<u64>,
}

impl Version {
    /// What `after` has otherwise than this version.
    pub fn diff(&self, after: &Version) -> Diff {
        let mut files: BTreeMap<&str, [Option<&VersionFile>; 2]> = BTreeMap::new();
        for (side, version) in [self, after].into_iter().enumerate() {
            for file in &version.files {
                files.entry(what(&file.name)).or_default()[side] = Some(file);
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

/// What a file is, whatever its content: `NAME.CONTENT.part.firn` is partition `NAME`.
fn what(file: &str) -> &str {
    let partition = file.strip_suffix(".part.firn").and_then(|stem| stem.rsplit_once('.'));
    match partition {
        Some((name, _)) => name,
        None if file.starts_with("set-") && file.ends_with(".firn") => "set",
        None => file,
    }
}
