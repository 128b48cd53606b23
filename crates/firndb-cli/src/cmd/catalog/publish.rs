//! `firn catalog publish`: publishes the next version of a name.

use super::{CatalogLocation, label, published_to_json};
use crate::cmd::load::progress_bar;
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural, size, time};
use firndb::catalog::{PublishOptions, Published};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Publish a table or a collection as the next version of a name.
///
/// Files that the newest version already has are not sent again; on the same file system the rest
/// is hard-linked.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    catalog: CatalogLocation,
    /// The name to publish under.
    name: String,
    /// File of a table, or directory of a collection.
    path: PathBuf,
    /// A label, NAME=TEXT, kept with the version; may be given several times.
    #[arg(long = "label", value_name = "NAME=TEXT", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Read the files that the catalog already has, and replace damaged ones. Without it only their
    /// presence and their length are checked.
    #[arg(long)]
    verify: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    let published = publish(&args.catalog, &args.name, &args.path, &args.labels, args.verify)?;
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
        if published.files_repaired > 0 {
            let files = plural(published.files_repaired, "file");
            out.line(format!(
                "{}: {files} of the version before missing or damaged, stored once more",
                args.name
            ))?;
        }
    }
    Ok(out.finish()?)
}

/// Publishes the table or the collection at `path`.
pub fn publish(
    catalog: &CatalogLocation,
    name: &str,
    path: &Path,
    labels: &[(String, String)],
    verify: bool,
) -> firndb::Result<Published> {
    let bar = progress_bar(Some(0));
    interrupt::says("no version was published");
    let _step = interrupt::step();
    let progress = |sent, bytes| {
        interrupt::unwind();
        bar.set_length(bytes);
        bar.set_position(sent);
    };
    let labels = labels.iter().cloned().collect();
    let options = PublishOptions::new().labels(labels).progress(&progress).verify(verify);
    let published = catalog.create_for(path).and_then(|to| to.publish(name, path, &options));
    bar.finish_and_clear();
    if published.is_ok() {
        interrupt::says("the version is published");
    }
    published
}
