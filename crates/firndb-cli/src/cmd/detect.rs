//! `firn get PATH ...`: detects what a path is, and runs the command of its group.

use crate::failure::{Failure, Result};
use crate::kinds::{Kind, has_command, kind_of, refuse_foreign};
use clap::Parser;
use firndb::{Error, ErrorKind};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    /// A file or directory of FirnDB, first of all arguments.
    path: PathBuf,
    /// Further arguments of the command, such as a key or options.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    rest: Vec<OsString>,
}

/// What stands below the help.
const AFTER: &str = "\
The store is detected, and the other arguments are those of its own command: `firn get users \
alice` is `firn log get users alice` if `users` is a log store. `firn log get --help` describes \
them.";

impl Args {
    pub fn run(&self, verb: &str, json: bool) -> Result<()> {
        let found = kind_of(&self.path);
        if verb == "verify" && !matches!(found, Kind::Catalog) && self.rest.is_empty() {
            let args = super::verify::Args { path: self.path.clone() };
            return super::verify::run(&args, json);
        }
        let group = group(&self.path, found, verb)?;
        let words = [OsString::from("firn"), group.into(), verb.into(), self.path.clone().into()];
        let is_given = self.rest.iter().any(|word| word == "--json");
        let json = (json && !is_given).then(|| OsString::from("--json"));
        let words = words.into_iter().chain(self.rest.iter().cloned()).chain(json);
        match crate::Cli::try_parse_from(words) {
            Ok(cli) => crate::run(&cli),
            Err(error) => Err(Failure::usage(error)),
        }
    }
}

/// The group of commands for a path.
fn group(path: &Path, found: Kind, verb: &str) -> Result<&'static str> {
    if found == Kind::Missing {
        let message = "there is no such file or directory";
        return Err(Error::new(ErrorKind::NotFound, message).in_file(path).into());
    }
    refuse_foreign(path)?;
    // A damaged file is most likely a table; its own command reports the damage.
    let group = match found {
        Kind::Damaged => Some("table"),
        found => found.group(),
    };
    match group {
        Some(group) if has_command(group, verb) => Ok(group),
        group => {
            let others = group.map_or(String::new(), |group| {
                format!("; `firn {group} --help` lists what can be done with it")
            });
            let message = format!("this is {}, which has no `{verb}`{others}", found.noun());
            Err(Error::invalid(message).in_file(path).into())
        }
    }
}
