//! `firn catalog publish`: the next version of a name.

use super::{label, published_to_json};
use crate::failure::Result;
use crate::output::{Out, plural, size, time};
use firndb::catalog::{Catalog, PublishOptions, Published};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Publish a table or a collection as the next version of a name. What the newest version has
/// already is not sent again; on the same file system the rest is hard-linked.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the catalog; made if there is none.
    #[arg(value_name = "CATALOG")]
    dir: PathBuf,
    /// The name to publish under.
    name: String,
    /// File of a table, or directory of a collection.
    path: PathBuf,
    /// Something to say about the version; may be given several times.
    #[arg(long = "label", value_name = "NAME=TEXT", value_parser = label)]
    labels: Vec<(String, String)>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    let published = publish(&args.dir, &args.name, &args.path, &args.labels)?;
    let mut out = Out::new();
    if json {
        out.json(&published_to_json(&published))?;
    } else {
        out.line(format!(
            "{}: version {}, {}, {} of them new ({}), published in {}",
            args.name,
            published.version.number,
            plural(published.version.files.len() as u64, "file"),
            published.files_sent,
            size(published.bytes_sent),
            time(start.elapsed())
        ))?;
    }
    Ok(out.finish()?)
}

/// Publishes what is under a path.
pub fn publish(
    dir: &Path,
    name: &str,
    path: &Path,
    labels: &[(String, String)],
) -> firndb::Result<Published> {
    let labels = labels.iter().cloned().collect();
    let options = PublishOptions { labels, ..PublishOptions::default() };
    Catalog::create(dir)?.publish(name, path, &options)
}
