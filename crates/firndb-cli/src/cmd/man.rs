//! `firn man`: manual pages.

use crate::failure::Result;
use crate::output::Out;
use crate::target::{Content, check_file};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use firndb::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// Print the manual page of a command, or write all of them into a directory.
///
/// For example: firn man log put | man -l -; all of them: firn man -o /usr/share/man/man1
#[derive(clap::Args)]
pub struct Args {
    /// The command, such as `log put`; none is `firn` itself.
    #[arg(conflicts_with = "output")]
    command: Vec<String>,
    /// Write the pages of all commands into this directory.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Replace pages that are there already.
    #[arg(long, requires = "output")]
    force: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let mut all = crate::Cli::command();
    all.build();
    if let Some(dir) = &args.output {
        return write_all(&all, "firn", dir, args.force);
    }
    let (mut command, mut name) = (&all, "firn".to_string());
    for word in &args.command {
        let found = command.find_subcommand(word).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("`{name}` has no command `{word}`"))
        })?;
        name = format!("{name}-{}", found.get_name());
        command = found;
    }
    let mut out = Out::new();
    out.bytes(&page(command, &name)?)?;
    Ok(out.finish()?)
}

/// Writes the pages of a command and of those below it.
fn write_all(command: &Command, name: &str, dir: &Path, force: bool) -> Result<()> {
    let path = dir.join(format!("{name}.1"));
    check_file(&path, Content::Rows, force)?;
    std::fs::write(&path, page(command, name)?).map_err(|e| Error::io("write", &path, e))?;
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    for below in shown.filter(|below| below.get_name() != "help") {
        write_all(below, &format!("{name}-{}", below.get_name()), dir, force)?;
    }
    Ok(())
}

fn page(command: &Command, name: &str) -> firndb::Result<Vec<u8>> {
    let mut page = Vec::new();
    let command = command.clone().version(env!("CARGO_PKG_VERSION"));
    let rendered = Man::new(command).title(name.to_uppercase()).render(&mut page);
    rendered.map_err(|e| Error::new(ErrorKind::Failed, format!("cannot make the page: {e}")))?;
    Ok(page)
}
