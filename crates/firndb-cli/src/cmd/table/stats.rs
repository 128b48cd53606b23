//! `firn table stats`: shows options, size and lengths of a table.

use super::Source;
use crate::failure::Result;
use crate::output::{Grid, Out, hex, size, thousands};
use firndb::table::{Compression, Filter, TableStats};
use serde_json::{Value as Json, json};

/// Show size, options and lengths of a table.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let table = args.source.open()?;
    let (stats, schema) = (table.stats(), table.value_schema()?);
    let metadata = table.metadata()?;
    let mut out = Out::new();
    if json {
        out.json(&as_json(&stats, schema, metadata))?;
        return Ok(out.finish()?);
    }
    let mut grid = Grid::new(["what", "value"]).untruncated();
    for (name, value) in facts(&stats) {
        grid.row([name.to_string(), value]);
    }
    out.line(grid)?;
    if !metadata.is_empty() {
        out.line(format!("metadata: {}", text_or_hex(metadata)))?;
    }
    if !schema.is_empty() {
        out.line(format!("schema of the values: {schema}"))?;
    }
    Ok(out.finish()?)
}

fn text_or_hex(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_string(),
        Err(_) => format!("0x{}", hex(bytes)),
    }
}

fn facts(stats: &TableStats) -> Vec<(&'static str, String)> {
    let mean = |bytes: u64| format!("{:.1} B", bytes as f64 / stats.records.max(1) as f64);
    let raw = stats.key_bytes + stats.value_bytes;
    vec![
        ("records", thousands(stats.records)),
        ("file", size(stats.file_bytes)),
        ("keys and values", size(raw)),
        ("file for a byte of them", format!("{:.3}", stats.file_bytes as f64 / raw.max(1) as f64)),
        ("mean key", mean(stats.key_bytes)),
        ("longest key", format!("{} B", stats.longest_key)),
        ("mean value", mean(stats.value_bytes)),
        ("longest value", format!("{} B", stats.longest_value)),
        ("blocks", thousands(stats.blocks)),
        ("block size", size(stats.block_size)),
        ("longest block", size(stats.longest_block)),
        ("compression", compression(stats.compression)),
        ("filter", filter(stats).to_string()),
        ("index", if stats.index_bytes > 0 { size(stats.index_bytes) } else { "none".to_string() }),
        ("hash seed", stats.seed.to_string()),
        ("memory when open", size(stats.memory)),
        (
            "memory for a record",
            format!("{:.3} B", stats.memory as f64 / stats.records.max(1) as f64),
        ),
    ]
}

fn compression(compression: Compression) -> String {
    match compression {
        Compression::None => "none".to_string(),
        Compression::Records { level } => format!("record, level {level}"),
        Compression::Blocks { level } => format!("block, level {level}"),
    }
}

fn filter(stats: &TableStats) -> String {
    match stats.filter {
        Filter::None => "none".to_string(),
        Filter::Bits8 => format!("8 bits, {}", size(stats.filter_bytes)),
        Filter::Bits16 => format!("16 bits, {}", size(stats.filter_bytes)),
    }
}

fn as_json(stats: &TableStats, schema: &str, metadata: &[u8]) -> Json {
    let (compression, level) = match stats.compression {
        Compression::None => ("none", None),
        Compression::Records { level } => ("record", Some(level)),
        Compression::Blocks { level } => ("block", Some(level)),
    };
    let filter_bits = match stats.filter {
        Filter::None => 0,
        Filter::Bits8 => 8,
        Filter::Bits16 => 16,
    };
    let mut object = json!({
        "records": stats.records,
        "file_bytes": stats.file_bytes,
        "key_bytes": stats.key_bytes,
        "value_bytes": stats.value_bytes,
        "longest_key": stats.longest_key,
        "longest_value": stats.longest_value,
        "blocks": stats.blocks,
        "block_size": stats.block_size,
        "block_bytes": stats.block_bytes,
        "longest_block": stats.longest_block,
        "paged": stats.paged,
        "compression": compression,
        "level": level,
        "filter_bits": filter_bits,
        "filter_bytes": stats.filter_bytes,
        "index_bytes": stats.index_bytes,
        "seed": stats.seed,
        "memory": stats.memory,
        "value_schema": match schema {
            "" => Json::Null,
            text => serde_json::from_str(text).unwrap_or_else(|_| Json::from(text)),
        },
    });
    match std::str::from_utf8(metadata) {
        Ok(text) => object["metadata"] = Json::from(text),
        Err(_) => object["metadata_hex"] = Json::from(hex(metadata)),
    }
    object
}
