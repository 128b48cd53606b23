//! The benchmark of the LogStore against other stores whose records change.
//!
//! [`ours`] is the engine of this program. [`runner`] fills a store of each engine and compares
//! every value, and only then measures gets of all engines, interleaved; after updates all values
//! are compared again. [`markdown`] formats the figures as a page.

mod cold;
pub mod limits;
pub mod markdown;
pub mod noise;
pub mod ours;
pub mod runner;
mod targets;

/// The folders below `peers/` that take part.
pub const PEERS: [&str; 7] = ["fjall", "kyoto", "lmdb", "redb", "rocksdb", "tokyo", "berkeley"];

/// The folders that take part in one workload only.
pub const GROWING_ONLY: [&str; 2] = ["tokyo", "berkeley"];
