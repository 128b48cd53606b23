//! The kinds of frozen files, and the format version of each.

/// What a frozen file is. The numbers are stored: never change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A partition of a collection.
    Partition = 1,
    /// The set of partitions of a collection at one moment.
    PartitionSet = 2,
    /// A static key-value table.
    Table = 3,
    /// Which keys a sealed segment of a log has records of.
    LogHint = 4,
    /// Which records of the sealed segments of a log are live.
    LogCheckpoint = 5,
    /// A table that tells absent keys only nearly always.
    ApproximateTable = 6,
    /// How far a log was durable.
    LogEnd = 7,
    /// Which segments the backup of a log consists of.
    LogBackup = 8,
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
        }
    }

    pub(crate) fn from_code(code: u32) -> Option<Kind> {
        let kinds = [Kind::Partition, Kind::PartitionSet, Kind::Table];
        let kinds = kinds.into_iter().chain([Kind::LogHint, Kind::LogCheckpoint]);
        let kinds = kinds.chain([Kind::ApproximateTable, Kind::LogEnd, Kind::LogBackup]);
        kinds.into_iter().find(|k| *k as u32 == code)
    }

    /// The newest format version of this kind that this release reads and the one it writes.
    pub(crate) fn version(self) -> u32 {
        1
    }
}
