//! `firn table mget`: prints the values of many keys, in the order of the keys.

use super::{Shown, Source, answer, from_hex, unescape};
use crate::failure::Result;
use crate::output::{Out, plural, thousands};
use firndb::{Error, ErrorKind};
use firndb_ingest::{Input, Progress};
use std::io::BufRead;
use std::path::PathBuf;

/// Get the values of many keys: one line KEY, tab, VALUE for each, in their order. A missing key is
/// printed without a value, and the exit code is 3.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// A file with one key per line, or `-` for standard input; .gz and .zst are decompressed.
    #[arg(default_value = "-", value_name = "KEYS")]
    keys: PathBuf,
    /// The keys are given in hexadecimal digits, two per byte.
    #[arg(long)]
    hex: bool,
    /// Separator of key and value; \t, \n, \0, \\ and \xHH are understood.
    #[arg(long, default_value = "\\t", value_name = "TEXT", value_parser = unescape)]
    separator: std::vec::Vec<u8>,
}

/// Keys looked up per batch.
const AT_ONCE: usize = 4096;

pub fn run(args: &Args, json: bool) -> Result<()> {
    let table = args.source.open()?;
    let shown = Shown::of(&table)?;
    let input = match args.keys.as_os_str() {
        name if name == "-" => Input::Stdin,
        _ => Input::File(args.keys.clone()),
    };
    let mut lines = input.open(&Progress::default())?;
    let mut out = Out::new();
    let (mut asked, mut missing, mut read_lines) = (0, 0, 0_u64);
    let mut keys: Vec<Vec<u8>> = Vec::new();
    loop {
        keys.clear();
        while keys.len() < AT_ONCE {
            let mut line = Vec::new();
            let read = lines.read_until(b'\n', &mut line);
            if read.map_err(|e| Error::io("read", input.name().as_ref(), e))? == 0 {
                break;
            }
            read_lines += 1;
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            keys.push(match args.hex {
                true => from_hex(&String::from_utf8_lossy(text)).map_err(|e| {
                    Error::invalid(format!("{}:{read_lines}: {}", input.name(), e.message()))
                })?,
                false => text.to_vec(),
            });
        }
        if keys.is_empty() {
            break;
        }
        table.read_many(&keys, |index, value| {
            let key = &keys[index];
            asked += 1;
            missing += u64::from(value.is_none());
            if json {
                return out.json(&answer(&shown, key, value)?);
            }
            out.bytes(key)?;
            if let Some(value) = value {
                out.bytes(&args.separator)?;
                out.bytes(&shown.text(key, value)?)?;
            }
            out.line("")
        })?;
    }
    out.finish()?;
    if missing > 0 {
        let message = format!("{} of {} not there", thousands(missing), plural(asked, "key"));
        return Err(Error::new(ErrorKind::NotFound, message).in_file(table.path()).into());
    }
    Ok(())
}
