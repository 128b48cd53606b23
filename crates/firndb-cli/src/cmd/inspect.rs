//! `firn inspect`: what a file of FirnDB is, and where its bytes go.

use crate::failure::Result;
use crate::output::{Grid, Out, size};
use firndb::{Error, Inspection};
use serde_json::{Map, Value as Json, json};
use std::path::PathBuf;

/// Show what is in a file: kind, version, facts, fields or partitions, sections.
#[derive(clap::Args)]
pub struct Args {
    /// A partition file or a set of partitions (a file in the directory of a collection).
    file: PathBuf,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    if args.file.is_dir() {
        let message = "this is a directory; inspect a file in it, or use `firn search stats`";
        return Err(Error::invalid(message).in_file(&args.file).into());
    }
    let seen = firndb::inspect(&args.file)?;
    let mut out = Out::new();
    if json {
        out.json(&as_json(&seen))?;
    } else {
        print(&mut out, &seen)?;
    }
    Ok(out.finish()?)
}

fn print(out: &mut Out, seen: &Inspection) -> Result<()> {
    out.line(format!("{}, version {}, {}", seen.kind, seen.version, size(seen.bytes)))?;
    out.line(format!("content id: {}", seen.content))?;
    for (name, value) in &seen.facts {
        out.line(format!("{name}: {value}"))?;
    }
    let share = |bytes: u64| format!("{:.1} %", bytes as f64 * 100.0 / seen.bytes.max(1) as f64);
    if !seen.items.is_empty() {
        let mut grid = Grid::new(["name", "size", "share", "what it is"]);
        for item in &seen.items {
            let facts = item.facts.iter().map(|(name, value)| format!("{name} {value}"));
            let facts = facts.collect::<Vec<String>>().join(", ");
            grid.row([item.name.clone(), size(item.bytes), share(item.bytes), facts]);
        }
        out.line(format!("\n{grid}"))?;
    }
    let mut grid = Grid::new(["section", "offset", "size", "share"]);
    for section in &seen.sections {
        let offset = section.offset.to_string();
        grid.row([section.name.clone(), offset, size(section.bytes), share(section.bytes)]);
    }
    out.line(format!("\n{grid}"))?;
    Ok(())
}

fn as_json(seen: &Inspection) -> Json {
    let facts = |facts: &[(String, String)]| -> Map<String, Json> {
        facts.iter().map(|(name, value)| (name.clone(), Json::from(value.as_str()))).collect()
    };
    let items = seen
        .items
        .iter()
        .map(|item| json!({ "name": item.name, "bytes": item.bytes, "facts": facts(&item.facts) }));
    let sections = seen
        .sections
        .iter()
        .map(|s| json!({ "name": s.name, "offset": s.offset, "bytes": s.bytes }));
    json!({
        "kind": seen.kind,
        "version": seen.version,
        "bytes": seen.bytes,
        "content": seen.content,
        "facts": facts(&seen.facts),
        "items": items.collect::<Json>(),
        "sections": sections.collect::<Json>(),
    })
}
