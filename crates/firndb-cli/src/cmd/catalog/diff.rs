//! `firn catalog diff`: what changed between two versions.

use super::CatalogLocation;
use crate::failure::Result;
use crate::output::{Grid, Out, plural, size};
use serde_json::{Value as Json, json};

/// Show what changed between two versions.
///
/// Show what changed between two versions, partition by partition.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    catalog: CatalogLocation,
    /// The name they were published under.
    name: String,
    /// Number of the first version.
    before: u64,
    /// Number of the second; the newest if it is left out.
    after: Option<u64>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let store = args.catalog.open()?;
    let before = store.version(&args.name, args.before)?;
    let after = match args.after {
        Some(number) => store.version(&args.name, number)?,
        None => store.newest(&args.name)?,
    };
    let diff = before.diff(&after);
    let mut out = Out::new();
    if json {
        let change = |c: &firndb::catalog::Change| -> Json {
            json!({ "name": c.name, "before_bytes": c.before, "after_bytes": c.after })
        };
        out.json(&json!({
            "before": before.number,
            "after": after.number,
            "changes": diff.changes.iter().map(change).collect::<Json>(),
            "kept_files": diff.files_kept,
            "kept_bytes": diff.bytes_kept,
            "new_bytes": diff.bytes_new,
        }))?;
        return Ok(out.finish()?);
    }
    let mut grid = Grid::new(["what", "change", "before", "after"]);
    for change in &diff.changes {
        let shown = |bytes: Option<u64>| bytes.map_or("-".to_string(), size);
        let what = match (change.before, change.after) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        };
        let (before, after) = (shown(change.before), shown(change.after));
        grid.row([change.name.clone(), what.to_string(), before, after]);
    }
    if !diff.changes.is_empty() {
        out.line(grid)?;
    }
    out.line(format!(
        "From version {} to {}: {} changed, {} kept ({}); {} to fetch",
        before.number,
        after.number,
        plural(diff.changes.len() as u64, "file"),
        diff.files_kept,
        size(diff.bytes_kept),
        size(diff.bytes_new)
    ))?;
    Ok(out.finish()?)
}
