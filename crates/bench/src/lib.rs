//! Benchmarks of FirnDB beside its peers.
//!
//! [`workload`] writes a data set and its queries once ([`cars`], [`table1`]). Engines are child
//! processes that read the same files and speak the lines of `firndb-bench-protocol`: [`ours`],
//! [`floor`] and the programs below `peers/` (found and built by [`peers`], spoken to by
//! [`child`]). [`runner`] lets them answer in turns, holds their answers against each other and
//! against [`brute`] force, and only then hands times to [`report`], [`markdown`], [`chart`].

pub mod rng;
pub mod cars;
pub mod table1;
pub mod workload;
pub mod columns;
pub mod brute;
pub mod floor;
pub mod ours;
pub mod child;
pub mod peers;
pub mod runner;
pub mod report;
pub mod machine;
pub mod markdown;
pub mod chart;
