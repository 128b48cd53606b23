//! `firn catalog stats`: the versions, files and bytes of each name.

use super::CatalogLocation;
use crate::failure::Result;
use crate::output::{Grid, Out, size, thousands};
use firndb::ErrorKind;
use serde_json::json;
use std::collections::BTreeMap;

/// Show how many versions, files and bytes each name has.
///
/// A file that several versions share counts once.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    catalog: CatalogLocation,
    /// Names to show; all if none is given.
    names: Vec<String>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let store = args.catalog.open()?;
    let names = if args.names.is_empty() { store.names()? } else { args.names.clone() };
    let mut out = Out::new();
    let mut grid = Grid::new(["name", "versions", "newest", "files", "size"]);
    for name in &names {
        let (mut versions, mut newest, mut files) = (0_u64, 0, BTreeMap::new());
        for number in store.versions(name)? {
            let version = match store.version(name, number) {
                // A concurrent `gc` has just removed it.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                version => version?,
            };
            versions += 1;
            newest = number;
            files.extend(version.files.iter().map(|file| (file.blake3.clone(), file.bytes)));
        }
        let (count, bytes) = (files.len() as u64, files.values().sum::<u64>());
        match json {
            true => out.json(&json!({
                "name": name,
                "versions": versions,
                "newest": newest,
                "files": count,
                "size_bytes": bytes,
            }))?,
            false => grid.row([
                name.clone(),
                thousands(versions),
                newest.to_string(),
                thousands(count),
                size(bytes),
            ]),
        }
    }
    if !json {
        out.line(grid)?;
    }
    Ok(out.finish()?)
}
