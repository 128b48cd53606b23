//! `firn log list`: prints the keys.

use crate::cmd::keys_wanted::KeysWanted;
use crate::failure::Result;
use std::path::PathBuf;

/// List the keys.
///
/// List the keys: those of an ordered store in byte order, others in the order of their records on
/// disk.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// Maximum number of keys shown.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    wanted: KeysWanted,
    /// Show keys in hexadecimal digits.
    #[arg(long)]
    hex: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let Args { dir, limit, wanted, hex } = args;
    super::scan::run(&super::scan::Args::keys(dir, *limit, wanted.clone(), *hex), json)
}
