//! `firn table get`: prints the value of a key.

use super::{Source, answer, shown_key};
use crate::cmd::keys::KeyForm;
use crate::failure::Result;
use crate::output::Out;
use firndb::{Error, ErrorKind};
use std::ffi::OsString;

/// Get the value of a key.
///
/// For example: firn table get users.firn alice
///
/// Exit code 3 if the key is absent.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// The key: text, or hexadecimal digits with --hex.
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    key: Option<OsString>,
    #[command(flatten)]
    form: KeyForm,
    /// Print only the bytes of the value, without a newline; a record in Avro's binary encoding.
    #[arg(long)]
    raw: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    if args.raw && json {
        let message = "--raw prints bytes and --json an object; choose one of them";
        return Err(Error::invalid(message).into());
    }
    let key = args.form.one(args.key.as_deref())?;
    let table = args.source.open_any()?;
    let value = table.get(&key)?;
    let shown = table.shown()?;
    let mut out = Out::new();
    if json {
        out.json(&answer(&shown, &key, value.as_deref())?)?;
    } else if let Some(value) = &value {
        match args.raw {
            true => out.bytes(value)?,
            false => {
                out.bytes(&shown.text(&key, value)?)?;
                out.line("")?;
            }
        }
    }
    out.finish()?;
    match value {
        Some(_) => Ok(()),
        None => {
            let message = format!("there is no key {}", shown_key(&key));
            Err(Error::new(ErrorKind::NotFound, message).in_file(&args.source.path).into())
        }
    }
}
