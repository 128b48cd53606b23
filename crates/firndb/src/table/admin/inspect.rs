//! Describes tables for `inspect`.

use crate::Result;
use crate::bytes::inspection::{InspectedSection, Inspection};
use crate::table::approx::format::section as approx_section;
use crate::table::approx::table::ApproximateTable;
use crate::table::format::section;
use crate::table::options::{Access, Compression, KeyFilter, Order};
use crate::table::read::table::Table;
use std::path::Path;

/// Adds the facts and sections of a table.
pub(crate) fn describe(path: &Path, seen: &mut Inspection) -> Result<()> {
    let table = Table::open_with(path, Access::Map)?;
    let stats = table.stats();
    let mut fact = |name: &str, value: String| seen.facts.push((name.to_string(), value));
    fact("records", stats.records.to_string());
    if stats.order == Order::Key {
        fact("order", stats.order.name().to_string());
    }
    fact("blocks", stats.blocks.to_string());
    fact("block size", stats.block_size.to_string());
    fact("block alignment", if stats.paged { "page" } else { "16 bytes" }.to_string());
    fact("longest block", stats.longest_block_bytes.to_string());
    fact("bytes of keys", stats.key_bytes.to_string());
    fact("bytes of values", stats.value_bytes.to_string());
    fact("longest key", stats.longest_key_bytes.to_string());
    fact("longest value", stats.longest_value_bytes.to_string());
    fact(
        "compression",
        match stats.compression {
            Compression::None => "none".to_string(),
            Compression::Records { level } => format!("zstd level {level}, one frame per record"),
            Compression::Blocks { level } => format!("zstd level {level}, one frame per block"),
        },
    );
    fact(
        "filter",
        match stats.filter {
            KeyFilter::None => "none".to_string(),
            KeyFilter::Bits8 => "8 bits per key".to_string(),
            KeyFilter::Bits16 => "16 bits per key".to_string(),
        },
    );
    fact("seed of the hash", stats.seed.to_string());
    fact("memory when open", stats.memory_bytes.to_string());
    fact("bytes of metadata", table.metadata()?.len().to_string());
    fact("value schema", table.value_schema()?.to_string());
    for i in 0..table.reader.file.entries() {
        let entry = table.reader.file.entry(i);
        let name = name_of(entry.id).to_string();
        seen.sections.push(InspectedSection { name, offset: entry.offset, bytes: entry.len });
    }
    Ok(())
}

/// Adds the facts and sections of an approximate table.
pub(crate) fn describe_approximate(path: &Path, seen: &mut Inspection) -> Result<()> {
    let table = ApproximateTable::open_with(path, Access::Map)?;
    let stats = table.stats();
    let mut fact = |name: &str, value: String| seen.facts.push((name.to_string(), value));
    fact("records", stats.records.to_string());
    fact("shards", stats.shards.to_string());
    fact("bytes of a value", stats.value_width.to_string());
    fact("bits of a fingerprint", stats.fingerprint_bits.to_string());
    fact("absent keys answered", format!("1 in {}", 1u64 << stats.fingerprint_bits));
    fact("bytes of the perfect hash", stats.hash_bytes.to_string());
    fact("seed of the hash", stats.seed.to_string());
    fact("memory when open", stats.memory_bytes.to_string());
    fact("bytes of metadata", table.metadata()?.len().to_string());
    for i in 0..table.file.entries() {
        let entry = table.file.entry(i);
        let name = match entry.id {
            approx_section::META => "meta",
            approx_section::SLOTS => "slots",
            approx_section::SHARDS => "shards",
            approx_section::PILOTS => "pilots",
            approx_section::REMAPPED => "remapped",
            approx_section::METADATA => "metadata",
            _ => "unknown",
        };
        let (offset, bytes) = (entry.offset, entry.len);
        seen.sections.push(InspectedSection { name: name.to_string(), offset, bytes });
    }
    Ok(())
}

fn name_of(id: u32) -> &'static str {
    match id {
        section::META => "meta",
        section::BLOCKS => "blocks",
        section::DIRECTORY => "directory",
        section::STARTS => "starts",
        section::FILTER => "filter",
        section::DICTIONARY => "dictionary",
        section::METADATA => "metadata",
        section::VALUE_SCHEMA => "value schema",
        section::INDEX => "index",
        section::INDEX_CHECKS => "index checks",
        section::FENCES => "fences",
        _ => "unknown",
    }
}
