//! The benchmark of the Table beside other stores that are built once and then read.
//!
//! Records are made from their numbers, so there is no data file. [`ours`] and [`floor`] are
//! engines of this program. [`runner`] takes one engine after the other, through [`jobs`]: it lets
//! it build, holds every value against the generator, and only then measures. [`cold`] asks `fio`
//! what the disk can do. [`report`] keeps the figures, [`markdown`] makes a page of them,
//! with [`aims`] first.

pub mod aims;
pub mod cold;
pub mod floor;
pub mod jobs;
pub mod markdown;
pub mod ours;
pub mod report;
pub mod runner;

/// The folders below `peers/` that take part. What follows a dash is the engine's argument.
pub const PEERS: [&str; 7] = ["cdb", "lmdb", "phf", "phf-zstd", "redb", "rocksdb", "rocksdb-zstd"];

/// FirnDB: the same records under several ways of access and options.
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
