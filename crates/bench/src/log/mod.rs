//! The benchmark of the LogStore beside other stores whose records change.
//!
//! [`ours`] is the engine of this program. [`runner`] fills a store of each engine, lets every
//! value be compared, and only then lets all of them get, in turns; after updates all values are
//! compared again. [`markdown`] makes a page of the figures.

mod aims;
mod cold;
pub mod limits;
pub mod markdown;
pub mod ours;
pub mod runner;

/// The folders below `peers/` that take part.
pub const PEERS: [&str; 7] = ["fjall", "kyoto", "lmdb", "redb", "rocksdb", "tokyo", "berkeley"];

/// Those that take part in one workload only.
pub const GROWING_ONLY: [&str; 2] = ["tokyo", "berkeley"];
