//! How a table is laid out and built: options shared by all commands that write a table.

use crate::cmd::load::{parse_bytes, parse_size};
use clap::ValueEnum;
use firndb::table::{ApproximateOptions, BuildOptions, Compression, KeyFilter, Order};
use firndb::{Error, Result};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(next_help_heading = "Options of the table")]
pub struct Layout {
    /// Order of the records: `hash` for the fastest gets, `key` for ranges and prefixes of keys
    /// (see `firn table scan`). Input in key order is written in one pass.
    #[arg(long, value_enum, default_value_t)]
    order: By,
    /// How values are stored: uncompressed, compressed individually, or in compressed blocks.
    #[arg(long, value_enum, default_value_t)]
    compression: Packed,
    /// zstd level, 1 to 19.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=19))]
    level: i32,
    /// Bits per key of a filter that answers for absent keys without reading a block.
    #[arg(long, value_enum, default_value_t)]
    filter: Bits,
    /// Bytes per block, a multiple of 4K; a number without a unit is bytes.
    #[arg(long, default_value = "4K", value_name = "SIZE", value_parser = parse_bytes)]
    block_size: usize,
    /// Memory for records during the build, at least 16M; more records go through a temporary file.
    /// A long value takes up to five times its length beyond that, in key order seven times.
    #[arg(long, default_value = "1G", value_name = "SIZE", value_parser = parse_size)]
    memory: usize,
    /// Directory of that temporary file, instead of the table's.
    #[arg(long, value_name = "DIR")]
    pub temp: Option<PathBuf>,
    /// Threads that sort and compress [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Text to keep in the table; @FILE keeps the content of a file.
    #[arg(long, value_name = "TEXT")]
    metadata: Option<String>,
}

/// Approximate tables.
#[derive(clap::Args)]
#[command(next_help_heading = "Approximate tables")]
pub struct Approximation {
    /// Do not store keys: the table takes little more space than its values, which all have one
    /// width, and an absent key is found with a small probability.
    #[arg(short, long)]
    #[arg(conflicts_with_all = ["order", "compression", "level", "filter", "block_size"])]
    approximate: bool,
    /// Bytes of every value, 1 to 16.
    #[arg(long, default_value_t = 8, requires = "approximate", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=16))]
    value_width: u16,
    /// Bits of a fingerprint, 0 to 32: an absent key is found with probability 1 in 2^N.
    #[arg(long, default_value_t = 16, requires = "approximate", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=32))]
    fingerprint_bits: u32,
}

impl Approximation {
    /// Bytes of a value and bits of a fingerprint, if the table is approximate.
    pub fn widths(&self) -> Option<(usize, u32)> {
        self.approximate.then_some((usize::from(self.value_width), self.fingerprint_bits))
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum By {
    #[default]
    Hash,
    Key,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Packed {
    #[default]
    None,
    Record,
    Block,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Bits {
    #[default]
    None,
    #[value(name = "8")]
    Eight,
    #[value(name = "16")]
    Sixteen,
}

impl Layout {
    fn metadata(&self) -> Result<Vec<u8>> {
        Ok(match self.metadata.as_deref() {
            None => Vec::new(),
            Some(text) => match text.strip_prefix('@').map(Path::new) {
                Some(path) => std::fs::read(path).map_err(|e| Error::io("read", path, e))?,
                None => text.as_bytes().to_vec(),
            },
        })
    }

    /// Whether records are in key order.
    pub fn is_ordered(&self) -> bool {
        self.order == By::Key
    }

    /// Options of an approximate table.
    pub fn approximate_options(&self) -> Result<ApproximateOptions> {
        let mut options =
            ApproximateOptions::new().memory_limit(self.memory).metadata(self.metadata()?);
        if let Some(dir) = &self.temp {
            options = options.temp_dir(dir);
        }
        if let Some(threads) = self.threads {
            options = options.threads(usize::from(threads));
        }
        Ok(options)
    }

    pub fn options(&self) -> Result<BuildOptions> {
        let level = self.level;
        let mut options = BuildOptions::new()
            .order(match self.order {
                By::Hash => Order::Hash,
                By::Key => Order::Key,
            })
            .block_size(self.block_size)
            .compression(match self.compression {
                Packed::None => Compression::None,
                Packed::Record => Compression::Records { level },
                Packed::Block => Compression::Blocks { level },
            })
            .filter(match self.filter {
                Bits::None => KeyFilter::None,
                Bits::Eight => KeyFilter::Bits8,
                Bits::Sixteen => KeyFilter::Bits16,
            })
            .memory_limit(self.memory)
            .metadata(self.metadata()?);
        if let Some(dir) = &self.temp {
            options = options.temp_dir(dir);
        }
        if let Some(threads) = self.threads {
            options = options.threads(usize::from(threads));
        }
        Ok(options)
    }
}
