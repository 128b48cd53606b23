//! `firn catalog pin`: protects versions from `gc`.

use super::CatalogLocation;
use crate::failure::Result;
use crate::output::Out;
use serde_json::json;

/// Protect a version from `gc`, or stop protecting it.
///
/// Protect a version from `firn catalog gc` until it is unpinned.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    catalog: CatalogLocation,
    /// The name it was published under.
    name: String,
    /// Number of the version.
    #[arg(value_name = "VERSION")]
    number: u64,
    /// The reason, shown with the pin.
    #[arg(long, default_value = "")]
    note: String,
    /// Remove the pin.
    #[arg(long, conflicts_with = "note")]
    remove: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let store = args.catalog.open()?;
    if args.remove {
        store.unpin(&args.name, args.number)?;
    } else {
        store.pin(&args.name, args.number, &args.note)?;
    }
    let mut out = Out::new();
    if json {
        let (name, number, pinned) = (&args.name, args.number, !args.remove);
        out.json(&json!({ "name": name, "version": number, "pinned": pinned }))?;
    } else {
        let done = if args.remove { "is no longer pinned" } else { "is pinned" };
        out.line(format!("{}: version {} {done}", args.name, args.number))?;
    }
    Ok(out.finish()?)
}
