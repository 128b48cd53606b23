//! `firn table list`: prints the keys.

use super::writer::Options;
use super::{Source, shown_of};
use crate::cmd::formats::FileFormat;
use crate::cmd::keys_wanted::KeysWanted;
use crate::failure::Result;

/// List the keys.
///
/// List the keys, in the order of the file. Ranges of keys need a table that was built with
/// --order key.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    wanted: KeysWanted,
    /// --prefix, --from and --to are in hexadecimal digits.
    #[arg(long)]
    hex: bool,
    /// Maximum number of keys shown.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let table = args.source.open()?;
    let shown = shown_of(&table)?;
    let format = if json { FileFormat::Jsonl } else { FileFormat::Text };
    let options = Options { format, separator: Vec::new(), keys_only: true, exact: false };
    super::scan::print(&table, &shown, options, (&args.wanted, args.hex), args.limit)
}
