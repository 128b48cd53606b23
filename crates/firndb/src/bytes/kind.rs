//! The kinds of frozen files, and the format version of each.

/// The kind of a frozen file. The numbers are stored: never change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A partition of a collection.
    Partition = 1,
    /// The partitions that a version of a collection consists of.
    PartitionSet = 2,
    /// A static key-value table.
    Table = 3,
    /// Hashes of the keys in a sealed segment of a log.
    LogHint = 4,
    /// The live records in the sealed segments of a log.
    LogCheckpoint = 5,
    /// A table in which an absent key is found with a small probability.
    ApproximateTable = 6,
    /// The durable end of a log.
    LogEnd = 7,
    /// The segments of a backup of a log.
    LogBackup = 8,
    /// Sorted keys of consecutive segments of a log.
    LogKeyRun = 9,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Partition => "partition",
            Kind::PartitionSet => "partition set",
            Kind::Table => "table",
            Kind::LogHint => "hint of a log segment",
            Kind::LogCheckpoint => "checkpoint of a log",
            Kind::ApproximateTable => "approximate table",
            Kind::LogEnd => "end of a log",
            Kind::LogBackup => "manifest of a log's backup",
            Kind::LogKeyRun => "key run of a log",
        }
    }

    pub(crate) fn from_code(code: u32) -> Option<Kind> {
        let kinds = [Kind::Partition, Kind::PartitionSet, Kind::Table];
        let kinds = kinds.into_iter().chain([Kind::LogHint, Kind::LogCheckpoint]);
        let kinds = kinds.chain([Kind::ApproximateTable, Kind::LogEnd, Kind::LogBackup]);
        let kinds = kinds.chain([Kind::LogKeyRun]);
        kinds.into_iter().find(|k| *k as u32 == code)
    }

    /// The newest format version that this release reads. It writes this version, or the oldest
    /// one that can store the contents.
    pub(crate) fn version(self) -> u32 {
        match self {
            Kind::Table | Kind::LogHint => 2,
            _ => 1,
        }
    }
}
