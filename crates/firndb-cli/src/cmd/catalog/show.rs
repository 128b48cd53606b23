//! `firn catalog show`: prints the manifest of a version.

use super::{Which, to_json};
use crate::failure::Result;
use crate::output::{Grid, Out, size, thousands};
use firndb::redact;
use firndb::search::timestamp_to_text;
use serde_json::json;

/// Show a version: what it is, where it comes from, its files.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Which,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let (_, version) = args.which.version()?;
    let mut out = Out::new();
    if json {
        let files = version.files.iter().map(|file| {
            json!({
                "name": file.name,
                "size_bytes": file.bytes,
                "content": file.content,
                "blake3": file.blake3,
                "since": file.since,
            })
        });
        let mut shown = to_json(&version);
        shown["files"] = files.collect();
        shown["schema"] = json!(version.schema);
        out.json(&shown)?;
        return Ok(out.finish()?);
    }
    let number = |n: Option<u64>| n.map_or("none".to_string(), |n| n.to_string());
    out.line(format!("{}, version {}", version.name, version.number))?;
    out.line(format!("kind       {}", version.kind.name()))?;
    out.line(format!("published  {}", timestamp_to_text(version.time)))?;
    out.line(format!("parent     {}", number(version.parent)))?;
    if let Some(restored) = version.restores {
        out.line(format!("restores   version {restored}"))?;
    }
    for (name, n) in &version.statistics {
        out.line(format!("{:<10} {}", name.replace('_', " "), thousands(*n)))?;
    }
    for (name, text) in &version.labels {
        out.line(format!("label      {name}={}", redact(text)))?;
    }
    if let Some(schema) = &version.schema {
        out.line(format!("\n{}\n", schema.trim_end()))?;
    }
    let mut grid = Grid::new(["file", "size", "since version", "BLAKE3"]).untruncated();
    for file in &version.files {
        let hash = file.blake3.get(..16).unwrap_or_default().to_string();
        grid.row([file.name.clone(), size(file.bytes), file.since.to_string(), hash]);
    }
    out.line(grid)?;
    Ok(out.finish()?)
}
