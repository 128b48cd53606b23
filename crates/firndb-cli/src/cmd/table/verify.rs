//! `firn table verify`: checks every byte of a table, and that each record can be found.

use super::open;
use crate::cmd::verify;
use crate::failure::Result;
use firndb::table::Access;
use std::path::PathBuf;

/// Check every byte of a table. Exit code 0 if all is well, 6 if something is corrupt.
#[derive(clap::Args)]
pub struct Args {
    /// The table.
    #[arg(value_name = "TABLE")]
    path: PathBuf,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    // Refuses files of other kinds.
    open(&args.path, Access::Map)?;
    verify::run(&verify::Args { path: args.path.clone() }, json)
}
