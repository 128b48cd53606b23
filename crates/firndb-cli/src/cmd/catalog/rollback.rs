//! `firn catalog rollback`: publishes the files of an old version again.

use super::{CatalogLocation, label, published_to_json};
use crate::failure::Result;
use crate::output::Out;
use firndb::catalog::PublishOptions;

/// Publish the files of an old version as the next version.
///
/// Readers move forward to it; the version that was newest stays in the history.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    catalog: CatalogLocation,
    /// The name it was published under.
    name: String,
    /// Number of the version to go back to.
    #[arg(value_name = "VERSION")]
    to: u64,
    /// A label, NAME=TEXT, kept with the new version; may be given several times.
    #[arg(long = "label", value_name = "NAME=TEXT", value_parser = label)]
    labels: Vec<(String, String)>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let labels = args.labels.iter().cloned().collect();
    let options = PublishOptions::new().labels(labels);
    let published = args.catalog.open()?.rollback(&args.name, args.to, &options)?;
    let mut out = Out::new();
    if json {
        out.json(&published_to_json(&published))?;
    } else {
        let number = published.version.number;
        out.line(format!("{}: version {number} is as version {} was", args.name, args.to))?;
    }
    Ok(out.finish()?)
}
