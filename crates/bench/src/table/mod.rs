//! The benchmark of the Table beside other stores that are built once and then read.
//!
//! Records are made from their numbers, so there is no data file. [`ours`] and [`floor`] are
//! engines of this program. [`runner`] lets each engine build, through [`jobs`], and holds every
//! value against the generator; then [`turns`] measures those that are open in turns. [`cold`]
//! measures gets from the disk, beside `fio`. [`report`] keeps the figures, [`markdown`] makes a
//! page of them, with [`aims`] first.

pub mod aims;
pub mod cold;
pub mod floor;
pub mod jobs;
pub mod markdown;
pub mod ours;
pub mod report;
pub mod runner;
pub mod turns;

/// The folders below `peers/` that take part. What follows a dash is the engine's argument. Those
/// that FirnDB is measured by come first, so that they are open at the same time as it.
pub const PEERS: [&str; 7] = ["cdb", "lmdb", "rocksdb", "phf", "redb", "phf-zstd", "rocksdb-zstd"];

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
