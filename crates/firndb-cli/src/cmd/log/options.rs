//! Options of a store that is opened for writing.

use crate::cmd::load::{parse_share, parse_size_of};
use clap::ValueEnum;
use firndb::log::{Access, AppendMode, Options};

/// Options of the store.
#[derive(clap::Args)]
#[command(next_help_heading = "Options of the store")]
pub struct StoreOptions {
    /// Create the store as an ordered one, whose keys can be scanned in byte order. An existing
    /// store keeps its kind.
    #[arg(long)]
    ordered: bool,
    /// Largest size of a segment, from 4K to 64M [default: 64M].
    #[arg(long, value_name = "SIZE", value_parser = parse_size_of)]
    segment_size: Option<u64>,
    /// How records are appended [default: auto].
    #[arg(long, value_enum)]
    append: Option<Append>,
    /// How records are read [default: map].
    #[arg(long, value_enum)]
    access: Option<Reading>,
    /// Share of a segment that must be stale for background compaction, from 0.01 to 0.99
    /// [default: 0.5].
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    compaction_threshold: Option<f64>,
    /// Bytes that background compaction may copy per second, for example 50M [default: no limit].
    #[arg(long, value_name = "SIZE", value_parser = parse_size_of)]
    compaction_rate: Option<u64>,
    /// Bytes of log between two checkpoints [default: 256M].
    #[arg(long, value_name = "SIZE", value_parser = parse_size_of)]
    checkpoint_size: Option<u64>,
}

/// How records are appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Append {
    /// By the file system.
    Auto,
    /// Stored into a map of the segment.
    Map,
    /// One system call per record.
    Write,
}

/// How records are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Reading {
    /// From maps of the segments.
    Map,
    /// By system calls, which return an error if the disk fails.
    Buffered,
}

impl StoreOptions {
    /// Changes `options` to what the command line says.
    pub fn apply(&self, mut options: Options) -> Options {
        if self.ordered {
            options = options.ordered(true);
        }
        if let Some(bytes) = self.segment_size {
            options = options.segment_bytes(bytes);
        }
        if let Some(append) = self.append {
            options = options.append_mode(match append {
                Append::Auto => AppendMode::Auto,
                Append::Map => AppendMode::Map,
                Append::Write => AppendMode::Write,
            });
        }
        if let Some(access) = self.access {
            options = options.access(match access {
                Reading::Map => Access::Map,
                Reading::Buffered => Access::Buffered,
            });
        }
        if let Some(share) = self.compaction_threshold {
            options = options.compaction_threshold(share);
        }
        if let Some(bytes) = self.compaction_rate {
            options = options.compaction_rate(bytes);
        }
        if let Some(bytes) = self.checkpoint_size {
            options = options.checkpoint_bytes(bytes);
        }
        options
    }
}
