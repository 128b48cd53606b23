//! `firn catalog ls`: the names in a catalog, or the versions of one.

use super::{CatalogLocation, to_json};
use crate::failure::Result;
use crate::output::{Grid, Out, size};
use firndb::ErrorKind;
use firndb::search::timestamp_to_text;
use serde_json::json;

/// List names, or the versions of a name.
///
/// List names with their newest versions, or all versions of a name.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    catalog: CatalogLocation,
    /// The name whose versions are listed.
    name: Option<String>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let store = args.catalog.open()?;
    let mut versions = Vec::new();
    let mut pins = Vec::new();
    match &args.name {
        Some(name) => {
            pins = store.pins(name)?;
            for number in store.versions(name)? {
                match store.version(name, number) {
                    // A concurrent `gc` has just removed it.
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    version => versions.push(version?),
                }
            }
        }
        None => {
            for name in store.names()? {
                match store.newest(&name) {
                    // A publisher is writing the first version.
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    newest => versions.push(newest?),
                }
            }
        }
    }
    let mut out = Out::new();
    if json {
        for version in &versions {
            let mut line = to_json(version);
            if args.name.is_some() {
                line["pinned"] = json!(pins.contains(&version.number));
            }
            out.json(&line)?;
        }
        return Ok(out.finish()?);
    }
    let mut grid = Grid::new(["name", "version", "kind", "published", "files", "size", "note"]);
    for version in &versions {
        let restores = version.restores.map(|number| format!("as version {number}"));
        let pinned = pins.contains(&version.number).then(|| "pinned".to_string());
        let note: Vec<String> = restores.into_iter().chain(pinned).collect();
        grid.row([
            version.name.clone(),
            version.number.to_string(),
            version.kind.name().to_string(),
            timestamp_to_text(version.time),
            version.files.len().to_string(),
            size(version.bytes()),
            note.join(", "),
        ]);
    }
    out.line(grid)?;
    Ok(out.finish()?)
}
