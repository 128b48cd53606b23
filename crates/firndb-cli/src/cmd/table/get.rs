//! `firn table get`: prints the value of a key.

use super::{Shown, Source, answer, from_hex, shown_key};
use crate::failure::Result;
use crate::output::Out;
use firndb::{Error, ErrorKind};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Get the value of a key: firn table get users.firn alice. Exit code 3 if the key is missing.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// The key: text, or hexadecimal digits with --hex.
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    key: Option<OsString>,
    /// The key is given in hexadecimal digits, two per byte.
    #[arg(long)]
    hex: bool,
    /// The key is the content of this file, byte by byte.
    #[arg(long, value_name = "FILE", conflicts_with = "hex")]
    file: Option<PathBuf>,
    /// Print only the bytes of the value, without a newline; a record in Avro's binary encoding.
    #[arg(long)]
    raw: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    if args.raw && json {
        let message = "--raw prints bytes and --json an object; choose one of them";
        return Err(Error::invalid(message).into());
    }
    let key = args.key()?;
    let table = args.source.open()?;
    let Some(value) = table.get(&key)? else {
        let message = format!("there is no key {}", shown_key(&key));
        return Err(Error::new(ErrorKind::NotFound, message).in_file(table.path()).into());
    };
    let mut out = Out::new();
    if args.raw {
        out.bytes(&value)?;
        return Ok(out.finish()?);
    }
    let shown = Shown::of(&table)?;
    if json {
        out.json(&answer(&shown, &key, Some(&value))?)?;
    } else {
        out.bytes(&shown.text(&key, &value)?)?;
        out.line("")?;
    }
    Ok(out.finish()?)
}

impl Args {
    fn key(&self) -> firndb::Result<Vec<u8>> {
        match (&self.key, &self.file) {
            (_, Some(path)) => std::fs::read(path).map_err(|e| Error::io("read", path, e)),
            (Some(text), _) if self.hex => from_hex(&text.to_string_lossy()),
            (text, _) => Ok(text.as_ref().map(|text| text.as_bytes().to_vec()).unwrap_or_default()),
        }
    }
}
