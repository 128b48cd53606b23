//! `firn catalog stage`: stores a table for a later version of a name.

use super::CatalogLocation;
use crate::cmd::load::progress_bar;
use crate::failure::Result;
use crate::interrupt;
use crate::output::Out;
use firndb::catalog::StageOptions;
use std::path::PathBuf;

/// Store a table for a later version of a name.
///
/// Store a table, or one shard of a table, in a catalog without publishing it, and print one line
/// of JSON that describes it. `firn catalog publish --staged` publishes such lines. A staged file
/// stays until `firn catalog gc` finds it older than `--grace`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    catalog: CatalogLocation,
    /// The name that the file will be published under.
    name: String,
    /// File of a table.
    file: PathBuf,
}

/// The line is the same with and without `--json`.
pub fn run(args: &Args) -> Result<()> {
    let bar = progress_bar(Some(0));
    let progress = |sent, bytes| {
        bar.set_length(bytes);
        bar.set_position(sent);
    };
    let options = StageOptions::new().progress(&progress);
    let staged = args.catalog.create_for(&args.file).and_then(|catalog| {
        interrupt::says(
            "nothing was published; what was stored so far is removed by `firn catalog gc`",
        );
        catalog.stage(&args.name, &args.file, &options)
    });
    bar.finish_and_clear();
    let mut out = Out::new();
    out.line(staged?)?;
    Ok(out.finish()?)
}
