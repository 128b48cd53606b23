//! `firn log list`: prints the keys.

use crate::failure::Result;
use std::ffi::OsString;
use std::path::PathBuf;

/// List the keys.
///
/// List the keys, in the order of their records on disk.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// Maximum number of keys shown.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Show keys with this prefix, which is in hexadecimal digits with --hex. All records are read.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<OsString>,
    /// Show keys in hexadecimal digits.
    #[arg(long)]
    hex: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let Args { dir, limit, prefix, hex } = args;
    super::scan::run(&super::scan::Args::keys(dir, *limit, prefix.clone(), *hex), json)
}
