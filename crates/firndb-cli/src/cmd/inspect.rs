//! `firn inspect`: identifies a FirnDB file or a log store, and shows where its bytes go.

use crate::failure::Result;
use crate::kinds::refuse_foreign;
use crate::output::{Grid, Out, size};
use firndb::{Error, ErrorKind, InspectedItem, Inspection};
use serde_json::{Map, Value as Json, json};
use std::path::PathBuf;

/// Show what is in a file: kind, version, facts, fields or partitions, sections.
#[derive(clap::Args)]
pub struct Args {
    /// A file, or the directory of a log store.
    file: PathBuf,
    /// List the sections of the file too.
    #[arg(long)]
    sections: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    refuse_foreign(&args.file)?;
    let seen = firndb::inspect(&args.file).map_err(|e| match args.file.is_dir() {
        true if e.kind() == ErrorKind::Io => {
            let message = "this is a directory; inspect a file in it, or use `firn search stats`";
            Error::invalid(message).in_file(&args.file)
        }
        _ => e,
    })?;
    let mut out = Out::new();
    if json {
        out.json(&as_json(&seen))?;
    } else {
        print(&mut out, &seen, args.sections)?;
    }
    Ok(out.finish()?)
}

fn print(out: &mut Out, seen: &Inspection, sections: bool) -> Result<()> {
    out.line(format!("{}, version {}, {}", seen.kind, seen.version, size(seen.bytes)))?;
    if !seen.content.is_empty() {
        out.line(format!("content id: {}", seen.content))?;
    }
    for (name, value) in &seen.facts {
        out.line(format!("{name}: {value}"))?;
    }
    if !seen.items.is_empty() {
        out.line(format!("\n{}", items_as_table(&seen.items)))?;
    }
    if !sections {
        return Ok(());
    }
    let share = |bytes: u64| format!("{:.1} %", bytes as f64 * 100.0 / seen.bytes.max(1) as f64);
    let mut grid = Grid::new(["section", "offset", "size", "share"]);
    for section in &seen.sections {
        let offset = section.offset.to_string();
        grid.row([section.name.clone(), offset, size(section.bytes), share(section.bytes)]);
    }
    out.line(format!("\n{grid}"))?;
    Ok(())
}

/// One row per item, one column per fact.
fn items_as_table(items: &[InspectedItem]) -> Grid {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in items.iter().flat_map(|item| &item.facts) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut grid = Grid::new(["name", "size"].iter().chain(&names)).untruncated();
    for item in items {
        let fact = |name: &&str| {
            let found = item.facts.iter().find(|(known, _)| known == name);
            found.map_or(String::new(), |(_, value)| value.clone())
        };
        let head = [item.name.clone(), size(item.bytes)];
        grid.row(head.into_iter().chain(names.iter().map(fact)));
    }
    grid
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
