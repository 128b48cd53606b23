//! The benchmark of ranges in the order of keys, against other ordered stores.
//!
//! Two parts: stores that are filled in random order, and tables that are built from sorted
//! records. [`ours`] has FirnDB's engines. [`runner`] compares every answer with the generator and
//! then measures scans of all engines, interleaved. [`markdown`] formats the figures as a page.

pub mod markdown;
pub mod ours;
pub mod runner;

/// The folders below `peers/` that take part.
pub const PEERS: [&str; 2] = ["rocksdb", "lmdb"];

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Stores filled by puts.
    Log,
    /// Tables built once.
    Table,
}

impl Part {
    /// Both.
    pub const ALL: [Part; 2] = [Part::Log, Part::Table];

    /// Name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Part::Log => "log",
            Part::Table => "table",
        }
    }

    /// The argument of the programs of engines.
    pub fn argument(self) -> &'static str {
        match self {
            Part::Log => "ordered-log",
            Part::Table => "ordered-table",
        }
    }

    /// FirnDB's engines.
    pub fn ours(self) -> &'static [&'static str] {
        match self {
            Part::Log => &["firndb", "firndb-unordered"],
            Part::Table => &["firndb"],
        }
    }
}

impl std::str::FromStr for Part {
    type Err = firndb_bench_protocol::Error;

    fn from_str(text: &str) -> Result<Part, Self::Err> {
        let found = Part::ALL.into_iter().find(|part| part.name() == text);
        found.ok_or_else(|| format!("there is no part `{text}`").into())
    }
}
