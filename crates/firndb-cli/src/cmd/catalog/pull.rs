//! `firn catalog pull`: writes a version's files into a directory.

use super::location::Nearby;
use super::{CatalogLocation, version};
use crate::cmd::load::progress_bar;
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural, size, time};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Write a version's table or collection into a directory.
///
/// The directory must be missing, empty, that of an interrupted pull, which is resumed, or hold
/// nothing but this version. Every byte is checked.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    catalog: CatalogLocation,
    /// The name it was published under.
    name: String,
    /// The directory to write.
    #[arg(short = 'o', long = "output", value_name = "DIR")]
    to: PathBuf,
    /// Number of the version; the newest if it is left out.
    #[arg(long, value_name = "N")]
    version: Option<u64>,
    /// Number of files to fetch at the same time.
    #[arg(long, default_value_t = 8, value_name = "N")]
    threads: usize,
    #[command(flatten)]
    nearby: Nearby,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    let (store, version) = version(&args.catalog, &args.name, args.version)?;
    let store = args.nearby.before(store, None)?;
    interrupt::says(format!(
        "{} is incomplete: run the command again to go on, or remove it",
        args.to.display()
    ));
    let bar = progress_bar(Some(version.bytes()));
    let pulled = store.pull(&version, &args.to, args.threads, &|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    pulled?;
    interrupt::says("the version is complete");
    let (files, bytes) = (version.files.len() as u64, version.bytes());
    let mut out = Out::new();
    if json {
        let number = version.number;
        out.json(&json!({
            "name": args.name, "version": number, "files": files, "size_bytes": bytes,
        }))?;
    } else {
        out.line(format!(
            "{}: version {} of {}, {}, {}, in {}",
            args.to.display(),
            version.number,
            args.name,
            plural(files, "file"),
            size(bytes),
            time(start.elapsed())
        ))?;
    }
    Ok(out.finish()?)
}
