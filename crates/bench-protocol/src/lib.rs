//! The protocol between the benchmark runner and the engines, and the data that both of them read.
//!
//! An engine is a child process. It reads jobs from its standard input, one per line, with fields
//! separated by tabs, and answers on its standard output, so that engines in any language compete
//! on equal terms and no foreign code enters FirnDB's dependency tree. `peers/README.md` describes
//! the lines. [`search`], [`table`], [`log`] and [`ordered`] are the benchmarks, each with the
//! engine's side of the protocol.
//!
//! The same code reads the data, times the queries and folds the answers for FirnDB and for every
//! peer written in Rust, so figures differ only by the engine. This crate has no dependencies.

mod lines;
pub mod log;
pub mod ordered;
mod process;
pub mod rng;
pub mod search;
pub mod table;

pub use lines::answer_jobs;
pub use process::{
    anonymous_memory, bytes_read, cpu_time, disk_allocated, disk_usage, forget_pages, major_faults,
    mapped_memory, peak_memory,
};

/// Errors of engines are printed, never matched on.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// Result of every fallible call of an engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;
