//! What descriptions and verifications of files report, common to all stores.

/// Description of an immutable file or a log store.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Inspection {
    /// Kind of the file: `partition`, `partition set`, `table`, `approximate table`, `log segment`;
    /// of a directory `log store`.
    pub kind: String,
    /// Format version of the kind.
    pub version: u32,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Content id, 32 hexadecimal digits: equal content, equal id. Empty for a log, which changes.
    pub content: String,
    /// Facts about the whole file: names and values.
    pub facts: Vec<(String, String)>,
    /// Fields of a partition, partitions of a set, or segments of a log.
    pub items: Vec<InspectedItem>,
    /// The sections of the file.
    pub sections: Vec<InspectedSection>,
}

/// A field of a partition, a partition of a set, or a segment of a log.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct InspectedItem {
    /// Name of the field, partition or segment.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Names and values; for a field its type, its roles and the structures chosen for it.
    pub facts: Vec<(String, String)>,
}

/// A section of an immutable file.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct InspectedSection {
    /// Name of its content.
    pub name: String,
    /// Its byte offset in the file.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// What a verification has checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Verification {
    /// Files that are intact. Of a log store its segments.
    pub files: u64,
    /// Bytes of these files, all of which were checked. Of the active segment of a log store those
    /// up to its end.
    pub bytes: u64,
    /// Records of tables, documents of collections, and records of log stores, replaced and deleted
    /// ones included. 0 for a version in a catalog, whose files are compared as a whole.
    pub records: u64,
}

impl Verification {
    /// Adds what another verification has checked.
    pub(crate) fn add(&mut self, other: Verification) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.records += other.records;
    }
}
