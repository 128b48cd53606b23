//! The benchmark of the Table against other stores that are built once and then read.
//!
//! Records are generated from their numbers, so there is no data file. [`ours`] and [`floor`] are
//! engines of this program. [`runner`] makes each engine build, through [`jobs`], and compares
//! every value with the generator; then [`interleaved`] measures the engines that are open at the
//! same time. [`cold`] measures gets from the disk, compared with `fio`. [`report`] keeps the
//! figures, [`markdown`] formats them as a page, with [`targets`] first.

pub mod cold;
pub mod floor;
pub mod interleaved;
pub mod jobs;
pub mod markdown;
pub mod ours;
pub mod report;
pub mod runner;
pub mod targets;

/// The folders below `peers/` that take part. The part after a dash is the engine's argument. The
/// peers of the targets come first, so that they are open at the same time as FirnDB.
pub const PEERS: [&str; 7] = ["cdb", "lmdb", "rocksdb", "phf", "redb", "phf-zstd", "rocksdb-zstd"];

/// FirnDB: the same records with several access modes and options.
pub const OURS: [&str; 8] = [
    "firndb",
    "firndb-smallpages",
    "firndb-resident",
    "firndb-filter8",
    "firndb-zstd",
    "firndb-zstdblocks",
    "firndb-direct",
    "firndb-tenth",
];
