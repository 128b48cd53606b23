//! `firn completions`: completion scripts for shells.

use crate::failure::Result;
use crate::output::Out;
use clap::CommandFactory;
use clap_complete::Shell;

/// Print a completion script for a shell.
///
/// For example: firn completions bash > /etc/bash_completion.d/firn
#[derive(clap::Args)]
pub struct Args {
    /// The shell.
    shell: Shell,
}

pub fn run(args: &Args) -> Result<()> {
    // Generated in memory first: the generator panics if its output is closed.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "firn", &mut script);
    let mut out = Out::new();
    out.bytes(&script)?;
    Ok(out.finish()?)
}
