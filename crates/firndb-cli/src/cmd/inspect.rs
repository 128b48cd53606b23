//! `firn inspect`: identifies a FirnDB file or a log store, and shows where its bytes go.

use super::COLLECTION;
use crate::failure::Result;
use crate::kinds::{Kind, kind_of, refuse_foreign};
use crate::output::{Grid, Out, size};
use firndb::{Error, ErrorKind, InspectedItem, Inspection};
use serde_json::{Map, Value as Json, json};
use std::path::{Path, PathBuf};

/// Show what a FirnDB file or a store contains, and where its bytes go.
///
/// Show what is in a file: kind, version, facts, fields or partitions, sections.
#[derive(clap::Args)]
pub struct Args {
    /// A file of FirnDB, or the directory of a log store, of a collection or of an index.
    file: PathBuf,
    /// List the sections of the file too.
    #[arg(long)]
    sections: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    refuse_foreign(&args.file)?;
    let mut out = Out::new();
    for (i, path) in parts_of(&args.file)?.iter().enumerate() {
        let seen = firndb::inspect(path)?;
        if json {
            let mut object = as_json(&seen);
            object["file"] = Json::from(path.display().to_string());
            out.json(&object)?;
        } else {
            out.line(format!("{}{}:", if i == 0 { "" } else { "\n" }, path.display()))?;
            print(&mut out, &seen, args.sections)?;
        }
    }
    Ok(out.finish()?)
}

/// What there is to inspect: the path itself, the current set of a collection, or the log and the
/// set of an index.
fn parts_of(path: &Path) -> firndb::Result<Vec<PathBuf>> {
    Ok(match kind_of(path) {
        Kind::Collection => vec![newest_set(path)?],
        Kind::Index => vec![path.join("log"), newest_set(&path.join(COLLECTION))?],
        Kind::Catalog => {
            let message = "this is a catalog; use `firn catalog list` and `firn catalog show`";
            return Err(Error::invalid(message).in_file(path));
        }
        _ => vec![path.to_path_buf()],
    })
}

/// The file of the current set of a collection: its name has the largest number.
fn newest_set(dir: &Path) -> firndb::Result<PathBuf> {
    let entries = std::fs::read_dir(dir).map_err(|e| Error::io("list", dir, e))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let sets = paths.filter(|path| kind_of(path) == Kind::Internal("partition set"));
    sets.max().ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "the collection has no set of partitions").in_file(dir)
    })
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
    let items = seen.items.iter().map(
        |item| json!({ "name": item.name, "size_bytes": item.bytes, "facts": facts(&item.facts) }),
    );
    let sections = seen
        .sections
        .iter()
        .map(|s| json!({ "name": s.name, "offset": s.offset, "size_bytes": s.bytes }));
    json!({
        "kind": seen.kind,
        "version": seen.version,
        "size_bytes": seen.bytes,
        "content": seen.content,
        "facts": facts(&seen.facts),
        "items": items.collect::<Json>(),
        "sections": sections.collect::<Json>(),
    })
}
