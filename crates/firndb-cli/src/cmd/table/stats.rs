//! `firn table stats`: shows options, size and lengths of a table.

use super::{AnyTable, Source};
use crate::failure::Result;
use crate::output::{Grid, Out, hex, size, thousands};
use firndb::table::{ApproximateStats, Compression, Stats};
use serde_json::{Value as Json, json};

/// Show size, options and lengths of a table.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let table = match args.source.open_any()? {
        AnyTable::Exact(table) => table,
        AnyTable::Approximate(table) => {
            return approximate(&table.stats(), table.metadata()?, json);
        }
    };
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

fn approximate(stats: &ApproximateStats, metadata: &[u8], json: bool) -> Result<()> {
    let mut out = Out::new();
    if json {
        let mut object = json!({
            "kind": "approximate table",
            "records": stats.records,
            "file_bytes": stats.file_bytes,
            "value_width_bytes": stats.value_width,
            "fingerprint_bits": stats.fingerprint_bits,
            "false_positives": stats.false_positives,
            "shards": stats.shards,
            "hash_bytes": stats.hash_bytes,
            "slot_bytes": stats.slot_bytes,
            "seed": stats.seed,
            "memory_bytes": stats.memory_bytes,
        });
        put_metadata(&mut object, metadata);
        out.json(&object)?;
        return Ok(out.finish()?);
    }
    let per_record = stats.file_bytes as f64 / stats.records.max(1) as f64;
    let mut grid = Grid::new(["what", "value"]).untruncated();
    for (name, value) in [
        ("records", thousands(stats.records)),
        ("file", size(stats.file_bytes)),
        ("file per record", format!("{per_record:.2} B")),
        ("value", format!("{} B", stats.value_width)),
        ("fingerprint", format!("{} bits", stats.fingerprint_bits)),
        ("absent keys found", format!("{:.6} %", 100.0 * stats.false_positives)),
        ("perfect hash functions", size(stats.hash_bytes)),
        ("hash seed", stats.seed.to_string()),
        ("memory when open", size(stats.memory_bytes)),
    ] {
        grid.row([name.to_string(), value]);
    }
    out.line(grid)?;
    if !metadata.is_empty() {
        out.line(format!("metadata: {}", text_or_hex(metadata)))?;
    }
    Ok(out.finish()?)
}

fn put_metadata(object: &mut Json, metadata: &[u8]) {
    match std::str::from_utf8(metadata) {
        Ok(text) => object["metadata"] = Json::from(text),
        Err(_) => object["metadata_hex"] = Json::from(hex(metadata)),
    }
}

fn text_or_hex(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_string(),
        Err(_) => format!("0x{}", hex(bytes)),
    }
}

fn facts(stats: &Stats) -> Vec<(&'static str, String)> {
    let mean = |bytes: u64| format!("{:.1} B", bytes as f64 / stats.records.max(1) as f64);
    let raw = stats.key_bytes + stats.value_bytes;
    vec![
        ("records", thousands(stats.records)),
        ("order", stats.order.name().to_string()),
        ("file", size(stats.file_bytes)),
        ("keys and values", size(raw)),
        ("file per byte of them", format!("{:.3}", stats.file_bytes as f64 / raw.max(1) as f64)),
        ("mean key", mean(stats.key_bytes)),
        ("longest key", format!("{} B", stats.longest_key_bytes)),
        ("mean value", mean(stats.value_bytes)),
        ("longest value", format!("{} B", stats.longest_value_bytes)),
        ("blocks", thousands(stats.blocks)),
        ("block size", size(stats.block_size)),
        ("longest block", size(stats.longest_block_bytes)),
        ("compression", compression(stats.compression)),
        ("filter", filter(stats).to_string()),
        ("index", if stats.index_bytes > 0 { size(stats.index_bytes) } else { "none".to_string() }),
        ("hash seed", stats.seed.to_string()),
        ("memory when open", size(stats.memory_bytes)),
        (
            "memory per record",
            format!("{:.3} B", stats.memory_bytes as f64 / stats.records.max(1) as f64),
        ),
    ]
}

fn compression(compression: Compression) -> String {
    match compression.level() {
        None => compression.name().to_string(),
        Some(level) => format!("{}, level {level}", compression.name()),
    }
}

fn filter(stats: &Stats) -> String {
    match stats.filter.bits() {
        0 => "none".to_string(),
        bits => format!("{bits} bits, {}", size(stats.filter_bytes)),
    }
}

fn as_json(stats: &Stats, schema: &str, metadata: &[u8]) -> Json {
    let (compression, level) = (stats.compression.name(), stats.compression.level());
    let filter_bits = stats.filter.bits();
    let mut object = json!({
        "kind": "table",
        "records": stats.records,
        "order": stats.order.name(),
        "file_bytes": stats.file_bytes,
        "key_bytes": stats.key_bytes,
        "value_bytes": stats.value_bytes,
        "longest_key_bytes": stats.longest_key_bytes,
        "longest_value_bytes": stats.longest_value_bytes,
        "blocks": stats.blocks,
        "block_size_bytes": stats.block_size,
        "block_bytes": stats.block_bytes,
        "longest_block_bytes": stats.longest_block_bytes,
        "paged": stats.paged,
        "compression": compression,
        "level": level,
        "filter_bits": filter_bits,
        "filter_bytes": stats.filter_bytes,
        "index_bytes": stats.index_bytes,
        "seed": stats.seed,
        "memory_bytes": stats.memory_bytes,
        "value_schema": match schema {
            "" => Json::Null,
            text => serde_json::from_str(text).unwrap_or_else(|_| Json::from(text)),
        },
    });
    put_metadata(&mut object, metadata);
    object
}
