//! The benchmark of the Collection against search engines and databases.
//!
//! [`workload`] writes a data set and its queries once ([`cars`], [`table1`]); every engine reads
//! the same files. [`ours`] and [`floor`] are engines of this program. [`runner`] interleaves the
//! engines, compares their answers with each other and with [`brute`] force, and only then passes
//! times to [`report`] and [`markdown`].

pub mod cars;
pub mod table1;
pub mod workload;
pub mod columns;
pub mod brute;
pub mod least;
pub mod floor;
pub mod ours;
pub mod jobs;
pub mod runner;
pub mod report;
pub mod targets;
pub mod markdown;

/// The folders below `peers/` that take part.
pub const PEERS: [&str; 4] = ["duckdb", "lucene", "sqlite", "tantivy"];
